package awssim

import (
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/robfig/cron/v3"
)

// nextRun is when a scheduled action runs next, strictly after a time; the zero time when it never will again.
func nextRun(a types.ScheduledUpdateGroupAction, after time.Time) (time.Time, error) {
	start := or(a.StartTime, time.Time{})
	if aws.ToString(a.Recurrence) == "" {
		if start.After(after) {
			return start, nil
		}
		return time.Time{}, nil
	}
	zone, err := time.LoadLocation(aws.ToString(a.TimeZone)) // "" is UTC
	if err != nil {
		return time.Time{}, validation("The time zone %q is not known: %v", aws.ToString(a.TimeZone), err)
	}
	schedule, err := cron.ParseStandard(aws.ToString(a.Recurrence))
	if err != nil {
		return time.Time{}, validation("Given recurrence string: %s is invalid: %v", aws.ToString(a.Recurrence), err)
	}
	if start.After(after) {
		after = start.Add(-time.Nanosecond) // a recurrence may fall on its start time
	}
	next := schedule.Next(after.In(zone)).UTC()
	if a.EndTime != nil && next.After(*a.EndTime) {
		return time.Time{}, nil
	}
	return next, nil
}

// checkScheduledAction answers as PutScheduledUpdateGroupAction does to what it cannot run.
func checkScheduledAction(a types.ScheduledUpdateGroupAction, now time.Time) error {
	switch {
	case a.MinSize == nil && a.MaxSize == nil && a.DesiredCapacity == nil:
		return validation("At least one of MinSize, MaxSize or DesiredCapacity is required for scheduled action %s", aws.ToString(a.ScheduledActionName))
	case a.StartTime == nil && aws.ToString(a.Recurrence) == "":
		return validation("Either a start time or a recurrence is required for scheduled action %s", aws.ToString(a.ScheduledActionName))
	case a.StartTime != nil && !a.StartTime.After(now):
		return validation("Given start time is in the past")
	case a.EndTime != nil && (!a.EndTime.After(now) || a.StartTime != nil && !a.EndTime.After(*a.StartTime)):
		return validation("End time must be in the future and after the start time")
	}
	if err := checkScheduledSizes(a); err != nil {
		return err
	}
	_, err := nextRun(a, now)
	return err
}

func checkScheduledSizes(a types.ScheduledUpdateGroupAction) error {
	switch {
	case a.MinSize != nil && a.MaxSize != nil && *a.MinSize > *a.MaxSize:
		return validation("Min size must not be greater than max size")
	case a.DesiredCapacity != nil && a.MinSize != nil && *a.DesiredCapacity < *a.MinSize:
		return validation("Desired capacity must be greater than or equal to min size")
	case a.DesiredCapacity != nil && a.MaxSize != nil && *a.DesiredCapacity > *a.MaxSize:
		return validation("Desired capacity must be less than or equal to max size")
	}
	return nil
}
