package nodegroup

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/google/go-cmp/cmp"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// fakeASG answers with what it is given, a page at a time; a method that no test gave an answer panics.
type fakeASG struct {
	AutoScalingAPI
	pages      [][]astypes.AutoScalingGroup
	config     *astypes.LaunchConfiguration
	activities []astypes.Activity
	names      [][]string // asked for by name, a call each
	ended      [][]string
	failed     []astypes.FailedScheduledUpdateGroupActionRequest
	actions    []astypes.ScheduledUpdateGroupAction
}

func (f *fakeASG) DescribeAutoScalingGroups(_ context.Context, in *autoscaling.DescribeAutoScalingGroupsInput, _ ...func(*autoscaling.Options)) (*autoscaling.DescribeAutoScalingGroupsOutput, error) {
	if len(in.AutoScalingGroupNames) > 0 {
		f.names = append(f.names, in.AutoScalingGroupNames)
		out := &autoscaling.DescribeAutoScalingGroupsOutput{}
		for _, n := range in.AutoScalingGroupNames {
			out.AutoScalingGroups = append(out.AutoScalingGroups, astypes.AutoScalingGroup{AutoScalingGroupName: aws.String(n)})
		}
		return out, nil
	}
	page := 0
	if in.NextToken != nil {
		if _, err := fmt.Sscan(*in.NextToken, &page); err != nil {
			return nil, err
		}
	}
	out := &autoscaling.DescribeAutoScalingGroupsOutput{}
	if page < len(f.pages) {
		out.AutoScalingGroups = f.pages[page]
	}
	if page+1 < len(f.pages) {
		out.NextToken = aws.String(fmt.Sprint(page + 1))
	}
	return out, nil
}

func (f *fakeASG) DescribePolicies(context.Context, *autoscaling.DescribePoliciesInput, ...func(*autoscaling.Options)) (*autoscaling.DescribePoliciesOutput, error) {
	return &autoscaling.DescribePoliciesOutput{ScalingPolicies: []astypes.ScalingPolicy{{}}}, nil
}

func (f *fakeASG) DescribeScheduledActions(context.Context, *autoscaling.DescribeScheduledActionsInput, ...func(*autoscaling.Options)) (*autoscaling.DescribeScheduledActionsOutput, error) {
	return &autoscaling.DescribeScheduledActionsOutput{ScheduledUpdateGroupActions: f.actions}, nil
}

func (f *fakeASG) DescribeLifecycleHooks(context.Context, *autoscaling.DescribeLifecycleHooksInput, ...func(*autoscaling.Options)) (*autoscaling.DescribeLifecycleHooksOutput, error) {
	return &autoscaling.DescribeLifecycleHooksOutput{LifecycleHooks: []astypes.LifecycleHook{{}}}, nil
}

func (f *fakeASG) DescribeInstanceRefreshes(context.Context, *autoscaling.DescribeInstanceRefreshesInput, ...func(*autoscaling.Options)) (*autoscaling.DescribeInstanceRefreshesOutput, error) {
	return &autoscaling.DescribeInstanceRefreshesOutput{}, nil
}

func (f *fakeASG) DescribeScalingActivities(context.Context, *autoscaling.DescribeScalingActivitiesInput, ...func(*autoscaling.Options)) (*autoscaling.DescribeScalingActivitiesOutput, error) {
	return &autoscaling.DescribeScalingActivitiesOutput{Activities: f.activities}, nil
}

func (f *fakeASG) DescribeLaunchConfigurations(context.Context, *autoscaling.DescribeLaunchConfigurationsInput, ...func(*autoscaling.Options)) (*autoscaling.DescribeLaunchConfigurationsOutput, error) {
	out := &autoscaling.DescribeLaunchConfigurationsOutput{}
	if f.config != nil {
		out.LaunchConfigurations = append(out.LaunchConfigurations, *f.config)
	}
	return out, nil
}

func (f *fakeASG) TerminateInstanceInAutoScalingGroup(_ context.Context, in *autoscaling.TerminateInstanceInAutoScalingGroupInput, _ ...func(*autoscaling.Options)) (*autoscaling.TerminateInstanceInAutoScalingGroupOutput, error) {
	f.ended = append(f.ended, in.InstanceIds)
	return &autoscaling.TerminateInstanceInAutoScalingGroupOutput{}, nil
}

func (f *fakeASG) BatchDeleteScheduledAction(context.Context, *autoscaling.BatchDeleteScheduledActionInput, ...func(*autoscaling.Options)) (*autoscaling.BatchDeleteScheduledActionOutput, error) {
	return &autoscaling.BatchDeleteScheduledActionOutput{FailedScheduledActions: f.failed}, nil
}

