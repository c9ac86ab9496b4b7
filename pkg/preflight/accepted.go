package preflight

import (
	"slices"
	"strings"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// The checks of spec.acceptedRisks itself.
const (
	CheckRiskUnused  = "AcceptedRiskUnused"
	CheckRiskUnknown = "AcceptedRiskUnknown"
)

// accept marks the findings that a risk covers; the first that does says why.
func accept(findings []inventory.Finding, accepted []v1alpha1.AcceptedRisk) {
	for i := range findings {
		f := &findings[i]
		for _, a := range accepted {
			if a.Covers(f.Check, f.Object) {
				f.Accepted, f.AcceptedReason = true, a.Reason
				break
			}
		}
	}
}

// accepts says whether the user accepts what the check finds about the object.
func (in Input) accepts(check, object string) bool {
	return slices.ContainsFunc(in.accepted, func(a v1alpha1.AcceptedRisk) bool { return a.Covers(check, object) })
}

// unusedRisks: a risk that was accepted for one object and one day is still there when the next object of that name has the same,
// and nobody is asked then; and one with a typing error accepts nothing, while its author waits. Checks that are not made here are
// known by their names only: what they accept is not looked for. From the start on a risk may have done its work, its pod moved and gone.
func unusedRisks(in Input, findings []inventory.Finding, accepted []v1alpha1.AcceptedRisk) []inventory.Finding {
	var out []inventory.Finding
	for _, a := range accepted {
		object := "acceptedrisk/" + a.Check + "/" + a.Object
		switch {
		case slices.Contains(in.CheckedElsewhere, a.Check):
		case !slices.Contains(Names, a.Check):
			out = append(out, warn(CheckRiskUnknown, object, "castoff has no check "+a.Check+", so this accepts nothing. Did you mean "+likeliest(a.Check, append(slices.Clone(Names), in.CheckedElsewhere...))+"? Correct it in spec.acceptedRisks."))
		case in.Snapshot == nil && !slices.ContainsFunc(findings, func(f inventory.Finding) bool { return a.Covers(f.Check, f.Object) }):
			out = append(out, warn(CheckRiskUnused, object, unusedRisk(a, findings)))
		}
	}
	return out
}

func unusedRisk(a v1alpha1.AcceptedRisk, findings []inventory.Finding) string {
	var others []string
	for _, f := range findings {
		if f.Check == a.Check && !slices.Contains(others, f.Object) {
			others = append(others, f.Object)
		}
	}
	if len(others) > 0 {
		return "Nothing that " + a.Check + " finds is called " + a.Object + " (it finds " + three(others) + "). Correct the object in spec.acceptedRisks, or take the risk out."
	}
	return a.Check + " finds nothing any more. Take the risk out of spec.acceptedRisks, so that nobody overlooks the next thing it would cover."
}

// likeliest is the name with the fewest letters to change, case aside.
func likeliest(name string, names []string) string {
	best, least := "", 0
	for _, n := range names {
		if d := distance(strings.ToLower(name), strings.ToLower(n)); best == "" || d < least {
			best, least = n, d
		}
	}
	return best
}

// distance is Levenshtein's: how many letters to add, take away or change.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0]++
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
