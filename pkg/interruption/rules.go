package interruption

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge/types"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/inventory/awsapi"
)

// patterns are the events' sources and detail types (EventBridge event reference).
var patterns = map[string]pattern{
	awsapi.EventScheduledChange:        {Source: []string{"aws.health"}, DetailType: []string{"AWS Health Event"}},
	awsapi.EventSpotInterruption:       {Source: []string{"aws.ec2"}, DetailType: []string{"EC2 Spot Instance Interruption Warning"}},
	awsapi.EventRebalance:              {Source: []string{"aws.ec2"}, DetailType: []string{"EC2 Instance Rebalance Recommendation"}},
	awsapi.EventStateChange:            {Source: []string{"aws.ec2"}, DetailType: []string{"EC2 Instance State-change Notification"}},
	awsapi.EventReservationInterrupted: {Source: []string{"aws.ec2"}, DetailType: []string{"EC2 Capacity Reservation Instance Interruption Warning"}},
}

// pattern is an event pattern that matches by source and detail type.
type pattern struct {
	Source     []string `json:"source,omitempty"`
	DetailType []string `json:"detail-type,omitempty"`
}

func (p pattern) String() string {
	b, err := json.Marshal(p)
	if err != nil {
		return "" // two lists of strings always have a JSON form
	}
	return string(b)
}

// targetID names castoff's target in each rule.
const targetID = "karpenter"

// codeNoRule is EventBridge's code for a rule that does not exist.
const codeNoRule = "ResourceNotFoundException"

func ruleARN(c inventory.Cluster, k string) string {
	return awsapi.ARN(c, "events", "rule/"+awsapi.RuleName(c.Name, k))
}

// rule is an EventBridge rule as seen.
type rule struct {
	name    string
	enabled bool
	// members are the keys of its event pattern and what they match.
	members map[string][]any
}

func parseRule(out *eventbridge.DescribeRuleOutput) rule {
	r := rule{name: aws.ToString(out.Name), enabled: out.State == types.RuleStateEnabled}
	members := map[string]json.RawMessage{}
	if json.Unmarshal([]byte(aws.ToString(out.EventPattern)), &members) != nil {
		return r // a rule on a schedule has no pattern
	}
	r.members = map[string][]any{}
	for key, raw := range members {
		var list []any
		if json.Unmarshal(raw, &list) != nil {
			list = []any{string(raw)} // "detail" holds an object
		}
		r.members[key] = list
	}
	return r
}

// brings says whether the rule passes on every event of the kind: it matches it, and nothing narrows it.
func (r rule) brings(k string) bool {
	p := patterns[k]
	for key := range r.members {
		if key != "source" && key != "detail-type" {
			return false
		}
	}
	return r.enabled && slices.Contains(r.members["source"], any(p.Source[0])) && slices.Contains(r.members["detail-type"], any(p.DetailType[0]))
}

// carriesUnknown says whether the rule also passes on events that Karpenter does not act on.
func (r rule) carriesUnknown() bool {
	if !r.enabled {
		return false
	}
	known := func(t any) bool {
		return slices.ContainsFunc(awsapi.EventKinds(), func(k string) bool { return any(patterns[k].DetailType[0]) == t })
	}
	for _, t := range r.members["detail-type"] {
		if !known(t) {
			return true
		}
	}
	return len(r.members["detail-type"]) == 0
}

// feedingRules are the rules of the default event bus that have the queue as a target.
func (c *Client) feedingRules(ctx context.Context, queue string) ([]rule, error) {
	var out []rule
	in := &eventbridge.ListRuleNamesByTargetInput{TargetArn: aws.String(queue)}
	for {
		page, err := c.events.ListRuleNamesByTarget(ctx, in)
		if err != nil {
			return nil, awsapi.Wrap(err, "events:ListRuleNamesByTarget", "EventBridge rules of "+queue)
		}
		for _, name := range page.RuleNames {
			r, ok, err := c.describe(ctx, name)
			if err != nil {
				return nil, err
			}
			if ok {
				out = append(out, r)
			}
		}
		if aws.ToString(page.NextToken) == "" {
			return out, nil
		}
		in.NextToken = page.NextToken
	}
}

