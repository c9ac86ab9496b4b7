package plan

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

const (
	// leaseRenewal is how often the held Lease is renewed; its record says 3600 s, so three renewals may fail.
	leaseRenewal = 15 * time.Minute
	// leaseHurry is the same while a Cluster Autoscaler runs that waits for 15 s and not for what the record says.
	leaseHurry = 5 * time.Second
	// mostStops is how often a Cluster Autoscaler is scaled to 0: once at the hand-over, and once if it comes back. A third
	// time would be a fight with whoever owns it.
	mostStops = 2

	// taintToBeDeleted and taintCandidate are what a Cluster Autoscaler that was stopped in the middle of a scale-down leaves.
	taintToBeDeleted = "ToBeDeletedByClusterAutoscaler"
	taintCandidate   = "DeletionCandidateOfClusterAutoscaler"
	// guardedSuffix marks the target of a NodePool whose pool still has legacy nodes.
	guardedSuffix = "/guarded"
)

// quietProcesses would end or add instances that nobody drained or asked for. Terminate is never suspended: it is how
// drained instances end. Launch stays until the pool is shifted.
var quietProcesses = []string{"AZRebalance", "ReplaceUnhealthy", "ScheduledActions", "AlarmNotification", "InstanceRefresh"}

// handingOver moves the wave: groups are quiet, then Cluster Autoscaler lets go and is seen to have let go, and only then
// NodePools serve. The fence comes last: a cordon while Cluster Autoscaler acts makes it scale the group up to its max.
func handingOver(led *ledger, l look) outcome {
	o := outcome{}
	if !takenOver(led, l) {
		if holdBack(&o, l); straddled(&o, l) || blocked(&o, l, "") || !o.idle() {
			o.until = l.now.Add(atRest)
			return o
		}
		if awaits(&o, l, v1alpha1.ApproveHandOver, "Karpenter is installed and serves nothing yet; Cluster Autoscaler is in charge") {
			return o
		}
	}
	for _, p := range l.pools {
		for _, g := range p.groups {
			quietProcessesOf(&o, *led, l, g)
		}
	}
	lowerBeforeHiding(&o, l)
	if !o.idle() {
		return o
	}
	if !release(&o, led, l) {
		return o
	}
	serve(&o, led, l)
	for _, p := range l.pools {
		releaseNodes(&o, *led, l.now, karpenterNodes(l, p)) // cordoned on a way back that was broken off
	}
	fence(&o, l)
	heed(&o, led, l)
	tellLate(&o, l)
	o.done = o.idle()
	return o
}

func quietProcessesOf(o *outcome, led ledger, l look, g inventory.NodeGroup) {
	var missing []string
	for _, p := range quietProcesses {
		if !slices.Contains(g.SuspendedProcesses, p) {
			missing = append(missing, p)
		}
	}
	switch {
	case len(missing) > 0:
		mend(o, led, l, g, SuspendProcesses{Group: g.AutoScalingGroup, Processes: missing})
	case g.CapacityRebalance:
		mend(o, led, l, g, SetRebalance{Group: g.AutoScalingGroup, On: false})
	case g.MaxInstanceLifetime != 0:
		mend(o, led, l, g, SetLifetime{Group: g.AutoScalingGroup, Seconds: 0})
	}
}

// release makes every Cluster Autoscaler that scales a pool let go, and says whether all of them were seen to.
func release(o *outcome, led *ledger, l look) bool {
	released := true
	for _, a := range l.Autoscalers {
		switch {
		case unknown(a, l):
			o.block(checkGroupsUnknown, a.Object(), "castoff cannot tell which groups this Cluster Autoscaler scales: "+a.GroupsUnknown()+
				". It waits, and evicts nothing, until they are written out, or it is stopped: "+a.StopByHand())
			released = false
			continue
		case !manages(a, l):
			continue
		case keeps(a, l):
			released = letGo(o, led, l, a) && released
			continue
		case starting(led, a, l.now) && !standby(a): // the way back was broken off just then
			if a.Stopped() && a.LeaderElect {
				o.act(HoldLease{Lease: a.Lease}) // whether or not it still comes, it comes as a standby
			}
			o.wait("AutoscalerStarting", a.Object(), "It was asked to run a moment ago, and is stopped once that is seen.")
			released = false
			continue
		case a.Stopped():
			continue
		}
		released = releaseOne(o, led, a) && released
		if leaves(a) && l.waited(reasonStopping, a.Object()) < brisk {
			o.until = soonest(o.until, l.now.Add(glance))
		}
	}
	return released
}

