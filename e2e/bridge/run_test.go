package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"github.com/castoff-sh/castoff/e2e/awssim/simapi"
)

// run starts the bridge and stops it with the test.
func run(t *testing.T, b *Bridge) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- b.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(10 * time.Second):
			t.Error("the bridge did not end with its context")
		}
	})
}

const patience = "20s"

func names(ctx context.Context, client *fake.Clientset) func(Gomega) []string {
	return func(g Gomega) []string { return nodeNames(ctx, g, client) }
}

// expectNodes waits until there are exactly these.
func expectNodes(ctx context.Context, g Gomega, client *fake.Clientset, want ...string) {
	g.Eventually(func(g Gomega) { g.Expect(nodeNames(ctx, g, client)).To(ConsistOf(want)) }, patience, "20ms").Should(Succeed())
}

func event(i simapi.Instance) simapi.Event { return simapi.Event{Time: time.Now(), Instance: &i} }

func TestRunFollowsEvents(t *testing.T) {
	g := NewWithT(t)
	client := fake.NewClientset()
	w := newWorld(t)
	run(t, newTestBridge(t, w, client))
	tell := func(i simapi.Instance) {
		w.set(i) // the list says so too: it is read every few seconds
		w.events <- event(i)
	}
	one, two := instance(nil), instance(func(i *simapi.Instance) { i.ID, i.PrivateDNSName = "i-2", "ip-10-0-0-8.ec2.internal" })
	tell(one)
	w.events <- simapi.Event{Time: time.Now(), Synced: true}
	tell(two)
	expectNodes(t.Context(), g, client, one.PrivateDNSName, two.PrivateDNSName)
	one.State = "terminated"
	tell(one)
	expectNodes(t.Context(), g, client, two.PrivateDNSName)
}

func TestRunGoesOnWhenEventsBreakOff(t *testing.T) {
	g := NewWithT(t)
	client := fake.NewClientset()
	w := newWorld(t)
	run(t, newTestBridge(t, w, client))
	one, two := instance(nil), instance(func(i *simapi.Instance) { i.ID, i.PrivateDNSName = "i-2", "ip-10-0-0-8.ec2.internal" })
	w.events <- event(one)
	expectNodes(t.Context(), g, client, one.PrivateDNSName)
	w.set(one)
	w.CloseClientConnections()
	g.Eventually(func(g Gomega) {
		select {
		case w.events <- event(two): // a connection that is about to end may take it and lose it
		default:
		}
		g.Expect(nodeNames(t.Context(), g, client)).To(ConsistOf(one.PrivateDNSName, two.PrivateDNSName))
	}, patience, "100ms").Should(Succeed())
}

// TestRunSeesWhatNoEventTold: a role let in by aws-auth is no event of the simulator's.
func TestRunSeesWhatNoEventTold(t *testing.T) {
	g := NewWithT(t)
	client := fake.NewClientset()
	w := newWorld(t, instance(func(i *simapi.Instance) { i.RoleAuthorised = false }))
	run(t, newTestBridge(t, w, client))
	w.events <- simapi.Event{Time: time.Now(), Synced: true}
	w.set(instance(nil))
	expectNodes(t.Context(), g, client, instance(nil).PrivateDNSName)
}

func TestRunWaitsForTheBootDelay(t *testing.T) {
	g := NewWithT(t)
	client := fake.NewClientset()
	w := newWorld(t)
	w.mu.Lock()
	w.settings = simapi.Settings{BootDelay: time.Second}
	w.mu.Unlock()
	run(t, newTestBridge(t, w, client))
	one := instance(func(i *simapi.Instance) { i.LaunchTime = time.Now() })
	w.set(one)
	w.events <- event(one)
	g.Consistently(names(t.Context(), client), "500ms", "50ms").Should(BeEmpty(), "it boots")
	expectNodes(t.Context(), g, client, one.PrivateDNSName)
}

func TestRunNeedsTheClusterAndItsMemory(t *testing.T) {
	g := NewWithT(t)
	client := fake.NewClientset()
	client.PrependReactor("get", "version", func(k8stesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("no answer")
	})
	g.Expect(newTestBridge(t, newWorld(t), client).Run(t.Context())).To(MatchError(ContainSubstring("no answer")))

	b := newTestBridge(t, newWorld(t), fake.NewClientset())
	b.config.JoinedFile = t.TempDir() // a folder
	g.Expect(b.Run(t.Context())).To(MatchError(ContainSubstring("recall which instances have joined")))
}

