package controllers

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/helm"
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

// actLimit is for how long new actions begin in one reconcile. What is left over is decided anew at the next look, by what is true then.
const actLimit = 5 * time.Second

// act makes the actions in their order, those on different nodes that follow each other side by side. One that fails does not stop the
// others: the planner ordered them so that none relies on what is not in the world yet. Only the end of the context, or of actLimit, does.
func (r *Reconciler) act(ctx context.Context, m *v1alpha1.Migration, w plan.World, actions []plan.Action) []result {
	until := r.Observer.Clock().Add(actLimit)
	var out []result
	failed := map[string]bool{}
	for len(actions) > 0 {
		if failed[plan.NodeOf(actions[0])] { // it relies on what just failed
			actions = actions[1:]
			continue
		}
		n := max(1, sideBySide(actions, failed))
		results := make([]*result, n)
		together(r.Options.NodesAtOnce, n, func(i int) {
			if r.Observer.Clock().Before(until) && !r.superseded(ctx, m) { // a pause must not wait for the rest of what was decided before it
				results[i] = r.try(ctx, m, w, actions[i])
			}
		})
		over := false
		for _, res := range results {
			if over = over || res == nil; res == nil {
				continue
			}
			out = append(out, *res)
			if node := plan.NodeOf(res.action); node != "" && res.err != nil {
				failed[node] = true
			}
		}
		if over {
			break
		}
		actions = actions[n:]
	}
	return out
}

func (r *Reconciler) try(ctx context.Context, m *v1alpha1.Migration, w plan.World, a plan.Action) *result {
	res := &result{action: a, err: ctx.Err()}
	if res.err == nil {
		res.err = r.do(ctx, m, w, a, res)
		r.Observer.drains.touched(plan.NodeOf(a))
	}
	actionsTotal.WithLabelValues(actionName(a), string(outcomeOf(res.err))).Inc()
	return res
}

// sideBySide is how many of the next actions are each about a node of its own, on which nothing failed.
func sideBySide(actions []plan.Action, failed map[string]bool) int {
	seen := map[string]bool{"": true}
	for i, a := range actions {
		node := plan.NodeOf(a)
		if seen[node] || failed[node] {
			return i
		}
		seen[node] = true
	}
	return len(actions)
}

// together calls do for 0 to n-1, so many at once; with at most one at once in the caller's own goroutine. A panic of one is the caller's.
func together(atOnce, n int, do func(int)) {
	if atOnce <= 1 || n == 1 {
		for i := range n {
			do(i)
		}
		return
	}
	panics := make(chan any, n)
	var g errgroup.Group
	g.SetLimit(atOnce)
	for i := range n {
		g.Go(func() error {
			defer func() { panics <- recover() }()
			do(i)
			return nil
		})
	}
	_ = g.Wait()
	for range n {
		if p := <-panics; p != nil {
			panic(p) //nolint:forbidigo // not castoff's: it is only brought to where the runtime would have it
		}
	}
}

// superseded says that somebody changed what is wanted since it was read. A read that fails says nothing.
func (r *Reconciler) superseded(ctx context.Context, m *v1alpha1.Migration) bool {
	now := &v1alpha1.Migration{}
	if err := r.Observer.Client.Get(ctx, client.ObjectKeyFromObject(m), now); err != nil {
		return apierrors.IsNotFound(err)
	}
	return now.Generation > m.Generation
}

