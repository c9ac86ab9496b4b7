package plan

import (
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// stages of a migration, in order.
var stages = []func(*scene) *scene{
	func(s *scene) *scene { return s },
	(*scene).snapshotTaken, (*scene).prepared,
	func(s *scene) *scene { return s.prepared().awsReady().engineRunning() },
	func(s *scene) *scene { // the canary of one EC2NodeClass ran
		s.engineInstalled().canary("general", time.Minute, func(c *inventory.Canary) { c.PodRan = true })
		delete(s.w.Engine.NodeClasses[0].Annotations, v1alpha1.AnnotationCanaryPassed)
		return s
	},
	(*scene).engineInstalled, (*scene).quiet, (*scene).released, (*scene).served, (*scene).handedOver,
	(*scene).shifting, (*scene).shifting, (*scene).shifting, // where there is most to lose
	func(s *scene) *scene {
		return s.shifting().draining("general-0", 2).waiting(1).quota("general", time.Minute)
	},
	func(s *scene) *scene { return s.shifting().late("general-0") },
	func(s *scene) *scene { return s.shifting().attached("general-0", "pv") },
	func(s *scene) *scene { return s.shifting().emptied("general") },
	func(s *scene) *scene { return s.shifting().finished("general") },
	(*scene).completed, (*scene).completed, (*scene).retired,
	(*scene).halfway, (*scene).stilled, (*scene).sized,
	func(s *scene) *scene { // nodes that stand for nobody yet
		s.sized().launch(s.group("general"))
		s.w.Nodes[len(s.w.Nodes)-1].Ready = true
		return s
	},
	(*scene).returned, (*scene).halted, (*scene).started, (*scene).leading, (*scene).resumed,
	func(s *scene) *scene { // only the scheduled actions are not back
		s.resumed().group("general").ScheduledActions = nil
		return s
	},
	func(s *scene) *scene { s.declassed().lateEffect(UninstallEngine{}); return s },
	func(s *scene) *scene {
		return s.retired().with(func(w *World) { w.TerminationHandlers = []inventory.TerminationHandler{{Kind: "DaemonSet"}} })
	},
	(*scene).cordoned, (*scene).vacated, (*scene).unserved, (*scene).declassed, (*scene).uninstalled, (*scene).removed, (*scene).rolledBack,
}

// randomCase is a migration at some stage, in a world to which things have happened. The same seed makes the same one.
func randomCase(seed int64) (migrationOf, *scene) {
	r := rand.New(rand.NewSource(seed))
	s, m := randomStage(r)
	drains := []int{3, 300}[r.Intn(2)]
	for range 20 { // some nodes are being drained, in whatever state
		if len(s.w.Nodes) > 0 && s.w.Snapshot != nil && r.Intn(drains) == 0 {
			s.draining(s.w.Nodes[r.Intn(len(s.w.Nodes))].Name, r.Intn(3))
		}
	}
	odds := []int{8, 100}[r.Intn(2)] // a world where much happens, or one where hardly anything does
	for _, happens := range disturbances {
		if r.Intn(odds) == 0 {
			happens(r, s)
		}
	}
	for _, changes := range wishes {
		if r.Intn(min(odds, 16)) == 0 {
			m = changes(r, m)
		}
	}
	switch r.Intn(6) {
	case 0, 1:
		m = m.rollBack()
	case 2:
		m = m.retiring(2*day, v1alpha1.ApproveDelete)
	}
	return m, s
}

// randomStage is an undisturbed world of some size at some stage.
func randomStage(r *rand.Rand) (*scene, migrationOf) {
	s := aWorld()
	for range r.Intn(8) {
		s.join([]string{"general", "batch", "system"}[r.Intn(3)])
	}
	if r.Intn(2) == 0 {
		s.scaled("general", "cpu", "night")
	}
	m := aMigration().soak(int32(r.Intn(2) * 600))
	if r.Intn(2) == 0 {
		m = m.soaked()
	}
	if r.Intn(2) == 0 {
		m = m.warmFirst()
	}
	if r.Intn(2) == 0 {
		m = m.onTimeout([]v1alpha1.TimeoutPolicy{v1alpha1.TimeoutWait, v1alpha1.TimeoutSkip, v1alpha1.TimeoutPause}[r.Intn(3)])
	}
	return stages[r.Intn(len(stages))](s), m
}

func anyGroup(r *rand.Rand, s *scene) *inventory.NodeGroup {
	if len(s.w.Groups) == 0 {
		return &inventory.NodeGroup{}
	}
	return &s.w.Groups[r.Intn(len(s.w.Groups))]
}

func anyNode(r *rand.Rand, s *scene) *inventory.Node {
	if len(s.w.Nodes) == 0 {
		return &inventory.Node{Labels: map[string]string{}, Annotations: map[string]string{}}
	}
	return &s.w.Nodes[r.Intn(len(s.w.Nodes))]
}

// disturbances are what users, GitOps, AWS and Kubernetes do to a world.
var disturbances = []func(*rand.Rand, *scene){
	func(r *rand.Rand, s *scene) { // Cluster Autoscaler comes back, in one of the ways in which it can
		s.withAutoscaler(func(a *inventory.Autoscaler) {
			a.Replicas, a.StatusReplicas, a.Pods = int32(r.Intn(2)), int32(r.Intn(2)), r.Intn(2)
			a.LeaderElect = r.Intn(3) > 0
			a.LeaseHolder = []string{"", "ca-7", v1alpha1.LeaseIdentity}[r.Intn(3)]
			a.LeaseRenewed = noon.Add(-time.Duration(r.Intn(3600)) * time.Second)
		})
	},
	func(r *rand.Rand, s *scene) { // a second one
		other := anAutoscaler("other")
		other.Discovery, other.Static = nil, []string{anyGroup(r, s).AutoScalingGroup}
		s.w.Autoscalers = append(s.w.Autoscalers, other)
	},
	func(_ *rand.Rand, s *scene) { s.w.Autoscalers = append(s.w.Autoscalers[:0:0], inventory.Autoscaler{}) },
	func(r *rand.Rand, s *scene) { anyGroup(r, s).SuspendedProcesses = nil },
	func(r *rand.Rand, s *scene) {
		g := anyGroup(r, s)
		g.CapacityRebalance, g.MaxInstanceLifetime = true, 86400
	},
	func(r *rand.Rand, s *scene) {
		g := anyGroup(r, s)
		g.Min, g.Max, g.Desired = int32(r.Intn(3)), 3+int32(r.Intn(3)), 3
	},
	func(r *rand.Rand, s *scene) {
		g := anyGroup(r, s)
		g.ScalingPolicies = append(g.ScalingPolicies, inventory.ScalingPolicy{Name: "new", Active: true})
	},
	func(r *rand.Rand, s *scene) { // instances in whatever state
		g := anyGroup(r, s)
		for i := range g.Instances {
			g.Instances[i].Lifecycle = []string{"InService", "InService", "Pending", "Terminating", "Terminating:Wait", "Standby", ""}[r.Intn(7)]
		}
	},
	func(r *rand.Rand, s *scene) {
		if g := anyGroup(r, s).Name; g != "" {
			s.join(g)
		}
	},
	func(r *rand.Rand, s *scene) { // a node goes, or its instance is not known
		if name := anyNode(r, s).Name; r.Intn(2) == 0 {
			s.w.Nodes = slices.DeleteFunc(s.w.Nodes, func(n inventory.Node) bool { return n.Name == name })
			return
		}
		anyNode(r, s).InstanceID = ""
	},
	func(r *rand.Rand, s *scene) {
		n := anyNode(r, s)
		n.Unschedulable, n.Taints = r.Intn(2) == 0, nil
	},
	func(r *rand.Rand, s *scene) {
		n := anyNode(r, s)
		n.Taints = append(n.Taints, corev1.Taint{Key: taintToBeDeleted, Effect: corev1.TaintEffectNoSchedule})
	},
	func(r *rand.Rand, s *scene) { anyNode(r, s).Annotations, anyNode(r, s).Labels = nil, nil },
	func(r *rand.Rand, s *scene) { // pods on a node: more, none, held, or nobody looked
		n := anyNode(r, s).Name
		delete(s.w.Drains, n)
		if r.Intn(2) == 0 {
			s.w.Drains[n] = inventory.DrainState{Node: n, Evictable: r.Intn(3), Blocked: []inventory.BlockedPod{{Reason: inventory.BlockedBare}}}
		}
	},
	func(r *rand.Rand, s *scene) { s.w.PendingPods = r.Intn(5) },
	func(r *rand.Rand, s *scene) {
		s.w.Engine.ReadyReplicas = int32(r.Intn(2))
		s.w.Engine.ReleaseCurrent = r.Intn(2) == 0
	},
	func(_ *rand.Rand, s *scene) { s.w.Engine.NodePools = nil },
	func(_ *rand.Rand, s *scene) {
		for i := range s.w.Engine.NodePools {
			s.w.Engine.NodePools[i].Status.Conditions = nil
		}
		for i := range s.w.Engine.NodeClasses {
			s.w.Engine.NodeClasses[i].Status.Conditions = nil
		}
	},
	func(r *rand.Rand, s *scene) {
		s.canary("general", time.Duration(r.Intn(20))*time.Minute, func(c *inventory.Canary) { c.Pod, c.PodRan = r.Intn(2) == 0, r.Intn(2) == 0 })
	},
	func(_ *rand.Rand, s *scene) { clear(s.w.Engine.NodeClassHashes) },
	func(_ *rand.Rand, s *scene) {
		s.w.Interruption.Conflict, s.w.Identity.Conflict = "not ours", "not ours"
	},
	func(_ *rand.Rand, s *scene) { delete(s.w.Targets, "general") },
	func(_ *rand.Rand, s *scene) { s.w.Snapshot, s.w.SnapshotProblem = nil, "its digest is another" },
	func(r *rand.Rand, s *scene) {
		s.found([]inventory.Finding{barePod, noRights, emptyDirs, accepted(barePod)}[r.Intn(4)])
	},
	func(_ *rand.Rand, s *scene) { s.w.OtherMigration = "older" },
	func(_ *rand.Rand, s *scene) { s.w.Groups = s.w.Groups[1:] },
	func(_ *rand.Rand, s *scene) {
		s.w.Pools = append(s.w.Pools, inventory.Pool{Name: "ghost", NodeGroups: []string{"ghost", "general"}})
	},
	func(_ *rand.Rand, s *scene) { s.w.Nodes, s.w.Drains, s.w.Targets = nil, nil, nil },
	func(r *rand.Rand, s *scene) { // Karpenter launches, and its nodes are in whatever state
		s.claim("general").registered().claim("batch")
		for i := range s.w.Engine.NodeClaims {
			s.w.Engine.NodeClaims[i].Deleting = r.Intn(4) == 0
		}
	},
	func(r *rand.Rand, s *scene) {
		anyNode(r, s).Ready = false
		anyGroup(r, s).LaunchError = "InsufficientInstanceCapacity"
	},
	func(r *rand.Rand, s *scene) { // Karpenter was there, and is used
		if s.w.Snapshot != nil {
			s.w.Snapshot.Before = inventory.Before{Release: r.Intn(2) == 0, CRDs: r.Intn(2) == 0, Interruption: r.Intn(2) == 0, Identity: r.Intn(2) == 0}
		}
		if r.Intn(2) == 0 {
			s.w.Engine.NodePools = append(s.w.Engine.NodePools, karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}})
		}
	},
	func(r *rand.Rand, s *scene) { // half of a way back
		for i := range s.w.Engine.NodePools {
			if r.Intn(2) == 0 {
				s.ensureNodePool(stoppedNodePool(s.w.Engine.NodePools[i]))
			}
		}
	},
	func(r *rand.Rand, s *scene) {
		anyGroup(r, s).Tags = append(anyGroup(r, s).Tags, inventory.Tag{Key: "castoff.sh/owner", Value: "us"})
	},
	func(_ *rand.Rand, s *scene) {
		s.w.TerminationHandlers = []inventory.TerminationHandler{{Kind: "DaemonSet"}, {Kind: "DaemonSet", Owner: "Helm"}}
	},
	func(r *rand.Rand, s *scene) { // Karpenter cannot launch, or could not a while ago
		s.w.PendingPods = r.Intn(3)
		s.quota([]string{"general", "batch", "theirs"}[r.Intn(3)], time.Duration(r.Intn(20))*time.Minute)
	},
	func(r *rand.Rand, s *scene) { // drains of every age, and one that somebody wrote into
		for i, n := range s.w.Nodes {
			if begun(n) && n.Annotations != nil {
				s.w.Nodes[i].Annotations[v1alpha1.AnnotationDraining] = []string{"2026-11-30T11:00:00Z", "2026-11-30T11:59:50Z", "2026-11-30T12:30:00Z", "a while"}[r.Intn(4)]
			}
		}
	},
	func(r *rand.Rand, s *scene) { // pods that moved are not well, and some never were
		s.unwell("deployment/shop/cart", time.Duration(r.Intn(20))*time.Minute, r.Intn(2) == 0)
		if s.w.Snapshot != nil && r.Intn(2) == 0 {
			s.w.Snapshot.Unwell = map[string]int{"deployment/shop/cart": r.Intn(3)}
		}
	},
	func(r *rand.Rand, s *scene) { // volumes that stay attached
		for _, name := range slices.Sorted(maps.Keys(s.w.Drains)) {
			d := s.w.Drains[name]
			if d.Volumes = nil; r.Intn(2) == 0 || len(s.w.Drains) == 1 {
				d.Volumes = []string{"pv"}
			}
			s.w.Drains[name] = d
		}
	},
}

