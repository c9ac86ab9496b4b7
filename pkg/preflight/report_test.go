package preflight

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

var update = flag.Bool("update", false, "write the golden reports anew")

func ofWorkload(f inventory.Finding, workload string) inventory.Finding {
	f.Workload = workload
	return f
}

func acceptedAs(f inventory.Finding, reason string) inventory.Finding {
	f.Accepted, f.AcceptedReason = true, reason
	return f
}

func TestText(t *testing.T) {
	var many []inventory.Finding
	for i := range 300 {
		many = append(many, ofWorkload(blocks(CheckLocalVolume, fmt.Sprintf("pod/shop/db-%03d", i), "general", "Its volume is on its node's own disk."), "statefulset/shop/db"))
	}
	warning := warns(CheckNoAutoscaler, "cluster/prod", "", "No Cluster Autoscaler was found.")
	cases := map[string]struct {
		reason   string
		findings []inventory.Finding
	}{
		"nothing":  {reason: "silence could be read as: it did not run"},
		"warnings": {reason: "nothing blocks, and the report says so at its end", findings: []inventory.Finding{warning, acceptedAs(blocks(CheckBarePod, "pod/shop/debug", "general", "Nobody would replace it."), "mine")}},
		"accepted": {reason: "an accepted warning is not shown twice", findings: []inventory.Finding{acceptedAs(warning, "it runs elsewhere")}},
		"whole": {
			reason: "by severity, then pool, then workload; 300 pods of one workload are one entry; what holds most is to be done first",
			findings: append(many,
				blocks(CheckBarePod, "pod/shop/debug", "general", "No controller would bring this pod back. Delete it."),
				blocks(CheckBarePod, "pod/shop/shell", "batch", "No controller would bring this pod back. Delete it."),
				ofWorkload(blocks(CheckBudgetNeverAllows, "poddisruptionbudget/shop/web", "general", "It never allows an eviction. Raise maxUnavailable."), "deployment/shop/web"),
				ofWorkload(warns(CheckSingleton, "deployment/shop/web", "general", "One pod only."), "deployment/shop/web"),
				blocks(CheckHomeTainted, "nodegroup/system", "", "Every node of the home is tainted. Name another."),
				warning,
			),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			path, got := filepath.Join("testdata", "report-"+name+".txt"), Text(tc.findings)
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

// TestTextIsBounded: a ConfigMap holds 1 MiB, and a report that cannot be written says nothing.
func TestTextIsBounded(t *testing.T) {
	long := func(s string) string { return strings.Repeat(s, 4*maxLine/len(s)) }
	e, u, euro, o := long("é"), strings.Repeat("ü", 512), long("€"), long("o")
	cases := map[string]struct {
		reason  string
		finding func(i int) inventory.Finding
	}{
		"EveryPod": {reason: "each for itself", finding: func(i int) inventory.Finding {
			return blocks(CheckBarePod, fmt.Sprintf("pod/team-%d/pod-%d", i%60, i), fmt.Sprintf("p%d", i%64), "No controller would bring this pod back, so castoff does not evict it. Delete it.")
		}},
		"Accepted": {reason: "with its reason", finding: func(i int) inventory.Finding {
			return acceptedAs(blocks(CheckBarePod, fmt.Sprintf("pod/a/%d", i), "", e), u)
		}},
		"Warnings": {reason: "long ones", finding: func(i int) inventory.Finding {
			return warns(CheckNotCarried, fmt.Sprintf("pool/%d", i), "", euro)
		}},
		"EveryKind": {reason: "tasks without end", finding: func(i int) inventory.Finding {
			return blocks(fmt.Sprintf("Check%d", i), o, "", o)
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var all []inventory.Finding
			for i := range 30000 {
				all = append(all, tc.finding(i))
			}
			got := Text(all)
			if len(got) >= 512<<10 {
				t.Errorf("%s: %d bytes", tc.reason, len(got))
			}
			if strings.ToValidUTF8(got, "") != got {
				t.Errorf("%s: a letter was cut in two", tc.reason)
			}
			if !strings.Contains(got, "more, which kubectl castoff plan -o yaml has all of") || !strings.Contains(got, "What to do first") {
				t.Errorf("%s: what was left out is not counted, or the end is missing:\n%s", tc.reason, got[len(got)-1000:])
			}
		})
	}
}

func TestUnusedRisks(t *testing.T) {
	twoBare := sound(pods(pod("debug", bare), pod("shell", bare)))
	twoBare.CheckedElsewhere = []string{"ForeignSize"}
	cases := map[string]struct {
		reason        string
		check, object string
		want          string // check of the warning
		says          []string
	}{
		"Used":         {reason: "it covers something", check: CheckBarePod, object: "pod/shop/debug"},
		"UsedByStar":   {reason: "all of them", check: CheckBarePod, object: "*"},
		"Gone":         {reason: "nothing of the kind is found any more", check: CheckTwoBudgets, object: "pod/shop/web", want: CheckRiskUnused, says: []string{"TwoBudgets finds nothing any more", "Take the risk out"}},
		"OtherObject":  {reason: "the object is written differently: what there is, is named", check: CheckBarePod, object: "pod/debug", want: CheckRiskUnused, says: []string{"pod/debug", "pod/shop/debug, pod/shop/shell"}},
		"TypingError":  {reason: "the check that was meant is named", check: "BarePods", object: "*", want: CheckRiskUnknown, says: []string{"no check BarePods", "BarePod?"}},
		"Case":         {reason: "names are exact, and the nearest is found in spite of it", check: "budgetneverallows", object: "*", want: CheckRiskUnknown, says: []string{"BudgetNeverAllows?"}},
		"AtWork":       {reason: "a check that is made while castoff is at work finds nothing here, and is none the less known", check: "ForeignSize", object: "nodegroup/a"},
		"AtWorkTypo":   {reason: "its name is among those that may be meant", check: "ForeignSizes", object: "nodegroup/a", want: CheckRiskUnknown, says: []string{"ForeignSize?"}},
		"NothingAlike": {reason: "something is always nearest", check: "*", object: "*", want: CheckRiskUnknown, says: []string{"no check *"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got []inventory.Finding
			for _, f := range Run(twoBare, []v1alpha1.AcceptedRisk{{Check: tc.check, Object: tc.object, Reason: "mine"}}) {
				if f.Check == CheckRiskUnused || f.Check == CheckRiskUnknown {
					got = append(got, f)
				}
			}
			if tc.want == "" {
				if len(got) > 0 {
					t.Errorf("%s: %+v", tc.reason, got)
				}
				return
			}
			if len(got) != 1 || got[0].Check != tc.want || got[0].Severity != v1alpha1.SeverityWarn || got[0].Object != "acceptedrisk/"+tc.check+"/"+tc.object {
				t.Fatalf("%s: %+v, want one %s", tc.reason, got, tc.want)
			}
			for _, s := range tc.says {
				if !strings.Contains(got[0].Message, s) {
					t.Errorf("%s: %q does not say %q", tc.reason, got[0].Message, s)
				}
			}
		})
	}
}

// From the start on what was accepted may have moved; a name that accepts nothing never does.
func TestRisksThatDidTheirWork(t *testing.T) {
	started := sound(func(in *Input) { in.Snapshot = &inventory.Snapshot{} })
	var got []string
	for _, f := range Run(started, []v1alpha1.AcceptedRisk{{Check: CheckBarePod, Object: "pod/shop/debug"}, {Check: CheckLocalVolume, Object: "*"}, {Check: "BarePods", Object: "*"}}) {
		got = append(got, f.Check+" "+f.Object)
	}
	if diff := cmp.Diff([]string{CheckRiskUnknown + " acceptedrisk/BarePods/*"}, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestDistance(t *testing.T) {
	cases := map[string]struct {
		reason, a, b string
		want         int
	}{
		"Same":    {"nothing to change", "barepod", "barepod", 0},
		"Empty":   {"all to add", "", "abc", 3},
		"ToEmpty": {"all to take away", "abc", "", 3},
		"Change":  {"one letter", "abc", "axc", 1},
		"Classic": {"the textbook's", "kitten", "sitting", 3},
		"Swap":    {"two changes", "ab", "ba", 2},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := distance(tc.a, tc.b); got != tc.want || distance(tc.b, tc.a) != got {
				t.Errorf("%s: %d, want %d both ways", tc.reason, got, tc.want)
			}
		})
	}
}
