package controllers

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/plan"
)

// actionTypes are the types in pkg/plan that are an Action: those with the marker method. They are read from the source, so
// that a new one without a case here fails.
func actionTypes(t *testing.T) []string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "../pkg/plan/action.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Name.Name != "action" || fn.Recv == nil {
			continue
		}
		if id, ok := fn.Recv.List[0].Type.(*ast.Ident); ok {
			out = append(out, id.Name)
		}
	}
	if len(out) < 20 {
		t.Fatalf("only %d actions found: the marker method has another name", len(out))
	}
	return out
}

// ready is a world in which every effect can be made.
func ready(t *testing.T) (*world, *Reconciler) {
	t.Helper()
	w := newWorld(t)
	w.snapshot = &inventory.Snapshot{}
	w.ca.Replicas, w.ca.StatusReplicas, w.ca.Pods = 0, 0, 0
	w.engine.NodePools = []karpv1.NodePool{{ObjectMeta: metav1.ObjectMeta{Name: "general", Labels: map[string]string{v1alpha1.LabelPool: "general"}}}}
	w.groups["general"].Min = 0
	w.pods["i-general-0"] = 0
	w.ca.LeaseHolder, w.scaler.leads = "", false
	apply(t, w, func(m *v1alpha1.Migration) { m.Spec.ApprovedSteps = []v1alpha1.ApprovalStep{v1alpha1.ApproveDelete} })
	r := w.reconciler()
	r.Observer.turnTo("test", v1alpha1.Provisioner{})
	return w, r
}

