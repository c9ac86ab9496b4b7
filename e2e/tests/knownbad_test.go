//go:build lab && long

package tests

import (
	"context"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	karpapis "github.com/aws/karpenter-provider-aws/pkg/apis"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/e2e/awssim/simapi"
	"github.com/castoff-sh/castoff/e2e/harbor"
)

// TestWatcherSeesKnownBadMigrations proves the judge on migrations that are known to be bad.
func TestWatcherSeesKnownBadMigrations(t *testing.T) {
	ctx, scene := play(t, 6*time.Minute)
	t.Run("DaemonSetKeptAway", func(t *testing.T) { keepDaemonSetAway(ctx, t, scene) })
	t.Run("ClusterAutoscalerLeftRunning", func(t *testing.T) { leaveAutoscalerRunning(ctx, t, scene) })
	t.Run("NodeClaimDeletedUndrained", func(t *testing.T) { deleteClaimUndrained(ctx, t, scene) })
	t.Run("NoDrain", func(t *testing.T) { migrateCrudely(ctx, t, scene) })
}

// keepDaemonSetAway fences nodes with a hard taint, as a naive hand-over would, and lets their agent restart.
func keepDaemonSetAway(ctx context.Context, t *testing.T, scene *harbor.Scene) {
	g := NewWithT(t)
	var nodes corev1.NodeList
	g.Expect(scene.Client.List(ctx, &nodes, client.MatchingLabels{"eks.amazonaws.com/nodegroup": harbor.Batch})).To(Succeed())
	g.Expect(nodes.Items).To(HaveLen(4))
	for _, node := range nodes.Items {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: v1alpha1.TaintLegacy, Value: "true", Effect: corev1.TaintEffectNoSchedule})
		g.Expect(scene.Client.Update(ctx, &node)).To(Succeed())
	}
	g.Expect(scene.Client.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace("ops"))).To(Succeed())
	g.Eventually(func() int { return reportOf(ctx, t, scene).DaemonPodsMissing }, "90s", "5s").Should(Equal(4), "the agents of the fenced nodes, and no others")
}

// leaveAutoscalerRunning makes a Ready NodePool for a pool that Cluster Autoscaler still manages.
func leaveAutoscalerRunning(ctx context.Context, t *testing.T, scene *harbor.Scene) {
	g := NewWithT(t)
	g.Expect(reportOf(ctx, t, scene).DoubleServedSeconds).To(BeZero(), "before there is a NodePool nobody is served twice")
	definition := &unstructured.Unstructured{}
	g.Expect(yaml.Unmarshal(karpapis.NodePoolCRD, &definition.Object)).To(Succeed())
	g.Expect(scene.Client.Create(ctx, definition)).To(Succeed())
	pool := nodePool(harbor.General)
	g.Eventually(func() error { return scene.Client.Create(ctx, pool) }, "20s", "200ms").Should(Succeed(), "once the definition is established")
	g.Expect(unstructured.SetNestedSlice(pool.Object, []any{map[string]any{
		"type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": time.Now().UTC().Format(time.RFC3339), "observedGeneration": int64(1),
	}}, "status", "conditions")).To(Succeed())
	g.Expect(scene.Client.Status().Update(ctx, pool)).To(Succeed())
	g.Eventually(func() float64 { return reportOf(ctx, t, scene).DoubleServedSeconds }, "20s", "2s").Should(BeNumerically(">", 1), "both scale the pool")
	g.Expect(reportOf(ctx, t, scene).Broken()).To(ContainElement(ContainSubstring("two scalers")))
	g.Expect(scene.Client.Delete(ctx, pool)).To(Succeed())
}