// wishes are what users write into the spec, and what earlier looks left in the status.
var wishes = []func(*rand.Rand, migrationOf) migrationOf{
	func(_ *rand.Rand, m migrationOf) migrationOf { return m.paused() },
	func(_ *rand.Rand, m migrationOf) migrationOf { m.m.DeletionTimestamp = stamp(noon); return m },
	func(r *rand.Rand, m migrationOf) migrationOf {
		return m.retiring(time.Duration(r.Intn(3))*day, [][]v1alpha1.ApprovalStep{nil, {v1alpha1.ApproveDelete}}[r.Intn(2)]...)
	},
	func(_ *rand.Rand, m migrationOf) migrationOf { return m.accepts(CheckForeignSize, "*") },
	func(r *rand.Rand, m migrationOf) migrationOf {
		return m.manual([][]v1alpha1.ApprovalStep{nil, {v1alpha1.ApproveStart}, {v1alpha1.ApproveStart, v1alpha1.ApproveHandOver}}[r.Intn(3)]...)
	},
	func(r *rand.Rand, m migrationOf) migrationOf {
		return m.maxUnavailable([]string{"1", "7", "1%", "100%", "nonsense", "-3"}[r.Intn(6)])
	},
	func(_ *rand.Rand, m migrationOf) migrationOf {
		m.m.Spec.Strategy.MaxUnavailableNodes, m.m.Spec.Strategy.SoakSeconds = nil, nil
		return m
	},
	func(r *rand.Rand, m migrationOf) migrationOf { return m.ledger(stops(1 + int32(r.Intn(2)))) },
	func(r *rand.Rand, m migrationOf) migrationOf {
		return m.balancers(int32(r.Intn(3)) * 60)
	},
	func(r *rand.Rand, m migrationOf) migrationOf {
		check := []string{"BarePod", "LocalVolume", "DoNotDisrupt", "BudgetOverride", "BudgetNeverAllows", CheckCapacity}[r.Intn(5)]
		return m.accepts(check, []string{"*", "pod/shop/cart-0", "poddisruptionbudget/shop/web"}[r.Intn(3)])
	},
	func(r *rand.Rand, m migrationOf) migrationOf {
		return m.said("VolumesAttached", "node/general-0", "general", time.Duration(r.Intn(12))*time.Minute)
	},
	randomLedger, randomLedger,
}

