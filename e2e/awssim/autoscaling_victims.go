package awssim

import (
	"cmp"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
)

// victim is the instance that scale-in ends next, nil when none may be ended: not protected, not so heavy that the
// group would fall below desired, first from the zone with the most instances, and there by the termination policies.
func (g *scalingGroup) victim() (chosen *member, protected bool) {
	surplus := g.capacity() - g.sizes.desired
	var candidates []*member
	for _, m := range g.members {
		switch {
		case !m.counted() || m.extra && m.pending() || m.weight > surplus:
		case m.protected:
			protected = true
		default:
			candidates = append(candidates, m)
		}
	}
	if len(candidates) == 0 {
		return nil, protected
	}
	count := g.countByZone()
	slices.SortStableFunc(candidates, func(a, b *member) int {
		return cmp.Or(cmp.Compare(urgency(b), urgency(a)), cmp.Compare(g.crowding(count, b), g.crowding(count, a)), g.byPolicy(a, b))
	})
	return candidates[0], false
}

// crowding ranks an instance by the instances in its zone; a zone that the group no longer uses comes before all.
func (g *scalingGroup) crowding(count map[string]int, m *member) int {
	if !slices.Contains(g.spec.AvailabilityZones, m.zone) {
		return len(g.members) + 1
	}
	return count[m.zone]
}

// byPolicy compares two instances of equally crowded zones by the group's termination policies, in their order.
func (g *scalingGroup) byPolicy(a, b *member) int {
	for _, p := range append(slices.Clone(g.spec.TerminationPolicies), "Default") {
		c := 0
		switch p {
		case "OldestInstance":
			c = a.launched.Compare(b.launched)
		case "NewestInstance":
			c = b.launched.Compare(a.launched)
		case "OldestLaunchTemplate":
			c = cmp.Compare(templateVersion(a), templateVersion(b))
		case "Default":
			c = cmp.Or(cmp.Compare(templateVersion(a), templateVersion(b)), a.launched.Compare(b.launched), cmp.Compare(a.id, b.id))
		}
		if c != 0 {
			return c
		}
	}
	return 0
}

// urgency ranks what should go before all else.
func urgency(m *member) int {
	switch {
	case m.unhealthy:
		return 2
	case m.atRisk:
		return 1
	}
	return 0
}

func templateVersion(m *member) int32 {
	if m.template == nil {
		return 0
	}
	return weight(m.template.Version)
}

// sameTemplate says whether a member was launched from this template and resolved version.
func sameTemplate(m *member, t *types.LaunchTemplateSpecification) bool {
	return m.template != nil && t != nil && aws.ToString(m.template.LaunchTemplateId) == aws.ToString(t.LaunchTemplateId) &&
		aws.ToString(m.template.Version) == aws.ToString(t.Version)
}
