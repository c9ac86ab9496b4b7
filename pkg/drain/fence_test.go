package drain

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

func noSchedule(key string) corev1.Taint {
	return corev1.Taint{Key: key, Value: "true", Effect: corev1.TaintEffectNoSchedule}
}

var (
	softTaint = corev1.Taint{Key: v1alpha1.TaintLegacy, Value: "true", Effect: corev1.TaintEffectPreferNoSchedule}
	hardTaint = noSchedule(v1alpha1.TaintLegacy)
)

// shape is what the drain changes on a node.
type shape struct {
	Labels, Annotations map[string]string
	Taints              []corev1.Taint
	Unschedulable       bool
}

func (s shape) node(name string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: maps.Clone(s.Labels), Annotations: maps.Clone(s.Annotations)},
		Spec:       corev1.NodeSpec{Taints: slices.Clone(s.Taints), Unschedulable: s.Unschedulable},
	}
}

func shapeOf(n *corev1.Node) shape {
	return shape{Labels: n.Labels, Annotations: n.Annotations, Taints: n.Spec.Taints, Unschedulable: n.Spec.Unschedulable}
}

func (s shape) inventory() inventory.Node {
	return inventory.Node{Labels: s.Labels, Annotations: s.Annotations, Taints: s.Taints, Unschedulable: s.Unschedulable}
}

var (
	fenceLabels = map[string]string{"castoff.sh/pool": "general", "castoff.sh/scaler": "karpenter"}
	fenced      = shape{
		Labels:        fenceLabels,
		Annotations:   map[string]string{"castoff.sh/cordoned-by": "castoff", "castoff.sh/fences": "1"},
		Taints:        []corev1.Taint{softTaint},
		Unschedulable: true,
	}
	begun = shape{
		Labels:        with(fenceLabels, corev1.LabelNodeExcludeBalancers, "true"),
		Annotations:   with(with(fenced.Annotations, "castoff.sh/draining-since", "2026-05-04T03:02:01Z"), "castoff.sh/excluded-by", "castoff"),
		Taints:        []corev1.Taint{hardTaint},
		Unschedulable: true,
	}
)

func TestNodeIntents(t *testing.T) {
	mark := func(d *Drainer, ctx context.Context) error { return d.Mark(ctx, "old", "general") }
	fence := func(d *Drainer, ctx context.Context) error { return d.Fence(ctx, "old", "general") }
	begin := func(d *Drainer, ctx context.Context) error { return d.Begin(ctx, "old") }
	tests := map[string]struct {
		reason     string
		act        func(*Drainer, context.Context) error
		have, want shape
	}{
		"Mark": {
			reason: "an annotation alone: anything else makes Cluster Autoscaler act",
			act:    mark, want: shape{Annotations: map[string]string{"castoff.sh/legacy-pool": "general"}},
		},
		"MarkAgain": {
			reason: "the target is absolute", act: mark,
			have: shape{Annotations: map[string]string{"castoff.sh/legacy-pool": "other"}},
			want: shape{Annotations: map[string]string{"castoff.sh/legacy-pool": "general"}},
		},
		"Fence": {reason: "everything in one patch", act: fence, want: fenced},
		"FenceKeepsWhatIsThere": {
			reason: "the list of taints is replaced as a whole, so it must be complete", act: fence,
			have: shape{Labels: map[string]string{"team": "a"}, Annotations: map[string]string{"x": "y"}, Taints: []corev1.Taint{noSchedule("dedicated")}},
			want: shape{
				Labels:        with(fenceLabels, "team", "a"),
				Annotations:   with(fenced.Annotations, "x", "y"),
				Taints:        []corev1.Taint{noSchedule("dedicated"), softTaint},
				Unschedulable: true,
			},
		},
		"FenceOfACordonedNode": {
			reason: "a cordon that is somebody else's stays theirs", act: fence,
			have: shape{Unschedulable: true},
			want: shape{Labels: fenceLabels, Annotations: map[string]string{"castoff.sh/fences": "1"}, Taints: []corev1.Taint{softTaint}, Unschedulable: true},
		},
		"FenceAgainAfterSomebodyUncordoned": {
			reason: "the fence is the cordon, and how often it was closed is counted", act: fence,
			have: shape{Labels: fenceLabels, Annotations: fenced.Annotations, Taints: fenced.Taints},
			want: shape{Labels: fenceLabels, Annotations: with(fenced.Annotations, "castoff.sh/fences", "2"), Taints: fenced.Taints, Unschedulable: true},
		},
		"FenceTwice": {reason: "a repetition counts for nothing", act: fence, have: fenced, want: fenced},
		"FenceOfNoNumber": {
			reason: "what is no number is nobody's count", act: fence,
			have: shape{Annotations: map[string]string{"castoff.sh/fences": "many"}}, want: fenced,
		},
		"FenceOfAnOtherValue": {
			reason: "one taint of that key, as Cluster Autoscaler's templates need it", act: fence,
			have: shape{Taints: []corev1.Taint{{Key: v1alpha1.TaintLegacy, Effect: corev1.TaintEffectPreferNoSchedule}, noSchedule("x"), hardTaint}},
			want: shape{Labels: fenceLabels, Annotations: fenced.Annotations, Taints: []corev1.Taint{noSchedule("x"), softTaint}, Unschedulable: true},
		},
		"FenceWhileDraining": {reason: "the harder taint stays", act: fence, have: begun, want: begun},
		"Begin":              {reason: "the taint that pods cannot tolerate by chance", act: begin, have: fenced, want: begun},
		"BeginAgain": {
			reason: "the time of the first call and others' labels are kept", act: begin,
			have: shape{
				Labels:      map[string]string{corev1.LabelNodeExcludeBalancers: ""},
				Annotations: map[string]string{"castoff.sh/draining-since": "2026-01-01T00:00:00Z"},
			},
			want: shape{
				Labels:      map[string]string{corev1.LabelNodeExcludeBalancers: ""},
				Annotations: map[string]string{"castoff.sh/draining-since": "2026-01-01T00:00:00Z"},
				Taints:      []corev1.Taint{hardTaint},
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			patches := 0
			c := faked(interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
				patches++
				return c.Patch(ctx, o, p, opts...)
			}}, tc.have.node("old"))
			d := New(c, c, clock)
			for range 2 { // the second time there is nothing to write
				if err := tc.act(d, t.Context()); err != nil {
					t.Fatalf("%s: %v", tc.reason, err)
				}
			}
			got := new(corev1.Node)
			if err := c.Get(t.Context(), client.ObjectKey{Name: "old"}, got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, shapeOf(got)); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
			if changed := !cmp.Equal(tc.have, tc.want); patches > 1 || (patches == 1) != changed {
				t.Errorf("%s: %d patches for a node that changes: %t", tc.reason, patches, changed)
			}
		})
	}
}

