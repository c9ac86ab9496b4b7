package plan

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

func TestEstimate(t *testing.T) {
	pool := func(nodes, left int32, phase v1alpha1.PoolPhase, began time.Duration) v1alpha1.PoolStatus {
		s := v1alpha1.PoolStatus{Nodes: nodes, NodesLeft: left, Phase: phase}
		if began != 0 {
			s.StartTime = stamp(noon.Add(-began))
		}
		return s
	}
	drained := func(s v1alpha1.PoolStatus, ago time.Duration) v1alpha1.PoolStatus {
		s.DrainedTime = stamp(noon.Add(-ago))
		return s
	}
	type pools = []v1alpha1.PoolStatus
	const fenced, draining, soaking, done = v1alpha1.PoolFenced, v1alpha1.PoolDraining, v1alpha1.PoolSoaking, v1alpha1.PoolDone
	cases := map[string]struct {
		reason string
		m      migrationOf
		pools  pools
		want   time.Duration // from noon; 0: no guess
	}{
		"NothingBegan": {"there is nothing to guess from", aMigration(), pools{pool(10, 10, fenced, 0)}, 0},
		"NothingGone":  {"nor before the first node is gone", aMigration(), pools{pool(10, 10, draining, time.Hour)}, 0},
		"Half":         {"half in an hour: an hour more, and the soak", aMigration(), pools{pool(10, 5, draining, time.Hour)}, 70 * time.Minute},
		"OddRound":     {"the last round takes its time though it is not full", aMigration().maxUnavailable("2"), pools{pool(5, 3, draining, time.Hour)}, 130 * time.Minute},
		"TwoPools":     {"the next pool's nodes and its soak count too", aMigration(), pools{pool(10, 5, draining, time.Hour), pool(4, 4, fenced, 0)}, 200 * time.Minute},
		"OtherPlaces":  {"in the next pool fewer nodes are in flight at once", aMigration().maxUnavailable("25%"), pools{pool(8, 4, draining, time.Hour), pool(4, 4, fenced, 0)}, (30*2 + 10 + 30*4 + 10) * time.Minute},
		"SecondPool":   {"its soak is no part of the pace", aMigration(), pools{drained(pool(10, 0, done, 2*time.Hour), time.Hour), pool(10, 10, fenced, 0)}, 70 * time.Minute},
		"Soaking":      {"only the rest of the soak is left", aMigration(), pools{drained(pool(10, 0, soaking, time.Hour), 4*time.Minute)}, 6 * time.Minute},
		"SoakOver":     {"a soak that is over takes no time back", aMigration(), pools{drained(pool(10, 0, soaking, time.Hour), time.Hour), drained(pool(2, 0, soaking, time.Hour), 0)}, 10 * time.Minute},
		"Done":         {"nothing is left", aMigration(), pools{drained(pool(10, 0, done, time.Hour), time.Minute)}, 0},
		"Paused":       {"who pauses is not told when it ends", aMigration().paused(), pools{pool(10, 5, draining, time.Hour)}, 0},
		"LateJoiners":  {"more nodes than the snapshot has make no negative pace", aMigration(), pools{pool(10, 14, draining, time.Hour)}, 0},
		"None":         {"there is no pool", aMigration(), nil, 0},
		"EmptyPool":    {"a pool that had no node is no trouble", aMigration(), pools{drained(pool(0, 0, done, time.Hour), time.Hour), pool(10, 5, draining, time.Hour)}, 70 * time.Minute},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if tc.reason == "" {
				t.Fatal("a case says why")
			}
			got := estimate(newLook(tc.m.build(), World{}, noon), tc.pools)
			if tc.want == 0 {
				if !got.IsZero() {
					t.Errorf("%s: estimate() = %v, want none", tc.reason, got)
				}
				return
			}
			if want := noon.Add(tc.want); !got.Equal(want) {
				t.Errorf("%s: estimate() = noon + %v, want + %v", tc.reason, got.Sub(noon), tc.want)
			}
		})
	}
}

