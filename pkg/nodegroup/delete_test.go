package nodegroup

import (
	"context"
	"slices"
	"strings"
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

func TestPoliciesAreDeleted(t *testing.T) {
	l := newLab(t)
	l.group(t, "general", nil)
	l.policies(t, "general")
	for range 2 {
		if err := l.port.DeletePolicies(t.Context(), "general", []string{"cpu", "step", "forecast", "never-was"}); err != nil {
			t.Fatal(err)
		}
		l.settle()
	}
	if diff := cmp.Diff([]string{"looks-only", "off", "simple"}, policyNames(l.list(t)["general"])); diff != "" {
		t.Errorf("left: -want +got\n%s", diff)
	}
	alarms := l.alarms(t)
	if actions, ok := alarms["queue-is-long"]; !ok || len(actions) != 0 {
		t.Errorf("the user's alarm has actions %v and is there: %v; want it kept, with none", actions, ok)
	}
	if len(alarms) != 4 { // the user's two, and the two of target tracking policy "off"
		t.Errorf("alarms left: %v", alarms)
	}
	if err := l.port.DeletePolicies(t.Context(), "no-such-group", []string{"cpu"}); err != nil {
		t.Errorf("a group that is gone has no policies, but: %v", err)
	}
	if err := l.port.DeletePolicies(t.Context(), "general", nil); err != nil {
		t.Error(err)
	}
}

// A policy that is refused and still shown, which may be a read that lags, is tried again.
func TestPolicyThatIsNotDeleted(t *testing.T) {
	cases := map[string]struct {
		reason string
		fault  simapi.Fault
		class  inventory.Class
		gone   bool
	}{
		"refused":   {"still there", simapi.Fault{Code: "ValidationError"}, inventory.ClassRetry, false},
		"throttled": {"not looked into further", simapi.Fault{Code: "Throttling"}, inventory.ClassThrottled, false},
		"denied":    {"a human must grant it", simapi.Fault{Code: "AccessDenied", Status: 403}, inventory.ClassTerminal, false},
		"lost":      {"it is gone, and asking again is well", simapi.Fault{Code: "InternalFailure", Status: 500, After: true}, inventory.ClassRetry, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			l.group(t, "general", nil)
			l.policies(t, "general")
			tc.fault.Service, tc.fault.Operation, tc.fault.Times = "autoscaling", "DeletePolicy", 1
			l.fault(t, tc.fault)
			err := l.port.DeletePolicies(t.Context(), "general", []string{"cpu"})
			if err == nil || inventory.ClassOf(err) != tc.class || !strings.Contains(err.Error(), "scaling policy cpu of Auto Scaling group general") {
				t.Errorf("%s: error is %v (%s), want %s naming the policy", tc.reason, err, inventory.ClassOf(err), tc.class)
			}
			l.settle()
			if got := !slices.Contains(policyNames(l.list(t)["general"]), "cpu"); got != tc.gone {
				t.Errorf("%s: gone is %v", tc.reason, got)
			}
			if err := l.port.DeletePolicies(t.Context(), "general", []string{"cpu"}); err != nil {
				t.Errorf("trying again: %v", err)
			}
		})
	}
}

// empty ends the instances of the groups and leaves them at the end sizes of a migration.
func (l *lab) empty(t *testing.T, names ...string) {
	t.Helper()
	for name, g := range l.list(t) {
		if !slices.Contains(names, name) {
			continue
		}
		end := int32(0)
		if g.Managed != nil {
			end = 1
		}
		if err := l.port.SetSize(t.Context(), g, 0, end, 0); err != nil {
			t.Fatal(err)
		}
	}
	for range 100 { // EKS drains for a while
		l.settle()
	}
	for name, g := range l.list(t) {
		if slices.Contains(names, name) && !g.Empty() {
			t.Fatalf("group %s is not empty: %+v", name, g.Instances)
		}
	}
}

