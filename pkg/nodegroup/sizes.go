package nodegroup

import (
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/inventory/awsapi"
)

// typesAtOnce is how many instance types one call describes (EC2 API reference, DescribeInstanceTypes).
const typesAtOnce = 100

// resolveSizes adds what EC2 says of the instance types that the groups may launch.
func (c *Client) resolveSizes(ctx context.Context, groups []inventory.NodeGroup) error {
	var missing []string
	for _, g := range groups {
		for _, name := range launches(g) {
			if _, ok := c.cache.sizes.get(name); !ok {
				missing = append(missing, name)
			}
		}
	}
	slices.Sort(missing)
	for names := range slices.Chunk(slices.Compact(missing), typesAtOnce) {
		if err := c.readSizes(ctx, names); err != nil {
			return err
		}
	}
	for i := range groups {
		for _, name := range launches(groups[i]) {
			if size, ok := c.cache.sizes.get(name); ok {
				groups[i].Types = append(groups[i].Types, size)
			}
		}
	}
	return nil
}

func (c *Client) readSizes(ctx context.Context, names []string) error {
	err := c.eachType(ctx, names, func(t inventory.InstanceType) { c.cache.sizes.put(t.Name, t) })
	return awsapi.Wrap(err, "ec2:DescribeInstanceTypes", "instance types "+strings.Join(names, ", "))
}

// eachType visits the instance types of these names, which may have wildcards (EC2 API reference, "Filter"). It asks by filter: a
// name that does not exist would else fail the call for all.
func (c *Client) eachType(ctx context.Context, names []string, visit func(inventory.InstanceType)) error {
	pages := ec2.NewDescribeInstanceTypesPaginator(c.ec2, &ec2.DescribeInstanceTypesInput{
		Filters: []ec2types.Filter{{Name: aws.String("instance-type"), Values: names}},
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return err
		}
		for _, t := range page.InstanceTypes {
			visit(awsapi.InstanceType(t))
		}
	}
	return nil
}

// launches are the names of the types that a group may launch, sorted.
func launches(g inventory.NodeGroup) []string {
	names := []string{g.LaunchTemplate.InstanceType}
	if g.Managed != nil {
		names = append(names, g.Managed.InstanceTypes...)
	}
	if g.MixedInstances != nil {
		for _, o := range g.MixedInstances.Overrides {
			names = append(append(names, o.InstanceType), o.Types...)
		}
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool { return name == "" })
}
