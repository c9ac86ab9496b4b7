package awssim

import (
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	cwtypes "github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/castoff-sh/castoff/e2e/awssim/simapi"
)

func (s *scaled) putAction(t *testing.T, in *autoscaling.PutScheduledUpdateGroupActionInput) {
	t.Helper()
	in.AutoScalingGroupName = aws.String("g")
	_, err := s.as.PutScheduledUpdateGroupAction(ctx, in)
	ok(t, err)
}

func (s *scaled) actions(t *testing.T) (names []string) {
	t.Helper()
	out, err := s.as.DescribeScheduledActions(ctx, &autoscaling.DescribeScheduledActionsInput{AutoScalingGroupName: aws.String("g")})
	ok(t, err)
	for _, a := range out.ScheduledUpdateGroupActions {
		names = append(names, aws.ToString(a.ScheduledActionName))
	}
	return names
}

func (s *scaled) desired(t *testing.T) int32 {
	t.Helper()
	return aws.ToInt32(s.describe(t).DesiredCapacity)
}

func TestScheduledActions(t *testing.T) {
	s := newScaled(t)
	s.create(t, 0, 6, 1, nil)
	now := epoch.Add(10 * time.Second)
	once := now.Add(time.Hour)
	s.putAction(t, &autoscaling.PutScheduledUpdateGroupActionInput{ScheduledActionName: aws.String("once"), StartTime: &once, MinSize: aws.Int32(2), MaxSize: aws.Int32(4), DesiredCapacity: aws.Int32(3)})
	s.putAction(t, &autoscaling.PutScheduledUpdateGroupActionInput{ScheduledActionName: aws.String("nightly"), Recurrence: aws.String("0 22 * * *"), DesiredCapacity: aws.Int32(2)})
	if diff := cmp.Diff([]string{"nightly", "once"}, s.actions(t)); diff != "" {
		t.Fatalf("actions: -want +got\n%s", diff)
	}
	s.Advance(59 * time.Minute)
	if n := s.desired(t); n != 1 {
		t.Errorf("desired is %d before its time, want 1", n)
	}
	s.Advance(2 * time.Minute)
	g := s.describe(t)
	if got := [3]int32{*g.MinSize, *g.MaxSize, *g.DesiredCapacity}; got != [3]int32{2, 4, 3} {
		t.Errorf("sizes are %v after the action, want 2, 4, 3", got)
	}
	if diff := cmp.Diff([]string{"nightly"}, s.actions(t)); diff != "" {
		t.Errorf("an action that runs once goes: -want +got\n%s", diff)
	}
	if !slices.ContainsFunc(s.activities(t), func(a types.Activity) bool { return aws.ToString(a.Description) == "Executing scheduled action once" }) {
		t.Error("no activity names the scheduled action")
	}
	s.Advance(9 * time.Hour) // 22:01
	if n := s.desired(t); n != 2 {
		t.Errorf("desired is %d after the nightly action, want 2", n)
	}
	s.resize(t, 4)
	s.suspend(t, processScheduledActions)
	s.Advance(24 * time.Hour)
	if n := s.desired(t); n != 4 {
		t.Errorf("desired is %d, want a suspended action's time to pass without effect", n)
	}
	s.resume(t, processScheduledActions)
	s.Advance(time.Hour)
	if n := s.desired(t); n != 4 {
		t.Errorf("desired is %d, want what was missed not to be made up for", n)
	}
	s.Advance(24 * time.Hour)
	if n := s.desired(t); n != 2 {
		t.Errorf("desired is %d, want the next run to count again", n)
	}
}

