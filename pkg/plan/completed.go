package plan

// completedReached: every pool is empty, at its end size, and soaked.
func completedReached(l look) bool {
	if l.Snapshot == nil || len(l.pools) == 0 {
		return false
	}
	for _, p := range l.pools {
		if !p.gone() || settlePool(&outcome{}, l, p) {
			return false
		}
	}
	return true
}

// completed has nothing to do but to keep the Lease, which the hand-over's step renews. The groups and Cluster Autoscaler
// stay at zero for the way back.
func completed(_ *ledger, l look) outcome {
	return outcome{done: true, until: l.now.Add(guard)}
}
