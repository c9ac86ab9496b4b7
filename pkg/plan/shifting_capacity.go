package plan

import (
	"cmp"
	"slices"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// CheckCapacity is a pool for which Karpenter cannot launch what its pods need.
const CheckCapacity = "CapacityUnavailable"

// homeless pods wait for a node and did not before the migration. Those that have nowhere to go, as the user accepted, are not.
func (l look) homeless() int {
	if l.Snapshot == nil {
		return 0
	}
	return l.PendingPods - len(l.stranded()) - l.Snapshot.PendingPods
}

// roomIsMissing says that somebody waits for a node of Karpenter's, or did a moment ago.
func (l look) roomIsMissing() bool {
	return l.homeless() > 0 || slices.ContainsFunc(l.Placeholders, roomPending) ||
		slices.ContainsFunc(l.m.Status.Blockers, func(b v1alpha1.Blocker) bool { return b.Reason == CheckCapacity })
}

// lastFailure is the last node that Karpenter could not launch for the pool.
func lastFailure(l look, p pool) (inventory.LaunchFailure, bool) {
	np, ok := nodePool(l, p.Name)
	failures := slices.DeleteFunc(slices.Clone(l.LaunchFailures), func(f inventory.LaunchFailure) bool { return !ok || f.NodePool != np.Name })
	if len(failures) == 0 {
		return inventory.LaunchFailure{}, false
	}
	return slices.MaxFunc(failures, func(a, b inventory.LaunchFailure) int { return a.Time.Compare(b.Time) }), true
}

// short says that Karpenter could not launch a node for want of capacity or quota, that pods wait for one, and that none has
// joined since. Once it is so it stays so for as long as a node's drain may last: pods that went back onto a legacy node wait no
// more, and would only have to wait again.
func short(l look, p pool) bool {
	f, failed := lastFailure(l, p)
	object := "nodepool/" + f.NodePool
	if !failed || l.now.Sub(f.Time) >= timeoutOf(l.m) || l.accepts(CheckCapacity, object) {
		return false
	}
	joined := slices.ContainsFunc(claimsOf(l, p), func(c inventory.NodeClaim) bool { return c.Node != "" && c.Created.After(f.Time) })
	return !joined && (l.homeless() > 0 || l.waited(CheckCapacity, object) > 0)
}

// givesBack says that capacity has been short for so long that the nodes being drained are better in service.
func givesBack(l look, p pool) bool {
	f, _ := lastFailure(l, p)
	return short(l, p) && l.waited(CheckCapacity, "nodepool/"+f.NodePool) >= timeoutOf(l.m)
}

// awaitCapacity evicts nothing and begins nothing. After the time that a node's drain may last, the nodes that are not drained go
// back in service, at their fixed number, and their pods with them.
func awaitCapacity(o *outcome, l look, p pool) {
	f, _ := lastFailure(l, p)
	o.block(CheckCapacity, "nodepool/"+f.NodePool, "Karpenter cannot launch nodes: "+cmp.Or(f.Message, "it does not say why")+". No pod is evicted and no node's drain begins until it can; after strategy.timeoutSeconds "+
		"the nodes being drained go back in service. Raise the quota, or give the NodePool more instance types or zones; to go on all the same accept the risk "+CheckCapacity+" for this object.")
	back := givesBack(l, p)
	for _, n := range p.nodes {
		switch {
		case !begun(n) || l.empty(n):
		case back:
			o.act(ReleaseNode{Node: n.Name})
		default:
			awaitPods(o, l, p, n, allowance(l, n))
		}
	}
}
