package preflight

import (
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

func budgetObject(b policyv1.PodDisruptionBudget) string {
	return "poddisruptionbudget/" + b.Namespace + "/" + b.Name
}

// budgetNeverAllows: a budget that no healthy workload could ever satisfy holds its node for ever; it is found at the drain of
// the last node otherwise.
func budgetNeverAllows(in Input) []inventory.Finding {
	pods, pools := in.legacyPods()
	var out []inventory.Finding
	for _, b := range in.Workloads.Budgets {
		why := never(b)
		if why == "" {
			continue
		}
		i := slices.IndexFunc(pods, func(p inventory.Pod) bool { return selects(b, p) })
		if i < 0 {
			continue
		}
		f := block(CheckBudgetNeverAllows, budgetObject(b), "The budget can never allow an eviction ("+why+"), so "+pods[i].Object()+
			" could never leave its node. Lower what it asks for, or add a replica.")
		f.Pool = pools[i]
		out = append(out, f)
	}
	return out
}

// never says why a budget can never allow an eviction, or nothing if it can.
func never(b policyv1.PodDisruptionBudget) string {
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
	pods, pools := in.legacyPods()
	seen := map[string]bool{}
	var out []inventory.Finding
	for i, p := range pods {
		var names []string
		for _, b := range in.Workloads.Budgets {
			if selects(b, p) {
				names = append(names, budgetObject(b))
			}
		}
		key := strings.Join(names, " ")
		if len(names) < 2 || seen[key] {
			continue
		}
		seen[key] = true
		f := block(CheckTwoBudgets, p.Object(), "More than one budget selects this pod ("+three(names)+"), and the Eviction API refuses such a pod. Narrow the selector of all but one.")
		f.Pool = pools[i]
		out = append(out, f)
	}
	return out
}

// selects follows policy/v1: an empty selector selects every pod of the namespace, a missing one none.
func selects(b policyv1.PodDisruptionBudget, p inventory.Pod) bool {
	if b.Namespace != p.Namespace || b.Spec.Selector == nil {
		return false
	}
	s, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	return err == nil && s.Matches(labels.Set(p.Labels))
}
