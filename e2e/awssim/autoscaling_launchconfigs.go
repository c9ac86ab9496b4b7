package awssim

import (
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

func (a *autoscalingService) registerLaunchConfigurations() {
	on(a.s, "autoscaling.CreateLaunchConfiguration", a.createLaunchConfiguration)
	on(a.s, "autoscaling.DescribeLaunchConfigurations", a.describeLaunchConfigurations)
	on(a.s, "autoscaling.DeleteLaunchConfiguration", a.deleteLaunchConfiguration)
}

func (a *autoscalingService) createLaunchConfiguration(_ *call, in *autoscaling.CreateLaunchConfigurationInput) (*autoscaling.CreateLaunchConfigurationOutput, error) {
	name := aws.ToString(in.LaunchConfigurationName)
	if _, exists := a.configurations.get(name); exists {
		return nil, errorf("AlreadyExists", "Launch Configuration by this name already exists - A launch configuration already exists with the name %s", name)
	}
	if in.ImageId == nil || in.InstanceType == nil {
		return nil, validation("Valid requests must contain either the InstanceID parameter or both the ImageId and InstanceType parameters.")
	}
	x := convert[types.LaunchConfiguration](in)
	x.LaunchConfigurationARN = aws.String(a.arn("launchConfiguration:" + a.uuid() + ":launchConfigurationName/" + name))
	x.CreatedTime = aws.Time(a.now())
	a.configurations.put(name, x)
	return &autoscaling.CreateLaunchConfigurationOutput{}, nil
}

func (a *autoscalingService) describeLaunchConfigurations(c *call, in *autoscaling.DescribeLaunchConfigurationsInput) (*autoscaling.DescribeLaunchConfigurationsOutput, error) {
	list := a.configurations.asOf(c.readTime()).where(func(x *types.LaunchConfiguration) bool {
		return named(in.LaunchConfigurationNames, x.LaunchConfigurationName)
	})
	list, next, err := pageOf(a.s, list, in.MaxRecords, 50, in.NextToken)
	if err != nil {
		return nil, err
	}
	return &autoscaling.DescribeLaunchConfigurationsOutput{LaunchConfigurations: append([]types.LaunchConfiguration{}, list...), NextToken: next}, nil
}

func (a *autoscalingService) deleteLaunchConfiguration(_ *call, in *autoscaling.DeleteLaunchConfigurationInput) (*autoscaling.DeleteLaunchConfigurationOutput, error) {
	name := aws.ToString(in.LaunchConfigurationName)
	if _, ok := a.configurations.get(name); !ok {
		return nil, validation("Launch configuration name not found - Launch configuration %s not found", name)
	}
	for _, g := range a.groups {
		if aws.ToString(g.spec.LaunchConfigurationName) == name {
			return nil, errorf("ResourceInUse", "Cannot delete launch configuration %s because it is attached to AutoScalingGroup %s", name, g.name())
		}
	}
	a.configurations.delete(name)
	return &autoscaling.DeleteLaunchConfigurationOutput{}, nil
}

// configuration is a launch configuration as EC2 takes launch templates.
func (a *autoscalingService) configuration(name *string) (ec2types.ResponseLaunchTemplateData, error) {
	x, ok := a.configurations.get(aws.ToString(name))
	if !ok {
		return ec2types.ResponseLaunchTemplateData{}, validation("Launch configuration name not found - Launch configuration %s not found", aws.ToString(name))
	}
	data := ec2types.ResponseLaunchTemplateData{
		ImageId: x.ImageId, InstanceType: ec2types.InstanceType(aws.ToString(x.InstanceType)), SecurityGroupIds: x.SecurityGroups, UserData: x.UserData, KeyName: x.KeyName, EbsOptimized: x.EbsOptimized,
		BlockDeviceMappings: convert[[]ec2types.LaunchTemplateBlockDeviceMapping](x.BlockDeviceMappings), MetadataOptions: convert[*ec2types.LaunchTemplateInstanceMetadataOptions](x.MetadataOptions),
	}
	switch profile := aws.ToString(x.IamInstanceProfile); {
	case strings.HasPrefix(profile, "arn:"):
		data.IamInstanceProfile = &ec2types.LaunchTemplateIamInstanceProfileSpecification{Arn: x.IamInstanceProfile}
	case profile != "":
		data.IamInstanceProfile = &ec2types.LaunchTemplateIamInstanceProfileSpecification{Name: x.IamInstanceProfile}
	}
	if x.SpotPrice != nil {
		data.InstanceMarketOptions = &ec2types.LaunchTemplateInstanceMarketOptions{MarketType: ec2types.MarketTypeSpot}
	}
	return data, nil
}
