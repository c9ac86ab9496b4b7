package preflight

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// The domain of the VPC's DHCP options is not EC2's, and nodes are forbidden to register.
func TestCase_C070_DomainOfDHCPOptionsIsNotEC2s(t *testing.T) {
	warned := func(is, want string) []inventory.Finding {
		return []inventory.Finding{warns(CheckDHCPOptions, "dhcpoptions/dopt-1", "", "The VPC's DHCP options "+is+", and EC2 names instances in "+want+
			": new nodes may not be allowed to register. Old nodes are proof for their own AMI only. castoff tries one node of each class before it moves anything; if that fails, give the VPC an option set with domain-name "+want+".")}
	}
	cases := map[string]struct {
		reason, region, domain string
		want                   []inventory.Finding
	}{
		"Default":      {"what AWS gives", "eu-west-1", "eu-west-1.compute.internal", nil},
		"FirstRegion":  {"the oldest region is named otherwise", "us-east-1", "ec2.internal", nil},
		"Dot":          {"a trailing dot means the same", "us-east-1", "ec2.internal.", nil},
		"China":        {"the same there", "cn-north-1", "cn-north-1.compute.internal", nil},
		"None":         {"EC2's own is used", "eu-west-1", "", nil},
		"Other":        {"the case", "eu-west-1", "foo", warned("name the domain foo", "eu-west-1.compute.internal")},
		"TwoNames":     {"two names separated by a space are both taken", "us-east-1", "ec2.internal foo.example", warned("name 2 domains (ec2.internal, foo.example)", "ec2.internal")},
		"Elsewhere":    {"ec2.internal is us-east-1's alone", "eu-west-1", "ec2.internal", warned("name the domain ec2.internal", "eu-west-1.compute.internal")},
		"OtherRegions": {"another region's", "us-east-1", "eu-west-1.compute.internal", warned("name the domain eu-west-1.compute.internal", "ec2.internal")},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := Run(sound(func(in *Input) {
				in.Cluster.Region = tc.region
				in.Surroundings.DHCP = &inventory.DHCPOptions{ID: "dopt-1", DomainName: tc.domain}
			}), nil)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// inSubnets puts the pool's group, of that many nodes of at most 29 pods, into subnets with so many addresses left.
func inSubnets(nodes, batch int, free ...int32) func(*Input) {
	return func(in *Input) {
		in.Surroundings.Subnets = []inventory.Subnet{}
		for i, f := range free {
			id := "subnet-" + string(rune('a'+i))
			in.Groups[0].Subnets = append(in.Groups[0].Subnets, id)
			in.Surroundings.Subnets = append(in.Surroundings.Subnets, inventory.Subnet{ID: id, Zone: "us-east-1" + string(rune('a'+i)), Free: f})
		}
		legacy(nodes, batch)(in)
	}
}

// legacy makes the pool one of that many nodes, of which so many may drain at once.
func legacy(nodes, batch int) func(*Input) {
	return func(in *Input) {
		in.Nodes = in.Nodes[1:]
		for range nodes {
			in.Nodes = append(in.Nodes, inventory.Node{Name: "old", Group: "general-a", Allocatable: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("29")}})
		}
		n := intstr.FromInt(batch)
		in.Strategy.MaxUnavailableNodes = &n
	}
}

func TestSubnets(t *testing.T) {
	const (
		of   = " at a time may take "
		less = "Lower spec.strategy.maxUnavailableNodes, or free addresses, lest pods start without one."
		full = "Not one of them has room for a whole node: free addresses, or add a subnet to the groups."
	)
	cases := map[string]struct {
		reason string
		change []func(*Input)
		want   []inventory.Finding
	}{
		"Room":    {"enough for the batch", []func(*Input){inSubnets(10, 2, 30, 30)}, nil},
		"NotRead": {"nothing is said of subnets that were not read", []func(*Input){inSubnets(10, 2, 0), func(in *Input) { in.Surroundings.Subnets = nil }}, nil},
		"Tight":   {"one node fits, the batch does not", []func(*Input){inSubnets(10, 2, 40, 12)}, []inventory.Finding{warns(CheckSubnetFull, "pool/general", "general", "2 new nodes"+of+"60 addresses (30 each), and the pool's subnets have 52 left: subnet-a in us-east-1a 40, subnet-b in us-east-1b 12. "+less)}},
		"Full":    {"no subnet has room for a whole node", []func(*Input){inSubnets(10, 2, 29, 29, 29)}, []inventory.Finding{blocks(CheckSubnetFull, "pool/general", "general", "2 new nodes"+of+"60 addresses (30 each), and the pool's subnets have 87 left: subnet-a in us-east-1a 29, subnet-b in us-east-1b 29, subnet-c in us-east-1c 29. "+full)}},
		"One":     {"one node at a time", []func(*Input){inSubnets(1, 5, 3)}, []inventory.Finding{blocks(CheckSubnetFull, "pool/general", "general", "1 new node"+of+"30 addresses (30 each), and the pool's subnets have 3 left: subnet-a in us-east-1a 3. "+full)}},
		"Many":    {"three are named", []func(*Input){inSubnets(10, 9, 40, 40, 40, 40)}, []inventory.Finding{warns(CheckSubnetFull, "pool/general", "general", "9 new nodes"+of+"270 addresses (30 each), and the pool's subnets have 160 left: subnet-a in us-east-1a 40, subnet-b in us-east-1b 40, subnet-c in us-east-1c 40 and 1 more. "+less)}},
		"IPv6":    {"pods take no IPv4 address there", []func(*Input){inSubnets(10, 2, 2), func(in *Input) { in.Cluster.ServiceCIDR = "fd00::/108" }}, nil},
		"Custom":  {"pods have other subnets there", []func(*Input){inSubnets(10, 2, 2), func(in *Input) { in.PodNetwork.CustomNetworking = true }}, nil},
		"ManyPods": {"prefixes let a kubelet say 250; the VPC CNI does not take that many at once", []func(*Input){inSubnets(10, 1, 111), func(in *Input) {
			in.Nodes[5].Allocatable = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("250")}
		}}, nil},
		"ByType": {"nodes that do not say: what the type has addresses for", []func(*Input){inSubnets(0, 1, 17), func(in *Input) { in.Groups[0].Types = []inventory.InstanceType{{Name: "t3.medium", MaxPods: 17}} }}, []inventory.Finding{blocks(CheckSubnetFull, "pool/general", "general", "1 new node"+of+"18 addresses (18 each), and the pool's subnets have 17 left: subnet-a in us-east-1a 17. "+full)}},
		"OtherPool": {"a home's subnets are not looked at", []func(*Input){func(in *Input) {
			in.Groups[1].Subnets, in.Surroundings.Subnets = []string{"subnet-z"}, []inventory.Subnet{{ID: "subnet-z"}}
		}}, nil},
		"Gone": {"a group may name what was deleted long ago", []func(*Input){inSubnets(1, 1, 100), func(in *Input) {
			in.Groups[0].Subnets = append(in.Groups[0].Subnets, "subnet-x", "subnet-y")
		}}, []inventory.Finding{blocks(CheckSubnetGone, "pool/general", "general", "The pool's node groups name subnets that do not exist any more: subnet-x, subnet-y. Karpenter could launch nothing in them: take them out of the groups.")}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Run(sound(append(tc.change, pods())...), nil)); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
		})
	}
}
