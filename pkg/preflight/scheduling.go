package preflight

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/scheduling"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// The checks of where pods ask to run.
const (
	CheckUnserved    = "UnservedWorkload"
	CheckTopologyKey = "TopologyKeyMissing"
)

// The labels that only EKS gives to nodes, and what stands for them with Karpenter.
const (
	eksLabels         = "eks.amazonaws.com/"
	labelNodeGroup    = "eks.amazonaws.com/nodegroup"
	labelCapacityType = "eks.amazonaws.com/capacityType"
)

// unserved: a workload that asks for labels which no NodePool sets stays Pending after its eviction, "label … does not have known
// values" in Karpenter's log and nothing anywhere else. That of a Job at night, or of a Deployment at 0, shows days later.
func unserved(in Input) []inventory.Finding {
	var out []inventory.Finding
	var mixed []refused
	for _, w := range in.workloads {
		if w.kind == kindDaemonSet || w.kind == "Pod" || len(w.pods) == 0 && w.staying > 0 || !translated(in, w) {
			continue
		}
		if pool := tiedTo(in, w); pool != "" {
			f := w.about(block(CheckUnserved, w.object(), "The pod template of "+w.owned()+" names node "+w.controller.Shape.NodeName+
				" (nodeName), which goes: no scheduler is asked, so its pods would come back onto it as often as they are evicted. Take nodeName out, and bring along what the node has for it."))
			f.Pool = pool
			out = append(out, f)
			continue
		}
		p := in.places.of(in, w.shape)
		switch {
		case len(p.targets) > 0, p.stay && len(w.pods) == 0:
		case ofUnlikeGroups(in, w, p):
			mixed = append(mixed, refused{w, p})
		default:
			out = append(out, unservedBy(in, w, p))
		}
	}
	return append(out, unlikeGroups(in, mixed)...)
}

// unservedBy is the finding about a workload that no NodePool takes.
func unservedBy(in Input, w *workload, p place) inventory.Finding {
	switch {
	case p.stay:
		return w.about(warn(CheckUnserved, w.object(), "Only nodes that stay take the pods of "+w.owned()+", no NodePool does: "+refusal(in, w, p)+
			". Nobody scales those nodes after the hand-over. "+advice(in, w, p)))
	case len(w.pods) > 0:
		return w.about(block(CheckUnserved, w.object(), "No NodePool takes the pods of "+w.owned()+", which run in pool "+w.pools[0]+" today: "+refusal(in, w, p)+". "+advice(in, w, p)))
	case p.legacy != "":
		f := w.about(block(CheckUnserved, w.object(), "No NodePool will take the pods of "+w.owned()+", which has none now and would run in pool "+p.legacy+" today: "+refusal(in, w, p)+". "+advice(in, w, p)))
		f.Pool = p.legacy
		return f
	}
	return w.about(warn(CheckUnserved, w.object(), "No node of today takes the pods of "+w.owned()+", which has none now, and no NodePool will: "+refusal(in, w, p)+". If it is still needed, change where it asks to run."))
}

// refused is a workload that no NodePool takes, and where it could run today.
type refused struct {
	*workload
	at place
}

// pool is the one whose NodePool would have to take it.
func (r refused) pool() string {
	if len(r.pools) > 0 {
		return r.pools[0]
	}
	return r.at.legacy
}

// ofUnlikeGroups says that some of the pool's groups take the workload and others do not. One that asks for its group by name has
// advice of its own.
func ofUnlikeGroups(in Input, w *workload, at place) bool {
	pool := refused{w, at}.pool()
	if missing := unmet(nearest(in, w, at), w.shape); len(missing) > 0 && missing[0].key == labelNodeGroup {
		return false
	}
	take, groups := 0, 0
	for _, p := range in.Pools {
		if p.Name != pool {
			continue
		}
		for _, g := range groupsOf(in, p) {
			groups++
			if groupTakes(in, g, w.shape) {
				take++
			}
		}
	}
	return take > 0 && take < groups
}

// groupTakes goes by a node of the group, else by what EKS says that it launches.
func groupTakes(in Input, g inventory.NodeGroup, s *inventory.Shape) bool {
	i := slices.IndexFunc(in.Nodes, func(n inventory.Node) bool { return n.Group == g.Name })
	if i < 0 {
		return takes(nodeTo(g), s)
	}
	return takes(in.Nodes[i], s)
}

