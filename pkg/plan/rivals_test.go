package plan

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

const caLease = "lease/kube-system/cluster-autoscaler"

// inTheMiddle is a world in which a node is being drained.
func inTheMiddle() *scene { return aWorld().shifting().draining("general-0", 2) }

// servedBoth remembers in the status that both pools changed hands.
func (b migrationOf) servedBoth() migrationOf {
	b.m.Status.Waves = []v1alpha1.WaveStatus{{Name: "wave-1", Pools: []string{"general", "batch"}, ReleasedTime: stamp(noon.Add(-time.Hour)), ServedTime: stamp(noon.Add(-time.Hour))}}
	return b
}

func shiftingOn(actions ...string) decided {
	return decided{phase: v1alpha1.PhaseShifting, actions: append(actions, "EvictPods general-0 general", "BeginDrain general-1"), blockers: []string{"Wait Draining node/general-0"}}
}

func heldUp(actions []string, blockers ...string) decided {
	return decided{phase: v1alpha1.PhaseShifting, actions: actions, blockers: blockers}
}

func secondKarpenter(replicas int32) func(*World) {
	return func(w *World) {
		w.Engine.Others = []inventory.Karpenter{{Namespace: "kube-system", Name: "karpenter-two", Replicas: replicas, Owner: "Helm release kube-system/two", ChangedBy: "helm"}}
		w.Engine.Foreign = []string{"kube-system/karpenter-two"}
	}
}

func TestASecondKarpenterHoldsEvictionsBack(t *testing.T) {
	const object = "deployment/kube-system/karpenter-two"
	run(t, map[string]step{
		"Runs": {
			reason: "two Karpenters launch twice for a pod that is evicted; it is named with whose it is, and not stopped",
			world:  inTheMiddle().with(secondKarpenter(1)),
			want:   heldUp(nil, "Block ForeignKarpenter "+object),
			says:   "by Helm release kube-system/two (field manager helm)",
		},
		"AtZero": {
			reason: "one that is scaled to 0 hurts nobody",
			world:  inTheMiddle().with(secondKarpenter(0)),
			want:   shiftingOn(),
		},
		"PodsLeft": {
			reason: "but its pods do, for as long as they are there",
			world:  inTheMiddle().with(secondKarpenter(0)).with(func(w *World) { w.Engine.Others[0].ReadyReplicas = 1 }),
			want:   heldUp(nil, "Block ForeignKarpenter "+object),
		},
		"Accepted": {
			reason:    "the user knows it",
			migration: aMigration().accepts(checkForeignKarpenter, object),
			world:     inTheMiddle().with(secondKarpenter(1)),
			want:      shiftingOn(),
		},
		"Adopted": {
			reason: "the one that was adopted is the one that serves",
			world:  inTheMiddle().with(secondKarpenter(1)).with(func(w *World) { w.Engine.Adopted = true }),
			want:   shiftingOn(),
		},
		"Fenced": {
			reason: "what holds pods where they are goes on beside it: a node that joined late is fenced",
			world:  inTheMiddle().join("general").marked().with(secondKarpenter(1)),
			want:   heldUp([]string{"FenceNode general-3 general"}, "Block ForeignKarpenter "+object),
		},
	})
}

// heavierPool is somebody's NodePool, and what it takes.
func heavierPool(weight int32) func(*World) {
	return func(w *World) {
		w.Engine.NodePools = append(w.Engine.NodePools, karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}, Spec: karpv1.NodePoolSpec{Weight: &weight}})
		w.Rivals = []inventory.Rival{{NodePool: "theirs", Weight: weight, Pool: "general", Takes: "pod/shop/web-1", ChangedBy: "kubectl-create"}}
	}
}

