package plan

import (
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// soaked remembers that both pools were emptied an hour ago.
func (b migrationOf) soaked() migrationOf {
	return b.drained("general", noon.Add(-time.Hour)).drained("batch", noon.Add(-time.Hour))
}

func TestCompleted(t *testing.T) {
	run(t, map[string]step{
		"Quiet": {
			reason:    "a finished migration does nothing",
			migration: aMigration().soaked(),
			world:     aWorld().completed(),
			want:      decided{phase: v1alpha1.PhaseCompleted},
		},
		"Lease": {
			reason:    "but for the Lease, every 15 minutes",
			migration: aMigration().soaked(),
			world:     aWorld().completed().withAutoscaler(func(a *inventory.Autoscaler) { a.LeaseRenewed = noon.Add(-leaseRenewal) }),
			want:      decided{phase: v1alpha1.PhaseCompleted, actions: []string{"HoldLease kube-system/cluster-autoscaler"}},
		},
		"Standby": {
			reason:    "a Cluster Autoscaler that was started again is named",
			migration: aMigration().soaked(),
			world:     aWorld().completed().withAutoscaler(func(a *inventory.Autoscaler) { a.Replicas, a.StatusReplicas, a.Pods = 1, 1, 1 }),
			want:      decided{phase: v1alpha1.PhaseCompleted, blockers: []string{"Warn AutoscalerStandby " + caObject}},
		},
		"EngineIsDown": {
			reason:    "an engine that is down is said, and turns the phase not back",
			migration: aMigration().soaked(),
			world:     aWorld().completed().with(func(w *World) { w.Engine.ReadyReplicas = 0 }),
			want:      decided{phase: v1alpha1.PhaseCompleted, blockers: []string{"Wait EngineNotReady deployment/karpenter"}},
		},
		"GroupGoneByHand": {
			reason:    "a group that its owner deleted is at its end",
			migration: aMigration().soaked(),
			world:     aWorld().completed().with(func(w *World) { w.Groups = w.Groups[1:] }),
			want:      decided{phase: v1alpha1.PhaseCompleted},
		},
		"GroupScaledUpByHand": {
			reason:    "a group that somebody scaled up again is dealt with before it has a node; the max is theirs",
			migration: aMigration().soaked(),
			world:     aWorld().completed().withGroup("general", func(g *inventory.NodeGroup) { g.Max, g.Desired = 1, 1 }),
			want:      decided{phase: v1alpha1.PhaseShifting, actions: []string{"SetGroupSize general 0/1/0"}, blockers: []string{"Warn ForeignSize nodegroup/general"}},
		},
	})
	d := Next(aMigration().soaked().build(), aWorld().completed().build(), noon)
	if want := noon.Add(guard); !d.Until.Equal(want) {
		t.Errorf("a finished migration is looked at every five minutes: Until = %v, want %v", d.Until, want)
	}
}

func TestCompletedReached(t *testing.T) {
	cases := map[string]struct {
		reason string
		world  *scene
		want   bool
	}{
		"Completed":  {"everything is at its end", aWorld().completed(), true},
		"NoSnapshot": {"an empty cluster that castoff never touched is none that it finished", aWorld().completed().with(func(w *World) { w.Snapshot = nil }), false},
		"NoPools":    {"nothing to do is nothing done", aWorld().completed().with(func(w *World) { w.Pools = nil }), false},
		"NodeLeft":   {"a node is left", aWorld().shifting().finished("general"), false},
		"Min":        {"a min above 0 brings instances back", aWorld().completed().withGroup("batch", func(g *inventory.NodeGroup) { g.Min = 1 }), false},
		"Max":        {"the end size of an Auto Scaling group is 0/0/0", aWorld().completed().withGroup("general", func(g *inventory.NodeGroup) { g.Max = 10 }), false},
		"MaxForeign": {"but a max that somebody set since is theirs, and brings nothing back", aWorld().completed().withGroup("general", func(g *inventory.NodeGroup) { g.Max = 1 }), true},
		"MaxManaged": {"and of a managed node group 0/1/0", aWorld().completed().withGroup("batch", func(g *inventory.NodeGroup) { g.Max = 1 }), true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := completedReached(newLook(aMigration().soaked().build(), tc.world.build(), noon)); got != tc.want {
				t.Errorf("%s: completedReached() = %v, want %v", tc.reason, got, tc.want)
			}
		})
	}
	if completedReached(newLook(aMigration().drained("general", noon.Add(-time.Hour)).drained("batch", noon).build(), aWorld().completed().build(), noon)) {
		t.Error("a pool that is being soaked is not completed")
	}
}

