package nodegroup

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
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
			if diff := cmp.Diff(tc.want, instanceType(tc.in)); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

// namesOf are the names of a family's types, in their order.
func namesOf(f inventory.InstanceFamily) []string {
	var out []string
	for _, t := range f.Types {
		out = append(out, t.Name)
	}
	return out
}

// The catalogue of the simulator is EC2's own.
func TestFamilies(t *testing.T) {
	l := newLab(t)
	got, err := l.port.Families(t.Context(), []string{"m5d", "m9z", "g5", "m5d"})
	if err != nil {
		t.Fatal(err)
	}
	want := [][]string{{"m5d.large"}, nil, {"g5.xlarge"}, {"m5d.large"}}
	for i, f := range got {
		if diff := cmp.Diff(want[i], namesOf(f)); diff != "" {
			t.Errorf("family %s, in the order asked for; one that EC2 does not know has no types, and m5 is not m5d: -want +got\n%s", f.Name, diff)
		}
	}
	if got[0].Types[0].LocalStorageGB != 75 || got[2].Types[0].Accelerators["NVIDIA A10G"] != 1 {
		t.Errorf("m5d.large and g5.xlarge came without their disks and GPUs: %+v, %+v", got[0].Types[0], got[2].Types[0])
	}
	if none, err := l.port.Families(t.Context(), nil); err != nil || len(none) != 0 {
		t.Errorf("no family was asked for: %v, %v", none, err)
	}
}

// countedTypes counts what is asked of EC2, and fails the first time.
type countedTypes struct {
	fakeEC2
	calls *int
}

func (c countedTypes) DescribeInstanceTypes(_ context.Context, in *ec2.DescribeInstanceTypesInput, _ ...func(*ec2.Options)) (*ec2.DescribeInstanceTypesOutput, error) {
	if *c.calls++; *c.calls == 1 {
		return nil, errors.New("connection reset")
	}
	if diff := cmp.Diff([]string{"c7i.*", "m6i.*"}, in.Filters[0].Values); diff != "" {
		return nil, errors.New(diff)
	}
	return &ec2.DescribeInstanceTypesOutput{InstanceTypes: []ec2types.InstanceTypeInfo{{InstanceType: "m6i.xlarge"}, {InstanceType: "m6i.large"}, {}}}, nil
}

func TestFamiliesAreReadOnce(t *testing.T) {
	calls := 0
	c := New(nil, nil, countedTypes{calls: &calls}, nil, "prod")
	if _, err := c.Families(t.Context(), []string{"m6i", "c7i"}); err == nil {
		t.Error("an error was lost")
	}
	for range 3 {
		got, err := c.Families(t.Context(), []string{"m6i", "c7i", "m6i"})
		if err != nil {
			t.Fatalf("after an error it is asked again, for both at once: %v", err)
		}
		if diff := cmp.Diff([]string{"m6i.large", "m6i.xlarge"}, namesOf(got[0])); diff != "" {
			t.Errorf("-want +got\n%s", diff)
		}
		got[0].Types[0].Name = "changed by the caller"
	}
	if calls != 2 {
		t.Errorf("EC2 was asked %d times: want one failure and one answer, kept for one that it does not know too", calls)
	}
}

func TestSecurityGroupsOfTheCluster(t *testing.T) {
	l := newLab(t)
	group := func(name string, keys ...string) string {
		t.Helper()
		in := &ec2.CreateSecurityGroupInput{GroupName: aws.String(name), Description: aws.String(name)}
		if len(keys) > 0 {
			spec := ec2types.TagSpecification{ResourceType: ec2types.ResourceTypeSecurityGroup}
			for _, k := range keys {
				spec.Tags = append(spec.Tags, ec2types.Tag{Key: aws.String(k), Value: aws.String("owned")})
			}
			in.TagSpecifications = []ec2types.TagSpecification{spec}
		}
		out, err := l.ec2.CreateSecurityGroup(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		return aws.ToString(out.GroupId)
	}
	id := group("tagged", "kubernetes.io/cluster/"+l.port.cluster, "team")
	group("other", "kubernetes.io/cluster/another")
	group("plain")
	got, err := l.port.SecurityGroups(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := inventory.SecurityGroup{ID: id, Name: "tagged"}
	if !slices.Contains(got, want) {
		t.Errorf("got %v, want %v among them", got, want)
	}
	for _, g := range got {
		if g.Name == "other" || g.Name == "plain" {
			t.Errorf("%v is not tagged for the cluster", g)
		}
	}
}
