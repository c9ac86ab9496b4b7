package plan

import (
	"slices"
	"testing"
	"time"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

func TestPaused(t *testing.T) {
	old := func(a *inventory.Autoscaler) { a.LeaseRenewed = noon.Add(-leaseRenewal) }
	hold := []string{"HoldLease kube-system/cluster-autoscaler"}
	released := []string{"ReleaseNode general-0", "ReleaseNode general-1", "ReleaseNode general-2", "ReleaseNode batch-0", "ReleaseNode batch-1"}
	paused := func(actions []string, blockers ...string) decided {
		return decided{phase: v1alpha1.PhasePaused, actions: actions, blockers: blockers}
	}
	cases := map[string]step{
		"Fresh":     {reason: "nothing was begun", world: aWorld(), want: paused(nil)},
		"Preparing": {reason: "Cluster Autoscaler is in charge", world: aWorld().snapshotTaken(), want: paused(nil)},
		"Installing": {
			reason: "an engine that serves nothing goes again, last things first", world: aWorld().engineInstalled(),
			want: paused([]string{"DeleteNodeClass general", "DeleteNodeClass batch"}, "Wait NodeClassEnding ec2nodeclass/general", "Wait NodeClassEnding ec2nodeclass/batch"),
		},
		"Stopped": {
			reason: "who stopped Cluster Autoscaler is not known, so it is not castoff's to start; its groups get their processes back",
			world:  aWorld().released(), want: paused([]string{"ResumeProcesses general " + allQuiet, "ResumeProcesses eks-batch " + allQuiet}),
		},
		"StoppedByUs": {
			reason:    "between Cluster Autoscaler's end and the first NodePool the nearer side is Karpenter: no pool rests without a scaler",
			migration: aMigration().ledger(closed(operation("StopAutoscaler/kube-system/cluster-autoscaler", "0", time.Minute))),
			world:     aWorld().released(),
			want:      paused([]string{hold[0], "EnsureNodePool general target-of-general/guarded", "EnsureNodePool batch target-of-batch/guarded"}),
		},
		"Draining": {
			reason: "no eviction, no ending of instances: every undrained node is back in service",
			world:  aWorld().shifting().draining("general-0", 2).draining("general-1", 0), want: paused(released),
		},
		"LeaseIsOld": {
			reason: "a pool that Karpenter serves must not get a second scaler while everybody sleeps",
			world:  aWorld().shifting().inService().withAutoscaler(old), want: paused(hold),
		},
		"LeaseOfAnother": {
			reason: "a Cluster Autoscaler that came back and leads is scaled to 0 once, for Karpenter serves its pools; its Lease is not taken from it while it runs",
			world:  comesBack(itLeads),
			want:   paused(append(slices.Clone(released), "StopAutoscaler kube-system/cluster-autoscaler 0"), "Wait AutoscalerRunning "+caObject),
		},
		"Standby": {
			reason: "that of a standby is renewed",
			world: comesBack(func(a *inventory.Autoscaler) {
				a.LeaseRenewed = noon.Add(-leaseRenewal)
			}),
			want: paused(append(slices.Clone(released), hold...), "Warn AutoscalerStandby "+caObject),
		},
		"EngineIsDown": {
			reason: "an engine that is down does not let the Lease go", want: paused(hold),
			world: aWorld().shifting().inService().withAutoscaler(old).with(func(w *World) { w.Engine.ReadyReplicas = 0 }),
		},
	}
	for name, tc := range cases {
		if tc.migration.m == nil {
			tc.migration = aMigration()
		}
		tc.migration = tc.migration.paused()
		cases[name] = tc
	}
	run(t, cases)
}

func TestPausedIsStillShort(t *testing.T) {
	pausedByHand := aMigration().paused().ledger(operation("EndInstances/general", "i-general-0", time.Second))
	run(t, map[string]step{
		"EffectUnderWay": {
			reason:    "an effect that was asked for before the pause is still watched, and named",
			migration: pausedByHand,
			world:     aWorld().shifting().inService().withNode("general-0", fenceIt),
			want:      decided{phase: v1alpha1.PhasePaused, blockers: []string{"Wait InstanceEnding node/general-0", "Wait EffectNotVisible EndInstances/general"}},
		},
		"InstanceLeaves": {
			reason:    "drained instances that are on their way out are waited for: then nothing changes any more",
			migration: aMigration().paused(),
			world:     aWorld().shifting().inService().withGroup("general", func(g *inventory.NodeGroup) { g.Instances[0].Lifecycle = "Terminating:Wait" }),
			want:      decided{phase: v1alpha1.PhasePaused, blockers: []string{"Wait InstancesLeaving nodegroup/general"}},
		},
		"AnotherIsActive": {
			reason:    "whose turn it is comes before whether it is paused",
			migration: aMigration().paused(),
			world:     aWorld().with(func(w *World) { w.OtherMigration = "older" }),
			want:      decided{phase: v1alpha1.PhaseAssessing, blockers: []string{"Block AnotherMigrationActive migration/older"}},
		},
	})
}

// TestSettlingFromTheWayBack: whoever breaks a way back off rests on the side that is nearer by then.
func TestSettlingFromTheWayBack(t *testing.T) {
	paused := func(actions []string, blockers ...string) decided {
		return decided{phase: v1alpha1.PhasePaused, actions: actions, blockers: blockers}
	}
	wait := "Wait AutoscalerStarting " + caObject
	down := func(a *inventory.Autoscaler) { a.Replicas, a.StatusReplicas, a.Pods, a.LeaseHolder = 0, 0, 0, "" }
	serving := []string{"EnsureNodePool general target-of-general", "EnsureNodePool batch target-of-batch/guarded"}
	guarded := []string{"EnsureNodePool general target-of-general/guarded", serving[1]}
	cases := map[string]step{
		"Stilled":  {reason: "Karpenter serves, and may move again what is its own alone", world: aWorld().stilled(), want: paused(serving)},
		"Returned": {reason: "the old nodes that came back stay: Karpenter serves beside them and does not consolidate onto them", world: aWorld().returned(), want: paused(guarded)},
		"Halted":   {reason: "no pool rests without a scaler: Karpenter serves again", world: aWorld().halted(), want: paused(guarded)},
		"HeldAgain": {
			reason:    "one that is a standby already is no second scaler, started or not",
			migration: aMigration().ledger(operation("StartAutoscaler/kube-system/cluster-autoscaler", "1", time.Second)),
			world:     aWorld().halted(), want: paused(guarded),
		},
		"StartedAtOnce": {
			reason:    "without an election nothing can hold it: it is waited for",
			migration: aMigration().ledger(operation("StartAutoscaler/kube-system/cluster-autoscaler", "1", time.Second)),
			world:     aWorld().halted().withAutoscaler(down).withAutoscaler(func(a *inventory.Autoscaler) { a.LeaderElect = false }),
			want:      paused(nil, wait, "Wait EffectNotVisible StartAutoscaler/kube-system/cluster-autoscaler"),
		},
		"JustStarted": {
			reason:    "one that may be on its way, and that nobody sees yet, is to come as a standby",
			migration: aMigration().ledger(operation("StartAutoscaler/kube-system/cluster-autoscaler", "1", soon-time.Second)),
			world:     aWorld().halted().withAutoscaler(down), want: paused([]string{"HoldLease kube-system/cluster-autoscaler"}, wait),
		},
		"StartFailed": {
			reason:    "not even if the call failed: the reply may have been lost",
			migration: aMigration().ledger(failed(operation("StartAutoscaler/kube-system/cluster-autoscaler", "1", time.Second))),
			world:     aWorld().halted().withAutoscaler(down), want: paused([]string{"HoldLease kube-system/cluster-autoscaler"}, wait),
		},
		"StartWasLost": {
			reason:    "after that it was lost, and Karpenter is nearer",
			migration: aMigration().ledger(operation("StartAutoscaler/kube-system/cluster-autoscaler", "1", patience)),
			world:     aWorld().halted().withAutoscaler(down), want: paused(append([]string{"HoldLease kube-system/cluster-autoscaler"}, guarded...)),
		},
		"StartWasLostEarly": {
			reason:    "so it is if no NodePool was there yet",
			migration: aMigration().ledger(operation("StartAutoscaler/kube-system/cluster-autoscaler", "1", patience)),
			world:     aWorld().released(), want: paused([]string{"HoldLease kube-system/cluster-autoscaler", guarded[0], guarded[1]}),
		},
		"Started":  {reason: "Cluster Autoscaler runs: it is seen to lead; the groups may be as they were already", world: aWorld().started(), want: paused(allResume, wait)},
		"Leading":  {reason: "and gets its groups as they were", world: aWorld().leading(), want: paused(allResume)},
		"Resumed":  {reason: "at rest: Cluster Autoscaler serves, the NodePools are stopped, and their nodes stay", world: aWorld().resumed(), want: paused(nil)},
		"Cordoned": {reason: "Karpenter's nodes go back in service too", world: aWorld().cordoned(), want: paused([]string{"ReleaseNode node-of-general-claim1", "ReleaseNode node-of-general-claim2"})},
		"Draining": {reason: "no eviction there either", world: aWorld().cordoned().draining("node-of-general-claim1", 2), want: paused([]string{"ReleaseNode node-of-general-claim1", "ReleaseNode node-of-general-claim2"})},
		"Vacated":  {reason: "a NodePool that serves nobody may rest", world: aWorld().vacated(), want: paused(nil)},
		"Unserved": {
			reason: "nothing of the hand-over is left, so the rest is undone too", world: aWorld().unserved(),
			want: paused([]string{"DeleteNodeClass general", "DeleteNodeClass batch"}, "Wait NodeClassEnding ec2nodeclass/general", "Wait NodeClassEnding ec2nodeclass/batch"),
		},
		"RolledBack": {reason: "all of it is undone", world: aWorld().rolledBack(), want: paused(nil)},
		"ComesBack": {
			reason: "one that comes back beside a stopped NodePool has taken its pools back", world: aWorld().halted().withAutoscaler(itServes).withAutoscaler(func(a *inventory.Autoscaler) {
				a.Replicas, a.StatusReplicas, a.Pods = 1, 1, 1
			}),
			want: paused(allResume),
		},
	}
	for name, tc := range cases {
		if tc.migration.m == nil {
			tc.migration = aMigration()
		}
		tc.migration = tc.migration.paused()
		cases[name] = tc
	}
	run(t, cases)
}

// TestSettlingUndoes: before a hand-over everything done is undone, from each stage of it.
func TestSettlingUndoes(t *testing.T) {
	paused := func(actions []string, blockers ...string) decided {
		return decided{phase: v1alpha1.PhasePaused, actions: actions, blockers: blockers}
	}
	run(t, map[string]step{
		"Policies": {
			reason: "what was recorded acts again", migration: aMigration().paused(), world: aWorld().scaled("general", "cpu", "night").prepared(),
			want: paused([]string{"EnablePolicies general cpu"}),
		},
		"Marks": {
			reason: "the marks go", migration: aMigration().paused(), world: aWorld().prepared(),
			want: paused([]string{"UnmarkNode general-0", "UnmarkNode general-1", "UnmarkNode general-2", "UnmarkNode batch-0", "UnmarkNode batch-1"}),
		},
		"Queue": {
			reason: "queue and roles go", migration: aMigration().paused(), world: aWorld().prepared().awsReady(),
			want: paused([]string{"RemoveInterruption interruption", "RemoveIdentity identity"}, "Wait InterruptionEnding queue/test", "Wait IdentityEnding role/nodes"),
		},
		"Engine": {
			reason: "the engine goes before them", migration: aMigration().paused(), world: aWorld().prepared().awsReady().engineRunning(),
			want: paused([]string{"UninstallEngine engine"}, "Wait ReleaseEnding release/karpenter"),
		},
		"Processes": {reason: "the processes go on", migration: aMigration().paused(), world: aWorld().quiet(), want: paused(allResume)},
		"GoneForGood": {
			reason: "a group that is gone keeps nobody from saying so", migration: aMigration().paused(), world: aWorld().prepared().with(func(w *World) { w.Groups = w.Groups[1:] }),
			want: paused(nil, "Block RollbackUnavailable migration/prod"), says: "node group general",
		},
		"GoneAtKarpenters": {
			reason: "and is not needed where Karpenter serves", migration: aMigration().paused(), world: aWorld().completed().with(func(w *World) { w.Groups = nil }),
			want: paused(nil),
		},
	})
}

// TestADeletedMigrationRestsFirst: the finalizer goes when it has come to rest.
func TestADeletedMigrationRestsFirst(t *testing.T) {
	run(t, map[string]step{
		"Shifting": {
			reason: "as a pause that settles", migration: deleted(aMigration()), world: aWorld().shifting(),
			want: decided{phase: v1alpha1.PhasePaused, actions: []string{"ReleaseNode general-0", "ReleaseNode general-1", "ReleaseNode general-2", "ReleaseNode batch-0", "ReleaseNode batch-1"}},
		},
		"RollingBack": {
			reason: "or as the way back that was asked for before", migration: deleted(aMigration().rollBack()), world: aWorld().returned(),
			want: backwards(stoppedPools),
		},
		"OnPauseAlone": {
			reason: "onPause says something of a pause, and there is none", migration: deleted(onPauseOnly()), world: aWorld().completed(),
			want: decided{phase: v1alpha1.PhasePaused},
		},
		"Unusable": {
			reason: "without a way back nobody can say what rest would be", migration: deleted(aMigration().rollBack()), world: aWorld().shifting().with(func(w *World) { w.SnapshotProblem = "gone" }),
			want: decided{phase: v1alpha1.PhaseRollingBack, blockers: []string{"Block SnapshotUnusable migration/prod", "Block CannotRest migration/prod"}},
			says: "finalizers",
		},
	})
	rested := map[string]struct {
		reason    string
		migration migrationOf
		world     *scene
		want      bool
	}{
		"Fresh":    {"nothing was done", aMigration(), aWorld(), true},
		"InUse":    {"nodes are fenced", aMigration(), aWorld().shifting(), false},
		"AtRest":   {"Karpenter serves, and nothing is left to do", aMigration(), aWorld().completed(), true},
		"Renewing": {"a Lease that has to be renewed is no reason to stay", aMigration(), aWorld().completed().withAutoscaler(func(a *inventory.Autoscaler) { a.LeaseRenewed = noon.Add(-leaseRenewal) }), true},
		"MayCome":  {"what was asked for a moment ago may still come true, and somebody has to undo it", aMigration().ledger(operation("SuspendProcesses/general", allQuiet, time.Second)), aWorld().rolledBack(), false},
		"WasLost":  {"after a minute it was lost, however far reads are behind", aMigration().ledger(operation("SuspendProcesses/general", allQuiet, endPatience)), aWorld().rolledBack(), true},
	}
	for name, tc := range rested {
		t.Run(name, func(t *testing.T) {
			if got := Next(deleted(tc.migration).build(), tc.world.build(), noon).Rested; got != tc.want {
				t.Errorf("%s: Rested = %v, want %v", tc.reason, got, tc.want)
			}
		})
	}
}

func onPauseOnly() migrationOf {
	m := aMigration().rollBack()
	m.m.Spec.Paused = false
	return m
}

// TestGoingOnAfterTheWayBack: paused: false goes on from where the world is.
func TestGoingOnAfterTheWayBack(t *testing.T) {
	down := func(a *inventory.Autoscaler) { a.Replicas, a.StatusReplicas, a.Pods, a.LeaseHolder = 0, 0, 0, "" }
	lostStart := aMigration().ledger(operation("StartAutoscaler/kube-system/cluster-autoscaler", "1", patience))
	run(t, map[string]step{
		"Leading": {
			reason: "Cluster Autoscaler lets go again before Karpenter serves again", world: aWorld().leading(),
			want: hands([]string{"StopAutoscaler kube-system/cluster-autoscaler 0"}, "Wait AutoscalerRunning "+caObject),
		},
		"Cordoned": {
			reason: "Karpenter's nodes go back in service once it serves", world: aWorld().cordoned().served().with(func(w *World) { w.Engine.NodeClaims = nil }),
			want: hands([]string{"ReleaseNode node-of-general-claim1", "ReleaseNode node-of-general-claim2", "FenceNode general-new3 general", "FenceNode general-new4 general", "FenceNode general-new5 general", "FenceNode batch-0 batch", "FenceNode batch-1 batch"}),
		},
		"JustStarted": {
			reason:    "a Cluster Autoscaler that was asked to run a moment ago may run",
			migration: aMigration().ledger(operation("StartAutoscaler/kube-system/cluster-autoscaler", "1", time.Second)),
			world:     aWorld().halted().withAutoscaler(down), want: hands([]string{"HoldLease kube-system/cluster-autoscaler"}, "Wait AutoscalerStarting "+caObject),
		},
		"LostStart": {
			reason:    "one whose start was lost does not: the pools have no scaler, so no approval and no finding is waited for",
			migration: lostStart.manual(v1alpha1.ApproveStart), world: aWorld().released().found(noRights),
			want: hands([]string{"HoldLease kube-system/cluster-autoscaler", "EnsureNodePool general target-of-general/guarded", "EnsureNodePool batch target-of-batch/guarded"}),
		},
		"ClassEnding": {
			reason: "a class that is on its way out proves nothing; it is made again after that",
			world:  aWorld().engineInstalled().with(func(w *World) { w.Engine.NodeClasses[0].DeletionTimestamp = stamp(noon) }),
			want:   decided{phase: v1alpha1.PhaseInstalling, blockers: []string{"Wait NodeClassEnding ec2nodeclass/general"}},
		},
		"RolledBack": {reason: "from the very beginning, but for the snapshot", world: aWorld().rolledBack(), want: decided{phase: v1alpha1.PhasePreparing, actions: marksAfter("general-new3", "general-new4", "general-new5")}},
	})
}

func marksAfter(general ...string) []string {
	var out []string
	for _, n := range general {
		out = append(out, "MarkNode "+n+" general")
	}
	return append(out, "MarkNode batch-0 batch", "MarkNode batch-1 batch")
}
