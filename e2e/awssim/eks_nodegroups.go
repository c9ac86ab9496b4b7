package awssim

import (
	"maps"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/schemas"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/castoff-sh/castoff/e2e/awssim/simapi"
)

// nodeGroup is a managed node group and the things that EKS made for it.
type nodeGroup struct {
	types.Nodegroup
	Group    string // its Auto Scaling group
	Template string // ID of the launch template that EKS made
	Profile  string // its instance profile
	Image    string
}

func (n *nodeGroup) key() string {
	return aws.ToString(n.ClusterName) + "/" + aws.ToString(n.NodegroupName)
}

func (e *eksService) registerNodeGroups() {
	s := e.s
	onREST(s, "eks.CreateNodegroup", schemas.CreateNodegroup, e.createNodegroup)
	onREST(s, "eks.DescribeNodegroup", schemas.DescribeNodegroup, e.describeNodegroup)
	onREST(s, "eks.ListNodegroups", schemas.ListNodegroups, e.listNodegroups)
	onREST(s, "eks.UpdateNodegroupConfig", schemas.UpdateNodegroupConfig, e.updateNodegroupConfig)
	onREST(s, "eks.UpdateNodegroupVersion", schemas.UpdateNodegroupVersion, e.updateNodegroupVersion)
	onREST(s, "eks.DeleteNodegroup", schemas.DeleteNodegroup, e.deleteNodegroup)
	onREST(s, "eks.DescribeUpdate", schemas.DescribeUpdate, e.describeUpdate)
	onREST(s, "eks.ListUpdates", schemas.ListUpdates, e.listUpdates)
}

// nodeLabels are the labels that the group's nodes carry.
func (n *nodeGroup) nodeLabels() map[string]string {
	labels := map[string]string{
		"eks.amazonaws.com/nodegroup":       aws.ToString(n.NodegroupName),
		"eks.amazonaws.com/capacityType":    string(n.CapacityType),
		"eks.amazonaws.com/nodegroup-image": n.Image,
	}
	if n.LaunchTemplate != nil {
		labels["eks.amazonaws.com/sourceLaunchTemplateId"] = aws.ToString(n.LaunchTemplate.Id)
		labels["eks.amazonaws.com/sourceLaunchTemplateVersion"] = aws.ToString(n.LaunchTemplate.Version)
	}
	maps.Copy(labels, n.Labels)
	return labels
}

// nodeTaints are the group's taints as Kubernetes writes them: NO_SCHEDULE is NoSchedule.
func (n *nodeGroup) nodeTaints() (taints []simapi.Taint) {
	effects := map[types.TaintEffect]string{
		types.TaintEffectNoSchedule: "NoSchedule", types.TaintEffectNoExecute: "NoExecute", types.TaintEffectPreferNoSchedule: "PreferNoSchedule",
	}
	for _, t := range n.Taints {
		taints = append(taints, simapi.Taint{Key: aws.ToString(t.Key), Value: aws.ToString(t.Value), Effect: effects[t.Effect]})
	}
	return taints
}

// scalingOf reads a scaling configuration over the present sizes, and checks it as EKS does.
func scalingOf(c *types.NodegroupScalingConfig, now sizes) (sizes, error) {
	if c != nil {
		now = sizes{or(c.MinSize, now.min), or(c.MaxSize, now.max), or(c.DesiredSize, now.desired)}
	}
	switch {
	case now.max < 1:
		return now, invalidParameter("maxSize must be at least 1")
	case now.min < 0 || now.desired < 0:
		return now, invalidParameter("minSize and desiredSize must not be negative")
	case now.min > now.max:
		return now, invalidParameter("minSize %d can't be greater than maxSize %d", now.min, now.max)
	case now.min > now.desired:
		return now, invalidParameter("Minimum capacity %d can't be greater than desired size %d", now.min, now.desired)
	case now.desired > now.max:
		return now, invalidParameter("desired capacity %d can't be greater than max size %d", now.desired, now.max)
	}
	return now, nil
}

func (z sizes) scalingConfig() *types.NodegroupScalingConfig {
	return &types.NodegroupScalingConfig{MinSize: aws.Int32(z.min), MaxSize: aws.Int32(z.max), DesiredSize: aws.Int32(z.desired)}
}

