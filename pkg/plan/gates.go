package plan

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// The reasons for which a gate holds a migration up.
const (
	reasonGateFailed  = "GateFailed"
	reasonGateUnknown = "GateUnknown"
)

// gatePatience is for how long Prometheus may not answer before a human is asked for: a restart of its own takes minutes.
const gatePatience = 5 * time.Minute

// gatePace is how often Prometheus is asked while a gate does not hold: about as often as it has something new to say.
const gatePace = 15 * time.Second

// mostOfAQuery is how much of a query or an answer a message quotes, in bytes: it has room for 1,024 in all.
const mostOfAQuery = 200

// needsGates says that the gates have to be asked.
func needsGates(l look) bool {
	return !halted(l.m) && len(l.m.Spec.Strategy.Gates) > 0 && handingOverReached(l) && settles(l)
}

// settles says that a pool is drained and not done. It is asked without knowing the time, so a soak that is not over counts.
func settles(l look) bool {
	for _, p := range l.pools {
		switch {
		case !p.gone():
			return false // the pools after it are not settled yet
		case l.status(p.Name).CompletionTime == nil:
			return true
		}
	}
	return false
}

// shut says that a gate does not hold, or that it is not known whether it does, or that the pool's workloads are not well. A pool that
// was done once stays so: gates stand before the next pool, and what they say later is no reason to go back.
func shut(o *outcome, l look, p pool) bool {
	if l.status(p.Name).CompletionTime != nil {
		return false
	}
	sick, before := belowFloor(o, l, p), len(o.blockers)
	for _, g := range l.m.Spec.Strategy.Gates {
		judgeGate(o, l, g)
	}
	if len(o.blockers) > before {
		o.until = soonest(o.until, l.now.Add(gatePace))
	}
	return sick || len(o.blockers) > before
}

func judgeGate(o *outcome, l look, g v1alpha1.Gate) {
	object := "gate/" + g.Name
	answer, asked := l.Gates[g.Name]
	switch {
	case !asked:
		o.wait(reasonGateUnknown, object, "Prometheus is being asked.")
	case answer.Problem != "":
		message := "It is not known whether the gate holds: " + excerpt(answer.Problem) + ". castoff asks again; the next pool does not begin before it holds. See whether castoff's pod reaches " + g.URL + ", or change spec.strategy.gates."
		if answer.Refused || l.waited(reasonGateUnknown, object) >= gatePatience {
			o.block(reasonGateUnknown, object, message)
			return
		}
		o.wait(reasonGateUnknown, object, message)
	default:
		if wrong := outside(g, answer.Samples); wrong != "" {
			o.block(reasonGateFailed, object, "The pool is drained, and the gate does not hold: "+wrong+". Its query: "+excerpt(g.Query)+
				". The next pool begins by itself once it holds. Mend what it measures, change the gate in spec.strategy.gates, or go back: kubectl castoff rollback "+l.m.Name)
		}
	}
}

// outside says which values are not in the gate's range; empty where all are.
func outside(g v1alpha1.Gate, samples []inventory.Sample) string {
	if len(samples) == 0 {
		return "the query returns nothing"
	}
	var wrong []string
	for _, s := range samples {
		if !within(g, s.Value) {
			wrong = append(wrong, strings.TrimSpace(excerpt(s.Series)+" is "+strconv.FormatFloat(s.Value, 'g', 6, 64)))
		}
	}
	if len(wrong) == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d values are not %s: %s", len(wrong), len(samples), rangeOf(g), some(wrong))
}

// within: what is not a number is in no range.
func within(g v1alpha1.Gate, value float64) bool {
	switch {
	case math.IsNaN(value):
		return false
	case g.Min != nil && value < g.Min.AsApproximateFloat64():
		return false
	}
	return g.Max == nil || value <= g.Max.AsApproximateFloat64()
}

func rangeOf(g v1alpha1.Gate) string {
	switch {
	case g.Min == nil && g.Max == nil:
		return "in a range that the gate names"
	case g.Min == nil:
		return "at most " + g.Max.String()
	case g.Max == nil:
		return "at least " + g.Min.String()
	}
	return "from " + g.Min.String() + " to " + g.Max.String()
}

// excerpt cuts what others wrote, at a whole character.
func excerpt(text string) string {
	if len(text) <= mostOfAQuery {
		return text
	}
	return strings.ToValidUTF8(text[:mostOfAQuery], "") + "…"
}
