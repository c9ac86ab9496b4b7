package main

import (
	"strings"
	"testing"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/pkg/cost"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// flat is text without its line breaks, so that a sentence can be looked for.
func flat(s string) string { return strings.Join(strings.Fields(s), " ") }

// What the numbers leave out is said beside them, and only where it is so.
func TestWhatTheNumbersLeaveOut(t *testing.T) {
	const (
		noPrice  = "No price is known of"
		unplaced = "on no instance type of the pool beside its DaemonSets"
		guessed  = "Which nodes of a mixed group are spot is told by its policy's shares"
		overlap  = "Overlap, paid once"
		missing  = "Not counted, for lack of a NodePool that names its instance types"
		how      = "How it was computed"
	)
	all := []string{noPrice, unplaced, guessed, overlap, missing, how}
	whole := cost.Estimate{Today: cost.Side{OnDemand: cost.Bill{Nodes: 2, USD: 2}}, After: cost.Side{OnDemand: cost.Bill{Nodes: 1, USD: 1}}}
	with := func(change func(*cost.Estimate)) cost.Estimate {
		e := whole
		change(&e)
		return e
	}
	cases := map[string]struct {
		reason     string
		estimate   cost.Estimate
		notCounted []string
		want       []string // of all, besides how
		says       string
	}{
		"Whole":    {"nothing is left out", whole, nil, nil, "A month of 730 hours: $1460 today, $730 after."},
		"Change":   {"half", whole, nil, nil, "-50 %"},
		"NoPrice":  {"what is half known is not compared", with(func(e *cost.Estimate) { e.Unpriced = []string{"u-1.metal", "x.large"} }), nil, []string{noPrice}, "No price is known of u-1.metal, x.large: the sums leave them out, and are not compared. Prices are those of Linux on shared tenancy, on demand and spot, in US dollars."},
		"OnePod":   {"one fits", with(func(e *cost.Estimate) { e.Unplaced = 1 }), nil, []string{unplaced}, "1 pod fits on no instance type"},
		"Pods":     {"several fit", with(func(e *cost.Estimate) { e.Unplaced = 7 }), nil, []string{unplaced}, "7 pods fit on no instance type"},
		"Guessed":  {"a number that rests on a share says so", with(func(e *cost.Estimate) { e.Guessed = true }), nil, []string{guessed}, "where no label of the node says"},
		"Overlap":  {"what is paid twice", with(func(e *cost.Estimate) { e.Overlap = cost.Overlap{Nodes: 2, Hours: 1.5, USD: 0.4} }), nil, []string{overlap}, "at most 2 nodes more at a time, about 1.5 hours, $0.40"},
		"Missing":  {"pools that are not in the sum", whole, []string{"own", "other"}, []string{missing}, missing + ": own, other."},
		"AllOfIt":  {"everything at once", with(func(e *cost.Estimate) { e.Unpriced, e.Unplaced, e.Guessed, e.Overlap.Nodes = []string{"x"}, 2, true, 1 }), []string{"own"}, []string{noPrice, unplaced, guessed, overlap, missing}, ""},
		"FromZero": {"a pool without nodes has no change", cost.Estimate{}, nil, nil, "$0 today, $0 after"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := flat(textOf(t, document{Cluster: "prod", Home: "system", Region: "us-east-1", Cost: &tc.estimate, NotCounted: tc.notCounted}))
			for _, note := range all {
				want := note == how
				for _, w := range tc.want {
					want = want || note == w
				}
				if strings.Contains(got, note) != want {
					t.Errorf("%s: %q is there: %t, want %t\n%s", tc.reason, note, !want, want, got)
				}
			}
			if !strings.Contains(got, tc.says) {
				t.Errorf("%s: want %q in\n%s", tc.reason, tc.says, got)
			}
		})
	}
}

// Pools for which the price list has no price are named, in the sums they have no part, and no pod of theirs is said to find no node.
func TestPoolsWithoutAPrice(t *testing.T) {
	requirement := func(key string, values ...string) func(*inventory.Target) {
		return func(t *inventory.Target) {
			r := &t.NodePool.Spec.Template.Spec.Requirements
			*r = append(*r, karpv1.NodeSelectorRequirementWithMinValues{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values})
		}
	}
	cases := map[string]struct {
		reason string
		change func(*inventory.Target)
	}{
		"Windows":   {"a licence is in its price", requirement(corev1.LabelOSStable, "windows")},
		"Dedicated": {"dedicated instances have another", requirement(awsv1.LabelInstanceTenancy, "dedicated")},
		"Reserved": {"capacity that is paid for already", func(t *inventory.Target) {
			t.NodePool.Spec.Template.Spec.Requirements[1].Values = []string{karpv1.CapacityTypeReserved}
		}},
		"Unknown": {"a type that is not on the list", func(t *inventory.Target) {
			t.NodePool.Spec.Template.Spec.Requirements[0].Values = []string{"m9.large"}
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := fleet()
			w.Pools, w.Findings = w.Pools[:1], nil
			target := w.Targets["general"]
			tc.change(&target)
			w.Targets["general"] = target
			d := documentOf(t, w, listed, podsOf(w)...)
			if d.Cost == nil || len(d.Cost.Unpriced) != 1 || d.Cost.Unplaced != 0 || d.Cost.Comparable() {
				t.Fatalf("%s: %+v", tc.reason, d.Cost)
			}
			got := flat(textOf(t, d))
			if !strings.Contains(got, "No price is known of "+d.Cost.Unpriced[0]) || strings.Contains(got, "find no node") || !strings.Contains(got, "cost has no say in this") {
				t.Errorf("%s:\n%s", tc.reason, got)
			}
			if d.Verdict == nil || d.Verdict.Advice != cost.Migrate {
				t.Errorf("%s: %+v", tc.reason, d.Verdict)
			}
		})
	}
}
