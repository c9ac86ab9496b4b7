package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// wavePool is a pool whose nodes carry the label tier with its name, and a taint if dedicated.
func wavePool(name string, dedicated bool) (inventory.Pool, inventory.Target, inventory.Node) {
	var taints []corev1.Taint
	if dedicated {
		taints = []corev1.Taint{{Key: "dedicated", Value: name, Effect: corev1.TaintEffectNoSchedule}}
	}
	target := inventory.Target{Pool: name, NodePool: karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name}}}
	target.NodePool.Spec.Template.Labels = map[string]string{"tier": name}
	target.NodePool.Spec.Template.Spec.Taints = taints
	node := inventory.Node{Name: name + "-1", Group: name, Labels: map[string]string{"tier": name, corev1.LabelHostname: name + "-1"}, Taints: taints}
	return inventory.Pool{Name: name, NodeGroups: []string{name}}, target, node
}

// waveWorld is some pools; those named with a ! are dedicated.
func waveWorld(names ...string) (pools []inventory.Pool, targets map[string]inventory.Target, nodes []inventory.Node) {
	targets = map[string]inventory.Target{}
	for _, name := range names {
		dedicated := name[0] == '!'
		if dedicated {
			name = name[1:]
		}
		p, t, n := wavePool(name, dedicated)
		pools, targets[name], nodes = append(pools, p), t, append(nodes, n)
	}
	return pools, targets, nodes
}

func deployment(name string, shape inventory.Shape) inventory.Controller {
	return inventory.Controller{Kind: "Deployment", Namespace: "shop", Name: name, Replicas: 1, Shape: &shape}
}

func onTiers(tiers ...string) inventory.Shape {
	return inventory.Shape{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "tier", Operator: corev1.NodeSelectorOpIn, Values: tiers}}}},
	}}}}
}

func selecting(tier string) inventory.Shape {
	return inventory.Shape{NodeSelector: map[string]string{"tier": tier}}
}

