package plan

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// checkStranded is a pod that has nowhere to go, as the user accepted.
const checkStranded = "PodStranded"

// stranded are the pods that wait for a node because the disk with their volume is on one that goes, where the user accepts that it is
// lost. They wait for a human, not for room: nobody else has to wait with them.
func (l look) stranded() []inventory.StrandedPod {
	return slices.DeleteFunc(slices.Clone(l.Stranded), func(s inventory.StrandedPod) bool {
		return !l.accepts(string(inventory.BlockedLocalVolume), "persistentvolume/"+s.Volume) || slices.ContainsFunc(s.Hosts, l.takesPods)
	})
}

// takesPods says that there is a node of that name, or host name, and that it takes new pods.
func (l look) takesPods(host string) bool {
	return slices.ContainsFunc(l.Nodes, func(n inventory.Node) bool {
		return (n.Name == host || n.Labels[corev1.LabelHostname] == host) && !n.Unschedulable
	})
}

// nameStranded says of each what has to be done, and counts what is more than three.
func nameStranded(o *outcome, l look) {
	all := l.stranded()
	for i, s := range all {
		if i == mostNamed {
			o.warn(checkStranded, "pods", inventory.Count(len(all)-mostNamed, "more pod waits", "more pods wait")+" for a node that went with the disk of their volume.")
			return
		}
		o.warn(checkStranded, "pod/"+s.Pod.String(), "It was evicted as acceptedRisks says, and the disk with its PersistentVolume "+s.Volume+" was its old node's, so it waits for ever. "+
			"Delete claim and pod, and its controller makes both anew: kubectl -n "+s.Pod.Namespace+" delete pvc/"+s.Claim.Name+" pod/"+s.Pod.Name+". The migration does not wait for it.")
	}
}
