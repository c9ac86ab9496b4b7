package preflight

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// served is a cluster of two pools; the nodes of general have EKS's labels.
func served(change ...func(*Input)) Input {
	return sound(append([]func(*Input){
		pools("batch", "batch"),
		nodes(inventory.Node{Name: "batch", Group: "batch", Labels: map[string]string{labelNodeGroup: "batch", "team": "data"}}),
		targets(target("general", labelled(labelCapacityType, "ON_DEMAND")), target("batch", labelled("team", "data"), tainted("batch", "yes"))),
		func(in *Input) {
			in.Nodes[0].Labels = map[string]string{labelNodeGroup: "general-a", labelCapacityType: "ON_DEMAND", corev1.LabelInstanceTypeStable: "m5.large"}
			in.Nodes[1].Labels = map[string]string{labelNodeGroup: "system"}
		},
	}, change...)...)
}

func TestPoolsOfUnlikeGroups(t *testing.T) {
	const advice = "Put the groups into pools of their own (spec.pools), or give them the same labels and taints."
	say := func(list string) []inventory.Finding {
		return []inventory.Finding{blocks(CheckUnserved, "pool/general", "general", "The node groups of pool general differ in labels or taints, and nodes of one NodePool are all alike, so it does not take "+list+". "+advice)}
	}
	warned := func(f []inventory.Finding) []inventory.Finding { // the home takes them, and does not grow
		f[0].Severity = v1alpha1.SeverityWarn
		return f
	}
	memory := func(in *Input) {
		in.Groups = append(in.Groups, inventory.NodeGroup{Name: "general-b", Managed: &inventory.ManagedNodeGroup{Labels: map[string]string{"kind": "memory"}}})
	}
	node := nodes(inventory.Node{Name: "b", Group: "general-b", Labels: map[string]string{"kind": "memory"}})
	taintedNode := nodes(inventory.Node{Name: "b", Group: "general-b", Taints: []corev1.Taint{{Key: "kind", Value: "memory", Effect: corev1.TaintEffectNoSchedule}}})
	asks := func(names ...string) func(*Input) {
		return func(in *Input) {
			in.Workloads.Pods = nil
			for _, name := range names {
				in.Workloads.Pods = append(in.Workloads.Pods, pod(name, madeBy("StatefulSet", name), shaped(wants("kind", "memory"))))
			}
		}
	}
	const why = "(the first: node selector kind=memory)"
	alone := of("statefulset/shop/a", blocks(CheckUnserved, "statefulset/shop/a", "general", "No NodePool takes the pods of statefulset/shop/a, which run in pool general today: node selector kind=memory. "+
		"Give the node groups of pool general the label where they are defined, so that its NodePool gets it, or change the selector."))
	testCheck(t, CheckUnserved, map[string]checkCase{
		"Labels":  {"once, however many ask", served(memory, node, asks("a", "b", "c", "d")), say("4 workloads that some of the groups take: statefulset/shop/a, statefulset/shop/b, statefulset/shop/c and 1 more " + why)},
		"NoNodes": {"a group at size zero is known by what EKS says", served(memory, asks("a")), say("1 workload that some of the groups take: statefulset/shop/a " + why)},
		"Taints": {"a taint of one group becomes one of all", served(memory, taintedNode, pods(pod("a", madeBy("StatefulSet", "a"), shaped())), targets(target("general", tainted("kind", "memory")))),
			warned(say("1 workload that some of the groups take: statefulset/shop/a (the first: it does not tolerate kind=memory:NoSchedule)"))},
		"Neither":  {"what no group offers is the workload's own", served(asks("a"), func(in *Input) { in.Groups = append(in.Groups, inventory.NodeGroup{Name: "general-b"}) }), []inventory.Finding{alone}},
		"OneGroup": {"as with one group", served(asks("a")), []inventory.Finding{alone}},
	})
}

