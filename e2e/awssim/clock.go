package awssim

import (
	"container/heap"
	"time"
)

// clock is the simulator's time and what is due when. Time stands still while the lock is held: it moves in catchUp,
// timer by timer, so that an effect that causes another one at the same step still sees its own due time.
type clock struct {
	base   func() time.Time
	offset time.Duration
	now    time.Time
	timers timerHeap
	seq    int64
	wake   chan struct{} // a timer was added: whoever sleeps until the next one must look again
}

type timer struct {
	due   time.Time
	seq   int64 // equal due times fire in the order in which they were set
	fire  func()
	index int // -1 once fired or stopped
}

func newClock(base func() time.Time) *clock {
	return &clock{base: base, now: base(), wake: make(chan struct{}, 1)}
}

// at calls fire when the time has come: at once, but not before the current step is over, when it is past.
func (c *clock) at(due time.Time, fire func()) *timer {
	c.seq++
	t := &timer{due: due, seq: c.seq, fire: fire}
	heap.Push(&c.timers, t)
	select {
	case c.wake <- struct{}{}:
	default:
	}
	return t
}

// stop takes a timer back; a fired or nil one is left alone.
func (c *clock) stop(t *timer) {
	if t != nil && t.index >= 0 {
		heap.Remove(&c.timers, t.index)
	}
}

// clear takes every timer back.
func (c *clock) clear() {
	for _, t := range c.timers {
		t.index = -1
	}
	c.timers = nil
}

// catchUp moves now to the present and fires what became due on the way.
func (c *clock) catchUp() {
	target := c.base().Add(c.offset)
	for len(c.timers) > 0 && !c.timers[0].due.After(target) {
		t, _ := heap.Pop(&c.timers).(*timer)
		if t.due.After(c.now) {
			c.now = t.due
		}
		t.fire()
	}
	if target.After(c.now) {
		c.now = target
	}
}

// untilNext says how long to sleep for the next timer; false when there is none.
func (c *clock) untilNext() (time.Duration, bool) {
	if len(c.timers) == 0 {
		return 0, false
	}
	return c.timers[0].due.Sub(c.base().Add(c.offset)), true
}

type timerHeap []*timer

func (h timerHeap) Len() int { return len(h) }
func (h timerHeap) Less(i, j int) bool {
	if h[i].due.Equal(h[j].due) {
		return h[i].seq < h[j].seq
	}
	return h[i].due.Before(h[j].due)
}
func (h timerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}
func (h *timerHeap) Push(x any) {
	t, ok := x.(*timer)
	if !ok {
		return
	}
	t.index = len(*h)
	*h = append(*h, t)
}
func (h *timerHeap) Pop() any {
	last := len(*h) - 1
	t := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	t.index = -1
	return t
}
