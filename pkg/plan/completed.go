package plan

import (
	"fmt"
	"slices"
	"time"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// defaultRetention is the API's default of decommission.retentionSeconds, for a Migration that no API server defaulted.
const defaultRetention = 86400

// bootGrace is for how long a new node may be NotReady before anybody is told.
const bootGrace = 5 * time.Minute

// blinkGrace is the same for one that was Ready: a kubelet that restarts is NotReady for a moment.
const blinkGrace = 2 * time.Minute

// completedReached: every pool is empty, at its end size, and soaked.
func completedReached(l look) bool {
	if l.Snapshot == nil || len(l.pools) == 0 {
		return false
	}
	for _, p := range l.pools {
		if !p.gone() || settlePool(&outcome{}, l, p) {
			return false
		}
	}
	return true
}

// completed watches the new nodes, and deletes what the user wants deleted once retention is over and it is approved. The
// Lease is renewed by the hand-over's step.
func completed(_ *ledger, l look) outcome {
	o := outcome{until: l.now.Add(guard)}
	if sick := sickNodes(l); len(sick) > 0 {
		o.warn(v1alpha1.ReasonNodesNotReady, "nodes", fmt.Sprintf("%d of Karpenter's nodes are not Ready: %s. If they are Unauthorized, the role %s has lost its access to the cluster: castoff gives it back where it can (condition ProvisionerReady).",
			len(sick), some(sick), l.Identity.NodeRole))
	}
	retire(&o, l)
	o.done = o.idle()
	return o
}

// sickNodes are those of Karpenter's nodes that should be Ready and are not. Deleting a node group may take the node role's
// access away hours later (facts: EKS removes a role from aws-auth that no other group uses).
func sickNodes(l look) []string {
	var sick []string
	for _, p := range l.pools {
		leaving := map[string]bool{}
		for _, c := range claimsOf(l, p) {
			leaving[c.Node] = c.Deleting
		}
		for _, n := range karpenterNodes(l, p) {
			if !n.Ready && !leaving[n.Name] && l.now.Sub(n.Created) > bootGrace && l.now.Sub(n.ReadyChanged) > blinkGrace {
				sick = append(sick, n.Name)
			}
		}
	}
	return sick
}

// some names at most three, and counts the others.
func some(names []string) string {
	if len(names) > mostNamed {
		return fmt.Sprintf("%s and %d more", list(names[:mostNamed]), len(names)-mostNamed)
	}
	return list(names)
}

// wantsDeletion says that the user wants something deleted at the end.
func wantsDeletion(m *v1alpha1.Migration) bool {
	d := m.Spec.Decommission
	return d.Mode == v1alpha1.DecommissionDelete || d.ClusterAutoscaler == v1alpha1.DecommissionDelete
}

// retention is when the way back may be closed; zero before completion.
func retention(m *v1alpha1.Migration) time.Time {
	if m.Status.CompletionTime == nil {
		return time.Time{}
	}
	seconds := int32(defaultRetention)
	if s := m.Spec.Decommission.RetentionSeconds; s != nil {
		seconds = *s
	}
	return m.Status.CompletionTime.Add(time.Duration(seconds) * time.Second)
}

// deletes says that the way back is being closed: completed for long enough, and approved.
func deletes(l look) bool {
	due := retention(l.m)
	return wantsDeletion(l.m) && completedReached(l) && !halted(l.m) && !due.IsZero() && !l.now.Before(due) &&
		slices.Contains(l.m.Spec.ApprovedSteps, v1alpha1.ApproveDelete)
}

// retire deletes what is left, one thing at a time.
func retire(o *outcome, l look) {
	if !wantsDeletion(l.m) {
		return
	}
	left := outcome{}
	retireGroups(&left, l)
	if left.idle() {
		retireAutoscalers(&left, l)
	}
	due := retention(l.m)
	switch {
	case left.idle():
		o.blockers = append(o.blockers, left.blockers...)
	case due.IsZero(): // not completed yet, and to wait here would keep it from that
	case l.now.Before(due):
		o.until = soonest(o.until, due)
	case !deletes(l):
		o.warn("DeleteAwaitsApproval", "migration/"+l.m.Name, "The retention is over. What spec.decommission says is deleted, and the way back closed, once it is approved: kubectl castoff approve "+l.m.Name+" Delete")
	default:
		o.actions, o.blockers = append(o.actions, left.actions...), append(o.blockers, left.blockers...)
		o.until = l.now.Add(soon)
	}
}

// retireGroups deletes the groups: never one that another owner has, never one with an instance, and never without the node
// role's access in place.
func retireGroups(o *outcome, l look) {
	if l.m.Spec.Decommission.Mode != v1alpha1.DecommissionDelete {
		return
	}
	for _, p := range l.pools {
		for _, g := range p.groups {
			if owner := g.Owner(); owner != "" {
				o.warn("OwnedElsewhere", "nodegroup/"+g.Name, "The group belongs to "+owner+", so castoff does not delete it. Remove it there.")
				continue
			}
			retireGroup(o, l, g)
			return
		}
	}
}

func retireGroup(o *outcome, l look, g inventory.NodeGroup) {
	object := "nodegroup/" + g.Name
	o.wait("Deleting", object, "The empty group is being deleted.")
	var policies []string
	for _, p := range g.ScalingPolicies {
		policies = append(policies, p.Name)
	}
	switch {
	case !l.Identity.Ready:
		o.wait("IdentityNotReady", "role/"+l.Identity.NodeRole, "The access of Karpenter's nodes is mended before a group is deleted. Missing: "+list(l.Identity.Missing)+".")
	case g.Managed != nil && g.Managed.Status == "DELETING":
	case !g.Empty() || g.Desired != 0:
		o.wait("InstancesLeaving", object, "The group is not empty.")
	case len(policies) > 0:
		o.act(DeletePolicies{Group: g.AutoScalingGroup, Names: fitting(policies)})
	default:
		o.act(DeleteGroup{Group: g})
	}
}

// retireAutoscalers deletes what has no work any more; what somebody would put back is named instead.
func retireAutoscalers(o *outcome, l look) {
	if l.m.Spec.Decommission.ClusterAutoscaler != v1alpha1.DecommissionDelete {
		return
	}
	for _, recorded := range l.Snapshot.Autoscalers {
		a, ok := autoscaler(l, recorded)
		object := a.Object()
		switch {
		case !ok:
		case !a.Scalable():
			o.warn(checkNotDeployment, object, "Cluster Autoscaler is a "+a.Kind+", and castoff deletes Deployments only. Delete it by hand.")
		case a.Owner != "":
			o.warn("OwnedElsewhere", object, "Cluster Autoscaler belongs to "+a.Owner+", which would put it back. Remove it there.")
		case !a.Stopped():
			o.warn("AutoscalerRunning", object, "Cluster Autoscaler runs, so castoff does not delete it.")
		default:
			o.wait("Deleting", object, "Cluster Autoscaler and its Lease are being deleted.")
			o.act(DeleteAutoscaler{Autoscaler: a})
		}
	}
	for _, h := range l.TerminationHandlers {
		object := h.Kind + "/" + h.Workload.String()
		if h.Owner != "" {
			o.warn("OwnedElsewhere", object, "node-termination-handler belongs to "+h.Owner+", which would put it back. Remove it there: Karpenter's queue does its work.")
			continue
		}
		o.wait("Deleting", object, "node-termination-handler is being deleted: Karpenter's queue does its work.")
		o.act(DeleteTerminationHandler{Handler: h})
	}
}
