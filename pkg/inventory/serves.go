package inventory

import (
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/karpenter/pkg/scheduling"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// Refuses says why the target's nodes cannot take pods of that shape, nil if they can. It is Karpenter's own judgement of
// requirements, taints and tolerations (pkg/scheduling), with what is required and not what is preferred; room, spread and other
// pods have no say in it. The terms of a required node affinity are alternatives: one that fits is enough.
func (t Target) Refuses(s *Shape) error {
	template := t.NodePool.Spec.Template
	// PreferNoSchedule keeps nobody away: Karpenter gives way, as the scheduler does.
	taints := scheduling.Taints(slices.DeleteFunc(slices.Clone(template.Spec.Taints), func(t corev1.Taint) bool { return t.Effect == corev1.TaintEffectPreferNoSchedule }))
	if err := taints.Tolerates(s.Tolerations); err != nil {
		return err
	}
	offered := scheduling.NewNodeSelectorRequirementsWithMinValues(template.Spec.Requirements...)
	offered.Add(scheduling.NewLabelRequirements(template.Labels).Values()...)
	offered.Add(scheduling.NewLabelRequirements(map[string]string{karpv1.NodePoolLabelKey: t.NodePool.Name}).Values()...)
	var refused error
	for _, wanted := range s.required() {
		err := offered.Compatible(wanted, scheduling.AllowUndefinedWellKnownLabels)
		if err == nil {
			return nil
		}
		refused = errors.Join(refused, err)
	}
	return refused
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
