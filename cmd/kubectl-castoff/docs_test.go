package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/serializer/json"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/controllers"
)

var (
	// printed is a command in a code span, or in a block up to its comment, its redirection or the next command.
	printed = regexp.MustCompile("(?m)(?:^|[`(]|&& )(?: *)kubectl castoff( [^`#>|&)\n]*)?")
	// patches are what kubectl patch is given for a Migration.
	patches = regexp.MustCompile(`patch migrations? \S+ --type=merge -p '([^']+)'`)
	// manifests are the indented blocks that are a Migration, or the spec of one.
	manifests = regexp.MustCompile(`(?m)^((?: {4}| {7})) *(?:apiVersion: castoff\.sh|spec:|\{apiVersion: castoff\.sh).*\n(?:^(?: {4}| {7}).*\n|^\n)*`)
)

// TestDocumentation: every command that a page prints is one that the plugin takes, and every manifest and patch one that the API
// takes.
func TestDocumentation(t *testing.T) {
	commands, documents := 0, 0
	for path, page := range pages(t) {
		for _, c := range printed.FindAllStringSubmatch(page, -1) {
			commands++
			if err := takes(strings.Fields(c[1])); err != nil {
				t.Errorf("%s: kubectl castoff%s: %v", path, c[1], err)
			}
		}
		for _, document := range migrations(page) {
			documents++
			if err := strict(document); err != nil {
				t.Errorf("%s: %v:\n%s", path, err, document)
			}
		}
	}
	t.Logf("%d commands, %d manifests and patches", commands, documents)
	if commands < 40 || documents < 8 {
		t.Errorf("found %d commands and %d manifests: does the test still read the pages?", commands, documents)
	}
}

// TestDocumentationNotices: the checks above find what is wrong.
func TestDocumentationNotices(t *testing.T) {
	for name, line := range map[string]string{
		"Command": "undo prod", "Flag": "pause prod --now", "Arguments": "pause prod stage", "Step": "approve prod Delete Start",
	} {
		t.Run(name, func(t *testing.T) {
			if takes(strings.Fields(line)) == nil {
				t.Errorf("kubectl castoff %s is taken for a command", line)
			}
		})
	}
	page := "x\n\n    spec:\n      pause: true\n\ny `kubectl patch migration prod --type=merge -p '{\"spec\":{\"onpause\":\"Settle\"}}'`\n"
	found := migrations(page)
	if len(found) != 2 {
		t.Fatalf("found %q, want a manifest and a patch", found)
	}
	for _, document := range found {
		if strict(document) == nil {
			t.Errorf("taken for a Migration: %s", document)
		}
	}
}

// pages are the pages of the documentation by path, but for the generated reference.
func pages(t *testing.T) map[string]string {
	t.Helper()
	const root = "../.."
	out := map[string]string{}
	read := func(path string) error {
		b, err := os.ReadFile(path)
		out[path] = string(b)
		return err
	}
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".md" || d.Name() == "api.md" {
			return err
		}
		return read(path)
	})
	if err := errors.Join(err, read(filepath.Join(root, "README.md"))); err != nil {
		t.Fatal(err)
	}
	return out
}

// takes says why the plugin would not take the arguments. A command that is named without any is talked about, not printed.
func takes(arguments []string) error {
	cmd, rest, err := newApp().root().Find(arguments)
	if err != nil {
		return err
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	if len(rest) == 0 || !cmd.HasParent() {
		return nil
	}
	return cmd.ValidateArgs(cmd.Flags().Args())
}

// strict says why the API server would not know a field, in capitals too.
func strict(document string) error {
	scheme, err := controllers.Scheme()
	if err != nil {
		return err
	}
	kind := v1alpha1.GroupVersion.WithKind("Migration")
	decoder := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{Yaml: true, Strict: true})
	_, _, err = decoder.Decode([]byte(document), &kind, &v1alpha1.Migration{})
	return err
}

// migrations are a page's manifests and patches of Migrations.
func migrations(page string) []string {
	var out []string
	for _, m := range manifests.FindAllStringSubmatch(page, -1) {
		var lines []string
		for line := range strings.Lines(m[0]) {
			line = strings.TrimPrefix(line, m[1])
			if strings.HasPrefix(strings.TrimSpace(line), "EOF") || (len(lines) > 0 && !strings.HasPrefix(line, " ") && !strings.Contains(line, ":")) {
				break
			}
			lines = append(lines, line)
		}
		out = append(out, strings.Join(lines, ""))
	}
	for _, p := range patches.FindAllStringSubmatch(page, -1) {
		out = append(out, p[1])
	}
	return out
}
