package awssim

import (
	"maps"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// launcherIdentity is the identity of launches that groups make; capacity faults can match it.
const launcherIdentity = "autoscaling"

// launch starts an instance of the group in EC2.
func (a *autoscalingService) launch(g *scalingGroup, p placement) (*member, error) {
	used, data, err := a.source(g, p)
	if err != nil {
		return nil, err
	}
	market := data.InstanceMarketOptions
	spot := p.spot || market != nil && market.MarketType == ec2types.MarketTypeSpot
	spec := launchSpec{Template: data, InstanceType: p.instanceType, ImageID: p.imageID, Zone: p.zone, SubnetID: a.subnetIn(g, p.zone), Spot: spot,
		Identity: launcherIdentity, By: launcherIdentity + " autoscaling.Launch"}
	tags := g.propagated()
	if used != nil {
		tags["aws:ec2launchtemplate:id"], tags["aws:ec2launchtemplate:version"] = aws.ToString(used.LaunchTemplateId), aws.ToString(used.Version)
	}
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		spec.Tags = append(spec.Tags, ec2types.Tag{Key: aws.String(k), Value: aws.String(tags[k])})
	}
	i, err := a.s.ec2.launch(spec)
	if err != nil {
		return nil, err
	}
	return &member{
		id: i.id(), instanceType: string(i.InstanceType), zone: i.zone(), imageID: aws.ToString(i.ImageId), weight: p.weight, weighted: g.weighted(),
		spot: spot, state: types.LifecycleStatePending, template: used, configuration: g.spec.LaunchConfigurationName, launched: a.now(),
	}, nil
}

// source is what a placement launches from: a launch template, or the group's launch configuration.
func (a *autoscalingService) source(g *scalingGroup, p placement) (*types.LaunchTemplateSpecification, ec2types.ResponseLaunchTemplateData, error) {
	if g.spec.LaunchConfigurationName != nil {
		data, err := a.configuration(g.spec.LaunchConfigurationName)
		return nil, data, err
	}
	return a.resolve(p.template)
}

// subnetIn is the group's subnet in a zone, empty when it has only zones.
func (a *autoscalingService) subnetIn(g *scalingGroup, zone string) string {
	for _, id := range g.subnets() {
		if z, ok := a.zoneOf(id); ok && z == zone {
			return id
		}
	}
	return ""
}

func (a *autoscalingService) zoneOf(subnet string) (string, bool) {
	sn, ok := a.s.ec2.subnets.get(subnet)
	return aws.ToString(sn.AvailabilityZone), ok
}

// weighted says whether the group's overrides carry weights.
func (g *scalingGroup) weighted() bool {
	mixed := g.spec.MixedInstancesPolicy
	return mixed != nil && mixed.LaunchTemplate != nil && slices.ContainsFunc(mixed.LaunchTemplate.Overrides, func(o types.LaunchTemplateOverrides) bool {
		return o.WeightedCapacity != nil
	})
}

// resolve finds a launch template's data, and says which template and numbered version that is.
func (a *autoscalingService) resolve(spec *types.LaunchTemplateSpecification) (*types.LaunchTemplateSpecification, ec2types.ResponseLaunchTemplateData, error) {
	var none ec2types.ResponseLaunchTemplateData
	if spec == nil {
		return nil, none, validation("The group has no launch template.")
	}
	t, err := a.s.ec2.findTemplate(aws.ToString(spec.LaunchTemplateId), aws.ToString(spec.LaunchTemplateName))
	if err != nil {
		return nil, none, err
	}
	v, err := t.version(aws.ToString(spec.Version))
	if err != nil {
		return nil, none, err
	}
	used := &types.LaunchTemplateSpecification{LaunchTemplateId: t.LaunchTemplateId, LaunchTemplateName: t.LaunchTemplateName,
		Version: aws.String(strconv.FormatInt(aws.ToInt64(v.VersionNumber), 10))}
	return used, *v.LaunchTemplateData, nil
}

// complementTemplate checks that a launch template exists and fills in its id and name; the version stays as given, or
// is shown as $Default.
func (a *autoscalingService) complementTemplate(spec *types.LaunchTemplateSpecification) error {
	used, _, err := a.resolve(spec)
	if err != nil {
		return validation("You must use a valid fully-formed launch template. %s", asAPIError(err).Message)
	}
	spec.LaunchTemplateId, spec.LaunchTemplateName = used.LaunchTemplateId, used.LaunchTemplateName
	spec.Version = aws.String(or(spec.Version, "$Default"))
	return nil
}

// menu prices instance types as EC2 does, and knows those that satisfy requirements.
func (a *autoscalingService) menu() launchMenu {
	return launchMenu{
		price: func(name, zone string, spot bool) float64 {
			t, _ := findInstanceType(name) // unknown: EC2 refuses the launch
			return a.s.ec2.price(t, zone, spot)
		},
		matching: func(r *types.InstanceRequirements) (names []string) {
			need := convert[ec2types.InstanceRequirements](r)
			all, _ := instanceTypes() // a test reads the embedded file: it parses
			for _, t := range all {
				if t.meets(need) {
					names = append(names, string(t.Info.InstanceType))
				}
			}
			return names
		},
	}
}
