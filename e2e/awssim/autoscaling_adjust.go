package awssim

import (
	"math"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
)

// trackTarget is the desired capacity that brings a metric in proportion to capacity back to its target, rounded up.
func trackTarget(capacity int32, metric, target float64) int32 {
	if target <= 0 {
		return capacity
	}
	return clampInt32(math.Ceil(float64(capacity) * metric / target))
}

// adjust is the desired capacity after a simple or step adjustment, before the group's bounds.
func adjust(desired, by int32, p types.ScalingPolicy) int32 {
	switch aws.ToString(p.AdjustmentType) {
	case "ExactCapacity":
		return by
	case "PercentChangeInCapacity":
		change := percentChange(desired, by)
		if least := or(p.MinAdjustmentMagnitude, 0); change > 0 {
			change = max(change, least)
		} else if change < 0 {
			change = min(change, -least)
		}
		return desired + change
	}
	return desired + by
}

// percentChange rounds as Auto Scaling documents: away from zero below one instance, else toward zero.
func percentChange(desired, percent int32) int32 {
	exact := float64(desired) * float64(percent) / 100
	switch {
	case exact > 0 && exact < 1:
		return 1
	case exact < 0 && exact > -1:
		return -1
	}
	return clampInt32(math.Trunc(exact))
}

// step finds the adjustment whose bounds, relative to the alarm's threshold, hold the metric.
func step(steps []types.StepAdjustment, over float64) (by int32, found bool) {
	for _, s := range steps {
		low, high := or(s.MetricIntervalLowerBound, math.Inf(-1)), or(s.MetricIntervalUpperBound, math.Inf(1))
		if over >= low && over < high {
			return or(s.ScalingAdjustment, 0), true
		}
	}
	return 0, false
}

func clampInt32(f float64) int32 { return int32(max(math.MinInt32, min(f, math.MaxInt32))) }
