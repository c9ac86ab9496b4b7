package controllers

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// blockedBy is where a human is asked for, because of that reason of the gate.
func blockedBy(reason string) place {
	return func(w *world) bool {
		m := w.migration()
		return meta.IsStatusConditionTrue(m.Status.Conditions, v1alpha1.ConditionStalled) &&
			slices.ContainsFunc(m.Status.Blockers, func(b v1alpha1.Blocker) bool {
				return b.Reason == reason && b.Object == "gate/errors" && b.Severity == v1alpha1.SeverityBlock
			})
	}
}

// waitsFor is where the gate is waited for and nobody is called.
func waitsFor(reason string) place {
	return func(w *world) bool {
		m := w.migration()
		return !meta.IsStatusConditionTrue(m.Status.Conditions, v1alpha1.ConditionStalled) &&
			slices.ContainsFunc(m.Status.Blockers, func(b v1alpha1.Blocker) bool { return b.Reason == reason && b.Severity == v1alpha1.SeverityWait })
	}
}

// TestGatesInAWholeMigration: what is not well stops the next pool and says so, and the migration goes on by itself when it is.
func TestGatesInAWholeMigration(t *testing.T) {
	cases := map[string]struct {
		reason string
		server monitoring
		places []place // on the way to the end, in this order
	}{
		"Holds":        {"a gate that holds stops nothing", monitoring{}, nil},
		"Fails":        {"one that does not hold pauses the pool, and a human is told", monitoring{fails: 10 * time.Minute}, []place{blockedBy("GateFailed")}},
		"Away":         {"a Prometheus that is restarted is waited for, and one that stays away is a human's", monitoring{away: 10 * time.Minute}, []place{waitsFor("GateUnknown"), blockedBy("GateUnknown")}},
		"AwayForShort": {"nobody is called for a restart", monitoring{away: time.Minute}, []place{waitsFor("GateUnknown")}},
		"Late":         {"an answer that comes too late is none, and the next one counts", monitoring{late: 5 * time.Minute}, []place{waitsFor("GateUnknown")}},
		"All":          {"one after the other", monitoring{away: 2 * time.Minute, late: 4 * time.Minute, fails: 8 * time.Minute}, []place{waitsFor("GateUnknown"), blockedBy("GateFailed")}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.monitoring = tc.server
			apply(t, w, gated)
			for i, wanted := range tc.places {
				if err := w.drive(wanted, mostLooks); err != nil {
					t.Fatalf("%s: place %d: %v", tc.reason, i, err)
				}
				for _, pool := range testPools {
					if !w.serves(pool) {
						t.Errorf("%s: nobody serves %s while the gate is waited for", tc.reason, pool)
					}
				}
			}
			if err := w.drive(isCompleted, mostLooks); err != nil {
				t.Fatalf("%s: %v", tc.reason, err)
			}
			if wrong := rightEnd(w, w.migration()); len(wrong) > 0 {
				t.Errorf("%s:\n%s", tc.reason, strings.Join(wrong, "\n"))
			}
			troubled := max(tc.server.away, tc.server.late, tc.server.fails)
			if most := 4 + int(troubled/(10*time.Second)); w.monitoring.asked < 2 || w.monitoring.asked > most {
				t.Errorf("%s: Prometheus was asked %d times, want two at least (one for each pool) and %d at most", tc.reason, w.monitoring.asked, most)
			}
		})
	}
}

// TestAPausedGateAsksNobody: whoever pauses, or goes back, is not held up by a gate, and Prometheus is left alone.
func TestAPausedGateAsksNobody(t *testing.T) {
	for name, tc := range map[string]struct {
		edit   func(*v1alpha1.Migration)
		wanted place
	}{
		"Settle":   {settle, isSettled},
		"RollBack": {rollBack, isRolledBack},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.monitoring.fails = 24 * time.Hour
			apply(t, w, gated)
			if err := w.drive(blockedBy("GateFailed"), mostLooks); err != nil {
				t.Fatal(err)
			}
			asked := w.monitoring.asked
			w.user(tc.edit)
			if err := w.drive(tc.wanted, mostLooks); err != nil {
				t.Fatal(err)
			}
			if wrong := w.rest(); len(wrong) > 0 || w.monitoring.asked != asked {
				t.Errorf("asked %d times more, and:\n%s", w.monitoring.asked-asked, strings.Join(wrong, "\n"))
			}
		})
	}
}

// while is the part of a course in which something is so.
func (c course) while(so func(*world) bool) course {
	part := course{start: c.start, end: c.end, wanted: c.wanted, portrait: c.portrait}
	for n, p := range c.points {
		if so(p) {
			part.points, part.names = append(part.points, p), append(part.names, c.names[n])
		}
	}
	for _, l := range c.looks {
		if so(l) {
			part.looks = append(part.looks, l)
		}
	}
	return part
}

// TestCrashAtAGate ends the process, changes the leader, loses and refuses answers and lets the user turn while a gate is asked for.
func TestCrashAtAGate(t *testing.T) {
	report := &crashReport{}
	w := newWorld(t)
	w.live()
	w.monitoring = monitoring{away: 30 * time.Second, late: 90 * time.Second, fails: 3 * time.Minute}
	apply(t, w, gated)
	c := walk(t, w, isCompleted)
	back := backward(t, c.end)
	held := slices.IndexFunc(c.points, func(p *world) bool { return p.monitoring.held })
	at := c.while(func(p *world) bool { return p.monitoring.asked > 0 && p.now.Sub(p.monitoring.first) < 4*time.Minute })
	if held < 0 || len(at.points) < 20 || len(at.looks) < 10 {
		t.Fatalf("the gate held at point %d, and was asked for at %d points and %d looks: the world does not ask it", held, len(at.points), len(at.looks))
	}
	for _, s := range []struct {
		kind   string
		trials []trial
	}{
		{"crash", once("gate", at)},
		{"crash twice", pairs("gate", at, 40)},
		{"stale leader", staleLeaders("gate", at)},
		{"rollback", rollbacks(at, back)},
		{"pause flipped", flips("gate", at, c.portrait)},
		{"refused", refused(t, "gate", at)},
	} {
		sweep(t, report, s.kind, s.trials)
	}
}

// TestCrashAtAGateKnownBad: a controller that takes silence for consent is caught.
func TestCrashAtAGateKnownBad(t *testing.T) {
	w := newWorld(t)
	w.monitoring.away = 10 * time.Minute
	w.spoil = func(r *Reconciler) { r.Observer.Ports.Gates = optimist{gatePort{w}} }
	apply(t, w, gated)
	if err := w.drive(isCompleted, mostLooks); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(w.broken, func(s string) bool { return strings.Contains(s, "before the gate holds") }) {
		t.Errorf("the world does not notice: %v", w.broken)
	}
}

// optimist says that the gate holds when nobody answers.
type optimist struct{ gatePort }

func (o optimist) Query(ctx context.Context, url, query string) ([]inventory.Sample, error) {
	samples, err := o.gatePort.Query(ctx, url, query)
	if err != nil {
		return []inventory.Sample{{Value: 0}}, nil
	}
	return samples, nil
}
