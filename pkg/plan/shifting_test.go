package plan

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

func shifts(actions []string, blockers ...string) decided {
	return decided{phase: v1alpha1.PhaseShifting, actions: actions, blockers: blockers}
}

func lifecycle(instance int, state string) func(*inventory.NodeGroup) {
	return func(g *inventory.NodeGroup) { g.Instances[instance].Lifecycle = state }
}

func TestShiftingOpensTheGroups(t *testing.T) {
	run(t, map[string]step{
		"Min": {
			reason: "Auto Scaling refuses a decrement below min, so min goes to 0 first; desired stays what it is",
			world:  aWorld().handedOver(),
			want:   shifts([]string{"SetGroupSize general 0/10/3"}),
		},
		"MaxIsNeverZero": {
			reason: "EKS refuses a max of 0",
			world:  aWorld().handedOver().withGroup("general", func(g *inventory.NodeGroup) { g.Max = 0 }),
			want:   shifts([]string{"SetGroupSize general 0/1/3"}),
		},
		"Launch": {
			reason: "then no legacy instance comes any more",
			world:  aWorld().handedOver().withGroup("general", func(g *inventory.NodeGroup) { g.Min = 0 }),
			want:   shifts([]string{"SuspendProcesses general Launch"}),
		},
		"OnePoolAtATime": {
			reason: "the second pool's groups stay as they are until its turn",
			world: aWorld().handedOver().withGroup("general", func(g *inventory.NodeGroup) {
				g.Min, g.SuspendedProcesses = 0, append(g.SuspendedProcesses, processLaunch)
			}),
			want: shifts([]string{"BeginDrain general-0", "BeginDrain general-1"}),
		},
		"MinIsRaisedByHand": {
			reason: "a min that somebody set is theirs: it stops the pool, and is named",
			world:  aWorld().shifting().draining("general-0", 2).withGroup("general", func(g *inventory.NodeGroup) { g.Min = 2 }),
			want:   shifts(nil, "Block ForeignSize nodegroup/general"),
			says:   "Set it to 0 where it is defined, or accept the risk ForeignSize",
		},
		"MinIsAccepted": {
			reason:    "a user who accepts it has castoff set it",
			migration: aMigration().accepts(CheckForeignSize, "nodegroup/general"),
			world:     aWorld().shifting().draining("general-0", 2).withGroup("general", func(g *inventory.NodeGroup) { g.Min = 2 }),
			want:      shifts([]string{"SetGroupSize general 0/10/3"}),
		},
		"MinIsRestored": {
			reason: "the recorded min is nobody's change: it is there after a way back that was broken off",
			world:  aWorld().shifting().withGroup("general", func(g *inventory.NodeGroup) { g.Min = 1 }),
			want:   shifts([]string{"SetGroupSize general 0/10/3"}),
		},
		"LaunchIsResumedByHand": {
			reason: "so does one of the processes",
			world: aWorld().shifting().draining("general-0", 2).withGroup("general", func(g *inventory.NodeGroup) {
				g.SuspendedProcesses = quietProcesses
			}),
			want: shifts([]string{"SuspendProcesses general Launch"}),
		},
		"BlockedBeforeThePool": {
			reason: "the preflight is run again before each pool, and what concerns another pool does not stop this one",
			world:  aWorld().shifting().found(barePod, noRights),
			want:   shifts(nil, "Block Permission action/sqs:CreateQueue"),
		},
		"OtherPoolIsBlocked": {
			reason: "a finding about batch lets general go on",
			world:  aWorld().shifting().found(barePod),
			want:   shifts([]string{"BeginDrain general-0", "BeginDrain general-1"}),
		},
		"NotInTheMiddleOfAPool": {
			reason: "what blocks while nodes are being drained does not leave them half drained",
			world:  aWorld().shifting().draining("general-0", 2).found(noRights),
			want:   shifts([]string{"EvictPods general-0 general", "BeginDrain general-1"}, "Wait Draining node/general-0"),
		},
	})
}

