package plan

import (
	"fmt"
	"math/rand"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// worlds are how many different clusters the way back is walked in, from every point of the way there.
const worlds = 4

// shortSoak is what the walks soak: a few looks.
const shortSoak = 12

// forwardSteps counts the looks until the migration of that world is completed.
func forwardSteps(t *testing.T, seed int64) int {
	k := aWalk(t, seed, aMigration().soak(shortSoak).accepts(CheckNoScaler, "*"), aVariedWorld(rand.New(rand.NewSource(seed))))
	return len(k.completes().said)
}

// TestFromEveryPoint: from each point of a migration every end is reached, and is what it should be.
func TestFromEveryPoint(t *testing.T) {
	ends := map[string]func(*walk){
		"Deleted": func(k *walk) {
			k.m.DeletionTimestamp = &metav1.Time{Time: k.now}
			k.rests(v1alpha1.PhasePaused)
			if wrong := k.notSettled(); len(wrong) > 0 {
				k.fatal("the Migration may go, and yet: %v", wrong)
			}
		},
		"SettleAndOn":   func(k *walk) { k.settles().completes() },
		"RollBackAndOn": func(k *walk) { k.rollsBack().completes() },
		"SettleAndBack": func(k *walk) { k.settles().rollsBack() },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			for seed := range int64(worlds) {
				for point := range forwardSteps(t, seed) + 1 {
					k := aWalk(t, seed, aMigration().soak(shortSoak).accepts(CheckNoScaler, "*"), aVariedWorld(rand.New(rand.NewSource(seed))))
					k.said = append(k.said, fmt.Sprintf("world %d, after %d looks", seed, point))
					end(k.forward().steps(point))
				}
			}
		})
	}
}

// TestFromEveryPointOfTheWayBack: a way back that is broken off at any point, and goes on, or forward, or rests.
func TestFromEveryPointOfTheWayBack(t *testing.T) {
	ends := map[string]func(*walk){
		"Forward": func(k *walk) { k.completes() },
		"Settle":  func(k *walk) { k.settles() },
		"There":   func(k *walk) { k.settles().rollsBack() },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			for seed := range int64(worlds) {
				from := forwardSteps(t, seed) * (2 + int(seed)) / (2 + worlds)
				there := aWalk(t, seed, aMigration().soak(shortSoak).accepts(CheckNoScaler, "*"), aVariedWorld(rand.New(rand.NewSource(seed)))).steps(from)
				back := len(there.rollsBack().said) - from
				for point := range back + 1 {
					k := aWalk(t, seed, aMigration().soak(shortSoak).accepts(CheckNoScaler, "*"), aVariedWorld(rand.New(rand.NewSource(seed))))
					k.said = append(k.said, fmt.Sprintf("world %d, after %d looks forward and %d back", seed, from, point))
					end(k.steps(from).back().steps(point))
				}
			}
		})
	}
}

// TestFlips: whoever changes their mind every few looks, in a world that loses calls and replies and whose reads lag, ends where
// they want to in the end.
func TestFlips(t *testing.T) {
	for seed := range int64(300) {
		r := rand.New(rand.NewSource(seed))
		k := aWalk(t, seed, aMigration().soak(shortSoak).accepts(CheckNoScaler, "*"), aVariedWorld(r))
		if seed%2 == 0 {
			k.faulty()
		}
		k.said = append(k.said, fmt.Sprintf("world %d", seed))
		for range 2 + r.Intn(12) {
			direction := []func() *walk{k.forward, k.forward, k.forward, k.settle, k.back}[r.Intn(5)]
			direction().steps(1 + r.Intn(25))
		}
		switch r.Intn(3) {
		case 0:
			k.completes()
		case 1:
			k.settles()
		default:
			k.rollsBack()
		}
	}
}

// meddling is what users, GitOps and AWS do while castoff is at work, and what castoff has to cope with by itself.
var meddling = []func(*walk){
	func(k *walk) { // GitOps scales Cluster Autoscaler up; whoever sees castoff's word scales it down again
		k.truth.withAutoscaler(func(a *inventory.Autoscaler) { a.Replicas = 1 })
	},
	func(k *walk) { k.truth.w.Engine.ReadyReplicas = 0 },
	func(k *walk) { k.truth.w.Engine.ReadyReplicas = k.truth.w.Engine.Replicas },
	func(k *walk) { k.truth.w.PendingPods = k.r.Intn(3) },
	func(k *walk) { anyGroup(k.r, k.truth).SuspendedProcesses = nil },
	func(k *walk) { // an instance dies
		g := anyGroup(k.r, k.truth)
		if len(g.Instances) > 0 && g.Name != "system" {
			id := g.Instances[k.r.Intn(len(g.Instances))].ID
			g.Instances = slices.DeleteFunc(slices.Clone(g.Instances), func(i inventory.Instance) bool { return i.ID == id })
			k.truth.w.Nodes = slices.DeleteFunc(slices.Clone(k.truth.w.Nodes), func(n inventory.Node) bool { return n.InstanceID == id })
		}
	},
	func(k *walk) { // a pod of Karpenter's
		if k.serving("general") {
			k.truth.claim("general")
		}
	},
	func(k *walk) { // somebody deletes a NodePool that has no node
		if np := k.truth.w.Engine.NodePools; len(np) > 0 && len(k.truth.w.Engine.NodeClaims) == 0 {
			k.truth.effect(DeleteNodePool{NodePool: np[0].Name}, k.now)
		}
	},
	func(k *walk) { // somebody uncordons everything
		for i := range k.truth.w.Nodes {
			k.truth.w.Nodes[i].Unschedulable = false
		}
	},
}

