package watcher

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/awslabs/operatorpkg/status"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/e2e/awssim/simapi"
)

const castoffUser = "system:serviceaccount:castoff-system:castoff"

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// second is a moment after noon.
func second(s float64) time.Time { return noon.Add(time.Duration(s * float64(time.Second))) }

// seen is one observation of a story.
type seen struct {
	at   float64
	what any
}

// tell feeds a story to a fresh judge and asks for the report at its end.
func tell(t *testing.T, end float64, story ...seen) Report {
	t.Helper()
	j := judgeOf(t, story...)
	return j.Report(second(end))
}

func judgeOf(t *testing.T, story ...seen) *Judge {
	t.Helper()
	j := NewJudge(Config{
		Pools: map[string]string{"general": "general", "batch": "batch"}, Home: "system", CastoffRole: "castoff",
		Limits: Limits{Unserved: 20 * time.Second, DaemonSettle: 30 * time.Second},
	})
	last := 0.0
	for _, s := range story {
		if s.at < last {
			t.Fatalf("the story goes back from %v to %v", last, s.at)
		}
		last = s.at
		j.Observe(second(s.at), s.what)
	}
	return j
}

type change[T any] func(*T)

func apply[T any](object *T, changes []change[T]) *T {
	for _, c := range changes {
		c(object)
	}
	return object
}

// pod is a Ready pod of a ReplicaSet with the label app=<app>, bound to the node.
func pod(app, name, node string, changes ...change[corev1.Pod]) *corev1.Pod {
	yes := true
	return apply(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name), Labels: map[string]string{"app": app}, CreationTimestamp: metav1.NewTime(noon.Add(-time.Hour)),
			OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: app, Controller: &yes}}},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "main", Image: "example.com/shop/" + app + ":v1"}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}, changes)
}

func unready(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }
func inPhase(phase corev1.PodPhase) change[corev1.Pod] {
	return func(p *corev1.Pod) { p.Status.Phase = phase }
}
func labelled(key, value string) change[corev1.Pod] {
	return func(p *corev1.Pod) { p.Labels[key] = value }
}
func ownedBy(kind, name string) change[corev1.Pod] {
	return func(p *corev1.Pod) { p.OwnerReferences[0].Kind, p.OwnerReferences[0].Name = kind, name }
}

// leaving is being deleted since then with a grace period of 30 s.
func leaving(since float64) change[corev1.Pod] {
	return func(p *corev1.Pod) {
		at, grace := metav1.NewTime(second(since+30)), int64(30)
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &at, &grace
	}
}

// node is Ready and stands for the instance i-<name>.
func node(name string, changes ...change[corev1.Node]) *corev1.Node {
	return apply(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}},
		Spec:       corev1.NodeSpec{ProviderID: "aws:///us-east-1a/i-" + name},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}, changes)
}

func down(n *corev1.Node)     { n.Status.Conditions[0].Status = corev1.ConditionFalse }
func deleting(n *corev1.Node) { n.DeletionTimestamp = &metav1.Time{Time: noon} }
func cordoned(n *corev1.Node) { n.Spec.Unschedulable = true }
func tainted(key string, effect corev1.TaintEffect) change[corev1.Node] {
	return func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Effect: effect}) }
}

// instance runs node <name> in a group; without a group it is Karpenter's.
func instance(name, group string) simapi.Instance {
	return simapi.Instance{ID: "i-" + name, State: "running", AutoScalingGroup: group, PrivateDNSName: name}
}

func endedBy(who string, i simapi.Instance) simapi.Instance {
	i.State, i.EndedBy = "shutting-down", who
	return i
}

// claim is a NodeClaim whose instance runs node <node>.
func claim(name, node string, changes ...change[karpv1.NodeClaim]) *karpv1.NodeClaim {
	return apply(&karpv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status:     karpv1.NodeClaimStatus{NodeName: node, ProviderID: "aws:///us-east-1a/i-" + node},
	}, changes)
}

func goingSince(at float64) change[karpv1.NodeClaim] {
	return func(c *karpv1.NodeClaim) { c.DeletionTimestamp = &metav1.Time{Time: second(at)} }
}

