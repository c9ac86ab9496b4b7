package nodegroup

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/inventory/awsapi"
)

// DeletePolicies deletes the named scaling policies of the Auto Scaling group. Target tracking's alarms go with theirs;
// others stay, without that action (API reference of DeletePolicy). A policy, or a group, that is not there is done.
func (c *Client) DeletePolicies(ctx context.Context, asg string, names []string) error {
	for _, name := range names {
		_, err := c.asg.DeletePolicy(ctx, &autoscaling.DeletePolicyInput{AutoScalingGroupName: aws.String(asg), PolicyName: aws.String(name)})
		if awsapi.Is(err, codeValidation) {
			err = c.whyNotDeleted(ctx, asg, name, err)
		} else {
			err = awsapi.Wrap(err, "autoscaling:DeletePolicy", policyOf(name, asg))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func policyOf(name, asg string) string {
	return fmt.Sprintf("scaling policy %s of Auto Scaling group %s", name, asg)
}

// whyNotDeleted looks whether the policy is gone, which Auto Scaling calls invalid like a real refusal. One that is still
// shown may only be so because reads lag: it is tried again.
func (c *Client) whyNotDeleted(ctx context.Context, asg, name string, cause error) error {
	groups, err := c.groupsNamed(ctx, []string{asg})
	if err != nil || len(groups) == 0 {
		return err
	}
	left, err := c.scalingPolicies(ctx, asg)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(left, func(p inventory.ScalingPolicy) bool { return p.Name == name }) {
		return nil
	}
	return fmt.Errorf("%s: autoscaling:DeletePolicy left it, it is tried again: %w", policyOf(name, asg), cause)
}

// DeleteGroup deletes the group that was recorded as g: the EKS managed node group, with all that EKS made for it, or the
// Auto Scaling group, never by force. It reads the group first and refuses while an instance is left or asked for, or
// when the name belongs to another group by now; whether that passes is for the caller to see, so such an error may be
// tried again. It is inventory.Terminal when AWS protects the group from deletion. A group that is gone, or going, is
// done.
func (c *Client) DeleteGroup(ctx context.Context, g inventory.NodeGroup) error {
	if g.Managed != nil {
		return c.deleteNodegroup(ctx, g)
	}
	object := "Auto Scaling group " + g.AutoScalingGroup
	groups, err := c.groupsNamed(ctx, []string{g.AutoScalingGroup})
	if err != nil {
		return err
	}
	if len(groups) == 0 || groups[0].Status != nil { // the status is there only while the group is being deleted
		return nil
	}
	now := groups[0]
	if err := sameGroup(object, g.ARN, aws.ToString(now.AutoScalingGroupARN)); err != nil {
		return err
	}
	if err := deletable(object, now); err != nil {
		return err
	}
	_, err = c.asg.DeleteAutoScalingGroup(ctx, &autoscaling.DeleteAutoScalingGroupInput{AutoScalingGroupName: now.AutoScalingGroupName})
	if awsapi.Is(err, codeValidation) { // what it could refuse was looked at before: by now the group is gone, or changed
		return fmt.Errorf("%s: it was changed or deleted while it was looked at (autoscaling:DeleteAutoScalingGroup), it is looked at again: %w", object, err)
	}
	return awsapi.Wrap(err, "autoscaling:DeleteAutoScalingGroup", object)
}

// deleteNodegroup deletes a managed node group. EKS would end the instances of one that is not empty, drained or not
// after five minutes (EKS user guide, "Delete a managed node group"): only the look before keeps it from that.
func (c *Client) deleteNodegroup(ctx context.Context, g inventory.NodeGroup) error {
	object := "EKS managed node group " + g.Name
	out, err := c.eks.DescribeNodegroup(ctx, &eks.DescribeNodegroupInput{ClusterName: aws.String(c.cluster), NodegroupName: aws.String(g.Name)})
	if awsapi.Is(err, codeNotFound) {
		return nil
	}
	if err != nil {
		return awsapi.Wrap(err, "eks:DescribeNodegroup", object)
	}
	if out.Nodegroup == nil {
		return fmt.Errorf("%s: EKS answered without a node group, it is tried again", object)
	}
	if out.Nodegroup.Status == ekstypes.NodegroupStatusDeleting {
		return nil
	}
	if err := sameGroup(object, g.ARN, aws.ToString(out.Nodegroup.NodegroupArn)); err != nil {
		return err
	}
	groups, err := c.groupsNamed(ctx, ownedGroups(out.Nodegroup))
	if err != nil {
		return err
	}
	for _, now := range groups {
		if err := deletable(object, now); err != nil {
			return err
		}
	}
	_, err = c.eks.DeleteNodegroup(ctx, &eks.DeleteNodegroupInput{ClusterName: aws.String(c.cluster), NodegroupName: aws.String(g.Name)})
	if awsapi.Is(err, codeNotFound) {
		return nil
	}
	return awsapi.Wrap(err, "eks:DeleteNodegroup", object)
}

// sameGroup is an error when the name belongs to another group than the recorded one: an ARN holds an ID of its own.
func sameGroup(object, recorded, now string) error {
	if recorded == "" || recorded == now {
		return nil
	}
	return fmt.Errorf("%s: it is not the group that was recorded (%s, now %s), so it is not deleted: if it should go, delete it by hand", object, recorded, now)
}

// namedInstances is how many instances an error names.
const namedInstances = 3

// deletable is an error that says what keeps the Auto Scaling group behind object from being deleted.
func deletable(object string, g astypes.AutoScalingGroup) error {
	var left []string
	for _, i := range g.Instances {
		left = append(left, aws.ToString(i.InstanceId))
	}
	switch desired := aws.ToInt32(g.DesiredCapacity); {
	case len(left) > 0:
		return fmt.Errorf("%s: it still has %s (%s), so it is not deleted; it is looked at again", object, inventory.Count(len(left), "instance"), strings.Join(left[:min(len(left), namedInstances)], ", "))
	case desired > 0:
		return fmt.Errorf("%s: somebody asks it for %s again, so it is not deleted: set its desired capacity to 0 if it should go", object, inventory.Count(desired, "instance"))
	case g.WarmPoolConfiguration != nil:
		return fmt.Errorf("%s: it has a warm pool, so it is not deleted: delete the pool first (aws autoscaling delete-warm-pool)", object)
	case g.DeletionProtection == astypes.DeletionProtectionPreventAllDeletion:
		return inventory.Terminal(fmt.Errorf("%s: AWS protects it from deletion (deletion protection %s): take the protection off, or keep the group", object, g.DeletionProtection))
	default:
		return nil
	}
}
