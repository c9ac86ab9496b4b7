//go:build lab && long

package tests

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/e2e/harbor"
	"github.com/castoff-sh/castoff/pkg/drain"
	"github.com/castoff-sh/castoff/pkg/helm"
)

// batch is a legacy node with pods, and the room that is kept for them.
type batch struct {
	*karpenter
	drainer *drain.Drainer
	owner   metav1.OwnerReference
	node    string
}

// TestPlaceholders makes the real engine launch for placeholders, and for nothing once their batch is over.
func TestPlaceholders(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 9*time.Minute)
	defer cancel()
	b := &batch{karpenter: startCluster(ctx, t)}
	for _, step := range []struct {
		name string
		run  func(context.Context, *testing.T)
	}{
		{"Install", b.install},
		{"FullNode", b.fullNode},
		{"TheyGetANode", b.theyGetANode},
		{"NothingOfTheUsersCountsThem", b.nothingCountsThem},
		{"OnceTheyAreOverTheirNodeGoes", b.theirNodeGoes},
		{"OverBeforeTheLaunchThereIsNone", b.noLaunch},
	} {
		if !t.Run(step.name, func(t *testing.T) { step.run(ctx, t) }) {
			return // each step begins where the one before ended
		}
	}
}

// fullNode puts the app on one legacy node, beside which there is no room but what Karpenter launches.
func (b *batch) fullNode(ctx context.Context, t *testing.T) {
	g := NewWithT(t)
	legacy := b.legacy(ctx, t)
	g.Expect(legacy).NotTo(BeEmpty())
	b.node = legacy[0].Name
	b.others(ctx, t, legacy[:1])
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "all"}, Spec: policyv1.PodDisruptionBudgetSpec{
		Selector: &metav1.LabelSelector{}, MaxUnavailable: ptr.To(intstr.FromInt32(1)),
	}}
	g.Expect(b.client.Create(ctx, budget)).To(Succeed())
	for _, manifest := range []string{spotNodeClass, strings.ReplaceAll(movedPool, "BUDGETS", unguarded), movedApp} {
		object := &unstructured.Unstructured{}
		g.Expect(yaml.Unmarshal([]byte(manifest), &object.Object)).To(Succeed())
		g.Expect(b.client.Create(ctx, object)).To(Succeed())
	}
	b.onLegacy(ctx, t, 4)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: harbor.CastoffNamespace}}
	g.Expect(b.client.Create(ctx, namespace)).To(Succeed())
	b.createPriority(ctx, g)
	anchor := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: harbor.CastoffNamespace, Name: "owner"}}
	g.Expect(b.client.Create(ctx, anchor)).To(Succeed())
	b.owner = metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: anchor.Name, UID: anchor.UID, Controller: ptr.To(true)}
	b.drainer = drain.New(b.client, b.client, time.Now).WithRoom(drain.Room{Namespace: harbor.CastoffNamespace, Image: "registry.example.com/pause:v1"})
	g.Expect(b.drainer.Fence(ctx, b.node, harbor.General)).To(Succeed())
}

// createPriority makes the priority class that castoff's chart brings for placeholders.
func (b *batch) createPriority(ctx context.Context, g Gomega) {
	manifest, err := helm.Render(helm.Release{Name: "castoff", Namespace: harbor.CastoffNamespace, Chart: os.DirFS(filepath.Join(repository, "charts", "castoff"))})
	g.Expect(err).NotTo(HaveOccurred())
	for document := range strings.SplitSeq(manifest, "\n---\n") {
		object := &unstructured.Unstructured{}
		g.Expect(yaml.Unmarshal([]byte(document), &object.Object)).To(Succeed())
		if object.GetKind() == "PriorityClass" {
			g.Expect(b.client.Create(ctx, object)).To(Succeed())
		}
	}
}