// unlikeGroups says once of a pool whose groups are not alike what it does not take: that is one thing to mend, not one a workload.
func unlikeGroups(in Input, mixed []refused) []inventory.Finding {
	byPool := map[string][]refused{}
	for _, r := range mixed {
		byPool[r.pool()] = append(byPool[r.pool()], r)
	}
	var out []inventory.Finding
	for _, pool := range slices.Sorted(maps.Keys(byPool)) {
		var names []string
		for _, r := range byPool[pool] {
			names = append(names, r.object())
		}
		first := byPool[pool][0]
		n, say := named{pool, names}, block
		if !slices.ContainsFunc(byPool[pool], func(r refused) bool { return !r.at.stay }) {
			say = warn // nodes that stay take all of them
		}
		out = append(out, n.about(say(CheckUnserved, n.object(in), "The node groups of pool "+pool+" differ in labels or taints, and nodes of one NodePool are all alike, so it does not take "+inventory.Count(len(names), "workload")+" that some of the groups take: "+
			n.list()+" (the first: "+refusal(in, first.workload, first.at)+"). Put the groups into pools of their own (spec.pools), or give them the same labels and taints.")))
	}
	return out
}

// tiedTo is the pool of the node that the workload's template names, empty where it names none that goes.
func tiedTo(in Input, w *workload) string {
	if w.controller == nil || w.controller.Shape == nil || w.controller.Shape.NodeName == "" {
		return ""
	}
	return poolOfNode(in)[w.controller.Shape.NodeName]
}

// translated says whether every NodePool that could serve the workload is known; one that is not is a finding of its own.
func translated(in Input, w *workload) bool {
	if len(w.pools) == 0 {
		return len(in.Targets) > 0 && len(in.Targets) == len(in.Pools)
	}
	return !slices.ContainsFunc(w.pools, func(pool string) bool { _, ok := in.Targets[pool]; return !ok })
}

// nearest is the target that the workload is held against in words: that of the pool in which it runs or would, else one whose taints
// it tolerates.
func nearest(in Input, w *workload, p place) inventory.Target {
	for _, pool := range append(slices.Clone(w.pools), p.legacy) {
		if t, ok := in.Targets[pool]; ok {
			return t
		}
	}
	pools := slices.Sorted(maps.Keys(in.Targets))
	for _, pool := range pools {
		if t := in.Targets[pool]; len(untolerated(t, w.shape)) == 0 {
			return t
		}
	}
	return in.Targets[pools[0]] // a workload is judged by targets: there is one
}

// refusal says in the user's words what of the shape the nearest NodePool does not have.
func refusal(in Input, w *workload, p place) string {
	t := nearest(in, w, p)
	var why []string
	for _, a := range unmet(t, w.shape) {
		why = append(why, a.words)
	}
	for _, taint := range untolerated(t, w.shape) {
		why = append(why, "it does not tolerate "+taint.ToString())
	}
	if len(why) == 0 {
		return "what it asks of nodes does not go together"
	}
	return three(why)
}

// unmet is what the target does not offer, taints aside.
func unmet(t inventory.Target, s *inventory.Shape) []ask {
	t.NodePool.Spec.Template.Spec.Taints = nil
	return slices.DeleteFunc(asks(s), func(a ask) bool { return t.Refuses(a.shape) == nil })
}

func untolerated(t inventory.Target, s *inventory.Shape) []corev1.Taint {
	return slices.DeleteFunc(slices.Clone(t.NodePool.Spec.Template.Spec.Taints), func(taint corev1.Taint) bool {
		return taint.Effect == corev1.TaintEffectPreferNoSchedule || scheduling.Taints{taint}.Tolerates(s.Tolerations) == nil
	})
}

// ask is one thing that a shape asks of a node.
type ask struct {
	key   string
	words string
	shape *inventory.Shape
}

// asks takes a shape's node selector and required node affinity apart.
func asks(s *inventory.Shape) []ask {
	var out []ask
	for _, k := range slices.Sorted(maps.Keys(s.NodeSelector)) {
		v := s.NodeSelector[k]
		out = append(out, ask{k, "node selector " + k + "=" + v, &inventory.Shape{NodeSelector: map[string]string{k: v}}})
	}
	if s.Affinity == nil || s.Affinity.NodeAffinity == nil || s.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return out
	}
	for _, term := range s.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for _, e := range term.MatchExpressions {
			alone := &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{e}}}}
			out = append(out, ask{
				e.Key, strings.TrimSpace(fmt.Sprintf("node affinity %s %s %s", e.Key, e.Operator, strings.Join(e.Values, ","))),
				&inventory.Shape{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: alone}}},
			})
		}
	}
	return out
}

