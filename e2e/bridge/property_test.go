package bridge

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"

	"github.com/castoff-sh/castoff/e2e/awssim/simapi"
)

// kubelet is what a random user data says of a node, in each of the forms that EKS images take.
type kubelet struct {
	labels  map[string]string
	taints  []corev1.Taint
	maxPods int64
}

func randomKubelet(random *rand.Rand) kubelet {
	k := kubelet{labels: map[string]string{}, maxPods: 1 + random.Int64N(250)}
	for i := range random.IntN(4) {
		k.labels[fmt.Sprintf("example.com/key-%d", i)] = strings.Repeat("v", random.IntN(3))
	}
	effects := []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute}
	for i := range random.IntN(3) {
		k.taints = append(k.taints, corev1.Taint{Key: fmt.Sprintf("example.com/taint-%d", i), Value: strings.Repeat("t", random.IntN(3)), Effect: effects[random.IntN(3)]})
	}
	return k
}

func (k kubelet) flags() []string {
	var labels, taints []string
	for key, value := range k.labels {
		labels = append(labels, key+"="+value)
	}
	slices.Sort(labels)
	for _, taint := range k.taints {
		taints = append(taints, fmt.Sprintf("%s=%s:%s", taint.Key, taint.Value, taint.Effect))
	}
	flags := []string{fmt.Sprintf("--max-pods=%d", k.maxPods)}
	if len(labels) > 0 {
		flags = append(flags, "--node-labels="+strings.Join(labels, ","))
	}
	if len(taints) > 0 {
		flags = append(flags, "--register-with-taints="+strings.Join(taints, ","))
	}
	return flags
}

func (k kubelet) script() string {
	return fmt.Sprintf("#!/bin/bash\nset -ex\n/etc/eks/bootstrap.sh harbor \\\n  --kubelet-extra-args '%s'\n", strings.Join(k.flags(), " "))
}

func (k kubelet) nodeConfig() string {
	var out strings.Builder
	out.WriteString("apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  cluster: {name: harbor, apiServerEndpoint: https://e, certificateAuthority: YQ==, cidr: 10.96.0.0/12}\n  kubelet:\n    flags:\n")
	for _, flag := range k.flags() {
		fmt.Fprintf(&out, "    - %q\n", flag)
	}
	return out.String()
}

func archived(mediaType, content string) string {
	return "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"//\"\n\n--//\nContent-Type: " + mediaType + "\n\n" + content + "\n--//--\n"
}

// TestEveryFormOfUserDataSaysTheSame: what a node is must not depend on how its user data is written.
func TestEveryFormOfUserDataSaysTheSame(t *testing.T) {
	for seed := range uint64(300) {
		k := randomKubelet(rand.New(rand.NewPCG(seed, 1)))
		for form, text := range map[string]string{
			"script": k.script(), "NodeConfig": k.nodeConfig(),
			"archived script": archived("text/x-shellscript", k.script()), "archived NodeConfig": archived("application/node.eks.aws", k.nodeConfig()),
		} {
			r, err := parseUserData(text)
			if err != nil {
				t.Fatalf("seed %d, %s: %v\n%s", seed, form, err, text)
			}
			got := kubelet{labels: r.labels, taints: r.taints, maxPods: r.maxPods}
			if diff := cmp.Diff(k, got, cmp.AllowUnexported(kubelet{})); diff != "" || r.cluster != "harbor" {
				t.Fatalf("seed %d, %s: cluster %q (-want +got):\n%s\n%s", seed, form, r.cluster, diff, text)
			}
		}
	}
}

// TestEveryNodeIsSound: whatever the instance, its Node offers no more than it has, and the API server would take it.
func TestEveryNodeIsSound(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	for range 2000 {
		i := instance(func(i *simapi.Instance) {
			i.MilliCPU, i.MemoryMiB, i.MaxPods = 1000*(1+random.Int64N(192)), 512<<random.IntN(12), 4+random.Int64N(734)
		})
		node := newNode(i, registration{labels: map[string]string{}, maxPods: random.Int64N(2) * 110}, "v1.36.3")
		for name, allocatable := range node.Status.Allocatable {
			capacity := node.Status.Capacity[name]
			if allocatable.Cmp(capacity) > 0 || allocatable.Sign() < 0 {
				t.Fatalf("%s of %d mCPU, %d MiB, %d pods: allocatable %s of %s", name, i.MilliCPU, i.MemoryMiB, i.MaxPods, &allocatable, &capacity)
			}
		}
		for key, value := range node.Labels {
			if problems := slices.Concat(utilvalidation.IsQualifiedName(key), utilvalidation.IsValidLabelValue(value)); len(problems) > 0 {
				t.Fatalf("label %s=%s: %v", key, value, problems)
			}
		}
		if back, ok := instanceOf(node); !ok || back.ID != i.ID || back.Zone != i.Zone {
			t.Fatalf("its Node no longer tells which instance it was: %+v", back)
		}
	}
}
