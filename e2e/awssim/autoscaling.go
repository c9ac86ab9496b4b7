package awssim

import (
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/castoff-sh/castoff/e2e/awssim/simapi"
)

// autoscalingService simulates Amazon EC2 Auto Scaling. The groups are the truth; shown is what Describe calls see of it.
type autoscalingService struct {
	s      *Server
	groups map[string]*scalingGroup
	order  []string // names in the order of creation
	shown  *table[groupDetails]
	// configurations are launch configurations, by name.
	configurations *table[types.LaunchConfiguration]
	// held, where set, is told of an instance that waits for a lifecycle hook. EKS completes the hooks of its node groups.
	held func(*scalingGroup, *member)
	// reconciled, where set, is told when a group has been looked at.
	reconciled func(*scalingGroup)
}

// groupTag marks the instances of a group in EC2.
const groupTag = "aws:autoscaling:groupName"

// groupDetails is all that Describe calls show of a group, scaling activities aside.
type groupDetails struct {
	Group     types.AutoScalingGroup
	Hooks     []types.LifecycleHook
	Policies  []types.ScalingPolicy
	Actions   []types.ScheduledUpdateGroupAction
	Refreshes []types.InstanceRefresh
}

func newAutoscaling(s *Server) *autoscalingService {
	a := &autoscalingService{s: s, groups: map[string]*scalingGroup{}, shown: newTable[groupDetails](s), configurations: newTable[types.LaunchConfiguration](s)}
	on(s, "autoscaling.CreateAutoScalingGroup", a.createAutoScalingGroup)
	on(s, "autoscaling.UpdateAutoScalingGroup", a.updateAutoScalingGroup)
	on(s, "autoscaling.DeleteAutoScalingGroup", a.deleteAutoScalingGroup)
	on(s, "autoscaling.DescribeAutoScalingGroups", a.describeAutoScalingGroups)
	on(s, "autoscaling.DescribeAutoScalingInstances", a.describeAutoScalingInstances)
	on(s, "autoscaling.DescribeScalingActivities", a.describeScalingActivities)
	on(s, "autoscaling.SetDesiredCapacity", a.setDesiredCapacity)
	on(s, "autoscaling.TerminateInstanceInAutoScalingGroup", a.terminateInstance)
	on(s, "autoscaling.DetachInstances", a.detachInstances)
	on(s, "autoscaling.SetInstanceProtection", a.setInstanceProtection)
	on(s, "autoscaling.SetInstanceHealth", a.setInstanceHealth)
	on(s, "autoscaling.SuspendProcesses", a.suspendProcesses)
	on(s, "autoscaling.ResumeProcesses", a.resumeProcesses)
	on(s, "autoscaling.CreateOrUpdateTags", a.createOrUpdateTags)
	on(s, "autoscaling.DeleteTags", a.deleteTags)
	on(s, "autoscaling.DescribeTags", a.describeTags)
	a.registerExtras()
	a.registerLaunchConfigurations()
	s.onState = append(s.onState, a.onState)
	s.extensions.groups = a.sideGroups
	s.unhealthy, s.atRisk = a.markUnhealthy, a.markAtRisk
	return a
}

// registerExtras registers what goes beyond groups and their instances.
func (a *autoscalingService) registerExtras() {
	s := a.s
	on(s, "autoscaling.PutLifecycleHook", a.putLifecycleHook)
	on(s, "autoscaling.DeleteLifecycleHook", a.deleteLifecycleHook)
	on(s, "autoscaling.DescribeLifecycleHooks", a.describeLifecycleHooks)
	on(s, "autoscaling.CompleteLifecycleAction", a.completeLifecycleAction)
	on(s, "autoscaling.RecordLifecycleActionHeartbeat", a.recordHeartbeat)
	on(s, "autoscaling.PutScheduledUpdateGroupAction", a.putScheduledAction)
	on(s, "autoscaling.DeleteScheduledAction", a.deleteScheduledAction)
	on(s, "autoscaling.BatchDeleteScheduledAction", a.batchDeleteScheduledAction)
	on(s, "autoscaling.DescribeScheduledActions", a.describeScheduledActions)
	on(s, "autoscaling.PutScalingPolicy", a.putScalingPolicy)
	on(s, "autoscaling.DeletePolicy", a.deletePolicy)
	on(s, "autoscaling.DescribePolicies", a.describePolicies)
	on(s, "autoscaling.ExecutePolicy", a.executePolicy)
	on(s, "autoscaling.StartInstanceRefresh", a.startInstanceRefresh)
	on(s, "autoscaling.CancelInstanceRefresh", a.cancelInstanceRefresh)
	on(s, "autoscaling.DescribeInstanceRefreshes", a.describeInstanceRefreshes)
	on(s, "autoscaling.PutWarmPool", a.putWarmPool)
	on(s, "autoscaling.DescribeWarmPool", a.describeWarmPool)
	on(s, "autoscaling.DeleteWarmPool", a.deleteWarmPool)
}

