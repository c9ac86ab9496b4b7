package awssim

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/iam/types"
)

// iamService simulates AWS IAM as far as roles, policies and instance profiles go. Policies are kept, not enforced:
// what an identity may not do is said by faults.
type iamService struct {
	s         *Server
	roles     *table[role]
	policies  *table[managedPolicy]         // by ARN, customer managed
	profiles  *table[types.InstanceProfile] // by name
	providers *table[oidcProvider]          // by ARN
}

// role is a role and the policies on it.
type role struct {
	types.Role
	Inline   map[string]string // policy documents by name
	Attached []string          // ARNs of managed policies, in the order of attaching
}

type managedPolicy struct {
	types.Policy
	Versions []types.PolicyVersion // the newest last
}

type oidcProvider struct {
	ARN, URL    string
	Clients     []string
	Thumbprints []string
	Tags        []types.Tag
}

// awsManagedPolicies are those of AWS that a cluster's roles carry, without "arn:aws:iam::aws:policy/".
var awsManagedPolicies = []string{
	"AdministratorAccess", "AmazonEC2ContainerRegistryPullOnly", "AmazonEC2ContainerRegistryReadOnly", "AmazonEC2ReadOnlyAccess",
	"AmazonEKSClusterPolicy", "AmazonEKSServicePolicy", "AmazonEKSVPCResourceController", "AmazonEKSWorkerNodeMinimalPolicy", "AmazonEKSWorkerNodePolicy",
	"AmazonEKS_CNI_Policy", "AmazonSSMManagedInstanceCore", "AutoScalingFullAccess", "CloudWatchAgentServerPolicy", "ReadOnlyAccess",
	"service-role/AmazonEBSCSIDriverPolicy", "service-role/AmazonEFSCSIDriverPolicy",
}

func newIAM(s *Server) *iamService {
	m := &iamService{s: s, roles: newTable[role](s), policies: newTable[managedPolicy](s), profiles: newTable[types.InstanceProfile](s), providers: newTable[oidcProvider](s)}
	m.registerRoles()
	m.registerPolicies()
	m.registerProfiles()
	m.registerProviders()
	return m
}

func (m *iamService) registerRoles() {
	on(m.s, "iam.CreateRole", m.createRole)
	on(m.s, "iam.CreateServiceLinkedRole", m.createServiceLinkedRole)
	on(m.s, "iam.GetRole", m.getRole)
	on(m.s, "iam.ListRoles", m.listRoles)
	on(m.s, "iam.DeleteRole", m.deleteRole)
	on(m.s, "iam.UpdateAssumeRolePolicy", m.updateAssumeRolePolicy)
	on(m.s, "iam.TagRole", m.tagRole)
	on(m.s, "iam.UntagRole", m.untagRole)
	on(m.s, "iam.ListRoleTags", m.listRoleTags)
	on(m.s, "iam.PutRolePermissionsBoundary", m.putRolePermissionsBoundary)
	on(m.s, "iam.DeleteRolePermissionsBoundary", m.deleteRolePermissionsBoundary)
}

func noSuchEntity(format string, args ...any) error {
	return errorStatus(http.StatusNotFound, "NoSuchEntity", format, args...)
}

func entityAlreadyExists(format string, args ...any) error {
	return errorStatus(http.StatusConflict, "EntityAlreadyExists", format, args...)
}

func deleteConflict(format string, args ...any) error {
	return errorStatus(http.StatusConflict, "DeleteConflict", format, args...)
}

// checkDocument refuses a policy that is no JSON object, and one over the quota. IAM does not count white space.
func checkDocument(document *string, quota int, name string) error {
	var x map[string]any
	if json.Unmarshal([]byte(aws.ToString(document)), &x) != nil {
		return errorf("MalformedPolicyDocument", "Syntax errors in policy.")
	}
	if len(strings.Join(strings.Fields(aws.ToString(document)), "")) > quota {
		return errorStatus(http.StatusConflict, "LimitExceeded", "Cannot exceed quota for %s: %d", name, quota)
	}
	return nil
}

// Quotas of policy documents, https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html.
const (
	quotaTrustPolicy   = 2048
	quotaInlinePolicy  = 10240
	quotaManagedPolicy = 6144
	quotaVersions      = 5
)

