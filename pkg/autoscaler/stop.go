package autoscaler

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// Stop asks for no replicas of a Cluster Autoscaler, and does nothing where none is asked for or the Deployment is gone. That
// its pods are gone is for Find to see. *ReplacedError means that it is not the Deployment that was seen, *ScaledError (terminal)
// that something else sets its replicas.
func (c *Client) Stop(ctx context.Context, a inventory.Autoscaler) error {
	name := a.Deployment.String()
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: a.Deployment.Namespace, Name: a.Deployment.Name}}
	scale := new(autoscalingv1.Scale)
	if err := c.client.SubResource("scale").Get(ctx, deployment, scale); err != nil {
		return wrap(client.IgnoreNotFound(err), "get", "deployments/scale", name)
	}
	if scale.UID != a.UID {
		return &ReplacedError{Deployment: name}
	}
	if scale.Spec.Replicas == 0 {
		return nil
	}
	if err := c.refuseScaled(ctx, a); err != nil {
		return err
	}
	scale.Spec.Replicas = 0 // the resourceVersion that was read goes along: whoever scales at the same time wins, and we look again
	err := c.client.SubResource("scale").Update(ctx, deployment, client.WithSubResourceBody(scale))
	return wrap(client.IgnoreNotFound(err), "update", "deployments/scale", name)
}

func (c *Client) refuseScaled(ctx context.Context, a inventory.Autoscaler) error {
	list := new(autoscalingv2.HorizontalPodAutoscalerList)
	if err := c.live.List(ctx, list, client.InNamespace(a.Deployment.Namespace)); err != nil {
		return wrap(err, "list", "horizontalpodautoscalers", "of namespace "+a.Deployment.Namespace)
	}
	for _, hpa := range list.Items {
		if target := hpa.Spec.ScaleTargetRef; target.Kind == "Deployment" && target.Name == a.Deployment.Name {
			return inventory.Terminal(&ScaledError{Deployment: a.Deployment.String(), Autoscaler: hpa.Namespace + "/" + hpa.Name})
		}
	}
	return nil
}
