package plan

import (
	"slices"
	"time"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// PoolServing is who scales a pool at one look. The promise is that it is exactly one, but for the seconds of a change of hands.
type PoolServing struct {
	Pool string
	// Scalers that work, as kind/namespace/name or kind/name: every Cluster Autoscaler that leads and lists a group of the pool, and
	// the pool's NodePool while it is Ready and may launch.
	Scalers []string
}

// Unserved says that nobody launches a node for the pool's pods.
func (s PoolServing) Unserved() bool { return len(s.Scalers) == 0 }

// DoubleServed says that two may launch a node for the same pod.
func (s PoolServing) DoubleServed() bool { return len(s.Scalers) > 1 }

// serving says of each pool who scales it now. A pool that nobody scaled before castoff, and that was not handed over, is left out:
// nobody misses what was never there. So are all of them while another Migration acts on the cluster.
func serving(l look) []PoolServing {
	if l.OtherMigration != "" {
		return nil
	}
	var out []PoolServing
	for _, p := range l.pools {
		s := PoolServing{Pool: p.Name}
		for _, a := range l.Autoscalers {
			if scalesPool(a, p, l.now) {
				s.Scalers = append(s.Scalers, a.Object())
			}
		}
		np, handedOver := nodePool(l, p.Name)
		if handedOver && !stopped(np) && isReady(np.Status.Conditions) {
			s.Scalers = append(s.Scalers, "nodepool/"+np.Name)
		}
		if !s.Unserved() || handedOver || meantToScale(l, p) {
			out = append(out, s)
		}
	}
	return out
}

// scalesPool says that a Cluster Autoscaler leads with a group of the pool listed. It goes by what the Autoscaler lists and not by
// the groups' tags: one whose tags were taken off is scaled until it is listed no more. One that writes no status is taken at its
// Lease's word.
func scalesPool(a inventory.Autoscaler, p pool, now time.Time) bool {
	switch {
	case !elected(a):
		return false
	case a.StatusTime.IsZero():
		return slices.ContainsFunc(p.groups, a.Manages)
	case now.Sub(a.StatusTime) > statusFresh:
		return false
	}
	return slices.ContainsFunc(p.groups, func(g inventory.NodeGroup) bool { return slices.Contains(a.Groups, g.AutoScalingGroup) })
}

// meantToScale says that a Cluster Autoscaler is there for the pool, or was when the snapshot was taken.
func meantToScale(l look, p pool) bool {
	if slices.ContainsFunc(l.Autoscalers, func(a inventory.Autoscaler) bool { return slices.ContainsFunc(p.groups, a.Manages) }) {
		return true
	}
	if l.Snapshot == nil {
		return false
	}
	return slices.ContainsFunc(l.Snapshot.Autoscalers, func(a inventory.Autoscaler) bool {
		return slices.ContainsFunc(p.NodeGroups, func(name string) bool {
			recorded, ok := l.Snapshot.Group(name)
			return ok && a.Manages(recorded.Group)
		})
	})
}
