package awsapi

import (
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// InstanceType is what EC2 says of an instance type in castoff's words, without prices.
func InstanceType(in ec2types.InstanceTypeInfo) inventory.InstanceType {
	out := inventory.InstanceType{Name: string(in.InstanceType), Architecture: "amd64", Accelerators: accelerators(in)}
	if v := in.VCpuInfo; v != nil {
		out.VCPUs = int64(aws.ToInt32(v.DefaultVCpus))
	}
	if m := in.MemoryInfo; m != nil {
		out.MemoryMiB = aws.ToInt64(m.SizeInMiB)
	}
	if p := in.ProcessorInfo; p != nil && slices.Contains(p.SupportedArchitectures, ec2types.ArchitectureTypeArm64) {
		out.Architecture = "arm64"
	}
	if s := in.InstanceStorageInfo; s != nil {
		out.LocalStorageGB = aws.ToInt64(s.TotalSizeInGB)
	}
	if n := in.NetworkInfo; n != nil {
		out.EFA, out.NetworkCards = aws.ToBool(n.EfaSupported), int64(aws.ToInt32(n.MaximumNetworkCards))
		out.Interfaces, out.AddressesPerInterface = int64(aws.ToInt32(n.MaximumNetworkInterfaces)), int64(aws.ToInt32(n.Ipv4AddressesPerInterface))
		for _, card := range n.NetworkCards {
			out.BandwidthMbps += int64(1000 * aws.ToFloat64(card.BaselineBandwidthInGbps))
			if card.MaximumNetworkInterfaces != nil && aws.ToInt32(card.NetworkCardIndex) == aws.ToInt32(n.DefaultNetworkCardIndex) {
				out.Interfaces = int64(*card.MaximumNetworkInterfaces)
			}
		}
	}
	out.MaxPods = out.Pods(0)
	return out
}

// accelerators counts devices of every kind; nil for a type without any.
func accelerators(in ec2types.InstanceTypeInfo) map[string]int64 {
	out := map[string]int64{}
	add := func(maker, name *string, count *int32) {
		out[strings.TrimSpace(aws.ToString(maker)+" "+aws.ToString(name))] += int64(aws.ToInt32(count))
	}
	if g := in.GpuInfo; g != nil {
		for _, d := range g.Gpus {
			add(d.Manufacturer, d.Name, d.Count)
		}
	}
	if n := in.NeuronInfo; n != nil {
		for _, d := range n.NeuronDevices {
			add(aws.String("Neuron"), d.Name, d.Count)
		}
	}
	if a := in.InferenceAcceleratorInfo; a != nil && in.NeuronInfo == nil { // the same devices, by their older name
		for _, d := range a.Accelerators {
			add(d.Manufacturer, d.Name, d.Count)
		}
	}
	if f := in.FpgaInfo; f != nil {
		for _, d := range f.Fpgas {
			add(d.Manufacturer, d.Name, d.Count)
		}
	}
	if m := in.MediaAcceleratorInfo; m != nil {
		for _, d := range m.Accelerators {
			add(d.Manufacturer, d.Name, d.Count)
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}
