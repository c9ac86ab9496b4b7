package plan

import (
	"math"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// gate asks for an error rate.
func (b migrationOf) gate(name, least, most string) migrationOf {
	g := v1alpha1.Gate{Name: name, URL: "http://prometheus:9090", Query: "sum(rate(errors[5m]))"}
	if least != "" {
		g.Min = ptr.To(resource.MustParse(least))
	}
	if most != "" {
		g.Max = ptr.To(resource.MustParse(most))
	}
	b.m.Spec.Strategy.Gates = append(b.m.Spec.Strategy.Gates, g)
	return b
}

// blocked remembers that a blocker was first seen so long ago.
func (b migrationOf) blocked(reason, object string, age time.Duration) migrationOf {
	b.m.Status.Blockers = append(b.m.Status.Blockers, v1alpha1.Blocker{Reason: reason, Object: object, Pool: "general", Since: stamp(noon.Add(-age))})
	return b
}

// answers of Prometheus to a gate.
func (s *scene) answers(gate string, values ...float64) *scene {
	a := inventory.GateAnswer{}
	for _, v := range values {
		a.Samples = append(a.Samples, inventory.Sample{Series: `{service="cart"}`, Value: v})
	}
	return s.answered(gate, a)
}

func (s *scene) answered(gate string, a inventory.GateAnswer) *scene {
	if s.w.Gates == nil {
		s.w.Gates = map[string]inventory.GateAnswer{}
	}
	s.w.Gates[gate] = a
	return s
}

// soakedGeneral: the first pool is drained and was watched, the second is next.
func soakedGeneral() (migrationOf, *scene) {
	return aMigration().maxUnavailable("1").drained("general", noon.Add(-time.Hour)), aWorld().shifting().finished("general")
}

func TestGates(t *testing.T) {
	next := shifts([]string{"BeginDrain batch-0"})
	failed, unknown := shifts(nil, "Block GateFailed gate/errors"), shifts(nil, "Wait GateUnknown gate/errors")
	base := func() migrationOf { m, _ := soakedGeneral(); return m.gate("errors", "", "10m") }
	world := func() *scene { _, s := soakedGeneral(); return s }
	run(t, map[string]step{
		"Holds":       {reason: "the next pool begins", migration: base(), world: world().answers("errors", 0.01), want: next},
		"Zero":        {reason: "no error at all is a value like another", migration: base(), world: world().answers("errors", 0), want: next},
		"TooHigh":     {reason: "the pool pauses, and says what it saw", migration: base(), world: world().answers("errors", 0.25), want: failed, says: `1 of 1 values are not at most 10m: {service="cart"} is 0.25`},
		"SaysQuery":   {reason: "and what it asked", migration: base(), world: world().answers("errors", 0.25), want: failed, says: "sum(rate(errors[5m]))"},
		"OneOfThree":  {reason: "every value has to be in the range", migration: base(), world: world().answers("errors", 0, 0, 0.02), want: failed, says: "1 of 3"},
		"Nothing":     {reason: "no value proves nothing: a metric may have lost its name", migration: base(), world: world().answers("errors"), want: failed, says: "returns nothing"},
		"NotANumber":  {reason: "0/0 is in no range", migration: base(), world: world().answers("errors", math.NaN()), want: failed, says: "is NaN"},
		"Infinite":    {reason: "nor is 1/0, below a bound", migration: base(), world: world().answers("errors", math.Inf(1)), want: failed, says: "is +Inf"},
		"NotAskedYet": {reason: "what was not asked is not known", migration: base(), world: world(), want: unknown},
		"NoAnswer": {
			reason: "Prometheus may be restarting", migration: base(),
			world: world().answered("errors", inventory.GateAnswer{Problem: "connection refused"}), want: unknown, says: "connection refused",
		},
		"NoAnswerForLong": {
			reason: "and after five minutes a human is asked for", migration: base().blocked(reasonGateUnknown, "gate/errors", 5*time.Minute),
			world: world().answered("errors", inventory.GateAnswer{Problem: "connection refused"}), want: shifts(nil, "Block GateUnknown gate/errors"), says: "http://prometheus:9090",
		},
		"Refused": {
			reason: "a query that Prometheus cannot read is a human's at once", migration: base(),
			world: world().answered("errors", inventory.GateAnswer{Problem: "bad_data: parse error", Refused: true}), want: shifts(nil, "Block GateUnknown gate/errors"), says: "parse error",
		},
		"AtLeast": {
			reason: "a floor", migration: aMigration().maxUnavailable("1").drained("general", noon.Add(-time.Hour)).gate("errors", "990m", ""),
			world: world().answers("errors", 0.98), want: failed, says: "not at least 990m",
		},
		"Between": {
			reason: "a range has two ends", migration: aMigration().maxUnavailable("1").drained("general", noon.Add(-time.Hour)).gate("errors", "1", "2"),
			world: world().answers("errors", 1, 2, 3), want: failed, says: "not from 1 to 2",
		},
		"TwoGates": {
			reason: "all of them have to hold, and each is named", migration: base().gate("latency", "", "1"),
			world: world().answers("errors", 1).answers("latency", 2), want: shifts(nil, "Block GateFailed gate/errors", "Block GateFailed gate/latency"),
		},
		"OneHolds": {
			reason: "one that holds is not mentioned", migration: base().gate("latency", "", "1"),
			world: world().answers("errors", 0).answers("latency", 2), want: shifts(nil, "Block GateFailed gate/latency"),
		},
		"Soaking": {
			reason: "gates come after the soak", migration: aMigration().drained("general", noon.Add(-time.Minute)).gate("errors", "", "1"),
			world: world().answers("errors", 7), want: shifts(nil, "Wait Soaking pool/general"),
		},
		"PoolWasDone": {
			reason:    "a pool that was done is not asked about again: the next one is on its way",
			migration: func() migrationOf { m := base(); m.m.Status.Pools[0].CompletionTime = stamp(noon); return m }(),
			world:     world().answers("errors", 7), want: next,
		},
		"LastPool": {
			reason:    "the last pool's come before Completed",
			migration: aMigration().drained("general", noon.Add(-time.Hour)).drained("batch", noon.Add(-time.Hour)).gate("errors", "", "1"),
			world:     aWorld().completed().answers("errors", 7), want: failed,
		},
	})
}

func TestLongAnswersAreCut(t *testing.T) {
	m, s := soakedGeneral()
	m = m.gate("errors", "", "1")
	m.m.Spec.Strategy.Gates[0].Query = strings.Repeat("é", 1000)
	var a inventory.GateAnswer
	for range 50 {
		a.Samples = append(a.Samples, inventory.Sample{Series: strings.Repeat("ü", 1000), Value: 2})
	}
	d := Next(m.m, s.answered("errors", a).w, noon)
	if got := d.Blockers[0].Message; len(got) > 1500 || !strings.Contains(got, "…") || !strings.Contains(got, "47 more") {
		t.Errorf("%d bytes: %s", len(got), got)
	}
}

func TestGatesAreAskedWhenItMatters(t *testing.T) {
	m, s := soakedGeneral()
	done := aMigration().drained("general", noon.Add(-time.Hour)).gate("errors", "", "1")
	done.m.Status.Pools[0].CompletionTime = stamp(noon)
	cases := map[string]struct {
		reason    string
		migration migrationOf
		world     *scene
		want      bool
	}{
		"NoGates":   {"nothing to ask", aMigration().drained("general", noon.Add(-time.Hour)), s, false},
		"Soaked":    {"in the soak, so that there is an answer at its end", m.gate("errors", "", "1"), s, true},
		"NoSoak":    {"which may be none", aMigration().soak(0).gate("errors", "", "1"), s, true},
		"Shifting":  {"not before", aMigration().gate("errors", "", "1"), aWorld().shifting(), false},
		"Done":      {"nor once the pool is done", done, s, false},
		"GoingBack": {"the way back has no gates", aMigration().drained("general", noon.Add(-time.Hour)).gate("errors", "", "1").rollBack(), s, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := NeedsOf(tc.migration.m, tc.world.w).Gates; got != tc.want {
				t.Errorf("%s: NeedsOf().Gates = %t", tc.reason, got)
			}
		})
	}
}

// TestAGateThatFailsHoldsAndOpens: it pauses for as long as it fails, goes on by itself, and stays open once the pool is done.
func TestAGateThatFailsHoldsAndOpens(t *testing.T) {
	k := aWalk(t, 1, aMigration().soak(0).gate("errors", "", "1"), aWorld().answers("errors", 5))
	for range 100 {
		k.step()
	}
	if got := k.m.Status.Pools[0].Phase; got != v1alpha1.PoolSoaking {
		t.Fatalf("with a gate that does not hold the first pool is %s", got)
	}
	if got := len(newLook(k.m, k.truth.w, k.now).pools[1].nodes); got != 2 {
		t.Fatalf("the second pool has begun: %d nodes", got)
	}
	k.truth.answers("errors", 0)
	k.completes()
	k.truth.answers("errors", 5)
	for range 10 {
		if d := k.step(); d.Phase != v1alpha1.PhaseCompleted || !d.Rested {
			t.Fatalf("a gate that fails later is no reason to go back: %s %v", d.Phase, shown(d.Blockers))
		}
	}
}
