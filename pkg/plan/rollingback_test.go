package plan

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// The stages of the way back. It begins where most is to be brought back: general is Karpenter's, on two nodes, and batch has
// not moved yet.

// halfway: the migration was in the middle.
func (s *scene) halfway() *scene {
	return s.shifting().emptied("general").claim("general").claim("general").registered()
}

// stilled: Karpenter serves, and moves nothing.
func (s *scene) stilled() *scene {
	s.halfway().inService()
	for _, np := range slices.Clone(s.w.Engine.NodePools) {
		s.ensureNodePool(stillNodePool(np))
	}
	return s
}

// sized: the groups have their sizes again and launch; the nodes that are there are held.
func (s *scene) sized() *scene {
	s.stilled().legacy(func(n *inventory.Node) {
		if n.Group != "" {
			holdIt(n, n.Group)
		}
	})
	return s.recordedSizes()
}

// returned: the nodes came back, and stand for those that were recorded.
func (s *scene) returned() *scene {
	s.sized()
	recorded, _ := s.w.Snapshot.Group("general")
	for _, from := range recorded.Nodes {
		s.launch(s.group("general"))
		n := &s.w.Nodes[len(s.w.Nodes)-1]
		n.Ready = true
		restoreIt(n, RestoreNode{Node: n.Name, Pool: "general", From: from})
	}
	return s
}

// halted: the NodePools serve no more.
func (s *scene) halted() *scene {
	s.returned()
	for _, np := range slices.Clone(s.w.Engine.NodePools) {
		s.ensureNodePool(stoppedNodePool(np))
	}
	return s
}

// started: the Lease is let go, and Cluster Autoscaler was asked to run.
func (s *scene) started() *scene {
	return s.halted().withAutoscaler(func(a *inventory.Autoscaler) { a.Replicas, a.StatusReplicas, a.Pods, a.LeaseHolder = 1, 1, 1, "" })
}

// leading: it leads, and its status lists the groups.
func (s *scene) leading() *scene { return s.started().withAutoscaler(itServes) }

func itServes(a *inventory.Autoscaler) {
	a.LeaseHolder, a.StatusTime, a.Groups = "cluster-autoscaler-1", noon, []string{"general", "eks-batch"}
}

// resumed: the groups are as they were.
func (s *scene) resumed() *scene {
	s.leading()
	for _, recorded := range s.w.Snapshot.Groups {
		s.withGroup(recorded.Group.Name, func(g *inventory.NodeGroup) {
			g.SuspendedProcesses, g.ScheduledActions = recorded.Group.SuspendedProcesses, recorded.Group.ScheduledActions
			g.ScalingPolicies = slices.Clone(recorded.Group.ScalingPolicies)
		})
	}
	return s
}

// cordoned: no pod comes to Karpenter's nodes any more.
func (s *scene) cordoned() *scene {
	s.resumed()
	for i := range s.w.Nodes {
		if s.w.Nodes[i].Labels[karpv1.NodePoolLabelKey] != "" {
			cordonIt(&s.w.Nodes[i])
		}
	}
	return s
}

// vacated: Karpenter has no node any more.
func (s *scene) vacated() *scene {
	s.cordoned().w.Engine.NodeClaims = nil
	s.w.Nodes = slices.DeleteFunc(s.w.Nodes, func(n inventory.Node) bool { return n.Labels[karpv1.NodePoolLabelKey] != "" })
	return s
}

// unserved: the NodePools are gone.
func (s *scene) unserved() *scene { s.vacated().w.Engine.NodePools = nil; return s }

// declassed: so are the EC2NodeClasses.
func (s *scene) declassed() *scene { s.unserved().w.Engine.NodeClasses = nil; return s }

// uninstalled: so is the engine, with its definitions.
func (s *scene) uninstalled() *scene {
	s.declassed().lateEffect(UninstallEngine{})
	s.lateEffect(RemoveCRDs{})
	return s
}

// removed: nothing is left in AWS.
func (s *scene) removed() *scene {
	s.uninstalled().lateEffect(RemoveInterruption{})
	s.lateEffect(RemoveIdentity{})
	return s
}

// rolledBack: nothing is left.
func (s *scene) rolledBack() *scene {
	s.removed()
	for i := range s.w.Nodes {
		unmarkIt(&s.w.Nodes[i])
	}
	return s
}

// backwards is a step of the way back.
func backwards(actions []string, blockers ...string) decided {
	return decided{phase: v1alpha1.PhaseRollingBack, actions: actions, blockers: blockers}
}

// runBack checks the cases of a table of migrations that are to be rolled back.
func runBack(t *testing.T, cases map[string]step) {
	t.Helper()
	for name, tc := range cases {
		if tc.migration.m == nil {
			tc.migration = aMigration()
		}
		tc.migration = tc.migration.rollBack()
		cases[name] = tc
	}
	run(t, cases)
}

var (
	stillPools   = []string{"EnsureNodePool general target-of-general/still", "EnsureNodePool batch target-of-batch/still"}
	stoppedPools = []string{"EnsureNodePool general target-of-general/stopped", "EnsureNodePool batch target-of-batch/stopped"}
	allResume    = []string{"ResumeProcesses general " + allQuiet, "ResumeProcesses eks-batch " + allQuiet}
	starts       = "StartAutoscaler kube-system/cluster-autoscaler 1"
)

