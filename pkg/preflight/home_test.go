package preflight

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

func TestHomeTainted(t *testing.T) {
	node := func(group string, taints ...corev1.Taint) inventory.Node {
		return inventory.Node{Group: group, Taints: taints}
	}
	no := func(key string) corev1.Taint {
		return corev1.Taint{Key: key, Value: "x", Effect: corev1.TaintEffectNoSchedule}
	}
	blocks := []inventory.Finding{block(CheckHomeTainted, "nodegroup/system", "Every node of the home is tainted (team=x:NoSchedule), and Karpenter, CoreDNS and castoff do not tolerate it. Name a group without taints in spec.home.nodeGroup.")}
	cases := map[string]struct {
		reason string
		nodes  []inventory.Node
		want   []inventory.Finding
	}{
		"Clean":     {"an untainted home", []inventory.Node{node("system")}, nil},
		"Tainted":   {"the engine would stay Pending", []inventory.Node{node("system", no("team")), node("general")}, blocks},
		"OneOfTwo":  {"one node that takes the engine is enough to begin with", []inventory.Node{node("system", no("team")), node("system")}, nil},
		"Soft":      {"a preference refuses nobody", []inventory.Node{node("system", corev1.Taint{Key: "team", Effect: corev1.TaintEffectPreferNoSchedule})}, nil},
		"Addons":    {"the engine tolerates what system pods tolerate", []inventory.Node{node("system", no("CriticalAddonsOnly"))}, nil},
		"NotReady":  {"a node that is not Ready yet will be", []inventory.Node{node("system", no("node.kubernetes.io/not-ready"))}, nil},
		"Elsewhere": {"taints of other groups are theirs", []inventory.Node{node("system"), node("memory", no("team"))}, nil},
		"NoNodes":   {"a home without nodes is another finding", nil, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, homeTainted(Input{Home: "system", Nodes: tc.nodes})); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// homeOf makes the home of these nodes, each Ready and of four CPUs and 16 GiB unless changed.
func homeOf(nodes ...func(*inventory.Node)) func(*Input) {
	return func(in *Input) {
		in.Nodes = in.Nodes[:1]
		for i, change := range nodes {
			n := inventory.Node{Name: "home-" + string(rune('a'+i)), Group: "system", Ready: true, Allocatable: resources("4", "16Gi")}
			change(&n)
			in.Nodes = append(in.Nodes, n)
		}
	}
}

func fine(*inventory.Node) {}

func resources(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

// asking is a pod of the home with such requests.
func asking(node, cpu, memory string) inventory.Pod {
	return inventory.Pod{Namespace: "kube-system", Name: "dns", Node: node, Owner: pod("x").Owner, Shape: &inventory.Shape{Requests: resources(cpu, memory)}}
}

// Karpenter's replicas need two nodes that it does not manage, or nothing can scale any more.
func TestCase_C048_HomeForTwoReplicas(t *testing.T) {
	small := func(nodes, do string) []inventory.Finding {
		return []inventory.Finding{blocks(CheckHomeTooSmall, "nodegroup/system", "", "The home has "+nodes+" Ready for pods, and Karpenter's two replicas need one each: it runs on no node that it launched itself. "+do)}
	}
	const (
		give  = "Give the group at least two nodes, and see that they are Ready and not cordoned."
		raise = "Its max is 1: raise max and desired to at least two."
	)
	spot := []inventory.Finding{blocks(CheckHomeOnSpot, "nodegroup/system", "", "The home has spot instances: an interruption takes Karpenter along, and nothing replaces what was interrupted. Name an on-demand group in spec.home.nodeGroup.")}
	tainted := func(n *inventory.Node) {
		n.Taints = []corev1.Taint{{Key: "team", Value: "x", Effect: corev1.TaintEffectNoSchedule}}
	}
	maximum := func(n int32) func(*Input) { return func(in *Input) { in.Groups[1].Max = n } }
	cases := map[string]struct {
		reason string
		change []func(*Input)
		want   []inventory.Finding
	}{
		"Two":        {"one each", []func(*Input){homeOf(fine, fine), maximum(2)}, nil},
		"None":       {"an empty home", []func(*Input){homeOf(), maximum(4)}, small("0 nodes", give)},
		"One":        {"the second replica would stay Pending", []func(*Input){homeOf(fine), maximum(4)}, small("1 node", give)},
		"MaxOfOne":   {"and nobody could add one", []func(*Input){homeOf(fine), maximum(1)}, small("1 node", raise)},
		"Cordoned":   {"a cordoned node takes none", []func(*Input){homeOf(fine, func(n *inventory.Node) { n.Unschedulable = true }), maximum(4)}, small("1 node", give)},
		"NotReady":   {"nor does one that is not Ready", []func(*Input){homeOf(fine, func(n *inventory.Node) { n.Ready = false }), maximum(4)}, small("1 node", give)},
		"OneTainted": {"nor one that refuses it", []func(*Input){homeOf(fine, tainted), maximum(4)}, small("1 node", give)},
		"AllTainted": {"said once", []func(*Input){homeOf(tainted, tainted)}, []inventory.Finding{blocks(CheckHomeTainted, "nodegroup/system", "", "Every node of the home is tainted (team=x:NoSchedule), and Karpenter, CoreDNS and castoff do not tolerate it. Name a group without taints in spec.home.nodeGroup.")}},
		"NoHome":     {"is another finding", []func(*Input){homeOf(), func(in *Input) { in.Home = "" }}, nil},
		"SpotEKS":    {"all of a type may go at once", []func(*Input){homeOf(fine, fine), func(in *Input) { in.Groups[1].Managed = &inventory.ManagedNodeGroup{CapacityType: "SPOT"} }}, spot},
		"SpotMixed":  {"half spot is spot", []func(*Input){homeOf(fine, fine), func(in *Input) { in.Groups[1].MixedInstances = &inventory.MixedInstances{OnDemandPercentage: 50} }}, spot},
		"SpotByLT":   {"a template that asks for it", []func(*Input){homeOf(fine, fine), func(in *Input) { in.Groups[1].LaunchTemplate.Spot = true }}, spot},
		"OnDemand": {"a mixed group of on-demand alone", []func(*Input){homeOf(fine, fine), func(in *Input) {
			in.Groups[1].MixedInstances = &inventory.MixedInstances{OnDemandPercentage: 100}
			in.Groups[1].Managed = &inventory.ManagedNodeGroup{CapacityType: "ON_DEMAND"}
		}}, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Run(sound(append(tc.change, pods(), budgets())...), nil)); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestHomeFull(t *testing.T) {
	full := func(nodes string) []inventory.Finding {
		return []inventory.Finding{warns(CheckHomeFull, "nodegroup/system", "", "Karpenter's two replicas ask for 1 CPU and 1Gi each, and "+nodes+" of the home has that much free. Add a node to the group, or larger ones; castoff itself asks for 100m and 96Mi.")}
	}
	cases := map[string]struct {
		reason string
		change []func(*Input)
		want   []inventory.Finding
	}{
		"Room":    {"three CPUs in use of four", []func(*Input){pods(asking("home-a", "3", "1Gi"), asking("home-b", "3", "1Gi"))}, nil},
		"CPU":     {"a tenth too much on one node", []func(*Input){pods(asking("home-a", "3", "1Gi"), asking("home-a", "100m", "1Gi"))}, full("1 node")},
		"Memory":  {"memory counts as well", []func(*Input){pods(asking("home-a", "1", "15.5Gi"), asking("home-b", "1", "15.5Gi"))}, full("0 nodes")},
		"Another": {"of three nodes two will do", []func(*Input){homeOf(fine, fine, fine), pods(asking("home-a", "4", "1Gi"))}, nil},
		"There":   {"Karpenter has its room already", []func(*Input){pods(asking("home-a", "4", "1Gi")), func(in *Input) { in.Engine.Replicas = 2 }}, nil},
		"Unknown": {"nodes that do not say what they have are not judged", []func(*Input){homeOf(func(n *inventory.Node) { n.Allocatable = nil }, fine), pods(asking("home-a", "4", "1Gi"))}, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, homeFull(sound(append([]func(*Input){homeOf(fine, fine)}, tc.change...)...))); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
		})
	}
}
