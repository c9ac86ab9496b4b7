package drain

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// TestStateSaysWhichBudgetsAreAsked: the order of drains goes by it.
func TestStateSaysWhichBudgetsAreAsked(t *testing.T) {
	changed := func(b *policyv1.PodDisruptionBudget, change func(*policyv1.PodDisruptionBudget)) *policyv1.PodDisruptionBudget {
		change(b)
		return b
	}
	api := func(p *corev1.Pod) { p.Labels = map[string]string{"app": "api"} }
	apiBudget := changed(budget("api", 2), func(b *policyv1.PodDisruptionBudget) { b.Spec.Selector.MatchLabels = map[string]string{"app": "api"} })
	unhealthy := func(b *policyv1.PodDisruptionBudget) { b.Status.CurrentHealthy, b.Status.DesiredHealthy = 1, 2 }
	tests := map[string]struct {
		reason  string
		objects []client.Object
		want    []inventory.BudgetNeed
	}{
		"None":      {"no budget selects the pod", []client.Object{pod("a"), apiBudget}, nil},
		"Room":      {"the pods of one budget are counted, with its room", []client.Object{pod("a"), pod("b"), budget("web", 1)}, []inventory.BudgetNeed{{Budget: "shop/web", Pods: 2, Room: 1}}},
		"Several":   {"each budget by itself", []client.Object{pod("a", api), pod("b"), pod("c", api), budget("web", 0), apiBudget}, []inventory.BudgetNeed{{Budget: "shop/api", Pods: 2, Room: 2}, {Budget: "shop/web", Pods: 1}}},
		"Two":       {"the Eviction API refuses a pod of two budgets, whatever their room", []client.Object{pod("a"), budget("web", 5), budget("all", 5)}, []inventory.BudgetNeed{{Budget: "shop/all shop/web", Pods: 1}}},
		"Behind":    {"a budget that has not seen its own spec allows nothing", []client.Object{pod("a"), changed(budget("web", 5), func(b *policyv1.PodDisruptionBudget) { b.Generation = 2 })}, []inventory.BudgetNeed{{Budget: "shop/web", Pods: 1}}},
		"Blocked":   {"what is held by more than a budget does not ask it", []client.Object{pod("a", bare), pod("b", terminatingPod(now.Add(time.Minute))), budget("web", 1)}, nil},
		"Pending":   {"a pod that does not run asks nobody", []client.Object{pod("a", inPhase(corev1.PodPending)), budget("web", 0)}, nil},
		"Unready":   {"nor does one that is not Ready, while enough others are", []client.Object{pod("a", notReady), budget("web", 0)}, nil},
		"Unhealthy": {"where too few are it has to ask", []client.Object{pod("a", notReady), changed(budget("web", 0), unhealthy)}, []inventory.BudgetNeed{{Budget: "shop/web", Pods: 1}}},
		"AlwaysAllow": {"unless the budget says that such pods may always go", []client.Object{pod("a", notReady), changed(budget("web", 0), func(b *policyv1.PodDisruptionBudget) {
			unhealthy(b)
			b.Spec.UnhealthyPodEvictionPolicy = ptr.To(policyv1.AlwaysAllow)
		})}, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := faked(interceptor.Funcs{}, append(tc.objects, begunNode("old"))...)
			got, err := New(c, c, clock).State(t.Context(), "old")
			if err != nil {
				t.Fatalf("%s: %v", tc.reason, err)
			}
			if diff := cmp.Diff(tc.want, got.Budgets); diff != "" {
				t.Errorf("%s: budgets -want +got:\n%s", tc.reason, diff)
			}
			if !got.Begun {
				t.Error("the drain has begun: that is read of the node past every cache")
			}
		})
	}
	c := faked(interceptor.Funcs{}, pod("a"), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "old"}})
	if got, err := New(c, c, clock).State(t.Context(), "old"); err != nil || got.Begun {
		t.Errorf("no drain has begun on the node: %+v, %v", got, err)
	}
}
