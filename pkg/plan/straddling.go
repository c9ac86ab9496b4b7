package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

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
