package awssim

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
)

// placement is one way to launch one instance of a group.
type placement struct {
	zone         string
	instanceType string // empty: what the launch template says
	imageID      string // empty: what the launch template says
	spot         bool
	weight       int32
	template     *types.LaunchTemplateSpecification
}

// launchMenu answers what the planning of launches must know about instance types.
type launchMenu struct {
	// price is per hour in USD; an unknown type is free.
	price func(instanceType, zone string, spot bool) float64
	// matching lists the types that satisfy requirements.
	matching func(*types.InstanceRequirements) []string
}

// placements lists the ways to launch the group's next instance, best first: zones with the fewest instances first, and
// in each the types in the order of the allocation strategy. What has no capacity falls through to the next, as in EC2.
func (g *scalingGroup) placements(c launchMenu) []placement {
	spot := g.nextIsSpot()
	options := g.options(c)
	var all []placement
	for _, zone := range g.zonesByNeed() {
		inZone := slices.Clone(options)
		for i := range inZone {
			inZone[i].zone, inZone[i].spot = zone, spot
		}
		if !g.inGivenOrder(spot) {
			slices.SortStableFunc(inZone, func(a, b placement) int {
				return cmp.Compare(c.price(a.instanceType, zone, spot)/float64(a.weight), c.price(b.instanceType, zone, spot)/float64(b.weight))
			})
		}
		all = append(all, inZone...)
	}
	return all
}

// options are the launch template with each override of the mixed instances policy, or the launch template alone.
func (g *scalingGroup) options(c launchMenu) []placement {
	mixed := g.spec.MixedInstancesPolicy
	if mixed == nil || mixed.LaunchTemplate == nil {
		return []placement{{weight: 1, template: g.spec.LaunchTemplate}}
	}
	base := mixed.LaunchTemplate.LaunchTemplateSpecification
	var all []placement
	for _, o := range mixed.LaunchTemplate.Overrides {
		p := placement{weight: weight(o.WeightedCapacity), template: base, imageID: aws.ToString(o.ImageId)}
		if o.LaunchTemplateSpecification != nil {
			p.template = o.LaunchTemplateSpecification
		}
		names := []string{aws.ToString(o.InstanceType)}
		if o.InstanceRequirements != nil {
			names = c.matching(o.InstanceRequirements)
		}
		for _, n := range names {
			p.instanceType = n
			all = append(all, p)
		}
	}
	if len(mixed.LaunchTemplate.Overrides) == 0 {
		all = []placement{{weight: 1, template: base}}
	}
	return all
}

// inGivenOrder says whether the allocation strategy follows the order of the overrides; the others go by price here,
// for the simulator knows no pool's depth.
func (g *scalingGroup) inGivenOrder(spot bool) bool {
	if g.spec.MixedInstancesPolicy == nil {
		return true
	}
	d := g.spec.MixedInstancesPolicy.InstancesDistribution
	if spot {
		return d != nil && strings.HasSuffix(aws.ToString(d.SpotAllocationStrategy), "prioritized")
	}
	return d == nil || aws.ToString(d.OnDemandAllocationStrategy) != "lowest-price"
}

// nextIsSpot decides the next instance's market: on-demand up to the base, then by the percentage above it.
func (g *scalingGroup) nextIsSpot() bool {
	if g.spec.MixedInstancesPolicy == nil || g.spec.MixedInstancesPolicy.InstancesDistribution == nil {
		return false
	}
	d := g.spec.MixedInstancesPolicy.InstancesDistribution
	base, percent := or(d.OnDemandBaseCapacity, 0), or(d.OnDemandPercentageAboveBaseCapacity, 100)
	total, onDemand := int32(1), int32(0)
	for _, m := range g.members {
		if m.counted() {
			total += m.weight
			if !m.spot {
				onDemand += m.weight
			}
		}
	}
	want := min(total, base) + (max(0, total-base)*percent+99)/100
	return onDemand >= want
}

// zonesByNeed lists the group's zones, the one with the fewest instances first.
func (g *scalingGroup) zonesByNeed() []string {
	count := g.countByZone()
	zones := slices.Clone(g.spec.AvailabilityZones)
	slices.SortStableFunc(zones, func(a, b string) int { return cmp.Compare(count[a], count[b]) })
	return zones
}

// uneven says whether AZRebalance would act, and into which zone: two zones differ by more than one instance, or one
// that the group no longer uses still has some.
func (g *scalingGroup) uneven() (into string, yes bool) {
	if len(g.spec.AvailabilityZones) == 0 {
		return "", false
	}
	least, most := g.zonesByNeed()[0], 0
	count := g.countByZone()
	for zone, n := range count {
		if n > 0 && !slices.Contains(g.spec.AvailabilityZones, zone) {
			return least, true
		}
		most = max(most, n)
	}
	return least, most-count[least] > 1
}

// weight reads a WeightedCapacity, 1 when there is none.
func weight(s *string) int32 {
	n, err := strconv.ParseInt(aws.ToString(s), 10, 32)
	if err != nil || n < 1 {
		return 1
	}
	return int32(n)
}

func (m *member) weightShown() *string {
	if !m.weighted {
		return nil
	}
	return aws.String(strconv.Itoa(int(m.weight)))
}
