package plan

import (
	"cmp"
	"slices"
	"time"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

const (
	// nearEnough is the part of the remaining time by which a new guess may differ from the last one without being told: people plan by
	// it, and the status is not written for every second that a node is late.
	nearEnough = 6 // a sixth
	// soonEnough is the same where little time is left.
	soonEnough = 30 * time.Second
)

// estimate guesses when the last pool is done; zero where there is nothing to guess from. It goes by the time that a node takes, from the
// making of its room to its end, and lets the nodes that are left take their turns in as many places as maxUnavailableNodes gives and
// budgets leave. The mere pace of nodes gone would know nothing of a batch that is under way, nor of later pools' other number of places.
func estimate(l look, pools []v1alpha1.PoolStatus) time.Time {
	g := newGuesser(l, pools)
	one := g.nodeTime(pools)
	if l.m.Spec.Paused || one <= 0 {
		return time.Time{}
	}
	done, end := true, l.now
	for i, s := range pools {
		switch {
		case s.Phase == v1alpha1.PoolDone:
			continue
		case s.Phase == v1alpha1.PoolSoaking && s.DrainedTime != nil:
			end = end.Add(max(0, s.DrainedTime.Add(soakOf(l.m)).Sub(l.now)))
		default:
			end = end.Add(g.drainTime(i, s, one) + soakOf(l.m))
		}
		done = false
	}
	if done {
		return time.Time{}
	}
	return g.steady(end.Round(time.Second))
}

// guesser is what the nodes in flight tell.
type guesser struct {
	look
	// ages are for how long the nodes in flight that make progress have been at it, by pool.
	ages [][]time.Duration
	// working of the nodes that are draining make progress; the others wait for budgets that others use up.
	working, draining int
	// telling: a pool is being drained that has lost nodes, and all of its places are taken. Only then is there something new to learn.
	telling bool
}

func newGuesser(l look, pools []v1alpha1.PoolStatus) *guesser {
	g := &guesser{look: l, ages: make([][]time.Duration, len(pools))}
	room := map[string]int{}
	for i := range min(len(pools), len(l.pools)) {
		inFlight := 0
		for _, n := range l.pools[i].nodes {
			since := inFlightSince(g.look, n)
			if since.IsZero() {
				continue
			}
			inFlight++
			waits := refused(l.Drains[n.Name], room)
			if !waits {
				g.ages[i] = append(g.ages[i], max(0, l.now.Sub(since)))
			}
			if !begun(n) || l.empty(n) { // not yet, or not any more
				continue
			}
			g.draining++
			if !waits {
				g.working++
			}
		}
		g.telling = g.telling || inFlight >= g.places(pools[i]) && goneOf(pools[i]) > 0
	}
	for i, ages := range g.ages {
		slices.SortFunc(ages, func(a, b time.Duration) int { return cmp.Compare(b, a) })
		g.ages[i] = ages[:min(len(ages), g.used(pools[i]))]
		for j := range ages { // where nodes wait for each other, those that work now have waited before
			ages[j] = ages[j] * time.Duration(max(1, g.working)) / time.Duration(max(1, g.draining))
		}
	}
	return g
}

// goneOf are the nodes that a pool has lost.
func goneOf(s v1alpha1.PoolStatus) int { return max(0, int(s.Nodes-s.NodesLeft)) }

// inFlightSince is when room began to be made for the node's pods, or its drain began; zero for a node that waits.
func inFlightSince(l look, n inventory.Node) time.Time {
	var since time.Time
	for _, p := range l.rooms[n.Name] {
		since = soonest(since, p.Created)
	}
	if note := n.Annotations[v1alpha1.AnnotationWarmed]; note != "" { // few of a thousand have one: reading a time that is not there is dear
		if t, err := time.Parse(time.RFC3339, note); err == nil {
			return soonest(since, t)
		}
	}
	if begun(n) {
		since = soonest(since, drainingSince(n))
	}
	return since
}

// refused says that budgets let none of the node's pods go now, once the nodes before it have had what room there is.
func refused(d inventory.DrainState, room map[string]int) bool {
	pods := 0
	for _, b := range d.Budgets {
		if _, known := room[b.Budget]; !known {
			room[b.Budget] = max(1, b.Room) // one that has none now had some a moment ago: a node lives on it
		}
		goes := min(b.Pods, room[b.Budget])
		room[b.Budget] -= goes
		pods += b.Pods - goes
	}
	return d.Evictable > 0 && pods >= d.Evictable
}

// places are how many of the pool's nodes may be in flight at once.
func (g *guesser) places(s v1alpha1.PoolStatus) int {
	return max(1, min(maxUnavailable(g.m.Spec.Strategy.MaxUnavailableNodes, int(s.Nodes)), int(s.Nodes)))
}

// used are those of the places in which a node makes progress, as far as those that are draining now tell.
func (g *guesser) used(s v1alpha1.PoolStatus) int {
	if g.draining == 0 {
		return g.places(s)
	}
	return max(1, (g.places(s)*g.working+g.draining/2)/g.draining)
}

// rounds of so many nodes in so many places; the last one may have places to spare.
func rounds(nodes, places int) int { return max(1, (nodes+places-1)/places) }

// nodeTime is how long one node takes. The pool that is being drained says it best; before it has lost a node those before it do. 0 where
// none has lost any.
func (g *guesser) nodeTime(pools []v1alpha1.PoolStatus) time.Duration {
	var spent time.Duration
	gone := 0
	for i, s := range pools {
		n, places := int(s.Nodes), g.used(s)
		switch {
		case s.StartTime == nil || goneOf(s) == 0:
		case s.DrainedTime != nil:
			spent += s.DrainedTime.Sub(s.StartTime.Time) / time.Duration(rounds(n, places)) * time.Duration(n)
			gone += n
		default: // the time that all places had, less what went into nodes that are still in flight
			spent = g.now.Sub(s.StartTime.Time) * time.Duration(places)
			for _, age := range g.ages[i] {
				spent -= age
			}
			return max(0, spent) / time.Duration(goneOf(s))
		}
	}
	if gone == 0 {
		return 0
	}
	return spent / time.Duration(gone)
}

// drainTime is how long it takes until the pool's last node is gone, if each takes so long.
func (g *guesser) drainTime(pool int, s v1alpha1.PoolStatus, one time.Duration) time.Duration {
	free := make([]time.Duration, g.used(s)) // when each place is free
	left := int(s.NodesLeft)
	for i, age := range g.ages[pool] {
		free[i] = max(one-age, one/10) // one that takes longer than the others is not known to be done at once
		left--
	}
	for range left {
		first := 0
		for i := range free {
			if free[i] < free[first] {
				first = i
			}
		}
		free[first] += one
	}
	return slices.Max(free)
}

// steady keeps the last guess while the new one says about the same, and while places are empty: between batches and pools, and at the
// end of one, nothing new is to be learned of how many nodes make progress at once.
func (g *guesser) steady(guess time.Time) time.Time {
	last := g.m.Status.EstimatedCompletionTime
	if last == nil || !last.After(g.now) {
		return guess
	}
	if !g.telling || last.Sub(guess).Abs() <= max(guess.Sub(g.now)/nearEnough, soonEnough) {
		return last.Time
	}
	return guess
}
