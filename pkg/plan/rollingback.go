package plan

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

const (
	// calmPatience is for how long the way back waits for a moment without a node on its way: real instances join in one to
	// two minutes. One that still has not is stuck, and may be the reason for going back.
	calmPatience = 3 * time.Minute
	// startPatience is for how long a Cluster Autoscaler that was started is waited for to lead, once nothing else tells that
	// it has to.
	startPatience = 10 * time.Minute
	// wordPatience is after how long a Cluster Autoscaler that writes no status is taken at its Lease's word.
	wordPatience = 2 * time.Minute
)

// wayBack is the order in which every pool keeps one scaler. The first step that is not done acts; a step that the migration
// never needed is done at once, so the same list goes back from everywhere.
var wayBack = []func(*outcome, *ledger, look){
	keepServing,
	showGroups,
	restoreGroups,
	awaitGroups,
	stopNodePools,
	startAutoscalers,
	restoreQuieted,
	drainKarpenter,
	removeNodePools,
	removeKarpenter,
	unmarkNodes,
}

// rollingBack brings everything back to Cluster Autoscaler: the snapshot is the goal, from wherever the world is.
func rollingBack(led *ledger, l look) outcome {
	o := outcome{}
	if l.Snapshot == nil {
		o.done = true
		return o
	}
	if missing := goneForGood(l); len(missing) > 0 {
		o.until = l.now.Add(atRest)
		o.block("RollbackUnavailable", "migration/"+l.m.Name, "Gone since the snapshot was taken: "+list(missing)+
			". castoff cannot make them again. Create them as the snapshot's Secrets say (docs/runbooks/restore-by-hand.md), or set spec.paused to false to stay with Karpenter.")
		return o
	}
	for _, p := range l.pools {
		for _, g := range p.groups {
			if recorded, ok := l.Snapshot.Group(g.Name); ok {
				sizesBack(&o, l, g, recorded.Group) // told as long as it is so
			}
		}
	}
	if nobodyServes(led, l) {
		for _, p := range l.pools {
			releaseNodes(&o, *led, l.now, p.nodes) // a cordon would make Cluster Autoscaler scale the group up to its max
		}
		startAutoscalers(&o, led, l)
		if !o.idle() {
			return o
		}
	}
	for _, step := range wayBack {
		step(&o, led, l)
		if !o.idle() {
			return o
		}
	}
	o.done = true
	return o
}

// nobodyServes says that Cluster Autoscaler was stopped and no NodePool serves: every second counts, whatever else is to do. Of groups
// that are hidden from it a NodePool is sooner there than their tags are.
func nobodyServes(led *ledger, l look) bool {
	return nearer(led, l) == sideKarpenter && !slices.ContainsFunc(l.pools, func(p pool) bool {
		np, ok := nodePool(l, p.Name)
		return ok && !stopped(np) || slices.ContainsFunc(p.groups, hidden)
	})
}

// goneForGood lists what was recorded, is needed to go back, and does not exist any more.
func goneForGood(l look) []string {
	var gone []string
	if l.Snapshot == nil {
		return nil
	}
	for _, g := range l.Snapshot.Groups {
		if _, ok := group(l.Groups, g.Group.Name); !ok {
			gone = append(gone, "node group "+g.Group.Name)
		}
	}
	for _, a := range l.Snapshot.Autoscalers {
		if _, ok := autoscaler(l, a); !ok && a.Replicas > 0 {
			gone = append(gone, "Cluster Autoscaler "+a.Deployment.String())
		}
	}
	return gone
}

func autoscaler(l look, recorded inventory.Autoscaler) (inventory.Autoscaler, bool) {
	i := slices.IndexFunc(l.Autoscalers, func(a inventory.Autoscaler) bool { return a.Object() == recorded.Object() })
	if i < 0 {
		return inventory.Autoscaler{}, false
	}
	return l.Autoscalers[i], true
}

// keepServing gives the undrained nodes to the scheduler, while the NodePools still serve. Nothing that Karpenter has may move meanwhile:
// it would move onto the nodes that come back.
func keepServing(o *outcome, led *ledger, l look) {
	for _, w := range l.waves {
		standStill(o, led, l.only(w))
	}
}

// restoreGroups gives the groups their sizes back, while the NodePools still serve. Once Cluster Autoscaler is asked to run the sizes are
// its own.
func restoreGroups(o *outcome, led *ledger, l look) {
	for _, w := range l.waves {
		one := l.only(w)
		if nearer(led, one) != sideKarpenter {
			raiseMins(o, led, one)
			continue
		}
		for _, p := range one.pools {
			for _, g := range p.groups {
				restoreGroup(o, one, g)
			}
			standIn(o, one, p)
		}
	}
}

