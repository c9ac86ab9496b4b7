package nodegroup

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/servicequotas"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/castoff-sh/castoff/e2e/awssim"
	"github.com/castoff-sh/castoff/e2e/awssim/simapi"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// lab is a simulated AWS with cluster "harbor", and the port to it. Its clock moves by Advance only.
type lab struct {
	sim  *awssim.Server
	door *simapi.Client
	asg  *autoscaling.Client
	eks  *eks.Client
	ec2  *ec2.Client
	iam  *iam.Client
	cw   *cloudwatch.Client
	sq   *servicequotas.Client
	cfg  aws.Config
	port *Client

	subnets       []string
	image         string
	securityGroup string
}

func must[T any](t *testing.T, what string) func(T, error) T {
	t.Helper()
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		return v
	}
}

// newLab has a network, an image, node role "node" in a profile of the same name, and the cluster.
func newLab(t *testing.T) *lab {
	t.Helper()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	sim := awssim.New(awssim.Options{Now: func() time.Time { return now }, Settings: simapi.Settings{PendingDelay: time.Second, ShutdownDelay: time.Second, ScalingDelay: time.Second}})
	server := httptest.NewServer(sim)
	t.Cleanup(server.Close)
	cfg := aws.Config{
		Region: "us-east-1", BaseEndpoint: aws.String(server.URL), HTTPClient: http.DefaultClient,
		Credentials: credentials.NewStaticCredentialsProvider("castoff", "secret", ""),
		Retryer:     func() aws.Retryer { return aws.NopRetryer{} },
	}
	l := &lab{sim: sim, door: simapi.NewClient(server.URL), asg: autoscaling.NewFromConfig(cfg), eks: eks.NewFromConfig(cfg), ec2: ec2.NewFromConfig(cfg), iam: iam.NewFromConfig(cfg), cw: cloudwatch.NewFromConfig(cfg), sq: servicequotas.NewFromConfig(cfg), cfg: cfg}
	l.port = New(l.asg, l.eks, l.ec2, l.iam, "harbor").InAccount(Account{Quotas: l.sq, Usage: l.cw, Clock: func() time.Time { return now }})
	l.seed(t)
	return l
}

func (l *lab) seed(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	vpc := must[*ec2.CreateVpcOutput](t, "vpc")(l.ec2.CreateVpc(ctx, &ec2.CreateVpcInput{CidrBlock: aws.String("10.0.0.0/16")}))
	for i, zone := range []string{"us-east-1a", "us-east-1b", "us-east-1c"} {
		s := must[*ec2.CreateSubnetOutput](t, "subnet")(l.ec2.CreateSubnet(ctx, &ec2.CreateSubnetInput{
			VpcId: vpc.Vpc.VpcId, AvailabilityZone: aws.String(zone), CidrBlock: aws.String("10.0." + string(rune('0'+i)) + ".0/24"),
		}))
		l.subnets = append(l.subnets, aws.ToString(s.Subnet.SubnetId))
	}
	sg := must[*ec2.CreateSecurityGroupOutput](t, "security group")(l.ec2.CreateSecurityGroup(ctx, &ec2.CreateSecurityGroupInput{
		GroupName: aws.String("nodes"), Description: aws.String("nodes"), VpcId: vpc.Vpc.VpcId,
	}))
	l.securityGroup = aws.ToString(sg.GroupId)
	img := must[*ec2.RegisterImageOutput](t, "image")(l.ec2.RegisterImage(ctx, &ec2.RegisterImageInput{
		Name: aws.String("node-image"), Architecture: ec2types.ArchitectureValuesX8664, RootDeviceName: aws.String("/dev/xvda"),
	}))
	l.image = aws.ToString(img.ImageId)
	must[*iam.CreateRoleOutput](t, "role")(l.iam.CreateRole(ctx, &iam.CreateRoleInput{RoleName: aws.String("node"), AssumeRolePolicyDocument: aws.String("{}")}))
	must[*iam.CreateInstanceProfileOutput](t, "profile")(l.iam.CreateInstanceProfile(ctx, &iam.CreateInstanceProfileInput{InstanceProfileName: aws.String("nodes")}))
	must[*iam.AddRoleToInstanceProfileOutput](t, "profile's role")(l.iam.AddRoleToInstanceProfile(ctx, &iam.AddRoleToInstanceProfileInput{InstanceProfileName: aws.String("nodes"), RoleName: aws.String("node")}))
	must[*eks.CreateClusterOutput](t, "cluster")(l.eks.CreateCluster(ctx, &eks.CreateClusterInput{
		Name: aws.String("harbor"), Version: aws.String("1.34"), RoleArn: aws.String("arn:aws:iam::123456789012:role/cluster"),
		ResourcesVpcConfig: &ekstypes.VpcConfigRequest{SubnetIds: l.subnets},
		AccessConfig:       &ekstypes.CreateAccessConfigRequest{AuthenticationMode: ekstypes.AuthenticationModeApiAndConfigMap},
	}))
}

func (l *lab) template(t *testing.T, name string, change func(*ec2types.RequestLaunchTemplateData)) string {
	t.Helper()
	data := &ec2types.RequestLaunchTemplateData{
		ImageId: aws.String(l.image), InstanceType: ec2types.InstanceTypeM5Large, UserData: aws.String(base64.StdEncoding.EncodeToString([]byte("#!/bin/sh\n/etc/eks/bootstrap.sh harbor"))),
		SecurityGroupIds: []string{l.securityGroup}, IamInstanceProfile: &ec2types.LaunchTemplateIamInstanceProfileSpecificationRequest{Name: aws.String("nodes")},
		BlockDeviceMappings: []ec2types.LaunchTemplateBlockDeviceMappingRequest{{DeviceName: aws.String("/dev/xvda"), Ebs: &ec2types.LaunchTemplateEbsBlockDeviceRequest{VolumeSize: aws.Int32(80), VolumeType: ec2types.VolumeTypeGp3, Encrypted: aws.Bool(true)}}},
		MetadataOptions:     &ec2types.LaunchTemplateInstanceMetadataOptionsRequest{HttpTokens: ec2types.LaunchTemplateHttpTokensStateRequired, HttpPutResponseHopLimit: aws.Int32(2)},
	}
	if change != nil {
		change(data)
	}
	out := must[*ec2.CreateLaunchTemplateOutput](t, "launch template")(l.ec2.CreateLaunchTemplate(t.Context(), &ec2.CreateLaunchTemplateInput{LaunchTemplateName: aws.String(name), LaunchTemplateData: data}))
	return aws.ToString(out.LaunchTemplate.LaunchTemplateId)
}

