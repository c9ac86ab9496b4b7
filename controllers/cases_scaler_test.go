package controllers

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// The situations that people who moved from Cluster Autoscaler to Karpenter reported in public, by their number in the list of
// cases, with the whole controller.

// byName has Cluster Autoscaler name its groups; their tags say nothing.
func byName(groups ...string) func(*world) {
	return func(w *world) {
		w.ca.Discovery, w.ca.Static = nil, groups
		for _, g := range w.groups {
			g.Tags = nil
		}
		w.history = nil
		w.scan()
		w.record()
	}
}

// said collects the blockers that the status had at any look, with their messages.
func said(w *world) map[string]string {
	all := map[string]string{}
	before := w.before
	w.before = func() {
		if before != nil {
			before()
		}
		if m := w.migration(); m != nil {
			for _, b := range m.Status.Blockers {
				all[string(b.Severity)+" "+b.Reason+" "+b.Object] = b.Message
			}
		}
	}
	return all
}

func home(name string) func(*v1alpha1.Migration) {
	return func(m *v1alpha1.Migration) { m.Spec.Home = &v1alpha1.Home{NodeGroup: name} }
}

func TestCase_C001_OneScalerAnswersAPendingPod(t *testing.T) {
	cases := map[string]func(*world){
		"ByTag":  func(*world) {},
		"ByName": byName("general", "eks-batch"),
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			change(w)
			var first, drained bool
			var nodes int
			atStop := map[string]int32{}
			w.hook = func(call string, after bool) error {
				switch {
				case call == "Stop" && after:
					w.homeless["general"] += 7 // the group's nodes have room for six
					w.showPending()
					for name, g := range w.groups {
						atStop[name] = g.Desired
					}
				case call == "EnsureNodePool" && !after && !first:
					first = true
					if !w.ca.Stopped() || w.scaler.leads {
						t.Error("a NodePool is made while Cluster Autoscaler may still act")
					}
				case (call == "Warm" || call == "Begin") && !after && !drained: // before room is made for what will move
					drained, nodes = true, len(w.claims)
				}
				for name, most := range atStop {
					if g := w.groups[name]; g != nil && g.Desired > most {
						t.Errorf("group %s was raised to %d after Cluster Autoscaler was out", name, g.Desired)
					}
				}
				return nil
			}
			m := migrate(t, w, home("system"))
			if wrong := rightEnd(w, m); len(wrong) > 0 {
				t.Error(strings.Join(wrong, "\n"))
			}
			if !first || !drained || nodes != 1 {
				t.Errorf("the one pod got %d nodes, want one (NodePool made %t, drain begun %t)", nodes, first, drained)
			}
		})
	}
}

// The home, which Cluster Autoscaler scales too, has no scaler afterwards, and that is said before anything is done.
func TestCase_C003_NamedGroupsEndAsOneWave(t *testing.T) {
	w := newWorld(t)
	byName("general", "eks-batch", "eks-system", "elsewhere")(w)
	told := said(w)
	var order []string
	w.hook = func(call string, after bool) error {
		if !after {
			order = append(order, call)
		}
		return nil
	}
	m := migrate(t, w, home("system"))
	if wrong := rightEnd(w, m); len(wrong) > 0 {
		t.Error(strings.Join(wrong, "\n"))
	}
	stop, pool := slices.Index(order, "Stop"), slices.Index(order, "EnsureNodePool")
	if stop < 0 || pool < stop || len(m.Status.Waves) != 1 || len(m.Status.Waves[0].Pools) != 2 {
		t.Errorf("want one wave of both pools behind the stop: stop %d, NodePool %d, waves %+v", stop, pool, m.Status.Waves)
	}
	const object = "Warn GroupsLeftUnscaled deployment/kube-system/cluster-autoscaler"
	if message := told[object]; !strings.Contains(message, "system (the home), elsewhere") {
		t.Errorf("%s says %q, want the groups that nobody scales any more", object, message)
	}
}

// gitOps is a tool that has Cluster Autoscaler at one replica, from the first eviction on, for as long as it is on.
type gitOps struct {
	on      bool
	started int
}

func (g *gitOps) watch(w *world) {
	before := w.before
	w.before = func() {
		if before != nil {
			before()
		}
		if g.on && w.calls["Pass"] > 0 && w.ca.Replicas == 0 {
			g.started++
			w.startScaler(1)
		}
		if !g.on && g.started > 0 && w.ca.Replicas > 0 { // it was told to
			w.stopScaler()
		}
	}
}

