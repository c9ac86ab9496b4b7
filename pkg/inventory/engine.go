package inventory

import (
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// Engine is Karpenter and what it needs, as seen.
type Engine struct {
	// Release is the Helm release's state.
	Release ReleaseState `json:"release"`
	// ReleaseMessage says more of a state that is not ReleaseDeployed: which value, which owner, since when.
	ReleaseMessage string `json:"releaseMessage,omitempty"`
	// ReleaseCurrent says that the deployed release is the one castoff would install: same chart version, same values.
	ReleaseCurrent bool `json:"releaseCurrent"`
	// CRDsCurrent says that every CRD is there in the version castoff brings, and established.
	CRDsCurrent bool `json:"crdsCurrent"`
	// CRDs says that one of Karpenter's CRDs that castoff made is there, in whatever version.
	CRDs bool `json:"crds"`
	// CRDForeign names a CRD that belongs to somebody else, and its owner.
	CRDForeign string `json:"crdForeign,omitempty"`
	// DroppedVersions are versions in which objects of a CRD may be stored and that Karpenter's own definition no longer has, by CRD.
	DroppedVersions map[string][]string `json:"droppedVersions,omitempty"`
	// ReadyReplicas of the engine's Deployment, and Replicas asked for.
	ReadyReplicas int32 `json:"readyReplicas"`
	Replicas      int32 `json:"replicas"`
	// DeploymentMessage says why pods are not Ready, when they are not.
	DeploymentMessage string `json:"deploymentMessage,omitempty"`
	// Foreign names Karpenter Deployments that castoff did not install.
	Foreign []string `json:"foreign,omitempty"`
	// Others are the same Deployments, as far as adopting one needs to know them.
	Others []Karpenter `json:"others,omitempty"`
	// Adopted says that the Karpenter in use is somebody else's: castoff installs, upgrades and uninstalls nothing. Misfits says
	// why it cannot serve.
	Adopted bool     `json:"adopted,omitempty"`
	Misfits []string `json:"misfits,omitempty"`

	NodePools   []karpv1.NodePool    `json:"nodePools,omitempty"`
	NodeClasses []awsv1.EC2NodeClass `json:"nodeClasses,omitempty"`
	// NodeClassHashes are digests of the EC2NodeClasses' specs as they are stored, by name: a canary proves one spec.
	NodeClassHashes map[string]string `json:"nodeClassHashes,omitempty"`
	NodeClaims      []NodeClaim       `json:"nodeClaims,omitempty"`
	Canaries        []Canary          `json:"canaries,omitempty"`
}

// Karpenter is a Deployment of Karpenter's that castoff did not install.
type Karpenter struct {
	Namespace      string `json:"namespace"`
	Name           string `json:"name"`
	ServiceAccount string `json:"serviceAccount"`
	// Version is without "v", from upstream's label or the image's tag; empty if neither tells.
	Version string `json:"version,omitempty"`
	// ClusterName and InterruptionQueue are its settings; empty if they are not set, or not as plain values.
	ClusterName       string `json:"clusterName,omitempty"`
	InterruptionQueue string `json:"interruptionQueue,omitempty"`
	// SettingsHidden says that settings may come from elsewhere, flags or a ConfigMap.
	SettingsHidden bool `json:"settingsHidden,omitempty"`
	// Owner names who would put the Deployment back, and ChangedBy the field manager that wrote it last; empty if not known.
	Owner         string `json:"owner,omitempty"`
	ChangedBy     string `json:"changedBy,omitempty"`
	Replicas      int32  `json:"replicas"`
	ReadyReplicas int32  `json:"readyReplicas"`
	// Message says why pods are not Ready, when they are not.
	Message string `json:"message,omitempty"`
}

// Object names it as reports, blockers and accepted risks do.
func (k Karpenter) Object() string { return "deployment/" + k.Namespace + "/" + k.Name }

// By says whose it is, for the middle of a sentence; empty if nothing tells.
func (k Karpenter) By() string { return ByWhom(k.Owner, k.ChangedBy) }

// Rival is a NodePool of somebody else's that Karpenter asks before a pool's, and that takes some of its pods.
type Rival struct {
	NodePool string `json:"nodePool"`
	Weight   int32  `json:"weight"`
	Pool     string `json:"pool"`
	// Takes is one of the workloads whose pods it takes.
	Takes     string `json:"takes"`
	Owner     string `json:"owner,omitempty"`
	ChangedBy string `json:"changedBy,omitempty"`
}

// By says whose it is, for the middle of a sentence; empty if nothing tells.
func (r Rival) By() string { return ByWhom(r.Owner, r.ChangedBy) }

// ReleaseState classifies the engine's Helm release.
type ReleaseState string

// The states of a Helm release.
const (
	ReleaseMissing  ReleaseState = "Missing"
	ReleaseDeployed ReleaseState = "Deployed"
	ReleasePending  ReleaseState = "Pending" // a Helm run that did not end
	ReleaseFailed   ReleaseState = "Failed"
	ReleaseForeign  ReleaseState = "Foreign" // the name is taken by another chart
)

// NodeClaim is what castoff needs of a NodeClaim.
type NodeClaim struct {
	Name     string `json:"name"`
	NodePool string `json:"nodePool"`
	Node     string `json:"node,omitempty"`
	Ready    bool   `json:"ready"`
	Deleting bool   `json:"deleting,omitempty"`
	// Unregistered says that its instance runs and that no node of it has joined.
	Unregistered bool `json:"unregistered,omitempty"`
	// Message of the condition that failed, for people to read.
	Message string    `json:"message,omitempty"`
	Created time.Time `json:"created"`
}

// Canary is the trial of one EC2NodeClass.
type Canary struct {
	// Pool whose EC2NodeClass is tried.
	Pool string `json:"pool"`
	// NodePool and Pod say whether the canary's objects are there; Node whether its NodeClaim still is.
	NodePool bool `json:"nodePool"`
	Pod      bool `json:"pod"`
	Node     bool `json:"node"`
	// PodRan is true once the canary's pod was Ready on a node of the canary's NodePool.
	PodRan bool `json:"podRan"`
	// Message says what Karpenter says while it is not.
	Message string    `json:"message,omitempty"`
	Since   time.Time `json:"since,omitzero"`
}

// Interruption is the SQS queue and the EventBridge rules that feed it.
type Interruption struct {
	QueueName string `json:"queueName"`
	QueueURL  string `json:"queueURL,omitempty"`
	QueueARN  string `json:"queueARN,omitempty"`
	// Ready says that the queue and all five rules are there as they should be.
	Ready bool `json:"ready"`
	// Conflict says what is there under that name, is not ours, and does not fit.
	Conflict string `json:"conflict,omitempty"`
	// Missing lists what has still to be made.
	Missing []string `json:"missing,omitempty"`
	// Made lists what is there and castoff made: what Remove would take away.
	Made []string `json:"made,omitempty"`
}

// Identity is the IAM side: roles, Pod Identity, access entry.
type Identity struct {
	NodeRole          string `json:"nodeRole"` // name
	NodeRoleARN       string `json:"nodeRoleARN,omitempty"`
	ControllerRole    string `json:"controllerRole"` // name
	ControllerRoleARN string `json:"controllerRoleARN,omitempty"`
	// Ready says that both roles, the Pod Identity association and the nodes' access are there as they should be.
	Ready bool `json:"ready"`
	// Conflict says what is there under that name and does not fit.
	Conflict string   `json:"conflict,omitempty"`
	Missing  []string `json:"missing,omitempty"`
	// Made lists what is there and castoff made: what Remove would take away.
	Made []string `json:"made,omitempty"`
	// WebIdentity says that the controller's role is for IAM roles for service accounts: its ServiceAccount has to name it.
	WebIdentity bool `json:"webIdentity,omitempty"`
	// Lacks are policies of the old nodes' roles that a node role of somebody else's does not have.
	Lacks []string `json:"lacks,omitempty"`
}

// Permission is one AWS action that castoff needs, and whether it may.
type Permission struct {
	Action string `json:"action"`
	// State is Allowed, Denied or NotChecked.
	State   PermissionState `json:"state"`
	Message string          `json:"message,omitempty"`
}

// PermissionState is the outcome of a permission check.
type PermissionState string

// The outcomes of a permission check.
const (
	PermissionAllowed    PermissionState = "Allowed"
	PermissionDenied     PermissionState = "Denied"
	PermissionNotChecked PermissionState = "NotChecked"
)
