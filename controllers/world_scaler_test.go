package controllers

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

const (
	// scalerLeaves and scalerStarts are how long a Cluster Autoscaler's pod takes to go and to come.
	scalerLeaves, scalerStarts = 3 * time.Second, 2 * time.Second
	// scalerRetries is how often a standby tries the Lease; scalerScans how often a leader looks at the cluster.
	scalerRetries, scalerScans = 2 * time.Second, 10 * time.Second
	// scalerIdle is for how long a node is empty before it is removed: ten minutes in life.
	scalerIdle = 20 * time.Second
	// scalerAsks is how often it looks which groups its tags find (Cluster Autoscaler on AWS, the refresh interval of its cache).
	scalerAsks = time.Minute
)

// scaler is what Cluster Autoscaler itself knows.
type scaler struct {
	leads          bool
	starts, leaves time.Time // when its pod is there, and when the last one is gone
	tries, scans   time.Time // when it tries the Lease and looks at the cluster next
	runs           int       // how often it was started
	idle           map[string]time.Time
	asks           time.Time // when it asks next which groups its tags find
	found          []string  // the groups that they found
	deleted        bool
}

// scales says that Cluster Autoscaler leads with the pool's group listed.
func (w *world) scales(pool string) bool {
	g, ok := w.groups[pool]
	return ok && w.scaler.leads && slices.Contains(w.ca.Groups, g.AutoScalingGroup)
}

// tickScaler lets its pods come and go, a standby take a free Lease, and a leader look at the cluster.
func (w *world) tickScaler() {
	s := &w.scaler
	switch {
	case w.ca.Replicas == 0:
		if !w.now.Before(s.leaves) {
			w.ca.StatusReplicas, w.ca.Pods = 0, 0
		}
		return
	case w.now.Before(s.starts):
		return
	}
	w.ca.StatusReplicas, w.ca.Pods = w.ca.Replicas, int(w.ca.Replicas)
	free := !w.ca.LeaderElect || w.ca.LeaseHolder == "" || w.now.Sub(w.ca.LeaseRenewed) > w.ca.LeaseDuration
	if !s.leads && !w.now.Before(s.tries) {
		s.tries = w.now.Add(scalerRetries)
		if free {
			s.leads, s.scans = true, w.now
			if w.ca.LeaderElect {
				w.ca.LeaseHolder, w.ca.LeaseDuration = fmt.Sprintf("ca-%d", s.runs), 15*time.Second
			}
		}
	}
	if s.leads && w.ca.LeaderElect {
		w.ca.LeaseRenewed = w.now
	}
	if s.leads && !w.now.Before(s.scans) {
		w.scan()
	}
}

// scan is what a leader does every ten seconds: it writes its status, raises what pending pods need, and removes idle nodes.
// Cordoned nodes do not stop it, they make it raise the group up to its max.
func (w *world) scan() {
	w.scaler.scans, w.ca.StatusTime, w.ca.Groups = w.now.Add(scalerScans), w.now, nil
	if !w.now.Before(w.scaler.asks) {
		w.scaler.asks, w.scaler.found = w.now.Add(scalerAsks), nil
		for _, name := range slices.Sorted(maps.Keys(w.groups)) {
			if w.ca.Manages(*w.groups[name]) {
				w.scaler.found = append(w.scaler.found, name)
			}
		}
	}
	for _, name := range w.scaler.found {
		g, ok := w.groups[name]
		if !ok {
			continue
		}
		w.ca.Groups = append(w.ca.Groups, g.AutoScalingGroup)
		settled := w.alive(g) == int(g.Desired) && !slices.ContainsFunc(g.Instances, func(i inventory.Instance) bool { return !w.born[i.ID].IsZero() })
		if w.homeless[name] > 0 && settled && g.Desired < g.Max && w.roomiest(name) == "" {
			g.Desired++
		}
		w.removeIdle(g)
	}
}

