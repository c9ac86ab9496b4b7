package watcher

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/e2e/awssim/simapi"
)

// clean is a migration that kept its promises.
func clean() Report {
	return Report{
		Phase: completed, Seconds: 200, NodeClaims: 5, UnservedSeconds: 3, limits: Limits{Unserved: 20 * time.Second},
		Groups: map[string]GroupSize{"general": {}, "batch": {Max: 1}}, managed: map[string]bool{"batch": true},
	}
}

func TestViolations(t *testing.T) {
	cases := map[string]struct {
		reason string
		spoil  func(*Report)
		want   string // part of the one sentence
		broken bool   // on the way, not only at the end
	}{
		"Clean":      {reason: "Nothing to say.", spoil: func(*Report) {}},
		"Unfinished": {reason: "Not completed is broken at the end only.", spoil: func(r *Report) { r.Phase = "Shifting" }, want: "Shifting"},
		"NoPhase":    {reason: "A missing Migration is named.", spoil: func(r *Report) { r.Phase = "" }, want: "not there"},
		"Legacy":     {reason: "Pods left behind.", spoil: func(r *Report) { r.PodsOnLegacyNodes = 2 }, want: "2 pods are on legacy nodes"},
		"NotReady":   {reason: "Pods not Ready.", spoil: func(r *Report) { r.PodsNotReady = 1 }, want: "1 pods are not Ready"},
		"Budget":     {reason: "Budgets.", spoil: func(r *Report) { r.PDBViolations = 1 }, want: "broken 1 times", broken: true},
		"Deleted":    {reason: "Deleted pods.", spoil: func(r *Report) { r.PodsDeletedByCastoff = 1 }, want: "past the Eviction API", broken: true},
		"Undrained":  {reason: "Instances.", spoil: func(r *Report) { r.InstancesEndedUndrained = 3 }, want: "3 instances ended", broken: true},
		"Daemons":    {reason: "DaemonSets.", spoil: func(r *Report) { r.DaemonPodsMissing = 4 }, want: "4 times", broken: true},
		"NoClaims":   {reason: "Karpenter must run something.", spoil: func(r *Report) { r.NodeClaims = 0 }, want: "runs no node"},
		"GroupSize":  {reason: "A group that was not scaled to zero.", spoil: func(r *Report) { r.Groups["general"] = GroupSize{Max: 9} }, want: "group general is 0/9/0"},
		"ManagedMax": {reason: "A managed group keeps a maximum of 1.", spoil: func(r *Report) { r.Groups["batch"] = GroupSize{} }, want: "group batch"},
		"Autoscaler": {reason: "Cluster Autoscaler must be at zero.", spoil: func(r *Report) { r.CAReplicas = 1 }, want: "1 replicas"},
		"Unserved":   {reason: "Too long without a scaler.", spoil: func(r *Report) { r.UnservedSeconds = 20.5 }, want: "no scaler for 20.5 s", broken: true},
		"Double":     {reason: "Two scalers, however short.", spoil: func(r *Report) { r.DoubleServedSeconds = 0.1 }, want: "two scalers for 0.1 s", broken: true},
		"AtRest":     {reason: "No scaler at rest.", spoil: func(r *Report) { r.atRest = []string{"pool x is left without a scaler"} }, want: "left without"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			report := clean()
			tc.spoil(&report)
			got := report.Violations()
			if tc.want == "" {
				if got != nil {
					t.Fatalf("%s\nViolations() = %v", tc.reason, got)
				}
				return
			}
			if len(got) != 1 || !strings.Contains(got[0], tc.want) {
				t.Errorf("%s\nViolations() = %q, want one with %q", tc.reason, got, tc.want)
			}
			if broken := len(report.Broken()) > 0; broken != tc.broken {
				t.Errorf("%s\nBroken() = %v", tc.reason, report.Broken())
			}
			if !strings.Contains(report.Summary(), "castoff's calls") {
				t.Error("the summary lacks its last row")
			}
		})
	}
}

func TestReportsJSON(t *testing.T) {
	body, err := json.Marshal(clean())
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(body, &got); err != nil {
		t.Fatal(err)
	}
	var keys []string
	for key := range got {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	want := []string{"caReplicas", "castoffApiCalls", "daemonPodsMissing", "doubleServedSeconds", "groups", "instancesEndedUndrained", "nodeClaims",
		"pdbViolations", "phase", "podsDeletedByCastoff", "podsNotReady", "podsOnLegacyNodes", "seconds", "unservedSeconds"}
	if diff := cmp.Diff(want, keys); diff != "" {
		t.Errorf("the report's keys, -want +got:\n%s", diff)
	}
	if diff := cmp.Diff(map[string]any{"min": 0.0, "max": 1.0, "desired": 0.0}, got["groups"].(map[string]any)["batch"]); diff != "" {
		t.Errorf("a group's size, -want +got:\n%s", diff)
	}
	if diff := cmp.Diff(map[string]any{"kubernetes": 0.0, "aws": 0.0}, got["castoffApiCalls"]); diff != "" {
		t.Errorf("the calls, -want +got:\n%s", diff)
	}
}

func TestPodCounts(t *testing.T) {
	managed := simapi.Instance{ID: "i-m", NodeGroup: "batch", AutoScalingGroup: "eks-batch-1234", State: "running"}
	home := simapi.Instance{ID: "i-h", NodeGroup: "system", AutoScalingGroup: "eks-system-1", State: "running"}
	report := tell(t, 1,
		seen{0, twoGroups}, seen{0, instance("a", "general")}, seen{0, managed}, seen{0, home}, seen{0, instance("k", "")},
		seen{0, node("a")}, seen{0, node("m")}, seen{0, node("h")}, seen{0, node("k")},
		seen{0, pod("web", "on-legacy", "a")}, seen{0, pod("web", "on-managed", "m", unready)}, seen{0, pod("web", "at-home", "h")},
		seen{0, pod("web", "moved", "k")}, seen{0, pod("web", "pending", "", unready)}, seen{0, daemonPod("agent-a", "a")},
		seen{0, pod("job", "done", "a", inPhase(corev1.PodSucceeded), unready)}, seen{0, pod("p", "holder", "a", labelled(v1alpha1.LabelPlaceholder, "x"), unready)},
	)
	if report.PodsOnLegacyNodes != 2 || report.PodsNotReady != 2 {
		t.Errorf("PodsOnLegacyNodes = %d, want 2; PodsNotReady = %d, want 2", report.PodsOnLegacyNodes, report.PodsNotReady)
	}
}

func TestSecondsAndClaims(t *testing.T) {
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "general-1"}}
	running := tell(t, 30, seen{0, migration("Assessing")}, seen{5, claim})
	if running.Seconds != 30 || running.NodeClaims != 1 || running.Phase != "Assessing" {
		t.Errorf("while it runs: %+v", running)
	}
	done := tell(t, 300, seen{0, migration("Assessing")}, seen{200, migration("Completed")}, seen{250, Gone{claim}})
	if done.Seconds != 200 || done.NodeClaims != 0 {
		t.Errorf("once completed the time stands: %+v", done)
	}
}
