package interruption

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/google/go-cmp/cmp"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/e2e/awssim/simapi"
	"github.com/castoff-sh/castoff/e2e/awssim/simtest"
	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/inventory/awsapi"
)

var harbor = inventory.Cluster{Name: "harbor", ARN: "arn:aws:eks:us-east-1:123456789012:cluster/harbor", Account: "123456789012", Region: "us-east-1", Partition: "aws"}

const queueOfHarbor = "arn:aws:sqs:us-east-1:123456789012:harbor"

// lab is a simulated AWS and the port to it.
type lab struct {
	simtest.World
	sqs    *sqs.Client
	events *eventbridge.Client
	port   *Client
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{World: simtest.Start(t)}
	l.sqs, l.events = sqs.NewFromConfig(l.Config), eventbridge.NewFromConfig(l.Config)
	l.port = New(l.sqs, l.events)
	return l
}

// portOver is the port over a network of its own.
func (l *lab) portOver(network *http.Client) *Client {
	cfg := l.Config
	cfg.HTTPClient = network
	return New(sqs.NewFromConfig(cfg), eventbridge.NewFromConfig(cfg))
}

func (l *lab) observe(t *testing.T) inventory.Interruption {
	t.Helper()
	got, err := l.port.Observe(t.Context(), harbor)
	simtest.Check(t, err)
	return got
}

// foreignQueue is one that somebody else made, with that policy.
func (l *lab) foreignQueue(t *testing.T, policy string) {
	t.Helper()
	in := &sqs.CreateQueueInput{QueueName: aws.String("harbor"), Attributes: map[string]string{"MessageRetentionPeriod": "345600"}}
	if policy != "" {
		in.Attributes["Policy"] = policy
	}
	_, err := l.sqs.CreateQueue(t.Context(), in)
	simtest.Check(t, err)
}

func (l *lab) rule(t *testing.T, name, pattern string, tags map[string]string) {
	t.Helper()
	in := &eventbridge.PutRuleInput{Name: aws.String(name), EventPattern: aws.String(pattern), State: types.RuleStateEnabled}
	for k, v := range tags {
		in.Tags = append(in.Tags, types.Tag{Key: aws.String(k), Value: aws.String(v)})
	}
	_, err := l.events.PutRule(t.Context(), in)
	simtest.Check(t, err)
}

func (l *lab) target(t *testing.T, rule string) {
	t.Helper()
	_, err := l.events.PutTargets(t.Context(), &eventbridge.PutTargetsInput{Rule: aws.String(rule), Targets: []types.Target{{Id: aws.String("x"), Arn: aws.String(queueOfHarbor)}}})
	simtest.Check(t, err)
}

func (l *lab) attributes(t *testing.T) map[string]string {
	t.Helper()
	u, err := l.sqs.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: aws.String("harbor")})
	simtest.Check(t, err)
	out, err := l.sqs.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: u.QueueUrl, AttributeNames: []sqstypes.QueueAttributeName{"All"}})
	simtest.Check(t, err)
	return out.Attributes
}

// openPolicy is one as Karpenter's own templates write it.
const openPolicy = `{"Version":"2012-10-17","Statement":[
	{"Effect":"Allow","Principal":{"Service":["events.amazonaws.com","sqs.amazonaws.com"]},"Action":"sqs:SendMessage","Resource":"arn:aws:sqs:us-east-1:123456789012:harbor"},
	{"Effect":"Deny","Principal":"*","Action":"sqs:*","Resource":"arn:aws:sqs:us-east-1:123456789012:harbor","Condition":{"Bool":{"aws:SecureTransport":"false"}}}]}`

