package plan

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

func TestPoolStatus(t *testing.T) {
	then, now := stamp(noon.Add(-time.Hour)), stamp(noon)
	began := aMigration()
	began.m.Status.Pools = []v1alpha1.PoolStatus{{Name: "general", StartTime: then}}
	done := aMigration().soaked()
	done.m.Status.Pools[0].CompletionTime = then
	cases := map[string]struct {
		reason    string
		migration migrationOf
		world     *scene
		want      v1alpha1.PoolStatus
	}{
		"Pending":  {"Cluster Autoscaler scales it", aMigration(), aWorld().quiet(), v1alpha1.PoolStatus{Phase: v1alpha1.PoolPending, Nodes: 3, NodesLeft: 3}},
		"Before":   {"before the snapshot its nodes are those that are there", aMigration(), aWorld().join("general"), v1alpha1.PoolStatus{Phase: v1alpha1.PoolPending, Nodes: 4, NodesLeft: 4}},
		"Fenced":   {"Karpenter serves it", aMigration(), aWorld().handedOver(), v1alpha1.PoolStatus{NodePool: "general", Phase: v1alpha1.PoolFenced, Nodes: 3, NodesLeft: 3}},
		"Draining": {"its first node began to drain", aMigration(), aWorld().shifting().draining("general-0", 2).draining("general-1", 5), v1alpha1.PoolStatus{NodePool: "general", Phase: v1alpha1.PoolDraining, Nodes: 3, NodesLeft: 3, NodesDraining: 2, PodsLeft: 7, StartTime: now}},
		"Began":    {"the time is that of the first one", began, aWorld().shifting().draining("general-0", 0), v1alpha1.PoolStatus{NodePool: "general", Phase: v1alpha1.PoolDraining, Nodes: 3, NodesLeft: 3, NodesDraining: 1, StartTime: then}},
		"Between":  {"no node is in flight, and the beginning is remembered", began, aWorld().shifting(), v1alpha1.PoolStatus{NodePool: "general", Phase: v1alpha1.PoolFenced, Nodes: 3, NodesLeft: 3, StartTime: then}},
		"Emptied":  {"the soak counts from the look that saw the last node gone", began, aWorld().shifting().emptied("general"), v1alpha1.PoolStatus{NodePool: "general", Phase: v1alpha1.PoolSoaking, Nodes: 3, StartTime: then, DrainedTime: now}},
		"Soaking":  {"and is not begun again", aMigration().drained("general", noon.Add(-time.Minute)), aWorld().shifting().finished("general"), v1alpha1.PoolStatus{NodePool: "general", Phase: v1alpha1.PoolSoaking, Nodes: 3, StartTime: stamp(noon.Add(-61 * time.Minute)), DrainedTime: stamp(noon.Add(-time.Minute))}},
		"Done":     {"it is soaked", aMigration().soaked(), aWorld().completed(), v1alpha1.PoolStatus{NodePool: "general", Phase: v1alpha1.PoolDone, Nodes: 3, StartTime: stamp(noon.Add(-2 * time.Hour)), DrainedTime: then, CompletionTime: now}},
		"DoneThen": {"its end is remembered", done, aWorld().completed(), v1alpha1.PoolStatus{NodePool: "general", Phase: v1alpha1.PoolDone, Nodes: 3, StartTime: stamp(noon.Add(-2 * time.Hour)), DrainedTime: then, CompletionTime: then}},
		"NoSoak":   {"without a soak both are now", aMigration().soak(0), aWorld().completed(), v1alpha1.PoolStatus{NodePool: "general", Phase: v1alpha1.PoolDone, Nodes: 3, DrainedTime: now, CompletionTime: now}},
		"CameBack": {"a legacy node that came back ends the soak", done, aWorld().completed().join("general"), v1alpha1.PoolStatus{NodePool: "general", Phase: v1alpha1.PoolFenced, Nodes: 3, NodesLeft: 1, StartTime: stamp(noon.Add(-2 * time.Hour))}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.want.Name, tc.want.NodeGroups = "general", []string{"general"}
			d := Next(tc.migration.build(), tc.world.build(), noon)
			if diff := cmp.Diff(tc.want, d.Pools[0]); diff != "" {
				t.Errorf("%s: pool status -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestBlocks(t *testing.T) {
	b := func(s v1alpha1.Severity) v1alpha1.Blocker { return v1alpha1.Blocker{Severity: s} }
	for reason, tc := range map[string]struct {
		blockers []v1alpha1.Blocker
		want     bool
	}{
		"nothing blocks":                  {nil, false},
		"waits and warnings need nobody":  {[]v1alpha1.Blocker{b(v1alpha1.SeverityWait), b(v1alpha1.SeverityWarn)}, false},
		"one Block is enough for a human": {[]v1alpha1.Blocker{b(v1alpha1.SeverityWait), b(v1alpha1.SeverityBlock)}, true},
	} {
		if got := Blocks(tc.blockers); got != tc.want {
			t.Errorf("%s: Blocks() = %v, want %v", reason, got, tc.want)
		}
	}
}

func TestFirst(t *testing.T) {
	then := stamp(noon.Add(-time.Hour))
	if got := first(then, noon); got != then {
		t.Errorf("the first time stays: %v", got)
	}
	if got := first(nil, noon.Add(time.Millisecond)); !got.Time.Equal(noon) {
		t.Errorf("now, cut to seconds as the API server keeps it: %v", got)
	}
}

func TestHomeIsNoPool(t *testing.T) {
	d := Next(aMigration().build(), aWorld().shifting().withNode("system-0", func(n *inventory.Node) {
		n.Annotations[v1alpha1.AnnotationDraining] = "by hand"
	}).build(), noon)
	if len(d.Pools) != 2 || d.Pools[0].NodesDraining != 0 {
		t.Errorf("a node of the home is not castoff's to count: %+v", d.Pools)
	}
}
