package identity

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"

	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/inventory/awsapi"
)

func (c *Client) removeAssociation(cluster inventory.Cluster, id, object string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := c.eks.DeletePodIdentityAssociation(ctx, &eks.DeletePodIdentityAssociationInput{ClusterName: aws.String(cluster.Name), AssociationId: aws.String(id)})
		return wrapDelete(err, codeNotFound, "eks:DeletePodIdentityAssociation", object)
	}
}

func (c *Client) removeAccess(cluster inventory.Cluster, roleARN, object string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := c.eks.DeleteAccessEntry(ctx, &eks.DeleteAccessEntryInput{ClusterName: aws.String(cluster.Name), PrincipalArn: aws.String(roleARN)})
		return wrapDelete(err, codeNotFound, "eks:DeleteAccessEntry", object)
	}
}

// wrapDelete takes "is not there" for done: an earlier call that crashed, or whose reply was lost, deleted it.
func wrapDelete(err error, gone, action, object string) error {
	if awsapi.Is(err, gone) {
		return nil
	}
	return awsapi.Wrap(err, action, object)
}

// removeRole empties a role of castoff's and deletes it: IAM deletes no role that has policies or is in a profile. The
// profiles come first, so that a role that cannot go is left as it was.
func (c *Client) removeRole(cluster inventory.Cluster, name string) func(context.Context) error {
	return func(ctx context.Context) error {
		for _, empty := range []func(context.Context, string) error{c.leaveProfiles(cluster), c.detachAll, c.deleteInline} {
			if err := empty(ctx, name); err != nil {
				return err
			}
		}
		_, err := c.iam.DeleteRole(ctx, &iam.DeleteRoleInput{RoleName: aws.String(name)})
		return wrapDelete(err, codeNoEntity, "iam:DeleteRole", "IAM role "+name)
	}
}

func (c *Client) detachAll(ctx context.Context, name string) error {
	attached, err := c.AttachedPolicies(ctx, name)
	if err != nil {
		return err
	}
	for _, policy := range attached {
		_, err := c.iam.DetachRolePolicy(ctx, &iam.DetachRolePolicyInput{RoleName: aws.String(name), PolicyArn: aws.String(policy)})
		if err := wrapDelete(err, codeNoEntity, "iam:DetachRolePolicy", "policy "+policy+" on IAM role "+name); err != nil {
			return err
		}
	}
	return nil
}

func (c *Client) deleteInline(ctx context.Context, name string) error {
	var policies []string
	pages := iam.NewListRolePoliciesPaginator(c.iam, &iam.ListRolePoliciesInput{RoleName: aws.String(name)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return wrapDelete(err, codeNoEntity, "iam:ListRolePolicies", "IAM role "+name)
		}
		policies = append(policies, page.PolicyNames...)
	}
	for _, policy := range policies {
		_, err := c.iam.DeleteRolePolicy(ctx, &iam.DeleteRolePolicyInput{RoleName: aws.String(name), PolicyName: aws.String(policy)})
		if err := wrapDelete(err, codeNoEntity, "iam:DeleteRolePolicy", "inline policy "+policy+" of IAM role "+name); err != nil {
			return err
		}
	}
	return nil
}

// leaveProfiles deletes the instance profiles that Karpenter made for the role, and left behind when it was stopped before
// its EC2NodeClasses were gone. It touches none of them while one of somebody else's holds the role.
func (c *Client) leaveProfiles(cluster inventory.Cluster) func(context.Context, string) error {
	return func(ctx context.Context, role string) error {
		ours, err := c.karpenterProfiles(ctx, cluster, role)
		if err != nil {
			return err
		}
		foreign, err := c.otherProfiles(ctx, role, ours)
		if err != nil {
			return err
		}
		if len(foreign) > 0 {
			return inventory.Terminal(fmt.Errorf("IAM role %s is castoff's, but is also in instance profiles that are not (%s): give those another role, or delete them, and castoff deletes it",
				role, strings.Join(foreign, ", ")))
		}
		for _, profile := range ours {
			if err := c.deleteProfile(ctx, role, profile); err != nil {
				return err
			}
		}
		return nil
	}
}

// profilePath is where Karpenter keeps the instance profiles of a cluster, each under the UID of its EC2NodeClass.
func profilePath(c inventory.Cluster) string { return "/karpenter/" + c.Region + "/" + c.Name + "/" }

// karpenterProfiles names Karpenter's instance profiles of the cluster that hold the role. Those that hold none count too:
// a crash between taking the role out and deleting the profile leaves one, and the role no longer leads to it.
func (c *Client) karpenterProfiles(ctx context.Context, cluster inventory.Cluster, role string) ([]string, error) {
	var out []string
	pages := iam.NewListInstanceProfilesPaginator(c.iam, &iam.ListInstanceProfilesInput{PathPrefix: aws.String(profilePath(cluster))})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, awsapi.Wrap(err, "iam:ListInstanceProfiles", "instance profiles under "+profilePath(cluster))
		}
		for _, p := range page.InstanceProfiles {
			if !slices.ContainsFunc(p.Roles, func(r iamtypes.Role) bool { return aws.ToString(r.RoleName) != role }) {
				out = append(out, aws.ToString(p.InstanceProfileName))
			}
		}
	}
	return out, nil
}

// otherProfiles names the instance profiles that hold the role and are none of Karpenter's.
func (c *Client) otherProfiles(ctx context.Context, role string, karpenters []string) ([]string, error) {
	var out []string
	pages := iam.NewListInstanceProfilesForRolePaginator(c.iam, &iam.ListInstanceProfilesForRoleInput{RoleName: aws.String(role)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, wrapDelete(err, codeNoEntity, "iam:ListInstanceProfilesForRole", "IAM role "+role)
		}
		for _, p := range page.InstanceProfiles {
			if name := aws.ToString(p.InstanceProfileName); !slices.Contains(karpenters, name) {
				out = append(out, name)
			}
		}
	}
	return out, nil
}

// deleteProfile takes a role that is in the profile out first: IAM deletes no profile that holds one.
func (c *Client) deleteProfile(ctx context.Context, role, profile string) error {
	object := "instance profile " + profile
	_, err := c.iam.RemoveRoleFromInstanceProfile(ctx, &iam.RemoveRoleFromInstanceProfileInput{InstanceProfileName: aws.String(profile), RoleName: aws.String(role)})
	if err := wrapDelete(err, codeNoEntity, "iam:RemoveRoleFromInstanceProfile", object); err != nil {
		return err
	}
	_, err = c.iam.DeleteInstanceProfile(ctx, &iam.DeleteInstanceProfileInput{InstanceProfileName: aws.String(profile)})
	return wrapDelete(err, codeNoEntity, "iam:DeleteInstanceProfile", object)
}
