package plan

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// inWaves makes pool general the first wave and batch the second, and Cluster Autoscaler lead with both listed.
func (s *scene) inWaves() *scene {
	for i := range s.w.Groups {
		s.w.Groups[i].Tags = append(slices.Clone(s.w.Groups[i].Tags), inventory.Tag{Key: "kubernetes.io/cluster/test", Value: "owned"})
	}
	for i := range s.w.Snapshot.Groups {
		s.w.Snapshot.Groups[i].Group.Tags = slices.Clone(s.w.Groups[i].Tags)
	}
	s.w.Waves, s.w.Snapshot.Waves = [][]string{{"general"}, {"batch"}}, [][]string{{"general"}, {"batch"}}
	return s.listing("general", "eks-batch")
}

// listing: its status has these Auto Scaling groups and no others, and was written a moment ago.
func (s *scene) listing(groups ...string) *scene {
	return s.withAutoscaler(func(a *inventory.Autoscaler) { a.Groups, a.StatusTime = groups, noon.Add(-5*time.Second) })
}

// hides: castoff took the discovery tag off the group.
func (s *scene) hides(group string) *scene {
	return s.withGroup(group, func(g *inventory.NodeGroup) {
		g.Tags = slices.DeleteFunc(g.Tags, func(t inventory.Tag) bool { return t.Key == caKey })
		g.Tags = append(g.Tags, inventory.Tag{Key: v1alpha1.TagHandedOver, Value: v1alpha1.TagManagedByValue})
	})
}

// firstServed: the first wave changed hands, and Cluster Autoscaler keeps the second.
func (s *scene) firstServed() *scene {
	s.quiet().inWaves().hides("general").listing("eks-batch").serve("general", guardedSuffix)
	for i := range s.w.Nodes {
		if s.w.Nodes[i].Group == "general" {
			fenceIt(&s.w.Nodes[i])
		}
	}
	return s
}

// firstGone: nothing of the first wave's old nodes is left.
func (s *scene) firstGone() *scene {
	s.firstServed().serve("general", "")
	s.withGroup("general", func(g *inventory.NodeGroup) {
		g.Min, g.Max, g.Desired, g.Instances = 0, 0, 0, nil
		g.SuspendedProcesses = append(g.SuspendedProcesses, processLaunch)
	})
	s.w.Nodes = slices.DeleteFunc(s.w.Nodes, func(n inventory.Node) bool { return n.Group == "general" })
	return s
}

func hidesOnce(times int32) v1alpha1.Operation {
	op := closed(operation("HideGroup/general", caKey, time.Hour))
	op.Attempts = times
	return op
}

