package bench

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/castoff-sh/castoff/e2e/watcher"
)

func sample() Report {
	castoff := figuresOf(watcher.Measures{
		Done: true, Makespan: 100040 * time.Millisecond, PodUnavailable: 1050 * time.Second, PodPending: 12 * time.Second, DoublePaid: 900 * time.Second,
		MovedPods: 100, Evicted: 100, Refused: 40, KubernetesWrites: 240, AWSCalls: 60,
	}, 24)
	kubectl := figuresOf(watcher.Measures{Done: true, Makespan: 600 * time.Second, PodUnavailable: 5000 * time.Second, DoublePaid: 1000 * time.Second, Refused: 300, MovedPods: 100}, 24)
	return Report{LowerBoundSeconds: 91, UnavailableFloorSeconds: 1000, Castoff: castoff, KubectlDrain: kubectl}
}

// TestShape holds the report to what those who read it expect.
func TestShape(t *testing.T) {
	body, err := json.Marshal(sample())
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(body, &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"lowerBoundSeconds": 91.0, "unavailableFloorSeconds": 1000.0, "castoffSurge": nil, "drainAll": nil,
		"castoff": map[string]any{"makespanSeconds": 100.0, "podUnavailableSeconds": 1050.0, "podPendingSeconds": 12.0, "pdbFloorBreaches": 0.0, "evictionsRefused": 40.0,
			"movedPods": 100.0, "doublePaidNodeSeconds": 900.0, "kubernetesWritesPerNode": 10.0, "awsCallsPerNode": 2.5, "operatorRssMiBP95": nil},
		"kubectlDrain": map[string]any{"makespanSeconds": 600.0, "podUnavailableSeconds": 5000.0, "podPendingSeconds": 0.0, "pdbFloorBreaches": 0.0, "evictionsRefused": 300.0,
			"movedPods": 100.0, "doublePaidNodeSeconds": 1000.0, "kubernetesWritesPerNode": 0.0, "awsCallsPerNode": 0.0, "operatorRssMiBP95": nil},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestUnfinished(t *testing.T) {
	if f := figuresOf(watcher.Measures{Makespan: time.Minute}, 0); f.MakespanSeconds != nil {
		t.Error("what is not done has no makespan")
	}
}

func TestReadAndWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bench.json")
	if got, err := Read(path); err != nil || got != (Report{}) {
		t.Fatalf("without a file there is nothing yet: %+v, %v", got, err)
	}
	if err := write(path, sample()); err != nil {
		t.Fatal(err)
	}
	got, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sample(), got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path); err == nil {
		t.Error("half a report is an error")
	}
	if err := write(filepath.Join(path, "x"), 1); err == nil {
		t.Error("a file that cannot be written is an error")
	}
}

func TestVerdicts(t *testing.T) {
	met := func(r Report) (out []bool) {
		for _, v := range r.Verdicts() {
			out = append(out, v.Met())
		}
		return out
	}
	cases := map[string]struct {
		reason string
		report func(*Report)
		want   []bool
	}{
		"Met":         {reason: "All four.", report: func(*Report) {}, want: []bool{true, true, true, true}},
		"Slow":        {reason: "105 s are more than 1.15 of 91.", report: func(r *Report) { *r.Castoff.MakespanSeconds = 105 }, want: []bool{false, true, true, true}},
		"Unavailable": {reason: "1101 are more than 1.1 of 1000.", report: func(r *Report) { *r.Castoff.PodUnavailableSeconds = 1101 }, want: []bool{true, false, true, true}},
		"Refused":     {reason: "More than one a pod.", report: func(r *Report) { *r.Castoff.EvictionsRefused = 101 }, want: []bool{true, true, false, true}},
		"Expensive":   {reason: "More than 1.1 of kubectl's.", report: func(r *Report) { *r.Castoff.DoublePaidNodeSeconds = 1101 }, want: []bool{true, true, true, false}},
		"Free":        {reason: "What kubectl's way does not pay twice at all leaves nothing to pay.", report: func(r *Report) { *r.KubectlDrain.DoublePaidNodeSeconds = 0 }, want: []bool{true, true, true, false}},
		"Alone":       {reason: "Without kubectl's figures nothing is compared with them.", report: func(r *Report) { r.KubectlDrain = nil }, want: []bool{true, true, true}},
		"Unfinished":  {reason: "Without a makespan there is none to judge.", report: func(r *Report) { r.Castoff.MakespanSeconds = nil }, want: []bool{true, true, true}},
		"Surge":       {reason: "Surged pods hardly lack.", report: func(r *Report) { r.CastoffSurge = &Figures{PodUnavailableSeconds: rounded(251)} }, want: []bool{true, true, true, true, false}},
		"Nothing":     {reason: "Nothing was measured.", report: func(r *Report) { *r = Report{} }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := sample()
			tc.report(&r)
			if diff := cmp.Diff(tc.want, met(r)); diff != "" {
				t.Errorf("%s\n-want +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestPrint(t *testing.T) {
	var text strings.Builder
	if err := sample().Print(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"makespan, s", "100.0", "600.0", "met", "kubectl drain"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is missing in\n%s", want, text.String())
		}
	}
	lines := strings.Split(text.String(), "\n")
	if !slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, "castoff's memory") && strings.Contains(l, "-") }) {
		t.Errorf("what was not measured is a dash:\n%s", text.String())
	}
}
