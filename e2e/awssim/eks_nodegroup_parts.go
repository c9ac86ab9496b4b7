package awssim

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
)

const (
	// How long EKS waits for a node to be drained before it ends it, PodDisruptionBudgets or not: when it shrinks or
	// updates a group, and when it deletes one.
	// https://docs.aws.amazon.com/eks/latest/userguide/managed-node-update-behavior.html and delete-managed-node-group.html
	drainTimeout       = 15 * time.Minute
	deleteDrainTimeout = 5 * time.Minute

	// createTimeout is how long EKS waits for the instances of a new group.
	createTimeout = 25 * time.Minute

	launchHook    = "Launch-LC-Hook"
	terminateHook = "Terminate-LC-Hook"
)

// build makes what a node group stands on: instance profile, launch template and Auto Scaling group.
func (e *eksService) build(c *call, cluster types.Cluster, n *nodeGroup, z sizes) error {
	data, err := e.templateFor(cluster, n)
	if err != nil {
		return err
	}
	if err := e.makeProfile(c, n); err != nil {
		return err
	}
	name := n.Profile
	made, err := e.s.ec2.createLaunchTemplate(c, &ec2.CreateLaunchTemplateInput{
		LaunchTemplateName: aws.String(name), LaunchTemplateData: data,
		TagSpecifications: []ec2types.TagSpecification{{ResourceType: ec2types.ResourceTypeLaunchTemplate, Tags: []ec2types.Tag{
			{Key: aws.String("eks:cluster-name"), Value: n.ClusterName}, {Key: aws.String("eks:nodegroup-name"), Value: n.NodegroupName}}}},
	})
	if err != nil {
		return fmt.Errorf("making the launch template of node group %s: %w", n.key(), err)
	}
	n.Template = aws.ToString(made.LaunchTemplate.LaunchTemplateId)
	if _, err := e.s.autoscaling.createAutoScalingGroup(c, n.groupInput(z)); err != nil {
		return invalidParameter("The Auto Scaling group of node group %s cannot be made: %s", n.key(), asAPIError(err).Message)
	}
	return nil
}

func (e *eksService) makeProfile(c *call, n *nodeGroup) error {
	if _, err := e.s.iam.createInstanceProfile(c, &iam.CreateInstanceProfileInput{InstanceProfileName: aws.String(n.Profile)}); err != nil {
		return fmt.Errorf("making the instance profile of node group %s: %w", n.key(), err)
	}
	role := aws.String(lastSegment(aws.ToString(n.NodeRole)))
	if _, err := e.s.iam.addRoleToInstanceProfile(c, &iam.AddRoleToInstanceProfileInput{InstanceProfileName: aws.String(n.Profile), RoleName: role}); err != nil {
		return invalidParameter("Node role %s cannot be used: %s", aws.ToString(n.NodeRole), asAPIError(err).Message)
	}
	return nil
}

// templateFor is the user's launch template, if any, with what EKS adds: image, user data, security group, profile.
func (e *eksService) templateFor(cluster types.Cluster, n *nodeGroup) (*ec2types.RequestLaunchTemplateData, error) {
	var data ec2types.RequestLaunchTemplateData
	if t := n.LaunchTemplate; t != nil {
		given, version, err := e.userTemplate(t)
		if err != nil {
			return nil, err
		}
		t.Version = version
		data = convert[ec2types.RequestLaunchTemplateData](given)
	}
	if data.ImageId != nil {
		n.AmiType = types.AMITypesCustom
	} else {
		image, release, err := e.imageFor(aws.ToString(n.Version), n.AmiType)
		if err != nil {
			return nil, err
		}
		data.ImageId = aws.String(image)
		n.ReleaseVersion = aws.String(or(n.ReleaseVersion, release))
		data.UserData = aws.String(nodeConfig(cluster))
	}
	n.Image = aws.ToString(data.ImageId)
	if len(data.SecurityGroupIds) == 0 && len(data.NetworkInterfaces) == 0 && cluster.ResourcesVpcConfig != nil {
		data.SecurityGroupIds = []string{aws.ToString(cluster.ResourcesVpcConfig.ClusterSecurityGroupId)}
	}
	if len(data.BlockDeviceMappings) == 0 && n.DiskSize != nil {
		data.BlockDeviceMappings = []ec2types.LaunchTemplateBlockDeviceMappingRequest{{DeviceName: aws.String("/dev/xvda"), Ebs: &ec2types.LaunchTemplateEbsBlockDeviceRequest{VolumeSize: n.DiskSize, VolumeType: ec2types.VolumeTypeGp3}}}
	}
	if data.MetadataOptions == nil {
		data.MetadataOptions = &ec2types.LaunchTemplateInstanceMetadataOptionsRequest{HttpPutResponseHopLimit: aws.Int32(2), HttpTokens: ec2types.LaunchTemplateHttpTokensStateRequired}
	}
	if data.InstanceType == "" && len(n.InstanceTypes) == 0 {
		n.InstanceTypes = []string{"t3.medium"}
	}
	data.IamInstanceProfile = &ec2types.LaunchTemplateIamInstanceProfileSpecificationRequest{Name: aws.String(n.Profile)}
	return &data, nil
}

