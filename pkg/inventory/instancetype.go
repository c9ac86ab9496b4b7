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
}
