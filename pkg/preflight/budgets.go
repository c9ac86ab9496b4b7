package preflight

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// The checks of PodDisruptionBudgets.
const (
	CheckBudgetNeverAllows = "BudgetNeverAllows"
	CheckBudgetUnhealthy   = "BudgetUnhealthy"
	CheckTwoBudgets        = "TwoBudgets"
)

func budgetObject(b *policyv1.PodDisruptionBudget) string {
	return "poddisruptionbudget/" + b.Namespace + "/" + b.Name
}

// budgetNeverAllows: a budget that no healthy workload could ever satisfy holds its node for ever; it is found at the drain of
// the last node otherwise.
func budgetNeverAllows(in Input) []inventory.Finding {
	first := firstPods(in)
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
	if uncounted(b) != "" {
		return "Give its pods a controller that Kubernetes can scale, or use minAvailable with a number."
	}
	if b.Spec.MaxUnavailable != nil {
		return "Raise maxUnavailable to at least 1."
	}
	return "Lower minAvailable, or add a replica."
}

// never says why a budget can never allow an eviction, or nothing if it can.
func never(b *policyv1.PodDisruptionBudget) string {
	if why := uncounted(b); why != "" {
		return why
	}
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

// uncounted is the disruption controller's word on why it cannot work out the budget; it allows nothing then (Kubernetes, "Specifying
// a Disruption Budget for your Application", arbitrary workloads and arbitrary selectors).
func uncounted(b *policyv1.PodDisruptionBudget) string {
	c := meta.FindStatusCondition(b.Status.Conditions, policyv1.DisruptionAllowedCondition)
	if c == nil || c.Reason != policyv1.SyncFailedReason {
		return ""
	}
	return "its pods cannot be counted: " + strings.TrimSuffix(c.Message, ".")
}

// budgetUnhealthy: a budget of pods that are not Ready allows nothing until they are, and by default not even those themselves may
// go (policy IfHealthyBudget). One pod in CrashLoopBackOff for weeks holds the node of every other. When pods change that
// several budgets select, the disruption controller brings only one of those up to date, so the others' numbers are no evidence;
// twoBudgets tells those.
func budgetUnhealthy(in Input) []inventory.Finding {
	first, shared := firstPods(in), sharedBudgets(in)
	var out []inventory.Finding
	for i := range in.Workloads.Budgets {
		b := &in.Workloads.Budgets[i]
		p, selects := first[b]
		if always := b.Spec.UnhealthyPodEvictionPolicy; !selects || shared[b] || never(b) != "" || b.Status.DisruptionsAllowed > 0 ||
			b.Status.CurrentHealthy >= b.Status.DesiredHealthy || always != nil && *always == policyv1.AlwaysAllow {
			continue
		}
		f := warn(CheckBudgetUnhealthy, budgetObject(b), fmt.Sprintf("The budget allows no eviction now: %d of its pods are Ready and it wants %d. %s and the others stay on their nodes until they are. "+
			"Mend them, or set unhealthyPodEvictionPolicy: AlwaysAllow, so that those that are not Ready may go.", b.Status.CurrentHealthy, b.Status.DesiredHealthy, p.Object()))
		f.Pool = p.pool
		out = append(out, f)
	}
	return out
}

// firstPods are the first of the moving pods that each budget selects.
func firstPods(in Input) map[*policyv1.PodDisruptionBudget]moving {
	first := map[*policyv1.PodDisruptionBudget]moving{}
	for _, p := range in.moving {
		for _, b := range p.budgets {
			if _, known := first[b]; !known {
				first[b] = p
			}
		}
	}
	return first
}

// sharedBudgets are those with a moving pod that another budget selects, too.
func sharedBudgets(in Input) map[*policyv1.PodDisruptionBudget]bool {
	out := map[*policyv1.PodDisruptionBudget]bool{}
	for _, p := range in.moving {
		for _, b := range p.budgets {
			out[b] = out[b] || len(p.budgets) > 1
		}
	}
	return out
}

// twoBudgets: the Eviction API answers 500 for a pod that two budgets select, for ever (Kubernetes, "API-initiated eviction"). One
// finding for each set of budgets, by the name of the first, or of the one by which it is accepted: pods come and go, and it is a
// selector that has to be mended.
func twoBudgets(in Input) []inventory.Finding {
	pods := map[string][]string{}
	var out []inventory.Finding
	var keys []string
	for _, p := range in.moving {
		if len(p.budgets) < 2 {
			continue
		}
		var names []string
		for _, b := range p.budgets {
			names = append(names, budgetObject(b))
		}
		key := strings.Join(names, " ")
		if pods[key] == nil {
			f := block(CheckTwoBudgets, acceptedOf(in, names), three(names)+" select the same pods, and the Eviction API refuses such a pod for ever. Narrow the selectors until each pod has one budget. They share: ")
			f.Pool = p.pool
			out, keys = append(out, f), append(keys, key)
		}
		pods[key] = append(pods[key], p.Object())
	}
	for i := range out {
		out[i].Message += three(pods[keys[i]]) + "."
	}
	return out
}

// acceptedOf is the first of the budgets for which TwoBudgets is accepted, else the first.
func acceptedOf(in Input, names []string) string {
	for _, name := range names {
		if in.accepts(CheckTwoBudgets, name) {
			return name
		}
	}
	return names[0]
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