// foreign are the promises that somebody else broke: two scalers at once.
func foreign(broken []string) []string {
	return slices.DeleteFunc(slices.Clone(broken), func(s string) bool {
		return strings.Contains(s, "is served by Cluster Autoscaler and by Karpenter") || strings.Contains(s, "is fenced while Cluster Autoscaler leads")
	})
}

var gitOpsOwners = map[string]string{
	"ArgoCD": "Argo CD application ca", "Flux": "Flux HelmRelease flux-system/ca", "Helm": "Helm release kube-system/ca", "Label": "Helm (label app.kubernetes.io/managed-by)",
}

func TestCase_C005_AStandbyThatGitOpsStartsDoesNotStopTheDrain(t *testing.T) {
	for name, owner := range gitOpsOwners {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.ca.Owner = owner
			g := &gitOps{on: true}
			g.watch(w)
			told := said(w)
			m := migrate(t, w)
			if m.Status.Phase != v1alpha1.PhaseCompleted || len(w.broken) > 0 || w.calls["Stop"] != 1 || g.started != 1 {
				t.Errorf("want one stop, one start and the end: phase %s, %d stops, %d starts, broken %v", m.Status.Phase, w.calls["Stop"], g.started, w.broken)
			}
			if message := told["Warn AutoscalerStandby deployment/kube-system/cluster-autoscaler"]; !strings.Contains(message, owner) {
				t.Errorf("whose doing it is is not said: %q", message)
			}
			if message := told["Warn AutoscalerOwned deployment/kube-system/cluster-autoscaler"]; !strings.Contains(message, owner) {
				t.Errorf("nor was it said before anything was done: %q", message)
			}
		})
	}
}

func TestCase_C005_ALeaderThatGitOpsStartsIsNotFought(t *testing.T) {
	for name, owner := range gitOpsOwners {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.ca.Owner, w.ca.LeaderElect, w.ca.LeaseHolder = owner, false, ""
			g := &gitOps{on: true}
			g.watch(w)
			told := said(w)
			const object = "Block TwoScalers deployment/kube-system/cluster-autoscaler"
			apply(t, w)
			blocked := func(*world) bool { return told[object] != "" }
			if err := w.drive(blocked, mostLooks); err != nil {
				t.Fatal(err)
			}
			evictions := w.calls["Pass"]
			if err := w.drive(func(*world) bool { return false }, 50); err == nil {
				t.Fatal("it ended")
			}
			if w.calls["Stop"] != 2 || w.calls["Pass"] != evictions || !w.scaler.leads {
				t.Errorf("want two stops and no eviction beside it: %d stops, %d evictions after it was blocked, leads %t", w.calls["Stop"], w.calls["Pass"]-evictions, w.scaler.leads)
			}
			if !strings.Contains(told[object], owner) {
				t.Errorf("whose doing it is is not said: %q", told[object])
			}
			g.on = false
			if err := w.drive(isCompleted, mostLooks); err != nil {
				t.Fatal(err)
			}
			if wrong := foreign(w.broken); len(wrong) > 0 || w.calls["Stop"] != 2 {
				t.Errorf("%d stops; %v", w.calls["Stop"], wrong)
			}
		})
	}
}

// What could end or add an instance by itself is off before the first end, on every group.
func TestCase_C007_NothingRebalancesWhileInstancesEnd(t *testing.T) {
	w := newWorld(t)
	w.lag = 0
	ends := 0
	w.hook = func(call string, after bool) error {
		if call != "EndInstances" || after {
			return nil
		}
		ends++
		for _, pool := range testPools {
			if g := w.groups[pool]; !g.Suspends("AZRebalance", "ReplaceUnhealthy", "ScheduledActions", "AlarmNotification", "InstanceRefresh") || g.Suspends("Terminate") || g.CapacityRebalance {
				t.Errorf("instances end while %s has only %v suspended, Capacity Rebalancing %t", pool, g.SuspendedProcesses, g.CapacityRebalance)
			}
		}
		return nil
	}
	m := migrate(t, w)
	if wrong := rightEnd(w, m); len(wrong) > 0 || ends == 0 {
		t.Errorf("%d ends:\n%s", ends, strings.Join(wrong, "\n"))
	}
}

