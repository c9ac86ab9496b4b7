package awssim

import (
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// sqsService simulates standard queues of Amazon SQS. It never lags.
type sqsService struct {
	s       *Server
	queues  map[string]*queue
	deleted map[string]time.Time // when a queue of that name went
}

type queue struct {
	name       string
	created    time.Time
	modified   time.Time
	attributes map[string]string
	tags       map[string]string
	messages   []*message
}

type message struct {
	id, body string
	sent     time.Time
	visible  time.Time // hidden until then
	receives int
}

// recreateDelay is how long after its deletion a queue's name stays taken,
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_CreateQueue.html.
const recreateDelay = time.Minute

func newSQS(s *Server) *sqsService {
	q := &sqsService{s: s, queues: map[string]*queue{}, deleted: map[string]time.Time{}}
	on(s, "sqs.CreateQueue", q.createQueue)
	on(s, "sqs.GetQueueUrl", q.getQueueURL)
	on(s, "sqs.ListQueues", q.listQueues)
	on(s, "sqs.DeleteQueue", q.deleteQueue)
	on(s, "sqs.PurgeQueue", q.purgeQueue)
	on(s, "sqs.GetQueueAttributes", q.getQueueAttributes)
	on(s, "sqs.SetQueueAttributes", q.setQueueAttributes)
	on(s, "sqs.TagQueue", q.tagQueue)
	on(s, "sqs.UntagQueue", q.untagQueue)
	on(s, "sqs.ListQueueTags", q.listQueueTags)
	on(s, "sqs.SendMessage", q.sendMessage)
	on(s, "sqs.ReceiveMessage", q.receiveMessage)
	on(s, "sqs.DeleteMessage", q.deleteMessage)
	on(s, "sqs.DeleteMessageBatch", q.deleteMessageBatch)
	on(s, "sqs.ChangeMessageVisibility", q.changeMessageVisibility)
	return q
}

func sqsError(code, queryCode, format string, args ...any) *apiError {
	e := errorf(code, format, args...)
	e.QueryCode = queryCode
	return e
}

func (q *sqsService) url(name string) *string {
	return aws.String("https://sqs." + q.s.options.Region + ".amazonaws.com/" + accountID + "/" + name)
}

func (q *sqsService) queueARN(name string) string { return q.s.arn("sqs", name) }

// queue finds a queue by its URL, or by its name.
func (q *sqsService) queue(url *string) (*queue, error) {
	x, ok := q.queues[lastSegment(aws.ToString(url))]
	if !ok {
		return nil, sqsError("QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue", "The specified queue does not exist.")
	}
	return x, nil
}

func (q *sqsService) createQueue(_ *call, in *sqs.CreateQueueInput) (*sqs.CreateQueueOutput, error) {
	name := aws.ToString(in.QueueName)
	if old, ok := q.queues[name]; ok {
		for k, v := range in.Attributes {
			if old.attributes[k] != v {
				return nil, sqsError("QueueNameExists", "QueueAlreadyExists", "A queue already exists with the same name and a different value for attribute %s", k)
			}
		}
		return &sqs.CreateQueueOutput{QueueUrl: q.url(name)}, nil
	}
	if gone, ok := q.deleted[name]; ok && q.s.now().Sub(gone) < recreateDelay {
		return nil, sqsError("QueueDeletedRecently", "AWS.SimpleQueueService.QueueDeletedRecently", "You must wait 60 seconds after deleting a queue before you can create another with the same name.")
	}
	x := &queue{name: name, created: q.s.now(), modified: q.s.now(), attributes: map[string]string{}, tags: maps.Clone(in.Tags)}
	maps.Copy(x.attributes, map[string]string{
		"VisibilityTimeout": "30", "MaximumMessageSize": "262144", "MessageRetentionPeriod": "345600", "DelaySeconds": "0", "ReceiveMessageWaitTimeSeconds": "0",
	})
	maps.Copy(x.attributes, in.Attributes)
	q.queues[name] = x
	return &sqs.CreateQueueOutput{QueueUrl: q.url(name)}, nil
}

func (q *sqsService) getQueueURL(_ *call, in *sqs.GetQueueUrlInput) (*sqs.GetQueueUrlOutput, error) {
	x, err := q.queue(in.QueueName)
	if err != nil {
		return nil, err
	}
	return &sqs.GetQueueUrlOutput{QueueUrl: q.url(x.name)}, nil
}

func (q *sqsService) listQueues(_ *call, in *sqs.ListQueuesInput) (*sqs.ListQueuesOutput, error) {
	rows, next, err := paged(q.s, in.NextToken, aws.ToInt32(in.MaxResults), func() ([]string, error) {
		var rows []string
		for _, name := range slices.Sorted(maps.Keys(q.queues)) {
			if strings.HasPrefix(name, aws.ToString(in.QueueNamePrefix)) {
				rows = append(rows, *q.url(name))
			}
		}
		return rows, nil
	})
	return &sqs.ListQueuesOutput{QueueUrls: rows, NextToken: next}, err
}

func (q *sqsService) deleteQueue(_ *call, in *sqs.DeleteQueueInput) (*sqs.DeleteQueueOutput, error) {
	x, err := q.queue(in.QueueUrl)
	if err != nil {
		return nil, err
	}
	delete(q.queues, x.name)
	q.deleted[x.name] = q.s.now()
	q.s.dirty = true
	return &sqs.DeleteQueueOutput{}, nil
}

func (q *sqsService) purgeQueue(_ *call, in *sqs.PurgeQueueInput) (*sqs.PurgeQueueOutput, error) {
	x, err := q.queue(in.QueueUrl)
	if err != nil {
		return nil, err
	}
	x.messages = nil
	return &sqs.PurgeQueueOutput{}, nil
}

func (q *sqsService) getQueueAttributes(_ *call, in *sqs.GetQueueAttributesInput) (*sqs.GetQueueAttributesOutput, error) {
	x, err := q.queue(in.QueueUrl)
	if err != nil {
		return nil, err
	}
	all := maps.Clone(x.attributes)
	q.expire(x)
	hidden := 0
	for _, m := range x.messages {
		if m.visible.After(q.s.now()) {
			hidden++
		}
	}
	all["QueueArn"] = q.queueARN(x.name)
	all["ApproximateNumberOfMessages"] = strconv.Itoa(len(x.messages) - hidden)
	all["ApproximateNumberOfMessagesNotVisible"] = strconv.Itoa(hidden)
	all["ApproximateNumberOfMessagesDelayed"] = "0"
	all["CreatedTimestamp"] = strconv.FormatInt(x.created.Unix(), 10)
	all["LastModifiedTimestamp"] = strconv.FormatInt(x.modified.Unix(), 10)
	maps.DeleteFunc(all, func(k, v string) bool {
		wanted := slices.Contains(in.AttributeNames, types.QueueAttributeNameAll) || slices.Contains(in.AttributeNames, types.QueueAttributeName(k))
		return !wanted || v == ""
	})
	return &sqs.GetQueueAttributesOutput{Attributes: all}, nil
}

func (q *sqsService) setQueueAttributes(_ *call, in *sqs.SetQueueAttributesInput) (*sqs.SetQueueAttributesOutput, error) {
	x, err := q.queue(in.QueueUrl)
	if err != nil {
		return nil, err
	}
	maps.Copy(x.attributes, in.Attributes)
	x.modified = q.s.now()
	return &sqs.SetQueueAttributesOutput{}, nil
}

func (q *sqsService) tagQueue(_ *call, in *sqs.TagQueueInput) (*sqs.TagQueueOutput, error) {
	x, err := q.queue(in.QueueUrl)
	if err != nil {
		return nil, err
	}
	if x.tags == nil {
		x.tags = map[string]string{}
	}
	maps.Copy(x.tags, in.Tags)
	return &sqs.TagQueueOutput{}, nil
}

func (q *sqsService) untagQueue(_ *call, in *sqs.UntagQueueInput) (*sqs.UntagQueueOutput, error) {
	x, err := q.queue(in.QueueUrl)
	if err != nil {
		return nil, err
	}
	for _, k := range in.TagKeys {
		delete(x.tags, k)
	}
	return &sqs.UntagQueueOutput{}, nil
}

func (q *sqsService) listQueueTags(_ *call, in *sqs.ListQueueTagsInput) (*sqs.ListQueueTagsOutput, error) {
	x, err := q.queue(in.QueueUrl)
	if err != nil {
		return nil, err
	}
	return &sqs.ListQueueTagsOutput{Tags: maps.Clone(x.tags)}, nil
}

// send puts a message into a queue and wakes whoever waits for one.
func (q *sqsService) send(x *queue, body string) *message {
	m := &message{id: q.s.newID("message"), body: body, sent: q.s.now(), visible: q.s.now()}
	x.messages = append(x.messages, m)
	q.s.dirty = true
	return m
}

func bodyMD5(body string) *string {
	sum := md5.Sum([]byte(body)) // what the protocol asks for; it guards nothing
	return aws.String(hex.EncodeToString(sum[:]))
}

func (q *sqsService) sendMessage(_ *call, in *sqs.SendMessageInput) (*sqs.SendMessageOutput, error) {
	x, err := q.queue(in.QueueUrl)
	if err != nil {
		return nil, err
	}
	m := q.send(x, aws.ToString(in.MessageBody))
	m.visible = m.visible.Add(time.Duration(in.DelaySeconds) * time.Second)
	return &sqs.SendMessageOutput{MessageId: aws.String(m.id), MD5OfMessageBody: bodyMD5(m.body)}, nil
}

// expire drops the messages that are older than the queue keeps them.
func (q *sqsService) expire(x *queue) {
	limit := q.s.now().Add(-x.seconds("MessageRetentionPeriod"))
	x.messages = slices.DeleteFunc(x.messages, func(m *message) bool { return m.sent.Before(limit) })
}

// seconds reads an attribute; one that is no number counts as 0.
func (x *queue) seconds(attribute string) time.Duration {
	n, _ := strconv.Atoi(x.attributes[attribute])
	return time.Duration(n) * time.Second
}

// receiveMessage waits for a message as long as the request, or the queue, says.
func (q *sqsService) receiveMessage(c *call, in *sqs.ReceiveMessageInput) (*sqs.ReceiveMessageOutput, error) {
	x, err := q.queue(in.QueueUrl)
	if err != nil {
		return nil, err
	}
	wait := time.Duration(in.WaitTimeSeconds) * time.Second
	if wait == 0 {
		wait = x.seconds("ReceiveMessageWaitTimeSeconds")
	}
	c.wait(wait, func() bool { return len(q.ready(x)) > 0 || q.queues[x.name] != x })
	if q.queues[x.name] != x { // deleted meanwhile
		_, err := q.queue(aws.String(x.name))
		return &sqs.ReceiveMessageOutput{}, err
	}
	hide := time.Duration(in.VisibilityTimeout) * time.Second
	if hide == 0 {
		hide = x.seconds("VisibilityTimeout")
	}
	out := &sqs.ReceiveMessageOutput{}
	for _, m := range q.ready(x) {
		if len(out.Messages) == int(max(in.MaxNumberOfMessages, 1)) {
			break
		}
		m.receives++
		m.visible = q.s.now().Add(hide)
		q.s.after(hide, func() { q.s.dirty = true }) // whoever waits then shall look again
		out.Messages = append(out.Messages, types.Message{
			MessageId: aws.String(m.id), ReceiptHandle: aws.String(fmt.Sprintf("%s/%d", m.id, m.receives)), Body: aws.String(m.body), MD5OfBody: bodyMD5(m.body),
			Attributes: map[string]string{
				"SentTimestamp":           strconv.FormatInt(m.sent.UnixMilli(), 10),
				"ApproximateReceiveCount": strconv.Itoa(m.receives), "SenderId": accountID,
			},
		})
	}
	return out, nil
}

// ready lists the messages that may be received now.
func (q *sqsService) ready(x *queue) []*message {
	q.expire(x)
	var ready []*message
	for _, m := range x.messages {
		if !m.visible.After(q.s.now()) {
			ready = append(ready, m)
		}
	}
	return ready
}

func (q *sqsService) deleteMessage(_ *call, in *sqs.DeleteMessageInput) (*sqs.DeleteMessageOutput, error) {
	x, err := q.queue(in.QueueUrl)
	if err != nil {
		return nil, err
	}
	x.drop(aws.ToString(in.ReceiptHandle))
	return &sqs.DeleteMessageOutput{}, nil
}

// drop deletes a message by any of its receipt handles; one that is gone is no error.
func (x *queue) drop(receipt string) {
	id, _, _ := strings.Cut(receipt, "/")
	x.messages = slices.DeleteFunc(x.messages, func(m *message) bool { return m.id == id })
}

func (q *sqsService) deleteMessageBatch(_ *call, in *sqs.DeleteMessageBatchInput) (*sqs.DeleteMessageBatchOutput, error) {
	x, err := q.queue(in.QueueUrl)
	if err != nil {
		return nil, err
	}
	out := &sqs.DeleteMessageBatchOutput{Failed: []types.BatchResultErrorEntry{}}
	for _, entry := range in.Entries {
		x.drop(aws.ToString(entry.ReceiptHandle))
		out.Successful = append(out.Successful, types.DeleteMessageBatchResultEntry{Id: entry.Id})
	}
	return out, nil
}

func (q *sqsService) changeMessageVisibility(_ *call, in *sqs.ChangeMessageVisibilityInput) (*sqs.ChangeMessageVisibilityOutput, error) {
	x, err := q.queue(in.QueueUrl)
	if err != nil {
		return nil, err
	}
	id, _, _ := strings.Cut(aws.ToString(in.ReceiptHandle), "/")
	for _, m := range x.messages {
		if m.id == id {
			m.visible = q.s.now().Add(time.Duration(in.VisibilityTimeout) * time.Second)
			q.s.after(time.Duration(in.VisibilityTimeout)*time.Second, func() { q.s.dirty = true })
			return &sqs.ChangeMessageVisibilityOutput{}, nil
		}
	}
	return nil, sqsError("ReceiptHandleIsInvalid", "ReceiptHandleIsInvalid", "The input receipt handle is invalid.")
}
