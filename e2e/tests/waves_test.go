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
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/e2e/harbor"
)

// atItsName is within what a workload that two scalers could serve is named: a second, and what a busy machine adds (0.23 s on one at rest).
const atItsName = 3 * time.Second

// TestWaves moves the scene's pools in waves, for nothing joins them. Between two of them Cluster Autoscaler scales what it has kept, and
// a workload that both could serve is named at once and holds the next change of hands. Then it goes on to the end.
func TestWaves(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 25*time.Minute)
	defer cancel()
	p := embark(ctx, t)
	g := NewWithT(t)
	g.Expect(p.scene.Watcher.Begin(ctx)).To(Succeed())
	m := migration()
	g.Expect(yaml.Unmarshal([]byte(harbor.Migration), &m.Object)).To(Succeed())
	strategy, ok := m.Object["spec"].(map[string]any)["strategy"].(map[string]any)
	g.Expect(ok).To(BeTrue())
	strategy["waves"], strategy["soakSeconds"] = "Auto", int64(40)
	g.Expect(p.scene.Client.Create(ctx, m)).To(Succeed())

	waves := func() []v1alpha1.WaveStatus { return p.status(ctx, t).Waves }
	g.Eventually(ctx, waves, "4m", "1s").Should(HaveLen(3), "each tier's pool is a wave of its own")
	g.Eventually(ctx, func() bool { return waves()[0].ServedTime != nil }, "4m", "500ms").Should(BeTrue(), "the first wave")
	last := waves()[2].Pools[0]
	t.Logf("waves: %v, %v, %v", waves()[0].Pools, waves()[1].Pools, waves()[2].Pools)

	t.Run("ClusterAutoscalerKeepsTheOthers", func(t *testing.T) {
		g := NewWithT(t)
		before := p.nodesOf(ctx, t, last)
		crowd := crowdOf("crowd", map[string]string{"harbor.example/tier": tierOf(last)}, 8)
		g.Expect(p.scene.Client.Create(ctx, crowd)).To(Succeed())
		defer func() { g.Expect(p.scene.Client.Delete(ctx, crowd)).To(Succeed()) }()
		g.Eventually(ctx, func() int { return p.nodesOf(ctx, t, last) }, "90s", "1s").Should(BeNumerically(">", before), "it raises a group of the last wave for pods that wait")
		g.Expect(waves()[2].ServedTime).To(BeNil(), "and Karpenter does not serve that wave yet")
	})

	t.Run("AWorkloadThatBothCouldServe", func(t *testing.T) {
		g := NewWithT(t)
		g.Expect(waves()[1].ServedTime).To(BeNil(), "the second wave is still to change hands")
		stray := crowdOf("stray", nil, 1)
		g.Expect(p.scene.Client.Create(ctx, stray)).To(Succeed())
		defer func() { g.Expect(client.IgnoreNotFound(p.scene.Client.Delete(ctx, stray))).To(Succeed()) }()
		began := time.Now()
		g.Eventually(ctx, func() []string { return p.blockers(ctx, t) }, "10s", "50ms").Should(ContainElement(And(
			HavePrefix("Block WorkloadInTwoWaves deployment/shop/stray"), ContainSubstring("nodeSelector"))))
		named := time.Since(began)
		t.Logf("named after %s", named.Round(10*time.Millisecond))
		g.Expect(named).To(BeNumerically("<=", atItsName))
		g.Consistently(ctx, func() bool { return waves()[1].ReleasedTime == nil }, "75s", "1s").Should(BeTrue(), "the next change of hands waits")
		g.Expect(p.scene.Client.Delete(ctx, stray)).To(Succeed())
		g.Eventually(ctx, func() bool { return waves()[1].ServedTime != nil }, "4m", "1s").Should(BeTrue(), "and goes on when the workload is gone")
	})

	p.awaitPhase(ctx, t, 10*time.Minute, v1alpha1.PhaseCompleted)
	for _, w := range waves() {
		g.Expect(w.ReleasedTime).NotTo(BeNil(), w.Name)
		g.Expect(w.ServedTime).NotTo(BeNil(), w.Name)
	}
	g.Eventually(ctx, func() []string { return reportOf(ctx, t, p.scene).Violations() }, "40s", "3s").Should(BeEmpty())
	p.back(ctx, t, "Waves", nil)
}

// tierOf is the label of the pool's nodes: pools are named after their groups.
func tierOf(pool string) string {
	for _, tier := range []string{harbor.General, harbor.Memory, harbor.Batch} {
		if strings.HasPrefix(pool, tier) {
			return tier
		}
	}
	return pool
}

// nodesOf counts the old nodes of a pool.
func (p *passage) nodesOf(ctx context.Context, t *testing.T, pool string) int {
	t.Helper()
	var nodes corev1.NodeList
	if err := p.scene.Client.List(ctx, &nodes); err != nil {
		t.Fatal(err)
	}
	return len(slices.DeleteFunc(nodes.Items, func(n corev1.Node) bool {
		return n.Labels["karpenter.sh/nodepool"] != "" || n.Labels["harbor.example/tier"] != tierOf(pool)
	}))
}

// crowdOf is a Deployment whose pods fit a node each, or so.
func crowdOf(name string, where map[string]string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Spec: appsv1.DeploymentSpec{
		Replicas: ptr.To(replicas), Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
			NodeSelector: where,
			Tolerations:  []corev1.Toleration{{Key: "harbor.example/dedicated", Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{Name: "app", Image: "registry.example.com/shop/app:v1", Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m")},
			}}},
		}},
	}}
}
