package controllers

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
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
	m, err := drive(w, isReady)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func isReady(m *v1alpha1.Migration) bool {
	return meta.IsStatusConditionTrue(m.Status.Conditions, v1alpha1.ConditionReady)
}

// drive reconciles until the Migration is as wanted, starting a new process at first and whenever one ends.
func drive(w *world, wanted func(*v1alpha1.Migration) bool) (*v1alpha1.Migration, error) {
	r := w.reconciler()
	for range mostLooks {
		result, err, crashed := reconcileOnce(r)
		m := get(w.t, w)
		if wanted(m) {
			return m, nil
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
	m := get(w.t, w)
	return m, fmt.Errorf("not finished after %d looks: phase %s, blocked by %q, operations %+v", mostLooks, m.Status.Phase, m.Status.BlockedBy, m.Status.Operations)
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
	if w.homeless["general"]+w.homeless["batch"] > 0 {
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

// crashAt ends the process at the n-th point from now: points are the moments before and after every write.
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

// loseReply lets the n-th write from now be made and its answer be lost.
func loseReply(n int) func(string, bool) error {
	i := 0
	return func(_ string, after bool) error {
		if after {
			i++
		}
		if after && i == n+1 {
			return errors.New("the reply was lost")
		}
		return nil
	}
}

// course is an uninterrupted run.
type course struct {
	start, end *world
	// points are the worlds at every moment at which a process can end: before and after every write.
	points []*world
}

// walk runs from the world as it is and keeps what it was at every point. A process that ends leaves nothing but the world,
// so a crash at a point is a new process in that world.
func walk(t *testing.T, w *world, wanted func(*v1alpha1.Migration) bool) course {
	t.Helper()
	c := course{start: w.fork(t), end: w}
	w.hook = func(string, bool) error { c.points = append(c.points, w.fork(t)); return nil }
	if _, err := drive(w, wanted); err != nil {
		t.Fatalf("the uninterrupted run: %v", err)
	}
	w.hook = nil
	return c
}

// forward is the uninterrupted migration, with reads that lag.
func forward(t *testing.T, lag time.Duration) course {
	t.Helper()
	w := newWorld(t)
	w.lag = lag
	apply(t, w)
	return walk(t, w, isReady)
}

// trial is one run in which something goes wrong.
type trial struct {
	name string
	from *world
	hook func(name string, after bool) error
	// counts is where the report counts it.
	counts func(*crashReport) *int
}

// run begins a new process in the world of the trial, and says what is wrong at the end.
func (x trial) run(t *testing.T, report *crashReport) []string {
	w := x.from.fork(t)
	w.hook = x.hook
	m, err := drive(w, isReady)
	wrong := rightEnd(w, m)
	if err != nil {
		wrong = append(wrong, err.Error())
	}
	report.count(x, w.effects(), len(wrong) > 0)
	return wrong
}

// sweep runs the trials on all processors, and wants each to end right.
func sweep(t *testing.T, report *crashReport, kind string, trials []trial) {
	t.Helper()
	if every := sample(t); every > 1 {
		var some []trial
		for i := range trials {
			if i%every == 0 {
				some = append(some, trials[i])
			}
		}
		trials = some
	}
	debug.SetGCPercent(400)
	shards := runtime.GOMAXPROCS(0)
	t.Run(kind, func(t *testing.T) {
		for shard := range shards {
			t.Run(fmt.Sprintf("shard %d of %d", shard+1, shards), func(t *testing.T) {
				t.Parallel()
				for i := shard; i < len(trials); i += shards {
					if wrong := trials[i].run(t, report); len(wrong) > 0 {
						t.Errorf("%s:\n%s", trials[i].name, strings.Join(wrong, "\n"))
					}
				}
			})
		}
	})
}

// sample says that one trial in so many is run: CRASH_SAMPLE, 1 for all of them.
func sample(t *testing.T) int {
	const otherwise = 25
	s := os.Getenv("CRASH_SAMPLE")
	if s == "" {
		return otherwise
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		t.Fatalf("CRASH_SAMPLE is %q, want a number from 1 on", s)
	}
	return n
}

// TestCrashEverywhere ends the process before and after every write, once and twice, loses every answer, and lets reads lag.
func TestCrashEverywhere(t *testing.T) {
	report := &crashReport{}
	defer report.save(t)
	c := forward(t, testLag)
	if len(c.points) < 150 {
		t.Fatalf("a clean run has %d points: the world does not call its hook", len(c.points))
	}
	report.EffectsUninterrupted = c.end.effects()
	sweep(t, report, "once", once(c))
	sweep(t, report, "twice", pairs(c))
	sweep(t, report, "reply lost", lostReplies(c))
	for _, lag := range []time.Duration{0, 20 * time.Second} {
		stale := once(forward(t, lag))
		for i := range stale {
			stale[i].name += ", reads " + lag.String() + " behind"
			stale[i].counts = func(r *crashReport) *int { return &r.Stale }
		}
		sweep(t, report, "reads "+lag.String()+" behind", stale)
	}
}

// once ends the process at every point.
func once(c course) []trial {
	var out []trial
	for n, from := range c.points {
		out = append(out, trial{name: fmt.Sprintf("ended at point %d", n), from: from, counts: func(r *crashReport) *int { return &r.CrashPoints }})
	}
	return out
}

// pairs end the process at a point, and the next one at a later point: at the next one, and at a seeded sample of others.
func pairs(c course) []trial {
	const others = 2000
	random := rand.New(rand.NewSource(20261130))
	var out []trial
	at := func(n, later int) {
		out = append(out, trial{name: fmt.Sprintf("ended at point %d, and %d points later", n, later), from: c.points[n], hook: crashAt(later),
			counts: func(r *crashReport) *int { return &r.Pairs }})
	}
	for n := range c.points {
		at(n, 0)
	}
	for range others {
		n := random.Intn(len(c.points))
		at(n, 1+random.Intn(len(c.points)-n))
	}
	return out
}

// lostReplies are the effects that are made, and whose answers are lost.
func lostReplies(c course) []trial {
	var out []trial
	for n := range len(c.points) / 2 {
		out = append(out, trial{name: fmt.Sprintf("reply %d lost", n), from: c.start, hook: loseReply(n),
			counts: func(r *crashReport) *int { return &r.LostReplies }})
	}
	return out
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
