package awssim

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

func (e *ec2Service) registerCatalog() {
	on(e.s, "ec2.DescribeInstanceTypes", e.describeInstanceTypes)
	on(e.s, "ec2.DescribeInstanceTypeOfferings", e.describeInstanceTypeOfferings)
	on(e.s, "ec2.DescribeSpotPriceHistory", e.describeSpotPriceHistory)
	on(e.s, "ec2.GetInstanceTypesFromInstanceRequirements", e.getInstanceTypesFromInstanceRequirements)
}

var instanceTypeFilters = filterable[instanceType]{values: map[string]func(*instanceType) []string{
	"instance-type":                 func(t *instanceType) []string { return []string{string(t.Info.InstanceType)} },
	"supported-virtualization-type": func(t *instanceType) []string { return texts(t.Info.SupportedVirtualizationTypes) },
	"supported-usage-class":         func(t *instanceType) []string { return texts(t.Info.SupportedUsageClasses) },
	"current-generation":            func(t *instanceType) []string { return boolText(t.Info.CurrentGeneration) },
	"bare-metal":                    func(t *instanceType) []string { return boolText(t.Info.BareMetal) },
	"burstable-performance-supported": func(t *instanceType) []string {
		return boolText(t.Info.BurstablePerformanceSupported)
	},
	"processor-info.supported-architecture": func(t *instanceType) []string {
		if t.Info.ProcessorInfo == nil {
			return nil
		}
		return texts(t.Info.ProcessorInfo.SupportedArchitectures)
	},
	"vcpu-info.default-vcpus": func(t *instanceType) []string { return []string{strconv.Itoa(int(t.vCPUs()))} },
	"memory-info.size-in-mib": func(t *instanceType) []string { return []string{fmt.Sprint(t.memoryMiB())} },
}}

func texts[S ~string](list []S) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = string(s)
	}
	return out
}

func boolText(b *bool) []string { return []string{strconv.FormatBool(aws.ToBool(b))} }

// catalog lists the instance types named (each must exist) or all, narrowed by filters.
func catalog(names []types.InstanceType, filters []types.Filter) ([]instanceType, error) {
	all, err := instanceTypes()
	if err != nil {
		return nil, err
	}
	match, err := instanceTypeFilters.matcher(filters)
	if err != nil {
		return nil, err
	}
	for _, n := range names {
		if _, ok := findInstanceType(string(n)); !ok {
			return nil, errorf("InvalidInstanceType", "The following supplied instance types do not exist: [%s]", n)
		}
	}
	var out []instanceType
	for _, t := range all {
		if (len(names) == 0 || slices.Contains(names, t.Info.InstanceType)) && match(&t) {
			out = append(out, t)
		}
	}
	return out, nil
}

func (e *ec2Service) describeInstanceTypes(_ *call, in *ec2.DescribeInstanceTypesInput) (*ec2.DescribeInstanceTypesOutput, error) {
	rows, next, err := paged(e.s, in.NextToken, pageSize(in.MaxResults, 100), func() ([]instanceType, error) { return catalog(in.InstanceTypes, in.Filters) })
	out := &ec2.DescribeInstanceTypesOutput{NextToken: next}
	for _, t := range rows {
		out.InstanceTypes = append(out.InstanceTypes, t.Info)
	}
	return out, err
}

// pageSize is the page size asked for, or the one that the service uses by itself.
func pageSize(asked *int32, byDefault int32) int32 {
	if n := aws.ToInt32(asked); n > 0 {
		return n
	}
	return byDefault
}

var offeringFilters = filterable[types.InstanceTypeOffering]{values: map[string]func(*types.InstanceTypeOffering) []string{
	"instance-type": func(o *types.InstanceTypeOffering) []string { return []string{string(o.InstanceType)} },
	"location":      func(o *types.InstanceTypeOffering) []string { return one(o.Location) },
}}

// describeInstanceTypeOfferings offers every type in every zone.
func (e *ec2Service) describeInstanceTypeOfferings(_ *call, in *ec2.DescribeInstanceTypeOfferingsInput) (*ec2.DescribeInstanceTypeOfferingsOutput, error) {
	rows, next, err := paged(e.s, in.NextToken, pageSize(in.MaxResults, 1000), func() ([]types.InstanceTypeOffering, error) {
		match, err := offeringFilters.matcher(in.Filters)
		if err != nil {
			return nil, err
		}
		all, err := instanceTypes()
		var rows []types.InstanceTypeOffering
		for _, t := range all {
			for _, location := range e.locations(in.LocationType) {
				o := types.InstanceTypeOffering{InstanceType: t.Info.InstanceType, Location: aws.String(location), LocationType: in.LocationType}
				if match(&o) {
					rows = append(rows, o)
				}
			}
		}
		return rows, err
	})
	return &ec2.DescribeInstanceTypeOfferingsOutput{InstanceTypeOfferings: rows, NextToken: next}, err
}

func (e *ec2Service) locations(of types.LocationType) []string {
	switch of {
	case types.LocationTypeAvailabilityZone:
		return e.zones()
	case types.LocationTypeAvailabilityZoneId:
		ids := e.zones()
		for i, z := range ids {
			ids[i] = e.zoneID(z)
		}
		return ids
	default:
		return []string{e.s.options.Region}
	}
}

