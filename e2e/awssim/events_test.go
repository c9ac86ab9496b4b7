package awssim

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge/types"
	"github.com/google/go-cmp/cmp"

	"github.com/castoff-sh/castoff/e2e/awssim/simapi"
)

const (
	queueARN    = "arn:aws:sqs:us-east-1:123456789012:prod"
	queuePolicy = `{"Version":"2008-10-17","Statement":[
		{"Effect":"Allow","Principal":{"Service":["events.amazonaws.com","sqs.amazonaws.com"]},"Action":"sqs:SendMessage","Resource":"` + queueARN + `"},
		{"Sid":"DenyHTTP","Effect":"Deny","Action":"sqs:*","Resource":"` + queueARN + `","Condition":{"Bool":{"aws:SecureTransport":"false"}},"Principal":"*"}]}`
)

// route makes a rule of that pattern with the queue "prod" as its target.
func (l *lab) routeToQueue(t *testing.T, rule, pattern string) {
	t.Helper()
	_, err := l.events.PutRule(ctx, &eventbridge.PutRuleInput{Name: &rule, EventPattern: &pattern, Tags: []types.Tag{{Key: aws.String("a"), Value: aws.String("1")}}})
	ok(t, err)
	out, err := l.events.PutTargets(ctx, &eventbridge.PutTargetsInput{Rule: &rule, Targets: []types.Target{{Id: aws.String("queue"), Arn: aws.String(queueARN)}}})
	ok(t, err)
	if out.FailedEntryCount != 0 {
		t.Fatalf("targets failed: %v", out.FailedEntries)
	}
}

func TestInterruptionsReachTheQueue(t *testing.T) {
	l := newLab(t, Options{Settings: simapi.Settings{PendingDelay: time.Second, ShutdownDelay: time.Second}})
	queue := newQueue(t, l, map[string]string{"Policy": queuePolicy, "MessageRetentionPeriod": "300"})
	l.routeToQueue(t, "state", `{"source":["aws.ec2"],"detail-type":["EC2 Instance State-change Notification"],"detail":{"state":["shutting-down","terminated"]}}`)
	l.routeToQueue(t, "spot", `{"source":["aws.ec2"],"detail-type":["EC2 Spot Instance Interruption Warning"]}`)
	l.routeToQueue(t, "rebalance", `{"source":["aws.ec2"],"detail-type":["EC2 Instance Rebalance Recommendation"]}`)
	i := *l.run(t, nil).InstanceId
	type event struct {
		Source     string
		DetailType string `json:"detail-type"`
		Detail     map[string]string
		Account    string
		Region     string
		Time       string
		Version    string
		Resources  []string
	}
	base := event{Source: "aws.ec2", Account: "123456789012", Region: "us-east-1", Version: "0", Resources: []string{"arn:aws:ec2:us-east-1:123456789012:instance/" + i}}
	read := func() (events []event) {
		for _, m := range l.receive(t, queue) {
			var e event
			ok(t, json.Unmarshal([]byte(*m.Body), &e))
			events = append(events, e)
		}
		return events
	}
	of := func(detailType, at string, detail map[string]string) event {
		e := base
		e.DetailType, e.Time, e.Detail = detailType, at, detail
		e.Detail["instance-id"] = i
		return e
	}
	l.Advance(time.Second)
	if got := read(); len(got) != 0 {
		t.Errorf("the rule wants the end only, not %v", got)
	}
	ok(t, l.side.Interrupt(ctx, simapi.Interrupt{InstanceID: i, Kind: "rebalance"}))
	ok(t, l.side.Interrupt(ctx, simapi.Interrupt{InstanceID: i, Kind: "spot-warning"}))
	want := []event{
		of("EC2 Instance Rebalance Recommendation", "2026-03-01T12:00:01Z", map[string]string{}),
		of("EC2 Spot Instance Interruption Warning", "2026-03-01T12:00:01Z", map[string]string{"instance-action": "terminate"}),
	}
	if diff := cmp.Diff(want, read()); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	l.Advance(2*time.Minute - time.Second)
	if got := l.seen(i); got != "running" {
		t.Errorf("a second before its end a warned instance is %s", got)
	}
	l.Advance(2 * time.Second)
	want = []event{
		of("EC2 Instance State-change Notification", "2026-03-01T12:02:01Z", map[string]string{"state": "shutting-down"}),
		of("EC2 Instance State-change Notification", "2026-03-01T12:02:02Z", map[string]string{"state": "terminated"}),
	}
	got := read()
	var ends []event
	for _, e := range got { // the warnings were not deleted, they come again
		if strings.HasSuffix(e.DetailType, "Notification") {
			ends = append(ends, e)
		}
	}
	if diff := cmp.Diff(want, ends); diff != "" {
		t.Errorf("the end (-want +got):\n%s", diff)
	}
	side, err := l.side.Instances(ctx)
	ok(t, err)
	if side[0].EndedBy != "interruption: spot" {
		t.Errorf("ended by %s", side[0].EndedBy)
	}
}

