package plan

import (
	"fmt"
	"maps"
	"slices"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// mostNamed is how much is named of one cause; the rest is counted.
const mostNamed = 3

// DrainBlockers turns what is left on a node into blockers: three of a cause, counted beyond that. Pods that the same budgets
// hold back are one.
func DrainBlockers(pool string, d inventory.DrainState) []v1alpha1.Blocker {
	var out []v1alpha1.Blocker
	shown, unnamed := map[inventory.BlockReason]int{}, map[inventory.BlockReason]int{}
	for _, g := range byCause(d.Blocked) {
		reason := g[0].Reason
		if shown[reason]++; shown[reason] > mostNamed {
			unnamed[reason] += len(g)
			continue
		}
		object, message := causeOf(g)
		out = append(out, v1alpha1.Blocker{Severity: severityOf(reason), Reason: string(reason), Object: object, Pool: pool, Message: message})
	}
	for _, reason := range slices.Sorted(maps.Keys(unnamed)) {
		out = append(out, v1alpha1.Blocker{
			Severity: severityOf(reason), Reason: string(reason), Object: "node/" + d.Node, Pool: pool,
			Message: inventory.Count(unnamed[reason], "more pod of this node waits", "more pods of this node wait") + " for the same reason.",
		})
	}
	return out
}

// byCause puts the pods together that one thing keeps; every other one is by itself.
func byCause(pods []inventory.BlockedPod) [][]inventory.BlockedPod {
	var out [][]inventory.BlockedPod
	place := map[string]int{}
	for _, b := range pods {
		cause := sharedCause(b)
		if i, known := place[cause]; known && cause != "" {
			out[i] = append(out[i], b)
			continue
		}
		place[cause] = len(out)
		out = append(out, []inventory.BlockedPod{b})
	}
	return out
}

// sharedCause is what keeps the pod and may keep others: budgets that refuse to let it go, a Deployment that is being restarted, a right
// that castoff lacks. Empty where it is the pod's own.
func sharedCause(b inventory.BlockedPod) string {
	switch b.Reason {
	case inventory.BlockedByPDB, inventory.BlockedByTwoPDBs:
		if len(b.PDBs) > 0 {
			return fmt.Sprint(b.Reason, b.PDBs)
		}
	case inventory.BlockedSurging:
		return string(b.Reason) + b.Workload
	case inventory.BlockedNotSurged:
		return string(b.Reason)
	}
	return ""
}

// causeOf names what holds the pods of one cause, and the pods. A budget or Deployment that holds several of them is the object: it stays
// the same while one pod after the other leaves.
func causeOf(g []inventory.BlockedPod) (object, message string) {
	b := g[0]
	object, message = "pod/"+b.Pod.String(), b.Message
	switch {
	case b.Reason == inventory.BlockedByPDB && len(b.PDBs) == 1:
		object, message = "poddisruptionbudget/"+b.PDBs[0].String(), "Pod "+b.Pod.String()+" "+message
	case b.Reason == inventory.BlockedSurging:
		object, message = b.Workload, "Pod "+b.Pod.String()+" waits: "+message
	case b.Reason == inventory.BlockedNotSurged:
		object, message = surgeRight, "Pod "+b.Pod.String()+" is "+message
	}
	if len(g) > 1 {
		var others []string
		for _, other := range g[1:] {
			others = append(others, other.Pod.String())
		}
		message += ". So do " + some(others)
	}
	return object, message
}

// surgeRight is what has to be changed where a restart is refused, for all Deployments alike: so it is said once.
const surgeRight = "clusterrole/castoff"

// severityOf: what ends by itself is waited for; the rest needs a human, or was asked for by one.
func severityOf(r inventory.BlockReason) v1alpha1.Severity {
	switch r {
	case inventory.BlockedByTwoPDBs, inventory.BlockedBare, inventory.BlockedStuck, inventory.BlockedLocalVolume, inventory.BlockedReturning:
		return v1alpha1.SeverityBlock
	case inventory.BlockedOverridden, inventory.BlockedNotSurged:
		return v1alpha1.SeverityWarn
	}
	return v1alpha1.SeverityWait
}
