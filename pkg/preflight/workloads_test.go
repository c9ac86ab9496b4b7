package preflight

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// said are the findings of one check, out of a run of all.
func said(check string, in Input) []inventory.Finding {
	var out []inventory.Finding
	for _, f := range Run(in, nil) {
		if f.Check == check {
			out = append(out, f)
		}
	}
	return out
}

// checkCase is a cluster and what one check says of it.
type checkCase struct {
	reason string
	in     Input
	want   []inventory.Finding
}

func testCheck(t *testing.T, check string, cases map[string]checkCase) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, said(check, tc.in), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

// shaped gives the pod a shape of its own.
func shaped(change ...func(*inventory.Shape)) func(*inventory.Pod) {
	return func(p *inventory.Pod) {
		p.Shape = shape(change...)
	}
}

func shape(change ...func(*inventory.Shape)) *inventory.Shape {
	s := &inventory.Shape{}
	for _, c := range change {
		c(s)
	}
	return s
}

func wants(key, value string) func(*inventory.Shape) {
	return func(s *inventory.Shape) {
		if s.NodeSelector == nil {
			s.NodeSelector = map[string]string{}
		}
		s.NodeSelector[key] = value
	}
}

func requiring(key string, operator corev1.NodeSelectorOperator, values ...string) func(*inventory.Shape) {
	return func(s *inventory.Shape) {
		s.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: operator, Values: values}}}},
		}}}
	}
}

func tolerating(tolerations ...corev1.Toleration) func(*inventory.Shape) {
	return func(s *inventory.Shape) { s.Tolerations = tolerations }
}

var everything = corev1.Toleration{Operator: corev1.TolerationOpExists}

// madeBy makes the pod one of a controller, as a Deployment's ReplicaSet or a CronJob's Job where that is between them.
func madeBy(kind, name string) func(*inventory.Pod) {
	return func(p *inventory.Pod) {
		switch kind {
		case kindDeployment:
			p.Labels = map[string]string{"app": "web", "pod-template-hash": "7c9f8d6b54"}
			p.Owner = &metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: name + "-7c9f8d6b54"}
		case "CronJob":
			p.Owner = &metav1.OwnerReference{APIVersion: "batch/v1", Kind: "Job", Name: name + "-29384756"}
		case "Job":
			p.Owner = &metav1.OwnerReference{APIVersion: "batch/v1", Kind: kind, Name: name}
		default:
			p.Owner = &metav1.OwnerReference{APIVersion: "apps/v1", Kind: kind, Name: name}
		}
	}
}

// controllers of the namespace shop; a shape that is not given is empty.
func controllers(c ...inventory.Controller) func(*Input) {
	return func(in *Input) {
		for _, one := range c {
			one.Namespace = "shop"
			if one.Shape == nil {
				one.Shape = shape()
			}
			in.Workloads.Controllers = append(in.Workloads.Controllers, one)
		}
	}
}

func nodes(n ...inventory.Node) func(*Input) {
	return func(in *Input) { in.Nodes = append(in.Nodes, n...) }
}

func pools(name string, groups ...string) func(*Input) {
	return func(in *Input) { in.Pools = append(in.Pools, inventory.Pool{Name: name, NodeGroups: groups}) }
}

// targets are what pools become.
func targets(t ...inventory.Target) func(*Input) {
	return func(in *Input) {
		in.Targets = map[string]inventory.Target{}
		for _, one := range t {
			in.Targets[one.Pool] = one
		}
	}
}

// target launches m5.large and m5.xlarge on amd64.
func target(pool string, change ...func(*karpv1.NodePool)) inventory.Target {
	t := inventory.Target{Pool: pool, NodePool: karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: pool}}}
	t.NodePool.Spec.Template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{
		{Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"m5.large", "m5.xlarge"}},
		{Key: corev1.LabelArchStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"amd64"}},
		{Key: karpv1.CapacityTypeLabelKey, Operator: corev1.NodeSelectorOpIn, Values: []string{"on-demand"}},
	}
	for _, c := range change {
		c(&t.NodePool)
	}
	return t
}

func labelled(key, value string) func(*karpv1.NodePool) {
	return func(p *karpv1.NodePool) {
		if p.Spec.Template.Labels == nil {
			p.Spec.Template.Labels = map[string]string{}
		}
		p.Spec.Template.Labels[key] = value
	}
}

