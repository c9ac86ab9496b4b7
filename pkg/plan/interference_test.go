package plan

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

const general = "nodegroup/general"

// setBack is the ledger after castoff asked for an effect so often; the last one was seen a minute ago.
func setBack(id, detail string, attempts int32) migrationOf {
	return aMigration().ledger(reopenedAs(closed(operation(id, detail, time.Minute)), attempts))
}

// middle is a world in the middle of Shifting: general-0 is being drained, and castoff would go on evicting.
func middle() *scene { return aWorld().shifting().draining("general-0", 2) }

func resumed(process string) *scene {
	return middle().withGroup("general", func(g *inventory.NodeGroup) {
		g.SuspendedProcesses = slices.DeleteFunc(slices.Clone(g.SuspendedProcesses), func(p string) bool { return p == process })
	})
}

// TestSetBack: whatever somebody sets back is set right, three times and no more, and nothing is evicted beside it.
func TestSetBack(t *testing.T) {
	const suspends, block, warn = "SuspendProcesses/general", "Block SetBack " + general, "Warn SetBack " + general
	rebalances := middle().withGroup("general", func(g *inventory.NodeGroup) { g.CapacityRebalance = true })
	terraform := func(g *inventory.NodeGroup) {
		g.Min, g.Tags = 1, append(g.Tags, inventory.Tag{Key: "managed-by", Value: "terraform"})
	}
	run(t, map[string]step{
		"First": {
			reason: "a process is resumed: it is suspended again before the next eviction, and said with the count", migration: setBack(suspends, allQuiet, 1),
			world: resumed("AZRebalance"), want: shifts([]string{"SuspendProcesses general AZRebalance"}, warn), says: "resumed processes of the group that castoff had suspended: AZRebalance. castoff sets it right, time 1 of 3",
		},
		"Third": {
			reason: "and a third time", migration: setBack(suspends, "AZRebalance", 3),
			world: resumed("ReplaceUnhealthy"), want: shifts([]string{"SuspendProcesses general ReplaceUnhealthy"}, warn), says: "time 3 of 3",
		},
		"Fourth": {
			reason: "a fourth would be a fight: it is named with what to do, and nothing is evicted", migration: setBack(suspends, "AZRebalance", 4),
			world: resumed("InstanceRefresh"), want: shifts(nil, block), says: "aws autoscaling suspend-processes --auto-scaling-group-name general --scaling-processes InstanceRefresh",
		},
		"OtherGroup": {
			reason: "each group has its own count", migration: setBack("SuspendProcesses/eks-batch", "AZRebalance", 4),
			world: resumed("AZRebalance"), want: shifts([]string{"SuspendProcesses general AZRebalance"}, warn), says: "time 1 of 3",
		},
		"SetRightBySomebody": {
			reason: "it goes on by itself as soon as it is right, whoever did that", migration: setBack(suspends, "AZRebalance", 4),
			world: middle(), want: shifts([]string{"EvictPods general-0 general", "BeginDrain general-1"}, "Wait Draining node/general-0"),
		},
		"AnHourLater": {
			reason: "what is set back once a day is no fight", migration: aMigration().ledger(reopenedAs(closed(operation(suspends, allQuiet, fightWindow+time.Second)), 4)),
			world: resumed("AZRebalance"), want: shifts([]string{"SuspendProcesses general AZRebalance"}, warn), says: "time 1 of 3",
		},
		"LostCall": {
			reason: "a call whose effect was never seen, once, is no doing of anybody's", migration: aMigration().ledger(operation(suspends, allQuiet, time.Minute)),
			world: resumed("AZRebalance"), want: shifts([]string{"SuspendProcesses general AZRebalance"}),
		},
		"Unseen": {
			reason: "who sets it back before it can be seen is no better", migration: aMigration().ledger(reopenedAs(operation(suspends, allQuiet, time.Minute), 4)),
			world: resumed("AZRebalance"), want: shifts(nil, block),
		},
		"UnseenTwice": {
			reason: "and is told from the second time on", migration: aMigration().ledger(reopenedAs(operation(suspends, allQuiet, time.Minute), 2)),
			world: resumed("AZRebalance"), want: shifts([]string{"SuspendProcesses general AZRebalance"}, warn), says: "time 2 of 3",
		},
		"Failed": {
			reason: "a call that failed is no doing of anybody's, however often", migration: aMigration().ledger(reopenedAs(failed(operation(suspends, allQuiet, time.Minute)), 4)),
			world: resumed("AZRebalance"), want: shifts([]string{"SuspendProcesses general AZRebalance"}, warn),
		},
		"Launch": {
			reason: "Launch is counted for itself", migration: setBack("SuspendLaunch/general", processLaunch, 4),
			world: resumed(processLaunch), want: shifts(nil, block), says: "--scaling-processes Launch",
		},
		"Rebalance": {
			reason: "Capacity Rebalancing put back on", migration: setBack("SetRebalance/general", "false", 1),
			world: rebalances, want: shifts([]string{"SetRebalance general false"}, warn), says: "switched the group's Capacity Rebalancing",
		},
		"RebalanceFirst": {
			reason: "nor was it castoff that had switched it off: it is named all the same", world: rebalances,
			want: shifts([]string{"SetRebalance general false"}, warn), says: "time 1 of 3",
		},
		"RebalanceAgain": {
			reason: "again and again", migration: setBack("SetRebalance/general", "false", 4), world: rebalances, want: shifts(nil, block), says: "--no-capacity-rebalance",
		},
		"LifetimeAgain": {
			reason: "a maximum lifetime ends instances undrained", migration: setBack("SetLifetime/general", "0", 4),
			world: middle().withGroup("general", func(g *inventory.NodeGroup) { g.MaxInstanceLifetime = 86400 }), want: shifts(nil, block), says: "--max-instance-lifetime 0",
		},
		"SizesAgain": {
			reason: "a tool that applies the recorded sizes again and again is named", migration: setBack("SetGroupSize/general", "0/10/2", 4),
			world: middle().withGroup("general", terraform), want: shifts(nil, block), says: "Somebody (Terraform keeps this group) set the group's sizes",
		},
		"SizesOnce": {
			reason: "once, it is undone: desired follows the instances, so it does not tell one from another", migration: setBack("SetGroupSize/general", "0/10/2", 1),
			world: middle().withGroup("general", terraform), want: shifts([]string{"SetGroupSize general 0/10/3"}, warn),
		},
		"EmptyGroup": {
			reason: "what is set back on an empty group harms nobody: it is left in the end, and does not hold the others", migration: setBack(suspends, "AZRebalance", 4).soak(0),
			world: aWorld().shifting().finished("general").draining("batch-0", 1).withGroup("general", func(g *inventory.NodeGroup) { g.SuspendedProcesses = nil }),
			want:  shifts([]string{"EvictPods batch-0 batch"}, warn, "Wait Draining node/batch-0"), says: "leaves it now: it can do no harm there",
		},
	})
}