// retiring wants everything deleted, completed that long ago.
func (b migrationOf) retiring(ago time.Duration, approved ...v1alpha1.ApprovalStep) migrationOf {
	b.m.Spec.Decommission.Mode, b.m.Spec.Decommission.ClusterAutoscaler = v1alpha1.DecommissionDelete, v1alpha1.DecommissionDelete
	b.m.Spec.ApprovedSteps, b.m.Status.CompletionTime = approved, stamp(noon.Add(-ago))
	return b.soaked()
}

const day = 24 * time.Hour

func retireNow(approved ...v1alpha1.ApprovalStep) migrationOf {
	return aMigration().retiring(day, append(approved, v1alpha1.ApproveDelete)...)
}

func finishes(actions []string, blockers ...string) decided {
	return decided{phase: v1alpha1.PhaseCompleted, actions: actions, blockers: blockers}
}

// retired: both groups are gone.
func (s *scene) retired() *scene {
	return s.completed().with(func(w *World) { w.Groups = w.Groups[2:] })
}

func TestDeletionIsAskedFor(t *testing.T) {
	onlyCA := aMigration().retiring(day, v1alpha1.ApproveDelete)
	onlyCA.m.Spec.Decommission.Mode = v1alpha1.DecommissionScaleToZero
	onlyGroups := aMigration().retiring(day, v1alpha1.ApproveDelete)
	onlyGroups.m.Spec.Decommission.ClusterAutoscaler = v1alpha1.DecommissionScaleToZero
	atOnce, zero := aMigration().retiring(0, v1alpha1.ApproveDelete), int32(0)
	atOnce.m.Spec.Decommission.RetentionSeconds = &zero
	never := retireNow()
	never.m.Status.CompletionTime = nil
	run(t, map[string]step{
		"Unwanted":      {reason: "by default everything is kept", migration: aMigration().soaked(), world: aWorld().completed(), want: finishes(nil)},
		"Retention":     {reason: "the way back stays open for a day by default", migration: aMigration().retiring(day-time.Second, v1alpha1.ApproveDelete), world: aWorld().completed(), want: finishes(nil)},
		"RetentionOver": {reason: "and not longer", migration: retireNow(), world: aWorld().completed(), want: finishes([]string{"DeleteGroup general"}, "Wait Deleting nodegroup/general")},
		"AtOnce":        {reason: "or as long as the user says", migration: atOnce, world: aWorld().completed(), want: finishes([]string{"DeleteGroup general"}, "Wait Deleting nodegroup/general")},
		"Unapproved": {
			reason: "it is never automatic", migration: aMigration().retiring(day), world: aWorld().completed(), want: finishes(nil, "Warn DeleteAwaitsApproval migration/prod"),
			says: "kubectl castoff approve prod Delete",
		},
		"OtherApprovals": {
			reason: "another step's approval is another's", migration: aMigration().retiring(day, v1alpha1.ApproveStart, v1alpha1.ApproveHandOver), world: aWorld().completed(),
			want: finishes(nil, "Warn DeleteAwaitsApproval migration/prod"),
		},
		"NotCompletedYet": {reason: "what is to be deleted does not keep it from being completed", migration: never, world: aWorld().completed(), want: finishes(nil)},
		"OnlyAutoscaler":  {reason: "the groups stay", migration: onlyCA, world: aWorld().completed(), want: finishes([]string{"DeleteAutoscaler kube-system/cluster-autoscaler"}, "Wait Deleting "+caObject)},
		"OnlyGroups":      {reason: "Cluster Autoscaler stays", migration: onlyGroups, world: aWorld().retired(), want: finishes(nil)},
		"Everything":      {reason: "nothing is left", migration: retireNow(), world: aWorld().retired().with(func(w *World) { w.Autoscalers = nil }), want: finishes(nil)},
		"EverythingUnapproved": {
			reason: "nothing is left to approve", migration: aMigration().retiring(day), world: aWorld().retired().with(func(w *World) { w.Autoscalers = nil }), want: finishes(nil),
		},
		"Paused": {
			reason: "a pause stops deletion too", migration: retireNow().paused(), world: aWorld().completed(), want: decided{phase: v1alpha1.PhasePaused},
		},
	})
	until := map[string]struct {
		reason    string
		migration migrationOf
		want      time.Duration
	}{
		"Retention": {"it is looked at when the retention is over, if that is soon", aMigration().retiring(day-time.Minute, v1alpha1.ApproveDelete), time.Minute},
		"Long":      {"and at its pace before", aMigration().retiring(time.Hour, v1alpha1.ApproveDelete), guard},
		"Deleting":  {"no watch reports what AWS deletes", retireNow(), soon},
	}
	for name, tc := range until {
		t.Run(name, func(t *testing.T) {
			if got := Next(tc.migration.build(), aWorld().completed().build(), noon).Until.Sub(noon); got != tc.want {
				t.Errorf("%s: looks again after %s, want %s", tc.reason, got, tc.want)
			}
		})
	}
}

