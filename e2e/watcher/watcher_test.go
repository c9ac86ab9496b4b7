package watcher

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestAwaitPhase(t *testing.T) {
	w := &Watcher{judge: NewJudge(Config{}), moved: make(chan struct{}), print: func(Note) {}}
	w.observe(migration("Assessing"))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := w.AwaitPhase(ctx, "Assessing"); err != nil {
		t.Errorf("the phase that it is in: %v", err)
	}
	reached := make(chan error)
	go func() { reached <- w.AwaitPhase(ctx, "Shifting", "Completed") }()
	w.observe(migration("Preparing"))
	select {
	case err := <-reached:
		t.Fatalf("Preparing was not waited for: %v", err)
	default:
	}
	w.observe(migration("Completed"))
	if err := <-reached; err != nil {
		t.Errorf("either of two will do: %v", err)
	}
	w.observe(Gone{migration("Completed")})
	if w.Phase() != "" {
		t.Errorf("a Migration that is gone has no phase, got %q", w.Phase())
	}
	ended, end := context.WithCancelCause(t.Context())
	end(errors.New("enough"))
	if err := w.AwaitPhase(ended, "RolledBack"); err == nil {
		t.Error("the wait ends with its context")
	}
}