// standStill is keepServing for one wave.
func standStill(o *outcome, led *ledger, l look) {
	taken := nearer(led, l) == sideKarpenter
	for _, p := range l.pools {
		np, ok := nodePool(l, p.Name)
		switch {
		case !ok && taken && release(&outcome{}, led, l):
			serveWith(o, led, l, p) // a hand-over that was cut in its middle is nearer to its end
		case ok && !stopped(np) && !still(np):
			o.act(EnsureNodePool{NodePool: stillNodePool(np)})
		}
		releaseNodes(o, *led, l.now, p.nodes)
	}
}

// raiseMins gives the mins back that were lowered for a change of hands that did not come about. All else is Cluster Autoscaler's.
func raiseMins(o *outcome, led *ledger, l look) {
	for _, p := range l.pools {
		for _, g := range p.groups {
			recorded, ok := l.Snapshot.Group(g.Name)
			if _, asked := led.entry(kindSetGroupSize, g.AutoScalingGroup); ok && asked && g.Min == 0 && recorded.Group.Min != 0 {
				low := recorded.Group.Min
				o.act(SetGroupSize{Group: g, Min: low, Max: max(g.Max, low), Desired: max(g.Desired, low)})
			}
		}
	}
}

func restoreGroup(o *outcome, l look, g inventory.NodeGroup) {
	recorded, ok := l.Snapshot.Group(g.Name)
	if !ok {
		return
	}
	if minimum, maximum, desired := sizesBack(&outcome{}, l, g, recorded.Group); minimum != g.Min || maximum != g.Max || desired != g.Desired {
		o.act(SetGroupSize{Group: g, Min: minimum, Max: maximum, Desired: desired})
	}
	if g.Suspends(processLaunch) && !recorded.Group.Suspends(processLaunch) {
		o.act(ResumeProcesses{Group: g.AutoScalingGroup, Processes: []string{processLaunch}})
	}
}

// awaitGroups waits until the old nodes are there and Karpenter has none on its way. Pools that nobody serves are not kept
// waiting: Cluster Autoscaler gets them as they are.
func awaitGroups(o *outcome, led *ledger, l look) {
	if nearer(led, l) != sideKarpenter {
		return
	}
	awaitScaler(o, l)
	for _, p := range l.pools {
		if np, ok := nodePool(l, p.Name); !ok || stopped(np) {
			continue
		}
		for _, g := range p.groups {
			awaitEffects(o, *led, l, g)
			recorded, _ := l.Snapshot.Group(g.Name)
			if want, have := min(recorded.Group.Desired, g.Max), readyNodes(l, g); have < want {
				o.wait("NodesReturning", "nodegroup/"+g.Name, strconv.Itoa(int(have))+" of "+strconv.Itoa(int(want))+
					" nodes are Ready; Karpenter serves the pool until all are. "+g.LaunchError)
			}
		}
		const inFlight = "CapacityInFlight"
		object := "nodepool/" + p.Name
		if n := claimsInFlight(l, p); n > 0 && l.waited(inFlight, object) < calmPatience {
			o.wait(inFlight, object, inventory.Count(n, "node of Karpenter's is on its way", "nodes of Karpenter's are on their way")+"; the pool changes hands when none is, or after "+calmPatience.String()+".")
		}
	}
}

// CheckNoScaler is a way back to where nobody scales the pools.
const CheckNoScaler = "NoScalerToGoBackTo"

// awaitScaler stops before Karpenter lets go of pools that nobody would have then: no Cluster Autoscaler ran when the snapshot
// was taken, and none was started since.
func awaitScaler(o *outcome, l look) {
	object := "migration/" + l.m.Name
	for _, recorded := range l.Snapshot.Autoscalers {
		if a, ok := autoscaler(l, recorded); ok && (recorded.Replicas > 0 || a.Replicas > 0) {
			return
		}
	}
	if l.accepts(CheckNoScaler, object) {
		return
	}
	o.block(CheckNoScaler, object, "When the snapshot was taken no Cluster Autoscaler ran, so on the way back nobody would scale the pools: pods that find no room would wait for ever. "+
		"Scale it up now (it waits as a standby until the hands change), or accept the risk "+CheckNoScaler+" in spec.acceptedRisks, or set spec.paused to false to stay with Karpenter.")
}