func TestNothingIsThere(t *testing.T) {
	l := newLab(t)
	want := inventory.Interruption{QueueName: "harbor", Missing: []string{
		"SQS queue harbor", "EventBridge rule castoff-harbor-health", "EventBridge rule castoff-harbor-spot", "EventBridge rule castoff-harbor-rebalance",
		"EventBridge rule castoff-harbor-state", "EventBridge rule castoff-harbor-reservation",
	}}
	if diff := cmp.Diff(want, l.observe(t)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if got, _ := l.Writes(t, 0); len(got) != 0 {
		t.Errorf("looking wrote %v", got)
	}
}

func TestEnsureMakesEverythingOnce(t *testing.T) {
	l := newLab(t)
	simtest.Check(t, l.port.Ensure(t.Context(), harbor))
	got := l.observe(t)
	if !got.Ready || got.QueueURL == "" || got.QueueARN != queueOfHarbor || got.Conflict != "" || len(got.Missing) != 0 {
		t.Errorf("after Ensure: %+v", got)
	}
	made, seq := l.Writes(t, 0)
	want := []string{"CreateQueue", "PutRule", "PutTargets", "PutRule", "PutTargets", "PutRule", "PutTargets", "PutRule", "PutTargets", "PutRule", "PutTargets"}
	if diff := cmp.Diff(want, made); diff != "" {
		t.Errorf("writes: -want +got\n%s", diff)
	}
	simtest.Check(t, l.port.Ensure(t.Context(), harbor))
	if again, _ := l.Writes(t, seq); len(again) != 0 {
		t.Errorf("a second Ensure wrote %v", again)
	}
	a := l.attributes(t)
	if a["MessageRetentionPeriod"] != "300" || a["SqsManagedSseEnabled"] != "true" {
		t.Errorf("attributes are %v", a)
	}
	rule, err := l.events.ListTagsForResource(t.Context(), &eventbridge.ListTagsForResourceInput{ResourceARN: aws.String("arn:aws:events:us-east-1:123456789012:rule/castoff-harbor-spot")})
	simtest.Check(t, err)
	if !slices.ContainsFunc(rule.Tags, func(t types.Tag) bool { return *t.Key == v1alpha1.TagManagedBy && *t.Value == "castoff" }) {
		t.Errorf("the rule's tags are %v", rule.Tags)
	}
}

// The events themselves reach the queue: the policy lets the rules send.
func TestEventsArrive(t *testing.T) {
	l := newLab(t)
	simtest.Check(t, l.port.Ensure(t.Context(), harbor))
	for source, kinds := range map[string][]string{
		"aws.ec2":    {"EC2 Spot Instance Interruption Warning", "EC2 Instance Rebalance Recommendation", "EC2 Instance State-change Notification", "EC2 Capacity Reservation Instance Interruption Warning", "EC2 Something Else"},
		"aws.health": {"AWS Health Event"},
	} {
		for _, k := range kinds {
			_, err := l.events.PutEvents(t.Context(), &eventbridge.PutEventsInput{Entries: []types.PutEventsRequestEntry{{Source: aws.String(source), DetailType: aws.String(k), Detail: aws.String(`{"state":"running"}`)}}})
			simtest.Check(t, err)
		}
	}
	u, err := l.sqs.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: aws.String("harbor")})
	simtest.Check(t, err)
	got := map[string]int{}
	for range 10 {
		out, err := l.sqs.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: u.QueueUrl, MaxNumberOfMessages: 10})
		simtest.Check(t, err)
		for _, m := range out.Messages {
			var event struct {
				DetailType string `json:"detail-type"`
			}
			simtest.Check(t, json.Unmarshal([]byte(aws.ToString(m.Body)), &event))
			got[event.DetailType]++
		}
		if len(out.Messages) == 0 {
			break
		}
	}
	want := map[string]int{
		"EC2 Spot Instance Interruption Warning": 1, "EC2 Instance Rebalance Recommendation": 1, "EC2 Instance State-change Notification": 1,
		"EC2 Capacity Reservation Instance Interruption Warning": 1, "AWS Health Event": 1,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// Whichever request is the last before a crash, made or not, the next call completes what it left.
func TestEnsureGoesOnFromEveryCrash(t *testing.T) {
	n := simtest.EveryCrash(t, func(t *testing.T, network *http.Client) (func(*testing.T), error) {
		l := newLab(t)
		err := l.portOver(network).Ensure(t.Context(), harbor)
		return func(t *testing.T) {
			wantRetry(t, err)
			simtest.Check(t, l.port.Ensure(t.Context(), harbor))
			if got := l.observe(t); !got.Ready || len(got.Made) != 6 {
				t.Errorf("the next call leaves %+v", got)
			}
		}, err
	})
	if n < 15 {
		t.Errorf("Ensure made %d requests; too few to prove anything", n)
	}
}

// wantRetry takes no error, or one that asks to try again.
func wantRetry(t *testing.T, err error) {
	t.Helper()
	if inventory.ClassOf(err) != inventory.ClassRetry {
		t.Fatalf("error is %v, want one to retry", err)
	}
}

func TestOwnQueueThatWasChangedIsMended(t *testing.T) {
	l := newLab(t)
	simtest.Check(t, l.port.Ensure(t.Context(), harbor))
	url := l.observe(t).QueueURL
	_, err := l.sqs.SetQueueAttributes(t.Context(), &sqs.SetQueueAttributesInput{QueueUrl: aws.String(url), Attributes: map[string]string{"MessageRetentionPeriod": "60", "Policy": openPolicy}})
	simtest.Check(t, err)
	l.rule(t, "castoff-harbor-state", `{"source":["aws.ec2"],"detail-type":["EC2 Instance State-change Notification"],"detail":{"state":["stopped"]}}`, nil)
	want := []string{"attributes of SQS queue harbor", "EventBridge rule castoff-harbor-state"}
	if got := l.observe(t); got.Conflict != "" || !cmp.Equal(want, got.Missing) {
		t.Fatalf("missing %v, conflict %q; want %v and none", got.Missing, got.Conflict, want)
	}
	simtest.Check(t, l.port.Ensure(t.Context(), harbor))
	if got := l.observe(t); !got.Ready || l.attributes(t)["MessageRetentionPeriod"] != "300" {
		t.Errorf("after Ensure: %+v, attributes %v", got, l.attributes(t))
	}
}

// The policy of castoff's own queue admits castoff's own rules; what another rule would bring does not arrive.
func TestRuleOfSomebodyElseDoesNotServeOwnQueue(t *testing.T) {
	l := newLab(t)
	simtest.Check(t, l.port.Ensure(t.Context(), harbor))
	_, err := l.events.DisableRule(t.Context(), &eventbridge.DisableRuleInput{Name: aws.String("castoff-harbor-spot")})
	simtest.Check(t, err)
	l.rule(t, "theirs", patterns[awsapi.EventSpotInterruption].String(), nil)
	l.target(t, "theirs")
	if got := l.observe(t); !cmp.Equal([]string{"EventBridge rule castoff-harbor-spot"}, got.Missing) || got.Conflict != "" {
		t.Errorf("missing %v, conflict %q; want castoff's own rule, which is disabled", got.Missing, got.Conflict)
	}
	simtest.Check(t, l.port.Ensure(t.Context(), harbor))
	if got := l.observe(t); !got.Ready {
		t.Errorf("after Ensure: %+v", got)
	}
}

func TestForeignQueueThatFitsIsAdopted(t *testing.T) {
	l := newLab(t)
	l.foreignQueue(t, openPolicy)
	l.rule(t, "Karpenter-spot", `{"source":["aws.ec2"],"detail-type":["EC2 Spot Instance Interruption Warning"]}`, nil)
	l.rule(t, "Karpenter-more", `{"detail-type":["EC2 Instance State-change Notification","EC2 Instance Rebalance Recommendation"],"source":["aws.ec2"]}`, nil)
	l.target(t, "Karpenter-spot")
	l.target(t, "Karpenter-more")
	before := l.attributes(t)
	_, seq := l.Writes(t, 0)
	got := l.observe(t)
	if diff := cmp.Diff([]string{"EventBridge rule castoff-harbor-health", "EventBridge rule castoff-harbor-reservation"}, got.Missing); diff != "" || got.Conflict != "" {
		t.Errorf("conflict %q; missing: -want +got\n%s", got.Conflict, diff)
	}
	simtest.Check(t, l.port.Ensure(t.Context(), harbor))
	made, _ := l.Writes(t, seq)
	if diff := cmp.Diff([]string{"PutRule", "PutTargets", "PutRule", "PutTargets"}, made); diff != "" {
		t.Errorf("writes: -want +got\n%s", diff)
	}
	if diff := cmp.Diff(before["Policy"], l.attributes(t)["Policy"]); diff != "" || l.attributes(t)["MessageRetentionPeriod"] != "345600" {
		t.Errorf("the queue of somebody else was changed: %s", diff)
	}
	if got := l.observe(t); !got.Ready {
		t.Errorf("after Ensure: %+v", got)
	}
}

func TestConflicts(t *testing.T) {
	cases := map[string]struct {
		reason string
		set    func(*testing.T, *lab)
		says   string
	}{
		"closed queue": {"EventBridge may not send to it", func(t *testing.T, l *lab) { l.foreignQueue(t, "") }, "events.amazonaws.com"},
		"queue with a narrow policy": {"whether its condition lets castoff's rules pass is not guessed", func(t *testing.T, l *lab) {
			l.foreignQueue(t, strings.Replace(openPolicy, `"Action":"sqs:SendMessage",`, `"Action":"sqs:SendMessage","Condition":{"StringEquals":{"aws:SourceAccount":"1"}},`, 1))
		}, "without a condition"},
		"node-termination-handler's queue": {"Karpenter would delete lifecycle events unread", func(t *testing.T, l *lab) {
			l.foreignQueue(t, openPolicy)
			l.rule(t, "nth-asg", `{"source":["aws.autoscaling"],"detail-type":["EC2 Instance-terminate Lifecycle Action"]}`, nil)
			l.target(t, "nth-asg")
		}, "nth-asg"},
		"rule of the name": {"it is not castoff's and matches something else", func(t *testing.T, l *lab) {
			l.rule(t, "castoff-harbor-spot", `{"source":["aws.s3"]}`, nil)
		}, "castoff-harbor-spot"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			tc.set(t, l)
			_, seq := l.Writes(t, 0)
			if got := l.observe(t); got.Ready || !strings.Contains(got.Conflict, tc.says) {
				t.Errorf("%s: ready %v, conflict %q; want false, and %q in it", tc.reason, got.Ready, got.Conflict, tc.says)
			}
			if err := l.port.Ensure(t.Context(), harbor); inventory.ClassOf(err) != inventory.ClassTerminal || err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%s: Ensure gives %v, want a terminal error with %q", tc.reason, err, tc.says)
			}
			if made, _ := l.Writes(t, seq); len(made) != 0 {
				t.Errorf("%s: Ensure wrote %v", tc.reason, made)
			}
		})
	}
}

