//go:build lab && long

package tests

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/castoff-sh/castoff/e2e/harbor"
	"github.com/castoff-sh/castoff/pkg/drain"
)

// moved is an app whose pods have left the legacy nodes, and the NodePool that took them. Half a node's worth of them: the engine would
// rather have them on nodes that cost it nothing.
const (
	movedPool = `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: general}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: spot}
      requirements:
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
      - {key: node.kubernetes.io/instance-type, operator: In, values: [m5.large]}
  disruption:
    consolidationPolicy: WhenEmptyOrUnderutilized
    consolidateAfter: 2s
    budgets: BUDGETS
`
	// guarded are the budgets that castoff gives a NodePool while it has legacy nodes; unguarded what a NodePool has without any.
	guarded   = `[{nodes: "0", reasons: [Underutilized, Drifted]}, {nodes: "10%"}]`
	unguarded = `[{nodes: "10%"}]`

	movedApp = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  replicas: 4
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: app, image: example.com/shop, resources: {requests: {cpu: 300m, memory: 256Mi}}}
`
)

// TestFenceAndBudgetKeepPodsFromMovingBack leaves out the fence and then the NodePool's budget, too, beside the real engine
// and legacy nodes with room. With both nothing moves. What each is for is seen where it is missing.
func TestFenceAndBudgetKeepPodsFromMovingBack(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 9*time.Minute)
	defer cancel()
	k := startCluster(ctx, t)
	for _, step := range []struct {
		name string
		run  func(context.Context, *testing.T)
	}{
		{"Install", k.install},
		{"PodsMove", k.podsMove},
		{"WithBothNothingMovesBack", k.nothingMovesBack},
		{"WithoutTheFenceNewPodsLandThere", k.newPodsLandThere},
		{"WithoutBothTheEngineMovesThemBack", k.engineMovesBack},
	} {
		if !t.Run(step.name, func(t *testing.T) { step.run(ctx, t) }) {
			return // each step begins where the one before ended
		}
	}
}

// legacy are the nodes of the scene's general group: without taints, with room, and not Karpenter's.
func (k *karpenter) legacy(ctx context.Context, t *testing.T) []corev1.Node {
	t.Helper()
	var list corev1.NodeList
	if err := k.client.List(ctx, &list, client.MatchingLabels{"harbor.example/tier": harbor.General}); err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(list.Items, func(n corev1.Node) bool { return n.Labels[karpv1.NodePoolLabelKey] != "" })
}

// others cordons what is neither a legacy node nor Karpenter's: it would take the app's pods too.
func (k *karpenter) others(ctx context.Context, t *testing.T, legacy []corev1.Node) {
	t.Helper()
	var list corev1.NodeList
	if err := k.client.List(ctx, &list); err != nil {
		t.Fatal(err)
	}
	for _, n := range list.Items {
		if n.Labels[karpv1.NodePoolLabelKey] == "" && !slices.ContainsFunc(legacy, func(l corev1.Node) bool { return l.Name == n.Name }) {
			k.patchNode(ctx, t, n.Name, `{"spec":{"unschedulable":true}}`)
		}
	}
}

func (k *karpenter) patchNode(ctx context.Context, t *testing.T, name, patch string) {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := k.client.Patch(ctx, node, client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
		t.Fatal(err)
	}
}

// podsMove fences the legacy nodes as castoff does, makes the NodePool that castoff makes, and lets the app come.
func (k *karpenter) podsMove(ctx context.Context, t *testing.T) {
	g := NewWithT(t)
	g.Eventually(ctx, func() int { return len(k.legacy(ctx, t)) }, "60s", "500ms").Should(BeNumerically(">=", 3), "legacy nodes")
	legacy := k.legacy(ctx, t)
	k.others(ctx, t, legacy)
	fence := drain.New(k.client, k.client, time.Now)
	for _, n := range legacy {
		g.Expect(fence.Fence(ctx, n.Name, harbor.General)).To(Succeed())
	}
	for _, manifest := range []string{spotNodeClass, strings.ReplaceAll(movedPool, "BUDGETS", guarded), movedApp} {
		object := &unstructured.Unstructured{}
		g.Expect(yaml.Unmarshal([]byte(manifest), &object.Object)).To(Succeed())
		g.Expect(k.client.Create(ctx, object)).To(Succeed())
	}
	k.onLegacy(ctx, t, 0)
}

// onLegacy waits until all four pods are Ready, so many of them on legacy nodes.
func (k *karpenter) onLegacy(ctx context.Context, t *testing.T, want int) {
	t.Helper()
	NewWithT(t).Eventually(ctx, func() int { return k.countOnLegacy(ctx, t, k.awaitApps(ctx, t, 4)) }, "3m", "1s").Should(Equal(want), "pods on legacy nodes")
}

func (k *karpenter) countOnLegacy(ctx context.Context, t *testing.T, pods []corev1.Pod) (count int) {
	t.Helper()
	legacy := k.legacy(ctx, t)
	for _, pod := range pods {
		if slices.ContainsFunc(legacy, func(n corev1.Node) bool { return n.Name == pod.Spec.NodeName }) {
			count++
		}
	}
	return count
}

// nothingMovesBack rolls the app, too: its new pods stay off the legacy nodes, and the engine leaves its own alone.
func (k *karpenter) nothingMovesBack(ctx context.Context, t *testing.T) {
	g := NewWithT(t)
	before := k.awaitClaims(ctx, t, "NodeClaims that could be consolidated", func(claims []karpv1.NodeClaim) bool {
		return len(claims) > 0 && all(claims, is(karpv1.ConditionTypeConsolidatable))
	})
	k.restart(ctx, t, "1")
	k.onLegacy(ctx, t, 0)
	seq := k.lastCall(ctx, t)
	g.Consistently(ctx, func() int { return k.countOnLegacy(ctx, t, k.pods(ctx, t)) }, "30s", "1s").Should(BeZero())
	g.Expect(k.calls(ctx, t, "TerminateInstances", seq)).To(BeEmpty(), "the engine ends none of its nodes")
	for _, claim := range before {
		g.Expect(uids(k.claims(ctx, t))).To(ContainElement(claim.UID))
	}
}

// restart rolls the app out, as somebody's deployment of a new version does.
func (k *karpenter) restart(ctx context.Context, t *testing.T, version string) {
	t.Helper()
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	patch := `{"spec":{"template":{"metadata":{"annotations":{"harbor.example/version":"` + version + `"}}}}}`
	if err := k.client.Patch(ctx, d, client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
		t.Fatal(err)
	}
	NewWithT(t).Eventually(ctx, func() (bool, error) {
		err := k.client.Get(ctx, client.ObjectKeyFromObject(d), d)
		return d.Status.ObservedGeneration == d.Generation && d.Status.UpdatedReplicas == 4 && d.Status.Replicas == 4 && d.Status.AvailableReplicas == 4, err
	}, "2m", "500ms").Should(BeTrue(), "the new version is rolled out")
}

// newPodsLandThere opens the legacy nodes, as they are without a fence. The budget still keeps the engine from moving anything; whatever
// starts anew lands there, and would have to move once more.
func (k *karpenter) newPodsLandThere(ctx context.Context, t *testing.T) {
	g := NewWithT(t)
	for _, n := range k.legacy(ctx, t) {
		k.patchNode(ctx, t, n.Name, `{"spec":{"unschedulable":false,"taints":null}}`)
	}
	late := &appsv1.Deployment{}
	g.Expect(yaml.Unmarshal([]byte(strings.ReplaceAll(movedApp, "web", "late")), late)).To(Succeed())
	late.Spec.Replicas = ptr.To[int32](1)
	g.Expect(k.client.Create(ctx, late)).To(Succeed())
	g.Expect(k.countOnLegacy(ctx, t, k.awaitApps(ctx, t, 5))).To(Equal(1), "without the fence what starts anew lands on a legacy node")
	g.Consistently(ctx, func() int { return k.countOnLegacy(ctx, t, k.pods(ctx, t)) }, "20s", "1s").Should(Equal(1), "the budget keeps the others where they are")
	g.Expect(k.client.Delete(ctx, late, client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
	k.onLegacy(ctx, t, 0)
}

// engineMovesBack takes the budget off, too: the engine empties its own nodes onto those that it does not have to pay for.
func (k *karpenter) engineMovesBack(ctx context.Context, t *testing.T) {
	g := NewWithT(t)
	pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "general"}}
	budgets, err := yaml.YAMLToJSON([]byte(unguarded))
	g.Expect(err).NotTo(HaveOccurred())
	seq := k.lastCall(ctx, t)
	g.Expect(k.client.Patch(ctx, pool, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"disruption":{"budgets":`+string(budgets)+`}}}`)))).To(Succeed())
	k.awaitClaims(ctx, t, "no NodeClaim any more", func(claims []karpv1.NodeClaim) bool { return len(claims) == 0 })
	k.onLegacy(ctx, t, 4)
	g.Expect(k.calls(ctx, t, "TerminateInstances", seq)).NotTo(BeEmpty())
}
