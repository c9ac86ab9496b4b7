package awsapi

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

func TestInstanceType(t *testing.T) {
	cases := map[string]struct {
		reason string
		in     ec2types.InstanceTypeInfo
		want   inventory.InstanceType
	}{
		"Sizes": {
			reason: "what a NodePool's limits are made of",
			in: ec2types.InstanceTypeInfo{
				InstanceType: "m6g.large", VCpuInfo: &ec2types.VCpuInfo{DefaultVCpus: aws.Int32(2)}, MemoryInfo: &ec2types.MemoryInfo{SizeInMiB: aws.Int64(8192)},
				ProcessorInfo: &ec2types.ProcessorInfo{SupportedArchitectures: []ec2types.ArchitectureType{ec2types.ArchitectureTypeArm64}},
			},
			want: inventory.InstanceType{Name: "m6g.large", Architecture: "arm64", VCPUs: 2, MemoryMiB: 8192},
		},
		"Nothing": {
			reason: "an answer without members is no reason to panic",
			in:     ec2types.InstanceTypeInfo{},
			want:   inventory.InstanceType{Architecture: "amd64"},
		},
		"Empty": {
			reason: "nor are members without members",
			in: ec2types.InstanceTypeInfo{
				InstanceStorageInfo: &ec2types.InstanceStorageInfo{}, NetworkInfo: &ec2types.NetworkInfo{NetworkCards: []ec2types.NetworkCardInfo{{}}},
				GpuInfo: &ec2types.GpuInfo{}, FpgaInfo: &ec2types.FpgaInfo{}, NeuronInfo: &ec2types.NeuronInfo{}, MediaAcceleratorInfo: &ec2types.MediaAcceleratorInfo{},
			},
			want: inventory.InstanceType{Architecture: "amd64"},
		},
		"StorageAndNetwork": {
			reason: "the bandwidth of all cards together, without bursts",
			in: ec2types.InstanceTypeInfo{
				InstanceType: "p4d.24xlarge", InstanceStorageInfo: &ec2types.InstanceStorageInfo{TotalSizeInGB: aws.Int64(8000)},
				NetworkInfo: &ec2types.NetworkInfo{EfaSupported: aws.Bool(true), MaximumNetworkCards: aws.Int32(2), MaximumNetworkInterfaces: aws.Int32(30), Ipv4AddressesPerInterface: aws.Int32(50),
					NetworkCards: []ec2types.NetworkCardInfo{
						{BaselineBandwidthInGbps: aws.Float64(100), MaximumNetworkInterfaces: aws.Int32(15)},
						{NetworkCardIndex: aws.Int32(1), BaselineBandwidthInGbps: aws.Float64(100), PeakBandwidthInGbps: aws.Float64(400), MaximumNetworkInterfaces: aws.Int32(14)},
					}},
			},
			want: inventory.InstanceType{
				Name: "p4d.24xlarge", Architecture: "amd64", LocalStorageGB: 8000, EFA: true, NetworkCards: 2, BandwidthMbps: 200000, Interfaces: 15, AddressesPerInterface: 50, MaxPods: 737,
			},
		},
		"GPUs": {
			reason: "by maker and name: four of another kind are not the same",
			in:     ec2types.InstanceTypeInfo{GpuInfo: &ec2types.GpuInfo{Gpus: []ec2types.GpuDeviceInfo{{Manufacturer: aws.String("NVIDIA"), Name: aws.String("T4"), Count: aws.Int32(4)}}}},
			want:   inventory.InstanceType{Architecture: "amd64", Accelerators: map[string]int64{"NVIDIA T4": 4}},
		},
		"Inferentia": {
			reason: "EC2 tells of the same chips twice",
			in: ec2types.InstanceTypeInfo{
				NeuronInfo:               &ec2types.NeuronInfo{NeuronDevices: []ec2types.NeuronDeviceInfo{{Name: aws.String("Inferentia"), Count: aws.Int32(1)}}},
				InferenceAcceleratorInfo: &ec2types.InferenceAcceleratorInfo{Accelerators: []ec2types.InferenceDeviceInfo{{Manufacturer: aws.String("AWS"), Name: aws.String("Inferentia"), Count: aws.Int32(1)}}},
			},
			want: inventory.InstanceType{Architecture: "amd64", Accelerators: map[string]int64{"Neuron Inferentia": 1}},
		},
		"OthersAndOlder": {
			reason: "whatever it is that the pods were given",
			in: ec2types.InstanceTypeInfo{
				FpgaInfo:                 &ec2types.FpgaInfo{Fpgas: []ec2types.FpgaDeviceInfo{{Manufacturer: aws.String("Xilinx"), Name: aws.String("VU9P"), Count: aws.Int32(1)}}},
				MediaAcceleratorInfo:     &ec2types.MediaAcceleratorInfo{Accelerators: []ec2types.MediaDeviceInfo{{Manufacturer: aws.String("Xilinx"), Name: aws.String("U30"), Count: aws.Int32(2)}}},
				InferenceAcceleratorInfo: &ec2types.InferenceAcceleratorInfo{Accelerators: []ec2types.InferenceDeviceInfo{{Count: aws.Int32(1)}}},
			},
			want: inventory.InstanceType{Architecture: "amd64", Accelerators: map[string]int64{"Xilinx VU9P": 1, "Xilinx U30": 2, "": 1}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, InstanceType(tc.in)); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}
