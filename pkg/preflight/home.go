package preflight

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// The checks of the home, the group that stays for Karpenter, CoreDNS and castoff.
const (
	CheckHomeTainted  = "HomeTainted"
	CheckHomeTooSmall = "HomeTooSmall"
	CheckHomeOnSpot   = "HomeOnSpot"
	CheckHomeFull     = "HomeFull"
)

// engineReplicas of Karpenter run on different nodes, each with requests of engineCPU and engineMemory (charts/provisioner).
const (
	engineReplicas = 2
	engineCPU      = "1"
	engineMemory   = "1Gi"
)

// homeTooSmall: Karpenter runs on no node that it manages itself, and its two replicas never share one. Once the last group is
// empty and the only home node goes, nothing is left that could launch another, for Karpenter either.
func homeTooSmall(in Input) []inventory.Finding {
	usable := usableHome(in)
	g, ok := groupNamed(in, in.Home) // one that does not exist is named by whoever looked for it
	if !ok || len(usable) >= engineReplicas || len(homeTainted(in)) > 0 {
		return nil
	}
	do := "Give the group at least two nodes, and see that they are Ready and not cordoned."
	if g.Max < engineReplicas {
		do = "Its max is " + strconv.Itoa(int(g.Max)) + ": raise max and desired to at least two."
	}
	return []inventory.Finding{block(CheckHomeTooSmall, "nodegroup/"+in.Home, "The home has "+inventory.Count(len(usable), "node")+
		" Ready for pods, and Karpenter's two replicas need one each: it runs on no node that it launched itself. "+do)}
}

// homeOnSpot: EC2 may take all spot nodes of a type at once, Karpenter's own among them, and then nobody replaces any.
func homeOnSpot(in Input) []inventory.Finding {
	g, ok := groupNamed(in, in.Home)
	if !ok || !mayBeSpot(g) {
		return nil
	}
	return []inventory.Finding{block(CheckHomeOnSpot, "nodegroup/"+in.Home,
		"The home has spot instances: an interruption takes Karpenter along, and nothing replaces what was interrupted. Name an on-demand group in spec.home.nodeGroup.")}
}

func mayBeSpot(g inventory.NodeGroup) bool {
	return g.LaunchTemplate.Spot || g.MixedInstances != nil && g.MixedInstances.OnDemandPercentage < 100 ||
		g.Managed != nil && g.Managed.CapacityType == "SPOT"
}

// homeFull: a replica that finds no room on the home stays Pending, and no Cluster Autoscaler is there any more to add a node.
func homeFull(in Input) []inventory.Finding {
	usable := usableHome(in)
	if in.Engine.Replicas > 0 || len(usable) < engineReplicas {
		return nil
	}
	requested := map[string]corev1.ResourceList{}
	for i := range in.Workloads.Pods {
		if p := &in.Workloads.Pods[i]; p.Node != "" && p.Shape != nil {
			requested[p.Node] = sum(requested[p.Node], p.Shape.Requests)
		}
	}
	room := 0
	for _, n := range usable {
		if len(n.Allocatable) == 0 || hasRoom(n.Allocatable, requested[n.Name]) {
			room++
		}
	}
	if room >= engineReplicas {
		return nil
	}
	return []inventory.Finding{warn(CheckHomeFull, "nodegroup/"+in.Home, "Karpenter's two replicas ask for "+engineCPU+" CPU and "+engineMemory+
		" each, and "+inventory.Count(room, "node")+" of the home has that much free. Add a node to the group, or larger ones; castoff itself asks for 100m and 96Mi.")}
}

func hasRoom(allocatable, requested corev1.ResourceList) bool {
	for name, need := range map[corev1.ResourceName]string{corev1.ResourceCPU: engineCPU, corev1.ResourceMemory: engineMemory} {
		free := allocatable[name].DeepCopy()
		free.Sub(requested[name])
		if free.Cmp(resource.MustParse(need)) < 0 {
			return false
		}
	}
	return true
}

func sum(a, b corev1.ResourceList) corev1.ResourceList {
	out := a.DeepCopy()
	if out == nil {
		out = corev1.ResourceList{}
	}
	for name, more := range b {
		total := out[name].DeepCopy()
		total.Add(more)
		out[name] = total
	}
	return out
}

// usableHome are the home's nodes on which a pod of Karpenter's can be placed now.
func usableHome(in Input) []inventory.Node {
	var out []inventory.Node
	for _, n := range in.Nodes {
		if n.Group == in.Home && n.Group != "" && n.Ready && !n.Unschedulable && !slices.ContainsFunc(n.Taints, refusesEngine) {
			out = append(out, n)
		}
	}
	return out
}

// homeTainted: Karpenter would stay Pending on a home whose nodes refuse it, after castoff has changed things already, and the
// home is frozen then.
func homeTainted(in Input) []inventory.Finding {
	taint := ""
	for _, n := range in.Nodes {
		if n.Group != in.Home {
			continue
		}
		i := slices.IndexFunc(n.Taints, refusesEngine)
		if i < 0 {
			return nil // one node that takes the engine is enough to begin with
		}
		taint = n.Taints[i].ToString()
	}
	if taint == "" {
		return nil
	}
	return []inventory.Finding{block(CheckHomeTainted, "nodegroup/"+in.Home, "Every node of the home is tainted ("+taint+
		"), and Karpenter, CoreDNS and castoff do not tolerate it. Name a group without taints in spec.home.nodeGroup.")}
}

// refusesEngine goes by the engine's tolerations (charts/provisioner); the taints of a node that is not Ready yet pass by themselves.
func refusesEngine(t corev1.Taint) bool {
	return t.Effect != corev1.TaintEffectPreferNoSchedule && t.Key != "CriticalAddonsOnly" && !strings.HasPrefix(t.Key, "node.kubernetes.io/") &&
		!strings.HasPrefix(t.Key, "node.cloudprovider.kubernetes.io/")
}
