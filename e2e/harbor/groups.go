package harbor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	asgtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
)

// seedManaged makes the home and the spot group for batch, and waits until EKS calls them active.
func (c *Cloud) seedManaged(ctx context.Context, roleARN string, net network) error {
	for _, group := range []*eks.CreateNodegroupInput{
		{
			NodegroupName: aws.String(Home), InstanceTypes: []string{"m5.large"}, CapacityType: ekstypes.CapacityTypesOnDemand,
			ScalingConfig: &ekstypes.NodegroupScalingConfig{MinSize: aws.Int32(2), MaxSize: aws.Int32(3), DesiredSize: aws.Int32(2)},
		},
		{
			NodegroupName: aws.String(Batch), InstanceTypes: []string{"m5.large", "m5a.large", "m6i.large"}, CapacityType: ekstypes.CapacityTypesSpot,
			ScalingConfig: &ekstypes.NodegroupScalingConfig{MinSize: aws.Int32(1), MaxSize: aws.Int32(8), DesiredSize: aws.Int32(4)},
			Labels:        map[string]string{labelTier: Batch},
		},
	} {
		group.ClusterName, group.NodeRole, group.Subnets = aws.String(Cluster), &roleARN, net.subnets
		group.AmiType, group.DiskSize = ekstypes.AMITypesAl2023X8664Standard, aws.Int32(40)
		if _, err := c.eks.CreateNodegroup(ctx, group); err != nil {
			return fmt.Errorf("making managed node group %s: %w", *group.NodegroupName, err)
		}
	}
	for _, name := range []string{Home, Batch} {
		err := until(ctx, func(ctx context.Context) (bool, error) {
			out, err := c.eks.DescribeNodegroup(ctx, &eks.DescribeNodegroupInput{ClusterName: aws.String(Cluster), NodegroupName: &name})
			return err == nil && out.Nodegroup != nil && out.Nodegroup.Status == ekstypes.NodegroupStatusActive, unlessLate(err)
		})
		if err != nil {
			return fmt.Errorf("waiting for managed node group %s to be active: %w", name, err)
		}
	}
	return nil
}

// seedSelfManaged makes the two Auto Scaling groups.
func (c *Cloud) seedSelfManaged(ctx context.Context, access clusterAccess, net network) error {
	image, err := c.image(ctx)
	if err != nil {
		return err
	}
	general, err := c.template(ctx, General, image, "m5.xlarge", userData(access, labelTier+"="+General, ""), net)
	if err != nil {
		return err
	}
	taint := fmt.Sprintf("{key: %s, value: %s, effect: NoSchedule}", taintDedicated, Memory)
	memory, err := c.template(ctx, Memory, image, "r5.large", userData(access, labelTier+"="+Memory+",harbor.example/disk=fast", taint), net)
	if err != nil {
		return err
	}
	if err := c.seedGeneral(ctx, general, net); err != nil {
		return err
	}
	_, err = c.asg.CreateAutoScalingGroup(ctx, &autoscaling.CreateAutoScalingGroupInput{
		AutoScalingGroupName: aws.String(Memory), MinSize: aws.Int32(2), MaxSize: aws.Int32(8), DesiredCapacity: aws.Int32(4),
		VPCZoneIdentifier: aws.String(strings.Join(net.subnets, ",")), LaunchTemplate: memory, Tags: groupTags(Memory),
	})
	if err != nil {
		return fmt.Errorf("making Auto Scaling group %s: %w", Memory, err)
	}
	return nil
}

