package controllers

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// live makes the world one that people have worked in: labels, taints and a cordon of their own, a process that they
// suspended, a lifetime that they set.
func (w *world) live() {
	w.edit("i-general-1", func(n *corev1.Node) { n.Labels["team"] = "a" })
	w.edit("i-general-2", func(n *corev1.Node) { n.Spec.Unschedulable = true })
	w.edit("i-batch-0", func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: "dedicated", Value: "x", Effect: corev1.TaintEffectNoSchedule}}
	})
	w.groups["batch"].SuspendedProcesses = []string{"AZRebalance"}
	w.groups["general"].MaxInstanceLifetime = 604800
	w.handlers = []inventory.TerminationHandler{{Kind: "DaemonSet", Workload: types.NamespacedName{Namespace: "kube-system", Name: "aws-node-termination-handler"}}}
	w.history = nil // long ago
	w.record()
}

// The edits that a user makes.
func settle(m *v1alpha1.Migration)   { m.Spec.Paused, m.Spec.OnPause = true, v1alpha1.OnPauseSettle }
func rollBack(m *v1alpha1.Migration) { m.Spec.Paused, m.Spec.OnPause = true, v1alpha1.OnPauseRollBack }
func resume(m *v1alpha1.Migration)   { m.Spec.Paused = false }

// backward is the uninterrupted way back from a world.
func backward(t *testing.T, from *world) course {
	t.Helper()
	w := from.fork(t)
	w.user(rollBack)
	return walk(t, w, isRolledBack)
}

// once ends the process at every point of a course.
func once(name string, c course) []trial {
	var out []trial
	for n, from := range c.points {
		out = append(out, trial{
			name: fmt.Sprintf("%s, ended at point %d, at %s", name, n, c.names[n]), from: from, wanted: c.wanted, portrait: c.portrait,
			counts: func(r *crashReport) *int { return &r.CrashPoints },
		})
	}
	return out
}

// pairs end the process at a point, and the next one at a later point: at the next one, and at a seeded sample of others,
// or with CRASH_ALL at all of them.
func pairs(name string, c course, others int) []trial {
	random := rand.New(rand.NewSource(20261130))
	var out []trial
	at := func(n, later int) {
		out = append(out, trial{
			name: fmt.Sprintf("%s, ended at point %d, and %d points later", name, n, later), from: c.points[n], wanted: c.wanted, portrait: c.portrait,
			set:    func(w *world) { w.hook = crashAt(later) },
			counts: func(r *crashReport) *int { return &r.Pairs },
		})
	}
	for n := range c.points {
		at(n, 0)
		for later := 1; later < len(c.points)-n && os.Getenv("CRASH_ALL") != ""; later++ {
			at(n, later)
		}
	}
	if os.Getenv("CRASH_ALL") != "" {
		return out
	}
	for range others {
		n := random.Intn(len(c.points))
		at(n, 1+random.Intn(len(c.points)-n))
	}
	return out
}

// lostReplies are the effects that are made, and whose answers are lost.
func lostReplies(name string, c course) []trial {
	var out []trial
	for n := range len(c.points) / 2 {
		out = append(out, trial{
			name: fmt.Sprintf("%s, reply %d lost, of %s", name, n, c.names[2*n]), from: c.start, wanted: c.wanted, portrait: c.portrait,
			set:    func(w *world) { w.hook = loseReply(n) },
			counts: func(r *crashReport) *int { return &r.LostReplies },
		})
	}
	return out
}

// rollbacks begin at every point of the way forward.
func rollbacks(c, back course) []trial {
	var out []trial
	for n, from := range c.points {
		out = append(out, trial{
			name: fmt.Sprintf("rolled back at point %d, at %s", n, c.names[n]), from: from, wanted: isRolledBack, portrait: back.portrait,
			set:    func(w *world) { w.user(rollBack) },
			counts: func(r *crashReport) *int { return &r.RollbackPoints },
		})
	}
	return out
}

// crashesOnTheWayBack end the process while it rolls back from one of a few states on the way forward.
func crashesOnTheWayBack(t *testing.T, c, back course) []trial {
	t.Helper()
	const states = 16
	var out []trial
	for n := 0; n < len(c.points); n += len(c.points) / states {
		from := c.points[n].fork(t)
		from.patience += afresh // who turns in the middle of a change of hands has another one
		for i, x := range once(fmt.Sprintf("rolled back at point %d", n), backward(t, from)) {
			if i%3 == n%3 {
				x.portrait = back.portrait
				out = append(out, x)
			}
		}
	}
	return out
}

