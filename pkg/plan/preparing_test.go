package plan

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// scaled gives a group a scaling policy and a scheduled action.
func (s *scene) scaled(group, policy, schedule string) *scene {
	return s.withGroup(group, func(g *inventory.NodeGroup) {
		g.ScalingPolicies = append(g.ScalingPolicies, inventory.ScalingPolicy{Name: policy, Enabled: true, Active: true})
		g.ScheduledActions = append(g.ScheduledActions, inventory.ScheduledAction{Name: schedule})
	})
}

var marks = []string{
	"MarkNode general-0 general", "MarkNode general-1 general", "MarkNode general-2 general", "MarkNode batch-0 batch", "MarkNode batch-1 batch",
}

// wantInstalling is what a world asks for that is prepared and has nothing of the engine.
var wantInstalling = decided{
	phase:    v1alpha1.PhaseInstalling,
	actions:  []string{"EnsureInterruption interruption", "EnsureIdentity identity"},
	blockers: []string{"Wait InterruptionNotReady queue/test", "Wait IdentityNotReady role/nodes"},
}

func TestPreparing(t *testing.T) {
	run(t, map[string]step{
		"SnapshotFirst": {
			reason: "policies, schedules and nodes wait until what they were is recorded",
			world:  aWorld().scaled("general", "cpu", "night"),
			want:   decided{phase: v1alpha1.PhasePreparing, actions: []string{"SaveSnapshot"}},
		},
		"MarkFirst": {
			reason: "the legacy nodes are marked before anything is changed: the marks say that there is something to undo; no label, taint or cordon yet",
			world:  aWorld().scaled("general", "cpu", "night").snapshotTaken(),
			want:   decided{phase: v1alpha1.PhasePreparing, actions: marks},
		},
		"PoolByPool": {
			reason: "what resizes the groups of a marked pool is stopped, whatever keeps another pool's nodes from being marked",
			world: aWorld().scaled("general", "cpu", "night").snapshotTaken().marked().withNode("batch-0", func(n *inventory.Node) {
				delete(n.Annotations, v1alpha1.AnnotationLegacy)
			}),
			want: decided{phase: v1alpha1.PhasePreparing, actions: []string{"DisablePolicies general cpu", "MarkNode batch-0 batch"}},
		},
		"ByAutoScalingName": {
			reason: "a managed node group's effects go to the Auto Scaling group that it owns",
			world:  aWorld().scaled("batch", "cpu", "night").snapshotTaken().marked(),
			want:   decided{phase: v1alpha1.PhasePreparing, actions: []string{"DisablePolicies eks-batch cpu"}},
		},
		"SchedulesAfterPolicies": {
			reason: "one change is under way on a group at a time; schedules follow when the policies are seen disabled",
			world: aWorld().scaled("general", "cpu", "night").snapshotTaken().marked().withGroup("general", func(g *inventory.NodeGroup) {
				g.ScalingPolicies[0].Active = false
			}),
			want: decided{phase: v1alpha1.PhasePreparing, actions: []string{"DeleteScheduledActions general night"}},
		},
		"StrangersAreLeft": {
			reason: "what was made after the snapshot could not be put back, so it is named and left alone",
			world:  aWorld().prepared().scaled("general", "new", "morning"),
			want: decided{phase: wantInstalling.phase, actions: wantInstalling.actions,
				blockers: append([]string{"Warn ForeignScaling nodegroup/general"}, wantInstalling.blockers...)},
			says: "scaling policy new, a scheduled action morning",
		},
		"InactiveStrangersAreNobodysBusiness": {
			reason: "a policy that cannot act needs no word",
			world: aWorld().prepared().withGroup("general", func(g *inventory.NodeGroup) {
				g.ScalingPolicies = []inventory.ScalingPolicy{{Name: "forecast"}}
			}),
			want: wantInstalling,
		},
		"KnownOneIsEnabledAgain": {
			reason: "somebody's tool enabled a recorded policy again: castoff disables it once more, and shows the phase it had reached",
			world: aWorld().scaled("general", "cpu", "night").shifting().withGroup("general", func(g *inventory.NodeGroup) {
				g.ScalingPolicies[0].Active = true
			}),
			want: decided{phase: v1alpha1.PhaseShifting, actions: []string{"DisablePolicies general cpu"}, blockers: []string{"Warn SetBack nodegroup/general"}},
		},
		"LateJoinerIsMarked": {
			reason: "a node that joined after the snapshot belongs to its group's pool too",
			world:  aWorld().prepared().join("general"),
			want:   decided{phase: v1alpha1.PhasePreparing, actions: []string{"MarkNode general-3 general"}},
		},
		"HomeIsLeft": {
			reason: "a node of the home is not marked, and its group's policies are the user's",
			world:  aWorld().prepared().join("system").scaled("system", "cpu", "night"),
			want:   wantInstalling,
		},
		"Prepared": {
			reason: "with nothing left to prepare, the engine is next",
			world:  aWorld().prepared(),
			want:   wantInstalling,
		},
	})
}

