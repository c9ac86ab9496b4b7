//go:build lab

package lab_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/castoff-sh/castoff/e2e/lab"
	"github.com/castoff-sh/castoff/e2e/runner"
)

// One lab serves all tests of this package; each works in a namespace of its own.
var (
	shared    *lab.Lab
	simulator *fakeSimulator
	upTook    time.Duration
)

const podImage = "example.com/lab/labpod"

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "lab-test-")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary := filepath.Join(dir, "labpod")
	if out, err := exec.Command("go", "build", "-o", binary, "./testdata/labpod").CombinedOutput(); err != nil {
		fmt.Printf("build the test's pod: %v\n%s", err, out)
		return 1
	}
	simulator = startFakeSimulator()
	defer simulator.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	started := time.Now()
	shared, err = lab.Up(ctx, lab.Config{
		BinDir: binDir(), Dir: filepath.Join(dir, "lab"), SimulatorURL: simulator.URL,
		Images: map[string]string{podImage: binary, "example.com/lab/unbuilt": filepath.Join(dir, "unbuilt")},
		Log:    slog.New(slog.NewTextHandler(os.Stderr, nil)), PodStartup: 100 * time.Millisecond, PodShutdown: 100 * time.Millisecond,
		CrashBackOff: 200 * time.Millisecond, PodEnv: []string{"FROM_LAB=yes"},
	})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	upTook = time.Since(started)
	defer shared.Stop()
	simulator.launch("home-a", "home-b", "home-c")
	return m.Run()
}

func binDir() string {
	if dir := os.Getenv("LAB_BIN"); dir != "" {
		return dir
	}
	return filepath.Join("..", "..", "bin")
}

// namespace makes a namespace that is usable: its default ServiceAccount exists.
func namespace(t *testing.T, g Gomega) string {
	t.Helper()
	created, err := shared.Client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "lab-"}}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(func() error {
		_, err := shared.Client.CoreV1().ServiceAccounts(created.Name).Get(t.Context(), "default", metav1.GetOptions{})
		return err
	}, "20s", "50ms").Should(Succeed())
	t.Cleanup(func() {
		_ = shared.Client.CoreV1().Namespaces().Delete(context.Background(), created.Name, metav1.DeleteOptions{})
	})
	return created.Name
}

func getPod(t *testing.T, ns, name string) func() (*corev1.Pod, error) {
	return func() (*corev1.Pod, error) {
		return shared.Client.CoreV1().Pods(ns).Get(t.Context(), name, metav1.GetOptions{})
	}
}

func isReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

func beReady() OmegaMatcher { return WithTransform(isReady, BeTrue()) }

func beGone() OmegaMatcher { return WithTransform(apierrors.IsNotFound, BeTrue()) }

func errorOf(get func() (*corev1.Pod, error)) func() error {
	return func() error { _, err := get(); return err }
}

func TestUpIsQuick(t *testing.T) {
	t.Logf("ready after %s", upTook)
	if upTook > 30*time.Second {
		t.Errorf("ready after %s, want under 30 s", upTook)
	}
	select {
	case err := <-shared.Failed():
		t.Error(err)
	default:
	}
}

func fakePod(name string, annotations map[string]string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations, Labels: map[string]string{"app": name}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "example.com/shop:1"}}},
	}
}

