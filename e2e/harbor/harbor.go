// Package harbor is the cluster that castoff is shown and tested on: three zones, four node groups of the kinds people
// have, Cluster Autoscaler, and a hundred and twenty pods that must not notice.
package harbor

import (
	_ "embed"
	"strings"

	"github.com/castoff-sh/castoff/e2e/watcher"
)

// Names of the scene.
const (
	Cluster = "harbor"
	// The node groups. Home and Batch are EKS managed node groups, General and Memory are Auto Scaling groups.
	Home    = "system"
	General = "general"
	Memory  = "memory"
	Batch   = "batch"
	// Nodes is how many the groups have together at first.
	Nodes = 16

	// CastoffNamespace and CastoffRole are where castoff runs, and the IAM role it runs with.
	CastoffNamespace = "castoff-system"
	CastoffRole      = "castoff"

	autoscalerRole    = "harbor-cluster-autoscaler"
	nodeRole          = "harbor-node"
	clusterRole       = "harbor-cluster"
	kubernetesVersion = "1.36"
	// labelTier is how workloads choose their group.
	labelTier = "harbor.example/tier"
	// taintDedicated keeps the memory group for those who ask for it.
	taintDedicated = "harbor.example/dedicated"
)

// Migration is the manifest that a user would apply.
//
//go:embed migration.yaml
var Migration string

// Judgement is what the watcher must know of the scene.
func Judgement() watcher.Config {
	return watcher.Config{
		Pools: map[string]string{General: General, Memory: Memory, Batch: Batch}, Home: Home,
		CastoffNamespace: CastoffNamespace, CastoffRole: CastoffRole,
	}
}

// userData is what an AL2023 image of a self-managed group reads: a NodeConfig for nodeadm in a MIME archive.
func userData(cluster clusterAccess, labels, taints string) string {
	return strings.NewReplacer("ENDPOINT", cluster.endpoint, "AUTHORITY", cluster.authority, "CIDR", cluster.serviceCIDR, "LABELS", labels, "TAINTS", taints).Replace(nodeConfig)
}

//go:embed nodeconfig.mime
var nodeConfig string
