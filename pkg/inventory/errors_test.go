package inventory

import (
	"errors"
	"fmt"
	"testing"
)

func TestClassOf(t *testing.T) {
	base := errors.New("base")
	cases := map[string]struct {
		reason string
		err    error
		want   Class
	}{
		"Plain":     {"what nobody marked is tried again", base, ClassRetry},
		"Throttled": {"a mark is found", Throttled(base), ClassThrottled},
		"Wrapped":   {"through what wraps it too", fmt.Errorf("listing: %w", Terminal(base)), ClassTerminal},
		"Outermost": {"whoever marked last knew more", Terminal(fmt.Errorf("x: %w", Throttled(base))), ClassTerminal},
		"Joined":    {"in a join the first mark counts", errors.Join(base, Throttled(base)), ClassThrottled},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := ClassOf(tc.err); got != tc.want {
				t.Errorf("%s: got %s, want %s", tc.reason, got, tc.want)
			}
		})
	}
	if Throttled(nil) != nil || Terminal(nil) != nil {
		t.Error("no error is no error")
	}
	if !errors.Is(Terminal(base), base) {
		t.Error("the cause is kept")
	}
}
