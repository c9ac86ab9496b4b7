//go:build lab && long

package tests

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/e2e/harbor"
)

// TestInterference holds a migration in the middle of its drains, and has somebody interfere with it again and again. Then it goes
// on to its end.
func TestInterference(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Minute)
	defer cancel()
	h := hold(ctx, t)
	for _, i := range slices.Concat(scalerInterferences(h, h.pool(ctx, t)), nodeInterferences(h)) {
		t.Run(i.name, func(t *testing.T) { h.play(ctx, t, i) })
	}
	t.Run("SecondMigration", func(t *testing.T) { h.secondMigration(ctx, t) })
	t.Run("ToTheEnd", func(t *testing.T) {
		NewWithT(t).Expect(h.scene.Watcher.Begin(ctx)).To(Succeed())
		h.letGo(ctx, t, 10)
		h.awaitCompleted(ctx, t)
	})
}

const (
	// theAutoscaler is Cluster Autoscaler as blockers name it, and its Deployment in the audit log.
	theAutoscaler   = "deployment/kube-system/cluster-autoscaler"
	autoscalersRoot = "deployments kube-system/cluster-autoscaler"
	// elsewhere is the namespace of whoever deploys something of their own.
	elsewhere = "elsewhere"
)

// scalerInterferences are those by other scalers. That of the NodePool comes first: the fewer nodes go with it, the sooner it is over.
func scalerInterferences(h *held, pool string) []interference {
	return slices.Concat([]interference{h.nodePoolDeleted(pool)}, h.autoscalers(), []interference{h.secondAutoscaler(), h.leaseTaken(), h.secondKarpenter(), h.heavierNodePool(pool)})
}

// do fails the test on an error.
func do(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// scales sets the replicas of Cluster Autoscaler.
func (h *held) scales(replicas int) func(context.Context, *testing.T) {
	return func(ctx context.Context, t *testing.T) {
		t.Helper()
		h.patchAutoscaler(ctx, t, types.MergePatchType, fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas))
	}
}

// autoscalers are those with the Cluster Autoscaler that was there.
func (h *held) autoscalers() []interference {
	withoutElection := func(ctx context.Context, t *testing.T) {
		h.patchAutoscaler(ctx, t, types.JSONPatchType, `[{"op":"add","path":"/spec/template/spec/containers/0/args/-","value":"--leader-elect=false"},{"op":"replace","path":"/spec/replicas","value":1}]`)
	}
	asBefore := func(ctx context.Context, t *testing.T) {
		h.patchAutoscaler(ctx, t, types.JSONPatchType, `[{"op":"remove","path":"/spec/template/spec/containers/0/args/5"},{"op":"replace","path":"/spec/replicas","value":0}]`)
	}
	two := []string{v1alpha1.ReasonTwoScalers, autoscalerKey.String(), "field manager tests"}
	return []interference{
		{
			name: "AutoscalerScaledUpByHand", act: h.scales(1), undo: h.scales(0), harmless: true,
			seen: []string{"Warn", "AutoscalerStandby", theAutoscaler}, writes: map[string]int{autoscalersRoot: 0},
		},
		{
			name: "AutoscalerScaledUpByGitOps", act: h.scales(1), again: h.scales(1), undo: h.scales(0), harmless: true,
			seen: []string{"Warn", "AutoscalerStandby", theAutoscaler}, writes: map[string]int{autoscalersRoot: 0},
		},
		{
			name: "AutoscalerWithoutElectionByHand", act: withoutElection, undo: asBefore, harmless: true, brief: true, twoByForce: true,
			seen: []string{theAutoscaler}, event: append([]string{"Warning"}, two...), writes: map[string]int{autoscalersRoot: 1},
			over: func(ctx context.Context, t *testing.T) bool {
				return h.autoscalerReplicas(ctx, t) == 0 && h.podsOf(ctx, t, "kube-system", "cluster-autoscaler") == 0
			},
		},
		{
			name: "AutoscalerWithoutElectionByGitOps", act: withoutElection, again: h.scales(1), undo: asBefore, twoByForce: true,
			seen: []string{theAutoscaler}, single: append([]string{"False"}, two...), event: append([]string{"Warning"}, two...),
			ends: []string{"Block", v1alpha1.ReasonTwoScalers, theAutoscaler}, writes: map[string]int{autoscalersRoot: 1},
		},
	}
}

func (h *held) podsOf(ctx context.Context, t *testing.T, namespace, app string) int {
	t.Helper()
	var pods corev1.PodList
	do(t, h.scene.Client.List(ctx, &pods, client.InNamespace(namespace), client.MatchingLabels{"app": app}))
	return len(pods.Items)
}