func TestEmptyGroupIsDeleted(t *testing.T) {
	l := newLab(t)
	l.group(t, "general", nil)
	l.group(t, "other", nil)
	l.policies(t, "general")
	g := l.list(t)["general"]
	l.empty(t, "general")
	_, seq := l.calls(t, 0)
	for range 2 { // the second finds nothing, which is well
		if err := l.port.DeleteGroup(t.Context(), g); err != nil {
			t.Fatal(err)
		}
		l.settle()
	}
	for _, c := range must[[]simapi.Call](t, "calls")(l.door.Calls(t.Context(), seq)) {
		if strings.Contains(c.Operation, "Delete") && strings.Contains(string(c.Input), "ForceDelete") {
			t.Errorf("it was deleted by force: %s", c.Input)
		}
	}
	if count, _ := l.calls(t, seq); count["autoscaling.DeleteAutoScalingGroup"] != 1 {
		t.Errorf("calls are %v, want one deletion", count)
	}
	if got := l.list(t); len(got) != 1 || got["other"].InService() != 3 {
		t.Errorf("left are %v, want other alone, with its three instances", got)
	}
}

// Deleting a managed node group leaves home's alone: its instances, and the role that the two share may still join.
func TestEmptyManagedGroupIsDeleted(t *testing.T) {
	l := newLab(t)
	l.nodegroup(t, "system", nil)
	l.nodegroup(t, "batch", nil)
	before := l.list(t)
	l.empty(t, "batch")
	for range 3 { // while it goes, and after
		if err := l.port.DeleteGroup(t.Context(), before["batch"]); err != nil {
			t.Fatal(err)
		}
		l.settle()
	}
	after := l.list(t)
	if diff := cmp.Diff(map[string]inventory.NodeGroup{"system": before["system"]}, after); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	groups := must[*autoscaling.DescribeAutoScalingGroupsOutput](t, "groups")(l.asg.DescribeAutoScalingGroups(t.Context(), &autoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: []string{before["batch"].AutoScalingGroup}}))
	if len(groups.AutoScalingGroups) != 0 {
		t.Error("the Auto Scaling group of the node group is still there")
	}
	entries := must[*eks.ListAccessEntriesOutput](t, "entries")(l.eks.ListAccessEntries(t.Context(), &eks.ListAccessEntriesInput{ClusterName: aws.String("harbor")}))
	if !slices.Contains(entries.AccessEntries, "arn:aws:iam::123456789012:role/node") {
		t.Errorf("access entries are %v, want home's role among them", entries.AccessEntries)
	}
}

// update changes the Auto Scaling group behind a group, past castoff and EKS.
func (l *lab) update(t *testing.T, g inventory.NodeGroup, in autoscaling.UpdateAutoScalingGroupInput) {
	t.Helper()
	in.AutoScalingGroupName = aws.String(g.AutoScalingGroup)
	must[*autoscaling.UpdateAutoScalingGroupOutput](t, "update")(l.asg.UpdateAutoScalingGroup(t.Context(), &in))
}