// awaitEffects waits for the last change of a group to show: what it was before may look as recorded, and is not.
func awaitEffects(o *outcome, led ledger, l look, g inventory.NodeGroup) {
	if op, ok := led.unseenOn(g.AutoScalingGroup, l.now); ok {
		o.wait("EffectNotVisible", op.ID, "The last change of the group was asked for and is not visible yet; what comes next on the way back waits until it is, or for a minute.")
	}
}

func readyNodes(l look, g inventory.NodeGroup) int32 {
	n := int32(0)
	for _, node := range l.Nodes {
		if node.Group == g.Name && node.Ready {
			n++
		}
	}
	return n
}

func claimsInFlight(l look, p pool) int {
	n := 0
	for _, c := range claimsOf(l, p) {
		if !c.Ready && !c.Deleting {
			n++
		}
	}
	return n
}

// claimsOf are the NodeClaims of the pool's NodePool.
func claimsOf(l look, p pool) []inventory.NodeClaim {
	np, ok := nodePool(l, p.Name)
	if !ok {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(l.Engine.NodeClaims), func(c inventory.NodeClaim) bool { return c.NodePool != np.Name })
}

// waited is for how long the last status has had this blocker.
func (l look) waited(reason, object string) time.Duration {
	for _, b := range l.m.Status.Blockers {
		if b.Reason == reason && b.Object == object && b.Since != nil {
			return l.now.Sub(b.Since.Time)
		}
	}
	return 0
}

// stopNodePools is the moment at which Karpenter lets go: its nodes stay and run what they run, and none is added.
func stopNodePools(o *outcome, _ *ledger, l look) {
	for _, p := range l.pools {
		if np, ok := nodePool(l, p.Name); ok && !stopped(np) {
			o.act(EnsureNodePool{NodePool: stoppedNodePool(np)})
		}
	}
}

// startAutoscalers lets the Leases go, starts every Cluster Autoscaler that castoff stopped, and sees it lead. One that the
// user stopped, before or after, stays so; its Lease is let go all the same.
func startAutoscalers(o *outcome, led *ledger, l look) {
	for _, a := range l.Autoscalers {
		if standby(a) {
			o.act(LetGoLease{Lease: a.Lease})
		}
	}
	for _, recorded := range l.Snapshot.Autoscalers {
		a, ok := autoscaler(l, recorded)
		if !ok || (recorded.Replicas == 0 && a.Replicas == 0) {
			continue
		}
		if !slices.Equal(a.Args, recorded.Args) {
			o.warn("AutoscalerChanged", a.Object(), "Its arguments are not those of the snapshot: somebody changed them since. castoff leaves them as they are.")
		}
		startAutoscaler(o, led, l, a, recorded.Replicas)
	}
}

func startAutoscaler(o *outcome, led *ledger, l look, a inventory.Autoscaler, replicas int32) {
	const starting = "AutoscalerStarting"
	object := a.Object()
	start, asked := led.entry(kindStartAutoscaler, a.Deployment.String())
	owed := takenOver(led, l) || (asked && start.DoneTime == nil)
	if a.Replicas > 0 {
		if !leads(a, l) && !(takenAtItsWord(a) && l.waited(starting, object) >= wordPatience) && (owed || justStarted(start, l.now)) {
			o.wait(starting, object, "Cluster Autoscaler runs; its Lease is held by "+cmp.Or(a.LeaseHolder, "nobody yet")+
				", and it serves once its status lists the groups.")
		}
		return
	}
	switch {
	case !owed:
	case !a.Scalable():
		o.block(checkNotDeployment, object, "Cluster Autoscaler ran as a "+a.Kind+", and castoff starts Deployments only. Give it its "+
			strconv.Itoa(int(replicas))+" replicas, or set spec.paused to false to stay with Karpenter.")
	case start.Attempts >= mostStops && start.DoneTime != nil:
		o.block("AutoscalerStoppedAgain", object, "Cluster Autoscaler was scaled to 0 again"+by(a)+", and castoff does not fight over it. Scale it to "+
			strconv.Itoa(int(replicas))+", or set spec.paused to false to stay with Karpenter.")
	default:
		o.wait(starting, object, "Cluster Autoscaler is being started.")
		o.act(StartAutoscaler{Autoscaler: a, Replicas: replicas})
	}
}

// takenAtItsWord: it won the election, and writes no status (--write-status-configmap=false).
func takenAtItsWord(a inventory.Autoscaler) bool { return elected(a) && a.StatusTime.IsZero() }

func justStarted(start v1alpha1.Operation, now time.Time) bool {
	return start.StartTime != nil && now.Sub(start.StartTime.Time) < startPatience
}
