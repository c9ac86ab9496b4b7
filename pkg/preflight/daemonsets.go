package preflight

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// The checks of DaemonSets.
const (
	CheckDaemonSetMissing  = "DaemonSetMissing"
	CheckDaemonSetPriority = "DaemonSetPriority"
	CheckDaemonSetRoom     = "DaemonSetRoom"
)

// daemonSetsMissing: a DaemonSet that is tied to node groups by a selector, or that does not tolerate what the new nodes are tainted
// with, is not on them. Without its CNI or CSI driver a node is no use; without a log agent nobody sees what is wrong.
func daemonSetsMissing(in Input) []inventory.Finding {
	var out []inventory.Finding
	for _, w := range in.workloads {
		for _, pool := range w.pools {
			t, ok := in.Targets[pool]
			if w.kind != kindDaemonSet || !ok || t.Refuses(w.shape) == nil {
				continue
			}
			here := place{legacy: pool}
			one := &workload{kind: w.kind, namespace: w.namespace, name: w.name, controller: w.controller, shape: w.shape, pools: []string{pool}}
			message := w.owned() + " runs on the nodes of pool " + pool + " and would not on Karpenter's: " + refusal(in, one, here) + ". " + advice(in, one, here)
			if w.shape.PriorityClass == "system-node-critical" {
				out = append(out, one.about(block(CheckDaemonSetMissing, w.object(), message)))
			} else {
				out = append(out, one.about(warn(CheckDaemonSetMissing, w.object(), message)))
			}
		}
	}
	return out
}

// daemonSetPriority: on a new node the pods that it was launched for arrive at once. A DaemonSet without a priority loses the race
// for room when Karpenter's sum of requests was short by a little, and stays Pending on that node.
func daemonSetPriority(in Input) []inventory.Finding {
	n := named{}
	for _, w := range in.workloads {
		if w.kind == kindDaemonSet && w.controller != nil && len(w.pools) > 0 && w.shape.PriorityClass == "" && (w.made == nil || w.made.PriorityClass == "") {
			n.names = append(n.names, w.object())
		}
	}
	if len(n.names) == 0 {
		return nil
	}
	return []inventory.Finding{warn(CheckDaemonSetPriority, n.object(in),
		"These have no priority class, so their pods can lose the race for room on a new node: "+n.list()+". Give them one above that of the workloads, system-node-critical where nodes need them.")}
}

// holding is what nodes of a target have room for.
type holding struct {
	rooms map[string]corev1.ResourceList // allocatable by instance type; a type that nobody knows is missing
	types []string
	taken corev1.ResourceList // by DaemonSets
	by    []*workload         // those DaemonSets
}

// holds says whether a node of the type has room for it beside the DaemonSets; one that nobody knows has.
func (h holding) holds(instanceType string, requests corev1.ResourceList) bool {
	room, known := h.rooms[instanceType]
	if !known {
		return true
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		taken := h.taken[name]
		need := taken.DeepCopy()
		need.Add(requests[name])
		if have := room[name]; need.Cmp(have) > 0 {
			return false
		}
	}
	return true
}

// daemonSetRoom: DaemonSets and a pod that together do not fit onto any type make Karpenter launch nothing, or, where it counts a
// DaemonSet short, node after node with the pod still Pending. Types that do not hold the largest pod are told: fewer are left.
func daemonSetRoom(in Input) []inventory.Finding {
	held := map[string]holding{}
	for pool, t := range in.Targets {
		held[pool] = holdingOf(in, pool, t)
	}
	var without []*workload
	small := map[string][]string{} // types by pool
	for _, w := range in.workloads {
		targets := in.places.of(in, w.shape).targets
		if len(w.pods) == 0 || len(targets) == 0 {
			continue
		}
		if !slices.ContainsFunc(targets, func(pool string) bool { return held[pool].fits(w.shape.Requests) }) {
			without = append(without, w)
			continue
		}
		for _, pool := range targets {
			if slices.Contains(w.pools, pool) {
				small[pool] = append(small[pool], held[pool].tooSmall(w.shape.Requests)...)
			}
		}
	}
	out := withoutRoom(in, held, without)
	for _, pool := range slices.Sorted(maps.Keys(small)) {
		n := named{pool, slices.Compact(slices.Sorted(slices.Values(small[pool])))}
		if len(n.names) > 0 {
			out = append(out, n.about(warn(CheckDaemonSetRoom, n.object(in),
				"These instance types have no room for the largest pod beside the DaemonSets ("+amounts(held[pool].taken)+"): "+n.list()+". Karpenter launches one of the others for it.")))
		}
	}
	return out
}

// withoutRoom says of each workload that no type holds it; of those that one DaemonSet asking for more than they do keeps out, it is
// said once.
func withoutRoom(in Input, held map[string]holding, ws []*workload) []inventory.Finding {
	type cause struct {
		daemon  *workload
		targets string
	}
	kept := map[cause][]*workload{}
	var causes []cause
	var out []inventory.Finding
	for _, w := range ws {
		targets := in.places.of(in, w.shape).targets
		h := held[targets[0]]
		c := cause{h.larger(in, w.shape.Requests), three(targets)}
		if c.daemon == nil {
			out = append(out, w.about(block(CheckDaemonSetRoom, w.object(), "No instance type of pool "+c.targets+" has room for a pod of "+w.owned()+" ("+amounts(w.shape.Requests)+
				") beside the DaemonSets ("+amounts(h.taken)+"): "+largestRoom(h)+". Add a larger type to the node groups, or ask for less.")))
			continue
		}
		if kept[c] == nil {
			causes = append(causes, c)
		}
		kept[c] = append(kept[c], w)
	}
	for _, c := range causes {
		h := held[in.places.of(in, kept[c][0].shape).targets[0]]
		out = append(out, tooLarge(in, h, c.daemon, c.targets, kept[c]))
	}
	return out
}

