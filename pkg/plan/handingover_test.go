package plan

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

const (
	caObject = "deployment/kube-system/cluster-autoscaler"
	allQuiet = "AZRebalance:ReplaceUnhealthy:ScheduledActions:AlarmNotification:InstanceRefresh"
)

func hands(actions []string, blockers ...string) decided {
	return decided{phase: v1alpha1.PhaseHandingOver, actions: actions, blockers: blockers}
}

func TestHandingOverQuietsTheGroups(t *testing.T) {
	run(t, map[string]step{
		"Suspend": {
			reason: "everything of Auto Scaling's own that adds or ends instances stops first; Terminate and Launch go on",
			world:  aWorld().engineInstalled(),
			want:   hands([]string{"SuspendProcesses general " + allQuiet, "SuspendProcesses eks-batch " + allQuiet}),
		},
		"SuspendWhatIsMissing": {
			reason: "a process the user had suspended before is not touched",
			world: aWorld().engineInstalled().withGroup("batch", func(g *inventory.NodeGroup) { g.SuspendedProcesses = quietProcesses }).
				withGroup("general", func(g *inventory.NodeGroup) { g.SuspendedProcesses = []string{"AZRebalance", "ScheduledActions"} }),
			want: hands([]string{"SuspendProcesses general ReplaceUnhealthy:AlarmNotification:InstanceRefresh"}),
		},
		"Rebalance": {
			reason: "Capacity Rebalancing ends spot instances undrained",
			world:  aWorld().quiet().withGroup("batch", func(g *inventory.NodeGroup) { g.CapacityRebalance = true }),
			want:   hands([]string{"SetRebalance eks-batch false"}),
		},
		"Lifetime": {
			reason: "a maximum lifetime ends instances undrained",
			world:  aWorld().quiet().withGroup("general", func(g *inventory.NodeGroup) { g.MaxInstanceLifetime = 86400 }),
			want:   hands([]string{"SetLifetime general 0"}),
		},
		"ResumedLate": {
			reason: "a process resumed in the middle is suspended again before the next eviction; the phase does not turn back",
			world: aWorld().shifting().draining("general-0", 2).withGroup("batch", func(g *inventory.NodeGroup) {
				g.SuspendedProcesses = g.SuspendedProcesses[1:]
			}),
			want: decided{phase: v1alpha1.PhaseShifting, actions: []string{"SuspendProcesses eks-batch AZRebalance"}, blockers: []string{"Warn SetBack nodegroup/batch"}},
		},
		"Blocked": {
			reason: "the preflight is run again before the hand-over",
			world:  aWorld().engineInstalled().found(barePod),
			want:   hands(nil, "Block BarePod pod/default/debug"),
		},
		"Manual": {
			reason:    "with approval Manual Cluster Autoscaler is not stopped before HandOver is approved",
			migration: aMigration().manual(v1alpha1.ApproveStart),
			world:     aWorld().engineInstalled(),
			want:      decided{phase: v1alpha1.PhaseAwaitingApproval, blockers: []string{"Block AwaitingApproval migration/prod"}},
			says:      "kubectl castoff approve prod HandOver",
		},
		"ManualApproved": {
			reason:    "and is, once it is",
			migration: aMigration().manual(v1alpha1.ApproveStart, v1alpha1.ApproveHandOver),
			world:     aWorld().quiet(),
			want:      hands([]string{"StopAutoscaler kube-system/cluster-autoscaler 0"}, "Wait AutoscalerRunning "+caObject),
		},
		"BlockedAfterTheStop": {
			reason:    "a finding that turns up between the stop and the first NodePool must not leave the pools without a scaler",
			migration: aMigration().manual().ledger(stops(1)),
			world:     aWorld().released().found(barePod),
			want: hands([]string{"HoldLease kube-system/cluster-autoscaler", "EnsureNodePool general target-of-general/guarded",
				"EnsureNodePool batch target-of-batch/guarded"}),
		},
		"BlockedAfterSomebodyElsesStop": {
			reason: "who scaled it to 0 by hand is not hurried: the finding comes first",
			world:  aWorld().released().found(barePod),
			want:   hands(nil, "Block BarePod pod/default/debug"),
		},
		"BlockedWhenItIsBack": {
			reason:    "and while it runs the pools have their scaler",
			migration: aMigration().ledger(stops(1)),
			world:     aWorld().quiet().found(barePod),
			want:      hands(nil, "Block BarePod pod/default/debug"),
		},
		"ManualReached": {
			reason:    "an approval taken back after the hand-over began does not leave a pool without a scaler",
			migration: aMigration().manual(),
			world:     aWorld().released().withAutoscaler(func(a *inventory.Autoscaler) { a.LeaseHolder, a.LeaseRenewed = v1alpha1.LeaseIdentity, noon }),
			want:      hands([]string{"EnsureNodePool general target-of-general/guarded", "EnsureNodePool batch target-of-batch/guarded"}),
		},
	})
}

