package nodegroup

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	cwtypes "github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/castoff-sh/castoff/e2e/awssim/simapi"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

func (l *lab) policy(t *testing.T, asg string, in *autoscaling.PutScalingPolicyInput) string {
	t.Helper()
	in.AutoScalingGroupName = aws.String(asg)
	out := must[*autoscaling.PutScalingPolicyOutput](t, "policy")(l.asg.PutScalingPolicy(t.Context(), in))
	return aws.ToString(out.PolicyARN)
}

// policies are one of each type, those that need an alarm with one of the user's, and one that is off.
func (l *lab) policies(t *testing.T, asg string) {
	t.Helper()
	l.policy(t, asg, tracking("cpu", 55.5))
	step := l.policy(t, asg, &autoscaling.PutScalingPolicyInput{PolicyName: aws.String("step"), PolicyType: aws.String("StepScaling"), AdjustmentType: aws.String("ChangeInCapacity"), MetricAggregationType: aws.String("Maximum"), StepAdjustments: []astypes.StepAdjustment{
		{MetricIntervalLowerBound: aws.Float64(0), MetricIntervalUpperBound: aws.Float64(10), ScalingAdjustment: aws.Int32(1)}, {MetricIntervalLowerBound: aws.Float64(10), ScalingAdjustment: aws.Int32(3)},
	}})
	l.alarm(t, "queue-is-long", step)
	simple := l.policy(t, asg, &autoscaling.PutScalingPolicyInput{PolicyName: aws.String("simple"), PolicyType: aws.String("SimpleScaling"), AdjustmentType: aws.String("PercentChangeInCapacity"), ScalingAdjustment: aws.Int32(10), MinAdjustmentMagnitude: aws.Int32(2), Cooldown: aws.Int32(90)})
	l.alarm(t, "latency-is-high", simple)
	l.policy(t, asg, predictive("forecast", astypes.PredictiveScalingModeForecastAndScale, 40))
	l.policy(t, asg, predictive("looks-only", astypes.PredictiveScalingModeForecastOnly, 40))
	off := tracking("off", 30)
	off.Enabled = aws.Bool(false)
	l.policy(t, asg, off)
	l.settle()
}

func (l *lab) alarm(t *testing.T, name, policyARN string) {
	t.Helper()
	must[*cloudwatch.PutMetricAlarmOutput](t, "alarm")(l.cw.PutMetricAlarm(t.Context(), &cloudwatch.PutMetricAlarmInput{
		AlarmName: aws.String(name), Namespace: aws.String("app"), MetricName: aws.String(name), Statistic: cwtypes.StatisticAverage, Period: aws.Int32(60),
		EvaluationPeriods: aws.Int32(1), Threshold: aws.Float64(5), ComparisonOperator: cwtypes.ComparisonOperatorGreaterThanThreshold, AlarmActions: []string{policyARN},
	}))
}

func (l *lab) alarms(t *testing.T) map[string][]string {
	t.Helper()
	out := must[*cloudwatch.DescribeAlarmsOutput](t, "alarms")(l.cw.DescribeAlarms(t.Context(), &cloudwatch.DescribeAlarmsInput{}))
	actions := map[string][]string{}
	for _, a := range out.MetricAlarms {
		actions[aws.ToString(a.AlarmName)] = a.AlarmActions
	}
	return actions
}

func tracking(name string, target float64) *autoscaling.PutScalingPolicyInput {
	return &autoscaling.PutScalingPolicyInput{PolicyName: aws.String(name), PolicyType: aws.String("TargetTrackingScaling"), EstimatedInstanceWarmup: aws.Int32(60), TargetTrackingConfiguration: &astypes.TargetTrackingConfiguration{
		TargetValue: aws.Float64(target), PredefinedMetricSpecification: &astypes.PredefinedMetricSpecification{PredefinedMetricType: astypes.MetricTypeASGAverageCPUUtilization},
	}}
}

func predictive(name string, mode astypes.PredictiveScalingMode, target float64) *autoscaling.PutScalingPolicyInput {
	return &autoscaling.PutScalingPolicyInput{PolicyName: aws.String(name), PolicyType: aws.String("PredictiveScaling"), PredictiveScalingConfiguration: &astypes.PredictiveScalingConfiguration{
		Mode: mode, SchedulingBufferTime: aws.Int32(120), MetricSpecifications: []astypes.PredictiveScalingMetricSpecification{{
			TargetValue: aws.Float64(target), PredefinedMetricPairSpecification: &astypes.PredictiveScalingPredefinedMetricPair{PredefinedMetricType: astypes.PredefinedMetricPairTypeASGCPUUtilization},
		}},
	}}
}

