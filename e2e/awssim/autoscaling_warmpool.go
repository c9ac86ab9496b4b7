package awssim

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
)

// putWarmPool records a warm pool. The simulator keeps no instances in it: its size stays 0.
func (a *autoscalingService) putWarmPool(_ *call, in *autoscaling.PutWarmPoolInput) (*autoscaling.PutWarmPoolOutput, error) {
	g, err := a.group(in.AutoScalingGroupName)
	if err != nil {
		return nil, err
	}
	if g.spec.MixedInstancesPolicy != nil && g.nextIsSpot() {
		return nil, validation("You can't add a warm pool to an Auto Scaling group that launches Spot Instances.")
	}
	state := in.PoolState
	if state == "" {
		state = types.WarmPoolStateStopped
	}
	g.warmPool = &types.WarmPoolConfiguration{MinSize: aws.Int32(or(in.MinSize, 0)), MaxGroupPreparedCapacity: in.MaxGroupPreparedCapacity, PoolState: state, InstanceReusePolicy: in.InstanceReusePolicy}
	a.touch(g)
	return &autoscaling.PutWarmPoolOutput{}, nil
}

func (a *autoscalingService) describeWarmPool(c *call, in *autoscaling.DescribeWarmPoolInput) (*autoscaling.DescribeWarmPoolOutput, error) {
	d, err := a.shownGroup(c, in.AutoScalingGroupName)
	if err != nil {
		return nil, err
	}
	return &autoscaling.DescribeWarmPoolOutput{WarmPoolConfiguration: d.Group.WarmPoolConfiguration, Instances: []types.Instance{}}, nil
}

func (a *autoscalingService) deleteWarmPool(_ *call, in *autoscaling.DeleteWarmPoolInput) (*autoscaling.DeleteWarmPoolOutput, error) {
	g, err := a.group(in.AutoScalingGroupName)
	if err != nil {
		return nil, err
	}
	if g.warmPool == nil {
		return nil, validation("No warm pool found for Auto Scaling group %s", g.name())
	}
	g.warmPool = nil
	a.touch(g)
	return &autoscaling.DeleteWarmPoolOutput{}, nil
}
