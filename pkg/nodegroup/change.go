package nodegroup

import (
	"context"
	"encoding/json"
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

// Limits of one call, from the API reference of EC2 Auto Scaling.
const (
	maxEndedInstances   = 100
	maxScheduledActions = 50
)

// codeValidation is Auto Scaling's code for a group, action or instance that does not exist and for a value it refuses.
const codeValidation = "ValidationError"

// DisablePolicies makes the named scaling policies of the group unable to change its size, and keeps them: their ARNs,
// and so their alarms' targets, survive. A predictive policy forecasts only. Policies that are inactive already, or
// that the group does not have, are left alone.
func (c *Client) DisablePolicies(ctx context.Context, g inventory.NodeGroup, names []string) error {
	for _, p := range g.ScalingPolicies {
		if !p.Active || !slices.Contains(names, p.Name) {
			continue
		}
		in, err := disabledPolicy(p)
		if err != nil {
			return err
		}
		if err := c.putPolicy(ctx, g.AutoScalingGroup, in); err != nil {
			return err
		}
	}
	return nil
}

// disabledPolicy asks for the policy with the same definition, switched off.
func disabledPolicy(p inventory.ScalingPolicy) (*autoscaling.PutScalingPolicyInput, error) {
	in, err := policyRequest(p)
	if err != nil {
		return nil, err
	}
	if in.PredictiveScalingConfiguration != nil {
		in.PredictiveScalingConfiguration.Mode = astypes.PredictiveScalingModeForecastOnly
		return in, nil
	}
	in.Enabled = aws.Bool(false)
	return in, nil
}

// policyRequest asks for the policy as it is. The members of AWS' answer and of its request have the same names and
// types, so the definition that was read is the request.
func policyRequest(p inventory.ScalingPolicy) (*autoscaling.PutScalingPolicyInput, error) {
	in := &autoscaling.PutScalingPolicyInput{}
	definition, err := json.Marshal(p.Definition)
	if err == nil {
		err = json.Unmarshal(definition, in)
	}
	if err != nil {
		return nil, fmt.Errorf("scaling policy %s: its recorded definition is not one: %w", p.Name, err)
	}
	in.PolicyName, in.PolicyType = aws.String(p.Name), aws.String(p.Type)
	return in, nil
}

// putPolicy changes a policy of the group, which keeps its ARN.
func (c *Client) putPolicy(ctx context.Context, asg string, in *autoscaling.PutScalingPolicyInput) error {
	in.AutoScalingGroupName = aws.String(asg)
	_, err := c.asg.PutScalingPolicy(ctx, in)
	return awsapi.Wrap(err, "autoscaling:PutScalingPolicy", policyOf(aws.ToString(in.PolicyName), asg))
}

// DeleteScheduledActions removes the named scheduled actions from the Auto Scaling group. An action that is not there is
// done; those that Auto Scaling refused to delete are named in the error.
func (c *Client) DeleteScheduledActions(ctx context.Context, asg string, names []string) error {
	object := "scheduled actions of Auto Scaling group " + asg
	for batch := range slices.Chunk(names, maxScheduledActions) {
		out, err := c.asg.BatchDeleteScheduledAction(ctx, &autoscaling.BatchDeleteScheduledActionInput{
			AutoScalingGroupName: aws.String(asg), ScheduledActionNames: batch,
		})
		if err != nil {
			return awsapi.Wrap(err, "autoscaling:BatchDeleteScheduledAction", object)
		}
		if len(out.FailedScheduledActions) == 0 {
			continue
		}
		if err := c.stillScheduled(ctx, asg, out.FailedScheduledActions); err != nil {
			return err
		}
	}
	return nil
}

// stillScheduled is an error naming those of the failed actions that are still there: that an action is gone is told by
// looking, since the batch reports it with the same code as a real refusal.
func (c *Client) stillScheduled(ctx context.Context, asg string, failed []astypes.FailedScheduledUpdateGroupActionRequest) error {
	left, err := c.scheduledActions(ctx, asg)
	if err != nil {
		return err
	}
	var refused []string
	for _, f := range failed {
		name := aws.ToString(f.ScheduledActionName)
		if slices.ContainsFunc(left, func(a inventory.ScheduledAction) bool { return a.Name == name }) {
			refused = append(refused, fmt.Sprintf("%s (%s: %s)", name, aws.ToString(f.ErrorCode), aws.ToString(f.ErrorMessage)))
		}
	}
	if len(refused) == 0 {
		return nil
	}
	return fmt.Errorf("scheduled actions of Auto Scaling group %s: autoscaling:BatchDeleteScheduledAction left %s, it is tried again", asg, strings.Join(refused, ", "))
}

// processTerminate is never suspended: an instance that was drained could not be ended any more.
const processTerminate = "Terminate"

// SuspendProcesses suspends the named processes of the Auto Scaling group; those suspended already stay so. No names
// means nothing (Auto Scaling itself would suspend every process), and Terminate is refused.
func (c *Client) SuspendProcesses(ctx context.Context, asg string, processes []string) error {
	if len(processes) == 0 {
		return nil
	}
	if slices.Contains(processes, processTerminate) {
		return inventory.Terminal(fmt.Errorf("%s: process Terminate must not be suspended, a drained instance could not end any more", "Auto Scaling group "+asg))
	}
	_, err := c.asg.SuspendProcesses(ctx, &autoscaling.SuspendProcessesInput{AutoScalingGroupName: aws.String(asg), ScalingProcesses: processes})
	return awsapi.Wrap(err, "autoscaling:SuspendProcesses", "Auto Scaling group "+asg)
}

// SetCapacityRebalance switches Capacity Rebalancing of the Auto Scaling group on or off.
func (c *Client) SetCapacityRebalance(ctx context.Context, asg string, on bool) error {
	return c.update(ctx, &autoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: aws.String(asg), CapacityRebalance: aws.Bool(on)})
}

