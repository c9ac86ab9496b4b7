package autoscaler

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// Stop asks for no replicas of a Cluster Autoscaler, and does nothing where none is asked for or the Deployment is gone. That
// its pods are gone is for Find to see, and so is a HorizontalPodAutoscaler that was about to write: it rests once it sees no
// replicas. *ReplacedError means that it is not the Deployment that was seen.
func (c *Client) Stop(ctx context.Context, a inventory.Autoscaler) error {
	return client.IgnoreNotFound(c.scale(ctx, a, 0))
}

// Start asks for as many replicas of a Cluster Autoscaler, and does nothing where they are asked for already. That it leads is
// for Find to see. *ReplacedError means that it is not the Deployment that was seen; one that is gone is an error, too.
func (c *Client) Start(ctx context.Context, a inventory.Autoscaler, replicas int32) error {
	err := c.scale(ctx, a, replicas)
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("deployment %s is gone and cannot be started; make it again as it was, the snapshot has its arguments: %w", a.Deployment, err)
	}
	return err
}

// scale sets replicas, unless the Deployment is another one or has them.
func (c *Client) scale(ctx context.Context, a inventory.Autoscaler, replicas int32) error {
	name := a.Deployment.String()
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: a.Deployment.Namespace, Name: a.Deployment.Name}}
	scale := new(autoscalingv1.Scale)
	if err := c.client.SubResource("scale").Get(ctx, deployment, scale); err != nil {
		return wrap(err, "get", "deployments/scale", name)
	}
	if scale.UID != a.UID {
		return &ReplacedError{Object: "Deployment " + name}
	}
	if scale.Spec.Replicas == replicas {
		return nil
	}
	scale.Spec.Replicas = replicas // the resourceVersion that was read goes along: whoever scales at the same time wins, and we look again
	err := c.client.SubResource("scale").Update(ctx, deployment, client.WithSubResourceBody(scale))
	return wrap(err, "update", "deployments/scale", name)
}
