package plan

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

func TestNeedsOf(t *testing.T) {
	cases := map[string]struct {
		reason string
		world  *scene
		want   Needs
	}{
		"Fresh":     {"the checks run before the first write", aWorld(), Needs{Preflight: true, Health: true}},
		"Installed": {"and before the hand-over", aWorld().quiet(), Needs{Preflight: true}},
		"Between":   {"and before each pool", aWorld().shifting(), Needs{Preflight: true, Health: true}},
		"NextPool":  {"the second one too", aWorld().shifting().finished("general"), Needs{Preflight: true, Health: true}},
		"Draining":  {"while nodes are drained their pods are looked at, and whether those that moved are well", aWorld().shifting().draining("general-0", 1).draining("batch-1", 0), Needs{Health: true, Drains: []string{"general-0", "batch-1"}}},
		"Completed": {"until it is written down that the pools are done, whether those that moved are well", aWorld().completed(), Needs{Health: true}},
		"Home":      {"a node of the home is nobody's to drain", aWorld().shifting().draining("system-0", 1), Needs{Preflight: true, Health: true}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := NeedsOf(aMigration().build(), tc.world.build())
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: NeedsOf() -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestLookAtAPool(t *testing.T) {
	cases := map[string]struct {
		reason   string
		world    *scene
		groups   []string
		nodes    []string
		recorded int
		target   bool
	}{
		"Plain":      {"its groups and their nodes", aWorld().snapshotTaken(), []string{"general"}, []string{"general-0", "general-1", "general-2"}, 3, true},
		"NoSnapshot": {"before the snapshot what is there is what will be recorded", aWorld().join("general"), []string{"general"}, []string{"general-0", "general-1", "general-2", "general-3"}, 4, true},
		"LateJoiner": {"a node that came later is its node, and not recorded", aWorld().snapshotTaken().join("general"), []string{"general"}, []string{"general-0", "general-1", "general-2", "general-3"}, 3, true},
		"Detached": {"a marked node whose instance left the group is still its node", aWorld().prepared().withNode("general-1", func(n *inventory.Node) { n.Group = "" }),
			[]string{"general"}, []string{"general-0", "general-1", "general-2"}, 3, true},
		"Unmarked": {"an unmarked one is nobody's", aWorld().snapshotTaken().withNode("general-1", func(n *inventory.Node) { n.Group = "" }),
			[]string{"general"}, []string{"general-0", "general-2"}, 3, true},
		"GroupGone": {"what the snapshot has counts even when the group is gone", aWorld().prepared().with(func(w *World) { w.Groups = w.Groups[1:] }), nil, []string{"general-0", "general-1", "general-2"}, 3, true},
		"NoTarget":  {"a pool may have no target yet", aWorld().with(func(w *World) { w.Targets = nil }), []string{"general"}, []string{"general-0", "general-1", "general-2"}, 3, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := newLook(aMigration().build(), tc.world.build(), noon).pools[0]
			var groups, nodes []string
			for _, g := range p.groups {
				groups = append(groups, g.Name)
			}
			for _, n := range p.nodes {
				nodes = append(nodes, n.Name)
			}
			if diff := cmp.Diff([][]string{tc.groups, tc.nodes}, [][]string{groups, nodes}); diff != "" {
				t.Errorf("%s: groups and nodes -want, +got:\n%s", tc.reason, diff)
			}
			if p.recorded != tc.recorded || (p.target != nil) != tc.target {
				t.Errorf("%s: %d recorded, target %v; want %d, %v", tc.reason, p.recorded, p.target != nil, tc.recorded, tc.target)
			}
		})
	}
}

func TestPoolGone(t *testing.T) {
	cases := map[string]struct {
		reason string
		world  *scene
		want   bool
	}{
		"Full":       {"nodes are there", aWorld(), false},
		"NoNode":     {"an instance may become a node", aWorld().with(func(w *World) { w.Nodes = nil }), false},
		"NoInstance": {"a node whose instance is gone is leaving", aWorld().withGroup("general", func(g *inventory.NodeGroup) { g.Instances = nil }), false},
		"Ending": {"an instance that is terminating is there", aWorld().with(func(w *World) { w.Nodes = nil }).withGroup("general", func(g *inventory.NodeGroup) {
			g.Instances = g.Instances[:1]
			g.Instances[0].Lifecycle = "Terminating"
		}), false},
		"Empty": {"neither is left", aWorld().emptied("general"), true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := newLook(aMigration().build(), tc.world.build(), noon).pools[0].gone(); got != tc.want {
				t.Errorf("%s: gone() = %v, want %v", tc.reason, got, tc.want)
			}
		})
	}
}

func TestStatusOfAPool(t *testing.T) {
	l := newLook(aMigration().drained("batch", noon).build(), aWorld().build(), noon)
	if got := l.status("batch"); got.DrainedTime == nil {
		t.Error("what the status remembers of a pool is found by its name")
	}
	if diff := cmp.Diff(v1alpha1.PoolStatus{Name: "general"}, l.status("general"), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("of a pool that the status does not know nothing is remembered: -want, +got:\n%s", diff)
	}
}
