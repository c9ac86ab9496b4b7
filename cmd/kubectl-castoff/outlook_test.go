package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
)

// at is a Migration of two pools of ten and four nodes, in a phase, with the pools' phases and the nodes that are left.
func at(phase v1alpha1.Phase, general, batch v1alpha1.PoolPhase, left ...int32) func(*v1alpha1.Migration) {
	return func(m *v1alpha1.Migration) {
		m.Status.Phase, m.Status.Snapshot = phase, &v1alpha1.SnapshotReference{}
		m.Status.Pools = []v1alpha1.PoolStatus{
			{Name: "general", Phase: general, Nodes: 10, NodesLeft: left[0]},
			{Name: "batch", Phase: batch, Nodes: 4, NodesLeft: left[1]},
		}
	}
}

func shifting(m *v1alpha1.Migration) {
	at(v1alpha1.PhaseShifting, v1alpha1.PoolDraining, v1alpha1.PoolFenced, 6, 4)(m)
	m.Status.Pools[0].NodesDraining = 1
}

func completed(m *v1alpha1.Migration) {
	at(v1alpha1.PhaseCompleted, v1alpha1.PoolDone, v1alpha1.PoolDone, 0, 0)(m)
	m.Status.CompletionTime = &metav1.Time{Time: now}
}

func assessing(m *v1alpha1.Migration) {
	at(v1alpha1.PhaseAssessing, v1alpha1.PoolPending, v1alpha1.PoolPending, 10, 4)(m)
	m.Status.Snapshot = nil
}

