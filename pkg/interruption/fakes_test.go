package interruption

import (
	"context"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/inventory/awsapi"
)

// fakeSQS has a queue with those attributes, and answers nothing that it is not asked for.
type fakeSQS struct {
	SQSAPI
	attributes map[string]string
	gone       bool // the queue disappears between two calls
}

func (f fakeSQS) GetQueueUrl(context.Context, *sqs.GetQueueUrlInput, ...func(*sqs.Options)) (*sqs.GetQueueUrlOutput, error) { //nolint:revive // the SDK's name
	return &sqs.GetQueueUrlOutput{QueueUrl: aws.String("https://queue")}, nil
}

func (f fakeSQS) GetQueueAttributes(context.Context, *sqs.GetQueueAttributesInput, ...func(*sqs.Options)) (*sqs.GetQueueAttributesOutput, error) {
	if f.gone {
		return nil, &sqstypes.QueueDoesNotExist{ErrorCodeOverride: aws.String("AWS.SimpleQueueService.NonExistentQueue")}
	}
	return &sqs.GetQueueAttributesOutput{Attributes: f.attributes}, nil
}

func (f fakeSQS) ListQueueTags(context.Context, *sqs.ListQueueTagsInput, ...func(*sqs.Options)) (*sqs.ListQueueTagsOutput, error) {
	return &sqs.ListQueueTagsOutput{}, nil
}

// fakeEvents lists rules a page each.
type fakeEvents struct {
	EventsAPI
	rules  []*eventbridge.DescribeRuleOutput
	failed []types.PutTargetsResultEntry
	kept   []types.RemoveTargetsResultEntry
}

func (f fakeEvents) ListRuleNamesByTarget(_ context.Context, in *eventbridge.ListRuleNamesByTargetInput, _ ...func(*eventbridge.Options)) (*eventbridge.ListRuleNamesByTargetOutput, error) {
	i := len(aws.ToString(in.NextToken))
	if i >= len(f.rules) {
		return &eventbridge.ListRuleNamesByTargetOutput{}, nil
	}
	return &eventbridge.ListRuleNamesByTargetOutput{RuleNames: []string{aws.ToString(f.rules[i].Name)}, NextToken: aws.String(strings.Repeat("x", i+1))}, nil
}

func (f fakeEvents) DescribeRule(_ context.Context, in *eventbridge.DescribeRuleInput, _ ...func(*eventbridge.Options)) (*eventbridge.DescribeRuleOutput, error) {
	for _, r := range f.rules {
		if aws.ToString(r.Name) == *in.Name {
			return r, nil
		}
	}
	return nil, &types.ResourceNotFoundException{}
}

func (f fakeEvents) ListTagsForResource(context.Context, *eventbridge.ListTagsForResourceInput, ...func(*eventbridge.Options)) (*eventbridge.ListTagsForResourceOutput, error) {
	return &eventbridge.ListTagsForResourceOutput{}, nil
}

func (f fakeEvents) RemoveTargets(context.Context, *eventbridge.RemoveTargetsInput, ...func(*eventbridge.Options)) (*eventbridge.RemoveTargetsOutput, error) {
	return &eventbridge.RemoveTargetsOutput{FailedEntries: f.kept}, nil
}

func (f fakeEvents) DeleteRule(context.Context, *eventbridge.DeleteRuleInput, ...func(*eventbridge.Options)) (*eventbridge.DeleteRuleOutput, error) {
	return &eventbridge.DeleteRuleOutput{}, nil
}

func (f fakeEvents) PutTargets(context.Context, *eventbridge.PutTargetsInput, ...func(*eventbridge.Options)) (*eventbridge.PutTargetsOutput, error) {
	return &eventbridge.PutTargetsOutput{FailedEntries: f.failed}, nil
}

func (f fakeEvents) PutRule(context.Context, *eventbridge.PutRuleInput, ...func(*eventbridge.Options)) (*eventbridge.PutRuleOutput, error) {
	return &eventbridge.PutRuleOutput{}, nil
}

func ourRules(c inventory.Cluster) (out []*eventbridge.DescribeRuleOutput) {
	for _, k := range awsapi.EventKinds() {
		out = append(out, &eventbridge.DescribeRuleOutput{Name: aws.String(awsapi.RuleName(c.Name, k)), State: types.RuleStateEnabled, EventPattern: aws.String(patterns[k].String())})
	}
	return out
}

func TestEveryPageOfRulesIsRead(t *testing.T) {
	got, err := New(fakeSQS{attributes: wantedAttributes(harbor)}, fakeEvents{rules: ourRules(harbor)}).Observe(t.Context(), harbor)
	if err != nil || !got.Ready {
		t.Errorf("error %v, %+v; want all five rules found", err, got)
	}
}

func TestRuleThatIsDisabledIsMissing(t *testing.T) {
	rules := ourRules(harbor)
	rules[1].State = types.RuleStateDisabled
	c := New(fakeSQS{attributes: wantedAttributes(harbor)}, taggedEvents{fakeEvents{rules: rules}})
	got, err := c.Observe(t.Context(), harbor)
	if err != nil || len(got.Missing) != 1 || got.Missing[0] != "EventBridge rule castoff-harbor-spot" || got.Conflict != "" {
		t.Errorf("error %v, %+v; want the spot rule missing", err, got)
	}
}

// taggedEvents are rules that castoff made.
type taggedEvents struct{ fakeEvents }

