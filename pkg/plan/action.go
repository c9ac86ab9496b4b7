package plan

import (
	"fmt"
	"strconv"
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
	// EndCanary removes the canary's pod and NodePool, and with that its node. Failed says why it is given up, which is remembered on the
	// EC2NodeClass whose spec has that hash; empty where it did not fail.
	EndCanary struct{ Pool, Hash, Failed string }
	// RetakeLease takes a Lease back that castoff held and somebody else took.
	RetakeLease struct{ Lease types.NamespacedName }
	// HoldLease keeps Cluster Autoscaler's leader-election Lease, so that one that comes back stays a standby.
	HoldLease struct{ Lease types.NamespacedName }
	// StripLeftovers removes from a node what a stopped Cluster Autoscaler left there.
	StripLeftovers struct{ Node string }
	// EnsureNodePool creates or updates the NodePool of a pool.
	EnsureNodePool struct{ NodePool *karpv1.NodePool }
	// FenceNode keeps new pods off a legacy node: labels, cordon and the soft taint in one patch.
	FenceNode struct{ Node, Pool string }
	// WarmNode makes placeholders for the pods of a legacy node, so that Karpenter launches what they need before the first goes.
	WarmNode struct{ Node, Pool string }
	// DropPlaceholders gives room free that nobody will move into.
	DropPlaceholders struct{ Names []string }
	// BeginDrain marks a node as being drained and keeps everything off it.
	BeginDrain struct{ Node string }
	// EvictPods makes one bounded pass over a node that is being drained.
	EvictPods struct {
		Node, Pool string
		// Allow is what the user's accepted risks allow it now.
		Allow inventory.DrainAllowance
	}

	// ReleaseNode puts a node back in service: what FenceNode, CordonNode and BeginDrain did, and no more, is undone.
	ReleaseNode struct{ Node string }
	// HoldNode keeps Cluster Autoscaler from removing a legacy node before its pods are back.
	HoldNode struct{ Node, Pool string }
	// RestoreNode holds a node that came back, and gives it the labels, taints and cordon of the recorded node it stands for.
	RestoreNode struct {
		Node, Pool string
		From       inventory.NodeSnapshot
	}
	// UnmarkNode takes castoff's last marks off a legacy node.
	UnmarkNode struct{ Node string }
	// CordonNode keeps new pods off one of Karpenter's nodes, on the way back.
	CordonNode struct{ Node string }
	// LetGoLease gives Cluster Autoscaler's Lease up.
	LetGoLease struct{ Lease types.NamespacedName }
	// EndNodeClaim ends a drained node of Karpenter's, or a NodeClaim that never became one.
	EndNodeClaim struct{ NodeClaim, Node string }
	// DeleteNodePool removes a NodePool without nodes.
	DeleteNodePool struct{ NodePool string }
	// DeleteNodeClass removes an EC2NodeClass that no NodePool uses.
	DeleteNodeClass struct{ NodeClass string }
	// DeleteTerminationHandler removes an aws-node-termination-handler, whose work Karpenter's queue does.
	DeleteTerminationHandler struct{ Handler inventory.TerminationHandler }
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
	// SetRebalance turns a group's Capacity Rebalancing on or off.
	SetRebalance struct {
		Group string
		On    bool
	}
	// SetLifetime sets a group's maximum instance lifetime; 0 is for ever.
	SetLifetime struct {
		Group   string
		Seconds int32
	}
	// StopAutoscaler scales a Cluster Autoscaler Deployment to 0.
	StopAutoscaler struct{ Autoscaler inventory.Autoscaler }
	// StartAutoscaler scales it to as many replicas as it had.
	StartAutoscaler struct {
		Autoscaler inventory.Autoscaler
		Replicas   int32
	}
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

	// HideGroup takes tags off a group, so that a Cluster Autoscaler that goes on with others does not find it any more, and marks it
	// as handed over first.
	HideGroup struct {
		Group string
		Keys  []string
	}
	// ShowGroup gives a group its tags back, and takes the mark off after it.
	ShowGroup struct {
		Group string
		Tags  []inventory.Tag
	}
	// EnablePolicies lets the named scaling policies of the recorded group act again.
	EnablePolicies struct {
		Recorded inventory.NodeGroup
		Names    []string
	}
	// PutScheduledActions makes recorded scheduled actions again.
	PutScheduledActions struct {
		Group   string
		Actions []inventory.ScheduledAction
	}
	// ResumeProcesses resumes processes that castoff suspended.
	ResumeProcesses struct {
		Group     string
		Processes []string
	}
	// UninstallEngine removes the engine's Helm release.
	UninstallEngine struct{}
	// RemoveCRDs removes Karpenter's CustomResourceDefinitions, once no object of theirs is left.
	RemoveCRDs struct{}
	// RemoveInterruption removes the queue and the rules that castoff made.
	RemoveInterruption struct{}
	// RemoveIdentity removes the roles, the association and the nodes' access that castoff made.
	RemoveIdentity struct{}

	// DeletePolicies deletes a retired group's scaling policies.
	DeletePolicies struct {
		Group string
		Names []string
	}
	// DeleteGroup deletes an empty node group.
	DeleteGroup struct{ Group inventory.NodeGroup }
	// DeleteAutoscaler deletes a stopped Cluster Autoscaler's Deployment and its Lease.
	DeleteAutoscaler struct{ Autoscaler inventory.Autoscaler }
)