func TestFakePodTakesItsTime(t *testing.T) {
	g := NewWithT(t)
	ns := namespace(t, g)
	pods := shared.Client.CoreV1().Pods(ns)
	grace := int64(3)
	slow := fakePod("slow", map[string]string{lab.AnnotationStartup: "2s", lab.AnnotationShutdown: lab.ShutdownGrace})
	slow.Spec.TerminationGracePeriodSeconds = &grace
	for _, pod := range []*corev1.Pod{slow, fakePod("quick", nil)} {
		_, err := pods.Create(t.Context(), pod, metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
	}
	g.Eventually(getPod(t, ns, "quick"), "20s", "50ms").Should(beReady())
	g.Eventually(getPod(t, ns, "slow"), "20s", "50ms").Should(beReady())
	pod, err := getPod(t, ns, "slow")()
	g.Expect(err).NotTo(HaveOccurred())
	times := map[corev1.PodConditionType]time.Time{}
	for _, condition := range pod.Status.Conditions {
		times[condition.Type] = condition.LastTransitionTime.Time
	}
	g.Expect(times).To(HaveKey(corev1.PodScheduled), "kwok keeps the scheduler's condition")
	g.Expect(times[corev1.PodReady].Sub(times[corev1.PodScheduled])).To(BeNumerically("~", 2*time.Second, 1500*time.Millisecond))
	g.Expect(pod.Status.PodIP).To(HavePrefix("10."))

	deleted := time.Now()
	g.Expect(pods.Delete(t.Context(), "slow", metav1.DeleteOptions{})).To(Succeed())
	g.Expect(pods.Delete(t.Context(), "quick", metav1.DeleteOptions{})).To(Succeed())
	g.Eventually(errorOf(getPod(t, ns, "quick")), "20s", "20ms").Should(beGone())
	quick := time.Since(deleted)
	g.Eventually(errorOf(getPod(t, ns, "slow")), "20s", "20ms").Should(beGone())
	g.Expect(time.Since(deleted)).To(BeNumerically(">=", 2*time.Second), "it used its grace period")
	g.Expect(quick).To(BeNumerically("<", 2*time.Second))
}

func TestJobCompletes(t *testing.T) {
	g := NewWithT(t)
	ns := namespace(t, g)
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "report"}}
	job.Spec.Template.Annotations = map[string]string{lab.AnnotationDuration: "2s"}
	job.Spec.Template.Spec = corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "app", Image: "example.com/report"}}}
	_, err := shared.Client.BatchV1().Jobs(ns).Create(t.Context(), job, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(func() (int32, error) {
		job, err := shared.Client.BatchV1().Jobs(ns).Get(t.Context(), "report", metav1.GetOptions{})
		if err != nil {
			return 0, err
		}
		return job.Status.Succeeded, nil
	}, "30s", "100ms").Should(BeEquivalentTo(1))
}

func TestEvictionOfTwoPodsRespectsTheBudget(t *testing.T) {
	g := NewWithT(t)
	ns := namespace(t, g)
	labels := map[string]string{"app": "web"}
	replicas, one := int32(3), intstr.FromInt32(1)
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	deployment.Spec.Replicas = &replicas
	deployment.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	deployment.Spec.Template.Labels = labels
	deployment.Spec.Template.Annotations = map[string]string{lab.AnnotationStartup: "3s"}
	deployment.Spec.Template.Spec.Containers = []corev1.Container{{Name: "web", Image: "example.com/web"}}
	_, err := shared.Client.AppsV1().Deployments(ns).Create(t.Context(), deployment, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	budget.Spec = policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &one, Selector: deployment.Spec.Selector}
	_, err = shared.Client.PolicyV1().PodDisruptionBudgets(ns).Create(t.Context(), budget, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(func() (int32, error) {
		budget, err := shared.Client.PolicyV1().PodDisruptionBudgets(ns).Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil {
			return 0, err
		}
		return budget.Status.DisruptionsAllowed, nil
	}, "30s", "100ms").Should(BeEquivalentTo(1))
	pods, err := shared.Client.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	evict := func(name string) error {
		return shared.Client.PolicyV1().Evictions(ns).Evict(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: ns}})
	}
	g.Expect(evict(pods.Items[0].Name)).To(Succeed())
	g.Expect(apierrors.IsTooManyRequests(evict(pods.Items[1].Name))).To(BeTrue())
}

// labPod is a pod that the runner runs.
func labPod(name string, env ...corev1.EnvVar) *corev1.Pod {
	probe := func(path string) *corev1.Probe {
		return &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromInt32(8081)}}}
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "main", Image: podImage + ":v1", Args: []string{"--name=$(POD_NAME)", "--config=/etc/app/settings.yaml"},
			Env:            append([]corev1.EnvVar{{Name: "POD_NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}}}, env...),
			ReadinessProbe: probe("/readyz"), LivenessProbe: probe("/healthz"),
		}}},
	}
}

// report is what the process printed at its latest start.
type report struct {
	Args []string          `json:"args"`
	Env  map[string]string `json:"env"`
	PID  int               `json:"pid"`
}

