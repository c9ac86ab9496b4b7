// Package interruption is the port to Karpenter's early warnings: the SQS queue that it reads, and the five EventBridge
// rules that feed it. What is there and fits is adopted; what is there, is not castoff's and does not fit is reported
// and never written.
package interruption

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/inventory/awsapi"
)

// SQSAPI is what the port calls of SQS.
type SQSAPI interface {
	GetQueueUrl(context.Context, *sqs.GetQueueUrlInput, ...func(*sqs.Options)) (*sqs.GetQueueUrlOutput, error)
	GetQueueAttributes(context.Context, *sqs.GetQueueAttributesInput, ...func(*sqs.Options)) (*sqs.GetQueueAttributesOutput, error)
	ListQueueTags(context.Context, *sqs.ListQueueTagsInput, ...func(*sqs.Options)) (*sqs.ListQueueTagsOutput, error)
	CreateQueue(context.Context, *sqs.CreateQueueInput, ...func(*sqs.Options)) (*sqs.CreateQueueOutput, error)
	SetQueueAttributes(context.Context, *sqs.SetQueueAttributesInput, ...func(*sqs.Options)) (*sqs.SetQueueAttributesOutput, error)
	DeleteQueue(context.Context, *sqs.DeleteQueueInput, ...func(*sqs.Options)) (*sqs.DeleteQueueOutput, error)
}

// EventsAPI is what the port calls of EventBridge.
type EventsAPI interface {
	ListRuleNamesByTarget(context.Context, *eventbridge.ListRuleNamesByTargetInput, ...func(*eventbridge.Options)) (*eventbridge.ListRuleNamesByTargetOutput, error)
	DescribeRule(context.Context, *eventbridge.DescribeRuleInput, ...func(*eventbridge.Options)) (*eventbridge.DescribeRuleOutput, error)
	ListTagsForResource(context.Context, *eventbridge.ListTagsForResourceInput, ...func(*eventbridge.Options)) (*eventbridge.ListTagsForResourceOutput, error)
	PutRule(context.Context, *eventbridge.PutRuleInput, ...func(*eventbridge.Options)) (*eventbridge.PutRuleOutput, error)
	PutTargets(context.Context, *eventbridge.PutTargetsInput, ...func(*eventbridge.Options)) (*eventbridge.PutTargetsOutput, error)
	RemoveTargets(context.Context, *eventbridge.RemoveTargetsInput, ...func(*eventbridge.Options)) (*eventbridge.RemoveTargetsOutput, error)
	DeleteRule(context.Context, *eventbridge.DeleteRuleInput, ...func(*eventbridge.Options)) (*eventbridge.DeleteRuleOutput, error)
}

// Client is the port. It keeps no state.
type Client struct {
	sqs    SQSAPI
	events EventsAPI
}

// New makes the port.
func New(sqs SQSAPI, events EventsAPI) *Client { return &Client{sqs: sqs, events: events} }

// state is what one look found.
type state struct {
	queue queueState
	// missing are the kinds of events that no rule brings to the queue, and how their rule stands.
	missing map[string]ruleState
	// conflict says what is in the way, and empty is nothing.
	conflict string
}

// Observe looks at the queue and the rules, and changes nothing. Of what the user provides nothing is Missing or Made: it fits,
// or it is a conflict. Where there is to be no queue its name is empty, and that is Ready.
func (c *Client) Observe(ctx context.Context, cluster inventory.Cluster) (inventory.Interruption, error) {
	switch {
	case cluster.Provided.NoQueue:
		return inventory.Interruption{Ready: true}, nil
	case cluster.Provided.Queue != "":
		return c.provided(ctx, cluster)
	}
	s, err := c.look(ctx, cluster)
	if err != nil {
		return inventory.Interruption{}, err
	}
	out := inventory.Interruption{QueueName: awsapi.QueueName(cluster.Name), QueueURL: s.queue.url, QueueARN: queueARN(cluster), Conflict: s.conflict}
	switch {
	case s.queue.url == "":
		out.QueueARN = ""
		out.Missing = append(out.Missing, "SQS queue "+out.QueueName)
	case s.queue.drifted:
		out.Missing = append(out.Missing, "attributes of SQS queue "+out.QueueName)
	}
	for _, k := range awsapi.EventKinds() {
		if _, ok := s.missing[k]; ok {
			out.Missing = append(out.Missing, "EventBridge rule "+awsapi.RuleName(cluster.Name, k))
		}
	}
	out.Ready = out.Conflict == "" && len(out.Missing) == 0
	made, err := c.made(ctx, cluster, s.queue)
	if err != nil {
		return inventory.Interruption{}, err
	}
	for _, p := range made {
		out.Made = append(out.Made, p.name)
	}
	return out, nil
}

// Ensure makes what Observe would call missing. Every step stands on its own: after a crash, the next call makes the
// rest. A conflict is a terminal error, and nothing is written.
func (c *Client) Ensure(ctx context.Context, cluster inventory.Cluster) error {
	if given(cluster) {
		have, err := c.Observe(ctx, cluster)
		if err == nil && have.Conflict != "" {
			err = inventory.Terminal(errors.New(have.Conflict))
		}
		return err
	}
	s, err := c.look(ctx, cluster)
	if err != nil {
		return err
	}
	if s.conflict != "" {
		return inventory.Terminal(fmt.Errorf("interruption queue of cluster %s: %s", cluster.Name, s.conflict))
	}
	if err := c.ensureQueue(ctx, cluster, s.queue); err != nil {
		return err
	}
	for _, k := range awsapi.EventKinds() {
		if have, ok := s.missing[k]; ok {
			if err := c.ensureRule(ctx, cluster, k, have); err != nil {
				return err
			}
		}
	}
	return nil
}

// given says that castoff has nothing to make or to take away.
func given(c inventory.Cluster) bool { return c.Provided.NoQueue || c.Provided.Queue != "" }

// look reads the queue and the rules.
func (c *Client) look(ctx context.Context, cluster inventory.Cluster) (state, error) {
	queue, err := c.lookAtQueue(ctx, cluster)
	if err != nil {
		return state{}, err
	}
	s := state{queue: queue, missing: map[string]ruleState{}}
	var feeding []rule
	if queue.url != "" {
		if feeding, err = c.feedingRules(ctx, queueARN(cluster)); err != nil {
			return state{}, err
		}
	}
	conflicts := []string{}
	if queue.foreign {
		conflicts = append(conflicts, queueConflict(queue, feeding)...)
	}
	for _, k := range awsapi.EventKinds() {
		if served(feeding, cluster, k, queue.foreign) {
			continue
		}
		have, err := c.lookAtRule(ctx, cluster, k)
		if err != nil {
			return state{}, err
		}
		if have.conflict != "" {
			conflicts = append(conflicts, have.conflict)
		}
		s.missing[k] = have
	}
	s.conflict = strings.Join(conflicts, "; ")
	return s, nil
}
