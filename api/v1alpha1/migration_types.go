package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Migration moves one EKS cluster from Cluster Autoscaler to Karpenter. One unfinished Migration acts on a cluster.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=mig,categories=castoff
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Pools",type=string,JSONPath=`.status.poolsDone`
// +kubebuilder:printcolumn:name="Nodes",type=string,JSONPath=`.status.nodesDone`
// +kubebuilder:printcolumn:name="Blocked By",type=string,JSONPath=`.status.blockedBy`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="ETA",type=string,JSONPath=`.status.estimatedCompletionTime`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.snapshot) || self.spec.clusterName == oldSelf.spec.clusterName",message="clusterName is frozen once the snapshot is taken: delete this Migration and create another to migrate another cluster"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.snapshot) || (has(self.spec.home) == has(oldSelf.spec.home) && (!has(self.spec.home) || self.spec.home == oldSelf.spec.home))",message="home is frozen once the snapshot is taken: to keep another group, delete this Migration and go back by hand (docs/runbooks/restore-by-hand.md), then start again"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.snapshot) || (has(self.spec.pools) == has(oldSelf.spec.pools) && (!has(self.spec.pools) || (self.spec.pools.size() == oldSelf.spec.pools.size() && self.spec.pools.all(p, oldSelf.spec.pools.exists(o, o.name == p.name && o.nodeGroups == p.nodeGroups)))))",message="the names and node groups of pools are frozen once the snapshot is taken"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.snapshot) || self.spec.provisioner.source == oldSelf.spec.provisioner.source",message="provisioner.source is frozen once the snapshot is taken"
type Migration struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// spec is what the user wants.
	// +required
	Spec MigrationSpec `json:"spec,omitzero"`
	// status is what castoff sees and does. Output only.
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status MigrationStatus `json:"status,omitzero"`
}

// MigrationList is a list of Migrations.
//
// +kubebuilder:object:root=true
type MigrationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Migration `json:"items"`
}

// MigrationSpec is what the user wants.
type MigrationSpec struct {
	// clusterName is the EKS cluster's name. It confirms the target: castoff acts only on the cluster that it runs in.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=100
	// +kubebuilder:validation:Pattern=`^[0-9A-Za-z][A-Za-z0-9_-]*$`
	ClusterName string `json:"clusterName,omitempty"`
	// paused stops the migration: no new eviction from the moment it is seen, and then it comes to rest as onPause says. False
	// again goes on from where the world is.
	// +optional
	Paused bool `json:"paused,omitempty"`
	// onPause says where a paused migration comes to rest. Settle: undrained nodes go back in service, and every pool keeps the
	// scaler it has; before the hand-over everything done is undone. RollBack: everything goes back to Cluster Autoscaler.
	// +optional
	// +kubebuilder:default=Settle
	OnPause OnPause `json:"onPause,omitempty"`
	// approval Manual stops after Assessing and before each hand-over until the step is in approvedSteps.
	// +optional
	// +kubebuilder:default=Automatic
	Approval ApprovalMode `json:"approval,omitempty"`
	// approvedSteps are the steps that a human approved; `kubectl castoff approve` writes them.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	ApprovedSteps []ApprovalStep `json:"approvedSteps,omitempty"`
	// home is the node group that is kept for Karpenter, CoreDNS and castoff. Default: a suitable untainted on-demand group, named in the plan.
	// +optional
	Home *Home `json:"home,omitempty"`
	// pools are what migrates. Default: every group that Cluster Autoscaler manages but home; groups equal but for zone are one pool.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Pools []Pool `json:"pools,omitempty"`
	// strategy says how fast and how carefully workloads are shifted.
	// +optional
	// +kubebuilder:default={}
	Strategy Strategy `json:"strategy,omitzero"`
	// acceptedRisks are the preflight findings that the user knows and accepts; the only way past a Block.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=128
	AcceptedRisks []AcceptedRisk `json:"acceptedRisks,omitempty"`
	// provisioner says where Karpenter, its queue and its identities come from.
	// +optional
	// +kubebuilder:default={}
	Provisioner Provisioner `json:"provisioner,omitzero"`
	// decommission says what becomes of the node groups and of Cluster Autoscaler at the end.
	// +optional
	// +kubebuilder:default={}
	Decommission Decommission `json:"decommission,omitzero"`
}

