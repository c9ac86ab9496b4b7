package inventory

import (
	"maps"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// TestCase_C005_OwnersAreNamed: who would put Cluster Autoscaler back is known by whatever mark their tool leaves.
func TestCase_C005_OwnersAreNamed(t *testing.T) {
	helm := map[string]string{"meta.helm.sh/release-name": "ca", "meta.helm.sh/release-namespace": "kube-system"}
	with := func(more map[string]string) map[string]string {
		all := maps.Clone(helm)
		maps.Copy(all, more)
		return all
	}
	operator := []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "ClusterAutoscaler", Name: "default", Controller: ptr.To(true)}}
	tests := map[string]struct {
		reason              string
		labels, annotations map[string]string
		owners              []metav1.OwnerReference
		want                string
	}{
		"Nobody":      {reason: "applied by hand"},
		"Helm":        {reason: "a release", annotations: helm, want: "Helm release kube-system/ca"},
		"FluxHelm":    {reason: "Flux renders Helm's charts: it is who would put it back", labels: map[string]string{"helm.toolkit.fluxcd.io/name": "ca", "helm.toolkit.fluxcd.io/namespace": "flux-system"}, annotations: helm, want: "Flux HelmRelease flux-system/ca"},
		"Flux":        {reason: "a Kustomization", labels: map[string]string{"kustomize.toolkit.fluxcd.io/name": "infra", "kustomize.toolkit.fluxcd.io/namespace": "flux-system"}, want: "Flux Kustomization flux-system/infra"},
		"Argo":        {reason: "an application, by its tracking annotation", annotations: map[string]string{"argocd.argoproj.io/tracking-id": "platform:apps/Deployment:kube-system/ca"}, want: "Argo CD application platform"},
		"ArgoByLabel": {reason: "or by its label", labels: map[string]string{"argocd.argoproj.io/instance": "platform"}, want: "Argo CD application platform"},
		"ArgoOfAHelmChart": {reason: "Argo CD renders charts, and their labels stay", labels: map[string]string{"app.kubernetes.io/managed-by": "Helm"},
			annotations: map[string]string{"argocd.argoproj.io/tracking-id": "platform:apps/Deployment:kube-system/ca"}, want: "Argo CD application platform"},
		"Fleet":                     {reason: "a bundle, which is a Helm release too", annotations: with(map[string]string{"objectset.rio.cattle.io/id": "default-infra"}), want: "Rancher Fleet bundle default-infra"},
		"Kapp":                      {reason: "by its label", labels: map[string]string{"kapp.k14s.io/app": "1700000000"}, want: "kapp application 1700000000"},
		"Operator":                  {reason: "a controller puts its own object back", owners: operator, want: "ClusterAutoscaler default"},
		"AnOwnerThatIsNoController": {reason: "it only goes with it", owners: []metav1.OwnerReference{{Kind: "ConfigMap", Name: "x"}}},
		"HelmByLabel":               {reason: "a chart, whoever applied it: its text would be applied again", labels: map[string]string{"app.kubernetes.io/managed-by": "Helm"}, want: "Helm (label app.kubernetes.io/managed-by)"},
		"OtherByLabel":              {reason: "any tool that says so", labels: map[string]string{"app.kubernetes.io/managed-by": "pulumi"}, want: "pulumi (label app.kubernetes.io/managed-by)"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := OwnerOf(&metav1.ObjectMeta{Labels: tc.labels, Annotations: tc.annotations, OwnerReferences: tc.owners}); got != tc.want {
				t.Errorf("%s: want %q, got %q", tc.reason, tc.want, got)
			}
		})
	}
}

func TestManagerOf(t *testing.T) {
	at := func(minute int) *metav1.Time {
		return ptr.To(metav1.Date(2026, 11, 30, 12, minute, 0, 0, time.UTC))
	}
	entry := func(manager, subresource string, minute int) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Subresource: subresource, Time: at(minute)}
	}
	cases := map[string]struct {
		reason string
		fields []metav1.ManagedFieldsEntry
		want   string
	}{
		"Nobody":   {"a cache that drops them", nil, ""},
		"Applied":  {"the one who made it", []metav1.ManagedFieldsEntry{entry("kubectl-client-side-apply", "", 1)}, "kubectl-client-side-apply"},
		"Scaled":   {"whoever wrote last, by whatever way", []metav1.ManagedFieldsEntry{entry("argocd-controller", "", 1), entry("kubectl", "scale", 2)}, "kubectl"},
		"AnyOrder": {"they come in any order", []metav1.ManagedFieldsEntry{entry("kubectl", "scale", 2), entry("argocd-controller", "", 1)}, "kubectl"},
		"Status":   {"a controller that keeps its status changed nothing", []metav1.ManagedFieldsEntry{entry("kubectl", "", 1), entry("kube-controller-manager", "status", 2)}, "kubectl"},
		"Castoff":  {"castoff itself is nobody", []metav1.ManagedFieldsEntry{entry("kubectl", "", 1), entry(FieldManager, "scale", 2)}, ""},
		"Timeless": {"an entry without a time tells nothing", []metav1.ManagedFieldsEntry{{Manager: "old"}}, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := ManagerOf(&metav1.ObjectMeta{ManagedFields: tc.fields}); got != tc.want {
				t.Errorf("%s: %q, want %q", tc.reason, got, tc.want)
			}
		})
	}
}

func TestByWhom(t *testing.T) {
	cases := map[string]struct{ owner, manager, want string }{
		"Both":    {"Argo CD application ca", "argocd-controller", " by Argo CD application ca (field manager argocd-controller)"},
		"Owner":   {"Helm release kube-system/ca", "", " by Helm release kube-system/ca"},
		"Manager": {"", "kubectl", " by field manager kubectl"},
		"Nobody":  {"", "", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := ByWhom(tc.owner, tc.manager); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}
