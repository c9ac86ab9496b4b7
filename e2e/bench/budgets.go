package bench

import "fmt"

// The goals. Each number says where it comes from.
const (
	// makespanGoal: the design's "fastest schedule that the PDBs allow", with 15 % for the controller's looks, AWS' lag and the
	// scheduler, which the lower bound leaves out.
	makespanGoal = 1.15
	// unavailableGoal: an evicted pod lacks for its own start and no longer, with 10 % for its controller and the scheduler.
	unavailableGoal = 1.1
	// surgeGoal: of what node-by-node drains make lack; a surged pod lacks not at all, the rest is what may not be surged.
	surgeGoal = 0.05
	// refusedGoal: evictions refused per moved pod; a drain that watches budgets asks when there is room.
	refusedGoal = 1.0
	// doublePaidGoal: of what node-by-node drains pay twice.
	doublePaidGoal = 1.1
)

// Budgets of a large cluster, by `make bench-scale`.
const (
	// memoryBudgetMiB: half of the limit in castoff's chart.
	memoryBudgetMiB = 128
	// writesBudget a node, evictions aside: mark, fence and drain, four placeholders made and dropped, a status every two seconds (docs/design/0009).
	writesBudget = 12
	// callsBudget a node: a look at everything is a handful of calls however many nodes there are.
	callsBudget = 3
	// statusBudget: an object larger than this is felt by everybody who watches it; etcd's limit is 1.5 MiB.
	statusBudget = 64 << 10
	// reconcileBudgetSeconds: half of the leader election's patience.
	reconcileBudgetSeconds = 15
)

// Verdict is a goal and whether it was reached.
type Verdict struct {
	Goal     string
	Got, Max float64
}

// Met says whether it was.
func (v Verdict) Met() bool { return v.Got <= v.Max }

// String is for a screen.
func (v Verdict) String() string {
	word := "missed"
	if v.Met() {
		word = "met   "
	}
	return fmt.Sprintf("  %s  %s: %.1f, at most %.1f", word, v.Goal, v.Got, v.Max)
}

// Verdicts judges what was measured; goals over what was not are left out.
func (r Report) Verdicts() []Verdict {
	var out []Verdict
	judge := func(goal string, got *float64, share float64, of *float64) {
		if got != nil && of != nil {
			out = append(out, Verdict{Goal: goal, Got: *got, Max: share * *of})
		}
	}
	if c := r.Castoff; c != nil {
		judge("castoff: makespan, 1.15 of the lower bound", c.MakespanSeconds, makespanGoal, &r.LowerBoundSeconds)
		judge("castoff: pod-unavailable-seconds, 1.1 of the floor", c.PodUnavailableSeconds, unavailableGoal, &r.UnavailableFloorSeconds)
		judge("castoff: evictions refused, one per moved pod", float(c.EvictionsRefused), refusedGoal, float(c.MovedPods))
	}
	if b := r.KubectlDrain; b != nil && r.Castoff != nil {
		judge("castoff: node-seconds paid twice, 1.1 of kubectl drain's", r.Castoff.DoublePaidNodeSeconds, doublePaidGoal, b.DoublePaidNodeSeconds)
	}
	if b := r.KubectlDrain; b != nil && r.CastoffSurge != nil {
		judge("castoff, surge: pod-unavailable-seconds, 0.05 of kubectl drain's", r.CastoffSurge.PodUnavailableSeconds, surgeGoal, b.PodUnavailableSeconds)
	}
	return out
}

func float(count *int) *float64 {
	if count == nil {
		return nil
	}
	v := float64(*count)
	return &v
}

func value(v *float64) float64 {
	if v == nil {
		return 0
	}
	return *v
}