func (e *eksService) userTemplate(t *types.LaunchTemplateSpecification) (data ec2types.ResponseLaunchTemplateData, version *string, err error) {
	used, data, err := e.s.autoscaling.resolve(&astypes.LaunchTemplateSpecification{LaunchTemplateId: t.Id, LaunchTemplateName: t.Name, Version: t.Version})
	if err != nil {
		return data, nil, invalidParameter("The launch template cannot be used: %s", asAPIError(err).Message)
	}
	t.Id, t.Name = used.LaunchTemplateId, used.LaunchTemplateName
	return data, used.Version, nil
}

// imageFor looks the image of an AMI type up where AWS publishes it.
func (e *eksService) imageFor(version string, kind types.AMITypes) (image, release string, err error) {
	al2023 := "/aws/service/eks/optimized-ami/" + version + "/amazon-linux-2023/%s/standard/recommended/"
	bottlerocket := "/aws/service/bottlerocket/aws-k8s-" + version + "/%s/latest/"
	at := map[types.AMITypes][2]string{
		types.AMITypesAl2023X8664Standard: {fmt.Sprintf(al2023, "x86_64"), "release_version"},
		types.AMITypesAl2023Arm64Standard: {fmt.Sprintf(al2023, "arm64"), "release_version"},
		types.AMITypesBottlerocketX8664:   {fmt.Sprintf(bottlerocket, "x86_64"), "image_version"},
		types.AMITypesBottlerocketArm64:   {fmt.Sprintf(bottlerocket, "arm64"), "image_version"},
	}[kind]
	id, ok := e.s.ssm.parameters.get(at[0] + "image_id")
	if !ok {
		return "", "", invalidParameter("There is no image of type %s for Kubernetes %s", kind, version)
	}
	r, _ := e.s.ssm.parameters.get(at[0] + at[1]) // is beside it
	return aws.ToString(id.Value), aws.ToString(r.Value), nil
}

// nodeConfig is the user data that EKS gives to nodes, for nodeadm, in base64.
func nodeConfig(c types.Cluster) string {
	cidr := ""
	if c.KubernetesNetworkConfig != nil {
		cidr = aws.ToString(c.KubernetesNetworkConfig.ServiceIpv4Cidr)
	}
	ca := ""
	if c.CertificateAuthority != nil {
		ca = aws.ToString(c.CertificateAuthority.Data)
	}
	text := "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"//\"\n\n--//\nContent-Type: application/node.eks.aws\n\n" +
		"---\napiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  cluster:\n    name: " + aws.ToString(c.Name) +
		"\n    apiServerEndpoint: " + aws.ToString(c.Endpoint) + "\n    certificateAuthority: " + ca + "\n    cidr: " + cidr + "\n\n--//--\n"
	return base64.StdEncoding.EncodeToString([]byte(text))
}

