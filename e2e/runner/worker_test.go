package runner

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/clientcmd"
)

// The test binary is also the process of the pods here; the variable says what it does.
const roleVariable = "RUNNER_TEST_ROLE"

func TestMain(m *testing.M) {
	fmt.Println("pid", os.Getpid())
	switch role, code, _ := strings.Cut(os.Getenv(roleVariable), ":"); role {
	case "exit":
		status, _ := strconv.Atoi(code)
		os.Exit(status)
	case "probed":
		answerProbes(code)
	case "sleep":
		time.Sleep(time.Hour)
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("ignoring SIGTERM")
		time.Sleep(time.Hour)
	default:
		os.Exit(m.Run())
	}
}

// cluster is a runner in a cluster of one node.
type cluster struct {
	*fake.Clientset
	runner *Runner
	stop   context.CancelFunc
	ended  chan struct{}
}

const testImage = "example.com/test"

// newCluster starts a runner, with objects that are there before it.
func newCluster(t *testing.T, objects ...runtime.Object) *cluster {
	t.Helper()
	objects = append(objects, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node-1"},
		Status:     corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.7"}}},
	})
	c := &cluster{Clientset: fake.NewClientset(objects...), ended: make(chan struct{})}
	c.PrependReactor("create", "serviceaccounts", func(action k8stesting.Action) (bool, runtime.Object, error) {
		request := action.(k8stesting.CreateAction).GetObject().(*authenticationv1.TokenRequest)
		answer := request.DeepCopy()
		answer.Status = authenticationv1.TokenRequestStatus{
			Token:               fmt.Sprintf("token for %v, bound to %s", request.Spec.Audiences, request.Spec.BoundObjectRef.Name),
			ExpirationTimestamp: metav1.NewTime(time.Now().Add(time.Hour)),
		}
		return true, answer, nil
	})
	c.runner = New(Config{Client: c, APIServer: "https://127.0.0.1:6443", CAData: []byte("ca"), Images: map[string]string{testImage: os.Args[0], "example.com/unbuilt": "/nowhere"},
		Dir: t.TempDir(), CrashBackOff: 10 * time.Millisecond, Log: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(context.Background())
	c.stop = cancel
	go func() {
		defer close(c.ended)
		if err := c.runner.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-c.ended
	})
	return c
}

// testPod has one container, whose process plays the role.
func testPod(role string, change func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "shop", UID: "uid-1"},
		Spec: corev1.PodSpec{NodeName: "node-1", ServiceAccountName: "default", RestartPolicy: corev1.RestartPolicyAlways, Containers: []corev1.Container{{
			Name: "main", Image: testImage + ":v1", Env: []corev1.EnvVar{{Name: roleVariable, Value: role}},
		}}},
	}
	if change != nil {
		change(pod)
	}
	return pod
}

