package policy

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/castoff-sh/castoff/e2e/awssim/simapi"
	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/inventory/awsapi"
)

// Reader turns the calls of a log, in their order, into what each asks of IAM: the actions of the call and those that AWS
// asks for beside it, each on its resources, with the condition keys that the service authorization reference lists for it
// (https://docs.aws.amazon.com/service-authorization/latest/reference/reference.html). It remembers what calls name only:
// what is in a launch template, which role is in an instance profile, and which boundary a role was given.
type Reader struct {
	cluster    inventory.Cluster
	templates  map[string]templateData // by name
	profiles   map[string]string       // roles by instance profile
	boundaries map[string]string       // permissions boundaries by role
}

// NewReader makes one for the calls of a cluster's account and region.
func NewReader(c inventory.Cluster) *Reader {
	return &Reader{cluster: c, templates: map[string]templateData{}, profiles: map[string]string{}, boundaries: map[string]string{}}
}

// call is one of the log with its input read.
type call struct {
	simapi.Call
	action string
	in     input
}

// input are the members of inputs that decide about resources and condition keys.
type input struct {
	Name, ClusterName, NodegroupName, AddonName, AssociationID string
	PrincipalARN, Type                                         string
	RoleName, RoleARN, PolicyARN, PolicySourceARN              string
	InstanceProfileName, Path, PathPrefix                      string
	PermissionsBoundary                                        string
	QueueName, QueueURL                                        string
	Rule, ResourceARN                                          string
	Targets                                                    []struct{ ARN string }
	Tags                                                       tagSet
	launchInput
}

// tagSet are tags, which EKS and SQS write as a map and the others as a list.
type tagSet map[string]string

// UnmarshalJSON reads either form. The log leaves empty values out.
func (t *tagSet) UnmarshalJSON(b []byte) error {
	*t = tagSet{}
	var list []struct{ Key, Value string }
	if json.Unmarshal(b, &list) != nil {
		return json.Unmarshal(b, (*map[string]string)(t))
	}
	for _, tag := range list {
		(*t)[tag.Key] = tag.Value
	}
	return nil
}

// prefixes are those of IAM where they are not the service's name in the log.
var prefixes = map[string]string{"monitoring": "cloudwatch"}

// Requests are what the call asks. A call that the reader does not know is an error: nothing is allowed by not being looked at.
func (r *Reader) Requests(logged simapi.Call) ([]Request, error) {
	c := call{Call: logged, action: logged.Service + ":" + logged.Operation}
	if p, ok := prefixes[logged.Service]; ok {
		c.action = p + ":" + logged.Operation
	}
	if len(logged.Input) > 0 {
		if err := json.Unmarshal(logged.Input, &c.in); err != nil {
			return nil, fmt.Errorf("reading the input of %s: %w", c.action, err)
		}
	}
	requests := r.requests(c)
	if len(requests) == 0 {
		return nil, fmt.Errorf("%s: the reader does not know its resources: teach it by the service authorization reference", c.action)
	}
	r.remember(c)
	for i := range requests {
		r.complete(c, &requests[i])
	}
	return requests, nil
}

// remember keeps what later calls only name.
func (r *Reader) remember(c call) {
	switch {
	case c.action == "ec2:CreateLaunchTemplate":
		r.templates[c.in.LaunchTemplateName] = c.in.LaunchTemplateData
	case c.action == "iam:AddRoleToInstanceProfile":
		r.profiles[c.in.InstanceProfileName] = c.in.RoleName
	case c.action == "iam:CreateRole" && c.Status < 300:
		r.boundaries[c.in.RoleName] = c.in.PermissionsBoundary
	}
}

// complete adds the keys that every request has, and the tags of the resource as it was.
func (r *Reader) complete(c call, q *Request) {
	if q.Context == nil {
		q.Context = map[string][]string{}
	}
	q.Context["aws:RequestedRegion"] = []string{r.region(q.Action)}
	for k, v := range c.Targets[q.Resource] {
		q.Context["aws:ResourceTag/"+k] = []string{v}
	}
}

// region is where the request goes. IAM answers for the whole partition from one region (IAM user guide, aws:RequestedRegion).
func (r *Reader) region(action string) string {
	if !strings.HasPrefix(action, "iam:") {
		return r.cluster.Region
	}
	switch r.cluster.Partition {
	case "aws-cn":
		return "cn-north-1"
	case "aws-us-gov":
		return "us-gov-west-1"
	default:
		return "us-east-1"
	}
}

