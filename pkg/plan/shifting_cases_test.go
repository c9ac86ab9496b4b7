package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// onTimeout gives a node's drain ten minutes.
func (b migrationOf) onTimeout(policy v1alpha1.TimeoutPolicy) migrationOf {
	b.m.Spec.Strategy.TimeoutSeconds, b.m.Spec.Strategy.OnTimeout = 600, policy
	return b
}

func (b migrationOf) balancers(seconds int32) migrationOf {
	b.m.Spec.Strategy.LoadBalancerSeconds = &seconds
	return b
}

// said so long ago: what the last status had.
func (b migrationOf) said(reason, object, pool string, ago time.Duration) migrationOf {
	b.m.Status.Blockers = append(b.m.Status.Blockers, v1alpha1.Blocker{Reason: reason, Object: object, Pool: pool, Since: stamp(noon.Add(-ago))})
	return b
}

// since says when the drain of a node began.
func (s *scene) since(node string, ago time.Duration) *scene {
	return s.withNode(node, func(n *inventory.Node) {
		n.Annotations[v1alpha1.AnnotationDraining] = noon.Add(-ago).Format(time.RFC3339)
	})
}

// late: the drain of the node has lasted too long, and a budget holds one of its pods.
func (s *scene) late(node string) *scene {
	return s.draining(node, 2, heldBy("web", node+"-pod")).since(node, time.Hour)
}

// attached: the node is empty, and these volumes are attached to it.
func (s *scene) attached(node string, volumes ...string) *scene {
	s.draining(node, 0)
	s.w.Drains[node] = inventory.DrainState{Node: node, Volumes: volumes}
	return s
}

func heldBy(budget, pod string) inventory.BlockedPod {
	return inventory.BlockedPod{Pod: types.NamespacedName{Namespace: "shop", Name: pod}, Reason: inventory.BlockedByPDB,
		PDBs: []types.NamespacedName{{Namespace: "shop", Name: budget}}, Message: "waits for room in " + budget}
}

const webHolds = "Wait DisruptionBudget poddisruptionbudget/shop/web"

