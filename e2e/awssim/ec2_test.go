package awssim

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/google/go-cmp/cmp"

	"github.com/castoff-sh/castoff/e2e/awssim/simapi"
)

func filter(name string, values ...string) types.Filter {
	return types.Filter{Name: aws.String(name), Values: values}
}

func TestInstancesLiveAndEnd(t *testing.T) {
	l := newLab(t, Options{Settings: simapi.Settings{PendingDelay: 3 * time.Second, ShutdownDelay: 5 * time.Second}})
	var changes []string
	do(l.Server, func() {
		l.onState = []func(instance, types.InstanceStateName, string){func(i instance, was types.InstanceStateName, by string) {
			changes = append(changes, fmt.Sprintf("%s>%s by %s", was, i.state(), by[strings.LastIndexByte(by, '/')+1:]))
		}}
	})
	i := l.run(t, nil)
	steps := []struct {
		after time.Duration
		want  types.InstanceStateName
	}{{0, "pending"}, {2 * time.Second, "pending"}, {time.Second, "running"}, {time.Hour, "running"}}
	for _, step := range steps {
		l.Advance(step.after)
		if got := l.seen(*i.InstanceId); got != step.want {
			t.Errorf("%s later: want %s, got %s", step.after, step.want, got)
		}
	}
	end, err := l.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{*i.InstanceId}})
	ok(t, err)
	if c := end.TerminatingInstances[0]; c.PreviousState.Name != "running" || c.CurrentState.Name != "shutting-down" || *c.CurrentState.Code != 32 {
		t.Errorf("terminating answers %s to %s", c.PreviousState.Name, c.CurrentState.Name)
	}
	l.Advance(5 * time.Second)
	if got := l.seen(*i.InstanceId); got != "terminated" {
		t.Errorf("after the shutdown: %s", got)
	}
	l.Advance(time.Hour)
	if got := l.seen(*i.InstanceId); got != "" {
		t.Errorf("an hour after its end EC2 forgets an instance, not shows it %s", got)
	}
	want := []string{">pending by tester ec2.RunInstances", "pending>running by tester ec2.RunInstances", "running>shutting-down by tester ec2.TerminateInstances", "shutting-down>terminated by tester ec2.TerminateInstances"}
	if diff := cmp.Diff(want, changes); diff != "" {
		t.Errorf("every change must be told with what caused it (-want +got):\n%s", diff)
	}
	side, err := l.side.Instances(ctx)
	ok(t, err)
	if side[0].EndedBy != "arn:aws:iam::123456789012:user/tester ec2.TerminateInstances" || side[0].EndTime.IsZero() {
		t.Errorf("the side door must keep ended instances and say who ended them: %+v", side[0])
	}
}

func TestTerminatedWhilePendingNeverRuns(t *testing.T) {
	l := newLab(t, Options{Settings: simapi.Settings{PendingDelay: 3 * time.Second, ShutdownDelay: time.Second}})
	i := l.run(t, nil)
	_, err := l.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{*i.InstanceId}})
	ok(t, err)
	l.Advance(time.Minute)
	if got := l.seen(*i.InstanceId); got != "terminated" {
		t.Errorf("an instance ended while pending is %s", got)
	}
	other := l.run(t, nil)
	_, err = l.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{*other.InstanceId, "i-none"}})
	wantCode(t, err, "InvalidInstanceID.NotFound", "one of the instances does not exist")
	if got := l.seen(*other.InstanceId); got != "pending" {
		t.Errorf("a refused call must end nothing, yet the instance is %s", got)
	}
}