// life takes an instance from its launch to its end, with a pod on its Node, and tries again whatever fails.
func life(ctx context.Context, g Gomega, client *fake.Clientset, w *world, b *Bridge) (failed int) {
	for _, state := range []string{"pending", "running", "shutting-down", "terminated"} {
		w.set(instance(func(i *simapi.Instance) { i.State = state }))
		for tries := 0; ; tries++ {
			g.Expect(tries).To(BeNumerically("<", 20), "%s comes to rest", state)
			if b.resyncOnce(ctx) != nil {
				failed++
				continue
			}
			again, err := b.reconcile(ctx, instance(nil).ID)
			if err != nil {
				failed++
				continue
			}
			if again == 0 {
				break
			}
		}
		if state == "running" {
			g.Expect(client.Tracker().Add(&corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "1"}, Spec: corev1.PodSpec{NodeName: instance(nil).PrivateDNSName},
				Status: corev1.PodStatus{Phase: corev1.PodRunning},
			})).To(Succeed())
		}
	}
	return failed
}

// TestEveryRequestMayFail ends a request at a time with an error, of every kind that an instance's life takes: before
// its effect, and after it with the answer lost. The end must be the same.
func TestEveryRequestMayFail(t *testing.T) {
	for _, lost := range []bool{false, true} {
		t.Run(fmt.Sprintf("AnswerLost=%t", lost), func(t *testing.T) {
			for number := 1; failOne(t, number, lost); number++ {
				if number > 100 {
					t.Fatal("an instance's life takes no hundred requests")
				}
			}
		})
	}
}

// failOne is false when a life takes fewer requests than that.
func failOne(t *testing.T, number int, lost bool) bool {
	t.Helper()
	g := NewWithT(t)
	client, w := fake.NewClientset(), newWorld(t)
	b := newTestBridge(t, w, client)
	requests, hit := 0, ""
	client.PrependReactor("*", "*", func(action k8stesting.Action) (bool, runtime.Object, error) {
		requests++
		if requests != number {
			return false, nil, nil
		}
		hit = action.GetVerb() + " " + action.GetResource().Resource
		if lost {
			_, _, _ = k8stesting.ObjectReaction(client.Tracker())(action) // whether it worked nobody gets to know
		}
		return true, nil, apierrors.NewInternalError(errors.New("cut off"))
	})
	failed := life(t.Context(), g, client, w, b)
	if hit == "" {
		g.Expect(failed).To(BeZero())
		return false
	}
	g.Expect(failed).To(Equal(1), "%s fails once and is told", hit)
	g.Expect(nodeNames(t.Context(), g, client)).To(BeEmpty(), "after a failed %s", hit)
	_, err := client.CoreV1().Pods("shop").Get(t.Context(), "web", metav1.GetOptions{})
	g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "the pod went with its node after a failed %s", hit)
	g.Expect(b.gone).To(HaveKey(instance(nil).ID))
	return true
}

// TestARefusalIsToldOnce: an instance that cannot join is looked at every few seconds and must not fill the log.
func TestARefusalIsToldOnce(t *testing.T) {
	g := NewWithT(t)
	log := filepath.Join(t.TempDir(), "log")
	out, err := os.Create(log)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = out.Close() })
	w := newWorld(t, instance(func(i *simapi.Instance) { i.RoleAuthorised = false }))
	b := newTestBridge(t, w, fake.NewClientset())
	b.config.Log = slog.New(slog.NewJSONHandler(out, nil))
	for range 3 {
		step(t.Context(), g, b)
	}
	content, err := os.ReadFile(log)
	g.Expect(err).NotTo(HaveOccurred())
	var line struct{ Msg, Instance, Why string }
	g.Expect(json.Unmarshal(content, &line)).To(Succeed(), "one line: %s", content)
	g.Expect(line.Instance).To(Equal("i-1"))
	g.Expect(line.Why).To(ContainSubstring("neither an access entry nor aws-auth"))
	// Another reason is worth another line.
	w.set(instance(func(i *simapi.Instance) { i.UserData = "" }))
	step(t.Context(), g, b)
	content, err = os.ReadFile(log)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(content)).To(MatchRegexp(`(?s)\n.*\n$`))
}

// TestANodeThatTheAPIServerRefusesIsNoLoop: the kubelet would be refused again and again.
func TestANodeThatTheAPIServerRefusesIsNoLoop(t *testing.T) {
	g := NewWithT(t)
	client := fake.NewClientset()
	client.PrependReactor("create", "nodes", func(k8stesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Node").GroupKind(), "n", nil)
	})
	b := newTestBridge(t, newWorld(t, instance(nil)), client)
	step(t.Context(), g, b)
	g.Expect(b.refused).To(HaveKeyWithValue("i-1", ContainSubstring("invalid")))
	g.Expect(b.joined).To(BeEmpty())
}
