package autoscaler

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/castoff-sh/castoff/pkg/inventory"
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

// wrap says what was asked of the API server, and what its answer asks of the caller. Nil stays nil.
func wrap(err error, verb, resource, name string) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsTooManyRequests(err):
		return inventory.Throttled(fmt.Errorf("%s %s %s: the API server is busy: %w", verb, resource, name, err))
	case apierrors.IsForbidden(err):
		return inventory.Terminal(fmt.Errorf("%s %s %s: castoff's ClusterRole must allow the verb %s on %s%s: %w",
			verb, resource, name, verb, resource, hints[resource], err))
	default:
		return fmt.Errorf("%s %s %s: %w", verb, resource, name, err)
	}
}