func TestDescribeInstances(t *testing.T) {
	l := newLab(t, Options{})
	a := l.run(t, func(in *ec2.RunInstancesInput) {
		in.TagSpecifications, in.SecurityGroupIds = tagged(types.ResourceTypeInstance, "team", "blue/green"), []string{l.group}
	})
	b := l.run(t, func(in *ec2.RunInstancesInput) {
		in.SubnetId, in.InstanceType, in.TagSpecifications = &l.subnets[1], "c5.large", tagged(types.ResourceTypeInstance, "team", "red")
	})
	cases := map[string]struct {
		reason  string
		filters []types.Filter
		want    []string
	}{
		"All":           {"no filter", nil, []string{*a.InstanceId, *b.InstanceId}},
		"Tag":           {"a tag's value", []types.Filter{filter("tag:team", "red")}, []string{*b.InstanceId}},
		"TagWildcard":   {"a wildcard spans slashes", []types.Filter{filter("tag:team", "blue*")}, []string{*a.InstanceId}},
		"Question":      {"a question mark is one letter", []types.Filter{filter("tag:team", "r?d")}, []string{*b.InstanceId}},
		"TagKey":        {"a tag's key", []types.Filter{filter("tag-key", "team", "none")}, []string{*a.InstanceId, *b.InstanceId}},
		"Both":          {"all filters must match", []types.Filter{filter("tag-key", "team"), filter("instance-type", "c5.large")}, []string{*b.InstanceId}},
		"Either":        {"one of a filter's values is enough", []types.Filter{filter("availability-zone", "us-east-1a", "us-east-1b")}, []string{*a.InstanceId, *b.InstanceId}},
		"State":         {"by state", []types.Filter{filter("instance-state-name", "terminated")}, nil},
		"SecurityGroup": {"by security group", []types.Filter{filter("instance.group-id", l.group)}, []string{*a.InstanceId}},
		"NoProfile":     {"a thing it does not have", []types.Filter{filter("iam-instance-profile.arn", "*")}, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			out, err := l.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{Filters: tc.filters})
			ok(t, err)
			var got []string
			for _, r := range out.Reservations {
				got = append(got, *r.Instances[0].InstanceId)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
	_, err := l.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{Filters: []types.Filter{filter("colour", "red")}})
	wantCode(t, err, "InvalidParameterValue", "a filter that EC2 does not have")
	_, err = l.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{*a.InstanceId, "i-none"}})
	wantCode(t, err, "InvalidInstanceID.NotFound", "an instance that does not exist")
}

func TestPagesShowOneMoment(t *testing.T) {
	l := newLab(t, Options{})
	for range 5 {
		l.run(t, nil)
	}
	running := []types.Filter{filter("instance-state-name", "running")}
	l.Advance(time.Second)
	pages := ec2.NewDescribeInstancesPaginator(l.ec2, &ec2.DescribeInstancesInput{Filters: running, MaxResults: aws.Int32(2)})
	seen := map[string]bool{}
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		ok(t, err)
		if len(page.Reservations) > 2 {
			t.Errorf("a page has %d instances", len(page.Reservations))
		}
		for _, r := range page.Reservations {
			seen[*r.Instances[0].InstanceId] = true
		}
		_, err = l.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{*page.Reservations[0].Instances[0].InstanceId}})
		ok(t, err)
	}
	if len(seen) != 5 {
		t.Errorf("instances that end between two pages must not push others out: %d of 5 seen", len(seen))
	}
	_, err := l.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{NextToken: aws.String("none")})
	wantCode(t, err, "InvalidNextToken", "a token that was never given")
}

func TestRunInstancesRefuses(t *testing.T) {
	l := newLab(t, Options{})
	tiny, err := l.ec2.CreateSubnet(ctx, &ec2.CreateSubnetInput{VpcId: &l.vpc, CidrBlock: aws.String("10.0.9.0/28"), AvailabilityZone: aws.String("us-east-1a")})
	ok(t, err)
	cases := map[string]struct {
		reason string
		change func(*ec2.RunInstancesInput)
		want   string
	}{
		"Type":    {"a type that does not exist", func(in *ec2.RunInstancesInput) { in.InstanceType = "m99.huge" }, "InvalidParameterValue"},
		"Image":   {"an image that does not exist", func(in *ec2.RunInstancesInput) { in.ImageId = aws.String("ami-none") }, "InvalidAMIID.NotFound"},
		"NoImage": {"no image at all", func(in *ec2.RunInstancesInput) { in.ImageId = nil }, "MissingParameter"},
		"Subnet":  {"a subnet that does not exist", func(in *ec2.RunInstancesInput) { in.SubnetId = aws.String("subnet-none") }, "InvalidSubnetID.NotFound"},
		"Group":   {"a security group that does not exist", func(in *ec2.RunInstancesInput) { in.SecurityGroupIds = []string{"sg-none"} }, "InvalidGroup.NotFound"},
		"Profile": {"a profile that does not exist", func(in *ec2.RunInstancesInput) {
			in.IamInstanceProfile = &types.IamInstanceProfileSpecification{Name: aws.String("none")}
		}, "InvalidParameterValue"},
		"Template": {"a template that does not exist", func(in *ec2.RunInstancesInput) {
			in.LaunchTemplate = &types.LaunchTemplateSpecification{LaunchTemplateName: aws.String("none")}
		}, "InvalidLaunchTemplateName.NotFoundException"},
		"Addresses": {"more instances than the subnet has addresses: 16 less five", func(in *ec2.RunInstancesInput) {
			in.SubnetId, in.MinCount, in.MaxCount = tiny.Subnet.SubnetId, aws.Int32(12), aws.Int32(12)
		}, "InsufficientFreeAddressesInSubnet"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			in := &ec2.RunInstancesInput{ImageId: &l.image, InstanceType: "m5.large", SubnetId: &l.subnets[0], MinCount: aws.Int32(1), MaxCount: aws.Int32(1)}
			tc.change(in)
			_, err := l.ec2.RunInstances(ctx, in)
			wantCode(t, err, tc.want, tc.reason)
			side, err := l.side.Instances(ctx)
			ok(t, err)
			if slices.ContainsFunc(side, func(i simapi.Instance) bool { return i.State == "running" || i.State == "pending" }) {
				t.Errorf("%s: nothing may be left running", tc.reason)
			}
		})
	}
}

