package plan

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// everyStage is a world at each stage of a migration.
func everyStage() map[string]*scene {
	return map[string]*scene{
		"Fresh": aWorld(), "Blocked": aWorld().found(noRights), "SnapshotTaken": aWorld().snapshotTaken(), "Prepared": aWorld().prepared(),
		"Installed": aWorld().engineInstalled(), "Quiet": aWorld().quiet(), "Released": aWorld().released(), "Served": aWorld().served(),
		"HandedOver": aWorld().handedOver(), "Shifting": aWorld().shifting().draining("general-0", 2), "OneFinished": aWorld().shifting().finished("general"),
		"Halfway": aWorld().halfway(), "Returned": aWorld().returned(), "Leading": aWorld().leading(), "RolledBack": aWorld().rolledBack(), "Retired": aWorld().retired(),
		"Completed": aWorld().completed(), "Empty": {}, "TwoScalers": comesBack(itLeads),
	}
}

func TestAllConditionsAreAlwaysThere(t *testing.T) {
	for name, s := range everyStage() {
		for how, m := range map[string]migrationOf{"running": aMigration(), "paused": aMigration().paused(), "manual": aMigration().manual(), "back": aMigration().rollBack(), "retiring": retireNow()} {
			d := Next(m.build(), s.build(), noon)
			var kinds []string
			for _, c := range d.Conditions {
				kinds = append(kinds, c.Type)
				if c.Reason == "" || c.Message == "" || c.Status == metav1.ConditionUnknown || c.Status == "" {
					t.Errorf("%s, %s: condition %+v does not say what it knows", name, how, c)
				}
			}
			if diff := cmp.Diff(v1alpha1.ConditionTypes, kinds); diff != "" {
				t.Errorf("%s, %s: all nine conditions, in the order in which they are shown: -want, +got:\n%s", name, how, diff)
			}
		}
	}
}

// kstatus is Ready, Reconciling and Stalled as one word of T and F, and Ready's reason.
func kstatus(d Decision) string {
	var out strings.Builder
	for _, kind := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled} {
		out.WriteString(string(meta.FindStatusCondition(d.Conditions, kind).Status[0]))
	}
	return out.String() + " " + meta.FindStatusCondition(d.Conditions, v1alpha1.ConditionReady).Reason
}

