package nodegroup

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// The situations that people who run Cluster Autoscaler or Karpenter reported in public, by their number in the list of cases.

// The default is version 1 while the newest is 3, and an instance is as old as the day it was launched.
func TestCase_C011_TheVersionInForceIsResolved(t *testing.T) {
	l := newLab(t)
	id := l.template(t, "nodes", nil)
	images := map[string]string{"1": l.image}
	for _, version := range []string{"2", "3"} {
		image := must[*ec2.RegisterImageOutput](t, "image")(l.ec2.RegisterImage(t.Context(), &ec2.RegisterImageInput{Name: aws.String("image-" + version), Architecture: ec2types.ArchitectureValuesX8664}))
		images[version] = aws.ToString(image.ImageId)
		must[*ec2.CreateLaunchTemplateVersionOutput](t, "version")(l.ec2.CreateLaunchTemplateVersion(t.Context(), &ec2.CreateLaunchTemplateVersionInput{
			LaunchTemplateId: aws.String(id), SourceVersion: aws.String("1"), LaunchTemplateData: &ec2types.RequestLaunchTemplateData{ImageId: image.ImageId},
		}))
	}
	asks := map[string]string{"default": "$Default", "latest": "$Latest", "two": "2"}
	for name, version := range asks {
		l.group(t, name, func(in *autoscaling.CreateAutoScalingGroupInput) {
			in.LaunchTemplate = &astypes.LaunchTemplateSpecification{LaunchTemplateId: aws.String(id), Version: aws.String(version)}
		})
	}
	for name, want := range map[string]string{"default": "1", "latest": "3", "two": "2"} {
		got := l.list(t)[name]
		if lt := got.LaunchTemplate; lt.Version != want || lt.ImageID != images[want] || lt.Asked != asks[name] {
			t.Errorf("group %s: version %s (asked %s), image %s; want version %s, image %s", name, lt.Version, lt.Asked, lt.ImageID, want, images[want])
		}
		for _, i := range got.Instances {
			if i.TemplateVersion != want {
				t.Errorf("group %s: instance %s was launched from version %q, want %s", name, i.ID, i.TemplateVersion, want)
			}
		}
	}
	must[*ec2.ModifyLaunchTemplateOutput](t, "default version")(l.ec2.ModifyLaunchTemplate(t.Context(), &ec2.ModifyLaunchTemplateInput{LaunchTemplateId: aws.String(id), DefaultVersion: aws.String("3")}))
	l.settle()
	got := l.list(t)["default"]
	if got.LaunchTemplate.Version != "3" || len(got.Instances) == 0 || got.Instances[0].TemplateVersion != "1" {
		t.Errorf("after the default moved: version %s, instances %+v; want 3, launched from 1", got.LaunchTemplate.Version, got.Instances)
	}
}

func TestCase_C013_ADesiredCapacityOfUnitsIsNoCountOfNodes(t *testing.T) {
	g := inventory.NodeGroup{}
	fillGroup(&g, astypes.AutoScalingGroup{
		DesiredCapacity: aws.Int32(4), MaxSize: aws.Int32(10),
		Instances: []astypes.Instance{
			{InstanceId: aws.String("i-1"), LifecycleState: astypes.LifecycleStateInService, WeightedCapacity: aws.String("2")},
			{InstanceId: aws.String("i-2"), LifecycleState: astypes.LifecycleStateInService}, {InstanceId: aws.String("i-3"), LifecycleState: astypes.LifecycleStateInService},
		},
	})
	if g.InService() != 3 || len(g.Instances) != 3 || g.Desired != 4 {
		t.Errorf("%d in service of %d instances, desired %d; want 3 of 3, 4", g.InService(), len(g.Instances), g.Desired)
	}
}

func TestCase_C016_AShareThatIsNotSaidIsAllOnDemand(t *testing.T) {
	cases := map[string]struct {
		in         *astypes.InstancesDistribution
		percentage int32
	}{
		"NoDistribution": {nil, 100},
		"NoPercentage":   {&astypes.InstancesDistribution{OnDemandBaseCapacity: aws.Int32(2)}, 100},
		"Zero":           {&astypes.InstancesDistribution{OnDemandPercentageAboveBaseCapacity: aws.Int32(0)}, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := mixedInstances(&astypes.MixedInstancesPolicy{InstancesDistribution: tc.in}); got.OnDemandPercentage != tc.percentage {
				t.Errorf("%d%% on-demand, want %d%%", got.OnDemandPercentage, tc.percentage)
			}
		})
	}
}

func TestCase_C021_ProtectedInstancesEndWhenTheyAreNamed(t *testing.T) {
	l := newLab(t)
	l.group(t, "memory", func(in *autoscaling.CreateAutoScalingGroupInput) {
		in.MinSize, in.NewInstancesProtectedFromScaleIn = aws.Int32(0), aws.Bool(true)
	})
	before := l.list(t)["memory"]
	var ids []string
	for _, i := range before.Instances {
		if !i.Protected {
			t.Errorf("instance %s is not protected: the case is not this one", i.ID)
		}
		ids = append(ids, i.ID)
	}
	if err := l.port.EndInstances(t.Context(), "memory", ids); err != nil {
		t.Fatal(err)
	}
	l.settle()
	after := l.list(t)["memory"]
	if !after.Empty() || after.Desired != 0 {
		t.Errorf("%d instances left, desired %d; want none", len(after.Instances), after.Desired)
	}
	if !after.NewInstancesProtected {
		t.Error("the group's own protection is gone: what was not touched needs no restoring")
	}
}