func TestGroupThatIsNotDeleted(t *testing.T) {
	cases := map[string]struct {
		reason string
		group  string
		spoil  func(t *testing.T, l *lab, g inventory.NodeGroup) inventory.NodeGroup
		want   string
		class  inventory.Class
	}{
		"instances": {"it is not empty", "general", func(t *testing.T, l *lab, g inventory.NodeGroup) inventory.NodeGroup {
			l.update(t, g, autoscaling.UpdateAutoScalingGroupInput{MaxSize: aws.Int32(1), DesiredCapacity: aws.Int32(1)})
			l.settle()
			l.update(t, g, autoscaling.UpdateAutoScalingGroupInput{MaxSize: aws.Int32(0), DesiredCapacity: aws.Int32(0)})
			return g
		}, "still has 1 instance (i-", inventory.ClassRetry},
		"managed instances": {"EKS would end it, drained or not", "batch", func(t *testing.T, l *lab, g inventory.NodeGroup) inventory.NodeGroup {
			l.update(t, g, autoscaling.UpdateAutoScalingGroupInput{DesiredCapacity: aws.Int32(1)})
			l.settle()
			return g
		}, "still has 1 instance (i-", inventory.ClassRetry},
		"asked for": {"somebody wants it again", "batch", func(t *testing.T, l *lab, g inventory.NodeGroup) inventory.NodeGroup {
			must[*autoscaling.SuspendProcessesOutput](t, "suspend")(l.asg.SuspendProcesses(t.Context(), &autoscaling.SuspendProcessesInput{AutoScalingGroupName: aws.String(g.AutoScalingGroup), ScalingProcesses: []string{"Launch"}}))
			l.update(t, g, autoscaling.UpdateAutoScalingGroupInput{DesiredCapacity: aws.Int32(1)})
			return g
		}, "set its desired capacity to 0", inventory.ClassRetry},
		"another": {"the name belongs to a group that somebody made since", "general", func(_ *testing.T, _ *lab, g inventory.NodeGroup) inventory.NodeGroup {
			g.ARN += "-old"
			return g
		}, "not the group that was recorded", inventory.ClassRetry},
		"another managed": {"and so for a managed one", "batch", func(_ *testing.T, _ *lab, g inventory.NodeGroup) inventory.NodeGroup {
			g.ARN += "-old"
			return g
		}, "not the group that was recorded", inventory.ClassRetry},
		"warm pool": {"AWS deletes a pool by force only", "general", func(t *testing.T, l *lab, g inventory.NodeGroup) inventory.NodeGroup {
			must[*autoscaling.PutWarmPoolOutput](t, "warm pool")(l.asg.PutWarmPool(t.Context(), &autoscaling.PutWarmPoolInput{AutoScalingGroupName: aws.String(g.AutoScalingGroup)}))
			return g
		}, "delete the pool first", inventory.ClassRetry},
		"protected": {"somebody decided that it stays", "general", func(t *testing.T, l *lab, g inventory.NodeGroup) inventory.NodeGroup {
			l.update(t, g, autoscaling.UpdateAutoScalingGroupInput{DeletionProtection: astypes.DeletionProtectionPreventAllDeletion})
			return g
		}, "take the protection off", inventory.ClassTerminal},
		"updating": {"EKS is at work on it", "batch", func(t *testing.T, l *lab, g inventory.NodeGroup) inventory.NodeGroup {
			must[*eks.UpdateNodegroupConfigOutput](t, "update")(l.eks.UpdateNodegroupConfig(t.Context(), &eks.UpdateNodegroupConfigInput{
				ClusterName: aws.String("harbor"), NodegroupName: aws.String("batch"), Labels: &ekstypes.UpdateLabelsPayload{AddOrUpdateLabels: map[string]string{"a": "b"}},
			}))
			return g
		}, "eks:DeleteNodegroup failed, it is tried again", inventory.ClassRetry},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			l.group(t, "general", nil)
			l.nodegroup(t, "batch", nil)
			l.empty(t, "general", "batch")
			g := tc.spoil(t, l, l.list(t)[tc.group])
			err := l.port.DeleteGroup(t.Context(), g)
			if err == nil || inventory.ClassOf(err) != tc.class || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: error is %v (%s), want %s with %q", tc.reason, err, inventory.ClassOf(err), tc.class, tc.want)
			}
			l.settle()
			if left, ok := l.list(t)[tc.group]; !ok || left.Managed != nil && left.Managed.Status != "ACTIVE" {
				t.Errorf("%s: the group is there: %v, %+v", tc.reason, ok, left.Managed)
			}
		})
	}
}