// TestRollingBackStepByStep is the way back in its order: each stage asks for the next.
func TestRollingBackStepByStep(t *testing.T) {
	news := []string{"general-new3", "general-new4", "general-new5"}
	unmark := []string{"UnmarkNode batch-0", "UnmarkNode batch-1"}
	for _, n := range news {
		unmark = append(unmark, "UnmarkNode "+n)
	}
	runBack(t, map[string]step{
		"Halfway": {
			reason: "first of all nothing of Karpenter's moves: it would move onto the nodes that come back; undrained nodes are in service again",
			world:  aWorld().halfway(), want: backwards([]string{stillPools[0], stillPools[1], "ReleaseNode batch-0", "ReleaseNode batch-1"}),
		},
		"Stilled": {
			reason: "the groups get their sizes while Karpenter serves; what is there is held, or Cluster Autoscaler would find it idle",
			world:  aWorld().stilled(),
			want:   backwards([]string{"SetGroupSize general 1/10/3", "SetGroupSize eks-batch 1/10/2", "HoldNode batch-0 batch", "HoldNode batch-1 batch"}),
		},
		"Sized": {
			reason: "Karpenter serves the pool until the old nodes are there", world: aWorld().sized(),
			want: backwards(nil, "Wait NodesReturning nodegroup/general"), says: "0 of 3 nodes are Ready",
		},
		"Returned":    {reason: "now Karpenter lets go", world: aWorld().returned(), want: backwards(stoppedPools)},
		"Halted":      {reason: "and Cluster Autoscaler may", world: aWorld().halted(), want: backwards([]string{letsGo, starts}, "Wait AutoscalerStarting "+caObject)},
		"Started":     {reason: "it serves when it leads and lists the groups, not before", world: aWorld().started(), want: backwards(nil, "Wait AutoscalerStarting "+caObject), says: "its Lease is held by nobody yet"},
		"Leading":     {reason: "the groups may rebalance and replace again", world: aWorld().leading(), want: backwards(allResume)},
		"Resumed":     {reason: "Karpenter's nodes are cordoned all at once, or the pods of one would go to the next", world: aWorld().resumed(), want: backwards([]string{"CordonNode node-of-general-claim1", "CordonNode node-of-general-claim2"})},
		"Cordoned":    {reason: "and drained, as many at a time as on the way there", world: aWorld().cordoned(), want: backwards([]string{"BeginDrain node-of-general-claim1"})},
		"Vacated":     {reason: "a NodePool without nodes drains nobody when it goes", world: aWorld().vacated(), want: backwards([]string{"DeleteNodePool general", "DeleteNodePool batch"})},
		"Unserved":    {reason: "then the classes go", world: aWorld().unserved(), want: backwards([]string{"DeleteNodeClass general", "DeleteNodeClass batch"}, "Wait NodeClassEnding ec2nodeclass/general", "Wait NodeClassEnding ec2nodeclass/batch")},
		"Declassed":   {reason: "then the engine, which had to finalize them", world: aWorld().declassed(), want: backwards([]string{"UninstallEngine engine"}, "Wait ReleaseEnding release/karpenter")},
		"Uninstalled": {reason: "queue and roles go last: the engine used them", world: aWorld().uninstalled(), want: backwards([]string{"RemoveInterruption interruption", "RemoveIdentity identity"}, "Wait InterruptionEnding queue/test", "Wait IdentityEnding role/nodes"), says: "Being removed: queue, rules."},
		"Removed":     {reason: "the pods are back, so the holds go, and all marks with them", world: aWorld().removed(), want: backwards(unmark)},
		"RolledBack":  {reason: "nothing is left to do", world: aWorld().rolledBack(), want: decided{phase: v1alpha1.PhaseRolledBack}},
	})
}

const letsGo = "LetGoLease kube-system/cluster-autoscaler"

// TestRollingBackFromEveryStage: a step that the migration never needed is done at once, so one list goes back from everywhere.
func TestRollingBackFromEveryStage(t *testing.T) {
	byUs := aMigration().ledger(stops(1))
	release := []string{"ReleaseNode general-0", "ReleaseNode general-1", "ReleaseNode general-2"}
	runBack(t, map[string]step{
		"Fresh":    {reason: "nothing was changed", world: aWorld(), want: decided{phase: v1alpha1.PhaseRolledBack}},
		"Recorded": {reason: "nothing but the snapshot was made", world: aWorld().snapshotTaken(), want: decided{phase: v1alpha1.PhaseRolledBack}},
		"Prepared": {
			reason: "what was recorded acts again", world: aWorld().scaled("general", "cpu", "night").prepared(),
			want: backwards([]string{"EnablePolicies general cpu"}),
		},
		"Schedules": {
			reason: "the policies are back, the schedules are next: one change of a group at a time",
			world: aWorld().scaled("general", "cpu", "night").prepared().withGroup("general", func(g *inventory.NodeGroup) {
				g.ScalingPolicies[0].Active = true
			}),
			want: backwards([]string{"PutScheduledActions general night"}),
		},
		"Canary": {
			reason: "a canary goes before the class that it tries", world: aWorld().engineInstalled().canary("general", time.Minute, running),
			want: backwards([]string{"EndCanary general"}, "Wait CanaryLeaving pool/general"),
		},
		"Quiet": {reason: "Cluster Autoscaler never stopped; its groups get their processes back", world: aWorld().quiet(), want: backwards(allResume)},
		"QuietPartly": {
			reason: "what the ledger says that castoff suspended is resumed, even if not all of it is there",
			world: aWorld().engineInstalled().withGroup("general", func(g *inventory.NodeGroup) {
				g.SuspendedProcesses = []string{"AZRebalance"}
			}),
			migration: aMigration().ledger(closed(operation("SuspendProcesses/general", "AZRebalance:ReplaceUnhealthy", time.Minute))),
			want:      backwards([]string{"ResumeProcesses general AZRebalance"}),
		},
		"QuietByHand": {
			reason: "a process that the user suspended since is theirs",
			world: aWorld().prepared().withGroup("general", func(g *inventory.NodeGroup) {
				g.SuspendedProcesses = []string{"AZRebalance"}
			}),
			want: backwards([]string{"UnmarkNode general-0", "UnmarkNode general-1", "UnmarkNode general-2", "UnmarkNode batch-0", "UnmarkNode batch-1"}),
		},
		"QuietBefore": {
			reason: "so is one that was suspended when the snapshot was taken",
			world:  aWorld().withGroup("general", func(g *inventory.NodeGroup) { g.SuspendedProcesses = []string{"AZRebalance"} }).quiet(),
			want:   backwards([]string{"ResumeProcesses general ReplaceUnhealthy:ScheduledActions:AlarmNotification:InstanceRefresh", allResume[1]}),
		},
		"QuietButOne": {
			reason:    "somebody resumed one of them: the others are castoff's doing all the same, whatever the ledger forgot",
			world:     aWorld().quiet().withGroup("general", func(g *inventory.NodeGroup) { g.SuspendedProcesses = slices.Clone(quietProcesses[1:]) }),
			migration: aMigration().ledger(closed(operation("SuspendLaunch/general", processLaunch, time.Minute))),
			want:      backwards([]string{"ResumeProcesses general ReplaceUnhealthy:ScheduledActions:AlarmNotification:InstanceRefresh", allResume[1]}),
		},
		"Released": {
			reason: "nobody serves: Cluster Autoscaler is started before anything else", migration: byUs, world: aWorld().released(), want: backwards([]string{starts}, "Wait AutoscalerStarting "+caObject),
		},
		"ReleasedAndHeld": {
			reason: "at once", migration: byUs, world: aWorld().released().held(), want: backwards([]string{starts}, "Wait AutoscalerStarting "+caObject),
		},
		"HandedOver": {
			reason: "the fence falls", world: aWorld().handedOver(),
			want: backwards(append(append([]string{stillPools[0]}, release...), stillPools[1], "ReleaseNode batch-0", "ReleaseNode batch-1")),
		},
		"EndingInstance": {
			reason:    "an instance that was asked to end is neither released nor counted on",
			migration: aMigration().ledger(operation("EndInstances/general", "i-general-0", time.Second)),
			world:     aWorld().handedOver().stillOnly().inService().withNode("general-0", fenceIt).held(),
			want:      backwards(nil, "Wait InstanceEnding node/general-0", "Wait EffectNotVisible EndInstances/general"),
		},
		"EndWasLost": {
			reason:    "but not for ever: after a minute the reads would show it",
			migration: aMigration().ledger(operation("EndInstances/general", "i-general-0", endPatience)),
			world:     aWorld().handedOver().stillOnly().inService().withNode("general-0", fenceIt).held(),
			want:      backwards([]string{"ReleaseNode general-0"}),
		},
		"Completed": {
			reason: "from the end too, until Delete is approved", migration: aMigration().soaked(), world: aWorld().completed(), want: backwards(stillPools),
		},
	})
}

