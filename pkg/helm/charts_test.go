package helm

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/castoff-sh/castoff/charts"
)

const digestOfTest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func castoffChart() fs.FS { return os.DirFS("../../charts/castoff") }

var engineOfTest = Engine{Image: "ghcr.io/castoff-sh/provisioner:0.1.0", ClusterName: "harbor", InterruptionQueue: "harbor"}

func engineRelease() Release { return engineOfTest.Release() }

func castoffRelease() Release {
	return Release{Name: "castoff", Namespace: "castoff-system", Chart: castoffChart()}
}

// rendered decodes every object of a release strictly: a misspelt field fails the test.
func rendered(t *testing.T, r Release) []runtime.Object {
	t.Helper()
	manifest, err := Render(r)
	if err != nil {
		t.Fatalf("rendering %s: %v", r, err)
	}
	return decoded(t, manifest)
}

func decoded(t *testing.T, manifest string) []runtime.Object {
	t.Helper()
	var objects []runtime.Object
	for _, document := range strings.Split(manifest, "---\n")[1:] {
		object, _, err := strictDecoder.Decode([]byte(document), nil, nil)
		if err != nil {
			t.Fatalf("decoding an object: %v\n%s", err, document)
		}
		objects = append(objects, object)
	}
	return objects
}

// find returns the one object of a type and name.
func find[T any](t *testing.T, objects []runtime.Object, name string) T {
	t.Helper()
	for _, object := range objects {
		if typed, ok := object.(T); ok {
			if accessor, err := meta.Accessor(object); err == nil && accessor.GetName() == name {
				return typed
			}
		}
	}
	var none T
	t.Fatalf("no %T named %q was rendered", none, name)
	return none
}

func names(t *testing.T, objects []runtime.Object) []string {
	t.Helper()
	var result []string
	for _, object := range objects {
		kinds, _, err := scheme.Scheme.ObjectKinds(object)
		if err != nil {
			t.Fatal(err)
		}
		accessor, err := meta.Accessor(object)
		if err != nil {
			t.Fatal(err)
		}
		result = append(result, kinds[0].Kind+" "+strings.TrimPrefix(accessor.GetNamespace()+"/"+accessor.GetName(), "/"))
	}
	slices.Sort(result)
	return result
}

