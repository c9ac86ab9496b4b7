package controllers

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/plan"
)

func long(n int) string { return strings.Repeat("a", n) }

func migration() *v1alpha1.Migration {
	return &v1alpha1.Migration{ObjectMeta: metav1.ObjectMeta{Name: "prod", UID: "uid-1", Generation: 3}}
}

func blocker(severity v1alpha1.Severity, reason, object string) v1alpha1.Blocker {
	return v1alpha1.Blocker{Severity: severity, Reason: reason, Object: object}
}

// largest is a decision about 1,000 nodes in 64 pools, all of which are ending, where all that can be said is said at length.
// Names are longer than anybody's.
func largest(now time.Time) plan.Decision {
	d := plan.Decision{Phase: v1alpha1.PhaseHandingOver, Until: now, ETA: now}
	at := metav1.NewTime(now)
	for i := range 100 {
		d.Blockers = append(d.Blockers, v1alpha1.Blocker{
			Severity: v1alpha1.SeverityBlock, Reason: long(64), Object: fmt.Sprintf("pod/%d/%s", i, long(600)), Pool: long(63), Message: long(5000), Since: &at,
		})
	}
	wave := v1alpha1.WaveStatus{Name: "wave-1", ReleasedTime: &at, ServedTime: &at}
	for i := range 64 {
		name := fmt.Sprintf("%s%02d", long(38), i)
		wave.Pools = append(wave.Pools, name)
		d.Pools = append(d.Pools, v1alpha1.PoolStatus{
			Name: name, NodePool: name, NodeGroups: []string{long(40)}, Phase: v1alpha1.PoolDraining,
			Nodes: 16, NodesLeft: 16, NodesDraining: 16, PodsLeft: 1760, StartTime: &at, DrainedTime: &at, CompletionTime: &at,
		})
	}
	d.Waves = []v1alpha1.WaveStatus{wave}
	for i := range 20 { // fifty instances each: a thousand in all
		ids := strings.Repeat("i-0123456789abcdef0:", 50)
		d.Operations = append(d.Operations, v1alpha1.Operation{
			ID: fmt.Sprintf("EndInstances/%02d%s", i, long(80)), Detail: ids, Attempts: 3, StartTime: &at, DoneTime: &at, Error: long(512),
		})
	}
	for _, kind := range v1alpha1.ConditionTypes {
		d.Conditions = append(d.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: long(64), Message: long(40000)})
	}
	return d
}

func TestTheLargestStatusFits(t *testing.T) {
	w := newWorld(t)
	r := w.reconciler()
	m := migration()
	apply(t, w)
	m.ResourceVersion = get(t, w).ResourceVersion
	before := m.DeepCopy()
	r.project(m, plan.World{Home: long(255), Snapshot: &inventory.Snapshot{Taken: w.now}, SnapshotSHA256: testSHA}, largest(w.now))
	results := []result{{action: plan.EvictPods{Node: "n", Pool: long(63)}, drain: manyBlocked(500)}}
	for range 30 {
		results = append(results, result{action: plan.InstallEngine{}, err: inventory.Terminal(errors.New(long(9000)))})
	}
	r.report(m, results)
	w.must(r.write(t.Context(), before, m))
	stored := get(t, w).Status
	b, err := json.Marshal(stored)
	w.must(err)
	if len(b) >= maxStatus {
		t.Errorf("the status takes %d bytes, want less than %d", len(b), maxStatus)
	}
	if len(stored.Pools) != 64 || len(stored.Operations) != 20 || len(stored.Blockers) == 0 || len(stored.Conditions) != 9 {
		t.Errorf("%d pools, %d operations, %d blockers, %d conditions are left", len(stored.Pools), len(stored.Operations), len(stored.Blockers), len(stored.Conditions))
	}
	if got := stored.Operations[7].Detail; got != largest(w.now).Operations[7].Detail {
		t.Error("an entry of the ledger was shortened: its effect would never be seen")
	}
	for what, n := range tooLong(stored) {
		t.Errorf("%s has %d bytes or items", what, n)
	}
}

