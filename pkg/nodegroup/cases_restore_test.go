package nodegroup

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/go-cmp/cmp"

	"github.com/castoff-sh/castoff/e2e/awssim/simapi"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// writes are the calls since then that were to change something.
func (l *lab) writes(t *testing.T, after int64) []simapi.Call {
	t.Helper()
	calls := must[[]simapi.Call](t, "calls")(l.door.Calls(t.Context(), after))
	return slices.DeleteFunc(calls, func(c simapi.Call) bool { return !c.Write })
}

func input[T any](t *testing.T, c simapi.Call) T {
	t.Helper()
	var in T
	if err := json.Unmarshal(c.Input, &in); err != nil {
		t.Fatalf("%s: %v", c.Operation, err)
	}
	return in
}

// Only drained instances end, each by its own name, and desired goes down with them: there is nothing that Auto Scaling could
// choose, launch again or balance.
func TestCase_C007_OnlyTheNamedInstanceEnds(t *testing.T) {
	l := newLab(t)
	l.group(t, "general", func(in *autoscaling.CreateAutoScalingGroupInput) {
		in.MinSize, in.DesiredCapacity = aws.Int32(0), aws.Int32(6)
	})
	before := l.list(t)["general"]
	_, seq := l.calls(t, 0)
	if err := l.port.SuspendProcesses(t.Context(), "general", quieted); err != nil {
		t.Fatal(err)
	}
	for _, victim := range before.Instances[:3] {
		if err := l.port.EndInstances(t.Context(), "general", []string{victim.ID}); err != nil {
			t.Fatal(err)
		}
		l.settle()
	}
	l.sim.Advance(time.Hour)
	var want, got []string
	for _, i := range before.Instances[3:] {
		want = append(want, i.ID)
	}
	after := l.list(t)["general"]
	for _, i := range after.Instances {
		got = append(got, i.ID)
	}
	if diff := cmp.Diff(want, got); diff != "" || after.Desired != 3 {
		t.Errorf("desired %d, want 3; members: -want +got\n%s", after.Desired, diff)
	}
	for _, c := range l.writes(t, seq) {
		if c.Operation != "TerminateInstanceInAutoScalingGroup" {
			if c.Operation != "SuspendProcesses" {
				t.Errorf("%s changes the group beside the ends of instances", c.Operation)
			}
			continue
		}
		in := input[struct{ ShouldDecrementDesiredCapacity *bool }](t, c)
		if !aws.ToBool(in.ShouldDecrementDesiredCapacity) {
			t.Errorf("an end without the decrement of desired: %s", c.Input)
		}
	}
}

