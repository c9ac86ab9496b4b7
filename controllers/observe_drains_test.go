package controllers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/plan"
)

// countingDrainer says how many looks at nodes there were, and how many at once.
type countingDrainer struct {
	Drainer
	looks, now, most atomic.Int32
	err              error
}

func (d *countingDrainer) State(_ context.Context, node string) (inventory.DrainState, error) {
	d.looks.Add(1)
	n := d.now.Add(1)
	defer d.now.Add(-1)
	for most := d.most.Load(); n > most && !d.most.CompareAndSwap(most, n); most = d.most.Load() {
	}
	return inventory.DrainState{Node: node, Evictable: len(node)}, d.err
}

func TestObserveDrains(t *testing.T) {
	var nodes []string
	want := map[string]inventory.DrainState{}
	for i := range 100 {
		n := fmt.Sprintf("node-%d", i)
		nodes = append(nodes, n)
		want[n] = inventory.DrainState{Node: n, Evictable: len(n)}
	}
	drainer := &countingDrainer{}
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	o := &Observer{Ports: Ports{Drainer: drainer}, Live: newStore(), Client: newStore(), Clock: func() time.Time { return at }}
	w := plan.World{}
	if err := o.observeDrains(t.Context(), plan.Needs{Drains: nodes}, &w); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, w.Drains); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if drainer.looks.Load() != 100 || drainer.most.Load() > mostAtOnce {
		t.Errorf("%d looks, %d at once: a page of pods is kept of each, and %d may be", drainer.looks.Load(), drainer.most.Load(), mostAtOnce)
	}
	drainer.err = errors.New("timeout")
	at = at.Add(stateFresh)
	if err := o.observeDrains(t.Context(), plan.Needs{Drains: nodes}, &w); !errors.Is(err, drainer.err) {
		t.Errorf("a node that could not be looked at is not taken for empty: %v", err)
	}
	if w = (plan.World{}); o.observeDrains(t.Context(), plan.Needs{}, &w) != nil || w.Drains == nil || w.LaunchFailures != nil {
		t.Errorf("nothing is asked, nothing is known: %+v", w)
	}
}

func launchEvent(name, claim string, change func(*corev1.Event)) *corev1.Event {
	e := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Reason: "InsufficientCapacityError", Message: name + ": VcpuLimitExceeded",
		InvolvedObject: corev1.ObjectReference{Kind: "NodeClaim", Name: claim},
	}
	change(e)
	return e
}

func TestLaunchFailures(t *testing.T) {
	noon := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	s := newStore()
	s.page = 2
	for _, e := range []*corev1.Event{
		launchEvent("a", "general-x7k2p", func(e *corev1.Event) { e.LastTimestamp = metav1.NewTime(noon) }),
		launchEvent("b", "gpu-a100-zz9qk", func(e *corev1.Event) { e.EventTime = metav1.NewMicroTime(noon.Add(time.Minute)) }),
		launchEvent("c", "general-ab3de", func(e *corev1.Event) {
			e.EventTime, e.Series = metav1.NewMicroTime(noon), &corev1.EventSeries{Count: 2, LastObservedTime: metav1.NewMicroTime(noon.Add(time.Hour))}
		}),
		launchEvent("d", "web-0", func(e *corev1.Event) { e.InvolvedObject.Kind = "Pod" }),
		launchEvent("e", "nodash", func(e *corev1.Event) { e.LastTimestamp = metav1.NewTime(noon) }),
	} {
		s.put(e)
	}
	o := &Observer{Ports: Ports{Drainer: &countingDrainer{}}, Live: s}
	w := plan.World{}
	if err := o.observeDrains(t.Context(), plan.Needs{LaunchFailures: true}, &w); err != nil {
		t.Fatal(err)
	}
	got := map[string]inventory.LaunchFailure{}
	for _, f := range w.LaunchFailures {
		got[f.Message[:1]] = f
	}
	want := map[string]inventory.LaunchFailure{
		"a": {NodePool: "general", Message: "a: VcpuLimitExceeded", Time: noon},
		"b": {NodePool: "gpu-a100", Message: "b: VcpuLimitExceeded", Time: noon.Add(time.Minute)},
		"c": {NodePool: "general", Message: "c: VcpuLimitExceeded", Time: noon.Add(time.Hour)},
		"e": {NodePool: "nodash", Message: "e: VcpuLimitExceeded", Time: noon},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("both generations of events, and NodeClaims' only: -want +got:\n%s", diff)
	}

	refused := errors.New("forbidden")
	s.fault = func(verb string, o any) error {
		if _, events := o.(*corev1.EventList); events && verb == "list" {
			return refused
		}
		return nil
	}
	if err := o.observeDrains(t.Context(), plan.Needs{LaunchFailures: true}, &w); !errors.Is(err, refused) || !strings.Contains(err.Error(), "Karpenter's events") {
		t.Errorf("want what could not be read named, got %v", err)
	}
}

