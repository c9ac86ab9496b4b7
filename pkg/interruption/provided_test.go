package interruption

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/google/go-cmp/cmp"

	"github.com/castoff-sh/castoff/e2e/awssim/simtest"
	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/inventory/awsapi"
)

// theirs is cluster "harbor" with a queue of its user's.
func theirs() inventory.Cluster {
	c := harbor
	c.Provided.Queue = "interruptions"
	return c
}

// queueNamed is a queue of somebody else's with rules for these kinds, of names that castoff would not give them.
func (l *lab) queueNamed(t *testing.T, name, policy string, kinds ...string) {
	t.Helper()
	in := &sqs.CreateQueueInput{QueueName: aws.String(name)}
	if policy != "" {
		in.Attributes = map[string]string{"Policy": strings.ReplaceAll(policy, ":harbor", ":"+name)}
	}
	_, err := l.sqs.CreateQueue(t.Context(), in)
	simtest.Check(t, err)
	for _, k := range kinds {
		l.rule(t, "security-"+k, patterns[k].String(), nil)
		l.aim(t, "security-"+k, "arn:aws:sqs:us-east-1:123456789012:"+name)
	}
}

func (l *lab) aim(t *testing.T, rule, queue string) {
	t.Helper()
	_, err := l.events.PutTargets(t.Context(), &eventbridge.PutTargetsInput{Rule: aws.String(rule), Targets: []types.Target{{Id: aws.String("x"), Arn: aws.String(queue)}}})
	simtest.Check(t, err)
}

func TestProvidedQueue(t *testing.T) {
	const conditioned = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"events.amazonaws.com"},"Action":"sqs:SendMessage","Resource":"*","Condition":{"ArnLike":{"aws:SourceArn":"arn:aws:events:us-east-1:123456789012:rule/security-*"}}}]}`
	cases := map[string]struct {
		reason string
		policy string
		queue  bool
		kinds  []string
		extra  string // event pattern of one more rule
		want   []string
	}{
		"Fits":        {reason: "all five kinds arrive", queue: true, policy: openPolicy, kinds: awsapi.EventKinds()},
		"FitsNarrow":  {reason: "the policy names the rules, and Karpenter drains on three kinds", queue: true, policy: conditioned, kinds: neededKinds},
		"Missing":     {reason: "a name that is not there ends Karpenter as it starts", want: []string{"SQS queue interruptions, which spec.provisioner.queueName names, does not exist in account 123456789012 and region us-east-1"}},
		"Closed":      {reason: "without a policy nothing arrives", queue: true, kinds: neededKinds, want: []string{"does not let events.amazonaws.com send to it"}},
		"NotFed":      {reason: "without rules nothing arrives", queue: true, policy: openPolicy, want: []string{"AWS Health Event", "EC2 Spot Instance Interruption Warning", "EC2 Instance State-change Notification"}},
		"HalfFed":     {reason: "the one that is missing is named", queue: true, policy: openPolicy, kinds: neededKinds[:2], want: []string{"EC2 Instance State-change Notification"}},
		"SharedQueue": {reason: "somebody else's events would be deleted unread", queue: true, policy: openPolicy, kinds: neededKinds, extra: `{"source":["aws.autoscaling"]}`, want: []string{"is also fed by EventBridge rule other"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			if tc.queue {
				l.queueNamed(t, "interruptions", tc.policy, tc.kinds...)
			}
			if tc.extra != "" {
				l.rule(t, "other", tc.extra, nil)
				l.aim(t, "other", "arn:aws:sqs:us-east-1:123456789012:interruptions")
			}
			_, seq := l.Writes(t, 0)
			got, err := l.port.Observe(t.Context(), theirs())
			simtest.Check(t, err)
			if got.QueueName != "interruptions" || got.Ready != (len(tc.want) == 0) || len(got.Missing)+len(got.Made) != 0 {
				t.Errorf("%s: %+v", tc.reason, got)
			}
			if tc.queue && got.QueueARN != "arn:aws:sqs:us-east-1:123456789012:interruptions" {
				t.Errorf("the queue's ARN is %s", got.QueueARN)
			}
			for _, want := range tc.want {
				if !strings.Contains(got.Conflict, want) {
					t.Errorf("%s: %q does not say %q", tc.reason, got.Conflict, want)
				}
			}
			err = l.port.Ensure(t.Context(), theirs())
			if terminal := inventory.ClassOf(err) == inventory.ClassTerminal; (err != nil) != (len(tc.want) > 0) || (err != nil && !terminal) {
				t.Errorf("%s: Ensure gives %v", tc.reason, err)
			}
			simtest.Check(t, l.port.Remove(t.Context(), theirs()))
			if wrote, _ := l.Writes(t, seq); len(wrote) != 0 {
				t.Errorf("somebody else's queue was written to: %v", wrote)
			}
		})
	}
}

// TestProvidedQueueOfCastoffsName: the user's word counts, whatever the name and the tags.
func TestProvidedQueueOfCastoffsName(t *testing.T) {
	l := newLab(t)
	simtest.Check(t, l.port.Ensure(t.Context(), harbor))
	c := harbor
	c.Provided.Queue = "harbor"
	got, err := l.port.Observe(t.Context(), c)
	simtest.Check(t, err)
	want := inventory.Interruption{QueueName: "harbor", QueueURL: got.QueueURL, QueueARN: queueOfHarbor, Ready: true}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	simtest.Check(t, l.port.Remove(t.Context(), c))
	if got := l.observe(t); !got.Ready {
		t.Errorf("the way back took a queue that the user called theirs: %+v", got)
	}
}

// TestCase_C050_NoQueueIsMadeWhenInterruptionsAreOff is the last clause; the rest is tested with the engine's release.
func TestCase_C050_NoQueueIsMadeWhenInterruptionsAreOff(t *testing.T) {
	l := newLab(t)
	c := harbor
	c.Provided.NoQueue = true
	got, err := l.port.Observe(t.Context(), c)
	simtest.Check(t, err)
	if diff := cmp.Diff(inventory.Interruption{Ready: true}, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	simtest.Check(t, l.port.Ensure(t.Context(), c))
	simtest.Check(t, l.port.Remove(t.Context(), c))
	if got, _ := l.Writes(t, 0); len(got) != 0 {
		t.Errorf("wrote %v", got)
	}
}