// calm ends the meddling: the engine runs, pods have their nodes, and who scaled Cluster Autoscaler up against castoff's word scales
// it down where castoff says so.
func (k *walk) calm() *walk {
	k.truth.w.Engine.ReadyReplicas, k.truth.w.PendingPods = k.truth.w.Engine.Replicas, 0
	return k
}

// TestMeddling: whatever happens in between, the wanted end is reached once it is calm. Two scalers by somebody else's hand are
// theirs; castoff's own actions never bring them about.
func TestMeddling(t *testing.T) {
	for seed := range int64(300) {
		r := rand.New(rand.NewSource(seed))
		k := aWalk(t, seed, aMigration().soak(shortSoak).accepts(CheckNoScaler, "*"), aVariedWorld(rand.New(rand.NewSource(seed)))).faulty()
		k.said = append(k.said, fmt.Sprintf("world %d", seed))
		for range 2 + r.Intn(10) {
			direction := []func() *walk{k.forward, k.forward, k.settle, k.back}[r.Intn(4)]
			direction().steps(1 + r.Intn(20))
			meddling[r.Intn(len(meddling))](k)
		}
		k.calm().arrives([]v1alpha1.Phase{v1alpha1.PhaseCompleted, v1alpha1.PhasePaused, v1alpha1.PhaseRolledBack}[r.Intn(3)])
	}
}

// arrives goes to an end in a world in which somebody meddled, and heeds what castoff asks of a human.
func (k *walk) arrives(phase v1alpha1.Phase) {
	k.t.Helper()
	map[v1alpha1.Phase]func() *walk{v1alpha1.PhaseCompleted: k.forward, v1alpha1.PhasePaused: k.settle, v1alpha1.PhaseRolledBack: k.back}[phase]()
	for range mostSteps {
		d := k.step()
		if d.Rested && d.Phase == phase {
			return
		}
		for _, b := range d.Blockers {
			switch b.Reason {
			case v1alpha1.ReasonTwoScalers:
				k.truth.withAutoscaler(func(a *inventory.Autoscaler) { a.Replicas = 0 })
			case "AutoscalerStoppedAgain":
				k.truth.withAutoscaler(func(a *inventory.Autoscaler) { a.Replicas = 1 })
			}
		}
	}
	k.fatal("not at rest in %s after %d looks", phase, mostSteps)
}

// TestWalksNotice proves that a walk notices what it is about: each of these actions breaks a promise in its world.
func TestWalksNotice(t *testing.T) {
	comingBack := aWorld().handedOver().withAutoscaler(func(a *inventory.Autoscaler) { a.Replicas = 1 })
	np := aTarget("general").NodePool
	cases := map[string]struct {
		reason string
		world  *scene
		action Action
	}{
		"Start":      {"two scalers", aWorld().handedOver(), StartAutoscaler{Autoscaler: anAutoscaler("cluster-autoscaler"), Replicas: 1}},
		"LetGo":      {"two scalers", comingBack, LetGoLease{}},
		"Serve":      {"two scalers", aWorld().quiet(), EnsureNodePool{NodePool: &np}},
		"ServeAgain": {"two scalers", aWorld().leading(), EnsureNodePool{NodePool: &np}},
		"EndClaim":   {"pods end with their node", aWorld().cordoned().draining("node-of-general-claim1", 1), EndNodeClaim{NodeClaim: "general-claim1", Node: "node-of-general-claim1"}},
		"End":        {"pods end with their node", aWorld().shifting().draining("general-0", 1), EndInstances{Group: "general", IDs: []string{"i-general-0"}}},
		"Size":       {"AWS chooses whom to end", aWorld().shifting(), SetGroupSize{Group: *aWorld().group("general"), Max: 10, Desired: 2}},
		"NodePool":   {"all of its nodes are drained at once", aWorld().cordoned(), DeleteNodePool{NodePool: "general"}},
		"Uninstall":  {"nobody ends the instances", aWorld().cordoned(), UninstallEngine{}},
		"Group":      {"its instances end with it", aWorld().shifting(), DeleteGroup{Group: *aWorld().group("general")}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			k := aWalk(t, 1, aMigration().accepts(CheckNoScaler, "*"), tc.world)
			noticed := false
			k.fail = func(string, ...any) { noticed = true }
			if k.forbid(tc.action); !noticed {
				t.Errorf("%s: %s passes", tc.reason, tell(tc.action))
			}
		})
	}
	judged := map[string]struct {
		reason string
		world  *scene
		looks  int
		asks   []Action
	}{
		"Twice":     {"a pool is served twice", aWorld().handedOver().withAutoscaler(func(a *inventory.Autoscaler) { a.Replicas, a.Pods, a.LeaseHolder = 1, 1, "ca" }), 1, nil},
		"Nobody":    {"a pool is served by nobody for long", aWorld().halted(), mostUnserved + 1, nil},
		"ForEver":   {"the same is asked for for ever", aWorld().handedOver(), mostRepeats + 2, []Action{LetGoLease{}}},
		"NotForgot": {"or ever in turns", aWorld().handedOver(), mostRepeats + 2, []Action{EvictPods{}, LetGoLease{}}},
	}
	for name, tc := range judged {
		t.Run(name, func(t *testing.T) {
			k := aWalk(t, 1, aMigration().accepts(CheckNoScaler, "*"), tc.world)
			noticed := 0
			k.alone, k.fail = false, func(string, ...any) { noticed++ }
			for i := range tc.looks {
				if noticed > 0 {
					t.Fatalf("%s: noticed after %d looks already", tc.reason, i)
				}
				k.said = append(k.said, "12:00:00 Shifting")
				k.judge(Decision{Actions: tc.asks})
			}
			if noticed == 0 {
				t.Errorf("%s, and nobody says so", tc.reason)
			}
		})
	}
}