func tainted(key, value string) func(*karpv1.NodePool) {
	return func(p *karpv1.NodePool) {
		p.Spec.Template.Spec.Taints = append(p.Spec.Template.Spec.Taints, corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffectNoSchedule})
	}
}

func inZones(zones ...string) func(*karpv1.NodePool) {
	return func(p *karpv1.NodePool) {
		p.Spec.Template.Spec.Requirements = append(p.Spec.Template.Spec.Requirements,
			karpv1.NodeSelectorRequirementWithMinValues{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: zones})
	}
}

func claims(c ...inventory.Claim) func(*Input) {
	return func(in *Input) { in.Workloads.Claims = append(in.Workloads.Claims, c...) }
}

// claim of the namespace shop, named as its volume is but for the prefix.
func claim(name string, change ...func(*inventory.Claim)) inventory.Claim {
	c := inventory.Claim{NamespacedName: types.NamespacedName{Namespace: "shop", Name: name}, Volume: "pv-" + name}
	for _, one := range change {
		one(&c)
	}
	return c
}

func using(names ...string) func(*inventory.Shape) {
	return func(s *inventory.Shape) { s.Claims = names }
}

// objects are those of all workloads that a run would look at.
func objects(in Input) []string {
	var out []string
	for _, w := range workloadsOf(in) {
		out = append(out, w.object())
	}
	return out
}