func TestAdviceAboutLabelsThatEKSGives(t *testing.T) {
	say := func(label, advice string) []inventory.Finding {
		return []inventory.Finding{of("replicaset/shop/web", blocks(CheckUnserved, "replicaset/shop/web", "general", "No NodePool takes the pods of replicaset/shop/web, which run in pool general today: node selector "+label+". "+advice))}
	}
	asks := func(key, value string) Input { return served(pods(pod("web-1", shaped(wants(key, value))))) }
	testCheck(t, CheckUnserved, map[string]checkCase{
		"Image":    {"no NodePool may have it", asks("eks.amazonaws.com/nodegroup-image", "ami-1"), say("eks.amazonaws.com/nodegroup-image=ami-1", "EKS alone sets that label, on the nodes of its node groups: select by a label of your own, set on the node groups of pool general.")},
		"Template": {"nor any other of them", asks("eks.amazonaws.com/sourceLaunchTemplateId", "lt-1"), say("eks.amazonaws.com/sourceLaunchTemplateId=lt-1", "EKS alone sets that label, on the nodes of its node groups: select by a label of your own, set on the node groups of pool general.")},
	})
}

func TestTemplatesThatNameTheirNode(t *testing.T) {
	named := func(node string) func(*Input) {
		return controllers(inventory.Controller{Kind: kindDeployment, Name: "web", Replicas: 1, Shape: shape(func(s *inventory.Shape) { s.NodeName = node })})
	}
	say := []inventory.Finding{of("deployment/shop/web", blocks(CheckUnserved, "deployment/shop/web", "general", "The pod template of deployment/shop/web names node old (nodeName), which goes: no scheduler is asked, "+
		"so its pods would come back onto it as often as they are evicted. Take nodeName out, and bring along what the node has for it."))}
	runs := pods(pod("web-1", madeBy(kindDeployment, "web"), shaped()))
	testCheck(t, CheckUnserved, map[string]checkCase{
		"Legacy":  {"no fence keeps it away", served(runs, named("old")), say},
		"NoPods":  {"nor what is made at night", served(pods(), named("old")), say},
		"Stays":   {"the home does not go", served(runs, named("home-a")), nil},
		"Unnamed": {"the scheduler places it", served(runs, named("")), nil},
	})
}