func (c *cluster) create(g Gomega, pod *corev1.Pod) {
	_, err := c.CoreV1().Pods(pod.Namespace).Create(context.Background(), pod, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
}

func (c *cluster) pod() (*corev1.Pod, error) {
	return c.CoreV1().Pods("shop").Get(context.Background(), "p", metav1.GetOptions{})
}

// container is the status of the pod's container.
func (c *cluster) container() (corev1.ContainerStatus, error) {
	pod, err := c.pod()
	if err != nil || len(pod.Status.ContainerStatuses) != 1 {
		return corev1.ContainerStatus{}, err
	}
	return pod.Status.ContainerStatuses[0], nil
}

// pid of the latest process that the pod has started, 0 before there is one.
func (c *cluster) pid() int {
	content, err := os.ReadFile(LogFile(c.runner.config.Dir, "shop", "p", "main"))
	if err != nil {
		return 0
	}
	pid := 0
	for line := range strings.Lines(string(content)) {
		if text, found := strings.CutPrefix(strings.TrimSpace(line), "pid "); found {
			pid, _ = strconv.Atoi(text)
		}
	}
	return pid
}

// markDeleted is what the API server does on a graceful delete.
func (c *cluster) markDeleted(g Gomega, grace int64) {
	pod, err := c.pod()
	g.Expect(err).NotTo(HaveOccurred())
	now := metav1.Now()
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &now, &grace
	_, err = c.CoreV1().Pods("shop").Update(context.Background(), pod, metav1.UpdateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
}

const patience = "20s"

func beGone() OmegaMatcher { return MatchError(syscall.ESRCH) }

func running() OmegaMatcher { return HaveField("State.Running", Not(BeNil())) }

func TestAPodRunsWithItsIdentity(t *testing.T) {
	g := NewWithT(t)
	c := newCluster(t)
	c.create(g, testPod("sleep", nil))
	g.Eventually(c.container, patience).Should(And(running(), HaveField("Ready", true)))
	pod, err := c.pod()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(pod.Status.Phase).To(Equal(corev1.PodRunning))
	g.Expect(pod.Status.HostIP).To(Equal("10.0.0.7"))
	g.Expect(pod.Status.PodIP).NotTo(BeEmpty())

	w := c.runner.workers[pod.UID]
	config, err := clientcmd.LoadFromFile(w.path(kubeconfigFile))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(config.AuthInfos["pod"].TokenFile).To(Equal(w.path(apiToken)), "a file, so that it can be renewed")
	g.Expect(config.Contexts["lab"].Namespace).To(Equal("shop"))
	for file, want := range map[string]string{apiToken: "token for [], bound to p", podIdentityToken: "token for [pods.eks.amazonaws.com], bound to p"} {
		content, err := os.ReadFile(w.path(file))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(string(content)).To(Equal(want))
	}
}

func TestACrashingContainerIsRestarted(t *testing.T) {
	g := NewWithT(t)
	c := newCluster(t)
	c.create(g, testPod("exit:3", nil))
	g.Eventually(c.container, patience).Should(And(
		HaveField("RestartCount", BeNumerically(">=", 3)),
		HaveField("State.Waiting", HaveField("Reason", "CrashLoopBackOff")),
		HaveField("LastTerminationState.Terminated", HaveField("ExitCode", BeEquivalentTo(3))),
	))
	g.Expect(c.runner.Usage()).To(ConsistOf(HaveField("Restarts", BeNumerically(">=", 3))))
}

func TestHowAPodEndsByItself(t *testing.T) {
	cases := map[string]struct {
		role   string
		policy corev1.RestartPolicy
		want   corev1.PodPhase
	}{
		"Succeeds":          {"exit:0", corev1.RestartPolicyNever, corev1.PodSucceeded},
		"SucceedsOnFailure": {"exit:0", corev1.RestartPolicyOnFailure, corev1.PodSucceeded},
		"Fails":             {"exit:1", corev1.RestartPolicyNever, corev1.PodFailed},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			c := newCluster(t)
			c.create(g, testPod(tc.role, func(pod *corev1.Pod) { pod.Spec.RestartPolicy = tc.policy }))
			g.Eventually(func() (corev1.PodPhase, error) {
				pod, err := c.pod()
				return pod.Status.Phase, err
			}, patience).Should(Equal(tc.want))
		})
	}
}

func TestAMissingConfigMapIsWaitedFor(t *testing.T) {
	g := NewWithT(t)
	c := newCluster(t)
	c.create(g, testPod("sleep", func(pod *corev1.Pod) {
		pod.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: named("late")}}}
	}))
	g.Eventually(c.container, patience).Should(HaveField("State.Waiting", And(
		HaveField("Reason", "CreateContainerConfigError"), HaveField("Message", ContainSubstring("ConfigMap late")))))
	_, err := c.CoreV1().ConfigMaps("shop").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "late"}}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(c.container, patience).Should(running())
}

func TestABinaryThatIsNotBuilt(t *testing.T) {
	g := NewWithT(t)
	c := newCluster(t)
	c.create(g, testPod("sleep", func(pod *corev1.Pod) { pod.Spec.Containers[0].Image = "example.com/unbuilt" }))
	g.Eventually(c.container, patience).Should(HaveField("State.Waiting", And(
		HaveField("Reason", "ErrImagePull"), HaveField("Message", ContainSubstring("/nowhere")))))
}

