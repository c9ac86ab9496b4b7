package helm

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestEngineCRDs(t *testing.T) {
	crds, err := EngineCRDs()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, crd := range crds {
		got = append(got, crd.Name)
		for key := range crd.Annotations {
			if strings.HasPrefix(key, "meta.helm.sh/") {
				t.Errorf("CRD %s is marked as part of a Helm release by %s: uninstalling that would end every node", crd.Name, key)
			}
		}
		if crd.Labels[managedBy] != "castoff" || len(crd.Annotations[crdDigest]) != 64 {
			t.Errorf("CRD %s is not marked as castoff's: %v %v", crd.Name, crd.Labels, crd.Annotations)
		}
	}
	want := []string{
		"nodepools.karpenter.sh", "nodeclaims.karpenter.sh", "nodeoverlays.karpenter.sh", "ec2nodeclasses.karpenter.k8s.aws",
		"capacitybuffers.autoscaling.x-k8s.io",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("CRDs (-want +got):\n%s", diff)
	}
}

// TestCastoffMayPatchItsCRDs keeps the chart's list of names that of the code.
func TestCastoffMayPatchItsCRDs(t *testing.T) {
	crds, err := EngineCRDs()
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, crd := range crds {
		want = append(want, crd.Name)
	}
	for _, rule := range rules(rendered(t, castoffRelease()))["ClusterRole castoff"] {
		if slices.Contains(rule.Resources, "customresourcedefinitions") && slices.Contains(rule.Verbs, "patch") {
			got = rule.ResourceNames
		}
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("CRDs that castoff may patch (-want +got):\n%s", diff)
	}
}

func TestClassifyCRD(t *testing.T) {
	version := func(name string) []apiextensionsv1.CustomResourceDefinitionVersion {
		return []apiextensionsv1.CustomResourceDefinitionVersion{{Name: name, Served: true, Storage: true}}
	}
	crd := func(versionName string, labels, notes map[string]string) *apiextensionsv1.CustomResourceDefinition {
		return &apiextensionsv1.CustomResourceDefinition{
			ObjectMeta: metav1.ObjectMeta{Name: "nodepools.karpenter.sh", Labels: labels, Annotations: notes},
			Spec:       apiextensionsv1.CustomResourceDefinitionSpec{Versions: version(versionName)},
		}
	}
	castoffs := map[string]string{managedBy: "castoff"}
	want := crd("v1", castoffs, map[string]string{crdDigest: "new"})
	established := crd("v1", castoffs, map[string]string{crdDigest: "new"})
	established.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{
		{Type: apiextensionsv1.NamesAccepted, Status: apiextensionsv1.ConditionTrue}, {Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue},
	}
	helms := map[string]string{helmName: "karpenter-crd", helmNamespace: "kube-system"}
	stored := func(name string, versions ...string) *apiextensionsv1.CustomResourceDefinition {
		out := crd(name, nil, helms)
		out.Status.StoredVersions = versions
		return out
	}

	cases := map[string]struct {
		reason string
		got    *apiextensionsv1.CustomResourceDefinition
		want   CRD
	}{
		"Missing":     {reason: "there is none", want: CRD{Status: CRDMissing}},
		"Current":     {reason: "made by castoff from these bytes", got: crd("v1", castoffs, map[string]string{crdDigest: "new"}), want: CRD{Status: CRDCurrent}},
		"Established": {reason: "and served", got: established, want: CRD{Status: CRDCurrent, Established: true}},
		"Outdated":    {reason: "made by an older castoff", got: crd("v1", castoffs, map[string]string{crdDigest: "old"}), want: CRD{Status: CRDOutdated}},
		"Helms": {
			reason: "of another release and different", got: crd("v1beta1", nil, helms),
			want: CRD{Status: CRDForeign, Owner: "Helm release kube-system/karpenter-crd"},
		},
		"HelmsButTheSame": {
			reason: "another's, but all that the engine needs", got: crd("v1", nil, helms),
			want: CRD{Status: CRDCurrent, Owner: "Helm release kube-system/karpenter-crd"},
		},
		"TakenOverAndTheSame": {
			reason: "Helm's now, and what the engine needs: not castoff's to delete",
			got:    crd("v1", castoffs, map[string]string{crdDigest: "new", helmName: "karpenter-crd", helmNamespace: "kube-system"}),
			want:   CRD{Status: CRDCurrent, Owner: "Helm release kube-system/karpenter-crd"},
		},
		"StoredBeta": {
			reason: "objects were stored in a version that the wanted definition does not have",
			got:    stored("v1beta1", "v1alpha5", "v1beta1", "v1"),
			want:   CRD{Status: CRDForeign, Owner: "Helm release kube-system/karpenter-crd", Dropped: []string{"v1alpha5", "v1beta1"}},
		},
		"StoredAnew": {
			reason: "only the version that it has",
			got:    stored("v1", "v1"),
			want:   CRD{Status: CRDCurrent, Owner: "Helm release kube-system/karpenter-crd"},
		},
		"TakenOver": {
			reason: "once castoff's, now Helm's: castoff's label alone does not make it ours again",
			got:    crd("v1beta1", castoffs, map[string]string{crdDigest: "new", helmName: "karpenter-crd", helmNamespace: "kube-system"}),
			want:   CRD{Status: CRDForeign, Owner: "Helm release kube-system/karpenter-crd"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.want.Name = "nodepools.karpenter.sh"
			got := classifyCRD(want, tc.got)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
			if castoffMade := tc.got != nil && tc.want.Owner == ""; got.Made() != castoffMade {
				t.Errorf("%s: made by castoff is %v, want %v", tc.reason, got.Made(), castoffMade)
			}
		})
	}
}

func TestOwner(t *testing.T) {
	cases := map[string]struct {
		reason string
		meta   metav1.ObjectMeta
		want   string
	}{
		"Helm": {
			reason: "the release", meta: metav1.ObjectMeta{Annotations: map[string]string{helmName: "a", helmNamespace: "b"}}, want: "Helm release b/a",
		},
		"ArgoCDAnnotation": {
			reason: "Argo CD tracks by annotation", meta: metav1.ObjectMeta{Annotations: map[string]string{"argocd.argoproj.io/tracking-id": "app:x"}},
			want: "Argo CD application app:x",
		},
		"ArgoCDLabel": {
			reason: "or by label", meta: metav1.ObjectMeta{Labels: map[string]string{"argocd.argoproj.io/instance": "app", managedBy: "x"}},
			want: "Argo CD application app",
		},
		"Flux": {
			reason: "Flux by label", meta: metav1.ObjectMeta{Labels: map[string]string{"kustomize.toolkit.fluxcd.io/name": "infra"}}, want: "Flux Kustomization infra",
		},
		"ManagedBy": {reason: "the common label", meta: metav1.ObjectMeta{Labels: map[string]string{managedBy: "EKS"}}, want: "EKS"},
		"Kubectl": {
			reason: "nobody says so, but the API server knows who wrote it first",
			meta:   metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{}, {Manager: "kubectl-client-side-apply"}, {Manager: "x"}}},
			want:   "whoever applied it with kubectl-client-side-apply",
		},
		"Nobody": {reason: "no trace at all", want: "an unknown owner"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := owner(&appsv1.Deployment{ObjectMeta: tc.meta}); got != tc.want {
				t.Errorf("%s: owner %q, want %q", tc.reason, got, tc.want)
			}
		})
	}
}
