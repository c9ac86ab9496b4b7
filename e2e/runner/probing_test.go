package runner

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	k8stesting "k8s.io/client-go/testing"
)

// answerProbes is a process that answers a probe well while a file of that name is in the folder.
func answerProbes(dir string) {
	err := http.ListenAndServe(net.JoinHostPort("127.0.0.1", os.Getenv("HEALTH_PROBE_PORT")), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := os.Stat(filepath.Join(dir, filepath.Base(r.URL.Path))); err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	fmt.Println(err)
}

// answers is the folder whose files decide what a process answers.
type answers string

func (a answers) good(g Gomega, probes ...string) {
	for _, probe := range probes {
		g.Expect(os.WriteFile(filepath.Join(string(a), probe), nil, 0o600)).To(Succeed())
	}
}

func (a answers) bad(g Gomega, probe string) {
	g.Expect(os.Remove(filepath.Join(string(a), probe))).To(Succeed())
}

// probedPod has probes of /startup, /readyz and /healthz.
func probedPod(t *testing.T) (answers, *corev1.Pod) {
	a := answers(t.TempDir())
	return a, testPod("probed:"+string(a), func(pod *corev1.Pod) {
		container := &pod.Spec.Containers[0]
		container.StartupProbe, container.ReadinessProbe, container.LivenessProbe = httpProbe("/startup"), httpProbe("/readyz"), httpProbe("/healthz")
		container.StartupProbe.FailureThreshold = 100
	})
}

func started(ready bool) OmegaMatcher {
	return And(running(), HaveField("Started", HaveValue(BeTrue())), HaveField("Ready", ready))
}

func TestProbesDecideWhatAContainerIs(t *testing.T) {
	g := NewWithT(t)
	a, pod := probedPod(t)
	c := newCluster(t)
	c.create(g, pod)
	g.Eventually(c.container, patience).Should(And(running(), HaveField("Started", HaveValue(BeFalse())), HaveField("Ready", false)))
	a.good(g, "readyz", "healthz")
	g.Consistently(c.container, "700ms").Should(HaveField("Ready", false), "nothing counts before it has started")
	a.good(g, "startup")
	g.Eventually(c.container, patience).Should(started(true))
	a.bad(g, "readyz")
	g.Eventually(c.container, patience).Should(started(false))
	g.Expect(c.container()).To(HaveField("RestartCount", BeZero()), "not ready is no reason to restart")
	a.good(g, "readyz")
	g.Eventually(c.container, patience).Should(started(true))
	pid := c.pid()
	a.bad(g, "healthz")
	g.Eventually(c.container, patience).Should(HaveField("RestartCount", BeNumerically(">=", 1)))
	g.Eventually(c.pid, patience).ShouldNot(Equal(pid))
	a.good(g, "healthz")
	g.Eventually(c.container, patience).Should(started(true))
}

func TestAContainerThatDoesNotStartInTimeIsRestarted(t *testing.T) {
	g := NewWithT(t)
	_, pod := probedPod(t)
	pod.Spec.Containers[0].StartupProbe.FailureThreshold = 1
	c := newCluster(t)
	c.create(g, pod)
	g.Eventually(c.container, patience).Should(HaveField("RestartCount", BeNumerically(">=", 1)))
	g.Expect(c.container()).To(HaveField("Ready", false))
}

func TestThresholdsCount(t *testing.T) {
	cases := map[string]struct {
		reason string
		probe  corev1.Probe
		want   int32
	}{
		"Default": {"Kubernetes' own", corev1.Probe{}, 3},
		"Given":   {"as the pod says", corev1.Probe{FailureThreshold: 7}, 7},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := threshold(&tc.probe); got != tc.want {
				t.Errorf("%s: got %d, want %d", tc.reason, got, tc.want)
			}
		})
	}
	if got := schemeOf(&corev1.HTTPGetAction{Scheme: corev1.URISchemeHTTPS}); got != corev1.URISchemeHTTPS {
		t.Errorf("a scheme that is given counts, got %s", got)
	}
	if got := seconds(0, 10); got != 10*time.Second {
		t.Errorf("the fallback counts for zero, got %s", got)
	}
}

