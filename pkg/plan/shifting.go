package plan

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// processLaunch is suspended once a pool is shifting, so that no legacy instance comes any more.
const processLaunch = "Launch"

// shiftingReached: a group may not launch any more, by castoff's doing.
func shiftingReached(l look) bool {
	for _, p := range l.pools {
		for _, g := range p.groups {
			recorded, ok := l.Snapshot.Group(g.Name)
			if ok && g.Suspends(processLaunch) && !recorded.Group.Suspends(processLaunch) && g.Suspends(quietProcesses...) {
				return true
			}
		}
	}
	return false
}

// betweenPools says that no node is being drained, nor is about to be: the moment at which the preflight is run again.
func betweenPools(l look) bool {
	return len(l.rooms) == 0 && !slices.ContainsFunc(l.pools, func(p pool) bool { return slices.ContainsFunc(p.nodes, begun) }) &&
		slices.ContainsFunc(l.pools, func(p pool) bool { return !p.gone() })
}

// shifting drains the pools one after the other.
func shifting(_ *ledger, l look) outcome {
	if o := (outcome{}); awaitJoining(&o, l) {
		return o
	}
	for _, p := range l.pools {
		o := outcome{}
		if !p.gone() {
			shiftPool(&o, l, p)
		} else if !settlePool(&o, l, p) {
			continue
		}
		nameStranded(&o, l)
		for i := range o.blockers {
			if o.blockers[i].Pool == "" {
				o.blockers[i].Pool = p.Name
			}
		}
		return o
	}
	return outcome{done: true}
}

// shiftPool moves one pool on: what is drained ends, what is being drained is passed over again, and new nodes begin as far
// as maxUnavailableNodes, the time that the others take, Karpenter's capacity and the pods still without a node allow.
func shiftPool(o *outcome, l look, p pool) {
	if !slices.ContainsFunc(p.nodes, begun) && blocked(o, l, p.Name) {
		o.until = l.now.Add(atRest)
		return
	}
	if !openGroups(o, l, p) {
		if firstStop(o.blockers) == nil {
			warmAhead(o, l, p)
		}
		return
	}
	end(o, p, endable(o, l, p))
	if len(p.nodes) > 0 && short(l, p) {
		awaitCapacity(o, l, p)
		return
	}
	late := late(l, p)
	going := going(l, p, late)
	drainBegun(o, l, p, going)
	if !paused(o, l, p, late) && !belowFloor(o, l, p) {
		begin(o, l, p.Name, going, p.recorded)
	}
	if len(p.nodes) == 0 {
		endStrays(o, p)
	}
}

// openGroups lets desired go down to 0 (Auto Scaling refuses a decrement below min) and launches stop.
func openGroups(o *outcome, l look, p pool) bool {
	for _, g := range p.groups {
		lowerMin(o, l, g)
		if g.Min == 0 && !g.Suspends(processLaunch) {
			o.act(SuspendProcesses{Group: g.AutoScalingGroup, Processes: []string{processLaunch}})
		}
	}
	return o.idle()
}

// lowerMin sets min to 0, unless it is somebody's own.
func lowerMin(o *outcome, l look, g inventory.NodeGroup) {
	recorded, _ := l.Snapshot.Group(g.Name)
	switch {
	case g.Min == 0:
	case foreignMin(g, recorded.Group) && !acceptsForeignSize(l, g):
		o.block(CheckForeignSize, "nodegroup/"+g.Name, fmt.Sprintf("Somebody set its min to %d since the snapshot was taken, and its nodes cannot go before it is 0. Set it to 0 where it is defined, or accept the risk %s for it in spec.acceptedRisks: castoff then sets it.", g.Min, CheckForeignSize))
	default:
		o.act(SetGroupSize{Group: g, Min: 0, Max: max(g.Max, 1), Desired: g.Desired})
	}
}

// empty says that a node was looked at, and that nothing is left on it that has to leave.
func (l look) empty(n inventory.Node) bool {
	d, looked := l.Drains[n.Name]
	return looked && d.Evictable == 0
}

// endable returns the instances of the drained nodes that may end now.
func endable(o *outcome, l look, p pool) map[string]bool {
	ids := map[string]bool{}
	for _, n := range p.nodes {
		if begun(n) && l.empty(n) && unused(o, l, n) {
			ids[n.InstanceID] = true
			o.wait("InstanceEnding", "node/"+n.Name, "The node is drained; its instance is ending.")
		}
	}
	return ids
}

