package identity

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/inventory/awsapi"
)

// EKS' error codes.
const (
	codeNotFound = "ResourceNotFoundException"
	// codeInvalid is also how EKS answers for a role that was made a moment ago and that it does not see yet.
	codeInvalid = "InvalidParameterException"
	// codeInUse is how EKS answers for an association or entry that exists: made by a call whose reply was lost.
	codeInUse = "ResourceInUseException"
)

// entryTypeNodes is the type of access entry for Linux nodes (API reference, CreateAccessEntry).
const entryTypeNodes = "EC2_LINUX"

// lookAtAssociation compares the Pod Identity association of Karpenter's ServiceAccount.
func (c *Client) lookAtAssociation(ctx context.Context, cluster inventory.Cluster, roleARN string) (findings, error) {
	namespace, name := serviceAccount(cluster)
	object := fmt.Sprintf("Pod Identity association of ServiceAccount %s/%s", namespace, name)
	listed, err := c.eks.ListPodIdentityAssociations(ctx, &eks.ListPodIdentityAssociationsInput{
		ClusterName: aws.String(cluster.Name), Namespace: aws.String(namespace), ServiceAccount: aws.String(name),
	})
	if err != nil {
		return findings{}, awsapi.Wrap(err, "eks:ListPodIdentityAssociations", object)
	}
	var f findings
	for _, a := range listed.Associations { // a ServiceAccount has one at most
		out, err := c.eks.DescribePodIdentityAssociation(ctx, &eks.DescribePodIdentityAssociationInput{ClusterName: aws.String(cluster.Name), AssociationId: a.AssociationId})
		if awsapi.Is(err, codeNotFound) {
			continue
		}
		if err != nil {
			return f, awsapi.Wrap(err, "eks:DescribePodIdentityAssociation", object)
		}
		if out.Association == nil {
			continue
		}
		switch have := aws.ToString(out.Association.RoleArn); {
		case have != roleARN:
			f.conflict("the %s names role %s, not %s: change it to that role", object, have, roleARN)
		case ours(out.Association.Tags, cluster):
			f.own(object, c.removeAssociation(cluster, aws.ToString(a.AssociationId), object))
		}
		return f, nil
	}
	f.miss(object, func(ctx context.Context) error {
		_, err := c.eks.CreatePodIdentityAssociation(ctx, &eks.CreatePodIdentityAssociationInput{
			ClusterName: aws.String(cluster.Name), Namespace: aws.String(namespace), ServiceAccount: aws.String(name),
			RoleArn: aws.String(roleARN), Tags: awsapi.OurTags(cluster),
		})
		return wrapCreate(err, "eks:CreatePodIdentityAssociation", object)
	})
	return f, nil
}

// lookAtAccess compares what lets nodes of the role join the cluster: an access entry, or where the cluster knows none, a row
// of aws-auth. ours says that the role is castoff's.
func (c *Client) lookAtAccess(ctx context.Context, cluster inventory.Cluster, roleARN string, ours bool) (findings, error) {
	if cluster.AuthenticationMode == string(ekstypes.AuthenticationModeConfigMap) {
		return c.lookAtRow(ctx, cluster, roleARN, ours)
	}
	return c.lookAtEntry(ctx, cluster, roleARN)
}

func (c *Client) lookAtEntry(ctx context.Context, cluster inventory.Cluster, roleARN string) (findings, error) {
	var f findings
	object := "access entry of " + roleARN
	out, err := c.eks.DescribeAccessEntry(ctx, &eks.DescribeAccessEntryInput{ClusterName: aws.String(cluster.Name), PrincipalArn: aws.String(roleARN)})
	if err != nil && !awsapi.Is(err, codeNotFound) {
		return f, awsapi.Wrap(err, "eks:DescribeAccessEntry", object)
	}
	if err == nil && out.AccessEntry != nil {
		switch have := aws.ToString(out.AccessEntry.Type); {
		case have != entryTypeNodes:
			f.conflict("the %s has type %s, with which its nodes cannot join: make it %s", object, have, entryTypeNodes)
		case ours(out.AccessEntry.Tags, cluster):
			f.own(object, c.removeAccess(cluster, roleARN, object))
		}
		return f, nil
	}
	f.miss(object, func(ctx context.Context) error {
		_, err := c.eks.CreateAccessEntry(ctx, &eks.CreateAccessEntryInput{
			ClusterName: aws.String(cluster.Name), PrincipalArn: aws.String(roleARN), Type: aws.String(entryTypeNodes), Tags: awsapi.OurTags(cluster),
		})
		return wrapCreate(err, "eks:CreateAccessEntry", object)
	})
	return f, nil
}

// wrapCreate takes "exists" for done (the next look tells whether it fits), and "invalid" for not yet: EKS says so of a
// role that IAM has not shown it yet.
func wrapCreate(err error, action, object string) error {
	if awsapi.Is(err, codeInUse) {
		return nil
	}
	if awsapi.Is(err, codeInvalid) {
		return fmt.Errorf("%s: %s: EKS does not accept the role yet, it is tried again: %w", object, action, err)
	}
	return awsapi.Wrap(err, action, object)
}