func TestCase_C026_ADrainThatTakesTooLongIsNamedAndNeverForced(t *testing.T) {
	run(t, map[string]step{
		"InTime": {
			reason:    "the next node goes beside it as far as the room allows",
			migration: aMigration().onTimeout(v1alpha1.TimeoutPause),
			world:     aWorld().shifting().draining("general-0", 2, heldBy("web", "a")).since("general-0", 599*time.Second),
			want:      shifts([]string{"EvictPods general-0 general", "BeginDrain general-1"}, "Wait Draining node/general-0", webHolds),
		},
		"Wait": {
			reason:    "by default it is waited for, and said",
			migration: aMigration().onTimeout(v1alpha1.TimeoutWait),
			world:     aWorld().shifting().late("general-0"),
			want: shifts([]string{"EvictPods general-0 general", "BeginDrain general-1"},
				"Wait Draining node/general-0", webHolds, "Wait DrainTimeout node/general-0"),
			says: "Its drain began at 2026-11-30T11:00:00Z and lasts longer than strategy.timeoutSeconds: castoff goes on trying",
		},
		"Pause": {
			reason:    "the pool pauses, the budget is asked again, and whoever is on call reads which nodes are cordoned",
			migration: aMigration().onTimeout(v1alpha1.TimeoutPause),
			world:     aWorld().shifting().late("general-0"),
			want: shifts([]string{"EvictPods general-0 general"},
				"Wait Draining node/general-0", webHolds, "Wait DrainTimeout node/general-0", "Block DrainTimeout pool/general"),
			says: "Cordoned are general-0, general-1, general-2. Mend what holds their pods",
		},
		"PauseLetsTheOthersEnd": {
			reason:    "what was begun beside it is not left half drained",
			migration: aMigration().onTimeout(v1alpha1.TimeoutPause).maxUnavailable("100%"),
			world:     aWorld().shifting().late("general-0").draining("general-1", 0),
			want: shifts([]string{"EndInstances general i-general-1", "EvictPods general-0 general"},
				"Wait InstanceEnding node/general-1", "Wait Draining node/general-0", webHolds, "Wait DrainTimeout node/general-0", "Block DrainTimeout pool/general"),
		},
		"PauseIsOverWhenItIsEmpty": {
			reason:    "nothing has to be confirmed",
			migration: aMigration().onTimeout(v1alpha1.TimeoutPause),
			world:     aWorld().shifting().draining("general-0", 0).since("general-0", time.Hour),
			want:      shifts([]string{"EndInstances general i-general-0", "BeginDrain general-1"}, "Wait InstanceEnding node/general-0"),
		},
		"Skip": {
			reason:    "it keeps its pods and its cordon, is in nobody's way, and others are begun in its place",
			migration: aMigration().onTimeout(v1alpha1.TimeoutSkip).maxUnavailable("1"),
			world:     aWorld().shifting().late("general-0"),
			want:      shifts([]string{"BeginDrain general-1"}, "Wait Draining node/general-0", webHolds, "Wait DrainTimeout node/general-0"),
			says:      "it stays cordoned with its pods, the pool's other nodes go first",
		},
		"SkipWithinTheRoom": {
			reason:    "what is begun in its place counts",
			migration: aMigration().onTimeout(v1alpha1.TimeoutSkip).maxUnavailable("1"),
			world:     aWorld().shifting().late("general-0").draining("general-1", 2),
			want: shifts([]string{"EvictPods general-1 general"},
				"Wait Draining node/general-0", webHolds, "Wait DrainTimeout node/general-0", "Wait Draining node/general-1"),
		},
		"SkippedAndEmpty": {
			reason:    "a pod that goes by itself leaves a node that is drained like any other",
			migration: aMigration().onTimeout(v1alpha1.TimeoutSkip).maxUnavailable("1"),
			world:     aWorld().shifting().draining("general-0", 0).since("general-0", time.Hour),
			want:      shifts([]string{"EndInstances general i-general-0"}, "Wait InstanceEnding node/general-0"),
		},
		"SkipComesBack": {
			reason:    "at the end all of them are tried again, and the pool is not done before",
			migration: aMigration().onTimeout(v1alpha1.TimeoutSkip).maxUnavailable("1"),
			world: aWorld().shifting().late("general-0").late("general-1").with(func(w *World) {
				w.Nodes = slices.DeleteFunc(w.Nodes, func(n inventory.Node) bool { return n.Name == "general-2" })
			}),
			want: shifts([]string{"EvictPods general-0 general", "EvictPods general-1 general"},
				"Wait Draining node/general-0", webHolds, "Wait DrainTimeout node/general-0", "Wait Draining node/general-1", "Wait DrainTimeout node/general-1"),
		},
		"NoTimeThatCanBeRead": {
			reason:    "somebody wrote there: what the timeout allows is not allowed by a typing error",
			migration: aMigration().onTimeout(v1alpha1.TimeoutPause).maxUnavailable("1"),
			world: aWorld().shifting().draining("general-0", 1).withNode("general-0", func(n *inventory.Node) {
				n.Annotations[v1alpha1.AnnotationDraining] = "a while"
			}),
			want: shifts([]string{"EvictPods general-0 general"}, "Wait Draining node/general-0"),
		},
	})
}

// TestSkippedPoolsDoNotFinish: the pool is at its end only when its last node is.
func TestSkippedPoolsDoNotFinish(t *testing.T) {
	m := aMigration().onTimeout(v1alpha1.TimeoutSkip).soak(0)
	w := aWorld().shifting().late("general-0").with(func(w *World) {
		w.Nodes = slices.DeleteFunc(w.Nodes, func(n inventory.Node) bool { return n.Name == "general-1" || n.Name == "general-2" })
	}).build()
	d := Next(m.build(), w, noon)
	if d.Phase != v1alpha1.PhaseShifting || slices.ContainsFunc(told(d.Actions), func(a string) bool { return strings.Contains(a, "batch") }) {
		t.Errorf("the next pool begins before this one is done: %s %v", d.Phase, told(d.Actions))
	}
	if d.Pools[0].CompletionTime != nil || d.Pools[0].NodesLeft != 1 {
		t.Errorf("the pool is said to be done: %+v", d.Pools[0])
	}
}

