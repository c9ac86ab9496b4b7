package drain

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/inventory/kubeapi"
)

// claims are the PersistentVolumeClaims of a pod, those of its generic ephemeral volumes too: they are named after pod and volume.
func claims(pod *corev1.Pod) []types.NamespacedName {
	var out []types.NamespacedName
	for _, v := range pod.Spec.Volumes {
		switch {
		case v.PersistentVolumeClaim != nil:
			out = append(out, types.NamespacedName{Namespace: pod.Namespace, Name: v.PersistentVolumeClaim.ClaimName})
		case v.Ephemeral != nil:
			out = append(out, types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name + "-" + v.Name})
		}
	}
	return out
}

// volume is what a claim is bound to; nil if it is bound to nothing, or gone. It reads past the cache: a cache of all claims and
// volumes would be for these few.
func (d *Drainer) volume(ctx context.Context, claim types.NamespacedName) (*corev1.PersistentVolume, error) {
	pvc := new(corev1.PersistentVolumeClaim)
	if err := d.live.Get(ctx, claim, pvc); err != nil {
		return nil, kubeapi.Wrap(client.IgnoreNotFound(err), "get", "persistentvolumeclaims", claim.String())
	}
	if pvc.Spec.VolumeName == "" {
		return nil, nil
	}
	return d.volumeNamed(ctx, pvc.Spec.VolumeName)
}

func (d *Drainer) volumeNamed(ctx context.Context, name string) (*corev1.PersistentVolume, error) {
	pv := new(corev1.PersistentVolume)
	if err := d.live.Get(ctx, client.ObjectKey{Name: name}, pv); err != nil {
		return nil, kubeapi.Wrap(client.IgnoreNotFound(err), "get", "persistentvolumes", name)
	}
	return pv, nil
}

// attached lists the volumes that are still attached to a node whose pods have left: an instance that ends under them leaves the
// volume attached for six minutes more, and its pod waiting elsewhere. What stays to the end keeps its volumes, and a volume that
// many nodes may have is not waited for.
func (d *Drainer) attached(ctx context.Context, node string, staying map[types.NamespacedName]bool) ([]string, error) {
	attachments := new(storagev1.VolumeAttachmentList)
	if err := d.client.List(ctx, attachments); err != nil {
		return nil, kubeapi.Wrap(err, "list", "volumeattachments", "of the cluster")
	}
	var out []string
	for _, a := range attachments.Items {
		name := a.Spec.Source.PersistentVolumeName
		if a.Spec.NodeName != node || name == nil {
			continue
		}
		pv, err := d.volumeNamed(ctx, *name)
		if err != nil {
			return nil, err
		}
		if pv == nil {
			out = append(out, *name) // deleted before it was detached
			continue
		}
		claim := types.NamespacedName{}
		if ref := pv.Spec.ClaimRef; ref != nil {
			claim = types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
		}
		if !staying[claim] && !shared(pv) {
			out = append(out, fmt.Sprintf("%s (claim %s)", pv.Name, claim))
		}
	}
	slices.Sort(out)
	return out, nil
}

// shared volumes may be attached to many nodes at once.
func shared(pv *corev1.PersistentVolume) bool {
	return slices.Contains(pv.Spec.AccessModes, corev1.ReadWriteMany) || slices.Contains(pv.Spec.AccessModes, corev1.ReadOnlyMany)
}

// leftBehind says that a volume of the pod is this node's own: evicted, the pod would wait for the node for ever.
func (p *pass) leftBehind(ctx context.Context, pod *corev1.Pod) (*inventory.BlockedPod, error) {
	for _, claim := range claims(pod) {
		pv, err := p.volume(ctx, claim)
		if err != nil {
			return nil, err
		}
		if pv == nil || !pinned(pv, p.node) {
			continue
		}
		b := blocked(pod, inventory.BlockedLocalVolume, fmt.Sprintf(
			"its PersistentVolume %s (claim %s) is on this node's own disk, so it could run nowhere else: move its data, or accept the risk LocalVolume for persistentvolume/%s, and it is evicted without them",
			pv.Name, claim, pv.Name))
		if b.Volume = pv.Name; !p.allow.Allows(*b) {
			return b, nil
		}
	}
	return nil, nil
}

// pinned volumes are local ones, those of hostPath, and those whose every term names this node, whatever the driver's key for that.
func pinned(pv *corev1.PersistentVolume, node *corev1.Node) bool {
	if pv.Spec.Local != nil || pv.Spec.HostPath != nil {
		return true
	}
	if pv.Spec.NodeAffinity == nil || pv.Spec.NodeAffinity.Required == nil || len(pv.Spec.NodeAffinity.Required.NodeSelectorTerms) == 0 {
		return false
	}
	names := []string{node.Name, node.Labels[corev1.LabelHostname]}
	ownOnly := func(r corev1.NodeSelectorRequirement) bool {
		return r.Operator == corev1.NodeSelectorOpIn && len(r.Values) > 0 &&
			!slices.ContainsFunc(r.Values, func(value string) bool { return !slices.Contains(names, value) })
	}
	return !slices.ContainsFunc(pv.Spec.NodeAffinity.Required.NodeSelectorTerms, func(t corev1.NodeSelectorTerm) bool {
		return !slices.ContainsFunc(append(slices.Clone(t.MatchExpressions), t.MatchFields...), ownOnly)
	})
}
