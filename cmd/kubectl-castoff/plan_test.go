package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/cost"
	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/plan"
	"github.com/castoff-sh/castoff/pkg/preflight"
)

var update = flag.Bool("update", false, "write the golden files of testdata instead of comparing with them")

// golden compares with a file of testdata; go test ./cmd/kubectl-castoff -update writes it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	got = withoutHashes(got)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s: -want +got; -update after looking at it\n%s", file, diff)
	}
}

// listed is a price list of two types, in one zone.
func listed(_ context.Context, c inventory.Cluster, types []string) (map[string]inventory.InstanceType, error) {
	if c.Region != "us-east-1" {
		return nil, fmt.Errorf("prices of region %q", c.Region)
	}
	all := map[string]inventory.InstanceType{
		"m5.large":   {Name: "m5.large", VCPUs: 2, MemoryMiB: 8192, MaxPods: 29, OnDemand: 0.096, Spot: map[string]float64{"us-east-1a": 0.0288, "us-east-1b": 0.0307}},
		"c5.xlarge":  {Name: "c5.xlarge", VCPUs: 4, MemoryMiB: 8192, MaxPods: 58, OnDemand: 0.17, Spot: map[string]float64{"us-east-1a": 0.06}},
		"c5a.xlarge": {Name: "c5a.xlarge", VCPUs: 4, MemoryMiB: 8192, MaxPods: 58, OnDemand: 0.154, Spot: map[string]float64{"us-east-1a": 0.05}},
	}
	maps.DeleteFunc(all, func(name string, _ inventory.InstanceType) bool { return !slices.Contains(types, name) })
	return all, nil
}

// world is a cluster with two groups and one bare pod, which nobody may write to.
func world(t *testing.T) client.WithWatch {
	t.Helper()
	bare := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "debug"}, Spec: corev1.PodSpec{NodeName: "general"}}
	return fakeClient(t, refuseWrites(t), node("system"), node("system-2"), node("general"), bare)
}

// withoutHashes leaves out what changes with every change of translation, and means nothing to the reader of a plan.
func withoutHashes(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		if before, _, ok := strings.Cut(l, "castoff.sh/target-hash: "); ok {
			lines[i] = before + "castoff.sh/target-hash: HASH"
		}
	}
	return strings.Join(lines, "\n")
}

func TestPlanIsPrintedAndWritesNothing(t *testing.T) {
	c := world(t)
	got, err := run(t, c, observer(c, nodeGroups{}), "", "plan", "--cluster", "prod")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "plan-prod.txt", got)
}

func TestPlanForMachines(t *testing.T) {
	for format, unmarshal := range map[string]func([]byte, any) error{
		"json": json.Unmarshal,
		"yaml": func(b []byte, v any) error { return yaml.UnmarshalStrict(b, v) },
	} {
		c := world(t)
		out, err := run(t, c, observer(c, nodeGroups{}), "", "plan", "--cluster", "prod", "-o", format)
		if err != nil {
			t.Fatal(err)
		}
		var got document
		if err := unmarshal([]byte(out), &got); err != nil {
			t.Fatalf("%s: %v", format, err)
		}
		if got.Verdict == nil || got.Verdict.Advice != cost.MigrateLater || got.Cost == nil || got.Cost.Today.Nodes() != 1 || got.Pools[0].Types[0].OnDemand != 0.096 {
			t.Errorf("%s: verdict %+v, cost %+v", format, got.Verdict, got.Cost)
		}
		if got.Cluster != "prod" || got.Home != "system" || len(got.Pools) != 1 || got.Pools[0].Nodes != 1 || got.Pools[0].Target.NodePool.Name != "general" {
			t.Errorf("%s: %+v", format, got)
		}
		if len(got.Findings) != 2 || got.Findings[1].Check != preflight.CheckBarePod && got.Findings[0].Check != preflight.CheckBarePod {
			t.Errorf("%s: findings %+v", format, got.Findings)
		}
	}
}

