package awssim

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/castoff-sh/castoff/e2e/awssim/simapi"
)

// Whatever is done to a group, in whatever order: once it is left alone with all processes running it has what it
// wants, within its bounds, spread over its zones, every instance alive, and no activity that never ended.
func TestGroupComesToRest(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("Seed", seed), func(t *testing.T) {
			w := &randomWorld{newScaled(t), rand.New(rand.NewPCG(seed, 1))}
			w.create(t, 1, 8, 3, func(in *autoscaling.CreateAutoScalingGroupInput) {
				if seed%2 == 1 {
					in.LifecycleHookSpecificationList = []types.LifecycleHookSpecification{
						{LifecycleHookName: aws.String("in"), LifecycleTransition: aws.String(transitionLaunch), HeartbeatTimeout: aws.Int32(30), DefaultResult: aws.String(resultContinue)},
						{LifecycleHookName: aws.String("out"), LifecycleTransition: aws.String(transitionEnd), HeartbeatTimeout: aws.Int32(60)},
					}
				}
			})
			for range 40 {
				w.disturb(t)
				w.Advance(time.Duration(w.IntN(20)) * time.Second)
				w.wantBounds(t)
			}
			w.rest(t)
			w.wantRest(t)
		})
	}
}

type randomWorld struct {
	*scaled
	*rand.Rand
}

// disturb does one random thing. Refusals are part of it: only the state counts.
func (w *randomWorld) disturb(t *testing.T) {
	t.Helper()
	name := aws.String("g")
	someone := ""
	if ids := w.ids(t, ""); len(ids) > 0 {
		someone = ids[w.IntN(len(ids))]
	}
	process := []string{processes[w.IntN(len(processes))]}
	side := simapi.NewClient(aws.ToString(w.cfg.BaseEndpoint))
	things := []func() error{
		func() error {
			_, err := w.as.SetDesiredCapacity(ctx, &autoscaling.SetDesiredCapacityInput{AutoScalingGroupName: name, DesiredCapacity: aws.Int32(w.Int32N(10))})
			return err
		},
		func() error {
			_, err := w.as.UpdateAutoScalingGroup(ctx, &autoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: name, MinSize: aws.Int32(w.Int32N(3)), MaxSize: aws.Int32(3 + w.Int32N(6)), CapacityRebalance: aws.Bool(w.IntN(2) == 0)})
			return err
		},
		func() error {
			_, err := w.as.TerminateInstanceInAutoScalingGroup(ctx, &autoscaling.TerminateInstanceInAutoScalingGroupInput{InstanceId: &someone, ShouldDecrementDesiredCapacity: aws.Bool(w.IntN(2) == 0)})
			return err
		},
		func() error {
			_, err := w.as.SuspendProcesses(ctx, &autoscaling.SuspendProcessesInput{AutoScalingGroupName: name, ScalingProcesses: process})
			return err
		},
		func() error {
			_, err := w.as.ResumeProcesses(ctx, &autoscaling.ResumeProcessesInput{AutoScalingGroupName: name, ScalingProcesses: process})
			return err
		},
		func() error { return side.Interrupt(ctx, simapi.Interrupt{InstanceID: someone, Kind: "terminate"}) },
		func() error { return side.Interrupt(ctx, simapi.Interrupt{InstanceID: someone, Kind: "unhealthy"}) },
		func() error { return side.Interrupt(ctx, simapi.Interrupt{InstanceID: someone, Kind: "rebalance"}) },
		func() error {
			_, err := w.as.StartInstanceRefresh(ctx, &autoscaling.StartInstanceRefreshInput{AutoScalingGroupName: name})
			return err
		},
		func() error {
			_, err := side.AddFault(ctx, simapi.Fault{Code: "InsufficientInstanceCapacity", InstanceType: "m5.large", Zone: "us-east-1b", Times: 2})
			return err
		},
		func() error {
			_, err := w.as.UpdateAutoScalingGroup(ctx, &autoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: name, VPCZoneIdentifier: aws.String([]string{"subnet-a", "subnet-a,subnet-b", "subnet-a,subnet-b,subnet-c"}[w.IntN(3)])})
			return err
		},
	}
	_ = things[w.IntN(len(things))]() // refused or not
}

// wantBounds holds at every moment: desired within min and max, and no more than one instance above max for rebalancing.
func (w *randomWorld) wantBounds(t *testing.T) {
	t.Helper()
	g := w.describe(t)
	if n := *g.DesiredCapacity; n < *g.MinSize || n > *g.MaxSize {
		t.Fatalf("desired %d is outside %d to %d", n, *g.MinSize, *g.MaxSize)
	}
}

// rest takes every disturbance back and gives the group its time.
func (w *randomWorld) rest(t *testing.T) {
	t.Helper()
	w.resume(t)
	ok(t, simapi.NewClient(aws.ToString(w.cfg.BaseEndpoint)).RemoveFault(ctx, ""))
	for range 120 {
		w.Advance(20 * time.Second)
	}
}

func (w *randomWorld) wantRest(t *testing.T) {
	t.Helper()
	g := w.describe(t)
	w.wantInService(t, int(*g.DesiredCapacity), "at rest")
	if len(g.Instances) != int(*g.DesiredCapacity) {
		t.Errorf("states at rest are %v, want nothing but InService", w.states(t))
	}
	zones := map[string]int{}
	for _, i := range g.Instances {
		zones[*i.AvailabilityZone]++
	}
	least, most := len(g.Instances), 0
	for _, z := range g.AvailabilityZones {
		least, most = min(least, zones[z]), max(most, zones[z])
	}
	if most-least > 1 {
		t.Errorf("zones at rest are %v", zones)
	}
	live := 0
	do(w.Server, func() {
		for _, i := range w.ec2.sideInstances() {
			if i.State == "running" {
				live++
			} else if i.State != "terminated" {
				t.Errorf("%s is %s at rest", i.ID, i.State)
			}
		}
	})
	if live != len(g.Instances) {
		t.Errorf("%d instances run, the group lists %d", live, len(g.Instances))
	}
	for _, a := range w.activities(t) {
		if a.EndTime == nil {
			t.Errorf("activity never ended: %s", *a.Description)
		}
	}
}
