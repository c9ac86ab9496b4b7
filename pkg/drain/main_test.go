package drain

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/e2e/envtest"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

var cluster *envtest.Cluster

func TestMain(m *testing.M) {
	os.Exit(envtest.Main(m.Run, func(c *envtest.Cluster) { cluster = c }))
}

var now = time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)

func clock() time.Time { return now }

// node that a drain has begun on.
func begunNode(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{v1alpha1.AnnotationDraining: "2026-05-04T03:00:00Z"}}}
}

// pod of a ReplicaSet, running and Ready on node "old".
func pod(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, UID: types.UID(name + "-uid"), Labels: map[string]string{"app": "web"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-1", UID: "rs", Controller: ptr.To(true)}},
		},
		Spec: corev1.PodSpec{NodeName: "old", Containers: []corev1.Container{{Name: "main", Image: "example.com/web"}}},
		Status: corev1.PodStatus{
			Phase:      corev1.PodRunning,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

func ownedBy(apiVersion, kind string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.OwnerReferences[0].APIVersion, p.OwnerReferences[0].Kind = apiVersion, kind }
}

func annotated(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Annotations = with(p.Annotations, key, value) }
}

func inPhase(phase corev1.PodPhase) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Phase = phase }
}

func bare(p *corev1.Pod) { p.OwnerReferences = nil }

func notReady(p *corev1.Pod) { p.Status.Conditions = nil }

// budget selects app=web; with allowed pods that may go.
func budget(name string, allowed int32) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: ptr.To(intstr.FromInt32(1)),
			Selector:       &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		},
		Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed, CurrentHealthy: 3, DesiredHealthy: 2, ExpectedPods: 3},
	}
}

// faked is a fake API server that finds pods by node, as the real one does.
func faked(funcs interceptor.Funcs, objects ...client.Object) client.WithWatch {
	return fake.NewClientBuilder().
		WithObjects(objects...).
		WithIndex(&corev1.Pod{}, nodeNameField, nodeOf).
		WithInterceptorFuncs(funcs).
		Build()
}

func nodeOf(object client.Object) []string {
	if p, ok := object.(*corev1.Pod); ok {
		return []string{p.Spec.NodeName}
	}
	return nil
}

// evictions answers every eviction with answer, and notes what was asked.
func evictions(asked *[]policyv1.Eviction, answer func(pod string) error) interceptor.Funcs {
	return interceptor.Funcs{SubResourceCreate: func(_ context.Context, _ client.Client, _ string, object, body client.Object, _ ...client.SubResourceCreateOption) error {
		eviction, ok := body.(*policyv1.Eviction)
		if !ok {
			return fmt.Errorf("not policy/v1: %T", body)
		}
		*asked = append(*asked, *eviction)
		return answer(object.GetName())
	}}
}

// passesAllowing makes passes with that allowance.
func passesAllowing(d *Drainer, allow inventory.DrainAllowance) func(context.Context, string) (inventory.DrainState, error) {
	return func(ctx context.Context, node string) (inventory.DrainState, error) { return d.Pass(ctx, node, allow) }
}