// held: the legacy nodes are kept from Cluster Autoscaler.
func (s *scene) held() *scene {
	s.legacy(func(n *inventory.Node) { holdIt(n, n.Group) })
	return s
}

// stillOnly stills the NodePools of whatever stage it is.
func (s *scene) stillOnly() *scene {
	for _, np := range slices.Clone(s.w.Engine.NodePools) {
		s.ensureNodePool(stillNodePool(np))
	}
	return s
}

// recordedSizes: the groups have their sizes again, and launch.
func (s *scene) recordedSizes() *scene {
	for _, recorded := range s.w.Snapshot.Groups {
		s.withGroup(recorded.Group.Name, func(g *inventory.NodeGroup) {
			g.Min, g.Max, g.Desired, g.SuspendedProcesses = recorded.Group.Min, recorded.Group.Max, recorded.Group.Desired, slices.Clone(quietProcesses)
		})
	}
	return s
}

// neverRan: Cluster Autoscaler had no replicas when the snapshot was taken, and has none.
func neverRan(w *World) {
	s := *w.Snapshot
	s.Autoscalers = slices.Clone(s.Autoscalers)
	for i := range s.Autoscalers {
		s.Autoscalers[i].Replicas = 0
	}
	w.Snapshot = &s
}

func TestRollingBackWaits(t *testing.T) {
	inFlight := func(s *scene) *scene { return s.claim("general") }
	waited := func(d time.Duration) migrationOf {
		m := aMigration()
		m.m.Status.Blockers = []v1alpha1.Blocker{{Severity: v1alpha1.SeverityWait, Reason: "CapacityInFlight", Object: "nodepool/general", Since: stamp(noon.Add(-d))}}
		return m
	}
	runBack(t, map[string]step{
		"SomeReady": {
			reason: "a node that is not Ready has room for nobody; why none comes is said in AWS's words",
			world: aWorld().returned().withNode("general-new4", func(n *inventory.Node) { n.Ready = false }).
				withGroup("general", func(g *inventory.NodeGroup) { g.LaunchError = "InsufficientInstanceCapacity" }),
			want: backwards(nil, "Wait NodesReturning nodegroup/general"), says: "2 of 3 nodes are Ready; Karpenter serves the pool until all are. InsufficientInstanceCapacity",
		},
		"NobodyToGoBackTo": {
			reason: "Karpenter does not let go of pools that nobody would scale then", says: "no Cluster Autoscaler ran",
			world: aWorld().returned().with(neverRan), want: backwards(nil, "Block NoScalerToGoBackTo migration/prod"),
		},
		"NobodyIsAccepted": {
			reason: "who accepts that goes back to it", migration: aMigration().accepts(CheckNoScaler, "migration/prod"),
			world: aWorld().returned().with(neverRan), want: backwards(stoppedPools),
		},
		"StartedSince": {
			reason: "one that waits as a standby takes the pools when the hands change",
			world: aWorld().returned().with(neverRan).withAutoscaler(func(a *inventory.Autoscaler) {
				a.Replicas, a.StatusReplicas, a.Pods = 1, 1, 1
			}),
			want: backwards(stoppedPools),
		},
		"MaxIsLower": {
			reason: "a max that the user lowered is all that can come",
			world:  aWorld().returned().withGroup("general", func(g *inventory.NodeGroup) { g.Max, g.Desired = 2, 2 }).withNode("general-new4", func(n *inventory.Node) { n.Ready = false }),
			want:   backwards(stoppedPools, "Warn ForeignSize nodegroup/general"),
		},
		"CapacityInFlight": {
			reason: "a node on its way was asked for by a pod: it would come to a pool that is Cluster Autoscaler's", world: inFlight(aWorld().returned()),
			want: backwards(nil, "Wait CapacityInFlight nodepool/general"), says: "1 node of Karpenter's is on its way",
		},
		"CapacityIsStuck": {
			reason: "one that never comes may be the reason for going back", migration: waited(calmPatience), world: inFlight(aWorld().returned()),
			want: backwards(stoppedPools),
		},
		"CapacityNotYetStuck": {
			reason: "but it is given its time", migration: waited(calmPatience - time.Second), world: inFlight(aWorld().returned()),
			want: backwards(nil, "Wait CapacityInFlight nodepool/general"),
		},
		"CutInItsMiddle": {
			reason: "a pool that nobody serves yet is served first: a hand-over that was cut is nearer to its end",
			world:  aWorld().stilled().with(func(w *World) { w.Engine.NodePools = w.Engine.NodePools[:1] }).held().inService().recordedSizes(),
			want:   backwards([]string{"EnsureNodePool batch target-of-batch/guarded"}),
		},
		"CutAndTakenBack": {
			reason: "unless Cluster Autoscaler came back and serves it: a NodePool beside it would be a second scaler",
			world: aWorld().stilled().with(func(w *World) { w.Engine.NodePools = w.Engine.NodePools[:1] }).held().inService().recordedSizes().
				withAutoscaler(itServes).withAutoscaler(func(a *inventory.Autoscaler) { a.Replicas, a.StatusReplicas, a.Pods = 1, 1, 1 }),
			want: backwards(nil, "Wait NodesReturning nodegroup/general"),
		},
		"StoppedAlready": {
			reason: "a pool that nobody serves is not kept waiting for nodes", world: aWorld().halted().withNode("general-new4", func(n *inventory.Node) { n.Ready = false }),
			want: backwards([]string{letsGo, starts}, "Wait AutoscalerStarting "+caObject),
		},
		"NodePoolIsGone": {
			reason: "one whose NodePool somebody deleted is served before the hands change",
			world:  aWorld().returned().with(func(w *World) { w.Engine.NodePools = w.Engine.NodePools[1:] }), want: backwards([]string{"EnsureNodePool general target-of-general/guarded"}),
		},
		"LaunchIsSuspended": {
			reason: "a group that may not launch brings nothing back", world: aWorld().sized().withGroup("general", func(g *inventory.NodeGroup) {
				g.SuspendedProcesses = append(g.SuspendedProcesses, processLaunch)
			}),
			want: backwards([]string{"ResumeProcesses general Launch"}),
		},
		"NotRecorded": {
			reason: "a group that came to the pool after the snapshot has no size to go back to",
			world: aWorld().returned().with(func(w *World) {
				w.Pools[0].NodeGroups = append(slices.Clone(w.Pools[0].NodeGroups), "late")
				w.Groups = append(w.Groups, inventory.NodeGroup{Name: "late", AutoScalingGroup: "late", Max: 5, SuspendedProcesses: []string{processLaunch}})
			}),
			want: backwards(stoppedPools),
		},
		"LaunchWasSuspended": {
			reason: "unless it might not before either",
			world: aWorld().returned().with(func(w *World) {
				for i := range w.Snapshot.Groups {
					w.Snapshot.Groups[i].Group.SuspendedProcesses = []string{processLaunch}
				}
			}).withGroup("general", func(g *inventory.NodeGroup) { g.SuspendedProcesses = append(g.SuspendedProcesses, processLaunch) }),
			want: backwards(stoppedPools),
		},
		"ReturnsDuringStart": {
			reason: "sizes are Cluster Autoscaler's own once it was asked to run",
			world:  aWorld().leading().withGroup("general", func(g *inventory.NodeGroup) { g.Desired = 7 }), want: backwards(allResume),
		},
	})
}

