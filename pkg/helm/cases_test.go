package helm

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"
	"helm.sh/helm/v3/pkg/release"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/castoff-sh/castoff/charts"
)

// remoteEngine is the engine from upstream's chart.
func remoteEngine(chart RemoteChart) Engine {
	e := engineOfTest
	e.Remote, e.NodeSelector = &chart, map[string]string{"eks.amazonaws.com/nodegroup": "system"}
	return e
}

// fromRegistry is charts/castoff with the rights that upstream's chart takes.
func fromRegistry() Release {
	r := castoffRelease()
	r.Values = map[string]any{"engine": map[string]any{"fromRegistry": true}}
	return r
}

func (c *cluster) installCastoffAs(t *testing.T, r Release) {
	t.Helper()
	if err := c.Create(context.Background(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "castoff-system"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := helmAs(t, c.admin).Apply(context.Background(), r); err != nil {
		t.Fatalf("installing charts/castoff: %v", err)
	}
}

// karpenters are a NodePool, a NodeClaim and an EC2NodeClass: what nodes hang on.
func (c *cluster) karpenters(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	class := map[string]any{"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "general"}
	requirements := []any{map[string]any{"key": "karpenter.sh/capacity-type", "operator": "In", "values": []any{"on-demand"}}}
	object := func(group, kind string, spec map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": group + "/v1", "kind": kind, "metadata": map[string]any{"name": "general"}, "spec": spec,
		}}
	}
	out := []*unstructured.Unstructured{
		object("karpenter.sh", "NodePool", map[string]any{"template": map[string]any{"spec": map[string]any{"requirements": requirements, "nodeClassRef": class}}}),
		object("karpenter.sh", "NodeClaim", map[string]any{"requirements": requirements, "nodeClassRef": class}),
		object("karpenter.k8s.aws", "EC2NodeClass", map[string]any{
			"role": "nodes", "amiSelectorTerms": []any{map[string]any{"alias": "al2023@v20250101"}},
			"subnetSelectorTerms": []any{map[string]any{"id": "subnet-0123456789abcdef0"}}, "securityGroupSelectorTerms": []any{map[string]any{"id": "sg-0123456789abcdef0"}},
		}),
	}
	g := gomega.NewWithT(t)
	for _, o := range out {
		g.Eventually(func() error { return c.Create(context.Background(), o) }, "30s", "200ms").Should(gomega.Succeed())
	}
	return out
}

// identities are the UIDs and generations of objects: none was replaced or changed while they stay.
func (c *cluster) identities(t *testing.T, objects []*unstructured.Unstructured) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, o := range objects {
		live := &unstructured.Unstructured{}
		live.SetGroupVersionKind(o.GroupVersionKind())
		get(t, c, "", o.GetName(), live)
		if live.GetDeletionTimestamp() != nil {
			t.Errorf("%s %s is being deleted", o.GetKind(), o.GetName())
		}
		out[o.GetKind()] = string(live.GetUID())
	}
	crds := &apiextensionsv1.CustomResourceDefinitionList{}
	if err := c.List(context.Background(), crds); err != nil {
		t.Fatal(err)
	}
	for _, crd := range crds.Items {
		if crd.DeletionTimestamp != nil {
			t.Errorf("CRD %s is being deleted", crd.Name)
		}
		out["CRD "+crd.Name] = string(crd.UID)
	}
	return out
}

// leftBehind are the definitions that a Karpenter which is gone left: the real ones, with one field and one kind fewer.
func leftBehind(t *testing.T) []*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	crds, err := EngineCRDs()
	if err != nil {
		t.Fatal(err)
	}
	for _, crd := range crds[:4] {
		crd.Labels = nil
		crd.Annotations = map[string]string{"controller-gen.kubebuilder.io/version": "v0.18.0"}
		delete(crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties, "status")
	}
	return crds[:4]
}

