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
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/inventory/kubeapi"
)

const (
	nodeNameField = "spec.nodeName"
	pageSize      = 250 // pods; a node runs 110 by default, and a page of large ones stays under 10 MB

	safeToEvict = "cluster-autoscaler.kubernetes.io/safe-to-evict" // Cluster Autoscaler's FAQ
)

// pods lists what has to leave the node before its instance may end, in a fixed order. It reads past the cache, one node at a
// time: a cache of all pods would not fit.
func (d *Drainer) pods(ctx context.Context, node string) ([]corev1.Pod, error) {
	var evictable []corev1.Pod
	for token := ""; ; {
		page := new(corev1.PodList) // a new one: what the last page has no value for would keep that of the page before
		err := d.live.List(ctx, page, client.MatchingFields{nodeNameField: node}, client.Limit(pageSize), client.Continue(token))
		if err != nil {
			return nil, kubeapi.Wrap(err, "list", "pods", "of node "+node)
		}
		for _, pod := range page.Items {
			if mustLeave(&pod) {
				evictable = append(evictable, pod)
			}
		}
		if token = page.Continue; token == "" {
			break
		}
	}
	slices.SortFunc(evictable, func(a, b corev1.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return evictable, nil
}

// mustLeave leaves out what stays to the end (DaemonSets), what no API can evict (static pods), and what has ended.
func mustLeave(pod *corev1.Pod) bool {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return false
	}
	if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return false
	}
	controller := metav1.GetControllerOf(pod)
	return controller == nil || controller.Kind != "DaemonSet" || !strings.HasPrefix(controller.APIVersion, "apps/")
}

// waits says why the pod is not to be evicted at all now; nil if it may be.
func waits(pod *corev1.Pod, now time.Time) *inventory.BlockedPod {
	if pod.DeletionTimestamp != nil {
		return blocked(pod, inventory.BlockedTerminating, terminating(pod, now))
	}
	if metav1.GetControllerOf(pod) == nil {
		return blocked(pod, inventory.BlockedBare, "no controller would replace it: delete it, or give it a controller")
	}
	if note := doNotDisrupt(pod, now); note != "" && pod.Status.Phase == corev1.PodRunning {
		return blocked(pod, inventory.BlockedDoNotDisrupt,
			fmt.Sprintf("its annotation %s asks to leave it alone: castoff waits until it ends or the annotation is removed", note))
	}
	return nil
}

// terminating says how long a pod that is on its way still has, and what keeps one that is late.
func terminating(pod *corev1.Pod, now time.Time) string {
	deadline := pod.DeletionTimestamp.Time
	switch {
	case now.Before(deadline):
		return fmt.Sprintf("it is terminating and has until %s", deadline.UTC().Format(time.RFC3339))
	case len(pod.Finalizers) > 0:
		return fmt.Sprintf("it should have gone at %s; the finalizers %s keep it", deadline.UTC().Format(time.RFC3339),
			strings.Join(pod.Finalizers, ", "))
	default:
		return fmt.Sprintf("it should have gone at %s; see whether the node's kubelet is alive", deadline.UTC().Format(time.RFC3339))
	}
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
	return &inventory.BlockedPod{Pod: client.ObjectKeyFromObject(pod), Reason: reason, Message: message}
}