func TestSubnetAddresses(t *testing.T) {
	l := newLab(t, Options{})
	free := func() int32 {
		out, err := l.ec2.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{SubnetIds: []string{l.subnets[0]}})
		ok(t, err)
		return *out.Subnets[0].AvailableIpAddressCount
	}
	if n := free(); n != 251 {
		t.Errorf("an empty /24 has 251 addresses, not %d", n)
	}
	first, second := l.run(t, nil), l.run(t, nil)
	if n := free(); n != 249 || *first.PrivateIpAddress != "10.0.0.4" || *second.PrivateIpAddress != "10.0.0.5" {
		t.Errorf("two instances take two addresses: %d left, %s and %s", n, *first.PrivateIpAddress, *second.PrivateIpAddress)
	}
	_, err := l.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{*first.InstanceId}})
	ok(t, err)
	l.Advance(time.Second)
	if third := l.run(t, nil); *third.PrivateIpAddress != "10.0.0.4" || free() != 249 {
		t.Errorf("an ended instance gives its address back: the next one got %s", *third.PrivateIpAddress)
	}
}

func TestVCPUQuota(t *testing.T) {
	l := newLab(t, Options{})
	do(l.Server, func() {
		l.vCPULimit = func(_ string, spot bool) (float64, bool) { return 5, !spot }
	})
	l.run(t, nil)
	l.run(t, nil)
	in := &ec2.RunInstancesInput{ImageId: &l.image, InstanceType: "m5.large", SubnetId: &l.subnets[0], MinCount: aws.Int32(1), MaxCount: aws.Int32(1)}
	_, err := l.ec2.RunInstances(ctx, in)
	wantCode(t, err, "VcpuLimitExceeded", "six vCPUs on a quota of five")
	in.InstanceMarketOptions = &types.InstanceMarketOptionsRequest{MarketType: types.MarketTypeSpot}
	_, err = l.ec2.RunInstances(ctx, in)
	ok(t, err)
}

func TestLaunchTemplates(t *testing.T) {
	l := newLab(t, Options{})
	l.template(t, "nodes", func(d *types.RequestLaunchTemplateData) { d.UserData = aws.String("djE=") })
	name := aws.String("nodes")
	_, err := l.ec2.CreateLaunchTemplate(ctx, &ec2.CreateLaunchTemplateInput{LaunchTemplateName: name, LaunchTemplateData: &types.RequestLaunchTemplateData{}})
	wantCode(t, err, "InvalidLaunchTemplateName.AlreadyExistsException", "a name in use")
	_, err = l.ec2.CreateLaunchTemplate(ctx, &ec2.CreateLaunchTemplateInput{LaunchTemplateName: aws.String("big"), LaunchTemplateData: &types.RequestLaunchTemplateData{UserData: aws.String(strings.Repeat("A", 22000))}})
	wantCode(t, err, "InvalidUserData.Malformed", "too much user data")
	second, err := l.ec2.CreateLaunchTemplateVersion(ctx, &ec2.CreateLaunchTemplateVersionInput{
		LaunchTemplateName: name, SourceVersion: aws.String("1"), LaunchTemplateData: &types.RequestLaunchTemplateData{InstanceType: "c5.large"},
	})
	ok(t, err)
	if v := second.LaunchTemplateVersion; *v.VersionNumber != 2 || *v.LaunchTemplateData.UserData != "djE=" || v.LaunchTemplateData.InstanceType != "c5.large" {
		t.Errorf("a new version starts from its source: %+v", v.LaunchTemplateData)
	}
	cases := map[string]struct {
		version *string
		want    types.InstanceType
	}{
		"Default": {aws.String("$Default"), "m5.large"}, "Latest": {aws.String("$Latest"), "c5.large"}, "One": {aws.String("1"), "m5.large"}, "Unsaid": {nil, "m5.large"},
	}
	for label, tc := range cases {
		t.Run(label, func(t *testing.T) {
			i := l.run(t, func(in *ec2.RunInstancesInput) {
				in.InstanceType, in.ImageId = "", nil
				in.LaunchTemplate = &types.LaunchTemplateSpecification{LaunchTemplateName: name, Version: tc.version}
			})
			if i.InstanceType != tc.want {
				t.Errorf("want %s, got %s", tc.want, i.InstanceType)
			}
		})
	}
	_, err = l.ec2.ModifyLaunchTemplate(ctx, &ec2.ModifyLaunchTemplateInput{LaunchTemplateName: name, DefaultVersion: aws.String("2")})
	ok(t, err)
	versions, err := l.ec2.DescribeLaunchTemplateVersions(ctx, &ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateName: name})
	ok(t, err)
	var got []string
	for _, v := range versions.LaunchTemplateVersions {
		got = append(got, fmt.Sprint(*v.VersionNumber, *v.DefaultVersion))
	}
	if diff := cmp.Diff([]string{"2 true", "1 false"}, got); diff != "" {
		t.Errorf("versions come newest first and know the default (-want +got):\n%s", diff)
	}
	_, err = l.ec2.DescribeLaunchTemplateVersions(ctx, &ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateName: name, Versions: []string{"7"}})
	wantCode(t, err, "InvalidLaunchTemplateId.VersionNotFound", "a version that does not exist")
	_, err = l.ec2.DescribeLaunchTemplates(ctx, &ec2.DescribeLaunchTemplatesInput{LaunchTemplateNames: []string{"nodes", "none"}})
	wantCode(t, err, "InvalidLaunchTemplateName.NotFoundException", "one of the names does not exist")
	_, err = l.ec2.DeleteLaunchTemplate(ctx, &ec2.DeleteLaunchTemplateInput{LaunchTemplateName: name})
	ok(t, err)
	_, err = l.ec2.DeleteLaunchTemplate(ctx, &ec2.DeleteLaunchTemplateInput{LaunchTemplateName: name})
	wantCode(t, err, "InvalidLaunchTemplateName.NotFoundException", "deleted before")
}

