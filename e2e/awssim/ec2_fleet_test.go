package awssim

import (
	"fmt"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"

	"github.com/castoff-sh/castoff/e2e/awssim/simapi"
)

// override is one way to fill a fleet, in the lab's subnet of that index.
func (l *lab) override(instanceType string, subnet int) types.FleetLaunchTemplateOverridesRequest {
	return types.FleetLaunchTemplateOverridesRequest{InstanceType: types.InstanceType(instanceType), SubnetId: &l.subnets[subnet], ImageId: &l.image}
}

// fleet asks for n instances of the template "nodes".
func fleet(n int32, capacity types.DefaultTargetCapacityType, overrides ...types.FleetLaunchTemplateOverridesRequest) *ec2.CreateFleetInput {
	return &ec2.CreateFleetInput{
		Type: types.FleetTypeInstant,
		TargetCapacitySpecification: &types.TargetCapacitySpecificationRequest{
			TotalTargetCapacity: &n, DefaultTargetCapacityType: capacity,
		},
		LaunchTemplateConfigs: []types.FleetLaunchTemplateConfigRequest{{
			LaunchTemplateSpecification: &types.FleetLaunchTemplateSpecificationRequest{LaunchTemplateName: aws.String("nodes"), Version: aws.String("$Latest")},
			Overrides:                   overrides,
		}},
	}
}