func TestFencedAndBegun(t *testing.T) {
	without := func(s shape, change func(*shape)) shape {
		change(&s)
		return s
	}
	tests := map[string]struct {
		reason                string
		node                  shape
		wantFenced, wantBegun bool
	}{
		"Untouched":   {"nothing is set", shape{}, false, false},
		"Fenced":      {"by Fence", fenced, true, false},
		"Begun":       {"by Fence and Begin", begun, true, true},
		"Uncordoned":  {"the cordon is the fence", without(fenced, func(s *shape) { s.Unschedulable = false }), false, false},
		"NoTaint":     {"the marker is gone", without(begun, func(s *shape) { s.Taints = nil }), false, false},
		"SoftTaint":   {"a drain needs the hard one", without(begun, func(s *shape) { s.Taints = fenced.Taints }), true, false},
		"NoLabels":    {"who scales it is not said", without(begun, func(s *shape) { s.Labels = nil }), false, false},
		"NotDraining": {"the drain's mark is gone", without(begun, func(s *shape) { s.Annotations = nil }), true, false},
		"ForeignCordon": {"it is cordoned, whoever did it",
			without(fenced, func(s *shape) { s.Annotations = nil }), true, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Fenced(tc.node.inventory()); got != tc.wantFenced {
				t.Errorf("Fenced: %s: got %t", tc.reason, got)
			}
			if got := Begun(tc.node.inventory()); got != tc.wantBegun {
				t.Errorf("Begun: %s: got %t", tc.reason, got)
			}
		})
	}
}

// TestFenceLosesToAConcurrentWriter is against the real API server: the patch carries the resourceVersion.
func TestFenceLosesToAConcurrentWriter(t *testing.T) {
	c := withWatch(t)
	name := createNode(t, shape{})
	racing := interceptor.NewClient(c, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			other := getNode(t, name)
			other.Spec.Taints = append(other.Spec.Taints, noSchedule("dedicated"))
			if err := c.Update(ctx, other); err != nil {
				return err
			}
			return c.Patch(ctx, o, p, opts...)
		},
	})
	err := New(racing, c, clock).Fence(t.Context(), name, "general")
	if !apierrors.IsConflict(err) || inventory.ClassOf(err) != inventory.ClassRetry {
		t.Errorf("want a conflict that is tried again, got %v", err)
	}
	if got := getNode(t, name); got.Spec.Unschedulable || len(got.Labels) != 0 {
		t.Errorf("half a fence was written: %+v", shapeOf(got))
	}

	if err := New(c, c, clock).Fence(t.Context(), name, "general"); err != nil {
		t.Fatalf("Fence again: %v", err)
	}
	got := getNode(t, name)
	others := slices.DeleteFunc(got.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeNotReady }) // by admission
	if diff := cmp.Diff([]corev1.Taint{noSchedule("dedicated"), softTaint}, others); diff != "" || !got.Spec.Unschedulable {
		t.Errorf("cordoned %t, taints -want +got:\n%s", got.Spec.Unschedulable, diff)
	}
}

// TestIntentsRest asserts by the real API server's resourceVersion that a second call writes nothing.
func TestIntentsRest(t *testing.T) {
	name := createNode(t, shape{})
	later := now
	d := New(cluster.Client, cluster.Client, func() time.Time { later = later.Add(time.Hour); return later })
	var versions []string
	for range 2 {
		for _, err := range []error{d.Mark(t.Context(), name, "general"), d.Fence(t.Context(), name, "general"), d.Begin(t.Context(), name)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		versions = append(versions, getNode(t, name).ResourceVersion)
	}
	if versions[0] != versions[1] {
		t.Errorf("the second round wrote: %v", versions)
	}
	got := shapeOf(getNode(t, name)).inventory()
	if !Fenced(got) || !Begun(got) || got.Annotations["castoff.sh/legacy-pool"] != "general" {
		t.Errorf("got %+v", got)
	}
}
