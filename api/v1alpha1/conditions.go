package v1alpha1

// Condition types of a Migration. All of them are always present; one function writes them all.
const (
	// ConditionReady is True when the migration rests where the user asked it to (kstatus).
	ConditionReady = "Ready"
	// ConditionReconciling is True while castoff works or waits for something that ends by itself (kstatus).
	ConditionReconciling = "Reconciling"
	// ConditionStalled is True only if a human must act (kstatus).
	ConditionStalled = "Stalled"
	// ConditionPreflightPassed is True when no check blocks.
	ConditionPreflightPassed = "PreflightPassed"
	// ConditionSnapshotTaken is True once the way back is recorded.
	ConditionSnapshotTaken = "SnapshotTaken"
	// ConditionProvisionerReady is True when Karpenter, its queue, identities and EC2NodeClasses work.
	ConditionProvisionerReady = "ProvisionerReady"
	// ConditionSingleScaler is True while every pool has exactly one scaler.
	ConditionSingleScaler = "SingleScaler"
	// ConditionNodesMigrated is True when no legacy node is left.
	ConditionNodesMigrated = "NodesMigrated"
	// ConditionRollbackAvailable is True while everything needed to go back still exists.
	ConditionRollbackAvailable = "RollbackAvailable"
)

// ConditionTypes lists every condition in the order in which they are shown.
var ConditionTypes = []string{
	ConditionReady, ConditionReconciling, ConditionStalled, ConditionPreflightPassed, ConditionSnapshotTaken,
	ConditionProvisionerReady, ConditionSingleScaler, ConditionNodesMigrated, ConditionRollbackAvailable,
}

// Reasons used in more than one condition. Reasons of one check are constants of pkg/preflight.
const (
	ReasonProgressing             = "Progressing"
	ReasonCompleted               = "Completed"
	ReasonPaused                  = "Paused"
	ReasonBlocked                 = "Blocked"
	ReasonAwaitingApproval        = "AwaitingApproval"
	ReasonAnotherMigrationActive  = "AnotherMigrationActive"
	ReasonNotYet                  = "NotYet"
	ReasonPassed                  = "Passed"
	ReasonTaken                   = "Taken"
	ReasonSnapshotUnusable        = "SnapshotUnusable"
	ReasonObservationFailed       = "ObservationFailed"
	ReasonActionFailed            = "ActionFailed"
	ReasonThrottled               = "Throttled"
	ReasonClusterAutoscalerServes = "ClusterAutoscalerServes"
	ReasonKarpenterServes         = "KarpenterServes"
	ReasonHandingOver             = "HandingOver"
	ReasonTwoScalers              = "TwoScalers"
	ReasonNoScaler                = "NoScaler"
	ReasonInstalled               = "Installed"
	ReasonRollingBack             = "RollingBack"
	ReasonRolledBack              = "RolledBack"
	ReasonDeleted                 = "Deleted"
	ReasonNodesNotReady           = "NodesNotReady"
)