// comesBack is a world in the middle of shifting in which Cluster Autoscaler runs again.
func comesBack(change func(*inventory.Autoscaler)) *scene {
	return aWorld().shifting().draining("general-0", 2).withAutoscaler(func(a *inventory.Autoscaler) {
		a.Replicas, a.StatusReplicas, a.Pods = 1, 1, 1
		change(a)
	})
}

func itLeads(a *inventory.Autoscaler) { a.LeaseHolder = "cluster-autoscaler-1" }

// stops is the ledger after Cluster Autoscaler was stopped so often.
func stops(times int32) v1alpha1.Operation {
	op := closed(operation("StopAutoscaler/kube-system/cluster-autoscaler", "0", time.Hour))
	op.Attempts = times
	return op
}

func TestHandingOverReleases(t *testing.T) {
	stop := []string{"StopAutoscaler kube-system/cluster-autoscaler 0"}
	run(t, map[string]step{
		"Stop": {
			reason: "Cluster Autoscaler is stopped when the groups are quiet, and nothing serves before it is seen gone",
			world:  aWorld().quiet(),
			want:   hands(stop, "Wait AutoscalerRunning "+caObject),
		},
		"Stopping": {
			reason: "a pod that is still there may act, so it is waited for",
			world:  aWorld().quiet().withAutoscaler(func(a *inventory.Autoscaler) { a.Replicas, a.Pods = 0, 1 }),
			want:   hands(nil, "Wait AutoscalerStopping "+caObject),
			says:   "1 pod of it is",
		},
		"NotOurs": {
			reason: "a Cluster Autoscaler of another cluster's groups is left alone",
			world:  aWorld().quiet().withAutoscaler(func(a *inventory.Autoscaler) { a.Discovery = []string{"other"} }),
			want:   hands([]string{"EnsureNodePool general target-of-general/guarded", "EnsureNodePool batch target-of-batch/guarded"}),
		},
		"None": {
			reason: "without any Cluster Autoscaler nobody has to let go",
			world:  aWorld().quiet().with(func(w *World) { w.Autoscalers = nil }),
			want:   hands([]string{"EnsureNodePool general target-of-general/guarded", "EnsureNodePool batch target-of-batch/guarded"}),
		},
		"Two": {
			reason: "every one that manages a pool has to let go; one that has is not enough",
			world: aWorld().released().with(func(w *World) {
				w.Autoscalers = append(w.Autoscalers, anAutoscaler("spot-autoscaler"))
			}),
			want: hands([]string{"StopAutoscaler kube-system/spot-autoscaler 0"}, "Wait AutoscalerRunning deployment/kube-system/spot-autoscaler"),
		},
		"OneRunsBesideAStandby": {
			reason: "a standby that has let go does not speak for one that leads",
			world: comesBack(itLeads).with(func(w *World) {
				standby := anAutoscaler("standby")
				standby.LeaseHolder, standby.LeaseRenewed = v1alpha1.LeaseIdentity, noon
				w.Autoscalers = append(w.Autoscalers, standby)
			}),
			want: decided{phase: v1alpha1.PhaseShifting, actions: stop,
				blockers: []string{"Wait AutoscalerRunning " + caObject, "Warn AutoscalerStandby deployment/kube-system/standby"}},
		},
		"ComesBackAsStandby": {
			reason:    "with its Lease held by castoff it is idle: warn and go on",
			migration: aMigration().ledger(stops(1)),
			world:     comesBack(func(a *inventory.Autoscaler) { a.Owner = "Argo CD application platform" }),
			want: decided{phase: v1alpha1.PhaseShifting, actions: []string{"EvictPods general-0 general", "BeginDrain general-1"},
				blockers: []string{"Warn AutoscalerStandby " + caObject, "Wait Draining node/general-0"}},
			says: "started again by Argo CD application platform",
		},
		"ComesBackAsLeader": {
			reason:    "if it leads, evictions stop and it is scaled to 0 once more",
			migration: aMigration().ledger(stops(1)),
			world:     comesBack(itLeads),
			want:      decided{phase: v1alpha1.PhaseShifting, actions: stop, blockers: []string{"Wait AutoscalerRunning " + caObject}},
		},
		"ComesBackWithoutElection": {
			reason:    "--leader-elect=false ignores the Lease, whoever holds it",
			migration: aMigration().ledger(stops(1)),
			world:     comesBack(func(a *inventory.Autoscaler) { a.LeaderElect = false }),
			want:      decided{phase: v1alpha1.PhaseShifting, actions: stop, blockers: []string{"Wait AutoscalerRunning " + caObject}},
		},
		"ComesBackTwice": {
			reason:    "a third stop would be a fight: it is named with its owner, and nothing is evicted",
			migration: aMigration().ledger(stops(2)),
			world: comesBack(func(a *inventory.Autoscaler) {
				itLeads(a)
				a.Owner = "Helm release ca"
			}),
			want: decided{phase: v1alpha1.PhaseShifting, blockers: []string{"Block TwoScalers " + caObject}},
			says: "scaled up again by Helm release ca",
		},
		"ComesBackWithoutAnOwner": {
			reason:    "an owner that is not known is not made up",
			migration: aMigration().ledger(stops(2)),
			world:     comesBack(itLeads),
			want:      decided{phase: v1alpha1.PhaseShifting, blockers: []string{"Block TwoScalers " + caObject}},
			says:      "was scaled up again, and castoff does not fight",
		},
		"LetGoAfterABlock": {
			reason:    "when its owner scaled it down, castoff goes on by itself",
			migration: aMigration().ledger(stops(2)),
			world:     aWorld().shifting().draining("general-0", 2),
			want: decided{phase: v1alpha1.PhaseShifting, actions: []string{"EvictPods general-0 general", "BeginDrain general-1"},
				blockers: []string{"Wait Draining node/general-0"}},
		},
	})
}

