package plan

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

func failed(op v1alpha1.Operation) v1alpha1.Operation {
	op.Error = "RequestTimeout"
	return op
}

func TestLedgerAdmits(t *testing.T) {
	suspend := SuspendProcesses{Group: "general", Processes: []string{processLaunch}}
	end := EndInstances{Group: "general", IDs: []string{"i-2"}}
	cases := map[string]struct {
		reason string
		ledger ledger
		action Ledgered
		want   bool
	}{
		"Empty":              {"nothing is under way", nil, suspend, true},
		"Pending":            {"the same effect is under way", ledger{operation("SuspendLaunch/general", processLaunch, patience-time.Second)}, suspend, false},
		"OtherKindPending":   {"one change of a group at a time, whatever kind it is", ledger{operation("SetGroupSize/general", "0/10/3", 0)}, suspend, false},
		"OtherGroupPending":  {"another group's change does not hold this one", ledger{operation("SetGroupSize/eks-batch", "0/10/3", 0)}, suspend, true},
		"Closed":             {"what is seen in the world is over", ledger{closed(operation("SetGroupSize/general", "0/10/3", 0))}, suspend, true},
		"PatienceIsOver":     {"reads lag by seconds; after 15 it is asked for again", ledger{operation("SetGroupSize/general", "0/10/3", patience)}, suspend, true},
		"Failed":             {"an absolute target whose call failed is repeated at once", ledger{failed(operation("SetGroupSize/general", "0/10/3", 0))}, suspend, true},
		"EndPending":         {"ending instances is waited for longer", ledger{operation("EndInstances/general", "i-1", endPatience-time.Second)}, end, false},
		"EndFailed":          {"an error may follow an effect: it never shortens the wait of what a repetition would double", ledger{failed(operation("EndInstances/general", "i-1", endPatience-time.Second))}, end, false},
		"EndFailedHoldsAll":  {"nor does it for another change of that group", ledger{failed(operation("EndInstances/general", "i-1", patience))}, suspend, false},
		"EndPatienceIsOver":  {"after a minute the reads tell the truth", ledger{operation("EndInstances/general", "i-1", endPatience)}, end, true},
		"WithoutAStart":      {"an entry that somebody made by hand holds nothing", ledger{{ID: "SetGroupSize/general"}}, suspend, true},
		"PrefixIsNoTarget":   {"names are compared whole", ledger{operation("SetGroupSize/general-a", "0/10/3", 0)}, suspend, true},
		"SlashInTheTarget":   {"a Deployment's name has a slash", ledger{operation("StopAutoscaler/kube-system/ca", "0", 0)}, StopAutoscaler{Autoscaler: anAutoscaler("ca")}, false},
		"OtherDeploymentRan": {"two Cluster Autoscalers are stopped side by side", ledger{operation("StopAutoscaler/kube-system/ca", "0", 0)}, StopAutoscaler{Autoscaler: anAutoscaler("cb")}, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := tc.ledger.admit(tc.action, noon); got != tc.want {
				t.Errorf("%s: admit() = %v, want %v", tc.reason, got, tc.want)
			}
		})
	}
}

