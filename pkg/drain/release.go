package drain

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
)

// scaleDownDisabled is the only value of AnnotationScaleDownDisabled by which Cluster Autoscaler keeps a node.
const scaleDownDisabled = "true"

// Release puts the node back in service: what Fence, Cordon and Begin did is undone, in one patch that fails if the node changed
// meanwhile. A cordon, an exclusion from load balancers and taints that are somebody else's stay; so does AnnotationLegacy, which
// says whose node it is. A node that is gone needs none.
func (d *Drainer) Release(ctx context.Context, node string) error {
	return d.patch(ctx, node, func(n *corev1.Node) {
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == v1alpha1.TaintLegacy })
		if _, marked := n.Annotations[v1alpha1.AnnotationCordonedBy]; marked {
			n.Spec.Unschedulable = false
			delete(n.Annotations, v1alpha1.AnnotationCordonedBy)
		}
		if _, marked := n.Annotations[v1alpha1.AnnotationExcludedBy]; marked {
			deleteIf(n.Labels, corev1.LabelNodeExcludeBalancers, excludeValue)
			delete(n.Annotations, v1alpha1.AnnotationExcludedBy)
		}
		delete(n.Annotations, v1alpha1.AnnotationDraining)
		delete(n.Annotations, v1alpha1.AnnotationFences)
		delete(n.Annotations, v1alpha1.AnnotationWarmed)
		delete(n.Labels, v1alpha1.LabelScaler)
		if _, karpenters := n.Labels[karpv1.NodePoolLabelKey]; !karpenters { // those have it from their NodePool
			delete(n.Labels, v1alpha1.LabelPool)
		}
	})
}

// Hold notes on the node which pool it belongs to, and keeps Cluster Autoscaler from removing it while its pods are not back. A
// user's own word on that is left, whatever it says. A node that is gone needs no hold.
func (d *Drainer) Hold(ctx context.Context, node, pool string) error {
	return d.patch(ctx, node, func(n *corev1.Node) { hold(n, pool) })
}

func hold(n *corev1.Node, pool string) {
	n.Annotations = with(n.Annotations, v1alpha1.AnnotationLegacy, pool)
	if _, said := n.Annotations[v1alpha1.AnnotationScaleDownDisabled]; !said {
		n.Annotations[v1alpha1.AnnotationScaleDownDisabled] = scaleDownDisabled
		n.Annotations[v1alpha1.AnnotationHeldBy] = v1alpha1.ByCastoff
	}
}

// Unmark takes off what says that the node is one of a pool that migrates: the pool's name, where it was restored from, and the
// hold, if that is castoff's. It is the last thing that is done to a node. A node that is gone carries nothing.
func (d *Drainer) Unmark(ctx context.Context, node string) error {
	return d.patch(ctx, node, func(n *corev1.Node) {
		delete(n.Annotations, v1alpha1.AnnotationLegacy)
		delete(n.Annotations, v1alpha1.AnnotationRestoredFrom)
		if _, marked := n.Annotations[v1alpha1.AnnotationHeldBy]; marked {
			deleteIf(n.Annotations, v1alpha1.AnnotationScaleDownDisabled, scaleDownDisabled)
			delete(n.Annotations, v1alpha1.AnnotationHeldBy)
		}
	})
}

// deleteIf leaves a value that castoff did not write: somebody has set it since.
func deleteIf(m map[string]string, key, value string) {
	if m[key] == value {
		delete(m, key)
	}
}
