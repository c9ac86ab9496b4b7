package awssim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	cwtypes "github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
)

const (
	targetTracking    = "TargetTrackingScaling"
	predictiveScaling = "PredictiveScaling"
	stepScaling       = "StepScaling"
	simpleScaling     = "SimpleScaling"
)

// scalingPolicy is a policy and, for target tracking, what it last reckoned with.
type scalingPolicy struct {
	spec types.ScalingPolicy
	high string // name of the alarm that scales out, and
	low  string // of the one that scales in; both of target tracking only
	// base is the capacity that the metric was last set against. It holds until what was launched then has warmed up.
	base  int32
	until time.Time
}

func (a *autoscalingService) putScalingPolicy(_ *call, in *autoscaling.PutScalingPolicyInput) (*autoscaling.PutScalingPolicyOutput, error) {
	g, err := a.group(in.AutoScalingGroupName)
	if err != nil {
		return nil, err
	}
	spec := types.ScalingPolicy{
		AutoScalingGroupName: in.AutoScalingGroupName, PolicyName: in.PolicyName, PolicyType: aws.String(or(in.PolicyType, simpleScaling)),
		AdjustmentType: in.AdjustmentType, Cooldown: in.Cooldown, Enabled: aws.Bool(or(in.Enabled, true)), EstimatedInstanceWarmup: in.EstimatedInstanceWarmup,
		MetricAggregationType: in.MetricAggregationType, MinAdjustmentMagnitude: in.MinAdjustmentMagnitude, ScalingAdjustment: in.ScalingAdjustment,
		StepAdjustments: in.StepAdjustments, TargetTrackingConfiguration: in.TargetTrackingConfiguration, PredictiveScalingConfiguration: in.PredictiveScalingConfiguration,
	}
	if err := checkPolicy(spec); err != nil {
		return nil, err
	}
	p := a.storePolicy(g, spec)
	a.touch(g)
	return &autoscaling.PutScalingPolicyOutput{PolicyARN: p.spec.PolicyARN, Alarms: a.shownPolicy(p).Alarms}, nil
}

func checkPolicy(p types.ScalingPolicy) error {
	switch kind := aws.ToString(p.PolicyType); kind {
	case targetTracking:
		if t := p.TargetTrackingConfiguration; t == nil || t.TargetValue == nil || t.PredefinedMetricSpecification == nil && t.CustomizedMetricSpecification == nil {
			return validation("TargetTrackingConfiguration with a TargetValue and a metric specification is required for policy type %s.", kind)
		}
	case stepScaling:
		if len(p.StepAdjustments) == 0 || p.AdjustmentType == nil {
			return validation("AdjustmentType and StepAdjustments are required for policy type %s.", kind)
		}
	case simpleScaling:
		if p.ScalingAdjustment == nil || p.AdjustmentType == nil {
			return validation("AdjustmentType and ScalingAdjustment are required for policy type %s.", kind)
		}
	case predictiveScaling:
		if p.PredictiveScalingConfiguration == nil {
			return validation("PredictiveScalingConfiguration is required for policy type %s.", kind)
		}
	default:
		return validation("Policy type %q is not valid.", kind)
	}
	return nil
}

// storePolicy adds a policy or replaces one of that name, which keeps its ARN and so remains what alarms point at.
func (a *autoscalingService) storePolicy(g *scalingGroup, spec types.ScalingPolicy) *scalingPolicy {
	name := aws.ToString(spec.PolicyName)
	p := g.policies[name]
	if p == nil {
		id := a.uuid()
		p = &scalingPolicy{high: "TargetTracking-" + g.name() + "-AlarmHigh-" + a.uuid(), low: "TargetTracking-" + g.name() + "-AlarmLow-" + a.uuid()}
		p.spec.PolicyARN = aws.String(a.arn("scalingPolicy:" + id + ":autoScalingGroupName/" + g.name() + ":policyName/" + name))
		g.policies[name] = p
	}
	spec.PolicyARN = p.spec.PolicyARN
	p.spec = spec
	if aws.ToString(spec.PolicyType) == targetTracking {
		a.putTrackingAlarms(g, p)
	}
	return p
}

// putTrackingAlarms makes the two alarms of a target-tracking policy: three minutes above the target scale out, fifteen
// minutes more than a tenth below it scale in.
func (a *autoscalingService) putTrackingAlarms(g *scalingGroup, p *scalingPolicy) {
	t := p.spec.TargetTrackingConfiguration
	target := aws.ToFloat64(t.TargetValue)
	a.putTrackingAlarm(g, p, p.high, cwtypes.ComparisonOperatorGreaterThanThreshold, target, 3)
	if or(t.DisableScaleIn, false) {
		a.s.cloudwatch.drop(p.low)
		return
	}
	a.putTrackingAlarm(g, p, p.low, cwtypes.ComparisonOperatorLessThanThreshold, 0.9*target, 15)
}