func TestHandingOverServes(t *testing.T) {
	pools := []string{"EnsureNodePool general target-of-general/guarded", "EnsureNodePool batch target-of-batch/guarded"}
	run(t, map[string]step{
		"Serve": {
			reason: "when nothing of Cluster Autoscaler is left its Lease is taken and the NodePools come; no node is fenced before they are there",
			world:  aWorld().released(),
			want:   hands(append([]string{"HoldLease kube-system/cluster-autoscaler"}, pools...)),
		},
		"NoElectionNoLease": {
			reason: "a Cluster Autoscaler without leader election has no Lease that would mean anything",
			world:  aWorld().released().withAutoscaler(func(a *inventory.Autoscaler) { a.LeaderElect = false }),
			want:   hands(pools),
		},
		"Leftovers": {
			reason: "a Cluster Autoscaler that was stopped in the middle of a scale-down leaves taints",
			world: aWorld().released().withNode("general-1", func(n *inventory.Node) {
				n.Taints = []corev1.Taint{{Key: taintToBeDeleted, Effect: corev1.TaintEffectNoSchedule}}
			}).withNode("batch-0", func(n *inventory.Node) {
				n.Taints = []corev1.Taint{{Key: taintCandidate, Effect: corev1.TaintEffectPreferNoSchedule}}
			}),
			want: hands(append([]string{"HoldLease kube-system/cluster-autoscaler", "StripLeftovers general-1", "StripLeftovers batch-0"}, pools...)),
		},
		"OneServes": {
			reason: "the pool that has its NodePool is fenced; the other is not yet",
			world:  aWorld().served().with(func(w *World) { w.Engine.NodePools = w.Engine.NodePools[:1] }),
			want: hands([]string{"EnsureNodePool batch target-of-batch/guarded",
				"FenceNode general-0 general", "FenceNode general-1 general", "FenceNode general-2 general"}),
		},
		"ACanaryIsNoPool": {
			reason: "the canary's NodePool serves nobody",
			world: aWorld().served().with(func(w *World) {
				w.Engine.NodePools = w.Engine.NodePools[:1]
				w.Engine.NodePools[0].Labels[v1alpha1.LabelCanary] = "general"
			}),
			want: hands(pools),
		},
		"NotReady": {
			reason: "a NodePool that Karpenter does not accept is waited for, in Karpenter's words",
			world: aWorld().handedOver().with(func(w *World) {
				np := &w.Engine.NodePools[1]
				np.StatusConditions().SetFalse(karpv1.ConditionTypeValidationSucceeded, "Invalid", "requirement is restricted")
			}),
			want: hands(nil, "Wait NodePoolNotReady nodepool/batch"),
			says: "requirement is restricted",
		},
		"NotTranslated": {
			reason: "a target that can no longer be made stops the pool and not the other",
			world: aWorld().released().withAutoscaler(func(a *inventory.Autoscaler) { a.LeaseHolder, a.LeaseRenewed = v1alpha1.LeaseIdentity, noon }).
				with(func(w *World) { delete(w.Targets, "general") }),
			want: hands([]string{pools[1]}, "Block NotTranslated pool/general"),
		},
		"Fence": {
			reason: "every legacy node is fenced, and the home is not",
			world:  aWorld().served(),
			want: hands([]string{"FenceNode general-0 general", "FenceNode general-1 general", "FenceNode general-2 general",
				"FenceNode batch-0 batch", "FenceNode batch-1 batch"}),
		},
		"LateJoiner": {
			reason: "a node that joined after the fence was put up is fenced before the next eviction",
			world: aWorld().shifting().draining("general-0", 2).join("batch").withNode("batch-2", func(n *inventory.Node) {
				n.Annotations[v1alpha1.AnnotationLegacy] = "batch"
			}),
			want: decided{phase: v1alpha1.PhaseShifting, actions: []string{"FenceNode batch-2 batch"}},
		},
		"UncordonedByHand": {
			reason: "a fence that somebody opened is closed again",
			world:  aWorld().handedOver().withNode("batch-0", func(n *inventory.Node) { n.Unschedulable = false }),
			want:   hands([]string{"FenceNode batch-0 batch"}),
		},
		"RenewTheLease": {
			reason: "the Lease is renewed every 15 minutes, so that three renewals may fail in its 3600 s",
			world: aWorld().handedOver().withAutoscaler(func(a *inventory.Autoscaler) {
				a.LeaseRenewed = noon.Add(-leaseRenewal)
			}),
			want: decided{phase: v1alpha1.PhaseShifting, actions: []string{"HoldLease kube-system/cluster-autoscaler", "SetGroupSize general 0/10/3"}},
		},
		"LeaseIsFresh": {
			reason: "and not before: castoff is quiet",
			world: aWorld().completed().withAutoscaler(func(a *inventory.Autoscaler) {
				a.LeaseRenewed = noon.Add(-leaseRenewal + time.Second)
			}),
			migration: aMigration().soak(0),
			want:      decided{phase: v1alpha1.PhaseCompleted},
		},
	})
}