func (w *world) removeIdle(g *inventory.NodeGroup) {
	if w.scaler.idle == nil {
		w.scaler.idle = map[string]time.Time{}
	}
	for i, it := range g.Instances {
		n := w.node(it.ID)
		if n != nil && n.Spec.Unschedulable {
			continue // it would; the end of a trial would then hang on how long somebody looks at it
		}
		if n == nil || !nodeReady(n) || !it.InService() || w.pods[it.ID] > 0 || n.Annotations[v1alpha1.AnnotationScaleDownDisabled] == "true" {
			delete(w.scaler.idle, it.ID)
			continue
		}
		since, seen := w.scaler.idle[it.ID]
		if !seen {
			w.scaler.idle[it.ID] = w.now
		}
		if seen && w.now.Sub(since) >= scalerIdle && g.Desired > g.Min {
			g.Desired--
			w.endInstance(g, i, "Cluster Autoscaler")
		}
	}
}

func (p ports) Find(context.Context) ([]inventory.Autoscaler, error) {
	if err := p.w.read("Find"); err != nil || p.w.scaler.deleted {
		return nil, err
	}
	return []inventory.Autoscaler{p.w.ca}, nil
}

// Stop ends the leader at once: Cluster Autoscaler ends 0.05 s after SIGTERM, takes its status with it, and leaves its Lease.
func (p ports) Stop(context.Context, inventory.Autoscaler) error {
	return p.w.change("Stop", func() error { p.w.stopScaler(); return nil })
}

// stopScaler is what a Deployment's controller does about 0 replicas.
func (w *world) stopScaler() {
	if w.ca.Replicas > 0 {
		w.scaler.leaves = w.now.Add(scalerLeaves)
	}
	w.ca.Replicas, w.scaler.leads = 0, false
	w.ca.Groups, w.ca.StatusTime = nil, time.Time{}
}

func (p ports) Start(_ context.Context, _ inventory.Autoscaler, replicas int32) error {
	return p.w.change("Start", func() error { p.w.startScaler(replicas); return nil })
}

// startScaler is what it does about some.
func (w *world) startScaler(replicas int32) {
	if w.ca.Replicas == 0 {
		w.scaler.starts = w.now.Add(scalerStarts)
		w.scaler.runs++
		w.scaler.tries, w.scaler.idle, w.scaler.asks = time.Time{}, nil, time.Time{}
	}
	w.ca.Replicas = replicas
}

func (p ports) HoldLease(_ context.Context, _ types.NamespacedName, identity string) error {
	return p.w.change("HoldLease", func() error {
		if p.w.scaler.leads {
			p.w.breaks("Lease taken while Cluster Autoscaler leads")
		}
		p.w.ca.LeaseHolder, p.w.ca.LeaseRenewed, p.w.ca.LeaseDuration = identity, p.w.now, time.Hour
		return nil
	})
}

func (p ports) LetGoLease(_ context.Context, _ types.NamespacedName, identity string) error {
	return p.w.change("LetGoLease", func() error {
		if p.w.ca.LeaseHolder == identity {
			p.w.ca.LeaseHolder = ""
		}
		return nil
	})
}

func (p ports) StripLeftovers(_ context.Context, node string) error {
	return p.w.change("StripLeftovers", func() error {
		p.w.edit(node, func(n *corev1.Node) {
			n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == "ToBeDeletedByClusterAutoscaler" })
		})
		return nil
	})
}

func (p ports) Delete(context.Context, inventory.Autoscaler) error {
	return p.w.change("DeleteAutoscaler", func() error {
		if !p.w.ca.Stopped() || !p.w.approved() {
			p.w.breaks("Cluster Autoscaler deleted: stopped %t, approved %t", p.w.ca.Stopped(), p.w.approved())
		}
		p.w.scaler.deleted = true
		return nil
	})
}

func (p ports) TerminationHandlers(context.Context) ([]inventory.TerminationHandler, error) {
	return slices.Clone(p.w.handlers), p.w.read("TerminationHandlers")
}

func (p ports) DeleteTerminationHandler(_ context.Context, h inventory.TerminationHandler) error {
	return p.w.change("DeleteTerminationHandler", func() error {
		if !p.w.approved() {
			p.w.breaks("%s deleted without approval", h.Workload)
		}
		p.w.handlers = slices.DeleteFunc(p.w.handlers, func(o inventory.TerminationHandler) bool { return o.Workload == h.Workload })
		return nil
	})
}

// approved says that the user let castoff delete what it retires.
func (w *world) approved() bool {
	m, ok := w.c.peek("Migration//prod").(*v1alpha1.Migration)
	return ok && slices.Contains(m.Spec.ApprovedSteps, v1alpha1.ApproveDelete)
}
