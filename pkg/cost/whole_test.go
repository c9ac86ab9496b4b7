package cost

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// list is a price list on which newer types cost less, and a network type more.
var list = Prices{
	"m5.large":  {Name: "m5.large", VCPUs: 2, MemoryMiB: 8192, MaxPods: 29, OnDemand: 0.096, Spot: map[string]float64{"a": 0.04}},
	"m6a.large": {Name: "m6a.large", VCPUs: 2, MemoryMiB: 8192, MaxPods: 29, OnDemand: 0.0864, Spot: map[string]float64{"a": 0.03}},
	"m5n.large": {Name: "m5n.large", VCPUs: 2, MemoryMiB: 8192, MaxPods: 29, OnDemand: 0.119},
	"m5.xlarge": {Name: "m5.xlarge", VCPUs: 4, MemoryMiB: 16384, MaxPods: 58, OnDemand: 0.192},
}

// running is a pool of n nodes of m5.large in zone a, each with these pods.
func running(n int, pods ...Pod) (inventory.NodeGroup, []inventory.Node, []Pod) {
	g := inventory.NodeGroup{Name: "g", Zones: []string{"a"}}
	var nodes []inventory.Node
	var all []Pod
	for i := range n {
		id := string(rune('a' + i))
		g.Instances = append(g.Instances, instances("m5.large", id)...)
		nodes = append(nodes, nodeOf(id, "g", map[string]string{corev1.LabelInstanceTypeStable: "m5.large"}))
		for _, p := range pods {
			p.Node = "node-" + id
			all = append(all, p)
		}
	}
	return g, nodes, all
}

// What people ask of the estimate, from the cluster to the advice.
func TestFromTheClusterToTheAdvice(t *testing.T) {
	small, half := Pod{Requests: requested(300, 1024)}, Pod{Requests: requested(900, 2048)}
	daemon := Pod{Requests: requested(200, 512), DaemonSet: "kube-system/agent"}
	crowd := make([]Pod, 40)
	for i := range crowd {
		crowd[i] = Pod{Requests: requested(10, 10)}
	}
	maxPods := func(n int32) func(*inventory.Target) {
		return func(t *inventory.Target) { t.NodeClass.Spec.Kubelet = &awsv1.KubeletConfiguration{MaxPods: ptr.To(n)} }
	}
	asIs := func(*inventory.Target) {}
	cases := map[string]struct {
		reason string
		nodes  int
		pods   []Pod
		target inventory.Target
		change func(*inventory.Target)
		after  int // nodes
		usd    float64
		advice Advice
	}{
		"HalfEmpty":         {"twelve nodes with little on them become three", 12, []Pod{small}, target(onDemand, "m5.large"), asIs, 2, 0.192, Migrate},
		"Full":              {"twelve full nodes stay twelve, and twelve are enough to scale", 12, []Pod{half, half}, target(onDemand, "m5.large"), asIs, 12, 1.152, Migrate},
		"FewAndFull":        {"three full nodes that are old: nothing to win", 3, []Pod{half, half}, target(onDemand, "m5.large"), asIs, 3, 0.288, Stay},
		"Widened":           {"a family that the user named costs a tenth less", 3, []Pod{half, half}, target(onDemand, "m5.large", "m6a.large"), asIs, 3, 0.2592, Migrate},
		"WidenedDearer":     {"one that costs more is not chosen", 3, []Pod{half, half}, target(onDemand, "m5.large", "m5n.large"), asIs, 3, 0.288, Stay},
		"WidenedUnpriced":   {"one without a price: the bills are not compared, and nobody stays for that", 3, []Pod{half, half}, target(onDemand, "m5.large", "x9.large"), asIs, 3, 0.288, Migrate},
		"Daemons":           {"each new node carries the DaemonSets again", 4, []Pod{half, daemon}, target(onDemand, "m5.large"), asIs, 4, 0.384, Stay},
		"DaemonsOnLarger":   {"larger nodes carry them once", 4, []Pod{half, daemon}, target(onDemand, "m5.xlarge"), asIs, 1, 0.192, Migrate},
		"TooLarge":          {"a pod as large as its old node finds no room beside the DaemonSet", 3, []Pod{{Requests: requested(1900, 1024)}, daemon}, target(onDemand, "m5.large"), asIs, 0, 0, MigrateLater},
		"AddressesRunOut":   {"forty tiny pods need two nodes for their addresses", 1, crowd, target(onDemand, "m5.large"), asIs, 2, 0.192, Stay},
		"AddressesCarried":  {"unless the group's own number was carried over", 1, crowd, target(onDemand, "m5.large"), maxPods(110), 1, 0.096, Stay},
		"SpotForOnDemand":   {"both are allowed: the cheaper is counted", 3, []Pod{half, half}, target(both, "m5.large"), asIs, 3, 0.12, Migrate},
		"Dedicated":         {"the list has no price of dedicated instances", 3, []Pod{half, half}, withRequirement(target(onDemand, "m5.large"), awsv1.LabelInstanceTenancy, "dedicated"), asIs, 0, 0, Migrate},
		"NothingRequested":  {"pods without requests take addresses only", 3, []Pod{{Requests: Resources{Pods: 1}}}, target(onDemand, "m5.large"), asIs, 1, 0.096, Migrate},
		"NoPods":            {"a pool of nothing but DaemonSets goes", 3, []Pod{daemon}, target(onDemand, "m5.large"), asIs, 0, 0, Migrate},
		"ReservedAndNoList": {"capacity that is paid for already has no price of its own", 3, []Pod{half, half}, target([]string{"reserved"}, "m5.large"), asIs, 0, 0, Migrate},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			g, nodes, pods := running(tc.nodes, tc.pods...)
			tc.change(&tc.target)
			e := Of(PoolOf("general", []inventory.NodeGroup{g}, nodes, pods, tc.target, list))
			if e.After.Nodes() != tc.after {
				t.Errorf("%s: %d nodes after, want %d: %+v", tc.reason, e.After.Nodes(), tc.after, e)
			}
			if diff := cmp.Diff(tc.usd, e.After.USD(), approximately); diff != "" {
				t.Errorf("%s: dollars an hour after: -want +got\n%s", tc.reason, diff)
			}
			for i := range nodes {
				nodes[i].Created = today.Add(-30 * 24 * time.Hour)
			}
			v := Judge(Situation{Now: today, Pools: []inventory.Pool{{Name: "general"}}, Nodes: nodes, Targets: map[string]inventory.Target{"general": tc.target}, Total: &e})
			if v.Advice != tc.advice || len(v.Reasons) == 0 {
				t.Errorf("%s: advice %s %q, want %s", tc.reason, v.Advice, v.Reasons, tc.advice)
			}
		})
	}
}
