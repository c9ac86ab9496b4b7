package controllers

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/castoff-sh/castoff/api/v1alpha1"
)

// mostLooks bounds a run: a clean one needs well under two hundred.
const mostLooks = 1500

type crash struct{}

// migrate applies a Migration and reconciles until it is Ready, starting a new process whenever one ends.
func migrate(t *testing.T, w *world, mutate ...func(*v1alpha1.Migration)) *v1alpha1.Migration {
	t.Helper()
	apply(t, w, mutate...)
	r := w.reconciler()
	for range mostLooks {
		result, err, crashed := reconcileOnce(r)
		m := get(t, w)
		if meta.IsStatusConditionTrue(m.Status.Conditions, v1alpha1.ConditionReady) {
			return m
		}
		if crashed {
			r = w.reconciler()
		}
		wait := result.RequeueAfter
		if err != nil || crashed || wait == 0 {
			wait = time.Second
		}
		w.advance(min(max(wait, 500*time.Millisecond), 5*time.Second))
	}
	m := get(t, w)
	t.Fatalf("not finished after %d looks: phase %s, blocked by %q, operations %+v", mostLooks, m.Status.Phase, m.Status.BlockedBy, m.Status.Operations)
	return nil
}

func apply(t *testing.T, w *world, mutate ...func(*v1alpha1.Migration)) {
	t.Helper()
	m := &v1alpha1.Migration{
		ObjectMeta: metav1.ObjectMeta{Name: "prod", UID: "uid-1", CreationTimestamp: metav1.NewTime(w.now)},
		Spec: v1alpha1.MigrationSpec{ClusterName: "test", Strategy: v1alpha1.Strategy{
			MaxUnavailableNodes: ptr.To(intstr.FromString("50%")), SoakSeconds: ptr.To[int32](5),
		}},
	}
	for _, f := range mutate {
		f(m)
	}
	w.must(w.c.Create(context.Background(), m))
}

func get(t *testing.T, w *world) *v1alpha1.Migration {
	t.Helper()
	m := &v1alpha1.Migration{}
	w.must(w.c.Get(context.Background(), types.NamespacedName{Name: "prod"}, m))
	return m
}

func reconcileOnce(r *Reconciler) (result ctrl.Result, err error, crashed bool) {
	defer func() {
		if p := recover(); p != nil {
			if _, ok := p.(crash); !ok {
				panic(p)
			}
			crashed = true
		}
	}()
	result, err = r.Reconcile(context.Background(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "prod"}})
	return result, err, false
}

// rightEnd says what is wrong with the world at the end.
func rightEnd(w *world, m *v1alpha1.Migration) []string {
	wrong := slices.Clone(w.broken)
	if m.Status.Phase != v1alpha1.PhaseCompleted {
		wrong = append(wrong, "phase "+string(m.Status.Phase))
	}
	for name, want := range map[string][3]int32{"general": {0, 0, 0}, "batch": {0, 1, 0}, "system": {1, 10, 2}} {
		g := w.groups[name]
		if got := [3]int32{g.Min, g.Max, g.Desired}; got != want {
			wrong = append(wrong, fmt.Sprintf("sizes of %s %v, want %v", name, got, want))
		}
	}
	if !w.ca.Stopped() || w.ca.LeaseHolder != v1alpha1.LeaseIdentity {
		wrong = append(wrong, "Cluster Autoscaler is not stopped and fenced")
	}
	if w.homeless > 0 {
		wrong = append(wrong, "pods without a node")
	}
	if len(w.engine.NodePools) != 2 || len(w.started) != 0 {
		wrong = append(wrong, fmt.Sprintf("%d NodePools, %d canaries", len(w.engine.NodePools), len(w.started)))
	}
	return wrong
}

