package controllers

import (
	"encoding/json"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/inventory/kubeapi"
)

// interner keeps one of what many pods have alike. Alike is decided by content, not by the owner: a vertical autoscaler or a webhook
// makes pods of one template differ, and the pods of a StatefulSet differ in their claims.
type interner struct {
	shapes map[string]*inventory.Shape
	maps   map[string]map[string]string
	owners map[types.UID]*metav1.OwnerReference
}

func newInterner() *interner {
	return &interner{shapes: map[string]*inventory.Shape{}, maps: map[string]map[string]string{}, owners: map[types.UID]*metav1.OwnerReference{}}
}

// shape returns the first of its content. JSON has its maps in order, and every field of a shape is in it.
func (i *interner) shape(s *inventory.Shape) *inventory.Shape {
	key, err := json.Marshal(s)
	if err != nil {
		return s // shared with nobody
	}
	return intern(i.shapes, string(key), s)
}

func (i *interner) strings(m map[string]string) map[string]string {
	key, err := json.Marshal(m)
	if err != nil || len(m) == 0 {
		return m
	}
	return intern(i.maps, string(key), m)
}

func (i *interner) owner(o *metav1.OwnerReference) *metav1.OwnerReference {
	if o == nil {
		return nil
	}
	return intern(i.owners, o.UID, o)
}

func intern[K comparable, V any](known map[K]V, key K, v V) V {
	if first, ok := known[key]; ok {
		return first
	}
	known[key] = v
	return v
}

func (i *interner) pod(p *corev1.Pod) inventory.Pod {
	_, mirror := p.Annotations[corev1.MirrorPodAnnotationKey]
	return inventory.Pod{
		Namespace: p.Namespace, Name: p.Name, Node: p.Spec.NodeName, Labels: i.strings(p.Labels), Annotations: i.strings(movingAnnotations(p.Annotations)),
		Owner: i.owner(metav1.GetControllerOf(p)), Phase: p.Status.Phase, Ready: kubeapi.Ready(p), Terminating: p.DeletionTimestamp != nil, Mirror: mirror,
		Shape: i.shape(shapeOf(&p.Spec)),
	}
}

// waits says that the pod waits for a node: it is not on its way out, and no scheduling gate holds it back. One of a DaemonSet waits
// for room on its own node, which no drain took away and no new node gives.
func waits(p *corev1.Pod) bool {
	return p.Spec.NodeName == "" && p.DeletionTimestamp == nil && !kubeapi.Finished(p) && len(p.Spec.SchedulingGates) == 0 && !ofDaemonSet(p) && !castoffsOwn(p)
}

// castoffsOwn are pods that castoff made for a while: they are no workload.
func castoffsOwn(p *corev1.Pod) bool {
	return p.Labels[v1alpha1.LabelPlaceholder] != "" || p.Labels[v1alpha1.LabelCanary] != ""
}

func ofDaemonSet(p *corev1.Pod) bool {
	owner := metav1.GetControllerOf(p)
	return owner != nil && owner.Kind == "DaemonSet"
}

// movers are the prefixes of annotations by which somebody speaks of moving pods: Karpenter, Cluster Autoscaler, the descheduler,
// castoff.
var movers = []string{"karpenter.sh", "cluster-autoscaler.kubernetes.io", "descheduler.alpha.kubernetes.io", "castoff.sh"}

// movingAnnotations leaves out the others, which are many and long.
func movingAnnotations(all map[string]string) map[string]string {
	var out map[string]string
	for k, v := range all {
		prefix, _, _ := strings.Cut(k, "/")
		if k != corev1.MirrorPodAnnotationKey && !slices.Contains(movers, prefix) {
			continue
		}
		if out == nil {
			out = map[string]string{}
		}
		out[k] = v
	}
	return out
}