// tooLong holds a status against the API's bounds.
func tooLong(s v1alpha1.MigrationStatus) map[string]int {
	out := map[string]int{}
	limit := func(what string, n, most int) {
		if n > most {
			out[what] = n
		}
	}
	limit("blockers", len(s.Blockers), 20)
	limit("pools", len(s.Pools), 64)
	limit("operations", len(s.Operations), 20)
	limit("home", len(s.Home), 255)
	limit("blockedBy", len(s.BlockedBy), 256)
	limit("poolsDone", len(s.PoolsDone), 16)
	limit("nodesDone", len(s.NodesDone), 16)
	for i, b := range s.Blockers {
		limit(fmt.Sprintf("message of blocker %d", i), len(b.Message), 1024)
		limit(fmt.Sprintf("object of blocker %d", i), len(b.Object), 512)
		limit(fmt.Sprintf("pool of blocker %d", i), len(b.Pool), 63)
		limit(fmt.Sprintf("reason of blocker %d", i), len(b.Reason), 64)
	}
	for _, c := range s.Conditions {
		limit("message of "+c.Type, len(c.Message), 32768)
	}
	for _, o := range s.Operations {
		limit("error of "+o.ID, len(o.Error), 512)
	}
	return out
}

// TestFitShortensNoMoreThanItMust: a status that fits is left alone.
func TestFitShortensNoMoreThanItMust(t *testing.T) {
	cases := map[string]struct {
		reason                  string
		blockers, message, want int
		left                    int
	}{
		"Small":   {reason: "fits", blockers: 20, message: 1024, want: 1024, left: 20},
		"Bigger":  {reason: "the first step is enough", blockers: 50, message: 1400, want: 512, left: 20},
		"Biggest": {reason: "one step halves the words, and keeps every blocker", blockers: 20, message: 6000, want: 512, left: 20},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var s v1alpha1.MigrationStatus
			for range tc.blockers {
				s.Blockers = append(s.Blockers, v1alpha1.Blocker{Severity: v1alpha1.SeverityWait, Reason: "Draining", Message: long(tc.message)})
			}
			if err := fit(&s); err != nil {
				t.Fatal(err)
			}
			if len(s.Blockers) != tc.left || len(s.Blockers[0].Message) != tc.want {
				t.Errorf("%s: %d blockers of %d bytes, want %d of %d", tc.reason, len(s.Blockers), len(s.Blockers[0].Message), tc.left, tc.want)
			}
		})
	}
}

func manyBlocked(n int) *inventory.DrainState {
	d := &inventory.DrainState{Node: "n", Evictable: n}
	for i := range n {
		d.Blocked = append(d.Blocked, inventory.BlockedPod{
			Pod: types.NamespacedName{Namespace: long(63), Name: fmt.Sprintf("%d%s", i, long(250))}, Reason: inventory.BlockedByPDB, Message: long(3000),
		})
	}
	return d
}

func TestBounded(t *testing.T) {
	waits := make([]v1alpha1.Blocker, 25)
	for i := range waits {
		waits[i] = blocker(v1alpha1.SeverityWait, "Draining", fmt.Sprintf("node/%d", i))
	}
	human := blocker(v1alpha1.SeverityBlock, "BarePod", "pod/a/b")
	warn := blocker(v1alpha1.SeverityWarn, "NotCarriedOver", "pool/a")
	cases := map[string]struct {
		reason string
		in     []v1alpha1.Blocker
		want   []v1alpha1.Blocker
	}{
		"None":       {reason: "nothing blocks", in: nil, want: nil},
		"HumanFirst": {reason: "what needs a human is read first", in: []v1alpha1.Blocker{warn, waits[0], human}, want: []v1alpha1.Blocker{human, waits[0], warn}},
		"Twenty":     {reason: "the list of the API ends at twenty, and what ends by itself gives way", in: append(slices.Clone(waits), warn, human), want: append([]v1alpha1.Blocker{human}, waits[:19]...)},
		"Cut": {
			reason: "strings end at the API's bounds",
			in:     []v1alpha1.Blocker{{Severity: v1alpha1.SeverityWait, Object: long(600), Message: long(2000)}},
			want:   []v1alpha1.Blocker{{Severity: v1alpha1.SeverityWait, Object: long(509) + "...", Message: long(1021) + "..."}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, bounded(tc.in)); diff != "" {
				t.Errorf("%s (-want +got)\n%s", tc.reason, diff)
			}
		})
	}
}

