package helm

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// TestNoWildcards: a wildcard grants what does not exist yet.
func TestNoWildcards(t *testing.T) {
	for role, granted := range rules(append(rendered(t, castoffRelease()), rendered(t, engineRelease())...)) {
		for _, rule := range granted {
			for _, word := range slices.Concat(rule.Verbs, rule.Resources, rule.APIGroups, rule.ResourceNames) {
				if strings.Contains(word, "*") {
					t.Errorf("%s grants %q in %v", role, word, rule)
				}
			}
			if len(rule.Verbs) == 0 || len(rule.Resources) == 0 {
				t.Errorf("%s has a rule that grants nothing: %v", role, rule)
			}
		}
	}
}

// TestDangerousRights lists every grant in castoff's own roles of a kind that a security review asks about. A new one has to be
// added here, by somebody who can say why.
func TestDangerousRights(t *testing.T) {
	want := map[string][]string{
		"bind clusterroles":          {"ClusterRole castoff-engine-bind [castoff-engine castoff-engine-core]"},
		"create clusterrolebindings": {"ClusterRole castoff-engine-bind"},
		"create pods":                {"Role castoff-system/castoff"},
		"create pods/eviction":       {"ClusterRole castoff"},
		"delete pods":                {"Role castoff-system/castoff"},
		"delete leases":              {"ClusterRole castoff [cluster-autoscaler]"},
		"get secrets":                {"Role castoff-system/castoff", "Role kube-system/castoff-engine-install"},
		"list secrets":               {"Role castoff-system/castoff", "Role kube-system/castoff-engine-install"},
		"create rolebindings":        {"Role kube-system/castoff-engine-install", "Role kube-system/castoff-engine-install-dns"},
		"create roles":               {"Role kube-system/castoff-engine-install", "Role kube-system/castoff-engine-install-dns"},
		"create deployments":         {"Role kube-system/castoff-engine-install"},
		// The first is strategy.surge's, on unless the value drain.surge takes it away (TestSurgeIsARight).
		"patch deployments":         {"ClusterRole castoff", "Role kube-system/castoff-engine-install [karpenter]"},
		"patch deployments/scale":   {"ClusterRole castoff"},
		"update deployments/scale":  {"ClusterRole castoff"},
		"patch nodes":               {"ClusterRole castoff"},
		"patch clusterrolebindings": {"ClusterRole castoff-engine-bind [castoff-engine castoff-engine-core]"},
		"patch rolebindings":        {"Role kube-system/castoff-engine-install [karpenter]", "Role kube-system/castoff-engine-install-dns [karpenter-dns]"},
		"patch roles":               {"Role kube-system/castoff-engine-install [karpenter]", "Role kube-system/castoff-engine-install-dns [karpenter-dns]"},
		"delete secrets":            {"Role castoff-system/castoff", "Role kube-system/castoff-engine-install"},
		"delete deployments":        {"Role kube-system/castoff-engine-install [karpenter]"},
		"delete customresourcedefinitions": {
			"ClusterRole castoff [capacitybuffers.autoscaling.x-k8s.io ec2nodeclasses.karpenter.k8s.aws nodeclaims.karpenter.sh nodeoverlays.karpenter.sh nodepools.karpenter.sh]",
		},
		"patch customresourcedefinitions": {
			"ClusterRole castoff [capacitybuffers.autoscaling.x-k8s.io ec2nodeclasses.karpenter.k8s.aws nodeclaims.karpenter.sh nodeoverlays.karpenter.sh nodepools.karpenter.sh]",
		},
	}
	got := map[string][]string{}
	for role, granted := range rules(rendered(t, castoffRelease())) {
		if role == "ClusterRole castoff-engine" || role == "ClusterRole castoff-engine-core" {
			continue // the engine's, and its own affair
		}
		for _, rule := range granted {
			where := role
			if len(rule.ResourceNames) > 0 {
				where += " [" + strings.Join(rule.ResourceNames, " ") + "]"
			}
			for _, right := range dangerous(rule) {
				got[right] = append(got[right], where)
			}
		}
	}
	for _, where := range got {
		slices.Sort(where)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("dangerous rights (-want +got):\n%s", diff)
	}
}