// TestANodeThatDoesNotAnswerIsNamed: its pods are evicted and never end, and only a human knows whether the machine is gone.
func TestANodeThatDoesNotAnswerIsNamed(t *testing.T) {
	silent := func(n *inventory.Node) { n.Ready, n.ReadyChanged = false, noon.Add(-time.Hour) }
	run(t, map[string]step{
		"Forward": {
			reason: "on the way there", migration: aMigration().maxUnavailable("1"),
			world: aWorld().shifting().draining("general-0", 2).withNode("general-0", silent),
			want:  shifts([]string{"EvictPods general-0 general"}, "Wait Draining node/general-0"),
			says:  "2 pods still have to leave the node. It has not been Ready since 2026-11-30T11:00:00Z",
		},
		"Empty": {
			reason: "what is empty ends all the same", migration: aMigration().maxUnavailable("1"),
			world: aWorld().shifting().draining("general-0", 0).withNode("general-0", silent),
			want:  shifts([]string{"EndInstances general i-general-0"}, "Wait InstanceEnding node/general-0"),
		},
	})
}

func TestAllowance(t *testing.T) {
	accepting := func() migrationOf {
		m := aMigration().onTimeout(v1alpha1.TimeoutWait)
		for _, check := range []string{"BarePod", "LocalVolume", "DoNotDisrupt", "BudgetOverride", "BudgetNeverAllows", "TwoBudgets"} {
			m = m.accepts(check, "one").accepts(check, "two")
		}
		return m
	}
	both := inventory.Objects{"one", "two"}
	cases := map[string]struct {
		reason    string
		migration migrationOf
		ago       time.Duration
		want      inventory.DrainAllowance
	}{
		"Nothing":     {"what is not written down is not allowed", aMigration(), time.Minute, inventory.DrainAllowance{}},
		"NothingLate": {"nor does time alone allow more than to evict a Job's pod", aMigration(), time.Hour, inventory.DrainAllowance{Jobs: true}},
		"InTime":      {"pods that nothing replaces wait for nothing better", accepting(), time.Minute, inventory.DrainAllowance{BarePods: both, LocalVolumes: both}},
		"AtTheTime":   {"what may end by itself has had its time", accepting(), 10 * time.Minute, inventory.DrainAllowance{BarePods: both, LocalVolumes: both, DoNotDisrupt: both, Jobs: true, Budgets: both}},
		"FindingsAreNotOverrides": {"who accepts that a budget never allows has not said that it may be overridden",
			aMigration().accepts("BudgetNeverAllows", "*").accepts("TwoBudgets", "*"), time.Hour, inventory.DrainAllowance{Jobs: true}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := aWorld().shifting().draining("general-0", 1).since("general-0", tc.ago)
			got := allowance(newLook(tc.migration.build(), w.build(), noon), *w.node("general-0"))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
			for _, a := range Next(tc.migration.build(), w.build(), noon).Actions {
				if e, ok := a.(EvictPods); ok && !cmp.Equal(e.Allow, tc.want) {
					t.Errorf("%s: the pass is given %+v", tc.reason, e.Allow)
				}
			}
		})
	}
}

