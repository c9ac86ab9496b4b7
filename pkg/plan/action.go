package plan

import (
	"fmt"
	"strings"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// Action is one thing to do: a small value with an absolute target, so that doing it twice is doing it once. The set is
// closed; controllers/act.go has the only switch over it.
type Action interface{ action() }

// Ledgered actions have effects that reads show late. They are written into the status before they are made.
type Ledgered interface {
	Action
	// Entry is the action's place in the ledger: its kind, what it acts on, and its absolute target in one line.
	Entry() (kind, target, detail string)
}

// The actions on the cluster's own objects. They are visible at once.
type (
	// SaveSnapshot records what is needed to go back.
	SaveSnapshot struct{ Snapshot *inventory.Snapshot }
	// MarkNode annotates a legacy node with its pool.
	MarkNode struct{ Node, Pool string }
	// EnsureNodeClass creates or updates the EC2NodeClass of a pool.
	EnsureNodeClass struct{ NodeClass *awsv1.EC2NodeClass }
	// StartCanary launches one node of the pool's EC2NodeClass behind a taint of its own, and a pod on it.
	StartCanary struct{ Target inventory.Target }
	// MarkCanaryPassed remembers on the EC2NodeClass that this spec of it works.
	MarkCanaryPassed struct{ Pool, Hash string }
	// EndCanary removes the canary's pod and NodePool.
	EndCanary struct{ Pool string }
	// HoldLease keeps Cluster Autoscaler's leader-election Lease, so that one that comes back stays a standby.
	HoldLease struct{ Lease types.NamespacedName }
	// StripLeftovers removes from a node what a stopped Cluster Autoscaler left there.
	StripLeftovers struct{ Node string }
	// EnsureNodePool creates or updates the NodePool of a pool.
	EnsureNodePool struct{ NodePool *karpv1.NodePool }
	// FenceNode keeps new pods off a legacy node: labels, cordon and the soft taint in one patch.
	FenceNode struct{ Node, Pool string }
	// BeginDrain marks a node as being drained and keeps everything off it.
	BeginDrain struct{ Node string }
	// EvictPods makes one bounded pass over a node that is being drained.
	EvictPods struct{ Node, Pool string }
)

// The actions whose effects are outside the cluster's own objects.
type (
	// DisablePolicies stops scaling policies without deleting them, so that their alarms keep their target.
	DisablePolicies struct {
		Group inventory.NodeGroup
		Names []string
	}
	// DeleteScheduledActions removes scheduled actions; the snapshot has them.
	DeleteScheduledActions struct {
		Group string
		Names []string
	}
	// EnsureInterruption makes the queue and the rules that feed it.
	EnsureInterruption struct{}
	// EnsureIdentity makes the roles, the Pod Identity association and the nodes' access.
	EnsureIdentity struct{}
	// InstallCRDs applies Karpenter's CustomResourceDefinitions.
	InstallCRDs struct{}
	// InstallEngine installs or upgrades the engine's Helm release. It does not wait.
	InstallEngine struct{}
	// SuspendProcesses suspends processes of an Auto Scaling group; never Terminate.
	SuspendProcesses struct {
		Group     string
		Processes []string
	}
	// StopRebalance turns a group's Capacity Rebalancing off.
	StopRebalance struct{ Group string }
	// KeepInstances sets a group's maximum instance lifetime to 0: for ever.
	KeepInstances struct{ Group string }
	// StopAutoscaler scales a Cluster Autoscaler Deployment to 0.
	StopAutoscaler struct{ Autoscaler inventory.Autoscaler }
	// SetGroupSize sets a group's sizes.
	SetGroupSize struct {
		Group             inventory.NodeGroup
		Min, Max, Desired int32
	}
	// EndInstances ends drained instances and lowers the group's desired size by as many: the one action that is not
	// absolute, so it goes out only for instances that are InService after the last effect is visible.
	EndInstances struct {
		Group string
		IDs   []string
	}
)

func (SaveSnapshot) action()           {}
func (MarkNode) action()               {}
func (EnsureNodeClass) action()        {}
func (StartCanary) action()            {}
func (MarkCanaryPassed) action()       {}
func (EndCanary) action()              {}
func (HoldLease) action()              {}
func (StripLeftovers) action()         {}
func (EnsureNodePool) action()         {}
func (FenceNode) action()              {}
func (BeginDrain) action()             {}
func (EvictPods) action()              {}
func (DisablePolicies) action()        {}
func (DeleteScheduledActions) action() {}
func (EnsureInterruption) action()     {}
func (EnsureIdentity) action()         {}
func (InstallCRDs) action()            {}
func (InstallEngine) action()          {}
func (SuspendProcesses) action()       {}
func (StopRebalance) action()          {}
func (KeepInstances) action()          {}
func (StopAutoscaler) action()         {}
func (SetGroupSize) action()           {}
func (EndInstances) action()           {}

// The kinds of ledger entries.
const (
	kindDisablePolicies        = "DisablePolicies"
	kindDeleteScheduledActions = "DeleteScheduledActions"
	kindEnsureInterruption     = "EnsureInterruption"
	kindEnsureIdentity         = "EnsureIdentity"
	kindInstallCRDs            = "InstallCRDs"
	kindInstallEngine          = "InstallEngine"
	kindSuspendProcesses       = "SuspendProcesses"
	kindStopRebalance          = "StopRebalance"
	kindKeepInstances          = "KeepInstances"
	kindStopAutoscaler         = "StopAutoscaler"
	kindSetGroupSize           = "SetGroupSize"
	kindEndInstances           = "EndInstances"
)

// separator between the names in an entry's detail. Names of policies and scheduled actions may hold spaces and commas,
// but not a colon (Auto Scaling API reference, PutScalingPolicy and PutScheduledUpdateGroupAction).
const separator = ":"

// Entry implements Ledgered.
func (a DisablePolicies) Entry() (kind, target, detail string) {
	return kindDisablePolicies, a.Group.AutoScalingGroup, strings.Join(a.Names, separator)
}

// Entry implements Ledgered.
func (a DeleteScheduledActions) Entry() (kind, target, detail string) {
	return kindDeleteScheduledActions, a.Group, strings.Join(a.Names, separator)
}

// Entry implements Ledgered.
func (EnsureInterruption) Entry() (kind, target, detail string) {
	return kindEnsureInterruption, "interruption", ""
}

// Entry implements Ledgered.
func (EnsureIdentity) Entry() (kind, target, detail string) {
	return kindEnsureIdentity, "identity", ""
}

// Entry implements Ledgered.
func (InstallCRDs) Entry() (kind, target, detail string) { return kindInstallCRDs, "engine", "" }

// Entry implements Ledgered.
func (InstallEngine) Entry() (kind, target, detail string) { return kindInstallEngine, "engine", "" }

// Entry implements Ledgered.
func (a SuspendProcesses) Entry() (kind, target, detail string) {
	return kindSuspendProcesses, a.Group, strings.Join(a.Processes, separator)
}

// Entry implements Ledgered.
func (a StopRebalance) Entry() (kind, target, detail string) {
	return kindStopRebalance, a.Group, ""
}

// Entry implements Ledgered.
func (a KeepInstances) Entry() (kind, target, detail string) {
	return kindKeepInstances, a.Group, ""
}

// Entry implements Ledgered.
func (a StopAutoscaler) Entry() (kind, target, detail string) {
	return kindStopAutoscaler, a.Autoscaler.Deployment.String(), "0"
}

// Entry implements Ledgered.
func (a SetGroupSize) Entry() (kind, target, detail string) {
	return kindSetGroupSize, a.Group.AutoScalingGroup, sizes(a.Min, a.Max, a.Desired)
}

// Entry implements Ledgered.
func (a EndInstances) Entry() (kind, target, detail string) {
	return kindEndInstances, a.Group, strings.Join(a.IDs, separator)
}

func sizes(minimum, maximum, desired int32) string {
	return fmt.Sprintf("%d/%d/%d", minimum, maximum, desired)
}
