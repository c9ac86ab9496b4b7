package controllers

import (
	"bytes"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
)

func TestSchemeKnowsEveryKind(t *testing.T) {
	s, err := Scheme()
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		reason string
		object runtime.Object
		want   string
	}{
		"Migration":  {"castoff's own", &v1alpha1.Migration{}, "castoff.sh/v1alpha1, Kind=Migration"},
		"Migrations": {"and their list", &v1alpha1.MigrationList{}, "castoff.sh/v1alpha1, Kind=MigrationList"},
		"NodePool":   {"Karpenter's", &karpv1.NodePool{}, "karpenter.sh/v1, Kind=NodePool"},
		"NodePools":  {"and their list", &karpv1.NodePoolList{}, "karpenter.sh/v1, Kind=NodePoolList"},
		"NodeClaim":  {"what it launches", &karpv1.NodeClaim{}, "karpenter.sh/v1, Kind=NodeClaim"},
		"NodeClaims": {"and their list", &karpv1.NodeClaimList{}, "karpenter.sh/v1, Kind=NodeClaimList"},
		"NodeClass":  {"AWS's part", &awsv1.EC2NodeClass{}, "karpenter.k8s.aws/v1, Kind=EC2NodeClass"},
		"NodeClasss": {"and their list", &awsv1.EC2NodeClassList{}, "karpenter.k8s.aws/v1, Kind=EC2NodeClassList"},
		"CRD":        {"what the engine needs", &apiextensionsv1.CustomResourceDefinition{}, "apiextensions.k8s.io/v1, Kind=CustomResourceDefinition"},
		"Node":       {"legacy nodes", &corev1.Node{}, "/v1, Kind=Node"},
		"Deployment": {"Cluster Autoscaler", &appsv1.Deployment{}, "apps/v1, Kind=Deployment"},
		"Lease":      {"its Lease", &coordinationv1.Lease{}, "coordination.k8s.io/v1, Kind=Lease"},
		"Budget":     {"what drains wait for", &policyv1.PodDisruptionBudget{}, "policy/v1, Kind=PodDisruptionBudget"},
		"Eviction":   {"how pods are moved", &policyv1.Eviction{}, "policy/v1, Kind=Eviction"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := apiutil.GVKForObject(tc.object, s)
			if err != nil || got.String() != tc.want {
				t.Errorf("%s: %s, %v; want %s", tc.reason, got, err, tc.want)
			}
		})
	}
}

func TestSlimNode(t *testing.T) {
	full := func() *corev1.Node {
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"a": "b"}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}},
			Spec:       corev1.NodeSpec{ProviderID: "aws:///a/i-1", Taints: []corev1.Taint{{Key: "k"}}},
			Status: corev1.NodeStatus{
				Images: []corev1.ContainerImage{{SizeBytes: 1}}, VolumesInUse: []corev1.UniqueVolumeName{"v"}, VolumesAttached: []corev1.AttachedVolume{{Name: "v"}},
				Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			},
		}
	}
	got, err := slimNode(full())
	if err != nil {
		t.Fatal(err)
	}
	want := full()
	want.ManagedFields, want.Status.Images, want.Status.VolumesInUse, want.Status.VolumesAttached = nil, nil, nil, nil
	if diff := cmp.Diff(any(want), got); diff != "" {
		t.Errorf("only what nobody reads is gone (-want +got)\n%s", diff)
	}
	gone := toolscache.DeletedFinalStateUnknown{Key: "n", Obj: full()}
	if got, err := slimNode(gone); err != nil || !cmp.Equal(any(gone), got) {
		t.Errorf("a deletion that the watch missed: %v, %v", got, err)
	}
	if got, err := slimNode(&corev1.Pod{}); err != nil || got == nil {
		t.Errorf("another object: %v, %v", got, err)
	}
}

func TestWhatIsCached(t *testing.T) {
	o := CacheOptions()
	found := false
	for object, by := range o.ByObject {
		if _, ok := object.(*corev1.Node); ok {
			found = by.Transform != nil
		}
	}
	if !found || o.DefaultTransform == nil {
		t.Error("nodes are cached whole: their images alone are the longest list of the cluster")
	}
	var live []string
	for _, object := range ClientCacheOptions().DisableFor {
		live = append(live, kindOf(object))
	}
	for _, kind := range []string{"Pod", "Secret", "ConfigMap", "CustomResourceDefinition"} {
		if !slices.Contains(live, kind) {
			t.Errorf("a %s would be cached, and every one of the cluster with it", kind)
		}
	}
}

func TestNewObserver(t *testing.T) {
	t.Setenv("AWS_REGION", "us-east-1")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	w := newWorld(t)
	wiring := Wiring{
		Config: &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{CAData: authority}}, Client: w.c, Live: w.c,
		Clock: w.reconciler().Observer.Clock, Namespace: "castoff-system", EngineNamespace: "kube-system", EngineImage: "engine:v1", ManagerImage: "manager:v1",
	}
	o, err := NewObserver(t.Context(), wiring)
	if err != nil {
		t.Fatal(err)
	}
	p := o.Ports
	for name, port := range map[string]any{
		"Interruption": p.Interruption, "Identity": p.Identity, "Autoscalers": p.Autoscalers, "Provisioner": p.Provisioner,
		"Releases": p.Releases, "Drainer": p.Drainer, "Snapshots": p.Snapshots, "NodeGroups": o.NodeGroupsOf("test"),
	} {
		if port == nil {
			t.Errorf("no port %s", name)
		}
	}
	if !bytes.Equal(o.CABundle, authority) || o.Engine.Image != "engine:v1" || o.Engine.Namespace != "kube-system" || !o.Clock().Equal(w.now) {
		t.Errorf("wired wrong: %+v", o.Engine)
	}
	wiring.Config.CAData, wiring.Config.CAFile = nil, filepath.Join(t.TempDir(), "ca.crt")
	w.must(os.WriteFile(wiring.Config.CAFile, authority, 0o600))
	if o, err = NewObserver(t.Context(), wiring); err != nil || !bytes.Equal(o.CABundle, authority) {
		t.Errorf("the authority of a ServiceAccount is a file: %v", err)
	}
	wiring.Config.CAFile += ".gone"
	if _, err := NewObserver(t.Context(), wiring); err == nil {
		t.Error("a certificate authority that cannot be read is not told")
	}
}