func TestWorkloadsOf(t *testing.T) {
	cases := map[string]struct {
		reason string
		in     Input
		want   []string
	}{
		"Deployment": {
			reason: "the pods of a ReplicaSet are its Deployment's, known by the hash in the name",
			in:     sound(pods(pod("web-1", madeBy(kindDeployment, "web")), pod("web-2", madeBy(kindDeployment, "web"))), controllers(inventory.Controller{Kind: kindDeployment, Name: "web"})),
			want:   []string{"deployment/shop/web"},
		},
		"ReplicaSetAlone": {
			reason: "a ReplicaSet without the hash stands for itself: Argo Rollouts, or somebody's own",
			in:     sound(),
			want:   []string{"replicaset/shop/web"},
		},
		"OtherHash": {
			reason: "a hash that is not in the name is somebody's own label",
			in:     sound(pods(pod("web-1", func(p *inventory.Pod) { p.Labels = map[string]string{"pod-template-hash": "x"} }))),
			want:   []string{"replicaset/shop/web"},
		},
		"CronJob": {
			reason: "the Jobs of a CronJob are the CronJob's",
			in:     sound(pods(pod("night-1", madeBy("CronJob", "night"))), controllers(inventory.Controller{Kind: "CronJob", Name: "night"})),
			want:   []string{"cronjob/shop/night"},
		},
		"JobWithADash": {
			reason: "a Job whose name only looks like that stands for itself",
			in:     sound(pods(pod("load-1", madeBy("Job", "load-2026"))), controllers(inventory.Controller{Kind: "Job", Name: "load-2026"})),
			want:   []string{"job/shop/load-2026"},
		},
		"CustomResource": {
			reason: "a controller that nobody reads is a workload by the name that its pods give",
			in:     sound(pods(pod("pg-1", madeBy("Cluster", "pg")))),
			want:   []string{"cluster/shop/pg"},
		},
		"WithoutPods": {
			reason: "what makes pods at night is there by day",
			in:     sound(pods(), controllers(inventory.Controller{Kind: "CronJob", Name: "night", Suspended: true})),
			want:   []string{"cronjob/shop/night"},
		},
		"OnlyWhatCounts": {
			reason: "static pods, what is over, and castoff's own are nobody's workload",
			in: sound(pods(pod("proxy", mirror), pod("done", bare, func(p *inventory.Pod) { p.Phase = corev1.PodSucceeded }), pod("failed", bare, func(p *inventory.Pod) { p.Phase = corev1.PodFailed }),
				pod("warm", bare, func(p *inventory.Pod) { p.Labels = map[string]string{v1alpha1.LabelPlaceholder: "general"} }),
				pod("canary", bare, func(p *inventory.Pod) { p.Labels = map[string]string{v1alpha1.LabelCanary: "general"} }))),
		},
		"Order": {
			reason: "the order is that of the names, whatever the cluster's",
			in:     sound(pods(pod("z", bare), pod("a", bare), pod("m", madeBy("StatefulSet", "m")))),
			want:   []string{"pod/shop/a", "pod/shop/z", "statefulset/shop/m"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, objects(tc.in), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

func TestWhereAWorkloadIs(t *testing.T) {
	in := sound(pods(pod("a", on("old")), pod("b", on("batch")), pod("c", on("home")), pod("d", on("alien")), pod("e", on("")), pod("f", on("old"))),
		nodes(inventory.Node{Name: "batch", Group: "batch"}), pools("batch", "batch"))
	w := workloadsOf(in)[0]
	if diff := cmp.Diff([]string{"batch", "general"}, w.pools); diff != "" || len(w.pods) != 3 || w.staying != 2 {
		t.Errorf("three pods have to move, two are on nodes that stay, one is on none: got %d and %d, pools -want +got\n%s", len(w.pods), w.staying, diff)
	}
}

// A pod says what admission and a LimitRange made of its template; a DaemonSet's is bound to its node by another affinity.
func TestShapeOfAWorkload(t *testing.T) {
	template, made := shape(wants("from", "template")), shape(wants("from", "pod"))
	cases := map[string]struct {
		reason string
		kind   string
		pods   []inventory.Pod
		want   *inventory.Shape
	}{
		"Pod":       {"what runs is what counts", "StatefulSet", []inventory.Pod{pod("db-0", madeBy("StatefulSet", "db"), func(p *inventory.Pod) { p.Shape = made })}, made},
		"Template":  {"without pods the template says it", "StatefulSet", nil, template},
		"DaemonSet": {"a DaemonSet's template counts always", kindDaemonSet, []inventory.Pod{pod("db-0", madeBy(kindDaemonSet, "db"), func(p *inventory.Pod) { p.Shape = made })}, template},
		"NotRead":   {"a pod whose shape nobody read says nothing against its template", "StatefulSet", []inventory.Pod{pod("db-0", madeBy("StatefulSet", "db"))}, template},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			in := sound(pods(tc.pods...), controllers(inventory.Controller{Kind: tc.kind, Name: "db", Shape: template}))
			if got := workloadsOf(in)[0].shape; got != tc.want {
				t.Errorf("%s: got %v, want %v", tc.reason, got, tc.want)
			}
		})
	}
}

func TestPlaces(t *testing.T) {
	noSchedule := func(key string) corev1.Taint {
		return corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule}
	}
	in := sound(pools("batch", "batch", "empty"), targets(target("general", labelled("team", "a")), target("batch")),
		nodes(inventory.Node{Name: "b", Group: "batch", Labels: map[string]string{"disk": "ssd"}, Taints: []corev1.Taint{noSchedule(v1alpha1.TaintLegacy), noSchedule("node.kubernetes.io/unschedulable")}},
			inventory.Node{Name: "h", Group: "system", Labels: map[string]string{"disk": "hdd"}, Taints: []corev1.Taint{noSchedule("dedicated")}}))
	in.Groups = append(in.Groups, inventory.NodeGroup{Name: "empty", Managed: &inventory.ManagedNodeGroup{CapacityType: "SPOT", Labels: map[string]string{"night": "yes"}, Taints: []corev1.Taint{noSchedule("batch")}}})
	dedicated := corev1.Toleration{Key: "dedicated", Operator: corev1.TolerationOpExists}
	cases := map[string]struct {
		reason string
		shape  *inventory.Shape
		want   place
	}{
		"All":           {"who asks for nothing can run anywhere", shape(), place{targets: []string{"batch", "general"}}},
		"One":           {"a label of one NodePool", shape(wants("team", "a")), place{targets: []string{"general"}}},
		"Legacy":        {"only an old node has it; castoff's fence on it and its cordon do not count", shape(wants("disk", "ssd")), place{legacy: "batch"}},
		"Stays":         {"a node that stays has it", shape(wants("disk", "hdd"), tolerating(dedicated)), place{stay: true}},
		"StaysTainted":  {"but its taint is not tolerated", shape(wants("disk", "hdd")), place{}},
		"EmptyGroup":    {"a group at size zero has no node to look at: EKS says what one would be like", shape(wants("night", "yes"), tolerating(corev1.Toleration{Key: "batch", Operator: corev1.TolerationOpExists})), place{legacy: "batch"}},
		"EmptyTainted":  {"its taints count as well", shape(wants("night", "yes")), place{}},
		"EmptyCapacity": {"so does what EKS adds", shape(wants(labelCapacityType, "SPOT"), tolerating(everything)), place{legacy: "batch"}},
		"Nowhere":       {"nobody has it", shape(wants("gpu", "yes")), place{}},
		"Malformed":     {"an affinity that the API server would not take fits nowhere", shape(requiring("x", "Like", "y")), place{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			memory := newPlaces()
			copied := *tc.shape
			first, again, alike := memory.of(in, tc.shape), memory.of(Input{}, tc.shape), memory.of(Input{}, &copied)
			if diff := cmp.Diff(tc.want, first, cmp.AllowUnexported(place{})); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(first, again, cmp.AllowUnexported(place{})); diff != "" {
				t.Errorf("what was judged once is not judged again: -want +got\n%s", diff)
			}
			if diff := cmp.Diff(first, alike, cmp.AllowUnexported(place{})); diff != "" {
				t.Errorf("nor is what asks for the same: -want +got\n%s", diff)
			}
		})
	}
}

func TestByPool(t *testing.T) {
	ws := []*workload{
		{kind: "A", name: "one", pools: []string{"b", "a"}}, {kind: "A", name: "two", pools: []string{"a"}}, {kind: "A", name: "none"}, {kind: "B", name: "left out"},
	}
	want := []named{{"", []string{"none"}}, {"a", []string{"one", "two"}}, {"b", []string{"one"}}}
	got := byPool(ws, func(w *workload) string {
		if w.kind == "B" {
			return ""
		}
		return w.name
	})
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(named{})); diff != "" {
		t.Errorf("one of each pool, and of those without: -want +got\n%s", diff)
	}
	in := Input{Cluster: inventory.Cluster{Name: "prod"}}
	if a, b := want[0].object(in), want[1].object(in); a != "cluster/prod" || b != "pool/a" {
		t.Errorf("a finding about no pool is about the cluster: got %s and %s", a, b)
	}
}