func TestEveryActionReachesOnePort(t *testing.T) {
	cases := map[string]struct {
		reason string
		action plan.Action
		want   string
	}{
		"SaveSnapshot":             {"the way back", plan.SaveSnapshot{Snapshot: &inventory.Snapshot{}}, "Save"},
		"MarkNode":                 {"by annotation", plan.MarkNode{Node: "i-general-0", Pool: "general"}, "Mark"},
		"EnsureNodeClass":          {"Karpenter's", plan.EnsureNodeClass{NodeClass: &awsv1.EC2NodeClass{}}, "EnsureNodeClass"},
		"StartCanary":              {"a trial", plan.StartCanary{Target: inventory.Target{Pool: "general"}}, "StartCanary"},
		"MarkCanaryPassed":         {"its result", plan.MarkCanaryPassed{Pool: "general", Hash: "h"}, "MarkCanaryPassed"},
		"EndCanary":                {"its end", plan.EndCanary{Pool: "general"}, "EndCanary"},
		"HoldLease":                {"a second proof", plan.HoldLease{}, "HoldLease"},
		"RetakeLease":              {"the same, counted", plan.RetakeLease{}, "HoldLease"},
		"StripLeftovers":           {"Cluster Autoscaler's taints", plan.StripLeftovers{Node: "i-general-0"}, "StripLeftovers"},
		"EnsureNodePool":           {"Karpenter's", plan.EnsureNodePool{NodePool: &karpv1.NodePool{}}, "EnsureNodePool"},
		"FenceNode":                {"in one patch", plan.FenceNode{Node: "i-general-0", Pool: "general"}, "Fence"},
		"BeginDrain":               {"the mark comes first", plan.BeginDrain{Node: "i-general-0"}, "Begin"},
		"WarmNode":                 {"room comes before the first eviction", plan.WarmNode{Node: "i-general-0", Pool: "general"}, "Warm"},
		"DropPlaceholders":         {"room that nobody needs", plan.DropPlaceholders{Names: []string{"i-none/0"}}, "Drop"},
		"EvictPods":                {"one pass", plan.EvictPods{Node: "i-none", Pool: "general"}, "Pass"},
		"StopAutoscaler":           {"to 0", plan.StopAutoscaler{}, "Stop"},
		"InstallCRDs":              {"of Karpenter", plan.InstallCRDs{}, "ApplyCRDs"},
		"InstallEngine":            {"by Helm", plan.InstallEngine{}, "Apply"},
		"EnsureInterruption":       {"queue and rules", plan.EnsureInterruption{}, "EnsureInterruption"},
		"EnsureIdentity":           {"roles", plan.EnsureIdentity{}, "EnsureIdentity"},
		"DisablePolicies":          {"kept for their alarms", plan.DisablePolicies{Group: inventory.NodeGroup{AutoScalingGroup: "general"}, Names: []string{"cpu"}}, "DisablePolicies"},
		"DeleteScheduledActions":   {"the snapshot has them", plan.DeleteScheduledActions{Group: "general", Names: []string{"night"}}, "DeleteScheduledActions"},
		"SuspendProcesses":         {"never Terminate", plan.SuspendProcesses{Group: "general", Processes: []string{"Launch"}}, "SuspendProcesses"},
		"HideGroup":                {"from Cluster Autoscaler", plan.HideGroup{Group: "general", Keys: []string{"k8s.io/cluster-autoscaler/enabled"}}, "HideGroup"},
		"ShowGroup":                {"to it again", plan.ShowGroup{Group: "general"}, "ShowGroup"},
		"SetRebalance":             {"off", plan.SetRebalance{Group: "eks-batch"}, "SetCapacityRebalance"},
		"SetLifetime":              {"for ever", plan.SetLifetime{Group: "general"}, "SetMaxInstanceLifetime"},
		"SetGroupSize":             {"absolute", plan.SetGroupSize{Group: inventory.NodeGroup{AutoScalingGroup: "general"}, Max: 10, Desired: 3}, "SetSize"},
		"ReleaseNode":              {"what castoff did is undone", plan.ReleaseNode{Node: "i-general-0"}, "Release"},
		"HoldNode":                 {"until its pods are back", plan.HoldNode{Node: "i-general-0", Pool: "general"}, "Hold"},
		"RestoreNode":              {"as it was recorded", plan.RestoreNode{Node: "i-general-0", Pool: "general", From: inventory.NodeSnapshot{Name: "old"}}, "Restore"},
		"UnmarkNode":               {"the last thing", plan.UnmarkNode{Node: "i-general-0"}, "Unmark"},
		"CordonNode":               {"Karpenter's, on the way back", plan.CordonNode{Node: "i-general-0"}, "Cordon"},
		"LetGoLease":               {"Cluster Autoscaler may have it", plan.LetGoLease{}, "LetGoLease"},
		"EndNodeClaim":             {"after a last look", plan.EndNodeClaim{NodeClaim: "none", Node: "i-general-0"}, "DeleteNodeClaim"},
		"DeleteNodePool":           {"without nodes", plan.DeleteNodePool{NodePool: "none"}, "DeleteNodePool"},
		"DeleteNodeClass":          {"unused", plan.DeleteNodeClass{NodeClass: "none"}, "DeleteNodeClass"},
		"StartAutoscaler":          {"as many as there were", plan.StartAutoscaler{Replicas: 1}, "Start"},
		"DeleteAutoscaler":         {"stopped for good", plan.DeleteAutoscaler{}, "DeleteAutoscaler"},
		"DeleteTerminationHandler": {"the queue does its work", plan.DeleteTerminationHandler{}, "DeleteTerminationHandler"},
		"UninstallEngine":          {"by Helm", plan.UninstallEngine{}, "Uninstall"},
		"RemoveCRDs":               {"of Karpenter", plan.RemoveCRDs{}, "RemoveCRDs"},
		"RemoveInterruption":       {"queue and rules", plan.RemoveInterruption{}, "RemoveInterruption"},
		"RemoveIdentity":           {"roles", plan.RemoveIdentity{}, "RemoveIdentity"},
		"EnablePolicies":           {"as they are now", plan.EnablePolicies{Recorded: inventory.NodeGroup{AutoScalingGroup: "general"}, Names: []string{"cpu"}}, "EnablePolicies"},
		"PutScheduledActions":      {"from the record", plan.PutScheduledActions{Group: "general", Actions: []inventory.ScheduledAction{{Name: "day"}}}, "PutScheduledActions"},
		"ResumeProcesses":          {"only castoff's", plan.ResumeProcesses{Group: "general", Processes: []string{"Launch"}}, "ResumeProcesses"},
		"DeletePolicies":           {"with their group", plan.DeletePolicies{Group: "general", Names: []string{"cpu"}}, "DeletePolicies"},
		"DeleteGroup":              {"when nothing is left", plan.DeleteGroup{Group: inventory.NodeGroup{AutoScalingGroup: "general"}}, "DeleteGroup"},
		"EndInstances":             {"after a last look", plan.EndInstances{Group: "general", IDs: []string{"i-general-0"}}, "EndInstances"},
	}
	for _, name := range actionTypes(t) {
		if _, ok := cases[name]; !ok {
			t.Errorf("plan.%s has no case here: does it have one in act.go?", name)
		}
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w, r := ready(t)
			if name == "UninstallEngine" || name == "RemoveCRDs" {
				w.engine = inventory.Engine{} // the last of Karpenter's objects went before
			}
			nodes, err := r.Observer.nodes(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			results := r.act(t.Context(), get(t, w), plan.World{Nodes: nodes}, []plan.Action{tc.action})
			if err := results[0].err; err != nil {
				t.Errorf("%s: %v", tc.reason, err)
			}
			if got := actionName(tc.action); got != name {
				t.Errorf("the case %s makes a %s", name, got)
			}
			if diff := cmp.Diff(map[string]int{tc.want: 1}, w.calls); diff != "" {
				t.Errorf("%s: calls (-want +got)\n%s", tc.reason, diff)
			}
			if len(w.broken) > 0 {
				t.Errorf("%s: %v", tc.reason, w.broken)
			}
		})
	}
}

