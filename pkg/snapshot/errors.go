package snapshot

import (
	"fmt"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory/kubeapi"
)

// All of these but ExistsError are terminal: castoff does not go back to a state that it cannot trust.

// MissingError says that the Secret of a node group, which the index names, is gone.
type MissingError struct {
	Secret string // namespace/name
	Group  string
}

// Error says which Secret, and what to do.
func (e *MissingError) Error() string {
	return fmt.Sprintf("Secret %s, the snapshot of node group %s, is missing; restore it from a backup", e.Secret, e.Group)
}

// DigestError says that the Secret of a node group holds something else than what the index names: it was replaced.
type DigestError struct {
	Secret string // namespace/name
	Group  string
	Want   string
	Got    string
}

// Error says which Secret, and what to do.
func (e *DigestError) Error() string {
	return fmt.Sprintf("Secret %s, the snapshot of node group %s, has digest %.12s where the index has %.12s; delete it and restore it from a backup",
		e.Secret, e.Group, e.Got, e.Want)
}

// IndexError says that the index is not the one that the Migration's status names.
type IndexError struct {
	Secret string // namespace/name
	Want   string
	Got    string // empty: the Secret is missing
}

// Error says which Secret, and what to do.
func (e *IndexError) Error() string {
	if e.Got == "" {
		return fmt.Sprintf("Secret %s, the index of the snapshot, is missing; restore it from a backup", e.Secret)
	}
	return fmt.Sprintf("Secret %s, the index of the snapshot, has digest %.12s where the Migration's status has %.12s; delete it and restore it from a backup",
		e.Secret, e.Got, e.Want)
}

// FormatError says that a Secret of the snapshot holds nothing that can be read.
type FormatError struct {
	Secret string // namespace/name
	Err    error  // what is wrong with it
}

// Error says which Secret, and what to do.
func (e *FormatError) Error() string {
	return fmt.Sprintf("Secret %s, of the snapshot, cannot be read: %v; delete it and restore it from a backup", e.Secret, e.Err)
}

// Unwrap gives what is wrong with the content.
func (e *FormatError) Unwrap() error { return e.Err }

// VersionError says that the snapshot was written in a format that this castoff does not know.
type VersionError struct {
	Secret string // namespace/name of the index
	Got    int
	Want   int
}

// Error says which Secret, and what to do.
func (e *VersionError) Error() string {
	return fmt.Sprintf("Secret %s: its format is %d and this castoff reads %d; run the castoff that wrote it", e.Secret, e.Got, e.Want)
}

// ForeignError says that a Secret with the name of one of the snapshot's is somebody else's.
type ForeignError struct {
	Secret string // namespace/name
}

// Error says which Secret, and what to do.
func (e *ForeignError) Error() string {
	return fmt.Sprintf("Secret %s is not castoff's: its content, or the label %s, is not what castoff wrote; "+
		"restore both from a backup, or, if there never was a snapshot of that name, move the Secret away", e.Secret, v1alpha1.LabelMigration)
}

// MutableError says that a Secret of the snapshot can be edited. castoff makes them immutable for good, so it was replaced.
type MutableError struct {
	Namespace string
	Name      string
}

// Error says which Secret, and what to do.
func (e *MutableError) Error() string {
	return fmt.Sprintf("Secret %s/%s, of the snapshot, was replaced by one that can be edited; hold it against a backup, then: "+
		`kubectl patch secret -n %[1]s %[2]s --type=merge -p '{"immutable":true}'`, e.Namespace, e.Name)
}

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