// TestSetBackPolicies: recorded policies and schedules that somebody brings back are idle once their process is suspended.
func TestSetBackPolicies(t *testing.T) {
	goesOn := []string{"EvictPods general-0 general", "BeginDrain general-1"}
	policy := func() *scene {
		return aWorld().scaled("general", "cpu", "night").shifting().draining("general-0", 2).withGroup("general", func(g *inventory.NodeGroup) {
			g.ScalingPolicies = []inventory.ScalingPolicy{{Name: "cpu", Active: true}}
		})
	}
	schedule := func() *scene {
		return aWorld().scaled("general", "cpu", "night").shifting().draining("general-0", 2).withGroup("general", func(g *inventory.NodeGroup) {
			g.ScheduledActions = []inventory.ScheduledAction{{Name: "night"}}
		})
	}
	const warn = "Warn SetBack " + general
	run(t, map[string]step{
		"Policy": {
			reason: "it is disabled again", migration: setBack("DisablePolicies/general", "cpu", 1), world: policy(),
			want: shifts([]string{"DisablePolicies general cpu"}, warn), says: "enabled scaling policies of the group that castoff had disabled: cpu",
		},
		"PolicyAgain": {
			reason: "and left in the end: its process is suspended", migration: setBack("DisablePolicies/general", "cpu", 4), world: policy(),
			want: shifts(goesOn, warn, "Wait Draining node/general-0"), says: "can do no harm there",
		},
		"Schedule": {
			reason: "it is deleted again", migration: setBack("DeleteScheduledActions/general", "night", 1), world: schedule(),
			want: shifts([]string{"DeleteScheduledActions general night"}, warn),
		},
		"ScheduleAgain": {
			reason: "and left in the end", migration: setBack("DeleteScheduledActions/general", "night", 4), world: schedule(),
			want: shifts(goesOn, warn, "Wait Draining node/general-0"),
		},
		"BeforeTheHandOver": {
			reason: "before its process is suspended it acts, so it is not left", migration: setBack("DisablePolicies/general", "cpu", 4),
			world: aWorld().scaled("general", "cpu", "night").engineInstalled().withGroup("general", func(g *inventory.NodeGroup) {
				g.ScalingPolicies = []inventory.ScalingPolicy{{Name: "cpu", Active: true}}
			}),
			want: decided{phase: v1alpha1.PhaseInstalling, blockers: []string{"Block SetBack " + general}},
		},
		"NewPolicy": {
			reason: "one that is new is named, and idle: the drain goes on", world: middle().withGroup("general", func(g *inventory.NodeGroup) {
				g.ScalingPolicies = []inventory.ScalingPolicy{{Name: "somebodys", Active: true}}
			}),
			want: shifts(goesOn, "Warn ForeignScaling "+general, "Wait Draining node/general-0"), says: "scaling policy somebodys",
		},
		"NewSchedule": {
			reason: "so is a scheduled action", world: middle().withGroup("general", func(g *inventory.NodeGroup) {
				g.ScheduledActions = []inventory.ScheduledAction{{Name: "somebodys"}}
			}),
			want: shifts(goesOn, "Warn ForeignScaling "+general, "Wait Draining node/general-0"), says: "scheduled action somebodys",
		},
	})
}

