package identity

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/google/go-cmp/cmp"

	"github.com/castoff-sh/castoff/e2e/awssim/simtest"
	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/inventory/awsapi"
)

// documentsOf are all documents that castoff writes to IAM or prints for a cluster.
func documentsOf(c inventory.Cluster) map[string]string {
	out := ControllerPolicies(c)
	out["policy"], out["boundary"] = Policy(c), PermissionsBoundary(c)
	out["node trust"], out["controller trust"] = NodeTrust(c), ControllerTrust(c)
	return out
}

func TestCase_C050_ControllerMayReadExactlyItsQueue(t *testing.T) {
	long, provided, off := longest(), harbor, harbor
	provided.Provided.Queue, off.Provided.NoQueue = "interruptions", true
	cases := map[string]struct {
		reason  string
		cluster inventory.Cluster
		queue   string // ARN; empty: none
	}{
		"Managed":  {"castoff's, named as the cluster", harbor, "arn:aws:sqs:us-east-1:123456789012:harbor"},
		"LongName": {"the name that the queue really has", long, awsapi.ARN(long, "sqs", awsapi.QueueName(long.Name))},
		"Existing": {"the user's", provided, "arn:aws:sqs:us-east-1:123456789012:interruptions"},
		"Off":      {"no queue, no right", off, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := map[string][]string{}
			for _, p := range ControllerPolicies(tc.cluster) {
				for _, s := range parsed(t, p).Statement {
					for _, a := range s.Action {
						if strings.HasPrefix(a, "sqs:") {
							got[a] = append(got[a], s.Resource...)
						}
					}
				}
			}
			want := map[string][]string{}
			if tc.queue != "" {
				want = map[string][]string{"sqs:DeleteMessage": {tc.queue}, "sqs:GetQueueUrl": {tc.queue}, "sqs:ReceiveMessage": {tc.queue}}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

func TestCase_C052_EveryARNNamesThePartition(t *testing.T) {
	cases := map[string]struct{ region, partition string }{
		"China":    {"cn-north-1", "aws-cn"},
		"GovCloud": {"us-gov-west-1", "aws-us-gov"},
		"Usual":    {"eu-west-1", "aws"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := harbor
			c.Region, c.Partition = tc.region, tc.partition
			c.ARN = awsapi.ARN(c, "eks", "cluster/harbor")
			for what, document := range documentsOf(c) {
				if strings.Count(document, "arn:") != strings.Count(document, "arn:"+tc.partition+":") {
					t.Errorf("%s names another partition: %s", what, document)
				}
			}
			for _, arn := range nodeRole(c, nil).attached {
				if !strings.HasPrefix(arn, "arn:"+tc.partition+":iam::aws:policy/") {
					t.Errorf("managed policy %s is not of the partition", arn)
				}
			}
			if !strings.Contains(ControllerTrust(c), `"pods.eks.amazonaws.com"`) {
				t.Errorf("Pod Identity's principal has no suffix anywhere: %s", ControllerTrust(c))
			}
		})
	}
}

func TestCase_C056_OneRoleNameOfAtMost64CharactersEverywhere(t *testing.T) {
	const reported = "Cluster9EE0221C-91e6aaf5bfa049c994e911f11a460298" // 48 characters: KarpenterNodeRole- and it are 66
	cases := map[string]struct{ reason, cluster string }{
		"Reported": {"the cluster of the report", reported},
		"Longest":  {"as long as EKS allows", strings.Repeat("c", 100)},
		"Short":    {"nothing to cut", "harbor"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := clusterNamed(tc.cluster)
			node, controller := NodeRole(c), ControllerRole(c)
			if len(node) > 64 || len(controller) > 64 {
				t.Errorf("%s: names of %d and %d characters", tc.reason, len(node), len(controller))
			}
			if node != NodeRole(c) || node == NodeRole(clusterNamed(tc.cluster+"x")) || node == controller {
				t.Errorf("%s: the name is not stable, or not the cluster's alone: %s", tc.reason, node)
			}
			if want := `"arn:aws:iam::123456789012:role/` + node + `"`; !strings.Contains(ControllerPolicies(c)["KarpenterIAMIntegration"], want) {
				t.Errorf("%s: Karpenter may not pass the role that its nodes get", tc.reason)
			}
			if want := `role/` + node + `"`; !strings.Contains(Policy(c), want) {
				t.Errorf("%s: castoff may not make it", tc.reason)
			}
		})
	}
	l := newLab(t) // the role in AWS, the access entry and what the EC2NodeClass gets are one name
	c := harbor
	simtest.Check(t, l.port.Ensure(t.Context(), c, nil))
	got := l.observe(t)
	if got.NodeRole != NodeRole(c) || !strings.HasSuffix(got.NodeRoleARN, "/"+got.NodeRole) {
		t.Errorf("observed %+v", got)
	}
	if _, err := l.eks.DescribeAccessEntry(t.Context(), &eks.DescribeAccessEntryInput{ClusterName: aws.String(c.Name), PrincipalArn: aws.String(got.NodeRoleARN)}); err != nil {
		t.Errorf("the access entry: %v", err)
	}
}

func TestCase_C059_NodesKeepTheirAccessWhenEKSDropsARole(t *testing.T) {
	t.Run("ConfigMap", func(t *testing.T) {
		l, s := newLab(t), newStore(rowsByHand)
		port := portAs(l.Config, s)
		simtest.Check(t, port.Ensure(t.Context(), mapped, nil))
		if strings.Contains(rowsByHand, ourRole) {
			t.Error("Karpenter's nodes share the role of a node group")
		}
		s.configMap.Data["mapUsers"], s.configMap.Data["mapRoles"] = "- userarn: them\n", rowsByHand // EKS wrote its list again, without ours
		s.version++
		got, err := port.Observe(t.Context(), mapped, nil)
		simtest.Check(t, err)
		if got.Ready || !slices.Contains(got.Missing, rowOfHarbor) {
			t.Errorf("the row that is gone is not seen: %+v", got)
		}
		simtest.Check(t, port.Ensure(t.Context(), mapped, nil))
		want := map[string]string{"mapUsers": "- userarn: them\n", "mapRoles": rowsByHand + indented(ourRow)}
		if diff := cmp.Diff(want, s.configMap.Data); diff != "" {
			t.Errorf("-want +got\n%s", diff)
		}
	})
	t.Run("AccessEntry", func(t *testing.T) {
		l := newLab(t)
		simtest.Check(t, l.port.Ensure(t.Context(), harbor, nil))
		_, err := l.eks.DeleteAccessEntry(t.Context(), &eks.DeleteAccessEntryInput{ClusterName: aws.String("harbor"), PrincipalArn: aws.String(l.observe(t).NodeRoleARN)})
		simtest.Check(t, err)
		if got := l.observe(t); got.Ready || len(got.Missing) != 1 {
			t.Errorf("the entry that is gone is not seen: %+v", got)
		}
		_, seq := l.Writes(t, 0)
		simtest.Check(t, l.port.Ensure(t.Context(), harbor, nil))
		made, _ := l.Writes(t, seq)
		if diff := cmp.Diff([]string{"CreateAccessEntry"}, made); diff != "" || !l.observe(t).Ready {
			t.Errorf("one Ensure puts it back, and nothing else: -want +got\n%s", diff)
		}
	})
}

func TestCase_C061_ControllerEndsItsOwnInstancesOnly(t *testing.T) {
	for _, name := range []string{"harbor", "pier"} {
		c := clusterNamed(name)
		seen := map[string]int{}
		for what, p := range ControllerPolicies(c) {
			if strings.Contains(p, "Tag/Name") {
				t.Errorf("%s goes by the tag Name, which anybody may give: %s", what, p)
			}
			for _, s := range parsed(t, p).Statement {
				for _, a := range s.Action {
					seen[a]++
					ownConditions(t, c, a, s)
				}
			}
		}
		for _, a := range []string{"ec2:TerminateInstances", "ec2:DeleteLaunchTemplate", "ec2:CreateTags"} {
			if seen[a] == 0 {
				t.Errorf("Karpenter of %s lacks %s, and leaks what it made", name, a)
			}
		}
	}
}

// ownConditions holds what a statement asks for against what the action needs to stay in its cluster.
func ownConditions(t *testing.T, c inventory.Cluster, action string, s awsapi.Statement) {
	t.Helper()
	equals, like := s.Condition["StringEquals"], s.Condition["StringLike"]
	switch action {
	case "ec2:TerminateInstances", "ec2:DeleteLaunchTemplate":
		want := awsapi.Conditions{
			"StringEquals": {"aws:ResourceTag/kubernetes.io/cluster/" + c.Name: {"owned"}},
			"StringLike":   {"aws:ResourceTag/karpenter.sh/nodepool": {"*"}},
		}
		if diff := cmp.Diff(want, s.Condition); diff != "" {
			t.Errorf("%s: -want +got\n%s", action, diff)
		}
	case "ec2:CreateTags":
		byCreation := slices.Contains(equals["ec2:CreateAction"], "RunInstances") && len(equals["aws:RequestTag/kubernetes.io/cluster/"+c.Name]) == 1
		ownInstance := len(equals["aws:ResourceTag/kubernetes.io/cluster/"+c.Name]) == 1 && len(like["aws:ResourceTag/karpenter.sh/nodepool"]) == 1 &&
			len(s.Condition["ForAllValues:StringEquals"]["aws:TagKeys"]) > 0
		if !byCreation && !ownInstance {
			b, _ := json.Marshal(s.Condition)
			t.Errorf("CreateTags tags more than what is being made or is its own: %s", b)
		}
	}
}
