package plan

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/castoff-sh/castoff/api/v1alpha1"
)

func TestOutcomeIdle(t *testing.T) {
	cases := map[string]struct {
		reason string
		make   func(*outcome)
		want   bool
	}{
		"Empty": {"nothing to do", func(*outcome) {}, true},
		"Warns": {"a warning holds nothing", func(o *outcome) { o.warn("A", "x", "m") }, true},
		"Waits": {"what ends by itself is waited for", func(o *outcome) { o.wait("A", "x", "m") }, false},
		"Block": {"a human is waited for", func(o *outcome) { o.block("A", "x", "m") }, false},
		"Acts":  {"an action is to be made", func(o *outcome) { o.act(InstallCRDs{}) }, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := outcome{}
			tc.make(&o)
			if got := o.idle(); got != tc.want {
				t.Errorf("%s: idle() = %v, want %v", tc.reason, got, tc.want)
			}
		})
	}
}

func TestOutcomeSays(t *testing.T) {
	o := outcome{}
	o.wait("A", "x", "1")
	o.block("B", "y", "2")
	o.warn("C", "z", "3")
	o.act(EnsureIdentity{}, InstallCRDs{})
	want := []v1alpha1.Blocker{
		{Severity: v1alpha1.SeverityWait, Reason: "A", Object: "x", Message: "1"},
		{Severity: v1alpha1.SeverityBlock, Reason: "B", Object: "y", Message: "2"},
		{Severity: v1alpha1.SeverityWarn, Reason: "C", Object: "z", Message: "3"},
	}
	if diff := cmp.Diff(want, o.blockers); diff != "" {
		t.Errorf("blockers: -want, +got:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"EnsureIdentity identity", "InstallCRDs engine"}, told(o.actions)); diff != "" {
		t.Errorf("actions keep their order: -want, +got:\n%s", diff)
	}
}

func TestSoonest(t *testing.T) {
	later, never := noon.Add(time.Hour), time.Time{}
	cases := map[string]struct {
		reason     string
		a, b, want time.Time
	}{
		"First":      {"the earlier one", noon, later, noon},
		"Second":     {"in either order", later, noon, noon},
		"FirstNever": {"zero is never", never, later, later},
		"LastNever":  {"zero is never", later, never, later},
		"BothNever":  {"never", never, never, never},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := soonest(tc.a, tc.b); !got.Equal(tc.want) {
				t.Errorf("%s: soonest() = %v, want %v", tc.reason, got, tc.want)
			}
		})
	}
}
