package runner

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

const image = "ghcr.io/castoff-sh/manager"

// testWorker is a worker of a pod with that one container, in a cluster with a ConfigMap and a Secret.
func testWorker(t *testing.T, spec corev1.Container, change func(*corev1.Pod)) *worker {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "castoff-0", Namespace: "castoff-system", UID: "u", Labels: map[string]string{"app.kubernetes.io/name": "castoff"}, Annotations: map[string]string{"note": "hi"}},
		Spec:       corev1.PodSpec{NodeName: "node-1", ServiceAccountName: "castoff", Containers: []corev1.Container{spec}},
	}
	if change != nil {
		change(pod)
	}
	client := fake.NewClientset(
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "castoff-system", Name: "settings"}, Data: map[string]string{"LOG_LEVEL": "debug", "file": "content"}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "castoff-system", Name: "keys"}, Data: map[string][]byte{"id": []byte("AKIA")}},
		pod,
	)
	r := New(Config{Client: client, Images: map[string]string{image: "/bin/manager"}, Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler),
		AWSEndpoint: "http://127.0.0.1:4566", Region: "us-east-1", CrashBackOff: time.Millisecond, Env: []string{"GOCOVERDIR=/cover"}})
	w := newWorker(r, pod)
	w.podIP, w.hostIP = "10.112.0.1", "10.0.0.7"
	t.Cleanup(w.kill)
	return w
}

func from(source corev1.EnvVarSource) *corev1.EnvVarSource { return &source }

func field(path string) *corev1.EnvVarSource {
	return from(corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}})
}

func resourceRef(name, divisor string) *corev1.EnvVarSource {
	return from(corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: name, Divisor: resource.MustParse(divisor)}})
}

func named(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }

func TestEnvironment(t *testing.T) {
	yes := true
	resources := corev1.ResourceRequirements{
		Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")},
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1500m")},
	}
	cases := map[string]struct {
		reason   string
		spec     corev1.Container
		want     map[string]string
		wantNone []string
	}{
		"FromTheLab": {
			reason: "every process finds AWS and its ports",
			want: map[string]string{
				"AWS_REGION": "us-east-1", "AWS_ENDPOINT_URL": "http://127.0.0.1:4566", "AWS_ENDPOINT_URL_STS": "http://127.0.0.1:4566",
				"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://127.0.0.1:4566/v1/credentials", "AWS_EC2_METADATA_DISABLED": "true",
				"METRICS_PORT": "1", "HEALTH_PROBE_PORT": "2", "GOCOVERDIR": "/cover", "HOSTNAME": "castoff-0",
			},
			wantNone: []string{"KUBERNETES_SERVICE_HOST", "USER"},
		},
		"PortsAreTheRunners": {
			reason: "two replicas on one machine cannot listen on the same port",
			spec:   corev1.Container{Env: []corev1.EnvVar{{Name: "METRICS_PORT", Value: "8080"}, {Name: "KUBECONFIG", Value: "/mine"}}},
			want:   map[string]string{"METRICS_PORT": "1"},
		},
		"AWSIsThePods": {
			reason:   "a pod with keys of its own keeps them",
			spec:     corev1.Container{Env: []corev1.EnvVar{{Name: "AWS_REGION", Value: "eu-west-1"}, {Name: "AWS_ACCESS_KEY_ID", Value: "ca"}}},
			want:     map[string]string{"AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "ca"},
			wantNone: []string{"AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"},
		},
		"DownwardAPI": {
			reason: "fields of the pod and of its place",
			spec: corev1.Container{Env: []corev1.EnvVar{
				{Name: "NAME", ValueFrom: field("metadata.name")}, {Name: "NAMESPACE", ValueFrom: field("metadata.namespace")},
				{Name: "NODE", ValueFrom: field("spec.nodeName")}, {Name: "SA", ValueFrom: field("spec.serviceAccountName")},
				{Name: "IP", ValueFrom: field("status.podIP")}, {Name: "HOST", ValueFrom: field("status.hostIP")},
				{Name: "LABEL", ValueFrom: field("metadata.labels['app.kubernetes.io/name']")}, {Name: "NOTE", ValueFrom: field("metadata.annotations['note']")},
			}},
			want: map[string]string{"NAME": "castoff-0", "NAMESPACE": "castoff-system", "NODE": "node-1", "SA": "castoff", "IP": "10.112.0.1", "HOST": "10.0.0.7", "LABEL": "castoff", "NOTE": "hi"},
		},
		"Resources": {
			reason: "as Karpenter's chart asks for them; rounded up; 0 where none is set",
			spec: corev1.Container{Resources: resources, Env: []corev1.EnvVar{
				{Name: "MEMORY_LIMIT", ValueFrom: resourceRef("limits.memory", "0")}, {Name: "MEMORY_MI", ValueFrom: resourceRef("limits.memory", "1Mi")},
				{Name: "CPU_REQUESTS", ValueFrom: resourceRef("requests.cpu", "1m")}, {Name: "CPUS", ValueFrom: resourceRef("requests.cpu", "1")},
				{Name: "NO_LIMIT", ValueFrom: resourceRef("limits.cpu", "1")},
			}},
			want: map[string]string{"MEMORY_LIMIT": "1073741824", "MEMORY_MI": "1024", "CPU_REQUESTS": "1500", "CPUS": "2", "NO_LIMIT": "0"},
		},
		"ConfigMapsAndSecrets": {
			reason: "by key and as a whole",
			spec: corev1.Container{
				EnvFrom: []corev1.EnvFromSource{{Prefix: "S_", ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: named("settings")}}},
				Env: []corev1.EnvVar{
					{Name: "LEVEL", ValueFrom: from(corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: named("settings"), Key: "LOG_LEVEL"}})},
					{Name: "ID", ValueFrom: from(corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: named("keys"), Key: "id"}})},
					{Name: "MAYBE", ValueFrom: from(corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: named("none"), Key: "id", Optional: &yes}})},
				},
			},
			want:     map[string]string{"S_LOG_LEVEL": "debug", "LEVEL": "debug", "ID": "AKIA"},
			wantNone: []string{"MAYBE"},
		},
		"Expansion": {
			reason: "earlier variables may be used, unknown ones stay, two dollars escape",
			spec:   corev1.Container{Env: []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "$(A)-$(C)-$$(A)"}, {Name: "C", Value: "late"}}},
			want:   map[string]string{"B": "1-$(C)-$(A)"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.spec.Image = image
			w := testWorker(t, tc.spec, nil)
			env, err := w.containers[0].environment(t.Context(), portPair{metrics: 1, health: 2})
			if err != nil {
				t.Fatal(err)
			}
			for name, want := range tc.want {
				if got, found := env[name]; !found || got != want {
					t.Errorf("%s: %s: got %q, want %q", tc.reason, name, got, want)
				}
			}
			for _, name := range tc.wantNone {
				if value, found := env[name]; found {
					t.Errorf("%s: unwanted %s=%s", tc.reason, name, value)
				}
			}
			if env["KUBECONFIG"] != w.path(kubeconfigFile) {
				t.Errorf("KUBECONFIG is %q", env["KUBECONFIG"])
			}
		})
	}
}

