// Package identity is the port to who may do what: the IAM roles of Karpenter's nodes and of its controller, the Pod
// Identity association and the access entry (or row of aws-auth) that put them in force, and the permissions that castoff
// itself has and needs. What is there and fits is adopted; what is there, is not castoff's and does not fit is reported
// and never written.
package identity

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/inventory/awsapi"
)

// IAMAPI is what the port calls of IAM. GetInstanceProfile is a probe of Check.
type IAMAPI interface {
	GetRole(context.Context, *iam.GetRoleInput, ...func(*iam.Options)) (*iam.GetRoleOutput, error)
	CreateRole(context.Context, *iam.CreateRoleInput, ...func(*iam.Options)) (*iam.CreateRoleOutput, error)
	UpdateAssumeRolePolicy(context.Context, *iam.UpdateAssumeRolePolicyInput, ...func(*iam.Options)) (*iam.UpdateAssumeRolePolicyOutput, error)
	ListAttachedRolePolicies(context.Context, *iam.ListAttachedRolePoliciesInput, ...func(*iam.Options)) (*iam.ListAttachedRolePoliciesOutput, error)
	AttachRolePolicy(context.Context, *iam.AttachRolePolicyInput, ...func(*iam.Options)) (*iam.AttachRolePolicyOutput, error)
	GetRolePolicy(context.Context, *iam.GetRolePolicyInput, ...func(*iam.Options)) (*iam.GetRolePolicyOutput, error)
	PutRolePolicy(context.Context, *iam.PutRolePolicyInput, ...func(*iam.Options)) (*iam.PutRolePolicyOutput, error)
	GetInstanceProfile(context.Context, *iam.GetInstanceProfileInput, ...func(*iam.Options)) (*iam.GetInstanceProfileOutput, error)
	ListRolePolicies(context.Context, *iam.ListRolePoliciesInput, ...func(*iam.Options)) (*iam.ListRolePoliciesOutput, error)
	ListInstanceProfiles(context.Context, *iam.ListInstanceProfilesInput, ...func(*iam.Options)) (*iam.ListInstanceProfilesOutput, error)
	ListInstanceProfilesForRole(context.Context, *iam.ListInstanceProfilesForRoleInput, ...func(*iam.Options)) (*iam.ListInstanceProfilesForRoleOutput, error)
	RemoveRoleFromInstanceProfile(context.Context, *iam.RemoveRoleFromInstanceProfileInput, ...func(*iam.Options)) (*iam.RemoveRoleFromInstanceProfileOutput, error)
	DeleteInstanceProfile(context.Context, *iam.DeleteInstanceProfileInput, ...func(*iam.Options)) (*iam.DeleteInstanceProfileOutput, error)
	DetachRolePolicy(context.Context, *iam.DetachRolePolicyInput, ...func(*iam.Options)) (*iam.DetachRolePolicyOutput, error)
	DeleteRolePolicy(context.Context, *iam.DeleteRolePolicyInput, ...func(*iam.Options)) (*iam.DeleteRolePolicyOutput, error)
	DeleteRole(context.Context, *iam.DeleteRoleInput, ...func(*iam.Options)) (*iam.DeleteRoleOutput, error)
	SimulatePrincipalPolicy(context.Context, *iam.SimulatePrincipalPolicyInput, ...func(*iam.Options)) (*iam.SimulatePrincipalPolicyOutput, error)
}

// EKSAPI is what the port calls of EKS. The cluster and node group reads are probes of Check.
type EKSAPI interface {
	DescribeCluster(context.Context, *eks.DescribeClusterInput, ...func(*eks.Options)) (*eks.DescribeClusterOutput, error)
	ListNodegroups(context.Context, *eks.ListNodegroupsInput, ...func(*eks.Options)) (*eks.ListNodegroupsOutput, error)
	DescribeNodegroup(context.Context, *eks.DescribeNodegroupInput, ...func(*eks.Options)) (*eks.DescribeNodegroupOutput, error)
	ListPodIdentityAssociations(context.Context, *eks.ListPodIdentityAssociationsInput, ...func(*eks.Options)) (*eks.ListPodIdentityAssociationsOutput, error)
	DescribePodIdentityAssociation(context.Context, *eks.DescribePodIdentityAssociationInput, ...func(*eks.Options)) (*eks.DescribePodIdentityAssociationOutput, error)
	CreatePodIdentityAssociation(context.Context, *eks.CreatePodIdentityAssociationInput, ...func(*eks.Options)) (*eks.CreatePodIdentityAssociationOutput, error)
	DescribeAccessEntry(context.Context, *eks.DescribeAccessEntryInput, ...func(*eks.Options)) (*eks.DescribeAccessEntryOutput, error)
	CreateAccessEntry(context.Context, *eks.CreateAccessEntryInput, ...func(*eks.Options)) (*eks.CreateAccessEntryOutput, error)
	DeletePodIdentityAssociation(context.Context, *eks.DeletePodIdentityAssociationInput, ...func(*eks.Options)) (*eks.DeletePodIdentityAssociationOutput, error)
	DeleteAccessEntry(context.Context, *eks.DeleteAccessEntryInput, ...func(*eks.Options)) (*eks.DeleteAccessEntryOutput, error)
}

