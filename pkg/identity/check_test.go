package identity

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"

	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/inventory/awsapi"
)

func TestVerdictOfAProbe(t *testing.T) {
	coded := func(code string) error { return &smithy.GenericAPIError{Code: code, Message: "words"} }
	cases := map[string]struct {
		reason string
		err    error
		want   inventory.PermissionState
	}{
		"answered":           {"the call went through", nil, inventory.PermissionAllowed},
		"dry run":            {"EC2 would have done it", coded("DryRunOperation"), inventory.PermissionAllowed},
		"no such role":       {"IAM looks at the permission first", coded("NoSuchEntity"), inventory.PermissionAllowed},
		"no such node group": {"EKS looks at the permission first", coded("ResourceNotFoundException"), inventory.PermissionAllowed},
		"denied":             {"IAM's code", coded("AccessDenied"), inventory.PermissionDenied},
		"unauthorised":       {"EC2's code", coded("UnauthorizedOperation"), inventory.PermissionDenied},
		"throttled":          {"nothing is known", coded("Throttling"), inventory.PermissionNotChecked},
		"no answer":          {"nothing is known", errors.New("connection refused"), inventory.PermissionNotChecked},
		"cancelled":          {"nothing is known", context.Canceled, inventory.PermissionNotChecked},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := verdict("a:B", tc.err)
			if got.State != tc.want || got.Action != "a:B" || (got.Message == "") != (tc.want == inventory.PermissionAllowed) {
				t.Errorf("%s: got %+v, want %s", tc.reason, got, tc.want)
			}
		})
	}
}

func TestVerdictOfASimulation(t *testing.T) {
	cases := map[string]struct {
		reason string
		in     iamtypes.EvaluationResult
		state  inventory.PermissionState
		says   string
	}{
		"allowed":  {"", iamtypes.EvaluationResult{EvalDecision: "allowed"}, inventory.PermissionAllowed, ""},
		"implicit": {"no policy allows it", iamtypes.EvaluationResult{EvalDecision: "implicitDeny"}, inventory.PermissionDenied, "implicitDeny"},
		"organisation": {"whoever is on call must look elsewhere", iamtypes.EvaluationResult{EvalDecision: "implicitDeny", OrganizationsDecisionDetail: &iamtypes.OrganizationsDecisionDetail{}},
			inventory.PermissionDenied, "service control policy"},
		"boundary": {"so here", iamtypes.EvaluationResult{EvalDecision: "implicitDeny", PermissionsBoundaryDecisionDetail: &iamtypes.PermissionsBoundaryDecisionDetail{}},
			inventory.PermissionDenied, "permissions boundary"},
		"nothing": {"an answer without a decision allows nothing", iamtypes.EvaluationResult{}, inventory.PermissionDenied, "do not allow"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.in.EvalActionName = aws.String("a:B")
			if got := simulated(tc.in, []string{"arn:x"}); got.State != tc.state || !strings.Contains(got.Message, tc.says) {
				t.Errorf("%s: got %+v, want %s and %q", tc.reason, got, tc.state, tc.says)
			}
		})
	}
}

// A simulated request satisfies the statement's own conditions, on single objects.
func TestSimulatedRequest(t *testing.T) {
	s := awsapi.Statement{
		Resource:  awsapi.Strings{"arn:aws:eks:r:1:nodegroup/c/*/*"},
		Condition: awsapi.Conditions{"Null": {"aws:ResourceTag/x": {"false"}}, "ArnEquals": {"iam:PolicyARN": {"arn:p", "arn:q"}}},
	}
	if diff := cmp.Diff([]string{"arn:aws:eks:r:1:nodegroup/c/castoff-check/castoff-check"}, concrete(s.Resource)); diff != "" {
		t.Errorf("resources: -want +got\n%s", diff)
	}
	if concrete([]string{"*"}) != nil {
		t.Error("everything is a resource of its own")
	}
	var got []string
	for _, e := range contextOf(s.Condition) {
		got = append(got, *e.ContextKeyName+"="+strings.Join(e.ContextKeyValues, ","))
	}
	if diff := cmp.Diff([]string{"aws:ResourceTag/x=castoff-check", "iam:PolicyARN=arn:p"}, got); diff != "" {
		t.Errorf("context: -want +got\n%s", diff)
	}
}

func TestPrincipalOf(t *testing.T) {
	cases := map[string]struct {
		caller, principal, role string
		fails                   bool
	}{
		"session":          {"arn:aws:sts::1:assumed-role/operator/eks-x", "arn:aws:iam::1:role/operator", "operator", false},
		"session in China": {"arn:aws-cn:sts::1:assumed-role/operator/x", "arn:aws-cn:iam::1:role/operator", "operator", false},
		"user":             {"arn:aws:iam::1:user/a/b", "arn:aws:iam::1:user/a/b", "", false},
		"root":             {"arn:aws:iam::1:root", "arn:aws:iam::1:root", "", false},
		"nothing":          {"", "", "", true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			principal, role, err := principalOf(tc.caller)
			if principal != tc.principal || role != tc.role || (err != nil) != tc.fails {
				t.Errorf("got %q, %q, %v; want %q, %q, error %v", principal, role, err, tc.principal, tc.role, tc.fails)
			}
		})
	}
}
