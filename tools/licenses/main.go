// Command licenses fails when a module that is compiled into a binary has no licence that may be shipped with it.
//
//	licenses DIR PACKAGE...
//
// It reads the licence file at the root of every module that `go list -deps` finds for the packages in DIR.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

// minCoverage is the share of a licence file, in percent, that must be text of a known licence. Files carry
// copyright lines and prefaces of their own, so it is well under 100.
const minCoverage = 60

// allowed lists SPDX identifiers that ask for no more than attribution, or, as MPL does, for the source of the
// module's own files.
var allowed = []string{
	"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "BSD-2-Clause-FreeBSD", "ISC", "MIT", "MIT-0", "MPL-2.0", "Unlicense", "CC0-1.0", "Zlib",
}

func main() {
	if len(os.Args) < 3 {
		fatal(fmt.Errorf("usage: licenses DIR PACKAGE..."))
	}
	modules, err := modulesOf(os.Args[1], os.Args[2:])
	if err != nil {
		fatal(err)
	}
	var bad []string
	for path, dir := range modules {
		if err := check(dir); err != nil {
			bad = append(bad, fmt.Sprintf("%s: %v", path, err))
		}
	}
	if len(bad) > 0 {
		slices.Sort(bad)
		fatal(fmt.Errorf("modules whose licence is not known to be fine:\n  %s", strings.Join(bad, "\n  ")))
	}
	fmt.Printf("licences of %d modules are fine\n", len(modules))
}

// modulesOf answers the directory of every module, but the main one, that is compiled into the packages.
func modulesOf(dir string, packages []string) (map[string]string, error) {
	const format = `{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}{{"\t"}}{{.Dir}}{{end}}{{end}}`
	list := exec.Command("go", append([]string{"list", "-deps", "-f", format}, packages...)...)
	list.Dir, list.Stderr = dir, os.Stderr
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("list the dependencies of %s: %w", strings.Join(packages, " "), err)
	}
	modules := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if path, dir, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
			modules[path] = dir
		}
	}
	return modules, nil
}

// check reads every licence file of a module: one that is not allowed is one too many.
func check(dir string) error {
	files, err := licenceFiles(dir)
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("no licence file")
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if err := checkText(text); err != nil {
			return fmt.Errorf("%s: %w", filepath.Base(file), err)
		}
	}
	return nil
}

func licenceFiles(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, entry := range entries {
		name := strings.ToUpper(strings.TrimSuffix(entry.Name(), filepath.Ext(entry.Name())))
		// LICENSE.docs is the licence of a module's documentation, which is not compiled in.
		if strings.EqualFold(filepath.Ext(entry.Name()), ".docs") {
			continue
		}
		if !entry.IsDir() && slices.Contains([]string{"LICENSE", "LICENCE", "COPYING"}, name) {
			files = append(files, filepath.Join(dir, entry.Name()))
		}
	}
	return files, nil
}

func checkText(text []byte) error {
	coverage := licensecheck.Scan(text)
	if len(coverage.Match) == 0 || coverage.Percent < minCoverage {
		return fmt.Errorf("%.0f %% of it is text of a known licence, want %d %%", coverage.Percent, minCoverage)
	}
	for _, match := range coverage.Match {
		if !slices.Contains(allowed, match.ID) && !match.IsURL {
			return fmt.Errorf("%s is not on the list of allowed licences", match.ID)
		}
	}
	return nil
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, "licenses:", err)
	os.Exit(1)
}