// TestLeaseInAHurry: a Cluster Autoscaler before 1.27 that somebody starts takes a Lease that was not renewed for 15 s.
func TestLeaseInAHurry(t *testing.T) {
	renews := "HoldLease kube-system/cluster-autoscaler"
	of := func(image string, ago time.Duration, replicas int32) World {
		return aWorld().completed().withAutoscaler(func(a *inventory.Autoscaler) {
			a.Image, a.LeaseRenewed, a.Replicas = "cluster-autoscaler:"+image, noon.Add(-ago), replicas
		}).build()
	}
	cases := map[string]struct {
		reason string
		world  World
		want   bool
		until  time.Duration
	}{
		"Due":     {"every five seconds", of("v1.26.2", leaseHurry, 1), true, time.Second},
		"Fresh":   {"and no more often: it is looked at when that is over", of("v1.26.2", 2*time.Second, 1), false, 3 * time.Second},
		"Unknown": {"one that does not tell its version counts as old", of("latest", leaseHurry, 1), true, time.Second},
		"New":     {"one that keeps to the record does not hurry anybody", of("v1.27.0", time.Minute, 1), false, warned},
		"Stopped": {"nor does one that does not run", of("v1.26.2", time.Minute, 0), false, guard},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := Next(aMigration().soaked().build(), tc.world, noon)
			if got := slices.Contains(told(d.Actions), renews); got != tc.want || !d.Until.Equal(noon.Add(tc.until)) || d.Phase != v1alpha1.PhaseCompleted {
				t.Errorf("%s: renewed %t, want %t; looks again in %s, want %s", tc.reason, got, tc.want, d.Until.Sub(noon), tc.until)
			}
		})
	}
}