func (m *iamService) role(name *string) (role, error) {
	r, ok := m.roles.get(aws.ToString(name))
	if !ok {
		return role{}, noSuchEntity("The role with name %s cannot be found.", aws.ToString(name))
	}
	return r, nil
}

// shown is the role as IAM answers it: documents are URL-encoded.
func (r role) shown() *types.Role {
	r.AssumeRolePolicyDocument = encodeDocument(r.AssumeRolePolicyDocument)
	return &r.Role
}

func encodeDocument(d *string) *string {
	if d == nil {
		return nil
	}
	return aws.String(strings.ReplaceAll(url.QueryEscape(*d), "+", "%20"))
}

func (m *iamService) createRole(_ *call, in *iam.CreateRoleInput) (*iam.CreateRoleOutput, error) {
	name := aws.ToString(in.RoleName)
	if _, ok := m.roles.get(name); ok {
		return nil, entityAlreadyExists("Role with name %s already exists.", name)
	}
	if err := checkDocument(in.AssumeRolePolicyDocument, quotaTrustPolicy, "ACLSizePerRole"); err != nil {
		return nil, err
	}
	path := firstOf(aws.ToString(in.Path), "/")
	r := role{Inline: map[string]string{}, Role: types.Role{
		RoleName: in.RoleName, RoleId: aws.String("AROA" + strings.ToUpper(stableHex(name, 16))), Path: aws.String(path),
		Arn: aws.String(m.s.globalARN("iam", "role"+path+name)), CreateDate: aws.Time(m.s.now().UTC()), Description: in.Description,
		AssumeRolePolicyDocument: in.AssumeRolePolicyDocument, Tags: in.Tags, MaxSessionDuration: in.MaxSessionDuration, PermissionsBoundary: boundary(in.PermissionsBoundary),
	}}
	m.roles.put(name, r)
	return &iam.CreateRoleOutput{Role: r.shown()}, nil
}

func boundary(policyARN *string) *types.AttachedPermissionsBoundary {
	if policyARN == nil {
		return nil
	}
	return &types.AttachedPermissionsBoundary{PermissionsBoundaryArn: policyARN, PermissionsBoundaryType: types.PermissionsBoundaryAttachmentTypePolicy}
}

// serviceLinkedRoles names the roles that services make for themselves.
var serviceLinkedRoles = map[string]string{
	"spot.amazonaws.com": "AWSServiceRoleForEC2Spot", "autoscaling.amazonaws.com": "AWSServiceRoleForAutoScaling",
	"eks.amazonaws.com": "AWSServiceRoleForAmazonEKS", "eks-nodegroup.amazonaws.com": "AWSServiceRoleForAmazonEKSNodegroup",
}

func (m *iamService) createServiceLinkedRole(_ *call, in *iam.CreateServiceLinkedRoleInput) (*iam.CreateServiceLinkedRoleOutput, error) {
	service := aws.ToString(in.AWSServiceName)
	name, ok := serviceLinkedRoles[service]
	if !ok {
		return nil, errorf("InvalidInput", "Unknown service name %s", service)
	}
	if _, ok := m.roles.get(name); ok { // what AWS answers, and not EntityAlreadyExists
		return nil, errorf("InvalidInput", "Service role name %s has been taken in this account, please try a different suffix.", name)
	}
	path := "/aws-service-role/" + service + "/"
	r := role{Inline: map[string]string{}, Role: types.Role{
		RoleName: aws.String(name), RoleId: aws.String("AROA" + strings.ToUpper(stableHex(name, 16))), Path: aws.String(path),
		Arn: aws.String(m.s.globalARN("iam", "role"+path+name)), CreateDate: aws.Time(m.s.now().UTC()), Description: in.Description,
	}}
	m.roles.put(name, r)
	return &iam.CreateServiceLinkedRoleOutput{Role: r.shown()}, nil
}

// haveSpotRole is what EC2 does at an account's first spot request: it makes the role for it.
func (m *iamService) haveSpotRole() {
	const service = "spot.amazonaws.com"
	if _, ok := m.roles.get(serviceLinkedRoles[service]); !ok {
		_, _ = m.createServiceLinkedRole(nil, &iam.CreateServiceLinkedRoleInput{AWSServiceName: aws.String(service)}) // known and not there: cannot fail
	}
}

func (m *iamService) getRole(_ *call, in *iam.GetRoleInput) (*iam.GetRoleOutput, error) {
	r, err := m.role(in.RoleName)
	if err != nil {
		return nil, err
	}
	return &iam.GetRoleOutput{Role: r.shown()}, nil
}

