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

func TestBackViolations(t *testing.T) {
	back := func() Report {
		return Report{Phase: rolledBack, CAReplicas: 1, UnservedSeconds: 4.9, limits: Limits{Unserved: 20 * time.Second}}
	}
	cases := map[string]struct {
		reason string
		spoil  func(*Report)
		want   string
	}{
		"Clean":      {reason: "Nothing to say.", spoil: func(*Report) {}},
		"Unfinished": {reason: "It is not back.", spoil: func(r *Report) { r.Phase = "RollingBack" }, want: "RollingBack, not RolledBack"},
		"NotReady":   {reason: "Pods that nobody has room for.", spoil: func(r *Report) { r.PodsNotReady = 3 }, want: "3 pods"},
		"Claims":     {reason: "Karpenter still runs nodes.", spoil: func(r *Report) { r.NodeClaims = 2 }, want: "Karpenter runs 2 nodes"},
		"Autoscaler": {reason: "Cluster Autoscaler was not started.", spoil: func(r *Report) { r.CAReplicas = 0 }, want: "no replicas"},
		"Unserved":   {reason: "On the way back seconds are fewer.", spoil: func(r *Report) { r.UnservedSeconds = 5.1 }, want: "no scaler for 5.1 s, more than 5s"},
		"Double":     {reason: "Two scalers.", spoil: func(r *Report) { r.DoubleServedSeconds = 0.1 }, want: "two scalers"},
		"Budget":     {reason: "Budgets.", spoil: func(r *Report) { r.PDBViolations = 1 }, want: "broken 1 times"},
		"AtRest":     {reason: "No scaler at rest.", spoil: func(r *Report) { r.atRest = []string{"pool x is left without a scaler"} }, want: "left without"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			report := back()
			tc.spoil(&report)
			got := report.BackViolations(5 * time.Second)
			if tc.want == "" && got != nil || tc.want != "" && (len(got) != 1 || !strings.Contains(got[0], tc.want)) {
				t.Errorf("%s\nBackViolations() = %q, want one with %q", tc.reason, got, tc.want)
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

func TestWhatIsWorthReading(t *testing.T) {
	condition := func(kind, status, reason string) *v1alpha1.Migration {
		m := migration("Shifting")
		m.Status.Conditions = []metav1.Condition{{Type: kind, Status: metav1.ConditionStatus(status), Reason: reason, Message: "why"}}
		return m
	}
	before := shop(seen{0, migration("Shifting")})
	cases := map[string]struct {
		reason string
		before []seen
		what   any
		want   string // empty: nothing
	}{
		"NodeJoins":       {reason: "A node says whose it is.", what: node("d", func(n *corev1.Node) { n.Labels[karpv1.NodePoolLabelKey] = "general" }), want: "node d is Ready (NodePool general"},
		"NodeLeaves":      {reason: "One that leaves too.", what: Gone{node("a")}, want: "node a left (group general)"},
		"NodeStays":       {reason: "A node that is as it was is no news.", what: node("a")},
		"FirstCordon":     {reason: "Cordons are told when the group's last node has one.", what: node("a", cordoned)},
		"LastCordon":      {reason: "Then once.", before: []seen{{1, node("a", cordoned)}, {1, node("b", cordoned)}}, what: node("c", cordoned), want: "all 3 nodes of general are cordoned"},
		"FirstEviction":   {reason: "A drain begins with its first eviction.", what: audit(2, castoffUser, "evict", "web-a"), want: "node a: first eviction (shop/web-a)"},
		"SecondEviction":  {reason: "And only once.", before: []seen{{1, audit(1, castoffUser, "evict", "web-a")}}, what: audit(2, castoffUser, "evict", "web-a")},
		"BudgetWaits":     {reason: "A workload whose budget makes evictions wait is named.", what: audit(2, castoffUser, "evict", "web-a", code(429)), want: "evictions of shop/web wait for its PodDisruptionBudget"},
		"BudgetWaitsMore": {reason: "Once for all its pods.", before: []seen{{1, audit(1, castoffUser, "evict", "web-b", code(429))}}, what: audit(2, castoffUser, "evict", "web-a", code(429))},
		"UnknownPod":      {reason: "A pod nobody has seen has no owner to name.", what: audit(2, castoffUser, "evict", "other", code(429))},
		"BecomesTrue":     {reason: "A condition that is True is news.", what: condition("SingleScaler", "True", "KarpenterServes"), want: "SingleScaler=True (KarpenterServes) why"},
		"BeginsFalse":     {reason: "One that begins False is none.", what: condition("Stalled", "False", "Progressing")},
		"BecomesFalse":    {reason: "One that becomes it is.", before: []seen{{1, condition("SingleScaler", "True", "x")}}, what: condition("SingleScaler", "False", "TwoScalers"), want: "SingleScaler=False (TwoScalers) why"},
		"SaysThePhase":    {reason: "Ready says what the phase says.", what: condition("Ready", "True", "Completed")},
		"InstanceEnds":    {reason: "Who ended an instance, by role and call.", what: endedBy(castoffARN+" autoscaling.TerminateInstanceInAutoScalingGroup", instance("a", "general")), want: "instance i-a of general is ended by castoff, autoscaling.TerminateInstanceInAutoScalingGroup"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			j := judgeOf(t, slices.Concat(before, tc.before)...)
			notes := j.Observe(second(2), tc.what)
			if tc.want == "" {
				if len(notes) != 0 {
					t.Errorf("%s\nnotes = %v, want none", tc.reason, notes)
				}
				return
			}
			if len(notes) != 1 || !strings.Contains(notes[0].Text, tc.want) {
				t.Errorf("%s\nnotes = %v, want one with %q", tc.reason, notes, tc.want)
			}
		})
	}
}

func TestBrief(t *testing.T) {
	for who, want := range map[string]string{
		"": "nobody known",
		"arn:aws:iam::123456789012:user/alice ec2.TerminateInstances": "alice, ec2.TerminateInstances",
		"spot interruption":      "spot interruption",
		strings.Repeat("x", 100): strings.Repeat("x", 60) + "…",
	} {
		if got := brief(who); got != want {
			t.Errorf("brief(%q) = %q, want %q", who, got, want)
		}
	}
}