// do is the only switch from an action to a call, in four parts: Karpenter and what it needs, nodes, Cluster Autoscaler,
// node groups.
//
//nolint:gocyclo // one line a case; a closed set is easiest to check in one place
func (r *Reconciler) do(ctx context.Context, m *v1alpha1.Migration, w plan.World, action plan.Action, res *result) (err error) {
	p := r.Observer.Ports
	switch a := action.(type) {
	case plan.SaveSnapshot:
		res.snapshot, err = r.saveSnapshot(ctx, m, a.Snapshot)
	case plan.EnsureNodeClass:
		err = p.Provisioner.EnsureNodeClass(ctx, a.NodeClass)
	case plan.StartCanary:
		err = p.Provisioner.StartCanary(ctx, a.Target.Pool, &a.Target.NodeClass, &a.Target.NodePool, ownerOf(m))
	case plan.MarkCanaryPassed:
		err = p.Provisioner.MarkCanaryPassed(ctx, a.Pool, a.Hash)
	case plan.EndCanary:
		if a.Failed != "" {
			err = p.Provisioner.MarkCanaryFailed(ctx, a.Pool, a.Hash, a.Failed)
		}
		if err == nil {
			err = p.Provisioner.EndCanary(ctx, a.Pool)
		}
	case plan.EnsureNodePool:
		err = p.Provisioner.EnsureNodePool(ctx, a.NodePool)
	case plan.DeleteNodePool:
		err = p.Provisioner.DeleteNodePool(ctx, a.NodePool)
	case plan.DeleteNodeClass:
		err = p.Provisioner.DeleteNodeClass(ctx, a.NodeClass)
	case plan.EndNodeClaim:
		err = r.endNodeClaim(ctx, a)
	case plan.EvictPods:
		var d inventory.DrainState
		d, err = p.Drainer.Pass(ctx, a.Node, a.Allow)
		res.drain = &d
	case plan.WarmNode:
		err = p.Drainer.Warm(ctx, a.Node, a.Pool, ownerOf(m))
	case plan.DropPlaceholders:
		err = p.Drainer.Drop(ctx, a.Names)
	case plan.InstallCRDs:
		err = r.withRelease(m, w, func(release helm.Release) error { return p.Releases.ApplyCRDs(ctx, release) })
	case plan.RemoveCRDs:
		err = p.Releases.RemoveCRDs(ctx)
	case plan.InstallEngine:
		err = r.withRelease(m, w, func(release helm.Release) error { _, err := p.Releases.Apply(ctx, release); return err })
	case plan.UninstallEngine:
		err = r.withRelease(m, w, func(release helm.Release) error { return p.Releases.Uninstall(ctx, release) })
	case plan.EnsureInterruption:
		err = p.Interruption.Ensure(ctx, w.Cluster)
	case plan.RemoveInterruption:
		err = p.Interruption.Remove(ctx, w.Cluster)
	case plan.EnsureIdentity:
		err = p.Identity.Ensure(ctx, w.Cluster, w.NodePolicies)
	case plan.RemoveIdentity:
		err = p.Identity.Remove(ctx, w.Cluster)
	case plan.EndInstances:
		err = r.endDrained(ctx, a)
	default:
		err = r.doToNode(ctx, action)
	}
	return err
}

func (r *Reconciler) withRelease(m *v1alpha1.Migration, w plan.World, do func(helm.Release) error) error {
	release, err := r.Observer.engineRelease(m, w)
	if err != nil {
		return err
	}
	return do(release)
}

// doToNode makes a change to a node.
func (r *Reconciler) doToNode(ctx context.Context, action plan.Action) error {
	drainer := r.Observer.Ports.Drainer
	switch a := action.(type) {
	case plan.MarkNode:
		return drainer.Mark(ctx, a.Node, a.Pool)
	case plan.FenceNode:
		return drainer.Fence(ctx, a.Node, a.Pool)
	case plan.CordonNode:
		return drainer.Cordon(ctx, a.Node)
	case plan.ReleaseNode:
		return drainer.Release(ctx, a.Node)
	case plan.HoldNode:
		return drainer.Hold(ctx, a.Node, a.Pool)
	case plan.RestoreNode:
		return drainer.Restore(ctx, a.Node, a.Pool, a.From)
	case plan.UnmarkNode:
		return drainer.Unmark(ctx, a.Node)
	case plan.BeginDrain:
		return drainer.Begin(ctx, a.Node)
	}
	return r.doToAutoscaler(ctx, action)
}

// doToAutoscaler makes a change to a Cluster Autoscaler, to its Lease, or to what it left.
func (r *Reconciler) doToAutoscaler(ctx context.Context, action plan.Action) error {
	autoscalers := r.Observer.Ports.Autoscalers
	switch a := action.(type) {
	case plan.HoldLease:
		return autoscalers.HoldLease(ctx, a.Lease, v1alpha1.LeaseIdentity)
	case plan.RetakeLease:
		return autoscalers.HoldLease(ctx, a.Lease, v1alpha1.LeaseIdentity)
	case plan.LetGoLease:
		return autoscalers.LetGoLease(ctx, a.Lease, v1alpha1.LeaseIdentity)
	case plan.StripLeftovers:
		return autoscalers.StripLeftovers(ctx, a.Node)
	case plan.StopAutoscaler:
		return autoscalers.Stop(ctx, a.Autoscaler)
	case plan.StartAutoscaler:
		return autoscalers.Start(ctx, a.Autoscaler, a.Replicas)
	case plan.DeleteAutoscaler:
		return autoscalers.Delete(ctx, a.Autoscaler)
	case plan.DeleteTerminationHandler:
		return autoscalers.DeleteTerminationHandler(ctx, a.Handler)
	}
	return doToGroup(ctx, r.Observer.Ports.NodeGroups, action)
}

