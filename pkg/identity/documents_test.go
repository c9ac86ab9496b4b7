package identity

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode"

	karpenter "github.com/aws/karpenter-provider-aws/pkg/aws"
	"github.com/google/go-cmp/cmp"

	"github.com/castoff-sh/castoff/pkg/interruption"
	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/inventory/awsapi"
	"github.com/castoff-sh/castoff/pkg/nodegroup"
)

var harbor = clusterNamed("harbor")

func clusterNamed(name string) inventory.Cluster {
	return inventory.Cluster{Name: name, ARN: "arn:aws:eks:us-east-1:123456789012:cluster/" + name, Account: "123456789012", Region: "us-east-1", Partition: "aws", AuthenticationMode: "API_AND_CONFIG_MAP"}
}

// longest is the cluster that makes the longest documents: a name of 100 characters, in the partition and region with
// the longest names.
func longest() inventory.Cluster {
	c := clusterNamed(strings.Repeat("c", 100))
	c.Partition, c.Region = "aws-us-gov", "ap-southeast-99"
	c.ARN = awsapi.ARN(c, "eks", "cluster/"+c.Name)
	return c
}

// Limits of IAM (quotas page of the IAM user guide), in characters without white space.
const (
	maxInline  = 10240 // all inline policies of a role
	maxManaged = 6144  // one managed policy
)

// size is what IAM counts.
func size(document string) int {
	n := 0
	for _, r := range document {
		if !unicode.IsSpace(r) {
			n++
		}
	}
	return n
}

func TestDocumentsFit(t *testing.T) {
	c := longest()
	inline := 0
	for _, p := range ControllerPolicies(c) {
		inline += size(p)
	}
	t.Logf("controller policies %d, castoff's policy %d, boundary %d characters", inline, size(Policy(c)), size(PermissionsBoundary(c)))
	for what, got := range map[string]struct{ size, limit int }{
		"the controller role's inline policies": {inline, maxInline},
		"castoff's policy":                      {size(Policy(c)), maxInline},
		"the permissions boundary":              {size(PermissionsBoundary(c)), maxManaged},
		"the node role's trust policy":          {size(NodeTrust(c)), 2048},
		"the controller role's trust policy":    {size(ControllerTrust(c)), 2048},
	} {
		if got.size > got.limit {
			t.Errorf("%s has %d characters, IAM takes %d", what, got.size, got.limit)
		}
	}
	ordinary := clusterNamed("production-eu-west")
	var extra []string
	for i := range 10 {
		extra = append(extra, fmt.Sprintf("arn:aws:iam::123456789012:policy/platform/node-extra-policy-%d", i))
	}
	t.Logf("for an ordinary cluster: castoff's policy %d characters, with ten extra node policies %d", size(Policy(ordinary)), size(Policy(ordinary, extra...)))
	if n := size(Policy(ordinary, extra...)); n > maxInline {
		t.Errorf("castoff's policy for an ordinary cluster with ten extra node policies has %d characters, IAM takes %d", n, maxInline)
	}
}

// parsed reads a document and checks that it is one.
func parsed(t *testing.T, document string) awsapi.Document {
	t.Helper()
	d, err := awsapi.ParseDocument(document)
	if err != nil || d.Version != "2012-10-17" || len(d.Statement) == 0 || !json.Valid([]byte(document)) {
		t.Fatalf("no policy document (%v): %s", err, document)
	}
	return d
}