// OnPause says where a paused migration comes to rest.
// +kubebuilder:validation:Enum=Settle;RollBack
type OnPause string

// Where a paused migration comes to rest.
const (
	OnPauseSettle   OnPause = "Settle"
	OnPauseRollBack OnPause = "RollBack"
)

// ApprovalMode says whether castoff waits for a human.
// +kubebuilder:validation:Enum=Automatic;Manual
type ApprovalMode string

// The approval modes.
const (
	ApprovalAutomatic ApprovalMode = "Automatic"
	ApprovalManual    ApprovalMode = "Manual"
)

// ApprovalStep is a step that waits for approval: in Manual mode, and Delete always.
// +kubebuilder:validation:Enum=Start;HandOver;Delete
type ApprovalStep string

// The steps that can be approved, in order.
const (
	// ApproveStart lets castoff write for the first time, after Assessing.
	ApproveStart ApprovalStep = "Start"
	// ApproveHandOver lets castoff stop Cluster Autoscaler.
	ApproveHandOver ApprovalStep = "HandOver"
	// ApproveDelete lets castoff delete what decommission says, after its retention. It ends the way back, so it is always asked for.
	ApproveDelete ApprovalStep = "Delete"
)

// Home is the capacity that stays.
type Home struct {
	// nodeGroup is the name of the managed node group or Auto Scaling group that is kept.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	NodeGroup string `json:"nodeGroup,omitempty"`
}

// Pool is one or more node groups that become one NodePool.
type Pool struct {
	// name of the pool and of the NodePool and EC2NodeClass made for it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name,omitempty"`
	// nodeGroups are names of managed node groups or Auto Scaling groups.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=255
	NodeGroups []string `json:"nodeGroups,omitempty"`
	// instanceFamilies are families of EC2 instance types, such as m6i, of which the NodePool may launch the sizes that the node groups
	// launch today, besides these: where EC2 has them, with the same architecture and accelerators and no less of vCPUs, memory, local
	// storage and network. Default: the node groups' own types only. It may be changed at any time: nodes that are there already stay
	// when a family is added, and Karpenter replaces those of a family that is taken out.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=32
	// +kubebuilder:validation:items:Pattern=`^[a-z][a-z0-9-]*$`
	InstanceFamilies []string `json:"instanceFamilies,omitempty"`
}

