package nodegroup

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	corev1 "k8s.io/api/core/v1"

	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/inventory/awsapi"
)

// managedGroup is what EKS alone knows; sizes are EKS' wish until the Auto Scaling group is there.
func managedGroup(in ekstypes.Nodegroup) inventory.NodeGroup {
	out := inventory.NodeGroup{
		Name:             aws.ToString(in.NodegroupName),
		AutoScalingGroup: ownedGroup(&in),
		ARN:              aws.ToString(in.NodegroupArn),
		Subnets:          in.Subnets,
		Managed: &inventory.ManagedNodeGroup{
			Status:            string(in.Status),
			AMIType:           string(in.AmiType),
			ReleaseVersion:    aws.ToString(in.ReleaseVersion),
			Version:           aws.ToString(in.Version),
			CapacityType:      string(in.CapacityType),
			InstanceTypes:     in.InstanceTypes,
			DiskSizeGiB:       aws.ToInt32(in.DiskSize),
			NodeRole:          awsapi.LastSegment(aws.ToString(in.NodeRole)),
			Labels:            in.Labels,
			Taints:            taints(in.Taints),
			Tags:              in.Tags,
			OwnLaunchTemplate: in.LaunchTemplate != nil,
		},
	}
	if s := in.ScalingConfig; s != nil {
		out.Min, out.Max, out.Desired = aws.ToInt32(s.MinSize), aws.ToInt32(s.MaxSize), aws.ToInt32(s.DesiredSize)
	}
	out.Managed.Repair = in.NodeRepairConfig != nil && aws.ToBool(in.NodeRepairConfig.Enabled)
	if in.Health != nil {
		for _, issue := range in.Health.Issues {
			out.Managed.HealthIssues = append(out.Managed.HealthIssues, string(issue.Code))
		}
	}
	return out
}

// effects are EKS' names of the taint effects of Kubernetes.
var effects = map[ekstypes.TaintEffect]corev1.TaintEffect{
	ekstypes.TaintEffectNoSchedule:       corev1.TaintEffectNoSchedule,
	ekstypes.TaintEffectNoExecute:        corev1.TaintEffectNoExecute,
	ekstypes.TaintEffectPreferNoSchedule: corev1.TaintEffectPreferNoSchedule,
}

func taints(in []ekstypes.Taint) []corev1.Taint {
	var out []corev1.Taint
	for _, t := range in {
		out = append(out, corev1.Taint{Key: aws.ToString(t.Key), Value: aws.ToString(t.Value), Effect: effects[t.Effect]})
	}
	return out
}

// fillGroup adds what DescribeAutoScalingGroups says.
func fillGroup(out *inventory.NodeGroup, in astypes.AutoScalingGroup) {
	out.AutoScalingGroup = aws.ToString(in.AutoScalingGroupName)
	if out.Managed == nil {
		out.Name, out.ARN = out.AutoScalingGroup, aws.ToString(in.AutoScalingGroupARN)
	}
	out.Min, out.Max, out.Desired = aws.ToInt32(in.MinSize), aws.ToInt32(in.MaxSize), aws.ToInt32(in.DesiredCapacity)
	out.Zones = slices.Sorted(slices.Values(in.AvailabilityZones))
	if subnets := aws.ToString(in.VPCZoneIdentifier); subnets != "" {
		out.Subnets = splitList(subnets)
	}
	for _, i := range in.Instances {
		version := ""
		if i.LaunchTemplate != nil {
			version = aws.ToString(i.LaunchTemplate.Version)
		}
		out.Instances = append(out.Instances, inventory.Instance{
			ID: aws.ToString(i.InstanceId), Type: aws.ToString(i.InstanceType), Zone: aws.ToString(i.AvailabilityZone),
			Lifecycle: string(i.LifecycleState), Healthy: strings.EqualFold(aws.ToString(i.HealthStatus), "Healthy"),
			Protected: aws.ToBool(i.ProtectedFromScaleIn), TemplateVersion: version,
		})
	}
	slices.SortFunc(out.Instances, func(a, b inventory.Instance) int { return strings.Compare(a.ID, b.ID) })
	for _, t := range in.Tags {
		out.Tags = append(out.Tags, inventory.Tag{Key: aws.ToString(t.Key), Value: aws.ToString(t.Value), Propagate: aws.ToBool(t.PropagateAtLaunch)})
	}
	slices.SortFunc(out.Tags, func(a, b inventory.Tag) int { return strings.Compare(a.Key, b.Key) })
	for _, p := range in.SuspendedProcesses {
		out.SuspendedProcesses = append(out.SuspendedProcesses, aws.ToString(p.ProcessName))
	}
	slices.Sort(out.SuspendedProcesses)
	out.CapacityRebalance = aws.ToBool(in.CapacityRebalance)
	out.MaxInstanceLifetime = aws.ToInt32(in.MaxInstanceLifetime)
	out.NewInstancesProtected = aws.ToBool(in.NewInstancesProtectedFromScaleIn)
	out.CapacityUnit = aws.ToString(in.DesiredCapacityType)
	out.WarmPool = in.WarmPoolConfiguration != nil
	out.DeletionProtection = string(in.DeletionProtection)
	if p := in.InstanceLifecyclePolicy; p != nil && p.RetentionTriggers != nil {
		out.RetainsInstances = p.RetentionTriggers.TerminateHookAbandon == astypes.RetentionActionRetain
	}
	out.MixedInstances = mixedInstances(in.MixedInstancesPolicy)
}

