package controllers

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/drain"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

const testSHA = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func (p ports) Save(_ context.Context, _ string, s *inventory.Snapshot) (string, error) {
	return testSHA, p.w.effect("Save", func() error {
		if p.w.snapshot == nil {
			p.w.snapshot, p.w.saved = s, digest(s)
		}
		return nil
	})
}

func (p ports) Load(context.Context, string) (*inventory.Snapshot, string, error) {
	if err := p.w.read("Load"); err != nil || p.w.snapshot == nil {
		return nil, "", err
	}
	return p.w.snapshot, p.w.sha, nil
}

func (p ports) Digest(context.Context, string) (string, error) {
	if err := p.w.read("Digest"); err != nil || p.w.snapshot == nil {
		return "", err
	}
	return p.w.sha, nil
}

// made is what castoff would take away again.
func made(ready bool, what string) []string {
	if !ready {
		return nil
	}
	return []string{what}
}

type interruptionPort struct{ w *world }

func (p interruptionPort) Observe(context.Context, inventory.Cluster) (inventory.Interruption, error) {
	i := p.w.settled
	i.QueueName, i.Made = "test", made(i.Ready, "queue/test")
	return i, p.w.read("Observe interruption")
}

func (p interruptionPort) Ensure(context.Context, inventory.Cluster) error {
	return p.w.change("EnsureInterruption", func() error { p.w.settled.Ready = true; return nil })
}

func (p interruptionPort) Remove(context.Context, inventory.Cluster) error {
	return p.w.change("RemoveInterruption", func() error {
		if p.w.rel {
			p.w.breaks("the queue is removed under an engine that reads it")
		}
		p.w.settled.Ready = false
		return nil
	})
}

type identityPort struct{ w *world }

func (p identityPort) Observe(context.Context, inventory.Cluster, []string) (inventory.Identity, error) {
	i := p.w.identity
	i.NodeRole, i.Made = "KarpenterNodeRole-test", made(i.Ready, "role/KarpenterNodeRole-test")
	return i, p.w.read("Observe identity")
}

func (p identityPort) Ensure(context.Context, inventory.Cluster, []string) error {
	return p.w.change("EnsureIdentity", func() error { p.w.identity.Ready = true; return nil })
}

func (p identityPort) Remove(context.Context, inventory.Cluster) error {
	return p.w.change("RemoveIdentity", func() error {
		if p.w.rel || len(p.w.claims) > 0 {
			p.w.breaks("identities are removed under an engine or nodes that use them")
		}
		p.w.identity.Ready = false
		return nil
	})
}

func (p identityPort) AttachedPolicies(_ context.Context, role string) ([]string, error) {
	return p.w.policies[role], p.w.read("AttachedPolicies")
}

func (p identityPort) Check(context.Context, inventory.Cluster) ([]inventory.Permission, error) {
	return []inventory.Permission{{Action: "sqs:CreateQueue", State: p.w.permission}}, p.w.read("Check")
}

// drainerPort marks nodes with the real thing; pods are only counted here.
type drainerPort struct {
	w    *world
	real *drain.Drainer
}

func (p drainerPort) State(ctx context.Context, node string) (inventory.DrainState, error) {
	err := p.w.c.Get(ctx, types.NamespacedName{Name: node}, &corev1.Node{})
	if apierrors.IsNotFound(err) {
		return inventory.DrainState{Node: node}, nil
	}
	return inventory.DrainState{Node: node, Evictable: p.w.pods[node]}, err
}

// Pass evicts one pod: the budgets have room for one at a time.
func (p drainerPort) Pass(ctx context.Context, node string, allow inventory.DrainAllowance) (inventory.DrainState, error) {
	kept, err := p.w.surge(node, allow.Surge)
	if err != nil {
		return inventory.DrainState{Node: node, Evictable: p.w.pods[node]}, err
	}
	err = p.w.change("Pass", func() error {
		n := &corev1.Node{}
		if err := p.w.c.Get(ctx, types.NamespacedName{Name: node}, n); err != nil {
			return client.IgnoreNotFound(err)
		}
		p.w.mayEvict(n)
		others := p.w.pods[node] - p.w.onlyOn(node)
		if others > 0 || p.w.pods[node] > 0 && !kept {
			p.w.pods[node]--
			p.w.held[node] = max(p.w.held[node]-1, 0) // swapped
			if others > 0 {
				p.w.homeless[p.w.poolOf(n)]++
			} else {
				p.w.evictOnly(n)
			}
			p.w.showPending()
		}
		return nil
	})
	return inventory.DrainState{Node: node, Evictable: p.w.pods[node]}, err
}

