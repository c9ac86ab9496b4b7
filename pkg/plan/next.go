package plan

import (
	"slices"
	"time"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

const (
	// soon is the pace of looking at what no watch reports: AWS, and pods.
	soon = 2 * time.Second
	// atRest is the pace of looking at a migration that waits for a human.
	atRest = 30 * time.Second
	// warned is the pace of looking at a finished migration that has something to warn of.
	warned = time.Minute
	// guard is the pace of looking at a finished migration: the Lease is renewed, and a group that came back is seen.
	guard = 5 * time.Minute
)

// Next says what to do now. It is pure: the same migration, world and time give the same decision.
func Next(m *v1alpha1.Migration, w World, now time.Time) Decision {
	l := newLook(m, w, now)
	led := openLedger(m.Status.Operations, w, now)
	d := decide(&led, l)
	if !halted(m) && l.OtherMigration == "" {
		d.Blockers = append(d.Blockers, straddlers(l)...) // the next change of hands waits, and says so now
	}
	d.Actions = append(dropStale(l), d.Actions...)
	d.Actions = append(d.Actions, renewals(l, d.Actions)...)
	d.Actions = admit(&led, &d, w.Groups, now)
	told := tellMended(led, openLedger(m.Status.Operations, w, now), l)
	d.Blockers = append(d.Blockers, told...)
	d.Until = soonest(d.Until, renewalAt(l))
	if len(told) > 0 {
		d.Until = soonest(d.Until, now.Add(toldFor))
	}
	// What was asked for before may still come true, and what is told for a while goes by itself: at rest nothing changes any more.
	d.Rested = d.Rested && firstStop(d.Blockers) == nil && len(told) == 0
	d.Operations = led
	d.Pools = poolStatuses(l)
	d.Waves = waveStatuses(l)
	d.Serving, d.Passed = serving(l), allPassed(l)
	d.Blockers = append(d.Blockers, unusedRisks(l, d.Blockers, d.Passed)...)
	d.ETA = estimate(l, d.Pools)
	d.Blockers = since(d.Blockers, m.Status.Blockers, now)
	d.Conditions = conditions(l, d)
	return d
}

func decide(led *ledger, l look) Decision {
	switch {
	case l.OtherMigration != "":
		return another(l)
	case halted(l.m):
		return halt(led, l)
	}
	d := Decision{}
	all := stagesOf(led, l)
	for i, p := range all {
		o := p.next(led, p.look)
		d.Blockers = append(d.Blockers, o.blockers...)
		d.act(o.actions)
		if o.done {
			d.Until = soonest(d.Until, o.until)
			continue
		}
		d.Phase, d.Until = furthest(all, i), o.until
		if o.phase != "" {
			d.Phase = o.phase
		}
		if d.Until.IsZero() {
			d.Until = l.now.Add(soon)
		}
		return d
	}
	d.Phase, d.Until = v1alpha1.PhaseCompleted, soonest(d.Until, l.now.Add(guard))
	d.Rested = upkeep(d.Actions) && firstStop(d.Blockers) == nil
	if len(d.Blockers) > 0 {
		d.Until = soonest(d.Until, l.now.Add(warned)) // somebody may be doing what the warning says
	}
	return d
}

func another(l look) Decision {
	o := outcome{}
	o.block(v1alpha1.ReasonAnotherMigrationActive, "migration/"+l.OtherMigration,
		"Migration "+l.OtherMigration+" is older and unfinished, and one Migration acts on a cluster: delete it, or delete this one.")
	return Decision{Phase: v1alpha1.PhaseAssessing, Blockers: o.blockers, Until: l.now.Add(atRest)}
}

// admit drops the effects that the ledger makes wait, and says so.
func admit(led *ledger, d *Decision, groups []inventory.NodeGroup, now time.Time) []Action {
	var out []Action
	for _, a := range d.Actions {
		l, ok := a.(Ledgered)
		if !ok {
			out = append(out, a)
			continue
		}
		if name, busy := updating(a); busy {
			d.Blockers = append(d.Blockers, v1alpha1.Blocker{
				Severity: v1alpha1.SeverityWait, Reason: "NodeGroupUpdating", Object: "nodegroup/" + name,
				Message: "EKS is updating the node group and takes no other change of it until that is done.",
			})
			continue
		}
		if led.fights(l, now) {
			d.Blockers = append(d.Blockers, refuse(groups, l))
			continue
		}
		if led.full(now) || !led.admit(l, now) {
			continue
		}
		out = append(out, a)
	}
	if op, ok := led.oldestPending(now); ok && len(out) == 0 {
		d.Blockers = append(d.Blockers, v1alpha1.Blocker{
			Severity: v1alpha1.SeverityWait, Reason: "EffectNotVisible", Object: op.ID,
			Message: "The last change was asked for and is not visible yet; castoff makes no other on it until it is.",
		})
		d.Until = soonest(d.Until, now.Add(soon))
	}
	return out
}

// updating names the managed node group that an action would change through EKS while EKS is at it: EKS answers
// ResourceInUseException then (EKS API reference, UpdateNodegroupConfig and DeleteNodegroup).
func updating(a Action) (string, bool) {
	var g inventory.NodeGroup
	switch a := a.(type) {
	case SetGroupSize:
		g = a.Group
	case DeleteGroup:
		g = a.Group
	}
	return g.Name, g.Managed != nil && g.Managed.Status == "UPDATING"
}

// since carries over when a blocker was first seen, and drops doubles.
func since(blockers, before []v1alpha1.Blocker, now time.Time) []v1alpha1.Blocker {
	type key struct{ reason, object, pool string }
	seen := map[key]bool{}
	out := make([]v1alpha1.Blocker, 0, len(blockers))
	for _, b := range blockers {
		k := key{b.Reason, b.Object, b.Pool}
		if seen[k] {
			continue
		}
		seen[k] = true
		t := stamp(now)
		if i := slices.IndexFunc(before, func(o v1alpha1.Blocker) bool { return key{o.Reason, o.Object, o.Pool} == k }); i >= 0 && before[i].Since != nil {
			t = before[i].Since
		}
		b.Since = t
		out = append(out, b)
	}
	return out
}
