package awssim

import (
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// eksImageOwner is the account that publishes the EKS optimised images.
const eksImageOwner = "602401143452"

func (e *ec2Service) registerImages() {
	on(e.s, "ec2.RegisterImage", e.registerImage)
	on(e.s, "ec2.DescribeImages", e.describeImages)
}

// addImage publishes an image of Amazon's; its ID follows from its name.
func (e *ec2Service) addImage(name string, architecture types.ArchitectureValues, created string) string {
	id := "ami-0" + stableHex(name, 16)
	e.images.put(id, types.Image{
		ImageId: aws.String(id), Name: aws.String(name), Architecture: architecture, State: types.ImageStateAvailable, CreationDate: aws.String(created),
		OwnerId: aws.String(eksImageOwner), ImageOwnerAlias: aws.String("amazon"), Public: aws.Bool(true), ImageType: types.ImageTypeValuesMachine,
		RootDeviceName: aws.String("/dev/xvda"), RootDeviceType: types.DeviceTypeEbs, VirtualizationType: types.VirtualizationTypeHvm, Hypervisor: types.HypervisorTypeXen,
		EnaSupport: aws.Bool(true), BlockDeviceMappings: []types.BlockDeviceMapping{{
			DeviceName: aws.String("/dev/xvda"), Ebs: &types.EbsBlockDevice{VolumeSize: aws.Int32(20), VolumeType: types.VolumeTypeGp3, DeleteOnTermination: aws.Bool(true)},
		}},
	})
	return id
}

func (e *ec2Service) registerImage(_ *call, in *ec2.RegisterImageInput) (*ec2.RegisterImageOutput, error) {
	id := e.s.newID("ami")
	e.images.put(id, types.Image{
		ImageId: aws.String(id), Name: in.Name, Description: in.Description, Architecture: in.Architecture, State: types.ImageStateAvailable,
		CreationDate: aws.String(e.s.now().UTC().Format("2006-01-02T15:04:05.000Z")), OwnerId: aws.String(accountID), Public: aws.Bool(false),
		RootDeviceName: in.RootDeviceName, RootDeviceType: types.DeviceTypeEbs, VirtualizationType: types.VirtualizationTypeHvm,
		BlockDeviceMappings: in.BlockDeviceMappings, Tags: specTags(in.TagSpecifications, types.ResourceTypeImage),
	})
	return &ec2.RegisterImageOutput{ImageId: aws.String(id)}, nil
}

var imageFilters = filterable[types.Image]{
	tags: func(v *types.Image) []types.Tag { return v.Tags },
	values: map[string]func(*types.Image) []string{
		"image-id":            func(v *types.Image) []string { return one(v.ImageId) },
		"name":                func(v *types.Image) []string { return one(v.Name) },
		"state":               func(v *types.Image) []string { return []string{string(v.State)} },
		"architecture":        func(v *types.Image) []string { return []string{string(v.Architecture)} },
		"owner-id":            func(v *types.Image) []string { return one(v.OwnerId) },
		"owner-alias":         func(v *types.Image) []string { return one(v.ImageOwnerAlias) },
		"is-public":           func(v *types.Image) []string { return boolText(v.Public) },
		"root-device-type":    func(v *types.Image) []string { return []string{string(v.RootDeviceType)} },
		"virtualization-type": func(v *types.Image) []string { return []string{string(v.VirtualizationType)} },
	},
}

func (e *ec2Service) describeImages(c *call, in *ec2.DescribeImagesInput) (*ec2.DescribeImagesOutput, error) {
	rows, next, err := paged(e.s, in.NextToken, aws.ToInt32(in.MaxResults), func() ([]types.Image, error) {
		rows, err := selectRows(e.images.asOf(c.readTime()), in.ImageIds, "InvalidAMIID.NotFound", imageFilters, in.Filters)
		return slices.DeleteFunc(rows, func(v types.Image) bool { return !ownedByAny(v, in.Owners) }), err
	})
	return &ec2.DescribeImagesOutput{Images: rows, NextToken: next}, err
}

func ownedByAny(v types.Image, owners []string) bool {
	owner := aws.ToString(v.OwnerId)
	return len(owners) == 0 || slices.ContainsFunc(owners, func(o string) bool {
		return o == owner || o == aws.ToString(v.ImageOwnerAlias) || o == "self" && owner == accountID
	})
}