func TestLaunchTemplateTokens(t *testing.T) {
	l := newLab(t, Options{})
	in := &ec2.CreateLaunchTemplateInput{LaunchTemplateName: aws.String("nodes"), LaunchTemplateData: &types.RequestLaunchTemplateData{InstanceType: "m5.large"}, ClientToken: aws.String("t")}
	version := &ec2.CreateLaunchTemplateVersionInput{LaunchTemplateName: aws.String("nodes"), LaunchTemplateData: &types.RequestLaunchTemplateData{InstanceType: "m5.large"}, ClientToken: aws.String("t")}
	for range 2 {
		_, err := l.ec2.CreateLaunchTemplate(ctx, in)
		ok(t, err)
		out, err := l.ec2.CreateLaunchTemplateVersion(ctx, version)
		ok(t, err)
		if *out.LaunchTemplateVersion.VersionNumber != 2 {
			t.Errorf("a repeated token makes version %d", *out.LaunchTemplateVersion.VersionNumber)
		}
	}
}

func TestLaunchTemplateReachesTheInstance(t *testing.T) {
	l := newLab(t, Options{})
	_, err := l.iam.CreateInstanceProfile(ctx, &iam.CreateInstanceProfileInput{InstanceProfileName: aws.String("profile"), Path: aws.String("/karpenter/")})
	ok(t, err)
	l.template(t, "nodes", func(d *types.RequestLaunchTemplateData) {
		d.SecurityGroupIds = nil
		d.NetworkInterfaces = []types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{{DeviceIndex: aws.Int32(0), Groups: []string{l.group}}}
		d.IamInstanceProfile = &types.LaunchTemplateIamInstanceProfileSpecificationRequest{Name: aws.String("profile")}
		d.MetadataOptions = &types.LaunchTemplateInstanceMetadataOptionsRequest{HttpTokens: types.LaunchTemplateHttpTokensStateRequired}
		d.BlockDeviceMappings = []types.LaunchTemplateBlockDeviceMappingRequest{{DeviceName: aws.String("/dev/xvda"), Ebs: &types.LaunchTemplateEbsBlockDeviceRequest{VolumeSize: aws.Int32(50), VolumeType: "gp3"}}}
		d.TagSpecifications = []types.LaunchTemplateTagSpecificationRequest{
			{ResourceType: "instance", Tags: []types.Tag{{Key: aws.String("from"), Value: aws.String("template")}, {Key: aws.String("both"), Value: aws.String("template")}}},
			{ResourceType: "volume", Tags: []types.Tag{{Key: aws.String("disk"), Value: aws.String("yes")}}},
		}
	})
	i := l.run(t, func(in *ec2.RunInstancesInput) {
		in.ImageId, in.LaunchTemplate = nil, &types.LaunchTemplateSpecification{LaunchTemplateName: aws.String("nodes"), Version: aws.String("$Latest")}
		in.TagSpecifications = tagged(types.ResourceTypeInstance, "both", "request")
	})
	tags := map[string]string{}
	for _, x := range i.Tags {
		tags[*x.Key] = *x.Value
	}
	if diff := cmp.Diff(map[string]string{"from": "template", "both": "request"}, tags); diff != "" {
		t.Errorf("the request's tags lie over the template's (-want +got):\n%s", diff)
	}
	if len(i.SecurityGroups) != 1 || *i.SecurityGroups[0].GroupId != l.group || i.MetadataOptions.HttpTokens != "required" || *i.IamInstanceProfile.Arn != "arn:aws:iam::123456789012:instance-profile/karpenter/profile" {
		t.Errorf("security groups of the network interface, metadata options and profile must arrive: %v, %v, %v", i.SecurityGroups, i.MetadataOptions, i.IamInstanceProfile)
	}
	volumes, err := l.ec2.DescribeVolumes(ctx, &ec2.DescribeVolumesInput{Filters: []types.Filter{filter("attachment.instance-id", *i.InstanceId), filter("tag:disk", "yes")}})
	ok(t, err)
	if len(volumes.Volumes) != 1 || *volumes.Volumes[0].Size != 50 {
		t.Errorf("the root volume must be the template's: %v", volumes.Volumes)
	}
	_, err = l.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{*i.InstanceId}})
	ok(t, err)
	l.Advance(time.Second)
	if volumes, err = l.ec2.DescribeVolumes(ctx, &ec2.DescribeVolumesInput{}); err != nil || len(volumes.Volumes) != 0 {
		t.Errorf("volumes go with their instance: %v, %v", volumes, err)
	}
}

