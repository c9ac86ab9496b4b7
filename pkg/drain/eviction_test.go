package drain

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// The tests of this file are against the real API server: what it answers is what counts.

func withWatch(t *testing.T) client.WithWatch {
	t.Helper()
	c, err := client.NewWithWatch(cluster.Config, client.Options{})
	if err != nil {
		t.Fatalf("building a client: %v", err)
	}
	return c
}

func createNode(t *testing.T, s shape) string {
	t.Helper()
	node := s.node("")
	node.GenerateName = "node-"
	if err := cluster.Client.Create(t.Context(), node); err != nil {
		t.Fatalf("creating a node: %v", err)
	}
	t.Cleanup(func() {
		if err := cluster.Client.Delete(context.WithoutCancel(t.Context()), node); err != nil {
			t.Errorf("deleting %s: %v", node.Name, err)
		}
	})
	return node.Name
}

func getNode(t *testing.T, name string) *corev1.Node {
	t.Helper()
	node := new(corev1.Node)
	if err := cluster.Client.Get(t.Context(), client.ObjectKey{Name: name}, node); err != nil {
		t.Fatalf("reading node %s: %v", name, err)
	}
	return node
}

// shop is a namespace with pods on a node whose drain has begun.
type shop struct {
	t         *testing.T
	namespace string
	node      string
}

func newShop(t *testing.T) *shop {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "shop-"}}
	if err := cluster.Client.Create(t.Context(), namespace); err != nil {
		t.Fatalf("creating a namespace: %v", err)
	}
	// The API server's clock is not the tests': the pods of the shop were there before the drain.
	later := begun
	later.Annotations = with(later.Annotations, v1alpha1.AnnotationDraining, "2100-01-01T00:00:00Z")
	return &shop{t: t, namespace: namespace.Name, node: createNode(t, later)}
}

// run creates a pod that runs on the node, and gives it as it is stored.
func (s *shop) run(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	s.t.Helper()
	p := pod(name, change...)
	p.Namespace, p.UID, p.Spec.NodeName = s.namespace, "", s.node
	status := p.Status
	if err := cluster.Client.Create(s.t.Context(), p); err != nil {
		s.t.Fatalf("creating pod %s: %v", name, err)
	}
	p.Status = status
	if err := cluster.Client.Status().Update(s.t.Context(), p); err != nil {
		s.t.Fatalf("starting pod %s: %v", name, err)
	}
	return p
}

// protect creates a budget, whose controller saw it and allows so many evictions.
func (s *shop) protect(name string, allowed int32, change ...func(*policyv1.PodDisruptionBudget)) {
	s.t.Helper()
	b := budget(name, allowed)
	b.Namespace = s.namespace
	for _, c := range change {
		c(b)
	}
	status := b.Status
	if err := cluster.Client.Create(s.t.Context(), b); err != nil {
		s.t.Fatalf("creating budget %s: %v", name, err)
	}
	b.Status = status
	b.Status.ObservedGeneration = b.Generation
	if err := cluster.Client.Status().Update(s.t.Context(), b); err != nil {
		s.t.Fatalf("allowing %d in budget %s: %v", allowed, name, err)
	}
}

func (s *shop) name(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: s.namespace, Name: name}
}

func (s *shop) pass() inventory.DrainState {
	s.t.Helper()
	state, err := New(cluster.Client, cluster.Client, clock).Pass(s.t.Context(), s.node, inventory.DrainAllowance{})
	if err != nil {
		s.t.Fatalf("Pass: %v", err)
	}
	return state
}

// terminating lists the pods that were evicted and wait for a kubelet, which there is none of.
func (s *shop) terminating() []string {
	s.t.Helper()
	list := new(corev1.PodList)
	if err := cluster.Client.List(s.t.Context(), list, client.InNamespace(s.namespace)); err != nil {
		s.t.Fatalf("listing pods: %v", err)
	}
	names := []string{}
	for _, p := range list.Items {
		if p.DeletionTimestamp != nil {
			names = append(names, p.Name)
		}
	}
	slices.Sort(names)
	return names
}