func TestSummary(t *testing.T) {
	cases := map[string]struct {
		reason string
		in     []v1alpha1.Blocker
		want   string
	}{
		"Nothing":  {reason: "an empty column says that nothing blocks"},
		"Warning":  {reason: "what stops nothing is not waited for", in: []v1alpha1.Blocker{blocker(v1alpha1.SeverityWarn, "NotCarriedOver", "pool/a")}},
		"One":      {reason: "reason and object", in: []v1alpha1.Blocker{blocker(v1alpha1.SeverityWait, "Draining", "node/a")}, want: "Draining node/a"},
		"NoObject": {reason: "a reason alone", in: []v1alpha1.Blocker{blocker(v1alpha1.SeverityWait, "Throttled", "")}, want: "Throttled"},
		"More": {
			reason: "the human's first, the others counted without warnings",
			in: []v1alpha1.Blocker{
				blocker(v1alpha1.SeverityWait, "Draining", "node/a"), blocker(v1alpha1.SeverityWarn, "NotCarriedOver", "pool/a"),
				blocker(v1alpha1.SeverityBlock, "BarePod", "pod/a/b"), blocker(v1alpha1.SeverityWait, "Draining", "node/b"),
			},
			want: "BarePod pod/a/b (+2)",
		},
		"Long": {reason: "256 bytes at most", in: []v1alpha1.Blocker{blocker(v1alpha1.SeverityWait, "Draining", long(400))}, want: "Draining " + long(244) + "..."},
		"LongAndMore": {
			reason: "the count is not what is cut",
			in:     []v1alpha1.Blocker{blocker(v1alpha1.SeverityWait, "Draining", long(400)), blocker(v1alpha1.SeverityWait, "Draining", "node/b")},
			want:   "Draining " + long(228) + "... (+1)",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := summary(tc.in); got != tc.want || len(got) > maxSummary {
				t.Errorf("%s: %q (%d bytes), want %q", tc.reason, got, len(got), tc.want)
			}
		})
	}
}

func TestCounters(t *testing.T) {
	at := metav1.Now()
	cases := map[string]struct {
		reason       string
		pools        []v1alpha1.PoolStatus
		pools1, node string
	}{
		"None":     {reason: "before the first look", pools1: "0/0", node: "0/0"},
		"Half":     {reason: "a pool that is done counts with its nodes", pools: []v1alpha1.PoolStatus{{Nodes: 3, CompletionTime: &at}, {Nodes: 5, NodesLeft: 4}}, pools1: "1/2", node: "4/8"},
		"LateNode": {reason: "a node that joined after the snapshot makes nothing negative", pools: []v1alpha1.PoolStatus{{Nodes: 3, NodesLeft: 5}}, pools1: "0/1", node: "0/3"},
		"Thousand": {reason: "fits its column", pools: []v1alpha1.PoolStatus{{Nodes: 1000, NodesLeft: 1}}, pools1: "0/1", node: "999/1000"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pools, nodes := counters(tc.pools)
			if pools != tc.pools1 || nodes != tc.node {
				t.Errorf("%s: %s and %s, want %s and %s", tc.reason, pools, nodes, tc.pools1, tc.node)
			}
		})
	}
}

