package plan

import (
	"slices"
	"strings"
	"testing"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// adopted: Karpenter is somebody else's, with its queue and roles, and runs.
func (s *scene) adopted() *scene {
	s.w.Cluster.Provided = inventory.Provided{Engine: true, Queue: "theirs", NodeRole: "nodes", ControllerRole: "karpenter"}
	s.w.Interruption = inventory.Interruption{QueueName: "theirs", Ready: true}
	s.w.Identity = inventory.Identity{NodeRole: "nodes", ControllerRole: "karpenter", Ready: true}
	s.w.Engine = inventory.Engine{
		Adopted: true, Release: inventory.ReleaseDeployed, ReleaseCurrent: true, CRDsCurrent: true, Replicas: 2, ReadyReplicas: 2, NodeClassHashes: map[string]string{},
		NodePools: []karpv1.NodePool{{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}}}, NodeClaims: []inventory.NodeClaim{{Name: "theirs-1", NodePool: "theirs"}},
	}
	return s
}

func TestProvided(t *testing.T) {
	deletes := aMigration()
	deletes.m.Spec.Decommission.Mode = v1alpha1.DecommissionDelete
	cases := map[string]struct {
		reason    string
		migration migrationOf
		world     *scene
		want      []string // severity, check and object
		says      string
	}{
		"Nothing":  {reason: "castoff makes everything", world: aWorld()},
		"Fits":     {reason: "and so does what is there", world: aWorld().adopted()},
		"Misfits":  {reason: "each is told", world: aWorld().adopted().with(func(w *World) { w.Engine.Misfits = []string{"it is too old", "it works for pier"} }), want: []string{"Block ExistingKarpenter deployment/karpenter", "Block ExistingKarpenter deployment/karpenter"}, says: "it works for pier."},
		"Queue":    {reason: "before anything is changed", world: aWorld().adopted().with(func(w *World) { w.Interruption.Conflict = "no rule feeds it" }), want: []string{"Block QueueConflict queue/theirs"}, says: "no rule feeds it"},
		"Policies": {reason: "a policy of another name may grant the same", world: aWorld().adopted().with(func(w *World) { w.Identity.Lacks = []string{"AmazonEKS_CNI_Policy"} }), want: []string{"Warn NodeRoleLacksPolicies role/nodes"}, says: "AmazonEKS_CNI_Policy"},
		"Shared": {
			reason: "somebody may delete the group later", world: aWorld().adopted().withGroup("batch", func(g *inventory.NodeGroup) { g.Managed.NodeRole = "nodes" }),
			want: []string{"Warn NodeRoleShared role/nodes"}, says: "node group batch too",
		},
		"SharedAndDeleted": {
			reason: "castoff itself would take the nodes' access away", migration: deletes, world: aWorld().adopted().withGroup("batch", func(g *inventory.NodeGroup) { g.Managed.NodeRole = "nodes" }),
			want: []string{"Block NodeRoleShared role/nodes"}, says: "Name a role of Karpenter's own",
		},
		"NotShared": {reason: "castoff makes a role of its own", migration: deletes, world: aWorld().withGroup("batch", func(g *inventory.NodeGroup) { g.Managed.NodeRole = "nodes" })},
		"NameTaken": {
			reason: "castoff writes over nobody's objects", world: aWorld().adopted().with(func(w *World) {
				w.Engine.NodePools = append(w.Engine.NodePools, karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "general"}})
				w.Engine.NodeClasses = []awsv1.EC2NodeClass{{ObjectMeta: metav1.ObjectMeta{Name: "batch"}}}
			}), want: []string{"Block NameTaken nodepool/general", "Block NameTaken ec2nodeclass/batch"}, says: "Give the pool another name",
		},
		"NameOurs": {reason: "castoff's own has it", world: aWorld().served()},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if tc.migration.m == nil {
				tc.migration = aMigration()
			}
			var got []string
			said := ""
			for _, f := range Provided(tc.migration.build(), tc.world.build()) {
				got = append(got, string(f.Severity)+" "+f.Check+" "+f.Object)
				said += f.Message
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || !strings.Contains(said, tc.says) {
				t.Errorf("%s: %q; -want +got\n%s", tc.reason, said, diff)
			}
		})
	}
}