// AWS' own refusal is what stands between a read that lags and an instance.
func TestStaleReadDoesNotDeleteInstances(t *testing.T) {
	l := newLab(t)
	l.group(t, "general", nil)
	l.empty(t, "general")
	g := l.list(t)["general"]
	if err := l.door.SetSettings(t.Context(), simapi.Settings{Lag: time.Minute, PendingDelay: time.Second, ShutdownDelay: time.Second, ScalingDelay: time.Second}); err != nil {
		t.Fatal(err)
	}
	l.update(t, g, autoscaling.UpdateAutoScalingGroupInput{MaxSize: aws.Int32(1), DesiredCapacity: aws.Int32(1)})
	l.settle()
	if !l.list(t)["general"].Empty() {
		t.Fatal("the instance shows at once; the test proves nothing without lag")
	}
	err := l.port.DeleteGroup(t.Context(), g)
	if err == nil || inventory.ClassOf(err) != inventory.ClassRetry || !strings.Contains(err.Error(), "autoscaling:DeleteAutoScalingGroup") {
		t.Errorf("error is %v (%s), want AWS' refusal, to be tried again", err, inventory.ClassOf(err))
	}
	for range 10 {
		l.settle()
	}
	if got := l.list(t)["general"]; got.InService() != 1 {
		t.Errorf("the group has %d instances, want the one that somebody asked for", got.InService())
	}
}

// Reads that lag behind castoff's own changes make it ask again or wait, never take what is done for a human's mistake.
func TestStaleReadsAreNoMistakes(t *testing.T) {
	settings := simapi.Settings{Lag: 30 * time.Second, PendingDelay: time.Second, ShutdownDelay: time.Second, ScalingDelay: time.Second}
	cases := map[string]struct {
		reason string
		first  func(ctx context.Context, l *lab, recorded inventory.NodeGroup) error
		again  func(ctx context.Context, l *lab, recorded inventory.NodeGroup) error
		stale  bool // an error to be tried again, while the read lags
		done   func(g inventory.NodeGroup, there bool) bool
	}{
		"policies deleted": {"the policy still shows, and Auto Scaling calls its name invalid",
			func(ctx context.Context, l *lab, _ inventory.NodeGroup) error {
				return l.port.DeletePolicies(ctx, "general", []string{"cpu"})
			},
			func(ctx context.Context, l *lab, _ inventory.NodeGroup) error {
				return l.port.DeletePolicies(ctx, "general", []string{"cpu"})
			}, true,
			func(g inventory.NodeGroup, _ bool) bool { return !slices.Contains(policyNames(g), "cpu") }},
		"group deleted": {"the group still shows, and Auto Scaling calls its name invalid",
			func(ctx context.Context, l *lab, recorded inventory.NodeGroup) error {
				return l.port.DeleteGroup(ctx, recorded)
			},
			func(ctx context.Context, l *lab, recorded inventory.NodeGroup) error {
				return l.port.DeleteGroup(ctx, recorded)
			}, true,
			func(_ inventory.NodeGroup, there bool) bool { return !there }},
		"policies enabled": {"the policy still shows as active, so nothing is asked until it does not",
			func(ctx context.Context, l *lab, recorded inventory.NodeGroup) error {
				return l.port.DisablePolicies(ctx, recorded, []string{"cpu"})
			},
			func(ctx context.Context, l *lab, recorded inventory.NodeGroup) error {
				return l.port.EnablePolicies(ctx, recorded, []string{"cpu"})
			}, false,
			func(g inventory.NodeGroup, _ bool) bool {
				return slices.ContainsFunc(g.ScalingPolicies, func(p inventory.ScalingPolicy) bool { return p.Name == "cpu" && p.Active })
			}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			l.group(t, "general", nil)
			l.policies(t, "general")
			l.empty(t, "general")
			recorded := l.list(t)["general"]
			if err := l.door.SetSettings(t.Context(), settings); err != nil {
				t.Fatal(err)
			}
			if err := tc.first(t.Context(), l, recorded); err != nil {
				t.Fatal(err)
			}
			err := tc.again(t.Context(), l, recorded)
			if (err != nil) != tc.stale || err != nil && inventory.ClassOf(err) != inventory.ClassRetry {
				t.Errorf("%s: error is %v (%s) while reads lag", tc.reason, err, inventory.ClassOf(err))
			}
			for range 2 {
				for range 4 {
					l.settle()
				}
				if err := tc.again(t.Context(), l, recorded); err != nil {
					t.Errorf("%s: error is %v once reads are fresh", tc.reason, err)
				}
			}
			for range 4 {
				l.settle()
			}
			g, there := l.list(t)["general"]
			if !tc.done(g, there) {
				t.Errorf("%s: the group is %+v", tc.reason, g)
			}
		})
	}
}

