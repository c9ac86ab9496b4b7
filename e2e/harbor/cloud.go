package harbor

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
)

// Cloud makes the scene's AWS side through the AWS SDK, as an administrator.
type Cloud struct {
	asg *autoscaling.Client
	ec2 *ec2.Client
	eks *eks.Client
	iam *iam.Client
	ssm *ssm.Client
}

// NewCloud speaks to the AWS at that address as the user harbor-admin.
func NewCloud(ctx context.Context, endpoint string) (*Cloud, error) {
	cfg, err := config.LoadDefaultConfig(ctx, config.WithRegion("us-east-1"), config.WithBaseEndpoint(endpoint),
		config.WithCredentialsProvider(credentials.NewStaticCredentialsProvider("harbor-admin", "secret", "")))
	if err != nil {
		return nil, fmt.Errorf("preparing the AWS client: %w", err)
	}
	return &Cloud{
		asg: autoscaling.NewFromConfig(cfg), ec2: ec2.NewFromConfig(cfg), eks: eks.NewFromConfig(cfg),
		iam: iam.NewFromConfig(cfg), ssm: ssm.NewFromConfig(cfg),
	}, nil
}

// network is where nodes live.
type network struct {
	subnets       []string // one a zone
	securityGroup string
}

// clusterAccess is what a node must know to join.
type clusterAccess struct{ endpoint, authority, serviceCIDR string }

// Seed makes roles, network, the cluster whose API server that is, and node groups. It returns when all of them are
// asked for and the managed ones active.
func (c *Cloud) Seed(ctx context.Context, apiServer *rest.Config) error {
	arns, err := c.seedRoles(ctx)
	if err != nil {
		return err
	}
	net, err := c.seedNetwork(ctx)
	if err != nil {
		return err
	}
	access, err := c.seedCluster(ctx, apiServer, arns, net)
	if err != nil {
		return err
	}
	if err := c.seedIdentities(ctx, arns); err != nil {
		return err
	}
	if err := c.seedManaged(ctx, arns[nodeRole], net); err != nil {
		return err
	}
	return c.seedSelfManaged(ctx, access, net)
}

func (c *Cloud) seedNetwork(ctx context.Context) (network, error) {
	vpc, err := c.ec2.CreateVpc(ctx, &ec2.CreateVpcInput{CidrBlock: aws.String("10.0.0.0/16"), TagSpecifications: tagged(ec2types.ResourceTypeVpc, "harbor")})
	if err != nil {
		return network{}, fmt.Errorf("making the VPC: %w", err)
	}
	var net network
	for i, zone := range []string{"us-east-1a", "us-east-1b", "us-east-1c"} {
		subnet, err := c.ec2.CreateSubnet(ctx, &ec2.CreateSubnetInput{
			VpcId: vpc.Vpc.VpcId, AvailabilityZone: &zone, CidrBlock: aws.String(fmt.Sprintf("10.0.%d.0/20", i*16)),
			TagSpecifications: tagged(ec2types.ResourceTypeSubnet, "harbor-private-"+zone, "kubernetes.io/cluster/harbor", "shared", "kubernetes.io/role/internal-elb", "1"),
		})
		if err != nil {
			return network{}, fmt.Errorf("making the subnet in %s: %w", zone, err)
		}
		net.subnets = append(net.subnets, aws.ToString(subnet.Subnet.SubnetId))
	}
	group, err := c.ec2.CreateSecurityGroup(ctx, &ec2.CreateSecurityGroupInput{
		GroupName: aws.String("harbor-node"), Description: aws.String("Nodes of harbor"), VpcId: vpc.Vpc.VpcId,
		TagSpecifications: tagged(ec2types.ResourceTypeSecurityGroup, "harbor-node", "kubernetes.io/cluster/harbor", "owned"),
	})
	if err != nil {
		return network{}, fmt.Errorf("making the nodes' security group: %w", err)
	}
	net.securityGroup = aws.ToString(group.GroupId)
	return net, nil
}