func TestTheLastGuessIsKept(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		last   time.Duration // from noon
		guess  time.Duration
		want   time.Duration
	}{
		"None":    {"the first one is told", 0, time.Hour, time.Hour},
		"Near":    {"within a sixth of what is left", 55 * time.Minute, time.Hour, 55 * time.Minute},
		"Far":     {"beyond it", 49 * time.Minute, time.Hour, time.Hour},
		"Later":   {"the same the other way", 70 * time.Minute, time.Hour, 70 * time.Minute},
		"Short":   {"seconds are nothing to plan by", 40 * time.Second, time.Minute, 40 * time.Second},
		"Elapsed": {"a guess that has come and gone is none", -time.Second, 20 * time.Second, 20 * time.Second},
	} {
		m := aMigration().m
		if tc.last != 0 {
			m.Status.EstimatedCompletionTime = stamp(noon.Add(tc.last))
		}
		if got := (&guesser{look: newLook(m, World{}, noon), telling: true}).steady(noon.Add(tc.guess)); !got.Equal(noon.Add(tc.want)) {
			t.Errorf("%s: %s: noon + %v, want + %v", name, tc.reason, got.Sub(noon), tc.want)
		}
	}
}

// TestWarmingIsTheBeginning: a node's time begins with the room that is made for its pods.
func TestWarmingIsTheBeginning(t *testing.T) {
	d := Next(aMigration().warmFirst().build(), aWorld().shifting().warm("general-0", 0, 1).build(), noon)
	if s := d.Pools[0]; s.StartTime == nil || !s.StartTime.Time.Equal(noon) {
		t.Errorf("the pool began %v, want noon", s.StartTime)
	}
}

// shift is a migration in the middle of time: nodes boot, pods start, budgets let one go after the other.
type shift struct {
	m   migrationOf
	s   *scene
	now time.Time
	// pods of every node, boot of a new node, start of a pod there.
	pods        int
	boot, start time.Duration
	// budget, where it is not 0, lets one pod of the whole cluster go in so long; otherwise every node's pods go one by one.
	budget time.Duration

	total    int
	homeless []time.Time // when the evicted pods run again
	allowed  time.Time   // when the budget lets the next one go
	guesses  []guess
}

// guess is what was told at one look.
type guess struct {
	at, eta, bad time.Time
	gone         int
}

// aShift of pools with so many nodes, by name.
func aShift(m migrationOf, sizes map[string]int) *shift {
	s := aWorld()
	if sizes["gpu"] > 0 {
		s.w.Pools = append(s.w.Pools, inventory.Pool{Name: "gpu", NodeGroups: []string{"gpu"}})
		s.w.Targets["gpu"] = aTarget("gpu")
		s.addGroup("gpu", 1, false)
	}
	total := 0
	for name, size := range sizes {
		for range size - len(s.group(name).Instances) {
			s.join(name)
		}
		g := s.group(name)
		g.Desired, g.Max = int32(size), int32(size)
		total += size
	}
	s.shifting()
	if sizes["gpu"] > 0 {
		g := s.group("gpu")
		g.Min, g.SuspendedProcesses = 0, append(slices.Clone(quietProcesses), processLaunch)
		s.nodeClass("gpu").serve("gpu", guardedSuffix)
		s.w.Engine.NodeClassHashes["gpu"] = "spec-of-gpu"
		s.w.Engine.NodeClasses[len(s.w.Engine.NodeClasses)-1].Annotations[v1alpha1.AnnotationCanaryPassed] = "spec-of-gpu"
	}
	return &shift{m: m, s: s, now: noon, pods: 10, boot: 60 * time.Second, start: 10 * time.Second, total: total}
}

// run goes on to the end, and returns when that was.
func (x *shift) run(t *testing.T) time.Time {
	t.Helper()
	for range 10000 {
		x.now = x.now.Add(pace)
		x.tick()
		w := x.s.w
		w.Candidates = map[string]inventory.DrainState{}
		for _, n := range Candidates(x.m.m, w, x.now) {
			w.Candidates[n] = x.state(n, x.pods)
		}
		d := Next(x.m.m, w, x.now)
		x.record(d)
		if d.Phase == v1alpha1.PhaseCompleted && !slices.ContainsFunc(d.Pools, func(p v1alpha1.PoolStatus) bool { return p.Phase != v1alpha1.PoolDone }) {
			return x.now
		}
		for _, a := range d.Actions {
			x.act(a)
		}
	}
	t.Fatalf("no end: %v", x.m.m.Status.Blockers)
	return time.Time{}
}

