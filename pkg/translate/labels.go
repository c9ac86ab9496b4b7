package translate

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// The tags by which Cluster Autoscaler knows the labels and taints of a group at size zero (its AWS provider's README).
const (
	tagLabel = "k8s.io/cluster-autoscaler/node-template/label/"
	tagTaint = "k8s.io/cluster-autoscaler/node-template/taint/"
)

// kubelet's flags, as bootstrap.sh passes them on in --kubelet-extra-args and nodeadm in spec.kubelet.flags.
var (
	flagLabels = regexp.MustCompile(`--node-labels[= ]([^\s'"]+)`)
	flagTaints = regexp.MustCompile(`--register-with-taints[= ]([^\s'"]+)`)
)

// labelsAndTaints come from EKS, from the user data's kubelet flags, and from Cluster Autoscaler's tags, in this order of
// authority.
func (p *pool) labelsAndTaints() (map[string]string, []corev1.Taint) {
	labels := map[string]string{}
	var taints []corev1.Taint
	for _, g := range p.groups {
		if g.Managed != nil {
			p.addLabels(g, labels, g.Managed.Labels)
			taints = addTaints(taints, g.Managed.Taints)
		}
		fromFlags, flagged := fromUserData(g.LaunchTemplate.UserData)
		p.addLabels(g, labels, fromFlags)
		taints = addTaints(taints, flagged)
		fromTags, tagged := fromTags(g.Tags)
		p.addLabels(g, labels, fromTags)
		taints = addTaints(taints, tagged)
	}
	if len(labels) == 0 {
		labels = nil
	}
	return labels, taints
}

// addLabels adds what is not there yet, and lists what Karpenter refuses in a template.
func (p *pool) addLabels(g inventory.NodeGroup, to, from map[string]string) {
	for _, k := range slices.Sorted(maps.Keys(from)) {
		v := from[k]
		if _, there := to[k]; there {
			continue
		}
		switch {
		case karpv1.WellKnownLabels.Has(k):
			p.note(g, "label "+k, "Karpenter sets this label itself, from the instance it launches.", "Nothing, unless a workload needs exactly "+v+": then select by a label of your own.")
		case karpv1.IsRestrictedLabel(k) != nil:
			p.note(g, "label "+k, "The label's domain is reserved by Karpenter.", "Use a label of your own, here and in the workloads that select by it.")
		case len(validation.IsQualifiedName(k)) > 0 || len(validation.IsValidLabelValue(v)) > 0:
			p.note(g, "label "+k, "Key or value is no valid Kubernetes label.", "Rename it.")
		default:
			to[k] = v
		}
	}
}

func addTaints(to, from []corev1.Taint) []corev1.Taint {
	for _, t := range from {
		t.TimeAdded = nil
		if !slices.ContainsFunc(to, func(o corev1.Taint) bool { return o.Key == t.Key && o.Effect == t.Effect }) {
			to = append(to, t)
		}
	}
	return to
}

func fromUserData(userData string) (map[string]string, []corev1.Taint) {
	labels := map[string]string{}
	var taints []corev1.Taint
	for _, m := range flagLabels.FindAllStringSubmatch(userData, -1) {
		for _, pair := range strings.Split(m[1], ",") {
			if k, v, ok := strings.Cut(pair, "="); ok {
				labels[k] = v
			}
		}
	}
	for _, m := range flagTaints.FindAllStringSubmatch(userData, -1) {
		for _, s := range strings.Split(m[1], ",") {
			key, valueEffect, _ := strings.Cut(s, "=")
			if !strings.Contains(s, "=") {
				key, valueEffect, _ = strings.Cut(s, ":")
				valueEffect = ":" + valueEffect
			}
			if t, ok := taint(key, valueEffect); ok {
				taints = append(taints, t)
			}
		}
	}
	return labels, taints
}

func fromTags(tags []inventory.Tag) (map[string]string, []corev1.Taint) {
	labels := map[string]string{}
	var taints []corev1.Taint
	for _, t := range tags {
		if k, ok := strings.CutPrefix(t.Key, tagLabel); ok {
			labels[k] = t.Value
		}
		if k, ok := strings.CutPrefix(t.Key, tagTaint); ok {
			if parsed, ok := taint(k, t.Value); ok {
				taints = append(taints, parsed)
			}
		}
	}
	return labels, taints
}

// taint reads "value:Effect" for a key.
func taint(key, valueEffect string) (corev1.Taint, bool) {
	i := strings.LastIndexByte(valueEffect, ':')
	if key == "" || i < 0 {
		return corev1.Taint{}, false
	}
	effect := corev1.TaintEffect(valueEffect[i+1:])
	switch effect {
	case corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
		return corev1.Taint{Key: key, Value: valueEffect[:i], Effect: effect}, true
	}
	return corev1.Taint{}, false
}

func distribution(m *inventory.MixedInstances) string {
	if m == nil {
		return ""
	}
	return fmt.Sprintf(" (base %d, %d%% on-demand above it)", m.OnDemandBase, m.OnDemandPercentage)
}
