package drain

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/inventory/kubeapi"
)

const (
	nodeNameField = "spec.nodeName"
	pageSize      = 250 // pods; a node runs 110 by default, and a page of large ones stays under 10 MB

	safeToEvict = "cluster-autoscaler.kubernetes.io/safe-to-evict" // Cluster Autoscaler's FAQ

	// stuckAfter is how late a pod may be before somebody has to see to it: kubelets report an end within seconds.
	stuckAfter = time.Minute

	clusterCritical = "system-cluster-critical"
	nodeCritical    = "system-node-critical"
)

// podsOf are the pods of one node.
type podsOf struct {
	// leaving have to leave before the instance may end, in a fixed order.
	leaving []corev1.Pod
	// staying are the claims of what runs to the end.
	staying map[types.NamespacedName]bool
}

// pods lists the pods of a node. It reads past the cache, one node at a time: a cache of all pods would not fit.
func (d *Drainer) pods(ctx context.Context, node string) (podsOf, error) {
	out := podsOf{staying: map[types.NamespacedName]bool{}}
	err := d.eachPod(ctx, func(pod *corev1.Pod) {
		switch {
		case kubeapi.Finished(pod):
		case mustLeave(pod):
			out.leaving = append(out.leaving, *pod)
		default:
			for _, claim := range claims(pod) {
				out.staying[claim] = true
			}
		}
	}, client.MatchingFields{nodeNameField: node})
	if err != nil {
		return out, kubeapi.Wrap(err, "list", "pods", "of node "+node)
	}
	slices.SortFunc(out.leaving, func(a, b corev1.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out, nil
}

// eachPod visits the pods that the options select, page by page and past the cache.
func (d *Drainer) eachPod(ctx context.Context, visit func(*corev1.Pod), which ...client.ListOption) error {
	for token := ""; ; {
		page := new(corev1.PodList) // a new one: what the last page has no value for would keep that of the page before
		if err := d.live.List(ctx, page, append(which, client.Limit(pageSize), client.Continue(token))...); err != nil {
			return err
		}
		for i := range page.Items {
			visit(&page.Items[i])
		}
		if token = page.Continue; token == "" {
			return nil
		}
	}
}

// mustLeave leaves out what stays to the end (DaemonSets) and what no API can evict (static pods).
func mustLeave(pod *corev1.Pod) bool {
	if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return false
	}
	return !controlledBy(pod, "DaemonSet", "apps/")
}

func controlledBy(pod *corev1.Pod, kind, group string) bool {
	controller := metav1.GetControllerOf(pod)
	return controller != nil && controller.Kind == kind && strings.HasPrefix(controller.APIVersion, group)
}

// first are the pods whose turn it is: those that the cluster needs (DNS, an ingress) go when no ordinary one is left, and those
// that the node needs go last. The names are Kubernetes' own ("Guaranteed Scheduling For Critical Add-On Pods").
func first(pods []corev1.Pod) []*corev1.Pod {
	var tiers [3][]*corev1.Pod
	for i := range pods {
		tier := slices.Index([]string{clusterCritical, nodeCritical}, pods[i].Spec.PriorityClassName) + 1
		tiers[tier] = append(tiers[tier], &pods[i])
	}
	for _, tier := range tiers {
		if len(tier) > 0 {
			return tier
		}
	}
	return nil
}

// view is the moment and the node that a pod is judged at.
type view struct {
	now time.Time
	// silent is since when the node has not been Ready; zero while it is.
	silent time.Time
	// begun is when the node's drain began; zero while it has not.
	begun time.Time
}

func (d *Drainer) view(node *corev1.Node) view {
	begun, err := time.Parse(time.RFC3339, node.Annotations[v1alpha1.AnnotationDraining])
	if err != nil {
		begun = time.Time{}
	}
	return view{now: d.clock(), silent: silentSince(node), begun: begun}
}

// silentSince is since when the node has not been Ready; zero if it is, or has never said.
func silentSince(node *corev1.Node) time.Time {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// waits says why the pod is not to be evicted at all now; nil if it may be, by itself or because the user allows it.
func (v view) waits(pod *corev1.Pod, allow inventory.DrainAllowance) *inventory.BlockedPod {
	if pod.DeletionTimestamp != nil {
		return v.terminating(pod)
	}
	if v.returned(pod) {
		return blocked(pod, inventory.BlockedReturning, "it was put on this node after the node's drain had begun, past cordon and taint, and the next one would be, too: "+
			"narrow the toleration that lets it in, or take spec.nodeName out of its template")
	}
	for _, hold := range []func(*corev1.Pod, time.Time) *inventory.BlockedPod{uncontrolled, leftAlone, working} {
		if b := hold(pod, v.now); b != nil && !allow.Allows(*b) {
			return b
		}
	}
	return nil
}

func uncontrolled(pod *corev1.Pod, _ time.Time) *inventory.BlockedPod {
	if metav1.GetControllerOf(pod) != nil {
		return nil
	}
	return blocked(pod, inventory.BlockedBare, "no controller would replace it: delete it, or give it a controller")
}

func leftAlone(pod *corev1.Pod, now time.Time) *inventory.BlockedPod {
	note := doNotDisrupt(pod, now)
	if note == "" || pod.Status.Phase != corev1.PodRunning {
		return nil
	}
	return blocked(pod, inventory.BlockedDoNotDisrupt,
		fmt.Sprintf("its annotation %s asks to leave it alone: castoff waits until it ends or the annotation is removed", note))
}

// working: what a Job's pod has done is lost with it. One that does not run yet loses nothing.
func working(pod *corev1.Pod, _ time.Time) *inventory.BlockedPod {
	if !controlledBy(pod, "Job", "batch/") || pod.Status.Phase != corev1.PodRunning {
		return nil
	}
	return blocked(pod, inventory.BlockedJob, "its Job is at work: castoff lets it end, until the time for this node is over")
}

// skew is how far castoff's clock may be from the API server's.
const skew = 10 * time.Second

// returned says that the pod came after the drain had begun: it tolerates everything, or names its node.
func (v view) returned(pod *corev1.Pod) bool {
	return !v.begun.IsZero() && pod.CreationTimestamp.After(v.begun.Add(skew))
}

// terminating says how long a pod that is on its way still has, and what keeps one that is late. Nothing is done about that: a pod
// that is taken out of the API may still run, and a finalizer is somebody's own.
func (v view) terminating(pod *corev1.Pod) *inventory.BlockedPod {
	until := pod.DeletionTimestamp.UTC()
	if v.now.Before(until) {
		return blocked(pod, inventory.BlockedTerminating, "it is terminating and has until "+until.Format(time.RFC3339))
	}
	why := "see whether the node's kubelet is alive"
	switch {
	case len(pod.Finalizers) > 0:
		why = fmt.Sprintf("the finalizers %s keep it: see to whoever set them", strings.Join(pod.Finalizers, ", "))
	case !v.silent.IsZero():
		why = fmt.Sprintf("its node has not been Ready since %s, so nobody there ends it: bring the node back, or, if the machine is gone for good, end its instance in EC2, and the pod goes with the node",
			v.silent.UTC().Format(time.RFC3339))
	}
	reason := inventory.BlockedTerminating
	if v.now.Sub(until) > stuckAfter {
		reason = inventory.BlockedStuck
	}
	return blocked(pod, reason, fmt.Sprintf("it should have gone at %s; %s", until.Format(time.RFC3339), why))
}

// doNotDisrupt gives the annotation by which the owner asks to leave the pod alone, if one is in force. Karpenter's may hold a
// duration from the pod's start in place of "true"; a value that is neither means nothing, as in Karpenter.
func doNotDisrupt(pod *corev1.Pod, now time.Time) string {
	if pod.Annotations[safeToEvict] == "false" {
		return safeToEvict + "=false"
	}
	value, set := pod.Annotations[karpv1.DoNotDisruptAnnotationKey]
	if !set {
		return ""
	}
	note := karpv1.DoNotDisruptAnnotationKey + "=" + value
	if value == "true" {
		return note
	}
	grace, err := time.ParseDuration(value)
	if err != nil || grace <= 0 {
		return ""
	}
	if pod.Status.StartTime == nil || now.Before(pod.Status.StartTime.Add(grace)) {
		return note
	}
	return ""
}

func blocked(pod *corev1.Pod, reason inventory.BlockReason, message string) *inventory.BlockedPod {
	return &inventory.BlockedPod{Pod: client.ObjectKeyFromObject(pod), Workload: workload(pod), Reason: reason, Message: message}
}

// workload is the pod's controller as the preflight names it. A Deployment owns its pods through ReplicaSets, which are named after it and
// the hash of its template.
func workload(pod *corev1.Pod) string {
	controller := metav1.GetControllerOf(pod)
	if controller == nil {
		return ""
	}
	kind, name := controller.Kind, controller.Name
	if hash := pod.Labels["pod-template-hash"]; kind == "ReplicaSet" && hash != "" && strings.HasSuffix(name, "-"+hash) {
		kind, name = "Deployment", strings.TrimSuffix(name, "-"+hash)
	}
	return strings.ToLower(kind) + "/" + pod.Namespace + "/" + name
}
