package plan

import (
	"math/rand"
	"reflect"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// cases is how many random worlds are tried: with them the whole package's tests take seconds.
const cases = 2500

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
		ReleaseNode{}, HoldNode{}, RestoreNode{}, UnmarkNode{}, CordonNode{}, LetGoLease{}, EndNodeClaim{}, DeleteNodePool{}, DeleteNodeClass{},
		DeleteTerminationHandler{}, StartAutoscaler{}, EnablePolicies{}, PutScheduledActions{}, ResumeProcesses{}, UninstallEngine{}, RemoveCRDs{},
		RemoveInterruption{}, RemoveIdentity{}, DeletePolicies{}, DeleteGroup{}, DeleteAutoscaler{},
	} {
		if name := reflect.TypeOf(a).Name(); acted[name] == 0 {
			t.Errorf("no random world asks for %s", name)
		}
	}
	for _, p := range []v1alpha1.Phase{
		v1alpha1.PhaseAssessing, v1alpha1.PhaseAwaitingApproval, v1alpha1.PhasePreparing, v1alpha1.PhaseInstalling, v1alpha1.PhaseHandingOver,
		v1alpha1.PhaseShifting, v1alpha1.PhaseCompleted, v1alpha1.PhasePaused, v1alpha1.PhaseRollingBack, v1alpha1.PhaseRolledBack,
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
		"Karpenter's nodes end empty": {m, aWorld().cordoned().draining("node-of-general-claim1", 1).build(),
			Decision{Actions: []Action{EndNodeClaim{NodeClaim: "general-claim1", Node: "node-of-general-claim1"}}}},
		"Karpenter lets go first":     {m, shifting, Decision{Actions: []Action{StartAutoscaler{}}}},
		"what was there before stays": {m, aWorld().declassed().with(func(w *World) { w.Snapshot.Before.Release = true }).build(), Decision{Actions: []Action{UninstallEngine{}}}},
		"deletion is approved":        {aMigration().retiring(day).build(), aWorld().completed().build(), Decision{Actions: []Action{DeleteAutoscaler{}}}},
		"AWS chooses nobody":          {m, shifting, Decision{Actions: []Action{SetGroupSize{Group: shifting.Groups[0]}}}},
		"only what is written down is allowed": {aMigration().accepts("BarePod", "*").build(), shifting,
			Decision{Actions: []Action{EvictPods{Node: "general-0", Pool: "general", Allow: inventory.DrainAllowance{Jobs: true}}}}},
		"nothing is evicted without capacity": {m, aWorld().shifting().draining("general-0", 2).waiting(1).quota("general", time.Minute).build(),
			Decision{Actions: []Action{EvictPods{Node: "general-0", Pool: "general"}}}},
		"a pool that pauses begins nothing": {aMigration().onTimeout(v1alpha1.TimeoutPause).build(), aWorld().shifting().late("general-0").build(),
			Decision{Actions: []Action{BeginDrain{Node: "general-1"}}}},
		"an empty node has its time": {m, aWorld().shifting().attached("general-0", "pv").build(),
			Decision{Actions: []Action{EndInstances{Group: "general", IDs: []string{"i-general-0"}}}}},
		"below the health floor nothing begins": {m, aWorld().shifting().unwell(cart, time.Hour, false).build(), Decision{Actions: []Action{BeginDrain{Node: "general-1"}}}},
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

// mostOfNext is what one decision at 1,000 nodes may take. It is the goal that the project set itself for its scale runs: a look every
// two seconds (soon) leaves the planner a quarter of a percent of one core. It is held against the CPU time of the process, collecting
// garbage included: what else the machine has to do is not Next's. Measured on two busy cores: 2.4 to 3.2 ms shifting, 3.1 to 3.6 ms
// choosing among nodes that were looked at, 3.3 to 4.2 ms on the way back.
const mostOfNext = 5 * time.Millisecond

func BenchmarkNext(b *testing.B) {
	worlds := map[string]func() (migrationOf, *scene){
		"Shifting":    func() (migrationOf, *scene) { return largeWorld(1000) },
		"Choosing":    func() (migrationOf, *scene) { return largeChoice(1000) },
		"RollingBack": func() (migrationOf, *scene) { return largeWayBack(1000) },
		"Warming":     func() (migrationOf, *scene) { return largeWarming(1000) },
	}
	for name, world := range worlds {
		b.Run(name, func(b *testing.B) {
			m, s := world()
			migration, w := m.build(), s.build()
			b.ReportAllocs()
			began := cpuTime(b)
			for b.Loop() {
				if d := Next(migration, w, noon); len(d.Actions) == 0 {
					b.Fatal("a world in the middle of something has something to do")
				}
			}
			one := (cpuTime(b) - began) / time.Duration(b.N)
			b.ReportMetric(one.Seconds()*1e3, "CPU-ms/op")
			if one > mostOfNext {
				b.Errorf("a decision takes %v, and may take %v", one, mostOfNext)
			}
		})
	}
}

// cpuTime that this process has used so far.
func cpuTime(tb testing.TB) time.Duration {
	tb.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatalf("reading the CPU time used: %v", err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
