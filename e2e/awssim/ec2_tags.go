package awssim

import (
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

func (e *ec2Service) registerTags() {
	on(e.s, "ec2.CreateTags", e.createTags)
	on(e.s, "ec2.DeleteTags", e.deleteTags)
}

// retag changes the tags of any resource; false when there is none with that ID.
func (e *ec2Service) retag(id string, change func([]types.Tag) []types.Tag) bool {
	prefix, _, _ := strings.Cut(id, "-")
	switch prefix {
	case "i":
		ok := e.instances.update(id, func(v *instance) { v.Tags = change(v.Tags) })
		e.announce(id)
		return ok
	case "vol":
		return e.volumes.update(id, func(v *types.Volume) { v.Tags = change(v.Tags) })
	case "subnet":
		return e.subnets.update(id, func(v *types.Subnet) { v.Tags = change(v.Tags) })
	case "sg":
		return e.securityGroups.update(id, func(v *types.SecurityGroup) { v.Tags = change(v.Tags) })
	case "vpc":
		return e.vpcs.update(id, func(v *types.Vpc) { v.Tags = change(v.Tags) })
	case "ami":
		return e.images.update(id, func(v *types.Image) { v.Tags = change(v.Tags) })
	case "lt":
		return e.templates.update(id, func(v *launchTemplate) { v.Tags = change(v.Tags) })
	case "cr":
		return e.reservations.update(id, func(v *types.CapacityReservation) { v.Tags = change(v.Tags) })
	case "pg":
		return e.placementGroups.update(id, func(v *types.PlacementGroup) { v.Tags = change(v.Tags) })
	case "eni", "sir", "fleet": // exist only as names on an instance or an answer
		return true
	}
	return false
}

func (e *ec2Service) createTags(_ *call, in *ec2.CreateTagsInput) (*ec2.CreateTagsOutput, error) {
	for _, id := range in.Resources {
		if !e.retag(id, func(tags []types.Tag) []types.Tag { return mergeTags(tags, in.Tags) }) {
			return nil, notFoundResource(id)
		}
	}
	return &ec2.CreateTagsOutput{}, nil
}

// deleteTags removes a tag whatever its value when the request gives none, and all tags when it names none.
func (e *ec2Service) deleteTags(_ *call, in *ec2.DeleteTagsInput) (*ec2.DeleteTagsOutput, error) {
	gone := func(t types.Tag) bool {
		return len(in.Tags) == 0 || slices.ContainsFunc(in.Tags, func(x types.Tag) bool {
			return tagKey(x) == tagKey(t) && (x.Value == nil || tagValue(x) == tagValue(t))
		})
	}
	for _, id := range in.Resources {
		if !e.retag(id, func(tags []types.Tag) []types.Tag { return slices.DeleteFunc(tags, gone) }) {
			return nil, notFoundResource(id)
		}
	}
	return &ec2.DeleteTagsOutput{}, nil
}

// notFoundResource names the error after the kind of the resource, as EC2 does.
func notFoundResource(id string) error {
	prefix, _, _ := strings.Cut(id, "-")
	code := map[string]string{
		"i": "InvalidInstanceID.NotFound", "vol": "InvalidVolume.NotFound", "subnet": "InvalidSubnetID.NotFound", "sg": "InvalidGroup.NotFound",
		"vpc": "InvalidVpcID.NotFound", "ami": "InvalidAMIID.NotFound", "lt": "InvalidLaunchTemplateId.NotFound",
	}[prefix]
	return errorf(firstOf(code, "InvalidID"), "The ID '%s' does not exist", id)
}

// mergeTags lays the second tags over the first.
func mergeTags(under, over []types.Tag) []types.Tag {
	var out []types.Tag
	for _, t := range append(append([]types.Tag{}, under...), over...) {
		i := slices.IndexFunc(out, func(x types.Tag) bool { return tagKey(x) == tagKey(t) })
		if i < 0 {
			out = append(out, types.Tag{Key: t.Key, Value: aws.String(tagValue(t))})
			continue
		}
		out[i].Value = aws.String(tagValue(t))
	}
	return out
}
