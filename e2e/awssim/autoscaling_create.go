package awssim

import (
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
)

func (a *autoscalingService) createAutoScalingGroup(_ *call, in *autoscaling.CreateAutoScalingGroupInput) (*autoscaling.CreateAutoScalingGroupOutput, error) {
	name := aws.ToString(in.AutoScalingGroupName)
	if _, exists := a.groups[name]; exists {
		return nil, errorf("AlreadyExists", "AutoScalingGroup by this name already exists - A group with the name %s already exists", name)
	}
	g := &scalingGroup{spec: newSpec(in), suspended: map[string]string{}, tags: map[string]types.TagDescription{}, policies: map[string]*scalingPolicy{}, actions: map[string]*scheduledAction{}}
	g.spec.AutoScalingGroupARN = aws.String(a.arn("autoScalingGroup:" + a.uuid() + ":autoScalingGroupName/" + name))
	g.spec.CreatedTime = aws.Time(a.now())
	g.sizes = sizes{or(in.MinSize, 0), or(in.MaxSize, 0), or(in.DesiredCapacity, or(in.MinSize, 0))}
	if err := g.sizes.check(); err != nil {
		return nil, err
	}
	if err := a.complement(&g.spec); err != nil {
		return nil, err
	}
	for _, h := range in.LifecycleHookSpecificationList {
		g.putHook(types.LifecycleHook{LifecycleHookName: h.LifecycleHookName, LifecycleTransition: h.LifecycleTransition, DefaultResult: h.DefaultResult,
			HeartbeatTimeout: h.HeartbeatTimeout, NotificationMetadata: h.NotificationMetadata, NotificationTargetARN: h.NotificationTargetARN, RoleARN: h.RoleARN})
	}
	for _, t := range in.Tags {
		g.tag(t)
	}
	a.groups[name] = g
	a.order = append(a.order, name)
	a.touch(g)
	return &autoscaling.CreateAutoScalingGroupOutput{}, nil
}

func newSpec(in *autoscaling.CreateAutoScalingGroupInput) types.AutoScalingGroup {
	return types.AutoScalingGroup{
		AutoScalingGroupName: in.AutoScalingGroupName, AvailabilityZones: in.AvailabilityZones, VPCZoneIdentifier: in.VPCZoneIdentifier,
		DefaultCooldown: aws.Int32(or(in.DefaultCooldown, 300)), DefaultInstanceWarmup: in.DefaultInstanceWarmup,
		HealthCheckType: aws.String(or(in.HealthCheckType, "EC2")), HealthCheckGracePeriod: aws.Int32(or(in.HealthCheckGracePeriod, 0)),
		CapacityRebalance: in.CapacityRebalance, MaxInstanceLifetime: in.MaxInstanceLifetime,
		NewInstancesProtectedFromScaleIn: aws.Bool(or(in.NewInstancesProtectedFromScaleIn, false)),
		LaunchTemplate:                   in.LaunchTemplate, LaunchConfigurationName: in.LaunchConfigurationName, MixedInstancesPolicy: in.MixedInstancesPolicy,
		TerminationPolicies: slices.Clone(in.TerminationPolicies), ServiceLinkedRoleARN: in.ServiceLinkedRoleARN, PlacementGroup: in.PlacementGroup,
		DesiredCapacityType: in.DesiredCapacityType, Context: in.Context, InstanceMaintenancePolicy: in.InstanceMaintenancePolicy,
		DeletionProtection: in.DeletionProtection, InstanceLifecyclePolicy: in.InstanceLifecyclePolicy, TargetGroupARNs: in.TargetGroupARNs,
		LoadBalancerNames: in.LoadBalancerNames, TrafficSources: in.TrafficSources, AvailabilityZoneDistribution: in.AvailabilityZoneDistribution,
		CapacityReservationSpecification: in.CapacityReservationSpecification, AvailabilityZoneImpairmentPolicy: in.AvailabilityZoneImpairmentPolicy,
	}
}

// complement checks a group's settings and fills in what AWS derives: zones from subnets, templates' ids and names.
func (a *autoscalingService) complement(spec *types.AutoScalingGroup) error {
	if len(spec.TerminationPolicies) == 0 {
		spec.TerminationPolicies = []string{"Default"}
	}
	if spec.DeletionProtection == "" {
		spec.DeletionProtection = types.DeletionProtectionNone
	}
	if life := or(spec.MaxInstanceLifetime, 0); life != 0 && life < 86400 {
		return validation("MaxInstanceLifetime must be 0 or at least 86400 seconds, not %d", life)
	}
	if err := a.complementTemplates(spec); err != nil {
		return err
	}
	return a.complementZones(spec)
}

