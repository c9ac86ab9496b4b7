package plan

import (
	"slices"
	"strings"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

func preparingReached(l look) bool { return l.Snapshot != nil }

// preparing takes the snapshot, and only then stops what would resize the groups behind castoff's back. Labels, taints and
// cordons wait for the hand-over: while Cluster Autoscaler manages a group they make it scale that group up to its max.
func preparing(led *ledger, l look) outcome {
	o := outcome{}
	if l.Snapshot == nil {
		o.act(SaveSnapshot{Snapshot: newSnapshot(l)})
		return o
	}
	for _, p := range l.pools {
		marked := true
		for _, n := range p.nodes {
			if n.Annotations[v1alpha1.AnnotationLegacy] != p.Name {
				o.act(MarkNode{Node: n.Name, Pool: p.Name})
				marked = false
			}
		}
		if !marked {
			continue // without the marks nobody would know that there is something to undo
		}
		for _, g := range p.groups {
			quietGroup(&o, *led, l, g)
		}
	}
	o.done = o.idle()
	return o
}

// quietGroup disables the policies and removes the scheduled actions that the snapshot has. What it does not have was made
// since, by somebody else: it is reported and left, because castoff could not put it back.
func quietGroup(o *outcome, led ledger, l look, g inventory.NodeGroup) {
	recorded, _ := l.Snapshot.Group(g.Name)
	var policies, strangers, schedules []string
	for _, p := range g.ScalingPolicies {
		known := slices.ContainsFunc(recorded.Group.ScalingPolicies, func(r inventory.ScalingPolicy) bool { return r.Name == p.Name })
		switch {
		case p.Active && known:
			policies = append(policies, p.Name)
		case p.Active:
			strangers = append(strangers, "scaling policy "+p.Name)
		}
	}
	for _, s := range g.ScheduledActions {
		known := slices.ContainsFunc(recorded.Group.ScheduledActions, func(r inventory.ScheduledAction) bool { return r.Name == s.Name })
		if known {
			schedules = append(schedules, s.Name)
		} else {
			strangers = append(strangers, "scheduled action "+s.Name)
		}
	}
	if len(policies) > 0 {
		mend(o, led, l, g, DisablePolicies{Group: g, Names: fitting(policies)})
	}
	if len(schedules) > 0 {
		mend(o, led, l, g, DeleteScheduledActions{Group: g.AutoScalingGroup, Names: fitting(schedules)})
	}
	if len(strangers) > 0 {
		o.warn("ForeignScaling", "nodegroup/"+g.Name, "The group got a "+strings.Join(strangers, ", a ")+
			" after the snapshot was taken. castoff leaves it, because it could not put it back; from the hand-over on its process is suspended. Remove it if it is not meant to act.")
	}
}

// newSnapshot records what castoff may touch, before it touches anything.
func newSnapshot(l look) *inventory.Snapshot {
	s := &inventory.Snapshot{
		Format: inventory.SnapshotFormat, Cluster: l.Cluster.Name, Taken: l.now.UTC(), Migration: string(l.m.UID),
		Home: l.Home, Waves: l.Waves, PendingPods: l.PendingPods, Unwell: baseline(l),
		Before: inventory.Before{
			Release: l.Engine.Release != inventory.ReleaseMissing && l.Engine.Release != "", CRDs: l.Engine.CRDs,
			Interruption: len(l.Interruption.Made) > 0, Identity: len(l.Identity.Made) > 0,
		},
	}
	for _, p := range l.pools {
		s.Pools = append(s.Pools, p.Pool)
		for _, g := range p.groups {
			s.Groups = append(s.Groups, inventory.GroupSnapshot{Group: g, Nodes: nodeSnapshots(p.nodes, g.Name)})
		}
	}
	for _, a := range l.Autoscalers {
		if manages(a, l) {
			s.Autoscalers = append(s.Autoscalers, a)
		}
	}
	return s
}

func nodeSnapshots(nodes []inventory.Node, group string) []inventory.NodeSnapshot {
	var out []inventory.NodeSnapshot
	for _, n := range nodes {
		if n.Group == group {
			out = append(out, inventory.NodeSnapshot{
				Name: n.Name, InstanceID: n.InstanceID, Zone: n.Zone,
				Labels: n.Labels, Taints: n.Taints, Unschedulable: n.Unschedulable,
			})
		}
	}
	return out
}