func TestTagsOfEverything(t *testing.T) {
	l := newLab(t, Options{})
	i := l.run(t, nil)
	l.template(t, "nodes", nil)
	templates, err := l.ec2.DescribeLaunchTemplates(ctx, &ec2.DescribeLaunchTemplatesInput{})
	ok(t, err)
	image, err := l.ec2.RegisterImage(ctx, &ec2.RegisterImageInput{Name: aws.String("mine"), Architecture: "x86_64"})
	ok(t, err)
	reservation, err := l.ec2.CreateCapacityReservation(ctx, &ec2.CreateCapacityReservationInput{InstanceCount: aws.Int32(1), InstanceType: aws.String("m5.large"), InstancePlatform: "Linux/UNIX", AvailabilityZone: aws.String("us-east-1a")})
	ok(t, err)
	placement, err := l.ec2.CreatePlacementGroup(ctx, &ec2.CreatePlacementGroupInput{GroupName: aws.String("together"), Strategy: "cluster"})
	ok(t, err)
	ids := []string{
		*i.InstanceId, *i.BlockDeviceMappings[0].Ebs.VolumeId, l.subnets[0], l.group, l.vpc, *templates.LaunchTemplates[0].LaunchTemplateId,
		*image.ImageId, *reservation.CapacityReservation.CapacityReservationId, *placement.PlacementGroup.GroupId,
	}
	_, err = l.ec2.CreateTags(ctx, &ec2.CreateTagsInput{Resources: ids, Tags: []types.Tag{{Key: aws.String("a"), Value: aws.String("1")}, {Key: aws.String("b"), Value: aws.String("2")}}})
	ok(t, err)
	byTag := []types.Filter{filter("tag:a", "1")}
	count := func() (n int) {
		instances, e1 := l.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{Filters: byTag})
		volumes, e2 := l.ec2.DescribeVolumes(ctx, &ec2.DescribeVolumesInput{Filters: byTag})
		subnets, e3 := l.ec2.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{Filters: byTag})
		groups, e4 := l.ec2.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{Filters: byTag})
		vpcs, e5 := l.ec2.DescribeVpcs(ctx, &ec2.DescribeVpcsInput{Filters: byTag})
		templates, e6 := l.ec2.DescribeLaunchTemplates(ctx, &ec2.DescribeLaunchTemplatesInput{Filters: byTag})
		images, e7 := l.ec2.DescribeImages(ctx, &ec2.DescribeImagesInput{Filters: byTag, Owners: []string{"self"}})
		reservations, e8 := l.ec2.DescribeCapacityReservations(ctx, &ec2.DescribeCapacityReservationsInput{Filters: byTag})
		placements, e9 := l.ec2.DescribePlacementGroups(ctx, &ec2.DescribePlacementGroupsInput{Filters: byTag, GroupNames: []string{"together"}})
		for _, err := range []error{e1, e2, e3, e4, e5, e6, e7, e8, e9} {
			ok(t, err)
		}
		return len(instances.Reservations) + len(volumes.Volumes) + len(subnets.Subnets) + len(groups.SecurityGroups) + len(vpcs.Vpcs) +
			len(templates.LaunchTemplates) + len(images.Images) + len(reservations.CapacityReservations) + len(placements.PlacementGroups)
	}
	if n := count(); n != len(ids) {
		t.Errorf("%d of %d resources are found by their tag", n, len(ids))
	}
	_, err = l.ec2.DeleteTags(ctx, &ec2.DeleteTagsInput{Resources: ids, Tags: []types.Tag{{Key: aws.String("a"), Value: aws.String("other")}, {Key: aws.String("b")}}})
	ok(t, err)
	if n := count(); n != len(ids) {
		t.Errorf("a tag of another value must stay: %d of %d are left", n, len(ids))
	}
	_, err = l.ec2.DeleteTags(ctx, &ec2.DeleteTagsInput{Resources: ids})
	ok(t, err)
	if n := count(); n != 0 {
		t.Errorf("deleting without naming tags deletes all: %d are left", n)
	}
	for id, code := range map[string]string{"i-none": "InvalidInstanceID.NotFound", "vol-none": "InvalidVolume.NotFound", "moon-1": "InvalidID"} {
		_, err = l.ec2.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{id}, Tags: []types.Tag{{Key: aws.String("a"), Value: aws.String("1")}}})
		wantCode(t, err, code, "tagging "+id)
	}
}