// doToGroup makes a change to a node group.
func doToGroup(ctx context.Context, groups NodeGroups, action plan.Action) error {
	switch a := action.(type) {
	case plan.DisablePolicies:
		return groups.DisablePolicies(ctx, a.Group, a.Names)
	case plan.EnablePolicies:
		return groups.EnablePolicies(ctx, a.Recorded, a.Names)
	case plan.DeletePolicies:
		return groups.DeletePolicies(ctx, a.Group, a.Names)
	case plan.DeleteScheduledActions:
		return groups.DeleteScheduledActions(ctx, a.Group, a.Names)
	case plan.PutScheduledActions:
		return groups.PutScheduledActions(ctx, a.Group, a.Actions)
	case plan.SuspendProcesses:
		return groups.SuspendProcesses(ctx, a.Group, a.Processes)
	case plan.ResumeProcesses:
		return groups.ResumeProcesses(ctx, a.Group, a.Processes)
	case plan.HideGroup:
		return groups.HideGroup(ctx, a.Group, a.Keys)
	case plan.ShowGroup:
		return groups.ShowGroup(ctx, a.Group, a.Tags)
	case plan.SetRebalance:
		return groups.SetCapacityRebalance(ctx, a.Group, a.On)
	case plan.SetLifetime:
		return groups.SetMaxInstanceLifetime(ctx, a.Group, a.Seconds)
	case plan.SetGroupSize:
		return groups.SetSize(ctx, a.Group, a.Min, a.Max, a.Desired)
	case plan.DeleteGroup:
		return groups.DeleteGroup(ctx, a.Group)
	}
	return inventory.Terminal(fmt.Errorf("castoff cannot make the change %s: this is a bug, please report it", actionName(action)))
}

// saveSnapshot takes the snapshot. From before it on a deleted Migration stays until it has come to rest.
func (r *Reconciler) saveSnapshot(ctx context.Context, m *v1alpha1.Migration, s *inventory.Snapshot) (string, error) {
	if controllerutil.AddFinalizer(m, v1alpha1.Finalizer) {
		if err := r.updateMeta(ctx, m); err != nil {
			return "", err
		}
	}
	return r.Observer.Ports.Snapshots.Save(ctx, m.Name, s)
}

// updateMeta writes the Migration's metadata, if nobody wrote it since. The status is not part of it, and is kept as it was
// worked out.
func (r *Reconciler) updateMeta(ctx context.Context, m *v1alpha1.Migration) error {
	status := m.Status.DeepCopy()
	if err := r.Observer.Client.Update(ctx, m); err != nil {
		return fmt.Errorf("writing the finalizers of Migration %s: %w", m.Name, err)
	}
	m.Status = *status
	return nil
}

// endNodeClaim looks once more, past every cache, at the pods of a node of Karpenter's before it ends.
func (r *Reconciler) endNodeClaim(ctx context.Context, a plan.EndNodeClaim) error {
	if a.Node != "" {
		if err := r.empty(ctx, a.Node); err != nil {
			return err
		}
	}
	return r.Observer.Ports.Provisioner.DeleteNodeClaim(ctx, a.NodeClaim)
}

// endDrained looks at every instance's node once more before it ends it, and past every cache at the node's pods: a pod that
// was bound since the look, or a node that an instance joined as since then, must not go with it.
func (r *Reconciler) endDrained(ctx context.Context, a plan.EndInstances) error {
	nodes, err := r.Observer.nodes(ctx)
	if err != nil {
		return err
	}
	ids, err := r.Observer.inService(ctx, a.Group, a.IDs)
	if err != nil {
		return err
	}
	for _, id := range ids {
		for _, n := range nodes {
			if n.InstanceID != id {
				continue
			}
			if err := r.empty(ctx, n.Name); err != nil {
				return err
			}
		}
	}
	if len(ids) == 0 {
		return nil // somebody ended them
	}
	return r.Observer.Ports.NodeGroups.EndInstances(ctx, a.Group, ids)
}

// empty says why a node may not end yet.
func (r *Reconciler) empty(ctx context.Context, node string) error {
	d, err := r.Observer.Ports.Drainer.State(ctx, node)
	if err != nil {
		return fmt.Errorf("looking at node %s before it ends: %w", node, err)
	}
	if d.Evictable > 0 {
		return fmt.Errorf("node %s has %d evictable pods again, so it stays for now", node, d.Evictable)
	}
	return nil
}

func ownerOf(m *v1alpha1.Migration) metav1.OwnerReference {
	return *metav1.NewControllerRef(m, v1alpha1.GroupVersion.WithKind("Migration"))
}