func TestDeletingGroups(t *testing.T) {
	tagged := func(key, value string) func(*inventory.NodeGroup) {
		return func(g *inventory.NodeGroup) { g.Tags = append(g.Tags, inventory.Tag{Key: key, Value: value}) }
	}
	run(t, map[string]step{
		"Policies": {
			reason: "scaling policies go before their group, so that their alarms go with them", migration: retireNow(), world: aWorld().scaled("general", "cpu", "night").completed(),
			want: finishes([]string{"DeletePolicies general cpu"}, "Wait Deleting nodegroup/general"),
		},
		"OneAtATime": {
			reason: "the second one when the first is gone", migration: retireNow(), world: aWorld().completed().with(func(w *World) { w.Groups = w.Groups[1:] }),
			want: finishes([]string{"DeleteGroup eks-batch"}, "Wait Deleting nodegroup/batch"),
		},
		"UnderWay": {
			reason: "EKS takes minutes", migration: retireNow(), world: aWorld().completed().with(func(w *World) { w.Groups = w.Groups[1:] }).withGroup("batch", func(g *inventory.NodeGroup) { g.Managed.Status = "DELETING" }),
			want: finishes(nil, "Wait Deleting nodegroup/batch"),
		},
		"Owned": {
			reason: "a group that another owner has would come back; the next one goes", migration: retireNow(), world: aWorld().completed().withGroup("general", tagged("aws:cloudformation:stack-name", "nodes")),
			want: finishes([]string{"DeleteGroup eks-batch"}, "Warn OwnedElsewhere nodegroup/general", "Wait Deleting nodegroup/batch"), says: "belongs to CloudFormation (stack nodes)",
		},
		"AllOwned": {
			reason: "Cluster Autoscaler goes all the same", migration: retireNow(),
			world: aWorld().completed().withGroup("general", tagged("Terraform", "true")).withGroup("batch", tagged("castoff.sh/owner", "us")),
			want:  finishes([]string{"DeleteAutoscaler kube-system/cluster-autoscaler"}, "Warn OwnedElsewhere nodegroup/general", "Warn OwnedElsewhere nodegroup/batch", "Wait Deleting "+caObject),
		},
		"IdentityFirst": {
			reason: "EKS may take the node role's access away with a group: it is in place before", migration: retireNow(),
			world: aWorld().completed().with(func(w *World) { w.Identity.Ready, w.Identity.Missing = false, []string{"access entry"} }),
			want:  finishes([]string{"EnsureIdentity identity"}, "Warn IdentityNotReady role/nodes", "Wait Deleting nodegroup/general"), says: "is being made again: access entry.",
		},
		"IdentityConflict": {
			reason: "what castoff cannot mend it does not make worse", migration: retireNow(),
			world: aWorld().completed().with(func(w *World) { w.Identity.Ready, w.Identity.Conflict = false, "not ours" }),
			want:  finishes(nil, "Warn IdentityConflict role/nodes", "Wait Deleting nodegroup/general", "Wait IdentityNotReady role/nodes"),
		},
	})
}

