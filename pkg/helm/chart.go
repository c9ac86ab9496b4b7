package helm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/releaseutil"
)

// plan is a Release made ready: its chart loaded, its values checked and its objects rendered.
type plan struct {
	Release
	chart    *chart.Chart
	values   map[string]any
	manifest string
	digest   string
}

// Render gives the objects of a release as a stream of YAML documents in the order in which they are installed, without asking a
// cluster. It fails with a *ValuesError if the chart does not accept the values.
func Render(r Release) (string, error) {
	p, err := prepare(r)
	if err != nil {
		return "", err
	}
	return p.manifest, nil
}

func prepare(r Release) (*plan, error) {
	loaded, err := load(r.Chart)
	if err != nil {
		return nil, fmt.Errorf("release %s: loading its chart: %w", r, err)
	}
	return prepareWith(r, loaded)
}

func prepareWith(r Release, loaded *chart.Chart) (*plan, error) {
	values, err := normalise(r.Values)
	if err != nil {
		return nil, &ValuesError{Release: r.String(), Problems: []Problem{{Reason: err.Error()}}, Err: err}
	}
	p := &plan{Release: r, chart: loaded, values: values, digest: digest(loaded, values)}
	if err := p.validate(); err != nil {
		return nil, err
	}
	if p.manifest, err = p.render(); err != nil {
		return nil, &ValuesError{Release: r.String(), Problems: []Problem{{Reason: err.Error()}}, Err: err}
	}
	return p, nil
}

func load(root fs.FS) (*chart.Chart, error) {
	if root == nil {
		return nil, errors.New("no chart given")
	}
	var files []*loader.BufferedFile
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(root, name)
		files = append(files, &loader.BufferedFile{Name: name, Data: data})
		return err
	})
	if err != nil {
		return nil, err
	}
	return loader.LoadFiles(files)
}

// normalise gives values the types that JSON has: the schema knows no others, and a release read back has no others, so digests
// agree.
func normalise(values map[string]any) (map[string]any, error) {
	content, err := json.Marshal(values)
	if err != nil {
		return nil, err
	}
	result := map[string]any{}
	if err := json.Unmarshal(content, &result); err != nil {
		return nil, err
	}
	if result == nil { // "null"
		result = map[string]any{}
	}
	return result, nil
}

// validate checks the values against the chart's schema. Helm does so too, but tells in a sentence what callers need as a path.
func (p *plan) validate() error {
	if len(p.chart.Schema) == 0 {
		return nil
	}
	merged, err := chartutil.CoalesceValues(p.chart, p.values)
	if err != nil {
		return &ValuesError{Release: p.String(), Problems: []Problem{{Reason: err.Error()}}, Err: err}
	}
	schema, err := compile(p.chart.Schema)
	if err != nil {
		return fmt.Errorf("release %s: the schema of chart %s: %w", p, p.chart.Name(), err)
	}
	var invalid *jsonschema.ValidationError
	if err := schema.Validate(merged.AsMap()); errors.As(err, &invalid) {
		return &ValuesError{Release: p.String(), Problems: problems(invalid)}
	} else if err != nil {
		return fmt.Errorf("release %s: checking its values: %w", p, err)
	}
	return nil
}

func compile(source []byte) (*jsonschema.Schema, error) {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(source))
	if err != nil {
		return nil, err
	}
	const location = "values.schema.json"
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource(location, document); err != nil {
		return nil, err
	}
	return compiler.Compile(location)
}

// problems flattens a validation error to its leaves, sorted: the validator walks maps in random order, and a condition must not
// change its text on every reconcile.
func problems(err *jsonschema.ValidationError) []Problem {
	var found []Problem
	for _, unit := range err.BasicOutput().Errors {
		if unit.Error != nil {
			value := strings.ReplaceAll(strings.TrimPrefix(unit.InstanceLocation, "/"), "/", ".")
			found = append(found, Problem{Value: value, Reason: unit.Error.String()})
		}
	}
	slices.SortFunc(found, func(a, b Problem) int {
		return strings.Compare(a.Value+"\x00"+a.Reason, b.Value+"\x00"+b.Reason)
	})
	return slices.Compact(found)
}

// renderVersion stands in for the cluster's version; no template of castoff's asks for it.
var renderVersion = chartutil.KubeVersion{Version: "v1.33.0", Major: "1", Minor: "33"}

func (p *plan) render() (string, error) {
	capabilities := chartutil.DefaultCapabilities.Copy()
	capabilities.KubeVersion = renderVersion
	options := chartutil.ReleaseOptions{Name: p.Name, Namespace: p.Namespace, Revision: 1, IsInstall: true}
	values, err := chartutil.ToRenderValues(p.chart, p.values, options, capabilities)
	if err != nil {
		return "", err
	}
	files, err := engine.Render(p.chart, values)
	if err != nil {
		return "", err
	}
	delete(files, path.Join(p.chart.Name(), "templates", "NOTES.txt"))
	_, manifests, err := releaseutil.SortManifests(files, nil, releaseutil.InstallOrder)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for _, manifest := range manifests {
		fmt.Fprintf(&out, "---\n%s\n", strings.TrimSpace(manifest.Content))
	}
	return out.String(), nil
}
