package plan

import (
	"cmp"
	"fmt"
	"slices"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// warmed says that placeholders were made for the node's pods: the note on the node is written after the last of them.
func warmed(n inventory.Node) bool { return n.Annotations[v1alpha1.AnnotationWarmed] != "" }

// roomPending says that a placeholder still waits for its node.
func roomPending(p inventory.Placeholder) bool { return !p.Ready && !p.Ended }

// open takes the next step towards a node's drain: with capacity WarmFirst a legacy node's pods have room before the first of them
// is evicted. On the way back the legacy nodes are there already.
func open(o *outcome, l look, pool string, n inventory.Node) {
	_, karpenters := n.Labels[karpv1.NodePoolLabelKey]
	switch {
	case karpenters || l.m.Spec.Strategy.Capacity != v1alpha1.CapacityWarmFirst:
		o.act(BeginDrain{Node: n.Name})
	case !warmed(n):
		o.act(WarmNode{Node: n.Name, Pool: pool})
	case !awaitRoom(o, l, n):
		o.act(BeginDrain{Node: n.Name})
	}
}

// awaitRoom says of a node whose pods have no room yet what is missing, and why Karpenter does not launch it if it says so.
func awaitRoom(o *outcome, l look, n inventory.Node) bool {
	pending, all, why := 0, 0, ""
	for _, p := range l.Placeholders {
		if p.Node != n.Name {
			continue
		}
		all++
		if roomPending(p) {
			pending++
			why = cmp.Or(why, p.Message)
		}
	}
	if pending == 0 {
		return false
	}
	message := fmt.Sprintf("%d of %d pods have no room on a new node yet; none is evicted before they have.", pending, all)
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
	wanted := map[string]bool{} // by the node alone: its note that all are made may not be seen yet
	if !halted(l.m) && handingOverReached(l) {
		for _, p := range l.pools {
			for _, n := range p.nodes {
				wanted[n.Name] = begun(n) || l.m.Spec.Strategy.Capacity == v1alpha1.CapacityWarmFirst
			}
		}
	}
	var names []string
	for _, p := range l.Placeholders {
		if p.Ended || !wanted[p.Node] {
			names = append(names, p.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return []Action{DropPlaceholders{Names: names}}
}