func dangerous(rule rbacv1.PolicyRule) []string {
	sensitive := map[string][]string{
		"clusterroles": {"bind", "escalate", "create", "patch", "update"}, "roles": {"bind", "escalate", "create", "patch", "update"},
		"clusterrolebindings": {"create", "patch", "update"}, "rolebindings": {"create", "patch", "update"},
		"secrets": {"get", "list", "delete"}, "pods": {"create", "patch", "update", "delete"}, "pods/eviction": {"create"},
		"pods/exec": {"create"}, "nodes": {"patch", "update", "delete", "create"}, "nodes/proxy": {"get", "create"},
		"deployments": {"create", "patch", "update", "delete"}, "deployments/scale": {"patch", "update"},
		"serviceaccounts": {"impersonate", "patch"}, "serviceaccounts/token": {"create"}, "users": {"impersonate"}, "groups": {"impersonate"},
		"leases": {"delete"}, "customresourcedefinitions": {"patch", "update", "delete"},
	}
	var rights []string
	for _, resource := range rule.Resources {
		for _, verb := range rule.Verbs {
			if slices.Contains(sensitive[resource], verb) && resource != "serviceaccounts" {
				rights = append(rights, verb+" "+resource)
			}
		}
	}
	return rights
}

// TestEngineBindingsReferToCastoffsRoles: castoff can bind nothing else, so a binding to another role could never be installed.
func TestEngineBindingsReferToCastoffsRoles(t *testing.T) {
	shipped := rules(rendered(t, castoffRelease()))
	engine := rendered(t, engineRelease())
	var bound []string
	for _, object := range engine {
		switch binding := object.(type) {
		case *rbacv1.ClusterRoleBinding:
			if _, ok := shipped["ClusterRole "+binding.RoleRef.Name]; !ok {
				t.Errorf("%s binds ClusterRole %s, which charts/castoff does not ship", binding.Name, binding.RoleRef.Name)
			}
			if binding.Name != binding.RoleRef.Name {
				t.Errorf("%s binds %s: castoff may patch and delete bindings named as their role only", binding.Name, binding.RoleRef.Name)
			}
			bound = append(bound, binding.RoleRef.Name)
			checkSubject(t, binding.Name, binding.Subjects)
		case *rbacv1.RoleBinding:
			if _, ok := rules(engine)["Role "+binding.Namespace+"/"+binding.RoleRef.Name]; !ok {
				t.Errorf("%s binds Role %s, which the chart does not make", binding.Name, binding.RoleRef.Name)
			}
			checkSubject(t, binding.Name, binding.Subjects)
		}
	}
	slices.Sort(bound)
	for _, rule := range shipped["ClusterRole castoff-engine-bind"] {
		if slices.Contains(rule.Verbs, "bind") && !slices.Equal(rule.ResourceNames, bound) {
			t.Errorf("castoff may bind %v, the engine's chart binds %v", rule.ResourceNames, bound)
		}
	}
}

func checkSubject(t *testing.T, binding string, subjects []rbacv1.Subject) {
	t.Helper()
	want := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "karpenter", Namespace: "kube-system"}}
	if diff := cmp.Diff(want, subjects); diff != "" {
		t.Errorf("subjects of %s (-want +got):\n%s", binding, diff)
	}
}

// TestEngineRolesSurviveUninstallingCastoff: the engine goes on without castoff, and would stand still without them.
func TestEngineRolesSurviveUninstallingCastoff(t *testing.T) {
	objects := rendered(t, castoffRelease())
	for _, name := range []string{"castoff-engine", "castoff-engine-core"} {
		if got := find[*rbacv1.ClusterRole](t, objects, name).Annotations["helm.sh/resource-policy"]; got != "keep" {
			t.Errorf("ClusterRole %s has resource policy %q, want keep", name, got)
		}
	}
	if got := find[*rbacv1.ClusterRole](t, objects, "castoff").Annotations["helm.sh/resource-policy"]; got != "" {
		t.Errorf("castoff's own ClusterRole has resource policy %q: it should go with castoff", got)
	}
}