func TestMigrationRunsToItsEnd(t *testing.T) {
	w := newWorld(t)
	m := migrate(t, w)
	if wrong := rightEnd(w, m); len(wrong) > 0 {
		t.Errorf("the clean run ends wrong:\n%s", strings.Join(wrong, "\n"))
	}
	if w.calls["Stop"] != 1 {
		t.Errorf("Cluster Autoscaler was stopped %d times, want once", w.calls["Stop"])
	}
}

// crashAt ends the process at the n-th point: points are the moments before and after every write.
func crashAt(points ...int) func(string, bool) error {
	n := -1
	return func(string, bool) error {
		n++
		if slices.Contains(points, n) {
			panic(crash{})
		}
		return nil
	}
}

// points of a clean run: how many moments a process can end at.
func points(t *testing.T) int {
	t.Helper()
	w := newWorld(t)
	n := 0
	w.hook = func(string, bool) error { n++; return nil }
	migrate(t, w)
	return n
}

// trial is one run with something going wrong in it.
type trial struct {
	name string
	lag  time.Duration
	hook func(name string, after bool) error
}

// sweep runs the trials on all processors, and wants each to end right.
func sweep(t *testing.T, trials []trial) {
	t.Helper()
	shards := runtime.GOMAXPROCS(0)
	for shard := range shards {
		t.Run(fmt.Sprintf("shard %d of %d", shard+1, shards), func(t *testing.T) {
			t.Parallel()
			for i := shard; i < len(trials); i += shards {
				w := newWorld(t)
				w.lag, w.hook = trials[i].lag, trials[i].hook
				if wrong := rightEnd(w, migrate(t, w)); len(wrong) > 0 {
					t.Fatalf("%s:\n%s", trials[i].name, strings.Join(wrong, "\n"))
				}
			}
		})
	}
}

// TestCrashEverywhere ends the process before and after every write of a run.
func TestCrashEverywhere(t *testing.T) {
	t.Parallel()
	total := points(t)
	if total < 150 {
		t.Fatalf("a clean run has %d points: the world does not call its hook", total)
	}
	var trials []trial
	for n := range total {
		trials = append(trials, trial{name: fmt.Sprintf("ended at point %d of %d", n, total), lag: testLag, hook: crashAt(n)})
	}
	sweep(t, trials)
}

// TestCrashTwice ends it at adjacent points, and at a seeded sample of others.
func TestCrashTwice(t *testing.T) {
	t.Parallel()
	total := points(t)
	random := rand.New(rand.NewSource(20261130))
	var trials []trial
	at := func(a, b int) {
		trials = append(trials, trial{name: fmt.Sprintf("ended at points %d and %d of %d", a, b, total), lag: testLag, hook: crashAt(a, b)})
	}
	for n := range total - 1 {
		at(n, n+1)
	}
	for range 50 {
		at(random.Intn(total), random.Intn(total))
	}
	sweep(t, trials)
}

// TestCrashWithOtherLags: reads that are never stale, and reads that are stale for longer than the ledger is patient.
func TestCrashWithOtherLags(t *testing.T) {
	t.Parallel()
	total := points(t)
	random := rand.New(rand.NewSource(20261201))
	var trials []trial
	for _, lag := range []time.Duration{0, 20 * time.Second} {
		for range 25 {
			n := random.Intn(total)
			trials = append(trials, trial{name: fmt.Sprintf("ended at point %d of %d, reads %s behind", n, total, lag), lag: lag, hook: crashAt(n)})
		}
	}
	sweep(t, trials)
}

// TestLostReplies: the effect was made, and its answer was lost.
func TestLostReplies(t *testing.T) {
	t.Parallel()
	total := points(t)
	var trials []trial
	for n := range total {
		i := -1
		trials = append(trials, trial{name: fmt.Sprintf("reply %d of %d lost", n, total), lag: testLag, hook: func(_ string, after bool) error {
			i++
			if i == n && after {
				return errors.New("the reply was lost")
			}
			return nil
		}})
	}
	sweep(t, trials)
}

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
