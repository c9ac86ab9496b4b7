package awssim

import (
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
)

// newQueue makes the queue "prod" and returns its URL.
func newQueue(t *testing.T, l *lab, attributes map[string]string) *string {
	t.Helper()
	out, err := l.sqs.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: aws.String("prod"), Attributes: attributes, Tags: map[string]string{"a": "1"}})
	ok(t, err)
	return out.QueueUrl
}

func (l *lab) sendTo(t *testing.T, queue *string, bodies ...string) {
	t.Helper()
	for _, b := range bodies {
		_, err := l.sqs.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: queue, MessageBody: aws.String(b)})
		ok(t, err)
	}
}

// receive takes up to ten messages without waiting.
func (l *lab) receive(t *testing.T, queue *string) []types.Message {
	t.Helper()
	out, err := l.sqs.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: queue, MaxNumberOfMessages: 10, VisibilityTimeout: 20})
	ok(t, err)
	return out.Messages
}

func bodies(messages []types.Message) []string {
	list := []string{}
	for _, m := range messages {
		list = append(list, *m.Body)
	}
	return list
}

func TestQueueAttributes(t *testing.T) {
	l := newLab(t, Options{})
	queue := newQueue(t, l, map[string]string{"MessageRetentionPeriod": "300", "SqsManagedSseEnabled": "true", "Policy": "{}"})
	if again := newQueue(t, l, map[string]string{"MessageRetentionPeriod": "300"}); *again != *queue {
		t.Errorf("creating it again answers %s", *again)
	}
	_, err := l.sqs.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: aws.String("prod"), Attributes: map[string]string{"MessageRetentionPeriod": "60"}})
	wantCode(t, err, "QueueAlreadyExists", "another value of an attribute")
	_, err = l.sqs.SetQueueAttributes(ctx, &sqs.SetQueueAttributesInput{QueueUrl: queue, Attributes: map[string]string{"Policy": `{"a":1}`}})
	ok(t, err)
	l.sendTo(t, queue, "one", "two")
	if got := l.receive(t, queue); len(got) != 2 {
		t.Fatalf("received %d", len(got))
	}
	l.sendTo(t, queue, "three")
	all, err := l.sqs.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{QueueUrl: queue, AttributeNames: []types.QueueAttributeName{"All"}})
	ok(t, err)
	want := map[string]string{
		"QueueArn": "arn:aws:sqs:us-east-1:123456789012:prod", "MessageRetentionPeriod": "300", "SqsManagedSseEnabled": "true", "Policy": `{"a":1}`, "VisibilityTimeout": "30",
		"MaximumMessageSize": "262144", "DelaySeconds": "0", "ReceiveMessageWaitTimeSeconds": "0", "ApproximateNumberOfMessages": "1", "ApproximateNumberOfMessagesNotVisible": "2",
		"ApproximateNumberOfMessagesDelayed": "0", "CreatedTimestamp": fmt.Sprint(epoch.Unix()), "LastModifiedTimestamp": fmt.Sprint(epoch.Unix()),
	}
	if diff := cmp.Diff(want, all.Attributes); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	some, err := l.sqs.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{QueueUrl: queue, AttributeNames: []types.QueueAttributeName{"Policy"}})
	ok(t, err)
	if diff := cmp.Diff(map[string]string{"Policy": `{"a":1}`}, some.Attributes); diff != "" {
		t.Errorf("only what was asked for (-want +got):\n%s", diff)
	}
}

func TestQueueTagsAndLists(t *testing.T) {
	l := newLab(t, Options{})
	queue := newQueue(t, l, nil)
	_, err := l.sqs.TagQueue(ctx, &sqs.TagQueueInput{QueueUrl: queue, Tags: map[string]string{"b": "2"}})
	ok(t, err)
	_, err = l.sqs.UntagQueue(ctx, &sqs.UntagQueueInput{QueueUrl: queue, TagKeys: []string{"a"}})
	ok(t, err)
	tags, err := l.sqs.ListQueueTags(ctx, &sqs.ListQueueTagsInput{QueueUrl: queue})
	ok(t, err)
	if diff := cmp.Diff(map[string]string{"b": "2"}, tags.Tags); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for prefix, want := range map[string]int{"pr": 1, "dev": 0} {
		list, err := l.sqs.ListQueues(ctx, &sqs.ListQueuesInput{QueueNamePrefix: &prefix})
		ok(t, err)
		if len(list.QueueUrls) != want {
			t.Errorf("%d queues begin with %s", len(list.QueueUrls), prefix)
		}
	}
}

func TestMissingQueue(t *testing.T) {
	l := newLab(t, Options{})
	queue := newQueue(t, l, nil)
	_, err := l.sqs.DeleteQueue(ctx, &sqs.DeleteQueueInput{QueueUrl: queue})
	ok(t, err)
	const missing = "AWS.SimpleQueueService.NonExistentQueue" // what SDK clients see of QueueDoesNotExist
	_, err = l.sqs.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: aws.String("prod")})
	wantCode(t, err, missing, "GetQueueUrl")
	_, err = l.sqs.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: queue})
	wantCode(t, err, missing, "ReceiveMessage")
	_, err = l.sqs.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: queue, MessageBody: aws.String("x")})
	wantCode(t, err, missing, "SendMessage")
	_, err = l.sqs.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: queue, ReceiptHandle: aws.String("x")})
	wantCode(t, err, missing, "DeleteMessage")
	_, err = l.sqs.PurgeQueue(ctx, &sqs.PurgeQueueInput{QueueUrl: queue})
	wantCode(t, err, missing, "PurgeQueue")
	l.Advance(59 * time.Second)
	_, err = l.sqs.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: aws.String("prod")})
	wantCode(t, err, "AWS.SimpleQueueService.QueueDeletedRecently", "the name is taken for a minute")
	l.Advance(time.Second)
	newQueue(t, l, nil)
}

