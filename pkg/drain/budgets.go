package drain

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/inventory/kubeapi"
)

// budgets are the PodDisruptionBudgets of the namespaces that a pass meets, listed once each.
type budgets struct {
	reader client.Reader
	taken  *takings
	now    time.Time
	listed map[string][]policyv1.PodDisruptionBudget
}

func (d *Drainer) newBudgets() *budgets {
	return &budgets{reader: d.client, taken: &d.taken, now: d.clock(), listed: map[string][]policyv1.PodDisruptionBudget{}}
}

// of gives the budgets that select the pod, by the Eviction API's own rule: a selector it cannot read selects nothing.
func (b *budgets) of(ctx context.Context, pod *corev1.Pod) ([]policyv1.PodDisruptionBudget, error) {
	all, listed := b.listed[pod.Namespace]
	if !listed {
		list := new(policyv1.PodDisruptionBudgetList)
		if err := b.reader.List(ctx, list, client.InNamespace(pod.Namespace)); err != nil {
			return nil, kubeapi.Wrap(err, "list", "poddisruptionbudgets", "of namespace "+pod.Namespace)
		}
		all = list.Items
		// A cache lists in any order, and what is shown must not change by itself.
		slices.SortFunc(all, func(a, b policyv1.PodDisruptionBudget) int { return strings.Compare(a.Name, b.Name) })
		b.listed[pod.Namespace] = all
	}
	var matching []policyv1.PodDisruptionBudget
	for _, budget := range all {
		selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
		if err == nil && selector.Matches(labels.Set(pod.Labels)) {
			matching = append(matching, budget)
		}
	}
	return matching, nil
}

// needs counts which of the pods have to ask which budgets, and how much room those have; full are the pods whose one budget has none.
func (b *budgets) needs(ctx context.Context, pods []*corev1.Pod) (needs []inventory.BudgetNeed, full []inventory.BlockedPod, err error) {
	for _, pod := range pods {
		matching, err := b.of(ctx, pod)
		if err != nil {
			return nil, nil, err
		}
		if len(matching) == 0 || unasked(pod, matching) {
			continue
		}
		var key []string
		for _, name := range names(matching) {
			key = append(key, name.String())
		}
		need := inventory.BudgetNeed{Budget: strings.Join(key, " "), Room: b.allowed(pod, matching)}
		i := slices.IndexFunc(needs, func(n inventory.BudgetNeed) bool { return n.Budget == need.Budget })
		if i < 0 {
			i, needs = len(needs), append(needs, need)
		}
		needs[i].Pods++
		if len(matching) == 1 && need.Room == 0 {
			full = append(full, *noRoom(pod, matching))
		}
	}
	return needs, full, nil
}

// unasked says that the Eviction API lets the pod go without asking its budget: it does not run, or it is not Ready and the budget's
// policy for such pods allows it (Kubernetes, "Specifying a Disruption Budget", unhealthyPodEvictionPolicy).
func unasked(pod *corev1.Pod, matching []policyv1.PodDisruptionBudget) bool {
	if pod.Status.Phase == corev1.PodPending {
		return true
	}
	if len(matching) > 1 || kubeapi.Ready(pod) {
		return false
	}
	policy, s := matching[0].Spec.UnhealthyPodEvictionPolicy, matching[0].Status
	return policy != nil && *policy == policyv1.AlwaysAllow || s.DesiredHealthy > 0 && s.CurrentHealthy >= s.DesiredHealthy
}

func (b *budgets) allowed(pod *corev1.Pod, matching []policyv1.PodDisruptionBudget) int {
	if len(matching) > 1 || behind(pod, matching) {
		return 0
	}
	return b.taken.left(&matching[0], b.now)
}

func names(budgets []policyv1.PodDisruptionBudget) []types.NamespacedName {
	var names []types.NamespacedName
	for _, b := range budgets {
		names = append(names, client.ObjectKeyFromObject(&b))
	}
	return names
}

// describe says for people how much room the budgets have, in the budgets' own words, and what gives them more.
func describe(budgets []policyv1.PodDisruptionBudget) string {
	if len(budgets) == 0 {
		return "a PodDisruptionBudget that castoff has not seen yet"
	}
	var parts []string
	for _, b := range budgets {
		parts = append(parts, fmt.Sprintf("PodDisruptionBudget %s/%s (currentHealthy %d, desiredHealthy %d, disruptionsAllowed %d%s)", b.Namespace, b.Name,
			b.Status.CurrentHealthy, b.Status.DesiredHealthy, b.Status.DisruptionsAllowed, remedy(b)))
	}
	return strings.Join(parts, " and ")
}

// remedy says what a budget lacks that lets nothing go.
func remedy(b policyv1.PodDisruptionBudget) string {
	switch s := b.Status; {
	case s.DisruptionsAllowed > 0:
		return ""
	case s.ExpectedPods > 0 && s.DesiredHealthy >= s.ExpectedPods:
		return ": it allows nothing even when all its pods are healthy; raise maxUnavailable to 1, lower minAvailable or add a replica"
	case s.CurrentHealthy <= s.DesiredHealthy:
		return ": it allows the next one when more of its pods are Ready"
	}
	return ""
}
