package drain

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/inventory/kubeapi"
)

// taintValue is the value of TaintLegacy. Cluster Autoscaler's node templates need one, so the taint always has it.
const taintValue = "true"

// excludeValue is the value with which castoff takes a node out of load balancers. The key alone counts (Kubernetes, "Well-Known
// Labels"), so another value says that somebody else has set it since.
const excludeValue = "true"

// Mark notes on the node which pool it belongs to, by an annotation alone: labels, taints and cordons would make a Cluster
// Autoscaler that still manages the group scale it. A node that is gone needs no mark.
func (d *Drainer) Mark(ctx context.Context, node, pool string) error {
	return d.patch(ctx, node, func(n *corev1.Node) {
		n.Annotations = with(n.Annotations, v1alpha1.AnnotationLegacy, pool)
	})
}

// Fence keeps new pods off the node once Karpenter serves its pool, in one patch that fails if the node changed meanwhile:
// labels, a cordon, and the marker taint. A cordon that is somebody else's stays so. Cordoned nodes still run DaemonSets.
// How often it was done is counted on the node.
// A node that is gone needs no fence.
func (d *Drainer) Fence(ctx context.Context, node, pool string) error {
	return d.patch(ctx, node, func(n *corev1.Node) {
		before := n.DeepCopy()
		n.Labels = with(n.Labels, v1alpha1.LabelPool, pool)
		n.Labels = with(n.Labels, v1alpha1.LabelScaler, v1alpha1.ScalerKarpenter)
		cordon(n)
		effect := corev1.TaintEffectPreferNoSchedule
		if n.Annotations[v1alpha1.AnnotationDraining] != "" {
			effect = corev1.TaintEffectNoSchedule // a node that is drained is fenced harder, and stays so
		}
		n.Spec.Taints = withLegacyTaint(n.Spec.Taints, effect)
		if !equality.Semantic.DeepEqual(before, n) {
			fences, _ := strconv.Atoi(n.Annotations[v1alpha1.AnnotationFences]) // what is no number is nobody's count
			n.Annotations = with(n.Annotations, v1alpha1.AnnotationFences, strconv.Itoa(fences+1))
		}
	})
}

// Cordon keeps new pods off one of Karpenter's nodes on the way back, before Begin opens its drain. A cordon that is somebody
// else's stays so. A node that is gone needs none.
func (d *Drainer) Cordon(ctx context.Context, node string) error {
	return d.patch(ctx, node, cordon)
}

// cordon says that it was castoff, for Release to know; a cordon that is there is left to whoever set it.
func cordon(n *corev1.Node) {
	if !n.Spec.Unschedulable {
		n.Spec.Unschedulable = true
		n.Annotations = with(n.Annotations, v1alpha1.AnnotationCordonedBy, v1alpha1.ByCastoff)
	}
}

// Begin opens the node's drain: Pass refuses to evict before it. From here on even pods that tolerate a cordon stay away, and
// load balancers stop sending traffic before the pods go. The time of the first call is kept, and so is an exclusion from load
// balancers that is somebody else's. When the first placeholder was made is noted beside it: they are gone when that is asked for.
func (d *Drainer) Begin(ctx context.Context, node string) error {
	rooms, err := d.roomsOf(ctx, node)
	if err != nil {
		return err
	}
	return d.patch(ctx, node, func(n *corev1.Node) {
		if n.Annotations[v1alpha1.AnnotationDraining] == "" {
			n.Annotations = with(n.Annotations, v1alpha1.AnnotationDraining, d.clock().UTC().Format(time.RFC3339))
		}
		if len(rooms) > 0 && n.Annotations[v1alpha1.AnnotationWarmed] == "" {
			first := slices.MinFunc(rooms, func(a, b inventory.Placeholder) int { return a.Created.Compare(b.Created) })
			n.Annotations = with(n.Annotations, v1alpha1.AnnotationWarmed, first.Created.UTC().Format(time.RFC3339))
		}
		if _, excluded := n.Labels[corev1.LabelNodeExcludeBalancers]; !excluded {
			n.Labels = with(n.Labels, corev1.LabelNodeExcludeBalancers, excludeValue)
			n.Annotations = with(n.Annotations, v1alpha1.AnnotationExcludedBy, v1alpha1.ByCastoff)
		}
		n.Spec.Taints = withLegacyTaint(n.Spec.Taints, corev1.TaintEffectNoSchedule)
	})
}

// Fenced says whether everything that Fence sets is there, whoever set it.
func Fenced(n inventory.Node) bool {
	return n.Labels[v1alpha1.LabelPool] != "" && n.Labels[v1alpha1.LabelScaler] == v1alpha1.ScalerKarpenter &&
		n.Unschedulable && n.HasTaint(v1alpha1.TaintLegacy, "")
}

// Begun says whether everything that Begin sets is there, whoever set it.
func Begun(n inventory.Node) bool {
	_, excluded := n.Labels[corev1.LabelNodeExcludeBalancers]
	return n.Annotations[v1alpha1.AnnotationDraining] != "" && excluded &&
		n.HasTaint(v1alpha1.TaintLegacy, corev1.TaintEffectNoSchedule)
}

// patch changes one node, and only if it still is as it was read: a list of taints is replaced as a whole. It writes nothing
// where nothing is to change.
func (d *Drainer) patch(ctx context.Context, name string, change func(*corev1.Node)) error {
	node, err := d.node(ctx, name)
	if err != nil || node == nil {
		return err
	}
	before := node.DeepCopy()
	change(node)
	if equality.Semantic.DeepEqual(before, node) {
		return nil
	}
	err = d.client.Patch(ctx, node, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	return kubeapi.Wrap(client.IgnoreNotFound(err), "patch", "nodes", name)
}

// node reads the node past the cache; nil means that it is gone.
func (d *Drainer) node(ctx context.Context, name string) (*corev1.Node, error) {
	node := new(corev1.Node)
	err := d.live.Get(ctx, client.ObjectKey{Name: name}, node)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return node, kubeapi.Wrap(err, "get", "nodes", name)
}

func with(m map[string]string, key, value string) map[string]string {
	m = maps.Clone(m)
	if m == nil {
		m = map[string]string{}
	}
	m[key] = value
	return m
}

// withLegacyTaint leaves one taint of castoff's key, with that effect, and all others in their order.
func withLegacyTaint(taints []corev1.Taint, effect corev1.TaintEffect) []corev1.Taint {
	want := corev1.Taint{Key: v1alpha1.TaintLegacy, Value: taintValue, Effect: effect}
	if slices.ContainsFunc(taints, func(t corev1.Taint) bool { return t.MatchTaint(&want) && t.Value == want.Value }) &&
		count(taints, want.Key) == 1 {
		return taints
	}
	others := slices.DeleteFunc(slices.Clone(taints), func(t corev1.Taint) bool { return t.Key == want.Key })
	return append(others, want)
}

func count(taints []corev1.Taint, key string) int {
	n := 0
	for _, t := range taints {
		if t.Key == key {
			n++
		}
	}
	return n
}
