package awssim

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/castoff-sh/castoff/e2e/awssim/simapi"
)

// instance is an EC2 instance and what DescribeInstances does not tell of it.
type instance struct {
	types.Instance
	UserData string // decoded
	EndTime  time.Time
	EndedBy  string
	// ImpairedSince is when it began to fail its status checks; zero when it does not.
	ImpairedSince time.Time
}

func (i *instance) id() string { return aws.ToString(i.InstanceId) }

func (i *instance) state() types.InstanceStateName {
	if i.State == nil {
		return ""
	}
	return i.State.Name
}

func (i *instance) zone() string {
	if i.Placement == nil {
		return ""
	}
	return aws.ToString(i.Placement.AvailabilityZone)
}

// live is an instance that still runs, or will.
func (i *instance) live() bool {
	return i.state() == types.InstanceStateNamePending || i.state() == types.InstanceStateNameRunning
}

func (i *instance) spot() bool { return i.InstanceLifecycle == types.InstanceLifecycleTypeSpot }

// stateCodes are EC2's numbers for the states.
var stateCodes = map[types.InstanceStateName]int32{
	types.InstanceStateNamePending: 0, types.InstanceStateNameRunning: 16,
	types.InstanceStateNameShuttingDown: 32, types.InstanceStateNameTerminated: 48,
}

func instanceState(name types.InstanceStateName) *types.InstanceState {
	return &types.InstanceState{Name: name, Code: aws.Int32(stateCodes[name])}
}

func (e *ec2Service) registerInstances() {
	on(e.s, "ec2.RunInstances", e.runInstances)
	on(e.s, "ec2.CreateFleet", e.createFleet)
	on(e.s, "ec2.TerminateInstances", e.terminateInstances)
	on(e.s, "ec2.DescribeInstances", e.describeInstances)
	on(e.s, "ec2.DescribeInstanceStatus", e.describeInstanceStatus)
	on(e.s, "ec2.DescribeVolumes", e.describeVolumes)
}

// setState moves an instance on and tells everybody who wants to know.
func (e *ec2Service) setState(id string, to types.InstanceStateName, by string) {
	i, ok := e.instances.get(id)
	if !ok || i.state() == to {
		return
	}
	was := i.state()
	i.State = instanceState(to)
	e.instances.put(id, i)
	e.stateChanged(i, was, by)
}

// stateChanged runs after the instance was stored in its new state.
func (e *ec2Service) stateChanged(i instance, was types.InstanceStateName, by string) {
	e.s.events.emit("aws.ec2", "EC2 Instance State-change Notification", []string{e.s.arn("ec2", "instance/"+i.id())},
		map[string]any{"instance-id": i.id(), "state": string(i.state())})
	for _, f := range e.s.onState {
		f(i, was, by)
	}
	e.announce(i.id())
}

// terminate ends an instance on behalf of by ("<identity> <service>.<operation>"); ending it twice changes nothing.
func (e *ec2Service) terminate(id, by string) (types.InstanceStateChange, error) {
	i, ok := e.instances.get(id)
	if !ok {
		return types.InstanceStateChange{}, errorf("InvalidInstanceID.NotFound", "The instance ID '%s' does not exist", id)
	}
	change := types.InstanceStateChange{InstanceId: i.InstanceId, PreviousState: i.State, CurrentState: i.State}
	if !i.live() {
		return change, nil
	}
	was := i.state()
	i.State = instanceState(types.InstanceStateNameShuttingDown)
	i.EndTime, i.EndedBy = e.s.now(), by
	i.StateTransitionReason = aws.String(fmt.Sprintf("User initiated (%s)", i.EndTime.UTC().Format("2006-01-02 15:04:05 GMT")))
	e.instances.put(id, i)
	e.stateChanged(i, was, by)
	e.s.after(e.s.settings.ShutdownDelay, func() {
		e.release(id)
		e.setState(id, types.InstanceStateNameTerminated, by)
	})
	change.CurrentState = i.State
	return change, nil
}

// release gives back what an instance held: its address and its volumes.
func (e *ec2Service) release(id string) {
	for _, v := range e.volumes.truth().where(func(v *types.Volume) bool {
		return len(v.Attachments) > 0 && aws.ToString(v.Attachments[0].InstanceId) == id
	}) {
		e.volumes.delete(aws.ToString(v.VolumeId))
	}
	maps.DeleteFunc(e.addresses, func(_ netip.Addr, owner string) bool { return owner == id })
}