// tooLarge is about the DaemonSet that keeps the workloads out.
func tooLarge(in Input, h holding, daemon *workload, targets string, kept []*workload) inventory.Finding {
	var names []string
	for _, w := range kept {
		names = append(names, w.object())
	}
	f := daemon.about(block(CheckDaemonSetRoom, daemon.object(), "On no instance type of pool "+targets+" does "+daemon.owned()+" ("+amounts(daemon.requests(in))+" of "+amounts(h.taken)+
		" for all DaemonSets) leave room for "+inventory.Count(len(names), "workload")+": "+three(names)+". "+largestRoom(h)+". Lower what it requests, or add a larger type to the node groups."))
	f.Pool = kept[0].pools[0] // it has pods to move
	return f
}

// fits says whether a node of one of the types has room for it; a NodePool that names no types launches what fits.
func (h holding) fits(requests corev1.ResourceList) bool {
	return len(h.types) == 0 || len(h.tooSmall(requests)) < len(h.types)
}

func (h holding) tooSmall(requests corev1.ResourceList) []string {
	return slices.DeleteFunc(slices.Clone(h.types), func(kind string) bool { return h.holds(kind, requests) })
}

// larger is the DaemonSet that takes most of what lacks on the largest type, if that is more than the requests: then it is what to mend.
func (h holding) larger(in Input, requests corev1.ResourceList) *workload {
	kind := h.largest()
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if h.holds(kind, corev1.ResourceList{name: requests[name]}) {
			continue
		}
		var found *workload
		most := requests[name]
		for _, w := range h.by {
			if asks := w.requests(in)[name]; asks.Cmp(most) > 0 {
				found, most = w, asks
			}
		}
		return found
	}
	return nil
}

// holdingOf sums what DaemonSets will request on the target's nodes, and takes the room of its types from nodes that are there,
// else from the rule.
func holdingOf(in Input, pool string, t inventory.Target) holding {
	h := holding{rooms: map[string]corev1.ResourceList{}, taken: corev1.ResourceList{}}
	for _, r := range t.NodePool.Spec.Template.Spec.Requirements {
		if r.Key == corev1.LabelInstanceTypeStable && r.Operator == corev1.NodeSelectorOpIn {
			h.types = r.Values
		}
	}
	for kind, known := range typesOf(in, pool) {
		h.rooms[kind] = known.Room(maxPods(t))
	}
	for _, n := range in.Nodes {
		kind := n.Labels[corev1.LabelInstanceTypeStable]
		if slices.Contains(h.types, kind) && !n.Allocatable.Cpu().IsZero() && !n.Allocatable.Memory().IsZero() {
			h.rooms[kind] = n.Allocatable
		}
	}
	for _, w := range in.workloads {
		if w.kind == kindDaemonSet && t.Refuses(w.shape) == nil {
			add(h.taken, w.requests(in))
			h.by = append(h.by, w)
		}
	}
	return h
}

func typesOf(in Input, pool string) map[string]inventory.InstanceType {
	out := map[string]inventory.InstanceType{}
	for _, p := range in.Pools {
		if p.Name != pool {
			continue
		}
		for _, g := range in.Groups {
			if slices.Contains(p.NodeGroups, g.Name) {
				for _, t := range g.Types {
					out[t.Name] = t
				}
			}
		}
		for _, f := range p.Families {
			for _, t := range f.Types {
				out[t.Name] = t
			}
		}
	}
	return out
}

func maxPods(t inventory.Target) int64 {
	if k := t.NodeClass.Spec.Kubelet; k != nil && k.MaxPods != nil {
		return int64(*k.MaxPods)
	}
	return 0
}

// requests are what a pod of the workload asks for. Where it has none that is what its template says, with the defaults that a
// LimitRange gives to containers without.
func (w *workload) requests(in Input) corev1.ResourceList {
	if w.made != nil {
		return w.made.Requests
	}
	out := w.shape.Requests.DeepCopy()
	if out == nil {
		out = corev1.ResourceList{}
	}
	for _, r := range in.Workloads.LimitRanges {
		for _, limit := range r.Spec.Limits {
			if r.Namespace != w.namespace || limit.Type != corev1.LimitTypeContainer {
				continue
			}
			for range w.shape.Unrequested {
				add(out, missing(limit.DefaultRequest, w.shape.Requests))
			}
		}
	}
	return out
}

// missing are the defaults for what is not requested at all; which of several containers lacks which is not known.
func missing(defaults, have corev1.ResourceList) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name, q := range defaults {
		if _, ok := have[name]; !ok {
			out[name] = q
		}
	}
	return out
}

func add(to, more corev1.ResourceList) {
	for name, q := range more {
		sum := to[name] // a copy
		sum.Add(q)
		to[name] = sum
	}
}

func amounts(l corev1.ResourceList) string {
	return fmt.Sprintf("cpu %s, memory %dMi", l.Cpu(), l.Memory().Value()>>20)
}

// largest is the type with the most CPU.
func (h holding) largest() string {
	best, most := "", resource.Quantity{}
	for _, kind := range h.types {
		if cpu := h.rooms[kind][corev1.ResourceCPU]; best == "" || cpu.Cmp(most) > 0 {
			best, most = kind, cpu
		}
	}
	return best
}

func largestRoom(h holding) string {
	return h.largest() + " has " + amounts(h.rooms[h.largest()])
}
