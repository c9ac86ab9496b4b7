package plan

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

const (
	// stillSuffix and stoppedSuffix mark the target of a NodePool on the way back.
	stillSuffix   = "/still"
	stoppedSuffix = "/stopped"
)

// stillNodePool serves, and disrupts nothing that it has.
func stillNodePool(have karpv1.NodePool) *karpv1.NodePool {
	np := have.DeepCopy()
	np.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "0"}}
	retarget(np, stillSuffix)
	return np
}

// stoppedNodePool serves no more. Its nodes stay: deleting it would drain them all at once, and a taint in its template
// would replace every one of them.
func stoppedNodePool(have karpv1.NodePool) *karpv1.NodePool {
	np := stillNodePool(have)
	np.Spec.Limits = karpv1.Limits{corev1.ResourceCPU: resource.MustParse("0")}
	retarget(np, stoppedSuffix)
	return np
}

// retarget marks what castoff wrote, so that the way forward writes the pool's target again.
func retarget(np *karpv1.NodePool, suffix string) {
	hash, _, _ := strings.Cut(targetHash(np), "/")
	if np.Annotations == nil {
		np.Annotations = map[string]string{}
	}
	np.Annotations[v1alpha1.AnnotationTargetHash] = hash + suffix
}

// still says that nothing of the NodePool's may be disrupted.
func still(np karpv1.NodePool) bool {
	return slices.ContainsFunc(np.Spec.Disruption.Budgets, func(b karpv1.Budget) bool {
		return b.Nodes == "0" && len(b.Reasons) == 0 && b.Schedule == nil
	})
}

// releaseNodes puts nodes back in service. Those whose instance was asked to end are waited for: that may still come true.
func releaseNodes(o *outcome, led ledger, now time.Time, nodes []inventory.Node) {
	for _, n := range nodes {
		switch {
		case ending(led, n, now):
			o.wait("InstanceEnding", "node/"+n.Name, "Its instance was asked to end before.")
		case touched(n):
			o.act(ReleaseNode{Node: n.Name})
		}
	}
}

// touched says that castoff fenced, cordoned or began to drain the node.
func touched(n inventory.Node) bool {
	return n.Annotations[v1alpha1.AnnotationCordonedBy] != "" || n.Annotations[v1alpha1.AnnotationExcludedBy] != "" || begun(n) ||
		n.Labels[v1alpha1.LabelScaler] != "" || n.HasTaint(v1alpha1.TaintLegacy, "")
}

// ending says that the instance's end was asked for, has not been seen, and may still come: a call that was lost is not waited for
// for ever.
func ending(led ledger, n inventory.Node, now time.Time) bool {
	return n.InstanceID != "" && slices.ContainsFunc(led, func(op v1alpha1.Operation) bool {
		return waits(op, now) && kindOf(op) == kindEndInstances && slices.Contains(strings.Split(op.Detail, separator), n.InstanceID)
	})
}

// standIn holds the pool's legacy nodes until their pods are back: Cluster Autoscaler would remove empty ones after ten
// minutes. A node that came back stands for one that was recorded and is gone, first of its own zone.
func standIn(o *outcome, l look, p pool) {
	for _, g := range p.groups {
		recorded, _ := l.Snapshot.Group(g.Name)
		missing := missingNodes(l, recorded)
		known := indexOf(recorded.Nodes)
		for _, n := range p.nodes {
			if n.Group != g.Name || !n.Ready || held(n, p.Name) {
				continue
			}
			if known.has(n) || n.Annotations[v1alpha1.AnnotationRestoredFrom] != "" || len(missing) == 0 {
				o.act(HoldNode{Node: n.Name, Pool: p.Name})
				continue
			}
			o.act(RestoreNode{Node: n.Name, Pool: p.Name, From: missing.take(n.Zone)})
		}
	}
}

// held: whatever the user said of the node's removal counts.
func held(n inventory.Node, pool string) bool {
	_, said := n.Annotations[v1alpha1.AnnotationScaleDownDisabled]
	return said && n.Annotations[v1alpha1.AnnotationLegacy] == pool
}

// recordedNodes are found by name and by instance.
type recordedNodes map[string]*inventory.NodeSnapshot

func indexOf(nodes []inventory.NodeSnapshot) recordedNodes {
	index := recordedNodes{}
	for i := range nodes {
		index[nodes[i].Name] = &nodes[i]
		if nodes[i].InstanceID != "" {
			index[nodes[i].InstanceID] = &nodes[i]
		}
	}
	return index
}

func (x recordedNodes) has(n inventory.Node) bool {
	byName, named := x[n.Name]
	byID, found := x[n.InstanceID]
	return named && same(*byName, n) || found && same(*byID, n)
}

// same goes by the instance: a name is made of an address, which soon belongs to another node, of another group or of
// Karpenter's.
func same(r inventory.NodeSnapshot, n inventory.Node) bool {
	if r.InstanceID == "" || n.InstanceID == "" {
		return r.Name == n.Name
	}
	return r.InstanceID == n.InstanceID
}

// vacancies are nodes that were recorded and are gone, by zone and there by name.
type vacancies map[string][]inventory.NodeSnapshot

// missingNodes were recorded, are gone, and nobody stands for them yet.
func missingNodes(l look, g inventory.GroupSnapshot) vacancies {
	there, stoodFor := map[string]*inventory.Node{}, map[string]bool{}
	for i := range l.Nodes {
		n := &l.Nodes[i]
		there[n.Name], stoodFor[n.Annotations[v1alpha1.AnnotationRestoredFrom]] = n, true
		if n.InstanceID != "" {
			there[n.InstanceID] = n
		}
	}
	out := vacancies{}
	for _, r := range g.Nodes {
		byName, named := there[r.Name]
		byID, found := there[r.InstanceID]
		if !stoodFor[r.Name] && !(named && same(r, *byName)) && !(found && same(r, *byID)) {
			out[r.Zone] = append(out[r.Zone], r)
		}
	}
	for _, zone := range out {
		slices.SortFunc(zone, func(a, b inventory.NodeSnapshot) int { return cmp.Compare(a.Name, b.Name) })
	}
	return out
}

// take gives the first of the zone, or of all of them where the zone has none. There has to be one.
func (v vacancies) take(zone string) inventory.NodeSnapshot {
	if len(v[zone]) == 0 {
		zone = slices.MinFunc(slices.Collect(maps.Keys(v)), func(a, b string) int { return cmp.Compare(v[a][0].Name, v[b][0].Name) })
	}
	first := v[zone][0]
	if v[zone] = v[zone][1:]; len(v[zone]) == 0 {
		delete(v, zone)
	}
	return first
}
