package plan

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

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

// nobodyServes says that Cluster Autoscaler was stopped and no NodePool serves: every second counts, whatever else is to do.
func nobodyServes(led *ledger, l look) bool {
	return nearer(led, l) == sideKarpenter && !slices.ContainsFunc(l.pools, func(p pool) bool {
		np, ok := nodePool(l, p.Name)
		return ok && !stopped(np)
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
	i := slices.IndexFunc(l.Autoscalers, func(a inventory.Autoscaler) bool { return a.Deployment == recorded.Deployment })
	if i < 0 {
		return inventory.Autoscaler{}, false
	}
	return l.Autoscalers[i], true
}

// restoreGroups gives the groups their sizes back and the undrained nodes to the scheduler, while the NodePools still serve.
// Nothing that Karpenter has may move meanwhile: it would move onto the nodes that come back. Once Cluster Autoscaler is
// asked to run the sizes are its own.
func restoreGroups(o *outcome, led *ledger, l look) {
	taken := nearer(led, l) == sideKarpenter
	for _, p := range l.pools {
		np, ok := nodePool(l, p.Name)
		switch {
		case !ok && taken && release(&outcome{}, led, l):
			serveWith(o, l, p) // a hand-over that was cut in its middle is nearer to its end
		case ok && !stopped(np) && !still(np):
			o.act(EnsureNodePool{NodePool: stillNodePool(np)})
		}
		releaseNodes(o, *led, l.now, p.nodes)
	}
	if !taken || len(o.actions) > 0 {
		return
	}
	for _, p := range l.pools {
		for _, g := range p.groups {
			restoreGroup(o, l, g)
		}
		standIn(o, l, p)
	}
}

func restoreGroup(o *outcome, l look, g inventory.NodeGroup) {
	recorded, ok := l.Snapshot.Group(g.Name)
	if !ok {
		return
	}
	if minimum, maximum, desired := sizesBack(o, l, g, recorded.Group); minimum != g.Min || maximum != g.Max || desired != g.Desired {
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
			o.wait(inFlight, object, strconv.Itoa(n)+" nodes of Karpenter's are on their way; the pool changes hands when none is, or after "+calmPatience.String()+".")
		}
	}
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
		if !ok || recorded.Replicas == 0 {
			continue
		}
		if !slices.Equal(a.Args, recorded.Args) {
			o.warn("AutoscalerChanged", "deployment/"+a.Deployment.String(), "Its arguments are not those of the snapshot: somebody changed them since. castoff leaves them as they are.")
		}
		startAutoscaler(o, led, l, a, recorded.Replicas)
	}
}

func startAutoscaler(o *outcome, led *ledger, l look, a inventory.Autoscaler, replicas int32) {
	const starting = "AutoscalerStarting"
	object := "deployment/" + a.Deployment.String()
	start, asked := led.entry(kindStartAutoscaler, a.Deployment.String())
	owed := takenOver(led, l) || (asked && start.DoneTime == nil)
	switch {
	case a.Replicas == 0 && !owed:
	case a.Replicas == 0 && start.Attempts >= mostStops && start.DoneTime != nil:
		o.block("AutoscalerStoppedAgain", object, "Cluster Autoscaler was scaled to 0 again"+by(a)+", and castoff does not fight over it. Scale it to "+
			strconv.Itoa(int(replicas))+", or set spec.paused to false to stay with Karpenter.")
	case a.Replicas == 0:
		o.wait(starting, object, "Cluster Autoscaler is being started.")
		o.act(StartAutoscaler{Autoscaler: a, Replicas: replicas})
	case leads(a, l) || (takenAtItsWord(a) && l.waited(starting, object) >= wordPatience):
	case owed || justStarted(start, l.now):
		o.wait(starting, object, "Cluster Autoscaler runs; its Lease is held by "+cmp.Or(a.LeaseHolder, "nobody yet")+
			", and it serves once its status lists the groups.")
	}
}