func TestPlanOfTheIAMDocuments(t *testing.T) {
	cases := map[string]struct {
		reason, effects string // of the statements, each once
		says            string
	}{
		"iam":          {"the policy only allows, and as a whole is what put-role-policy takes", "Allow", `:rule/castoff-prod-health"`},
		"iam-boundary": {"the boundary denies other regions and other roles", "Allow Deny", `"aws:RequestedRegion"`},
	}
	for format, tc := range cases {
		t.Run(format, func(t *testing.T) {
			c := world(t)
			out, err := run(t, c, observer(c, nodeGroups{}), "", "plan", "--cluster", "prod", "-o", format)
			if err != nil {
				t.Fatal(err)
			}
			var policy struct {
				Version   string
				Statement []struct{ Effect string }
			}
			if err := json.Unmarshal([]byte(out), &policy); err != nil {
				t.Fatalf("no policy but %v: %s", err, out)
			}
			var effects []string
			for _, s := range policy.Statement {
				effects = append(effects, s.Effect)
			}
			slices.Sort(effects)
			if got := strings.Join(slices.Compact(effects), " "); policy.Version != "2012-10-17" || got != tc.effects || !strings.Contains(out, tc.says) {
				t.Errorf("%s: version %s, effects %s, want %s:\n%s", tc.reason, policy.Version, got, tc.effects, out)
			}
		})
	}
}

// A security team's boundary is in both documents, so that castoff can give rights to no role without it.
func TestPlanOfTheIAMDocumentsWithABoundaryForRoles(t *testing.T) {
	for _, format := range []string{"iam", "iam-boundary"} {
		c := world(t)
		out, err := run(t, c, observer(c, nodeGroups{}), "", "plan", "--cluster", "prod", "-o", format, "--roles-boundary", "arn:aws:iam::123456789012:policy/platform")
		if err != nil || !strings.Contains(out, `"iam:PermissionsBoundary": [`) || !strings.Contains(out, "policy/platform") {
			t.Errorf("%s: %v\n%s", format, err, out)
		}
	}
}

