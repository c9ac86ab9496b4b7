package autoscaler

import (
	"fmt"

	"github.com/castoff-sh/castoff/pkg/inventory/kubeapi"
)

// ScaledError says that a HorizontalPodAutoscaler owns the replicas of a Cluster Autoscaler: castoff would fight it.
type ScaledError struct{ Deployment, Autoscaler string }

// Error names both objects and what to do.
func (e *ScaledError) Error() string {
	return fmt.Sprintf("Deployment %s is scaled by HorizontalPodAutoscaler %s, which could bring it back; delete the HorizontalPodAutoscaler",
		e.Deployment, e.Autoscaler)
}

// ReplacedError says that the Deployment is not the one that was seen: it was deleted and made anew. Looking again helps.
type ReplacedError struct{ Deployment string }

// Error names the Deployment.
func (e *ReplacedError) Error() string {
	return fmt.Sprintf("Deployment %s was replaced since castoff saw it, and was left alone; castoff looks again", e.Deployment)
}

// hints say where a right is given that castoff's chart limits to names.
var hints = map[string]string{
	"leases":     " of that name (chart value clusterAutoscaler.leaseNames)",
	"configmaps": " of that name (chart value clusterAutoscaler.statusConfigMapNames)",
}

// wrap is kubeapi.Wrap, with what the chart limits to names.
func wrap(err error, verb, resource, name string) error {
	return kubeapi.Wrap(err, verb, resource, name, hints[resource])
}
