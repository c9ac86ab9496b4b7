package plan

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

func TestPhaseShown(t *testing.T) {
	cases := map[string]struct {
		reason    string
		migration migrationOf
		world     *scene
		want      v1alpha1.Phase
	}{
		"Blocked":         {"nothing was written", aMigration(), aWorld().found(noRights), v1alpha1.PhaseAssessing},
		"Fresh":           {"the first write is the snapshot", aMigration(), aWorld(), v1alpha1.PhasePreparing},
		"AwaitingStart":   {"a human is asked", aMigration().manual(), aWorld(), v1alpha1.PhaseAwaitingApproval},
		"SnapshotTaken":   {"nodes are being marked", aMigration(), aWorld().snapshotTaken(), v1alpha1.PhasePreparing},
		"Prepared":        {"the queue is next", aMigration(), aWorld().prepared(), v1alpha1.PhaseInstalling},
		"Installed":       {"the groups are made quiet", aMigration(), aWorld().engineInstalled(), v1alpha1.PhaseHandingOver},
		"AwaitingHandOff": {"a human is asked", aMigration().manual(v1alpha1.ApproveStart), aWorld().engineInstalled(), v1alpha1.PhaseAwaitingApproval},
		"Released":        {"NodePools are next", aMigration(), aWorld().released(), v1alpha1.PhaseHandingOver},
		"Served":          {"the fence is next", aMigration(), aWorld().served(), v1alpha1.PhaseHandingOver},
		"HandedOver":      {"the groups are opened", aMigration(), aWorld().handedOver(), v1alpha1.PhaseShifting},
		"Shifting":        {"nodes are drained", aMigration(), aWorld().shifting(), v1alpha1.PhaseShifting},
		"OneFinished":     {"the next pool", aMigration().soaked(), aWorld().shifting().finished("general"), v1alpha1.PhaseShifting},
		"Completed":       {"nothing is left", aMigration().soaked(), aWorld().completed(), v1alpha1.PhaseCompleted},
		"Paused":          {"whatever the world is like", aMigration().paused(), aWorld().shifting(), v1alpha1.PhasePaused},
		"AnotherIsActive": {"it is the other one's turn", aMigration(), aWorld().shifting().with(func(w *World) { w.OtherMigration = "older" }), v1alpha1.PhaseAssessing},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := Next(tc.migration.build(), tc.world.build(), noon).Phase; got != tc.want {
				t.Errorf("%s: phase %s, want %s", tc.reason, got, tc.want)
			}
		})
	}
}

// TestThePhaseDoesNotTurnBack: what is undone behind the furthest phase is mended first, and the phase stays.
func TestThePhaseDoesNotTurnBack(t *testing.T) {
	undo := map[string]struct {
		change func(*scene)
		action string
	}{
		"PolicyIsEnabled": {func(s *scene) { s.group("general").ScalingPolicies[0].Active = true }, "DisablePolicies general cpu"},
		"ScheduleIsBack":  {func(s *scene) { s.group("general").ScheduledActions = []inventory.ScheduledAction{{Name: "night"}} }, "DeleteScheduledActions general night"},
		"ProcessIsResumed": {func(s *scene) {
			s.group("general").SuspendedProcesses = append([]string{processLaunch}, quietProcesses[1:]...)
		}, "SuspendProcesses general AZRebalance"},
		"RebalanceIsOn":  {func(s *scene) { s.group("batch").CapacityRebalance = true }, "SetRebalance eks-batch false"},
		"LifetimeIsSet":  {func(s *scene) { s.group("batch").MaxInstanceLifetime = 86400 }, "SetLifetime eks-batch 0"},
		"NodePoolIsGone": {func(s *scene) { s.w.Engine.NodePools = s.w.Engine.NodePools[1:] }, "EnsureNodePool general target-of-general/guarded"},
		"MarkIsGone":     {func(s *scene) { delete(s.node("batch-0").Annotations, v1alpha1.AnnotationLegacy) }, "MarkNode batch-0 batch"},
		"FenceIsOpen":    {func(s *scene) { s.node("batch-0").Unschedulable = false }, "FenceNode batch-0 batch"},
	}
	for name, tc := range undo {
		t.Run(name, func(t *testing.T) {
			s := aWorld().scaled("general", "cpu", "night").shifting()
			tc.change(s)
			d := Next(aMigration().build(), s.build(), noon)
			if d.Phase != v1alpha1.PhaseShifting {
				t.Errorf("phase %s, want Shifting: it is the furthest that was reached", d.Phase)
			}
			if diff := cmp.Diff([]string{tc.action}, told(d.Actions)); diff != "" {
				t.Errorf("the mending comes before anything else: -want, +got:\n%s", diff)
			}
		})
	}
}

func TestAnotherMigrationActs(t *testing.T) {
	run(t, map[string]step{
		"Fresh": {
			reason: "one unfinished Migration acts on a cluster; another does nothing at all, and names the first",
			world:  aWorld().with(func(w *World) { w.OtherMigration = "older" }),
			want:   decided{phase: v1alpha1.PhaseAssessing, blockers: []string{"Block AnotherMigrationActive migration/older"}},
			says:   "delete it, or delete this one",
		},
		"InTheMiddle": {
			reason: "not even the Lease is this one's to renew",
			world: aWorld().shifting().draining("general-0", 2).withAutoscaler(func(a *inventory.Autoscaler) { a.LeaseRenewed = noon.Add(-time.Hour) }).
				with(func(w *World) { w.OtherMigration = "older" }),
			want: decided{phase: v1alpha1.PhaseAssessing, blockers: []string{"Block AnotherMigrationActive migration/older"}},
		},
	})
}