func TestShiftingDrains(t *testing.T) {
	pdb := inventory.BlockedPod{Pod: types.NamespacedName{Namespace: "shop", Name: "cart-0"}, Reason: inventory.BlockedByPDB, Message: "cart allows 0"}
	run(t, map[string]step{
		"Begin": {
			reason:    "as many nodes begin as maxUnavailableNodes allows",
			migration: aMigration().maxUnavailable("1"),
			world:     aWorld().shifting(),
			want:      shifts([]string{"BeginDrain general-0"}),
		},
		"Evict": {
			reason:    "a node whose drain began is passed over until it is empty",
			migration: aMigration().maxUnavailable("1"),
			world:     aWorld().shifting().draining("general-0", 2),
			want:      shifts([]string{"EvictPods general-0 general"}, "Wait Draining node/general-0"),
			says:      "2 pods still have to leave",
		},
		"NotLooked": {
			reason:    "a node that was not looked at is not taken for empty",
			migration: aMigration().maxUnavailable("1"),
			world:     aWorld().shifting().draining("general-0", 0).with(func(w *World) { w.Drains = nil }),
			want:      shifts([]string{"EvictPods general-0 general"}, "Wait Draining node/general-0"),
		},
		"Held": {
			reason:    "a budget that holds a pod is named, and asked again when it has room",
			migration: aMigration().maxUnavailable("1"),
			world:     aWorld().shifting().draining("general-0", 1, pdb),
			want:      shifts(nil, "Wait Draining node/general-0", "Wait DisruptionBudget pod/shop/cart-0"),
			says:      "cart allows 0",
		},
		"OneIsBlockedOneGoesOn": {
			reason: "in one pass node 0 is reported and node 1 ends",
			world:  aWorld().shifting().draining("general-0", 1, pdb).draining("general-1", 0),
			want: shifts([]string{"EndInstances general i-general-1"},
				"Wait InstanceEnding node/general-1", "Wait Draining node/general-0", "Wait DisruptionBudget pod/shop/cart-0"),
		},
		"OneIsHeldOneIsFree": {
			reason:    "a pod that nothing holds goes, whatever holds the others",
			migration: aMigration().maxUnavailable("1"),
			world:     aWorld().shifting().draining("general-0", 2, pdb),
			want:      shifts([]string{"EvictPods general-0 general"}, "Wait Draining node/general-0", "Wait DisruptionBudget pod/shop/cart-0"),
		},
		"ItsRoomIsLeftOver": {
			reason:    "a pod that left by itself has no use for its room",
			migration: aMigration().warmFirst().maxUnavailable("1"),
			world:     aWorld().shifting().warm("general-0", 2, 0).draining("general-0", 1, pdb),
			want:      shifts([]string{"EvictPods general-0 general"}, "Wait Draining node/general-0", "Wait DisruptionBudget pod/shop/cart-0"),
		},
		"End": {
			reason:    "an instance ends when no evictable pod is left on its node",
			migration: aMigration().maxUnavailable("1"),
			world:     aWorld().shifting().draining("general-0", 0),
			want:      shifts([]string{"EndInstances general i-general-0"}, "Wait InstanceEnding node/general-0"),
		},
		"EndsOnce": {
			reason:    "an instance that is ending is not ended again: each call lowers desired",
			migration: aMigration().maxUnavailable("1"),
			world:     aWorld().shifting().draining("general-0", 0).withGroup("general", lifecycle(0, "Terminating:Wait")),
			want:      shifts(nil, "Wait InstanceEnding node/general-0"),
		},
		"NotInService": {
			reason:    "what is only coming up is not counted by desired in the same way, so it is waited for",
			migration: aMigration().maxUnavailable("1"),
			world:     aWorld().shifting().draining("general-0", 0).withGroup("general", lifecycle(0, "Pending:Wait")),
			want:      shifts(nil, "Wait InstanceEnding node/general-0"),
		},
		"EndIsNotVisibleYet": {
			reason:    "while one ending is not visible in AWS's reads no other one of the group goes out",
			migration: aMigration().ledger(operation("EndInstances/general", "i-general-0", 30*time.Second)),
			world:     aWorld().shifting().draining("general-0", 0).draining("general-1", 0),
			want:      shifts(nil, "Wait InstanceEnding node/general-0", "Wait InstanceEnding node/general-1", "Wait EffectNotVisible EndInstances/general"),
		},
		"PodsPending": {
			reason: "pods that the last drain left without a node come first",
			world:  aWorld().shifting().draining("general-0", 1).with(func(w *World) { w.PendingPods = 3 }),
			want:   shifts([]string{"EvictPods general-0 general"}, "Wait Draining node/general-0", "Wait PodsPending pool/general"),
			says:   "3 pods more",
		},
		"PodsPendingBefore": {
			reason: "pods that were pending before the migration are the baseline",
			world: aWorld().shifting().draining("general-0", 1).with(func(w *World) {
				w.PendingPods, w.Snapshot.PendingPods = 3, 3
			}),
			want: shifts([]string{"EvictPods general-0 general", "BeginDrain general-1"}, "Wait Draining node/general-0"),
		},
		"Strays": {
			reason: "instances that never became a node hold no pod; they end when no node of the pool is left",
			world: aWorld().shifting().with(func(w *World) {
				w.Nodes = w.Nodes[3:]
			}).withGroup("general", lifecycle(2, "Terminating")),
			want: shifts([]string{"EndInstances general i-general-0:i-general-1"}),
		},
		"StraysWaitForNodes": {
			reason:    "while a node is left a stray may still become one",
			migration: aMigration().maxUnavailable("1"),
			world: aWorld().shifting().draining("general-0", 1).with(func(w *World) {
				w.Nodes = append(w.Nodes[:1:1], w.Nodes[3:]...)
			}),
			want: shifts([]string{"EvictPods general-0 general"}, "Wait Draining node/general-0"),
		},
		"Leaving": {
			reason: "instances on their way out are waited for",
			world: aWorld().shifting().with(func(w *World) { w.Nodes = w.Nodes[3:] }).withGroup("general", func(g *inventory.NodeGroup) {
				g.Instances = g.Instances[:1]
				g.Instances[0].Lifecycle = "Terminating:Wait"
			}),
			want: shifts(nil, "Wait InstancesLeaving nodegroup/general"),
		},
	})
}