func TestCut(t *testing.T) {
	cases := map[string]struct {
		reason, in string
		n          int
		want       string
	}{
		"Short":  {reason: "left alone", in: "abc", n: 5, want: "abc"},
		"Exact":  {reason: "the bound itself fits", in: "abcde", n: 5, want: "abcde"},
		"Long":   {reason: "says that something is missing", in: "abcdef", n: 5, want: "ab..."},
		"Rune":   {reason: "a rune is not split: half of one is no valid string for the API server", in: "aéééé", n: 5, want: "a..."},
		"Whole":  {reason: "a rune that fits stays", in: "éééé", n: 5, want: "é..."},
		"Emptyy": {reason: "nothing to cut", in: "", n: 5, want: ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := cut(tc.in, tc.n)
			if got != tc.want || !utf8.ValidString(got) {
				t.Errorf("%s: %q, want %q", tc.reason, got, tc.want)
			}
		})
	}
}

func TestProject(t *testing.T) {
	w := newWorld(t)
	r := w.reconciler()
	m := migration()
	taken := w.now.Add(-time.Hour)
	world := plan.World{Home: "system", Snapshot: &inventory.Snapshot{Taken: taken}, SnapshotSHA256: testSHA}
	d := plan.Decision{
		Phase: v1alpha1.PhaseShifting, ETA: w.now.Add(time.Hour), Pools: []v1alpha1.PoolStatus{{Name: "a", Nodes: 2, NodesLeft: 1}},
		Blockers:   []v1alpha1.Blocker{blocker(v1alpha1.SeverityWait, "Draining", "node/a")},
		Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonProgressing}},
	}
	r.project(m, world, d)
	eta, began := metav1.NewTime(d.ETA), metav1.NewTime(taken)
	want := v1alpha1.MigrationStatus{
		ObservedGeneration: 3, Phase: v1alpha1.PhaseShifting, Home: "system", PoolsDone: "0/1", NodesDone: "1/2", BlockedBy: "Draining node/a",
		Blockers: d.Blockers, Pools: d.Pools, StartTime: &began, EstimatedCompletionTime: &eta,
		Snapshot:   &v1alpha1.SnapshotReference{ObjectReference: v1alpha1.ObjectReference{Namespace: "castoff-system", Name: "castoff-snapshot-prod"}, SHA256: testSHA},
		Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonProgressing, ObservedGeneration: 3, LastTransitionTime: metav1.NewTime(w.now)}},
	}
	if diff := cmp.Diff(want, m.Status, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("status (-want +got)\n%s", diff)
	}
}

func TestTransitionTimesStayWhenNothingChanged(t *testing.T) {
	w := newWorld(t)
	r := w.reconciler()
	m := migration()
	project := func(status metav1.ConditionStatus, message string) metav1.Time {
		r.project(m, plan.World{}, plan.Decision{Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: status, Reason: "X", Message: message}}})
		return meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionReady).LastTransitionTime
	}
	first := project(metav1.ConditionFalse, "one")
	w.now = w.now.Add(time.Minute)
	if got := project(metav1.ConditionFalse, "two"); !got.Equal(&first) {
		t.Errorf("another message moved the time to %s", got)
	}
	if got := project(metav1.ConditionTrue, "two"); !got.Time.Equal(w.now) {
		t.Errorf("another status has the time %s, want %s", got, w.now)
	}
}

