package autoscaler

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// LeaseDuration is what castoff's record says. Cluster Autoscaler 1.27 and later waits for the record's duration, not its own,
// so one renewal in an hour keeps it a standby.
const LeaseDuration = time.Hour

// HoldLease makes identity the holder of a leader-election Lease: it creates the Lease, takes it over from whoever has it, or
// renews it, in which case renewTime alone changes. Whether it may be taken is the caller's to know: a leader that runs acts
// for 10 s more. It fails with a conflict if somebody else wrote the Lease at the same time.
func (c *Client) HoldLease(ctx context.Context, lease types.NamespacedName, identity string) error {
	now := metav1.NewMicroTime(c.clock())
	record := new(coordinationv1.Lease)
	err := c.live.Get(ctx, lease, record)
	if apierrors.IsNotFound(err) {
		record.Namespace, record.Name = lease.Namespace, lease.Name
		take(&record.Spec, identity, now)
		return wrap(c.client.Create(ctx, record), "create", "leases", lease.String())
	}
	if err != nil {
		return wrap(err, "get", "leases", lease.String())
	}
	if ptr.Deref(record.Spec.HolderIdentity, "") == identity {
		record.Spec.RenewTime = &now
	} else {
		record.Spec.LeaseTransitions = ptr.To(ptr.Deref(record.Spec.LeaseTransitions, 0) + 1)
		take(&record.Spec, identity, now)
	}
	return wrap(c.client.Update(ctx, record), "update", "leases", lease.String())
}

// LetGoLease gives a Lease up that identity holds, as client-go's own leader election does on its way out: whoever waits for it
// takes it within 2 s, not after LeaseDuration. A Lease that is another's, or gone, is left. It fails with a conflict if somebody
// else wrote the Lease at the same time.
func (c *Client) LetGoLease(ctx context.Context, lease types.NamespacedName, identity string) error {
	record := new(coordinationv1.Lease)
	if err := c.live.Get(ctx, lease, record); err != nil {
		return wrap(client.IgnoreNotFound(err), "get", "leases", lease.String())
	}
	if ptr.Deref(record.Spec.HolderIdentity, "") != identity {
		return nil
	}
	record.Spec.HolderIdentity = ptr.To("")
	record.Spec.LeaseDurationSeconds = ptr.To[int32](1) // the least that the API allows
	return wrap(client.IgnoreNotFound(c.client.Update(ctx, record)), "update", "leases", lease.String())
}

func take(spec *coordinationv1.LeaseSpec, identity string, now metav1.MicroTime) {
	spec.HolderIdentity = &identity
	spec.LeaseDurationSeconds = ptr.To(int32(LeaseDuration / time.Second))
	spec.AcquireTime, spec.RenewTime = &now, &now
	if spec.LeaseTransitions == nil {
		spec.LeaseTransitions = ptr.To[int32](0)
	}
}
