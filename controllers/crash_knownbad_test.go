package controllers

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// TestCrashKnownBad keeps bad controllers beside the good one, and shows that the very trials that the good one passes
// catch each of them.
func TestCrashKnownBad(t *testing.T) {
	c := forward(t, testLag)
	back := backward(t, c.end)
	cases := map[string]struct {
		reason string
		spoil  func(*world)
		trials []trial
		at     string // the trials' names end with it
		want   string
	}{
		"DeltaSizes": {
			reason: "a size that is asked for as a difference is asked for twice when the answer is lost",
			spoil:  inPlaceOfGroups(func(p ports) NodeGroups { return deltas{p} }),
			trials: lostReplies("back", back), at: "SetSize", want: "group",
		},
		"BelievesStatus": {
			reason: "what was written down before it was made is taken for made",
			spoil:  inPlaceOfGroups(func(p ports) NodeGroups { return believer{p} }),
			trials: once("forward", c), want: "missing: ",
		},
		"NoFreshnessGuard": {
			reason: "reads still show an instance whose end was asked for: it is asked for again, and AWS ends another one",
			spoil:  func(w *world) { w.before = w.forget },
			trials: lostReplies("forward", c)[:1], want: "AWS ended",
		},
		"NoFence": {
			reason: "a leader that leads no more writes its ledger over the new one's, and goes on to act",
			spoil:  func(w *world) { w.c.careless = true },
			trials: append(staleLeaders("forward", c), staleLeaders("back", back)...), at: "write 2", want: "AWS ended",
		},
		"EvictsTheOnlyPod": {
			reason: "a pod that nobody stands in for is evicted like any other",
			spoil:  inPlaceOfDrainer(func(p drainerPort) Drainer { return heedless{drainerPort: p} }),
			trials: once("forward", c)[:1], want: "the only pod",
		},
		"EvictsTheOnlyPodOnTheWayBack": {
			reason: "and so it is from Karpenter's nodes",
			spoil:  inPlaceOfDrainer(func(p drainerPort) Drainer { return heedless{drainerPort: p} }),
			trials: once("back", back)[:1], want: "the only pod",
		},
		"DoesNotWait": {
			reason: "its successor is on its way, and it is evicted before that is Ready",
			spoil:  inPlaceOfDrainer(func(p drainerPort) Drainer { return heedless{drainerPort: p, restarts: true} }),
			trials: once("forward", c)[:1], want: "the only pod",
		},
		"EndsWithoutLooking": {
			reason: "an answer that is lost is taken for a call that was not made",
			spoil:  inPlaceOfGroups(func(p ports) NodeGroups { return impatient{p} }),
			trials: lostReplies("forward", c), at: "EndInstances", want: "AWS ended",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, x := range tc.trials {
				if !strings.HasSuffix(x.name, tc.at) {
					continue
				}
				good := x.set
				x.set = func(w *world) {
					if good != nil {
						good(w)
					}
					tc.spoil(w)
				}
				wrong := x.run(t, &crashReport{})
				if i := slices.IndexFunc(wrong, func(s string) bool { return strings.Contains(s, tc.want) }); i >= 0 {
					t.Logf("%s: caught by %q: %.200s", tc.reason, x.name, wrong[i])
					return
				}
			}
			t.Errorf("%s: none of %d trials notices", tc.reason, len(tc.trials))
		})
	}
}

// inPlaceOfGroups gives every process another port of the node groups.
func inPlaceOfGroups(of func(ports) NodeGroups) func(*world) {
	return func(w *world) {
		w.spoil = func(r *Reconciler) {
			r.Observer.NodeGroupsOf = func(string) NodeGroups { return of(ports{w}) }
		}
	}
}

// forget empties the ledger.
func (w *world) forget() {
	m := w.migration().DeepCopy()
	m.Status.Operations = nil
	w.c.put(m)
}

// deltas changes desired by what is missing in what was read.
type deltas struct{ ports }

func (d deltas) SetSize(_ context.Context, of inventory.NodeGroup, minimum, maximum, desired int32) error {
	return d.onGroup("SetSize", of.AutoScalingGroup, func(g *inventory.NodeGroup) error {
		g.Min, g.Max, g.Desired = minimum, maximum, g.Desired+desired-of.Desired
		return nil
	})
}

// believer shows the groups as the status says that they are.
type believer struct{ ports }

func (b believer) List(ctx context.Context, also ...string) ([]inventory.NodeGroup, error) {
	shown, err := b.ports.List(ctx, also...)
	out := slices.Clone(shown)
	for i := range out {
		out[i] = copyGroup(out[i])
		for _, op := range b.w.migration().Status.Operations {
			kind, target, _ := strings.Cut(op.ID, "/")
			if target == out[i].AutoScalingGroup {
				believe(&out[i], kind, strings.Split(op.Detail, ":"))
			}
		}
	}
	return out, err
}

func (b believer) Refresh(ctx context.Context, _ []inventory.NodeGroup) ([]inventory.NodeGroup, error) {
	return b.List(ctx)
}

func believe(g *inventory.NodeGroup, kind string, names []string) {
	switch kind {
	case "DisablePolicies":
		for i := range g.ScalingPolicies {
			g.ScalingPolicies[i].Active = g.ScalingPolicies[i].Active && !slices.Contains(names, g.ScalingPolicies[i].Name)
		}
	case "DeleteScheduledActions":
		g.ScheduledActions = slices.DeleteFunc(g.ScheduledActions, func(s inventory.ScheduledAction) bool { return slices.Contains(names, s.Name) })
	}
}

// impatient asks again at once for the end of instances, as an SDK does by itself.
type impatient struct{ ports }

func (p impatient) EndInstances(ctx context.Context, asg string, ids []string) error {
	err := p.ports.EndInstances(ctx, asg, ids)
	if err != nil {
		err = p.ports.EndInstances(ctx, asg, ids)
	}
	return err
}

func TestNothingIsWrittenWhenThereIsNothingToDo(t *testing.T) {
	w := newWorld(t)
	migrate(t, w)
	w.writes = 0
	before := get(t, w).ResourceVersion
	r := w.reconciler()
	for range 5 {
		if _, err, _ := reconcileOnce(r); err != nil {
			t.Fatal(err)
		}
		w.advance(time.Minute)
	}
	if w.writes != 0 || get(t, w).ResourceVersion != before {
		t.Errorf("%d writes by a completed migration: %v", w.writes, w.calls)
	}
}