// EC2API is what Check calls of EC2, as dry runs.
type EC2API interface {
	DescribeLaunchTemplates(context.Context, *ec2.DescribeLaunchTemplatesInput, ...func(*ec2.Options)) (*ec2.DescribeLaunchTemplatesOutput, error)
	DescribeLaunchTemplateVersions(context.Context, *ec2.DescribeLaunchTemplateVersionsInput, ...func(*ec2.Options)) (*ec2.DescribeLaunchTemplateVersionsOutput, error)
	DescribeImages(context.Context, *ec2.DescribeImagesInput, ...func(*ec2.Options)) (*ec2.DescribeImagesOutput, error)
	GetInstanceTypesFromInstanceRequirements(context.Context, *ec2.GetInstanceTypesFromInstanceRequirementsInput, ...func(*ec2.Options)) (*ec2.GetInstanceTypesFromInstanceRequirementsOutput, error)
}

// STSAPI is what the port calls of STS: who castoff is.
type STSAPI interface {
	GetCallerIdentity(context.Context, *sts.GetCallerIdentityInput, ...func(*sts.Options)) (*sts.GetCallerIdentityOutput, error)
}

// Client is the port. It keeps no state.
type Client struct {
	iam IAMAPI
	eks EKSAPI
	ec2 EC2API
	sts STSAPI

	configMaps ConfigMapAPI
}

// New makes the port. Without a ConfigMapAPI, or where it may not read, nodes cannot be let into a cluster that knows
// aws-auth alone (authentication mode CONFIG_MAP), and Observe says so as a conflict. Of several the last one counts.
func New(iam IAMAPI, eks EKSAPI, ec2 EC2API, sts STSAPI, configMaps ...ConfigMapAPI) *Client {
	c := &Client{iam: iam, eks: eks, ec2: ec2, sts: sts}
	for _, m := range configMaps {
		c.configMaps = m
	}
	return c
}

// Karpenter's ServiceAccount, as its chart names it.
const (
	engineNamespace      = "kube-system"
	engineServiceAccount = "karpenter"
)

// NodeRoleName is the name of the role of the nodes that Karpenter launches.
func NodeRoleName(cluster string) string { return awsapi.RoleName("KarpenterNodeRole", cluster) }

// ControllerRoleName is the name of the role of Karpenter's controller.
func ControllerRoleName(cluster string) string {
	return awsapi.RoleName("KarpenterControllerRole", cluster)
}

// step is one thing and how it is made or taken away. Steps are independent but for their order, and each can be
// repeated.
type step struct {
	what string
	do   func(context.Context) error
}

// findings are what a look came to.
type findings struct {
	missing   []step // to be made, in this order
	made      []step // castoff's own, to be taken away in the opposite order
	conflicts []string
}

func (f *findings) add(other findings) {
	f.missing = append(f.missing, other.missing...)
	f.made = append(f.made, other.made...)
	f.conflicts = append(f.conflicts, other.conflicts...)
}

func (f *findings) miss(what string, how func(context.Context) error) {
	f.missing = append(f.missing, step{what, how})
}

func (f *findings) own(what string, takeAway func(context.Context) error) {
	f.made = append(f.made, step{what, takeAway})
}

func (f *findings) owns(what string) bool {
	return slices.ContainsFunc(f.made, func(s step) bool { return s.what == what })
}

func (f *findings) sentence() string { return strings.Join(f.conflicts, "; ") }

