package awssim

import (
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
)

// putHook adds a lifecycle hook, or changes what was given of one that is there.
func (g *scalingGroup) putHook(h types.LifecycleHook) {
	h.AutoScalingGroupName = g.spec.AutoScalingGroupName
	if old := g.hook(aws.ToString(h.LifecycleHookName)); old != nil {
		set(&old.DefaultResult, h.DefaultResult)
		set(&old.HeartbeatTimeout, h.HeartbeatTimeout)
		set(&old.LifecycleTransition, h.LifecycleTransition)
		set(&old.NotificationMetadata, h.NotificationMetadata)
		set(&old.NotificationTargetARN, h.NotificationTargetARN)
		set(&old.RoleARN, h.RoleARN)
		old.GlobalTimeout = globalTimeout(old)
		return
	}
	h.DefaultResult = aws.String(or(h.DefaultResult, resultAbandon))
	h.HeartbeatTimeout = aws.Int32(or(h.HeartbeatTimeout, 3600))
	h.GlobalTimeout = globalTimeout(&h)
	g.hooks = append(g.hooks, h)
}

// globalTimeout is 100 times the heartbeat, at most 48 hours.
func globalTimeout(h *types.LifecycleHook) *int32 {
	return aws.Int32(min(172800, 100*or(h.HeartbeatTimeout, 3600)))
}

func (a *autoscalingService) putLifecycleHook(_ *call, in *autoscaling.PutLifecycleHookInput) (*autoscaling.PutLifecycleHookOutput, error) {
	g, err := a.group(in.AutoScalingGroupName)
	if err != nil {
		return nil, err
	}
	isNew := g.hook(aws.ToString(in.LifecycleHookName)) == nil
	transition := aws.ToString(in.LifecycleTransition)
	if transition != transitionLaunch && transition != transitionEnd && (isNew || transition != "") {
		return nil, validation("Lifecycle transition %q is not valid. Valid values: %s, %s", transition, transitionLaunch, transitionEnd)
	}
	if beat := or(in.HeartbeatTimeout, 3600); beat < 30 || beat > 7200 {
		return nil, validation("Heartbeat timeout must be between 30 and 7200 seconds, not %d", beat)
	}
	if r := or(in.DefaultResult, resultAbandon); r != resultAbandon && r != resultContinue {
		return nil, validation("Lifecycle hook default result must be one of [CONTINUE, ABANDON], not %q", r)
	}
	g.putHook(types.LifecycleHook{LifecycleHookName: in.LifecycleHookName, LifecycleTransition: in.LifecycleTransition, DefaultResult: in.DefaultResult,
		HeartbeatTimeout: in.HeartbeatTimeout, NotificationMetadata: in.NotificationMetadata, NotificationTargetARN: in.NotificationTargetARN, RoleARN: in.RoleARN})
	a.touch(g)
	return &autoscaling.PutLifecycleHookOutput{}, nil
}

// deleteLifecycleHook takes a hook away; what waits for it goes on as if it had been continued.
func (a *autoscalingService) deleteLifecycleHook(_ *call, in *autoscaling.DeleteLifecycleHookInput) (*autoscaling.DeleteLifecycleHookOutput, error) {
	g, err := a.group(in.AutoScalingGroupName)
	if err != nil {
		return nil, err
	}
	name := aws.ToString(in.LifecycleHookName)
	if g.hook(name) == nil {
		return nil, validation("No Lifecycle Hook found with name: %s", name)
	}
	for _, m := range g.members {
		a.complete(g, m, name, resultContinue)
	}
	g.hooks = slices.DeleteFunc(g.hooks, func(h types.LifecycleHook) bool { return aws.ToString(h.LifecycleHookName) == name })
	a.touch(g)
	return &autoscaling.DeleteLifecycleHookOutput{}, nil
}

func (a *autoscalingService) describeLifecycleHooks(c *call, in *autoscaling.DescribeLifecycleHooksInput) (*autoscaling.DescribeLifecycleHooksOutput, error) {
	d, err := a.shownGroup(c, in.AutoScalingGroupName)
	if err != nil {
		return nil, err
	}
	out := &autoscaling.DescribeLifecycleHooksOutput{LifecycleHooks: []types.LifecycleHook{}}
	for _, h := range d.Hooks {
		if named(in.LifecycleHookNames, h.LifecycleHookName) {
			out.LifecycleHooks = append(out.LifecycleHooks, h)
		}
	}
	return out, nil
}

func (a *autoscalingService) completeLifecycleAction(_ *call, in *autoscaling.CompleteLifecycleActionInput) (*autoscaling.CompleteLifecycleActionOutput, error) {
	result := aws.ToString(in.LifecycleActionResult)
	if result != resultContinue && result != resultAbandon {
		return nil, validation("Lifecycle action result must be one of [CONTINUE, ABANDON], not %q", result)
	}
	g, m, _, err := a.waitOf(in.AutoScalingGroupName, in.LifecycleHookName, in.InstanceId, in.LifecycleActionToken)
	if err != nil {
		return nil, err
	}
	a.complete(g, m, aws.ToString(in.LifecycleHookName), result)
	a.touch(g)
	return &autoscaling.CompleteLifecycleActionOutput{}, nil
}

func (a *autoscalingService) recordHeartbeat(_ *call, in *autoscaling.RecordLifecycleActionHeartbeatInput) (*autoscaling.RecordLifecycleActionHeartbeatOutput, error) {
	g, _, w, err := a.waitOf(in.AutoScalingGroupName, in.LifecycleHookName, in.InstanceId, in.LifecycleActionToken)
	if err != nil {
		return nil, err
	}
	beat := time.Duration(or(g.hook(aws.ToString(in.LifecycleHookName)).HeartbeatTimeout, 3600)) * time.Second
	w.deadline = a.now().Add(beat)
	a.wake(g, beat)
	return &autoscaling.RecordLifecycleActionHeartbeatOutput{}, nil
}

// waitOf finds the lifecycle action that waits, by its instance or by its token.
func (a *autoscalingService) waitOf(groupName, hook, instanceID, token *string) (*scalingGroup, *member, *wait, error) {
	g, err := a.group(groupName)
	if err != nil {
		return nil, nil, nil, err
	}
	if g.hook(aws.ToString(hook)) == nil {
		return nil, nil, nil, validation("No Lifecycle Hook found with name: %s", aws.ToString(hook))
	}
	for _, m := range g.members {
		w := m.waiting[aws.ToString(hook)]
		if w != nil && (m.id == aws.ToString(instanceID) || token != nil && w.token == *token) {
			return g, m, w, nil
		}
	}
	return nil, nil, nil, validation("No active Lifecycle Action found with instance ID %s", aws.ToString(instanceID))
}
