package inventory

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Placeholder is a pod of castoff's own that keeps room on one of Karpenter's nodes for a pod that is about to move.
type Placeholder struct {
	Name string `json:"name"`
	Pool string `json:"pool"`
	// Node is the legacy node whose pods it stands for, Pods their UIDs: one, or as many as share it. Pod is the first of them.
	Node string      `json:"node"`
	Pod  types.UID   `json:"pod"`
	Pods []types.UID `json:"pods,omitempty"`
	// Batch is how many were made for the node's pods; 0 where that is not known.
	Batch int `json:"batch,omitempty"`
	// On is the node that has the room; empty while there is none.
	On string `json:"on,omitempty"`
	// Ready says that it runs: its node is there and takes pods.
	Ready bool `json:"ready,omitempty"`
	// Ended says that its time was over before anybody moved in.
	Ended   bool      `json:"ended,omitempty"`
	Created time.Time `json:"created"`
	// Message says why it has no node yet, in the scheduler's words.
	Message string `json:"message,omitempty"`
}