func (a *autoscalingService) now() time.Time { return a.s.now() }

// validation is the error that Auto Scaling answers to most of what it does not accept.
func validation(format string, args ...any) error { return errorf("ValidationError", format, args...) }

func (a *autoscalingService) arn(resource string) string {
	return a.s.arn("autoscaling", resource)
}

// uuid makes an identifier as Auto Scaling and EKS use them.
func (s *Server) uuid() string {
	x := stableHex(s.newID("uuid"), 32)
	return x[:8] + "-" + x[8:12] + "-" + x[12:16] + "-" + x[16:20] + "-" + x[20:]
}

func (a *autoscalingService) uuid() string { return a.s.uuid() }

func (a *autoscalingService) group(name *string) (*scalingGroup, error) {
	g := a.groups[aws.ToString(name)]
	if g == nil {
		return nil, validation("AutoScalingGroup name not found - AutoScalingGroup '%s' not found", aws.ToString(name))
	}
	return g, nil
}

// shownGroup is a group as lagging reads see it.
func (a *autoscalingService) shownGroup(c *call, name *string) (groupDetails, error) {
	d, ok := a.shown.asOf(c.readTime()).get(aws.ToString(name))
	if !ok {
		return d, validation("AutoScalingGroup name not found - AutoScalingGroup '%s' not found", aws.ToString(name))
	}
	return d, nil
}

func (a *autoscalingService) member(id string) (*scalingGroup, *member, error) {
	if g, m := a.find(id); m != nil {
		return g, m, nil
	}
	return nil, nil, validation("Instance Id not found - No managed instance found for instance ID: %s", id)
}

// find returns an instance and its group, nil for one that is in none.
func (a *autoscalingService) find(id string) (*scalingGroup, *member) {
	for _, g := range a.groups {
		if m := g.member(id); m != nil {
			return g, m
		}
	}
	return nil, nil
}

// touch shows a change and has the group act on it after the scaling delay.
func (a *autoscalingService) touch(g *scalingGroup) {
	if g.deleting && len(g.members) == 0 {
		a.drop(g)
		return
	}
	a.publish(g)
	a.wake(g, a.s.settings.ScalingDelay)
}

// wake has the group looked at after a while, or earlier if it already will be.
func (a *autoscalingService) wake(g *scalingGroup, after time.Duration) {
	due := a.now().Add(max(after, 0))
	if g.next != nil && !due.Before(g.next.due) {
		return
	}
	a.s.clock.stop(g.next)
	g.next = a.s.at(due, func() {
		g.next = nil
		if a.groups[g.name()] == g {
			a.reconcile(g)
		}
	})
}

// publish makes the group's present state what Describe calls will show.
func (a *autoscalingService) publish(g *scalingGroup) {
	d := groupDetails{Group: g.view(), Hooks: g.hooks}
	for _, p := range sortedByName(g.policies) {
		d.Policies = append(d.Policies, a.shownPolicy(p))
	}
	for _, x := range sortedByName(g.actions) {
		d.Actions = append(d.Actions, x.spec)
	}
	for _, r := range g.refreshes {
		d.Refreshes = append(d.Refreshes, r.view)
	}
	a.shown.put(g.name(), d)
}

