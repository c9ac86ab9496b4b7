package cost

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const mib = 1 << 20

// requested is a pod of so many millicores and MiB.
func requested(milliCPU, memoryMiB int64) Resources {
	return Resources{MilliCPU: milliCPU, Memory: memoryMiB * mib, Pods: 1}
}

func room(milliCPU, memoryMiB, pods int64) Resources {
	return Resources{MilliCPU: milliCPU, Memory: memoryMiB * mib, Pods: pods}
}

func repeat(n int, r Resources) []Resources {
	out := make([]Resources, n)
	for i := range out {
		out[i] = r
	}
	return out
}

// names counts the nodes by what they are.
func names(nodes []Offer) map[string]int {
	out := map[string]int{}
	for _, n := range nodes {
		name := n.Type
		if n.Spot {
			name += " spot"
		}
		out[name]++
	}
	return out
}

var (
	large   = Offer{Type: "m5.large", USD: 0.096, Room: room(1930, 7000, 29)}
	xlarge  = Offer{Type: "m5.xlarge", USD: 0.192, Room: room(3920, 14500, 58)}
	spotted = Offer{Type: "m5.large", Spot: true, USD: 0.03, Room: room(1930, 7000, 29)}
	costly  = Offer{Type: "z1d.large", USD: 0.186, Room: room(1930, 15000, 29)}
)

