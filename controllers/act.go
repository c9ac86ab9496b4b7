package controllers

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/plan"
)

// result is what became of one action.
type result struct {
	action plan.Action
	err    error
	// drain is what a pass left on a node.
	drain *inventory.DrainState
	// snapshot is the digest of a snapshot that was saved.
	snapshot string
}

// act makes the actions in their order. One that fails does not stop the others: the planner ordered them so that none
// relies on what is not in the world yet. Only the end of the context does.
func (r *Reconciler) act(ctx context.Context, m *v1alpha1.Migration, w plan.World, actions []plan.Action) []result {
	var out []result
	for _, a := range actions {
		if ctx.Err() != nil {
			out = append(out, result{action: a, err: ctx.Err()})
			continue
		}
		res := result{action: a}
		res.err = r.do(ctx, m, w, a, &res)
		actionsTotal.WithLabelValues(actionName(a), string(outcomeOf(res.err))).Inc()
		out = append(out, res)
	}
	return out
}

// do is the only switch from an action to a call.
//
//nolint:gocyclo // one line a case; a closed set is easiest to check in one place
func (r *Reconciler) do(ctx context.Context, m *v1alpha1.Migration, w plan.World, action plan.Action, res *result) (err error) {
	p := r.Observer.Ports
	switch a := action.(type) {
	case plan.SaveSnapshot:
		res.snapshot, err = p.Snapshots.Save(ctx, m.Name, a.Snapshot)
	case plan.MarkNode:
		err = p.Drainer.Mark(ctx, a.Node, a.Pool)
	case plan.EnsureNodeClass:
		err = p.Provisioner.EnsureNodeClass(ctx, a.NodeClass)
	case plan.StartCanary:
		err = p.Provisioner.StartCanary(ctx, a.Target.Pool, &a.Target.NodeClass, &a.Target.NodePool, ownerOf(m))
	case plan.MarkCanaryPassed:
		err = p.Provisioner.MarkCanaryPassed(ctx, a.Pool, a.Hash)
	case plan.EndCanary:
		err = p.Provisioner.EndCanary(ctx, a.Pool)
	case plan.HoldLease:
		err = p.Autoscalers.HoldLease(ctx, a.Lease, v1alpha1.LeaseIdentity)
	case plan.StripLeftovers:
		err = p.Autoscalers.StripLeftovers(ctx, a.Node)
	case plan.EnsureNodePool:
		err = p.Provisioner.EnsureNodePool(ctx, a.NodePool)
	case plan.FenceNode:
		err = p.Drainer.Fence(ctx, a.Node, a.Pool)
	case plan.BeginDrain:
		err = p.Drainer.Begin(ctx, a.Node)
	case plan.EvictPods:
		var d inventory.DrainState
		d, err = p.Drainer.Pass(ctx, a.Node)
		res.drain = &d
	case plan.StopAutoscaler:
		err = p.Autoscalers.Stop(ctx, a.Autoscaler)
	case plan.InstallCRDs:
		err = p.Releases.ApplyCRDs(ctx)
	case plan.InstallEngine:
		_, err = p.Releases.Apply(ctx, r.Observer.engineRelease(w))
	case plan.EnsureInterruption:
		err = p.Interruption.Ensure(ctx, w.Cluster)
	case plan.EnsureIdentity:
		err = p.Identity.Ensure(ctx, w.Cluster, w.NodePolicies)
	case plan.DisablePolicies:
		err = p.NodeGroups.DisablePolicies(ctx, a.Group, a.Names)
	case plan.DeleteScheduledActions:
		err = p.NodeGroups.DeleteScheduledActions(ctx, a.Group, a.Names)
	case plan.SuspendProcesses:
		err = p.NodeGroups.SuspendProcesses(ctx, a.Group, a.Processes)
	case plan.StopRebalance:
		err = p.NodeGroups.SetCapacityRebalance(ctx, a.Group, false)
	case plan.KeepInstances:
		err = p.NodeGroups.SetMaxInstanceLifetime(ctx, a.Group, 0)
	case plan.SetGroupSize:
		err = p.NodeGroups.SetSize(ctx, a.Group, a.Min, a.Max, a.Desired)
	case plan.EndInstances:
		err = r.endDrained(ctx, a)
	default:
		err = inventory.Terminal(fmt.Errorf("castoff cannot make the change %s: this is a bug, please report it", actionName(a)))
	}
	return err
}

// endDrained looks at every instance's node once more before it ends it, and past every cache at the node's pods: a pod that
// was bound since the look, or a node that an instance joined as since then, must not go with it.
func (r *Reconciler) endDrained(ctx context.Context, a plan.EndInstances) error {
	nodes, err := r.Observer.nodes(ctx)
	if err != nil {
		return err
	}
	for _, id := range a.IDs {
		for _, n := range nodes {
			if n.InstanceID != id {
				continue
			}
			d, err := r.Observer.Ports.Drainer.State(ctx, n.Name)
			if err != nil {
				return fmt.Errorf("looking at node %s before its instance %s ends: %w", n.Name, id, err)
			}
			if d.Evictable > 0 {
				return fmt.Errorf("node %s has %d evictable pods again, so instance %s stays for now", n.Name, d.Evictable, id)
			}
		}
	}
	return r.Observer.Ports.NodeGroups.EndInstances(ctx, a.Group, a.IDs)
}

func ownerOf(m *v1alpha1.Migration) metav1.OwnerReference {
	return *metav1.NewControllerRef(m, v1alpha1.GroupVersion.WithKind("Migration"))
}
