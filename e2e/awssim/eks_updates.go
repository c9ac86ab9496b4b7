package awssim

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"
)

// update is a change of a node group that is under way or was made.
type update struct {
	types.Update
	NodeGroup string // key of the node group
}

// beginUpdate records an update and stores the node group as being updated.
func (e *eksService) beginUpdate(n *nodeGroup, kind types.UpdateType, params []types.UpdateParam) update {
	u := update{NodeGroup: n.key(), Update: types.Update{
		Id: aws.String(e.s.uuid()), Type: kind, Status: types.UpdateStatusInProgress, CreatedAt: aws.Time(e.s.now()), Params: params, Errors: []types.ErrorDetail{}}}
	e.updates.put(n.key()+"/"+aws.ToString(u.Id), u)
	n.Status, n.ModifiedAt = types.NodegroupStatusUpdating, aws.Time(e.s.now())
	e.nodeGroups.put(n.key(), *n)
	return u
}

// endUpdate ends an update, and its node group is active again.
func (e *eksService) endUpdate(nodeGroupKey string, u update) {
	e.updates.update(nodeGroupKey+"/"+aws.ToString(u.Id), func(u *update) { u.Status = types.UpdateStatusSuccessful })
	e.nodeGroups.update(nodeGroupKey, func(n *nodeGroup) {
		if n.Status == types.NodegroupStatusUpdating {
			n.Status = types.NodegroupStatusActive
		}
	})
}

func configParams(in *eks.UpdateNodegroupConfigInput) (params []types.UpdateParam) {
	add := func(kind types.UpdateParamType, value any) {
		text, err := json.Marshal(value)
		if err == nil {
			params = append(params, types.UpdateParam{Type: kind, Value: aws.String(strings.Trim(string(text), `"`))})
		}
	}
	if s := in.ScalingConfig; s != nil {
		for _, x := range []struct {
			kind  types.UpdateParamType
			value *int32
		}{{types.UpdateParamTypeMinSize, s.MinSize}, {types.UpdateParamTypeMaxSize, s.MaxSize}, {types.UpdateParamTypeDesiredSize, s.DesiredSize}} {
			if x.value != nil {
				add(x.kind, *x.value)
			}
		}
	}
	if l := in.Labels; l != nil {
		add(types.UpdateParamTypeLabelsToAdd, l.AddOrUpdateLabels)
		add(types.UpdateParamTypeLabelsToRemove, l.RemoveLabels)
	}
	if t := in.Taints; t != nil {
		add(types.UpdateParamTypeTaintsToAdd, t.AddOrUpdateTaints)
		add(types.UpdateParamTypeTaintsToRemove, t.RemoveTaints)
	}
	return params
}

// updateNodegroupVersion gives the launch template a new version with the newest image and replaces the nodes one after
// another; each is ended after fifteen minutes whether it is drained or not.
func (e *eksService) updateNodegroupVersion(c *call, in *eks.UpdateNodegroupVersionInput) (*eks.UpdateNodegroupVersionOutput, error) {
	n, err := e.active(in.ClusterName, in.NodegroupName)
	if err != nil {
		return nil, err
	}
	cluster, err := e.cluster(in.ClusterName)
	if err != nil {
		return nil, err
	}
	n.Version = aws.String(or(in.Version, aws.ToString(cluster.Version)))
	n.ReleaseVersion = in.ReleaseVersion
	if in.LaunchTemplate != nil {
		n.LaunchTemplate = in.LaunchTemplate
	}
	data, err := e.templateFor(cluster, &n)
	if err != nil {
		return nil, err
	}
	made, err := e.s.ec2.createLaunchTemplateVersion(c, &ec2.CreateLaunchTemplateVersionInput{LaunchTemplateId: aws.String(n.Template), LaunchTemplateData: data})
	if err != nil {
		return nil, invalidParameter("The launch template of node group %s cannot be changed: %s", n.key(), asAPIError(err).Message)
	}
	g := e.s.autoscaling.groups[n.Group]
	if g == nil {
		return nil, invalidParameter("The Auto Scaling group of node group %s is gone", n.key())
	}
	g.template().Version = aws.String(strconv.FormatInt(aws.ToInt64(made.LaunchTemplateVersion.VersionNumber), 10))
	e.s.autoscaling.beginRefresh(g, &astypes.RefreshPreferences{ScaleInProtectedInstances: astypes.ScaleInProtectedInstancesRefresh})
	u := e.beginUpdate(&n, types.UpdateTypeVersionUpdate, []types.UpdateParam{
		{Type: types.UpdateParamTypeVersion, Value: n.Version}, {Type: types.UpdateParamTypeReleaseVersion, Value: n.ReleaseVersion}})
	e.s.autoscaling.touch(g)
	return &eks.UpdateNodegroupVersionOutput{Update: &u.Update}, nil
}

// finishVersionUpdate ends the update whose node replacement is over.
func (e *eksService) finishVersionUpdate(n nodeGroup) {
	for _, u := range under(e.updates.truth(), n.key()) {
		if u.Type == types.UpdateTypeVersionUpdate && u.Status == types.UpdateStatusInProgress {
			e.endUpdate(n.key(), u)
		}
	}
}

func (e *eksService) describeUpdate(c *call, in *eks.DescribeUpdateInput) (*eks.DescribeUpdateOutput, error) {
	key := aws.ToString(in.Name) + "/" + aws.ToString(in.NodegroupName) + "/" + aws.ToString(in.UpdateId)
	u, ok := e.updates.asOf(c.readTime()).get(key)
	if !ok {
		return nil, notFound("No update found for ID: %s", aws.ToString(in.UpdateId))
	}
	return &eks.DescribeUpdateOutput{Update: &u.Update}, nil
}

func (e *eksService) listUpdates(c *call, in *eks.ListUpdatesInput) (*eks.ListUpdatesOutput, error) {
	if in.NodegroupName == nil {
		return &eks.ListUpdatesOutput{UpdateIds: []string{}}, nil // clusters and add-ons are not updated here
	}
	if _, err := e.nodeGroup(e.nodeGroups.truth(), in.Name, in.NodegroupName); err != nil {
		return nil, err
	}
	ids, next, err := listNames(e.updates.asOf(c.readTime()), aws.ToString(in.Name)+"/"+*in.NodegroupName, in.MaxResults, in.NextToken, func(u update) string { return aws.ToString(u.Id) })
	return &eks.ListUpdatesOutput{UpdateIds: ids, NextToken: next}, err
}