// budget has a floor, as the disruption controller computed it.
func budget(app string, floor int32) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: app},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}},
		Status:     policyv1.PodDisruptionBudgetStatus{DesiredHealthy: floor},
	}
}

// audit is a finished request for a pod of the shop.
func audit(at float64, user, verb, pod string, changes ...change[AuditEvent]) AuditEvent {
	e := AuditEvent{AuditID: fmt.Sprint(at, user, verb, pod), Stage: stageComplete, RequestURI: "/api/v1/namespaces/shop/pods/" + pod, Verb: verb, StageTimestamp: second(at)}
	e.User.Username = user
	e.ObjectRef = &struct {
		Resource    string    `json:"resource"`
		Namespace   string    `json:"namespace"`
		Name        string    `json:"name"`
		UID         types.UID `json:"uid"`
		Subresource string    `json:"subresource"`
		APIGroup    string    `json:"apiGroup"`
	}{Resource: "pods", Namespace: "shop", Name: pod}
	e.ResponseStatus = &struct {
		Code int32 `json:"code"`
	}{Code: 200}
	if verb == "evict" {
		e.Verb, e.ObjectRef.Subresource = "create", "eviction"
	}
	return *apply(&e, changes)
}

func code(c int32) change[AuditEvent]     { return func(e *AuditEvent) { e.ResponseStatus.Code = c } }
func uri(u string) change[AuditEvent]     { return func(e *AuditEvent) { e.RequestURI = u } }
func stageOf(s string) change[AuditEvent] { return func(e *AuditEvent) { e.Stage = s } }
func of(resource, namespace string) change[AuditEvent] {
	return func(e *AuditEvent) { e.ObjectRef.Resource, e.ObjectRef.Namespace = resource, namespace }
}

// caPod is a pod of Cluster Autoscaler with those arguments.
func caPod(name string, args ...string) *corev1.Pod {
	p := pod("ca", name, "home")
	p.Namespace = "kube-system"
	p.Spec.Containers[0] = corev1.Container{Image: "registry.k8s.io/autoscaling/cluster-autoscaler:v1.34.0", Args: args}
	return p
}

func caDeployment(replicas int32) *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "cluster-autoscaler"}}
	d.Spec.Replicas = &replicas
	d.Spec.Template.Spec = caPod("template").Spec
	return d
}

func lease(holder string, renewed float64, seconds int32) *coordinationv1.Lease {
	at := metav1.NewMicroTime(second(renewed))
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "cluster-autoscaler"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &at, LeaseDurationSeconds: &seconds},
	}
}

func statusOf(groups ...string) *corev1.ConfigMap {
	text := "autoscalerStatus: Running\nnodeGroups:\n"
	for _, g := range groups {
		text += "- name: " + g + "\n"
	}
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "cluster-autoscaler-status"}, Data: map[string]string{"status": text}}
}

func nodePool(pool string, changes ...change[karpv1.NodePool]) *karpv1.NodePool {
	return apply(&karpv1.NodePool{
		ObjectMeta: metav1.ObjectMeta{Name: pool, Labels: map[string]string{v1alpha1.LabelPool: pool}},
		Status:     karpv1.NodePoolStatus{Conditions: []status.Condition{{Type: "Ready", Status: metav1.ConditionTrue}}},
	}, changes)
}

func notLaunching(p *karpv1.NodePool) {
	p.Spec.Limits = karpv1.Limits{corev1.ResourceCPU: resource.MustParse("0")}
}
func poolNotReady(p *karpv1.NodePool) { p.Status.Conditions[0].Status = metav1.ConditionFalse }

func daemonSet(changes ...change[appsv1.DaemonSet]) *appsv1.DaemonSet {
	return apply(&appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "agent"}}, changes)
}

func daemonPod(name, node string, changes ...change[corev1.Pod]) *corev1.Pod {
	return pod("agent", name, node, append([]change[corev1.Pod]{ownedBy("DaemonSet", "agent")}, changes...)...)
}

func migration(phase v1alpha1.Phase) *v1alpha1.Migration {
	return &v1alpha1.Migration{
		ObjectMeta: metav1.ObjectMeta{Name: "harbor", CreationTimestamp: metav1.NewTime(noon)},
		Status:     v1alpha1.MigrationStatus{Phase: phase},
	}
}
