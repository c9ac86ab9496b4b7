package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/plan"
	"github.com/castoff-sh/castoff/pkg/preflight"
)

const planOfProd = `Cluster prod. Home (kept for Karpenter, CoreDNS and castoff): system.
One wave: the pool changes hands, then is drained.

1. Pool general: node groups general, nodes 1
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  annotations:
    castoff.sh/target-hash: HASH
  labels:
    castoff.sh/cluster: prod
    castoff.sh/pool: general
  name: general
spec:
  disruption:
    budgets:
    - nodes: 10%
    consolidateAfter: 10m
    consolidationPolicy: WhenEmptyOrUnderutilized
  template:
    spec:
      expireAfter: Never
      nodeClassRef:
        group: karpenter.k8s.aws
        kind: EC2NodeClass
        name: general
      requirements:
      - key: node.kubernetes.io/instance-type
        operator: In
        values:
        - m5.large
      - key: karpenter.sh/capacity-type
        operator: In
        values:
        - on-demand
      - key: kubernetes.io/os
        operator: In
        values:
        - linux
      - key: kubernetes.io/arch
        operator: In
        values:
        - amd64
---
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata:
  annotations:
    castoff.sh/target-hash: HASH
  labels:
    castoff.sh/cluster: prod
    castoff.sh/pool: general
  name: general
spec:
  amiFamily: AL2023
  amiSelectorTerms:
  - id: ami-1
  metadataOptions:
    httpEndpoint: enabled
    httpProtocolIPv6: disabled
    httpPutResponseHopLimit: 2
    httpTokens: required
  role: KarpenterNodeRole-prod
  securityGroupSelectorTerms:
  - id: sg-1
  subnetSelectorTerms:
  - id: subnet-1
---
   Not carried over:
   - general, maxSize 4: A NodePool is limited by resources, not by a number of nodes; none is set. Set spec.limits on the NodePool to what you are ready to pay for.

Preflight
Blocks (1)
  BarePod  pod/shop/debug  (pool general)
      No controller would bring this pod back, so castoff does not evict it and node general would never be empty. Delete the pod, or give it a controller.
Worth knowing (1)
  NotCarriedOver  pool/general  (pool general)
      Not carried over to Karpenter: general: maxSize 4. kubectl castoff plan says why, and what to do about each.
`

// world is a cluster with two groups and one bare pod, which nobody may write to.
func world(t *testing.T) client.WithWatch {
	t.Helper()
	bare := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "debug"}, Spec: corev1.PodSpec{NodeName: "general"}}
	return fakeClient(t, refuseWrites(t), node("system"), node("general"), bare)
}

// withoutHashes leaves out what changes with every change of translation, and means nothing to the reader of a plan.
func withoutHashes(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		if before, _, ok := strings.Cut(l, "castoff.sh/target-hash: "); ok {
			lines[i] = before + "castoff.sh/target-hash: HASH"
		}
	}
	return strings.Join(lines, "\n")
}