func TestCreateFleet(t *testing.T) {
	noCapacity := func(instanceType, zone string) simapi.Fault {
		return simapi.Fault{InstanceType: instanceType, Zone: zone, Code: "InsufficientInstanceCapacity"}
	}
	cases := map[string]struct {
		reason string
		in     func(*lab) *ec2.CreateFleetInput
		faults []simapi.Fault
		want   []string // type, zone and lifecycle of each instance
		errors []string // code, type and zone of each error
	}{
		"CheapestOnDemand": {
			"the cheapest type wins",
			func(l *lab) *ec2.CreateFleetInput {
				return fleet(1, "on-demand", l.override("m5.xlarge", 0), l.override("m7g.large", 1), l.override("m5.large", 2))
			},
			nil, []string{"m7g.large us-east-1b on-demand"}, nil,
		},
		"CheapestSpot": {
			"spot is cheapest in the first zone",
			func(l *lab) *ec2.CreateFleetInput {
				return fleet(1, "spot", l.override("m5.large", 2), l.override("m5.large", 0), l.override("m5.large", 1))
			},
			nil, []string{"m5.large us-east-1a spot"}, nil,
		},
		"Prioritized": {
			"priority goes before price where the request says so",
			func(l *lab) *ec2.CreateFleetInput {
				dear, cheap := l.override("m5.4xlarge", 0), l.override("m5.large", 0)
				dear.Priority, cheap.Priority = aws.Float64(1), aws.Float64(2)
				in := fleet(1, "on-demand", cheap, dear)
				in.OnDemandOptions = &types.OnDemandOptionsRequest{AllocationStrategy: types.FleetOnDemandAllocationStrategyPrioritized}
				return in
			},
			nil, []string{"m5.4xlarge us-east-1a on-demand"}, nil,
		},
		"NextWithCapacity": {
			"an offer without capacity is reported once, the next one serves all",
			func(l *lab) *ec2.CreateFleetInput {
				return fleet(3, "on-demand", l.override("m5.large", 0), l.override("m5.xlarge", 1))
			},
			[]simapi.Fault{noCapacity("m5.large", "us-east-1a")},
			[]string{"m5.xlarge us-east-1b on-demand", "m5.xlarge us-east-1b on-demand", "m5.xlarge us-east-1b on-demand"},
			[]string{"InsufficientInstanceCapacity m5.large us-east-1a"},
		},
		"NoneAtAll": {
			"without any capacity there are errors and no instances, and the call itself succeeds",
			func(l *lab) *ec2.CreateFleetInput {
				return fleet(2, "on-demand", l.override("m5.large", 0), l.override("m5.large", 1))
			},
			[]simapi.Fault{noCapacity("", "us-east-1a"), noCapacity("m5.large", "")}, nil,
			[]string{"InsufficientInstanceCapacity m5.large us-east-1a", "InsufficientInstanceCapacity m5.large us-east-1b"},
		},
		"RunsOut": {
			"capacity that runs out half way leaves the rest of the fleet to the next offer",
			func(l *lab) *ec2.CreateFleetInput {
				return fleet(2, "on-demand", l.override("m5.large", 0), l.override("m5.xlarge", 0))
			},
			[]simapi.Fault{{InstanceType: "m5.large", Code: "InsufficientInstanceCapacity", Times: 1}},
			[]string{"m5.xlarge us-east-1a on-demand", "m5.xlarge us-east-1a on-demand"},
			[]string{"InsufficientInstanceCapacity m5.large us-east-1a"},
		},
		"OfAnother": {
			"a capacity fault of another identity does not hit",
			func(l *lab) *ec2.CreateFleetInput { return fleet(1, "on-demand", l.override("m5.large", 0)) },
			[]simapi.Fault{{InstanceType: "m5.large", Identity: "user/other", Code: "InsufficientInstanceCapacity"}},
			[]string{"m5.large us-east-1a on-demand"}, nil,
		},
		"NoOverrides": {
			"without overrides the template's own type serves",
			func(*lab) *ec2.CreateFleetInput { return fleet(1, "on-demand") },
			nil, []string{"m5.large us-east-1a on-demand"}, nil,
		},
		"UnknownType": {
			"a type that does not exist is an error of its override",
			func(l *lab) *ec2.CreateFleetInput { return fleet(1, "on-demand", l.override("m99.huge", 0)) },
			nil, nil, []string{"InvalidParameterValue m99.huge us-east-1a"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, Options{})
			l.template(t, "nodes", nil)
			for _, f := range tc.faults {
				ok(t, addFault(l, f))
			}
			out, err := l.ec2.CreateFleet(ctx, tc.in(l))
			ok(t, err)
			var got, errs []string
			for _, i := range out.Instances {
				o := i.LaunchTemplateAndOverrides.Overrides
				if len(i.InstanceIds) != 1 || aws.ToString(o.ImageId) != l.image || o.InstanceType != i.InstanceType || aws.ToString(o.AvailabilityZone) != aws.ToString(i.AvailabilityZone) {
					t.Errorf("the answer must say what was launched, image and zone included: %+v", o)
				}
				got = append(got, fmt.Sprintf("%s %s %s", i.InstanceType, *o.AvailabilityZone, i.Lifecycle))
			}
			for _, e := range out.Errors {
				o := e.LaunchTemplateAndOverrides.Overrides
				errs = append(errs, fmt.Sprintf("%s %s %s", *e.ErrorCode, o.InstanceType, aws.ToString(o.AvailabilityZone)))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: instances (-want +got):\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(tc.errors, errs); diff != "" {
				t.Errorf("%s: errors (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestCreateFleetRefuses(t *testing.T) {
	l := newLab(t, Options{})
	l.template(t, "nodes", nil)
	cases := map[string]struct {
		reason string
		change func(*ec2.CreateFleetInput)
		want   string
	}{
		"Maintain": {"a fleet that is kept up is not simulated", func(in *ec2.CreateFleetInput) { in.Type = types.FleetTypeMaintain }, "Unsupported"},
		"Template": {"a template that does not exist fails the call", func(in *ec2.CreateFleetInput) {
			in.LaunchTemplateConfigs[0].LaunchTemplateSpecification.LaunchTemplateName = aws.String("none")
		}, "InvalidLaunchTemplateName.NotFoundException"},
		"NoTemplate": {"a template must be named", func(in *ec2.CreateFleetInput) { in.LaunchTemplateConfigs[0].LaunchTemplateSpecification = nil }, "MissingParameter"},
		"DryRun":     {"a dry run changes nothing", func(in *ec2.CreateFleetInput) { in.DryRun = aws.Bool(true) }, "DryRunOperation"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			in := fleet(1, "on-demand", l.override("m5.large", 0))
			tc.change(in)
			_, err := l.ec2.CreateFleet(ctx, in)
			wantCode(t, err, tc.want, tc.reason)
			if side, err := l.side.Instances(ctx); err != nil || len(side) != 0 {
				t.Errorf("%s: %d instances were made, %v", tc.reason, len(side), err)
			}
		})
	}
}

func TestFleetInstancesAreTagged(t *testing.T) {
	l := newLab(t, Options{})
	l.template(t, "nodes", nil)
	in := fleet(1, "spot", l.override("m5.large", 0))
	in.TagSpecifications = append(tagged(types.ResourceTypeInstance, "karpenter.sh/nodepool", "default"), tagged(types.ResourceTypeVolume, "disk", "yes")...)
	in.ClientToken = aws.String("token")
	first, err := l.ec2.CreateFleet(ctx, in)
	ok(t, err)
	again, err := l.ec2.CreateFleet(ctx, in)
	ok(t, err)
	if diff := cmp.Diff(first.Instances[0].InstanceIds, again.Instances[0].InstanceIds); diff != "" {
		t.Errorf("a repeated token must answer the same instances (-first +again):\n%s", diff)
	}
	out, err := l.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{Filters: []types.Filter{filter("tag:karpenter.sh/nodepool", "default"), filter("instance-lifecycle", "spot")}})
	ok(t, err)
	if len(out.Reservations) != 1 || out.Reservations[0].Instances[0].SpotInstanceRequestId == nil || *out.Reservations[0].Instances[0].SecurityGroups[0].GroupId != l.group {
		t.Errorf("one spot instance with the fleet's tag and the template's security group: %+v", out.Reservations)
	}
	volumes, err := l.ec2.DescribeVolumes(ctx, &ec2.DescribeVolumesInput{Filters: []types.Filter{filter("tag:disk", "yes")}})
	ok(t, err)
	if len(volumes.Volumes) != 1 {
		t.Errorf("%d volumes carry the fleet's tag", len(volumes.Volumes))
	}
}
