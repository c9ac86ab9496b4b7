package awssim

import (
	"maps"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
)

const taggedResource = "auto-scaling-group"

func (g *scalingGroup) tag(t types.Tag) {
	g.tags[aws.ToString(t.Key)] = types.TagDescription{
		Key: t.Key, Value: aws.String(aws.ToString(t.Value)), PropagateAtLaunch: aws.Bool(or(t.PropagateAtLaunch, false)),
		ResourceId: g.spec.AutoScalingGroupName, ResourceType: aws.String(taggedResource),
	}
}

// propagated are the tags that launched instances get.
func (g *scalingGroup) propagated() map[string]string {
	tags := map[string]string{}
	for k, t := range g.tags {
		if or(t.PropagateAtLaunch, false) {
			tags[k] = aws.ToString(t.Value)
		}
	}
	tags[groupTag] = g.name()
	return tags
}

func sortedTags(tags map[string]types.TagDescription) (list []types.TagDescription) {
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		list = append(list, tags[k])
	}
	return list
}

func (a *autoscalingService) createOrUpdateTags(_ *call, in *autoscaling.CreateOrUpdateTagsInput) (*autoscaling.CreateOrUpdateTagsOutput, error) {
	groups, err := a.taggedGroups(in.Tags)
	if err != nil {
		return nil, err
	}
	for i, t := range in.Tags {
		groups[i].tag(t)
		a.touch(groups[i])
	}
	return &autoscaling.CreateOrUpdateTagsOutput{}, nil
}

func (a *autoscalingService) deleteTags(_ *call, in *autoscaling.DeleteTagsInput) (*autoscaling.DeleteTagsOutput, error) {
	groups, err := a.taggedGroups(in.Tags)
	if err != nil {
		return nil, err
	}
	for i, t := range in.Tags {
		delete(groups[i].tags, aws.ToString(t.Key))
		a.touch(groups[i])
	}
	return &autoscaling.DeleteTagsOutput{}, nil
}

// taggedGroups finds each tag's group, all of them or none.
func (a *autoscalingService) taggedGroups(tags []types.Tag) (groups []*scalingGroup, err error) {
	for _, t := range tags {
		if kind := aws.ToString(t.ResourceType); kind != taggedResource {
			return nil, validation("Tag resource type %q is not supported. Valid values: [%s].", kind, taggedResource)
		}
		g, err := a.group(t.ResourceId)
		if err != nil {
			return nil, err
		}
		groups = append(groups, g)
	}
	return groups, nil
}

func (a *autoscalingService) describeTags(c *call, in *autoscaling.DescribeTagsInput) (*autoscaling.DescribeTagsOutput, error) {
	var list []types.TagDescription
	for _, d := range a.shown.asOf(c.readTime()).where(nil) {
		for _, t := range d.Group.Tags {
			if matchesDescription(in.Filters, t) {
				list = append(list, t)
			}
		}
	}
	list, next, err := pageOf(a.s, list, in.MaxRecords, 50, in.NextToken)
	if err != nil {
		return nil, err
	}
	return &autoscaling.DescribeTagsOutput{Tags: append([]types.TagDescription{}, list...), NextToken: next}, nil
}

func matchesDescription(filters []types.Filter, t types.TagDescription) bool {
	have := map[string]string{
		taggedResource: aws.ToString(t.ResourceId), "key": aws.ToString(t.Key), "value": aws.ToString(t.Value),
		"propagate-at-launch": strconv.FormatBool(or(t.PropagateAtLaunch, false)),
	}
	for _, f := range filters {
		if v, known := have[aws.ToString(f.Name)]; !known || !slices.Contains(f.Values, v) {
			return false
		}
	}
	return true
}
