package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// CheckHealthFloor is a workload of which more pods are unwell than before the migration.
const CheckHealthFloor = "HealthFloor"

// needsHealth says that pods have to be looked at: for the baseline, and whenever a node's drain may begin.
func needsHealth(l look) bool {
	if halted(l.m) {
		return false
	}
	waiting := func(p pool) bool {
		return slices.ContainsFunc(p.nodes, func(n inventory.Node) bool { return !begun(n) })
	}
	return l.Snapshot == nil || handingOverReached(l) && (slices.ContainsFunc(l.pools, waiting) || settles(l))
}

// baseline counts the pods that are unwell before castoff does anything, by their workload. Counts, because a pod that moves has
// another name.
func baseline(l look) map[string]int {
	var out map[string]int
	for _, p := range l.Unwell {
		if !p.Fails(l.now) {
			continue
		}
		if out == nil {
			out = map[string]int{}
		}
		out[p.Workload]++
	}
	return out
}

// unwell are the failing pods on Karpenter's nodes of the migration's pools, by workload, of those workloads that have more of them
// than before and that nobody accepted. Another pool's nodes count: a workload may have moved there.
func unwell(l look) map[string][]inventory.UnwellPod {
	moved := map[string]bool{}
	for _, p := range l.pools {
		for _, n := range karpenterNodes(l, p) {
			moved[n.Name] = true
		}
	}
	out := map[string][]inventory.UnwellPod{}
	for _, p := range l.Unwell {
		if moved[p.Node] && p.Fails(l.now) {
			out[p.Workload] = append(out[p.Workload], p)
		}
	}
	maps.DeleteFunc(out, func(workload string, pods []inventory.UnwellPod) bool {
		return len(pods) <= l.Snapshot.Unwell[workload] || l.accepts(CheckHealthFloor, workload)
	})
	return out
}

// belowFloor says that moved workloads are worse off than before: no other node's drain begins until they are well. It names three
// of them and counts the others.
func belowFloor(o *outcome, l look, p pool) bool {
	if l.Snapshot == nil {
		return false
	}
	sick := unwell(l)
	for i, workload := range slices.Sorted(maps.Keys(sick)) {
		if i == mostNamed {
			o.wait(CheckHealthFloor, "pool/"+p.Name, inventory.Count(len(sick)-mostNamed, "more workload has", "more workloads have")+" more pods unwell than before the migration.")
			break
		}
		o.blockers = append(o.blockers, ailing(l, workload, sick[workload]))
	}
	return len(sick) > 0
}

// ailing says of one workload what is the matter. A crash may end by itself, so a human is asked for once the pod has had its time.
func ailing(l look, workload string, pods []inventory.UnwellPod) v1alpha1.Blocker {
	slices.SortFunc(pods, func(a, b inventory.UnwellPod) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Pod.String(), b.Pod.String()))
	})
	severity := v1alpha1.SeverityWait
	if slices.ContainsFunc(pods, func(p inventory.UnwellPod) bool { return p.Overdue(l.now) }) {
		severity = v1alpha1.SeverityBlock
	}
	var names []string
	for _, p := range pods {
		what := "not Ready"
		if p.Crashing {
			what = "crashing"
		}
		names = append(names, p.Pod.String()+" on "+p.Node+" ("+what+" since "+p.Since.UTC().Format(time.RFC3339)+")")
	}
	message := fmt.Sprintf("More of its pods are unwell on Karpenter's nodes than the %d before the migration: %s. No other node's drain begins until they are Ready; those under way go on. "+
		"See why: kubectl describe pod, kubectl logs --previous. If it has nothing to do with the migration accept the risk %s for this object.", l.Snapshot.Unwell[workload], some(names), CheckHealthFloor)
	return v1alpha1.Blocker{Severity: severity, Reason: CheckHealthFloor, Object: workload, Message: message}
}
