package state

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCompare(t *testing.T) {
	node := func(name, group string, pairs ...string) Node {
		n := Node{ID: "i-" + name, Name: name, Group: group, Fields: Fields{"cordoned": "false", "labels[topology.kubernetes.io/zone]": "a"}}
		for i := 0; i < len(pairs); i += 2 {
			n.Fields[pairs[i]] = pairs[i+1]
		}
		return n
	}
	cases := map[string]struct {
		reason        string
		before, after State
		want          []Difference
	}{
		"Same": {
			reason: "What is as it was is no difference.",
			before: State{Objects: map[string]Fields{"group a": {"MinSize": "1"}}, Nodes: []Node{node("n1", "a")}},
			after:  State{Objects: map[string]Fields{"group a": {"MinSize": "1"}}, Nodes: []Node{node("n1", "a")}},
		},
		"Field": {
			reason: "A field that changed, one that came and one that went.",
			before: State{Objects: map[string]Fields{"group a": {"MinSize": "1", "old": "x"}}},
			after:  State{Objects: map[string]Fields{"group a": {"MinSize": "0", "new": "y"}}},
			want: []Difference{{Object: "group a", Field: "MinSize", Before: "1", After: "0"}, {Object: "group a", Field: "new", After: "y"},
				{Object: "group a", Field: "old", Before: "x"}},
		},
		"Object": {
			reason: "An object that is gone or is left over is one difference, not one for each of its fields.",
			before: State{Objects: map[string]Fields{"policy p": {exists: "true", "a": "b"}}},
			after:  State{Objects: map[string]Fields{"queue q": {exists: "true", "c": "d"}}},
			want: []Difference{{Object: "policy p", Field: exists, Before: "true", After: "false"},
				{Object: "queue q", Field: exists, Before: "false", After: "true"}},
		},
		"NodeThatStayed": {
			reason: "Of a node that stayed everything counts.",
			before: State{Nodes: []Node{node("n1", "a")}},
			after:  State{Nodes: []Node{node("n1", "a", "taints[castoff.sh/legacy:NoSchedule]", "true", "cordoned", "true")}},
			want: []Difference{{Object: "node n1", Field: "cordoned", Before: "false", After: "true"},
				{Object: "node n1", Field: "taints[castoff.sh/legacy:NoSchedule]", After: "true"}},
		},
		"Replaced": {
			reason: "Replaced nodes are as their predecessors, in whatever order, zone and type.",
			before: State{Nodes: []Node{node("n1", "a", "labels[rack]", "r1"), node("n2", "a", "cordoned", "true"), node("n3", "b", "labels[rack]", "r2")}},
			after: State{Nodes: []Node{node("m3", "b", "labels[rack]", "r2"), node("m1", "a", "cordoned", "true"),
				node("m2", "a", "labels[rack]", "r1", "labels[topology.kubernetes.io/zone]", "c", "labels[kubernetes.io/hostname]", "m2")}},
		},
		"ReplacedWithoutItsLabel": {
			reason: "A replaced node that lacks what its predecessor had.",
			before: State{Nodes: []Node{node("n1", "a", "labels[rack]", "r1"), node("n2", "a")}},
			after:  State{Nodes: []Node{node("m1", "a"), node("m2", "a")}},
			want:   []Difference{{Object: "a replaced node of a", Field: "labels[rack]", Before: "r1"}},
		},
		"ReplacedInAnotherGroup": {
			reason: "A group has its own nodes.",
			before: State{Nodes: []Node{node("n1", "a"), node("n2", "b")}},
			after:  State{Nodes: []Node{node("m1", "b"), node("m2", "b")}},
			want: []Difference{{Object: "nodes of a", Field: "replaced", Before: "1", After: "0"},
				{Object: "nodes of b", Field: "replaced", Before: "1", After: "2"}},
		},
		"NameComesBack": {
			reason: "An address comes back, and the name with it; the node is another one.",
			before: State{Nodes: []Node{{ID: "i-1", Name: "n1", Group: "a", Fields: Fields{"x": "y"}}}},
			after:  State{Nodes: []Node{{ID: "i-2", Name: "n1", Group: "b", Fields: Fields{"x": "y"}}}},
			want: []Difference{{Object: "nodes of a", Field: "replaced", Before: "1", After: "0"},
				{Object: "nodes of b", Field: "replaced", Before: "0", After: "1"}},
		},
		"NodeTooMany": {
			reason: "A node that is still Karpenter's.",
			before: State{Nodes: []Node{node("n1", "a")}},
			after:  State{Nodes: []Node{node("n1", "a"), node("k1", "no group")}},
			want:   []Difference{{Object: "nodes of no group", Field: "replaced", Before: "0", After: "1"}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Compare(tc.before, tc.after)); diff != "" {
				t.Errorf("%s\n-want +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestCompareLeavesItsArguments(t *testing.T) {
	state := func() State {
		return State{Nodes: []Node{{ID: "i-1", Name: "n1", Group: "a", Fields: Fields{"labels[topology.kubernetes.io/zone]": "z"}}, {ID: "i-2", Name: "n2", Group: "a", Fields: Fields{"x": "y"}}}}
	}
	before, after := state(), State{Nodes: []Node{{ID: "i-3", Name: "m1", Group: "a", Fields: Fields{"x": "y"}}}}
	Compare(before, after)
	if diff := cmp.Diff(state(), before); diff != "" {
		t.Errorf("a State is compared twice in a test, -want +got:\n%s", diff)
	}
}

func TestAdd(t *testing.T) {
	type tag struct{ Key, Value string }
	s := State{Objects: map[string]Fields{}}
	value := map[string]any{
		"MinSize": 3, "Zones": []string{"b", "a"}, "Tags": []tag{{"team", "x"}, {"env", "y"}}, "Nothing": nil,
		"Id": "i-1", "Nested": map[string]any{"Id": "i-2", "On": true}, "Metrics": []map[string]any{{"v": 1}, {"v": 2}},
	}
	if err := s.add("group a", "g", value, "Id"); err != nil {
		t.Fatal(err)
	}
	want := Fields{
		exists: "true", "g.MinSize": "3", "g.Zones": "a,b", "g.Tags[team].Key": "team", "g.Tags[team].Value": "x", "g.Tags[env].Key": "env", "g.Tags[env].Value": "y",
		"g.Nested.On": "true", "g.Metrics[0].v": "1", "g.Metrics[1].v": "2",
	}
	if diff := cmp.Diff(want, s.Objects["group a"]); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if s.Count() != len(want) {
		t.Errorf("Count() = %d, want %d", s.Count(), len(want))
	}
	if err := s.add("x", "", func() {}); err == nil {
		t.Error("what cannot be read is an error")
	}
}