// advice says what to do about the first label that is missing, else about the taint.
func advice(in Input, w *workload, p place) string {
	t := nearest(in, w, p)
	missing := unmet(t, w.shape)
	switch {
	case len(missing) == 0 && len(untolerated(t, w.shape)) == 0:
		return "Change what it asks of nodes."
	case len(missing) == 0:
		return "Add the toleration."
	case missing[0].key == labelNodeGroup:
		return "Put the node group into a pool of its own (spec.pools), which keeps the label, or select by a label that says what the pods need."
	case missing[0].key == labelCapacityType:
		return "Select by " + karpv1.CapacityTypeLabelKey + " instead (spot, on-demand)."
	case missing[0].key == corev1.LabelHostname:
		return "It is tied to one node, which goes: take that out, and bring along what it has there."
	case strings.HasPrefix(missing[0].key, eksLabels):
		return "EKS alone sets that label, on the nodes of its node groups: select by a label of your own, set on the node groups of pool " + t.Pool + "."
	case karpv1.WellKnownLabels.Has(missing[0].key):
		return "Select what the node groups of pool " + t.Pool + " launch, or give them what is selected."
	}
	return "Give the node groups of pool " + t.Pool + " the label where they are defined, so that its NodePool gets it, or change the selector."
}

// topologyKeys: pods that are to be spread, or kept apart, by a label that only the old nodes have. Karpenter knows no domain of such
// a key and launches nothing for them; where the pods only prefer it they come, and are spread no more.
func topologyKeys(in Input) []inventory.Finding {
	var out []inventory.Finding
	for _, w := range in.workloads {
		targets := in.places.of(in, w.shape).targets
		if w.kind == kindDaemonSet || len(targets) == 0 || len(w.pods) == 0 && w.staying > 0 {
			continue
		}
		required, preferred := topologies(w.shape)
		missing := func(key string) bool {
			return !slices.ContainsFunc(targets, func(pool string) bool { return hasLabel(in.Targets[pool], key) })
		}
		required, preferred = slices.DeleteFunc(required, func(k string) bool { return !missing(k) }), slices.DeleteFunc(preferred, func(k string) bool { return !missing(k) })
		switch {
		case len(required) > 0:
			out = append(out, w.about(block(CheckTopologyKey, w.object(), "Pods of "+w.owned()+" are placed by the node label "+three(required)+
				", which no NodePool that takes them sets, so Karpenter launches nothing for them. Use "+corev1.LabelTopologyZone+" or "+corev1.LabelHostname+", or give the node groups the label.")))
		case len(preferred) > 0:
			out = append(out, w.about(warn(CheckTopologyKey, w.object(), "Pods of "+w.owned()+" prefer to be placed by the node label "+three(preferred)+
				", which no NodePool that takes them sets, so they are no longer. Use "+corev1.LabelTopologyZone+" or "+corev1.LabelHostname+".")))
		}
	}
	return out
}

// topologies are the keys that a shape's spread constraints and pod affinities insist on, and those that they prefer.
func topologies(s *inventory.Shape) (required, preferred []string) {
	for _, c := range s.Spread {
		if c.WhenUnsatisfiable == corev1.ScheduleAnyway {
			preferred = append(preferred, c.TopologyKey)
		} else {
			required = append(required, c.TopologyKey)
		}
	}
	add := func(hard []corev1.PodAffinityTerm, soft []corev1.WeightedPodAffinityTerm) {
		for _, t := range hard {
			required = append(required, t.TopologyKey)
		}
		for _, t := range soft {
			preferred = append(preferred, t.PodAffinityTerm.TopologyKey)
		}
	}
	if a := s.Affinity; a != nil && a.PodAffinity != nil {
		add(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if a := s.Affinity; a != nil && a.PodAntiAffinity != nil {
		add(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	slices.Sort(required)
	slices.Sort(preferred)
	return slices.Compact(required), slices.Compact(preferred)
}

// hasLabel says whether every node of the target has the label, whatever its value.
func hasLabel(t inventory.Target, key string) bool {
	template := t.NodePool.Spec.Template
	_, set := template.Labels[key]
	_, beta := karpv1.NormalizedLabels[key]
	return set || beta || key == corev1.LabelHostname || karpv1.WellKnownLabels.Has(key) ||
		slices.ContainsFunc(template.Spec.Requirements, func(r karpv1.NodeSelectorRequirementWithMinValues) bool { return r.Key == key })
}
