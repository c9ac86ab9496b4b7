package controllers

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/nodegroup"
)

// ledgered names the world's effects that have to be in the ledger first, with the kind of their entry.
var ledgered = map[string]string{
	"DisablePolicies": "DisablePolicies", "DeleteScheduledActions": "DeleteScheduledActions", "EnsureInterruption": "EnsureInterruption",
	"EnsureIdentity": "EnsureIdentity", "ApplyCRDs": "InstallCRDs", "Apply": "InstallEngine", "SuspendProcesses": "SuspendProcesses",
	"SetCapacityRebalance": "SetRebalance", "SetMaxInstanceLifetime": "SetLifetime", "Stop": "StopAutoscaler",
	"SetSize": "SetGroupSize", "EndInstances": "EndInstances",
}

// effects are the world's calls so far, but for those named.
func effects(w *world, but ...string) map[string]int {
	out := maps.Clone(w.calls)
	for _, name := range append(but, "status") {
		delete(out, name)
	}
	return out
}

func look(t *testing.T, w *world, r *Reconciler) *v1alpha1.Migration {
	t.Helper()
	if _, err, _ := reconcileOnce(r); err != nil {
		t.Fatal(err)
	}
	return get(t, w)
}

// until reconciles and lets time pass until the Migration is as wanted.
func until(t *testing.T, w *world, r *Reconciler, want func(*v1alpha1.Migration) bool) *v1alpha1.Migration {
	t.Helper()
	for range mostLooks {
		if m := look(t, w, r); want(m) {
			return m
		}
		w.advance(time.Second)
	}
	t.Fatalf("never as wanted: %+v", get(t, w).Status)
	return nil
}

func inPhase(p v1alpha1.Phase) func(*v1alpha1.Migration) bool {
	return func(m *v1alpha1.Migration) bool { return m.Status.Phase == p }
}

// edit changes the spec, as a user does.
func edit(t *testing.T, w *world, change func(*v1alpha1.Migration)) {
	t.Helper()
	m := get(t, w)
	change(m)
	w.must(w.c.Update(t.Context(), m))
}

// finish goes on until the end and wants it to be right.
func finish(t *testing.T, w *world, r *Reconciler) {
	t.Helper()
	m := until(t, w, r, func(m *v1alpha1.Migration) bool {
		return meta.IsStatusConditionTrue(m.Status.Conditions, v1alpha1.ConditionReady)
	})
	if wrong := rightEnd(w, m); len(wrong) > 0 {
		t.Error(strings.Join(wrong, "\n"))
	}
}

func reasonOf(m *v1alpha1.Migration, kind string) string {
	c := meta.FindStatusCondition(m.Status.Conditions, kind)
	if c == nil {
		return "absent"
	}
	return string(c.Status) + " " + c.Reason
}

func TestNothingToReconcile(t *testing.T) {
	cases := map[string]struct {
		reason string
		apply  func(*testing.T, *world)
	}{
		"NotFound": {reason: "deleted since it was queued", apply: func(*testing.T, *world) {}},
		"Deleted": {reason: "a Migration that goes changes no node", apply: func(t *testing.T, w *world) {
			apply(t, w, func(m *v1alpha1.Migration) { m.DeletionTimestamp = &metav1.Time{Time: w.now} })
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			tc.apply(t, w)
			result, err, _ := reconcileOnce(w.reconciler())
			if err != nil || !result.IsZero() || w.writes != 0 {
				t.Errorf("%s: %+v, %v, %d writes", tc.reason, result, err, w.writes)
			}
		})
	}
}

func TestLookThatFails(t *testing.T) {
	timeout := errors.New("timeout")
	cases := map[string]struct {
		reason  string
		err     error
		again   time.Duration
		error   bool
		stalled string
	}{
		"Retry":     {reason: "backs off", err: timeout, error: true, stalled: "False ObservationFailed"},
		"Throttled": {reason: "no failure, and no back-off", err: inventory.Throttled(timeout), again: throttledAgain, stalled: "False Throttled"},
		"Terminal":  {reason: "a human must act, and is told", err: inventory.Terminal(timeout), error: true, stalled: "True ObservationFailed"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			apply(t, w)
			w.c.refuse = func(_ string, o any) error {
				if _, ok := o.(*corev1.NodeList); ok {
					return tc.err
				}
				return nil
			}
			r := w.reconciler()
			result, err, _ := reconcileOnce(r)
			if result.RequeueAfter != tc.again || (err != nil) != tc.error {
				t.Errorf("%s: again after %s with error %v, want %s and %t", tc.reason, result.RequeueAfter, err, tc.again, tc.error)
			}
			m := get(t, w)
			if got := reasonOf(m, v1alpha1.ConditionStalled); got != tc.stalled || len(m.Status.Conditions) != 9 {
				t.Errorf("%s: Stalled is %s, and %d conditions; want %s and nine", tc.reason, got, len(m.Status.Conditions), tc.stalled)
			}
			if got := effects(w); len(got) > 0 {
				t.Errorf("%s: castoff changed what it could not see: %v", tc.reason, got)
			}
			w.c.refuse = nil
			finish(t, w, r)
		})
	}
}