type fakeEKS struct {
	EKSAPI
	names   [][]string // pages
	cluster *ekstypes.Cluster
}

func (f *fakeEKS) DescribeCluster(context.Context, *eks.DescribeClusterInput, ...func(*eks.Options)) (*eks.DescribeClusterOutput, error) {
	return &eks.DescribeClusterOutput{Cluster: f.cluster}, nil
}

func (f *fakeEKS) ListNodegroups(_ context.Context, in *eks.ListNodegroupsInput, _ ...func(*eks.Options)) (*eks.ListNodegroupsOutput, error) {
	page := 0
	if in.NextToken != nil {
		page = len(*in.NextToken)
	}
	out := &eks.ListNodegroupsOutput{}
	if page < len(f.names) {
		out.Nodegroups = f.names[page]
	}
	if page+1 < len(f.names) {
		out.NextToken = aws.String("xxxxxxxx"[:page+1])
	}
	return out, nil
}

// DescribeNodegroup answers with as little as the SDK's types allow.
func (f *fakeEKS) DescribeNodegroup(_ context.Context, in *eks.DescribeNodegroupInput, _ ...func(*eks.Options)) (*eks.DescribeNodegroupOutput, error) {
	if *in.NodegroupName == "gone" {
		return nil, &ekstypes.ResourceNotFoundException{}
	}
	return &eks.DescribeNodegroupOutput{Nodegroup: &ekstypes.Nodegroup{NodegroupName: in.NodegroupName}}, nil
}

type fakeEC2 struct{ EC2API }

func (fakeEC2) DescribeLaunchTemplates(context.Context, *ec2.DescribeLaunchTemplatesInput, ...func(*ec2.Options)) (*ec2.DescribeLaunchTemplatesOutput, error) {
	return &ec2.DescribeLaunchTemplatesOutput{LaunchTemplates: []ec2types.LaunchTemplate{{}}}, nil
}

func (fakeEC2) DescribeLaunchTemplateVersions(context.Context, *ec2.DescribeLaunchTemplateVersionsInput, ...func(*ec2.Options)) (*ec2.DescribeLaunchTemplateVersionsOutput, error) {
	return &ec2.DescribeLaunchTemplateVersionsOutput{LaunchTemplateVersions: []ec2types.LaunchTemplateVersion{{}}}, nil
}

func (fakeEC2) DescribeImages(context.Context, *ec2.DescribeImagesInput, ...func(*ec2.Options)) (*ec2.DescribeImagesOutput, error) {
	return &ec2.DescribeImagesOutput{Images: []ec2types.Image{{}}}, nil
}

func (fakeEC2) DescribeSecurityGroups(context.Context, *ec2.DescribeSecurityGroupsInput, ...func(*ec2.Options)) (*ec2.DescribeSecurityGroupsOutput, error) {
	return &ec2.DescribeSecurityGroupsOutput{SecurityGroups: []ec2types.SecurityGroup{{}}}, nil
}

func (fakeEC2) DescribeInstanceTypes(context.Context, *ec2.DescribeInstanceTypesInput, ...func(*ec2.Options)) (*ec2.DescribeInstanceTypesOutput, error) {
	return &ec2.DescribeInstanceTypesOutput{InstanceTypes: []ec2types.InstanceTypeInfo{{}}}, nil
}

type fakeIAM struct {
	IAMAPI
	profile *iamtypes.InstanceProfile
}

func (f fakeIAM) GetInstanceProfile(context.Context, *iam.GetInstanceProfileInput, ...func(*iam.Options)) (*iam.GetInstanceProfileOutput, error) {
	return &iam.GetInstanceProfileOutput{InstanceProfile: f.profile}, nil
}

func names(groups []inventory.NodeGroup) (out []string) {
	for _, g := range groups {
		out = append(out, g.Name)
	}
	return out
}

func group(name string) astypes.AutoScalingGroup {
	return astypes.AutoScalingGroup{AutoScalingGroupName: aws.String(name)}
}

