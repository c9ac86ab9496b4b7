package plan

import (
	"cmp"
	"slices"
	"strings"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// rollsBack says that the user asked for the way back.
func rollsBack(m *v1alpha1.Migration) bool {
	return m.Spec.Paused && m.Spec.OnPause == v1alpha1.OnPauseRollBack
}

// halted says that the migration is not to go forward: it is paused, or it was deleted and comes to rest first.
func halted(m *v1alpha1.Migration) bool { return m.Spec.Paused || m.DeletionTimestamp != nil }

// halt comes to rest: back with Cluster Autoscaler, or wherever is nearer. Nothing is evicted from the moment that it is
// asked for, but on the way back, from Karpenter's nodes.
func halt(led *ledger, l look) Decision {
	d := Decision{Phase: v1alpha1.PhasePaused, Until: l.now.Add(guard)}
	var o outcome
	switch {
	case l.SnapshotProblem != "":
		if o = unusableSnapshot(l); rollsBack(l.m) {
			d.Phase = v1alpha1.PhaseRollingBack
		}
		if l.m.DeletionTimestamp != nil {
			o.block("CannotRest", "migration/"+l.m.Name, "It was deleted and cannot come to rest without its snapshot. To let it go with the cluster as it is: kubectl patch migration "+l.m.Name+` --type=merge -p '{"metadata":{"finalizers":null}}'`)
		}
	case rollsBack(l.m):
		if o = rollingBack(led, l); o.done {
			d.Phase = v1alpha1.PhaseRolledBack
		} else {
			d.Phase = v1alpha1.PhaseRollingBack
		}
	default:
		o = settling(led, l)
	}
	d.Actions, d.Blockers, d.Rested = o.actions, o.blockers, o.done
	if !o.done {
		d.Until = cmp.Or(o.until, l.now.Add(soon))
	}
	return d
}

// settling puts what is not drained back in service and leaves every pool with one scaler. Before the hand-over, everything
// done is undone; inside it, the pools go to whichever side one change of hands away; after it they stay with Karpenter, and
// the old nodes that are left are a fixed number.
func settling(led *ledger, l look) outcome {
	side := nearest(led, l)
	if side == sideAutoscaler {
		return rollingBack(led, l)
	}
	o := outcome{}
	for _, p := range l.pools {
		releaseNodes(&o, *led, l.now, p.nodes)
		releaseNodes(&o, *led, l.now, karpenterNodes(l, p))
	}
	if side == sideKarpenter {
		settleWithKarpenter(&o, led, l)
	} else {
		startAutoscalers(&o, led, l)
		restoreQuieted(&o, led, l)
	}
	o.done = o.idle()
	return o
}

// settleWithKarpenter ends a hand-over that was begun, and holds what was taken over.
func settleWithKarpenter(o *outcome, led *ledger, l look) {
	for _, w := range l.waves {
		if one := l.only(w); takenOver(led, one) && release(o, led, one) {
			serve(o, led, one)
		}
	}
	for _, p := range l.pools {
		for _, g := range p.groups {
			if slices.ContainsFunc(g.Instances, leaving) {
				o.wait("InstancesLeaving", "nodegroup/"+g.Name, "The last drained instances are on their way out.")
			}
		}
	}
}

// leaving: Terminating, Terminating:Wait, Terminating:Proceed (Auto Scaling user guide, "instance lifecycle").
func leaving(i inventory.Instance) bool { return strings.HasPrefix(i.Lifecycle, "Terminating") }
