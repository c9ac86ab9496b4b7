package cost

import (
	"cmp"
	"slices"
)

const (
	// minutesPerBatch is how long a batch of old nodes and their replacements run beside each other: boot, start of the pods,
	// drain and end of the old ones. It is an assumption; a budget that waits makes it longer.
	minutesPerBatch = 10
	// canaries are the trial nodes that run beside a pool, one for its EC2NodeClass.
	canaries = 1
)

// Pool is what an estimate needs to know of a pool.
type Pool struct {
	Name string
	// Nodes are today's, at today's prices; those without a price are in Unpriced.
	Nodes []Offer
	// Pods are the requests of the pods that move; PerNode those of the DaemonSets of one node.
	Pods    []Resources
	PerNode Resources
	// Offers are what the pool's NodePool may launch.
	Offers []Offer
	// Partial says that types of the NodePool are missing from the offers, for want of a price.
	Partial bool
	// Batch is how many nodes are drained at once.
	Batch int
	// Unpriced are the instance types, of today or of the NodePool, that no price is known of.
	Unpriced []string
	// Guessed says that spot and on-demand of today's nodes were told by the group's policy, not by their labels.
	Guessed bool
}

// Bill is a number of nodes and what they cost an hour.
type Bill struct {
	Nodes int     `json:"nodes"`
	USD   float64 `json:"usdPerHour"`
}

// Side is what a pool costs, today or after.
type Side struct {
	OnDemand Bill `json:"onDemand"`
	Spot     Bill `json:"spot"`
	// PerVCPU and PerGiB are the whole bill by requested vCPU and by requested GiB, DaemonSets not counted; 0: nothing requested.
	PerVCPU float64 `json:"usdPerRequestedVCPUHour"`
	PerGiB  float64 `json:"usdPerRequestedGiBHour"`
}

// Nodes of both kinds.
func (s Side) Nodes() int { return s.OnDemand.Nodes + s.Spot.Nodes }

// USD an hour of both kinds.
func (s Side) USD() float64 { return s.OnDemand.USD + s.Spot.USD }

// Overlap is what is paid once for nodes that run beside each other during the move.
type Overlap struct {
	// Nodes more than today's or after's, at most at any time.
	Nodes int     `json:"nodes"`
	Hours float64 `json:"hours"`
	USD   float64 `json:"usd"`
}

// Estimate of a pool, or of all.
type Estimate struct {
	Pool      string    `json:"pool,omitempty"`
	Requested Resources `json:"requested"`
	Today     Side      `json:"today"`
	After     Side      `json:"after"`
	Overlap   Overlap   `json:"overlap"`
	// Unplaced are pods that no instance type of the pool has room for beside the DaemonSets; 0 where a type has no price and was not
	// tried.
	Unplaced int `json:"unplaced,omitempty"`
	// Unpriced are instance types without a known price: with one among them the two sides cannot be compared.
	Unpriced []string `json:"unpriced,omitempty"`
	Guessed  bool     `json:"spotGuessed,omitempty"`
}

// Comparable says whether both sides are whole: every node has a price, and every pod a place.
func (e Estimate) Comparable() bool { return len(e.Unpriced) == 0 && e.Unplaced == 0 }

// Change is the part by which the bill changes: -0.2 is a fifth less. It is 0 when nothing is paid today.
func (e Estimate) Change() float64 {
	if e.Today.USD() == 0 {
		return 0
	}
	return e.After.USD()/e.Today.USD() - 1
}

// Of estimates a pool.
func Of(p Pool) Estimate {
	nodes, unplaced := Pack(p.Pods, p.PerNode, p.Offers)
	if p.Partial { // a type whose price is not known may have the room
		unplaced = nil
	}
	e := Estimate{Pool: p.Name, Requested: sum(p.Pods), Unplaced: len(unplaced), Unpriced: p.Unpriced, Guessed: p.Guessed}
	e.Today, e.After = side(p.Nodes, e.Requested), side(nodes, e.Requested)
	e.Overlap = overlap(p, nodes)
	return e
}

// Sum adds up pools, which are drained one after another: the most nodes at a time are those of the pool with most.
func Sum(pools []Estimate) Estimate {
	var out Estimate
	for _, e := range pools {
		out.Requested = out.Requested.Plus(e.Requested)
		out.Today, out.After = plus(out.Today, e.Today), plus(out.After, e.After)
		out.Overlap = Overlap{Nodes: max(out.Overlap.Nodes, e.Overlap.Nodes), Hours: out.Overlap.Hours + e.Overlap.Hours, USD: out.Overlap.USD + e.Overlap.USD}
		out.Unplaced += e.Unplaced
		out.Unpriced = append(out.Unpriced, e.Unpriced...)
		out.Guessed = out.Guessed || e.Guessed
	}
	slices.Sort(out.Unpriced)
	out.Unpriced = slices.Compact(out.Unpriced)
	out.Today, out.After = perResource(out.Today, out.Requested), perResource(out.After, out.Requested)
	return out
}

func sum(pods []Resources) Resources {
	var out Resources
	for _, p := range pods {
		out = out.Plus(p)
	}
	return out
}

func side(nodes []Offer, requested Resources) Side {
	var s Side
	for _, n := range nodes {
		if n.Spot {
			s.Spot = Bill{Nodes: s.Spot.Nodes + 1, USD: s.Spot.USD + n.USD}
		} else {
			s.OnDemand = Bill{Nodes: s.OnDemand.Nodes + 1, USD: s.OnDemand.USD + n.USD}
		}
	}
	return perResource(s, requested)
}

func plus(a, b Side) Side {
	return Side{
		OnDemand: Bill{Nodes: a.OnDemand.Nodes + b.OnDemand.Nodes, USD: a.OnDemand.USD + b.OnDemand.USD},
		Spot:     Bill{Nodes: a.Spot.Nodes + b.Spot.Nodes, USD: a.Spot.USD + b.Spot.USD},
	}
}

func perResource(s Side, requested Resources) Side {
	s.PerVCPU, s.PerGiB = 0, 0
	if requested.MilliCPU > 0 {
		s.PerVCPU = s.USD() / requested.VCPUs()
	}
	if requested.Memory > 0 {
		s.PerGiB = s.USD() / requested.GiB()
	}
	return s
}

// overlap is what the extra nodes cost: never more than a batch and the canary at a time, each at the price of the dearest node
// that would be launched, for as long as the batches take.
func overlap(p Pool, after []Offer) Overlap {
	if len(p.Nodes) == 0 || len(after) == 0 {
		return Overlap{}
	}
	batch := min(max(p.Batch, 1), len(p.Nodes))
	batches := (len(p.Nodes) + batch - 1) / batch
	dearest := slices.MaxFunc(after, func(a, b Offer) int { return cmp.Compare(a.USD, b.USD) }).USD
	o := Overlap{Nodes: batch + canaries, Hours: float64(batches*minutesPerBatch) / 60}
	o.USD = o.Hours * float64(o.Nodes) * dearest
	return o
}
