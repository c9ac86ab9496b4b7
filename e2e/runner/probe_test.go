package runner

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestLocalPort(t *testing.T) {
	karpenter := []corev1.ContainerPort{{Name: "http-metrics", ContainerPort: 8080}, {Name: "http", ContainerPort: 8081}}
	cases := map[string]struct {
		reason string
		ports  []corev1.ContainerPort
		port   intstr.IntOrString
		want   int
	}{
		"Named":          {"Karpenter's chart", karpenter, intstr.FromString("http"), 2},
		"NamedMetrics":   {"a probe of the metrics port", karpenter, intstr.FromString("http-metrics"), 1},
		"Number":         {"of the health port", karpenter, intstr.FromInt32(8081), 2},
		"NumberMetrics":  {"of the metrics port", karpenter, intstr.FromInt32(8080), 1},
		"Undeclared":     {"Cluster Autoscaler probes 8085 and declares nothing", nil, intstr.FromInt32(8085), 2},
		"NumberInString": {"a name, not a number, to Kubernetes", karpenter, intstr.FromString("8080"), 2},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := localPort(&corev1.Container{Ports: tc.ports}, tc.port, portPair{metrics: 1, health: 2}); got != tc.want {
				t.Errorf("%s: got %d, want %d", tc.reason, got, tc.want)
			}
		})
	}
}

// serve answers with a status that may change; it returns the port.
func serve(t *testing.T, status *atomic.Int32) int {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.WriteHeader(int(status.Load()))
	}))
	t.Cleanup(server.Close)
	return portOf(t, server.URL)
}

func portOf(t *testing.T, address string) int {
	t.Helper()
	parsed, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	_, text, err := net.SplitHostPort(parsed.Host)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func httpProbe(path string) *corev1.Probe {
	return &corev1.Probe{PeriodSeconds: 1, FailureThreshold: 1, ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromInt32(8081)}}}
}

func TestAttempt(t *testing.T) {
	var status atomic.Int32
	port := serve(t, &status)
	tcp := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(8081)}}}
	exec := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"false"}}}}
	cases := map[string]struct {
		reason string
		probe  *corev1.Probe
		status int32
		port   int
		want   bool
	}{
		"OK":          {"200", httpProbe("/readyz"), 200, port, true},
		"NoSlash":     {"the path may come without", httpProbe("readyz"), 200, port, true},
		"Redirect":    {"counts, and is not followed", httpProbe("/readyz"), 302, port, true},
		"Unavailable": {"503", httpProbe("/readyz"), 503, port, false},
		"OtherPath":   {"404", httpProbe("/livez"), 200, port, false},
		"Refused":     {"nobody listens", httpProbe("/readyz"), 200, 1, false},
		"TCP":         {"somebody listens", tcp, 200, port, true},
		"TCPRefused":  {"nobody listens", tcp, 200, 1, false},
		"Exec":        {"needs a container: taken as well", exec, 200, port, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			status.Store(tc.status)
			if got := attempt(t.Context(), &corev1.Container{}, tc.probe, portPair{health: tc.port}); got != tc.want {
				t.Errorf("%s: got %t, want %t", tc.reason, got, tc.want)
			}
		})
	}
}

func TestWatchReportsChangesOnly(t *testing.T) {
	g := NewWithT(t)
	var status atomic.Int32
	status.Store(http.StatusServiceUnavailable)
	probe := httpProbe("/readyz")
	w := testWorker(t, corev1.Container{Image: image, ReadinessProbe: probe}, nil)
	outcomes := make(chan bool, 10)
	ports := portPair{health: serve(t, &status)}
	go w.containers[0].watch(t.Context(), probe, ports, false, func(ok bool) { outcomes <- ok })
	g.Consistently(outcomes, "700ms").ShouldNot(Receive(), "not ready is what it was")
	status.Store(http.StatusOK)
	g.Eventually(outcomes, "5s").Should(Receive(BeTrue()))
	g.Consistently(outcomes, "1200ms").ShouldNot(Receive(), "still ready")
	status.Store(http.StatusServiceUnavailable)
	g.Eventually(outcomes, "5s").Should(Receive(BeFalse()))
}

func TestStartupProbeThatFailsIsReported(t *testing.T) {
	g := NewWithT(t)
	var status atomic.Int32
	status.Store(http.StatusServiceUnavailable)
	probe := httpProbe("/readyz")
	probe.FailureThreshold = 2
	w := testWorker(t, corev1.Container{Image: image, StartupProbe: probe}, nil)
	outcomes := make(chan bool, 10)
	go w.containers[0].watch(t.Context(), probe, portPair{health: serve(t, &status)}, false, func(ok bool) { outcomes <- ok })
	g.Eventually(outcomes, "5s").Should(Receive(BeFalse()))
}
