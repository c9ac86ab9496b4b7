package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// asked is a question to Next, and its answer.
type asked struct {
	m   *v1alpha1.Migration
	w   World
	now time.Time
	d   Decision
}

// rules are the promises that every decision keeps, whatever the world is like. Each returns what is wrong, or nothing.
var rules = map[string]func(asked) string{
	"nothing is written before the snapshot":          onlyTheSnapshotFirst,
	"one scaler":                                      oneScaler,
	"only drained instances end":                      onlyDrainedEnd,
	"one change of a group at a time":                 onePending,
	"the status stays small":                          smallLedger,
	"a pause is a pause":                              settleMovesNoPod,
	"another Migration's turn":                        otherOnlyWaits,
	"targets are absolute and lawful":                 lawful,
	"every action is in the ledger before it is made": recorded,
	"a node is fenced after a NodePool is there":      fencedAfterServed,
	"no more nodes in flight than allowed":            withinRoom,
	"a finished migration rests":                      readyMeansRest,
	"the home is left alone":                          homeAlone,
	"Karpenter's nodes end empty":                     emptyBeforeEnd,
	"Karpenter lets go first":                         startsWhenNothingServes,
	"what was there before stays":                     beforeStays,
	"deletion is approved":                            deletionIsApproved,
	"AWS chooses nobody":                              awsChoosesNobody,
	"only what is written down is allowed":            onlyAccepted,
	"nothing is evicted without capacity":             notWithoutCapacity,
	"a pool that pauses begins nothing":               pausedBeginsNothing,
	"an empty node has its time":                      emptyHasItsTime,
	"below the health floor nothing begins":           nothingBeginsBelowTheFloor,
}

func onlyTheSnapshotFirst(q asked) string {
	if q.w.Snapshot != nil {
		return ""
	}
	for _, a := range q.d.Actions {
		switch a.(type) {
		case SaveSnapshot:
		case HoldLease:
			if q.m.Status.Snapshot == nil { // a snapshot that was taken and cannot be read: what is held stays held
				return tell(a)
			}
		default:
			return tell(a)
		}
	}
	return ""
}

// scales says whether a Cluster Autoscaler may act on a group of a pool now. Its words are those of the design, not the code's.
func scales(a inventory.Autoscaler, w World) bool {
	idle := a.Replicas == 0 && a.StatusReplicas == 0 && a.Pods == 0
	fencedStandby := a.LeaderElect && a.LeaseHolder == v1alpha1.LeaseIdentity
	return !idle && !fencedStandby && slices.ContainsFunc(w.Groups, func(g inventory.NodeGroup) bool {
		return a.Manages(g) && slices.ContainsFunc(w.Pools, func(p inventory.Pool) bool { return slices.Contains(p.NodeGroups, g.Name) })
	})
}

func oneScaler(q asked) string {
	if !slices.ContainsFunc(q.w.Autoscalers, func(a inventory.Autoscaler) bool { return scales(a, q.w) }) {
		return ""
	}
	for _, action := range q.d.Actions {
		wrong := false
		switch a := action.(type) {
		case EnsureNodePool: // one that serves already may be kept from moving anything
			wrong = !stopped(*a.NodePool) && !serves(q.w, a.NodePool.Name)
		case BeginDrain:
			wrong = legacyNode(q.w, a.Node)
		case EvictPods: // Karpenter's nodes are drained on the way back
			wrong = legacyNode(q.w, a.Node)
		case FenceNode, EndInstances:
			wrong = true
		}
		if wrong {
			return tell(action) + " beside a Cluster Autoscaler that may act"
		}
	}
	return ""
}

// serves says whether a NodePool of that name launches.
func serves(w World, name string) bool {
	return slices.ContainsFunc(w.Engine.NodePools, func(n karpv1.NodePool) bool { return n.Name == name && !stopped(n) })
}

func legacyNode(w World, name string) bool {
	return slices.ContainsFunc(w.Nodes, func(n inventory.Node) bool { return n.Name == name && n.Labels[karpv1.NodePoolLabelKey] == "" })
}