func TestEveryPageIsRead(t *testing.T) {
	asg := &fakeASG{pages: [][]astypes.AutoScalingGroup{{group("e"), group("a")}, {group("c")}, {group("b")}}}
	c := New(asg, &fakeEKS{names: [][]string{{"d"}, {"gone"}, {"f"}}}, fakeEC2{}, fakeIAM{}, "harbor")
	groups, err := c.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a", "b", "c", "d", "e", "f"}, names(groups)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestNamesAreAskedForInBatches(t *testing.T) {
	asg := &fakeASG{pages: [][]astypes.AutoScalingGroup{{group("g000")}}}
	var also []string
	for i := range 120 {
		also = append(also, fmt.Sprintf("g%03d", i), fmt.Sprintf("g%03d", i))
	}
	groups, err := New(asg, &fakeEKS{}, fakeEC2{}, fakeIAM{}, "harbor").List(t.Context(), also...)
	if err != nil {
		t.Fatal(err)
	}
	var sizes []int
	for _, n := range asg.names {
		sizes = append(sizes, len(n))
	}
	if diff := cmp.Diff([]int{50, 50, 19}, sizes); diff != "" || len(groups) != 120 {
		t.Errorf("%d groups, names a call: -want +got\n%s", len(groups), diff)
	}
}

// AWS may leave out whatever its model does not require, and castoff must not panic on it.
func TestAnswersWithNothingInThem(t *testing.T) {
	spec := &astypes.LaunchTemplateSpecification{}
	cases := map[string]struct {
		reason string
		group  astypes.AutoScalingGroup
	}{
		"name alone":        {"no other member, and a group without even a name", astypes.AutoScalingGroup{}},
		"instance":          {"an instance without an ID", astypes.AutoScalingGroup{Instances: []astypes.Instance{{}}, Tags: []astypes.TagDescription{{}}, SuspendedProcesses: []astypes.SuspendedProcess{{}}}},
		"template":          {"a template without a name", astypes.AutoScalingGroup{LaunchTemplate: spec}},
		"template by ID":    {"a template that Describe does not return", astypes.AutoScalingGroup{LaunchTemplate: &astypes.LaunchTemplateSpecification{LaunchTemplateId: aws.String("lt-1"), Version: aws.String("$Latest")}}},
		"template's number": {"a version without contents", astypes.AutoScalingGroup{LaunchTemplate: &astypes.LaunchTemplateSpecification{LaunchTemplateId: aws.String("lt-1"), Version: aws.String("7")}}},
		"policy":            {"a mixed instances policy without a template", astypes.AutoScalingGroup{MixedInstancesPolicy: &astypes.MixedInstancesPolicy{}}},
		"policy's template": {"a mixed instances policy's template without a specification", astypes.AutoScalingGroup{MixedInstancesPolicy: &astypes.MixedInstancesPolicy{LaunchTemplate: &astypes.LaunchTemplate{Overrides: []astypes.LaunchTemplateOverrides{{}}}, InstancesDistribution: &astypes.InstancesDistribution{}}}},
		"configuration":     {"a launch configuration that is gone", astypes.AutoScalingGroup{LaunchConfigurationName: aws.String("old"), DesiredCapacity: aws.Int32(3)}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.group.AutoScalingGroupName = aws.String("g")
			c := New(&fakeASG{pages: [][]astypes.AutoScalingGroup{{tc.group, {}}}, activities: []astypes.Activity{{}}, actions: []astypes.ScheduledUpdateGroupAction{{}}}, &fakeEKS{names: [][]string{{"bare"}}}, fakeEC2{}, fakeIAM{}, "harbor")
			groups, err := c.List(t.Context())
			if err != nil || len(groups) != 2 {
				t.Errorf("%s: %d groups, error %v; want 2 and none", tc.reason, len(groups), err)
			}
		})
	}
}

func TestClusterWithNothingInIt(t *testing.T) {
	c := New(&fakeASG{}, &fakeEKS{}, fakeEC2{}, fakeIAM{}, "harbor")
	if _, err := c.Cluster(t.Context()); err == nil {
		t.Error("no cluster in the answer gives no error")
	}
	c = New(&fakeASG{}, &fakeEKS{cluster: &ekstypes.Cluster{}}, fakeEC2{}, fakeIAM{}, "harbor")
	if _, err := c.Cluster(t.Context()); err == nil {
		t.Error("a cluster without an ARN gives no error")
	}
	c = New(&fakeASG{}, &fakeEKS{cluster: &ekstypes.Cluster{
		Arn: aws.String("arn:aws-cn:eks:cn-north-1:1:cluster/harbor"), ComputeConfig: &ekstypes.ComputeConfigResponse{Enabled: aws.Bool(true)},
		KubernetesNetworkConfig: &ekstypes.KubernetesNetworkConfigResponse{IpFamily: ekstypes.IpFamilyIpv6, ServiceIpv6Cidr: aws.String("fd00::/108")},
	}}, fakeEC2{}, fakeIAM{}, "harbor")
	got, err := c.Cluster(t.Context())
	want := inventory.Cluster{ARN: "arn:aws-cn:eks:cn-north-1:1:cluster/harbor", Account: "1", Region: "cn-north-1", Partition: "aws-cn", ServiceCIDR: "fd00::/108", AuthenticationMode: "CONFIG_MAP", AutoMode: true}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("error %v, -want +got\n%s", err, diff)
	}
}

