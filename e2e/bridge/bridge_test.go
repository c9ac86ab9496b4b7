package bridge

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/castoff-sh/castoff/e2e/awssim/simapi"
)

// world is a simulator that lists what a test put in, and tells of no change but what the test sends as an event: what
// the bridge does after a restart or a lost event it must do from the list.
type world struct {
	*httptest.Server
	mu        sync.Mutex
	instances map[string]simapi.Instance
	settings  simapi.Settings
	events    chan simapi.Event // taken by whoever follows
}

func newWorld(t *testing.T, instances ...simapi.Instance) *world {
	w := &world{instances: map[string]simapi.Instance{}, events: make(chan simapi.Event)}
	for _, i := range instances {
		w.instances[i.ID] = i
	}
	mux := http.NewServeMux()
	mux.HandleFunc(simapi.PathSettings, func(out http.ResponseWriter, _ *http.Request) {
		w.mu.Lock()
		defer w.mu.Unlock()
		_ = json.NewEncoder(out).Encode(w.settings)
	})
	mux.HandleFunc(simapi.PathEvents, w.stream)
	mux.HandleFunc(simapi.PathInstances, func(out http.ResponseWriter, _ *http.Request) {
		w.mu.Lock()
		defer w.mu.Unlock()
		list := []simapi.Instance{}
		for _, i := range w.instances {
			list = append(list, i)
		}
		_ = json.NewEncoder(out).Encode(list)
	})
	w.Server = httptest.NewServer(mux)
	t.Cleanup(func() {
		w.CloseClientConnections()
		w.Close()
	})
	return w
}

func (w *world) stream(out http.ResponseWriter, r *http.Request) {
	for {
		select {
		case event := <-w.events:
			if json.NewEncoder(out).Encode(event) != nil || http.NewResponseController(out).Flush() != nil {
				return
			}
		case <-r.Context().Done():
			return
		}
	}
}

func (w *world) set(i simapi.Instance) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.instances[i.ID] = i
}

func newTestBridge(t *testing.T, w *world, client *fake.Clientset) *Bridge {
	t.Helper()
	b := New(Config{Client: client, Simulator: w.URL, JoinedFile: filepath.Join(t.TempDir(), "joined"), Log: slog.New(slog.DiscardHandler)})
	b.kubeletVersion = "v1.36.3"
	return b
}

// step looks at the world once and reconciles all of it, as often as it takes.
func step(ctx context.Context, g Gomega, b *Bridge) {
	g.Expect(b.resyncOnce(ctx)).To(Succeed())
	for id := range b.instances {
		for again := time.Duration(1); again > 0; {
			var err error
			again, err = b.reconcile(ctx, id)
			g.Expect(err).NotTo(HaveOccurred())
		}
	}
}

func nodeNames(ctx context.Context, g Gomega, client *fake.Clientset) []string {
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	names := []string{}
	for i := range nodes.Items {
		names = append(names, nodes.Items[i].Name)
	}
	return names
}

func TestReconcile(t *testing.T) {
	awsAuth := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "aws-auth"},
		Data:       map[string]string{"mapRoles": "- rolearn: arn:aws:iam::123456789012:role/nodes\n  groups: [system:nodes]\n"},
	}
	cases := map[string]struct {
		reason   string
		instance simapi.Instance
		awsAuth  bool
		want     int
	}{
		"Running":          {"joins", instance(nil), false, 1},
		"Pending":          {"does not run yet", instance(func(i *simapi.Instance) { i.State = "pending" }), false, 0},
		"OfNoCluster":      {"a plain instance", instance(func(i *simapi.Instance) { i.Cluster = "" }), false, 0},
		"Terminated":       {"never joined, leaves nothing", instance(func(i *simapi.Instance) { i.State = "terminated" }), false, 0},
		"ShuttingDown":     {"ended before it joined", instance(func(i *simapi.Instance) { i.State = "shutting-down" }), false, 0},
		"Unauthorised":     {"neither entry nor aws-auth", instance(func(i *simapi.Instance) { i.RoleAuthorised = false }), false, 0},
		"AuthorisedByMap":  {"aws-auth lets it in", instance(func(i *simapi.Instance) { i.RoleAuthorised = false }), true, 1},
		"BrokenUserData":   {"its kubelet never starts", instance(func(i *simapi.Instance) { i.UserData = "#!/bin/sh\nexit 1\n" }), false, 0},
		"NoUserData":       {"a self-managed node needs it", instance(func(i *simapi.Instance) { i.UserData = "" }), false, 0},
		"ManagedNodeGroup": {"EKS makes its user data", instance(func(i *simapi.Instance) { i.UserData, i.NodeGroup = "", "batch" }), false, 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			client := fake.NewClientset()
			if tc.awsAuth {
				client = fake.NewClientset(awsAuth)
			}
			b := newTestBridge(t, newWorld(t, tc.instance), client)
			step(t.Context(), g, b)
			step(t.Context(), g, b)
			g.Expect(nodeNames(t.Context(), g, client)).To(HaveLen(tc.want), tc.reason)
		})
	}
}

func TestAnInstanceLetInLaterJoins(t *testing.T) {
	g := NewWithT(t)
	client := fake.NewClientset()
	w := newWorld(t, instance(func(i *simapi.Instance) { i.RoleAuthorised = false }))
	b := newTestBridge(t, w, client)
	step(t.Context(), g, b)
	g.Expect(nodeNames(t.Context(), g, client)).To(BeEmpty())
	w.set(instance(nil))
	step(t.Context(), g, b)
	g.Expect(nodeNames(t.Context(), g, client)).To(HaveLen(1))
}

