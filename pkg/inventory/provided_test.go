package inventory

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/castoff-sh/castoff/api/v1alpha1"
)

func TestProvidedBy(t *testing.T) {
	cases := map[string]struct {
		reason string
		spec   v1alpha1.Provisioner
		want   Provided
	}{
		"Nothing":  {"castoff makes everything", v1alpha1.Provisioner{}, Provided{}},
		"Defaults": {"the same, as the API server writes it", v1alpha1.Provisioner{Source: v1alpha1.SourceBuiltIn, Queue: v1alpha1.QueueManaged, Identity: v1alpha1.IdentityManaged}, Provided{}},
		"Chart":    {"upstream's chart is installed by castoff", v1alpha1.Provisioner{Source: v1alpha1.SourceChart}, Provided{}},
		"Names without a word": {
			"a name says nothing until the spec says whose it is", v1alpha1.Provisioner{QueueName: "q", NodeRole: "n", ControllerRole: "c"}, Provided{},
		},
		"Queue":    {"by name", v1alpha1.Provisioner{Queue: v1alpha1.QueueExisting, QueueName: "q"}, Provided{Queue: "q"}},
		"No queue": {"interruptions are not handled", v1alpha1.Provisioner{Queue: v1alpha1.QueueNone}, Provided{NoQueue: true}},
		"Roles": {
			"both", v1alpha1.Provisioner{Identity: v1alpha1.IdentityExisting, NodeRole: "n", ControllerRole: "c"}, Provided{NodeRole: "n", ControllerRole: "c"},
		},
		"Everything": {
			"a Karpenter that is there", v1alpha1.Provisioner{
				Source: v1alpha1.SourceExisting, Queue: v1alpha1.QueueExisting, QueueName: "q", Identity: v1alpha1.IdentityExisting, NodeRole: "n", ControllerRole: "c",
			}, Provided{Engine: true, Queue: "q", NodeRole: "n", ControllerRole: "c"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := ProvidedBy(tc.spec)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
			if got.Identity() != (tc.want.NodeRole != "") {
				t.Errorf("%s: Identity() = %v", tc.reason, got.Identity())
			}
		})
	}
}