func (SaveSnapshot) action()             {}
func (MarkNode) action()                 {}
func (EnsureNodeClass) action()          {}
func (StartCanary) action()              {}
func (MarkCanaryPassed) action()         {}
func (EndCanary) action()                {}
func (HoldLease) action()                {}
func (StripLeftovers) action()           {}
func (EnsureNodePool) action()           {}
func (FenceNode) action()                {}
func (WarmNode) action()                 {}
func (DropPlaceholders) action()         {}
func (BeginDrain) action()               {}
func (EvictPods) action()                {}
func (ReleaseNode) action()              {}
func (HoldNode) action()                 {}
func (RestoreNode) action()              {}
func (UnmarkNode) action()               {}
func (CordonNode) action()               {}
func (LetGoLease) action()               {}
func (EndNodeClaim) action()             {}
func (DeleteNodePool) action()           {}
func (DeleteNodeClass) action()          {}
func (DeleteTerminationHandler) action() {}
func (DisablePolicies) action()          {}
func (DeleteScheduledActions) action()   {}
func (EnsureInterruption) action()       {}
func (EnsureIdentity) action()           {}
func (InstallCRDs) action()              {}
func (InstallEngine) action()            {}
func (SuspendProcesses) action()         {}
func (SetRebalance) action()             {}
func (SetLifetime) action()              {}
func (RetakeLease) action()              {}
func (StopAutoscaler) action()           {}
func (StartAutoscaler) action()          {}
func (SetGroupSize) action()             {}
func (EndInstances) action()             {}
func (HideGroup) action()                {}
func (ShowGroup) action()                {}
func (EnablePolicies) action()           {}
func (PutScheduledActions) action()      {}
func (ResumeProcesses) action()          {}
func (UninstallEngine) action()          {}
func (RemoveCRDs) action()               {}
func (RemoveInterruption) action()       {}
func (RemoveIdentity) action()           {}
func (DeletePolicies) action()           {}
func (DeleteGroup) action()              {}
func (DeleteAutoscaler) action()         {}

// The kinds of ledger entries.
const (
	kindDisablePolicies        = "DisablePolicies"
	kindDeleteScheduledActions = "DeleteScheduledActions"
	kindEnsureInterruption     = "EnsureInterruption"
	kindEnsureIdentity         = "EnsureIdentity"
	kindInstallCRDs            = "InstallCRDs"
	kindInstallEngine          = "InstallEngine"
	kindSuspendProcesses       = "SuspendProcesses"
	kindSuspendLaunch          = "SuspendLaunch" // of its own, for castoff suspends it later than the others
	kindResumeLaunch           = "ResumeLaunch"
	kindSetRebalance           = "SetRebalance"
	kindSetLifetime            = "SetLifetime"
	kindStopAutoscaler         = "StopAutoscaler"
	kindRetakeLease            = "RetakeLease"
	kindRemakeNodePool         = "RemakeNodePool"
	kindStartAutoscaler        = "StartAutoscaler"
	kindSetGroupSize           = "SetGroupSize"
	kindEndInstances           = "EndInstances"
	kindHideGroup              = "HideGroup"
	kindShowGroup              = "ShowGroup"
	kindEnablePolicies         = "EnablePolicies"
	kindPutScheduledActions    = "PutScheduledActions"
	kindResumeProcesses        = "ResumeProcesses"
	kindUninstallEngine        = "UninstallEngine"
	kindRemoveCRDs             = "RemoveCRDs"
	kindRemoveInterruption     = "RemoveInterruption"
	kindRemoveIdentity         = "RemoveIdentity"
	kindDeletePolicies         = "DeletePolicies"
	kindDeleteGroup            = "DeleteGroup"
	kindDeleteAutoscaler       = "DeleteAutoscaler"
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
	if len(a.Processes) == 1 && a.Processes[0] == processLaunch {
		return kindSuspendLaunch, a.Group, processLaunch
	}
	return kindSuspendProcesses, a.Group, strings.Join(a.Processes, separator)
}

