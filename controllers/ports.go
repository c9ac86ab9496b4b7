package controllers

import (
	"context"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/pkg/helm"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// Ports are the outside world. Each is satisfied by one package of pkg; tests put doubles in their place.
type Ports struct {
	NodeGroups   NodeGroups
	Interruption Interruption
	Identity     Identity
	Autoscalers  Autoscalers
	Provisioner  Provisioner
	Releases     Releases
	Drainer      Drainer
	Snapshots    Snapshots
	Gates        Gates
}

// NodeGroups is pkg/nodegroup: Auto Scaling groups and EKS managed node groups.
type NodeGroups interface {
	Cluster(ctx context.Context) (inventory.Cluster, error)
	List(ctx context.Context, also ...string) ([]inventory.NodeGroup, error)
	Refresh(ctx context.Context, groups []inventory.NodeGroup) ([]inventory.NodeGroup, error)
	Surroundings(ctx context.Context, c inventory.Cluster, groups []inventory.NodeGroup) (inventory.Surroundings, error)
	Families(ctx context.Context, names []string) ([]inventory.InstanceFamily, error)
	SecurityGroups(ctx context.Context) ([]inventory.SecurityGroup, error)
	LaunchedByKarpenter(ctx context.Context, c inventory.Cluster) ([]string, error)
	DisablePolicies(ctx context.Context, g inventory.NodeGroup, names []string) error
	DeleteScheduledActions(ctx context.Context, asg string, names []string) error
	SuspendProcesses(ctx context.Context, asg string, processes []string) error
	SetCapacityRebalance(ctx context.Context, asg string, on bool) error
	SetMaxInstanceLifetime(ctx context.Context, asg string, seconds int32) error
	SetSize(ctx context.Context, g inventory.NodeGroup, minimum, maximum, desired int32) error
	EndInstances(ctx context.Context, asg string, ids []string) error
	EnablePolicies(ctx context.Context, recorded inventory.NodeGroup, names []string) error
	PutScheduledActions(ctx context.Context, asg string, actions []inventory.ScheduledAction) error
	ResumeProcesses(ctx context.Context, asg string, processes []string) error
	HideGroup(ctx context.Context, asg string, keys []string) error
	ShowGroup(ctx context.Context, asg string, tags []inventory.Tag) error
	DeletePolicies(ctx context.Context, asg string, names []string) error
	DeleteGroup(ctx context.Context, g inventory.NodeGroup) error
}

// Interruption is pkg/interruption: the queue and its rules.
type Interruption interface {
	Observe(ctx context.Context, c inventory.Cluster) (inventory.Interruption, error)
	Ensure(ctx context.Context, c inventory.Cluster) error
	Remove(ctx context.Context, c inventory.Cluster) error
}

// Identity is pkg/identity: roles, Pod Identity, access of nodes, and what castoff itself may do.
type Identity interface {
	Observe(ctx context.Context, c inventory.Cluster, extraNodePolicies []string) (inventory.Identity, error)
	Ensure(ctx context.Context, c inventory.Cluster, extraNodePolicies []string) error
	Remove(ctx context.Context, c inventory.Cluster) error
	Check(ctx context.Context, c inventory.Cluster) ([]inventory.Permission, error)
	AttachedPolicies(ctx context.Context, role string) ([]string, error)
}

// Autoscalers is pkg/autoscaler: the Cluster Autoscalers of the cluster.
type Autoscalers interface {
	Find(ctx context.Context) ([]inventory.Autoscaler, error)
	Stop(ctx context.Context, a inventory.Autoscaler) error
	HoldLease(ctx context.Context, lease types.NamespacedName, identity string) error
	StripLeftovers(ctx context.Context, node string) error
	Start(ctx context.Context, a inventory.Autoscaler, replicas int32) error
	LetGoLease(ctx context.Context, lease types.NamespacedName, identity string) error
	Delete(ctx context.Context, a inventory.Autoscaler) error
	TerminationHandlers(ctx context.Context) ([]inventory.TerminationHandler, error)
	DeleteTerminationHandler(ctx context.Context, h inventory.TerminationHandler) error
}

// Provisioner is pkg/provisioner: NodePools, EC2NodeClasses, the canary, and the engine's readiness.
type Provisioner interface {
	Observe(ctx context.Context) (inventory.Engine, error)
	EnsureNodeClass(ctx context.Context, nc *awsv1.EC2NodeClass) error
	EnsureNodePool(ctx context.Context, np *karpv1.NodePool) error
	StartCanary(ctx context.Context, pool string, nc *awsv1.EC2NodeClass, np *karpv1.NodePool, owner metav1.OwnerReference) error
	EndCanary(ctx context.Context, pool string) error
	MarkCanaryPassed(ctx context.Context, pool, hash string) error
	MarkCanaryFailed(ctx context.Context, pool, hash, why string) error
	DeleteNodePool(ctx context.Context, name string) error
	DeleteNodeClass(ctx context.Context, name string) error
	DeleteNodeClaim(ctx context.Context, name string) error
}

// Releases is pkg/helm: the engine's release and CRDs.
type Releases interface {
	Observe(ctx context.Context, r helm.Release) (helm.State, error)
	Apply(ctx context.Context, r helm.Release) (helm.State, error)
	ObserveCRDs(ctx context.Context, r helm.Release) ([]helm.CRD, error)
	ApplyCRDs(ctx context.Context, r helm.Release) error
	Uninstall(ctx context.Context, r helm.Release) error
	RemoveCRDs(ctx context.Context) error
}

// Drainer is pkg/drain: what castoff does to legacy nodes and the pods on them.
type Drainer interface {
	State(ctx context.Context, node string) (inventory.DrainState, error)
	Pass(ctx context.Context, node string, allow inventory.DrainAllowance) (inventory.DrainState, error)
	Mark(ctx context.Context, node, pool string) error
	Fence(ctx context.Context, node, pool string) error
	Warm(ctx context.Context, node, pool string, owner metav1.OwnerReference) error
	Placeholders(ctx context.Context) ([]inventory.Placeholder, error)
	Drop(ctx context.Context, placeholders []string) error
	Begin(ctx context.Context, node string) error
	Cordon(ctx context.Context, node string) error
	Release(ctx context.Context, node string) error
	Hold(ctx context.Context, node, pool string) error
	Restore(ctx context.Context, node, pool string, from inventory.NodeSnapshot) error
	Unmark(ctx context.Context, node string) error
}

// Gates is pkg/gate: what strategy.gates measures.
type Gates interface {
	Query(ctx context.Context, url, query string) ([]inventory.Sample, error)
}

// Snapshots is pkg/snapshot: the record of what is needed to go back.
type Snapshots interface {
	Save(ctx context.Context, name string, s *inventory.Snapshot) (sha256 string, err error)
	Load(ctx context.Context, name string) (s *inventory.Snapshot, sha256 string, err error)
	Digest(ctx context.Context, name string) (sha256 string, err error)
}