func TestNetworkRefuses(t *testing.T) {
	l := newLab(t, Options{})
	_, err := l.ec2.CreateVpc(ctx, &ec2.CreateVpcInput{CidrBlock: aws.String("everything")})
	wantCode(t, err, "InvalidVpc.Range", "a CIDR that is none")
	_, err = l.ec2.CreateSubnet(ctx, &ec2.CreateSubnetInput{VpcId: aws.String("vpc-none"), CidrBlock: aws.String("10.0.0.0/24")})
	wantCode(t, err, "InvalidVpcID.NotFound", "a VPC that does not exist")
	_, err = l.ec2.CreateSubnet(ctx, &ec2.CreateSubnetInput{VpcId: &l.vpc, CidrBlock: aws.String("10.0.0.0/99")})
	wantCode(t, err, "InvalidSubnet.Range", "a CIDR that is none")
	_, err = l.ec2.CreateSubnet(ctx, &ec2.CreateSubnetInput{VpcId: &l.vpc, CidrBlock: aws.String("10.0.7.0/24"), AvailabilityZone: aws.String("eu-west-1a")})
	wantCode(t, err, "InvalidParameterValue", "a zone of another region")
	_, err = l.ec2.CreateSecurityGroup(ctx, &ec2.CreateSecurityGroupInput{GroupName: aws.String("nodes"), Description: aws.String("again"), VpcId: &l.vpc})
	wantCode(t, err, "InvalidGroup.Duplicate", "a name in use")
}

func TestAvailabilityZones(t *testing.T) {
	for region, want := range map[string]string{"us-east-1": "us-east-1b use1-az2", "eu-central-1": "eu-central-1b euc1-az2", "us-gov-west-1": "us-gov-west-1b usgovw1-az2"} {
		t.Run(region, func(t *testing.T) {
			_, cfg := newTestServer(t, Options{Region: region})
			cfg.Region = region
			out, err := ec2.NewFromConfig(cfg).DescribeAvailabilityZones(ctx, &ec2.DescribeAvailabilityZonesInput{ZoneNames: []string{region + "b"}})
			ok(t, err)
			if z := out.AvailabilityZones[0]; len(out.AvailabilityZones) != 1 || *z.ZoneName+" "+*z.ZoneId != want {
				t.Errorf("want %s, got %s %s", want, *z.ZoneName, *z.ZoneId)
			}
		})
	}
}

