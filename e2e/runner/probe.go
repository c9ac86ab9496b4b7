package runner

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/castoff-sh/castoff/e2e/lab/process"
)

// unreadyPeriod caps the time between probes while a container is not ready: nobody wants to wait ten seconds for a
// process that is up in one.
const unreadyPeriod = 500 * time.Millisecond

// probe keeps the container's readiness and ends its process when it is no longer alive, until ctx ends.
func (c *container) probe(ctx context.Context, p *process.Process, ports portPair) {
	if c.spec.StartupProbe != nil {
		if !c.awaitStartup(ctx, p, ports) {
			return
		}
		c.set(func() { c.started, c.ready = true, c.spec.ReadinessProbe == nil })
	}
	var probes sync.WaitGroup
	if readiness := c.spec.ReadinessProbe; readiness != nil {
		probes.Go(func() { c.watch(ctx, readiness, ports, false, func(ok bool) { c.setReady(ok) }) })
	}
	if liveness := c.spec.LivenessProbe; liveness != nil {
		probes.Go(func() {
			c.watch(ctx, liveness, ports, true, func(ok bool) {
				if !ok {
					c.worker.runner.config.Log.Warn("liveness probe failed: restarting", "pod", c.worker.key(), "container", c.spec.Name)
					c.stop(p)
				}
			})
		})
	}
	probes.Wait()
}

// awaitStartup is false when the container did not start in the time its probe allows, or ctx ended.
func (c *container) awaitStartup(ctx context.Context, p *process.Process, ports portPair) bool {
	started := false
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	c.watch(watching, c.spec.StartupProbe, ports, false, func(ok bool) {
		started = ok
		cancel()
		if !ok {
			c.stop(p)
		}
	})
	return started && ctx.Err() == nil
}

// watch probes until ctx ends and reports each change of the outcome, with the probe's thresholds.
func (c *container) watch(ctx context.Context, probe *corev1.Probe, ports portPair, outcome bool, report func(bool)) {
	if !sleep(ctx, time.Duration(probe.InitialDelaySeconds)*time.Second) {
		return
	}
	period := seconds(probe.PeriodSeconds, 10)
	successes, failures := int32(0), int32(0)
	for {
		if attempt(ctx, c.spec, probe, ports) {
			successes, failures = successes+1, 0
		} else {
			successes, failures = 0, failures+1
		}
		if ctx.Err() != nil {
			return
		}
		switch {
		case !outcome && successes >= max(1, probe.SuccessThreshold):
			outcome = true
			report(true)
		case (outcome || probe == c.spec.StartupProbe) && failures >= threshold(probe):
			outcome = false
			report(false)
		}
		wait := period
		if !outcome && probe == c.spec.ReadinessProbe {
			wait = min(period, unreadyPeriod)
		}
		if !sleep(ctx, wait) {
			return
		}
	}
}

func threshold(probe *corev1.Probe) int32 {
	if probe.FailureThreshold == 0 {
		return 3
	}
	return probe.FailureThreshold
}

func seconds(value, fallback int32) time.Duration {
	if value == 0 {
		value = fallback
	}
	return time.Duration(value) * time.Second
}

// probeClient does not follow what a process may redirect to, and does not keep connections to processes that end.
var probeClient = &http.Client{
	Transport:     &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, //nolint:gosec // as the kubelet does
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// attempt probes once. Kinds of probes that need a container (exec, grpc) succeed.
func attempt(ctx context.Context, spec *corev1.Container, probe *corev1.Probe, ports portPair) bool {
	ctx, cancel := context.WithTimeout(ctx, seconds(probe.TimeoutSeconds, 1))
	defer cancel()
	switch {
	case probe.HTTPGet != nil:
		return get(ctx, probe.HTTPGet, localPort(spec, probe.HTTPGet.Port, ports))
	case probe.TCPSocket != nil:
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(localPort(spec, probe.TCPSocket.Port, ports)))
		connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err != nil {
			return false
		}
		_ = connection.Close()
	}
	return true
}

func get(ctx context.Context, action *corev1.HTTPGetAction, port int) bool {
	url := fmt.Sprintf("%s://127.0.0.1:%d/%s", strings.ToLower(string(schemeOf(action))), port, strings.TrimPrefix(action.Path, "/"))
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	for _, header := range action.HTTPHeaders {
		request.Header.Add(header.Name, header.Value)
	}
	response, err := probeClient.Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode >= 200 && response.StatusCode < 400
}

func schemeOf(action *corev1.HTTPGetAction) corev1.URIScheme {
	if action.Scheme == "" {
		return corev1.URISchemeHTTP
	}
	return action.Scheme
}

// localPort is where the process answers what the pod's probe asks for. Every process of the lab answers its probes on
// HEALTH_PROBE_PORT; a probe of the port that serves metrics goes to METRICS_PORT.
func localPort(spec *corev1.Container, port intstr.IntOrString, ports portPair) int {
	for _, declared := range spec.Ports {
		named := port.Type == intstr.String && declared.Name == port.StrVal
		numbered := port.Type == intstr.Int && declared.ContainerPort == port.IntVal
		if (named || numbered) && strings.Contains(declared.Name, "metrics") {
			return ports.metrics
		}
	}
	return ports.health
}
