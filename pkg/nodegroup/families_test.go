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