func TestChangeThatFails(t *testing.T) {
	cases := map[string]struct {
		reason string
		err    error
		again  time.Duration
		error  bool
	}{
		"Retry":     {reason: "backs off", err: errors.New("internal error"), error: true},
		"Throttled": {reason: "no failure, and no back-off", err: inventory.Throttled(errors.New("slow down")), again: throttledAgain},
		"Terminal":  {reason: "backs off too: nothing is final", err: inventory.Terminal(errors.New("denied")), error: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			apply(t, w)
			failed := false
			w.hook = func(name string, after bool) error {
				if name == "EnsureInterruption" && !after && !failed {
					failed = true
					return tc.err
				}
				return nil
			}
			r := w.reconciler()
			for !failed {
				result, err, _ := reconcileOnce(r)
				if failed && (result.RequeueAfter != tc.again || (err != nil) != tc.error) {
					t.Errorf("%s: again after %s with error %v", tc.reason, result.RequeueAfter, err)
				}
				if !failed {
					w.advance(time.Second)
				}
			}
			i := slices.IndexFunc(get(t, w).Status.Operations, func(o v1alpha1.Operation) bool { return o.ID == "EnsureInterruption/interruption" })
			if i < 0 || get(t, w).Status.Operations[i].Error == "" {
				t.Errorf("%s: the ledger does not tell: %+v", tc.reason, get(t, w).Status.Operations)
			}
			finish(t, w, r)
		})
	}
}

// TestFailureDoesNotFlicker: whoever reads the status while a change that failed is tried again reads that it failed.
func TestFailureDoesNotFlicker(t *testing.T) {
	w := newWorld(t)
	apply(t, w)
	r := w.reconciler()
	stalled := func() string { return reasonOf(get(t, w), v1alpha1.ConditionStalled) }
	var seen []string
	w.hook = func(name string, after bool) error {
		switch {
		case name == "ApplyCRDs" && !after:
			return inventory.Terminal(errors.New("forbidden"))
		case name == "status" && after:
			seen = append(seen, stalled())
		}
		return nil
	}
	for range mostLooks {
		_, _, _ = reconcileOnce(r) // it fails on purpose
		if stalled() == "True ActionFailed" {
			break
		}
		w.advance(time.Second)
	}
	seen = nil
	for range 20 {
		_, _, _ = reconcileOnce(r) // it fails on purpose
		w.advance(5 * time.Second)
	}
	if len(seen) == 0 || slices.ContainsFunc(seen, func(s string) bool { return s != "True ActionFailed" }) {
		t.Errorf("Stalled between two attempts: %q, want True ActionFailed throughout", seen)
	}
	w.hook = nil
	finish(t, w, r)
}

func TestConflictIsLookedAtAgain(t *testing.T) {
	w := newWorld(t)
	apply(t, w)
	once := false
	w.hook = func(name string, after bool) error {
		if name == "status" && !after && !once {
			once = true
			edit(t, w, func(m *v1alpha1.Migration) { m.Annotations = map[string]string{"somebody": "else"} })
		}
		return nil
	}
	r := w.reconciler()
	result, err, _ := reconcileOnce(r)
	if err != nil || result.RequeueAfter != 100*time.Millisecond {
		t.Errorf("again after %s with error %v, want soon and none", result.RequeueAfter, err)
	}
	if got := effects(w); len(got) > 0 {
		t.Errorf("a look that could not be recorded was acted on: %v", got)
	}
	finish(t, w, r)
}