func reports(t *testing.T, ns, name string) (started []report) {
	t.Helper()
	content, err := os.ReadFile(runner.LogFile(shared.Dir, ns, name, "main"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(content) {
		var r report
		if err := json.Unmarshal(line, &r); err == nil && r.PID != 0 {
			started = append(started, r)
		}
	}
	return started
}

func TestRunnerRunsAPodAsAProcess(t *testing.T) {
	g := NewWithT(t)
	ns := namespace(t, g)
	core := shared.Client.CoreV1()
	_, err := core.ConfigMaps(ns).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Data: map[string]string{"settings.yaml": "a: 1", "region": "eu-west-1"}}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	pod := labPod("worker", corev1.EnvVar{Name: "AWS_REGION", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}, Key: "region"}}})
	pod.Spec.Volumes = []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}}}}
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "config", MountPath: "/etc/app"}}
	_, err = core.Pods(ns).Create(t.Context(), pod, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(getPod(t, ns, "worker"), "30s", "50ms").Should(beReady())

	started := reports(t, ns, "worker")
	g.Expect(started).To(HaveLen(1))
	process := started[0]
	g.Expect(process.Args[0]).To(Equal("--name=worker"))
	config, err := os.ReadFile(strings.TrimPrefix(process.Args[1], "--config="))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(config)).To(Equal("a: 1"))
	g.Expect(process.Env).To(HaveKeyWithValue("AWS_REGION", "eu-west-1"), "the pod's word counts")
	g.Expect(process.Env).To(HaveKeyWithValue("AWS_ENDPOINT_URL", shared.Simulator))
	g.Expect(process.Env).To(HaveKeyWithValue("AWS_CONTAINER_CREDENTIALS_FULL_URI", shared.Simulator+"/v1/credentials"))
	g.Expect(process.Env).To(HaveKeyWithValue("FROM_LAB", "yes"))
	g.Expect(shared.Runner.RSS(ns, "worker")).To(BeNumerically(">", 1))
	checkIdentity(t, g, ns, process.Env)

	deleted := time.Now()
	g.Expect(core.Pods(ns).Delete(t.Context(), "worker", metav1.DeleteOptions{})).To(Succeed())
	g.Eventually(errorOf(getPod(t, ns, "worker")), "20s", "20ms").Should(beGone())
	g.Expect(time.Since(deleted)).To(BeNumerically("<", 10*time.Second), "SIGTERM ended it, not the grace period of 30 s")
	g.Expect(syscall.Kill(process.PID, 0)).To(MatchError(syscall.ESRCH))
	log, err := os.ReadFile(runner.LogFile(shared.Dir, ns, "worker", "main"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(log)).To(ContainSubstring("by SIGTERM"))
	g.Expect(shared.Runner.RSS(ns, "worker")).To(BeNumerically(">", 1), "remembered after its end")
}

// checkIdentity uses the process's own kubeconfig: it is the pod's ServiceAccount, and RBAC holds for it.
func checkIdentity(t *testing.T, g Gomega, ns string, env map[string]string) {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", env["KUBECONFIG"])
	g.Expect(err).NotTo(HaveOccurred())
	client, err := kubernetes.NewForConfig(config)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = client.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{})
	g.Expect(apierrors.IsForbidden(err)).To(BeTrue(), "a ServiceAccount without roles may not list pods: %v", err)
	g.Expect(err.Error()).To(ContainSubstring("system:serviceaccount:" + ns + ":default"))
	token, err := os.ReadFile(env["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"])
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(strings.Split(string(token), ".")).To(HaveLen(3), "a JWT")
}