// crowded is the large cluster with what it takes to judge it: 3,000 controllers of 100 ways to ask for a node, claims of every
// tenth pod, 60 NodePools, of which every second is tainted, and a DaemonSet for each ten of them.
func crowded() Input {
	in := large(30)
	in.Targets = map[string]inventory.Target{}
	for i, p := range in.Pools {
		t := target(p.Name, labelled("team", fmt.Sprintf("t%d", i%20)))
		if i%2 == 1 {
			tainted("dedicated", p.Name)(&t.NodePool)
		}
		in.Targets[p.Name] = t
	}
	shapes := make([]*inventory.Shape, 100)
	for i := range shapes {
		shapes[i] = shape(wants("team", fmt.Sprintf("t%d", i%25)), requesting("100m", "128Mi"), tolerating(corev1.Toleration{Key: "dedicated", Operator: corev1.TolerationOpEqual, Value: fmt.Sprintf("p%d", i)}),
			func(s *inventory.Shape) {
				s.EmptyDir, s.HostPorts, s.Claims = i%3 == 0, []int32{int32(8000 + i)}, []string{"data"}
			})
	}
	for i := range in.Workloads.Pods {
		p := &in.Workloads.Pods[i]
		p.Shape, p.Owner = shapes[i%100], &metav1.OwnerReference{APIVersion: "apps/v1", Kind: "StatefulSet", Name: fmt.Sprintf("s%d", i%3000)}
	}
	for i := range 3000 {
		kind := "StatefulSet"
		if i%500 == 0 {
			kind = kindDaemonSet
		}
		in.Workloads.Controllers = append(in.Workloads.Controllers, inventory.Controller{Kind: kind, Namespace: fmt.Sprintf("ns%d", i%300%30), Name: fmt.Sprintf("s%d", i), Replicas: 10, Shape: shapes[i%100]})
	}
	for i := range 30 {
		c := claim("data", inZone("us-east-1a"))
		c.Namespace = fmt.Sprintf("ns%d", i)
		in.Workloads.Claims = append(in.Workloads.Claims, c)
	}
	return in
}

// Budget: 500 ms of processor time for the largest cluster with everything that a check could look at. Measured on two busy cores of
// an AMD EPYC: 240 ms, of which 100 go into Karpenter's judgement of 100 shapes by 60 NodePools and 50 into gathering the workloads.
func BenchmarkRunCrowded(b *testing.B) {
	in := crowded()
	for b.Loop() {
		Run(in, nil)
	}
}
