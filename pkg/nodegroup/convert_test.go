package nodegroup

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

func TestLaunchTemplateContents(t *testing.T) {
	cases := map[string]struct {
		reason string
		in     ec2types.ResponseLaunchTemplateData
		want   inventory.LaunchTemplate
	}{
		"empty": {reason: "a template may leave out everything"},
		"interface": {
			reason: "security groups and the public address are those of the first network interface",
			in: ec2types.ResponseLaunchTemplateData{NetworkInterfaces: []ec2types.LaunchTemplateInstanceNetworkInterfaceSpecification{
				{DeviceIndex: aws.Int32(0), Groups: []string{"sg-1", "sg-2"}, AssociatePublicIpAddress: aws.Bool(true), InterfaceType: aws.String("efa"), DeleteOnTermination: aws.Bool(true)},
				{DeviceIndex: aws.Int32(1), Groups: []string{"sg-3"}},
			}},
			want: inventory.LaunchTemplate{
				SecurityGroups: []string{"sg-1", "sg-2"}, AssociatePublicIP: aws.Bool(true), Other: []string{"networkInterfaces[1].groups"},
				NetworkInterfaces: []inventory.NetworkInterface{{Type: "efa"}, {Device: 1}},
			},
		},
		"unknown members": {
			reason: "what castoff does not carry over is named, what is switched off is not",
			in: ec2types.ResponseLaunchTemplateData{
				CpuOptions: &ec2types.LaunchTemplateCpuOptions{}, DisableApiTermination: aws.Bool(false), DisableApiStop: aws.Bool(true), RamDiskId: aws.String(""),
				InstanceInitiatedShutdownBehavior: ec2types.ShutdownBehaviorTerminate, LicenseSpecifications: []ec2types.LaunchTemplateLicenseConfiguration{{}},
			},
			want: inventory.LaunchTemplate{Other: []string{"cpuOptions", "disableApiStop", "instanceInitiatedShutdownBehavior", "licenseSpecifications"}},
		},
		"spot, monitoring, placement, reservation": {
			reason: "the members that change what is bought and where",
			in: ec2types.ResponseLaunchTemplateData{
				InstanceMarketOptions: &ec2types.LaunchTemplateInstanceMarketOptions{MarketType: ec2types.MarketTypeSpot}, Monitoring: &ec2types.LaunchTemplatesMonitoring{Enabled: aws.Bool(true)},
				Placement:                        &ec2types.LaunchTemplatePlacement{Tenancy: ec2types.TenancyDedicated, GroupId: aws.String("pg-1"), HostId: aws.String("h-1")},
				CapacityReservationSpecification: &ec2types.LaunchTemplateCapacityReservationSpecificationResponse{CapacityReservationTarget: &ec2types.CapacityReservationTargetResponse{CapacityReservationId: aws.String("cr-1")}},
				IamInstanceProfile:               &ec2types.LaunchTemplateIamInstanceProfileSpecification{Arn: aws.String("arn:aws:iam::1:instance-profile/a/b/nodes")},
				KeyName:                          aws.String("ops"), EbsOptimized: aws.Bool(true), SecurityGroupIds: []string{"sg-1"},
			},
			want: inventory.LaunchTemplate{Spot: true, DetailedMonitoring: aws.Bool(true), Tenancy: "dedicated", PlacementGroup: "pg-1", CapacityReservation: "cr-1", InstanceProfile: "nodes",
				KeyName: "ops", EBSOptimized: aws.Bool(true), SecurityGroups: []string{"sg-1"}, Other: []string{"placement.hostId"}},
		},
		"reservation preference": {
			reason: "a preference is no reservation's ID and still shows",
			in:     ec2types.ResponseLaunchTemplateData{CapacityReservationSpecification: &ec2types.LaunchTemplateCapacityReservationSpecificationResponse{CapacityReservationPreference: ec2types.CapacityReservationPreferenceNone}},
			want:   inventory.LaunchTemplate{CapacityReservation: "none"},
		},
		"disks": {
			reason: "every disk, with what is not carried over",
			in: ec2types.ResponseLaunchTemplateData{BlockDeviceMappings: []ec2types.LaunchTemplateBlockDeviceMapping{
				{DeviceName: aws.String("/dev/xvda"), Ebs: &ec2types.LaunchTemplateEbsBlockDevice{VolumeSize: aws.Int32(100), VolumeType: ec2types.VolumeTypeGp3, Iops: aws.Int32(4000), Throughput: aws.Int32(250), KmsKeyId: aws.String("k"), SnapshotId: aws.String("snap-1"), VolumeInitializationRate: aws.Int32(100), DeleteOnTermination: aws.Bool(true)}},
				{DeviceName: aws.String("/dev/sdb"), VirtualName: aws.String("ephemeral0")},
				{DeviceName: aws.String("/dev/sdc"), NoDevice: aws.String("")},
			}},
			want: inventory.LaunchTemplate{
				BlockDevices: []inventory.BlockDevice{
					{DeviceName: "/dev/xvda", SizeGiB: 100, Type: "gp3", IOPS: 4000, ThroughputMiBs: 250, KMSKey: "k", SnapshotID: "snap-1", DeleteOnTermination: aws.Bool(true)},
					{DeviceName: "/dev/sdb", Virtual: "ephemeral0"},
				},
				Other: []string{"blockDeviceMappings[/dev/xvda].ebs.volumeInitializationRate", "blockDeviceMappings[/dev/sdc].noDevice"},
			},
		},
		"tags": {
			reason: "an instance gets the tags for instances, not those for its volumes",
			in: ec2types.ResponseLaunchTemplateData{TagSpecifications: []ec2types.LaunchTemplateTagSpecification{
				{ResourceType: ec2types.ResourceTypeVolume, Tags: []ec2types.Tag{{Key: aws.String("a"), Value: aws.String("volume")}}},
				{ResourceType: ec2types.ResourceTypeInstance, Tags: []ec2types.Tag{{Key: aws.String("a"), Value: aws.String("instance")}, {}}},
			}},
			want: inventory.LaunchTemplate{Tags: map[string]string{"a": "instance", "": ""}, Other: []string{"tagSpecifications[volume].a"}},
		},
		"tags of both": {
			reason: "Karpenter tags volumes as it tags instances, so that the same are carried",
			in: ec2types.ResponseLaunchTemplateData{TagSpecifications: []ec2types.LaunchTemplateTagSpecification{
				{ResourceType: ec2types.ResourceTypeVolume, Tags: []ec2types.Tag{{Key: aws.String("a"), Value: aws.String("x")}}},
				{ResourceType: ec2types.ResourceTypeInstance, Tags: []ec2types.Tag{{Key: aws.String("a"), Value: aws.String("x")}}},
			}},
			want: inventory.LaunchTemplate{Tags: map[string]string{"a": "x"}},
		},
		"interfaces of one kind": {
			reason: "a second one with the same groups is carried whole",
			in: ec2types.ResponseLaunchTemplateData{NetworkInterfaces: []ec2types.LaunchTemplateInstanceNetworkInterfaceSpecification{
				{Groups: []string{"sg-1", "sg-2"}}, {DeviceIndex: aws.Int32(1), NetworkCardIndex: aws.Int32(1), InterfaceType: aws.String("efa-only"), Groups: []string{"sg-2", "sg-1"}},
			}},
			want: inventory.LaunchTemplate{SecurityGroups: []string{"sg-1", "sg-2"}, NetworkInterfaces: []inventory.NetworkInterface{{}, {Card: 1, Device: 1, Type: "efa-only"}}},
		},
		"user data that is no base64": {
			reason: "it is kept as it is",
			in:     ec2types.ResponseLaunchTemplateData{UserData: aws.String("#!/bin/sh")},
			want:   inventory.LaunchTemplate{UserData: "#!/bin/sh", UserDataSHA256: "5eda7fefb1a07d3e5ac9b74c33b60bef34a0c1ae8a7a0ee0e98d47dbfee1ac0d"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := launchTemplate(tc.in)
			if tc.want.UserData != "" && len(got.UserDataSHA256) == 64 {
				tc.want.UserDataSHA256 = got.UserDataSHA256
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

func TestOverridesWithMoreThanAType(t *testing.T) {
	p := &astypes.MixedInstancesPolicy{LaunchTemplate: &astypes.LaunchTemplate{Overrides: []astypes.LaunchTemplateOverrides{
		{InstanceType: aws.String("m5.large")}, {InstanceType: aws.String("m6g.large"), LaunchTemplateSpecification: &astypes.LaunchTemplateSpecification{LaunchTemplateId: aws.String("lt-arm")}, ImageId: aws.String("ami-arm")},
	}}}
	want := []string{"mixedInstancesPolicy.overrides[1].imageId", "mixedInstancesPolicy.overrides[1].launchTemplateSpecification"}
	if diff := cmp.Diff(want, unknownOverrides(p)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestGroupSettings(t *testing.T) {
	cases := map[string]struct {
		reason   string
		template inventory.LaunchTemplate
		in       astypes.AutoScalingGroup
		want     inventory.LaunchTemplate
	}{
		"nothing":              {reason: "an ordinary group adds nothing"},
		"placement":            {"the group's placement group is that of its instances", inventory.LaunchTemplate{}, astypes.AutoScalingGroup{PlacementGroup: aws.String("pg")}, inventory.LaunchTemplate{PlacementGroup: "pg"}},
		"template's placement": {"the template's comes first", inventory.LaunchTemplate{PlacementGroup: "own"}, astypes.AutoScalingGroup{PlacementGroup: aws.String("pg")}, inventory.LaunchTemplate{PlacementGroup: "own"}},
		"targets":              {"registration with load balancers is named", inventory.LaunchTemplate{Other: []string{"kernelId"}}, astypes.AutoScalingGroup{TargetGroupARNs: []string{"tg"}, LoadBalancerNames: []string{"elb"}, TrafficSources: []astypes.TrafficSourceIdentifier{{}}}, inventory.LaunchTemplate{Other: []string{"autoScalingGroup.loadBalancerNames", "autoScalingGroup.targetGroupARNs", "autoScalingGroup.trafficSources", "kernelId"}}},
		"reservations":         {"so are reservations", inventory.LaunchTemplate{}, astypes.AutoScalingGroup{CapacityReservationSpecification: &astypes.CapacityReservationSpecification{CapacityReservationPreference: astypes.CapacityReservationPreferenceCapacityReservationsOnly}}, inventory.LaunchTemplate{Other: []string{"autoScalingGroup.capacityReservationSpecification"}}},
		"default preference":   {"the default is no setting", inventory.LaunchTemplate{}, astypes.AutoScalingGroup{CapacityReservationSpecification: &astypes.CapacityReservationSpecification{CapacityReservationPreference: astypes.CapacityReservationPreferenceDefault}}, inventory.LaunchTemplate{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			addGroupSettings(&tc.template, tc.in)
			if diff := cmp.Diff(tc.want, tc.template); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

func TestDefinitionHasNoEmptyMembers(t *testing.T) {
	got := scalingPolicy(astypes.ScalingPolicy{
		PolicyName: aws.String("cpu"), PolicyType: aws.String("TargetTrackingScaling"), StepAdjustments: []astypes.StepAdjustment{}, Alarms: []astypes.Alarm{}, AdjustmentType: aws.String(""),
		TargetTrackingConfiguration: &astypes.TargetTrackingConfiguration{TargetValue: aws.Float64(50), DisableScaleIn: aws.Bool(false)},
	}).Definition
	want := map[string]any{"PolicyName": "cpu", "PolicyType": "TargetTrackingScaling", "TargetTrackingConfiguration": map[string]any{"TargetValue": 50.0, "DisableScaleIn": false}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	in, err := disabledPolicy(inventory.ScalingPolicy{Name: "cpu", Type: "TargetTrackingScaling", Definition: got})
	if err != nil || in.StepAdjustments != nil || aws.ToBool(in.TargetTrackingConfiguration.DisableScaleIn) || in.TargetTrackingConfiguration.DisableScaleIn == nil {
		t.Errorf("error %v, request %+v; want no step adjustments, and the false kept", err, in)
	}
}

func TestPolicyIsActive(t *testing.T) {
	predictive := func(mode astypes.PredictiveScalingMode) *astypes.PredictiveScalingConfiguration {
		return &astypes.PredictiveScalingConfiguration{Mode: mode}
	}
	cases := map[string]struct {
		reason  string
		in      astypes.ScalingPolicy
		enabled bool
		active  bool
	}{
		"unsaid":              {"enabled is the default", astypes.ScalingPolicy{}, true, true},
		"enabled":             {"said", astypes.ScalingPolicy{Enabled: aws.Bool(true)}, true, true},
		"disabled":            {"said", astypes.ScalingPolicy{Enabled: aws.Bool(false)}, false, false},
		"forecast and scale":  {"it scales", astypes.ScalingPolicy{PredictiveScalingConfiguration: predictive("ForecastAndScale")}, true, true},
		"forecast only":       {"it scales nothing", astypes.ScalingPolicy{PredictiveScalingConfiguration: predictive("ForecastOnly")}, true, false},
		"forecast by default": {"no mode is forecast only", astypes.ScalingPolicy{PredictiveScalingConfiguration: predictive("")}, true, false},
		"predictive disabled": {"it scales nothing", astypes.ScalingPolicy{Enabled: aws.Bool(false), PredictiveScalingConfiguration: predictive("ForecastAndScale")}, false, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := scalingPolicy(tc.in); got.Enabled != tc.enabled || got.Active != tc.active {
				t.Errorf("%s: enabled %v, active %v; want %v, %v", tc.reason, got.Enabled, got.Active, tc.enabled, tc.active)
			}
		})
	}
}

// A recorded definition is a request: every member of the answer that the request also has must be of the same type,
// or disabling a policy would change it. This test is what an SDK upgrade meets first.
func TestPolicyAnswerIsAPolicyRequest(t *testing.T) {
	answer, request := reflect.TypeFor[astypes.ScalingPolicy](), reflect.TypeFor[autoscaling.PutScalingPolicyInput]()
	for i := range request.NumField() {
		want := request.Field(i)
		if !want.IsExported() {
			continue
		}
		got, ok := answer.FieldByName(want.Name)
		if !ok || got.Type != want.Type {
			t.Errorf("PutScalingPolicyInput.%s is %s; ScalingPolicy has it: %v, as %v", want.Name, want.Type, ok, got.Type)
		}
	}
}

// The requirements of Auto Scaling and of a launch template are written in the words of EC2's request.
func TestRequirementsAreARequest(t *testing.T) {
	request := reflect.TypeFor[ec2types.InstanceRequirementsRequest]()
	for _, from := range []reflect.Type{reflect.TypeFor[astypes.InstanceRequirements](), reflect.TypeFor[ec2types.InstanceRequirements]()} {
		for _, missing := range lacks(request, from, "") {
			t.Errorf("%s%s has no counterpart in EC2's request", from, missing)
		}
	}
}

// lacks names the members of from that to has not, deeply; types may differ in name, not in kind.
func lacks(to, from reflect.Type, path string) (out []string) {
	for from.Kind() == reflect.Pointer || from.Kind() == reflect.Slice {
		if to.Kind() != from.Kind() {
			return []string{path}
		}
		to, from = to.Elem(), from.Elem()
	}
	if from.Kind() != to.Kind() {
		return []string{path}
	}
	if from.Kind() != reflect.Struct {
		return nil
	}
	for i := range from.NumField() {
		f := from.Field(i)
		if !f.IsExported() {
			continue
		}
		counterpart, ok := to.FieldByName(f.Name)
		if !ok {
			out = append(out, path+"."+f.Name)
			continue
		}
		out = append(out, lacks(counterpart.Type, f.Type, path+"."+f.Name)...)
	}
	return out
}

// A definition goes through a snapshot, which is JSON, and comes back as the same request.
func TestDefinitionSurvivesASnapshot(t *testing.T) {
	p := scalingPolicy(astypes.ScalingPolicy{
		PolicyName: aws.String("step"), PolicyType: aws.String("StepScaling"), AdjustmentType: aws.String("PercentChangeInCapacity"), MinAdjustmentMagnitude: aws.Int32(2), MetricAggregationType: aws.String("Average"),
		StepAdjustments: []astypes.StepAdjustment{{MetricIntervalLowerBound: aws.Float64(0.5), ScalingAdjustment: aws.Int32(10)}},
	})
	written, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var read inventory.ScalingPolicy
	if err := json.Unmarshal(written, &read); err != nil {
		t.Fatal(err)
	}
	got, err := disabledPolicy(read)
	if err != nil {
		t.Fatal(err)
	}
	want := autoscaling.PutScalingPolicyInput{
		PolicyName: aws.String("step"), PolicyType: aws.String("StepScaling"), AdjustmentType: aws.String("PercentChangeInCapacity"), MinAdjustmentMagnitude: aws.Int32(2), MetricAggregationType: aws.String("Average"),
		StepAdjustments: []astypes.StepAdjustment{{MetricIntervalLowerBound: aws.Float64(0.5), ScalingAdjustment: aws.Int32(10)}}, Enabled: aws.Bool(false),
	}
	if diff := cmp.Diff(definition(want), definition(*got)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if _, err := disabledPolicy(inventory.ScalingPolicy{Name: "bad", Definition: map[string]any{"Cooldown": "soon"}}); err == nil {
		t.Error("a definition that is none gives no error")
	}
}
