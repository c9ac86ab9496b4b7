package nodegroup

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/inventory/awsapi"
)

// readError tells a group that was deleted while it was read, which Auto Scaling calls invalid, from a real failure.
func readError(err error, action, asg string) error {
	if awsapi.Is(err, codeValidation) {
		return fmt.Errorf("%s: it was deleted while it was read (%s), it is tried again: %w", "Auto Scaling group "+asg, action, err)
	}
	return awsapi.Wrap(err, action, "Auto Scaling group "+asg)
}

func (c *Client) scalingPolicies(ctx context.Context, asg string) ([]inventory.ScalingPolicy, error) {
	var out []inventory.ScalingPolicy
	pages := autoscaling.NewDescribePoliciesPaginator(c.asg, &autoscaling.DescribePoliciesInput{AutoScalingGroupName: aws.String(asg)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, readError(err, "autoscaling:DescribePolicies", asg)
		}
		for _, p := range page.ScalingPolicies {
			out = append(out, scalingPolicy(p))
		}
	}
	slices.SortFunc(out, func(a, b inventory.ScalingPolicy) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

func (c *Client) scheduledActions(ctx context.Context, asg string) ([]inventory.ScheduledAction, error) {
	var out []inventory.ScheduledAction
	pages := autoscaling.NewDescribeScheduledActionsPaginator(c.asg, &autoscaling.DescribeScheduledActionsInput{AutoScalingGroupName: aws.String(asg)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, readError(err, "autoscaling:DescribeScheduledActions", asg)
		}
		for _, a := range page.ScheduledUpdateGroupActions {
			out = append(out, scheduledAction(a))
		}
	}
	slices.SortFunc(out, func(a, b inventory.ScheduledAction) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// lifecycleHooks are read when the group is first seen, and again while a hook holds one of its instances: only then do
// they decide anything, and they hardly ever change.
func (c *Client) lifecycleHooks(ctx context.Context, g inventory.NodeGroup) ([]inventory.LifecycleHook, error) {
	waiting := slices.ContainsFunc(g.Instances, func(i inventory.Instance) bool { return strings.HasSuffix(i.Lifecycle, ":Wait") })
	if hooks, ok := c.cache.hooks.get(g.AutoScalingGroup); ok && !waiting {
		return slices.Clone(hooks), nil
	}
	out, err := c.asg.DescribeLifecycleHooks(ctx, &autoscaling.DescribeLifecycleHooksInput{AutoScalingGroupName: aws.String(g.AutoScalingGroup)})
	if err != nil {
		return nil, readError(err, "autoscaling:DescribeLifecycleHooks", g.AutoScalingGroup)
	}
	var hooks []inventory.LifecycleHook
	for _, h := range out.LifecycleHooks {
		hooks = append(hooks, lifecycleHook(h))
	}
	slices.SortFunc(hooks, func(a, b inventory.LifecycleHook) int { return strings.Compare(a.Name, b.Name) })
	c.cache.hooks.put(g.AutoScalingGroup, hooks)
	return slices.Clone(hooks), nil
}

// endedRefreshes are the states from which an instance refresh does nothing more. A state that AWS adds counts as one
// in progress: waiting is the safe mistake.
var endedRefreshes = []astypes.InstanceRefreshStatus{
	astypes.InstanceRefreshStatusSuccessful, astypes.InstanceRefreshStatusFailed, astypes.InstanceRefreshStatusCancelled,
	astypes.InstanceRefreshStatusRollbackSuccessful, astypes.InstanceRefreshStatusRollbackFailed,
}

// processInstanceRefresh suspended means that no refresh goes on, nor begins.
const processInstanceRefresh = "InstanceRefresh"

// heldEvery is how many lists of a group go by between two looks for a refresh that its suspended process holds: it does nothing
// meanwhile, and each look is a call.
const heldEvery = 6

// heldRefresh is what was last seen of a refresh that is held, and after how many lists it is looked for again.
type heldRefresh struct {
	text string
	next int
}

// instanceRefreshHeld is the status and id of a refresh that does not go on because its process is suspended.
func (c *Client) instanceRefreshHeld(ctx context.Context, g inventory.NodeGroup) (string, error) {
	if !g.Suspends(processInstanceRefresh) {
		return "", nil
	}
	last, _ := c.cache.refreshes.get(g.AutoScalingGroup)
	if last.next--; last.text == "" && last.next > 0 {
		c.cache.refreshes.put(g.AutoScalingGroup, last)
		return "", nil
	}
	text, err := c.activeRefresh(ctx, g)
	if err == nil {
		c.cache.refreshes.put(g.AutoScalingGroup, heldRefresh{text: text, next: heldEvery})
	}
	return text, err
}

// instanceRefresh is the status of the refresh that goes on.
func (c *Client) instanceRefresh(ctx context.Context, g inventory.NodeGroup) (string, error) {
	if g.Suspends(processInstanceRefresh) {
		return "", nil
	}
	text, err := c.activeRefresh(ctx, g)
	status, _, _ := strings.Cut(text, " ")
	return status, err
}

// activeRefresh is the status and id of the refresh that has not ended; a group has at most one, and it is listed first.
func (c *Client) activeRefresh(ctx context.Context, g inventory.NodeGroup) (string, error) {
	out, err := c.asg.DescribeInstanceRefreshes(ctx, &autoscaling.DescribeInstanceRefreshesInput{AutoScalingGroupName: aws.String(g.AutoScalingGroup), MaxRecords: aws.Int32(1)})
	if err != nil {
		return "", readError(err, "autoscaling:DescribeInstanceRefreshes", g.AutoScalingGroup)
	}
	for _, r := range out.InstanceRefreshes {
		if !slices.Contains(endedRefreshes, r.Status) {
			return string(r.Status) + " (" + aws.ToString(r.InstanceRefreshId) + ")", nil
		}
	}
	return "", nil
}

// arrivals are the instances that a group is known to have had, and what Auto Scaling said of why the last one came.
type arrivals struct {
	ids   map[string]bool
	cause string
}

// scalingActivity is what the group's last scaling activity says when it failed, and why the last instance came. A group that has as
// many instances as it wants, and none that is new, has nothing to say; weighted groups, whose desired capacity counts units, are
// always asked.
func (c *Client) scalingActivity(ctx context.Context, g inventory.NodeGroup) (failure, cause string, err error) {
	seen, known := c.cache.arrivals.get(g.AutoScalingGroup)
	now := arrivals{ids: map[string]bool{}, cause: seen.cause}
	came := false
	for _, i := range g.Instances {
		now.ids[i.ID] = true
		came = came || known && !seen.ids[i.ID]
	}
	if g.InService() < int(g.Desired) || came {
		if failure, cause, err = c.lastActivity(ctx, g); err != nil {
			return "", "", err
		}
	}
	if came {
		now.cause = cause
	}
	c.cache.arrivals.put(g.AutoScalingGroup, now)
	return failure, now.cause, nil
}

// lastActivity gives the message of the last scaling activity, if that failed, and its cause.
func (c *Client) lastActivity(ctx context.Context, g inventory.NodeGroup) (failure, cause string, err error) {
	out, err := c.asg.DescribeScalingActivities(ctx, &autoscaling.DescribeScalingActivitiesInput{AutoScalingGroupName: aws.String(g.AutoScalingGroup), MaxRecords: aws.Int32(1)})
	if err != nil {
		return "", "", readError(err, "autoscaling:DescribeScalingActivities", g.AutoScalingGroup)
	}
	if len(out.Activities) == 0 {
		return "", "", nil
	}
	last := out.Activities[0]
	if last.StatusCode == astypes.ScalingActivityStatusCodeFailed {
		failure = aws.ToString(last.StatusMessage)
	}
	return failure, aws.ToString(last.Cause), nil
}
