package plan

import "github.com/castoff-sh/castoff/api/v1alpha1"

// paused makes no change but one: Cluster Autoscaler's Lease, once held, stays held, because a pool that Karpenter serves
// must not get a second scaler while everybody sleeps.
func paused(l look) Decision {
	d := Decision{Phase: v1alpha1.PhasePaused, Until: l.now.Add(guard)}
	if !handingOverReached(l) {
		return d
	}
	o := holdLeases(l)
	d.Actions, d.Blockers = o.actions, o.blockers
	return d
}