func TestCompletionTime(t *testing.T) {
	w := newWorld(t)
	r := w.reconciler()
	m := migration()
	project := func(phase v1alpha1.Phase, status metav1.ConditionStatus) *metav1.Time {
		r.project(m, plan.World{}, plan.Decision{Phase: phase, Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: status, Reason: "X"}}})
		return m.Status.CompletionTime
	}
	if got := project(v1alpha1.PhaseCompleted, metav1.ConditionFalse); got != nil {
		t.Errorf("unfinished, completed at %s", got)
	}
	at := w.now
	project(v1alpha1.PhaseCompleted, metav1.ConditionTrue)
	w.now = w.now.Add(time.Hour)
	if got := project(v1alpha1.PhaseCompleted, metav1.ConditionTrue); got == nil || !got.Time.Equal(at) {
		t.Errorf("completed at %v, want %s: a look an hour later changes nothing", got, at)
	}
	if got := project(v1alpha1.PhaseCompleted, metav1.ConditionFalse); got == nil || !got.Time.Equal(at) {
		t.Errorf("completed at %v, want %s: a deletion under way does not begin the retention anew", got, at)
	}
	if got := project(v1alpha1.PhaseShifting, metav1.ConditionFalse); got != nil {
		t.Errorf("a group came back, and the migration still is completed at %s", got)
	}
	if got := project(v1alpha1.PhaseRolledBack, metav1.ConditionTrue); got == nil || !got.Time.Equal(w.now) {
		t.Errorf("rolled back at %v, want %s: another Migration may act from then on", got, w.now)
	}
}

func TestFail(t *testing.T) {
	refused := errors.New("connection refused")
	cases := map[string]struct {
		reason          string
		err             error
		stalled         metav1.ConditionStatus
		why             string
		conditionsFirst bool
	}{
		"New":       {reason: "a Migration that was never looked at has all conditions too", err: refused, stalled: metav1.ConditionFalse, why: v1alpha1.ReasonObservationFailed},
		"Known":     {reason: "what was known stays", err: refused, stalled: metav1.ConditionFalse, why: v1alpha1.ReasonObservationFailed, conditionsFirst: true},
		"Throttled": {reason: "slow is not broken", err: inventory.Throttled(refused), stalled: metav1.ConditionFalse, why: v1alpha1.ReasonThrottled},
		"Terminal":  {reason: "a human must act", err: inventory.Terminal(refused), stalled: metav1.ConditionTrue, why: v1alpha1.ReasonObservationFailed},
		"Long":      {reason: "AWS can be wordy", err: errors.New(long(40000)), stalled: metav1.ConditionFalse, why: v1alpha1.ReasonObservationFailed},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			r := w.reconciler()
			m := migration()
			if tc.conditionsFirst {
				r.project(m, plan.World{}, plan.Decision{Phase: v1alpha1.PhaseShifting, Conditions: []metav1.Condition{{Type: v1alpha1.ConditionNodesMigrated, Status: metav1.ConditionFalse, Reason: "NotYet", Message: "kept"}}})
			}
			r.fail(m, tc.err)
			var kinds []string
			for _, c := range m.Status.Conditions {
				kinds = append(kinds, c.Type)
				if c.Reason == "" || c.Message == "" || c.LastTransitionTime.IsZero() || c.ObservedGeneration != 3 && c.Message != "kept" {
					t.Errorf("%s: incomplete condition %+v", tc.reason, c)
				}
				if len(c.Message) > maxCondition {
					t.Errorf("%s: a message of %d bytes", tc.reason, len(c.Message))
				}
			}
			sorted := func(s []string) []string { return slices.Sorted(slices.Values(s)) }
			if diff := cmp.Diff(sorted(v1alpha1.ConditionTypes), sorted(kinds)); diff != "" {
				t.Errorf("%s: conditions (-want +got)\n%s", tc.reason, diff)
			}
			if !tc.conditionsFirst && !slices.Equal(kinds, v1alpha1.ConditionTypes) {
				t.Errorf("%s: conditions in the order %v: it is another in every process", tc.reason, kinds)
			}
			stalled := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionStalled)
			if stalled.Status != tc.stalled || stalled.Reason != tc.why || m.Status.BlockedBy != tc.why {
				t.Errorf("%s: Stalled is %s (%s), blocked by %q", tc.reason, stalled.Status, stalled.Reason, m.Status.BlockedBy)
			}
			if tc.conditionsFirst && m.Status.Phase != v1alpha1.PhaseShifting {
				t.Errorf("%s: phase %q", tc.reason, m.Status.Phase)
			}
		})
	}
}

