package identity

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/arn"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/inventory/awsapi"
)

// placeholder stands in a probe or a simulation for a name that does not matter.
const placeholder = "castoff-check"

// Check tells of every action in Policy whether castoff may: reads by calling them, EC2's as dry runs, all else by
// simulating castoff's policies. What neither can tell is NotChecked, with why. It changes nothing.
func (c *Client) Check(ctx context.Context, cluster inventory.Cluster) ([]inventory.Permission, error) {
	caller, err := c.CallerARN(ctx)
	if err != nil {
		return nil, err
	}
	found := map[string]inventory.Permission{}
	for _, s := range statements(cluster, nil) {
		for _, p := range c.checkStatement(ctx, cluster, caller, s) {
			if have, ok := found[p.Action]; !ok || rank(p.State) > rank(have.State) {
				found[p.Action] = p // of two statements with one action, either will do
			}
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("checking castoff's permissions: %w", err)
	}
	out := make([]inventory.Permission, 0, len(found))
	for _, p := range found {
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b inventory.Permission) int { return strings.Compare(a.Action, b.Action) })
	return out, nil
}

// rank orders what two statements say of one action.
func rank(s inventory.PermissionState) int {
	return slices.Index([]inventory.PermissionState{inventory.PermissionNotChecked, inventory.PermissionDenied, inventory.PermissionAllowed}, s)
}

func (c *Client) checkStatement(ctx context.Context, cluster inventory.Cluster, caller string, s awsapi.Statement) []inventory.Permission {
	var out []inventory.Permission
	probes := c.probes(cluster)
	simulated := s
	simulated.Action = nil
	for _, action := range s.Action {
		if probe, ok := probes[action]; ok {
			out = append(out, verdict(action, probe(ctx)))
		} else {
			simulated.Action = append(simulated.Action, action)
		}
	}
	if len(simulated.Action) == 0 {
		return out
	}
	return append(out, c.simulate(ctx, caller, simulated)...)
}

// verdict reads the answer to a probe: that its object does not exist, or that a dry run would have succeeded, comes
// after the permission check.
func verdict(action string, err error) inventory.Permission {
	p := inventory.Permission{Action: action, State: inventory.PermissionAllowed}
	switch {
	case err == nil:
	case awsapi.Denied(err):
		p.State, p.Message = inventory.PermissionDenied, fmt.Sprintf("AWS refuses %s (%s)", action, awsapi.Code(err))
	case awsapi.Throttled(err) || awsapi.Code(err) == "":
		p.State, p.Message = inventory.PermissionNotChecked, fmt.Sprintf("the call could not be made: %v", err)
	}
	return p
}

// probes are calls that are harmless and cheap, by action.
func (c *Client) probes(cluster inventory.Cluster) map[string]func(context.Context) error {
	name, dry := aws.String(cluster.Name), aws.Bool(true)
	role, none := aws.String(NodeRoleName(cluster.Name)), aws.String(placeholder)
	return map[string]func(context.Context) error{
		"ec2:DescribeImages":          call(c.ec2.DescribeImages, &ec2.DescribeImagesInput{DryRun: dry, Owners: []string{"self"}}),
		"ec2:DescribeLaunchTemplates": call(c.ec2.DescribeLaunchTemplates, &ec2.DescribeLaunchTemplatesInput{DryRun: dry}),
		"ec2:DescribeLaunchTemplateVersions": call(c.ec2.DescribeLaunchTemplateVersions, &ec2.DescribeLaunchTemplateVersionsInput{
			DryRun: dry, Versions: []string{"$Latest"},
		}),
		"ec2:GetInstanceTypesFromInstanceRequirements": call(c.ec2.GetInstanceTypesFromInstanceRequirements, &ec2.GetInstanceTypesFromInstanceRequirementsInput{
			DryRun: dry, ArchitectureTypes: architectures, VirtualizationTypes: []ec2types.VirtualizationType{ec2types.VirtualizationTypeHvm},
			InstanceRequirements: &ec2types.InstanceRequirementsRequest{
				MemoryMiB: &ec2types.MemoryMiBRequest{Min: aws.Int32(1)}, VCpuCount: &ec2types.VCpuCountRangeRequest{Min: aws.Int32(1)},
			},
		}),
		"eks:DescribeCluster":                call(c.eks.DescribeCluster, &eks.DescribeClusterInput{Name: name}),
		"eks:ListNodegroups":                 call(c.eks.ListNodegroups, &eks.ListNodegroupsInput{ClusterName: name, MaxResults: aws.Int32(1)}),
		"eks:DescribeNodegroup":              call(c.eks.DescribeNodegroup, &eks.DescribeNodegroupInput{ClusterName: name, NodegroupName: none}),
		"eks:ListPodIdentityAssociations":    call(c.eks.ListPodIdentityAssociations, &eks.ListPodIdentityAssociationsInput{ClusterName: name, MaxResults: aws.Int32(1)}),
		"eks:DescribePodIdentityAssociation": call(c.eks.DescribePodIdentityAssociation, &eks.DescribePodIdentityAssociationInput{ClusterName: name, AssociationId: none}),
		"eks:DescribeAccessEntry": call(c.eks.DescribeAccessEntry, &eks.DescribeAccessEntryInput{
			ClusterName: name, PrincipalArn: aws.String(awsapi.GlobalARN(cluster, "iam", "role/"+NodeRoleName(cluster.Name))),
		}),
		"iam:GetRole":                  call(c.iam.GetRole, &iam.GetRoleInput{RoleName: role}),
		"iam:ListAttachedRolePolicies": call(c.iam.ListAttachedRolePolicies, &iam.ListAttachedRolePoliciesInput{RoleName: role}),
		"iam:GetInstanceProfile":       call(c.iam.GetInstanceProfile, &iam.GetInstanceProfileInput{InstanceProfileName: none}),
		"iam:GetRolePolicy": call(c.iam.GetRolePolicy, &iam.GetRolePolicyInput{
			RoleName: aws.String(ControllerRoleName(cluster.Name)), PolicyName: none,
		}),
		"sts:GetCallerIdentity": call(c.sts.GetCallerIdentity, &sts.GetCallerIdentityInput{}),
	}
}