func TestNodeGoesWithItsInstance(t *testing.T) {
	g := NewWithT(t)
	ctx := t.Context()
	client := fake.NewClientset()
	w := newWorld(t, instance(nil))
	b := newTestBridge(t, w, client)
	step(ctx, g, b)
	name := instance(nil).PrivateDNSName
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "1"}, Spec: corev1.PodSpec{NodeName: name}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	_, err := client.CoreV1().Pods("shop").Create(ctx, pod, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())

	w.set(instance(func(i *simapi.Instance) { i.State = "shutting-down" }))
	step(ctx, g, b)
	node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(node.Annotations).To(HaveKey(AnnotationEnded))
	g.Expect(node.Status.Conditions).To(ConsistOf(And(HaveField("Status", corev1.ConditionUnknown), HaveField("Reason", ReasonEnded))))
	pod, err = client.CoreV1().Pods("shop").Get(ctx, "web", metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(pod.Status.Conditions).To(ConsistOf(And(HaveField("Status", corev1.ConditionFalse), HaveField("Reason", ReasonEnded))))

	w.set(instance(func(i *simapi.Instance) { i.State = "terminated" }))
	step(ctx, g, b)
	g.Expect(nodeNames(ctx, g, client)).To(BeEmpty())
	_, err = client.CoreV1().Pods("shop").Get(ctx, "web", metav1.GetOptions{})
	g.Expect(apierrors.IsNotFound(err)).To(BeTrue())
}

func TestARestartRepairsEverything(t *testing.T) {
	g := NewWithT(t)
	ctx := t.Context()
	client := fake.NewClientset()
	second := instance(func(i *simapi.Instance) {
		i.ID, i.PrivateDNSName, i.PrivateIP = "i-2", "ip-10-0-0-8.ec2.internal", "10.0.0.8"
	})
	w := newWorld(t, instance(nil), second)
	before := newTestBridge(t, w, client)
	step(ctx, g, before)
	g.Expect(nodeNames(ctx, g, client)).To(HaveLen(2))

	// While the bridge is away somebody deletes the first Node, the second instance ends, and a third runs.
	g.Expect(client.CoreV1().Nodes().Delete(ctx, instance(nil).PrivateDNSName, metav1.DeleteOptions{})).To(Succeed())
	second.State = "terminated"
	w.set(second)
	third := instance(func(i *simapi.Instance) {
		i.ID, i.PrivateDNSName, i.PrivateIP = "i-3", "ip-10-0-0-9.ec2.internal", "10.0.0.9"
	})
	w.set(third)
	after := newTestBridge(t, w, client)
	after.config.JoinedFile = before.config.JoinedFile
	g.Expect(after.readJoined()).To(Succeed())
	step(ctx, g, after)
	g.Expect(nodeNames(ctx, g, client)).To(ConsistOf(third.PrivateDNSName), "a kubelet whose Node was deleted does not register again")
}

func TestASimulatorThatForgotTakesItsNodesAway(t *testing.T) {
	g := NewWithT(t)
	ctx := t.Context()
	stranger := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "of-somebody-else"}}
	client := fake.NewClientset(stranger)
	w := newWorld(t, instance(nil))
	b := newTestBridge(t, w, client)
	step(ctx, g, b)
	g.Expect(nodeNames(ctx, g, client)).To(HaveLen(2))
	w.mu.Lock()
	clear(w.instances)
	w.mu.Unlock()
	step(ctx, g, b)
	g.Expect(nodeNames(ctx, g, client)).To(ConsistOf("of-somebody-else"))
}

func TestANameInUseIsWaitedFor(t *testing.T) {
	g := NewWithT(t)
	client := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: instance(nil).PrivateDNSName}, Spec: corev1.NodeSpec{ProviderID: "aws:///us-east-1a/i-0"}})
	b := newTestBridge(t, newWorld(t, instance(nil)), client)
	g.Expect(b.resyncOnce(t.Context())).To(Succeed())
	_, err := b.reconcile(t.Context(), "i-1")
	g.Expect(err).To(MatchError(errOtherInstance))
}

func TestBootDelay(t *testing.T) {
	launched := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	cases := map[string]struct {
		reason string
		at     time.Time
		want   time.Duration
	}{
		"JustRunning":      {"pending is over, it boots", launched.Add(10 * time.Second), 30 * time.Second},
		"HalfBooted":       {"seen late, as after a restart of the bridge", launched.Add(25 * time.Second), 15 * time.Second},
		"BootedLongAgo":    {"joins at once", launched.Add(time.Hour), 0},
		"ClockMovedBack":   {"never longer than the boot delay", launched.Add(-time.Hour), 30 * time.Second},
		"ClockIsNotKnown":  {"seen in the list", time.Time{}, 30 * time.Second},
		"JustBeforeItRuns": {"the event came early", launched.Add(9 * time.Second), 30 * time.Second},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := newTestBridge(t, newWorld(t), fake.NewClientset())
			b.bootDelay, b.pending = 30*time.Second, 10*time.Second
			started := time.Now()
			b.see(instance(func(i *simapi.Instance) { i.LaunchTime = launched }), tc.at)
			got := b.joinAt["i-1"].Sub(started)
			if got < tc.want || got > tc.want+time.Second {
				t.Errorf("%s: joins after %s, want %s", tc.reason, got, tc.want)
			}
		})
	}
}
