package plan

import (
	"fmt"
	"slices"
	"time"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// defaultTimeout is the API's own default, for a Migration that was stored without one.
const defaultTimeout = 15 * time.Minute

func timeoutOf(m *v1alpha1.Migration) time.Duration {
	if s := m.Spec.Strategy.TimeoutSeconds; s > 0 {
		return time.Duration(s) * time.Second
	}
	return defaultTimeout
}

// drainingSince is when the node's drain began; zero if it has not, or if somebody wrote something else there.
func drainingSince(n inventory.Node) time.Time {
	t, err := time.Parse(time.RFC3339, n.Annotations[v1alpha1.AnnotationDraining])
	if err != nil {
		return time.Time{}
	}
	return t
}

// overdue says that the node's drain lasts longer than strategy.timeoutSeconds. A drain that began at no time that can be read
// never does: what is allowed afterwards is not to be allowed by a typing error.
func overdue(l look, n inventory.Node) bool {
	since := drainingSince(n)
	return !since.IsZero() && l.now.Sub(since) >= timeoutOf(l.m)
}

// late are the nodes of the pool whose drain is overdue and not done.
func late(l look, p pool) []inventory.Node {
	return slices.DeleteFunc(slices.Clone(p.nodes), func(n inventory.Node) bool { return !begun(n) || !overdue(l, n) || l.empty(n) })
}

// going are the nodes of the pool that are being drained, or that could be. With onTimeout Skip a late one is not among them while
// there is another: it keeps its pods and its cordon until only late ones are left, and then all of them are tried again.
func going(l look, p pool, late []inventory.Node) []inventory.Node {
	if l.m.Spec.Strategy.OnTimeout != v1alpha1.TimeoutSkip || len(late) == 0 || len(late) == len(p.nodes) {
		return p.nodes
	}
	skipped := map[string]bool{}
	for _, n := range late {
		skipped[n.Name] = true
	}
	return slices.DeleteFunc(slices.Clone(p.nodes), func(n inventory.Node) bool { return skipped[n.Name] })
}

// paused says that no other node of the pool may begin, because of one that takes too long. It names those that are cordoned
// meanwhile, for whoever is on call.
func paused(o *outcome, l look, p pool, late []inventory.Node) bool {
	if l.m.Spec.Strategy.OnTimeout != v1alpha1.TimeoutPause || len(late) == 0 {
		return false
	}
	var cordoned []string
	for _, n := range p.nodes {
		if n.Unschedulable {
			cordoned = append(cordoned, n.Name)
		}
	}
	o.block(reasonTimeout, "pool/"+p.Name, fmt.Sprintf("%d of its nodes take longer than strategy.timeoutSeconds, and strategy.onTimeout is Pause: no other one is drained until they are empty. Cordoned are %s. "+
		"Mend what holds their pods (named beside this) and it goes on by itself; set onTimeout to Wait or Skip; or set spec.paused, which puts the undrained nodes back in service.", len(late), some(cordoned)))
	return true
}

const reasonTimeout = "DrainTimeout"

// tellTimeout says of a node that takes too long what becomes of it.
func tellTimeout(o *outcome, n inventory.Node, goesOn bool) {
	message := "castoff goes on trying; what holds its pods is named beside this."
	if !goesOn {
		message = "strategy.onTimeout is Skip: it stays cordoned with its pods, the pool's other nodes go first, and then it is tried again."
	}
	o.wait(reasonTimeout, "node/"+n.Name, "Its drain began at "+drainingSince(n).UTC().Format(time.RFC3339)+" and lasts longer than strategy.timeoutSeconds: "+message)
}

// CheckBudgetOverride accepts that pods of a budget are deleted which it refuses to let go. It is no finding: only a user says it.
const CheckBudgetOverride = "BudgetOverride"

// allowance is what the drain of a node may do now beyond evicting what a controller replaces. What has to wait for its time does.
func allowance(l look, n inventory.Node) inventory.DrainAllowance {
	a := inventory.DrainAllowance{BarePods: l.accepted(string(inventory.BlockedBare)), LocalVolumes: l.accepted(string(inventory.BlockedLocalVolume)), Surge: surge(l, n)}
	if overdue(l, n) {
		a.Jobs, a.DoNotDisrupt, a.Budgets = true, l.accepted(string(inventory.BlockedDoNotDisrupt)), l.accepted(CheckBudgetOverride)
	}
	return a
}

// accepted are the objects for which spec.acceptedRisks has the check.
func (l look) accepted(check string) inventory.Objects {
	var out inventory.Objects
	for _, a := range l.m.Spec.AcceptedRisks {
		if a.Check == check {
			out = append(out, a.Object)
		}
	}
	return out
}
