package v1alpha1

// Phase is how far a migration has come. It is output only: derived from the world at every look, never read back.
// +kubebuilder:validation:Enum=Assessing;AwaitingApproval;Preparing;Installing;HandingOver;Shifting;Completed;Paused;RollingBack;RolledBack
type Phase string

// The phases of the way forward, in order; the last three are where spec.paused leads.
const (
	// PhaseAssessing reads only: inventory, translation, preflight, plan.
	PhaseAssessing Phase = "Assessing"
	// PhaseAwaitingApproval waits for spec.approvedSteps.
	PhaseAwaitingApproval Phase = "AwaitingApproval"
	// PhasePreparing takes the snapshot, then stops what would resize the groups behind castoff's back.
	PhasePreparing Phase = "Preparing"
	// PhaseInstalling brings the queue, identities, Karpenter and its EC2NodeClasses, and proves each with a canary node.
	PhaseInstalling Phase = "Installing"
	// PhaseHandingOver moves a wave of pools from Cluster Autoscaler to Karpenter.
	PhaseHandingOver Phase = "HandingOver"
	// PhaseShifting drains the legacy nodes, pool by pool.
	PhaseShifting Phase = "Shifting"
	// PhaseCompleted is the end: every pool at its end size and soaked.
	PhaseCompleted Phase = "Completed"
	// PhasePaused is at rest, or on its way there: undrained nodes are back in service, and every pool has one scaler.
	PhasePaused Phase = "Paused"
	// PhaseRollingBack brings everything back to Cluster Autoscaler.
	PhaseRollingBack Phase = "RollingBack"
	// PhaseRolledBack is the end of the way back: as the snapshot says, and without Karpenter.
	PhaseRolledBack Phase = "RolledBack"
)

// PoolPhase is how far one pool has come.
// +kubebuilder:validation:Enum=Pending;Fenced;Draining;Soaking;Done
type PoolPhase string

// The phases of a pool.
const (
	// PoolPending is scaled by Cluster Autoscaler still.
	PoolPending PoolPhase = "Pending"
	// PoolFenced is served by Karpenter; its legacy nodes are cordoned and wait for their turn.
	PoolFenced PoolPhase = "Fenced"
	// PoolDraining has legacy nodes being drained.
	PoolDraining PoolPhase = "Draining"
	// PoolSoaking has no legacy node left and is watched for strategy.soakSeconds.
	PoolSoaking PoolPhase = "Soaking"
	// PoolDone is at its end size and soaked.
	PoolDone PoolPhase = "Done"
)