// group makes an Auto Scaling group of 1/6/3 from a template of its own, discovered by Cluster Autoscaler.
func (l *lab) group(t *testing.T, name string, change func(*autoscaling.CreateAutoScalingGroupInput)) {
	t.Helper()
	in := &autoscaling.CreateAutoScalingGroupInput{
		AutoScalingGroupName: aws.String(name), MinSize: aws.Int32(1), MaxSize: aws.Int32(6), DesiredCapacity: aws.Int32(3),
		VPCZoneIdentifier: aws.String(strings.Join(l.subnets, ",")),
		Tags:              []astypes.Tag{{Key: aws.String("k8s.io/cluster-autoscaler/harbor"), Value: aws.String("owned"), PropagateAtLaunch: aws.Bool(true)}},
	}
	if change != nil {
		change(in)
	}
	if in.LaunchTemplate == nil && in.MixedInstancesPolicy == nil {
		in.LaunchTemplate = &astypes.LaunchTemplateSpecification{LaunchTemplateId: aws.String(l.template(t, name, nil)), Version: aws.String("$Default")}
	}
	must[*autoscaling.CreateAutoScalingGroupOutput](t, "group")(l.asg.CreateAutoScalingGroup(t.Context(), in))
	l.settle()
}

func (l *lab) nodegroup(t *testing.T, name string, change func(*eks.CreateNodegroupInput)) {
	t.Helper()
	in := &eks.CreateNodegroupInput{
		ClusterName: aws.String("harbor"), NodegroupName: aws.String(name), NodeRole: aws.String("arn:aws:iam::123456789012:role/node"),
		Subnets: l.subnets, InstanceTypes: []string{"m5.large"},
		ScalingConfig: &ekstypes.NodegroupScalingConfig{MinSize: aws.Int32(1), MaxSize: aws.Int32(5), DesiredSize: aws.Int32(2)},
	}
	if change != nil {
		change(in)
	}
	must[*eks.CreateNodegroupOutput](t, "node group")(l.eks.CreateNodegroup(t.Context(), in))
	l.settle()
}

func (l *lab) settle() {
	for range 10 {
		l.sim.Advance(time.Second)
	}
}

func (l *lab) list(t *testing.T, also ...string) map[string]inventory.NodeGroup {
	t.Helper()
	groups := must[[]inventory.NodeGroup](t, "List")(l.port.List(t.Context(), also...))
	out := map[string]inventory.NodeGroup{}
	for _, g := range groups {
		out[g.Name] = g
	}
	return out
}

func (l *lab) fault(t *testing.T, f simapi.Fault) {
	t.Helper()
	must[simapi.Fault](t, "fault")(l.door.AddFault(t.Context(), f))
}

// calls counts the requests by operation since the last one with that number.
func (l *lab) calls(t *testing.T, after int64) (map[string]int, int64) {
	t.Helper()
	count := map[string]int{}
	for _, c := range must[[]simapi.Call](t, "calls")(l.door.Calls(t.Context(), after)) {
		count[c.Service+"."+c.Operation]++
		after = c.Seq
	}
	return count, after
}

