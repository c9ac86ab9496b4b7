package identity

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/inventory/awsapi"
)

// codeNoEntity is IAM's code for a role, policy or profile that does not exist.
const codeNoEntity = "NoSuchEntity"

// The AWS managed policies that a node of an EKS cluster needs (EKS user guide, node IAM role), and SSM's for reaching
// it.
var nodePolicies = []string{"AmazonEKSWorkerNodePolicy", "AmazonEKS_CNI_Policy", policyPullOnly, "AmazonSSMManagedInstanceCore"}

const policyPullOnly = "AmazonEC2ContainerRegistryPullOnly"

// supersets are policies that grant all that another does: roles that are older than PullOnly carry one of these.
var supersets = map[string][]string{
	policyPullOnly: {"AmazonEC2ContainerRegistryReadOnly", "AmazonEC2ContainerRegistryPowerUser", "AmazonEC2ContainerRegistryFullAccess"},
}

// role is a role as it should be.
type role struct {
	name        string
	description string
	service     string // that assumes it
	actions     []string
	trust       awsapi.Document
	attached    []string          // ARNs
	inline      map[string]string // by name
}

func nodeRole(c inventory.Cluster, extra []string) role {
	r := role{
		name: NodeRoleName(c.Name), description: "Nodes that Karpenter launches for EKS cluster " + c.Name,
		service: ec2Service(c), actions: []string{"sts:AssumeRole"}, trust: nodeTrust(c),
	}
	for _, p := range slices.Concat(nodePolicies, extra) {
		if arn := policyARN(c, p); !slices.Contains(r.attached, arn) {
			r.attached = append(r.attached, arn)
		}
	}
	return r
}

func controllerRole(c inventory.Cluster) role {
	return role{
		name: ControllerRoleName(c.Name), description: "Karpenter's controller in EKS cluster " + c.Name,
		service: podIdentityService, actions: podIdentityActions, trust: controllerTrust(), inline: ControllerPolicies(c),
	}
}

// policyARN takes an ARN as it is, and a name for that of an AWS managed policy.
func policyARN(c inventory.Cluster, policy string) string {
	if strings.HasPrefix(policy, "arn:") {
		return policy
	}
	return fmt.Sprintf("arn:%s:iam::aws:policy/%s", c.Partition, policy)
}

// lookAtRole compares the role with what it should be. It returns its ARN, empty when there is none.
func (c *Client) lookAtRole(ctx context.Context, cluster inventory.Cluster, want role) (string, findings, error) {
	out, err := c.iam.GetRole(ctx, &iam.GetRoleInput{RoleName: aws.String(want.name)})
	if awsapi.Is(err, codeNoEntity) {
		return "", c.newRole(cluster, want), nil
	}
	if err != nil {
		return "", findings{}, awsapi.Wrap(err, "iam:GetRole", "IAM role "+want.name)
	}
	if out.Role == nil {
		return "", findings{}, fmt.Errorf("IAM role %s: IAM answered without a role, it is tried again", want.name)
	}
	var f findings
	if trust, err := awsapi.ParseDocument(aws.ToString(out.Role.AssumeRolePolicyDocument)); err != nil || !trust.Trusts(want.service, want.actions...) {
		f.miss("trust policy of IAM role "+want.name, c.trustStep(want))
	}
	if err := c.lookAtAttached(ctx, want, &f); err != nil {
		return "", f, err
	}
	if err := c.lookAtInline(ctx, want, &f); err != nil {
		return "", f, err
	}
	lookAtBoundary(cluster, want, out.Role.PermissionsBoundary, &f)
	switch {
	case ours(tagMap(out.Role.Tags), cluster):
		f.own(roleObject(want.name), c.removeRole(cluster, want.name))
	case len(f.missing) > 0:
		f = findings{conflicts: append(f.conflicts, foreignRole(want, f.missing))}
	}
	return aws.ToString(out.Role.Arn), f, nil
}

// lookAtBoundary finds a role without the permissions boundary that it should have. castoff puts it on roles that it makes, and has no
// right to change it afterwards: who could, could take it off.
func lookAtBoundary(cluster inventory.Cluster, want role, have *iamtypes.AttachedPermissionsBoundary, f *findings) {
	if cluster.RolesBoundary == "" || have != nil && aws.ToString(have.PermissionsBoundaryArn) == cluster.RolesBoundary {
		return
	}
	f.conflict("IAM role %s does not have the permissions boundary %s, which castoff is told to give to roles: put it on (aws iam put-role-permissions-boundary)", want.name, cluster.RolesBoundary)
}

// ours says whether castoff made what carries the tags, and for this very cluster: one of the same name in another region
// has roles of the same name.
func ours(tags map[string]string, c inventory.Cluster) bool {
	return tags[v1alpha1.TagManagedBy] == v1alpha1.TagManagedByValue && tags[v1alpha1.LabelCluster] == c.ARN
}

func tagMap(tags []iamtypes.Tag) map[string]string {
	out := map[string]string{}
	for _, t := range tags {
		out[aws.ToString(t.Key)] = aws.ToString(t.Value)
	}
	return out
}

func foreignRole(want role, missing []step) string {
	var lacks []string
	for _, s := range missing {
		lacks = append(lacks, s.what)
	}
	return fmt.Sprintf("IAM role %s was not made by castoff for this cluster and does not fit (%s): mend it, or rename it so that castoff makes one of its own",
		want.name, strings.Join(lacks, ", "))
}

