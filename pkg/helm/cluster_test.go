package helm

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"
	"helm.sh/helm/v3/pkg/release"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	metadataclient "k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard()) // the API server's harness complains without one
	os.Exit(m.Run())
}

// cluster is a real API server with RBAC on. Each test has its own: releases have fixed names.
type cluster struct {
	client.Client
	admin *rest.Config
	// castoff acts under castoff's ServiceAccount, once charts/castoff is installed.
	castoff *rest.Config
}

func startCluster(t *testing.T) *cluster {
	t.Helper()
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		assets = filepath.Join("..", "..", "bin")
	}
	for _, binary := range []string{"etcd", "kube-apiserver"} {
		if _, err := os.Stat(filepath.Join(assets, binary)); err != nil {
			t.Fatalf("this test needs an API server: %v; build it with make, or set KUBEBUILDER_ASSETS to a folder with etcd and kube-apiserver", err)
		}
	}
	environment := &envtest.Environment{BinaryAssetsDirectory: assets, ControlPlaneStartTimeout: 2 * time.Minute, ControlPlaneStopTimeout: time.Minute}
	admin, err := environment.Start()
	if err != nil {
		t.Fatalf("starting the API server: %v", err)
	}
	t.Cleanup(func() {
		if err := environment.Stop(); err != nil {
			t.Errorf("stopping the API server: %v", err)
		}
	})
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.New(admin, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	castoff := rest.CopyConfig(admin)
	castoff.Impersonate.UserName = "system:serviceaccount:castoff-system:castoff"
	castoff.Impersonate.Groups = []string{"system:serviceaccounts", "system:authenticated"}
	return &cluster{Client: c, admin: admin, castoff: castoff}
}

