package awssim

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
)

func TestTimersFireInTheirOrderAndTime(t *testing.T) {
	s, _ := newTestServer(t, Options{})
	var got []string
	at := func() string { return s.now().Sub(epoch).String() }
	var stopped *timer
	do(s, func() {
		s.after(3*time.Second, func() { got = append(got, "last "+at()) })
		s.after(time.Second, func() {
			got = append(got, "first "+at())
			s.after(time.Second, func() { got = append(got, "caused by the first "+at()) })
		})
		s.after(2*time.Second, func() { got = append(got, "same time, set first "+at()) })
		s.at(epoch.Add(-time.Hour), func() { got = append(got, "overdue "+at()) })
		stopped = s.after(time.Second, func() { got = append(got, "stopped") })
	})
	do(s, func() { s.clock.stop(stopped); s.clock.stop(stopped); s.clock.stop(nil) })
	s.Advance(10 * time.Second)
	want := []string{"overdue 0s", "first 1s", "same time, set first 2s", "caused by the first 2s", "last 3s"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("timers must fire in order, each at its own time, those they cause included (-want +got):\n%s", diff)
	}
	do(s, func() {
		if at() != "10s" {
			t.Errorf("after the step the clock must show the target, not %s", at())
		}
	})
}

func TestTimeStandsStillUnderTheLock(t *testing.T) {
	now := epoch
	s := New(Options{Now: func() time.Time { now = now.Add(time.Second); return now }})
	do(s, func() {
		if before := s.now(); !s.now().Equal(before) {
			t.Error("time moved while a handler ran")
		}
	})
	var first, second time.Time
	do(s, func() { first = s.now() })
	do(s, func() { second = s.now() })
	if !second.After(first) {
		t.Errorf("time must move between two handlers: %s, then %s", first, second)
	}
}

func TestRunFiresTimersByItself(t *testing.T) {
	g := NewWithT(t)
	s := New(Options{})
	running, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() { s.Run(running); close(ended) }()
	var fired atomic.Bool
	do(s, func() { s.after(5*time.Millisecond, func() { fired.Store(true) }) })
	g.Eventually(fired.Load).Should(BeTrue(), "a timer set while Run sleeps must wake it")
	stop()
	g.Eventually(ended).Should(BeClosed(), "Run must end with its context")
}

func TestATimerThatPanicsLeavesTheLockFree(t *testing.T) {
	s, _ := newTestServer(t, Options{})
	do(s, func() { s.after(time.Second, func() { panic("a bug") }) })
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic must be seen")
			}
		}()
		s.clock.offset = time.Second
		s.lock()
	}()
	if !s.mu.TryLock() {
		t.Fatal("the lock is still held")
	}
	s.mu.Unlock()
}

func TestAResetTakesTimersBack(t *testing.T) {
	s, _ := newTestServer(t, Options{})
	var pending *timer
	do(s, func() { pending = s.after(time.Second, func() { t.Error("a timer of the old world fired") }) })
	do(s, s.reset)
	do(s, func() { s.clock.stop(pending) })
	s.Advance(time.Minute)
}
