package nodegroup

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/servicequotas"
	"golang.org/x/sync/errgroup"

	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/inventory/awsapi"
)

// QuotasAPI is what the port calls of Service Quotas.
type QuotasAPI interface {
	GetServiceQuota(context.Context, *servicequotas.GetServiceQuotaInput, ...func(*servicequotas.Options)) (*servicequotas.GetServiceQuotaOutput, error)
}

// UsageAPI is what the port calls of CloudWatch.
type UsageAPI interface {
	GetMetricData(context.Context, *cloudwatch.GetMetricDataInput, ...func(*cloudwatch.Options)) (*cloudwatch.GetMetricDataOutput, error)
}

// Account is where the port reads what the whole account is allowed and uses.
type Account struct {
	Quotas QuotasAPI
	Usage  UsageAPI
	// Clock tells the time that CloudWatch is asked about.
	Clock func() time.Time
}

// patience bounds each read of Surroundings: in a VPC without a way to a service's endpoint a call would hang, and take the look along.
const patience = 8 * time.Second

// InAccount makes the port read quotas, too, and returns it. Without it Surroundings has none.
func (c *Client) InAccount(a Account) *Client {
	c.account = a
	return c
}

// Surroundings reads what decides whether Karpenter can launch nodes beside the groups. A read that is refused or that does not
// answer is named in NotRead, because none of them is worth a migration that stands still; only throttling is an error
// (inventory.ClassThrottled), so that it is tried again.
func (c *Client) Surroundings(ctx context.Context, cluster inventory.Cluster, groups []inventory.NodeGroup) (inventory.Surroundings, error) {
	var out inventory.Surroundings
	s := &survey{Client: c, cluster: cluster, groups: groups, out: &out}
	group, groupCtx := errgroup.WithContext(ctx)
	for _, read := range []func(context.Context) error{s.subnets, s.dhcp, s.spotRole, s.addon, s.namesakes, s.quotas} {
		group.Go(func() error {
			ctx, cancel := context.WithTimeout(groupCtx, patience)
			defer cancel()
			return read(ctx)
		})
	}
	err := group.Wait()
	slices.SortFunc(out.NotRead, func(a, b inventory.NotRead) int { return strings.Compare(a.Action, b.Action) })
	if err == nil {
		err = ctx.Err()
	}
	return out, err
}

// survey is one reading of Surroundings. Each of its reads writes a field of its own.
type survey struct {
	*Client
	cluster inventory.Cluster
	groups  []inventory.NodeGroup
	mu      sync.Mutex // of out.NotRead
	out     *inventory.Surroundings
}

// missed notes that the action was not answered; of throttling it makes an error.
func (s *survey) missed(err error, action, what string) error {
	if awsapi.Throttled(err) {
		return awsapi.Wrap(err, action, what)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out.NotRead = append(s.out.NotRead, inventory.NotRead{Action: action, What: what, Denied: awsapi.Denied(err)})
	return nil
}

// subnets filters by ID, since naming one that is gone would fail the call for all.
func (s *survey) subnets(ctx context.Context) error {
	var ids []string
	for _, g := range s.groups {
		ids = append(ids, g.Subnets...)
	}
	slices.Sort(ids)
	found := []inventory.Subnet{}
	for batch := range slices.Chunk(slices.Compact(ids), filterValues) {
		pages := ec2.NewDescribeSubnetsPaginator(s.ec2, &ec2.DescribeSubnetsInput{Filters: []ec2types.Filter{{Name: aws.String("subnet-id"), Values: batch}}})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return s.missed(err, "ec2:DescribeSubnets", "free addresses")
			}
			for _, n := range page.Subnets {
				found = append(found, inventory.Subnet{ID: aws.ToString(n.SubnetId), Zone: aws.ToString(n.AvailabilityZone), Free: aws.ToInt32(n.AvailableIpAddressCount)})
			}
		}
	}
	slices.SortFunc(found, func(a, b inventory.Subnet) int { return cmp.Or(cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.ID, b.ID)) })
	s.out.Subnets = found
	return nil
}

