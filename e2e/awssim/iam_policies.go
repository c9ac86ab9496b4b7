package awssim

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/iam/types"
)

func (m *iamService) registerPolicies() {
	on(m.s, "iam.PutRolePolicy", m.putRolePolicy)
	on(m.s, "iam.GetRolePolicy", m.getRolePolicy)
	on(m.s, "iam.DeleteRolePolicy", m.deleteRolePolicy)
	on(m.s, "iam.ListRolePolicies", m.listRolePolicies)
	on(m.s, "iam.AttachRolePolicy", m.attachRolePolicy)
	on(m.s, "iam.DetachRolePolicy", m.detachRolePolicy)
	on(m.s, "iam.ListAttachedRolePolicies", m.listAttachedRolePolicies)
	on(m.s, "iam.CreatePolicy", m.createPolicy)
	on(m.s, "iam.GetPolicy", m.getPolicy)
	on(m.s, "iam.ListPolicies", m.listPolicies)
	on(m.s, "iam.DeletePolicy", m.deletePolicy)
	on(m.s, "iam.CreatePolicyVersion", m.createPolicyVersion)
	on(m.s, "iam.GetPolicyVersion", m.getPolicyVersion)
	on(m.s, "iam.ListPolicyVersions", m.listPolicyVersions)
	on(m.s, "iam.DeletePolicyVersion", m.deletePolicyVersion)
	on(m.s, "iam.ListEntitiesForPolicy", m.listEntitiesForPolicy)
	on(m.s, "iam.SimulatePrincipalPolicy", m.simulatePrincipalPolicy)
}

func (m *iamService) putRolePolicy(_ *call, in *iam.PutRolePolicyInput) (*iam.PutRolePolicyOutput, error) {
	if err := checkDocument(in.PolicyDocument, quotaInlinePolicy, "PolicySize"); err != nil {
		return nil, err
	}
	return &iam.PutRolePolicyOutput{}, m.changeRole(in.RoleName, func(r *role) {
		if r.Inline == nil {
			r.Inline = map[string]string{}
		}
		r.Inline[aws.ToString(in.PolicyName)] = aws.ToString(in.PolicyDocument)
	})
}

func (m *iamService) getRolePolicy(_ *call, in *iam.GetRolePolicyInput) (*iam.GetRolePolicyOutput, error) {
	r, err := m.role(in.RoleName)
	if err != nil {
		return nil, err
	}
	document, ok := r.Inline[aws.ToString(in.PolicyName)]
	if !ok {
		return nil, noSuchEntity("The role policy with name %s cannot be found.", aws.ToString(in.PolicyName))
	}
	return &iam.GetRolePolicyOutput{RoleName: in.RoleName, PolicyName: in.PolicyName, PolicyDocument: encodeDocument(&document)}, nil
}

func (m *iamService) deleteRolePolicy(c *call, in *iam.DeleteRolePolicyInput) (*iam.DeleteRolePolicyOutput, error) {
	if _, err := m.getRolePolicy(c, &iam.GetRolePolicyInput{RoleName: in.RoleName, PolicyName: in.PolicyName}); err != nil {
		return nil, err
	}
	return &iam.DeleteRolePolicyOutput{}, m.changeRole(in.RoleName, func(r *role) { delete(r.Inline, aws.ToString(in.PolicyName)) })
}

func (m *iamService) listRolePolicies(_ *call, in *iam.ListRolePoliciesInput) (*iam.ListRolePoliciesOutput, error) {
	rows, next, err := paged(m.s, in.Marker, pageSize(in.MaxItems, 100), func() ([]string, error) {
		r, err := m.role(in.RoleName)
		return slices.Sorted(maps.Keys(r.Inline)), err
	})
	return &iam.ListRolePoliciesOutput{PolicyNames: append([]string{}, rows...), Marker: next, IsTruncated: next != nil}, err
}

// awsManaged is the path and name of a policy of AWS; false when the ARN is not of one.
func (m *iamService) awsManaged(arn string) (string, bool) {
	name, ok := strings.CutPrefix(arn, "arn:"+m.s.partition()+":iam::aws:policy/")
	return name, ok && slices.Contains(awsManagedPolicies, name)
}