func (taggedEvents) ListTagsForResource(context.Context, *eventbridge.ListTagsForResourceInput, ...func(*eventbridge.Options)) (*eventbridge.ListTagsForResourceOutput, error) {
	return &eventbridge.ListTagsForResourceOutput{Tags: []types.Tag{
		{}, {Key: aws.String("castoff.sh/managed-by"), Value: aws.String("castoff")}, {Key: aws.String("castoff.sh/cluster"), Value: aws.String(harbor.ARN)},
	}}, nil
}

func TestAnswersWithNothingInThem(t *testing.T) {
	c := New(fakeSQS{}, fakeEvents{rules: []*eventbridge.DescribeRuleOutput{{}}})
	got, err := c.Observe(t.Context(), harbor)
	if err != nil || got.Ready || got.Conflict == "" {
		t.Errorf("error %v, %+v; want a conflict: a queue without a policy that is not ours", err, got)
	}
	got, err = New(fakeSQS{gone: true}, fakeEvents{}).Observe(t.Context(), harbor)
	if err != nil || got.QueueURL != "" || len(got.Missing) != 6 {
		t.Errorf("error %v, %+v; want a queue that went away to be missing", err, got)
	}
}

func TestTargetThatIsRefused(t *testing.T) {
	rules := ourRules(harbor)[:4]
	events := fakeEvents{rules: rules, failed: []types.PutTargetsResultEntry{{TargetId: aws.String("karpenter"), ErrorCode: aws.String("ConcurrentModificationException"), ErrorMessage: aws.String("later")}}}
	err := New(fakeSQS{attributes: wantedAttributes(harbor)}, events).Ensure(t.Context(), harbor)
	if err == nil || inventory.ClassOf(err) != inventory.ClassRetry || !strings.Contains(err.Error(), "castoff-harbor-reservation") {
		t.Errorf("error is %v, want one to retry naming the rule", err)
	}
}

func TestTargetThatStays(t *testing.T) {
	entry := func(code string) []types.RemoveTargetsResultEntry {
		return []types.RemoveTargetsResultEntry{{TargetId: aws.String("karpenter"), ErrorCode: aws.String(code), ErrorMessage: aws.String("words")}}
	}
	cases := map[string]struct {
		reason string
		kept   []types.RemoveTargetsResultEntry
		says   string
	}{
		"Gone":   {"a target that is not there is what was wanted", entry("ResourceNotFoundException"), ""},
		"Busy":   {"any other reason is tried again", entry("ConcurrentModificationException"), "ConcurrentModificationException"},
		"Silent": {"an answer that gives none too", []types.RemoveTargetsResultEntry{{}}, "left target"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := New(fakeSQS{}, taggedEvents{fakeEvents{kept: tc.kept}}).Remove(t.Context(), harbor)
			if (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) || inventory.ClassOf(err) != inventory.ClassRetry {
				t.Errorf("%s: error %v, want one to retry with %q", tc.reason, err, tc.says)
			}
		})
	}
}

func TestRuleBrings(t *testing.T) {
	spot := patterns[awsapi.EventSpotInterruption].String()
	cases := map[string]struct {
		reason  string
		state   types.RuleState
		pattern string
		brings  bool
		unknown bool
	}{
		"exact":           {"the pattern itself", types.RuleStateEnabled, spot, true, false},
		"disabled":        {"it passes on nothing", types.RuleStateDisabled, spot, false, false},
		"two types":       {"it passes on this one too", types.RuleStateEnabled, `{"source":["aws.ec2"],"detail-type":["EC2 Instance State-change Notification","EC2 Spot Instance Interruption Warning"]}`, true, false},
		"narrowed":        {"some events do not pass", types.RuleStateEnabled, `{"source":["aws.ec2"],"detail-type":["EC2 Spot Instance Interruption Warning"],"detail":{"instance-action":["terminate"]}}`, false, false},
		"all of EC2":      {"without a type it carries what Karpenter does not know", types.RuleStateEnabled, `{"source":["aws.ec2"]}`, false, true},
		"another type":    {"Karpenter does not know it", types.RuleStateEnabled, `{"source":["aws.ec2"],"detail-type":["EC2 AMI State Change"]}`, false, true},
		"prefix matching": {"not understood, so not trusted", types.RuleStateEnabled, `{"source":["aws.ec2"],"detail-type":[{"prefix":"EC2 Spot"}]}`, false, true},
		"schedule":        {"no pattern at all", types.RuleStateEnabled, ``, false, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := parseRule(&eventbridge.DescribeRuleOutput{State: tc.state, EventPattern: aws.String(tc.pattern)})
			if got := r.brings(awsapi.EventSpotInterruption); got != tc.brings {
				t.Errorf("%s: brings is %v, want %v", tc.reason, got, tc.brings)
			}
			if got := r.carriesUnknown(); got != tc.unknown {
				t.Errorf("%s: carriesUnknown is %v, want %v", tc.reason, got, tc.unknown)
			}
		})
	}
}

func TestQueuePolicyNamesItsPartition(t *testing.T) {
	c := inventory.Cluster{Name: strings.Repeat("c", 100), Account: "1", Region: "cn-north-1", Partition: "aws-cn"}
	policy := queuePolicy(c).String()
	if strings.Contains(policy, "arn:aws:") || !strings.Contains(policy, "arn:aws-cn:sqs:cn-north-1:1:") || !strings.Contains(policy, "arn:aws-cn:events:cn-north-1:1:rule/") {
		t.Errorf("policy is %s", policy)
	}
	if strings.Contains(policy, c.Name) {
		t.Error("the policy holds a name that is longer than SQS takes")
	}
}