// tagged is a name and further pairs of key and value.
func tagged(kind ec2types.ResourceType, name string, pairs ...string) []ec2types.TagSpecification {
	tags := []ec2types.Tag{{Key: aws.String("Name"), Value: &name}}
	for i := 0; i+1 < len(pairs); i += 2 {
		tags = append(tags, ec2types.Tag{Key: &pairs[i], Value: &pairs[i+1]})
	}
	return []ec2types.TagSpecification{{ResourceType: kind, Tags: tags}}
}

func (c *Cloud) seedCluster(ctx context.Context, apiServer *rest.Config, arns map[string]string, net network) (clusterAccess, error) {
	_, err := c.eks.CreateCluster(ctx, &eks.CreateClusterInput{
		Name: aws.String(Cluster), Version: aws.String(kubernetesVersion), RoleArn: aws.String(arns[clusterRole]),
		ResourcesVpcConfig: &ekstypes.VpcConfigRequest{SubnetIds: net.subnets, SecurityGroupIds: []string{net.securityGroup}},
		// The simulator takes from these tags where the cluster is.
		Tags:         map[string]string{"sim/endpoint": apiServer.Host, "sim/ca": base64.StdEncoding.EncodeToString(apiServer.CAData)},
		AccessConfig: &ekstypes.CreateAccessConfigRequest{AuthenticationMode: ekstypes.AuthenticationModeApiAndConfigMap},
	})
	if err != nil {
		return clusterAccess{}, fmt.Errorf("making the cluster: %w", err)
	}
	var access clusterAccess
	err = until(ctx, func(ctx context.Context) (bool, error) {
		out, err := c.eks.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: aws.String(Cluster)})
		if err != nil || out.Cluster == nil || out.Cluster.Status != ekstypes.ClusterStatusActive {
			return false, unlessLate(err)
		}
		access = accessOf(out.Cluster)
		return true, nil
	})
	if err != nil {
		return clusterAccess{}, fmt.Errorf("waiting for the cluster to be active: %w", err)
	}
	_, err = c.eks.CreateAccessEntry(ctx, &eks.CreateAccessEntryInput{ClusterName: aws.String(Cluster), PrincipalArn: aws.String(arns[nodeRole]), Type: aws.String("EC2_LINUX")})
	if err != nil {
		return clusterAccess{}, fmt.Errorf("letting the nodes' role join: %w", err)
	}
	return access, nil
}

func accessOf(cluster *ekstypes.Cluster) clusterAccess {
	access := clusterAccess{endpoint: aws.ToString(cluster.Endpoint), serviceCIDR: "172.20.0.0/16"}
	if cluster.CertificateAuthority != nil {
		access.authority = aws.ToString(cluster.CertificateAuthority.Data)
	}
	if cluster.KubernetesNetworkConfig != nil && cluster.KubernetesNetworkConfig.ServiceIpv4Cidr != nil {
		access.serviceCIDR = *cluster.KubernetesNetworkConfig.ServiceIpv4Cidr
	}
	return access
}

// unlessLate passes over a thing that reads do not show yet.
func unlessLate(err error) error {
	if late := (*ekstypes.ResourceNotFoundException)(nil); errors.As(err, &late) {
		return nil
	}
	return err
}

// until asks twice a second.
func until(ctx context.Context, condition func(context.Context) (bool, error)) error {
	return wait.PollUntilContextCancel(ctx, 500*time.Millisecond, true, condition)
}

// image is the recommended AL2023 AMI.
func (c *Cloud) image(ctx context.Context) (string, error) {
	name := "/aws/service/eks/optimized-ami/" + kubernetesVersion + "/amazon-linux-2023/x86_64/standard/recommended/image_id"
	out, err := c.ssm.GetParameter(ctx, &ssm.GetParameterInput{Name: &name})
	if err != nil {
		return "", fmt.Errorf("finding the AL2023 image: %w", err)
	}
	if out.Parameter == nil || out.Parameter.Value == nil {
		return "", fmt.Errorf("parameter %s is empty", name)
	}
	return *out.Parameter.Value, nil
}

func encode(text string) *string { return aws.String(base64.StdEncoding.EncodeToString([]byte(text))) }