// TestLastPodIsAwaitedClosely: from Cluster Autoscaler's last moment to Karpenter's first no pool has a scaler, and the end of a pod wakes
// nobody. One that does not end is no reason to ask for ever.
func TestLastPodIsAwaitedClosely(t *testing.T) {
	for name, tc := range map[string]struct {
		reason        string
		replicas      int32
		pods          int
		waited, until time.Duration
	}{
		"Leaving":   {"it goes within a moment", 0, 1, 0, glance},
		"StillNow":  {"most go within seconds", 0, 1, brisk - time.Second, glance},
		"LongSince": {"this one takes its time", 0, 1, brisk, soon},
		"Asked":     {"it was not asked to go yet: the Deployment tells", 1, 1, 0, soon},
	} {
		t.Run(name, func(t *testing.T) {
			m := aMigration().build()
			m.Status.Blockers = []v1alpha1.Blocker{{Severity: v1alpha1.SeverityWait, Reason: reasonStopping, Object: caObject, Since: &metav1.Time{Time: noon.Add(-tc.waited)}}}
			w := aWorld().quiet().withAutoscaler(func(a *inventory.Autoscaler) { a.Replicas, a.Pods = tc.replicas, tc.pods }).build()
			if d := Next(m, w, noon); !d.Until.Equal(noon.Add(tc.until)) {
				t.Errorf("%s: looks again in %s, want %s", tc.reason, d.Until.Sub(noon), tc.until)
			}
		})
	}
}

