package nodegroup

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/arn"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/inventory/awsapi"
)

// ErrClusterNotFound says that EKS knows no cluster of that name in the region and account that castoff runs in.
var ErrClusterNotFound = errors.New("EKS knows no such cluster")

// codeNotFound is EKS' code for a cluster, node group or update that does not exist.
const codeNotFound = "ResourceNotFoundException"

// Cluster reads the EKS cluster. Its Same is left false: that takes the Kubernetes side to tell. The error is
// ErrClusterNotFound (errors.Is) when EKS does not know the name.
func (c *Client) Cluster(ctx context.Context) (inventory.Cluster, error) {
	object := "EKS cluster " + c.cluster
	out, err := c.eks.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: aws.String(c.cluster)})
	if awsapi.Is(err, codeNotFound) {
		return inventory.Cluster{}, inventory.Terminal(fmt.Errorf("%s: %w in this region and account: correct spec.clusterName, or the region castoff runs with", object, ErrClusterNotFound))
	}
	if err != nil {
		return inventory.Cluster{}, awsapi.Wrap(err, "eks:DescribeCluster", object)
	}
	if out.Cluster == nil {
		return inventory.Cluster{}, fmt.Errorf("%s: EKS answered without a cluster, it is tried again", object)
	}
	parsed, err := arn.Parse(aws.ToString(out.Cluster.Arn))
	if err != nil {
		return inventory.Cluster{}, fmt.Errorf("%s: its ARN %q: %w", object, aws.ToString(out.Cluster.Arn), err)
	}
	cluster := clusterOf(*out.Cluster)
	cluster.Account, cluster.Region, cluster.Partition = parsed.AccountID, parsed.Region, parsed.Partition
	return cluster, nil
}

func clusterOf(in types.Cluster) inventory.Cluster {
	out := inventory.Cluster{
		Name:     aws.ToString(in.Name),
		ARN:      aws.ToString(in.Arn),
		Version:  aws.ToString(in.Version),
		Endpoint: aws.ToString(in.Endpoint),
	}
	if in.CertificateAuthority != nil {
		out.CABundle = aws.ToString(in.CertificateAuthority.Data)
	}
	if v := in.ResourcesVpcConfig; v != nil {
		out.VPC, out.SecurityGroup = aws.ToString(v.VpcId), aws.ToString(v.ClusterSecurityGroupId)
	}
	if n := in.KubernetesNetworkConfig; n != nil {
		out.ServiceCIDR = aws.ToString(n.ServiceIpv4Cidr)
		if n.IpFamily == types.IpFamilyIpv6 {
			out.ServiceCIDR = aws.ToString(n.ServiceIpv6Cidr)
		}
	}
	// A cluster from before access entries has no AccessConfig; it reads aws-auth alone.
	out.AuthenticationMode = string(types.AuthenticationModeConfigMap)
	if a := in.AccessConfig; a != nil && a.AuthenticationMode != "" {
		out.AuthenticationMode = string(a.AuthenticationMode)
	}
	out.AutoMode = in.ComputeConfig != nil && aws.ToBool(in.ComputeConfig.Enabled)
	return out
}
