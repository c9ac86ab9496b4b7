package controllers

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/plan"
)

// scraped is what Prometheus would read, as `name{labels}`: value.
func scraped(t *testing.T, mm *migrationMetrics) map[string]float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(mm)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			value := m.GetGauge().GetValue() + m.GetCounter().GetValue() // one of the two is there
			out[fmt.Sprintf("%s{%s}", f.GetName(), strings.Join(labels, ","))] = value
		}
	}
	return out
}

// about are the values of some metrics only.
func about(values map[string]float64, names ...string) map[string]float64 {
	out := maps.Clone(values)
	maps.DeleteFunc(out, func(series string, _ float64) bool {
		name, _, _ := strings.Cut(series, "{")
		return !slices.Contains(names, name)
	})
	return out
}

// of says who serves the one pool.
func of(pool string, scalers ...string) []plan.PoolServing {
	return []plan.PoolServing{{Pool: pool, Scalers: scalers}}
}

func TestSecondsBetweenLooks(t *testing.T) {
	start := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	type look struct {
		after   time.Duration // since the look before
		serving []plan.PoolServing
	}
	cases := map[string]struct {
		reason           string
		looks            []look
		unserved, double float64
		scalers          float64
	}{
		"FirstLook":    {"nobody knows what was before it", []look{{0, of("a")}}, 0, 0, 0},
		"Served":       {"a pool with one scaler adds nothing", []look{{0, of("a", "ca")}, {time.Hour, of("a", "ca")}}, 0, 0, 1},
		"ChangeHands":  {"the time between two looks is what the first of them saw", []look{{0, of("a", "ca")}, {2 * time.Second, of("a")}, {2 * time.Second, of("a")}, {1500 * time.Millisecond, of("a", "np")}, {time.Hour, of("a", "np")}}, 3.5, 0, 1},
		"StillWithout": {"and goes on at the next look", []look{{0, of("a")}, {time.Minute, of("a")}}, 60, 0, 0},
		"Two":          {"two are counted apart", []look{{0, of("a", "ca", "np")}, {3 * time.Second, of("a", "np")}, {time.Hour, of("a", "np")}}, 0, 3, 1},
		"Three":        {"three are as bad as two, and no second counts twice", []look{{0, of("a", "ca", "other", "np")}, {3 * time.Second, of("a", "ca", "np")}}, 0, 3, 2},
		"OtherPool":    {"another pool's seconds are its own", []look{{0, slices.Concat(of("a", "ca"), of("b"))}, {9 * time.Second, slices.Concat(of("a", "ca"), of("b"))}}, 0, 0, 1},
		"ClockBack":    {"a clock that is set back takes nothing away", []look{{0, of("a")}, {5 * time.Second, of("a")}, {-time.Hour, of("a")}}, 5, 0, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			mm, m, now := &migrationMetrics{}, testMigration(), start
			for _, l := range tc.looks {
				now = now.Add(l.after)
				mm.looked(m, now, l.serving)
			}
			got := scraped(t, mm)
			for series, want := range map[string]float64{
				"castoff_unserved_seconds_total": tc.unserved, "castoff_double_served_seconds_total": tc.double, "castoff_single_scaler": tc.scalers,
			} {
				series += "{migration=" + m.Name + ",pool=a}"
				if value, there := got[series]; !there || value != want {
					t.Errorf("%s: %s is %v (there %t), want %v", tc.reason, series, value, there, want)
				}
			}
			if got["castoff_last_look_timestamp_seconds{migration="+m.Name+"}"] != float64(now.UnixMilli())/1000 {
				t.Errorf("%s: the last look is not that of %s: %v", tc.reason, now, got)
			}
		})
	}
}