func TestCase_C032_AnAcceptedPodHoldsNobodyBack(t *testing.T) {
	bare := inventory.BlockedPod{Pod: types.NamespacedName{Namespace: "shop", Name: "debug"}, Reason: inventory.BlockedBare, Message: "nothing replaces it"}
	one := func(m migrationOf) migrationOf { return m.maxUnavailable("1") }
	run(t, map[string]step{
		"Named": {
			reason: "without a word it needs a human", migration: one(aMigration()),
			world: aWorld().shifting().draining("general-0", 2, bare),
			want:  shifts([]string{"EvictPods general-0 general"}, "Wait Draining node/general-0", "Block BarePod pod/shop/debug"),
		},
		"Accepted": {
			reason: "with one it is evicted, and no longer said to block", migration: one(aMigration().accepts("BarePod", "pod/shop/debug")),
			world: aWorld().shifting().draining("general-0", 2, bare),
			want:  shifts([]string{"EvictPods general-0 general"}, "Wait Draining node/general-0"),
		},
		"AnotherAccepted": {
			reason: "a word about one is about that one", migration: one(aMigration().accepts("BarePod", "pod/shop/other")),
			world: aWorld().shifting().draining("general-0", 2, bare),
			want:  shifts([]string{"EvictPods general-0 general"}, "Wait Draining node/general-0", "Block BarePod pod/shop/debug", "Warn AcceptedRiskUnused acceptedrisk/BarePod/pod/shop/other"),
		},
	})
}

func TestCase_C028_PodsOfTheSameBudgetsAreOneBlocker(t *testing.T) {
	twice := func(pod string, budgets ...string) inventory.BlockedPod {
		b := inventory.BlockedPod{Pod: types.NamespacedName{Namespace: "shop", Name: pod}, Reason: inventory.BlockedByTwoPDBs, Message: strings.Join(budgets, " and ") + " select it"}
		for _, name := range budgets {
			b.PDBs = append(b.PDBs, types.NamespacedName{Namespace: "shop", Name: name})
		}
		return b
	}
	var many []inventory.BlockedPod
	for i := range 5 {
		many = append(many, heldBy(fmt.Sprintf("pdb-%d", i), fmt.Sprintf("a-%d", i)), heldBy(fmt.Sprintf("pdb-%d", i), fmt.Sprintf("b-%d", i)))
	}
	cases := map[string]struct {
		reason  string
		blocked []inventory.BlockedPod
		want    []string
		says    []string
	}{
		"OnePair": {
			"pods of one pair are mended at once", []inventory.BlockedPod{twice("web-0", "a", "b"), twice("web-1", "a", "b"), twice("web-2", "a", "b")},
			[]string{"Block TwoDisruptionBudgets pod/shop/web-0"}, []string{"a and b select it. So do shop/web-1, shop/web-2"},
		},
		"TwoPairs": {
			"another pair is another thing to mend", []inventory.BlockedPod{twice("web-0", "a", "b"), twice("db-0", "b", "c"), twice("web-1", "a", "b")},
			[]string{"Block TwoDisruptionBudgets pod/shop/web-0", "Block TwoDisruptionBudgets pod/shop/db-0"}, []string{"a and b select it. So do shop/web-1", "b and c select it"},
		},
		"Budget": {
			"the budget is the object: it stays while one pod after the other leaves",
			[]inventory.BlockedPod{heldBy("web", "a"), heldBy("web", "b"), heldBy("web", "c"), heldBy("web", "d"), heldBy("web", "e")},
			[]string{webHolds}, []string{"Pod shop/a waits for room in web. So do shop/b, shop/c, shop/d and 1 more"},
		},
		"Many": {
			"three of a cause are named, the rest is counted", many,
			[]string{"Wait DisruptionBudget poddisruptionbudget/shop/pdb-0", "Wait DisruptionBudget poddisruptionbudget/shop/pdb-1", "Wait DisruptionBudget poddisruptionbudget/shop/pdb-2", "Wait DisruptionBudget node/n"},
			[]string{"So do shop/b-0", "So do shop/b-1", "So do shop/b-2", "4 more pods of this node"},
		},
		"Overridden": {
			"what was deleted past a budget is told a pod at a time", []inventory.BlockedPod{
				{Pod: types.NamespacedName{Namespace: "shop", Name: "a"}, Reason: inventory.BlockedOverridden, PDBs: []types.NamespacedName{{Name: "web"}}, Message: "deleted"},
				{Pod: types.NamespacedName{Namespace: "shop", Name: "b"}, Reason: inventory.BlockedOverridden, PDBs: []types.NamespacedName{{Name: "web"}}, Message: "deleted"}},
			[]string{"Warn BudgetOverride pod/shop/a", "Warn BudgetOverride pod/shop/b"}, []string{"deleted", "deleted"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := DrainBlockers("general", inventory.DrainState{Node: "n", Blocked: tc.blocked})
			if diff := cmp.Diff(tc.want, shown(got)); diff != "" {
				t.Fatalf("%s: -want +got:\n%s", tc.reason, diff)
			}
			for i, want := range tc.says {
				if !strings.Contains(got[i].Message, want) {
					t.Errorf("%s: want %q, got %q", tc.reason, want, got[i].Message)
				}
			}
		})
	}
}