func TestInstanceStatus(t *testing.T) {
	l := newLab(t, Options{})
	sick, well := l.run(t, nil), l.run(t, nil)
	l.Advance(time.Second)
	var told []string
	do(l.Server, func() { l.unhealthy = func(id string) { told = append(told, id) } })
	ok(t, l.side.Interrupt(ctx, simapi.Interrupt{InstanceID: *sick.InstanceId, Kind: "unhealthy"}))
	cases := map[string]struct {
		filters []types.Filter
		want    []string
	}{
		"All":       {nil, []string{*sick.InstanceId, *well.InstanceId}},
		"Impaired":  {[]types.Filter{filter("instance-status.status", "impaired")}, []string{*sick.InstanceId}},
		"System":    {[]types.Filter{filter("system-status.status", "impaired")}, nil},
		"Scheduled": {[]types.Filter{filter("event.code", "instance-retirement")}, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			out, err := l.ec2.DescribeInstanceStatus(ctx, &ec2.DescribeInstanceStatusInput{Filters: tc.filters})
			ok(t, err)
			var got []string
			for _, s := range out.InstanceStatuses {
				got = append(got, *s.InstanceId)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if diff := cmp.Diff([]string{*sick.InstanceId}, told); diff != "" {
		t.Errorf("Auto Scaling must be told (-want +got):\n%s", diff)
	}
}

func TestInstanceTypes(t *testing.T) {
	l := newLab(t, Options{})
	all, err := instanceTypes()
	ok(t, err)
	var got []string
	pages := ec2.NewDescribeInstanceTypesPaginator(l.ec2, &ec2.DescribeInstanceTypesInput{
		Filters:    []types.Filter{filter("supported-virtualization-type", "hvm"), filter("processor-info.supported-architecture", "x86_64", "arm64")},
		MaxResults: aws.Int32(50),
	})
	for n := 0; pages.HasMorePages(); n++ {
		page, err := pages.NextPage(ctx)
		ok(t, err)
		for _, x := range page.InstanceTypes {
			got = append(got, string(x.InstanceType))
		}
	}
	if len(got) != len(all) || len(got) < 100 {
		t.Errorf("%d of %d types are described", len(got), len(all))
	}
	for _, x := range all {
		if x.USDPerHour <= 0 || x.vCPUs() == 0 || x.memoryMiB() == 0 || x.maxPods() < 4 {
			t.Errorf("%s lacks a price, a size or addresses: %+v", x.Info.InstanceType, x)
		}
	}
	one, err := l.ec2.DescribeInstanceTypes(ctx, &ec2.DescribeInstanceTypesInput{InstanceTypes: []types.InstanceType{"m7g.xlarge"}})
	ok(t, err)
	var want types.InstanceTypeInfo
	ok(t, json.Unmarshal([]byte(mustJSON(findInstanceTypeOrFail(t, "m7g.xlarge").Info)), &want))
	if diff := cmp.Diff(want, one.InstanceTypes[0], exportedOnly); diff != "" {
		t.Errorf("a type must arrive as it was recorded (-want +got):\n%s", diff)
	}
	_, err = l.ec2.DescribeInstanceTypes(ctx, &ec2.DescribeInstanceTypesInput{InstanceTypes: []types.InstanceType{"m99.huge"}})
	wantCode(t, err, "InvalidInstanceType", "a type that does not exist")
}

func findInstanceTypeOrFail(t *testing.T, name string) instanceType {
	t.Helper()
	x, found := findInstanceType(name)
	if !found {
		t.Fatalf("no instance type %s", name)
	}
	return x
}

func mustJSON(x any) string {
	b, err := json.Marshal(x)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func TestOfferings(t *testing.T) {
	l := newLab(t, Options{})
	cases := map[string]struct {
		of   types.LocationType
		want []string
	}{
		"Zones":   {types.LocationTypeAvailabilityZone, []string{"us-east-1a", "us-east-1b", "us-east-1c"}},
		"ZoneIDs": {types.LocationTypeAvailabilityZoneId, []string{"use1-az1", "use1-az2", "use1-az3"}},
		"Region":  {types.LocationTypeRegion, []string{"us-east-1"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			out, err := l.ec2.DescribeInstanceTypeOfferings(ctx, &ec2.DescribeInstanceTypeOfferingsInput{LocationType: tc.of, Filters: []types.Filter{filter("instance-type", "m5.large")}})
			ok(t, err)
			var got []string
			for _, o := range out.InstanceTypeOfferings {
				got = append(got, *o.Location)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestSpotPrices(t *testing.T) {
	l := newLab(t, Options{})
	out, err := l.ec2.DescribeSpotPriceHistory(ctx, &ec2.DescribeSpotPriceHistoryInput{InstanceTypes: []types.InstanceType{"m5.large"}})
	ok(t, err)
	var got []string
	for _, p := range out.SpotPriceHistory {
		got = append(got, *p.AvailabilityZone+" "+*p.SpotPrice)
	}
	want := []string{"us-east-1a 0.028800", "us-east-1b 0.030720", "us-east-1c 0.032640"} // of 0.096 on demand
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestInstanceTypesFromRequirements(t *testing.T) {
	l := newLab(t, Options{})
	between := func(low, high int32) *types.VCpuCountRangeRequest {
		return &types.VCpuCountRangeRequest{Min: &low, Max: &high}
	}
	gib := func(low, high int32) *types.MemoryMiBRequest {
		return &types.MemoryMiBRequest{Min: aws.Int32(low * 1024), Max: aws.Int32(high * 1024)}
	}
	cases := map[string]struct {
		reason string
		need   types.InstanceRequirementsRequest
		want   []string
		not    []string
	}{
		"Size":        {"vCPUs and memory in range", types.InstanceRequirementsRequest{VCpuCount: between(2, 2), MemoryMiB: gib(8, 8)}, []string{"m5.large", "m6i.large"}, []string{"m5.xlarge", "c5.large", "t3.large", "m7g.large"}},
		"Burstable":   {"burstable only when asked for", types.InstanceRequirementsRequest{VCpuCount: between(2, 2), MemoryMiB: gib(8, 8), BurstablePerformance: "included"}, []string{"m5.large", "t3.large"}, nil},
		"BareMetal":   {"bare metal when required", types.InstanceRequirementsRequest{VCpuCount: between(1, 200), MemoryMiB: gib(1, 2000), BareMetal: "required"}, []string{"m5.metal"}, []string{"m5.large"}},
		"Accelerated": {"GPUs only when asked for", types.InstanceRequirementsRequest{VCpuCount: between(4, 4), MemoryMiB: gib(1, 100), AcceleratorCount: &types.AcceleratorCountRequest{Min: aws.Int32(1)}}, []string{"g4dn.xlarge"}, []string{"m5.xlarge"}},
		"Allowed":     {"allowed types by wildcard", types.InstanceRequirementsRequest{VCpuCount: between(2, 8), MemoryMiB: gib(1, 100), AllowedInstanceTypes: []string{"c5*"}}, []string{"c5.large", "c5a.xlarge"}, []string{"m5.large"}},
		"Excluded":    {"excluded types by wildcard", types.InstanceRequirementsRequest{VCpuCount: between(2, 8), MemoryMiB: gib(1, 100), ExcludedInstanceTypes: []string{"c5*"}}, []string{"m5.large"}, []string{"c5.large", "c5a.xlarge"}},
		"Maker":       {"by manufacturer", types.InstanceRequirementsRequest{VCpuCount: between(2, 2), MemoryMiB: gib(8, 8), CpuManufacturers: []types.CpuManufacturer{"amd"}}, []string{"m5a.large"}, []string{"m5.large"}},
		"Ratio":       {"memory per vCPU", types.InstanceRequirementsRequest{VCpuCount: between(2, 8), MemoryMiB: gib(1, 100), MemoryGiBPerVCpu: &types.MemoryGiBPerVCpuRequest{Min: aws.Float64(8)}}, []string{"r5.large"}, []string{"m5.large"}},
		"LocalDisk":   {"local storage when required", types.InstanceRequirementsRequest{VCpuCount: between(2, 2), MemoryMiB: gib(1, 100), LocalStorage: "required"}, []string{"m5d.large"}, []string{"m5.large"}},
		"Generation":  {"current generation", types.InstanceRequirementsRequest{VCpuCount: between(2, 2), MemoryMiB: gib(8, 8), InstanceGenerations: []types.InstanceGeneration{"current"}}, []string{"m7i.large"}, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			out, err := l.ec2.GetInstanceTypesFromInstanceRequirements(ctx, &ec2.GetInstanceTypesFromInstanceRequirementsInput{
				ArchitectureTypes: []types.ArchitectureType{"x86_64"}, VirtualizationTypes: []types.VirtualizationType{"hvm"}, InstanceRequirements: &tc.need,
			})
			ok(t, err)
			got := map[string]bool{}
			for _, x := range out.InstanceTypes {
				got[*x.InstanceType] = true
			}
			for _, x := range tc.want {
				if !got[x] {
					t.Errorf("%s: %s is missing", tc.reason, x)
				}
			}
			for _, x := range tc.not {
				if got[x] {
					t.Errorf("%s: %s must not be there", tc.reason, x)
				}
			}
		})
	}
}

func TestImages(t *testing.T) {
	l := newLab(t, Options{})
	images, err := l.ec2.DescribeImages(ctx, &ec2.DescribeImagesInput{Filters: []types.Filter{filter("image-id", l.image), filter("state", "available")}})
	ok(t, err)
	if i := images.Images[0]; i.Architecture != "x86_64" || *i.OwnerId != eksImageOwner || !strings.HasPrefix(*i.Name, "amazon-eks-node-al2023-x86_64-standard-1.33-v") || *i.CreationDate == "" {
		t.Errorf("the recommended image: %+v", i)
	}
	mine, err := l.ec2.RegisterImage(ctx, &ec2.RegisterImageInput{Name: aws.String("mine"), Architecture: "arm64"})
	ok(t, err)
	for owner, want := range map[string]int{"self": 1, accountID: 1, "000000000000": 0} {
		images, err = l.ec2.DescribeImages(ctx, &ec2.DescribeImagesInput{Owners: []string{owner}})
		ok(t, err)
		if len(images.Images) != want {
			t.Errorf("%d images belong to %s, want %d", len(images.Images), owner, want)
		}
	}
	named, err := l.ec2.DescribeImages(ctx, &ec2.DescribeImagesInput{Owners: []string{"self", "amazon"}, Filters: []types.Filter{filter("name", "mine", "bottlerocket-aws-k8s-1.33-aarch64-*")}})
	ok(t, err)
	if len(named.Images) != 1+len(bottlerocketReleases) || *mine.ImageId == "" {
		t.Errorf("by name: %d images", len(named.Images))
	}
}
