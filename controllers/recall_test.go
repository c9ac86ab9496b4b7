package controllers

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
)

// TestWaitsBeyondTheStatusKeepTheirTime: a wait for which the status has no room lasts on, in the process that saw it begin.
func TestWaitsBeyondTheStatusKeepTheirTime(t *testing.T) {
	w := newWorld(t)
	r, m := w.reconciler(), migration()
	began := metav1.NewTime(w.now)
	var all []v1alpha1.Blocker
	for i := range maxBlockers + 5 {
		all = append(all, v1alpha1.Blocker{Severity: v1alpha1.SeverityWait, Reason: "GateUnknown", Object: fmt.Sprintf("gate/%d", i), Since: &began})
	}
	r.remember(m, all)
	w.advance(10 * time.Minute)
	m.Status.Blockers = bounded(all)
	r.recall(m)
	for _, b := range all {
		found := false
		for _, have := range m.Status.Blockers {
			found = found || have.Object == b.Object && have.Since.Equal(&began)
		}
		if !found {
			t.Errorf("%s has lost its time", b.Object)
		}
	}
	other := migration()
	other.Name = "other"
	if r.recall(other); len(other.Status.Blockers) > 0 {
		t.Errorf("another Migration is told of them: %v", other.Status.Blockers)
	}
	fresh := migration()
	if w.reconciler().recall(fresh); len(fresh.Status.Blockers) > 0 {
		t.Errorf("a new process knows what nobody wrote down: %v", fresh.Status.Blockers)
	}
}

// TestMoreGatesThanTheStatusHasRoomFor: five more than the status has room for, and a human is asked for all the same once Prometheus has
// been away for long, with a status that the API takes. (The API takes 16 gates; here they stand for waits of any kind.)
func TestMoreGatesThanTheStatusHasRoomFor(t *testing.T) {
	w := newWorld(t)
	w.monitoring.away = time.Hour
	apply(t, w, gated, func(m *v1alpha1.Migration) {
		gate := m.Spec.Strategy.Gates[0]
		m.Spec.Strategy.Gates = nil
		for i := range maxBlockers + 5 {
			gate.Name = fmt.Sprintf("errors-%02d", i)
			m.Spec.Strategy.Gates = append(m.Spec.Strategy.Gates, gate)
		}
	})
	stalled := func(w *world) bool {
		for _, b := range w.migration().Status.Blockers {
			if b.Reason == "GateUnknown" && b.Severity == v1alpha1.SeverityBlock {
				return true
			}
		}
		return false
	}
	if err := w.drive(stalled, mostLooks); err != nil {
		t.Fatal(err)
	}
	asked := w.now
	r := w.reconciler()
	for range 3 {
		if _, err, _ := reconcileOnce(r); err != nil {
			t.Fatal(err)
		}
		w.advance(15 * time.Second)
	}
	blockers := w.migration().Status.Blockers
	if len(blockers) != maxBlockers {
		t.Fatalf("%d blockers in the status, want %d", len(blockers), maxBlockers)
	}
	for _, b := range blockers {
		if b.Severity != v1alpha1.SeverityBlock || b.Since.After(asked) {
			t.Errorf("%s: %s since %s, asked for a human at %s", b.Object, b.Severity, b.Since, asked)
		}
	}
}
