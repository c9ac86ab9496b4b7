package plan

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

const cart = "deployment/shop/cart"

// unwell adds a pod that is not Ready for so long, on a node of Karpenter's.
func (s *scene) unwell(workload string, age time.Duration, crashing bool) *scene {
	if karpenters(s.w) == "" {
		s.claim("general").registered()
	}
	return s.unwellOn(karpenters(s.w), workload, age, crashing)
}

func (s *scene) unwellOn(node, workload string, age time.Duration, crashing bool) *scene {
	name := fmt.Sprintf("pod-%d", len(s.w.Unwell))
	s.w.Unwell = append(s.w.Unwell, inventory.UnwellPod{
		Pod: types.NamespacedName{Namespace: "shop", Name: name}, Workload: workload, Node: node,
		Since: noon.Add(-age), Deadline: inventory.ProgressDeadline, Crashing: crashing,
	})
	return s
}

// done remembers in the status that the pools were done.
func (b migrationOf) done(pools ...string) migrationOf {
	for _, pool := range pools {
		b.m.Status.Pools = append(b.m.Status.Pools, v1alpha1.PoolStatus{Name: pool, DrainedTime: stamp(noon), CompletionTime: stamp(noon)})
	}
	return b
}

// before has so many pods of a workload unwell in the snapshot.
func (s *scene) before(workload string, pods int) *scene {
	s.w.Snapshot.Unwell = map[string]int{workload: pods}
	return s
}

func karpenters(w World) string {
	for _, n := range w.Nodes {
		if n.Labels[karpv1.NodePoolLabelKey] == "general" {
			return n.Name
		}
	}
	return ""
}

func TestHealthFloor(t *testing.T) {
	one := aMigration().maxUnavailable("1")
	begins := shifts([]string{"BeginDrain general-0"})
	run(t, map[string]step{
		"Starting": {
			reason:    "a pod that is on its way to Ready has its time: others are drained meanwhile, as their budgets allow",
			migration: one, world: aWorld().shifting().unwell(cart, 9*time.Minute, false), want: begins,
		},
		"Overdue": {
			reason:    "after its progress deadline it is a human's",
			migration: one, world: aWorld().shifting().unwell(cart, 10*time.Minute, false),
			want: shifts(nil, "Block HealthFloor "+cart), says: "shop/pod-0 on",
		},
		"SaysSince": {
			reason:    "since when is said",
			migration: one, world: aWorld().shifting().unwell(cart, 10*time.Minute, false),
			want: shifts(nil, "Block HealthFloor "+cart), says: "not Ready since 2026-11-30T11:50:00Z",
		},
		"Crashing": {
			reason:    "a crash stops the next batch at once, and a human is asked for when it has had its time to end by itself",
			migration: one, world: aWorld().shifting().unwell(cart, time.Minute, true),
			want: shifts(nil, "Wait HealthFloor "+cart), says: "crashing since",
		},
		"CrashingForLong": {
			reason:    "it has had its time",
			migration: one, world: aWorld().shifting().unwell(cart, time.Hour, true),
			want: shifts(nil, "Block HealthFloor "+cart),
		},
		"AsBefore": {
			reason:    "what was unwell before is no worse for having moved",
			migration: one, world: aWorld().shifting().unwell(cart, time.Hour, true).before(cart, 1), want: begins,
		},
		"WorseThanBefore": {
			reason:    "one more of it is",
			migration: one, world: aWorld().shifting().unwell(cart, time.Hour, true).unwell(cart, time.Hour, false).before(cart, 1),
			want: shifts(nil, "Block HealthFloor "+cart), says: "than the 1 before the migration: shop/pod-0",
		},
		"AnotherOneBefore": {
			reason:    "that one workload got well does not make up for another",
			migration: one, world: aWorld().shifting().unwell(cart, time.Hour, true).before("deployment/shop/search", 5),
			want: shifts(nil, "Block HealthFloor "+cart),
		},
		"OnALegacyNode": {
			reason:    "what has not moved is not the migration's doing",
			migration: one, world: aWorld().shifting().unwellOn("general-1", cart, time.Hour, true), want: begins,
		},
		"Accepted": {
			reason:    "who knows why says so",
			migration: aMigration().maxUnavailable("1").accepts(CheckHealthFloor, cart),
			world:     aWorld().shifting().unwell(cart, time.Hour, true), want: begins,
		},
		"AnotherAccepted": {
			reason:    "and of which workload",
			migration: aMigration().maxUnavailable("1").accepts(CheckHealthFloor, "deployment/shop/search"),
			world:     aWorld().shifting().unwell(cart, time.Hour, true),
			want:      shifts(nil, "Block HealthFloor "+cart, "Warn AcceptedRiskUnused acceptedrisk/HealthFloor/deployment/shop/search"),
		},
		"InFlight": {
			reason: "drains under way go on: half of a node's pods on each side help nobody",
			world:  aWorld().shifting().draining("general-0", 2).unwell(cart, time.Hour, false),
			want:   shifts([]string{"EvictPods general-0 general"}, "Wait Draining node/general-0", "Block HealthFloor "+cart),
		},
		"NoRoomIsMade": {
			reason:    "nor is room made for pods that are not to move",
			migration: aMigration().warmFirst(),
			world:     aWorld().shifting().unwell(cart, time.Hour, false), want: shifts(nil, "Block HealthFloor "+cart),
		},
		"ThreeAreNamed": {
			reason:    "and the others counted",
			migration: one,
			world: aWorld().shifting().unwell("deployment/a/a", time.Hour, true).unwell("deployment/a/b", time.Hour, true).unwell("deployment/a/c", time.Hour, true).
				unwell("deployment/a/d", time.Hour, true).unwell("deployment/a/e", time.Hour, true),
			want: shifts(nil, "Block HealthFloor deployment/a/a", "Block HealthFloor deployment/a/b", "Block HealthFloor deployment/a/c", "Wait HealthFloor pool/general"),
			says: "2 more workloads",
		},
		"NotDone": {
			reason:    "a pool is not done before what moved is well, and the next does not begin",
			migration: aMigration().drained("general", noon.Add(-time.Hour)),
			world:     aWorld().shifting().finished("general").unwell(cart, time.Hour, false),
			want:      shifts(nil, "Block HealthFloor "+cart),
		},
	})
}

