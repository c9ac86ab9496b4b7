package controllers

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/plan"
)

// busyDrainer says which passes there were, and how many at once. Begin fails on the nodes that it is to fail on, and panics on others.
type busyDrainer struct {
	Drainer
	pass        func(node string)
	fails       map[string]error
	panics      map[string]bool
	now, most   atomic.Int32
	mu          sync.Mutex
	begun, left []string
}

func (d *busyDrainer) Begin(_ context.Context, node string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.panics[node] {
		panic("broken on " + node)
	}
	d.begun = append(d.begun, node)
	return d.fails[node]
}

func (d *busyDrainer) Pass(_ context.Context, node string, _ inventory.DrainAllowance) (inventory.DrainState, error) {
	n := d.now.Add(1)
	defer d.now.Add(-1)
	for most := d.most.Load(); n > most && !d.most.CompareAndSwap(most, n); most = d.most.Load() {
	}
	if d.pass != nil {
		d.pass(node)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.left = append(d.left, node)
	return inventory.DrainState{Node: node}, nil
}

func passes(n int) (out []plan.Action) {
	for i := range n {
		out = append(out, plan.EvictPods{Node: fmt.Sprintf("n%02d", i)})
	}
	return out
}

func TestNodesAreWorkedOnSideBySide(t *testing.T) {
	w, r := ready(t)
	var together sync.WaitGroup
	together.Add(4)
	d := &busyDrainer{pass: func(node string) {
		if node < "n04" {
			together.Done()
			together.Wait() // none of the first four ends before all of them have begun
		}
	}}
	r.Observer.Ports.Drainer, r.Options.NodesAtOnce = d, 4
	results := r.act(t.Context(), get(t, w), plan.World{}, passes(20))
	if len(results) != 20 || d.most.Load() != 4 {
		t.Errorf("%d results, %d at once; want 20 and 4", len(results), d.most.Load())
	}
	for i, res := range results {
		if want := fmt.Sprintf("n%02d", i); res.drain == nil || res.drain.Node != want {
			t.Errorf("result %d is of %+v, want %s: results are in the order of the actions", i, res.drain, want)
		}
	}
}

// TestAReconcileIsBounded: what does not begin in time is decided anew at the next look.
func TestAReconcileIsBounded(t *testing.T) {
	for name, atOnce := range map[string]int{"OneByOne": 0, "SideBySide": 8} {
		t.Run(name, func(t *testing.T) {
			w, r := ready(t)
			m := get(t, w)
			var mu sync.Mutex
			at := w.now
			r.Observer.Clock = func() time.Time { mu.Lock(); defer mu.Unlock(); return at }
			r.Observer.Ports.Drainer = &busyDrainer{pass: func(string) { mu.Lock(); at = at.Add(time.Second); mu.Unlock() }}
			r.Options.NodesAtOnce = atOnce
			results := r.act(t.Context(), m, plan.World{}, passes(100))
			if least, most := int(actLimit/time.Second), int(actLimit/time.Second)+8; len(results) < least || len(results) > most {
				t.Errorf("%d passes of a second each; want %d to %d", len(results), least, most)
			}
		})
	}
}

// TestWhatReliesOnAFailureIsLeft: the pass over a node whose drain could not begin waits for the next look, others do not.
func TestWhatReliesOnAFailureIsLeft(t *testing.T) {
	w, r := ready(t)
	d := &busyDrainer{fails: map[string]error{"a": errors.New("conflict")}}
	r.Observer.Ports.Drainer = d
	results := r.act(t.Context(), get(t, w), plan.World{}, []plan.Action{
		plan.BeginDrain{Node: "a"}, plan.BeginDrain{Node: "b"}, plan.EvictPods{Node: "a"}, plan.EvictPods{Node: "b"},
	})
	if diff := cmp.Diff([]string{"a", "b"}, d.begun) + cmp.Diff([]string{"b"}, d.left); diff != "" || len(results) != 3 || results[0].err == nil {
		t.Errorf("%d results (-want +got)\n%s", len(results), diff)
	}
}

// TestAPanicIsTheReconcilers: the one that recovers it is the controller's, in its own goroutine.
func TestAPanicIsTheReconcilers(t *testing.T) {
	w, r := ready(t)
	r.Observer.Ports.Drainer, r.Options.NodesAtOnce = &busyDrainer{panics: map[string]bool{"b": true}}, 4
	m := get(t, w)
	defer func() {
		if got := recover(); got != "broken on b" {
			t.Errorf("recovered %v", got)
		}
	}()
	r.act(t.Context(), m, plan.World{}, []plan.Action{plan.BeginDrain{Node: "a"}, plan.BeginDrain{Node: "b"}})
	t.Error("a panic is lost")
}