func TestCase_C077_SelectorsThatNoNodePoolSatisfiesBlockWithTheirOwner(t *testing.T) {
	const (
		poolOfItsOwn = "Put the node group into a pool of its own (spec.pools), which keeps the label, or select by a label that says what the pods need."
		byGroup      = "node selector eks.amazonaws.com/nodegroup=general-a"
	)
	deployment := inventory.Controller{Kind: kindDeployment, Name: "web", Replicas: 2, Owner: "Helm release web"}
	with := func(c inventory.Controller, s *inventory.Shape) func(*Input) {
		c.Shape = s
		return controllers(c)
	}
	none := pods()
	runs := func(kind, name string, change ...func(*inventory.Shape)) func(*Input) {
		return pods(pod("p-1", madeBy(kind, name), shaped(change...)))
	}
	testCheck(t, CheckUnserved, map[string]checkCase{
		"Deployment": {
			reason: "label, value, owner, and today's pool",
			in:     served(runs(kindDeployment, "web", wants(labelNodeGroup, "general-a")), with(deployment, shape(wants(labelNodeGroup, "general-a")))),
			want: []inventory.Finding{of("deployment/shop/web", blocks(CheckUnserved, "deployment/shop/web", "general",
				"No NodePool takes the pods of deployment/shop/web (Helm release web), which run in pool general today: "+byGroup+". "+poolOfItsOwn))},
		},
		"StatefulSetCapacity": {
			reason: "EKS's label is carried where it is true of the whole pool",
			in:     served(runs("StatefulSet", "db", requiring(labelCapacityType, corev1.NodeSelectorOpIn, "ON_DEMAND"))),
		},
		"StatefulSetOtherCapacity": {
			reason: "and where it is not, Karpenter has a label of its own for it",
			in:     served(runs("StatefulSet", "db", requiring(labelCapacityType, corev1.NodeSelectorOpIn, "SPOT", "CAPACITY_BLOCK"))),
			want: []inventory.Finding{of("statefulset/shop/db", blocks(CheckUnserved, "statefulset/shop/db", "general",
				"No NodePool takes the pods of statefulset/shop/db, which run in pool general today: node affinity eks.amazonaws.com/capacityType In SPOT,CAPACITY_BLOCK. Select by karpenter.sh/capacity-type instead (spot, on-demand)."))},
		},
		"JobOfAType": {reason: "the type is among those that the NodePool launches", in: served(runs("Job", "load", wants(corev1.LabelInstanceTypeStable, "m5.large")))},
		"JobOfAnotherType": {
			reason: "and this one is not",
			in:     served(runs("Job", "load", wants(corev1.LabelInstanceTypeStable, "c5.large"))),
			want: []inventory.Finding{of("job/shop/load", blocks(CheckUnserved, "job/shop/load", "general",
				"No NodePool takes the pods of job/shop/load, which run in pool general today: node selector node.kubernetes.io/instance-type=c5.large. Select what the node groups of pool general launch, or give them what is selected."))},
		},
		"CronJobWithoutPods": {
			reason: "it makes its pods at night: the pool is that of the nodes which would take them",
			in:     served(none, with(inventory.Controller{Kind: "CronJob", Name: "night", Owner: "Argo CD application jobs"}, shape(wants(labelNodeGroup, "general-a")))),
			want: []inventory.Finding{of("cronjob/shop/night", blocks(CheckUnserved, "cronjob/shop/night", "general",
				"No NodePool will take the pods of cronjob/shop/night (Argo CD application jobs), which has none now and would run in pool general today: "+byGroup+". "+poolOfItsOwn))},
		},
		"Suspended": {
			reason: "somebody will resume it",
			in:     served(none, with(inventory.Controller{Kind: "Job", Name: "load", Suspended: true}, shape(wants(labelNodeGroup, "batch")))),
			want: []inventory.Finding{of("job/shop/load", blocks(CheckUnserved, "job/shop/load", "batch",
				"No NodePool will take the pods of job/shop/load, which has none now and would run in pool batch today: node selector eks.amazonaws.com/nodegroup=batch, it does not tolerate batch=yes:NoSchedule. "+poolOfItsOwn))},
		},
		"NoReplicas": {
			reason: "and scale it up",
			in:     served(none, with(inventory.Controller{Kind: kindDeployment, Name: "web"}, shape(requiring("disk", corev1.NodeSelectorOpExists))), func(in *Input) { in.Nodes[0].Labels["disk"] = "ssd" }),
			want: []inventory.Finding{of("deployment/shop/web", blocks(CheckUnserved, "deployment/shop/web", "general",
				"No NodePool will take the pods of deployment/shop/web, which has none now and would run in pool general today: node affinity disk Exists. Give the node groups of pool general the label where they are defined, so that its NodePool gets it, or change the selector."))},
		},
		"Forgotten": {
			reason: "what no node takes today either is no fault of the migration",
			in:     served(none, with(inventory.Controller{Kind: kindDeployment, Name: "old"}, shape(wants(labelNodeGroup, "gone")))),
			want: []inventory.Finding{of("deployment/shop/old", warns(CheckUnserved, "deployment/shop/old", "",
				"No node of today takes the pods of deployment/shop/old, which has none now, and no NodePool will: node selector eks.amazonaws.com/nodegroup=gone. If it is still needed, change where it asks to run."))},
		},
		"Taint": {
			reason: "the pool's taint came after the pod",
			in:     served(runs(kindDeployment, "web", wants("team", "data")), func(in *Input) { in.Workloads.Pods[0].Node = "batch" }),
			want: []inventory.Finding{of("deployment/shop/web", blocks(CheckUnserved, "deployment/shop/web", "batch",
				"No NodePool takes the pods of deployment/shop/web, which run in pool batch today: it does not tolerate batch=yes:NoSchedule. Add the toleration."))},
		},
		"Contradiction": {
			reason: "each is offered by some NodePool, and both by none",
			in:     served(runs(kindDeployment, "web", wants(corev1.LabelInstanceTypeStable, "m5.large"), requiring(corev1.LabelInstanceTypeStable, corev1.NodeSelectorOpNotIn, "m5.large"))),
			want: []inventory.Finding{of("deployment/shop/web", blocks(CheckUnserved, "deployment/shop/web", "general",
				"No NodePool takes the pods of deployment/shop/web, which run in pool general today: what it asks of nodes does not go together. Change what it asks of nodes."))},
		},
		"TiedToANode": {
			reason: "no new node has the name of an old one",
			in:     served(runs("StatefulSet", "db", wants(corev1.LabelHostname, "ip-10-0-1-5")), func(in *Input) { in.Nodes[0].Labels[corev1.LabelHostname] = "ip-10-0-1-5" }),
			want: []inventory.Finding{of("statefulset/shop/db", blocks(CheckUnserved, "statefulset/shop/db", "general",
				"No NodePool takes the pods of statefulset/shop/db, which run in pool general today: node selector kubernetes.io/hostname=ip-10-0-1-5. It is tied to one node, which goes: take that out, and bring along what it has there."))},
		},
		"Addon": {
			reason: "EKS's own add-ons ask for what every NodePool has, and shun what none has",
			in:     served(runs(kindDeployment, "coredns", wants("kubernetes.io/os", "linux"), requiring("eks.amazonaws.com/compute-type", corev1.NodeSelectorOpNotIn, "fargate", "hybrid", "auto"))),
		},
		"MovesHome": {
			reason: "a node that stays takes it, but nobody scales those afterwards",
			in:     served(runs(kindDeployment, "web", requiring(labelNodeGroup, corev1.NodeSelectorOpIn, "general-a", "system"))),
			want: []inventory.Finding{of("deployment/shop/web", warns(CheckUnserved, "deployment/shop/web", "general",
				"Only nodes that stay take the pods of deployment/shop/web, no NodePool does: node affinity eks.amazonaws.com/nodegroup In general-a,system. Nobody scales those nodes after the hand-over. "+poolOfItsOwn))},
		},
		"AtHome":         {reason: "what runs on the home is left alone", in: served(pods(pod("p-1", on("home"), madeBy(kindDeployment, "web"), shaped(wants(labelNodeGroup, "system")))))},
		"OnAnotherGroup": {reason: "as is what runs on a group that does not migrate", in: served(pods(pod("p-1", on("alien"), madeBy(kindDeployment, "web"), shaped(wants(labelNodeGroup, "windows")))))},
		"NightAtHome":    {reason: "and what will run there", in: served(none, with(inventory.Controller{Kind: "CronJob", Name: "night"}, shape(wants(labelNodeGroup, "system"))))},
		"OtherPool":      {reason: "any NodePool will do", in: served(runs(kindDeployment, "web", wants("team", "data"), tolerating(everything)))},
		"Bare":           {reason: "a bare pod is another finding", in: served(pods(pod("debug", bare, shaped(wants(labelNodeGroup, "general-a")))))},
		"NotTranslated":  {reason: "a pool without a NodePool is another finding, and nothing is known of its pods", in: served(runs(kindDeployment, "web", wants(labelNodeGroup, "general-a")), targets(target("batch")))},
		"NotTranslatedNight": {
			reason: "nor of who would run there",
			in:     served(none, with(inventory.Controller{Kind: "CronJob", Name: "night"}, shape(wants(labelNodeGroup, "general-a"))), targets(target("batch"))),
		},
	})
}

