package identity

import (
	"slices"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/inventory/awsapi"
)

// Policy is the IAM policy that castoff itself needs: every action it uses, on the narrowest resources and under the
// narrowest conditions that AWS knows for it (service authorization reference). Extra node policies are those that the
// node role gets beside the four of every node. It stays below what IAM allows a role's inline policies (10,240
// characters).
func Policy(c inventory.Cluster, extraNodePolicies ...string) string {
	return awsapi.NewDocument(statements(c, extraNodePolicies)...).String()
}

func statements(c inventory.Cluster, extra []string) []awsapi.Statement {
	return withoutProvided(c, slices.Concat(readStatements(c), groupStatements(c), clusterStatements(c), roleStatements(c, extra), interruptionStatements(c), removalStatements(c)))
}

func named(sid string, s awsapi.Statement) awsapi.Statement {
	s.Sid = sid
	return s
}

// readStatements are reads that AWS does not scope to resources, and reads of roles whose names are not castoff's: its
// own, and those of the nodes that are there.
func readStatements(c inventory.Cluster) []awsapi.Statement {
	return []awsapi.Statement{
		named("Read", when(allow([]string{
			"autoscaling:DescribeAutoScalingGroups", "autoscaling:DescribeInstanceRefreshes", "autoscaling:DescribeLaunchConfigurations",
			"autoscaling:DescribeLifecycleHooks", "autoscaling:DescribePolicies", "autoscaling:DescribeScalingActivities", "autoscaling:DescribeScheduledActions",
			"ec2:DescribeImages", "ec2:DescribeInstanceTypes", "ec2:DescribeLaunchTemplates", "ec2:DescribeLaunchTemplateVersions", "ec2:DescribeSecurityGroups", "ec2:GetInstanceTypesFromInstanceRequirements",
			"cloudwatch:GetMetricData", "ec2:DescribeDhcpOptions", "ec2:DescribeInstances", "ec2:DescribeSubnets", "ec2:DescribeVpcs", "eks:DescribeAddon", "servicequotas:GetServiceQuota",
			"events:ListRuleNamesByTarget",
		}, []string{"*"}), "StringEquals", "aws:RequestedRegion", c.Region)),
		named("ReadIdentity", allow([]string{"iam:ListInstanceProfiles", "sts:GetCallerIdentity"}, []string{"*"})),
		named("ReadRoles", allow([]string{
			"iam:GetRole", "iam:ListAttachedRolePolicies", "iam:ListInstanceProfilesForRole", "iam:ListRolePolicies", "iam:SimulatePrincipalPolicy",
		}, []string{awsapi.GlobalARN(c, "iam", "role/*")})),
		named("ReadProfiles", allow([]string{"iam:GetInstanceProfile"}, []string{awsapi.GlobalARN(c, "iam", "instance-profile/*")})),
		named("ReadRules", allow([]string{"events:DescribeRule", "events:ListTagsForResource"}, []string{awsapi.ARN(c, "events", "rule/*")})),
	}
}

// groupStatements are changes of Auto Scaling groups that carry one of the cluster's tags, the way back and the deletion at
// the end among them. EKS tags those of managed node groups; a group that Cluster Autoscaler knows by --nodes alone may need
// one of the tags first.
func groupStatements(c inventory.Cluster) []awsapi.Statement {
	writes := allow([]string{
		"autoscaling:BatchDeleteScheduledAction", "autoscaling:DeleteAutoScalingGroup", "autoscaling:DeletePolicy", "autoscaling:PutScalingPolicy",
		"autoscaling:PutScheduledUpdateGroupAction", "autoscaling:ResumeProcesses", "autoscaling:SuspendProcesses",
		"autoscaling:TerminateInstanceInAutoScalingGroup", "autoscaling:UpdateAutoScalingGroup",
	}, []string{awsapi.ARN(c, "autoscaling", "autoScalingGroup:*:autoScalingGroupName/*")})
	ofCluster := writes // of a group that it knows by the other tag alone castoff could take its own rights away with the tag
	ofCluster.Action = slices.Sorted(slices.Values(append(slices.Clone(writes.Action), "autoscaling:CreateOrUpdateTags", "autoscaling:DeleteTags")))
	return []awsapi.Statement{
		named("GroupsOfCluster", when(ofCluster, "Null", resourceTag+"/kubernetes.io/cluster/"+c.Name, "false")),
		named("GroupsOfAutoscaler", when(writes, "Null", resourceTag+"/k8s.io/cluster-autoscaler/"+c.Name, "false")),
	}
}

