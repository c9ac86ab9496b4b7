package controllers

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/plan"
)

// throttledAgain is when a look or an action that was throttled is tried again; it is no failure and backs nothing off.
const throttledAgain = 5 * time.Second

// Options of the operator.
type Options struct {
	// Namespace that castoff runs in: snapshot, report and canary pods live there.
	Namespace string
	// NodesAtOnce is on how many nodes it works at once; 0: one after the other.
	NodesAtOnce int
}

// Reconciler drives Migrations. It runs one at a time (setup.go).
type Reconciler struct {
	Observer *Observer
	Recorder events.EventRecorder
	Options  Options

	// since remembers, between two looks of this process, when what a drain pass found was first seen.
	since map[string]*metav1.Time
	// failed are the actions that failed at the last look of this process.
	failed map[string]error
	// announced are the warnings that were told as events: a check that is run again says the same again.
	announced map[string]bool
	// written is when the status was last written; unwritten says that there is something in it that was not.
	written   time.Time
	unwritten bool
	// accepted are the findings of this look that are accepted.
	accepted map[string]bool
	// seen are the blockers of the last look by Migration, those that the status has no room for among them.
	seen map[string][]v1alpha1.Blocker
	// metrics is what Prometheus is told of the Migrations.
	metrics migrationMetrics
}

// Reconcile looks, decides, records, acts and reports: once, without waiting for anything.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	m := &v1alpha1.Migration{}
	if err := r.Observer.Live.Get(ctx, req.NamespacedName, m); err != nil {
		if apierrors.IsNotFound(err) {
			r.metrics.forget(req.Name)
			delete(r.seen, req.Name)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !m.DeletionTimestamp.IsZero() && !controllerutil.ContainsFinalizer(m, v1alpha1.Finalizer) {
		return ctrl.Result{}, nil
	}
	before := m.DeepCopy()
	r.unwritten = false
	w, err := r.Observer.Observe(ctx, m)
	if err != nil {
		return r.cannotLook(ctx, before, m, err)
	}
	if w.Snapshot != nil && m.DeletionTimestamp == nil && controllerutil.AddFinalizer(m, v1alpha1.Finalizer) { // a snapshot that was adopted
		if err := r.updateMeta(ctx, m); err != nil {
			return retryConflict(err)
		}
	}
	now := r.Observer.Clock()
	r.recall(m)
	d := plan.Next(m, w, now)
	r.remember(m, d.Blockers)
	r.metrics.looked(m, now, d.Serving)
	stored, err := r.record(ctx, before, m, w, d)
	if err != nil {
		return retryConflict(err)
	}
	if d.Rested && m.DeletionTimestamp != nil {
		return ctrl.Result{}, r.letGo(ctx, m)
	}
	results := r.act(ctx, m, w, d.Actions)
	return r.finish(ctx, stored, m, d, results)
}

// recall adds to the status that was read what it had no room for: how long a wait has lasted decides when a human is asked for. A
// new process knows the first 20 blockers only, and counts the others' time from its first look on.
func (r *Reconciler) recall(m *v1alpha1.Migration) {
	m.Status.Blockers = append(m.Status.Blockers, r.seen[m.Name]...)
}

func (r *Reconciler) remember(m *v1alpha1.Migration, blockers []v1alpha1.Blocker) {
	if r.seen == nil {
		r.seen = map[string][]v1alpha1.Blocker{}
	}
	r.seen[m.Name] = blockers
}

// letGo ends the wait of a deleted Migration that has come to rest.
func (r *Reconciler) letGo(ctx context.Context, m *v1alpha1.Migration) error {
	controllerutil.RemoveFinalizer(m, v1alpha1.Finalizer)
	return client.IgnoreNotFound(r.updateMeta(ctx, m))
}

// record writes the ledger before the first effect is made, and returns what is stored. The write fails for a leader that lost
// its lead and decided on an old Migration: it makes none of what it decided.
func (r *Reconciler) record(ctx context.Context, before, m *v1alpha1.Migration, w plan.World, d plan.Decision) (stored *v1alpha1.Migration, err error) {
	r.project(m, w, d)
	r.expect(m, d.Actions)
	if err := r.writeReport(ctx, m, w); err != nil {
		return nil, err
	}
	r.accepted = acceptedOf(w.Findings)
	if err := r.write(ctx, before, m); err != nil {
		return nil, err
	}
	r.announceAccepted(m, w.Findings, d.Passed)
	if r.unwritten {
		return before, nil
	}
	return m.DeepCopy(), nil
}

// finish reports what became of the actions and says when to look again.
func (r *Reconciler) finish(ctx context.Context, stored, m *v1alpha1.Migration, d plan.Decision, results []result) (ctrl.Result, error) {
	r.Observer.forget(d.Actions)
	r.report(m, results)
	r.metrics.told(m, r.Observer.Clock())
	if err := r.write(ctx, stored, m); err != nil {
		return retryConflict(err)
	}
	var failures []error
	throttled := false
	for _, res := range results {
		if res.err == nil {
			continue
		}
		log.FromContext(ctx).Error(res.err, "change failed", "change", actionName(res.action))
		switch inventory.ClassOf(res.err) {
		case inventory.ClassThrottled:
			throttled = true
		default:
			failures = append(failures, res.err)
		}
	}
	if len(failures) > 0 {
		return ctrl.Result{}, errors.Join(failures...)
	}
	if throttled {
		return ctrl.Result{RequeueAfter: throttledAgain}, nil
	}
	again := max(d.Until.Sub(r.Observer.Clock()), time.Millisecond)
	if r.unwritten {
		again = min(again, statusPace)
	}
	return ctrl.Result{RequeueAfter: again}, nil
}

func (r *Reconciler) cannotLook(ctx context.Context, before, m *v1alpha1.Migration, err error) (ctrl.Result, error) {
	r.fail(m, err)
	r.metrics.told(m, r.Observer.Clock())
	if werr := r.write(ctx, before, m); werr != nil {
		return retryConflict(errors.Join(err, werr))
	}
	if inventory.ClassOf(err) == inventory.ClassThrottled {
		return ctrl.Result{RequeueAfter: throttledAgain}, nil
	}
	return ctrl.Result{}, err
}

// retryConflict: somebody wrote the Migration since it was read; that is no failure, it is looked at again.
func retryConflict(err error) (ctrl.Result, error) {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return ctrl.Result{RequeueAfter: 100 * time.Millisecond}, nil
	}
	return ctrl.Result{}, err
}
