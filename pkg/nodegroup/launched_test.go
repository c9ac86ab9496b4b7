package nodegroup

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/google/go-cmp/cmp"

	"github.com/castoff-sh/castoff/e2e/awssim/simapi"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// Instances that Karpenter launched outlive a NodeClaim whose finalizer was taken off: they are found by their tags alone.
func TestCase_C086_InstancesAreFoundByTheirTags(t *testing.T) {
	l := newLab(t)
	l.group(t, "general", nil) // Auto Scaling's are not Karpenter's
	l.karpenterElsewhere(t, 1) // nor are those of another cluster of the name
	cluster := must[inventory.Cluster](t, "Cluster")(l.port.Cluster(t.Context()))
	find := func(c inventory.Cluster) []string {
		t.Helper()
		return must[[]string](t, "LaunchedByKarpenter")(l.port.LaunchedByKarpenter(t.Context(), c))
	}
	if got := find(cluster); len(got) != 0 {
		t.Errorf("nothing was launched here, got %v", got)
	}
	l.karpenterAt(t, l.subnets[0], 3)
	l.settle()
	got := find(cluster)
	if len(got) != 3 || got[0] >= got[1] || got[1] >= got[2] {
		t.Fatalf("want three in order, got %v", got)
	}
	if all := find(inventory.Cluster{}); len(all) != 4 {
		t.Errorf("where the VPC is not known the name decides: want 4, got %v", all)
	}
	must[*ec2.TerminateInstancesOutput](t, "terminate")(l.ec2.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: got[:2]}))
	l.settle()
	if diff := cmp.Diff(got[2:], find(cluster)); diff != "" {
		t.Errorf("what was ended is no more: -want +got\n%s", diff)
	}
	l.fault(t, simapi.Fault{Service: "ec2", Operation: "DescribeInstances", Code: "UnauthorizedOperation", Status: 403})
	if _, err := l.port.LaunchedByKarpenter(t.Context(), cluster); inventory.ClassOf(err) != inventory.ClassTerminal {
		t.Errorf("want a terminal error, got %v", err)
	}
}
