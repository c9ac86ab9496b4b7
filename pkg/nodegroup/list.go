package nodegroup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"golang.org/x/sync/errgroup"

	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/inventory/awsapi"
)

// Limits of DescribeAutoScalingGroups: groups a page, and names a call (API reference).
const (
	pageGroups    = 100
	namesPerGroup = 50
)

// found is a group before it is resolved: a managed node group, an Auto Scaling group, or the two together.
type found struct {
	managed *ekstypes.Nodegroup
	group   *astypes.AutoScalingGroup
}

// List reads every managed node group of the cluster and every other Auto Scaling group that belongs to it: tagged
// kubernetes.io/cluster/<name> or k8s.io/cluster-autoscaler/<name>, or named in also. They are sorted by name. A name
// in also that Auto Scaling does not know is left out; the caller sees that it is missing.
//
// A look costs one call for all groups, one for the list of managed node groups, and per group one each for the managed
// node group, policies, scheduled actions and an instance refresh in progress. Launch template versions, images and
// instance profiles are read once. Lifecycle hooks are read at first sight and while one of them holds an instance,
// scaling activities only while a group has fewer instances than it wants, and when one is new.
func (c *Client) List(ctx context.Context, also ...string) ([]inventory.NodeGroup, error) {
	all, err := c.find(ctx, also)
	if err != nil {
		return nil, err
	}
	out := make([]inventory.NodeGroup, len(all))
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for i, f := range all {
		group.Go(func() (err error) {
			out[i], err = c.read(groupCtx, f)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	if err := c.resolveTemplates(ctx, all, out); err != nil {
		return nil, err
	}
	slices.SortFunc(out, func(a, b inventory.NodeGroup) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.AutoScalingGroup, b.AutoScalingGroup))
	})
	return out, nil
}

// find pairs the managed node groups with the Auto Scaling groups that they own.
func (c *Client) find(ctx context.Context, also []string) ([]found, error) {
	var tagged []astypes.AutoScalingGroup
	var managed []*ekstypes.Nodegroup
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() (err error) { tagged, err = c.groupsTagged(groupCtx); return err })
	group.Go(func() (err error) { managed, err = c.nodegroups(groupCtx); return err })
	if err := group.Wait(); err != nil {
		return nil, err
	}
	groups := map[string]*astypes.AutoScalingGroup{}
	add := func(list []astypes.AutoScalingGroup) {
		for i := range list {
			if name := aws.ToString(list[i].AutoScalingGroupName); name != "" {
				groups[name] = &list[i]
			}
		}
	}
	add(tagged)
	wanted := slices.Clone(also)
	for _, m := range managed {
		wanted = append(wanted, ownedGroup(m))
	}
	named, err := c.groupsNamed(ctx, slices.DeleteFunc(wanted, func(name string) bool { return name == "" || groups[name] != nil }))
	if err != nil {
		return nil, err
	}
	add(named)
	return pair(managed, groups), nil
}

func pair(managed []*ekstypes.Nodegroup, groups map[string]*astypes.AutoScalingGroup) []found {
	var out []found
	for _, m := range managed {
		name := ownedGroup(m)
		out = append(out, found{managed: m, group: groups[name]})
		delete(groups, name)
	}
	for _, g := range groups {
		out = append(out, found{group: g})
	}
	return out
}

// ownedGroup is the name of the Auto Scaling group behind a managed node group; empty while EKS still makes it.
func ownedGroup(m *ekstypes.Nodegroup) string {
	if names := ownedGroups(m); len(names) > 0 {
		return names[0]
	}
	return ""
}

// ownedGroups are the names of all Auto Scaling groups behind a managed node group: one, as far as EKS is known to go.
func ownedGroups(m *ekstypes.Nodegroup) []string {
	if m.Resources == nil {
		return nil
	}
	var names []string
	for _, g := range m.Resources.AutoScalingGroups {
		if name := aws.ToString(g.Name); name != "" {
			names = append(names, name)
		}
	}
	return names
}

