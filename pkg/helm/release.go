package helm

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"time"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/release"

	"github.com/castoff-sh/castoff/api/v1alpha1"
)

// Release is what should be installed.
type Release struct {
	Name      string
	Namespace string
	// Chart is rooted at the chart's Chart.yaml.
	Chart fs.FS
	// Remote is pulled in its place, if it is set.
	Remote *RemoteChart
	// Values override the chart's own; anything that marshals to JSON.
	Values map[string]any
}

func (r Release) String() string { return r.Namespace + "/" + r.Name }

// Status is what observation makes of a release; nothing is remembered between observations.
type Status string

const (
	// NotInstalled means that no release has the name, or only an uninstalled one.
	NotInstalled Status = "NotInstalled"
	// Deployed means that Helm wrote every object of the release; it does not mean that they are ready.
	Deployed Status = "Deployed"
	// Pending means that an install, upgrade, rollback or uninstall was begun and not ended: it runs, or its process died.
	Pending Status = "Pending"
	// Failed means that the last attempt ended with an error; Apply tries again.
	Failed Status = "Failed"
	// Foreign means that the name, or an object of the release, belongs to somebody else; it is not touched.
	Foreign Status = "Foreign"
)

// State of a release, by observation.
type State struct {
	Status Status
	// Revision is Helm's, from 1; 0 if there has never been a release.
	Revision int
	// ChartVersion and Digest are of the revision, the digest over templates, default values and given values.
	ChartVersion string
	Digest       string
	// Current says that a Deployed release was made from exactly the chart and values asked for.
	Current bool
	// Since is when Helm began the revision's operation, in UTC; zero if it is not known.
	Since time.Time
	// Reason is Helm's own account of the status, for people.
	Reason string
	// Owner names who a Foreign release or object belongs to.
	Owner string
	// Object is the Foreign object; empty if the release itself is.
	Object string
}

// foreign is a Foreign state as an error.
func (s State) foreign(r Release) *ForeignError {
	object := s.Object
	if object == "" {
		object = "Helm release " + r.String()
	}
	return &ForeignError{Object: object, Owner: s.Owner}
}

// chartIdentity is an annotation in Chart.yaml that tells castoff's charts from others of the same name. The engine's has to be
// called "karpenter", as upstream's is.
const chartIdentity = "castoff.sh/chart"

// additionalLabels is the value by which upstream's chart labels every object. castoff marks with it what it installed from
// there: neither the chart nor its records tell otherwise who did.
const additionalLabels = "additionalLabels"

// marked says that castoff made a release with this chart and these values.
func marked(c *chart.Chart, values map[string]any) bool {
	labels, ok := values[additionalLabels].(map[string]any)
	return metadata(c).Annotations[chartIdentity] != "" || ok && labels[v1alpha1.TagManagedBy] == v1alpha1.TagManagedByValue
}

// classify makes a State of a release's history. Helm's records come from a Secret that anybody may have edited, hence the care
// for missing parts.
func classify(history []*release.Release, want *plan) State {
	last := latest(history)
	if last == nil || last.Info == nil {
		return State{Status: NotInstalled}
	}
	state := State{
		Revision:     last.Version,
		ChartVersion: metadata(last.Chart).Version,
		Digest:       digest(last.Chart, last.Config),
		Since:        last.Info.LastDeployed.Time.UTC(),
		Reason:       last.Info.Description,
	}
	switch status := last.Info.Status; {
	case status == release.StatusUninstalled:
		state.Status = NotInstalled
	case !ours(last, want):
		state.Status = Foreign
		state.Owner = fmt.Sprintf("Helm release %s/%s of chart %s %s", last.Namespace, last.Name,
			metadata(last.Chart).Name, state.ChartVersion)
	case status.IsPending(), status == release.StatusUninstalling:
		state.Status = Pending
	case status == release.StatusDeployed:
		state.Status = Deployed
		state.Current = want.chart != nil && state.Digest == want.digest
	default:
		state.Status = Failed
	}
	return state
}

func latest(history []*release.Release) *release.Release {
	var last *release.Release
	for _, rel := range history {
		if rel != nil && (last == nil || rel.Version > last.Version) {
			last = rel
		}
	}
	return last
}

// ours says whether the record is of a release that castoff made, from whichever of the charts that make the same one: castoff's
// own gives way to upstream's and the other way round. A chart that could not be had is taken for the right one.
func ours(last *release.Release, want *plan) bool {
	have, asked := metadata(last.Chart), metadata(want.chart)
	if want.chart != nil && have.Name != asked.Name {
		return false
	}
	if marked(want.chart, want.values) {
		return marked(last.Chart, last.Config)
	}
	return have.Annotations[chartIdentity] == asked.Annotations[chartIdentity]
}

func metadata(c *chart.Chart) chart.Metadata {
	if c == nil || c.Metadata == nil {
		return chart.Metadata{}
	}
	return *c.Metadata
}

// digest covers all that decides what a release writes, so that a chart changed without a new version is noticed too. It is
// computed alike from a chart on disk and from one that Helm kept, which has lost its files but not these parts.
func digest(c *chart.Chart, values map[string]any) string {
	if c == nil {
		return ""
	}
	if values == nil {
		values = map[string]any{}
	}
	content, err := json.Marshal(struct {
		Version   string
		Templates []*chart.File
		Defaults  map[string]any
		Values    map[string]any
	}{metadata(c).Version, c.Templates, c.Values, values})
	if err != nil { // both kinds of values came from JSON or YAML
		return ""
	}
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}