// TestRightsFollowValues: rights that castoff needs in some clusters only are off, or named, by values.
func TestRightsFollowValues(t *testing.T) {
	verbsOn := func(objects []runtime.Object, role, resource string, names ...string) []string {
		for _, rule := range rules(objects)[role] {
			if slices.Contains(rule.Resources, resource) && slices.Equal(rule.ResourceNames, names) {
				return rule.Verbs
			}
		}
		return nil
	}
	cases := map[string]struct {
		reason   string
		values   map[string]any
		role     string
		resource string
		names    []string
		want     []string
	}{
		"AwsAuth": {
			reason: "whoever writes aws-auth can make anybody an admin: no right at all, unless asked for",
			role:   "Role kube-system/castoff-aws-auth", resource: "configmaps", names: []string{"aws-auth"},
		},
		"AwsAuthWrite": {
			reason: "clusters in CONFIG_MAP mode need it", values: map[string]any{"awsAuth": map[string]any{"write": true}},
			role: "Role kube-system/castoff-aws-auth", resource: "configmaps", names: []string{"aws-auth"}, want: []string{"get", "update"},
		},
		"LeaseNames": {
			reason: "a Cluster Autoscaler with another Lease", values: map[string]any{"clusterAutoscaler": map[string]any{"leaseNames": []string{"a", "b"}}},
			role: "ClusterRole castoff", resource: "leases", names: []string{"a", "b"}, want: []string{"get", "update", "delete"},
		},
		"EngineNamespace": {
			reason: "the rights over the engine's objects go where the engine goes", values: map[string]any{"engine": map[string]any{"namespace": "karpenter"}},
			role: "Role karpenter/castoff-engine-install", resource: "deployments", names: []string{"karpenter"}, want: []string{"patch", "delete"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			release := castoffRelease()
			release.Values = tc.values
			if diff := cmp.Diff(tc.want, verbsOn(rendered(t, release), tc.role, tc.resource, tc.names...)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

// TestSurgeIsARight: to patch every Deployment is to run anything. The defaults need it, and whoever does not want it has one value to set.
func TestSurgeIsARight(t *testing.T) {
	for name, tc := range map[string]struct {
		values map[string]any
		want   bool
	}{
		"Default": {nil, true},
		"Off":     {map[string]any{"drain": map[string]any{"surge": false}}, false},
		"On":      {map[string]any{"drain": map[string]any{"surge": true}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			release := castoffRelease()
			release.Values = tc.values
			has := slices.ContainsFunc(rules(rendered(t, release))["ClusterRole castoff"], func(r rbacv1.PolicyRule) bool {
				return slices.Contains(dangerous(r), "patch deployments") && len(r.ResourceNames) == 0 && len(r.Verbs) == 1
			})
			if has != tc.want {
				t.Errorf("castoff may patch Deployments: %t", has)
			}
		})
	}
}

// TestEngineRightsAreUpstreams: the engine is upstream's code, so it needs what upstream's chart grants, no more and no less. The
// names differ, the rights must not.
func TestEngineRightsAreUpstreams(t *testing.T) {
	theirs := rules(rendered(t, Release{
		Name: "karpenter", Namespace: "kube-system", Chart: upstreamChart(t), Values: map[string]any{"settings": map[string]any{"clusterName": "harbor"}},
	}))
	ours := rules(rendered(t, castoffRelease()))
	for name, granted := range rules(rendered(t, engineRelease())) {
		ours[name] = granted
	}
	pairs := map[string]string{
		"ClusterRole castoff-engine": "ClusterRole karpenter", "ClusterRole castoff-engine-core": "ClusterRole karpenter-core",
		"Role kube-system/karpenter": "Role kube-system/karpenter", "Role kube-system/karpenter-dns": "Role kube-system/karpenter-dns",
	}
	for our, their := range pairs {
		if diff := cmp.Diff(expand(theirs[their]), expand(ours[our])); diff != "" {
			t.Errorf("rights of %s against upstream's %s (-upstream +ours):\n%s", our, their, diff)
		}
	}
}

// expand lists single rights, sorted, so that rules may be grouped in any way.
func expand(granted []rbacv1.PolicyRule) []string {
	var rights []string
	for _, rule := range granted {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					rights = append(rights, strings.TrimSpace(verb+" "+resource+"."+group+" "+strings.Join(rule.ResourceNames, ",")))
				}
			}
		}
	}
	slices.Sort(rights)
	return slices.Compact(rights)
}