func (r *Reader) requests(c call) []Request {
	switch {
	case unscoped(c.action):
		return []Request{{Action: c.action, Resource: "*"}}
	case c.Service == "autoscaling":
		return c.each(c.target(awsapi.ARN(r.cluster, "autoscaling", "autoScalingGroup:*:autoScalingGroupName/*")))
	case c.Service == "eks":
		return r.eks(c)
	case c.Service == "iam":
		return r.iam(c)
	case c.Service == "sqs":
		return r.queue(c)
	case c.Service == "events":
		return r.rule(c)
	case c.action == "arc-zonal-shift:GetManagedResource":
		return c.each(r.cluster.ARN)
	case c.action == "ssm:GetParameter": // a public parameter, which belongs to no account
		return c.each("arn:" + r.cluster.Partition + ":ssm:" + r.cluster.Region + "::parameter" + c.in.Name)
	case c.Service == "ec2":
		return r.ec2(c)
	}
	return nil
}

// unscoped are the actions for which the reference lists no resource type.
func unscoped(action string) bool {
	for _, prefix := range []string{"ec2:Describe", "autoscaling:Describe"} {
		if strings.HasPrefix(action, prefix) {
			return true
		}
	}
	return slices.Contains([]string{
		"cloudwatch:GetMetricData", "ec2:GetInstanceTypesFromInstanceRequirements", "events:ListRuleNamesByTarget", "pricing:GetProducts",
		"servicequotas:GetServiceQuota", "sts:GetCallerIdentity",
	}, action)
}

// each asks for the call's action on every one of the resources.
func (c call) each(resources ...string) (requests []Request) {
	for _, resource := range resources {
		requests = append(requests, Request{Action: c.action, Resource: resource})
	}
	return requests
}

// target is the ARN of the thing as it is, or where there is none, the ARN that it would have: the pattern itself.
func (c call) target(pattern string) string {
	for _, arn := range slices.Sorted(maps.Keys(c.Targets)) {
		if matchARN(pattern, arn) {
			return arn
		}
	}
	return pattern
}

// tagging are the keys of a request that makes a thing with tags, or tags it.
func tagging(tags map[string]string) map[string][]string {
	context := map[string][]string{}
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		context["aws:RequestTag/"+key] = []string{tags[key]}
		context["aws:TagKeys"] = append(context["aws:TagKeys"], key)
	}
	return context
}

// with adds keys to the context.
func (q Request) with(more map[string][]string) Request {
	context := maps.Clone(more)
	if context == nil {
		context = map[string][]string{}
	}
	maps.Copy(context, q.Context)
	q.Context = context
	return q
}

// creates is the request for a thing with tags, and the one for tagging it where AWS asks for that too.
func (c call) creates(tagAction string, q Request, tagged string) []Request {
	q = q.with(tagging(c.in.Tags))
	if len(c.in.Tags) == 0 {
		return []Request{q}
	}
	return []Request{q, {Action: tagAction, Resource: tagged, Context: tagging(c.in.Tags)}}
}

func (r *Reader) passRole(arn, service string) Request {
	return Request{Action: "iam:PassRole", Resource: arn, Context: map[string][]string{"iam:PassedToService": {service}}}
}

func (r *Reader) eks(c call) []Request {
	object := func(kind, rest string) string {
		return c.target(awsapi.ARN(r.cluster, "eks", kind+"/"+c.in.ClusterName+"/"+rest))
	}
	cluster := Request{Action: c.action, Resource: awsapi.ARN(r.cluster, "eks", "cluster/"+c.in.ClusterName+c.in.Name)}
	entry := object("access-entry", "role/"+r.cluster.Account+"/"+awsapi.LastSegment(c.in.PrincipalARN)+"/*")
	switch c.Operation {
	case "DescribeCluster", "ListNodegroups", "ListPodIdentityAssociations":
		return []Request{cluster}
	case "DescribeAddon":
		return c.each(object("addon", c.in.AddonName+"/*"))
	case "DescribeNodegroup", "UpdateNodegroupConfig", "DeleteNodegroup":
		return c.each(object("nodegroup", c.in.NodegroupName+"/*"))
	case "DescribePodIdentityAssociation", "DeletePodIdentityAssociation":
		return c.each(object("podidentityassociation", c.in.AssociationID))
	case "DescribeAccessEntry", "DeleteAccessEntry":
		return c.each(entry)
	case "CreateAccessEntry":
		cluster.Context = map[string][]string{"eks:principalArn": {c.in.PrincipalARN}, "eks:accessEntryType": {c.in.Type}}
		return c.creates("eks:TagResource", cluster, entry)
	case "CreatePodIdentityAssociation":
		return append(c.creates("eks:TagResource", cluster, object("podidentityassociation", "*")),
			r.passRole(c.in.RoleARN, "pods.eks.amazonaws.com"), Request{Action: "iam:GetRole", Resource: c.in.RoleARN})
	}
	return nil
}

