package controllers

import (
	"context"
	"sync"
	"time"
)

// memo keeps the last answer of a read that is dear, for as long as fresh allows. It is asked again at once after forget.
type memo[T any] struct {
	mu    sync.Mutex
	value T
	until time.Time
}

// get returns the kept answer, or reads and keeps a new one for as long as fresh says of it. Errors are not kept.
func (m *memo[T]) get(ctx context.Context, now time.Time, fresh func(T) time.Duration, read func(context.Context) (T, error)) (T, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now.Before(m.until) {
		return m.value, nil
	}
	v, err := read(ctx)
	if err != nil {
		return v, err
	}
	m.value, m.until = v, now.Add(fresh(v))
	return v, nil
}

// forget makes the next get read, and keeps nothing.
func (m *memo[T]) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.empty()
}

func (m *memo[T]) empty() {
	var nothing T
	m.value, m.until = nothing, time.Time{}
}

// always is the same freshness whatever the answer.
func always[T any](d time.Duration) func(T) time.Duration { return func(T) time.Duration { return d } }
