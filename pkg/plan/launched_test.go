package plan

import (
	"slices"
	"testing"
	"time"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// TestCase_C086_TheEngineStaysForItsInstances: one without a NodeClaim would run for ever once nobody looks for it.
func TestCase_C086_TheEngineStaysForItsInstances(t *testing.T) {
	left := func(ids ...string) func(*World) { return func(w *World) { w.Launched = ids } }
	waited := func(d time.Duration) migrationOf {
		m := aMigration()
		m.m.Status.Blockers = []v1alpha1.Blocker{{Severity: v1alpha1.SeverityWait, Reason: "InstancesLeft", Object: "release/karpenter", Since: stamp(noon.Add(-d))}}
		return m
	}
	uninstalls := backwards([]string{"UninstallEngine engine"}, "Wait ReleaseEnding release/karpenter")
	many := slices.Repeat([]string{"i-0123456789abcdef0"}, 500)
	runBack(t, map[string]step{
		"Left":     {reason: "Karpenter looks for such by itself", world: aWorld().declassed().with(left("i-1", "i-2", "i-3", "i-4")), want: backwards(nil, "Wait InstancesLeft release/karpenter"), says: "4 instances that Karpenter launched have no NodeClaim any more, i-1, i-2, i-3 among them"},
		"Stays":    {reason: "but not for ever", migration: waited(launchedPatience), world: aWorld().declassed().with(left("i-1", "i-2")), want: backwards(nil, "Block InstancesLeft release/karpenter"), says: "aws ec2 terminate-instances --instance-ids i-1 i-2"},
		"Patience": {reason: "it is given its time", migration: waited(launchedPatience - time.Second), world: aWorld().declassed().with(left("i-1")), want: backwards(nil, "Wait InstancesLeft release/karpenter")},
		"None":     {reason: "nothing is left", world: aWorld().declassed(), want: uninstalls},
		"NotOurs": {
			reason: "a Karpenter that was there before has instances of its own", want: backwards([]string{"RemoveCRDs engine", "RemoveInterruption interruption", "RemoveIdentity identity"}[:1], "Wait CRDsEnding customresourcedefinition"),
			world: aWorld().declassed().with(left("i-1")).with(func(w *World) { s := *w.Snapshot; s.Before.Release = true; w.Snapshot = &s }),
		},
		"Many": {reason: "a status has room for some of them", migration: waited(launchedPatience), world: aWorld().declassed().with(left(many...)), want: backwards(nil, "Block InstancesLeft release/karpenter"), says: "500 instances"},
	})
	d := Next(waited(launchedPatience).rollBack().build(), aWorld().declassed().with(left(many...)).build(), noon)
	if n := len(d.Blockers[0].Message); n > 1024 {
		t.Errorf("a message of %d bytes, more than the API takes", n)
	}
}

func TestNeedsLaunched(t *testing.T) {
	cases := map[string]struct {
		reason    string
		migration migrationOf
		world     *scene
		want      bool
	}{
		"WayBack":   {"before the engine goes", aMigration().rollBack(), aWorld().declassed(), true},
		"NodesLeft": {"while NodeClaims are left nobody asks AWS", aMigration().rollBack(), aWorld().cordoned(), false},
		"Gone":      {"nor when the engine is gone", aMigration().rollBack(), aWorld().uninstalled(), false},
		"Forward":   {"nor on the way forward", aMigration(), aWorld().declassed(), false},
		"Untouched": {"nor where nothing was changed", aMigration().rollBack(), aWorld(), false},
		"Foreign":   {"nor beside another's release", aMigration().rollBack(), aWorld().declassed().with(func(w *World) { w.Engine.Release = inventory.ReleaseForeign }), false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := NeedsOf(tc.migration.build(), tc.world.build()).Launched; got != tc.want {
				t.Errorf("%s: Launched = %t, want %t", tc.reason, got, tc.want)
			}
		})
	}
}
