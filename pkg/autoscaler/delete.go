package autoscaler

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/inventory/kubeapi"
)

// deleteRight says where castoff's right to delete comes from: only whoever wants the deletion gives it.
const deleteRight = " (chart value clusterAutoscaler.delete, and the names beside it)"

// Delete removes a Cluster Autoscaler that is stopped: its Lease, if castoff holds it, and the Deployment that was seen. What is
// gone already is fine. *RunningError means that it has replicas, *ReplacedError that it is not the Deployment that was seen.
func (c *Client) Delete(ctx context.Context, a inventory.Autoscaler) error {
	name := a.Deployment.String()
	deployment := new(appsv1.Deployment)
	err := c.live.Get(ctx, a.Deployment, deployment)
	switch {
	case apierrors.IsNotFound(err):
		return c.deleteLease(ctx, a)
	case err != nil:
		return wrap(err, "get", "deployments", name)
	case deployment.UID != a.UID:
		return &ReplacedError{Object: "Deployment " + name}
	}
	if replicas := max(ptr.Deref(deployment.Spec.Replicas, 1), deployment.Status.Replicas); replicas > 0 {
		return &RunningError{Deployment: name, Replicas: replicas, Owner: inventory.OwnerOf(deployment)}
	}
	// Whether the Deployment may be deleted is asked before the Lease goes: without that right the Lease is the second lock still.
	if err := c.remove(ctx, deployment, "deployments", client.DryRunAll); err != nil {
		return err
	}
	// The Lease goes first: once the Deployment is gone nothing would lead back to it, and the next Cluster Autoscaler would wait
	// for LeaseDuration.
	if err := c.deleteLease(ctx, a); err != nil {
		return err
	}
	return c.remove(ctx, deployment, "deployments")
}

// deleteLease leaves a Lease that castoff does not hold: somebody else's leader election goes by it.
func (c *Client) deleteLease(ctx context.Context, a inventory.Autoscaler) error {
	lease := new(coordinationv1.Lease)
	if err := c.live.Get(ctx, a.Lease, lease); err != nil {
		return wrap(client.IgnoreNotFound(err), "get", "leases", a.Lease.String())
	}
	if ptr.Deref(lease.Spec.HolderIdentity, "") != v1alpha1.LeaseIdentity {
		return nil
	}
	return c.remove(ctx, lease, "leases")
}

// remove deletes that very object as it was read, never its namesake nor what it has become, and its dependents after it.
func (c *Client) remove(ctx context.Context, object client.Object, resource string, options ...client.DeleteOption) error {
	err := c.client.Delete(ctx, object, append(options, client.PropagationPolicy(metav1.DeletePropagationBackground),
		client.Preconditions{UID: ptr.To(object.GetUID()), ResourceVersion: ptr.To(object.GetResourceVersion())})...)
	return kubeapi.Wrap(client.IgnoreNotFound(err), "delete", resource, client.ObjectKeyFromObject(object).String(), deleteRight)
}
