package preflight

import (
	"testing"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

func amount(cpu, memory string) corev1.ResourceList {
	out := corev1.ResourceList{}
	if cpu != "" {
		out[corev1.ResourceCPU] = resource.MustParse(cpu)
	}
	if memory != "" {
		out[corev1.ResourceMemory] = resource.MustParse(memory)
	}
	return out
}

func requesting(cpu, memory string) func(*inventory.Shape) {
	return func(s *inventory.Shape) { s.Requests = amount(cpu, memory) }
}

func prioritized(class string) func(*inventory.Shape) {
	return func(s *inventory.Shape) { s.PriorityClass = class }
}

// agent is a DaemonSet, and agents its pods on the nodes.
func agent(change ...func(*inventory.Shape)) inventory.Controller {
	return inventory.Controller{Kind: kindDaemonSet, Name: "agent", Replicas: 1, Shape: shape(change...)}
}

func agents(names ...string) func(*Input) {
	return func(in *Input) {
		for _, node := range names {
			in.Workloads.Pods = append(in.Workloads.Pods, pod("agent-"+node, on(node), madeBy(kindDaemonSet, "agent")))
		}
	}
}

func TestDaemonSetMissing(t *testing.T) {
	const label = " runs on the nodes of pool general and would not on Karpenter's: node selector eks.amazonaws.com/nodegroup=general-a. Put the node group into a pool of its own (spec.pools), which keeps the label, or select by a label that says what the pods need."
	tied := wants(labelNodeGroup, "general-a")
	taintedGeneral := targets(target("general", tainted("dedicated", "x")), target("batch"))
	testCheck(t, CheckDaemonSetMissing, map[string]checkCase{
		"LogAgent": {
			reason: "nodes work without, and nobody sees what they log",
			in:     served(controllers(agent(tied)), agents("old")),
			want:   []inventory.Finding{of("daemonset/shop/agent", warns(CheckDaemonSetMissing, "daemonset/shop/agent", "general", "daemonset/shop/agent"+label))},
		},
		"CNI": {
			reason: "nodes do not work without",
			in:     served(controllers(agent(tied, prioritized("system-node-critical"))), agents("old")),
			want:   []inventory.Finding{of("daemonset/shop/agent", blocks(CheckDaemonSetMissing, "daemonset/shop/agent", "general", "daemonset/shop/agent"+label))},
		},
		"Taint": {
			reason: "the new nodes have a taint that it does not tolerate",
			in:     served(controllers(agent()), agents("old"), taintedGeneral),
			want: []inventory.Finding{of("daemonset/shop/agent", warns(CheckDaemonSetMissing, "daemonset/shop/agent", "general",
				"daemonset/shop/agent runs on the nodes of pool general and would not on Karpenter's: it does not tolerate dedicated=x:NoSchedule. Add the toleration."))},
		},
		"Fargate": {
			reason: "an affinity that the template has and the pods, which are bound to their nodes by another, do not",
			in:     served(controllers(agent(requiring("alpha.eksctl.io/nodegroup-name", corev1.NodeSelectorOpExists))), agents("old")),
			want: []inventory.Finding{of("daemonset/shop/agent", warns(CheckDaemonSetMissing, "daemonset/shop/agent", "general",
				"daemonset/shop/agent runs on the nodes of pool general and would not on Karpenter's: node affinity alpha.eksctl.io/nodegroup-name Exists. Give the node groups of pool general the label where they are defined, so that its NodePool gets it, or change the selector."))},
		},
		"AWSNode":       {"as EKS's own DaemonSets are: they shun Fargate, and tolerate all", served(controllers(agent(requiring("eks.amazonaws.com/compute-type", corev1.NodeSelectorOpNotIn, "fargate", "hybrid", "auto"), wants(corev1.LabelArchStable, "amd64"), tolerating(everything), prioritized("system-node-critical"))), agents("old", "batch")), nil},
		"OnePoolOfTwo":  {"in the other pool it is at home", served(controllers(agent(wants("team", "data"), tolerating(everything))), agents("batch")), nil},
		"Everywhere":    {"the usual", served(controllers(agent(tolerating(everything))), agents("old", "batch")), nil},
		"NeverThere":    {"what the old nodes do not have either is not missing", served(controllers(agent(tied)), agents("home")), nil},
		"NotTranslated": {"a pool without a NodePool is another finding", served(controllers(agent(tied)), agents("old"), targets(target("batch"))), nil},
	})
}

func TestDaemonSetPriority(t *testing.T) {
	testCheck(t, CheckDaemonSetPriority, map[string]checkCase{
		"None": {"once for all pools: it is one DaemonSet to mend", served(controllers(agent(tolerating(everything))), agents("old", "batch", "home")), []inventory.Finding{
			warns(CheckDaemonSetPriority, "cluster/prod", "", "These have no priority class, so their pods can lose the race for room on a new node: daemonset/shop/agent. Give them one above that of the workloads, system-node-critical where nodes need them."),
		}},
		"Class":    {"any class is somebody's decision", served(controllers(agent(prioritized("agents"))), agents("old")), nil},
		"Default":  {"as is that of the cluster, which its pods have", served(controllers(agent()), agents("old"), func(in *Input) { in.Workloads.Pods[1].Shape = shape(prioritized("default")) }), nil},
		"AtHome":   {"who runs on the home alone races with nobody", served(controllers(agent()), agents("home")), nil},
		"Workload": {"workloads race among themselves", served(), nil},
	})
}

// sized gives m5.large and m5.xlarge the room that EKS's nodes have.
func sized(in *Input) {
	in.Groups[0].Types = []inventory.InstanceType{{Name: "m5.large", VCPUs: 2, MemoryMiB: 8192, MaxPods: 29}, {Name: "m5.xlarge", VCPUs: 4, MemoryMiB: 16384, MaxPods: 58}}
}

func onlyLarge(p *karpv1.NodePool) {
	p.Spec.Template.Spec.Requirements[0].Values = []string{"m5.large"}
}

func TestCase_C073_DaemonSetsAndThePodHaveToFitOneNode(t *testing.T) {
	app := func(cpu, memory string) func(*Input) {
		return pods(pod("web-1", madeBy(kindDeployment, "web"), shaped(requesting(cpu, memory))))
	}
	one := targets(target("general", onlyLarge))
	tooLarge := func(asks, taken, room string) []inventory.Finding {
		return []inventory.Finding{of("deployment/shop/web", blocks(CheckDaemonSetRoom, "deployment/shop/web", "general", "No instance type of pool general has room for a pod of deployment/shop/web ("+asks+
			") beside the DaemonSets ("+taken+"): "+room+". Add a larger type to the node groups, or ask for less."))}
	}
	keepsOut := func(one, all, kept, room string) []inventory.Finding {
		return []inventory.Finding{of("daemonset/shop/agent", blocks(CheckDaemonSetRoom, "daemonset/shop/agent", "general", "On no instance type of pool general does daemonset/shop/agent ("+one+" of "+all+
			" for all DaemonSets) leave room for "+kept+". "+room+". Lower what it requests, or add a larger type to the node groups."))}
	}
	const web = "1 workload: deployment/shop/web"
	many := func(in *Input) {
		in.Workloads.Pods = nil
		for _, name := range []string{"a", "b", "c", "d"} {
			in.Workloads.Pods = append(in.Workloads.Pods, pod(name, madeBy("StatefulSet", name), shaped(requesting("500m", "1Gi"))))
		}
	}
	ranged := func(cpu string) func(*Input) {
		return func(in *Input) {
			in.Workloads.LimitRanges = []corev1.LimitRange{
				{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{Type: corev1.LimitTypePod}, {Type: corev1.LimitTypeContainer, DefaultRequest: amount(cpu, "")}}}},
				{ObjectMeta: metav1.ObjectMeta{Namespace: "other"}, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{Type: corev1.LimitTypeContainer, DefaultRequest: amount("4", "")}}}},
			}
		}
	}
	without := func(containers ...string) func(*inventory.Shape) {
		return func(s *inventory.Shape) { s.Unrequested = containers }
	}
	seen := func(cpu, memory string) func(*Input) {
		return nodes(inventory.Node{Name: "seen", Labels: map[string]string{corev1.LabelInstanceTypeStable: "m5.large"}, Allocatable: amount(cpu, memory)})
	}
	testCheck(t, CheckDaemonSetRoom, map[string]checkCase{
		"TheCase": {
			reason: "1200m of DaemonSets and a pod of 1000m on 1930m",
			in:     sound(sized, one, app("1000m", "1Gi"), controllers(agent(requesting("1200m", "100Mi")))),
			want:   keepsOut("cpu 1200m, memory 100Mi", "cpu 1200m, memory 100Mi", web, "m5.large has cpu 1930m, memory 6903Mi"),
		},
		"LargerType": {
			reason: "Karpenter launches the larger one, which leaves fewer",
			in:     sound(sized, targets(target("general")), app("1000m", "1Gi"), controllers(agent(requesting("1200m", "100Mi")))),
			want: []inventory.Finding{warns(CheckDaemonSetRoom, "pool/general", "general",
				"These instance types have no room for the largest pod beside the DaemonSets (cpu 1200m, memory 100Mi): m5.large. Karpenter launches one of the others for it.")},
		},
		"OnceForAll": {
			reason: "one large DaemonSet is one thing to mend, however many it keeps out",
			in: sound(sized, one, many, controllers(agent(requesting("1300m", "100Mi")),
				inventory.Controller{Kind: kindDaemonSet, Name: "small", Replicas: 1, Shape: shape(requesting("200m", "100Mi"))})),
			want: keepsOut("cpu 1300m, memory 100Mi", "cpu 1500m, memory 200Mi", "4 workloads: statefulset/shop/a, statefulset/shop/b, statefulset/shop/c and 1 more", "m5.large has cpu 1930m, memory 6903Mi"),
		},
		"Fits":    {reason: "730m and 1200m are 1930m", in: sound(sized, one, app("730m", "1Gi"), controllers(agent(requesting("1200m", "100Mi"))))},
		"OneMore": {reason: "and 731m are one too many", in: sound(sized, one, app("731m", "1Gi"), controllers(agent(requesting("1200m", "100Mi")))), want: keepsOut("cpu 1200m, memory 100Mi", "cpu 1200m, memory 100Mi", web, "m5.large has cpu 1930m, memory 6903Mi")},
		"Memory": {
			reason: "memory runs out as well",
			in:     sound(sized, one, app("100m", "6Gi"), controllers(agent(requesting("100m", "2Gi")))),
			want:   tooLarge("cpu 100m, memory 6144Mi", "cpu 100m, memory 2048Mi", "m5.large has cpu 1930m, memory 6903Mi"),
		},
		"NotThere": {
			reason: "a DaemonSet that the new nodes do not take takes no room on them",
			in:     sound(sized, one, app("1000m", "1Gi"), controllers(agent(requesting("1200m", "100Mi"), wants("gpu", "yes")))),
		},
		"LimitRange": {
			reason: "a container without a request gets that of its namespace's LimitRange",
			in:     sound(sized, one, app("1000m", "1Gi"), controllers(agent(without("a", "b"))), ranged("600m")),
			want:   keepsOut("cpu 1200m, memory 0Mi", "cpu 1200m, memory 0Mi", web, "m5.large has cpu 1930m, memory 6903Mi"),
		},
		"LimitRangeForNobody": {
			reason: "which gives nothing to what has requests",
			in:     sound(sized, one, app("1000m", "1Gi"), controllers(agent(requesting("100m", "100Mi"))), ranged("2")),
		},
		"Observed": {
			reason: "a kubelet knows better than a rule, for the worse",
			in:     sound(sized, one, app("1000m", "1Gi"), controllers(agent(requesting("600m", "100Mi"))), seen("1500m", "7Gi")),
			want:   tooLarge("cpu 1, memory 1024Mi", "cpu 600m, memory 100Mi", "m5.large has cpu 1500m, memory 7168Mi"),
		},
		"ObservedBetter": {reason: "and for the better", in: sound(sized, one, app("1000m", "1Gi"), controllers(agent(requesting("950m", "100Mi"))), seen("1960m", "7Gi"))},
		"NotYetRead":     {reason: "a node that says nothing yet is no word against the rule", in: sound(sized, one, app("1000m", "1Gi"), controllers(agent(requesting("900m", "100Mi"))), seen("0", "0"))},
		"Unknown":        {reason: "a type that nobody knows the size of may hold anything", in: sound(one, app("1000m", "1Gi"), controllers(agent(requesting("1200m", "100Mi"))))},
		"Families": {
			reason: "types that the user added are known from there",
			in: sound(targets(target("general", func(p *karpv1.NodePool) { p.Spec.Template.Spec.Requirements[0].Values = []string{"m7i.large"} })), app("1000m", "1Gi"), controllers(agent(requesting("1200m", "100Mi"))), func(in *Input) {
				in.Pools[0].Families = []inventory.InstanceFamily{{Name: "m7i", Types: []inventory.InstanceType{{Name: "m7i.large", VCPUs: 2, MemoryMiB: 8192}}}}
			}),
			want: keepsOut("cpu 1200m, memory 100Mi", "cpu 1200m, memory 100Mi", web, "m7i.large has cpu 1930m, memory 6012Mi"),
		},
		"AnyType": {reason: "a NodePool that names no types launches what fits", in: sound(sized, targets(target("general", func(p *karpv1.NodePool) { p.Spec.Template.Spec.Requirements = nil })), app("100", "1Gi"))},
		"OtherPool": {
			reason: "another pool's NodePool takes it",
			in: sound(sized, pools("big", "big"), targets(target("general", onlyLarge), target("big")), app("1000m", "1Gi"), controllers(agent(requesting("1200m", "100Mi"))), func(in *Input) {
				in.Groups = append(in.Groups, inventory.NodeGroup{Name: "big", Types: in.Groups[0].Types})
			}),
			want: []inventory.Finding{warns(CheckDaemonSetRoom, "pool/general", "general",
				"These instance types have no room for the largest pod beside the DaemonSets (cpu 1200m, memory 100Mi): m5.large. Karpenter launches one of the others for it.")},
		},
		"PodsKnow": {
			reason: "its pods have what admission gave them, which their template does not say",
			in:     sound(sized, one, app("1000m", "1Gi"), controllers(agent()), agents("home"), func(in *Input) { in.Workloads.Pods[1].Shape = shape(requesting("1200m", "100Mi")) }),
			want:   keepsOut("cpu 1200m, memory 100Mi", "cpu 1200m, memory 100Mi", web, "m5.large has cpu 1930m, memory 6903Mi"),
		},
		"AtHome": {reason: "who stays needs no room", in: sound(sized, one, pods(pod("web-1", on("home"), shaped(requesting("64", "1Gi")))))},
	})
}

// The kubelet's own maxPods counts, in its reserve too.
func TestRoomGoesByMaxPods(t *testing.T) {
	in := sound(sized)
	of := func(pods *int32) string {
		target := target("general", onlyLarge)
		target.NodeClass.Spec.Kubelet = &awsv1.KubeletConfiguration{MaxPods: pods}
		room := holdingOf(in, "general", target).rooms["m5.large"]
		return room.Pods().String()
	}
	if diff := cmp.Diff([]string{"29", "110"}, []string{of(nil), of(ptr.To[int32](110))}); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}