func (a *autoscalingService) complementTemplates(spec *types.AutoScalingGroup) error {
	mixed := spec.MixedInstancesPolicy
	if spec.LaunchConfigurationName != nil && spec.LaunchTemplate == nil && mixed == nil {
		_, err := a.configuration(spec.LaunchConfigurationName)
		return err
	}
	if err := checkTemplateChoice(spec); err != nil {
		return err
	}
	if mixed == nil {
		return a.complementTemplate(spec.LaunchTemplate)
	}
	complementDistribution(mixed)
	if err := a.complementTemplate(mixed.LaunchTemplate.LaunchTemplateSpecification); err != nil {
		return err
	}
	for _, o := range mixed.LaunchTemplate.Overrides {
		if o.LaunchTemplateSpecification == nil {
			continue
		}
		if err := a.complementTemplate(o.LaunchTemplateSpecification); err != nil {
			return err
		}
	}
	return nil
}

// checkTemplateChoice refuses a group with none or two of the ways to say what is launched.
func checkTemplateChoice(spec *types.AutoScalingGroup) error {
	mixed := spec.MixedInstancesPolicy
	switch {
	case spec.LaunchConfigurationName == nil && spec.LaunchTemplate == nil && mixed == nil:
		return validation("Valid requests must contain either LaunchTemplate, LaunchConfigurationName, InstanceId or MixedInstancesPolicy parameter.")
	case spec.LaunchConfigurationName != nil || spec.LaunchTemplate != nil && mixed != nil:
		return validation("Only one of LaunchTemplate, LaunchConfigurationName and MixedInstancesPolicy may be given.")
	case mixed != nil && (mixed.LaunchTemplate == nil || mixed.LaunchTemplate.LaunchTemplateSpecification == nil):
		return validation("MixedInstancesPolicy must contain a LaunchTemplate with a LaunchTemplateSpecification.")
	}
	return nil
}

func complementDistribution(mixed *types.MixedInstancesPolicy) {
	if mixed.InstancesDistribution == nil {
		mixed.InstancesDistribution = &types.InstancesDistribution{}
	}
	d := mixed.InstancesDistribution
	d.OnDemandAllocationStrategy = aws.String(or(d.OnDemandAllocationStrategy, "prioritized"))
	d.SpotAllocationStrategy = aws.String(or(d.SpotAllocationStrategy, "lowest-price"))
	d.OnDemandBaseCapacity = aws.Int32(or(d.OnDemandBaseCapacity, 0))
	d.OnDemandPercentageAboveBaseCapacity = aws.Int32(or(d.OnDemandPercentageAboveBaseCapacity, 100))
}

// complementZones derives the zones from the subnets, in their order, as AWS does when subnets are given.
func (a *autoscalingService) complementZones(spec *types.AutoScalingGroup) error {
	subnets := (&scalingGroup{spec: *spec}).subnets()
	if len(subnets) == 0 && len(spec.AvailabilityZones) == 0 {
		return validation("At least one Availability Zone or VPC Subnet is required.")
	}
	if len(subnets) == 0 {
		return nil
	}
	spec.AvailabilityZones = nil
	for _, id := range subnets {
		zone, ok := a.zoneOf(id)
		if !ok {
			return validation("The subnet ID '%s' does not exist", id)
		}
		if !slices.Contains(spec.AvailabilityZones, zone) {
			spec.AvailabilityZones = append(spec.AvailabilityZones, zone)
		}
	}
	return nil
}

func isSubnetSeparator(r rune) bool { return r == ',' || r == ' ' }

func (a *autoscalingService) updateAutoScalingGroup(_ *call, in *autoscaling.UpdateAutoScalingGroupInput) (*autoscaling.UpdateAutoScalingGroupOutput, error) {
	g, err := a.group(in.AutoScalingGroupName)
	if err != nil {
		return nil, err
	}
	z := g.sizes.with(in.MinSize, in.MaxSize, in.DesiredCapacity)
	if err := z.check(); err != nil {
		return nil, err
	}
	spec := updatedSpec(deepCopy(g.spec), in)
	if err := a.complement(&spec); err != nil {
		return nil, err
	}
	g.spec = spec
	g.resized(fmt.Sprintf("a user request update of AutoScalingGroup constraints to min: %d, max: %d, desired: %d", z.min, z.max, z.desired), z)
	a.touch(g)
	return &autoscaling.UpdateAutoScalingGroupOutput{}, nil
}

