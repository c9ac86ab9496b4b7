package plan

import (
	"fmt"
	"math/rand"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// cases is how many random worlds are tried: with them the whole package's tests take seconds.
const cases = 2500

// asked is a question to Next, and its answer.
type asked struct {
	m   *v1alpha1.Migration
	w   World
	now time.Time
	d   Decision
}

// rules are the promises that every decision keeps, whatever the world is like. Each returns what is wrong, or nothing.
var rules = map[string]func(asked) string{
	"nothing is written before the snapshot":          onlyTheSnapshotFirst,
	"one scaler":                                      oneScaler,
	"only drained instances end":                      onlyDrainedEnd,
	"one change of a group at a time":                 onePending,
	"the status stays small":                          smallLedger,
	"a pause is a pause":                              settleMovesNoPod,
	"another Migration's turn":                        otherOnlyWaits,
	"targets are absolute and lawful":                 lawful,
	"every action is in the ledger before it is made": recorded,
	"a node is fenced after a NodePool is there":      fencedAfterServed,
	"no more nodes in flight than allowed":            withinRoom,
	"a finished migration rests":                      readyMeansRest,
	"the home is left alone":                          homeAlone,
}

func onlyTheSnapshotFirst(q asked) string {
	if q.w.Snapshot != nil {
		return ""
	}
	for _, a := range q.d.Actions {
		switch a.(type) {
		case SaveSnapshot:
		case HoldLease:
			if q.m.Status.Snapshot == nil { // a snapshot that was taken and cannot be read: what is held stays held
				return tell(a)
			}
		default:
			return tell(a)
		}
	}
	return ""
}

// scales says whether a Cluster Autoscaler may act on a group of a pool now. Its words are those of the design, not the code's.
func scales(a inventory.Autoscaler, w World) bool {
	idle := a.Replicas == 0 && a.StatusReplicas == 0 && a.Pods == 0
	fencedStandby := a.LeaderElect && a.LeaseHolder == v1alpha1.LeaseIdentity
	return !idle && !fencedStandby && slices.ContainsFunc(w.Groups, func(g inventory.NodeGroup) bool {
		return a.Manages(g) && slices.ContainsFunc(w.Pools, func(p inventory.Pool) bool { return slices.Contains(p.NodeGroups, g.Name) })
	})
}

func oneScaler(q asked) string {
	if !slices.ContainsFunc(q.w.Autoscalers, func(a inventory.Autoscaler) bool { return scales(a, q.w) }) {
		return ""
	}
	for _, action := range q.d.Actions {
		wrong := false
		switch a := action.(type) {
		case EnsureNodePool: // one that serves already may be kept from moving anything
			wrong = !stopped(*a.NodePool) && !serves(q.w, a.NodePool.Name)
		case BeginDrain:
			wrong = legacyNode(q.w, a.Node)
		case EvictPods: // Karpenter's nodes are drained on the way back
			wrong = legacyNode(q.w, a.Node)
		case FenceNode, EndInstances:
			wrong = true
		}
		if wrong {
			return tell(action) + " beside a Cluster Autoscaler that may act"
		}
	}
	return ""
}

// serves says whether a NodePool of that name launches.
func serves(w World, name string) bool {
	return slices.ContainsFunc(w.Engine.NodePools, func(n karpv1.NodePool) bool { return n.Name == name && !stopped(n) })
}

func legacyNode(w World, name string) bool {
	return slices.ContainsFunc(w.Nodes, func(n inventory.Node) bool { return n.Name == name && n.Labels[karpv1.NodePoolLabelKey] == "" })
}

func onlyDrainedEnd(q asked) string {
	for _, a := range q.d.Actions {
		end, ok := a.(EndInstances)
		if !ok {
			continue
		}
		for _, id := range end.IDs {
			if !inService(q.w, end.Group, id) {
				return id + " is not InService in " + end.Group
			}
			for _, n := range q.w.Nodes {
				if state, looked := q.w.Drains[n.Name]; n.InstanceID == id && (!looked || state.Evictable > 0 || !begun(n)) {
					return fmt.Sprintf("%s of node %s, looked at %v, evictable %d", id, n.Name, looked, state.Evictable)
				}
			}
		}
	}
	return ""
}

func inService(w World, asg, id string) bool {
	return slices.ContainsFunc(w.Groups, func(g inventory.NodeGroup) bool {
		return g.AutoScalingGroup == asg && slices.ContainsFunc(g.Instances, func(i inventory.Instance) bool { return i.ID == id && i.Lifecycle == "InService" })
	})
}

// onePending: of the changes that this decision opens, and of those that are still waited for, one is on each target.
func onePending(q asked) string {
	waiting := map[string]string{}
	for _, op := range q.d.Operations {
		if op.DoneTime != nil || op.StartTime == nil || !op.StartTime.Time.Equal(q.now) {
			continue
		}
		if waiting[targetOf(op)] != "" {
			return waiting[targetOf(op)] + " and " + op.ID
		}
		waiting[targetOf(op)] = op.ID
	}
	for _, op := range q.d.Operations {
		young := op.StartTime != nil && q.now.Sub(op.StartTime.Time) < patience && op.Error == "" && !op.StartTime.Time.Equal(q.now)
		if op.DoneTime == nil && young && waiting[targetOf(op)] != "" {
			return waiting[targetOf(op)] + " while " + op.ID + " is waited for"
		}
	}
	return ""
}

func smallLedger(q asked) string {
	seen := map[string]bool{}
	for _, op := range q.d.Operations {
		if seen[op.ID] {
			return "two entries " + op.ID + ", which the API server refuses"
		}
		seen[op.ID] = true
	}
	if len(q.d.Operations) > ledgerSize {
		return fmt.Sprintf("%d entries", len(q.d.Operations))
	}
	return ""
}

// settleMovesNoPod: a pause that is to settle evicts nothing, ends nothing, and fences nothing.
func settleMovesNoPod(q asked) string {
	if !q.m.Spec.Paused || rollsBack(q.m) {
		return ""
	}
	for _, a := range q.d.Actions {
		switch a.(type) {
		case EvictPods, BeginDrain, FenceNode, CordonNode, EndInstances, EndNodeClaim:
			return tell(a)
		}
	}
	return ""
}

func otherOnlyWaits(q asked) string {
	if q.w.OtherMigration != "" && len(q.d.Actions) > 0 {
		return tell(q.d.Actions[0])
	}
	return ""
}

func lawful(q asked) string {
	for _, a := range q.d.Actions {
		switch a := a.(type) {
		case SetGroupSize:
			if a.Min < 0 || a.Min > a.Desired || a.Desired > a.Max || (a.Group.Managed != nil && a.Max < 1) {
				return tell(a)
			}
		case SuspendProcesses:
			if len(a.Processes) == 0 || slices.Contains(a.Processes, "Terminate") {
				return tell(a)
			}
		case EndInstances:
			ids := slices.Clone(a.IDs)
			slices.Sort(ids)
			if len(ids) == 0 || len(strings.Join(ids, separator)) > detailSize || len(slices.Compact(ids)) != len(a.IDs) {
				return tell(a)
			}
		}
		if strings.HasPrefix(tell(a), "an action that tell") {
			return tell(a)
		}
	}
	return ""
}

func recorded(q asked) string {
	for _, a := range q.d.Actions {
		l, ok := a.(Ledgered)
		if !ok {
			continue
		}
		kind, target, detail := l.Entry()
		if !slices.ContainsFunc(q.d.Operations, func(op v1alpha1.Operation) bool {
			return op.ID == kind+"/"+target && op.Detail == detail && op.DoneTime == nil && op.StartTime.Time.Equal(q.now)
		}) {
			return tell(a)
		}
	}
	return ""
}

func fencedAfterServed(q asked) string {
	for _, a := range q.d.Actions {
		f, ok := a.(FenceNode)
		if !ok {
			continue
		}
		served := false
		for _, np := range q.w.Engine.NodePools {
			served = served || np.Labels[v1alpha1.LabelPool] == f.Pool
		}
		if !served {
			return tell(a)
		}
	}
	return ""
}

func withinRoom(q asked) string {
	for _, p := range newLook(q.m, q.w, q.now).pools {
		begins, flying := 0, 0
		for _, n := range p.nodes {
			if begun(n) {
				flying++
			}
			if slices.Contains(told(q.d.Actions), "BeginDrain "+n.Name) {
				begins++
			}
		}
		if room := maxUnavailable(q.m.Spec.Strategy.MaxUnavailableNodes, p.recorded); begins > 0 && begins+flying > room {
			return fmt.Sprintf("pool %s: %d begin, %d are in flight, %d may be", p.Name, begins, flying, room)
		}
	}
	return ""
}

func readyMeansRest(q asked) string {
	ready := q.d.Conditions[0]
	if ready.Type != v1alpha1.ConditionReady || ready.Status != "True" {
		return ""
	}
	for _, a := range q.d.Actions {
		if _, ok := a.(HoldLease); !ok { // what is held stays held
			return "Ready, and something is left to do: " + tell(a)
		}
	}
	if q.d.Phase == v1alpha1.PhaseRolledBack {
		return strings.Join(leftOver(q.w), ", ")
	}
	if q.w.Snapshot == nil || slices.ContainsFunc(q.w.Nodes, func(n inventory.Node) bool {
		return slices.ContainsFunc(q.w.Pools, func(p inventory.Pool) bool { return slices.Contains(p.NodeGroups, n.Group) })
	}) {
		return "Ready, and legacy nodes are left"
	}
	return ""
}

// leftOver is what a migration that was rolled back may not have: one that recorded nothing never made anything.
func leftOver(w World) (left []string) {
	if w.Snapshot == nil {
		return nil
	}
	for _, p := range newLook(aMigration().m, w, noon).pools {
		if np, ok := nodePool(newLook(aMigration().m, w, noon), p.Name); ok {
			left = append(left, "NodePool "+np.Name)
		}
		for _, n := range p.nodes {
			left = append(left, castoffs(n)...)
		}
	}
	return left
}

func homeAlone(q asked) string {
	for _, a := range told(q.d.Actions) {
		if strings.Contains(a, "system-") && !strings.Contains(a, "kube-system/") || strings.Contains(a, "eks-system") {
			return a
		}
	}
	return ""
}

// check tries one random world.
func check(t *testing.T, seed int64) {
	t.Helper()
	m, s := randomCase(seed)
	pristineM, pristine := randomCase(seed)
	d := Next(m.build(), s.build(), noon)
	needs := NeedsOf(m.build(), s.build())
	if !reflect.DeepEqual(s.w, pristine.w) || !reflect.DeepEqual(m.m, pristineM.m) {
		t.Errorf("seed %d: Next changed what it was given: -before, +after:\n%s%s", seed, cmp.Diff(pristine.w, s.w), cmp.Diff(pristineM.m, m.m))
	}
	if again := Next(pristineM.build(), pristine.build(), noon); !reflect.DeepEqual(d, again) {
		t.Errorf("seed %d: the same question has two answers: -first, +second:\n%s", seed, cmp.Diff(told(d.Actions), told(again.Actions)))
	}
	if again := NeedsOf(pristineM.build(), pristine.build()); !reflect.DeepEqual(needs, again) {
		t.Errorf("seed %d: the same question has two needs: %v, %v", seed, needs, again)
	}
	for name, rule := range rules {
		if wrong := rule(asked{m.build(), s.build(), noon, d}); wrong != "" {
			t.Errorf("seed %d: %s: %s\nphase %s, actions %v", seed, name, wrong, d.Phase, told(d.Actions))
		}
	}
	if d.Phase == "" || d.Until.Before(noon) || len(d.Conditions) != len(v1alpha1.ConditionTypes) {
		t.Errorf("seed %d: phase %q, until %v, %d conditions: a decision is always whole", seed, d.Phase, d.Until, len(d.Conditions))
	}
}

func TestPromisesHoldInRandomWorlds(t *testing.T) {
	for seed := range int64(cases) {
		check(t, seed)
	}
}

// TestRandomWorldsReachEveryAction proves that the rules above are tried at all.
func TestRandomWorldsReachEveryAction(t *testing.T) {
	acted, phases := map[string]int{}, map[v1alpha1.Phase]int{}
	for seed := range int64(cases) {
		m, s := randomCase(seed)
		d := Next(m.build(), s.build(), noon)
		phases[d.Phase]++
		for _, a := range d.Actions {
			acted[reflect.TypeOf(a).Name()]++
		}
	}
	for _, a := range []any{
		SaveSnapshot{}, MarkNode{}, EnsureNodeClass{}, StartCanary{}, MarkCanaryPassed{}, EndCanary{}, HoldLease{}, StripLeftovers{}, EnsureNodePool{},
		FenceNode{}, BeginDrain{}, EvictPods{}, DisablePolicies{}, EnsureInterruption{}, EnsureIdentity{}, InstallEngine{},
		SuspendProcesses{}, SetRebalance{}, StopAutoscaler{}, SetGroupSize{}, EndInstances{},
	} {
		if name := reflect.TypeOf(a).Name(); acted[name] == 0 {
			t.Errorf("no random world asks for %s", name)
		}
	}
	for _, p := range []v1alpha1.Phase{
		v1alpha1.PhaseAssessing, v1alpha1.PhaseAwaitingApproval, v1alpha1.PhasePreparing, v1alpha1.PhaseInstalling, v1alpha1.PhaseHandingOver,
		v1alpha1.PhaseShifting, v1alpha1.PhaseCompleted, v1alpha1.PhasePaused,
	} {
		if phases[p] == 0 {
			t.Errorf("no random world is in phase %s", p)
		}
	}
}

// TestEffectsAreSeen: what an action brings about closes its entry, so that it is not asked for twice.
func TestEffectsAreSeen(t *testing.T) {
	seen := 0
	for seed := range int64(500) {
		r := rand.New(rand.NewSource(seed))
		s, m := randomStage(r)
		for _, a := range Next(m.m, s.build(), noon).Actions {
			s.effect(a, noon)
			l, ok := a.(Ledgered)
			if !ok {
				continue
			}
			seen++
			kind, target, detail := l.Entry()
			if !visible(operation(kind+"/"+target, detail, 0), s.build()) {
				t.Errorf("seed %d: the effect of %s is never seen", seed, tell(a))
			}
		}
	}
	if seen == 0 {
		t.Fatal("no world asked for an effect: this proves nothing")
	}
}

// TestRulesNotice proves that each rule notices what it is about.
func TestRulesNotice(t *testing.T) {
	m, paused := aMigration().build(), aMigration().paused().build()
	shifting := aWorld().shifting().draining("general-0", 2).build()
	ready := Next(aMigration().soaked().build(), aWorld().completed().build(), noon).Conditions
	twice := []v1alpha1.Operation{operation("SetGroupSize/general", "", 0), operation("EndInstances/general", "", 0)}
	bad := map[string]struct {
		m *v1alpha1.Migration
		w World
		d Decision
	}{
		"nothing is written before the snapshot":          {m, aWorld().build(), Decision{Actions: []Action{MarkNode{}}}},
		"one scaler":                                      {m, comesBack(itLeads).build(), Decision{Actions: []Action{EvictPods{Node: "general-0"}}}},
		"only drained instances end":                      {m, shifting, Decision{Actions: []Action{EndInstances{Group: "general", IDs: []string{"i-general-0"}}}}},
		"one change of a group at a time":                 {m, shifting, Decision{Operations: twice}},
		"the status stays small":                          {m, shifting, Decision{Operations: entries(ledgerSize+1, asIs)}},
		"a pause is a pause":                              {paused, shifting, Decision{Actions: []Action{EvictPods{}}}},
		"another Migration's turn":                        {m, World{OtherMigration: "older"}, Decision{Actions: []Action{HoldLease{}}}},
		"targets are absolute and lawful":                 {m, shifting, Decision{Actions: []Action{SetGroupSize{Min: 1}}}},
		"every action is in the ledger before it is made": {m, shifting, Decision{Actions: []Action{InstallCRDs{}}}},
		"a node is fenced after a NodePool is there":      {m, aWorld().released().build(), Decision{Actions: []Action{FenceNode{Node: "general-0", Pool: "general"}}}},
		"no more nodes in flight than allowed": {aMigration().maxUnavailable("1").build(), shifting,
			Decision{Actions: []Action{BeginDrain{Node: "general-1"}}}},
		"a finished migration rests": {m, shifting, Decision{Conditions: ready}},
		"the home is left alone":     {m, shifting, Decision{Actions: []Action{BeginDrain{Node: "system-0"}}}},
	}
	for name, rule := range rules {
		tc, ok := bad[name]
		if !ok {
			t.Errorf("nothing proves the rule %q", name)
			continue
		}
		if rule(asked{tc.m, tc.w, noon, tc.d}) == "" {
			t.Errorf("the rule %q does not notice what breaks it", name)
		}
	}
}

func FuzzNext(f *testing.F) {
	for seed := range int64(32) {
		f.Add(seed)
	}
	f.Fuzz(check)
}

// BenchmarkNext decides at 1,000 nodes. Budget: 25 ms. It comes from the pace: a migration at work is looked at every two
// seconds (soon), and the planner should take about one percent of that on a small machine; the rest is for AWS and the API server.
func BenchmarkNext(b *testing.B) {
	m, s := largeWorld(1000)
	migration, w := m.build(), s.build()
	b.ReportAllocs()
	for b.Loop() {
		if d := Next(migration, w, noon); len(d.Actions) == 0 {
			b.Fatal("a world in the middle of shifting has something to do")
		}
	}
}
