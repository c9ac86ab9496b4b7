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

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// cases is how many random worlds are tried: with them the whole package's tests take seconds.
const cases = 2500

// rules are the promises that every decision keeps, whatever the world is like. Each returns what is wrong, or nothing.
var rules = map[string]func(*v1alpha1.Migration, World, Decision) string{
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

func onlyTheSnapshotFirst(m *v1alpha1.Migration, w World, d Decision) string {
	if w.Snapshot != nil {
		return ""
	}
	for _, a := range d.Actions {
		switch a.(type) {
		case SaveSnapshot:
		case HoldLease:
			if m.Status.Snapshot == nil { // a snapshot that was taken and cannot be read: what is held stays held
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

func oneScaler(_ *v1alpha1.Migration, w World, d Decision) string {
	if !slices.ContainsFunc(w.Autoscalers, func(a inventory.Autoscaler) bool { return scales(a, w) }) {
		return ""
	}
	for _, a := range d.Actions {
		switch a.(type) {
		case EnsureNodePool, FenceNode, BeginDrain, EvictPods, EndInstances:
			return tell(a) + " beside a Cluster Autoscaler that may act"
		}
	}
	return ""
}

func onlyDrainedEnd(_ *v1alpha1.Migration, w World, d Decision) string {
	for _, a := range d.Actions {
		end, ok := a.(EndInstances)
		if !ok {
			continue
		}
		for _, id := range end.IDs {
			if !inService(w, end.Group, id) {
				return id + " is not InService in " + end.Group
			}
			for _, n := range w.Nodes {
				if state, looked := w.Drains[n.Name]; n.InstanceID == id && (!looked || state.Evictable > 0 || !begun(n)) {
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
func onePending(_ *v1alpha1.Migration, _ World, d Decision) string {
	waiting := map[string]string{}
	for _, op := range d.Operations {
		if op.DoneTime != nil || op.StartTime == nil || !op.StartTime.Time.Equal(noon) {
			continue
		}
		if waiting[targetOf(op)] != "" {
			return waiting[targetOf(op)] + " and " + op.ID
		}
		waiting[targetOf(op)] = op.ID
	}
	for _, op := range d.Operations {
		young := op.StartTime != nil && noon.Sub(op.StartTime.Time) < patience && op.Error == "" && !op.StartTime.Time.Equal(noon)
		if op.DoneTime == nil && young && waiting[targetOf(op)] != "" {
			return waiting[targetOf(op)] + " while " + op.ID + " is waited for"
		}
	}
	return ""
}

func smallLedger(_ *v1alpha1.Migration, _ World, d Decision) string {
	seen := map[string]bool{}
	for _, op := range d.Operations {
		if seen[op.ID] {
			return "two entries " + op.ID + ", which the API server refuses"
		}
		seen[op.ID] = true
	}
	if len(d.Operations) > ledgerSize {
		return fmt.Sprintf("%d entries", len(d.Operations))
	}
	return ""
}

// settleMovesNoPod: a pause that is to settle evicts nothing, ends nothing, and fences nothing.
func settleMovesNoPod(m *v1alpha1.Migration, _ World, d Decision) string {
	if !m.Spec.Paused || rollsBack(m) {
		return ""
	}
	for _, a := range d.Actions {
		switch a.(type) {
		case EvictPods, BeginDrain, FenceNode, CordonNode, EndInstances, EndNodeClaim:
			return tell(a)
		}
	}
	return ""
}

func otherOnlyWaits(_ *v1alpha1.Migration, w World, d Decision) string {
	if w.OtherMigration != "" && len(d.Actions) > 0 {
		return tell(d.Actions[0])
	}
	return ""
}

func lawful(_ *v1alpha1.Migration, _ World, d Decision) string {
	for _, a := range d.Actions {
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

func recorded(_ *v1alpha1.Migration, _ World, d Decision) string {
	for _, a := range d.Actions {
		l, ok := a.(Ledgered)
		if !ok {
			continue
		}
		kind, target, detail := l.Entry()
		if !slices.ContainsFunc(d.Operations, func(op v1alpha1.Operation) bool {
			return op.ID == kind+"/"+target && op.Detail == detail && op.DoneTime == nil && op.StartTime.Time.Equal(noon)
		}) {
			return tell(a)
		}
	}
	return ""
}

func fencedAfterServed(_ *v1alpha1.Migration, w World, d Decision) string {
	for _, a := range d.Actions {
		f, ok := a.(FenceNode)
		if !ok {
			continue
		}
		served := false
		for _, np := range w.Engine.NodePools {
			served = served || np.Labels[v1alpha1.LabelPool] == f.Pool
		}
		if !served {
			return tell(a)
		}
	}
	return ""
}

func withinRoom(m *v1alpha1.Migration, w World, d Decision) string {
	for _, p := range newLook(m, w, noon).pools {
		begins, flying := 0, 0
		for _, n := range p.nodes {
			if begun(n) {
				flying++
			}
			if slices.Contains(told(d.Actions), "BeginDrain "+n.Name) {
				begins++
			}
		}
		if room := maxUnavailable(m.Spec.Strategy.MaxUnavailableNodes, p.recorded); begins > 0 && begins+flying > room {
			return fmt.Sprintf("pool %s: %d begin, %d are in flight, %d may be", p.Name, begins, flying, room)
		}
	}
	return ""
}

func readyMeansRest(_ *v1alpha1.Migration, w World, d Decision) string {
	ready := d.Conditions[0]
	if ready.Type != v1alpha1.ConditionReady || ready.Status != "True" {
		return ""
	}
	if len(d.Actions) > 0 || w.Snapshot == nil || slices.ContainsFunc(w.Nodes, func(n inventory.Node) bool {
		return slices.ContainsFunc(w.Pools, func(p inventory.Pool) bool { return slices.Contains(p.NodeGroups, n.Group) })
	}) {
		return "Ready, and something is left to do"
	}
	return ""
}

func homeAlone(_ *v1alpha1.Migration, _ World, d Decision) string {
	for _, a := range told(d.Actions) {
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
		if wrong := rule(m.build(), s.build(), d); wrong != "" {
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

// TestEveryStageReachesTheEnd: from each stage, with one call in four lost before it had an effect, the migration completes.
func TestEveryStageReachesTheEnd(t *testing.T) {
	for seed := range int64(200) {
		r := rand.New(rand.NewSource(seed))
		s, m := randomStage(r)
		s.withAutoscaler(func(a *inventory.Autoscaler) { a.Owner = "Helm release ca" })
		if looks := migrateAll(t, r, m.m, s); looks > mostLooks {
			d := Next(m.m, s.build(), noon.Add(24*time.Hour))
			t.Fatalf("seed %d: not finished after %d looks: phase %s, blockers %v, actions %v", seed, mostLooks, d.Phase, shown(d.Blockers), told(d.Actions))
		}
	}
}

// mostLooks bounds a run: one look in 20 s, pods leave one a look, and a quarter of all calls is lost.
const mostLooks = 400

func migrateAll(t *testing.T, r *rand.Rand, m *v1alpha1.Migration, s *scene) int {
	t.Helper()
	stops := 0
	for look := range mostLooks {
		now := noon.Add(time.Duration(look) * 20 * time.Second)
		d := Next(m, s.build(), now)
		if d.Conditions[0].Status == "True" {
			return look
		}
		m.Status.Operations, m.Status.Pools, m.Status.Waves, m.Status.Blockers = d.Operations, d.Pools, d.Waves, d.Blockers
		for _, a := range d.Actions {
			_, stop := a.(StopAutoscaler)
			if stop {
				stops++
			}
			if r.Intn(4) > 0 || (stop && stops > 1) { // whoever loses two calls to stop it is asked to look
				s.effect(a, now)
			}
		}
	}
	return mostLooks + 1
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
		"one scaler":                                      {m, comesBack(itLeads).build(), Decision{Actions: []Action{EvictPods{}}}},
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
		if rule(tc.m, tc.w, tc.d) == "" {
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
