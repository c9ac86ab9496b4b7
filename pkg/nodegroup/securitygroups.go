package nodegroup

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/inventory/awsapi"
)

// SecurityGroups are those that carry the tag kubernetes.io/cluster/<name>, whatever its value: what looks after load balancers takes
// them for the one of a node.
func (c *Client) SecurityGroups(ctx context.Context) ([]inventory.SecurityGroup, error) {
	tag := "kubernetes.io/cluster/" + c.cluster
	var out []inventory.SecurityGroup
	pages := ec2.NewDescribeSecurityGroupsPaginator(c.ec2, &ec2.DescribeSecurityGroupsInput{
		Filters: []ec2types.Filter{{Name: aws.String("tag-key"), Values: []string{tag}}},
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, awsapi.Wrap(err, "ec2:DescribeSecurityGroups", "security groups with the tag "+tag)
		}
		for _, g := range page.SecurityGroups {
			out = append(out, inventory.SecurityGroup{ID: aws.ToString(g.GroupId), Name: aws.ToString(g.GroupName)})
		}
	}
	return out, nil
}
