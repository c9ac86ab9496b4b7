package plan

import (
	"slices"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// paused evicts nothing and changes nothing in AWS. Two things go on, because a pause may last: Cluster Autoscaler's Lease,
// once held, stays held, so that a pool that Karpenter serves gets no second scaler; and a hand-over that was cut between
// Cluster Autoscaler's end and the first NodePool goes on to the nearer side, so that no pool rests without a scaler.
func paused(led *ledger, l look) Decision {
	d := Decision{Phase: v1alpha1.PhasePaused, Until: l.now.Add(guard)}
	if !handingOverReached(l) && (l.Snapshot == nil || !stoppedByUs(led, l)) {
		return d
	}
	o := holdLeases(l)
	if served(l) {
		d.Actions, d.Blockers = o.actions, o.blockers
		return d
	}
	d.Until = l.now.Add(soon)
	if slices.ContainsFunc(l.Autoscalers, func(a inventory.Autoscaler) bool { return manages(a, l) && !a.Stopped() && !standby(a) }) {
		o.wait("AutoscalerStopping", "migration/"+l.m.Name, "The pause came while Cluster Autoscaler was being stopped; once it is gone, Karpenter takes the pools, and then everything rests.")
	} else {
		for _, p := range l.pools {
			serveWith(&o, l, p)
		}
	}
	d.Actions, d.Blockers = o.actions, o.blockers
	return d
}

// served says that every pool has its NodePool.
func served(l look) bool {
	return !slices.ContainsFunc(l.pools, func(p pool) bool {
		_, ok := nodePool(l, p.Name)
		return !ok
	})
}
