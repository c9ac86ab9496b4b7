package nodegroup

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/google/go-cmp/cmp"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/e2e/awssim/simapi"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// A group that was hidden and shown has the tags that it had, values and propagation too, however often either was asked for.
func TestHideAndShow(t *testing.T) {
	l := newLab(t)
	l.group(t, "memory", func(in *autoscaling.CreateAutoScalingGroupInput) {
		for key, value := range map[string]string{"kubernetes.io/cluster/harbor": "owned", "k8s.io/cluster-autoscaler/enabled": "yes"} {
			in.Tags = append(in.Tags, astypes.Tag{Key: aws.String(key), Value: aws.String(value), PropagateAtLaunch: aws.Bool(true)})
		}
	})
	before := l.list(t)["memory"]
	autoscaler := inventory.Autoscaler{Discovery: []string{"k8s.io/cluster-autoscaler/enabled"}}
	keys, hides := autoscaler.FoundBy(before)
	if !hides || !autoscaler.Manages(before) {
		t.Fatalf("the group cannot be hidden: %v, tags %v", keys, before.Tags)
	}
	twice := func(do func() error) inventory.NodeGroup {
		t.Helper()
		for range 2 {
			if err := do(); err != nil {
				t.Fatal(err)
			}
		}
		l.settle()
		return l.list(t, "memory")["memory"]
	}
	hidden := twice(func() error { return l.port.HideGroup(t.Context(), "memory", keys) })
	if _, marked := hidden.Tag(v1alpha1.TagHandedOver); !marked || autoscaler.Manages(hidden) || len(hidden.Tags) != len(before.Tags) {
		t.Errorf("hidden: want the mark in place of what it was found by: %v", hidden.Tags)
	}
	shown := twice(func() error { return l.port.ShowGroup(t.Context(), "memory", before.DiscoveryTags()) })
	if diff := cmp.Diff(before.Tags, shown.Tags); diff != "" {
		t.Errorf("shown again: -before +after\n%s", diff)
	}
}

// What was half done is done by asking again: the mark is there before the first tag goes, and until the last is back.
func TestHideAndShowHalfDone(t *testing.T) {
	l := newLab(t)
	l.group(t, "memory", nil)
	before := l.list(t)["memory"]
	l.fault(t, simapi.Fault{Service: "autoscaling", Operation: "DeleteTags", Code: "AccessDenied", Status: 403, Times: 2})
	if err := l.port.HideGroup(t.Context(), "memory", []string{"k8s.io/cluster-autoscaler/enabled"}); inventory.ClassOf(err) != inventory.ClassTerminal {
		t.Errorf("HideGroup without the right to delete tags: %v, want a terminal error", err)
	}
	l.settle()
	if _, marked := l.list(t)["memory"].Tag(v1alpha1.TagHandedOver); !marked {
		t.Error("the group is not marked before its tags go")
	}
	if err := l.port.ShowGroup(t.Context(), "memory", before.DiscoveryTags()); err == nil {
		t.Error("ShowGroup says that the mark is off, and it is not")
	}
}