func TestAdoptedKarpenterIsNotInstalled(t *testing.T) {
	run(t, map[string]step{
		"NodeClasses": {
			reason: "the pools' EC2NodeClasses are the first thing that is made of Karpenter's",
			world:  aWorld().prepared().adopted(), want: installs([]string{"EnsureNodeClass general", "EnsureNodeClass batch"}),
		},
		"NotReady": {
			reason: "one that does not run is mended by its owner",
			world: aWorld().prepared().adopted().with(func(w *World) {
				w.Engine.ReadyReplicas, w.Engine.DeploymentMessage = 1, "1 of 2 replicas of karpenter/karpenter are ready"
			}),
			want: installs(nil, "Wait EngineNotReady deployment/karpenter"), says: "karpenter/karpenter",
		},
		"Gone": {
			reason: "and so is one that is gone", world: aWorld().prepared().adopted().with(func(w *World) { w.Engine.Replicas, w.Engine.ReadyReplicas = 0, 0 }),
			want: installs(nil, "Wait EngineNotReady deployment/karpenter"),
		},
		"QueueLost": {
			reason: "castoff makes none in its place", world: aWorld().prepared().adopted().with(func(w *World) { w.Interruption.Ready, w.Interruption.Conflict = false, "it is gone" }),
			want: installs(nil, "Block QueueConflict queue/theirs"), says: "it is gone",
		},
		"QueueAccepted": {
			reason:    "the user knows how their events arrive",
			migration: aMigration().accepts(CheckQueueConflict, "queue/theirs"),
			world:     aWorld().prepared().adopted().with(func(w *World) { w.Interruption.Ready, w.Interruption.Conflict = false, "fed by a bus of its own" }),
			want:      installs([]string{"EnsureNodeClass general", "EnsureNodeClass batch"}),
		},
		"ManagedIsNotAccepted": {
			reason:    "castoff's own queue is made, or it is not there",
			migration: aMigration().accepts(CheckQueueConflict, "queue/test"),
			world:     aWorld().prepared().awsReady().with(func(w *World) { w.Interruption.Ready, w.Interruption.Conflict = false, "somebody's" }),
			want:      installs(nil, "Block QueueConflict queue/test"),
		},
	})
}

// TestAdoptedKarpenterStays: the way back takes castoff's objects, and leaves Karpenter with all that its owner has.
func TestAdoptedKarpenterStays(t *testing.T) {
	s := aWorld().adopted()
	s.w.Snapshot = nil
	before := newSnapshot(newLook(aMigration().build(), s.build(), noon)).Before
	if diff := cmp.Diff(inventory.Before{Release: true}, before); diff != "" {
		t.Errorf("the snapshot knows that it was there: -want +got\n%s", diff)
	}
	world := aWorld().declassed().adopted().with(func(w *World) { w.Snapshot.Before = before })
	o := outcome{}
	removeKarpenter(&o, &ledger{}, newLook(aMigration().paused().rollBack().build(), world.build(), noon))
	if len(o.actions) > 0 || len(o.blockers) > 0 {
		t.Errorf("left to do: %v, %v", told(o.actions), shown(o.blockers))
	}
}