// TestActionsChangeWhatTheySay looks at the values that reach the ports, where they are castoff's own and not the action's.
func TestActionsChangeWhatTheySay(t *testing.T) {
	w, r := ready(t)
	w.groups["general"].MaxInstanceLifetime = 86400
	m := get(t, w)
	results := r.act(t.Context(), m, plan.World{}, []plan.Action{
		plan.SetRebalance{Group: "eks-batch"}, plan.SetLifetime{Group: "general"}, plan.HoldLease{},
		plan.SaveSnapshot{Snapshot: &inventory.Snapshot{}}, plan.EvictPods{Node: "i-none"},
	})
	if w.groups["batch"].CapacityRebalance || w.groups["general"].MaxInstanceLifetime != 0 {
		t.Error("Capacity Rebalancing is on or instances have a maximum lifetime")
	}
	if w.ca.LeaseHolder != v1alpha1.LeaseIdentity {
		t.Errorf("the Lease is held by %q", w.ca.LeaseHolder)
	}
	if results[3].snapshot != testSHA {
		t.Errorf("digest of the snapshot %q, want %q", results[3].snapshot, testSHA)
	}
	if results[4].drain == nil || results[4].drain.Node != "i-none" {
		t.Errorf("what the pass left is %+v", results[4].drain)
	}
	want := metav1.OwnerReference{APIVersion: "castoff.sh/v1alpha1", Kind: "Migration", Name: "prod", UID: "uid-1"}
	got := ownerOf(m)
	got.Controller, got.BlockOwnerDeletion = nil, nil
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("owner (-want +got)\n%s", diff)
	}
}

func TestOneFailureStopsNoOtherAction(t *testing.T) {
	w, r := ready(t)
	w.hook = func(name string, after bool) error {
		if name == "ApplyCRDs" && !after {
			return errors.New("refused")
		}
		return nil
	}
	results := r.act(t.Context(), get(t, w), plan.World{}, []plan.Action{plan.InstallCRDs{}, plan.EnsureIdentity{}})
	if results[0].err == nil || results[1].err != nil {
		t.Errorf("results %v and %v, want an error and none", results[0].err, results[1].err)
	}
	if !w.identity.Ready {
		t.Error("the second action was not made")
	}
}