func TestPlanErrors(t *testing.T) {
	valid := "apiVersion: castoff.sh/v1alpha1\nkind: Migration\nmetadata: {name: prod}\nspec: {clusterName: prod}\n"
	file := func(content string) string {
		p := filepath.Join(t.TempDir(), "m.yaml")
		if err := os.WriteFile(p, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	unnamed := file(strings.Replace(valid, "{name: prod}", "{}", 1))
	missing := filepath.Join(t.TempDir(), "none.yaml")
	noName, other, odd := file(strings.Replace(valid, "clusterName: prod", "paused: true", 1)), file("apiVersion: v1\nkind: Pod\nspec: {}\n"), file(strings.Replace(valid, "clusterName", "clustername2", 1))
	cases := map[string]struct {
		reason    string
		arguments []string
		want      string // part of the message
	}{
		"Nothing": {
			reason: "which cluster?",
			want:   "at least one of the flags in the group [cluster filename] is required",
		},
		"Both": {
			reason:    "two answers to one question",
			arguments: []string{"--cluster", "prod", "-f", noName},
			want:      "if any flags in the group [cluster filename] are set none of the others can be",
		},
		"Arguments": {
			reason:    "a name without its flag",
			arguments: []string{"prod"},
			want:      `unknown command "prod"`,
		},
		"Output": {
			reason:    "said before half a minute of looking",
			arguments: []string{"--cluster", "prod", "-o", "xml"},
			want:      `unknown output "xml": text, yaml, json, iam, iam-boundary`,
		},
		"NoFile": {
			reason:    "the file's name is in the error",
			arguments: []string{"-f", missing},
			want:      "reading the Migration: open " + missing,
		},
		"NoCluster": {
			reason:    "the file confirms nothing",
			arguments: []string{"-f", noName},
			want:      noName + " names no cluster: set spec.clusterName",
		},
		"NoName": {
			reason:    "the API server asks for one",
			arguments: []string{"-f", unnamed},
			want:      "the Migration " + unnamed + " has no name: set metadata.name",
		},
		"OtherKind": {
			reason:    "a file of another kind",
			arguments: []string{"-f", other},
			want:      other + ` is no Migration but a "Pod" of "v1": apiVersion has to be castoff.sh/v1alpha1, kind Migration`,
		},
		"OtherField": {
			reason:    "a typing error is no default",
			arguments: []string{"-f", odd},
			want:      `unknown field "clustername2"`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := world(t)
			_, err := run(t, c, observer(c, nodeGroups{}), "", append([]string{"plan"}, tc.arguments...)...)
			if !strings.Contains(message(err), tc.want) {
				t.Errorf("%s: want %q in %q", tc.reason, tc.want, message(err))
			}
		})
	}
	for name, tc := range map[string]struct{ stdin, file string }{"File": {"", file(valid)}, "StandardInput": {valid, "-"}} {
		t.Run(name, func(t *testing.T) {
			c := world(t)
			out, err := run(t, c, observer(c, nodeGroups{}), tc.stdin, "plan", "-f", tc.file)
			if err != nil || !strings.HasPrefix(out, "Cluster prod. Home") {
				t.Errorf("a valid file: %v\n%s", err, out)
			}
		})
	}
}

func TestPlanOfAClusterThatIsNotThere(t *testing.T) {
	for _, format := range formats {
		c := world(t)
		out, err := run(t, c, observer(c, noCluster{}), "", "plan", "--cluster", "prdo", "-o", format)
		if !strings.HasPrefix(message(err), `EKS knows no cluster "prdo" in the account and region of your AWS credentials`) || out != "" {
			t.Errorf("%s: a plan or a policy for no cluster is worse than none: %v\n%s", format, err, out)
		}
	}
}

// Nothing has to be installed to know what would happen: the plan comes first.
func TestPlanBeforeCastoffIsInstalled(t *testing.T) {
	funcs := refuseWrites(t)
	funcs.List = func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		if _, ok := list.(*v1alpha1.MigrationList); ok {
			return notInstalled().List(ctx, c, list)
		}
		return c.List(ctx, list, opts...)
	}
	c := fakeClient(t, funcs, node("system"), node("system-2"), node("general"))
	out, err := run(t, c, observer(c, nodeGroups{}), "", "plan", "--cluster", "prod")
	if err != nil || !strings.Contains(out, "1. Pool general: node groups general, nodes 1") {
		t.Errorf("%v\n%s", err, out)
	}
	c = fakeClient(t, interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return errDown }})
	_, err = run(t, c, observer(c, nodeGroups{}), "", "plan", "--cluster", "prod")
	if !strings.HasPrefix(message(err), "listing Migrations: ") || !strings.HasSuffix(message(err), "connection refused") {
		t.Errorf("got %q", message(err))
	}
}

func TestPlanOfAPausedMigration(t *testing.T) {
	c := world(t)
	file := "apiVersion: castoff.sh/v1alpha1\nkind: Migration\nmetadata: {name: prod}\nspec: {clusterName: prod, paused: true, onPause: RollBack}\nstatus: {phase: RolledBack, snapshot: {name: x}}\n"
	out, err := run(t, c, observer(c, nodeGroups{}), file, "plan", "-f", "-")
	if err != nil || !strings.Contains(out, "BarePod pod/shop/debug") {
		t.Errorf("what blocks is looked for, paused or not: %v\n%s", err, out)
	}
}

