package drain

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// act is one thing that castoff does to node "old".
type act func(context.Context, *Drainer) error

func mark(ctx context.Context, d *Drainer) error      { return d.Mark(ctx, "old", "general") }
func fenceIt(ctx context.Context, d *Drainer) error   { return d.Fence(ctx, "old", "general") }
func cordonIt(ctx context.Context, d *Drainer) error  { return d.Cordon(ctx, "old") }
func beginIt(ctx context.Context, d *Drainer) error   { return d.Begin(ctx, "old") }
func releaseIt(ctx context.Context, d *Drainer) error { return d.Release(ctx, "old") }
func holdIt(ctx context.Context, d *Drainer) error    { return d.Hold(ctx, "old", "general") }
func unmarkIt(ctx context.Context, d *Drainer) error  { return d.Unmark(ctx, "old") }
func restoreIt(from inventory.NodeSnapshot) act {
	return func(ctx context.Context, d *Drainer) error { return d.Restore(ctx, "old", "general", from) }
}

// after does one thing after the other to a node of that shape, and gives its shape at the end and how often it was written. It
// fails the test if a write would have gone through on a node that changed meanwhile.
func after(t *testing.T, have shape, acts ...act) (got shape, patches int) {
	t.Helper()
	c := faked(interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
		patches++
		data, err := p.Data(o)
		if err != nil {
			return err
		}
		sent := corev1.Node{}
		if err := json.Unmarshal(data, &sent); err != nil || sent.ResourceVersion == "" {
			t.Errorf("a patch without the resourceVersion that was read: %s, %v", data, err)
		}
		return c.Patch(ctx, o, p, opts...)
	}}, have.node("old"))
	d := New(c, c, clock)
	for i, do := range acts {
		if err := do(t.Context(), d); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
	}
	node := new(corev1.Node)
	if err := c.Get(t.Context(), client.ObjectKey{Name: "old"}, node); err != nil {
		t.Fatal(err)
	}
	return shapeOf(node), patches
}

// TestReleaseGivesBack: whatever the user's node was, and whatever castoff did to it, it is the user's node again.
func TestReleaseGivesBack(t *testing.T) {
	users := map[string]struct {
		reason string
		shape  shape
	}{
		"Plain": {"nothing is left behind", shape{}},
		"Labelled": {"others' labels, annotations and taints stay, in their order", shape{
			Labels: map[string]string{"team": "a"}, Annotations: map[string]string{"x": "y"}, Taints: []corev1.Taint{noSchedule("dedicated"), noSchedule("a")}}},
		"Cordoned": {"the user's cordon stays", shape{Unschedulable: true}},
		"CordonTaint": {"the node controller's taint is not castoff's to remove", shape{
			Taints: []corev1.Taint{{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}}, Unschedulable: true}},
		"Excluded":     {"the user's exclusion stays", shape{Labels: map[string]string{corev1.LabelNodeExcludeBalancers: ""}}},
		"ExcludedTrue": {"whatever its value is", shape{Labels: map[string]string{corev1.LabelNodeExcludeBalancers: "true"}}},
		"Everything": {"all at once", shape{
			Labels:        map[string]string{corev1.LabelNodeExcludeBalancers: "yes", "team": "a"},
			Annotations:   map[string]string{"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"},
			Taints:        []corev1.Taint{noSchedule("dedicated")},
			Unschedulable: true,
		}},
		"Marked": {"whose node it is stays known", shape{Annotations: map[string]string{"castoff.sh/legacy-pool": "general"}}},
		"Held": {"the hold outlives a release", shape{Annotations: map[string]string{
			"castoff.sh/legacy-pool": "general", "castoff.sh/held-by": "castoff", "cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"}}},
	}
	done := map[string][]act{
		"Nothing":             nil,
		"Fenced":              {fenceIt},
		"Begun":               {fenceIt, beginIt},
		"BegunUnfenced":       {beginIt},
		"FencedAfterBegin":    {beginIt, fenceIt},
		"Cordoned":            {cordonIt},
		"CordonedAndBegun":    {cordonIt, beginIt},
		"BegunReleasedFenced": {fenceIt, beginIt, releaseIt, fenceIt},
		"Twice":               {fenceIt, beginIt, releaseIt, fenceIt, beginIt},
	}
	for user, have := range users {
		for what, acts := range done {
			t.Run(user+"/"+what, func(t *testing.T) {
				_, before := after(t, have.shape, acts...)
				got, patches := after(t, have.shape, append(acts, releaseIt, releaseIt)...)
				if diff := cmp.Diff(have.shape, got, cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("%s: -want +got:\n%s", have.reason, diff)
				}
				if writes := patches - before; writes != min(before, 1) {
					t.Errorf("%s: want one write where something was done and none else, got %d", have.reason, writes)
				}
			})
		}
	}
}

