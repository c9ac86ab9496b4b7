package snapshot

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// The API server's limits: MaxSecretSize (1 MiB) of a Secret's data, and etcd's --max-request-bytes (1.5 MiB) of a write.
const requestLimit = 3 << 19

// eksNode has the 25 labels that a node of a self-managed or managed group has in a cluster with the usual add-ons.
func eksNode(group string, i int) inventory.NodeSnapshot {
	name := fmt.Sprintf("ip-10-%d-%d-%d.eu-central-1.compute.internal", i/40000, i/200%200, i%200)
	zone := string(rune('a' + i%3))
	types := []string{"m5.2xlarge", "m5a.2xlarge", "m6i.2xlarge", "m6a.2xlarge"}
	return inventory.NodeSnapshot{
		Name: name, InstanceID: fmt.Sprintf("i-%017x", 0xbcdef0123400000+i*7919), Zone: "eu-central-1" + zone,
		Taints: []corev1.Taint{{Key: "dedicated", Value: "general", Effect: corev1.TaintEffectNoSchedule}},
		Labels: map[string]string{
			"beta.kubernetes.io/arch": "amd64", "beta.kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux",
			"beta.kubernetes.io/instance-type": types[i%4], "node.kubernetes.io/instance-type": types[i%4],
			"failure-domain.beta.kubernetes.io/region": "eu-central-1", "topology.kubernetes.io/region": "eu-central-1",
			"failure-domain.beta.kubernetes.io/zone": "eu-central-1" + zone, "topology.kubernetes.io/zone": "eu-central-1" + zone,
			"topology.k8s.aws/zone-id": fmt.Sprintf("euc1-az%d", i%3+1), "topology.ebs.csi.aws.com/zone": "eu-central-1" + zone,
			"kubernetes.io/hostname":    name,
			"k8s.io/cloud-provider-aws": "5553ae84a0d29114870f67bbabd07d44", "eks.amazonaws.com/nodegroup": group,
			"eks.amazonaws.com/nodegroup-image": "ami-0abcdef1234567890", "eks.amazonaws.com/capacityType": "ON_DEMAND",
			"eks.amazonaws.com/sourceLaunchTemplateId": "lt-0abcdef1234567890", "eks.amazonaws.com/sourceLaunchTemplateVersion": "17",
			"node.kubernetes.io/lifecycle": "normal", "vpc.amazonaws.com/has-trunk-attached": "true",
			"example.com/team": "platform-engineering", "example.com/cost-center": "4711", "example.com/environment": "production", "example.com/tier": group,
		},
	}
}

// nodeGroup has that many nodes.
func nodeGroup(name string, nodes int) inventory.GroupSnapshot {
	g := group(name, int32(nodes))
	g.Nodes = nil
	for i := range nodes {
		node := eksNode(name, i)
		g.Nodes = append(g.Nodes, node)
		g.Group.Instances = append(g.Group.Instances, inventory.Instance{
			ID: node.InstanceID, Type: node.Labels["node.kubernetes.io/instance-type"], Zone: node.Zone, Lifecycle: "InService", Healthy: true,
		})
	}
	return g
}

// odd is a group whose every node has labels of its own: more text than a Secret holds.
func odd(nodes int) inventory.GroupSnapshot {
	g := nodeGroup("odd", nodes)
	for i := range g.Nodes {
		for j := range 25 {
			g.Nodes[i].Labels[fmt.Sprintf("feature.node.kubernetes.io/cpu-model-%02d", j)] = fmt.Sprintf("value-%d-%d", i, j)
		}
	}
	return g
}

func TestAThousandNodesFit(t *testing.T) {
	tests := map[string]struct {
		reason   string
		groups   []inventory.GroupSnapshot
		wantText int // bytes of the largest Secret's data, at most
		packed   int // Secrets that cannot be read without gunzip
	}{
		"OneGroup":   {"everything in one group, and still to be read without a tool", many(1, 1000), 850 << 10, 0},
		"FewGroups":  {"one group for each zone and one more", many(4, 250), 220 << 10, 0},
		"ManyGroups": {"a group for each team", many(200, 5), 16 << 10, 0},
		"MostGroups": {"an account's quota of Auto Scaling groups: the index names all of them", many(500, 2), 60 << 10, 0},
		"OddLabels":  {"too much for a Secret as text: better packed than not at all", []inventory.GroupSnapshot{odd(1000)}, compressAbove, 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			ns := namespace(t)
			store := New(cluster.Client, cluster.Client, ns)
			snapshot := harbor(tc.groups...)
			saved, err := store.Save(t.Context(), "prod", snapshot)
			if err != nil {
				t.Fatalf("%s: Save: %v", tc.reason, err)
			}
			packed, largest, request := sizes(t, ns)
			t.Logf("%d Secrets, the largest holds %d KiB and is a request of %d KiB", len(tc.groups)+1, largest>>10, request>>10)
			if packed != tc.packed || largest > tc.wantText || request > requestLimit {
				t.Errorf("%s: %d Secrets are packed, want %d; the largest holds %d bytes, want %d; the largest request is %d bytes of %d",
					tc.reason, packed, tc.packed, largest, tc.wantText, request, requestLimit)
			}
			got, digest, err := store.Load(t.Context(), "prod")
			if err != nil || digest != saved {
				t.Fatalf("Load: %q, %v", digest, err)
			}
			got.Digests = nil
			if diff := cmp.Diff(loaded(snapshot), got); diff != "" {
				t.Errorf("-saved +loaded:\n%s", diff)
			}
		})
	}
}

