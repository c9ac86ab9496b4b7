//go:build lab && long

package tests

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	cwtypes "github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/e2e/awssim/simapi"
	"github.com/castoff-sh/castoff/e2e/harbor"
)

// awsSeen is within what a change in AWS is to be seen: the list of groups is ten seconds old at most, and reads lag by one.
const awsSeen = 15 * time.Second

// quietProcesses are suspended from the hand-over on.
var quietProcesses = []string{"AZRebalance", "ReplaceUnhealthy", "ScheduledActions", "AlarmNotification", "InstanceRefresh"}

// nodeInterferences are those by AWS and by whoever changes nodes.
func nodeInterferences(h *held) []interference {
	return []interference{
		h.policyCreated(), h.scheduleCreated(), h.refreshStarted(), h.processesResumed(), h.rebalanceSwitchedOn(), h.unhealthyThenResumed(),
		h.desiredRaised(), h.uncordonedByABot(),
	}
}

// nothing is to be undone where castoff has done so.
func nothing(context.Context, *testing.T) {}

// group as it is now, by its own name or the managed node group's.
func (h *held) group(ctx context.Context, t *testing.T, name string) simapi.Group {
	t.Helper()
	groups, err := h.door.Groups(ctx)
	do(t, err)
	i := slices.IndexFunc(groups, func(g simapi.Group) bool { return g.Name == name || g.NodeGroup == name })
	if i < 0 {
		t.Fatalf("there is no group %s", name)
	}
	return groups[i]
}

// unmoved fails unless the group has the instances that it had.
func (h *held) unmoved(ctx context.Context, t *testing.T, before simapi.Group) {
	t.Helper()
	now := h.group(ctx, t, before.Name)
	NewWithT(t).Expect(now.InService).To(ConsistOf(before.InService), "instances of %s", before.Name)
	NewWithT(t).Expect(now.Desired).To(Equal(before.Desired), "desired size of %s", before.Name)
}

// policyCreated: a target-tracking policy, whose alarm goes off.
func (h *held) policyCreated() interference {
	var before simapi.Group
	cw := cloudwatch.NewFromConfig(aws.Config{Region: "us-east-1", BaseEndpoint: &h.scene.Lab.Simulator, Credentials: credentials.NewStaticCredentialsProvider("somebody", "secret", "")})
	return interference{
		name: "PolicyCreated", harmless: true, within: awsSeen, seen: []string{"Warn", "ForeignScaling", "nodegroup/" + harbor.Memory, "scaling policy somebodys"},
		act: func(ctx context.Context, t *testing.T) {
			before = h.group(ctx, t, harbor.Memory)
			made, err := h.asg.PutScalingPolicy(ctx, &autoscaling.PutScalingPolicyInput{
				AutoScalingGroupName: aws.String(harbor.Memory), PolicyName: aws.String("somebodys"), PolicyType: aws.String("TargetTrackingScaling"),
				TargetTrackingConfiguration: &astypes.TargetTrackingConfiguration{TargetValue: aws.Float64(10), PredefinedMetricSpecification: &astypes.PredefinedMetricSpecification{PredefinedMetricType: astypes.MetricTypeASGAverageCPUUtilization}},
			})
			do(t, err)
			for _, a := range made.Alarms {
				_, err := cw.SetAlarmState(ctx, &cloudwatch.SetAlarmStateInput{AlarmName: a.AlarmName, StateValue: cwtypes.StateValueAlarm, StateReason: aws.String("tests")})
				do(t, err)
			}
		},
		undo: func(ctx context.Context, t *testing.T) {
			h.unmoved(ctx, t, before)
			_, err := h.asg.DeletePolicy(ctx, &autoscaling.DeletePolicyInput{AutoScalingGroupName: aws.String(harbor.Memory), PolicyName: aws.String("somebodys")})
			do(t, err)
		},
	}
}

