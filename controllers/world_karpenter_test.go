package controllers

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/helm"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

const (
	// claimJoins and claimLeaves are how long a NodeClaim takes to be a Ready node, and to be gone.
	claimJoins, claimLeaves = 3 * time.Second, 2 * time.Second
	// claimEmpty is how long Karpenter lets a node be empty.
	claimEmpty = 30 * time.Second
	// engineLeaves is how long the pods of an engine that was uninstalled go on.
	engineLeaves = 2 * time.Second
)

// claim is a NodeClaim and its node.
type claim struct {
	name, pool string
	born       time.Time
	emptied    time.Time // since when it holds no pod
	gone       time.Time // when it will be; zero while nobody deleted it
}

func (c claim) node() string { return "node-" + c.name }

// runs says that a pod of the engine is there.
func (w *world) runs() bool { return w.rel || w.now.Before(w.gone) }

func (w *world) nodePool(pool string) *karpv1.NodePool {
	i := slices.IndexFunc(w.engine.NodePools, func(p karpv1.NodePool) bool { return p.Labels[v1alpha1.LabelPool] == pool })
	if i < 0 {
		return nil
	}
	return &w.engine.NodePools[i]
}

// serves says that a Ready NodePool that is not stopped serves the pool, by an engine that runs.
func (w *world) serves(pool string) bool {
	p := w.nodePool(pool)
	return p != nil && w.runs() && !stopped(p) && slices.ContainsFunc(p.Status.Conditions, func(c status.Condition) bool {
		return c.Type == status.ConditionReady && c.IsTrue()
	})
}

func stopped(p *karpv1.NodePool) bool {
	cpu, limited := p.Spec.Limits[corev1.ResourceCPU]
	return limited && cpu.IsZero()
}

// tickKarpenter lets claims become nodes and go, launches what pods without a node need, and removes empty nodes.
func (w *world) tickKarpenter() {
	var left []claim
	for _, c := range w.claims {
		if !c.gone.IsZero() && !w.now.Before(c.gone) {
			w.removeNode(c.node())
			continue
		}
		if w.now.Sub(c.born) >= claimJoins && w.node(c.node()) == nil {
			labels := map[string]string{karpv1.NodePoolLabelKey: c.pool, v1alpha1.LabelPool: c.pool}
			w.addNode(c.node(), "i-karpenter-"+c.name, labels, true)
		}
		left = append(left, w.consolidate(c))
	}
	w.claims = left
	for pool, leaves := range w.leaving {
		if !w.now.Before(leaves) {
			delete(w.leaving, pool)
		}
	}
	for _, pool := range testPools {
		if w.serves(pool) {
			w.launch(pool)
		}
	}
}

// consolidate removes an empty node, unless the NodePool's budgets say that nothing is to be disrupted.
func (w *world) consolidate(c claim) claim {
	switch p := w.nodePool(c.pool); {
	case w.pods[c.node()] > 0 || w.node(c.node()) == nil:
		c.emptied = time.Time{}
	case c.emptied.IsZero():
		c.emptied = w.now
	case w.now.Sub(c.emptied) >= claimEmpty && c.gone.IsZero() && w.runs() && p != nil && disrupts(p):
		c.gone = w.now.Add(claimLeaves)
	}
	return c
}

func disrupts(p *karpv1.NodePool) bool {
	return !slices.ContainsFunc(p.Spec.Disruption.Budgets, func(b karpv1.Budget) bool {
		return b.Nodes == "0" && (len(b.Reasons) == 0 || slices.Contains(b.Reasons, karpv1.DisruptionReasonEmpty))
	})
}

// placeholders are what is held, the names of a node's first pod first. They are Ready as far as there is room on nodes that are
// Ready, after the pods that wait.
func (w *world) placeholders() []inventory.Placeholder {
	room := map[string]int{}
	for _, pool := range testPools {
		room[pool] = -w.homeless[pool]
	}
	for _, c := range w.claims {
		if n := w.node(c.node()); n != nil && !n.Spec.Unschedulable && c.gone.IsZero() && nodeReady(n) {
			room[c.pool] += roomOfNode - w.pods[c.node()]
		}
	}
	var out []inventory.Placeholder
	for _, node := range slices.Sorted(maps.Keys(w.held)) {
		pool := w.heldFor(node)
		for i := range w.held[node] {
			room[pool]--
			out = append(out, inventory.Placeholder{Name: fmt.Sprintf("%s/%d", node, i), Pool: pool, Node: node, Ready: room[pool] >= 0})
		}
	}
	return out
}

// heldFor is the pool of a legacy node, which may be gone: they are named after it.
func (w *world) heldFor(node string) string {
	if n := w.node(node); n != nil {
		return w.poolOf(n)
	}
	return ""
}

