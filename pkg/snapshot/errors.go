package snapshot

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// DigestError says that a part of the snapshot is not what the index names: it is missing, or was replaced. It is terminal:
// castoff does not go back to a state that it cannot trust.
type DigestError struct {
	Secret string // namespace/name
	Group  string
	Want   string
	Got    string // empty: the Secret is missing, or holds nothing
}

// Error says which Secret, and what to do.
func (e *DigestError) Error() string {
	if e.Got == "" {
		return fmt.Sprintf("Secret %s, the snapshot of node group %s, is missing; restore it from a backup", e.Secret, e.Group)
	}
	return fmt.Sprintf("Secret %s, the snapshot of node group %s, has digest %.12s where the index has %.12s; restore it from a backup",
		e.Secret, e.Group, e.Got, e.Want)
}

// FormatError says that a Secret does not hold what this castoff can read. It is terminal.
type FormatError struct {
	Secret string // namespace/name
	Reason string
	Err    error // the decoder's, if it was that
}

// Error says which Secret, and what to do.
func (e *FormatError) Error() string {
	message := fmt.Sprintf("Secret %s: %s; run the castoff that wrote it, or a later one", e.Secret, e.Reason)
	if e.Err != nil {
		message += ": " + e.Err.Error()
	}
	return message
}

// Unwrap gives the decoder's error.
func (e *FormatError) Unwrap() error { return e.Err }

// ExistsError says that a snapshot of that name exists and is another one. The first writer wins: load that one. What it says
// is older, and so nearer to what was before castoff.
type ExistsError struct {
	Secret string // namespace/name of the index
	SHA256 string // of the index that is there
}

// Error says which Secret, and what to do.
func (e *ExistsError) Error() string {
	return fmt.Sprintf("Secret %s holds another snapshot already (%.12s), which stays; load that one", e.Secret, e.SHA256)
}

// wrap says what was asked of the API server, and what its answer asks of the caller. Nil stays nil.
func wrap(err error, verb, name string) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsTooManyRequests(err):
		return inventory.Throttled(fmt.Errorf("%s secrets %s: the API server is busy: %w", verb, name, err))
	case apierrors.IsForbidden(err):
		return inventory.Terminal(fmt.Errorf("%s secrets %s: castoff's Role must allow the verb %s on secrets: %w", verb, name, verb, err))
	default:
		return fmt.Errorf("%s secrets %s: %w", verb, name, err)
	}
}