func TestCase_C044_DefinitionsThatNobodyOwnsAreAdopted(t *testing.T) {
	c := startCluster(t)
	c.installCastoff(t)
	ctx, helm := context.Background(), helmAs(t, c.castoff)
	for _, crd := range leftBehind(t) {
		if err := c.Create(ctx, crd, client.FieldOwner("kubectl-client-side-apply")); err != nil {
			t.Fatal(err)
		}
	}
	objects := c.karpenters(t)
	before := c.identities(t, objects)
	want := map[string]CRDStatus{
		"nodepools.karpenter.sh": CRDUnowned, "nodeclaims.karpenter.sh": CRDUnowned, "nodeoverlays.karpenter.sh": CRDUnowned,
		"ec2nodeclasses.karpenter.k8s.aws": CRDUnowned, "capacitybuffers.autoscaling.x-k8s.io": CRDMissing,
	}
	if diff := cmp.Diff(want, statuses(t, helm)); diff != "" {
		t.Errorf("before: -want +got\n%s", diff)
	}
	if err := helm.ApplyCRDs(ctx, engineRelease()); err != nil {
		t.Fatal(err)
	}
	g := gomega.NewWithT(t)
	g.Eventually(func() (bool, error) { return allCurrentAndEstablished(ctx, helm) }, "30s", "100ms").Should(gomega.BeTrue())
	after := c.identities(t, objects)
	delete(after, "CRD capacitybuffers.autoscaling.x-k8s.io")
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("a definition or an object was made anew: -before +after\n%s", diff)
	}
	adopted := get(t, c, "", "nodepools.karpenter.sh", &apiextensionsv1.CustomResourceDefinition{})
	if adopted.Labels[managedBy] != fieldManager || adopted.Annotations[crdAdopted] == "" {
		t.Errorf("it is not marked: %v %v", adopted.Labels, adopted.Annotations)
	}
	if _, ok := adopted.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["status"]; !ok {
		t.Error("it was not brought up to date")
	}

	// The way back takes away what castoff made, and leaves what it found.
	for _, o := range objects {
		if err := c.Delete(ctx, o); err != nil {
			t.Fatal(err)
		}
	}
	if err := helm.RemoveCRDs(ctx); err != nil {
		t.Fatal(err)
	}
	g.Eventually(func() map[string]CRDStatus { return statuses(t, helm) }, "30s", "100ms").Should(gomega.Equal(map[string]CRDStatus{
		"nodepools.karpenter.sh": CRDCurrent, "nodeclaims.karpenter.sh": CRDCurrent, "nodeoverlays.karpenter.sh": CRDCurrent,
		"ec2nodeclasses.karpenter.k8s.aws": CRDCurrent, "capacitybuffers.autoscaling.x-k8s.io": CRDMissing,
	}))
}