func TestSpotEndsWhenTheTestSays(t *testing.T) {
	l := newLab(t, Options{})
	i := *l.run(t, nil).InstanceId
	ok(t, l.side.Interrupt(ctx, simapi.Interrupt{InstanceID: i, Kind: "spot-warning", EndAfter: 3 * time.Second}))
	l.Advance(3 * time.Second)
	if got := l.seen(i); got != "shutting-down" && got != "terminated" {
		t.Errorf("three seconds after the warning: %s", got)
	}
}

func TestQueuePolicyDecides(t *testing.T) {
	statement := func(effect, principal, action, resource, condition string) string {
		s := `{"Effect":"` + effect + `","Principal":` + principal + `,"Action":` + action + `,"Resource":"` + resource + `"`
		if condition != "" {
			s += `,"Condition":` + condition
		}
		return s + "}"
	}
	events := `{"Service":"events.amazonaws.com"}`
	allow := statement("Allow", events, `"sqs:SendMessage"`, queueARN, "")
	ruleARN := "arn:aws:events:us-east-1:123456789012:rule/r"
	cases := map[string]struct {
		reason string
		policy string
		want   bool
	}{
		"Upstream":      {"the policy that Karpenter's guide gives", queuePolicy, true},
		"None":          {"without a policy nothing is delivered", "", false},
		"Broken":        {"a policy that is no JSON allows nothing", "{", false},
		"Empty":         {"a policy without statements", `{"Statement":[]}`, false},
		"OtherService":  {"another service is allowed", `{"Statement":[` + statement("Allow", `{"Service":"sns.amazonaws.com"}`, `"sqs:SendMessage"`, queueARN, "") + `]}`, false},
		"OtherAction":   {"another action is allowed", `{"Statement":[` + statement("Allow", events, `"sqs:ReceiveMessage"`, queueARN, "") + `]}`, false},
		"OtherQueue":    {"another queue is named", `{"Statement":[` + statement("Allow", events, `"sqs:SendMessage"`, queueARN+"2", "") + `]}`, false},
		"Lone":          {"a statement need not be in a list", `{"Statement":` + allow + `}`, true},
		"Lists":         {"actions in a list, with a wildcard", `{"Statement":[` + statement("Allow", events, `["sqs:Get*","sqs:Send*"]`, "*", "") + `]}`, true},
		"Everybody":     {"everybody is allowed", `{"Statement":[` + statement("Allow", `"*"`, `"SQS:*"`, "*", "") + `]}`, true},
		"Anonymous":     {"every AWS principal is allowed", `{"Statement":[` + statement("Allow", `{"AWS":"*"}`, `"sqs:*"`, "*", "") + `]}`, true},
		"Account":       {"an account is allowed, not the service", `{"Statement":[` + statement("Allow", `{"AWS":"arn:aws:iam::123456789012:root"}`, `"sqs:*"`, "*", "") + `]}`, false},
		"Denied":        {"a deny beats the allow", `{"Statement":[` + allow + `,` + statement("Deny", `"*"`, `"sqs:*"`, "*", "") + `]}`, false},
		"ThisRule":      {"a condition on the rule's ARN", `{"Statement":[` + statement("Allow", events, `"sqs:SendMessage"`, "*", `{"ArnEquals":{"aws:SourceArn":"`+ruleARN+`"}}`) + `]}`, true},
		"OtherRule":     {"a condition on another rule's ARN", `{"Statement":[` + statement("Allow", events, `"sqs:SendMessage"`, "*", `{"ArnEquals":{"aws:SourceArn":"`+ruleARN+`2"}}`) + `]}`, false},
		"UnknownKey":    {"a condition that is not known does not hold", `{"Statement":[` + statement("Allow", events, `"sqs:SendMessage"`, "*", `{"StringEquals":{"aws:PrincipalOrgID":"o-1"}}`) + `]}`, false},
		"SecureDenied":  {"the service uses TLS, so a deny of TLS hits", `{"Statement":[` + allow + `,` + statement("Deny", `"*"`, `"sqs:*"`, "*", `{"Bool":{"aws:SecureTransport":true}}`) + `]}`, false},
		"UnknownClause": {"an operator that is not known does not hold", `{"Statement":[` + statement("Allow", events, `"sqs:SendMessage"`, "*", `{"DateLessThan":{"aws:CurrentTime":"2030-01-01"}}`) + `]}`, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := allowsSend(tc.policy, "events.amazonaws.com", queueARN, ruleARN); got != tc.want {
				t.Errorf("%s: want %t, got %t", tc.reason, tc.want, got)
			}
		})
	}
}