func TestShiftingSettles(t *testing.T) {
	emptied := func() *scene { return aWorld().shifting().emptied("general").serve("general", "") }
	run(t, map[string]step{
		"EndSize": {
			reason: "an Auto Scaling group ends at 0/0/0",
			world:  emptied(),
			want:   shifts([]string{"SetGroupSize general 0/0/0"}),
		},
		"EndSizeManaged": {
			reason:    "a managed node group ends at 0/1/0, for EKS refuses a max of 0",
			migration: aMigration().soak(0),
			world:     aWorld().shifting().finished("general").emptied("batch").serve("batch", ""),
			want:      shifts([]string{"SetGroupSize eks-batch 0/1/0"}),
		},
		"DesiredIsLeftOver": {
			reason: "an instance that died by itself leaves a desired size that would bring it back",
			world:  aWorld().shifting().finished("general").withGroup("general", func(g *inventory.NodeGroup) { g.Desired, g.Max = 1, 10 }),
			want:   shifts([]string{"SetGroupSize general 0/0/0"}),
		},
		"MaxIsForeign": {
			reason: "a max that somebody set since the snapshot is theirs, and stays",
			world:  aWorld().shifting().finished("general").withGroup("general", func(g *inventory.NodeGroup) { g.Desired, g.Max = 1, 20 }),
			want:   shifts([]string{"SetGroupSize general 0/20/0"}, "Warn ForeignSize nodegroup/general"),
			says:   "its max is 20, and was 10",
		},
		"MaxIsAccepted": {
			reason:    "unless they accept that castoff sets it",
			migration: aMigration().accepts(CheckForeignSize, "nodegroup/general"),
			world:     aWorld().shifting().finished("general").withGroup("general", func(g *inventory.NodeGroup) { g.Max = 20 }),
			want:      shifts([]string{"SetGroupSize general 0/0/0"}),
		},
		"SoakBegins": {
			reason: "the soak begins when the pool is seen empty",
			world:  aWorld().shifting().finished("general"),
			want:   shifts(nil, "Wait Soaking pool/general"),
			says:   "the soak begins",
		},
		"Soaking": {
			reason:    "the next pool does not begin before the soak is over",
			migration: aMigration().drained("general", noon.Add(-time.Minute)),
			world:     aWorld().shifting().finished("general"),
			want:      shifts(nil, "Wait Soaking pool/general"),
			says:      "2026-11-30T12:09:00Z",
		},
		"Soaked": {
			reason:    "then it does",
			migration: aMigration().drained("general", noon.Add(-10*time.Minute)),
			world:     aWorld().shifting().finished("general"),
			want:      shifts([]string{"BeginDrain batch-0"}),
		},
		"NoSoak": {
			reason:    "without a soak it begins at once",
			migration: aMigration().soak(0),
			world:     aWorld().shifting().finished("general"),
			want:      shifts([]string{"BeginDrain batch-0"}),
		},
		"LastSoak": {
			reason:    "the last pool is soaked too, and until then the migration is not completed",
			migration: aMigration().drained("general", noon.Add(-time.Hour)).drained("batch", noon.Add(-time.Minute)),
			world:     aWorld().completed(),
			want:      shifts(nil, "Wait Soaking pool/batch"),
		},
		"AStragglerComesBack": {
			reason:    "a legacy node that came back to a finished pool is drained before the next pool goes on",
			migration: aMigration().maxUnavailable("1").drained("general", noon.Add(-time.Hour)),
			world: aWorld().shifting().draining("batch-0", 1).emptied("general").join("general").withNode("general-0", func(n *inventory.Node) {
				n.Annotations[v1alpha1.AnnotationLegacy] = "general"
				fenceIt(n)
			}),
			want: shifts([]string{"BeginDrain general-0"}),
		},
	})
	d := Next(aMigration().drained("general", noon.Add(-time.Minute)).build(), aWorld().shifting().finished("general").build(), noon)
	if want := noon.Add(9 * time.Minute); !d.Until.Equal(want) {
		t.Errorf("a soak needs no look before its end: Until = %v, want %v", d.Until, want)
	}
}

