package preflight

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// The checks of PodDisruptionBudgets.
const (
	CheckBudgetNeverAllows = "BudgetNeverAllows"
	CheckTwoBudgets        = "TwoBudgets"
)

func budgetObject(b *policyv1.PodDisruptionBudget) string {
	return "poddisruptionbudget/" + b.Namespace + "/" + b.Name
}

// budgetNeverAllows: a budget that no healthy workload could ever satisfy holds its node for ever; it is found at the drain of
// the last node otherwise.
func budgetNeverAllows(in Input) []inventory.Finding {
	first := map[*policyv1.PodDisruptionBudget]moving{}
	for _, p := range in.moving {
		for _, b := range p.budgets {
			if _, known := first[b]; !known {
				first[b] = p
			}
		}
	}
	var out []inventory.Finding
	for i := range in.Workloads.Budgets {
		b := &in.Workloads.Budgets[i]
		p, selects := first[b]
		why := never(b)
		if why == "" || !selects {
			continue
		}
		f := block(CheckBudgetNeverAllows, budgetObject(b), "The budget can never allow an eviction ("+why+"), so "+p.Object()+
			" could never leave its node. "+remedy(b))
		f.Pool = p.pool
		out = append(out, f)
	}
	return out
}

func remedy(b *policyv1.PodDisruptionBudget) string {
	if b.Spec.MaxUnavailable != nil {
		return "Raise maxUnavailable to at least 1."
	}
	return "Lower minAvailable, or add a replica."
}

// never says why a budget can never allow an eviction, or nothing if it can.
func never(b *policyv1.PodDisruptionBudget) string {
	expected := int(b.Status.ExpectedPods)
	if m := b.Spec.MaxUnavailable; m != nil {
		if n, err := intstr.GetScaledValueFromIntOrPercent(m, max(expected, 1), true); err == nil && n == 0 {
			return "maxUnavailable " + m.String()
		}
		return ""
	}
	m := b.Spec.MinAvailable
	if m == nil || expected == 0 {
		return ""
	}
	if n, err := intstr.GetScaledValueFromIntOrPercent(m, expected, true); err == nil && n >= expected {
		return "minAvailable " + m.String() + " of " + strconv.Itoa(expected)
	}
	return ""
}

// twoBudgets: the Eviction API answers 500 for a pod that two budgets select, for ever (Kubernetes, "API-initiated eviction").
func twoBudgets(in Input) []inventory.Finding {
	seen := map[string]bool{}
	var out []inventory.Finding
	for _, p := range in.moving {
		if len(p.budgets) < 2 {
			continue
		}
		var names []string
		for _, b := range p.budgets {
			names = append(names, budgetObject(b))
		}
		key := strings.Join(names, " ")
		if seen[key] {
			continue
		}
		seen[key] = true
		f := block(CheckTwoBudgets, p.Object(), "More than one budget selects this pod ("+three(names)+"), and the Eviction API refuses such a pod. Narrow the selector of all but one.")
		f.Pool = p.pool
		out = append(out, f)
	}
	return out
}

// budgetIndex finds the budgets of a pod without trying every one: by namespace and by one label that their selector asks for.
// Selectors without such a label are under the namespace alone.
type budgetIndex map[indexKey][]selecting

type indexKey struct{ namespace, label, value string }

type selecting struct {
	budget   *policyv1.PodDisruptionBudget
	selector labels.Selector
	place    int // in the list of budgets
}

// indexBudgets follows policy/v1: an empty selector selects every pod of the namespace, a missing one none.
func indexBudgets(budgets []policyv1.PodDisruptionBudget) budgetIndex {
	index := budgetIndex{}
	for i := range budgets {
		b := &budgets[i]
		s, err := metav1.LabelSelectorAsSelector(b.Spec.Selector) // nil becomes a selector of nothing
		if err != nil {
			continue // the API server takes no such budget
		}
		key := indexKey{namespace: b.Namespace}
		if b.Spec.Selector != nil && len(b.Spec.Selector.MatchLabels) > 0 {
			key.label = slices.Min(slices.Collect(maps.Keys(b.Spec.Selector.MatchLabels)))
			key.value = b.Spec.Selector.MatchLabels[key.label]
		}
		index[key] = append(index[key], selecting{b, s, i})
	}
	return index
}

// of are the budgets that select the pod, in the order of the list.
func (x budgetIndex) of(p *inventory.Pod) []*policyv1.PodDisruptionBudget {
	candidates := slices.Clone(x[indexKey{namespace: p.Namespace}])
	for k, v := range p.Labels {
		candidates = append(candidates, x[indexKey{p.Namespace, k, v}]...)
	}
	slices.SortFunc(candidates, func(a, b selecting) int { return a.place - b.place })
	var out []*policyv1.PodDisruptionBudget
	for _, c := range candidates {
		if c.selector.Matches(labels.Set(p.Labels)) {
			out = append(out, c.budget)
		}
	}
	return out
}