func actionsOf(d awsapi.Document) (out []string) {
	for _, s := range d.Statement {
		if s.Effect == "Allow" {
			out = append(out, s.Action...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// methods are the IAM actions of an interface of SDK calls.
func methods[T any](service string) (out []string) {
	for i := range reflect.TypeFor[T]().NumMethod() {
		out = append(out, service+":"+reflect.TypeFor[T]().Method(i).Name)
	}
	return out
}

// dependent are actions that AWS asks for beside the call's own (service authorization reference): to tag while
// creating, and to hand a role over.
var dependent = []string{"iam:TagRole", "iam:PassRole", "sqs:TagQueue", "events:TagResource", "eks:TagResource"}

// The policy has every action that the ports can call, and none that they cannot.
func TestPolicyIsExact(t *testing.T) {
	used := slices.Concat(
		methods[nodegroup.AutoScalingAPI]("autoscaling"), methods[nodegroup.EKSAPI]("eks"), methods[nodegroup.EC2API]("ec2"), methods[nodegroup.IAMAPI]("iam"),
		methods[nodegroup.QuotasAPI]("servicequotas"), methods[nodegroup.UsageAPI]("cloudwatch"), methods[interruption.SQSAPI]("sqs"), methods[interruption.EventsAPI]("events"),
		methods[IAMAPI]("iam"), methods[EKSAPI]("eks"), methods[EC2API]("ec2"), methods[STSAPI]("sts"), dependent,
	)
	slices.Sort(used)
	if diff := cmp.Diff(slices.Compact(used), actionsOf(parsed(t, Policy(harbor)))); diff != "" {
		t.Errorf("-used +in the policy\n%s", diff)
	}
}

// Conditions on what castoff made, and on what it made for one cluster.
const (
	ourTag      = "aws:ResourceTag/castoff.sh/managed-by"
	clustersTag = "aws:ResourceTag/castoff.sh/cluster"
)

// What is not scoped to a resource is a read.
func TestPolicyIsNarrow(t *testing.T) {
	sids := map[string]bool{}
	for _, s := range parsed(t, Policy(harbor)).Statement {
		if s.Sid == "" || sids[s.Sid] {
			t.Errorf("statement %q is unnamed or named twice", s.Sid)
		}
		sids[s.Sid] = true
		for _, a := range s.Action {
			if strings.Contains(a, "*") {
				t.Errorf("%s: action %s has a wildcard", s.Sid, a)
			}
			_, verb, _ := strings.Cut(a, ":")
			read := strings.HasPrefix(verb, "Describe") || strings.HasPrefix(verb, "Get") || strings.HasPrefix(verb, "List")
			if slices.Contains(s.Resource, "*") && !read {
				t.Errorf("%s: %s is allowed on everything", s.Sid, a)
			}
		}
	}
	for action, key := range map[string]string{
		"iam:PassRole": "iam:PassedToService", "iam:AttachRolePolicy": "iam:PolicyARN", "iam:CreateRole": "aws:RequestTag/castoff.sh/managed-by",
		"eks:CreateAccessEntry": "eks:principalArn", "events:PutTargets": "events:TargetArn",
		"iam:DeleteRole": clustersTag, "iam:DeleteRolePolicy": clustersTag, "iam:DetachRolePolicy": clustersTag, "eks:DeleteAccessEntry": ourTag,
		"eks:DeletePodIdentityAssociation": ourTag, "sqs:DeleteQueue": ourTag, "events:DeleteRule": clustersTag, "events:RemoveTargets": clustersTag,
	} {
		if !conditioned(parsed(t, Policy(harbor)), action, key) {
			t.Errorf("%s is allowed without a condition on %s", action, key)
		}
	}
}

// conditioned says whether every statement that allows the action has a condition on the key.
func conditioned(d awsapi.Document, action, key string) bool {
	found := false
	for _, s := range d.Statement {
		if !slices.Contains(s.Action, action) {
			continue
		}
		found = true
		has := false
		for _, keys := range s.Condition {
			_, ok := keys[key]
			has = has || ok
		}
		if !has {
			return false
		}
	}
	return found
}

func TestExtraNodePoliciesMayBeAttached(t *testing.T) {
	const custom = "arn:aws:iam::123456789012:policy/logs"
	for what, document := range map[string]string{"policy": Policy(harbor, custom, "CloudWatchAgentServerPolicy"), "boundary": PermissionsBoundary(harbor, custom, "CloudWatchAgentServerPolicy")} {
		for _, arn := range []string{custom, "arn:aws:iam::aws:policy/CloudWatchAgentServerPolicy", "arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicy"} {
			if !strings.Contains(document, `"`+arn+`"`) {
				t.Errorf("%s does not name %s", what, arn)
			}
		}
	}
}

func TestBoundaryAllowsThePolicy(t *testing.T) {
	boundary := parsed(t, PermissionsBoundary(harbor))
	if diff := cmp.Diff(actionsOf(parsed(t, Policy(harbor))), actionsOf(boundary)); diff != "" {
		t.Errorf("-policy +boundary\n%s", diff)
	}
	for _, s := range boundary.Statement {
		if s.Sid == "TwoRoles" && (len(s.NotResource) != 2 || len(s.Resource) != 0) {
			t.Errorf("the boundary keeps castoff off roles %v but %v", s.Resource, s.NotResource)
		}
	}
}

// Everything that Karpenter's SDK interfaces can call is in the controller's policies. SendMessage and WriteRecords are
// for its own tests; CreateTags and RunInstances come with conditions, like the rest.
func TestControllerMayCallWhatKarpenterCalls(t *testing.T) {
	var have []string
	for _, p := range ControllerPolicies(harbor) {
		have = append(have, actionsOf(parsed(t, p))...)
	}
	want := slices.Concat(
		methods[karpenter.EC2API]("ec2"), methods[karpenter.IAMAPI]("iam"), methods[karpenter.EKSAPI]("eks"), methods[karpenter.PricingAPI]("pricing"),
		methods[karpenter.SSMAPI]("ssm"), methods[karpenter.SQSAPI]("sqs"), methods[karpenter.ARCZonalShiftAPI]("arc-zonal-shift"), []string{"iam:PassRole"},
	)
	want = slices.DeleteFunc(want, func(a string) bool { return a == "sqs:SendMessage" })
	slices.Sort(want)
	slices.Sort(have)
	if diff := cmp.Diff(want, slices.Compact(have)); diff != "" {
		t.Errorf("-Karpenter calls +allowed\n%s", diff)
	}
}

func TestControllerIsScopedToItsCluster(t *testing.T) {
	for name, p := range ControllerPolicies(harbor) {
		for _, s := range parsed(t, p).Statement {
			for _, a := range s.Action {
				writes := slices.Contains([]string{"ec2:TerminateInstances", "ec2:DeleteLaunchTemplate", "ec2:CreateTags", "ec2:CreateLaunchTemplate", "iam:DeleteInstanceProfile", "iam:CreateInstanceProfile", "iam:TagInstanceProfile"}, a)
				if !writes {
					continue
				}
				b, err := json.Marshal(s.Condition)
				if err != nil {
					t.Fatal(err)
				}
				if !strings.Contains(string(b), `Tag/kubernetes.io/cluster/harbor":["owned"]`) {
					t.Errorf("%s: %s is not scoped to the cluster: %s", name, a, b)
				}
			}
		}
	}
}

// One castoff does not take away what another made for another cluster: the resource says which one, or a tag or path does.
func TestRemovalIsScopedToTheCluster(t *testing.T) {
	seen := 0
	for _, s := range parsed(t, Policy(harbor)).Statement {
		for _, a := range s.Action {
			_, verb, _ := strings.Cut(a, ":")
			if !strings.HasPrefix(verb, "Delete") && !strings.HasPrefix(verb, "Remove") && !strings.HasPrefix(verb, "Detach") {
				continue
			}
			seen++
			b, err := json.Marshal(s.Condition)
			if err != nil {
				t.Fatal(err)
			}
			byTag := strings.Contains(string(b), clustersTag+`":["`+harbor.ARN) || strings.Contains(string(b), "aws:ResourceTag/kubernetes.io/cluster/harbor") ||
				strings.Contains(string(b), "aws:ResourceTag/k8s.io/cluster-autoscaler/harbor")
			byResource := !slices.ContainsFunc(s.Resource, func(r string) bool { return !strings.Contains(r, "/harbor/") && !strings.HasSuffix(r, ":harbor") })
			if !byTag && !byResource {
				t.Errorf("%s is not scoped to the cluster: %v, %s", a, s.Resource, b)
			}
		}
	}
	if seen < 14 {
		t.Errorf("%d removals are allowed; too few to prove anything", seen)
	}
}

func TestPartitions(t *testing.T) {
	c := harbor
	c.Partition, c.Region = "aws-cn", "cn-north-1"
	c.ARN = awsapi.ARN(c, "eks", "cluster/harbor")
	documents := maps.Clone(ControllerPolicies(c))
	documents["policy"], documents["boundary"], documents["trust"] = Policy(c), PermissionsBoundary(c), NodeTrust(c)
	for name, d := range documents {
		if strings.Contains(d, "arn:aws:") {
			t.Errorf("%s names partition aws: %s", name, d)
		}
	}
	if !strings.Contains(NodeTrust(c), "ec2.amazonaws.com.cn") || strings.Contains(NodeTrust(harbor), ".cn") {
		t.Error("EC2's service principal is not that of its partition")
	}
	if !strings.Contains(ControllerPolicies(c)["KarpenterIAMIntegration"], `"iam:PassedToService":["ec2.amazonaws.com.cn"]`) {
		t.Error("the node role is not handed to EC2 of its partition")
	}
}

func TestRoleNames(t *testing.T) {
	cases := map[string]struct{ cluster, node, controller string }{
		"short": {"prod", "KarpenterNodeRole-prod", "KarpenterControllerRole-prod"},
		"long":  {strings.Repeat("c", 100), "KarpenterNodeRole-" + strings.Repeat("c", 37) + "-", "KarpenterControllerRole-" + strings.Repeat("c", 31) + "-"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			for got, want := range map[string]string{NodeRoleName(tc.cluster): tc.node, ControllerRoleName(tc.cluster): tc.controller} {
				if !strings.HasPrefix(got, want) || len(got) > 64 {
					t.Errorf("%s has %d characters, want it to begin with %s", got, len(got), want)
				}
			}
		})
	}
}
