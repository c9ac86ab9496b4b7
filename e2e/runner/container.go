package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/castoff-sh/castoff/e2e/lab/process"
)

// container runs one container of a pod, again and again as its restart policy says.
type container struct {
	worker *worker
	spec   *corev1.Container
	binary string // empty: an image the runner does not know, shown as running

	mu      sync.Mutex
	state   corev1.ContainerState
	last    corev1.ContainerState
	started bool
	ready   bool
	runs    int32
	grace   time.Duration
	process *process.Process
	ordered bool // its end was asked for, so it is no crash loop
	ports   portPair
	peak    float64
}

// portPair is where one run of a process listens.
type portPair struct{ metrics, health int }

const (
	// maxCrashBackOff is short against a kubelet's 5 minutes: a lab's run is short too.
	maxCrashBackOff = 30 * time.Second
	// crashReset is for how long a container must have run to start over with the shortest wait, as in the kubelet.
	crashReset = 10 * time.Minute
)

func newContainer(w *worker, spec *corev1.Container) *container {
	c := &container{worker: w, spec: spec, grace: defaultGrace(w.pod)}
	c.binary, _ = w.runner.binary(spec.Image)
	c.state.Waiting = &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}
	for _, status := range w.pod.Status.ContainerStatuses {
		if status.Name == spec.Name && status.State.Running != nil {
			c.runs = status.RestartCount + 1 // it ran under an earlier runner
		}
	}
	return c
}

func defaultGrace(pod *corev1.Pod) time.Duration {
	if seconds := pod.Spec.TerminationGracePeriodSeconds; seconds != nil {
		return time.Duration(*seconds) * time.Second
	}
	return corev1.DefaultTerminationGracePeriodSeconds * time.Second
}

// run returns when the container has ended for good, or ctx ended and its process with it.
func (c *container) run(ctx context.Context) {
	if c.binary == "" {
		c.set(func() { c.setRunning(true) })
		<-ctx.Done()
		c.set(func() { c.setTerminated(0, "Completed") })
		return
	}
	backOff := c.worker.runner.config.CrashBackOff
	for ctx.Err() == nil {
		started := time.Now()
		code, err := c.runOnce(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			c.wait(startFailure(err), err.Error())
			if !sleep(ctx, retryInterval) {
				return
			}
			continue
		case !restarts(c.worker.pod.Spec.RestartPolicy, code):
			return
		}
		if time.Since(started) > crashReset || c.wasOrdered() {
			backOff = c.worker.runner.config.CrashBackOff
		}
		c.wait("CrashLoopBackOff", fmt.Sprintf("exit code %d; restarted in %s", code, backOff))
		if !sleep(ctx, backOff) {
			return
		}
		backOff = min(2*backOff, maxCrashBackOff)
		c.set(func() { c.runs++ })
	}
}

func restarts(policy corev1.RestartPolicy, exitCode int) bool {
	switch policy {
	case corev1.RestartPolicyNever:
		return false
	case corev1.RestartPolicyOnFailure:
		return exitCode != 0
	default:
		return true
	}
}

// startFailure is the kubelet's word for what kept a container from starting.
func startFailure(err error) string {
	if errors.Is(err, os.ErrNotExist) {
		return "ErrImagePull"
	}
	return "CreateContainerConfigError"
}

// runOnce starts the process and returns its exit code once it ended.
func (c *container) runOnce(ctx context.Context) (int, error) {
	p, ports, err := c.start(ctx)
	if err != nil {
		return 0, err
	}
	c.set(func() {
		c.process, c.ports = p, ports
		c.setRunning(c.spec.ReadinessProbe == nil && c.spec.StartupProbe == nil)
	})
	c.worker.runner.config.Log.Info("process started", "pod", c.worker.key(), "container", c.spec.Name, "pid", p.PID())
	probing, cancel := context.WithCancel(ctx)
	var probes sync.WaitGroup
	probes.Go(func() { c.probe(probing, p, ports) })
	select {
	case <-p.Done():
	case <-ctx.Done():
		c.stop(p)
	}
	cancel()
	probes.Wait()
	code := p.ExitCode()
	c.worker.runner.config.Log.Info("process ended", "pod", c.worker.key(), "container", c.spec.Name, "pid", p.PID(), "exitCode", code)
	c.set(func() {
		c.peak = max(c.peak, p.PeakRSS())
		c.process = nil
		reason := "Completed"
		if code != 0 {
			reason = "Error"
		}
		c.setTerminated(int32(code), reason)
	})
	return code, nil
}

