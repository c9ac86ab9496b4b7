package awssim

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
)

// scheduledAction is an action and the timer of its next run.
type scheduledAction struct {
	spec types.ScheduledUpdateGroupAction
	next *timer
}

func (a *autoscalingService) putScheduledAction(_ *call, in *autoscaling.PutScheduledUpdateGroupActionInput) (*autoscaling.PutScheduledUpdateGroupActionOutput, error) {
	g, err := a.group(in.AutoScalingGroupName)
	if err != nil {
		return nil, err
	}
	spec := types.ScheduledUpdateGroupAction{
		AutoScalingGroupName: in.AutoScalingGroupName, ScheduledActionName: in.ScheduledActionName, StartTime: in.StartTime, Time: in.Time, EndTime: in.EndTime,
		Recurrence: in.Recurrence, TimeZone: in.TimeZone, MinSize: in.MinSize, MaxSize: in.MaxSize, DesiredCapacity: in.DesiredCapacity,
	}
	if spec.StartTime == nil {
		spec.StartTime = in.Time // the older name of the same thing
	}
	if err := checkScheduledAction(spec, a.now()); err != nil {
		return nil, err
	}
	name := aws.ToString(in.ScheduledActionName)
	if g.scheduledAt(spec, a.now()) {
		return nil, errorf("AlreadyExists", "Scheduled action with this scheduled start time already exists")
	}
	spec.ScheduledActionARN = aws.String(a.arn("scheduledUpdateGroupAction:" + a.uuid() + ":autoScalingGroupName/" + g.name() + ":scheduledActionName/" + name))
	if old := g.actions[name]; old != nil {
		spec.ScheduledActionARN = old.spec.ScheduledActionARN
		a.s.clock.stop(old.next)
	}
	x := &scheduledAction{spec: spec}
	g.actions[name] = x
	a.schedule(g, x)
	a.touch(g)
	return &autoscaling.PutScheduledUpdateGroupActionOutput{}, nil
}

// scheduledAt says whether another action of the group is to run at the time at which this one would run next: start times
// are unique when they are put, though recurring actions may fall together later.
// https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-scheduled-scaling.html, considerations
func (g *scalingGroup) scheduledAt(spec types.ScheduledUpdateGroupAction, now time.Time) bool {
	next, err := nextRun(spec, now)
	if err != nil || next.IsZero() {
		return false
	}
	for name, other := range g.actions {
		if name != aws.ToString(spec.ScheduledActionName) && next.Equal(or(other.spec.StartTime, time.Time{})) {
			return true
		}
	}
	return false
}

// schedule sets an action's next run; an action without one is over and goes.
func (a *autoscalingService) schedule(g *scalingGroup, x *scheduledAction) {
	next, err := nextRun(x.spec, a.now())
	if err != nil || next.IsZero() {
		delete(g.actions, aws.ToString(x.spec.ScheduledActionName))
		return
	}
	if aws.ToString(x.spec.Recurrence) != "" {
		x.spec.StartTime = aws.Time(next) // AWS shows the next run as the start time
		x.spec.Time = x.spec.StartTime
	}
	x.next = a.s.at(next, func() {
		a.runScheduled(g, x)
		a.schedule(g, x)
		a.touch(g)
	})
}

// runScheduled does what an action says. While ScheduledActions is suspended its time passes without effect.
func (a *autoscalingService) runScheduled(g *scalingGroup, x *scheduledAction) {
	if !g.runs(processScheduledActions) || g.deleting {
		return
	}
	name := aws.ToString(x.spec.ScheduledActionName)
	z := g.sizes.with(x.spec.MinSize, x.spec.MaxSize, x.spec.DesiredCapacity)
	description := "Executing scheduled action " + name
	cause := fmt.Sprintf("a scheduled action update of AutoScalingGroup constraints to min: %d, max: %d, desired: %d changed the desired capacity from %d to %d", z.min, z.max, z.desired, g.sizes.desired, z.desired)
	if err := z.check(); err != nil {
		a.failed(g, description, cause, asAPIError(err).Message)
		return
	}
	a.finish(a.begin(g, description, cause), types.ScalingActivityStatusCodeSuccessful, "")
	g.resized(fmt.Sprintf("scheduled action %s update of AutoScalingGroup constraints to min: %d, max: %d, desired: %d", name, z.min, z.max, z.desired), z)
}

func (a *autoscalingService) dropScheduled(g *scalingGroup, name string) error {
	x := g.actions[name]
	if x == nil {
		return validation("Scheduled action name not found")
	}
	a.s.clock.stop(x.next)
	delete(g.actions, name)
	a.touch(g)
	return nil
}

func (a *autoscalingService) deleteScheduledAction(_ *call, in *autoscaling.DeleteScheduledActionInput) (*autoscaling.DeleteScheduledActionOutput, error) {
	g, err := a.group(in.AutoScalingGroupName)
	if err != nil {
		return nil, err
	}
	return &autoscaling.DeleteScheduledActionOutput{}, a.dropScheduled(g, aws.ToString(in.ScheduledActionName))
}

func (a *autoscalingService) batchDeleteScheduledAction(_ *call, in *autoscaling.BatchDeleteScheduledActionInput) (*autoscaling.BatchDeleteScheduledActionOutput, error) {
	g, err := a.group(in.AutoScalingGroupName)
	if err != nil {
		return nil, err
	}
	out := &autoscaling.BatchDeleteScheduledActionOutput{}
	for _, name := range in.ScheduledActionNames {
		if err := a.dropScheduled(g, name); err != nil {
			e := asAPIError(err)
			out.FailedScheduledActions = append(out.FailedScheduledActions, types.FailedScheduledUpdateGroupActionRequest{
				ScheduledActionName: aws.String(name), ErrorCode: aws.String(e.Code), ErrorMessage: aws.String(e.Message)})
		}
	}
	return out, nil
}

func (a *autoscalingService) describeScheduledActions(c *call, in *autoscaling.DescribeScheduledActionsInput) (*autoscaling.DescribeScheduledActionsOutput, error) {
	if in.AutoScalingGroupName != nil {
		if _, err := a.shownGroup(c, in.AutoScalingGroupName); err != nil {
			return nil, err
		}
	}
	var list []types.ScheduledUpdateGroupAction
	for _, d := range a.shown.asOf(c.readTime()).where(nil) {
		if in.AutoScalingGroupName != nil && aws.ToString(d.Group.AutoScalingGroupName) != *in.AutoScalingGroupName {
			continue
		}
		for _, x := range d.Actions {
			late := in.EndTime != nil && x.StartTime != nil && x.StartTime.After(*in.EndTime)
			early := in.StartTime != nil && x.StartTime != nil && x.StartTime.Before(*in.StartTime)
			if named(in.ScheduledActionNames, x.ScheduledActionName) && !late && !early {
				list = append(list, x)
			}
		}
	}
	list, next, err := pageOf(a.s, list, in.MaxRecords, 50, in.NextToken)
	if err != nil {
		return nil, err
	}
	return &autoscaling.DescribeScheduledActionsOutput{ScheduledUpdateGroupActions: append([]types.ScheduledUpdateGroupAction{}, list...), NextToken: next}, nil
}

// sortedByName lists what a map holds in the order of its keys.
func sortedByName[T any](m map[string]T) (list []T) {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		list = append(list, m[k])
	}
	return list
}