// policy finds a managed policy, of AWS or of the account. Those of AWS have a document that allows nothing.
func (m *iamService) policy(arn *string) (managedPolicy, error) {
	a := aws.ToString(arn)
	if p, ok := m.policies.get(a); ok {
		return p, nil
	}
	name, ok := m.awsManaged(a)
	if !ok {
		return managedPolicy{}, noSuchEntity("Policy %s does not exist or is not attachable.", a)
	}
	return managedPolicy{
		Policy: types.Policy{
			Arn: aws.String(a), PolicyName: aws.String(lastSegment(name)), PolicyId: aws.String("ANPA" + strings.ToUpper(stableHex(a, 16))),
			Path: aws.String("/" + strings.TrimSuffix(name, lastSegment(name))), DefaultVersionId: aws.String("v1"), IsAttachable: true,
		},
		Versions: []types.PolicyVersion{{VersionId: aws.String("v1"), IsDefaultVersion: true, Document: aws.String(`{"Version":"2012-10-17","Statement":[]}`)}},
	}, nil
}

func (m *iamService) attachRolePolicy(_ *call, in *iam.AttachRolePolicyInput) (*iam.AttachRolePolicyOutput, error) {
	if _, err := m.policy(in.PolicyArn); err != nil {
		return nil, err
	}
	return &iam.AttachRolePolicyOutput{}, m.changeRole(in.RoleName, func(r *role) {
		if !slices.Contains(r.Attached, *in.PolicyArn) {
			r.Attached = append(r.Attached, *in.PolicyArn)
		}
	})
}

func (m *iamService) detachRolePolicy(_ *call, in *iam.DetachRolePolicyInput) (*iam.DetachRolePolicyOutput, error) {
	r, err := m.role(in.RoleName)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(r.Attached, aws.ToString(in.PolicyArn)) {
		return nil, noSuchEntity("Policy %s was not found.", aws.ToString(in.PolicyArn))
	}
	return &iam.DetachRolePolicyOutput{}, m.changeRole(in.RoleName, func(r *role) {
		r.Attached = slices.DeleteFunc(r.Attached, func(a string) bool { return a == aws.ToString(in.PolicyArn) })
	})
}

func (m *iamService) listAttachedRolePolicies(_ *call, in *iam.ListAttachedRolePoliciesInput) (*iam.ListAttachedRolePoliciesOutput, error) {
	rows, next, err := paged(m.s, in.Marker, pageSize(in.MaxItems, 100), func() ([]types.AttachedPolicy, error) {
		r, err := m.role(in.RoleName)
		rows := []types.AttachedPolicy{}
		for _, a := range r.Attached {
			rows = append(rows, types.AttachedPolicy{PolicyArn: aws.String(a), PolicyName: aws.String(lastSegment(a))})
		}
		return rows, err
	})
	return &iam.ListAttachedRolePoliciesOutput{AttachedPolicies: rows, Marker: next, IsTruncated: next != nil}, err
}

func (m *iamService) createPolicy(_ *call, in *iam.CreatePolicyInput) (*iam.CreatePolicyOutput, error) {
	path := firstOf(aws.ToString(in.Path), "/")
	arn := m.s.globalARN("iam", "policy"+path+aws.ToString(in.PolicyName))
	if _, ok := m.policies.get(arn); ok {
		return nil, entityAlreadyExists("A policy called %s already exists. Duplicate names are not allowed.", aws.ToString(in.PolicyName))
	}
	if err := checkDocument(in.PolicyDocument, quotaManagedPolicy, "PolicySize"); err != nil {
		return nil, err
	}
	now := aws.Time(m.s.now().UTC())
	p := managedPolicy{
		Policy: types.Policy{
			Arn: aws.String(arn), PolicyName: in.PolicyName, PolicyId: aws.String("ANPA" + strings.ToUpper(stableHex(arn, 16))), Path: aws.String(path),
			DefaultVersionId: aws.String("v1"), IsAttachable: true, CreateDate: now, UpdateDate: now, Description: in.Description, Tags: in.Tags,
		},
		Versions: []types.PolicyVersion{{VersionId: aws.String("v1"), IsDefaultVersion: true, Document: in.PolicyDocument, CreateDate: now}},
	}
	m.policies.put(arn, p)
	return &iam.CreatePolicyOutput{Policy: &p.Policy}, nil
}