// TestReleaseAfterOthers: what somebody changed while castoff was at it is theirs.
func TestReleaseAfterOthers(t *testing.T) {
	since := func(change func(*shape)) shape {
		node := begun.node("old").DeepCopy()
		s := shapeOf(node)
		change(&s)
		return s
	}
	exclude := corev1.LabelNodeExcludeBalancers
	tests := map[string]struct {
		reason     string
		have, want shape
	}{
		"Uncordoned": {"it is not cordoned again", since(func(s *shape) { s.Unschedulable = false }), shape{}},
		"TookMark":   {"who took the mark off took the cordon over", since(func(s *shape) { delete(s.Annotations, "castoff.sh/cordoned-by") }), shape{Unschedulable: true}},
		"Included":   {"it is not excluded again", since(func(s *shape) { delete(s.Labels, exclude) }), shape{}},
		"Reexcluded": {"a value that castoff does not write is somebody's own", since(func(s *shape) { s.Labels[exclude] = "" }), shape{Labels: map[string]string{exclude: ""}}},
		"Tainted":    {"their taint stays", since(func(s *shape) { s.Taints = append(s.Taints, noSchedule("x")) }), shape{Taints: []corev1.Taint{noSchedule("x")}}},
		"TwoOfOurs":  {"every taint of castoff's key goes", since(func(s *shape) { s.Taints = append(s.Taints, softTaint) }), shape{}},
		"HalfLabels": {"labels go one by one", since(func(s *shape) { delete(s.Labels, "castoff.sh/scaler") }), shape{}},
		"OlderDrain": {"an exclusion that nobody signed is left", since(func(s *shape) { delete(s.Annotations, "castoff.sh/excluded-by") }), shape{Labels: map[string]string{exclude: "true"}}},
		"Karpenters": {"its NodePool gave it the pool's label", since(func(s *shape) { s.Labels["karpenter.sh/nodepool"] = "general" }),
			shape{Labels: map[string]string{"karpenter.sh/nodepool": "general", "castoff.sh/pool": "general"}}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, patches := after(t, tc.have, releaseIt, releaseIt)
			if diff := cmp.Diff(tc.want, got, cmpopts.EquateEmpty()); diff != "" || patches != 1 {
				t.Errorf("%s: %d patches, -want +got:\n%s", tc.reason, patches, diff)
			}
		})
	}
}

func TestHoldAndUnmark(t *testing.T) {
	const disabled = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
	notes := func(pairs ...string) shape {
		s := shape{Annotations: map[string]string{}}
		for i := 0; i < len(pairs); i += 2 {
			s.Annotations[pairs[i]] = pairs[i+1]
		}
		return s
	}
	held := notes("castoff.sh/legacy-pool", "general", disabled, "true", "castoff.sh/held-by", "castoff")
	tests := map[string]struct {
		reason      string
		act         act
		have, want  shape
		wantPatches int
	}{
		"Hold":            {"marked, and kept from Cluster Autoscaler", holdIt, shape{}, held, 1},
		"HoldAgain":       {"nothing differs", holdIt, held, held, 0},
		"HoldMarked":      {"the pool is absolute", holdIt, notes("castoff.sh/legacy-pool", "other"), held, 1},
		"HoldUsers":       {"the user's own hold gets no signature", holdIt, notes(disabled, "true"), notes("castoff.sh/legacy-pool", "general", disabled, "true"), 1},
		"HoldUsersNo":     {"nor is the user's no overruled", holdIt, notes(disabled, "false"), notes("castoff.sh/legacy-pool", "general", disabled, "false"), 1},
		"HoldLetGo":       {"a hold that somebody removed is put back while it is needed", holdIt, notes("castoff.sh/legacy-pool", "general", "castoff.sh/held-by", "castoff"), held, 1},
		"Unmark":          {"nothing of castoff's is left", unmarkIt, held, shape{}, 1},
		"UnmarkPlain":     {"nothing to do", unmarkIt, notes("x", "y"), notes("x", "y"), 0},
		"UnmarkUsersHold": {"it is not castoff's", unmarkIt, notes("castoff.sh/legacy-pool", "general", disabled, "true"), notes(disabled, "true"), 1},
		"UnmarkChanged":   {"somebody else has had a word since", unmarkIt, notes(disabled, "false", "castoff.sh/held-by", "castoff"), notes(disabled, "false"), 1},
		"UnmarkRestored":  {"where it came from is no longer of use", unmarkIt, notes("castoff.sh/restored-from", "gone", "castoff.sh/legacy-pool", "general"), shape{}, 1},
		"UnmarkKeeps":     {"a fence is Release's to undo", unmarkIt, fenced, fenced, 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, patches := after(t, tc.have, tc.act, tc.act)
			if diff := cmp.Diff(tc.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
			if patches != tc.wantPatches {
				t.Errorf("%s: want %d patches, got %d", tc.reason, tc.wantPatches, patches)
			}
		})
	}
}

