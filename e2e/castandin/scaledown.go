package castandin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
)

// What Cluster Autoscaler writes on nodes and reads from nodes and pods.
const (
	taintToBeDeleted  = "ToBeDeletedByClusterAutoscaler"
	taintCandidate    = "DeletionCandidateOfClusterAutoscaler"
	annotationKeep    = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
	annotationSafe    = "cluster-autoscaler.kubernetes.io/safe-to-evict"
	annotationMirror  = "kubernetes.io/config.mirror"
	maxSoftTainted    = 10 // --max-bulk-soft-taint-count
	namespaceOfSystem = "kube-system"
)

// scaleDown marks idle nodes, removes those idle for long enough, and goes on with removals under way.
func (a *Autoscaler) scaleDown(ctx context.Context, w *world, now time.Time) error {
	if !a.opts.ScaleDown {
		return nil
	}
	idle := a.idleNodes(w)
	a.remember(idle, now)
	errs := a.markCandidates(ctx, w, now)
	settled := a.lastScaleUp.IsZero() || now.Sub(a.lastScaleUp) >= a.opts.DelayAfterAdd
	for _, node := range idle {
		if settled && now.Sub(a.unneeded[node.Name]) >= a.opts.UnneededTime {
			errs = append(errs, a.beginRemoval(ctx, w, node, now))
		}
	}
	for name := range a.removing {
		errs = append(errs, a.continueRemoval(ctx, w, name))
	}
	return errors.Join(errs...)
}

// idleNodes are the nodes whose pods all fit elsewhere. Room is given away once: two idle nodes never count on the same.
func (a *Autoscaler) idleNodes(w *world) []*corev1.Node {
	rooms := a.rooms(w)
	spare := map[*Group]int{}
	for _, group := range a.groups.list {
		spare[group] = group.Desired - group.Min
	}
	var idle []*corev1.Node
	for _, node := range w.nodes {
		group := w.group[node.Name]
		if group == nil || spare[group] <= 0 || !a.removable(w, node) {
			continue
		}
		others := slices.DeleteFunc(slices.Clone(rooms), func(r *room) bool { return r.node.Name == node.Name })
		trial := make([]*room, len(others))
		for i, r := range others {
			trial[i] = r.copy()
		}
		if len(place(movable(w.on(node.Name)), trial)) == 0 {
			idle, rooms = append(idle, node), trial
			spare[group]--
		}
	}
	return idle
}

func (a *Autoscaler) removable(w *world, node *corev1.Node) bool {
	if !ready(node) || a.removing[node.Name] || node.Annotations[annotationKeep] == "true" {
		return false
	}
	if newRoom(node, w.pods).utilization() >= a.opts.UtilizationThreshold {
		return false
	}
	return !slices.ContainsFunc(movable(w.on(node.Name)), a.blocks)
}

// blocks says whether the pod keeps its node: told so, without a controller to bring it back, or with something to lose.
func (a *Autoscaler) blocks(pod *corev1.Pod) bool {
	switch pod.Annotations[annotationSafe] {
	case "false":
		return true
	case "true":
		return false
	}
	local := slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.EmptyDir != nil || v.HostPath != nil })
	return metav1.GetControllerOf(pod) == nil ||
		a.opts.SkipSystemPods && pod.Namespace == namespaceOfSystem || a.opts.SkipLocalStorage && local
}

// movable leaves out DaemonSet and mirror pods, which stay with their node.
func movable(pods []*corev1.Pod) []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(pod *corev1.Pod) bool {
		_, mirror := pod.Annotations[annotationMirror]
		return mirror || ownedBy(pod, "DaemonSet")
	})
}

func ownedBy(pod *corev1.Pod, kind string) bool {
	owner := metav1.GetControllerOf(pod)
	return owner != nil && owner.Kind == kind
}

func (a *Autoscaler) remember(idle []*corev1.Node, now time.Time) {
	since := map[string]time.Time{}
	for _, node := range idle {
		since[node.Name] = now
		if before, ok := a.unneeded[node.Name]; ok {
			since[node.Name] = before
		}
	}
	a.unneeded = since
}

