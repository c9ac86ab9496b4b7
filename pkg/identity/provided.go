package identity

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"

	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/inventory/awsapi"
)

// NodeRole is the name of the role of Karpenter's nodes in the cluster: the user's, or castoff's.
func NodeRole(c inventory.Cluster) string {
	return cmp.Or(c.Provided.NodeRole, NodeRoleName(c.Name))
}

// ControllerRole is the name of Karpenter's own role: the user's, or castoff's.
func ControllerRole(c inventory.Cluster) string {
	return cmp.Or(c.Provided.ControllerRole, ControllerRoleName(c.Name))
}

// serviceAccount is Karpenter's, where it was found or where castoff puts it.
func serviceAccount(c inventory.Cluster) (namespace, name string) {
	return cmp.Or(c.Provided.Namespace, engineNamespace), cmp.Or(c.Provided.ServiceAccount, engineServiceAccount)
}

// provided looks at roles that the user named. They are somebody else's altogether: castoff makes nothing of them, and whatever
// is missing is a conflict. Policies on the controller's role are not read: they may be written in many ways, and the canary
// shows whether they are enough.
func (c *Client) provided(ctx context.Context, cluster inventory.Cluster, extra []string) (inventory.Identity, error) {
	out := inventory.Identity{NodeRole: NodeRole(cluster), ControllerRole: ControllerRole(cluster)}
	var all findings
	for _, look := range []func(context.Context, inventory.Cluster, *inventory.Identity) (findings, error){c.providedController, c.providedNodes} {
		f, err := look(ctx, cluster, &out)
		if err != nil {
			return inventory.Identity{}, err
		}
		all.add(f)
	}
	for _, s := range all.missing {
		all.conflict("%s is missing, and with spec.provisioner.identity: Existing castoff does not make it: create it", s.what)
	}
	var err error
	if out.NodeRoleARN != "" {
		out.Lacks, err = c.lacks(ctx, cluster, extra)
	}
	out.Conflict = all.sentence()
	out.Ready = out.Conflict == ""
	return out, err
}

// providedController asks for a trust policy that lets Karpenter's ServiceAccount have the role, one way or the other.
func (c *Client) providedController(ctx context.Context, cluster inventory.Cluster, out *inventory.Identity) (findings, error) {
	var f findings
	arn, trust, err := c.trustOf(ctx, out.ControllerRole, &f)
	if err != nil || arn == "" {
		return f, err
	}
	out.ControllerRoleARN = arn
	namespace, name := serviceAccount(cluster)
	switch {
	case trust.Admits(podIdentityService, podIdentityActions[0]):
		association, err := c.lookAtAssociation(ctx, cluster, arn)
		f.add(association)
		return f, err
	case trust.AdmitsWebIdentity("system:serviceaccount:" + namespace + ":" + name):
		out.WebIdentity = true
	default:
		f.conflict("IAM role %s trusts neither %s nor the web identity of ServiceAccount %s/%s: let it, so that Karpenter can have the role",
			out.ControllerRole, podIdentityService, namespace, name)
	}
	return f, nil
}

// providedNodes asks for a role that EC2 may give to instances, with which they may join.
func (c *Client) providedNodes(ctx context.Context, cluster inventory.Cluster, out *inventory.Identity) (findings, error) {
	var f findings
	arn, trust, err := c.trustOf(ctx, out.NodeRole, &f)
	if err != nil || arn == "" {
		return f, err
	}
	out.NodeRoleARN = arn
	if !trust.Admits(ec2Service(cluster), "sts:AssumeRole") && !trust.Admits("ec2.amazonaws.com", "sts:AssumeRole") {
		f.conflict("IAM role %s does not trust %s: let it, so that instances can have the role", out.NodeRole, ec2Service(cluster))
	}
	access, err := c.lookAtAccess(ctx, cluster, arn, false)
	f.add(access)
	return f, err
}

// trustOf gives the role's ARN and trust policy; none, with a conflict, of a role that does not exist.
func (c *Client) trustOf(ctx context.Context, name string, f *findings) (string, awsapi.Document, error) {
	got, err := c.iam.GetRole(ctx, &iam.GetRoleInput{RoleName: aws.String(name)})
	if awsapi.Is(err, codeNoEntity) {
		f.conflict("IAM role %s, which spec.provisioner names, does not exist: create it, or set spec.provisioner.identity to Managed", name)
		return "", awsapi.Document{}, nil
	}
	if err != nil {
		return "", awsapi.Document{}, awsapi.Wrap(err, "iam:GetRole", roleObject(name))
	}
	if got.Role == nil {
		return "", awsapi.Document{}, fmt.Errorf("IAM role %s: IAM answered without a role, it is tried again", name)
	}
	trust, err := awsapi.ParseDocument(aws.ToString(got.Role.AssumeRolePolicyDocument))
	if err != nil {
		f.conflict("the trust policy of IAM role %s cannot be read: %v", name, err)
	}
	return aws.ToString(got.Role.Arn), trust, nil
}

// lacks names what nodes need or had and the role does not have by the same name. A policy of the user's own may grant the same,
// so that is for people to judge.
func (c *Client) lacks(ctx context.Context, cluster inventory.Cluster, extra []string) ([]string, error) {
	have, err := c.AttachedPolicies(ctx, NodeRole(cluster))
	if err != nil {
		return nil, err
	}
	var out []string
	for _, arn := range nodeRole(cluster, extra).attached {
		if !attaches(have, arn) {
			out = append(out, awsapi.LastSegment(arn))
		}
	}
	slices.Sort(out)
	return out, nil
}

// The statements of castoff's policy, by name, with which it makes and takes away what the user may provide.
var (
	ofRoles = []string{
		"MakeRoles", "MendTrust", "NodeRole", "ControllerRole", "PassControllerRole", "NodeAccess", "TagAccess",
		"RemoveAccess", "RemovePodIdentity", "RemoveRoles", "RemoveProfiles",
	}
	ofQueue = []string{"Rules", "Targets", "RemoveQueue", "RemoveRules"}
)

// withoutProvided leaves out what castoff does not do where the user provides roles or queue: then a security team need not
// grant it. Looking stays.
func withoutProvided(c inventory.Cluster, all []awsapi.Statement) []awsapi.Statement {
	var drop, actions []string
	if c.Provided.Identity() {
		drop = append(drop, ofRoles...)
		actions = append(actions, "eks:CreatePodIdentityAssociation")
	}
	if c.Provided.Queue != "" || c.Provided.NoQueue {
		drop = append(drop, ofQueue...)
		actions = append(actions, "sqs:CreateQueue", "sqs:SetQueueAttributes", "sqs:TagQueue")
	}
	if c.Provided.NoQueue {
		drop = append(drop, "Queue")
	}
	var out []awsapi.Statement
	for _, s := range all {
		if slices.Contains(drop, s.Sid) {
			continue
		}
		if s.Sid == "Queue" && c.Provided.Queue != "" {
			s.Resource = []string{awsapi.ARN(c, "sqs", c.Provided.Queue)}
		}
		s.Action = slices.DeleteFunc(slices.Clone(s.Action), func(a string) bool { return slices.Contains(actions, a) })
		out = append(out, s)
	}
	return out
}