func TestWavesLetGo(t *testing.T) {
	hide := "HideGroup general " + caKey
	run(t, map[string]step{
		"Hide": {
			reason: "of an earlier wave the groups are hidden; Cluster Autoscaler keeps the others, and is not stopped",
			world:  aWorld().quiet().inWaves(),
			want:   hands([]string{hide}, "Wait AutoscalerLettingGo nodegroup/general"),
		},
		"LowerFirst": {
			reason: "EKS may put the tags of a managed group back with every update: what has to be set there is set before they go",
			world:  aWorld().quiet().inWaves().with(func(w *World) { w.Waves = [][]string{{"batch"}, {"general"}} }),
			want:   hands([]string{"SetGroupSize eks-batch 0/10/2"}),
		},
		"HeldSizes": {
			reason:    "and its end sizes wait until Cluster Autoscaler is stopped",
			migration: aMigration().drained("batch", noon.Add(-time.Hour)),
			world: aWorld().quiet().inWaves().with(func(w *World) { w.Waves = [][]string{{"batch"}, {"general"}} }).hides("batch").listing("general").serve("batch", "").
				withGroup("batch", func(g *inventory.NodeGroup) {
					g.Min, g.Desired, g.Instances = 0, 0, nil
					g.SuspendedProcesses = append(g.SuspendedProcesses, processLaunch)
				}).
				with(func(w *World) {
					w.Nodes = slices.DeleteFunc(w.Nodes, func(n inventory.Node) bool { return n.Group == "batch" })
				}),
			want: decided{phase: v1alpha1.PhaseHandingOver, actions: []string{"StopAutoscaler kube-system/cluster-autoscaler 0"}, blockers: []string{"Wait AutoscalerRunning " + caObject}},
		},
		"QuietThatWaveOnly": {
			reason: "a wave that is not its turn yet is Cluster Autoscaler's own as it was",
			world:  aWorld().engineInstalled().inWaves(),
			want:   hands([]string{"SuspendProcesses general " + allQuiet}),
		},
		"Listed": {
			reason: "as long as its status lists the group it serves it: no NodePool yet",
			world:  aWorld().quiet().inWaves().hides("general"),
			want:   hands(nil, "Wait AutoscalerLettingGo nodegroup/general"),
		},
		"OldStatus": {
			reason: "a status that nobody writes any more proves nothing",
			world: aWorld().quiet().inWaves().hides("general").listing("eks-batch").withAutoscaler(func(a *inventory.Autoscaler) {
				a.StatusTime = noon.Add(-2 * time.Minute)
			}),
			want: hands(nil, "Wait AutoscalerSilent "+caObject),
		},
		"EmptyStatus": {
			reason: "one that starts writes a status without groups first: it may still find them",
			world:  aWorld().quiet().inWaves().hides("general").listing(),
			want:   hands(nil, "Wait AutoscalerSilent "+caObject),
		},
		"Served": {
			reason: "dropped and seen to be: Karpenter serves the first wave, and the second one is left alone",
			world:  aWorld().quiet().inWaves().hides("general").listing("eks-batch"),
			want:   hands([]string{"EnsureNodePool general target-of-general/guarded"}),
		},
		"Fenced": {
			reason: "the fence is the wave's own",
			world:  aWorld().quiet().inWaves().hides("general").listing("eks-batch").serve("general", guardedSuffix),
			want:   hands([]string{"FenceNode general-0 general", "FenceNode general-1 general", "FenceNode general-2 general"}),
		},
		"Drained": {
			reason: "then its nodes are drained, while Cluster Autoscaler scales the second wave",
			world: aWorld().firstServed().withGroup("general", func(g *inventory.NodeGroup) {
				g.Min = 0
				g.SuspendedProcesses = append(g.SuspendedProcesses, processLaunch)
			}),
			want: decided{phase: v1alpha1.PhaseShifting, actions: []string{"BeginDrain general-0", "BeginDrain general-1"}},
		},
		"SilentLater": {
			reason: "once the wave is served a status that is late stops nothing: who writes none lists none",
			world: aWorld().firstServed().withGroup("general", func(g *inventory.NodeGroup) {
				g.Min = 0
				g.SuspendedProcesses = append(g.SuspendedProcesses, processLaunch)
			}).
				withAutoscaler(func(a *inventory.Autoscaler) { a.Groups, a.StatusTime = nil, time.Time{} }),
			want: decided{phase: v1alpha1.PhaseShifting, actions: []string{"BeginDrain general-0", "BeginDrain general-1"}},
		},
		"TagBack": {
			reason:    "a tag that somebody put back is taken off again, and nothing is evicted meanwhile",
			migration: aMigration().ledger(hidesOnce(1)),
			world:     aWorld().firstServed().draining("general-0", 2).withGroup("general", func(g *inventory.NodeGroup) { g.Tags = append(g.Tags, inventory.Tag{Key: caKey}) }),
			want:      decided{phase: v1alpha1.PhaseHandingOver, actions: []string{hide}, blockers: []string{"Wait AutoscalerLettingGo nodegroup/general", "Warn SetBack nodegroup/general"}},
		},
		"TagBackAgain": {
			reason:    "castoff does not fight over it",
			migration: aMigration().ledger(hidesOnce(2)),
			world:     aWorld().firstServed().draining("general-0", 2).withGroup("general", func(g *inventory.NodeGroup) { g.Tags = append(g.Tags, inventory.Tag{Key: caKey}) }),
			want:      decided{phase: v1alpha1.PhaseHandingOver, blockers: []string{"Block TwoScalers nodegroup/general"}},
			says:      "2 times",
		},
		"Static": {
			reason: "nor can it hide a group that its arguments name since",
			world:  aWorld().quiet().inWaves().withAutoscaler(func(a *inventory.Autoscaler) { a.Static = []string{"general"} }),
			want:   hands(nil, "Block TwoScalers nodegroup/general"),
			says:   "spec.strategy.waves to Single",
		},
		"Straddled": {
			reason: "a workload that both waves could take now keeps the first one where it is",
			world: aWorld().quiet().inWaves().with(func(w *World) {
				w.Straddling = []Join{{Pools: [2]string{"general", "batch"}, Workload: "deployment/shop/new"}}
			}),
			want: hands(nil, "Block WorkloadInTwoWaves deployment/shop/new"),
			says: "nodeSelector",
		},
		"StraddledAccepted": {
			reason:    "unless the user accepts it",
			migration: aMigration().accepts(CheckTwoWaves, "deployment/shop/new"),
			world: aWorld().quiet().inWaves().with(func(w *World) {
				w.Straddling = []Join{{Pools: [2]string{"general", "batch"}, Workload: "deployment/shop/new"}}
			}),
			want: hands([]string{hide}, "Warn WorkloadInTwoWaves deployment/shop/new", "Wait AutoscalerLettingGo nodegroup/general"),
		},
		"StraddledMeanwhile": {
			reason: "it is named while the first wave is drained, which goes on",
			world: aWorld().firstServed().withGroup("general", func(g *inventory.NodeGroup) {
				g.Min = 0
				g.SuspendedProcesses = append(g.SuspendedProcesses, processLaunch)
			}).
				with(func(w *World) {
					w.Straddling = []Join{{Pools: [2]string{"general", "batch"}, Workload: "deployment/shop/new"}}
				}),
			want: decided{phase: v1alpha1.PhaseShifting, actions: []string{"BeginDrain general-0", "BeginDrain general-1"}, blockers: []string{"Block WorkloadInTwoWaves deployment/shop/new"}},
		},
		"SecondWave": {
			reason:    "when the first wave is done the second one's groups are made quiet",
			migration: aMigration().drained("general", noon.Add(-time.Hour)),
			world:     aWorld().firstGone().withGroup("batch", func(g *inventory.NodeGroup) { g.SuspendedProcesses = nil }),
			want:      decided{phase: v1alpha1.PhaseHandingOver, actions: []string{"SuspendProcesses eks-batch " + allQuiet}},
		},
		"SecondWaveStraddled": {
			reason:    "the next change of hands waits for the workload that both could serve",
			migration: aMigration().drained("general", noon.Add(-time.Hour)),
			world: aWorld().firstGone().with(func(w *World) {
				w.Straddling = []Join{{Pools: [2]string{"general", "batch"}, Workload: "deployment/shop/new"}}
			}),
			want: decided{phase: v1alpha1.PhaseHandingOver, blockers: []string{"Block WorkloadInTwoWaves deployment/shop/new"}},
		},
		"LastWave": {
			reason:    "of the last wave Cluster Autoscaler lets go by being stopped",
			migration: aMigration().drained("general", noon.Add(-time.Hour)),
			world:     aWorld().firstGone(),
			want:      decided{phase: v1alpha1.PhaseHandingOver, actions: []string{"StopAutoscaler kube-system/cluster-autoscaler 0"}, blockers: []string{"Wait AutoscalerRunning " + caObject}},
		},
		"Single": {
			reason:    "who sets waves to Single has all that is left change hands at once, by stopping Cluster Autoscaler",
			migration: aMigration().single(),
			world:     aWorld().quiet().inWaves(),
			want:      hands([]string{"StopAutoscaler kube-system/cluster-autoscaler 0"}, "Wait AutoscalerRunning "+caObject),
		},
		"SingleLate": {
			reason:    "what has changed hands stays as it is; the rest follows at once, and before any other node is drained",
			migration: aMigration().single().ledger(stops(1)),
			world: aWorld().firstServed().withAutoscaler(func(a *inventory.Autoscaler) {
				a.Replicas, a.StatusReplicas, a.Pods, a.Groups, a.StatusTime = 0, 0, 0, nil, time.Time{}
			}),
			want: hands([]string{"HoldLease kube-system/cluster-autoscaler", "EnsureNodePool batch target-of-batch/guarded"}),
		},
		"StoppedBySomebody": {
			reason: "who stops Cluster Autoscaler between two waves keeps the second one from no approval: castoff does not take its Lease",
			world: aWorld().firstServed().withGroup("general", func(g *inventory.NodeGroup) {
				g.Min = 0
				g.SuspendedProcesses = append(g.SuspendedProcesses, processLaunch)
			}).
				withAutoscaler(func(a *inventory.Autoscaler) {
					a.Replicas, a.StatusReplicas, a.Pods, a.Groups, a.StatusTime = 0, 0, 0, nil, time.Time{}
				}),
			want: decided{phase: v1alpha1.PhaseShifting, actions: []string{"BeginDrain general-0", "BeginDrain general-1"}},
		},
	})
}