// takenAtItsWord: it won the election, and writes no status (--write-status-configmap=false).
func takenAtItsWord(a inventory.Autoscaler) bool { return elected(a) && a.StatusTime.IsZero() }

func justStarted(start v1alpha1.Operation, now time.Time) bool {
	return start.StartTime != nil && now.Sub(start.StartTime.Time) < startPatience
}

// restoreQuieted gives back what kept the groups from being resized behind castoff's back.
func restoreQuieted(o *outcome, led *ledger, l look) {
	for _, p := range l.pools {
		if undone(l, p) {
			continue
		}
		for _, g := range p.groups {
			recorded, ok := l.Snapshot.Group(g.Name)
			if !ok {
				continue
			}
			resumeProcesses(o, *led, g, recorded.Group)
			restoreSettings(o, l, g, recorded.Group)
			restorePolicies(o, g, recorded.Group)
			restoreSchedules(o, l, g, recorded.Group)
			awaitEffects(o, *led, l, g)
		}
	}
}

// undone says that nothing of a pool is castoff's any more: its nodes bear no mark, and the mark is the first thing that the way
// forward writes and the last that the way back takes off. What differs from the snapshot from then on is the user's. Marked
// nodes may all have been replaced meanwhile, so the way back goes over everything once, until it has come to its end.
func undone(l look, p pool) bool {
	if rollsBack(l.m) && l.m.Status.CompletionTime == nil {
		return false
	}
	return len(p.nodes) > 0 && !slices.ContainsFunc(p.nodes, func(n inventory.Node) bool { return n.Annotations[v1alpha1.AnnotationLegacy] != "" })
}

// resumeProcesses resumes what castoff suspended. It suspends all that it needs to at once: most of them suspended together are
// its doing, though somebody resumed one since; fewer are where the ledger has their names.
func resumeProcesses(o *outcome, led ledger, g, recorded inventory.NodeGroup) {
	ours := led.names(kindSuspendProcesses, g.AutoScalingGroup)
	var all, names []string
	for _, p := range append(slices.Clone(quietProcesses), processLaunch) {
		if !g.Suspends(p) || recorded.Suspends(p) {
			continue
		}
		all = append(all, p)
		if slices.Contains(ours, p) {
			names = append(names, p)
		}
	}
	if 2*len(all) > len(quietProcesses) {
		names = all
	}
	if len(names) > 0 {
		o.act(ResumeProcesses{Group: g.AutoScalingGroup, Processes: names})
	}
}

func restoreSettings(o *outcome, l look, g, recorded inventory.NodeGroup) {
	if recorded.CapacityRebalance && !g.CapacityRebalance {
		o.act(SetRebalance{Group: g.AutoScalingGroup, On: true})
	}
	switch {
	case g.MaxInstanceLifetime == recorded.MaxInstanceLifetime:
	case g.MaxInstanceLifetime == 0, acceptsForeignSize(l, g):
		o.act(SetLifetime{Group: g.AutoScalingGroup, Seconds: recorded.MaxInstanceLifetime})
	default:
		foreignSetting(o, g, "its maximum instance lifetime is "+strconv.Itoa(int(g.MaxInstanceLifetime))+" s")
	}
}

func restorePolicies(o *outcome, g, recorded inventory.NodeGroup) {
	var names []string
	for _, r := range recorded.ScalingPolicies {
		i := slices.IndexFunc(g.ScalingPolicies, func(p inventory.ScalingPolicy) bool { return p.Name == r.Name })
		switch {
		case i < 0:
			foreignSetting(o, g, "its scaling policy "+r.Name+" was deleted")
		case r.Active && !g.ScalingPolicies[i].Active:
			names = append(names, r.Name)
		}
	}
	if len(names) > 0 {
		o.act(EnablePolicies{Recorded: recorded, Names: fitting(names)})
	}
}

