package controllers

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/plan"
)

func TestNodePolicies(t *testing.T) {
	self := inventory.NodeGroup{Name: "self", LaunchTemplate: inventory.LaunchTemplate{Role: "nodes"}}
	managed := inventory.NodeGroup{Name: "managed", Managed: &inventory.ManagedNodeGroup{NodeRole: "eks"}, LaunchTemplate: inventory.LaunchTemplate{Role: "of-a-profile"}}
	home := inventory.NodeGroup{Name: "home", LaunchTemplate: inventory.LaunchTemplate{Role: "home"}}
	policies := map[string][]string{"nodes": {"arn:b", "arn:a"}, "eks": {"arn:a", "arn:c"}, "home": {"arn:of-the-home"}, "of-a-profile": {"arn:x"}}
	cases := map[string]struct {
		reason string
		pools  []string
		want   []string
	}{
		"SelfManaged": {"the role of the launch template's profile", []string{"self"}, []string{"arn:a", "arn:b"}},
		"Managed":     {"EKS's own word on the role", []string{"managed"}, []string{"arn:a", "arn:c"}},
		"Both":        {"each once, in an order that does not change", []string{"self", "managed"}, []string{"arn:a", "arn:b", "arn:c"}},
		"None":        {"the home's role stays with the home", nil, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.policies = policies
			got, err := w.reconciler().Observer.nodePolicies(t.Context(), plan.World{
				Groups: []inventory.NodeGroup{self, managed, home}, Pools: []inventory.Pool{{Name: "p", NodeGroups: tc.pools}},
			})
			if diff := cmp.Diff(tc.want, got); diff != "" || err != nil {
				t.Errorf("%s: %v, -want +got:\n%s", tc.reason, err, diff)
			}
		})
	}
}