func TestAPodThatGoesGetsItsGracePeriod(t *testing.T) {
	cases := map[string]struct {
		reason   string
		role     string
		grace    int64
		atLeast  time.Duration
		lessThan time.Duration
	}{
		"Obeys":    {"SIGTERM ends it, nobody waits", "sleep", 600, 0, 15 * time.Second},
		"Stubborn": {"killed at the end of its grace period", "stubborn", 1, time.Second, 15 * time.Second},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			c := newCluster(t)
			c.create(g, testPod(tc.role, nil))
			g.Eventually(c.container, patience).Should(running())
			g.Eventually(c.pid, patience).ShouldNot(BeZero())
			if tc.role == "stubborn" {
				g.Eventually(func() (string, error) {
					content, err := os.ReadFile(LogFile(c.runner.config.Dir, "shop", "p", "main"))
					return string(content), err
				}, patience).Should(ContainSubstring("ignoring SIGTERM"))
			}
			pid, started := c.pid(), time.Now()
			c.markDeleted(g, tc.grace)
			g.Eventually(func() error { _, err := c.pod(); return err }, patience).Should(WithTransform(apierrors.IsNotFound, BeTrue()))
			g.Expect(time.Since(started)).To(And(BeNumerically(">=", tc.atLeast), BeNumerically("<", tc.lessThan)), tc.reason)
			g.Expect(syscall.Kill(pid, 0)).To(beGone())
			g.Expect(c.runner.RSS("shop", "p")).To(BeNumerically(">", 0), "remembered")
		})
	}
}

func TestAPodThatIsGoneIsKilledAtOnce(t *testing.T) {
	g := NewWithT(t)
	c := newCluster(t)
	c.create(g, testPod("stubborn", nil))
	g.Eventually(c.container, patience).Should(running())
	g.Eventually(c.pid, patience).ShouldNot(BeZero())
	pid := c.pid()
	g.Expect(c.CoreV1().Pods("shop").Delete(t.Context(), "p", metav1.DeleteOptions{})).To(Succeed())
	g.Eventually(func() error { return syscall.Kill(pid, 0) }, "10s").Should(beGone(), "well before the grace period of 30 s")
}

func TestAKilledProcessStartsAgain(t *testing.T) {
	g := NewWithT(t)
	c := newCluster(t)
	c.create(g, testPod("sleep", nil))
	g.Eventually(c.pid, patience).ShouldNot(BeZero())
	pid := c.pid()
	g.Eventually(func() int { return c.runner.Kill("shop", "p") }, patience).Should(Equal(1))
	g.Eventually(func() error { return syscall.Kill(pid, 0) }, patience).Should(beGone())
	g.Eventually(c.container, patience).Should(And(running(), HaveField("RestartCount", BeEquivalentTo(1)), HaveField("LastTerminationState.Terminated.ExitCode", BeEquivalentTo(137))))
	g.Expect(c.runner.Kill("shop", "q")).To(BeZero(), "another pod's name")
	g.Expect(c.runner.Kill("ops", "p")).To(BeZero(), "another namespace")
	g.Eventually(c.pid, patience).ShouldNot(Equal(pid))
}

func TestStopEndsEveryProcess(t *testing.T) {
	g := NewWithT(t)
	c := newCluster(t)
	c.create(g, testPod("stubborn", nil))
	g.Eventually(c.container, patience).Should(running())
	g.Eventually(c.pid, patience).ShouldNot(BeZero())
	pid := c.pid()
	c.stop()
	g.Eventually(c.ended, patience).Should(BeClosed())
	g.Expect(syscall.Kill(pid, 0)).To(beGone())
	_, err := c.pod()
	g.Expect(err).NotTo(HaveOccurred(), "a runner that stops deletes no pod")
}

func TestARestartOfTheRunnerCountsAsOneOfTheContainer(t *testing.T) {
	g := NewWithT(t)
	before := testPod("sleep", func(pod *corev1.Pod) {
		pod.Status.Phase = corev1.PodRunning
		pod.Status.PodIP = "10.112.9.9"
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", RestartCount: 4, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	})
	c := newCluster(t, before)
	g.Eventually(c.pid, patience).ShouldNot(BeZero())
	g.Eventually(c.container, patience).Should(And(running(), HaveField("RestartCount", BeEquivalentTo(5))))
	pod, err := c.pod()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(pod.Status.PodIP).To(Equal("10.112.9.9"), "a pod keeps its address")
}

func TestPodsOfOthersAreLeftAlone(t *testing.T) {
	g := NewWithT(t)
	c := newCluster(t)
	c.create(g, testPod("sleep", func(pod *corev1.Pod) { pod.Spec.Containers[0].Image = "example.com/shop" }))
	finished := testPod("sleep", func(pod *corev1.Pod) {
		pod.Name, pod.UID, pod.Status.Phase = "done", "uid-2", corev1.PodSucceeded
	})
	c.create(g, finished)
	g.Consistently(c.runner.Usage, "500ms").Should(BeEmpty())
	for _, action := range c.Actions() {
		g.Expect(action.GetVerb()).NotTo(BeElementOf("patch", "delete"), "%v", action)
	}
}
