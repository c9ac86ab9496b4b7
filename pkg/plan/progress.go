package plan

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// poolStatuses counts what is left, and remembers when each pool began and ended.
func poolStatuses(l look) []v1alpha1.PoolStatus {
	var out []v1alpha1.PoolStatus
	for _, p := range l.pools {
		out = append(out, poolStatus(l, p))
	}
	return out
}

func poolStatus(l look, p pool) v1alpha1.PoolStatus {
	before := l.status(p.Name)
	s := v1alpha1.PoolStatus{
		Name: p.Name, NodeGroups: p.NodeGroups, Nodes: int32(p.recorded), NodesLeft: int32(len(p.nodes)),
		StartTime: before.StartTime, DrainedTime: before.DrainedTime, CompletionTime: before.CompletionTime,
	}
	if np, ok := nodePool(l, p.Name); ok && !stopped(np) {
		s.NodePool = np.Name
	}
	for _, n := range p.nodes {
		if begun(n) {
			s.NodesDraining++
			s.PodsLeft += int32(l.Drains[n.Name].Evictable)
		}
	}
	s.Phase = poolPhase(l, p, s)
	if s.StartTime == nil && slices.ContainsFunc(p.nodes, func(n inventory.Node) bool { return begun(n) || l.warm(n) }) {
		s.StartTime = stamp(l.now)
	}
	switch s.Phase {
	case v1alpha1.PoolPending:
		// What Cluster Autoscaler does to its own groups is no progress, and no reason to write the status.
		s.NodesLeft, s.StartTime, s.DrainedTime, s.CompletionTime = s.Nodes, nil, nil, nil
	case v1alpha1.PoolDone:
		s.CompletionTime = first(s.CompletionTime, l.now)
		s.DrainedTime = first(s.DrainedTime, l.now)
	case v1alpha1.PoolSoaking:
		s.DrainedTime = first(s.DrainedTime, l.now)
	default:
		s.DrainedTime, s.CompletionTime = nil, nil // a legacy node came back
	}
	return s
}

func poolPhase(l look, p pool, s v1alpha1.PoolStatus) v1alpha1.PoolPhase {
	switch {
	case s.NodePool == "":
		return v1alpha1.PoolPending
	case rollsBack(l.m):
		return v1alpha1.PoolFenced // its old nodes are on their way back; it does not soak
	case p.gone() && l.Snapshot != nil:
		if halted(l.m) && l.status(p.Name).Phase == v1alpha1.PoolSoaking {
			return v1alpha1.PoolSoaking // at rest nothing comes to its end by the time alone
		}
		if settlePool(&outcome{}, l, p) {
			return v1alpha1.PoolSoaking
		}
		return v1alpha1.PoolDone
	case s.NodesDraining > 0:
		return v1alpha1.PoolDraining
	default:
		return v1alpha1.PoolFenced
	}
}

// first keeps the time at which something was first so.
func first(before *metav1.Time, now time.Time) *metav1.Time {
	if before != nil {
		return before
	}
	return stamp(now)
}

// Blocks says whether one of the blockers needs a human.
func Blocks(blockers []v1alpha1.Blocker) bool {
	return slices.ContainsFunc(blockers, func(b v1alpha1.Blocker) bool { return b.Severity == v1alpha1.SeverityBlock })
}
