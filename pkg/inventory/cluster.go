package inventory

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Cluster is the EKS cluster.
type Cluster struct {
	Name      string `json:"name"`
	ARN       string `json:"arn"`
	Account   string `json:"account"`
	Region    string `json:"region"`
	Partition string `json:"partition"` // aws, aws-cn, aws-us-gov
	Version   string `json:"version"`   // 1.33
	Endpoint  string `json:"endpoint"`
	CABundle  string `json:"caBundle,omitempty"` // base64
	VPC       string `json:"vpc,omitempty"`
	// ServiceCIDR is the IPv4 or IPv6 range of Services.
	ServiceCIDR string `json:"serviceCIDR,omitempty"`
	// SecurityGroup is the cluster security group that EKS made.
	SecurityGroup string `json:"securityGroup,omitempty"`
	// AuthenticationMode is API, API_AND_CONFIG_MAP or CONFIG_MAP.
	AuthenticationMode string `json:"authenticationMode,omitempty"`
	AutoMode           bool   `json:"autoMode,omitempty"`
	// Same says that the cluster castoff runs in is this one: its endpoint or certificate authority is the same.
	Same bool `json:"same"`
	// RolesBoundary is the ARN of the permissions boundary that roles which castoff makes for the cluster carry; empty: none.
	RolesBoundary string `json:"rolesBoundary,omitempty"`
	// Provided is what the user has in place of what castoff would make for the cluster.
	Provided Provided `json:"provided,omitzero"`
}

// Node is what castoff needs to know of a Node.
type Node struct {
	Name            string            `json:"name"`
	UID             types.UID         `json:"uid"`
	ResourceVersion string            `json:"resourceVersion,omitempty"`
	InstanceID      string            `json:"instanceID,omitempty"`
	Zone            string            `json:"zone,omitempty"`
	Group           string            `json:"group,omitempty"` // NodeGroup.Name, empty when no group has its instance
	Labels          map[string]string `json:"labels,omitempty"`
	Annotations     map[string]string `json:"annotations,omitempty"`
	Taints          []corev1.Taint    `json:"taints,omitempty"`
	Unschedulable   bool              `json:"unschedulable,omitempty"`
	Ready           bool              `json:"ready"`
	// ReadyChanged is when Ready last became what it is.
	ReadyChanged time.Time           `json:"readyChanged,omitzero"`
	Created      time.Time           `json:"created"`
	Allocatable  corev1.ResourceList `json:"allocatable,omitempty"`
}

// HasTaint says whether the node carries a taint with that key and effect; an empty effect matches any.
func (n Node) HasTaint(key string, effect corev1.TaintEffect) bool {
	for _, t := range n.Taints {
		if t.Key == key && (effect == "" || t.Effect == effect) {
			return true
		}
	}
	return false
}

// DrainState is what is left on a node that is being drained.
type DrainState struct {
	Node string `json:"node"`
	// Evictable pods have to leave before the instance may end, those that are terminating already among them.
	Evictable int `json:"evictable"`
	// Blocked are the pods that may not go now, and why.
	Blocked []BlockedPod `json:"blocked,omitempty"`
	// Volumes are still attached to the node, though no pod that used one is left: looked for when Evictable is 0.
	Volumes []string `json:"volumes,omitempty"`
	// Budgets are the PodDisruptionBudgets that pods of the node have to ask; the other ones may go without.
	Budgets []BudgetNeed `json:"budgets,omitempty"`
	// Begun says that castoff began to drain the node: read past every cache, which may not show it yet.
	Begun bool `json:"begun,omitempty"`
}

// BudgetNeed is what a node's pods want of one PodDisruptionBudget.
type BudgetNeed struct {
	// Budget is its namespace/name; of budgets that select the same pods all of them, with a blank between.
	Budget string `json:"budget"`
	// Pods of the node that have to ask it.
	Pods int `json:"pods"`
	// Room is how many pods of whatever node it lets go now: none where several budgets select the same pods, which the Eviction API
	// refuses for ever (Kubernetes, "API-initiated eviction").
	Room int `json:"room"`
}

// DrainAllowance is what a drain may do beyond evicting pods that a controller replaces: what the user's accepted risks allow
// it now. The zero value allows nothing.
type DrainAllowance struct {
	// BarePods may be evicted though no controller replaces them.
	BarePods Objects `json:"barePods,omitempty"`
	// LocalVolumes: pods may be evicted whose volume stays behind on the node, by pod or by persistentvolume/NAME.
	LocalVolumes Objects `json:"localVolumes,omitempty"`
	// DoNotDisrupt: pods may be evicted that ask to be left alone, by pod or by workload.
	DoNotDisrupt Objects `json:"doNotDisrupt,omitempty"`
	// Jobs may be evicted before they end.
	Jobs bool `json:"jobs,omitempty"`
	// Budgets may be overridden: a pod that they refuse to let go is deleted.
	Budgets Objects `json:"budgets,omitempty"`
	// Surge: Deployments are restarted in place of evicting their pods.
	Surge Surge `json:"surge,omitzero"`
}