func onlyDrainedEnd(q asked) string {
	for _, a := range q.d.Actions {
		end, ok := a.(EndInstances)
		if !ok {
			continue
		}
		for _, id := range end.IDs {
			if !inService(q.w, end.Group, id) {
				return id + " is not InService in " + end.Group
			}
			for _, n := range q.w.Nodes {
				if state, looked := q.w.Drains[n.Name]; n.InstanceID == id && (!looked || state.Evictable > 0 || !begun(n)) {
					return fmt.Sprintf("%s of node %s, looked at %v, evictable %d", id, n.Name, looked, state.Evictable)
				}
			}
		}
	}
	return ""
}

func inService(w World, asg, id string) bool {
	return slices.ContainsFunc(w.Groups, func(g inventory.NodeGroup) bool {
		return g.AutoScalingGroup == asg && slices.ContainsFunc(g.Instances, func(i inventory.Instance) bool { return i.ID == id && i.Lifecycle == "InService" })
	})
}

// onePending: of the changes that this decision opens, and of those that are still waited for, one is on each target.
func onePending(q asked) string {
	waiting := map[string]string{}
	for _, op := range q.d.Operations {
		if op.DoneTime != nil || op.StartTime == nil || !op.StartTime.Time.Equal(q.now) {
			continue
		}
		if waiting[targetOf(op)] != "" {
			return waiting[targetOf(op)] + " and " + op.ID
		}
		waiting[targetOf(op)] = op.ID
	}
	for _, op := range q.d.Operations {
		young := op.StartTime != nil && q.now.Sub(op.StartTime.Time) < patience && op.Error == "" && !op.StartTime.Time.Equal(q.now)
		if op.DoneTime == nil && young && waiting[targetOf(op)] != "" {
			return waiting[targetOf(op)] + " while " + op.ID + " is waited for"
		}
	}
	return ""
}

func smallLedger(q asked) string {
	seen := map[string]bool{}
	for _, op := range q.d.Operations {
		if seen[op.ID] {
			return "two entries " + op.ID + ", which the API server refuses"
		}
		seen[op.ID] = true
	}
	if len(q.d.Operations) > ledgerSize {
		return fmt.Sprintf("%d entries", len(q.d.Operations))
	}
	return ""
}

// settleMovesNoPod: a pause that is to settle evicts nothing, ends nothing, and fences nothing.
func settleMovesNoPod(q asked) string {
	if !q.m.Spec.Paused || rollsBack(q.m) {
		return ""
	}
	for _, a := range q.d.Actions {
		switch a.(type) {
		case EvictPods, BeginDrain, FenceNode, CordonNode, EndInstances, EndNodeClaim:
			return tell(a)
		}
	}
	return ""
}

func otherOnlyWaits(q asked) string {
	if q.w.OtherMigration != "" && len(q.d.Actions) > 0 {
		return tell(q.d.Actions[0])
	}
	return ""
}

func lawful(q asked) string {
	for _, a := range q.d.Actions {
		switch a := a.(type) {
		case SetGroupSize:
			if a.Min < 0 || a.Min > a.Desired || a.Desired > a.Max || (a.Group.Managed != nil && a.Max < 1) {
				return tell(a)
			}
		case SuspendProcesses:
			if len(a.Processes) == 0 || slices.Contains(a.Processes, "Terminate") {
				return tell(a)
			}
		case EndInstances:
			ids := slices.Clone(a.IDs)
			slices.Sort(ids)
			if len(ids) == 0 || len(strings.Join(ids, separator)) > detailSize || len(slices.Compact(ids)) != len(a.IDs) {
				return tell(a)
			}
		}
		if strings.HasPrefix(tell(a), "an action that tell") {
			return tell(a)
		}
	}
	return ""
}

func recorded(q asked) string {
	for _, a := range q.d.Actions {
		l, ok := a.(Ledgered)
		if !ok {
			continue
		}
		kind, target, detail := l.Entry()
		if !slices.ContainsFunc(q.d.Operations, func(op v1alpha1.Operation) bool {
			return op.ID == kind+"/"+target && op.Detail == detail && op.DoneTime == nil && op.StartTime.Time.Equal(q.now)
		}) {
			return tell(a)
		}
	}
	return ""
}