// many is that many groups of that many nodes, by name.
func many(groups, nodes int) (out []inventory.GroupSnapshot) {
	for i := range groups {
		out = append(out, nodeGroup(fmt.Sprintf("group-%04d", i), nodes))
	}
	return out
}

// sizes measures the Secrets of a namespace: how many are packed, the most data in one, and the longest request to make one.
func sizes(t *testing.T, ns string) (packed, largest, request int) {
	t.Helper()
	for _, secret := range secrets(t, ns) {
		size := 0
		for key, value := range secret.Data {
			size += len(value)
			if strings.HasSuffix(key, gzipped) {
				packed++
			}
		}
		body, err := json.Marshal(secret)
		if err != nil {
			t.Fatal(err)
		}
		largest, request = max(largest, size), max(request, len(body))
	}
	return packed, largest, request
}

func TestFold(t *testing.T) {
	node := func(labels map[string]string) inventory.NodeSnapshot { return inventory.NodeSnapshot{Labels: labels} }
	tests := map[string]struct {
		reason string
		nodes  []inventory.NodeSnapshot
		common map[string]string
		own    []map[string]string
	}{
		"None":      {"a group without nodes", nil, nil, nil},
		"One":       {"what a single node has is its own", []inventory.NodeSnapshot{node(map[string]string{"a": "1"})}, nil, []map[string]string{{"a": "1"}}},
		"Same":      {"said once", []inventory.NodeSnapshot{node(map[string]string{"a": "1"}), node(map[string]string{"a": "1"})}, map[string]string{"a": "1"}, []map[string]string{{}, {}}},
		"Values":    {"the same key with another value is another label", []inventory.NodeSnapshot{node(map[string]string{"a": "1", "b": "x"}), node(map[string]string{"a": "2", "b": "x"})}, map[string]string{"b": "x"}, []map[string]string{{"a": "1"}, {"a": "2"}}},
		"Empty":     {"an empty value is not a missing key", []inventory.NodeSnapshot{node(map[string]string{"a": ""}), node(map[string]string{"b": ""})}, map[string]string{}, []map[string]string{{"a": ""}, {"b": ""}}},
		"Unlabeled": {"a node without labels shares none", []inventory.NodeSnapshot{node(map[string]string{"a": "1"}), node(nil)}, map[string]string{}, []map[string]string{{"a": "1"}, nil}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			before := inventory.GroupSnapshot{Nodes: tc.nodes}
			untouched := inventory.GroupSnapshot{}
			for _, n := range tc.nodes {
				untouched.Nodes = append(untouched.Nodes, *deepCopy(t, n))
			}
			folded := fold(before)
			var own []map[string]string
			for _, n := range folded.Nodes {
				own = append(own, n.Labels)
			}
			if diff := cmp.Diff(tc.common, folded.CommonLabels); diff != "" {
				t.Errorf("%s: common labels, -want +got:\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(tc.own, own); diff != "" {
				t.Errorf("%s: own labels, -want +got:\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(untouched, before); diff != "" {
				t.Errorf("%s: fold changed what it was given:\n%s", tc.reason, diff)
			}
			read := document{}
			text, _, err := encode(folded)
			if err == nil {
				err = (&Store{}).decode(&corev1.Secret{}, text, &read)
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(untouched, read.unfold()); diff != "" {
				t.Errorf("%s: there and back, -want +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func deepCopy(t *testing.T, n inventory.NodeSnapshot) *inventory.NodeSnapshot {
	t.Helper()
	out := new(inventory.NodeSnapshot)
	body, err := json.Marshal(n)
	if err == nil {
		err = json.Unmarshal(body, out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}
