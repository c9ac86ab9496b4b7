package controllers

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/drain"
	"github.com/castoff-sh/castoff/pkg/inventory/kubeapi"
)

// placeholders are castoff's own pods that keep room, of which there may be as many as pods that are to move: the only pods that are
// cached. notPlaceholders leaves them out.
var placeholders, notPlaceholders = selecting(selection.Exists), selecting(selection.DoesNotExist)

func selecting(op selection.Operator) labels.Selector {
	r, err := labels.NewRequirement(v1alpha1.LabelPlaceholder, op, nil)
	if err != nil {
		return labels.Nothing() // the label's name is a valid one
	}
	return labels.NewSelector().Add(*r)
}

// slimPlaceholder drops what nobody reads of a placeholder.
func slimPlaceholder(obj any) (any, error) {
	if p, ok := obj.(*corev1.Pod); ok {
		p.ManagedFields, p.OwnerReferences = nil, nil
		p.Spec = corev1.PodSpec{NodeName: p.Spec.NodeName}
		p.Status = corev1.PodStatus{Phase: p.Status.Phase, Conditions: p.Status.Conditions}
	}
	return obj, nil
}

// roomOf says where placeholders live. Without a cache they are read live.
func roomOf(ctx context.Context, w Wiring) (drain.Room, error) {
	room := drain.Room{Namespace: w.Namespace, Image: w.ManagerImage, Args: []string{"pause"}}
	if w.Cache == nil {
		return room, nil
	}
	if err := w.Cache.IndexField(ctx, &corev1.Pod{}, drain.IndexPlaceholderNode, drain.IndexOf); err != nil {
		return room, fmt.Errorf("indexing placeholders: %w", err)
	}
	room.Cached = w.Cache
	return room, nil
}

// roomMade passes a placeholder whose node takes pods from now on.
func roomMade() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		DeleteFunc: func(event.DeleteEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok := e.ObjectOld.(*corev1.Pod)
			after, ok2 := e.ObjectNew.(*corev1.Pod)
			return ok && ok2 && !kubeapi.Ready(before) && kubeapi.Ready(after)
		},
	}
}