func (l *lab) schedule(t *testing.T, asg string, in *autoscaling.PutScheduledUpdateGroupActionInput) {
	t.Helper()
	in.AutoScalingGroupName = aws.String(asg)
	must[*autoscaling.PutScheduledUpdateGroupActionOutput](t, "action")(l.asg.PutScheduledUpdateGroupAction(t.Context(), in))
}

// snapshot is the group as a snapshot gives it back.
func snapshot(t *testing.T, g inventory.NodeGroup) inventory.NodeGroup {
	t.Helper()
	b := must[[]byte](t, "marshal")(json.Marshal(g))
	var out inventory.NodeGroup
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func policyNames(g inventory.NodeGroup) (out []string) {
	for _, p := range g.ScalingPolicies {
		out = append(out, p.Name)
	}
	return out
}

func policyNamed(t *testing.T, g inventory.NodeGroup, name string) inventory.ScalingPolicy {
	t.Helper()
	i := slices.IndexFunc(g.ScalingPolicies, func(p inventory.ScalingPolicy) bool { return p.Name == name })
	if i < 0 {
		t.Fatalf("group %s has no policy %s, only %v", g.Name, name, policyNames(g))
	}
	return g.ScalingPolicies[i]
}

func TestPoliciesAreEnabledAsTheyWere(t *testing.T) {
	l := newLab(t)
	l.group(t, "general", nil)
	l.policies(t, "general")
	before, alarms := l.list(t)["general"], l.alarms(t)
	recorded := snapshot(t, before)
	all := append(policyNames(before), "never-was")
	if err := l.port.DisablePolicies(t.Context(), before, all); err != nil {
		t.Fatal(err)
	}
	l.settle()
	quiet := l.list(t)["general"]
	if slices.ContainsFunc(quiet.ScalingPolicies, func(p inventory.ScalingPolicy) bool { return p.Active }) {
		t.Fatalf("a policy is still active: %+v", quiet.ScalingPolicies)
	}
	if err := l.port.EnablePolicies(t.Context(), recorded, all); err != nil {
		t.Fatal(err)
	}
	l.settle()
	if diff := cmp.Diff(before.ScalingPolicies, l.list(t)["general"].ScalingPolicies); diff != "" {
		t.Errorf("policies, their ARNs and alarms: -before +after\n%s", diff)
	}
	if diff := cmp.Diff(alarms, l.alarms(t)); diff != "" {
		t.Errorf("what the alarms point at: -before +after\n%s", diff)
	}
	_, seq := l.calls(t, 0)
	if err := l.port.EnablePolicies(t.Context(), recorded, all); err != nil {
		t.Fatal(err)
	}
	if got, _ := l.calls(t, seq); got["autoscaling.PutScalingPolicy"] != 0 {
		t.Errorf("enabling what is enabled called %v", got)
	}
}

// The alarm of a step policy has its effect again, and had none in between.
func TestEnabledPolicyScalesAgain(t *testing.T) {
	l := newLab(t)
	l.group(t, "general", nil)
	l.policies(t, "general")
	before := l.list(t)["general"]
	fire := func() int32 {
		must[*cloudwatch.SetAlarmStateOutput](t, "alarm state")(l.cw.SetAlarmState(t.Context(), &cloudwatch.SetAlarmStateInput{AlarmName: aws.String("queue-is-long"), StateValue: cwtypes.StateValueAlarm, StateReason: aws.String("test")}))
		l.settle()
		must[*cloudwatch.SetAlarmStateOutput](t, "alarm state")(l.cw.SetAlarmState(t.Context(), &cloudwatch.SetAlarmStateInput{AlarmName: aws.String("queue-is-long"), StateValue: cwtypes.StateValueOk, StateReason: aws.String("test")}))
		return l.list(t)["general"].Desired
	}
	if err := l.port.DisablePolicies(t.Context(), before, []string{"step"}); err != nil {
		t.Fatal(err)
	}
	if got := fire(); got != before.Desired {
		t.Errorf("a disabled policy moved desired from %d to %d", before.Desired, got)
	}
	if err := l.port.EnablePolicies(t.Context(), before, []string{"step"}); err != nil {
		t.Fatal(err)
	}
	if got := fire(); got != before.Desired+1 {
		t.Errorf("desired is %d, want %d: the policy that is enabled again adds one", got, before.Desired+1)
	}
}

// What somebody did to a policy while castoff had it disabled stays.
func TestEditsOfPoliciesSurvive(t *testing.T) {
	disabled := func(in *autoscaling.PutScalingPolicyInput) *autoscaling.PutScalingPolicyInput {
		in.Enabled = aws.Bool(false)
		return in
	}
	cases := map[string]struct {
		reason string
		names  []string
		edit   func(t *testing.T, l *lab)
		want   func(t *testing.T, g inventory.NodeGroup) bool
		puts   int
	}{
		"another target": {"the definition of now is enabled, not the recorded one", []string{"cpu"},
			func(t *testing.T, l *lab) { l.policy(t, "general", disabled(tracking("cpu", 70))) },
			func(t *testing.T, g inventory.NodeGroup) bool {
				p := policyNamed(t, g, "cpu")
				return p.Active && p.Definition["TargetTrackingConfiguration"].(map[string]any)["TargetValue"] == 70.0
			}, 1},
		"another forecast": {"the recorded mode, the target of now", []string{"forecast"},
			func(t *testing.T, l *lab) {
				l.policy(t, "general", predictive("forecast", astypes.PredictiveScalingModeForecastOnly, 60))
			},
			func(t *testing.T, g inventory.NodeGroup) bool {
				p := policyNamed(t, g, "forecast")
				spec := p.Definition["PredictiveScalingConfiguration"].(map[string]any)["MetricSpecifications"].([]any)[0].(map[string]any)
				return p.Active && spec["TargetValue"] == 60.0
			}, 1},
		"deleted": {"a policy that is gone does not come back", []string{"cpu", "step"},
			func(t *testing.T, l *lab) {
				must[*autoscaling.DeletePolicyOutput](t, "delete")(l.asg.DeletePolicy(t.Context(), &autoscaling.DeletePolicyInput{AutoScalingGroupName: aws.String("general"), PolicyName: aws.String("cpu")}))
			},
			func(t *testing.T, g inventory.NodeGroup) bool {
				return !slices.Contains(policyNames(g), "cpu") && policyNamed(t, g, "step").Active
			}, 1},
		"enabled already": {"somebody was faster", []string{"cpu"},
			func(t *testing.T, l *lab) { l.policy(t, "general", tracking("cpu", 20)) },
			func(t *testing.T, g inventory.NodeGroup) bool {
				p := policyNamed(t, g, "cpu")
				return p.Active && p.Definition["TargetTrackingConfiguration"].(map[string]any)["TargetValue"] == 20.0
			}, 0},
		"predictive now": {"one that became predictive is left forecasting only", []string{"step"},
			func(t *testing.T, l *lab) {
				l.policy(t, "general", predictive("step", astypes.PredictiveScalingModeForecastOnly, 60))
			},
			func(t *testing.T, g inventory.NodeGroup) bool { return !policyNamed(t, g, "step").Active }, 0},
		"off before": {"a policy that was off when it was recorded stays off", []string{"off", "looks-only"},
			func(*testing.T, *lab) {},
			func(t *testing.T, g inventory.NodeGroup) bool {
				return !policyNamed(t, g, "off").Active && !policyNamed(t, g, "looks-only").Active
			}, 0},
		"not named": {"only what is named is enabled", []string{"cpu"},
			func(*testing.T, *lab) {},
			func(t *testing.T, g inventory.NodeGroup) bool {
				return policyNamed(t, g, "cpu").Active && !policyNamed(t, g, "step").Active
			}, 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			l.group(t, "general", nil)
			l.policies(t, "general")
			before := l.list(t)["general"]
			if err := l.port.DisablePolicies(t.Context(), before, policyNames(before)); err != nil {
				t.Fatal(err)
			}
			l.settle()
			tc.edit(t, l)
			l.settle()
			_, seq := l.calls(t, 0)
			if err := l.port.EnablePolicies(t.Context(), snapshot(t, before), tc.names); err != nil {
				t.Fatal(err)
			}
			puts, _ := l.calls(t, seq)
			l.settle()
			if g := l.list(t)["general"]; !tc.want(t, g) || puts["autoscaling.PutScalingPolicy"] != tc.puts {
				t.Errorf("%s: %d puts, want %d; policies are %+v", tc.reason, puts["autoscaling.PutScalingPolicy"], tc.puts, g.ScalingPolicies)
			}
		})
	}
}