func TestCase_C023_AnInstanceThatAHookHoldsIsNotGone(t *testing.T) {
	l := newLab(t)
	l.group(t, "memory", func(in *autoscaling.CreateAutoScalingGroupInput) {
		in.MinSize = aws.Int32(0)
		in.LifecycleHookSpecificationList = []astypes.LifecycleHookSpecification{{
			LifecycleHookName: aws.String("goodbye"), LifecycleTransition: aws.String("autoscaling:EC2_INSTANCE_TERMINATING"), HeartbeatTimeout: aws.Int32(3600), DefaultResult: aws.String("CONTINUE"),
		}}
	})
	id := l.list(t)["memory"].Instances[0].ID
	if err := l.port.EndInstances(t.Context(), "memory", []string{id}); err != nil {
		t.Fatal(err)
	}
	l.settle()
	got := l.list(t)["memory"]
	if !got.Has(id) || got.InService() != 2 {
		t.Errorf("member: %v, %d in service; want a member that does not serve", got.Has(id), got.InService())
	}
	want := []inventory.LifecycleHook{{Name: "goodbye", Transition: "autoscaling:EC2_INSTANCE_TERMINATING", HeartbeatSeconds: 3600, DefaultResult: "CONTINUE"}}
	if diff := cmp.Diff(want, got.LifecycleHooks); diff != "" {
		t.Errorf("how long the wait can be: -want +got\n%s", diff)
	}
	count, _ := l.calls(t, 0)
	if n := count["autoscaling.CompleteLifecycleAction"]; n != 0 {
		t.Errorf("the hook was completed %d times: it is its owner's", n)
	}
}

func TestCase_C081_EffectsOfEKS(t *testing.T) {
	for in, want := range map[ekstypes.TaintEffect]corev1.TaintEffect{
		"NO_SCHEDULE": corev1.TaintEffectNoSchedule, "NO_EXECUTE": corev1.TaintEffectNoExecute, "PREFER_NO_SCHEDULE": corev1.TaintEffectPreferNoSchedule, "NEW": "",
	} {
		if got := taints([]ekstypes.Taint{{Key: aws.String("k"), Effect: in}}); got[0].Effect != want {
			t.Errorf("%s is %q, want %q", in, got[0].Effect, want)
		}
	}
}

// What the group itself says of its nodes is read, or named.
func TestSettingsOfTheGroupItself(t *testing.T) {
	var lt inventory.LaunchTemplate
	addGroupSettings(&lt, astypes.AutoScalingGroup{
		HealthCheckType:                  aws.String("EC2,ELB"),
		AvailabilityZoneDistribution:     &astypes.AvailabilityZoneDistribution{CapacityDistributionStrategy: astypes.CapacityDistributionStrategyBalancedOnly},
		AvailabilityZoneImpairmentPolicy: &astypes.AvailabilityZoneImpairmentPolicy{ZonalShiftEnabled: aws.Bool(true)},
	})
	want := []string{"autoScalingGroup.availabilityZoneDistribution", "autoScalingGroup.availabilityZoneImpairmentPolicy", "autoScalingGroup.healthCheckType"}
	if diff := cmp.Diff(want, lt.Other); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	var usual inventory.LaunchTemplate
	addGroupSettings(&usual, astypes.AutoScalingGroup{
		HealthCheckType:                  aws.String("EC2"),
		AvailabilityZoneDistribution:     &astypes.AvailabilityZoneDistribution{CapacityDistributionStrategy: astypes.CapacityDistributionStrategyBalancedBestEffort},
		AvailabilityZoneImpairmentPolicy: &astypes.AvailabilityZoneImpairmentPolicy{ZonalShiftEnabled: aws.Bool(false)},
	})
	if len(usual.Other) > 0 {
		t.Errorf("what is usual is named: %v", usual.Other)
	}
	g := inventory.NodeGroup{}
	fillGroup(&g, astypes.AutoScalingGroup{DesiredCapacityType: aws.String("vcpu")})
	if g.CapacityUnit != "vcpu" {
		t.Errorf("sizes count %q, want vcpu", g.CapacityUnit)
	}
	for enabled, in := range map[bool]ekstypes.Nodegroup{true: {NodeRepairConfig: &ekstypes.NodeRepairConfig{Enabled: aws.Bool(true)}}, false: {NodeRepairConfig: &ekstypes.NodeRepairConfig{}}} {
		if got := managedGroup(in).Managed.Repair; got != enabled {
			t.Errorf("repair is %v, want %v", got, enabled)
		}
	}
}