// stop gives the process its grace period, none once the pod is gone.
func (c *container) stop(p *process.Process) {
	c.mu.Lock()
	grace := c.grace
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(c.worker.killed, grace)
	defer cancel()
	p.Stop(ctx)
}

// crash kills the process as nobody expects it, and says whether one ran.
func (c *container) crash() bool {
	c.mu.Lock()
	p := c.process
	c.ordered = p != nil
	c.mu.Unlock()
	if p == nil {
		return false
	}
	p.Kill()
	return true
}

func (c *container) wasOrdered() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	ordered := c.ordered
	c.ordered = false
	return ordered
}

// start works out the container's environment and runs its binary in it.
func (c *container) start(ctx context.Context) (*process.Process, portPair, error) {
	var ports portPair
	if _, err := os.Stat(c.binary); err != nil {
		return nil, ports, fmt.Errorf("no binary for image %s, is it built? %w", c.spec.Image, err)
	}
	for _, port := range []*int{&ports.metrics, &ports.health} {
		free, err := process.FreePort()
		if err != nil {
			return nil, ports, err
		}
		*port = free
	}
	env, err := c.environment(ctx, ports)
	if err != nil {
		return nil, ports, err
	}
	pod := c.worker.pod
	p, err := process.Start(process.Options{
		Name: pod.Name + "/" + c.spec.Name, Path: c.binary, Args: c.arguments(env), Env: env.list(), Dir: c.worker.dir,
		LogFile: LogFile(c.worker.runner.config.Dir, pod.Namespace, pod.Name, c.spec.Name),
	})
	return p, ports, err
}

// LogFile is where a container's output goes, all its runs one after the other.
func LogFile(dir, namespace, pod, container string) string {
	return filepath.Join(dir, "logs", "pods", fmt.Sprintf("%s_%s_%s.log", namespace, pod, container))
}

func (c *container) setGrace(grace time.Duration) { c.set(func() { c.grace = grace }) }

// wait shows why the container does not run.
func (c *container) wait(reason, message string) {
	c.set(func() {
		c.state = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
		c.started, c.ready = false, false
	})
}

func (c *container) setReady(ready bool) { c.set(func() { c.ready = ready }) }

// set changes the state and has it reported.
func (c *container) set(change func()) {
	c.mu.Lock()
	change()
	c.mu.Unlock()
	c.worker.notify()
}

// setRunning needs mu.
func (c *container) setRunning(ready bool) {
	c.state = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}
	c.started, c.ready = c.spec.StartupProbe == nil, ready
}

// setTerminated needs mu.
func (c *container) setTerminated(code int32, reason string) {
	terminated := &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, FinishedAt: metav1.Now()}
	if c.state.Running != nil {
		terminated.StartedAt = c.state.Running.StartedAt
	}
	c.state = corev1.ContainerState{Terminated: terminated}
	c.last = c.state
	c.started, c.ready = false, false
}

// snapshot is the container's status as the API has it.
func (c *container) snapshot() corev1.ContainerStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	started := c.started
	status := corev1.ContainerStatus{
		Name: c.spec.Name, Image: c.spec.Image, ImageID: c.spec.Image,
		State: c.state, Ready: c.ready, Started: &started, RestartCount: c.runs,
	}
	if c.state.Terminated == nil {
		status.LastTerminationState = c.last
	}
	return status
}

func (c *container) addUsage(u *Usage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.binary == "" || u.Image != "" {
		return
	}
	u.Image, u.Restarts, u.PeakMiB = c.spec.Image, c.runs, c.peak
	if c.process != nil {
		u.PeakMiB = max(u.PeakMiB, c.process.PeakRSS())
		u.MetricsURL = fmt.Sprintf("http://127.0.0.1:%d/metrics", c.ports.metrics)
		u.HealthURL = fmt.Sprintf("http://127.0.0.1:%d", c.ports.health)
	}
}