// TestRetireGroupLooksAgain: completedReached looks before, so these can hardly be seen from outside.
func TestRetireGroupLooksAgain(t *testing.T) {
	for name, change := range map[string]func(*inventory.NodeGroup){
		"Instance": func(g *inventory.NodeGroup) { g.Instances = []inventory.Instance{{ID: "i-1"}} },
		"Desired":  func(g *inventory.NodeGroup) { g.Desired = 1 },
	} {
		s := aWorld().completed().withGroup("general", change)
		o := outcome{}
		retireGroup(&o, newLook(retireNow().m, s.w, noon), *s.group("general"))
		if len(o.actions) > 0 || !slices.Contains(shown(o.blockers), "Wait InstancesLeaving nodegroup/general") {
			t.Errorf("%s: a group that is not empty is never deleted: %v, %v", name, told(o.actions), shown(o.blockers))
		}
	}
}

func TestDeletingAutoscalers(t *testing.T) {
	handler := func(kind, owner string) inventory.TerminationHandler {
		return inventory.TerminationHandler{Kind: kind, Workload: types.NamespacedName{Namespace: "kube-system", Name: "nth"}, Owner: owner}
	}
	handlers := func(h ...inventory.TerminationHandler) func(*World) {
		return func(w *World) { w.TerminationHandlers = h }
	}
	deleteCA := "DeleteAutoscaler kube-system/cluster-autoscaler"
	run(t, map[string]step{
		"Stopped": {reason: "it has no work any more", migration: retireNow(), world: aWorld().retired(), want: finishes([]string{deleteCA}, "Wait Deleting "+caObject)},
		"Running": {
			reason: "one that runs may have work elsewhere", migration: retireNow(),
			world: aWorld().retired().withAutoscaler(func(a *inventory.Autoscaler) { a.Replicas, a.StatusReplicas, a.Pods = 1, 1, 1 }),
			want:  finishes(nil, "Warn AutoscalerRunning "+caObject),
		},
		"Owned": {
			reason: "what Helm would put back is left, and named", migration: retireNow(), world: aWorld().retired().withAutoscaler(func(a *inventory.Autoscaler) { a.Owner = "Helm release ca" }),
			want: finishes(nil, "Warn OwnedElsewhere "+caObject), says: "belongs to Helm release ca",
		},
		"NotRecorded": {
			reason: "one that came since is not castoff's to delete", migration: retireNow(),
			world: aWorld().retired().with(func(w *World) { w.Autoscalers[0].Deployment.Name = "another" }), want: finishes(nil),
		},
		"Handler": {
			reason: "Karpenter's queue does its work", migration: retireNow(), world: aWorld().retired().with(handlers(handler("DaemonSet", ""))),
			want: finishes([]string{deleteCA, "DeleteTerminationHandler kube-system/nth"}, "Wait Deleting "+caObject, "Wait Deleting DaemonSet/kube-system/nth"),
		},
		"OwnedHandler": {
			reason: "not if somebody would put it back; another one goes all the same", migration: retireNow(),
			world: aWorld().retired().with(func(w *World) { w.Autoscalers = nil }).with(handlers(handler("DaemonSet", "Argo CD application nth"), handler("Deployment", ""))),
			want:  finishes([]string{"DeleteTerminationHandler kube-system/nth"}, "Warn OwnedElsewhere DaemonSet/kube-system/nth", "Wait Deleting Deployment/kube-system/nth"),
			says:  "belongs to Argo CD application nth",
		},
		"HandlerUnapproved": {
			reason: "it is deleted under the same conditions", migration: aMigration().retiring(day), world: aWorld().retired().with(handlers(handler("DaemonSet", ""))),
			want: finishes(nil, "Warn DeleteAwaitsApproval migration/prod"),
		},
	})
}

