package cost

import (
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

var prices = Prices{
	"m5.large":  {Name: "m5.large", VCPUs: 2, MemoryMiB: 8192, MaxPods: 29, OnDemand: 0.096, Spot: map[string]float64{"a": 0.02, "b": 0.04, "c": 0.9}},
	"m5.xlarge": {Name: "m5.xlarge", VCPUs: 4, MemoryMiB: 16384, MaxPods: 58, OnDemand: 0.192},
}

func target(capacity []string, types ...string) inventory.Target {
	in := func(key string, values ...string) karpv1.NodeSelectorRequirementWithMinValues {
		return karpv1.NodeSelectorRequirementWithMinValues{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}
	}
	t := inventory.Target{Pool: "general"}
	t.NodePool.Spec.Template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{
		in(corev1.LabelInstanceTypeStable, types...), in(karpv1.CapacityTypeLabelKey, capacity...),
	}
	return t
}

func withRequirement(t inventory.Target, key string, values ...string) inventory.Target {
	r := &t.NodePool.Spec.Template.Spec.Requirements
	*r = append(*r, karpv1.NodeSelectorRequirementWithMinValues{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values})
	return t
}

var onDemand, spot, both = []string{"on-demand"}, []string{"spot"}, []string{"spot", "on-demand"}

func instances(kind string, ids ...string) []inventory.Instance {
	var out []inventory.Instance
	for _, id := range ids {
		out = append(out, inventory.Instance{ID: id, Type: kind, Lifecycle: "InService"})
	}
	return out
}

func nodeOf(id, group string, labels map[string]string) inventory.Node {
	return inventory.Node{Name: "node-" + id, InstanceID: id, Group: group, Labels: labels}
}

func TestPoolOf(t *testing.T) {
	eksSpot := map[string]string{"eks.amazonaws.com/capacityType": "SPOT"}
	measured := nodeOf("i-1", "g", map[string]string{corev1.LabelInstanceTypeStable: "m5.large"})
	measured.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1930m"), corev1.ResourceMemory: resource.MustParse("7000Mi"), corev1.ResourcePods: resource.MustParse("29")}
	smaller := measured
	smaller.Name, smaller.InstanceID = "node-i-2", "i-2"
	smaller.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1900m"), corev1.ResourceMemory: resource.MustParse("7100Mi"), corev1.ResourcePods: resource.MustParse("29")}
	computed := room(1930, 8192*925/1000-(255+11*29+100), 29)
	computed.Memory = 8192*mib*925/1000 - (255+11*29+100)*mib
	group := func(change ...func(*inventory.NodeGroup)) []inventory.NodeGroup {
		g := inventory.NodeGroup{Name: "g", Zones: []string{"a", "b"}, Instances: instances("m5.large", "i-1", "i-2")}
		for _, c := range change {
			c(&g)
		}
		return []inventory.NodeGroup{g}
	}
	cases := map[string]struct {
		reason string
		groups []inventory.NodeGroup
		nodes  []inventory.Node
		pods   []Pod
		target inventory.Target
		want   Pool
	}{
		"OnDemand": {
			reason: "the plain group; what is allocatable is computed where nobody has seen it",
			groups: group(), target: target(onDemand, "m5.large"),
			want: Pool{Nodes: offers(2, Offer{Type: "m5.large", USD: 0.096}), Offers: []Offer{{Type: "m5.large", USD: 0.096, Room: computed}}},
		},
		"SpotIsTheMeanOfThePoolsZones": {
			reason: "zone c is not the pool's", groups: group(func(g *inventory.NodeGroup) { g.LaunchTemplate.Spot = true }), target: target(spot, "m5.large"),
			want: Pool{Nodes: offers(2, Offer{Type: "m5.large", Spot: true, USD: 0.03}), Offers: []Offer{{Type: "m5.large", Spot: true, USD: 0.03, Room: computed}}},
		},
		"Both": {
			reason: "both prices are offers", groups: nil, target: target(both, "m5.large"),
			want: Pool{Offers: []Offer{{Type: "m5.large", USD: 0.096, Room: computed}}}, // no zones: no spot price
		},
		"Observed": {
			reason: "the least that kubelets of the type report counts", groups: group(), nodes: []inventory.Node{measured, smaller}, target: target(onDemand, "m5.large"),
			want: Pool{Nodes: offers(2, Offer{Type: "m5.large", USD: 0.096}), Offers: []Offer{{Type: "m5.large", USD: 0.096, Room: room(1900, 7000, 29)}}},
		},
		"Labels": {
			reason: "the node's label tells, whatever the policy says", nodes: []inventory.Node{nodeOf("i-2", "g", eksSpot)}, target: target(onDemand),
			groups: group(func(g *inventory.NodeGroup) {
				g.MixedInstances = &inventory.MixedInstances{OnDemandPercentage: 50}
			}),
			want: Pool{Nodes: []Offer{{Type: "m5.large", USD: 0.096}, {Type: "m5.large", Spot: true, USD: 0.03}}, Guessed: true},
		},
		"WarmAndEnding": {
			reason: "a stopped instance of a warm pool costs no instance hours, and one that ends is no more",
			groups: group(func(g *inventory.NodeGroup) {
				g.Instances[0].Lifecycle, g.Instances[1].Lifecycle = "Warmed:Stopped", "Terminating:Wait"
			}), target: target(onDemand),
		},
		"TypeNotSaid": {
			reason: "an instance whose type AWS leaves out has that of its node, else that of its template",
			groups: group(func(g *inventory.NodeGroup) {
				g.Instances = instances("", "i-1", "i-2")
				g.LaunchTemplate.InstanceType = "m5.large"
			}),
			nodes: []inventory.Node{nodeOf("i-2", "g", map[string]string{corev1.LabelInstanceTypeStable: "m5.xlarge"})},
			want:  Pool{Nodes: []Offer{{Type: "m5.large", USD: 0.096}, {Type: "m5.xlarge", USD: 0.192}}},
		},
		"TypeUnknown": {
			reason: "nobody knows: that is said", groups: group(func(g *inventory.NodeGroup) { g.Instances = instances("", "i-1") }),
			want: Pool{Nodes: []Offer{{Type: "unknown"}}, Unpriced: []string{"unknown"}},
		},
		"NoPrice": {
			reason: "what has no price is named, today's and the NodePool's",
			groups: group(func(g *inventory.NodeGroup) { g.Instances = instances("u-9.metal", "i-1") }), target: target(spot, "m5.xlarge", "none.large"),
			want: Pool{Nodes: []Offer{{Type: "u-9.metal"}}, Unpriced: []string{"m5.xlarge", "none.large", "u-9.metal"}, Partial: true},
		},
		"Windows": {
			reason: "the prices are those of Linux: a Windows node has none, and no wrong one",
			groups: group(), target: withRequirement(target(onDemand, "m5.large"), corev1.LabelOSStable, "windows"),
			want: Pool{Nodes: offers(2, Offer{Type: "m5.large"}), Unpriced: []string{"m5.large"}, Partial: true},
		},
		"Dedicated": {
			reason: "nor has dedicated tenancy",
			groups: group(), target: withRequirement(target(onDemand, "m5.large"), awsv1.LabelInstanceTenancy, "dedicated"),
			want: Pool{Nodes: offers(2, Offer{Type: "m5.large"}), Unpriced: []string{"m5.large"}, Partial: true},
		},
		"Pods": {
			reason: "pods of other groups do not count, and a DaemonSet counts once",
			groups: group(), nodes: []inventory.Node{nodeOf("i-1", "g", nil), nodeOf("i-2", "g", nil), nodeOf("i-3", "other", nil)}, target: target(nil),
			pods: []Pod{
				{Node: "node-i-1", Requests: requested(100, 10)}, {Node: "node-i-3", Requests: requested(900, 90)}, {Requests: requested(1, 1)},
				{Node: "node-i-1", DaemonSet: "kube-system/cni", Requests: requested(25, 5)}, {Node: "node-i-2", DaemonSet: "kube-system/cni", Requests: requested(25, 5)},
				{Node: "node-i-2", DaemonSet: "kube-system/proxy", Requests: requested(5, 1)},
			},
			want: Pool{
				Nodes: offers(2, Offer{Type: "m5.large", USD: 0.096}), Pods: []Resources{requested(100, 10)},
				PerNode: Resources{MilliCPU: 30, Memory: 6 * mib, Pods: 2},
			},
		},
		"NotTranslated": {
			reason: "without a target there is nothing to launch", groups: group(),
			want: Pool{Nodes: offers(2, Offer{Type: "m5.large", USD: 0.096})},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.want.Name = "general"
			got := PoolOf("general", tc.groups, tc.nodes, tc.pods, tc.target, prices)
			if diff := cmp.Diff(tc.want, got, approximately, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

func TestOnDemandOf(t *testing.T) {
	mixed := func(base, percentage int32) inventory.NodeGroup {
		return inventory.NodeGroup{MixedInstances: &inventory.MixedInstances{OnDemandBase: base, OnDemandPercentage: percentage}}
	}
	managed := func(capacity string) inventory.NodeGroup {
		return inventory.NodeGroup{Managed: &inventory.ManagedNodeGroup{CapacityType: capacity}, MixedInstances: &inventory.MixedInstances{}}
	}
	cases := map[string]struct {
		reason  string
		group   inventory.NodeGroup
		n, want int
	}{
		"Plain":        {"a group without a policy is on demand", inventory.NodeGroup{}, 3, 3},
		"TemplateSpot": {"the template asks for spot", inventory.NodeGroup{LaunchTemplate: inventory.LaunchTemplate{Spot: true}}, 3, 0},
		"AllSpot":      {"0 of everything", mixed(0, 0), 5, 0},
		"All":          {"AWS's own default", mixed(0, 100), 5, 5},
		"Base":         {"the base, and nothing above it", mixed(2, 0), 5, 2},
		"BaseIsMore":   {"a base that is not reached", mixed(9, 0), 5, 5},
		"Share":        {"AWS rounds on-demand up", mixed(0, 25), 5, 2},
		"BaseAndShare": {"half of the three above the base, rounded up", mixed(2, 50), 5, 4},
		"ManagedSpot":  {"EKS's word counts", managed("SPOT"), 5, 0},
		"Managed":      {"EKS's word counts", managed("ON_DEMAND"), 5, 5},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := onDemandOf(tc.group, tc.n); got != tc.want {
				t.Errorf("%s: want %d, got %d", tc.reason, tc.want, got)
			}
		})
	}
}

func TestSpotByLabel(t *testing.T) {
	cases := map[string]struct {
		labels      map[string]string
		spot, known bool
	}{
		"None":      {nil, false, false},
		"EKS":       {map[string]string{"eks.amazonaws.com/capacityType": "ON_DEMAND"}, false, true},
		"Karpenter": {map[string]string{"karpenter.sh/capacity-type": "spot"}, true, true},
		"Custom":    {map[string]string{"node.kubernetes.io/lifecycle": "normal"}, false, true},
		"Old":       {map[string]string{"lifecycle": "Ec2Spot"}, true, true},
		"Other":     {map[string]string{"lifecycle": "production"}, false, false},
	}
	for name, tc := range cases {
		spot, known := spotByLabel(tc.labels)
		if spot != tc.spot || known != tc.known {
			t.Errorf("%s: got %v, %v", name, spot, known)
		}
	}
}

func TestRoomOf(t *testing.T) {
	cases := map[string]struct {
		reason  string
		of      inventory.InstanceType
		maxPods int64
		want    Resources
	}{
		"Large":   {"60m and 10m of two cores", prices["m5.large"], 0, Resources{MilliCPU: 1930, Memory: 8192*mib*925/1000 - 674*mib, Pods: 29}},
		"Sixteen": {"60, 10, 5, 5 and 12 times 2.5", inventory.InstanceType{VCPUs: 16, MemoryMiB: 65536, MaxPods: 234}, 0, Resources{MilliCPU: 15890, Memory: 65536*mib*925/1000 - 2929*mib, Pods: 234}},
		"MaxPods": {"the NodeClass's own maxPods counts, in the reserve too", prices["m5.large"], 10, Resources{MilliCPU: 1930, Memory: 8192*mib*925/1000 - 465*mib, Pods: 10}},
		"Unknown": {"nothing is known of the type: nothing fits", inventory.InstanceType{}, 0, Resources{Pods: 110}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, resourcesOf(tc.of.Room(tc.maxPods))); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

func TestTypes(t *testing.T) {
	groups := []inventory.NodeGroup{{Instances: append(instances("m5.large", "i-1"), instances("", "i-2")...)}, {Instances: instances("c5.large", "i-3")}}
	groups[1].LaunchTemplate.InstanceType = "c4.large"
	if diff := cmp.Diff([]string{"c4.large", "c5.large", "m5.large", "m5.xlarge"}, Types(groups, target(both, "m5.xlarge", "m5.large"))); diff != "" {
		t.Errorf("each once, and none without a name: -want +got\n%s", diff)
	}
	maximum := int32(17)
	withKubelet := inventory.Target{}
	withKubelet.NodeClass.Spec.Kubelet = &awsv1.KubeletConfiguration{MaxPods: &maximum}
	if got := maxPods(withKubelet); got != 17 {
		t.Errorf("maxPods %d", got)
	}
	r := Requested(corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m"), corev1.ResourceMemory: resource.MustParse("1Gi")})
	if diff := cmp.Diff(requested(250, 1024), r); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

var today = time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
