package cost

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var approximately = cmpopts.EquateApprox(0, 1e-9)

func offers(n int, o Offer) []Offer {
	out := make([]Offer, n)
	for i := range out {
		out[i] = o
	}
	return out
}

func TestOf(t *testing.T) {
	cases := map[string]struct {
		reason string
		pool   Pool
		want   Estimate
	}{
		"HalfEmpty": {
			reason: "four nodes carry what two can: the bill halves, and so does each requested unit",
			pool:   Pool{Name: "a", Nodes: offers(4, large), Pods: repeat(6, requested(600, 1024)), Offers: []Offer{large}, Batch: 1},
			want: Estimate{
				Pool: "a", Requested: Resources{MilliCPU: 3600, Memory: 6 << 30, Pods: 6},
				Today:   Side{OnDemand: Bill{4, 0.384}, PerVCPU: 0.384 / 3.6, PerGiB: 0.064},
				After:   Side{OnDemand: Bill{2, 0.192}, PerVCPU: 0.192 / 3.6, PerGiB: 0.032},
				Overlap: Overlap{Nodes: 2, Hours: 4.0 / 6, USD: 4.0 / 6 * 2 * 0.096},
			},
		},
		"SpotApart": {
			reason: "spot and on-demand are added up apart",
			pool:   Pool{Nodes: append(offers(1, large), offers(2, spotted)...), Pods: repeat(1, requested(1000, 1024)), Offers: []Offer{spotted, large}, Batch: 3},
			want: Estimate{
				Requested: requested(1000, 1024),
				Today:     Side{OnDemand: Bill{1, 0.096}, Spot: Bill{2, 0.06}, PerVCPU: 0.156, PerGiB: 0.156},
				After:     Side{Spot: Bill{1, 0.03}, PerVCPU: 0.03, PerGiB: 0.03},
				Overlap:   Overlap{Nodes: 4, Hours: 1.0 / 6, USD: 4 * 0.03 / 6},
			},
		},
		"Empty": {reason: "a pool at 0 costs nothing, before and after", pool: Pool{Name: "a", Offers: []Offer{large}, Batch: 1}, want: Estimate{Pool: "a"}},
		"NoPods": {
			reason: "nodes without a pod are all won, and nothing is divided by nothing", pool: Pool{Nodes: offers(1, large), Offers: []Offer{large}},
			want: Estimate{Today: Side{OnDemand: Bill{1, 0.096}}},
		},
		"NoRequests": {
			reason: "pods that request nothing take addresses alone", pool: Pool{Nodes: offers(1, large), Pods: repeat(1, Resources{Pods: 1}), Offers: []Offer{large}},
			want: Estimate{
				Requested: Resources{Pods: 1}, Today: Side{OnDemand: Bill{1, 0.096}}, After: Side{OnDemand: Bill{1, 0.096}},
				Overlap: Overlap{Nodes: 2, Hours: 1.0 / 6, USD: 2 * 0.096 / 6},
			},
		},
		"TooLarge": {
			reason: "a pod that fits nowhere is counted", pool: Pool{Pods: repeat(1, requested(9000, 1)), Offers: []Offer{large}},
			want: Estimate{Requested: requested(9000, 1), Unplaced: 1},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Of(tc.pool), approximately, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

func TestSum(t *testing.T) {
	a := Of(Pool{Name: "a", Nodes: offers(4, large), Pods: repeat(6, requested(600, 1024)), Offers: []Offer{large}, Batch: 1, Unpriced: []string{"x", "y"}})
	b := Of(Pool{Name: "b", Nodes: offers(9, spotted), Pods: repeat(3, requested(600, 1024)), Offers: []Offer{spotted}, Batch: 3, Unpriced: []string{"x"}, Guessed: true})
	got := Sum([]Estimate{a, b})
	want := Estimate{
		Requested: Resources{MilliCPU: 5400, Memory: 9 << 30, Pods: 9},
		Today:     Side{OnDemand: Bill{4, 0.384}, Spot: Bill{9, 0.27}, PerVCPU: 0.654 / 5.4, PerGiB: 0.654 / 9},
		After:     Side{OnDemand: Bill{2, 0.192}, Spot: Bill{1, 0.03}, PerVCPU: 0.222 / 5.4, PerGiB: 0.222 / 9},
		Overlap:   Overlap{Nodes: 4, Hours: 4.0/6 + 0.5, USD: a.Overlap.USD + b.Overlap.USD},
		Unpriced:  []string{"x", "y"}, Guessed: true,
	}
	if diff := cmp.Diff(want, got, approximately); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if got.Today.Nodes() != 13 || got.After.Nodes() != 3 || got.Comparable() {
		t.Errorf("13 nodes, then 3, and types without a price: %+v", got)
	}
	if diff := cmp.Diff(Estimate{}, Sum(nil)); diff != "" {
		t.Errorf("no pools: -want +got\n%s", diff)
	}
}

func TestChange(t *testing.T) {
	cases := map[string]struct {
		today, after, want float64
	}{
		"Less": {1, 0.8, -0.2}, "More": {1, 1.5, 0.5}, "Same": {2, 2, 0}, "Nothing": {0, 0, 0}, "FromNothing": {0, 1, 0},
	}
	for name, tc := range cases {
		e := Estimate{Today: Side{Spot: Bill{USD: tc.today}}, After: Side{OnDemand: Bill{USD: tc.after}}}
		if diff := cmp.Diff(tc.want, e.Change(), approximately); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
	}
}

// A pool of 10 nodes in batches of one never has more than 10, the batch and the canary: that is all the overlap that is paid for.
func TestCase_C091_OverlapIsABatchAndTheCanary(t *testing.T) {
	e := Of(Pool{Nodes: offers(10, large), Pods: repeat(30, requested(600, 1024)), Offers: []Offer{large}, Batch: 1})
	if e.After.Nodes() != 10 || e.Overlap.Nodes != 2 {
		t.Errorf("want 10 nodes after and 2 beside them, got %d and %d", e.After.Nodes(), e.Overlap.Nodes)
	}
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 91))
		p := Pool{Nodes: offers(1+r.IntN(50), large), Pods: randomPods(r), Offers: []Offer{large, xlarge}, Batch: r.IntN(60)}
		o := Of(p).Overlap
		if o.Nodes > 0 && (o.Nodes > max(p.Batch, 1)+1 || o.Nodes > len(p.Nodes)+1) {
			t.Fatalf("seed %d: %d beside each other with batches of %d of %d", seed, o.Nodes, p.Batch, len(p.Nodes))
		}
		if o.USD < 0 || o.Hours < 0 {
			t.Fatalf("seed %d: %+v", seed, o)
		}
	}
}