func TestCase_C044_WhoseDefinitionsAreLeftAlone(t *testing.T) {
	crds := leftBehind(t)
	wanted, err := EngineCRDs()
	if err != nil {
		t.Fatal(err)
	}
	managed := func(name string) []metav1.ManagedFieldsEntry { return []metav1.ManagedFieldsEntry{{Manager: name}} }
	schema := func(crd *apiextensionsv1.CustomResourceDefinition) map[string]apiextensionsv1.JSONSchemaProps {
		return crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties
	}
	cases := map[string]struct {
		reason string
		change func(*apiextensionsv1.CustomResourceDefinition)
		want   CRDStatus
		owner  string
	}{
		"Nobodys":     {"no mark at all", func(*apiextensionsv1.CustomResourceDefinition) {}, CRDUnowned, ""},
		"Kubectl":     {"a person applied it", func(c *apiextensionsv1.CustomResourceDefinition) { c.ManagedFields = managed("kubectl-create") }, CRDUnowned, ""},
		"HelmsFolder": {"a chart's folder crds: Helm claims nothing of it", func(c *apiextensionsv1.CustomResourceDefinition) { c.ManagedFields = managed("helm") }, CRDUnowned, ""},
		"Release": {"another release owns it", func(c *apiextensionsv1.CustomResourceDefinition) {
			c.Annotations[helmName], c.Annotations[helmNamespace] = "karpenter-crd", "x"
		}, CRDForeign, "Helm release x/karpenter-crd"},
		"Argo": {"Argo CD would put it back", func(c *apiextensionsv1.CustomResourceDefinition) {
			c.Annotations["argocd.argoproj.io/tracking-id"] = "platform"
		}, CRDForeign, "Argo CD application platform"},
		"FluxRelease": {"so would Flux", func(c *apiextensionsv1.CustomResourceDefinition) {
			c.Labels = map[string]string{"helm.toolkit.fluxcd.io/name": "karpenter"}
		}, CRDForeign, "Flux HelmRelease karpenter"},
		"Terraform": {"so would Terraform", func(c *apiextensionsv1.CustomResourceDefinition) { c.ManagedFields = managed("Terraform") }, CRDForeign, "whoever applied it with Terraform"},
		"LaterField": {"castoff's would drop a field of a later Karpenter's", func(c *apiextensionsv1.CustomResourceDefinition) {
			schema(c)["later"] = apiextensionsv1.JSONSchemaProps{Type: "string"}
		}, CRDForeign, "an unknown owner"},
		"StoredBefore": {"objects are stored in a version that castoff's does not have", func(c *apiextensionsv1.CustomResourceDefinition) {
			c.Spec.Versions[0].Name, c.Status.StoredVersions = "v1beta1", []string{"v1beta1"}
		}, CRDForeign, "an unknown owner"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := crds[0].DeepCopy()
			tc.change(got)
			state := classifyCRD(wanted[0], got)
			if state.Status != tc.want || tc.owner != "" && state.Owner != tc.owner {
				t.Errorf("%s: %+v, want %s of %s", tc.reason, state, tc.want, tc.owner)
			}
		})
	}
}

// TestCase_C050_TheEngineGetsTheQueuesName: what the plan waits for before it is in pkg/plan.
func TestCase_C050_TheEngineGetsTheQueuesName(t *testing.T) {
	r := startRegistry(t)
	chart := r.push(t, upstream(t))
	cases := map[string]struct {
		reason string
		engine func(Engine) Engine
		want   string
	}{
		"Name": {"as the port found it", func(e Engine) Engine { return e }, "harbor"},
		"Off":  {"no queue, and Karpenter asks for none", func(e Engine) Engine { e.InterruptionQueue = ""; return e }, ""},
		"Overridden": {"the queue that was made is the one that is read, whatever the values say", func(e Engine) Engine {
			e.Values = map[string]any{"settings": map[string]any{"interruptionQueue": "https://sqs.us-east-1.amazonaws.com/123456789012/other", "clusterName": "pier", "batchMaxDuration": "20s"}}
			return e
		}, "harbor"},
	}
	for name, tc := range cases {
		for source, engine := range map[string]Engine{"BuiltIn": engineOfTest, "Chart": remoteEngine(chart)} {
			t.Run(name+source, func(t *testing.T) {
				release := tc.engine(engine).Release()
				loaded, err := puller().loaded(t.Context(), release)
				if err != nil {
					t.Fatal(err)
				}
				p, err := prepareWith(release, loaded)
				if err != nil {
					t.Fatal(err)
				}
				env := environment(find[*appsv1.Deployment](t, decoded(t, p.manifest), "karpenter").Spec.Template.Spec.Containers[0])
				if env["INTERRUPTION_QUEUE"] != tc.want || env["CLUSTER_NAME"] != "harbor" {
					t.Errorf("%s: queue %q, cluster %q", tc.reason, env["INTERRUPTION_QUEUE"], env["CLUSTER_NAME"])
				}
			})
		}
	}
}