// attachedTo lists the roles that carry the policy.
func (m *iamService) attachedTo(arn string) []role {
	return m.roles.truth().where(func(r *role) bool { return slices.Contains(r.Attached, arn) })
}

func (m *iamService) getPolicy(_ *call, in *iam.GetPolicyInput) (*iam.GetPolicyOutput, error) {
	p, err := m.policy(in.PolicyArn)
	if err != nil {
		return nil, err
	}
	p.AttachmentCount = aws.Int32(int32(len(m.attachedTo(aws.ToString(in.PolicyArn)))))
	return &iam.GetPolicyOutput{Policy: &p.Policy}, nil
}

func (m *iamService) listPolicies(_ *call, in *iam.ListPoliciesInput) (*iam.ListPoliciesOutput, error) {
	rows, next, err := paged(m.s, in.Marker, pageSize(in.MaxItems, 100), func() ([]types.Policy, error) {
		var rows []types.Policy
		for _, p := range m.policies.list() {
			if strings.HasPrefix(aws.ToString(p.Path), aws.ToString(in.PathPrefix)) && in.Scope != types.PolicyScopeTypeAws {
				rows = append(rows, p.Policy)
			}
		}
		return rows, nil
	})
	return &iam.ListPoliciesOutput{Policies: rows, Marker: next, IsTruncated: next != nil}, err
}

func (m *iamService) deletePolicy(_ *call, in *iam.DeletePolicyInput) (*iam.DeletePolicyOutput, error) {
	p, err := m.policy(in.PolicyArn)
	if err != nil {
		return nil, err
	}
	if len(m.attachedTo(aws.ToString(in.PolicyArn))) > 0 {
		return nil, deleteConflict("Cannot delete a policy attached to entities.")
	}
	if len(p.Versions) > 1 {
		return nil, deleteConflict("This policy has more than one version. Before you delete a policy, you must delete the policy's versions.")
	}
	m.policies.delete(aws.ToString(in.PolicyArn))
	return &iam.DeletePolicyOutput{}, nil
}

func (m *iamService) createPolicyVersion(_ *call, in *iam.CreatePolicyVersionInput) (*iam.CreatePolicyVersionOutput, error) {
	p, err := m.policy(in.PolicyArn)
	if err != nil {
		return nil, err
	}
	if err := checkDocument(in.PolicyDocument, quotaManagedPolicy, "PolicySize"); err != nil {
		return nil, err
	}
	if len(p.Versions) >= quotaVersions {
		return nil, errorStatus(http.StatusConflict, "LimitExceeded", "A managed policy can have up to 5 versions. Before you create a new version, you must delete an existing version.")
	}
	last := 0
	_, _ = fmt.Sscanf(aws.ToString(p.Versions[len(p.Versions)-1].VersionId), "v%d", &last) // written here
	v := types.PolicyVersion{VersionId: aws.String(fmt.Sprintf("v%d", last+1)), Document: in.PolicyDocument, CreateDate: aws.Time(m.s.now().UTC()), IsDefaultVersion: in.SetAsDefault}
	if in.SetAsDefault {
		for i := range p.Versions {
			p.Versions[i].IsDefaultVersion = false
		}
		p.DefaultVersionId = v.VersionId
	}
	p.Versions = append(p.Versions, v)
	m.policies.put(aws.ToString(in.PolicyArn), p)
	return &iam.CreatePolicyVersionOutput{PolicyVersion: &v}, nil
}

