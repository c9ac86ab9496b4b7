package castandin

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// world is one look at the cluster.
type world struct {
	nodes []*corev1.Node
	pods  []*corev1.Pod
	group map[string]*Group // by node name
}

func observe(ctx context.Context, kube kubernetes.Interface, groups *groups) (*world, error) {
	fromCache := metav1.ListOptions{ResourceVersion: "0"}
	nodes, err := kube.CoreV1().Nodes().List(ctx, fromCache)
	if err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	pods, err := kube.CoreV1().Pods("").List(ctx, fromCache)
	if err != nil {
		return nil, fmt.Errorf("listing pods: %w", err)
	}
	w := &world{group: map[string]*Group{}}
	for i := range nodes.Items {
		node := &nodes.Items[i]
		w.nodes = append(w.nodes, node)
		if group := groups.of(instanceID(node)); group != nil {
			w.group[node.Name] = group
		}
	}
	for i := range pods.Items {
		w.pods = append(w.pods, &pods.Items[i])
	}
	return w, nil
}

// pending are the pods the scheduler has given up on, those below the priority cutoff left out.
func (w *world) pending(cutoff int) []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(w.pods), func(pod *corev1.Pod) bool {
		expendable := pod.Spec.Priority != nil && int(*pod.Spec.Priority) < cutoff
		return pod.Spec.NodeName != "" || finished(pod) || pod.DeletionTimestamp != nil || expendable || !unschedulable(pod)
	})
}

func unschedulable(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable
	})
}

// on lists the unfinished pods of a node.
func (w *world) on(node string) []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(w.pods), func(pod *corev1.Pod) bool {
		return pod.Spec.NodeName != node || finished(pod)
	})
}

// members are the nodes of a group.
func (w *world) members(group *Group) []*corev1.Node {
	return slices.DeleteFunc(slices.Clone(w.nodes), func(node *corev1.Node) bool { return w.group[node.Name] != group })
}

// upcoming is how many nodes of the group were asked for and are not in service yet.
func (w *world) upcoming(group *Group, now time.Time) int {
	const provisionTime = 15 * time.Minute // --max-node-provision-time's default: an older unready node is broken, not upcoming
	arrived := 0
	for _, node := range w.members(group) {
		if ready(node) || now.Sub(node.CreationTimestamp.Time) > provisionTime {
			arrived++
		}
	}
	return max(0, group.Desired-arrived)
}

// healthy says whether few enough nodes are unready for scaling to be safe.
func (w *world) healthy(opts Options) bool {
	unready := 0
	for _, node := range w.nodes {
		if !ready(node) {
			unready++
		}
	}
	return unready <= opts.OKUnready || float64(unready)*100 <= opts.MaxUnreadyPercent*float64(len(w.nodes))
}

func ready(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}
