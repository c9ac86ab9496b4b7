package awssim

import (
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
)

func (a *autoscalingService) setDesiredCapacity(_ *call, in *autoscaling.SetDesiredCapacityInput) (*autoscaling.SetDesiredCapacityOutput, error) {
	g, err := a.group(in.AutoScalingGroupName)
	if err != nil {
		return nil, err
	}
	want := or(in.DesiredCapacity, 0)
	if err := g.sizes.checkDesired(want); err != nil {
		return nil, err
	}
	g.resized("a user request explicitly set group desired capacity", g.sizes.clamped(want))
	a.touch(g)
	return &autoscaling.SetDesiredCapacityOutput{}, nil
}

// terminateInstance ends one instance, or up to 100 of one group. It works on protected instances and while Terminate
// is suspended. On an instance that is ending already it is accepted and decrements again: kubernetes/autoscaler#4095.
func (a *autoscalingService) terminateInstance(c *call, in *autoscaling.TerminateInstanceInAutoScalingGroupInput) (*autoscaling.TerminateInstanceInAutoScalingGroupOutput, error) {
	g, members, err := a.toTerminate(in)
	if err != nil {
		return nil, err
	}
	size := weightOf(members)
	decrement := or(in.ShouldDecrementDesiredCapacity, false)
	if decrement && g.sizes.desired-size < g.sizes.min {
		return nil, validation("Currently, desiredSize equals minSize (%d). Terminating instance without replacement will violate group's min size constraint. Either set shouldDecrementDesiredCapacity flag to false or lower group's min size.", g.sizes.min)
	}
	cause := "an instance was taken out of service in response to a user request"
	if decrement {
		cause += fmt.Sprintf(", shrinking the capacity from %d to %d", g.sizes.desired, g.sizes.desired-size)
		g.sizes.desired -= size
	}
	out := &autoscaling.TerminateInstanceInAutoScalingGroupOutput{}
	for _, m := range members {
		switch {
		case m.state == types.LifecycleStateTerminatingRetained:
			m.endedBy, m.state = c.by(), types.LifecycleStateTerminatingProceed
			a.end(g, m)
		case !m.ending():
			m.endedBy = c.by()
			a.terminate(g, m, cause)
		}
		if m.activity != nil {
			out.Activities = append(out.Activities, *m.activity)
		}
	}
	if in.InstanceId != nil && len(out.Activities) > 0 {
		out.Activity, out.Activities = &out.Activities[0], nil
	}
	a.touch(g)
	return out, nil
}

// toTerminate finds the instances of a request, which are all of one group or none is touched.
func (a *autoscalingService) toTerminate(in *autoscaling.TerminateInstanceInAutoScalingGroupInput) (*scalingGroup, []*member, error) {
	if in.InstanceId != nil {
		if len(in.InstanceIds) > 0 {
			return nil, nil, validation("Specify either InstanceId or InstanceIds, not both.")
		}
		g, m, err := a.member(*in.InstanceId)
		return g, []*member{m}, err
	}
	if len(in.InstanceIds) == 0 || len(in.InstanceIds) > 100 {
		return nil, nil, validation("Specify InstanceId, or between 1 and 100 InstanceIds.")
	}
	if in.AutoScalingGroupName == nil {
		return nil, nil, validation("AutoScalingGroupName is required with InstanceIds.")
	}
	g, err := a.group(in.AutoScalingGroupName)
	if err != nil {
		return nil, nil, err
	}
	members, err := g.all(in.InstanceIds)
	return g, members, err
}

// all finds members by their ids.
func (g *scalingGroup) all(ids []string) (members []*member, err error) {
	for _, id := range ids {
		m := g.member(id)
		if m == nil {
			return nil, validation("The instance %s is not part of Auto Scaling group %s.", id, g.name())
		}
		members = append(members, m)
	}
	return members, nil
}

func weightOf(members []*member) (sum int32) {
	for _, m := range members {
		sum += m.weight
	}
	return sum
}

func (a *autoscalingService) detachInstances(_ *call, in *autoscaling.DetachInstancesInput) (*autoscaling.DetachInstancesOutput, error) {
	g, err := a.group(in.AutoScalingGroupName)
	if err != nil {
		return nil, err
	}
	if len(in.InstanceIds) > 20 {
		return nil, validation("At most 20 instances can be detached at once.")
	}
	members, err := g.all(in.InstanceIds)
	if err != nil {
		return nil, err
	}
	for _, m := range members {
		if m.state != types.LifecycleStateInService {
			return nil, validation("The instance %s is not in InService or Standby.", m.id)
		}
	}
	size := weightOf(members)
	decrement := or(in.ShouldDecrementDesiredCapacity, false)
	if decrement && g.sizes.desired-size < g.sizes.min {
		return nil, validation("AutoScalingGroup %s has min-size=%d, max-size=%d, and desired-size=%d. To detach %d instance, please update the AutoScalingGroup sizes appropriately.", g.name(), g.sizes.min, g.sizes.max, g.sizes.desired, size)
	}
	if decrement {
		g.sizes.desired -= size
	}
	out := &autoscaling.DetachInstancesOutput{}
	for _, m := range members {
		act := a.begin(g, "Detaching EC2 instance: "+m.id, "an instance was detached in response to a user request")
		a.finish(act, types.ScalingActivityStatusCodeSuccessful, "")
		out.Activities = append(out.Activities, *act)
		g.remove(m.id)
		a.released(m.id)
	}
	a.touch(g)
	return out, nil
}

func (a *autoscalingService) setInstanceProtection(_ *call, in *autoscaling.SetInstanceProtectionInput) (*autoscaling.SetInstanceProtectionOutput, error) {
	g, err := a.group(in.AutoScalingGroupName)
	if err != nil {
		return nil, err
	}
	members, err := g.all(in.InstanceIds)
	if err != nil {
		return nil, err
	}
	for _, m := range members {
		if m.state != types.LifecycleStateInService {
			return nil, validation("The instance %s is not in InService or EnteringStandby or Standby.", m.id)
		}
	}
	for _, m := range members {
		m.protected = or(in.ProtectedFromScaleIn, false)
	}
	a.touch(g)
	return &autoscaling.SetInstanceProtectionOutput{}, nil
}

func (a *autoscalingService) setInstanceHealth(_ *call, in *autoscaling.SetInstanceHealthInput) (*autoscaling.SetInstanceHealthOutput, error) {
	g, m, err := a.member(aws.ToString(in.InstanceId))
	if err != nil {
		return nil, err
	}
	switch aws.ToString(in.HealthStatus) {
	case "Healthy":
		m.unhealthy = false
	case "Unhealthy":
		grace := time.Duration(or(g.spec.HealthCheckGracePeriod, 0)) * time.Second
		young := m.inService.IsZero() || a.now().Before(m.inService.Add(grace))
		if !(young && or(in.ShouldRespectGracePeriod, true) && grace > 0) {
			m.unhealthy = true
		}
	default:
		return nil, validation("Valid instance health states are: [Healthy, Unhealthy].")
	}
	a.touch(g)
	return &autoscaling.SetInstanceHealthOutput{}, nil
}