func TestWaves(t *testing.T) {
	anywhere := inventory.Shape{}
	tolerant := inventory.Shape{Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}}
	cases := map[string]struct {
		reason    string
		names     []string
		workloads inventory.Workloads
		change    func(map[string]inventory.Target, []inventory.Node) []inventory.Node
		want      []Wave
	}{
		"NoWorkloads": {
			reason: "nothing joins pools that nothing runs on",
			names:  []string{"a", "b"},
			want:   []Wave{{Pools: []string{"a"}}, {Pools: []string{"b"}}},
		},
		"Selected": {
			reason:    "workloads that name their pool join none",
			names:     []string{"a", "b"},
			workloads: inventory.Workloads{Controllers: []inventory.Controller{deployment("x", selecting("a")), deployment("y", selecting("b"))}},
			want:      []Wave{{Pools: []string{"a"}}, {Pools: []string{"b"}}},
		},
		"Anywhere": {
			reason:    "what runs anywhere joins all pools without a taint, and the dedicated one stays apart",
			names:     []string{"a", "!memory", "b", "c"},
			workloads: inventory.Workloads{Controllers: []inventory.Controller{deployment("web", anywhere)}},
			want: []Wave{
				{Pools: []string{"a", "b", "c"}, Joins: []Join{{Pools: [2]string{"a", "b"}, Workload: "deployment/shop/web"}, {Pools: [2]string{"b", "c"}, Workload: "deployment/shop/web"}}},
				{Pools: []string{"memory"}},
			},
		},
		"Chain": {
			reason:    "two workloads that share a pool join all three, and each join has its own",
			names:     []string{"a", "b", "c"},
			workloads: inventory.Workloads{Controllers: []inventory.Controller{deployment("x", onTiers("a", "b")), deployment("y", onTiers("b", "c"))}},
			want:      []Wave{{Pools: []string{"a", "b", "c"}, Joins: []Join{{Pools: [2]string{"a", "b"}, Workload: "deployment/shop/x"}, {Pools: [2]string{"b", "c"}, Workload: "deployment/shop/y"}}}},
		},
		"More": {
			reason:    "further workloads that join the same two are counted, their pods not once more",
			names:     []string{"a", "b"},
			workloads: inventory.Workloads{Controllers: []inventory.Controller{deployment("x", anywhere), deployment("y", anywhere)}, Pods: []inventory.Pod{{Namespace: "shop", Name: "x-1", Owner: &metav1.OwnerReference{Kind: "ReplicaSet"}, Shape: &anywhere}, {Namespace: "shop", Name: "bare", Shape: &anywhere}}},
			want:      []Wave{{Pools: []string{"a", "b"}, Joins: []Join{{Pools: [2]string{"a", "b"}, Workload: "deployment/shop/x", More: 2}}}},
		},
		"DaemonSet": {
			reason:    "no scaler launches for a DaemonSet, nor for a static pod",
			names:     []string{"a", "b"},
			workloads: inventory.Workloads{Controllers: []inventory.Controller{{Kind: "DaemonSet", Name: "agent", Shape: &tolerant}}, Pods: []inventory.Pod{{Name: "agent-1", Owner: &metav1.OwnerReference{Kind: "DaemonSet"}, Shape: &tolerant}, {Name: "proxy", Mirror: true, Shape: &tolerant}}},
			want:      []Wave{{Pools: []string{"a"}}, {Pools: []string{"b"}}},
		},
		"PodAlone": {
			reason:    "a pod that differs from its template, as a webhook makes it, joins too",
			names:     []string{"a", "b"},
			workloads: inventory.Workloads{Controllers: []inventory.Controller{deployment("x", selecting("a"))}, Pods: []inventory.Pod{{Namespace: "shop", Name: "x-1", Owner: &metav1.OwnerReference{Kind: "ReplicaSet"}, Shape: &anywhere}}},
			want:      []Wave{{Pools: []string{"a", "b"}, Joins: []Join{{Pools: [2]string{"a", "b"}, Workload: "pod/shop/x-1"}}}},
		},
		"OldAndNewDiffer": {
			reason:    "today's nodes of b take it and tomorrow's do not: it still joins, for Cluster Autoscaler could serve it there",
			names:     []string{"a", "b"},
			workloads: inventory.Workloads{Controllers: []inventory.Controller{deployment("x", onTiers("a", "b"))}},
			change: func(targets map[string]inventory.Target, nodes []inventory.Node) []inventory.Node {
				t := targets["b"]
				t.NodePool.Spec.Template.Labels = nil
				targets["b"] = t
				return nodes
			},
			want: []Wave{{Pools: []string{"a", "b"}, Joins: []Join{{Pools: [2]string{"a", "b"}, Workload: "deployment/shop/x"}}}},
		},
		"NoNodes": {
			reason:    "a pool without nodes is what its NodePool will be",
			names:     []string{"a", "b"},
			workloads: inventory.Workloads{Controllers: []inventory.Controller{deployment("x", onTiers("a", "b"))}},
			change:    func(_ map[string]inventory.Target, _ []inventory.Node) []inventory.Node { return nil },
			want:      []Wave{{Pools: []string{"a", "b"}, Joins: []Join{{Pools: [2]string{"a", "b"}, Workload: "deployment/shop/x"}}}},
		},
		"Fenced": {
			reason:    "castoff's own fence on a node that changed hands keeps nobody out of the graph",
			names:     []string{"a", "b"},
			workloads: inventory.Workloads{Controllers: []inventory.Controller{deployment("x", onTiers("a", "b"))}},
			change: func(targets map[string]inventory.Target, nodes []inventory.Node) []inventory.Node {
				delete(targets, "a")
				for i := range nodes {
					nodes[i].Taints = append(nodes[i].Taints, corev1.Taint{Key: "castoff.sh/legacy", Value: "true", Effect: corev1.TaintEffectNoSchedule}, corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
				}
				return nodes
			},
			want: []Wave{{Pools: []string{"a", "b"}, Joins: []Join{{Pools: [2]string{"a", "b"}, Workload: "deployment/shop/x"}}}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pools, targets, nodes := waveWorld(tc.names...)
			if tc.change != nil {
				nodes = tc.change(targets, nodes)
			}
			if diff := cmp.Diff(tc.want, Waves(pools, targets, nodes, tc.workloads)); diff != "" {
				t.Errorf("%s (-want +got)\n%s", tc.reason, diff)
			}
		})
	}
}

