package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MigrationStatus is what castoff sees and does. It stays under 64 KiB at 1,000 nodes: every list is bounded.
type MigrationStatus struct {
	// observedGeneration is the generation that this status is about; -1 before the first look.
	// +optional
	// +kubebuilder:default=-1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// phase is derived from the world; nothing reads it back.
	// +optional
	Phase Phase `json:"phase,omitempty"`
	// conditions are always all present.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// poolsDone is pools done of pools, as "1/3".
	// +optional
	// +kubebuilder:validation:MaxLength=16
	PoolsDone string `json:"poolsDone,omitempty"`
	// nodesDone is legacy nodes gone of legacy nodes in the snapshot, as "4/14".
	// +optional
	// +kubebuilder:validation:MaxLength=16
	NodesDone string `json:"nodesDone,omitempty"`
	// blockedBy names what is waited for in a few words; empty when nothing blocks.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	BlockedBy string `json:"blockedBy,omitempty"`
	// blockers are the first twenty things that block or are waited for.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	Blockers []Blocker `json:"blockers,omitempty"`
	// home is the node group that stays.
	// +optional
	// +kubebuilder:validation:MaxLength=255
	Home string `json:"home,omitempty"`
	// report is the ConfigMap with the preflight's full text.
	// +optional
	Report *ObjectReference `json:"report,omitempty"`
	// snapshot is the record of what is needed to go back.
	// +optional
	Snapshot *SnapshotReference `json:"snapshot,omitempty"`
	// pools are the pools in the order in which they are shifted.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Pools []PoolStatus `json:"pools,omitempty"`
	// waves are the hand-overs.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Waves []WaveStatus `json:"waves,omitempty"`
	// operations is the ledger: effects outside the cluster's own objects, recorded before they are made.
	// +optional
	// +listType=map
	// +listMapKey=id
	// +kubebuilder:validation:MaxItems=20
	Operations []Operation `json:"operations,omitempty"`
	// startTime is when the snapshot was taken.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// completionTime is when the migration completed.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
	// estimatedCompletionTime is a guess from the pace so far.
	// +optional
	EstimatedCompletionTime *metav1.Time `json:"estimatedCompletionTime,omitempty"`
}

// ObjectReference names an object in a namespace.
type ObjectReference struct {
	// namespace of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
	// name of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
}

// SnapshotReference names the snapshot's index Secret and its digest.
type SnapshotReference struct {
	ObjectReference `json:",inline"`
	// sha256 of the index, in hex. Checked after every restart.
	// +required
	// +kubebuilder:validation:MinLength=64
	// +kubebuilder:validation:MaxLength=64
	SHA256 string `json:"sha256,omitempty"`
}

// Severity of a finding or blocker.
// +kubebuilder:validation:Enum=Wait;Warn;Block
type Severity string

// The severities.
const (
	// SeverityWait ends by itself.
	SeverityWait Severity = "Wait"
	// SeverityWarn is worth knowing and stops nothing.
	SeverityWarn Severity = "Warn"
	// SeverityBlock ends only when a human acts.
	SeverityBlock Severity = "Block"
)

// Blocker is something that is waited for, and what to do about it.
type Blocker struct {
	// severity Block needs a human, Wait ends by itself.
	// +required
	Severity Severity `json:"severity,omitempty"`
	// reason in one word, the name of the check or rule.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason,omitempty"`
	// object as kind/namespace/name, or kind/name.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Object string `json:"object,omitempty"`
	// pool that it holds back, if it is one.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Pool string `json:"pool,omitempty"`
	// message says what, why, and what to do.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
	// since is when it was first seen.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
}

// PoolStatus is one pool's progress.
type PoolStatus struct {
	// name of the pool.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name,omitempty"`
	// nodeGroups of the pool.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=255
	NodeGroups []string `json:"nodeGroups,omitempty"`
	// nodePool that serves the pool from its hand-over on.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	NodePool string `json:"nodePool,omitempty"`
	// phase of the pool.
	// +optional
	Phase PoolPhase `json:"phase,omitempty"`
	// nodes is the number of legacy nodes in the snapshot.
	// +optional
	Nodes int32 `json:"nodes"`
	// nodesLeft is the number of legacy nodes still there.
	// +optional
	NodesLeft int32 `json:"nodesLeft"`
	// nodesDraining is the number of legacy nodes being drained.
	// +optional
	NodesDraining int32 `json:"nodesDraining"`
	// podsLeft is the number of pods that still have to leave the nodes being drained.
	// +optional
	PodsLeft int32 `json:"podsLeft"`
	// startTime is when the first node began to drain or, with capacity WarmFirst, room began to be made for its pods.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// drainedTime is when the last legacy node was gone; the soak counts from here.
	// +optional
	DrainedTime *metav1.Time `json:"drainedTime,omitempty"`
	// completionTime is when the pool was done.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
}

// WaveStatus records a change of hands.
type WaveStatus struct {
	// name of the wave.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name,omitempty"`
	// pools that change hands together.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=63
	Pools []string `json:"pools,omitempty"`
	// releasedTime is when Cluster Autoscaler was seen to have let go.
	// +optional
	ReleasedTime *metav1.Time `json:"releasedTime,omitempty"`
	// servedTime is when every NodePool of the wave was seen Ready.
	// +optional
	ServedTime *metav1.Time `json:"servedTime,omitempty"`
	// returnedTime is when, on the way back, Cluster Autoscaler was seen to scale the wave's groups again. A wave that changes hands
	// once more has none.
	// +optional
	ReturnedTime *metav1.Time `json:"returnedTime,omitempty"`
}

// Operation is an entry of the ledger: an effect that castoff was about to make, with what it was meant to bring about.
type Operation struct {
	// id is the action's kind and target; one entry a target, so at most one is pending on a node group.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=320
	ID string `json:"id,omitempty"`
	// detail is the absolute target of the effect, in one line.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Detail string `json:"detail,omitempty"`
	// attempts counts how often the effect had to be brought about; a call that failed or was lost does not count again.
	// +optional
	Attempts int32 `json:"attempts,omitempty"`
	// startTime is when it was last asked for.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// doneTime is when it was seen in the world; absent while it is pending.
	// +optional
	DoneTime *metav1.Time `json:"doneTime,omitempty"`
	// error of the last attempt, if it failed.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Error string `json:"error,omitempty"`
}