func TestWhatTheStatusSays(t *testing.T) {
	mm, m := &migrationMetrics{}, testMigration()
	if got := scraped(t, mm); len(got) > 0 {
		t.Errorf("told of a Migration that nobody has heard of: %v", got)
	}
	mm.looked(m, time.Unix(0, 0), nil)
	m.Status.Conditions = []metav1.Condition{
		{Type: v1alpha1.ConditionStalled, Status: metav1.ConditionTrue}, {Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse},
		{Type: v1alpha1.ConditionSingleScaler, Status: metav1.ConditionUnknown},
	}
	m.Status.Blockers = []v1alpha1.Blocker{
		{Severity: v1alpha1.SeverityBlock, Reason: "GateFailed", Object: "gate/a"}, {Severity: v1alpha1.SeverityBlock, Reason: "GateFailed", Object: "gate/b"},
		{Severity: v1alpha1.SeverityWait, Reason: "GateUnknown", Object: "gate/c"},
	}
	mm.told(m, time.Unix(0, 0))
	want := map[string]float64{
		"castoff_migration_blockers{migration=" + m.Name + ",reason=GateFailed,severity=Block}": 2,
		"castoff_migration_blockers{migration=" + m.Name + ",reason=GateUnknown,severity=Wait}": 1,
	}
	for _, kind := range v1alpha1.ConditionTypes {
		want["castoff_migration_condition{condition="+kind+",migration="+m.Name+"}"] = 0
	}
	want["castoff_migration_condition{condition=Stalled,migration="+m.Name+"}"] = 1
	if diff := cmp.Diff(want, about(scraped(t, mm), "castoff_migration_blockers", "castoff_migration_condition")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	m.Status.Blockers[0].Reason = "Changed" // what was told is a copy
	mm.told(testMigration(), time.Unix(0, 0))
	if got := scraped(t, mm); len(about(got, "castoff_migration_blockers")) > 0 {
		t.Errorf("blockers that are gone are told of: %v", got)
	}
}

func TestAMigrationOfTheSameNameStartsAnew(t *testing.T) {
	mm, m := &migrationMetrics{}, testMigration()
	mm.looked(m, time.Unix(0, 0), of("a"))
	mm.looked(m, time.Unix(60, 0), of("a"))
	m.UID = "another"
	mm.told(m, time.Unix(90, 0)) // nothing of its predecessor's is its own
	mm.looked(m, time.Unix(120, 0), of("a", "ca"))
	if got := scraped(t, mm)["castoff_unserved_seconds_total{migration="+m.Name+",pool=a}"]; got != 0 {
		t.Errorf("the new one begins with %v seconds of the old one", got)
	}
	mm.forget(m.Name)
	if got := scraped(t, mm); len(got) > 0 {
		t.Errorf("a Migration that is gone is told of: %v", got)
	}
}

// TestMetricsOfAWholeMigration: there and back, what is told agrees with what the world itself measured at every look.
func TestMetricsOfAWholeMigration(t *testing.T) {
	w := newWorld(t)
	apply(t, w)
	r := w.reconciler()
	run := func(wanted place) {
		for range mostLooks {
			result, err, _ := reconcileOnce(r)
			if err != nil {
				t.Fatal(err)
			}
			if wanted(w) {
				return
			}
			w.advance(min(max(result.RequeueAfter, tick), 5*time.Second))
		}
		t.Fatal("the migration does not end")
	}
	judge := func(where string) {
		t.Helper()
		got := scraped(t, &r.metrics)
		for _, pool := range testPools {
			if n := got["castoff_single_scaler{migration=prod,pool="+pool+"}"]; n != 1 {
				t.Errorf("%s: %v scalers of %s, want 1", where, n, pool)
			}
			if s := got["castoff_double_served_seconds_total{migration=prod,pool="+pool+"}"]; s != 0 {
				t.Errorf("%s: %s had two scalers for %vs", where, pool, s)
			}
		}
		if got["castoff_migration_condition{condition=Ready,migration=prod}"] != 1 || got["castoff_migration_condition{condition=Stalled,migration=prod}"] != 0 {
			t.Errorf("%s: it is not told to be Ready: %v", where, got)
		}
	}
	unserved := func() float64 {
		return scraped(t, &r.metrics)["castoff_unserved_seconds_total{migration=prod,pool=general}"]
	}
	run(isCompleted)
	judge("completed")
	there := unserved()
	if there <= 0 || math.Abs(there-w.longest.Seconds()) > 3 {
		t.Errorf("the hand-over took %vs without a scaler by the metrics, and %s by the world", there, w.longest)
	}
	for range 5 { // a finished Migration stays as it is
		w.advance(time.Minute)
		if _, err, _ := reconcileOnce(r); err != nil {
			t.Fatal(err)
		}
	}
	judge("an hour later")
	if unserved() != there {
		t.Errorf("a finished migration counts on: %v, then %v", there, unserved())
	}
	w.user(rollBack)
	run(isRolledBack)
	judge("rolled back")
	w.must(w.c.delete(w.migration()))
	run(isGone)
	if _, err, _ := reconcileOnce(r); err != nil {
		t.Fatal(err)
	}
	if got := scraped(t, &r.metrics); len(got) > 0 {
		t.Errorf("the Migration is gone, and its series are not: %v", got)
	}
}

// awsIsAway fails the read that every look begins with.
func awsIsAway(call string) error {
	if call == "Cluster" || call == "List" {
		return errors.New("AWS is away")
	}
	return nil
}

// TestMetricsOfALookThatFails: what is told is what the status says, and the pools' scalers stay those of the last look.
func TestMetricsOfALookThatFails(t *testing.T) {
	w := newWorld(t)
	apply(t, w)
	r := w.reconciler()
	if _, err, _ := reconcileOnce(r); err != nil {
		t.Fatal(err)
	}
	before := about(scraped(t, &r.metrics), "castoff_single_scaler", "castoff_last_look_timestamp_seconds")
	w.fault = awsIsAway
	w.advance(time.Minute)
	if _, err, _ := reconcileOnce(r); err == nil {
		t.Fatal("a look without AWS succeeds")
	}
	got := scraped(t, &r.metrics)
	if diff := cmp.Diff(before, about(got, "castoff_single_scaler", "castoff_last_look_timestamp_seconds")); diff != "" {
		t.Errorf("a look that failed changed what was seen: %s", diff)
	}
	if got["castoff_migration_condition{condition=Ready,migration=prod}"] != 0 || len(about(got, "castoff_single_scaler")) != len(testPools) {
		t.Errorf("not every pool is told of: %v", got)
	}
}

// TestMetricsOfAProcessThatCannotLook: it says since when it tries, so that an alert can tell, and nothing of pools that it has not seen.
func TestMetricsOfAProcessThatCannotLook(t *testing.T) {
	w := newWorld(t)
	apply(t, w)
	r, began := w.reconciler(), w.now
	w.fault = awsIsAway
	for range 3 {
		if _, err, _ := reconcileOnce(r); err == nil {
			t.Fatal("a look without AWS succeeds")
		}
		w.advance(time.Minute)
	}
	got := scraped(t, &r.metrics)
	if at := got["castoff_last_look_timestamp_seconds{migration=prod}"]; at != float64(began.Unix()) {
		t.Errorf("it says that it looked at %v, and it tries since %d", at, began.Unix())
	}
	if pools := about(got, "castoff_single_scaler", "castoff_unserved_seconds_total"); len(pools) > 0 {
		t.Errorf("it tells of pools that it has not seen: %v", pools)
	}
	if got["castoff_migration_condition{condition=Reconciling,migration=prod}"] != 1 {
		t.Errorf("the conditions are not told: %v", got)
	}
}

// TestScrapesWhileItWorks has the race detector look on.
func TestScrapesWhileItWorks(t *testing.T) {
	mm, m := &migrationMetrics{}, testMigration()
	var scrapes sync.WaitGroup
	for range 4 {
		scrapes.Go(func() {
			for range 50 {
				scraped(t, mm)
			}
		})
	}
	for i := range 200 {
		mm.looked(m, time.Unix(int64(i), 0), of("a"))
		mm.told(m, time.Unix(0, 0))
	}
	scrapes.Wait()
	if got := scraped(t, mm)["castoff_unserved_seconds_total{migration="+m.Name+",pool=a}"]; got != 199 {
		t.Errorf("%v seconds in 199", got)
	}
}

func TestMetricsAreNamedAsPrometheusWants(t *testing.T) {
	mm, m := &migrationMetrics{}, testMigration()
	mm.looked(m, time.Unix(0, 0), of("a"))
	m.Status.Blockers = []v1alpha1.Blocker{{Severity: v1alpha1.SeverityBlock, Reason: "GateFailed"}}
	mm.told(m, time.Unix(0, 0))
	registry := prometheus.NewRegistry()
	registry.MustRegister(mm, actionsTotal)
	actionsTotal.WithLabelValues("Test", "Done")
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %+v", err, problems)
	}
	page, err := os.ReadFile("../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		var labels []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, "`"+l.GetName()+"`")
		}
		row := slices.IndexFunc(strings.Split(string(page), "\n"), func(line string) bool {
			return strings.HasPrefix(line, "| `"+f.GetName()+"`") && !slices.ContainsFunc(labels, func(l string) bool { return !strings.Contains(line, l) })
		})
		if row < 0 {
			t.Errorf("docs/reference/metrics.md has no row of %s with %v", f.GetName(), labels)
		}
	}
}