// volumePatience is for how long a volume may stay attached to a node without pods. By then Kubernetes itself would detach it by
// force (attach/detach controller, maxWaitForUnmountDuration).
const volumePatience = 6 * time.Minute

// unused says that load balancers have had their time to leave a drained node, and that its pods' volumes are detached.
func unused(o *outcome, l look, n inventory.Node) bool {
	const attached = "VolumesAttached"
	if until := drainingSince(n).Add(seconds(l.m.Spec.Strategy.LoadBalancerSeconds, 0)); l.now.Before(until) {
		o.wait("LeavingLoadBalancers", "node/"+n.Name, "The node is drained; load balancers have until "+until.UTC().Format(time.RFC3339)+" to end its last requests.")
		return false
	}
	volumes := l.Drains[n.Name].Volumes
	switch {
	case len(volumes) == 0:
		return true
	case l.waited(attached, "node/"+n.Name) < volumePatience:
		o.wait(attached, "node/"+n.Name, "The node is drained; still attached to it: "+some(volumes)+". Its instance ends when they are detached, or in "+volumePatience.String()+": see to the CSI driver's pods on it if that lasts.")
		return false
	}
	o.warn(attached, "node/"+n.Name, "Its instance ends though these are attached to it since "+volumePatience.String()+": "+some(volumes)+". Their pods wait until Kubernetes detaches them.")
	return true
}

// drainBegun passes over those of the nodes being drained that are going on.
func drainBegun(o *outcome, l look, p pool, going []inventory.Node) {
	for _, n := range p.nodes {
		if !begun(n) || l.empty(n) {
			continue
		}
		allow := allowance(l, n)
		goesOn := slices.ContainsFunc(going, func(g inventory.Node) bool { return g.Name == n.Name })
		if goesOn && mayGo(l, n, allow) {
			o.act(EvictPods{Node: n.Name, Pool: p.Name, Allow: allow})
		}
		awaitRoom(o, l, n)
		awaitPods(o, l, p, n, allow)
		if overdue(l, n) {
			tellTimeout(o, n, goesOn)
		}
	}
}

// mayGo says that a pass over the node may find something to do: a pod that nothing holds, or room whose pod has left. A node that was not
// looked at may have anything.
func mayGo(l look, n inventory.Node, allow inventory.DrainAllowance) bool {
	d, looked := l.Drains[n.Name]
	held, leaving, kept := 0, 0, 0
	for _, b := range d.Blocked {
		if !allow.Allows(b) && !allow.Overrides(b) {
			held++
		}
		if b.Reason == inventory.BlockedTerminating || b.Reason == inventory.BlockedStuck {
			leaving++
		}
	}
	for _, p := range l.rooms[n.Name] {
		kept += max(1, len(p.Pods))
	}
	return !looked || held < d.Evictable || kept > d.Evictable-leaving
}

// awaitPods says what is left on a node, and what of it is held back by more than the user allows.
func awaitPods(o *outcome, l look, p pool, n inventory.Node, allow inventory.DrainAllowance) {
	d := l.Drains[n.Name]
	message := inventory.Count(d.Evictable, "pod still has", "pods still have") + " to leave the node."
	if !n.Ready {
		message += " It has not been Ready since " + n.ReadyChanged.UTC().Format(time.RFC3339) + ", so nobody ends them there: bring it back, or, if the machine is gone for good, end its instance in EC2, and they go with it."
	}
	o.wait("Draining", "node/"+n.Name, message)
	d.Blocked = slices.DeleteFunc(slices.Clone(d.Blocked), allow.Allows)
	o.blockers = append(o.blockers, DrainBlockers(p.Name, d)...)
}

// end ends the instances of drained nodes, a group at a time.
func end(o *outcome, p pool, drained map[string]bool) {
	for _, g := range p.groups {
		var ids []string
		for _, i := range g.Instances {
			if drained[i.ID] && i.InService() {
				ids = append(ids, i.ID)
			}
		}
		if len(ids) > 0 {
			o.act(EndInstances{Group: g.AutoScalingGroup, IDs: fitting(ids)})
		}
	}
}