// TestEndsNotice proves that the ends are looked at: each change of a world at its end is found.
func TestEndsNotice(t *testing.T) {
	restored := map[string]func(*scene){
		"Min":         func(s *scene) { s.group("general").Min = 0 },
		"Max":         func(s *scene) { s.group("general").Max = 0 },
		"Desired":     func(s *scene) { s.group("general").Desired = 0 },
		"Processes":   func(s *scene) { s.group("general").SuspendedProcesses = []string{"Launch"} },
		"Policy":      func(s *scene) { s.group("general").ScalingPolicies[0].Active = false },
		"Schedule":    func(s *scene) { s.group("general").ScheduledActions = nil },
		"Rebalance":   func(s *scene) { s.group("general").CapacityRebalance = true },
		"Lifetime":    func(s *scene) { s.group("general").MaxInstanceLifetime = 1 },
		"Replicas":    func(s *scene) { s.w.Autoscalers[0].Replicas = 0 },
		"Lease":       func(s *scene) { s.w.Autoscalers[0].LeaseHolder = v1alpha1.LeaseIdentity },
		"Label":       func(s *scene) { s.node("batch-0").Labels["castoff.sh/scaler"] = "karpenter" },
		"Annotation":  func(s *scene) { s.node("batch-0").Annotations["castoff.sh/held-by"] = "castoff" },
		"Taint":       func(s *scene) { fenceIt(s.node("batch-0")); clear(s.node("batch-0").Labels) },
		"Cordon":      func(s *scene) { s.node("batch-0").Unschedulable = true },
		"UsersLabel":  func(s *scene) { delete(s.node("batch-0").Labels, "team") },
		"NodePool":    func(s *scene) { s.serve("general", "") },
		"NodeClass":   func(s *scene) { s.nodeClass("general") },
		"NodeClaim":   func(s *scene) { s.claim("general") },
		"Canary":      func(s *scene) { s.canary("general", 0, running) },
		"Release":     func(s *scene) { s.w.Engine.Release = inventory.ReleaseDeployed },
		"ReleaseGone": func(s *scene) { s.w.Snapshot.Before.Release = true },
		"CRDs":        func(s *scene) { s.w.Engine.CRDs = true },
		"Queue":       func(s *scene) { s.w.Interruption.Made = []string{"queue"} },
		"Roles":       func(s *scene) { s.w.Identity.Made = []string{"role"} },
	}
	end := func() *scene { return aWorld().scaled("general", "cpu", "night").rolledBack() }
	if wrong := notRestored(end().w); len(wrong) > 0 {
		t.Fatalf("a world that was rolled back is one: %v", wrong)
	}
	for name, change := range restored {
		s := end()
		change(s)
		if len(notRestored(s.w)) == 0 {
			t.Errorf("%s: RolledBack, and nobody notices", name)
		}
	}
	if wrong := notCompleted(aWorld().completed().w); len(wrong) > 0 || len(notCompleted(aWorld().shifting().w)) == 0 {
		t.Errorf("a completed world is one, and a shifting one is not: %v", wrong)
	}
	for name, s := range map[string]*scene{"Fenced": aWorld().shifting(), "Nobody": aWorld().halted(), "Both": aWorld().leading().serve("general", "")} {
		k := aWalk(t, 1, aMigration().accepts(CheckNoScaler, "*"), s)
		if k.alone = false; len(k.notSettled()) == 0 {
			t.Errorf("%s: at rest, and nobody notices", name)
		}
	}
}
