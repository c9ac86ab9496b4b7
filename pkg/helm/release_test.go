package helm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/kube/fake"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage"
	"helm.sh/helm/v3/pkg/storage/driver"
	helmtime "helm.sh/helm/v3/pkg/time"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

var strictDecoder = serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()

// noon is when everything in these tests happens.
var noon = time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)

// chartOf is a release of a small chart of castoff's: the files given, over the least there must be.
func chartOf(files map[string]string) Release {
	all := map[string]string{
		"Chart.yaml":            "apiVersion: v2\nname: small\nversion: 1.0.0\nannotations: {castoff.sh/chart: small}\n",
		"values.yaml":           "colour: red\n",
		"templates/object.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: small, namespace: default}\ndata: {colour: {{ .Values.colour }}}\n",
	}
	for name, content := range files {
		all[name] = content
	}
	root := fstest.MapFS{}
	for name, content := range all {
		root[name] = &fstest.MapFile{Data: []byte(content)}
	}
	return Release{Name: "small", Namespace: "default", Chart: root}
}

func mustPrepare(t *testing.T, r Release) *plan {
	t.Helper()
	p, err := prepare(r)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// revision is a record as Helm keeps it, of exactly what is asked for unless changed.
func revision(p *plan, version int, status release.Status, change ...func(*release.Release)) *release.Release {
	rel := &release.Release{
		Name: p.Name, Namespace: p.Namespace, Version: version, Chart: p.chart, Config: p.values, Manifest: p.manifest,
		Info: &release.Info{Status: status, Description: "why", LastDeployed: helmtime.Time{Time: noon}},
	}
	for _, f := range change {
		f(rel)
	}
	return rel
}

func TestClassify(t *testing.T) {
	want := mustPrepare(t, chartOf(nil))
	other := func(rel *release.Release) {
		rel.Chart = &chart.Chart{Metadata: &chart.Metadata{Name: "small", Version: "9.0.0"}}
	}
	blue := func(rel *release.Release) { rel.Config = map[string]any{"colour": "blue"} }
	newTemplate := func(rel *release.Release) {
		rel.Chart = &chart.Chart{Metadata: want.chart.Metadata, Values: want.chart.Values, Templates: []*chart.File{{Name: "templates/x.yaml"}}}
	}
	state := func(status Status, revision int, current bool) State {
		return State{Status: status, Revision: revision, ChartVersion: "1.0.0", Digest: want.digest, Current: current, Since: noon, Reason: "why"}
	}
	cases := map[string]struct {
		reason  string
		history []*release.Release
		want    State
	}{
		"Nothing": {reason: "no record at all", want: State{Status: NotInstalled}},
		"RecordWithoutInfo": {
			reason: "a Secret that somebody edited", history: []*release.Release{{Name: "small", Version: 1}}, want: State{Status: NotInstalled},
		},
		"RecordWithoutChart": {
			reason:  "a record that says nothing of its chart is not ours",
			history: []*release.Release{{Name: "small", Namespace: "default", Version: 1, Info: &release.Info{Status: release.StatusDeployed}}},
			want:    State{Status: Foreign, Revision: 1, Owner: "Helm release default/small of chart  "},
		},
		"AsAsked":     {reason: "same chart, same values", history: []*release.Release{revision(want, 1, release.StatusDeployed)}, want: state(Deployed, 1, true)},
		"Uninstalled": {reason: "history kept by helm uninstall --keep-history", history: []*release.Release{revision(want, 3, release.StatusUninstalled)}, want: state(NotInstalled, 3, false)},
		"PendingInstall": {
			reason: "begun and not ended", history: []*release.Release{revision(want, 1, release.StatusPendingInstall)}, want: state(Pending, 1, false),
		},
		"PendingUpgrade": {
			reason: "the newest record counts, whatever the order",
			history: []*release.Release{
				revision(want, 2, release.StatusPendingUpgrade), nil, revision(want, 1, release.StatusDeployed),
			},
			want: state(Pending, 2, false),
		},
		"PendingRollback": {reason: "the same", history: []*release.Release{revision(want, 4, release.StatusPendingRollback)}, want: state(Pending, 4, false)},
		"Uninstalling":    {reason: "an uninstall that was cut off", history: []*release.Release{revision(want, 4, release.StatusUninstalling)}, want: state(Pending, 4, false)},
		"Failed": {
			reason: "the last attempt counts even if an older one is deployed", history: []*release.Release{revision(want, 1, release.StatusDeployed), revision(want, 2, release.StatusFailed)},
			want: state(Failed, 2, false),
		},
		"Superseded": {reason: "nothing newer was recorded: the upgrade was cut off", history: []*release.Release{revision(want, 1, release.StatusSuperseded)}, want: state(Failed, 1, false)},
		"Unknown":    {reason: "a status of a later Helm", history: []*release.Release{revision(want, 1, "odd")}, want: state(Failed, 1, false)},
		"OtherValues": {
			reason: "deployed, but not from these values", history: []*release.Release{revision(want, 1, release.StatusDeployed, blue)},
			want: State{Status: Deployed, Revision: 1, ChartVersion: "1.0.0", Since: noon, Reason: "why", Digest: digest(want.chart, map[string]any{"colour": "blue"})},
		},
		"OtherTemplates": {
			reason: "a chart changed without a new version", history: []*release.Release{revision(want, 1, release.StatusDeployed, newTemplate)},
			want: State{Status: Deployed, Revision: 1, ChartVersion: "1.0.0", Since: noon, Reason: "why", Digest: digest(revision(want, 1, "", newTemplate).Chart, nil)},
		},
		"ForeignChart": {
			reason: "upstream's chart has the same name but not the annotation", history: []*release.Release{revision(want, 7, release.StatusDeployed, other)},
			want: State{
				Status: Foreign, Revision: 7, ChartVersion: "9.0.0", Since: noon, Reason: "why", Owner: "Helm release default/small of chart small 9.0.0",
				Digest: digest(revision(want, 1, "", other).Chart, nil),
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := classify(tc.history, want)
			if got.Status == Foreign && got.Digest == "" {
				got.Digest = tc.want.Digest
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

// TestDigestSurvivesStorage: what Helm reads back has other Go types and no files, and must still count as the same.
func TestDigestSurvivesStorage(t *testing.T) {
	r := engineRelease()
	r.Values = merge(r.Values, map[string]any{"replicas": 3, "nodeSelector": map[string]string{"a": "b"}})
	p := mustPrepare(t, r)
	stored, err := json.Marshal(revision(p, 1, release.StatusDeployed))
	if err != nil {
		t.Fatal(err)
	}
	var read release.Release
	if err := json.Unmarshal(stored, &read); err != nil {
		t.Fatal(err)
	}
	if state := classify([]*release.Release{&read}, mustPrepare(t, r)); !state.Current || state.Digest == "" {
		t.Errorf("the same release read back is not Current: %+v, want digest %s", state, p.digest)
	}
	r.Values = merge(r.Values, map[string]any{"replicas": 2})
	if other := mustPrepare(t, r); other.digest == p.digest {
		t.Error("two different releases have the same digest")
	}
}

// world is a Client over Helm's own storage in memory and a kube client that does as told.
type world struct {
	*Client
	store *storage.Storage
	kube  *fake.FailingKubeClient
	clock time.Time
}

func newWorld(t *testing.T, records ...*release.Release) *world {
	t.Helper()
	memory := driver.NewMemory()
	memory.SetNamespace("default")
	w := &world{store: storage.Init(memory), kube: &fake.FailingKubeClient{PrintingKubeClient: fake.PrintingKubeClient{Out: io.Discard}}, clock: noon}
	for _, record := range records {
		if err := w.store.Create(record); err != nil {
			t.Fatal(err)
		}
	}
	w.Client = &Client{
		now: func() time.Time { return w.clock },
		configuration: func(string) (*action.Configuration, error) {
			return &action.Configuration{Releases: w.store, KubeClient: w.kube, Capabilities: chartutil.DefaultCapabilities, Log: func(string, ...any) {}}, nil
		},
	}
	return w
}

func (w *world) statuses(t *testing.T) []release.Status {
	t.Helper()
	history, err := w.store.History("small")
	if err != nil && !errors.Is(err, driver.ErrReleaseNotFound) {
		t.Fatal(err)
	}
	result := make([]release.Status, len(history))
	for _, rel := range history {
		result[rel.Version-1] = rel.Info.Status
	}
	return result
}

func TestApply(t *testing.T) {
	small := chartOf(nil)
	p := mustPrepare(t, small)
	blue := chartOf(nil)
	blue.Values = map[string]any{"colour": "blue"}
	upstream := func(rel *release.Release) {
		rel.Chart = &chart.Chart{Metadata: &chart.Metadata{Name: "small", Version: "9"}}
	}
	reset := errors.New("connection reset")

	cases := map[string]struct {
		reason       string
		records      []*release.Release
		release      Release
		now          time.Time
		updateErr    error
		wantErr      error // compared by type
		wantClass    inventory.Class
		wantState    Status
		wantStatuses []release.Status
	}{
		"First": {
			reason: "nothing there: install", release: small, now: noon, wantState: Deployed, wantStatuses: []release.Status{"deployed"},
		},
		"Again": {
			reason: "as asked: nothing is written", records: []*release.Release{revision(p, 1, "deployed")}, release: small, now: noon,
			wantState: Deployed, wantStatuses: []release.Status{"deployed"},
		},
		"NewValues": {
			reason: "other values: upgrade", records: []*release.Release{revision(p, 1, "deployed")}, release: blue, now: noon,
			wantState: Deployed, wantStatuses: []release.Status{"superseded", "deployed"},
		},
		"AfterUninstall": {
			reason: "kept history is no obstacle", records: []*release.Release{revision(p, 1, "uninstalled")}, release: small, now: noon,
			wantState: Deployed, wantStatuses: []release.Status{"superseded", "deployed"},
		},
		"AfterFailedInstall": {
			reason: "the next attempt goes on", records: []*release.Release{revision(p, 1, "failed")}, release: small, now: noon,
			wantState: Deployed, wantStatuses: []release.Status{"superseded", "deployed"},
		},
		"AfterFailedUpgrade": {
			reason: "the next attempt goes on from the one that is deployed", records: []*release.Release{revision(p, 1, "deployed"), revision(p, 2, "failed")},
			release: blue, now: noon, wantState: Deployed, wantStatuses: []release.Status{"superseded", "failed", "deployed"},
		},
		"PendingInstallRuns": {
			reason: "another process may be at it", records: []*release.Release{revision(p, 1, "pending-install")}, release: small, now: noon.Add(PendingGrace - time.Second),
			wantErr: &PendingError{}, wantClass: inventory.ClassRetry, wantState: Pending, wantStatuses: []release.Status{"pending-install"},
		},
		"PendingInstallDied": {
			reason: "nobody is at it any more", records: []*release.Release{revision(p, 1, "pending-install")}, release: small, now: noon.Add(PendingGrace),
			wantState: Deployed, wantStatuses: []release.Status{"superseded", "deployed"},
		},
		"PendingUpgradeDied": {
			reason: "the same for an upgrade", records: []*release.Release{revision(p, 1, "deployed"), revision(p, 2, "pending-upgrade")}, release: blue,
			now: noon.Add(time.Hour), wantState: Deployed, wantStatuses: []release.Status{"superseded", "failed", "deployed"},
		},
		"PendingRollbackDied": {
			reason: "the same for a rollback", records: []*release.Release{revision(p, 1, "deployed"), revision(p, 2, "pending-rollback")}, release: blue,
			now: noon.Add(time.Hour), wantState: Deployed, wantStatuses: []release.Status{"superseded", "failed", "deployed"},
		},
		"UninstallDied": {
			reason: "half an uninstall is mended", records: []*release.Release{revision(p, 1, "uninstalling")}, release: small, now: noon.Add(time.Hour),
			wantState: Deployed, wantStatuses: []release.Status{"superseded", "deployed"},
		},
		"Foreign": {
			reason: "somebody else's release is left alone", records: []*release.Release{revision(p, 1, "deployed", upstream)}, release: small, now: noon,
			wantErr: &ForeignError{}, wantClass: inventory.ClassTerminal, wantState: Foreign, wantStatuses: []release.Status{"deployed"},
		},
		"UpgradeFails": {
			reason: "what was deployed stays deployed", records: []*release.Release{revision(p, 1, "deployed")}, release: blue, now: noon, updateErr: reset,
			wantErr: reset, wantClass: inventory.ClassRetry, wantState: Deployed, wantStatuses: []release.Status{"deployed", "failed"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, clones(tc.records)...)
			w.clock, w.kube.UpdateError = tc.now, tc.updateErr
			state, err := w.Apply(context.Background(), tc.release)
			if !sameKind(tc.wantErr, err) {
				t.Errorf("%s: error %v, want %T", tc.reason, err, tc.wantErr)
			}
			if err != nil && inventory.ClassOf(err) != tc.wantClass {
				t.Errorf("%s: class %s, want %s", tc.reason, inventory.ClassOf(err), tc.wantClass)
			}
			if state.Status != tc.wantState {
				t.Errorf("%s: status %s, want %s", tc.reason, state.Status, tc.wantState)
			}
			if err == nil && !state.Current {
				t.Errorf("%s: applied without error, but not Current: %+v", tc.reason, state)
			}
			if diff := cmp.Diff(tc.wantStatuses, w.statuses(t)); diff != "" {
				t.Errorf("%s: Helm's records (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

// clones keeps the table's records apart: Helm's memory driver hands out and changes the very objects it was given.
func clones(records []*release.Release) []*release.Release {
	var result []*release.Release
	for _, record := range records {
		clone, info := *record, *record.Info
		clone.Info = &info
		result = append(result, &clone)
	}
	return result
}

// sameKind compares errors by type where they have one of this package's, else by identity.
func sameKind(want, got error) bool {
	if want == nil {
		return got == nil
	}
	for _, target := range []any{new(*PendingError), new(*ForeignError), new(*ValuesError)} {
		if errors.As(want, target) {
			return errors.As(got, target)
		}
	}
	return errors.Is(got, want)
}

// TestApplyTwice: the second call on the same world makes no new revision, whatever the first had to mend.
func TestApplyTwice(t *testing.T) {
	p := mustPrepare(t, chartOf(nil))
	for _, first := range []release.Status{"pending-install", "failed", "uninstalled", "uninstalling", "deployed"} {
		t.Run(string(first), func(t *testing.T) {
			w := newWorld(t, revision(p, 1, first))
			w.clock = noon.Add(time.Hour)
			one, err := w.Apply(context.Background(), p.Release)
			if err != nil {
				t.Fatal(err)
			}
			two, err := w.Apply(context.Background(), p.Release)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(one, two); diff != "" {
				t.Errorf("the second Apply changed something (-first +second):\n%s", diff)
			}
		})
	}
}

func TestHistoryIsBounded(t *testing.T) {
	w := newWorld(t)
	for _, colour := range strings.Split("abcdefghij", "") {
		r := chartOf(nil)
		r.Values = map[string]any{"colour": colour}
		if _, err := w.Apply(context.Background(), r); err != nil {
			t.Fatal(err)
		}
	}
	history, err := w.store.History("small")
	if err != nil {
		t.Fatal(err)
	}
	if len(history) != historyKept {
		t.Errorf("%d revisions are kept, want %d", len(history), historyKept)
	}
}

func TestUninstall(t *testing.T) {
	p := mustPrepare(t, chartOf(nil))
	upstream := func(rel *release.Release) {
		rel.Chart = &chart.Chart{Metadata: &chart.Metadata{Name: "small", Version: "9"}}
	}
	cases := map[string]struct {
		reason  string
		records []*release.Release
		now     time.Time
		wantErr error
		want    []release.Status
	}{
		"Nothing":  {reason: "nothing to do is no error", want: []release.Status{}},
		"Deployed": {reason: "gone with its history", records: []*release.Release{revision(p, 1, "deployed")}, want: []release.Status{}},
		"Failed":   {reason: "a failed one too", records: []*release.Release{revision(p, 1, "failed")}, want: []release.Status{}},
		"HalfGone": {reason: "an uninstall that was cut off is ended", records: []*release.Release{revision(p, 1, "uninstalling")}, now: noon.Add(time.Hour), want: []release.Status{}},
		"History":  {reason: "one that is gone, its history kept by whoever did it, is left", records: []*release.Release{revision(p, 1, "uninstalled")}, want: []release.Status{"uninstalled"}},
		"Died":     {reason: "a dead operation is no obstacle", records: []*release.Release{revision(p, 1, "pending-install")}, now: noon.Add(time.Hour), want: []release.Status{}},
		"Running": {
			reason: "a running one is", records: []*release.Release{revision(p, 1, "pending-upgrade")}, now: noon,
			wantErr: &PendingError{}, want: []release.Status{"pending-upgrade"},
		},
		"Foreign": {
			reason: "never what is not ours", records: []*release.Release{revision(p, 1, "deployed", upstream)},
			wantErr: &ForeignError{}, want: []release.Status{"deployed"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, clones(tc.records)...)
			w.clock = tc.now
			for range 2 { // the second changes nothing, and says the same
				if err := w.Uninstall(context.Background(), p.Release); !sameKind(tc.wantErr, err) {
					t.Errorf("%s: error %v, want %T", tc.reason, err, tc.wantErr)
				}
			}
			if diff := cmp.Diff(tc.want, w.statuses(t), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s: Helm's records (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestCancelledContextWritesNothing(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := w.Apply(ctx, chartOf(nil)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error", err)
	}
	if got := w.statuses(t); len(got) != 0 {
		t.Errorf("a cancelled Apply left records: %v", got)
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	cases := map[string]struct {
		reason string
		err    error
		want   string
	}{
		"Foreign": {
			reason: "the object, its owner, the two ways out",
			err:    &ForeignError{Object: "Deployment kube-system/karpenter", Owner: "Helm release kube-system/other"},
			want:   "Deployment kube-system/karpenter belongs to Helm release kube-system/other and was left alone; let its owner remove it",
		},
		"Pending": {
			reason: "since when, and what happens next",
			err:    &PendingError{Release: "kube-system/karpenter", Since: noon, Grace: PendingGrace},
			want:   "release kube-system/karpenter: another operation has been pending since 2030-01-02T12:00:00Z; it is taken over 30s after that",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.err.Error()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestExplain(t *testing.T) {
	group := schema.GroupKind{Group: "apps", Kind: "Deployment"}
	invalid := apierrors.NewInvalid(group, "karpenter", field.ErrorList{field.Invalid(field.NewPath("spec", "replicas"), -1, "must not be negative")})
	cases := map[string]struct {
		reason string
		err    error
		want   []Problem // nil: the error is not about values
	}{
		"Invalid": {
			reason: "the field that the API server names", err: fmt.Errorf("wrapped: %w", invalid),
			want: []Problem{{Value: "Deployment karpenter: spec.replicas", Reason: "Invalid value: -1: must not be negative"}},
		},
		"BadRequest": {
			reason: "an object that does not decode has no field to name", err: apierrors.NewBadRequest("cannot be handled as a Deployment"),
			want: []Problem{{Reason: "cannot be handled as a Deployment"}},
		},
		"Forbidden": {reason: "rights are not values", err: apierrors.NewForbidden(schema.GroupResource{Resource: "deployments"}, "karpenter", errors.New("no"))},
		"Network":   {reason: "try again", err: errors.New("connection reset")},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := explain(Release{Name: "karpenter", Namespace: "kube-system"}, tc.err)
			if !errors.Is(got, tc.err) {
				t.Errorf("%s: the cause is lost: %v", tc.reason, got)
			}
			var values *ValuesError
			if errors.As(got, &values) != (tc.want != nil) {
				t.Fatalf("%s: got %v", tc.reason, got)
			}
			if values != nil {
				if diff := cmp.Diff(tc.want, values.Problems); diff != "" {
					t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
				}
			}
		})
	}
}

func TestClassed(t *testing.T) {
	resource := schema.GroupResource{Resource: "deployments"}
	cases := map[string]struct {
		reason string
		err    error
		want   inventory.Class
	}{
		"Values":    {reason: "somebody has to change them", err: fmt.Errorf("x: %w", &ValuesError{}), want: inventory.ClassTerminal},
		"Foreign":   {reason: "somebody has to decide", err: errors.Join(&ForeignError{}, &ForeignError{}), want: inventory.ClassTerminal},
		"Forbidden": {reason: "somebody has to give the right", err: apierrors.NewForbidden(resource, "a", errors.New("no")), want: inventory.ClassTerminal},
		"Throttled": {reason: "not a failure", err: apierrors.NewTooManyRequests("slow down", 1), want: inventory.ClassThrottled},
		"Pending":   {reason: "it ends by itself", err: &PendingError{}, want: inventory.ClassRetry},
		"Conflict":  {reason: "somebody was faster", err: apierrors.NewConflict(resource, "a", errors.New("old")), want: inventory.ClassRetry},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := classed(tc.err)
			if class := inventory.ClassOf(got); class != tc.want || !errors.Is(got, tc.err) {
				t.Errorf("%s: class %s of %v, want %s", tc.reason, class, got, tc.want)
			}
		})
	}
	if err := classed(nil); err != nil {
		t.Errorf("no error became %v", err)
	}
}
