package awssim

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/google/go-cmp/cmp"

	"github.com/castoff-sh/castoff/e2e/awssim/simapi"
)

const (
	trust       = `{"Version": "2012-10-17", "Statement": []}`
	workerNode  = "arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicy"
	ebsCSI      = "arn:aws:iam::aws:policy/service-role/AmazonEBSCSIDriverPolicy"
	inlinePaper = `{"Statement": [{"Effect": "Allow", "Action": "sqs:*", "Resource": "*"}]}`
)

func newRole(t *testing.T, l *lab, name string) *types.Role {
	t.Helper()
	out, err := l.iam.CreateRole(ctx, &iam.CreateRoleInput{RoleName: &name, AssumeRolePolicyDocument: aws.String(trust), Tags: []types.Tag{{Key: aws.String("a"), Value: aws.String("1")}}})
	ok(t, err)
	return out.Role
}

func TestRoles(t *testing.T) {
	l := newLab(t, Options{})
	newRole(t, l, "node")
	_, err := l.iam.CreateRole(ctx, &iam.CreateRoleInput{RoleName: aws.String("node"), AssumeRolePolicyDocument: aws.String(trust)})
	wantCode(t, err, "EntityAlreadyExists", "a name in use")
	_, err = l.iam.CreateRole(ctx, &iam.CreateRoleInput{RoleName: aws.String("other"), AssumeRolePolicyDocument: aws.String("no JSON")})
	wantCode(t, err, "MalformedPolicyDocument", "a trust policy that is none")
	_, err = l.iam.GetRole(ctx, &iam.GetRoleInput{RoleName: aws.String("none")})
	wantCode(t, err, "NoSuchEntity", "a role that does not exist")

	role := &iam.GetRoleInput{RoleName: aws.String("node")}
	got, err := l.iam.GetRole(ctx, role)
	ok(t, err)
	if plain, err := url.QueryUnescape(*got.Role.AssumeRolePolicyDocument); err != nil || plain != trust || *got.Role.AssumeRolePolicyDocument == trust {
		t.Errorf("documents come URL-encoded: %s", *got.Role.AssumeRolePolicyDocument)
	}
	_, err = l.iam.UpdateAssumeRolePolicy(ctx, &iam.UpdateAssumeRolePolicyInput{RoleName: role.RoleName, PolicyDocument: aws.String(inlinePaper)})
	ok(t, err)
	_, err = l.iam.TagRole(ctx, &iam.TagRoleInput{RoleName: role.RoleName, Tags: []types.Tag{{Key: aws.String("a"), Value: aws.String("2")}, {Key: aws.String("b"), Value: aws.String("3")}}})
	ok(t, err)
	_, err = l.iam.UntagRole(ctx, &iam.UntagRoleInput{RoleName: role.RoleName, TagKeys: []string{"b", "none"}})
	ok(t, err)
	_, err = l.iam.PutRolePermissionsBoundary(ctx, &iam.PutRolePermissionsBoundaryInput{RoleName: role.RoleName, PermissionsBoundary: aws.String(workerNode)})
	ok(t, err)
	got, err = l.iam.GetRole(ctx, role)
	ok(t, err)
	tags, err := l.iam.ListRoleTags(ctx, &iam.ListRoleTagsInput{RoleName: role.RoleName})
	ok(t, err)
	if *got.Role.PermissionsBoundary.PermissionsBoundaryArn != workerNode || len(tags.Tags) != 1 || *tags.Tags[0].Value != "2" || !strings.Contains(*got.Role.AssumeRolePolicyDocument, "sqs") {
		t.Errorf("the changes must be kept: %+v, tags %v", got.Role, tags.Tags)
	}
	_, err = l.iam.DeleteRolePermissionsBoundary(ctx, &iam.DeleteRolePermissionsBoundaryInput{RoleName: role.RoleName})
	ok(t, err)
	_, err = l.iam.TagRole(ctx, &iam.TagRoleInput{RoleName: aws.String("none"), Tags: []types.Tag{{Key: aws.String("a"), Value: aws.String("2")}}})
	wantCode(t, err, "NoSuchEntity", "tagging a role that does not exist")
}

