package harbor

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/castoff-sh/castoff/api/v1alpha1"
)

func TestMigrationIsShort(t *testing.T) {
	if lines := strings.Count(Migration, "\n"); lines > 10 {
		t.Errorf("the Migration has %d lines, a user is promised ten", lines)
	}
	var m v1alpha1.Migration
	if err := utilyaml.UnmarshalStrict([]byte(Migration), &m); err != nil {
		t.Fatal(err)
	}
	if m.Kind != "Migration" || m.Spec.ClusterName != Cluster || m.Spec.Home == nil || m.Spec.Home.NodeGroup != Home {
		t.Errorf("the manifest is not the scene's: %+v", m)
	}
}

func TestManifests(t *testing.T) {
	cases := map[string]struct {
		reason   string
		manifest string
		want     []string
		wantErr  bool
	}{
		"Migration":  {reason: "One object.", manifest: Migration, want: []string{"Migration"}},
		"DNS":        {reason: "DNS with its budget.", manifest: dnsManifest, want: []string{"Deployment", "PodDisruptionBudget"}},
		"Autoscaler": {reason: "Cluster Autoscaler with its rights.", manifest: autoscalerManifest, want: []string{"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "Deployment"}},
		"Broken":     {reason: "What is no YAML is an error.", manifest: "a: b: c", wantErr: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			objects, err := decode(tc.manifest)
			if (err != nil) != tc.wantErr {
				t.Fatalf("%s\ndecode() error = %v", tc.reason, err)
			}
			var got []string
			for _, object := range objects {
				got = append(got, object.GetKind())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\n-want +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// TestWorkloads holds the scene to what it is meant to have.
func TestWorkloads(t *testing.T) {
	type count struct{ Deployments, Budgets, Singles, StatefulSets, DaemonSets, UnsafeJobs int }
	var got count
	pods, milliCPU := int32(0), map[string]int64{}
	add := func(replicas int32, template corev1.PodTemplateSpec) {
		pods += replicas
		cpu := template.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU]
		milliCPU[template.Spec.NodeSelector[labelTier]] += int64(replicas) * cpu.MilliValue()
		if len(template.Spec.Tolerations) > 0 != (template.Spec.NodeSelector[labelTier] == Memory) {
			t.Errorf("only workloads of the memory group tolerate its taint: %v", template.Labels)
		}
	}
	for _, object := range Workloads() {
		switch o := object.(type) {
		case *appsv1.Deployment:
			got.Deployments++
			if *o.Spec.Replicas == 1 {
				got.Singles++
			}
			add(*o.Spec.Replicas, o.Spec.Template)
		case *appsv1.StatefulSet:
			got.StatefulSets++
			add(*o.Spec.Replicas, o.Spec.Template)
		case *batchv1.Job:
			if o.Spec.Template.Annotations["cluster-autoscaler.kubernetes.io/safe-to-evict"] == "false" {
				got.UnsafeJobs++
			}
			add(*o.Spec.Parallelism, o.Spec.Template)
		case *appsv1.DaemonSet:
			got.DaemonSets++
			if len(o.Spec.Template.Spec.Tolerations) > 0 {
				t.Error("the DaemonSet must tolerate nothing")
			}
			pods += Nodes - 4 // all but the memory group
		case *policyv1.PodDisruptionBudget:
			got.Budgets++
		}
	}
	if diff := cmp.Diff(count{Deployments: 9, Budgets: 6, Singles: 1, StatefulSets: 1, DaemonSets: 1, UnsafeJobs: 1}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	const system = 7 // DNS, Cluster Autoscaler, castoff, the engine
	if total := pods + system; total < 115 || total > 125 {
		t.Errorf("there are %d pods, want about 120", total)
	}
	for tier, capacity := range map[string]int64{General: 6 * 3920, Memory: 4 * 1930, Batch: 4 * 1930} {
		if share := milliCPU[tier] * 100 / capacity; share < 60 || share > 90 {
			t.Errorf("%s is filled to %d%% of its CPU, want 60 to 90", tier, share)
		}
	}
}

func TestUserData(t *testing.T) {
	data := userData(clusterAccess{endpoint: "https://127.0.0.1:6443", authority: "Q0E=", serviceCIDR: "172.20.0.0/16"}, "a=b,c=d", "{key: k, value: v, effect: NoSchedule}")
	for _, want := range []string{"apiServerEndpoint: https://127.0.0.1:6443", "certificateAuthority: Q0E=", "cidr: 172.20.0.0/16", "--node-labels=a=b,c=d", "registerWithTaints: [{key: k, value: v, effect: NoSchedule}]"} {
		if !strings.Contains(data, want) {
			t.Errorf("the user data lacks %q:\n%s", want, data)
		}
	}
	for _, left := range []string{"ENDPOINT", "AUTHORITY", "CIDR", "LABELS", "TAINTS"} {
		if strings.Contains(data, left) {
			t.Errorf("%s is left in the user data", left)
		}
	}
}
