package controllers

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
)

func testNode(change ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{}},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
	for _, f := range change {
		f(n)
	}
	return n
}

func karpenters(n *corev1.Node) { n.Labels[karpv1.NodePoolLabelKey] = "general" }

func TestLegacyNodesPredicate(t *testing.T) {
	cases := map[string]struct {
		reason        string
		before, after client.Object
		want          bool
	}{
		"Cordoned":   {reason: "somebody cordoned it", before: testNode(), after: testNode(func(n *corev1.Node) { n.Spec.Unschedulable = true }), want: true},
		"Uncordoned": {reason: "somebody lifted castoff's cordon", before: testNode(func(n *corev1.Node) { n.Spec.Unschedulable = true }), after: testNode(), want: true},
		"Tainted":    {reason: "a taint came", before: testNode(), after: testNode(func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "k"}} }), want: true},
		"NotReady":   {reason: "the kubelet is silent", before: testNode(), after: testNode(func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown }), want: true},
		"Heartbeat": {
			reason: "every node, every few minutes: nothing to decide", before: testNode(),
			after: testNode(func(n *corev1.Node) {
				n.ResourceVersion, n.Status.Conditions[0].LastHeartbeatTime = "2", metav1.Now()
			}),
		},
		"Allocatable": {reason: "nor is what the node has room for", before: testNode(), after: testNode(func(n *corev1.Node) { n.Status.Allocatable = corev1.ResourceList{} })},
		"Karpenters":  {reason: "Karpenter's nodes are Karpenter's business", before: testNode(karpenters), after: testNode(karpenters, func(n *corev1.Node) { n.Spec.Unschedulable = true })},
		"NoNode":      {reason: "what is no node is not read as one", before: &corev1.Pod{}, after: testNode()},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := legacyNodes().Update(event.UpdateEvent{ObjectOld: tc.before, ObjectNew: tc.after}); got != tc.want {
				t.Errorf("%s: %t, want %t", tc.reason, got, tc.want)
			}
		})
	}
	for name, tc := range map[string]struct {
		reason string
		node   *corev1.Node
		want   bool
	}{
		"Legacy":     {"a late joiner has to be fenced, and one that goes is counted", testNode(), true},
		"Karpenters": {"Karpenter's come and go all day", testNode(karpenters), false},
	} {
		t.Run(name+"ComesAndGoes", func(t *testing.T) {
			if got := legacyNodes().Create(event.CreateEvent{Object: tc.node}); got != tc.want {
				t.Errorf("%s: coming %t, want %t", tc.reason, got, tc.want)
			}
			if got := legacyNodes().Delete(event.DeleteEvent{Object: tc.node}); got != tc.want {
				t.Errorf("%s: going %t, want %t", tc.reason, got, tc.want)
			}
		})
	}
}

func TestScalersPredicate(t *testing.T) {
	scaler := func(replicas int32, change ...func(*appsv1.Deployment)) *appsv1.Deployment {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "ca", Generation: int64(replicas)}, Spec: appsv1.DeploymentSpec{Replicas: &replicas}}
		d.Spec.Template.Spec.Containers = []corev1.Container{{Image: "registry.k8s.io/autoscaling/cluster-autoscaler:v1.33.0"}}
		for _, f := range change {
			f(d)
		}
		return d
	}
	web := func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "example.com/web" }
	cases := map[string]struct {
		reason        string
		before, after client.Object
		want          bool
	}{
		"Scaled":   {"somebody starts it again", scaler(0), scaler(1), true},
		"Gone":     {"its last pod is gone", scaler(0, func(d *appsv1.Deployment) { d.Status.Replicas = 1 }), scaler(0), true},
		"Became":   {"a Deployment that runs it from now on", scaler(1, web), scaler(2), true},
		"Status":   {"that its pod is Ready decides nothing", scaler(1), scaler(1, func(d *appsv1.Deployment) { d.Status.ReadyReplicas = 1 }), false},
		"Another":  {"other Deployments roll all day", scaler(1, web), scaler(2, web), false},
		"NoScaler": {"what has no pods of its own is none", &corev1.Pod{}, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Generation: 2}}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := scalers().Update(event.UpdateEvent{ObjectOld: tc.before, ObjectNew: tc.after}); got != tc.want {
				t.Errorf("%s: %t, want %t", tc.reason, got, tc.want)
			}
		})
	}
	for name, d := range map[string]*appsv1.Deployment{"Scaler": scaler(1), "Web": scaler(1, web)} {
		want := name == "Scaler"
		if got := scalers().Create(event.CreateEvent{Object: d}); got != want {
			t.Errorf("%s comes: %t, want %t", name, got, want)
		}
		if got := scalers().Delete(event.DeleteEvent{Object: d}); got != want {
			t.Errorf("%s goes: %t, want %t", name, got, want)
		}
	}
}

func TestMoreRoomPredicate(t *testing.T) {
	budget := func(allowed int32) *policyv1.PodDisruptionBudget {
		return &policyv1.PodDisruptionBudget{Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed}}
	}
	cases := map[string]struct {
		reason        string
		before, after client.Object
		want          bool
	}{
		"More":     {reason: "a pod that waited may go", before: budget(0), after: budget(1), want: true},
		"Less":     {reason: "castoff's own eviction took it", before: budget(1), after: budget(0)},
		"Same":     {reason: "nothing to decide", before: budget(1), after: budget(1)},
		"NoBudget": {reason: "what is no budget is not read as one", before: &corev1.Pod{}, after: budget(1)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := moreRoom().Update(event.UpdateEvent{ObjectOld: tc.before, ObjectNew: tc.after}); got != tc.want {
				t.Errorf("%s: %t, want %t", tc.reason, got, tc.want)
			}
		})
	}
	if moreRoom().Create(event.CreateEvent{Object: budget(1)}) {
		t.Error("a new budget gives no room")
	}
	if !moreRoom().Delete(event.DeleteEvent{Object: budget(0)}) {
		t.Error("a budget that goes does")
	}
}

func TestWhoIsWoken(t *testing.T) {
	w := newWorld(t)
	add := func(name string, ready metav1.ConditionStatus) {
		w.must(w.c.Create(t.Context(), &v1alpha1.Migration{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Status:     v1alpha1.MigrationStatus{Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: ready}}},
		}))
	}
	add("done", metav1.ConditionTrue)
	add("running", metav1.ConditionFalse)
	w.must(w.c.Create(t.Context(), &v1alpha1.Migration{ObjectMeta: metav1.ObjectMeta{Name: "new"}}))
	request := func(names ...string) (out []reconcile.Request) {
		for _, n := range names {
			out = append(out, reconcile.Request{NamespacedName: types.NamespacedName{Name: n}})
		}
		return out
	}
	r := w.reconciler()
	if diff := cmp.Diff(request("done", "new", "running"), r.every(t.Context(), testNode())); diff != "" {
		t.Errorf("by a node, a finished one too: a group that came back has to be seen (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(request("new", "running"), r.unfinished(t.Context(), nil)); diff != "" {
		t.Errorf("by a budget, who still evicts (-want +got)\n%s", diff)
	}
	w.c.refuse = func(string, any) error { return errors.New("the cache is not there yet") }
	if got := r.every(t.Context(), testNode()); got != nil {
		t.Errorf("without an answer: %v", got)
	}
}
