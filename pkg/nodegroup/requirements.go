package nodegroup

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/inventory/awsapi"
)

// resolveRequirements asks EC2 which types the group's instance requirements stand for: those of its overrides, or
// those of its launch template when nothing overrides them.
func (c *Client) resolveRequirements(ctx context.Context, g astypes.AutoScalingGroup, out *inventory.NodeGroup) error {
	if out.MixedInstances == nil {
		return nil
	}
	policy := g.MixedInstancesPolicy
	if policy.LaunchTemplate != nil {
		for i, o := range policy.LaunchTemplate.Overrides {
			if o.InstanceRequirements == nil {
				continue
			}
			types, err := c.typesOf(ctx, o.InstanceRequirements, *out)
			if err != nil {
				return err
			}
			out.MixedInstances.Overrides[i].Types = types
		}
	}
	t := out.LaunchTemplate
	data, ok := c.cache.templates.get(t.ID + t.Name + ":" + t.Version)
	if len(out.MixedInstances.Overrides) > 0 || !ok || data.InstanceRequirements == nil {
		return nil
	}
	types, err := c.typesOf(ctx, data.InstanceRequirements, *out)
	out.MixedInstances.Overrides = []inventory.Override{{Requirements: true, Types: types}}
	return err
}

// typesOf are the instance types that satisfy the requirements on the architecture of the group's image, sorted. The
// requirements of Auto Scaling and of launch templates have the members of EC2's request, name for name.
func (c *Client) typesOf(ctx context.Context, requirements any, g inventory.NodeGroup) ([]string, error) {
	object := "instance requirements of node group " + g.Name
	in := &ec2.GetInstanceTypesFromInstanceRequirementsInput{
		ArchitectureTypes:    architectures(g.LaunchTemplate.Image),
		VirtualizationTypes:  []ec2types.VirtualizationType{ec2types.VirtualizationTypeHvm},
		InstanceRequirements: &ec2types.InstanceRequirementsRequest{},
	}
	written, err := json.Marshal(requirements)
	if err == nil {
		err = json.Unmarshal(written, in.InstanceRequirements)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", object, err)
	}
	key := fmt.Sprint(in.ArchitectureTypes, string(written))
	if types, ok := c.cache.types.get(key); ok {
		return slices.Clone(types), nil
	}
	var types []string
	pages := ec2.NewGetInstanceTypesFromInstanceRequirementsPaginator(c.ec2, in)
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, awsapi.Wrap(err, "ec2:GetInstanceTypesFromInstanceRequirements", object)
		}
		for _, t := range page.InstanceTypes {
			types = append(types, aws.ToString(t.InstanceType))
		}
	}
	slices.Sort(types)
	c.cache.types.put(key, types)
	return slices.Clone(types), nil
}

// architectures are what the image runs on, or both that EKS knows when it is not known.
func architectures(image *inventory.Image) []ec2types.ArchitectureType {
	if image != nil && image.Architecture != "" {
		return []ec2types.ArchitectureType{ec2types.ArchitectureType(image.Architecture)}
	}
	return []ec2types.ArchitectureType{ec2types.ArchitectureTypeX8664, ec2types.ArchitectureTypeArm64}
}