func TestSnapshotRecordsWhatIsTouched(t *testing.T) {
	other := anAutoscaler("other-cluster")
	other.Discovery = []string{"somebody-else"}
	w := aWorld().scaled("general", "cpu", "night").withNode("general-1", func(n *inventory.Node) { n.Unschedulable = true }).
		with(func(w *World) { w.PendingPods, w.Autoscalers = 4, append(w.Autoscalers, other) }).build()
	d := Next(aMigration().build(), w, noon)
	if len(d.Actions) != 1 {
		t.Fatalf("actions %v, want the snapshot alone", told(d.Actions))
	}
	got := d.Actions[0].(SaveSnapshot).Snapshot
	node := func(name, zone string, cordoned bool) inventory.NodeSnapshot {
		return inventory.NodeSnapshot{Name: name, InstanceID: "i-" + name, Zone: zone, Labels: map[string]string{"team": "shop"}, Unschedulable: cordoned}
	}
	want := &inventory.Snapshot{
		Format: inventory.SnapshotFormat, Cluster: "test", Taken: noon, Migration: "uid-1", Home: "system", PendingPods: 4,
		Pools: w.Pools, Autoscalers: w.Autoscalers[:1],
		Groups: []inventory.GroupSnapshot{
			{Group: w.Groups[0], Nodes: []inventory.NodeSnapshot{node("general-0", "a", false), node("general-1", "b", true), node("general-2", "c", false)}},
			{Group: w.Groups[1], Nodes: []inventory.NodeSnapshot{node("batch-0", "a", false), node("batch-1", "b", false)}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("only what castoff touches is recorded, each group with its nodes and a Cluster Autoscaler that manages none not at all: -want, +got:\n%s", diff)
	}
}

func TestManages(t *testing.T) {
	cases := map[string]struct {
		reason string
		change func(*inventory.Autoscaler)
		want   bool
	}{
		"ByTag":         {"it discovers groups by a tag that a pool's group has", func(*inventory.Autoscaler) {}, true},
		"ByOtherTag":    {"another cluster's discovery tag does not touch a pool", func(a *inventory.Autoscaler) { a.Discovery = []string{"other"} }, false},
		"ByTagAndValue": {"a value in the flag has to match", func(a *inventory.Autoscaler) { a.Discovery = []string{caKey + "=false"} }, false},
		"Static":        {"--nodes names a pool's Auto Scaling group", func(a *inventory.Autoscaler) { a.Discovery, a.Static = nil, []string{"eks-batch"} }, true},
		"StaticHome":    {"the home may be scaled by anybody", func(a *inventory.Autoscaler) { a.Discovery, a.Static = nil, []string{"eks-system"} }, false},
		"Nothing":       {"without discovery and without names it scales nothing", func(a *inventory.Autoscaler) { a.Discovery = nil }, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			a := anAutoscaler("ca")
			tc.change(&a)
			if got := manages(a, newLook(aMigration().build(), aWorld().build(), noon)); got != tc.want {
				t.Errorf("%s: manages() = %v, want %v", tc.reason, got, tc.want)
			}
		})
	}
}

func TestNodesWithoutAGroupAreNotRecorded(t *testing.T) {
	nodes := []inventory.Node{{Name: "a", Group: "general"}, {Name: "b"}, {Name: "c", Group: "batch"}}
	want := []inventory.NodeSnapshot{{Name: "a"}}
	if diff := cmp.Diff(want, nodeSnapshots(nodes, "general")); diff != "" {
		t.Errorf("a group's record has its own nodes only: -want, +got:\n%s", diff)
	}
}
