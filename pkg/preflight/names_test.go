package preflight

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestNamesAreAllChecks: whoever accepts a risk, or looks a finding up in the documentation, does so by these words, and a name that
// is not among them is told to be a typing error.
func TestNamesAreAllChecks(t *testing.T) {
	declared := constants(t)
	if len(declared) < 20 {
		t.Fatalf("only %v was found in the sources", declared)
	}
	for _, c := range declared {
		if !slices.Contains(Names, c) {
			t.Errorf("Names lacks the check %s", c)
		}
	}
	seen := map[string]bool{}
	for _, c := range Names {
		if seen[c] || c == "" || len(c) > 64 || !slices.Contains(declared, c) {
			t.Errorf("check %q: acceptedRisks takes 1 to 64 characters, and tells checks apart by them", c)
		}
		seen[c] = true
	}
}

// constants are the values of the package's constants that are called Check….
func constants(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || !strings.HasPrefix(spec.Names[0].Name, "Check") || len(spec.Values) != 1 {
				return true
			}
			if literal, ok := spec.Values[0].(*ast.BasicLit); ok {
				value, err := strconv.Unquote(literal.Value)
				if err != nil {
					t.Fatal(err)
				}
				out = append(out, value)
			}
			return true
		})
	}
	return out
}
