package plan

import (
	"slices"
	"testing"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

func TestWarming(t *testing.T) {
	run(t, map[string]step{
		"Warm": {
			reason:    "room is made for as many nodes as may be drained at once, and none is drained yet",
			migration: aMigration().warmFirst(),
			world:     aWorld().shifting(),
			want:      shifts([]string{"WarmNode general-0 general", "WarmNode general-1 general"}),
		},
		"EvictFirst": {
			reason: "with EvictFirst the evicted pods make Karpenter launch",
			world:  aWorld().shifting(),
			want:   shifts([]string{"BeginDrain general-0", "BeginDrain general-1"}),
		},
		"WarmingUp": {
			reason:    "a node is not drained before a pod of it has room, and no other begins in its place",
			migration: aMigration().warmFirst().maxUnavailable("1"),
			world:     aWorld().shifting().warm("general-1", 0, 3),
			want:      shifts(nil, "Wait WarmingUp node/general-1"),
			says:      "no room on a new node yet for 3 of 3 pods",
		},
		"SomeHaveRoom": {
			reason:    "each pod goes when its own room is there",
			migration: aMigration().warmFirst().maxUnavailable("1"),
			world:     aWorld().shifting().warm("general-1", 1, 2),
			want:      shifts([]string{"BeginDrain general-1", "EvictPods general-1 general"}, "Wait WarmingUp node/general-1"),
			says:      "no room on a new node yet for 2 of 3 pods",
		},
		"Ahead": {
			reason:    "room is asked for while the group is still being opened: an instance takes its time",
			migration: aMigration().warmFirst().maxUnavailable("1"),
			world: aWorld().shifting().withGroup("general", func(g *inventory.NodeGroup) {
				g.SuspendedProcesses = slices.DeleteFunc(slices.Clone(g.SuspendedProcesses), func(p string) bool { return p == processLaunch })
			}),
			want: shifts([]string{"SuspendProcesses general Launch", "WarmNode general-0 general"}),
		},
		"OneIsReadyOneIsNot": {
			reason:    "the node whose pods have room is not held up by the other: the batch shrinks",
			migration: aMigration().warmFirst(),
			world:     aWorld().shifting().warm("general-1", 0, 1).warm("general-2", 1, 0),
			want:      shifts([]string{"BeginDrain general-2", "EvictPods general-2 general"}, "Wait WarmingUp node/general-1"),
		},
		"Ready": {
			reason:    "with room for all of them the drain begins; its placeholders stay for the swap",
			migration: aMigration().warmFirst().maxUnavailable("1"),
			world:     aWorld().shifting().warm("general-1", 2, 0),
			want:      shifts([]string{"BeginDrain general-1", "EvictPods general-1 general"}),
		},
		"NothingToMove": {
			reason:    "a node without pods that move needs no room",
			migration: aMigration().warmFirst().maxUnavailable("1"),
			world:     aWorld().shifting().warm("general-0", 0, 0),
			want:      shifts([]string{"BeginDrain general-0"}),
		},
		"InFlight": {
			reason:    "a node that is drained counts: together they are as many as may be unavailable",
			migration: aMigration().warmFirst(),
			world:     aWorld().shifting().warm("general-0", 1, 0).draining("general-0", 1),
			want:      shifts([]string{"EvictPods general-0 general", "WarmNode general-1 general"}, "Wait Draining node/general-0"),
		},
		"CannotLaunch": {
			reason:    "why there is no room is said in Karpenter's own words, and nothing is evicted",
			migration: aMigration().warmFirst().maxUnavailable("1"),
			world: aWorld().shifting().warm("general-0", 0, 1).with(func(w *World) {
				w.LaunchFailures = []inventory.LaunchFailure{{NodePool: "general", Message: "InsufficientInstanceCapacity for m5.large", Time: noon}}
			}),
			want: shifts(nil, "Wait WarmingUp node/general-0"),
			says: "InsufficientInstanceCapacity",
		},
		"CannotSchedule": {
			reason:    "until Karpenter says something the scheduler's word is better than none",
			migration: aMigration().warmFirst().maxUnavailable("1"),
			world:     aWorld().shifting().warm("general-0", 0, 1).with(func(w *World) { w.Placeholders[0].Message = "0/5 nodes are available" }),
			want:      shifts(nil, "Wait WarmingUp node/general-0"),
			says:      "0/5 nodes",
		},
		"ItsTimeIsOver": {
			reason:    "room that nobody took in its time is given up, and the drain goes on without",
			migration: aMigration().warmFirst().maxUnavailable("1"),
			world:     aWorld().shifting().warm("general-0", 0, 1).with(func(w *World) { w.Placeholders[0].Ended = true }),
			want:      shifts([]string{"DropPlaceholders general-0:0", "BeginDrain general-0", "EvictPods general-0 general"}),
		},
		"NodeIsGone": {
			reason:    "what is left of a node that is gone is dropped: no node is launched for a batch that is over",
			migration: aMigration().warmFirst().maxUnavailable("1"),
			world:     aWorld().shifting().with(func(w *World) { w.Placeholders = []inventory.Placeholder{{Name: "old", Node: "general-9"}} }),
			want:      shifts([]string{"DropPlaceholders old", "WarmNode general-0 general"}),
		},
		"NotNotedYet": {
			reason:    "placeholders of a node that are fewer than they are to be are kept: the rest is made, or only not seen yet",
			migration: aMigration().warmFirst().maxUnavailable("1"),
			world:     aWorld().shifting().with(func(w *World) { w.Placeholders = []inventory.Placeholder{{Name: "one", Node: "general-0", Batch: 2}} }),
			want:      shifts([]string{"WarmNode general-0 general"}),
		},
		"StrategyChanged": {
			reason: "who turns to EvictFirst on the way gives up the room of nodes whose drain has not begun",
			world:  aWorld().shifting().warm("general-0", 1, 0).draining("general-0", 1).warm("general-1", 1, 0),
			want:   shifts([]string{"DropPlaceholders general-1:0", "EvictPods general-0 general", "BeginDrain general-1"}, "Wait Draining node/general-0"),
		},
	})
}

func TestRoomIsGivenUpWhenAMigrationHalts(t *testing.T) {
	for name, m := range map[string]migrationOf{
		"Paused":      aMigration().warmFirst().paused(),
		"RollingBack": aMigration().warmFirst().rollBack(),
	} {
		t.Run(name, func(t *testing.T) {
			s := aWorld().shifting().warm("general-0", 1, 1).warm("general-1", 1, 0).draining("general-1", 1)
			d := Next(m.m, s.w, noon)
			if got := told(d.Actions)[0]; got != "DropPlaceholders general-0:0:general-0:1:general-1:0" {
				t.Errorf("first of all: %s of %v", got, told(d.Actions))
			}
		})
	}
	t.Run("Assessing", func(t *testing.T) {
		s := aWorld()
		s.w.Placeholders = []inventory.Placeholder{{Name: "left-behind", Node: "general-0"}}
		if got := told(Next(aMigration().m, s.w, noon).Actions); len(got) == 0 || got[0] != "DropPlaceholders left-behind" {
			t.Errorf("what an earlier migration left behind: %v", got)
		}
	})
}

func TestLaunchFailuresAreReadWhileRoomIsPending(t *testing.T) {
	for name, tc := range map[string]struct {
		reason         string
		ready, pending int
		want           bool
	}{
		"Pending": {"why a placeholder has no node is of interest", 1, 1, true},
		"Ready":   {"when all have theirs it is not", 2, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := aWorld().shifting().warm("general-0", tc.ready, tc.pending)
			if got := NeedsOf(aMigration().warmFirst().m, s.w).LaunchFailures; got != tc.want {
				t.Errorf("%s: got %t", tc.reason, got)
			}
		})
	}
}

// TestNoRoomIsLeftOver: however a walk goes on, at its end no placeholder costs a node.
func TestNoRoomIsLeftOver(t *testing.T) {
	for seed := range int64(60) {
		k := aWalk(t, seed, aMigration().warmFirst().soak(0), aWorld()).faulty()
		if seed%3 == 1 {
			k.m.Spec.Strategy.Capacity = v1alpha1.CapacityEvictFirst
		}
		for range mostSteps {
			if k.step().Phase == v1alpha1.PhaseCompleted && len(k.truth.w.Placeholders) == 0 {
				break
			}
			if k.r.Intn(40) == 0 {
				k.m.Spec.Paused = !k.m.Spec.Paused
			}
		}
		k.m.Spec.Paused = false
		for range mostSteps {
			k.step()
			if len(k.truth.w.Placeholders) == 0 && k.truth.w.Nodes != nil {
				break
			}
		}
		if left := len(k.truth.w.Placeholders); left > 0 {
			t.Fatalf("seed %d: %d placeholders are left", seed, left)
		}
	}
}
