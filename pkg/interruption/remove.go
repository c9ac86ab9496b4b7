package interruption

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/inventory/awsapi"
)

// codeInvalid is EventBridge's code for a rule that is deleted while it still has targets.
const codeInvalid = "ValidationException"

// part is one thing that castoff made, and how it is taken away.
type part struct {
	name   string
	remove func(context.Context) error
}

// Remove takes away the rules and the queue that castoff made for the cluster: what Observe lists as Made. What does not
// carry castoff's tags stays. It may be repeated, also after a crash. SQS refuses a queue of the same name for 60 seconds
// after (API reference, DeleteQueue). A rule that somebody gave a target of their own is a terminal error.
func (c *Client) Remove(ctx context.Context, cluster inventory.Cluster) error {
	if given(cluster) {
		return nil
	}
	queue, err := c.lookAtQueue(ctx, cluster)
	if err != nil {
		return err
	}
	parts, err := c.made(ctx, cluster, queue)
	if err != nil {
		return err
	}
	for _, p := range parts {
		if err := p.remove(ctx); err != nil {
			return err
		}
	}
	return nil
}

// made lists what castoff made, in the order in which it is taken away: the queue outlives the rules that send to it.
func (c *Client) made(ctx context.Context, cluster inventory.Cluster, queue queueState) ([]part, error) {
	var out []part
	for _, k := range awsapi.EventKinds() {
		tags, err := c.ruleTags(ctx, cluster, k)
		if err != nil {
			return nil, err
		}
		if ours(tags, cluster) {
			out = append(out, part{"EventBridge rule " + awsapi.RuleName(cluster.Name, k), c.removeRule(awsapi.RuleName(cluster.Name, k))})
		}
	}
	if queue.made {
		out = append(out, part{"SQS queue " + awsapi.QueueName(cluster.Name), c.removeQueue(awsapi.QueueName(cluster.Name), queue.url)})
	}
	return out, nil
}

// ours says whether the tags are castoff's, for this very cluster. A queue that its owner gave castoff to set up, by the
// one tag that Observe asks for, lacks the other, and is not deleted.
func ours(tags map[string]string, cluster inventory.Cluster) bool {
	for key, value := range awsapi.OurTags(cluster) {
		if tags[key] != value {
			return false
		}
	}
	return true
}

// removeRule takes castoff's own target only: EventBridge keeps a rule that has others, and so does castoff.
func (c *Client) removeRule(name string) func(context.Context) error {
	object := "EventBridge rule " + name
	return func(ctx context.Context) error {
		out, err := c.events.RemoveTargets(ctx, &eventbridge.RemoveTargetsInput{Rule: aws.String(name), Ids: []string{targetID}})
		if awsapi.Is(err, codeNoRule) {
			return nil
		}
		if err != nil {
			return awsapi.Wrap(err, "events:RemoveTargets", object)
		}
		if f, ok := firstFailure(out.FailedEntries); ok {
			return fmt.Errorf("%s: events:RemoveTargets left target %s: %s (%s), it is tried again",
				object, aws.ToString(f.TargetId), aws.ToString(f.ErrorMessage), aws.ToString(f.ErrorCode))
		}
		_, err = c.events.DeleteRule(ctx, &eventbridge.DeleteRuleInput{Name: aws.String(name)})
		switch {
		case awsapi.Is(err, codeNoRule):
			return nil
		case awsapi.Is(err, codeInvalid):
			return inventory.Terminal(fmt.Errorf("%s has targets that castoff did not give it: take them off (aws events list-targets-by-rule --rule %s), and castoff deletes it: %w", object, name, err))
		}
		return awsapi.Wrap(err, "events:DeleteRule", object)
	}
}

// firstFailure passes over a target that was not there: after a crash it is gone already.
func firstFailure(entries []types.RemoveTargetsResultEntry) (types.RemoveTargetsResultEntry, bool) {
	for _, e := range entries {
		if aws.ToString(e.ErrorCode) != codeNoRule {
			return e, true
		}
	}
	return types.RemoveTargetsResultEntry{}, false
}

func (c *Client) removeQueue(name, url string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := c.sqs.DeleteQueue(ctx, &sqs.DeleteQueueInput{QueueUrl: aws.String(url)})
		if awsapi.Is(err, noQueue...) {
			return nil
		}
		return awsapi.Wrap(err, "sqs:DeleteQueue", "SQS queue "+name)
	}
}