func fencedAfterServed(q asked) string {
	for _, a := range q.d.Actions {
		f, ok := a.(FenceNode)
		if !ok {
			continue
		}
		served := false
		for _, np := range q.w.Engine.NodePools {
			served = served || np.Labels[v1alpha1.LabelPool] == f.Pool
		}
		if !served {
			return tell(a)
		}
	}
	return ""
}

func withinRoom(q asked) string {
	for _, p := range newLook(q.m, q.w, q.now).pools {
		begins, flying := 0, 0
		for _, n := range p.nodes {
			if begun(n) && (q.m.Spec.Strategy.OnTimeout != v1alpha1.TimeoutSkip || !overdue(newLook(q.m, q.w, q.now), n)) {
				flying++ // one that is passed over is in flight no more
			}
			if slices.Contains(told(q.d.Actions), "BeginDrain "+n.Name) {
				begins++
			}
		}
		if room := maxUnavailable(q.m.Spec.Strategy.MaxUnavailableNodes, p.recorded); begins > 0 && begins+flying > room {
			return fmt.Sprintf("pool %s: %d begin, %d are in flight, %d may be", p.Name, begins, flying, room)
		}
	}
	return ""
}

func readyMeansRest(q asked) string {
	ready := q.d.Conditions[0]
	if ready.Type != v1alpha1.ConditionReady || ready.Status != "True" {
		return ""
	}
	for _, a := range q.d.Actions {
		if _, ok := a.(HoldLease); !ok { // what is held stays held
			return "Ready, and something is left to do: " + tell(a)
		}
	}
	if q.d.Phase == v1alpha1.PhaseRolledBack {
		return strings.Join(leftOver(q.w), ", ")
	}
	if q.w.Snapshot == nil || slices.ContainsFunc(q.w.Nodes, func(n inventory.Node) bool {
		return slices.ContainsFunc(q.w.Pools, func(p inventory.Pool) bool { return slices.Contains(p.NodeGroups, n.Group) })
	}) {
		return "Ready, and legacy nodes are left"
	}
	return ""
}

// leftOver is what a migration that was rolled back may not have: one that recorded nothing never made anything.
func leftOver(w World) (left []string) {
	if w.Snapshot == nil {
		return nil
	}
	for _, p := range newLook(aMigration().m, w, noon).pools {
		if np, ok := nodePool(newLook(aMigration().m, w, noon), p.Name); ok {
			left = append(left, "NodePool "+np.Name)
		}
		for _, n := range p.nodes {
			left = append(left, castoffs(n)...)
		}
	}
	return left
}

func homeAlone(q asked) string {
	for _, a := range told(q.d.Actions) {
		if strings.Contains(a, "system-") && !strings.Contains(a, "kube-system/") || strings.Contains(a, "eks-system") {
			return a
		}
	}
	return ""
}

// emptyBeforeEnd: Karpenter's node ends on the way back when nothing is left on it that could be evicted, or when it never came.
func emptyBeforeEnd(q asked) string {
	for _, a := range q.d.Actions {
		end, ok := a.(EndNodeClaim)
		if !ok {
			continue
		}
		for _, n := range q.w.Nodes {
			if d, looked := q.w.Drains[n.Name]; n.Name == end.Node && (!looked || d.Evictable > 0 || !begun(n)) {
				return fmt.Sprintf("%s: looked at %v, evictable %d", tell(a), looked, d.Evictable)
			}
		}
	}
	return ""
}

// startsWhenNothingServes: Cluster Autoscaler is let in when Karpenter has let go.
func startsWhenNothingServes(q asked) string {
	serving := slices.ContainsFunc(q.w.Pools, func(p inventory.Pool) bool {
		return slices.ContainsFunc(q.w.Engine.NodePools, func(n karpv1.NodePool) bool { return n.Labels[v1alpha1.LabelPool] == p.Name && !stopped(n) })
	})
	for _, a := range q.d.Actions {
		switch a.(type) {
		case StartAutoscaler, LetGoLease:
			if serving {
				return tell(a) + " beside a NodePool that serves"
			}
		}
	}
	return ""
}

