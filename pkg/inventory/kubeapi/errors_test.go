package kubeapi

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

func TestWrap(t *testing.T) {
	nodes := schema.GroupResource{Resource: "nodes"}
	plain := errors.New("connection refused")
	cases := map[string]struct {
		reason string
		err    error
		hint   []string
		class  inventory.Class
		want   string
	}{
		"Plain":     {"what is not known is tried again", plain, nil, inventory.ClassRetry, "patch nodes a: connection refused"},
		"Conflict":  {"somebody else wrote it: look again", apierrors.NewConflict(nodes, "a", plain), nil, inventory.ClassRetry, "patch nodes a: Operation cannot be fulfilled on nodes \"a\": connection refused"},
		"Busy":      {"throttling counts as no failure", apierrors.NewTooManyRequests("later", 1), nil, inventory.ClassThrottled, "patch nodes a: the API server is busy: later"},
		"Forbidden": {"the verb and the resource are what has to be granted", apierrors.NewForbidden(nodes, "a", plain), nil, inventory.ClassTerminal, "patch nodes a: castoff's role must allow the verb patch on nodes: nodes \"a\" is forbidden: connection refused"},
		"Hint":      {"where the right is given, if the chart limits it", apierrors.NewForbidden(nodes, "a", plain), []string{" (chart value x)"}, inventory.ClassTerminal, "patch nodes a: castoff's role must allow the verb patch on nodes (chart value x): nodes \"a\" is forbidden: connection refused"},
		"Invalid":   {"the same object fails again", apierrors.NewInvalid(schema.GroupKind{Kind: "Node"}, "a", nil), nil, inventory.ClassTerminal, "patch nodes a: the API server does not accept it: Node \"a\" is invalid"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := Wrap(tc.err, "patch", "nodes", "a", tc.hint...)
			if got.Error() != tc.want || inventory.ClassOf(got) != tc.class || !errors.Is(got, tc.err) {
				t.Errorf("%s: %s %q, want %s %q", tc.reason, inventory.ClassOf(got), got, tc.class, tc.want)
			}
		})
	}
	if Wrap(nil, "get", "nodes", "a") != nil {
		t.Error("no error is no error")
	}
}
