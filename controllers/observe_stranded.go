package controllers

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// strandedPods are those that wait for a node and have a volume on the disk of one. Nobody is asked about volumes but where the user
// accepts that one is lost: elsewhere castoff leaves such a pod where it is.
func (o *Observer) strandedPods(ctx context.Context, risks []v1alpha1.AcceptedRisk) ([]inventory.StrandedPod, error) {
	if !slices.ContainsFunc(risks, func(r v1alpha1.AcceptedRisk) bool { return r.Check == string(inventory.BlockedLocalVolume) }) {
		return nil, nil
	}
	var waiting []corev1.Pod
	err := o.eachPod(ctx, func(p *corev1.Pod) {
		if waits(p) {
			waiting = append(waiting, *p)
		}
	}, client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("spec.nodeName", "")})
	if err != nil {
		return nil, err
	}
	var out []inventory.StrandedPod
	for i := range waiting {
		s, err := o.strandedBy(ctx, &waiting[i])
		if err != nil {
			return nil, err
		}
		if s != nil {
			out = append(out, *s)
		}
	}
	return out, nil
}

// strandedBy is the first of the pod's volumes that is on a node's disk; nil where none is.
func (o *Observer) strandedBy(ctx context.Context, p *corev1.Pod) (*inventory.StrandedPod, error) {
	for _, v := range p.Spec.Volumes {
		if v.PersistentVolumeClaim == nil {
			continue
		}
		key := types.NamespacedName{Namespace: p.Namespace, Name: v.PersistentVolumeClaim.ClaimName}
		var claim corev1.PersistentVolumeClaim
		if err := o.Live.Get(ctx, key, &claim); client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("reading claim %s of the waiting pod %s: %w", key, p.Name, err)
		}
		if claim.Spec.VolumeName == "" {
			continue
		}
		var volume corev1.PersistentVolume
		if err := o.Live.Get(ctx, types.NamespacedName{Name: claim.Spec.VolumeName}, &volume); client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("reading PersistentVolume %s of the waiting pod %s/%s: %w", claim.Spec.VolumeName, p.Namespace, p.Name, err)
		}
		if at := hosts(reachable(&volume)); len(at) > 0 {
			return &inventory.StrandedPod{Pod: client.ObjectKeyFromObject(p), Claim: key, Volume: volume.Name, Hosts: at}, nil
		}
	}
	return nil, nil
}

// hosts are the nodes that the selector names, none where it names others than nodes.
func hosts(s *corev1.NodeSelector) []string {
	if !boundToHost(s) {
		return nil
	}
	var out []string
	for _, t := range s.NodeSelectorTerms {
		for _, r := range t.MatchExpressions {
			if r.Operator == corev1.NodeSelectorOpIn && slices.Contains(hostKeys, r.Key) {
				out = append(out, r.Values...)
			}
		}
		for _, r := range t.MatchFields {
			out = append(out, r.Values...) // a field of nodes can only be their name
		}
	}
	return out
}