// Whatever type a policy has, and schedules too, it is recorded in full, acts no more, and comes back field for field. Policies are
// disabled and not deleted, so even the ARNs of alarms stay.
func TestCase_C009_PoliciesAndSchedulesStopAndComeBack(t *testing.T) {
	l := newLab(t)
	l.group(t, "general", nil)
	l.policies(t, "general")
	l.schedule(t, "general", &autoscaling.PutScheduledUpdateGroupActionInput{ScheduledActionName: aws.String("morning"), Recurrence: aws.String("0 7 * * *"), DesiredCapacity: aws.Int32(6)})
	l.settle()
	before, alarms := l.list(t)["general"], l.alarms(t)
	types := map[string]bool{}
	for _, p := range before.ScalingPolicies {
		types[p.Type] = true
	}
	if want := map[string]bool{"TargetTrackingScaling": true, "StepScaling": true, "SimpleScaling": true, "PredictiveScaling": true}; !cmp.Equal(want, types) || len(before.ScheduledActions) != 1 {
		t.Fatalf("not every kind is there: %v, %v", types, before.ScheduledActions)
	}
	record := snapshot(t, before)
	ctx := t.Context()
	for _, step := range []func() error{
		func() error { return l.port.DisablePolicies(ctx, before, policyNames(before)) },
		func() error { return l.port.DeleteScheduledActions(ctx, "general", []string{"morning"}) },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	l.settle()
	l.sim.Advance(48 * time.Hour) // the schedule's time comes twice
	still := l.list(t)["general"]
	active := slices.ContainsFunc(still.ScalingPolicies, func(p inventory.ScalingPolicy) bool { return p.Active })
	if active || len(still.ScheduledActions) != 0 || still.Desired != before.Desired {
		t.Errorf("something may still size the group: active %t, schedules %v, desired %d, want %d", active, still.ScheduledActions, still.Desired, before.Desired)
	}
	for _, step := range []func() error{
		func() error { return l.port.EnablePolicies(ctx, record, policyNames(record)) },
		func() error { return l.port.PutScheduledActions(ctx, "general", record.ScheduledActions) },
	} {
		for range 2 {
			if err := step(); err != nil {
				t.Fatal(err)
			}
		}
	}
	l.settle()
	after := l.list(t)["general"]
	if diff := cmp.Diff(before, after, anew); diff != "" {
		t.Errorf("-before +after\n%s", diff)
	}
	if diff := cmp.Diff(alarms, l.alarms(t)); diff != "" {
		t.Errorf("alarms: -before +after\n%s", diff)
	}
}

// A managed node group of 12/20/12 goes to its end and back, through EKS, with sizes that fit in every call, and without a desired
// size while it is drained.
func TestCase_C088_ManagedSizesGoThroughEKSAtOnce(t *testing.T) {
	l := newLab(t)
	l.nodegroup(t, "batch", func(in *eks.CreateNodegroupInput) {
		in.ScalingConfig = &ekstypes.NodegroupScalingConfig{MinSize: aws.Int32(12), MaxSize: aws.Int32(20), DesiredSize: aws.Int32(12)}
	})
	before := l.list(t)["batch"]
	_, seq := l.calls(t, 0)
	size := func(minimum, maximum, desired int32) {
		t.Helper()
		if err := l.port.SetSize(t.Context(), l.list(t)["batch"], minimum, maximum, desired); err != nil {
			t.Fatal(err)
		}
		l.settle()
	}
	size(0, 20, 12) // opened downwards
	for _, i := range before.Instances {
		if err := l.port.EndInstances(t.Context(), before.AutoScalingGroup, []string{i.ID}); err != nil {
			t.Fatal(err)
		}
	}
	l.settle()
	size(0, 1, 0)
	size(12, 20, 12)
	want := []ekstypes.NodegroupScalingConfig{
		{MinSize: aws.Int32(0), MaxSize: aws.Int32(20)},
		{MinSize: aws.Int32(0), MaxSize: aws.Int32(1), DesiredSize: aws.Int32(0)},
		{MinSize: aws.Int32(12), MaxSize: aws.Int32(20), DesiredSize: aws.Int32(12)},
	}
	var got []ekstypes.NodegroupScalingConfig
	for _, c := range l.writes(t, seq) {
		switch c.Operation {
		case "UpdateNodegroupConfig":
			got = append(got, input[struct {
				ScalingConfig ekstypes.NodegroupScalingConfig
			}](t, c).ScalingConfig)
		case "TerminateInstanceInAutoScalingGroup":
		default:
			t.Errorf("%s changes what is EKS' own: %s", c.Operation, c.Input)
		}
		if c.ErrorCode != "" {
			t.Errorf("%s was refused: %s", c.Operation, c.ErrorCode)
		}
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(sameConfig)); diff != "" {
		t.Errorf("calls: -want +got\n%s", diff)
	}
	after := l.list(t)["batch"]
	if after.Min != 12 || after.Max != 20 || after.Desired != 12 || after.InService() != 12 {
		t.Errorf("sizes are %d/%d/%d with %d, want 12/20/12 with 12", after.Min, after.Max, after.Desired, after.InService())
	}
}

func sameConfig(a, b ekstypes.NodegroupScalingConfig) bool {
	return cmp.Equal(a.MinSize, b.MinSize) && cmp.Equal(a.MaxSize, b.MaxSize) && cmp.Equal(a.DesiredSize, b.DesiredSize)
}

// What was read a moment too early has twelve where nine are: told so, Auto Scaling would launch three again.
func TestCase_C088_AStaleDesiredSizeLaunchesNothing(t *testing.T) {
	for name, managed := range map[string]bool{"ManagedNodeGroup": true, "AutoScalingGroup": false} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			if managed {
				l.nodegroup(t, "batch", nil)
			} else {
				l.group(t, "batch", func(in *autoscaling.CreateAutoScalingGroupInput) {
					in.Tags = append(in.Tags, astypes.Tag{Key: aws.String("x")})
				})
			}
			if err := l.port.SetSize(t.Context(), l.list(t)["batch"], 0, 5, l.list(t)["batch"].Desired); err != nil {
				t.Fatal(err)
			}
			l.settle()
			stale := l.list(t)["batch"]
			if err := l.port.EndInstances(t.Context(), stale.AutoScalingGroup, []string{stale.Instances[0].ID}); err != nil {
				t.Fatal(err)
			}
			l.settle()
			if err := l.port.SetSize(t.Context(), stale, 0, 6, stale.Desired); err != nil {
				t.Fatal(err)
			}
			l.settle()
			if g := l.list(t)["batch"]; g.Desired != stale.Desired-1 || g.InService() != int(stale.Desired)-1 || g.Max != 6 {
				t.Errorf("desired %d with %d in service, max %d; want %d with as many, max 6", g.Desired, g.InService(), g.Max, stale.Desired-1)
			}
		})
	}
}
