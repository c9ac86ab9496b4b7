package plan

import (
	"slices"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// waveStatuses records the changes of hands.
func waveStatuses(l look) []v1alpha1.WaveStatus {
	if l.Snapshot == nil {
		return nil
	}
	var out []v1alpha1.WaveStatus
	for _, w := range l.waves {
		out = append(out, waveStatus(l.only(w)))
	}
	return out
}

// waveStatus keeps the times at which Cluster Autoscaler was first seen to have let go of the wave, its NodePools to serve it, and, on
// the way back, Cluster Autoscaler to scale it again.
func waveStatus(l look) v1alpha1.WaveStatus {
	w := v1alpha1.WaveStatus{Name: l.wave}
	for _, before := range l.m.Status.Waves {
		if before.Name == l.wave {
			w = *before.DeepCopy()
		}
	}
	w.Pools = nil
	for _, p := range l.pools {
		w.Pools = append(w.Pools, p.Name)
	}
	serving, all := servedPools(l)
	held := slices.ContainsFunc(l.Autoscalers, func(a inventory.Autoscaler) bool { return holds(a, l) })
	back := slices.ContainsFunc(l.Autoscalers, func(a inventory.Autoscaler) bool { return leads(a, l) && scalesNow(a, l) })
	switch {
	case serving && w.ReturnedTime != nil: // once more
		w.ReleasedTime, w.ServedTime, w.ReturnedTime = nil, nil, nil
	case !serving && back && w.ReleasedTime != nil:
		w.ReturnedTime = first(w.ReturnedTime, l.now)
	}
	if handingOverReached(l) && w.ReturnedTime == nil && !held {
		w.ReleasedTime = first(w.ReleasedTime, l.now)
	}
	if all {
		w.ServedTime = first(w.ServedTime, l.now)
	}
	return w
}

// servedPools says whether any of the pools has a NodePool that serves it, and whether each has one that is Ready.
func servedPools(l look) (serving, all bool) {
	all = len(l.pools) > 0
	for _, p := range l.pools {
		np, ok := nodePool(l, p.Name)
		serves := ok && !stopped(np)
		serving, all = serving || serves, all && serves && isReady(np.Status.Conditions)
	}
	return serving, all
}

// holds says that a Cluster Autoscaler has not let go of the wave.
func holds(a inventory.Autoscaler, l look) bool {
	if !keeps(a, l) {
		return manages(a, l) && !a.Stopped()
	}
	return slices.ContainsFunc(l.pools, func(p pool) bool {
		return slices.ContainsFunc(p.groups, func(g inventory.NodeGroup) bool { return a.Manages(g) || a.Lists(g) })
	})
}
