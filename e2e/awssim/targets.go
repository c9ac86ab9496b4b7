package awssim

import (
	"encoding/json"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	eventtypes "github.com/aws/aws-sdk-go-v2/service/eventbridge/types"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
)

// naming are the members of an input that name what is there already, in the SDK's spelling.
type naming struct {
	AutoScalingGroupName, InstanceID                        string // Go's JSON matches InstanceId as well
	InstanceIDs, Resources                                  []string
	LaunchTemplateName, LaunchTemplateID                    string
	LaunchTemplate                                          namedTemplate
	LaunchTemplateConfigs                                   []struct{ LaunchTemplateSpecification namedTemplate }
	InstanceProfileName, RoleName                           string
	QueueURL                                                string
	Name, Rule                                              string
	ClusterName, NodegroupName, AssociationID, PrincipalARN string
}

type namedTemplate struct{ LaunchTemplateName, LaunchTemplateID string }

// tagsByARN are resources and their tags.
type tagsByARN map[string]map[string]string

// targets finds what exists of that which an input names, and its tags: whoever reads the call log can tell by them what
// a policy with conditions on aws:ResourceTag would have said. Inputs name things in the same members throughout AWS, so that
// an unknown one names nothing.
func (s *Server) targets(service string, input json.RawMessage) tagsByARN {
	var n naming
	_ = json.Unmarshal(input, &n) // a member of the same name and another type names nothing
	found := tagsByARN{}
	switch service {
	case "ec2":
		s.ec2.targets(n, found)
	case "autoscaling":
		s.autoscaling.targets(n, found)
	case "eks":
		s.eks.targets(n, found)
	case "iam":
		s.iam.targets(n, found)
	case "sqs":
		if q, err := s.sqs.queue(&n.QueueURL); err == nil {
			found[s.sqs.queueARN(q.name)] = q.tags
		}
	case "events":
		for _, name := range []string{n.Name, n.Rule} {
			if r, ok := s.events.rules.get(name); ok {
				found[aws.ToString(r.Arn)] = tagMap(r.Tags, func(t eventtypes.Tag) (*string, *string) { return t.Key, t.Value })
			}
		}
	}
	return found
}

func (e *ec2Service) targets(n naming, found tagsByARN) {
	pair := func(t types.Tag) (*string, *string) { return t.Key, t.Value }
	for _, id := range append(n.InstanceIDs, n.Resources...) {
		if i, ok := e.instances.get(id); ok {
			found[e.s.arn("ec2", "instance/"+id)] = tagMap(i.Tags, pair)
		}
	}
	templates := []namedTemplate{{n.LaunchTemplateName, n.LaunchTemplateID}, n.LaunchTemplate}
	for _, c := range n.LaunchTemplateConfigs {
		templates = append(templates, c.LaunchTemplateSpecification)
	}
	for _, named := range templates {
		if t, err := e.findTemplate(named.LaunchTemplateID, named.LaunchTemplateName); err == nil {
			found[e.s.arn("ec2", "launch-template/"+aws.ToString(t.LaunchTemplateId))] = tagMap(t.Tags, pair)
		}
	}
}

// targets are the group, or that of the instance.
func (a *autoscalingService) targets(n naming, found tagsByARN) {
	g := a.groups[n.AutoScalingGroupName]
	if g == nil {
		g, _ = a.find(n.InstanceID)
	}
	if g == nil {
		return
	}
	tags := map[string]string{}
	for k, t := range g.tags {
		tags[k] = aws.ToString(t.Value)
	}
	found[aws.ToString(g.spec.AutoScalingGroupARN)] = tags
}

func (e *eksService) targets(n naming, found tagsByARN) {
	if g, ok := e.nodeGroups.get(n.ClusterName + "/" + n.NodegroupName); ok {
		found[aws.ToString(g.NodegroupArn)] = g.Tags
	}
	if a, ok := e.associations.get(n.ClusterName + "/" + n.AssociationID); ok {
		found[aws.ToString(a.AssociationArn)] = a.Tags
	}
	if x, ok := e.entries.get(n.ClusterName + "/" + n.PrincipalARN); ok {
		found[aws.ToString(x.AccessEntryArn)] = x.Tags
	}
}

func (m *iamService) targets(n naming, found tagsByARN) {
	pair := func(t iamtypes.Tag) (*string, *string) { return t.Key, t.Value }
	if r, ok := m.roles.get(n.RoleName); ok {
		found[aws.ToString(r.Arn)] = tagMap(r.Tags, pair)
	}
	if p, ok := m.profiles.get(n.InstanceProfileName); ok {
		found[aws.ToString(p.Arn)] = tagMap(p.Tags, pair)
	}
}

func tagMap[T any](tags []T, pair func(T) (*string, *string)) map[string]string {
	out := map[string]string{}
	for _, t := range tags {
		key, value := pair(t)
		out[aws.ToString(key)] = aws.ToString(value)
	}
	return out
}
