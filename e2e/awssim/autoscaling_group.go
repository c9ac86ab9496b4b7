package awssim

import (
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
)

// The processes of an Auto Scaling group that can be suspended, each on its own.
const (
	processLaunch            = "Launch"
	processTerminate         = "Terminate"
	processAddToLoadBalancer = "AddToLoadBalancer"
	processAlarmNotification = "AlarmNotification"
	processAZRebalance       = "AZRebalance"
	processHealthCheck       = "HealthCheck"
	processInstanceRefresh   = "InstanceRefresh"
	processReplaceUnhealthy  = "ReplaceUnhealthy"
	processScheduledActions  = "ScheduledActions"
)

var processes = []string{
	processLaunch, processTerminate, processAddToLoadBalancer, processAlarmNotification, processAZRebalance,
	processHealthCheck, processInstanceRefresh, processReplaceUnhealthy, processScheduledActions,
}

// scalingGroup is the truth about one Auto Scaling group. What Describe calls show is a copy of it that lags.
type scalingGroup struct {
	// spec is what the user gave, defaults filled in. Sizes, instances, suspensions, tags and warm pool are kept beside it.
	spec       types.AutoScalingGroup
	sizes      sizes
	members    []*member
	suspended  map[string]string // process: reason
	tags       map[string]types.TagDescription
	hooks      []types.LifecycleHook
	warmPool   *types.WarmPoolConfiguration
	deleting   bool
	activities []*types.Activity // newest first
	refreshes  []*refresh        // newest first
	policies   map[string]*scalingPolicy
	actions    map[string]*scheduledAction
	// unevenSince is when its zones were first seen uneven, zero while they are even.
	unevenSince time.Time
	// asked is what last changed the desired capacity, in AWS's words; empty once the group has it.
	asked string
	// retryAt holds launches back after one failed.
	retryAt  time.Time
	failures int
	// next looks at the group again.
	next *timer
}

// member is one instance as its group sees it.
type member struct {
	id, instanceType, zone, imageID string
	weight                          int32
	weighted                        bool // its group gives weights
	spot                            bool
	state                           types.LifecycleState
	unhealthy                       bool
	protected                       bool
	extra                           bool // launched above desired, to replace one that still serves
	atRisk                          bool // EC2 recommends to rebalance it away
	template                        *types.LaunchTemplateSpecification
	configuration                   *string // launch configuration, instead of a template
	launched, inService             time.Time
	waiting                         map[string]*wait // lifecycle hooks still to be completed
	activity                        *types.Activity
	endedBy                         string // the caller who asked for its end, empty when the group decided
}

// wait is a lifecycle action that waits to be completed.
type wait struct {
	token    string
	deadline time.Time // of the heartbeat
	limit    time.Time // however many heartbeats come
}

func (g *scalingGroup) name() string { return aws.ToString(g.spec.AutoScalingGroupName) }

// runs says whether a process is not suspended.
func (g *scalingGroup) runs(process string) bool { _, off := g.suspended[process]; return !off }

// counted says whether an instance counts as capacity: from its launch until its end begins.
func (m *member) counted() bool {
	return m.state == types.LifecycleStateInService || m.pending()
}

func (m *member) pending() bool { return strings.HasPrefix(string(m.state), "Pending") }

func (m *member) ending() bool { return strings.HasPrefix(string(m.state), "Terminating") }

// capacity is what the group has, replacements that came above desired left out until they serve.
func (g *scalingGroup) capacity() (sum int32) {
	for _, m := range g.members {
		if m.counted() && !(m.extra && m.pending()) {
			sum += m.weight
		}
	}
	return sum
}

func (g *scalingGroup) member(id string) *member {
	for _, m := range g.members {
		if m.id == id {
			return m
		}
	}
	return nil
}

// remove takes an instance out. It leaves the old slice alone: somebody may be on the way through it.
func (g *scalingGroup) remove(id string) {
	g.members = slices.DeleteFunc(slices.Clone(g.members), func(m *member) bool { return m.id == id })
}

// settled says whether the group has what it wants, in service.
func (g *scalingGroup) settled() bool {
	for _, m := range g.members {
		if m.counted() && (m.state != types.LifecycleStateInService || m.unhealthy) || m.ending() {
			return false
		}
	}
	return g.capacity() == g.sizes.desired
}

// subnets are those it launches into, as VPCZoneIdentifier lists them.
func (g *scalingGroup) subnets() []string {
	return strings.FieldsFunc(aws.ToString(g.spec.VPCZoneIdentifier), isSubnetSeparator)
}

// countByZone counts what serves or will, in each of its zones and in every other zone with an instance.
func (g *scalingGroup) countByZone() map[string]int {
	count := map[string]int{}
	for _, z := range g.spec.AvailabilityZones {
		count[z] = 0
	}
	for _, m := range g.members {
		if m.counted() {
			count[m.zone]++
		}
	}
	return count
}

// view is what DescribeAutoScalingGroups shows.
func (g *scalingGroup) view() types.AutoScalingGroup {
	v := g.spec
	v.MinSize, v.MaxSize, v.DesiredCapacity = aws.Int32(g.sizes.min), aws.Int32(g.sizes.max), aws.Int32(g.sizes.desired)
	v.WarmPoolConfiguration = g.warmPool
	if g.deleting {
		v.Status = aws.String("Delete in progress")
	}
	for _, m := range g.members {
		v.Instances = append(v.Instances, m.view())
	}
	for _, p := range processes {
		if reason, off := g.suspended[p]; off {
			v.SuspendedProcesses = append(v.SuspendedProcesses, types.SuspendedProcess{ProcessName: aws.String(p), SuspensionReason: aws.String(reason)})
		}
	}
	v.Tags = sortedTags(g.tags)
	return v
}

func (m *member) view() types.Instance {
	return types.Instance{
		InstanceId: aws.String(m.id), InstanceType: aws.String(m.instanceType), AvailabilityZone: aws.String(m.zone),
		ImageId: aws.String(m.imageID), LifecycleState: m.state, HealthStatus: aws.String(m.health()),
		ProtectedFromScaleIn: aws.Bool(m.protected), LaunchTemplate: m.template, LaunchConfigurationName: m.configuration, WeightedCapacity: m.weightShown(),
	}
}

func (m *member) health() string {
	if m.unhealthy {
		return "Unhealthy"
	}
	return "Healthy"
}