// launch makes as many nodes as the pods without one need, placeholders among them.
func (w *world) launch(pool string) {
	room := 0
	for _, c := range w.claims {
		n := w.node(c.node())
		if c.pool == pool && c.gone.IsZero() && (n == nil || !n.Spec.Unschedulable) {
			room += roomOfNode - w.pods[c.node()]
		}
	}
	wanted := w.homeless[pool]
	for node, held := range w.held {
		if w.heldFor(node) == pool {
			wanted += held
		}
	}
	for ; room < wanted; room += roomOfNode {
		w.ids++
		w.claims = append(w.claims, claim{name: fmt.Sprintf("%s-%d", pool, w.ids), pool: pool, born: w.now})
	}
}

type provisionerPort struct{ w *world }

func (p provisionerPort) Observe(context.Context) (inventory.Engine, error) {
	e := p.w.engine
	e.NodePools, e.NodeClasses = slices.Clone(e.NodePools), slices.Clone(e.NodeClasses)
	if p.w.rel {
		e.Replicas, e.ReadyReplicas = 2, 2
	}
	e.Canaries, e.NodeClassHashes = nil, map[string]string{}
	for _, c := range e.NodeClasses {
		e.NodeClassHashes[c.Name] = "hash-of-" + c.Name
	}
	for _, pool := range testPools {
		since, there := p.w.started[pool]
		_, leaves := p.w.leaving[pool]
		if there || leaves {
			e.Canaries = append(e.Canaries, inventory.Canary{Pool: pool, NodePool: there, Pod: there, Node: true, PodRan: there && p.w.now.Sub(since) > 4*time.Second, Since: since})
		}
	}
	for _, c := range p.w.claims {
		n := inventory.NodeClaim{Name: c.name, NodePool: c.pool, Deleting: !c.gone.IsZero(), Created: c.born}
		if p.w.node(c.node()) != nil {
			n.Node, n.Ready = c.node(), true
		}
		e.NodeClaims = append(e.NodeClaims, n)
	}
	return e, p.w.read("Observe Karpenter")
}

func (p provisionerPort) EnsureNodeClass(_ context.Context, nc *awsv1.EC2NodeClass) error {
	return p.w.change("EnsureNodeClass", func() error {
		c := nc.DeepCopy()
		for _, kind := range []string{"SubnetsReady", "SecurityGroupsReady", "AMIsReady", "InstanceProfileReady", "ValidationSucceeded", "Ready"} {
			c.StatusConditions().SetTrue(kind)
		}
		p.w.engine.NodeClasses = slices.DeleteFunc(slices.Clone(p.w.engine.NodeClasses), func(o awsv1.EC2NodeClass) bool { return o.Name == c.Name })
		p.w.engine.NodeClasses = append(p.w.engine.NodeClasses, *c)
		return nil
	})
}

func (p provisionerPort) EnsureNodePool(_ context.Context, np *karpv1.NodePool) error {
	return p.w.change("EnsureNodePool", func() error {
		c := np.DeepCopy()
		for _, kind := range []string{"ValidationSucceeded", "NodeClassReady", "Ready"} {
			c.StatusConditions().SetTrue(kind)
		}
		p.w.engine.NodePools = slices.DeleteFunc(slices.Clone(p.w.engine.NodePools), func(o karpv1.NodePool) bool { return o.Name == c.Name })
		p.w.engine.NodePools = append(p.w.engine.NodePools, *c)
		return nil
	})
}

// DeleteNodePool of one that has nodes would drain them all.
func (p provisionerPort) DeleteNodePool(_ context.Context, name string) error {
	return p.w.change("DeleteNodePool", func() error {
		for i := range p.w.claims {
			if c := &p.w.claims[i]; c.pool == name && c.gone.IsZero() {
				p.w.breaks("NodePool %s deleted with node %s", name, c.node())
				p.w.deleteClaim(c)
			}
		}
		p.w.engine.NodePools = slices.DeleteFunc(slices.Clone(p.w.engine.NodePools), func(o karpv1.NodePool) bool { return o.Name == name })
		return nil
	})
}

// DeleteNodeClass waits for an engine: its finalizer is Karpenter's.
func (p provisionerPort) DeleteNodeClass(_ context.Context, name string) error {
	return p.w.change("DeleteNodeClass", func() error {
		if p.w.nodePool(name) != nil {
			p.w.breaks("EC2NodeClass %s deleted before its NodePool", name)
		}
		have := len(p.w.engine.NodeClasses)
		p.w.engine.NodeClasses = slices.DeleteFunc(slices.Clone(p.w.engine.NodeClasses), func(o awsv1.EC2NodeClass) bool { return o.Name == name })
		if len(p.w.engine.NodeClasses) < have && !p.w.runs() {
			p.w.breaks("EC2NodeClass %s deleted without an engine to let it go", name)
		}
		return nil
	})
}