// staleReads crash with reads that are never stale, and with reads that are for longer than the ledger is patient.
func staleReads(t *testing.T) []trial {
	t.Helper()
	var out []trial
	for _, lag := range []time.Duration{0, 20 * time.Second} {
		c := forward(t, lag)
		back := backward(t, c.end)
		for _, x := range append(append(once("forward", c), once("back", back)...), rollbacks(c, back)...) {
			x.name += ", reads " + lag.String() + " behind"
			x.counts = func(r *crashReport) *int { return &r.Stale }
			out = append(out, x)
		}
	}
	return out
}

// settled is the rest of a paused migration, from every point: nothing of a fence is left, and before the hand-over nothing
// at all.
func settled(c course) []trial {
	untouched := c.start.portrait()
	var out []trial
	for n, from := range c.points {
		x := trial{
			name: fmt.Sprintf("settled at point %d", n), from: from, wanted: isSettled,
			set:    func(w *world) { w.user(settle) },
			counts: func(r *crashReport) *int { return &r.Others },
		}
		if from.calls["Stop"] == 0 {
			x.portrait = untouched
		}
		out = append(out, x)
	}
	return out
}

// flips pause and go on, roll back and go on, at every point of a course: once patiently, waiting for the rest each time, and
// once so quickly that nothing comes to rest.
func flips(name string, c course, end []string) []trial {
	random := rand.New(rand.NewSource(20261202))
	var out []trial
	for n, from := range c.points {
		looks := []int{mostLooks, random.Intn(4), random.Intn(12)}[n%3]
		other := random.Intn(6)
		out = append(out, trial{
			name: fmt.Sprintf("%s, flipped at point %d, %d looks each", name, n, looks), from: from, wanted: isCompleted, portrait: end,
			set: func(w *world) {
				w.turn(settle, isSettled, looks)
				w.turn(resume, isCompleted, other)
				w.turn(rollBack, isRolledBack, looks)
				w.turn(resume, isCompleted, other)
				w.turn(rollBack, isRolledBack, other)
				w.turn(settle, isSettled, other)
				w.user(resume)
			},
			counts: func(r *crashReport) *int { return &r.Others },
		})
	}
	return out
}

// turn lets the user change direction, and so many looks follow.
func (w *world) turn(change func(*v1alpha1.Migration), wanted place, looks int) {
	w.user(change)
	if err := w.drive(wanted, looks); err != nil && looks == mostLooks {
		w.breaks("after a change of direction: %v", err)
	}
	w.restart()
}

// turns are changes of direction in the middle of a look: the process goes on, and may finish what it is at, and no more.
func turns(c, back course) []trial {
	const writes = 6
	var out []trial
	for n, from := range c.looks[:len(c.looks)-writes] { // so many are left after each of them
		for write := range writes {
			x := trial{
				name: fmt.Sprintf("rolled back in look %d, at write %d", n, write), from: from, wanted: isRolledBack, portrait: back.portrait,
				set:    func(w *world) { w.hook = w.userAt(write, rollBack) },
				counts: func(r *crashReport) *int { return &r.RollbackPoints },
			}
			if (n+write)%2 == 0 {
				x.name, x.wanted, x.portrait = fmt.Sprintf("settled in look %d, at write %d", n, write), isSettled, nil
				x.set = func(w *world) { w.hook = w.userAt(write, settle) }
			}
			out = append(out, x)
		}
	}
	return out
}

// userAt lets the user change direction while the n-th write from now is made.
func (w *world) userAt(n int, change func(*v1alpha1.Migration)) func(string, bool) error {
	return func(_ string, after bool) error {
		if n--; n == -1 {
			w.inFlight = !after
			w.user(change)
		}
		return nil
	}
}

// deletions of the Migration come to rest as a pause does.
func deletions(c course) []trial {
	var out []trial
	for _, x := range settled(c) {
		x.name = "deleted: " + x.name
		x.wanted = isGone
		x.set = func(w *world) {
			if w.snapshot == nil && len(w.migration().Finalizers) == 0 {
				w.c.remove("Migration//prod") // nothing holds it
				return
			}
			w.must(w.c.delete(w.migration()))
		}
		out = append(out, x)
	}
	return out
}