func TestOutlook(t *testing.T) {
	const (
		pending, fenced, done = v1alpha1.PoolPending, v1alpha1.PoolFenced, v1alpha1.PoolDone
		both                  = "2 pools (general, batch)"
		keeps                 = "Cluster Autoscaler keeps " + both + "."
		stays                 = "With Karpenter stay " + both + "; Cluster Autoscaler stays at 0."
		rests                 = "Everything is back with Cluster Autoscaler, and stays there."
		nearer                = "The hand-over goes to the nearer side before it rests, so that no pool is left without a scaler: back if Cluster Autoscaler still runs, and then everything is undone; else Karpenter takes the pools."
		takes                 = "2. Cluster Autoscaler is started with the recorded replicas and takes " + both + "; schedules, policies and processes are as recorded."
		drains                = "3. Karpenter's nodes are drained. " + budgetsHold
		goes                  = "4. Karpenter goes with what castoff made for it in AWS, but for what was there before."
		waits                 = "It still waits for approval of [Start HandOver]."
	)
	cases := map[string]struct {
		reason                string
		m                     *v1alpha1.Migration
		pause, resume, goBack []string
	}{
		"New": {
			reason: "castoff has not looked at it yet",
			m:      migrationNamed("prod"),
			pause:  []string{nothingTaken},
			resume: []string{"It goes on with the preflight; castoff has changed nothing yet.", waits},
			goBack: []string{
				nothingTaken,
			},
		},
		"Assessing": {
			reason: "nothing was written",
			m:      migrationNamed("prod", assessing, automatic),
			pause:  []string{nothingTaken},
			resume: []string{"It goes on with the preflight; castoff has changed nothing yet.", "spec.approval is Automatic: it does not ask before the hand-over."},
			goBack: []string{nothingTaken},
		},
		"Installing": {
			reason: "before a hand-over a pause and a rollback are the same",
			m:      migrationNamed("prod", at(v1alpha1.PhaseInstalling, pending, pending, 10, 4), approved(v1alpha1.ApproveStart)),
			pause:  []string{undone, keeps},
			resume: []string{"castoff does again what the pause undid, and then hands " + both + " over to Karpenter.", "It still waits for approval of [HandOver]."},
			goBack: []string{undone, keeps},
		},
		"HandingOver": {
			reason: "the words do not pretend to know which side is nearer",
			m:      migrationNamed("prod", at(v1alpha1.PhaseHandingOver, fenced, pending, 10, 4)),
			pause: []string{
				noEviction, nearer, "10 old nodes go back in service: uncordoned, and without castoff's taint.",
			},
			resume: []string{"The hand-over goes on: Karpenter takes pool batch, and then the old nodes are drained under your PodDisruptionBudgets."},
			goBack: []string{"1. The node groups get their recorded sizes, but for a min or max that somebody else set since. 14 old nodes go back in service. Karpenter serves until all are Ready.", takes, drains, goes, notRestored},
		},
		"Shifting": {
			reason: "the nodes of both pools, and what becomes of the one that is being drained",
			m:      migrationNamed("prod", shifting),
			pause: []string{
				noEviction,
				"10 old nodes go back in service: uncordoned, and without castoff's taint. 1 of them is being drained and keeps the pods that it has left; an instance that is ending already ends.",
				stays,
			},
			resume: []string{"10 old nodes are cordoned again and drained, pool by pool, under your PodDisruptionBudgets; Karpenter serves " + both + "."},
			goBack: []string{
				"1. The node groups get their recorded sizes, but for a min or max that somebody else set since. 4 nodes are launched in place of those that castoff ended. 10 old nodes go back in service. Karpenter serves until all are Ready.",
				takes, drains, goes, notRestored,
			},
		},
		"PreflightBlocks": {
			reason: "a word is not enough to go on then; the way back does not ask the preflight",
			m: migrationNamed("prod", at(v1alpha1.PhasePaused, pending, pending, 10, 4), automatic, func(m *v1alpha1.Migration) {
				m.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionPreflightPassed, Status: metav1.ConditionFalse, Reason: "BarePod", Message: "pod/shop/debug: Delete it."}}
			}),
			pause: []string{undone, keeps},
			resume: []string{
				"castoff does again what the pause undid, and then hands " + both + " over to Karpenter.", "spec.approval is Automatic: it does not ask before the hand-over.",
				"The preflight blocks it until that is mended or accepted: BarePod, pod/shop/debug: Delete it.",
			},
			goBack: []string{undone, keeps},
		},
		"PausedInShifting": {
			reason: "the phase does not say how far it was; the pools do",
			m:      migrationNamed("prod", at(v1alpha1.PhasePaused, done, fenced, 0, 1), paused),
			pause:  []string{noEviction, "1 old node goes back in service: uncordoned, and without castoff's taint.", stays},
			resume: []string{"1 old node is cordoned again and drained, pool by pool, under your PodDisruptionBudgets; Karpenter serves " + both + "."},
			goBack: []string{
				"1. The node groups get their recorded sizes, but for a min or max that somebody else set since. 13 nodes are launched in place of those that castoff ended. 1 old node goes back in service. Karpenter serves until all are Ready.",
				takes, drains, goes, notRestored,
			},
		},
		"PausedBeforeHandOver": {
			reason: "approvals outlive a pause: that is said",
			m:      migrationNamed("prod", at(v1alpha1.PhasePaused, pending, pending, 10, 4), paused, approved(v1alpha1.ApproveStart, v1alpha1.ApproveHandOver)),
			pause:  []string{undone, keeps},
			resume: []string{"castoff does again what the pause undid, and then hands " + both + " over to Karpenter.", "Start and HandOver are approved: it does not ask for them again. Take them out of spec.approvedSteps first to be asked."},
			goBack: []string{undone, keeps},
		},
		"Completed": {
			reason: "for how long there is a way back",
			m:      migrationNamed("prod", completed, deleting),
			pause: []string{
				noEviction, "No old node of a pool that Karpenter serves is left to go back in service.", stays, "Nothing is deleted while it is paused, and its retention begins anew when it is resumed.",
			},
			resume: []string{
				"Karpenter serves " + both + ", and no old node is left to drain.",
				"The way back is open until 2026-05-05 03:02 UTC at least, and from then on until you approve the step Delete.",
			},
			goBack: []string{
				"1. The node groups get their recorded sizes, but for a min or max that somebody else set since. 14 nodes are launched in place of those that castoff ended. Karpenter serves until all are Ready.",
				takes, drains, goes, notRestored,
				"The way back is open until 2026-05-05 03:02 UTC at least, and from then on until you approve the step Delete.",
			},
		},
		"RollingBack": {
			reason: "a pool that is back has no node that is out of service",
			m:      migrationNamed("prod", at(v1alpha1.PhaseRollingBack, pending, fenced, 10, 2), goesBack),
			pause: []string{
				noEviction, "The way back stops. Every pool keeps the scaler that it has, and one that is between the two goes to the nearer side.",
				"Go on with the way back: kubectl castoff rollback prod.",
			},
			resume: []string{
				"castoff turns round: pools that Cluster Autoscaler has taken back change hands again, and then the old nodes are drained under your PodDisruptionBudgets, those that came back too.",
				waits,
				"spec.onPause stays RollBack: spec.paused set by hand would go back again. kubectl castoff pause settles instead.",
			},
			goBack: []string{
				"1. The node groups get their recorded sizes, but for a min or max that somebody else set since. 2 nodes are launched in place of those that castoff ended. 12 old nodes go back in service. Karpenter serves until all are Ready.",
				takes, drains, goes, notRestored,
			},
		},
		"RolledBack": {
			reason: "the end of the way back is also a beginning",
			m:      migrationNamed("prod", at(v1alpha1.PhaseRolledBack, pending, pending, 10, 4)),
			pause:  []string{rests},
			resume: []string{
				"The migration begins again, from the preflight on: Karpenter is installed, " + both + " change hands, and every old node is drained again.",
				waits,
			},
			goBack: []string{rests},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			for verb, want := range map[string]struct {
				change func(*v1alpha1.Migration, []string) (change, error)
				says   []string
			}{"pause": {pausing, tc.pause}, "resume": {resuming, tc.resume}, "rollback": {rollingBack, tc.goBack}} {
				got, err := want.change(tc.m, nil)
				if err != nil {
					t.Errorf("%s: %v", verb, err)
				}
				if diff := cmp.Diff(want.says, got.says); diff != "" {
					t.Errorf("%s: %s: -want +got\n%s", tc.reason, verb, diff)
				}
			}
		})
	}
}

