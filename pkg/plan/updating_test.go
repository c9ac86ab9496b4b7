package plan

import (
	"slices"
	"testing"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

func eksAtIt(g *inventory.NodeGroup) { g.Managed.Status = "UPDATING" }

// TestCase_C088_EKSIsWaitedFor: while EKS updates a node group it refuses every other change of it, so none is asked for; other
// groups go on.
func TestCase_C088_EKSIsWaitedFor(t *testing.T) {
	const wait = "Wait NodeGroupUpdating nodegroup/batch"
	run(t, map[string]step{
		"End": {
			reason: "the end size of the node group waits, and with it the end of the migration", world: aWorld().shifting().finished("general", "batch").withGroup("batch", func(g *inventory.NodeGroup) { g.Max = 10 }).withGroup("batch", eksAtIt),
			migration: aMigration().soaked(), want: decided{phase: v1alpha1.PhaseShifting, blockers: []string{wait}}, says: "takes no other change",
		},
		"Ended": {
			reason: "what waits is asked for when EKS is done", world: aWorld().shifting().finished("general", "batch").withGroup("batch", func(g *inventory.NodeGroup) { g.Max = 10 }),
			migration: aMigration().soaked(), want: decided{phase: v1alpha1.PhaseShifting, actions: []string{"SetGroupSize eks-batch 0/1/0"}},
		},
		"Delete": {
			reason: "a deletion waits likewise", migration: retireNow(), world: aWorld().completed().withGroup("batch", eksAtIt).with(func(w *World) {
				w.Groups = slices.DeleteFunc(w.Groups, func(g inventory.NodeGroup) bool { return g.Name == "general" })
			}),
			want: finishes(nil, "Wait Deleting nodegroup/batch", wait),
		},
	})
	runBack(t, map[string]step{
		"WayBack": {
			reason: "what goes to Auto Scaling does not", world: aWorld().stilled().withGroup("batch", eksAtIt),
			want: backwards([]string{"SetGroupSize general 1/10/3", "ResumeProcesses eks-batch Launch", "HoldNode batch-0 batch", "HoldNode batch-1 batch"}, wait),
		},
	})
}

// TestCase_C088_SizesAreNeverInvalid: wherever a managed node group stands, each change of its sizes is one that EKS takes: 0 to
// min to desired to max, and max at least 1.
func TestCase_C088_SizesAreNeverInvalid(t *testing.T) {
	sized := func(minimum, maximum, desired int32) inventory.NodeGroup {
		return inventory.NodeGroup{Name: "g", AutoScalingGroup: "eks-g", Min: minimum, Max: maximum, Desired: desired, Managed: &inventory.ManagedNodeGroup{Status: "ACTIVE"}}
	}
	recorded := sized(12, 20, 12)
	for name, now := range map[string]inventory.NodeGroup{
		"AtTheEnd": sized(0, 1, 0), "OpenedDownwards": sized(0, 20, 5), "Untouched": recorded, "AboveRecorded": sized(0, 20, 20),
		"ForeignMin": sized(3, 20, 3), "ForeignMax": sized(0, 40, 12), "ForeignMaxBelow": sized(0, 4, 0), "ForeignBoth": sized(15, 15, 15),
	} {
		t.Run(name, func(t *testing.T) {
			minimum, maximum, desired := sizesBack(&outcome{}, newLook(aMigration().m, World{}, noon), now, recorded)
			if minimum < 0 || minimum > desired || desired > maximum || maximum < 1 {
				t.Errorf("from %s to %s", sizes(now.Min, now.Max, now.Desired), sizes(minimum, maximum, desired))
			}
			if end := endMax(now); end < 1 {
				t.Errorf("its end size has max %d", end)
			}
		})
	}
	if got := sizes(sizesBack(&outcome{}, newLook(aMigration().m, World{}, noon), sized(0, 1, 0), recorded)); got != "12/20/12" {
		t.Errorf("from its end to %s, want 12/20/12", got)
	}
}