func TestRunnerReportsCrashes(t *testing.T) {
	g := NewWithT(t)
	ns := namespace(t, g)
	_, err := shared.Client.CoreV1().Pods(ns).Create(t.Context(), labPod("crasher", corev1.EnvVar{Name: "CRASH", Value: "1"}), metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(func(g Gomega) {
		pod, err := getPod(t, ns, "crasher")()
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(pod.Status.ContainerStatuses).To(HaveLen(1))
		status := pod.Status.ContainerStatuses[0]
		g.Expect(status.RestartCount).To(BeNumerically(">=", 2))
		g.Expect(status.State.Waiting).NotTo(BeNil())
		g.Expect(status.State.Waiting.Reason).To(Equal("CrashLoopBackOff"))
		g.Expect(status.LastTerminationState.Terminated.ExitCode).To(BeEquivalentTo(7))
		g.Expect(pod.Status.Phase).To(Equal(corev1.PodRunning))
	}, "30s", "50ms").Should(Succeed())
}

func TestRunnerNamesABinaryThatIsNotBuilt(t *testing.T) {
	g := NewWithT(t)
	ns := namespace(t, g)
	pod := labPod("unbuilt")
	pod.Spec.Containers[0].Image = "example.com/lab/unbuilt@sha256:0"
	_, err := shared.Client.CoreV1().Pods(ns).Create(t.Context(), pod, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(func(g Gomega) {
		pod, err := getPod(t, ns, "unbuilt")()
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(pod.Status.ContainerStatuses).To(HaveLen(1))
		g.Expect(pod.Status.ContainerStatuses[0].State.Waiting).NotTo(BeNil())
		g.Expect(pod.Status.ContainerStatuses[0].State.Waiting.Reason).To(Equal("ErrImagePull"))
	}, "30s", "50ms").Should(Succeed())
}

func TestReadinessFollowsTheProbe(t *testing.T) {
	g := NewWithT(t)
	ns := namespace(t, g)
	_, err := shared.Client.CoreV1().Pods(ns).Create(t.Context(), labPod("moody"), metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(getPod(t, ns, "moody"), "30s", "50ms").Should(beReady())
	for _, usage := range shared.Runner.Usage() {
		if usage.Namespace == ns {
			response, err := http.Get(usage.HealthURL + "/unready") //nolint:noctx // a test
			g.Expect(err).NotTo(HaveOccurred())
			_ = response.Body.Close()
		}
	}
	g.Eventually(getPod(t, ns, "moody"), "30s", "50ms").ShouldNot(beReady())
}

func TestScaleToZeroEndsTheProcesses(t *testing.T) {
	g := NewWithT(t)
	ns := namespace(t, g)
	replicas := int32(2)
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "engine"}}
	deployment.Spec.Replicas = &replicas
	deployment.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "engine"}}
	deployment.Spec.Template.Labels = deployment.Spec.Selector.MatchLabels
	deployment.Spec.Template.Spec = labPod("").Spec
	_, err := shared.Client.AppsV1().Deployments(ns).Create(t.Context(), deployment, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	ready := func() (int32, error) {
		d, err := shared.Client.AppsV1().Deployments(ns).Get(t.Context(), "engine", metav1.GetOptions{})
		if err != nil {
			return 0, err
		}
		return d.Status.ReadyReplicas, nil
	}
	g.Eventually(ready, "30s", "50ms").Should(BeEquivalentTo(2))
	pods, err := shared.Client.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	var pids []int
	for i := range pods.Items {
		pids = append(pids, reports(t, ns, pods.Items[i].Name)[0].PID)
	}
	_, err = shared.Client.AppsV1().Deployments(ns).Patch(t.Context(), "engine", "application/merge-patch+json", []byte(`{"spec":{"replicas":0}}`), metav1.PatchOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(func() (int, error) {
		pods, err := shared.Client.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return -1, err
		}
		return len(pods.Items), nil
	}, "20s", "50ms").Should(BeZero())
	for _, pid := range pids {
		g.Expect(syscall.Kill(pid, 0)).To(MatchError(syscall.ESRCH))
	}
}