func (c *Client) groupsTagged(ctx context.Context) ([]astypes.AutoScalingGroup, error) {
	return c.groups(ctx, &autoscaling.DescribeAutoScalingGroupsInput{
		MaxRecords: aws.Int32(pageGroups),
		Filters: []astypes.Filter{{
			Name:   aws.String("tag-key"),
			Values: []string{"kubernetes.io/cluster/" + c.cluster, "k8s.io/cluster-autoscaler/" + c.cluster},
		}},
	})
}

func (c *Client) groupsNamed(ctx context.Context, names []string) ([]astypes.AutoScalingGroup, error) {
	slices.Sort(names)
	var out []astypes.AutoScalingGroup
	for batch := range slices.Chunk(slices.Compact(names), namesPerGroup) {
		groups, err := c.groups(ctx, &autoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: batch, MaxRecords: aws.Int32(pageGroups)})
		if err != nil {
			return nil, err
		}
		out = append(out, groups...)
	}
	return out, nil
}

func (c *Client) groups(ctx context.Context, in *autoscaling.DescribeAutoScalingGroupsInput) ([]astypes.AutoScalingGroup, error) {
	var out []astypes.AutoScalingGroup
	pages := autoscaling.NewDescribeAutoScalingGroupsPaginator(c.asg, in)
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, awsapi.Wrap(err, "autoscaling:DescribeAutoScalingGroups", "Auto Scaling groups of cluster "+c.cluster)
		}
		out = append(out, page.AutoScalingGroups...)
	}
	return out, nil
}

// nodegroups are the cluster's managed node groups; one that is deleted between the list and the look is left out.
func (c *Client) nodegroups(ctx context.Context) ([]*ekstypes.Nodegroup, error) {
	var names []string
	pages := eks.NewListNodegroupsPaginator(c.eks, &eks.ListNodegroupsInput{ClusterName: aws.String(c.cluster)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if awsapi.Is(err, codeNotFound) {
			return nil, inventory.Terminal(fmt.Errorf("node groups of EKS cluster %s: %w", c.cluster, errors.Join(ErrClusterNotFound, err)))
		}
		if err != nil {
			return nil, awsapi.Wrap(err, "eks:ListNodegroups", "EKS cluster "+c.cluster)
		}
		names = append(names, page.Nodegroups...)
	}
	out := make([]*ekstypes.Nodegroup, len(names))
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for i, name := range names {
		group.Go(func() (err error) {
			out[i], err = c.nodegroup(groupCtx, name)
			return err
		})
	}
	err := group.Wait()
	return slices.DeleteFunc(out, func(m *ekstypes.Nodegroup) bool { return m == nil }), err
}

// nodegroup is nil where there is none of that name.
func (c *Client) nodegroup(ctx context.Context, name string) (*ekstypes.Nodegroup, error) {
	answer, err := c.eks.DescribeNodegroup(ctx, &eks.DescribeNodegroupInput{ClusterName: aws.String(c.cluster), NodegroupName: aws.String(name)})
	if awsapi.Is(err, codeNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, awsapi.Wrap(err, "eks:DescribeNodegroup", "EKS managed node group "+name)
	}
	return answer.Nodegroup, nil
}

// read makes a group in castoff's words, all but its launch template's contents.
func (c *Client) read(ctx context.Context, f found) (inventory.NodeGroup, error) {
	out := inventory.NodeGroup{}
	if f.managed != nil {
		out = managedGroup(*f.managed)
	}
	if f.group == nil {
		return out, nil
	}
	fillGroup(&out, *f.group)
	name := out.AutoScalingGroup
	var err error
	if out.ScalingPolicies, err = c.scalingPolicies(ctx, name); err != nil {
		return out, err
	}
	if out.ScheduledActions, err = c.scheduledActions(ctx, name); err != nil {
		return out, err
	}
	if out.LifecycleHooks, err = c.lifecycleHooks(ctx, out); err != nil {
		return out, err
	}
	if out.InstanceRefresh, err = c.instanceRefresh(ctx, out); err != nil {
		return out, err
	}
	if out.InstanceRefreshHeld, err = c.instanceRefreshHeld(ctx, out); err != nil {
		return out, err
	}
	out.LaunchError, out.ScalingCause, err = c.scalingActivity(ctx, out)
	return out, err
}
