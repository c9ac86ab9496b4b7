package policy

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/castoff-sh/castoff/e2e/awssim/simapi"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

const teamBoundary = "arn:aws:iam::123456789012:policy/platform-boundary"

// as is a call that castoff's role makes.
func as(t *testing.T, service, operation string, input map[string]any) simapi.Call {
	t.Helper()
	b, err := json.Marshal(input)
	if err != nil {
		t.Fatal(err)
	}
	return simapi.Call{Service: service, Operation: operation, Identity: "arn:aws:sts::123456789012:assumed-role/castoff/eks-x", Input: b, Status: 200, Write: true}
}

var ourTags = []map[string]string{{"Key": "castoff.sh/managed-by", "Value": "castoff"}}

const controller = "KarpenterControllerRole-harbor"

// A castoff that was taken over can give no role more than the security team's boundary allows.
func TestRolesAreBounded(t *testing.T) {
	create := func(boundary string) simapi.Call {
		return as(t, "iam", "CreateRole", map[string]any{"RoleName": controller, "Tags": ourTags, "PermissionsBoundary": boundary})
	}
	put := as(t, "iam", "PutRolePolicy", map[string]any{"RoleName": controller, "PolicyName": "all"})
	cases := map[string]struct {
		reason   string
		boundary string // that castoff is told to give to roles
		calls    []simapi.Call
		refused  []string // part of each message
	}{
		"none asked":     {"without a boundary its policy does not speak of any", "", []simapi.Call{create(""), put}, nil},
		"given":          {"a role with the boundary may be made, and be given rights", teamBoundary, []simapi.Call{create(teamBoundary), put}, nil},
		"left out":       {"a role without it may not be made, nor one that is there be given rights", teamBoundary, []simapi.Call{create(""), put}, []string{"may not iam:CreateRole", "may not iam:PutRolePolicy"}},
		"another":        {"nor one with another", teamBoundary, []simapi.Call{create("arn:aws:iam::aws:policy/AdministratorAccess")}, []string{"may not iam:CreateRole"}},
		"attaching":      {"nor may the node role get a policy without it", teamBoundary, []simapi.Call{as(t, "iam", "AttachRolePolicy", map[string]any{"RoleName": "KarpenterNodeRole-harbor", "PolicyArn": "arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy"})}, []string{"may not iam:AttachRolePolicy"}},
		"tagging":        {"the tags that it is made with need no boundary", teamBoundary, []simapi.Call{create(teamBoundary)}, nil},
		"another policy": {"nor any policy but those of nodes", teamBoundary, []simapi.Call{as(t, "iam", "AttachRolePolicy", map[string]any{"RoleName": "KarpenterNodeRole-harbor", "PolicyArn": "arn:aws:iam::aws:policy/AdministratorAccess"})}, []string{"may not iam:AttachRolePolicy"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := harbor
			c.RolesBoundary = tc.boundary
			expectRefused(t, tc.reason, c, roles(t, c)[0], tc.calls, tc.refused)
		})
	}
}

