package awssim

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge/types"
)

// eventsService simulates the default bus of Amazon EventBridge. Its rules deliver to SQS queues; targets of other
// kinds are kept and get nothing.
type eventsService struct {
	s     *Server
	rules *table[rule] // by name
}

type rule struct {
	types.Rule
	Targets []types.Target
	Tags    []types.Tag
}

func newEvents(s *Server) *eventsService {
	b := &eventsService{s: s, rules: newTable[rule](s)}
	on(s, "events.PutRule", b.putRule)
	on(s, "events.DescribeRule", b.describeRule)
	on(s, "events.ListRules", b.listRules)
	on(s, "events.ListRuleNamesByTarget", b.listRuleNamesByTarget)
	on(s, "events.EnableRule", b.enableRule)
	on(s, "events.DisableRule", b.disableRule)
	on(s, "events.DeleteRule", b.deleteRule)
	on(s, "events.PutTargets", b.putTargets)
	on(s, "events.ListTargetsByRule", b.listTargetsByRule)
	on(s, "events.RemoveTargets", b.removeTargets)
	on(s, "events.TagResource", b.tagResource)
	on(s, "events.UntagResource", b.untagResource)
	on(s, "events.ListTagsForResource", b.listTagsForResource)
	on(s, "events.PutEvents", b.putEvents)
	return b
}

func noRule(name string) error {
	return errorf("ResourceNotFoundException", "Rule %s does not exist on EventBus default.", name)
}

func (b *eventsService) rule(name *string) (rule, error) {
	r, ok := b.rules.get(aws.ToString(name))
	if !ok {
		return r, noRule(aws.ToString(name))
	}
	return r, nil
}

func (b *eventsService) putRule(_ *call, in *eventbridge.PutRuleInput) (*eventbridge.PutRuleOutput, error) {
	var pattern map[string]any
	if in.EventPattern != nil && json.Unmarshal([]byte(*in.EventPattern), &pattern) != nil {
		return nil, errorf("InvalidEventPatternException", "Event pattern is not valid. Reason: it is no JSON object")
	}
	if in.EventPattern == nil && in.ScheduleExpression == nil {
		return nil, errorf("ValidationException", "Parameter(s) EventPattern or ScheduleExpression must be specified.")
	}
	name := aws.ToString(in.Name)
	r, existed := b.rules.get(name)
	r.Rule = types.Rule{
		Name: in.Name, Arn: aws.String(b.s.arn("events", "rule/"+name)), Description: in.Description, EventBusName: aws.String("default"),
		EventPattern: in.EventPattern, ScheduleExpression: in.ScheduleExpression, RoleArn: in.RoleArn, State: in.State,
	}
	if in.State == "" {
		r.State = types.RuleStateEnabled
	}
	if !existed { // the tags of a rule that exists are left alone
		r.Tags = in.Tags
	}
	b.rules.put(name, r)
	return &eventbridge.PutRuleOutput{RuleArn: r.Arn}, nil
}

func (b *eventsService) describeRule(_ *call, in *eventbridge.DescribeRuleInput) (*eventbridge.DescribeRuleOutput, error) {
	r, err := b.rule(in.Name)
	if err != nil {
		return nil, err
	}
	return &eventbridge.DescribeRuleOutput{
		Name: r.Name, Arn: r.Arn, Description: r.Description, EventBusName: r.EventBusName, EventPattern: r.EventPattern,
		ScheduleExpression: r.ScheduleExpression, RoleArn: r.RoleArn, State: r.State, CreatedBy: aws.String(accountID),
	}, nil
}

func (b *eventsService) listRules(_ *call, in *eventbridge.ListRulesInput) (*eventbridge.ListRulesOutput, error) {
	rows, next, err := paged(b.s, in.NextToken, pageSize(in.Limit, 100), func() ([]types.Rule, error) {
		rows := []types.Rule{}
		for _, r := range b.rules.list() {
			if strings.HasPrefix(aws.ToString(r.Name), aws.ToString(in.NamePrefix)) {
				rows = append(rows, r.Rule)
			}
		}
		return rows, nil
	})
	return &eventbridge.ListRulesOutput{Rules: rows, NextToken: next}, err
}

func (b *eventsService) listRuleNamesByTarget(_ *call, in *eventbridge.ListRuleNamesByTargetInput) (*eventbridge.ListRuleNamesByTargetOutput, error) {
	rows, next, err := paged(b.s, in.NextToken, pageSize(in.Limit, 100), func() ([]string, error) {
		rows := []string{}
		for _, r := range b.rules.list() {
			if slices.ContainsFunc(r.Targets, func(t types.Target) bool { return aws.ToString(t.Arn) == aws.ToString(in.TargetArn) }) {
				rows = append(rows, aws.ToString(r.Name))
			}
		}
		return rows, nil
	})
	return &eventbridge.ListRuleNamesByTargetOutput{RuleNames: rows, NextToken: next}, err
}

func (b *eventsService) change(name *string, f func(*rule)) error {
	if !b.rules.update(aws.ToString(name), f) {
		return noRule(aws.ToString(name))
	}
	return nil
}

func (b *eventsService) enableRule(_ *call, in *eventbridge.EnableRuleInput) (*eventbridge.EnableRuleOutput, error) {
	return &eventbridge.EnableRuleOutput{}, b.change(in.Name, func(r *rule) { r.State = types.RuleStateEnabled })
}

func (b *eventsService) disableRule(_ *call, in *eventbridge.DisableRuleInput) (*eventbridge.DisableRuleOutput, error) {
	return &eventbridge.DisableRuleOutput{}, b.change(in.Name, func(r *rule) { r.State = types.RuleStateDisabled })
}