func TestAHeavierNodePoolHoldsEvictionsBack(t *testing.T) {
	run(t, map[string]step{
		"TakesPods": {
			reason: "evicted pods would go to nodes that no way back drains",
			world:  inTheMiddle().with(heavierPool(50)),
			want:   heldUp(nil, "Block HeavierNodePool nodepool/theirs"),
			says:   "by field manager kubectl-create has weight 50, so Karpenter asks it before that of pool general, and it takes pod/shop/web-1",
		},
		"TakesNone": {
			reason: "one that takes no pod of the pool hurts nobody",
			world:  inTheMiddle().with(heavierPool(50)).with(func(w *World) { w.Rivals = nil }),
			want:   shiftingOn(),
		},
		"Accepted": {
			reason:    "or is meant to",
			migration: aMigration().accepts(CheckHeavierNodePool, "nodepool/theirs"),
			world:     inTheMiddle().with(heavierPool(50)),
			want:      shiftingOn(),
		},
		"BeforeTheHandOver": {
			reason: "Cluster Autoscaler is not stopped before it is out of the way",
			world:  aWorld().engineInstalled().with(heavierPool(50)),
			want:   hands(nil, "Block HeavierNodePool nodepool/theirs"),
		},
		"Stopped": {
			reason:    "once Cluster Autoscaler is stopped the shorter way is on: the pools are served first",
			migration: aMigration().ledger(stops(1)),
			world:     aWorld().released().with(heavierPool(50)),
			want: hands([]string{"HoldLease kube-system/cluster-autoscaler", "EnsureNodePool general target-of-general/guarded", "EnsureNodePool batch target-of-batch/guarded"},
				"Block HeavierNodePool nodepool/theirs"),
		},
		"Completed": {
			reason:    "where nothing is left to evict it is the user's own affair",
			migration: aMigration().soaked(),
			world:     aWorld().completed().with(heavierPool(50)),
			want:      decided{phase: v1alpha1.PhaseCompleted},
		},
	})
}

func TestHeavierNodePools(t *testing.T) {
	weight := func(n int32) *int32 { return &n }
	of := func(change func(*karpv1.NodePool)) func(*World) {
		return func(w *World) {
			np := karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "theirs", Labels: map[string]string{}}, Spec: karpv1.NodePoolSpec{Weight: weight(1)}}
			change(&np)
			w.Engine.NodePools = append(w.Engine.NodePools, np)
		}
	}
	cases := map[string]struct {
		reason string
		world  *scene
		want   []string
	}{
		"Heavier": {"any weight is more than none", inTheMiddle().with(of(func(*karpv1.NodePool) {})), []string{"general", "batch"}},
		"AsHeavy": {"it is asked after it, or before it: nobody said", inTheMiddle().with(of(func(np *karpv1.NodePool) { np.Spec.Weight = nil })), nil},
		"Lighter": {"the pool's own weight counts", inTheMiddle().with(func(w *World) {
			for name, target := range w.Targets {
				target.NodePool.Spec.Weight = weight(10)
				w.Targets[name] = target
			}
		}).with(of(func(*karpv1.NodePool) {})), nil},
		"Ours":       {"castoff's own", inTheMiddle().with(of(func(np *karpv1.NodePool) { np.Labels[v1alpha1.LabelPool] = "batch" })), nil},
		"Canary":     {"the canary's is behind a taint of its own", inTheMiddle().with(of(func(np *karpv1.NodePool) { np.Labels[v1alpha1.LabelCanary] = "batch" })), nil},
		"Stopped":    {"it may launch nothing", inTheMiddle().with(of(func(np *karpv1.NodePool) { np.Spec.Limits = noLimits() })), nil},
		"Going":      {"it is being deleted", inTheMiddle().with(of(func(np *karpv1.NodePool) { np.DeletionTimestamp = stamp(noon) })), nil},
		"OnePoolOff": {"a pool without nodes has no pods to lose", inTheMiddle().finished("batch").with(of(func(*karpv1.NodePool) {})), []string{"general"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, pool := range []string{"general", "batch"} {
				if len(HeavierNodePools(tc.world.build())[pool]) > 0 {
					got = append(got, pool)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: pools, -want +got:\n%s", tc.reason, diff)
			}
			if needs := NeedsOf(aMigration().build(), tc.world.build()); needs.Rivals != (len(tc.want) > 0) {
				t.Errorf("%s: NeedsOf().Rivals = %t", tc.reason, needs.Rivals)
			}
		})
	}
}

func noLimits() karpv1.Limits {
	return karpv1.Limits{corev1.ResourceCPU: resource.MustParse("0")}
}

// theft: somebody has the Lease, and renewed it so long ago.
func theft(ago time.Duration) func(*inventory.Autoscaler) {
	return func(a *inventory.Autoscaler) {
		a.LeaseHolder, a.LeaseRenewed, a.LeaseDuration, a.LeaseBy = "somebody", noon.Add(-ago), time.Hour, "kubectl-edit"
	}
}