func TestPlanIsPrintedAndWritesNothing(t *testing.T) {
	c := world(t)
	got, err := run(t, c, observer(c, nodeGroups{}), "", "plan", "--cluster", "prod")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(planOfProd, withoutHashes(got)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestPlanForMachines(t *testing.T) {
	for format, unmarshal := range map[string]func([]byte, any) error{
		"json": json.Unmarshal,
		"yaml": func(b []byte, v any) error { return yaml.UnmarshalStrict(b, v) },
	} {
		c := world(t)
		out, err := run(t, c, observer(c, nodeGroups{}), "", "plan", "--cluster", "prod", "-o", format)
		if err != nil {
			t.Fatal(err)
		}
		var got document
		if err := unmarshal([]byte(out), &got); err != nil {
			t.Fatalf("%s: %v", format, err)
		}
		if got.Cluster != "prod" || got.Home != "system" || len(got.Pools) != 1 || got.Pools[0].Nodes != 1 || got.Pools[0].Target.NodePool.Name != "general" {
			t.Errorf("%s: %+v", format, got)
		}
		if len(got.Findings) != 2 || got.Findings[1].Check != preflight.CheckBarePod && got.Findings[0].Check != preflight.CheckBarePod {
			t.Errorf("%s: findings %+v", format, got.Findings)
		}
	}
}

func TestPlanOfThePolicy(t *testing.T) {
	c := world(t)
	out, err := run(t, c, observer(c, nodeGroups{}), "", "plan", "--cluster", "prod", "-o", "iam")
	if err != nil {
		t.Fatal(err)
	}
	var policy struct {
		Version   string
		Statement []struct{ Effect string }
	}
	if err := json.Unmarshal([]byte(out), &policy); err != nil {
		t.Fatalf("no policy but %v: %s", err, out)
	}
	if policy.Version != "2012-10-17" || len(policy.Statement) == 0 {
		t.Errorf("policy %+v", policy)
	}
}

func TestPlanErrors(t *testing.T) {
	valid := "apiVersion: castoff.sh/v1alpha1\nkind: Migration\nmetadata: {name: prod}\nspec: {clusterName: prod}\n"
	file := func(content string) string {
		p := filepath.Join(t.TempDir(), "m.yaml")
		if err := os.WriteFile(p, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	missing := filepath.Join(t.TempDir(), "none.yaml")
	noName, other, odd := file(strings.Replace(valid, "clusterName: prod", "paused: true", 1)), file("apiVersion: v1\nkind: Pod\nspec: {}\n"), file(strings.Replace(valid, "clusterName", "clustername2", 1))
	cases := map[string]struct {
		reason    string
		arguments []string
		want      string // part of the message
	}{
		"Nothing": {
			reason: "which cluster?",
			want:   "at least one of the flags in the group [cluster filename] is required",
		},
		"Both": {
			reason:    "two answers to one question",
			arguments: []string{"--cluster", "prod", "-f", noName},
			want:      "if any flags in the group [cluster filename] are set none of the others can be",
		},
		"Arguments": {
			reason:    "a name without its flag",
			arguments: []string{"prod"},
			want:      `unknown command "prod"`,
		},
		"Output": {
			reason:    "said before half a minute of looking",
			arguments: []string{"--cluster", "prod", "-o", "xml"},
			want:      `unknown output "xml": text, yaml, json, iam`,
		},
		"NoFile": {
			reason:    "the file's name is in the error",
			arguments: []string{"-f", missing},
			want:      "reading the Migration: open " + missing,
		},
		"NoCluster": {
			reason:    "the file confirms nothing",
			arguments: []string{"-f", noName},
			want:      noName + " names no cluster: set spec.clusterName",
		},
		"OtherKind": {
			reason:    "a file of another kind",
			arguments: []string{"-f", other},
			want:      other + ` is no Migration but a "Pod" of "v1": apiVersion has to be castoff.sh/v1alpha1, kind Migration`,
		},
		"OtherField": {
			reason:    "a typing error is no default",
			arguments: []string{"-f", odd},
			want:      `unknown field "clustername2"`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := world(t)
			_, err := run(t, c, observer(c, nodeGroups{}), "", append([]string{"plan"}, tc.arguments...)...)
			if !strings.Contains(message(err), tc.want) {
				t.Errorf("%s: want %q in %q", tc.reason, tc.want, message(err))
			}
		})
	}
	for name, tc := range map[string]struct{ stdin, file string }{"File": {"", file(valid)}, "StandardInput": {valid, "-"}} {
		t.Run(name, func(t *testing.T) {
			c := world(t)
			out, err := run(t, c, observer(c, nodeGroups{}), tc.stdin, "plan", "-f", tc.file)
			if err != nil || !strings.HasPrefix(out, "Cluster prod. Home") {
				t.Errorf("a valid file: %v\n%s", err, out)
			}
		})
	}
}

func TestPlanOfAClusterThatIsNotThere(t *testing.T) {
	c := world(t)
	want := `Cluster prdo. Home (kept for Karpenter, CoreDNS and castoff): none.
No pools: nothing would be migrated.

Preflight
Blocks (1)
  ClusterNotFound  cluster/prdo
      EKS does not know a cluster of this name in castoff's account and region. Correct spec.clusterName, or AWS_REGION of the castoff Deployment.
`
	got, err := run(t, c, observer(c, noCluster{}), "", "plan", "--cluster", "prdo")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	out, err := run(t, c, observer(c, noCluster{}), "", "plan", "--cluster", "prdo", "-o", "iam")
	if !strings.HasPrefix(message(err), "no IAM policy without the cluster: Blocks (1)") || strings.Contains(out, "Statement") {
		t.Errorf("a policy for a cluster without an ARN is worse than none: %v\n%s", err, out)
	}
}

func TestPlanBeforeCastoffIsInstalled(t *testing.T) {
	c := fakeClient(t, notInstalled())
	_, err := run(t, c, observer(c, nodeGroups{}), "", "plan", "--cluster", "prod")
	if !strings.HasPrefix(message(err), "this cluster does not know Migrations: install castoff first") {
		t.Errorf("got %q", message(err))
	}
	c = fakeClient(t, interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return errDown }})
	_, err = run(t, c, observer(c, nodeGroups{}), "", "plan", "--cluster", "prod")
	if !strings.HasPrefix(message(err), "looking at the cluster: ") || !strings.HasSuffix(message(err), "connection refused") {
		t.Errorf("got %q", message(err))
	}
}

func TestText(t *testing.T) {
	pools := []inventory.Pool{{Name: "a", NodeGroups: []string{"a-1", "a-2"}}, {Name: "b", NodeGroups: []string{"b-1"}}}
	w := plan.World{Home: "system", Pools: pools, Nodes: []inventory.Node{{Group: "a-1"}, {Group: "a-2"}, {Group: "system"}, {}}}
	want := `Cluster prod. Home (kept for Karpenter, CoreDNS and castoff): system.
One wave: all 2 pools change hands together, then are drained in this order.

1. Pool a: node groups a-1, a-2, nodes 2
   Not translated: see the preflight below.

2. Pool b: node groups b-1, nodes 0
   Not translated: see the preflight below.

Preflight
No check blocks or warns.
`
	var got strings.Builder
	if err := print(&got, "text", "prod", w); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestManifest(t *testing.T) {
	got, err := manifest(map[string]any{"kind": "X", "metadata": map[string]any{"name": "x", "creationTimestamp": nil}, "status": map[string]any{"a": 1},
		"spec": map[string]any{"zero": 0, "no": false, "empty": "", "none": nil, "nested": map[string]any{"none": nil}, "list": []any{}}})
	if err != nil {
		t.Fatal(err)
	}
	want := "kind: X\nmetadata:\n  name: x\nspec:\n  empty: \"\"\n  list: []\n  \"no\": false\n  zero: 0\n"
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("what is zero was meant, what is null was not: -want +got\n%s", diff)
	}
	if _, err := manifest(func() {}); err == nil {
		t.Error("what is no object is an error")
	}
}