// Both ways to delete, each answer that AWS may give; a lost reply has had its effect, and asking again is well.
func TestDeletingWithFaults(t *testing.T) {
	ways := map[string]struct{ group, service, operation string }{
		"group":   {"general", "autoscaling", "DeleteAutoScalingGroup"},
		"managed": {"batch", "eks", "DeleteNodegroup"},
		"look":    {"batch", "eks", "DescribeNodegroup"},
		"read":    {"general", "autoscaling", "DescribeAutoScalingGroups"},
	}
	faults := map[string]struct {
		fault simapi.Fault
		class inventory.Class
	}{
		"in use":    {simapi.Fault{Code: "ResourceInUse"}, inventory.ClassRetry},
		"activity":  {simapi.Fault{Code: "ScalingActivityInProgress"}, inventory.ClassRetry},
		"throttled": {simapi.Fault{Code: "ThrottlingException", Status: 429}, inventory.ClassThrottled},
		"denied":    {simapi.Fault{Code: "AccessDeniedException", Status: 403}, inventory.ClassTerminal},
		"lost":      {simapi.Fault{Code: "InternalFailure", Status: 500, After: true}, inventory.ClassRetry},
	}
	for way, w := range ways {
		for name, f := range faults {
			t.Run(way+"/"+name, func(t *testing.T) {
				l := newLab(t)
				l.group(t, "general", nil)
				l.nodegroup(t, "batch", nil)
				l.empty(t, "general", "batch")
				g := l.list(t)[w.group]
				f.fault.Service, f.fault.Operation, f.fault.Times = w.service, w.operation, 1
				l.fault(t, f.fault)
				err := l.port.DeleteGroup(t.Context(), g)
				if err == nil || inventory.ClassOf(err) != f.class || !strings.Contains(err.Error(), w.service+":"+w.operation) {
					t.Fatalf("error is %v (%s), want %s naming the action", err, inventory.ClassOf(err), f.class)
				}
				l.settle()
				if err := l.port.DeleteGroup(t.Context(), g); err != nil {
					t.Fatalf("trying again: %v", err)
				}
				l.settle()
				if _, ok := l.list(t)[w.group]; ok {
					t.Error("the group is still there")
				}
			})
		}
	}
}

// A group that went between the look and the deletion is no mistake of the user's: the next look finds that it is done.
func TestGroupThatGoesWhileItIsDeleted(t *testing.T) {
	cases := map[string]struct{ group, service, operation, code string }{
		"group":   {"general", "autoscaling", "DeleteAutoScalingGroup", "ValidationError"},
		"managed": {"batch", "eks", "DeleteNodegroup", "ResourceNotFoundException"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			l.group(t, "general", nil)
			l.nodegroup(t, "batch", nil)
			l.empty(t, "general", "batch")
			l.fault(t, simapi.Fault{Service: tc.service, Operation: tc.operation, Code: tc.code, Status: 400, After: true, Times: 1})
			g := l.list(t)[tc.group]
			if err := l.port.DeleteGroup(t.Context(), g); err != nil && inventory.ClassOf(err) != inventory.ClassRetry {
				t.Errorf("error is %v (%s), want none or a retry", err, inventory.ClassOf(err))
			}
			l.settle()
			if err := l.port.DeleteGroup(t.Context(), g); err != nil {
				t.Errorf("the next look: %v", err)
			}
		})
	}
}

