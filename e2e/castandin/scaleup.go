package castandin

import (
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// expansion is what one group could do for the pending pods.
type expansion struct {
	group  *Group
	nodes  int
	placed int
}

// scaleUp raises the desired size of the one group that helps the most pending pods.
func (a *Autoscaler) scaleUp(ctx context.Context, w *world, now time.Time) error {
	left := place(w.pending(a.opts.PriorityCutoff), a.rooms(w))
	if len(left) == 0 {
		return nil
	}
	templates := a.templatesOf(ctx)
	left = place(left, upcomingRooms(a.groups.list, templates, w, now))
	best := expansion{}
	for _, group := range a.groups.list {
		limit := group.Max - group.Desired
		if a.opts.MaxNodesTotal > 0 {
			limit = min(limit, a.opts.MaxNodesTotal-len(w.nodes))
		}
		template := templates[group.Name]
		if template == nil || limit <= 0 {
			continue
		}
		rooms, placed := pack(left, template.copy, limit)
		if placed > best.placed || placed == best.placed && len(rooms) < best.nodes {
			best = expansion{group: group, nodes: len(rooms), placed: placed}
		}
	}
	if best.placed == 0 {
		return nil
	}
	size := best.group.Desired + best.nodes
	a.log.Info("scale-up", "group", best.group.Name, "from", best.group.Desired, "to", size, "pods", best.placed)
	if err := a.cloud.SetDesired(ctx, best.group.Name, size); err != nil {
		return err
	}
	best.group.Desired, a.lastScaleUp = size, now
	return nil
}

// rooms are the nodes in service.
func (a *Autoscaler) rooms(w *world) []*room {
	var rooms []*room
	for _, node := range w.nodes {
		if ready(node) {
			rooms = append(rooms, newRoom(node, w.pods))
		}
	}
	return rooms
}

func upcomingRooms(list []*Group, templates map[string]*room, w *world, now time.Time) []*room {
	var rooms []*room
	for _, group := range list {
		if template := templates[group.Name]; template != nil {
			for range w.upcoming(group, now) {
				rooms = append(rooms, template.copy())
			}
		}
	}
	return rooms
}

// learn remembers a settled node of each group as what the group launches. Cordoned nodes and fresh ones are no
// examples, so neither a cordon nor a late taint stops a scale-up.
func (a *Autoscaler) learn(w *world, now time.Time) {
	for _, group := range a.groups.list {
		if example := exampleNode(w.members(group), now); example != nil {
			a.templates[group.Name] = newTemplate(example, w.on(example.Name))
		}
	}
}

// templatesOf finds for each group the node it would launch: the one learned, else what AWS says.
func (a *Autoscaler) templatesOf(ctx context.Context) map[string]*room {
	templates := map[string]*room{}
	for _, group := range a.groups.list {
		if known := a.templates[group.Name]; known != nil {
			templates[group.Name] = known
			continue
		}
		node, err := a.cloud.Template(ctx, *group)
		if err != nil {
			a.log.Error("no template", "group", group.Name, "error", err)
			continue
		}
		templates[group.Name] = newRoom(node, nil)
	}
	return templates
}

func exampleNode(members []*corev1.Node, now time.Time) *corev1.Node {
	const settled = time.Minute
	i := slices.IndexFunc(members, func(node *corev1.Node) bool {
		return ready(node) && !node.Spec.Unschedulable && now.Sub(node.CreationTimestamp.Time) > settled
	})
	if i < 0 {
		return nil
	}
	return members[i]
}

// newTemplate is a copy of node with only its DaemonSet pods on it and without the taints of the moment.
func newTemplate(node *corev1.Node, pods []*corev1.Pod) *room {
	clean := node.DeepCopy()
	clean.Spec.Taints = slices.DeleteFunc(clean.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == taintToBeDeleted || t.Key == taintCandidate || strings.HasPrefix(t.Key, "node.kubernetes.io/")
	})
	return newRoom(clean, slices.DeleteFunc(pods, func(pod *corev1.Pod) bool { return !ownedBy(pod, "DaemonSet") }))
}

func (r *room) copy() *room { return &room{node: r.node, free: r.free.DeepCopy()} }
