package awssim

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

//go:embed instancetypes.json
var instanceTypesJSON []byte

// instanceType is what EC2 and its price list say of an instance type.
type instanceType struct {
	Info       types.InstanceTypeInfo `json:"info"`
	USDPerHour float64                `json:"usdPerHour"` // on demand, Linux, us-east-1
}

var instanceTypes = sync.OnceValues(func() ([]instanceType, error) {
	var file struct {
		Types []instanceType `json:"types"`
	}
	if err := json.Unmarshal(instanceTypesJSON, &file); err != nil {
		return nil, fmt.Errorf("reading instancetypes.json: %w", err)
	}
	return file.Types, nil
})

// findInstanceType returns a type by its name; it must not be changed.
func findInstanceType(name string) (instanceType, bool) {
	all, _ := instanceTypes() // a test reads the embedded file: it parses
	for _, t := range all {
		if string(t.Info.InstanceType) == name {
			return t, true
		}
	}
	return instanceType{}, false
}

func (t instanceType) vCPUs() int32 {
	if t.Info.VCpuInfo == nil {
		return 0
	}
	return aws.ToInt32(t.Info.VCpuInfo.DefaultVCpus)
}

func (t instanceType) memoryMiB() int64 {
	if t.Info.MemoryInfo == nil {
		return 0
	}
	return aws.ToInt64(t.Info.MemoryInfo.SizeInMiB)
}

// maxPods is how many pods the VPC CNI can give addresses to: every interface keeps its first address, and two pods
// use the host's network (https://github.com/awslabs/amazon-eks-ami, eni-max-pods.txt).
func (t instanceType) maxPods() int64 {
	if t.Info.NetworkInfo == nil {
		return 110
	}
	n := t.Info.NetworkInfo
	return int64(aws.ToInt32(n.MaximumNetworkInterfaces))*(int64(aws.ToInt32(n.Ipv4AddressesPerInterface))-1) + 2
}

// architecture of the type: x86_64 or arm64.
func (t instanceType) architecture() types.ArchitectureType {
	if p := t.Info.ProcessorInfo; p != nil {
		for _, a := range p.SupportedArchitectures {
			if a == types.ArchitectureTypeArm64 {
				return a
			}
		}
	}
	return types.ArchitectureTypeX8664
}