func TestListRolesPagesByPath(t *testing.T) {
	l := newLab(t, Options{})
	for i := range 5 {
		_, err := l.iam.CreateRole(ctx, &iam.CreateRoleInput{RoleName: aws.String(fmt.Sprint("r", i)), Path: aws.String([]string{"/a/", "/b/"}[i%2]), AssumeRolePolicyDocument: aws.String(trust)})
		ok(t, err)
	}
	var got []string
	pages := iam.NewListRolesPaginator(l.iam, &iam.ListRolesInput{PathPrefix: aws.String("/a/"), MaxItems: aws.Int32(2)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		ok(t, err)
		for _, r := range page.Roles {
			got = append(got, *r.Arn)
		}
	}
	want := []string{"arn:aws:iam::123456789012:role/a/r0", "arn:aws:iam::123456789012:role/a/r2", "arn:aws:iam::123456789012:role/a/r4"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDeleteRoleNeedsItEmpty(t *testing.T) {
	l := newLab(t, Options{})
	newRole(t, l, "node")
	name, profile := aws.String("node"), aws.String("profile")
	remove := func() error {
		_, err := l.iam.DeleteRole(ctx, &iam.DeleteRoleInput{RoleName: name})
		return err
	}
	_, err := l.iam.PutRolePolicy(ctx, &iam.PutRolePolicyInput{RoleName: name, PolicyName: aws.String("p"), PolicyDocument: aws.String(inlinePaper)})
	ok(t, err)
	wantCode(t, remove(), "DeleteConflict", "an inline policy is on it")
	_, err = l.iam.DeleteRolePolicy(ctx, &iam.DeleteRolePolicyInput{RoleName: name, PolicyName: aws.String("p")})
	ok(t, err)
	_, err = l.iam.AttachRolePolicy(ctx, &iam.AttachRolePolicyInput{RoleName: name, PolicyArn: aws.String(workerNode)})
	ok(t, err)
	wantCode(t, remove(), "DeleteConflict", "a managed policy is attached")
	_, err = l.iam.DetachRolePolicy(ctx, &iam.DetachRolePolicyInput{RoleName: name, PolicyArn: aws.String(workerNode)})
	ok(t, err)
	_, err = l.iam.CreateInstanceProfile(ctx, &iam.CreateInstanceProfileInput{InstanceProfileName: profile})
	ok(t, err)
	_, err = l.iam.AddRoleToInstanceProfile(ctx, &iam.AddRoleToInstanceProfileInput{InstanceProfileName: profile, RoleName: name})
	ok(t, err)
	wantCode(t, remove(), "DeleteConflict", "an instance profile carries it")
	_, err = l.iam.RemoveRoleFromInstanceProfile(ctx, &iam.RemoveRoleFromInstanceProfileInput{InstanceProfileName: profile, RoleName: name})
	ok(t, err)
	ok(t, remove())
	wantCode(t, remove(), "NoSuchEntity", "deleted before")
}

func TestRolePolicies(t *testing.T) {
	l := newLab(t, Options{})
	newRole(t, l, "node")
	name := aws.String("node")
	for _, p := range []string{"b", "a"} {
		_, err := l.iam.PutRolePolicy(ctx, &iam.PutRolePolicyInput{RoleName: name, PolicyName: aws.String(p), PolicyDocument: aws.String(inlinePaper)})
		ok(t, err)
	}
	inline, err := l.iam.ListRolePolicies(ctx, &iam.ListRolePoliciesInput{RoleName: name})
	ok(t, err)
	document, err := l.iam.GetRolePolicy(ctx, &iam.GetRolePolicyInput{RoleName: name, PolicyName: aws.String("a")})
	ok(t, err)
	if plain, _ := url.QueryUnescape(*document.PolicyDocument); plain != inlinePaper || cmp.Diff([]string{"a", "b"}, inline.PolicyNames) != "" {
		t.Errorf("inline policies %v, document %s", inline.PolicyNames, plain)
	}
	_, err = l.iam.GetRolePolicy(ctx, &iam.GetRolePolicyInput{RoleName: name, PolicyName: aws.String("none")})
	wantCode(t, err, "NoSuchEntity", "an inline policy that does not exist")
	_, err = l.iam.PutRolePolicy(ctx, &iam.PutRolePolicyInput{RoleName: name, PolicyName: aws.String("a"), PolicyDocument: aws.String("")})
	if err == nil {
		t.Error("an empty document must be refused")
	}
	for _, arn := range []string{workerNode, ebsCSI, workerNode} {
		_, err = l.iam.AttachRolePolicy(ctx, &iam.AttachRolePolicyInput{RoleName: name, PolicyArn: aws.String(arn)})
		ok(t, err)
	}
	attached, err := l.iam.ListAttachedRolePolicies(ctx, &iam.ListAttachedRolePoliciesInput{RoleName: name})
	ok(t, err)
	var got []string
	for _, p := range attached.AttachedPolicies {
		got = append(got, *p.PolicyName)
	}
	if diff := cmp.Diff([]string{"AmazonEKSWorkerNodePolicy", "AmazonEBSCSIDriverPolicy"}, got); diff != "" {
		t.Errorf("attaching twice attaches once (-want +got):\n%s", diff)
	}
	_, err = l.iam.AttachRolePolicy(ctx, &iam.AttachRolePolicyInput{RoleName: name, PolicyArn: aws.String("arn:aws:iam::aws:policy/AmazonEverything")})
	wantCode(t, err, "NoSuchEntity", "a policy that AWS does not have")
	_, err = l.iam.DetachRolePolicy(ctx, &iam.DetachRolePolicyInput{RoleName: name, PolicyArn: aws.String("arn:aws:iam::aws:policy/ReadOnlyAccess")})
	wantCode(t, err, "NoSuchEntity", "a policy that is not attached")
}

func TestManagedPolicies(t *testing.T) {
	l := newLab(t, Options{})
	newRole(t, l, "node")
	created, err := l.iam.CreatePolicy(ctx, &iam.CreatePolicyInput{PolicyName: aws.String("mine"), Path: aws.String("/castoff/"), PolicyDocument: aws.String(inlinePaper)})
	ok(t, err)
	arn := created.Policy.Arn
	if *arn != "arn:aws:iam::123456789012:policy/castoff/mine" {
		t.Errorf("ARN %s", *arn)
	}
	_, err = l.iam.CreatePolicy(ctx, &iam.CreatePolicyInput{PolicyName: aws.String("mine"), Path: aws.String("/castoff/"), PolicyDocument: aws.String(inlinePaper)})
	wantCode(t, err, "EntityAlreadyExists", "a name in use")
	long := `{"Statement":"` + strings.Repeat("x", 6144) + `"}`
	_, err = l.iam.CreatePolicy(ctx, &iam.CreatePolicyInput{PolicyName: aws.String("long"), PolicyDocument: &long})
	wantCode(t, err, "LimitExceeded", "a managed policy over 6,144 characters")
	airy := `{"Statement":"` + strings.Repeat("x", 6000) + `"` + strings.Repeat(" ", 6000) + `}`
	_, err = l.iam.CreatePolicy(ctx, &iam.CreatePolicyInput{PolicyName: aws.String("airy"), PolicyDocument: &airy})
	ok(t, err)

	_, err = l.iam.AttachRolePolicy(ctx, &iam.AttachRolePolicyInput{RoleName: aws.String("node"), PolicyArn: arn})
	ok(t, err)
	_, err = l.iam.DeletePolicy(ctx, &iam.DeletePolicyInput{PolicyArn: arn})
	wantCode(t, err, "DeleteConflict", "the policy is attached")
	entities, err := l.iam.ListEntitiesForPolicy(ctx, &iam.ListEntitiesForPolicyInput{PolicyArn: arn})
	ok(t, err)
	got, err := l.iam.GetPolicy(ctx, &iam.GetPolicyInput{PolicyArn: arn})
	ok(t, err)
	if len(entities.PolicyRoles) != 1 || *entities.PolicyRoles[0].RoleName != "node" || *got.Policy.AttachmentCount != 1 {
		t.Errorf("attached to %v, counted %d", entities.PolicyRoles, *got.Policy.AttachmentCount)
	}
	for range 4 {
		_, err = l.iam.CreatePolicyVersion(ctx, &iam.CreatePolicyVersionInput{PolicyArn: arn, PolicyDocument: aws.String(trust), SetAsDefault: true})
		ok(t, err)
	}
	_, err = l.iam.CreatePolicyVersion(ctx, &iam.CreatePolicyVersionInput{PolicyArn: arn, PolicyDocument: aws.String(trust)})
	wantCode(t, err, "LimitExceeded", "a sixth version")
	_, err = l.iam.DeletePolicyVersion(ctx, &iam.DeletePolicyVersionInput{PolicyArn: arn, VersionId: aws.String("v5")})
	wantCode(t, err, "DeleteConflict", "the default version")
	first, err := l.iam.GetPolicyVersion(ctx, &iam.GetPolicyVersionInput{PolicyArn: arn, VersionId: aws.String("v1")})
	ok(t, err)
	if plain, _ := url.QueryUnescape(*first.PolicyVersion.Document); plain != inlinePaper || first.PolicyVersion.IsDefaultVersion {
		t.Errorf("version 1 is %s, default %t", plain, first.PolicyVersion.IsDefaultVersion)
	}
	versions, err := l.iam.ListPolicyVersions(ctx, &iam.ListPolicyVersionsInput{PolicyArn: arn})
	ok(t, err)
	if len(versions.Versions) != 5 || *versions.Versions[0].VersionId != "v5" || !versions.Versions[0].IsDefaultVersion {
		t.Errorf("versions %+v", versions.Versions)
	}
	_, err = l.iam.DetachRolePolicy(ctx, &iam.DetachRolePolicyInput{RoleName: aws.String("node"), PolicyArn: arn})
	ok(t, err)
	_, err = l.iam.DeletePolicy(ctx, &iam.DeletePolicyInput{PolicyArn: arn})
	wantCode(t, err, "DeleteConflict", "old versions are left")
	for _, v := range []string{"v1", "v2", "v3", "v4"} {
		_, err = l.iam.DeletePolicyVersion(ctx, &iam.DeletePolicyVersionInput{PolicyArn: arn, VersionId: aws.String(v)})
		ok(t, err)
	}
	_, err = l.iam.DeletePolicy(ctx, &iam.DeletePolicyInput{PolicyArn: arn})
	ok(t, err)
	list, err := l.iam.ListPolicies(ctx, &iam.ListPoliciesInput{Scope: types.PolicyScopeTypeLocal})
	ok(t, err)
	if len(list.Policies) != 1 || *list.Policies[0].PolicyName != "airy" {
		t.Errorf("left are %v", list.Policies)
	}
	_, err = l.iam.GetPolicyVersion(ctx, &iam.GetPolicyVersionInput{PolicyArn: aws.String(ebsCSI), VersionId: aws.String("v1")})
	ok(t, err)
	_, err = l.iam.GetPolicyVersion(ctx, &iam.GetPolicyVersionInput{PolicyArn: aws.String(ebsCSI), VersionId: aws.String("v99")})
	wantCode(t, err, "NoSuchEntity", "a version that does not exist")
}

func TestInstanceProfiles(t *testing.T) {
	l := newLab(t, Options{})
	newRole(t, l, "node")
	newRole(t, l, "other")
	name := aws.String("profile")
	_, err := l.iam.CreateInstanceProfile(ctx, &iam.CreateInstanceProfileInput{InstanceProfileName: name, Path: aws.String("/karpenter/us-east-1/prod/uid/"), Tags: []types.Tag{{Key: aws.String("a"), Value: aws.String("1")}}})
	ok(t, err)
	_, err = l.iam.CreateInstanceProfile(ctx, &iam.CreateInstanceProfileInput{InstanceProfileName: name})
	wantCode(t, err, "EntityAlreadyExists", "a name in use")
	add := func(profile, role string) error {
		_, err := l.iam.AddRoleToInstanceProfile(ctx, &iam.AddRoleToInstanceProfileInput{InstanceProfileName: &profile, RoleName: &role})
		return err
	}
	noRole := add("profile", "none")
	wantCode(t, noRole, "NoSuchEntity", "a role that does not exist")
	if !strings.Contains(noRole.Error(), "role") { // Karpenter tells the two by this word
		t.Errorf("the message must say that the role is missing: %v", noRole)
	}
	wantCode(t, add("none", "node"), "NoSuchEntity", "a profile that does not exist")
	ok(t, add("profile", "node"))
	wantCode(t, add("profile", "other"), "LimitExceeded", "a profile carries one role")
	_, err = l.iam.DeleteInstanceProfile(ctx, &iam.DeleteInstanceProfileInput{InstanceProfileName: name})
	wantCode(t, err, "DeleteConflict", "a role is in it")
	_, err = l.iam.RemoveRoleFromInstanceProfile(ctx, &iam.RemoveRoleFromInstanceProfileInput{InstanceProfileName: name, RoleName: aws.String("other")})
	wantCode(t, err, "NoSuchEntity", "another role is in it")
	_, err = l.iam.TagInstanceProfile(ctx, &iam.TagInstanceProfileInput{InstanceProfileName: name, Tags: []types.Tag{{Key: aws.String("b"), Value: aws.String("2")}}})
	ok(t, err)
	_, err = l.iam.UntagInstanceProfile(ctx, &iam.UntagInstanceProfileInput{InstanceProfileName: name, TagKeys: []string{"a"}})
	ok(t, err)
	tags, err := l.iam.ListInstanceProfileTags(ctx, &iam.ListInstanceProfileTagsInput{InstanceProfileName: name})
	ok(t, err)
	got, err := l.iam.GetInstanceProfile(ctx, &iam.GetInstanceProfileInput{InstanceProfileName: name})
	ok(t, err)
	ofRole, err := l.iam.ListInstanceProfilesForRole(ctx, &iam.ListInstanceProfilesForRoleInput{RoleName: aws.String("node")})
	ok(t, err)
	if len(tags.Tags) != 1 || *tags.Tags[0].Key != "b" || *got.InstanceProfile.Roles[0].RoleName != "node" || len(ofRole.InstanceProfiles) != 1 {
		t.Errorf("tags %v, roles %v, profiles of the role %v", tags.Tags, got.InstanceProfile.Roles, ofRole.InstanceProfiles)
	}
	for prefix, want := range map[string]int{"/karpenter/us-east-1/prod/": 1, "/karpenter/us-east-1/dev/": 0, "/": 1} {
		list, err := l.iam.ListInstanceProfiles(ctx, &iam.ListInstanceProfilesInput{PathPrefix: &prefix})
		ok(t, err)
		if len(list.InstanceProfiles) != want {
			t.Errorf("%d profiles under %s, want %d", len(list.InstanceProfiles), prefix, want)
		}
	}
	_, err = l.iam.RemoveRoleFromInstanceProfile(ctx, &iam.RemoveRoleFromInstanceProfileInput{InstanceProfileName: name, RoleName: aws.String("node")})
	ok(t, err)
	_, err = l.iam.DeleteInstanceProfile(ctx, &iam.DeleteInstanceProfileInput{InstanceProfileName: name})
	ok(t, err)
	_, err = l.iam.GetInstanceProfile(ctx, &iam.GetInstanceProfileInput{InstanceProfileName: name})
	wantCode(t, err, "NoSuchEntity", "deleted before")
}

func TestServiceLinkedRoles(t *testing.T) {
	l := newLab(t, Options{})
	spot := &iam.CreateServiceLinkedRoleInput{AWSServiceName: aws.String("spot.amazonaws.com")}
	_, err := l.iam.CreateServiceLinkedRole(ctx, spot)
	ok(t, err)
	got, err := l.iam.GetRole(ctx, &iam.GetRoleInput{RoleName: aws.String("AWSServiceRoleForEC2Spot")})
	ok(t, err)
	if *got.Role.Arn != "arn:aws:iam::123456789012:role/aws-service-role/spot.amazonaws.com/AWSServiceRoleForEC2Spot" {
		t.Errorf("ARN %s", *got.Role.Arn)
	}
	_, err = l.iam.CreateServiceLinkedRole(ctx, spot)
	wantCode(t, err, "InvalidInput", "it is there already")
	_, err = l.iam.CreateServiceLinkedRole(ctx, &iam.CreateServiceLinkedRoleInput{AWSServiceName: aws.String("moon.amazonaws.com")})
	wantCode(t, err, "InvalidInput", "a service that does not exist")
}

func TestSimulatePrincipalPolicy(t *testing.T) {
	l := newLab(t, Options{})
	ok(t, addFault(l, simapi.Fault{Service: "ec2", Operation: "Create*", Identity: "assumed-role/castoff/", Code: "UnauthorizedOperation"}))
	ok(t, addFault(l, simapi.Fault{Service: "sqs", Code: "AccessDenied", Times: 1}))
	ok(t, addFault(l, simapi.Fault{Service: "iam", Code: "Throttling", Operation: "PassRole"}))
	actions := []string{"ec2:CreateFleet", "ec2:RunInstances", "sqs:CreateQueue", "iam:PassRole"}
	cases := map[string]struct {
		reason, source string
		want           []string
	}{
		"Role":  {"a role is what its sessions are", "arn:aws:iam::123456789012:role/path/castoff", []string{"implicitDeny", "allowed", "implicitDeny", "allowed"}},
		"Other": {"a fault of another identity denies nothing; simulating does not use faults up", "arn:aws:iam::123456789012:role/other", []string{"allowed", "allowed", "implicitDeny", "allowed"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			out, err := l.iam.SimulatePrincipalPolicy(ctx, &iam.SimulatePrincipalPolicyInput{PolicySourceArn: &tc.source, ActionNames: actions})
			ok(t, err)
			var got []string
			for _, r := range out.EvaluationResults {
				got = append(got, string(r.EvalDecision))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestOpenIDConnectProviders(t *testing.T) {
	l := newLab(t, Options{})
	in := &iam.CreateOpenIDConnectProviderInput{Url: aws.String("https://oidc.eks.us-east-1.amazonaws.com/id/ABC"), ClientIDList: []string{"sts.amazonaws.com"}}
	created, err := l.iam.CreateOpenIDConnectProvider(ctx, in)
	ok(t, err)
	_, err = l.iam.CreateOpenIDConnectProvider(ctx, in)
	wantCode(t, err, "EntityAlreadyExists", "it is there already")
	got, err := l.iam.GetOpenIDConnectProvider(ctx, &iam.GetOpenIDConnectProviderInput{OpenIDConnectProviderArn: created.OpenIDConnectProviderArn})
	ok(t, err)
	list, err := l.iam.ListOpenIDConnectProviders(ctx, &iam.ListOpenIDConnectProvidersInput{})
	ok(t, err)
	if *got.Url != "oidc.eks.us-east-1.amazonaws.com/id/ABC" || len(list.OpenIDConnectProviderList) != 1 {
		t.Errorf("provider %s of %d", *got.Url, len(list.OpenIDConnectProviderList))
	}
	_, err = l.iam.DeleteOpenIDConnectProvider(ctx, &iam.DeleteOpenIDConnectProviderInput{OpenIDConnectProviderArn: created.OpenIDConnectProviderArn})
	ok(t, err)
	_, err = l.iam.GetOpenIDConnectProvider(ctx, &iam.GetOpenIDConnectProviderInput{OpenIDConnectProviderArn: created.OpenIDConnectProviderArn})
	wantCode(t, err, "NoSuchEntity", "deleted before")
}