func (e *eksService) createNodegroup(c *call, in *eks.CreateNodegroupInput) (*eks.CreateNodegroupOutput, error) {
	cluster, err := e.cluster(in.ClusterName)
	if err != nil {
		return nil, err
	}
	n := newNodeGroup(in, cluster)
	if _, exists := e.nodeGroups.get(n.key()); exists {
		return nil, inUse("NodeGroup already exists with name %s and cluster name %s", aws.ToString(in.NodegroupName), aws.ToString(in.ClusterName))
	}
	z, err := scalingOf(in.ScalingConfig, sizes{1, 2, 2})
	if err != nil {
		return nil, err
	}
	id := e.s.uuid()
	n.ScalingConfig = z.scalingConfig()
	n.NodegroupArn = aws.String(e.arn("nodegroup/" + n.key() + "/" + id))
	n.CreatedAt, n.ModifiedAt = aws.Time(e.s.now()), aws.Time(e.s.now())
	n.Group, n.Profile = "eks-"+aws.ToString(in.NodegroupName)+"-"+id, "eks-"+id
	n.Resources = &types.NodegroupResources{AutoScalingGroups: []types.AutoScalingGroup{{Name: aws.String(n.Group)}}}
	if err := e.build(c, cluster, &n, z); err != nil {
		return nil, err
	}
	e.authorise(cluster, aws.ToString(in.NodeRole))
	e.nodeGroups.put(n.key(), n)
	e.s.after(createTimeout, func() { e.giveUp(n) })
	return &eks.CreateNodegroupOutput{Nodegroup: &n.Nodegroup}, nil
}

// giveUp fails a node group whose instances did not come, but keeps it.
func (e *eksService) giveUp(n nodeGroup) {
	e.nodeGroups.update(n.key(), func(now *nodeGroup) {
		if now.Group == n.Group && now.Status == types.NodegroupStatusCreating {
			now.Status = types.NodegroupStatusCreateFailed
			now.Health.Issues = []types.Issue{{Code: types.NodegroupIssueCodeAsgInstanceLaunchFailures, ResourceIds: []string{n.Group}, Message: aws.String("Instances failed to launch; see the scaling activities of the group")}}
		}
	})
}

func newNodeGroup(in *eks.CreateNodegroupInput, cluster types.Cluster) nodeGroup {
	n := nodeGroup{Nodegroup: types.Nodegroup{
		ClusterName: in.ClusterName, NodegroupName: in.NodegroupName, NodeRole: in.NodeRole, Subnets: in.Subnets, Labels: in.Labels, Taints: in.Taints, Tags: in.Tags,
		AmiType: in.AmiType, CapacityType: in.CapacityType, InstanceTypes: in.InstanceTypes, DiskSize: in.DiskSize, LaunchTemplate: in.LaunchTemplate,
		UpdateConfig: in.UpdateConfig, Version: aws.String(or(in.Version, aws.ToString(cluster.Version))), ReleaseVersion: in.ReleaseVersion,
		RemoteAccess: in.RemoteAccess, NodeRepairConfig: in.NodeRepairConfig, Status: types.NodegroupStatusCreating, Health: &types.NodegroupHealth{Issues: []types.Issue{}},
	}}
	if n.CapacityType == "" {
		n.CapacityType = types.CapacityTypesOnDemand
	}
	if n.AmiType == "" {
		n.AmiType = types.AMITypesAl2023X8664Standard
	}
	if n.UpdateConfig == nil {
		n.UpdateConfig = &types.NodegroupUpdateConfig{MaxUnavailable: aws.Int32(1)}
	}
	if n.LaunchTemplate == nil {
		n.DiskSize = aws.Int32(or(n.DiskSize, 20))
	}
	return n
}

func (e *eksService) nodeGroup(v view[nodeGroup], cluster, name *string) (nodeGroup, error) {
	if _, err := e.cluster(cluster); err != nil {
		return nodeGroup{}, err
	}
	n, ok := v.get(aws.ToString(cluster) + "/" + aws.ToString(name))
	if !ok {
		return n, notFound("No node group found for name: %s.", aws.ToString(name))
	}
	return n, nil
}

// describeNodegroup shows the desired size that the Auto Scaling group has, whoever set it, and misses a deleted one.
func (e *eksService) describeNodegroup(c *call, in *eks.DescribeNodegroupInput) (*eks.DescribeNodegroupOutput, error) {
	n, err := e.nodeGroup(e.nodeGroups.asOf(c.readTime()), in.ClusterName, in.NodegroupName)
	if err != nil {
		return nil, err
	}
	if d, ok := e.s.autoscaling.shown.asOf(c.readTime()).get(n.Group); ok {
		n.ScalingConfig.DesiredSize = d.Group.DesiredCapacity
	} else if n.Status == types.NodegroupStatusActive {
		n.Status = types.NodegroupStatusDegraded
		n.Health.Issues = []types.Issue{{Code: types.NodegroupIssueCodeAutoScalingGroupNotFound, ResourceIds: []string{n.Group}, Message: aws.String("Your Auto Scaling group was deleted")}}
	}
	return &eks.DescribeNodegroupOutput{Nodegroup: &n.Nodegroup}, nil
}

