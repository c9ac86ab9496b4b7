package cost

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// Pod is a running pod and what it requests.
type Pod struct {
	Node     string
	Requests Resources
	// DaemonSet is the namespace and name of what puts one such pod on every node, a DaemonSet or the image's static pods; empty
	// for the pods that move.
	DaemonSet string
}

// Prices are instance types by name, with their prices in the cluster's region.
type Prices map[string]inventory.InstanceType

// Types are the instance types that a pool has or may have, sorted: today's and those of its NodePool.
func Types(groups []inventory.NodeGroup, t inventory.Target) []string {
	types := slices.Clone(targetValues(t, corev1.LabelInstanceTypeStable))
	for _, g := range groups {
		types = append(types, g.LaunchTemplate.InstanceType)
		for _, i := range paidFor(g) {
			types = append(types, i.Type)
		}
	}
	types = slices.DeleteFunc(types, func(s string) bool { return s == "" })
	slices.Sort(types)
	return slices.Compact(types)
}

// PoolOf gathers what an estimate of a pool needs. groups are those of the pool, nodes and pods may be the whole cluster's.
func PoolOf(name string, groups []inventory.NodeGroup, nodes []inventory.Node, pods []Pod, t inventory.Target, prices Prices) Pool {
	p := Pool{Name: name}
	if !priced(t) {
		prices = nil
	}
	unpriced := map[string]bool{}
	mine := map[string]bool{}
	rooms := map[string]Resources{}
	zones := zonesOf(groups)
	for _, g := range groups {
		here := slices.DeleteFunc(slices.Clone(nodes), func(n inventory.Node) bool { return n.Group != g.Name })
		for _, n := range here {
			mine[n.Name] = true
			observe(rooms, n)
		}
		today, guessed := offersOf(g, here, zones, prices)
		p.Nodes, p.Guessed = append(p.Nodes, today...), p.Guessed || guessed
	}
	for _, n := range p.Nodes {
		unpriced[n.Type] = unpriced[n.Type] || n.USD == 0
	}
	p.Pods, p.PerNode = requests(pods, mine)
	p.Offers, p.Partial = offersFor(t, zones, prices, rooms, unpriced)
	maps.DeleteFunc(unpriced, func(_ string, is bool) bool { return !is })
	p.Unpriced = slices.Sorted(maps.Keys(unpriced))
	return p
}

// paidFor are the instances that cost something: those of a warm pool are stopped, and those that end are no more.
func paidFor(g inventory.NodeGroup) []inventory.Instance {
	return slices.DeleteFunc(slices.Clone(g.Instances), func(i inventory.Instance) bool {
		return strings.HasPrefix(i.Lifecycle, "Warmed:") || strings.HasPrefix(i.Lifecycle, "Terminat")
	})
}

func zonesOf(groups []inventory.NodeGroup) []string {
	var zones []string
	for _, g := range groups {
		zones = append(zones, g.Zones...)
	}
	slices.Sort(zones)
	return slices.Compact(zones)
}

// observe keeps the least room that was seen on nodes of a type: what is allocatable is known better by a kubelet than by a formula.
func observe(rooms map[string]Resources, n inventory.Node) {
	kind, room := n.Labels[corev1.LabelInstanceTypeStable], resourcesOf(n.Allocatable)
	if kind == "" || room.MilliCPU == 0 || room.Memory == 0 || room.Pods == 0 {
		return
	}
	if have, ok := rooms[kind]; ok {
		room = Resources{MilliCPU: min(have.MilliCPU, room.MilliCPU), Memory: min(have.Memory, room.Memory), Pods: min(have.Pods, room.Pods)}
	}
	rooms[kind] = room
}

func resourcesOf(l corev1.ResourceList) Resources {
	return Resources{MilliCPU: l.Cpu().MilliValue(), Memory: l.Memory().Value(), Pods: l.Pods().Value()}
}

// Requested are a pod's requests as the scheduler counts them, the pod itself among them.
func Requested(l corev1.ResourceList) Resources {
	r := resourcesOf(l)
	r.Pods = 1
	return r
}

// offersOf are the group's instances at today's prices. Which of a mixed group are spot is known by the labels that EKS or the
// bootstrap gave their nodes, else by the share that the policy asks for, on-demand first.
func offersOf(g inventory.NodeGroup, nodes []inventory.Node, zones []string, prices Prices) (out []Offer, guessed bool) {
	labels := map[string]map[string]string{}
	for _, n := range nodes {
		labels[n.InstanceID] = n.Labels
	}
	instances := paidFor(g)
	onDemand := onDemandOf(g, len(instances))
	for i, instance := range instances {
		spot, known := spotByLabel(labels[instance.ID])
		if !known {
			spot = i >= onDemand
			guessed = guessed || (onDemand > 0 && onDemand < len(instances))
		}
		kind := cmp.Or(instance.Type, labels[instance.ID][corev1.LabelInstanceTypeStable], g.LaunchTemplate.InstanceType, "unknown")
		price, _ := priceOf(prices[kind], spot, zones)
		out = append(out, Offer{Type: kind, Spot: spot, USD: price})
	}
	return out, guessed
}