// retaken is the ledger after the Lease was taken back so often, the last time so long ago.
func retaken(times int32, ago time.Duration) v1alpha1.Operation {
	op := closed(operation("RetakeLease/"+caLease, "", ago))
	op.Attempts = times
	return op
}

func TestALeaseThatIsTaken(t *testing.T) {
	retake := []string{"RetakeLease lease/kube-system/cluster-autoscaler"}
	held := func(a *inventory.Autoscaler) { a.LeaseHolder, a.LeaseRenewed = v1alpha1.LeaseIdentity, noon }
	run(t, map[string]step{
		"Taken": {
			reason: "a Cluster Autoscaler that castoff cannot see may lead: the Lease is taken back, and nothing evicted",
			world:  inTheMiddle().withAutoscaler(theft(time.Second)),
			want:   heldUp(retake, "Warn LeaseTaken "+caLease),
			says:   "somebody took Cluster Autoscaler's Lease (field manager kubectl-edit). castoff takes it back, time 1",
		},
		"TakenBack": {
			reason:    "a leader that lost it acts for some seconds more",
			migration: aMigration().ledger(retaken(1, 10*time.Second)),
			world:     inTheMiddle().withAutoscaler(held),
			want:      heldUp(nil, "Wait LeaseTaken "+caLease),
		},
		"Over": {
			reason:    "and no longer",
			migration: aMigration().ledger(retaken(1, leaderEnds)),
			world:     inTheMiddle().withAutoscaler(held),
			want:      shiftingOn(),
		},
		"Again": {
			reason:    "twice at once",
			migration: aMigration().ledger(retaken(1, 5*time.Second)),
			world:     inTheMiddle().withAutoscaler(theft(time.Second)),
			want:      heldUp(retake, "Warn LeaseTaken "+caLease),
			says:      "time 2",
		},
		"Fight": {
			reason:    "and then it would be a fight",
			migration: aMigration().ledger(retaken(mostQuick, 5*time.Second)),
			world:     inTheMiddle().withAutoscaler(theft(time.Second)),
			want:      heldUp(nil, "Block LeaseTaken "+caLease),
			says:      "after castoff took it back 2 times, and castoff does not fight over it",
		},
		"OnceAMinute": {
			reason:    "whether it is over is found out once a minute",
			migration: aMigration().ledger(retaken(7, rivalRest)),
			world:     inTheMiddle().withAutoscaler(theft(time.Second)),
			want:      heldUp(retake, "Warn LeaseTaken "+caLease),
			says:      "time 8",
		},
		"LetGo": {
			reason:    "a Lease that nobody has is held again at once",
			migration: aMigration().ledger(retaken(mostQuick, 5*time.Second)),
			world:     inTheMiddle().withAutoscaler(func(a *inventory.Autoscaler) { a.LeaseHolder = "" }),
			want:      shiftingOn("HoldLease kube-system/cluster-autoscaler"),
		},
		"Expired": {
			reason: "nor has anybody one that was not renewed for as long as it says",
			world:  inTheMiddle().withAutoscaler(theft(time.Hour + time.Second)),
			want:   shiftingOn("HoldLease kube-system/cluster-autoscaler"),
		},
		"OfTheOneThatWasStopped": {
			reason:    "at the hand-over the Lease is still that of the leader that castoff stopped",
			migration: aMigration().ledger(closed(operation("StopAutoscaler/kube-system/cluster-autoscaler", "0", 5*time.Second))),
			world:     inTheMiddle().withAutoscaler(theft(6 * time.Second)).withAutoscaler(func(a *inventory.Autoscaler) { a.LeaseDuration = 15 * time.Second }),
			want:      shiftingOn("HoldLease kube-system/cluster-autoscaler"),
		},
		"WithoutElection": {
			reason: "without an election the Lease says nothing",
			world:  inTheMiddle().withAutoscaler(theft(time.Second)).withAutoscaler(func(a *inventory.Autoscaler) { a.LeaderElect = false }),
			want:   shiftingOn(),
		},
	})
}

// remade is the ledger after NodePool general was made again so often, the last time so long ago.
func remade(times int32, ago time.Duration) v1alpha1.Operation {
	op := closed(operation("RemakeNodePool/nodepool/general", "", ago))
	op.Attempts = times
	return op
}