func (a *autoscalingService) putTrackingAlarm(g *scalingGroup, p *scalingPolicy, name string, compare cwtypes.ComparisonOperator, threshold float64, periods int32) {
	m := trackedMetric(g.name(), p.spec.TargetTrackingConfiguration)
	a.s.cloudwatch.put(cwtypes.MetricAlarm{
		AlarmName: aws.String(name), AlarmActions: []string{aws.ToString(p.spec.PolicyARN)}, ActionsEnabled: aws.Bool(true),
		AlarmDescription: aws.String("DO NOT EDIT OR DELETE. For TargetTrackingScaling policy " + aws.ToString(p.spec.PolicyARN) + "."),
		Namespace:        m.Namespace, MetricName: m.MetricName, Dimensions: m.Dimensions, Statistic: cwtypes.StatisticAverage,
		ComparisonOperator: compare, Threshold: aws.Float64(threshold), Period: aws.Int32(60), EvaluationPeriods: aws.Int32(periods),
	})
}

// trackedMetric is the CloudWatch metric that a policy follows.
func trackedMetric(group string, t *types.TargetTrackingConfiguration) cwtypes.Metric {
	if c := t.CustomizedMetricSpecification; c != nil {
		m := cwtypes.Metric{Namespace: c.Namespace, MetricName: c.MetricName}
		for _, d := range c.Dimensions {
			m.Dimensions = append(m.Dimensions, cwtypes.Dimension{Name: d.Name, Value: d.Value})
		}
		return m
	}
	m := cwtypes.Metric{Namespace: aws.String("AWS/EC2"), Dimensions: []cwtypes.Dimension{{Name: aws.String("AutoScalingGroupName"), Value: aws.String(group)}}}
	switch t.PredefinedMetricSpecification.PredefinedMetricType {
	case types.MetricTypeASGAverageNetworkIn:
		m.MetricName = aws.String("NetworkIn")
	case types.MetricTypeASGAverageNetworkOut:
		m.MetricName = aws.String("NetworkOut")
	case types.MetricTypeALBRequestCountPerTarget:
		m.Namespace, m.MetricName = aws.String("AWS/ApplicationELB"), aws.String("RequestCountPerTarget")
		m.Dimensions = []cwtypes.Dimension{{Name: aws.String("TargetGroup"), Value: t.PredefinedMetricSpecification.ResourceLabel}}
	default:
		m.MetricName = aws.String("CPUUtilization")
	}
	return m
}

// shownPolicy is a policy with the alarms that point at it.
func (a *autoscalingService) shownPolicy(p *scalingPolicy) types.ScalingPolicy {
	v := p.spec
	for _, al := range a.s.cloudwatch.withAction(aws.ToString(p.spec.PolicyARN)) {
		v.Alarms = append(v.Alarms, types.Alarm{AlarmName: al.AlarmName, AlarmARN: al.AlarmArn})
	}
	return v
}

// policyAt finds a policy by its ARN, or by its name in a group.
func (a *autoscalingService) policyAt(group *string, nameOrARN string) (*scalingGroup, *scalingPolicy, error) {
	for _, gname := range a.order {
		g := a.groups[gname]
		for name, p := range g.policies {
			if aws.ToString(p.spec.PolicyARN) == nameOrARN || group != nil && *group == gname && name == nameOrARN {
				return g, p, nil
			}
		}
	}
	return nil, nil, validation("PolicyName/PolicyARN not found - %s", nameOrARN)
}

func (a *autoscalingService) deletePolicy(_ *call, in *autoscaling.DeletePolicyInput) (*autoscaling.DeletePolicyOutput, error) {
	g, p, err := a.policyAt(in.AutoScalingGroupName, aws.ToString(in.PolicyName))
	if err != nil {
		return nil, err
	}
	a.dropPolicy(g, aws.ToString(p.spec.PolicyName))
	a.touch(g)
	return &autoscaling.DeletePolicyOutput{}, nil
}

// dropPolicy deletes a policy. Target tracking takes its alarms along; the alarms of others stay, without that action.
func (a *autoscalingService) dropPolicy(g *scalingGroup, name string) {
	p := g.policies[name]
	delete(g.policies, name)
	if aws.ToString(p.spec.PolicyType) == targetTracking {
		a.s.cloudwatch.drop(p.high)
		a.s.cloudwatch.drop(p.low)
		return
	}
	a.s.cloudwatch.removeAction(aws.ToString(p.spec.PolicyARN))
}

// dropIdle deletes those of the alarms that have no action left.
func (a *autoscalingService) dropIdle(alarms []cwtypes.MetricAlarm) {
	for _, al := range alarms {
		now, ok := a.s.cloudwatch.alarms.get(aws.ToString(al.AlarmName))
		if ok && len(now.AlarmActions)+len(now.OKActions)+len(now.InsufficientDataActions) == 0 {
			a.s.cloudwatch.drop(aws.ToString(al.AlarmName))
		}
	}
}

