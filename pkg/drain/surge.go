package drain

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/inventory/kubeapi"
)

// rollout is a Deployment and what this pass does about its pods.
type rollout struct {
	*appsv1.Deployment
	step inventory.SurgeStep
}

// surge says that the pod is not evicted, because its Deployment puts another in its place first; nil where it is evicted as usual.
func (p *pass) surge(ctx context.Context, pod *corev1.Pod) (*inventory.BlockedPod, error) {
	if p.allow.Surge == (inventory.Surge{}) || !controlledBy(pod, "ReplicaSet", "apps/") || p.plainly(ctx, pod) {
		return nil, nil
	}
	r, err := p.rolloutOf(ctx, pod)
	if err != nil {
		return nil, err
	}
	if r.step == inventory.SurgeRestart && kubeapi.Ready(pod) {
		if err := p.restart(ctx, pod, r); err != nil {
			return nil, err
		}
	}
	if r.step != inventory.SurgeAwait {
		return nil, nil
	}
	b := blocked(pod, inventory.BlockedSurging, "castoff restarted its Deployment, which takes it away when a new pod is Ready")
	b.Workload = "deployment/" + r.Namespace + "/" + r.Name
	return b, nil
}

// plainly says that the cache already shows a Deployment whose pods are evicted, as most are. What it does not show is read live.
func (p *pass) plainly(ctx context.Context, pod *corev1.Pod) bool {
	name, ok := strings.CutPrefix(workload(pod), "deployment/"+pod.Namespace+"/")
	d := new(appsv1.Deployment)
	return ok && p.client.Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: name}, d) == nil && p.allow.Surge.StepOf(d) == inventory.SurgeEvict
}

// rolloutOf reads the Deployment of a pod and decides, once in a pass.
func (p *pass) rolloutOf(ctx context.Context, pod *corev1.Pod) (*rollout, error) {
	set := metav1.GetControllerOf(pod).UID
	if r, known := p.rollouts[set]; known {
		return r, nil
	}
	d, err := p.readDeployment(ctx, pod)
	if err != nil {
		return nil, err
	}
	r := &rollout{d, inventory.SurgeEvict}
	if d != nil {
		r.step = p.allow.Surge.StepOf(d)
	}
	p.rollouts[set] = r
	return r, nil
}

// readDeployment is nil where the pod is not of one.
func (p *pass) readDeployment(ctx context.Context, pod *corev1.Pod) (*appsv1.Deployment, error) {
	set := new(appsv1.ReplicaSet)
	if err := p.live.Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: metav1.GetControllerOf(pod).Name}, set); err != nil {
		return nil, kubeapi.Wrap(client.IgnoreNotFound(err), "get", "replicasets", pod.Namespace+"/"+metav1.GetControllerOf(pod).Name)
	}
	owner := metav1.GetControllerOf(set)
	if owner == nil || owner.Kind != "Deployment" || set.UID != metav1.GetControllerOf(pod).UID {
		return nil, nil
	}
	d := new(appsv1.Deployment)
	if err := p.live.Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: owner.Name}, d); err != nil {
		return nil, kubeapi.Wrap(client.IgnoreNotFound(err), "get", "deployments", pod.Namespace+"/"+owner.Name)
	}
	if d.UID != owner.UID {
		return nil, nil
	}
	return d, nil
}

// restart restarts the pod's Deployment, if a second pod can run beside the first. The room that was kept for its pods of this node is
// its new pods': it is given free first, because after a crash in between the restart is made all the same, and the other way round
// the room would be lost to them.
func (p *pass) restart(ctx context.Context, pod *corev1.Pod, r *rollout) error {
	if alone, err := p.runsAlone(ctx, pod); alone || err != nil {
		r.step = inventory.SurgeEvict
		return err
	}
	if err := p.giveRoom(ctx, pod); err != nil {
		return err
	}
	d := r.DeepCopy()
	d.Annotations = with(d.Annotations, v1alpha1.AnnotationSurged, p.allow.Surge.For)
	// The node's own time, not this moment's: asked for twice it is the same restart.
	d.Spec.Template.Annotations = with(d.Spec.Template.Annotations, v1alpha1.AnnotationRestartedAt, p.node.Annotations[v1alpha1.AnnotationDraining])
	err := p.client.Patch(ctx, d, client.MergeFromWithOptions(r.Deployment, client.MergeFromWithOptimisticLock{}))
	switch {
	case err == nil, apierrors.IsConflict(err): // somebody changed it since: the next pass decides anew
		r.step = inventory.SurgeAwait
	case apierrors.IsNotFound(err):
		r.step = inventory.SurgeEvict
	case refused(err):
		r.step = inventory.SurgeEvict
		p.noted = append(p.noted, *blocked(pod, inventory.BlockedNotSurged, fmt.Sprintf(
			"evicted as usual, because the API server refused the restart of Deployment %s/%s (castoff's role needs the verb patch on deployments, chart value drain.surge): %v", d.Namespace, d.Name, err)))
	default:
		return kubeapi.Wrap(err, "patch", "deployments", d.Namespace+"/"+d.Name)
	}
	return nil
}

// refused says that the API server, or whoever it asked, does not want this: the same again fares no better.
func refused(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)
}

// giveRoom deletes the placeholders of the node's pods that are alike.
func (p *pass) giveRoom(ctx context.Context, pod *corev1.Pod) error {
	for i := range p.leaving {
		other := &p.leaving[i]
		if groupOf(other) != groupOf(pod) {
			continue
		}
		for _, r := range p.rooms {
			if slices.Contains(r.Pods, other.UID) {
				if err := p.drop(ctx, r.Name); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// runsAlone says that a second pod may find no place beside the first: a port of its node, or a volume that one node alone can have.
func (p *pass) runsAlone(ctx context.Context, pod *corev1.Pod) (bool, error) {
	if pod.Spec.HostNetwork || hasHostPort(pod) {
		return true, nil
	}
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim == nil { // a generic ephemeral one is each pod's own
			continue
		}
		pv, err := p.volume(ctx, types.NamespacedName{Namespace: pod.Namespace, Name: v.PersistentVolumeClaim.ClaimName})
		if err != nil {
			return false, err
		}
		if pv == nil || !shared(pv) {
			return true, nil
		}
	}
	return false, nil
}
