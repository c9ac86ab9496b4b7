package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/castoff-sh/castoff/api/v1alpha1"
)

func TestStatus(t *testing.T) {
	drains := migrationNamed("prod", func(m *v1alpha1.Migration) {
		m.Status = v1alpha1.MigrationStatus{
			Phase: v1alpha1.PhaseShifting, PoolsDone: "1/2", NodesDone: "4/14",
			Pools:      []v1alpha1.PoolStatus{{Name: "general", Phase: v1alpha1.PoolDraining, Nodes: 10, NodesLeft: 6, NodesDraining: 1, PodsLeft: 3, NodePool: "general"}, {Name: "b", Phase: v1alpha1.PoolDone}},
			Conditions: []metav1.Condition{{Type: "Ready", Status: metav1.ConditionFalse, Reason: "Progressing", Message: "Draining general."}},
			Blockers:   []v1alpha1.Blocker{{Severity: v1alpha1.SeverityWait, Reason: "DisruptionBudget", Object: "pod/shop/web", Message: "No room in shop/web."}},
		}
	})
	cases := map[string]struct {
		reason string
		m      *v1alpha1.Migration
		want   string
	}{
		"New": {
			reason: "no table of nothing",
			m:      migrationNamed("prod"),
			want:   "Migration prod of cluster prod: castoff has not looked at it yet. Is it running? kubectl get pods -n castoff-system\n",
		},
		"Shifting": {
			reason: "pools, conditions, and what is waited for",
			m:      drains,
			want: `Migration prod of cluster prod: Shifting, pools 1/2, nodes 4/14

POOL     PHASE     NODES LEFT  DRAINING  PODS LEFT  NODEPOOL
general  Draining  6/10        1         3          general
b        Done      0/0         0         0          

CONDITION  STATUS  REASON       MESSAGE
Ready      False   Progressing  Draining general.

Wait DisruptionBudget pod/shop/web
  No room in shop/web.
`,
		},
		"Paused": {
			reason: "both ways out of it",
			m: migrationNamed("prod", at(v1alpha1.PhasePaused, v1alpha1.PoolDone, v1alpha1.PoolFenced, 0, 3), func(m *v1alpha1.Migration) {
				m.Status.PoolsDone, m.Status.NodesDone = "1/2", "11/14"
			}),
			want: `Migration prod of cluster prod: Paused, pools 1/2, nodes 11/14
Go on: kubectl castoff resume prod. Back to Cluster Autoscaler: kubectl castoff rollback prod.

POOL     PHASE   NODES LEFT  DRAINING  PODS LEFT  NODEPOOL
general  Done    0/10        0         0          
batch    Fenced  3/4         0         0          

CONDITION  STATUS  REASON  MESSAGE
`,
		},
		"RollingBack": {
			reason: "an old node that is there is progress now; one more than recorded does not hide one that is missing",
			m: migrationNamed("prod", at(v1alpha1.PhaseRollingBack, v1alpha1.PoolFenced, v1alpha1.PoolPending, 7, 5), func(m *v1alpha1.Migration) {
				m.Status.PoolsDone, m.Status.NodesDone = "0/2", "3/14"
			}),
			want: `Migration prod of cluster prod: RollingBack, old nodes back 11/14
On its way back to Cluster Autoscaler. Stop there: kubectl castoff pause prod. Forward again: kubectl castoff resume prod.

POOL     PHASE    NODES BACK  DRAINING  PODS LEFT  NODEPOOL
general  Fenced   7/10        0         0          
batch    Pending  5/4         0         0          

CONDITION  STATUS  REASON  MESSAGE
`,
		},
		"RolledBack": {
			reason: "the end, and the way on",
			m:      migrationNamed("prod", at(v1alpha1.PhaseRolledBack, v1alpha1.PoolPending, v1alpha1.PoolPending, 10, 4)),
			want: `Migration prod of cluster prod: RolledBack, old nodes back 14/14
Everything is back with Cluster Autoscaler. Begin again: kubectl castoff resume prod.

POOL     PHASE    NODES BACK  DRAINING  PODS LEFT  NODEPOOL
general  Pending  10/10       0         0          
batch    Pending  4/4         0         0          

CONDITION  STATUS  REASON  MESSAGE
`,
		},
		"Completed": {
			reason: "for how long the way back is open",
			m: migrationNamed("prod", completed, deleting, func(m *v1alpha1.Migration) {
				m.Status.PoolsDone, m.Status.NodesDone = "2/2", "14/14"
				m.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionRollbackAvailable, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonTaken, Message: "All is kept."}}
			}),
			want: `Migration prod of cluster prod: Completed, pools 2/2, nodes 14/14
The way back is open until 2026-05-05 03:02 UTC at least, and from then on until you approve the step Delete.

POOL     PHASE  NODES LEFT  DRAINING  PODS LEFT  NODEPOOL
general  Done   0/10        0         0          
batch    Done   0/4         0         0          

CONDITION          STATUS  REASON  MESSAGE
RollbackAvailable  True    Taken   All is kept.
`,
		},
		"CompletedAndDeleted": {
			reason: "no word of a way that is closed, but the condition's",
			m: migrationNamed("prod", completed, deleting, func(m *v1alpha1.Migration) {
				m.Status.Pools, m.Status.PoolsDone, m.Status.NodesDone = nil, "0/0", "0/0"
				m.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionRollbackAvailable, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonDeleted, Message: "Gone."}}
			}),
			want: `Migration prod of cluster prod: Completed, pools 0/0, nodes 0/0

POOL  PHASE  NODES LEFT  DRAINING  PODS LEFT  NODEPOOL

CONDITION          STATUS  REASON   MESSAGE
RollbackAvailable  False   Deleted  Gone.
`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := run(t, fakeClient(t, refuseWrites(t), tc.m), nil, "", "status", "prod")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

func TestReport(t *testing.T) {
	reported := migrationNamed("prod", func(m *v1alpha1.Migration) {
		m.Status.Report = &v1alpha1.ObjectReference{Namespace: "castoff-system", Name: "prod-report"}
	})
	text := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "castoff-system", Name: "prod-report"}, Data: map[string]string{"report.txt": "Blocks (1)\n"}}
	cases := map[string]struct {
		reason   string
		objects  []client.Object
		out, err string
	}{
		"Text": {
			reason:  "as castoff wrote it",
			objects: []client.Object{reported, text},
			out:     "Blocks (1)\n",
		},
		"None": {
			reason:  "castoff has not looked yet",
			objects: []client.Object{migrationNamed("prod")},
			err:     "there is no report of Migration prod yet: is castoff running? kubectl get pods -n castoff-system",
		},
		"Gone": {
			reason:  "somebody deleted it",
			objects: []client.Object{reported},
			err:     `reading the report castoff-system/prod-report: configmaps "prod-report" not found`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			out, err := run(t, fakeClient(t, refuseWrites(t), tc.objects...), nil, "", "report", "prod")
			if diff := cmp.Diff([]string{tc.out, tc.err}, []string{out, message(err)}); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}
