package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/castoff-sh/castoff/e2e/awssim/simapi"
	"github.com/castoff-sh/castoff/e2e/harbor"
	"github.com/castoff-sh/castoff/e2e/lab"
	"github.com/castoff-sh/castoff/e2e/watcher"
)

// homeNodes is how many the scene's home has.
const homeNodes = 2

// size of the cluster that is shifted: one group of so many nodes, and their pods.
type size struct{ nodes, pods int }

// stage is harbor with one large group in place of its three. drainer is whose requests count: castoff, if empty.
func (s size) stage(drainer string) *harbor.Stage {
	judgement := harbor.Judgement()
	judgement.Pools = map[string]string{harbor.General: harbor.General}
	judgement.Limits = watcher.Limits{Unserved: time.Hour} // by hand there is nobody between the two for a while
	if drainer != "" {
		judgement.CastoffUser, judgement.CastoffRole = drainer, drainer
	}
	return &harbor.Stage{Shape: s.shape, Nodes: s.nodes + homeNodes, Groups: 2, Workloads: s.workloads(), Judgement: judgement, Quiet: true}
}

func awsConfig(ctx context.Context, endpoint, user string) (aws.Config, error) {
	cfg, err := config.LoadDefaultConfig(ctx, config.WithRegion("us-east-1"), config.WithBaseEndpoint(endpoint),
		config.WithCredentialsProvider(credentials.NewStaticCredentialsProvider(user, "secret", "")))
	if err != nil {
		return aws.Config{}, fmt.Errorf("preparing the AWS client: %w", err)
	}
	return cfg, nil
}

// shape leaves the home and one group, of the size that is measured.
func (s size) shape(ctx context.Context, l *lab.Lab) error {
	cfg, err := awsConfig(ctx, l.Simulator, "harbor-admin")
	if err != nil {
		return err
	}
	asg := autoscaling.NewFromConfig(cfg)
	if _, err := eks.NewFromConfig(cfg).DeleteNodegroup(ctx, &eks.DeleteNodegroupInput{ClusterName: aws.String(harbor.Cluster), NodegroupName: aws.String(harbor.Batch)}); err != nil {
		return fmt.Errorf("deleting the spot group: %w", err)
	}
	if _, err := asg.DeleteAutoScalingGroup(ctx, &autoscaling.DeleteAutoScalingGroupInput{AutoScalingGroupName: aws.String(harbor.Memory), ForceDelete: aws.Bool(true)}); err != nil {
		return fmt.Errorf("deleting the memory group: %w", err)
	}
	nodes := int32(s.nodes)
	_, err = asg.UpdateAutoScalingGroup(ctx, &autoscaling.UpdateAutoScalingGroupInput{
		AutoScalingGroupName: aws.String(harbor.General), MinSize: aws.Int32(0), MaxSize: aws.Int32(2 * nodes), DesiredCapacity: &nodes,
	})
	if err != nil {
		return fmt.Errorf("sizing the group: %w", err)
	}
	door := simapi.NewClient(l.Simulator)
	if err := endManaged(ctx, door, ec2.NewFromConfig(cfg)); err != nil {
		return err
	}
	return s.awaitInstances(ctx, door)
}

// endManaged ends the spot group's instances: EKS would drain them first, for minutes.
func endManaged(ctx context.Context, door *simapi.Client, api *ec2.Client) error {
	instances, err := door.Instances(ctx)
	if err != nil {
		return fmt.Errorf("listing instances: %w", err)
	}
	var ids []string
	for _, i := range instances {
		if i.NodeGroup == harbor.Batch {
			ids = append(ids, i.ID)
		}
	}
	if _, err := api.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: ids}); err != nil {
		return fmt.Errorf("ending the spot group's instances: %w", err)
	}
	return nil
}

// awaitInstances waits until exactly the wanted instances run, so that what is paid twice is counted from the right number.
func (s size) awaitInstances(ctx context.Context, door *simapi.Client) error {
	running, others := 0, 0
	err := wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		instances, err := door.Instances(ctx)
		if err != nil {
			return false, err
		}
		running, others = 0, 0
		for _, i := range instances {
			switch i.State {
			case "running":
				running++
			case "terminated":
			default:
				others++
			}
		}
		return running == s.nodes+homeNodes && others == 0, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for %d running instances, there are %d and %d on their way: %w", s.nodes+homeNodes, running, others, err)
	}
	return nil
}
