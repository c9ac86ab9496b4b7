package plan

import (
	"cmp"
	"slices"
	"time"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// mostCandidates bounds how many nodes are looked at before some of them begin: each costs two calls, and those that are not looked
// at still have their turn.
const mostCandidates = 40

// prospect is what the drain of a node would bring if it began now.
type prospect int

const (
	// soonGone: all of its pods may go now.
	soonGone prospect = iota
	// goesOn: some of them may.
	goesOn
	// unseen: it was not looked at.
	unseen
	// onlyWaits: none may, so that it would hold a place that another node has a use for.
	onlyWaits
)

// queue is the waiting nodes of a pool, in the order in which their drains begin. It is used up as it is asked.
type queue struct {
	look
	// lines of nodes with the same prospect: only the first of each can be the next one.
	lines [][]*inventory.Node
	// places are how many of the pool's nodes may be in flight.
	places int
	// busy are the nodes in flight by zone, those that were chosen among them; all of them together are flying.
	busy   map[string]int
	flying int
	// room is what the budgets still have for a node that begins now, once those in flight have had what they wait for.
	room map[string]int
}

// newQueue tells the waiting nodes from those in flight. What is in flight was promised its budgets' room already.
func newQueue(l look, nodes []inventory.Node, places int) *queue {
	q := &queue{look: l, places: places, busy: map[string]int{}, room: map[string]int{}}
	q.readRoom(l.Drains)
	q.readRoom(l.Candidates)
	type alike struct {
		zone string
		warm bool
	}
	unseen := map[alike][]*inventory.Node{} // of them the first by name has its turn
	for i := range nodes {
		n := &nodes[i]
		candidate, seen := l.Candidates[n.Name]
		switch {
		case begun(*n):
			q.take(*n, l.Drains[n.Name])
		case candidate.Begun: // a cache does not show it yet
			q.take(*n, candidate)
		case seen:
			q.lines = append(q.lines, []*inventory.Node{n})
		default:
			key := alike{n.Zone, q.warm(*n)}
			unseen[key] = append(unseen[key], n)
		}
	}
	for _, line := range unseen {
		slices.SortFunc(line, func(a, b *inventory.Node) int { return cmp.Compare(a.Name, b.Name) })
		q.lines = append(q.lines, line)
	}
	return q
}

// readRoom keeps the least of what the looks at several nodes saw of a budget: they are not of one moment.
func (q *queue) readRoom(states map[string]inventory.DrainState) {
	for _, d := range states {
		for _, b := range d.Budgets {
			if room, known := q.room[b.Budget]; !known || b.Room < room {
				q.room[b.Budget] = b.Room
			}
		}
	}
}

// take gives a node its place in flight, and its pods their room.
func (q *queue) take(n inventory.Node, d inventory.DrainState) {
	q.flying++
	q.busy[n.Zone]++
	for _, b := range d.Budgets {
		q.room[b.Budget] -= b.Pods
	}
}

// next takes the next node to begin with.
func (q *queue) next() (inventory.Node, bool) {
	if len(q.lines) == 0 {
		return inventory.Node{}, false
	}
	best := 0
	first := q.rank(*q.lines[0][0])
	for i, line := range q.lines[1:] {
		if r := q.rank(*line[0]); r.before(first) {
			best, first = i+1, r
		}
	}
	n := *q.lines[best][0]
	if q.lines[best] = q.lines[best][1:]; len(q.lines[best]) == 0 {
		q.lines = slices.Delete(q.lines, best, best+1)
	}
	q.take(n, q.Candidates[n.Name])
	return n, true
}

// rank is what decides between two nodes, the weightiest first.
type rank struct {
	// cold: its pods have no room yet. What is paid for is used first.
	cold bool
	// wholeZone: it would be the last of the places, and all of them of one zone.
	wholeZone bool
	prospect  prospect
	// busy are the nodes of its zone in flight.
	busy int
	name string
}

func (q *queue) rank(n inventory.Node) rank {
	busy := q.busy[n.Zone]
	return rank{cold: !q.warm(n), wholeZone: q.places > 1 && busy == q.flying && busy == q.places-1, prospect: q.prospect(n), busy: busy, name: n.Name}
}

func (r rank) before(other rank) bool {
	switch {
	case r.cold != other.cold:
		return other.cold
	case r.wholeZone != other.wholeZone:
		return other.wholeZone
	}
	return cmp.Or(cmp.Compare(r.prospect, other.prospect), cmp.Compare(r.busy, other.busy), cmp.Compare(r.name, other.name)) < 0
}

// prospect weighs what holds the node's pods: what they have by themselves, and budgets without room for them.
func (q *queue) prospect(n inventory.Node) prospect {
	d, seen := q.Candidates[n.Name]
	if !seen {
		return unseen
	}
	stuck, allow := 0, allowance(q.look, n)
	for _, b := range d.Blocked {
		if b.Reason != inventory.BlockedTerminating && b.Reason != inventory.BlockedByPDB && !allow.Allows(b) {
			stuck++
		}
	}
	for _, b := range d.Budgets {
		stuck += max(0, b.Pods-max(0, q.room[b.Budget]))
	}
	switch {
	case stuck == 0:
		return soonGone
	case stuck < d.Evictable:
		return goesOn
	}
	return onlyWaits
}

// candidates are the cold nodes of which some are to begin now: twice as many as there are places for, so that there is a choice.
func (q *queue) candidates() []string {
	free := q.places - q.flying
	n, ok := q.next()
	for ; ok && q.warm(n); n, ok = q.next() {
		free--
	}
	var out []string
	for ; ok && len(out) < min(2*free, mostCandidates); n, ok = q.next() {
		out = append(out, n.Name)
	}
	return out
}

// Candidates are the nodes whose pods Next wants to know before it begins the drain of some of them: World.Candidates. None while none
// is to begin, so that a migration that waits costs no call.
func Candidates(m *v1alpha1.Migration, w World, now time.Time) []string {
	l := newLook(m, w, now)
	var nodes []inventory.Node
	var total int
	switch {
	case l.OtherMigration != "" || l.Snapshot == nil || l.homeless() > 0:
	case rollsBack(m):
		nodes = toEmpty(l)
		total = len(nodes)
	case !halted(m) && shiftingReached(l):
		nodes, total = toShift(l)
	}
	return newQueue(l, nodes, maxUnavailable(m.Spec.Strategy.MaxUnavailableNodes, total)).candidates()
}

// toShift are the nodes of the pool that is being shifted, if more of them may begin, and how many the snapshot has.
func toShift(l look) ([]inventory.Node, int) {
	if awaitJoining(&outcome{}, l) {
		return nil, 0
	}
	for _, p := range l.pools {
		if p.gone() {
			if settlePool(&outcome{}, l, p) {
				return nil, 0
			}
			continue
		}
		late := late(l, p)
		if short(l, p) || len(unwell(l)) > 0 || paused(&outcome{}, l, p, late) || !slices.ContainsFunc(p.nodes, begun) && blocked(&outcome{}, l, p.Name) {
			return nil, 0
		}
		return going(l, p, late), p.recorded
	}
	return nil, 0
}

// toEmpty are Karpenter's nodes of the pool that is being emptied on the way back.
func toEmpty(l look) []inventory.Node {
	for _, p := range l.pools {
		if len(claimsOf(l, p)) == 0 {
			continue
		}
		nodes := karpenterNodes(l, p)
		if slices.ContainsFunc(nodes, func(n inventory.Node) bool { return !n.Unschedulable }) {
			return nil // they are not cordoned yet: none begins
		}
		return nodes
	}
	return nil
}
