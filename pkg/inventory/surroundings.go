package inventory

import "strings"

// Surroundings is what of AWS lies around the node groups and decides whether Karpenter can launch nodes beside them. A part that
// castoff may not read, or that does not answer, is nil and named in NotRead.
type Surroundings struct {
	// Subnets are those that the groups name and that exist.
	Subnets []Subnet `json:"subnets,omitempty"`
	// DHCP are the options of the cluster's VPC.
	DHCP *DHCPOptions `json:"dhcp,omitempty"`
	// Quotas bound the vCPUs of the families that the groups launch.
	Quotas []VCPUQuota `json:"quotas,omitempty"`
	// SpotRole says whether the account has EC2 Spot's service-linked role.
	SpotRole *bool `json:"spotRole,omitempty"`
	// PodIdentityAgent says whether the cluster has the add-on that hands out the credentials of Pod Identity.
	PodIdentityAgent *bool `json:"podIdentityAgent,omitempty"`
	// Namesakes are VPCs in which a Karpenter of another cluster of this name has instances.
	Namesakes []Namesake `json:"namesakes,omitempty"`
	// NotRead is what could not be read, and why.
	NotRead []NotRead `json:"notRead,omitempty"`
}

// Subnet is a subnet of the VPC.
type Subnet struct {
	ID   string `json:"id"`
	Zone string `json:"zone"`
	// Free is how many IPv4 addresses are left.
	Free int32 `json:"free"`
}

// DHCPOptions are the DHCP option set of a VPC. Its default set has a name and server like any other; "default" as ID is none.
type DHCPOptions struct {
	ID string `json:"id"`
	// DomainName as it stands there: some write several, with blanks between.
	DomainName string `json:"domainName,omitempty"`
}

// VCPUQuota is a quota of EC2 that bounds the vCPUs of running instances of some families, and what of it is in use.
type VCPUQuota struct {
	Code  string  `json:"code"`
	Name  string  `json:"name"`
	Limit float64 `json:"limit"`
	InUse float64 `json:"inUse"`
}

// Namesake is a VPC with instances that a Karpenter launched for a cluster of the same name.
type Namesake struct {
	VPC       string `json:"vpc"`
	Instances int    `json:"instances"`
}

// NotRead is a read that was refused or did not answer.
type NotRead struct {
	// Action is the IAM action, and What it would have told.
	Action string `json:"action"`
	What   string `json:"what"`
	// Denied says that castoff may not; else AWS did not answer.
	Denied bool `json:"denied,omitempty"`
}

// Missed says whether that action was not answered.
func (s Surroundings) Missed(action string) bool {
	for _, n := range s.NotRead {
		if n.Action == action {
			return true
		}
	}
	return false
}

// Quota returns the quota of that code.
func (s Surroundings) Quota(code string) (VCPUQuota, bool) {
	for _, q := range s.Quotas {
		if q.Code == code {
			return q, true
		}
	}
	return VCPUQuota{}, false
}

// quotaCodes are the codes of EC2's vCPU quotas by class of families, on-demand and spot; empty where EC2 has none, or none for
// spot (Service Quotas, service ec2; "Amazon EC2 instance type quotas" in the EC2 user guide).
var quotaCodes = map[string][2]string{
	"standard": {"L-1216C47A", "L-34B43A08"},
	"g":        {"L-DB2E81BA", "L-3819A6DF"}, // G and VT
	"p":        {"L-417A185B", "L-7212CCBC"},
	"p5":       {"L-417A185B", "L-C4BD4855"}, // of the newer P families spot alone has a quota of its own
	"f":        {"L-74FC7D96", "L-88CF9481"},
	"inf":      {"L-1945791B", "L-B5D1601B"},
	"trn":      {"L-2C3B7624", "L-6B0D517C"},
	"dl":       {"L-6E869C2A", "L-85EED4F7"},
	"x":        {"L-7295265B", "L-E3A00192"},
	"u":        {"L-43DA4232", ""}, // High Memory
	"hpc":      {"L-F7808C92", ""},
}

// QuotaCode is the code of the quota that counts the vCPUs of instances of that type; empty where no quota is known to.
func QuotaCode(instanceType string, spot bool) string {
	codes := quotaCodes[quotaClass(instanceType)]
	if spot {
		return codes[1]
	}
	return codes[0]
}

// quotaClass goes by the letters that a family's name begins with: g5.xlarge, inf2.xlarge, u-6tb1.metal.
func quotaClass(instanceType string) string {
	letters := strings.IndexFunc(instanceType, func(r rune) bool { return r < 'a' || r > 'z' })
	if letters < 1 {
		return ""
	}
	switch name := instanceType[:letters]; name {
	case "a", "c", "d", "h", "i", "is", "im", "m", "r", "t", "z":
		return "standard"
	case "g", "gr", "vt":
		return "g"
	case "p":
		if strings.HasPrefix(instanceType, "p5") || strings.HasPrefix(instanceType, "p6") {
			return "p5"
		}
		return name
	default:
		return name
	}
}
