// Package preflight holds the checks that are run before anything is changed, before a hand-over, and before a pool: a file
// per subject, each check a small pure function whose comment says what goes wrong in real clusters without it. Run is the
// list of them all.
package preflight

import (
	"slices"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// Input is what the checks look at.
type Input struct {
	// ClusterName as the user wrote it; ClusterFound says whether EKS knows it. Without it nothing else was read.
	ClusterName  string
	ClusterFound bool
	Cluster      inventory.Cluster
	Groups       []inventory.NodeGroup
	Nodes        []inventory.Node
	Autoscalers  []inventory.Autoscaler
	Engine       inventory.Engine
	Identity     inventory.Identity
	Permissions  []inventory.Permission
	Workloads    inventory.Workloads
	Home         string
	Pools        []inventory.Pool
	Targets      map[string]inventory.Target
	// PodNetwork is how pods get their addresses, SecurityGroups those that carry the cluster's tag.
	PodNetwork     inventory.PodNetwork
	SecurityGroups []inventory.SecurityGroup
	Surroundings   inventory.Surroundings
	// Snapshot is what was before the migration; nil until the start.
	Snapshot *inventory.Snapshot
	// Strategy is the Migration's: how many nodes may be on their way at once.
	Strategy v1alpha1.Strategy
	// NoRestarts says that castoff may not restart Deployments; false where that was not asked.
	NoRestarts bool
	// EngineVersion is the version of Karpenter that is to run; empty: not known, and not checked.
	EngineVersion string
	// Resolved are findings that were made on the way: pools that name nothing, a translation that failed.
	Resolved []inventory.Finding
	// CheckedElsewhere are the checks that are made while castoff is at work: accepted risks may name them, too.
	CheckedElsewhere []string

	// moving and workloads are worked out once for all checks: at 30,000 pods and 300 budgets nobody wants to do it twice.
	moving    []moving
	accepted  []v1alpha1.AcceptedRisk
	workloads []*workload
	places    places
}

// check is one preflight check.
type check func(Input) []inventory.Finding

// checks in the order in which they are reported.
var checks = []check{
	wrongCluster, autoMode, foreignKarpenter, permissions, nodeRole,
	clusterNameTaken, podIdentityAgent, kubernetesVersion, storedVersions, notRead,
	noAutoscaler, autoscalerNotDeployment, autoscalerGroupsUnknown, autoscalersOverlap, autoscalerOwned, autoscalerScaled,
	autoscalerNoElection, autoscalerNotRead, groupsLeftUnscaled,
	homeTainted, homeTooSmall, homeOnSpot, homeFull,
	groupBusy, groupUnhealthy, terminateSuspended, instancesRetained, lifecycleHooks, warmPool, scaleInProtection, deletionProtection,
	ownedInCode, notCarried, dhcpOptions, subnetGone, subnetFull, vcpuQuota, spotRole,
	securityGroupsTagged, eniConfigMissing, fewerPods,
	budgetNeverAllows, budgetUnhealthy, twoBudgets, barePods,
	localVolumes, zonalVolumes, singleNodeVolumes, emptyDirs, hostPaths,
	unserved, topologyKeys, daemonSetsMissing, daemonSetRoom, daemonSetPriority,
	doNotDisrupt, notSafeToEvict, surgeNotAllowed, singletons, autoscaledToOne,
	hostPorts, noRequests, toleratesFence, expendablePods, otherSchedulers,
	webhooks, otherEvictors, terminationHandlers, pendingPods,
}

// Run runs every check and marks what the user accepts. A cluster that was not found is the only finding then: nothing else
// was read.
func Run(in Input, accepted []v1alpha1.AcceptedRisk) []inventory.Finding {
	if !in.ClusterFound {
		return clusterNotFound(in)
	}
	in.workloads, in.places, in.accepted = workloadsOf(in), newPlaces(), accepted
	in.moving = movingPods(in.workloads)
	findings := slices.Clone(in.Resolved)
	for _, c := range checks {
		findings = append(findings, c(in)...)
	}
	accept(findings, accepted)
	return append(findings, unusedRisks(in, findings, accepted)...)
}

func block(name, object, message string) inventory.Finding {
	return inventory.Finding{Check: name, Severity: v1alpha1.SeverityBlock, Object: object, Message: message}
}

func warn(name, object, message string) inventory.Finding {
	return inventory.Finding{Check: name, Severity: v1alpha1.SeverityWarn, Object: object, Message: message}
}