// randomLedger adds entries of every kind and age, and some that no castoff writes.
func randomLedger(r *rand.Rand, m migrationOf) migrationOf {
	kinds := []string{kindStartAutoscaler, kindResumeProcesses, kindEnablePolicies, kindDeleteGroup, kindSuspendProcesses, kindSetGroupSize, kindEndInstances, kindSetRebalance, kindDisablePolicies, "Unknown"}
	for range r.Intn(ledgerSize) {
		op := operation(fmt.Sprintf("%s/%s", kinds[r.Intn(len(kinds))], []string{"general", "eks-batch", "kube-system/cluster-autoscaler", "gone", ""}[r.Intn(5)]), "i-general-0", time.Duration(1+r.Intn(90))*time.Second)
		if slices.ContainsFunc(m.m.Status.Operations, func(o v1alpha1.Operation) bool { return o.ID == op.ID }) || len(m.m.Status.Operations) >= ledgerSize {
			continue // the API server refuses both
		}
		switch r.Intn(4) {
		case 0:
			op = closed(op)
		case 1:
			op = failed(op)
		case 2:
			op.StartTime = nil
		}
		m = m.ledger(op)
	}
	return m
}

// largeWorld is one in the middle of shifting with so many nodes, twenty of them being drained.
func largeWorld(nodes int) (migrationOf, *scene) {
	s := aWorld()
	for i := range nodes - len(s.w.Nodes) {
		s.join([]string{"general", "batch"}[i%2])
	}
	s.shifting()
	for i := range 20 {
		s.draining(fmt.Sprintf("general-%d", i), i%3, inventory.BlockedPod{Pod: types.NamespacedName{Namespace: "shop", Name: "cart"}, Reason: inventory.BlockedByPDB})
	}
	m := aMigration()
	v := intstr.FromString("10%")
	m.m.Spec.Strategy.MaxUnavailableNodes = &v
	return m, s
}