func (x *shift) record(d Decision) {
	s := &x.m.m.Status
	bad := paceOfNodes(x.m.m, d.Pools, x.now)
	s.Pools, s.Blockers, s.Operations, s.EstimatedCompletionTime = d.Pools, d.Blockers, d.Operations, nil
	g := guess{at: x.now, eta: d.ETA, bad: bad, gone: x.total}
	if !d.ETA.IsZero() {
		s.EstimatedCompletionTime = &metav1.Time{Time: d.ETA}
	}
	for _, p := range d.Pools {
		g.gone -= int(p.NodesLeft)
	}
	x.guesses = append(x.guesses, g)
}

// tick lets time pass.
func (x *shift) tick() {
	x.s.tick(x.now)
	for i := range x.s.w.Placeholders {
		p := &x.s.w.Placeholders[i]
		p.Ready = !x.now.Before(p.Created.Add(x.boot))
	}
	x.homeless = slices.DeleteFunc(x.homeless, func(at time.Time) bool { return !x.now.Before(at) })
	x.s.w.PendingPods = len(x.homeless)
	for i := range x.s.w.Autoscalers { // the Lease stays held
		x.s.w.Autoscalers[i].LeaseRenewed = x.now
	}
	for name, d := range x.s.w.Drains {
		x.s.w.Drains[name] = x.state(name, d.Evictable)
	}
}

func (x *shift) state(node string, pods int) inventory.DrainState {
	if x.budget == 0 || pods == 0 {
		return inventory.DrainState{Node: node, Evictable: pods}
	}
	room := 0
	if !x.now.Before(x.allowed) {
		room = 1
	}
	return inventory.DrainState{Node: node, Evictable: pods, Budgets: []inventory.BudgetNeed{asks("shop/web", pods, room)}}
}

func (x *shift) act(a Action) {
	note := func(key string) func(*inventory.Node) {
		return func(n *inventory.Node) { n.Annotations[key] = x.now.Format(time.RFC3339) }
	}
	switch a := a.(type) {
	case WarmNode:
		x.s.warm(a.Node, 0, x.pods).withNode(a.Node, note(v1alpha1.AnnotationWarmed))
		for i := range x.s.w.Placeholders {
			if p := &x.s.w.Placeholders[i]; p.Node == a.Node {
				p.Created = x.now
			}
		}
	case BeginDrain:
		x.s.draining(a.Node, x.pods).withNode(a.Node, note(v1alpha1.AnnotationDraining))
	case EvictPods:
		if x.budget > 0 && x.now.Before(x.allowed) {
			return
		}
		x.allowed = x.now.Add(x.budget)
		if x.m.m.Spec.Strategy.Capacity != v1alpha1.CapacityWarmFirst {
			x.homeless = append(x.homeless, x.now.Add(x.boot))
		}
		x.s.effect(a, x.now)
	default:
		x.s.effect(a, x.now)
	}
}

// paceOfNodes is known bad: it takes everything since the very first drain, soaks among it, for the pace of the nodes that are gone.
func paceOfNodes(m *v1alpha1.Migration, pools []v1alpha1.PoolStatus, now time.Time) time.Time {
	var began time.Time
	total, left, soaks := 0, 0, 0
	for _, p := range pools {
		if p.StartTime != nil {
			began = soonest(began, p.StartTime.Time)
		}
		total, left = total+int(p.Nodes), left+int(p.NodesLeft)
		if p.Phase != v1alpha1.PoolDone {
			soaks++
		}
	}
	if gone := total - left; gone > 0 {
		return now.Add(now.Sub(began)/time.Duration(gone)*time.Duration(left) + soakOf(m)*time.Duration(soaks))
	}
	return time.Time{}
}

// off is by what part of the time that it then took the guess is wrong.
func off(guessed, at, end time.Time) float64 {
	return guessed.Sub(end).Abs().Seconds() / end.Sub(at).Seconds()
}