const (
	reasonStopping = "AutoscalerStopping"
	// glance is when to look again while the last pod of a Cluster Autoscaler is on its way out: no pool has a scaler then, and nothing
	// tells castoff that the pod is gone. brisk is for how long: one that takes longer is looked at in the usual pace.
	glance = 200 * time.Millisecond
	brisk  = 10 * time.Second
)

// leaves says that a Cluster Autoscaler is asked for no pod, and still has one.
func leaves(a inventory.Autoscaler) bool { return a.Replicas == 0 && !a.Stopped() }

func releaseOne(o *outcome, led *ledger, a inventory.Autoscaler) bool {
	object := a.Object()
	stops := led.attempts(kindStopAutoscaler, a.Deployment.String())
	switch {
	case standby(a) && a.Replicas > 0:
		o.warn("AutoscalerStandby", object, "Cluster Autoscaler was started again"+by(a)+". castoff holds its leader-election Lease, so it stays idle. Scale it to 0 where it is defined.")
		return true
	case a.Replicas == 0:
		o.wait(reasonStopping, object, "Cluster Autoscaler is scaled to 0; "+inventory.Count(a.Pods, "pod of it is", "pods of it are")+" still there.")
	case !a.Scalable():
		o.block(checkNotDeployment, object, "Cluster Autoscaler runs as a "+a.Kind+", and castoff stops Deployments only. It waits, and evicts nothing, until you stop it: "+a.StopByHand())
	case stops < mostStops:
		o.wait("AutoscalerRunning", object, "Cluster Autoscaler is being scaled to 0.")
		o.act(StopAutoscaler{Autoscaler: a})
	default:
		o.block(v1alpha1.ReasonTwoScalers, object, "Cluster Autoscaler was scaled up again"+by(a)+
			", and castoff does not fight over it. It evicts nothing until this Deployment is at 0 replicas: set that where it is defined.")
	}
	return false
}

// checkNotDeployment is the preflight's word, too: a Cluster Autoscaler that castoff neither stops nor starts.
const checkNotDeployment = "AutoscalerNotDeployment"

// checkGroupsUnknown is the preflight's word, too. Here it is said of one that came since.
const checkGroupsUnknown = "AutoscalerGroupsUnknown"

// unknown says that a Cluster Autoscaler runs that may scale a pool or not, and that nobody accepted that.
func unknown(a inventory.Autoscaler, l look) bool {
	return !a.Stopped() && !standby(a) && a.GroupsUnknown() != "" && !l.accepts(checkGroupsUnknown, a.Object())
}

func by(a inventory.Autoscaler) string {
	return inventory.ByWhom(a.Owner, a.ChangedBy)
}

// serve holds the Leases, clears what Cluster Autoscaler left, and lets Karpenter serve the pools.
func serve(o *outcome, led *ledger, l look) {
	held := holdLeases(l)
	o.act(held.actions...)
	for _, p := range l.pools {
		for _, n := range p.nodes {
			if n.HasTaint(taintToBeDeleted, "") || n.HasTaint(taintCandidate, "") {
				o.act(StripLeftovers{Node: n.Name})
			}
		}
	}
	for _, p := range l.pools {
		serveWith(o, led, l, p)
	}
}

