package provisioner

import (
	"context"
	"fmt"
	"maps"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/inventory/kubeapi"
)

const (
	nodePools   = "nodepools.karpenter.sh"
	nodeClasses = "ec2nodeclasses.karpenter.k8s.aws"
)

// EnsureNodeClass makes the EC2NodeClass as given: its spec exactly, its labels and annotations beside those of others. Nothing
// is written where nothing differs. *ForeignError (terminal) means that one of that name is not castoff's.
func (c *Client) EnsureNodeClass(ctx context.Context, want *awsv1.EC2NodeClass) error {
	spec, err := defaulted(want.Spec, nodeClassSchema)
	if err != nil {
		return fmt.Errorf("EC2NodeClass %s: %w", want.Name, err)
	}
	return ensure(ctx, c, target[*awsv1.EC2NodeClass]{
		resource: nodeClasses, mark: v1alpha1.LabelPool, want: want, have: new(awsv1.EC2NodeClass),
		shape: func(class *awsv1.EC2NodeClass) { class.Spec = spec },
	})
}

// EnsureNodePool makes the NodePool as given: its spec exactly, its labels and annotations beside those of others. Nothing is
// written where nothing differs. *ForeignError (terminal) means that one of that name is not castoff's.
func (c *Client) EnsureNodePool(ctx context.Context, want *karpv1.NodePool) error {
	return c.ensureNodePool(ctx, want, v1alpha1.LabelPool)
}

func (c *Client) ensureNodePool(ctx context.Context, want *karpv1.NodePool, mark string) error {
	spec, err := defaulted(want.Spec, nodePoolSchema)
	if err != nil {
		return fmt.Errorf("NodePool %s: %w", want.Name, err)
	}
	return ensure(ctx, c, target[*karpv1.NodePool]{
		resource: nodePools, mark: mark, want: want, have: new(karpv1.NodePool),
		shape: func(pool *karpv1.NodePool) { pool.Spec = spec },
	})
}

// target is an object as it should be.
type target[T client.Object] struct {
	resource string
	mark     string // the label by which castoff knows its own
	want     T
	have     T // empty; filled with what is there
	shape    func(T)
}

// ensure creates or updates the target, with the resourceVersion that was compared: whoever wrote meanwhile is looked at first.
func ensure[T client.Object](ctx context.Context, c *Client, t target[T]) error {
	name := t.want.GetName()
	if t.want.GetLabels()[t.mark] == "" {
		return fmt.Errorf("%s %s lacks the label %s, by which castoff would know it again", t.resource, name, t.mark)
	}
	err := c.live.Get(ctx, client.ObjectKeyFromObject(t.want), t.have)
	if apierrors.IsNotFound(err) {
		fresh := copyOf(t.want)
		fresh.SetResourceVersion("")
		return kubeapi.Wrap(c.client.Create(ctx, fresh), "create", t.resource, name)
	}
	if err != nil {
		return kubeapi.Wrap(err, "get", t.resource, name)
	}
	if t.have.GetLabels()[t.mark] == "" {
		return inventory.Terminal(&ForeignError{Object: t.resource + " " + name, Mark: t.mark})
	}
	if t.have.GetDeletionTimestamp() != nil {
		return fmt.Errorf("%s %s is being deleted; castoff makes it anew once it is gone", t.resource, name)
	}
	update := copyOf(t.have)
	t.shape(update)
	update.SetLabels(merge(update.GetLabels(), t.want.GetLabels()))
	update.SetAnnotations(merge(update.GetAnnotations(), t.want.GetAnnotations()))
	if equality.Semantic.DeepEqual(t.have, update) {
		return nil
	}
	return kubeapi.Wrap(c.client.Update(ctx, update), "update", t.resource, name)
}

func copyOf[T client.Object](object T) T {
	return object.DeepCopyObject().(T) //nolint:forcetypeassert // a copy has its original's type
}

func merge(base, over map[string]string) map[string]string {
	result := maps.Clone(base)
	if result == nil {
		result = map[string]string{}
	}
	maps.Copy(result, over)
	return result
}