func TestLedgerRecords(t *testing.T) {
	reopened := operation("SetGroupSize/general", "0/0/0", 0)
	reopened.Attempts = 2
	other := operation("SetGroupSize/eks-batch", "0/10/2", time.Minute)
	cases := map[string]struct {
		reason string
		ledger ledger
		want   ledger
	}{
		"First":    {"a new entry begins at one attempt", ledger{other}, ledger{other, reopenedAs(reopened, 1)}},
		"Closed":   {"an entry of the same kind and target is opened again, and counted where what was seen is set back", ledger{closed(operation("SetGroupSize/general", "0/0/2", time.Hour)), other}, ledger{other, reopened}},
		"MovedOn":  {"castoff's own next target is no fight", ledger{closed(operation("SetGroupSize/general", "0/10/3", time.Hour)), other}, ledger{other, reopenedAs(reopened, 1)}},
		"LongAgo":  {"nor is one a day: it is the first time again", ledger{reopenedAs(closed(operation("SetGroupSize/general", "0/0/0", time.Hour+time.Second)), 4), other}, ledger{other, reopenedAs(reopened, 2)}},
		"Lost":     {"an effect that was never seen may have been set back before it could be", ledger{operation("SetGroupSize/general", "0/0/3", time.Minute)}, ledger{reopenedAs(reopened, 2)}},
		"Failed":   {"a call that failed is repeated, and its error is not kept", ledger{failed(operation("SetGroupSize/general", "0/0/0", time.Hour))}, ledger{reopenedAs(reopened, 1)}},
		"OtherKey": {"another kind on the same group is another entry", ledger{closed(operation("EndInstances/general", "i-1", 0))}, ledger{closed(operation("EndInstances/general", "i-1", 0)), reopenedAs(reopened, 1)}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.ledger.record("SetGroupSize/general", "0/0/0", noon)
			if diff := cmp.Diff(tc.want, tc.ledger); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func reopenedAs(op v1alpha1.Operation, attempts int32) v1alpha1.Operation {
	op.Attempts = attempts
	return op
}

// entries are n entries, oldest first.
func entries(n int, make func(v1alpha1.Operation) v1alpha1.Operation) ledger {
	var l ledger
	for i := range n {
		l = append(l, make(operation(fmt.Sprintf("SetGroupSize/group-%d", i), "0/10/1", 0)))
	}
	return l
}

func asIs(op v1alpha1.Operation) v1alpha1.Operation { return op }

func lost(op v1alpha1.Operation) v1alpha1.Operation {
	start := *stamp(noon.Add(-time.Hour))
	op.StartTime = &start
	return op
}

func TestLedgerIsBounded(t *testing.T) {
	cases := map[string]struct {
		reason string
		ledger ledger
		full   bool
		first  string // the oldest entry after one more was recorded
	}{
		"Room":          {"nothing is forgotten while there is room", entries(ledgerSize-1, closed), false, "SetGroupSize/group-0"},
		"OldestClosed":  {"the oldest closed entry makes room", entries(ledgerSize, closed), false, "SetGroupSize/group-1"},
		"StopIsKept":    {"how often Cluster Autoscaler was stopped decides whether it is stopped again", append(ledger{stops(1)}, entries(ledgerSize-1, closed)...), false, "StopAutoscaler/kube-system/cluster-autoscaler"},
		"PendingIsKept": {"what is under way is kept", append(entries(1, asIs), entries(ledgerSize-1, closed)...), false, "SetGroupSize/group-0"},
		"AllPending":    {"with twenty under way nothing more is asked for", entries(ledgerSize, asIs), true, ""},
		"PendingAndStop": {"a stop takes its place for good", append(ledger{stops(1)}, entries(ledgerSize-1, asIs)...), true,
			""},
		"AllLost":   {"twenty effects that a crash kept from being made must not stop the migration for ever", entries(ledgerSize, lost), false, "SetGroupSize/group-1"},
		"AllFailed": {"nor must twenty that failed keep the next group from its turn", entries(ledgerSize, failed), false, "SetGroupSize/group-1"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := tc.ledger.full(noon); got != tc.full {
				t.Fatalf("%s: full() = %v, want %v", tc.reason, got, tc.full)
			}
			if tc.full {
				return
			}
			tc.ledger.record("SetGroupSize/new", "0/0/0", noon)
			if len(tc.ledger) > ledgerSize {
				t.Errorf("%s: %d entries, at most %d are allowed in the status", tc.reason, len(tc.ledger), ledgerSize)
			}
			if tc.ledger[0].ID != tc.first {
				t.Errorf("%s: the oldest entry is %s, want %s", tc.reason, tc.ledger[0].ID, tc.first)
			}
		})
	}
}

func TestLedgerAttempts(t *testing.T) {
	l := ledger{stops(2), operation("SetGroupSize/general", "0/0/0", 0)}
	for target, want := range map[string]int32{"kube-system/cluster-autoscaler": 2, "kube-system/other": 0} {
		if got := l.attempts(kindStopAutoscaler, target); got != want {
			t.Errorf("attempts(%s) = %d, want %d: each Deployment has its own count", target, got, want)
		}
	}
}

func TestLedgerOldestPending(t *testing.T) {
	cases := map[string]struct {
		reason string
		ledger ledger
		want   string
	}{
		"Nothing": {"nothing is waited for", nil, ""},
		"Closed":  {"what was seen is not waited for", entries(2, closed), ""},
		"Oldest":  {"the one that waits longest is named", ledger{operation("SetGroupSize/a", "", time.Second), operation("SetGroupSize/b", "", 5*time.Second)}, "SetGroupSize/b"},
		"Expired": {"what is no longer waited for, and was not asked for again, holds nobody", ledger{operation("SetGroupSize/a", "", time.Hour)}, ""},
		"ByHand":  {"an entry without a start is none of castoff's", ledger{{ID: "SetGroupSize/a"}, {ID: "SetGroupSize/b"}}, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			op, ok := tc.ledger.oldestPending(noon)
			if op.ID != tc.want || ok != (tc.want != "") {
				t.Errorf("%s: oldestPending() = %q, %v, want %q", tc.reason, op.ID, ok, tc.want)
			}
		})
	}
}

func TestLedgerCloses(t *testing.T) {
	pendingOp := failed(operation("SetGroupSize/general", "1/10/3", time.Second))
	before := []v1alpha1.Operation{pendingOp, operation("SetLifetime/general", "0", time.Second), operation("SetGroupSize/eks-batch", "0/0/0", time.Second)}
	w := aWorld().withGroup("general", func(g *inventory.NodeGroup) { g.MaxInstanceLifetime = 1 }).build()
	got := openLedger(before, w, noon)
	seen := operation("SetGroupSize/general", "1/10/3", time.Second)
	seen.DoneTime = stamp(noon)
	if diff := cmp.Diff(ledger{seen, before[1], before[2]}, got); diff != "" {
		t.Errorf("an entry closes, and forgets its error, when the world shows its effect: -want, +got:\n%s", diff)
	}
	if before[0].DoneTime != nil || before[0].Error == "" {
		t.Error("the status that was read must not change")
	}
}

func TestVisible(t *testing.T) {
	scaled := func() *scene { return aWorld().scaled("general", "cpu", "night") }
	stopping := aWorld().withAutoscaler(func(a *inventory.Autoscaler) { a.Replicas = 0 })
	cases := map[string]struct {
		reason     string
		id, detail string
		before     *scene
		after      *scene
	}{
		"Interruption": {"the queue and all its rules are there", "EnsureInterruption/interruption", "", aWorld(), aWorld().awsReady()},
		"Identity":     {"roles, association and access are there", "EnsureIdentity/identity", "", aWorld(), aWorld().awsReady()},
		"CRDs":         {"every definition is current", "InstallCRDs/engine", "", aWorld(), aWorld().engineRunning()},
		"Engine":       {"the release is current; its pods are waited for elsewhere", "InstallEngine/engine", "", aWorld(), aWorld().engineRunning()},
		"Stop":         {"no replica is asked for; its pods are waited for elsewhere", "StopAutoscaler/kube-system/cluster-autoscaler", "0", aWorld(), stopping},
		"StopGone":     {"a Deployment that is gone is stopped", "StopAutoscaler/kube-system/cluster-autoscaler", "0", aWorld(), aWorld().with(func(w *World) { w.Autoscalers = nil })},
		"Policies":     {"none of the named policies is active", "DisablePolicies/general", "cpu", scaled(), scaled().prepared()},
		"PolicyGone":   {"a policy that somebody deleted acts no more", "DisablePolicies/general", "cpu", scaled(), aWorld()},
		"Schedules":    {"none of the named actions is there", "DeleteScheduledActions/general", "night", scaled(), aWorld()},
		"Processes":    {"every named process is suspended", "SuspendProcesses/general", allQuiet, aWorld(), aWorld().quiet()},
		"Rebalance":    {"it is off", "SetRebalance/general", "false", aWorld().withGroup("general", func(g *inventory.NodeGroup) { g.CapacityRebalance = true }), aWorld()},
		"Lifetime":     {"it is unlimited", "SetLifetime/general", "0", aWorld().withGroup("general", func(g *inventory.NodeGroup) { g.MaxInstanceLifetime = 60 }), aWorld()},
		"Sizes":        {"all three are as asked", "SetGroupSize/general", "0/10/3", aWorld(), aWorld().shifting()},
		"Ended": {"none of the instances is in service", "EndInstances/general", "i-general-0:i-general-1", aWorld().withGroup("general", func(g *inventory.NodeGroup) {
			g.Instances[0].Lifecycle = "Terminating"
		}), aWorld().withGroup("general", func(g *inventory.NodeGroup) {
			g.Instances[0].Lifecycle, g.Instances[1].Lifecycle = "Terminating:Wait", "Terminating"
		})},
		"Start":         {"a replica is asked for; its leading is waited for elsewhere", "StartAutoscaler/kube-system/cluster-autoscaler", "1", stopping, aWorld()},
		"Uninstall":     {"the release is gone", "UninstallEngine/engine", "", aWorld().engineRunning(), aWorld()},
		"CRDsGone":      {"none of castoff's definitions is there", "RemoveCRDs/engine", "", aWorld().engineRunning(), aWorld()},
		"QueueGone":     {"nothing of castoff's is there; what it adopted may be", "RemoveInterruption/interruption", "", aWorld().awsReady(), aWorld()},
		"RolesGone":     {"nothing of castoff's is there", "RemoveIdentity/identity", "", aWorld().awsReady(), aWorld()},
		"Enabled":       {"the named policies are active", "EnablePolicies/general", "cpu", scaled().prepared(), scaled()},
		"EnabledGone":   {"a policy that somebody deleted cannot be waited for", "EnablePolicies/general", "cpu", scaled().prepared(), aWorld()},
		"SchedulesBack": {"every named action is there", "PutScheduledActions/general", "night", aWorld(), scaled()},
		"Launch":        {"Launch is suspended", "SuspendLaunch/general", "Launch", aWorld(), aWorld().shifting()},
		"LaunchResumed": {"Launch is not suspended", "ResumeLaunch/general", "Launch", aWorld().shifting(), aWorld()},
		"Resumed": {"none of the named processes is suspended", "ResumeProcesses/general", "Launch:AZRebalance", aWorld().withGroup("general", func(g *inventory.NodeGroup) {
			g.SuspendedProcesses = []string{"AZRebalance"}
		}), aWorld()},
		"RebalanceOn":       {"it is on", "SetRebalance/general", "true", aWorld(), aWorld().withGroup("general", func(g *inventory.NodeGroup) { g.CapacityRebalance = true })},
		"PoliciesGone":      {"none of the named policies is there", "DeletePolicies/general", "cpu", scaled().prepared(), aWorld()},
		"GroupDeleted":      {"the group is gone", "DeleteGroup/general", "", aWorld(), aWorld().with(func(w *World) { w.Groups = nil })},
		"AutoscalerDeleted": {"the Deployment is gone", "DeleteAutoscaler/kube-system/cluster-autoscaler", "", aWorld(), aWorld().with(func(w *World) { w.Autoscalers = nil })},
		"GroupGone":         {"a group that is gone has every effect", "SetGroupSize/general", "0/0/0", aWorld(), aWorld().with(func(w *World) { w.Groups = nil })},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			op := operation(tc.id, tc.detail, 0)
			if visible(op, tc.before.build()) {
				t.Errorf("%s: visible before it was made", tc.reason)
			}
			if !visible(op, tc.after.build()) {
				t.Errorf("%s: not visible after it was made", tc.reason)
			}
		})
	}
	if visible(operation("DeleteAutoscaler/kube-system/cluster-autoscaler", "", 0), stopping.build()) {
		t.Error("a Deployment at 0 is still there")
	}
	if visible(operation("Somersault/general", "", 0), aWorld().build()) {
		t.Error("an effect of a kind that this castoff does not know cannot be seen")
	}
}

