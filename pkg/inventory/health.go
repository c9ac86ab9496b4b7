package inventory

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// ProgressDeadline is for how long a pod may be on its way to Ready where its Deployment says nothing (Kubernetes API reference,
// DeploymentSpec, progressDeadlineSeconds).
const ProgressDeadline = 10 * time.Minute

// UnwellPod is a pod on a node that is not Ready, or whose container crashes again and again.
type UnwellPod struct {
	Pod types.NamespacedName
	// Workload that makes the pod, as kind/namespace/name; the pod itself where nothing does.
	Workload string
	Node     string
	// Since is when it was last Ready, or came to its node.
	Since time.Time
	// Deadline is for how long it may be on its way.
	Deadline time.Duration
	// Crashing says that a container is in CrashLoopBackOff, or has just been.
	Crashing bool
}

// Fails says that the pod has had its time, or crashes.
func (p UnwellPod) Fails(now time.Time) bool { return p.Crashing || p.Overdue(now) }

// Overdue says that the pod has had its time.
func (p UnwellPod) Overdue(now time.Time) bool { return now.Sub(p.Since) >= p.Deadline }

// GateAnswer is what Prometheus answered to a gate's query.
type GateAnswer struct {
	Samples []Sample
	// Problem is why there is no answer; empty where there is one.
	Problem string
	// Refused says that Prometheus understood the question and refuses it: asking again helps only once somebody changed it.
	Refused bool
}

// Sample is one value that a query returned.
type Sample struct {
	// Series is its labels as Prometheus writes them; empty for a scalar.
	Series string
	Value  float64
}