// updatedSpec lays what was given over a group's settings; what was not given stays.
func updatedSpec(spec types.AutoScalingGroup, in *autoscaling.UpdateAutoScalingGroupInput) types.AutoScalingGroup {
	set(&spec.DefaultCooldown, in.DefaultCooldown)
	set(&spec.DefaultInstanceWarmup, in.DefaultInstanceWarmup)
	set(&spec.HealthCheckType, in.HealthCheckType)
	set(&spec.HealthCheckGracePeriod, in.HealthCheckGracePeriod)
	set(&spec.CapacityRebalance, in.CapacityRebalance)
	set(&spec.NewInstancesProtectedFromScaleIn, in.NewInstancesProtectedFromScaleIn)
	set(&spec.ServiceLinkedRoleARN, in.ServiceLinkedRoleARN)
	set(&spec.PlacementGroup, in.PlacementGroup)
	set(&spec.Context, in.Context)
	set(&spec.DesiredCapacityType, in.DesiredCapacityType)
	set(&spec.InstanceMaintenancePolicy, in.InstanceMaintenancePolicy)
	set(&spec.InstanceLifecyclePolicy, in.InstanceLifecyclePolicy)
	set(&spec.MaxInstanceLifetime, in.MaxInstanceLifetime)
	if in.MaxInstanceLifetime != nil && *in.MaxInstanceLifetime == 0 {
		spec.MaxInstanceLifetime = nil // 0 takes the limit away
	}
	if in.LaunchTemplate != nil || in.MixedInstancesPolicy != nil || in.LaunchConfigurationName != nil { // one takes the other's place
		spec.LaunchTemplate, spec.MixedInstancesPolicy, spec.LaunchConfigurationName = in.LaunchTemplate, in.MixedInstancesPolicy, in.LaunchConfigurationName
	}
	if in.DeletionProtection != "" {
		spec.DeletionProtection = in.DeletionProtection
	}
	if len(in.TerminationPolicies) > 0 {
		spec.TerminationPolicies = in.TerminationPolicies
	}
	if in.VPCZoneIdentifier != nil {
		spec.VPCZoneIdentifier = in.VPCZoneIdentifier
	} else if len(in.AvailabilityZones) > 0 {
		spec.AvailabilityZones, spec.VPCZoneIdentifier = in.AvailabilityZones, nil
	}
	return spec
}

// set replaces a setting when a new value was given.
func set[T any](setting **T, v *T) {
	if v != nil {
		*setting = v
	}
}

func (a *autoscalingService) deleteAutoScalingGroup(c *call, in *autoscaling.DeleteAutoScalingGroupInput) (*autoscaling.DeleteAutoScalingGroupOutput, error) {
	g, err := a.group(in.AutoScalingGroupName)
	if err != nil {
		return nil, err
	}
	force := or(in.ForceDelete, false)
	protection := g.spec.DeletionProtection
	switch {
	case protection == types.DeletionProtectionPreventAllDeletion, protection == types.DeletionProtectionPreventForceDeletion && force:
		return nil, validation("AutoScalingGroup %s cannot be deleted: its deletion protection is %s", g.name(), protection)
	case g.warmPool != nil && !force:
		return nil, errorf("ResourceInUse", "AutoScalingGroup %s cannot be deleted while it has a warm pool.", g.name()) // the API reference names force as the way
	case len(g.members) > 0 && !force:
		return nil, errorf("ResourceInUse", "You cannot delete an AutoScalingGroup while there are instances or pending Spot instance request(s) still in the group.")
	case g.busy() && !force:
		return nil, errorf("ScalingActivityInProgress", "You cannot delete an AutoScalingGroup while there are scaling activities in progress for that group.")
	}
	a.forceDelete(g, c.by())
	return &autoscaling.DeleteAutoScalingGroupOutput{}, nil
}

// forceDelete ends a group with its policies, and with every alarm that has no other action left, as
// DeleteAutoScalingGroup documents; DeletePolicy alone keeps such an alarm. Its instances are ended without lifecycle hooks.
func (a *autoscalingService) forceDelete(g *scalingGroup, by string) {
	g.deleting, g.sizes = true, sizes{}
	for name := range g.actions {
		_ = a.dropScheduled(g, name) // it is there
	}
	for name, p := range g.policies {
		alarms := a.s.cloudwatch.withAction(aws.ToString(p.spec.PolicyARN))
		a.dropPolicy(g, name)
		a.dropIdle(alarms)
	}
	for _, m := range g.members {
		m.endedBy = by
		if !m.ending() {
			a.terminate(g, m, "an instance was taken out of service in response to the deletion of its group")
			continue
		}
		if len(m.waiting) > 0 || m.state == types.LifecycleStateTerminatingRetained {
			m.waiting, m.state = nil, types.LifecycleStateTerminatingProceed
			a.end(g, m)
		}
	}
	a.touch(g)
}