// drop forgets a deleted group.
func (a *autoscalingService) drop(g *scalingGroup) {
	a.s.clock.stop(g.next)
	delete(a.groups, g.name())
	a.order = slices.DeleteFunc(a.order, func(n string) bool { return n == g.name() })
	a.shown.delete(g.name())
}

// onState follows the instances of groups through EC2's states.
func (a *autoscalingService) onState(i instance, _ ec2types.InstanceStateName, _ string) {
	g, m := a.find(i.id())
	if m == nil {
		return
	}
	switch i.state() {
	case ec2types.InstanceStateNameRunning:
		a.instanceRuns(g, m)
	case ec2types.InstanceStateNameTerminated:
		a.instanceEnded(g, m)
	default:
		a.wake(g, a.s.settings.ScalingDelay) // the health check looks
	}
}

func (a *autoscalingService) markUnhealthy(id string) {
	if g, m := a.find(id); m != nil && g.runs(processHealthCheck) {
		m.unhealthy = true
		a.touch(g)
	}
}

func (a *autoscalingService) markAtRisk(id string) {
	if g, m := a.find(id); m != nil {
		m.atRisk = true
		a.touch(g)
	}
}

// tellHeld reports an instance that waits for hooks, once the step that made it wait is over.
func (a *autoscalingService) tellHeld(g *scalingGroup, m *member) {
	if a.held != nil {
		a.s.after(0, func() { a.held(g, m) })
	}
}

// ended says whether EC2 ends or has ended an instance, gone whether it has.
func (a *autoscalingService) ended(id string) bool {
	i, ok := a.s.ec2.instances.get(id)
	return !ok || !i.live()
}

func (a *autoscalingService) gone(id string) bool {
	i, ok := a.s.ec2.instances.get(id)
	return !ok || i.state() == ec2types.InstanceStateNameTerminated
}

// released takes the group's mark off an instance that was detached.
func (a *autoscalingService) released(id string) {
	a.s.ec2.instances.update(id, func(i *instance) {
		i.Tags = slices.DeleteFunc(i.Tags, func(t ec2types.Tag) bool { return aws.ToString(t.Key) == groupTag })
	})
	a.s.ec2.announce(id)
}

func (a *autoscalingService) endInstance(m *member) {
	by := m.endedBy
	if by == "" && m.activity != nil {
		by = "autoscaling: " + aws.ToString(m.activity.Cause)
	}
	_, _ = a.s.ec2.terminate(m.id, by) // it was launched: it is there
}

// sideGroups is what simapi.PathGroups shows.
func (a *autoscalingService) sideGroups() []simapi.Group {
	list := []simapi.Group{}
	for _, name := range a.order {
		list = append(list, a.groups[name].side())
	}
	return list
}

func (g *scalingGroup) side() simapi.Group {
	x := simapi.Group{Name: g.name(), Min: g.sizes.min, Max: g.sizes.max, Desired: g.sizes.desired, NodeGroup: aws.ToString(g.tags["eks:nodegroup-name"].Value)}
	for _, m := range g.members {
		if m.state == types.LifecycleStateInService {
			x.InService = append(x.InService, m.id)
		}
	}
	for _, p := range processes {
		if !g.runs(p) {
			x.SuspendedProcesses = append(x.SuspendedProcesses, p)
		}
	}
	for _, p := range sortedByName(g.policies) {
		name := aws.ToString(p.spec.PolicyName)
		if !or(p.spec.Enabled, true) {
			name += " (disabled)"
		}
		x.Policies = append(x.Policies, name)
	}
	for _, act := range sortedByName(g.actions) {
		x.ScheduledActions = append(x.ScheduledActions, aws.ToString(act.spec.ScheduledActionName))
	}
	return x
}

// pageOf cuts a listing as Auto Scaling, EKS and CloudWatch do: at most limit entries, and a token when there are more.
func pageOf[T any](s *Server, list []T, limit *int32, usual int32, token *string) ([]T, *string, error) {
	size := or(limit, usual)
	if size < 1 || size > 100 {
		return nil, nil, validation("The page size must be between 1 and 100, not %d", size)
	}
	return paged(s, token, size, func() ([]T, error) { return list, nil })
}