func splitList(list string) []string {
	var out []string
	for s := range strings.SplitSeq(list, ",") {
		if s = strings.TrimSpace(s); s != "" {
			out = append(out, s)
		}
	}
	return out
}

// allOnDemand is Auto Scaling's default of OnDemandPercentageAboveBaseCapacity (API reference).
const allOnDemand = 100

// mixedInstances is the policy without the types that its requirements stand for.
func mixedInstances(in *astypes.MixedInstancesPolicy) *inventory.MixedInstances {
	if in == nil {
		return nil
	}
	out := &inventory.MixedInstances{OnDemandPercentage: allOnDemand}
	if d := in.InstancesDistribution; d != nil {
		out.OnDemandBase = aws.ToInt32(d.OnDemandBaseCapacity)
		if d.OnDemandPercentageAboveBaseCapacity != nil {
			out.OnDemandPercentage = *d.OnDemandPercentageAboveBaseCapacity
		}
		out.OnDemandStrategy = aws.ToString(d.OnDemandAllocationStrategy)
		out.SpotStrategy = aws.ToString(d.SpotAllocationStrategy)
		out.SpotMaxPrice = aws.ToString(d.SpotMaxPrice)
	}
	if in.LaunchTemplate != nil {
		for _, o := range in.LaunchTemplate.Overrides {
			out.Overrides = append(out.Overrides, inventory.Override{
				InstanceType: aws.ToString(o.InstanceType), Weight: aws.ToString(o.WeightedCapacity), Requirements: o.InstanceRequirements != nil,
			})
		}
	}
	return out
}

// scalingPolicy is active when it is enabled and, where it predicts, not told to forecast only. Enabled is true where
// AWS leaves it out (API reference).
func scalingPolicy(in astypes.ScalingPolicy) inventory.ScalingPolicy {
	out := inventory.ScalingPolicy{
		Name: aws.ToString(in.PolicyName), ARN: aws.ToString(in.PolicyARN), Type: aws.ToString(in.PolicyType),
		Enabled: in.Enabled == nil || *in.Enabled, Definition: definition(in),
	}
	out.Active = out.Enabled
	if p := in.PredictiveScalingConfiguration; p != nil && p.Mode != astypes.PredictiveScalingModeForecastAndScale {
		out.Active = false // forecasting is also what AWS takes a missing mode for
	}
	for _, a := range in.Alarms {
		out.Alarms = append(out.Alarms, aws.ToString(a.AlarmName))
	}
	return out
}

// definition is an SDK value as a JSON object without its empty members: it survives a snapshot, and gives the same
// value back. An empty list must go too: as a request, Auto Scaling would take it for a setting of another policy type.
func definition(v any) map[string]any {
	b, err := json.Marshal(v)
	if err != nil {
		return nil // a struct of strings, numbers and lists always has a JSON form
	}
	var out map[string]any
	if json.Unmarshal(b, &out) != nil {
		return nil
	}
	dropEmpty(out)
	return out
}

func dropEmpty(v any) {
	switch v := v.(type) {
	case map[string]any:
		for key, member := range v {
			dropEmpty(member)
			if isEmpty(member) {
				delete(v, key)
			}
		}
	case []any:
		for _, member := range v {
			dropEmpty(member)
		}
	}
}

func isEmpty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case []any:
		return len(v) == 0
	default:
		return false
	}
}

func scheduledAction(in astypes.ScheduledUpdateGroupAction) inventory.ScheduledAction {
	return inventory.ScheduledAction{
		Name: aws.ToString(in.ScheduledActionName), Recurrence: aws.ToString(in.Recurrence), TimeZone: aws.ToString(in.TimeZone),
		Start: in.StartTime, End: in.EndTime, Min: in.MinSize, Max: in.MaxSize, Desired: in.DesiredCapacity,
	}
}

func lifecycleHook(in astypes.LifecycleHook) inventory.LifecycleHook {
	return inventory.LifecycleHook{
		Name: aws.ToString(in.LifecycleHookName), Transition: aws.ToString(in.LifecycleTransition),
		HeartbeatSeconds: aws.ToInt32(in.HeartbeatTimeout), DefaultResult: aws.ToString(in.DefaultResult),
		NotificationARN: aws.ToString(in.NotificationTargetARN), RoleARN: aws.ToString(in.RoleARN), Metadata: aws.ToString(in.NotificationMetadata),
	}
}