func TestPlanOfAMigrationThatHasBegun(t *testing.T) {
	begun := func(change ...func(*v1alpha1.Migration)) *v1alpha1.Migration {
		return migrationNamed("move", append([]func(*v1alpha1.Migration){func(m *v1alpha1.Migration) {
			m.Status.Phase, m.Status.Snapshot = v1alpha1.PhaseShifting, &v1alpha1.SnapshotReference{}
		}}, change...)...)
	}
	cases := map[string]struct {
		reason string
		m      *v1alpha1.Migration
		want   string
	}{
		"Begun":      {"what was done is not undone by a plan", begun(), "With the spec of Migration move, which is Shifting, and home and pools as its snapshot has them"},
		"Completed":  {"there is nothing left to advise", begun(func(m *v1alpha1.Migration) { m.Status.Phase = v1alpha1.PhaseCompleted }), "Verdict: migrated"},
		"UnderWay":   {"nor is it while it goes on", begun(), "Verdict: under way"},
		"Untouched":  {"it has only looked so far", begun(func(m *v1alpha1.Migration) { m.Status.Snapshot, m.Status.Phase = nil, v1alpha1.PhaseAwaitingApproval }), "With the spec of Migration move, which is AwaitingApproval."},
		"RolledBack": {"everything is as it was", begun(func(m *v1alpha1.Migration) { m.Status.Phase = v1alpha1.PhaseRolledBack }), "With the spec of Migration move, which is RolledBack."},
		"Other":      {"of a name that is not this cluster's", begun(func(m *v1alpha1.Migration) { m.Spec.ClusterName = "test" }), ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := fakeClient(t, refuseWrites(t), node("system"), node("system-2"), node("general"), tc.m)
			o := observer(c, nodeGroups{})
			if tc.m.Status.Snapshot != nil {
				o.Ports.Snapshots = recorded{}
			}
			out, err := run(t, c, o, "", "plan", "--cluster", "prod")
			words := strings.Join(strings.Fields(out), " ")
			if err != nil || !strings.Contains(words, tc.want) || tc.want == "" && strings.Contains(words, "Migration move") {
				t.Errorf("%s: %v, want %q\n%s", tc.reason, err, tc.want, out)
			}
		})
	}
	c := fakeClient(t, refuseWrites(t), node("system"), node("system-2"), node("general"), begun())
	file := "apiVersion: castoff.sh/v1alpha1\nkind: Migration\nmetadata: {name: prod}\nspec: {clusterName: prod}\n"
	out, err := run(t, c, observer(c, nodeGroups{}), file, "plan", "-f", "-")
	if err != nil || !strings.Contains(out, "Migration move has begun: this is a plan of the file") {
		t.Errorf("a file is planned for, and what is there is named: %v\n%s", err, out)
	}
}

// recorded is a snapshot whose home is not the one that would be chosen today.
type recorded struct{ snapshots }

func (recorded) Load(context.Context, string) (*inventory.Snapshot, string, error) {
	return &inventory.Snapshot{Cluster: "prod", Home: "general", Pools: []inventory.Pool{{Name: "system", NodeGroups: []string{"system"}}}}, "", nil
}

func TestPlanKeepsTheHomeOfTheSnapshot(t *testing.T) {
	m := migrationNamed("move", func(m *v1alpha1.Migration) {
		m.Status.Phase, m.Status.Snapshot = v1alpha1.PhaseShifting, &v1alpha1.SnapshotReference{}
	})
	c := fakeClient(t, refuseWrites(t), node("system"), node("system-2"), node("general"), m)
	o := observer(c, nodeGroups{})
	o.Ports.Snapshots = recorded{}
	out, err := run(t, c, o, "", "plan", "--cluster", "prod")
	if err != nil || !strings.Contains(out, "castoff): general.") || !strings.Contains(out, "1. Pool system") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestMigrationsOfAreInTurn(t *testing.T) {
	in := func(phase v1alpha1.Phase, snapshot bool) func(*v1alpha1.Migration) {
		return func(m *v1alpha1.Migration) {
			if m.Status.Phase = phase; snapshot {
				m.Status.Snapshot = &v1alpha1.SnapshotReference{}
			}
		}
	}
	c := fakeClient(t, refuseWrites(t), migrationNamed("a", in(v1alpha1.PhaseRolledBack, true)), migrationNamed("b", in(v1alpha1.PhaseCompleted, true)),
		migrationNamed("c", in(v1alpha1.PhaseAssessing, false)), migrationNamed("d", in(v1alpha1.PhaseShifting, true)))
	all, err := migrationsOf(t.Context(), c, "prod")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range all {
		got = append(got, m.Name)
	}
	if diff := cmp.Diff([]string{"d", "c", "b", "a"}, got); diff != "" {
		t.Errorf("what acts comes first: -want +got\n%s", diff)
	}
}

// A plan is of what the API server would store: with nothing said it warns of no singleton that castoff would surge.
func TestPlanHasTheDefaultsOfTheAPI(t *testing.T) {
	for name, tc := range map[string]struct{ reason, strategy, capacity, surge string }{
		"NoFile":    {"a plan of a cluster is of what five lines would do", "", "WarmFirst", "Singletons"},
		"NotSaid":   {"so is that of a file which says nothing", ", strategy: {waves: Single}", "WarmFirst", "Singletons"},
		"Otherwise": {"what it says stays", ", strategy: {capacity: EvictFirst, surge: None}", "EvictFirst", "None"},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := bare(t.Context(), "prod")
			if tc.strategy != "" {
				m, err = planOptions{file: "-"}.migration(t.Context(), strings.NewReader("apiVersion: castoff.sh/v1alpha1\nkind: Migration\nmetadata: {name: prod}\nspec: {clusterName: prod"+tc.strategy+"}\n"))
			}
			if err != nil {
				t.Fatal(err)
			}
			got := m.Spec.Strategy
			if string(got.Capacity) != tc.capacity || string(got.Surge) != tc.surge || got.MaxUnavailableNodes.String() != "10%" || *got.SoakSeconds != 600 || got.TimeoutSeconds != 900 {
				t.Errorf("%s: %+v", tc.reason, got)
			}
			if m.Spec.ClusterName != "prod" || m.Name == "" {
				t.Errorf("%s: %s of cluster %q", tc.reason, m.Name, m.Spec.ClusterName)
			}
		})
	}
}