// single has all pools change hands at once.
func (b migrationOf) single() migrationOf {
	b.m.Spec.Strategy.Waves = v1alpha1.WavesSingle
	return b
}

func TestWavesRest(t *testing.T) {
	paused := func(actions []string, blockers ...string) decided {
		return decided{phase: v1alpha1.PhasePaused, actions: actions, blockers: blockers}
	}
	back := func(actions []string, blockers ...string) decided {
		return decided{phase: v1alpha1.PhaseRollingBack, actions: actions, blockers: blockers}
	}
	still := func(s *scene, pools ...string) *scene {
		for _, pool := range append(pools, "general") {
			s.serve(pool, stillSuffix)
		}
		return s.with(func(w *World) {
			for i := range w.Engine.NodePools {
				w.Engine.NodePools[i].Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "0"}}
			}
		})
	}
	run(t, map[string]step{
		"PausedBeforeAll": {
			reason:    "nothing has changed hands: everything is undone, and Cluster Autoscaler goes on",
			migration: aMigration().paused(),
			world:     aWorld().quiet().inWaves(),
			want:      paused([]string{"ResumeProcesses general " + allQuiet, "ResumeProcesses eks-batch " + allQuiet}),
		},
		"PausedBetween": {
			reason:    "the first wave stays with Karpenter, its old nodes in service at a fixed number; the second with Cluster Autoscaler",
			migration: aMigration().paused(),
			world:     aWorld().firstServed(),
			want:      paused([]string{"ReleaseNode general-0", "ReleaseNode general-1", "ReleaseNode general-2"}),
		},
		"PausedWhileItLetsGo": {
			reason:    "a hand-over that began is nearer to its end, and Cluster Autoscaler serves the wave until then",
			migration: aMigration().paused(),
			world:     aWorld().quiet().inWaves().hides("general"),
			want:      paused(nil, "Wait AutoscalerLettingGo nodegroup/general"),
		},
		"PausedWhenItHasLetGo": {
			reason:    "nobody serves the wave: Karpenter does",
			migration: aMigration().paused(),
			world:     aWorld().quiet().inWaves().hides("general").listing("eks-batch"),
			want:      paused([]string{"EnsureNodePool general target-of-general/guarded"}),
		},
		"BackSizes": {
			reason:    "when the groups are shown again the sizes are the snapshot's; desired is never lowered",
			migration: aMigration().rollBack().ledger(stops(1)),
			world: still(aWorld().quiet().inWaves(), "batch").withGroup("general", func(g *inventory.NodeGroup) { g.Min = 0; g.Desired = 2 }).
				withGroup("batch", func(g *inventory.NodeGroup) { g.Desired = 5 }).holding("general").holding("batch").
				withAutoscaler(func(a *inventory.Autoscaler) {
					a.Replicas, a.StatusReplicas, a.Pods, a.Groups, a.StatusTime, a.LeaseHolder, a.LeaseRenewed = 0, 0, 0, nil, time.Time{}, v1alpha1.LeaseIdentity, noon
				}),
			want: back([]string{"SetGroupSize general 1/10/3"}),
		},
		"PausedBeforeItIsHidden": {
			reason:    "the min of a managed group is lowered before its tags go, and given back when they do not go",
			migration: aMigration().paused().ledger(closed(operation("SetGroupSize/eks-batch", "0/10/2", time.Minute))),
			world:     aWorld().quiet().inWaves().withGroup("batch", func(g *inventory.NodeGroup) { g.Min = 0 }),
			want:      paused([]string{"SetGroupSize eks-batch 1/10/2"}),
		},
		"BackStopsFirst": {
			reason:    "a group that is shown to a Cluster Autoscaler which runs could have two scalers: it is stopped first",
			migration: aMigration().rollBack(),
			world:     still(aWorld().firstServed().inService()).holding("general"),
			want:      back([]string{"StopAutoscaler kube-system/cluster-autoscaler 0"}, "Wait AutoscalerRunning "+caObject),
		},
		"BackHolds": {
			reason:    "and its Lease is held, so that whoever starts it meanwhile starts a standby",
			migration: aMigration().rollBack().ledger(stops(1)),
			world: still(aWorld().firstServed().inService(), "batch").holding("general").holding("batch").withAutoscaler(func(a *inventory.Autoscaler) {
				a.Replicas, a.StatusReplicas, a.Pods, a.Groups, a.StatusTime = 0, 0, 0, nil, time.Time{}
			}),
			want: back([]string{"HoldLease kube-system/cluster-autoscaler"}, "Wait AutoscalerStopping migration/prod"),
		},
		"BackShows": {
			reason:    "then the tags are as they were recorded",
			migration: aMigration().rollBack().ledger(stops(1)),
			world: still(aWorld().firstServed().inService(), "batch").holding("general").holding("batch").withAutoscaler(func(a *inventory.Autoscaler) {
				a.Replicas, a.StatusReplicas, a.Pods, a.Groups, a.StatusTime, a.LeaseHolder, a.LeaseRenewed = 0, 0, 0, nil, time.Time{}, v1alpha1.LeaseIdentity, noon
			}),
			want: back([]string{"ShowGroup general " + caKey}),
		},
		"BackWhileItLetsGo": {
			reason:    "a wave that Cluster Autoscaler serves, though its tags are off, has its tags again once it is stopped",
			migration: aMigration().rollBack(),
			world:     aWorld().quiet().inWaves().hides("general").holding("general"),
			want:      back([]string{"StopAutoscaler kube-system/cluster-autoscaler 0"}, "Wait AutoscalerRunning "+caObject),
		},
		"BackStopped": {
			reason:    "and is Karpenter's until they are there, like what Cluster Autoscaler had besides: that is sooner than AWS shows tags",
			migration: aMigration().rollBack().ledger(stops(1)),
			world: aWorld().quiet().inWaves().hides("general").withAutoscaler(func(a *inventory.Autoscaler) {
				a.Replicas, a.StatusReplicas, a.Pods, a.Groups, a.StatusTime = 0, 0, 0, nil, time.Time{}
			}),
			want: back([]string{"EnsureNodePool general target-of-general/guarded", "EnsureNodePool batch target-of-batch/guarded"}),
		},
		"BackNobodyServes": {
			reason:    "a wave that Cluster Autoscaler let go and Karpenter does not serve yet is nearer to Karpenter",
			migration: aMigration().rollBack(),
			world:     aWorld().quiet().inWaves().hides("general").listing("eks-batch"),
			want:      back([]string{"EnsureNodePool general target-of-general/guarded"}),
		},
	})
}

