package autoscaler

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	kindStatefulSet = "StatefulSet"
	kindReplicaSet  = "ReplicaSet"
	kindPod         = "Pod"
	kindNode        = "Node" // whose kubelet has a static pod

	// straysFresh is for how long it counts that no pod runs Cluster Autoscaler by itself: a migration looks every second or two,
	// and hardly anybody runs it so.
	straysFresh = time.Minute
)

// workload is something that runs Cluster Autoscaler.
type workload struct {
	kind   string // empty is a Deployment
	object metav1.Object
	// selector of its pods; nil where pods are all that there is.
	selector         *metav1.LabelSelector
	pods             []corev1.Pod
	container        *corev1.Container
	replicas, status int32
}

func (w workload) String() string {
	return cmp.Or(w.kind, kindDeployment) + " " + w.object.GetNamespace() + "/" + w.object.GetName()
}

// workloads are the Deployments, StatefulSets and DaemonSets whose template has Cluster Autoscaler in it.
func (c *Client) workloads(ctx context.Context) ([]workload, error) {
	deployments, stateful, daemons := new(appsv1.DeploymentList), new(appsv1.StatefulSetList), new(appsv1.DaemonSetList)
	for _, of := range []struct {
		resource string
		list     client.ObjectList
	}{{"deployments", deployments}, {"statefulsets", stateful}, {"daemonsets", daemons}} {
		if err := c.client.List(ctx, of.list); err != nil {
			return nil, wrap(err, "list", of.resource, "of all namespaces")
		}
	}
	var found []workload
	add := func(w workload, spec *corev1.PodSpec) {
		if w.container = find(spec); w.container != nil {
			found = append(found, w)
		}
	}
	for i := range deployments.Items {
		d := &deployments.Items[i]
		add(workload{object: d, selector: d.Spec.Selector, replicas: ptr.Deref(d.Spec.Replicas, 1), status: d.Status.Replicas}, &d.Spec.Template.Spec)
	}
	for i := range stateful.Items {
		s := &stateful.Items[i]
		add(workload{kind: kindStatefulSet, object: s, selector: s.Spec.Selector, replicas: ptr.Deref(s.Spec.Replicas, 1), status: s.Status.Replicas}, &s.Spec.Template.Spec)
	}
	for i := range daemons.Items {
		d := &daemons.Items[i]
		n := d.Status.DesiredNumberScheduled
		add(workload{kind: kindDaemonSet, object: d, selector: d.Spec.Selector, replicas: n, status: n}, &d.Spec.Template.Spec)
	}
	return found, nil
}

// usualLabels are those that the pods of upstream's examples, of its Helm chart and of kOps have. No other way leads to a pod by
// itself that does not read all pods of the cluster.
var usualLabels = map[string][]string{
	"app":                    {program},
	"k8s-app":                {program},
	"app.kubernetes.io/name": {program, "aws-" + program},
}

// quiet remembers when no stray pod was found last.
type quiet struct {
	mu sync.Mutex
	at time.Time
}

func (q *quiet) since(now time.Time) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	return now.Sub(q.at)
}

func (q *quiet) found(none bool, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.at = (time.Time{}); none {
		q.at = now
	}
}

// strays are the pods that run Cluster Autoscaler and that none of the workloads has: bare ones, those of a ReplicaSet whose
// Deployment is gone, and those of kinds that castoff does not know. They are known by their usual labels, and one that comes is
// seen within straysFresh.
func (c *Client) strays(ctx context.Context, known []workload) ([]workload, error) {
	now := c.clock()
	if c.quiet.since(now) < straysFresh {
		return nil, nil
	}
	var found []workload
	for key, values := range usualLabels {
		has, err := labels.NewRequirement(key, selection.In, values)
		if err != nil {
			return nil, wrap(err, "make", "selector", key)
		}
		pods := new(corev1.PodList)
		if err := c.live.List(ctx, pods, client.MatchingLabelsSelector{Selector: labels.NewSelector().Add(*has)}); err != nil {
			return nil, wrap(err, "list", "pods", "with label "+key)
		}
		for i := range pods.Items {
			found = addStray(found, known, &pods.Items[i])
		}
	}
	c.quiet.found(len(found) == 0, now)
	return found, nil
}

// addStray adds the pod to what has it, or by itself; at most once, for it may have several of the labels.
func addStray(found, known []workload, pod *corev1.Pod) []workload {
	container := find(&pod.Spec)
	if container == nil || ended(pod) || slices.ContainsFunc(known, func(w workload) bool { return w.has(pod) }) {
		return found
	}
	w := workload{kind: kindPod, object: pod, container: container}
	if by := metav1.GetControllerOf(pod); by != nil && by.Kind != kindNode {
		w.kind, w.object = by.Kind, &metav1.ObjectMeta{Namespace: pod.Namespace, Name: by.Name, UID: by.UID, Labels: pod.Labels, Annotations: pod.Annotations}
	}
	i := slices.IndexFunc(found, func(o workload) bool { return o.object.GetUID() == w.object.GetUID() })
	if i < 0 {
		found, i = append(found, w), len(found)
	}
	if slices.ContainsFunc(found[i].pods, func(p corev1.Pod) bool { return p.UID == pod.UID }) {
		return found
	}
	found[i].pods = append(found[i].pods, *pod)
	found[i].status++
	if pod.DeletionTimestamp == nil {
		found[i].replicas++ // one that is on its way out is not asked for any more
	}
	return found
}

// has says whether the pod is the workload's: by its controller, and for a Deployment by the name that it gives its ReplicaSets
// (Kubernetes, "Deployment", pod-template-hash label).
func (w workload) has(pod *corev1.Pod) bool {
	by := metav1.GetControllerOf(pod)
	if by == nil || pod.Namespace != w.object.GetNamespace() {
		return false
	}
	if w.kind == "" {
		return by.Kind == kindReplicaSet && by.Name == w.object.GetName()+"-"+pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey]
	}
	return by.UID == w.object.GetUID()
}