// With castoff's own boundary its role stays what it is, whatever policy somebody gives it.
func TestBoundaryHoldsAnAdministrator(t *testing.T) {
	everything, err := Parse("everything", whole(`{"Effect":"Allow","Action":"*","Resource":"*"}`))
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		reason  string
		call    simapi.Call
		refused []string
	}{
		"another role":    {"no role but the two is changed", as(t, "iam", "PutRolePolicy", map[string]any{"RoleName": "castoff"}), []string{"boundary/TwoRoles denies it"}},
		"any policy":      {"nodes get no other policies", as(t, "iam", "AttachRolePolicy", map[string]any{"RoleName": "KarpenterNodeRole-harbor", "PolicyArn": "arn:aws:iam::aws:policy/AdministratorAccess"}), []string{"boundary/NodePolicies denies it"}},
		"without its own": {"roles get the team's boundary", as(t, "iam", "CreateRole", map[string]any{"RoleName": controller, "Tags": ourTags}), []string{"boundary/BoundedRoles denies it"}},
		"instances":       {"castoff ends instances by their group alone", as(t, "ec2", "TerminateInstances", map[string]any{"InstanceIds": []string{"i-1"}}), []string{"no statement names the action"}},
	}
	c := harbor
	c.RolesBoundary = teamBoundary
	role := roles(t, c)[0]
	role.Policies = []Document{everything}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			expectRefused(t, tc.reason, c, role, []simapi.Call{tc.call}, tc.refused)
		})
	}
	t.Run("another region", func(t *testing.T) {
		away := c
		away.Region = "eu-west-1"
		describe := as(t, "autoscaling", "DescribeAutoScalingGroups", map[string]any{})
		expectRefused(t, "the boundary is of one region", away, role, []simapi.Call{describe}, []string{"boundary/ThisRegion denies it"})
	})
}

func expectRefused(t *testing.T, reason string, c inventory.Cluster, role Role, calls []simapi.Call, want []string) {
	t.Helper()
	v, err := Judge(c, role, calls)
	if err != nil {
		t.Fatal(err)
	}
	if len(v.Refused) != len(want) || v.Calls != len(calls) {
		t.Fatalf("%s: of %d calls refused are %q, want %q", reason, v.Calls, v.Refused, want)
	}
	for _, part := range want {
		if !slices.ContainsFunc(v.Refused, func(r string) bool { return strings.Contains(r, part) }) {
			t.Errorf("%s: refused are %q, want one that says %q", reason, v.Refused, part)
		}
	}
}

// Whatever the policies allow the reader can judge when it is called, so that a call that the lab sees for the first time is no surprise.
func TestEveryActionIsKnown(t *testing.T) {
	besides := []string{"eks:TagResource", "iam:PassRole", "iam:TagRole"} // AWS asks for these beside a call; castoff does not call them
	names := map[string]string{"cloudwatch": "monitoring"}
	for _, role := range roles(t, harbor) {
		for _, action := range Actions(role.Policies) {
			service, operation, _ := strings.Cut(action, ":")
			if slices.Contains(besides, action) {
				continue
			}
			if name, ok := names[service]; ok {
				service = name
			}
			call := as(t, service, operation, map[string]any{"Name": "/aws/service/x", "InstanceIds": []string{"i-1"}, "Resources": []string{"i-1"}, "ResourceARN": "arn:x"})
			if _, err := NewReader(harbor).Requests(call); err != nil {
				t.Error(err)
			}
		}
	}
}

// A call that nobody has taught the reader is no silent yes.
func TestUnknownCallIsAnError(t *testing.T) {
	for _, call := range []simapi.Call{
		as(t, "ec2", "RebootInstances", map[string]any{}), as(t, "eks", "CreateCluster", map[string]any{}), as(t, "iam", "CreateUser", map[string]any{}),
		as(t, "sqs", "PurgeQueue", map[string]any{}), as(t, "events", "PutEvents", map[string]any{}), as(t, "s3", "GetObject", map[string]any{}),
	} {
		if _, err := Judge(harbor, roles(t, harbor)[0], []simapi.Call{call}); err == nil || !strings.Contains(err.Error(), call.Service+":"+call.Operation+": the reader does not know") {
			t.Errorf("%s.%s: got %v", call.Service, call.Operation, err)
		}
	}
	broken := as(t, "eks", "DescribeCluster", nil)
	broken.Input = json.RawMessage(`{"Name":1}`)
	if _, err := Judge(harbor, roles(t, harbor)[0], []simapi.Call{broken}); err == nil || !strings.Contains(err.Error(), "reading the input of eks:DescribeCluster") {
		t.Errorf("got %v", err)
	}
	if _, err := ReadLog(strings.NewReader("{}\nx\n")); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("got %v", err)
	}
}
