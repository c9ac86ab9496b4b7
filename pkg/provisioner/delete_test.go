package provisioner

import (
	"context"
	"errors"
	"testing"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// claimOf is a NodeClaim as Karpenter makes it: with its NodePool's name, and without a mark of castoff's.
func claimOf(name, pool string) *karpv1.NodeClaim { return nodeClaim(name, pool) }

func changed[T client.Object](object T, change func(T)) T {
	change(object)
	return object
}

func stranger(object client.Object) client.Object {
	labels := object.GetLabels()
	delete(labels, "castoff.sh/pool")
	object.SetLabels(labels)
	return object
}

// going is on its way, kept by Karpenter's finalizer.
func going(object client.Object) client.Object {
	object.SetFinalizers([]string{"karpenter.sh/termination"})
	object.SetDeletionTimestamp(ptr.To(metav1.NewTime(now)))
	return object
}

func using(class string) func(*karpv1.NodePool) {
	return func(p *karpv1.NodePool) { p.Spec.Template.Spec.NodeClassRef.Name = class }
}

func deletePool(ctx context.Context, c *Client) error  { return c.DeleteNodePool(ctx, "general") }
func deleteClass(ctx context.Context, c *Client) error { return c.DeleteNodeClass(ctx, "general") }
func deleteClaim(ctx context.Context, c *Client) error { return c.DeleteNodeClaim(ctx, "general-1") }

func TestDeleteKarpentersObjects(t *testing.T) {
	tests := map[string]struct {
		reason  string
		do      func(context.Context, *Client) error
		have    []client.Object
		deletes int
		users   []string // of an *InUseError
		foreign bool
	}{
		"Pool":        {reason: "it has no nodes", do: deletePool, have: []client.Object{nodePool("general"), claimOf("memory-1", "memory")}, deletes: 1},
		"PoolGone":    {reason: "nothing to do", do: deletePool},
		"PoolGoing":   {reason: "Karpenter is at it", do: deletePool, have: []client.Object{going(nodePool("general"))}},
		"PoolForeign": {reason: "somebody else's", do: deletePool, have: []client.Object{stranger(nodePool("general"))}, foreign: true},
		"PoolWithNodes": {
			reason: "Karpenter would drain them all at once", do: deletePool, users: []string{"NodeClaim general-1", "NodeClaim general-2"},
			have: []client.Object{nodePool("general"), claimOf("general-1", "general"), going(claimOf("general-2", "general"))},
		},
		"PoolWithStrangers": {
			reason: "whoever labelled its nodes otherwise", do: deletePool, users: []string{"NodeClaim general-1"},
			have: []client.Object{nodePool("general"), stranger(claimOf("general-1", "general"))},
		},
		"Class":        {reason: "nothing uses it", do: deleteClass, have: []client.Object{nodeClass("general"), nodePool("memory")}, deletes: 1},
		"ClassGone":    {reason: "nothing to do", do: deleteClass},
		"ClassGoing":   {reason: "it waits for its last NodeClaim", do: deleteClass, have: []client.Object{going(nodeClass("general"))}},
		"ClassForeign": {reason: "somebody else's", do: deleteClass, have: []client.Object{stranger(nodeClass("general"))}, foreign: true},
		"ClassInUse": {
			reason: "a user's own NodePool may have taken to it", do: deleteClass, users: []string{"NodePool batch", "NodePool general"},
			have: []client.Object{nodeClass("general"), nodePool("general"), stranger(changed(nodePool("batch"), using("general")))},
		},
		"ClassOfAPoolThatGoes": {
			reason: "that one launches nothing more", do: deleteClass, deletes: 1,
			have: []client.Object{nodeClass("general"), going(nodePool("general"))},
		},
		"ClassOfAnotherKind": {
			reason: "a name is not an EC2NodeClass, and a broken NodePool has none", do: deleteClass, deletes: 1,
			have: []client.Object{
				nodeClass("general"),
				changed(nodePool("a"), func(p *karpv1.NodePool) {
					p.Spec.Template.Spec.NodeClassRef.Kind, p.Spec.Template.Spec.NodeClassRef.Name = "KWOKNodeClass", "general"
				}),
				changed(nodePool("b"), func(p *karpv1.NodePool) { p.Spec.Template.Spec.NodeClassRef = nil }),
			},
		},
		"Claim":        {reason: "its node is drained", do: deleteClaim, have: []client.Object{claimOf("general-1", "general"), nodePool("general")}, deletes: 1},
		"ClaimGone":    {reason: "nothing to do", do: deleteClaim},
		"ClaimGoing":   {reason: "Karpenter is at it", do: deleteClaim, have: []client.Object{going(claimOf("general-1", "general"))}},
		"ClaimForeign": {reason: "of a NodePool that is not castoff's", do: deleteClaim, have: []client.Object{claimOf("general-1", "theirs"), stranger(nodePool("theirs"))}, foreign: true},
		"ClaimAlone":   {reason: "whose it is cannot be known any more", do: deleteClaim, have: []client.Object{claimOf("general-1", "general")}, foreign: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			deletes := 0
			c := fake.NewClientBuilder().WithObjects(tc.have...).WithInterceptorFuncs(interceptor.Funcs{
				Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
					deletes++
					return c.Delete(ctx, o, opts...)
				},
			}).Build()
			for range 2 { // the second time there is nothing more to do
				err := tc.do(t.Context(), with(c, "castoff-system"))
				inUse, _ := errors.AsType[*InUseError](err)
				switch {
				case tc.foreign:
					if _, ok := errors.AsType[*ForeignError](err); !ok || inventory.ClassOf(err) != inventory.ClassTerminal {
						t.Errorf("%s: want a terminal *ForeignError, got %v", tc.reason, err)
					}
				case len(tc.users) > 0:
					if inUse == nil || inventory.ClassOf(err) != inventory.ClassRetry || !cmp.Equal(tc.users, inUse.Users) {
						t.Errorf("%s: want an *InUseError with %v that is tried again, got %v", tc.reason, tc.users, err)
					}
				case err != nil:
					t.Errorf("%s: %v", tc.reason, err)
				}
			}
			if deletes != tc.deletes {
				t.Errorf("%s: want %d deleted, got %d", tc.reason, tc.deletes, deletes)
			}
		})
	}
}

