package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

var (
	noon  = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	zones = []string{"a", "b", "c"}
)

const caKey = "k8s.io/cluster-autoscaler/enabled"

// migrationOf builds a Migration.
type migrationOf struct{ m *v1alpha1.Migration }

func aMigration() migrationOf {
	half, soak := intstr.FromString("50%"), int32(600)
	return migrationOf{&v1alpha1.Migration{
		ObjectMeta: metav1.ObjectMeta{Name: "prod", UID: "uid-1"},
		Spec:       v1alpha1.MigrationSpec{ClusterName: "test", Strategy: v1alpha1.Strategy{MaxUnavailableNodes: &half, SoakSeconds: &soak}},
	}}
}

func (b migrationOf) paused() migrationOf { b.m.Spec.Paused = true; return b }

func (b migrationOf) rollBack() migrationOf {
	b.m.Spec.Paused, b.m.Spec.OnPause = true, v1alpha1.OnPauseRollBack
	return b
}

// accepts a risk for good.
func (b migrationOf) accepts(check, object string) migrationOf {
	b.m.Spec.AcceptedRisks = append(b.m.Spec.AcceptedRisks, v1alpha1.AcceptedRisk{Check: check, Object: object, Reason: "known"})
	return b
}

func (b migrationOf) manual(approved ...v1alpha1.ApprovalStep) migrationOf {
	b.m.Spec.Approval, b.m.Spec.ApprovedSteps = v1alpha1.ApprovalManual, approved
	return b
}

// warmFirst has room ready before the first eviction.
func (b migrationOf) warmFirst() migrationOf {
	b.m.Spec.Strategy.Capacity = v1alpha1.CapacityWarmFirst
	return b
}

func (b migrationOf) soak(seconds int32) migrationOf {
	b.m.Spec.Strategy.SoakSeconds = &seconds
	return b
}

func (b migrationOf) maxUnavailable(v string) migrationOf {
	x := intstr.Parse(v)
	b.m.Spec.Strategy.MaxUnavailableNodes = &x
	return b
}

// drained remembers in the status that the pool lost its last node at that time.
func (b migrationOf) drained(pool string, at time.Time) migrationOf {
	b.m.Status.Pools = append(b.m.Status.Pools, v1alpha1.PoolStatus{Name: pool, StartTime: stamp(at.Add(-time.Hour)), DrainedTime: stamp(at)})
	return b
}

func (b migrationOf) ledger(ops ...v1alpha1.Operation) migrationOf {
	b.m.Status.Operations = append(b.m.Status.Operations, ops...)
	return b
}

func (b migrationOf) build() *v1alpha1.Migration { return b.m }

// operation is an entry of the ledger that was opened so long before noon.
func operation(id, detail string, age time.Duration) v1alpha1.Operation {
	start := metav1.NewTime(noon.Add(-age))
	return v1alpha1.Operation{ID: id, Detail: detail, Attempts: 1, StartTime: &start}
}

func closed(op v1alpha1.Operation) v1alpha1.Operation {
	op.DoneTime = op.StartTime
	return op
}

// scene builds a World: pool general is an Auto Scaling group of three nodes in three zones, pool batch a managed node group
// of two, and system the home. Each stage does what castoff would have done to get there.
type scene struct {
	w World
	// born counts the nodes that the simulation made, so that no name comes twice.
	born int
}

func aWorld() *scene {
	s := &scene{w: World{
		Cluster: inventory.Cluster{Name: "test"}, Home: "system", Drains: map[string]inventory.DrainState{}, Targets: map[string]inventory.Target{},
		Pools:        []inventory.Pool{{Name: "general", NodeGroups: []string{"general"}}, {Name: "batch", NodeGroups: []string{"batch"}}},
		Interruption: inventory.Interruption{QueueName: "test", Missing: []string{"queue", "rules"}},
		Identity:     inventory.Identity{NodeRole: "nodes", Missing: []string{"role"}},
		Engine:       inventory.Engine{Release: inventory.ReleaseMissing, NodeClassHashes: map[string]string{}},
		Autoscalers:  []inventory.Autoscaler{anAutoscaler("cluster-autoscaler")},
	}}
	s.addGroup("general", 3, false).addGroup("batch", 2, true).addGroup("system", 2, true)
	s.group("system").Tags = nil
	for _, pool := range []string{"general", "batch"} {
		s.w.Targets[pool] = aTarget(pool)
	}
	return s
}