// Strategy says how workloads are shifted.
type Strategy struct {
	// maxUnavailableNodes is how many of a pool's legacy nodes may be draining at once: a number, or a percentage of
	// the pool's nodes in the snapshot, rounded up. At least one.
	// +optional
	// +kubebuilder:default="10%"
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 && self <= 1000 : self.matches('^([1-9][0-9]?|100)%$')",message="maxUnavailableNodes is a number of at least 1 or a percentage from 1% to 100%"
	MaxUnavailableNodes *intstr.IntOrString `json:"maxUnavailableNodes,omitempty"`
	// capacity says whether new nodes are there before the first eviction. WarmFirst: placeholders with the shape of the pods that
	// will move make Karpenter launch what is needed, and each is swapped for a moved pod. EvictFirst: the evicted pods themselves
	// make Karpenter launch, and wait for it.
	// +optional
	// +kubebuilder:default=WarmFirst
	Capacity CapacityStrategy `json:"capacity,omitempty"`
	// surge says for which Deployments a new pod is Ready before the old one goes: castoff restarts them in place of evicting their
	// pods, as kubectl rollout restart does, once for a migration. Singletons: those with one replica. All: those with any number.
	// Either way only where the Deployment's own strategy comes to maxUnavailable 0, and its pods have no host port and no volume
	// that one node alone can have. castoff needs the right to patch Deployments for it, which its chart gives unless the value
	// drain.surge is false; without it the pods are evicted, and that is said. None: all pods are evicted.
	// +optional
	// +kubebuilder:default=Singletons
	Surge SurgeStrategy `json:"surge,omitempty"`
	// waves says how many pools change hands at once. Auto: those that no workload joins change hands one after the other, each when
	// the ones before it are done, and Cluster Autoscaler keeps the others until then; all of them at once where it could not. Single:
	// all of them, or all that have not changed hands yet.
	// +optional
	// +kubebuilder:default=Auto
	Waves WaveStrategy `json:"waves,omitempty"`
	// timeoutSeconds is for how long one node's drain may last, from its beginning. Until then Jobs are let end. What comes after
	// it is onTimeout's to say, and where acceptedRisks has DoNotDisrupt or BudgetOverride those pods go then.
	// +optional
	// +kubebuilder:default=900
	// +kubebuilder:validation:Minimum=30
	// +kubebuilder:validation:Maximum=86400
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`
	// onTimeout says what happens when a node's drain lasts longer than timeoutSeconds. Wait: it goes on, and the node is named.
	// Skip: the node stays cordoned with its pods, others are drained first, and it is tried again at the end of its pool. Pause: no
	// other node of its pool begins until it is empty.
	// +optional
	// +kubebuilder:default=Wait
	OnTimeout TimeoutPolicy `json:"onTimeout,omitempty"`
	// loadBalancerSeconds is for how long an instance stays at least after its node was taken out of load balancers, which is when
	// its drain begins. It is a number and is not worked out: what a load balancer does to open requests is an attribute of its target
	// groups (deregistration_delay.timeout_seconds, 300 by default), and to read that castoff would need rights in Elastic Load
	// Balancing that it needs for nothing else. The default is enough for the node to leave the rotation and for short requests; for
	// longer ones set it to the target groups' delay, and to 0 where no load balancer has the nodes as targets.
	// +optional
	// +kubebuilder:default=30
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600
	LoadBalancerSeconds *int32 `json:"loadBalancerSeconds,omitempty"`
	// soakSeconds is for how long a pool without legacy nodes is watched before the next pool begins.
	// +optional
	// +kubebuilder:default=600
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	SoakSeconds *int32 `json:"soakSeconds,omitempty"`
	// gates are Prometheus queries that must hold, once a pool was watched for soakSeconds, before the next pool begins, and after
	// the last one before the migration is Completed. They may be changed at any time; a pool that is done is not asked about again.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Gates []Gate `json:"gates,omitempty"`
}

// Gate is a Prometheus query and the range in which its values have to be. It holds when the query returns something and every
// value is a number within the range; no value at all does not hold.
//
// +kubebuilder:validation:XValidation:rule="has(self.min) || has(self.max)",message="a gate needs min or max: the range in which every value of its query has to be"
type Gate struct {
	// name of the gate, for whoever reads that it does not hold.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name,omitempty"`
	// url of the Prometheus server, or of what answers as it does, without /api/v1. castoff calls it from its own pod, sends no
	// credentials and follows no redirect. User name and password have no place here: whoever may read the Migration would read them.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^https?://[^\s/?#@]+(/[^\s?#]*)?$`
	URL string `json:"url,omitempty"`
	// query in PromQL, evaluated at one instant. It returns a vector or a scalar.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	Query string `json:"query,omitempty"`
	// min is the least that any value may be, for example "0.99" or 990m; a fraction is written in quotes.
	// +optional
	Min *resource.Quantity `json:"min,omitempty"`
	// max is the most that any value may be, for example "0.01" or 10m; a fraction is written in quotes.
	// +optional
	Max *resource.Quantity `json:"max,omitempty"`
}

// CapacityStrategy says what comes first, capacity or eviction.
// +kubebuilder:validation:Enum=WarmFirst;EvictFirst
type CapacityStrategy string

// SurgeStrategy says which Deployments are surged.
// +kubebuilder:validation:Enum=None;Singletons;All
type SurgeStrategy string

// WaveStrategy says how pools are grouped into hand-overs.
// +kubebuilder:validation:Enum=Auto;Single
type WaveStrategy string

// TimeoutPolicy says what becomes of a node whose drain lasts too long.
// +kubebuilder:validation:Enum=Wait;Skip;Pause
type TimeoutPolicy string

