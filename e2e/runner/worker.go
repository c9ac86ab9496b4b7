package runner

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// worker runs one pod from its binding to a node to its removal.
type worker struct {
	runner *Runner
	pod    *corev1.Pod // as first seen; its spec does not change
	dir    string
	podIP  string
	hostIP string
	// tokensLast is how long the first tokens hold.
	tokensLast time.Duration

	containers []*container
	status     statusWriter
	changed    chan struct{} // a container's state changed
	deletion   chan time.Duration
	killed     context.Context // ends when the pod is gone from the API
	kill       context.CancelFunc
	deleteOnce sync.Once
}

// stopGrace is what processes get when the runner itself is told to stop.
const stopGrace = 2 * time.Second

// retryInterval is the wait before something is tried again that the pod needs.
const retryInterval = time.Second

func newWorker(r *Runner, pod *corev1.Pod) *worker {
	w := &worker{
		runner:   r,
		pod:      pod,
		dir:      filepath.Join(r.config.Dir, "pods", fmt.Sprintf("%s_%s_%s", pod.Namespace, pod.Name, pod.UID)),
		changed:  make(chan struct{}, 1),
		deletion: make(chan time.Duration, 1),
	}
	w.killed, w.kill = context.WithCancel(context.Background())
	w.status = statusWriter{client: r.config.Client, pod: pod, now: time.Now}
	for i := range pod.Spec.Containers {
		w.containers = append(w.containers, newContainer(w, &pod.Spec.Containers[i]))
	}
	return w
}

// update takes note of the pod's deletion, and of a status that somebody else wrote over.
func (w *worker) update(pod *corev1.Pod) {
	if pod.DeletionTimestamp != nil {
		w.deleteOnce.Do(func() {
			grace := int64(0)
			if pod.DeletionGracePeriodSeconds != nil {
				grace = *pod.DeletionGracePeriodSeconds
			}
			w.deletion <- time.Duration(grace) * time.Second
		})
	}
	if w.status.overwritten(pod) {
		w.notify()
	}
}

// notify has the status written soon; it never blocks.
func (w *worker) notify() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// run ends when the pod is gone, or every process has ended because the runner stops.
func (w *worker) run(ctx context.Context) {
	stopping, stop := context.WithCancel(context.Background())
	defer stop()
	defer w.kill()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.runContainers(stopping)
	}()
	for {
		select {
		case <-w.changed:
			w.writeStatus(ctx)
		case grace := <-w.deletion:
			w.setGrace(grace)
			stop()
			<-ended
			w.remove(ctx)
			return
		case <-w.killed.Done():
			stop()
			<-ended
			return
		case <-ctx.Done():
			w.setGrace(stopGrace)
			stop()
			<-ended
			return
		}
	}
}

func (w *worker) setGrace(grace time.Duration) {
	for _, c := range w.containers {
		c.setGrace(grace)
	}
}

// runContainers returns when all have ended for good.
func (w *worker) runContainers(ctx context.Context) {
	for {
		err := w.prepare(ctx)
		if err == nil {
			break
		}
		for _, c := range w.containers {
			c.wait("CreateContainerConfigError", err.Error())
		}
		if !sleep(ctx, retryInterval) {
			return
		}
	}
	var all sync.WaitGroup
	for _, c := range w.containers {
		all.Go(func() { c.run(ctx) })
	}
	background, cancel := context.WithCancel(ctx)
	defer cancel()
	go w.renewTokens(background, w.tokensLast)
	all.Wait()
}

// prepare makes what the pod's processes find on their start.
func (w *worker) prepare(ctx context.Context) error {
	if err := os.MkdirAll(filepath.Join(w.dir, "tmp"), 0o700); err != nil {
		return fmt.Errorf("make the pod's folder: %w", err)
	}
	if w.podIP == "" {
		w.podIP = w.pod.Status.PodIP
		if w.podIP == "" {
			w.podIP = w.runner.newIP()
		}
	}
	node, err := w.runner.config.Client.CoreV1().Nodes().Get(ctx, w.pod.Spec.NodeName, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read the pod's node: %w", err)
	}
	for _, address := range node.Status.Addresses {
		if address.Type == corev1.NodeInternalIP {
			w.hostIP = address.Address
		}
	}
	if err := w.writeKubeconfig(); err != nil {
		return err
	}
	if w.tokensLast, err = w.writeTokens(ctx); err != nil {
		return err
	}
	return w.writeVolumes(ctx)
}

func (w *worker) writeStatus(ctx context.Context) {
	err := w.status.write(ctx, w.desiredStatus())
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) || ctx.Err() != nil {
		return // a conflict is another pod of that name
	}
	w.runner.config.Log.Warn("retrying to write a pod's status", "pod", w.key(), "error", err)
	time.AfterFunc(retryInterval, w.notify)
}

// remove takes the pod out of the API, now that its processes have ended.
func (w *worker) remove(ctx context.Context) {
	w.writeStatus(ctx)
	now := int64(0)
	for {
		err := w.runner.config.Client.CoreV1().Pods(w.pod.Namespace).Delete(ctx, w.pod.Name, metav1.DeleteOptions{
			GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &w.pod.UID},
		})
		if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return
		}
		w.runner.config.Log.Warn("retrying to remove a pod", "pod", w.key(), "error", err)
		if !sleep(ctx, retryInterval) {
			return
		}
	}
}

func (w *worker) usage() Usage {
	u := Usage{Namespace: w.pod.Namespace, Name: w.pod.Name}
	for _, c := range w.containers {
		c.addUsage(&u)
	}
	return u
}

func (w *worker) key() string { return w.pod.Namespace + "/" + w.pod.Name }

// sleep is false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