// Entry implements Ledgered.
func (a SetRebalance) Entry() (kind, target, detail string) {
	return kindSetRebalance, a.Group, strconv.FormatBool(a.On)
}

// Entry implements Ledgered.
func (a SetLifetime) Entry() (kind, target, detail string) {
	return kindSetLifetime, a.Group, strconv.Itoa(int(a.Seconds))
}

// Entry implements Ledgered.
func (a RetakeLease) Entry() (kind, target, detail string) {
	return kindRetakeLease, "lease/" + a.Lease.String(), ""
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

// Entry implements Ledgered.
func (a StartAutoscaler) Entry() (kind, target, detail string) {
	return kindStartAutoscaler, a.Autoscaler.Deployment.String(), strconv.Itoa(int(a.Replicas))
}

// Entry implements Ledgered.
func (a HideGroup) Entry() (kind, target, detail string) {
	return kindHideGroup, a.Group, strings.Join(a.Keys, separator)
}

// Entry implements Ledgered.
func (a ShowGroup) Entry() (kind, target, detail string) {
	var keys []string
	for _, t := range a.Tags {
		keys = append(keys, t.Key)
	}
	return kindShowGroup, a.Group, strings.Join(keys, separator)
}

// Entry implements Ledgered.
func (a EnablePolicies) Entry() (kind, target, detail string) {
	return kindEnablePolicies, a.Recorded.AutoScalingGroup, strings.Join(a.Names, separator)
}

// Entry implements Ledgered.
func (a PutScheduledActions) Entry() (kind, target, detail string) {
	var names []string
	for _, s := range a.Actions {
		names = append(names, s.Name)
	}
	return kindPutScheduledActions, a.Group, strings.Join(names, separator)
}

// Entry implements Ledgered.
func (a ResumeProcesses) Entry() (kind, target, detail string) {
	if len(a.Processes) == 1 && a.Processes[0] == processLaunch {
		return kindResumeLaunch, a.Group, processLaunch
	}
	return kindResumeProcesses, a.Group, strings.Join(a.Processes, separator)
}

// Entry implements Ledgered.
func (UninstallEngine) Entry() (kind, target, detail string) {
	return kindUninstallEngine, "engine", ""
}

// Entry implements Ledgered.
func (RemoveCRDs) Entry() (kind, target, detail string) { return kindRemoveCRDs, "engine", "" }

// Entry implements Ledgered.
func (RemoveInterruption) Entry() (kind, target, detail string) {
	return kindRemoveInterruption, "interruption", ""
}

// Entry implements Ledgered.
func (RemoveIdentity) Entry() (kind, target, detail string) {
	return kindRemoveIdentity, "identity", ""
}

// Entry implements Ledgered.
func (a DeletePolicies) Entry() (kind, target, detail string) {
	return kindDeletePolicies, a.Group, strings.Join(a.Names, separator)
}

// Entry implements Ledgered.
func (a DeleteGroup) Entry() (kind, target, detail string) {
	return kindDeleteGroup, a.Group.AutoScalingGroup, ""
}

// Entry implements Ledgered.
func (a DeleteAutoscaler) Entry() (kind, target, detail string) {
	return kindDeleteAutoscaler, a.Autoscaler.Deployment.String(), ""
}

func sizes(minimum, maximum, desired int32) string {
	return fmt.Sprintf("%d/%d/%d", minimum, maximum, desired)
}

// NodeOf is the node that an action is about and that alone it changes, pods on it aside; empty for every other action. Actions on different
// nodes may be made in any order, and side by side.
func NodeOf(a Action) string {
	switch a := a.(type) {
	case MarkNode:
		return a.Node
	case FenceNode:
		return a.Node
	case CordonNode:
		return a.Node
	case ReleaseNode:
		return a.Node
	case HoldNode:
		return a.Node
	case UnmarkNode:
		return a.Node
	case WarmNode:
		return a.Node
	case BeginDrain:
		return a.Node
	case EvictPods:
		return a.Node
	}
	return ""
}
