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
		"AnotherIsActive": {
			reason:    "whose turn it is comes before whether it is paused",
			migration: aMigration().paused(),
			world:     aWorld().with(func(w *World) { w.OtherMigration = "older" }),
			want:      decided{phase: v1alpha1.PhaseAssessing, blockers: []string{"Block AnotherMigrationActive migration/older"}},
		},
	})
}
