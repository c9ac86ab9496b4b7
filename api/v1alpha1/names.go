package v1alpha1

// Keys that castoff writes on objects of the cluster. Each is written once and read by the planner, never believed
// without the object it is on.
const (
	// LabelPool names the pool of a legacy node, a NodePool or an EC2NodeClass.
	LabelPool = "castoff.sh/pool"
	// LabelScaler on a legacy node says who scales its pool; only ScalerKarpenter is ever written.
	LabelScaler = "castoff.sh/scaler"
	// LabelPlaceholder marks castoff's own capacity placeholders, which belong to no workload.
	LabelPlaceholder = "castoff.sh/placeholder"
	// LabelPlaceholderPod on a placeholder is the UID of the pod that it stands for, the first of several; LabelPlaceholderGroup is the same on placeholders
	// of pods that are alike.
	LabelPlaceholderPod   = "castoff.sh/placeholder-pod"
	LabelPlaceholderGroup = "castoff.sh/placeholder-group"
	// AnnotationPlaceholderNode on a placeholder is the legacy node whose pods it stands for; AnnotationPlaceholderPods are their UIDs,
	// with commas between, and AnnotationPlaceholderBatch is how many placeholders the node was to have.
	AnnotationPlaceholderNode  = "castoff.sh/placeholder-node"
	AnnotationPlaceholderPods  = "castoff.sh/placeholder-pods"
	AnnotationPlaceholderBatch = "castoff.sh/placeholder-batch"
	// LabelCanary marks the NodePools, nodes and pods of the canary, by pool.
	LabelCanary = "castoff.sh/canary"
	// LabelCluster names the cluster on what castoff makes for it.
	LabelCluster = "castoff.sh/cluster"
	// LabelMigration carries the Migration's UID on what dies with it: snapshot, report, canary.
	LabelMigration = "castoff.sh/migration"

	// AnnotationLegacy marks a node as one of a pool that is migrating; its value is the pool.
	AnnotationLegacy = "castoff.sh/legacy-pool"
	// AnnotationCordonedBy says that castoff set spec.unschedulable; a cordon without it is somebody else's.
	AnnotationCordonedBy = "castoff.sh/cordoned-by"
	// AnnotationDraining says that castoff began to drain the node; its value is the RFC 3339 time.
	AnnotationDraining = "castoff.sh/draining-since"
	// AnnotationWarmed on a legacy node says that none of its pods needs a placeholder; its value is the RFC 3339 time.
	AnnotationWarmed = "castoff.sh/warmed-at"
	// AnnotationExcludedBy says that castoff took the node out of load balancers (node.kubernetes.io/exclude-from-external-load-balancers).
	AnnotationExcludedBy = "castoff.sh/excluded-by"
	// AnnotationRestoredFrom on a node that came back for the way back names the recorded node whose labels, taints and cordon it got.
	AnnotationRestoredFrom = "castoff.sh/restored-from"
	// AnnotationHeldBy says that castoff keeps Cluster Autoscaler from removing the node (AnnotationScaleDownDisabled) until its
	// pods are back.
	AnnotationHeldBy = "castoff.sh/held-by"
	// AnnotationScaleDownDisabled is Cluster Autoscaler's own (its FAQ, "How can I prevent Cluster Autoscaler from scaling down a
	// particular node?").
	AnnotationScaleDownDisabled = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
	// AnnotationCanaryPassed on an EC2NodeClass holds the hash of the spec that passed the canary.
	AnnotationCanaryPassed = "castoff.sh/canary-passed"
	// AnnotationCanaryFailed on an EC2NodeClass says that a canary was given up: the hash of its spec, the RFC 3339 time, and why.
	AnnotationCanaryFailed = "castoff.sh/canary-failed"

	// AnnotationSurged on a Deployment says for which migration, and in which direction, castoff restarted it in place of evicting its
	// pods. A template's AnnotationRestartedAt is kubectl's own (kubectl rollout restart).
	AnnotationSurged      = "castoff.sh/surged-for"
	AnnotationRestartedAt = "kubectl.kubernetes.io/restartedAt"

	// TaintLegacy is on a legacy node: PreferNoSchedule once fenced, NoSchedule once its drain has begun.
	TaintLegacy = "castoff.sh/legacy"
	// TaintCanary keeps every pod but the canary's off the canary's node.
	TaintCanary = "castoff.sh/canary"

	// ScalerKarpenter is the value of LabelScaler.
	ScalerKarpenter = "karpenter"
	// ByCastoff is the value of AnnotationCordonedBy, AnnotationExcludedBy and AnnotationHeldBy.
	ByCastoff = "castoff"
	// TagHandedOver is the AWS tag on an Auto Scaling group whose discovery tags castoff took off, so that a Cluster Autoscaler that
	// keeps other groups lets it go; its value is TagManagedByValue.
	TagHandedOver = "castoff.sh/handed-over"
	// TagManagedBy is the AWS tag on what castoff made; its value is TagManagedByValue. What lacks it is adopted, never deleted.
	TagManagedBy = "castoff.sh/managed-by"
	// TagManagedByValue is the value of TagManagedBy.
	TagManagedByValue = "castoff"
)

// AnnotationTargetHash on a NodePool or EC2NodeClass is the hash of what castoff last wrote there. A user's later edit is
// left alone; only a new target is written.
const AnnotationTargetHash = "castoff.sh/target-hash"

// PlaceholderPriorityClass is the PriorityClass of placeholders, which castoff's chart brings: every pod comes before them, and they
// preempt none.
const PlaceholderPriorityClass = "castoff-placeholder"

// LeaseIdentity is the holder castoff writes into Cluster Autoscaler's leader-election Lease.
const LeaseIdentity = "castoff"

// Finalizer on a Migration from its snapshot on: deleted, it first comes to rest as a paused one does.
const Finalizer = "castoff.sh/rest"

// AnnotationFences on a legacy node counts how often castoff fenced it: more than once, and somebody opened it.
const AnnotationFences = "castoff.sh/fences"
