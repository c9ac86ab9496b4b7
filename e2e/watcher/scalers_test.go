package watcher

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/castoff-sh/castoff/e2e/awssim/simapi"
)

var twoGroups = []simapi.Group{{Name: "general", Max: 10, Desired: 6}, {Name: "eks-batch-1234", NodeGroup: "batch", Max: 8, Desired: 4}, {Name: "eks-system-1", NodeGroup: "system", Desired: 2}}

// served is Cluster Autoscaler at work on both groups, its Lease renewed at 0.
func served(more ...seen) []seen {
	return append([]seen{{0, twoGroups}, {0, caPod("ca-1")}, {0, lease("ca-1", 0, 15)}, {0, statusOf("general", "eks-batch-1234")}}, more...)
}

// karpenters are both pools served by NodePools, castoff holding the Lease.
func karpenters(more ...seen) []seen {
	return append([]seen{{0, twoGroups}, {0, lease("castoff", 0, 3600)}, {0, nodePool("general")}, {0, nodePool("batch")}}, more...)
}

func TestScalers(t *testing.T) {
	type times struct{ Unserved, Double float64 }
	cases := map[string]struct {
		reason string
		story  []seen
		end    float64
		want   times
		atRest int
	}{
		"NothingYet": {
			reason: "Before anything serves a pool nobody is missed, but at rest it has no scaler.",
			story:  []seen{{0, twoGroups}}, end: 100, atRest: 2,
		},
		"Autoscaler": {
			reason: "A leader that renews its Lease serves what it lists.",
			story:  served(seen{10, lease("ca-1", 10, 15)}), end: 20,
		},
		"LeaseExpires": {
			reason: "A Lease that is not renewed runs out at its own time, between two observations.",
			story:  served(), end: 40, want: times{Unserved: 25}, atRest: 2,
		},
		"OneGroupUnlisted": {
			reason: "A group that is not listed is not served; the longest pool counts, not the sum.",
			story:  served(seen{5, statusOf("general")}), end: 14, want: times{Unserved: 9}, atRest: 1,
		},
		"HandOver": {
			reason: "Stopped, then NodePools: the time in between is measured once for both pools.",
			story: served(seen{10, Gone{statusOf()}}, seen{10.5, Gone{caPod("ca-1")}}, seen{11, lease("castoff", 11, 3600)},
				seen{12, nodePool("general")}, seen{13, nodePool("batch")}), end: 100,
			want: times{Unserved: 3},
		},
		"LeftRunning": {
			reason: "A leader beside a NodePool is two scalers.",
			story:  served(seen{5, nodePool("general")}, seen{10, lease("ca-1", 10, 15)}, seen{20, lease("ca-1", 20, 15)}), end: 25,
			want: times{Double: 20},
		},
		"DiscoveryTagGone": {
			reason: "A group out of the status is Karpenter's alone.",
			story:  served(seen{4, statusOf("eks-batch-1234")}, seen{5, nodePool("general")}), end: 14,
			want: times{Unserved: 1},
		},
		"LeaseTakenFromARunningLeader": {
			reason: "A running leader acts for ten more seconds after its Lease was taken.",
			story:  served(seen{5, lease("castoff", 5, 3600)}, seen{5, nodePool("general")}, seen{5, nodePool("batch")}), end: 60,
			want: times{Double: 10},
		},
		"WithoutElection": {
			reason: "A Cluster Autoscaler without leader election is not stopped by a held Lease.",
			story: []seen{{0, twoGroups}, {0, caPod("ca-2", "--leader-elect=false")}, {0, lease("castoff", 0, 3600)}, {0, statusOf("general", "eks-batch-1234")},
				{0, nodePool("general")}, {0, nodePool("batch")}}, end: 7,
			want: times{Double: 7},
		},
		"StandbyBesideKarpenter": {
			reason: "A standby with no status is no second scaler.",
			story:  []seen{{0, twoGroups}, {0, lease("castoff", 0, 3600)}, {0, nodePool("general")}, {0, nodePool("batch")}, {3, caPod("ca-2")}}, end: 50,
		},
		"NodePoolWithZeroLimit": {
			reason: "A NodePool that may not launch serves nobody.",
			story:  []seen{{0, twoGroups}, {0, nodePool("general")}, {0, nodePool("batch")}, {5, nodePool("general", notLaunching)}}, end: 9,
			want: times{Unserved: 4}, atRest: 1,
		},
		"NodePoolNotReady": {
			reason: "Nor does one that is not Ready.",
			story:  []seen{{0, twoGroups}, {0, nodePool("general")}, {0, nodePool("batch")}, {5, nodePool("batch", poolNotReady)}}, end: 9,
			want: times{Unserved: 4}, atRest: 1,
		},
		"HandBack": {
			reason: "NodePools stop, the Lease is let go, a new leader lists the groups: what lies in between is measured.",
			story: karpenters(seen{10, nodePool("general", notLaunching)}, seen{10.5, nodePool("batch", notLaunching)}, seen{11, lease("", 11, 1)},
				seen{12, caPod("ca-2")}, seen{13, lease("ca-2", 13, 15)}, seen{14, statusOf("general", "eks-batch-1234")}), end: 20,
			want: times{Unserved: 4},
		},
		"HandBackTooEarly": {
			reason: "A leader that is started before the NodePools stop is the second scaler until they do.",
			story: karpenters(seen{10, caPod("ca-2")}, seen{11, lease("ca-2", 11, 15)}, seen{12, statusOf("general", "eks-batch-1234")},
				seen{15, nodePool("general", notLaunching)}, seen{18, nodePool("batch", notLaunching)}), end: 20,
			want: times{Double: 6},
		},
		"HandBackOfOneOnly": {
			reason: "The status of a leader that lists one group leaves the other without anybody.",
			story: karpenters(seen{10, nodePool("general", notLaunching)}, seen{10, nodePool("batch", notLaunching)}, seen{10, caPod("ca-2")},
				seen{10, lease("ca-2", 10, 15)}, seen{12, statusOf("general")}), end: 20,
			want: times{Unserved: 10}, atRest: 1,
		},
		"ThereAndBackAgain": {
			reason: "Every change of hands of a pool counts; they add up.",
			story: served(seen{5, Gone{statusOf()}}, seen{5, Gone{caPod("ca-1")}}, seen{6, nodePool("general")}, seen{6, nodePool("batch")},
				seen{20, nodePool("general", notLaunching)}, seen{20, nodePool("batch", notLaunching)}, seen{20, caPod("ca-2")},
				seen{21, lease("ca-2", 21, 15)}, seen{22, statusOf("general", "eks-batch-1234")}), end: 30,
			want: times{Unserved: 3},
		},
		"LeaderKilled": {
			reason: "A leader that was killed leaves a Lease and a status behind, and serves nobody.",
			story:  served(seen{5, Gone{caPod("ca-1")}}), end: 9, want: times{Unserved: 4}, atRest: 2,
		},
		"NodePoolDeleted": {
			reason: "Nor one that is gone.",
			story:  []seen{{0, twoGroups}, {0, nodePool("general")}, {0, nodePool("batch")}, {5, Gone{nodePool("batch")}}}, end: 9,
			want: times{Unserved: 4}, atRest: 1,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			report := tell(t, tc.end, tc.story...)
			got := times{Unserved: report.UnservedSeconds, Double: report.DoubleServedSeconds}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\n-want +got:\n%s", tc.reason, diff)
			}
			if len(report.atRest) != tc.atRest {
				t.Errorf("%s\npools without a scaler at rest: got %v, want %d", tc.reason, report.atRest, tc.atRest)
			}
		})
	}
}