func TestReport(t *testing.T) {
	entry := v1alpha1.Operation{ID: "InstallEngine/engine", Attempts: 1}
	other := v1alpha1.Operation{ID: "EnsureIdentity/identity", Attempts: 1}
	refused := errors.New("refused")
	cases := map[string]struct {
		reason   string
		results  []result
		error    string
		blockers []v1alpha1.Blocker
		stalled  bool
	}{
		"Done": {reason: "what went well is not spoken of", results: []result{{action: plan.InstallEngine{}}}},
		"Failed": {
			reason: "tried again, and said so", results: []result{{action: plan.InstallEngine{}, err: refused}}, error: "refused",
			blockers: []v1alpha1.Blocker{{Severity: v1alpha1.SeverityWait, Reason: v1alpha1.ReasonActionFailed, Object: "InstallEngine/engine", Message: "refused"}},
		},
		"Throttled": {reason: "slow is not broken, but the ledger knows", results: []result{{action: plan.InstallEngine{}, err: inventory.Throttled(refused)}}, error: "refused"},
		"Terminal": {
			reason: "a human must act", results: []result{{action: plan.InstallEngine{}, err: inventory.Terminal(refused)}}, error: "refused", stalled: true,
			blockers: []v1alpha1.Blocker{{Severity: v1alpha1.SeverityBlock, Reason: v1alpha1.ReasonActionFailed, Object: "InstallEngine/engine", Message: "refused"}},
		},
		"NotLedgered": {
			reason: "has no entry to write into", results: []result{{action: plan.MarkNode{}, err: refused}},
			blockers: []v1alpha1.Blocker{{Severity: v1alpha1.SeverityWait, Reason: v1alpha1.ReasonActionFailed, Object: "MarkNode", Message: "refused"}},
		},
		"Drain": {
			reason: "what a pass found", results: []result{{action: plan.EvictPods{Node: "n", Pool: "a"}, drain: &inventory.DrainState{Blocked: []inventory.BlockedPod{{Pod: types.NamespacedName{Namespace: "x", Name: "y"}, Reason: inventory.BlockedByPDB, Message: "no room"}}}}},
			blockers: []v1alpha1.Blocker{{Severity: v1alpha1.SeverityWait, Reason: "DisruptionBudget", Object: "pod/x/y", Pool: "a", Message: "no room"}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			m := migration()
			m.Status.Operations = []v1alpha1.Operation{other, entry}
			w.reconciler().report(m, tc.results)
			wantEntry := entry
			wantEntry.Error = tc.error
			if diff := cmp.Diff([]v1alpha1.Operation{other, wantEntry}, m.Status.Operations); diff != "" {
				t.Errorf("%s: ledger (-want +got)\n%s", tc.reason, diff)
			}
			at := metav1.NewTime(w.now)
			for i := range tc.blockers {
				tc.blockers[i].Since = &at
			}
			if diff := cmp.Diff(tc.blockers, m.Status.Blockers, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s: blockers (-want +got)\n%s", tc.reason, diff)
			}
			if got := meta.IsStatusConditionTrue(m.Status.Conditions, v1alpha1.ConditionStalled); got != tc.stalled {
				t.Errorf("%s: stalled %t, want %t", tc.reason, got, tc.stalled)
			}
			if got := summary(tc.blockers); m.Status.BlockedBy != got {
				t.Errorf("%s: blocked by %q, want %q", tc.reason, m.Status.BlockedBy, got)
			}
		})
	}
}

