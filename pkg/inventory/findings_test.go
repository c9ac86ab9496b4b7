package inventory

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/castoff-sh/castoff/api/v1alpha1"
)

func blocking(check, object, pool, workload string) Finding {
	return Finding{Check: check, Severity: v1alpha1.SeverityBlock, Object: object, Pool: pool, Workload: workload, Message: check + " is wrong."}
}

func warned(f Finding) Finding {
	f.Severity = v1alpha1.SeverityWarn
	return f
}

func accepted(f Finding, reason string) Finding {
	f.Accepted, f.AcceptedReason = true, reason
	return f
}

func TestGroupFindings(t *testing.T) {
	other := blocking("A", "pod/a", "p", "")
	other.Message = "Something else is wrong."
	cases := map[string]struct {
		reason   string
		findings []Finding
		want     []string
	}{
		"None":       {reason: "nothing to group"},
		"OneWork":    {reason: "the pods of one workload are one entry", findings: []Finding{blocking("A", "pod/1", "p", "deployment/w"), blocking("A", "pod/2", "p", "deployment/w"), blocking("A", "pod/3", "p", "deployment/w")}, want: []string{"A p pod/1 and 2 more"}},
		"TwoPools":   {reason: "each pool for itself: they are shifted one after the other", findings: []Finding{blocking("A", "pod/1", "q", "deployment/w"), blocking("A", "pod/2", "p", "deployment/w")}, want: []string{"A p pod/2", "A q pod/1"}},
		"NoWorkload": {reason: "objects that belong to nothing stay apart", findings: []Finding{blocking("A", "pod/1", "p", ""), blocking("A", "pod/2", "p", "")}, want: []string{"A p pod/1", "A p pod/2"}},
		"TwoWrongs":  {reason: "one object may have several things wrong", findings: []Finding{blocking("A", "pod/a", "p", ""), other}, want: []string{"A p pod/a", "A p pod/a"}},
		"Accepted":   {reason: "what is accepted is not what blocks, and what is accepted for another reason is told apart", findings: []Finding{accepted(blocking("A", "pod/1", "p", "w"), "x"), accepted(blocking("A", "pod/2", "p", "w"), "y"), blocking("A", "pod/3", "p", "w")}, want: []string{"A p pod/3", "A p pod/1", "A p pod/2"}},
		"Order":      {reason: "severity, the cluster's own, pools, workloads, and then as the checks came", findings: []Finding{warned(blocking("W", "x", "", "")), blocking("C", "b", "p", ""), blocking("B", "a", "p", ""), blocking("A", "a", "p", ""), blocking("D", "cluster", "", "")}, want: []string{"D  cluster", "B p a", "A p a", "C p b", "W  x"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, g := range GroupFindings(tc.findings) {
				got = append(got, fmt.Sprintf("%s %s %s", g.Check, g.Pool, g.What()))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

func TestTasks(t *testing.T) {
	cases := map[string]struct {
		reason   string
		findings []Finding
		want     []string
	}{
		"None":     {reason: "warnings and what is accepted need nobody", findings: []Finding{warned(blocking("W", "x", "", "")), accepted(blocking("A", "x", "", ""), "mine")}},
		"Reach":    {reason: "what holds every pool first, then what holds most", findings: []Finding{blocking("One", "a", "p", ""), blocking("Two", "a", "p", ""), blocking("Two", "a", "q", ""), blocking("All", "cluster", "", "")}, want: []string{"All: 1 holds every pool", "Two: 2 holds pools p, q", "One: 1 holds pool p"}},
		"Cheapest": {reason: "of what holds as many, the least work", findings: []Finding{blocking("Much", "a", "p", ""), blocking("Much", "b", "p", ""), blocking("Little", "c", "p", "")}, want: []string{"Little: 1 holds pool p", "Much: 2 holds pool p"}},
		"Workload": {reason: "300 pods of one Deployment are one thing to mend", findings: []Finding{blocking("A", "1", "p", "w"), blocking("A", "2", "p", "w"), blocking("B", "1", "p", ""), blocking("B", "2", "p", "")}, want: []string{"A: 1 holds pool p", "B: 2 holds pool p"}},
		"Mixed":    {reason: "a check that blocks the cluster and a pool holds all", findings: []Finding{blocking("A", "1", "p", ""), blocking("A", "cluster", "", "")}, want: []string{"A: 2 holds every pool"}},
		"Many":     {reason: "more than three pools are counted", findings: []Finding{blocking("A", "1", "p", ""), blocking("A", "2", "q", ""), blocking("A", "3", "r", ""), blocking("A", "4", "s", "")}, want: []string{"A: 4 holds 4 pools"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, task := range Tasks(tc.findings) {
				got = append(got, fmt.Sprintf("%s: %d holds %s", task.First.Check, task.Objects, task.Holds()))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

func TestTally(t *testing.T) {
	got := TallyOf([]Finding{blocking("A", "1", "", ""), accepted(blocking("A", "2", "", ""), "x"), accepted(warned(blocking("A", "3", "", "")), "x"), warned(blocking("A", "4", "", ""))})
	if diff := cmp.Diff(Tally{Blocks: 1, Accepted: 2, Warns: 1}, got); diff != "" || got.String() != "1 block, 2 accepted, 1 worth knowing" {
		t.Errorf("%s: -want +got\n%s", got, diff)
	}
}