// However often the process ends, and there and back twice, Cluster Autoscaler has as many replicas as it had.
func TestCase_C084_ReplicasComeBackAsTheyWere(t *testing.T) {
	hpa := &inventory.HorizontalAutoscaler{Name: "ca", Min: 1, Max: 3}
	keda := &inventory.HorizontalAutoscaler{Name: "keda-hpa-ca (of ScaledObject ca)", Min: 1, Max: 3, ScaledObject: "ca"}
	cases := map[string]struct {
		replicas int32
		hpa      *inventory.HorizontalAutoscaler
	}{
		"One": {1, nil}, "Two": {2, nil}, "None": {0, nil}, "HPA": {2, hpa}, "KEDA": {1, keda},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.ca.Replicas, w.ca.StatusReplicas, w.ca.Pods, w.ca.HPA = tc.replicas, tc.replicas, int(tc.replicas), tc.hpa
			if tc.replicas == 0 {
				w.scaler.leads, w.ca.LeaseHolder, w.ca.Groups, w.ca.StatusTime = false, "", nil, time.Time{}
				w.patience = 1000 * time.Hour // nobody scaled the pools before either
			}
			stops := 0
			w.hook = func(call string, after bool) error {
				if call == "Stop" && after {
					stops++
					panic(crash{})
				}
				return nil
			}
			apply(t, w, func(m *v1alpha1.Migration) {
				m.Spec.AcceptedRisks = []v1alpha1.AcceptedRisk{{Check: "NoScalerToGoBackTo", Object: "*", Reason: "nobody did before"}}
			})
			for _, turn := range []struct {
				change func(*v1alpha1.Migration)
				to     place
			}{{resume, isCompleted}, {rollBack, isRolledBack}, {resume, isCompleted}, {rollBack, isRolledBack}} {
				w.user(turn.change)
				if err := w.drive(turn.to, mostLooks); err != nil {
					t.Fatal(err)
				}
				w.restart()
				if w.snapshot.Autoscalers[0].Replicas != tc.replicas {
					t.Fatalf("the snapshot has %d replicas", w.snapshot.Autoscalers[0].Replicas)
				}
			}
			if w.ca.Replicas != tc.replicas || (stops == 0) != (tc.replicas == 0) {
				t.Errorf("%d replicas after %d stops, want %d", w.ca.Replicas, stops, tc.replicas)
			}
			wrong := slices.DeleteFunc(w.broken, func(s string) bool { // nobody does, and that was accepted
				return tc.replicas == 0 && strings.HasSuffix(s, "before Cluster Autoscaler leads again")
			})
			if len(wrong) > 0 {
				t.Error(strings.Join(wrong, "\n"))
			}
		})
	}
}

// wayBackOrder is that of the first call of each on the way back.
var wayBackOrder = []string{"SetSize", "Start", "Cordon", "Pass", "DeleteNodeClaim", "DeleteNodePool", "DeleteNodeClass", "Uninstall", "RemoveCRDs"}

func TestCase_C086_TheEngineGoesLast(t *testing.T) {
	w := newWorld(t)
	migrate(t, w)
	var order []string
	w.hook = func(call string, after bool) error {
		if after || !slices.Contains(wayBackOrder, call) || slices.Contains(order, call) {
			return nil
		}
		order = append(order, call)
		for _, pool := range testPools {
			if g := w.groups[pool]; call == "Pass" && (w.alive(g) != int(g.Desired) || len(w.born) > 0) {
				t.Errorf("Karpenter's nodes are drained while %s has %d of %d nodes", pool, w.alive(g), g.Desired)
			}
		}
		return nil
	}
	w.user(rollBack)
	if err := w.drive(isRolledBack, mostLooks); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(order, wayBackOrder) || len(w.broken) > 0 {
		t.Errorf("order %v, want %v; %v", order, wayBackOrder, w.broken)
	}
}

// A NodeClaim whose finalizer nobody takes off is told, and waited for: without the engine its instance would run for ever.
func TestCase_C086_AStuckFinalizerIsReported(t *testing.T) {
	w := newWorld(t)
	migrate(t, w)
	stuck := true
	w.hook = func(call string, after bool) error {
		for i := range w.claims {
			if call == "DeleteNodeClaim" && after && stuck && !w.claims[i].gone.IsZero() {
				w.claims[i].gone = w.now.Add(1000 * time.Hour)
			}
		}
		return nil
	}
	told := said(w)
	w.user(rollBack)
	if err := w.drive(isRolledBack, 150); err == nil {
		t.Fatal("it is rolled back with NodeClaims left")
	}
	if w.calls["DeleteNodePool"]+w.calls["Uninstall"]+w.calls["RemoveCRDs"] > 0 || !w.rel {
		t.Errorf("something was removed under the NodeClaims: %v", w.calls)
	}
	name := w.claims[slices.IndexFunc(w.claims, func(c claim) bool { return !c.gone.IsZero() })].name
	if told["Wait NodeClaimEnding nodeclaim/"+name] == "" {
		t.Errorf("NodeClaim %s is not named: %v", name, told)
	}
	stuck = false
	for i := range w.claims {
		if !w.claims[i].gone.IsZero() {
			w.claims[i].gone = w.now
		}
	}
	if err := w.drive(isRolledBack, mostLooks); err != nil {
		t.Fatal(err)
	}
	if len(w.claims) > 0 || w.rel || len(w.broken) > 0 {
		t.Errorf("%d NodeClaims left, engine %t; %v", len(w.claims), w.rel, w.broken)
	}
}