// mayEvict says what forbids an eviction from the node now: a legacy node is drained while Karpenter alone serves, one of
// Karpenter's while Cluster Autoscaler alone does.
func (w *world) mayEvict(n *corev1.Node) {
	pool := w.poolOf(n)
	legacy := n.Labels["group"] != ""
	standby := w.ca.LeaderElect && w.ca.LeaseHolder == v1alpha1.LeaseIdentity
	switch {
	case !n.Spec.Unschedulable || n.Annotations[v1alpha1.AnnotationDraining] == "":
		w.breaks("eviction from %s, which is not fenced and draining", n.Name)
	case w.halts() && !w.inFlight:
		w.breaks("eviction from %s, though the migration is paused", n.Name)
	case legacy && !w.ca.Stopped() && !standby && (w.scales(pool) || w.groups[pool] == nil || w.ca.Manages(*w.groups[pool])):
		w.breaks("eviction from %s beside a running Cluster Autoscaler", n.Name)
	case legacy && !w.serves(pool):
		w.breaks("eviction from %s while no NodePool serves %s", n.Name, pool)
	case !legacy && !w.scales(pool):
		w.breaks("eviction from %s before Cluster Autoscaler leads again", n.Name)
	case !legacy && w.serves(pool):
		w.breaks("eviction from %s while its NodePool launches", n.Name)
	}
}

// onNode is one patch of a node.
func (p drainerPort) onNode(name string, patch func() error) error { return p.w.change(name, patch) }

func (p drainerPort) Mark(ctx context.Context, node, pool string) error {
	return p.onNode("Mark", func() error { return p.real.Mark(ctx, node, pool) })
}

func (p drainerPort) Fence(ctx context.Context, node, pool string) error {
	return p.onNode("Fence", func() error {
		if p.w.nodePool(pool) == nil {
			p.w.breaks("node %s fenced before a NodePool serves %s", node, pool)
		}
		return p.real.Fence(ctx, node, pool)
	})
}

// Warm keeps room for as many pods as the node has: they are only counted, as pods are.
func (p drainerPort) Warm(ctx context.Context, node, pool string, owner metav1.OwnerReference) error {
	return p.onNode("Warm", func() error {
		if n := p.w.node(node); n != nil && p.w.held[node] == 0 {
			p.w.held[node] = p.w.pods[node]
		}
		return p.real.Warm(ctx, node, pool, owner) // finds no pods in this store, and notes on the node that it is warm
	})
}

func (p drainerPort) Placeholders(context.Context) ([]inventory.Placeholder, error) {
	return p.w.placeholders(), p.w.read("Placeholders")
}

func (p drainerPort) Drop(_ context.Context, names []string) error {
	return p.w.change("Drop", func() error {
		for _, name := range names {
			if node, _, ok := strings.Cut(name, "/"); ok && p.w.held[node] > 0 {
				p.w.held[node]--
			}
		}
		return nil
	})
}

func (p drainerPort) Begin(ctx context.Context, node string) error {
	return p.onNode("Begin", func() error { return p.real.Begin(ctx, node) })
}

func (p drainerPort) Release(ctx context.Context, node string) error {
	return p.onNode("Release", func() error { return p.real.Release(ctx, node) })
}

func (p drainerPort) Unmark(ctx context.Context, node string) error {
	return p.onNode("Unmark", func() error { return p.real.Unmark(ctx, node) })
}

func (p drainerPort) Hold(ctx context.Context, node, pool string) error {
	return p.onNode("Hold", func() error { return p.real.Hold(ctx, node, pool) })
}

func (p drainerPort) Restore(ctx context.Context, node, pool string, from inventory.NodeSnapshot) error {
	return p.onNode("Restore", func() error { return p.real.Restore(ctx, node, pool, from) })
}

func (p drainerPort) Cordon(ctx context.Context, node string) error {
	return p.onNode("Cordon", func() error { return p.real.Cordon(ctx, node) })
}
