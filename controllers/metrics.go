package controllers

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/plan"
)

// actionsTotal counts the changes that castoff made, by kind and outcome.
var actionsTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "castoff_actions_total",
	Help: "Changes that castoff made or tried to make, by kind and outcome (Done, Retry, Throttled, Terminal).",
}, []string{"kind", "outcome"})

func init() { metrics.Registry.MustRegister(actionsTotal) }

// outcomeOf is Done, or the class of the error.
func outcomeOf(err error) inventory.Class {
	if err == nil {
		return "Done"
	}
	return inventory.ClassOf(err)
}

// What is told of Migrations; docs/reference/metrics.md explains each.
var (
	singleScalerDesc = prometheus.NewDesc("castoff_single_scaler",
		"Working scalers that serve the pool at the last look: 1 is right, 0 is none, 2 and more launch for the same pods.", []string{"migration", "pool"}, nil)
	unservedDesc = prometheus.NewDesc("castoff_unserved_seconds_total",
		"Seconds in which the pool had no working scaler, as far as this process looked.", []string{"migration", "pool"}, nil)
	doubleServedDesc = prometheus.NewDesc("castoff_double_served_seconds_total",
		"Seconds in which the pool had two working scalers or more, as far as this process looked.", []string{"migration", "pool"}, nil)
	conditionDesc = prometheus.NewDesc("castoff_migration_condition",
		"1 where the Migration's condition is True, 0 where it is False or Unknown.", []string{"migration", "condition"}, nil)
	blockersDesc = prometheus.NewDesc("castoff_migration_blockers",
		"What the Migration's status lists under blockers, by severity (Block, Wait, Warn) and reason.", []string{"migration", "severity", "reason"}, nil)
	lastLookDesc = prometheus.NewDesc("castoff_last_look_timestamp_seconds",
		"When the cluster was last looked at for the Migration, or first tried to be, in Unix time.", []string{"migration"}, nil)
)

// migrationMetrics is what Prometheus is told of the Migrations that this process drives: it starts from nothing in a new process, as
// counters do. A Migration that is gone is told of no more. The zero value is ready for use.
type migrationMetrics struct {
	mu sync.Mutex // guards all: Prometheus asks while the controller works
	of map[string]*migrationRecord
}

// Metrics are those of the Migrations that this process drives, to be registered once.
func (r *Reconciler) Metrics() prometheus.Collector { return &r.metrics }

// migrationRecord is what is told of one Migration.
type migrationRecord struct {
	uid     types.UID
	looked  time.Time
	serving []plan.PoolServing
	// unserved and double are how long each pool had no scaler, or several.
	unserved, double map[string]time.Duration
	status           v1alpha1.MigrationStatus
}

// looked notes who served the pools at that time. Until the next look that is taken to stay so: what changes in between is seen by
// watches within a second where it is Cluster Autoscaler's or a node's, and at the next look otherwise.
func (mm *migrationMetrics) looked(m *v1alpha1.Migration, at time.Time, serving []plan.PoolServing) {
	mm.mu.Lock()
	defer mm.mu.Unlock()
	r := mm.record(m, at)
	since := max(0, at.Sub(r.looked)) // a clock may be set back
	for _, s := range r.serving {
		switch {
		case s.Unserved():
			r.unserved[s.Pool] += since
		case s.DoubleServed():
			r.double[s.Pool] += since
		}
	}
	r.looked, r.serving = at, serving
}

// told notes the status that is written at that time, after a look that failed as well.
func (mm *migrationMetrics) told(m *v1alpha1.Migration, at time.Time) {
	mm.mu.Lock()
	defer mm.mu.Unlock()
	m.Status.DeepCopyInto(&mm.record(m, at).status)
}

// record of a Migration. One that begins without a look that succeeded says that there was none since then.
func (mm *migrationMetrics) record(m *v1alpha1.Migration, at time.Time) *migrationRecord {
	if r := mm.of[m.Name]; r != nil && r.uid == m.UID {
		return r
	}
	if mm.of == nil {
		mm.of = map[string]*migrationRecord{}
	}
	r := &migrationRecord{uid: m.UID, looked: at, unserved: map[string]time.Duration{}, double: map[string]time.Duration{}}
	mm.of[m.Name] = r
	return r
}

// forget tells no more of a Migration that is gone.
func (mm *migrationMetrics) forget(name string) {
	mm.mu.Lock()
	defer mm.mu.Unlock()
	delete(mm.of, name)
}

// Describe is prometheus.Collector's.
func (mm *migrationMetrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{singleScalerDesc, unservedDesc, doubleServedDesc, conditionDesc, blockersDesc, lastLookDesc} {
		to <- d
	}
}

// Collect is prometheus.Collector's.
func (mm *migrationMetrics) Collect(to chan<- prometheus.Metric) {
	mm.mu.Lock()
	defer mm.mu.Unlock()
	for name, r := range mm.of {
		to <- gauge(lastLookDesc, float64(r.looked.UnixMilli())/1000, name)
		for _, s := range r.serving {
			to <- gauge(singleScalerDesc, float64(len(s.Scalers)), name, s.Pool)
			to <- prometheus.MustNewConstMetric(unservedDesc, prometheus.CounterValue, r.unserved[s.Pool].Seconds(), name, s.Pool)
			to <- prometheus.MustNewConstMetric(doubleServedDesc, prometheus.CounterValue, r.double[s.Pool].Seconds(), name, s.Pool)
		}
		r.collectStatus(to, name)
	}
}

func (r *migrationRecord) collectStatus(to chan<- prometheus.Metric, name string) {
	for _, kind := range v1alpha1.ConditionTypes {
		value := 0.0
		if meta.IsStatusConditionTrue(r.status.Conditions, kind) {
			value = 1
		}
		to <- gauge(conditionDesc, value, name, kind)
	}
	type cause struct{ severity, reason string }
	count := map[cause]float64{}
	for _, b := range r.status.Blockers {
		count[cause{string(b.Severity), b.Reason}]++
	}
	for c, n := range count {
		to <- gauge(blockersDesc, n, name, c.severity, c.reason)
	}
}

// gauge makes one value; only a wrong number of labels could fail, and those are written above.
func gauge(d *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}