// groupInput is the Auto Scaling group as EKS makes it: several instance types by a mixed instances policy, spot with
// Capacity Rebalancing, and hooks by which EKS joins and drains nodes.
func (n *nodeGroup) groupInput(z sizes) *autoscaling.CreateAutoScalingGroupInput {
	spot := n.CapacityType == types.CapacityTypesSpot
	base, share := int32(0), int32(100)
	if spot {
		share = 0
	}
	mixed := &astypes.MixedInstancesPolicy{
		LaunchTemplate: &astypes.LaunchTemplate{LaunchTemplateSpecification: &astypes.LaunchTemplateSpecification{LaunchTemplateId: aws.String(n.Template), Version: aws.String("1")}},
		InstancesDistribution: &astypes.InstancesDistribution{OnDemandAllocationStrategy: aws.String("prioritized"), OnDemandBaseCapacity: &base,
			OnDemandPercentageAboveBaseCapacity: &share, SpotAllocationStrategy: aws.String("price-capacity-optimized")},
	}
	for _, t := range n.InstanceTypes {
		mixed.LaunchTemplate.Overrides = append(mixed.LaunchTemplate.Overrides, astypes.LaunchTemplateOverrides{InstanceType: aws.String(t)})
	}
	in := &autoscaling.CreateAutoScalingGroupInput{
		AutoScalingGroupName: aws.String(n.Group), MinSize: aws.Int32(z.min), MaxSize: aws.Int32(z.max), DesiredCapacity: aws.Int32(z.desired),
		MixedInstancesPolicy: mixed, VPCZoneIdentifier: aws.String(strings.Join(n.Subnets, ",")), CapacityRebalance: aws.Bool(spot), HealthCheckGracePeriod: aws.Int32(15),
		TerminationPolicies: []string{"AllocationStrategy", "OldestLaunchTemplate", "OldestInstance"},
	}
	for hook, transition := range map[string]string{launchHook: transitionLaunch, terminateHook: transitionEnd} {
		in.LifecycleHookSpecificationList = append(in.LifecycleHookSpecificationList, astypes.LifecycleHookSpecification{
			LifecycleHookName: aws.String(hook), LifecycleTransition: aws.String(transition), HeartbeatTimeout: aws.Int32(1800), DefaultResult: aws.String(resultContinue)})
	}
	cluster := aws.ToString(n.ClusterName)
	for _, t := range [][2]string{
		{"eks:cluster-name", cluster}, {"eks:nodegroup-name", aws.ToString(n.NodegroupName)}, {"kubernetes.io/cluster/" + cluster, "owned"},
		{"k8s.io/cluster-autoscaler/enabled", "true"}, {"k8s.io/cluster-autoscaler/" + cluster, "owned"},
	} {
		in.Tags = append(in.Tags, astypes.Tag{Key: aws.String(t[0]), Value: aws.String(t[1]), PropagateAtLaunch: aws.Bool(true)})
	}
	return in
}

// nodeGroupOf finds the node group that owns an Auto Scaling group.
func (e *eksService) nodeGroupOf(group string) (nodeGroup, bool) {
	for _, n := range e.nodeGroups.truth().where(func(n *nodeGroup) bool { return n.Group == group }) {
		return n, true
	}
	return nodeGroup{}, false
}

// held completes the hooks of node groups. A node that somebody ended by name was drained by them and goes on shortly;
// any other waits to be drained, until whoever drains it completes the hook or the time is over.
func (e *eksService) held(g *scalingGroup, m *member) {
	n, ok := e.nodeGroupOf(g.name())
	if !ok {
		return
	}
	proceed := func(hook string) {
		if g.member(m.id) == m {
			e.s.autoscaling.complete(g, m, hook, resultContinue)
		}
	}
	if m.waiting[launchHook] != nil {
		proceed(launchHook)
		return
	}
	patience := drainTimeout
	switch {
	case m.endedBy != "", m.unhealthy:
		patience = e.s.settings.ScalingDelay
	case n.Status == types.NodegroupStatusDeleting:
		patience = deleteDrainTimeout
	}
	e.s.after(patience, func() { proceed(terminateHook) })
}

// groupReconciled takes node groups on when their Auto Scaling groups have come to rest.
func (e *eksService) groupReconciled(g *scalingGroup) {
	n, ok := e.nodeGroupOf(g.name())
	switch {
	case !ok:
	case n.Status == types.NodegroupStatusCreating && g.settled():
		n.Status = types.NodegroupStatusActive
		e.nodeGroups.put(n.key(), n)
	case n.Status == types.NodegroupStatusDeleting && len(g.members) == 0:
		e.finishDeletion(n)
	case n.Status == types.NodegroupStatusUpdating && g.currentRefresh() == nil:
		e.finishVersionUpdate(n)
	}
}

// finishDeletion removes what EKS made for a node group, and its node role's access when no other group uses the role.
func (e *eksService) finishDeletion(n nodeGroup) {
	if g := e.s.autoscaling.groups[n.Group]; g != nil {
		e.s.autoscaling.forceDelete(g, "eks: deletion of node group "+n.key())
	}
	e.s.ec2.templates.delete(n.Template)
	e.s.iam.profiles.delete(n.Profile)
	e.nodeGroups.delete(n.key())
	cluster := aws.ToString(n.ClusterName)
	role := aws.ToString(n.NodeRole)
	shared := slices.ContainsFunc(under(e.nodeGroups.truth(), cluster), func(x nodeGroup) bool { return aws.ToString(x.NodeRole) == role })
	if !shared {
		e.withdraw(cluster, role)
	}
}
