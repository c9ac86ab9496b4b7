package nodegroup

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/inventory/awsapi"
)

// instancesAtOnce is the most that one page may hold (EC2 API reference, DescribeInstances).
const instancesAtOnce = 1000

// LaunchedByKarpenter lists the ids of the instances that Karpenter launched for the cluster and that nobody has ended, by its own
// tags (Karpenter, "NodeClasses", tags of instances), sorted. A cluster of the same name in another VPC is another cluster.
func (c *Client) LaunchedByKarpenter(ctx context.Context, cluster inventory.Cluster) ([]string, error) {
	filter := func(name string, values ...string) ec2types.Filter {
		return ec2types.Filter{Name: aws.String(name), Values: values}
	}
	filters := []ec2types.Filter{
		filter("tag-key", "karpenter.sh/nodepool"), filter("tag:eks:eks-cluster-name", c.cluster),
		filter("instance-state-name", "pending", "running", "stopping", "stopped"),
	}
	if cluster.VPC != "" {
		filters = append(filters, filter("vpc-id", cluster.VPC))
	}
	var ids []string
	pages := ec2.NewDescribeInstancesPaginator(c.ec2, &ec2.DescribeInstancesInput{MaxResults: aws.Int32(instancesAtOnce), Filters: filters})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, awsapi.Wrap(err, "ec2:DescribeInstances", "instances that Karpenter launched")
		}
		for _, r := range page.Reservations {
			for _, i := range r.Instances {
				ids = append(ids, aws.ToString(i.InstanceId))
			}
		}
	}
	slices.Sort(ids)
	return ids, nil
}
