package translate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// The tags by which Cluster Autoscaler knows a group at size zero, and is tuned for it (its AWS provider's README).
const (
	tagTemplate = "k8s.io/cluster-autoscaler/node-template/"
	tagLabel    = tagTemplate + "label/"
	tagTaint    = tagTemplate + "taint/"
)

// labelsAndTaints come from EKS, from the user data, and from Cluster Autoscaler's tags, in this order of authority.
func (p *pool) labelsAndTaints() (map[string]string, []corev1.Taint) {
	labels := map[string]string{}
	var taints []corev1.Taint
	for _, g := range p.groups {
		if g.Managed != nil {
			p.addLabels(g, labels, g.Managed.Labels)
			taints = p.addTaints(g, taints, g.Managed.Taints)
		}
		u := readUserData(g.LaunchTemplate.UserData)
		p.addLabels(g, labels, u.labels)
		taints = p.addTaints(g, taints, u.taints)
		fromTags, tagged := p.fromTags(g)
		p.addLabels(g, labels, fromTags)
		taints = p.addTaints(g, taints, tagged)
	}
	if len(labels) == 0 {
		labels = nil
	}
	return labels, taints
}

// addLabels adds what is not there yet, and lists what Karpenter refuses in a template.
func (p *pool) addLabels(g inventory.NodeGroup, to, from map[string]string) {
	for _, k := range sortedKeys(from) {
		v := from[k]
		have, there := to[k]
		switch {
		case there && have == v:
		case there:
			p.note(g, "label "+k+"="+v, "Another source, or another group of the pool, says "+have+", and the nodes of a NodePool have one value.",
				"Give the groups the same value, or put them into pools of their own.")
		case karpv1.WellKnownLabels.Has(k):
			p.note(g, "label "+k, "Karpenter sets this label itself, from the instance it launches.", "Nothing, unless a workload needs exactly "+v+": then select by a label of your own.")
		case restricted(k):
			p.note(g, "label "+k, "The label's domain is reserved by Karpenter.", "Use a label of your own, here and in the workloads that select by it.")
		case len(validation.IsQualifiedName(k)) > 0 || len(validation.IsValidLabelValue(v)) > 0:
			p.note(g, "label "+k, "Key or value is no valid Kubernetes label.", "Rename it.")
		default:
			to[k] = v
		}
	}
}

// restricted says whether a NodePool refuses the label: Karpenter's code does so by the key's domain, its definition by what the
// part before the slash ends in.
func restricted(key string) bool {
	domain, _, _ := strings.Cut(key, "/")
	for reserved := range karpv1.RestrictedLabelDomains {
		if strings.HasSuffix(domain, reserved) {
			return true
		}
	}
	return karpv1.IsRestrictedLabel(key) != nil
}

// addTaints adds what is not there yet, and lists what Karpenter refuses. A node has one taint of a key and an effect.
func (p *pool) addTaints(g inventory.NodeGroup, to, from []corev1.Taint) []corev1.Taint {
	for _, t := range from {
		t.TimeAdded = nil
		i := slices.IndexFunc(to, func(o corev1.Taint) bool { return o.Key == t.Key && o.Effect == t.Effect })
		switch {
		case i >= 0 && to[i].Value == t.Value:
		case i >= 0:
			p.note(g, "taint "+t.ToString(), "Another source, or another group of the pool, says "+to[i].ToString()+", and a node has one taint of a key and an effect.",
				"Give the groups the same value, or put them into pools of their own.")
		case !validTaint(t):
			p.note(g, "taint "+t.ToString(), "Key, value or effect is not valid in Kubernetes.", "Rename it, here and in the tolerations.")
		default:
			to = append(to, t)
		}
	}
	return to
}

// validTaint is stricter than Kubernetes in the value, as Karpenter is.
func validTaint(t corev1.Taint) bool {
	return knownEffect(t.Effect) && len(validation.IsQualifiedName(t.Key)) == 0 && (t.Value == "" || len(validation.IsQualifiedName(t.Value)) == 0)
}

// fromTags reads labels and taints out of Cluster Autoscaler's tags, and lists its tuning of the group.
func (p *pool) fromTags(g inventory.NodeGroup) (map[string]string, []corev1.Taint) {
	labels := map[string]string{}
	var taints []corev1.Taint
	for _, t := range byKey(g.Tags) {
		if k, ok := strings.CutPrefix(t.Key, tagLabel); ok {
			labels[k] = t.Value
			continue
		}
		if k, ok := strings.CutPrefix(t.Key, tagTaint); ok {
			if parsed, ok := taint(k, t.Value); ok {
				taints = append(taints, parsed)
				continue
			}
			p.note(g, "tag "+t.Key+"="+t.Value, "The value is not written as value:Effect, so Cluster Autoscaler reads no taint from it either.", "Nothing, or mend the tag.")
			continue
		}
		if strings.HasPrefix(t.Key, tagTemplate) {
			p.note(g, "tag "+t.Key, "It tunes Cluster Autoscaler for this group; Karpenter reads no tags.", "Resources: nothing, Karpenter knows its instance types. Scale-down options: see spec.disruption of the NodePool.")
		}
	}
	return labels, taints
}

// byKey puts tags in order: AWS promises none, and what is reported must not change from look to look.
func byKey(tags []inventory.Tag) []inventory.Tag {
	return slices.SortedStableFunc(slices.Values(tags), func(a, b inventory.Tag) int { return cmp.Compare(a.Key, b.Key) })
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func distribution(m *inventory.MixedInstances) string {
	if m == nil {
		return ""
	}
	return fmt.Sprintf(" (base %d, %d%% on-demand above it)", m.OnDemandBase, m.OnDemandPercentage)
}
