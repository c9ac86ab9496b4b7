package plan

import (
	"cmp"
	"maps"
	"slices"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// checkRiskUnused is the preflight's word, too. Here it is said while castoff is at work.
const checkRiskUnused = "AcceptedRiskUnused"

// Passed is what castoff would have stopped at, had the user not accepted it.
type Passed struct{ Check, Object string }

// covers says that spec.acceptedRisks has it.
func (l look) covers(check, object string) bool {
	return slices.ContainsFunc(l.m.Spec.AcceptedRisks, func(a v1alpha1.AcceptedRisk) bool { return a.Covers(check, object) })
}

// accepts says the same where something is about to stop for it, and notes that it passes.
func (l look) accepts(check, object string) bool {
	if !l.covers(check, object) {
		return false
	}
	l.passed[Passed{check, object}] = true
	return true
}

// allPassed is all that accepted risks let pass at this look, in the order of names: what a phase asked about, and what of pods and
// groups the drain and the sizes go by.
func allPassed(l look) []Passed {
	for i := range l.Nodes {
		d, drains := l.Drains[l.Nodes[i].Name]
		for _, b := range d.Blocked {
			if drains {
				l.passPod(allowance(l, l.Nodes[i]), b)
			}
		}
	}
	for _, p := range l.pools {
		for _, g := range p.groups {
			if recorded, ok := l.Snapshot.Group(g.Name); ok && (foreignMin(g, recorded.Group) || foreignMax(g, recorded.Group)) {
				l.accepts(CheckForeignSize, "nodegroup/"+g.Name)
			}
		}
	}
	return slices.SortedFunc(maps.Keys(l.passed), func(a, b Passed) int {
		return cmp.Or(cmp.Compare(a.Check, b.Check), cmp.Compare(a.Object, b.Object))
	})
}

// passPod notes by which risks a pod goes that would stay.
func (l look) passPod(allow inventory.DrainAllowance, b inventory.BlockedPod) {
	if allow.Allows(b) {
		for _, object := range heldObjects(b) {
			l.accepts(string(b.Reason), object)
		}
	}
	if allow.Overrides(b) {
		for _, pdb := range b.PDBs {
			l.accepts(CheckBudgetOverride, "poddisruptionbudget/"+pdb.String())
		}
	}
}

// heldObjects are the names by which a risk may be about the pod.
func heldObjects(b inventory.BlockedPod) []string {
	out := []string{"pod/" + b.Pod.String()}
	if b.Workload != "" {
		out = append(out, b.Workload)
	}
	if b.Volume != "" {
		out = append(out, "persistentvolume/"+b.Volume)
	}
	return out
}

// unusedRisks names risks that nothing now held up is called by, while something that nobody accepted is held up by the same check: a
// typing error accepts nothing, and its author waits. One a check. Before the snapshot the preflight tells of it; and a risk by whose
// check nothing is held up may have done its work, or be for later.
func unusedRisks(l look, blockers []v1alpha1.Blocker, passed []Passed) []v1alpha1.Blocker {
	if l.Snapshot == nil {
		return nil
	}
	unused := map[string][]string{}
	for _, a := range l.m.Spec.AcceptedRisks {
		if !slices.ContainsFunc(passed, func(p Passed) bool { return a.Covers(p.Check, p.Object) }) {
			unused[a.Check] = append(unused[a.Check], a.Object)
		}
	}
	o, held := outcome{}, l.heldByCheck(blockers)
	for _, check := range slices.Sorted(maps.Keys(unused)) {
		if others, objects := held[check], unused[check]; len(others) > 0 {
			o.warn(checkRiskUnused, "acceptedrisk/"+check+"/"+objects[0], "Nothing that "+check+" holds up now is called "+some(objects)+". It holds up "+
				some(others)+", which nobody accepts. If that is what is meant, correct the object in spec.acceptedRisks.")
		}
	}
	return o.blockers
}

// heldByCheck are the objects that something is held up by and that nobody accepts, by the check that a risk would name.
func (l look) heldByCheck(blockers []v1alpha1.Blocker) map[string][]string {
	out := map[string][]string{}
	add := func(check string, names ...string) {
		covered := slices.ContainsFunc(names, func(name string) bool { return l.covers(check, name) })
		if !covered && !slices.Contains(out[check], names[0]) {
			out[check] = append(out[check], names[0])
		}
	}
	drained := map[string]bool{}
	for _, node := range slices.Sorted(maps.Keys(l.Drains)) {
		for _, b := range l.Drains[node].Blocked {
			drained[string(b.Reason)] = true
			add(string(b.Reason), heldObjects(b)...)
			for _, pdb := range b.PDBs {
				add(CheckBudgetOverride, "poddisruptionbudget/"+pdb.String())
			}
		}
	}
	for _, b := range blockers {
		if b.Severity != v1alpha1.SeverityWarn && !drained[b.Reason] {
			add(b.Reason, b.Object)
		}
	}
	return out
}
