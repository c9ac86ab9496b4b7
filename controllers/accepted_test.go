package controllers

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/events"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/plan"
)

// TestAcceptedRisksAreShown: in the status and in one event each, and not as a warning beside it.
func TestAcceptedRisksAreShown(t *testing.T) {
	finding := func(check, object string) inventory.Finding {
		return inventory.Finding{Check: check, Severity: v1alpha1.SeverityBlock, Object: object, Message: "It is.", Accepted: true, AcceptedReason: "mine"}
	}
	open := finding("TwoBudgets", "pod/a/c")
	open.Accepted, open.AcceptedReason = false, ""
	cases := map[string]struct {
		reason   string
		risks    []v1alpha1.AcceptedRisk
		findings []inventory.Finding
		passed   []plan.Passed
		events   []string // beside that of the phase
		shown    []string // blockers in the status
	}{
		"One": {
			reason:   "an event that is none of a warning, with the reason",
			risks:    []v1alpha1.AcceptedRisk{{Check: "BarePod", Object: "pod/a/b", Reason: "mine"}},
			findings: []inventory.Finding{finding("BarePod", "pod/a/b")},
			events:   []string{"Normal RiskAccepted BarePod of pod/a/b is accepted, which lets pass 1: mine"},
			shown:    []string{"Warn BarePod pod/a/b: Accepted (mine): It is."},
		},
		"Star": {
			reason:   "one event however much it covers",
			risks:    []v1alpha1.AcceptedRisk{{Check: "BarePod", Object: "*", Reason: "mine"}},
			findings: []inventory.Finding{finding("BarePod", "pod/a/b"), finding("BarePod", "pod/a/c")},
			events:   []string{"Normal RiskAccepted BarePod of * is accepted, which lets pass 2: mine"},
			shown:    []string{"Warn BarePod pod/a/b: Accepted (mine): It is.", "Warn BarePod pod/a/c: Accepted (mine): It is."},
		},
		"AtRunTime": {
			reason: "what the plan asks about while it acts is told like a finding",
			risks:  []v1alpha1.AcceptedRisk{{Check: "HealthFloor", Object: "deployment/a/b", Reason: "mine"}, {Check: "ForeignSize", Object: "*", Reason: "theirs"}},
			passed: []plan.Passed{{Check: "ForeignSize", Object: "nodegroup/a"}, {Check: "ForeignSize", Object: "nodegroup/b"}, {Check: "HealthFloor", Object: "deployment/a/b"}},
			events: []string{"Normal RiskAccepted HealthFloor of deployment/a/b is accepted, which lets pass 1: mine", "Normal RiskAccepted ForeignSize of * is accepted, which lets pass 2: theirs"},
		},
		"FindingAndRunTime": {
			reason:   "and not twice where it is both",
			risks:    []v1alpha1.AcceptedRisk{{Check: "BarePod", Object: "pod/a/b", Reason: "mine"}},
			findings: []inventory.Finding{finding("BarePod", "pod/a/b")},
			passed:   []plan.Passed{{Check: "BarePod", Object: "pod/a/b"}},
			events:   []string{"Normal RiskAccepted BarePod of pod/a/b is accepted, which lets pass 1: mine"},
			shown:    []string{"Warn BarePod pod/a/b: Accepted (mine): It is."},
		},
		"Unused": {
			reason: "what covers nothing lets nothing pass",
			risks:  []v1alpha1.AcceptedRisk{{Check: "BarePod", Object: "pod/a/b", Reason: "mine"}},
		},
		"Beside": {
			reason:   "what is not accepted is a warning as before",
			risks:    []v1alpha1.AcceptedRisk{{Check: "BarePod", Object: "pod/a/b", Reason: "mine"}},
			findings: []inventory.Finding{finding("BarePod", "pod/a/b"), open},
			events:   []string{"Warning TwoBudgets pod/a/c: It is.", "Normal RiskAccepted BarePod of pod/a/b is accepted, which lets pass 1: mine"},
			shown:    []string{"Block TwoBudgets pod/a/c: It is.", "Warn BarePod pod/a/b: Accepted (mine): It is."},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			r := w.reconciler()
			recorder := events.NewFakeRecorder(100)
			r.Recorder = recorder
			m := migration()
			m.Spec.AcceptedRisks = tc.risks
			w.must(w.c.Create(t.Context(), m))
			look := plan.World{Findings: tc.findings}
			var got []string
			for range 2 { // the second look says the same, and tells nothing
				before := m.DeepCopy()
				d := plan.Next(m, look, w.now)
				d.Passed = append(d.Passed, tc.passed...)
				_, err := r.record(t.Context(), before, m, look, d)
				w.must(err)
				for len(recorder.Events) > 0 {
					if e := <-recorder.Events; !strings.Contains(e, " -> ") {
						got = append(got, e)
					}
				}
			}
			if diff := cmp.Diff(tc.events, got); diff != "" {
				t.Errorf("%s: events -want +got\n%s", tc.reason, diff)
			}
			var shown []string
			for _, b := range m.Status.Blockers {
				shown = append(shown, fmt.Sprintf("%s %s %s: %s", b.Severity, b.Reason, b.Object, b.Message))
			}
			if diff := cmp.Diff(tc.shown, shown); diff != "" {
				t.Errorf("%s: status -want +got\n%s", tc.reason, diff)
			}
		})
	}
}
