// Package snapshot keeps what is needed to go back: one immutable Secret for each node group, and an index, written last, that
// names them all by digest. No index, no snapshot.
package snapshot