func TestRollbackAvailable(t *testing.T) {
	available := func(status metav1.ConditionStatus, reason, message string) func(*v1alpha1.Migration) {
		return func(m *v1alpha1.Migration) {
			m.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionRollbackAvailable, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(now)}}
		}
	}
	cases := map[string]struct {
		reason string
		m      *v1alpha1.Migration
		err    string
		want   []string
	}{
		"Yes": {
			reason: "no word about what is as it should be",
			m:      migrationNamed("prod", assessing, available(metav1.ConditionTrue, v1alpha1.ReasonNotYet, "Nothing has been changed.")),
			want:   []string{nothingTaken},
		},
		"Deleted": {
			reason: "since when and why, in castoff's own words",
			m:      migrationNamed("prod", completed, available(metav1.ConditionFalse, v1alpha1.ReasonDeleted, "Node group general was deleted.")),
			err:    "the way back of Migration prod is closed: RollbackAvailable is False since 2026-05-04 03:02 UTC, reason Deleted: Node group general was deleted.",
		},
		"SnapshotUnusable": {
			reason: "whatever the reason",
			m:      migrationNamed("prod", shifting, available(metav1.ConditionFalse, v1alpha1.ReasonSnapshotUnusable, "Its digest is another one.")),
			err:    "the way back of Migration prod is closed: RollbackAvailable is False since 2026-05-04 03:02 UTC, reason SnapshotUnusable: Its digest is another one.",
		},
		"Unknown": {
			reason: "nobody is kept from going back because castoff cannot see; but he is told",
			m:      migrationNamed("prod", assessing, available(metav1.ConditionUnknown, v1alpha1.ReasonObservationFailed, "AWS does not answer.")),
			want:   []string{"castoff does not know whether the way back is open: AWS does not answer.", nothingTaken},
		},
		"Blocked": {
			reason: "what blocks the way on is often why somebody goes back",
			m: migrationNamed("prod", assessing, func(m *v1alpha1.Migration) {
				m.Status.Blockers = []v1alpha1.Blocker{{Severity: v1alpha1.SeverityBlock, Reason: "TwoBudgets", Object: "pod/shop/web", Message: "Narrow one selector."}}
			}),
			want: []string{nothingTaken},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := rollingBack(tc.m, nil)
			if diff := cmp.Diff(tc.err, message(err)); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(tc.want, got.says); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

func TestOpen(t *testing.T) {
	half := int32(1800)
	cases := map[string]struct {
		reason string
		m      *v1alpha1.Migration
		want   string
	}{
		"DeletesNothing": {
			reason: "castoff closes nothing that it does not delete",
			m:      migrationNamed("prod", completed),
			want:   "The way back stays open: castoff deletes nothing (spec.decommission). It closes when somebody deletes the node groups.",
		},
		"NotApproved": {
			reason: "retention alone deletes nothing",
			m:      migrationNamed("prod", completed, deleting),
			want:   "The way back is open until 2026-05-05 03:02 UTC at least, and from then on until you approve the step Delete.",
		},
		"Approved": {
			reason: "then retention is all that is left",
			m: migrationNamed("prod", completed, deleting, approved(v1alpha1.ApproveDelete), func(m *v1alpha1.Migration) {
				m.Spec.Decommission.RetentionSeconds = &half
			}),
			want: "The way back is open until 2026-05-04 03:32 UTC: the step Delete is approved, so castoff then deletes what spec.decommission says.",
		},
		"NotCompleted": {
			reason: "no date can be known",
			m:      migrationNamed("prod", shifting, deleting),
			want:   "The way back is open for 24h0m0s after completion at least, and from then on until you approve the step Delete.",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, open(tc.m)); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}