func TestFenced(t *testing.T) {
	cases := map[string]struct {
		reason string
		change func(*inventory.Node)
		want   bool
	}{
		"Whole":      {"cordon, labels and taint", func(*inventory.Node) {}, true},
		"Draining":   {"the hard taint of a drain that began is a fence too", func(n *inventory.Node) { n.Taints[0].Effect = corev1.TaintEffectNoSchedule }, true},
		"Uncordoned": {"new pods could come", func(n *inventory.Node) { n.Unschedulable = false }, false},
		"OtherPool":  {"the label tells whose it is", func(n *inventory.Node) { n.Labels[v1alpha1.LabelPool] = "batch" }, false},
		"NoScaler":   {"the label says who scales it", func(n *inventory.Node) { delete(n.Labels, v1alpha1.LabelScaler) }, false},
		"NoTaint":    {"a cordon alone is what anybody could have set", func(n *inventory.Node) { n.Taints = nil }, false},
		"NoExecute":  {"castoff never sets it, for it would end pods past their budgets", func(n *inventory.Node) { n.Taints[0].Effect = corev1.TaintEffectNoExecute }, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			n := inventory.Node{Group: "general", Labels: map[string]string{}, Annotations: map[string]string{}}
			fenceIt(&n)
			tc.change(&n)
			if got := fenced(n, "general"); got != tc.want {
				t.Errorf("%s: fenced() = %v, want %v", tc.reason, got, tc.want)
			}
		})
	}
}

func TestNodePoolIsGuardedWhileLegacyNodesAreLeft(t *testing.T) {
	guarded := []karpv1.Budget{
		{Nodes: "0", Reasons: []karpv1.DisruptionReason{karpv1.DisruptionReasonUnderutilized, karpv1.DisruptionReasonDrifted}}, {Nodes: "10%"},
	}
	cases := map[string]struct {
		reason string
		world  *scene
		want   []karpv1.Budget
		hash   string
	}{
		"NodesLeft": {"Karpenter would move pods back onto old nodes", aWorld().handedOver(), guarded, "target-of-general/guarded"},
		"InstancesLeft": {"an instance that has yet to become a node counts", aWorld().handedOver().with(func(w *World) { w.Nodes = nil }),
			guarded, "target-of-general/guarded"},
		"Gone": {"with the last one gone the NodePool is as the user wants it", aWorld().shifting().emptied("general"),
			[]karpv1.Budget{{Nodes: "20%"}}, "target-of-general"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			l := newLook(aMigration().build(), tc.world.build(), noon)
			got := wantNodePool(l.pools[0])
			if diff := cmp.Diff(tc.want, got.Spec.Disruption.Budgets); diff != "" {
				t.Errorf("%s: budgets -want, +got:\n%s", tc.reason, diff)
			}
			if targetHash(got) != tc.hash {
				t.Errorf("%s: target hash %q, want %q", tc.reason, targetHash(got), tc.hash)
			}
			if diff := cmp.Diff(aTarget("general"), l.Targets["general"]); diff != "" {
				t.Errorf("the target itself must not change: -want, +got:\n%s", diff)
			}
		})
	}
}

func TestNodePoolWithoutAnnotationsIsGuarded(t *testing.T) {
	l := newLook(aMigration().build(), aWorld().handedOver().build(), noon)
	l.pools[0].target.NodePool.Annotations = nil
	if got := targetHash(wantNodePool(l.pools[0])); got != guardedSuffix {
		t.Errorf("a target without annotations gets one: hash %q, want %q", got, guardedSuffix)
	}
}

func TestTheGuardIsDroppedInTheWorld(t *testing.T) {
	run(t, map[string]step{
		"Emptied": {
			reason: "the emptied pool's NodePool may consolidate again, before the next pool begins",
			world:  aWorld().shifting().emptied("general"),
			want:   decided{phase: v1alpha1.PhaseShifting, actions: []string{"EnsureNodePool general target-of-general"}},
		},
		"CameBack": {
			reason: "a legacy instance that came back puts the guard up again, and is dealt with",
			world: aWorld().shifting().finished("general").withGroup("general", func(g *inventory.NodeGroup) {
				g.Instances = []inventory.Instance{{ID: "i-new", Lifecycle: "Pending"}}
			}),
			want: decided{phase: v1alpha1.PhaseShifting, actions: []string{"EnsureNodePool general target-of-general/guarded"}},
		},
		"EditedByTheUser": {
			reason: "a user's own edit of the NodePool is theirs: only a new target is written",
			world: aWorld().handedOver().with(func(w *World) {
				w.Engine.NodePools[0].Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "1"}}
			}),
			want: decided{phase: v1alpha1.PhaseShifting, actions: []string{"SetGroupSize general 0/10/3"}},
		},
	})
}