func (a *autoscalingService) describePolicies(c *call, in *autoscaling.DescribePoliciesInput) (*autoscaling.DescribePoliciesOutput, error) {
	var list []types.ScalingPolicy
	for _, d := range a.shown.asOf(c.readTime()).where(nil) {
		if in.AutoScalingGroupName != nil && aws.ToString(d.Group.AutoScalingGroupName) != *in.AutoScalingGroupName {
			continue
		}
		for _, p := range d.Policies {
			wanted := named(in.PolicyNames, p.PolicyName) || slices.Contains(in.PolicyNames, aws.ToString(p.PolicyARN))
			if wanted && named(in.PolicyTypes, p.PolicyType) {
				list = append(list, p)
			}
		}
	}
	list, next, err := pageOf(a.s, list, in.MaxRecords, 50, in.NextToken)
	if err != nil {
		return nil, err
	}
	return &autoscaling.DescribePoliciesOutput{ScalingPolicies: append([]types.ScalingPolicy{}, list...), NextToken: next}, nil
}

func (a *autoscalingService) executePolicy(_ *call, in *autoscaling.ExecutePolicyInput) (*autoscaling.ExecutePolicyOutput, error) {
	g, p, err := a.policyAt(in.AutoScalingGroupName, aws.ToString(in.PolicyName))
	if err != nil {
		return nil, err
	}
	switch aws.ToString(p.spec.PolicyType) {
	case targetTracking, predictiveScaling:
		return nil, validation("Policy %s of type %s cannot be executed.", aws.ToString(in.PolicyName), aws.ToString(p.spec.PolicyType))
	}
	a.applyAdjustment(g, p, or(in.MetricValue, 0)-or(in.BreachThreshold, 0), "a user request to execute policy "+aws.ToString(p.spec.PolicyName))
	return &autoscaling.ExecutePolicyOutput{}, nil
}

// alarmed runs the policy that an alarm in state ALARM points at, again every minute. Nothing happens while the policy
// is disabled or AlarmNotification is suspended.
func (a *autoscalingService) alarmed(al cwtypes.MetricAlarm, action string, metric float64) {
	if !strings.Contains(action, ":scalingPolicy:") {
		return
	}
	g, p, err := a.policyAt(nil, action)
	if err != nil || g.deleting || !g.runs(processAlarmNotification) || !or(p.spec.Enabled, true) {
		return
	}
	cause := fmt.Sprintf("a monitor alarm %s in state ALARM triggered policy %s", aws.ToString(al.AlarmName), aws.ToString(p.spec.PolicyName))
	if aws.ToString(p.spec.PolicyType) == targetTracking {
		a.track(g, p, metric, cause)
		return
	}
	if a.now().Before(p.until) {
		return // cooling down
	}
	a.applyAdjustment(g, p, metric-aws.ToFloat64(al.Threshold), cause)
	p.until = a.now().Add(time.Duration(or(p.spec.Cooldown, or(g.spec.DefaultCooldown, 300))) * time.Second)
}

// track follows the target: the metric stands against the capacity of before the last change until that has warmed up.
func (a *autoscalingService) track(g *scalingGroup, p *scalingPolicy, metric float64, cause string) {
	if !a.now().Before(p.until) {
		p.base = g.sizes.desired
		warmup := or(p.spec.EstimatedInstanceWarmup, or(g.spec.DefaultInstanceWarmup, 300))
		p.until = a.now().Add(time.Duration(warmup) * time.Second)
	}
	a.scaleTo(g, trackTarget(p.base, metric, aws.ToFloat64(p.spec.TargetTrackingConfiguration.TargetValue)), cause)
}

func (a *autoscalingService) applyAdjustment(g *scalingGroup, p *scalingPolicy, over float64, cause string) {
	by, found := or(p.spec.ScalingAdjustment, 0), true
	if aws.ToString(p.spec.PolicyType) == stepScaling {
		by, found = step(p.spec.StepAdjustments, over)
	}
	if found {
		a.scaleTo(g, adjust(g.sizes.desired, by, p.spec), cause)
	}
}

// scaleTo changes the desired capacity within the bounds on behalf of a policy.
func (a *autoscalingService) scaleTo(g *scalingGroup, want int32, cause string) {
	z := g.sizes.clamped(want)
	if z.desired == g.sizes.desired {
		return
	}
	act := a.begin(g, "Changing the desired capacity", fmt.Sprintf("%s changing the desired capacity from %d to %d", cause, g.sizes.desired, z.desired))
	a.finish(act, types.ScalingActivityStatusCodeSuccessful, "")
	g.resized(cause, z)
	a.touch(g)
}
