package nodegroup

import (
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/google/go-cmp/cmp"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// TestRefreshShowsWhatListShows, for the price of one call and one for each managed node group.
func TestRefreshShowsWhatListShows(t *testing.T) {
	l := newLab(t)
	l.group(t, "general", nil)
	l.group(t, "memory", nil)
	l.nodegroup(t, "system", nil)
	before := must[[]inventory.NodeGroup](t, "List")(l.port.List(t.Context(), "general", "memory"))
	i := slices.IndexFunc(before, func(g inventory.NodeGroup) bool { return g.Name == "general" })
	must[any](t, "ending one")(nil, l.port.EndInstances(t.Context(), "general", []string{before[i].Instances[0].ID}))
	must[any](t, "suspending")(nil, l.port.SuspendProcesses(t.Context(), "general", []string{"Launch"}))
	must[*autoscaling.DeleteAutoScalingGroupOutput](t, "deleting")(l.asg.DeleteAutoScalingGroup(t.Context(), &autoscaling.DeleteAutoScalingGroupInput{AutoScalingGroupName: aws.String("memory"), ForceDelete: aws.Bool(true)}))
	l.settle()
	l.sim.Advance(time.Minute)

	_, seq := l.calls(t, 0)
	got := must[[]inventory.NodeGroup](t, "Refresh")(l.port.Refresh(t.Context(), before))
	calls, _ := l.calls(t, seq)
	if diff := cmp.Diff(map[string]int{"autoscaling.DescribeAutoScalingGroups": 1, "eks.DescribeNodegroup": 1}, calls); diff != "" {
		t.Errorf("a call for each group is too many (-want +got)\n%s", diff)
	}
	want := must[[]inventory.NodeGroup](t, "List")(l.port.List(t.Context(), "general"))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("it is not as List shows it (-want +got)\n%s", diff)
	}
	if len(before) != 3 || !before[i].Instances[0].InService() {
		t.Error("what was listed before has changed")
	}
}

func TestRefreshOfAManagedNodeGroupThatIsGone(t *testing.T) {
	l := newLab(t)
	l.nodegroup(t, "system", nil)
	before := must[[]inventory.NodeGroup](t, "List")(l.port.List(t.Context()))
	must[*eks.DeleteNodegroupOutput](t, "deleting")(l.eks.DeleteNodegroup(t.Context(), &eks.DeleteNodegroupInput{ClusterName: aws.String("harbor"), NodegroupName: aws.String("system")}))
	for range 60 {
		l.sim.Advance(10 * time.Second)
	}
	if got, err := l.port.Refresh(t.Context(), before); err != nil || len(got) != 0 {
		t.Errorf("want it left out, got %+v, %v", got, err)
	}
}