func serveWith(o *outcome, led *ledger, l look, p pool) {
	if p.target == nil {
		o.block("NotTranslated", "pool/"+p.Name, "The pool could not be translated to a NodePool and an EC2NodeClass.")
		return
	}
	want := wantNodePool(p)
	have, ok := nodePool(l, p.Name)
	if ok && have.DeletionTimestamp != nil {
		return // it is waited for
	}
	if !ok && !remakes(o, led, l, p) {
		return
	}
	if !ok || !sameTarget(&have, want) {
		o.act(EnsureNodePool{NodePool: want})
		return
	}
	if !isReady(have.Status.Conditions) {
		o.wait("NodePoolNotReady", "nodepool/"+have.Name, whyNot(have.Status.Conditions))
	}
}

// wantNodePool is the pool's NodePool. While legacy nodes are left it may neither consolidate nor replace for drift:
// Karpenter would move pods back onto the old nodes, or away from the new ones twice.
func wantNodePool(p pool) *karpv1.NodePool {
	np := p.target.NodePool.DeepCopy()
	if p.gone() {
		return np
	}
	np.Spec.Disruption.Budgets = []karpv1.Budget{
		{Nodes: "0", Reasons: []karpv1.DisruptionReason{karpv1.DisruptionReasonUnderutilized, karpv1.DisruptionReasonDrifted}},
		{Nodes: "10%"},
	}
	if np.Annotations == nil {
		np.Annotations = map[string]string{}
	}
	np.Annotations[v1alpha1.AnnotationTargetHash] += guardedSuffix
	return np
}

// fence keeps new pods off the legacy nodes; one that joined late is fenced too. Nothing is fenced before its NodePool
// is Ready to serve what no longer fits.
func fence(o *outcome, l look) {
	for _, p := range l.pools {
		if np, ok := nodePool(l, p.Name); !ok || !isReady(np.Status.Conditions) || givesBack(l, p) {
			continue
		}
		for _, n := range p.nodes {
			if !fenced(n, p.Name) && !reopened(o, n) {
				o.act(FenceNode{Node: n.Name, Pool: p.Name})
			}
		}
	}
}

func fenced(n inventory.Node, pool string) bool {
	return n.Unschedulable && n.Labels[v1alpha1.LabelPool] == pool && n.Labels[v1alpha1.LabelScaler] == v1alpha1.ScalerKarpenter &&
		(n.HasTaint(v1alpha1.TaintLegacy, corev1.TaintEffectPreferNoSchedule) || n.HasTaint(v1alpha1.TaintLegacy, corev1.TaintEffectNoSchedule))
}

// holdLeases keeps the Lease of every Cluster Autoscaler that was stopped. It is the second proof, never the first: a
// running leader acts for ten seconds after it lost the Lease, so it is taken only when no pod is left.
func holdLeases(l look) outcome {
	o := outcome{}
	for _, a := range l.Autoscalers {
		switch {
		case !a.LeaderElect || !manages(a, l) || keeps(a, l) || leaseTaken(l, a):
		case a.LeaseHolder != v1alpha1.LeaseIdentity && a.Stopped(), renewalDue(a, l.now):
			o.act(HoldLease{Lease: a.Lease})
		}
	}
	return o
}

// renewalDue says that castoff holds the Lease, and has to say so again.
func renewalDue(a inventory.Autoscaler, now time.Time) bool {
	return standby(a) && now.Sub(a.LeaseRenewed) >= renewalEvery(a)
}

func renewalEvery(a inventory.Autoscaler) time.Duration {
	if a.Replicas > 0 && !a.KeepsToRecord() {
		return leaseHurry
	}
	return leaseRenewal
}

// renewalAt is when the first Lease has to be renewed in a hurry; zero: none has to. The others are seen to in the pace of any look.
func renewalAt(l look) time.Time {
	var at time.Time
	for _, a := range l.Autoscalers {
		if standby(a) && renewalEvery(a) == leaseHurry {
			at = soonest(at, later(a.LeaseRenewed.Add(leaseHurry), l.now.Add(time.Second)))
		}
	}
	return at
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

func list(names []string) string { return strings.Join(names, ", ") }
