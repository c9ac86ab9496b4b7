package cost

import (
	"cmp"
	"slices"
)

// Resources are what pods request and what nodes have room for.
type Resources struct {
	MilliCPU int64 `json:"milliCPU"`
	Memory   int64 `json:"memoryBytes"`
	Pods     int64 `json:"pods"`
}

// Plus is the sum of both.
func (r Resources) Plus(o Resources) Resources {
	return Resources{MilliCPU: r.MilliCPU + o.MilliCPU, Memory: r.Memory + o.Memory, Pods: r.Pods + o.Pods}
}

// VCPUs are the processors.
func (r Resources) VCPUs() float64 { return float64(r.MilliCPU) / 1000 }

// GiB is the memory.
func (r Resources) GiB() float64 { return float64(r.Memory) / (1 << 30) }

// within says whether there is room for all of it.
func (r Resources) within(room Resources) bool {
	return r.MilliCPU <= room.MilliCPU && r.Memory <= room.Memory && r.Pods <= room.Pods
}

// share is how much of the room it takes, by the resource that is scarcest.
func (r Resources) share(room Resources) float64 {
	return max(float64(r.MilliCPU)/float64(max(room.MilliCPU, 1)), float64(r.Memory)/float64(max(room.Memory, 1)))
}

// Offer is a kind of node that may be launched: an instance type at one of its prices.
type Offer struct {
	Type string `json:"type"`
	Spot bool   `json:"spot,omitempty"`
	// USD an hour.
	USD float64 `json:"usdPerHour"`
	// Room is what is allocatable on the node.
	Room Resources `json:"room"`
}

// node is one that would be launched. Which of the offers it becomes is open until everything is packed, as with Karpenter.
type node struct {
	used   Resources
	offers []Offer
}

// add puts the pod on the node if one of its offers has room for it still.
func (n *node) add(pod Resources) bool {
	used := n.used.Plus(pod)
	fits := func(o Offer) bool { return used.within(o.Room) }
	if !slices.ContainsFunc(n.offers, fits) {
		return false
	}
	n.used, n.offers = used, slices.DeleteFunc(n.offers, func(o Offer) bool { return !fits(o) })
	return true
}

// Pack puts pods on nodes, first-fit decreasing: the largest pod first, each on the first node that can hold it, else on a new
// one; every node carries perNode besides. In the end a node is the cheapest offer that holds what is on it. That is Karpenter's
// way, without zones, affinity, spread and volumes. Because packing onto several types fills the largest first, which need not be
// the best value, each type is tried alone as well and the cheapest outcome taken: consolidation would get there.
// What no offer can hold is returned as unplaced.
func Pack(pods []Resources, perNode Resources, offers []Offer) (nodes []Offer, unplaced []Resources) {
	offers = undominated(offers)
	if len(offers) == 0 {
		return nil, pods
	}
	largest := largestRoom(offers)
	pods = slices.SortedStableFunc(slices.Values(pods), func(a, b Resources) int { return cmp.Compare(b.share(largest), a.share(largest)) })
	nodes, unplaced = firstFit(pods, perNode, offers)
	for i := range offers {
		alone, left := firstFit(pods, perNode, offers[i:i+1])
		if len(left) == len(unplaced) && total(alone) < total(nodes) {
			nodes = alone
		}
	}
	return nodes, unplaced
}

func firstFit(pods []Resources, perNode Resources, offers []Offer) (chosen []Offer, unplaced []Resources) {
	var nodes []*node
	for _, p := range pods {
		if slices.ContainsFunc(nodes, func(n *node) bool { return n.add(p) }) {
			continue
		}
		n := &node{used: perNode, offers: slices.Clone(offers)}
		if n.add(p) {
			nodes = append(nodes, n)
		} else {
			unplaced = append(unplaced, p)
		}
	}
	for _, n := range nodes {
		chosen = append(chosen, slices.MinFunc(n.offers, func(a, b Offer) int { return cmp.Compare(a.USD, b.USD) }))
	}
	return chosen, unplaced
}

// undominated leaves out the offers than which another has no less room and costs no more: nobody would launch them, and with
// hundreds of types they are most.
func undominated(offers []Offer) []Offer {
	var out []Offer
	for i, o := range offers {
		better := func(j int) bool {
			b := offers[j]
			return o.Room.within(b.Room) && b.USD <= o.USD && (b.Room != o.Room || b.USD != o.USD || j < i)
		}
		dominated := false
		for j := range offers {
			dominated = dominated || (j != i && better(j))
		}
		if !dominated {
			out = append(out, o)
		}
	}
	return out
}

func largestRoom(offers []Offer) Resources {
	var out Resources
	for _, o := range offers {
		out = Resources{MilliCPU: max(out.MilliCPU, o.Room.MilliCPU), Memory: max(out.Memory, o.Room.Memory), Pods: max(out.Pods, o.Room.Pods)}
	}
	return out
}

func total(nodes []Offer) float64 {
	sum := 0.0
	for _, n := range nodes {
		sum += n.USD
	}
	return sum
}