func TestLedgerComesFirst(t *testing.T) {
	w := newWorld(t)
	seen := map[string]bool{}
	w.hook = func(name string, after bool) error {
		kind, ok := ledgered[name]
		if !ok || after {
			return nil
		}
		seen[name] = true
		open := slices.ContainsFunc(get(t, w).Status.Operations, func(o v1alpha1.Operation) bool {
			same := strings.HasPrefix(o.ID, kind+"/") || name == "SuspendProcesses" && strings.HasPrefix(o.ID, "SuspendLaunch/")
			return same && o.DoneTime == nil && o.StartTime != nil
		})
		if !open {
			t.Errorf("%s was made without an open entry in the stored ledger", name)
		}
		return nil
	}
	w.groups["general"].MaxInstanceLifetime = 86400
	w.record()
	migrate(t, w)
	for name := range ledgered {
		if !seen[name] {
			t.Errorf("%s was never made: this test proves nothing of it", name)
		}
	}
}

// staleReader answers with the Migration as it was: a leader that lost its lead and does not know.
type staleReader struct {
	client.Reader
	m *v1alpha1.Migration
}

func (s staleReader) Get(ctx context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	if m, ok := into.(*v1alpha1.Migration); ok {
		s.m.DeepCopyInto(m)
		return nil
	}
	return s.Reader.Get(ctx, key, into, opts...)
}

func TestStaleLeaderMakesNoEffect(t *testing.T) {
	w := newWorld(t)
	apply(t, w)
	r := w.reconciler()
	tried := 0
	for range mostLooks {
		old := get(t, w)
		before := effects(w)
		m := look(t, w, r)
		for name := range ledgered {
			if w.calls[name] == before[name] {
				continue
			}
			tried++
			made := effects(w)
			stale := w.reconciler()
			stale.Observer.Live = staleReader{Reader: w.c, m: old}
			if _, err, _ := reconcileOnce(stale); err != nil {
				t.Fatalf("a stale leader's look is no failure: %v", err)
			}
			for name := range ledgered {
				if w.calls[name] != made[name] {
					t.Errorf("a stale leader made %s in phase %s", name, m.Status.Phase)
				}
			}
			break
		}
		if meta.IsStatusConditionTrue(m.Status.Conditions, v1alpha1.ConditionReady) {
			break
		}
		w.advance(time.Second)
	}
	if tried < 8 {
		t.Errorf("only %d looks with an effect: this test proves little", tried)
	}
	if wrong := rightEnd(w, get(t, w)); len(wrong) > 0 {
		t.Error(strings.Join(wrong, "\n"))
	}
}

// TestLeaderChanges: two processes take turns, each with what it remembers from its last turn.
func TestLeaderChanges(t *testing.T) {
	for name, every := range map[string]int{"EveryLook": 1, "EverySeven": 7} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			apply(t, w)
			leaders := []*Reconciler{w.reconciler(), w.reconciler()}
			for i := range mostLooks {
				m := look(t, w, leaders[i/every%2])
				if meta.IsStatusConditionTrue(m.Status.Conditions, v1alpha1.ConditionReady) {
					break
				}
				w.advance(time.Second)
			}
			if wrong := rightEnd(w, get(t, w)); len(wrong) > 0 {
				t.Error(strings.Join(wrong, "\n"))
			}
		})
	}
}

func TestOneMigrationActs(t *testing.T) {
	w := newWorld(t)
	apply(t, w)
	older := &v1alpha1.Migration{ObjectMeta: metav1.ObjectMeta{Name: "older", UID: "uid-0", CreationTimestamp: metav1.NewTime(w.now.Add(-time.Hour))}}
	w.must(w.c.Create(t.Context(), older))
	r := w.reconciler()
	for range 5 {
		look(t, w, r)
		w.advance(time.Minute)
	}
	m := get(t, w)
	if got := reasonOf(m, v1alpha1.ConditionReady); got != "False AnotherMigrationActive" || !strings.Contains(m.Status.BlockedBy, "migration/older") {
		t.Errorf("Ready is %s, blocked by %q", got, m.Status.BlockedBy)
	}
	if got := effects(w); len(got) > 0 || w.calls["status"] != 1 {
		t.Errorf("effects %v and %d writes of the status, want none and one", got, w.calls["status"])
	}
	w.must(w.c.Delete(t.Context(), older))
	finish(t, w, r)
}

