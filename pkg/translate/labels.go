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
	tagOptions  = tagTemplate + "autoscaling-options/"
)

// The labels that EKS gives the nodes of a managed node group. Those in eksDescribes say how it launched them.
const (
	labelNodeGroup    = "eks.amazonaws.com/nodegroup"
	labelCapacityType = "eks.amazonaws.com/capacityType"
)

var eksDescribes = []string{"eks.amazonaws.com/nodegroup-image", "eks.amazonaws.com/sourceLaunchTemplateId", "eks.amazonaws.com/sourceLaunchTemplateVersion"}

// The taints that a daemon takes off when it is up: Karpenter has to know them as such, or it takes the node for full and launches
// another. Cluster Autoscaler knows its own by the prefixes (its FAQ), CSI drivers and CNIs share the suffix.
var (
	startupPrefixes = []string{"startup-taint.cluster-autoscaler.kubernetes.io/", "ignore-taint.cluster-autoscaler.kubernetes.io/"}
	startupSuffixes = []string{"/agent-not-ready", "/driver-not-ready"}
)

func startup(t corev1.Taint) bool {
	return slices.ContainsFunc(startupPrefixes, func(s string) bool { return strings.HasPrefix(t.Key, s) }) ||
		slices.ContainsFunc(startupSuffixes, func(s string) bool { return strings.HasSuffix(t.Key, s) })
}

// splitTaints tells lasting taints from those that go when the node is up.
func splitTaints(all []corev1.Taint) (lasting, startups []corev1.Taint) {
	for _, t := range all {
		if startup(t) {
			startups = append(startups, t)
		} else {
			lasting = append(lasting, t)
		}
	}
	return lasting, startups
}

// labelsAndTaints come from EKS, from the user data, and from Cluster Autoscaler's tags, in this order of authority.
func (p *pool) labelsAndTaints() (map[string]string, []corev1.Taint) {
	labels := map[string]string{}
	var taints []corev1.Taint
	for _, g := range p.groups {
		if g.Managed != nil {
			p.addLabels(g, labels, g.Managed.Labels)
			p.addLabels(g, labels, p.eksLabels(g))
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
		case slices.Contains(eksDescribes, k):
			p.note(g, "label "+k, "It says how EKS launched the node, and Karpenter launches it now.", "Nothing, unless a workload selects by it: then select by a label of your own.")
		case (k == labelNodeGroup && len(p.groups) > 1) || (k == labelCapacityType && v != p.eksCapacityType()):
			p.note(g, "label "+k, "The pool's nodes are not all of this one, so the label would not be true.", "Put the group into a pool of its own if a workload selects by it.")
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
			if p.stale(g, k, t.Value) {
				continue
			}
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
			if strings.EqualFold(strings.TrimPrefix(t.Key, tagOptions), optionUnneeded) {
				continue // it is the NodePool's consolidateAfter
			}
			p.note(g, "tag "+t.Key, "It tunes Cluster Autoscaler for this group; Karpenter reads no tags.", "Resources: nothing, Karpenter knows its instance types. Scale-down options: see spec.disruption of the NodePool.")
		}
	}
	return labels, taints
}

// eksLabels are what EKS adds to the node group's own labels, as far as they stay true.
func (p *pool) eksLabels(g inventory.NodeGroup) map[string]string {
	out := map[string]string{}
	if len(p.groups) == 1 {
		out[labelNodeGroup] = g.Name
	}
	if c := p.eksCapacityType(); c != "" {
		out[labelCapacityType] = c
	}
	return out
}

// eksCapacityType is EKS's word for what all groups of the pool launch; empty where they launch both.
func (p *pool) eksCapacityType() string {
	spot, onDemand := false, false
	for _, g := range p.groups {
		s, o := capacityOf(g)
		spot, onDemand = spot || s, onDemand || o
	}
	switch {
	case spot && onDemand:
		return ""
	case spot:
		return "SPOT"
	}
	return "ON_DEMAND"
}

// stale says whether a tag claims a label that the group's nodes do not have: tags describe nodes to Cluster Autoscaler, they do
// not label them.
func (p *pool) stale(g inventory.NodeGroup, key, value string) bool {
	have, ok := g.NodeLabels[key]
	if g.NodeLabels == nil || (ok && have == value) {
		return false
	}
	p.note(g, "tag "+tagLabel+key+"="+value, "The group's nodes do not have this label; a tag only describes nodes to Cluster Autoscaler.", "Nothing, or label the nodes where they are launched.")
	return true
}

// noteNodeLabels lists labels that all nodes of the group have and that no source explains: somebody put them there by hand, or a
// daemon does.
func (p *pool) noteNodeLabels(g inventory.NodeGroup, carried map[string]string) {
	for _, k := range sortedKeys(g.NodeLabels) {
		domain, _, _ := strings.Cut(k, "/")
		_, beta := karpv1.NormalizedLabels[k]
		switch {
		case carried[k] == g.NodeLabels[k], beta, karpv1.WellKnownLabels.Has(k), restricted(k), slices.Contains(eksDescribes, k):
		case slices.ContainsFunc(systemDomains, func(s string) bool { return domain == s || strings.HasSuffix(domain, "."+s) }):
		default:
			p.note(g, "node label "+k+"="+g.NodeLabels[k], "All nodes of the group have it, but nothing that launches them sets it: a hand or a daemon did.", "Add it to the NodePool's template if workloads select by it and no daemon sets it.")
		}
	}
}

// noteNodeTaints says that nodes keep pods away and no source explains it, as noteNodeLabels does of labels.
func (p *pool) noteNodeTaints(g inventory.NodeGroup, carried []corev1.Taint) {
	if g.Tainted && len(carried) == 0 {
		p.note(g, "node taints", "All nodes of the group have taints, but nothing that launches them sets one: a hand or a daemon did.", "Add them to the NodePool's template if they are meant to stay and no daemon sets them.")
	}
}

// systemDomains are those of labels that the kubelet, the cloud provider, CSI drivers and AWS's daemons set on every node.
var systemDomains = []string{"kubernetes.io", "k8s.io", "amazonaws.com", "csi.aws.com", "eksctl.io", "node.openshift.io"}

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
