package helm

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// Problem is one value that a chart does not accept.
type Problem struct {
	// Value is the path, for example "settings.clusterName"; empty for the values as a whole.
	Value  string
	Reason string
}

// ValuesError says that a chart cannot be rendered, or not be installed, with the values given. It is terminal: the same values
// fail again, somebody has to change them.
type ValuesError struct {
	Release  string
	Problems []Problem
	// Err is the cause where it was not the chart's schema.
	Err error
}

// Error names at most three values; a reader mends the first and sees the rest.
func (e *ValuesError) Error() string {
	const shown = 3
	parts := make([]string, 0, shown)
	for _, p := range e.Problems[:min(shown, len(e.Problems))] {
		parts = append(parts, fmt.Sprintf("value %q: %s", p.Value, p.Reason))
	}
	if more := len(e.Problems) - shown; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return fmt.Sprintf("release %s: the chart does not accept its values: %s; correct them and apply again",
		e.Release, strings.Join(parts, "; "))
}

// Unwrap gives the cause.
func (e *ValuesError) Unwrap() error { return e.Err }

// ForeignError says that a release or an object exists and belongs to somebody else, so it was not touched. A person decides:
// remove it. The next attempt looks again.
type ForeignError struct {
	// Object is what is in the way, for example "Deployment kube-system/karpenter".
	Object string
	// Owner is who it belongs to, as far as the object tells.
	Owner string
}

// Error says what is in the way, whose it is, and what can be done.
func (e *ForeignError) Error() string {
	return fmt.Sprintf("%s belongs to %s and was left alone; let its owner remove it",
		e.Object, e.Owner)
}

// PendingError says that another operation on the release was begun so recently that it may still run. It is a "not yet": once
// it is older than Grace, Apply takes it for dead and goes on.
type PendingError struct {
	Release string
	Since   time.Time
	Grace   time.Duration
}

// Error says since when the operation has been pending.
func (e *PendingError) Error() string {
	return fmt.Sprintf("release %s: another operation has been pending since %s; it is taken over %s after that",
		e.Release, e.Since.Format(time.RFC3339), e.Grace)
}

// classed marks an error with its class for callers: terminal if a person has to mend values, the chart's name, an object of
// another owner, or castoff's rights. Helm reports a refused upgrade as a sentence without its cause; that counts as one to try again.
func classed(err error) error {
	var pulling *PullError
	switch {
	case errors.As(err, &pulling) && pulling.Status == http.StatusNotFound:
		return inventory.Terminal(err)
	case errors.As(err, new(*ValuesError)), errors.As(err, new(*ForeignError)), apierrors.IsForbidden(err):
		return inventory.Terminal(err)
	case apierrors.IsTooManyRequests(err):
		return inventory.Throttled(err)
	}
	return err
}
