package prometheus

import (
	"bytes"
	"context"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"sigs.k8s.io/yaml"
)

const chart = "../../charts/castoff"

// operatorObject is what of a ServiceMonitor or PrometheusRule is looked at.
type operatorObject struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name, Namespace string
		Labels          map[string]string
	} `json:"metadata"`
	Spec map[string]any `json:"spec"`
}

// rendered is one template of the chart, as Helm renders it for release castoff in castoff-system.
func rendered(t *testing.T, template string, values map[string]any) (operatorObject, bool) {
	t.Helper()
	c, err := loader.Load(chart)
	if err != nil {
		t.Fatal(err)
	}
	all, err := chartutil.ToRenderValues(c, values, chartutil.ReleaseOptions{Name: "castoff", Namespace: "castoff-system"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	files, err := engine.Render(c, all)
	if err != nil {
		t.Fatal(err)
	}
	var out operatorObject
	text := files["castoff/templates/"+template]
	if err := yaml.UnmarshalStrict([]byte(text), &out); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return out, strings.TrimSpace(text) != ""
}

func metricsValues(part string, values map[string]any) map[string]any {
	return map[string]any{"metrics": map[string]any{part: values}}
}

// alertRules are the rules that the chart installs, as a file.
func alertRules(t *testing.T) []byte {
	t.Helper()
	object, _ := rendered(t, "prometheusrule.yaml", metricsValues("prometheusRule", map[string]any{"enabled": true}))
	spec, err := yaml.Marshal(object.Spec)
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

func TestMonitoringIsOffByDefault(t *testing.T) {
	for _, template := range []string{"prometheusrule.yaml", "servicemonitor.yaml"} {
		if object, made := rendered(t, template, nil); made {
			t.Errorf("a cluster without the Prometheus operator could not install it: %+v", object)
		}
	}
}

func TestMonitoringObjects(t *testing.T) {
	cases := map[string]struct {
		reason, template, part string
		values                 map[string]any
		kind, label            string
		spec                   map[string]any
	}{
		"Rule": {
			reason: "the rules are found by the label that the user's Prometheus selects by", template: "prometheusrule.yaml", part: "prometheusRule",
			values: map[string]any{"enabled": true, "labels": map[string]any{"release": "monitoring"}}, kind: "PrometheusRule", label: "monitoring",
		},
		"Monitor": {
			reason: "the Service of the chart is scraped", template: "servicemonitor.yaml", part: "serviceMonitor",
			values: map[string]any{"enabled": true, "labels": map[string]any{"release": "monitoring"}, "interval": "30s"}, kind: "ServiceMonitor", label: "monitoring",
			spec: map[string]any{
				"selector":          map[string]any{"matchLabels": map[string]any{"app.kubernetes.io/name": "castoff", "app.kubernetes.io/instance": "castoff"}},
				"namespaceSelector": map[string]any{"matchNames": []any{"castoff-system"}},
				"endpoints":         []any{map[string]any{"port": "metrics", "path": "/metrics", "interval": "30s"}},
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, made := rendered(t, tc.template, metricsValues(tc.part, tc.values))
			if !made || got.Kind != tc.kind || got.APIVersion != "monitoring.coreos.com/v1" || got.Metadata.Namespace != "castoff-system" || got.Metadata.Labels["release"] != tc.label {
				t.Errorf("%s: %+v", tc.reason, got)
			}
			if tc.spec == nil {
				return
			}
			if diff := cmp.Diff(tc.spec, got.Spec); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// TestTheMonitorFindsTheService: its selector and port are those of the Service that the chart makes.
func TestTheMonitorFindsTheService(t *testing.T) {
	service, _ := rendered(t, "service.yaml", nil)
	monitor, _ := rendered(t, "servicemonitor.yaml", metricsValues("serviceMonitor", map[string]any{"enabled": true}))
	for key, want := range monitor.Spec["selector"].(map[string]any)["matchLabels"].(map[string]any) {
		if service.Metadata.Labels[key] != want {
			t.Errorf("the monitor selects %s=%v, and the Service has %q", key, want, service.Metadata.Labels[key])
		}
	}
	ports := service.Spec["ports"].([]any)
	endpoint := monitor.Spec["endpoints"].([]any)[0].(map[string]any)
	if !slices.ContainsFunc(ports, func(p any) bool { return p.(map[string]any)["name"] == endpoint["port"] }) {
		t.Errorf("the monitor scrapes port %v, and the Service has %v", endpoint["port"], ports)
	}
}

// TestRulesAreAsPromtoolWantsThem: the checks of promtool check rules, and what an alert needs to be of use.
func TestRulesAreAsPromtoolWantsThem(t *testing.T) {
	content := alertRules(t)
	groups, errs := rulefmt.Parse(content, false, model.LegacyValidation, parser.NewParser(parser.Options{}), promslog.NewNopLogger())
	if len(errs) > 0 || len(groups.Groups) == 0 {
		t.Fatalf("%v in\n%s", errs, content)
	}
	plain, err := os.ReadFile(filepath.Join(chart, "alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if _, errs := rulefmt.Parse(plain, false, model.LegacyValidation, parser.NewParser(parser.Options{}), promslog.NewNopLogger()); len(errs) > 0 {
		t.Errorf("the file that Prometheus may read without the operator: %v", errs)
	}
	page, err := os.ReadFile("../../docs/runbooks/alerts.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range groups.Groups[0].Rules {
		if !slices.Contains([]string{"critical", "warning"}, rule.Labels["severity"]) {
			t.Errorf("%s: severity %q", rule.Alert, rule.Labels["severity"])
		}
		for _, name := range []string{"summary", "description", "runbook_url"} {
			if rule.Annotations[name] == "" {
				t.Errorf("%s has no %s", rule.Alert, name)
			}
		}
		if want := "https://github.com/castoff-sh/castoff/blob/main/docs/runbooks/alerts.md#" + strings.ToLower(rule.Alert); rule.Annotations["runbook_url"] != want {
			t.Errorf("%s: runbook %s, want %s", rule.Alert, rule.Annotations["runbook_url"], want)
		}
		if !bytes.Contains(page, []byte("\n## "+rule.Alert+"\n")) {
			t.Errorf("docs/runbooks/alerts.md has no heading %s", rule.Alert)
		}
	}
}

// TestRulesAskForMetricsThatThereAre: a metric that is renamed must not silence an alert.
func TestRulesAskForMetricsThatThereAre(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/metrics.md") // whose rows a test of the controllers holds against what is served
	if err != nil {
		t.Fatal(err)
	}
	asked := regexp.MustCompile(`castoff_[a-z_]+`).FindAllString(string(alertRules(t)), -1)
	if len(asked) < 5 {
		t.Fatalf("the rules ask for %v", asked)
	}
	for _, name := range asked {
		if !bytes.Contains(page, []byte("| `"+name+"` |")) {
			t.Errorf("the rules ask for %s, which docs/reference/metrics.md does not have", name)
		}
	}
}

// well is a castoff that leads, on a Migration where all is as it should be: one sample every 15 s, for half an hour.
var well = map[string]string{
	`castoff_single_scaler{migration="prod",pool="general",pod="castoff-a"}`:                                 "1x120",
	`castoff_single_scaler{migration="prod",pool="batch",pod="castoff-a"}`:                                   "1x120",
	`castoff_unserved_seconds_total{migration="prod",pool="general",pod="castoff-a"}`:                        "0x120",
	`castoff_double_served_seconds_total{migration="prod",pool="general",pod="castoff-a"}`:                   "0x120",
	`castoff_migration_condition{migration="prod",condition="Ready",pod="castoff-a"}`:                        "0x120",
	`castoff_migration_condition{migration="prod",condition="Stalled",pod="castoff-a"}`:                      "0x120",
	`castoff_migration_condition{migration="prod",condition="SingleScaler",pod="castoff-a"}`:                 "1x120",
	`castoff_last_look_timestamp_seconds{migration="prod",pod="castoff-a"}`:                                  "0+15x120",
	`castoff_actions_total{kind="SetGroupSize",outcome="Done",pod="castoff-a"}`:                              "0+1x120",
	`castoff_actions_total{kind="SetGroupSize",outcome="Retry",pod="castoff-a"}`:                             "0+1x120",
	`controller_runtime_active_workers{controller="migration",pod="castoff-a"}`:                              "0x120",
	`controller_runtime_active_workers{controller="nodeclaim.lifecycle",pod="karpenter-a"}`:                  "0x120",
	`castoff_migration_blockers{migration="prod",severity="Wait",reason="EffectNotVisible",pod="castoff-a"}`: "0x8 1x8 0x104",
}

// but is well, with some series otherwise; an empty one is not there.
func but(changes map[string]string) map[string]string {
	out := maps.Clone(well)
	maps.Copy(out, changes)
	maps.DeleteFunc(out, func(_, values string) bool { return values == "" })
	return out
}

// fired is an alert in words.
type fired struct{ Name, Severity, Summary, Description string }

func TestAlerts(t *testing.T) {
	const (
		general = `castoff_single_scaler{migration="prod",pool="general",pod="castoff-a"}`
		batch   = `castoff_single_scaler{migration="prod",pool="batch",pod="castoff-a"}`
		double  = `castoff_double_served_seconds_total{migration="prod",pool="general",pod="castoff-a"}`
		stalled = `castoff_migration_condition{migration="prod",condition="Stalled",pod="castoff-a"}`
		looked  = `castoff_last_look_timestamp_seconds{migration="prod",pod="castoff-a"}`
		done    = `castoff_actions_total{kind="SetGroupSize",outcome="Done",pod="castoff-a"}`
		leads   = `controller_runtime_active_workers{controller="migration",pod="castoff-a"}`
	)
	none := func(values string) map[string]string { return but(map[string]string{general: values}) }
	cases := map[string]struct {
		reason string
		series map[string]string
		at     time.Duration
		want   []string
		says   string
	}{
		"Well":         {"nothing to tell", well, 30 * time.Minute, nil, ""},
		"NothingToDo":  {"nor where castoff leads and there is no Migration", map[string]string{leads: "0x120"}, 30 * time.Minute, nil, ""},
		"TwoScalers":   {"two scalers are told at once", but(map[string]string{general: "1x39 2x80"}), 10 * time.Minute, []string{"critical CastoffTwoScalers"}, "pool general"},
		"ThreeScalers": {"three as well", but(map[string]string{batch: "1x39 3x80"}), 10 * time.Minute, []string{"critical CastoffTwoScalers"}, "pool batch"},
		"TwoForAMoment": {
			"two that came and went between two scrapes are in the counter", but(map[string]string{double: "0x38 4x80"}), 10 * time.Minute, []string{"critical CastoffTwoScalers"}, "migration prod",
		},
		"TwoAreOver":   {"five minutes after it is over so is the alert", but(map[string]string{general: "1x9 2x9 1x100", double: "0x9 0+15x9 135x100"}), 20 * time.Minute, nil, ""},
		"ChangeHands":  {"a change of hands takes seconds", none("1x39 0 1x80"), 10*time.Minute + 15*time.Second, nil, ""},
		"NoScaler":     {"a pool without a scaler for a minute", none("1x39 0x80"), 11 * time.Minute, []string{"critical CastoffNoScaler"}, "No scaler serves pool general."},
		"NoScalerYet":  {"and not before", none("1x39 0x80"), 10*time.Minute + 45*time.Second, nil, ""},
		"ScalerAgain":  {"it is over when one is back", none("1x39 0x10 1x70"), 13 * time.Minute, nil, ""},
		"LeaderChange": {"another replica that leads goes on telling", but(map[string]string{general: "0x42 _x78", `castoff_single_scaler{migration="prod",pool="general",pod="castoff-b"}`: "_x43 0x77"}), 11 * time.Minute, []string{"critical CastoffNoScaler"}, ""},
		"Stalled":      {"a human is waited for", but(map[string]string{stalled: "0x19 1x100"}), 10 * time.Minute, []string{"warning CastoffStalled"}, "It does not go on by itself. Pools"},
		"StalledSince": {"what a human mends within five minutes is not told", but(map[string]string{stalled: "0x30 1x89"}), 10 * time.Minute, nil, ""},
		"GateFailed": {
			"and why", but(map[string]string{stalled: "0x19 1x100",
				`castoff_migration_blockers{migration="prod",severity="Block",reason="GateFailed",pod="castoff-a"}`:  "1x120",
				`castoff_migration_blockers{migration="prod",severity="Block",reason="HealthFloor",pod="castoff-a"}`: "2x120",
				`castoff_migration_blockers{migration="test",severity="Block",reason="TwoBudgets",pod="castoff-a"}`:  "1x120",
			}), 10 * time.Minute, []string{"warning CastoffStalled"}, "because of GateFailed, HealthFloor. Pools",
		},
		"NotLooking":  {"a quarter of an hour without a look", but(map[string]string{looked: "0+15x39 600x80"}), 26 * time.Minute, []string{"warning CastoffNotLooking"}, "For 16m 0s"},
		"AtRest":      {"a finished Migration is looked at every five minutes", but(map[string]string{looked: "0x19 300x19 600x19 900x19 1200x19 1500x20"}), 29 * time.Minute, nil, ""},
		"ChangesFail": {"retries, and no success", but(map[string]string{done: "3x120"}), 25 * time.Minute, []string{"warning CastoffChangesFail"}, "castoff tries SetGroupSize again and again."},
		"FirstFails":  {"one that never succeeded", but(map[string]string{done: ""}), 25 * time.Minute, []string{"warning CastoffChangesFail"}, ""},
		"Throttled":   {"throttling is no failure", but(map[string]string{`castoff_actions_total{kind="EndInstances",outcome="Throttled",pod="castoff-a"}`: "0+1x120"}), 25 * time.Minute, nil, ""},
		"Down":        {"no replica leads", map[string]string{`controller_runtime_active_workers{controller="nodeclaim.lifecycle",pod="karpenter-a"}`: "0x120"}, 10 * time.Minute, []string{"warning CastoffDown"}, "No castoff leads."},
		"Restart":     {"a rolling update takes less", but(map[string]string{leads: "0x10 _x30 0x80"}), 11 * time.Minute, nil, ""},
	}
	fires := ""
	for name, tc := range cases {
		fires += strings.Join(tc.want, "\n") + "\n"
		t.Run(name, func(t *testing.T) {
			got := alertsAt(t, tc.series, tc.at)
			var names []string
			said := ""
			for _, a := range got {
				names = append(names, a.Severity+" "+a.Name)
				said += a.Summary + " " + a.Description + "\n"
			}
			if diff := cmp.Diff(tc.want, names); diff != "" {
				t.Errorf("%s: -want +got:\n%s%s", tc.reason, diff, said)
			}
			if !strings.Contains(said, tc.says) || strings.Contains(said, "error expanding") || strings.Contains(said, "<no value>") {
				t.Errorf("%s: it is not said that %q, but %q", tc.reason, tc.says, said)
			}
		})
	}
	for _, alert := range regexp.MustCompile(`alert: (\w+)`).FindAllSubmatch(alertRules(t), -1) {
		if !strings.Contains(fires, " "+string(alert[1])+"\n") {
			t.Errorf("no case has %s fire", alert[1])
		}
	}
}

// alertsAt are the alerts that fire that long after the first sample, the rules having been evaluated as often as they say until then.
func alertsAt(t *testing.T, series map[string]string, at time.Duration) []fired {
	t.Helper()
	load := "load 15s\n"
	for _, name := range slices.Sorted(maps.Keys(series)) {
		load += "  " + name + " " + series[name] + "\n"
	}
	db := promqltest.LoadedStorage(t, load)
	queries := promqltest.NewTestEngineWithOpts(t, promql.EngineOpts{MaxSamples: 10_000, Timeout: time.Minute, EnableAtModifier: true})
	file := filepath.Join(t.TempDir(), "alerts.yaml")
	if err := os.WriteFile(file, alertRules(t), 0o600); err != nil {
		t.Fatal(err)
	}
	m := rules.NewManager(&rules.ManagerOptions{
		QueryFunc: rules.EngineQueryFunc(queries, db), Appendable: db, Queryable: db, Context: t.Context(), Logger: promslog.NewNopLogger(),
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {}, Registerer: prometheus.NewRegistry(),
	})
	groups, errs := m.LoadGroups(time.Minute, labels.EmptyLabels(), "", nil, false, file)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	var out []fired
	for _, group := range groups {
		for now := time.Unix(0, 0).UTC(); !now.After(time.Unix(0, 0).Add(at)); now = now.Add(group.Interval()) {
			group.Eval(t.Context(), now)
		}
		out = append(out, firing(t, group)...)
	}
	return out
}

func firing(t *testing.T, group *rules.Group) []fired {
	t.Helper()
	var out []fired
	for _, rule := range group.AlertingRules() {
		if rule.LastError() != nil {
			t.Errorf("%s: %v", rule.Name(), rule.LastError())
		}
		for _, a := range rule.ActiveAlerts() {
			if a.State == rules.StateFiring {
				out = append(out, fired{rule.Name(), a.Labels.Get("severity"), a.Annotations.Get("summary"), a.Annotations.Get("description")})
			}
		}
	}
	return out
}