// TestCordonedPass: the way back drains Karpenter's nodes under the same rules.
func TestCordonedPass(t *testing.T) {
	karpenters := shape{Labels: map[string]string{"karpenter.sh/nodepool": "general", "castoff.sh/pool": "general"}}
	var asked []policyv1.Eviction
	c := faked(evictions(&asked, func(string) error { return nil }), karpenters.node("old"), pod("web"))
	d := New(c, c, clock)
	if err := d.Cordon(t.Context(), "old"); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Pass(t.Context(), "old", inventory.DrainAllowance{}); !isNotBegun(err) || len(asked) != 0 {
		t.Errorf("a cordon alone opens no drain, got %v and %v", err, asked)
	}
	if err := d.Begin(t.Context(), "old"); err != nil {
		t.Fatal(err)
	}
	state, err := d.Pass(t.Context(), "old", inventory.DrainAllowance{})
	if err != nil || len(asked) != 1 || asked[0].Name != "web" || state.Evictable != 1 {
		t.Errorf("want the pod evicted, got %v, %v, %+v", err, asked, state)
	}
	node := new(corev1.Node)
	if err := c.Get(t.Context(), client.ObjectKey{Name: "old"}, node); err != nil {
		t.Fatal(err)
	}
	if got := shapeOf(node).inventory(); !Begun(got) || !got.Unschedulable || got.Labels["castoff.sh/scaler"] != "" {
		t.Errorf("want it cordoned and begun, and not labelled as a legacy node, got %+v", got)
	}
}

func isNotBegun(err error) bool {
	_, ok := errors.AsType[*NotBegunError](err)
	return ok
}

// everyAct is all that writes to a node.
func everyAct() map[string]act {
	return map[string]act{
		"Mark": mark, "Fence": fenceIt, "Cordon": cordonIt, "Begin": beginIt, "Release": releaseIt, "Hold": holdIt, "Unmark": unmarkIt,
		"Restore": restoreIt(inventory.NodeSnapshot{Name: "gone", Unschedulable: true}),
	}
}

func TestIntentsOfANodeThatIsGone(t *testing.T) {
	notFound := apierrors.NewNotFound(schema.GroupResource{Resource: "nodes"}, "old")
	some := touched()
	for name, do := range everyAct() {
		t.Run(name, func(t *testing.T) {
			c := faked(interceptor.Funcs{})
			if err := do(t.Context(), New(c, c, clock)); err != nil {
				t.Errorf("nothing is left to do, got %v", err)
			}
			patches := 0
			goes := faked(interceptor.Funcs{Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
				patches++
				return notFound
			}}, some.node("old"))
			if err := do(t.Context(), New(goes, goes, clock)); err != nil || patches != 1 {
				t.Errorf("it went in between: want one patch and no error, got %d and %v", patches, err)
			}
		})
	}
}

// touched is a node on which each act has something to do.
func touched() shape {
	return shape{
		Annotations: map[string]string{"castoff.sh/cordoned-by": "castoff", "castoff.sh/legacy-pool": "other"},
		Taints:      []corev1.Taint{softTaint},
	}
}

func TestIntentsFail(t *testing.T) {
	denied := apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "old", errors.New("no"))
	some := touched()
	for name, do := range everyAct() {
		t.Run(name, func(t *testing.T) {
			c := faked(interceptor.Funcs{Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
				return denied
			}}, some.node("old"))
			if err := do(t.Context(), New(c, c, clock)); !errors.Is(err, denied) || inventory.ClassOf(err) != inventory.ClassTerminal {
				t.Errorf("want a terminal error of the patch, got %v", err)
			}
			blind := faked(interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
				return apierrors.NewTooManyRequests("busy", 1)
			}})
			if err := do(t.Context(), New(c, blind, clock)); inventory.ClassOf(err) != inventory.ClassThrottled {
				t.Errorf("want the reader's answer, got %v", err)
			}
		})
	}
}