func (p provisionerPort) DeleteNodeClaim(_ context.Context, name string) error {
	return p.w.change("DeleteNodeClaim", func() error {
		for i := range p.w.claims {
			if p.w.claims[i].name == name && p.w.claims[i].gone.IsZero() {
				p.w.deleteClaim(&p.w.claims[i])
			}
		}
		return nil
	})
}

func (w *world) deleteClaim(c *claim) {
	if n := w.pods[c.node()]; n > 0 {
		w.breaks("NodeClaim %s ended with %d evictable pods", c.name, n)
		w.homeless[c.pool] += n
		w.pods[c.node()] = 0
	}
	if !w.runs() {
		w.breaks("NodeClaim %s ended without an engine to let it go", c.name)
	}
	c.gone = w.now.Add(claimLeaves)
}

func (p provisionerPort) StartCanary(_ context.Context, pool string, _ *awsv1.EC2NodeClass, _ *karpv1.NodePool, _ metav1.OwnerReference) error {
	return p.w.change("StartCanary", func() error {
		if _, ok := p.w.started[pool]; !ok {
			p.w.started[pool] = p.w.now
		}
		return nil
	})
}

// EndCanary takes its pod and NodePool away; the node goes when Karpenter has ended it.
func (p provisionerPort) EndCanary(_ context.Context, pool string) error {
	return p.w.change("EndCanary", func() error {
		if _, ok := p.w.started[pool]; ok {
			p.w.leaving[pool] = p.w.now.Add(claimLeaves)
		}
		delete(p.w.started, pool)
		return nil
	})
}

func (p provisionerPort) MarkCanaryPassed(_ context.Context, pool, hash string) error {
	return p.w.change("MarkCanaryPassed", func() error { return p.annotate(pool, v1alpha1.AnnotationCanaryPassed, hash) })
}

func (p provisionerPort) MarkCanaryFailed(_ context.Context, pool, hash, why string) error {
	return p.w.change("MarkCanaryFailed", func() error {
		return p.annotate(pool, v1alpha1.AnnotationCanaryFailed, hash+" "+p.w.now.UTC().Format(time.RFC3339)+" "+why)
	})
}

func (p provisionerPort) annotate(class, key, value string) error {
	for i := range p.w.engine.NodeClasses {
		if p.w.engine.NodeClasses[i].Name == class {
			c := p.w.engine.NodeClasses[i].DeepCopy()
			c.Annotations[key] = value
			p.w.engine.NodeClasses = slices.Clone(p.w.engine.NodeClasses)
			p.w.engine.NodeClasses[i] = *c
		}
	}
	return nil
}

type releasesPort struct{ w *world }

func (p releasesPort) Observe(context.Context, helm.Release) (helm.State, error) {
	if !p.w.rel {
		return helm.State{Status: helm.NotInstalled}, p.w.read("Observe release")
	}
	return helm.State{Status: helm.Deployed, Current: true}, p.w.read("Observe release")
}

func (p releasesPort) Apply(context.Context, helm.Release) (helm.State, error) {
	return helm.State{}, p.w.change("Apply", func() error { p.w.rel = true; return nil })
}

// Uninstall of an engine that is still needed would leave objects that nobody lets go.
func (p releasesPort) Uninstall(context.Context, helm.Release) error {
	return p.w.change("Uninstall", func() error {
		if e := p.w.engine; len(e.NodePools)+len(e.NodeClasses)+len(p.w.claims)+len(p.w.started)+len(p.w.leaving) > 0 {
			p.w.breaks("the engine is uninstalled with %d NodePools, %d EC2NodeClasses, %d NodeClaims and %d canaries left",
				len(e.NodePools), len(e.NodeClasses), len(p.w.claims), len(p.w.started)+len(p.w.leaving))
		}
		if p.w.rel {
			p.w.rel, p.w.gone = false, p.w.now.Add(engineLeaves)
		}
		return nil
	})
}

func (p releasesPort) ObserveCRDs(context.Context, helm.Release) ([]helm.CRD, error) {
	status := helm.CRDMissing
	if p.w.crds {
		status = helm.CRDCurrent
	}
	return []helm.CRD{{Name: "nodepools.karpenter.sh", Status: status, Established: p.w.crds}}, p.w.read("Observe CRDs")
}

func (p releasesPort) ApplyCRDs(context.Context, helm.Release) error {
	return p.w.change("ApplyCRDs", func() error { p.w.crds = true; return nil })
}

func (p releasesPort) RemoveCRDs(context.Context) error {
	return p.w.change("RemoveCRDs", func() error {
		if e := p.w.engine; len(e.NodePools)+len(e.NodeClasses)+len(p.w.claims) > 0 || p.w.rel {
			return fmt.Errorf("objects of Karpenter's kinds are left")
		}
		p.w.crds = false
		return nil
	})
}
