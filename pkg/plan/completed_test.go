package plan

import (
	"testing"
	"time"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// soaked remembers that both pools were emptied an hour ago.
func (b migrationOf) soaked() migrationOf {
	return b.drained("general", noon.Add(-time.Hour)).drained("batch", noon.Add(-time.Hour))
}

func TestCompleted(t *testing.T) {
	run(t, map[string]step{
		"Quiet": {
			reason:    "a finished migration does nothing",
			migration: aMigration().soaked(),
			world:     aWorld().completed(),
			want:      decided{phase: v1alpha1.PhaseCompleted},
		},
		"Lease": {
			reason:    "but for the Lease, every 15 minutes",
			migration: aMigration().soaked(),
			world:     aWorld().completed().withAutoscaler(func(a *inventory.Autoscaler) { a.LeaseRenewed = noon.Add(-leaseRenewal) }),
			want:      decided{phase: v1alpha1.PhaseCompleted, actions: []string{"HoldLease kube-system/cluster-autoscaler"}},
		},
		"Standby": {
			reason:    "a Cluster Autoscaler that was started again is named",
			migration: aMigration().soaked(),
			world:     aWorld().completed().withAutoscaler(func(a *inventory.Autoscaler) { a.Replicas, a.StatusReplicas, a.Pods = 1, 1, 1 }),
			want:      decided{phase: v1alpha1.PhaseCompleted, blockers: []string{"Warn AutoscalerStandby " + caObject}},
		},
		"EngineIsDown": {
			reason:    "an engine that is down is said, and turns the phase not back",
			migration: aMigration().soaked(),
			world:     aWorld().completed().with(func(w *World) { w.Engine.ReadyReplicas = 0 }),
			want:      decided{phase: v1alpha1.PhaseCompleted, blockers: []string{"Wait EngineNotReady deployment/karpenter"}},
		},
		"GroupGoneByHand": {
			reason:    "a group that its owner deleted is at its end",
			migration: aMigration().soaked(),
			world:     aWorld().completed().with(func(w *World) { w.Groups = w.Groups[1:] }),
			want:      decided{phase: v1alpha1.PhaseCompleted},
		},
		"GroupScaledUpByHand": {
			reason:    "a group that somebody scaled up again is dealt with before it has a node; the max is theirs",
			migration: aMigration().soaked(),
			world:     aWorld().completed().withGroup("general", func(g *inventory.NodeGroup) { g.Max, g.Desired = 1, 1 }),
			want:      decided{phase: v1alpha1.PhaseShifting, actions: []string{"SetGroupSize general 0/1/0"}, blockers: []string{"Warn ForeignSize nodegroup/general"}},
		},
	})
	d := Next(aMigration().soaked().build(), aWorld().completed().build(), noon)
	if want := noon.Add(guard); !d.Until.Equal(want) {
		t.Errorf("a finished migration is looked at every five minutes: Until = %v, want %v", d.Until, want)
	}
}

func TestCompletedReached(t *testing.T) {
	cases := map[string]struct {
		reason string
		world  *scene
		want   bool
	}{
		"Completed":  {"everything is at its end", aWorld().completed(), true},
		"NoSnapshot": {"an empty cluster that castoff never touched is none that it finished", aWorld().completed().with(func(w *World) { w.Snapshot = nil }), false},
		"NoPools":    {"nothing to do is nothing done", aWorld().completed().with(func(w *World) { w.Pools = nil }), false},
		"NodeLeft":   {"a node is left", aWorld().shifting().finished("general"), false},
		"Min":        {"a min above 0 brings instances back", aWorld().completed().withGroup("batch", func(g *inventory.NodeGroup) { g.Min = 1 }), false},
		"Max":        {"the end size of an Auto Scaling group is 0/0/0", aWorld().completed().withGroup("general", func(g *inventory.NodeGroup) { g.Max = 10 }), false},
		"MaxForeign": {"but a max that somebody set since is theirs, and brings nothing back", aWorld().completed().withGroup("general", func(g *inventory.NodeGroup) { g.Max = 1 }), true},
		"MaxManaged": {"and of a managed node group 0/1/0", aWorld().completed().withGroup("batch", func(g *inventory.NodeGroup) { g.Max = 1 }), true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := completedReached(newLook(aMigration().soaked().build(), tc.world.build(), noon)); got != tc.want {
				t.Errorf("%s: completedReached() = %v, want %v", tc.reason, got, tc.want)
			}
		})
	}
	if completedReached(newLook(aMigration().drained("general", noon.Add(-time.Hour)).drained("batch", noon).build(), aWorld().completed().build(), noon)) {
		t.Error("a pool that is being soaked is not completed")
	}
}
