package castandin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"
)

// groups remembers what Auto Scaling said, so that a removed discovery tag is noticed late, as with the real one.
type groups struct {
	static    []staticGroup
	discovery [][]tagFilter
	interval  time.Duration

	list      []*Group // by name
	refreshed time.Time
}

func newGroups(opts Options) (*groups, error) {
	g := &groups{interval: opts.RefreshInterval}
	for _, spec := range opts.Nodes {
		group, err := parseStatic(spec)
		if err != nil {
			return nil, err
		}
		g.static = append(g.static, group)
	}
	for _, spec := range opts.AutoDiscovery {
		filters, err := parseDiscovery(spec)
		if err != nil {
			return nil, err
		}
		g.discovery = append(g.discovery, filters)
	}
	return g, nil
}

// refresh asks Auto Scaling again once what is known is older than the interval.
func (g *groups) refresh(ctx context.Context, cloud Cloud, now time.Time) error {
	if !g.refreshed.IsZero() && now.Sub(g.refreshed) < g.interval {
		return nil
	}
	all, err := cloud.Groups(ctx)
	if err != nil {
		return fmt.Errorf("refreshing node groups: %w", err)
	}
	g.list, g.refreshed = g.choose(all), now
	return nil
}

// choose keeps the groups named by --nodes, whatever their tags say, and those whose tags ask to be discovered.
func (g *groups) choose(all []Group) []*Group {
	var chosen []*Group
	for _, group := range all {
		if i := slices.IndexFunc(g.static, func(s staticGroup) bool { return s.name == group.Name }); i >= 0 {
			group.Min, group.Max = g.static[i].min, g.static[i].max
			chosen = append(chosen, &group)
			continue
		}
		if slices.ContainsFunc(g.discovery, func(filters []tagFilter) bool { return matchesAll(filters, group.Tags) }) {
			chosen = append(chosen, &group)
		}
	}
	slices.SortFunc(chosen, func(a, b *Group) int { return cmp.Compare(a.Name, b.Name) })
	return chosen
}

// of is the group that the instance belongs to, nil without one.
func (g *groups) of(instanceID string) *Group {
	for _, group := range g.list {
		if instanceID != "" && slices.Contains(group.Instances, instanceID) {
			return group
		}
	}
	return nil
}