// retired is the way to the end of all: what was migrated from is deleted.
func retired(t *testing.T, from *world) course {
	t.Helper()
	w := from.fork(t)
	w.user(func(m *v1alpha1.Migration) {
		m.Spec.Decommission = v1alpha1.Decommission{
			Mode: v1alpha1.DecommissionDelete, ClusterAutoscaler: v1alpha1.DecommissionDelete, RetentionSeconds: ptr.To[int32](60),
		}
		m.Spec.ApprovedSteps = append(m.Spec.ApprovedSteps, v1alpha1.ApproveDelete)
	})
	return walk(t, w, isRetired)
}

// isRetired says that all is gone that was migrated from, and that reads show it.
func isRetired(w *world) bool {
	return isCompleted(w) && len(w.groups) == 1 && w.scaler.deleted && len(w.handlers) == 0 && len(w.history[0].groups) == 1
}

// staleLeader is one that does not know that it leads no more: while it is about to make its n-th write, another one works.
// One that is stopped before it writes the status may be so for minutes, and has to be refused; one that has recorded what it
// is going to do makes it within the ten seconds in which a leader that cannot renew gives up.
func staleLeaders(name string, c course) []trial {
	var out []trial
	for n, from := range c.looks {
		for _, write := range []int{0, 1, 2, 4} {
			out = append(out, trial{
				name: fmt.Sprintf("%s, a stale leader at look %d, write %d", name, n, write), from: from, wanted: c.wanted, portrait: c.portrait,
				set:    func(w *world) { w.hook = w.otherLeader(write) },
				counts: func(r *crashReport) *int { return &r.Stale },
			})
		}
	}
	return out
}

func (w *world) otherLeader(n int) func(string, bool) error {
	return func(name string, after bool) error {
		if after {
			return nil
		}
		if n--; n != -1 {
			return nil
		}
		w.hook = nil
		looks := 30
		if name != "status" {
			looks = 5
		}
		other := w.reconciler()
		for range looks {
			if _, err, _ := reconcileOnce(other); err != nil {
				w.patience += afresh
			}
			w.advance(2 * time.Second)
		}
		w.patience += afresh
		return nil
	}
}

// The ways in which a call fails.
var refusals = []struct {
	name string
	err  func(call string) error
}{
	{"409", func(call string) error {
		return apierrors.NewConflict(schema.GroupResource{Resource: call}, "x", errors.New("modified"))
	}},
	{"429", func(call string) error { return inventory.Throttled(errors.New("429 " + call)) }},
	{"500", func(call string) error { return apierrors.NewInternalError(errors.New(call)) }},
	{"timeout", func(string) error { return context.DeadlineExceeded }},
}

// refused has every call of every look refused, in one of the ways that there are; of looks that only wait, one after the other,
// those of the first. With CRASH_ALL it is every look, and every way.
func refused(t *testing.T, name string, c course) []trial {
	t.Helper()
	all := os.Getenv("CRASH_ALL") != ""
	var out []trial
	var before []string
	for n, from := range c.looks {
		calls := callsOf(t, from)
		if again := slices.Equal(calls, before); again && !all && !writes(calls) {
			continue
		}
		before = calls
		for i, call := range calls {
			for k, how := range refusals {
				if !all && k != (n+i)%len(refusals) {
					continue
				}
				out = append(out, trial{
					name: fmt.Sprintf("%s, %s of %s at look %d", name, how.name, call, n), from: from, wanted: c.wanted, portrait: c.portrait,
					set: func(w *world) {
						w.fault, w.patience = refuse(call, how.err), w.patience+throttledAgain
					},
					counts: func(r *crashReport) *int { return &r.Others },
				})
			}
		}
	}
	return out
}

// writes says that a look does more than to look.
func writes(calls []string) bool {
	return slices.ContainsFunc(calls, func(c string) bool { return strings.HasPrefix(c, "status ") })
}

// callsOf are the calls of one look by a new process, each with its number among those of its name: looks ask in parallel.
func callsOf(t *testing.T, from *world) []string {
	t.Helper()
	var out []string
	seen := map[string]int{}
	w := from.fork(t)
	w.fault = func(call string) error {
		out = append(out, fmt.Sprintf("%s %d", call, seen[call]))
		seen[call]++
		return nil
	}
	if _, err, _ := reconcileOnce(w.reconciler()); err != nil {
		t.Fatal(err)
	}
	slices.Sort(out)
	return out
}

func refuse(which string, err func(string) error) func(string) error {
	seen := map[string]int{}
	return func(call string) error {
		n := seen[call]
		seen[call]++
		if fmt.Sprintf("%s %d", call, n) == which {
			return err(call)
		}
		return nil
	}
}
