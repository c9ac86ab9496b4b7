package controllers

import (
	"context"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// onlyStarts is how long a pod of the only Deployment takes to be Ready.
const onlyStarts = 8 * time.Second

// only is a Deployment with one replica, of pool general: its pods are among the counted ones.
type only struct {
	d *appsv1.Deployment
	// node has its Ready pod, next one that starts; waits is one that has no node yet.
	node, next string
	waits      bool
	since      time.Time
	// restarts are those that castoff made, by what they were for.
	restarts []string
	// excused: a node's time was over, and its pods were evicted after all.
	excused bool
}

func newOnly(node string) only {
	return only{node: node, d: &appsv1.Deployment{
		Spec:   appsv1.DeploymentSpec{Replicas: ptr.To[int32](1)},
		Status: appsv1.DeploymentStatus{Replicas: 1, UpdatedReplicas: 1},
	}}
}

func (o only) fork() only {
	o.d, o.restarts = o.d.DeepCopy(), slices.Clone(o.restarts)
	return o
}

// tickOnly is what the Deployment's controller does: a new pod where the template changed, and the old one goes when that is Ready.
func (w *world) tickOnly() {
	o := &w.only
	if o.d.Status.ObservedGeneration < o.d.Generation {
		o.d.Status.ObservedGeneration, o.d.Status.Replicas = o.d.Generation, 2
		o.waits = true
		w.homeless["general"]++
	}
	if o.next == "" || w.now.Sub(o.since) < onlyStarts {
		return
	}
	if o.node != "" {
		w.pods[o.node]--
	}
	o.node, o.next, o.excused = o.next, "", false
	o.d.Status.Replicas = 1
}

// bindOnly says that a pod of the pool got a node: the Deployment's, if it waits for one.
func (w *world) bindOnly(pool, node string) {
	if o := &w.only; pool == "general" && o.waits {
		o.waits, o.next, o.since = false, node, w.now
	}
}

// loseOnly is the end of a node.
func (w *world) loseOnly(node string) {
	switch o := &w.only; node {
	case o.node:
		o.node, o.waits = "", true
	case o.next:
		o.next, o.waits = "", true
	}
}

// judgeOnly: whoever calls the Deployment has an answer, at every moment.
func (w *world) judgeOnly() {
	if w.only.node == "" && !w.only.excused {
		w.breaks("the only pod of a Deployment that could be surged is away")
	}
}

// onlyOn says how many of the Deployment's pods are on a node.
func (w *world) onlyOn(node string) int {
	if node == w.only.node || node == w.only.next {
		return 1
	}
	return 0
}

// surge restarts the Deployment whose pod is on the node as pkg/drain does, with the same decision, and says whether the pod is left alone.
func (w *world) surge(node string, surge inventory.Surge) (bool, error) {
	o := &w.only
	if w.onlyOn(node) == 0 {
		return false, nil
	}
	step, read := surge.StepOf(o.d), o.d.Generation
	if step != inventory.SurgeRestart || o.node != node {
		return step == inventory.SurgeAwait, nil
	}
	begun := !w.halts() // before the user changed direction: what a pass began it ends
	change := func(name string, do func()) error {
		w.inFlight = w.inFlight || begun
		return w.change(name, func() error { do(); return nil })
	}
	defer func() { w.inFlight = w.inFlight || begun }()
	if w.held[node] > 0 {
		if err := change("Drop", func() { w.held[node]-- }); err != nil {
			return true, err
		}
	}
	return true, change("Restart", func() {
		if o.d.Generation != read && !w.c.careless {
			return // the optimistic lock: somebody was faster
		}
		w.mayEvict(w.node(node))
		if n := len(o.restarts); n > 0 && o.restarts[n-1] == surge.For {
			w.breaks("the Deployment is restarted twice for %s", surge.For)
		}
		o.restarts = append(o.restarts, surge.For)
		o.d.Annotations = map[string]string{v1alpha1.AnnotationSurged: surge.For}
		o.d.Generation++
	})
}

// evictOnly evicts the Deployment's pod from the node.
func (w *world) evictOnly(n *corev1.Node) {
	o := &w.only
	since, err := time.Parse(time.RFC3339, n.Annotations[v1alpha1.AnnotationDraining])
	starting := o.waits || o.next != ""
	switch n.Name {
	case o.next:
		o.next = ""
	case o.node:
		o.node, o.excused = "", err == nil && w.now.Sub(since) >= 15*time.Minute
		if starting {
			return // that one takes its place
		}
	}
	o.waits = true
	w.homeless["general"]++
}

// heedless evicts what the real one would surge, or what it does not wait for.
type heedless struct {
	drainerPort
	// restarts lets it restart, and not wait.
	restarts bool
}

func (h heedless) Pass(ctx context.Context, node string, allow inventory.DrainAllowance) (inventory.DrainState, error) {
	if !h.restarts || allow.Surge.StepOf(h.w.only.d) != inventory.SurgeRestart {
		allow.Surge = inventory.Surge{}
	}
	return h.drainerPort.Pass(ctx, node, allow)
}

// inPlaceOfDrainer gives every process another drainer.
func inPlaceOfDrainer(of func(drainerPort) Drainer) func(*world) {
	return func(w *world) {
		w.spoil = func(r *Reconciler) {
			if d, ok := r.Observer.Ports.Drainer.(drainerPort); ok {
				r.Observer.Ports.Drainer = of(d)
			}
		}
	}
}