func (s *shop) check(reason string, got inventory.DrainState, evictable int, evicted []string, blocked ...inventory.BlockedPod) {
	s.t.Helper()
	want := inventory.DrainState{Node: s.node, Evictable: evictable, Blocked: blocked}
	if diff := cmp.Diff(want, got, ignoreMessages); diff != "" {
		s.t.Errorf("%s: -want +got:\n%s", reason, diff)
	}
	if diff := cmp.Diff(evicted, s.terminating()); diff != "" {
		s.t.Errorf("%s: evicted: -want +got:\n%s", reason, diff)
	}
}

func TestEvictionWithoutABudget(t *testing.T) {
	s := newShop(t)
	s.run("a")
	s.run("daemon", ownedBy("apps/v1", "DaemonSet"))
	s.run("debug", bare)
	s.check("a DaemonSet's pod and a bare one stay", s.pass(), 2, []string{"a"},
		inventory.BlockedPod{Pod: s.name("debug"), Reason: inventory.BlockedBare})

	evicted := new(corev1.Pod)
	if err := cluster.Client.Get(t.Context(), s.name("a"), evicted); err != nil {
		t.Fatal(err)
	}
	if got := ptr.Deref(evicted.DeletionGracePeriodSeconds, 0); got != 30 {
		t.Errorf("want the pod's own grace period of 30 s, got %d", got)
	}
	s.check("the second pass waits for the first one's", s.pass(), 2, []string{"a"},
		inventory.BlockedPod{Pod: s.name("a"), Reason: inventory.BlockedTerminating},
		inventory.BlockedPod{Pod: s.name("debug"), Reason: inventory.BlockedBare})
}

func TestEvictionHonoursABudget(t *testing.T) {
	s := newShop(t)
	s.run("a")
	s.run("b")
	s.run("c")
	s.protect("web", 1)
	held := func(name string) inventory.BlockedPod {
		return inventory.BlockedPod{Pod: s.name(name), Reason: inventory.BlockedByPDB, PDBs: []types.NamespacedName{s.name("web")}}
	}
	s.check("one may go", s.pass(), 3, []string{"a"}, held("b"), held("c"))
	s.check("and no other until the budget's controller says so", s.pass(), 3, []string{"a"},
		inventory.BlockedPod{Pod: s.name("a"), Reason: inventory.BlockedTerminating}, held("b"), held("c"))
}

func TestEvictionWithTwoBudgets(t *testing.T) {
	s := newShop(t)
	s.run("a")
	s.run("starting", inPhase(corev1.PodPending))
	s.protect("web", 5)
	s.protect("web-too", 5)
	s.check("the API server refuses with a 500, but not for a pod that does not run yet", s.pass(), 2, []string{"starting"},
		inventory.BlockedPod{Pod: s.name("a"), Reason: inventory.BlockedByTwoPDBs,
			PDBs: []types.NamespacedName{s.name("web"), s.name("web-too")}})
}

func TestEvictionOfAnUnhealthyPod(t *testing.T) {
	s := newShop(t)
	s.run("crashing", notReady)
	s.run("serving")
	s.protect("web", 0, func(b *policyv1.PodDisruptionBudget) {
		b.Spec.UnhealthyPodEvictionPolicy = ptr.To(policyv1.AlwaysAllow)
	})
	s.check("a budget may let go what does not serve", s.pass(), 2, []string{"crashing"},
		inventory.BlockedPod{Pod: s.name("serving"), Reason: inventory.BlockedByPDB, PDBs: []types.NamespacedName{s.name("web")}})
}