// shapeOf keeps of a pod's spec, or a template's, what the checks need.
func shapeOf(s *corev1.PodSpec) *inventory.Shape {
	out := &inventory.Shape{
		NodeSelector: s.NodeSelector, Affinity: s.Affinity, Tolerations: s.Tolerations, Spread: s.TopologySpreadConstraints,
		Requests:    resourcehelper.PodRequests(&corev1.Pod{Spec: *s}, resourcehelper.PodResourcesOptions{}),
		HostNetwork: s.HostNetwork, PriorityClass: s.PriorityClassName, Scheduler: s.SchedulerName,
		NeverPreempts: s.PreemptionPolicy != nil && *s.PreemptionPolicy == corev1.PreemptNever,
	}
	if s.Priority != nil {
		out.Priority = *s.Priority
	}
	volumesOf(s, out)
	for i := range s.InitContainers {
		c := &s.InitContainers[i]
		out.Images = append(out.Images, c.Image)
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways { // a sidecar runs beside the others
			containerOf(s, c, out)
		}
	}
	for i := range s.Containers {
		out.Images = append(out.Images, s.Containers[i].Image)
		containerOf(s, &s.Containers[i], out)
	}
	return out
}

func volumesOf(s *corev1.PodSpec, out *inventory.Shape) {
	for i := range s.Volumes {
		switch v := &s.Volumes[i]; {
		case v.PersistentVolumeClaim != nil:
			out.Claims = append(out.Claims, v.PersistentVolumeClaim.ClaimName)
		case v.EmptyDir != nil:
			out.EmptyDir = true
		case v.HostPath != nil:
			out.HostPath = true
		}
	}
}

// containerOf adds what a container that runs all the time asks for. Requests of the whole pod stand for those of its containers.
func containerOf(s *corev1.PodSpec, c *corev1.Container, out *inventory.Shape) {
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		_, own := c.Resources.Requests[name]
		whole := false
		if s.Resources != nil {
			_, whole = s.Resources.Requests[name]
		}
		if !own && !whole {
			out.Unrequested = append(out.Unrequested, c.Name)
			break
		}
	}
	for _, p := range c.Ports {
		if p.HostPort != 0 && !slices.Contains(out.HostPorts, p.HostPort) {
			out.HostPorts = append(out.HostPorts, p.HostPort)
		}
	}
}

// over says that the Job makes no pods any more.
func over(j *batchv1.Job) bool {
	return slices.ContainsFunc(j.Status.Conditions, func(c batchv1.JobCondition) bool {
		return (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue
	})
}

// aboutPods says that one of the rules is asked when a pod is made, bound, evicted or deleted.
func aboutPods(rules []admissionv1.RuleWithOperations) bool {
	operation := func(o admissionv1.OperationType) bool {
		return o == admissionv1.OperationAll || o == admissionv1.Create || o == admissionv1.Delete
	}
	group := func(g string) bool { return g == "*" || g == "" }
	return slices.ContainsFunc(rules, func(r admissionv1.RuleWithOperations) bool {
		return slices.ContainsFunc(r.Operations, operation) && slices.ContainsFunc(r.APIGroups, group) && slices.ContainsFunc(r.Resources, ofPods)
	})
}

// ofPods reads a rule's resource: "*" is everything but subresources, "pods/*" every subresource of pods, "*/*" everything.
func ofPods(rule string) bool {
	name, sub, hasSub := strings.Cut(rule, "/")
	switch {
	case name != "pods" && name != "*":
		return rule == "bindings"
	case !hasSub:
		return true
	}
	return sub == "*" || sub == "binding" || sub == "eviction"
}

// scope is what an admission webhook's selectors leave it to be asked about.
type scope struct{ namespaces, objects *metav1.LabelSelector }

// covers says whether a pod of that namespace with those labels is in the scope. Of the namespace's labels only the one that every
// namespace has is known here; a webhook that asks for another is asked about those namespaces that somebody opted in.
func (s scope) covers(namespace string, pod map[string]string) bool {
	return matches(s.namespaces, map[string]string{corev1.LabelMetadataName: namespace}) && matches(s.objects, pod)
}

// matches follows admission: no selector selects everything.
func matches(s *metav1.LabelSelector, with map[string]string) bool {
	if s == nil {
		return true
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	return err == nil && selector.Matches(labels.Set(with))
}
