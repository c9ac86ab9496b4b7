// Package runner is a small kubelet for processes: a pod whose image it knows is run as a local process, with the pod's
// arguments and environment, its ServiceAccount's rights, its probes and its grace period. What a container isolates
// (files, network, memory, users) is not isolated here.
package runner

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// Config says what a runner runs and with what.
type Config struct {
	// Client acts as the kubelet.
	Client kubernetes.Interface
	// APIServer and CAData are how the pods' processes reach the API server.
	APIServer string
	CAData    []byte
	// Images maps an image's repository, without tag or digest, to the binary that is run for it.
	Images map[string]string
	// Dir takes the pods' files (Dir/pods) and logs (Dir/logs/pods).
	Dir string
	// AWSEndpoint and Region are what the pods' processes take for AWS.
	AWSEndpoint string
	Region      string
	// Env is set for every process, over the pod's own.
	Env []string
	// CrashBackOff is the wait before a failed container's first restart; it doubles up to 30 s.
	CrashBackOff time.Duration
	// Log tells of processes that start and end.
	Log *slog.Logger
}

// Runner runs the pods of one cluster.
type Runner struct {
	config Config

	mu      sync.Mutex
	workers map[types.UID]*worker
	usage   map[types.UID]Usage // of pods that are gone
	nextIP  netip.Addr
	running sync.WaitGroup
}

// Usage is what a pod's process used.
type Usage struct {
	Namespace string
	Name      string
	Image     string
	// PeakMiB is the most memory that any of its processes had resident.
	PeakMiB float64
	// Restarts of its first container that the runner runs.
	Restarts int32
	// MetricsURL and HealthURL are where the process listens, empty when it does not run.
	MetricsURL string
	HealthURL  string
}

// New makes a runner; Run starts it.
func New(config Config) *Runner {
	return &Runner{
		config:  config,
		workers: map[types.UID]*worker{},
		usage:   map[types.UID]Usage{},
		nextIP:  netip.AddrFrom4([4]byte{10, 112, 0, 1}), // apart from the addresses that kwok gives out
	}
}

// Idle is the label of castoff's placeholders. They do nothing but take room, by the thousand: kwok plays them.
const Idle = "castoff.sh/placeholder"

// Runs tells whether a pod is the runner's: one of its containers has an image it knows, and it is not idle.
func (r *Runner) Runs(pod *corev1.Pod) bool {
	if _, idle := pod.Labels[Idle]; idle {
		return false
	}
	return slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool {
		_, known := r.binary(c.Image)
		return known
	})
}

// binary is what is run for an image.
func (r *Runner) binary(image string) (string, bool) {
	path, known := r.config.Images[repository(image)]
	return path, known
}

// repository is an image's name without tag and digest. A port in the registry's name is no tag.
func repository(image string) string {
	image, _, _ = strings.Cut(image, "@")
	if colon := strings.LastIndex(image, ":"); colon > strings.LastIndex(image, "/") {
		image = image[:colon]
	}
	return image
}

// Run works until ctx ends and then stops every process. Pods that ran under an earlier runner are started again.
func (r *Runner) Run(ctx context.Context) error {
	factory := informers.NewSharedInformerFactoryWithOptions(r.config.Client, 0,
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermNotEqualSelector("spec.nodeName", "").String()
		}), informers.WithTransform(stripManagedFields))
	informer := factory.Core().V1().Pods().Informer()
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { r.see(ctx, object) },
		UpdateFunc: func(_, object any) { r.see(ctx, object) },
		DeleteFunc: r.lose,
	})
	if err != nil {
		return fmt.Errorf("watch pods: %w", err)
	}
	factory.Start(ctx.Done())
	<-ctx.Done()
	factory.Shutdown()
	r.running.Wait()
	return nil
}

// see starts what a pod asks for, or passes on its change.
func (r *Runner) see(ctx context.Context, object any) {
	pod, ok := object.(*corev1.Pod)
	if !ok || !r.Runs(pod) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if w, known := r.workers[pod.UID]; known {
		w.update(pod)
		return
	}
	if finished(pod) || ctx.Err() != nil {
		return
	}
	w := newWorker(r, pod)
	r.workers[pod.UID] = w
	w.update(pod)
	r.running.Go(func() {
		w.run(ctx)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.usage[pod.UID] = w.usage()
	})
}

// lose kills what is left of a pod that is gone from the API, as when its node ends.
func (r *Runner) lose(object any) {
	if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = unknown.Obj
	}
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if w, known := r.workers[pod.UID]; known {
		w.kill()
		delete(r.workers, pod.UID)
	}
}

// Kill ends the running processes of the pods whose names begin so with SIGKILL, as a crash would, and returns how many
// there were. They start again as their pods' restart policy says, each time after the shortest wait.
func (r *Runner) Kill(namespace, prefix string) int {
	r.mu.Lock()
	workers := maps.Clone(r.workers)
	r.mu.Unlock()
	killed := 0
	for _, w := range workers {
		if w.pod.Namespace != namespace || !strings.HasPrefix(w.pod.Name, prefix) {
			continue
		}
		for _, c := range w.containers {
			if c.crash() {
				killed++
			}
		}
	}
	return killed
}

// stripManagedFields keeps a third of every pod out of memory.
func stripManagedFields(object any) (any, error) {
	if pod, ok := object.(*corev1.Pod); ok {
		pod.ManagedFields = nil
	}
	return object, nil
}

func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// Usage lists what every pod used that the runner has run, those that are gone included, by namespace and name.
func (r *Runner) Usage() []Usage {
	r.mu.Lock()
	all := maps.Clone(r.usage)
	workers := maps.Clone(r.workers)
	r.mu.Unlock()
	for uid, w := range workers {
		all[uid] = w.usage()
	}
	return slices.SortedFunc(maps.Values(all), func(a, b Usage) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
}

// RSS is the most memory, in MiB, that a process of that pod has had resident; 0 for a pod the runner has not run.
func (r *Runner) RSS(namespace, name string) float64 {
	peak := 0.0
	for _, usage := range r.Usage() {
		if usage.Namespace == namespace && usage.Name == name {
			peak = max(peak, usage.PeakMiB)
		}
	}
	return peak
}

// newIP is an address for a pod's status; nothing listens on it.
func (r *Runner) newIP() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	ip := r.nextIP
	r.nextIP = ip.Next()
	return ip.String()
}
