// Package kubeapi says what an answer of the Kubernetes API asks of the caller, and what a pod's status says, in one way for every
// port.
package kubeapi

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// Wrap says what was asked of the API server, of which object, and what to do about the answer. A busy server is throttling; a
// missing right and an object that cannot be accepted are terminal; the rest is tried again. hint says more of where the right
// is given. Nil stays nil.
func Wrap(err error, verb, resource, name string, hint ...string) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsTooManyRequests(err):
		return inventory.Throttled(fmt.Errorf("%s %s %s: the API server is busy: %w", verb, resource, name, err))
	case apierrors.IsForbidden(err):
		return inventory.Terminal(fmt.Errorf("%s %s %s: castoff's role must allow the verb %s on %s%s: %w",
			verb, resource, name, verb, resource, where(hint), err))
	case apierrors.IsInvalid(err):
		return inventory.Terminal(fmt.Errorf("%s %s %s: the API server does not accept it: %w", verb, resource, name, err))
	}
	return fmt.Errorf("%s %s %s: %w", verb, resource, name, err)
}

func where(hint []string) string {
	if len(hint) == 0 {
		return ""
	}
	return hint[0]
}