func withoutNodePool(w *World) {
	w.Engine.NodePools = slices.DeleteFunc(slices.Clone(w.Engine.NodePools), func(np karpv1.NodePool) bool { return np.Name == "general" })
}

func claimAged(age time.Duration, deleting bool) func(*World) {
	return func(w *World) {
		w.Engine.NodeClaims = append(w.Engine.NodeClaims, inventory.NodeClaim{Name: "general-x1", NodePool: "general", Deleting: deleting, Created: noon.Add(-age)})
	}
}

func TestANodePoolThatIsDeleted(t *testing.T) {
	const object = "nodepool/general"
	make := []string{"EnsureNodePool general target-of-general/guarded"}
	run(t, map[string]step{
		"Gone": {
			reason:    "it is made again at once, for nobody serves the pool, and nothing is evicted",
			migration: aMigration().servedBoth(),
			world:     inTheMiddle().with(withoutNodePool),
			want:      heldUp(make, "Warn NodePoolDeleted "+object),
			says:      "Somebody deleted the NodePool that serves pool general. castoff makes it again, time 1",
		},
		"NeverMade": {
			reason: "one that never was is no theft",
			world:  aWorld().released(),
			want:   hands([]string{"HoldLease kube-system/cluster-autoscaler", "EnsureNodePool general target-of-general/guarded", "EnsureNodePool batch target-of-batch/guarded"}),
		},
		"Going": {
			reason:    "one that is on its way out cannot be made again yet",
			migration: aMigration().servedBoth(),
			world: inTheMiddle().with(claimAged(time.Hour, true)).with(func(w *World) {
				for i := range w.Engine.NodePools {
					if w.Engine.NodePools[i].Name == "general" {
						w.Engine.NodePools[i].DeletionTimestamp = stamp(noon)
					}
				}
			}),
			want: heldUp(nil, "Wait NodePoolDeleted "+object),
			says: "drains its 1 node.",
		},
		"NodesGo": {
			reason:    "Karpenter drains what went with it: nothing is evicted beside that",
			migration: aMigration().servedBoth().ledger(remade(1, time.Minute)),
			world:     inTheMiddle().with(claimAged(time.Hour, true)),
			want:      heldUp(nil, "Wait NodePoolDeleted "+object),
			says:      "made it again, time 1. Karpenter drains 1 node that went",
		},
		"NewNodesGo": {
			reason:    "a node of the new one goes as nodes go",
			migration: aMigration().servedBoth().ledger(remade(1, time.Minute)),
			world:     inTheMiddle().with(claimAged(time.Second, true)),
			want:      shiftingOn(),
		},
		"NodeGoes": {
			reason:    "and so does any where nobody deleted anything",
			migration: aMigration().servedBoth(),
			world:     inTheMiddle().with(claimAged(time.Hour, true)),
			want:      shiftingOn(),
		},
		"Fight": {
			reason:    "somebody deletes it whenever it is made",
			migration: aMigration().servedBoth().ledger(remade(mostQuick, 5*time.Second)),
			world:     inTheMiddle().with(withoutNodePool),
			want:      heldUp(nil, "Block NodePoolDeleted "+object),
			says:      "castoff made it 2 times and does not fight over it",
		},
		"OnceAMinute": {
			reason:    "whether it is over is found out once a minute",
			migration: aMigration().servedBoth().ledger(remade(mostQuick, rivalRest)),
			world:     inTheMiddle().with(withoutNodePool),
			want:      heldUp(make, "Warn NodePoolDeleted "+object),
			says:      "time 3",
		},
	})
}

// TestRemakesAreCounted: the count is in the status, and goes up when the one before was seen.
func TestRemakesAreCounted(t *testing.T) {
	m := aMigration().servedBoth().build()
	for want := int32(1); want <= mostQuick; want++ {
		m.Status.Operations = Next(m, inTheMiddle().with(withoutNodePool).build(), noon).Operations
		led := ledger(m.Status.Operations)
		if got := led.attempts(kindRemakeNodePool, "nodepool/general"); got != want {
			t.Fatalf("made again %d times, the ledger says %d", want, got)
		}
		m.Status.Operations = Next(m, inTheMiddle().build(), noon.Add(time.Second)).Operations // it is seen
	}
}