func TestStartingClusterAutoscaler(t *testing.T) {
	start := closed(operation("StartAutoscaler/kube-system/cluster-autoscaler", "1", time.Minute))
	twice := reopenedAs(start, mostStops)
	waits := func(d time.Duration) migrationOf {
		m := aMigration().ledger(start)
		m.m.Status.Blockers = []v1alpha1.Blocker{{Severity: v1alpha1.SeverityWait, Reason: "AutoscalerStarting", Object: caObject, Since: stamp(noon.Add(-d))}}
		return m
	}
	down := func(a *inventory.Autoscaler) { a.Replicas, a.StatusReplicas, a.Pods, a.LeaseHolder = 0, 0, 0, "" }
	wait := "Wait AutoscalerStarting " + caObject
	runBack(t, map[string]step{
		"StaleStatus": {
			reason: "a status that nobody writes any more proves nothing",
			world:  aWorld().leading().withAutoscaler(func(a *inventory.Autoscaler) { a.StatusTime = noon.Add(-statusFresh - time.Second) }),
			want:   backwards(nil, wait), says: "its Lease is held by cluster-autoscaler-1",
		},
		"GroupNotListed": {
			reason: "a group that it does not list it does not scale",
			world:  aWorld().leading().withAutoscaler(func(a *inventory.Autoscaler) { a.Groups = []string{"general"} }), want: backwards(nil, wait),
		},
		"NoStatus": {
			reason: "one that writes no status is taken at its Lease's word, after a while", migration: waits(wordPatience),
			world: aWorld().leading().withAutoscaler(func(a *inventory.Autoscaler) { a.StatusTime = time.Time{} }), want: backwards(allResume),
		},
		"NoStatusYet": {
			reason: "not at once", migration: waits(wordPatience - time.Second),
			world: aWorld().leading().withAutoscaler(func(a *inventory.Autoscaler) { a.StatusTime = time.Time{} }), want: backwards(nil, wait),
		},
		"NoElection": {
			reason: "without an election a pod that runs leads",
			world:  aWorld().leading().withAutoscaler(func(a *inventory.Autoscaler) { a.LeaderElect, a.LeaseHolder = false, "" }), want: backwards(allResume),
		},
		"NoPod": {
			reason: "a Deployment without a pod serves nobody",
			world:  aWorld().leading().withAutoscaler(func(a *inventory.Autoscaler) { a.Pods = 0 }), want: backwards(nil, wait),
		},
		"Standby": {
			reason: "one that runs as a standby gets its Lease", world: aWorld().leading().withAutoscaler(func(a *inventory.Autoscaler) { a.LeaseHolder = v1alpha1.LeaseIdentity }),
			want: backwards([]string{letsGo}, wait),
		},
		"LostStart": {
			reason: "a start that was lost is asked for again", migration: aMigration().ledger(operation("StartAutoscaler/kube-system/cluster-autoscaler", "1", patience)),
			world: aWorld().halted().withAutoscaler(down), want: backwards([]string{starts}, wait),
		},
		"StoppedOnce": {
			reason: "one that somebody stopped is started once more", migration: aMigration().ledger(start), world: aWorld().halted().withAutoscaler(down), want: backwards([]string{starts}, wait),
		},
		"StoppedAgain": {
			reason: "and no third time: castoff does not fight, and says who does it", migration: aMigration().ledger(twice),
			world: aWorld().halted().withAutoscaler(down).withAutoscaler(func(a *inventory.Autoscaler) { a.Owner = "Argo CD application ca" }),
			want:  backwards(nil, "Block AutoscalerStoppedAgain "+caObject), says: "scaled to 0 again by Argo CD application ca",
		},
		"StoppedByTheUser": {
			reason: "once Karpenter has left, a Cluster Autoscaler that is stopped is the user's own doing", migration: aMigration().ledger(start),
			world: aWorld().removed().held().withAutoscaler(down).unmarked(), want: decided{phase: v1alpha1.PhaseRolledBack},
		},
		"YoungStart": {
			reason: "one that was started a moment ago is seen to lead, even if no NodePool is left", migration: aMigration().ledger(start),
			world: aWorld().removed().withAutoscaler(func(a *inventory.Autoscaler) { a.LeaseHolder = "" }), want: backwards(nil, wait),
		},
		"OldStart": {
			reason: "but whether it leads is its own affair in the end", migration: aMigration().ledger(closed(operation("StartAutoscaler/kube-system/cluster-autoscaler", "1", startPatience))),
			world: aWorld().rolledBack().withAutoscaler(func(a *inventory.Autoscaler) { a.LeaseHolder = "" }), want: decided{phase: v1alpha1.PhaseRolledBack},
		},
		"NeverRan": {
			reason: "one that stood at 0 when the snapshot was taken stays there; its Lease is let go all the same",
			world:  aWorld().halted().with(func(w *World) { w.Snapshot.Autoscalers[0].Replicas = 0 }), want: backwards([]string{letsGo}),
		},
		"CameSince": {
			reason: "one that is not in the snapshot is not castoff's to start; its Lease is let go",
			world: aWorld().leading().with(func(w *World) {
				other := anAutoscaler("other")
				other.Replicas, other.Pods, other.StatusReplicas, other.LeaseHolder = 0, 0, 0, v1alpha1.LeaseIdentity
				w.Autoscalers = append(w.Autoscalers, other)
			}),
			want: backwards([]string{"LetGoLease kube-system/other"}),
		},
	})
}

