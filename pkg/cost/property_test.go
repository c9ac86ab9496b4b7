package cost

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// randomCluster has groups of all kinds, with and without what AWS, the kubelet or the price list may leave out.
type randomCluster struct {
	groups []inventory.NodeGroup
	nodes  []inventory.Node
	pods   []Pod
	target inventory.Target
	prices Prices
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

func random(r *rand.Rand) randomCluster {
	c := randomCluster{prices: Prices{}}
	kinds := []string{"", "a.large", "b.large", "c.large", "none.large"}
	for _, kind := range kinds[1:4] {
		c.prices[kind] = inventory.InstanceType{Name: kind, VCPUs: r.Int64N(64), MemoryMiB: r.Int64N(1 << 17), MaxPods: r.Int64N(200), OnDemand: pick(r, 0, r.Float64()), Spot: map[string]float64{pick(r, "a", "b"): r.Float64()}}
	}
	for g := range r.IntN(4) {
		group := inventory.NodeGroup{Name: fmt.Sprint("g", g), Zones: pick(r, nil, []string{"a"}, []string{"a", "b"})}
		group.LaunchTemplate.InstanceType, group.LaunchTemplate.Spot = pick(r, kinds...), r.IntN(2) == 0
		group.Managed = pick(r, nil, &inventory.ManagedNodeGroup{}, &inventory.ManagedNodeGroup{CapacityType: "SPOT"})
		group.MixedInstances = pick(r, nil, &inventory.MixedInstances{OnDemandBase: int32(r.IntN(9)), OnDemandPercentage: int32(r.IntN(101))})
		for i := range r.IntN(8) {
			id := fmt.Sprintf("i-%d-%d", g, i)
			group.Instances = append(group.Instances, inventory.Instance{ID: id, Type: pick(r, kinds...), Lifecycle: pick(r, "InService", "Warmed:Stopped", "Terminating", "Pending")})
			n := inventory.Node{Name: "n" + id, InstanceID: pick(r, id, ""), Group: group.Name, Labels: pick(r, nil, map[string]string{corev1.LabelInstanceTypeStable: pick(r, kinds...), "lifecycle": pick(r, "spot", "x")})}
			c.nodes = append(c.nodes, n)
			for range r.IntN(6) {
				c.pods = append(c.pods, Pod{Node: n.Name, Requests: requested(r.Int64N(4000), r.Int64N(16000)), DaemonSet: pick(r, "", "", "a/b")})
			}
		}
		c.groups = append(c.groups, group)
	}
	if r.IntN(8) > 0 {
		c.target = target(pick(r, onDemand, spot, both, nil), pick(r, kinds[1:], kinds[1:2], nil)...)
	}
	return c
}

// Whatever is left out: no number is made up, every instance that costs something is on today's bill, and the bill after is not
// below the cheapest possible per resource.
func TestEstimatesOfRandomClusters(t *testing.T) {
	for seed := range uint64(3000) {
		c := random(rand.New(rand.NewPCG(seed, 44)))
		p := PoolOf("p", c.groups, c.nodes, c.pods, c.target, c.prices)
		e := Of(p)
		paid := 0
		for _, g := range c.groups {
			paid += len(paidFor(g))
		}
		if e.Today.Nodes() != paid {
			t.Fatalf("seed %d: %d instances are paid for, %d are on the bill", seed, paid, e.Today.Nodes())
		}
		for name, v := range map[string]float64{"today": e.Today.USD(), "after": e.After.USD(), "vCPU": e.After.PerVCPU, "GiB": e.Today.PerGiB, "overlap": e.Overlap.USD, "change": e.Change() + 1} {
			if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
				t.Fatalf("seed %d: %s is %v", seed, name, v)
			}
		}
		if e.Unplaced == 0 && !p.Partial && len(p.Pods) > 0 && e.After.USD() < cheapest(p.Pods, p.Offers)-1e-9 {
			t.Fatalf("seed %d: %v after, and the cheapest possible is %v", seed, e.After.USD(), cheapest(p.Pods, p.Offers))
		}
		for _, n := range p.Nodes {
			if n.USD == 0 && e.Comparable() {
				t.Fatalf("seed %d: a node of %s has no price, and the bills are compared", seed, n.Type)
			}
		}
	}
}
