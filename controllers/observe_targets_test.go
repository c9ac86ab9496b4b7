package controllers

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/plan"
)

// targetWorld has one pool of two nodes, and a Cluster Autoscaler with settings of its own.
func targetWorld() plan.World {
	template := inventory.LaunchTemplate{ID: "lt-1", Version: "3", ImageID: "ami-1", Image: &inventory.Image{ID: "ami-1", Name: "amazon-eks-node-al2023-x86_64-standard-1.33-v20260114", Architecture: "x86_64"}, Role: "node", InstanceType: "m5.large", SecurityGroups: []string{"sg-1"}}
	tags := []inventory.Tag{
		{Key: "k8s.io/cluster-autoscaler/enabled", Value: "true"},
		{Key: "k8s.io/cluster-autoscaler/node-template/label/team", Value: "stale"},
	}
	node := func(name, id string, labels map[string]string) inventory.Node {
		return inventory.Node{Name: name, InstanceID: id, Group: "general", Labels: labels, Ready: true}
	}
	return plan.World{
		Cluster: inventory.Cluster{Name: "test", Version: "1.33", SecurityGroup: "sg-1", Same: true},
		Groups: []inventory.NodeGroup{{
			Name: "general", AutoScalingGroup: "general", Min: 0, Max: 4, Desired: 2, Subnets: []string{"subnet-1"}, Zones: []string{"us-east-1a"}, Tags: tags, LaunchTemplate: template,
			Types: []inventory.InstanceType{{Name: "m5.large", VCPUs: 2, MemoryMiB: 8192, Architecture: "amd64"}},
		}, {Name: "system", AutoScalingGroup: "system", Min: 2, Max: 2, Desired: 2, LaunchTemplate: template}},
		Nodes: []inventory.Node{
			node("a", "i-1", map[string]string{"team": "a", "rack": "1"}), node("b", "i-2", map[string]string{"team": "a", "rack": "2"}),
		},
		Autoscalers: []inventory.Autoscaler{{
			Discovery: []string{"k8s.io/cluster-autoscaler/enabled"},
			Args:      []string{"--expander=priority", "--scale-down-unneeded-time=23m"}, Priorities: map[int32][]string{7: {"general"}},
		}},
	}
}

func TestTargetsFollowTheLiveClusterUntilTheSnapshot(t *testing.T) {
	o := &Observer{}
	m := testMigration()
	before := targetWorld()
	if f := o.resolve(m, &before); len(f) > 0 {
		t.Fatal(f)
	}
	target := before.Targets["general"]
	spec := target.NodePool.Spec
	if spec.Weight == nil || *spec.Weight != 7 {
		t.Errorf("the priority expander's rank is the NodePool's weight: %v", spec.Weight)
	}
	if got := spec.Disruption.ConsolidateAfter.Duration; got == nil || *got != 23*time.Minute {
		t.Errorf("how long a node is unneeded is Cluster Autoscaler's setting: %v", got)
	}
	if got := spec.Template.Labels; got["team"] == "stale" || got["rack"] != "" {
		t.Errorf("labels that the nodes do not share are not made up: %v", got)
	}

	after := targetWorld()
	after.Snapshot = roundTrip(t, &inventory.Snapshot{Pools: before.Pools, Groups: []inventory.GroupSnapshot{{Group: before.Groups[0]}}})
	after.Autoscalers, after.Nodes = nil, after.Nodes[:1] // stopped and deleted, and half of the nodes gone
	if f := o.resolve(m, &after); len(f) > 0 {
		t.Fatal(f)
	}
	if diff := cmp.Diff(target, after.Targets["general"]); diff != "" {
		t.Errorf("a change of the world changes no target once the snapshot is there (-before +after)\n%s", diff)
	}
}

func TestLookingAtLabelsChangesNoListThatIsKept(t *testing.T) {
	w := targetWorld()
	kept := w.Groups
	if (&Observer{}).resolve(testMigration(), &w); kept[0].NodeLabels != nil || w.Groups[0].NodeLabels["team"] != "a" {
		t.Errorf("kept %v, looked at %v", kept[0].NodeLabels, w.Groups[0].NodeLabels)
	}
}

// roundTrip is the snapshot as it is read back, without what is kept apart.
func roundTrip(t *testing.T, s *inventory.Snapshot) *inventory.Snapshot {
	t.Helper()
	read := func(from, to any) {
		b, err := json.Marshal(from)
		if err == nil {
			err = json.Unmarshal(b, to)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	out := &inventory.Snapshot{}
	read(s, out)
	read(s.Groups, &out.Groups)
	return out
}
