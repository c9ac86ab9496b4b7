package castandin

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	asgtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Group is an Auto Scaling group as the stand-in sees it.
type Group struct {
	Name      string
	Min       int
	Max       int
	Desired   int
	Instances []string // instance IDs
	Zones     []string
	Tags      map[string]string

	instanceType   string
	launchTemplate *asgtypes.LaunchTemplateSpecification
}

// Cloud is what the stand-in needs of AWS.
type Cloud interface {
	// Groups lists every Auto Scaling group of the region.
	Groups(ctx context.Context) ([]Group, error)
	SetDesired(ctx context.Context, group string, size int) error
	// Terminate ends an instance and lowers its group's desired size.
	Terminate(ctx context.Context, instanceID string) error
	// Template is the node the group would launch, from its tags, instance type and managed node group.
	Template(ctx context.Context, group Group) (*corev1.Node, error)
}

// AWS is the Cloud that speaks to AWS.
type AWS struct {
	asg *autoscaling.Client
	ec2 *ec2.Client
	eks *eks.Client
}

// NewAWS uses cfg for every service.
func NewAWS(cfg aws.Config) *AWS {
	return &AWS{asg: autoscaling.NewFromConfig(cfg), ec2: ec2.NewFromConfig(cfg), eks: eks.NewFromConfig(cfg)}
}

// Groups implements Cloud.
func (a *AWS) Groups(ctx context.Context) ([]Group, error) {
	var groups []Group
	pages := autoscaling.NewDescribeAutoScalingGroupsPaginator(a.asg, &autoscaling.DescribeAutoScalingGroupsInput{})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("listing Auto Scaling groups: %w", err)
		}
		for _, group := range page.AutoScalingGroups {
			groups = append(groups, fromASG(group))
		}
	}
	return groups, nil
}

func fromASG(in asgtypes.AutoScalingGroup) Group {
	out := Group{
		Name: aws.ToString(in.AutoScalingGroupName), Zones: in.AvailabilityZones, Tags: map[string]string{},
		Min: int(aws.ToInt32(in.MinSize)), Max: int(aws.ToInt32(in.MaxSize)), Desired: int(aws.ToInt32(in.DesiredCapacity)),
		launchTemplate: in.LaunchTemplate,
	}
	for _, instance := range in.Instances {
		out.Instances = append(out.Instances, aws.ToString(instance.InstanceId))
	}
	for _, tag := range in.Tags {
		out.Tags[aws.ToString(tag.Key)] = aws.ToString(tag.Value)
	}
	if mixed := in.MixedInstancesPolicy; mixed != nil && mixed.LaunchTemplate != nil {
		out.launchTemplate = mixed.LaunchTemplate.LaunchTemplateSpecification
		for _, override := range mixed.LaunchTemplate.Overrides {
			if override.InstanceType != nil {
				out.instanceType = *override.InstanceType
				break
			}
		}
	}
	return out
}

// SetDesired implements Cloud.
func (a *AWS) SetDesired(ctx context.Context, group string, size int) error {
	_, err := a.asg.SetDesiredCapacity(ctx, &autoscaling.SetDesiredCapacityInput{
		AutoScalingGroupName: &group, DesiredCapacity: aws.Int32(int32(size)), HonorCooldown: aws.Bool(false),
	})
	if err != nil {
		return fmt.Errorf("setting the desired size of %s to %d: %w", group, size, err)
	}
	return nil
}

// Terminate implements Cloud.
func (a *AWS) Terminate(ctx context.Context, instanceID string) error {
	_, err := a.asg.TerminateInstanceInAutoScalingGroup(ctx, &autoscaling.TerminateInstanceInAutoScalingGroupInput{
		InstanceId: &instanceID, ShouldDecrementDesiredCapacity: aws.Bool(true),
	})
	if err != nil {
		return fmt.Errorf("ending instance %s: %w", instanceID, err)
	}
	return nil
}

// Prefixes of the group tags that describe a node of an empty group.
const (
	tagTemplateLabel = "k8s.io/cluster-autoscaler/node-template/label/"
	tagTemplateTaint = "k8s.io/cluster-autoscaler/node-template/taint/"
)

// Template implements Cloud.
func (a *AWS) Template(ctx context.Context, group Group) (*corev1.Node, error) {
	instanceType, err := a.typeOf(ctx, group)
	if err != nil {
		return nil, err
	}
	out, err := a.ec2.DescribeInstanceTypes(ctx, &ec2.DescribeInstanceTypesInput{InstanceTypes: []ec2types.InstanceType{ec2types.InstanceType(instanceType)}})
	if err != nil {
		return nil, fmt.Errorf("describing instance type %s of %s: %w", instanceType, group.Name, err)
	}
	if len(out.InstanceTypes) == 0 {
		return nil, fmt.Errorf("instance type %s of %s does not exist", instanceType, group.Name)
	}
	node := templateNode(group, out.InstanceTypes[0])
	return node, a.addManaged(ctx, group, node)
}

