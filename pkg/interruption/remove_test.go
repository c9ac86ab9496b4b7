package interruption

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/google/go-cmp/cmp"

	"github.com/castoff-sh/castoff/e2e/awssim/simapi"
	"github.com/castoff-sh/castoff/e2e/awssim/simtest"
	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/inventory/awsapi"
)

func TestRemoveTakesAllThatEnsureMade(t *testing.T) {
	l := newLab(t)
	simtest.Check(t, l.port.Ensure(t.Context(), harbor))
	want := []string{
		"EventBridge rule castoff-harbor-health", "EventBridge rule castoff-harbor-spot", "EventBridge rule castoff-harbor-rebalance",
		"EventBridge rule castoff-harbor-state", "EventBridge rule castoff-harbor-reservation", "SQS queue harbor",
	}
	if diff := cmp.Diff(want, l.observe(t).Made); diff != "" {
		t.Errorf("made: -want +got\n%s", diff)
	}
	_, seq := l.Writes(t, 0)
	simtest.Check(t, l.port.Remove(t.Context(), harbor))
	done, seq := l.Writes(t, seq)
	want = []string{"RemoveTargets", "DeleteRule", "RemoveTargets", "DeleteRule", "RemoveTargets", "DeleteRule", "RemoveTargets", "DeleteRule", "RemoveTargets", "DeleteRule", "DeleteQueue"}
	if diff := cmp.Diff(want, done); diff != "" {
		t.Errorf("writes: -want +got\n%s", diff)
	}
	if got := l.observe(t); len(got.Made) != 0 || len(got.Missing) != 6 || got.QueueURL != "" {
		t.Errorf("after Remove: %+v", got)
	}
	simtest.Check(t, l.port.Remove(t.Context(), harbor))
	if again, _ := l.Writes(t, seq); len(again) != 0 {
		t.Errorf("a second Remove wrote %v", again)
	}
}

// Whichever request is the last before a crash, made or not, the next call takes away what it left.
func TestRemoveGoesOnFromEveryCrash(t *testing.T) {
	n := simtest.EveryCrash(t, func(t *testing.T, network *http.Client) (func(*testing.T), error) {
		l := newLab(t)
		simtest.Check(t, l.port.Ensure(t.Context(), harbor))
		err := l.portOver(network).Remove(t.Context(), harbor)
		return func(t *testing.T) {
			wantRetry(t, err)
			simtest.Check(t, l.port.Remove(t.Context(), harbor))
			if got := l.observe(t); len(got.Made) != 0 || len(got.Missing) != 6 {
				t.Errorf("the next call leaves %+v", got)
			}
		}, err
	})
	if n < 15 {
		t.Errorf("Remove made %d requests; too few to prove anything", n)
	}
}

// After the way back, a migration may start again: SQS takes the name once 60 seconds are over.
func TestEnsureAfterRemove(t *testing.T) {
	l := newLab(t)
	simtest.Check(t, l.port.Ensure(t.Context(), harbor))
	simtest.Check(t, l.port.Remove(t.Context(), harbor))
	if err := l.port.Ensure(t.Context(), harbor); err == nil || inventory.ClassOf(err) != inventory.ClassRetry {
		t.Errorf("within the minute: error is %v, want one to retry", err)
	}
	l.Sim.Advance(time.Minute)
	simtest.Check(t, l.port.Ensure(t.Context(), harbor))
	if got := l.observe(t); !got.Ready || len(got.Made) != 6 {
		t.Errorf("after the minute: %+v", got)
	}
}