func TestUntil(t *testing.T) {
	cases := map[string]struct {
		reason    string
		migration migrationOf
		world     *scene
		want      time.Duration
	}{
		"Working":  {"no watch reports AWS or pods", aMigration(), aWorld().shifting().draining("general-0", 2), soon},
		"Blocked":  {"a human takes longer", aMigration(), aWorld().found(noRights), atRest},
		"Approval": {"a human takes longer", aMigration().manual(), aWorld(), atRest},
		"HandOver": {"a human takes longer", aMigration().manual(v1alpha1.ApproveStart), aWorld().engineInstalled(), atRest},
		"Pool":     {"a human takes longer", aMigration(), aWorld().shifting().found(noRights), atRest},
		"Another":  {"the other one takes longer", aMigration(), aWorld().with(func(w *World) { w.OtherMigration = "older" }), atRest},
		"Pausing":  {"nodes go back in service", aMigration().paused(), aWorld().shifting(), soon},
		"Paused":   {"only the Lease has to be looked at", aMigration().paused(), aWorld().shifting().inService(), guard},
		"Finished": {"only the Lease has to be looked at", aMigration().soaked(), aWorld().completed(), guard},
		"Effect": {"an effect is looked for", aMigration().soaked().ledger(operation("SetGroupSize/general", "1/1/1", 0)),
			aWorld().completed(), soon},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := Next(tc.migration.build(), tc.world.build(), noon).Until.Sub(noon); got != tc.want {
				t.Errorf("%s: looks again after %s, want %s", tc.reason, got, tc.want)
			}
		})
	}
}

func TestSince(t *testing.T) {
	then := stamp(noon.Add(-time.Hour))
	b := func(reason, object, pool string) v1alpha1.Blocker {
		return v1alpha1.Blocker{Severity: v1alpha1.SeverityWait, Reason: reason, Object: object, Pool: pool}
	}
	at := func(b v1alpha1.Blocker, since int) v1alpha1.Blocker {
		b.Since = stamp(noon.Add(-time.Duration(since) * time.Hour))
		return b
	}
	cases := map[string]struct {
		reason      string
		now, before []v1alpha1.Blocker
		want        []v1alpha1.Blocker
	}{
		"New":         {"it is first seen now", []v1alpha1.Blocker{b("A", "x", "")}, nil, []v1alpha1.Blocker{at(b("A", "x", ""), 0)}},
		"Known":       {"it is as old as it is", []v1alpha1.Blocker{b("A", "x", "")}, []v1alpha1.Blocker{at(b("A", "x", ""), 1)}, []v1alpha1.Blocker{at(b("A", "x", ""), 1)}},
		"OtherObject": {"another object is another blocker", []v1alpha1.Blocker{b("A", "x", "")}, []v1alpha1.Blocker{at(b("A", "y", ""), 1)}, []v1alpha1.Blocker{at(b("A", "x", ""), 0)}},
		"OtherPool":   {"so is another pool", []v1alpha1.Blocker{b("A", "x", "p")}, []v1alpha1.Blocker{at(b("A", "x", "q"), 1)}, []v1alpha1.Blocker{at(b("A", "x", "p"), 0)}},
		"Double":      {"nothing is said twice", []v1alpha1.Blocker{b("A", "x", ""), b("A", "x", "")}, nil, []v1alpha1.Blocker{at(b("A", "x", ""), 0)}},
		"NoTime":      {"a blocker without a time gets one", []v1alpha1.Blocker{b("A", "x", "")}, []v1alpha1.Blocker{b("A", "x", "")}, []v1alpha1.Blocker{at(b("A", "x", ""), 0)}},
		"Gone":        {"what is over is dropped", nil, []v1alpha1.Blocker{at(b("A", "x", ""), 1)}, []v1alpha1.Blocker{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, since(tc.now, tc.before, noon)); diff != "" {
				t.Errorf("%s: since() -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
	if !then.Equal(stamp(noon.Add(-time.Hour + time.Millisecond))) {
		t.Error("times are cut to seconds, as the API server keeps them: else every look would write")
	}
}

func TestActionsOpenTheirEntries(t *testing.T) {
	d := Next(aMigration().build(), aWorld().engineInstalled().build(), noon)
	want := []v1alpha1.Operation{operation("SuspendProcesses/general", allQuiet, 0), operation("SuspendProcesses/eks-batch", allQuiet, 0)}
	if diff := cmp.Diff(want, d.Operations); diff != "" {
		t.Errorf("what is written before the first effect is made: -want, +got:\n%s", diff)
	}
}

// TestOrder: the controller makes the actions in their order, and one that fails does not stop the next.
func TestOrder(t *testing.T) {
	d := Next(aMigration().build(), aWorld().released().withNode("general-0", func(n *inventory.Node) {
		fenceIt(n)
		n.Taints[0].Key = taintToBeDeleted
	}).build(), noon)
	want := []string{
		"HoldLease kube-system/cluster-autoscaler", "StripLeftovers general-0",
		"EnsureNodePool general target-of-general/guarded", "EnsureNodePool batch target-of-batch/guarded",
	}
	if diff := cmp.Diff(want, told(d.Actions)); diff != "" {
		t.Errorf("the Lease is taken before a NodePool serves: -want, +got:\n%s", diff)
	}
}
