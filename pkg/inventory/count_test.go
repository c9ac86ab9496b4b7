package inventory

import "testing"

func TestCount(t *testing.T) {
	for name, tc := range map[string]struct{ reason, got, want string }{
		"One":     {"of one there is one", Count(1, "pod"), "1 pod"},
		"None":    {"of none there are several", Count(0, "pod"), "0 pods"},
		"Several": {"and of several", Count(12, "node"), "12 nodes"},
		"Verb":    {"a verb goes with its noun", Count(1, "node is", "nodes are"), "1 node is"},
		"Verbs":   {"in both numbers", Count(int32(3), "node is", "nodes are"), "3 nodes are"},
		"Another": {"not every plural has an s", Count(2, "policy", "policies"), "2 policies"},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.got != tc.want {
				t.Errorf("%s: %q, want %q", tc.reason, tc.got, tc.want)
			}
		})
	}
}