func TestRuleOfTheNameThatFitsIsAimedOnly(t *testing.T) {
	l := newLab(t)
	l.rule(t, "castoff-harbor-spot", patterns[awsapi.EventSpotInterruption].String(), nil)
	simtest.Check(t, l.port.Ensure(t.Context(), harbor))
	calls, err := l.Door.Calls(t.Context(), 0)
	simtest.Check(t, err)
	puts := 0
	for _, c := range calls {
		if c.Operation == "PutRule" && strings.Contains(string(c.Input), "castoff-harbor-spot") {
			puts++
		}
	}
	if puts != 1 || !l.observe(t).Ready { // the test's own
		t.Errorf("the rule was put %d times, want once; %+v", puts, l.observe(t))
	}
}

func TestErrorClasses(t *testing.T) {
	cases := map[string]struct {
		service, operation, code string
		status                   int
		want                     inventory.Class
	}{
		"queue URL denied":         {"sqs", "GetQueueUrl", "AccessDenied", 403, inventory.ClassTerminal},
		"queue throttled":          {"sqs", "GetQueueUrl", "RequestThrottled", 403, inventory.ClassThrottled},
		"queue not made":           {"sqs", "CreateQueue", "AccessDenied", 403, inventory.ClassTerminal},
		"queue deleted recently":   {"sqs", "CreateQueue", "QueueDeletedRecently", 400, inventory.ClassRetry},
		"rules denied":             {"events", "PutRule", "AccessDeniedException", 400, inventory.ClassTerminal},
		"rules' quota":             {"events", "PutRule", "LimitExceededException", 400, inventory.ClassTerminal},
		"targets throttled":        {"events", "PutTargets", "ThrottlingException", 400, inventory.ClassThrottled},
		"changed at the same time": {"events", "PutTargets", "ConcurrentModificationException", 400, inventory.ClassRetry},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			_, err := l.Door.AddFault(t.Context(), simapi.Fault{Service: tc.service, Operation: tc.operation, Code: tc.code, Status: tc.status})
			simtest.Check(t, err)
			err = l.port.Ensure(t.Context(), harbor)
			if err == nil || inventory.ClassOf(err) != tc.want || !strings.Contains(err.Error(), tc.service+":"+tc.operation) {
				t.Errorf("error is %v (%s), want %s naming %s:%s", err, inventory.ClassOf(err), tc.want, tc.service, tc.operation)
			}
		})
	}
}