// TestOlderCastoffIsUpgraded: the release that an older castoff made becomes this one's, and nothing that nodes hang on changes.
func TestOlderCastoffIsUpgraded(t *testing.T) {
	c := startCluster(t)
	c.installCastoff(t)
	ctx, helm, engine := context.Background(), helmAs(t, c.castoff), engineRelease()
	older := engine
	older.Chart = olderChart(t)
	if state, err := helm.Apply(ctx, older); err != nil || state.ChartVersion != "1.13.0" {
		t.Fatalf("the older one: %+v, %v", state, err)
	}
	if err := helm.ApplyCRDs(ctx, engine); err != nil {
		t.Fatal(err)
	}
	objects := c.karpenters(t)
	before := c.identities(t, objects)
	kept := keptObjects(t, c)

	if state, err := helm.Observe(ctx, engine); err != nil || state.Status != Deployed || state.Current {
		t.Errorf("before: %+v, %v; want Deployed and not Current", state, err)
	}
	state, err := helm.Apply(ctx, engine)
	if err != nil || !state.Current || state.Revision != 2 || state.ChartVersion != "1.14.1" {
		t.Errorf("after: %+v, %v", state, err)
	}
	if diff := cmp.Diff(before, c.identities(t, objects)); diff != "" {
		t.Errorf("-before +after\n%s", diff)
	}
	if diff := cmp.Diff(kept, keptObjects(t, c)); diff != "" {
		t.Errorf("the engine's objects were replaced: -before +after\n%s", diff)
	}
}