func TestKstatus(t *testing.T) {
	bare := inventory.BlockedPod{Reason: inventory.BlockedBare}
	cases := map[string]struct {
		reason    string
		migration migrationOf
		world     *scene
		want      string
	}{
		"Working":    {"castoff is at work", aMigration(), aWorld(), "FTF Progressing"},
		"Waiting":    {"what ends by itself needs no human", aMigration(), aWorld().quiet().withAutoscaler(func(a *inventory.Autoscaler) { a.Replicas = 0 }), "FTF Progressing"},
		"Blocked":    {"only a human can go on", aMigration(), aWorld().found(noRights), "FFT Blocked"},
		"BlockedBit": {"one node needs a human, the others go on", aMigration(), aWorld().shifting().draining("general-0", 1, bare), "FTT Blocked"},
		"Approval":   {"a human is asked", aMigration().manual(), aWorld(), "FFT AwaitingApproval"},
		"Another":    {"one of two has to go", aMigration(), aWorld().with(func(w *World) { w.OtherMigration = "older" }), "FFT AnotherMigrationActive"},
		"Pausing":    {"it comes to rest first", aMigration().paused(), aWorld().shifting(), "FTF Progressing"},
		"Paused":     {"a pause is what the user asked for: nothing is stalled", aMigration().paused(), aWorld().shifting().inService(), "FFF Paused"},
		"Deleting":   {"a deleted Migration comes to rest first", deleted(aMigration()), aWorld().shifting(), "FTF Progressing"},
		"Deleted":    {"and may go", deleted(aMigration()), aWorld().completed(), "FFF Paused"},
		"BadPause":   {"a pause without a usable snapshot needs a human", aMigration().paused(), aWorld().shifting().with(func(w *World) { w.SnapshotProblem = "gone" }), "FFT Blocked"},
		"Starting":   {"a pause that waits for Cluster Autoscaler has not come to rest", aMigration().paused(), aWorld().started(), "FTF Progressing"},
		"GoingBack":  {"the way back is work", aMigration().rollBack(), aWorld().cordoned(), "FTF Progressing"},
		"BackWaits":  {"waiting for nodes needs no human", aMigration().rollBack(), aWorld().sized(), "FTF Progressing"},
		"NoWayBack":  {"what is gone for good does", aMigration().rollBack(), aWorld().completed().with(func(w *World) { w.Groups = nil }), "FFT Blocked"},
		"RolledBack": {"it rests where the user asked it to", aMigration().rollBack(), aWorld().rolledBack(), "TFF RolledBack"},
		"RolledBackForeign": {"somebody's own size takes nothing from that", aMigration().rollBack(), aWorld().rolledBack().withGroup("general", func(g *inventory.NodeGroup) {
			g.Max, g.MaxInstanceLifetime = 20, 86400
		}), "TFF RolledBack"},
		"RolledBackPending": {"but what was asked for a moment ago may still come true", aMigration().rollBack().ledger(operation("SuspendProcesses/general", "Launch", time.Second)), aWorld().rolledBack(), "FTF Progressing"},
		"NeverBegun":        {"who goes back before anything was done is back", aMigration().rollBack(), aWorld(), "TFF RolledBack"},
		"Retiring":          {"an approved deletion is work", retireNow(), aWorld().completed(), "FTF Progressing"},
		"Unapproved":        {"one that waits for its approval is not: everything serves", aMigration().retiring(day), aWorld().completed(), "TFF Completed"},
		"Renewing":          {"nor is a Lease that is renewed", aMigration().soaked(), aWorld().completed().withAutoscaler(func(a *inventory.Autoscaler) { a.LeaseRenewed = noon.Add(-leaseRenewal) }), "TFF Completed"},
		"TwoScalers":        {"an owner has to scale it down", aMigration().ledger(stops(2)), comesBack(itLeads), "FFT Blocked"},
		"Snapshot":          {"without a way back nothing goes on", aMigration(), aWorld().with(func(w *World) { w.SnapshotProblem = "gone" }), "FFT Blocked"},
		"Soaking":           {"a soak ends by itself", aMigration(), aWorld().shifting().finished("general"), "FTF Progressing"},
		"LastSoak":          {"it is not over before the last soak is", aMigration(), aWorld().completed(), "FTF Progressing"},
		"Completed":         {"it rests where the user asked it to", aMigration().soaked(), aWorld().completed(), "TFF Completed"},
		"Warned": {"a warning takes nothing from that", aMigration().soaked(), aWorld().completed().withAutoscaler(func(a *inventory.Autoscaler) {
			a.Replicas, a.StatusReplicas, a.Pods = 1, 1, 1
		}), "TFF Completed"},
		"EngineIsDown": {"but an engine that is down does", aMigration().soaked(), aWorld().completed().with(func(w *World) { w.Engine.ReadyReplicas = 0 }), "FTF Progressing"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := kstatus(Next(tc.migration.build(), tc.world.build(), noon)); got != tc.want {
				t.Errorf("%s: Ready, Reconciling, Stalled = %s, want %s", tc.reason, got, tc.want)
			}
		})
	}
}