func TestEstimateAtHalfWay(t *testing.T) {
	const most = 0.3
	three := map[string]int{"general": 24, "batch": 6, "gpu": 12}
	cases := map[string]struct {
		reason string
		x      *shift
	}{
		"OnePool":     {"nearly all of the nodes are of one pool", aShift(aMigration().maxUnavailable("10%"), map[string]int{"general": 40, "batch": 2})},
		"OneWarmPool": {"the room for each batch takes longer than its pods", aShift(aMigration().maxUnavailable("10%").warmFirst(), map[string]int{"general": 40, "batch": 2})},
		"HalfAtOnce":  {"two large batches", aShift(aMigration().maxUnavailable("50%").warmFirst(), map[string]int{"general": 20, "batch": 2})},
		"OneByOne":    {"one node at a time", aShift(aMigration().maxUnavailable("1"), map[string]int{"general": 20, "batch": 4})},
		"ThreePools":  {"pools of different size, each with its soak", aShift(aMigration().maxUnavailable("25%"), three)},
		"ThreeWarm":   {"the same with room first", aShift(aMigration().maxUnavailable("25%").warmFirst(), three)},
		"LongSoaks":   {"soaks that take longer than the drains", aShift(aMigration().maxUnavailable("25%").warmFirst().soak(3600), three)},
		"NoSoak":      {"none", aShift(aMigration().maxUnavailable("25%").soak(0), three)},
		"SlowBudget":  {"a budget lets one pod go in 20 seconds, whatever the places", aShift(aMigration().maxUnavailable("25%").soak(0), map[string]int{"general": 20, "batch": 4}).slow(20 * time.Second)},
		"SlowWarm":    {"the same with room first", aShift(aMigration().maxUnavailable("25%").soak(0).warmFirst(), map[string]int{"general": 20, "batch": 4}).slow(20 * time.Second)},
		"SlowHalf":    {"and half of the nodes in flight", aShift(aMigration().maxUnavailable("50%").soak(0), map[string]int{"general": 20, "batch": 2}).slow(20 * time.Second)},
	}
	bad := 0
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			end := tc.x.run(t)
			i := slices.IndexFunc(tc.x.guesses, func(g guess) bool { return 2*g.gone >= tc.x.total })
			g := tc.x.guesses[i]
			if wrong := off(g.eta, g.at, end); wrong > most {
				t.Errorf("%s: with %d of %d nodes gone after %v the guess is %v more, and it took %v: %.0f %% off", tc.reason,
					g.gone, tc.x.total, g.at.Sub(noon), g.eta.Sub(g.at), end.Sub(g.at), 100*wrong)
			}
			if off(g.bad, g.at, end) > most {
				bad++
			}
			if wrong := tc.x.jumps(end); wrong != "" {
				t.Errorf("%s: %s", tc.reason, wrong)
			}
		})
	}
	if bad == 0 {
		t.Error("the mere pace of nodes would do: this proves nothing")
	}
}

func (x *shift) slow(budget time.Duration) *shift { x.budget = budget; return x }

// mostJump is by what part of the whole time the guess may change from one look to the next, once a quarter of the nodes is gone; and
// mostGuesses how many different ones there are from then on.
const (
	mostJump    = 0.25
	mostGuesses = 16
)

// jumps says what is wrong with the guesses over time.
func (x *shift) jumps(end time.Time) string {
	var last guess
	different := 0
	for _, g := range x.guesses {
		if 4*g.gone < x.total || g.eta.IsZero() {
			continue
		}
		if !last.eta.IsZero() && !g.eta.Equal(last.eta) {
			different++
			if jump := g.eta.Sub(last.eta).Abs().Seconds() / end.Sub(noon).Seconds(); jump > mostJump {
				return fmt.Sprintf("at %v, %d gone, the guess jumps from %v to %v, %.0f %% of the %v that it took", g.at.Sub(noon), g.gone, last.eta.Sub(noon), g.eta.Sub(noon), 100*jump, end.Sub(noon))
			}
		}
		last = g
	}
	if different > mostGuesses {
		return fmt.Sprintf("%d different guesses", different)
	}
	return ""
}