func (e *ec2Service) describeSpotPriceHistory(_ *call, in *ec2.DescribeSpotPriceHistoryInput) (*ec2.DescribeSpotPriceHistoryOutput, error) {
	rows, next, err := paged(e.s, in.NextToken, pageSize(in.MaxResults, 1000), func() ([]types.SpotPrice, error) {
		all, err := catalog(in.InstanceTypes, nil)
		var rows []types.SpotPrice
		for _, t := range all {
			for _, z := range e.zones() {
				if in.AvailabilityZone == nil || *in.AvailabilityZone == z {
					rows = append(rows, types.SpotPrice{
						InstanceType: t.Info.InstanceType, AvailabilityZone: aws.String(z), AvailabilityZoneId: aws.String(e.zoneID(z)), Timestamp: aws.Time(e.s.now().UTC()),
						ProductDescription: types.RIProductDescriptionLinuxUnix, SpotPrice: aws.String(fmt.Sprintf("%.6f", e.price(t, z, true))),
					})
				}
			}
		}
		return rows, err
	})
	return &ec2.DescribeSpotPriceHistoryOutput{SpotPriceHistory: rows, NextToken: next}, err
}

func (e *ec2Service) getInstanceTypesFromInstanceRequirements(_ *call, in *ec2.GetInstanceTypesFromInstanceRequirementsInput) (*ec2.GetInstanceTypesFromInstanceRequirementsOutput, error) {
	if in.InstanceRequirements == nil {
		return nil, errorf("MissingParameter", "The request must contain the parameter InstanceRequirements")
	}
	need := convert[types.InstanceRequirements](in.InstanceRequirements)
	rows, next, err := paged(e.s, in.NextToken, pageSize(in.MaxResults, 1000), func() ([]types.InstanceTypeInfoFromInstanceRequirements, error) {
		all, err := instanceTypes()
		var rows []types.InstanceTypeInfoFromInstanceRequirements
		for _, t := range all {
			if len(in.ArchitectureTypes) > 0 && !slices.Contains(in.ArchitectureTypes, t.architecture()) {
				continue
			}
			if t.meets(need) {
				rows = append(rows, types.InstanceTypeInfoFromInstanceRequirements{InstanceType: aws.String(string(t.Info.InstanceType))})
			}
		}
		return rows, err
	})
	return &ec2.GetInstanceTypesFromInstanceRequirementsOutput{InstanceTypes: rows, NextToken: next}, err
}

// meets says whether a type satisfies attribute-based requirements. What it leaves out: EBS and network bandwidth,
// local storage size, accelerator details, baseline performance and the price protection.
func (t instanceType) meets(r types.InstanceRequirements) bool {
	name := string(t.Info.InstanceType)
	if r.VCpuCount != nil && !within(int64(t.vCPUs()), toInt64(r.VCpuCount.Min), toInt64(r.VCpuCount.Max)) {
		return false
	}
	if r.MemoryMiB != nil && !within(t.memoryMiB(), toInt64(r.MemoryMiB.Min), toInt64(r.MemoryMiB.Max)) {
		return false
	}
	if len(r.AllowedInstanceTypes) > 0 && !matchesAny(r.AllowedInstanceTypes, []string{name}) || matchesAny(r.ExcludedInstanceTypes, []string{name}) {
		return false
	}
	if r.MemoryGiBPerVCpu != nil && t.vCPUs() > 0 {
		ratio := float64(t.memoryMiB()) / 1024 / float64(t.vCPUs())
		if ratio < aws.ToFloat64(r.MemoryGiBPerVCpu.Min) || r.MemoryGiBPerVCpu.Max != nil && ratio > *r.MemoryGiBPerVCpu.Max {
			return false
		}
	}
	return t.meetsKinds(r)
}

// meetsKinds checks what a type is rather than how much it has. Bare metal, burstable and accelerated types are left
// out unless asked for, as EC2 does.
func (t instanceType) meetsKinds(r types.InstanceRequirements) bool {
	generation := types.InstanceGenerationPrevious
	if aws.ToBool(t.Info.CurrentGeneration) {
		generation = types.InstanceGenerationCurrent
	}
	return wanted(string(r.BareMetal), aws.ToBool(t.Info.BareMetal)) &&
		wanted(string(r.BurstablePerformance), aws.ToBool(t.Info.BurstablePerformanceSupported)) &&
		(r.LocalStorage == "" || wanted(string(r.LocalStorage), aws.ToBool(t.Info.InstanceStorageSupported))) &&
		(len(r.InstanceGenerations) == 0 || slices.Contains(r.InstanceGenerations, generation)) &&
		(len(r.CpuManufacturers) == 0 || slices.Contains(r.CpuManufacturers, t.manufacturer())) &&
		t.meetsAccelerators(r.AcceleratorCount)
}

func (t instanceType) meetsAccelerators(count *types.AcceleratorCount) bool {
	if t.Info.GpuInfo == nil {
		return count == nil || aws.ToInt32(count.Min) == 0
	}
	return count != nil && (count.Max == nil || *count.Max > 0)
}

func (t instanceType) manufacturer() types.CpuManufacturer {
	if t.Info.ProcessorInfo == nil {
		return ""
	}
	switch aws.ToString(t.Info.ProcessorInfo.Manufacturer) {
	case "Intel":
		return types.CpuManufacturerIntel
	case "AMD":
		return types.CpuManufacturerAmd
	default:
		return types.CpuManufacturerAmazonWebServices
	}
}

// wanted reads included, required or excluded (the default).
func wanted(rule string, is bool) bool {
	switch rule {
	case "included":
		return true
	case "required":
		return is
	default:
		return !is
	}
}

func toInt64(n *int32) *int64 {
	if n == nil {
		return nil
	}
	return aws.Int64(int64(*n))
}

func within(n int64, low, high *int64) bool {
	return n >= aws.ToInt64(low) && (high == nil || n <= *high)
}
