package preflight

import (
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// healthy says how many of a budget's pods are Ready, how many it wants, and how many may go.
func healthy(current, desired, allowed int32) func(*policyv1.PodDisruptionBudget) {
	return func(b *policyv1.PodDisruptionBudget) {
		b.Status.CurrentHealthy, b.Status.DesiredHealthy, b.Status.DisruptionsAllowed = current, desired, allowed
	}
}

func unhealthyMayGo(p policyv1.UnhealthyPodEvictionPolicyType) func(*policyv1.PodDisruptionBudget) {
	return func(b *policyv1.PodDisruptionBudget) { b.Spec.UnhealthyPodEvictionPolicy = ptr.To(p) }
}

func syncFailed(message string) func(*policyv1.PodDisruptionBudget) {
	return func(b *policyv1.PodDisruptionBudget) {
		b.Status.Conditions = []metav1.Condition{{Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionFalse, Reason: policyv1.SyncFailedReason, Message: message}}
	}
}

func TestCase_C026_BudgetsThatNeverAllowAreFoundBeforeAnyDrain(t *testing.T) {
	never := func(object, why, pod, remedy string) inventory.Finding {
		return blocks(CheckBudgetNeverAllows, object, "general", "The budget can never allow an eviction ("+why+"), so "+pod+" could never leave its node. "+remedy)
	}
	raise := "Raise maxUnavailable to at least 1."
	web := func(name string) inventory.Pod {
		return pod(name+"-1", func(p *inventory.Pod) { p.Labels = map[string]string{"app": name} })
	}
	testCheck(t, CheckBudgetNeverAllows, map[string]checkCase{
		"AllThree": {
			reason: "each is named with its pod, whichever way it says never",
			in: sound(pods(web("a"), web("b"), web("c")), budgets(
				budget("a", matching("app", "a"), maxUnavailable(number(0))), budget("b", matching("app", "b"), maxUnavailable(words("0%"))), budget("c", matching("app", "c"), minAvailable(words("100%"))))),
			want: []inventory.Finding{
				never("poddisruptionbudget/shop/a", "maxUnavailable 0", "pod/shop/a-1", raise),
				never("poddisruptionbudget/shop/b", "maxUnavailable 0%", "pod/shop/b-1", raise),
				never("poddisruptionbudget/shop/c", "minAvailable 100% of 3", "pod/shop/c-1", "Lower minAvailable, or add a replica."),
			},
		},
		"MoreThanThereAre": {
			reason: "more than all is as much as all",
			in:     sound(budgets(budget("web", matching("app", "web"), minAvailable(number(5))))),
			want:   []inventory.Finding{never("poddisruptionbudget/shop/web", "minAvailable 5 of 3", "pod/shop/web-1", "Lower minAvailable, or add a replica.")},
		},
		"Uncounted": {
			reason: "the disruption controller allows nothing where it cannot count: a percentage of pods that no scale subresource stands behind",
			in:     sound(budgets(budget("web", matching("app", "web"), maxUnavailable(words("50%")), syncFailed("jobs.batch does not implement the scale subresource.")))),
			want: []inventory.Finding{never("poddisruptionbudget/shop/web", "its pods cannot be counted: jobs.batch does not implement the scale subresource", "pod/shop/web-1",
				"Give its pods a controller that Kubernetes can scale, or use minAvailable with a number.")},
		},
		"InsufficientNow": {
			reason: "that it allows nothing at the moment is not never",
			in: sound(budgets(budget("web", matching("app", "web"), func(b *policyv1.PodDisruptionBudget) {
				b.Status.Conditions = []metav1.Condition{{Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionFalse, Reason: policyv1.InsufficientPodsReason}}
			}))),
		},
		"SelectsNothing": {
			reason: "a budget of nobody holds nobody",
			in:     sound(budgets(budget("old", matching("app", "gone"), maxUnavailable(number(0))))),
		},
	})
}

func TestBudgetUnhealthy(t *testing.T) {
	waits := warns(CheckBudgetUnhealthy, "poddisruptionbudget/shop/web", "general", "The budget allows no eviction now: 1 of its pods are Ready and it wants 2. pod/shop/web-1 and the others stay on their nodes until they are. "+
		"Mend them, or set unhealthyPodEvictionPolicy: AlwaysAllow, so that those that are not Ready may go.")
	of := func(change ...func(*policyv1.PodDisruptionBudget)) Input {
		return sound(budgets(budget("web", matching("app", "web"), change...)))
	}
	testCheck(t, CheckBudgetUnhealthy, map[string]checkCase{
		"Unhealthy":   {"by default not even the pod in CrashLoopBackOff may go", of(healthy(1, 2, 0)), []inventory.Finding{waits}},
		"IfHealthy":   {"nor when that is written out", of(healthy(1, 2, 0), unhealthyMayGo(policyv1.IfHealthyBudget)), []inventory.Finding{waits}},
		"AlwaysAllow": {"the user said that it may", of(healthy(1, 2, 0), unhealthyMayGo(policyv1.AlwaysAllow)), nil},
		"Healthy":     {"as many as it wants, and none to spare: that is a budget at work", of(healthy(2, 2, 0)), nil},
		"ToSpare":     {"one may go", of(healthy(3, 2, 1)), nil},
		"Never":       {"what never allows is said once", of(healthy(1, 2, 0), maxUnavailable(number(0))), nil},
		"Shared":      {"of two budgets of one pod the controller brings only one up to date: that is TwoBudgets", sound(budgets(budget("a", matching("app", "web")), budget("b", matching("app", "web"), healthy(0, 2, 0)))), nil},
		"Elsewhere":   {"its pods do not move", sound(pods(pod("web-1", on("home"))), budgets(budget("web", matching("app", "web"), healthy(1, 2, 0)))), nil},
	})
}

func TestTwoBudgetsAreAcceptedByAnyOfThem(t *testing.T) {
	in := sound(budgets(budget("a", matching("app", "web")), budget("b", matching("app", "web"))))
	for _, name := range []string{"poddisruptionbudget/shop/a", "poddisruptionbudget/shop/b", "*"} {
		for _, f := range Run(in, []v1alpha1.AcceptedRisk{{Check: CheckTwoBudgets, Object: name, Reason: "known"}}) {
			if f.Blocks() || f.Check == CheckRiskUnused {
				t.Errorf("accepted by %s: %+v", name, f)
			}
		}
	}
}

func TestCase_C028_TwoBudgetsOfOnePodAreNamedTogether(t *testing.T) {
	both := pod("web-1", func(p *inventory.Pod) { p.Labels = map[string]string{"app": "web", "tier": "fe"} })
	one := pod("api-1", func(p *inventory.Pod) { p.Labels = map[string]string{"app": "api", "tier": "fe"} })
	say := func(first, list, shared string) inventory.Finding {
		return blocks(CheckTwoBudgets, "poddisruptionbudget/shop/"+first, "general", list+" select the same pods, and the Eviction API refuses such a pod for ever. Narrow the selectors until each pod has one budget. They share: "+shared+".")
	}
	const ab = "poddisruptionbudget/shop/a, poddisruptionbudget/shop/b"
	testCheck(t, CheckTwoBudgets, map[string]checkCase{
		"Labels": {
			reason: "two labels of one pod, and a pod of one of the two budgets beside it",
			in:     sound(pods(both, one), budgets(budget("a", matching("app", "web")), budget("b", matching("tier", "fe")))),
			want:   []inventory.Finding{say("a", ab, "pod/shop/web-1")},
		},
		"Expressions": {
			reason: "an expression selects as a label does",
			in:     sound(pods(both), budgets(budget("a", expression("app", metav1.LabelSelectorOpIn, "web", "api")), budget("b", expression("tier", metav1.LabelSelectorOpExists)))),
			want:   []inventory.Finding{say("a", ab, "pod/shop/web-1")},
		},
		"Empty": {
			reason: "policy/v1: an empty selector selects every pod of the namespace",
			in:     sound(pods(both, one), budgets(budget("a", matching("app", "web")), budget("b", &metav1.LabelSelector{}))),
			want:   []inventory.Finding{say("a", ab, "pod/shop/web-1")},
		},
		"TwoPairs": {
			reason: "two pairs are two things to mend",
			in:     sound(pods(both, one), budgets(budget("a", matching("app", "web")), budget("b", matching("app", "api")), budget("c", &metav1.LabelSelector{}))),
			want: []inventory.Finding{
				say("a", "poddisruptionbudget/shop/a, poddisruptionbudget/shop/c", "pod/shop/web-1"),
				say("b", "poddisruptionbudget/shop/b, poddisruptionbudget/shop/c", "pod/shop/api-1"),
			},
		},
		"ManyPods": {
			reason: "one finding, however many pods they share",
			in:     sound(pods(pod("web-1"), pod("web-2"), pod("web-3"), pod("web-4"), pod("web-5")), budgets(budget("a", matching("app", "web")), budget("b", &metav1.LabelSelector{}))),
			want:   []inventory.Finding{say("a", ab, "pod/shop/web-1, pod/shop/web-2, pod/shop/web-3 and 2 more")},
		},
		"Disjoint": {
			reason: "each pod has one",
			in:     sound(pods(both), budgets(budget("a", matching("app", "web")), budget("b", matching("tier", "be")))),
		},
	})
}