// olderChart is the engine's as an older castoff had it.
func olderChart(t *testing.T) fs.FS {
	t.Helper()
	root := fstest.MapFS{}
	err := fs.WalkDir(charts.Provisioner(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(charts.Provisioner(), name)
		if name == "Chart.yaml" {
			data = []byte(strings.ReplaceAll(string(data), "1.14.1", "1.13.0"))
		}
		root[name] = &fstest.MapFile{Data: data}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// keptObjects are the UIDs of what a replaced engine would lose.
func keptObjects(t *testing.T, c *cluster) map[string]string {
	t.Helper()
	out := map[string]string{}
	for kind, object := range map[string]client.Object{"Deployment": &appsv1.Deployment{}, "ServiceAccount": &corev1.ServiceAccount{}, "Role": &rbacv1.Role{}, "Service": &corev1.Service{}} {
		out[kind] = string(get(t, c, "kube-system", "karpenter", object).GetUID())
	}
	return out
}

// TestChartFromARegistry: upstream's chart under castoff's own rights, from nothing to uninstalled.
func TestChartFromARegistry(t *testing.T) {
	c := startCluster(t)
	c.installCastoffAs(t, fromRegistry())
	r := startRegistry(t)
	chart := r.push(t, upstream(t))
	ctx, helm, engine := context.Background(), helmAs(t, c.castoff), remoteEngine(chart).Release()

	if err := helm.ApplyCRDs(ctx, engine); err != nil {
		t.Fatalf("the chart's definitions: %v", err)
	}
	state, err := helm.Apply(ctx, engine)
	if err != nil || !state.Current || state.ChartVersion != chart.Version {
		t.Fatalf("install: %+v, %v", state, err)
	}
	deployment := get(t, c, "kube-system", "karpenter", &appsv1.Deployment{})
	if got := deployment.Spec.Template.Spec.Containers[0]; !strings.HasPrefix(got.Image, "public.ecr.aws/karpenter/controller:") || got.Resources.Requests.Memory().String() != "1Gi" {
		t.Errorf("it runs %s with %v", got.Image, got.Resources)
	}
	if deployment.Labels["castoff.sh/managed-by"] != "castoff" || deployment.Spec.Template.Spec.NodeSelector["eks.amazonaws.com/nodegroup"] != "system" {
		t.Errorf("labels %v, node selector %v", deployment.Labels, deployment.Spec.Template.Spec.NodeSelector)
	}
	before := versions(t, c)
	if again, err := helm.Apply(ctx, engine); err != nil || again.Revision != 1 {
		t.Errorf("again: %+v, %v", again, err)
	}
	if diff := cmp.Diff(before, versions(t, c)); diff != "" {
		t.Errorf("a second Apply changed objects: -before +after\n%s", diff)
	}
	t.Run("WithoutItsRegistry", func(t *testing.T) {
		r.Close()
		fresh := helmAs(t, c.castoff) // a castoff that restarted
		state, err := fresh.Observe(ctx, engine)
		if err != nil || state.Status != Deployed || state.Current || !strings.Contains(state.Reason, "pulling chart") {
			t.Errorf("observed %+v, %v; want Deployed, and why it is not known to be Current", state, err)
		}
		if _, err := fresh.ObserveCRDs(ctx, engine); !errors.As(err, new(*PullError)) {
			t.Errorf("its definitions: %v, want a PullError", err)
		}
		if _, err := fresh.Apply(ctx, engine); !errors.As(err, new(*PullError)) {
			t.Errorf("applied: %v, want a PullError", err)
		}
		if err := fresh.Uninstall(ctx, engine); err != nil {
			t.Errorf("the way back needs no registry: %v", err)
		}
		if state, err := fresh.Observe(ctx, engine); err != nil || state.Status != NotInstalled {
			t.Errorf("after: %+v, %v", state, err)
		}
	})
}

// TestReleaseOfAnothersKarpenter: with upstream's chart its name and its annotations tell nothing; castoff's label does.
func TestReleaseOfAnothersKarpenter(t *testing.T) {
	r := startRegistry(t)
	chart := r.push(t, upstream(t))
	ours := remoteEngine(chart).Release()
	loaded, err := puller().loaded(t.Context(), ours)
	if err != nil {
		t.Fatal(err)
	}
	wanted, err := prepareWith(ours, loaded)
	if err != nil {
		t.Fatal(err)
	}
	theirs, builtIn := *wanted, mustPrepare(t, engineRelease())
	theirs.values = map[string]any{"settings": map[string]any{"clusterName": "harbor"}}
	cases := map[string]struct {
		reason string
		record *release.Release
		want   *plan
		status Status
	}{
		"Ours":            {"castoff installed it from there", revision(wanted, 1, release.StatusDeployed), wanted, Deployed},
		"Theirs":          {"somebody installed the same chart", revision(&theirs, 1, release.StatusDeployed), wanted, Foreign},
		"TheirsAndNoPull": {"that is known without the chart", revision(&theirs, 1, release.StatusDeployed), &plan{Release: ours, values: ours.Values}, Foreign},
		"OursAndNoPull":   {"and so is this", revision(wanted, 1, release.StatusDeployed), &plan{Release: ours, values: ours.Values}, Deployed},
		"BuiltInBefore":   {"castoff's own chart gives way to upstream's", revision(builtIn, 1, release.StatusDeployed), wanted, Deployed},
		"ChartBefore":     {"and the other way round", revision(wanted, 1, release.StatusDeployed), builtIn, Deployed},
		"TakenOver":       {"upstream's chart took castoff's release over", revision(&theirs, 2, release.StatusDeployed), builtIn, Foreign},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := classify([]*release.Release{tc.record}, tc.want); got.Status != tc.status {
				t.Errorf("%s: %+v, want %s", tc.reason, got, tc.status)
			}
		})
	}
}

// TestRightsForAChart: without the value castoff makes no ClusterRole, and with it none that holds more than Karpenter's do.
func TestRightsForAChart(t *testing.T) {
	c := startCluster(t)
	c.installCastoffAs(t, fromRegistry())
	as, err := client.New(c.castoff, client.Options{Scheme: c.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "karpenter"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}}}}
	if err := as.Create(context.Background(), role); err == nil || !strings.Contains(err.Error(), "is attempting to grant RBAC permissions not currently held") {
		t.Errorf("a ClusterRole beyond Karpenter's: %v", err)
	}
	for _, object := range rendered(t, castoffRelease()) {
		if o, ok := object.(*rbacv1.ClusterRole); ok && o.Name == "castoff-engine-registry" {
			t.Error("the rights are there without being asked for")
		}
	}
}