// TestBlockersKeepTheirBeginning: since says for how long whoever is on call has to have been patient.
func TestBlockersKeepTheirBeginning(t *testing.T) {
	w := newWorld(t)
	r := w.reconciler()
	began := metav1.NewTime(w.now)
	look := func(reasons ...string) []v1alpha1.Blocker {
		m := migration()
		for _, reason := range reasons {
			m.Status.Blockers = append(m.Status.Blockers, blocker(v1alpha1.SeverityWait, reason, "pod/a/b"))
		}
		r.datePassBlockers(m)
		return m.Status.Blockers
	}
	look("DisruptionBudget", "DisruptionBudget")
	w.now = w.now.Add(time.Minute)
	later := metav1.NewTime(w.now)
	got := look("DisruptionBudget", "Terminating")
	want := []v1alpha1.Blocker{
		{Severity: v1alpha1.SeverityWait, Reason: "DisruptionBudget", Object: "pod/a/b", Since: &began},
		{Severity: v1alpha1.SeverityWait, Reason: "Terminating", Object: "pod/a/b", Since: &later},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("second look (-want +got)\n%s", diff)
	}
	look("Terminating")
	w.now = w.now.Add(time.Minute)
	if got := look("DisruptionBudget"); !got[0].Since.Time.Equal(w.now) {
		t.Errorf("it was gone and came back: since %s, want %s", got[0].Since, w.now)
	}
	m := migration()
	m.Status.Blockers = []v1alpha1.Blocker{{Severity: v1alpha1.SeverityWait, Reason: "Draining", Since: &began}}
	r.datePassBlockers(m)
	if !m.Status.Blockers[0].Since.Equal(&began) {
		t.Errorf("the planner's own time was replaced by %s", m.Status.Blockers[0].Since)
	}
}

func TestWrite(t *testing.T) {
	cases := map[string]struct {
		reason string
		change func(*v1alpha1.Migration)
		writes int
		check  func(error) bool
	}{
		"Same":      {reason: "a status that says the same is not written", change: func(*v1alpha1.Migration) {}, check: func(err error) bool { return err == nil }},
		"Different": {reason: "a new phase is", change: func(m *v1alpha1.Migration) { m.Status.Phase = v1alpha1.PhaseShifting }, writes: 1, check: func(err error) bool { return err == nil }},
		"Stale": {
			reason: "somebody wrote since", check: apierrors.IsConflict,
			change: func(m *v1alpha1.Migration) { m.Status.Phase, m.ResourceVersion = v1alpha1.PhaseShifting, "0" },
		},
		"Gone": {
			reason: "deleted since", check: apierrors.IsNotFound,
			change: func(m *v1alpha1.Migration) { m.Status.Phase, m.Name = v1alpha1.PhaseShifting, "other" },
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			apply(t, w)
			before := get(t, w)
			m := before.DeepCopy()
			tc.change(m)
			if err := w.reconciler().write(t.Context(), before, m); !tc.check(err) {
				t.Errorf("%s: error %v", tc.reason, err)
			}
			if got := w.c.writes["status Migration"]; got != tc.writes {
				t.Errorf("%s: %d writes, want %d", tc.reason, got, tc.writes)
			}
		})
	}
}

