package v1alpha1_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/castoff-sh/castoff/api/v1alpha1"
)

var when = metav1.NewTime(time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC))

func TestStatusValidates(t *testing.T) {
	long := func(n int) string { return strings.Repeat("a", n) }
	blockers := func(n int) []v1alpha1.Blocker {
		out := make([]v1alpha1.Blocker, n)
		for i := range out {
			out[i] = v1alpha1.Blocker{Severity: v1alpha1.SeverityWait, Reason: "Draining"}
		}
		return out
	}
	operations := func(n int) []v1alpha1.Operation {
		out := make([]v1alpha1.Operation, n)
		for i := range out {
			out[i].ID = fmt.Sprintf("SetGroupSize/g%d", i)
		}
		return out
	}
	cases := map[string]struct {
		reason string
		change func(*v1alpha1.MigrationStatus)
		want   string
	}{
		"Phase": {
			reason: "a phase of this version",
			change: func(s *v1alpha1.MigrationStatus) { s.Phase = v1alpha1.PhaseShifting },
			want:   accepted,
		},
		"PhaseUnknown": {
			reason: "the set is closed",
			change: func(s *v1alpha1.MigrationStatus) { s.Phase = "Draining" },
			want:   "status.phase: Unsupported value",
		},
		"PoolPhase": {
			reason: "a phase of this version",
			change: func(s *v1alpha1.MigrationStatus) {
				s.Pools = []v1alpha1.PoolStatus{{Name: "a", Phase: v1alpha1.PoolSoaking}}
			},
			want: accepted,
		},
		"PoolPhaseUnknown": {
			reason: "the set is closed",
			change: func(s *v1alpha1.MigrationStatus) { s.Pools = []v1alpha1.PoolStatus{{Name: "a", Phase: "Gone"}} },
			want:   "status.pools[0].phase: Unsupported value",
		},
		"PoolTwice": {
			reason: "a pool is listed once",
			change: func(s *v1alpha1.MigrationStatus) { s.Pools = []v1alpha1.PoolStatus{{Name: "a"}, {Name: "a"}} },
			want:   "status.pools[1]: Duplicate value",
		},
		"Severity": {
			reason: "a severity of this version",
			change: func(s *v1alpha1.MigrationStatus) { s.Blockers = blockers(1) },
			want:   accepted,
		},
		"SeverityUnknown": {
			reason: "the set is closed",
			change: func(s *v1alpha1.MigrationStatus) { s.Blockers = blockers(1); s.Blockers[0].Severity = "Info" },
			want:   "status.blockers[0].severity: Unsupported value",
		},
		"Blockers20": {
			reason: "as many as are shown",
			change: func(s *v1alpha1.MigrationStatus) { s.Blockers = blockers(20) },
			want:   accepted,
		},
		"Blockers21": {
			reason: "the list is bounded",
			change: func(s *v1alpha1.MigrationStatus) { s.Blockers = blockers(21) },
			want:   "status.blockers: Too many: 21: must have at most 20 items",
		},
		"BlockerTooLong": {
			reason: "messages are bounded",
			change: func(s *v1alpha1.MigrationStatus) { s.Blockers = blockers(1); s.Blockers[0].Message = long(1025) },
			want:   "status.blockers[0].message: Too long",
		},
		"Operations20": {
			reason: "a full ledger",
			change: func(s *v1alpha1.MigrationStatus) { s.Operations = operations(20) },
			want:   accepted,
		},
		"Operations21": {
			reason: "the ledger is bounded",
			change: func(s *v1alpha1.MigrationStatus) { s.Operations = operations(21) },
			want:   "status.operations: Too many: 21: must have at most 20 items",
		},
		"OperationTwice": {
			reason: "one entry a target, or two effects would be pending on it",
			change: func(s *v1alpha1.MigrationStatus) { s.Operations = append(operations(1), operations(1)...) },
			want:   "status.operations[1]: Duplicate value",
		},
		"Waves65": {
			reason: "the list is bounded",
			change: func(s *v1alpha1.MigrationStatus) { s.Waves = make([]v1alpha1.WaveStatus, 65) },
			want:   "status.waves: Too many: 65: must have at most 64 items",
		},
		"SnapshotNoDigest": {
			reason: "a snapshot that cannot be checked is none",
			change: func(s *v1alpha1.MigrationStatus) { s.Snapshot = snapshotReference("") },
			want:   "status.snapshot.sha256: Required value",
		},
		"SnapshotHalfADigest": {
			reason: "nor is one with half a digest",
			change: func(s *v1alpha1.MigrationStatus) { s.Snapshot = snapshotReference(long(32)) },
			want:   "sha256 in body should be at least 64 chars long",
		},
		"BlockedByTooLong": {
			reason: "it is a column",
			change: func(s *v1alpha1.MigrationStatus) { s.BlockedBy = long(257) },
			want:   "status.blockedBy: Too long",
		},
		"ReportNoNamespace": {
			reason: "a ConfigMap is in a namespace",
			change: func(s *v1alpha1.MigrationStatus) { s.Report = &v1alpha1.ObjectReference{Name: "r"} },
			want:   "status.report.namespace: Required value",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			m := created(t, migration())
			tc.change(&m.Status)
			if diff := cmp.Diff(tc.want, verdict(api.Status().Update(t.Context(), m), tc.want)); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

func snapshotReference(digest string) *v1alpha1.SnapshotReference {
	return &v1alpha1.SnapshotReference{ObjectReference: v1alpha1.ObjectReference{Namespace: "castoff-system", Name: "snapshot"}, SHA256: digest}
}

func TestStatusIsASubresource(t *testing.T) {
	m := created(t, migration())
	m.Status.Phase = v1alpha1.PhaseCompleted
	m.Spec.Paused = true
	if err := api.Update(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if m.Status.Phase != "" {
		t.Errorf("an update of the spec wrote phase %q: users may not write what castoff sees", m.Status.Phase)
	}
	m.Status.Phase, m.Spec.Paused = v1alpha1.PhasePaused, false
	if err := api.Status().Update(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if !m.Spec.Paused {
		t.Error("an update of the status wrote the spec: castoff may not change what users want")
	}
}

// The ETA is a string: kubectl prints a date as the time since, and has no word for one to come.
func TestPrintedColumns(t *testing.T) {
	want := []apiextensionsv1.CustomResourceColumnDefinition{
		{Name: "Phase", Type: "string", JSONPath: ".status.phase"},
		{Name: "Pools", Type: "string", JSONPath: ".status.poolsDone"},
		{Name: "Nodes", Type: "string", JSONPath: ".status.nodesDone"},
		{Name: "Blocked By", Type: "string", JSONPath: ".status.blockedBy"},
		{Name: "Ready", Type: "string", JSONPath: `.status.conditions[?(@.type=="Ready")].status`},
		{Name: "ETA", Type: "string", JSONPath: ".status.estimatedCompletionTime"},
		{Name: "Age", Type: "date", JSONPath: ".metadata.creationTimestamp"},
	}
	if diff := cmp.Diff(want, definition.Spec.Versions[0].AdditionalPrinterColumns); diff != "" {
		t.Errorf("kubectl get migrations: -want +got\n%s", diff)
	}
}

func TestNames(t *testing.T) {
	want := apiextensionsv1.CustomResourceDefinitionNames{
		Plural: "migrations", Singular: "migration", Kind: "Migration", ListKind: "MigrationList", ShortNames: []string{"mig"}, Categories: []string{"castoff"},
	}
	if diff := cmp.Diff(want, definition.Spec.Names); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if definition.Spec.Scope != apiextensionsv1.ClusterScoped {
		t.Errorf("scope %s: a Migration is about the whole cluster", definition.Spec.Scope)
	}
}

// Budget: DESIGN promises a status of less than 64 KiB at 1,000 nodes, so that it is far from etcd's 1.5 MiB and cheap to watch.
const statusBudget = 64 << 10

func TestStatusOfAThousandNodesIsSmall(t *testing.T) {
	m := created(t, migration())
	m.Status = fullStatus()
	if err := api.Status().Update(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	stored := &v1alpha1.Migration{}
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(m), stored); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(fullStatus(), stored.Status); diff != "" {
		t.Errorf("the API server kept something else: -want +got\n%s", diff)
	}
	b, err := json.Marshal(stored.Status)
	if err != nil {
		t.Fatal(err)
	}
	if len(b) > statusBudget {
		t.Errorf("a full status has %d bytes, more than %d", len(b), statusBudget)
	}
	t.Logf("a full status has %d bytes of %d", len(b), statusBudget)
}

// fullStatus is what 1,000 nodes in 60 groups and 20 pools can make of a status: every list as long as castoff lets it grow,
// names as long as eksctl makes them, messages that name three objects, and a ledger that ends 50 instances in each of five groups.
func fullStatus() v1alpha1.MigrationStatus {
	name := func(kind string, i int) string { return fmt.Sprintf("%s-%02d-%s", kind, i, strings.Repeat("x", 40)) }
	message := strings.Repeat("pod/namespace/name waits. ", 20) // 520 bytes
	s := v1alpha1.MigrationStatus{
		ObservedGeneration: 7, Phase: v1alpha1.PhaseShifting, PoolsDone: "10/20", NodesDone: "500/1000", BlockedBy: strings.Repeat("b", 256),
		Home: name("home", 0), Snapshot: snapshotReference(strings.Repeat("0", 64)), StartTime: &when, EstimatedCompletionTime: &when,
		Report: &v1alpha1.ObjectReference{Namespace: "castoff-system", Name: "report"},
	}
	for _, c := range v1alpha1.ConditionTypes {
		s.Conditions = append(s.Conditions, metav1.Condition{
			Type: c, Status: metav1.ConditionFalse, Reason: "Progressing", Message: message, ObservedGeneration: 7, LastTransitionTime: when,
		})
	}
	wave := v1alpha1.WaveStatus{Name: "all", ReleasedTime: &when, ServedTime: &when}
	for i := range 20 {
		pool := name("pool", i)
		wave.Pools = append(wave.Pools, pool)
		s.Pools = append(s.Pools, v1alpha1.PoolStatus{
			Name: pool, NodePool: pool, NodeGroups: []string{name("a", i), name("b", i), name("c", i)}, Phase: v1alpha1.PoolDraining,
			Nodes: 50, NodesLeft: 25, NodesDraining: 5, PodsLeft: 150, StartTime: &when, DrainedTime: &when, CompletionTime: &when,
		})
		s.Blockers = append(s.Blockers, v1alpha1.Blocker{
			Severity: v1alpha1.SeverityBlock, Reason: "BlockedByDisruptionBudget", Object: name("pod/namespace/pod", i), Pool: pool, Message: message, Since: &when,
		})
		s.Operations = append(s.Operations, operation(i, name("EndInstances/group", i)))
	}
	s.Waves = []v1alpha1.WaveStatus{wave}
	return s
}

func operation(i int, id string) v1alpha1.Operation {
	o := v1alpha1.Operation{ID: id, Detail: "min=0 max=50 desired=50", Attempts: 3, StartTime: &when, DoneTime: &when, Error: strings.Repeat("e", 200)}
	if i < 5 {
		o.Detail = strings.TrimSuffix(strings.Repeat("i-0123456789abcdef0 ", 50), " ")
	}
	return o
}

func TestScheme(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for _, o := range []runtime.Object{&v1alpha1.Migration{}, &v1alpha1.MigrationList{}} {
		kinds, _, err := scheme.ObjectKinds(o)
		if err != nil || len(kinds) != 1 || kinds[0].GroupVersion() != v1alpha1.GroupVersion {
			t.Errorf("%T is %v, %v", o, kinds, err)
		}
	}
}

// A copy shares nothing with its original: the cache's objects are read by several reconciles.
func TestDeepCopySharesNothing(t *testing.T) {
	m := migration(home("system"), pools(pool("a", "g")), risk("BarePod", "*", "x"), soak(5))
	m.Spec.ApprovedSteps = []v1alpha1.ApprovalStep{v1alpha1.ApproveStart}
	m.Status = fullStatus()
	want := m.DeepCopy()
	c, ok := m.DeepCopyObject().(*v1alpha1.Migration)
	if !ok {
		t.Fatal("a copy of a Migration is a Migration")
	}
	c.Spec.Home.NodeGroup, c.Spec.Pools[0].NodeGroups[0], c.Spec.ApprovedSteps[0] = "z", "z", "z"
	c.Spec.AcceptedRisks[0].Reason, *c.Spec.Strategy.SoakSeconds = "z", 9
	c.Status.Conditions[0].Message, c.Status.Blockers[0].Since = "z", ptr.To(metav1.Now())
	c.Status.Pools[0].NodeGroups[0], c.Status.Waves[0].Pools[0], c.Status.Operations[0].ID = "z", "z", "z"
	c.Status.Snapshot.SHA256, c.Status.Report.Name = "z", "z"
	c.Status.Pools[0].StartTime.Time = time.Time{}
	if diff := cmp.Diff(want, m); diff != "" {
		t.Errorf("the original changed: -want +got\n%s", diff)
	}
}
