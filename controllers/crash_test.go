package controllers

import (
	"context"
	"errors"
	"fmt"
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

// afresh is what an end of the process may cost a pool without a scaler, beside the time until there is a new one: that one
// asks again for what was asked for and is not to be seen yet, but not at once.
const afresh = 2 * time.Second

type crash struct{}

// migrate applies a Migration and reconciles until it is Ready, starting a new process whenever one ends.
func migrate(t *testing.T, w *world, mutate ...func(*v1alpha1.Migration)) *v1alpha1.Migration {
	t.Helper()
	apply(t, w, mutate...)
	if err := w.drive(isReady, mostLooks); err != nil {
		t.Fatal(err)
	}
	return get(t, w)
}

func apply(t *testing.T, w *world, mutate ...func(*v1alpha1.Migration)) {
	t.Helper()
	m := &v1alpha1.Migration{
		ObjectMeta: metav1.ObjectMeta{Name: "prod", UID: "uid-1", CreationTimestamp: metav1.NewTime(w.now)},
		Spec: v1alpha1.MigrationSpec{ClusterName: "test", Strategy: v1alpha1.Strategy{
			MaxUnavailableNodes: ptr.To(intstr.FromString("50%")), SoakSeconds: ptr.To[int32](5), Capacity: v1alpha1.CapacityWarmFirst, Surge: v1alpha1.SurgeSingletons,
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

// place is where a migration comes to rest.
type place func(*world) bool

func isReady(w *world) bool {
	m := w.migration()
	return m != nil && meta.IsStatusConditionTrue(m.Status.Conditions, v1alpha1.ConditionReady) && m.Status.ObservedGeneration == m.Generation
}

func isCompleted(w *world) bool {
	return isReady(w) && w.migration().Status.Phase == v1alpha1.PhaseCompleted
}

func isRolledBack(w *world) bool {
	return isReady(w) && w.migration().Status.Phase == v1alpha1.PhaseRolledBack
}

func isSettled(w *world) bool {
	m := w.migration()
	return m != nil && m.Status.Phase == v1alpha1.PhasePaused && m.Status.ObservedGeneration == m.Generation &&
		meta.IsStatusConditionFalse(m.Status.Conditions, v1alpha1.ConditionReconciling)
}

func isGone(w *world) bool { return w.migration() == nil }

// migration as it is stored; nil if there is none.
func (w *world) migration() *v1alpha1.Migration {
	m, _ := w.c.peek("Migration//prod").(*v1alpha1.Migration)
	return m
}

// user edits the Migration, as a user does.
func (w *world) user(change func(*v1alpha1.Migration)) {
	if m := w.migration(); m != nil {
		m = m.DeepCopy()
		change(m)
		w.must(w.c.update(m))
	}
}

// generation of the spec.
func (w *world) generation() int64 {
	if m := w.migration(); m != nil {
		return m.Generation
	}
	return 0
}

// restart is the time until there is another process.
func (w *world) restart() {
	w.patience += time.Second + afresh
	w.advance(time.Second)
}

// drive reconciles until the Migration is as wanted, for so many looks at most, in a new process at first and whenever one
// ends.
func (w *world) drive(wanted place, looks int) error {
	r := w.reconciler()
	for range looks {
		if w.before != nil {
			w.before()
		}
		spec := w.generation()
		result, err, crashed := reconcileOnce(r)
		if wanted(w) {
			return nil
		}
		if crashed {
			r = w.reconciler()
		}
		wait := result.RequeueAfter
		if err != nil || crashed || wait == 0 {
			wait = time.Second
		}
		if err != nil || crashed {
			w.patience += wait + afresh
		}
		if w.generation() != spec {
			wait = tick // a watch tells it
		}
		w.advance(min(max(wait, tick), 5*time.Second))
	}
	m := w.migration()
	if m == nil {
		return fmt.Errorf("the Migration is gone")
	}
	return fmt.Errorf("not as wanted after %d looks: phase %s, blocked by %q, operations %+v", looks, m.Status.Phase, m.Status.BlockedBy, m.Status.Operations)
}

// rightEnd says what is wrong with the world at the end of the way forward.
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

// course is an uninterrupted run.
type course struct {
	start, end *world
	// points are the worlds at every moment at which a process can end: before and after every write. looks are those at
	// the beginning of every look.
	points, looks []*world
	names         []string // of what is written at each point
	wanted        place
	portrait      []string
}

// walk runs from the world as it is and keeps what it was at every point. A process that ends leaves nothing but the world,
// so a crash at a point is a new process in that world.
func walk(t *testing.T, w *world, wanted place) course {
	t.Helper()
	c := course{start: w.fork(t), end: w, wanted: wanted}
	w.hook = func(name string, _ bool) error {
		c.points, c.names = append(c.points, w.fork(t)), append(c.names, name)
		return nil
	}
	w.before = func() { c.looks = append(c.looks, w.fork(t)) }
	err := w.drive(wanted, mostLooks)
	w.hook, w.before = nil, nil
	if err != nil {
		t.Fatalf("the uninterrupted run: %v", err)
	}
	if len(w.broken) > 0 {
		t.Errorf("the uninterrupted run:\n%s", strings.Join(w.broken, "\n"))
	}
	c.portrait = w.portrait()
	return c
}

// forward is the uninterrupted migration.
func forward(t *testing.T, lag time.Duration, change ...func(*world)) course {
	t.Helper()
	w := newWorld(t)
	w.lag = lag
	w.live()
	for _, f := range change {
		f(w)
	}
	apply(t, w)
	return walk(t, w, isCompleted)
}

// trial is one run in which something goes wrong.
type trial struct {
	name string
	from *world
	// set is what is done before the process begins: an edit by a user, a hook that will stop it.
	set func(*world)
	// wanted is where it is to end, and portrait what the world is to look like then; nil where only the promises count.
	wanted   place
	portrait []string
	// counts is where the report counts it.
	counts func(*crashReport) *int
}

// run begins a new process in the world of the trial, and says what is wrong at the end.
func (x trial) run(t *testing.T, report *crashReport) []string {
	w := x.from.fork(t)
	w.restart()
	if x.set != nil {
		x.set(w)
	}
	err := w.drive(x.wanted, mostLooks)
	effects := w.effects()
	var wrong []string
	switch {
	case err != nil:
		wrong = append(w.broken, err.Error())
	default:
		if x.portrait != nil {
			wrong = differences(w.portrait(), x.portrait)
		}
		wrong = append(wrong, w.rest()...)
	}
	report.count(x, effects, len(wrong) > 0)
	return wrong
}

// sweep runs the trials on all processors, and wants each to end right. Of many that end wrong it shows a few.
func sweep(t *testing.T, report *crashReport, kind string, trials []trial) {
	t.Helper()
	debug.SetGCPercent(400)
	trials = sampled(t, trials)
	shards := runtime.GOMAXPROCS(0)
	t.Run(kind, func(t *testing.T) {
		for shard := range shards {
			t.Run(fmt.Sprintf("shard %d of %d", shard+1, shards), func(t *testing.T) {
				t.Parallel()
				shown := 0
				for i := shard; i < len(trials); i += shards {
					wrong := trials[i].run(t, report)
					if len(wrong) == 0 {
						continue
					}
					t.Fail()
					if shown++; shown <= 5 {
						t.Logf("%s:\n%.1500s", trials[i].name, strings.Join(wrong, "\n"))
					}
				}
			})
		}
	})
}

func sampled(t *testing.T, trials []trial) []trial {
	t.Helper()
	every := sample(t)
	var some []trial
	for i := 0; i < len(trials); i += every {
		some = append(some, trials[i])
	}
	return some
}

// sample says that one trial in so many is run: CRASH_SAMPLE, 1 for all of them.
func sample(t *testing.T) int {
	t.Helper()
	const otherwise = 97
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

// crashAt ends the process at the n-th point from now: points are the moments before and after every write.
func crashAt(n int) func(string, bool) error {
	return func(string, bool) error {
		if n--; n == -1 {
			panic(crash{})
		}
		return nil
	}
}

// loseReply lets the n-th write from now be made and its answer be lost.
func loseReply(n int) func(string, bool) error {
	return func(_ string, after bool) error {
		if after {
			n--
		}
		if after && n == -1 {
			return errors.New("the reply was lost")
		}
		return nil
	}
}

// TestCrashEverywhere ends the process before and after every write, once and twice, on every way that a migration can take;
// loses every answer; lets reads, and a whole leader, lag; and has every call refused. Each trial has to end as the
// uninterrupted run does, with every promise kept on the way.
func TestCrashEverywhere(t *testing.T) {
	report := &crashReport{}
	defer report.save(t)
	c := forward(t, testLag)
	if len(c.points) < 150 {
		t.Fatalf("a clean run has %d points: the world does not call its hook", len(c.points))
	}
	report.EffectsUninterrupted = c.end.effects()
	back := backward(t, c.end)
	if diff := differences(back.portrait, c.start.portrait()); len(diff) > 0 {
		t.Errorf("the way back from the end does not lead to the beginning:\n%s", strings.Join(diff, "\n"))
	}
	for _, s := range []struct {
		kind   string
		trials []trial
	}{
		{"crash", once("forward", c)},
		{"crash on the way back", once("back", back)},
		{"crash twice", append(pairs("forward", c, 2000), pairs("back", back, 200)...)},
		{"reply lost", append(lostReplies("forward", c), lostReplies("back", back)...)},
		{"rollback", rollbacks(c, back)},
		{"turned in the middle of a look", turns(c, back)},
		{"crash while rolling back from anywhere", crashesOnTheWayBack(t, c, back)},
		{"pause", settled(c)},
		{"pause flipped", append(flips("forward", c, c.portrait), flips("back", back, c.portrait)...)},
		{"deletion of the Migration", deletions(c)},
		{"deletion at the end", once("retired", retired(t, c.end))},
		{"stale leader", append(staleLeaders("forward", c), staleLeaders("back", back)...)},
		{"stale reads", staleReads(t)},
		{"refused", append(refused(t, "forward", c), refused(t, "back", back)...)},
	} {
		sweep(t, report, s.kind, s.trials)
	}
}

// TestCrashKeepsWhatWasThere: a Karpenter that was there before the migration, with its queue and identities, is there after
// the way back.
func TestCrashKeepsWhatWasThere(t *testing.T) {
	c := forward(t, testLag, func(w *world) { w.rel, w.crds, w.settled.Ready, w.identity.Ready = true, true, true, true })
	back := backward(t, c.end)
	if diff := differences(back.portrait, c.start.portrait()); len(diff) > 0 {
		t.Errorf("the way back does not lead to the beginning:\n%s", strings.Join(diff, "\n"))
	}
	sweep(t, &crashReport{}, "crash on the way back", once("back", back))
}