func TestCase_C034_AllOfAPoolIsFencedBeforeTheFirstEvictionAndNoneBeforeTheCanary(t *testing.T) {
	for name, s := range map[string]*scene{
		"BeforeTheCanary": aWorld().prepared().awsReady().engineRunning(), "CanaryRuns": aWorld().prepared().awsReady().engineRunning().nodeClass("general").nodeClass("batch"),
		"NothingServes": aWorld().released(),
	} {
		for _, a := range Next(aMigration().build(), s.build(), noon).Actions {
			switch a.(type) {
			case FenceNode, BeginDrain, EvictPods:
				t.Errorf("%s: %s before capacity is proven", name, tell(a))
			}
		}
	}
	served := aWorld().served()
	fences := slices.DeleteFunc(told(Next(aMigration().build(), served.build(), noon).Actions), func(a string) bool { return !strings.HasPrefix(a, "FenceNode") })
	want := []string{"FenceNode general-0 general", "FenceNode general-1 general", "FenceNode general-2 general", "FenceNode batch-0 batch", "FenceNode batch-1 batch"}
	if diff := cmp.Diff(want, fences); diff != "" {
		t.Errorf("all at once, or pods would move twice: -want +got:\n%s", diff)
	}
	for _, missing := range []string{"general-0", "general-1", "general-2", "batch-1"} {
		s := aWorld().shifting().withNode(missing, releaseIt)
		got := told(Next(aMigration().build(), s.build(), noon).Actions)
		pool := s.node(missing).Group
		if diff := cmp.Diff([]string{"FenceNode " + missing + " " + pool}, got); diff != "" {
			t.Errorf("while %s takes pods no drain begins: -want +got:\n%s", missing, diff)
		}
	}
}

func TestCase_C036_AnInstanceOutlivesItsPlaceInLoadBalancers(t *testing.T) {
	run(t, map[string]step{
		"Waits": {
			reason:    "requests that go through the node have their time, though no pod is left on it",
			migration: aMigration().maxUnavailable("1").balancers(120),
			world:     aWorld().shifting().draining("general-0", 0), // begun a minute ago
			want:      shifts(nil, "Wait LeavingLoadBalancers node/general-0"),
			says:      "load balancers have until 2026-11-30T12:01:00Z",
		},
		"Over": {
			reason:    "then it ends",
			migration: aMigration().maxUnavailable("1").balancers(60),
			world:     aWorld().shifting().draining("general-0", 0),
			want:      shifts([]string{"EndInstances general i-general-0"}, "Wait InstanceEnding node/general-0"),
		},
		"None": {
			reason:    "who has no load balancer waits for none",
			migration: aMigration().maxUnavailable("1").balancers(0),
			world:     aWorld().shifting().draining("general-0", 0).since("general-0", 0),
			want:      shifts([]string{"EndInstances general i-general-0"}, "Wait InstanceEnding node/general-0"),
		},
		"NeverAllAtOnce": {
			reason:    "only nodes being drained leave load balancers, and no more at once than the room allows",
			migration: aMigration().maxUnavailable("1").balancers(120),
			world:     aWorld().shifting(),
			want:      shifts([]string{"BeginDrain general-0"}),
		},
	})
}

