package controllers

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// hostKeys are the keys by which volumes are bound to one node: Kubernetes' own, and those of the drivers of local disks that have
// their own (TopoLVM, OpenEBS LVM and ZFS, OpenEBS Mayastor, the CSI host path driver, Longhorn's strict locality uses the first).
var hostKeys = []string{corev1.LabelHostname, "topology.topolvm.io/node", "topology.topolvm.cybozu.com/node", "openebs.io/nodename", "openebs.io/nodeid", "topology.hostpath.csi/node"}

// zoneKeys are the labels by which volumes from before node affinity say where they are; the scheduler still goes by them (its
// VolumeZone plugin), and several zones of one volume are joined by two underscores.
var zoneKeys = []string{corev1.LabelTopologyZone, corev1.LabelTopologyRegion, corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion}

// claimOf is the claim that the volume is bound to, as far as it has one.
func claimOf(v *corev1.PersistentVolume) inventory.Claim {
	c := inventory.Claim{Volume: v.Name, Affinity: reachable(v)}
	if ref := v.Spec.ClaimRef; ref != nil {
		c.NamespacedName = types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
	}
	c.Local = v.Spec.Local != nil || v.Spec.HostPath != nil || boundToHost(c.Affinity)
	c.Shared = slices.ContainsFunc(v.Spec.AccessModes, func(m corev1.PersistentVolumeAccessMode) bool {
		return m == corev1.ReadWriteMany || m == corev1.ReadOnlyMany
	})
	return c
}

// reachable is from where the volume can be used: what it requires of nodes, or its zone labels.
func reachable(v *corev1.PersistentVolume) *corev1.NodeSelector {
	if a := v.Spec.NodeAffinity; a != nil && a.Required != nil {
		return a.Required
	}
	var term corev1.NodeSelectorTerm
	for _, key := range zoneKeys {
		if zones := v.Labels[key]; zones != "" {
			term.MatchExpressions = append(term.MatchExpressions, corev1.NodeSelectorRequirement{
				Key: key, Operator: corev1.NodeSelectorOpIn, Values: strings.Split(zones, "__"),
			})
		}
	}
	if term.MatchExpressions == nil {
		return nil
	}
	return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{term}}
}

// boundToHost says that each of the alternatives names hosts.
func boundToHost(s *corev1.NodeSelector) bool {
	if s == nil || len(s.NodeSelectorTerms) == 0 {
		return false
	}
	return !slices.ContainsFunc(s.NodeSelectorTerms, func(t corev1.NodeSelectorTerm) bool {
		return len(t.MatchFields) == 0 && !slices.ContainsFunc(t.MatchExpressions, func(r corev1.NodeSelectorRequirement) bool {
			return r.Operator == corev1.NodeSelectorOpIn && slices.Contains(hostKeys, r.Key)
		})
	})
}
