package inventory

import "k8s.io/apimachinery/pkg/types"

// StrandedPod waits for a node and has a volume that only certain nodes can reach: where those are gone it waits for ever.
type StrandedPod struct {
	Pod types.NamespacedName `json:"pod"`
	// Claim is the pod's claim to the volume, Volume its PersistentVolume.
	Claim  types.NamespacedName `json:"claim"`
	Volume string               `json:"volume"`
	// Hosts are the nodes that can reach it, by the name or the host name that the volume has for them.
	Hosts []string `json:"hosts"`
}