// markCandidates puts the soft taint on idle nodes and takes it off nodes in use.
func (a *Autoscaler) markCandidates(ctx context.Context, w *world, now time.Time) []error {
	var errs []error
	changed := 0
	for _, node := range w.nodes {
		_, idle := a.unneeded[node.Name]
		if w.group[node.Name] == nil || a.removing[node.Name] || hasTaint(node, taintCandidate) == idle || changed == maxSoftTainted {
			continue
		}
		changed++
		errs = append(errs, a.changeNode(ctx, node, func(n *corev1.Node) {
			removeTaint(n, taintCandidate)
			if idle {
				n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: taintCandidate, Value: unix(now.Unix()), Effect: corev1.TaintEffectPreferNoSchedule})
			}
		}))
	}
	return errs
}

func (a *Autoscaler) beginRemoval(ctx context.Context, w *world, node *corev1.Node, now time.Time) error {
	a.log.Info("scale-down", "node", node.Name, "group", w.group[node.Name].Name)
	a.removing[node.Name] = true
	return a.changeNode(ctx, node, func(n *corev1.Node) {
		removeTaint(n, taintToBeDeleted)
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: taintToBeDeleted, Value: unix(now.Unix()), Effect: corev1.TaintEffectNoSchedule})
		n.Spec.Unschedulable = n.Spec.Unschedulable || a.opts.Cordon
	})
}

// continueRemoval evicts what is left on the node and ends its instance once nothing is.
func (a *Autoscaler) continueRemoval(ctx context.Context, w *world, name string) error {
	i := slices.IndexFunc(w.nodes, func(n *corev1.Node) bool { return n.Name == name })
	if i < 0 || w.group[name] == nil {
		delete(a.removing, name)
		return nil
	}
	if left := movable(w.on(name)); len(left) > 0 {
		return a.evict(ctx, left)
	}
	id, group := instanceID(w.nodes[i]), w.group[name]
	if err := a.cloud.Terminate(ctx, id); err != nil {
		return err
	}
	group.Desired--
	group.Instances = slices.DeleteFunc(group.Instances, func(known string) bool { return known == id })
	delete(a.removing, name)
	return nil
}

func (a *Autoscaler) evict(ctx context.Context, pods []*corev1.Pod) error {
	var errs []error
	for _, pod := range pods {
		if pod.DeletionTimestamp != nil {
			continue
		}
		err := a.kube.CoreV1().Pods(pod.Namespace).EvictV1(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace}})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsTooManyRequests(err) {
			errs = append(errs, fmt.Errorf("evicting %s/%s: %w", pod.Namespace, pod.Name, err))
		}
	}
	return errors.Join(errs...)
}

// cleanUp takes back what an earlier leader left in the middle of a removal. The soft taint stays, as upstream leaves it.
func (a *Autoscaler) cleanUp(ctx context.Context, w *world) error {
	var errs []error
	for _, node := range w.nodes {
		if w.group[node.Name] != nil && hasTaint(node, taintToBeDeleted) {
			errs = append(errs, a.changeNode(ctx, node, func(n *corev1.Node) {
				removeTaint(n, taintToBeDeleted)
				n.Spec.Unschedulable = false
			}))
		}
	}
	return errors.Join(errs...)
}

// changeNode writes a change to the newest version of the node. A node that is gone needs none.
func (a *Autoscaler) changeNode(ctx context.Context, node *corev1.Node, change func(*corev1.Node)) error {
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		latest, err := a.kube.CoreV1().Nodes().Get(ctx, node.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(latest)
		_, err = a.kube.CoreV1().Nodes().Update(ctx, latest, metav1.UpdateOptions{})
		return err
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("updating node %s: %w", node.Name, err)
	}
	return nil
}

func hasTaint(node *corev1.Node, key string) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key })
}

func removeTaint(node *corev1.Node, key string) {
	node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key })
}