// scheduleCreated: an action that is due while it is there.
func (h *held) scheduleCreated() interference {
	var before simapi.Group
	return interference{
		name: "ScheduleCreated", harmless: true, within: awsSeen, seen: []string{"Warn", "ForeignScaling", "nodegroup/" + harbor.General, "scheduled action somebodys"},
		act: func(ctx context.Context, t *testing.T) {
			before = h.group(ctx, t, harbor.General)
			_, err := h.asg.PutScheduledUpdateGroupAction(ctx, &autoscaling.PutScheduledUpdateGroupActionInput{
				AutoScalingGroupName: aws.String(harbor.General), ScheduledActionName: aws.String("somebodys"), StartTime: aws.Time(time.Now().Add(15 * time.Second)),
				Recurrence: aws.String("* * * * *"), DesiredCapacity: aws.Int32(12),
			})
			do(t, err)
		},
		undo: func(ctx context.Context, t *testing.T) {
			NewWithT(t).Expect(h.group(ctx, t, harbor.General).Desired).To(BeNumerically("<=", before.Desired), "it was due, and did nothing")
			_, err := h.asg.DeleteScheduledAction(ctx, &autoscaling.DeleteScheduledActionInput{AutoScalingGroupName: aws.String(harbor.General), ScheduledActionName: aws.String("somebodys")})
			do(t, err)
		},
	}
}

// refreshStarted: castoff neither cancels it nor waits for it, and it replaces nothing.
func (h *held) refreshStarted() interference {
	var before simapi.Group
	return interference{
		name: "InstanceRefreshStarted", harmless: true, within: 80 * time.Second, seen: []string{"Warn", "InstanceRefreshHeld", "nodegroup/" + harbor.Memory, "cancel-instance-refresh"},
		act: func(ctx context.Context, t *testing.T) {
			before = h.group(ctx, t, harbor.Memory)
			_, err := h.asg.StartInstanceRefresh(ctx, &autoscaling.StartInstanceRefreshInput{AutoScalingGroupName: aws.String(harbor.Memory)})
			do(t, err)
		},
		undo: func(ctx context.Context, t *testing.T) {
			h.unmoved(ctx, t, before)
			_, err := h.asg.CancelInstanceRefresh(ctx, &autoscaling.CancelInstanceRefreshInput{AutoScalingGroupName: aws.String(harbor.Memory)})
			do(t, err)
		},
	}
}

// processesResumed: all of them, with AZRebalance, as the console's one button does. castoff suspends them again.
func (h *held) processesResumed() interference {
	return interference{
		name: "ProcessesResumed", harmless: true, brief: true, within: awsSeen, seen: []string{"Warn", "SetBack", "nodegroup/" + harbor.Memory, "AZRebalance"},
		act: func(ctx context.Context, t *testing.T) {
			_, err := h.asg.ResumeProcesses(ctx, &autoscaling.ResumeProcessesInput{AutoScalingGroupName: aws.String(harbor.Memory)})
			do(t, err)
		},
		over: func(ctx context.Context, t *testing.T) bool {
			suspended := h.group(ctx, t, harbor.Memory).SuspendedProcesses
			return !slices.ContainsFunc(quietProcesses, func(p string) bool { return !slices.Contains(suspended, p) })
		},
		undo: nothing,
	}
}

func (h *held) rebalanceSwitchedOn() interference {
	return interference{
		name: "CapacityRebalanceSwitchedOn", harmless: true, brief: true, within: awsSeen, seen: []string{"Warn", "SetBack", "nodegroup/" + harbor.General, "Capacity Rebalancing"},
		act: func(ctx context.Context, t *testing.T) {
			_, err := h.asg.UpdateAutoScalingGroup(ctx, &autoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: aws.String(harbor.General), CapacityRebalance: aws.Bool(true)})
			do(t, err)
		},
		over: func(ctx context.Context, t *testing.T) bool {
			out, err := h.asg.DescribeAutoScalingGroups(ctx, &autoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: []string{harbor.General}})
			do(t, err)
			return len(out.AutoScalingGroups) == 1 && !aws.ToBool(out.AutoScalingGroups[0].CapacityRebalance)
		},
		undo: nothing,
	}
}

