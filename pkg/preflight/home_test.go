package preflight

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

func TestHomeTainted(t *testing.T) {
	node := func(group string, taints ...corev1.Taint) inventory.Node {
		return inventory.Node{Group: group, Taints: taints}
	}
	no := func(key string) corev1.Taint {
		return corev1.Taint{Key: key, Value: "x", Effect: corev1.TaintEffectNoSchedule}
	}
	blocks := []inventory.Finding{block(CheckHomeTainted, "nodegroup/system", "Every node of the home is tainted (team=x:NoSchedule), and Karpenter, CoreDNS and castoff do not tolerate it. Name a group without taints in spec.home.nodeGroup.")}
	cases := map[string]struct {
		reason string
		nodes  []inventory.Node
		want   []inventory.Finding
	}{
		"Clean":     {"an untainted home", []inventory.Node{node("system")}, nil},
		"Tainted":   {"the engine would stay Pending", []inventory.Node{node("system", no("team")), node("general")}, blocks},
		"OneOfTwo":  {"one node that takes the engine is enough to begin with", []inventory.Node{node("system", no("team")), node("system")}, nil},
		"Soft":      {"a preference refuses nobody", []inventory.Node{node("system", corev1.Taint{Key: "team", Effect: corev1.TaintEffectPreferNoSchedule})}, nil},
		"Addons":    {"the engine tolerates what system pods tolerate", []inventory.Node{node("system", no("CriticalAddonsOnly"))}, nil},
		"NotReady":  {"a node that is not Ready yet will be", []inventory.Node{node("system", no("node.kubernetes.io/not-ready"))}, nil},
		"Elsewhere": {"taints of other groups are theirs", []inventory.Node{node("system"), node("memory", no("team"))}, nil},
		"NoNodes":   {"a home without nodes is another finding", nil, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, homeTainted(Input{Home: "system", Nodes: tc.nodes})); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
		})
	}
}
