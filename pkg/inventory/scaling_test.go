package inventory

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestScalingOf(t *testing.T) {
	groups := []NodeGroup{{Name: "a", AutoScalingGroup: "eks-spot-a"}, {Name: "b", AutoScalingGroup: "eks-spot-b"}}
	autoscaler := func(priorities map[int32][]string, args ...string) Autoscaler {
		return Autoscaler{Static: []string{"eks-spot-b"}, Args: args, Priorities: priorities}
	}
	cases := map[string]struct {
		reason      string
		autoscalers []Autoscaler
		want        *Scaling
	}{
		"None": {
			reason: "nobody scales the groups",
		},
		"Another": {
			reason:      "one that scales other groups says nothing of these",
			autoscalers: []Autoscaler{{Static: []string{"other"}, Args: []string{"--v=4"}}},
		},
		"Flags": {
			reason:      "in every way that Go's flags can be written",
			autoscalers: []Autoscaler{autoscaler(nil, "./cluster-autoscaler", "--v=4", "--scale-down-unneeded-time", "5m", "-scan-interval=20s", "--balance-similar-node-groups", "--expander=\"least-waste\"", "--", "-")},
			want: &Scaling{Flags: map[string]string{
				"v": "4", "scale-down-unneeded-time": "5m", "scan-interval": "20s", "balance-similar-node-groups": "true", "expander": "least-waste",
			}},
		},
		"Shell": {
			reason:      "a script is taken apart; what begins with a dash is one argument",
			autoscalers: []Autoscaler{autoscaler(nil, "/bin/sh", "-c", "exec ./cluster-autoscaler \\\n  --expander=priority '--scan-interval' 20s", "--nodes=1:2:a b")},
			want:        &Scaling{Flags: map[string]string{"c": "exec", "expander": "priority", "scan-interval": "20s", "nodes": "1:2:a b"}},
		},
		"LastCounts": {
			reason:      "a flag that is given twice",
			autoscalers: []Autoscaler{autoscaler(nil, "--v=4", "--v=1")},
			want:        &Scaling{Flags: map[string]string{"v": "1"}},
		},
		"Priority": {
			reason:      "priorities that are weights stay what they are",
			autoscalers: []Autoscaler{autoscaler(map[int32][]string{10: {".*"}, 50: {"nothing", ".*spot.*"}}, "--expander=priority")},
			want:        &Scaling{Flags: map[string]string{"expander": "priority"}, Weight: 50},
		},
		"PriorityRanked": {
			reason:      "priorities that are none become ranks, the highest first",
			autoscalers: []Autoscaler{autoscaler(map[int32][]string{-5: {".*"}, 1000: {"on-demand"}, 200: {"spot-b$"}}, "--expander=least-waste,priority")},
			want:        &Scaling{Flags: map[string]string{"expander": "least-waste,priority"}, Weight: 99},
		},
		"PriorityWithoutMatch": {
			reason:      "a group that no expression matches has no weight; one that is no expression matches nothing",
			autoscalers: []Autoscaler{autoscaler(map[int32][]string{10: {"on-demand", "("}}, "--expander=priority")},
			want:        &Scaling{Flags: map[string]string{"expander": "priority"}},
		},
		"OtherExpander": {
			reason:      "a ConfigMap that nobody reads says nothing",
			autoscalers: []Autoscaler{autoscaler(map[int32][]string{10: {".*"}}, "--expander=random")},
			want:        &Scaling{Flags: map[string]string{"expander": "random"}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, ScalingOf(tc.autoscalers, groups)); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

func TestWeightsStayInBounds(t *testing.T) {
	priorities := map[int32][]string{}
	for i := range int32(300) {
		priorities[i*7-1000] = []string{fmt.Sprintf("^g%d$", i)}
	}
	last := int32(0)
	for i := range 300 {
		w := weightOf(priorities, []NodeGroup{{AutoScalingGroup: fmt.Sprintf("g%d", i)}})
		if w < 1 || w > 100 || w < last {
			t.Errorf("group %d has weight %d after %d: want 1 to 100, in the order of the priorities", i, w, last)
		}
		last = w
	}
}

func TestSharedLabels(t *testing.T) {
	nodes := []Node{
		{Group: "a", Labels: map[string]string{"team": "x", "zone": "1", "only": "here"}},
		{Group: "a", Labels: map[string]string{"team": "x", "zone": "2"}},
		{Group: "b", Labels: map[string]string{"team": "y"}},
		{Labels: map[string]string{"team": "z"}},
	}
	cases := map[string]struct {
		reason string
		group  string
		want   map[string]string
	}{
		"Shared":  {"what differs, or is not everywhere, is no label of the group", "a", map[string]string{"team": "x"}},
		"One":     {"one node has all of its own", "b", map[string]string{"team": "y"}},
		"NoNodes": {"nil, not empty: nothing is known", "c", nil},
		"NoGroup": {"nodes of no group are no group", "", nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, SharedLabels(nodes, tc.group)); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
	if nodes[0].Labels["zone"] != "1" {
		t.Error("the caller's labels were written to")
	}
}

// FuzzScalingOf holds for whatever arguments and priorities: names of flags are names, and a weight is one that a NodePool takes.
func FuzzScalingOf(f *testing.F) {
	f.Add("--expander=priority\n--scale-down-unneeded-time=10m", ".*", int32(10), ".*spot.*", int32(50))
	f.Add("-v\n4\n--expander\npriority,least-waste\n--", "(", int32(-5), "", int32(2147483647))
	f.Add("--=x\n---expander=priority\n=", "general", int32(0), "general", int32(0))
	f.Fuzz(func(t *testing.T, args, first string, p1 int32, second string, p2 int32) {
		group := NodeGroup{Name: "general", AutoScalingGroup: "general", Tags: []Tag{{Key: "enabled"}}}
		a := Autoscaler{Discovery: []string{"enabled"}, Args: strings.Split(args, "\n"), Priorities: map[int32][]string{p1: {first}, p2: {second}}}
		got := ScalingOf([]Autoscaler{a}, []NodeGroup{group})
		if got == nil {
			t.Fatal("the group is managed")
		}
		for name := range got.Flags {
			if name == "" || strings.HasPrefix(name, "-") {
				t.Errorf("flag %q of %q", name, args)
			}
		}
		if got.Weight < 0 || got.Weight > 100 {
			t.Errorf("weight %d of priorities %d and %d", got.Weight, p1, p2)
		}
	})
}