func TestVisibility(t *testing.T) {
	l := newLab(t, Options{})
	queue := newQueue(t, l, map[string]string{"MessageRetentionPeriod": "300"})
	l.sendTo(t, queue, "one", "two")
	first := l.receive(t, queue)
	if diff := cmp.Diff([]string{"one", "two"}, bodies(first)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := l.receive(t, queue); len(got) != 0 {
		t.Errorf("received messages are hidden: %v", bodies(got))
	}
	_, err := l.sqs.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: queue, ReceiptHandle: first[0].ReceiptHandle})
	ok(t, err)
	l.Advance(20 * time.Second)
	again := l.receive(t, queue)
	if diff := cmp.Diff([]string{"two"}, bodies(again)); diff != "" {
		t.Errorf("what was not deleted comes back (-want +got):\n%s", diff)
	}
	if again[0].Attributes["ApproximateReceiveCount"] != "2" || again[0].Attributes["SentTimestamp"] != fmt.Sprint(epoch.UnixMilli()) {
		t.Errorf("attributes %v", again[0].Attributes)
	}
	_, err = l.sqs.ChangeMessageVisibility(ctx, &sqs.ChangeMessageVisibilityInput{QueueUrl: queue, ReceiptHandle: again[0].ReceiptHandle, VisibilityTimeout: 0})
	ok(t, err)
	if got := l.receive(t, queue); len(got) != 1 {
		t.Errorf("a message shown again at once: %v", bodies(got))
	}
	_, err = l.sqs.ChangeMessageVisibility(ctx, &sqs.ChangeMessageVisibilityInput{QueueUrl: queue, ReceiptHandle: aws.String("none"), VisibilityTimeout: 1})
	wantCode(t, err, "ReceiptHandleIsInvalid", "a handle that was never given")
	l.Advance(5 * time.Minute)
	if got := l.receive(t, queue); len(got) != 0 {
		t.Errorf("a queue keeps messages for its retention period only: %v", bodies(got))
	}
}

func TestMessagesGo(t *testing.T) {
	l := newLab(t, Options{})
	queue := newQueue(t, l, nil)
	l.sendTo(t, queue, "one", "two", "three")
	got := l.receive(t, queue)
	_, err := l.sqs.DeleteMessageBatch(ctx, &sqs.DeleteMessageBatchInput{QueueUrl: queue, Entries: []types.DeleteMessageBatchRequestEntry{
		{Id: aws.String("x"), ReceiptHandle: got[0].ReceiptHandle}, {Id: aws.String("y"), ReceiptHandle: got[2].ReceiptHandle},
	}})
	ok(t, err)
	l.Advance(time.Minute)
	if diff := cmp.Diff([]string{"two"}, bodies(l.receive(t, queue))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	_, err = l.sqs.PurgeQueue(ctx, &sqs.PurgeQueueInput{QueueUrl: queue})
	ok(t, err)
	l.Advance(time.Minute)
	if got := l.receive(t, queue); len(got) != 0 {
		t.Errorf("a purged queue has %v", bodies(got))
	}
}

// poll receives with a wait of 20 s in the background; the channel gets the bodies, or the error's code.
func (l *lab) poll(queue *string) chan []string {
	result := make(chan []string, 1)
	go func() {
		out, err := l.sqs.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: queue, WaitTimeSeconds: 20, MaxNumberOfMessages: 10})
		if err != nil {
			result <- []string{codeOf(err)}
			return
		}
		result <- bodies(out.Messages)
	}()
	return result
}

func TestLongPoll(t *testing.T) {
	cases := map[string]struct {
		reason string
		end    func(*testing.T, *lab, *string)
		want   []string
	}{
		"Message": {"a message ends the wait", func(t *testing.T, l *lab, q *string) { l.sendTo(t, q, "one") }, []string{"one"}},
		"Time":    {"the wait ends empty after 20 s of the simulated clock", func(_ *testing.T, l *lab, _ *string) { l.Advance(20 * time.Second) }, []string{}},
		"Deleted": {"a queue that goes ends the wait", func(t *testing.T, l *lab, q *string) {
			_, err := l.sqs.DeleteQueue(ctx, &sqs.DeleteQueueInput{QueueUrl: q})
			ok(t, err)
		}, []string{"AWS.SimpleQueueService.NonExistentQueue"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			l := newLab(t, Options{})
			queue := newQueue(t, l, nil)
			result := l.poll(queue)
			waiting := func() int { // the timer of the wait
				l.mu.Lock()
				defer l.mu.Unlock()
				return len(l.clock.timers)
			}
			g.Eventually(waiting).WithTimeout(10*time.Second).Should(BeNumerically(">", 0), "the poll must wait without holding the lock")
			l.run(t, nil) // others work meanwhile, and a change that is no message does not end the wait
			g.Consistently(result).WithTimeout(50 * time.Millisecond).ShouldNot(Receive())
			tc.end(t, l, queue)
			g.Eventually(result).WithTimeout(10*time.Second).Should(Receive(Equal(tc.want)), tc.reason)
		})
	}
}
