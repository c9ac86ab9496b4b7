package nodegroup

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/inventory/awsapi"
)

// resourceGroup is Auto Scaling's word for what its tags are on (API reference, Tag).
const resourceGroup = "auto-scaling-group"

// HideGroup takes the tags off the Auto Scaling group by which a Cluster Autoscaler finds it. Before that it marks the group, so that
// whoever looks knows who did; tags that are not there are fine.
func (c *Client) HideGroup(ctx context.Context, asg string, keys []string) error {
	if err := c.putTags(ctx, asg, inventory.Tag{Key: v1alpha1.TagHandedOver, Value: v1alpha1.TagManagedByValue}); err != nil {
		return err
	}
	return c.deleteTags(ctx, asg, keys...)
}

// ShowGroup gives the tags back as they were recorded, and takes the mark off after that.
func (c *Client) ShowGroup(ctx context.Context, asg string, tags []inventory.Tag) error {
	if len(tags) > 0 {
		if err := c.putTags(ctx, asg, tags...); err != nil {
			return err
		}
	}
	return c.deleteTags(ctx, asg, v1alpha1.TagHandedOver)
}

func (c *Client) putTags(ctx context.Context, asg string, tags ...inventory.Tag) error {
	in := &autoscaling.CreateOrUpdateTagsInput{}
	for _, t := range tags {
		in.Tags = append(in.Tags, astypes.Tag{
			ResourceId: aws.String(asg), ResourceType: aws.String(resourceGroup),
			Key: aws.String(t.Key), Value: aws.String(t.Value), PropagateAtLaunch: aws.Bool(t.Propagate),
		})
	}
	_, err := c.asg.CreateOrUpdateTags(ctx, in)
	return awsapi.Wrap(err, "autoscaling:CreateOrUpdateTags", "Auto Scaling group "+asg)
}

func (c *Client) deleteTags(ctx context.Context, asg string, keys ...string) error {
	in := &autoscaling.DeleteTagsInput{}
	for _, key := range keys {
		in.Tags = append(in.Tags, astypes.Tag{ResourceId: aws.String(asg), ResourceType: aws.String(resourceGroup), Key: aws.String(key)})
	}
	_, err := c.asg.DeleteTags(ctx, in)
	return awsapi.Wrap(err, "autoscaling:DeleteTags", "Auto Scaling group "+asg)
}
