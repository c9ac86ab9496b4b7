package preflight

import (
	"slices"
	"strings"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// The checks of the cluster as a whole.
const (
	CheckClusterNotFound   = "ClusterNotFound"
	CheckWrongCluster      = "WrongCluster"
	CheckAutoMode          = "AutoMode"
	CheckForeignKarpenter  = "ForeignKarpenter"
	CheckNoAutoscaler      = "NoClusterAutoscaler"
	CheckNodeRole          = "NodeRoleCannotJoin"
	CheckPermissionDenied  = "PermissionDenied"
	CheckPermissionUnknown = "PermissionNotChecked"
)

// clusterNotFound: a typing error in the name, the wrong region or the wrong account would otherwise show as an empty cluster.
func clusterNotFound(in Input) []inventory.Finding {
	return []inventory.Finding{block(CheckClusterNotFound, "cluster/"+in.ClusterName,
		"EKS does not know a cluster of this name in castoff's account and region. Correct spec.clusterName, or AWS_REGION of the castoff Deployment.")}
}

// wrongCluster: with two clusters in one account, a Migration applied to the wrong one would shrink the other's groups.
func wrongCluster(in Input) []inventory.Finding {
	if in.Cluster.Same {
		return nil
	}
	return []inventory.Finding{block(CheckWrongCluster, "cluster/"+in.Cluster.Name,
		"EKS knows this cluster, but castoff does not run in it: its certificate authority is another. Apply the Migration in the cluster that it names.")}
}

// autoMode: EKS Auto Mode brings a Karpenter of its own, and two launch twice for every pod.
func autoMode(in Input) []inventory.Finding {
	if !in.Cluster.AutoMode {
		return nil
	}
	return []inventory.Finding{block(CheckAutoMode, "cluster/"+in.Cluster.Name,
		"EKS Auto Mode is on: it already runs a Karpenter that castoff must not compete with. Turn it off, or move workloads to its node pools without castoff.")}
}

// foreignKarpenter: two Karpenters in one cluster were seen to launch four instances where one was needed.
func foreignKarpenter(in Input) []inventory.Finding {
	var out []inventory.Finding
	for _, d := range in.Engine.Foreign {
		out = append(out, block(CheckForeignKarpenter, "deployment/"+d,
			"A Karpenter runs here that castoff did not install, and two launch twice for every pod. Remove it first; adopting one is not in this version."))
	}
	return out
}

// noAutoscaler: without a Cluster Autoscaler there is nothing to stop, and castoff cannot tell which groups it scaled.
func noAutoscaler(in Input) []inventory.Finding {
	if len(in.Autoscalers) > 0 {
		return nil
	}
	return []inventory.Finding{warn(CheckNoAutoscaler, "cluster/"+in.Cluster.Name,
		"No Cluster Autoscaler was found by image or arguments in any namespace. If one runs outside the cluster, stop it before the hand-over.")}
}

// nodeRole: nodes whose role EKS does not let in stay NotReady, and the pods that were evicted for them have nowhere to go.
func nodeRole(in Input) []inventory.Finding {
	if in.Identity.Conflict == "" {
		return nil
	}
	return []inventory.Finding{block(CheckNodeRole, "role/"+in.Identity.NodeRole, in.Identity.Conflict)}
}

// permissions: a permission that is missing in the middle of a hand-over leaves pools without a scaler.
func permissions(in Input) []inventory.Finding {
	var out []inventory.Finding
	var unknown []string
	for _, p := range in.Permissions {
		switch p.State {
		case inventory.PermissionDenied:
			out = append(out, block(CheckPermissionDenied, "action/"+p.Action,
				sentences("castoff may not call "+p.Action+".", p.Message, "Grant it: kubectl castoff plan -o iam prints the whole policy.")))
		case inventory.PermissionNotChecked:
			unknown = append(unknown, p.Action)
		case inventory.PermissionAllowed:
		}
	}
	if len(unknown) > 0 {
		out = append(out, warn(CheckPermissionUnknown, "cluster/"+in.Cluster.Name,
			"Whether castoff may call these was not checked: "+three(unknown)+". Compare its role with: kubectl castoff plan -o iam."))
	}
	return out
}

// sentences joins those that are there.
func sentences(s ...string) string {
	return strings.Join(slices.DeleteFunc(s, func(s string) bool { return s == "" }), " ")
}

// three names at most three and counts the rest.
func three(names []string) string {
	const most = 3
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return strings.Join(names[:most], ", ") + more(len(names)-most)
}
