package provisioner

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// ForeignError says that an object of that name exists, is not castoff's, and was left alone. It is terminal.
type ForeignError struct {
	// Object is kind and name.
	Object string
	// Mark is the label by which castoff knows its own.
	Mark string
}

// Error says what is in the way and what can be done.
func (e *ForeignError) Error() string {
	return fmt.Sprintf("%s exists without the label %s, so it is not castoff's and was left alone; rename the pool, or remove the object",
		e.Object, e.Mark)
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
	case apierrors.IsInvalid(err):
		return inventory.Terminal(fmt.Errorf("%s %s %s: Karpenter does not accept it: %w", verb, resource, name, err))
	default:
		return fmt.Errorf("%s %s %s: %w", verb, resource, name, err)
	}
}