func TestCase_C042_AnInstanceEndsWhenVolumesAreDetachedOrHaveHadTheirTime(t *testing.T) {
	const attached = "VolumesAttached"
	one := func() migrationOf { return aMigration().maxUnavailable("1") }
	run(t, map[string]step{
		"Attached": {
			reason: "its pods would wait elsewhere for six minutes and more", migration: one(),
			world: aWorld().shifting().attached("general-0", "a (claim shop/a)", "b", "c", "d", "e"),
			want:  shifts(nil, "Wait VolumesAttached node/general-0"), says: "a (claim shop/a), b, c and 2 more",
		},
		"StillAttached": {
			reason: "for as long as Kubernetes itself would wait", migration: one().said(attached, "node/general-0", "general", 5*time.Minute),
			world: aWorld().shifting().attached("general-0", "a"), want: shifts(nil, "Wait VolumesAttached node/general-0"),
		},
		"ForTooLong": {
			reason: "and then it is said, and the instance ends", migration: one().said(attached, "node/general-0", "general", 6*time.Minute),
			world: aWorld().shifting().attached("general-0", "a"),
			want:  shifts([]string{"EndInstances general i-general-0"}, "Warn VolumesAttached node/general-0", "Wait InstanceEnding node/general-0"), says: "Its instance ends though these are attached",
		},
		"AnotherNodesTime": {
			reason: "each node has its own", migration: one().said(attached, "node/general-1", "general", time.Hour),
			world: aWorld().shifting().attached("general-0", "a"), want: shifts(nil, "Wait VolumesAttached node/general-0"),
		},
		"Detached": {
			reason: "nothing is left", migration: one(), world: aWorld().shifting().attached("general-0"),
			want: shifts([]string{"EndInstances general i-general-0"}, "Wait InstanceEnding node/general-0"),
		},
	})
}

// quota is Karpenter's word on a launch that failed so long ago.
func (s *scene) quota(pool string, ago time.Duration) *scene {
	s.w.LaunchFailures = append(s.w.LaunchFailures, inventory.LaunchFailure{
		NodePool: pool, Time: noon.Add(-ago), Message: "NodeClaim general-x7k2p event: VcpuLimitExceeded: You have requested more vCPU capacity than your current vCPU limit of 64",
	})
	return s
}

// waiting pods have no node, and had one before the migration.
func (s *scene) waiting(pods int) *scene { s.w.PendingPods = pods; return s }