func TestBlockersOfAPoolNameIt(t *testing.T) {
	d := Next(aMigration().build(), aWorld().shifting().draining("general-0", 2).build(), noon)
	if len(d.Blockers) == 0 {
		t.Fatal("a node being drained is waited for")
	}
	for _, b := range d.Blockers {
		if b.Pool != "general" {
			t.Errorf("the blocker %+v does not say which pool it holds back", b)
		}
	}
}

func TestMaxUnavailable(t *testing.T) {
	percent := func(s string) *intstr.IntOrString { v := intstr.Parse(s); return &v }
	cases := map[string]struct {
		reason string
		value  *intstr.IntOrString
		nodes  int
		want   int
	}{
		"Nil":       {"the careful answer", nil, 100, 1},
		"Number":    {"as it stands", percent("7"), 3, 7},
		"RoundedUp": {"10% of 11 is 1.1", percent("10%"), 11, 2},
		"Even":      {"10% of 20 is 2", percent("10%"), 20, 2},
		"Tiny":      {"1% of 3 is 0.03", percent("1%"), 3, 1},
		"NoNodes":   {"a pool that had no node gets on all the same", percent("10%"), 0, 1},
		"All":       {"100%", percent("100%"), 9, 9},
		"Zero":      {"0 would never move", percent("0"), 9, 1},
		"Nonsense":  {"what cannot be read is read carefully", percent("many"), 9, 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := maxUnavailable(tc.value, tc.nodes); got != tc.want {
				t.Errorf("%s: maxUnavailable() = %d, want %d", tc.reason, got, tc.want)
			}
		})
	}
}