func (f *findings) conflict(format string, args ...any) {
	f.conflicts = append(f.conflicts, fmt.Sprintf(format, args...))
}

// Observe looks at the roles, the association and the access entry, and changes nothing. The extra node policies, ARNs
// or names of AWS managed policies, are expected on the node role beside the four that every EKS node needs. Of roles that the
// user provides nothing is Missing or Made: they fit, or it is a conflict.
func (c *Client) Observe(ctx context.Context, cluster inventory.Cluster, extraNodePolicies []string) (inventory.Identity, error) {
	if cluster.Provided.Identity() {
		return c.provided(ctx, cluster, extraNodePolicies)
	}
	identity, f, err := c.look(ctx, cluster, extraNodePolicies)
	if err != nil {
		return inventory.Identity{}, err
	}
	for _, s := range f.missing {
		identity.Missing = append(identity.Missing, s.what)
	}
	for _, s := range f.made {
		identity.Made = append(identity.Made, s.what)
	}
	identity.Conflict = f.sentence()
	identity.Ready = len(f.missing) == 0 && len(f.conflicts) == 0
	return identity, nil
}

// Ensure makes what Observe would call missing. Every step stands on its own: after a crash, the next call makes the
// rest. A conflict is a terminal error, and nothing is written.
func (c *Client) Ensure(ctx context.Context, cluster inventory.Cluster, extraNodePolicies []string) error {
	if cluster.Provided.Identity() {
		have, err := c.provided(ctx, cluster, extraNodePolicies)
		if err == nil && have.Conflict != "" {
			err = inventory.Terminal(fmt.Errorf("identities of cluster %s: %s", cluster.Name, have.Conflict))
		}
		return err
	}
	_, f, err := c.look(ctx, cluster, extraNodePolicies)
	if err != nil {
		return err
	}
	if len(f.conflicts) > 0 {
		return inventory.Terminal(fmt.Errorf("identities of cluster %s: %s", cluster.Name, f.sentence()))
	}
	for _, s := range f.missing {
		if err := s.do(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Remove takes away what castoff made for the cluster, what Observe lists as Made: the nodes' access, the Pod Identity
// association, and the roles with all that is on them. What does not carry castoff's tags stays. It may be repeated, also
// after a crash. A role that somebody put into an instance profile of their own is a terminal error, and stays whole.
func (c *Client) Remove(ctx context.Context, cluster inventory.Cluster) error {
	if cluster.Provided.Identity() {
		return nil
	}
	identity, f, err := c.look(ctx, cluster, nil)
	if err != nil {
		return err
	}
	if f.owns(roleObject(identity.NodeRole)) {
		left, err := c.leftRow(ctx, cluster, identity.NodeRoleARN)
		if err != nil {
			return err
		}
		f.add(left)
	}
	for _, s := range slices.Backward(f.made) {
		if err := s.do(ctx); err != nil {
			return err
		}
	}
	return nil
}

// look reads everything; what is missing comes in the order in which its parts depend on each other.
func (c *Client) look(ctx context.Context, cluster inventory.Cluster, extra []string) (inventory.Identity, findings, error) {
	out := inventory.Identity{NodeRole: NodeRoleName(cluster.Name), ControllerRole: ControllerRoleName(cluster.Name)}
	var all findings
	node, f, err := c.lookAtRole(ctx, cluster, nodeRole(cluster, extra))
	if err != nil {
		return out, all, err
	}
	all.add(f)
	ours := f.owns(roleObject(out.NodeRole))
	controller, f, err := c.lookAtRole(ctx, cluster, controllerRole(cluster))
	if err != nil {
		return out, all, err
	}
	all.add(f)
	out.NodeRoleARN, out.ControllerRoleARN = node, controller
	if f, err = c.lookAtAssociation(ctx, cluster, orDefault(controller, cluster, out.ControllerRole)); err != nil {
		return out, all, err
	}
	all.add(f)
	if f, err = c.lookAtAccess(ctx, cluster, orDefault(node, cluster, out.NodeRole), ours); err != nil {
		return out, all, err
	}
	all.add(f)
	return out, all, nil
}

// orDefault is the role's ARN, or the one that it will have when castoff makes it.
func orDefault(arn string, c inventory.Cluster, name string) string {
	if arn != "" {
		return arn
	}
	return awsapi.GlobalARN(c, "iam", "role/"+name)
}
