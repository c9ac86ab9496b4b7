package plan

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// TestSizesBack: what castoff set goes back to what was recorded; what somebody else set is left and named.
func TestSizesBack(t *testing.T) {
	const owned = "Warn ForeignSize nodegroup/g"
	group := func(minimum, maximum, desired int32) inventory.NodeGroup {
		return inventory.NodeGroup{Name: "g", AutoScalingGroup: "g", Min: minimum, Max: maximum, Desired: desired}
	}
	managed := func(g inventory.NodeGroup) inventory.NodeGroup {
		g.Managed = &inventory.ManagedNodeGroup{}
		return g
	}
	cases := map[string]struct {
		reason        string
		now, recorded inventory.NodeGroup
		accepted      bool
		want          string
		says          []string
	}{
		"Untouched":          {"nothing was changed", group(1, 10, 3), group(1, 10, 3), false, "1/10/3", nil},
		"OpenedDownwards":    {"castoff lowered min to let nodes go", group(0, 10, 2), group(1, 10, 3), false, "1/10/3", nil},
		"AtTheEnd":           {"an Auto Scaling group at its end", group(0, 0, 0), group(1, 10, 3), false, "1/10/3", nil},
		"AtTheEndManaged":    {"a managed node group at its end: EKS refuses a max of 0", managed(group(0, 1, 0)), managed(group(1, 10, 3)), false, "1/10/3", nil},
		"EmptyBefore":        {"a group that stood at 0 goes back there; castoff set its max to 1 on the way", group(0, 1, 0), group(0, 0, 0), false, "0/0/0", nil},
		"MaxRaised":          {"somebody set max to 20: it is left", group(0, 20, 0), group(1, 10, 3), false, "1/20/3", []string{owned}},
		"MaxLowered":         {"somebody lowered it below what ran: no more can run", group(0, 2, 0), group(1, 10, 3), false, "1/2/2", []string{owned}},
		"MaxOne":             {"1 is castoff's own end size only for a managed node group", group(0, 1, 0), group(1, 10, 3), false, "1/1/1", []string{owned}},
		"MaxAccepted":        {"a user who accepts it has the recorded one back", group(0, 20, 0), group(1, 10, 3), true, "1/10/3", nil},
		"MaxAcceptedInUse":   {"but never below what runs: AWS would choose whom to end", group(0, 20, 15), group(1, 10, 3), true, "1/15/15", nil},
		"MinRaised":          {"somebody set min to 2", group(2, 10, 2), group(1, 10, 3), false, "2/10/3", []string{owned}},
		"MinAboveRecorded":   {"a min above the recorded desired size raises that", group(5, 10, 5), group(1, 10, 3), false, "5/10/5", []string{owned}},
		"MinZeroBefore":      {"castoff only ever sets 0, so that was the user's when 0 was recorded", group(2, 10, 3), group(0, 10, 3), false, "2/10/3", []string{owned}},
		"MinAccepted":        {"a user who accepts it has the recorded one back", group(2, 10, 2), group(1, 10, 3), true, "1/10/3", nil},
		"BothRaised":         {"both are named in one", group(4, 40, 4), group(1, 10, 3), false, "4/40/4", []string{owned}},
		"MinOverRecordedMax": {"max is never below min: AWS refuses that", group(12, 12, 12), group(1, 10, 3), true, "1/12/12", nil},
		"DesiredRaised":      {"more nodes than recorded may run: they are in use", group(0, 10, 7), group(1, 10, 3), false, "1/10/7", nil},
		"DesiredAboveMax":    {"a desired size above the recorded max stays, and max with it", group(0, 10, 12), group(1, 10, 3), false, "1/12/12", nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			m := aMigration()
			if tc.accepted {
				m = m.accepts(CheckForeignSize, "nodegroup/g")
			}
			var o outcome
			minimum, maximum, desired := sizesBack(&o, newLook(m.m, World{}, noon), tc.now, tc.recorded)
			if got := sizes(minimum, maximum, desired); got != tc.want {
				t.Errorf("%s: sizesBack(%s, recorded %s) = %s, want %s", tc.reason, sizes(tc.now.Min, tc.now.Max, tc.now.Desired),
					sizes(tc.recorded.Min, tc.recorded.Max, tc.recorded.Desired), got, tc.want)
			}
			if diff := cmp.Diff(tc.says, shown(o.blockers)); diff != "" {
				t.Errorf("%s: what is said: -want, +got:\n%s", tc.reason, diff)
			}
			again := tc.now
			again.Min, again.Max, again.Desired = minimum, maximum, desired
			if a, b, c := sizesBack(&o, newLook(m.m, World{}, noon), again, tc.recorded); a != minimum || b != maximum || c != desired {
				t.Errorf("%s: once set, it is set to something else: %s, then %s", tc.reason, sizes(minimum, maximum, desired), sizes(a, b, c))
			}
		})
	}
}

func TestAcceptingForeignSizes(t *testing.T) {
	g := inventory.NodeGroup{Name: "general"}
	cases := map[string]struct {
		reason        string
		check, object string
		want          bool
	}{
		"ThisOne":  {"the group is named as the blocker names it", CheckForeignSize, "nodegroup/general", true},
		"All":      {"or all of them", CheckForeignSize, "*", true},
		"Another":  {"another group's is another's", CheckForeignSize, "nodegroup/batch", false},
		"OtherOne": {"another risk is another one", "BarePod", "nodegroup/general", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := acceptsForeignSize(newLook(aMigration().accepts(tc.check, tc.object).m, World{}, noon), g); got != tc.want {
				t.Errorf("%s: acceptsForeignSize() = %v, want %v", tc.reason, got, tc.want)
			}
		})
	}
}

// TestForeignSizesInTheWayBack: they are reported as long as they are there, at rest too, and stop nothing.
func TestForeignSizesInTheWayBack(t *testing.T) {
	raised := func(s *scene) *scene {
		return s.withGroup("general", func(g *inventory.NodeGroup) { g.Max = 20 })
	}
	runBack(t, map[string]step{
		"Reported": {
			reason: "the max is left, and the rest goes back", world: raised(aWorld().stilled()),
			want: backwards([]string{"SetGroupSize general 1/20/3", "SetGroupSize eks-batch 1/10/2", "HoldNode batch-0 batch", "HoldNode batch-1 batch"}, "Warn ForeignSize nodegroup/general"),
			says: "castoff leaves that as it is",
		},
		"Left": {
			reason: "nothing is left to do about it", world: raised(aWorld().returned()), want: backwards(stoppedPools, "Warn ForeignSize nodegroup/general"),
		},
		"Accepted": {
			reason: "a user who accepts it has castoff set it", migration: aMigration().accepts(CheckForeignSize, "*"), world: raised(aWorld().stilled()),
			want: backwards([]string{"SetGroupSize general 1/10/3", "SetGroupSize eks-batch 1/10/2", "HoldNode batch-0 batch", "HoldNode batch-1 batch"}),
		},
	})
}