func TestScheduledActionsComeBack(t *testing.T) {
	l := newLab(t)
	l.group(t, "memory", nil)
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	l.schedule(t, "memory", &autoscaling.PutScheduledUpdateGroupActionInput{ScheduledActionName: aws.String("daily"), Recurrence: aws.String("0 7 * * *"), TimeZone: aws.String("Europe/Berlin"), DesiredCapacity: aws.Int32(5), MinSize: aws.Int32(2), MaxSize: aws.Int32(9)})
	l.schedule(t, "memory", &autoscaling.PutScheduledUpdateGroupActionInput{ScheduledActionName: aws.String("from-april"), Recurrence: aws.String("0 9 * * *"), StartTime: aws.Time(start.AddDate(0, 1, 0)), EndTime: aws.Time(start.AddDate(0, 6, 0)), MinSize: aws.Int32(3)})
	l.schedule(t, "memory", &autoscaling.PutScheduledUpdateGroupActionInput{ScheduledActionName: aws.String("once-later"), StartTime: aws.Time(start.AddDate(0, 2, 0)), DesiredCapacity: aws.Int32(0), MinSize: aws.Int32(0)})
	l.settle()
	before := l.list(t)["memory"].ScheduledActions
	recorded := snapshot(t, l.list(t)["memory"]).ScheduledActions
	if err := l.port.DeleteScheduledActions(t.Context(), "memory", []string{"daily", "from-april", "once-later"}); err != nil {
		t.Fatal(err)
	}
	l.sim.Advance(72 * time.Hour) // the recorded start of the daily one, its next run, passes
	if left := l.list(t)["memory"].ScheduledActions; len(left) != 0 {
		t.Fatalf("left are %+v", left)
	}
	if err := l.port.PutScheduledActions(t.Context(), "memory", recorded); err != nil {
		t.Fatal(err)
	}
	l.settle()
	after := l.list(t)["memory"].ScheduledActions
	if got, want := aws.ToTime(after[0].Start), aws.ToTime(before[0].Start).AddDate(0, 0, 3); !got.Equal(want) {
		t.Errorf("the daily action runs next at %s, want %s", got, want)
	}
	after[0].Start = before[0].Start
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("-before +after\n%s", diff)
	}
	_, seq := l.calls(t, 0)
	if err := l.port.PutScheduledActions(t.Context(), "memory", recorded); err != nil {
		t.Fatal(err)
	}
	if got, _ := l.calls(t, seq); got["autoscaling.PutScheduledUpdateGroupAction"] != 0 {
		t.Errorf("putting back what is there called %v", got)
	}
	l.sim.Advance(24 * time.Hour)
	if g := l.list(t)["memory"]; g.Desired != 5 || g.Min != 2 || g.Max != 9 {
		t.Errorf("sizes are %d/%d/%d, want the daily action to have set 2/9/5", g.Min, g.Max, g.Desired)
	}
}

