package inventory

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/castoff-sh/castoff/api/v1alpha1"
)

// Surge says which Deployments a drain restarts in place of evicting their pods. The zero value: none.
type Surge struct {
	Strategy v1alpha1.SurgeStrategy `json:"strategy,omitempty"`
	// For is noted on a Deployment that is restarted, and one that has the note is not restarted again: it names the Migration and its
	// direction.
	For string `json:"for,omitempty"`
}

// The reasons of a drain that surges.
const (
	// BlockedSurging waits for the pod's Deployment, which was restarted, to take it away.
	BlockedSurging BlockReason = "Surging"
	// BlockedNotSurged: the API server refused the restart, so that the pod was evicted as usual.
	BlockedNotSurged BlockReason = "SurgeRefused"
)

// SurgeStep is what a drain does about a pod of a Deployment.
type SurgeStep string

// The steps.
const (
	// SurgeEvict evicts the pod, as those of any other workload.
	SurgeEvict SurgeStep = "Evict"
	// SurgeRestart restarts the Deployment.
	SurgeRestart SurgeStep = "Restart"
	// SurgeAwait leaves the pod to the restart that is under way.
	SurgeAwait SurgeStep = "Await"
)

// StepOf decides by what is on the Deployment alone, so that after a crash the same comes out: it is restarted once, if that takes no
// pod away before another is Ready and nothing else is being rolled out; its pods are left alone until no old one is there, or until
// its own controller has given up (ProgressDeadlineExceeded).
func (s Surge) StepOf(d *appsv1.Deployment) SurgeStep {
	replicas := replicasOf(d)
	switch {
	case s.Strategy != v1alpha1.SurgeAll && s.Strategy != v1alpha1.SurgeSingletons, d.Spec.Paused, d.DeletionTimestamp != nil:
		return SurgeEvict
	case d.Annotations[v1alpha1.AnnotationSurged] == s.For && underWay(d):
		return SurgeAwait
	case d.Annotations[v1alpha1.AnnotationSurged] == s.For, underWay(d), gaveUp(d), !KeepsAll(d),
		s.Strategy == v1alpha1.SurgeSingletons && replicas != 1:
		return SurgeEvict
	}
	return SurgeRestart
}

// underWay says that pods of an older template are there, or may be: what the controller reports is of an older spec.
func underWay(d *appsv1.Deployment) bool {
	if d.Status.ObservedGeneration < d.Generation {
		return true
	}
	return d.Status.UpdatedReplicas < d.Status.Replicas && !gaveUp(d)
}

// gaveUp says that the rollout made no progress in its time (Kubernetes, "Deployments", failed Deployment).
func gaveUp(d *appsv1.Deployment) bool {
	for _, c := range d.Status.Conditions {
		if c.Type == appsv1.DeploymentProgressing {
			return c.Status == corev1.ConditionFalse && c.Reason == "ProgressDeadlineExceeded"
		}
	}
	return false
}

// KeepsAll says that a restart of the Deployment takes no pod away before another is Ready: its rolling update comes to
// maxUnavailable 0, rounded down as the Deployment's controller does, which makes it 1 where there is no surge either.
func KeepsAll(d *appsv1.Deployment) bool {
	if d.Spec.Paused || d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		return false
	}
	unavailable, surge := intstr.FromString("25%"), intstr.FromString("25%") // the API's defaults
	if r := d.Spec.Strategy.RollingUpdate; r != nil {
		if r.MaxUnavailable != nil {
			unavailable = *r.MaxUnavailable
		}
		if r.MaxSurge != nil {
			surge = *r.MaxSurge
		}
	}
	replicas := int(replicasOf(d))
	down, err := intstr.GetScaledValueFromIntOrPercent(&unavailable, replicas, false)
	if err != nil || down > 0 {
		return false
	}
	up, err := intstr.GetScaledValueFromIntOrPercent(&surge, replicas, true)
	return err == nil && up > 0
}

// replicasOf is 1 where nobody says: the API's default.
func replicasOf(d *appsv1.Deployment) int32 {
	if d.Spec.Replicas == nil {
		return 1
	}
	return *d.Spec.Replicas
}
