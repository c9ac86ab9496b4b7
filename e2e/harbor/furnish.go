package harbor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	asgtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// AutoscalerOwner is who says that Cluster Autoscaler's Deployment is theirs, once the scene is furnished.
const AutoscalerOwner = "harbor-platform"

// Furnish gives the scene what years of use leave behind, all of which a way back has to restore: two nodes more than
// needed, both cordoned; labels and taints put on nodes by hand; and settings of every kind on the groups.
func (s *Scene) Furnish(ctx context.Context) error {
	known := map[string]bool{}
	var nodes corev1.NodeList
	if err := s.Client.List(ctx, &nodes); err != nil {
		return fmt.Errorf("listing nodes: %w", err)
	}
	for _, node := range nodes.Items {
		known[node.Name] = true
	}
	if err := s.Cloud.furnish(ctx); err != nil {
		return err
	}
	if err := awaitNodes(ctx, s.Client, Nodes+furnishedNodes); err != nil {
		return err
	}
	if err := s.Client.List(ctx, &nodes); err != nil {
		return fmt.Errorf("listing nodes: %w", err)
	}
	if err := s.markNodes(ctx, nodes.Items, known); err != nil {
		return err
	}
	autoscaler := &appsv1.Deployment{}
	autoscaler.Namespace, autoscaler.Name = "kube-system", "cluster-autoscaler"
	patch := fmt.Sprintf(`{"metadata":{"annotations":{"argocd.argoproj.io/tracking-id":"%s:apps/Deployment:kube-system/cluster-autoscaler"}}}`, AutoscalerOwner)
	if err := s.Client.Patch(ctx, autoscaler, client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
		return fmt.Errorf("marking Cluster Autoscaler as somebody's: %w", err)
	}
	return nil
}

// furnishedNodes come with the furniture.
const furnishedNodes = 2

// markNodes cordons the new nodes, which have no pods, and puts a label and a taint on the first two of each group.
func (s *Scene) markNodes(ctx context.Context, nodes []corev1.Node, known map[string]bool) error {
	slices.SortFunc(nodes, func(a, b corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	marked := map[string]int{}
	for _, node := range nodes {
		before, tier := node.DeepCopy(), node.Labels[labelTier]
		switch {
		case !known[node.Name]:
			node.Spec.Unschedulable = true
		case tier != "" && marked[tier] < 2:
			marked[tier]++
			node.Labels["harbor.example/rack"] = fmt.Sprintf("r%d", marked[tier])
			node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: "harbor.example/old-disk", Value: "true", Effect: corev1.TaintEffectPreferNoSchedule})
		default:
			continue
		}
		if err := s.Client.Patch(ctx, &node, client.MergeFrom(before)); err != nil {
			return fmt.Errorf("marking node %s: %w", node.Name, err)
		}
	}
	return nil
}

// furnish changes the groups: a node more for the spot group and for memory; rebalancing, a lifetime, a suspended process; a
// policy that was switched off, and a schedule that comes back every year.
func (c *Cloud) furnish(ctx context.Context) error {
	_, err := c.eks.UpdateNodegroupConfig(ctx, &eks.UpdateNodegroupConfigInput{ClusterName: aws.String(Cluster), NodegroupName: aws.String(Batch),
		ScalingConfig: &ekstypes.NodegroupScalingConfig{MinSize: aws.Int32(1), MaxSize: aws.Int32(8), DesiredSize: aws.Int32(5)}})
	if err != nil {
		return fmt.Errorf("adding a node to %s: %w", Batch, err)
	}
	for _, change := range []autoscaling.UpdateAutoScalingGroupInput{
		{AutoScalingGroupName: aws.String(Memory), DesiredCapacity: aws.Int32(5), MaxInstanceLifetime: aws.Int32(14 * 86400)},
		{AutoScalingGroupName: aws.String(General), CapacityRebalance: aws.Bool(true)},
	} {
		if _, err := c.asg.UpdateAutoScalingGroup(ctx, &change); err != nil {
			return fmt.Errorf("changing %s: %w", *change.AutoScalingGroupName, err)
		}
	}
	_, err = c.asg.SuspendProcesses(ctx, &autoscaling.SuspendProcessesInput{AutoScalingGroupName: aws.String(Memory), ScalingProcesses: []string{"ReplaceUnhealthy"}})
	if err != nil {
		return fmt.Errorf("suspending a process of %s: %w", Memory, err)
	}
	_, err = c.asg.PutScalingPolicy(ctx, &autoscaling.PutScalingPolicyInput{
		AutoScalingGroupName: aws.String(Memory), PolicyName: aws.String("cpu-80"), PolicyType: aws.String("TargetTrackingScaling"), Enabled: aws.Bool(false),
		TargetTrackingConfiguration: &asgtypes.TargetTrackingConfiguration{
			TargetValue:                   aws.Float64(80),
			PredefinedMetricSpecification: &asgtypes.PredefinedMetricSpecification{PredefinedMetricType: asgtypes.MetricTypeASGAverageCPUUtilization},
		},
	})
	if err != nil {
		return fmt.Errorf("putting a second policy of %s: %w", Memory, err)
	}
	_, err = c.asg.PutScheduledUpdateGroupAction(ctx, &autoscaling.PutScheduledUpdateGroupActionInput{
		AutoScalingGroupName: aws.String(General), ScheduledActionName: aws.String("new-year"), Recurrence: aws.String("0 4 1 1 *"), TimeZone: aws.String("Europe/Berlin"), MaxSize: aws.Int32(20),
	})
	if err != nil {
		return fmt.Errorf("scheduling the new year of %s: %w", General, err)
	}
	return nil
}
