package controllers

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/autoscaler"
)

// SetupWithManager watches what can change what is to do next: Migrations, legacy nodes, room in disruption budgets, and Cluster
// Autoscalers, for whoever starts one is not to be found out at the next look only.
// What no watch tells (AWS, pods) is looked at in the planner's pace. What castoff may do is in charts/castoff.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("migration").
		For(&v1alpha1.Migration{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(r.every), builder.WithPredicates(legacyNodes())).
		Watches(&policyv1.PodDisruptionBudget{}, handler.EnqueueRequestsFromMapFunc(r.unfinished), builder.WithPredicates(moreRoom())).
		Watches(&appsv1.Deployment{}, handler.EnqueueRequestsFromMapFunc(r.every), builder.WithPredicates(scalers())).
		WithOptions(controller.Options{MaxConcurrentReconciles: 1}).
		Complete(r)
}

// every Migration is asked about a legacy node, a finished one too: a group that came back has to be seen.
func (r *Reconciler) every(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.requests(ctx, func(*v1alpha1.Migration) bool { return true })
}

func (r *Reconciler) unfinished(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.requests(ctx, func(m *v1alpha1.Migration) bool {
		return !meta.IsStatusConditionTrue(m.Status.Conditions, v1alpha1.ConditionReady)
	})
}

func (r *Reconciler) requests(ctx context.Context, want func(*v1alpha1.Migration) bool) []reconcile.Request {
	var list v1alpha1.MigrationList
	if err := r.Observer.Client.List(ctx, &list); err != nil {
		return nil // the cache answers; a Migration that is missed here is looked at in its own pace
	}
	var out []reconcile.Request
	for i := range list.Items {
		if want(&list.Items[i]) {
			out = append(out, reconcile.Request{NamespacedName: types.NamespacedName{Name: list.Items[i].Name}})
		}
	}
	return out
}

// legacyNodes passes nodes that Karpenter did not make, when they come, go, or change in what castoff reads of them.
// Heartbeats change none of it.
func legacyNodes() predicate.Predicate {
	legacy := func(o client.Object) bool { return o.GetLabels()[karpv1.NodePoolLabelKey] == "" }
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return legacy(e.Object) },
		DeleteFunc: func(e event.DeleteEvent) bool { return legacy(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok := e.ObjectOld.(*corev1.Node)
			after, ok2 := e.ObjectNew.(*corev1.Node)
			return ok && ok2 && legacy(after) && (before.Spec.Unschedulable != after.Spec.Unschedulable ||
				len(before.Spec.Taints) != len(after.Spec.Taints) || nodeReady(before) != nodeReady(after))
		},
	}
}

// scalers passes Cluster Autoscalers when they come, go, or have other replicas or arguments than before.
func scalers() predicate.Predicate {
	is := func(o client.Object) bool {
		d, ok := o.(*appsv1.Deployment)
		return ok && autoscaler.Runs(&d.Spec.Template.Spec)
	}
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return is(e.Object) },
		DeleteFunc: func(e event.DeleteEvent) bool { return is(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok := e.ObjectOld.(*appsv1.Deployment)
			after, ok2 := e.ObjectNew.(*appsv1.Deployment)
			return ok && ok2 && (is(before) || is(after)) && (before.Generation != after.Generation || before.Status.Replicas != after.Status.Replicas)
		},
	}
}

// moreRoom passes a budget that allows more disruptions than before.
func moreRoom() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		DeleteFunc: func(event.DeleteEvent) bool { return true },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok := e.ObjectOld.(*policyv1.PodDisruptionBudget)
			after, ok2 := e.ObjectNew.(*policyv1.PodDisruptionBudget)
			return ok && ok2 && after.Status.DisruptionsAllowed > before.Status.DisruptionsAllowed
		},
	}
}