func TestDeliveryFollowsThePolicy(t *testing.T) {
	l := newLab(t, Options{})
	queue := newQueue(t, l, nil)
	l.routeToQueue(t, "r", `{"source":["castoff"]}`)
	emit := func() {
		out, err := l.events.PutEvents(ctx, &eventbridge.PutEventsInput{Entries: []types.PutEventsRequestEntry{
			{Source: aws.String("castoff"), DetailType: aws.String("test"), Detail: aws.String(`{"n":1}`)}, {Source: aws.String("castoff"), Detail: aws.String("no JSON")},
		}})
		ok(t, err)
		if out.FailedEntryCount != 1 || *out.Entries[1].ErrorCode != "MalformedDetail" {
			t.Errorf("an entry without JSON detail must fail alone: %+v", out)
		}
	}
	emit()
	if got := l.receive(t, queue); len(got) != 0 {
		t.Errorf("without a policy the queue got %v", bodies(got))
	}
	do(l.Server, func() { l.Server.sqs.queues["prod"].attributes["Policy"] = queuePolicy })
	emit()
	if got := l.receive(t, queue); len(got) != 1 {
		t.Errorf("with the policy the queue got %v", bodies(got))
	}
	_, err := l.events.DisableRule(ctx, &eventbridge.DisableRuleInput{Name: aws.String("r")})
	ok(t, err)
	emit()
	_, err = l.events.EnableRule(ctx, &eventbridge.EnableRuleInput{Name: aws.String("r")})
	ok(t, err)
	if got := l.receive(t, queue); len(got) != 0 {
		t.Errorf("a disabled rule delivered %v", bodies(got))
	}
}

