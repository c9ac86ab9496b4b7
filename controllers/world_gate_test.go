package controllers

import (
	"context"
	"errors"
	"time"

	quantity "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// monitoring is a Prometheus and what it measures. All times are from the first time on that it is asked.
type monitoring struct {
	// away: nobody answers. late: every other answer comes too late. fails: what is measured is out of the gate's range.
	away, late, fails time.Duration

	first time.Time
	asked int
	// held says that somebody was told that the gate holds.
	held bool
}

// gated asks for less than a tenth of errors before the next pool.
func gated(m *v1alpha1.Migration) {
	m.Spec.Strategy.Gates = []v1alpha1.Gate{{Name: "errors", URL: "http://prometheus:9090", Query: "errors", Max: ptr.To(quantity.MustParse("100m"))}}
}

// gatePort is the port to that Prometheus. Looks ask in parallel to their other reads.
type gatePort struct{ w *world }

func (p gatePort) Query(context.Context, string, string) ([]inventory.Sample, error) {
	if err := p.w.read("Query"); err != nil {
		return nil, err
	}
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	m := &p.w.monitoring
	if m.first.IsZero() {
		m.first = p.w.now
	}
	m.asked++
	since := p.w.now.Sub(m.first)
	switch {
	case since < m.away:
		return nil, errors.New("connection refused")
	case since < m.late && m.asked%2 == 1:
		return nil, context.DeadlineExceeded
	case since < m.fails:
		return []inventory.Sample{{Series: `{service="cart"}`, Value: 0.5}}, nil
	}
	m.held = true
	return []inventory.Sample{{Series: `{service="cart"}`, Value: 0.01}}, nil
}

// judgeGate says whether a drain begins in one pool though another one is drained and no gate was seen to hold.
func (w *world) judgeGate() {
	m := w.migration()
	if m == nil || len(m.Spec.Strategy.Gates) == 0 || w.monitoring.held {
		return
	}
	drained := 0
	for _, pool := range testPools {
		if g, ok := w.groups[pool]; !ok || len(g.Instances) == 0 {
			drained++
		}
	}
	for _, n := range w.nodes() {
		if n.Labels["group"] != "" && n.Annotations[v1alpha1.AnnotationDraining] != "" && drained > 0 {
			w.breaks("the drain of %s begins before the gate holds", n.Name)
		}
	}
}
