package plan

import (
	"fmt"
	"maps"
	"slices"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// effect makes an action on the scene, as the ports and the world behind them would. What takes its time is finished by tick.
func (s *scene) effect(action Action, now time.Time) {
	switch a := action.(type) {
	case SaveSnapshot:
		s.w.Snapshot = cloneSnapshot(a.Snapshot)
	case EnsureNodeClass:
		s.w.Engine.NodeClasses = slices.DeleteFunc(slices.Clone(s.w.Engine.NodeClasses), named(a.NodeClass.Name))
		s.nodeClass(a.NodeClass.Name).w.Engine.NodeClassHashes[a.NodeClass.Name] = "spec-of-" + a.NodeClass.Name
	case StartCanary:
		s.canary(a.Target.Pool, 0, func(c *inventory.Canary) { c.PodRan, c.Since = true, now })
	case MarkCanaryPassed:
		for i := range s.w.Engine.NodeClasses {
			if s.w.Engine.NodeClasses[i].Name == a.Pool {
				s.w.Engine.NodeClasses[i].Annotations[v1alpha1.AnnotationCanaryPassed] = a.Hash
			}
		}
	case EndCanary:
		s.w.Engine.Canaries = slices.DeleteFunc(slices.Clone(s.w.Engine.Canaries), func(c inventory.Canary) bool { return c.Pool == a.Pool })
	case HoldLease:
		s.leases(a.Lease.Name, func(ca *inventory.Autoscaler) { ca.LeaseHolder, ca.LeaseRenewed = v1alpha1.LeaseIdentity, now })
	case RetakeLease:
		s.leases(a.Lease.Name, func(ca *inventory.Autoscaler) { ca.LeaseHolder, ca.LeaseRenewed = v1alpha1.LeaseIdentity, now })
	case LetGoLease:
		s.leases(a.Lease.Name, func(ca *inventory.Autoscaler) { ca.LeaseHolder = "" })
	case EnsureNodePool:
		s.ensureNodePool(a.NodePool)
	case DeleteNodePool:
		for i := range s.w.Engine.NodePools {
			if s.w.Engine.NodePools[i].Name == a.NodePool {
				s.w.Engine.NodePools[i].DeletionTimestamp = &metav1.Time{Time: now}
			}
		}
	case DeleteNodeClass:
		for i := range s.w.Engine.NodeClasses {
			if s.w.Engine.NodeClasses[i].Name == a.NodeClass {
				s.w.Engine.NodeClasses[i].DeletionTimestamp = &metav1.Time{Time: now}
			}
		}
	case EndNodeClaim:
		for i := range s.w.Engine.NodeClaims {
			s.w.Engine.NodeClaims[i].Deleting = s.w.Engine.NodeClaims[i].Deleting || s.w.Engine.NodeClaims[i].Name == a.NodeClaim
		}
	case DeleteTerminationHandler:
		s.w.TerminationHandlers = slices.DeleteFunc(slices.Clone(s.w.TerminationHandlers), func(h inventory.TerminationHandler) bool { return h == a.Handler })
	case Ledgered:
		s.lateEffect(a)
	default:
		s.nodeEffect(a)
	}
}

func named(name string) func(c awsv1.EC2NodeClass) bool {
	return func(c awsv1.EC2NodeClass) bool { return c.Name == name }
}

// leases changes every Cluster Autoscaler that uses the Lease.
func (s *scene) leases(lease string, change func(*inventory.Autoscaler)) {
	for i := range s.w.Autoscalers {
		if s.w.Autoscalers[i].Lease.Name == lease {
			change(&s.w.Autoscalers[i])
		}
	}
}

// onNode changes a node, if it is still there.
func (s *scene) onNode(name string, change func(*inventory.Node)) {
	if i := slices.IndexFunc(s.w.Nodes, func(n inventory.Node) bool { return n.Name == name }); i >= 0 {
		change(&s.w.Nodes[i])
	}
}

// nodeEffect makes an action on a node; one that is gone needs none.
func (s *scene) nodeEffect(action Action) {
	switch a := action.(type) {
	case MarkNode:
		s.onNode(a.Node, func(n *inventory.Node) { n.Annotations[v1alpha1.AnnotationLegacy] = a.Pool })
	case StripLeftovers:
		s.onNode(a.Node, func(n *inventory.Node) {
			n.Taints = slices.DeleteFunc(n.Taints, func(t corev1.Taint) bool { return t.Key == taintToBeDeleted || t.Key == taintCandidate })
		})
	case FenceNode:
		s.onNode(a.Node, fenceIt)
	case CordonNode:
		s.onNode(a.Node, cordonIt)
	case BeginDrain:
		s.onNode(a.Node, func(n *inventory.Node) { s.draining(n.Name, 2) })
	case WarmNode:
		s.onNode(a.Node, func(n *inventory.Node) { s.warm(n.Name, 0, 2) })
	case DropPlaceholders:
		s.w.Placeholders = slices.DeleteFunc(slices.Clone(s.w.Placeholders), func(p inventory.Placeholder) bool { return slices.Contains(a.Names, p.Name) })
	case EvictPods:
		d := s.w.Drains[a.Node]
		if i := slices.IndexFunc(s.w.Placeholders, func(p inventory.Placeholder) bool { return p.Node == a.Node }); i >= 0 && d.Evictable > 0 {
			s.w.Placeholders = slices.Delete(slices.Clone(s.w.Placeholders), i, i+1) // swapped
		}
		s.w.Drains[a.Node] = inventory.DrainState{Node: a.Node, Evictable: max(0, d.Evictable-1)}
	case ReleaseNode:
		s.onNode(a.Node, releaseIt)
	case HoldNode:
		s.onNode(a.Node, func(n *inventory.Node) { holdIt(n, a.Pool) })
	case RestoreNode:
		s.onNode(a.Node, func(n *inventory.Node) { restoreIt(n, a) })
	case UnmarkNode:
		s.onNode(a.Node, unmarkIt)
	}
}

func holdIt(n *inventory.Node, pool string) {
	n.Annotations[v1alpha1.AnnotationLegacy] = pool
	if _, said := n.Annotations[v1alpha1.AnnotationScaleDownDisabled]; !said {
		n.Annotations[v1alpha1.AnnotationScaleDownDisabled], n.Annotations[v1alpha1.AnnotationHeldBy] = "true", v1alpha1.ByCastoff
	}
}

func restoreIt(n *inventory.Node, a RestoreNode) {
	if n.Annotations[v1alpha1.AnnotationRestoredFrom] != "" {
		return // once only
	}
	holdIt(n, a.Pool)
	n.Annotations[v1alpha1.AnnotationRestoredFrom] = a.From.Name
	for key, value := range a.From.Labels {
		if _, ok := n.Labels[key]; !ok {
			n.Labels[key] = value
		}
	}
	for _, taint := range a.From.Taints {
		if !n.HasTaint(taint.Key, taint.Effect) {
			n.Taints = append(n.Taints, taint)
		}
	}
	if a.From.Unschedulable { // the user's again, whoever else cordoned it
		n.Unschedulable = true
		delete(n.Annotations, v1alpha1.AnnotationCordonedBy)
	}
}

func unmarkIt(n *inventory.Node) {
	if n.Annotations[v1alpha1.AnnotationHeldBy] != "" {
		delete(n.Annotations, v1alpha1.AnnotationScaleDownDisabled)
	}
	for _, key := range []string{v1alpha1.AnnotationLegacy, v1alpha1.AnnotationHeldBy, v1alpha1.AnnotationRestoredFrom} {
		delete(n.Annotations, key)
	}
}

func (s *scene) ensureNodePool(np *karpv1.NodePool) {
	made := *np.DeepCopy()
	made.Status.Conditions = slices.Clone(readyPool.Status.Conditions)
	s.w.Engine.NodePools = slices.DeleteFunc(slices.Clone(s.w.Engine.NodePools), func(o karpv1.NodePool) bool {
		if o.Name == np.Name {
			made.DeletionTimestamp = o.DeletionTimestamp // what is going cannot be kept
		}
		return o.Name == np.Name
	})
	s.w.Engine.NodePools = append(s.w.Engine.NodePools, made)
}

// lateEffect makes an action whose effect is outside the cluster's own objects.
func (s *scene) lateEffect(action Ledgered) {
	e := &s.w.Engine
	switch a := action.(type) {
	case EnsureInterruption:
		s.w.Interruption.Ready, s.w.Interruption.Made = true, []string{"queue", "rules"}
	case EnsureIdentity:
		s.w.Identity.Ready, s.w.Identity.Made = true, []string{"role"}
	case RemoveInterruption:
		s.w.Interruption.Ready, s.w.Interruption.Made = false, nil
	case RemoveIdentity:
		s.w.Identity.Ready, s.w.Identity.Made = false, nil
	case InstallCRDs:
		e.CRDs, e.CRDsCurrent = true, true
	case RemoveCRDs:
		e.CRDs, e.CRDsCurrent = false, false
	case InstallEngine:
		s.engineRunning()
	case UninstallEngine:
		e.Release, e.ReleaseCurrent, e.Replicas, e.ReadyReplicas = inventory.ReleaseMissing, false, 0, 0
	case StopAutoscaler:
		s.autoscaler(a.Autoscaler, func(ca *inventory.Autoscaler) { ca.Replicas = 0 })
	case StartAutoscaler:
		s.autoscaler(a.Autoscaler, func(ca *inventory.Autoscaler) { ca.Replicas = a.Replicas })
	case DeleteAutoscaler:
		s.w.Autoscalers = slices.DeleteFunc(slices.Clone(s.w.Autoscalers), func(ca inventory.Autoscaler) bool { return ca.Deployment == a.Autoscaler.Deployment })
	case DeleteGroup:
		s.w.Groups = slices.DeleteFunc(slices.Clone(s.w.Groups), func(g inventory.NodeGroup) bool { return g.Name == a.Group.Name })
	default:
		s.groupEffect(a)
	}
}

func (s *scene) autoscaler(which inventory.Autoscaler, change func(*inventory.Autoscaler)) {
	for i := range s.w.Autoscalers {
		if s.w.Autoscalers[i].Deployment == which.Deployment {
			change(&s.w.Autoscalers[i])
		}
	}
}

// groupEffect makes an action on an Auto Scaling group.
func (s *scene) groupEffect(action Ledgered) {
	_, target, _ := action.Entry()
	g := &s.w.Groups[slices.IndexFunc(s.w.Groups, func(g inventory.NodeGroup) bool { return g.AutoScalingGroup == target })]
	switch a := action.(type) {
	case DisablePolicies:
		activate(g, a.Names, false)
	case EnablePolicies:
		activate(g, a.Names, true)
	case DeletePolicies:
		g.ScalingPolicies = slices.DeleteFunc(slices.Clone(g.ScalingPolicies), func(p inventory.ScalingPolicy) bool { return slices.Contains(a.Names, p.Name) })
	case DeleteScheduledActions:
		g.ScheduledActions = slices.DeleteFunc(slices.Clone(g.ScheduledActions), func(x inventory.ScheduledAction) bool { return slices.Contains(a.Names, x.Name) })
	case PutScheduledActions:
		for _, put := range a.Actions {
			if !hasSchedule(*g, put.Name) {
				g.ScheduledActions = append(slices.Clone(g.ScheduledActions), put)
			}
		}
	case SuspendProcesses:
		g.SuspendedProcesses = append(slices.Clone(g.SuspendedProcesses), a.Processes...)
		slices.Sort(g.SuspendedProcesses)
		g.SuspendedProcesses = slices.Compact(g.SuspendedProcesses)
	case ResumeProcesses:
		g.SuspendedProcesses = slices.DeleteFunc(slices.Clone(g.SuspendedProcesses), func(p string) bool { return slices.Contains(a.Processes, p) })
	case SetRebalance:
		g.CapacityRebalance = a.On
	case SetLifetime:
		g.MaxInstanceLifetime = a.Seconds
	case SetGroupSize:
		g.Min, g.Max, g.Desired = a.Min, a.Max, a.Desired
	case EndInstances:
		had := len(g.Instances)
		g.Instances = slices.DeleteFunc(slices.Clone(g.Instances), func(i inventory.Instance) bool { return slices.Contains(a.IDs, i.ID) })
		g.Desired -= int32(had - len(g.Instances)) // ids that are gone are refused, and lower nothing
		s.w.Nodes = slices.DeleteFunc(slices.Clone(s.w.Nodes), func(n inventory.Node) bool { return slices.Contains(a.IDs, n.InstanceID) })
	}
}

func activate(g *inventory.NodeGroup, names []string, active bool) {
	g.ScalingPolicies = slices.Clone(g.ScalingPolicies)
	for i := range g.ScalingPolicies {
		if slices.Contains(names, g.ScalingPolicies[i].Name) {
			g.ScalingPolicies[i].Active = active
		}
	}
}

// tick lets the world go on: groups launch what is missing, Cluster Autoscaler's pods come and go and elect a leader, and
// Karpenter launches, registers and ends.
func (s *scene) tick(now time.Time) {
	for i := range s.w.Autoscalers {
		tickAutoscaler(&s.w.Autoscalers[i], s.w.Groups, now)
	}
	for i := range s.w.Groups {
		if g := &s.w.Groups[i]; len(g.Instances) < int(g.Desired) && !g.Suspends(processLaunch) {
			s.launch(g)
		}
	}
	if s.w.Engine.ReadyReplicas > 0 {
		s.tickKarpenter()
	}
	for i := range s.w.Nodes {
		s.w.Nodes[i].Ready = true
	}
	for i := range s.w.Placeholders {
		s.w.Placeholders[i].Ready = true
	}
}

func tickAutoscaler(a *inventory.Autoscaler, groups []inventory.NodeGroup, now time.Time) {
	a.StatusReplicas, a.Pods = a.Replicas, int(a.Replicas)
	if a.Pods > 0 && a.LeaderElect && a.LeaseHolder == "" {
		a.LeaseHolder, a.LeaseRenewed = a.Deployment.Name+"-1", now
	}
	if !elected(*a) {
		return
	}
	a.StatusTime, a.Groups = now, nil
	for _, g := range groups {
		if a.Manages(g) {
			a.Groups = append(a.Groups, g.AutoScalingGroup)
		}
	}
}

// launch adds an instance and its node, which is Ready at the next tick.
func (s *scene) launch(g *inventory.NodeGroup) {
	s.born++
	name, zone := fmt.Sprintf("%s-new%d", g.Name, s.born), zones[s.born%len(zones)]
	g.Instances = append(slices.Clone(g.Instances), inventory.Instance{ID: "i-" + name, Zone: zone, Lifecycle: "InService", Healthy: true})
	s.w.Nodes = append(s.w.Nodes, inventory.Node{Name: name, InstanceID: "i-" + name, Zone: zone, Group: g.Name,
		Labels: map[string]string{}, Annotations: map[string]string{}})
}

// claim is what Karpenter makes when pods of a pool have no room; its node comes at the next tick.
func (s *scene) claim(pool string) *scene {
	s.born++
	s.w.Engine.NodeClaims = append(slices.Clone(s.w.Engine.NodeClaims), inventory.NodeClaim{Name: fmt.Sprintf("%s-claim%d", pool, s.born), NodePool: pool})
	return s
}

// registered gives every NodeClaim that has none its node.
func (s *scene) registered() *scene {
	s.tickKarpenter()
	for i := range s.w.Nodes {
		s.w.Nodes[i].Ready = true
	}
	return s
}

func (s *scene) tickKarpenter() {
	e := &s.w.Engine
	ended := func(c inventory.NodeClaim) bool { return c.Deleting }
	for _, c := range e.NodeClaims {
		if ended(c) {
			s.w.Nodes = slices.DeleteFunc(slices.Clone(s.w.Nodes), func(n inventory.Node) bool { return n.Name == c.Node })
		}
	}
	e.NodeClaims = slices.DeleteFunc(slices.Clone(e.NodeClaims), ended)
	for i := range e.NodeClaims {
		c := &e.NodeClaims[i]
		if c.Node == "" {
			c.Node, c.Ready = "node-of-"+c.Name, true
			s.w.Nodes = append(s.w.Nodes, inventory.Node{Name: c.Node, InstanceID: "i-" + c.Name, Zone: zones[0],
				Labels: map[string]string{karpv1.NodePoolLabelKey: c.NodePool, v1alpha1.LabelPool: c.NodePool}, Annotations: map[string]string{}})
		}
	}
	e.NodePools = slices.DeleteFunc(slices.Clone(e.NodePools), func(n karpv1.NodePool) bool {
		left := 0 // one that is deleted ends its nodes before it goes
		for i := range e.NodeClaims {
			if e.NodeClaims[i].NodePool == n.Name && n.DeletionTimestamp != nil {
				e.NodeClaims[i].Deleting = true
				left++
			}
		}
		return n.DeletionTimestamp != nil && left == 0
	})
	e.NodeClasses = slices.DeleteFunc(slices.Clone(e.NodeClasses), func(c awsv1.EC2NodeClass) bool { return c.DeletionTimestamp != nil })
}

// cloneSnapshot shares nothing with the world, as one that was written and read again.
func cloneSnapshot(s *inventory.Snapshot) *inventory.Snapshot {
	out := *s
	out.Groups, out.Autoscalers = slices.Clone(s.Groups), slices.Clone(s.Autoscalers)
	for i := range out.Groups {
		out.Groups[i].Nodes = slices.Clone(s.Groups[i].Nodes)
		for j := range out.Groups[i].Nodes {
			n := &out.Groups[i].Nodes[j]
			n.Labels, n.Taints = maps.Clone(n.Labels), slices.Clone(n.Taints)
		}
	}
	return &out
}