func anAutoscaler(name string) inventory.Autoscaler {
	key := types.NamespacedName{Namespace: "kube-system", Name: name}
	return inventory.Autoscaler{Deployment: key, Lease: key, Replicas: 1, StatusReplicas: 1, Pods: 1, LeaderElect: true, LeaseHolder: name + "-0", Discovery: []string{caKey}}
}

func aTarget(pool string) inventory.Target {
	meta := metav1.ObjectMeta{Name: pool, Labels: map[string]string{v1alpha1.LabelPool: pool}, Annotations: map[string]string{v1alpha1.AnnotationTargetHash: "target-of-" + pool}}
	t := inventory.Target{Pool: pool, NodePool: karpv1.NodePool{ObjectMeta: *meta.DeepCopy()}, NodeClass: awsv1.EC2NodeClass{ObjectMeta: *meta.DeepCopy()}}
	t.NodePool.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "20%"}}
	return t
}

func (s *scene) addGroup(name string, size int32, managed bool) *scene {
	g := inventory.NodeGroup{Name: name, AutoScalingGroup: name, Min: 1, Max: 10, Desired: size, Tags: []inventory.Tag{{Key: caKey, Value: "true"}}}
	g.LaunchTemplate.InstanceType = "m5.large"
	if managed {
		g.AutoScalingGroup, g.Managed = "eks-"+name, &inventory.ManagedNodeGroup{CapacityType: "ON_DEMAND"}
	}
	s.w.Groups = append(s.w.Groups, g)
	for range size {
		s.join(name)
	}
	return s
}

// join adds an instance and its node to a group: castoff has not seen it before.
func (s *scene) join(group string) *scene {
	g := s.group(group)
	n := len(g.Instances)
	id, zone := fmt.Sprintf("i-%s-%d", group, n), zones[n%len(zones)]
	g.Instances = append(g.Instances, inventory.Instance{ID: id, Zone: zone, Lifecycle: "InService", Healthy: true})
	s.w.Nodes = append(s.w.Nodes, inventory.Node{Name: fmt.Sprintf("%s-%d", group, n), InstanceID: id, Zone: zone, Group: group, Ready: true,
		Labels: map[string]string{"team": "shop"}, Annotations: map[string]string{}})
	return s
}

func (s *scene) group(name string) *inventory.NodeGroup {
	return &s.w.Groups[slices.IndexFunc(s.w.Groups, func(g inventory.NodeGroup) bool { return g.Name == name })]
}

func (s *scene) node(name string) *inventory.Node {
	return &s.w.Nodes[slices.IndexFunc(s.w.Nodes, func(n inventory.Node) bool { return n.Name == name })]
}

// with changes the world by hand.
func (s *scene) with(change func(*World)) *scene { change(&s.w); return s }

func (s *scene) withGroup(name string, change func(*inventory.NodeGroup)) *scene {
	change(s.group(name))
	return s
}

func (s *scene) withNode(name string, change func(*inventory.Node)) *scene {
	change(s.node(name))
	return s
}

// withAutoscaler changes the one Cluster Autoscaler.
func (s *scene) withAutoscaler(change func(*inventory.Autoscaler)) *scene {
	change(&s.w.Autoscalers[0])
	return s
}

func (s *scene) build() World { return s.w }

// snapshotTaken: the snapshot is there, and nothing else. It shares nothing with the world that changes later.
func (s *scene) snapshotTaken() *scene {
	s.w.Snapshot = &inventory.Snapshot{Pools: s.w.Pools, Home: s.w.Home, Autoscalers: slices.Clone(s.w.Autoscalers)}
	for _, g := range s.w.Groups {
		recorded := inventory.GroupSnapshot{Group: g}
		recorded.Group.SuspendedProcesses = slices.Clone(g.SuspendedProcesses)
		recorded.Group.ScalingPolicies = slices.Clone(g.ScalingPolicies)
		recorded.Group.Instances = slices.Clone(g.Instances)
		for _, n := range s.w.Nodes {
			if n.Group == g.Name {
				recorded.Nodes = append(recorded.Nodes, inventory.NodeSnapshot{Name: n.Name, InstanceID: n.InstanceID, Zone: n.Zone,
					Labels: maps.Clone(n.Labels), Taints: slices.Clone(n.Taints), Unschedulable: n.Unschedulable})
			}
		}
		s.w.Snapshot.Groups = append(s.w.Snapshot.Groups, recorded)
	}
	return s
}