// LaunchedByKarpenter has those with a NodeClaim, too.
func (p ports) LaunchedByKarpenter(context.Context, inventory.Cluster) ([]string, error) {
	out := slices.Clone(p.w.orphans)
	for _, c := range p.w.claims {
		out = append(out, "i-"+c.name)
	}
	return out, p.w.read("LaunchedByKarpenter")
}

// Somebody took a NodeClaim's finalizer off: its instance runs on, and only Karpenter would find it.
func TestCase_C086_InstancesWithoutANodeClaimKeepTheEngine(t *testing.T) {
	w := newWorld(t)
	migrate(t, w)
	w.orphans = []string{"i-0123456789abcdef0"}
	told := said(w)
	const object = "InstancesLeft release/karpenter"
	w.user(rollBack)
	if err := w.drive(func(*world) bool { return told["Block "+object] != "" }, mostLooks); err != nil {
		t.Fatal(err)
	}
	if w.calls["Uninstall"] > 0 || !strings.Contains(told["Wait "+object], "i-0123456789abcdef0") || !strings.Contains(told["Block "+object], "aws ec2 terminate-instances --instance-ids i-0123456789abcdef0") {
		t.Errorf("uninstalled %d times; said %q, then %q", w.calls["Uninstall"], told["Wait "+object], told["Block "+object])
	}
	w.orphans = nil
	if err := w.drive(isRolledBack, mostLooks); err != nil {
		t.Fatal(err)
	}
	if w.rel || len(w.broken) > 0 {
		t.Errorf("engine %t; %v", w.rel, w.broken)
	}
}

func TestCase_C086_AKarpenterThatWasThereStays(t *testing.T) {
	w := newWorld(t)
	w.rel, w.crds, w.settled.Ready, w.identity.Ready = true, true, true, true
	migrate(t, w)
	w.user(rollBack)
	if err := w.drive(isRolledBack, mostLooks); err != nil {
		t.Fatal(err)
	}
	if w.calls["Uninstall"]+w.calls["RemoveCRDs"] > 0 || !w.rel || !w.crds || len(w.engine.NodePools) > 0 || len(w.broken) > 0 {
		t.Errorf("engine %t, CRDs %t, %d NodePools, calls %v; %v", w.rel, w.crds, len(w.engine.NodePools), w.calls, w.broken)
	}
}

// Karpenter's nodes are cordoned and drained though nothing would move a pod by itself, and RolledBack is said when none is left.
func TestCase_C090_NoNodeOfKarpentersIsLeft(t *testing.T) {
	w := newWorld(t)
	migrate(t, w)
	if len(w.claims) == 0 {
		t.Fatal("Karpenter has no node; the test proves nothing")
	}
	w.before = func() {
		if w.migration().Status.Phase == v1alpha1.PhaseRolledBack {
			t.Error("RolledBack was said before a last look")
		}
	}
	w.hook = func(call string, after bool) error {
		if call != "Cordon" || after {
			return nil
		}
		for i := range w.engine.NodePools {
			if p := &w.engine.NodePools[i]; !stopped(p) {
				t.Errorf("NodePool %s may still launch when its nodes are cordoned", p.Name)
			}
		}
		return nil
	}
	w.user(rollBack)
	if err := w.drive(isRolledBack, mostLooks); err != nil {
		t.Fatal(err)
	}
	left := 0
	for _, n := range w.nodes() {
		if n.Labels["group"] == "" {
			left++
		}
	}
	if len(w.claims) > 0 || left > 0 || len(w.engine.NodePools) > 0 || w.homeless["general"]+w.homeless["batch"] > 0 || len(w.broken) > 0 {
		t.Errorf("%d NodeClaims, %d nodes of Karpenter's, %d NodePools, pods without a node %v; %v", len(w.claims), left, len(w.engine.NodePools), w.homeless, w.broken)
	}
}