func TestConditionsSayWhy(t *testing.T) {
	cases := map[string]struct {
		reason    string
		migration migrationOf
		world     *scene
		condition string
		want      string // status and reason
		says      string
	}{
		"Blocked":           {"the first thing that needs a human is named", aMigration(), aWorld().found(emptyDirs, noRights), v1alpha1.ConditionReady, "False Blocked", "Permission (action/sqs:CreateQueue): denied"},
		"HumanFirst":        {"a human's comes before what ends by itself", aMigration(), aWorld().prepared().with(func(w *World) { w.Identity.Conflict = "not ours" }), v1alpha1.ConditionStalled, "True Blocked", "IdentityConflict"},
		"NothingStalls":     {"what is well says so", aMigration(), aWorld(), v1alpha1.ConditionStalled, "False Progressing", "Nothing needs a human."},
		"PreflightBlocked":  {"the check is the reason", aMigration(), aWorld().found(emptyDirs, barePod), v1alpha1.ConditionPreflightPassed, "False BarePod", "pod/default/debug: no controller"},
		"PreflightFirst":    {"what to do first, what then, and how many there are", aMigration(), aWorld().found(emptyDirs, barePod, noRights), v1alpha1.ConditionPreflightPassed, "False Permission", "Then BarePod (pod/default/debug). In all: 2 block, 0 accepted, 1 worth knowing."},
		"PreflightNamesIt":  {"what was accepted stays in sight", aMigration(), aWorld().found(accepted(barePod), emptyDirs), v1alpha1.ConditionPreflightPassed, "True Passed", "Accepted: BarePod (pod/default/debug). Worth knowing: 1"},
		"PreflightAccepted": {"an accepted risk passes", aMigration(), aWorld().found(accepted(barePod)), v1alpha1.ConditionPreflightPassed, "True Passed", "No check blocks."},
		"NoSnapshot":        {"nothing is recorded", aMigration(), aWorld(), v1alpha1.ConditionSnapshotTaken, "False NotYet", "Nothing has been changed"},
		"Snapshot":          {"it is recorded", aMigration(), aWorld().snapshotTaken(), v1alpha1.ConditionSnapshotTaken, "True Taken", "recorded"},
		"BadSnapshot":       {"what is wrong with it is said", aMigration(), aWorld().with(func(w *World) { w.SnapshotProblem = "other digest" }), v1alpha1.ConditionSnapshotTaken, "False SnapshotUnusable", "other digest"},
		"NoWayBack":         {"and that there is no way back", aMigration(), aWorld().with(func(w *World) { w.SnapshotProblem = "other digest" }), v1alpha1.ConditionRollbackAvailable, "False SnapshotUnusable", "other digest"},
		"WayBackNotNeeded":  {"nothing was changed", aMigration(), aWorld(), v1alpha1.ConditionRollbackAvailable, "True NotYet", "Nothing has been changed"},
		"WayBack":           {"everything is kept", aMigration().soaked(), aWorld().completed(), v1alpha1.ConditionRollbackAvailable, "True Taken", "kubectl castoff rollback prod"},
		"AtRest":            {"what rest means is said, and how it ends", aMigration().paused(), aWorld().shifting().inService(), v1alpha1.ConditionReady, "False Paused", "every pool has one scaler. It goes on when spec.paused is false"},
		"Pausing":           {"what is done on the way to it too", aMigration().paused(), aWorld().shifting(), v1alpha1.ConditionReady, "False Progressing", "castoff is coming to rest: it evicts nothing"},
		"GoingBack":         {"the direction is said", aMigration().rollBack(), aWorld().resumed(), v1alpha1.ConditionReady, "False Progressing", "castoff is bringing the pools back to Cluster Autoscaler."},
		"BackWaits":         {"and what it waits for", aMigration().rollBack(), aWorld().sized(), v1alpha1.ConditionReady, "False Progressing", "NodesReturning (nodegroup/general): 0 of 3 nodes are Ready"},
		"RolledBack":        {"and the end", aMigration().rollBack(), aWorld().rolledBack(), v1alpha1.ConditionReady, "True RolledBack", "Cluster Autoscaler serves every pool as before the migration. It begins again when spec.paused is false."},
		"Gone":              {"what is gone is named", aMigration().soaked(), aWorld().completed().with(func(w *World) { w.Groups = w.Groups[1:] }), v1alpha1.ConditionRollbackAvailable, "False Deleted", "Gone since the snapshot was taken: node group general."},
		"AutoscalerGone":    {"Cluster Autoscaler too", aMigration(), aWorld().shifting().with(func(w *World) { w.Autoscalers = nil }), v1alpha1.ConditionRollbackAvailable, "False Deleted", "Cluster Autoscaler kube-system/cluster-autoscaler"},
		"Approved":          {"an approved deletion ends it, before anything is gone", retireNow(), aWorld().completed(), v1alpha1.ConditionRollbackAvailable, "False Deleted", "The step Delete was approved"},
		"ApprovedEarly":     {"not before its retention is over", aMigration().retiring(time.Hour, v1alpha1.ApproveDelete), aWorld().completed(), v1alpha1.ConditionRollbackAvailable, "True Taken", ""},
		"ApprovedPaused":    {"a pause stops it", retireNow().paused(), aWorld().completed(), v1alpha1.ConditionRollbackAvailable, "True Taken", ""},
		"NobodyScales":      {"no pool is served, and nobody is asked to", aMigration().rollBack(), aWorld().halted(), v1alpha1.ConditionSingleScaler, "False NoScaler", "no Cluster Autoscaler is asked to run"},
		"WentBack":          {"there is nothing to go back from", aMigration().rollBack(), aWorld().rolledBack(), v1alpha1.ConditionRollbackAvailable, "True RolledBack", "It went back"},
		"StoppedPools":      {"a NodePool that may launch nothing serves nobody", aMigration().rollBack(), aWorld().leading(), v1alpha1.ConditionSingleScaler, "True ClusterAutoscalerServes", ""},
		"HalfStopped":       {"one that still may does", aMigration().rollBack(), aWorld().halted().serve("batch", ""), v1alpha1.ConditionSingleScaler, "True HandingOver", "Served by Karpenter: batch."},
		"NoEngine":          {"it is not installed", aMigration(), aWorld(), v1alpha1.ConditionProvisionerReady, "False NotYet", "not installed"},
		"EngineWithoutAWS":  {"an engine without a queue is not ready", aMigration(), aWorld().engineRunning(), v1alpha1.ConditionProvisionerReady, "False NotYet", ""},
		"Engine":            {"all of it works", aMigration(), aWorld().engineInstalled(), v1alpha1.ConditionProvisionerReady, "True Installed", ""},
		"CAServes":          {"one scaler", aMigration(), aWorld().quiet(), v1alpha1.ConditionSingleScaler, "True ClusterAutoscalerServes", ""},
		"KarpenterServes":   {"one scaler", aMigration(), aWorld().handedOver(), v1alpha1.ConditionSingleScaler, "True KarpenterServes", ""},
		"HalfServed":        {"one scaler each", aMigration(), aWorld().handedOver().with(func(w *World) { w.Engine.NodePools = w.Engine.NodePools[1:] }), v1alpha1.ConditionSingleScaler, "True HandingOver", "Served by Karpenter: batch."},
		"TwoServe":          {"both are named", aMigration(), comesBack(itLeads), v1alpha1.ConditionSingleScaler, "False TwoScalers", "general (Karpenter and kube-system/cluster-autoscaler)"},
		"NodesLeft":         {"nodes are left", aMigration(), aWorld().shifting(), v1alpha1.ConditionNodesMigrated, "False NotYet", "Legacy nodes are left."},
		"SizesLeft":         {"sizes and soak are not nodes", aMigration(), aWorld().shifting().emptied("general", "batch"), v1alpha1.ConditionNodesMigrated, "True Completed", "No legacy node is left."},
		"Soaking":           {"nor is one in a soak", aMigration(), aWorld().completed(), v1alpha1.ConditionNodesMigrated, "True Completed", "No legacy node is left."},
		"OnePoolLeft":       {"the second pool has nodes", aMigration().soaked(), aWorld().shifting().finished("general"), v1alpha1.ConditionNodesMigrated, "False NotYet", "Legacy nodes are left."},
		"Migrated":          {"no node is left", aMigration().soaked(), aWorld().completed(), v1alpha1.ConditionNodesMigrated, "True Completed", "No legacy node is left."},
		"NeverMigrated":     {"a cluster without legacy nodes was not migrated", aMigration(), aWorld().emptied("general", "batch"), v1alpha1.ConditionNodesMigrated, "False NotYet", "Nothing has been changed."},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := Next(tc.migration.build(), tc.world.build(), noon)
			c := meta.FindStatusCondition(d.Conditions, tc.condition)
			if got := string(c.Status) + " " + c.Reason; got != tc.want || !strings.Contains(c.Message, tc.says) {
				t.Errorf("%s: %s is %s (%q), want %s (%q)", tc.reason, tc.condition, got, c.Message, tc.want, tc.says)
			}
		})
	}
}

func deleted(m migrationOf) migrationOf { m.m.DeletionTimestamp = stamp(noon); return m }

func TestConditionsAreNotReadBack(t *testing.T) {
	lying := aMigration()
	for _, kind := range v1alpha1.ConditionTypes {
		lying.m.Status.Conditions = append(lying.m.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: "Lie"})
	}
	lying.m.Status.Phase = v1alpha1.PhaseCompleted
	got, want := Next(lying.build(), aWorld().shifting().build(), noon), Next(aMigration().build(), aWorld().shifting().build(), noon)
	if got.Phase != want.Phase || !slices.Equal(got.Conditions, want.Conditions) {
		t.Errorf("a phase or condition in the status changed the answer: %s %+v", got.Phase, got.Conditions)
	}
}