// filterValues is how many values a filter may have (EC2 API reference, "Filter").
const filterValues = 200

func (s *survey) dhcp(ctx context.Context) error {
	const what = "DHCP options"
	if s.cluster.VPC == "" {
		return nil
	}
	vpcs, err := s.ec2.DescribeVpcs(ctx, &ec2.DescribeVpcsInput{VpcIds: []string{s.cluster.VPC}})
	if err != nil {
		return s.missed(err, "ec2:DescribeVpcs", what)
	}
	id := ""
	for _, v := range vpcs.Vpcs {
		id = aws.ToString(v.DhcpOptionsId)
	}
	if id == "" || id == "default" { // a VPC without any
		s.out.DHCP = &inventory.DHCPOptions{ID: "default"}
		return nil
	}
	sets, err := s.ec2.DescribeDhcpOptions(ctx, &ec2.DescribeDhcpOptionsInput{DhcpOptionsIds: []string{id}})
	if err != nil {
		return s.missed(err, "ec2:DescribeDhcpOptions", what)
	}
	out := &inventory.DHCPOptions{ID: id}
	for _, o := range sets.DhcpOptions {
		out.DomainName = strings.Join(dhcpValues(o, "domain-name"), " ")
	}
	s.out.DHCP = out
	return nil
}

func dhcpValues(o ec2types.DhcpOptions, key string) []string {
	var out []string
	for _, c := range o.DhcpConfigurations {
		if aws.ToString(c.Key) != key {
			continue
		}
		for _, v := range c.Values {
			out = append(out, aws.ToString(v.Value))
		}
	}
	return out
}

func (s *survey) spotRole(ctx context.Context) error {
	_, err := s.iam.GetRole(ctx, &iam.GetRoleInput{RoleName: aws.String("AWSServiceRoleForEC2Spot")})
	if err != nil && !awsapi.Is(err, "NoSuchEntity") {
		return s.missed(err, "iam:GetRole", "the service-linked role of EC2 Spot")
	}
	s.out.SpotRole = aws.Bool(err == nil)
	return nil
}

func (s *survey) addon(ctx context.Context) error {
	_, err := s.eks.DescribeAddon(ctx, &eks.DescribeAddonInput{ClusterName: aws.String(s.Client.cluster), AddonName: aws.String("eks-pod-identity-agent")})
	if err != nil && !awsapi.Is(err, codeNotFound) {
		return s.missed(err, "eks:DescribeAddon", "the EKS Pod Identity Agent")
	}
	s.out.PodIdentityAgent = aws.Bool(err == nil)
	return nil
}

// namesakes asks for instances as Karpenter's own garbage collection does (karpenter-provider-aws, pkg/providers/instance, List), so
// that what it would end is what is found.
func (s *survey) namesakes(ctx context.Context) error {
	if s.cluster.VPC == "" {
		return nil
	}
	filter := func(name string, values ...string) ec2types.Filter {
		return ec2types.Filter{Name: aws.String(name), Values: values}
	}
	pages := ec2.NewDescribeInstancesPaginator(s.ec2, &ec2.DescribeInstancesInput{MaxResults: aws.Int32(1000), Filters: []ec2types.Filter{
		filter("tag-key", "karpenter.sh/nodepool"), filter("tag:eks:eks-cluster-name", s.Client.cluster),
		filter("instance-state-name", "pending", "running", "stopping", "stopped"),
	}})
	elsewhere := map[string]int{}
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return s.missed(err, "ec2:DescribeInstances", "instances of another cluster of this name")
		}
		for _, r := range page.Reservations {
			for _, i := range r.Instances {
				if vpc := aws.ToString(i.VpcId); vpc != "" && vpc != s.cluster.VPC {
					elsewhere[vpc]++
				}
			}
		}
	}
	for vpc, n := range elsewhere {
		s.out.Namesakes = append(s.out.Namesakes, inventory.Namesake{VPC: vpc, Instances: n})
	}
	slices.SortFunc(s.out.Namesakes, func(a, b inventory.Namesake) int { return strings.Compare(a.VPC, b.VPC) })
	return nil
}