func TestRoomGoesByTheSnapshot(t *testing.T) {
	s := aWorld()
	for range 7 {
		s.join("general") // 10 nodes
	}
	s.shifting().with(func(w *World) { w.Nodes = w.Nodes[2:] }) // the first ones are gone
	d := Next(aMigration().maxUnavailable("25%").build(), s.build(), noon)
	if len(d.Actions) != 3 {
		t.Errorf("25%% of the 10 nodes in the snapshot, rounded up, is 3, however few are left; got %v", told(d.Actions))
	}
}

func TestInstancesEndAsFarAsAnEntryHoldsThem(t *testing.T) {
	s := aWorld()
	for range 200 {
		s.join("general")
	}
	w := s.shifting().with(func(w *World) { w.Nodes = nil }).build()
	d := Next(aMigration().build(), w, noon)
	for _, a := range d.Actions {
		if e, ok := a.(EndInstances); ok && len(e.IDs) != len(fitting(e.IDs)) {
			t.Errorf("%d instances in one call: the ledger's entry has no room for them", len(e.IDs))
		}
	}
	if len(d.Actions) != 1 {
		t.Errorf("actions %v, want one call", told(d.Actions))
	}
}

func TestDrainBlockers(t *testing.T) {
	pods := func(reason inventory.BlockReason, n int) (out []inventory.BlockedPod) {
		for i := range n {
			out = append(out, inventory.BlockedPod{Pod: types.NamespacedName{Namespace: "ns", Name: fmt.Sprintf("%s-%d", reason, i)}, Reason: reason, Message: "m"})
		}
		return out
	}
	cases := map[string]struct {
		reason  string
		blocked []inventory.BlockedPod
		want    []string
	}{
		"None":  {"nothing is held", nil, nil},
		"Three": {"three pods a cause are named", pods(inventory.BlockedByPDB, 3), []string{"Wait DisruptionBudget pod/ns/DisruptionBudget-0", "Wait DisruptionBudget pod/ns/DisruptionBudget-1", "Wait DisruptionBudget pod/ns/DisruptionBudget-2"}},
		"More": {"the rest is counted", pods(inventory.BlockedBare, 5), []string{"Block BarePod pod/ns/BarePod-0", "Block BarePod pod/ns/BarePod-1", "Block BarePod pod/ns/BarePod-2",
			"Block BarePod node/n"}},
		"EachCause": {"each cause has three of its own", append(pods(inventory.BlockedTerminating, 4), pods(inventory.BlockedByTwoPDBs, 1)...), []string{
			"Wait Terminating pod/ns/Terminating-0", "Wait Terminating pod/ns/Terminating-1", "Wait Terminating pod/ns/Terminating-2",
			"Block TwoDisruptionBudgets pod/ns/TwoDisruptionBudgets-0", "Wait Terminating node/n"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := DrainBlockers("general", inventory.DrainState{Node: "n", Blocked: tc.blocked})
			if diff := cmp.Diff(tc.want, shown(got)); diff != "" {
				t.Errorf("%s: DrainBlockers() -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
	more := DrainBlockers("general", inventory.DrainState{Node: "n", Blocked: pods(inventory.BlockedBare, 5)})[3]
	if want := "2 more pods of this node wait for the same reason."; more.Message != want || more.Pool != "general" {
		t.Errorf("the count says %q of pool %q, want %q of pool general", more.Message, more.Pool, want)
	}
}

func TestSeverityOf(t *testing.T) {
	wait, stop := v1alpha1.SeverityWait, v1alpha1.SeverityBlock
	for reason, want := range map[inventory.BlockReason]v1alpha1.Severity{
		inventory.BlockedByPDB: wait, inventory.BlockedByThrottling: wait, inventory.BlockedTerminating: wait, inventory.BlockedError: wait,
		inventory.BlockedDoNotDisrupt: wait, inventory.BlockedByTwoPDBs: stop, inventory.BlockedBare: stop,
	} {
		if got := severityOf(reason); got != want {
			t.Errorf("severityOf(%s) = %s, want %s: only what no time will end needs a human", reason, got, want)
		}
	}
}