func TestScheduledActionsThatCannotComeBackAsTheyWere(t *testing.T) {
	past, soon, later := time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 3, 2, 7, 0, 0, 0, time.UTC), time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	five := aws.Int32(5)
	daily := inventory.ScheduledAction{Name: "daily", Recurrence: "0 7 * * *", Desired: five, Start: &past}
	users := inventory.ScheduledAction{Name: "daily", Recurrence: "0 8 * * *", Desired: aws.Int32(6)}
	cases := map[string]struct {
		reason  string
		there   []inventory.ScheduledAction
		actions []inventory.ScheduledAction
		want    []inventory.ScheduledAction
		class   inventory.Class
		names   []string // in the error
	}{
		"nothing":        {"no actions, no call", nil, nil, nil, "", nil},
		"start is past":  {"it recurs, and Auto Scaling reckons the next run", nil, []inventory.ScheduledAction{daily}, []inventory.ScheduledAction{{Name: "daily", Recurrence: "0 7 * * *", Desired: five, Start: &soon}}, "", nil},
		"no start":       {"there was none recorded", nil, []inventory.ScheduledAction{{Name: "daily", Recurrence: "0 7 * * *", Desired: five}}, []inventory.ScheduledAction{{Name: "daily", Recurrence: "0 7 * * *", Desired: five, Start: &soon}}, "", nil},
		"user's own now": {"an action of that name that somebody made meanwhile stays", []inventory.ScheduledAction{users}, []inventory.ScheduledAction{daily}, []inventory.ScheduledAction{{Name: "daily", Recurrence: "0 8 * * *", Desired: aws.Int32(6), Start: aws.Time(soon.Add(time.Hour))}}, "", nil},
		"one of them": {"what Auto Scaling refuses for good keeps nothing else back, and is named", nil,
			[]inventory.ScheduledAction{{Name: "once", Start: &past, Desired: five}, daily, {Name: "over", Recurrence: "0 7 * * *", End: &past, Desired: five}, {Name: "later", Start: &later, Min: five}},
			[]inventory.ScheduledAction{{Name: "daily", Recurrence: "0 7 * * *", Desired: five, Start: &soon}, {Name: "later", Start: &later, Min: five}}, inventory.ClassTerminal, []string{"once", "over"}},
		"fallen together": {"AWS puts no two with one next run: the rest comes back, and the second is tried again", nil,
			[]inventory.ScheduledAction{{Name: "once", Start: &past, Desired: five}, daily, {Name: "monday", Recurrence: "0 7 * * 1", Desired: five, Start: &soon}, {Name: "later", Start: &later, Min: five}},
			[]inventory.ScheduledAction{{Name: "daily", Recurrence: "0 7 * * *", Desired: five, Start: &soon}, {Name: "later", Start: &later, Min: five}}, inventory.ClassRetry, []string{"monday"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			l.group(t, "memory", nil)
			if err := l.port.PutScheduledActions(t.Context(), "memory", tc.there); err != nil {
				t.Fatal(err)
			}
			l.settle()
			err := l.port.PutScheduledActions(t.Context(), "memory", tc.actions)
			if (err != nil) != (tc.class != "") || err != nil && inventory.ClassOf(err) != tc.class {
				t.Errorf("%s: error is %v (%s), want class %q", tc.reason, err, inventory.ClassOf(err), tc.class)
			}
			for _, n := range tc.names {
				if err != nil && !strings.Contains(err.Error(), "scheduled action "+n+" of Auto Scaling group memory") {
					t.Errorf("error %q does not name %s", err, n)
				}
			}
			l.settle()
			if diff := cmp.Diff(tc.want, l.list(t)["memory"].ScheduledActions); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

func TestProcessesAreResumed(t *testing.T) {
	cases := map[string]struct {
		reason    string
		suspended []string
		resume    []string
		want      []string
		class     inventory.Class
	}{
		"castoff's own": {"the user's suspension of HealthCheck stays", []string{"AZRebalance", "HealthCheck", "ReplaceUnhealthy"}, []string{"AZRebalance", "ReplaceUnhealthy"}, []string{"HealthCheck"}, ""},
		"none":          {"no names is nothing, not everything", []string{"AZRebalance"}, nil, []string{"AZRebalance"}, ""},
		"running":       {"one that runs goes on", []string{"AZRebalance"}, []string{"Launch"}, []string{"AZRebalance"}, ""},
		"unknown":       {"a name that Auto Scaling does not know is a mistake", []string{"AZRebalance"}, []string{"Dance"}, []string{"AZRebalance"}, inventory.ClassTerminal},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			l.group(t, "memory", nil)
			if err := l.port.SuspendProcesses(t.Context(), "memory", tc.suspended); err != nil {
				t.Fatal(err)
			}
			l.settle()
			for range 2 {
				err := l.port.ResumeProcesses(t.Context(), "memory", tc.resume)
				if (err != nil) != (tc.class != "") || err != nil && inventory.ClassOf(err) != tc.class {
					t.Errorf("%s: error is %v, want class %q", tc.reason, err, tc.class)
				}
				l.settle()
			}
			if diff := cmp.Diff(tc.want, l.list(t)["memory"].SuspendedProcesses); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

// An action that AWS would not put beside another comes back by trying again, once their next runs differ.
func TestScheduledActionComesBackLater(t *testing.T) {
	l := newLab(t) // on a Sunday
	l.group(t, "memory", nil)
	actions := []inventory.ScheduledAction{{Name: "daily", Recurrence: "0 7 * * *", Desired: aws.Int32(5)}, {Name: "monday", Recurrence: "0 7 * * 1", Desired: aws.Int32(6)}}
	if err := l.port.PutScheduledActions(t.Context(), "memory", actions); err == nil || inventory.ClassOf(err) != inventory.ClassRetry {
		t.Fatalf("error is %v, want one to be tried again", err)
	}
	l.sim.Advance(24 * time.Hour)
	if err := l.port.PutScheduledActions(t.Context(), "memory", actions); err != nil {
		t.Fatal(err)
	}
	l.settle()
	if got := l.list(t)["memory"].ScheduledActions; len(got) != 2 {
		t.Errorf("actions are %+v, want both", got)
	}
}

func TestPuttingActionsStopsWhenThrottled(t *testing.T) {
	l := newLab(t)
	l.group(t, "memory", nil)
	l.fault(t, simapi.Fault{Service: "autoscaling", Operation: "PutScheduledUpdateGroupAction", Code: "Throttling", Times: 1})
	_, seq := l.calls(t, 0)
	err := l.port.PutScheduledActions(t.Context(), "memory", []inventory.ScheduledAction{{Name: "a", Recurrence: "0 7 * * *", Min: aws.Int32(1)}, {Name: "b", Recurrence: "0 8 * * *", Min: aws.Int32(1)}})
	count, _ := l.calls(t, seq)
	if inventory.ClassOf(err) != inventory.ClassThrottled || count["autoscaling.PutScheduledUpdateGroupAction"] != 1 {
		t.Errorf("error is %v after %v, want one call, throttled", err, count)
	}
}

// After a lost reply the effect is there, the error says to try again, and trying again changes nothing.
func TestRestoringWithALostReply(t *testing.T) {
	daily := []inventory.ScheduledAction{{Name: "daily", Recurrence: "0 7 * * *", Desired: aws.Int32(5)}}
	cases := map[string]struct {
		operation string
		do        func(ctx context.Context, l *lab, recorded inventory.NodeGroup) error
		done      func(g inventory.NodeGroup) bool
	}{
		"policies": {"PutScalingPolicy", func(ctx context.Context, l *lab, recorded inventory.NodeGroup) error {
			return l.port.EnablePolicies(ctx, recorded, []string{"step"})
		}, func(g inventory.NodeGroup) bool {
			return slices.ContainsFunc(g.ScalingPolicies, func(p inventory.ScalingPolicy) bool { return p.Name == "step" && p.Active })
		}},
		"schedules": {"PutScheduledUpdateGroupAction", func(ctx context.Context, l *lab, _ inventory.NodeGroup) error {
			return l.port.PutScheduledActions(ctx, "memory", daily)
		}, func(g inventory.NodeGroup) bool { return len(g.ScheduledActions) == 1 }},
		"processes": {"ResumeProcesses", func(ctx context.Context, l *lab, _ inventory.NodeGroup) error {
			return l.port.ResumeProcesses(ctx, "memory", []string{"AZRebalance"})
		}, func(g inventory.NodeGroup) bool { return !g.Suspends("AZRebalance") }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			l.group(t, "memory", nil)
			l.policies(t, "memory")
			recorded := l.list(t)["memory"]
			for what, err := range map[string]error{
				"disable": l.port.DisablePolicies(t.Context(), recorded, []string{"step"}),
				"suspend": l.port.SuspendProcesses(t.Context(), "memory", []string{"AZRebalance"}),
			} {
				if err != nil {
					t.Fatalf("%s: %v", what, err)
				}
			}
			l.settle()
			if tc.done(l.list(t)["memory"]) {
				t.Fatal("it is done already; the test proves nothing")
			}
			l.fault(t, simapi.Fault{Service: "autoscaling", Operation: tc.operation, Code: "InternalFailure", Status: 500, After: true, Times: 1})
			if err := tc.do(t.Context(), l, recorded); err == nil || inventory.ClassOf(err) != inventory.ClassRetry {
				t.Fatalf("a lost reply gives %v, want a retry", err)
			}
			l.settle()
			after := l.list(t)["memory"]
			if !tc.done(after) {
				t.Fatalf("the effect is not there: %+v", after)
			}
			if err := tc.do(t.Context(), l, recorded); err != nil {
				t.Fatal(err)
			}
			l.settle()
			if diff := cmp.Diff(after, l.list(t)["memory"]); diff != "" {
				t.Errorf("trying again changed the group: -once +twice\n%s", diff)
			}
		})
	}
}

// anew leaves out of a group what only time and new instances change: IDs, and when a recurring action runs next.
var anew = cmp.Options{
	cmpopts.IgnoreFields(inventory.Instance{}, "ID"),
	cmpopts.IgnoreFields(inventory.NodeGroup{}, "ScalingCause"),
	cmpopts.IgnoreFields(inventory.ScheduledAction{}, "Start"),
	cmpopts.SortSlices(func(a, b inventory.Instance) bool { return a.Zone < b.Zone }),
}

// everything sets all of a group that a snapshot promises to hold.
func (l *lab) everything(t *testing.T) {
	t.Helper()
	template := l.template(t, "general", nil)
	l.group(t, "general", func(in *autoscaling.CreateAutoScalingGroupInput) {
		in.MaxInstanceLifetime, in.CapacityRebalance, in.NewInstancesProtectedFromScaleIn = aws.Int32(604800), aws.Bool(true), aws.Bool(true)
		in.MixedInstancesPolicy = &astypes.MixedInstancesPolicy{
			LaunchTemplate: &astypes.LaunchTemplate{
				LaunchTemplateSpecification: &astypes.LaunchTemplateSpecification{LaunchTemplateId: aws.String(template), Version: aws.String("$Latest")},
				Overrides:                   []astypes.LaunchTemplateOverrides{{InstanceType: aws.String("m5.large")}},
			},
			InstancesDistribution: &astypes.InstancesDistribution{OnDemandBaseCapacity: aws.Int32(1), OnDemandPercentageAboveBaseCapacity: aws.Int32(100)},
		}
		in.LifecycleHookSpecificationList = []astypes.LifecycleHookSpecification{{
			LifecycleHookName: aws.String("goodbye"), LifecycleTransition: aws.String("autoscaling:EC2_INSTANCE_TERMINATING"), HeartbeatTimeout: aws.Int32(30), DefaultResult: aws.String("CONTINUE"),
			NotificationMetadata: aws.String("pool=general"),
		}}
		in.Tags = append(in.Tags, astypes.Tag{Key: aws.String("team"), Value: aws.String("harbour"), PropagateAtLaunch: aws.Bool(false)})
	})
	l.policies(t, "general")
	l.schedule(t, "general", &autoscaling.PutScheduledUpdateGroupActionInput{ScheduledActionName: aws.String("morning"), Recurrence: aws.String("0 7 * * 1-5"), TimeZone: aws.String("Europe/Berlin"), DesiredCapacity: aws.Int32(5)})
	l.schedule(t, "general", &autoscaling.PutScheduledUpdateGroupActionInput{ScheduledActionName: aws.String("sale"), StartTime: aws.Time(time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC)), EndTime: aws.Time(time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)), MaxSize: aws.Int32(40)})
	must[*autoscaling.SuspendProcessesOutput](t, "suspend")(l.asg.SuspendProcesses(t.Context(), &autoscaling.SuspendProcessesInput{AutoScalingGroupName: aws.String("general"), ScalingProcesses: []string{"AZRebalance"}}))
	l.settle()
}

// quieted are the processes that a hand-over suspends.
var quieted = []string{"AZRebalance", "ReplaceUnhealthy", "ScheduledActions", "AlarmNotification", "InstanceRefresh"}

// quiet does to a group what a migration does to it, down to its last instance.
func (l *lab) quiet(t *testing.T, g inventory.NodeGroup) {
	t.Helper()
	var ids, actions []string
	for _, i := range g.Instances {
		ids = append(ids, i.ID)
	}
	for _, a := range g.ScheduledActions {
		actions = append(actions, a.Name)
	}
	ctx, asg := t.Context(), g.AutoScalingGroup
	for _, step := range []func() error{
		func() error { return l.port.DisablePolicies(ctx, g, policyNames(g)) },
		func() error { return l.port.DeleteScheduledActions(ctx, asg, actions) },
		func() error { return l.port.SuspendProcesses(ctx, asg, quieted) },
		func() error { return l.port.SetCapacityRebalance(ctx, asg, false) },
		func() error { return l.port.SetMaxInstanceLifetime(ctx, asg, 0) },
		func() error { return l.port.SetSize(ctx, g, 0, g.Max, g.Desired) },
		func() error { return l.port.EndInstances(ctx, asg, ids) },
		func() error { return l.port.SetSize(ctx, l.list(t)[g.Name], 0, 1, 0) },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
		l.settle()
	}
	for range 12 {
		l.settle() // the hook holds each for thirty seconds
	}
}

// bringBack undoes quiet from the record alone.
func (l *lab) bringBack(t *testing.T, g inventory.NodeGroup) {
	t.Helper()
	resume := slices.DeleteFunc(slices.Clone(quieted), func(p string) bool { return slices.Contains(g.SuspendedProcesses, p) })
	ctx, asg := t.Context(), g.AutoScalingGroup
	for _, step := range []func() error{
		func() error { return l.port.SetSize(ctx, l.list(t)[g.Name], g.Min, g.Max, g.Desired) },
		func() error { return l.port.ResumeProcesses(ctx, asg, resume) },
		func() error { return l.port.SetCapacityRebalance(ctx, asg, g.CapacityRebalance) },
		func() error { return l.port.SetMaxInstanceLifetime(ctx, asg, g.MaxInstanceLifetime) },
		func() error { return l.port.EnablePolicies(ctx, g, policyNames(g)) },
		func() error { return l.port.PutScheduledActions(ctx, asg, g.ScheduledActions) },
	} {
		for range 2 { // each may be repeated
			if err := step(); err != nil {
				t.Fatal(err)
			}
			l.settle()
		}
	}
}

// Who changes the sizes of the Auto Scaling group behind EKS' back sets what counts: these sizes come back, and EKS takes
// them over as its own.
func TestSizesThatEKSDidNotKnowComeBack(t *testing.T) {
	l := newLab(t)
	l.nodegroup(t, "batch", nil) // 1/5/2
	l.update(t, l.list(t)["batch"], autoscaling.UpdateAutoScalingGroupInput{MinSize: aws.Int32(2), MaxSize: aws.Int32(9), DesiredCapacity: aws.Int32(4)})
	l.settle()
	before := l.list(t)["batch"]
	l.quiet(t, before)
	l.bringBack(t, snapshot(t, before))
	if diff := cmp.Diff(before, l.list(t)["batch"], anew); diff != "" {
		t.Errorf("-before +after\n%s", diff)
	}
	out := must[*eks.DescribeNodegroupOutput](t, "node group")(l.eks.DescribeNodegroup(t.Context(), &eks.DescribeNodegroupInput{ClusterName: aws.String("harbor"), NodegroupName: aws.String("batch")}))
	want := &ekstypes.NodegroupScalingConfig{MinSize: aws.Int32(2), MaxSize: aws.Int32(9), DesiredSize: aws.Int32(4)}
	if diff := cmp.Diff(want, out.Nodegroup.ScalingConfig, cmpopts.IgnoreUnexported(ekstypes.NodegroupScalingConfig{})); diff != "" {
		t.Errorf("EKS' own: -want +got\n%s", diff)
	}
}

// A group with everything set is taken to nothing and brought back from its record: no difference is left.
func TestRoundTrip(t *testing.T) {
	l := newLab(t)
	l.everything(t)
	l.nodegroup(t, "system", nil)
	for _, name := range []string{"general", "system"} {
		t.Run(name, func(t *testing.T) {
			before, alarms := l.list(t)[name], l.alarms(t)
			if name == "general" && (len(before.ScalingPolicies) != 6 || len(before.ScheduledActions) != 2 || len(before.LifecycleHooks) != 1 || len(before.Tags) != 2 || before.MixedInstances == nil ||
				!before.Instances[0].Protected || !before.Suspends("AZRebalance") || !before.CapacityRebalance || before.MaxInstanceLifetime == 0 || len(alarms) != 6) {
				t.Fatalf("not everything is set: %+v, alarms %v", before, alarms)
			}
			l.quiet(t, before)
			quiet := l.list(t)[name]
			if !quiet.Empty() || quiet.Desired != 0 || quiet.CapacityRebalance || quiet.MaxInstanceLifetime != 0 || len(quiet.ScheduledActions) != 0 || !quiet.Suspends(quieted...) {
				t.Fatalf("the group is not quiet: %+v", quiet)
			}
			l.sim.Advance(7 * 24 * time.Hour)
			l.bringBack(t, snapshot(t, before))
			after := l.list(t)[name]
			if diff := cmp.Diff(before, after, anew); diff != "" {
				t.Errorf("-before +after\n%s", diff)
			}
			if diff := cmp.Diff(alarms, l.alarms(t)); diff != "" {
				t.Errorf("alarms: -before +after\n%s", diff)
			}
			if len(after.Instances) == 0 || after.Has(before.Instances[0].ID) {
				t.Error("no instance is new; the test proves nothing")
			}
		})
	}
}