// holding: the pool's old nodes are kept from Cluster Autoscaler until their pods are back.
func (s *scene) holding(pool string) *scene {
	for i := range s.w.Nodes {
		if n := &s.w.Nodes[i]; n.Annotations[v1alpha1.AnnotationLegacy] == pool {
			n.Annotations[v1alpha1.AnnotationScaleDownDisabled], n.Annotations[v1alpha1.AnnotationHeldBy] = "true", v1alpha1.ByCastoff
		}
	}
	return s
}

func TestWaveStatusesOfTwo(t *testing.T) {
	now, then := stamp(noon), stamp(noon.Add(-time.Hour))
	remembers := func(w v1alpha1.WaveStatus) migrationOf {
		m := aMigration()
		m.m.Status.Waves = []v1alpha1.WaveStatus{w}
		return m
	}
	cases := map[string]struct {
		reason    string
		migration migrationOf
		world     *scene
		want      v1alpha1.WaveStatus
	}{
		"LettingGo": {"its status still lists the group", aMigration(), aWorld().quiet().inWaves().hides("general"), v1alpha1.WaveStatus{}},
		"LetGo":     {"it has let go of the first wave, and runs", aMigration(), aWorld().quiet().inWaves().hides("general").listing("eks-batch"), v1alpha1.WaveStatus{ReleasedTime: now}},
		"Served":    {"and Karpenter serves it", aMigration(), aWorld().firstServed(), v1alpha1.WaveStatus{ReleasedTime: now, ServedTime: now}},
		"Returned": {"on the way back the moment is kept at which Cluster Autoscaler leads with the group listed", remembers(v1alpha1.WaveStatus{Name: "wave-1", ReleasedTime: then, ServedTime: then}),
			aWorld().quiet().inWaves(), v1alpha1.WaveStatus{ReleasedTime: then, ServedTime: then, ReturnedTime: now}},
		"OnceMore": {"a wave that changes hands again is recorded anew", remembers(v1alpha1.WaveStatus{Name: "wave-1", ReleasedTime: then, ServedTime: then, ReturnedTime: then}),
			aWorld().firstServed(), v1alpha1.WaveStatus{ReleasedTime: now, ServedTime: now}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := waveStatuses(newLook(tc.migration.build(), tc.world.build(), noon))
			tc.want.Name, tc.want.Pools = "wave-1", []string{"general"}
			if diff := cmp.Diff([]v1alpha1.WaveStatus{tc.want, {Name: "wave-2", Pools: []string{"batch"}}}, got); diff != "" {
				t.Errorf("%s: waveStatuses() -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}