func TestRules(t *testing.T) {
	l := newLab(t, Options{})
	l.routeToQueue(t, "castoff-a", `{"source":["a"]}`)
	l.routeToQueue(t, "castoff-b", `{"source":["b"]}`)
	l.routeToQueue(t, "other", `{"source":["c"]}`)
	_, err := l.events.PutRule(ctx, &eventbridge.PutRuleInput{Name: aws.String("broken"), EventPattern: aws.String("{")})
	wantCode(t, err, "InvalidEventPatternException", "a pattern that is no JSON")
	_, err = l.events.PutRule(ctx, &eventbridge.PutRuleInput{Name: aws.String("empty")})
	wantCode(t, err, "ValidationException", "neither pattern nor schedule")
	list, err := l.events.ListRules(ctx, &eventbridge.ListRulesInput{NamePrefix: aws.String("castoff-")})
	ok(t, err)
	byTarget, err := l.events.ListRuleNamesByTarget(ctx, &eventbridge.ListRuleNamesByTargetInput{TargetArn: aws.String(queueARN)})
	ok(t, err)
	if len(list.Rules) != 2 || len(byTarget.RuleNames) != 3 {
		t.Errorf("%d rules of that prefix, %d of that target", len(list.Rules), len(byTarget.RuleNames))
	}
	name := aws.String("castoff-a")
	rule, err := l.events.DescribeRule(ctx, &eventbridge.DescribeRuleInput{Name: name})
	ok(t, err)
	if *rule.EventPattern != `{"source":["a"]}` || rule.State != types.RuleStateEnabled || *rule.Arn != "arn:aws:events:us-east-1:123456789012:rule/castoff-a" {
		t.Errorf("rule %+v", rule)
	}
	_, err = l.events.PutRule(ctx, &eventbridge.PutRuleInput{Name: name, EventPattern: aws.String(`{"source":["z"]}`)})
	ok(t, err)
	_, err = l.events.TagResource(ctx, &eventbridge.TagResourceInput{ResourceARN: rule.Arn, Tags: []types.Tag{{Key: aws.String("b"), Value: aws.String("2")}}})
	ok(t, err)
	tags, err := l.events.ListTagsForResource(ctx, &eventbridge.ListTagsForResourceInput{ResourceARN: rule.Arn})
	ok(t, err)
	targets, err := l.events.ListTargetsByRule(ctx, &eventbridge.ListTargetsByRuleInput{Rule: name})
	ok(t, err)
	if len(tags.Tags) != 2 || len(targets.Targets) != 1 || *targets.Targets[0].Arn != queueARN {
		t.Errorf("putting a rule again keeps its tags and targets: %v, %v", tags.Tags, targets.Targets)
	}
	_, err = l.events.UntagResource(ctx, &eventbridge.UntagResourceInput{ResourceARN: rule.Arn, TagKeys: []string{"a", "b"}})
	ok(t, err)
	if tags, err = l.events.ListTagsForResource(ctx, &eventbridge.ListTagsForResourceInput{ResourceARN: rule.Arn}); err != nil || len(tags.Tags) != 0 {
		t.Errorf("untagged, yet %v, %v", tags.Tags, err)
	}
	_, err = l.events.DeleteRule(ctx, &eventbridge.DeleteRuleInput{Name: name})
	wantCode(t, err, "ValidationException", "the rule has a target")
	_, err = l.events.RemoveTargets(ctx, &eventbridge.RemoveTargetsInput{Rule: name, Ids: []string{"queue", "none"}})
	ok(t, err)
	for range 2 { // deleting what is gone is no error
		_, err = l.events.DeleteRule(ctx, &eventbridge.DeleteRuleInput{Name: name})
		ok(t, err)
	}
	_, err = l.events.DescribeRule(ctx, &eventbridge.DescribeRuleInput{Name: name})
	wantCode(t, err, "ResourceNotFoundException", "DescribeRule")
	_, err = l.events.ListTargetsByRule(ctx, &eventbridge.ListTargetsByRuleInput{Rule: name})
	wantCode(t, err, "ResourceNotFoundException", "ListTargetsByRule")
	_, err = l.events.PutTargets(ctx, &eventbridge.PutTargetsInput{Rule: name, Targets: []types.Target{{Id: aws.String("x"), Arn: aws.String(queueARN)}}})
	wantCode(t, err, "ResourceNotFoundException", "PutTargets")
	_, err = l.events.RemoveTargets(ctx, &eventbridge.RemoveTargetsInput{Rule: name, Ids: []string{"x"}})
	wantCode(t, err, "ResourceNotFoundException", "RemoveTargets")
}