// TestWavesSeparate holds, for random pools and workloads: every pool is in one wave, and no workload can be served by pools of two.
func TestWavesSeparate(t *testing.T) {
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 1))
		pools, targets, nodes, workloads := randomWaveWorld(r)
		waves := Waves(pools, targets, nodes, workloads)
		of := map[string]int{}
		for i, w := range waves {
			for _, p := range w.Pools {
				if _, twice := of[p]; twice {
					t.Fatalf("seed %d: pool %s is in two waves", seed, p)
				}
				of[p] = i
			}
			if len(w.Joins) != len(w.Pools)-1 {
				t.Fatalf("seed %d: %d pools of a wave and %d joins", seed, len(w.Pools), len(w.Joins))
			}
		}
		for _, c := range workloads.Controllers {
			var serving []string
			for i, p := range pools {
				target := targets[p.Name]
				if target.Refuses(c.Shape) == nil || nodes[i].Place().Refuses(c.Shape) == nil {
					serving = append(serving, p.Name)
				}
			}
			for _, p := range serving {
				if of[p] != of[serving[0]] {
					t.Fatalf("seed %d: %s can be served in waves %d and %d", seed, c.Object(), of[serving[0]], of[p])
				}
			}
		}
	}
}

// TestASelectorSplitsAWave: giving the one workload that joins two pools a selector of one of them splits the wave.
func TestASelectorSplitsAWave(t *testing.T) {
	split := 0
	for seed := range uint64(400) {
		pools, targets, nodes, workloads := randomWaveWorld(rand.New(rand.NewPCG(seed, 2)))
		before := Waves(pools, targets, nodes, workloads)
		w := slices.IndexFunc(before, func(w Wave) bool { return len(w.Pools) == 2 && w.Joins[0].More == 0 })
		if w < 0 {
			continue
		}
		i := slices.IndexFunc(workloads.Controllers, func(c inventory.Controller) bool { return c.Object() == before[w].Joins[0].Workload })
		narrowed := *workloads.Controllers[i].Shape
		narrowed.NodeSelector = map[string]string{"tier": before[w].Pools[0]}
		workloads.Controllers[i].Shape = &narrowed
		if after := Waves(pools, targets, nodes, workloads); len(after) != len(before)+1 {
			t.Fatalf("seed %d: %d waves before, %d after %s was narrowed", seed, len(before), len(after), workloads.Controllers[i].Object())
		}
		split++
	}
	if split < 20 {
		t.Fatalf("only %d worlds had a wave to split", split)
	}
}

func randomWaveWorld(r *rand.Rand) ([]inventory.Pool, map[string]inventory.Target, []inventory.Node, inventory.Workloads) {
	var names []string
	for i := range 2 + r.IntN(5) {
		name := fmt.Sprintf("p%d", i)
		if r.IntN(3) == 0 {
			name = "!" + name
		}
		names = append(names, name)
	}
	pools, targets, nodes := waveWorld(names...)
	var w inventory.Workloads
	for i := range r.IntN(6) {
		var tiers []string
		for range 1 + r.IntN(2) {
			tiers = append(tiers, pools[r.IntN(len(pools))].Name)
		}
		shape := onTiers(tiers...)
		if r.IntN(2) == 0 {
			shape.Tolerations = []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists}}
		}
		w.Controllers = append(w.Controllers, deployment(fmt.Sprintf("w%d", i), shape))
	}
	return pools, targets, nodes, w
}

// BenchmarkWaves: 1,000 nodes of 40 pools, 3,000 workloads and their 30,000 pods. The budget is what a look has to spare beside the
// preflight's other checks.
func BenchmarkWaves(b *testing.B) {
	var names []string
	for i := range 40 {
		names = append(names, fmt.Sprintf("p%d", i))
	}
	pools, targets, first := waveWorld(names...)
	var nodes []inventory.Node
	for i := range 1000 {
		n := first[i%len(first)]
		n.Name = fmt.Sprintf("n%d", i)
		nodes = append(nodes, n)
	}
	var w inventory.Workloads
	for i := range 3000 {
		c := deployment(fmt.Sprintf("w%d", i), selecting(names[i%40]))
		w.Controllers = append(w.Controllers, c)
		for j := range 10 {
			w.Pods = append(w.Pods, inventory.Pod{Namespace: "shop", Name: fmt.Sprintf("w%d-%d", i, j), Owner: &metav1.OwnerReference{Kind: "ReplicaSet"}, Shape: c.Shape})
		}
	}
	for b.Loop() {
		if got := len(Waves(pools, targets, nodes, w)); got != 40 {
			b.Fatalf("%d waves", got)
		}
	}
}