func TestPause(t *testing.T) {
	draining := func(m *v1alpha1.Migration) bool {
		return slices.ContainsFunc(m.Status.Pools, func(p v1alpha1.PoolStatus) bool { return p.PodsLeft > 0 })
	}
	cases := map[string]struct {
		reason string
		at     func(*v1alpha1.Migration) bool
	}{
		"AtTheStart":  {reason: "nothing was read yet", at: func(*v1alpha1.Migration) bool { return true }},
		"Preparing":   {reason: "the snapshot is taken", at: inPhase(v1alpha1.PhasePreparing)},
		"Installing":  {reason: "a canary may be under way", at: inPhase(v1alpha1.PhaseInstalling)},
		"HandingOver": {reason: "Cluster Autoscaler may be gone already", at: inPhase(v1alpha1.PhaseHandingOver)},
		"Shifting":    {reason: "no drain has begun", at: inPhase(v1alpha1.PhaseShifting)},
		"Draining":    {reason: "evictions stop at once", at: draining},
		"Completed":   {reason: "nothing is left to do but the Lease", at: inPhase(v1alpha1.PhaseCompleted)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			apply(t, w, func(m *v1alpha1.Migration) { m.Spec.Paused = name == "AtTheStart" })
			r := w.reconciler()
			until(t, w, r, tc.at)
			edit(t, w, func(m *v1alpha1.Migration) { m.Spec.Paused = true })
			moves := []int{w.calls["Pass"], w.calls["Begin"], w.calls["EndInstances"]}
			until(t, w, r, func(m *v1alpha1.Migration) bool { return reasonOf(m, v1alpha1.ConditionReconciling) == "False Paused" })
			if diff := cmp.Diff(moves, []int{w.calls["Pass"], w.calls["Begin"], w.calls["EndInstances"]}); diff != "" {
				t.Errorf("%s: evictions, drains or ends after the pause (-before +after)\n%s", tc.reason, diff)
			}
			before, statuses := effects(w, "HoldLease"), w.calls["status"]
			for range 30 {
				w.advance(time.Minute)
				look(t, w, r)
			}
			m := get(t, w)
			if diff := cmp.Diff(before, effects(w, "HoldLease")); diff != "" {
				t.Errorf("%s: a paused migration made changes (-before +after)\n%s", tc.reason, diff)
			}
			if got := w.calls["status"] - statuses; got > 4 {
				t.Errorf("%s: %d writes of the status in half an hour of rest", tc.reason, got)
			}
			if m.Status.Phase != v1alpha1.PhasePaused || reasonOf(m, v1alpha1.ConditionStalled) != "False Paused" || reasonOf(m, v1alpha1.ConditionReconciling) != "False Paused" {
				t.Errorf("%s: phase %s, Stalled %s, blockers %+v", tc.reason, m.Status.Phase, reasonOf(m, v1alpha1.ConditionStalled), m.Status.Blockers)
			}
			if w.ca.LeaseHolder == v1alpha1.LeaseIdentity && w.now.Sub(w.ca.LeaseRenewed) > 20*time.Minute {
				t.Errorf("%s: the Lease was not renewed for %s", tc.reason, w.now.Sub(w.ca.LeaseRenewed))
			}
			edit(t, w, func(m *v1alpha1.Migration) { m.Spec.Paused = false })
			finish(t, w, r)
		})
	}
}

func TestManualApproval(t *testing.T) {
	w := newWorld(t)
	apply(t, w, func(m *v1alpha1.Migration) { m.Spec.Approval = v1alpha1.ApprovalManual })
	r := w.reconciler()
	m := until(t, w, r, inPhase(v1alpha1.PhaseAwaitingApproval))
	if got := effects(w); len(got) > 0 || !strings.Contains(meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionReady).Message, "approve prod Start") {
		t.Errorf("before the start: effects %v, condition %s", got, reasonOf(m, v1alpha1.ConditionReady))
	}
	edit(t, w, func(m *v1alpha1.Migration) { m.Spec.ApprovedSteps = []v1alpha1.ApprovalStep{v1alpha1.ApproveStart} })
	look(t, w, r)
	m = until(t, w, r, inPhase(v1alpha1.PhaseAwaitingApproval))
	if !w.rel || w.calls["Stop"]+w.calls["EnsureNodePool"]+w.calls["Fence"] > 0 || len(m.Status.Conditions) != 9 {
		t.Errorf("before the hand-over: installed %t, effects %v", w.rel, effects(w))
	}
	edit(t, w, func(m *v1alpha1.Migration) {
		m.Spec.ApprovedSteps = append(m.Spec.ApprovedSteps, v1alpha1.ApproveHandOver)
	})
	finish(t, w, r)
}

