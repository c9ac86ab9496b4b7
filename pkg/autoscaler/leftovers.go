package autoscaler

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// The taints of a scale-down that Cluster Autoscaler was stopped in the middle of. Only a Cluster Autoscaler that starts would
// remove them.
const (
	taintToBeDeleted = "ToBeDeletedByClusterAutoscaler"
	taintCandidate   = "DeletionCandidateOfClusterAutoscaler"
)

// HasLeftovers says whether the node carries a taint of Cluster Autoscaler's.
func HasLeftovers(n inventory.Node) bool {
	return n.HasTaint(taintToBeDeleted, "") || n.HasTaint(taintCandidate, "")
}

// StripLeftovers removes Cluster Autoscaler's taints from a node, in one patch that fails if the node changed meanwhile. It
// uncordons a node that Cluster Autoscaler was about to delete, for it cordons those, unless the cordon is castoff's. Call it
// once Cluster Autoscaler has let go. A node that is gone has none.
func (c *Client) StripLeftovers(ctx context.Context, node string) error {
	object := new(corev1.Node)
	if err := c.live.Get(ctx, client.ObjectKey{Name: node}, object); err != nil {
		return wrap(client.IgnoreNotFound(err), "get", "nodes", node)
	}
	before := object.DeepCopy()
	object.Spec.Taints = slices.DeleteFunc(object.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == taintToBeDeleted || t.Key == taintCandidate
	})
	if len(object.Spec.Taints) == len(before.Spec.Taints) {
		return nil
	}
	toBeDeleted := slices.ContainsFunc(before.Spec.Taints, func(t corev1.Taint) bool { return t.Key == taintToBeDeleted })
	if toBeDeleted && object.Annotations[v1alpha1.AnnotationCordonedBy] == "" {
		object.Spec.Unschedulable = false
	}
	err := c.client.Patch(ctx, object, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	return wrap(client.IgnoreNotFound(err), "patch", "nodes", node)
}
