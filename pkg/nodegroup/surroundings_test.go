package nodegroup

import (
	"context"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	cwtypes "github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/servicequotas"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/castoff-sh/castoff/e2e/awssim/simapi"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

const (
	onDemandStandard = "L-1216C47A"
	spotStandard     = "L-34B43A08"
)

// survey reads the surroundings of all groups that there are.
func (l *lab) survey(t *testing.T) inventory.Surroundings {
	t.Helper()
	cluster := must[inventory.Cluster](t, "Cluster")(l.port.Cluster(t.Context()))
	groups := must[[]inventory.NodeGroup](t, "List")(l.port.List(t.Context()))
	return must[inventory.Surroundings](t, "Surroundings")(l.port.Surroundings(t.Context(), cluster, groups))
}

func TestSurroundingsAreRead(t *testing.T) {
	l := newLab(t)
	l.group(t, "general", nil) // three m5.large
	must[*servicequotas.RequestServiceQuotaIncreaseOutput](t, "quota")(l.sq.RequestServiceQuotaIncrease(t.Context(), &servicequotas.RequestServiceQuotaIncreaseInput{
		ServiceCode: aws.String("ec2"), QuotaCode: aws.String(onDemandStandard), DesiredValue: aws.Float64(64),
	}))
	got := l.survey(t)
	want := inventory.Surroundings{
		Subnets:  []inventory.Subnet{{ID: l.subnets[0], Zone: "us-east-1a", Free: 250}, {ID: l.subnets[1], Zone: "us-east-1b", Free: 250}, {ID: l.subnets[2], Zone: "us-east-1c", Free: 250}},
		DHCP:     &inventory.DHCPOptions{DomainName: "ec2.internal"},
		SpotRole: aws.Bool(false), PodIdentityAgent: aws.Bool(true),
		Quotas: []inventory.VCPUQuota{
			{Code: onDemandStandard, Name: "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances", Limit: 64, InUse: 6},
			{Code: spotStandard, Name: "All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests", Limit: 20000},
		},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(inventory.DHCPOptions{}, "ID")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if !strings.HasPrefix(got.DHCP.ID, "dopt-") {
		t.Errorf("the option set is %q, want its ID", got.DHCP.ID)
	}
}

func TestSurroundingsOfACrookedAccount(t *testing.T) {
	l := newLab(t)
	ctx := t.Context()
	cluster := must[inventory.Cluster](t, "Cluster")(l.port.Cluster(ctx))
	options := must[*ec2.CreateDhcpOptionsOutput](t, "options")(l.ec2.CreateDhcpOptions(ctx, &ec2.CreateDhcpOptionsInput{
		DhcpConfigurations: []ec2types.NewDhcpConfiguration{{Key: aws.String("domain-name-servers"), Values: []string{"10.0.0.2"}}, {Key: aws.String("domain-name"), Values: []string{"foo ec2.internal"}}},
	}))
	must[*ec2.AssociateDhcpOptionsOutput](t, "associate")(l.ec2.AssociateDhcpOptions(ctx, &ec2.AssociateDhcpOptionsInput{VpcId: aws.String(cluster.VPC), DhcpOptionsId: options.DhcpOptions.DhcpOptionsId}))
	must[*eks.DeleteAddonOutput](t, "add-on")(l.eks.DeleteAddon(ctx, &eks.DeleteAddonInput{ClusterName: aws.String("harbor"), AddonName: aws.String("eks-pod-identity-agent")}))
	other := l.karpenterElsewhere(t, 2)
	l.karpenterAt(t, l.subnets[0], 1) // this cluster's own are no namesakes

	got := must[inventory.Surroundings](t, "Surroundings")(l.port.Surroundings(ctx, cluster, []inventory.NodeGroup{{Name: "a", Subnets: []string{l.subnets[1], "subnet-gone"}}}))
	want := inventory.Surroundings{
		Subnets:  []inventory.Subnet{{ID: l.subnets[1], Zone: "us-east-1b", Free: got.Subnets[0].Free}},
		DHCP:     &inventory.DHCPOptions{ID: aws.ToString(options.DhcpOptions.DhcpOptionsId), DomainName: "foo ec2.internal"},
		SpotRole: aws.Bool(true), PodIdentityAgent: aws.Bool(false),
		Namesakes: []inventory.Namesake{{VPC: other, Instances: 2}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// karpenterElsewhere launches as a Karpenter of a cluster of the same name does, in a VPC of its own, and returns that.
func (l *lab) karpenterElsewhere(t *testing.T, instances int32) string {
	t.Helper()
	vpc := must[*ec2.CreateVpcOutput](t, "vpc")(l.ec2.CreateVpc(t.Context(), &ec2.CreateVpcInput{CidrBlock: aws.String("10.1.0.0/16")}))
	subnet := must[*ec2.CreateSubnetOutput](t, "subnet")(l.ec2.CreateSubnet(t.Context(), &ec2.CreateSubnetInput{VpcId: vpc.Vpc.VpcId, CidrBlock: aws.String("10.1.0.0/24")}))
	l.karpenterAt(t, aws.ToString(subnet.Subnet.SubnetId), instances)
	return aws.ToString(vpc.Vpc.VpcId)
}

// karpenterAt launches spot instances as Karpenter tags them.
func (l *lab) karpenterAt(t *testing.T, subnet string, instances int32) {
	t.Helper()
	tags := []ec2types.Tag{{Key: aws.String("karpenter.sh/nodepool"), Value: aws.String("general")}, {Key: aws.String("eks:eks-cluster-name"), Value: aws.String("harbor")}}
	must[*ec2.RunInstancesOutput](t, "instances")(l.ec2.RunInstances(t.Context(), &ec2.RunInstancesInput{
		MinCount: aws.Int32(instances), MaxCount: aws.Int32(instances), ImageId: aws.String(l.image), InstanceType: ec2types.InstanceTypeM5Large, SubnetId: aws.String(subnet),
		InstanceMarketOptions: &ec2types.InstanceMarketOptionsRequest{MarketType: ec2types.MarketTypeSpot},
		TagSpecifications:     []ec2types.TagSpecification{{ResourceType: ec2types.ResourceTypeInstance, Tags: tags}},
	}))
}

func TestSurroundingsThatMayNotBeRead(t *testing.T) {
	l := newLab(t)
	l.group(t, "general", nil)
	cases := map[string]struct {
		reason          string
		service, action string
		want            inventory.NotRead
		gone            func(inventory.Surroundings) bool
	}{
		"Subnets":   {"none is not the same as not known", "ec2", "DescribeSubnets", inventory.NotRead{Action: "ec2:DescribeSubnets", What: "free addresses", Denied: true}, func(s inventory.Surroundings) bool { return s.Subnets == nil }},
		"VPC":       {"the way to the options", "ec2", "DescribeVpcs", inventory.NotRead{Action: "ec2:DescribeVpcs", What: "DHCP options", Denied: true}, func(s inventory.Surroundings) bool { return s.DHCP == nil }},
		"DHCP":      {"the options", "ec2", "DescribeDhcpOptions", inventory.NotRead{Action: "ec2:DescribeDhcpOptions", What: "DHCP options", Denied: true}, func(s inventory.Surroundings) bool { return s.DHCP == nil }},
		"SpotRole":  {"nothing is said of a role that cannot be seen", "iam", "GetRole", inventory.NotRead{Action: "iam:GetRole", What: "the service-linked role of EC2 Spot", Denied: true}, func(s inventory.Surroundings) bool { return s.SpotRole == nil }},
		"Addon":     {"nor of an add-on", "eks", "DescribeAddon", inventory.NotRead{Action: "eks:DescribeAddon", What: "the EKS Pod Identity Agent", Denied: true}, func(s inventory.Surroundings) bool { return s.PodIdentityAgent == nil }},
		"Namesakes": {"an account may keep its instances to itself", "ec2", "DescribeInstances", inventory.NotRead{Action: "ec2:DescribeInstances", What: "instances of another cluster of this name", Denied: true}, func(s inventory.Surroundings) bool { return s.Namesakes == nil }},
		"Quotas":    {"a limit is unknown", "servicequotas", "GetServiceQuota", inventory.NotRead{Action: "servicequotas:GetServiceQuota", What: "vCPU quotas", Denied: true}, func(s inventory.Surroundings) bool { return s.Quotas == nil }},
		"Usage":     {"a limit alone says nothing", "monitoring", "GetMetricData", inventory.NotRead{Action: "cloudwatch:GetMetricData", What: "vCPUs in use", Denied: true}, func(s inventory.Surroundings) bool { return s.Quotas == nil }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			l.fault(t, simapi.Fault{ID: "denied", Service: tc.service, Operation: tc.action, Code: "AccessDenied", Status: 403})
			defer func() {
				if err := l.door.RemoveFault(context.Background(), "denied"); err != nil {
					t.Error(err)
				}
			}()
			got := l.survey(t)
			if diff := cmp.Diff([]inventory.NotRead{tc.want}, got.NotRead); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
			if !tc.gone(got) {
				t.Errorf("%s: %+v", tc.reason, got)
			}
		})
	}
}

func TestSurroundingsThatDoNotAnswer(t *testing.T) {
	l := newLab(t)
	l.group(t, "general", nil)
	l.fault(t, simapi.Fault{ID: "broken", Service: "servicequotas", Code: "InternalFailure", Status: 500})
	got := l.survey(t)
	if diff := cmp.Diff([]inventory.NotRead{{Action: "servicequotas:GetServiceQuota", What: "vCPU quotas"}}, got.NotRead); diff != "" {
		t.Errorf("a service that does not answer is no reason to stand still: -want +got:\n%s", diff)
	}
	l.fault(t, simapi.Fault{Service: "ec2", Operation: "DescribeSubnets", Code: "RequestLimitExceeded", Status: 503})
	if _, err := l.port.Surroundings(t.Context(), inventory.Cluster{}, []inventory.NodeGroup{{Subnets: l.subnets}}); inventory.ClassOf(err) != inventory.ClassThrottled {
		t.Errorf("error is %v (%s), want throttling: it passes", err, inventory.ClassOf(err))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.port.Surroundings(ctx, inventory.Cluster{}, nil); err == nil {
		t.Error("a look that is over was given an answer")
	}
}

// fakeUsage answers with what it is given.
type fakeUsage struct{ results []cwtypes.MetricDataResult }

func (f fakeUsage) GetMetricData(context.Context, *cloudwatch.GetMetricDataInput, ...func(*cloudwatch.Options)) (*cloudwatch.GetMetricDataOutput, error) {
	return &cloudwatch.GetMetricDataOutput{MetricDataResults: f.results}, nil
}

func TestQuotasThatAreNotWhole(t *testing.T) {
	l := newLab(t)
	l.group(t, "general", nil)
	cases := map[string]struct {
		reason  string
		results []cwtypes.MetricDataResult
		want    map[string]float64
	}{
		"NoData":   {"a metric that was never written is of what nobody uses", []cwtypes.MetricDataResult{{Id: aws.String("q0"), StatusCode: cwtypes.StatusCodeComplete}}, map[string]float64{onDemandStandard: 0}},
		"Newest":   {"the newest value comes first", []cwtypes.MetricDataResult{{Id: aws.String("q0"), StatusCode: cwtypes.StatusCodeComplete, Values: []float64{60, 40}}}, map[string]float64{onDemandStandard: 60}},
		"Failed":   {"what CloudWatch could not tell is not 0", []cwtypes.MetricDataResult{{Id: aws.String("q0"), StatusCode: cwtypes.StatusCodeInternalError}}, map[string]float64{}},
		"Nonsense": {"an answer to nobody's question", []cwtypes.MetricDataResult{{Id: aws.String("q9"), StatusCode: cwtypes.StatusCodeComplete}, {}}, map[string]float64{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			account := l.port.account
			account.Usage = fakeUsage{tc.results}
			port := New(l.asg, l.eks, l.ec2, l.iam, "harbor").InAccount(account)
			s := must[inventory.Surroundings](t, "Surroundings")(port.Surroundings(t.Context(), inventory.Cluster{}, []inventory.NodeGroup{{Types: []inventory.InstanceType{{Name: "m5.large"}, {Name: "p3.2xlarge"}, {Name: "mac2.metal"}}}}))
			got := map[string]float64{}
			for _, q := range s.Quotas {
				got[q.Code] = q.InUse
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
		})
	}
	without := must[inventory.Surroundings](t, "Surroundings")(New(l.asg, l.eks, l.ec2, l.iam, "harbor").Surroundings(t.Context(), inventory.Cluster{}, []inventory.NodeGroup{{Types: []inventory.InstanceType{{Name: "m5.large"}}}}))
	if without.Quotas != nil || len(without.NotRead) > 0 {
		t.Errorf("a port without an account says of quotas %v, %v", without.Quotas, without.NotRead)
	}
}

func TestNewFeaturesOfGroupsAreRead(t *testing.T) {
	l := newLab(t)
	l.group(t, "plain", nil)
	l.group(t, "kept", func(in *autoscaling.CreateAutoScalingGroupInput) {
		in.DeletionProtection = astypes.DeletionProtectionPreventAllDeletion
		in.InstanceLifecyclePolicy = &astypes.InstanceLifecyclePolicy{RetentionTriggers: &astypes.RetentionTriggers{TerminateHookAbandon: astypes.RetentionActionRetain}}
	})
	groups := l.list(t)
	got := []any{groups["plain"].DeletionProtection == "prevent-all-deletion", groups["plain"].RetainsInstances, groups["kept"].DeletionProtection, groups["kept"].RetainsInstances}
	if diff := cmp.Diff([]any{false, false, "prevent-all-deletion", true}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