// restoreSchedules makes the scheduled actions again whose time is not over.
func restoreSchedules(o *outcome, l look, g, recorded inventory.NodeGroup) {
	var actions []inventory.ScheduledAction
	var names []string
	for _, s := range recorded.ScheduledActions {
		switch {
		case hasSchedule(g, s.Name):
		case over(s, l.now):
			o.warn("ScheduleOver", "nodegroup/"+g.Name, "The time of the scheduled action "+s.Name+" has passed meanwhile; it is not made again.")
		default:
			actions, names = append(actions, s), append(names, s.Name)
		}
	}
	if len(actions) > 0 {
		o.act(PutScheduledActions{Group: g.AutoScalingGroup, Actions: actions[:len(fitting(names))]})
	}
}

// over: its end has passed, or it was to act once and that moment has.
func over(s inventory.ScheduledAction, now time.Time) bool {
	return (s.End != nil && s.End.Before(now)) || (s.Recurrence == "" && s.Start != nil && s.Start.Before(now))
}

// drainKarpenter empties Karpenter's nodes, a pool at a time, under the same rules as the way forward: the old nodes and
// Cluster Autoscaler have the pods from here on.
func drainKarpenter(o *outcome, _ *ledger, l look) {
	for _, p := range l.pools {
		if len(claimsOf(l, p)) == 0 {
			continue
		}
		if l.Engine.ReadyReplicas == 0 {
			o.wait("EngineNotReady", "deployment/karpenter", "None of Karpenter's pods is Ready, and only it can end its nodes: "+l.Engine.DeploymentMessage)
			return
		}
		drainPoolBack(o, l, p)
		return
	}
}

func drainPoolBack(o *outcome, l look, p pool) {
	nodes := karpenterNodes(l, p)
	for _, n := range nodes {
		if !n.Unschedulable {
			o.act(CordonNode{Node: n.Name})
		}
	}
	if len(o.actions) > 0 {
		return // all at once, or the pods of one would go to the next
	}
	for _, c := range claimsOf(l, p) {
		i := slices.IndexFunc(nodes, func(n inventory.Node) bool { return n.Name == c.Node })
		switch {
		case c.Deleting:
			o.wait("NodeClaimEnding", "nodeclaim/"+c.Name, "Karpenter is ending the node.")
		case i < 0:
			o.act(EndNodeClaim{NodeClaim: c.Name, Node: c.Node})
		case begun(nodes[i]):
			drainClaim(o, l, p, c)
		}
	}
	begin(o, l, p.Name, nodes, len(nodes))
}

func drainClaim(o *outcome, l look, p pool, c inventory.NodeClaim) {
	d, looked := l.Drains[c.Node]
	if looked && d.Evictable == 0 {
		o.act(EndNodeClaim{NodeClaim: c.Name, Node: c.Node})
		return
	}
	o.act(EvictPods{Node: c.Node, Pool: p.Name})
	o.wait("Draining", "node/"+c.Node, strconv.Itoa(d.Evictable)+" pods still have to leave the node.")
	o.blockers = append(o.blockers, DrainBlockers(p.Name, d)...)
}

// karpenterNodes are the nodes of the pool's NodePool.
func karpenterNodes(l look, p pool) []inventory.Node {
	np, ok := nodePool(l, p.Name)
	if !ok {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(l.Nodes), func(n inventory.Node) bool { return n.Labels[karpv1.NodePoolLabelKey] != np.Name })
}

// removeNodePools deletes the NodePools, which would drain whatever they still have: so only when they have nothing.
func removeNodePools(o *outcome, _ *ledger, l look) {
	for _, p := range l.pools {
		if np, ok := nodePool(l, p.Name); ok && len(claimsOf(l, p)) == 0 && len(karpenterNodes(l, p)) == 0 {
			o.act(DeleteNodePool{NodePool: np.Name})
		} else if ok {
			o.wait("NodesLeaving", "nodepool/"+np.Name, "The last of Karpenter's nodes are on their way out.")
		}
	}
}

