package plan

import (
	"cmp"
	"fmt"
	"slices"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// warm says that room on new nodes was asked for, for all pods of the node that need it: each placeholder tells how many there are to be,
// and a node without any says so itself.
func (l look) warm(n inventory.Node) bool {
	rooms := l.rooms[n.Name]
	return n.Annotations[v1alpha1.AnnotationWarmed] != "" || len(rooms) > 0 && len(rooms) >= rooms[0].Batch
}

// roomPending says that a placeholder still waits for its node.
func roomPending(p inventory.Placeholder) bool { return !p.Ready && !p.Ended }

// open takes the next step towards a node's drain: with capacity WarmFirst a legacy node's pods have room before the first of them
// is evicted. On the way back the legacy nodes are there already.
func open(o *outcome, l look, pool string, n inventory.Node) {
	_, karpenters := n.Labels[karpv1.NodePoolLabelKey]
	switch {
	case karpenters || l.m.Spec.Strategy.Capacity != v1alpha1.CapacityWarmFirst:
		o.act(BeginDrain{Node: n.Name})
	case !l.warm(n):
		o.act(WarmNode{Node: n.Name, Pool: pool})
	case !awaitRoom(o, l, n) || slices.ContainsFunc(l.rooms[n.Name], func(p inventory.Placeholder) bool { return p.Ready }):
		o.act(BeginDrain{Node: n.Name}) // each pod goes when its own room is there
	}
}

// warmAhead asks for room while the pool's groups are still being opened: nothing is evicted yet, and instances take their time.
func warmAhead(o *outcome, l look, p pool) {
	if l.m.Spec.Strategy.Capacity != v1alpha1.CapacityWarmFirst {
		return
	}
	ahead := outcome{}
	begin(&ahead, l, p.Name, p.nodes, p.recorded)
	for _, a := range ahead.actions {
		if w, ok := a.(WarmNode); ok {
			o.act(w)
		}
	}
}

// mostTold is how much is told at most of what nodes wait for: the status has room for no more (api/v1alpha1, MigrationStatus.blockers).
const mostTold = 20

// awaitRoom says of a node whose pods have no room yet what is missing, and why Karpenter does not launch it if it says so.
func awaitRoom(o *outcome, l look, n inventory.Node) bool {
	pending, all, why := 0, 0, ""
	for _, p := range l.rooms[n.Name] {
		all += max(1, len(p.Pods))
		if roomPending(p) {
			pending += max(1, len(p.Pods))
			why = cmp.Or(why, p.Message)
		}
	}
	switch {
	case pending == 0:
		return false
	case len(o.blockers) >= mostTold:
		return true
	}
	message := fmt.Sprintf("There is no room on a new node yet for %d of %s; none of them is evicted before it has.", pending, inventory.Count(all, "pod"))
	if f, ok := latest(l.LaunchFailures); ok && f.Message != "" {
		message += " Karpenter could not launch one: " + f.Message
	} else if why != "" {
		message += " The scheduler says: " + why
	}
	o.wait("WarmingUp", "node/"+n.Name, message)
	return true
}

func latest(failures []inventory.LaunchFailure) (inventory.LaunchFailure, bool) {
	if len(failures) == 0 {
		return inventory.LaunchFailure{}, false
	}
	return slices.MaxFunc(failures, func(a, b inventory.LaunchFailure) int { return a.Time.Compare(b.Time) }), true
}

// dropStale gives up the room that nobody will move into: of nodes that are gone or back in service, in a migration that halts or has
// gone on to another capacity strategy, and what has lasted too long. Whatever the phase: a placeholder without use costs a node.
func dropStale(l look) []Action {
	if l.SnapshotProblem != "" {
		return nil // without a way back nothing more is done
	}
	warmFirst := l.m.Spec.Strategy.Capacity == v1alpha1.CapacityWarmFirst
	wanted := map[string]bool{} // by the node alone: its note that all are made may not be seen yet
	if !halted(l.m) && handingOverReached(l) {
		for _, p := range l.pools {
			for _, n := range p.nodes {
				wanted[n.Name] = begun(n) || warmFirst
			}
		}
	}
	var names []string
	for _, p := range l.Placeholders {
		if p.Ended || !wanted[p.Node] || !warmFirst && roomPending(p) {
			names = append(names, p.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return []Action{DropPlaceholders{Names: names}}
}
