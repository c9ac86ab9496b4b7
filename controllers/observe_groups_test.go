package controllers

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// TestWhenGroupsAreListed: a look at everything is dear, and one at sizes and instances is one call.
func TestWhenGroupsAreListed(t *testing.T) {
	done := metav1.NewTime(time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC))
	end, policy := v1alpha1.Operation{ID: "EndInstances/general"}, v1alpha1.Operation{ID: "DisablePolicies/general"}
	seen := end
	seen.DoneTime = &done
	leaving := []inventory.NodeGroup{{Name: "general", Instances: []inventory.Instance{{ID: "i-1", Lifecycle: "Terminating"}}}}
	cases := map[string]struct {
		reason  string
		groups  []inventory.NodeGroup
		known   []v1alpha1.Operation
		ops     []v1alpha1.Operation
		after   time.Duration
		want    asked
		forgets bool
	}{
		"Rests":      {reason: "nothing is awaited", after: 9 * time.Second, want: asked{}},
		"Foreign":    {reason: "what somebody else does is seen within ten seconds", after: 10 * time.Second, want: asked{"groups": 1}},
		"Forgotten":  {reason: "a group was deleted", forgets: true, want: asked{"groups": 1}},
		"Ends":       {reason: "an end shows in instances", known: []v1alpha1.Operation{end}, ops: []v1alpha1.Operation{end}, after: 2 * time.Second, want: asked{"refresh": 1}},
		"EndsSoon":   {reason: "AWS lags by seconds", known: []v1alpha1.Operation{end}, ops: []v1alpha1.Operation{end}, after: time.Second, want: asked{}},
		"Ended":      {reason: "what was seen is not awaited", known: []v1alpha1.Operation{seen}, ops: []v1alpha1.Operation{seen}, after: 9 * time.Second, want: asked{}},
		"Leaving":    {reason: "an instance is on its way out", groups: leaving, after: 2 * time.Second, want: asked{"refresh": 1}},
		"Policy":     {reason: "a policy does not", known: []v1alpha1.Operation{policy}, ops: []v1alpha1.Operation{policy}, after: 2 * time.Second, want: asked{"groups": 1}},
		"Others":     {reason: "another leader did something since", ops: []v1alpha1.Operation{end}, want: asked{"groups": 1}},
		"OthersSaw":  {reason: "or saw something done", known: []v1alpha1.Operation{end}, ops: []v1alpha1.Operation{seen}, want: asked{"groups": 1}},
		"EndsAtTen":  {reason: "ends do not put off a look at everything", known: []v1alpha1.Operation{end}, ops: []v1alpha1.Operation{end}, after: 10 * time.Second, want: asked{"groups": 1}},
		"OthersGone": {reason: "or forgot it", known: []v1alpha1.Operation{end}, want: asked{"groups": 1}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w, o, a := counted(t)
			o.Ports.NodeGroups = o.NodeGroupsOf("test")
			o.groups.groups, o.groups.listed, o.groups.looked = tc.groups, w.now, w.now
			o.groups.wrote(tc.known)
			if tc.forgets {
				o.groups.forget()
			}
			w.now = w.now.Add(tc.after)
			m := testMigration()
			m.Status.Operations = tc.ops
			if _, err := o.listGroups(t.Context(), m); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, a); diff != "" {
				t.Errorf("%s (-want +got)\n%s", tc.reason, diff)
			}
		})
	}
}

func (g countingGroups) Refresh(ctx context.Context, groups []inventory.NodeGroup) ([]inventory.NodeGroup, error) {
	g.asked.count("refresh")
	return g.NodeGroups.Refresh(ctx, groups)
}