// unmarked: the last marks are off the nodes.
func (s *scene) unmarked() *scene {
	for i := range s.w.Nodes {
		unmarkIt(&s.w.Nodes[i])
	}
	return s
}

func TestDrainingKarpentersNodes(t *testing.T) {
	one, two := "node-of-general-claim1", "node-of-general-claim2"
	budget := inventory.BlockedPod{Reason: inventory.BlockedByPDB}
	runBack(t, map[string]step{
		"Passes": {
			reason: "a drain that has begun goes on, and says what holds it", world: aWorld().cordoned().draining(one, 2, budget),
			want: backwards([]string{"EvictPods " + one + " general"}, "Wait Draining node/"+one, "Wait "+string(inventory.BlockedByPDB)+" pod//"),
		},
		"NotLooked": {
			reason: "nobody looked at its pods: that is not to have none",
			world:  aWorld().cordoned().draining(one, 0).with(func(w *World) { delete(w.Drains, "node-of-general-claim1") }),
			want:   backwards([]string{"EvictPods " + one + " general"}, "Wait Draining node/"+one),
		},
		"Empty": {reason: "an empty node ends, and the next one may begin", world: aWorld().cordoned().draining(one, 0), want: backwards([]string{"EndNodeClaim general-claim1"})},
		"Ending": {
			reason: "it is ending; meanwhile it is in flight", world: aWorld().cordoned().draining(one, 0).with(func(w *World) { w.Engine.NodeClaims[0].Deleting = true }),
			want: backwards(nil, "Wait NodeClaimEnding nodeclaim/general-claim1"),
		},
		"MoreRoom": {
			reason: "as many at a time as the user allows", migration: aMigration().maxUnavailable("100%"), world: aWorld().cordoned(),
			want: backwards([]string{"BeginDrain " + one, "BeginDrain " + two}),
		},
		"Homeless": {
			reason: "pods without a node come first: Cluster Autoscaler is bringing room", world: aWorld().cordoned().with(func(w *World) { w.PendingPods = 3 }),
			want: backwards(nil, "Wait PodsPending pool/general"), says: "3 pods more than before the migration wait for a node",
		},
		"WithoutNode": {
			reason: "a NodeClaim that never became a node has no pod, and goes", world: aWorld().cordoned().claim("general"),
			want: backwards([]string{"EndNodeClaim general-claim6", "BeginDrain " + one, "BeginDrain " + two}[:2]),
		},
		"LateNode": {
			reason: "one that registered late is cordoned before anything else is drained",
			world:  aWorld().cordoned().draining(one, 2).withNode(two, func(n *inventory.Node) { n.Unschedulable = false }),
			want:   backwards([]string{"CordonNode " + two}),
		},
		"EngineIsDown": {
			reason: "only Karpenter can end its nodes: evicting for it would be in vain",
			world:  aWorld().cordoned().with(func(w *World) { w.Engine.ReadyReplicas, w.Engine.DeploymentMessage = 0, "CrashLoopBackOff" }),
			want:   backwards(nil, "Wait EngineNotReady deployment/karpenter"), says: "CrashLoopBackOff",
		},
		"OnePoolAtATime": {
			reason: "one pool after the other", world: aWorld().cordoned().claim("batch").registered(), want: backwards([]string{"BeginDrain " + one}),
		},
		"NextPool": {
			reason: "the first pool is empty", world: aWorld().vacated().claim("batch").registered(), want: backwards([]string{"CordonNode node-of-batch-claim6"}),
		},
		"NodeWithoutClaim": {
			reason: "a NodePool is not deleted under a node that is on its way out", world: aWorld().cordoned().with(func(w *World) { w.Engine.NodeClaims = nil }),
			want: backwards([]string{"DeleteNodePool batch"}, "Wait NodesLeaving nodepool/general"),
		},
	})
}

