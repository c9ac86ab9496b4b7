package awssim

import (
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
)

func (a *autoscalingService) describeAutoScalingGroups(c *call, in *autoscaling.DescribeAutoScalingGroupsInput) (*autoscaling.DescribeAutoScalingGroupsOutput, error) {
	for _, f := range in.Filters {
		if n := aws.ToString(f.Name); n != "tag-key" && n != "tag-value" && !strings.HasPrefix(n, "tag:") {
			return nil, validation("Filter type %s is not supported. Valid values are tag-key, tag-value and tag:<key>", n)
		}
	}
	list := a.shown.asOf(c.readTime()).where(func(d *groupDetails) bool {
		return named(in.AutoScalingGroupNames, d.Group.AutoScalingGroupName) && matchesTags(in.Filters, d.Group.Tags)
	})
	list, next, err := pageOf(a.s, list, in.MaxRecords, 50, in.NextToken)
	if err != nil {
		return nil, err
	}
	out := &autoscaling.DescribeAutoScalingGroupsOutput{AutoScalingGroups: []types.AutoScalingGroup{}, NextToken: next}
	for _, d := range list {
		if in.IncludeInstances != nil && !*in.IncludeInstances {
			d.Group.Instances = nil
		}
		out.AutoScalingGroups = append(out.AutoScalingGroups, d.Group)
	}
	return out, nil
}

// matchesTags says whether tags satisfy all filters, each by any of its values.
func matchesTags(filters []types.Filter, tags []types.TagDescription) bool {
	for _, f := range filters {
		if !slices.ContainsFunc(tags, func(t types.TagDescription) bool { return matchesTag(f, t) }) {
			return false
		}
	}
	return true
}

func matchesTag(f types.Filter, t types.TagDescription) bool {
	key, value := aws.ToString(t.Key), aws.ToString(t.Value)
	switch name := aws.ToString(f.Name); name {
	case "tag-key":
		return slices.Contains(f.Values, key)
	case "tag-value":
		return slices.Contains(f.Values, value)
	default:
		return strings.TrimPrefix(name, "tag:") == key && slices.Contains(f.Values, value)
	}
}

func (a *autoscalingService) describeAutoScalingInstances(c *call, in *autoscaling.DescribeAutoScalingInstancesInput) (*autoscaling.DescribeAutoScalingInstancesOutput, error) {
	var list []types.AutoScalingInstanceDetails
	for _, d := range a.shown.asOf(c.readTime()).where(nil) {
		for _, i := range d.Group.Instances {
			if named(in.InstanceIds, i.InstanceId) {
				list = append(list, instanceDetails(d.Group.AutoScalingGroupName, i))
			}
		}
	}
	list, next, err := pageOf(a.s, list, in.MaxRecords, 50, in.NextToken)
	if err != nil {
		return nil, err
	}
	return &autoscaling.DescribeAutoScalingInstancesOutput{AutoScalingInstances: list, NextToken: next}, nil
}

func instanceDetails(group *string, i types.Instance) types.AutoScalingInstanceDetails {
	return types.AutoScalingInstanceDetails{
		AutoScalingGroupName: group, InstanceId: i.InstanceId, InstanceType: i.InstanceType, AvailabilityZone: i.AvailabilityZone, ImageId: i.ImageId,
		LifecycleState: aws.String(string(i.LifecycleState)), HealthStatus: aws.String(strings.ToUpper(aws.ToString(i.HealthStatus))),
		ProtectedFromScaleIn: i.ProtectedFromScaleIn, LaunchTemplate: i.LaunchTemplate, LaunchConfigurationName: i.LaunchConfigurationName, WeightedCapacity: i.WeightedCapacity,
	}
}

func (a *autoscalingService) describeScalingActivities(_ *call, in *autoscaling.DescribeScalingActivitiesInput) (*autoscaling.DescribeScalingActivitiesOutput, error) {
	if in.AutoScalingGroupName != nil && !or(in.IncludeDeletedGroups, false) {
		if _, err := a.group(in.AutoScalingGroupName); err != nil {
			return nil, err
		}
	}
	var list []types.Activity
	for _, name := range a.order {
		if g := a.groups[name]; g != nil && (in.AutoScalingGroupName == nil || *in.AutoScalingGroupName == name) {
			for _, act := range g.activities {
				if named(in.ActivityIds, act.ActivityId) {
					list = append(list, *act)
				}
			}
		}
	}
	list, next, err := pageOf(a.s, list, in.MaxRecords, 100, in.NextToken)
	if err != nil {
		return nil, err
	}
	return &autoscaling.DescribeScalingActivitiesOutput{Activities: append([]types.Activity{}, list...), NextToken: next}, nil
}

// named says whether a name is among those asked for; none asked for means all.
func named(names []string, name *string) bool {
	return len(names) == 0 || slices.Contains(names, aws.ToString(name))
}
