package plan

import (
	"slices"
	"strings"
	"testing"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

func TestEntries(t *testing.T) {
	g := inventory.NodeGroup{Name: "batch", AutoScalingGroup: "eks-batch"}
	cases := map[string]struct {
		reason string
		action Ledgered
		want   string
	}{
		"Policies":     {"names may hold spaces and commas, but no colon", DisablePolicies{Group: g, Names: []string{"scale, out", "in"}}, "DisablePolicies/eks-batch scale, out:in"},
		"Schedules":    {"by name", DeleteScheduledActions{Group: "eks-batch", Names: []string{"night", "day"}}, "DeleteScheduledActions/eks-batch night:day"},
		"Interruption": {"there is one of it", EnsureInterruption{}, "EnsureInterruption/interruption "},
		"Identity":     {"there is one of it", EnsureIdentity{}, "EnsureIdentity/identity "},
		"CRDs":         {"the definitions and the release are one thing after the other", InstallCRDs{}, "InstallCRDs/engine "},
		"Engine":       {"the definitions and the release are one thing after the other", InstallEngine{}, "InstallEngine/engine "},
		"Processes":    {"by name", SuspendProcesses{Group: "eks-batch", Processes: []string{"Launch", "AZRebalance"}}, "SuspendProcesses/eks-batch Launch:AZRebalance"},
		"Rebalance":    {"on or off", SetRebalance{Group: "eks-batch"}, "SetRebalance/eks-batch false"},
		"Lifetime":     {"in seconds", SetLifetime{Group: "eks-batch", Seconds: 86400}, "SetLifetime/eks-batch 86400"},
		"Stop":         {"a Deployment by its namespace too", StopAutoscaler{Autoscaler: anAutoscaler("ca")}, "StopAutoscaler/kube-system/ca 0"},
		"Retake":       {"a Lease is told from a group of that name", RetakeLease{Lease: anAutoscaler("ca").Lease}, "RetakeLease/lease/kube-system/ca "},
		"Size":         {"a managed node group's entry is that of its Auto Scaling group, so that one change is under way on it", SetGroupSize{Group: g, Min: 0, Max: 1, Desired: 7}, "SetGroupSize/eks-batch 0/1/7"},
		"Start":        {"as many as it had", StartAutoscaler{Autoscaler: anAutoscaler("ca"), Replicas: 2}, "StartAutoscaler/kube-system/ca 2"},
		"Enable":       {"by the group's own name", EnablePolicies{Recorded: g, Names: []string{"out", "in"}}, "EnablePolicies/eks-batch out:in"},
		"Put":          {"by name; what they are is in the snapshot", PutScheduledActions{Group: "eks-batch", Actions: []inventory.ScheduledAction{{Name: "night"}, {Name: "day"}}}, "PutScheduledActions/eks-batch night:day"},
		"Resume":       {"by name", ResumeProcesses{Group: "eks-batch", Processes: []string{"Launch", "AZRebalance"}}, "ResumeProcesses/eks-batch Launch:AZRebalance"},
		"Uninstall":    {"as its installation: one after the other", UninstallEngine{}, "UninstallEngine/engine "},
		"RemoveCRDs":   {"as their installation", RemoveCRDs{}, "RemoveCRDs/engine "},
		"RemoveQueue":  {"as its making", RemoveInterruption{}, "RemoveInterruption/interruption "},
		"RemoveRoles":  {"as their making", RemoveIdentity{}, "RemoveIdentity/identity "},
		"DeletePolicy": {"by name", DeletePolicies{Group: "eks-batch", Names: []string{"out", "in"}}, "DeletePolicies/eks-batch out:in"},
		"DeleteGroup":  {"a managed node group by that of its Auto Scaling group", DeleteGroup{Group: g}, "DeleteGroup/eks-batch "},
		"DeleteCA":     {"a Deployment by its namespace too", DeleteAutoscaler{Autoscaler: anAutoscaler("ca")}, "DeleteAutoscaler/kube-system/ca "},
		"End":          {"the ids, not their number: the entry is absolute even if the call is not", EndInstances{Group: "eks-batch", IDs: []string{"i-1", "i-2"}}, "EndInstances/eks-batch i-1:i-2"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			kind, target, detail := tc.action.Entry()
			if got := kind + "/" + target + " " + detail; got != tc.want {
				t.Errorf("%s: Entry() = %q, want %q", tc.reason, got, tc.want)
			}
			if want := strings.TrimPrefix(strings.Split(tell(tc.action), " ")[0], "plan."); kind != want {
				t.Errorf("an entry's kind is its action's name: %q, want %q", kind, want)
			}
		})
	}
}

func TestWhatFitsAnEntry(t *testing.T) {
	names := func(n, length int) []string { return slices.Repeat([]string{strings.Repeat("x", length)}, n) }
	cases := map[string]struct {
		reason string
		names  []string
		want   int
	}{
		"Few":       {"all of them", names(3, 19), 3},
		"Instances": {"as many ids as the API server takes in a detail", names(200, 19), 51},
		"LongNames": {"names of policies are up to 256 characters long", names(50, 256), 3},
		"None":      {"nothing is nothing", nil, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := fitting(tc.names)
			if _, _, detail := (EndInstances{IDs: got}).Entry(); len(got) != tc.want || len(detail) > detailSize {
				t.Errorf("%s: %d names in %d characters, want %d", tc.reason, len(got), len(detail), tc.want)
			}
		})
	}
}

// TestTheSetIsClosed: what changes the cluster's own objects is visible at once and needs no ledger; all else does.
func TestTheSetIsClosed(t *testing.T) {
	atOnce := []Action{
		SaveSnapshot{}, MarkNode{}, EnsureNodeClass{}, StartCanary{}, MarkCanaryPassed{}, EndCanary{}, HoldLease{}, StripLeftovers{},
		EnsureNodePool{}, FenceNode{}, BeginDrain{}, EvictPods{},
		ReleaseNode{}, HoldNode{}, RestoreNode{}, UnmarkNode{}, CordonNode{}, LetGoLease{}, EndNodeClaim{}, DeleteNodePool{}, DeleteNodeClass{},
		DeleteTerminationHandler{},
	}
	late := []Action{
		DisablePolicies{}, DeleteScheduledActions{}, EnsureInterruption{}, EnsureIdentity{}, InstallCRDs{}, InstallEngine{}, SuspendProcesses{},
		SetRebalance{}, SetLifetime{}, StopAutoscaler{}, SetGroupSize{}, EndInstances{},
		StartAutoscaler{}, EnablePolicies{}, PutScheduledActions{}, ResumeProcesses{}, UninstallEngine{}, RemoveCRDs{}, RemoveInterruption{}, RemoveIdentity{},
		DeletePolicies{}, DeleteGroup{}, DeleteAutoscaler{},
	}
	for _, a := range atOnce {
		a.action()
		if _, ok := a.(Ledgered); ok {
			t.Errorf("%T is visible at once", a)
		}
	}
	for _, a := range late {
		a.action()
		if _, ok := a.(Ledgered); !ok {
			t.Errorf("%T is visible late: it has to be in the ledger before it is made", a)
		}
	}
}