// What becomes of a node whose drain lasts too long.
const (
	// TimeoutWait goes on with it.
	TimeoutWait TimeoutPolicy = "Wait"
	// TimeoutSkip goes on with the pool's other nodes, and comes back to it.
	TimeoutSkip TimeoutPolicy = "Skip"
	// TimeoutPause begins no other node of the pool.
	TimeoutPause TimeoutPolicy = "Pause"
)

// The strategies of this version.
const (
	CapacityWarmFirst  CapacityStrategy = "WarmFirst"
	CapacityEvictFirst CapacityStrategy = "EvictFirst"
	SurgeNone          SurgeStrategy    = "None"
	SurgeSingletons    SurgeStrategy    = "Singletons"
	SurgeAll           SurgeStrategy    = "All"
	WavesAuto          WaveStrategy     = "Auto"
	WavesSingle        WaveStrategy     = "Single"
)

// AcceptedRisk is a preflight finding that the user accepts.
type AcceptedRisk struct {
	// check is the finding's check, for example BarePod.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Check string `json:"check,omitempty"`
	// object is the finding's object as the report names it, for example pod/default/debug; * stands for all.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Object string `json:"object,omitempty"`
	// reason is why it is acceptable, for whoever reads it next.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Reason string `json:"reason,omitempty"`
}

// Covers says whether the risk is about this finding.
func (a AcceptedRisk) Covers(check, object string) bool {
	return a.Check == check && (a.Object == object || a.Object == "*")
}

// Provisioner says where Karpenter, its queue and its identities come from.
//
// +kubebuilder:validation:XValidation:rule="has(self.chart) == (has(self.source) && self.source == 'Chart')",message="provisioner.chart is for source Chart, which needs it: its version at least"
// +kubebuilder:validation:XValidation:rule="!has(self.source) || self.source != 'Existing' || !has(self.values)",message="provisioner.values are for a Karpenter that castoff installs; one that is there has values of its own"
// +kubebuilder:validation:XValidation:rule="!has(self.source) || self.source != 'Existing' || (has(self.queue) && self.queue != 'Managed' && has(self.identity) && self.identity == 'Existing')",message="a Karpenter that is there has a queue and roles: name them (queue: Existing with queueName, or None; identity: Existing with nodeRole and controllerRole)"
// +kubebuilder:validation:XValidation:rule="has(self.queueName) == (has(self.queue) && self.queue == 'Existing')",message="provisioner.queueName is for queue Existing, which needs it"
// +kubebuilder:validation:XValidation:rule="has(self.nodeRole) == (has(self.identity) && self.identity == 'Existing') && has(self.controllerRole) == has(self.nodeRole)",message="provisioner.nodeRole and controllerRole are for identity Existing, which needs both"
type Provisioner struct {
	// source BuiltIn installs the Karpenter that is part of castoff. Chart installs upstream's chart from a registry or a mirror;
	// castoff needs the chart value engine.fromRegistry for it. Existing adopts a Karpenter that is there: castoff installs,
	// upgrades and uninstalls nothing.
	// +optional
	// +kubebuilder:default=BuiltIn
	Source ProvisionerSource `json:"source,omitempty"`
	// chart is upstream's chart, for source Chart. Like values, a change of it takes effect until the hand-over, and not after it.
	// +optional
	Chart ProvisionerChart `json:"chart,omitzero"`
	// values go over those that castoff sets, by the names of Karpenter's chart; settings.clusterName and
	// settings.interruptionQueue stay castoff's.
	// +optional
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:MaxProperties=64
	Values *runtime.RawExtension `json:"values,omitempty"`
	// queue Managed makes the interruption queue and its EventBridge rules. Existing uses the queue of that name, and checks that
	// the rules feed it. None: Karpenter is told of no interruption, and spot instances end without a drain.
	// +optional
	// +kubebuilder:default=Managed
	Queue QueueSource `json:"queue,omitempty"`
	// queueName is the name, not the URL or the ARN, of an SQS queue in the cluster's account and region.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=80
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_-]+$`
	QueueName string `json:"queueName,omitempty"`
	// identity Managed makes the IAM roles of Karpenter and of its nodes, the Pod Identity association and the nodes' access.
	// Existing uses the roles of those names, and checks them.
	// +optional
	// +kubebuilder:default=Managed
	Identity IdentitySource `json:"identity,omitempty"`
	// nodeRole is the name, not the ARN, of the IAM role of Karpenter's nodes.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9+=,.@_-]+$`
	NodeRole string `json:"nodeRole,omitempty"`
	// controllerRole is the name, not the ARN, of the IAM role of Karpenter itself.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9+=,.@_-]+$`
	ControllerRole string `json:"controllerRole,omitempty"`
}