func TestSingleScalerNamesWhoInterferes(t *testing.T) {
	cases := map[string]struct {
		reason    string
		migration migrationOf
		world     *scene
		want      string // status and reason
		says      string
	}{
		"Karpenter": {"who and whose", aMigration(), inTheMiddle().with(secondKarpenter(1)), "False TwoScalers", "Karpenter kube-system/karpenter-two by Helm release kube-system/two (field manager helm)"},
		"NodePool":  {"which, and what it takes", aMigration(), inTheMiddle().with(heavierPool(50)), "False TwoScalers", "NodePool theirs by field manager kubectl-create of weight 50, which takes pods of pool general first"},
		"Lease":     {"who has it", aMigration(), inTheMiddle().withAutoscaler(theft(time.Second)), "False TwoScalers", "somebody, who took Cluster Autoscaler's Lease kube-system/cluster-autoscaler (field manager kubectl-edit)"},
		"Deleted":   {"nobody serves it", aMigration().servedBoth(), inTheMiddle().with(withoutNodePool), "False NoScaler", "Somebody deleted the NodePool of: general."},
		"Owner": {"who started it", aMigration(), comesBack(func(a *inventory.Autoscaler) {
			itLeads(a)
			a.Owner, a.ChangedBy = "Argo CD application ca", "argocd-controller"
		}),
			"False TwoScalers", "started by Argo CD application ca (field manager argocd-controller)"},
		"Before": {"before the hand-over Cluster Autoscaler is the one scaler", aMigration(), aWorld().engineInstalled().with(heavierPool(50)), "True ClusterAutoscalerServes", ""},
		"Nobody": {"it is over", aMigration().servedBoth(), inTheMiddle(), "True KarpenterServes", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := meta.FindStatusCondition(Next(tc.migration.build(), tc.world.build(), noon).Conditions, v1alpha1.ConditionSingleScaler)
			if got := string(c.Status) + " " + c.Reason; got != tc.want || !strings.Contains(c.Message, tc.says) {
				t.Errorf("%s: SingleScaler is %s (%q), want %s (%q)", tc.reason, got, c.Message, tc.want, tc.says)
			}
		})
	}
}

// second is a Cluster Autoscaler of another team's, with an election of its own.
func second(change func(*inventory.Autoscaler)) func(*World) {
	return func(w *World) {
		a := anAutoscaler("second")
		a.Owner, a.ChangedBy = "Helm release team/second", "helm"
		change(&a)
		w.Autoscalers = append(slices.Clone(w.Autoscalers), a)
	}
}

func TestASecondAutoscaler(t *testing.T) {
	const object = "deployment/kube-system/second"
	again := closed(operation("StopAutoscaler/kube-system/second", "0", time.Minute))
	again.Attempts = mostStops
	gone := func(a *inventory.Autoscaler) { a.Replicas, a.StatusReplicas, a.Pods = 0, 0, 0 }
	run(t, map[string]step{
		"Comes": {
			reason: "it is stopped as the first one was, and nothing evicted before it is gone",
			world:  inTheMiddle().with(second(func(*inventory.Autoscaler) {})),
			want:   heldUp([]string{"StopAutoscaler kube-system/second 0"}, "Wait AutoscalerRunning "+object),
		},
		"Ends": {
			reason: "its pods may act for as long as they are there",
			world:  inTheMiddle().with(second(func(a *inventory.Autoscaler) { a.Replicas = 0 })),
			want:   heldUp(nil, "Wait AutoscalerStopping "+object),
		},
		"Gone": {
			reason: "its Lease is held, so that it is a standby if it comes back",
			world:  inTheMiddle().with(second(gone)),
			want:   shiftingOn("HoldLease kube-system/second"),
		},
		"Again": {
			reason:    "where there is no election it is stopped twice at most",
			migration: aMigration().ledger(again),
			world:     inTheMiddle().with(second(func(a *inventory.Autoscaler) { a.LeaderElect = false })),
			want:      heldUp(nil, "Block TwoScalers "+object),
			says:      "by Helm release team/second (field manager helm)",
		},
		"OtherGroups": {
			reason: "one that scales other groups is nobody's business",
			world:  inTheMiddle().with(second(func(a *inventory.Autoscaler) { a.Discovery = []string{"theirs"} })),
			want:   shiftingOn(),
		},
	})
}
