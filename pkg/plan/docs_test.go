package plan

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// blockedPage explains every reason to whoever reads one in the status.
const blockedPage = "../../docs/runbooks/blocked.md"

// sayers are the functions whose first argument is the reason of a blocker or a finding, here and in pkg/preflight.
var sayers = []string{"block", "wait", "warn"}

// handedOn are the expressions that hand on a reason which is collected where it is first said.
var handedOn = []string{"reason", "name", "check", "f.Check", "b.Reason", "string(reason)", "string(b.Reason)"}

// reasons collects what the sources can say.
type reasons struct {
	constants map[string]string
	found     map[string]bool
	unknown   []string
}

func TestBlockedPageExplainsEveryReason(t *testing.T) {
	page, err := os.ReadFile(blockedPage)
	if err != nil {
		t.Fatal(err)
	}
	said, problem := reasonsOf(map[string][]*ast.File{
		".": parse(t, "."), "../preflight": parse(t, "../preflight"), "../../controllers": parse(t, "../../controllers"),
		"../inventory": parse(t, "../inventory"), "../../api/v1alpha1": parse(t, "../../api/v1alpha1"),
	})
	if problem != "" {
		t.Fatal(problem)
	}
	explained := explained(string(page))
	for _, reason := range said {
		if !slices.Contains(explained, reason) {
			t.Errorf("%s does not explain %s: give it a line, with the reason in the first column", blockedPage, reason)
		}
	}
	for _, reason := range explained {
		if !slices.Contains(said, reason) {
			t.Errorf("%s explains %s, which nothing says any more: take it out", blockedPage, reason)
		}
	}
}

// TestReasonsOf: a collector that finds nothing would find the page complete.
func TestReasonsOf(t *testing.T) {
	cases := map[string]struct {
		reason  string
		src     string
		want    []string
		unknown bool
	}{
		"Call":     {reason: "most are said so", src: `func f(o *outcome) { o.wait("A", "x", "y") }`, want: []string{"A"}},
		"Function": {reason: "the checks' own", src: `const CheckA = "A"; func f() { block(CheckA, "x", "y") }`, want: []string{"A"}},
		"Literal":  {reason: "some are written out", src: `func f() { _ = v1alpha1.Blocker{Reason: "A"} }`, want: []string{"A"}},
		"Finding":  {reason: "a finding becomes a blocker", src: `func f() { _ = inventory.Finding{Check: "A"} }`, want: []string{"A"}},
		"Local":    {reason: "a constant of the function", src: `func f(o *outcome) { const here = "A"; o.warn(here, "x", "y") }`, want: []string{"A"}},
		"Foreign":  {reason: "a constant of the API", src: `const ReasonA = "A"; func f(o *outcome) { o.block(v1alpha1.ReasonA, "x", "y") }`, want: []string{"A"}},
		"Pods":     {reason: "what a drain pass finds", src: `const BlockedA BlockReason = "A"`, want: []string{"A"}},
		"HandedOn": {reason: "it is said elsewhere", src: `func f(o *outcome, reason string) { o.block(reason, "x", "y") }`},
		"Unknown":  {reason: "a reason that is put together cannot be looked up", src: `func f(o *outcome, x string) { o.block("A"+x, "x", "y") }`, unknown: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			file, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x; "+tc.src, 0)
			if err != nil {
				t.Fatal(err)
			}
			got, problem := reasonsOf(map[string][]*ast.File{".": {file}})
			if diff := cmp.Diff(tc.want, got); diff != "" || (problem != "") != tc.unknown {
				t.Errorf("%s: problem %q, -want +got:\n%s", tc.reason, problem, diff)
			}
		})
	}
}

func parse(t *testing.T, dir string) []*ast.File {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var out []*ast.File
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, file)
	}
	if len(out) == 0 {
		t.Fatalf("no sources in %s", dir)
	}
	return out
}

// reasonsOf returns the reasons that the files can say, sorted, and what could not be read. The controllers add a few of the
// API's to what the planner says: there every one that is named counts.
func reasonsOf(dirs map[string][]*ast.File) (said []string, problem string) {
	r := reasons{constants: map[string]string{}, found: map[string]bool{}}
	for _, files := range dirs {
		for _, f := range files {
			ast.Inspect(f, r.constant)
		}
	}
	for dir, files := range dirs {
		for _, f := range files {
			if strings.HasSuffix(dir, "controllers") {
				ast.Inspect(f, r.named)
			} else {
				ast.Inspect(f, r.said)
			}
		}
	}
	if len(r.unknown) > 0 {
		problem = "cannot tell which reasons these are, say them as a literal or a constant: " + strings.Join(r.unknown, ", ")
	}
	return slices.Sorted(maps.Keys(r.found)), problem
}

// constant notes the string constants, and those that are reasons by their type.
func (r *reasons) constant(n ast.Node) bool {
	spec, ok := n.(*ast.ValueSpec)
	if !ok {
		return true
	}
	kind, _ := spec.Type.(*ast.Ident)
	for i, name := range spec.Names {
		if i >= len(spec.Values) {
			break
		}
		if value, ok := literal(spec.Values[i]); ok {
			r.constants[name.Name] = value
			if kind != nil && kind.Name == "BlockReason" {
				r.found[value] = true
			}
		}
	}
	return true
}

func (r *reasons) said(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.CallExpr:
		if slices.Contains(sayers, lastName(n.Fun)) && len(n.Args) == 3 {
			r.add(n.Args[0])
		}
	case *ast.CompositeLit:
		field := map[string]string{"Blocker": "Reason", "Finding": "Check"}[lastName(n.Type)]
		for _, e := range n.Elts {
			if kv, ok := e.(*ast.KeyValueExpr); ok && field != "" && lastName(kv.Key) == field {
				r.add(kv.Value)
			}
		}
	}
	return true
}

func (r *reasons) named(n ast.Node) bool {
	if s, ok := n.(*ast.SelectorExpr); ok && strings.HasPrefix(s.Sel.Name, "Reason") && r.constants[s.Sel.Name] != "" {
		r.add(s)
	}
	return true
}

func (r *reasons) add(e ast.Expr) {
	if value, ok := literal(e); ok {
		r.found[value] = true
	} else if value, ok := r.constants[lastName(e)]; ok {
		r.found[value] = true
	} else if written := source(e); !slices.Contains(handedOn, written) {
		r.unknown = append(r.unknown, written)
	}
}

func literal(e ast.Expr) (string, bool) {
	l, ok := e.(*ast.BasicLit)
	if !ok || l.Kind != token.STRING {
		return "", false
	}
	value, err := strconv.Unquote(l.Value)
	return value, err == nil
}

// lastName is the name behind the last dot.
func lastName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// source writes names, selectors and conversions as they are in the file.
func source(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return source(e.X) + "." + e.Sel.Name
	case *ast.CallExpr:
		if len(e.Args) == 1 {
			return source(e.Fun) + "(" + source(e.Args[0]) + ")"
		}
	}
	return "an expression"
}

var (
	firstCell = regexp.MustCompile("(?m)^\\| *(`[^|]*`) *\\|")
	quoted    = regexp.MustCompile("`([A-Za-z0-9]+)`")
)

// explained are the reasons in the first columns of the page's tables, sorted.
func explained(page string) []string {
	var out []string
	for _, cell := range firstCell.FindAllStringSubmatch(page, -1) {
		for _, name := range quoted.FindAllStringSubmatch(cell[1], -1) {
			out = append(out, name[1])
		}
	}
	slices.Sort(out)
	return out
}
