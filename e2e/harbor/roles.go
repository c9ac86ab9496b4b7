package harbor

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
)

// role is an IAM role of the scene.
type role struct {
	name    string
	service string // who may assume it
	managed []string
	inline  string
}

const everything = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"*","Resource":"*"}]}`

func roles() []role {
	return []role{
		{name: clusterRole, service: "eks.amazonaws.com", managed: []string{"AmazonEKSClusterPolicy"}},
		{name: nodeRole, service: "ec2.amazonaws.com", managed: []string{"AmazonEKSWorkerNodePolicy", "AmazonEKS_CNI_Policy", "AmazonEC2ContainerRegistryPullOnly", "AmazonSSMManagedInstanceCore"}},
		{name: autoscalerRole, service: "pods.eks.amazonaws.com", inline: `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":["autoscaling:*","ec2:Describe*","eks:DescribeNodegroup"],"Resource":"*"}]}`},
		{name: CastoffRole, service: "pods.eks.amazonaws.com", inline: everything},
	}
}

// seedRoles returns the roles' ARNs by name.
func (c *Cloud) seedRoles(ctx context.Context) (map[string]string, error) {
	arns := map[string]string{}
	for _, r := range roles() {
		arn, err := c.seedRole(ctx, r)
		if err != nil {
			return nil, fmt.Errorf("making role %s: %w", r.name, err)
		}
		arns[r.name] = arn
	}
	if _, err := c.iam.CreateInstanceProfile(ctx, &iam.CreateInstanceProfileInput{InstanceProfileName: aws.String(nodeRole)}); err != nil {
		return nil, fmt.Errorf("making instance profile %s: %w", nodeRole, err)
	}
	_, err := c.iam.AddRoleToInstanceProfile(ctx, &iam.AddRoleToInstanceProfileInput{InstanceProfileName: aws.String(nodeRole), RoleName: aws.String(nodeRole)})
	if err != nil {
		return nil, fmt.Errorf("adding role %s to its instance profile: %w", nodeRole, err)
	}
	return arns, nil
}

func (c *Cloud) seedRole(ctx context.Context, r role) (string, error) {
	trust := fmt.Sprintf(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"%s"},"Action":["sts:AssumeRole","sts:TagSession"]}]}`, r.service)
	made, err := c.iam.CreateRole(ctx, &iam.CreateRoleInput{RoleName: &r.name, AssumeRolePolicyDocument: &trust})
	if err != nil {
		return "", err
	}
	for _, policy := range r.managed {
		arn := "arn:aws:iam::aws:policy/" + policy
		if _, err := c.iam.AttachRolePolicy(ctx, &iam.AttachRolePolicyInput{RoleName: &r.name, PolicyArn: &arn}); err != nil {
			return "", fmt.Errorf("attaching %s: %w", policy, err)
		}
	}
	if r.inline != "" {
		_, err := c.iam.PutRolePolicy(ctx, &iam.PutRolePolicyInput{RoleName: &r.name, PolicyName: &r.name, PolicyDocument: &r.inline})
		if err != nil {
			return "", fmt.Errorf("putting its policy: %w", err)
		}
	}
	return aws.ToString(made.Role.Arn), nil
}

// seedIdentities gives castoff and Cluster Autoscaler their roles by EKS Pod Identity.
func (c *Cloud) seedIdentities(ctx context.Context, arns map[string]string) error {
	for _, identity := range []struct{ namespace, account, role string }{
		{CastoffNamespace, "castoff", CastoffRole},
		{"kube-system", "cluster-autoscaler", autoscalerRole},
	} {
		_, err := c.eks.CreatePodIdentityAssociation(ctx, &eks.CreatePodIdentityAssociationInput{
			ClusterName: aws.String(Cluster), Namespace: &identity.namespace, ServiceAccount: &identity.account, RoleArn: aws.String(arns[identity.role]),
		})
		if err != nil {
			return fmt.Errorf("giving ServiceAccount %s/%s its role: %w", identity.namespace, identity.account, err)
		}
	}
	return nil
}
