package controllers

import (
	"context"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/castoff-sh/castoff/api/v1alpha1"
)

// watchTemplates wakes the reconciler for what makes pods, when it comes or its template may have changed, while pools are still to
// change hands after others: a workload that two scalers could serve is to be named at once. Of Jobs and CronJobs, which may be many,
// only the metadata is kept.
func (r *Reconciler) watchTemplates(b *builder.Builder) *builder.Builder {
	woken, changed := handler.EnqueueRequestsFromMapFunc(r.betweenWaves), builder.WithPredicates(templates())
	return b.
		Watches(&appsv1.Deployment{}, woken, changed).
		Watches(&appsv1.StatefulSet{}, woken, changed).
		WatchesMetadata(&batchv1.Job{}, woken, changed).
		WatchesMetadata(&batchv1.CronJob{}, woken, changed)
}

// betweenWaves are the Migrations of which some pools have changed hands and others have not, by what was last written down.
func (r *Reconciler) betweenWaves(ctx context.Context, _ client.Object) []reconcile.Request {
	woken := r.requests(ctx, func(m *v1alpha1.Migration) bool {
		return len(m.Status.Waves) > 1 && slices.ContainsFunc(m.Status.Waves, func(w v1alpha1.WaveStatus) bool { return w.ServedTime == nil })
	})
	if len(woken) > 0 {
		r.Observer.templates.forget()
	}
	return woken
}

// templates passes what is new or has another spec than before. A CronJob stands for its Jobs.
func templates() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool {
			owner := metav1.GetControllerOf(e.Object)
			return owner == nil || owner.Kind != "CronJob"
		},
		DeleteFunc: func(event.DeleteEvent) bool { return true },
		UpdateFunc: func(e event.UpdateEvent) bool { return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() },
	}
}