func TestNothingIsDoneAfterTheEndOfTheContext(t *testing.T) {
	w, r := ready(t)
	ctx, cancel := context.WithCancel(t.Context())
	w.hook = func(string, bool) error { cancel(); return nil }
	actions := []plan.Action{plan.InstallCRDs{}, plan.EnsureIdentity{}, plan.EnsureInterruption{}}
	results := r.act(ctx, get(t, w), plan.World{}, actions)
	if diff := cmp.Diff(map[string]int{"ApplyCRDs": 1}, w.calls); diff != "" {
		t.Errorf("calls (-want +got)\n%s", diff)
	}
	for _, res := range results[1:] {
		if !errors.Is(res.err, context.Canceled) {
			t.Errorf("%s: %v, want %v", actionName(res.action), res.err, context.Canceled)
		}
	}
}

// stranger is an action that the switch does not know: it borrows the marker method.
type stranger struct{ plan.Action }

func TestUnknownActionIsTerminal(t *testing.T) {
	w, r := ready(t)
	err := r.do(t.Context(), &v1alpha1.Migration{}, plan.World{}, stranger{}, &result{})
	if inventory.ClassOf(err) != inventory.ClassTerminal || !strings.Contains(err.Error(), "stranger") {
		t.Errorf("error %v (%s), want a terminal one that names the action", err, inventory.ClassOf(err))
	}
	if len(w.calls) > 0 {
		t.Errorf("calls %v", w.calls)
	}
}

func TestEndDrained(t *testing.T) {
	cases := map[string]struct {
		reason string
		pods   map[string]int
		state  error
		ids    []string
		want   string
		ends   bool
	}{
		"Empty":      {reason: "nothing evictable is left", pods: map[string]int{"i-general-0": 0}, ids: []string{"i-general-0"}, ends: true},
		"CameBack":   {reason: "a pod was bound to the node since the look", pods: map[string]int{"i-general-0": 1}, ids: []string{"i-general-0"}, want: "1 evictable pods again"},
		"OneOfTwo":   {reason: "one call ends both or none", pods: map[string]int{"i-general-0": 0, "i-general-1": 2}, ids: []string{"i-general-0", "i-general-1"}, want: "i-general-1 has 2 evictable pods again"},
		"NoNode":     {reason: "an instance that never became a node holds no pod", ids: []string{"i-general-2"}, ends: true},
		"Gone":       {reason: "one that the group has no more was ended by somebody", ids: []string{"i-stray"}},
		"CannotLook": {reason: "what cannot be seen is not ended", pods: map[string]int{"i-general-0": 0}, state: errors.New("timeout"), ids: []string{"i-general-0"}, want: "timeout"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w, r := ready(t)
			w.removeNode("i-general-2")
			for node, n := range tc.pods {
				w.pods[node] = n
			}
			w.c.refuse = func(string, any) error { return tc.state }
			err := r.endDrained(t.Context(), plan.EndInstances{Group: "general", IDs: tc.ids})
			if got := errorText(err); tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
				t.Errorf("%s: error %q, want %q", tc.reason, got, tc.want)
			}
			if got := w.calls["EndInstances"] == 1; got != tc.ends {
				t.Errorf("%s: ended %t, want %t", tc.reason, got, tc.ends)
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestActionNamesAreWords: they are the label of a metric and the object of a blocker.
func TestActionNamesAreWords(t *testing.T) {
	names := actionTypes(t)
	if slices.Contains(names, "") {
		t.Error("an action without a name")
	}
	if got := actionName(plan.HoldLease{Lease: types.NamespacedName{Name: "x"}}); got != "HoldLease" {
		t.Errorf("name %q", got)
	}
	if got := poolOf(plan.EvictPods{Pool: "general"}); got != "general" {
		t.Errorf("pool %q", got)
	}
	if got := poolOf(plan.EndInstances{Group: "general"}); got != "" {
		t.Errorf("pool %q of an action that has none", got)
	}
}