func TestEvictionWhileTheDisruptionControllerIsBehind(t *testing.T) {
	s := newShop(t)
	s.run("a")
	s.protect("web", 5)
	b := new(policyv1.PodDisruptionBudget)
	if err := cluster.Client.Get(t.Context(), s.name("web"), b); err != nil {
		t.Fatal(err)
	}
	b.Spec.MaxUnavailable.IntVal = 2
	if err := cluster.Client.Update(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	s.check("an old count is none", s.pass(), 1, []string{},
		inventory.BlockedPod{Pod: s.name("a"), Reason: inventory.BlockedByPDB, PDBs: []types.NamespacedName{s.name("web")}})
}

func TestEvictionOfANamesake(t *testing.T) {
	s := newShop(t)
	old := s.run("db-0")
	if err := cluster.Client.Delete(t.Context(), old.DeepCopy(), client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	s.run("db-0") // its controller was faster than the pass
	p := New(cluster.Client, cluster.Client, clock).newPass(getNode(t, s.node), inventory.DrainAllowance{})
	gone, reason, err := p.step(t.Context(), old)
	if gone || reason != nil || err != nil {
		t.Errorf("want nothing said of a conflict, got %t, %+v, %v", gone, reason, err)
	}
	if evicted := s.terminating(); len(evicted) != 0 {
		t.Errorf("the new pod was evicted in the old one's place: %v", evicted)
	}

	missing := old.DeepCopy()
	missing.Name = "db-1"
	if gone, reason, err := p.step(t.Context(), missing); !gone || reason != nil || err != nil {
		t.Errorf("want a pod that is gone, got %t, %+v, %v", gone, reason, err)
	}
}

func TestEvictionNeverForces(t *testing.T) {
	s := newShop(t)
	s.run("abrupt", func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](0) })
	s.check("it waits for its kubelet, though it asks for grace 0", s.pass(), 1, []string{"abrupt"})
}

func TestEvictionInANamespaceThatIsDeleted(t *testing.T) {
	s := newShop(t)
	s.run("a")
	if err := cluster.Client.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}); err != nil {
		t.Fatal(err)
	}
	got := s.pass()
	if got.Evictable != 1 {
		t.Errorf("the pod is on the node still, got %+v", got)
	}
	for _, b := range got.Blocked {
		if b.Reason != inventory.BlockedTerminating {
			t.Errorf("want its namespace's end to be the reason, got %+v", b)
		}
	}
}

func TestEvictionIsRefusedBeforeBegin(t *testing.T) {
	s := newShop(t)
	s.run("a")
	node := getNode(t, s.node)
	delete(node.Annotations, v1alpha1.AnnotationDraining)
	if err := cluster.Client.Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	if _, err := New(cluster.Client, cluster.Client, clock).Pass(t.Context(), s.node, inventory.DrainAllowance{}); err == nil || apierrors.IsConflict(err) {
		t.Errorf("want a refusal, got %v", err)
	}
	if evicted := s.terminating(); len(evicted) != 0 {
		t.Errorf("evicted all the same: %v", evicted)
	}
}

// TestMorePodsThanAPage: the instance of a node that is listed by half would end under the other half.
func TestMorePodsThanAPage(t *testing.T) {
	s := newShop(t)
	for i := range pageSize + 3 {
		s.run(fmt.Sprintf("web-%03d", i))
	}
	got, err := New(cluster.Client, cluster.Client, clock).State(t.Context(), s.node)
	if err != nil || got.Evictable != pageSize+3 {
		t.Errorf("want all %d pods, got %d, %v", pageSize+3, got.Evictable, err)
	}
}

// TestEvictionWithoutTheRight is as a user that may read all and evict nothing.
func TestEvictionWithoutTheRight(t *testing.T) {
	s := newShop(t)
	s.run("a")
	config := rest.CopyConfig(cluster.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "castoff-without-rights"}
	powerless, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d := New(readsAs{powerless, cluster.Client}, cluster.Client, clock)
	got, err := d.Pass(t.Context(), s.node, inventory.DrainAllowance{})
	if inventory.ClassOf(err) != inventory.ClassTerminal || !strings.Contains(err.Error(), "must allow the verb create on pods/eviction") {
		t.Errorf("want a terminal error that names the right, got %v", err)
	}
	s.check("nothing was evicted", got, 1, []string{})
	if err := d.Fence(t.Context(), s.node, "other"); inventory.ClassOf(err) != inventory.ClassTerminal {
		t.Errorf("want a terminal error, got %v", err)
	}
}

// readsAs writes as one user and lists as another.
type readsAs struct {
	client.Client
	reader client.Reader
}

func (r readsAs) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return r.reader.List(ctx, list, opts...)
}