func TestTheWayBackHasNoFloor(t *testing.T) {
	s := aWorld().shifting().unwell(cart, time.Hour, true)
	for _, b := range Next(aMigration().rollBack().m, s.w, noon).Blockers {
		if b.Reason == CheckHealthFloor {
			t.Errorf("pods that are unwell are a reason to go back, none to stay: %+v", b)
		}
	}
}

func TestSnapshotHasTheBaseline(t *testing.T) {
	cases := map[string]struct {
		reason string
		world  *scene
		want   map[string]int
	}{
		"Well":     {"nothing to remember", aWorld(), nil},
		"Starting": {"a pod that starts is not unwell", aWorld().unwellOn("general-0", cart, time.Minute, false), nil},
		"Unwell": {
			"by workload: those that had their time, and those that crash",
			aWorld().unwellOn("general-0", cart, time.Hour, false).unwellOn("system-0", cart, time.Minute, true).unwellOn("general-0", "pod/default/debug", time.Hour, false),
			map[string]int{cart: 2, "pod/default/debug": 1},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newSnapshot(newLook(aMigration().m, tc.world.w, noon))
			if diff := cmp.Diff(tc.want, s.Unwell); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestHealthIsReadWhenItMatters(t *testing.T) {
	cases := map[string]struct {
		reason    string
		migration migrationOf
		world     *scene
		want      bool
	}{
		"Baseline":   {"before the snapshot", aMigration(), aWorld(), true},
		"Installing": {"while nothing moves it does not", aMigration(), aWorld().engineInstalled(), false},
		"Batches":    {"between batches", aMigration(), aWorld().shifting(), true},
		"LastBatch":  {"no other node begins", aMigration(), aWorld().shifting().finished("batch").draining("general-0", 1).draining("general-1", 1).draining("general-2", 1), false},
		"Soaking":    {"while a pool is watched", aMigration().drained("general", noon), aWorld().shifting().finished("general", "batch"), true},
		"Soaked":     {"and before the pool is done", aMigration().drained("general", noon.Add(-time.Hour)), aWorld().shifting().finished("general", "batch"), true},
		"Done":       {"a finished migration makes almost no call", aMigration().done("general", "batch"), aWorld().completed(), false},
		"Paused":     {"a pause reads little", aMigration().paused(), aWorld().shifting(), false},
		"GoingBack":  {"the way back has no floor", aMigration().rollBack(), aWorld().shifting(), false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := NeedsOf(tc.migration.m, tc.world.w).Health; got != tc.want {
				t.Errorf("%s: NeedsOf().Health = %t", tc.reason, got)
			}
		})
	}
}

// nothingBeginsBelowTheFloor: a pod that moved had its time or crashes, its workload had none such before, and nobody accepted it.
func nothingBeginsBelowTheFloor(q asked) string {
	if q.w.Snapshot == nil || halted(q.m) {
		return ""
	}
	for _, p := range q.w.Unwell {
		n, ok := nodeNamed(q.w, p.Node)
		served := false
		for _, pool := range q.w.Engine.NodePools {
			served = served || ok && pool.Name == n.Labels[karpv1.NodePoolLabelKey] && pool.Labels[v1alpha1.LabelPool] != ""
		}
		failing := p.Crashing || q.now.Sub(p.Since) >= p.Deadline
		if !served || !failing || q.w.Snapshot.Unwell[p.Workload] > 0 || newLook(q.m, q.w, q.now).accepted(CheckHealthFloor) != nil {
			continue
		}
		for _, a := range q.d.Actions {
			switch a.(type) {
			case BeginDrain, WarmNode:
				return tell(a) + " while " + p.Pod.String() + " is unwell"
			}
		}
	}
	return ""
}
