package plan

import (
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

const (
	// pace is the time between two looks of a walk.
	pace = 5 * time.Second
	// mostSteps bounds a walk to an end: pods leave one a look, the way back waits for minutes, and of the faulty calls some are
	// waited for longer.
	mostSteps = 600
	// mostRepeats is how often the same thing may be asked for in a row in a world without faults: what was asked for shows one
	// or two looks later.
	mostRepeats = 3
	// mostStale is for how many looks in a row a read may show what was: less than the ledger's patience.
	mostStale = 2
	// mostUnserved is for how many looks in a row a pool may have no scaler in a world without faults: Cluster Autoscaler's pods
	// end, and then the NodePools come; or it starts and is elected.
	mostUnserved = 4
)

// walk is a controller and its world: look, decide, record, act. It judges the promises at every step.
type walk struct {
	t     *testing.T
	r     *rand.Rand
	m     *v1alpha1.Migration
	truth *scene
	now   time.Time
	// faults: reads lag, calls are lost, and so are replies.
	faults bool
	// groups and autoscalers as they were read last.
	groups      []inventory.NodeGroup
	autoscalers []inventory.Autoscaler
	stale       int
	// fail ends the walk.
	fail func(format string, args ...any)
	// said is what each look asked for, for whoever reads a failure.
	said     []string
	repeats  int
	unserved map[string]int
	// alone: no Cluster Autoscaler ran when the migration began, so none will at its end.
	alone bool
}

func aWalk(t *testing.T, seed int64, m migrationOf, s *scene) *walk {
	k := &walk{t: t, r: rand.New(rand.NewSource(seed)), m: m.m, truth: s, now: noon, unserved: map[string]int{}, fail: t.Fatalf}
	k.alone = !slices.ContainsFunc(s.w.Autoscalers, func(a inventory.Autoscaler) bool { return a.Replicas > 0 })
	k.see()
	return k
}

func (k *walk) faulty() *walk { k.faults = true; return k }

// fatal names the walk that led here.
func (k *walk) fatal(format string, args ...any) {
	k.t.Helper()
	k.fail(format+"\nthe last looks:\n%s", append(args, strings.Join(k.said[max(0, len(k.said)-14):], "\n"))...)
}

// see reads the groups and the Cluster Autoscalers.
func (k *walk) see() {
	k.stale = 0
	k.groups, k.autoscalers = slices.Clone(k.truth.w.Groups), slices.Clone(k.truth.w.Autoscalers)
}

// look is what the controller sees: perhaps the groups and the Deployments of a look before, and only those pods that the planner
// asks about.
func (k *walk) look() World {
	if k.stale++; !k.faults || k.stale > mostStale || k.r.Intn(3) > 0 {
		k.see()
	}
	w := k.truth.w
	w.Groups, w.Autoscalers = k.groups, slices.Clone(w.Autoscalers)
	for i := range w.Autoscalers { // pods, Lease and status are read past every cache; the Deployment is not
		if j := slices.IndexFunc(k.autoscalers, func(a inventory.Autoscaler) bool { return a.Deployment == w.Autoscalers[i].Deployment }); j >= 0 {
			w.Autoscalers[i].Replicas, w.Autoscalers[i].StatusReplicas = k.autoscalers[j].Replicas, k.autoscalers[j].StatusReplicas
		}
	}
	w.Nodes, w.Drains, w.TerminationHandlers = slices.Clone(w.Nodes), nil, nil
	needs := NeedsOf(k.m, w)
	w.Drains, w.Candidates = map[string]inventory.DrainState{}, map[string]inventory.DrainState{}
	for _, n := range needs.Drains {
		w.Drains[n] = k.truth.w.Drains[n]
	}
	for _, n := range Candidates(k.m, w, k.now) {
		w.Candidates[n] = k.truth.w.Drains[n]
	}
	if needs.TerminationHandlers {
		w.TerminationHandlers = k.truth.w.TerminationHandlers
	}
	return w
}

// step is one look at the world and what comes of it.
func (k *walk) step() Decision {
	k.now = k.now.Add(pace)
	k.truth.tick(k.now)
	w := k.look()
	d := Next(k.m, w, k.now)
	k.said = append(k.said, fmt.Sprintf("%s %s %s %v %v", k.now.Format(time.TimeOnly), d.Phase, k.m.Spec.OnPause, told(d.Actions), shown(d.Blockers)))
	for name, rule := range rules {
		if wrong := rule(asked{k.m, w, k.now, d}); wrong != "" {
			k.fatal("%s: %s", name, wrong)
		}
	}
	k.record(d)
	for _, a := range d.Actions {
		k.try(a)
	}
	k.judge(d)
	return d
}

// record keeps what the controller keeps in the status.
func (k *walk) record(d Decision) {
	s := &k.m.Status
	s.Operations, s.Pools, s.Waves, s.Blockers = d.Operations, d.Pools, d.Waves, d.Blockers
	if k.truth.w.Snapshot != nil {
		s.Snapshot = &v1alpha1.SnapshotReference{}
	}
	switch {
	case d.Phase != v1alpha1.PhaseCompleted && d.Phase != v1alpha1.PhaseRolledBack:
		s.CompletionTime = nil
	case s.CompletionTime == nil && d.Conditions[0].Status == metav1.ConditionTrue:
		s.CompletionTime = stamp(k.now)
	}
}

// try makes an action; a faulty world loses it, or its reply.
func (k *walk) try(a Action) {
	fault := 0
	if k.faults {
		fault = k.r.Intn(12)
	}
	if fault == 1 { // a crash
		return
	}
	if fault != 2 {
		k.forbid(a)
		k.truth.effect(a, k.now)
		k.move(a)
	}
	if l, ok := a.(Ledgered); ok && (fault == 2 || fault == 3) { // the call failed, or only its reply was lost
		kind, target, _ := l.Entry()
		for i := range k.m.Status.Operations {
			if k.m.Status.Operations[i].ID == kind+"/"+target {
				k.m.Status.Operations[i].Error = "RequestTimeout"
			}
		}
	}
}

// move lets Karpenter launch for the pods that left a legacy node.
func (k *walk) move(a Action) {
	e, ok := a.(EvictPods)
	if !ok {
		return
	}
	i := slices.IndexFunc(k.truth.w.Nodes, func(n inventory.Node) bool { return n.Name == e.Node })
	if i >= 0 && k.truth.w.Nodes[i].Group != "" && k.serving(e.Pool) && k.r.Intn(2) == 0 {
		k.truth.claim(e.Pool)
	}
}

// serving says whether the pool's NodePool serves.
func (k *walk) serving(pool string) bool {
	np, ok := nodePool(newLook(k.m, k.truth.w, k.now), pool)
	return ok && !stopped(np)
}

// acting is a Cluster Autoscaler that may act, or is on its way to.
func (k *walk) acting() bool {
	return slices.ContainsFunc(k.truth.w.Autoscalers, func(a inventory.Autoscaler) bool { return (a.Replicas > 0 || a.Pods > 0) && !standby(a) })
}

func (k *walk) anyServing() bool { return k.serving("general") || k.serving("batch") }

// forbid names what an action must never meet in the world as it is, whatever the controller saw.
func (k *walk) forbid(action Action) {
	k.t.Helper()
	w := k.truth.w
	pods := func(node string) int { return w.Drains[node].Evictable }
	switch a := action.(type) {
	case StartAutoscaler:
		if k.anyServing() {
			k.fatal("Cluster Autoscaler starts while a NodePool serves")
		}
	case LetGoLease:
		if k.anyServing() && len(w.Autoscalers) > 0 && w.Autoscalers[0].Replicas > 0 {
			k.fatal("the Lease goes while a NodePool serves and Cluster Autoscaler runs")
		}
	case EnsureNodePool:
		if !stopped(*a.NodePool) && !k.serving(a.NodePool.Labels[v1alpha1.LabelPool]) && k.acting() {
			k.fatal("a NodePool comes to serve while Cluster Autoscaler may act: %+v", w.Autoscalers)
		}
	case EndNodeClaim:
		if pods(a.Node) > 0 {
			k.fatal("%s ends with %d pods on it", a.Node, pods(a.Node))
		}
	case EndInstances:
		for _, n := range w.Nodes {
			if slices.Contains(a.IDs, n.InstanceID) && begun(n) && pods(n.Name) > 0 {
				k.fatal("%s ends with %d pods on it", n.Name, pods(n.Name))
			}
		}
	case SetGroupSize:
		if g, ok := group(w.Groups, a.Group.Name); ok && int(a.Desired) < g.InService() {
			k.fatal("Auto Scaling would choose whom to end: %s of %d", tell(a), g.InService())
		}
	case DeleteNodePool, UninstallEngine, RemoveCRDs:
		if len(w.Engine.NodeClaims) > 0 {
			k.fatal("%s leaves or drains %d NodeClaims", tell(a), len(w.Engine.NodeClaims))
		}
	case DeleteGroup:
		if g, _ := group(w.Groups, a.Group.Name); !g.Empty() {
			k.fatal("%s has instances", tell(a))
		}
	}
}

// judge looks at the promises that hold over time.
func (k *walk) judge(d Decision) {
	if k.faults {
		return
	}
	calls := slices.DeleteFunc(told(d.Actions), func(a string) bool { return strings.HasPrefix(a, "EvictPods") })
	if n := len(k.said); len(calls) > 0 && n > 1 && strings.SplitN(k.said[n-1], " ", 2)[1] == strings.SplitN(k.said[n-2], " ", 2)[1] {
		k.repeats++
	} else {
		k.repeats = 0
	}
	if k.repeats > mostRepeats {
		k.fatal("the same is asked for again and again")
	}
	for _, p := range k.truth.w.Pools {
		led := slices.ContainsFunc(k.truth.w.Autoscalers, func(a inventory.Autoscaler) bool { return elected(a) })
		k.unserved[p.Name]++
		if k.serving(p.Name) || led {
			k.unserved[p.Name] = 0
		}
		if k.serving(p.Name) && led {
			k.fatal("pool %s is served twice", p.Name)
		}
		if k.unserved[p.Name] > mostUnserved && !k.alone {
			k.fatal("nobody has served pool %s for %d looks", p.Name, k.unserved[p.Name])
		}
	}
}

// The directions that a user may give.
func (k *walk) forward() *walk { k.m.Spec.Paused = false; return k }

func (k *walk) settle() *walk {
	k.m.Spec.Paused, k.m.Spec.OnPause = true, v1alpha1.OnPauseSettle
	return k
}

func (k *walk) back() *walk {
	k.m.Spec.Paused, k.m.Spec.OnPause = true, v1alpha1.OnPauseRollBack
	return k
}

// steps goes on for so many looks.
func (k *walk) steps(n int) *walk {
	for range n {
		k.step()
	}
	return k
}

// rests goes on until the migration rests in the phase, and sees that it writes nothing from then on.
func (k *walk) rests(phase v1alpha1.Phase) {
	k.t.Helper()
	for range mostSteps {
		if d := k.step(); !d.Rested || d.Phase != phase {
			continue
		}
		for range 3 { // a rest is a rest once the reads show everything
			k.see()
			if d := k.step(); !upkeep(d.Actions) || !d.Rested {
				if k.faults {
					break
				}
				k.fatal("at rest in %s, and then %v", phase, told(d.Actions))
			}
		}
		if k.quiet(phase) {
			return
		}
	}
	k.fatal("not at rest in %s after %d looks", phase, mostSteps)
}

// quiet says that a look at the world as it is asks for nothing.
func (k *walk) quiet(phase v1alpha1.Phase) bool {
	k.see()
	w := k.truth.w
	d := Next(k.m, w, k.now)
	return d.Rested && d.Phase == phase && upkeep(d.Actions)
}

// completes, rollsBack and settles go to an end, and look at it.
func (k *walk) completes() *walk {
	k.t.Helper()
	k.forward().rests(v1alpha1.PhaseCompleted)
	if wrong := notCompleted(k.truth.w); len(wrong) > 0 {
		k.fatal("Completed, and yet:\n%s", strings.Join(wrong, "\n"))
	}
	return k
}

func (k *walk) rollsBack() *walk {
	k.t.Helper()
	k.back().rests(v1alpha1.PhaseRolledBack)
	if wrong := notRestored(k.truth.w); len(wrong) > 0 {
		k.fatal("RolledBack, and yet:\n%s", strings.Join(wrong, "\n"))
	}
	return k
}

func (k *walk) settles() *walk {
	k.t.Helper()
	k.settle().rests(v1alpha1.PhasePaused)
	if wrong := k.notSettled(); len(wrong) > 0 {
		k.fatal("at rest, and yet:\n%s", strings.Join(wrong, "\n"))
	}
	return k
}

// notCompleted lists what a completed migration must not have.
func notCompleted(w World) (wrong []string) {
	for _, n := range w.Nodes {
		if slices.ContainsFunc(w.Pools, func(p inventory.Pool) bool { return slices.Contains(p.NodeGroups, n.Group) }) {
			wrong = append(wrong, "legacy node "+n.Name)
		}
		if touched(n) {
			wrong = append(wrong, "out of service: "+n.Name)
		}
	}
	for _, p := range w.Pools {
		for _, g := range w.Groups {
			if slices.Contains(p.NodeGroups, g.Name) && (g.Min != 0 || g.Desired != 0 || !g.Empty()) {
				wrong = append(wrong, "group "+g.Name+" is "+sizes(g.Min, g.Max, g.Desired))
			}
		}
	}
	return wrong
}

// notSettled lists what a migration at rest in between must not have.
func (k *walk) notSettled() (wrong []string) {
	w := k.truth.w
	led := slices.ContainsFunc(w.Autoscalers, func(a inventory.Autoscaler) bool { return elected(a) })
	for _, p := range w.Pools {
		if k.serving(p.Name) == led && !(k.alone && !led) {
			wrong = append(wrong, fmt.Sprintf("pool %s: Karpenter serves %v, Cluster Autoscaler %v", p.Name, k.serving(p.Name), led))
		}
	}
	for _, n := range w.Nodes {
		if touched(n) {
			wrong = append(wrong, "out of service: "+n.Name)
		}
	}
	return wrong
}

// notRestored lists what differs from the snapshot, and what is left of castoff.
func notRestored(w World) (wrong []string) {
	if w.Snapshot == nil {
		return nil
	}
	for _, recorded := range w.Snapshot.Groups {
		g, _ := group(w.Groups, recorded.Group.Name)
		if got, want := settings(g), settings(recorded.Group); got != want {
			wrong = append(wrong, g.Name+" is  "+got, g.Name+" was "+want)
		}
		if got, want := nodesOwn(w.Nodes, g.Name), recordedOwn(recorded.Nodes); !slices.Equal(got, want) {
			wrong = append(wrong, fmt.Sprintf("the nodes of %s are %v", g.Name, got), fmt.Sprintf("and were %v", want))
		}
	}
	for _, recorded := range w.Snapshot.Autoscalers {
		for _, a := range w.Autoscalers {
			if a.Deployment == recorded.Deployment && (a.Replicas != recorded.Replicas || standby(a)) {
				wrong = append(wrong, fmt.Sprintf("%s has %d replicas, its Lease is held by %q", a.Deployment, a.Replicas, a.LeaseHolder))
			}
		}
	}
	for _, n := range w.Nodes {
		wrong = append(wrong, castoffs(n)...)
	}
	return append(wrong, leftOfKarpenter(w)...)
}

// settings of a group that castoff may touch, in one line.
func settings(g inventory.NodeGroup) string {
	var policies, schedules []string
	for _, p := range g.ScalingPolicies {
		policies = append(policies, fmt.Sprintf("%s=%v", p.Name, p.Active))
	}
	for _, s := range g.ScheduledActions {
		schedules = append(schedules, s.Name)
	}
	return fmt.Sprintf("%s, suspended %v, policies %v, schedules %v, rebalance %v, lifetime %d", sizes(g.Min, g.Max, g.Desired),
		slices.Sorted(slices.Values(g.SuspendedProcesses)), policies, slices.Sorted(slices.Values(schedules)), g.CapacityRebalance, g.MaxInstanceLifetime)
}

// nodesOwn is what the nodes of a group have of the user's: labels, taints and cordons.
func nodesOwn(nodes []inventory.Node, group string) (out []string) {
	for _, n := range nodes {
		if n.Group == group {
			out = append(out, own(n.Labels, n.Taints, n.Unschedulable))
		}
	}
	slices.Sort(out)
	return out
}

func recordedOwn(nodes []inventory.NodeSnapshot) (out []string) {
	for _, n := range nodes {
		out = append(out, own(n.Labels, n.Taints, n.Unschedulable))
	}
	slices.Sort(out)
	return out
}

func own(labels map[string]string, taints []corev1.Taint, cordoned bool) string {
	var keys []string
	for _, t := range taints {
		keys = append(keys, t.Key)
	}
	return fmt.Sprint(slices.Sorted(maps.Keys(labels)), keys, cordoned)
}

// castoffs lists castoff's marks on a node.
func castoffs(n inventory.Node) (marks []string) {
	for _, m := range []map[string]string{n.Labels, n.Annotations} {
		for key := range m {
			if strings.HasPrefix(key, "castoff.sh/") {
				marks = append(marks, n.Name+" has "+key)
			}
		}
	}
	if n.HasTaint(v1alpha1.TaintLegacy, "") {
		marks = append(marks, n.Name+" is tainted")
	}
	return marks
}

// leftOfKarpenter lists what castoff made and did not take away.
func leftOfKarpenter(w World) (left []string) {
	e, before := w.Engine, w.Snapshot.Before
	for _, n := range e.NodePools {
		if n.Labels[v1alpha1.LabelPool] != "" {
			left = append(left, "NodePool "+n.Name)
		}
	}
	for _, c := range e.NodeClasses {
		if c.Labels[v1alpha1.LabelPool] != "" {
			left = append(left, "EC2NodeClass "+c.Name)
		}
	}
	for _, c := range e.NodeClaims {
		left = append(left, "NodeClaim "+c.Name)
	}
	for _, c := range e.Canaries {
		left = append(left, "canary "+c.Pool)
	}
	for what, there := range map[string][2]bool{
		"the release": {e.Release != inventory.ReleaseMissing, before.Release}, "the CRDs": {e.CRDs, before.CRDs},
		"the queue": {len(w.Interruption.Made) > 0, before.Interruption}, "the roles": {len(w.Identity.Made) > 0, before.Identity},
	} {
		if there[0] != there[1] {
			left = append(left, fmt.Sprintf("%s: there is %v, was %v", what, there[0], there[1]))
		}
	}
	return left
}

// aVariedWorld is a cluster before its migration, with whatever users have.
func aVariedWorld(r *rand.Rand) *scene {
	s := aWorld()
	for range r.Intn(5) {
		group := []string{"general", "batch"}[r.Intn(2)]
		s.join(group).group(group).Desired++
	}
	if r.Intn(2) == 0 {
		s.scaled("general", "cpu", "night")
	}
	if r.Intn(3) == 0 {
		s.withGroup("general", func(g *inventory.NodeGroup) { g.CapacityRebalance, g.MaxInstanceLifetime = true, 86400 })
	}
	if r.Intn(3) == 0 {
		s.withGroup("batch", func(g *inventory.NodeGroup) {
			g.Min, g.SuspendedProcesses = int32(r.Intn(2)), []string{"AZRebalance"}
			g.Max = g.Desired
		})
	}
	if r.Intn(3) == 0 {
		s.withNode("general-1", func(n *inventory.Node) { n.Unschedulable, n.Labels["zoned"] = true, "yes" })
		s.withNode("batch-0", func(n *inventory.Node) {
			n.Taints = []corev1.Taint{{Key: "dedicated", Effect: corev1.TaintEffectNoSchedule}}
		})
	}
	if r.Intn(4) == 0 {
		s.withAutoscaler(func(a *inventory.Autoscaler) { a.Replicas, a.StatusReplicas, a.Pods, a.LeaseHolder = 0, 0, 0, "" })
	}
	if r.Intn(4) == 0 {
		s.withAutoscaler(func(a *inventory.Autoscaler) { a.LeaderElect, a.LeaseHolder = false, "" })
	}
	return s
}
