package plan

import (
	"testing"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

func ofKind(kind string) func(*inventory.Autoscaler) {
	return func(a *inventory.Autoscaler) { a.Kind = kind }
}

// TestWhatIsNoDeployment: castoff neither stops nor starts nor deletes it, and says who has to, and how.
func TestWhatIsNoDeployment(t *testing.T) {
	const object = "statefulset/kube-system/cluster-autoscaler"
	run(t, map[string]step{
		"HandOver": {
			reason: "the hand-over waits for the human who accepted it", world: aWorld().quiet().withAutoscaler(ofKind("StatefulSet")),
			want: hands(nil, "Block AutoscalerNotDeployment "+object), says: "kubectl scale statefulset/cluster-autoscaler -n kube-system --replicas=0",
		},
		"Pod": {
			reason: "one that has no replicas is deleted", world: aWorld().quiet().withAutoscaler(ofKind("Pod")),
			want: hands(nil, "Block AutoscalerNotDeployment pod/kube-system/cluster-autoscaler"), says: "kubectl delete pod/cluster-autoscaler -n kube-system",
		},
		"Stopping": {
			reason: "its last pod is waited for as any other", want: hands(nil, "Wait AutoscalerStopping "+object),
			world: aWorld().quiet().withAutoscaler(ofKind("StatefulSet")).withAutoscaler(func(a *inventory.Autoscaler) { a.Replicas = 0 }),
		},
		"Stopped": {
			reason: "the Lease is held, and Karpenter serves", world: aWorld().released().withAutoscaler(ofKind("StatefulSet")),
			want: hands([]string{"HoldLease kube-system/cluster-autoscaler", "EnsureNodePool general target-of-general/guarded", "EnsureNodePool batch target-of-batch/guarded"}),
		},
		"ComesBackAsStandby": {
			reason: "the Lease holds it as well as a Deployment", world: comesBack(ofKind("StatefulSet")),
			want: decided{phase: v1alpha1.PhaseShifting, actions: []string{"EvictPods general-0 general", "BeginDrain general-1"},
				blockers: []string{"Warn AutoscalerStandby " + object, "Wait Draining node/general-0"}},
		},
		"ComesBackAsLeader": {
			reason: "nothing is evicted beside it", world: comesBack(func(a *inventory.Autoscaler) { ofKind("StatefulSet")(a); itLeads(a) }),
			want: decided{phase: v1alpha1.PhaseShifting, blockers: []string{"Block AutoscalerNotDeployment " + object}},
		},
		"SameNameBesideADeployment": {
			reason: "one by the same name does not speak for the Deployment that was stopped", migration: aMigration().ledger(stops(1)),
			world: aWorld().released().with(func(w *World) {
				other := anAutoscaler("cluster-autoscaler")
				other.Kind = "StatefulSet"
				w.Autoscalers = append(w.Autoscalers, other)
			}),
			want: hands(nil, "Block AutoscalerNotDeployment "+object),
		},
		"Retire": {
			reason: "at the end it is left to be deleted by hand", migration: retireNow(), says: "Delete it by hand",
			world: aWorld().withAutoscaler(ofKind("StatefulSet")).retired(), want: finishes(nil, "Warn AutoscalerNotDeployment "+object),
		},
	})
	runBack(t, map[string]step{
		"WayBack": {
			reason: "who stopped it starts it", world: aWorld().withAutoscaler(ofKind("StatefulSet")).halted(),
			want: backwards([]string{letsGo}, "Block AutoscalerNotDeployment "+object), says: "Give it its 1 replicas",
		},
		"WayBackStarted": {
			reason: "and then the way back goes on", world: aWorld().withAutoscaler(ofKind("StatefulSet")).leading(), want: backwards(allResume),
		},
	})
}

// TestWhoseGroupsNobodyKnows: one that comes in the middle may scale a pool, so nothing is evicted beside it.
func TestWhoseGroupsNobodyKnows(t *testing.T) {
	const object = "deployment/team-a/scaler"
	comes := func(change ...func(*inventory.Autoscaler)) func(*World) {
		return func(w *World) {
			a := anAutoscaler("scaler")
			a.Deployment.Namespace, a.Lease.Namespace, a.Discovery = "team-a", "team-a", nil
			for _, f := range change {
				f(&a)
			}
			w.Autoscalers = append(w.Autoscalers, a)
		}
	}
	goesOn := decided{phase: v1alpha1.PhaseShifting, actions: []string{"EvictPods general-0 general", "BeginDrain general-1"}, blockers: []string{"Wait Draining node/general-0"}}
	stopped := func(a *inventory.Autoscaler) { a.Replicas, a.StatusReplicas, a.Pods = 0, 0, 0 }
	run(t, map[string]step{
		"Comes": {
			reason: "it waits for whoever knows", world: aWorld().shifting().draining("general-0", 2).with(comes()), says: "kubectl scale deployment/scaler -n team-a --replicas=0",
			want: decided{phase: v1alpha1.PhaseShifting, blockers: []string{"Block AutoscalerGroupsUnknown " + object}},
		},
		"Accepted": {
			reason: "who knows says so", migration: aMigration().accepts("AutoscalerGroupsUnknown", object), world: aWorld().shifting().draining("general-0", 2).with(comes()), want: goesOn,
		},
		"Stopped": {reason: "and one that is stopped scales nothing", world: aWorld().shifting().draining("general-0", 2).with(comes(stopped)), want: goesOn},
		"Others": {
			reason: "nor does one that scales others", want: goesOn,
			world: aWorld().shifting().draining("general-0", 2).with(comes(func(a *inventory.Autoscaler) { a.Static = []string{"elsewhere"} })),
		},
	})
}

// TestCase_C003_TagsAreNoProof: a Cluster Autoscaler that names its groups has let go when it is gone, and at no other time.
func TestCase_C003_TagsAreNoProof(t *testing.T) {
	static := func(a *inventory.Autoscaler) {
		a.Discovery, a.Static = nil, []string{"general", "eks-batch", "eks-system"}
	}
	untagged := func(w *World) {
		for i := range w.Groups {
			w.Groups[i].Tags = nil
		}
	}
	silent := func(a *inventory.Autoscaler) { a.Groups, a.StatusTime = nil, noon }
	run(t, map[string]step{
		"NoTags": {
			reason: "it never went by tags, so it is stopped", world: aWorld().quiet().withAutoscaler(static).with(untagged),
			want: hands([]string{"StopAutoscaler kube-system/cluster-autoscaler 0"}, "Wait AutoscalerRunning "+caObject),
		},
		"NotInItsStatus": {
			reason: "nor is its word on a moment a proof", world: aWorld().quiet().withAutoscaler(static).with(untagged).withAutoscaler(silent),
			want: hands([]string{"StopAutoscaler kube-system/cluster-autoscaler 0"}, "Wait AutoscalerRunning "+caObject),
		},
		"OnePodLeft": {
			reason: "the last pod acts", want: hands(nil, "Wait AutoscalerStopping "+caObject),
			world: aWorld().released().withAutoscaler(static).with(untagged).withAutoscaler(func(a *inventory.Autoscaler) { a.Pods = 1 }),
		},
		"Gone": {
			reason: "all of its pools change hands at once", world: aWorld().released().withAutoscaler(static).with(untagged),
			want: hands([]string{"HoldLease kube-system/cluster-autoscaler", "EnsureNodePool general target-of-general/guarded", "EnsureNodePool batch target-of-batch/guarded"}),
		},
	})
}
