package controllers

import (
	"fmt"
	"math/rand"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
	"k8s.io/apimachinery/pkg/types"
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
			name: fmt.Sprintf("%s, ended at point %d", name, n), from: from, wanted: c.wanted, portrait: c.portrait,
			counts: func(r *crashReport) *int { return &r.CrashPoints },
		})
	}
	return out
}

// pairs end the process at a point, and the next one at a later point: at the next one, and at a seeded sample of others.
func pairs(name string, c course) []trial {
	const others = 2000
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
			name: fmt.Sprintf("%s, reply %d lost", name, n), from: c.start, wanted: c.wanted, portrait: c.portrait,
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
			name: fmt.Sprintf("rolled back at point %d", n), from: from, wanted: isRolledBack, portrait: back.portrait,
			set:    func(w *world) { w.user(rollBack) },
			counts: func(r *crashReport) *int { return &r.RollbackPoints },
		})
	}
	return out
}
