package autoscaler

import (
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

const yamlStatus = `
time: 2026-05-04 03:01:55.123456789 +0000 UTC
autoscalerStatus: Running
clusterWide:
  health:
    status: Healthy
    lastProbeTime: null
nodeGroups:
- name: general
  health: {cloudProviderTarget: 6, minSize: 1, maxSize: 9}
  scaleUp: {status: NoActivity}
- name: memory
`

const textStatus = `Cluster-autoscaler status at 2022-01-02 03:04:05.6 +0000 UTC:
Cluster-wide:
  Health:      Healthy (ready=6 unready=0)
    LastProbeTime:      2022-01-02 03:04:05 +0000 UTC

NodeGroups:
  Name:        general
  Health:      Healthy (ready=6 minSize=1, maxSize=9)

  Name:        memory
  Health:      Healthy (ready=4)
`

func TestReadStatus(t *testing.T) {
	tests := map[string]struct {
		reason      string
		text        string
		annotation  string
		wantGroups  []string
		wantWritten time.Time
	}{
		"YAML": {
			reason: "1.30 and later", text: yamlStatus, annotation: "2026-05-04 03:01:50 +0000 UTC",
			wantGroups: []string{"general", "memory"}, wantWritten: time.Date(2026, 5, 4, 3, 1, 55, 123456789, time.UTC),
		},
		"YAMLInAnotherZone": {
			reason: "the time is that of the machine", text: "time: 2026-05-04 05:01:55 +0200 CEST\nautoscalerStatus: Running\n",
			wantWritten: time.Date(2026, 5, 4, 3, 1, 55, 0, time.UTC),
		},
		"YAMLWithoutTime": {
			reason: "the annotation has it too", text: "nodeGroups: [{name: general}]", annotation: "2026-05-04 03:01:50 +0000 UTC",
			wantGroups: []string{"general"}, wantWritten: time.Date(2026, 5, 4, 3, 1, 50, 0, time.UTC),
		},
		"NoGroupLeft": {
			reason: "it has let go of all, and says so", text: "time: 2026-05-04 03:01:55 +0000 UTC\nnodeGroups: []\n",
			wantWritten: time.Date(2026, 5, 4, 3, 1, 55, 0, time.UTC),
		},
		"Text": {
			reason: "before 1.30", text: textStatus, annotation: "2022-01-02 03:04:05.6 +0000 UTC",
			wantGroups: []string{"general", "memory"}, wantWritten: time.Date(2022, 1, 2, 3, 4, 5, 600000000, time.UTC),
		},
		"TextOfAFirstStart": {reason: "it knows nothing yet", text: "Cluster-autoscaler is initializing"},
		"Empty":             {reason: "no text is no proof"},
		"NoTime":            {reason: "a time that nobody can read is none", text: "nodeGroups: [{name: a}]", annotation: "yesterday", wantGroups: []string{"a"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			groups, written := readStatus(&corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{lastUpdated: tc.annotation}},
				Data:       map[string]string{statusKey: tc.text},
			})
			if diff := cmp.Diff(tc.wantGroups, groups); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
			if !written.Equal(tc.wantWritten) {
				t.Errorf("%s: want %s, got %s", tc.reason, tc.wantWritten, written)
			}
		})
	}
}

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
			if got := owner(&metav1.ObjectMeta{Labels: tc.labels, Annotations: tc.annotations, OwnerReferences: tc.owners}); got != tc.want {
				t.Errorf("%s: want %q, got %q", tc.reason, tc.want, got)
			}
		})
	}
}