// prepared: nothing resizes the groups any more, and the legacy nodes are marked.
func (s *scene) prepared() *scene {
	s.snapshotTaken()
	for i := range s.w.Groups {
		for j := range s.w.Groups[i].ScalingPolicies {
			s.w.Groups[i].ScalingPolicies[j].Active = false
		}
		s.w.Groups[i].ScheduledActions = nil
	}
	return s.marked()
}

// marked: the legacy nodes bear their pool's name.
func (s *scene) marked() *scene {
	s.legacy(func(n *inventory.Node) { n.Annotations[v1alpha1.AnnotationLegacy] = n.Group })
	return s
}

// legacy changes every node that migrates. Here pools are named as their one group.
func (s *scene) legacy(change func(*inventory.Node)) {
	for i := range s.w.Nodes {
		if s.w.Nodes[i].Group != s.w.Home {
			change(&s.w.Nodes[i])
		}
	}
}

// awsReady: queue and identities are there.
func (s *scene) awsReady() *scene {
	s.w.Interruption.Ready, s.w.Identity.Ready = true, true
	s.w.Interruption.Made, s.w.Identity.Made = []string{"queue", "rules"}, []string{"role"}
	return s
}

// engineInstalled: Karpenter runs and every EC2NodeClass passed its canary.
func (s *scene) engineInstalled() *scene {
	s.prepared().awsReady().engineRunning()
	for _, pool := range []string{"general", "batch"} {
		s.nodeClass(pool).w.Engine.NodeClassHashes[pool] = "spec-of-" + pool
		s.w.Engine.NodeClasses[len(s.w.Engine.NodeClasses)-1].Annotations[v1alpha1.AnnotationCanaryPassed] = "spec-of-" + pool
	}
	return s
}

func (s *scene) engineRunning() *scene {
	e := &s.w.Engine
	e.Release, e.ReleaseCurrent, e.CRDs, e.CRDsCurrent, e.Replicas, e.ReadyReplicas = inventory.ReleaseDeployed, true, true, true, 2, 2
	return s
}

// nodeClass adds the pool's EC2NodeClass, Ready.
func (s *scene) nodeClass(pool string) *scene {
	t := aTarget(pool)
	t.NodeClass.Status.Conditions = slices.Clone(readyClass.Status.Conditions)
	s.w.Engine.NodeClasses = append(s.w.Engine.NodeClasses, t.NodeClass)
	return s
}

// quiet: nothing of Auto Scaling's own touches the instances.
func (s *scene) quiet() *scene {
	s.engineInstalled()
	for _, name := range []string{"general", "batch"} {
		s.group(name).SuspendedProcesses = slices.Clone(quietProcesses)
	}
	return s
}

// released: Cluster Autoscaler is stopped.
func (s *scene) released() *scene {
	return s.quiet().withAutoscaler(func(a *inventory.Autoscaler) { a.Replicas, a.StatusReplicas, a.Pods = 0, 0, 0 })
}

// handedOver: Karpenter serves both pools, and the legacy nodes are fenced.
func (s *scene) handedOver() *scene {
	s.served()
	s.legacy(fenceIt)
	return s
}

// served: Cluster Autoscaler's Lease is castoff's and both NodePools are Ready.
func (s *scene) served() *scene {
	s.released().withAutoscaler(func(a *inventory.Autoscaler) { a.LeaseHolder, a.LeaseRenewed = v1alpha1.LeaseIdentity, noon })
	for _, pool := range []string{"general", "batch"} {
		s.serve(pool, guardedSuffix)
	}
	return s
}

// serve adds or replaces the pool's NodePool.
func (s *scene) serve(pool, suffix string) *scene {
	np := aTarget(pool).NodePool
	np.Annotations[v1alpha1.AnnotationTargetHash] += suffix
	np.Status.Conditions = slices.Clone(readyPool.Status.Conditions)
	s.w.Engine.NodePools = slices.DeleteFunc(s.w.Engine.NodePools, func(o karpv1.NodePool) bool { return o.Name == pool })
	s.w.Engine.NodePools = append(s.w.Engine.NodePools, np)
	return s
}