func TestObjectNames(t *testing.T) {
	elsewhere := engineRelease()
	elsewhere.Namespace = "karpenter"
	ownAccount := engineRelease()
	ownAccount.Values = merge(ownAccount.Values, map[string]any{"serviceAccount": map[string]any{"create": false, "name": "mine"}})

	cases := map[string]struct {
		reason  string
		release Release
		want    []string
	}{
		"Engine": {
			reason:  "namespaced objects are named as upstream's, cluster-scoped bindings are not: their roleRef could never change",
			release: engineRelease(),
			want: []string{
				"ClusterRoleBinding castoff-engine", "ClusterRoleBinding castoff-engine-core", "Deployment kube-system/karpenter",
				"PodDisruptionBudget kube-system/karpenter", "Role kube-system/karpenter", "Role kube-system/karpenter-dns",
				"RoleBinding kube-system/karpenter", "RoleBinding kube-system/karpenter-dns", "Service kube-system/karpenter",
				"ServiceAccount kube-system/karpenter",
			},
		},
		"EngineInItsOwnNamespace": {
			reason:  "cluster DNS stays in kube-system wherever the engine runs",
			release: elsewhere,
			want: []string{
				"ClusterRoleBinding castoff-engine", "ClusterRoleBinding castoff-engine-core", "Deployment karpenter/karpenter",
				"PodDisruptionBudget karpenter/karpenter", "Role karpenter/karpenter", "Role kube-system/karpenter-dns",
				"RoleBinding karpenter/karpenter", "RoleBinding kube-system/karpenter-dns", "Service karpenter/karpenter",
				"ServiceAccount karpenter/karpenter",
			},
		},
		"EngineWithAServiceAccountOfTheUsers": {
			reason:  "no ServiceAccount is made where the user has one",
			release: ownAccount,
			want: []string{
				"ClusterRoleBinding castoff-engine", "ClusterRoleBinding castoff-engine-core", "Deployment kube-system/karpenter",
				"PodDisruptionBudget kube-system/karpenter", "Role kube-system/karpenter", "Role kube-system/karpenter-dns",
				"RoleBinding kube-system/karpenter", "RoleBinding kube-system/karpenter-dns", "Service kube-system/karpenter",
			},
		},
		"Castoff": {
			reason:  "the operator brings its own objects, and the engine's ClusterRoles",
			release: castoffRelease(),
			want: []string{
				"ClusterRole castoff", "ClusterRole castoff-engine", "ClusterRole castoff-engine-bind", "ClusterRole castoff-engine-core",
				"ClusterRoleBinding castoff", "ClusterRoleBinding castoff-engine-bind", "Deployment castoff-system/castoff",
				"PodDisruptionBudget castoff-system/castoff", "PriorityClass castoff-placeholder", "Role castoff-system/castoff",
				"Role kube-system/castoff-engine-install", "Role kube-system/castoff-engine-install-dns",
				"RoleBinding castoff-system/castoff",
				"RoleBinding kube-system/castoff-engine-install", "RoleBinding kube-system/castoff-engine-install-dns",
				"Service castoff-system/castoff-metrics", "ServiceAccount castoff-system/castoff",
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, names(t, rendered(t, tc.release))); diff != "" {
				t.Errorf("%s: objects (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

// TestDeployments holds what both Deployments promise to whoever reviews them.
func TestDeployments(t *testing.T) {
	cases := map[string]struct {
		reason       string
		release      Release
		deployment   string
		priority     string
		wantRequests corev1.ResourceList
		wantAntiNode bool
	}{
		"Engine": {
			reason: "the engine is what launches nodes", release: engineRelease(), deployment: "karpenter",
			wantRequests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi")},
			wantAntiNode: true,
		},
		"Castoff": {
			reason: "the operator is small", release: castoffRelease(), deployment: "castoff",
			wantRequests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("96Mi")},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			objects := rendered(t, tc.release)
			deployment := find[*appsv1.Deployment](t, objects, tc.deployment)
			pod := deployment.Spec.Template.Spec
			if got := *deployment.Spec.Replicas; got != 2 {
				t.Errorf("%s: %d replicas, want 2", tc.reason, got)
			}
			if pod.PriorityClassName != "system-cluster-critical" {
				t.Errorf("%s: priority class %q, want system-cluster-critical", tc.reason, pod.PriorityClassName)
			}
			checkSecurity(t, pod)
			checkProbes(t, pod.Containers[0])
			if diff := cmp.Diff(tc.wantRequests, pod.Containers[0].Resources.Requests); diff != "" {
				t.Errorf("%s: requests (-want +got):\n%s", tc.reason, diff)
			}
			if got := pod.TopologySpreadConstraints[0].TopologyKey; got != corev1.LabelTopologyZone {
				t.Errorf("%s: spread over %q, want zones", tc.reason, got)
			}
			budget := find[*policyv1.PodDisruptionBudget](t, objects, tc.deployment)
			if got := budget.Spec.MaxUnavailable.IntValue(); got != 1 {
				t.Errorf("%s: the PDB's maxUnavailable is %d, want 1", tc.reason, got)
			}
			if diff := cmp.Diff(deployment.Spec.Selector, budget.Spec.Selector); diff != "" {
				t.Errorf("%s: the PDB selects other pods than the Deployment:\n%s", tc.reason, diff)
			}
		})
	}
}

func checkSecurity(t *testing.T, pod corev1.PodSpec) {
	t.Helper()
	got := map[string]bool{
		"non-root pod":            *pod.SecurityContext.RunAsNonRoot,
		"user 65532":              *pod.SecurityContext.RunAsUser == 65532,
		"seccomp RuntimeDefault":  pod.SecurityContext.SeccompProfile.Type == corev1.SeccompProfileTypeRuntimeDefault,
		"read-only root":          *pod.Containers[0].SecurityContext.ReadOnlyRootFilesystem,
		"no privilege escalation": !*pod.Containers[0].SecurityContext.AllowPrivilegeEscalation,
		"no capabilities":         slices.Equal(pod.Containers[0].SecurityContext.Capabilities.Drop, []corev1.Capability{"ALL"}),
	}
	for property, holds := range got {
		if !holds {
			t.Errorf("security context: want %s", property)
		}
	}
}

func checkProbes(t *testing.T, container corev1.Container) {
	t.Helper()
	if got := container.LivenessProbe.HTTPGet.Path; got != "/healthz" {
		t.Errorf("liveness path %q, want /healthz", got)
	}
	if got := container.ReadinessProbe.HTTPGet.Path; got != "/readyz" {
		t.Errorf("readiness path %q, want /readyz", got)
	}
	ports := map[string]int32{}
	for _, port := range container.Ports {
		ports[port.Name] = port.ContainerPort
	}
	if ports[container.ReadinessProbe.HTTPGet.Port.StrVal] != 8081 {
		t.Errorf("the probes' port is %v among %v, want 8081", container.ReadinessProbe.HTTPGet.Port, ports)
	}
}

func TestEngineScheduling(t *testing.T) {
	release := Engine{Image: "x:1", ClusterName: "harbor", NodeSelector: map[string]string{"eks.amazonaws.com/nodegroup": "system"}}.Release()
	pod := find[*appsv1.Deployment](t, rendered(t, release), "karpenter").Spec.Template.Spec

	own := map[string]string{"app.kubernetes.io/name": "karpenter", "app.kubernetes.io/instance": "karpenter"}
	terms := pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	want := []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "karpenter.sh/nodepool", Operator: corev1.NodeSelectorOpDoesNotExist}}}}
	if diff := cmp.Diff(want, terms); diff != "" {
		t.Errorf("the engine must not run on nodes it can end (-want +got):\n%s", diff)
	}
	apart := pod.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if len(apart) != 1 || apart[0].TopologyKey != corev1.LabelHostname || !cmp.Equal(apart[0].LabelSelector.MatchLabels, own) {
		t.Errorf("two engine pods may share a node: %v", apart)
	}
	spread := pod.TopologySpreadConstraints[0]
	if spread.WhenUnsatisfiable != corev1.DoNotSchedule || !cmp.Equal(spread.LabelSelector.MatchLabels, own) {
		t.Errorf("zone spread: %v", spread)
	}
	wantSelector := map[string]string{"kubernetes.io/os": "linux", "eks.amazonaws.com/nodegroup": "system"}
	if diff := cmp.Diff(wantSelector, pod.NodeSelector); diff != "" {
		t.Errorf("node selector: the home group is added to the chart's own (-want +got):\n%s", diff)
	}
}