var architectures = []ec2types.ArchitectureType{ec2types.ArchitectureTypeX8664, ec2types.ArchitectureTypeArm64}

// call makes a probe of an SDK method and its input.
func call[I, O, F any](method func(context.Context, I, ...F) (O, error), in I) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := method(ctx, in)
		return err
	}
}

// simulate asks IAM what castoff's policies say of the statement's actions, on its resources and in its conditions.
func (c *Client) simulate(ctx context.Context, caller string, s awsapi.Statement) []inventory.Permission {
	in := &iam.SimulatePrincipalPolicyInput{
		PolicySourceArn: aws.String(caller), ActionNames: s.Action, ResourceArns: concrete(s.Resource), ContextEntries: contextOf(s.Condition),
	}
	found := map[string]inventory.Permission{}
	pages := iam.NewSimulatePrincipalPolicyPaginator(c.iam, in)
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return notChecked(s.Action, fmt.Sprintf("iam:SimulatePrincipalPolicy of %s failed: %v", caller, err))
		}
		for _, r := range page.EvaluationResults {
			p := simulated(r, s.Resource)
			if have, ok := found[p.Action]; !ok || have.State == inventory.PermissionAllowed {
				found[p.Action] = p // several resources: all must be allowed
			}
		}
	}
	var out []inventory.Permission
	for _, action := range s.Action {
		p, ok := found[action]
		if !ok {
			p = notChecked([]string{action}, "iam:SimulatePrincipalPolicy left it out")[0]
		}
		out = append(out, p)
	}
	return out
}

func simulated(r iamtypes.EvaluationResult, resources []string) inventory.Permission {
	p := inventory.Permission{Action: aws.ToString(r.EvalActionName), State: inventory.PermissionAllowed}
	if r.EvalDecision == iamtypes.PolicyEvaluationDecisionTypeAllowed {
		return p
	}
	why := string(r.EvalDecision)
	if d := r.OrganizationsDecisionDetail; d != nil && !d.AllowedByOrganizations {
		why += ", by a service control policy"
	}
	if d := r.PermissionsBoundaryDecisionDetail; d != nil && !d.AllowedByPermissionsBoundary {
		why += ", by the permissions boundary"
	}
	p.State = inventory.PermissionDenied
	p.Message = fmt.Sprintf("castoff's policies do not allow %s on %s (%s)", p.Action, strings.Join(resources, ", "), why)
	return p
}

func notChecked(actions []string, why string) []inventory.Permission {
	var out []inventory.Permission
	for _, a := range actions {
		out = append(out, inventory.Permission{Action: a, State: inventory.PermissionNotChecked, Message: why})
	}
	return out
}

// concrete puts a name in the place of every wildcard: the simulator takes ARNs of single objects.
func concrete(resources []string) []string {
	var out []string
	for _, r := range resources {
		if r == "*" {
			return nil // which is what IAM takes for no resource at all
		}
		out = append(out, strings.ReplaceAll(r, "*", placeholder))
	}
	return out
}

// contextOf is a request that satisfies the conditions.
func contextOf(conditions awsapi.Conditions) []iamtypes.ContextEntry {
	var out []iamtypes.ContextEntry
	for operator, keys := range conditions {
		for key, values := range keys {
			if operator == "Null" { // "false": the key must be there, with whatever value
				values = []string{placeholder}
			}
			kind := iamtypes.ContextKeyTypeEnumString
			if len(values) > 1 {
				values = values[:1]
			}
			out = append(out, iamtypes.ContextEntry{ContextKeyName: aws.String(key), ContextKeyType: kind, ContextKeyValues: values})
		}
	}
	slices.SortFunc(out, func(a, b iamtypes.ContextEntry) int { return strings.Compare(*a.ContextKeyName, *b.ContextKeyName) })
	return out
}

// CallerARN is the IAM role or user that castoff acts as. For a role, its path is looked up, since a session's ARN
// leaves it out; without the permission to look, the path is taken to be "/".
func (c *Client) CallerARN(ctx context.Context) (string, error) {
	out, err := c.sts.GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return "", awsapi.Wrap(err, "sts:GetCallerIdentity", "castoff's AWS identity")
	}
	principal, role, err := principalOf(aws.ToString(out.Arn))
	if err != nil || role == "" {
		return principal, err
	}
	if found, err := c.iam.GetRole(ctx, &iam.GetRoleInput{RoleName: aws.String(role)}); err == nil && found.Role != nil && found.Role.Arn != nil {
		return *found.Role.Arn, nil
	}
	return principal, nil
}

// principalOf turns the ARN of a session, arn:aws:sts::1:assumed-role/ROLE/SESSION, into that of its role, and names
// the role. Any other ARN is its own principal.
func principalOf(caller string) (principal, role string, err error) {
	parsed, err := arn.Parse(caller)
	if err != nil {
		return "", "", fmt.Errorf("castoff's AWS identity %q: %w", caller, err)
	}
	session, ok := strings.CutPrefix(parsed.Resource, "assumed-role/")
	if !ok {
		return caller, "", nil
	}
	role, _, _ = strings.Cut(session, "/")
	parsed.Service, parsed.Resource = "iam", "role/"+role
	return parsed.String(), role, nil
}