// TestDeleteOnARealCluster: what was read is what goes, never a namesake that was made in between.
func TestDeleteOnARealCluster(t *testing.T) {
	create(t, nodePool("general"))
	create(t, nodeClass("general"))
	create(t, claimOf("general-1", "general"))
	withWatch, err := client.NewWithWatch(cluster.Config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	racing := interceptor.NewClient(withWatch, interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			if err := c.Delete(ctx, claimOf("general-1", "general")); err != nil {
				return err
			}
			if err := c.Create(ctx, claimOf("general-1", "general")); err != nil {
				return err
			}
			return c.Delete(ctx, o, opts...)
		},
	})
	if err := deleteClaim(t.Context(), with(racing, "castoff-system")); !apierrors.IsConflict(err) {
		t.Errorf("want a conflict, got %v", err)
	}
	read(t, new(karpv1.NodeClaim), "", "general-1") // the namesake

	for _, step := range []struct {
		reason string
		do     func(context.Context, *Client) error
		done   bool
	}{
		{"a class that is in use stays", deleteClass, false},
		{"a pool with nodes stays", deletePool, false},
		{"its last node", deleteClaim, true},
		{"so the pool may go", deletePool, true},
		{"and its class", deleteClass, true},
		{"nothing is left", deletePool, true},
	} {
		err := step.do(t.Context(), in("castoff-system"))
		if _, inUse := errors.AsType[*InUseError](err); inUse == step.done || (step.done && err != nil) {
			t.Errorf("%s: got %v", step.reason, err)
		}
	}
	engine, err := in("castoff-system").Observe(t.Context())
	if err != nil || len(engine.NodePools)+len(engine.NodeClasses)+len(engine.NodeClaims) != 0 {
		t.Errorf("want nothing left, got %+v, %v", engine, err)
	}
}

// TestDeleteReadsPastTheCache: a cache that is behind must not end nodes.
func TestDeleteReadsPastTheCache(t *testing.T) {
	stale := fake.NewClientBuilder().WithObjects(nodePool("general"), nodeClass("general")).Build()
	live := fake.NewClientBuilder().WithObjects(nodePool("general"), nodeClass("general"), claimOf("general-1", "general")).Build()
	c := New(stale, live, clock, Options{})
	if err := c.DeleteNodePool(t.Context(), "general"); !isInUse(err) {
		t.Errorf("want an *InUseError, got %v", err)
	}
	if err := c.DeleteNodeClass(t.Context(), "general"); !isInUse(err) {
		t.Errorf("want an *InUseError, got %v", err)
	}
	for _, object := range []client.Object{new(karpv1.NodePool), new(awsv1.EC2NodeClass)} {
		if err := stale.Get(t.Context(), client.ObjectKey{Name: "general"}, object); err != nil {
			t.Errorf("it was deleted: %v", err)
		}
	}
}

func isInUse(err error) bool {
	_, ok := errors.AsType[*InUseError](err)
	return ok
}