// What the API server would refuse is no plan: before castoff is installed, nothing else would say so.
func TestPlanRefusesWhatTheAPIServerRefuses(t *testing.T) {
	cases := map[string]struct{ spec, want string }{ // want is a part of the message
		"Defaults":        {"clusterName: prod", ""},
		"Nodes":           {"clusterName: prod, strategy: {maxUnavailableNodes: 3}", ""},
		"Percentage":      {"clusterName: prod, strategy: {maxUnavailableNodes: 10%}", ""},
		"Enum":            {"clusterName: prod, approval: manual", `spec.approval: Unsupported value: "manual"`},
		"NoNodes":         {"clusterName: prod, strategy: {maxUnavailableNodes: 0}", "maxUnavailableNodes is a number of at least 1"},
		"TwoPoolsOfAName": {"clusterName: prod, pools: [{name: a, nodeGroups: [x]}, {name: a, nodeGroups: [y]}]", "spec.pools[1]: Duplicate value"},
		"ExistingUnnamed": {"clusterName: prod, provisioner: {identity: Existing}", "spec.provisioner: Invalid value: provisioner.nodeRole and controllerRole are for identity Existing"},
		"QueueUnnamed":    {"clusterName: prod, provisioner: {queue: Existing}", "provisioner.queueName is for queue Existing"},
		"ExistingNamed":   {"clusterName: prod, provisioner: {queue: Existing, queueName: q}", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := admit(t.Context(), []byte("apiVersion: castoff.sh/v1alpha1\nkind: Migration\nmetadata: {name: prod}\nspec: {"+tc.spec+"}\n"))
			if (err == nil) != (tc.want == "") || !strings.Contains(message(err), tc.want) || strings.Contains(message(err), "[]") {
				t.Errorf("want %q, got %v", tc.want, err)
			}
		})
	}
}