func TestScalers(t *testing.T) {
	cases := map[string]struct {
		reason          string
		world           *scene
		karpenter, both []string
	}{
		"Before":      {"Cluster Autoscaler serves", aWorld().quiet(), nil, nil},
		"After":       {"Karpenter serves", aWorld().handedOver(), []string{"general", "batch"}, nil},
		"OnePool":     {"one pool has its NodePool", aWorld().handedOver().with(func(w *World) { w.Engine.NodePools = w.Engine.NodePools[1:] }), []string{"batch"}, nil},
		"Standby":     {"a fenced standby scales nothing", comesBack(func(*inventory.Autoscaler) {}), []string{"general", "batch"}, nil},
		"Leader":      {"two scale", comesBack(itLeads), []string{"general", "batch"}, []string{"general (Karpenter and kube-system/cluster-autoscaler)", "batch (Karpenter and kube-system/cluster-autoscaler)"}},
		"OtherGroups": {"a leader of other groups is no second scaler", comesBack(func(a *inventory.Autoscaler) { itLeads(a); a.Discovery, a.Static = nil, []string{"eks-batch"} }), []string{"general", "batch"}, []string{"batch (Karpenter and kube-system/cluster-autoscaler)"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			karpenter, both := scalers(newLook(aMigration().build(), tc.world.build(), noon))
			if diff := cmp.Diff([][]string{tc.karpenter, tc.both}, [][]string{karpenter, both}); diff != "" {
				t.Errorf("%s: scalers() -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestWaveStatuses(t *testing.T) {
	before := aMigration()
	before.m.Status.Waves = []v1alpha1.WaveStatus{{Name: "wave-1", ReleasedTime: stamp(noon.Add(-time.Hour)), ServedTime: stamp(noon.Add(-time.Hour))}}
	both := []string{"general", "batch"}
	now, then := stamp(noon), stamp(noon.Add(-time.Hour))
	cases := map[string]struct {
		reason    string
		migration migrationOf
		world     *scene
		want      []v1alpha1.WaveStatus
	}{
		"Nothing":     {"there is no wave before the snapshot", aMigration(), aWorld(), nil},
		"Waiting":     {"Cluster Autoscaler is in charge", aMigration(), aWorld().quiet(), []v1alpha1.WaveStatus{{Name: "wave-1", Pools: both}}},
		"Served":      {"released and served at this look", aMigration(), aWorld().served(), []v1alpha1.WaveStatus{{Name: "wave-1", Pools: both, ReleasedTime: now, ServedTime: now}}},
		"Remembered":  {"the times are those of the first look", before, aWorld().served(), []v1alpha1.WaveStatus{{Name: "wave-1", Pools: both, ReleasedTime: then, ServedTime: then}}},
		"NotReleased": {"a running Cluster Autoscaler has not let go", aMigration(), comesBack(itLeads), []v1alpha1.WaveStatus{{Name: "wave-1", Pools: both, ServedTime: now}}},
		"OneServed": {"the wave is served when every pool is", aMigration(), aWorld().served().with(func(w *World) { w.Engine.NodePools = w.Engine.NodePools[1:] }),
			[]v1alpha1.WaveStatus{{Name: "wave-1", Pools: both, ReleasedTime: now}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := waveStatuses(newLook(tc.migration.build(), tc.world.build(), noon))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: waveStatuses() -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}
