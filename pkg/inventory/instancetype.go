package inventory

// InstanceType is an EC2 instance type and what it costs in one region. Prices are US dollars an hour before taxes, credits,
// savings plans and reservations; 0 and a missing zone mean that no price is known.
type InstanceType struct {
	Name         string `json:"name"`
	Architecture string `json:"architecture,omitempty"` // amd64, arm64
	VCPUs        int64  `json:"vCPUs"`
	MemoryMiB    int64  `json:"memoryMiB"`
	// MaxPods is how many pods have addresses of their own with the VPC CNI and without prefix delegation; 0: not known.
	MaxPods  int64   `json:"maxPods,omitempty"`
	OnDemand float64 `json:"onDemand,omitempty"`
	// Spot is the latest spot price by zone.
	Spot map[string]float64 `json:"spot,omitempty"`

	// Accelerators are its GPUs, Neuron devices and other accelerators: how many, by maker and name.
	Accelerators map[string]int64 `json:"accelerators,omitempty"`
	// LocalStorageGB is the size of its instance store, 0 without one.
	LocalStorageGB int64 `json:"localStorageGB,omitempty"`
	// EFA says that it takes Elastic Fabric Adapters, NetworkCards how many cards it has, and BandwidthMbps what its network carries
	// at any time, without bursts; 0: not known.
	EFA           bool  `json:"efa,omitempty"`
	NetworkCards  int64 `json:"networkCards,omitempty"`
	BandwidthMbps int64 `json:"bandwidthMbps,omitempty"`
	// Interfaces are those of its first network card, the only one that pods use, and AddressesPerInterface their IPv4 addresses.
	Interfaces            int64 `json:"interfaces,omitempty"`
	AddressesPerInterface int64 `json:"addressesPerInterface,omitempty"`
}

// InstanceFamily is what EC2 has of a family of instance types, such as m6i; no types where it does not know the family.
type InstanceFamily struct {
	Name  string         `json:"name"`
	Types []InstanceType `json:"types,omitempty"`
}
