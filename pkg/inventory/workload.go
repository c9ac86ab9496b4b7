package inventory

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Workloads is what runs in the cluster, as far as the preflight needs it. It is read page by page, in Assessing and between
// pools only.
type Workloads struct {
	Pods    []Pod                          `json:"pods,omitempty"`
	Budgets []policyv1.PodDisruptionBudget `json:"budgets,omitempty"`
	// Controllers are what makes pods: also those that have none now, which make some at night.
	Controllers []Controller `json:"controllers,omitempty"`
	// Claims are the PersistentVolumeClaims that are bound to a volume with a say in where its pods may run.
	Claims []Claim `json:"claims,omitempty"`
	// Autoscalers are the HorizontalPodAutoscalers.
	Autoscalers []PodAutoscaler `json:"autoscalers,omitempty"`
	// Webhooks are the admission webhooks that a Service of this cluster answers and that refuse when it does not.
	Webhooks []Webhook `json:"webhooks,omitempty"`
	// LimitRanges give requests to containers that have none.
	LimitRanges []corev1.LimitRange `json:"limitRanges,omitempty"`
	// Pending counts pods that no node had room for.
	Pending int `json:"pending,omitempty"`
}

// Pod is what the checks need of a pod; at 30,000 pods the whole object would not fit.
type Pod struct {
	Namespace string            `json:"namespace"`
	Name      string            `json:"name"`
	Node      string            `json:"node,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
	// Annotations are those that speak of moving the pod, and no others.
	Annotations map[string]string      `json:"annotations,omitempty"`
	Owner       *metav1.OwnerReference `json:"owner,omitempty"` // its controller, nil for a bare pod
	Phase       corev1.PodPhase        `json:"phase"`
	Ready       bool                   `json:"ready,omitempty"`
	Terminating bool                   `json:"terminating,omitempty"`
	Mirror      bool                   `json:"mirror,omitempty"` // of a static pod
	// Shape is shared by the pods of one template: read it, never write to it.
	Shape *Shape `json:"shape,omitempty"`
}

// Object names the pod as reports and accepted risks do.
func (p Pod) Object() string { return "pod/" + p.Namespace + "/" + p.Name }

// Shape is what of a pod's spec decides where it can run, and what it means to move it.
type Shape struct {
	NodeSelector map[string]string                 `json:"nodeSelector,omitempty"`
	Affinity     *corev1.Affinity                  `json:"affinity,omitempty"`
	Tolerations  []corev1.Toleration               `json:"tolerations,omitempty"`
	Spread       []corev1.TopologySpreadConstraint `json:"spread,omitempty"`
	// Requests as the scheduler counts them: init containers and overhead in them.
	Requests corev1.ResourceList `json:"requests,omitempty"`
	// Unrequested are containers without a request for CPU or for memory.
	Unrequested []string `json:"unrequested,omitempty"`
	HostPorts   []int32  `json:"hostPorts,omitempty"`
	HostNetwork bool     `json:"hostNetwork,omitempty"`
	// PriorityClass and Priority; the latter is known of pods only, admission resolves it.
	PriorityClass string `json:"priorityClass,omitempty"`
	Priority      int32  `json:"priority,omitempty"`
	// NeverPreempts is preemptionPolicy Never.
	NeverPreempts bool   `json:"neverPreempts,omitempty"`
	Scheduler     string `json:"scheduler,omitempty"`
	// NodeName is the node that a template names itself, past every scheduler. Of pods it is not kept: all have one once they run.
	NodeName string `json:"nodeName,omitempty"`
	// Claims are the names of its PersistentVolumeClaims, those of generic ephemeral volumes left out: they go with the pod.
	Claims   []string `json:"claims,omitempty"`
	EmptyDir bool     `json:"emptyDir,omitempty"`
	HostPath bool     `json:"hostPath,omitempty"`
	Images   []string `json:"images,omitempty"`
}

// Controller is what makes pods from a template.
type Controller struct {
	Kind      string `json:"kind"` // Deployment, StatefulSet, DaemonSet, Job, CronJob, ReplicaSet, ReplicationController
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Replicas asked for: of a Job its parallelism, of a DaemonSet the nodes it wants to be on.
	Replicas int32 `json:"replicas"`
	// Suspended is a Job or CronJob that makes no pods now.
	Suspended bool `json:"suspended,omitempty"`
	// KeepsAll says that a restart of it takes no pod away before another is Ready: a rolling update with maxUnavailable 0.
	KeepsAll bool `json:"keepsAll,omitempty"`
	// Owner names who would put it back: "Argo CD application x", "Helm release y", or empty.
	Owner          string            `json:"owner,omitempty"`
	PodLabels      map[string]string `json:"podLabels,omitempty"`
	PodAnnotations map[string]string `json:"podAnnotations,omitempty"`
	Shape          *Shape            `json:"shape,omitempty"`
}

// Object names the controller as reports and accepted risks do.
func (c Controller) Object() string {
	return strings.ToLower(c.Kind) + "/" + c.Namespace + "/" + c.Name
}

// Claim is a PersistentVolumeClaim with its volume.
type Claim struct {
	types.NamespacedName
	Volume string `json:"volume"`
	// Local is a volume on one node's own disk: kind local or hostPath, or bound to a host name.
	Local bool `json:"local,omitempty"`
	// Affinity is where the volume can be reached from.
	Affinity *corev1.NodeSelector `json:"affinity,omitempty"`
	// Shared is a volume that several nodes can have at once.
	Shared bool `json:"shared,omitempty"`
}

// PodAutoscaler is a HorizontalPodAutoscaler.
type PodAutoscaler struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Kind      string `json:"kind"`   // of what it scales
	Target    string `json:"target"` // name of what it scales
	Min       int32  `json:"min"`
	Max       int32  `json:"max"`
}

// Webhook is an admission webhook whose failure policy is Fail.
type Webhook struct {
	// Configuration is the kind and name of the object it stands in.
	Configuration string               `json:"configuration"`
	Name          string               `json:"name"`
	Service       types.NamespacedName `json:"service"`
	// Selector is the Service's, so that its pods are found; empty where the Service is missing or has none.
	Selector map[string]string `json:"selector,omitempty"`
	// Pods says that it is asked about pods, their binding or their eviction.
	Pods bool `json:"pods,omitempty"`
	// Own says that it is asked about the pods that answer it, as far as its selectors say so by the namespace's name and the
	// Service's selector: without an answer none of them can be made.
	Own bool `json:"own,omitempty"`
}
