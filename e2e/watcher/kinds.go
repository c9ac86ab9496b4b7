package watcher

import (
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
)

// groupOf is a group's name to people: EKS' own for a managed node group, else the Auto Scaling group's.
func groupOf(nodeGroup, autoScalingGroup string) string { return word(nodeGroup, autoScalingGroup) }

func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// evictable says whether a drain has to wait for the pod.
func evictable(pod *corev1.Pod) bool {
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return !finished(pod) && !mirror && daemonOf(pod) == "" && pod.Labels[v1alpha1.LabelPlaceholder] == ""
}

// daemonOf is the name of the DaemonSet that owns the pod, empty if none does.
func daemonOf(pod *corev1.Pod) string {
	if owner := metav1.GetControllerOf(pod); owner != nil && owner.Kind == "DaemonSet" {
		return owner.Name
	}
	return ""
}

func isPodReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func isReady(conditions []corev1.NodeCondition) bool {
	return slices.ContainsFunc(conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// isAutoscaler goes by the image's base name, whatever registry or Deployment it comes from.
func isAutoscaler(containers []corev1.Container) bool {
	return slices.ContainsFunc(containers, func(c corev1.Container) bool {
		name, _, _ := strings.Cut(path.Base(c.Image), "@")
		name, _, _ = strings.Cut(name, ":")
		return name == "cluster-autoscaler"
	})
}