// unknown is EKS without this cluster.
type unknown struct{ NodeGroups }

func (unknown) Cluster(context.Context) (inventory.Cluster, error) {
	return inventory.Cluster{}, inventory.Terminal(nodegroup.ErrClusterNotFound)
}

func TestWhatBlocksTheStart(t *testing.T) {
	cases := map[string]struct {
		reason string
		spoil  func(*world, *Reconciler)
		mutate func(*v1alpha1.Migration)
		want   string
		mend   func(*world, *Reconciler)
	}{
		"PermissionDenied": {
			reason: "goes on by itself once it is granted",
			spoil:  func(w *world, _ *Reconciler) { w.permission = inventory.PermissionDenied },
			want:   "PermissionDenied action/sqs:CreateQueue",
			mend:   func(w *world, _ *Reconciler) { w.permission = inventory.PermissionAllowed },
		},
		"HomeMissing": {
			reason: "a typing error must not make another group the home",
			mutate: func(m *v1alpha1.Migration) { m.Spec.Home = &v1alpha1.Home{NodeGroup: "sytsem"} },
			want:   "NodeGroupNotFound nodegroup/sytsem",
			mend: func(w *world, _ *Reconciler) {
				edit(w.t, w, func(m *v1alpha1.Migration) { m.Spec.Home.NodeGroup = "system" })
			},
		},
		"WrongCluster": {
			reason: "two clusters in one account: the other one's groups must not shrink",
			spoil:  func(_ *world, r *Reconciler) { r.Observer.CABundle = []byte("another") },
			want:   "WrongCluster cluster/test",
		},
		"UnknownCluster": {
			reason: "wrong name, region or account",
			spoil:  func(_ *world, r *Reconciler) { r.Observer.NodeGroupsOf = func(string) NodeGroups { return unknown{} } },
			want:   "ClusterNotFound cluster/test",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			r := w.reconciler()
			if tc.spoil != nil {
				tc.spoil(w, r)
			}
			apply(t, w, func(m *v1alpha1.Migration) {
				if tc.mutate != nil {
					tc.mutate(m)
				}
			})
			for range 5 {
				look(t, w, r)
				w.advance(10 * time.Second)
			}
			m := get(t, w)
			if m.Status.Phase != v1alpha1.PhaseAssessing || m.Status.BlockedBy != tc.want || reasonOf(m, v1alpha1.ConditionStalled) != "True Blocked" {
				t.Errorf("%s: phase %s, blocked by %q, Stalled %s; want %q", tc.reason, m.Status.Phase, m.Status.BlockedBy, reasonOf(m, v1alpha1.ConditionStalled), tc.want)
			}
			if got := effects(w); len(got) > 0 || w.calls["status"] != 1 || w.c.writes["create ConfigMap"] != 1 || w.c.writes["update ConfigMap"] != 0 {
				t.Errorf("%s: effects %v, %d statuses, %v; want the status and the report, once", tc.reason, got, w.calls["status"], w.c.writes)
			}
			if tc.mend != nil {
				tc.mend(w, r)
				finish(t, w, r)
			}
		})
	}
}

func TestAcceptedRiskIsShownAndPassed(t *testing.T) {
	w := newWorld(t)
	w.permission = inventory.PermissionDenied
	apply(t, w, func(m *v1alpha1.Migration) {
		m.Spec.AcceptedRisks = []v1alpha1.AcceptedRisk{{Check: "PermissionDenied", Object: "action/sqs:CreateQueue", Reason: "the queue is there"}}
	})
	r := w.reconciler()
	m := look(t, w, r)
	i := slices.IndexFunc(m.Status.Blockers, func(b v1alpha1.Blocker) bool { return b.Reason == "PermissionDenied" })
	if i < 0 || m.Status.Blockers[i].Severity != v1alpha1.SeverityWarn || !strings.HasPrefix(m.Status.Blockers[i].Message, "Accepted (the queue is there): ") {
		t.Errorf("blockers %+v", m.Status.Blockers)
	}
	finish(t, w, r)
}

