package interruption

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/inventory/awsapi"
)

// retentionSeconds: a warning that is older than five minutes is about an instance that is gone.
const retentionSeconds = "300"

// noQueue are the codes of a queue that does not exist, in the JSON and in the older query protocol.
var noQueue = []string{"QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue"}

func queueARN(c inventory.Cluster) string { return awsapi.ARN(c, "sqs", queueName(c)) }

// queueState is the queue as seen. The zero value is a queue that is not there.
type queueState struct {
	url string
	// made: it carries all of castoff's tags for this very cluster, so castoff made it and may delete it.
	made bool
	// drifted: it is castoff's, and its attributes are not what they should be.
	drifted bool
	// foreign: it is not castoff's, and its attributes are not castoff's either.
	foreign bool
	policy  string
}

// wantedAttributes are the queue's: short retention, encryption, and a policy that lets the rules send to it. Sources
// are EventBridge for the rules and SQS itself for what is moved back from a dead-letter queue of the same account.
func wantedAttributes(c inventory.Cluster) map[string]string {
	return map[string]string{
		string(sqstypes.QueueAttributeNameMessageRetentionPeriod): retentionSeconds,
		string(sqstypes.QueueAttributeNameSqsManagedSseEnabled):   "true",
		string(sqstypes.QueueAttributeNamePolicy):                 queuePolicy(c).String(),
	}
}

func queuePolicy(c inventory.Cluster) awsapi.Document {
	resource := awsapi.Strings{queueARN(c)}
	var rules awsapi.Strings
	for _, k := range awsapi.EventKinds() {
		rules = append(rules, ruleARN(c, k))
	}
	account := map[string]awsapi.Strings{"aws:SourceAccount": {c.Account}}
	return awsapi.NewDocument(
		awsapi.Statement{
			Sid: "Rules", Effect: "Allow", Principal: map[string]string{"Service": "events.amazonaws.com"},
			Action: awsapi.Strings{"sqs:SendMessage"}, Resource: resource,
			Condition: awsapi.Conditions{"StringEquals": account, "ArnEquals": {"aws:SourceArn": rules}},
		},
		awsapi.Statement{
			Sid: "Redrive", Effect: "Allow", Principal: map[string]string{"Service": "sqs.amazonaws.com"},
			Action: awsapi.Strings{"sqs:SendMessage"}, Resource: resource, Condition: awsapi.Conditions{"StringEquals": account},
		},
		awsapi.Statement{
			Sid: "OnlyTLS", Effect: "Deny", Principal: "*", Action: awsapi.Strings{"sqs:*"}, Resource: resource,
			Condition: awsapi.Conditions{"Bool": {"aws:SecureTransport": {"false"}}},
		},
	)
}

func (c *Client) lookAtQueue(ctx context.Context, cluster inventory.Cluster) (queueState, error) {
	object := "SQS queue " + queueName(cluster)
	found, err := c.sqs.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: aws.String(queueName(cluster))})
	if awsapi.Is(err, noQueue...) {
		return queueState{}, nil
	}
	if err != nil {
		return queueState{}, awsapi.Wrap(err, "sqs:GetQueueUrl", object)
	}
	attributes, err := c.sqs.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{
		QueueUrl: found.QueueUrl, AttributeNames: []sqstypes.QueueAttributeName{sqstypes.QueueAttributeNameAll},
	})
	if awsapi.Is(err, noQueue...) {
		return queueState{}, nil
	}
	if err != nil {
		return queueState{}, awsapi.Wrap(err, "sqs:GetQueueAttributes", object)
	}
	tags, err := c.sqs.ListQueueTags(ctx, &sqs.ListQueueTagsInput{QueueUrl: found.QueueUrl})
	if awsapi.Is(err, noQueue...) {
		return queueState{}, nil
	}
	if err != nil {
		return queueState{}, awsapi.Wrap(err, "sqs:ListQueueTags", object)
	}
	s := queueState{
		url: aws.ToString(found.QueueUrl), made: ours(tags.Tags, cluster),
		policy: attributes.Attributes[string(sqstypes.QueueAttributeNamePolicy)],
	}
	if !sameAttributes(attributes.Attributes, wantedAttributes(cluster)) {
		s.drifted = tags.Tags[v1alpha1.TagManagedBy] == v1alpha1.TagManagedByValue
		s.foreign = !s.drifted
	}
	return s, nil
}

func sameAttributes(have, want map[string]string) bool {
	const policy = string(sqstypes.QueueAttributeNamePolicy)
	for name, value := range want {
		if name != policy && have[name] != value {
			return false
		}
	}
	return samePolicy(have[policy], want[policy])
}

func samePolicy(have, want string) bool {
	h, errHave := awsapi.ParseDocument(have)
	w, errWant := awsapi.ParseDocument(want)
	return errHave == nil && errWant == nil && h.Same(w)
}

// queueConflict says why a queue of somebody else's cannot serve: EventBridge may not send to it, or it carries events
// that Karpenter does not know, would delete, and that somebody else waits for.
func queueConflict(q queueState, feeding []rule) []string {
	var out []string
	policy, err := awsapi.ParseDocument(q.policy)
	if err != nil || !policy.Trusts("events.amazonaws.com", "sqs:SendMessage") {
		out = append(out, fmt.Sprintf("queue %s was not made by castoff, and its policy does not let events.amazonaws.com send to it without a condition: "+
			"allow that, tag the queue %s=%s to let castoff set its attributes, or rename that queue", q.url, v1alpha1.TagManagedBy, v1alpha1.TagManagedByValue))
	}
	return append(out, stolen(q, feeding)...)
}

// stolen says whose events Karpenter would delete unread.
func stolen(q queueState, feeding []rule) []string {
	var out []string
	for _, r := range feeding {
		if r.carriesUnknown() {
			out = append(out, fmt.Sprintf("queue %s is also fed by EventBridge rule %s, with events that Karpenter would delete unread: "+
				"send them to a queue of their own", q.url, r.name))
		}
	}
	return out
}

// ensureQueue makes the queue, or puts the attributes of castoff's own back.
func (c *Client) ensureQueue(ctx context.Context, cluster inventory.Cluster, have queueState) error {
	object := "SQS queue " + queueName(cluster)
	if have.url == "" {
		_, err := c.sqs.CreateQueue(ctx, &sqs.CreateQueueInput{
			QueueName: aws.String(queueName(cluster)), Attributes: wantedAttributes(cluster), Tags: awsapi.OurTags(cluster),
		})
		return awsapi.Wrap(err, "sqs:CreateQueue", object)
	}
	if !have.drifted {
		return nil
	}
	_, err := c.sqs.SetQueueAttributes(ctx, &sqs.SetQueueAttributesInput{QueueUrl: aws.String(have.url), Attributes: wantedAttributes(cluster)})
	return awsapi.Wrap(err, "sqs:SetQueueAttributes", object)
}
