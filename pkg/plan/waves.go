package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// Wave is pools that change hands together, because workloads join them: while one of them has changed hands and the other has
// not, such a workload could be served by two scalers.
type Wave struct {
	Pools []string `json:"pools"`
	// Joins say why: one for each pool after the first, so that whoever wants smaller waves knows what to change.
	Joins []Join `json:"joins,omitempty"`
}

// Join is a workload that two pools of a wave can take.
type Join struct {
	Pools [2]string `json:"pools"`
	// Workload as reports name it, for example deployment/shop/web.
	Workload string `json:"workload"`
	// More counts the other workloads that join the same two pools.
	More int `json:"more,omitempty"`
}

// Waves partitions the pools into the smallest groups that no known workload straddles: the connected components of the graph in
// which every workload joins all pools that can take its pods, be it on today's nodes or on tomorrow's. Pools keep their order, and
// a wave is where its first pool is. Only requirements, taints and tolerations count, what a pod merely prefers does not, and neither
// does room: two pools joined too many cost a larger wave, one joined too few would cost the promise of one scaler.
func Waves(pools []inventory.Pool, targets map[string]inventory.Target, nodes []inventory.Node, workloads inventory.Workloads) []Wave {
	straddling := movable(workloads)
	g := newWaveGraph(pools, targets, faces(nodes, straddling))
	for _, w := range straddling {
		g.join(w)
	}
	return g.waves()
}

// workload is what makes pods, or a pod.
type workload struct {
	object string
	shape  *inventory.Shape
	// owner is a pod's controller: what differs from its template counts, the pod itself does not once more.
	owner string
}

// movable are the workloads that a scaler launches nodes for.
func movable(w inventory.Workloads) []workload {
	var out []workload
	for _, c := range w.Controllers {
		if c.Kind != daemonSet && c.Shape != nil {
			out = append(out, workload{object: c.Object(), shape: c.Shape})
		}
	}
	for _, p := range w.Pods {
		if p.Shape != nil && !p.Mirror && (p.Owner == nil || p.Owner.Kind != daemonSet) {
			w := workload{object: p.Object(), shape: p.Shape}
			if p.Owner != nil {
				w.owner = strings.ToLower(p.Owner.Kind) + "/" + p.Namespace + "/" + p.Owner.Name
			}
			out = append(out, w)
		}
	}
	return out
}

// faces are the nodes that differ in what the workloads ask for: of a thousand nodes there are a handful.
func faces(nodes []inventory.Node, workloads []workload) []inventory.Node {
	asked := map[string]bool{}
	shapes := map[*inventory.Shape]bool{}
	for _, w := range workloads {
		if !shapes[w.shape] {
			shapes[w.shape] = true
			for _, key := range w.shape.Asks() {
				asked[key] = true
			}
		}
	}
	seen := map[string]bool{}
	return slices.DeleteFunc(slices.Clone(nodes), func(n inventory.Node) bool {
		labels := maps.Clone(n.Labels)
		maps.DeleteFunc(labels, func(key, _ string) bool { return !asked[key] })
		face := fmt.Sprint(n.Group, labels, n.Taints) // fmt sorts maps
		again := seen[face]
		seen[face] = true
		return again
	})
}

// daemonSet pods are made for their node: no scaler launches for them.
const daemonSet = "DaemonSet"

// waveGraph is a union-find over the pools.
type waveGraph struct {
	pools   []servingPool
	parent  []int
	joins   map[[2]int]*Join
	by      [][2]int // the joins that connected two components, in order
	serving map[*inventory.Shape][]int
}

// servingPool is what a pool's nodes offer, those that it has and those that it will have.
type servingPool struct {
	name   string
	places []inventory.Place
}

func newWaveGraph(pools []inventory.Pool, targets map[string]inventory.Target, nodes []inventory.Node) *waveGraph {
	g := &waveGraph{joins: map[[2]int]*Join{}, serving: map[*inventory.Shape][]int{}}
	for i, p := range pools {
		s := servingPool{name: p.Name}
		if t, ok := targets[p.Name]; ok {
			s.places = append(s.places, t.Place())
		}
		for _, n := range nodes {
			if n.Group != "" && slices.Contains(p.NodeGroups, n.Group) {
				s.places = append(s.places, n.Place())
			}
		}
		g.pools, g.parent = append(g.pools, s), append(g.parent, i)
	}
	return g
}

func (p servingPool) serves(s *inventory.Shape) bool {
	return slices.ContainsFunc(p.places, func(place inventory.Place) bool { return place.Refuses(s) == nil })
}

// takers are the pools that can take the workload, in their order. Shapes are shared, so each is judged once.
func (g *waveGraph) takers(w workload) []int {
	serving, known := g.serving[w.shape]
	if !known {
		for i, p := range g.pools {
			if p.serves(w.shape) {
				serving = append(serving, i)
			}
		}
		g.serving[w.shape] = serving
	}
	return serving
}

// join connects all pools that can take the workload.
func (g *waveGraph) join(w workload) {
	serving := g.takers(w)
	for i := 1; i < len(serving); i++ {
		g.connect([2]int{serving[i-1], serving[i]}, w)
	}
}

func (g *waveGraph) connect(pair [2]int, w workload) {
	if j, ok := g.joins[pair]; ok {
		if w.owner == "" {
			j.More++
		}
		return
	}
	g.joins[pair] = &Join{Pools: [2]string{g.pools[pair[0]].name, g.pools[pair[1]].name}, Workload: w.object}
	if a, b := g.root(pair[0]), g.root(pair[1]); a != b {
		g.parent[max(a, b)] = min(a, b)
		g.by = append(g.by, pair)
	}
}

func (g *waveGraph) root(i int) int {
	for g.parent[i] != i {
		i = g.parent[i]
	}
	return i
}

func (g *waveGraph) waves() []Wave {
	var out []Wave
	at := map[int]int{} // where the wave of a root is in out
	for i, p := range g.pools {
		root := g.root(i)
		if _, ok := at[root]; !ok {
			at[root] = len(out)
			out = append(out, Wave{})
		}
		w := &out[at[root]]
		w.Pools = append(w.Pools, p.name)
	}
	for _, pair := range g.by {
		w := &out[at[g.root(pair[0])]]
		w.Joins = append(w.Joins, *g.joins[pair])
	}
	return out
}

// String is a line for people.
func (j Join) String() string {
	more := ""
	if j.More > 0 {
		more = fmt.Sprintf(" and %d more", j.More)
	}
	return fmt.Sprintf("%s and %s are joined by %s%s", j.Pools[0], j.Pools[1], j.Workload, more)
}
