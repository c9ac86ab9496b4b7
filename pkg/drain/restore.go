package drain

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// taintToBeDeleted is on a node that Cluster Autoscaler is about to delete; it cordons those.
const taintToBeDeleted = "ToBeDeletedByClusterAutoscaler"

// Restore gives a node that came back what the recorded one had beyond what its group gives: labels whose key it lacks, taints it
// lacks, and a cordon, with what Hold does, in one patch that fails if the node changed meanwhile. What says which machine a node
// is, or what state it is in, is not restored: it was true of the recorded one. A node that was restored once is left, whatever
// from it was: what differs since is somebody's own. A node that is gone is left, too.
func (d *Drainer) Restore(ctx context.Context, node, pool string, from inventory.NodeSnapshot) error {
	return d.patch(ctx, node, func(n *corev1.Node) {
		if _, restored := n.Annotations[v1alpha1.AnnotationRestoredFrom]; restored {
			return
		}
		hold(n, pool)
		n.Annotations[v1alpha1.AnnotationRestoredFrom] = from.Name
		for key, value := range from.Labels {
			if _, has := n.Labels[key]; !has && !ofTheMachine(key) {
				n.Labels = with(n.Labels, key, value)
			}
		}
		for _, taint := range from.Taints {
			if !ofTheMoment(taint.Key) && !slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&taint) }) {
				taint.TimeAdded = nil // of the recorded node's life, and the API server's to set
				n.Spec.Taints = append(n.Spec.Taints, taint)
			}
		}
		// What the user had is the user's again, and outlives a drain that castoff has begun on the new node.
		if from.Unschedulable && !hasTaint(from.Taints, taintToBeDeleted) {
			n.Spec.Unschedulable = true
			delete(n.Annotations, v1alpha1.AnnotationCordonedBy)
		}
		if _, excluded := from.Labels[corev1.LabelNodeExcludeBalancers]; excluded {
			delete(n.Annotations, v1alpha1.AnnotationExcludedBy)
		}
	})
}

// ofTheMachine says whether a label tells which machine a node is, or was measured on it: whoever sets those sets them on every
// node (kubelet, cloud controller, EKS, CSI drivers, feature discovery), and castoff its own.
func ofTheMachine(key string) bool {
	switch key {
	case corev1.LabelHostname, corev1.LabelArchStable, corev1.LabelOSStable, corev1.LabelInstanceTypeStable, corev1.LabelWindowsBuild,
		"k8s.io/cloud-provider-aws", "alpha.eksctl.io/instance-id":
		return true
	}
	domain, _, _ := strings.Cut(key, "/")
	return strings.HasPrefix(domain, "topology.") || slices.ContainsFunc([]string{
		"beta.kubernetes.io", "failure-domain.beta.kubernetes.io", // older names of kubelet's and the cloud controller's
		"eks.amazonaws.com", "vpc.amazonaws.com", "feature.node.kubernetes.io", "nvidia.com",
		"karpenter.sh", "karpenter.k8s.aws", "castoff.sh",
	}, func(d string) bool { return within(domain, d) })
}

// ofTheMoment says whether a taint tells a state that the recorded node was in, and that the new one has its own of: the node
// lifecycle's, an agent's that was not ready, and those of the scalers, of the termination handler and of castoff.
func ofTheMoment(key string) bool {
	domain, name, found := strings.Cut(key, "/")
	if !found {
		return key == taintToBeDeleted || key == "DeletionCandidateOfClusterAutoscaler"
	}
	return strings.HasSuffix(name, "not-ready") || slices.ContainsFunc([]string{
		"node.kubernetes.io", "node.cloudprovider.kubernetes.io", "cluster-autoscaler.kubernetes.io", "aws-node-termination-handler",
		"karpenter.sh", "karpenter.k8s.aws", "castoff.sh",
	}, func(d string) bool { return within(domain, d) })
}

// within says whether a domain is another one or below it.
func within(domain, of string) bool { return domain == of || strings.HasSuffix(domain, "."+of) }

func hasTaint(taints []corev1.Taint, key string) bool {
	return slices.ContainsFunc(taints, func(t corev1.Taint) bool { return t.Key == key })
}
