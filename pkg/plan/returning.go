package plan

import (
	"cmp"
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
		for _, n := range p.nodes {
			if n.Group != g.Name || !n.Ready || held(n, p.Name) {
				continue
			}
			if known(recorded, n) || n.Annotations[v1alpha1.AnnotationRestoredFrom] != "" || len(missing) == 0 {
				o.act(HoldNode{Node: n.Name, Pool: p.Name})
				continue
			}
			i := max(slices.IndexFunc(missing, func(r inventory.NodeSnapshot) bool { return r.Zone == n.Zone }), 0)
			o.act(RestoreNode{Node: n.Name, Pool: p.Name, From: missing[i]})
			missing = slices.Delete(missing, i, i+1)
		}
	}
}

// held: whatever the user said of the node's removal counts.
func held(n inventory.Node, pool string) bool {
	_, said := n.Annotations[v1alpha1.AnnotationScaleDownDisabled]
	return said && n.Annotations[v1alpha1.AnnotationLegacy] == pool
}

func known(g inventory.GroupSnapshot, n inventory.Node) bool {
	return slices.ContainsFunc(g.Nodes, func(r inventory.NodeSnapshot) bool { return same(r, n) })
}

// same goes by the instance: a name is made of an address, which soon belongs to another node, of another group or of
// Karpenter's.
func same(r inventory.NodeSnapshot, n inventory.Node) bool {
	if r.InstanceID == "" || n.InstanceID == "" {
		return r.Name == n.Name
	}
	return r.InstanceID == n.InstanceID
}

// missingNodes were recorded, are gone, and nobody stands for them yet.
func missingNodes(l look, g inventory.GroupSnapshot) []inventory.NodeSnapshot {
	there, stoodFor := map[string]inventory.Node{}, map[string]bool{}
	for _, n := range l.Nodes {
		there[n.Name], stoodFor[n.Annotations[v1alpha1.AnnotationRestoredFrom]] = n, true
		if n.InstanceID != "" {
			there[n.InstanceID] = n
		}
	}
	out := slices.DeleteFunc(slices.Clone(g.Nodes), func(r inventory.NodeSnapshot) bool {
		byName, named := there[r.Name]
		byID, found := there[r.InstanceID]
		return stoodFor[r.Name] || (named && same(r, byName)) || (found && same(r, byID))
	})
	slices.SortFunc(out, func(a, b inventory.NodeSnapshot) int { return cmp.Compare(a.Name, b.Name) })
	return out
}