func clusterStatements(c inventory.Cluster) []awsapi.Statement {
	object := func(kind, rest string) string { return awsapi.ARN(c, "eks", kind+"/"+c.Name+"/"+rest) }
	entry := when(allow([]string{"eks:CreateAccessEntry"}, []string{c.ARN}), "ArnEquals", "eks:principalArn", awsapi.GlobalARN(c, "iam", "role/"+NodeRoleName(c.Name)))
	return []awsapi.Statement{
		named("Cluster", allow([]string{"eks:CreatePodIdentityAssociation", "eks:DescribeCluster", "eks:ListNodegroups", "eks:ListPodIdentityAssociations"}, []string{c.ARN})),
		named("NodeGroups", allow([]string{"eks:DeleteNodegroup", "eks:DescribeNodegroup", "eks:UpdateNodegroupConfig"}, []string{object("nodegroup", "*/*")})),
		named("NodeAccess", when(entry, "StringEquals", "eks:accessEntryType", entryTypeNodes)),
		named("ReadAccess", allow([]string{"eks:DescribeAccessEntry", "eks:DescribePodIdentityAssociation"}, []string{object("access-entry", "*"), object("podidentityassociation", "*")})),
		named("TagAccess", made(allow([]string{"eks:TagResource"}, []string{object("access-entry", "*"), object("podidentityassociation", "*")}))),
	}
}

// made asks for castoff's tag on what is being made.
func made(s awsapi.Statement) awsapi.Statement {
	return when(s, "StringEquals", requestTag+"/"+v1alpha1.TagManagedBy, v1alpha1.TagManagedByValue)
}

// roleStatements let castoff make the two roles, and hand the controller's, and no other, to Pod Identity.
func roleStatements(c inventory.Cluster, extra []string) []awsapi.Statement {
	both := roleARNs(c)
	node, controller := both[0], both[1]
	return slices.Concat(
		bounded(c, named("MakeRoles", made(allow([]string{"iam:CreateRole", "iam:TagRole"}, both)))),
		bounded(c, named("NodeRole", when(allow([]string{"iam:AttachRolePolicy"}, []string{node}), "ArnEquals", "iam:PolicyARN", nodeRole(c, extra).attached...))),
		bounded(c, named("ControllerRole", allow([]string{"iam:GetRolePolicy", "iam:PutRolePolicy"}, []string{controller}))),
		[]awsapi.Statement{
			named("MendTrust", allow([]string{"iam:UpdateAssumeRolePolicy"}, both)),
			named("PassControllerRole", when(allow([]string{"iam:PassRole"}, []string{controller}), "StringEquals", "iam:PassedToService", podIdentityService)),
		},
	)
}

// What gives a role rights, and what AWS knows then of the permissions boundary: of a role that is made, the one it is given; of one that
// gets a policy, the one it has (service authorization reference).
var givesRights = []string{"iam:AttachRolePolicy", "iam:CreateRole", "iam:PutRolePolicy"}

const boundaryKey = "iam:PermissionsBoundary"

// bounded asks for the boundary of the roles that castoff makes, where there is one. Without it, who may write the policies of a role
// and hand that to pods can have any right (IAM user guide, delegating responsibility to others by permissions boundaries). Actions for
// which AWS does not know the boundary get a statement of their own.
func bounded(c inventory.Cluster, s awsapi.Statement) []awsapi.Statement {
	if c.RolesBoundary == "" || c.Provided.Identity() {
		return []awsapi.Statement{s}
	}
	gives := func(action string) bool { return slices.Contains(givesRights, action) }
	rest := named(s.Sid+"Besides", s)
	rest.Action = slices.DeleteFunc(slices.Clone(s.Action), gives)
	s.Action = slices.DeleteFunc(slices.Clone(s.Action), func(a string) bool { return !gives(a) })
	out := []awsapi.Statement{when(s, "StringEquals", boundaryKey, c.RolesBoundary)}
	if len(rest.Action) > 0 {
		out = append(out, rest)
	}
	return out
}

func interruptionStatements(c inventory.Cluster) []awsapi.Statement {
	queue := awsapi.ARN(c, "sqs", awsapi.QueueName(c.Name))
	var rules []string
	for _, k := range awsapi.EventKinds() {
		rules = append(rules, awsapi.ARN(c, "events", "rule/"+awsapi.RuleName(c.Name, k)))
	}
	return []awsapi.Statement{
		named("Queue", allow([]string{"sqs:CreateQueue", "sqs:GetQueueAttributes", "sqs:GetQueueUrl", "sqs:ListQueueTags", "sqs:SetQueueAttributes", "sqs:TagQueue"}, []string{queue})),
		named("Rules", allow([]string{"events:PutRule", "events:TagResource"}, rules)),
		named("Targets", when(allow([]string{"events:PutTargets"}, []string{anyRule(c)}), "ArnEquals", "events:TargetArn", queue)),
	}
}