func TestRemovingKarpenter(t *testing.T) {
	users := func(w *World) {
		w.Engine.NodePools = append(w.Engine.NodePools, karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}})
		w.Engine.NodeClasses = append(w.Engine.NodeClasses, aTarget("mine").NodeClass)
		w.Engine.NodeClasses[len(w.Engine.NodeClasses)-1].Labels = nil
	}
	before := func(change func(*inventory.Before)) func(*World) {
		return func(w *World) { change(&w.Snapshot.Before) }
	}
	unmark := []string{"UnmarkNode batch-0", "UnmarkNode batch-1", "UnmarkNode general-new3", "UnmarkNode general-new4", "UnmarkNode general-new5"}
	runBack(t, map[string]step{
		"ClassesEnding": {
			reason: "Karpenter finalizes its classes; it has to be there for that",
			world: aWorld().unserved().with(func(w *World) {
				for i := range w.Engine.NodeClasses {
					w.Engine.NodeClasses[i].DeletionTimestamp = stamp(noon)
				}
			}),
			want: backwards(nil, "Wait NodeClassEnding ec2nodeclass/general", "Wait NodeClassEnding ec2nodeclass/batch"),
		},
		"ClassesWithoutEngine": {
			reason: "an engine that never ran may be why the user goes back; only it can finalize, and what to do is said",
			world:  aWorld().unserved().with(func(w *World) { w.Engine.ReadyReplicas, w.Engine.DeploymentMessage = 0, "CrashLoopBackOff" }),
			want:   backwards([]string{"DeleteNodeClass general", "DeleteNodeClass batch"}, "Wait NodeClassEnding ec2nodeclass/general", "Wait NodeClassEnding ec2nodeclass/batch"),
			says:   "take the finalizer karpenter.k8s.aws/termination off the class. CrashLoopBackOff",
		},
		"UsersWithoutEnd": {
			reason: "a Karpenter that was there before stays anyway: there is nothing to say of its users",
			world:  aWorld().declassed().with(users).with(before(func(b *inventory.Before) { b.Release, b.CRDs, b.Interruption, b.Identity = true, true, true, true })),
			want:   backwards(unmark),
		},
		"UsersStay": {
			reason: "whoever uses Karpenter keeps it, with its queue and roles; castoff's marks go all the same", world: aWorld().declassed().with(users),
			want: backwards(unmark, "Warn KarpenterInUse release/karpenter"), says: "NodePool theirs, EC2NodeClass mine",
		},
		"RoleInUse": {
			reason: "a class of somebody else's whose nodes have castoff's role keeps the identities, and is named; the queue that castoff made goes",
			world: aWorld().declassed().with(users).with(func(w *World) {
				w.Engine.NodeClasses[0].Spec.Role, w.Identity.NodeRole = "nodes", "nodes"
			}).with(before(func(b *inventory.Before) { b.Release, b.CRDs = true, true })),
			want: backwards([]string{"RemoveInterruption interruption"}, "Wait InterruptionEnding queue/test", "Warn KarpenterInUse role/nodes"), says: "EC2NodeClass mine",
		},
		"CanaryIsNobody": {
			reason: "the canary's NodePool is no user",
			world: aWorld().declassed().with(func(w *World) {
				w.Engine.NodePools = []karpv1.NodePool{{ObjectMeta: metav1.ObjectMeta{Name: "canary", Labels: map[string]string{v1alpha1.LabelCanary: "general"}}}}
			}),
			want: backwards([]string{"UninstallEngine engine"}, "Wait ReleaseEnding release/karpenter"),
		},
		"OrphanedClaims": {
			reason: "nobody would end their instances without the engine", world: aWorld().declassed().claim("general"),
			want: backwards(nil, "Wait NodesLeaving nodeclaims"), says: "1 NodeClaims without a NodePool are left",
		},
		"CRDs": {
			reason: "the definitions go after the release", world: aWorld().declassed().with(func(w *World) { w.Engine.Release = inventory.ReleaseMissing }),
			want: backwards([]string{"RemoveCRDs engine"}, "Wait CRDsEnding customresourcedefinition"),
		},
		"BrokenRelease": {
			reason: "a release that failed goes too", world: aWorld().declassed().with(func(w *World) { w.Engine.Release = inventory.ReleaseFailed }),
			want: backwards([]string{"UninstallEngine engine"}, "Wait ReleaseEnding release/karpenter"),
		},
		"ForeignRelease": {
			reason: "somebody else's does not", world: aWorld().declassed().with(func(w *World) { w.Engine.Release, w.Engine.CRDs = inventory.ReleaseForeign, false }),
			want: backwards([]string{"RemoveInterruption interruption", "RemoveIdentity identity"}, "Wait InterruptionEnding queue/test", "Wait IdentityEnding role/nodes"),
		},
		"ReleaseBefore": {
			reason: "what was there before stays", world: aWorld().declassed().with(before(func(b *inventory.Before) { b.Release, b.CRDs = true, true })),
			want: backwards([]string{"RemoveInterruption interruption", "RemoveIdentity identity"}, "Wait InterruptionEnding queue/test", "Wait IdentityEnding role/nodes"),
		},
		"CRDsBefore": {
			reason: "each thing on its own", world: aWorld().uninstalled().with(before(func(b *inventory.Before) { b.CRDs, b.Identity = true, true })).with(func(w *World) { w.Engine.CRDs = true }),
			want: backwards([]string{"RemoveInterruption interruption"}, "Wait InterruptionEnding queue/test"),
		},
		"QueueBefore": {
			reason: "a queue that was there stays", world: aWorld().uninstalled().with(before(func(b *inventory.Before) { b.Interruption = true })),
			want: backwards([]string{"RemoveIdentity identity"}, "Wait IdentityEnding role/nodes"),
		},
		"EverythingBefore": {
			reason: "nothing of it was castoff's", world: aWorld().declassed().with(func(w *World) {
				w.Snapshot.Before = inventory.Before{Release: true, CRDs: true, Interruption: true, Identity: true}
			}),
			want: backwards(unmark),
		},
		"AdoptedOnly": {
			reason: "what castoff did not make is not in Made, and stays",
			world:  aWorld().uninstalled().with(func(w *World) { w.Interruption.Made, w.Identity.Made = nil, nil }), want: backwards(unmark),
		},
	})
}