func TestPack(t *testing.T) {
	type want struct {
		Nodes    map[string]int
		Unplaced int
	}
	cases := map[string]struct {
		reason  string
		pods    []Resources
		perNode Resources
		offers  []Offer
		want    want
	}{
		"Nothing": {
			reason: "no pods need no nodes, whatever DaemonSets ask for", perNode: requested(500, 500), offers: []Offer{large},
			want: want{Nodes: map[string]int{}},
		},
		"NoOffers": {
			reason: "a pool that no type is known for holds nothing", pods: repeat(2, requested(100, 100)),
			want: want{Nodes: map[string]int{}, Unplaced: 2},
		},
		"Full": {
			reason: "three of 600m fit in 1930m, not four", pods: repeat(4, requested(600, 100)), offers: []Offer{large},
			want: want{Nodes: map[string]int{"m5.large": 2}},
		},
		"DaemonSets": {
			reason: "each node carries its DaemonSets besides: two of 600m are left", pods: repeat(4, requested(600, 100)), perNode: requested(400, 100), offers: []Offer{large},
			want: want{Nodes: map[string]int{"m5.large": 2}},
		},
		"DaemonSetsFillIt": {
			reason: "1200m of DaemonSets and 1000m of a pod fit on no node of 1930m: flagged, not promised",
			pods:   repeat(1, requested(1000, 100)), perNode: requested(1200, 100), offers: []Offer{large},
			want: want{Nodes: map[string]int{}, Unplaced: 1},
		},
		"LargerForThem": {
			reason: "the larger type holds what the smaller cannot", pods: repeat(1, requested(1000, 100)), perNode: requested(1200, 100), offers: []Offer{large, xlarge},
			want: want{Nodes: map[string]int{"m5.xlarge": 1}},
		},
		"CheapestThatHolds": {
			reason: "what a node becomes is decided in the end: the smallest for a single pod", pods: repeat(1, requested(100, 100)), offers: []Offer{xlarge, large},
			want: want{Nodes: map[string]int{"m5.large": 1}},
		},
		"SpotFirst": {
			reason: "Karpenter prefers spot where both are allowed: it is cheaper", pods: repeat(1, requested(100, 100)), offers: []Offer{large, spotted},
			want: want{Nodes: map[string]int{"m5.large spot": 1}},
		},
		"Memory": {
			reason: "memory can be the scarce one", pods: repeat(2, requested(100, 6000)), offers: []Offer{large},
			want: want{Nodes: map[string]int{"m5.large": 2}},
		},
		"Addresses": {
			reason: "so can the addresses of pods", pods: repeat(30, requested(10, 10)), offers: []Offer{large},
			want: want{Nodes: map[string]int{"m5.large": 2}},
		},
		"NotTheDearer": {
			reason: "more memory on a dearer type is not filled only because it is there", pods: repeat(2, requested(100, 6000)), offers: []Offer{large, {Type: "x", USD: 1, Room: room(1930, 15000, 29)}},
			want: want{Nodes: map[string]int{"m5.large": 2}},
		},
		"TheDearerWhereItPays": {
			reason: "one node of 0.186 instead of two of 0.096", pods: repeat(2, requested(100, 6000)), offers: []Offer{large, costly},
			want: want{Nodes: map[string]int{"z1d.large": 1}},
		},
		"LargestFirst": {
			reason: "decreasing: the small ones fill what the large ones leave", pods: []Resources{requested(300, 1), requested(300, 1), requested(1600, 1), requested(1600, 1)}, offers: []Offer{large},
			want: want{Nodes: map[string]int{"m5.large": 2}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			nodes, unplaced := Pack(tc.pods, tc.perNode, tc.offers)
			if diff := cmp.Diff(tc.want, want{names(nodes), len(unplaced)}); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

func TestPackLeavesItsArgumentsAlone(t *testing.T) {
	pods, offers := []Resources{requested(1, 1), requested(900, 900)}, []Offer{xlarge, large}
	Pack(pods, Resources{}, offers)
	if diff := cmp.Diff([]Resources{requested(1, 1), requested(900, 900)}, pods); diff != "" {
		t.Errorf("pods: -want +got\n%s", diff)
	}
	if diff := cmp.Diff([]Offer{xlarge, large}, offers); diff != "" {
		t.Errorf("offers: -want +got\n%s", diff)
	}
}

func TestUndominated(t *testing.T) {
	dear := large
	dear.Type, dear.USD = "m5d.large", 0.113
	got := undominated([]Offer{large, dear, large, xlarge})
	if diff := cmp.Diff([]Offer{large, xlarge}, got); diff != "" {
		t.Errorf("of equals the first stays, and who gives no more for more goes: -want +got\n%s", diff)
	}
}

// cheapest is a bound that no packing can go below: each resource alone, on the type that gives it for least.
func cheapest(pods []Resources, offers []Offer) float64 {
	need := sum(pods)
	cpu, memory, count := math.Inf(1), math.Inf(1), math.Inf(1)
	for _, o := range offers {
		cpu = min(cpu, o.USD/float64(o.Room.MilliCPU))
		memory = min(memory, o.USD/float64(o.Room.Memory))
		count = min(count, o.USD/float64(o.Room.Pods))
	}
	return max(float64(need.MilliCPU)*cpu, float64(need.Memory)*memory, float64(need.Pods)*count)
}

func randomPods(r *rand.Rand) []Resources {
	pods := make([]Resources, 1+r.IntN(60))
	for i := range pods {
		pods[i] = requested(r.Int64N(3000), r.Int64N(9000))
	}
	return pods
}

func randomOffers(r *rand.Rand) []Offer {
	offers := make([]Offer, 1+r.IntN(8))
	for i := range offers {
		offers[i] = Offer{
			Type: fmt.Sprintf("t%d.large", i), Spot: r.IntN(2) == 0, USD: 0.01 + r.Float64(),
			Room: room(500+r.Int64N(8000), 500+r.Int64N(32000), 4+r.Int64N(60)),
		}
	}
	return offers
}

// The cost after is never below the cheapest possible per resource, everything has a place or is named, and no node carries more
// than it has room for.
func TestPackOfRandomPools(t *testing.T) {
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 4))
		pods, offers := randomPods(r), randomOffers(r)
		perNode := Resources{MilliCPU: r.Int64N(300), Memory: r.Int64N(500) * mib, Pods: r.Int64N(3)}
		nodes, unplaced := Pack(pods, perNode, offers)
		placed := sum(pods)
		for _, u := range unplaced {
			placed = Resources{MilliCPU: placed.MilliCPU - u.MilliCPU, Memory: placed.Memory - u.Memory, Pods: placed.Pods - u.Pods}
			for _, o := range offers {
				if u.Plus(perNode).within(o.Room) {
					t.Fatalf("seed %d: %+v fits on %+v and was given up", seed, u, o)
				}
			}
		}
		if bound := cheapest([]Resources{placed}, offers); total(nodes) < bound-1e-9 {
			t.Fatalf("seed %d: %f an hour is less than %f, which nothing can be", seed, total(nodes), bound)
		}
		var rooms Resources
		load := placed
		for _, n := range nodes {
			rooms, load = rooms.Plus(n.Room), load.Plus(perNode)
		}
		if !load.within(rooms) {
			t.Fatalf("seed %d: %+v in %+v", seed, load, rooms)
		}
		if len(nodes) > len(pods) {
			t.Fatalf("seed %d: %d nodes for %d pods", seed, len(nodes), len(pods))
		}
	}
}

func BenchmarkPack(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 4))
	var pods []Resources
	for range 10_000 {
		pods = append(pods, requested(r.Int64N(1000), r.Int64N(2000)))
	}
	var offers []Offer
	for i := range int64(300) {
		offers = append(offers, Offer{Type: fmt.Sprint(i), USD: 0.01 + r.Float64(), Room: room(1000+r.Int64N(30000), 1000+r.Int64N(120000), 110)})
	}
	for b.Loop() {
		Pack(pods, requested(200, 200), offers)
	}
}