// TestTokensAreRenewed: an API server that gives tokens of a second must not end a pod's access after it, nor when it
// fails now and then.
func TestTokensAreRenewed(t *testing.T) {
	g := NewWithT(t)
	c := newCluster(t)
	var given atomic.Int32
	c.PrependReactor("create", "serviceaccounts", func(action k8stesting.Action) (bool, runtime.Object, error) {
		answer := action.(k8stesting.CreateAction).GetObject().(*authenticationv1.TokenRequest).DeepCopy()
		answer.Status = authenticationv1.TokenRequestStatus{Token: fmt.Sprint("token ", given.Add(1)), ExpirationTimestamp: metav1.NewTime(time.Now().Add(time.Second))}
		return true, answer, nil
	})
	c.create(g, testPod("sleep", nil))
	g.Eventually(c.container, patience).Should(running())
	w := c.runner.workers["uid-1"]
	for _, file := range []string{apiToken, podIdentityToken} {
		first, err := os.ReadFile(w.path(file))
		g.Expect(err).NotTo(HaveOccurred())
		g.Eventually(func() ([]byte, error) { return os.ReadFile(w.path(file)) }, patience).ShouldNot(Equal(first), file)
	}
	g.Expect(w.path(apiToken) + ".new").NotTo(BeAnExistingFile())
}

func TestATokenThatIsRefusedIsNamed(t *testing.T) {
	g := NewWithT(t)
	c := newCluster(t)
	var refuse atomic.Bool
	refuse.Store(true)
	c.PrependReactor("create", "serviceaccounts", func(k8stesting.Action) (bool, runtime.Object, error) {
		return refuse.Load(), nil, errors.New("no such account")
	})
	c.create(g, testPod("sleep", nil))
	g.Eventually(c.container, patience).Should(HaveField("State.Waiting", HaveField("Message",
		And(ContainSubstring("ServiceAccount shop/default"), ContainSubstring("no such account")))))
	refuse.Store(false)
	g.Eventually(c.container, patience).Should(running())
}

// TestThePodsNodeIsNeeded: a pod on a node that went is told so and not started.
func TestThePodsNodeIsNeeded(t *testing.T) {
	g := NewWithT(t)
	c := newCluster(t)
	c.create(g, testPod("sleep", func(pod *corev1.Pod) { pod.Spec.NodeName = "node-2" }))
	g.Eventually(c.container, patience).Should(HaveField("State.Waiting", HaveField("Message", ContainSubstring("node-2"))))
	g.Expect(c.pid()).To(BeZero())
}

// TestTheAPIServerMayFail: a status and a removal that fail are tried again.
func TestTheAPIServerMayFail(t *testing.T) {
	g := NewWithT(t)
	c := newCluster(t)
	failures := map[string]*atomic.Int32{"patch": {}, "delete": {}}
	for verb, left := range failures {
		left.Store(1)
		c.PrependReactor(verb, "pods", func(k8stesting.Action) (bool, runtime.Object, error) {
			return left.Add(-1) >= 0, nil, apierrors.NewInternalError(errors.New("try again"))
		})
	}
	c.create(g, testPod("sleep", nil))
	g.Eventually(c.container, patience).Should(running())
	c.markDeleted(g, 30)
	g.Eventually(func() error { _, err := c.pod(); return err }, patience).Should(WithTransform(apierrors.IsNotFound, BeTrue()))
	for verb, left := range failures {
		g.Expect(left.Load()).To(BeNumerically("<", 0), "%s was tried again", verb)
	}
}

// TestSidecarsOfOtherImagesAreTaken: of a pod's containers only those with a known image are processes; the others are
// said to run.
func TestSidecarsOfOtherImagesAreTaken(t *testing.T) {
	g := NewWithT(t)
	c := newCluster(t)
	c.create(g, testPod("exit:0", func(pod *corev1.Pod) {
		pod.Spec.RestartPolicy = corev1.RestartPolicyNever
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "proxy", Image: "example.com/proxy:2"})
	}))
	statuses := func() (map[string]corev1.ContainerStatus, error) {
		pod, err := c.pod()
		byName := map[string]corev1.ContainerStatus{}
		for _, status := range pod.Status.ContainerStatuses {
			byName[status.Name] = status
		}
		return byName, err
	}
	g.Eventually(statuses, patience).Should(And(
		HaveKeyWithValue("main", HaveField("State.Terminated", HaveField("Reason", "Completed"))),
		HaveKeyWithValue("proxy", started(true)),
	))
	g.Expect(c.pod()).To(HaveField("Status.Phase", corev1.PodRunning), "one of its containers runs")
}
