package awssim

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"
)

// podIdentityAddon is the add-on that every new cluster here has: without it no association gives credentials.
const podIdentityAddon = "eks-pod-identity-agent"

func (e *eksService) addAddon(cluster, name string) types.Addon {
	a := types.Addon{
		AddonName: aws.String(name), AddonArn: aws.String(e.arn("addon/" + cluster + "/" + name + "/" + e.s.uuid())), AddonVersion: aws.String("v1.3.10-eksbuild.1"), ClusterName: aws.String(cluster),
		Status: types.AddonStatusActive, Health: &types.AddonHealth{Issues: []types.AddonIssue{}}, CreatedAt: aws.Time(e.s.now()), ModifiedAt: aws.Time(e.s.now()),
	}
	e.addons.put(cluster+"/"+name, a)
	return a
}

func (e *eksService) createAddon(_ *call, in *eks.CreateAddonInput) (*eks.CreateAddonOutput, error) {
	if _, err := e.cluster(in.ClusterName); err != nil {
		return nil, err
	}
	if _, exists := e.addons.get(*in.ClusterName + "/" + aws.ToString(in.AddonName)); exists {
		return nil, inUse("Addon already exists.")
	}
	a := e.addAddon(*in.ClusterName, aws.ToString(in.AddonName))
	return &eks.CreateAddonOutput{Addon: &a}, nil
}

func (e *eksService) addon(v view[types.Addon], cluster, name *string) (types.Addon, error) {
	if _, err := e.cluster(cluster); err != nil {
		return types.Addon{}, err
	}
	a, ok := v.get(aws.ToString(cluster) + "/" + aws.ToString(name))
	if !ok {
		return a, notFound("No addon: %s found in cluster: %s", aws.ToString(name), aws.ToString(cluster))
	}
	return a, nil
}

func (e *eksService) describeAddon(c *call, in *eks.DescribeAddonInput) (*eks.DescribeAddonOutput, error) {
	a, err := e.addon(e.addons.asOf(c.readTime()), in.ClusterName, in.AddonName)
	if err != nil {
		return nil, err
	}
	return &eks.DescribeAddonOutput{Addon: &a}, nil
}

func (e *eksService) listAddons(c *call, in *eks.ListAddonsInput) (*eks.ListAddonsOutput, error) {
	if _, err := e.cluster(in.ClusterName); err != nil {
		return nil, err
	}
	names, next, err := listNames(e.addons.asOf(c.readTime()), *in.ClusterName, in.MaxResults, in.NextToken, func(a types.Addon) string { return aws.ToString(a.AddonName) })
	return &eks.ListAddonsOutput{Addons: names, NextToken: next}, err
}

func (e *eksService) deleteAddon(_ *call, in *eks.DeleteAddonInput) (*eks.DeleteAddonOutput, error) {
	a, err := e.addon(e.addons.truth(), in.ClusterName, in.AddonName)
	if err != nil {
		return nil, err
	}
	e.addons.delete(*in.ClusterName + "/" + *in.AddonName)
	return &eks.DeleteAddonOutput{Addon: &a}, nil
}
