package preflight

import (
	"fmt"
	"slices"
	"strings"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// The checks of the VPC.
const (
	CheckDHCPOptions = "DHCPOptions"
	CheckSubnetGone  = "SubnetGone"
	CheckSubnetFull  = "SubnetFull"
)

// dhcpOptions: a kubelet that names its node by the host's own name takes the domain from the VPC's DHCP options. Where that is
// not EC2's, or there are two, the API server forbids the node to register, and Karpenter launches one after the other for
// nothing (Amazon EKS user guide, "VPC requirements and considerations").
func dhcpOptions(in Input) []inventory.Finding {
	d := in.Surroundings.DHCP
	if d == nil || d.DomainName == "" {
		return nil
	}
	want := privateDomain(in.Cluster.Region)
	domains := strings.FieldsFunc(d.DomainName, func(r rune) bool { return r == ' ' || r == ',' })
	is := "name the domain " + d.DomainName
	switch {
	case len(domains) > 1:
		is = "name " + inventory.Count(len(domains), "domain") + " (" + three(domains) + ")"
	case len(domains) == 1 && strings.TrimSuffix(domains[0], ".") == want:
		return nil
	}
	return []inventory.Finding{warn(CheckDHCPOptions, "dhcpoptions/"+d.ID, "The VPC's DHCP options "+is+", and EC2 names instances in "+want+
		": new nodes may not be allowed to register. Old nodes are proof for their own AMI only. castoff tries one node of each class before it moves anything; if that fails, give the VPC an option set with domain-name "+want+".")}
}

// privateDomain is the domain of EC2's private DNS names (Amazon VPC user guide, "DHCP option sets").
func privateDomain(region string) string {
	if region == "us-east-1" {
		return "ec2.internal"
	}
	return region + ".compute.internal"
}

// subnetGone: an EC2NodeClass that names a subnet that is not there launches into those that are left, so that a zone gets no node,
// or is not Ready at all.
func subnetGone(in Input) []inventory.Finding {
	if in.Surroundings.Subnets == nil {
		return nil
	}
	var out []inventory.Finding
	for _, p := range in.Pools {
		var gone []string
		for _, id := range subnetsOf(in, p) {
			if !slices.ContainsFunc(in.Surroundings.Subnets, func(s inventory.Subnet) bool { return s.ID == id }) {
				gone = append(gone, id)
			}
		}
		if len(gone) > 0 {
			f := block(CheckSubnetGone, "pool/"+p.Name, "The pool's node groups name subnets that do not exist any more: "+three(gone)+
				". Karpenter could launch nothing in them: take them out of the groups.")
			f.Pool = p.Name
			out = append(out, f)
		}
	}
	return out
}

// mostPods caps what one node takes of a subnet: EKS recommends at most 110 pods on most nodes (Amazon EKS user guide, "Choosing
// an optimal Amazon EC2 node instance type"), and the VPC CNI keeps little more than it uses.
const mostPods = 110

// subnetFull: Karpenter's nodes come beside the old ones, so a subnet that is nearly full fails the launch, or gives pods on the new
// node no address, in the middle of a drain. The rule is simple: each new node may take an address for every pod that it can have and
// one for itself. With IPv6 pods take none, and with custom networking they take them from other subnets.
func subnetFull(in Input) []inventory.Finding {
	if in.Surroundings.Subnets == nil {
		return nil
	}
	each := func(p inventory.Pool) int { return min(podsOfNode(in, p), mostPods) + 1 }
	if in.PodNetwork.CustomNetworking || strings.Contains(in.Cluster.ServiceCIDR, ":") {
		each = func(inventory.Pool) int { return 1 }
	}
	var out []inventory.Finding
	for _, p := range in.Pools {
		named := subnetsOf(in, p)
		free, most := 0, 0
		var said []string
		for _, s := range in.Surroundings.Subnets {
			if slices.Contains(named, s.ID) {
				free, most = free+int(s.Free), max(most, int(s.Free))
				said = append(said, fmt.Sprintf("%s in %s %d", s.ID, s.Zone, s.Free))
			}
		}
		node, nodes := each(p), surge(in, p)
		if len(said) == 0 || free >= node*nodes && most >= node {
			continue
		}
		numbers := fmt.Sprintf("%s at a time may take %s (%d each), and the pool's subnets have %d left: %s. ", inventory.Count(nodes, "new node"), inventory.Count(node*nodes, "address", "addresses"), node, free, three(said))
		f := warn(CheckSubnetFull, "pool/"+p.Name, numbers+"Lower spec.strategy.maxUnavailableNodes, or free addresses, lest pods start without one.")
		if most < node {
			f = block(CheckSubnetFull, "pool/"+p.Name, numbers+"Not one of them has room for a whole node: free addresses, or add a subnet to the groups.")
		}
		f.Pool = p.Name
		out = append(out, f)
	}
	return out
}

// subnetsOf are the subnets that the pool's groups name.
func subnetsOf(in Input, p inventory.Pool) []string {
	var ids []string
	for _, g := range groupsOf(in, p) {
		ids = append(ids, g.Subnets...)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// podsOfNode is how many pods the largest of the pool's nodes may have: what its kubelet says, else what its type has addresses for.
func podsOfNode(in Input, p inventory.Pool) int {
	most := int64(0)
	for _, n := range in.Nodes {
		if slices.Contains(p.NodeGroups, n.Group) {
			most = max(most, n.Allocatable.Pods().Value())
		}
	}
	if most > 0 {
		return int(most)
	}
	for _, t := range typesInUse(in, p) {
		most = max(most, t.MaxPods)
	}
	if most == 0 {
		return mostPods
	}
	return int(most)
}