// placeholders that are there.
func (b *batch) placeholders(ctx context.Context, t *testing.T) []corev1.Pod {
	t.Helper()
	list := &corev1.PodList{}
	if err := b.client.List(ctx, list, client.InNamespace(harbor.CastoffNamespace), client.HasLabels{v1alpha1.LabelPlaceholder}); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// warm keeps room for the pods of the node, as a migration does before it drains it.
func (b *batch) warm(ctx context.Context, t *testing.T) {
	t.Helper()
	if err := b.drainer.Warm(ctx, b.node, harbor.General, b.owner); err != nil {
		t.Fatal(err)
	}
	if len(b.placeholders(ctx, t)) == 0 {
		t.Fatalf("no placeholder for the pods of node %s", b.node)
	}
}

// over ends the batch, as a pause, a way back or its last pod does.
func (b *batch) over(ctx context.Context, t *testing.T) {
	t.Helper()
	err := b.client.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(harbor.CastoffNamespace), client.HasLabels{v1alpha1.LabelPlaceholder}, client.GracePeriodSeconds(0))
	if err != nil {
		t.Fatal(err)
	}
}

// theyGetANode before any pod of the app has moved: the engine launches for placeholders as for anybody.
func (b *batch) theyGetANode(ctx context.Context, t *testing.T) {
	b.warm(ctx, t)
	b.awaitClaims(ctx, t, "an initialized NodeClaim", func(claims []karpv1.NodeClaim) bool {
		return len(claims) > 0 && all(claims, is(karpv1.ConditionTypeInitialized))
	})
	NewWithT(t).Eventually(ctx, func() (waiting int) {
		for _, p := range b.placeholders(ctx, t) {
			if p.Spec.NodeName == "" {
				waiting++
			}
		}
		return waiting
	}, "60s", "500ms").Should(BeZero(), "placeholders without a node")
	b.onLegacy(ctx, t, 4)
}

// nothingCountsThem: the budget of everything in the app's namespace, and the app's Deployment, see the app's pods and no others.
func (b *batch) nothingCountsThem(ctx context.Context, t *testing.T) {
	g := NewWithT(t)
	g.Eventually(ctx, func() (int32, error) {
		budget := &policyv1.PodDisruptionBudget{}
		err := b.client.Get(ctx, client.ObjectKey{Namespace: "default", Name: "all"}, budget)
		return budget.Status.ExpectedPods, err
	}, "20s", "500ms").Should(BeEquivalentTo(4))
	for _, p := range b.placeholders(ctx, t) {
		g.Expect(metav1.GetControllerOf(&p)).To(HaveField("UID", b.owner.UID), "no other controller has taken placeholder %s", p.Name)
		for key := range p.Labels { // the API server gives a pod its node's topology when it is bound
			g.Expect(key).To(Or(HavePrefix("castoff.sh/"), HavePrefix("topology.kubernetes.io/")))
		}
	}
}

// theirNodeGoes, and none comes in its place.
func (b *batch) theirNodeGoes(ctx context.Context, t *testing.T) {
	seq := b.lastCall(ctx, t)
	b.over(ctx, t)
	b.awaitClaims(ctx, t, "no NodeClaim any more", func(claims []karpv1.NodeClaim) bool { return len(claims) == 0 })
	NewWithT(t).Consistently(ctx, func() int { return len(b.calls(ctx, t, "CreateFleet", seq)) }, "20s", "1s").Should(BeZero(), "launches for placeholders that are gone")
}

// noLaunch ends the batch while the engine still gathers pods to launch for.
func (b *batch) noLaunch(ctx context.Context, t *testing.T) {
	seq := b.lastCall(ctx, t)
	b.warm(ctx, t)
	b.over(ctx, t)
	NewWithT(t).Consistently(ctx, func() int { return len(b.claims(ctx, t)) + len(b.calls(ctx, t, "CreateFleet", seq)) }, "20s", "1s").Should(BeZero(), "launches for placeholders that are gone")
	b.onLegacy(ctx, t, 4)
}