func TestInstancesEndAHundredAtATime(t *testing.T) {
	asg := &fakeASG{}
	var ids []string
	for i := range 230 {
		ids = append(ids, fmt.Sprintf("i-%03d", i))
	}
	c := New(asg, &fakeEKS{}, fakeEC2{}, fakeIAM{}, "harbor")
	if err := c.EndInstances(t.Context(), "g", ids); err != nil {
		t.Fatal(err)
	}
	if err := c.EndInstances(t.Context(), "g", nil); err != nil {
		t.Fatal(err)
	}
	if len(asg.ended) != 3 || len(asg.ended[2]) != 30 || !slices.Equal(slices.Concat(asg.ended...), ids) {
		t.Errorf("%d calls, want 3 of 100, 100 and 30 with every ID once", len(asg.ended))
	}
}

func TestScheduledActionThatIsRefused(t *testing.T) {
	failed := []astypes.FailedScheduledUpdateGroupActionRequest{{ScheduledActionName: aws.String("stuck"), ErrorCode: aws.String("ResourceContention")}, {ScheduledActionName: aws.String("gone"), ErrorCode: aws.String("ValidationError")}}
	asg := &fakeASG{failed: failed, actions: []astypes.ScheduledUpdateGroupAction{{ScheduledActionName: aws.String("stuck")}}}
	err := New(asg, &fakeEKS{}, fakeEC2{}, fakeIAM{}, "harbor").DeleteScheduledActions(t.Context(), "g", []string{"stuck", "gone"})
	want := "scheduled actions of Auto Scaling group g: autoscaling:BatchDeleteScheduledAction left stuck (ResourceContention: ), it is tried again"
	if err == nil || err.Error() != want {
		t.Errorf("error is %v, want %s", err, want)
	}
}

func TestLaunchConfiguration(t *testing.T) {
	asg := &fakeASG{pages: [][]astypes.AutoScalingGroup{{{AutoScalingGroupName: aws.String("old"), LaunchConfigurationName: aws.String("old-1")}}}, config: &astypes.LaunchConfiguration{
		LaunchConfigurationName: aws.String("old-1"), InstanceType: aws.String("m4.large"), ImageId: aws.String("ami-1"), SpotPrice: aws.String("0.1"), KernelId: aws.String("aki-1"), SecurityGroups: []string{"sg-1"},
		IamInstanceProfile: aws.String("arn:aws:iam::1:instance-profile/path/nodes"), InstanceMonitoring: &astypes.InstanceMonitoring{Enabled: aws.Bool(true)}, UserData: aws.String("aGVsbG8="),
		MetadataOptions:     &astypes.InstanceMetadataOptions{HttpTokens: astypes.InstanceMetadataHttpTokensStateRequired, HttpPutResponseHopLimit: aws.Int32(1)},
		BlockDeviceMappings: []astypes.BlockDeviceMapping{{DeviceName: aws.String("/dev/xvda"), Ebs: &astypes.Ebs{VolumeSize: aws.Int32(20), VolumeType: aws.String("gp2")}}, {DeviceName: aws.String("/dev/sdb"), VirtualName: aws.String("ephemeral0")}},
	}}
	c := New(asg, &fakeEKS{}, fakeEC2{}, fakeIAM{profile: &iamtypes.InstanceProfile{Roles: []iamtypes.Role{{RoleName: aws.String("node")}}}}, "harbor")
	for range 2 {
		groups, err := c.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		want := inventory.LaunchTemplate{
			Configuration: "old-1", InstanceType: "m4.large", ImageID: "ami-1", Spot: true, SecurityGroups: []string{"sg-1"}, InstanceProfile: "nodes", Role: "node",
			DetailedMonitoring: aws.Bool(true), UserData: "hello", UserDataSHA256: "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824",
			Metadata: &inventory.Metadata{HopLimit: 1, Tokens: "required"}, Other: []string{"kernelId"},
			BlockDevices: []inventory.BlockDevice{{DeviceName: "/dev/xvda", SizeGiB: 20, Type: "gp2"}, {DeviceName: "/dev/sdb", Virtual: "ephemeral0"}},
		}
		if diff := cmp.Diff(want, groups[0].LaunchTemplate); diff != "" {
			t.Errorf("-want +got\n%s", diff)
		}
	}
}