func TestSickNodes(t *testing.T) {
	sick := func(age time.Duration, names ...string) *scene {
		s := aWorld().completed()
		for range names {
			s.claim("general")
		}
		s.registered()
		for i := range names {
			n := &s.w.Nodes[len(s.w.Nodes)-1-i]
			n.Name, n.Ready, n.Created = names[i], false, noon.Add(-age)
		}
		return s
	}
	run(t, map[string]step{
		"Blinks": {
			reason: "a kubelet that restarts is NotReady for a moment", migration: aMigration().soaked(), want: finishes(nil),
			world: sick(time.Hour, "x").with(func(w *World) {
				for i := range w.Nodes {
					w.Nodes[i].ReadyChanged = noon.Add(-blinkGrace)
				}
			}),
		},
		"Young": {reason: "a node that boots is NotReady for a while", migration: aMigration().soaked(), world: sick(bootGrace, "x"), want: finishes(nil)},
		"One": {
			reason: "one that stays so may have lost its access, hours after a group went", migration: aMigration().soaked(), world: sick(bootGrace+time.Second, "x"),
			want: finishes(nil, "Warn NodesNotReady nodes"), says: "1 of Karpenter's nodes are not Ready: x. If they are Unauthorized, the role nodes has lost its access",
		},
		"Many": {
			reason: "three are named, and the others counted", migration: aMigration().soaked(), world: sick(time.Hour, "e", "d", "c", "b", "a"),
			want: finishes(nil, "Warn NodesNotReady nodes"), says: "a, b, c and 2 more",
		},
		"Deleting": {
			reason: "it does not stop what was approved", migration: retireNow(), world: sick(time.Hour, "x"),
			want: finishes([]string{"DeleteGroup general"}, "Warn NodesNotReady nodes", "Wait Deleting nodegroup/general"),
		},
	})
	c := meta.FindStatusCondition(Next(aMigration().soaked().build(), sick(time.Hour, "x").build(), noon).Conditions, v1alpha1.ConditionProvisionerReady)
	if c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.ReasonNodesNotReady || !strings.Contains(c.Message, "x") {
		t.Errorf("a provisioner whose nodes are not Ready is not: %+v", c)
	}
}

// TestNeedsOfDeletion: nobody lists workloads to look for what is not to be deleted.
func TestNeedsOfDeletion(t *testing.T) {
	groupsOnly := retireNow()
	groupsOnly.m.Spec.Decommission.ClusterAutoscaler = v1alpha1.DecommissionScaleToZero
	never := retireNow()
	never.m.Status.CompletionTime = nil
	cases := map[string]struct {
		reason    string
		migration migrationOf
		want      bool
	}{
		"Approved":   {"they are to be deleted", retireNow(), true},
		"Unapproved": {"not before it is approved", aMigration().retiring(day), false},
		"Unwanted":   {"not at all by default", aMigration().soaked(), false},
		"GroupsOnly": {"not with the groups alone", groupsOnly, false},
		"Running":    {"not before the end", never, false},
		"Paused":     {"not in a pause", retireNow().paused(), false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := NeedsOf(tc.migration.build(), aWorld().completed().build()).TerminationHandlers; got != tc.want {
				t.Errorf("%s: TerminationHandlers = %v, want %v", tc.reason, got, tc.want)
			}
		})
	}
}