// The types of a family that the user names are in the NodePool, with their prices, and a family that adds none is said.
func TestPlanOfMoreInstanceTypes(t *testing.T) {
	file := func(families string) string {
		return "apiVersion: castoff.sh/v1alpha1\nkind: Migration\nmetadata: {name: prod}\nspec:\n  clusterName: prod\n  home: {nodeGroup: system}\n  pools: [{name: general, nodeGroups: [general]" + families + "}]\n"
	}
	cases := map[string]struct {
		reason, families string
		want             []string
		says             string
	}{
		"None":     {"exactly the group's own", "", []string{"c5.xlarge"}, ""},
		"Family":   {"the cheaper one is counted with", ", instanceFamilies: [c5a]", []string{"c5.xlarge", "c5a.xlarge"}, ""},
		"NoFamily": {"EC2 does not know it", ", instanceFamilies: [c55]", []string{"c5.xlarge"}, "It adds no instance type to the pool: EC2 has no such family in this region."},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := world(t)
			out, err := run(t, c, observer(c, c5Groups{}), file(tc.families), "plan", "-f", "-", "-o", "json")
			if err != nil {
				t.Fatal(err)
			}
			var d document
			if err := json.Unmarshal([]byte(out), &d); err != nil {
				t.Fatal(err)
			}
			var types []string
			for _, kind := range d.Pools[0].Types {
				types = append(types, kind.Name)
				if kind.OnDemand == 0 {
					t.Errorf("%s: %s has no price", tc.reason, kind.Name)
				}
			}
			if !slices.Equal(types, tc.want) || !strings.Contains(out, tc.says) {
				t.Errorf("%s: types %v, want %v\n%s", tc.reason, types, tc.want, out)
			}
			if d.Cost == nil || d.Cost.After.USD() > d.Cost.Today.USD() {
				t.Errorf("%s: cost %+v", tc.reason, d.Cost)
			}
		})
	}
}

// c5Groups are groups of c5.xlarge.
type c5Groups struct{ nodeGroups }

func (c5Groups) List(context.Context, ...string) ([]inventory.NodeGroup, error) {
	groups := []inventory.NodeGroup{home(), group("general")}
	for i := range groups {
		groups[i].LaunchTemplate.InstanceType, groups[i].Instances[0].Type = "c5.xlarge", "c5.xlarge"
		groups[i].Types = []inventory.InstanceType{{Name: "c5.xlarge", Architecture: "amd64", VCPUs: 4, MemoryMiB: 8192}}
	}
	return groups, nil
}

func TestManifest(t *testing.T) {
	got, err := manifest(map[string]any{"kind": "X", "metadata": map[string]any{"name": "x", "creationTimestamp": nil}, "status": map[string]any{"a": 1},
		"spec": map[string]any{"zero": 0, "no": false, "empty": "", "none": nil, "nested": map[string]any{"none": nil}, "list": []any{}}})
	if err != nil {
		t.Fatal(err)
	}
	want := "kind: X\nmetadata:\n  name: x\nspec:\n  empty: \"\"\n  list: []\n  \"no\": false\n  zero: 0\n"
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("what is zero was meant, what is null was not: -want +got\n%s", diff)
	}
	if _, err := manifest(func() {}); err == nil {
		t.Error("what is no object is an error")
	}
}

func TestIAMDocumentsThatAreTooLong(t *testing.T) {
	c := inventory.Cluster{Name: strings.Repeat("c", 100), ARN: "arn:aws:eks:us-east-1:123456789012:cluster/" + strings.Repeat("c", 100), Account: "123456789012", Region: "us-east-1", Partition: "aws"}
	for format, want := range map[string]string{
		"iam":          "a role holds 10240 in inline policies: detach some of the 60 extra policies of the old node roles, which castoff gives to Karpenter's nodes too, or put its statements into two managed policies",
		"iam-boundary": "a managed policy holds 6144: detach some of the 60 extra policies",
	} {
		t.Run(format, func(t *testing.T) {
			w := plan.World{Cluster: c}
			var out strings.Builder
			if err := iamDocuments[format].print(&out, w); err != nil || !json.Valid([]byte(out.String())) {
				t.Fatalf("the longest name fits: %v\n%s", err, out.String())
			}
			for i := range 60 {
				w.NodePolicies = append(w.NodePolicies, fmt.Sprintf("arn:aws:iam::123456789012:policy/%0128d", i))
			}
			out.Reset()
			err := iamDocuments[format].print(&out, w)
			if !strings.Contains(message(err), want) || out.Len() > 0 {
				t.Errorf("what IAM would refuse is named, and not printed: %v", err)
			}
		})
	}
}