func (e *eksService) listNodegroups(c *call, in *eks.ListNodegroupsInput) (*eks.ListNodegroupsOutput, error) {
	if _, err := e.cluster(in.ClusterName); err != nil {
		return nil, err
	}
	names, next, err := listNames(e.nodeGroups.asOf(c.readTime()), aws.ToString(in.ClusterName), in.MaxResults, in.NextToken, func(n nodeGroup) string { return aws.ToString(n.NodegroupName) })
	return &eks.ListNodegroupsOutput{Nodegroups: names, NextToken: next}, err
}

// active is the node group if it can be changed now.
func (e *eksService) active(cluster, name *string) (nodeGroup, error) {
	n, err := e.nodeGroup(e.nodeGroups.truth(), cluster, name)
	if err == nil && n.Status != types.NodegroupStatusActive && n.Status != types.NodegroupStatusDegraded {
		return n, inUse("Nodegroup cannot be updated as it is currently not in Active State")
	}
	return n, err
}

func (e *eksService) updateNodegroupConfig(_ *call, in *eks.UpdateNodegroupConfigInput) (*eks.UpdateNodegroupConfigOutput, error) {
	n, err := e.active(in.ClusterName, in.NodegroupName)
	if err != nil {
		return nil, err
	}
	g := e.s.autoscaling.groups[n.Group]
	now := sizes{or(n.ScalingConfig.MinSize, 0), or(n.ScalingConfig.MaxSize, 0), or(n.ScalingConfig.DesiredSize, 0)}
	if g != nil {
		now.desired = g.sizes.desired
	}
	var z sizes
	if in.ScalingConfig != nil {
		if z, err = scalingOf(in.ScalingConfig, now); err != nil {
			return nil, err
		}
		n.ScalingConfig = z.scalingConfig()
	}
	n.relabel(in.Labels)
	n.retaint(in.Taints)
	if in.UpdateConfig != nil {
		n.UpdateConfig = in.UpdateConfig
	}
	u := e.beginUpdate(&n, types.UpdateTypeConfigUpdate, configParams(in))
	e.soon(func() {
		if g != nil && in.ScalingConfig != nil {
			g.sizes = z
			for _, t := range n.groupInput(z).Tags {
				g.tag(t) // EKS owns them: it puts them back
			}
			e.s.autoscaling.touch(g)
		}
		e.endUpdate(n.key(), u)
		e.announce(func(i simapi.Instance) bool { return i.Cluster+"/"+i.NodeGroup == n.key() })
	})
	return &eks.UpdateNodegroupConfigOutput{Update: &u.Update}, nil
}

func (n *nodeGroup) relabel(p *types.UpdateLabelsPayload) {
	if p == nil {
		return
	}
	if n.Labels == nil {
		n.Labels = map[string]string{}
	}
	for _, k := range p.RemoveLabels {
		delete(n.Labels, k)
	}
	maps.Copy(n.Labels, p.AddOrUpdateLabels)
}

// retaint replaces taints by key and effect, as Kubernetes identifies them.
func (n *nodeGroup) retaint(p *types.UpdateTaintsPayload) {
	if p == nil {
		return
	}
	var kept []types.Taint
	for _, t := range n.Taints {
		if !hasTaint(p.RemoveTaints, t) && !hasTaint(p.AddOrUpdateTaints, t) {
			kept = append(kept, t)
		}
	}
	n.Taints = append(kept, p.AddOrUpdateTaints...)
}

func hasTaint(taints []types.Taint, t types.Taint) bool {
	for _, x := range taints {
		if aws.ToString(x.Key) == aws.ToString(t.Key) && x.Effect == t.Effect {
			return true
		}
	}
	return false
}

// deleteNodegroup takes the group to zero: all its nodes are drained at once, and ended after five minutes whether they
// are empty or not. What EKS made for it goes when the last has ended.
func (e *eksService) deleteNodegroup(_ *call, in *eks.DeleteNodegroupInput) (*eks.DeleteNodegroupOutput, error) {
	n, err := e.nodeGroup(e.nodeGroups.truth(), in.ClusterName, in.NodegroupName)
	if err != nil {
		return nil, err
	}
	if n.Status == types.NodegroupStatusDeleting || n.Status == types.NodegroupStatusUpdating {
		return nil, inUse("Nodegroup cannot be deleted as it is currently %s", strings.ToLower(string(n.Status)))
	}
	n.Status = types.NodegroupStatusDeleting
	e.nodeGroups.put(n.key(), n)
	if g := e.s.autoscaling.groups[n.Group]; g != nil {
		g.sizes = sizes{}
		e.s.autoscaling.touch(g)
	} else {
		e.soon(func() { e.finishDeletion(n) })
	}
	return &eks.DeleteNodegroupOutput{Nodegroup: &n.Nodegroup}, nil
}