func fenceIt(n *inventory.Node) {
	cordonIt(n)
	n.Labels[v1alpha1.LabelPool], n.Labels[v1alpha1.LabelScaler] = n.Group, v1alpha1.ScalerKarpenter
	n.Taints = append(n.Taints, corev1.Taint{Key: v1alpha1.TaintLegacy, Effect: corev1.TaintEffectPreferNoSchedule})
}

// cordonIt keeps a cordon that is somebody else's, and says whose the other ones are.
func cordonIt(n *inventory.Node) {
	if !n.Unschedulable {
		n.Unschedulable, n.Annotations[v1alpha1.AnnotationCordonedBy] = true, v1alpha1.ByCastoff
	}
}

// inService puts the legacy nodes back in service, as a pause does.
func (s *scene) inService() *scene {
	s.legacy(releaseIt)
	return s
}

// releaseIt undoes what castoff did to keep pods off a node, and no more.
func releaseIt(n *inventory.Node) {
	if n.Annotations[v1alpha1.AnnotationCordonedBy] != "" {
		n.Unschedulable = false
	}
	for _, key := range []string{v1alpha1.AnnotationCordonedBy, v1alpha1.AnnotationExcludedBy, v1alpha1.AnnotationDraining, v1alpha1.AnnotationWarmed} {
		delete(n.Annotations, key)
	}
	delete(n.Labels, v1alpha1.LabelScaler)
	if n.Labels[karpv1.NodePoolLabelKey] == "" {
		delete(n.Labels, v1alpha1.LabelPool)
	}
	n.Taints = slices.DeleteFunc(slices.Clone(n.Taints), func(t corev1.Taint) bool { return t.Key == v1alpha1.TaintLegacy })
}

// shifting: the groups are open downwards and launch no more.
func (s *scene) shifting() *scene {
	s.handedOver()
	for _, name := range []string{"general", "batch"} {
		g := s.group(name)
		g.Min, g.SuspendedProcesses = 0, append(g.SuspendedProcesses, processLaunch)
	}
	return s
}

// draining begins the drain of a node that has so many evictable pods.
func (s *scene) draining(node string, evictable int, blocked ...inventory.BlockedPod) *scene {
	s.w.Drains[node] = inventory.DrainState{Node: node, Evictable: evictable, Blocked: blocked}
	return s.withNode(node, func(n *inventory.Node) { n.Annotations[v1alpha1.AnnotationDraining] = "2026-11-30T11:59:00Z" })
}

// warm: the node's pods have placeholders, of which so many are Ready and so many are not.
func (s *scene) warm(node string, ready, pending int) *scene {
	for i := range ready + pending {
		s.w.Placeholders = append(s.w.Placeholders, inventory.Placeholder{Name: fmt.Sprintf("%s:%d", node, i), Node: node, Ready: i < ready, Created: noon})
	}
	return s.withNode(node, func(n *inventory.Node) { n.Annotations[v1alpha1.AnnotationWarmed] = "2026-11-30T11:58:00Z" })
}

// emptied: no node and no instance of the pool is left; its sizes and its NodePool's guard are as they were.
func (s *scene) emptied(pools ...string) *scene {
	for _, pool := range pools {
		s.withGroup(pool, func(g *inventory.NodeGroup) { g.Instances, g.Desired = nil, 0 })
		s.w.Nodes = slices.DeleteFunc(s.w.Nodes, func(n inventory.Node) bool { return n.Group == pool })
	}
	return s
}

// finished: the pool is empty, at its end size, and its NodePool has no guard any more.
func (s *scene) finished(pools ...string) *scene {
	for _, pool := range pools {
		s.emptied(pool).serve(pool, "").withGroup(pool, func(g *inventory.NodeGroup) { g.Min, g.Max = 0, endMax(*g) })
	}
	return s
}

// completed: both pools are at their end.
func (s *scene) completed() *scene { return s.shifting().finished("general", "batch") }

// readyPool and readyClass carry the conditions of Ready objects. Their times are real, so they are made once.
var (
	readyPool = func() *karpv1.NodePool {
		np := &karpv1.NodePool{}
		for _, c := range []string{karpv1.ConditionTypeValidationSucceeded, karpv1.ConditionTypeNodeClassReady} {
			np.StatusConditions().SetTrue(c)
		}
		return np
	}()
	readyClass = func() *awsv1.EC2NodeClass {
		nc := &awsv1.EC2NodeClass{}
		for _, c := range nc.StatusConditions().List() {
			nc.StatusConditions().SetTrue(c.Type)
		}
		return nc
	}()
)