func (r *Reader) iam(c call) []Request {
	role := c.target(awsapi.GlobalARN(r.cluster, "iam", "role/"+c.in.RoleName))
	profile := c.target(awsapi.GlobalARN(r.cluster, "iam", "instance-profile"+strings.TrimSuffix("/"+strings.Trim(c.in.Path, "/"), "/")+"/"+c.in.InstanceProfileName))
	if c.in.Path == "" {
		profile = c.target(awsapi.GlobalARN(r.cluster, "iam", "instance-profile/*"+c.in.InstanceProfileName))
	}
	switch c.Operation {
	case "ListInstanceProfiles":
		return c.each(awsapi.GlobalARN(r.cluster, "iam", "instance-profile"+c.in.PathPrefix+"*"))
	case "SimulatePrincipalPolicy":
		return c.each(c.in.PolicySourceARN)
	case "CreateRole":
		return c.creates("iam:TagRole", Request{Action: c.action, Resource: role}.with(bounded(c.in.PermissionsBoundary)), role)
	case "AttachRolePolicy", "DetachRolePolicy":
		q := Request{Action: c.action, Resource: role, Context: map[string][]string{"iam:PolicyARN": {c.in.PolicyARN}}}
		return []Request{q.with(bounded(r.boundaries[c.in.RoleName]))}
	case "PutRolePolicy", "DeleteRolePolicy":
		return []Request{{Action: c.action, Resource: role, Context: bounded(r.boundaries[c.in.RoleName])}}
	case "GetRole", "ListAttachedRolePolicies", "ListRolePolicies", "ListInstanceProfilesForRole", "GetRolePolicy", "DeleteRole", "UpdateAssumeRolePolicy":
		return c.each(role)
	case "CreateInstanceProfile", "TagInstanceProfile":
		// Karpenter's own documented policy has no iam:TagInstanceProfile without aws:ResourceTag, and yet it makes profiles with tags.
		return []Request{{Action: c.action, Resource: profile, Context: tagging(c.in.Tags)}}
	case "AddRoleToInstanceProfile":
		return append(c.each(profile), r.passRole(role, r.ec2Service()))
	case "GetInstanceProfile", "RemoveRoleFromInstanceProfile", "DeleteInstanceProfile":
		return c.each(profile)
	}
	return nil
}

// bounded is the key for a permissions boundary, missing where there is none.
func bounded(boundary string) map[string][]string {
	if boundary == "" {
		return nil
	}
	return map[string][]string{"iam:PermissionsBoundary": {boundary}}
}

// ec2Service is EC2's service principal, which in China has a suffix of its own.
func (r *Reader) ec2Service() string {
	if r.cluster.Partition == "aws-cn" {
		return "ec2.amazonaws.com.cn"
	}
	return "ec2.amazonaws.com"
}

func (r *Reader) queue(c call) []Request {
	name := c.in.QueueName
	if name == "" {
		name = awsapi.LastSegment(c.in.QueueURL)
	}
	queue := awsapi.ARN(r.cluster, "sqs", name)
	switch c.Operation {
	case "CreateQueue":
		return c.creates("sqs:TagQueue", Request{Action: c.action, Resource: queue}, queue)
	case "DeleteQueue", "GetQueueAttributes", "GetQueueUrl", "ListQueueTags", "SetQueueAttributes", "TagQueue", "ReceiveMessage", "DeleteMessage":
		return []Request{{Action: c.action, Resource: queue, Context: tagging(c.in.Tags)}}
	}
	return nil
}

func (r *Reader) rule(c call) []Request {
	rule := awsapi.ARN(r.cluster, "events", "rule/"+c.in.Name+c.in.Rule)
	switch c.Operation {
	case "PutRule":
		return c.creates("events:TagResource", Request{Action: c.action, Resource: rule}, rule)
	case "DeleteRule", "DescribeRule", "RemoveTargets":
		return c.each(rule)
	case "ListTagsForResource":
		return c.each(c.in.ResourceARN)
	case "TagResource":
		return []Request{{Action: c.action, Resource: c.in.ResourceARN, Context: tagging(c.in.Tags)}}
	case "PutTargets":
		context := map[string][]string{}
		for _, t := range c.in.Targets {
			context["events:TargetArn"] = append(context["events:TargetArn"], t.ARN)
		}
		return []Request{{Action: c.action, Resource: rule, Context: context}}
	}
	return nil
}
