package interruption

import (
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/google/go-cmp/cmp"

	"github.com/castoff-sh/castoff/e2e/awssim/simtest"
	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/inventory/awsapi"
)

// clusterIn is a cluster of that name and place.
func clusterIn(name, region, partition string) inventory.Cluster {
	c := inventory.Cluster{Name: name, Account: "123456789012", Region: region, Partition: partition}
	c.ARN = awsapi.ARN(c, "eks", "cluster/"+name)
	return c
}

func TestCase_C052_QueuePolicyNamesServicesWithoutASuffixAndARNsOfThePartition(t *testing.T) {
	cases := map[string]struct {
		reason            string
		region, partition string
		prefix            string
	}{
		"China":      {"principals with .cn are refused by SQS there", "cn-north-1", "aws-cn", "arn:aws-cn:"},
		"China west": {"the same", "cn-northwest-1", "aws-cn", "arn:aws-cn:"},
		"GovCloud":   {"a partition of its own", "us-gov-west-1", "aws-us-gov", "arn:aws-us-gov:"},
		"Commercial": {"and the usual one", "eu-west-1", "aws", "arn:aws:"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			policy := queuePolicy(clusterIn("harbor", tc.region, tc.partition)).String()
			for _, principal := range []string{`"Service":"events.amazonaws.com"`, `"Service":"sqs.amazonaws.com"`} {
				if !strings.Contains(policy, principal) {
					t.Errorf("%s: no principal %s in %s", tc.reason, principal, policy)
				}
			}
			if strings.Contains(policy, ".amazonaws.com.cn") {
				t.Errorf("%s: a principal has a suffix: %s", tc.reason, policy)
			}
			if n := strings.Count(policy, "arn:"); n == 0 || n != strings.Count(policy, tc.prefix) {
				t.Errorf("%s: not every ARN begins with %s: %s", tc.reason, tc.prefix, policy)
			}
		})
	}
}

// detailTypes gives the detail types that the enabled rules match which send to the queue.
func (l *lab) detailTypes(t *testing.T, queue string) (out []string) {
	t.Helper()
	named, err := l.events.ListRuleNamesByTarget(t.Context(), &eventbridge.ListRuleNamesByTargetInput{TargetArn: aws.String(queue)})
	simtest.Check(t, err)
	for _, name := range named.RuleNames {
		got, err := l.events.DescribeRule(t.Context(), &eventbridge.DescribeRuleInput{Name: aws.String(name)})
		simtest.Check(t, err)
		for _, detail := range parseRule(got).members["detail-type"] {
			out = append(out, detail.(string))
		}
	}
	slices.Sort(out)
	return out
}

func (l *lab) ruleNames(t *testing.T) (out []string) {
	t.Helper()
	listed, err := l.events.ListRules(t.Context(), &eventbridge.ListRulesInput{})
	simtest.Check(t, err)
	for _, r := range listed.Rules {
		out = append(out, aws.ToString(r.Name))
	}
	slices.Sort(out)
	return out
}

var allDetailTypes = []string{
	"AWS Health Event", "EC2 Capacity Reservation Instance Interruption Warning", "EC2 Instance Rebalance Recommendation",
	"EC2 Instance State-change Notification", "EC2 Spot Instance Interruption Warning",
}

func TestCase_C054_OneRulePerDetailTypeAndCluster(t *testing.T) {
	l := newLab(t)
	pier := clusterIn("pier", "us-east-1", "aws")
	simtest.Check(t, l.port.Ensure(t.Context(), pier))
	before := l.ruleNames(t)
	// One of ours is there already, by the hand of a castoff that was killed before it aimed it.
	l.rule(t, awsapi.RuleName("harbor", awsapi.EventSpotInterruption), patterns[awsapi.EventSpotInterruption].String(), awsapi.OurTags(harbor))
	for range 5 { // an operator that restarts has nothing but what it finds
		simtest.Check(t, New(l.sqs, l.events).Ensure(t.Context(), harbor))
	}
	if diff := cmp.Diff(allDetailTypes, l.detailTypes(t, queueOfHarbor)); diff != "" {
		t.Errorf("one rule per detail type: -want +got\n%s", diff)
	}
	if diff := cmp.Diff(allDetailTypes, l.detailTypes(t, awsapi.ARN(pier, "sqs", "pier"))); diff != "" {
		t.Errorf("the other cluster's: -want +got\n%s", diff)
	}
	ofHarbor := 0
	for _, name := range l.ruleNames(t) {
		if strings.Contains(name, "harbor") {
			ofHarbor++
		} else if !slices.Contains(before, name) {
			t.Errorf("rule %s does not name its cluster", name)
		}
	}
	if ofHarbor != len(allDetailTypes) {
		t.Errorf("%d rules are named for the cluster, want %d", ofHarbor, len(allDetailTypes))
	}

	l.rule(t, "castoff-harbor-by-hand", `{"source":["aws.ec2"]}`, nil)
	_, seq := l.Writes(t, 0)
	simtest.Check(t, l.port.Remove(t.Context(), harbor))
	if diff := cmp.Diff(append(slices.Clone(before), "castoff-harbor-by-hand"), l.ruleNames(t), sorted); diff != "" {
		t.Errorf("cleanup takes castoff's rules of this cluster alone: -want +got\n%s", diff)
	}
	made, _ := l.Writes(t, seq)
	if len(made) < 2 || made[0] != "RemoveTargets" || made[1] != "DeleteRule" {
		t.Errorf("cleanup takes the targets off a rule before it deletes it: %v", made)
	}
}

var sorted = cmp.Transformer("sorted", func(s []string) []string { s = slices.Clone(s); slices.Sort(s); return s })

// TestCase_C050_TheQueueOfTheNameExists: Karpenter asks for the queue by name at its start, and ends without it.
func TestCase_C050_TheQueueOfTheNameExists(t *testing.T) {
	cases := map[string]struct {
		reason  string
		cluster inventory.Cluster
	}{
		"Short": {"named as the cluster", harbor},
		"Long":  {"a cluster's name may be longer than a queue's", clusterIn(strings.Repeat("c", 100), "us-east-1", "aws")},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			simtest.Check(t, l.port.Ensure(t.Context(), tc.cluster))
			got, err := l.port.Observe(t.Context(), tc.cluster)
			simtest.Check(t, err)
			if !got.Ready || strings.ContainsAny(got.QueueName, ":/") || len(got.QueueName) > 80 {
				t.Errorf("%s: %+v; want Ready, and the name that Karpenter gets to be a name", tc.reason, got)
			}
			if _, err := l.sqs.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: aws.String(got.QueueName)}); err != nil {
				t.Errorf("%s: the name that Karpenter gets: %v", tc.reason, err)
			}
		})
	}
}
