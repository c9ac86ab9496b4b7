package preflight

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// The checks of volumes.
const (
	CheckLocalVolume      = "LocalVolume"
	CheckZonalVolume      = "ZonalVolume"
	CheckSingleNodeVolume = "SingleNodeVolume"
	CheckEmptyDir         = "EmptyDir"
	CheckHostPath         = "HostPath"
)

// localVolumes: a pod whose volume is on the disk of its node can run nowhere else. Evicted, it is made again and stays Pending for
// ever, its node never counts as empty, and when the instance ends the data is gone.
func localVolumes(in Input) []inventory.Finding {
	claims, told := indexClaims(in.Workloads.Claims), map[*inventory.Claim]bool{}
	var out []inventory.Finding
	for _, w := range in.workloads {
		for _, p := range w.pods {
			for _, c := range claims.of(p.Pod) {
				if c.Local && !told[c] { // one pod of several that share it
					told[c] = true
					out = append(out, w.about(block(CheckLocalVolume, "persistentvolume/"+c.Volume, "The volume of claim "+c.Namespace+"/"+c.Name+
						" is on node "+p.Node+" itself, and "+p.Object()+" could start nowhere else: evicted, its next pod stays Pending until the claim is deleted. Move the data to a volume of the network and delete the claim; or accept that it is lost with the node, and delete claim and pod once it was evicted.")))
				}
			}
		}
	}
	return out
}

// zoneLabels are the labels by which volumes say where they are: Kubernetes' own of now and of before, and the EBS CSI driver's.
var zoneLabels = []string{corev1.LabelTopologyZone, corev1.LabelFailureDomainBetaZone, "topology.ebs.csi.aws.com/zone", "topology.k8s.aws/zone"}

// zonalVolumes: an EBS volume cannot leave its zone. Where Karpenter may launch in other zones only, its pod stays Pending.
func zonalVolumes(in Input) []inventory.Finding {
	claims, told := indexClaims(in.Workloads.Claims), map[*inventory.Claim]bool{}
	zones := map[string][]string{}
	for _, p := range in.Pools {
		zones[p.Name] = launchZones(in, p)
	}
	var out []inventory.Finding
	for _, w := range in.workloads {
		targets := in.places.of(in, w.shape).targets
		if len(targets) == 0 || slices.ContainsFunc(targets, func(pool string) bool { return len(zones[pool]) == 0 }) {
			continue // nobody takes it, which is another finding, or zones that are not known
		}
		for _, p := range w.pods {
			for _, c := range claims.of(p.Pod) {
				at := volumeZones(c.Affinity)
				if c.Local || told[c] || len(at) == 0 || slices.ContainsFunc(targets, func(pool string) bool { return meet(zones[pool], at) }) {
					continue
				}
				told[c] = true
				out = append(out, w.about(block(CheckZonalVolume, "persistentvolume/"+c.Volume, "The volume of claim "+c.Namespace+"/"+c.Name+" is in "+three(at)+
					", and no NodePool that takes "+p.Object()+" launches there, but in "+three(zones[targets[0]])+". Give a node group of pool "+targets[0]+" a subnet in that zone, or move the volume by a snapshot.")))
			}
		}
	}
	return out
}

// meet says whether the two share a zone.
func meet(a, b []string) bool {
	return slices.ContainsFunc(a, func(zone string) bool { return slices.Contains(b, zone) })
}

// launchZones are those that a pool's NodePool may launch in; none where that is not known.
func launchZones(in Input, p inventory.Pool) []string {
	for _, r := range in.Targets[p.Name].NodePool.Spec.Template.Spec.Requirements {
		if r.Key == corev1.LabelTopologyZone && r.Operator == corev1.NodeSelectorOpIn {
			return r.Values
		}
	}
	return zonesOf(in, p)
}

// volumeZones are the zones that the volume can be reached from; none where one of its terms names no zone.
func volumeZones(affinity *corev1.NodeSelector) []string {
	if affinity == nil {
		return nil
	}
	var out []string
	for _, term := range affinity.NodeSelectorTerms {
		here := termZones(term)
		if len(here) == 0 {
			return nil
		}
		out = append(out, here...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func termZones(term corev1.NodeSelectorTerm) []string {
	for _, e := range term.MatchExpressions {
		if e.Operator == corev1.NodeSelectorOpIn && slices.Contains(zoneLabels, e.Key) {
			return e.Values
		}
	}
	return nil
}

// singleNodeVolumes: a volume that one node at a time can have has to leave the old node before the new pod starts. That takes a
// minute, and six where the old instance ended first.
func singleNodeVolumes(in Input) []inventory.Finding {
	claims := indexClaims(in.Workloads.Claims)
	var out []inventory.Finding
	for _, n := range byPool(in.workloads, moves(func(w *workload) bool {
		return slices.ContainsFunc(w.pods, func(p moving) bool {
			return slices.ContainsFunc(claims.of(p.Pod), func(c *inventory.Claim) bool { return !c.Shared && !c.Local })
		})
	})) {
		out = append(out, n.about(warn(CheckSingleNodeVolume, n.object(in),
			"A pod of these starts only after its volume has left the old node and come to the new one, about a minute: "+n.list()+". Migrate their pool when that is bearable.")))
	}
	return out
}

// emptyDirs: what is in an emptyDir goes with the pod. Nearly every cluster has some that are scratch space, so it only warns.
func emptyDirs(in Input) []inventory.Finding {
	var out []inventory.Finding
	for _, n := range byPool(in.workloads, moves(func(w *workload) bool { return w.shape.EmptyDir })) {
		out = append(out, n.about(warn(CheckEmptyDir, n.object(in),
			"What these have in emptyDir volumes goes when their pods move: "+n.list()+". Keep what matters in a PersistentVolumeClaim.")))
	}
	return out
}

// hostPaths: what is in a hostPath stays behind on the old node, and the new one may not have the path at all.
func hostPaths(in Input) []inventory.Finding {
	var out []inventory.Finding
	for _, n := range byPool(in.workloads, moves(func(w *workload) bool { return w.shape.HostPath })) {
		out = append(out, n.about(warn(CheckHostPath, n.object(in),
			"These use a directory of their node, which stays behind: "+n.list()+". See that they find on a new node what they need, and keep what matters in a PersistentVolumeClaim.")))
	}
	return out
}