// Allows says whether the pod may be evicted for all that holds it back by itself. A budget's word is not in it: see Overrides.
func (a DrainAllowance) Allows(b BlockedPod) bool {
	object := "pod/" + b.Pod.String()
	switch b.Reason {
	case BlockedBare:
		return a.BarePods.Have(object)
	case BlockedLocalVolume:
		return a.LocalVolumes.Have(object, "persistentvolume/"+b.Volume)
	case BlockedDoNotDisrupt:
		return a.DoNotDisrupt.Have(object, b.Workload)
	case BlockedJob:
		return a.Jobs
	}
	return false
}

// Overrides says whether the pod may be deleted though budgets refuse to let it go: every one of them has to be named.
func (a DrainAllowance) Overrides(b BlockedPod) bool {
	if len(b.PDBs) == 0 || (b.Reason != BlockedByPDB && b.Reason != BlockedByTwoPDBs) {
		return false
	}
	return !slices.ContainsFunc(b.PDBs, func(pdb types.NamespacedName) bool { return !a.Budgets.Have("poddisruptionbudget/" + pdb.String()) })
}

// Objects are objects as findings name them, for example pod/shop/cart-0; * stands for all.
type Objects []string

// Have says whether one of the objects is among them.
func (o Objects) Have(objects ...string) bool {
	return slices.Contains(o, "*") || slices.ContainsFunc(objects, func(one string) bool { return slices.Contains(o, one) })
}

// LaunchFailure is a node that Karpenter could not launch for want of capacity or quota.
type LaunchFailure struct {
	NodePool string `json:"nodePool"`
	// Message is Karpenter's, with AWS's words.
	Message string    `json:"message"`
	Time    time.Time `json:"time"`
}

// BlockedPod is a pod that an eviction could not move yet.
type BlockedPod struct {
	Pod types.NamespacedName `json:"pod"`
	// Workload is the object that the pod is one of, as findings name it: deployment/shop/web. Empty for a pod without a controller.
	Workload string      `json:"workload,omitempty"`
	Reason   BlockReason `json:"reason"`
	// PDBs that hold it back.
	PDBs []types.NamespacedName `json:"pdbs,omitempty"`
	// Volume is the PersistentVolume that holds it back.
	Volume string `json:"volume,omitempty"`
	// Message says why in words, and what to do.
	Message string `json:"message"`
}

// BlockReason is why a pod stays.
type BlockReason string

// The reasons for which a pod stays.
const (
	// BlockedByPDB waits for room in a PodDisruptionBudget.
	BlockedByPDB BlockReason = "DisruptionBudget"
	// BlockedByTwoPDBs: the Eviction API refuses a pod that two budgets select; a human must mend one.
	BlockedByTwoPDBs BlockReason = "TwoDisruptionBudgets"
	// BlockedByThrottling: the API server asked to come back later.
	BlockedByThrottling BlockReason = "Throttled"
	// BlockedTerminating waits for a pod's own termination.
	BlockedTerminating BlockReason = "Terminating"
	// BlockedStuck: the pod should have been gone by now, and something keeps it.
	BlockedStuck BlockReason = "TerminatingStuck"
	// BlockedBare: no controller would replace the pod; a policy must allow it.
	BlockedBare BlockReason = "BarePod"
	// BlockedDoNotDisrupt: the pod's owner asked to leave it alone.
	BlockedDoNotDisrupt BlockReason = "DoNotDisrupt"
	// BlockedJob waits for a Job's pod to end its work.
	BlockedJob BlockReason = "JobRunning"
	// BlockedLocalVolume: the pod's volume stays behind on the node; a policy must allow it.
	BlockedLocalVolume BlockReason = "LocalVolume"
	// BlockedReturning: the pod was put on the node after its drain began; another eviction would only bring the next one.
	BlockedReturning BlockReason = "ReturnsToNode"
	// BlockedOverridden: the pod was deleted past its budget, as the user said.
	BlockedOverridden BlockReason = "BudgetOverride"
	// BlockedError is any other answer of the API server.
	BlockedError BlockReason = "EvictionFailed"
)