func TestEnvironmentNamesWhatIsMissing(t *testing.T) {
	cases := map[string]struct {
		source *corev1.EnvVarSource
		want   string
	}{
		"ConfigMap": {from(corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: named("none"), Key: "k"}}), "ConfigMap none"},
		"Key":       {from(corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: named("settings"), Key: "k"}}), "has no key k"},
		"Secret":    {from(corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: named("none"), Key: "k"}}), "Secret none"},
		"Field":     {field("status.qosClass"), "status.qosClass"},
		"Resource":  {resourceRef("memory", "1"), "limits.NAME"},
		"Kind":      {from(corev1.EnvVarSource{}), "valueFrom"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := testWorker(t, corev1.Container{Image: image, Env: []corev1.EnvVar{{Name: "X", ValueFrom: tc.source}}}, nil)
			_, err := w.containers[0].environment(t.Context(), portPair{})
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "env X") {
				t.Errorf("want an error that mentions env X and %q, got %v", tc.want, err)
			}
		})
	}
}

func TestArguments(t *testing.T) {
	cases := map[string]struct {
		reason string
		spec   corev1.Container
		want   []string
	}{
		"Args":    {"after the image's entry point", corev1.Container{Args: []string{"--cluster=$(CLUSTER)", "--x=$(NONE)"}}, []string{"--cluster=harbor", "--x=$(NONE)"}},
		"Command": {"its first word stands for the binary", corev1.Container{Command: []string{"./cluster-autoscaler", "--v=4"}, Args: []string{"--a"}}, []string{"--v=4", "--a"}},
		"None":    {"nothing to pass", corev1.Container{}, []string{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.spec.Image = image
			got := testWorker(t, tc.spec, nil).containers[0].arguments(environment{"CLUSTER": "harbor"})
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestMountRewriter(t *testing.T) {
	spec := corev1.Container{Image: image, VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: "/etc/app"}, {Name: "tmp", MountPath: "/tmp/"}}}
	w := testWorker(t, spec, nil)
	rewrite := w.containers[0].mountRewriter()
	config, tmp := w.volumePath("config"), w.volumePath("tmp")
	for value, want := range map[string]string{
		"/etc/app":                 config,
		"--config=/etc/app/a.yaml": "--config=" + config + "/a.yaml",
		"/etc/application":         "/etc/application",
		"/var/tmp":                 "/var/tmp",
		"/tmp/x,/etc/app":          tmp + "/x," + config,
		"https://host/tmp/x":       "https://host/tmp/x",
	} {
		if got := rewrite(value); got != want {
			t.Errorf("%s: got %s, want %s", value, got, want)
		}
	}
}

func TestRepository(t *testing.T) {
	for image, want := range map[string]string{
		"ghcr.io/castoff-sh/manager":              "ghcr.io/castoff-sh/manager",
		"ghcr.io/castoff-sh/manager:v1":           "ghcr.io/castoff-sh/manager",
		"ghcr.io/castoff-sh/manager@sha256:00":    "ghcr.io/castoff-sh/manager",
		"ghcr.io/castoff-sh/manager:v1@sha256:00": "ghcr.io/castoff-sh/manager",
		"localhost:5000/manager":                  "localhost:5000/manager",
		"localhost:5000/manager:v1":               "localhost:5000/manager",
	} {
		if got := repository(image); got != want {
			t.Errorf("%s: got %s, want %s", image, got, want)
		}
	}
}

func TestExpand(t *testing.T) {
	env := environment{"NAME": "web", "EMPTY": "", "NESTED": "$(NAME)"}
	cases := map[string]struct{ reason, text, want string }{
		"Plain":       {"nothing to do", "--v=4", "--v=4"},
		"Known":       {"its value", "--name=$(NAME)", "--name=web"},
		"Twice":       {"each time", "$(NAME)-$(NAME)", "web-web"},
		"Empty":       {"a variable may be empty", "<$(EMPTY)>", "<>"},
		"Unknown":     {"stays, as Kubernetes has it", "$(NOBODY)", "$(NOBODY)"},
		"Escaped":     {"two dollars are one, and no reference", "$$(NAME)", "$(NAME)"},
		"OnceOnly":    {"a value is not read again", "$(NESTED)", "$(NAME)"},
		"Unclosed":    {"no reference", "$(NAME", "$(NAME"},
		"ShellSyntax": {"is the shell's business", "${NAME} $NAME", "${NAME} $NAME"},
		"DollarFirst": {"a dollar alone is one", "$ $(NAME)", "$ web"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := expand(tc.text, env); got != tc.want {
				t.Errorf("%s: got %q, want %q", tc.reason, got, tc.want)
			}
		})
	}
}

func TestResourceField(t *testing.T) {
	spec := &corev1.Container{Resources: corev1.ResourceRequirements{
		Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")},
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1100m"), corev1.ResourceMemory: resource.MustParse("1500Ki")},
	}}
	cases := map[string]struct{ reason, field, divisor, want, fails string }{
		"Bytes":       {"of one", "limits.memory", "0", "1073741824", ""},
		"Mebibytes":   {"in units of the divisor", "limits.memory", "1Mi", "1024", ""},
		"RoundedUp":   {"as Kubernetes has it", "requests.memory", "1Mi", "2", ""},
		"Cores":       {"rounded up too", "requests.cpu", "0", "2", ""},
		"MilliCores":  {"what the engine's chart asks for", "requests.cpu", "1m", "1100", ""},
		"NotSet":      {"no limit", "limits.cpu", "1m", "0", ""},
		"NoResource":  {"of what?", "limits", "0", "", "limits.NAME"},
		"UnknownKind": {"a typo", "limit.memory", "0", "", "limit.memory"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := resourceField(spec, &corev1.ResourceFieldSelector{Resource: tc.field, Divisor: resource.MustParse(tc.divisor)})
			if (err != nil) != (tc.fails != "") || err != nil && !strings.Contains(err.Error(), tc.fails) {
				t.Fatalf("%s: got error %v, want %q", tc.reason, err, tc.fails)
			}
			if got != tc.want {
				t.Errorf("%s: got %q, want %q", tc.reason, got, tc.want)
			}
		})
	}
}

// TestAPodsOwnKeysCount: whoever brings AWS credentials is not given a pod identity, which the SDK would take second.
func TestAPodsOwnKeysCount(t *testing.T) {
	config := Config{Region: "eu-west-1", AWSEndpoint: "http://127.0.0.1:4566"}
	for name, tc := range map[string]struct {
		own      environment
		identity bool
	}{
		"Keys":   {environment{"AWS_ACCESS_KEY_ID": "AKIA"}, false},
		"NoKeys": {environment{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			env := environment{}
			addAWS(env, tc.own, config, "/token")
			if env["AWS_REGION"] != "eu-west-1" || env["AWS_ENDPOINT_URL_STS"] != config.AWSEndpoint || env["AWS_EC2_METADATA_DISABLED"] != "true" {
				t.Errorf("the way to the simulator: %v", env)
			}
			if _, given := env["AWS_CONTAINER_CREDENTIALS_FULL_URI"]; given != tc.identity {
				t.Errorf("pod identity given: %t, want %t", given, tc.identity)
			}
		})
	}
}