func (m *iamService) listRoles(_ *call, in *iam.ListRolesInput) (*iam.ListRolesOutput, error) {
	rows, next, err := paged(m.s, in.Marker, pageSize(in.MaxItems, 100), func() ([]types.Role, error) {
		var rows []types.Role
		for _, r := range m.roles.list() {
			if strings.HasPrefix(aws.ToString(r.Path), aws.ToString(in.PathPrefix)) {
				rows = append(rows, *r.shown())
			}
		}
		return rows, nil
	})
	return &iam.ListRolesOutput{Roles: rows, Marker: next, IsTruncated: next != nil}, err
}

func (m *iamService) deleteRole(_ *call, in *iam.DeleteRoleInput) (*iam.DeleteRoleOutput, error) {
	r, err := m.role(in.RoleName)
	if err != nil {
		return nil, err
	}
	if len(r.Inline) > 0 {
		return nil, deleteConflict("Cannot delete entity, must delete policies first.")
	}
	if len(r.Attached) > 0 {
		return nil, deleteConflict("Cannot delete entity, must detach all policies first.")
	}
	if len(m.profilesOf(aws.ToString(in.RoleName))) > 0 {
		return nil, deleteConflict("Cannot delete entity, must remove roles from instance profile first.")
	}
	m.roles.delete(aws.ToString(in.RoleName))
	return &iam.DeleteRoleOutput{}, nil
}

func (m *iamService) updateAssumeRolePolicy(_ *call, in *iam.UpdateAssumeRolePolicyInput) (*iam.UpdateAssumeRolePolicyOutput, error) {
	if err := checkDocument(in.PolicyDocument, quotaTrustPolicy, "ACLSizePerRole"); err != nil {
		return nil, err
	}
	return &iam.UpdateAssumeRolePolicyOutput{}, m.changeRole(in.RoleName, func(r *role) { r.AssumeRolePolicyDocument = in.PolicyDocument })
}

func (m *iamService) changeRole(name *string, change func(*role)) error {
	if !m.roles.update(aws.ToString(name), change) {
		_, err := m.role(name)
		return err
	}
	return nil
}

func (m *iamService) tagRole(_ *call, in *iam.TagRoleInput) (*iam.TagRoleOutput, error) {
	return &iam.TagRoleOutput{}, m.changeRole(in.RoleName, func(r *role) { r.Tags = mergeIAMTags(r.Tags, in.Tags) })
}

func (m *iamService) untagRole(_ *call, in *iam.UntagRoleInput) (*iam.UntagRoleOutput, error) {
	return &iam.UntagRoleOutput{}, m.changeRole(in.RoleName, func(r *role) { r.Tags = dropIAMTags(r.Tags, in.TagKeys) })
}

func (m *iamService) listRoleTags(_ *call, in *iam.ListRoleTagsInput) (*iam.ListRoleTagsOutput, error) {
	r, err := m.role(in.RoleName)
	return &iam.ListRoleTagsOutput{Tags: append([]types.Tag{}, r.Tags...)}, err
}

func (m *iamService) putRolePermissionsBoundary(_ *call, in *iam.PutRolePermissionsBoundaryInput) (*iam.PutRolePermissionsBoundaryOutput, error) {
	return &iam.PutRolePermissionsBoundaryOutput{}, m.changeRole(in.RoleName, func(r *role) { r.PermissionsBoundary = boundary(in.PermissionsBoundary) })
}

func (m *iamService) deleteRolePermissionsBoundary(_ *call, in *iam.DeleteRolePermissionsBoundaryInput) (*iam.DeleteRolePermissionsBoundaryOutput, error) {
	return &iam.DeleteRolePermissionsBoundaryOutput{}, m.changeRole(in.RoleName, func(r *role) { r.PermissionsBoundary = nil })
}

func mergeIAMTags(under, over []types.Tag) []types.Tag {
	for _, t := range over {
		under = append(dropIAMTags(under, []string{aws.ToString(t.Key)}), t)
	}
	return under
}

func dropIAMTags(tags []types.Tag, keys []string) []types.Tag {
	return slices.DeleteFunc(tags, func(t types.Tag) bool { return slices.Contains(keys, aws.ToString(t.Key)) })
}