func TestCase_C096_NothingIsEvictedWhileKarpenterCannotLaunch(t *testing.T) {
	const blocked = "Block CapacityUnavailable nodepool/general"
	m := func() migrationOf { return aMigration().onTimeout(v1alpha1.TimeoutWait) }
	run(t, map[string]step{
		"Short": {
			reason: "the pods that left have nowhere to go, so no other one leaves and no other node is begun, in the engine's own words", migration: m(),
			world: aWorld().shifting().draining("general-0", 2).waiting(3).quota("general", time.Minute),
			want:  shifts(nil, blocked, "Wait Draining node/general-0"), says: "VcpuLimitExceeded: You have requested more vCPU capacity",
		},
		"TheDrainedOneEnds": {
			reason: "nothing is left on it", migration: m(),
			world: aWorld().shifting().draining("general-0", 0).waiting(3).quota("general", time.Minute),
			want:  shifts([]string{"EndInstances general i-general-0"}, "Wait InstanceEnding node/general-0", blocked),
		},
		"GivesBack": {
			reason: "after the time of a drain the pods are better off where they were", migration: m().said("CapacityUnavailable", "nodepool/general", "general", 10*time.Minute),
			world: aWorld().shifting().draining("general-0", 2).draining("general-1", 0).waiting(3).quota("general", time.Minute),
			want:  shifts([]string{"EndInstances general i-general-1", "ReleaseNode general-0"}, "Wait InstanceEnding node/general-1", blocked),
		},
		"StaysGivenBack": {
			reason: "the pods are back, so nobody waits: that is no reason to evict them again at once", migration: m().said("CapacityUnavailable", "nodepool/general", "general", 10*time.Minute),
			world: aWorld().shifting().withNode("general-0", releaseIt).quota("general", 9*time.Minute),
			want:  shifts(nil, blocked),
		},
		"TriesAgain": {
			reason: "when the last failure is as old as a drain may last", migration: m().said("CapacityUnavailable", "nodepool/general", "general", 20*time.Minute),
			world: aWorld().shifting().withNode("general-0", releaseIt).quota("general", 10*time.Minute),
			want:  decided{phase: v1alpha1.PhaseShifting, actions: []string{"FenceNode general-0 general"}},
		},
		"ANodeJoinedSince": {
			reason: "another type or zone had room", migration: m().maxUnavailable("1"),
			world: aWorld().shifting().draining("general-0", 2).quota("general", time.Minute).with(func(w *World) {
				w.Engine.NodeClaims = append(w.Engine.NodeClaims, inventory.NodeClaim{Name: "general-2", NodePool: "general", Node: "new", Created: noon.Add(-30 * time.Second)})
			}).waiting(3),
			want: shifts([]string{"EvictPods general-0 general"}, "Wait Draining node/general-0"),
		},
		"OneIsOnlyOnItsWay": {
			reason: "a NodeClaim without a node proves nothing yet", migration: m(),
			world: aWorld().shifting().draining("general-0", 2).quota("general", time.Minute).with(func(w *World) {
				w.Engine.NodeClaims = append(w.Engine.NodeClaims, inventory.NodeClaim{Name: "general-2", NodePool: "general", Created: noon.Add(-30 * time.Second)})
			}).waiting(3),
			want: shifts(nil, blocked, "Wait Draining node/general-0"),
		},
		"NobodyWaits": {
			reason: "a launch that failed for pods that found a node is nobody's trouble", migration: m().maxUnavailable("1"),
			world: aWorld().shifting().draining("general-0", 2).quota("general", time.Minute),
			want:  shifts([]string{"EvictPods general-0 general"}, "Wait Draining node/general-0"),
		},
		"BaselineWaits": {
			reason: "what waited before the migration waits for something else", migration: m().maxUnavailable("1"),
			world: aWorld().shifting().draining("general-0", 2).waiting(3).quota("general", time.Minute).with(func(w *World) { w.Snapshot.PendingPods = 3 }),
			want:  shifts([]string{"EvictPods general-0 general"}, "Wait Draining node/general-0"),
		},
		"OtherNodePool": {
			reason: "each pool has its own capacity", migration: m().maxUnavailable("1"),
			world: aWorld().shifting().draining("general-0", 2).waiting(3).quota("batch", time.Minute),
			want:  shifts([]string{"EvictPods general-0 general"}, "Wait Draining node/general-0"),
		},
		"Accepted": {
			reason: "the user knows that more is on its way", migration: m().maxUnavailable("1").accepts("CapacityUnavailable", "nodepool/general"),
			world: aWorld().shifting().draining("general-0", 2).waiting(3).quota("general", time.Minute),
			want:  shifts([]string{"EvictPods general-0 general"}, "Wait Draining node/general-0"),
		},
		"LastNodeIsGone": {
			reason: "a pool without nodes evicts nobody, and comes to its end", migration: m(),
			world: aWorld().shifting().waiting(3).quota("general", time.Minute).with(func(w *World) { w.Nodes = w.Nodes[3:] }),
			want:  shifts([]string{"EndInstances general i-general-0:i-general-1:i-general-2"}),
		},
	})
}

// TestCapacityNeedsAreAskedForWhenTheyMatter: events are read only while pods wait, or while their lack is shown.
func TestCapacityNeedsAreAskedForWhenTheyMatter(t *testing.T) {
	cases := map[string]struct {
		reason    string
		migration migrationOf
		world     *scene
		want      bool
	}{
		"Quiet":    {"nobody waits", aMigration(), aWorld().shifting(), false},
		"Waiting":  {"somebody does", aMigration(), aWorld().shifting().waiting(1), true},
		"Baseline": {"as before", aMigration(), aWorld().shifting().waiting(1).with(func(w *World) { w.Snapshot.PendingPods = 1 }), false},
		"Shown":    {"what is shown has to end some time", aMigration().said("CapacityUnavailable", "nodepool/general", "general", time.Minute), aWorld().shifting(), true},
		"Paused":   {"nothing is evicted anyway", aMigration().paused(), aWorld().shifting().waiting(1), false},
		"Before":   {"Karpenter serves nobody yet", aMigration(), aWorld().prepared().waiting(1), false},
		"NoRecord": {"there is no baseline", aMigration(), aWorld().waiting(1), false},
	}
	for name, tc := range cases {
		if got := NeedsOf(tc.migration.build(), tc.world.build()).LaunchFailures; got != tc.want {
			t.Errorf("%s: %s: got %t", name, tc.reason, got)
		}
	}
}