// secondAutoscaler has an election of its own, so castoff's hold of the first one's Lease does not concern it. Once castoff stopped it
// and holds its Lease too it is a standby.
func (h *held) secondAutoscaler() interference {
	key := client.ObjectKey{Namespace: elsewhere, Name: "second"}
	scaled := func(ctx context.Context, t *testing.T) {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
		do(t, h.scene.Client.Patch(ctx, d, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":1}}`))))
	}
	return interference{
		name: "SecondAutoscaler", harmless: true, brief: true, again: scaled,
		act: func(ctx context.Context, t *testing.T) {
			for _, object := range h.secondAutoscalersObjects(ctx, t, key) {
				if err := h.scene.Client.Create(ctx, object); !apierrors.IsAlreadyExists(err) {
					do(t, err)
				}
			}
		},
		over: func(ctx context.Context, _ *testing.T) bool {
			var lease coordinationv1.Lease
			err := h.scene.Client.Get(ctx, client.ObjectKey{Namespace: elsewhere, Name: "cluster-autoscaler"}, &lease)
			return err == nil && ptr.Deref(lease.Spec.HolderIdentity, "") == v1alpha1.LeaseIdentity
		},
		undo: func(ctx context.Context, t *testing.T) {
			do(t, h.scene.Client.Delete(ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}))
		},
		seen: []string{"deployment/" + key.String()}, event: []string{"Warning", v1alpha1.ReasonTwoScalers, key.String(), "field manager tests"},
		ends: []string{"Warn", "AutoscalerStandby", "deployment/" + key.String()}, writes: map[string]int{"deployments " + key.String(): 1},
	}
}

// secondAutoscalersObjects are another team's installation, with all rights.
func (h *held) secondAutoscalersObjects(ctx context.Context, t *testing.T, key client.ObjectKey) []client.Object {
	t.Helper()
	var first appsv1.Deployment
	do(t, h.scene.Client.Get(ctx, autoscalerKey, &first))
	template := first.Spec.Template.DeepCopy()
	template.Labels = map[string]string{"app": key.Name}
	template.Spec.ServiceAccountName, template.Spec.DeprecatedServiceAccount = key.Name, ""
	template.Spec.Containers[0].Args = append(template.Spec.Containers[0].Args, "--namespace="+key.Namespace)
	named := metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}
	return []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: key.Namespace}},
		&corev1.ServiceAccount{ObjectMeta: named},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "second-autoscaler"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: key.Namespace, Name: key.Name}},
		},
		&appsv1.Deployment{ObjectMeta: named, Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](1), Selector: &metav1.LabelSelector{MatchLabels: template.Labels}, Template: *template,
		}},
	}
}

// leaseTaken is by somebody who writes Cluster Autoscaler's Lease as a leader that nobody sees would.
func (h *held) leaseTaken() interference {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: autoscalerKey.Namespace, Name: autoscalerKey.Name}}
	takes := func(ctx context.Context, t *testing.T) {
		now := time.Now().UTC().Format("2006-01-02T15:04:05.000000Z07:00")
		do(t, h.scene.Client.Patch(ctx, lease.DeepCopy(), client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"holderIdentity":"thief","renewTime":%q}}`, now))))
	}
	return interference{
		name: "LeaseTaken", act: takes, again: takes,
		undo: func(ctx context.Context, t *testing.T) {
			do(t, h.scene.Client.Patch(ctx, lease.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"holderIdentity":""}}`))))
		},
		seen: []string{"LeaseTaken", "lease/" + autoscalerKey.String()}, brief: true, event: []string{"Warning", v1alpha1.ReasonTwoScalers, "thief", autoscalerKey.String(), "field manager tests"},
		ends: []string{"Block", "LeaseTaken"}, writes: map[string]int{"leases " + autoscalerKey.String(): 3}, // twice against the thief, once when it lets go
	}
}

// secondKarpenter is known by its image. That it would launch is not needed to be in the way.
func (h *held) secondKarpenter() interference {
	named := metav1.ObjectMeta{Namespace: elsewhere, Name: "karpenter"}
	labels := map[string]string{"app": "second-karpenter"}
	return interference{
		name: "SecondKarpenter",
		act: func(ctx context.Context, t *testing.T) {
			if err := h.scene.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: elsewhere}}); !apierrors.IsAlreadyExists(err) {
				do(t, err)
			}
			do(t, h.scene.Client.Create(ctx, &appsv1.Deployment{ObjectMeta: named, Spec: appsv1.DeploymentSpec{
				Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
					NodeSelector: map[string]string{"eks.amazonaws.com/nodegroup": harbor.Home},
					Containers:   []corev1.Container{{Name: "controller", Image: "registry.example.com/karpenter/controller:1.14.1"}},
				}},
			}}))
		},
		undo: func(ctx context.Context, t *testing.T) {
			do(t, h.scene.Client.Delete(ctx, &appsv1.Deployment{ObjectMeta: named}))
		},
		seen:   []string{"Block", "ForeignKarpenter", "deployment/elsewhere/karpenter"},
		single: []string{"False", v1alpha1.ReasonTwoScalers, "elsewhere/karpenter", "field manager tests"}, event: []string{"Warning", v1alpha1.ReasonTwoScalers, "elsewhere/karpenter", "field manager tests"},
		writes: map[string]int{"deployments elsewhere/karpenter": 0},
	}
}