// TestOwnDoingsAreNoFight: what castoff itself turns round is not counted.
func TestOwnDoingsAreNoFight(t *testing.T) {
	for _, pair := range [][2]Ledgered{
		{SuspendProcesses{Group: "general", Processes: quietProcesses}, ResumeProcesses{Group: "general", Processes: quietProcesses}},
		{SuspendProcesses{Group: "general", Processes: []string{processLaunch}}, ResumeProcesses{Group: "general", Processes: []string{processLaunch}}},
		{SetRebalance{Group: "general"}, SetRebalance{Group: "general", On: true}},
		{SetLifetime{Group: "general"}, SetLifetime{Group: "general", Seconds: 60}},
		{DeleteScheduledActions{Group: "general", Names: []string{"night"}}, PutScheduledActions{Group: "general", Actions: []inventory.ScheduledAction{{Name: "night"}}}},
		{SetGroupSize{Group: inventory.NodeGroup{AutoScalingGroup: "general"}, Max: 10}, SetGroupSize{Group: inventory.NodeGroup{AutoScalingGroup: "general"}, Min: 1, Max: 10}},
	} {
		var l ledger
		for range 10 {
			for _, a := range pair {
				if l.fights(a, noon) || !l.admit(a, noon) {
					t.Fatalf("%s is refused after %v", tell(a), l)
				}
				for i := range l {
					l[i].DoneTime = stamp(noon)
				}
			}
		}
	}
}

// TestMendsAreCounted: whatever is set back after it was seen.
func TestMendsAreCounted(t *testing.T) {
	a := SuspendProcesses{Group: "general", Processes: quietProcesses}
	var l ledger
	for want := range int32(4) {
		if got := l.mends(a, noon); got != want {
			t.Fatalf("mends() = %d, want %d", got, want)
		}
		if l.fights(a, noon) {
			t.Fatalf("the mend %d is refused", want)
		}
		l.admit(a, noon)
		l[0].DoneTime = stamp(noon)
		a.Processes = quietProcesses[want : want+1] // another one each time
	}
	if !l.fights(a, noon) || l[0].Attempts != 4 {
		t.Errorf("a fourth mend is not refused, or not counted: %+v", l)
	}
	l = append(entries(ledgerSize, closed), l...)
	l.prune(noon)
	if l[len(l)-1].Attempts != 4 || len(l) >= ledgerSize {
		t.Errorf("what was set back is forgotten before what was not: %+v", l)
	}
}