// endStrays ends instances that never became a node, once no node of the pool is left: they hold no pod.
func endStrays(o *outcome, p pool) {
	for _, g := range p.groups {
		var ids []string
		for _, i := range g.Instances {
			if i.InService() {
				ids = append(ids, i.ID)
			}
		}
		if len(ids) > 0 {
			o.act(EndInstances{Group: g.AutoScalingGroup, IDs: fitting(ids)})
			continue
		}
		if !g.Empty() {
			o.wait("InstancesLeaving", "nodegroup/"+g.Name, inventory.Count(len(g.Instances), "instance is on its way out.", "instances are on their way out."))
		}
	}
}

// begin starts the drain of more of a pool's nodes, of which there were so many. Pods that the last drain left without a node
// come first: more room is on its way, and taking away more nodes would only lengthen the queue.
func begin(o *outcome, l look, pool string, nodes []inventory.Node, total int) {
	q := newQueue(l, nodes, maxUnavailable(l.m.Spec.Strategy.MaxUnavailableNodes, total))
	if len(q.lines) == 0 || q.flying >= q.places {
		return
	}
	if homeless := l.homeless(); homeless > 0 {
		o.wait("PodsPending", "pool/"+pool, fmt.Sprintf("%s more than before the migration wait for a node; the next node is drained when they have one.", inventory.Count(homeless, "pod")))
		return
	}
	for q.flying < q.places {
		n, ok := q.next()
		if !ok {
			return
		}
		open(o, l, pool, n)
	}
	for _, a := range o.actions {
		if b, ok := a.(BeginDrain); ok && l.m.Spec.Strategy.Capacity == v1alpha1.CapacityWarmFirst && len(l.rooms[b.Node]) > 0 { // there is room: the first pods need not wait for the next look
			o.act(EvictPods{Node: b.Node, Pool: pool, Allow: allowance(l, inventory.Node{Name: b.Node})})
		}
	}
}

// maxUnavailable resolves strategy.maxUnavailableNodes against the pool's nodes in the snapshot, rounded up, at least 1.
func maxUnavailable(v *intstr.IntOrString, nodes int) int {
	if v == nil {
		return 1
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(v, nodes, true)
	if err != nil {
		return 1 // the API server validated it; the careful answer for what cannot be
	}
	return max(n, 1)
}

// settlePool brings an emptied pool to its end: end sizes, the NodePool without its guard, the soak, the gates. It says whether
// something is still to do.
func settlePool(o *outcome, l look, p pool) bool {
	for _, g := range p.groups {
		if want := endMaxOf(o, l, g); !heldSizes(l, g) && (g.Min != 0 || g.Max != want || g.Desired != 0) {
			o.act(SetGroupSize{Group: g, Min: 0, Max: want, Desired: 0})
		}
	}
	drained := l.status(p.Name).DrainedTime
	soak := soakOf(l.m)
	switch {
	case len(o.actions) > 0:
	case drained == nil && soak > 0:
		o.wait("Soaking", "pool/"+p.Name, "The last legacy node is gone; the soak begins.")
	case drained != nil && l.now.Sub(drained.Time) < soak:
		o.until = drained.Add(soak)
		o.wait("Soaking", "pool/"+p.Name, "The pool is watched until "+o.until.UTC().Format(time.RFC3339)+" before the next one begins.")
	default:
		return shut(o, l, p)
	}
	return true
}

// endMaxOf is the max of an emptied group; one that somebody else set since the snapshot is theirs, and stays.
func endMaxOf(o *outcome, l look, g inventory.NodeGroup) int32 {
	recorded, ok := l.Snapshot.Group(g.Name)
	if !ok || acceptsForeignSize(l, g) || !foreignMax(g, recorded.Group) {
		return endMax(g)
	}
	foreignSetting(o, g, fmt.Sprintf("its max is %d, and was %d", g.Max, recorded.Group.Max))
	return g.Max
}

// endMax is the max size at the end: EKS refuses less than 1 for a managed node group.
func endMax(g inventory.NodeGroup) int32 {
	if g.Managed != nil {
		return 1
	}
	return 0
}

func soakOf(m *v1alpha1.Migration) time.Duration { return seconds(m.Spec.Strategy.SoakSeconds, 0) }

// seconds of a field, or what stands for an empty one.
func seconds(field *int32, otherwise time.Duration) time.Duration {
	if field == nil {
		return otherwise
	}
	return time.Duration(*field) * time.Second
}

func stamp(t time.Time) *metav1.Time {
	s := metav1.NewTime(t.Truncate(time.Second))
	return &s
}