func TestClusterIsRead(t *testing.T) {
	l := newLab(t)
	got, err := l.port.Cluster(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := inventory.Cluster{
		Name: "harbor", ARN: "arn:aws:eks:us-east-1:123456789012:cluster/harbor", Account: "123456789012", Region: "us-east-1", Partition: "aws",
		Version: "1.34", Endpoint: got.Endpoint, CABundle: got.CABundle, VPC: got.VPC, ServiceCIDR: "10.100.0.0/16", SecurityGroup: got.SecurityGroup, AuthenticationMode: "API_AND_CONFIG_MAP",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if got.Endpoint == "" || !strings.HasPrefix(got.VPC, "vpc-") || !strings.HasPrefix(got.SecurityGroup, "sg-") {
		t.Errorf("endpoint %q, VPC %q, security group %q are not filled in", got.Endpoint, got.VPC, got.SecurityGroup)
	}
}

func TestClusterThatEKSDoesNotKnow(t *testing.T) {
	l := newLab(t)
	_, err := New(l.asg, l.eks, l.ec2, l.iam, "habor").Cluster(t.Context())
	if !errors.Is(err, ErrClusterNotFound) || inventory.ClassOf(err) != inventory.ClassTerminal {
		t.Errorf("error is %v (%s), want terminal ErrClusterNotFound", err, inventory.ClassOf(err))
	}
	if _, err := New(l.asg, l.eks, l.ec2, l.iam, "habor").List(t.Context()); !errors.Is(err, ErrClusterNotFound) {
		t.Errorf("List's error is %v, want ErrClusterNotFound", err)
	}
}

func TestLaunchTemplateGroupIsResolved(t *testing.T) {
	l := newLab(t)
	l.group(t, "memory", nil)
	got := l.list(t)["memory"]
	if got.InService() != 3 || got.Min != 1 || got.Max != 6 || got.Desired != 3 {
		t.Errorf("sizes %d/%d/%d with %d in service, want 1/6/3 with 3 (%s)", got.Min, got.Max, got.Desired, got.InService(), got.LaunchError)
	}
	if diff := cmp.Diff([]inventory.Tag{{Key: "k8s.io/cluster-autoscaler/harbor", Value: "owned", Propagate: true}}, got.Tags); diff != "" {
		t.Errorf("tags: -want +got\n%s", diff)
	}
	if diff := cmp.Diff([]string{"us-east-1a", "us-east-1b", "us-east-1c"}, got.Zones); diff != "" {
		t.Errorf("zones: -want +got\n%s", diff)
	}
	if diff := cmp.Diff(l.subnets, got.Subnets); diff != "" {
		t.Errorf("subnets: -want +got\n%s", diff)
	}
	want := inventory.LaunchTemplate{
		ID: got.LaunchTemplate.ID, Name: "memory", Version: "1", Asked: "$Default", InstanceType: "m5.large", ImageID: l.image,
		Image:    got.LaunchTemplate.Image,
		UserData: "#!/bin/sh\n/etc/eks/bootstrap.sh harbor", UserDataSHA256: got.LaunchTemplate.UserDataSHA256,
		SecurityGroups: []string{l.securityGroup}, InstanceProfile: "nodes", Role: "node",
		BlockDevices: []inventory.BlockDevice{{DeviceName: "/dev/xvda", SizeGiB: 80, Type: "gp3", Encrypted: aws.Bool(true)}},
		Metadata:     &inventory.Metadata{HopLimit: 2, Tokens: "required"},
	}
	if diff := cmp.Diff(want, got.LaunchTemplate); diff != "" {
		t.Errorf("launch template: -want +got\n%s", diff)
	}
	if i := got.LaunchTemplate.Image; i == nil || i.Name != "node-image" || i.Architecture != "x86_64" {
		t.Errorf("image is %+v", i)
	}
	if len(got.LaunchTemplate.UserDataSHA256) != 64 {
		t.Errorf("digest of the user data is %q", got.LaunchTemplate.UserDataSHA256)
	}
}

func TestMovingTemplateVersions(t *testing.T) {
	l := newLab(t)
	id := l.template(t, "nodes", nil)
	must[*ec2.CreateLaunchTemplateVersionOutput](t, "version")(l.ec2.CreateLaunchTemplateVersion(t.Context(), &ec2.CreateLaunchTemplateVersionInput{
		LaunchTemplateId: aws.String(id), SourceVersion: aws.String("1"), LaunchTemplateData: &ec2types.RequestLaunchTemplateData{InstanceType: ec2types.InstanceTypeM5Xlarge},
	}))
	for name, version := range map[string]string{"latest": "$Latest", "default": "$Default", "one": "1"} {
		l.group(t, name, func(in *autoscaling.CreateAutoScalingGroupInput) {
			in.LaunchTemplate = &astypes.LaunchTemplateSpecification{LaunchTemplateId: aws.String(id), Version: aws.String(version)}
		})
	}
	read := func() map[string]string {
		out := map[string]string{}
		for name, g := range l.list(t) {
			out[name] = g.LaunchTemplate.Version + " " + g.LaunchTemplate.InstanceType
		}
		return out
	}
	if diff := cmp.Diff(map[string]string{"latest": "2 m5.xlarge", "default": "1 m5.large", "one": "1 m5.large"}, read()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	must[*ec2.ModifyLaunchTemplateOutput](t, "default version")(l.ec2.ModifyLaunchTemplate(t.Context(), &ec2.ModifyLaunchTemplateInput{LaunchTemplateId: aws.String(id), DefaultVersion: aws.String("2")}))
	l.settle()
	if diff := cmp.Diff(map[string]string{"latest": "2 m5.xlarge", "default": "2 m5.xlarge", "one": "1 m5.large"}, read()); diff != "" {
		t.Errorf("after the default moved: -want +got\n%s", diff)
	}
}

func TestTemplateThatWasDeleted(t *testing.T) {
	l := newLab(t)
	l.group(t, "good", nil)
	l.group(t, "orphan", nil)
	id := l.list(t)["orphan"].LaunchTemplate.ID
	must[*ec2.DeleteLaunchTemplateOutput](t, "delete")(l.ec2.DeleteLaunchTemplate(t.Context(), &ec2.DeleteLaunchTemplateInput{LaunchTemplateId: aws.String(id)}))
	l.settle()
	got := l.list(t)
	if got["good"].LaunchTemplate.InstanceType != "m5.large" || got["good"].LaunchError != "" {
		t.Errorf("a template that is gone spoils another group: %+v", got["good"].LaunchTemplate)
	}
	if !strings.Contains(got["orphan"].LaunchError, id) {
		t.Errorf("launch error is %q, want it to name %s", got["orphan"].LaunchError, id)
	}
}

func TestMixedInstancesGroup(t *testing.T) {
	l := newLab(t)
	id := l.template(t, "mixed", nil)
	l.group(t, "general", func(in *autoscaling.CreateAutoScalingGroupInput) {
		in.MixedInstancesPolicy = &astypes.MixedInstancesPolicy{
			LaunchTemplate: &astypes.LaunchTemplate{
				LaunchTemplateSpecification: &astypes.LaunchTemplateSpecification{LaunchTemplateId: aws.String(id), Version: aws.String("1")},
				Overrides:                   []astypes.LaunchTemplateOverrides{{InstanceType: aws.String("m5.large"), WeightedCapacity: aws.String("1")}, {InstanceType: aws.String("m5.xlarge"), WeightedCapacity: aws.String("2")}},
			},
			InstancesDistribution: &astypes.InstancesDistribution{OnDemandBaseCapacity: aws.Int32(1), OnDemandPercentageAboveBaseCapacity: aws.Int32(0), SpotAllocationStrategy: aws.String("price-capacity-optimized")},
		}
	})
	want := &inventory.MixedInstances{
		Overrides:    []inventory.Override{{InstanceType: "m5.large", Weight: "1"}, {InstanceType: "m5.xlarge", Weight: "2"}},
		OnDemandBase: 1, OnDemandPercentage: 0, SpotStrategy: "price-capacity-optimized", OnDemandStrategy: l.list(t)["general"].MixedInstances.OnDemandStrategy,
	}
	got := l.list(t)["general"]
	if diff := cmp.Diff(want, got.MixedInstances); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if got.LaunchTemplate.Version != "1" || got.LaunchTemplate.ID != id {
		t.Errorf("template is %s version %s, want the policy's %s version 1", got.LaunchTemplate.ID, got.LaunchTemplate.Version, id)
	}
}

func TestInstanceRequirements(t *testing.T) {
	l := newLab(t)
	id := l.template(t, "attributes", func(d *ec2types.RequestLaunchTemplateData) { d.InstanceType = "" })
	l.group(t, "general", func(in *autoscaling.CreateAutoScalingGroupInput) {
		in.MixedInstancesPolicy = &astypes.MixedInstancesPolicy{LaunchTemplate: &astypes.LaunchTemplate{
			LaunchTemplateSpecification: &astypes.LaunchTemplateSpecification{LaunchTemplateId: aws.String(id), Version: aws.String("1")},
			Overrides: []astypes.LaunchTemplateOverrides{{InstanceRequirements: &astypes.InstanceRequirements{
				VCpuCount: &astypes.VCpuCountRequest{Min: aws.Int32(2), Max: aws.Int32(2)}, MemoryMiB: &astypes.MemoryMiBRequest{Min: aws.Int32(8192), Max: aws.Int32(8192)},
				AllowedInstanceTypes: []string{"m5.*"},
			}}},
		}}
	})
	got := l.list(t)["general"].MixedInstances
	if diff := cmp.Diff([]inventory.Override{{Requirements: true, Types: []string{"m5.large"}}}, got.Overrides); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if got.OnDemandPercentage != 100 {
		t.Errorf("on-demand percentage is %d, want AWS' default of 100", got.OnDemandPercentage)
	}
}

func TestManagedNodeGroup(t *testing.T) {
	l := newLab(t)
	l.nodegroup(t, "batch", func(in *eks.CreateNodegroupInput) {
		in.CapacityType = ekstypes.CapacityTypesSpot
		in.Labels = map[string]string{"team": "data"}
		in.Taints = []ekstypes.Taint{{Key: aws.String("batch"), Value: aws.String("yes"), Effect: ekstypes.TaintEffectPreferNoSchedule}}
	})
	got := l.list(t)["batch"]
	if got.AutoScalingGroup == "" || got.AutoScalingGroup == "batch" {
		t.Errorf("Auto Scaling group is %q, want the one that EKS made", got.AutoScalingGroup)
	}
	want := &inventory.ManagedNodeGroup{
		Status: "ACTIVE", AMIType: got.Managed.AMIType, ReleaseVersion: got.Managed.ReleaseVersion, Version: "1.34", CapacityType: "SPOT", InstanceTypes: []string{"m5.large"}, DiskSizeGiB: got.Managed.DiskSizeGiB,
		NodeRole: "node", Labels: map[string]string{"team": "data"}, Taints: []corev1.Taint{{Key: "batch", Value: "yes", Effect: corev1.TaintEffectPreferNoSchedule}}, Tags: got.Managed.Tags,
	}
	if diff := cmp.Diff(want, got.Managed); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if got.LaunchTemplate.Role != "node" || got.LaunchTemplate.Version == "" || got.InService() != 2 {
		t.Errorf("role %q, template version %q, %d in service; want node, a number, 2", got.LaunchTemplate.Role, got.LaunchTemplate.Version, got.InService())
	}
}

func TestListFindsGroupsByTagAndByName(t *testing.T) {
	l := newLab(t)
	tag := func(key string) func(*autoscaling.CreateAutoScalingGroupInput) {
		return func(in *autoscaling.CreateAutoScalingGroupInput) {
			in.Tags = []astypes.Tag{{Key: aws.String(key), Value: aws.String("owned")}}
			in.DesiredCapacity = aws.Int32(1)
		}
	}
	l.group(t, "b-owned", tag("kubernetes.io/cluster/harbor"))
	l.group(t, "a-discovered", tag("k8s.io/cluster-autoscaler/harbor"))
	l.group(t, "named", tag("team"))
	l.group(t, "foreign", tag("kubernetes.io/cluster/other"))
	l.nodegroup(t, "system", nil)
	groups, err := l.port.List(t.Context(), "named", "unknown")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, g := range groups {
		got = append(got, g.Name)
	}
	if diff := cmp.Diff([]string{"a-discovered", "b-owned", "named", "system"}, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// Looks may run side by side: the caches are shared.
func TestLooksSideBySide(t *testing.T) {
	l := newLab(t)
	l.group(t, "memory", nil)
	l.nodegroup(t, "system", nil)
	want := l.list(t)
	var looks errgroup.Group
	for range 8 {
		looks.Go(func() error {
			groups, err := l.port.List(t.Context())
			if err != nil {
				return err
			}
			for _, g := range groups {
				if diff := cmp.Diff(want[g.Name], g); diff != "" {
					return fmt.Errorf("%s: -want +got\n%s", g.Name, diff)
				}
			}
			return nil
		})
	}
	if err := looks.Wait(); err != nil {
		t.Error(err)
	}
}

// At rest a look costs what List promises: caches hold, and nothing is asked of a group that has nothing to say.
func TestSecondLookIsCheap(t *testing.T) {
	l := newLab(t)
	l.group(t, "memory", nil)
	l.nodegroup(t, "system", nil)
	l.list(t)
	_, seq := l.calls(t, 0)
	l.list(t)
	got, _ := l.calls(t, seq)
	want := map[string]int{
		"autoscaling.DescribeAutoScalingGroups": 1, "autoscaling.DescribePolicies": 2, "autoscaling.DescribeScheduledActions": 2, "autoscaling.DescribeInstanceRefreshes": 2,
		"ec2.DescribeLaunchTemplates": 1, "eks.ListNodegroups": 1, "eks.DescribeNodegroup": 1,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestPoliciesAreDisabledAndKept(t *testing.T) {
	l := newLab(t)
	l.group(t, "general", nil)
	put := func(in *autoscaling.PutScalingPolicyInput) {
		in.AutoScalingGroupName = aws.String("general")
		must[*autoscaling.PutScalingPolicyOutput](t, "policy")(l.asg.PutScalingPolicy(t.Context(), in))
	}
	put(&autoscaling.PutScalingPolicyInput{PolicyName: aws.String("cpu"), PolicyType: aws.String("TargetTrackingScaling"), EstimatedInstanceWarmup: aws.Int32(60), TargetTrackingConfiguration: &astypes.TargetTrackingConfiguration{
		TargetValue: aws.Float64(55.5), PredefinedMetricSpecification: &astypes.PredefinedMetricSpecification{PredefinedMetricType: astypes.MetricTypeASGAverageCPUUtilization},
	}})
	put(&autoscaling.PutScalingPolicyInput{PolicyName: aws.String("step"), PolicyType: aws.String("StepScaling"), AdjustmentType: aws.String("ChangeInCapacity"), StepAdjustments: []astypes.StepAdjustment{
		{MetricIntervalLowerBound: aws.Float64(0), MetricIntervalUpperBound: aws.Float64(10), ScalingAdjustment: aws.Int32(1)}, {MetricIntervalLowerBound: aws.Float64(10), ScalingAdjustment: aws.Int32(3)},
	}})
	put(&autoscaling.PutScalingPolicyInput{PolicyName: aws.String("kept"), PolicyType: aws.String("SimpleScaling"), AdjustmentType: aws.String("ChangeInCapacity"), ScalingAdjustment: aws.Int32(1)})
	put(&autoscaling.PutScalingPolicyInput{PolicyName: aws.String("forecast"), PolicyType: aws.String("PredictiveScaling"), PredictiveScalingConfiguration: &astypes.PredictiveScalingConfiguration{
		Mode: astypes.PredictiveScalingModeForecastAndScale, MetricSpecifications: []astypes.PredictiveScalingMetricSpecification{{
			TargetValue: aws.Float64(40), PredefinedMetricPairSpecification: &astypes.PredictiveScalingPredefinedMetricPair{PredefinedMetricType: astypes.PredefinedMetricPairTypeASGCPUUtilization},
		}},
	}})
	before := l.list(t)["general"]
	if err := l.port.DisablePolicies(t.Context(), before, []string{"cpu", "step", "forecast", "gone"}); err != nil {
		t.Fatal(err)
	}
	l.settle()
	after := l.list(t)["general"]
	for i, p := range after.ScalingPolicies {
		was := before.ScalingPolicies[i]
		if p.Name == "kept" != p.Active {
			t.Errorf("policy %s is active: %v", p.Name, p.Active)
		}
		if !was.Active || p.ARN != was.ARN || !slices.Equal(p.Alarms, was.Alarms) {
			t.Errorf("policy %s: ARN %s, alarms %v; before, active %v, ARN %s, alarms %v", p.Name, p.ARN, p.Alarms, was.Active, was.ARN, was.Alarms)
		}
		p.Definition["Enabled"], p.Active, p.Enabled = was.Definition["Enabled"], was.Active, was.Enabled
		if c, ok := p.Definition["PredictiveScalingConfiguration"].(map[string]any); ok {
			c["Mode"] = "ForecastAndScale"
		}
		if diff := cmp.Diff(was, p); diff != "" {
			t.Errorf("policy %s is not what it was but for being off: -want +got\n%s", p.Name, diff)
		}
	}
	_, seq := l.calls(t, 0)
	if err := l.port.DisablePolicies(t.Context(), after, []string{"cpu", "step", "forecast"}); err != nil {
		t.Fatal(err)
	}
	if got, _ := l.calls(t, seq); len(got) != 0 {
		t.Errorf("disabling what is disabled called %v", got)
	}
}

func TestScheduledActionsAreDeleted(t *testing.T) {
	l := newLab(t)
	l.group(t, "memory", nil)
	for name, at := range map[string]string{"morning": "0 7 * * *", "evening": "0 19 * * *"} {
		l.schedule(t, "memory", &autoscaling.PutScheduledUpdateGroupActionInput{ScheduledActionName: aws.String(name), Recurrence: aws.String(at), DesiredCapacity: aws.Int32(5)})
	}
	actions := l.list(t)["memory"].ScheduledActions
	if len(actions) != 2 || actions[0].Name != "evening" || actions[0].Recurrence != "0 19 * * *" || aws.ToInt32(actions[0].Desired) != 5 || actions[0].Min != nil {
		t.Fatalf("actions are %+v", actions)
	}
	for range 2 {
		if err := l.port.DeleteScheduledActions(t.Context(), "memory", []string{"morning", "never-was"}); err != nil {
			t.Fatal(err)
		}
		l.settle()
	}
	if got := l.list(t)["memory"].ScheduledActions; len(got) != 1 || got[0].Name != "evening" {
		t.Errorf("left are %+v, want evening alone", got)
	}
}

func TestProcessesAndSettings(t *testing.T) {
	l := newLab(t)
	l.group(t, "memory", func(in *autoscaling.CreateAutoScalingGroupInput) {
		in.CapacityRebalance, in.MaxInstanceLifetime = aws.Bool(true), aws.Int32(604800)
	})
	ctx := t.Context()
	if g := l.list(t)["memory"]; !g.CapacityRebalance || g.MaxInstanceLifetime != 604800 {
		t.Fatalf("capacity rebalance %v, lifetime %d", g.CapacityRebalance, g.MaxInstanceLifetime)
	}
	for what, err := range map[string]error{
		"suspend":  l.port.SuspendProcesses(ctx, "memory", []string{"ScheduledActions", "AZRebalance", "InstanceRefresh"}),
		"again":    l.port.SuspendProcesses(ctx, "memory", []string{"AZRebalance"}),
		"none":     l.port.SuspendProcesses(ctx, "memory", nil),
		"balance":  l.port.SetCapacityRebalance(ctx, "memory", false),
		"lifetime": l.port.SetMaxInstanceLifetime(ctx, "memory", 0),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := l.port.SuspendProcesses(ctx, "memory", []string{"Terminate"}); inventory.ClassOf(err) != inventory.ClassTerminal || err == nil {
		t.Errorf("suspending Terminate gives %v, want a terminal error", err)
	}
	l.settle()
	g := l.list(t)["memory"]
	if diff := cmp.Diff([]string{"AZRebalance", "InstanceRefresh", "ScheduledActions"}, g.SuspendedProcesses); diff != "" {
		t.Errorf("processes: -want +got\n%s", diff)
	}
	if g.CapacityRebalance || g.MaxInstanceLifetime != 0 || g.Desired != 3 {
		t.Errorf("capacity rebalance %v, lifetime %d, desired %d; want off, 0, untouched", g.CapacityRebalance, g.MaxInstanceLifetime, g.Desired)
	}
}

func TestSizes(t *testing.T) {
	l := newLab(t)
	l.group(t, "memory", nil)
	l.nodegroup(t, "batch", nil)
	ctx, groups := t.Context(), l.list(t)
	for what, err := range map[string]error{
		"group":      l.port.SetSize(ctx, groups["memory"], 0, 4, 4),
		"node group": l.port.SetSize(ctx, groups["batch"], 0, 5, 3),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	l.settle()
	groups = l.list(t)
	for name, want := range map[string][3]int32{"memory": {0, 4, 4}, "batch": {0, 5, 3}} {
		g := groups[name]
		if got := [3]int32{g.Min, g.Max, g.Desired}; got != want || g.InService() != int(want[2]) {
			t.Errorf("%s is %v with %d in service, want %v", name, got, g.InService(), want)
		}
	}
	for what, err := range map[string]error{
		"no max for a managed node group": l.port.SetSize(ctx, groups["batch"], 0, 0, 0),
		"desired above max":               l.port.SetSize(ctx, groups["memory"], 0, 1, 2),
		"desired below min":               l.port.SetSize(ctx, groups["memory"], 2, 2, 1),
	} {
		if err == nil || inventory.ClassOf(err) != inventory.ClassTerminal {
			t.Errorf("%s: error is %v, want a terminal one", what, err)
		}
	}
}

func TestEndInstances(t *testing.T) {
	l := newLab(t)
	l.group(t, "memory", func(in *autoscaling.CreateAutoScalingGroupInput) { in.MinSize = aws.Int32(0) })
	ids := func() (out []string) {
		for _, i := range l.list(t)["memory"].Instances {
			out = append(out, i.ID)
		}
		return out
	}
	before := ids()
	if err := l.port.EndInstances(t.Context(), "memory", before[:2]); err != nil {
		t.Fatal(err)
	}
	l.settle()
	if diff := cmp.Diff(before[2:], ids()); diff != "" {
		t.Errorf("members: -want +got\n%s", diff)
	}
	if g := l.list(t)["memory"]; g.Desired != 1 {
		t.Errorf("desired is %d, want 1", g.Desired)
	}
	err := l.port.EndInstances(t.Context(), "memory", before[:1])
	if err == nil || inventory.ClassOf(err) != inventory.ClassRetry || !strings.Contains(err.Error(), before[0]) {
		t.Errorf("ending one that left gives %v (%s), want a retry naming it", err, inventory.ClassOf(err))
	}
	if err := l.port.SetSize(t.Context(), l.list(t)["memory"], 1, 1, 1); err != nil {
		t.Fatal(err)
	}
	l.settle()
	err = l.port.EndInstances(t.Context(), "memory", before[2:])
	if err == nil || inventory.ClassOf(err) != inventory.ClassTerminal || !strings.Contains(err.Error(), "min size") {
		t.Errorf("ending below min gives %v (%s), want a terminal error about the min size", err, inventory.ClassOf(err))
	}
}

// TestEndInstancesIsAskedOnce uses the SDK as the operator does, with its own retries: on a lost reply they would lower the
// desired capacity again, and Auto Scaling would end instances that nobody drained. The known-bad variant is the bare SDK.
func TestEndInstancesIsAskedOnce(t *testing.T) {
	end := map[string]struct {
		reason string
		call   func(ctx context.Context, asg *autoscaling.Client, l *lab, id string) error
		want   int
		left   int32
	}{
		"Port": {"castoff's port asks once", func(ctx context.Context, asg *autoscaling.Client, l *lab, id string) error {
			return New(asg, l.eks, l.ec2, l.iam, "harbor").EndInstances(ctx, "memory", []string{id})
		}, 1, 1},
		"KnownBad": {"the bare SDK asks again, and one more instance is lost", func(ctx context.Context, asg *autoscaling.Client, _ *lab, id string) error {
			_, err := asg.TerminateInstanceInAutoScalingGroup(ctx, &autoscaling.TerminateInstanceInAutoScalingGroupInput{
				AutoScalingGroupName: aws.String("memory"), InstanceIds: []string{id}, ShouldDecrementDesiredCapacity: aws.Bool(true),
			})
			return err
		}, 2, 0},
	}
	for name, tc := range end {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			l.group(t, "memory", func(in *autoscaling.CreateAutoScalingGroupInput) { in.MinSize = aws.Int32(0) })
			before := l.list(t)["memory"]
			l.fault(t, simapi.Fault{Service: "autoscaling", Operation: "TerminateInstanceInAutoScalingGroup", Code: "InternalFailure", Status: 500, After: true, Times: 1})
			options := l.asg.Options()
			options.Retryer = retry.NewStandard(func(o *retry.StandardOptions) {
				o.Backoff = retry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return 0, nil })
			})
			err := tc.call(t.Context(), autoscaling.New(options), l, before.Instances[0].ID)
			calls := must[[]simapi.Call](t, "calls")(l.door.Calls(t.Context(), 0))
			asked := 0
			for _, c := range calls {
				if c.Operation == "TerminateInstanceInAutoScalingGroup" {
					asked++
				}
			}
			if after := l.list(t)["memory"]; asked != tc.want || after.Desired != before.Desired-2+tc.left {
				t.Errorf("%s: asked %d times, desired %d of %d (%v)", tc.reason, asked, after.Desired, before.Desired, err)
			}
		})
	}
}

// After a lost reply the effect is there: the group, read again, says so, and a repetition ends nobody else.
func TestEndInstancesWithALostReply(t *testing.T) {
	l := newLab(t)
	l.group(t, "memory", func(in *autoscaling.CreateAutoScalingGroupInput) { in.MinSize = aws.Int32(0) })
	victim := l.list(t)["memory"].Instances[0].ID
	l.fault(t, simapi.Fault{Service: "autoscaling", Operation: "TerminateInstanceInAutoScalingGroup", Code: "InternalFailure", Status: 500, After: true, Times: 1})
	if err := l.port.EndInstances(t.Context(), "memory", []string{victim}); inventory.ClassOf(err) != inventory.ClassRetry || err == nil {
		t.Fatalf("a lost reply gives %v, want a retry", err)
	}
	l.settle()
	g := l.list(t)["memory"]
	if g.Has(victim) || g.Desired != 2 || g.InService() != 2 {
		t.Errorf("desired %d with %d in service and the victim a member: %v; want 2, 2, false", g.Desired, g.InService(), g.Has(victim))
	}
	if err := l.port.EndInstances(t.Context(), "memory", []string{victim}); err == nil {
		t.Error("ending it again succeeds, want an error: it is gone")
	}
	if g := l.list(t)["memory"]; g.Desired != 2 {
		t.Errorf("the repetition lowered desired to %d", g.Desired)
	}
}

func TestReadsLag(t *testing.T) {
	l := newLab(t)
	l.group(t, "memory", nil)
	if err := l.door.SetSettings(t.Context(), simapi.Settings{Lag: 5 * time.Second, PendingDelay: time.Second, ShutdownDelay: time.Second, ScalingDelay: time.Second}); err != nil {
		t.Fatal(err)
	}
	l.settle()
	if err := l.port.SuspendProcesses(t.Context(), "memory", []string{"Launch"}); err != nil {
		t.Fatal(err)
	}
	if l.list(t)["memory"].Suspends("Launch") {
		t.Fatal("the change shows at once; the test proves nothing without lag")
	}
	l.settle()
	if !l.list(t)["memory"].Suspends("Launch") {
		t.Error("the change does not show after the lag: something is cached that must not be")
	}
}

func TestInstanceRefreshAndFailedLaunch(t *testing.T) {
	l := newLab(t)
	l.group(t, "memory", nil)
	must[*autoscaling.StartInstanceRefreshOutput](t, "refresh")(l.asg.StartInstanceRefresh(t.Context(), &autoscaling.StartInstanceRefreshInput{AutoScalingGroupName: aws.String("memory")}))
	if got := l.list(t)["memory"].InstanceRefresh; got == "" {
		t.Error("a refresh that has just begun is not seen")
	}
	for range 100 {
		l.settle()
	}
	if got := l.list(t)["memory"]; got.InstanceRefresh != "" || got.LaunchError != "" {
		t.Errorf("at rest: refresh %q, launch error %q", got.InstanceRefresh, got.LaunchError)
	}
	l.fault(t, simapi.Fault{Code: "InsufficientInstanceCapacity", InstanceType: "m5.large"})
	if err := l.port.SetSize(t.Context(), l.list(t)["memory"], 1, 6, 5); err != nil {
		t.Fatal(err)
	}
	l.settle()
	if got := l.list(t)["memory"].LaunchError; got == "" {
		t.Error("the launch that failed is not told")
	}
}

// TestHeldInstanceRefresh: with its process suspended a refresh that somebody starts replaces nothing. It is told with its id, within as
// many lists as may pass between two looks, and no more once it is cancelled.
func TestHeldInstanceRefresh(t *testing.T) {
	l := newLab(t)
	l.group(t, "memory", nil)
	if err := l.port.SuspendProcesses(t.Context(), "memory", []string{"InstanceRefresh"}); err != nil {
		t.Fatal(err)
	}
	before := l.list(t)["memory"]
	started := must[*autoscaling.StartInstanceRefreshOutput](t, "refresh")(l.asg.StartInstanceRefresh(t.Context(), &autoscaling.StartInstanceRefreshInput{AutoScalingGroupName: aws.String("memory")}))
	held, looks := "", 0
	for ; held == "" && looks < 2*heldEvery; looks++ {
		l.settle()
		held = l.list(t)["memory"].InstanceRefreshHeld
	}
	if !strings.Contains(held, aws.ToString(started.InstanceRefreshId)) || looks > heldEvery {
		t.Errorf("after %d lists the refresh that is held is %q", looks, held)
	}
	for range 50 {
		l.settle()
	}
	now := l.list(t)["memory"]
	if diff := cmp.Diff(before.Instances, now.Instances); diff != "" || now.InstanceRefresh != "" {
		t.Errorf("it goes on (%q): %s", now.InstanceRefresh, diff)
	}
	must[*autoscaling.CancelInstanceRefreshOutput](t, "cancel")(l.asg.CancelInstanceRefresh(t.Context(), &autoscaling.CancelInstanceRefreshInput{AutoScalingGroupName: aws.String("memory")}))
	l.settle()
	if got := l.list(t)["memory"].InstanceRefreshHeld; got != "" {
		t.Errorf("once cancelled it is still told: %q", got)
	}
}

// TestWhyAnInstanceCame: in Auto Scaling's words, once it is there, and at no cost while none comes.
func TestWhyAnInstanceCame(t *testing.T) {
	l := newLab(t)
	l.group(t, "memory", nil)
	l.settle()
	if got := l.list(t)["memory"].ScalingCause; got != "" {
		t.Errorf("what was there at first came for no reason that matters: %q", got)
	}
	g := l.list(t)["memory"]
	if err := l.port.SetSize(t.Context(), g, g.Min, g.Max, g.Desired+1); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		l.settle()
	}
	if got := l.list(t)["memory"].ScalingCause; !strings.Contains(got, "an instance was started in response to a difference between desired and actual capacity") {
		t.Errorf("why it came: %q", got)
	}
	if again := l.list(t)["memory"].ScalingCause; again == "" {
		t.Error("it is forgotten at the next look")
	}
}

func TestHooksAreReadAgainWhileTheyHold(t *testing.T) {
	l := newLab(t)
	l.group(t, "memory", func(in *autoscaling.CreateAutoScalingGroupInput) { in.MinSize = aws.Int32(0) })
	if hooks := l.list(t)["memory"].LifecycleHooks; len(hooks) != 0 {
		t.Fatalf("hooks are %+v", hooks)
	}
	must[*autoscaling.PutLifecycleHookOutput](t, "hook")(l.asg.PutLifecycleHook(t.Context(), &autoscaling.PutLifecycleHookInput{
		AutoScalingGroupName: aws.String("memory"), LifecycleHookName: aws.String("drain"), LifecycleTransition: aws.String("autoscaling:EC2_INSTANCE_TERMINATING"), HeartbeatTimeout: aws.Int32(3600), DefaultResult: aws.String("CONTINUE"),
	}))
	l.settle()
	if err := l.port.EndInstances(t.Context(), "memory", []string{l.list(t)["memory"].Instances[0].ID}); err != nil {
		t.Fatal(err)
	}
	l.settle()
	got := l.list(t)["memory"].LifecycleHooks
	want := []inventory.LifecycleHook{{Name: "drain", Transition: "autoscaling:EC2_INSTANCE_TERMINATING", HeartbeatSeconds: 3600, DefaultResult: "CONTINUE"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// Every operation fails in each of the ways that AWS fails, and says so with its class, the action and the object.
func TestErrorClasses(t *testing.T) {
	changes := map[string]func(*lab, context.Context, inventory.NodeGroup) error{
		"DescribeAutoScalingGroups": func(l *lab, ctx context.Context, _ inventory.NodeGroup) error { _, err := l.port.List(ctx); return err },
		"DescribePolicies":          func(l *lab, ctx context.Context, _ inventory.NodeGroup) error { _, err := l.port.List(ctx); return err },
		"DescribeScheduledActions":  func(l *lab, ctx context.Context, _ inventory.NodeGroup) error { _, err := l.port.List(ctx); return err },
		"DescribeInstanceRefreshes": func(l *lab, ctx context.Context, _ inventory.NodeGroup) error { _, err := l.port.List(ctx); return err },
		"DescribeLifecycleHooks": func(l *lab, ctx context.Context, _ inventory.NodeGroup) error {
			_, err := New(l.asg, l.eks, l.ec2, l.iam, "harbor").List(ctx)
			return err
		},
		"SuspendProcesses": func(l *lab, ctx context.Context, _ inventory.NodeGroup) error {
			return l.port.SuspendProcesses(ctx, "memory", []string{"Launch"})
		},
		"UpdateAutoScalingGroup": func(l *lab, ctx context.Context, g inventory.NodeGroup) error { return l.port.SetSize(ctx, g, 1, 6, 3) },
		"BatchDeleteScheduledAction": func(l *lab, ctx context.Context, _ inventory.NodeGroup) error {
			return l.port.DeleteScheduledActions(ctx, "memory", []string{"x"})
		},
		"ResumeProcesses": func(l *lab, ctx context.Context, _ inventory.NodeGroup) error {
			return l.port.ResumeProcesses(ctx, "memory", []string{"Launch"})
		},
		"PutScheduledUpdateGroupAction": func(l *lab, ctx context.Context, _ inventory.NodeGroup) error {
			return l.port.PutScheduledActions(ctx, "memory", []inventory.ScheduledAction{{Name: "x", Recurrence: "0 7 * * *", Max: aws.Int32(9)}})
		},
		"PutScalingPolicy": func(l *lab, ctx context.Context, g inventory.NodeGroup) error {
			g.ScalingPolicies[0].Active = true
			return l.port.EnablePolicies(ctx, g, []string{"off"})
		},
		"TerminateInstanceInAutoScalingGroup": func(l *lab, ctx context.Context, g inventory.NodeGroup) error {
			return l.port.EndInstances(ctx, "memory", []string{g.Instances[0].ID})
		},
	}
	faults := map[string]struct {
		code   string
		status int
		want   inventory.Class
	}{
		"throttled":     {"Throttling", 400, inventory.ClassThrottled},
		"rate exceeded": {"RequestLimitExceeded", 503, inventory.ClassThrottled},
		"denied":        {"AccessDenied", 403, inventory.ClassTerminal},
		"broken":        {"InternalFailure", 500, inventory.ClassRetry},
		"contended":     {"ResourceContention", 500, inventory.ClassRetry},
		"refused":       {"ValidationError", 400, ""},
	}
	l := newLab(t)
	l.group(t, "memory", nil)
	off := tracking("off", 30)
	off.Enabled = aws.Bool(false)
	l.policy(t, "memory", off)
	l.settle()
	g := l.list(t)["memory"]
	for operation, do := range changes {
		for name, f := range faults {
			t.Run(operation+"/"+name, func(t *testing.T) {
				l.fault(t, simapi.Fault{Service: "autoscaling", Operation: operation, Code: f.code, Status: f.status, Times: 1})
				err := do(l, t.Context(), g)
				if f.want == "" { // of a group that went away while it was read; of a value that a human gave
					f.want = inventory.ClassTerminal
					if strings.HasPrefix(operation, "Describe") && operation != "DescribeAutoScalingGroups" {
						f.want = inventory.ClassRetry
					}
				}
				if err == nil || inventory.ClassOf(err) != f.want {
					t.Fatalf("error is %v (%s), want %s", err, inventory.ClassOf(err), f.want)
				}
				if !strings.Contains(err.Error(), "autoscaling:"+operation) {
					t.Errorf("error %q does not name the action autoscaling:%s", err, operation)
				}
			})
		}
	}
}
