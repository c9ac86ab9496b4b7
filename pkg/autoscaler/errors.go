package autoscaler

import (
	"fmt"

	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/inventory/kubeapi"
)

// ReplacedError says that an object is not the one that was seen: it was deleted and made anew. Looking again helps.
type ReplacedError struct {
	// Object is kind, namespace and name.
	Object string
}

// Error names the object.
func (e *ReplacedError) Error() string {
	return fmt.Sprintf("%s was replaced since castoff saw it, and was left alone; castoff looks again", e.Object)
}

// RunningError says that a Cluster Autoscaler was not deleted because it runs: its pods could take the Lease once more. Stop it
// first.
type RunningError struct {
	Deployment string
	// Replicas that are asked for or reported.
	Replicas int32
	// Owner who may have brought it back, or empty.
	Owner string
}

// Error names the Deployment and, if it is known, who has to let it go.
func (e *RunningError) Error() string {
	message := fmt.Sprintf("Deployment %s has %s and was not deleted; castoff deletes a Cluster Autoscaler that is stopped", e.Deployment, inventory.Count(e.Replicas, "replica"))
	if e.Owner != "" {
		message += "; if it keeps coming back, remove it from " + e.Owner
	}
	return message
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
