package identity

import (
	"cmp"
	"strings"

	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/inventory/awsapi"
)

// podIdentityService assumes roles on behalf of pods (EKS user guide, Pod Identity), in every partition.
const podIdentityService = "pods.eks.amazonaws.com"

var podIdentityActions = []string{"sts:AssumeRole", "sts:TagSession"}

// ec2Service is EC2's service principal, which in China has a suffix of its own.
func ec2Service(c inventory.Cluster) string {
	if strings.HasPrefix(c.Partition, "aws-cn") {
		return "ec2.amazonaws.com.cn"
	}
	return "ec2.amazonaws.com"
}

// NodeTrust is the trust policy of the node role.
func NodeTrust(c inventory.Cluster) string { return nodeTrust(c).String() }

// ControllerTrust is the trust policy of the controller role.
func ControllerTrust(inventory.Cluster) string { return controllerTrust().String() }

func nodeTrust(c inventory.Cluster) awsapi.Document {
	return trust(ec2Service(c), "sts:AssumeRole")
}

func controllerTrust() awsapi.Document { return trust(podIdentityService, podIdentityActions...) }

func trust(service string, actions ...string) awsapi.Document {
	return awsapi.NewDocument(awsapi.Statement{Effect: "Allow", Principal: map[string]string{"Service": service}, Action: actions})
}

// The tags that Karpenter puts on everything it makes, by which its rights are scoped.
const (
	tagNodePool  = "karpenter.sh/nodepool"
	tagNodeClaim = "karpenter.sh/nodeclaim"
	tagNodeClass = "karpenter.k8s.aws/ec2nodeclass"
	tagCluster   = "eks:eks-cluster-name"
	tagRegion    = "topology.kubernetes.io/region"
)

func tagOwned(c inventory.Cluster) string { return "kubernetes.io/cluster/" + c.Name }

// ControllerPolicies are the controller role's inline policies by name: what Karpenter's calls need, scoped to the
// cluster by tags. Together they stay below what IAM allows a role (10,240 characters), also with the longest cluster
// name that EKS allows.
func ControllerPolicies(c inventory.Cluster) map[string]string {
	out := map[string]string{}
	for name, statements := range map[string][]awsapi.Statement{
		"NodeLifecycle":     nodeLifecycle(c),
		"IAMIntegration":    instanceProfiles(c),
		"EKSIntegration":    {allow([]string{"eks:DescribeCluster"}, []string{c.ARN})},
		"Interruption":      interruptions(c),
		"ZonalShift":        {allow([]string{"arc-zonal-shift:GetManagedResource"}, []string{c.ARN})},
		"ResourceDiscovery": discovery(c),
	} {
		if len(statements) == 0 {
			continue
		}
		out["Karpenter"+name] = awsapi.NewDocument(statements...).String()
	}
	return out
}

// interruptions lets Karpenter read its queue, if it has one.
func interruptions(c inventory.Cluster) []awsapi.Statement {
	if c.Provided.NoQueue {
		return nil
	}
	queue := awsapi.ARN(c, "sqs", cmp.Or(c.Provided.Queue, awsapi.QueueName(c.Name)))
	return []awsapi.Statement{allow([]string{"sqs:DeleteMessage", "sqs:GetQueueUrl", "sqs:ReceiveMessage"}, []string{queue})}
}

func allow(actions, resources []string) awsapi.Statement {
	return awsapi.Statement{Effect: "Allow", Action: actions, Resource: resources}
}

// when adds a condition to the statement: operator, key, values.
func when(s awsapi.Statement, operator, key string, values ...string) awsapi.Statement {
	conditions := awsapi.Conditions{}
	for o, keys := range s.Condition {
		conditions[o] = keys
	}
	keys := map[string]awsapi.Strings{key: values}
	for k, v := range conditions[operator] {
		keys[k] = v
	}
	conditions[operator] = keys
	s.Condition = conditions
	return s
}

// tagged asks for the tags of Karpenter's own on what exists already ("aws:ResourceTag") or is being made
// ("aws:RequestTag").
func tagged(s awsapi.Statement, c inventory.Cluster, where, anyTag string) awsapi.Statement {
	s = when(s, "StringEquals", where+"/"+tagOwned(c), "owned")
	if where == requestTag {
		s = when(s, "StringEquals", where+"/"+tagCluster, c.Name)
	}
	return when(s, "StringLike", where+"/"+anyTag, "*")
}

const (
	requestTag  = "aws:RequestTag"
	resourceTag = "aws:ResourceTag"
)