func TestBuildersMakeWhatTheyName(t *testing.T) {
	if !readyPool.StatusConditions().Root().IsTrue() || !readyClass.StatusConditions().Root().IsTrue() {
		t.Error("the builders' NodePool and EC2NodeClass must be Ready")
	}
}

// told says in one line each what the actions are.
func told(actions []Action) []string {
	var out []string
	for _, a := range actions {
		out = append(out, tell(a))
	}
	return out
}

func tell(action Action) string {
	name := strings.TrimPrefix(fmt.Sprintf("%T", action), "plan.")
	if l, ok := action.(Ledgered); ok {
		_, target, detail := l.Entry()
		return strings.TrimSpace(name + " " + target + " " + detail)
	}
	switch a := action.(type) {
	case SaveSnapshot:
		return name
	case MarkNode:
		return name + " " + a.Node + " " + a.Pool
	case EnsureNodeClass:
		return name + " " + a.NodeClass.Name
	case StartCanary:
		return name + " " + a.Target.Pool
	case MarkCanaryPassed:
		return name + " " + a.Pool + " " + a.Hash
	case EndCanary:
		return name + " " + a.Pool
	case HoldLease:
		return name + " " + a.Lease.String()
	case StripLeftovers:
		return name + " " + a.Node
	case EnsureNodePool:
		return name + " " + a.NodePool.Name + " " + targetHash(a.NodePool)
	case FenceNode:
		return name + " " + a.Node + " " + a.Pool
	case WarmNode:
		return name + " " + a.Node + " " + a.Pool
	case DropPlaceholders:
		return name + " " + strings.Join(a.Names, ":")
	case BeginDrain:
		return name + " " + a.Node
	case EvictPods:
		return name + " " + a.Node + " " + a.Pool
	case ReleaseNode:
		return name + " " + a.Node
	case HoldNode:
		return name + " " + a.Node + " " + a.Pool
	case RestoreNode:
		return name + " " + a.Node + " " + a.Pool + " as " + a.From.Name
	case UnmarkNode:
		return name + " " + a.Node
	case CordonNode:
		return name + " " + a.Node
	case LetGoLease:
		return name + " " + a.Lease.String()
	case EndNodeClaim:
		return name + " " + a.NodeClaim
	case DeleteNodePool:
		return name + " " + a.NodePool
	case DeleteNodeClass:
		return name + " " + a.NodeClass
	case DeleteTerminationHandler:
		return name + " " + a.Handler.Workload.String()
	}
	return "an action that tell does not know: " + name
}

// shown says of each blocker how bad it is, why, and of what.
func shown(blockers []v1alpha1.Blocker) []string {
	var out []string
	for _, b := range blockers {
		out = append(out, string(b.Severity)+" "+b.Reason+" "+b.Object)
	}
	return out
}

// decided is a Decision in the few words that a table compares.
type decided struct {
	phase    v1alpha1.Phase
	actions  []string
	blockers []string
}

// step is one case: what Next says of a world.
type step struct {
	reason    string
	migration migrationOf
	world     *scene
	want      decided
	// says is what some blocker's message must contain, so that a human knows what to do.
	says string
}

// run checks the cases of a table.
func run(t *testing.T, cases map[string]step) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if tc.migration.m == nil {
				tc.migration = aMigration()
			}
			d := Next(tc.migration.build(), tc.world.build(), noon)
			got := decided{d.Phase, told(d.Actions), shown(d.Blockers)}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(decided{})); diff != "" {
				t.Errorf("%s\nNext(): -want, +got:\n%s", tc.reason, diff)
			}
			if !slices.ContainsFunc(d.Blockers, func(b v1alpha1.Blocker) bool { return strings.Contains(b.Message, tc.says) }) && tc.says != "" {
				t.Errorf("%s\nno blocker says %q: %+v", tc.reason, tc.says, d.Blockers)
			}
			if d.Until.IsZero() {
				t.Errorf("%s\nNext() never looks again", tc.reason)
			}
		})
	}
}
