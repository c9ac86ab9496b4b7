package awssim

import (
	"fmt"
	"time"
)

// resized sets the sizes, and remembers who asked for another desired capacity: AWS says so in the cause of what comes of it.
func (g *scalingGroup) resized(who string, z sizes) {
	if z.desired != g.sizes.desired {
		g.asked = fmt.Sprintf("%s changing the desired capacity from %d to %d", who, g.sizes.desired, z.desired)
	}
	g.sizes = z
}

// because begins a cause with who asked for it, if that is known.
func (g *scalingGroup) because(now time.Time, cause string) string {
	if g.asked == "" {
		return cause
	}
	return g.asked + ". At " + now.UTC().Format(time.RFC3339) + " " + cause
}

// sizes are an Auto Scaling group's bounds and what it aims at, in units of capacity (instances, or their weights).
type sizes struct{ min, max, desired int32 }

// check answers as CreateAutoScalingGroup and UpdateAutoScalingGroup do when the three do not fit together.
func (z sizes) check() error {
	switch {
	case z.min < 0 || z.max < 0 || z.desired < 0:
		return validation("Group sizes must not be negative: min size:%d desired:%d max size:%d", z.min, z.desired, z.max)
	case z.min > z.max:
		return validation("Max bound, %d, must be greater than or equal to min bound, %d", z.max, z.min)
	case z.desired < z.min || z.desired > z.max:
		return validation("Desired capacity:%d must be between the specified min size:%d and max size:%d", z.desired, z.min, z.max)
	}
	return nil
}

// with lays new values over the old ones. A bound moved past a desired capacity that was not given takes it along,
// as UpdateAutoScalingGroup documents for MinSize and MaxSize.
func (z sizes) with(min, max, desired *int32) sizes {
	z.min, z.max = or(min, z.min), or(max, z.max)
	if desired != nil {
		z.desired = *desired
		return z
	}
	return z.clamped(z.desired)
}

// clamped is z with desired as near to want as its bounds allow.
func (z sizes) clamped(want int32) sizes {
	z.desired = max(z.min, min(want, z.max))
	return z
}

// checkDesired answers as SetDesiredCapacity does to a value outside the bounds.
func (z sizes) checkDesired(want int32) error {
	switch {
	case want < z.min:
		return validation("New SetDesiredCapacity value %d is below min value %d for the AutoScalingGroup.", want, z.min)
	case want > z.max:
		return validation("New SetDesiredCapacity value %d is above max value %d for the AutoScalingGroup.", want, z.max)
	}
	return nil
}

func or[T any](v *T, otherwise T) T {
	if v == nil {
		return otherwise
	}
	return *v
}