func TestCase_C050_TheQueueComesBeforeHelm(t *testing.T) {
	run(t, map[string]step{
		"Queue": {
			reason: "Karpenter ends at its start when the queue of the name is not there",
			world:  aWorld().prepared().awsReady().with(func(w *World) { w.Interruption.Ready, w.Engine.CRDsCurrent = false, true }),
			want:   installs([]string{"EnsureInterruption interruption"}, "Wait InterruptionNotReady queue/test"),
		},
		"Roles": {
			reason: "and when its role may not ask for it",
			world:  aWorld().prepared().awsReady().with(func(w *World) { w.Identity.Ready, w.Engine.CRDsCurrent = false, true }),
			want:   installs([]string{"EnsureIdentity identity"}, "Wait IdentityNotReady role/nodes"),
		},
		"Then": {
			reason: "then Helm", world: aWorld().prepared().awsReady().with(func(w *World) { w.Engine.CRDsCurrent = true }),
			want: installs([]string{"InstallEngine engine"}, "Wait ReleaseNotCurrent release/karpenter"),
		},
		"NoQueue": {
			reason: "with interruptions off nothing is waited for",
			world: aWorld().prepared().awsReady().with(func(w *World) {
				w.Cluster.Provided.NoQueue, w.Interruption, w.Engine.CRDsCurrent = true, inventory.Interruption{Ready: true}, true
			}),
			want: installs([]string{"InstallEngine engine"}, "Wait ReleaseNotCurrent release/karpenter"),
		},
	})
}

// TestCase_C048_TheHomeIsNeverTouched: two nodes for two replicas are asked for in pkg/preflight; here, nothing that a migration
// asks for on its whole way, there and back, is about the home.
func TestCase_C048_TheHomeIsNeverTouched(t *testing.T) {
	for seed := range int64(8) {
		k := aWalk(t, seed, aMigration().soak(0), aWorld())
		k.completes()
		for _, n := range k.truth.w.Nodes {
			if n.Group == "system" && (n.Unschedulable || len(n.Taints) > 0 || len(castoffs(n)) > 0) {
				t.Errorf("node %s of the home is cordoned, tainted or marked: %+v", n.Name, n)
			}
		}
		if g := k.truth.group("system"); g.Desired != 2 || g.Min > 2 {
			t.Errorf("the home has size %d", g.Desired)
		}
		if e := k.truth.w.Engine; e.ReadyReplicas != e.Replicas || e.Replicas != 2 {
			t.Errorf("%d of %d replicas of Karpenter's are Ready", e.ReadyReplicas, e.Replicas)
		}
		k.back().rollsBack()
		if g := k.truth.group("system"); g.Desired != 2 {
			t.Errorf("after the way back the home has size %d", g.Desired)
		}
	}
}

// TestCase_C059_LostAccessIsGivenBackAtOnce: EKS takes the role's access away hours after a node group is deleted. Whatever the
// migration is doing then, one look gives it back; Karpenter's role is its own, so that it is rarely needed.
func TestCase_C059_LostAccessIsGivenBackAtOnce(t *testing.T) {
	lost := func(s *scene) *scene {
		return s.with(func(w *World) {
			w.Identity.Ready, w.Identity.Missing = false, []string{"access entry of role/nodes"}
		})
	}
	cases := map[string]struct {
		reason string
		world  *scene
	}{
		"Shifting":  {"while nodes still join", lost(aWorld().shifting())},
		"Completed": {"and when all is done but for the deletion of groups", lost(aWorld().completed())},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := Next(aMigration().build(), tc.world.build(), noon)
			if !slices.Contains(told(d.Actions), "EnsureIdentity identity") || !slices.Contains(shown(d.Blockers), "Warn IdentityNotReady role/nodes") {
				t.Errorf("%s: %v, %v", tc.reason, told(d.Actions), shown(d.Blockers))
			}
		})
	}
	t.Run("OfSomebodyElses", func(t *testing.T) {
		s := aWorld().completed()
		s.w.Cluster.Provided = inventory.Provided{NodeRole: "nodes", ControllerRole: "karpenter"}
		s.w.Identity = inventory.Identity{NodeRole: "nodes", Conflict: "access entry of role/nodes is missing"}
		d := Next(aMigration().build(), s.build(), noon)
		if slices.Contains(told(d.Actions), "EnsureIdentity identity") || !slices.Contains(shown(d.Blockers), "Warn IdentityConflict role/nodes") {
			t.Errorf("what castoff did not make is told, not made: %v, %v", told(d.Actions), shown(d.Blockers))
		}
	})
}