// removeKarpenter takes away what castoff made, last things first; what was there before the snapshot stays.
func removeKarpenter(o *outcome, _ *ledger, l look) {
	for _, c := range l.Engine.Canaries {
		if c.NodePool || c.Pod || c.Node {
			o.act(EndCanary{Pool: c.Pool})
			o.wait("CanaryLeaving", "pool/"+c.Pool, "The canary's node is going.")
		}
	}
	if !o.idle() {
		return
	}
	for _, c := range l.Engine.NodeClasses {
		if c.Labels[v1alpha1.LabelPool] == "" {
			continue
		}
		o.wait("NodeClassEnding", "ec2nodeclass/"+c.Name, "Karpenter is letting the class go."+engineDown(l))
		if c.DeletionTimestamp == nil {
			o.act(DeleteNodeClass{NodeClass: c.Name})
		}
	}
	if !o.idle() {
		return
	}
	if users := karpenterUsers(l); len(users) > 0 && !l.Snapshot.Before.Release {
		o.warn("KarpenterInUse", "release/karpenter", "Karpenter stays, because somebody else uses it: "+list(users)+". Delete those and it goes.")
		return
	}
	if n := len(l.Engine.NodeClaims); n > 0 { // without the engine nobody would end their instances
		o.wait("NodesLeaving", "nodeclaims", strconv.Itoa(n)+" NodeClaims without a NodePool are left. Karpenter stays until they are gone: delete those that nobody is deleting.")
		return
	}
	uninstall(o, l)
}

// engineDown says why what only Karpenter can end may not end.
func engineDown(l look) string {
	if l.Engine.ReadyReplicas > 0 {
		return ""
	}
	return " None of its pods is Ready, and only they can: mend Deployment karpenter, or take the finalizer karpenter.k8s.aws/termination off the class. " + l.Engine.DeploymentMessage
}

// karpenterUsers are objects of Karpenter's that castoff did not make.
func karpenterUsers(l look) []string {
	var users []string
	for _, n := range l.Engine.NodePools {
		if n.Labels[v1alpha1.LabelPool] == "" && n.Labels[v1alpha1.LabelCanary] == "" {
			users = append(users, "NodePool "+n.Name)
		}
	}
	for _, c := range l.Engine.NodeClasses {
		if c.Labels[v1alpha1.LabelPool] == "" {
			users = append(users, "EC2NodeClass "+c.Name)
		}
	}
	return users
}

func uninstall(o *outcome, l look) {
	before := l.Snapshot.Before
	e := l.Engine
	switch {
	case !before.Release && e.Release != inventory.ReleaseMissing && e.Release != inventory.ReleaseForeign && e.Release != "":
		o.wait("ReleaseEnding", "release/karpenter", "Karpenter is being uninstalled.")
		o.act(UninstallEngine{})
	case !before.CRDs && e.CRDs:
		o.wait("CRDsEnding", "customresourcedefinition", "Karpenter's CustomResourceDefinitions are being removed.")
		o.act(RemoveCRDs{})
	}
	if len(o.actions) > 0 {
		return
	}
	if !before.Interruption && len(l.Interruption.Made) > 0 {
		o.wait("InterruptionEnding", "queue/"+l.Interruption.QueueName, "Being removed: "+list(l.Interruption.Made)+".")
		o.act(RemoveInterruption{})
	}
	if !before.Identity && len(l.Identity.Made) > 0 {
		o.wait("IdentityEnding", "role/"+l.Identity.NodeRole, "Being removed: "+list(l.Identity.Made)+".")
		o.act(RemoveIdentity{})
	}
}

// unmarkNodes takes the last marks off: the holds, now that the pods are back, and the pools' names.
func unmarkNodes(o *outcome, _ *ledger, l look) {
	for _, n := range l.Nodes {
		a := n.Annotations
		if a[v1alpha1.AnnotationLegacy] != "" || a[v1alpha1.AnnotationHeldBy] != "" || a[v1alpha1.AnnotationRestoredFrom] != "" {
			o.act(UnmarkNode{Node: n.Name})
		}
	}
}