// TestLeasesAreRenewedBesideABlock: a block may last longer than a Lease's record.
func TestLeasesAreRenewedBesideABlock(t *testing.T) {
	old := func(s *scene) *scene {
		return s.withAutoscaler(func(a *inventory.Autoscaler) { a.LeaseRenewed = noon.Add(-leaseRenewal) })
	}
	const renews = "HoldLease kube-system/cluster-autoscaler"
	run(t, map[string]step{
		"SetBack": {
			reason: "a process that somebody resumes again and again", migration: setBack("SuspendProcesses/general", "AZRebalance", 4),
			world: old(resumed("AZRebalance")), want: shifts([]string{renews}, "Block SetBack "+general),
		},
		"Engine": {
			reason: "Karpenter is not Ready", world: old(middle()).with(func(w *World) { w.Engine.ReadyReplicas = 0 }),
			want: shifts([]string{renews}, "Wait EngineNotReady deployment/karpenter"),
		},
	})
}

// opened is a world in which somebody uncordoned a node that castoff had fenced so often.
func opened(fences int) *scene {
	return middle().withNode("batch-0", func(n *inventory.Node) {
		n.Unschedulable, n.Annotations[v1alpha1.AnnotationFences] = false, strconv.Itoa(fences)
	})
}

func TestUncordoned(t *testing.T) {
	const node = "node/batch-0"
	run(t, map[string]step{
		"Once":  {reason: "it is closed again, and nothing is evicted before", world: opened(1), want: shifts([]string{"FenceNode batch-0 batch"}, "Warn NodeUncordoned "+node), says: "time 1 of 3"},
		"Third": {reason: "and again", world: opened(3), want: shifts([]string{"FenceNode batch-0 batch"}, "Warn NodeUncordoned "+node), says: "time 3 of 3"},
		"Bot": {
			reason: "a fourth time would be a fight: it is named, and nothing is evicted", world: opened(4),
			want: shifts(nil, "Block NodeUncordoned "+node), says: "kubectl cordon batch-0",
		},
		"Over": {
			reason: "it goes on by itself when the node is closed", world: opened(4).withNode("batch-0", func(n *inventory.Node) { n.Unschedulable = true }),
			want: shifts([]string{"EvictPods general-0 general", "BeginDrain general-1"}, "Wait Draining node/general-0"),
		},
	})
}

// coming is an instance of a group that is no node yet.
func coming(lifecycle string) func(*inventory.NodeGroup) {
	return func(g *inventory.NodeGroup) {
		g.Instances = append(g.Instances, inventory.Instance{ID: "i-new", Lifecycle: lifecycle, Healthy: true})
		g.Desired = int32(len(g.Instances))
	}
}

// launching lets the group launch.
func launching(g *inventory.NodeGroup) { g.SuspendedProcesses = slices.Clone(quietProcesses) }