// deleteClaimUndrained deletes the NodeClaim of a node with pods on it, as a way back in a hurry would.
func deleteClaimUndrained(ctx context.Context, t *testing.T, scene *harbor.Scene) {
	g := NewWithT(t)
	definition := &unstructured.Unstructured{}
	g.Expect(yaml.Unmarshal(karpapis.NodeClaimCRD, &definition.Object)).To(Succeed())
	g.Expect(scene.Client.Create(ctx, definition)).To(Succeed())
	var nodes corev1.NodeList
	g.Expect(scene.Client.List(ctx, &nodes, client.MatchingLabels{"harbor.example/tier": harbor.General})).To(Succeed())
	claim := nodeClaim()
	g.Eventually(func() error { return scene.Client.Create(ctx, claim) }, "20s", "200ms").Should(Succeed(), "once the definition is established")
	g.Expect(unstructured.SetNestedField(claim.Object, nodes.Items[0].Spec.ProviderID, "status", "providerID")).To(Succeed())
	g.Expect(scene.Client.Status().Update(ctx, claim)).To(Succeed())
	g.Eventually(func() int { return reportOf(ctx, t, scene).NodeClaims }, "20s", "1s").Should(Equal(1))
	g.Expect(reportOf(ctx, t, scene).InstancesEndedUndrained).To(BeZero())
	g.Expect(scene.Client.Delete(ctx, claim)).To(Succeed())
	g.Eventually(func() int { return reportOf(ctx, t, scene).InstancesEndedUndrained }, "20s", "1s").Should(Equal(1), "its pods were not drained first")
	g.Expect(scene.Watcher.Begin(ctx)).To(Succeed())
	g.Expect(reportOf(ctx, t, scene).Broken()).To(BeEmpty(), "a new account knows nothing of it")
}

func nodeClaim() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
		"metadata": map[string]any{"name": "general-1"},
		"spec": map[string]any{
			"nodeClassRef": map[string]any{"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": harbor.General},
			"requirements": []any{map[string]any{"key": "kubernetes.io/os", "operator": "In", "values": []any{"linux"}}},
		},
	}}
}

func nodePool(pool string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "karpenter.sh/v1", "kind": "NodePool",
		"metadata": map[string]any{"name": pool, "labels": map[string]any{"castoff.sh/pool": pool}},
		"spec": map[string]any{"template": map[string]any{"spec": map[string]any{
			"nodeClassRef": map[string]any{"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": pool},
			"requirements": []any{map[string]any{"key": "kubernetes.io/os", "operator": "In", "values": []any{"linux"}}},
		}}},
	}}
}

// migrateCrudely does what a script in castoff's place would: stop Cluster Autoscaler, empty the groups, drain nothing.
func migrateCrudely(ctx context.Context, t *testing.T, scene *harbor.Scene) {
	g := NewWithT(t)
	autoscaler := &appsv1.Deployment{}
	autoscaler.Namespace, autoscaler.Name = "kube-system", "cluster-autoscaler"
	g.Expect(scene.Client.Patch(ctx, autoscaler, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"replicas":0}}`)))).To(Succeed())
	cfg, err := config.LoadDefaultConfig(ctx, config.WithRegion("us-east-1"), config.WithBaseEndpoint(scene.Lab.Simulator),
		config.WithCredentialsProvider(credentials.NewStaticCredentialsProvider("crude-script", "secret", "")))
	g.Expect(err).NotTo(HaveOccurred())
	groups, err := simapi.NewClient(scene.Lab.Simulator).Groups(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	for _, group := range groups {
		if group.NodeGroup == harbor.Home {
			continue
		}
		_, err := autoscaling.NewFromConfig(cfg).UpdateAutoScalingGroup(ctx, &autoscaling.UpdateAutoScalingGroupInput{
			AutoScalingGroupName: &group.Name, MinSize: aws.Int32(0), DesiredCapacity: aws.Int32(0),
		})
		g.Expect(err).NotTo(HaveOccurred())
	}
	g.Eventually(func() int { return reportOf(ctx, t, scene).InstancesEndedUndrained }, "60s", "3s").Should(BeNumerically(">=", 9), "Auto Scaling ends the ten nodes of general and memory, pods or not")
	report := reportOf(ctx, t, scene)
	g.Expect(report.PDBViolations).To(BeNumerically(">", 0), "budgets were ignored")
	g.Eventually(func() float64 { return reportOf(ctx, t, scene).UnservedSeconds }, "20s", "3s").Should(BeNumerically(">", 5), "nobody scales the pools")
	g.Expect(report.PodsNotReady).To(BeNumerically(">", 50), "the pods are gone or pending")
	g.Expect(report.Violations()).To(ContainElements(
		ContainSubstring("PodDisruptionBudgets were broken"), ContainSubstring("instances ended with pods on them"),
		ContainSubstring("Karpenter runs no node"), ContainSubstring("not there"),
	))
}