func TestInstanceBecomesANodeAndTakesItAway(t *testing.T) {
	g := NewWithT(t)
	ns := namespace(t, g)
	nodes := shared.Client.CoreV1().Nodes()
	instance := testInstance("guest", 1)
	simulator.set(instance)
	ready := func(status corev1.ConditionStatus) func() (bool, error) {
		return func() (bool, error) {
			node, err := nodes.Get(t.Context(), "guest.ec2.internal", metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return false, nil
			}
			if err != nil {
				return false, err
			}
			for _, condition := range node.Status.Conditions {
				if condition.Type == corev1.NodeReady {
					return condition.Status == status, nil
				}
			}
			return false, nil
		}
	}
	g.Eventually(ready(corev1.ConditionTrue), "20s", "50ms").Should(BeTrue())
	pods := []*corev1.Pod{fakePod("fake", nil), labPod("real")}
	for _, pod := range pods {
		pod.Spec.NodeName = "guest.ec2.internal"
		_, err := shared.Client.CoreV1().Pods(ns).Create(t.Context(), pod, metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Eventually(getPod(t, ns, pod.Name), "30s", "50ms").Should(beReady())
	}
	pid := reports(t, ns, "real")[0].PID

	simulator.end("guest", "shutting-down")
	g.Eventually(ready(corev1.ConditionUnknown), "20s", "50ms").Should(BeTrue())
	g.Eventually(getPod(t, ns, "fake"), "20s", "50ms").ShouldNot(beReady())
	g.Consistently(ready(corev1.ConditionTrue), "2s", "100ms").Should(BeFalse(), "kwok does not bring it back")

	simulator.end("guest", "terminated")
	for _, pod := range pods {
		g.Eventually(errorOf(getPod(t, ns, pod.Name)), "20s", "50ms").Should(beGone())
	}
	g.Eventually(func() error { _, err := nodes.Get(t.Context(), "guest.ec2.internal", metav1.GetOptions{}); return err }, "20s", "50ms").Should(beGone())
	g.Eventually(func() error { return syscall.Kill(pid, 0) }, "20s", "50ms").Should(MatchError(syscall.ESRCH))
}

func TestADeletedNodeDoesNotComeBack(t *testing.T) {
	g := NewWithT(t)
	nodes := shared.Client.CoreV1().Nodes()
	simulator.set(testInstance("once", 2))
	get := func() error { _, err := nodes.Get(t.Context(), "once.ec2.internal", metav1.GetOptions{}); return err }
	g.Eventually(get, "20s", "50ms").Should(Succeed())
	g.Expect(nodes.Delete(t.Context(), "once.ec2.internal", metav1.DeleteOptions{})).To(Succeed())
	g.Consistently(get, "7s", "100ms").Should(beGone(), "longer than the bridge's resync")
	simulator.end("once", "terminated")
}

func TestAuditLogTellsWhoEndedAPod(t *testing.T) {
	g := NewWithT(t)
	ns := namespace(t, g)
	config, err := shared.UserConfig("lab:watcher", "system:masters")
	g.Expect(err).NotTo(HaveOccurred())
	client, err := kubernetes.NewForConfig(config)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = client.CoreV1().Pods(ns).Create(t.Context(), fakePod("victim", nil), metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(getPod(t, ns, "victim"), "20s", "50ms").Should(beReady())
	g.Expect(client.PolicyV1().Evictions(ns).Evict(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "victim", Namespace: ns}})).To(Succeed())
	g.Eventually(errorOf(getPod(t, ns, "victim")), "20s", "50ms").Should(beGone())
	users := map[string]string{}
	g.Eventually(func(g Gomega) {
		log, err := os.ReadFile(shared.AuditLog)
		g.Expect(err).NotTo(HaveOccurred())
		for line := range bytes.Lines(log) {
			var event struct {
				Verb      string
				User      struct{ Username string }
				ObjectRef struct{ Resource, Subresource, Namespace, Name string }
			}
			if json.Unmarshal(line, &event) == nil && event.ObjectRef.Namespace == ns && event.ObjectRef.Name == "victim" {
				users[event.Verb+" "+event.ObjectRef.Subresource] = event.User.Username
			}
		}
		g.Expect(users).To(HaveKeyWithValue("create eviction", "lab:watcher"))
		g.Expect(users).To(HaveKeyWithValue("delete ", "lab:reaper"))
	}, "10s", "100ms").Should(Succeed())
}

func TestRestartOfAProcess(t *testing.T) {
	g := NewWithT(t)
	g.Expect(shared.Restart(t.Context(), "kube-scheduler")).To(Succeed())
	ns := namespace(t, g)
	_, err := shared.Client.CoreV1().Pods(ns).Create(t.Context(), fakePod("after", nil), metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(getPod(t, ns, "after"), "30s", "50ms").Should(beReady())
	g.Expect(shared.Kill("no-such-process")).NotTo(Succeed())
}

func TestAProcessThatDiesIsReportedWithItsLog(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := lab.Up(ctx, lab.Config{
		BinDir: binDir(), Dir: t.TempDir(), SimulatorURL: simulator.URL,
		ExtraArgs: map[string][]string{"kube-apiserver": {"--no-such-flag"}},
	})
	if err == nil {
		t.Fatal("want an error")
	}
	for _, want := range []string{"kube-apiserver", "exit status 1", "unknown flag: --no-such-flag"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error does not mention %q: %v", want, err)
		}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		t.Error("the lab waited for its deadline instead of looking at the process")
	}
}