func TestRemoveLeavesWhatIsNotCastoffs(t *testing.T) {
	ours := awsapi.OurTags(harbor)
	elsewhere := harbor
	elsewhere.ARN = strings.Replace(harbor.ARN, "us-east-1", "eu-west-1", 1)
	cases := map[string]struct {
		reason string
		tags   map[string]string
		gone   bool
	}{
		"Castoffs":        {"all of castoff's tags, for this cluster", ours, true},
		"Untagged":        {"whoever made it wants it", nil, false},
		"AnotherCluster":  {"a cluster of the same name in another region", awsapi.OurTags(elsewhere), false},
		"GivenToCastoff":  {"its owner let castoff set its attributes, no more", map[string]string{"castoff.sh/managed-by": "castoff"}, false},
		"AnotherManager":  {"the key alone says nothing", map[string]string{"castoff.sh/managed-by": "terraform", "castoff.sh/cluster": harbor.ARN}, false},
		"TaggedForOthers": {"other tags do not matter", map[string]string{"castoff.sh/managed-by": "castoff", "castoff.sh/cluster": harbor.ARN, "team": "a"}, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			_, err := l.sqs.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String("harbor"), Tags: tc.tags})
			simtest.Check(t, err)
			l.rule(t, "castoff-harbor-spot", patterns[awsapi.EventSpotInterruption].String(), tc.tags)
			l.target(t, "castoff-harbor-spot")
			if made := len(l.observe(t).Made); (made == 2) != tc.gone || made == 1 {
				t.Errorf("%s: %d parts are made by castoff", tc.reason, made)
			}
			_, err = l.events.RemoveTargets(t.Context(), &eventbridge.RemoveTargetsInput{Rule: aws.String("castoff-harbor-spot"), Ids: []string{"x"}})
			simtest.Check(t, err)
			_, seq := l.Writes(t, 0)
			simtest.Check(t, l.port.Remove(t.Context(), harbor))
			done, _ := l.Writes(t, seq)
			want := []string(nil)
			if tc.gone {
				want = []string{"RemoveTargets", "DeleteRule", "DeleteQueue"}
			}
			if diff := cmp.Diff(want, done); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

// A queue of somebody else's that was adopted stays as it was; castoff's rules that fed it go.
func TestRemoveLeavesAnAdoptedQueue(t *testing.T) {
	l := newLab(t)
	l.foreignQueue(t, openPolicy)
	before := l.attributes(t)
	simtest.Check(t, l.port.Ensure(t.Context(), harbor))
	if made := l.observe(t).Made; len(made) != 5 {
		t.Errorf("made are %v, want the five rules", made)
	}
	simtest.Check(t, l.port.Remove(t.Context(), harbor))
	if diff := cmp.Diff(before, l.attributes(t)); diff != "" {
		t.Errorf("the queue was changed: -before +after\n%s", diff)
	}
	if made := l.observe(t).Made; len(made) != 0 {
		t.Errorf("left are %v", made)
	}
}

// A target that somebody added to castoff's rule is theirs: the rule stays until they take it off, and says so.
func TestRemoveNamesARuleThatOthersUse(t *testing.T) {
	l := newLab(t)
	simtest.Check(t, l.port.Ensure(t.Context(), harbor))
	l.target(t, "castoff-harbor-health")
	err := l.port.Remove(t.Context(), harbor)
	if inventory.ClassOf(err) != inventory.ClassTerminal || !strings.Contains(err.Error(), "castoff-harbor-health") || !strings.Contains(err.Error(), "list-targets-by-rule") {
		t.Errorf("error is %v, want a terminal one naming the rule and what to do", err)
	}
	targets, err := l.events.ListTargetsByRule(t.Context(), &eventbridge.ListTargetsByRuleInput{Rule: aws.String("castoff-harbor-health")})
	simtest.Check(t, err)
	if diff := cmp.Diff([]string{"x"}, targetIDs(targets.Targets)); diff != "" {
		t.Errorf("targets: -want +got\n%s", diff)
	}
}

func targetIDs(targets []types.Target) (out []string) {
	for _, t := range targets {
		out = append(out, aws.ToString(t.Id))
	}
	return out
}

func TestRemoveErrorClasses(t *testing.T) {
	cases := map[string]struct {
		service, operation, code string
		status                   int
		want                     inventory.Class
	}{
		"targets denied":   {"events", "RemoveTargets", "AccessDeniedException", 400, inventory.ClassTerminal},
		"rule throttled":   {"events", "DeleteRule", "ThrottlingException", 400, inventory.ClassThrottled},
		"rule busy":        {"events", "DeleteRule", "ConcurrentModificationException", 400, inventory.ClassRetry},
		"tags denied":      {"events", "ListTagsForResource", "AccessDeniedException", 400, inventory.ClassTerminal},
		"queue denied":     {"sqs", "DeleteQueue", "AccessDenied", 403, inventory.ClassTerminal},
		"queue tags, 5xx":  {"sqs", "ListQueueTags", "InternalError", 500, inventory.ClassRetry},
		"queue throttled":  {"sqs", "DeleteQueue", "RequestThrottled", 403, inventory.ClassThrottled},
		"queue not looked": {"sqs", "GetQueueUrl", "AccessDenied", 403, inventory.ClassTerminal},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			simtest.Check(t, l.port.Ensure(t.Context(), harbor))
			_, err := l.Door.AddFault(t.Context(), simapi.Fault{Service: tc.service, Operation: tc.operation, Code: tc.code, Status: tc.status})
			simtest.Check(t, err)
			err = l.port.Remove(t.Context(), harbor)
			if err == nil || inventory.ClassOf(err) != tc.want || !strings.Contains(err.Error(), tc.service+":"+tc.operation) {
				t.Errorf("error is %v (%s), want %s naming %s:%s", err, inventory.ClassOf(err), tc.want, tc.service, tc.operation)
			}
		})
	}
}
