package drain

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/castoff-sh/castoff/pkg/inventory/kubeapi"
)

// budgets are the PodDisruptionBudgets of the namespaces that a pass meets, listed once each.
type budgets struct {
	reader client.Reader
	listed map[string][]policyv1.PodDisruptionBudget
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
