package awssim

import (
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// terminatedShown is for how long EC2 still shows an instance that has ended.
const terminatedShown = time.Hour

var instanceFilters = filterable[instance]{
	tags: func(i *instance) []types.Tag { return i.Tags },
	values: map[string]func(*instance) []string{
		"instance-id":                func(i *instance) []string { return one(i.InstanceId) },
		"instance-state-name":        func(i *instance) []string { return []string{string(i.state())} },
		"instance-state-code":        func(i *instance) []string { return []string{fmt.Sprint(stateCodes[i.state()])} },
		"instance-type":              func(i *instance) []string { return []string{string(i.InstanceType)} },
		"instance-lifecycle":         func(i *instance) []string { return []string{string(i.InstanceLifecycle)} },
		"availability-zone":          func(i *instance) []string { return []string{i.zone()} },
		"vpc-id":                     func(i *instance) []string { return one(i.VpcId) },
		"subnet-id":                  func(i *instance) []string { return one(i.SubnetId) },
		"image-id":                   func(i *instance) []string { return one(i.ImageId) },
		"architecture":               func(i *instance) []string { return []string{string(i.Architecture)} },
		"private-dns-name":           func(i *instance) []string { return one(i.PrivateDnsName) },
		"private-ip-address":         func(i *instance) []string { return one(i.PrivateIpAddress) },
		"instance.group-id":          (*instance).groupIDs,
		"network-interface.group-id": (*instance).groupIDs,
		"iam-instance-profile.arn": func(i *instance) []string {
			if i.IamInstanceProfile == nil {
				return nil
			}
			return one(i.IamInstanceProfile.Arn)
		},
	},
}

func (i *instance) groupIDs() (ids []string) {
	for _, g := range i.SecurityGroups {
		ids = append(ids, aws.ToString(g.GroupId))
	}
	return ids
}

func (e *ec2Service) describeInstances(c *call, in *ec2.DescribeInstancesInput) (*ec2.DescribeInstancesOutput, error) {
	rows, next, err := paged(e.s, in.NextToken, aws.ToInt32(in.MaxResults), func() ([]instance, error) {
		return e.shownInstances(c, in.InstanceIds, in.Filters)
	})
	out := &ec2.DescribeInstancesOutput{NextToken: next}
	for _, i := range rows {
		out.Reservations = append(out.Reservations, types.Reservation{
			ReservationId: aws.String("r-0" + stableHex(i.id(), 16)), OwnerId: aws.String(accountID), Instances: []types.Instance{i.Instance},
		})
	}
	return out, err
}

// shownInstances are those that a Describe call sees: lagging, and without those that ended long ago.
func (e *ec2Service) shownInstances(c *call, ids []string, filters []types.Filter) ([]instance, error) {
	rows, err := selectRows(e.instances.asOf(c.readTime()), ids, "InvalidInstanceID.NotFound", instanceFilters, filters)
	var shown []instance
	for _, i := range rows {
		if i.EndTime.IsZero() || e.s.now().Sub(i.EndTime) < terminatedShown {
			shown = append(shown, i)
		}
	}
	return shown, err
}

var statusFilters = filterable[types.InstanceStatus]{values: map[string]func(*types.InstanceStatus) []string{
	"availability-zone":            func(s *types.InstanceStatus) []string { return one(s.AvailabilityZone) },
	"instance-state-name":          func(s *types.InstanceStatus) []string { return []string{string(s.InstanceState.Name)} },
	"instance-status.status":       func(s *types.InstanceStatus) []string { return []string{string(s.InstanceStatus.Status)} },
	"instance-status.reachability": func(s *types.InstanceStatus) []string { return []string{string(s.InstanceStatus.Details[0].Status)} },
	"system-status.status":         func(s *types.InstanceStatus) []string { return []string{string(s.SystemStatus.Status)} },
	"system-status.reachability":   func(s *types.InstanceStatus) []string { return []string{string(s.SystemStatus.Details[0].Status)} },
	"attached-ebs-status.status":   func(*types.InstanceStatus) []string { return []string{"ok"} },
	"event.code":                   func(*types.InstanceStatus) []string { return nil },
}}

func (e *ec2Service) describeInstanceStatus(c *call, in *ec2.DescribeInstanceStatusInput) (*ec2.DescribeInstanceStatusOutput, error) {
	rows, next, err := paged(e.s, in.NextToken, aws.ToInt32(in.MaxResults), func() ([]types.InstanceStatus, error) {
		match, err := statusFilters.matcher(in.Filters)
		if err != nil {
			return nil, err
		}
		instances, err := e.shownInstances(c, in.InstanceIds, nil)
		var rows []types.InstanceStatus
		for _, i := range instances {
			s := i.status()
			if (i.state() == types.InstanceStateNameRunning || aws.ToBool(in.IncludeAllInstances)) && match(&s) {
				rows = append(rows, s)
			}
		}
		return rows, err
	})
	return &ec2.DescribeInstanceStatusOutput{InstanceStatuses: rows, NextToken: next}, err
}

func (i *instance) status() types.InstanceStatus {
	summary := func(impaired bool) *types.InstanceStatusSummary {
		if impaired {
			return &types.InstanceStatusSummary{Status: types.SummaryStatusImpaired, Details: []types.InstanceStatusDetails{{
				Name: types.StatusNameReachability, Status: types.StatusTypeFailed, ImpairedSince: aws.Time(i.ImpairedSince),
			}}}
		}
		return &types.InstanceStatusSummary{Status: types.SummaryStatusOk, Details: []types.InstanceStatusDetails{{
			Name: types.StatusNameReachability, Status: types.StatusTypePassed,
		}}}
	}
	return types.InstanceStatus{
		InstanceId: i.InstanceId, InstanceState: i.State, AvailabilityZone: aws.String(i.zone()),
		InstanceStatus: summary(!i.ImpairedSince.IsZero()), SystemStatus: summary(false),
	}
}

// newVolumes makes the volumes of an instance: those of its launch template, or one for the root.
func (e *ec2Service) newVolumes(spec launchSpec, i *instance) []types.InstanceBlockDeviceMapping {
	mappings := spec.Template.BlockDeviceMappings
	if len(mappings) == 0 {
		mappings = []types.LaunchTemplateBlockDeviceMapping{{DeviceName: i.RootDeviceName, Ebs: &types.LaunchTemplateEbsBlockDevice{VolumeSize: aws.Int32(20), VolumeType: types.VolumeTypeGp3}}}
	}
	var attached []types.InstanceBlockDeviceMapping
	for _, m := range mappings {
		if m.Ebs == nil {
			continue
		}
		id := e.s.newID("vol")
		e.volumes.put(id, types.Volume{
			VolumeId: aws.String(id), Size: m.Ebs.VolumeSize, VolumeType: m.Ebs.VolumeType, Iops: m.Ebs.Iops, Throughput: m.Ebs.Throughput,
			Encrypted: m.Ebs.Encrypted, State: types.VolumeStateInUse, AvailabilityZone: aws.String(i.zone()), CreateTime: i.LaunchTime,
			Tags: mergeTags(templateTags(spec.Template, types.ResourceTypeVolume), spec.VolumeTags),
			Attachments: []types.VolumeAttachment{{
				InstanceId: i.InstanceId, VolumeId: aws.String(id), Device: m.DeviceName, State: types.VolumeAttachmentStateAttached, DeleteOnTermination: aws.Bool(true),
			}},
		})
		attached = append(attached, types.InstanceBlockDeviceMapping{DeviceName: m.DeviceName, Ebs: &types.EbsInstanceBlockDevice{
			VolumeId: aws.String(id), Status: types.AttachmentStatusAttached, DeleteOnTermination: aws.Bool(true),
		}})
	}
	return attached
}

var volumeFilters = filterable[types.Volume]{
	tags: func(v *types.Volume) []types.Tag { return v.Tags },
	values: map[string]func(*types.Volume) []string{
		"volume-id":         func(v *types.Volume) []string { return one(v.VolumeId) },
		"status":            func(v *types.Volume) []string { return []string{string(v.State)} },
		"availability-zone": func(v *types.Volume) []string { return one(v.AvailabilityZone) },
		"attachment.instance-id": func(v *types.Volume) (ids []string) {
			for _, a := range v.Attachments {
				ids = append(ids, aws.ToString(a.InstanceId))
			}
			return ids
		},
	},
}

func (e *ec2Service) describeVolumes(c *call, in *ec2.DescribeVolumesInput) (*ec2.DescribeVolumesOutput, error) {
	rows, next, err := paged(e.s, in.NextToken, aws.ToInt32(in.MaxResults), func() ([]types.Volume, error) {
		return selectRows(e.volumes.asOf(c.readTime()), in.VolumeIds, "InvalidVolume.NotFound", volumeFilters, in.Filters)
	})
	return &ec2.DescribeVolumesOutput{Volumes: rows, NextToken: next}, err
}