func TestTopologyKey(t *testing.T) {
	spread := func(key string, when corev1.UnsatisfiableConstraintAction) func(*inventory.Shape) {
		return func(s *inventory.Shape) {
			s.Spread = append(s.Spread, corev1.TopologySpreadConstraint{TopologyKey: key, WhenUnsatisfiable: when})
		}
	}
	apart := func(key string) func(*inventory.Shape) {
		return func(s *inventory.Shape) {
			s.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: key}}}}
		}
	}
	preferablyTogether := func(key string) func(*inventory.Shape) {
		return func(s *inventory.Shape) {
			s.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: key}}}}}
		}
	}
	require := func(keys string) []inventory.Finding {
		return []inventory.Finding{of("deployment/shop/web", blocks(CheckTopologyKey, "deployment/shop/web", "general", "Pods of deployment/shop/web are placed by the node label "+keys+
			", which no NodePool that takes them sets, so Karpenter launches nothing for them. Use topology.kubernetes.io/zone or kubernetes.io/hostname, or give the node groups the label."))}
	}
	prefer := func(keys string) []inventory.Finding {
		return []inventory.Finding{of("deployment/shop/web", warns(CheckTopologyKey, "deployment/shop/web", "general", "Pods of deployment/shop/web prefer to be placed by the node label "+keys+
			", which no NodePool that takes them sets, so they are no longer. Use topology.kubernetes.io/zone or kubernetes.io/hostname."))}
	}
	runs := func(change ...func(*inventory.Shape)) Input {
		return served(pods(pod("p-1", madeBy(kindDeployment, "web"), shaped(change...))))
	}
	testCheck(t, CheckTopologyKey, map[string]checkCase{
		"Spread":        {"Karpenter knows no domain of it", runs(spread(labelNodeGroup, corev1.DoNotSchedule)), require(labelNodeGroup)},
		"SpreadNotSaid": {"DoNotSchedule is the default", runs(spread(labelNodeGroup, "")), require(labelNodeGroup)},
		"Preferred":     {"the pods come, and are spread no more", runs(spread(labelNodeGroup, corev1.ScheduleAnyway)), prefer(labelNodeGroup)},
		"Apart":         {"pods that are kept apart by it", runs(apart("alpha.eksctl.io/nodegroup-name")), require("alpha.eksctl.io/nodegroup-name")},
		"Together":      {"and those that would like to be together", runs(preferablyTogether("rack")), prefer("rack")},
		"Twice":         {"a key is named once, and what insists comes first", runs(spread("rack", corev1.DoNotSchedule), spread("rack", corev1.ScheduleAnyway), apart("rack")), require("rack")},
		"Zone":          {"every node has a zone", runs(spread(corev1.LabelTopologyZone, corev1.DoNotSchedule)), nil},
		"BetaZone":      {"by its old name, too", runs(spread(corev1.LabelFailureDomainBetaZone, corev1.DoNotSchedule)), nil},
		"Host":          {"and a name", runs(apart(corev1.LabelHostname)), nil},
		"Capacity":      {"Karpenter's own", runs(spread(karpv1.CapacityTypeLabelKey, corev1.DoNotSchedule)), nil},
		"Carried":       {"a label that the NodePool sets", runs(spread(labelCapacityType, corev1.DoNotSchedule)), nil},
		"OtherPools":    {"one that only another NodePool sets, which refuses the pod", runs(spread("team", corev1.DoNotSchedule)), require("team")},
		"OtherPool":     {"one that takes it", runs(spread("team", corev1.DoNotSchedule), tolerating(everything)), nil},
		"None":          {"the usual", runs(), nil},
		"AtHome":        {"who stays is spread as before", served(pods(pod("p-1", on("home"), madeBy(kindDeployment, "web"), shaped(spread("rack", corev1.DoNotSchedule))))), nil},
		"AtNight": {"what has no pods now will have some", served(pods(), controllers(inventory.Controller{Kind: "CronJob", Name: "night", Shape: shape(spread("rack", corev1.DoNotSchedule))})),
			[]inventory.Finding{of("cronjob/shop/night", blocks(CheckTopologyKey, "cronjob/shop/night", "", "Pods of cronjob/shop/night are placed by the node label rack, which no NodePool that takes them sets, so Karpenter launches nothing for them. Use topology.kubernetes.io/zone or kubernetes.io/hostname, or give the node groups the label."))}},
		"DaemonSet": {"a DaemonSet is on every node", served(pods(), controllers(inventory.Controller{Kind: kindDaemonSet, Name: "agent", Shape: shape(spread("rack", corev1.DoNotSchedule))})), nil},
		"NoTarget":  {"without a NodePool that is another finding", served(pods(pod("p-1", shaped(spread("rack", corev1.DoNotSchedule)))), targets()), nil},
	})
}
