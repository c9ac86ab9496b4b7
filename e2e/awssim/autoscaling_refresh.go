package awssim

import (
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
)

// refresh is an instance refresh: view is what is shown, left are the instances still to be replaced, of total.
type refresh struct {
	view  types.InstanceRefresh
	left  []string
	total int
}

func (r *refresh) active() bool {
	switch r.view.Status {
	case types.InstanceRefreshStatusPending, types.InstanceRefreshStatusInProgress, types.InstanceRefreshStatusCancelling:
		return true
	}
	return false
}

// currentRefresh is the one under way, nil when there is none.
func (g *scalingGroup) currentRefresh() *refresh {
	if len(g.refreshes) > 0 && g.refreshes[0].active() {
		return g.refreshes[0]
	}
	return nil
}

// advanceRefresh replaces as many instances as the minimum healthy percentage allows now.
func (a *autoscalingService) advanceRefresh(g *scalingGroup) {
	r := g.currentRefresh()
	if r == nil {
		return
	}
	if r.view.Status == types.InstanceRefreshStatusCancelling {
		if g.settled() {
			a.endRefresh(r, types.InstanceRefreshStatusCancelled)
		}
		return
	}
	if !g.runs(processInstanceRefresh) || !g.runs(processLaunch) || !g.runs(processTerminate) {
		return
	}
	r.view.Status = types.InstanceRefreshStatusInProgress
	for room := g.refreshRoom(r); room > 0; room-- {
		m := g.nextToRefresh(r)
		if m == nil {
			break
		}
		r.left = slices.DeleteFunc(r.left, func(id string) bool { return id == m.id })
		a.terminate(g, m, "an instance was taken out of service in response to an instance refresh")
		a.wake(g, 0)
	}
	r.progress()
	if len(r.left) == 0 && g.settled() {
		a.endRefresh(r, types.InstanceRefreshStatusSuccessful)
	}
}

// refreshRoom is how many instances may go now, at least one at a time.
func (g *scalingGroup) refreshRoom(r *refresh) int32 {
	least := int32(90)
	if r.view.Preferences != nil {
		least = or(r.view.Preferences.MinHealthyPercentage, 90)
	}
	unavailable := g.sizes.desired
	for _, m := range g.members {
		if m.state == types.LifecycleStateInService && !m.unhealthy {
			unavailable -= m.weight
		}
	}
	return max(1, g.sizes.desired*(100-least)/100) - unavailable
}

// nextToRefresh is the next instance to replace. One that is protected from scale-in is passed over, left out or
// replaced all the same, as the preferences say.
func (g *scalingGroup) nextToRefresh(r *refresh) *member {
	how := types.ScaleInProtectedInstancesWait
	if p := r.view.Preferences; p != nil && p.ScaleInProtectedInstances != "" {
		how = p.ScaleInProtectedInstances
	}
	for _, id := range slices.Clone(r.left) {
		m := g.member(id)
		gone := m == nil || !m.counted()
		if gone || m.protected && how == types.ScaleInProtectedInstancesIgnore {
			r.left = slices.DeleteFunc(r.left, func(x string) bool { return x == id })
			continue
		}
		if !m.protected || how == types.ScaleInProtectedInstancesRefresh {
			return m
		}
	}
	return nil
}

// progress shows how far it is; an instance counts as done when its replacement has begun.
func (r *refresh) progress() {
	left := len(r.left)
	r.view.InstancesToUpdate, r.view.PercentageComplete = aws.Int32(int32(left)), aws.Int32(100)
	if r.total > 0 {
		r.view.PercentageComplete = aws.Int32(int32(100 * (r.total - left) / r.total))
	}
}

func (a *autoscalingService) endRefresh(r *refresh, status types.InstanceRefreshStatus) {
	r.view.Status, r.view.EndTime = status, aws.Time(a.now())
}

