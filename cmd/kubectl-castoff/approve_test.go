package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/castoff-sh/castoff/api/v1alpha1"
)

func approved(steps ...v1alpha1.ApprovalStep) func(*v1alpha1.Migration) {
	return func(m *v1alpha1.Migration) { m.Spec.ApprovedSteps = steps }
}

func automatic(m *v1alpha1.Migration) { m.Spec.Approval = v1alpha1.ApprovalAutomatic }

// deleting is a Migration that deletes what it no longer needs.
func deleting(m *v1alpha1.Migration) { m.Spec.Decommission.Mode = v1alpha1.DecommissionDelete }

func TestStepOf(t *testing.T) {
	both := approved(v1alpha1.ApproveStart, v1alpha1.ApproveHandOver)
	const asksNobody = "approval of Migration prod is Automatic: it asks for nothing but Delete. Set spec.approval: Manual to be asked"
	const deletesNothing = "the Migration prod deletes nothing: spec.decommission.mode and spec.decommission.clusterAutoscaler are both ScaleToZero. Set one of them to Delete first"
	cases := map[string]struct {
		reason string
		m      *v1alpha1.Migration
		asked  []string
		want   v1alpha1.ApprovalStep
		err    string
	}{
		"First": {
			reason: "in order",
			m:      migrationNamed("prod"),
			want:   v1alpha1.ApproveStart,
		},
		"Second": {
			reason: "in order",
			m:      migrationNamed("prod", approved(v1alpha1.ApproveStart)),
			want:   v1alpha1.ApproveHandOver,
		},
		"Gap": {
			reason: "the first that is missing, not the one after the last",
			m:      migrationNamed("prod", approved(v1alpha1.ApproveHandOver)),
			want:   v1alpha1.ApproveStart,
		},
		"Asked": {
			reason: "whoever names a step means it",
			m:      migrationNamed("prod"),
			asked:  []string{"HandOver"},
			want:   v1alpha1.ApproveHandOver,
		},
		"AnyCase": {
			reason: "shells have no capitals",
			m:      migrationNamed("prod"),
			asked:  []string{"handover"},
			want:   v1alpha1.ApproveHandOver,
		},
		"Approved": {
			reason: "the command says that there is nothing to do",
			m:      migrationNamed("prod", both),
			asked:  []string{"Start"},
			want:   v1alpha1.ApproveStart,
		},
		"AllApproved": {
			reason: "Delete is never the next step: asked once too often, the way back would be gone",
			m:      migrationNamed("prod", both, deleting),
			err:    "every step of Migration prod is approved, but for Delete, which has to be named: kubectl castoff approve prod Delete",
		},
		"Unknown": {
			reason: "the steps there are",
			m:      migrationNamed("prod"),
			asked:  []string{"Installing"},
			err:    `unknown step "Installing": known are [Start HandOver Delete]`,
		},
		"Automatic": {
			reason: "it would not wait for the answer",
			m:      migrationNamed("prod", automatic),
			err:    asksNobody,
		},
		"AutomaticNamed": {
			reason: "nor if the step is named",
			m:      migrationNamed("prod", automatic),
			asked:  []string{"Start"},
			err:    asksNobody,
		},
		"AutomaticNone": {
			reason: "silent is Automatic",
			m:      migrationNamed("prod", func(m *v1alpha1.Migration) { m.Spec.Approval = "" }),
			err:    asksNobody,
		},
		"Delete": {
			reason: "whoever names it means it, before the others too",
			m:      migrationNamed("prod", deleting),
			asked:  []string{"delete"},
			want:   v1alpha1.ApproveDelete,
		},
		"DeleteAutomatic": {
			reason: "the one step that waits whatever the approval",
			m:      migrationNamed("prod", automatic, deleting),
			asked:  []string{"Delete"},
			want:   v1alpha1.ApproveDelete,
		},
		"DeleteAutoscaler": {
			reason: "one of the two is enough",
			m:      migrationNamed("prod", func(m *v1alpha1.Migration) { m.Spec.Decommission.ClusterAutoscaler = v1alpha1.DecommissionDelete }),
			asked:  []string{"Delete"},
			want:   v1alpha1.ApproveDelete,
		},
		"DeleteNothing": {
			reason: "an approval that waits for a later change of the spec would be a trap",
			m:      migrationNamed("prod"),
			asked:  []string{"Delete"},
			err:    deletesNothing,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := stepOf(tc.m, tc.asked)
			if diff := cmp.Diff([]string{string(tc.want), tc.err}, []string{string(got), message(err)}); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

func TestEveryStepSaysWhatItDoes(t *testing.T) {
	for _, s := range steps {
		if says := consequences[s]; says == nil || len(says(migrationNamed("prod"))) == 0 {
			t.Errorf("step %s is approved blindly", s)
		}
	}
}

func TestApproval(t *testing.T) {
	const start = "castoff records a snapshot, disables the scaling policies and removes the scheduled actions of the migrating groups, and installs Karpenter. No pod moves, and Cluster Autoscaler stays in charge."
	const ends = "It ends the way back for good: from the first deletion on RollbackAvailable is False, and kubectl castoff rollback refuses."
	const groups = "Deleted, with their scaling policies: the node groups of 2 pools (general, batch). Never one that still has an instance, and never one that Terraform, CloudFormation or eksctl owns."
	const autoscaler = "Deleted: Cluster Autoscaler's Deployment with its Lease, and node-termination-handler."
	awaiting := v1alpha1.Blocker{Severity: v1alpha1.SeverityBlock, Reason: v1alpha1.ReasonAwaitingApproval, Object: "migration/prod"}
	bare := v1alpha1.Blocker{Severity: v1alpha1.SeverityBlock, Reason: "BarePod", Object: "pod/shop/debug", Message: "Delete it."}
	budget := v1alpha1.Blocker{Severity: v1alpha1.SeverityWait, Reason: "DisruptionBudget", Object: "pod/shop/web", Message: "No room."}
	cases := map[string]struct {
		reason string
		m      *v1alpha1.Migration
		step   string
		want   []string
	}{
		"Start": {
			reason: "what it does",
			m:      migrationNamed("prod"),
			step:   "Start",
			want:   []string{start},
		},
		"Blocked": {
			reason: "an approval does not mend what blocks; what is asked for here, and what ends by itself, is no news",
			m:      migrationNamed("prod", func(m *v1alpha1.Migration) { m.Status.Blockers = []v1alpha1.Blocker{awaiting, budget, bare} }),
			step:   "Start",
			want:   []string{start, "Blocked now, and goes on as soon as that is mended: BarePod pod/shop/debug: Delete it."},
		},
		"Paused": {
			reason: "an approval ends no pause",
			m:      migrationNamed("prod", paused),
			step:   "Start",
			want:   []string{start, "spec.paused is true: not before it is resumed, with kubectl castoff resume prod."},
		},
		"DeleteGroups": {
			reason: "what goes, what does not, and when",
			m:      migrationNamed("prod", deleting, completed),
			step:   "Delete",
			want:   []string{ends, groups, "Not before 2026-05-05 03:02 UTC, the end of the retention."},
		},
		"DeleteBoth": {
			reason: "each by its own field",
			m: migrationNamed("prod", deleting, completed, func(m *v1alpha1.Migration) {
				m.Spec.Decommission.ClusterAutoscaler = v1alpha1.DecommissionDelete
			}),
			step: "Delete",
			want: []string{ends, groups, autoscaler, "Not before 2026-05-05 03:02 UTC, the end of the retention."},
		},
		"DeleteEarly": {
			reason: "may be approved before its time, and waits for it",
			m:      migrationNamed("prod", shifting, func(m *v1alpha1.Migration) { m.Spec.Decommission.ClusterAutoscaler = v1alpha1.DecommissionDelete }),
			step:   "Delete",
			want:   []string{ends, autoscaler, "Not before the migration is Completed and its retention of 24h0m0s is over."},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := approval(tc.m, []string{tc.step})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got.says); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
			if want := "approve " + tc.step; got.name != want {
				t.Errorf("named %q, want %q", got.name, want)
			}
		})
	}
}