func TestEventPatterns(t *testing.T) {
	event := map[string]any{
		"source": "aws.health", "detail-type": "AWS Health Event", "resources": []any{"i-1", "i-2"},
		"detail": map[string]any{"service": "EC2", "eventTypeCategory": "scheduledChange", "count": 3.0},
	}
	cases := map[string]struct {
		reason, pattern string
		want            bool
	}{
		"Exact":          {"every field matches", `{"source":["aws.health"],"detail-type":["AWS Health Event"]}`, true},
		"OneOf":          {"one of the values", `{"source":["aws.ec2","aws.health"]}`, true},
		"NoneOf":         {"none of the values", `{"source":["aws.ec2"]}`, false},
		"Nested":         {"a nested field", `{"detail":{"service":["EC2"],"eventTypeCategory":["scheduledChange"]}}`, true},
		"NestedOther":    {"a nested field of another value", `{"detail":{"service":["RDS"]}}`, false},
		"NestedInNone":   {"a field in something that is no object", `{"source":{"name":["x"]}}`, false},
		"Missing":        {"a field that the event lacks", `{"colour":["red"]}`, false},
		"Number":         {"a number", `{"detail":{"count":[3]}}`, true},
		"ListElement":    {"one element of a list", `{"resources":["i-2"]}`, true},
		"Prefix":         {"a prefix", `{"source":[{"prefix":"aws."}]}`, true},
		"OtherPrefix":    {"another prefix", `{"source":[{"prefix":"gcp."}]}`, false},
		"Suffix":         {"a suffix", `{"source":[{"suffix":".health"}]}`, true},
		"AnythingBut":    {"anything but this", `{"source":[{"anything-but":"aws.ec2"}]}`, true},
		"AnythingButOne": {"anything but these, and it is one", `{"source":[{"anything-but":["aws.ec2","aws.health"]}]}`, false},
		"Exists":         {"a field that must be there", `{"detail":{"service":[{"exists":true}]}}`, true},
		"ExistsNot":      {"a field that must not be there", `{"detail":{"region":[{"exists":false}]}}`, true},
		"ExistsYet":      {"a field that must not be there, and is", `{"detail":{"service":[{"exists":false}]}}`, false},
		"Unknown":        {"a test that is not simulated", `{"detail":{"count":[{"numeric":[">",1]}]}}`, false},
		"NotAList":       {"values must be in a list", `{"source":"aws.health"}`, false},
		"None":           {"no pattern", ``, false},
		"Broken":         {"no JSON", `{`, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := matchesPattern(tc.pattern, event); got != tc.want {
				t.Errorf("%s: want %t, got %t", tc.reason, tc.want, got)
			}
		})
	}
}

func TestTargetsOfOtherKindsGetNothing(t *testing.T) {
	l := newLab(t, Options{})
	_, err := l.events.PutRule(ctx, &eventbridge.PutRuleInput{Name: aws.String("r"), EventPattern: aws.String(`{"source":["aws.ec2"]}`)})
	ok(t, err)
	var targets []types.Target
	for i, arn := range []string{"arn:aws:lambda:us-east-1:123456789012:function:f", "arn:aws:sqs:us-east-1:123456789012:gone", "arn:aws:sqs:eu-west-1:123456789012:far"} {
		targets = append(targets, types.Target{Id: aws.String(fmt.Sprint(i)), Arn: aws.String(arn)})
	}
	_, err = l.events.PutTargets(ctx, &eventbridge.PutTargetsInput{Rule: aws.String("r"), Targets: targets})
	ok(t, err)
	l.run(t, func(in *ec2.RunInstancesInput) { in.InstanceType = "c5.large" })
	if got, err := l.events.ListTargetsByRule(ctx, &eventbridge.ListTargetsByRuleInput{Rule: aws.String("r")}); err != nil || len(got.Targets) != 3 {
		t.Errorf("targets that cannot be reached are kept: %v, %v", got, err)
	}
}
