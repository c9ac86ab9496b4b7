// Package drain takes pods off one node, through the Eviction API alone, keeps new ones away from it, and puts it back in service
// as it was.
//
// Everything is level-triggered and bounded: a call looks at the node as it is now, does what may be done now, says what is in
// the way, and returns. Nothing waits for a pod to go.
package drain