// beforeStays: what of Karpenter was there when the snapshot was taken is not taken away, nor is what somebody else uses.
func beforeStays(q asked) string {
	if q.w.Snapshot == nil {
		return ""
	}
	before := q.w.Snapshot.Before
	used := slices.ContainsFunc(q.w.Engine.NodePools, func(n karpv1.NodePool) bool {
		return n.Labels[v1alpha1.LabelPool] == "" && n.Labels[v1alpha1.LabelCanary] == ""
	})
	for _, a := range q.d.Actions {
		wrong := false
		switch a.(type) {
		case UninstallEngine:
			wrong = before.Release || used || len(q.w.Engine.NodeClaims) > 0
		case RemoveCRDs:
			wrong = before.CRDs || used || len(q.w.Engine.NodeClaims) > 0
		case RemoveInterruption:
			wrong = before.Interruption || (used && !before.Release)
		case RemoveIdentity:
			wrong = before.Identity || (used && !before.Release) || slices.ContainsFunc(q.w.Engine.NodeClasses, func(c awsv1.EC2NodeClass) bool {
				return c.Labels[v1alpha1.LabelPool] == "" && c.Spec.Role == q.w.Identity.NodeRole && c.Spec.Role != ""
			})
		}
		if wrong {
			return tell(a)
		}
	}
	return ""
}

// deletionIsApproved: a group goes when the user said so and nobody else keeps it; it is empty, and nothing else goes with it.
func deletionIsApproved(q asked) string {
	groups := 0
	for _, action := range q.d.Actions {
		switch a := action.(type) {
		case DeleteGroup:
			if groups++; !a.Group.Empty() || a.Group.Desired != 0 || a.Group.Owner() != "" || !q.w.Identity.Ready {
				return tell(a)
			}
		case DeletePolicies, DeleteAutoscaler, DeleteTerminationHandler:
		default:
			continue
		}
		if groups > 1 || halted(q.m) || !slices.Contains(q.m.Spec.ApprovedSteps, v1alpha1.ApproveDelete) || !wantsDeletion(q.m) || q.m.Status.CompletionTime == nil {
			return tell(action)
		}
	}
	return ""
}

// awsChoosesNobody: a desired size below what a group has lets Auto Scaling choose which instance ends.
func awsChoosesNobody(q asked) string {
	for _, a := range q.d.Actions {
		if size, ok := a.(SetGroupSize); ok && size.Desired < size.Group.Desired && !size.Group.Empty() {
			return tell(a)
		}
	}
	return ""
}

// onlyAccepted: a pass may do what spec.acceptedRisks has word for word, and what has to wait for its time after that.
func onlyAccepted(q asked) string {
	for _, action := range q.d.Actions {
		a, ok := action.(EvictPods)
		if !ok {
			continue
		}
		for check, objects := range map[string]inventory.Objects{
			"BarePod": a.Allow.BarePods, "LocalVolume": a.Allow.LocalVolumes, "DoNotDisrupt": a.Allow.DoNotDisrupt, "BudgetOverride": a.Allow.Budgets,
		} {
			for _, object := range objects {
				if !slices.ContainsFunc(q.m.Spec.AcceptedRisks, func(r v1alpha1.AcceptedRisk) bool { return r.Check == check && r.Object == object }) {
					return tell(a) + " may pass " + check + " of " + object
				}
			}
		}
		early := a.Allow.Jobs || len(a.Allow.DoNotDisrupt) > 0 || len(a.Allow.Budgets) > 0
		if began := drainBegan(q, a.Node); early && (began.IsZero() || q.now.Sub(began) < timeLimit(q.m)) {
			return tell(a) + " may do before its time what is to be done after it"
		}
	}
	return ""
}