func TestLedgerInNext(t *testing.T) {
	run(t, map[string]step{
		"Waits": {
			reason:    "an effect that is not visible yet is waited for, and named",
			migration: aMigration().ledger(operation("SuspendLaunch/general", processLaunch, time.Second)),
			world:     aWorld().handedOver().withGroup("general", func(g *inventory.NodeGroup) { g.Min = 0 }),
			want:      decided{phase: v1alpha1.PhaseShifting, blockers: []string{"Wait EffectNotVisible SuspendLaunch/general"}},
		},
		"OthersGoOn": {
			reason:    "only that group waits",
			migration: aMigration().ledger(operation("SuspendProcesses/general", "AZRebalance", time.Second)),
			world:     aWorld().engineInstalled(),
			want:      hands([]string{"SuspendProcesses eks-batch " + allQuiet}),
		},
		"AsksAgain": {
			reason:    "a crash between the entry and the call loses the effect; after 15 s it is asked for again",
			migration: aMigration().ledger(operation("SuspendLaunch/general", processLaunch, patience)),
			world:     aWorld().handedOver().withGroup("general", func(g *inventory.NodeGroup) { g.Min = 0 }),
			want:      decided{phase: v1alpha1.PhaseShifting, actions: []string{"SuspendProcesses general Launch"}},
		},
		"ForgottenIntention": {
			reason:    "an effect that was overtaken by somebody else's change, and that nobody wants any more, does not keep a migration from its end",
			migration: aMigration().soak(0).ledger(operation("SetGroupSize/general", "0/10/3", time.Hour)),
			world:     aWorld().completed(),
			want:      decided{phase: v1alpha1.PhaseCompleted},
		},
		"FailedStop": {
			reason: "a call to stop Cluster Autoscaler that failed did not stop it: it is no reason to call its start a fight",
			migration: aMigration().ledger(failed(reopenedAs(operation("StopAutoscaler/kube-system/cluster-autoscaler", "0", time.Second),
				failedStops(5)))),
			world: aWorld().quiet(),
			want:  hands([]string{"StopAutoscaler kube-system/cluster-autoscaler 0"}, "Wait AutoscalerRunning "+caObject),
		},
	})
}