func TestUnusableSnapshotStopsEverything(t *testing.T) {
	cases := map[string]struct {
		reason string
		spoil  func(*world)
		want   string
	}{
		"Lost":    {reason: "without a way back there is no way forward", spoil: func(w *world) { w.snapshot = nil }, want: "is gone"},
		"Changed": {reason: "a way back that somebody edited is none", spoil: func(w *world) { w.sha = strings.Repeat("f", 64) }, want: "digest differs"},
		"Foreign": {reason: "one of an earlier Migration of this name", spoil: func(w *world) {
			s := *w.snapshot
			s.Migration = "uid-9"
			w.snapshot, w.sha = &s, strings.Repeat("9", 64)
		}, want: "digest differs"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			apply(t, w)
			until(t, w, w.reconciler(), inPhase(v1alpha1.PhaseShifting))
			good := w.snapshot
			tc.spoil(w)
			before := effects(w)
			r := w.reconciler()
			for range 5 {
				look(t, w, r)
				w.advance(10 * time.Second)
			}
			m := get(t, w)
			if diff := cmp.Diff(before, effects(w)); diff != "" {
				t.Errorf("%s: castoff went on (-before +after)\n%s", tc.reason, diff)
			}
			c := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionSnapshotTaken)
			if c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, tc.want) || reasonOf(m, v1alpha1.ConditionStalled) != "True Blocked" {
				t.Errorf("%s: SnapshotTaken %s %q, Stalled %s; want %q", tc.reason, c.Status, c.Message, reasonOf(m, v1alpha1.ConditionStalled), tc.want)
			}
			if m.Status.Snapshot == nil || m.Status.Snapshot.SHA256 != testSHA {
				t.Errorf("%s: the status forgot which snapshot was taken: %+v", tc.reason, m.Status.Snapshot)
			}
			w.snapshot, w.sha = good, testSHA
			finish(t, w, w.reconciler())
		})
	}
}

// TestMigrationIsMadeAnew: a Migration that was deleted on its way goes on from its snapshot when one of its name is made; a
// snapshot taken then would take castoff's own changes for the user's. Once everything was undone the old one is in the way.
func TestMigrationIsMadeAnew(t *testing.T) {
	again := func(m *v1alpha1.Migration) { m.UID = "uid-2" }
	gone := func(t *testing.T, w *world, r *Reconciler) {
		t.Helper()
		w.must(w.c.Delete(t.Context(), get(t, w)))
		for range mostLooks {
			if _, err, _ := reconcileOnce(r); err != nil {
				t.Fatal(err)
			}
			if apierrors.IsNotFound(w.c.Get(t.Context(), types.NamespacedName{Name: "prod"}, &v1alpha1.Migration{})) {
				return
			}
			w.advance(time.Second)
		}
		t.Fatal("the deleted Migration never came to rest")
	}
	t.Run("OnItsWay", func(t *testing.T) {
		w := newWorld(t)
		apply(t, w)
		r := w.reconciler()
		until(t, w, r, inPhase(v1alpha1.PhaseShifting))
		taken := w.snapshot
		gone(t, w, r)
		apply(t, w, again)
		finish(t, w, r)
		m := get(t, w)
		if w.snapshot != taken || !slices.Contains(m.Finalizers, v1alpha1.Finalizer) || m.Status.Snapshot == nil {
			t.Errorf("snapshot taken anew: %v; finalizers %v; status %+v", w.snapshot != taken, m.Finalizers, m.Status.Snapshot)
		}
	})
	t.Run("Undone", func(t *testing.T) {
		w := newWorld(t)
		apply(t, w)
		r := w.reconciler()
		until(t, w, r, inPhase(v1alpha1.PhaseInstalling))
		gone(t, w, r)
		apply(t, w, again)
		m := look(t, w, r)
		c := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionSnapshotTaken)
		if c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, "belongs to an earlier one") {
			t.Errorf("SnapshotTaken %s: %q", c.Status, c.Message)
		}
	})
}

func TestRetryConflict(t *testing.T) {
	w := newWorld(t)
	apply(t, w)
	m := get(t, w)
	m.ResourceVersion = "0"
	if result, err := retryConflict(w.c.Status().Update(t.Context(), m)); err != nil || result.RequeueAfter == 0 {
		t.Errorf("a conflict: %+v, %v", result, err)
	}
	if result, err := retryConflict(errors.New("refused")); err == nil || result != (ctrl.Result{}) {
		t.Errorf("another error: %+v, %v", result, err)
	}
	if _, err := w.reconciler().Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "nobody"}}); err != nil {
		t.Errorf("a name that is not there: %v", err)
	}
}
