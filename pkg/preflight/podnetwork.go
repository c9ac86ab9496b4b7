package preflight

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// The checks of what gives pods their addresses, and Services their way to pods.
const (
	CheckSecurityGroupsTagged = "SecurityGroupsTagged"
	CheckENIConfigMissing     = "ENIConfigMissing"
	CheckFewerPods            = "FewerPods"
)

// securityGroupsTagged: the AWS cloud provider and the Load Balancer Controller open the one security group of a node that carries the
// cluster's tag; of two they take none, and Services lose the nodes. A pool's nodes get the security groups of all its node groups, so
// there may be two where each group had one.
func securityGroupsTagged(in Input) []inventory.Finding {
	var out []inventory.Finding
	for _, p := range in.Pools {
		var tagged []string
		for _, term := range in.Targets[p.Name].NodeClass.Spec.SecurityGroupSelectorTerms {
			if slices.ContainsFunc(in.SecurityGroups, func(g inventory.SecurityGroup) bool {
				return g.ID == term.ID && term.ID != "" || g.Name == term.Name && term.Name != ""
			}) {
				tagged = append(tagged, term.ID+term.Name)
			}
		}
		if len(tagged) > 1 {
			out = append(out, ofPool(p.Name, warn(CheckSecurityGroupsTagged, "pool/"+p.Name, "The pool's nodes get "+fmt.Sprint(len(tagged))+" security groups with the tag kubernetes.io/cluster/"+in.Cluster.Name+
				": "+three(tagged)+". What keeps load balancers wants exactly one, and fails with \"Multiple tagged security groups found\". Take the tag off the others.")))
		}
	}
	return out
}

// eniConfigMissing: with custom networking a node of which the VPC CNI plugin finds no ENIConfig joins, and gives no pod an address.
// Old nodes may have been annotated with the name of theirs, one by one; Karpenter's have labels.
func eniConfigMissing(in Input) []inventory.Finding {
	var out []inventory.Finding
	for _, p := range in.Pools {
		t, ok := in.Targets[p.Name]
		if !ok {
			continue
		}
		missing := in.PodNetwork.MissingENIConfigs(t.NodePool.Spec.Template.Labels, zonesOf(in, p))
		if len(missing) > 0 {
			out = append(out, ofPool(p.Name, warn(CheckENIConfigMissing, "pool/"+p.Name, "Pods have addresses by custom networking, new nodes of the pool ask for the ENIConfig "+three(missing)+
				" (by the label "+in.PodNetwork.ENIConfigLabel+"), and there is none: pods on them would have no address. Make it, or leave the node groups of that zone out.")))
		}
	}
	return out
}

// zonesOf are the zones that the pool's groups launch into.
func zonesOf(in Input, p inventory.Pool) []string {
	var zones []string
	for _, g := range in.Groups {
		if slices.Contains(p.NodeGroups, g.Name) {
			zones = append(zones, g.Zones...)
		}
	}
	slices.Sort(zones)
	return slices.Compact(zones)
}

// fewerPods: without a number in the EC2NodeClass Karpenter counts the addresses that a node's interfaces hold. Where prefixes are
// delegated, or somebody set another number, an old node holds more pods than a new one of its type, and the same pods need more nodes.
func fewerPods(in Input) []inventory.Finding {
	var out []inventory.Finding
	for _, p := range in.Pools {
		var said []string
		for _, n := range in.Nodes {
			kind, have := n.Labels[corev1.LabelInstanceTypeStable], n.Allocatable.Pods().Value()
			if !slices.Contains(p.NodeGroups, n.Group) {
				continue
			}
			if get := podsOf(in, p, kind); get > 0 && get < have {
				said = append(said, fmt.Sprintf("%s %d instead of %d", kind, get, have))
			}
		}
		slices.Sort(said)
		if said = slices.Compact(said); len(said) > 0 {
			out = append(out, ofPool(p.Name, warn(CheckFewerPods, "pool/"+p.Name, "New nodes hold fewer pods than those that are there: "+three(said)+
				". The same pods may need more nodes. Set --max-pods in the launch template's user data to what the nodes have, or accept it.")))
		}
	}
	return out
}

// podsOf is how many pods a new node of the type holds as Karpenter counts; 0 where that is not known.
func podsOf(in Input, p inventory.Pool, instanceType string) int64 {
	spec := in.Targets[p.Name].NodeClass.Spec
	if spec.AMIFamily == nil || strings.HasPrefix(*spec.AMIFamily, "Windows") {
		return 0
	}
	for _, g := range in.Groups {
		i := slices.IndexFunc(g.Types, func(t inventory.InstanceType) bool { return t.Name == instanceType })
		if i < 0 || !slices.Contains(p.NodeGroups, g.Name) {
			continue
		}
		pods := g.Types[i].Pods(in.PodNetwork.ReservedENIs())
		if k := spec.Kubelet; k != nil && k.MaxPods != nil {
			pods = int64(*k.MaxPods)
		}
		if k := spec.Kubelet; k != nil && k.PodsPerCore != nil && *k.PodsPerCore > 0 {
			pods = min(pods, int64(*k.PodsPerCore)*g.Types[i].VCPUs)
		}
		return pods
	}
	return 0
}

// ofPool is a finding about a pool.
func ofPool(pool string, f inventory.Finding) inventory.Finding {
	f.Pool = pool
	return f
}
