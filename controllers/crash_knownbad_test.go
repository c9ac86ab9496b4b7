package controllers

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/castoff-sh/castoff/api/v1alpha1"
)

// TestKnownBad proves that the world notices: with a ledger that forgets, the ending of an instance that reads still show is
// asked for twice, and AWS chooses the second one among those that are not drained. The same run with a ledger ends right.
func TestKnownBad(t *testing.T) {
	t.Parallel()
	onlyOne := func(m *v1alpha1.Migration) { m.Spec.Strategy.MaxUnavailableNodes = ptr.To(intstr.FromInt32(1)) }
	w := newWorld(t)
	if !forgetful(t, w, onlyOne) {
		t.Fatal("a controller without a ledger broke no promise: this test, or the world's lag, proves nothing")
	}
	if !strings.Contains(w.broken[0], "AWS ended") {
		t.Errorf("the first broken promise is %q, want an instance that AWS chose", w.broken[0])
	}
	w = newWorld(t)
	if wrong := rightEnd(w, migrate(t, w, onlyOne)); len(wrong) > 0 {
		t.Errorf("with its ledger:\n%s", strings.Join(wrong, "\n"))
	}
}

// forgetful runs a controller whose ledger is emptied before every look, and says whether a promise was broken.
func forgetful(t *testing.T, w *world, mutate ...func(*v1alpha1.Migration)) bool {
	t.Helper()
	apply(t, w, mutate...)
	r := w.reconciler()
	for range 400 {
		m := get(t, w)
		m.Status.Operations = nil
		w.must(w.c.updateStatus(m))
		if _, _, crashed := reconcileOnce(r); crashed {
			r = w.reconciler()
		}
		if len(w.broken) > 0 {
			return true
		}
		if meta.IsStatusConditionTrue(get(t, w).Status.Conditions, v1alpha1.ConditionReady) {
			return false
		}
		w.advance(time.Second)
	}
	return false
}

func TestNothingIsWrittenWhenThereIsNothingToDo(t *testing.T) {
	w := newWorld(t)
	migrate(t, w)
	w.writes = 0
	before := get(t, w).ResourceVersion
	r := w.reconciler()
	for range 5 {
		if _, err, _ := reconcileOnce(r); err != nil {
			t.Fatal(err)
		}
		w.advance(time.Minute)
	}
	if w.writes != 0 || get(t, w).ResourceVersion != before {
		t.Errorf("%d writes by a completed migration: %v", w.writes, w.calls)
	}
}