func TestGroupsAndReplicas(t *testing.T) {
	report := tell(t, 1, seen{0, twoGroups}, seen{0, caDeployment(1)})
	want := map[string]GroupSize{"general": {Max: 10, Desired: 6}, "batch": {Max: 8, Desired: 4}}
	if diff := cmp.Diff(want, report.Groups); diff != "" {
		t.Errorf("managed groups go by EKS' name and the home is left out, -want +got:\n%s", diff)
	}
	if report.CAReplicas != 1 {
		t.Errorf("CAReplicas = %d, want 1", report.CAReplicas)
	}
	if got := tell(t, 1, seen{0, caDeployment(1)}, seen{0.5, Gone{caDeployment(1)}}).CAReplicas; got != 0 {
		t.Errorf("a deleted Deployment has %d replicas", got)
	}
}

func TestHandOverIsWorthReading(t *testing.T) {
	j := judgeOf(t, served()...)
	cases := []struct {
		what any
		want string
	}{
		{caDeployment(1), "scaled to 1"},
		{caDeployment(0), "scaled to 0"},
		{Gone{statusOf()}, "Cluster Autoscaler manages []"},
		{lease("castoff", 3, 3600), "held by castoff"},
		{nodePool("general"), "NodePool general serves pool general"},
		{nodePool("general", notLaunching), "NodePool general no longer serves pool general"},
		{migration("HandingOver"), "phase HandingOver"},
	}
	for _, tc := range cases {
		notes := j.Observe(second(3), tc.what)
		if len(notes) != 1 || !strings.Contains(notes[0].Text, tc.want) {
			t.Errorf("notes = %v, want one with %q", notes, tc.want)
		}
		if again := j.Observe(second(3), tc.what); len(again) != 0 && !strings.Contains(tc.want, "NodePool") {
			t.Errorf("what did not change is not told again: %v", again)
		}
	}
}
