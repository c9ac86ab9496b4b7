package helm

import (
	"context"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const handOverPage = "../../docs/runbooks/hand-over-to-upstream.md"

// byHelm does what `helm upgrade --install` does, as an admin.
func (c *cluster) byHelm(t *testing.T, r Release, upgrades bool) {
	t.Helper()
	helm := helmAs(t, c.admin)
	p := mustPrepare(t, r)
	cfg, err := helm.configuration(r.Namespace)
	if err != nil {
		t.Fatal(err)
	}
	if upgrades {
		err = upgrade(t.Context(), cfg, p)
	} else {
		err = install(t.Context(), cfg, p)
	}
	if err != nil {
		t.Fatalf("chart %s: %v", p.chart.Name(), err)
	}
}

// handedOver are the values that castoff gave, as the page says to keep them: all but its image.
func handedOver(r Release) map[string]any {
	values := merge(r.Values, map[string]any{"controller": map[string]any{"image": nil}})
	delete(values["controller"].(map[string]any), "image")
	return values
}

// TestUpstreamTakesOver: what the names are chosen for. Upstream's own charts, as its module ships them, take castoff's release and
// definitions over, as docs/runbooks/hand-over-to-upstream.md says, and nothing that a node hangs on is made anew.
func TestUpstreamTakesOver(t *testing.T) {
	c := startCluster(t)
	c.installCastoff(t)
	ctx, castoff := context.Background(), helmAs(t, c.castoff)
	e := engineOfTest
	e.NodeSelector, e.Region = map[string]string{"eks.amazonaws.com/nodegroup": "system"}, "us-east-1"
	engine := e.Release()
	if err := castoff.ApplyCRDs(ctx, engine); err != nil {
		t.Fatal(err)
	}
	if _, err := castoff.Apply(ctx, engine); err != nil {
		t.Fatal(err)
	}
	objects := c.karpenters(t)
	before, kept := c.identities(t, objects), keptObjects(t, c)
	budget := get(t, c, "kube-system", "karpenter", &policyv1.PodDisruptionBudget{}).UID
	selector := get(t, c, "kube-system", "karpenter", &appsv1.Deployment{}).Spec.Selector

	c.byHelm(t, Release{Name: "karpenter", Namespace: "kube-system", Chart: upstreamChart(t), Values: handedOver(engine)}, true)
	after := get(t, c, "kube-system", "karpenter", &appsv1.Deployment{})
	if got := after.Spec.Template.Spec.Containers; len(got) != 1 || !strings.HasPrefix(got[0].Image, "public.ecr.aws/karpenter/controller:") ||
		environment(got[0])["CLUSTER_NAME"] != "harbor" || environment(got[0])["INTERRUPTION_QUEUE"] != "harbor" {
		t.Errorf("containers after the hand-over: %v", got)
	}
	if diff := cmp.Diff(selector, after.Spec.Selector); diff != "" || after.Spec.Template.Spec.NodeSelector["eks.amazonaws.com/nodegroup"] != "system" {
		t.Errorf("node selector %v; selector -before +after\n%s", after.Spec.Template.Spec.NodeSelector, diff)
	}
	if diff := cmp.Diff(kept, keptObjects(t, c)); diff != "" || budget != get(t, c, "kube-system", "karpenter", &policyv1.PodDisruptionBudget{}).UID {
		t.Errorf("objects of the engine were replaced: -before +after\n%s", diff)
	}
	if diff := cmp.Diff(before, c.identities(t, objects)); diff != "" {
		t.Errorf("definitions or what they define: -before +after\n%s", diff)
	}
	c.rightsAfterHandOver(t)
	state, err := castoff.Observe(ctx, engine)
	if err != nil || state.Status != Foreign || !strings.Contains(state.Owner, "kube-system/karpenter of chart karpenter") {
		t.Errorf("observed %+v, %v; want Foreign: castoff lets go of it", state, err)
	}

	t.Run("Definitions", func(t *testing.T) { c.handOverDefinitions(t, castoff) })
	if diff := cmp.Diff(before, c.identities(t, objects)); diff != "" {
		t.Errorf("definitions or what they define: -before +after\n%s", diff)
	}
}

// rightsAfterHandOver: upstream's ClusterRoles are bound, and castoff's are there, bound to nobody.
func (c *cluster) rightsAfterHandOver(t *testing.T) {
	t.Helper()
	for _, name := range []string{"karpenter", "karpenter-core"} {
		binding := get(t, c, "", name, &rbacv1.ClusterRoleBinding{})
		if binding.RoleRef.Name != name || len(binding.Subjects) != 1 || binding.Subjects[0].Name != "karpenter" || binding.Subjects[0].Namespace != "kube-system" {
			t.Errorf("binding %s is of %v to %v", name, binding.RoleRef, binding.Subjects)
		}
	}
	for _, name := range []string{"castoff-engine", "castoff-engine-core"} {
		get(t, c, "", name, &rbacv1.ClusterRole{})
		if err := c.Get(t.Context(), client.ObjectKey{Name: name}, &rbacv1.ClusterRoleBinding{}); client.IgnoreNotFound(err) != nil || err == nil {
			t.Errorf("binding %s is still there, of a release that has no such object: %v", name, err)
		}
	}
}

// handOverDefinitions marks them as the page says, and installs upstream's chart of definitions over them.
func (c *cluster) handOverDefinitions(t *testing.T, castoff *Client) {
	t.Helper()
	crds, err := EngineCRDs()
	if err != nil {
		t.Fatal(err)
	}
	for _, crd := range crds {
		live := get(t, c, "", crd.Name, &apiextensionsv1.CustomResourceDefinition{})
		live.Labels[managedBy] = "Helm"
		live.Annotations[helmName], live.Annotations[helmNamespace] = "karpenter-crd", "kube-system"
		if err := c.Update(t.Context(), live); err != nil {
			t.Fatal(err)
		}
	}
	chart, err := fs.Sub(upstreamCharts(t), "karpenter-crd")
	if err != nil {
		t.Fatal(err)
	}
	c.byHelm(t, Release{Name: "karpenter-crd", Namespace: "kube-system", Chart: chart}, false)
	observed, err := castoff.ObserveCRDs(t.Context(), engineRelease())
	if err != nil {
		t.Fatal(err)
	}
	for _, crd := range observed {
		if crd.Owner != "Helm release kube-system/karpenter-crd" || crd.Made() || !crd.Established {
			t.Errorf("castoff still takes %+v for its own", crd)
		}
	}
	if err := castoff.RemoveCRDs(t.Context()); err != nil { // the way back, begun by mistake
		t.Fatal(err)
	}
}

// TestHandOverPage: what the page says to type is what the test does.
func TestHandOverPage(t *testing.T) {
	content, err := os.ReadFile(handOverPage)
	if err != nil {
		t.Fatal(err)
	}
	page := string(content)
	crds, err := EngineCRDs()
	if err != nil {
		t.Fatal(err)
	}
	wanted := []string{
		managedBy + "=Helm", helmName + "=karpenter-crd", helmNamespace + "=kube-system", "oci://public.ecr.aws/karpenter/karpenter ", "oci://public.ecr.aws/karpenter/karpenter-crd ",
		"helm get values " + EngineRelease, "castoff-engine castoff-engine-core", "kubectl delete migration",
	}
	for _, crd := range crds {
		wanted = append(wanted, crd.Name)
	}
	for _, want := range wanted {
		if !strings.Contains(page, want) {
			t.Errorf("%s does not say %q", handOverPage, want)
		}
	}
	if chart := engineVersion(t); !strings.Contains(page, "--version "+chart) {
		t.Errorf("%s does not name version %s, which the engine is", handOverPage, chart)
	}
}

func engineVersion(t *testing.T) string {
	t.Helper()
	return metadata(mustPrepare(t, engineRelease()).chart).AppVersion
}
