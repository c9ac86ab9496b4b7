package preflight

import (
	"testing"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// nodeClass gives the pool a target whose EC2NodeClass was changed so.
func nodeClass(change ...func(*awsv1.EC2NodeClassSpec)) func(*Input) {
	return func(in *Input) {
		t := inventory.Target{Pool: "general"}
		t.NodeClass.Spec.AMIFamily = ptr.To(awsv1.AMIFamilyAL2023)
		for _, c := range change {
			c(&t.NodeClass.Spec)
		}
		in.Targets = map[string]inventory.Target{"general": t}
	}
}

func securityGroupIDs(ids ...string) func(*awsv1.EC2NodeClassSpec) {
	return func(s *awsv1.EC2NodeClassSpec) {
		for _, id := range ids {
			s.SecurityGroupSelectorTerms = append(s.SecurityGroupSelectorTerms, awsv1.SecurityGroupSelectorTerm{ID: id})
		}
	}
}

func taggedGroups(groups ...inventory.SecurityGroup) func(*Input) {
	return func(in *Input) { in.SecurityGroups = groups }
}

func TestCase_C064_TwoSecurityGroupsWithTheClustersTag(t *testing.T) {
	a, b, c := inventory.SecurityGroup{ID: "sg-a", Name: "nodes"}, inventory.SecurityGroup{ID: "sg-b", Name: "cluster"}, inventory.SecurityGroup{ID: "sg-c"}
	byName := func(s *awsv1.EC2NodeClassSpec) {
		s.SecurityGroupSelectorTerms = append(s.SecurityGroupSelectorTerms, awsv1.SecurityGroupSelectorTerm{Name: "nodes"})
	}
	warning := func(which string) []inventory.Finding {
		return []inventory.Finding{warns(CheckSecurityGroupsTagged, "pool/general", "general", "The pool's nodes get "+which+". What keeps load balancers wants exactly one, and fails with \"Multiple tagged security groups found\". Take the tag off the others.")}
	}
	cases := map[string]struct {
		reason string
		in     Input
		want   []inventory.Finding
	}{
		"One":      {"as EKS and eksctl make it", sound(nodeClass(securityGroupIDs("sg-a", "sg-x")), taggedGroups(a, b)), nil},
		"None":     {"nothing is kept by tag", sound(nodeClass(securityGroupIDs("sg-x", "sg-y")), taggedGroups(a, b)), nil},
		"NotRead":  {"castoff may not read them, and says so elsewhere", sound(nodeClass(securityGroupIDs("sg-a", "sg-b"))), nil},
		"Two":      {"nodes' and cluster's: each load balancer's controller gives up", sound(nodeClass(securityGroupIDs("sg-a", "sg-b")), taggedGroups(a, b, c)), warning("2 security groups with the tag kubernetes.io/cluster/prod: sg-a, sg-b")},
		"Four":     {"at most three are named", sound(nodeClass(securityGroupIDs("sg-a", "sg-b", "sg-c", "sg-d")), taggedGroups(a, b, c, inventory.SecurityGroup{ID: "sg-d"})), warning("4 security groups with the tag kubernetes.io/cluster/prod: sg-a, sg-b, sg-c and 1 more")},
		"ByName":   {"old launch configurations have names", sound(nodeClass(securityGroupIDs("sg-b"), byName), taggedGroups(a, b)), warning("2 security groups with the tag kubernetes.io/cluster/prod: sg-b, nodes")},
		"NoTarget": {"a pool that could not be translated is reported as that", sound(taggedGroups(a, b)), nil},
		"Nameless": {"groups without a name are not all one", sound(nodeClass(securityGroupIDs("sg-x")), taggedGroups(inventory.SecurityGroup{ID: "sg-1"}, inventory.SecurityGroup{})), nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, securityGroupsTagged(tc.in)); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

func zones(zones ...string) func(*Input) {
	return group(func(g *inventory.NodeGroup) { g.Zones = zones })
}

func network(n inventory.PodNetwork) func(*Input) { return func(in *Input) { in.PodNetwork = n } }

// held says how many pods the old node, of this type, holds.
func held(instanceType, pods string) func(*Input) {
	return func(in *Input) {
		in.Nodes[0].Labels = map[string]string{corev1.LabelInstanceTypeStable: instanceType}
		in.Nodes[0].Allocatable = corev1.ResourceList{corev1.ResourcePods: resource.MustParse(pods)}
		in.Groups[0].Types = []inventory.InstanceType{{Name: "m5.large", VCPUs: 2, Interfaces: 3, AddressesPerInterface: 10}, {Name: "new.large"}}
	}
}

func TestCase_C068_PodsHaveAddresses(t *testing.T) {
	byZone := inventory.PodNetwork{CustomNetworking: true, ENIConfigLabel: corev1.LabelTopologyZone, ENIConfigs: []string{"us-east-1a", "us-east-1b"}}
	byHand := inventory.PodNetwork{CustomNetworking: true, ENIConfigLabel: inventory.DefaultENIConfigLabel, ENIConfigs: []string{"pods"}}
	kubelet := func(k awsv1.KubeletConfiguration) func(*awsv1.EC2NodeClassSpec) {
		return func(s *awsv1.EC2NodeClassSpec) { s.Kubelet = &k }
	}
	windows := func(s *awsv1.EC2NodeClassSpec) { s.AMIFamily = ptr.To(awsv1.AMIFamilyWindows2022) }
	named := func(in *Input) {
		target := in.Targets["general"]
		target.NodePool.Spec.Template.Labels = map[string]string{inventory.DefaultENIConfigLabel: "pods"}
		in.Targets["general"] = target
	}
	missing := func(names, label string) []inventory.Finding {
		return []inventory.Finding{warns(CheckENIConfigMissing, "pool/general", "general", "Pods have addresses by custom networking, new nodes of the pool ask for the ENIConfig "+names+" (by the label "+label+
			"), and there is none: pods on them would have no address. Make it, or leave the node groups of that zone out.")}
	}
	fewer := func(what string) []inventory.Finding {
		return []inventory.Finding{warns(CheckFewerPods, "pool/general", "general", "New nodes hold fewer pods than those that are there: "+what+
			". The same pods may need more nodes. Set --max-pods in the launch template's user data to what the nodes have, or accept it.")}
	}
	cases := map[string]struct {
		reason string
		in     Input
		want   []inventory.Finding
	}{
		"Default":       {"a cluster as EKS makes it", sound(nodeClass(), zones("us-east-1c"), held("m5.large", "29")), nil},
		"EveryZone":     {"each zone has its ENIConfig", sound(nodeClass(), zones("us-east-1a", "us-east-1b"), network(byZone)), nil},
		"ZoneWithout":   {"pods on nodes of the third zone would wait for an address", sound(nodeClass(), zones("us-east-1a", "us-east-1c"), network(byZone)), missing("us-east-1c", corev1.LabelTopologyZone)},
		"ByHand":        {"old nodes were annotated one by one; new ones would ask for one named default", sound(nodeClass(), zones("us-east-1a"), network(byHand)), missing("default", inventory.DefaultENIConfigLabel)},
		"ByLabel":       {"the pool's label names one", sound(nodeClass(), named, zones("us-east-1a"), network(byHand)), nil},
		"NotTranslated": {"a pool without a target is reported as that", sound(zones("us-east-1c"), network(byZone), held("m5.large", "110")), nil},

		"Prefixes":       {"prefix delegation, and nobody told the user data", sound(nodeClass(), network(inventory.PodNetwork{PrefixDelegation: true}), held("m5.large", "110")), fewer("m5.large 29 instead of 110")},
		"PrefixesKept":   {"--max-pods was carried over", sound(nodeClass(kubelet(awsv1.KubeletConfiguration{MaxPods: ptr.To[int32](110)})), network(inventory.PodNetwork{PrefixDelegation: true}), held("m5.large", "110")), nil},
		"Reserved":       {"custom networking: the first interface has no pods, on new nodes as on old ones", sound(nodeClass(), zones("us-east-1a"), network(byZone), held("m5.large", "20")), nil},
		"ReservedNotOld": {"old nodes counted it, and had pods without an address: the new number is right, and said", sound(nodeClass(), zones("us-east-1a"), network(byZone), held("m5.large", "29")), fewer("m5.large 20 instead of 29")},
		"PodsPerCore":    {"the lower of the two counts", sound(nodeClass(kubelet(awsv1.KubeletConfiguration{MaxPods: ptr.To[int32](110), PodsPerCore: ptr.To[int32](10)})), held("m5.large", "29")), fewer("m5.large 20 instead of 29")},
		"More":           {"more is no trouble", sound(nodeClass(), held("m5.large", "11")), nil},
		"Windows":        {"Karpenter counts otherwise there", sound(nodeClass(windows), held("m5.large", "110")), nil},
		"UnknownType":    {"nothing is said where nothing is known", sound(nodeClass(), held("new.large", "110")), nil},
		"NoLabel":        {"a node without a type", sound(nodeClass(), held("", "110")), nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := append(eniConfigMissing(tc.in), fewerPods(tc.in)...)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

func TestFewerPodsOfManyNodes(t *testing.T) {
	in := sound(nodeClass(), held("m5.large", "110"))
	other := in.Nodes[0]
	other.Name = "old-2"
	home := in.Nodes[0]
	home.Name, home.Group = "home-2", "system"
	home.Allocatable = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("250")}
	in.Nodes = append(in.Nodes, other, home)
	got := fewerPods(in)
	if len(got) != 1 || got[0].Message == "" {
		t.Fatalf("one finding a pool, whatever the number of its nodes; the home's do not matter: %v", got)
	}
	if diff := cmp.Diff(fewerPods(sound(nodeClass(), held("m5.large", "110"))), got); diff != "" {
		t.Errorf("two nodes of a type are one thing to say: -one +two\n%s", diff)
	}
}