// deletingFake answers as little as the SDK's types allow.
type deletingFake struct {
	AutoScalingAPI
	EKSAPI
	group   astypes.AutoScalingGroup
	managed *ekstypes.Nodegroup
	deleted []string
}

func (f *deletingFake) DescribeAutoScalingGroups(context.Context, *autoscaling.DescribeAutoScalingGroupsInput, ...func(*autoscaling.Options)) (*autoscaling.DescribeAutoScalingGroupsOutput, error) {
	return &autoscaling.DescribeAutoScalingGroupsOutput{AutoScalingGroups: []astypes.AutoScalingGroup{f.group}}, nil
}

func (f *deletingFake) DeleteAutoScalingGroup(context.Context, *autoscaling.DeleteAutoScalingGroupInput, ...func(*autoscaling.Options)) (*autoscaling.DeleteAutoScalingGroupOutput, error) {
	f.deleted = append(f.deleted, "group")
	return &autoscaling.DeleteAutoScalingGroupOutput{}, nil
}

func (f *deletingFake) DescribeNodegroup(context.Context, *eks.DescribeNodegroupInput, ...func(*eks.Options)) (*eks.DescribeNodegroupOutput, error) {
	return &eks.DescribeNodegroupOutput{Nodegroup: f.managed}, nil
}

func (f *deletingFake) DeleteNodegroup(context.Context, *eks.DeleteNodegroupInput, ...func(*eks.Options)) (*eks.DeleteNodegroupOutput, error) {
	f.deleted = append(f.deleted, "node group")
	return &eks.DeleteNodegroupOutput{}, nil
}

func TestDeletingOnPoorAnswers(t *testing.T) {
	plain, managed := inventory.NodeGroup{Name: "g", AutoScalingGroup: "g"}, inventory.NodeGroup{Name: "m", Managed: &inventory.ManagedNodeGroup{}}
	cases := map[string]struct {
		reason string
		g      inventory.NodeGroup
		fake   deletingFake
		want   []string
		err    bool
	}{
		"bare group":        {"no member set is an empty group", plain, deletingFake{}, []string{"group"}, false},
		"being deleted":     {"AWS is at it", plain, deletingFake{group: astypes.AutoScalingGroup{Status: aws.String("Delete in progress"), Instances: []astypes.Instance{{}}}}, nil, false},
		"nameless instance": {"an instance without an ID is one", plain, deletingFake{group: astypes.AutoScalingGroup{Instances: []astypes.Instance{{}}}}, nil, true},
		"no node group":     {"EKS says nothing", managed, deletingFake{}, nil, true},
		"bare node group":   {"EKS never made its Auto Scaling group", managed, deletingFake{managed: &ekstypes.Nodegroup{}}, []string{"node group"}, false},
		"failed before":     {"a deletion that failed is tried again", managed, deletingFake{managed: &ekstypes.Nodegroup{Status: ekstypes.NodegroupStatusDeleteFailed}}, []string{"node group"}, false},
		"second group": {"every Auto Scaling group behind it counts", managed, deletingFake{
			managed: &ekstypes.Nodegroup{Resources: &ekstypes.NodegroupResources{AutoScalingGroups: []ekstypes.AutoScalingGroup{{}, {Name: aws.String("b")}}}},
			group:   astypes.AutoScalingGroup{Instances: []astypes.Instance{{InstanceId: aws.String("i-1")}}},
		}, nil, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := New(&tc.fake, &tc.fake, fakeEC2{}, fakeIAM{}, "harbor").DeleteGroup(t.Context(), tc.g)
			if (err != nil) != tc.err || err != nil && inventory.ClassOf(err) != inventory.ClassRetry {
				t.Errorf("%s: error is %v", tc.reason, err)
			}
			if diff := cmp.Diff(tc.want, tc.fake.deleted); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}
