package plan

import (
	"slices"
	"testing"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// found adds findings of the preflight.
func (s *scene) found(f ...inventory.Finding) *scene {
	return s.with(func(w *World) { w.Findings = append(w.Findings, f...) })
}

var (
	barePod   = inventory.Finding{Check: "BarePod", Severity: v1alpha1.SeverityBlock, Object: "pod/default/debug", Pool: "batch", Message: "no controller"}
	noRights  = inventory.Finding{Check: "Permission", Severity: v1alpha1.SeverityBlock, Object: "action/sqs:CreateQueue", Message: "denied"}
	emptyDirs = inventory.Finding{Check: "EmptyDir", Severity: v1alpha1.SeverityWarn, Object: "pod/default/cache", Message: "its data goes"}
)

func accepted(f inventory.Finding) inventory.Finding {
	f.Accepted, f.AcceptedReason = true, "known"
	return f
}

// ofDeployment is the finding about a pod of a Deployment.
func ofDeployment(f inventory.Finding) inventory.Finding {
	f.Workload = "deployment/default/web"
	return f
}

func TestAssessing(t *testing.T) {
	run(t, map[string]step{
		"NothingBlocks": {
			reason: "when no check blocks, the first write of all is the snapshot",
			world:  aWorld(),
			want:   decided{phase: v1alpha1.PhasePreparing, actions: []string{"SaveSnapshot"}},
		},
		"Blocked": {
			reason: "a Block stops before anything is written",
			world:  aWorld().found(barePod),
			want:   decided{phase: v1alpha1.PhaseAssessing, blockers: []string{"Block BarePod pod/default/debug"}},
		},
		"EveryFindingIsShown": {
			reason: "whoever mends one finding should not find the next one afterwards",
			world:  aWorld().found(emptyDirs, barePod, noRights),
			want: decided{phase: v1alpha1.PhaseAssessing, blockers: []string{
				"Block Permission action/sqs:CreateQueue", "Block BarePod pod/default/debug", "Warn EmptyDir pod/default/cache",
			}},
		},
		"Warned": {
			reason: "a warning is shown and stops nothing",
			world:  aWorld().found(emptyDirs),
			want:   decided{phase: v1alpha1.PhasePreparing, actions: []string{"SaveSnapshot"}, blockers: []string{"Warn EmptyDir pod/default/cache"}},
		},
		"ManyOfOneWorkload": {
			reason: "300 pods of one Deployment do not push everything else out of the status",
			world:  aWorld().found(ofDeployment(barePod), ofDeployment(barePod), ofDeployment(barePod)),
			want:   decided{phase: v1alpha1.PhaseAssessing, blockers: []string{"Block BarePod pod/default/debug"}},
			says:   "2 more of deployment/default/web",
		},
		"Accepted": {
			reason: "an accepted risk lets the migration pass, and stays visible with the user's words",
			world:  aWorld().found(accepted(barePod)),
			want:   decided{phase: v1alpha1.PhasePreparing, actions: []string{"SaveSnapshot"}, blockers: []string{"Warn BarePod pod/default/debug"}},
			says:   "Accepted (known)",
		},
		"Manual": {
			reason:    "with approval Manual nothing is written before Start is approved",
			migration: aMigration().manual(),
			world:     aWorld(),
			want:      decided{phase: v1alpha1.PhaseAwaitingApproval, blockers: []string{"Block AwaitingApproval migration/prod"}},
			says:      "kubectl castoff approve prod Start",
		},
		"ManualApproved": {
			reason:    "an approved Start lets castoff write",
			migration: aMigration().manual(v1alpha1.ApproveStart),
			world:     aWorld(),
			want:      decided{phase: v1alpha1.PhasePreparing, actions: []string{"SaveSnapshot"}},
		},
		"ManualApprovedTheWrongStep": {
			reason:    "each step is approved by its own name",
			migration: aMigration().manual(v1alpha1.ApproveHandOver),
			world:     aWorld(),
			want:      decided{phase: v1alpha1.PhaseAwaitingApproval, blockers: []string{"Block AwaitingApproval migration/prod"}},
		},
		"BlockComesBeforeApproval": {
			reason:    "nobody should be asked to approve what cannot start",
			migration: aMigration().manual(),
			world:     aWorld().found(noRights),
			want:      decided{phase: v1alpha1.PhaseAssessing, blockers: []string{"Block Permission action/sqs:CreateQueue"}},
		},
		"SnapshotIsUnusable": {
			reason: "a snapshot that is missing or has another digest than the status stops everything, for there is no way back",
			world: aWorld().with(func(w *World) {
				w.SnapshotProblem = "Secret castoff-system/prod-index has another digest than status.snapshot.sha256; restore it"
			}),
			want: decided{phase: v1alpha1.PhaseAssessing, blockers: []string{"Block SnapshotUnusable migration/prod"}},
			says: "restore it",
		},
		"SnapshotIsUnusableLate": {
			reason: "nor does a migration in the middle go on without it, and it shows how far it had come",
			world:  aWorld().shifting().draining("general-0", 1).with(func(w *World) { w.SnapshotProblem = "gone" }),
			want:   decided{phase: v1alpha1.PhaseShifting, blockers: []string{"Block SnapshotUnusable migration/prod"}},
		},
		"SnapshotIsUnusableForLong": {
			reason:    "what is held stays held, or a pool that Karpenter serves would get a second scaler",
			migration: taken(aMigration()),
			world: aWorld().shifting().withAutoscaler(func(a *inventory.Autoscaler) { a.LeaseRenewed = noon.Add(-leaseRenewal) }).
				with(func(w *World) { w.SnapshotProblem = "gone" }),
			want: decided{phase: v1alpha1.PhaseShifting, actions: []string{"HoldLease kube-system/cluster-autoscaler"}, blockers: []string{"Block SnapshotUnusable migration/prod"}},
		},
		"NoSnapshotEver": {
			reason: "without one nothing was taken over, so nothing is held",
			world: aWorld().withAutoscaler(func(a *inventory.Autoscaler) { a.LeaseHolder = v1alpha1.LeaseIdentity }).
				with(func(w *World) { w.SnapshotProblem = "gone" }),
			want: decided{phase: v1alpha1.PhaseAssessing, blockers: []string{"Block SnapshotUnusable migration/prod"}},
		},
		"FindingsAfterTheSnapshot": {
			reason: "once the snapshot is there the start is over; what blocks stops at the hand-over instead",
			world:  aWorld().snapshotTaken().found(barePod),
			want: decided{phase: v1alpha1.PhasePreparing, actions: []string{
				"MarkNode general-0 general", "MarkNode general-1 general", "MarkNode general-2 general", "MarkNode batch-0 batch", "MarkNode batch-1 batch",
			}},
		},
	})
}

// taken: the status says that there is a snapshot.
func taken(m migrationOf) migrationOf { m.m.Status.Snapshot = &v1alpha1.SnapshotReference{}; return m }

// TestChangedBefore: a snapshot of a cluster that castoff changed already would record its changes as the user's.
func TestChangedBefore(t *testing.T) {
	cases := map[string]struct {
		reason    string
		migration migrationOf
		change    func(*World)
		blocks    bool
	}{
		"Untouched":   {"nothing of castoff's is there", aMigration(), func(*World) {}, false},
		"LegacyNode":  {"a node that an earlier Migration marked", aMigration(), func(w *World) { w.Nodes[0].Annotations[v1alpha1.AnnotationLegacy] = "general" }, true},
		"NewNode":     {"a node of a NodePool that it made", aMigration(), func(w *World) { w.Nodes[0].Labels[v1alpha1.LabelPool] = "general" }, true},
		"HeldLease":   {"a Lease that it holds", aMigration(), func(w *World) { w.Autoscalers[0].LeaseHolder = v1alpha1.LeaseIdentity }, true},
		"OtherGroups": {"a second Migration for other groups is the user's word", aMigration().accepts(CheckChangedBefore, "cluster/test"), func(w *World) { w.Autoscalers[0].LeaseHolder = v1alpha1.LeaseIdentity }, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := Next(tc.migration.build(), aWorld().with(tc.change).build(), noon)
			blocked := slices.ContainsFunc(d.Blockers, func(b v1alpha1.Blocker) bool { return b.Reason == CheckChangedBefore })
			if blocked != tc.blocks || blocked == slices.Contains(told(d.Actions), "SaveSnapshot") {
				t.Errorf("%s: blocked %v, want %v; actions %v", tc.reason, blocked, tc.blocks, told(d.Actions))
			}
		})
	}
}
