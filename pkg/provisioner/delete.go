package provisioner

import (
	"context"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/inventory/kubeapi"
)

// DeleteNodePool deletes one of castoff's NodePools without nodes; Karpenter would drain those that are left, all at once. What
// is gone or on its way is fine. *InUseError names NodeClaims that are left, *ForeignError (terminal) means that it is not
// castoff's.
func (c *Client) DeleteNodePool(ctx context.Context, name string) error {
	return c.delete(ctx, new(karpv1.NodePool), nodePools, name, func() ([]string, error) {
		claims := new(karpv1.NodeClaimList)
		err := c.live.List(ctx, claims, client.MatchingLabels{karpv1.NodePoolLabelKey: name})
		return namesOf(claims.Items, func(claim *karpv1.NodeClaim) string { return "NodeClaim " + claim.Name }),
			kubeapi.Wrap(ifServed(err), "list", nodeClaims, "of NodePool "+name)
	})
}

// DeleteNodeClass deletes one of castoff's EC2NodeClasses that no NodePool uses; it goes once its last NodeClaim has. What is gone
// or on its way is fine. *InUseError names NodePools that use it, *ForeignError (terminal) means that it is not castoff's.
func (c *Client) DeleteNodeClass(ctx context.Context, name string) error {
	return c.delete(ctx, new(awsv1.EC2NodeClass), nodeClasses, name, func() ([]string, error) {
		pools := new(karpv1.NodePoolList)
		err := c.live.List(ctx, pools)
		return namesOf(pools.Items, func(pool *karpv1.NodePool) string {
			if ref := pool.Spec.Template.Spec.NodeClassRef; ref == nil || ref.Kind != "EC2NodeClass" || ref.Name != name || pool.DeletionTimestamp != nil {
				return ""
			}
			return "NodePool " + pool.Name
		}), kubeapi.Wrap(ifServed(err), "list", nodePools, "of the cluster")
	})
}

// DeleteNodeClaim ends a node of one of castoff's NodePools, or a launch: Karpenter evicts what is left on it by the
// PodDisruptionBudgets, then ends the instance. What is gone or on its way is fine. *ForeignError (terminal) means that it is not
// castoff's.
func (c *Client) DeleteNodeClaim(ctx context.Context, name string) error {
	claim := new(karpv1.NodeClaim)
	if err := c.live.Get(ctx, client.ObjectKey{Name: name}, claim); err != nil {
		return kubeapi.Wrap(ifServed(err), "get", nodeClaims, name)
	}
	if claim.DeletionTimestamp != nil {
		return nil
	}
	pool := new(karpv1.NodePool) // a NodeClaim has no mark of its own
	if err := c.live.Get(ctx, client.ObjectKey{Name: claim.Labels[karpv1.NodePoolLabelKey]}, pool); client.IgnoreNotFound(err) != nil {
		return kubeapi.Wrap(err, "get", nodePools, claim.Labels[karpv1.NodePoolLabelKey])
	}
	if pool.Labels[v1alpha1.LabelPool] == "" {
		return inventory.Terminal(&ForeignError{Object: nodeClaims + " " + name + " of NodePool " + claim.Labels[karpv1.NodePoolLabelKey], Mark: v1alpha1.LabelPool})
	}
	return c.remove(ctx, claim, nodeClaims)
}

// delete reads the object past the cache and deletes that very one, if it is castoff's and nothing uses it.
func (c *Client) delete(ctx context.Context, object client.Object, resource, name string, users func() ([]string, error)) error {
	if err := c.live.Get(ctx, client.ObjectKey{Name: name}, object); err != nil {
		return kubeapi.Wrap(ifServed(err), "get", resource, name)
	}
	if object.GetLabels()[v1alpha1.LabelPool] == "" {
		return inventory.Terminal(&ForeignError{Object: resource + " " + name, Mark: v1alpha1.LabelPool})
	}
	if object.GetDeletionTimestamp() != nil {
		return nil
	}
	names, err := users()
	if err != nil {
		return err
	}
	if len(names) > 0 {
		return &InUseError{Object: resource + " " + name, Users: names}
	}
	return c.remove(ctx, object, resource)
}

// ifServed leaves out an error by which there is nothing of the kind.
func ifServed(err error) error {
	if notServed(err) {
		return nil
	}
	return err
}

// namesOf leaves out the items without a name.
func namesOf[T any](items []T, name func(*T) string) []string {
	var names []string
	for i := range items {
		if n := name(&items[i]); n != "" {
			names = append(names, n)
		}
	}
	return names
}