func (m *iamService) policyVersion(arn, id *string) (managedPolicy, types.PolicyVersion, error) {
	p, err := m.policy(arn)
	if err != nil {
		return p, types.PolicyVersion{}, err
	}
	for _, v := range p.Versions {
		if aws.ToString(v.VersionId) == aws.ToString(id) {
			return p, v, nil
		}
	}
	return p, types.PolicyVersion{}, noSuchEntity("Policy %s version %s does not exist or is not attachable.", aws.ToString(arn), aws.ToString(id))
}

func (m *iamService) getPolicyVersion(_ *call, in *iam.GetPolicyVersionInput) (*iam.GetPolicyVersionOutput, error) {
	_, v, err := m.policyVersion(in.PolicyArn, in.VersionId)
	if err != nil {
		return nil, err
	}
	v.Document = encodeDocument(v.Document)
	return &iam.GetPolicyVersionOutput{PolicyVersion: &v}, nil
}

func (m *iamService) listPolicyVersions(_ *call, in *iam.ListPolicyVersionsInput) (*iam.ListPolicyVersionsOutput, error) {
	p, err := m.policy(in.PolicyArn)
	for i := range p.Versions {
		p.Versions[i].Document = nil
	}
	slices.Reverse(p.Versions)
	return &iam.ListPolicyVersionsOutput{Versions: p.Versions}, err
}

func (m *iamService) deletePolicyVersion(_ *call, in *iam.DeletePolicyVersionInput) (*iam.DeletePolicyVersionOutput, error) {
	p, v, err := m.policyVersion(in.PolicyArn, in.VersionId)
	if err != nil {
		return nil, err
	}
	if v.IsDefaultVersion {
		return nil, deleteConflict("Cannot delete the default version of a policy.")
	}
	p.Versions = slices.DeleteFunc(p.Versions, func(x types.PolicyVersion) bool { return aws.ToString(x.VersionId) == aws.ToString(in.VersionId) })
	m.policies.put(aws.ToString(in.PolicyArn), p)
	return &iam.DeletePolicyVersionOutput{}, nil
}

func (m *iamService) listEntitiesForPolicy(_ *call, in *iam.ListEntitiesForPolicyInput) (*iam.ListEntitiesForPolicyOutput, error) {
	if _, err := m.policy(in.PolicyArn); err != nil {
		return nil, err
	}
	out := &iam.ListEntitiesForPolicyOutput{PolicyRoles: []types.PolicyRole{}}
	for _, r := range m.attachedTo(aws.ToString(in.PolicyArn)) {
		out.PolicyRoles = append(out.PolicyRoles, types.PolicyRole{RoleName: r.RoleName, RoleId: r.RoleId})
	}
	return out, nil
}

// simulatePrincipalPolicy allows everything but what a fault would deny to the principal.
func (m *iamService) simulatePrincipalPolicy(_ *call, in *iam.SimulatePrincipalPolicyInput) (*iam.SimulatePrincipalPolicyOutput, error) {
	resource := "*"
	if len(in.ResourceArns) > 0 {
		resource = in.ResourceArns[0]
	}
	rows, next, err := paged(m.s, in.Marker, pageSize(in.MaxItems, 100), func() ([]types.EvaluationResult, error) {
		var rows []types.EvaluationResult
		for _, action := range in.ActionNames {
			decision := types.PolicyEvaluationDecisionTypeAllowed
			if m.s.faults.denies(asSession(aws.ToString(in.PolicySourceArn)), action) != nil {
				decision = types.PolicyEvaluationDecisionTypeImplicitDeny
			}
			rows = append(rows, types.EvaluationResult{EvalActionName: aws.String(action), EvalResourceName: aws.String(resource), EvalDecision: decision})
		}
		return rows, nil
	})
	return &iam.SimulatePrincipalPolicyOutput{EvaluationResults: rows, Marker: next, IsTruncated: next != nil}, err
}

// asSession writes a role's ARN as its sessions have it, because faults match those.
func asSession(arn string) string {
	if !strings.Contains(arn, ":role/") {
		return arn
	}
	head, _, _ := strings.Cut(arn, ":role/")
	return strings.Replace(head, ":iam:", ":sts:", 1) + ":assumed-role/" + lastSegment(arn) + "/"
}