// environment resolves nothing: values from fields are shown as "$(path)".
func environment(container corev1.Container) map[string]string {
	result := map[string]string{}
	for _, env := range container.Env {
		result[env.Name] = env.Value
		if env.ValueFrom != nil && env.ValueFrom.FieldRef != nil {
			result[env.Name] = "$(" + env.ValueFrom.FieldRef.FieldPath + ")"
		}
		if env.ValueFrom != nil && env.ValueFrom.ResourceFieldRef != nil {
			result[env.Name] = "$(" + env.ValueFrom.ResourceFieldRef.Resource + ")"
		}
	}
	return result
}

func TestEngineEnvironment(t *testing.T) {
	base := map[string]string{
		"LOG_LEVEL": "info", "METRICS_PORT": "8080", "HEALTH_PROBE_PORT": "8081", "LEADER_ELECTION_NAMESPACE": "$(metadata.namespace)",
		"CPU_REQUESTS": "$(requests.cpu)", "MEMORY_LIMIT": "$(limits.memory)", "CLUSTER_NAME": "harbor",
		"BATCH_MAX_DURATION": "10s", "BATCH_IDLE_DURATION": "1s", "PREFERENCE_POLICY": "Respect", "MIN_VALUES_POLICY": "Strict",
		"ISOLATED_VPC": "false", "EKS_CONTROL_PLANE": "false", "DISABLE_DRY_RUN": "false", "ENABLE_ZONAL_SHIFT": "false",
		"VM_MEMORY_OVERHEAD_PERCENT": "0.075", "RESERVED_ENIS": "0", "AMI_REFRESH_INTERVAL": "1m", "SUBNET_REFRESH_INTERVAL": "1m",
		"FEATURE_GATES": "CapacityBuffer=false,NodeOverlay=false,NodeRepair=false,ReservedCapacity=true,SpotToSpotConsolidation=false,StaticCapacity=false",
	}
	with := func(more map[string]string) map[string]string {
		result := map[string]string{}
		for _, m := range []map[string]string{base, more} {
			for key, value := range m {
				result[key] = value
			}
		}
		return result
	}
	cases := map[string]struct {
		reason string
		engine Engine
		want   map[string]string
	}{
		"Least": {
			reason: "what is not set is left to the engine, not passed as an empty string",
			engine: Engine{Image: "x:1", ClusterName: "harbor"},
			want:   base,
		},
		"All": {
			reason: "every setting castoff decides on reaches the engine",
			engine: Engine{Image: "x:1", ClusterName: "harbor", ClusterEndpoint: "https://127.0.0.1:6443", InterruptionQueue: "q", Region: "us-east-1"},
			want: with(map[string]string{
				"CLUSTER_ENDPOINT": "https://127.0.0.1:6443", "INTERRUPTION_QUEUE": "q", "AWS_REGION": "us-east-1",
			}),
		},
		"CustomNetworking": {
			reason: "an interface that pods get no address from does not count for how many pods a node holds",
			engine: Engine{Image: "x:1", ClusterName: "harbor", ReservedENIs: 1},
			want:   with(map[string]string{"RESERVED_ENIS": "1"}),
		},
		"UserValuesWin": {
			reason: "what the user wrote in the Migration goes over castoff's own, table by table",
			engine: Engine{Image: "x:1", ClusterName: "harbor", Values: map[string]any{
				"settings": map[string]any{"isolatedVPC": true, "batchMaxDuration": "20s", "featureGates": map[string]any{"spotToSpotConsolidation": true}},
			}},
			want: with(map[string]string{
				"ISOLATED_VPC": "true", "BATCH_MAX_DURATION": "20s",
				"FEATURE_GATES": "CapacityBuffer=false,NodeOverlay=false,NodeRepair=false,ReservedCapacity=true,SpotToSpotConsolidation=true,StaticCapacity=false",
			}),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pod := find[*appsv1.Deployment](t, rendered(t, tc.engine.Release()), "karpenter").Spec.Template.Spec
			if diff := cmp.Diff(tc.want, environment(pod.Containers[0])); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestEngineImageAndIdentity(t *testing.T) {
	cases := map[string]struct {
		reason          string
		engine          Engine
		wantImage       string
		wantAnnotations map[string]string
	}{
		"Tag":           {reason: "name and tag", engine: Engine{Image: "ghcr.io/castoff-sh/provisioner:0.1.0"}, wantImage: "ghcr.io/castoff-sh/provisioner:0.1.0"},
		"Digest":        {reason: "a digest pins", engine: Engine{Image: "r.example/p:1@" + digestOfTest}, wantImage: "r.example/p:1@" + digestOfTest},
		"RegistryPort":  {reason: "a registry's port is no tag", engine: Engine{Image: "r.example:5000/p"}, wantImage: "r.example:5000/p:1.14.1"},
		"ChartsDefault": {reason: "no image given", engine: Engine{}, wantImage: "ghcr.io/castoff-sh/provisioner:1.14.1"},
		"IRSA": {
			reason: "the role is an annotation of the ServiceAccount", engine: Engine{Image: "x:1", RoleARN: "arn:aws:iam::123456789012:role/r"},
			wantImage: "x:1", wantAnnotations: map[string]string{"eks.amazonaws.com/role-arn": "arn:aws:iam::123456789012:role/r"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.engine.ClusterName = "harbor"
			objects := rendered(t, tc.engine.Release())
			if got := find[*appsv1.Deployment](t, objects, "karpenter").Spec.Template.Spec.Containers[0].Image; got != tc.wantImage {
				t.Errorf("%s: image %q, want %q", tc.reason, got, tc.wantImage)
			}
			account := find[*corev1.ServiceAccount](t, objects, "karpenter")
			if diff := cmp.Diff(tc.wantAnnotations, account.Annotations); diff != "" {
				t.Errorf("%s: annotations (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestCastoffEnvironment(t *testing.T) {
	base := map[string]string{
		"POD_NAME": "$(metadata.name)", "POD_NAMESPACE": "$(metadata.namespace)", "METRICS_PORT": "8080", "HEALTH_PROBE_PORT": "8081",
		"LEADER_ELECTION": "true", "ENGINE_NAMESPACE": "kube-system",
		"ENGINE_IMAGE": "ghcr.io/castoff-sh/provisioner:0.1.0", "MANAGER_IMAGE": "ghcr.io/castoff-sh/manager:0.1.0",
	}
	cases := map[string]struct {
		reason string
		values map[string]any
		want   map[string]string
	}{
		"Defaults": {reason: "the region comes from the environment unless it is set", want: base},
		"Set": {
			reason: "each of them can be set",
			values: map[string]any{
				"leaderElection": false, "aws": map[string]any{"region": "eu-west-1", "rolesPermissionsBoundary": "arn:aws:iam::123456789012:policy/platform-boundary"}, "metrics": map[string]any{"port": 9090},
				"image":  map[string]any{"repository": "r.example/m", "tag": "2"},
				"engine": map[string]any{"namespace": "karpenter", "image": map[string]any{"repository": "r.example/p", "tag": "3"}},
			},
			want: map[string]string{
				"POD_NAME": "$(metadata.name)", "POD_NAMESPACE": "$(metadata.namespace)", "METRICS_PORT": "9090", "HEALTH_PROBE_PORT": "8081",
				"LEADER_ELECTION": "false", "ENGINE_NAMESPACE": "karpenter", "AWS_REGION": "eu-west-1", "ROLES_PERMISSIONS_BOUNDARY": "arn:aws:iam::123456789012:policy/platform-boundary",
				"ENGINE_IMAGE": "r.example/p:3", "MANAGER_IMAGE": "r.example/m:2",
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			release := castoffRelease()
			release.Values = tc.values
			pod := find[*appsv1.Deployment](t, rendered(t, release), "castoff").Spec.Template.Spec
			if diff := cmp.Diff(tc.want, environment(pod.Containers[0])); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestValuesErrors(t *testing.T) {
	cases := map[string]struct {
		reason  string
		release Release
		values  map[string]any
		want    []Problem
	}{
		"NoClusterName": {
			reason: "the one value that has no default",
			values: map[string]any{"settings": map[string]any{"clusterName": ""}},
			want:   []Problem{{Value: "settings.clusterName"}},
		},
		"WrongType": {
			reason: "a string where a number belongs",
			values: map[string]any{"replicas": "two"},
			want:   []Problem{{Value: "replicas"}},
		},
		"Misspelt": {
			reason: "an unknown name is an error, not a value without effect",
			values: map[string]any{"settings": map[string]any{"interuptionQueue": "q"}},
			want:   []Problem{{Value: "settings"}},
		},
		"Quantity": {
			reason: "caught here: on an upgrade Helm reports the API server's refusal as a sentence only",
			values: map[string]any{"controller": map[string]any{"resources": map[string]any{"requests": map[string]any{"cpu": "a lot"}}}},
			want:   []Problem{{Value: "controller.resources.requests.cpu"}},
		},
		"TwoAtOnce": {
			reason: "all of them, in an order that does not change",
			values: map[string]any{"replicas": 0, "logLevel": "loud"},
			want:   []Problem{{Value: "logLevel"}, {Value: "replicas"}},
		},
		"NotJSON": {
			reason: "a value that cannot be stored cannot be applied",
			values: map[string]any{"replicas": func() {}},
			want:   []Problem{{}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			release := engineRelease()
			release.Values = merge(release.Values, tc.values)
			_, err := Render(release)
			var invalid *ValuesError
			if !errors.As(err, &invalid) {
				t.Fatalf("%s: got %v, want a ValuesError", tc.reason, err)
			}
			got := slices.CompactFunc(slices.Clone(invalid.Problems), func(a, b Problem) bool { return a.Value == b.Value })
			if diff := cmp.Diff(tc.want, got, cmpopts.IgnoreFields(Problem{}, "Reason")); diff != "" {
				t.Errorf("%s: problems (-want +got):\n%s", tc.reason, diff)
			}
			for _, problem := range invalid.Problems {
				if problem.Reason == "" || !strings.Contains(err.Error(), problem.Reason) && len(invalid.Problems) <= 3 {
					t.Errorf("%s: %q does not say what is wrong with %q", tc.reason, err, problem.Value)
				}
			}
		})
	}
}

func TestValuesErrorNamesThreeAtMost(t *testing.T) {
	err := &ValuesError{Release: "a/b", Problems: []Problem{{"v1", "r1"}, {"v2", "r2"}, {"v3", "r3"}, {"v4", "r4"}, {"v5", "r5"}}}
	want := `release a/b: the chart does not accept its values: value "v1": r1; value "v2": r2; value "v3": r3; and 2 more; correct them and apply again`
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Errorf("message (-want +got):\n%s", diff)
	}
}

func TestTemplateErrorIsAValuesError(t *testing.T) {
	release := chartOf(map[string]string{"templates/a.yaml": `{{ fail "no" }}`})
	_, err := Render(release)
	var invalid *ValuesError
	if !errors.As(err, &invalid) || invalid.Unwrap() == nil {
		t.Errorf("got %v, want a ValuesError with its cause: the same values would fail again", err)
	}
}

func TestBrokenChartIsNotTheUsersFault(t *testing.T) {
	cases := map[string]struct {
		reason  string
		release Release
	}{
		"NoChart":   {reason: "a nil chart is a mistake of the caller", release: Release{Name: "a", Namespace: "b"}},
		"EmptyDir":  {reason: "a folder without Chart.yaml is no chart", release: Release{Name: "a", Namespace: "b", Chart: os.DirFS(t.TempDir())}},
		"BadSchema": {reason: "a schema that does not parse", release: chartOf(map[string]string{"values.schema.json": `{"type": 7}`})},
		"NoSchema":  {reason: "a schema that is no JSON", release: chartOf(map[string]string{"values.schema.json": `{`})},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := Render(tc.release)
			var invalid *ValuesError
			if err == nil || errors.As(err, &invalid) {
				t.Errorf("%s: got %v, want an error that is no ValuesError", tc.reason, err)
			}
		})
	}
}

// TestVersionsAgree keeps the chart's version that of the module it runs.
func TestVersionsAgree(t *testing.T) {
	loaded, err := load(charts.Provisioner())
	if err != nil {
		t.Fatal(err)
	}
	modules, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for _, module := range []string{"github.com/aws/karpenter-provider-aws", "sigs.k8s.io/karpenter"} {
		if want := module + " v" + loaded.Metadata.AppVersion + "\n"; !strings.Contains(string(modules), want) {
			t.Errorf("go.mod does not require %q, so the chart's appVersion is wrong", strings.TrimSpace(want))
		}
	}
}

// TestEveryValueIsInTheSchema catches a default that no user could repeat, and a schema that knows values the chart does not.
func TestEveryValueIsInTheSchema(t *testing.T) {
	for name, chart := range map[string]fs.FS{"provisioner": charts.Provisioner(), "castoff": castoffChart()} {
		t.Run(name, func(t *testing.T) {
			loaded, err := load(chart)
			if err != nil {
				t.Fatal(err)
			}
			release := Release{Name: "karpenter", Namespace: "kube-system", Chart: chart, Values: merge(loaded.Values, nil)}
			if settings, ok := release.Values["settings"].(map[string]any); ok {
				settings["clusterName"] = "harbor"
			}
			if _, err := Render(release); err != nil {
				t.Errorf("the chart's own defaults, given back to it: %v", err)
			}
		})
	}
}

func rules(objects []runtime.Object) map[string][]rbacv1.PolicyRule {
	result := map[string][]rbacv1.PolicyRule{}
	for _, object := range objects {
		switch role := object.(type) {
		case *rbacv1.ClusterRole:
			result["ClusterRole "+role.Name] = role.Rules
		case *rbacv1.Role:
			result["Role "+role.Namespace+"/"+role.Name] = role.Rules
		}
	}
	return result
}