func TestStandingIn(t *testing.T) {
	dedicated := corev1.Taint{Key: "dedicated", Effect: corev1.TaintEffectNoSchedule}
	arrived := func(names ...string) *scene { // general's nodes came back under these names, in zones b, c, a
		s := aWorld().sized()
		for range names {
			s.launch(s.group("general"))
		}
		for i, name := range names {
			n := &s.w.Nodes[len(s.w.Nodes)-len(names)+i]
			n.Name, n.Ready = name, true
		}
		return s
	}
	zone := func(s *scene, name, zone string) *scene {
		return s.withNode(name, func(n *inventory.Node) { n.Zone = zone })
	}
	waits := "Wait NodesReturning nodegroup/general"
	runBack(t, map[string]step{
		"SameZone": {
			reason: "a node stands for one of its own zone, whatever their order", world: zone(zone(zone(arrived("x", "y", "z"), "x", "c"), "y", "a"), "z", "b"),
			want: backwards([]string{"RestoreNode x general as general-2", "RestoreNode y general as general-0", "RestoreNode z general as general-1"}),
		},
		"OtherZone": {
			reason: "where its zone had none, for any that is left", world: zone(zone(arrived("x", "y"), "x", "d"), "y", "d"),
			want: backwards([]string{"RestoreNode x general as general-0", "RestoreNode y general as general-1"}),
		},
		"MoreThanBefore": {
			reason: "one that stands for nobody is held", world: zone(zone(zone(zone(arrived("w", "x", "y", "z"), "w", "a"), "x", "b"), "y", "c"), "z", "a"),
			want: backwards([]string{"RestoreNode w general as general-0", "RestoreNode x general as general-1", "RestoreNode y general as general-2", "HoldNode z general"}),
		},
		"NameComesBack": {
			reason: "a name is made of an address and comes back with it: the node is another one, and so is Karpenter's of that name",
			world: zone(arrived("general-1"), "general-1", "b").with(func(w *World) {
				w.Nodes = append(w.Nodes, inventory.Node{Name: "general-0", InstanceID: "i-k", Zone: "a", Ready: true})
			}),
			want: backwards([]string{"RestoreNode general-1 general as general-1"}),
		},
		"NameAlone": {
			reason: "where the instance is not known the name has to do", world: zone(arrived("general-1"), "general-1", "b").withNode("general-1", func(n *inventory.Node) { n.InstanceID = "" }),
			want: backwards([]string{"HoldNode general-1 general"}),
		},
		"StoodFor": {
			reason: "a recorded node is stood for once", world: zone(zone(arrived("x", "y"), "x", "a"), "y", "a").withNode("x", func(n *inventory.Node) {
				restoreIt(n, RestoreNode{Pool: "general", From: inventory.NodeSnapshot{Name: "general-0"}})
			}),
			want: backwards([]string{"RestoreNode y general as general-1"}),
		},
		"RestoredOnce": {
			reason: "a node whose hold somebody took off is held again, and not restored again: that would do nothing, for ever",
			world: zone(arrived("x"), "x", "a").withNode("x", func(n *inventory.Node) {
				restoreIt(n, RestoreNode{Pool: "general", From: inventory.NodeSnapshot{Name: "general-0"}})
				delete(n.Annotations, v1alpha1.AnnotationScaleDownDisabled)
			}),
			want: backwards([]string{"HoldNode x general"}),
		},
		"NotReady": {
			reason: "what a node will be is known when it is Ready", world: arrived("x").withNode("x", func(n *inventory.Node) { n.Ready = false }),
			want: backwards(nil, waits),
		},
		"UsersWord": {
			reason: "a user's own word on the node's removal counts as a hold, and stays", world: arrived("general-1").withNode("general-1", func(n *inventory.Node) {
				n.Annotations[v1alpha1.AnnotationLegacy], n.Annotations[v1alpha1.AnnotationScaleDownDisabled] = "general", "false"
			}),
			want: backwards(nil, waits),
		},
		"UsersWordUnmarked": {
			reason: "but the node is marked", world: arrived("general-1").withNode("general-1", func(n *inventory.Node) {
				n.Annotations[v1alpha1.AnnotationScaleDownDisabled] = "true"
			}),
			want: backwards([]string{"RestoreNode general-1 general as general-0"}),
		},
	})
	d := Next(aMigration().rollBack().build(), zone(arrived("x"), "x", "b").with(func(w *World) {
		w.Snapshot.Groups[0].Nodes[1].Taints, w.Snapshot.Groups[0].Nodes[1].Unschedulable = []corev1.Taint{dedicated}, true
	}).build(), noon)
	if from := d.Actions[0].(RestoreNode).From; from.Name != "general-1" || !from.Unschedulable || !slices.Equal(from.Taints, []corev1.Taint{dedicated}) {
		t.Errorf("a node that came back gets what the recorded one had: %+v", from)
	}
}

func TestGoneForGood(t *testing.T) {
	runBack(t, map[string]step{
		"Group": {
			reason: "castoff cannot make a group again, and does not begin what it cannot end", world: aWorld().completed().with(func(w *World) { w.Groups = w.Groups[1:] }),
			want: backwards(nil, "Block RollbackUnavailable migration/prod"), says: "node group general",
		},
		"Autoscaler": {
			reason: "nor a Deployment", world: aWorld().shifting().with(func(w *World) { w.Autoscalers = nil }),
			want: backwards(nil, "Block RollbackUnavailable migration/prod"), says: "Cluster Autoscaler kube-system/cluster-autoscaler",
		},
		"AutoscalerAtZero": {
			reason: "one that scaled nothing is not missed",
			world:  aWorld().halfway().with(func(w *World) { w.Autoscalers, w.Snapshot.Autoscalers[0].Replicas = nil, 0 }),
			want:   backwards([]string{stillPools[0], stillPools[1], "ReleaseNode batch-0", "ReleaseNode batch-1"}),
		},
	})
	if got := goneForGood(newLook(aMigration().m, aWorld().build(), noon)); got != nil {
		t.Errorf("without a snapshot nothing is missed: %v", got)
	}
	d := Next(aMigration().rollBack().build(), aWorld().completed().with(func(w *World) { w.Groups = w.Groups[1:] }).build(), noon)
	if got := d.Until.Sub(noon); got != atRest {
		t.Errorf("a human has to make it again, and takes longer: looks again after %s", got)
	}
}

