package interruption

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/inventory/awsapi"
)

// queueName is the name of the queue that Karpenter reads: the user's, or castoff's.
func queueName(c inventory.Cluster) string {
	return cmp.Or(c.Provided.Queue, awsapi.QueueName(c.Name))
}

// neededKinds are those on which Karpenter drains a node. Of a rebalance recommendation it only writes an event, and
// interruptible capacity reservations are for few (Karpenter's reference, interruption handling).
var neededKinds = []string{awsapi.EventScheduledChange, awsapi.EventSpotInterruption, awsapi.EventStateChange}

// provided looks at a queue that the user named. It and its rules are somebody else's altogether: castoff makes nothing of
// them, and whatever is missing is a conflict.
func (c *Client) provided(ctx context.Context, cluster inventory.Cluster) (inventory.Interruption, error) {
	out := inventory.Interruption{QueueName: queueName(cluster)}
	queue, err := c.lookAtQueue(ctx, cluster)
	if err != nil {
		return inventory.Interruption{}, err
	}
	if queue.url == "" {
		out.Conflict = fmt.Sprintf("SQS queue %s, which spec.provisioner.queueName names, does not exist in account %s and region %s: create it, or set spec.provisioner.queue to Managed",
			out.QueueName, cluster.Account, cluster.Region)
		return out, nil
	}
	out.QueueURL, out.QueueARN = queue.url, queueARN(cluster)
	feeding, err := c.feedingRules(ctx, out.QueueARN)
	if err != nil {
		return inventory.Interruption{}, err
	}
	out.Conflict = strings.Join(misfits(cluster, queue, feeding), "; ")
	out.Ready = out.Conflict == ""
	return out, nil
}

// misfits says what keeps Karpenter's warnings from the queue, or would be lost in it.
func misfits(cluster inventory.Cluster, queue queueState, feeding []rule) []string {
	var out []string
	if policy, err := awsapi.ParseDocument(queue.policy); err != nil || !policy.Admits("events.amazonaws.com", "sqs:SendMessage") {
		out = append(out, fmt.Sprintf("the policy of queue %s does not let events.amazonaws.com send to it: allow sqs:SendMessage", queue.url))
	}
	for _, k := range neededKinds {
		if !served(feeding, cluster, k, true) {
			out = append(out, fmt.Sprintf("no enabled EventBridge rule of the default bus sends %s to queue %s: create one with that pattern", patterns[k], queue.url))
		}
	}
	return append(out, stolen(queue, feeding)...)
}
