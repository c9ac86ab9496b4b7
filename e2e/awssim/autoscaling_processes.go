package awssim

import (
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
)

func (a *autoscalingService) suspendProcesses(_ *call, in *autoscaling.SuspendProcessesInput) (*autoscaling.SuspendProcessesOutput, error) {
	g, names, err := a.processesOf(in.AutoScalingGroupName, in.ScalingProcesses)
	if err != nil {
		return nil, err
	}
	for _, p := range names {
		if g.runs(p) {
			g.suspended[p] = "User suspended at " + a.now().UTC().Format(time.RFC3339)
		}
	}
	a.touch(g)
	return &autoscaling.SuspendProcessesOutput{}, nil
}

func (a *autoscalingService) resumeProcesses(_ *call, in *autoscaling.ResumeProcessesInput) (*autoscaling.ResumeProcessesOutput, error) {
	g, names, err := a.processesOf(in.AutoScalingGroupName, in.ScalingProcesses)
	if err != nil {
		return nil, err
	}
	for _, p := range names {
		delete(g.suspended, p)
	}
	g.retryAt = time.Time{}
	a.touch(g)
	return &autoscaling.ResumeProcessesOutput{}, nil
}

// processesOf finds the group and checks the processes; none given means all.
func (a *autoscalingService) processesOf(name *string, given []string) (*scalingGroup, []string, error) {
	g, err := a.group(name)
	if err != nil {
		return nil, nil, err
	}
	for _, p := range given {
		if !slices.Contains(processes, p) {
			return nil, nil, validation("1 validation error detected: Value '%s' at 'scalingProcesses' failed to satisfy constraint: %s", p, aws.ToString(name))
		}
	}
	if len(given) == 0 {
		given = processes
	}
	return g, given, nil
}
