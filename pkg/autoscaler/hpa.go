package autoscaler

import (
	"context"
	"slices"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// readHPA names what else sets the Deployment's replicas. While they are 0 a HorizontalPodAutoscaler rests (Kubernetes,
// "Horizontal Pod Autoscaling", implicit maintenance-mode deactivation; its controller's shouldComputeMetricsForZeroReplicas),
// but KEDA's ScaledObject, which has one of its own as long as it is not paused (KEDA, "Pausing autoscaling"), scales up from 0
// itself: it is named, so that people know where to look.
func (c *Client) readHPA(ctx context.Context, a *inventory.Autoscaler) error {
	if !a.Scalable() {
		return nil // castoff does not stop it, so nothing could start it again behind its back
	}
	list := new(autoscalingv2.HorizontalPodAutoscalerList)
	if err := c.live.List(ctx, list, client.InNamespace(a.Deployment.Namespace)); err != nil {
		return wrap(err, "list", "horizontalpodautoscalers", "of namespace "+a.Deployment.Namespace)
	}
	// Two of them are a mistake (Kubernetes: AmbiguousSelector), and what is shown must not change by itself.
	slices.SortFunc(list.Items, func(a, b autoscalingv2.HorizontalPodAutoscaler) int { return strings.Compare(a.Name, b.Name) })
	for i := range list.Items {
		hpa := &list.Items[i]
		if !targets(hpa.Spec.ScaleTargetRef, a.Deployment.Name) {
			continue
		}
		a.HPA = &inventory.HorizontalAutoscaler{
			Name: hpa.Name,
			Min:  ptr.Deref(hpa.Spec.MinReplicas, 1), // the API's default
			Max:  hpa.Spec.MaxReplicas,
		}
		if maker := metav1.GetControllerOf(hpa); maker != nil {
			a.HPA.Name += " (of " + maker.Kind + " " + maker.Name + ")"
			if maker.Kind == "ScaledObject" {
				a.HPA.ScaledObject = maker.Name
			}
		}
		return nil
	}
	return nil
}

// targets goes by kind, name and group; the version does not matter.
func targets(ref autoscalingv2.CrossVersionObjectReference, deployment string) bool {
	return ref.Kind == "Deployment" && ref.Name == deployment && strings.HasPrefix(ref.APIVersion, "apps/")
}