func TestNodesThatNobodyAskedFor(t *testing.T) {
	const joining, late, batch = "Wait NodesJoining nodegroup/batch", "Warn NodesJoinedLate nodegroup/batch", "nodegroup/batch"
	goesOn := []string{"EvictPods general-0 general", "BeginDrain general-1"}
	raise := func(s *scene) *scene {
		return s.withGroup("batch", launching).withGroup("batch", func(g *inventory.NodeGroup) { g.Desired = 4 })
	}
	join := func(s *scene) *scene {
		return s.join("batch").withNode("batch-2", func(n *inventory.Node) {
			n.Annotations[v1alpha1.AnnotationLegacy], n.Created = "batch", noon.Add(-time.Second)
			fenceIt(n)
		}).withGroup("batch", func(g *inventory.NodeGroup) {
			g.Desired, g.ScalingCause = 3, "a user request update of AutoScalingGroup constraints changing the desired capacity from 2 to 3."
		})
	}
	run(t, map[string]step{
		"DesiredRaised": {reason: "nodes will come, and evicted pods could land on them", world: raise(middle()), migration: served(time.Hour), want: shifts(nil, late, joining), says: "about to get 2 nodes"},
		"DesiredRaisedWhileLaunchIsSuspended": {
			reason: "none comes, so it is named and left; at the end it is set to 0", world: middle().withGroup("batch", func(g *inventory.NodeGroup) { g.Desired = 4 }),
			want: shifts(goesOn, "Warn ForeignSize "+batch, "Wait Draining node/general-0"), says: "its desired size is 4, with 2 instances",
		},
		"NoCapacity": {
			reason: "AWS cannot launch them, so nobody waits", world: raise(middle()).withGroup("batch", func(g *inventory.NodeGroup) { g.LaunchError = "InsufficientInstanceCapacity" }),
			want: shifts(goesOn, "Wait Draining node/general-0"),
		},
		"Weighted": {
			reason: "where desired counts weights, it says nothing of instances", world: raise(middle()).withGroup("batch", func(g *inventory.NodeGroup) {
				g.MixedInstances = &inventory.MixedInstances{Overrides: []inventory.Override{{InstanceType: "m5.large", Weight: "2"}}}
			}),
			want: shifts(goesOn, "Wait Draining node/general-0"),
		},
		"Pending":  {reason: "an instance that boots, whoever replaced what", world: middle().withGroup("batch", coming("Pending")), want: shifts(nil, joining)},
		"NoNode":   {reason: "one that is in service and no node yet", world: middle().withGroup("batch", coming("InService")), want: shifts(nil, joining)},
		"Leaving":  {reason: "one that is on its way out does not come", world: middle().withGroup("batch", coming("Terminating")), want: shifts(goesOn, "Wait Draining node/general-0")},
		"Recorded": {reason: "one that never was a node, from before the migration", world: middle().withGroup("batch", coming("InService")).with(func(w *World) { w.Snapshot.Groups[1].Group.Instances = w.Groups[1].Instances }), want: shifts(goesOn, "Wait Draining node/general-0")},
		"TooLong": {
			reason: "one that does not become a node is not waited for without end", world: middle().withGroup("batch", coming("InService")),
			migration: waiting(reasonJoining, batch, joinPatience), want: shifts(goesOn, "Warn NodesJoining "+batch, "Wait Draining node/general-0"),
		},
		"Joined": {
			reason: "a node that is there and fenced holds nothing; it is named, with what AWS says of why it came", world: join(middle()), migration: served(time.Minute),
			want: shifts(goesOn, late, "Wait Draining node/general-0"), says: "Here: batch-2. They are fenced when they join, and drained like the rest. Auto Scaling says: a user request update",
		},
		"JoinedBefore": {reason: "one from before the hand-over is not late", world: join(middle()), migration: served(0), want: shifts(goesOn, "Wait Draining node/general-0")},
	})
}

// served is a migration whose pools changed hands so long ago.
func served(ago time.Duration) migrationOf {
	m := aMigration()
	m.m.Status.Waves = []v1alpha1.WaveStatus{{Name: "wave-1", Pools: []string{"general", "batch"}, ReleasedTime: stamp(noon.Add(-ago)), ServedTime: stamp(noon.Add(-ago))}}
	return m
}

// waiting is a migration whose status has had a blocker for so long.
func waiting(reason, object string, long time.Duration) migrationOf {
	m := aMigration()
	m.m.Status.Blockers = []v1alpha1.Blocker{{Severity: v1alpha1.SeverityWait, Reason: reason, Object: object, Since: stamp(noon.Add(-long))}}
	return m
}

func TestInstanceRefreshIsHeld(t *testing.T) {
	held := func(g *inventory.NodeGroup) { g.InstanceRefreshHeld = "Pending (08b91cf7)" }
	const warn, block = "Warn InstanceRefreshHeld " + general, "Block InstanceRefreshHeld " + general
	run(t, map[string]step{
		"Named": {
			reason: "it replaces nothing while its process is suspended: it is named, and not cancelled", world: middle().withGroup("general", held),
			want: shifts([]string{"EvictPods general-0 general", "BeginDrain general-1"}, warn, "Wait Draining node/general-0"), says: "cancel-instance-refresh --auto-scaling-group-name general",
		},
	})
	but := "ResumeProcesses general AZRebalance:ReplaceUnhealthy:ScheduledActions:AlarmNotification"
	runBack(t, map[string]step{
		"WayBack": {
			reason: "before it would replace the nodes that the pods came back to, the user is asked", world: aWorld().quiet().withGroup("general", held),
			want: backwards([]string{but, allResume[1]}, block), says: "Pending (08b91cf7)",
		},
		"Accepted": {
			reason: "who accepts it has it go on", world: aWorld().quiet().withGroup("general", held), migration: aMigration().accepts(CheckRefreshHeld, general),
			want: backwards(allResume),
		},
		"Over": {reason: "when it is cancelled its process is resumed", world: aWorld().quiet(), want: backwards(allResume)},
	})
}