// deleteRule does nothing for a rule that does not exist, as EventBridge does.
func (b *eventsService) deleteRule(_ *call, in *eventbridge.DeleteRuleInput) (*eventbridge.DeleteRuleOutput, error) {
	if r, ok := b.rules.get(aws.ToString(in.Name)); ok && len(r.Targets) > 0 {
		return nil, errorf("ValidationException", "Rule can't be deleted since it has targets.")
	}
	b.rules.delete(aws.ToString(in.Name))
	return &eventbridge.DeleteRuleOutput{}, nil
}

func (b *eventsService) putTargets(_ *call, in *eventbridge.PutTargetsInput) (*eventbridge.PutTargetsOutput, error) {
	return &eventbridge.PutTargetsOutput{FailedEntries: []types.PutTargetsResultEntry{}}, b.change(in.Rule, func(r *rule) {
		for _, t := range in.Targets {
			r.Targets = append(slices.DeleteFunc(r.Targets, func(x types.Target) bool { return aws.ToString(x.Id) == aws.ToString(t.Id) }), t)
		}
	})
}

func (b *eventsService) listTargetsByRule(_ *call, in *eventbridge.ListTargetsByRuleInput) (*eventbridge.ListTargetsByRuleOutput, error) {
	rows, next, err := paged(b.s, in.NextToken, pageSize(in.Limit, 100), func() ([]types.Target, error) {
		r, err := b.rule(in.Rule)
		return append([]types.Target{}, r.Targets...), err
	})
	return &eventbridge.ListTargetsByRuleOutput{Targets: rows, NextToken: next}, err
}

func (b *eventsService) removeTargets(_ *call, in *eventbridge.RemoveTargetsInput) (*eventbridge.RemoveTargetsOutput, error) {
	return &eventbridge.RemoveTargetsOutput{FailedEntries: []types.RemoveTargetsResultEntry{}}, b.change(in.Rule, func(r *rule) {
		r.Targets = slices.DeleteFunc(r.Targets, func(t types.Target) bool { return slices.Contains(in.Ids, aws.ToString(t.Id)) })
	})
}

func (b *eventsService) tagResource(_ *call, in *eventbridge.TagResourceInput) (*eventbridge.TagResourceOutput, error) {
	return &eventbridge.TagResourceOutput{}, b.change(ruleName(in.ResourceARN), func(r *rule) {
		for _, t := range in.Tags {
			r.Tags = append(slices.DeleteFunc(r.Tags, func(x types.Tag) bool { return aws.ToString(x.Key) == aws.ToString(t.Key) }), t)
		}
	})
}

func (b *eventsService) untagResource(_ *call, in *eventbridge.UntagResourceInput) (*eventbridge.UntagResourceOutput, error) {
	return &eventbridge.UntagResourceOutput{}, b.change(ruleName(in.ResourceARN), func(r *rule) {
		r.Tags = slices.DeleteFunc(r.Tags, func(t types.Tag) bool { return slices.Contains(in.TagKeys, aws.ToString(t.Key)) })
	})
}

func (b *eventsService) listTagsForResource(_ *call, in *eventbridge.ListTagsForResourceInput) (*eventbridge.ListTagsForResourceOutput, error) {
	r, err := b.rule(ruleName(in.ResourceARN))
	return &eventbridge.ListTagsForResourceOutput{Tags: append([]types.Tag{}, r.Tags...)}, err
}

func ruleName(arn *string) *string { return aws.String(lastSegment(aws.ToString(arn))) }

func (b *eventsService) putEvents(_ *call, in *eventbridge.PutEventsInput) (*eventbridge.PutEventsOutput, error) {
	out := &eventbridge.PutEventsOutput{}
	for _, entry := range in.Entries {
		var detail map[string]any
		if json.Unmarshal([]byte(aws.ToString(entry.Detail)), &detail) != nil {
			out.FailedEntryCount++
			out.Entries = append(out.Entries, types.PutEventsResultEntry{ErrorCode: aws.String("MalformedDetail"), ErrorMessage: aws.String("Detail is malformed.")})
			continue
		}
		id := b.emit(aws.ToString(entry.Source), aws.ToString(entry.DetailType), entry.Resources, detail)
		out.Entries = append(out.Entries, types.PutEventsResultEntry{EventId: aws.String(id)})
	}
	return out, nil
}

// emit puts an event on the bus and delivers it to the queues of every enabled rule that matches; it returns its ID.
func (b *eventsService) emit(source, detailType string, resources []string, detail map[string]any) string {
	id := b.s.newID("event")
	if resources == nil {
		resources = []string{}
	}
	event := map[string]any{
		"version": "0", "id": id, "source": source, "detail-type": detailType, "account": accountID, "region": b.s.options.Region,
		"time": b.s.now().UTC().Format(time.RFC3339), "resources": resources, "detail": detail,
	}
	body, err := json.Marshal(event)
	if err != nil {
		return id
	}
	var parsed map[string]any
	if json.Unmarshal(body, &parsed) != nil {
		return id
	}
	for _, r := range b.rules.list() {
		if r.State != types.RuleStateEnabled || !matchesPattern(aws.ToString(r.EventPattern), parsed) {
			continue
		}
		for _, t := range r.Targets {
			b.deliver(aws.ToString(r.Arn), aws.ToString(t.Arn), string(body))
		}
	}
	return id
}

// deliver sends to a queue, if there is one and its policy lets EventBridge.
func (b *eventsService) deliver(ruleARN, targetARN, body string) {
	prefix := b.s.arn("sqs", "")
	name, ok := strings.CutPrefix(targetARN, prefix)
	if !ok {
		return
	}
	if q, ok := b.s.sqs.queues[name]; ok && allowsSend(q.attributes["Policy"], "events.amazonaws.com", targetARN, ruleARN) {
		b.s.sqs.send(q, body)
	}
}
