package castandin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
)

var start = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// fakeCloud holds groups; a group grows and shrinks, its instances do not come by themselves.
type fakeCloud struct {
	groups []Group
	node   *corev1.Node // the template of every group
	calls  []string
}

func (c *fakeCloud) Groups(context.Context) ([]Group, error) {
	c.calls = append(c.calls, "Groups")
	out := make([]Group, len(c.groups))
	for i, g := range c.groups {
		g.Instances = append([]string(nil), g.Instances...)
		out[i] = g
	}
	return out, nil
}

func (c *fakeCloud) SetDesired(_ context.Context, group string, size int) error {
	for i := range c.groups {
		if c.groups[i].Name == group {
			c.groups[i].Desired = size
		}
	}
	c.calls = append(c.calls, fmt.Sprintf("SetDesired %s %d", group, size))
	return nil
}

func (c *fakeCloud) Terminate(_ context.Context, id string) error {
	c.calls = append(c.calls, "Terminate "+id)
	return nil
}

func (c *fakeCloud) Template(context.Context, Group) (*corev1.Node, error) {
	if c.node == nil {
		return nil, errors.New("no template")
	}
	return c.node, nil
}

// writes are the calls that changed something.
func (c *fakeCloud) writes() []string {
	var writes []string
	for _, call := range c.calls {
		if call != "Groups" {
			writes = append(writes, call)
		}
	}
	return writes
}

// clock is moved by hand.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

type stage struct {
	*Autoscaler
	cloud *fakeCloud
	clock *clock
	kube  *fake.Clientset
}

func newStage(t *testing.T, flags string, cloud *fakeCloud, objects ...runtime.Object) *stage {
	t.Helper()
	opts, _, err := ParseOptions(strings.Fields(flags))
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{cloud: cloud, clock: &clock{at: start}, kube: fake.NewClientset(objects...)}
	s.Autoscaler, err = New(opts, s.kube, cloud, slog.New(slog.DiscardHandler), s.clock.now)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *stage) scan(t *testing.T) {
	t.Helper()
	if err := s.RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func (s *stage) node(t *testing.T, name string) *corev1.Node {
	t.Helper()
	node, err := s.kube.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return node
}

type nodeOption func(*corev1.Node)

// node is ready, ten minutes old, has 4 CPUs and is the instance i-<name>.
func node(name string, options ...nodeOption) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}, Annotations: map[string]string{}, CreationTimestamp: metav1.NewTime(start.Add(-10 * time.Minute))},
		Spec:       corev1.NodeSpec{ProviderID: "aws:///us-east-1a/i-" + name},
		Status: corev1.NodeStatus{
			Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("16Gi"), corev1.ResourcePods: resource.MustParse("58")},
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
	for _, option := range options {
		option(n)
	}
	return n
}

func tainted(key string, effect corev1.TaintEffect) nodeOption {
	return func(n *corev1.Node) {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Value: "true", Effect: effect})
	}
}

func cordoned(n *corev1.Node) { n.Spec.Unschedulable = true }
func notReady(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionFalse }
func aged(age time.Duration) nodeOption {
	return func(n *corev1.Node) { n.CreationTimestamp = metav1.NewTime(start.Add(-age)) }
}

type podOption func(*corev1.Pod)

// pod asks for that much CPU and belongs to a ReplicaSet.
func pod(name, cpu string, options ...podOption) *corev1.Pod {
	yes := true
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "shop", Annotations: map[string]string{},
			OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "rs", UID: "rs", Controller: &yes}}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}}}},
	}
	for _, option := range options {
		option(p)
	}
	return p
}

func on(node string) podOption { return func(p *corev1.Pod) { p.Spec.NodeName = node } }
func pending(p *corev1.Pod) {
	p.Status.Phase = corev1.PodPending
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
}
func priority(value int32) podOption { return func(p *corev1.Pod) { p.Spec.Priority = &value } }
func ownedByKind(k string) podOption { return func(p *corev1.Pod) { p.OwnerReferences[0].Kind = k } }
func bare(p *corev1.Pod)             { p.OwnerReferences = nil }
func safe(value string) podOption {
	return func(p *corev1.Pod) { p.Annotations[annotationSafe] = value }
}
func namespace(name string) podOption { return func(p *corev1.Pod) { p.Namespace = name } }