// newRole lists the steps that make the role from nothing.
func (c *Client) newRole(cluster inventory.Cluster, want role) findings {
	var f findings
	f.miss(roleObject(want.name), c.createStep(cluster, want))
	for _, arn := range want.attached {
		f.miss(attachedName(want, arn), c.attachStep(want, arn))
	}
	for _, name := range slices.Sorted(maps.Keys(want.inline)) {
		f.miss(inlineName(want, name), c.inlineStep(want, name))
	}
	return f
}

func roleObject(name string) string { return "IAM role " + name }

func attachedName(want role, arn string) string {
	return "policy " + awsapi.LastSegment(arn) + " on IAM role " + want.name
}

func inlineName(want role, name string) string {
	return "inline policy " + name + " of IAM role " + want.name
}

func (c *Client) lookAtAttached(ctx context.Context, want role, f *findings) error {
	if len(want.attached) == 0 {
		return nil
	}
	have, err := c.AttachedPolicies(ctx, want.name)
	if err != nil {
		return err
	}
	for _, arn := range want.attached {
		if !attaches(have, arn) {
			f.miss(attachedName(want, arn), c.attachStep(want, arn))
		}
	}
	return nil
}

// attaches says whether the policies hold the wanted one, or one that grants all of it.
func attaches(have []string, arn string) bool {
	if slices.Contains(have, arn) {
		return true
	}
	name := awsapi.LastSegment(arn)
	return slices.ContainsFunc(supersets[name], func(s string) bool {
		return slices.Contains(have, strings.TrimSuffix(arn, name)+s)
	})
}

// AttachedPolicies are the ARNs of the managed policies on a role; none for a role that does not exist.
func (c *Client) AttachedPolicies(ctx context.Context, roleName string) ([]string, error) {
	var out []string
	pages := iam.NewListAttachedRolePoliciesPaginator(c.iam, &iam.ListAttachedRolePoliciesInput{RoleName: aws.String(roleName)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if awsapi.Is(err, codeNoEntity) {
			return nil, nil
		}
		if err != nil {
			return nil, awsapi.Wrap(err, "iam:ListAttachedRolePolicies", "IAM role "+roleName)
		}
		for _, p := range page.AttachedPolicies {
			out = append(out, aws.ToString(p.PolicyArn))
		}
	}
	slices.Sort(out)
	return out, nil
}

func (c *Client) lookAtInline(ctx context.Context, want role, f *findings) error {
	for _, name := range slices.Sorted(maps.Keys(want.inline)) {
		out, err := c.iam.GetRolePolicy(ctx, &iam.GetRolePolicyInput{RoleName: aws.String(want.name), PolicyName: aws.String(name)})
		if err != nil && !awsapi.Is(err, codeNoEntity) {
			return awsapi.Wrap(err, "iam:GetRolePolicy", inlineName(want, name))
		}
		if err != nil || !sameDocument(aws.ToString(out.PolicyDocument), want.inline[name]) {
			f.miss(inlineName(want, name), c.inlineStep(want, name))
		}
	}
	return nil
}

func sameDocument(have, want string) bool {
	h, errHave := awsapi.ParseDocument(have)
	w, errWant := awsapi.ParseDocument(want)
	return errHave == nil && errWant == nil && h.Same(w)
}

func (c *Client) createStep(cluster inventory.Cluster, want role) func(context.Context) error {
	return func(ctx context.Context) error {
		in := &iam.CreateRoleInput{
			RoleName: aws.String(want.name), Description: aws.String(want.description),
			AssumeRolePolicyDocument: aws.String(want.trust.String()),
		}
		if cluster.RolesBoundary != "" {
			in.PermissionsBoundary = aws.String(cluster.RolesBoundary)
		}
		tags := awsapi.OurTags(cluster)
		for _, key := range slices.Sorted(maps.Keys(tags)) {
			in.Tags = append(in.Tags, iamtypes.Tag{Key: aws.String(key), Value: aws.String(tags[key])})
		}
		_, err := c.iam.CreateRole(ctx, in)
		return awsapi.Wrap(err, "iam:CreateRole", "IAM role "+want.name)
	}
}

func (c *Client) trustStep(want role) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := c.iam.UpdateAssumeRolePolicy(ctx, &iam.UpdateAssumeRolePolicyInput{
			RoleName: aws.String(want.name), PolicyDocument: aws.String(want.trust.String()),
		})
		return awsapi.Wrap(err, "iam:UpdateAssumeRolePolicy", "IAM role "+want.name)
	}
}

func (c *Client) attachStep(want role, arn string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := c.iam.AttachRolePolicy(ctx, &iam.AttachRolePolicyInput{RoleName: aws.String(want.name), PolicyArn: aws.String(arn)})
		return awsapi.Wrap(err, "iam:AttachRolePolicy", attachedName(want, arn))
	}
}

func (c *Client) inlineStep(want role, name string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := c.iam.PutRolePolicy(ctx, &iam.PutRolePolicyInput{
			RoleName: aws.String(want.name), PolicyName: aws.String(name), PolicyDocument: aws.String(want.inline[name]),
		})
		return awsapi.Wrap(err, "iam:PutRolePolicy", inlineName(want, name))
	}
}
