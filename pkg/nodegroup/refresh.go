package nodegroup

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"golang.org/x/sync/errgroup"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// Refresh reads anew what changes while instances come and go: sizes, instances, processes, and the status of managed node groups; the
// rest is as it was in groups. It costs one call for 50 groups, and one for each managed node group. A group that is gone is left out.
func (c *Client) Refresh(ctx context.Context, groups []inventory.NodeGroup) ([]inventory.NodeGroup, error) {
	var names []string
	for _, g := range groups {
		if g.AutoScalingGroup != "" {
			names = append(names, g.AutoScalingGroup)
		}
	}
	found, err := c.groupsNamed(ctx, names)
	if err != nil {
		return nil, err
	}
	now := map[string]astypes.AutoScalingGroup{}
	for _, g := range found {
		now[aws.ToString(g.AutoScalingGroupName)] = g
	}
	fresh := make([]*inventory.NodeGroup, len(groups))
	all, allCtx := errgroup.WithContext(ctx)
	all.SetLimit(parallel)
	for i, g := range groups {
		all.Go(func() (err error) {
			fresh[i], err = c.refresh(allCtx, g, now)
			return err
		})
	}
	if err := all.Wait(); err != nil {
		return nil, err
	}
	out := make([]inventory.NodeGroup, 0, len(groups))
	for _, g := range fresh {
		if g != nil {
			out = append(out, *g)
		}
	}
	return out, nil
}

// refresh gives nil for a group that is gone.
func (c *Client) refresh(ctx context.Context, g inventory.NodeGroup, now map[string]astypes.AutoScalingGroup) (*inventory.NodeGroup, error) {
	if g.Managed != nil {
		described, err := c.nodegroup(ctx, g.Name)
		if err != nil {
			return nil, fmt.Errorf("looking at node group %s again: %w", g.Name, err)
		}
		if described == nil {
			return nil, nil
		}
		managed, sized := *g.Managed, managedGroup(*described)
		managed.Status, managed.HealthIssues = sized.Managed.Status, sized.Managed.HealthIssues
		g.Managed, g.Min, g.Max, g.Desired = &managed, sized.Min, sized.Max, sized.Desired
	}
	asg, ok := now[g.AutoScalingGroup]
	if !ok {
		if g.Managed == nil {
			return nil, nil
		}
		g.Instances = nil
		return &g, nil
	}
	mixed := g.MixedInstances // what its requirements come to was looked up
	g.Instances, g.Tags, g.SuspendedProcesses = nil, nil, nil
	fillGroup(&g, asg)
	g.MixedInstances = mixed
	return &g, nil
}
