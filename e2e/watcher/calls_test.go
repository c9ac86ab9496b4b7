package watcher

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/e2e/awssim/simapi"
)

const castoffARN = "arn:aws:sts::123456789012:assumed-role/castoff/eks-castoff-system-castoff"

func TestPodsDeletedByCastoff(t *testing.T) {
	cases := map[string]struct {
		reason string
		what   []any
		want   int
	}{
		"Eviction":    {reason: "An eviction is no delete.", what: []any{audit(1, castoffUser, "evict", "web-a")}},
		"Delete":      {reason: "A delete is.", what: []any{audit(1, castoffUser, "delete", "web-a")}, want: 1},
		"Collection":  {reason: "So is a collection.", what: []any{audit(1, castoffUser, "deletecollection", "")}, want: 1},
		"Somebody":    {reason: "Others may delete what they want.", what: []any{audit(1, "admin", "delete", "web-a")}},
		"Refused":     {reason: "What was refused did nothing.", what: []any{audit(1, castoffUser, "delete", "web-a", code(404))}},
		"DryRun":      {reason: "Nor did a dry run.", what: []any{audit(1, castoffUser, "delete", "web-a", uri("/api/v1/namespaces/shop/pods/web-a?dryRun=All"))}},
		"Canary":      {reason: "Its own pods are its own.", what: []any{audit(1, castoffUser, "delete", "canary", of("pods", "castoff-system"))}},
		"Placeholder": {reason: "Wherever they are.", what: []any{pod("p", "p-1", "a", labelled(v1alpha1.LabelPlaceholder, "x")), audit(1, castoffUser, "delete", "p-1")}},
		"Node":        {reason: "Other kinds are not pods.", what: []any{audit(1, castoffUser, "delete", "a", of("nodes", ""))}},
		"Stage":       {reason: "A request counts once, when it is done.", what: []any{audit(1, castoffUser, "delete", "web-a", stageOf("ResponseStarted"))}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var story []seen
			for _, what := range tc.what {
				story = append(story, seen{1, what})
			}
			report := tell(t, 2, story...)
			if report.PodsDeletedByCastoff != tc.want {
				t.Errorf("%s\nPodsDeletedByCastoff = %d, want %d", tc.reason, report.PodsDeletedByCastoff, tc.want)
			}
		})
	}
}

func TestCastoffAPICalls(t *testing.T) {
	call := func(identity, operation string, write bool) simapi.Call {
		return simapi.Call{Time: second(1), Service: "autoscaling", Operation: operation, Identity: identity, Write: write}
	}
	dry := call(castoffARN, "RunInstances", true)
	dry.DryRun = true
	j := judgeOf(t,
		seen{1, audit(1, castoffUser, "get", "web-a")},
		seen{1, audit(1, castoffUser, "watch", "", stageOf(stageStarted))},
		seen{1, audit(1, castoffUser, "watch", "", stageOf(stageComplete))},
		seen{1, audit(1, "admin", "get", "web-a")},
		seen{1, audit(1, castoffUser, "patch", "a", of("nodes", ""))},
		seen{1, audit(1, castoffUser, "update", "cluster-autoscaler", of("leases", "kube-system"))},
		seen{1, audit(1, castoffUser, "update", "x", of("configmaps", "castoff-system"), code(409))},
		seen{1, call(castoffARN, "DescribeAutoScalingGroups", false)},
		seen{1, call(castoffARN, "SuspendProcesses", true)},
		seen{1, dry},
		seen{1, call("arn:aws:sts::123456789012:assumed-role/castoff-old/x", "SuspendProcesses", true)},
		seen{1, call("arn:aws:iam::123456789012:user/admin", "SuspendProcesses", true)},
	)
	if diff := cmp.Diff(APICalls{Kubernetes: 5, AWS: 3}, j.Report(second(2)).CastoffAPICalls); diff != "" {
		t.Errorf("a watch counts when it starts, others when done; other identities do not, -want +got:\n%s", diff)
	}
	want := []string{"12:00:01.000 patch nodes  a ", "12:00:01.000 autoscaling.SuspendProcesses"}
	if diff := cmp.Diff(want, j.Writes(noon)); diff != "" {
		t.Errorf("reads, Leases, refusals and dry runs write nothing, -want +got:\n%s", diff)
	}
	evictions := judgeOf(t, seen{1, audit(1, castoffUser, "evict", "web-a")}, seen{2, audit(2, castoffUser, "evict", "web-b", code(429))}, seen{3, audit(3, "admin", "evict", "web-c")})
	if diff := cmp.Diff([]string{"12:00:02.000 evict shop/web-b"}, evictions.Evictions(second(1))); diff != "" {
		t.Errorf("refused evictions are asked for too, and others' are none of castoff's, -want +got:\n%s", diff)
	}
	if got := j.Writes(second(1)); got != nil {
		t.Errorf("nothing was written since: %v", got)
	}
}
