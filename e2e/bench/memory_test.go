package bench

import (
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/castoff-sh/castoff/e2e/runner"
)

func TestPercentile(t *testing.T) {
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[i] = float64(100 - i)
	}
	cases := map[string]struct {
		reason  string
		samples []float64
		share   float64
		want    float64
	}{
		"None":    {reason: "Nothing has no percentile.", share: 0.95},
		"One":     {reason: "One sample is all.", samples: []float64{7}, share: 0.95, want: 7},
		"Hundred": {reason: "Five of a hundred may be more.", samples: hundred, share: 0.95, want: 95},
		"Most":    {reason: "All of them.", samples: hundred, share: 1, want: 100},
		"Least":   {reason: "The smallest there is.", samples: hundred, share: 0, want: 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := percentile(tc.samples, tc.share); got != tc.want {
				t.Errorf("%s\npercentile() = %v, want %v", tc.reason, got, tc.want)
			}
		})
	}
}

const exposition = `# HELP process_resident_memory_bytes Resident memory size in bytes.
# TYPE process_resident_memory_bytes gauge
process_resident_memory_bytes 1.048576e+08
controller_runtime_reconcile_time_seconds_bucket{controller="migration",le="0.5"} 3
controller_runtime_reconcile_time_seconds_bucket{controller="migration",le="2"} 9
controller_runtime_reconcile_time_seconds_bucket{controller="migration",le="10"} 9
controller_runtime_reconcile_time_seconds_bucket{controller="migration",le="+Inf"} 9
controller_runtime_reconcile_time_seconds_bucket{controller="idle",le="0.5"} 0
controller_runtime_reconcile_time_seconds_bucket{controller="idle",le="+Inf"} 0
nonsense
`

func TestSeries(t *testing.T) {
	all, err := series(strings.NewReader(exposition))
	if err != nil {
		t.Fatal(err)
	}
	if all[residentMemory] != 100<<20 || len(all) != 7 {
		t.Errorf("%d samples, memory %v", len(all), all[residentMemory])
	}
	if got := longestBucket(all, reconcileTime); got != 2 {
		t.Errorf("the longest of nine lasted at most %v s, want 2", got)
	}
	all[reconcileTime+`_bucket{controller="idle",le="+Inf"}`] = 1
	if got := longestBucket(all, reconcileTime); !math.IsInf(got, 1) {
		t.Errorf("one that fits no bucket lasted nobody knows how long, got %v", got)
	}
	if got := longestBucket(all, "another"); got != 0 {
		t.Errorf("a histogram that is not there: %v", got)
	}
}

// replica is a process that says how much memory it has.
func replica(t *testing.T, mib int, status int) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		fmt.Fprintf(w, "%s %d\n", residentMemory, mib<<20)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestGauge(t *testing.T) {
	castoff := []runner.Usage{
		{Namespace: "castoff-system", Name: "castoff-a", MetricsURL: replica(t, 80, http.StatusOK)},
		{Namespace: "castoff-system", Name: "castoff-b", MetricsURL: replica(t, 60, http.StatusOK)},
		{Namespace: "castoff-system", Name: "castoff-c", MetricsURL: replica(t, 500, http.StatusInternalServerError)},
		{Namespace: "castoff-system", Name: "gone"},
		{Namespace: "kube-system", Name: "karpenter", MetricsURL: replica(t, 300, http.StatusOK)},
	}
	g := &gauge{usage: func() []runner.Usage { return castoff }, namespace: "castoff-system"}
	if g.p95() != nil {
		t.Error("before the first sample nothing is known")
	}
	g.sample(t.Context())
	castoff = nil
	g.sample(t.Context())
	want := 80.0
	if diff := cmp.Diff(&want, g.p95()); diff != "" {
		t.Errorf("the larger of castoff's replicas counts (-want +got):\n%s", diff)
	}
}
