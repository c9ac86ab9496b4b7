package castandin

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
	corev1helper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
)

// room is a node, or the template of one, with what is left on it. Taints, selectors, node affinity and requests
// decide who fits; pod affinity, spread and volumes do not exist for the stand-in.
type room struct {
	node *corev1.Node
	free corev1.ResourceList
}

// newRoom is node with pods on it. Pods bound elsewhere, and finished ones, are passed over.
func newRoom(node *corev1.Node, pods []*corev1.Pod) *room {
	r := &room{node: node, free: node.Status.Allocatable.DeepCopy()}
	for _, pod := range pods {
		if pod.Spec.NodeName == node.Name && !finished(pod) {
			r.add(pod)
		}
	}
	return r
}

func (r *room) fits(pod *corev1.Pod) bool {
	if r.node.Spec.Unschedulable || !admits(r.node, pod) {
		return false
	}
	for name, want := range requests(pod) {
		free := r.free[name]
		if !want.IsZero() && free.Cmp(want) < 0 {
			return false
		}
	}
	return true
}

func (r *room) add(pod *corev1.Pod) {
	for name, want := range requests(pod) {
		free := r.free[name]
		free.Sub(want)
		r.free[name] = free
	}
}

// requests of the pod, itself counted as one of `pods`.
func requests(pod *corev1.Pod) corev1.ResourceList {
	list := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	list[corev1.ResourcePods] = *resource.NewQuantity(1, resource.DecimalSI)
	return list
}

func milliCPU(pod *corev1.Pod) int64 {
	list := requests(pod)
	return list.Cpu().MilliValue()
}

// admits says whether labels and taints let the pod onto the node.
func admits(node *corev1.Node, pod *corev1.Pod) bool {
	matches, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node)
	if err != nil || !matches {
		return false
	}
	hard := func(t *corev1.Taint) bool { return t.Effect != corev1.TaintEffectPreferNoSchedule }
	_, untolerated := corev1helper.FindMatchingUntoleratedTaint(klog.Background(), node.Spec.Taints, pod.Spec.Tolerations, hard, false)
	return !untolerated
}

// place puts each pod into the first room that takes it and returns those left over.
func place(pods []*corev1.Pod, rooms []*room) (left []*corev1.Pod) {
	for _, pod := range pods {
		i := slices.IndexFunc(rooms, func(r *room) bool { return r.fits(pod) })
		if i < 0 {
			left = append(left, pod)
			continue
		}
		rooms[i].add(pod)
	}
	return left
}

// pack opens up to limit fresh rooms for the pods, first fit decreasing. It returns the rooms opened and the pods placed.
func pack(pods []*corev1.Pod, fresh func() *room, limit int) (rooms []*room, placed int) {
	ordered := slices.SortedStableFunc(slices.Values(pods), func(a, b *corev1.Pod) int {
		return cmp.Compare(milliCPU(b), milliCPU(a))
	})
	for _, pod := range ordered {
		if len(place([]*corev1.Pod{pod}, rooms)) == 0 {
			placed++
			continue
		}
		if len(rooms) == limit {
			continue
		}
		if next := fresh(); next.fits(pod) {
			next.add(pod)
			rooms = append(rooms, next)
			placed++
		}
	}
	return rooms, placed
}

// utilization is the larger of the requested shares of CPU and memory, DaemonSet pods included as upstream does.
func (r *room) utilization() float64 {
	share := func(name corev1.ResourceName) float64 {
		all, free := r.node.Status.Allocatable[name], r.free[name]
		if all.IsZero() {
			return 0
		}
		return float64(all.MilliValue()-free.MilliValue()) / float64(all.MilliValue())
	}
	return max(share(corev1.ResourceCPU), share(corev1.ResourceMemory))
}

func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}
