package inventory

import (
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Workloads is what runs in the cluster, as far as the preflight needs it. It is read page by page, in Assessing only.
type Workloads struct {
	Pods    []Pod                          `json:"pods,omitempty"`
	Budgets []policyv1.PodDisruptionBudget `json:"budgets,omitempty"`
	// Pending counts pods that no node had room for.
	Pending int `json:"pending,omitempty"`
}

// Pod is what the checks need of a pod; at 30,000 pods the whole object would not fit.
type Pod struct {
	Namespace   string                 `json:"namespace"`
	Name        string                 `json:"name"`
	Node        string                 `json:"node,omitempty"`
	Labels      map[string]string      `json:"labels,omitempty"`
	Annotations map[string]string      `json:"annotations,omitempty"`
	Owner       *metav1.OwnerReference `json:"owner,omitempty"` // its controller, nil for a bare pod
	Phase       corev1.PodPhase        `json:"phase"`
	Mirror      bool                   `json:"mirror,omitempty"` // of a static pod
	Selector    map[string]string      `json:"nodeSelector,omitempty"`
	Affinity    *corev1.NodeAffinity   `json:"nodeAffinity,omitempty"`
	Tolerations []corev1.Toleration    `json:"tolerations,omitempty"`
}

// Object names the pod as reports and accepted risks do.
func (p Pod) Object() string { return "pod/" + p.Namespace + "/" + p.Name }