// removalStatements let castoff take away what it made, which a tag tells: where the resource does not say for which cluster,
// the one that names the cluster. Karpenter's instance profiles of the cluster are known by their path.
func removalStatements(c inventory.Cluster) []awsapi.Statement {
	removes := func(tag, value string, actions []string, resources ...string) awsapi.Statement {
		return when(allow(actions, resources), "StringEquals", resourceTag+"/"+tag, value)
	}
	made := func(action, resource string) awsapi.Statement {
		return removes(v1alpha1.TagManagedBy, v1alpha1.TagManagedByValue, []string{action}, resource)
	}
	return []awsapi.Statement{
		named("RemoveAccess", made("eks:DeleteAccessEntry", awsapi.ARN(c, "eks", "access-entry/"+c.Name+"/*"))),
		named("RemovePodIdentity", made("eks:DeletePodIdentityAssociation", awsapi.ARN(c, "eks", "podidentityassociation/"+c.Name+"/*"))),
		named("RemoveQueue", made("sqs:DeleteQueue", awsapi.ARN(c, "sqs", awsapi.QueueName(c.Name)))),
		named("RemoveRoles", removes(v1alpha1.LabelCluster, c.ARN, []string{"iam:DeleteRole", "iam:DeleteRolePolicy", "iam:DetachRolePolicy"}, roleARNs(c)...)),
		named("RemoveRules", removes(v1alpha1.LabelCluster, c.ARN, []string{"events:DeleteRule", "events:RemoveTargets"}, anyRule(c))),
		named("RemoveProfiles", allow([]string{"iam:DeleteInstanceProfile", "iam:RemoveRoleFromInstanceProfile"}, []string{awsapi.GlobalARN(c, "iam", "instance-profile"+profilePath(c)+"*")})),
	}
}

// roleARNs are those of the node role and of the controller's, as castoff makes them.
func roleARNs(c inventory.Cluster) []string {
	return []string{awsapi.GlobalARN(c, "iam", "role/"+NodeRoleName(c.Name)), awsapi.GlobalARN(c, "iam", "role/"+ControllerRoleName(c.Name))}
}

// anyRule stands for the rules that any castoff of the account made; a condition narrows it to the cluster's. Five names,
// written out in three statements, would take a fifth of the policy's room.
func anyRule(c inventory.Cluster) string { return awsapi.ARN(c, "events", "rule/castoff-*") }

// PermissionsBoundary is a permissions boundary for castoff's own role: whatever policies that role is ever given, it
// can do no more than what castoff does, in this region, and change no role but the two; and give those rights only where they have the
// boundary that roles of castoff's making have to have.
func PermissionsBoundary(c inventory.Cluster, extraNodePolicies ...string) string {
	var actions, regional []string
	for _, s := range statements(c, extraNodePolicies) {
		actions = append(actions, s.Action...)
	}
	slices.Sort(actions)
	actions = slices.Compact(actions)
	for _, service := range []string{"autoscaling", "cloudwatch", "ec2", "eks", "events", "servicequotas", "sqs"} {
		regional = append(regional, service+":*")
	}
	deny := func(actions []string, resources ...string) awsapi.Statement {
		return awsapi.Statement{Effect: "Deny", Action: actions, Resource: resources}
	}
	all := []awsapi.Statement{
		named("AtMost", allow(actions, []string{"*"})),
		named("ThisRegion", when(deny(regional, "*"), "StringNotEquals", "aws:RequestedRegion", c.Region)),
		named("TwoRoles", awsapi.Statement{Effect: "Deny", NotResource: roleARNs(c), Action: []string{
			"iam:AttachRolePolicy", "iam:CreateRole", "iam:DeleteRole", "iam:DeleteRolePolicy", "iam:DetachRolePolicy",
			"iam:PassRole", "iam:PutRolePolicy", "iam:TagRole", "iam:UpdateAssumeRolePolicy",
		}}),
		named("NodePolicies", when(deny([]string{"iam:AttachRolePolicy"}, "*"), "ArnNotEquals", "iam:PolicyARN", nodeRole(c, extraNodePolicies).attached...)),
		named("PassToPods", when(deny([]string{"iam:PassRole"}, "*"), "StringNotEquals", "iam:PassedToService", podIdentityService)),
	}
	if c.RolesBoundary != "" {
		all = append(all, named("BoundedRoles", when(deny(givesRights, "*"), "StringNotEquals", boundaryKey, c.RolesBoundary)))
	}
	return awsapi.NewDocument(all...).String()
}