// TestStatusIsWrittenInItsPace: what changes with every pod may wait for two seconds, what somebody acts on may not.
func TestStatusIsWrittenInItsPace(t *testing.T) {
	block := func(s v1alpha1.Severity) v1alpha1.Blocker {
		return v1alpha1.Blocker{Severity: s, Reason: "r", Object: "o"}
	}
	cases := map[string]struct {
		reason string
		change func(*v1alpha1.MigrationStatus)
		after  time.Duration
		writes int
	}{
		"Pods":      {"pods go by the second", func(s *v1alpha1.MigrationStatus) { s.Pools[0].PodsLeft-- }, time.Second, 1},
		"PodsLater": {"whoever watches sees it in two", func(s *v1alpha1.MigrationStatus) { s.Pools[0].PodsLeft-- }, statusPace, 2},
		"Waits":     {"so does what is waited for", func(s *v1alpha1.MigrationStatus) { s.Blockers = []v1alpha1.Blocker{block(v1alpha1.SeverityWait)} }, time.Second, 1},
		"Message":   {"and what a condition says", func(s *v1alpha1.MigrationStatus) { s.Conditions[0].Message = "another" }, time.Second, 1},
		"Blocks":    {"what needs a human is said at once", func(s *v1alpha1.MigrationStatus) { s.Blockers = []v1alpha1.Blocker{block(v1alpha1.SeverityBlock)} }, time.Second, 2},
		"Phase":     {"so is the phase", func(s *v1alpha1.MigrationStatus) { s.Phase = v1alpha1.PhaseCompleted }, time.Second, 2},
		"Ledger":    {"the ledger, before the effect", func(s *v1alpha1.MigrationStatus) { s.Operations = []v1alpha1.Operation{{ID: "SetGroupSize/general"}} }, 0, 2},
		"Condition": {"and a condition's state", func(s *v1alpha1.MigrationStatus) { s.Conditions[0].Status = metav1.ConditionTrue }, 0, 2},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			apply(t, w)
			r, before := w.reconciler(), get(t, w)
			first := before.DeepCopy()
			first.Status.Phase = v1alpha1.PhaseShifting
			first.Status.Pools = []v1alpha1.PoolStatus{{Name: "general", PodsLeft: 9}}
			first.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: "Progressing"}}
			if err := r.write(t.Context(), before, first); err != nil {
				t.Fatal(err)
			}
			w.now = w.now.Add(tc.after)
			second := first.DeepCopy()
			tc.change(&second.Status)
			if err := r.write(t.Context(), first, second); err != nil {
				t.Fatal(err)
			}
			if got := w.c.writes["status Migration"]; got != tc.writes || r.unwritten != (tc.writes == 1) {
				t.Errorf("%s: %d writes, want %d; unwritten: %v", tc.reason, got, tc.writes, r.unwritten)
			}
		})
	}
}

func TestAnnounce(t *testing.T) {
	w := newWorld(t)
	r := w.reconciler()
	recorder := events.NewFakeRecorder(100)
	r.Recorder = recorder
	told := func(before, after v1alpha1.MigrationStatus) []string {
		b, a := migration(), migration()
		b.Status, a.Status = before, after
		r.announce(b, a)
		var out []string
		for len(recorder.Events) > 0 {
			out = append(out, <-recorder.Events)
		}
		return out
	}
	unseen := v1alpha1.MigrationStatus{}
	assessing := v1alpha1.MigrationStatus{Phase: v1alpha1.PhaseAssessing, Blockers: []v1alpha1.Blocker{
		{Severity: v1alpha1.SeverityBlock, Reason: "BarePod", Object: "pod/a/b", Message: "nobody replaces it"},
		{Severity: v1alpha1.SeverityWarn, Reason: "NotCarriedOver", Object: "pool/a", Message: "a hook"},
		{Severity: v1alpha1.SeverityWait, Reason: "Draining", Object: "node/a", Message: "3 pods"},
	}}
	steps := []struct {
		reason        string
		before, after v1alpha1.MigrationStatus
		want          []string
	}{
		{"the phase and what is new; what ends by itself is no event", unseen, assessing, []string{
			"Normal Assessing new -> Assessing", "Warning BarePod pod/a/b: nobody replaces it", "Warning NotCarriedOver pool/a: a hook",
		}},
		{"the check was run again and says the same", assessing, assessing, nil},
		{"it was gone for a look", v1alpha1.MigrationStatus{Phase: v1alpha1.PhaseAssessing}, assessing, nil},
		{"the next phase", assessing, v1alpha1.MigrationStatus{Phase: v1alpha1.PhasePreparing, Blockers: assessing.Blockers}, []string{"Normal Preparing Assessing -> Preparing"}},
	}
	for _, s := range steps {
		if diff := cmp.Diff(s.want, told(s.before, s.after)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", s.reason, diff)
		}
	}
}
