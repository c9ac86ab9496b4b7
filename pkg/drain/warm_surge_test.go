package drain

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// hashed is a pod of Deployment web's first template.
func hashed(p *corev1.Pod) { p.Labels[appsv1.DefaultDeploymentUniqueLabelKey] = "1" }

// TestWarmLeavesOutWhatSurges: while its Deployment is rolled out a pod's successor has a place of its own, or asks for one; a placeholder
// beside it would be paid for and never used.
func TestWarmLeavesOutWhatSurges(t *testing.T) {
	mine := string(owner.UID)
	for name, tc := range map[string]struct {
		reason string
		change []func(*appsv1.Deployment)
		pod    func(*corev1.Pod)
		warm   bool
	}{
		"RollingOut":   {"its successor is on its way", []func(*appsv1.Deployment){noted(mine), rollingOut}, hashed, false},
		"NotSeenYet":   {"its controller has not begun", []func(*appsv1.Deployment){noted(mine), func(d *appsv1.Deployment) { d.Generation++ }}, hashed, false},
		"NotRestarted": {"its turn comes, and then its successor takes the placeholder's room", nil, hashed, true},
		"Done":         {"the pod came to this node after all, and is evicted like any other", []func(*appsv1.Deployment){noted(mine)}, hashed, true},
		"GaveUp":       {"its successor does not come", []func(*appsv1.Deployment){noted(mine), rollingOut, givenUp}, hashed, true},
		"Another":      {"that restart was for a migration that is over", []func(*appsv1.Deployment){noted("other-uid"), rollingOut}, hashed, true},
		"Users":        {"a user's own rollout moves nothing off the node for castoff", []func(*appsv1.Deployment){rollingOut}, hashed, true},
		"NoHash":       {"a ReplicaSet that is nobody's", []func(*appsv1.Deployment){noted(mine), rollingOut}, func(*corev1.Pod) {}, true},
		"OtherName":    {"nor one whose name only looks like it", []func(*appsv1.Deployment){noted(mine), rollingOut}, func(p *corev1.Pod) { p.Labels[appsv1.DefaultDeploymentUniqueLabelKey] = "x" }, true},
	} {
		t.Run(name, func(t *testing.T) {
			c := faked(interceptor.Funcs{}, append(deployed(tc.change...), idleNode("old"), pod("a", tc.pod))...)
			d := New(c, c, clock).WithRoom(room)
			if err := d.Warm(t.Context(), "old", "general", owner); err != nil {
				t.Fatal(err)
			}
			if rooms, err := d.Placeholders(t.Context()); err != nil || len(rooms) == 1 != tc.warm {
				t.Errorf("%s: placeholders %v, %v", tc.reason, rooms, err)
			}
		})
	}
}

// TestWarmWithoutItsDeployment: one that is gone restarts nothing, and one that cannot be read is no reason to guess.
func TestWarmWithoutItsDeployment(t *testing.T) {
	gone := faked(interceptor.Funcs{}, idleNode("old"), pod("a", hashed))
	d := New(gone, gone, clock).WithRoom(room)
	if err := d.Warm(t.Context(), "old", "general", owner); err != nil {
		t.Fatal(err)
	}
	if rooms, err := d.Placeholders(t.Context()); err != nil || len(rooms) != 1 {
		t.Errorf("without its Deployment: placeholders %v, %v", rooms, err)
	}
	broken := faked(interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
		if _, ok := o.(*appsv1.Deployment); ok {
			return forbidden("deployments")
		}
		return c.Get(ctx, key, o, opts...)
	}}, idleNode("old"), pod("a", hashed))
	err := New(broken, broken, clock).WithRoom(room).Warm(t.Context(), "old", "general", owner)
	if inventory.ClassOf(err) != inventory.ClassTerminal {
		t.Errorf("an unreadable Deployment: %v", err)
	}
}
