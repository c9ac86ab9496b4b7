package awssim

import (
	"cmp"
	"errors"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// offer is one way to fill a fleet: a launch template with one of its overrides.
type offer struct {
	spec     launchSpec
	answer   types.LaunchTemplateAndOverridesResponse
	price    float64
	priority float64
}

// createFleet serves fleets of type instant: it fills the target with the cheapest offers that have capacity (or by
// priority where the request says so), and reports every offer that had none.
func (e *ec2Service) createFleet(c *call, in *ec2.CreateFleetInput) (*ec2.CreateFleetOutput, error) {
	if in.Type != types.FleetTypeInstant {
		return nil, errorf("Unsupported", "the simulator creates fleets of type instant only, not %q", in.Type)
	}
	if in.TargetCapacitySpecification == nil || len(in.LaunchTemplateConfigs) == 0 {
		return nil, errorf("MissingParameter", "The request must contain the parameters TargetCapacitySpecification and LaunchTemplateConfigs")
	}
	return once(e, c, in.ClientToken, func() (*ec2.CreateFleetOutput, error) {
		offers, err := e.offers(c, in)
		if err != nil {
			return nil, err
		}
		out := &ec2.CreateFleetOutput{FleetId: aws.String(e.s.newID("fleet"))}
		for range aws.ToInt32(in.TargetCapacitySpecification.TotalTargetCapacity) {
			offers = e.fill(offers, out)
		}
		return out, nil
	})
}

// fill launches one instance from the first offer that has capacity, and returns the offers that still may.
func (e *ec2Service) fill(offers []offer, out *ec2.CreateFleetOutput) []offer {
	for n, o := range offers {
		i, err := e.launch(o.spec)
		if err == nil {
			out.Instances = append(out.Instances, types.CreateFleetInstance{
				InstanceIds: []string{i.id()}, InstanceType: i.InstanceType, Lifecycle: lifecycle(o.spec.Spot), LaunchTemplateAndOverrides: &o.answer,
				AvailabilityZone: i.Placement.AvailabilityZone, AvailabilityZoneId: i.Placement.AvailabilityZoneId, SubnetId: i.SubnetId,
			})
			return offers[n:]
		}
		code, message := "InternalError", err.Error()
		if e := (*apiError)(nil); errors.As(err, &e) {
			code, message = e.Code, e.Message
		}
		out.Errors = append(out.Errors, types.CreateFleetError{
			ErrorCode: aws.String(code), ErrorMessage: aws.String(message), Lifecycle: lifecycle(o.spec.Spot), LaunchTemplateAndOverrides: &o.answer,
		})
	}
	return nil
}

func lifecycle(spot bool) types.InstanceLifecycle {
	if spot {
		return types.InstanceLifecycleSpot
	}
	return types.InstanceLifecycleOnDemand
}

// offers lists the ways to fill the fleet, the best first.
func (e *ec2Service) offers(c *call, in *ec2.CreateFleetInput) ([]offer, error) {
	spot := in.TargetCapacitySpecification.DefaultTargetCapacityType == types.DefaultTargetCapacityTypeSpot
	tags := specTags(in.TagSpecifications, types.ResourceTypeInstance)
	var offers []offer
	for _, cfg := range in.LaunchTemplateConfigs {
		t := cfg.LaunchTemplateSpecification
		if t == nil {
			return nil, errorf("MissingParameter", "The request must contain the parameter LaunchTemplateSpecification")
		}
		data, err := e.templateData(aws.ToString(t.LaunchTemplateId), aws.ToString(t.LaunchTemplateName), aws.ToString(t.Version))
		if err != nil {
			return nil, err
		}
		answer := convert[types.FleetLaunchTemplateSpecification](t)
		overrides := cfg.Overrides
		if len(overrides) == 0 {
			overrides = []types.FleetLaunchTemplateOverridesRequest{{}}
		}
		for _, o := range overrides {
			spec := launchSpec{
				Template: data, InstanceType: string(o.InstanceType), ImageID: aws.ToString(o.ImageId), SubnetID: aws.ToString(o.SubnetId),
				Zone: aws.ToString(o.AvailabilityZone), Spot: spot, Tags: tags, VolumeTags: specTags(in.TagSpecifications, types.ResourceTypeVolume), Identity: c.identity, By: c.by(),
			}
			offers = append(offers, e.offer(spec, answer, o))
		}
	}
	byPriority := prioritized(in, spot)
	slices.SortStableFunc(offers, func(a, b offer) int {
		if byPriority {
			if n := cmp.Compare(a.priority, b.priority); n != 0 {
				return n
			}
		}
		return cmp.Compare(a.price, b.price)
	})
	return offers, nil
}

func prioritized(in *ec2.CreateFleetInput, spot bool) bool {
	if spot {
		return in.SpotOptions != nil && in.SpotOptions.AllocationStrategy == types.SpotAllocationStrategyCapacityOptimizedPrioritized
	}
	return in.OnDemandOptions != nil && in.OnDemandOptions.AllocationStrategy == types.FleetOnDemandAllocationStrategyPrioritized
}

// offer prices one override and prepares how the answer shows it: with its zone and image filled in.
func (e *ec2Service) offer(spec launchSpec, template types.FleetLaunchTemplateSpecification, o types.FleetLaunchTemplateOverridesRequest) offer {
	shown := convert[types.FleetLaunchTemplateOverrides](o)
	shown.InstanceType = types.InstanceType(firstOf(spec.InstanceType, string(spec.Template.InstanceType)))
	if image := firstOf(spec.ImageID, aws.ToString(spec.Template.ImageId)); image != "" {
		shown.ImageId = aws.String(image)
	}
	if subnet, err := e.subnetFor(spec); err == nil {
		shown.SubnetId, shown.AvailabilityZone, shown.AvailabilityZoneId = subnet.SubnetId, subnet.AvailabilityZone, subnet.AvailabilityZoneId
	}
	t, _ := findInstanceType(string(shown.InstanceType)) // unknown: launch says so
	return offer{
		spec: spec, price: e.price(t, aws.ToString(shown.AvailabilityZone), spec.Spot), priority: aws.ToFloat64(o.Priority),
		answer: types.LaunchTemplateAndOverridesResponse{LaunchTemplateSpecification: &template, Overrides: &shown},
	}
}

// price per hour in USD. Spot costs 30 % of on-demand in the first zone and 2 % more in each further one.
func (e *ec2Service) price(t instanceType, zone string, spot bool) float64 {
	if !spot {
		return t.USDPerHour
	}
	return t.USDPerHour * (0.30 + 0.02*float64(max(slices.Index(e.zones(), zone), 0)))
}