// failedStops returns the attempts that the ledger counts after so many calls in a row that failed.
func failedStops(calls int) int32 {
	var l ledger
	for range calls {
		l.record("StopAutoscaler/kube-system/cluster-autoscaler", "0", noon)
		l[0].Error = "conflict"
	}
	return l[0].Attempts
}

// TestOpposites: flipping a pause many times is no fight with anybody.
func TestOpposites(t *testing.T) {
	const stop, start = "StopAutoscaler/kube-system/ca", "StartAutoscaler/kube-system/ca"
	cases := map[string]struct {
		reason string
		asked  []string
		want   []string // what is remembered, with the attempts
	}{
		"Stop":       {"one stop", []string{stop}, []string{stop + " 1"}},
		"StopTwice":  {"two stops in a row: somebody started it", []string{stop, stop}, []string{stop + " 2"}},
		"Back":       {"a start ends the count of stops", []string{stop, stop, start}, []string{start + " 1"}},
		"Forth":      {"and a stop that of starts", []string{start, start, stop}, []string{stop + " 1"}},
		"Flips":      {"however often", []string{stop, start, stop, start, stop}, []string{stop + " 1"}},
		"OtherOne":   {"each Deployment for itself", []string{"StopAutoscaler/kube-system/cb", stop, start}, []string{"StopAutoscaler/kube-system/cb 1", start + " 1"}},
		"NoOpposite": {"sizes have none: they are absolute", []string{"SetGroupSize/general", "EndInstances/general"}, []string{"SetGroupSize/general 1", "EndInstances/general 1"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var l ledger
			for _, id := range tc.asked {
				l.record(id, "", noon)
				l[len(l)-1].DoneTime = stamp(noon)
			}
			var got []string
			for _, op := range l {
				got = append(got, fmt.Sprintf("%s %d", op.ID, op.Attempts))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}