// installCastoff is what a person does: charts/castoff, as an admin.
func (c *cluster) installCastoff(t *testing.T) {
	t.Helper()
	if err := c.Create(context.Background(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "castoff-system"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := helmAs(t, c.admin).Apply(context.Background(), castoffRelease()); err != nil {
		t.Fatalf("installing charts/castoff: %v", err)
	}
}

func helmAs(t *testing.T, config *rest.Config) *Client {
	t.Helper()
	c, err := New(config, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func get[T client.Object](t *testing.T, c client.Client, namespace, name string, into T) T {
	t.Helper()
	if err := c.Get(context.Background(), client.ObjectKey{Namespace: namespace, Name: name}, into); err != nil {
		t.Fatalf("reading %T %s/%s: %v", into, namespace, name, err)
	}
	return into
}

// TestEngineLifecycle runs the engine's release from nothing to uninstalled under castoff's own rights, which shows that they are
// enough; TestDangerousRights shows that they are small.
func TestEngineLifecycle(t *testing.T) {
	c := startCluster(t)
	c.installCastoff(t)
	ctx, helm, engine := context.Background(), helmAs(t, c.castoff), engineRelease()

	if state, err := helm.Observe(ctx, engine); err != nil || state.Status != NotInstalled {
		t.Fatalf("before anything: %+v, %v", state, err)
	}
	state, err := helm.Apply(ctx, engine)
	if err != nil || state.Status != Deployed || !state.Current || state.Revision != 1 || state.ChartVersion != "1.14.1" {
		t.Fatalf("install: %+v, %v", state, err)
	}
	deployment := get(t, c, "kube-system", "karpenter", &appsv1.Deployment{})
	if !ownedBy(deployment, engine) {
		t.Errorf("the Deployment is not marked as the release's: %v %v", deployment.Labels, deployment.Annotations)
	}
	checkSecret(t, c, "sh.helm.release.v1.karpenter.v1", "deployed")

	t.Run("AgainWritesNothing", func(t *testing.T) {
		before := versions(t, c)
		if again, err := helm.Apply(ctx, engine); err != nil || !cmp.Equal(again, state) {
			t.Errorf("got %+v, %v; want %+v", again, err, state)
		}
		if diff := cmp.Diff(before, versions(t, c)); diff != "" {
			t.Errorf("objects changed (-before +after):\n%s", diff)
		}
	})
	t.Run("MissingObjectIsMadeAgain", func(t *testing.T) {
		uid := get(t, c, "kube-system", "karpenter", &corev1.ServiceAccount{}).UID
		if err := c.Delete(ctx, deployment); err != nil {
			t.Fatal(err)
		}
		if state, err := helm.Apply(ctx, engine); err != nil || state.Revision != 2 {
			t.Errorf("got %+v, %v; want revision 2", state, err)
		}
		get(t, c, "kube-system", "karpenter", &appsv1.Deployment{})
		if got := get(t, c, "kube-system", "karpenter", &corev1.ServiceAccount{}).UID; got != uid {
			t.Error("the ServiceAccount was made anew; mending deletes nothing")
		}
	})
	t.Run("NewValuesUpgrade", func(t *testing.T) {
		changed := engine
		changed.Values = merge(engine.Values, map[string]any{"settings": map[string]any{"interruptionQueue": "other"}})
		state, err := helm.Observe(ctx, changed)
		if err != nil || state.Status != Deployed || state.Current {
			t.Errorf("before: %+v, %v; want Deployed but not Current", state, err)
		}
		if state, err = helm.Apply(ctx, changed); err != nil || !state.Current {
			t.Errorf("after: %+v, %v", state, err)
		}
		pod := get(t, c, "kube-system", "karpenter", &appsv1.Deployment{}).Spec.Template.Spec
		if got := environment(pod.Containers[0])["INTERRUPTION_QUEUE"]; got != "other" {
			t.Errorf("the Deployment's queue is %q, want other", got)
		}
	})
	t.Run("BadValuesTouchNothing", func(t *testing.T) {
		bad := engineOfTest
		bad.Values = map[string]any{"replicas": "two"}
		var invalid *ValuesError
		if _, err := helm.Apply(ctx, bad.Release()); !errors.As(err, &invalid) || invalid.Problems[0].Value != "replicas" {
			t.Errorf("got %v, want a ValuesError naming replicas", err)
		}
		if got := get(t, c, "kube-system", "karpenter", &appsv1.Deployment{}).Spec.Replicas; *got != 2 {
			t.Errorf("the running engine was touched: %d replicas", *got)
		}
	})
	t.Run("UninstallLeavesAnothersObject", func(t *testing.T) {
		service := get(t, c, "kube-system", "karpenter", &corev1.Service{})
		ours := service.DeepCopy()
		service.Labels = map[string]string{"argocd.argoproj.io/instance": "platform"}
		service.Annotations = nil
		if err := c.Update(ctx, service); err != nil {
			t.Fatal(err)
		}
		before := versions(t, c)
		want := ForeignError{Object: "Service kube-system/karpenter", Owner: "Argo CD application platform"}
		var foreign *ForeignError
		if err := helm.Uninstall(ctx, engine); !errors.As(err, &foreign) || *foreign != want {
			t.Errorf("got %v, want %v", err, &want)
		}
		if diff := cmp.Diff(before, versions(t, c)); diff != "" {
			t.Errorf("objects changed (-before +after):\n%s", diff)
		}
		ours.ResourceVersion = ""
		if err := c.Update(ctx, ours); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("Uninstall", func(t *testing.T) {
		held := get(t, c, "kube-system", "karpenter", &corev1.Service{})
		held.Finalizers = []string{"castoff.sh/test"} // it goes when somebody takes this off: nobody may wait for that
		if err := c.Update(ctx, held); err != nil {
			t.Fatal(err)
		}
		wrong := engineOfTest
		wrong.Values = map[string]any{"replicas": "two"}
		for range 2 { // the second has nothing to do
			if err := helm.Uninstall(ctx, wrong.Release()); err != nil {
				t.Fatal(err)
			}
		}
		if got := get(t, c, "kube-system", "karpenter", &corev1.Service{}); got.DeletionTimestamp == nil {
			t.Error("the Service is not being deleted")
		}
		if state, err := helm.Observe(ctx, engine); err != nil || state.Revision != 0 {
			t.Errorf("after Uninstall: %+v, %v; want no record", state, err)
		}
		err := c.Get(ctx, client.ObjectKey{Namespace: "kube-system", Name: "karpenter"}, &appsv1.Deployment{})
		if !apierrors.IsNotFound(err) {
			t.Errorf("the Deployment is still there: %v", err)
		}
		get(t, c, "", "castoff-engine-core", &rbacv1.ClusterRole{})
	})
}

func checkSecret(t *testing.T, c *cluster, name, status string) {
	t.Helper()
	secret := get(t, c, "kube-system", name, &corev1.Secret{})
	if secret.Type != "helm.sh/release.v1" || secret.Labels["owner"] != "helm" || secret.Labels["status"] != status {
		t.Errorf("Secret %s is not what `helm list` looks for: %s %v, want status %s", name, secret.Type, secret.Labels, status)
	}
}

// versions is the resourceVersion of all that a release may write.
func versions(t *testing.T, c *cluster) map[string]string {
	t.Helper()
	result := map[string]string{}
	for _, list := range []client.ObjectList{
		&appsv1.DeploymentList{}, &corev1.SecretList{}, &corev1.ServiceList{}, &corev1.ServiceAccountList{}, &rbacv1.RoleList{}, &rbacv1.RoleBindingList{},
		&rbacv1.ClusterRoleBindingList{}, &apiextensionsv1.CustomResourceDefinitionList{},
	} {
		if err := c.List(context.Background(), list); err != nil {
			t.Fatal(err)
		}
		err := eachItem(list, func(object client.Object) {
			result[fmt.Sprintf("%T %s/%s", object, object.GetNamespace(), object.GetName())] = object.GetResourceVersion()
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return result
}

// TestStuckInstall: a castoff died between recording the release and making all of its objects.
func TestStuckInstall(t *testing.T) {
	c := startCluster(t)
	c.installCastoff(t)
	ctx, helm, engine := context.Background(), helmAs(t, c.castoff), engineRelease()
	p := mustPrepare(t, engine)
	cfg, err := helm.configuration(engine.Namespace)
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	stuck := revision(p, 1, release.StatusPendingInstall, func(rel *release.Release) { rel.Info.LastDeployed.Time = begun })
	if err := cfg.Releases.Create(stuck); err != nil {
		t.Fatal(err)
	}
	made := find[*corev1.ServiceAccount](t, rendered(t, engine), "karpenter")
	made.Annotations = map[string]string{helmName: "karpenter", helmNamespace: "kube-system"}
	if err := c.Create(ctx, made); err != nil {
		t.Fatal(err)
	}

	helm.now = func() time.Time { return begun.Add(PendingGrace / 2) }
	state, err := helm.Observe(ctx, engine)
	if err != nil || state.Status != Pending || state.Since.Sub(begun).Abs() > time.Second {
		t.Errorf("observed %+v, %v; want Pending since %s", state, err, begun)
	}
	var pending *PendingError
	if _, err := helm.Apply(ctx, engine); !errors.As(err, &pending) {
		t.Errorf("within the grace: %v, want a PendingError", err)
	}

	helm.now = func() time.Time { return begun.Add(PendingGrace + time.Second) }
	if state, err = helm.Apply(ctx, engine); err != nil || !state.Current || state.Revision != 2 {
		t.Errorf("after the grace: %+v, %v; want revision 2, Current", state, err)
	}
	checkSecret(t, c, "sh.helm.release.v1.karpenter.v2", "deployed")
	get(t, c, "kube-system", "karpenter", &appsv1.Deployment{})
	if got := get(t, c, "kube-system", "karpenter", &corev1.ServiceAccount{}).UID; got != made.UID {
		t.Error("an object that was made already was made anew")
	}
}

// TestForeignObject: somebody applied a Karpenter by hand. It is named, left alone, and once it is gone the next attempt goes on.
func TestForeignObject(t *testing.T) {
	c := startCluster(t)
	c.installCastoff(t)
	ctx, helm, engine := context.Background(), helmAs(t, c.castoff), engineRelease()
	theirs := find[*appsv1.Deployment](t, rendered(t, engine), "karpenter")
	theirs.Labels = map[string]string{"argocd.argoproj.io/instance": "platform"}
	theirs.Spec.Template.Spec.Containers[0].Image = "theirs:1"
	if err := c.Create(ctx, theirs); err != nil {
		t.Fatal(err)
	}
	before := versions(t, c)

	want := &ForeignError{Object: "Deployment kube-system/karpenter", Owner: "Argo CD application platform"}
	state, err := helm.Observe(ctx, engine)
	if err != nil || state.Status != Foreign || state.Object != want.Object || state.Owner != want.Owner {
		t.Errorf("observed %+v, %v; want %v", state, err, want)
	}
	_, err = helm.Apply(ctx, engine)
	var foreign *ForeignError
	if !errors.As(err, &foreign) || *foreign != *want {
		t.Errorf("applied: %v, want %v", err, want)
	}
	if diff := cmp.Diff(before, versions(t, c)); diff != "" {
		t.Errorf("something was written (-before +after):\n%s", diff)
	}

	if err := c.Delete(ctx, theirs); err != nil {
		t.Fatal(err)
	}
	if state, err := helm.Apply(ctx, engine); err != nil || !state.Current {
		t.Errorf("once it is gone: %+v, %v", state, err)
	}
}

// TestRefusedObject: a value that the chart lets pass and the API server does not.
func TestRefusedObject(t *testing.T) {
	c := startCluster(t)
	ctx, helm := context.Background(), helmAs(t, c.admin)
	bad := chartOf(map[string]string{"templates/object.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: small, namespace: default}\ndata: {\"{{ .Values.colour }}\": x}\n"})
	bad.Values = map[string]any{"colour": "not a key"}
	_, err := helm.Apply(ctx, bad)
	var invalid *ValuesError
	if !errors.As(err, &invalid) || !strings.Contains(invalid.Problems[0].Value, "ConfigMap small: data") {
		t.Fatalf("got %v, want a ValuesError naming the field", err)
	}
	state, err := helm.Observe(ctx, bad)
	if err != nil || state.Status != Failed || state.Reason == "" {
		t.Errorf("observed %+v, %v; want Failed with Helm's reason", state, err)
	}
	bad.Values["colour"] = "key"
	if state, err := helm.Apply(ctx, bad); err != nil || !state.Current {
		t.Errorf("with the value mended: %+v, %v", state, err)
	}
}

func TestCRDs(t *testing.T) {
	c := startCluster(t)
	c.installCastoff(t)
	ctx, helm := context.Background(), helmAs(t, c.castoff)
	theirs := theirNodePoolCRD(t)
	if err := c.Create(ctx, theirs); err != nil {
		t.Fatal(err)
	}

	var foreign *ForeignError
	want := ForeignError{Object: "CRD nodepools.karpenter.sh", Owner: "Helm release kube-system/karpenter-crd"}
	if err := helm.ApplyCRDs(ctx, engineRelease()); !errors.As(err, &foreign) || *foreign != want {
		t.Fatalf("got %v, want %v", err, &want)
	}
	kept := get(t, c, "", theirs.Name, &apiextensionsv1.CustomResourceDefinition{})
	if diff := cmp.Diff(theirs.Spec, kept.Spec); diff != "" {
		t.Errorf("another owner's CRD was changed (-before +after):\n%s", diff)
	}
	wantStatuses := map[string]CRDStatus{
		"nodepools.karpenter.sh": CRDForeign, "nodeclaims.karpenter.sh": CRDCurrent, "nodeoverlays.karpenter.sh": CRDCurrent,
		"ec2nodeclasses.karpenter.k8s.aws": CRDCurrent, "capacitybuffers.autoscaling.x-k8s.io": CRDCurrent,
	}
	if diff := cmp.Diff(wantStatuses, statuses(t, helm)); diff != "" {
		t.Errorf("the other four are made all the same (-want +got):\n%s", diff)
	}

	t.Run("OnceItIsGoneTheNextAttemptGoesOn", func(t *testing.T) {
		if err := c.Delete(ctx, theirs); err != nil {
			t.Fatal(err)
		}
		g := gomega.NewWithT(t)
		g.Eventually(func() error { return helm.ApplyCRDs(ctx, engineRelease()) }, "30s", "100ms").Should(gomega.Succeed())
		g.Eventually(func() (bool, error) { return allCurrentAndEstablished(ctx, helm) }, "30s", "100ms").Should(gomega.BeTrue())
	})
	t.Run("AgainWritesNothing", func(t *testing.T) {
		before := versions(t, c)
		if err := helm.ApplyCRDs(ctx, engineRelease()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before, versions(t, c)); diff != "" {
			t.Errorf("objects changed (-before +after):\n%s", diff)
		}
	})
	t.Run("AnOlderCastoffsIsBroughtUpToDate", func(t *testing.T) {
		old := get(t, c, "", "nodeclaims.karpenter.sh", &apiextensionsv1.CustomResourceDefinition{})
		old.Annotations[crdDigest] = "older"
		old.Spec.Names.Categories = []string{"all-that-was"}
		if err := c.Update(ctx, old); err != nil {
			t.Fatal(err)
		}
		if got := statuses(t, helm)["nodeclaims.karpenter.sh"]; got != CRDOutdated {
			t.Errorf("status %s, want Outdated", got)
		}
		if err := helm.ApplyCRDs(ctx, engineRelease()); err != nil {
			t.Fatal(err)
		}
		if got := statuses(t, helm)["nodeclaims.karpenter.sh"]; got != CRDCurrent {
			t.Errorf("status %s, want Current", got)
		}
	})
	t.Run("AnothersThatIsTheSameIsUsed", func(t *testing.T) {
		adopted := get(t, c, "", "nodepools.karpenter.sh", &apiextensionsv1.CustomResourceDefinition{})
		adopted.Labels = map[string]string{managedBy: "Helm"}
		adopted.Annotations = theirs.Annotations
		if err := c.Update(ctx, adopted); err != nil {
			t.Fatal(err)
		}
		if err := helm.ApplyCRDs(ctx, engineRelease()); err != nil {
			t.Errorf("a CRD that serves what the engine needs is in nobody's way: %v", err)
		}
		if got := statuses(t, helm)["nodepools.karpenter.sh"]; got != CRDCurrent {
			t.Errorf("status %s, want Current", got)
		}
	})
}

// TestRemoveCRDs: castoff's go, once nothing is left of their kinds; another's stays. Castoff's own rights are enough.
func TestRemoveCRDs(t *testing.T) {
	c := startCluster(t)
	c.installCastoff(t)
	ctx, helm := context.Background(), helmAs(t, c.castoff)
	if err := helm.RemoveCRDs(ctx); err != nil {
		t.Fatalf("with nothing there: %v", err)
	}
	theirs := theirNodePoolCRD(t)
	if err := c.Create(ctx, theirs); err != nil {
		t.Fatal(err)
	}
	if err := helm.ApplyCRDs(ctx, engineRelease()); !errors.As(err, new(*ForeignError)) {
		t.Fatalf("got %v, want a ForeignError", err)
	}
	g := gomega.NewWithT(t)
	g.Eventually(func() (int, error) { return countEstablished(ctx, helm) }, "30s", "100ms").Should(gomega.Equal(5))
	made := []string{"nodeclaims.karpenter.sh", "nodeoverlays.karpenter.sh", "ec2nodeclasses.karpenter.k8s.aws", "capacitybuffers.autoscaling.x-k8s.io"}
	if diff := cmp.Diff(made, madeCRDs(t, helm)); diff != "" {
		t.Errorf("made by castoff (-want +got):\n%s", diff)
	}
	claim := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": map[string]any{"name": "last"},
		"spec": map[string]any{
			"requirements": []any{}, "nodeClassRef": map[string]any{"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "x"},
		},
	}}
	if err := c.Create(ctx, claim); err != nil {
		t.Fatal(err)
	}
	before := versions(t, c)
	err := helm.RemoveCRDs(ctx)
	if err == nil || !strings.Contains(err.Error(), "NodeClaim last") || inventory.ClassOf(err) != inventory.ClassRetry {
		t.Errorf("got %v, want an error to retry naming the NodeClaim", err)
	}
	if diff := cmp.Diff(before, versions(t, c)); diff != "" {
		t.Errorf("while an object is left, something was written (-before +after):\n%s", diff)
	}
	if err := c.Delete(ctx, claim); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second finds them on their way, or gone
		if err := helm.RemoveCRDs(ctx); err != nil {
			t.Fatal(err)
		}
	}
	g.Eventually(func() (map[string]CRDStatus, error) { return statusesOf(ctx, helm) }, "30s", "100ms").Should(gomega.Equal(map[string]CRDStatus{
		"nodepools.karpenter.sh": CRDForeign, "nodeclaims.karpenter.sh": CRDMissing, "nodeoverlays.karpenter.sh": CRDMissing,
		"ec2nodeclasses.karpenter.k8s.aws": CRDMissing, "capacitybuffers.autoscaling.x-k8s.io": CRDMissing,
	}))
}

// TestRemoveCRDsThatSomebodyTookOver: between the look and the deletion, a Helm release took one over.
func TestRemoveCRDsThatSomebodyTookOver(t *testing.T) {
	c := startCluster(t)
	ctx, helm := context.Background(), helmAs(t, c.admin)
	if err := helm.ApplyCRDs(ctx, engineRelease()); err != nil {
		t.Fatal(err)
	}
	g := gomega.NewWithT(t)
	g.Eventually(func() (int, error) { return countEstablished(ctx, helm) }, "30s", "100ms").Should(gomega.Equal(5))
	helm.objects = meddler{Interface: helm.objects, meddle: func() {
		taken := get(t, c, "", "nodepools.karpenter.sh", &apiextensionsv1.CustomResourceDefinition{})
		taken.Annotations[helmName], taken.Annotations[helmNamespace] = "karpenter-crd", "kube-system"
		if err := c.Update(ctx, taken); err != nil {
			t.Error(err)
		}
	}}
	if err := helm.RemoveCRDs(ctx); !apierrors.IsConflict(err) || inventory.ClassOf(err) != inventory.ClassRetry {
		t.Errorf("got %v, want a conflict to retry", err)
	}
	if got := get(t, c, "", "nodepools.karpenter.sh", &apiextensionsv1.CustomResourceDefinition{}); got.DeletionTimestamp != nil {
		t.Error("the CRD that was taken over is being deleted")
	}
}

// meddler does something when it is asked for objects.
type meddler struct {
	metadataclient.Interface
	meddle func()
}

func (m meddler) Resource(r schema.GroupVersionResource) metadataclient.Getter {
	m.meddle()
	return m.Interface.Resource(r)
}

func madeCRDs(t *testing.T, helm *Client) (out []string) {
	t.Helper()
	crds, err := helm.ObserveCRDs(context.Background(), engineRelease())
	if err != nil {
		t.Fatal(err)
	}
	for _, crd := range crds {
		if crd.Made() {
			out = append(out, crd.Name)
		}
	}
	return out
}

func countEstablished(ctx context.Context, helm *Client) (int, error) {
	crds, err := helm.ObserveCRDs(ctx, engineRelease())
	n := 0
	for _, crd := range crds {
		if crd.Established {
			n++
		}
	}
	return n, err
}

// theirNodePoolCRD is one of an older Karpenter, installed by somebody else's Helm.
func theirNodePoolCRD(t *testing.T) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	crds, err := EngineCRDs()
	if err != nil {
		t.Fatal(err)
	}
	theirs := crds[0].DeepCopy()
	theirs.Labels = map[string]string{managedBy: "Helm"}
	theirs.Annotations = map[string]string{helmName: "karpenter-crd", helmNamespace: "kube-system"}
	theirs.Spec.Versions[0].AdditionalPrinterColumns = nil
	return theirs
}

func statuses(t *testing.T, helm *Client) map[string]CRDStatus {
	t.Helper()
	result, err := statusesOf(context.Background(), helm)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func statusesOf(ctx context.Context, helm *Client) (map[string]CRDStatus, error) {
	crds, err := helm.ObserveCRDs(ctx, engineRelease())
	result := map[string]CRDStatus{}
	for _, crd := range crds {
		result[crd.Name] = crd.Status
	}
	return result, err
}

func allCurrentAndEstablished(ctx context.Context, helm *Client) (bool, error) {
	crds, err := helm.ObserveCRDs(ctx, engineRelease())
	for _, crd := range crds {
		if crd.Status != CRDCurrent || !crd.Established || crd.Owner != "" {
			return false, err
		}
	}
	return len(crds) == 5, err
}

// upstreamChart is Karpenter's own chart, but for the definitions in its packages.
func upstreamChart(t *testing.T) fs.FS {
	t.Helper()
	root, err := fs.Sub(upstreamCharts(t), "karpenter")
	if err != nil {
		t.Fatal(err)
	}
	return root
}

func upstreamCharts(t *testing.T) fs.FS {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/aws/karpenter-provider-aws").Output()
	if err != nil {
		t.Fatalf("finding Karpenter's module: %v", err)
	}
	return os.DirFS(filepath.Join(strings.TrimSpace(string(out)), "charts"))
}

// TestSmallRights: castoff under its own ServiceAccount cannot do what it never needs to.
func TestSmallRights(t *testing.T) {
	c := startCluster(t)
	c.installCastoff(t)
	as, err := client.New(c.castoff, client.Options{Scheme: c.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	inKubeSystem := metav1.ObjectMeta{Namespace: "kube-system", Name: "x"}
	cases := map[string]struct {
		reason string
		try    func(context.Context) error
	}{
		"BindClusterAdmin": {
			reason: "it may bind the engine's two roles and no other",
			try: func(ctx context.Context) error {
				return as.Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: inKubeSystem, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"}})
			},
		},
		"RoleBeyondItsOwn": {
			reason: "it may make Roles that grant what it holds and no more",
			try: func(ctx context.Context) error {
				return as.Create(ctx, &rbacv1.Role{ObjectMeta: inKubeSystem, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"delete"}}}})
			},
		},
		"DeletePod": {
			reason: "pods of workloads leave by eviction only",
			try:    func(ctx context.Context) error { return as.Delete(ctx, &corev1.Pod{ObjectMeta: inKubeSystem}) },
		},
		"ReadSecretsElsewhere": {
			reason: "Secrets of its own and the engine's namespace only",
			try: func(ctx context.Context) error {
				return as.List(ctx, &corev1.SecretList{}, client.InNamespace("default"))
			},
		},
		"ReadAwsAuth": {
			reason: "only with awsAuth.write: what may not be read is taken for what may not be written",
			try: func(ctx context.Context) error {
				return as.Get(ctx, client.ObjectKey{Namespace: "kube-system", Name: "aws-auth"}, &corev1.ConfigMap{})
			},
		},
		"DeleteNode": {
			reason: "nodes go when their instances go",
			try: func(ctx context.Context) error {
				return as.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "x"}})
			},
		},
		"PatchForeignCRD": {
			reason: "five CRDs and no other",
			try: func(ctx context.Context) error {
				crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "migrations.castoff.sh"}}
				return as.Patch(ctx, crd, client.RawPatch("application/merge-patch+json", []byte(`{}`)))
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if err := tc.try(context.Background()); !apierrors.IsForbidden(err) {
				t.Errorf("%s: got %v, want Forbidden", tc.reason, err)
			}
		})
	}
}

func eachItem(list client.ObjectList, visit func(client.Object)) error {
	items, err := meta.ExtractList(list)
	for _, item := range items {
		if object, ok := item.(client.Object); ok {
			visit(object)
		}
	}
	return err
}