func (a *AWS) typeOf(ctx context.Context, group Group) (string, error) {
	if group.instanceType != "" {
		return group.instanceType, nil
	}
	if group.launchTemplate == nil {
		return "", fmt.Errorf("group %s has no launch template", group.Name)
	}
	out, err := a.ec2.DescribeLaunchTemplateVersions(ctx, &ec2.DescribeLaunchTemplateVersionsInput{
		LaunchTemplateId: group.launchTemplate.LaunchTemplateId, Versions: []string{versionOf(group.launchTemplate)},
	})
	if err != nil {
		return "", fmt.Errorf("describing the launch template of %s: %w", group.Name, err)
	}
	for _, version := range out.LaunchTemplateVersions {
		if version.LaunchTemplateData != nil && version.LaunchTemplateData.InstanceType != "" {
			return string(version.LaunchTemplateData.InstanceType), nil
		}
	}
	return "", fmt.Errorf("the launch template of %s names no instance type", group.Name)
}

func versionOf(spec *asgtypes.LaunchTemplateSpecification) string {
	if spec.Version == nil || *spec.Version == "" {
		return "$Default"
	}
	return *spec.Version
}

func templateNode(group Group, info ec2types.InstanceTypeInfo) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "template-of-" + group.Name, Labels: map[string]string{
		corev1.LabelInstanceTypeStable: string(info.InstanceType), corev1.LabelOSStable: "linux",
	}}}
	if len(group.Zones) > 0 {
		node.Labels[corev1.LabelTopologyZone] = group.Zones[0]
	}
	capacity := corev1.ResourceList{corev1.ResourcePods: *resource.NewQuantity(110, resource.DecimalSI)}
	if info.VCpuInfo != nil {
		capacity[corev1.ResourceCPU] = *resource.NewQuantity(int64(aws.ToInt32(info.VCpuInfo.DefaultVCpus)), resource.DecimalSI)
	}
	if info.MemoryInfo != nil {
		capacity[corev1.ResourceMemory] = *resource.NewQuantity(aws.ToInt64(info.MemoryInfo.SizeInMiB)<<20, resource.BinarySI)
	}
	node.Status.Capacity, node.Status.Allocatable = capacity, capacity
	for key, value := range group.Tags {
		if label, ok := strings.CutPrefix(key, tagTemplateLabel); ok {
			node.Labels[label] = value
		}
		if taint, ok := strings.CutPrefix(key, tagTemplateTaint); ok {
			content, effect, _ := strings.Cut(value, ":")
			node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: taint, Value: content, Effect: corev1.TaintEffect(effect)})
		}
	}
	return node
}

// addManaged adds the labels and taints of the EKS managed node group the group belongs to, if any.
func (a *AWS) addManaged(ctx context.Context, group Group, node *corev1.Node) error {
	cluster, name := group.Tags["eks:cluster-name"], group.Tags["eks:nodegroup-name"]
	if cluster == "" || name == "" {
		return nil
	}
	out, err := a.eks.DescribeNodegroup(ctx, &eks.DescribeNodegroupInput{ClusterName: &cluster, NodegroupName: &name})
	if err != nil {
		return fmt.Errorf("describing managed node group %s: %w", name, err)
	}
	if out.Nodegroup == nil {
		return nil
	}
	for key, value := range out.Nodegroup.Labels {
		node.Labels[key] = value
	}
	for _, taint := range out.Nodegroup.Taints {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: aws.ToString(taint.Key), Value: aws.ToString(taint.Value), Effect: taintEffect(taint.Effect)})
	}
	return nil
}

func taintEffect(effect ekstypes.TaintEffect) corev1.TaintEffect {
	switch effect {
	case ekstypes.TaintEffectNoExecute:
		return corev1.TaintEffectNoExecute
	case ekstypes.TaintEffectPreferNoSchedule:
		return corev1.TaintEffectPreferNoSchedule
	default:
		return corev1.TaintEffectNoSchedule
	}
}

// instanceID is the last part of a node's provider ID, aws:///zone/i-….
func instanceID(node *corev1.Node) string {
	return node.Spec.ProviderID[strings.LastIndex(node.Spec.ProviderID, "/")+1:]
}

func unix(seconds int64) string { return strconv.FormatInt(seconds, 10) }
