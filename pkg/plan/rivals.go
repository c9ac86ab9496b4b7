package plan

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

const (
	// checkForeignKarpenter is the preflight's word, too. Here it is said of one that came since.
	checkForeignKarpenter = "ForeignKarpenter"
	// CheckHeavierNodePool is somebody's NodePool that Karpenter asks before the pool's, and that takes its pods.
	CheckHeavierNodePool = "HeavierNodePool"
	// reasonLeaseTaken is of a Lease that castoff held and that somebody else has now.
	reasonLeaseTaken = "LeaseTaken"
	// reasonNodePoolDeleted is of a NodePool that served and that somebody deleted.
	reasonNodePoolDeleted = "NodePoolDeleted"

	// mostQuick is how often castoff takes a Lease back, or makes a NodePool again, at once. From then on it waits for rivalRest before
	// each: to do it at once for ever would be a fight.
	mostQuick = 2
	rivalRest = time.Minute
	// leaderEnds is for how long a Cluster Autoscaler acts on that lost its Lease: its renew deadline and one retry (measured: 10.5 s).
	leaderEnds = 15 * time.Second
	// leaseLingers is for how long the Lease of a Cluster Autoscaler that was stopped is still that one's (its default duration is 15 s).
	// What castoff holds says an hour, so that one is told from a Lease that castoff held.
	leaseLingers = 30 * time.Second
)

// interferences are the reasons of what others do in the middle of a migration.
var interferences = []string{
	"AutoscalerStandby", v1alpha1.ReasonTwoScalers, checkForeignKarpenter, CheckHeavierNodePool, reasonLeaseTaken, reasonNodePoolDeleted,
	reasonSetBack, reasonUncordoned, reasonJoinedLate, CheckRefreshHeld,
}

// Interference says that a blocker of that reason is about what somebody did: it is told each time that it is done.
func Interference(reason string) bool { return slices.Contains(interferences, reason) }

// heed holds evictions back while somebody beside castoff's Karpenter may serve the pools: pods that are evicted now would go there,
// or be moved twice.
func heed(o *outcome, led *ledger, l look) {
	holdBack(o, l)
	for _, a := range l.Autoscalers {
		retake(o, led, l, a)
	}
	for _, p := range l.pools {
		awaitDeleted(o, led, l, p)
	}
}

// holdBack says of other Karpenters and NodePools that they have to go first. Once no legacy node is left nothing is evicted any more.
func holdBack(o *outcome, l look) {
	if !slices.ContainsFunc(l.pools, func(p pool) bool { return !p.gone() }) {
		return
	}
	for _, k := range otherKarpenters(l) {
		o.block(checkForeignKarpenter, k.Object(), "A second Karpenter runs"+k.By()+", and two launch twice for every pod. castoff does not stop it, and evicts nothing until it is gone, or at 0 replicas: kubectl scale deployment/"+
			k.Name+" -n "+k.Namespace+" --replicas=0")
	}
	for _, r := range heavier(l) {
		o.block(CheckHeavierNodePool, "nodepool/"+r.NodePool, fmt.Sprintf("NodePool %s%s has weight %d, so Karpenter asks it before that of pool %s, and it takes %s: evicted pods would go to its nodes, which no way back drains. "+
			"castoff evicts nothing until it is gone, or takes them no more (a lower weight, a taint, other requirements); or accept the risk %s for this object.", r.NodePool, r.By(), r.Weight, r.Pool, r.Takes, CheckHeavierNodePool))
	}
}

// otherKarpenters are those that run beside the one that serves.
func otherKarpenters(l look) []inventory.Karpenter {
	if l.Engine.Adopted && len(l.Engine.Others) < 2 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(l.Engine.Others), func(k inventory.Karpenter) bool {
		return k.Replicas == 0 && k.ReadyReplicas == 0 || l.accepts(checkForeignKarpenter, k.Object())
	})
}

// heavier are the NodePools that take the pools' pods before castoff's, but for those that were accepted.
func heavier(l look) []inventory.Rival {
	return slices.DeleteFunc(slices.Clone(l.Rivals), func(r inventory.Rival) bool { return l.accepts(CheckHeavierNodePool, "nodepool/"+r.NodePool) })
}