// largeWarming is the moment in which the pods of all nodes but a few wait for their room.
func largeWarming(nodes int) (migrationOf, *scene) {
	m, s := largeWorld(nodes)
	for i := 20; i < nodes/2; i++ {
		s.warm(fmt.Sprintf("general-%d", i), 0, 4)
	}
	return m.warmFirst().maxUnavailable("100%"), s
}

// largeWayBack is the moment in which so many nodes have come back and none stands for anybody yet.
func largeWayBack(nodes int) (migrationOf, *scene) {
	s := aWorld()
	for i := range nodes - len(s.w.Nodes) {
		s.join([]string{"general", "batch"}[i%2])
	}
	s.shifting().emptied("general", "batch").stillOnly()
	for i := range nodes {
		s.launch(s.group([]string{"general", "batch"}[i%2]))
		s.w.Nodes[len(s.w.Nodes)-1].Ready = true
	}
	for _, name := range []string{"general", "batch"} {
		recorded, _ := s.w.Snapshot.Group(name)
		s.withGroup(name, func(g *inventory.NodeGroup) {
			g.Min, g.Max, g.Desired, g.SuspendedProcesses = recorded.Group.Min, recorded.Group.Max, recorded.Group.Desired, slices.Clone(quietProcesses)
		})
	}
	return aMigration().rollBack(), s
}
