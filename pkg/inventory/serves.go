package inventory

import (
	"errors"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/scheduling"

	"github.com/castoff-sh/castoff/api/v1alpha1"
)

// Place is what a kind of node offers to pods, worked out once for many of them.
type Place struct {
	taints scheduling.Taints
	labels scheduling.Requirements
	// open leaves well-known labels that are not said to whoever launches the node.
	open bool
}

// Place is what the target's nodes will offer. It is Karpenter's own reading of requirements and taints (pkg/scheduling).
func (t Target) Place() Place {
	template := t.NodePool.Spec.Template
	labels := scheduling.NewNodeSelectorRequirementsWithMinValues(template.Spec.Requirements...)
	labels.Add(scheduling.NewLabelRequirements(template.Labels).Values()...)
	labels.Add(scheduling.NewLabelRequirements(map[string]string{karpv1.NodePoolLabelKey: t.NodePool.Name}).Values()...)
	return Place{taints: lasting(template.Spec.Taints), labels: labels, open: true}
}

// Place is what the node offers: its labels and taints. What Kubernetes and castoff put on it for a while, a cordon among it, does
// not count.
func (n Node) Place() Place {
	return Place{taints: lasting(n.Taints), labels: scheduling.NewLabelRequirements(n.Labels)}
}

// Refuses says why the target's nodes cannot take pods of that shape, nil if they can (see Place).
func (t Target) Refuses(s *Shape) error { return t.Place().Refuses(s) }

// Refuses says why the place cannot take pods of that shape, nil if it can. What is required counts and what is preferred does not;
// room, spread and other pods have no say in it. The terms of a required node affinity are alternatives: one that fits is enough.
func (p Place) Refuses(s *Shape) error {
	if err := p.taints.Tolerates(s.Tolerations); err != nil {
		return err
	}
	var refused error
	for _, wanted := range s.required() {
		err := p.compatible(wanted)
		if err == nil {
			return nil
		}
		refused = errors.Join(refused, err)
	}
	return refused
}

func (p Place) compatible(wanted scheduling.Requirements) error {
	if p.open {
		return p.labels.Compatible(wanted, scheduling.AllowUndefinedWellKnownLabels)
	}
	return p.labels.Compatible(wanted)
}

// lasting are the taints that keep pods away for good. PreferNoSchedule keeps nobody away: Karpenter gives way, as the scheduler does.
func lasting(taints []corev1.Taint) scheduling.Taints {
	return slices.DeleteFunc(slices.Clone(taints), passing)
}

// passing says whether a taint goes away by itself, or with castoff or Cluster Autoscaler.
func passing(t corev1.Taint) bool {
	return t.Effect == corev1.TaintEffectPreferNoSchedule || t.Key == v1alpha1.TaintLegacy || strings.HasPrefix(t.Key, "node.kubernetes.io/") ||
		t.Key == "ToBeDeletedByClusterAutoscaler"
}

// Tainted says that the group has nodes, and that each of them has a taint that keeps pods away for good.
func Tainted(nodes []Node, group string) bool {
	found := false
	for _, n := range nodes {
		if n.Group != group || group == "" {
			continue
		}
		if found = len(lasting(n.Taints)) > 0; !found {
			return false
		}
	}
	return found
}

// Asks are the label keys that decide where pods of the shape can run.
func (s *Shape) Asks() []string {
	var keys []string
	for _, alternative := range s.required() {
		keys = append(keys, slices.Collect(maps.Keys(alternative))...)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// required are the alternatives of what the shape asks of a node: its selector with each term of its required affinity.
func (s *Shape) required() []scheduling.Requirements {
	terms := []corev1.NodeSelectorTerm{{}}
	if s.Affinity != nil && s.Affinity.NodeAffinity != nil && s.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		terms = s.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	}
	var out []scheduling.Requirements
	for _, term := range terms {
		r := scheduling.NewLabelRequirements(s.NodeSelector)
		r.Add(scheduling.NewNodeSelectorRequirements(term.MatchExpressions...).Values()...)
		out = append(out, r)
	}
	return out
}