func (h *held) nodePool(ctx context.Context, t *testing.T, name string) *unstructured.Unstructured {
	t.Helper()
	np := &unstructured.Unstructured{}
	np.SetAPIVersion("karpenter.sh/v1")
	np.SetKind("NodePool")
	do(t, h.scene.Client.Get(ctx, client.ObjectKey{Name: name}, np))
	return np
}

// heavierNodePool is a user's, like that of the pool that is being drained but for its weight.
func (h *held) heavierNodePool(pool string) interference {
	const name = "theirs"
	return interference{
		name: "HeavierNodePool",
		act: func(ctx context.Context, t *testing.T) {
			np := h.nodePool(ctx, t, pool)
			spec, _, _ := unstructured.NestedMap(np.Object, "spec")
			spec["weight"] = int64(50)
			labels, _, _ := unstructured.NestedMap(spec, "template", "metadata", "labels")
			delete(labels, v1alpha1.LabelPool)
			do(t, unstructured.SetNestedMap(spec, labels, "template", "metadata", "labels"))
			do(t, h.scene.Client.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": map[string]any{"name": name}, "spec": spec,
			}}))
		},
		undo:   func(ctx context.Context, t *testing.T) { do(t, h.scene.Client.Delete(ctx, h.nodePool(ctx, t, name))) },
		seen:   []string{"Block", "HeavierNodePool", "nodepool/" + name},
		single: []string{"False", v1alpha1.ReasonTwoScalers, "NodePool " + name, "weight 50"}, event: []string{"Warning", v1alpha1.ReasonTwoScalers, "NodePool " + name, "field manager tests"},
		forgives: []string{"instances ended with pods on them"}, // whoever deletes a NodePool ends its nodes
	}
}

// nodePoolDeleted takes its nodes along: Karpenter drains them, and castoff waits for that.
func (h *held) nodePoolDeleted(pool string) interference {
	var uids []types.UID
	return interference{
		name: "NodePoolDeleted", brief: true, harmless: true,
		act: func(ctx context.Context, t *testing.T) {
			uids = h.claims(ctx, t, pool)
			if len(uids) == 0 {
				t.Error("the NodePool has no node yet, so nothing goes with it")
			}
			h.letGo(ctx, t, 4) // Karpenter's drains keep to the budgets, too
			do(t, h.scene.Client.Delete(ctx, h.nodePool(ctx, t, pool)))
		},
		over: func(ctx context.Context, t *testing.T) bool {
			left := h.claims(ctx, t, pool)
			return !slices.ContainsFunc(uids, func(u types.UID) bool { return slices.Contains(left, u) })
		},
		undo: func(ctx context.Context, t *testing.T) { h.letGo(ctx, t, 1) },
		seen: []string{"NodePoolDeleted", "nodepool/" + pool}, event: []string{"Warning", v1alpha1.ReasonNoScaler, pool},
		writes: map[string]int{"nodepools " + pool: 2}, forgives: []string{"instances ended with pods on them"},
	}
}

// claims are the NodeClaims of the NodePool.
func (h *held) claims(ctx context.Context, t *testing.T, pool string) (uids []types.UID) {
	t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("karpenter.sh/v1")
	list.SetKind("NodeClaimList")
	do(t, h.scene.Client.List(ctx, list, client.MatchingLabels{"karpenter.sh/nodepool": pool}))
	for _, c := range list.Items {
		uids = append(uids, c.GetUID())
	}
	return uids
}

// secondMigration of the same cluster does nothing, says which one acts, and leaves that one alone.
func (h *held) secondMigration(ctx context.Context, t *testing.T) {
	g := NewWithT(t)
	second := migration()
	second.SetName("second")
	second.Object["spec"] = map[string]any{"clusterName": harbor.Cluster}
	do(t, h.scene.Client.Create(ctx, second))
	began := time.Now()
	g.Eventually(ctx, func() string {
		do(t, h.scene.Client.Get(ctx, client.ObjectKeyFromObject(second), second))
		conditions, _, _ := unstructured.NestedSlice(second.Object, "status", "conditions")
		return fmt.Sprint(conditions)
	}, atOnce, "100ms").Should(And(ContainSubstring(v1alpha1.ReasonAnotherMigrationActive), ContainSubstring("Migration harbor is older")), "the second names the first")
	t.Logf("named after %.1f s", time.Since(began).Seconds())
	g.Eventually(ctx, func() []string { return h.events(ctx, t, began) }, atOnce, "300ms").Should(haveLine("Warning", v1alpha1.ReasonAnotherMigrationActive, "migration/harbor"), "an event names it")
	h.letGo(ctx, t, 1)
	h.goesOn(ctx, t, nextPod)
	h.letGo(ctx, t, 0)
	do(t, h.scene.Client.Delete(ctx, second))
	g.Eventually(ctx, func() bool {
		return apierrors.IsNotFound(h.scene.Client.Get(ctx, client.ObjectKeyFromObject(second), second))
	}, "30s", "300ms").Should(BeTrue(), "it goes without a trace")
}