// ec2Resources are ARNs of the kinds of EC2 objects. Images, snapshots and the like may belong to other accounts.
func ec2Resources(c inventory.Cluster, account string, kinds ...string) []string {
	var out []string
	for _, kind := range kinds {
		out = append(out, "arn:"+c.Partition+":ec2:"+c.Region+":"+account+":"+kind+"/*")
	}
	return out
}

// nodeLifecycle lets Karpenter launch, tag and end its own instances, and keep its own launch templates.
func nodeLifecycle(c inventory.Cluster) []awsapi.Statement {
	launch := []string{"ec2:RunInstances", "ec2:CreateFleet"}
	create := append([]string{"ec2:CreateLaunchTemplate"}, launch...)
	made := ec2Resources(c, c.Account, "fleet", "instance", "volume", "network-interface", "launch-template", "spot-instances-request")
	own := ec2Resources(c, c.Account, "instance", "launch-template")
	retag := tagged(allow([]string{"ec2:CreateTags"}, ec2Resources(c, c.Account, "instance")), c, resourceTag, tagNodePool)
	retag = when(retag, "StringEqualsIfExists", requestTag+"/"+tagCluster, c.Name)
	return []awsapi.Statement{
		allow(launch, ec2Resources(c, "*", "image", "snapshot", "security-group", "subnet", "capacity-reservation", "placement-group")),
		tagged(allow(launch, ec2Resources(c, c.Account, "launch-template")), c, resourceTag, tagNodePool),
		tagged(allow(create, made), c, requestTag, tagNodePool),
		when(tagged(allow([]string{"ec2:CreateTags"}, made), c, requestTag, tagNodePool), "StringEquals", "ec2:CreateAction", "RunInstances", "CreateFleet", "CreateLaunchTemplate"),
		when(retag, "ForAllValues:StringEquals", "aws:TagKeys", tagCluster, tagNodeClaim, "Name"),
		tagged(allow([]string{"ec2:TerminateInstances", "ec2:DeleteLaunchTemplate"}, own), c, resourceTag, tagNodePool),
	}
}

// instanceProfiles lets Karpenter hand the node role, and no other, to EC2, and keep instance profiles of its own.
func instanceProfiles(c inventory.Cluster) []awsapi.Statement {
	profiles := []string{awsapi.GlobalARN(c, "iam", "instance-profile/*")}
	inRegion := func(s awsapi.Statement, where string) awsapi.Statement {
		return when(tagged(s, c, where, tagNodeClass), "StringEquals", where+"/"+tagRegion, c.Region)
	}
	return []awsapi.Statement{
		when(allow([]string{"iam:PassRole"}, []string{awsapi.GlobalARN(c, "iam", "role/"+NodeRole(c))}), "StringEquals", "iam:PassedToService", ec2Service(c)),
		inRegion(allow([]string{"iam:CreateInstanceProfile"}, profiles), requestTag),
		inRegion(inRegion(allow([]string{"iam:TagInstanceProfile"}, profiles), resourceTag), requestTag),
		inRegion(allow([]string{"iam:AddRoleToInstanceProfile", "iam:RemoveRoleFromInstanceProfile", "iam:DeleteInstanceProfile"}, profiles), resourceTag),
		allow([]string{"iam:GetInstanceProfile"}, profiles),
		allow([]string{"iam:ListInstanceProfiles"}, []string{"*"}),
		allow([]string{"iam:GetRole"}, []string{awsapi.GlobalARN(c, "iam", "role/"+NodeRole(c))}),
	}
}

// discovery is what Karpenter reads.
func discovery(c inventory.Cluster) []awsapi.Statement {
	reads := []string{
		"ec2:DescribeCapacityReservations", "ec2:DescribeImages", "ec2:DescribeInstances", "ec2:DescribeInstanceStatus",
		"ec2:DescribeInstanceTypeOfferings", "ec2:DescribeInstanceTypes", "ec2:DescribeLaunchTemplates", "ec2:DescribePlacementGroups",
		"ec2:DescribeSecurityGroups", "ec2:DescribeSpotPriceHistory", "ec2:DescribeSubnets",
	}
	return []awsapi.Statement{
		when(allow(reads, []string{"*"}), "StringEquals", "aws:RequestedRegion", c.Region),
		allow([]string{"ssm:GetParameter"}, []string{"arn:" + c.Partition + ":ssm:" + c.Region + "::parameter/aws/service/*"}),
		allow([]string{"pricing:GetProducts"}, []string{"*"}),
	}
}