// TestSingleScalerNamesAutoScaling: what Auto Scaling may do by itself beside Karpenter.
func TestSingleScalerNamesAutoScaling(t *testing.T) {
	policy := func(g *inventory.NodeGroup) {
		g.ScalingPolicies = []inventory.ScalingPolicy{{Name: "cpu", Active: true}, {Name: "off"}}
	}
	schedule := func(g *inventory.NodeGroup) { g.ScheduledActions = []inventory.ScheduledAction{{Name: "night"}} }
	raised := func(g *inventory.NodeGroup) {
		launching(g)
		g.Desired = 5
	}
	cases := map[string]struct {
		reason    string
		migration migrationOf
		world     *scene
		want      string
	}{
		"Nothing":      {"Karpenter alone", aMigration(), middle(), "True KarpenterServes"},
		"Idle":         {"a policy whose process is suspended scales nothing", aMigration(), middle().withGroup("general", policy).withGroup("general", schedule), "True KarpenterServes"},
		"Policy":       {"its process was resumed", aMigration(), resumed("AlarmNotification").withGroup("general", policy), "False TwoScalers general (scaling policy cpu)"},
		"Schedule":     {"likewise", aMigration(), resumed("ScheduledActions").withGroup("general", schedule), "False TwoScalers general (scheduled action night)"},
		"Other":        {"another process scales nothing", aMigration(), resumed("AZRebalance").withGroup("general", policy), "True KarpenterServes"},
		"RaisedByUs":   {"on the way back it is castoff that raises it", served(time.Hour).rollBack(), middle().withGroup("general", raised), "True KarpenterServes Karpenter serves every pool"},
		"Raised":       {"somebody raised its desired size", served(time.Hour), middle().withGroup("general", raised), "False TwoScalers general (desired size 5: 2 instances on their way)"},
		"RaisedBefore": {"what Cluster Autoscaler asked for last may still come", served(time.Minute), middle().withGroup("general", raised), "True KarpenterServes"},
		"NotServed":    {"before the hand-over they are Cluster Autoscaler's to bear", aMigration(), aWorld().engineInstalled().withGroup("general", policy), "True ClusterAutoscalerServes"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := singleScaler(newLook(tc.migration.build(), tc.world.build(), noon))
			if got := string(c.Status) + " " + c.Reason + " " + c.Message; !strings.HasPrefix(got, strings.SplitN(tc.want, " general", 2)[0]) || !strings.Contains(got, tc.want[strings.LastIndex(tc.want, " general")+1:]) {
				t.Errorf("%s: %s, want %s", tc.reason, got, tc.want)
			}
		})
	}
}

// TestEveryMendSaysHow: whatever can be set back is said in words, with how to set it right.
func TestEveryMendSaysHow(t *testing.T) {
	seen := map[string]bool{}
	for _, kind := range []string{
		kindSuspendProcesses, kindSuspendLaunch, kindResumeProcesses, kindResumeLaunch, kindDisablePolicies, kindEnablePolicies,
		kindDeleteScheduledActions, kindPutScheduledActions, kindSetRebalance, kindSetLifetime, kindSetGroupSize,
	} {
		op := v1alpha1.Operation{ID: kind + "/general", Detail: "0/10/3"}
		if !settable(op) || whatWasDone(kind, op.Detail) == "" || byHand(kind, "general", op.Detail) == "" {
			t.Errorf("%s has no words, or is not counted", kind)
		}
		seen[whatWasDone(kind, op.Detail)] = true
	}
	if len(seen) != 9 { // Launch is said as the other processes are
		t.Errorf("different things are said alike: %v", seen)
	}
	for _, kind := range []string{kindEndInstances, kindStopAutoscaler, kindDeleteGroup} {
		if settable(v1alpha1.Operation{ID: kind + "/general"}) {
			t.Errorf("%s is not a setting that anybody sets back", kind)
		}
	}
	if diff := cmp.Diff([]string{"set min 0 and max 10 where the sizes are defined"}, []string{byHand(kindSetGroupSize, "general", "0/10/3")}); diff != "" {
		t.Error(diff)
	}
}