// TestWhichNodesAreReadAgain: many nodes wait for the same budgets, and few of them have changed.
func TestWhichNodesAreReadAgain(t *testing.T) {
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	seen := func(ago time.Duration, old bool, room int) drainLook {
		return drainLook{DrainState: inventory.DrainState{Budgets: []inventory.BudgetNeed{{Budget: "shop/web", Pods: 1, Room: room}}}, at: at.Add(-ago), old: old}
	}
	few, many := map[string]drainLook{}, map[string]drainLook{}
	var names []string
	for i := range mostRead + 20 {
		names = append(names, fmt.Sprintf("n%03d", i))
		many[names[i]] = seen(time.Duration(i+2)*time.Second, false, 0)
	}
	maps.Copy(few, map[string]drainLook{"n000": seen(0, false, 0), "n001": seen(0, true, 0), "n002": seen(stateFresh, false, 0), "n003": seen(0, false, 1), "gone": seen(stateForgotten, false, 0)})
	cases := map[string]struct {
		reason string
		seen   map[string]drainLook
		nodes  []string
		room   map[string]bool
		want   []string
	}{
		"Unseen":  {"what was never looked at", nil, names[:2], nil, names[:2]},
		"Due":     {"what castoff touched, and what is old", few, names[:4], nil, []string{"n001", "n002"}},
		"Room":    {"what a budget lets go that did not", few, names[:4], map[string]bool{"shop/web": true}, []string{"n002", "n000", "n001"}},
		"TooMany": {"those that wait for longest", many, names, nil, names[20:]},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			l := &drainLooks{seen: maps.Clone(tc.seen)}
			got := l.due(tc.nodes, tc.room, at)
			if name == "TooMany" {
				slices.Sort(got)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got)\n%s", tc.reason, diff)
			}
			if _, kept := l.seen["gone"]; kept {
				t.Error("a node that nobody asks about is kept")
			}
		})
	}
}

// TestCandidatesAreLookedAt: before a drain begins the pods of those nodes are looked at of which one is to begin, and their errors
// are no guess.
func TestCandidatesAreLookedAt(t *testing.T) {
	w := newWorld(t)
	apply(t, w)
	r := w.reconciler()
	until(t, w, r, inPhase(v1alpha1.PhaseShifting))
	var m *v1alpha1.Migration
	var seen plan.World
	for range 60 { // until the first drain is to begin
		var err error
		m = get(t, w)
		if seen, err = r.Observer.Observe(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		if len(seen.Candidates) > 0 {
			break
		}
		look(t, w, r)
		w.advance(time.Second)
	}
	want := plan.Candidates(m, seen, w.now)
	if len(want) == 0 || len(want) != len(seen.Candidates) {
		t.Errorf("looked at %v, want %v", seen.Candidates, want)
	}
	for _, n := range want {
		if seen.Candidates[n].Node != n {
			t.Errorf("what is left on %s was not looked at: %v", n, seen.Candidates)
		}
	}
	drainer := &countingDrainer{Drainer: r.Observer.Ports.Drainer, err: errors.New("timeout")}
	r.Observer.Ports.Drainer = drainer
	w.advance(stateFresh)
	if _, err := r.Observer.Observe(t.Context(), m); !errors.Is(err, drainer.err) {
		t.Errorf("a look that failed is no order to begin with: %v", err)
	}
}