// HeavierNodePools are the NodePools of somebody else's that Karpenter asks before a pool's (Karpenter, "NodePools", weight), by the
// pool's name. Whether they take its pods is another question.
func HeavierNodePools(w World) map[string][]karpv1.NodePool {
	out := map[string][]karpv1.NodePool{}
	for _, p := range newLook(&v1alpha1.Migration{}, w, time.Time{}).pools {
		if p.target == nil || p.gone() {
			continue
		}
		for _, np := range w.Engine.NodePools {
			theirs := np.Labels[v1alpha1.LabelPool] == "" && np.Labels[v1alpha1.LabelCanary] == ""
			if theirs && np.DeletionTimestamp == nil && !stopped(np) && weight(np) > weight(p.target.NodePool) {
				out[p.Name] = append(out[p.Name], np)
			}
		}
	}
	return out
}

func weight(np karpv1.NodePool) int32 {
	if np.Spec.Weight == nil {
		return 0
	}
	return *np.Spec.Weight
}

// leaseTaken says that somebody has a Lease that castoff held, and may act with it. That of a leader that castoff stopped a moment ago is not
// taken: nobody has it any more.
func leaseTaken(l look, a inventory.Autoscaler) bool {
	ours := a.LeaseHolder == "" || a.LeaseHolder == v1alpha1.LeaseIdentity
	if ours || !a.LeaderElect || !manages(a, l) || !a.Stopped() || l.now.Sub(a.LeaseRenewed) > a.LeaseDuration {
		return false
	}
	stop, asked := ledger(l.m.Status.Operations).entry(kindStopAutoscaler, a.Deployment.String())
	if asked && stop.StartTime != nil && l.now.Sub(stop.StartTime.Time) < leaseLingers && a.LeaseDuration <= leaseLingers {
		return false
	}
	return slices.ContainsFunc(l.pools, func(p pool) bool { _, serves := nodePool(l, p.Name); return serves })
}

// retake takes a Lease back that somebody took: a Cluster Autoscaler that castoff cannot see may lead with it. Whoever had it acts on for
// a while, so evictions wait for that too.
func retake(o *outcome, led *ledger, l look, a inventory.Autoscaler) {
	action := RetakeLease{Lease: a.Lease}
	kind, target, _ := action.Entry()
	op, _ := led.entry(kind, target)
	switch {
	case !leaseTaken(l, a):
		if op.DoneTime != nil && standby(a) && l.now.Sub(op.DoneTime.Time) < leaderEnds {
			o.wait(reasonLeaseTaken, target, fmt.Sprintf("castoff has the Lease again, time %d. Whoever had it may act on for some seconds, and nothing is evicted until they are over.", op.Attempts))
		}
	case resting(op, l.now):
		o.block(reasonLeaseTaken, target, fmt.Sprintf("%s has Cluster Autoscaler's Lease%s, after castoff took it back %d times, and castoff does not fight over it. A Cluster Autoscaler that castoff cannot see may lead with it "+
			"(outside the cluster?): stop it, then kubectl delete lease %s -n %s. castoff evicts nothing until then, and tries again at %s.",
			a.LeaseHolder, writer(a.LeaseBy), op.Attempts, a.Lease.Name, a.Lease.Namespace, restEnds(op)))
	default:
		o.warn(reasonLeaseTaken, target, fmt.Sprintf("%s took Cluster Autoscaler's Lease%s. castoff takes it back, time %d, and evicts nothing until whoever had it has ended.", a.LeaseHolder, writer(a.LeaseBy), op.Attempts+1))
		o.act(action)
	}
}

// resting says that something was done over and over, and is not to be done again yet.
func resting(op v1alpha1.Operation, now time.Time) bool {
	return op.Attempts >= mostQuick && op.StartTime != nil && now.Sub(op.StartTime.Time) < rivalRest
}

func restEnds(op v1alpha1.Operation) string {
	return op.StartTime.Add(rivalRest).UTC().Format(time.RFC3339)
}

// writer names a field manager, for the middle of a sentence.
func writer(manager string) string {
	if manager == "" {
		return ""
	}
	return " (field manager " + manager + ")"
}

