package controllers

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// workloads reads what the preflight needs of every pod, page by page.
func (o *Observer) workloads(ctx context.Context) (inventory.Workloads, error) {
	var w inventory.Workloads
	err := o.eachPod(ctx, func(p *corev1.Pod) {
		if finished(p) {
			return
		}
		w.Pods = append(w.Pods, podOf(p))
		if p.Spec.NodeName == "" {
			w.Pending++
		}
	})
	if err != nil {
		return w, err
	}
	var budgets policyv1.PodDisruptionBudgetList
	if err := o.Live.List(ctx, &budgets); err != nil {
		return w, fmt.Errorf("listing PodDisruptionBudgets: %w", err)
	}
	w.Budgets = budgets.Items
	return w, nil
}

func podOf(p *corev1.Pod) inventory.Pod {
	out := inventory.Pod{
		Namespace: p.Namespace, Name: p.Name, Node: p.Spec.NodeName, Labels: p.Labels, Annotations: p.Annotations,
		Owner: metav1.GetControllerOf(p), Phase: p.Status.Phase, Terminating: p.DeletionTimestamp != nil, Shape: shapeOf(&p.Spec),
	}
	_, out.Mirror = p.Annotations[corev1.MirrorPodAnnotationKey]
	return out
}

// shapeOf keeps of a pod's spec, or a template's, what the checks need.
func shapeOf(s *corev1.PodSpec) *inventory.Shape {
	return &inventory.Shape{NodeSelector: s.NodeSelector, Affinity: s.Affinity, Tolerations: s.Tolerations}
}
