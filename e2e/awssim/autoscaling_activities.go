package awssim

import (
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
)

// activitiesKept bounds a group's history; AWS keeps six weeks.
const activitiesKept = 500

// begin starts a scaling activity. The cause names the time, as AWS writes it.
func (a *autoscalingService) begin(g *scalingGroup, description, cause string) *types.Activity {
	now := a.now()
	act := &types.Activity{
		ActivityId: aws.String(a.uuid()), AutoScalingGroupName: g.spec.AutoScalingGroupName, AutoScalingGroupARN: g.spec.AutoScalingGroupARN,
		Description: aws.String(description), Cause: aws.String(fmt.Sprintf("At %s %s.", now.UTC().Format(time.RFC3339), cause)),
		StartTime: aws.Time(now), StatusCode: types.ScalingActivityStatusCodeInProgress, Progress: aws.Int32(0), Details: aws.String("{}"),
	}
	g.activities = append([]*types.Activity{act}, g.activities[:min(len(g.activities), activitiesKept-1)]...)
	return act
}

// finish ends an activity, nil is none. A failure says why in StatusMessage.
func (a *autoscalingService) finish(act *types.Activity, status types.ScalingActivityStatusCode, message string) {
	if act == nil || act.EndTime != nil {
		return
	}
	act.StatusCode, act.EndTime, act.Progress = status, aws.Time(a.now()), aws.Int32(100)
	if message != "" {
		act.StatusMessage = aws.String(message)
	}
}

// failed records something that could not be done, once while it stays so.
func (a *autoscalingService) failed(g *scalingGroup, description, cause, message string) {
	if len(g.activities) > 0 {
		if last := g.activities[0]; last.StatusCode == types.ScalingActivityStatusCodeFailed && aws.ToString(last.StatusMessage) == message && aws.ToString(last.Description) == description {
			return
		}
	}
	a.finish(a.begin(g, description, cause), types.ScalingActivityStatusCodeFailed, message)
}

// busy says whether a scaling activity is in progress.
func (g *scalingGroup) busy() bool {
	for _, act := range g.activities {
		if act.EndTime == nil {
			return true
		}
	}
	return false
}