// ProvisionerSource says which Karpenter is used.
// +kubebuilder:validation:Enum=BuiltIn;Chart;Existing
type ProvisionerSource string

// Where Karpenter comes from.
const (
	// SourceBuiltIn is the Karpenter that is part of castoff.
	SourceBuiltIn ProvisionerSource = "BuiltIn"
	// SourceChart is upstream's chart, from a registry.
	SourceChart ProvisionerSource = "Chart"
	// SourceExisting is a Karpenter that somebody else installed.
	SourceExisting ProvisionerSource = "Existing"
)

// ProvisionerChart is a Helm chart in an OCI registry.
type ProvisionerChart struct {
	// repository is where the chart is, upstream's registry or a mirror of it. It is pulled without credentials.
	// +optional
	// +kubebuilder:default="oci://public.ecr.aws/karpenter/karpenter"
	// +kubebuilder:validation:MinLength=7
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^oci://[A-Za-z0-9.-]+(:[0-9]{1,5})?(/[a-z0-9._-]+)+$`
	Repository string `json:"repository,omitempty"`
	// version of the chart, for example 1.14.1.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$`
	Version string `json:"version,omitempty"`
	// digest of the chart's manifest in the registry: what has another one is not installed. Without it the version is trusted.
	// +optional
	// +kubebuilder:validation:MinLength=71
	// +kubebuilder:validation:MaxLength=71
	// +kubebuilder:validation:Pattern=`^sha256:[0-9a-f]{64}$`
	Digest string `json:"digest,omitempty"`
}

// QueueSource says where the interruption queue comes from.
// +kubebuilder:validation:Enum=Managed;Existing;None
type QueueSource string

// Where the interruption queue comes from.
const (
	// QueueManaged is made by castoff.
	QueueManaged QueueSource = "Managed"
	// QueueExisting is somebody else's.
	QueueExisting QueueSource = "Existing"
	// QueueNone turns interruption handling off.
	QueueNone QueueSource = "None"
)

// IdentitySource says where the IAM roles come from.
// +kubebuilder:validation:Enum=Managed;Existing
type IdentitySource string

// Where the IAM roles come from.
const (
	// IdentityManaged are made by castoff.
	IdentityManaged IdentitySource = "Managed"
	// IdentityExisting are somebody else's.
	IdentityExisting IdentitySource = "Existing"
)

// Decommission says what becomes of what is left once the migration is Completed.
type Decommission struct {
	// mode ScaleToZero leaves the node groups, empty, for the way back. Delete deletes them with their scaling policies, after
	// retentionSeconds and only when the step Delete is approved; a group that Terraform, CloudFormation or eksctl owns never.
	// +optional
	// +kubebuilder:default=ScaleToZero
	Mode DecommissionMode `json:"mode,omitempty"`
	// retentionSeconds is how long after completion the way back stays open before anything is deleted.
	// +optional
	// +kubebuilder:default=86400
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=31536000
	RetentionSeconds *int32 `json:"retentionSeconds,omitempty"`
	// clusterAutoscaler ScaleToZero leaves its Deployment at zero replicas. Delete deletes it with its Lease, and
	// node-termination-handler, under the conditions of mode Delete.
	// +optional
	// +kubebuilder:default=ScaleToZero
	ClusterAutoscaler DecommissionMode `json:"clusterAutoscaler,omitempty"`
}

// DecommissionMode says how a thing is retired.
// +kubebuilder:validation:Enum=ScaleToZero;Delete
type DecommissionMode string

// How a thing is retired.
const (
	// DecommissionScaleToZero keeps the thing at size zero.
	DecommissionScaleToZero DecommissionMode = "ScaleToZero"
	// DecommissionDelete deletes it, after retention and approval.
	DecommissionDelete DecommissionMode = "Delete"
)