func (e *ec2Service) terminateInstances(c *call, in *ec2.TerminateInstancesInput) (*ec2.TerminateInstancesOutput, error) {
	for _, id := range in.InstanceIds {
		if _, ok := e.instances.get(id); !ok {
			return nil, errorf("InvalidInstanceID.NotFound", "The instance ID '%s' does not exist", id)
		}
	}
	out := &ec2.TerminateInstancesOutput{}
	for _, id := range in.InstanceIds {
		change, err := e.terminate(id, c.by())
		if err != nil {
			return nil, err
		}
		out.TerminatingInstances = append(out.TerminatingInstances, change)
	}
	return out, nil
}

// announce puts the instance as it is now on the side door's stream.
func (e *ec2Service) announce(id string) {
	if i, ok := e.instances.get(id); ok {
		side := e.sideInstance(i)
		e.s.stream = append(e.s.stream, simapi.Event{Time: e.s.now(), Instance: &side})
		e.s.dirty = true
	}
}

func (e *ec2Service) sideInstances() []simapi.Instance {
	list := []simapi.Instance{}
	for _, i := range e.instances.list() {
		list = append(list, e.sideInstance(i))
	}
	return list
}

func (e *ec2Service) sideInstance(i instance) simapi.Instance {
	side := simapi.Instance{
		ID: i.id(), Type: string(i.InstanceType), Zone: i.zone(), Region: e.s.options.Region, State: string(i.state()),
		PrivateIP: aws.ToString(i.PrivateIpAddress), PrivateDNSName: aws.ToString(i.PrivateDnsName),
		ImageID: aws.ToString(i.ImageId), Architecture: "amd64", SubnetID: aws.ToString(i.SubnetId),
		UserData: i.UserData, RoleAuthorised: true, Spot: i.spot(), Tags: map[string]string{},
		LaunchTime: aws.ToTime(i.LaunchTime), EndTime: i.EndTime, EndedBy: i.EndedBy,
	}
	if i.Architecture == types.ArchitectureValuesArm64 {
		side.Architecture = "arm64"
	}
	for _, g := range i.SecurityGroups {
		side.SecurityGroupIDs = append(side.SecurityGroupIDs, aws.ToString(g.GroupId))
	}
	for _, t := range i.Tags {
		side.Tags[aws.ToString(t.Key)] = aws.ToString(t.Value)
	}
	side.AutoScalingGroup = side.Tags["aws:autoscaling:groupName"]
	side.NodeGroup = side.Tags["eks:nodegroup-name"]
	side.Cluster = clusterOf(side.Tags)
	if t, ok := findInstanceType(side.Type); ok {
		side.MilliCPU, side.MemoryMiB, side.MaxPods = int64(t.vCPUs())*1000, t.memoryMiB(), t.maxPods()
	}
	side.RoleARN = e.roleOf(i)
	for _, f := range e.s.annotate {
		f(&side)
	}
	return side
}

// clusterOf reads the cluster from the tags that managed node groups, Karpenter and self-managed groups set.
func clusterOf(tags map[string]string) string {
	for _, key := range []string{"eks:cluster-name", "eks:eks-cluster-name", "aws:eks:cluster-name"} {
		if v := tags[key]; v != "" {
			return v
		}
	}
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		if name, ok := strings.CutPrefix(key, "kubernetes.io/cluster/"); ok && name != "" {
			return name
		}
	}
	return ""
}

// spotWarning is how long before the end a spot instance is told of it,
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html.
const spotWarning = 2 * time.Minute

// interrupt does to an instance what the side door asks for.
func (e *ec2Service) interrupt(x simapi.Interrupt) error {
	id := x.InstanceID
	if _, ok := e.instances.get(id); !ok {
		return fmt.Errorf("no instance %q", id)
	}
	detail := map[string]any{"instance-id": id}
	resources := []string{e.s.arn("ec2", "instance/"+id)}
	if e.s.atRisk != nil && (x.Kind == "rebalance" || x.Kind == "spot-warning") {
		defer e.s.atRisk(id) // after the event is out
	}
	switch x.Kind {
	case "terminate":
		_, err := e.terminate(id, "interruption: terminate")
		return err
	case "rebalance":
		e.s.events.emit("aws.ec2", "EC2 Instance Rebalance Recommendation", resources, detail)
	case "spot-warning":
		detail["instance-action"] = "terminate"
		e.s.events.emit("aws.ec2", "EC2 Spot Instance Interruption Warning", resources, detail)
		end := x.EndAfter
		if end == 0 {
			end = spotWarning
		}
		e.s.after(end, func() { _, _ = e.terminate(id, "interruption: spot") }) // it exists, or has ended already
	case "unhealthy":
		e.instances.update(id, func(i *instance) { i.ImpairedSince = e.s.now() })
		if e.s.unhealthy != nil {
			e.s.unhealthy(id)
		}
	default:
		return fmt.Errorf("unknown kind of interruption %q: want spot-warning, rebalance, terminate or unhealthy", x.Kind)
	}
	return nil
}