func (a *autoscalingService) startInstanceRefresh(_ *call, in *autoscaling.StartInstanceRefreshInput) (*autoscaling.StartInstanceRefreshOutput, error) {
	g, err := a.group(in.AutoScalingGroupName)
	if err != nil {
		return nil, err
	}
	if g.currentRefresh() != nil {
		return nil, errorf("InstanceRefreshInProgress", "An Instance Refresh is already in progress and blocks the execution of this Instance Refresh.")
	}
	if d := in.DesiredConfiguration; d != nil {
		spec := updatedSpec(deepCopy(g.spec), &autoscaling.UpdateAutoScalingGroupInput{LaunchTemplate: d.LaunchTemplate, MixedInstancesPolicy: d.MixedInstancesPolicy})
		if err := a.complement(&spec); err != nil {
			return nil, err
		}
		g.spec = spec // AWS does this when the refresh succeeds; its launches use it from the start either way
	}
	r := a.beginRefresh(g, in.Preferences)
	r.view.DesiredConfiguration = in.DesiredConfiguration
	a.touch(g)
	return &autoscaling.StartInstanceRefreshOutput{InstanceRefreshId: r.view.InstanceRefreshId}, nil
}

// beginRefresh plans to replace what is in the group now; with SkipMatching only what another template launched.
func (a *autoscalingService) beginRefresh(g *scalingGroup, prefs *types.RefreshPreferences) *refresh {
	r := &refresh{view: types.InstanceRefresh{
		AutoScalingGroupName: g.spec.AutoScalingGroupName, InstanceRefreshId: aws.String(a.uuid()), Status: types.InstanceRefreshStatusPending,
		StartTime: aws.Time(a.now()), PercentageComplete: aws.Int32(0), Preferences: prefs, Strategy: types.RefreshStrategyRolling,
	}}
	want, _, _ := a.resolve(g.template()) // nil when it is gone: nothing matches
	for _, m := range g.members {
		skip := prefs != nil && or(prefs.SkipMatching, false) && sameTemplate(m, want)
		if m.counted() && !skip {
			r.left = append(r.left, m.id)
		}
	}
	r.total = len(r.left)
	g.refreshes = append([]*refresh{r}, g.refreshes...)
	return r
}

// template is the launch template, or that of the mixed instances policy.
func (g *scalingGroup) template() *types.LaunchTemplateSpecification {
	if m := g.spec.MixedInstancesPolicy; m != nil && m.LaunchTemplate != nil {
		return m.LaunchTemplate.LaunchTemplateSpecification
	}
	return g.spec.LaunchTemplate
}

// cancelInstanceRefresh stops further replacements; what is under way is finished.
func (a *autoscalingService) cancelInstanceRefresh(_ *call, in *autoscaling.CancelInstanceRefreshInput) (*autoscaling.CancelInstanceRefreshOutput, error) {
	g, err := a.group(in.AutoScalingGroupName)
	if err != nil {
		return nil, err
	}
	r := g.currentRefresh()
	if r == nil {
		return nil, errorf("ActiveInstanceRefreshNotFound", "No in progress or pending Instance Refresh found for Auto Scaling group %s", g.name())
	}
	r.view.Status = types.InstanceRefreshStatusCancelling
	a.touch(g)
	return &autoscaling.CancelInstanceRefreshOutput{InstanceRefreshId: r.view.InstanceRefreshId}, nil
}

func (a *autoscalingService) describeInstanceRefreshes(c *call, in *autoscaling.DescribeInstanceRefreshesInput) (*autoscaling.DescribeInstanceRefreshesOutput, error) {
	d, err := a.shownGroup(c, in.AutoScalingGroupName)
	if err != nil {
		return nil, err
	}
	list := slices.DeleteFunc(d.Refreshes, func(r types.InstanceRefresh) bool { return !named(in.InstanceRefreshIds, r.InstanceRefreshId) })
	list, next, err := pageOf(a.s, list, in.MaxRecords, 50, in.NextToken)
	if err != nil {
		return nil, err
	}
	return &autoscaling.DescribeInstanceRefreshesOutput{InstanceRefreshes: append([]types.InstanceRefresh{}, list...), NextToken: next}, nil
}
