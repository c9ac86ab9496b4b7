package inventory

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// SecurityGroup of EC2. Launch configurations may know one by its name.
type SecurityGroup struct {
	ID   string `json:"id"`
	Name string `json:"name,omitempty"`
}

// PodNetwork is how the Amazon VPC CNI plugin, the DaemonSet kube-system/aws-node, gives pods their addresses. Its zero value is the
// plugin's default, and that of a cluster without it.
type PodNetwork struct {
	// CustomNetworking: pods have addresses of other subnets than their node, and the node's first interface has none for them.
	CustomNetworking bool `json:"customNetworking,omitempty"`
	// PrefixDelegation: an interface has prefixes of 16 addresses, and a node holds more pods than it has addresses without.
	PrefixDelegation bool `json:"prefixDelegation,omitempty"`
	// ENIConfigLabel is the label of a node whose value is the name of its ENIConfig.
	ENIConfigLabel string `json:"eniConfigLabel,omitempty"`
	// ENIConfigs are the names of the ENIConfigs that there are; only read with custom networking.
	ENIConfigs []string `json:"eniConfigs,omitempty"`
}

// The plugin's defaults (https://github.com/aws/amazon-vpc-cni-k8s, "ENI_CONFIG_LABEL_DEF").
const (
	// DefaultENIConfigLabel is the label that names a node's ENIConfig unless the plugin is told of another.
	DefaultENIConfigLabel = "k8s.amazonaws.com/eniConfig"
	// DefaultENIConfig is the ENIConfig of a node that names none.
	DefaultENIConfig = "default"
)

// zoneLabels are those that hold a node's zone: ENIConfigs are named after zones then.
var zoneLabels = []string{corev1.LabelTopologyZone, corev1.LabelFailureDomainBetaZone}

// ReservedENIs is how many interfaces of a node pods get no address from.
func (n PodNetwork) ReservedENIs() int64 {
	if n.CustomNetworking {
		return 1
	}
	return 0
}

// MissingENIConfigs are the names of ENIConfigs that nodes with these labels, in these zones, would ask for and that are not there.
func (n PodNetwork) MissingENIConfigs(labels map[string]string, zones []string) []string {
	if !n.CustomNetworking {
		return nil
	}
	wanted := zones
	if !slices.Contains(zoneLabels, n.ENIConfigLabel) {
		wanted = []string{DefaultENIConfig}
		if name := labels[n.ENIConfigLabel]; name != "" {
			wanted = []string{name}
		}
	}
	return slices.DeleteFunc(slices.Clone(wanted), func(name string) bool { return slices.Contains(n.ENIConfigs, name) })
}

// Pods is how many pods a node of the type holds if each has an address of its own and no prefixes are delegated: each interface
// keeps its first address, and two pods use the node's own (EKS user guide, "Choosing an instance type"). 0: not known.
func (t InstanceType) Pods(reservedENIs int64) int64 {
	if t.Interfaces < 1 || t.AddressesPerInterface < 1 {
		return 0
	}
	return max(0, t.Interfaces-reservedENIs)*(t.AddressesPerInterface-1) + 2
}
