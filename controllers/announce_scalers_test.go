package controllers

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	"github.com/castoff-sh/castoff/api/v1alpha1"
)

// TestAnnounceScalers: unlike what a check finds it is told each time that it happens.
func TestAnnounceScalers(t *testing.T) {
	status := func(is metav1.ConditionStatus, reason, message string) v1alpha1.MigrationStatus {
		return v1alpha1.MigrationStatus{Conditions: []metav1.Condition{{Type: v1alpha1.ConditionSingleScaler, Status: is, Reason: reason, Message: message}}}
	}
	one := status(metav1.ConditionTrue, v1alpha1.ReasonKarpenterServes, "Karpenter serves every pool.")
	two := status(metav1.ConditionFalse, v1alpha1.ReasonTwoScalers, "Served by two: general.")
	both := status(metav1.ConditionFalse, v1alpha1.ReasonTwoScalers, "Served by two: general, batch.")
	none := status(metav1.ConditionFalse, v1alpha1.ReasonNoScaler, "Nobody serves general.")
	cases := map[string]struct {
		reason        string
		before, after v1alpha1.MigrationStatus
		want          []string
	}{
		"New":     {"a Migration that begins well is no news", v1alpha1.MigrationStatus{}, one, nil},
		"Two":     {"who the other one is", one, two, []string{"Warning TwoScalers Served by two: general."}},
		"Same":    {"once", two, two, nil},
		"Another": {"one more", two, both, []string{"Warning TwoScalers Served by two: general, batch."}},
		"None":    {"nobody is no better", two, none, []string{"Warning NoScaler Nobody serves general."}},
		"Over":    {"it is over", both, one, []string{"Normal SingleScaler Every pool has one scaler again. Karpenter serves every pool."}},
		"NewBad":  {"a Migration that is adopted in the middle of it", v1alpha1.MigrationStatus{}, two, []string{"Warning TwoScalers Served by two: general."}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := newWorld(t).reconciler()
			recorder := events.NewFakeRecorder(10)
			r.Recorder = recorder
			b, a := migration(), migration()
			b.Status, a.Status = tc.before, tc.after
			r.announceScalers(b, a)
			var got []string
			for len(recorder.Events) > 0 {
				got = append(got, <-recorder.Events)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: events, -want +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// TestAnnounceReturns: who did something comes back, and is told again; a check that is run again says the same.
func TestAnnounceReturns(t *testing.T) {
	has := func(blockers ...v1alpha1.Blocker) *v1alpha1.Migration {
		m := migration()
		m.Status.Blockers = blockers
		return m
	}
	blocker := func(severity v1alpha1.Severity, reason string) v1alpha1.Blocker {
		return v1alpha1.Blocker{Severity: severity, Reason: reason, Object: "x"}
	}
	standby, check := blocker(v1alpha1.SeverityWarn, "AutoscalerStandby"), blocker(v1alpha1.SeverityWarn, "BarePod")
	lease, graver := blocker(v1alpha1.SeverityWarn, "LeaseTaken"), blocker(v1alpha1.SeverityBlock, "LeaseTaken")
	r := newWorld(t).reconciler()
	recorder := events.NewFakeRecorder(10)
	r.Recorder = recorder
	for _, s := range []struct {
		reason        string
		before, after *v1alpha1.Migration
		want          int
	}{
		{"both are new", has(), has(standby, check), 2},
		{"both are known", has(standby, check), has(standby, check), 0},
		{"both were gone: one is somebody's doing, the other a check", has(), has(standby, check), 1},
		{"somebody took a Lease", has(), has(lease), 1},
		{"and again and again, which is graver", has(lease), has(graver), 1},
		{"it is as grave as it was", has(graver), has(graver), 0},
	} {
		r.announce(s.before, s.after)
		if got := len(recorder.Events); got != s.want {
			t.Errorf("%s: %d events, want %d", s.reason, got, s.want)
		}
		for len(recorder.Events) > 0 {
			<-recorder.Events
		}
	}
}
