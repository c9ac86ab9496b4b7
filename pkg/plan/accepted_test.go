package plan

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// heldPod is a pod that stays for a reason.
func heldPod(name string, reason inventory.BlockReason, change ...func(*inventory.BlockedPod)) inventory.BlockedPod {
	b := inventory.BlockedPod{Pod: types.NamespacedName{Namespace: "shop", Name: name}, Reason: reason, Message: "It stays."}
	for _, f := range change {
		f(&b)
	}
	return b
}

func ofBudget(names ...string) func(*inventory.BlockedPod) {
	return func(b *inventory.BlockedPod) {
		for _, n := range names {
			b.PDBs = append(b.PDBs, types.NamespacedName{Namespace: "shop", Name: n})
		}
	}
}

func TestPassed(t *testing.T) {
	draining := func(pods ...inventory.BlockedPod) *scene {
		return aWorld().shifting().draining("general-0", len(pods), pods...)
	}
	volume := func(b *inventory.BlockedPod) { b.Volume = "pv-1" }
	workload := func(b *inventory.BlockedPod) { b.Workload = "deployment/shop/web" }
	long := func(s *scene) *scene { // its drain began two hours ago
		return s.withNode("general-0", func(n *inventory.Node) {
			n.Annotations[v1alpha1.AnnotationDraining] = noon.Add(-2 * time.Hour).Format(time.RFC3339)
		})
	}
	resized := func(s *scene) *scene { return s.withGroup("general", func(g *inventory.NodeGroup) { g.Max = 77 }) }
	cases := map[string]struct {
		reason    string
		migration migrationOf
		world     *scene
		want      []Passed
	}{
		"NothingAccepted": {"nothing passes that nobody accepted", aMigration(), draining(heldPod("a", inventory.BlockedBare)), nil},
		"NothingHeld":     {"and what nothing is held up by lets nothing pass", aMigration().accepts("BarePod", "*"), draining(), nil},
		"BarePod":         {"a bare pod", aMigration().accepts("BarePod", "pod/shop/a"), draining(heldPod("a", inventory.BlockedBare)), []Passed{{"BarePod", "pod/shop/a"}}},
		"OtherPod":        {"and no other one", aMigration().accepts("BarePod", "pod/shop/b"), draining(heldPod("a", inventory.BlockedBare)), nil},
		"Star":            {"all of them, in order", aMigration().accepts("BarePod", "*"), draining(heldPod("b", inventory.BlockedBare), heldPod("a", inventory.BlockedBare)), []Passed{{"BarePod", "pod/shop/a"}, {"BarePod", "pod/shop/b"}}},
		"Volume":          {"a volume by its own name", aMigration().accepts("LocalVolume", "persistentvolume/pv-1"), draining(heldPod("a", inventory.BlockedLocalVolume, volume)), []Passed{{"LocalVolume", "persistentvolume/pv-1"}}},
		"NotYet":          {"what has to wait for its time does not pass before", aMigration().accepts("DoNotDisrupt", "deployment/shop/web"), draining(heldPod("a", inventory.BlockedDoNotDisrupt, workload)), nil},
		"InTime":          {"and then it does", aMigration().accepts("DoNotDisrupt", "deployment/shop/web"), long(draining(heldPod("a", inventory.BlockedDoNotDisrupt, workload))), []Passed{{"DoNotDisrupt", "deployment/shop/web"}}},
		"Budget":          {"a budget that is overridden", aMigration().accepts(CheckBudgetOverride, "poddisruptionbudget/shop/web"), long(draining(heldPod("a", inventory.BlockedByPDB, ofBudget("web")))), []Passed{{CheckBudgetOverride, "poddisruptionbudget/shop/web"}}},
		"BudgetNotYet":    {"not before its time", aMigration().accepts(CheckBudgetOverride, "poddisruptionbudget/shop/web"), draining(heldPod("a", inventory.BlockedByPDB, ofBudget("web"))), nil},
		"TwoBudgets":      {"two budgets have to be named both", aMigration().accepts(CheckBudgetOverride, "poddisruptionbudget/shop/web"), long(draining(heldPod("a", inventory.BlockedByTwoPDBs, ofBudget("web", "all")))), nil},
		"ForeignSize":     {"a size that somebody set", aMigration().accepts(CheckForeignSize, "nodegroup/general"), resized(aWorld().shifting()), []Passed{{CheckForeignSize, "nodegroup/general"}}},
		"OwnSize":         {"a size of castoff's own is none", aMigration().accepts(CheckForeignSize, "nodegroup/general"), aWorld().shifting(), nil},
		"Changed":         {"what was asked about before the start", aMigration().accepts(CheckChangedBefore, "cluster/test"), aWorld().marked(), []Passed{{CheckChangedBefore, "cluster/test"}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Next(tc.migration.build(), tc.world.build(), noon).Passed); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestRisksThatNothingIsCalled(t *testing.T) {
	held := func() *scene {
		return aWorld().shifting().draining("general-0", 2, heldPod("a", inventory.BlockedBare), heldPod("b", inventory.BlockedByPDB, ofBudget("web")))
	}
	cases := map[string]struct {
		reason    string
		migration migrationOf
		world     *scene
		want      string // the object of the warning
		says      string
	}{
		"Mistyped":       {"a pod that is written differently is told, and what it may be called", aMigration().accepts("BarePod", "pods/shop/a"), held(), "acceptedrisk/BarePod/pods/shop/a", "pod/shop/a"},
		"Right":          {"the right one is not", aMigration().accepts("BarePod", "pod/shop/a"), held(), "", ""},
		"Later":          {"nor is one for later, while all that is held up is accepted", aMigration().accepts("BarePod", "pod/shop/a").accepts("BarePod", "pod/shop/later"), held(), "", ""},
		"Another":        {"but it may be the one that is meant, while another one is held up", aMigration().accepts("BarePod", "pod/shop/later"), held(), "acceptedrisk/BarePod/pod/shop/later", "pod/shop/a, which nobody accepts"},
		"Several":        {"several are told in one", aMigration().accepts("BarePod", "pod/shop/x").accepts("BarePod", "pod/shop/y"), held(), "acceptedrisk/BarePod/pod/shop/x", "pod/shop/x, pod/shop/y"},
		"Star":           {"nor are all", aMigration().accepts("BarePod", "*"), held(), "", ""},
		"DoneItsWork":    {"one whose pod has moved has done its work", aMigration().accepts("BarePod", "pod/shop/c"), aWorld().shifting(), "", ""},
		"OtherCheck":     {"what another check holds up is none of its business", aMigration().accepts("LocalVolume", "pod/shop/c"), held(), "", ""},
		"Budget":         {"a budget by its pods that wait", aMigration().accepts(CheckBudgetOverride, "pdb/shop/web"), held(), "acceptedrisk/BudgetOverride/pdb/shop/web", "poddisruptionbudget/shop/web"},
		"BudgetRight":    {"named rightly, and not due yet", aMigration().accepts(CheckBudgetOverride, "poddisruptionbudget/shop/web"), held(), "", ""},
		"BeforeSnapshot": {"before the snapshot the preflight tells", aMigration().accepts("BarePod", "pods/shop/a"), held().with(func(w *World) { w.Snapshot = nil }), "", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var object, message string
			for _, b := range Next(tc.migration.build(), tc.world.build(), noon).Blockers {
				if b.Reason == checkRiskUnused {
					object, message = b.Object, string(b.Severity)+" "+b.Message
				}
			}
			if object != tc.want || !strings.Contains(message, tc.says) || (object != "" && !strings.HasPrefix(message, string(v1alpha1.SeverityWarn))) {
				t.Errorf("%s: told of %q, want %q: %s", tc.reason, object, tc.want, message)
			}
		})
	}
}

// TestAMistypedWorkload: the health floor's objects are workloads, and its blockers are made here.
func TestAMistypedWorkload(t *testing.T) {
	m, s := aMigration().accepts(CheckHealthFloor, "deployment/shop/crat"), aWorld().shifting().unwell(cart, time.Hour, true)
	d := Next(m.build(), s.build(), noon)
	if got := shown(d.Blockers); !slices.Contains(got, "Warn AcceptedRiskUnused acceptedrisk/HealthFloor/deployment/shop/crat") {
		t.Errorf("it is not told: %v", got)
	}
	m = aMigration().accepts(CheckHealthFloor, cart)
	if d := Next(m.build(), s.build(), noon); !cmp.Equal(d.Passed, []Passed{{CheckHealthFloor, cart}}) {
		t.Errorf("written rightly it lets pass %v: %v", d.Passed, shown(d.Blockers))
	}
}

// TestNoNodeIsLookedAtBelowTheFloor: none is to begin, so each look would cost two calls for nothing.
func TestNoNodeIsLookedAtBelowTheFloor(t *testing.T) {
	m := aMigration().maxUnavailable("1")
	if got := Candidates(m.build(), aWorld().shifting().build(), noon); len(got) == 0 {
		t.Fatal("no node is looked at where all is well")
	}
	if got := Candidates(m.build(), aWorld().shifting().unwell(cart, time.Hour, true).build(), noon); len(got) > 0 {
		t.Errorf("%v are looked at, and none may begin", got)
	}
}