func TestRestoringWhatWasQuieted(t *testing.T) {
	past, future := noon.Add(-time.Hour), noon.Add(time.Hour)
	group := func(change func(recorded, now *inventory.NodeGroup)) *scene {
		s := aWorld().leading().with(func(w *World) {
			for i := range w.Groups {
				if w.Groups[i].Name != "system" {
					w.Groups[i].SuspendedProcesses = nil
				}
			}
		})
		change(&s.w.Snapshot.Groups[0].Group, s.group("general"))
		return s
	}
	schedules := func(had ...inventory.ScheduledAction) *scene {
		return group(func(recorded, _ *inventory.NodeGroup) { recorded.ScheduledActions = had })
	}
	cordon := []string{"CordonNode node-of-general-claim1", "CordonNode node-of-general-claim2"}
	foreign := "Warn ForeignSize nodegroup/general"
	runBack(t, map[string]step{
		"Rebalance": {reason: "on again", world: group(func(r, _ *inventory.NodeGroup) { r.CapacityRebalance = true }), want: backwards([]string{"SetRebalance general true"})},
		"RebalanceIsTheirs": {
			reason: "one that the user turned on is left", world: group(func(_, g *inventory.NodeGroup) { g.CapacityRebalance = true }), want: backwards(cordon),
		},
		"Lifetime": {reason: "as long as it was", world: group(func(r, _ *inventory.NodeGroup) { r.MaxInstanceLifetime = 86400 }), want: backwards([]string{"SetLifetime general 86400"})},
		"LifetimeIsTheirs": {
			reason: "one that somebody set since is reported and left",
			world:  group(func(r, g *inventory.NodeGroup) { r.MaxInstanceLifetime, g.MaxInstanceLifetime = 86400, 172800 }),
			want:   backwards(cordon, foreign), says: "its maximum instance lifetime is 172800 s",
		},
		"LifetimeAccepted": {
			reason: "a user who accepts it has castoff set it", migration: aMigration().accepts(CheckForeignSize, "nodegroup/general"),
			world: group(func(r, g *inventory.NodeGroup) { r.MaxInstanceLifetime, g.MaxInstanceLifetime = 86400, 172800 }),
			want:  backwards([]string{"SetLifetime general 86400"}),
		},
		"ArgumentsAreTheirs": {
			reason: "what somebody changed of Cluster Autoscaler's arguments since is reported and left",
			world:  group(func(_, _ *inventory.NodeGroup) {}).withAutoscaler(func(a *inventory.Autoscaler) { a.Args = []string{"--v=9"} }),
			want:   backwards(cordon, "Warn AutoscalerChanged "+caObject),
		},
		"Policy": {
			reason: "those that acted act again", world: group(func(r, g *inventory.NodeGroup) {
				r.ScalingPolicies = []inventory.ScalingPolicy{{Name: "cpu", Active: true}, {Name: "off"}}
				g.ScalingPolicies = []inventory.ScalingPolicy{{Name: "cpu"}, {Name: "off"}, {Name: "new"}}
			}),
			want: backwards([]string{"EnablePolicies general cpu"}),
		},
		"PolicyIsGone": {
			reason: "one that somebody deleted is reported, and not made again", world: group(func(r, _ *inventory.NodeGroup) {
				r.ScalingPolicies = []inventory.ScalingPolicy{{Name: "cpu", Active: true}}
			}),
			want: backwards(cordon, foreign), says: "its scaling policy cpu was deleted",
		},
		"Recurring": {reason: "one that comes again is made again", world: schedules(inventory.ScheduledAction{Name: "night", Recurrence: "0 22 * * *", Start: &past}), want: backwards([]string{"PutScheduledActions general night"})},
		"ToCome":    {reason: "so is one whose time is to come", world: schedules(inventory.ScheduledAction{Name: "launch", Start: &future, End: &future}), want: backwards([]string{"PutScheduledActions general launch"})},
		"Passed": {
			reason: "one whose moment has passed is not: AWS refuses it, and it would act at once", world: schedules(inventory.ScheduledAction{Name: "launch", Start: &past}),
			want: backwards(cordon, "Warn ScheduleOver nodegroup/general"), says: "The time of the scheduled action launch has passed",
		},
		"Ended": {
			reason: "nor one that has ended", world: schedules(inventory.ScheduledAction{Name: "sale", Recurrence: "0 8 * * *", End: &past}),
			want: backwards(cordon, "Warn ScheduleOver nodegroup/general"),
		},
		"ScheduleIsThere": {
			reason: "one of that name is somebody's edit, and is left",
			world: group(func(r, g *inventory.NodeGroup) {
				r.ScheduledActions = []inventory.ScheduledAction{{Name: "night", Recurrence: "0 22 * * *"}}
				g.ScheduledActions = []inventory.ScheduledAction{{Name: "night", Recurrence: "0 23 * * *"}}
			}),
			want: backwards(cordon),
		},
		"Late": {
			reason: "a group that came to the pool after the snapshot has nothing to go back to",
			world:  group(func(r, _ *inventory.NodeGroup) { r.Name = "another" }).with(func(w *World) { w.Groups = append(w.Groups, inventory.NodeGroup{Name: "another"}) }),
			want:   backwards(cordon),
		},
	})
}

// TestMarkedNodesAreReplaced: a pool whose marked nodes are all gone has policies to enable all the same.
func TestMarkedNodesAreReplaced(t *testing.T) {
	s := aWorld().scaled("general", "cpu", "night").rolledBack()
	s.group("general").ScalingPolicies[0].Active = false
	if got := told(Next(aMigration().rollBack().build(), s.build(), noon).Actions); !slices.Equal(got, []string{"EnablePolicies general cpu"}) {
		t.Errorf("before it was ever rolled back it asks for %v, want the policy", got)
	}
}

// TestAtRestTheUserIsFree: what somebody changes once a migration was rolled back is theirs. castoff does not fight over it.
func TestAtRestTheUserIsFree(t *testing.T) {
	changes := map[string]func(*inventory.NodeGroup){
		"Policy":    func(g *inventory.NodeGroup) { g.ScalingPolicies[0].Active = false },
		"Schedule":  func(g *inventory.NodeGroup) { g.ScheduledActions = nil },
		"Processes": func(g *inventory.NodeGroup) { g.SuspendedProcesses = slices.Clone(quietProcesses) },
		"Sizes":     func(g *inventory.NodeGroup) { g.Min, g.Max, g.Desired = 0, 20, 7 },
		"Lifetime":  func(g *inventory.NodeGroup) { g.MaxInstanceLifetime = 0 },
		"Rebalance": func(g *inventory.NodeGroup) { g.CapacityRebalance = false },
	}
	for name, change := range changes {
		s := aWorld().withGroup("general", func(g *inventory.NodeGroup) { g.CapacityRebalance, g.MaxInstanceLifetime = true, 86400 }).scaled("general", "cpu", "night").rolledBack()
		change(s.group("general"))
		ledger := aMigration().rollBack().ledger(closed(operation("SuspendProcesses/general", allQuiet, time.Hour)), closed(operation("StartAutoscaler/kube-system/cluster-autoscaler", "1", time.Hour)))
		ended := ledger.build()
		ended.Status.CompletionTime = stamp(noon.Add(-time.Hour))
		if d := Next(ended, s.build(), noon); len(d.Actions) > 0 || d.Phase != v1alpha1.PhaseRolledBack || !d.Rested {
			t.Errorf("%s: %s, and asks for %v", name, d.Phase, told(d.Actions))
		}
		settled := aMigration().paused().build()
		if d := Next(settled, s.build(), noon); len(d.Actions) > 0 || !d.Rested {
			t.Errorf("%s, settled before a hand-over: asks for %v", name, told(d.Actions))
		}
	}
}
