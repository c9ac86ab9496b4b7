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
	CheckClusterNameTaken  = "ClusterNameTaken"
	CheckPodIdentityAgent  = "PodIdentityAgentMissing"
	CheckNotRead           = "SurroundingsNotRead"
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
			"A Karpenter runs here that castoff did not install, and two launch twice for every pod. Remove it first, or let castoff adopt it (spec.provisioner.source: Existing)."))
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
				sentences("castoff may not call "+p.Action+".", ended(p.Message), "Grant it: kubectl castoff plan -o iam prints the whole policy.")))
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

// clusterNameTaken: Karpenter ends instances that carry its tags and the cluster's name and that no NodeClaim here knows. With two
// clusters of one name in an account and region, each ends the other's nodes.
func clusterNameTaken(in Input) []inventory.Finding {
	var out []inventory.Finding
	for _, n := range in.Surroundings.Namesakes {
		out = append(out, block(CheckClusterNameTaken, "vpc/"+n.VPC, "Another VPC has "+inventory.Count(n.Instances, "instance")+" that a Karpenter launched for a cluster "+in.Cluster.Name+
			": that is another cluster of this name, or what one left behind. Karpenter would end them as its own. End or retag them (eks:eks-cluster-name) if they are left behind; two clusters of one name cannot both have a Karpenter in one region."))
	}
	return out
}

// podIdentityAgent: the engine gets its credentials from the agent on its node. Without one every pod of Karpenter's ends at its first
// call to AWS.
func podIdentityAgent(in Input) []inventory.Finding {
	const agent = "eks-pod-identity-agent"
	addon := in.Surroundings.PodIdentityAgent
	runs := slices.ContainsFunc(in.Workloads.Controllers, func(c inventory.Controller) bool { return c.Kind == "DaemonSet" && c.Name == agent })
	if addon == nil || *addon || runs || in.Identity.WebIdentity || in.Engine.Adopted {
		return nil
	}
	return []inventory.Finding{block(CheckPodIdentityAgent, "addon/"+agent, "The cluster has no EKS Pod Identity Agent, so Karpenter would get no AWS credentials. Add it: aws eks create-addon --cluster-name "+
		in.Cluster.Name+" --addon-name "+agent+".")}
}

// notRead: what was not looked at is not known to be well, and nobody should take its silence for that.
func notRead(in Input) []inventory.Finding {
	var denied, silent []string
	for _, n := range in.Surroundings.NotRead {
		what := n.What + " (" + n.Action + ")"
		if n.Denied {
			denied = append(denied, what)
		} else {
			silent = append(silent, what)
		}
	}
	var said []string
	if len(denied) > 0 {
		said = append(said, "Not checked, because castoff may not read it: "+three(denied)+". Grant it: kubectl castoff plan -o iam prints the policy.")
	}
	if len(silent) > 0 {
		said = append(said, "Not checked, because AWS did not answer: "+three(silent)+". In a VPC without that service's endpoint, look yourself.")
	}
	if len(said) == 0 {
		return nil
	}
	return []inventory.Finding{warn(CheckNotRead, "cluster/"+in.Cluster.Name, sentences(said...))}
}

// sentences joins those that are there.
func sentences(s ...string) string {
	return strings.Join(slices.DeleteFunc(s, func(s string) bool { return s == "" }), " ")
}

// ended makes a sentence of what AWS says.
func ended(s string) string {
	if s == "" || strings.HasSuffix(s, ".") {
		return s
	}
	return s + "."
}

// three names at most three and counts the rest.
func three(names []string) string {
	const most = 3
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return strings.Join(names[:most], ", ") + more(len(names)-most)
}
