package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/castoff-sh/castoff/api/v1alpha1"
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

// CheckTwoWaves is a workload that pools of two waves can take: while one of them has changed hands and the other has not, both scalers
// could serve it.
const CheckTwoWaves = "WorkloadInTwoWaves"

// StraddlingOf are the workloads that would be served by two scalers after the next change of hands, or can be now: pools that have
// changed hands are as one.
func StraddlingOf(m *v1alpha1.Migration, w World, workloads inventory.Workloads) []Join {
	l := newLook(m, w, time.Time{})
	sides := [][]string{nil}
	for _, w := range l.waves {
		var names []string
		for _, p := range w.pools {
			names = append(names, p.Name)
		}
		if handed(l.only(w)) {
			sides[0] = append(sides[0], names...)
		} else {
			sides = append(sides, names)
		}
	}
	return straddling(sides, w.Pools, w.Targets, w.Nodes, workloads)
}

// straddling are the workloads that pools of different sides can take, each with two such pools. Pods count where they are not as their
// controller's template has them.
func straddling(waves [][]string, pools []inventory.Pool, targets map[string]inventory.Target, nodes []inventory.Node, workloads inventory.Workloads) []Join {
	movable := movable(workloads)
	g := newWaveGraph(pools, targets, faces(nodes, movable))
	var out []Join
	for _, w := range movable {
		pair, ok := g.crossing(w, waves)
		object := cmp.Or(w.owner, w.object)
		known := slices.ContainsFunc(out, func(j Join) bool {
			return object == j.Workload || w.owner != "" && strings.HasPrefix(base(object), base(j.Workload)+"-") // a Deployment's ReplicaSet
		})
		if ok && !known {
			out = append(out, Join{Pools: pair, Workload: object})
		}
	}
	slices.SortFunc(out, func(a, b Join) int { return cmp.Compare(a.Workload, b.Workload) })
	return out
}

// base is an object without its kind.
func base(object string) string {
	_, name, _ := strings.Cut(object, "/")
	return name
}

// crossing are two pools of different waves that can take the workload.
func (g *waveGraph) crossing(w workload, waves [][]string) ([2]string, bool) {
	of := func(i int) int {
		return slices.IndexFunc(waves, func(names []string) bool { return slices.Contains(names, g.pools[i].name) })
	}
	serving := g.takers(w)
	for i := 1; i < len(serving); i++ {
		if of(serving[i-1]) != of(serving[i]) {
			return [2]string{g.pools[serving[i-1]].name, g.pools[serving[i]].name}, true
		}
	}
	return [2]string{}, false
}

// straddled says that a workload could be served by two scalers after the next change of hands, or can be now. The next one waits.
func straddled(o *outcome, l look) bool {
	stop := false
	for _, b := range straddlers(l) {
		stop = stop || b.Severity == v1alpha1.SeverityBlock
		o.blockers = append(o.blockers, b)
	}
	return stop
}

// straddlers name three of them, and count the others.
func straddlers(l look) []v1alpha1.Blocker {
	var out []v1alpha1.Blocker
	for i, j := range l.Straddling {
		b := v1alpha1.Blocker{Severity: v1alpha1.SeverityBlock, Reason: CheckTwoWaves, Object: j.Workload, Message: j.String() +
			", which change hands one after the other: while one of them has and the other has not, Karpenter and Cluster Autoscaler could both launch a node for it. The next change of hands waits. " +
			"Give its pods a nodeSelector of one of the two pools; or set spec.strategy.waves to Single, and all that is left changes hands at once; or accept the risk " + CheckTwoWaves + " for this object."}
		if l.accepts(CheckTwoWaves, j.Workload) {
			b.Severity = v1alpha1.SeverityWarn
		} else if i >= mostNamed {
			b.Object, b.Message = "migration/"+l.m.Name, fmt.Sprintf("%d more workloads could be served by two scalers.", len(l.Straddling)-i)
		}
		out = append(out, b)
		if i >= mostNamed && b.Severity == v1alpha1.SeverityBlock {
			break
		}
	}
	return out
}

// Handovers is the plan of the changes of hands: the waves, and why they are not smaller than all pools at once where nothing but that would do.
type Handovers struct {
	Waves []Wave `json:"waves"`
	// Single says why all pools change hands at once though no workload joins all of them; empty where that is not so.
	Single string `json:"single,omitempty"`
}

// Names are the pools of each wave.
func (h Handovers) Names() [][]string {
	var out [][]string
	for _, w := range h.Waves {
		out = append(out, w.Pools)
	}
	return out
}

// HandoversOf plans the changes of hands: the smallest waves that no workload straddles, if every Cluster Autoscaler can let go of one
// and keep another, and be seen to.
func HandoversOf(spec v1alpha1.MigrationSpec, pools []inventory.Pool, groups []inventory.NodeGroup, autoscalers []inventory.Autoscaler, waves []Wave, now time.Time) Handovers {
	h := Handovers{Waves: waves}
	if len(waves) < 2 {
		return h
	}
	if h.Single = inseparable(spec, pools, groups, autoscalers, waves, now); h.Single != "" {
		all := Wave{}
		for _, p := range pools {
			all.Pools = append(all.Pools, p.Name)
		}
		for _, w := range waves {
			all.Joins = append(all.Joins, w.Joins...)
		}
		h.Waves = []Wave{all}
	}
	return h
}

// inseparable says why the waves cannot change hands one after the other.
func inseparable(spec v1alpha1.MigrationSpec, pools []inventory.Pool, groups []inventory.NodeGroup, autoscalers []inventory.Autoscaler, waves []Wave, now time.Time) string {
	if spec.Strategy.Waves == v1alpha1.WavesSingle {
		return "spec.strategy.waves is Single"
	}
	running := 0
	for _, a := range autoscalers {
		mine := managedWaves(a, pools, groups, waves)
		if a.Stopped() || mine == 0 {
			continue
		}
		running++
		if mine < 2 {
			continue // it is stopped when that one changes hands
		}
		if now.Sub(a.StatusTime) > statusFresh {
			return a.Object() + " has written no status for a minute (ConfigMap cluster-autoscaler-status), and nothing else would show that it has let go of some groups and not of others"
		}
		for _, g := range groups {
			if slices.Contains(a.Static, g.AutoScalingGroup) {
				return a.Object() + " names " + g.AutoScalingGroup + " in its arguments (--nodes), so that it can only let go of all groups at once, by being stopped"
			}
			if _, hides := a.FoundBy(g); a.Manages(g) && !hides {
				return a.Object() + " finds " + g.Name + " by tags that castoff may not take off, because they have other uses or nothing else says whose the group is (" + strings.Join(a.Discovery, "; ") + ")"
			}
		}
	}
	if running == 0 {
		return "no Cluster Autoscaler runs that would keep the others meanwhile"
	}
	return ""
}

// managedWaves counts the waves of which it scales a group.
func managedWaves(a inventory.Autoscaler, pools []inventory.Pool, groups []inventory.NodeGroup, waves []Wave) int {
	n := 0
	for _, w := range waves {
		for _, p := range pools {
			if slices.Contains(w.Pools, p.Name) && slices.ContainsFunc(groups, func(g inventory.NodeGroup) bool { return slices.Contains(p.NodeGroups, g.Name) && a.Manages(g) }) {
				n++
				break
			}
		}
	}
	return n
}