// Two actions cannot be put with one next run; one may be changed in place, and two may fall together later.
func TestScheduledStartsAreUnique(t *testing.T) {
	s := newScaled(t)
	s.create(t, 0, 6, 1, nil)
	soon := epoch.Add(22 * time.Hour)
	put := func(name, recurrence string, start *time.Time) error {
		in := &autoscaling.PutScheduledUpdateGroupActionInput{AutoScalingGroupName: aws.String("g"), ScheduledActionName: aws.String(name), StartTime: start, DesiredCapacity: aws.Int32(2)}
		if recurrence != "" {
			in.Recurrence = aws.String(recurrence)
		}
		_, err := s.as.PutScheduledUpdateGroupAction(ctx, in)
		return err
	}
	ok(t, put("once", "", &soon))
	ok(t, put("once", "", &soon))
	wantCode(t, put("twice", "", &soon), "AlreadyExists", "at the same time")
	ok(t, put("daily", "0 3 * * *", nil))
	wantCode(t, put("too", "0 3 */1 * *", nil), "AlreadyExists", "that recurs at the same time")
	ok(t, put("hourly", "0 * * * *", nil))
	s.Advance(48 * time.Hour)
	if diff := cmp.Diff([]string{"daily", "hourly"}, s.actions(t)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestScheduledActionsAreDeleted(t *testing.T) {
	s := newScaled(t)
	s.create(t, 0, 6, 1, nil)
	for name, minute := range map[string]string{"a": "10", "b": "20", "c": "30"} {
		s.putAction(t, &autoscaling.PutScheduledUpdateGroupActionInput{ScheduledActionName: aws.String(name), Recurrence: aws.String(minute + " * * * *"), DesiredCapacity: aws.Int32(5)})
	}
	_, err := s.as.DeleteScheduledAction(ctx, &autoscaling.DeleteScheduledActionInput{AutoScalingGroupName: aws.String("g"), ScheduledActionName: aws.String("a")})
	ok(t, err)
	out, err := s.as.BatchDeleteScheduledAction(ctx, &autoscaling.BatchDeleteScheduledActionInput{AutoScalingGroupName: aws.String("g"), ScheduledActionNames: []string{"b", "none", "c"}})
	ok(t, err)
	if len(out.FailedScheduledActions) != 1 || aws.ToString(out.FailedScheduledActions[0].ErrorCode) != "ValidationError" {
		t.Errorf("failed are %+v, want the one that does not exist", out.FailedScheduledActions)
	}
	s.Advance(time.Hour)
	if n := s.desired(t); n != 1 {
		t.Errorf("desired is %d, want deleted actions not to run", n)
	}
	past := epoch
	_, err = s.as.PutScheduledUpdateGroupAction(ctx, &autoscaling.PutScheduledUpdateGroupActionInput{AutoScalingGroupName: aws.String("g"), ScheduledActionName: aws.String("x"), StartTime: &past, MinSize: aws.Int32(1)})
	wantCode(t, err, "ValidationError", "a start in the past")
	_, err = s.as.DeleteScheduledAction(ctx, &autoscaling.DeleteScheduledActionInput{AutoScalingGroupName: aws.String("g"), ScheduledActionName: aws.String("a")})
	wantCode(t, err, "ValidationError", "deleted already")
}

func TestScheduledActionThatDoesNotFit(t *testing.T) {
	s := newScaled(t)
	s.create(t, 0, 2, 1, nil)
	at := epoch.Add(time.Hour)
	s.putAction(t, &autoscaling.PutScheduledUpdateGroupActionInput{ScheduledActionName: aws.String("big"), StartTime: &at, DesiredCapacity: aws.Int32(5)})
	s.Advance(2 * time.Hour)
	if a := s.activities(t)[0]; a.StatusCode != types.ScalingActivityStatusCodeFailed || s.desired(t) != 1 {
		t.Errorf("activity %s, desired %d; want a failure that changes nothing", a.StatusCode, s.desired(t))
	}
}

// cpu sets the metric that target tracking follows.
func (s *scaled) cpu(t *testing.T, percent float64) {
	t.Helper()
	_, err := cloudwatch.NewFromConfig(s.cfg).PutMetricData(ctx, &cloudwatch.PutMetricDataInput{Namespace: aws.String("AWS/EC2"), MetricData: []cwtypes.MetricDatum{{
		MetricName: aws.String("CPUUtilization"), Value: &percent, Dimensions: []cwtypes.Dimension{{Name: aws.String("AutoScalingGroupName"), Value: aws.String("g")}}}}})
	ok(t, err)
}

func (s *scaled) minutes(n int) {
	for range n {
		s.Advance(time.Minute)
	}
}

func (s *scaled) track(t *testing.T, enabled *bool) *autoscaling.PutScalingPolicyOutput {
	t.Helper()
	out, err := s.as.PutScalingPolicy(ctx, &autoscaling.PutScalingPolicyInput{
		AutoScalingGroupName: aws.String("g"), PolicyName: aws.String("cpu"), PolicyType: aws.String(targetTracking), Enabled: enabled,
		TargetTrackingConfiguration: &types.TargetTrackingConfiguration{TargetValue: aws.Float64(40), PredefinedMetricSpecification: &types.PredefinedMetricSpecification{PredefinedMetricType: types.MetricTypeASGAverageCPUUtilization}},
	})
	ok(t, err)
	return out
}

func (s *scaled) alarms(t *testing.T) []cwtypes.MetricAlarm {
	t.Helper()
	out, err := cloudwatch.NewFromConfig(s.cfg).DescribeAlarms(ctx, &cloudwatch.DescribeAlarmsInput{})
	ok(t, err)
	return out.MetricAlarms
}

func TestTargetTracking(t *testing.T) {
	s := newScaled(t)
	s.create(t, 1, 10, 2, nil)
	first := s.track(t, nil)
	if len(first.Alarms) != 2 || len(s.alarms(t)) != 2 {
		t.Fatalf("alarms are %+v, want one to scale out and one to scale in", first.Alarms)
	}
	s.cpu(t, 80)
	s.minutes(2)
	if n := s.desired(t); n != 2 {
		t.Errorf("desired is %d after two minutes, want the alarm to need three", n)
	}
	s.minutes(2)
	if n := s.desired(t); n != 4 {
		t.Errorf("desired is %d, want twice the capacity for twice the target", n)
	}
	s.minutes(1)
	if n := s.desired(t); n != 4 {
		t.Errorf("desired is %d while the new instances warm up, want 4", n)
	}
	s.cpu(t, 10)
	s.minutes(14)
	if n := s.desired(t); n != 4 {
		t.Errorf("desired is %d after fourteen minutes of low load, want scale-in to take fifteen", n)
	}
	s.minutes(2)
	if n := s.desired(t); n != 1 {
		t.Errorf("desired is %d, want it lowered to a quarter", n)
	}
}

func TestPolicyDisabledKeepsArnAndAlarms(t *testing.T) {
	s := newScaled(t)
	s.create(t, 1, 10, 2, nil)
	first := s.track(t, nil)
	off := s.track(t, aws.Bool(false))
	if diff := cmp.Diff([]any{first.PolicyARN, len(first.Alarms)}, []any{off.PolicyARN, len(off.Alarms)}); diff != "" {
		t.Errorf("disabled: -want +got\n%s", diff)
	}
	s.cpu(t, 80)
	s.minutes(30)
	if n := s.desired(t); n != 2 {
		t.Errorf("desired is %d, want a disabled policy to do nothing", n)
	}
	out, err := s.as.DescribePolicies(ctx, &autoscaling.DescribePoliciesInput{AutoScalingGroupName: aws.String("g"), PolicyTypes: []string{targetTracking}})
	ok(t, err)
	if len(out.ScalingPolicies) != 1 || aws.ToBool(out.ScalingPolicies[0].Enabled) {
		t.Errorf("policies are %+v, want the one that is disabled", out.ScalingPolicies)
	}
	do(s.Server, func() {
		if diff := cmp.Diff([]string{"cpu (disabled)"}, s.groups()[0].Policies); diff != "" {
			t.Errorf("side door: -want +got\n%s", diff)
		}
	})
	s.track(t, aws.Bool(true))
	s.suspend(t, processAlarmNotification)
	s.minutes(30)
	if n := s.desired(t); n != 2 {
		t.Errorf("desired is %d, want nothing while AlarmNotification is suspended", n)
	}
	s.resume(t, processAlarmNotification)
	s.minutes(2)
	if n := s.desired(t); n != 4 {
		t.Errorf("desired is %d, want an alarm that lasts to count once resumed", n)
	}
	_, err = s.as.DeletePolicy(ctx, &autoscaling.DeletePolicyInput{PolicyName: first.PolicyARN})
	ok(t, err)
	if n := len(s.alarms(t)); n != 0 {
		t.Errorf("%d alarms left, want them to go with their policy", n)
	}
	_, err = s.as.DeletePolicy(ctx, &autoscaling.DeletePolicyInput{AutoScalingGroupName: aws.String("g"), PolicyName: aws.String("cpu")})
	wantCode(t, err, "ValidationError", "deleted already")
}

func TestStepPolicyFollowsItsAlarm(t *testing.T) {
	s := newScaled(t)
	s.create(t, 1, 10, 2, nil)
	put, err := s.as.PutScalingPolicy(ctx, &autoscaling.PutScalingPolicyInput{
		AutoScalingGroupName: aws.String("g"), PolicyName: aws.String("steps"), PolicyType: aws.String(stepScaling), AdjustmentType: aws.String("ChangeInCapacity"),
		StepAdjustments: []types.StepAdjustment{{MetricIntervalLowerBound: aws.Float64(0), MetricIntervalUpperBound: aws.Float64(20), ScalingAdjustment: aws.Int32(1)}, {MetricIntervalLowerBound: aws.Float64(20), ScalingAdjustment: aws.Int32(3)}},
	})
	ok(t, err)
	cw := cloudwatch.NewFromConfig(s.cfg)
	_, err = cw.PutMetricAlarm(ctx, &cloudwatch.PutMetricAlarmInput{AlarmName: aws.String("hot"), Namespace: aws.String("AWS/EC2"), MetricName: aws.String("CPUUtilization"),
		Dimensions: []cwtypes.Dimension{{Name: aws.String("AutoScalingGroupName"), Value: aws.String("g")}}, AlarmActions: []string{*put.PolicyARN},
		ComparisonOperator: cwtypes.ComparisonOperatorGreaterThanOrEqualToThreshold, Threshold: aws.Float64(50), EvaluationPeriods: aws.Int32(1), Period: aws.Int32(60)})
	ok(t, err)
	s.cpu(t, 75)
	s.minutes(2)
	if n := s.desired(t); n != 5 {
		t.Errorf("desired is %d, want the second step's three more", n)
	}
	if a := s.alarms(t)[0]; a.StateValue != cwtypes.StateValueAlarm {
		t.Errorf("alarm is %s, want ALARM", a.StateValue)
	}
	s.cpu(t, 20)
	if a := s.alarms(t)[0]; a.StateValue != cwtypes.StateValueOk {
		t.Errorf("alarm is %s, want OK", a.StateValue)
	}
	s.minutes(10)
	_, err = s.as.ExecutePolicy(ctx, &autoscaling.ExecutePolicyInput{AutoScalingGroupName: aws.String("g"), PolicyName: aws.String("steps"), MetricValue: aws.Float64(55), BreachThreshold: aws.Float64(50)})
	ok(t, err)
	if n := s.desired(t); n != 6 {
		t.Errorf("desired is %d after executing the policy, want one more", n)
	}
	_, err = s.as.DeletePolicy(ctx, &autoscaling.DeletePolicyInput{PolicyName: put.PolicyARN})
	ok(t, err)
	if a := s.alarms(t); len(a) != 1 || len(a[0].AlarmActions) != 0 {
		t.Errorf("alarms are %+v, want the user's own alarm to stay without that action", a)
	}
}

// Deleting a group takes the alarms along that nothing else uses; a user's alarm that tells somebody too stays.
func TestAlarmsOfADeletedGroup(t *testing.T) {
	s := newScaled(t)
	s.create(t, 0, 10, 0, nil)
	s.track(t, nil)
	put, err := s.as.PutScalingPolicy(ctx, &autoscaling.PutScalingPolicyInput{AutoScalingGroupName: aws.String("g"), PolicyName: aws.String("one more"), AdjustmentType: aws.String("ChangeInCapacity"), ScalingAdjustment: aws.Int32(1)})
	ok(t, err)
	topic := "arn:aws:sns:us-east-1:123456789012:on-call"
	for name, actions := range map[string][]string{"scales": {*put.PolicyARN}, "tells": {*put.PolicyARN, topic}, "users": nil} {
		_, err = cloudwatch.NewFromConfig(s.cfg).PutMetricAlarm(ctx, &cloudwatch.PutMetricAlarmInput{AlarmName: aws.String(name), Namespace: aws.String("x"), MetricName: aws.String("m"), AlarmActions: actions,
			ComparisonOperator: cwtypes.ComparisonOperatorGreaterThanThreshold, Threshold: aws.Float64(5), EvaluationPeriods: aws.Int32(1), Period: aws.Int32(60)})
		ok(t, err)
	}
	_, err = s.as.DeleteAutoScalingGroup(ctx, &autoscaling.DeleteAutoScalingGroupInput{AutoScalingGroupName: aws.String("g")})
	ok(t, err)
	left := map[string][]string{}
	for _, al := range s.alarms(t) {
		left[aws.ToString(al.AlarmName)] = al.AlarmActions
	}
	if diff := cmp.Diff(map[string][]string{"tells": {topic}, "users": nil}, left, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestPutScalingPolicyRefuses(t *testing.T) {
	s := newScaled(t)
	s.create(t, 1, 10, 2, nil)
	for name, in := range map[string]*autoscaling.PutScalingPolicyInput{
		"TrackingWithoutTarget":  {PolicyType: aws.String(targetTracking)},
		"StepWithoutSteps":       {PolicyType: aws.String(stepScaling), AdjustmentType: aws.String("ChangeInCapacity")},
		"SimpleWithoutChange":    {PolicyType: aws.String(simpleScaling)},
		"PredictiveWithoutRules": {PolicyType: aws.String(predictiveScaling)},
		"Unknown":                {PolicyType: aws.String("Magic")},
	} {
		t.Run(name, func(t *testing.T) {
			in.AutoScalingGroupName, in.PolicyName = aws.String("g"), aws.String("p")
			_, err := s.as.PutScalingPolicy(ctx, in)
			wantCode(t, err, "ValidationError", "a policy needs what its type works with")
		})
	}
	_, err := s.as.PutScalingPolicy(ctx, &autoscaling.PutScalingPolicyInput{AutoScalingGroupName: aws.String("g"), PolicyName: aws.String("forecast"), PolicyType: aws.String(predictiveScaling),
		PredictiveScalingConfiguration: &types.PredictiveScalingConfiguration{Mode: types.PredictiveScalingModeForecastOnly, MetricSpecifications: []types.PredictiveScalingMetricSpecification{{TargetValue: aws.Float64(40)}}}})
	ok(t, err)
	out, err := s.as.DescribePolicies(ctx, &autoscaling.DescribePoliciesInput{PolicyNames: []string{"forecast"}})
	ok(t, err)
	if len(out.ScalingPolicies) != 1 || out.ScalingPolicies[0].PredictiveScalingConfiguration.Mode != types.PredictiveScalingModeForecastOnly {
		t.Errorf("policies are %+v, want the predictive one with its mode", out.ScalingPolicies)
	}
}

func TestAlarmsOfUsers(t *testing.T) {
	s := newScaled(t)
	cw := cloudwatch.NewFromConfig(s.cfg)
	put := func(name string) {
		t.Helper()
		_, err := cw.PutMetricAlarm(ctx, &cloudwatch.PutMetricAlarmInput{AlarmName: aws.String(name), Namespace: aws.String("x"), MetricName: aws.String("m"),
			ComparisonOperator: cwtypes.ComparisonOperatorLessThanThreshold, Threshold: aws.Float64(5), EvaluationPeriods: aws.Int32(2), Period: aws.Int32(60)})
		ok(t, err)
	}
	put("one")
	put("two")
	_, err := cw.SetAlarmState(ctx, &cloudwatch.SetAlarmStateInput{AlarmName: aws.String("one"), StateValue: cwtypes.StateValueAlarm, StateReason: aws.String("test")})
	ok(t, err)
	put("one")
	out, err := cw.DescribeAlarms(ctx, &cloudwatch.DescribeAlarmsInput{StateValue: cwtypes.StateValueAlarm})
	ok(t, err)
	if len(out.MetricAlarms) != 1 || aws.ToString(out.MetricAlarms[0].AlarmName) != "one" {
		t.Errorf("in ALARM are %+v, want one: replacing an alarm keeps its state", out.MetricAlarms)
	}
	_, err = cw.DeleteAlarms(ctx, &cloudwatch.DeleteAlarmsInput{AlarmNames: []string{"one", "none"}})
	wantCode(t, err, "ResourceNotFound", "one of them does not exist")
	if n := len(s.alarms(t)); n != 2 {
		t.Errorf("%d alarms left, want both: all or none are deleted", n)
	}
	_, err = cw.DeleteAlarms(ctx, &cloudwatch.DeleteAlarmsInput{AlarmNames: []string{"one", "two"}})
	ok(t, err)
	_, err = cw.PutMetricAlarm(ctx, &cloudwatch.PutMetricAlarmInput{AlarmName: aws.String("x"), EvaluationPeriods: aws.Int32(1), ComparisonOperator: cwtypes.ComparisonOperatorLessThanThreshold})
	wantCode(t, err, "ValidationError", "without a threshold")
}

func TestInstanceRefresh(t *testing.T) {
	s := newScaled(t)
	s.create(t, 0, 10, 4, nil)
	before := s.ids(t, "")
	start := func() (*autoscaling.StartInstanceRefreshOutput, error) {
		return s.as.StartInstanceRefresh(ctx, &autoscaling.StartInstanceRefreshInput{AutoScalingGroupName: aws.String("g"),
			DesiredConfiguration: &types.DesiredConfiguration{LaunchTemplate: &types.LaunchTemplateSpecification{LaunchTemplateId: aws.String("lt-1"), Version: aws.String("2")}},
			Preferences:          &types.RefreshPreferences{MinHealthyPercentage: aws.Int32(50), SkipMatching: aws.Bool(true)}})
	}
	refreshes := func() []types.InstanceRefresh {
		t.Helper()
		out, err := s.as.DescribeInstanceRefreshes(ctx, &autoscaling.DescribeInstanceRefreshesInput{AutoScalingGroupName: aws.String("g")})
		ok(t, err)
		return out.InstanceRefreshes
	}
	_, err := s.as.CancelInstanceRefresh(ctx, &autoscaling.CancelInstanceRefreshInput{AutoScalingGroupName: aws.String("g")})
	wantCode(t, err, "ActiveInstanceRefreshNotFound", "none is under way")
	s.suspend(t, processInstanceRefresh)
	_, err = start()
	ok(t, err)
	s.settle()
	if diff := cmp.Diff(before, s.ids(t, "")); diff != "" {
		t.Errorf("suspended: -want +got\n%s", diff)
	}
	_, err = start()
	wantCode(t, err, "InstanceRefreshInProgress", "one at a time")
	s.resume(t, processInstanceRefresh)
	s.Advance(time.Second)
	if n := s.states(t)["Terminating"]; n != 2 {
		t.Errorf("%d instances go at once, want half", n)
	}
	for range 5 {
		s.settle()
	}
	s.wantInService(t, 4, "refreshed")
	for _, i := range s.describe(t).Instances {
		if aws.ToString(i.InstanceType) != "m5.xlarge" {
			t.Errorf("%s is still of the old template", aws.ToString(i.InstanceId))
		}
	}
	if r := refreshes()[0]; r.Status != types.InstanceRefreshStatusSuccessful || aws.ToInt32(r.PercentageComplete) != 100 {
		t.Errorf("refresh is %s at %d %%, want Successful", r.Status, aws.ToInt32(r.PercentageComplete))
	}
	_, err = s.as.StartInstanceRefresh(ctx, &autoscaling.StartInstanceRefreshInput{AutoScalingGroupName: aws.String("g")})
	ok(t, err)
	s.Advance(time.Second)
	_, err = s.as.CancelInstanceRefresh(ctx, &autoscaling.CancelInstanceRefreshInput{AutoScalingGroupName: aws.String("g")})
	ok(t, err)
	for range 5 {
		s.settle()
	}
	if r := refreshes(); len(r) != 2 || r[0].Status != types.InstanceRefreshStatusCancelled || aws.ToInt32(r[0].InstancesToUpdate) == 0 {
		t.Errorf("refreshes are %+v, want the newest first and Cancelled with instances left", r)
	}
}

func TestWarmPool(t *testing.T) {
	s := newScaled(t)
	s.create(t, 0, 4, 1, nil)
	_, err := s.as.DeleteWarmPool(ctx, &autoscaling.DeleteWarmPoolInput{AutoScalingGroupName: aws.String("g")})
	wantCode(t, err, "ValidationError", "there is none")
	_, err = s.as.PutWarmPool(ctx, &autoscaling.PutWarmPoolInput{AutoScalingGroupName: aws.String("g"), MinSize: aws.Int32(2)})
	ok(t, err)
	out, err := s.as.DescribeWarmPool(ctx, &autoscaling.DescribeWarmPoolInput{AutoScalingGroupName: aws.String("g")})
	ok(t, err)
	if c := out.WarmPoolConfiguration; c == nil || aws.ToInt32(c.MinSize) != 2 || c.PoolState != types.WarmPoolStateStopped {
		t.Errorf("warm pool is %+v, want two stopped instances at least", c)
	}
	if s.describe(t).WarmPoolConfiguration == nil {
		t.Error("the group does not show its warm pool")
	}
	_, err = s.as.DeleteAutoScalingGroup(ctx, &autoscaling.DeleteAutoScalingGroupInput{AutoScalingGroupName: aws.String("g")})
	wantCode(t, err, "ResourceInUse", "a group with a warm pool, without force")
	_, err = s.as.DeleteWarmPool(ctx, &autoscaling.DeleteWarmPoolInput{AutoScalingGroupName: aws.String("g"), ForceDelete: aws.Bool(true)})
	ok(t, err)
	if s.describe(t).WarmPoolConfiguration != nil {
		t.Error("the group still shows its warm pool")
	}
}

func TestTags(t *testing.T) {
	s := newScaled(t)
	s.create(t, 0, 4, 0, nil)
	tag := func(key, value string, propagate bool) types.Tag {
		return types.Tag{ResourceId: aws.String("g"), ResourceType: aws.String(taggedResource), Key: &key, Value: &value, PropagateAtLaunch: &propagate}
	}
	put := func(tags ...types.Tag) error {
		_, err := s.as.CreateOrUpdateTags(ctx, &autoscaling.CreateOrUpdateTagsInput{Tags: tags})
		return err
	}
	ok(t, put(tag("a", "1", true), tag("b", "2", false)))
	ok(t, put(tag("a", "3", true)))
	stranger := tag("a", "1", true)
	stranger.ResourceId = aws.String("none")
	wantCode(t, put(tag("c", "1", true), stranger), "ValidationError", "a group that does not exist")
	find := func(filters ...types.Filter) []string {
		t.Helper()
		out, err := s.as.DescribeTags(ctx, &autoscaling.DescribeTagsInput{Filters: filters})
		ok(t, err)
		var list []string
		for _, x := range out.Tags {
			list = append(list, aws.ToString(x.Key)+"="+aws.ToString(x.Value))
		}
		return list
	}
	if diff := cmp.Diff([]string{"a=3", "b=2"}, find()); diff != "" {
		t.Errorf("all: -want +got\n%s", diff)
	}
	if diff := cmp.Diff([]string{"b=2"}, find(types.Filter{Name: aws.String("propagate-at-launch"), Values: []string{"false"}})); diff != "" {
		t.Errorf("not propagated: -want +got\n%s", diff)
	}
	if diff := cmp.Diff([]string{"a=3"}, find(types.Filter{Name: aws.String("key"), Values: []string{"a"}}, types.Filter{Name: aws.String(taggedResource), Values: []string{"g"}})); diff != "" {
		t.Errorf("by key and group: -want +got\n%s", diff)
	}
	s.resize(t, 1)
	s.settle()
	do(s.Server, func() {
		i := s.ec2.sideInstances()[0]
		if i.Tags["a"] != "3" || i.Tags["b"] != "" {
			t.Errorf("instance tags are %v, want only what propagates", i.Tags)
		}
	})
	_, err := s.as.DeleteTags(ctx, &autoscaling.DeleteTagsInput{Tags: []types.Tag{tag("a", "", false)}})
	ok(t, err)
	if diff := cmp.Diff([]string{"b=2"}, find()); diff != "" {
		t.Errorf("after deletion: -want +got\n%s", diff)
	}
}

func TestMixedInstancesPolicy(t *testing.T) {
	s := newScaled(t)
	s.create(t, 0, 20, 6, func(in *autoscaling.CreateAutoScalingGroupInput) {
		in.LaunchTemplate = nil
		in.MixedInstancesPolicy = &types.MixedInstancesPolicy{
			InstancesDistribution: &types.InstancesDistribution{OnDemandBaseCapacity: aws.Int32(2), OnDemandPercentageAboveBaseCapacity: aws.Int32(25), SpotAllocationStrategy: aws.String("price-capacity-optimized")},
			LaunchTemplate: &types.LaunchTemplate{LaunchTemplateSpecification: &types.LaunchTemplateSpecification{LaunchTemplateName: aws.String("nodes"), Version: aws.String("1")},
				Overrides: []types.LaunchTemplateOverrides{{InstanceType: aws.String("m5.xlarge")}, {InstanceType: aws.String("m5.large")}, {InstanceType: aws.String("c5.large")}}},
		}
	})
	s.wantInService(t, 6, "mixed")
	spot, onDemand := map[string]int{}, map[string]int{}
	do(s.Server, func() {
		for _, i := range s.ec2.sideInstances() {
			if i.Spot {
				spot[i.Type]++
			} else {
				onDemand[i.Type]++
			}
		}
	})
	if diff := cmp.Diff(map[string]int{"m5.xlarge": 3}, onDemand); diff != "" {
		t.Errorf("on demand, base and a quarter of the rest, in the given order: -want +got\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int{"c5.large": 3}, spot); diff != "" {
		t.Errorf("spot, the cheapest: -want +got\n%s", diff)
	}
	do(s.Server, func() { s.faults.add(simapi.Fault{Code: "InsufficientInstanceCapacity", InstanceType: "c5.large"}) })
	s.resize(t, 8)
	s.settle()
	s.wantInService(t, 8, "the next cheapest serves when the cheapest has no capacity")
	d := s.describe(t).MixedInstancesPolicy.InstancesDistribution
	if aws.ToString(d.OnDemandAllocationStrategy) != "prioritized" {
		t.Errorf("on-demand strategy shows %q, want the default filled in", aws.ToString(d.OnDemandAllocationStrategy))
	}
}

func TestWeightedCapacity(t *testing.T) {
	s := newScaled(t)
	s.create(t, 0, 20, 6, func(in *autoscaling.CreateAutoScalingGroupInput) {
		in.LaunchTemplate = nil
		in.MixedInstancesPolicy = &types.MixedInstancesPolicy{LaunchTemplate: &types.LaunchTemplate{
			LaunchTemplateSpecification: &types.LaunchTemplateSpecification{LaunchTemplateName: aws.String("nodes")},
			Overrides:                   []types.LaunchTemplateOverrides{{InstanceType: aws.String("m5.2xlarge"), WeightedCapacity: aws.String("4")}},
		}}
	})
	ids := s.wantInService(t, 2, "six units take two instances of four")
	if w := aws.ToString(s.describe(t).Instances[0].WeightedCapacity); w != "4" {
		t.Errorf("weight shows %q, want 4", w)
	}
	_, err := s.as.TerminateInstanceInAutoScalingGroup(ctx, &autoscaling.TerminateInstanceInAutoScalingGroupInput{InstanceId: &ids[0], ShouldDecrementDesiredCapacity: aws.Bool(true)})
	ok(t, err)
	if n := s.desired(t); n != 2 {
		t.Errorf("desired is %d, want it lowered by the weight", n)
	}
}

func TestDescribeAutoScalingInstances(t *testing.T) {
	s := newScaled(t)
	s.create(t, 0, 4, 3, nil)
	ids := s.ids(t, "")
	out, err := s.as.DescribeAutoScalingInstances(ctx, &autoscaling.DescribeAutoScalingInstancesInput{InstanceIds: ids[:1]})
	ok(t, err)
	if len(out.AutoScalingInstances) != 1 {
		t.Fatalf("%d instances, want the one asked for", len(out.AutoScalingInstances))
	}
	i := out.AutoScalingInstances[0]
	got := []string{aws.ToString(i.AutoScalingGroupName), aws.ToString(i.InstanceId), aws.ToString(i.LifecycleState), aws.ToString(i.HealthStatus), aws.ToString(i.InstanceType)}
	if diff := cmp.Diff([]string{"g", ids[0], "InService", "HEALTHY", "m5.large"}, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	n := 0
	pages := autoscaling.NewDescribeAutoScalingInstancesPaginator(s.as, &autoscaling.DescribeAutoScalingInstancesInput{MaxRecords: aws.Int32(2)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		ok(t, err)
		n += len(page.AutoScalingInstances)
	}
	if n != 3 {
		t.Errorf("%d instances over the pages, want 3", n)
	}
}

func TestSideDoorShowsGroups(t *testing.T) {
	s := newScaled(t)
	s.create(t, 1, 4, 2, nil)
	s.suspend(t, processAZRebalance)
	s.track(t, nil)
	s.putAction(t, &autoscaling.PutScheduledUpdateGroupActionInput{ScheduledActionName: aws.String("nightly"), Recurrence: aws.String("0 22 * * *"), MinSize: aws.Int32(1)})
	got, err := simapi.NewClient(aws.ToString(s.cfg.BaseEndpoint)).Groups(ctx)
	ok(t, err)
	want := []simapi.Group{{Name: "g", Min: 1, Max: 4, Desired: 2, InService: s.ids(t, ""), SuspendedProcesses: []string{"AZRebalance"}, Policies: []string{"cpu"}, ScheduledActions: []string{"nightly"}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestUnhealthyInstanceIsReplaced(t *testing.T) {
	s := newScaled(t)
	s.create(t, 0, 4, 2, nil)
	id := s.ids(t, "")[0]
	side := simapi.NewClient(aws.ToString(s.cfg.BaseEndpoint))
	s.suspend(t, processHealthCheck)
	ok(t, side.Interrupt(ctx, simapi.Interrupt{InstanceID: id, Kind: "unhealthy"}))
	s.settle()
	if now := s.wantInService(t, 2, "suspended"); !slices.Contains(now, id) {
		t.Errorf("%s was replaced while HealthCheck is suspended", id)
	}
	s.resume(t, processHealthCheck)
	ok(t, side.Interrupt(ctx, simapi.Interrupt{InstanceID: id, Kind: "unhealthy"}))
	s.settle()
	if now := s.wantInService(t, 2, "resumed"); slices.Contains(now, id) {
		t.Errorf("%s was not replaced", id)
	}
}

func TestTerminateRefuses(t *testing.T) {
	s := newScaled(t)
	s.create(t, 0, 4, 1, nil)
	id := s.ids(t, "")[0]
	for name, tc := range map[string]struct {
		reason string
		in     autoscaling.TerminateInstanceInAutoScalingGroupInput
	}{
		"Both":    {"one way or the other", autoscaling.TerminateInstanceInAutoScalingGroupInput{InstanceId: &id, InstanceIds: []string{id}, AutoScalingGroupName: aws.String("g")}},
		"None":    {"something must end", autoscaling.TerminateInstanceInAutoScalingGroupInput{AutoScalingGroupName: aws.String("g")}},
		"TooMany": {"a hundred at most", autoscaling.TerminateInstanceInAutoScalingGroupInput{InstanceIds: make([]string, 101), AutoScalingGroupName: aws.String("g")}},
		"NoGroup": {"several come with their group", autoscaling.TerminateInstanceInAutoScalingGroupInput{InstanceIds: []string{id, id}}},
		"Other":   {"that exists", autoscaling.TerminateInstanceInAutoScalingGroupInput{InstanceIds: []string{id}, AutoScalingGroupName: aws.String("none")}},
	} {
		t.Run(name, func(t *testing.T) {
			tc.in.ShouldDecrementDesiredCapacity = aws.Bool(true)
			_, err := s.as.TerminateInstanceInAutoScalingGroup(ctx, &tc.in)
			wantCode(t, err, "ValidationError", tc.reason)
		})
	}
	s.wantInService(t, 1, "nothing ended")
}

func TestLifecycleHookIsChangedInPlace(t *testing.T) {
	s := newScaled(t)
	s.create(t, 0, 4, 0, nil)
	put := func(in *autoscaling.PutLifecycleHookInput) error {
		in.AutoScalingGroupName, in.LifecycleHookName = aws.String("g"), aws.String("h")
		_, err := s.as.PutLifecycleHook(ctx, in)
		return err
	}
	wantCode(t, put(&autoscaling.PutLifecycleHookInput{}), "ValidationError", "a new hook needs its transition")
	ok(t, put(&autoscaling.PutLifecycleHookInput{LifecycleTransition: aws.String(transitionEnd)}))
	wantCode(t, put(&autoscaling.PutLifecycleHookInput{HeartbeatTimeout: aws.Int32(10)}), "ValidationError", "too short a heartbeat")
	wantCode(t, put(&autoscaling.PutLifecycleHookInput{DefaultResult: aws.String("MAYBE")}), "ValidationError", "a result is one of two")
	ok(t, put(&autoscaling.PutLifecycleHookInput{DefaultResult: aws.String(resultContinue), HeartbeatTimeout: aws.Int32(120)}))
	out, err := s.as.DescribeLifecycleHooks(ctx, &autoscaling.DescribeLifecycleHooksInput{AutoScalingGroupName: aws.String("g"), LifecycleHookNames: []string{"h"}})
	ok(t, err)
	h := out.LifecycleHooks[0]
	got := []any{*h.LifecycleTransition, *h.DefaultResult, *h.HeartbeatTimeout, *h.GlobalTimeout}
	if diff := cmp.Diff([]any{transitionEnd, resultContinue, int32(120), int32(12000)}, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	_, err = s.as.DeleteLifecycleHook(ctx, &autoscaling.DeleteLifecycleHookInput{AutoScalingGroupName: aws.String("g"), LifecycleHookName: aws.String("none")})
	wantCode(t, err, "ValidationError", "a hook that does not exist")
}

func TestTrackedMetric(t *testing.T) {
	predefined := func(kind types.MetricType) *types.TargetTrackingConfiguration {
		return &types.TargetTrackingConfiguration{PredefinedMetricSpecification: &types.PredefinedMetricSpecification{PredefinedMetricType: kind, ResourceLabel: aws.String("tg")}}
	}
	cases := map[string]struct {
		reason string
		config *types.TargetTrackingConfiguration
		want   string
	}{
		"CPU":        {"of the group", predefined(types.MetricTypeASGAverageCPUUtilization), "AWS/EC2/CPUUtilization{AutoScalingGroupName=g}"},
		"NetworkIn":  {"of the group", predefined(types.MetricTypeASGAverageNetworkIn), "AWS/EC2/NetworkIn{AutoScalingGroupName=g}"},
		"NetworkOut": {"of the group", predefined(types.MetricTypeASGAverageNetworkOut), "AWS/EC2/NetworkOut{AutoScalingGroupName=g}"},
		"Requests":   {"of the target group", predefined(types.MetricTypeALBRequestCountPerTarget), "AWS/ApplicationELB/RequestCountPerTarget{TargetGroup=tg}"},
		"Customized": {"as it says", &types.TargetTrackingConfiguration{CustomizedMetricSpecification: &types.CustomizedMetricSpecification{Namespace: aws.String("own"), MetricName: aws.String("queue"),
			Dimensions: []types.MetricDimension{{Name: aws.String("b"), Value: aws.String("2")}, {Name: aws.String("a"), Value: aws.String("1")}}}}, "own/queue{a=1,b=2}"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			m := trackedMetric("g", tc.config)
			if got := metricKey(m.Namespace, m.MetricName, m.Dimensions); got != tc.want {
				t.Errorf("%s: %s, want %s", tc.reason, got, tc.want)
			}
		})
	}
}

func TestInstanceRequirements(t *testing.T) {
	s := newScaled(t)
	s.create(t, 0, 4, 1, func(in *autoscaling.CreateAutoScalingGroupInput) {
		in.LaunchTemplate = nil
		in.MixedInstancesPolicy = &types.MixedInstancesPolicy{
			InstancesDistribution: &types.InstancesDistribution{OnDemandPercentageAboveBaseCapacity: aws.Int32(0), SpotAllocationStrategy: aws.String("price-capacity-optimized")},
			LaunchTemplate: &types.LaunchTemplate{LaunchTemplateSpecification: &types.LaunchTemplateSpecification{LaunchTemplateName: aws.String("nodes")},
				Overrides: []types.LaunchTemplateOverrides{{InstanceRequirements: &types.InstanceRequirements{
					VCpuCount: &types.VCpuCountRequest{Min: aws.Int32(8), Max: aws.Int32(8)}, MemoryMiB: &types.MemoryMiBRequest{Min: aws.Int32(32768)}, AllowedInstanceTypes: []string{"m5.*"}}}}},
		}
	})
	if i := s.describe(t).Instances; len(i) != 1 || aws.ToString(i[0].InstanceType) != "m5.2xlarge" {
		t.Errorf("instances are %+v, want the only m5 with eight vCPUs", i)
	}
}

func TestAZRebalanceWaitsForCapacity(t *testing.T) {
	s := newScaled(t)
	s.create(t, 0, 9, 4, func(in *autoscaling.CreateAutoScalingGroupInput) { in.VPCZoneIdentifier = aws.String("subnet-a") })
	do(s.Server, func() { s.faults.add(simapi.Fault{Code: "InsufficientInstanceCapacity", Zone: "us-east-1b"}) })
	_, err := s.as.UpdateAutoScalingGroup(ctx, &autoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: aws.String("g"), VPCZoneIdentifier: aws.String("subnet-a,subnet-b")})
	ok(t, err)
	s.minutes(10)
	s.wantInService(t, 4, "nothing is ended before its replacement serves")
	do(s.Server, func() { s.faults.remove("") })
	s.minutes(20)
	zones := map[string]int{}
	for _, i := range s.describe(t).Instances {
		zones[*i.AvailabilityZone]++
	}
	if diff := cmp.Diff(map[string]int{"us-east-1a": 2, "us-east-1b": 2}, zones); diff != "" {
		t.Errorf("once there is capacity: -want +got\n%s", diff)
	}
}

func TestLaunchConfiguration(t *testing.T) {
	s := newScaled(t)
	put := func() error {
		_, err := s.as.CreateLaunchConfiguration(ctx, &autoscaling.CreateLaunchConfigurationInput{LaunchConfigurationName: aws.String("old"), ImageId: aws.String("ami-1"), InstanceType: aws.String("c5.large"),
			BlockDeviceMappings: []types.BlockDeviceMapping{{DeviceName: aws.String("/dev/xvda"), Ebs: &types.Ebs{VolumeSize: aws.Int32(50)}}}})
		return err
	}
	ok(t, put())
	wantCode(t, put(), "AlreadyExists", "names are unique")
	s.create(t, 0, 4, 1, func(in *autoscaling.CreateAutoScalingGroupInput) {
		in.LaunchTemplate, in.LaunchConfigurationName = nil, aws.String("old")
	})
	i := s.describe(t).Instances[0]
	if aws.ToString(i.LaunchConfigurationName) != "old" || i.LaunchTemplate != nil || aws.ToString(i.InstanceType) != "c5.large" {
		t.Errorf("instance is %+v, want one of the launch configuration", i)
	}
	out, err := s.as.DescribeLaunchConfigurations(ctx, &autoscaling.DescribeLaunchConfigurationsInput{LaunchConfigurationNames: []string{"old"}})
	ok(t, err)
	if x := out.LaunchConfigurations; len(x) != 1 || aws.ToInt32(x[0].BlockDeviceMappings[0].Ebs.VolumeSize) != 50 {
		t.Errorf("launch configurations are %+v, want the one with its volume", x)
	}
	del := func() error {
		_, err := s.as.DeleteLaunchConfiguration(ctx, &autoscaling.DeleteLaunchConfigurationInput{LaunchConfigurationName: aws.String("old")})
		return err
	}
	wantCode(t, del(), "ResourceInUse", "a group uses it")
	_, err = s.as.UpdateAutoScalingGroup(ctx, &autoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: aws.String("g"), LaunchTemplate: &types.LaunchTemplateSpecification{LaunchTemplateId: aws.String("lt-1")}})
	ok(t, err)
	if g := s.describe(t); g.LaunchConfigurationName != nil || g.LaunchTemplate == nil {
		t.Errorf("the group shows %v and %v, want the template in the configuration's place", g.LaunchConfigurationName, g.LaunchTemplate)
	}
	ok(t, del())
	wantCode(t, del(), "ValidationError", "deleted already")
}
