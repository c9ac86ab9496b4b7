package snapshot

import (
	"fmt"

	"github.com/castoff-sh/castoff/pkg/inventory/kubeapi"
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

func wrap(err error, verb, name string) error { return kubeapi.Wrap(err, verb, "secrets", name) }