// remakes says whether the pool's NodePool may be made, and counts it where somebody had deleted the one that served.
func remakes(o *outcome, led *ledger, l look, p pool) bool {
	if !l.served(p.Name) {
		return true
	}
	object := "nodepool/" + p.target.NodePool.Name
	op, _ := led.entry(kindRemakeNodePool, object)
	if resting(op, l.now) {
		o.block(reasonNodePoolDeleted, object, fmt.Sprintf("Somebody deletes the NodePool again and again; castoff made it %d times and does not fight over it. Nobody serves pool %s meanwhile, and nothing is evicted. "+
			"See who deletes it (the API server's audit log); castoff makes it again at %s.", op.Attempts, p.Name, restEnds(op)))
		return false
	}
	o.warn(reasonNodePoolDeleted, object, fmt.Sprintf("Somebody deleted the NodePool that serves pool %s. castoff makes it again, time %d, and evicts nothing until Karpenter has drained the nodes that went with it.", p.Name, op.Attempts+1))
	led.record(kindRemakeNodePool+"/"+object, "", l.now)
	return true
}

// awaitDeleted waits for the nodes that go with a NodePool that somebody deleted: Karpenter drains them all at once, and what is evicted
// beside that would be moved twice.
func awaitDeleted(o *outcome, led *ledger, l look, p pool) {
	np, ok := nodePool(l, p.Name)
	if !ok {
		return
	}
	object := "nodepool/" + np.Name
	op, remade := led.entry(kindRemakeNodePool, object)
	going := slices.DeleteFunc(claimsOf(l, p), func(c inventory.NodeClaim) bool {
		return !c.Deleting || remade && op.StartTime != nil && c.Created.After(op.StartTime.Time)
	})
	switch {
	case np.DeletionTimestamp != nil:
		o.wait(reasonNodePoolDeleted, object, fmt.Sprintf("Somebody deletes the NodePool that serves pool %s, and Karpenter drains its %s. castoff makes it again when it is gone, and evicts nothing until then. "+
			"If it does not go, see its finalizers and the budgets of the pods on its nodes.", p.Name, inventory.Count(len(claimsOf(l, p)), "node")))
	case remade && len(going) > 0:
		o.wait(reasonNodePoolDeleted, object, fmt.Sprintf("Somebody deleted the NodePool, and castoff made it again, time %d. Karpenter drains %s that went with the old one; nothing is evicted until that is over.", op.Attempts, inventory.Count(len(going), "node")))
	}
}

// served says that the pool changed hands.
func (l look) served(pool string) bool {
	return slices.ContainsFunc(l.m.Status.Waves, func(w v1alpha1.WaveStatus) bool { return w.ServedTime != nil && slices.Contains(w.Pools, pool) })
}

// rivals name who serves the pools beside castoff's Karpenter, or may, Cluster Autoscalers that castoff sees aside.
func rivals(l look) []string {
	var out []string
	if !handingOverReached(l) {
		return nil
	}
	for _, k := range otherKarpenters(l) {
		out = append(out, "Karpenter "+k.Namespace+"/"+k.Name+k.By())
	}
	for _, r := range heavier(l) {
		out = append(out, fmt.Sprintf("NodePool %s%s of weight %d, which takes pods of pool %s first", r.NodePool, r.By(), r.Weight, r.Pool))
	}
	for _, a := range l.Autoscalers {
		if leaseTaken(l, a) {
			out = append(out, cmp.Or(a.LeaseHolder, "somebody")+", who took Cluster Autoscaler's Lease "+a.Lease.String()+writer(a.LeaseBy))
		}
	}
	return out
}

// forsaken are the pools that changed hands and whose NodePool somebody deleted.
func forsaken(l look) []string {
	var out []string
	for _, p := range l.pools {
		np, ok := nodePool(l, p.Name)
		if l.served(p.Name) && (!ok || np.DeletionTimestamp != nil) {
			out = append(out, p.Name)
		}
	}
	return out
}

// visibleRival says whether what was done about somebody's interference is in the world.
func visibleRival(op v1alpha1.Operation, w World) bool {
	if kindOf(op) == kindRemakeNodePool {
		return slices.ContainsFunc(w.Engine.NodePools, func(np karpv1.NodePool) bool {
			return "nodepool/"+np.Name == targetOf(op) && np.DeletionTimestamp == nil
		})
	}
	return !slices.ContainsFunc(w.Autoscalers, func(a inventory.Autoscaler) bool {
		return "lease/"+a.Lease.String() == targetOf(op) && !standby(a)
	})
}