// SetMaxInstanceLifetime sets the age in seconds at which the group replaces an instance; 0 means never, else at least
// 86400 (API reference).
func (c *Client) SetMaxInstanceLifetime(ctx context.Context, asg string, seconds int32) error {
	return c.update(ctx, &autoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: aws.String(asg), MaxInstanceLifetime: aws.Int32(seconds)})
}

func (c *Client) update(ctx context.Context, in *autoscaling.UpdateAutoScalingGroupInput) error {
	_, err := c.asg.UpdateAutoScalingGroup(ctx, in)
	return awsapi.Wrap(err, "autoscaling:UpdateAutoScalingGroup", "Auto Scaling group "+aws.ToString(in.AutoScalingGroupName))
}

// SetSize sets the sizes of the group as it was read, in the group's capacity units: a managed node group's through EKS, which would
// put back what it did not set itself, another's in Auto Scaling. All of them go in one call, for one after the other they would not
// fit in between. A desired size that is there already is not sent (both take any subset): read a moment too early, it would launch
// drained nodes again. None at all cannot, and goes along.
func (c *Client) SetSize(ctx context.Context, g inventory.NodeGroup, min, max, desired int32) error {
	if min < 0 || min > desired || desired > max {
		return inventory.Terminal(fmt.Errorf("node group %s: sizes %d/%d/%d are not min ≤ desired ≤ max", g.Name, min, max, desired))
	}
	var change *int32
	if desired != g.Desired || desired == 0 {
		change = aws.Int32(desired)
	}
	if g.Managed == nil {
		return c.update(ctx, &autoscaling.UpdateAutoScalingGroupInput{
			AutoScalingGroupName: aws.String(g.AutoScalingGroup), MinSize: aws.Int32(min), MaxSize: aws.Int32(max), DesiredCapacity: change,
		})
	}
	if max < 1 {
		return inventory.Terminal(fmt.Errorf("node group %s: the max size of an EKS managed node group cannot be 0, it must be at least 1", g.Name))
	}
	_, err := c.eks.UpdateNodegroupConfig(ctx, &eks.UpdateNodegroupConfigInput{
		ClusterName: aws.String(c.cluster), NodegroupName: aws.String(g.Name),
		ScalingConfig: &ekstypes.NodegroupScalingConfig{MinSize: aws.Int32(min), MaxSize: aws.Int32(max), DesiredSize: change},
	})
	return awsapi.Wrap(err, "eks:UpdateNodegroupConfig", "EKS managed node group "+g.Name)
}

// once turns the SDK's own retries off. A call whose answer was lost has had its effect; asked again, Auto Scaling lowers the
// desired capacity again and then ends instances of its own choice, drained or not.
func once(o *autoscaling.Options) { o.Retryer = aws.NopRetryer{} }

// EndInstances ends instances of the Auto Scaling group and lowers its desired capacity by their weight, a hundred at a
// time. It is not idempotent: it is asked once, whatever the answer; send only members read after the last change was
// visible, and after an error read the group again before another attempt.
func (c *Client) EndInstances(ctx context.Context, asg string, ids []string) error {
	for batch := range slices.Chunk(ids, maxEndedInstances) {
		_, err := c.asg.TerminateInstanceInAutoScalingGroup(ctx, &autoscaling.TerminateInstanceInAutoScalingGroupInput{
			AutoScalingGroupName: aws.String(asg), InstanceIds: batch, ShouldDecrementDesiredCapacity: aws.Bool(true),
		}, once)
		if err == nil {
			continue
		}
		if awsapi.Is(err, codeValidation) {
			return c.whyNotEnded(ctx, asg, batch, err)
		}
		return awsapi.Wrap(err, "autoscaling:TerminateInstanceInAutoScalingGroup", inventory.Count(len(batch), "instance")+" of Auto Scaling group "+asg)
	}
	return nil
}

// whyNotEnded looks at the group after Auto Scaling refused: an instance that left meanwhile is no reason for a human
// to act, a min size in the way is.
func (c *Client) whyNotEnded(ctx context.Context, asg string, ids []string, cause error) error {
	groups, err := c.groupsNamed(ctx, []string{asg})
	if err != nil {
		return err
	}
	members := map[string]bool{}
	for _, g := range groups {
		for _, i := range g.Instances {
			members[aws.ToString(i.InstanceId)] = true
		}
	}
	for _, id := range ids {
		if !members[id] {
			return fmt.Errorf("instance %s is no member of Auto Scaling group %s any more: read the group again before ending others: %w", id, asg, cause)
		}
	}
	return awsapi.Wrap(cause, "autoscaling:TerminateInstanceInAutoScalingGroup",
		fmt.Sprintf("instances of Auto Scaling group %s (its min size must leave room for ending %d)", asg, len(ids)))
}