// TestCapacityComesBack walks through a lack of capacity: given back after its time, fenced and drained again afterwards, and never
// served by a drain in between.
func TestCapacityComesBack(t *testing.T) {
	m, s := aMigration().onTimeout(v1alpha1.TimeoutWait).maxUnavailable("1").build(), aWorld().shifting()
	now, seen, tried := noon, map[string]int{}, time.Time{}
	for i := range 800 {
		now = now.Add(pace)
		if i < 200 && s.w.PendingPods > 0 && now.Sub(tried) >= 2*time.Minute { // there is no capacity for a quarter of an hour
			tried = now
			s.w.LaunchFailures = []inventory.LaunchFailure{{NodePool: "general", Time: now, Message: "InsufficientInstanceCapacity"}}
		}
		d := Next(m, s.build(), now)
		m.Status.Blockers, m.Status.Operations, m.Status.Pools = d.Blockers, d.Operations, d.Pools
		for _, a := range d.Actions {
			kind, _, _ := strings.Cut(tell(a), " ")
			seen[kind]++
			s.effect(a, now)
			switch a.(type) {
			case EvictPods:
				if i < 200 {
					s.w.PendingPods++ // no node comes up for it
				}
			case ReleaseNode:
				s.w.PendingPods = 0 // the scheduler puts them back
			}
		}
		if i == 200 {
			s.w.PendingPods = 0
		}
		if len(s.w.Nodes) == 4 { // the first pool's three are gone
			break
		}
	}
	if seen["ReleaseNode"] == 0 || seen["FenceNode"] == 0 || seen["EndInstances"] == 0 {
		t.Errorf("want it given back, tried again and done in the end; got %v with %d nodes left", seen, len(s.w.Nodes))
	}
	if seen["EvictPods"] > 20 {
		t.Errorf("%d passes: pods were evicted again and again with nowhere to go", seen["EvictPods"])
	}
}

func TestSeverityOfEveryReason(t *testing.T) {
	for reason, want := range map[inventory.BlockReason]v1alpha1.Severity{
		inventory.BlockedStuck: v1alpha1.SeverityBlock, inventory.BlockedLocalVolume: v1alpha1.SeverityBlock, inventory.BlockedJob: v1alpha1.SeverityWait,
		inventory.BlockedOverridden: v1alpha1.SeverityWarn,
	} {
		if got := severityOf(reason); got != want {
			t.Errorf("severityOf(%s) = %s, want %s", reason, got, want)
		}
	}
}

// TestTheWayBackAllowsTheSame: what the user's word allows on the way there it allows on Karpenter's nodes too.
func TestTheWayBackAllowsTheSame(t *testing.T) {
	s := aWorld().cordoned()
	var name string
	for _, n := range s.w.Nodes {
		if n.Labels["karpenter.sh/nodepool"] != "" {
			name = n.Name
			break
		}
	}
	s.draining(name, 1).since(name, time.Hour)
	d := Next(aMigration().rollBack().onTimeout(v1alpha1.TimeoutPause).accepts("BarePod", "*").build(), s.build(), noon)
	for _, a := range d.Actions {
		if e, ok := a.(EvictPods); ok {
			if diff := cmp.Diff(inventory.DrainAllowance{BarePods: inventory.Objects{"*"}, Jobs: true}, e.Allow); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			return
		}
	}
	t.Errorf("want an eviction from %s, got %v", name, told(d.Actions))
}
