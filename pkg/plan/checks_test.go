package plan

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
)

// TestChecksAreAll: a risk that names a check which is not among the known is told to be a typing error.
func TestChecksAreAll(t *testing.T) {
	r := reasons{constants: map[string]string{}, found: map[string]bool{}}
	for _, f := range parse(t, ".") {
		ast.Inspect(f, r.constant)
	}
	declared := 0
	for name, value := range r.constants {
		if !strings.HasPrefix(name, "Check") {
			continue
		}
		declared++
		if !slices.Contains(Checks, value) {
			t.Errorf("Checks lacks %s", name)
		}
	}
	if declared == 0 || declared != len(Checks) {
		t.Errorf("%d constants, and %d in Checks", declared, len(Checks))
	}
}