func (c *Cloud) template(ctx context.Context, name, image, instanceType, data string, net network) (*asgtypes.LaunchTemplateSpecification, error) {
	out, err := c.ec2.CreateLaunchTemplate(ctx, &ec2.CreateLaunchTemplateInput{
		LaunchTemplateName: aws.String("harbor-" + name),
		LaunchTemplateData: &ec2types.RequestLaunchTemplateData{
			ImageId: &image, InstanceType: ec2types.InstanceType(instanceType), UserData: encode(data), SecurityGroupIds: []string{net.securityGroup},
			IamInstanceProfile: &ec2types.LaunchTemplateIamInstanceProfileSpecificationRequest{Name: aws.String(nodeRole)},
			MetadataOptions: &ec2types.LaunchTemplateInstanceMetadataOptionsRequest{
				HttpTokens: ec2types.LaunchTemplateHttpTokensStateRequired, HttpPutResponseHopLimit: aws.Int32(2), HttpEndpoint: ec2types.LaunchTemplateInstanceMetadataEndpointStateEnabled,
			},
			BlockDeviceMappings: []ec2types.LaunchTemplateBlockDeviceMappingRequest{{
				DeviceName: aws.String("/dev/xvda"),
				Ebs:        &ec2types.LaunchTemplateEbsBlockDeviceRequest{VolumeSize: aws.Int32(60), VolumeType: ec2types.VolumeTypeGp3, Encrypted: aws.Bool(true), DeleteOnTermination: aws.Bool(true)},
			}},
			TagSpecifications: []ec2types.LaunchTemplateTagSpecificationRequest{{
				ResourceType: ec2types.ResourceTypeInstance, Tags: []ec2types.Tag{{Key: aws.String("team"), Value: aws.String("platform")}},
			}},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("making the launch template of %s: %w", name, err)
	}
	if out.LaunchTemplate == nil {
		return nil, fmt.Errorf("the launch template of %s was made without an answer", name)
	}
	return &asgtypes.LaunchTemplateSpecification{LaunchTemplateId: out.LaunchTemplate.LaunchTemplateId, Version: aws.String("$Latest")}, nil
}

// seedGeneral has a mixed instances policy and follows its CPU.
func (c *Cloud) seedGeneral(ctx context.Context, template *asgtypes.LaunchTemplateSpecification, net network) error {
	var overrides []asgtypes.LaunchTemplateOverrides
	for _, instanceType := range []string{"m5.xlarge", "m5a.xlarge", "m6i.xlarge"} {
		overrides = append(overrides, asgtypes.LaunchTemplateOverrides{InstanceType: &instanceType})
	}
	_, err := c.asg.CreateAutoScalingGroup(ctx, &autoscaling.CreateAutoScalingGroupInput{
		AutoScalingGroupName: aws.String(General), MinSize: aws.Int32(3), MaxSize: aws.Int32(12), DesiredCapacity: aws.Int32(6),
		VPCZoneIdentifier: aws.String(strings.Join(net.subnets, ",")), Tags: groupTags(General),
		MixedInstancesPolicy: &asgtypes.MixedInstancesPolicy{
			LaunchTemplate: &asgtypes.LaunchTemplate{LaunchTemplateSpecification: template, Overrides: overrides},
			InstancesDistribution: &asgtypes.InstancesDistribution{
				OnDemandBaseCapacity: aws.Int32(6), OnDemandPercentageAboveBaseCapacity: aws.Int32(100), OnDemandAllocationStrategy: aws.String("prioritized"),
			},
		},
	})
	if err != nil {
		return fmt.Errorf("making Auto Scaling group %s: %w", General, err)
	}
	_, err = c.asg.PutScalingPolicy(ctx, &autoscaling.PutScalingPolicyInput{
		AutoScalingGroupName: aws.String(General), PolicyName: aws.String("cpu-60"), PolicyType: aws.String("TargetTrackingScaling"),
		TargetTrackingConfiguration: &asgtypes.TargetTrackingConfiguration{
			TargetValue:                   aws.Float64(60),
			PredefinedMetricSpecification: &asgtypes.PredefinedMetricSpecification{PredefinedMetricType: asgtypes.MetricTypeASGAverageCPUUtilization},
		},
	})
	if err != nil {
		return fmt.Errorf("putting the scaling policy of %s: %w", General, err)
	}
	return nil
}

// groupTags make the group's instances the cluster's, and let Cluster Autoscaler discover it.
func groupTags(name string) []asgtypes.Tag {
	tag := func(key, value string, propagate bool) asgtypes.Tag {
		return asgtypes.Tag{ResourceId: &name, ResourceType: aws.String("auto-scaling-group"), Key: &key, Value: &value, PropagateAtLaunch: &propagate}
	}
	return []asgtypes.Tag{
		tag("Name", "harbor-"+name, true),
		tag("kubernetes.io/cluster/harbor", "owned", true),
		tag("k8s.io/cluster-autoscaler/enabled", "true", false),
		tag("k8s.io/cluster-autoscaler/harbor", "owned", false),
	}
}

// ScheduleSurge makes the memory group want two more nodes at that time, as an evening peak would.
func (c *Cloud) ScheduleSurge(ctx context.Context, at time.Time) error {
	_, err := c.asg.PutScheduledUpdateGroupAction(ctx, &autoscaling.PutScheduledUpdateGroupActionInput{
		AutoScalingGroupName: aws.String(Memory), ScheduledActionName: aws.String("evening-peak"), StartTime: &at, DesiredCapacity: aws.Int32(6),
	})
	if err != nil {
		return fmt.Errorf("scheduling the peak of %s: %w", Memory, err)
	}
	return nil
}