// spotByLabel reads the labels that tell of an instance's purchase option: EKS's own, Karpenter's, and the convention of groups
// that are not managed.
func spotByLabel(labels map[string]string) (spot, known bool) {
	for _, key := range []string{"eks.amazonaws.com/capacityType", karpv1.CapacityTypeLabelKey, "node.kubernetes.io/lifecycle", "lifecycle"} {
		switch strings.ToLower(labels[key]) {
		case "spot", "ec2spot":
			return true, true
		case "on_demand", "on-demand", "ondemand", "normal":
			return false, true
		}
	}
	return false, false
}

// onDemandOf is how many of n instances the group launches on demand.
func onDemandOf(g inventory.NodeGroup, n int) int {
	switch m := g.MixedInstances; {
	case g.Managed != nil && g.Managed.CapacityType == "SPOT":
		return 0
	case g.Managed != nil && g.Managed.CapacityType != "":
		return n
	case m != nil:
		base := min(int(m.OnDemandBase), n)
		return base + int(math.Ceil(float64(n-base)*float64(m.OnDemandPercentage)/100))
	case g.LaunchTemplate.Spot:
		return 0
	}
	return n
}

// offersFor are what the NodePool may launch; a type without any price is added to unpriced, and makes them partial.
func offersFor(t inventory.Target, zones []string, prices Prices, rooms map[string]Resources, unpriced map[string]bool) (out []Offer, partial bool) {
	capacity := targetValues(t, karpv1.CapacityTypeLabelKey)
	for _, name := range targetValues(t, corev1.LabelInstanceTypeStable) {
		kind := prices[name]
		room, ok := rooms[name]
		if !ok {
			room = resourcesOf(kind.Room(maxPods(t)))
		}
		found := false
		for _, c := range capacity {
			spot := c == karpv1.CapacityTypeSpot
			if usd, ok := priceOf(kind, spot, zones); ok && (spot || c == karpv1.CapacityTypeOnDemand) {
				out, found = append(out, Offer{Type: name, Spot: spot, USD: usd, Room: room}), true
			}
		}
		unpriced[name], partial = unpriced[name] || !found, partial || !found
	}
	return out, partial
}

// priced says whether the prices hold for the pool's nodes: they are those of Linux on shared tenancy.
func priced(t inventory.Target) bool {
	return !slices.Contains(targetValues(t, corev1.LabelOSStable), string(corev1.Windows)) &&
		!slices.Contains(targetValues(t, awsv1.LabelInstanceTenancy), "dedicated")
}

func maxPods(t inventory.Target) int64 {
	if k := t.NodeClass.Spec.Kubelet; k != nil && k.MaxPods != nil {
		return int64(*k.MaxPods)
	}
	return 0
}

// targetValues are those that the NodePool's requirement names.
func targetValues(t inventory.Target, key string) []string {
	for _, r := range t.NodePool.Spec.Template.Spec.Requirements {
		if r.Key == key && r.Operator == corev1.NodeSelectorOpIn {
			return r.Values
		}
	}
	return nil
}

// priceOf is a type's price an hour: for spot the mean of the pool's zones, so that today and after are held against one price.
func priceOf(t inventory.InstanceType, spot bool, zones []string) (float64, bool) {
	if !spot {
		return t.OnDemand, t.OnDemand > 0
	}
	sum, n := 0.0, 0
	for _, zone := range zones {
		if usd, ok := t.Spot[zone]; ok {
			sum, n = sum+usd, n+1
		}
	}
	if n == 0 {
		return 0, false
	}
	return sum / float64(n), true
}

// requests are those of the pods on the nodes: of each pod that moves, and of all DaemonSets seen there, once.
func requests(pods []Pod, nodes map[string]bool) (moving []Resources, perNode Resources) {
	daemons := map[string]Resources{}
	for _, p := range pods {
		switch {
		case !nodes[p.Node]:
		case p.DaemonSet != "":
			daemons[p.DaemonSet] = p.Requests
		default:
			moving = append(moving, p.Requests)
		}
	}
	for _, r := range daemons {
		perNode = perNode.Plus(r)
	}
	return moving, perNode
}