// unhealthyThenResumed: an instance is found unhealthy, and its group may not replace it. Then somebody lets the group, which castoff
// undoes. By then the instance is well again, or AWS would end it in the same moment.
func (h *held) unhealthyThenResumed() interference {
	var before simapi.Group
	return interference{
		name: "UnhealthyThenResumed", harmless: true, brief: true, within: awsSeen, seen: []string{"Warn", "SetBack", "nodegroup/" + harbor.General, "ReplaceUnhealthy"},
		act: func(ctx context.Context, t *testing.T) {
			before = h.group(ctx, t, harbor.General)
			h.health(ctx, t, before.InService[0], "Unhealthy")
			pause(ctx, t, 5*time.Second)
			h.unmoved(ctx, t, before)
			h.health(ctx, t, before.InService[0], "Healthy")
			_, err := h.asg.ResumeProcesses(ctx, &autoscaling.ResumeProcessesInput{AutoScalingGroupName: aws.String(before.Name), ScalingProcesses: []string{"ReplaceUnhealthy"}})
			do(t, err)
		},
		over: func(ctx context.Context, t *testing.T) bool {
			return slices.Contains(h.group(ctx, t, harbor.General).SuspendedProcesses, "ReplaceUnhealthy")
		},
		undo: nothing,
	}
}

func (h *held) health(ctx context.Context, t *testing.T, instance, status string) {
	t.Helper()
	_, err := h.asg.SetInstanceHealth(ctx, &autoscaling.SetInstanceHealthInput{InstanceId: aws.String(instance), HealthStatus: aws.String(status), ShouldRespectGracePeriod: aws.Bool(false)})
	do(t, err)
}

// desiredRaised: the node that comes is fenced before anything is evicted beside it, and named with what AWS says of why it came.
func (h *held) desiredRaised() interference {
	var before simapi.Group
	return interference{
		name: "DesiredRaisedByHand", harmless: true, brief: true, within: awsSeen, seen: []string{"Wait", "NodesJoining", "nodegroup/" + harbor.Memory},
		event: []string{"Warning", "NodesJoinedLate", "nodegroup/" + harbor.Memory},
		act: func(ctx context.Context, t *testing.T) {
			before = h.group(ctx, t, harbor.Memory)
			_, err := h.asg.SetDesiredCapacity(ctx, &autoscaling.SetDesiredCapacityInput{AutoScalingGroupName: aws.String(harbor.Memory), DesiredCapacity: aws.Int32(before.Desired + 1)})
			do(t, err)
		},
		over: func(ctx context.Context, t *testing.T) bool {
			late := slices.DeleteFunc(h.group(ctx, t, harbor.Memory).InService, func(id string) bool { return slices.Contains(before.InService, id) })
			return len(late) == 1 && slices.ContainsFunc(h.nodes(ctx, t), func(n corev1.Node) bool {
				return n.Annotations[v1alpha1.AnnotationLegacy] == harbor.Memory && n.Spec.Unschedulable && strings.HasSuffix(n.Spec.ProviderID, late[0])
			})
		},
		undo: nothing,
	}
}

func (h *held) nodes(ctx context.Context, t *testing.T) []corev1.Node {
	t.Helper()
	var list corev1.NodeList
	do(t, h.scene.Client.List(ctx, &list))
	return list.Items
}

// legacyNode is one of the pool's; empty if there is none.
func (h *held) legacyNode(pool string) string {
	var list corev1.NodeList
	_ = h.scene.Client.List(context.Background(), &list) // then the interference says that there is no such node
	for _, n := range list.Items {
		if n.Annotations[v1alpha1.AnnotationLegacy] == pool {
			return n.Name
		}
	}
	return ""
}

// uncordonedByABot: at once, whenever castoff has closed the node.
func (h *held) uncordonedByABot() interference {
	node := h.legacyNode(harbor.Memory)
	var bot sync.WaitGroup
	stop := func() {}
	cordon := func(ctx context.Context, closed string) error {
		n := &corev1.Node{}
		n.Name = node
		return h.scene.Client.Patch(ctx, n, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"unschedulable":`+closed+`}}`)))
	}
	return interference{
		name: "UncordonedByABot", within: awsSeen, seen: []string{"Block", "NodeUncordoned", "node/" + node, "kubectl cordon " + node}, event: []string{"Warning", "NodeUncordoned", "node/" + node},
		writes: map[string]int{"nodes " + node: 3},
		act: func(ctx context.Context, t *testing.T) {
			do(t, cordon(ctx, "null"))
			running, cancel := context.WithCancel(ctx)
			stop = cancel
			bot.Go(func() {
				for running.Err() == nil {
					_ = cordon(running, "null") // again a moment later
					select {
					case <-running.Done():
					case <-time.After(300 * time.Millisecond):
					}
				}
			})
		},
		undo: func(ctx context.Context, t *testing.T) {
			stop()
			bot.Wait()
			do(t, cordon(ctx, "true"))
		},
	}
}
