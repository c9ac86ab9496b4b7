package nodegroup

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/inventory/awsapi"
)

// EnablePolicies undoes DisablePolicies: g is the group as it was recorded before. A policy gets back the right to change
// the group's size and no more: its definition stays what it is in AWS now, so that an edit made meanwhile survives, and
// its ARN, which its alarms point at. Left alone are policies that were inactive when they were recorded, those that act
// already, and those that the group no longer has.
func (c *Client) EnablePolicies(ctx context.Context, g inventory.NodeGroup, names []string) error {
	recorded := map[string]inventory.ScalingPolicy{}
	for _, p := range g.ScalingPolicies {
		if p.Active && slices.Contains(names, p.Name) {
			recorded[p.Name] = p
		}
	}
	if len(recorded) == 0 {
		return nil
	}
	policies, err := c.scalingPolicies(ctx, g.AutoScalingGroup)
	if err != nil {
		return err
	}
	for _, now := range policies {
		was, ok := recorded[now.Name]
		if !ok {
			continue
		}
		in, err := policyRequest(now)
		if err != nil {
			return err
		}
		if !enable(in, was) {
			continue
		}
		if err := c.putPolicy(ctx, g.AutoScalingGroup, in); err != nil {
			return err
		}
	}
	return nil
}

// typePredictive is Auto Scaling's name of the policies that are switched by their mode.
const typePredictive = "PredictiveScaling"

// enable switches the policy on as it was, and says whether that changes it. A predictive policy that was active when it
// was recorded scaled by its forecasts. One that became predictive since is somebody else's work.
func enable(in *autoscaling.PutScalingPolicyInput, was inventory.ScalingPolicy) bool {
	if p := in.PredictiveScalingConfiguration; p != nil {
		changed := was.Type == typePredictive && p.Mode != astypes.PredictiveScalingModeForecastAndScale
		p.Mode = astypes.PredictiveScalingModeForecastAndScale
		return changed
	}
	changed := in.Enabled != nil && !*in.Enabled
	in.Enabled = aws.Bool(true)
	return changed
}

// PutScheduledActions puts the recorded scheduled actions back. An action of that name that is there already stays as it
// is: either it was put back before, or somebody made another. A start that has passed is left out of an action that
// recurs, and Auto Scaling reckons the next one. An action that Auto Scaling refuses keeps none of the others back, and
// the error names each. It is inventory.Terminal when only those are left that can never come back: one that was to run
// once, in the past, or one whose end has passed.
func (c *Client) PutScheduledActions(ctx context.Context, asg string, actions []inventory.ScheduledAction) error {
	if len(actions) == 0 {
		return nil
	}
	there, err := c.scheduledActions(ctx, asg)
	if err != nil {
		return err
	}
	var refused, again []error
	for _, a := range actions {
		if slices.ContainsFunc(there, func(b inventory.ScheduledAction) bool { return a.Name == b.Name }) {
			continue
		}
		err := c.putScheduledAction(ctx, asg, a)
		switch {
		case err == nil:
		case inventory.ClassOf(err) == inventory.ClassThrottled:
			return err
		case inventory.ClassOf(err) == inventory.ClassTerminal:
			refused = append(refused, err)
		default:
			again = append(again, err)
		}
	}
	if len(again) > 0 {
		return errors.Join(again...)
	}
	return errors.Join(refused...)
}

// codeExists is Auto Scaling's code for a scheduled action whose next run is that of another action of the group. Two that
// recur may fall together later, and so be recorded with one start, but not be put with it.
const codeExists = "AlreadyExists"

// putScheduledAction asks with the recorded start first and lets Auto Scaling's own clock judge whether it has passed:
// it answers a start in the past with a validation error (API reference), and shows the next run of a recurring action as
// its start, so that a recorded one is soon in the past.
func (c *Client) putScheduledAction(ctx context.Context, asg string, a inventory.ScheduledAction) error {
	in := &autoscaling.PutScheduledUpdateGroupActionInput{
		AutoScalingGroupName: aws.String(asg), ScheduledActionName: aws.String(a.Name),
		StartTime: a.Start, EndTime: a.End, MinSize: a.Min, MaxSize: a.Max, DesiredCapacity: a.Desired,
	}
	if a.Recurrence != "" {
		in.Recurrence = aws.String(a.Recurrence)
	}
	if a.TimeZone != "" {
		in.TimeZone = aws.String(a.TimeZone)
	}
	_, err := c.asg.PutScheduledUpdateGroupAction(ctx, in)
	if awsapi.Is(err, codeValidation) && a.Recurrence != "" && a.Start != nil {
		in.StartTime = nil
		_, err = c.asg.PutScheduledUpdateGroupAction(ctx, in)
	}
	object := fmt.Sprintf("scheduled action %s of Auto Scaling group %s", a.Name, asg)
	if awsapi.Is(err, codeExists) {
		return fmt.Errorf("%s: another action of the group runs next at the same time, and autoscaling:PutScheduledUpdateGroupAction takes it only once they differ: it is tried again; to have it at once, put it by hand with a start of its own: %w", object, err)
	}
	return awsapi.Wrap(err, "autoscaling:PutScheduledUpdateGroupAction", object)
}

// ResumeProcesses resumes the named processes of the Auto Scaling group; those that run already go on, and suspended ones
// that are not named stay so. No names means nothing (Auto Scaling itself would resume every process).
func (c *Client) ResumeProcesses(ctx context.Context, asg string, processes []string) error {
	if len(processes) == 0 {
		return nil
	}
	_, err := c.asg.ResumeProcesses(ctx, &autoscaling.ResumeProcessesInput{AutoScalingGroupName: aws.String(asg), ScalingProcesses: processes})
	return awsapi.Wrap(err, "autoscaling:ResumeProcesses", "Auto Scaling group "+asg)
}
