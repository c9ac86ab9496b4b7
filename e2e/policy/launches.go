package policy

import (
	"maps"
	"slices"
	"strings"

	"github.com/castoff-sh/castoff/pkg/inventory/awsapi"
)

// launchInput are the members of EC2's inputs.
type launchInput struct {
	InstanceIDs, Resources               []string
	LaunchTemplateName, LaunchTemplateID string
	LaunchTemplateData                   templateData
	LaunchTemplate                       namedTemplate
	LaunchTemplateConfigs                []struct {
		LaunchTemplateSpecification namedTemplate
		Overrides                   []struct{ ImageID, SubnetID string }
	}
	NetworkInterfaces           []networkInterface
	TagSpecifications           tagSpecifications
	TargetCapacitySpecification struct{ DefaultTargetCapacityType string }
}

type namedTemplate struct{ LaunchTemplateName, LaunchTemplateID string }

// templateData is what of a launch template decides about a launch.
type templateData struct {
	ImageID             string
	IamInstanceProfile  struct{ Name string }
	NetworkInterfaces   []networkInterface
	SecurityGroupIDs    []string
	BlockDeviceMappings []struct{ Ebs struct{ SnapshotID string } }
	TagSpecifications   tagSpecifications
}

type networkInterface struct {
	SubnetID string
	Groups   []string
}

type tagSpecifications []struct {
	ResourceType string
	Tags         tagSet
}

// of are the tags for one type of resource.
func (t tagSpecifications) of(resourceType string) map[string]string {
	out := map[string]string{}
	for _, s := range t {
		if s.ResourceType == resourceType {
			maps.Copy(out, s.Tags)
		}
	}
	return out
}

func (r *Reader) ec2(c call) []Request {
	switch c.Operation {
	case "TerminateInstances":
		return c.each(r.ids("instance", c.in.InstanceIDs...)...)
	case "CreateTags":
		requests := c.each(r.ids("instance", c.in.Resources...)...)
		for i := range requests {
			requests[i].Context = tagging(c.in.Tags)
		}
		return requests
	case "DeleteLaunchTemplate":
		return c.each(c.target(awsapi.ARN(r.cluster, "ec2", "launch-template/*"+c.in.LaunchTemplateID)))
	case "CreateLaunchTemplate":
		return r.made("CreateLaunchTemplate", "launch-template", c.in.TagSpecifications)
	case "CreateFleet":
		// An instant fleet launches at once, on behalf of the caller, who must be allowed both (EC2 user guide, EC2 Fleet prerequisites).
		fleet := append(r.made("CreateFleet", "fleet", c.in.TagSpecifications), r.launch(c, "CreateFleet")...)
		return append(fleet, r.launch(c, "RunInstances")...)
	case "RunInstances":
		return r.launch(c, "RunInstances")
	}
	return nil
}

// ids are ARNs. Instances and all else that a caller tags belong to the account.
func (r *Reader) ids(kind string, ids ...string) (arns []string) {
	for _, id := range ids {
		arns = append(arns, awsapi.ARN(r.cluster, "ec2", kind+"/"+id))
	}
	return arns
}

// made asks for making a thing of the kind and, with tags, for tagging it, which ec2:CreateAction tells from tagging later.
func (r *Reader) made(action, kind string, specifications tagSpecifications) []Request {
	resource, tags := awsapi.ARN(r.cluster, "ec2", kind+"/*"), specifications.of(kind)
	requests := []Request{{Action: "ec2:" + action, Resource: resource, Context: tagging(tags)}}
	if len(tags) > 0 {
		tag := Request{Action: "ec2:CreateTags", Resource: resource, Context: tagging(tags)}
		requests = append(requests, tag.with(map[string][]string{"ec2:CreateAction": {action}}))
	}
	return requests
}

// launch asks for everything that a launch makes and uses. Tags of the launch template count as the request's (EC2 user guide,
// tagging on creation).
func (r *Reader) launch(c call, action string) []Request {
	templates := []namedTemplate{c.in.LaunchTemplate}
	for _, config := range c.in.LaunchTemplateConfigs {
		templates = append(templates, config.LaunchTemplateSpecification)
	}
	used, passed, specifications := r.ownUse(c), []Request(nil), slices.Clone(c.in.TagSpecifications)
	for _, named := range templates {
		if named == (namedTemplate{}) {
			continue
		}
		data := r.templates[named.LaunchTemplateName]
		used = append(used, data.uses(r)...)
		specifications = append(specifications, data.TagSpecifications...)
		if role := r.profiles[data.IamInstanceProfile.Name]; role != "" && action == "RunInstances" {
			passed = append(passed, r.passRole(awsapi.GlobalARN(r.cluster, "iam", "role/"+role), r.ec2Service()))
		}
	}
	for arn := range c.Targets {
		if strings.Contains(arn, ":launch-template/") {
			used = append(used, arn)
		}
	}
	kinds := []string{"instance", "volume", "network-interface"}
	if c.in.TargetCapacitySpecification.DefaultTargetCapacityType == "spot" {
		kinds = append(kinds, "spot-instances-request")
	}
	slices.Sort(used)
	requests := passed
	for _, resource := range slices.Compact(used) {
		requests = append(requests, Request{Action: "ec2:" + action, Resource: resource})
	}
	for _, kind := range kinds {
		requests = append(requests, r.made(action, kind, specifications)...)
	}
	return requests
}

// ownUse is what the call itself names.
func (r *Reader) ownUse(c call) (arns []string) {
	for _, n := range c.in.NetworkInterfaces {
		arns = append(arns, n.uses(r)...)
	}
	for _, config := range c.in.LaunchTemplateConfigs {
		for _, o := range config.Overrides {
			arns = append(arns, r.image(o.ImageID)...)
			arns = append(arns, r.named("subnet", o.SubnetID)...)
		}
	}
	return arns
}

func (d templateData) uses(r *Reader) []string {
	arns := append(r.image(d.ImageID), r.named("security-group", d.SecurityGroupIDs...)...)
	for _, n := range d.NetworkInterfaces {
		arns = append(arns, n.uses(r)...)
	}
	for _, b := range d.BlockDeviceMappings {
		if b.Ebs.SnapshotID != "" {
			arns = append(arns, "arn:"+r.cluster.Partition+":ec2:"+r.cluster.Region+"::snapshot/"+b.Ebs.SnapshotID)
		}
	}
	return arns
}

func (n networkInterface) uses(r *Reader) []string {
	return append(r.named("subnet", n.SubnetID), r.named("security-group", n.Groups...)...)
}

func (r *Reader) named(kind string, ids ...string) []string {
	return r.ids(kind, slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return id == "" })...)
}

// image is an AMI's ARN, which has no account.
func (r *Reader) image(id string) []string {
	if id == "" {
		return nil
	}
	return []string{"arn:" + r.cluster.Partition + ":ec2:" + r.cluster.Region + "::image/" + id}
}