func (c *Client) describe(ctx context.Context, name string) (rule, bool, error) {
	out, err := c.events.DescribeRule(ctx, &eventbridge.DescribeRuleInput{Name: aws.String(name)})
	if awsapi.Is(err, codeNoRule) {
		return rule{}, false, nil
	}
	if err != nil {
		return rule{}, false, awsapi.Wrap(err, "events:DescribeRule", "EventBridge rule "+name)
	}
	return parseRule(out), true, nil
}

// served says whether a rule brings the kind to the queue. Castoff's own queue admits castoff's own rules only; a queue
// that is adopted admits every rule.
func served(feeding []rule, cluster inventory.Cluster, k string, adopted bool) bool {
	return slices.ContainsFunc(feeding, func(r rule) bool {
		return r.brings(k) && (adopted || r.name == awsapi.RuleName(cluster.Name, k))
	})
}

// ruleState is a rule that does not bring its kind to the queue yet.
type ruleState struct {
	// fits: it is there and matches the kind; only its target is missing.
	fits     bool
	conflict string
}

// lookAtRule tells what stands under the rule's name: nothing, one that fits, castoff's own that was changed, or
// somebody else's.
func (c *Client) lookAtRule(ctx context.Context, cluster inventory.Cluster, k string) (ruleState, error) {
	name := awsapi.RuleName(cluster.Name, k)
	have, ok, err := c.describe(ctx, name)
	if err != nil || !ok {
		return ruleState{}, err
	}
	if have.brings(k) && !have.carriesUnknown() {
		return ruleState{fits: true}, nil
	}
	tags, err := c.ruleTags(ctx, cluster, k)
	if err != nil || tags == nil || tags[v1alpha1.TagManagedBy] == v1alpha1.TagManagedByValue {
		return ruleState{}, err
	}
	return ruleState{conflict: fmt.Sprintf("EventBridge rule %s was not made by castoff and does not match %s: give it that pattern and enable it, or delete it", name, patterns[k])}, nil
}

// ruleTags are the tags of the rule of castoff's name for that kind; nil when there is no such rule.
func (c *Client) ruleTags(ctx context.Context, cluster inventory.Cluster, k string) (map[string]string, error) {
	out, err := c.events.ListTagsForResource(ctx, &eventbridge.ListTagsForResourceInput{ResourceARN: aws.String(ruleARN(cluster, k))})
	if awsapi.Is(err, codeNoRule) {
		return nil, nil
	}
	if err != nil {
		return nil, awsapi.Wrap(err, "events:ListTagsForResource", "EventBridge rule "+awsapi.RuleName(cluster.Name, k))
	}
	tags := map[string]string{}
	for _, t := range out.Tags {
		tags[aws.ToString(t.Key)] = aws.ToString(t.Value)
	}
	return tags, nil
}

// ensureRule makes the rule and aims it at the queue.
func (c *Client) ensureRule(ctx context.Context, cluster inventory.Cluster, k string, have ruleState) error {
	name := awsapi.RuleName(cluster.Name, k)
	object := "EventBridge rule " + name
	if !have.fits {
		in := &eventbridge.PutRuleInput{Name: aws.String(name), EventPattern: aws.String(patterns[k].String()), State: types.RuleStateEnabled,
			Description: aws.String("Warns Karpenter of cluster " + cluster.Name + " through its queue")}
		for key, value := range awsapi.OurTags(cluster) {
			in.Tags = append(in.Tags, types.Tag{Key: aws.String(key), Value: aws.String(value)})
		}
		slices.SortFunc(in.Tags, func(a, b types.Tag) int { return strings.Compare(*a.Key, *b.Key) })
		if _, err := c.events.PutRule(ctx, in); err != nil {
			return awsapi.Wrap(err, "events:PutRule", object)
		}
	}
	out, err := c.events.PutTargets(ctx, &eventbridge.PutTargetsInput{
		Rule: aws.String(name), Targets: []types.Target{{Id: aws.String(targetID), Arn: aws.String(queueARN(cluster))}},
	})
	if err != nil {
		return awsapi.Wrap(err, "events:PutTargets", object)
	}
	for _, f := range out.FailedEntries {
		return fmt.Errorf("%s: events:PutTargets left target %s: %s (%s), it is tried again", object, aws.ToString(f.TargetId), aws.ToString(f.ErrorMessage), aws.ToString(f.ErrorCode))
	}
	return nil
}