// drainBegan is when the node says that its drain began; zero if it does not say.
func drainBegan(q asked, node string) time.Time {
	for _, n := range q.w.Nodes {
		if t, err := time.Parse(time.RFC3339, n.Annotations[v1alpha1.AnnotationDraining]); n.Name == node && err == nil {
			return t
		}
	}
	return time.Time{}
}

// timeLimit of a drain: the API's default is 900 seconds.
func timeLimit(m *v1alpha1.Migration) time.Duration {
	if t := m.Spec.Strategy.TimeoutSeconds; t > 0 {
		return time.Duration(t) * time.Second
	}
	return 900 * time.Second
}

// notWithoutCapacity: pods wait, a launch failed a moment ago, and nothing has joined since.
func notWithoutCapacity(q asked) string {
	if q.w.Snapshot == nil || q.w.PendingPods <= q.w.Snapshot.PendingPods {
		return ""
	}
	for _, a := range q.d.Actions {
		pool := ""
		switch a := a.(type) {
		case EvictPods:
			if legacyNode(q.w, a.Node) {
				pool = a.Pool
			}
		case BeginDrain:
			if n, ok := nodeNamed(q.w, a.Node); ok && legacyNode(q.w, a.Node) {
				pool = n.Annotations[v1alpha1.AnnotationLegacy]
			}
		}
		for _, f := range q.w.LaunchFailures {
			failed := pool != "" && f.NodePool == pool && q.now.Sub(f.Time) < min(timeLimit(q.m), 5*time.Minute)
			joined := slices.ContainsFunc(q.w.Engine.NodeClaims, func(c inventory.NodeClaim) bool { return c.NodePool == pool && c.Node != "" && c.Created.After(f.Time) })
			if failed && !joined {
				return tell(a) + " while Karpenter cannot launch for " + pool
			}
		}
	}
	return ""
}

func nodeNamed(w World, name string) (inventory.Node, bool) {
	i := slices.IndexFunc(w.Nodes, func(n inventory.Node) bool { return n.Name == name })
	if i < 0 {
		return inventory.Node{}, false
	}
	return w.Nodes[i], true
}

// pausedBeginsNothing: with onTimeout Pause a node that takes too long keeps the others of its pool from being begun.
func pausedBeginsNothing(q asked) string {
	if q.m.Spec.Strategy.OnTimeout != v1alpha1.TimeoutPause || rollsBack(q.m) {
		return ""
	}
	for _, p := range newLook(q.m, q.w, q.now).pools {
		late := slices.ContainsFunc(p.nodes, func(n inventory.Node) bool {
			began, d := drainBegan(q, n.Name), q.w.Drains[n.Name]
			return !began.IsZero() && q.now.Sub(began) >= timeLimit(q.m) && d.Evictable > 0
		})
		for _, n := range p.nodes {
			if late && slices.Contains(told(q.d.Actions), "BeginDrain "+n.Name) {
				return n.Name + " begins though another one of " + p.Name + " takes too long"
			}
		}
	}
	return ""
}

// emptyHasItsTime: an instance ends when load balancers have let go of its node, and its pods' volumes are detached or have had six minutes.
func emptyHasItsTime(q asked) string {
	for _, a := range q.d.Actions {
		end, ok := a.(EndInstances)
		if !ok {
			continue
		}
		for _, n := range q.w.Nodes {
			if !slices.Contains(end.IDs, n.InstanceID) {
				continue
			}
			if s := q.m.Spec.Strategy.LoadBalancerSeconds; s != nil && q.now.Sub(drainBegan(q, n.Name)) < time.Duration(*s)*time.Second {
				return n.Name + " ends while load balancers may send to it"
			}
			shown := slices.ContainsFunc(q.m.Status.Blockers, func(b v1alpha1.Blocker) bool {
				return b.Object == "node/"+n.Name && b.Reason == "VolumesAttached" && b.Since != nil && q.now.Sub(b.Since.Time) >= 6*time.Minute
			})
			if len(q.w.Drains[n.Name].Volumes) > 0 && !shown {
				return n.Name + " ends under volumes"
			}
		}
	}
	return ""
}
