package controllers

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/autoscaler"
	"github.com/castoff-sh/castoff/pkg/provisioner"
)

// SetupWithManager watches what can change what is to do next: Migrations, legacy nodes, room in disruption budgets, and Cluster
// Autoscalers and Karpenters, for whoever starts one is not to be found out at the next look only, nor who takes a Lease.
// What no watch tells (AWS, pods) is looked at in the planner's pace. What castoff may do is in charts/castoff.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	all := handler.EnqueueRequestsFromMapFunc(r.every)
	c, err := r.watchTemplates(ctrl.NewControllerManagedBy(mgr)).
		Named("migration").
		For(&v1alpha1.Migration{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(r.every), builder.WithPredicates(legacyNodes())).
		Watches(&policyv1.PodDisruptionBudget{}, handler.EnqueueRequestsFromMapFunc(r.unfinished), builder.WithPredicates(moreRoom())).
		Watches(&appsv1.Deployment{}, all, builder.WithPredicates(scalers())).
		Watches(&appsv1.StatefulSet{}, all, builder.WithPredicates(scalers())).
		Watches(&appsv1.DaemonSet{}, all, builder.WithPredicates(scalers())).
		Watches(&coordinationv1.Lease{}, all, builder.WithPredicates(holders())).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.unfinished), builder.WithPredicates(roomMade())).
		WithOptions(controller.Options{MaxConcurrentReconciles: 1}).
		Build(r)
	if err != nil {
		return err
	}
	r.Observer.watchPools = func() error {
		woken := handler.TypedEnqueueRequestsFromMapFunc(func(ctx context.Context, np *karpv1.NodePool) []reconcile.Request { return r.every(ctx, np) })
		return c.Watch(source.Kind(mgr.GetCache(), &karpv1.NodePool{}, woken, nodePools()))
	}
	return nil
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
				!equality.Semantic.DeepEqual(before.Spec.Taints, after.Spec.Taints) || nodeReady(before) != nodeReady(after))
		},
	}
}

// scalers passes Cluster Autoscalers and Karpenters when they come, go, or have other replicas or arguments than before.
func scalers() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return isScaler(e.Object) },
		DeleteFunc: func(e event.DeleteEvent) bool { return isScaler(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return (isScaler(e.ObjectOld) || isScaler(e.ObjectNew)) &&
				(e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() || replicas(e.ObjectOld) != replicas(e.ObjectNew))
		},
	}
}

func isScaler(o client.Object) bool {
	switch o := o.(type) {
	case *appsv1.Deployment:
		return autoscaler.Runs(&o.Spec.Template.Spec) || provisioner.IsKarpenter(o)
	case *appsv1.StatefulSet:
		return autoscaler.Runs(&o.Spec.Template.Spec)
	case *appsv1.DaemonSet:
		return autoscaler.Runs(&o.Spec.Template.Spec)
	}
	return false
}

// replicas that the workload's controller reports.
func replicas(o client.Object) int32 {
	switch o := o.(type) {
	case *appsv1.Deployment:
		return o.Status.Replicas
	case *appsv1.StatefulSet:
		return o.Status.Replicas
	case *appsv1.DaemonSet:
		return o.Status.DesiredNumberScheduled
	}
	return 0
}

// holders passes a Lease that goes, or that another holder has than before. A renewal changes neither.
func holders() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok := e.ObjectOld.(*coordinationv1.Lease)
			after, ok2 := e.ObjectNew.(*coordinationv1.Lease)
			return ok && ok2 && ptr.Deref(before.Spec.HolderIdentity, "") != ptr.Deref(after.Spec.HolderIdentity, "")
		},
	}
}

// nodePools passes those that come, go, or are changed by somebody: their status changes with every node.
func nodePools() predicate.TypedPredicate[*karpv1.NodePool] {
	return predicate.TypedFuncs[*karpv1.NodePool]{
		UpdateFunc: func(e event.TypedUpdateEvent[*karpv1.NodePool]) bool {
			return e.ObjectOld.Generation != e.ObjectNew.Generation
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
