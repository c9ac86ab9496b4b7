package controllers

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
)

// ec2Call is a method of the SDK's EC2 client.
type ec2Call[I, O any] func(context.Context, *I, ...func(*ec2.Options)) (*O, error)

// ec2Calls are the calls of EC2 that castoff makes, each held as a function. An SDK client that is itself put into an
// interface brings all of its seven hundred operations into the binary, because Helm's templates call methods by name and the
// linker then keeps every method that could be: 20 MiB of code, and as much memory, for a handful of calls.
type ec2Calls struct {
	launchTemplates        ec2Call[ec2.DescribeLaunchTemplatesInput, ec2.DescribeLaunchTemplatesOutput]
	launchTemplateVersions ec2Call[ec2.DescribeLaunchTemplateVersionsInput, ec2.DescribeLaunchTemplateVersionsOutput]
	images                 ec2Call[ec2.DescribeImagesInput, ec2.DescribeImagesOutput]
	securityGroups         ec2Call[ec2.DescribeSecurityGroupsInput, ec2.DescribeSecurityGroupsOutput]
	describedTypes         ec2Call[ec2.DescribeInstanceTypesInput, ec2.DescribeInstanceTypesOutput]
	instanceTypes          ec2Call[ec2.GetInstanceTypesFromInstanceRequirementsInput, ec2.GetInstanceTypesFromInstanceRequirementsOutput]
	subnets                ec2Call[ec2.DescribeSubnetsInput, ec2.DescribeSubnetsOutput]
	vpcs                   ec2Call[ec2.DescribeVpcsInput, ec2.DescribeVpcsOutput]
	dhcpOptions            ec2Call[ec2.DescribeDhcpOptionsInput, ec2.DescribeDhcpOptionsOutput]
	instances              ec2Call[ec2.DescribeInstancesInput, ec2.DescribeInstancesOutput]
}

func newEC2Calls(c *ec2.Client) ec2Calls {
	return ec2Calls{
		launchTemplates: c.DescribeLaunchTemplates, launchTemplateVersions: c.DescribeLaunchTemplateVersions,
		images: c.DescribeImages, securityGroups: c.DescribeSecurityGroups, describedTypes: c.DescribeInstanceTypes, instanceTypes: c.GetInstanceTypesFromInstanceRequirements,
		subnets:     c.DescribeSubnets,
		vpcs:        c.DescribeVpcs,
		dhcpOptions: c.DescribeDhcpOptions,
		instances:   c.DescribeInstances,
	}
}

// DescribeLaunchTemplates is the SDK's.
func (c ec2Calls) DescribeLaunchTemplates(ctx context.Context, in *ec2.DescribeLaunchTemplatesInput, o ...func(*ec2.Options)) (*ec2.DescribeLaunchTemplatesOutput, error) {
	return c.launchTemplates(ctx, in, o...)
}

// DescribeLaunchTemplateVersions is the SDK's.
func (c ec2Calls) DescribeLaunchTemplateVersions(ctx context.Context, in *ec2.DescribeLaunchTemplateVersionsInput, o ...func(*ec2.Options)) (*ec2.DescribeLaunchTemplateVersionsOutput, error) {
	return c.launchTemplateVersions(ctx, in, o...)
}

// DescribeImages is the SDK's.
func (c ec2Calls) DescribeImages(ctx context.Context, in *ec2.DescribeImagesInput, o ...func(*ec2.Options)) (*ec2.DescribeImagesOutput, error) {
	return c.images(ctx, in, o...)
}

// DescribeSecurityGroups is the SDK's.
func (c ec2Calls) DescribeSecurityGroups(ctx context.Context, in *ec2.DescribeSecurityGroupsInput, o ...func(*ec2.Options)) (*ec2.DescribeSecurityGroupsOutput, error) {
	return c.securityGroups(ctx, in, o...)
}

// DescribeInstanceTypes is the SDK's.
func (c ec2Calls) DescribeInstanceTypes(ctx context.Context, in *ec2.DescribeInstanceTypesInput, o ...func(*ec2.Options)) (*ec2.DescribeInstanceTypesOutput, error) {
	return c.describedTypes(ctx, in, o...)
}

// GetInstanceTypesFromInstanceRequirements is the SDK's.
func (c ec2Calls) GetInstanceTypesFromInstanceRequirements(ctx context.Context, in *ec2.GetInstanceTypesFromInstanceRequirementsInput, o ...func(*ec2.Options)) (*ec2.GetInstanceTypesFromInstanceRequirementsOutput, error) {
	return c.instanceTypes(ctx, in, o...)
}

// DescribeSubnets is the SDK's.
func (c ec2Calls) DescribeSubnets(ctx context.Context, in *ec2.DescribeSubnetsInput, o ...func(*ec2.Options)) (*ec2.DescribeSubnetsOutput, error) {
	return c.subnets(ctx, in, o...)
}

// DescribeVpcs is the SDK's.
func (c ec2Calls) DescribeVpcs(ctx context.Context, in *ec2.DescribeVpcsInput, o ...func(*ec2.Options)) (*ec2.DescribeVpcsOutput, error) {
	return c.vpcs(ctx, in, o...)
}

// DescribeDhcpOptions is the SDK's.
func (c ec2Calls) DescribeDhcpOptions(ctx context.Context, in *ec2.DescribeDhcpOptionsInput, o ...func(*ec2.Options)) (*ec2.DescribeDhcpOptionsOutput, error) {
	return c.dhcpOptions(ctx, in, o...)
}

// DescribeInstances is the SDK's.
func (c ec2Calls) DescribeInstances(ctx context.Context, in *ec2.DescribeInstancesInput, o ...func(*ec2.Options)) (*ec2.DescribeInstancesOutput, error) {
	return c.instances(ctx, in, o...)
}
