package drain

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// NotBegunError refuses to evict from a node whose drain has not begun: nothing would keep the evicted pods away from it.
type NotBegunError struct{ Node string }

// Error says which node and what it lacks.
func (e *NotBegunError) Error() string {
	return fmt.Sprintf("node %s does not carry the annotation %s, so no pod was evicted; begin its drain first",
		e.Node, v1alpha1.AnnotationDraining)
}

// wrap says what was asked of the API server, and what its answer asks of the caller. Nil stays nil.
func wrap(err error, verb, resource, name string) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsTooManyRequests(err):
		return inventory.Throttled(fmt.Errorf("%s %s %s: the API server is busy: %w", verb, resource, name, err))
	case apierrors.IsForbidden(err):
		return inventory.Terminal(fmt.Errorf("%s %s %s: castoff's ClusterRole must allow the verb %s on %s: %w",
			verb, resource, name, verb, resource, err))
	default:
		return fmt.Errorf("%s %s %s: %w", verb, resource, name, err)
	}
}
