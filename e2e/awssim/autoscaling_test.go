package awssim

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"

	"github.com/castoff-sh/castoff/e2e/awssim/simapi"
)

// scaled is a simulator with a network and launch template lt-1, and an Auto Scaling client.
type scaled struct {
	*Server
	cfg aws.Config
	as  *autoscaling.Client
}

// testSettings are delays short enough to step over and long enough to see what is in between.
var testSettings = simapi.Settings{PendingDelay: 2 * time.Second, ShutdownDelay: 2 * time.Second, ScalingDelay: time.Second}

func newScaled(t *testing.T) *scaled {
	t.Helper()
	s, cfg := newTestServer(t, Options{Settings: testSettings})
	do(s, func() { seedNetwork(s) })
	return &scaled{s, cfg, autoscaling.NewFromConfig(cfg)}
}

// seedNetwork makes three subnets, an image, and launch template lt-1 named "nodes" with two versions.
func seedNetwork(s *Server) {
	for i, zone := range []string{"us-east-1a", "us-east-1b", "us-east-1c"} {
		id := "subnet-" + zone[len(zone)-1:]
		s.ec2.subnets.put(id, ec2types.Subnet{SubnetId: aws.String(id), VpcId: aws.String("vpc-1"), AvailabilityZone: aws.String(zone), CidrBlock: aws.String("10.0." + string(rune('0'+i)) + ".0/24")})
	}
	s.ec2.images.put("ami-1", ec2types.Image{ImageId: aws.String("ami-1")})
	data := func(instanceType string) *ec2types.ResponseLaunchTemplateData {
		return &ec2types.ResponseLaunchTemplateData{ImageId: aws.String("ami-1"), InstanceType: ec2types.InstanceType(instanceType)}
	}
	s.ec2.templates.put("lt-1", launchTemplate{
		LaunchTemplate: ec2types.LaunchTemplate{LaunchTemplateId: aws.String("lt-1"), LaunchTemplateName: aws.String("nodes"), DefaultVersionNumber: aws.Int64(1), LatestVersionNumber: aws.Int64(2)},
		Versions: []ec2types.LaunchTemplateVersion{
			{VersionNumber: aws.Int64(1), LaunchTemplateId: aws.String("lt-1"), LaunchTemplateData: data("m5.large")},
			{VersionNumber: aws.Int64(2), LaunchTemplateId: aws.String("lt-1"), LaunchTemplateData: data("m5.xlarge")},
		},
	})
}

// create makes the group "g" over all zones; change may alter the request.
func (s *scaled) create(t *testing.T, min, max, desired int32, change func(*autoscaling.CreateAutoScalingGroupInput)) {
	t.Helper()
	in := &autoscaling.CreateAutoScalingGroupInput{
		AutoScalingGroupName: aws.String("g"), MinSize: aws.Int32(min), MaxSize: aws.Int32(max), DesiredCapacity: aws.Int32(desired),
		LaunchTemplate:    &types.LaunchTemplateSpecification{LaunchTemplateName: aws.String("nodes"), Version: aws.String("$Default")},
		VPCZoneIdentifier: aws.String("subnet-a,subnet-b,subnet-c"),
	}
	if change != nil {
		change(in)
	}
	_, err := s.as.CreateAutoScalingGroup(ctx, in)
	ok(t, err)
	s.settle()
}

// settle lets what is under way come to rest: launches, ends and what they cause.
func (s *scaled) settle() {
	for range 10 {
		s.Advance(time.Second)
	}
}

func (s *scaled) describe(t *testing.T) types.AutoScalingGroup {
	t.Helper()
	out, err := s.as.DescribeAutoScalingGroups(ctx, &autoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: []string{"g"}})
	ok(t, err)
	if len(out.AutoScalingGroups) != 1 {
		t.Fatalf("DescribeAutoScalingGroups shows %d groups g, want 1", len(out.AutoScalingGroups))
	}
	return out.AutoScalingGroups[0]
}

// ids lists the group's instances in a lifecycle state, all when it is empty.
func (s *scaled) ids(t *testing.T, state types.LifecycleState) (ids []string) {
	t.Helper()
	for _, i := range s.describe(t).Instances {
		if state == "" || i.LifecycleState == state {
			ids = append(ids, aws.ToString(i.InstanceId))
		}
	}
	return ids
}

func (s *scaled) wantInService(t *testing.T, n int, why string) []string {
	t.Helper()
	ids := s.ids(t, types.LifecycleStateInService)
	if len(ids) != n {
		t.Fatalf("%s: %d instances InService, want %d: %+v", why, len(ids), n, s.states(t))
	}
	return ids
}

func (s *scaled) states(t *testing.T) map[string]int {
	t.Helper()
	count := map[string]int{}
	for _, i := range s.describe(t).Instances {
		count[string(i.LifecycleState)]++
	}
	return count
}

func (s *scaled) activities(t *testing.T) []types.Activity {
	t.Helper()
	out, err := s.as.DescribeScalingActivities(ctx, &autoscaling.DescribeScalingActivitiesInput{AutoScalingGroupName: aws.String("g")})
	ok(t, err)
	return out.Activities
}

func (s *scaled) resize(t *testing.T, desired int32) {
	t.Helper()
	_, err := s.as.SetDesiredCapacity(ctx, &autoscaling.SetDesiredCapacityInput{AutoScalingGroupName: aws.String("g"), DesiredCapacity: aws.Int32(desired)})
	ok(t, err)
}

func (s *scaled) suspend(t *testing.T, processes ...string) {
	t.Helper()
	_, err := s.as.SuspendProcesses(ctx, &autoscaling.SuspendProcessesInput{AutoScalingGroupName: aws.String("g"), ScalingProcesses: processes})
	ok(t, err)
}

func (s *scaled) resume(t *testing.T, processes ...string) {
	t.Helper()
	_, err := s.as.ResumeProcesses(ctx, &autoscaling.ResumeProcessesInput{AutoScalingGroupName: aws.String("g"), ScalingProcesses: processes})
	ok(t, err)
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantCode fails unless the error is AWS's with that code.
func wantCode(t *testing.T, err error, code, why string) {
	t.Helper()
	var e smithy.APIError
	if !errors.As(err, &e) || e.ErrorCode() != code {
		t.Fatalf("%s: error %v, want %s", why, err, code)
	}
}

func TestGroupLaunchesItsInstances(t *testing.T) {
	s := newScaled(t)
	_, err := s.as.CreateAutoScalingGroup(ctx, &autoscaling.CreateAutoScalingGroupInput{
		AutoScalingGroupName: aws.String("g"), MinSize: aws.Int32(0), MaxSize: aws.Int32(6), DesiredCapacity: aws.Int32(5),
		LaunchTemplate:    &types.LaunchTemplateSpecification{LaunchTemplateName: aws.String("nodes"), Version: aws.String("$Latest")},
		VPCZoneIdentifier: aws.String("subnet-a,subnet-b,subnet-c"),
		Tags:              []types.Tag{{Key: aws.String("team"), Value: aws.String("x"), PropagateAtLaunch: aws.Bool(true)}, {Key: aws.String("own"), Value: aws.String("y")}},
	})
	ok(t, err)
	if got := s.describe(t); len(got.Instances) != 0 || aws.ToInt32(got.DesiredCapacity) != 5 {
		t.Errorf("before the scaling delay: %d instances, desired %d; want none of 5", len(got.Instances), aws.ToInt32(got.DesiredCapacity))
	}
	s.Advance(time.Second)
	if diff := cmp.Diff(map[string]int{"Pending": 5}, s.states(t)); diff != "" {
		t.Errorf("while EC2 starts them: -want +got\n%s", diff)
	}
	s.settle()
	s.wantInService(t, 5, "after EC2 started them")
	zones := map[string]int{}
	g := s.describe(t)
	for _, i := range g.Instances {
		zones[aws.ToString(i.AvailabilityZone)]++
		if v := aws.ToString(i.LaunchTemplate.Version); v != "2" || aws.ToString(i.LaunchTemplate.LaunchTemplateId) != "lt-1" {
			t.Errorf("instance shows launch template version %s, want the number that $Latest stood for", v)
		}
	}
	if zones["us-east-1a"] > 2 || zones["us-east-1b"] > 2 || zones["us-east-1c"] > 2 {
		t.Errorf("zones are not balanced: %v", zones)
	}
	if v := aws.ToString(g.LaunchTemplate.Version); v != "$Latest" {
		t.Errorf("the group shows version %s, want what was given", v)
	}
	do(s.Server, func() {
		for _, i := range s.ec2.sideInstances() {
			want := map[string]string{"team": "x", "aws:autoscaling:groupName": "g", "aws:ec2launchtemplate:id": "lt-1", "aws:ec2launchtemplate:version": "2"}
			if diff := cmp.Diff(want, i.Tags); diff != "" || i.Type != "m5.xlarge" {
				t.Errorf("instance of type %s has tags -want +got\n%s", i.Type, diff)
			}
		}
	})
	for _, a := range s.activities(t) {
		if a.StatusCode != types.ScalingActivityStatusCodeSuccessful || !strings.HasPrefix(aws.ToString(a.Description), "Launching a new EC2 instance: i-") {
			t.Errorf("activity %s is %s, want a launch that is Successful", aws.ToString(a.Description), a.StatusCode)
		}
	}
}

func TestCreateAutoScalingGroupRefuses(t *testing.T) {
	s := newScaled(t)
	s.create(t, 0, 1, 0, nil)
	good := func() *autoscaling.CreateAutoScalingGroupInput {
		return &autoscaling.CreateAutoScalingGroupInput{AutoScalingGroupName: aws.String("new"), MinSize: aws.Int32(1), MaxSize: aws.Int32(2),
			LaunchTemplate: &types.LaunchTemplateSpecification{LaunchTemplateId: aws.String("lt-1")}, VPCZoneIdentifier: aws.String("subnet-a")}
	}
	cases := map[string]struct {
		reason string
		change func(*autoscaling.CreateAutoScalingGroupInput)
		want   string
	}{
		"Twice":      {"names are unique", func(in *autoscaling.CreateAutoScalingGroupInput) { in.AutoScalingGroupName = aws.String("g") }, "AlreadyExists"},
		"Desired":    {"desired lies within the bounds", func(in *autoscaling.CreateAutoScalingGroupInput) { in.DesiredCapacity = aws.Int32(3) }, "ValidationError"},
		"NoTemplate": {"something must be launched", func(in *autoscaling.CreateAutoScalingGroupInput) { in.LaunchTemplate = nil }, "ValidationError"},
		"NotThere": {"the template exists", func(in *autoscaling.CreateAutoScalingGroupInput) {
			in.LaunchTemplate.LaunchTemplateId = aws.String("lt-2")
		}, "ValidationError"},
		"NoVersion":   {"and the version", func(in *autoscaling.CreateAutoScalingGroupInput) { in.LaunchTemplate.Version = aws.String("9") }, "ValidationError"},
		"NoZone":      {"somewhere", func(in *autoscaling.CreateAutoScalingGroupInput) { in.VPCZoneIdentifier = nil }, "ValidationError"},
		"WrongSubnet": {"that exists", func(in *autoscaling.CreateAutoScalingGroupInput) { in.VPCZoneIdentifier = aws.String("subnet-z") }, "ValidationError"},
		"ShortLife":   {"a lifetime is a day at least", func(in *autoscaling.CreateAutoScalingGroupInput) { in.MaxInstanceLifetime = aws.Int32(60) }, "ValidationError"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			in := good()
			tc.change(in)
			_, err := s.as.CreateAutoScalingGroup(ctx, in)
			wantCode(t, err, tc.want, tc.reason)
		})
	}
	_, err := s.as.CreateAutoScalingGroup(ctx, good())
	ok(t, err)
}

// TestCausesNameWhoAsked: whoever changed the desired capacity is in the cause of the launch, as in AWS's own words; what the group
// does by itself later is not put down to them.
func TestCausesNameWhoAsked(t *testing.T) {
	cases := map[string]struct {
		act  func(*testing.T, *scaled)
		want string
	}{
		"SetDesired": {func(t *testing.T, s *scaled) {
			_, err := s.as.SetDesiredCapacity(ctx, &autoscaling.SetDesiredCapacityInput{AutoScalingGroupName: aws.String("g"), DesiredCapacity: aws.Int32(3)})
			ok(t, err)
		}, "a user request explicitly set group desired capacity changing the desired capacity from 2 to 3"},
		"Update": {func(t *testing.T, s *scaled) {
			_, err := s.as.UpdateAutoScalingGroup(ctx, &autoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: aws.String("g"), DesiredCapacity: aws.Int32(3)})
			ok(t, err)
		}, "a user request update of AutoScalingGroup constraints to min: 1, max: 4, desired: 3 changing the desired capacity from 2 to 3"},
		"Schedule": {func(t *testing.T, s *scaled) {
			_, err := s.as.PutScheduledUpdateGroupAction(ctx, &autoscaling.PutScheduledUpdateGroupActionInput{AutoScalingGroupName: aws.String("g"), ScheduledActionName: aws.String("morning"), StartTime: aws.Time(s.now().Add(time.Minute)), DesiredCapacity: aws.Int32(3)})
			ok(t, err)
			s.Advance(2 * time.Minute)
		}, "scheduled action morning update"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newScaled(t)
			s.create(t, 1, 4, 2, nil)
			s.settle()
			tc.act(t, s)
			s.settle()
			s.wantInService(t, 3, "raised")
			if got := s.lastCause(t); !strings.Contains(got, tc.want) || !strings.Contains(got, "an instance was started in response to a difference") {
				t.Errorf("cause %q, want %q in it", got, tc.want)
			}
			_, err := s.as.SetInstanceHealth(ctx, &autoscaling.SetInstanceHealthInput{InstanceId: aws.String(s.ids(t, "InService")[0]), HealthStatus: aws.String("Unhealthy"), ShouldRespectGracePeriod: aws.Bool(false)})
			ok(t, err)
			s.settle()
			if got := s.lastCause(t); strings.Contains(got, tc.want) {
				t.Errorf("a replacement is put down to whoever asked before: %q", got)
			}
		})
	}
}

// lastCause is why the last scaling activity began.
func (s *scaled) lastCause(t *testing.T) string {
	t.Helper()
	out, err := s.as.DescribeScalingActivities(ctx, &autoscaling.DescribeScalingActivitiesInput{AutoScalingGroupName: aws.String("g"), MaxRecords: aws.Int32(1)})
	ok(t, err)
	return aws.ToString(out.Activities[0].Cause)
}

func TestSetDesiredCapacity(t *testing.T) {
	s := newScaled(t)
	s.create(t, 1, 4, 2, nil)
	set := func(n int32) error {
		_, err := s.as.SetDesiredCapacity(ctx, &autoscaling.SetDesiredCapacityInput{AutoScalingGroupName: aws.String("g"), DesiredCapacity: aws.Int32(n)})
		return err
	}
	wantCode(t, set(5), "ValidationError", "above max")
	wantCode(t, set(0), "ValidationError", "below min")
	ok(t, set(4))
	s.settle()
	s.wantInService(t, 4, "raised")
	ok(t, set(1))
	s.Advance(time.Second)
	if diff := cmp.Diff(map[string]int{"InService": 1, "Terminating": 3}, s.states(t)); diff != "" {
		t.Errorf("while EC2 ends three: -want +got\n%s", diff)
	}
	s.settle()
	s.wantInService(t, 1, "lowered")
	if n := len(s.ids(t, "")); n != 1 {
		t.Errorf("%d instances are listed, want the ended ones gone", n)
	}
	_, err := s.as.SetDesiredCapacity(ctx, &autoscaling.SetDesiredCapacityInput{AutoScalingGroupName: aws.String("none"), DesiredCapacity: aws.Int32(1)})
	wantCode(t, err, "ValidationError", "a group that does not exist")
}

func TestUpdateAutoScalingGroup(t *testing.T) {
	s := newScaled(t)
	s.create(t, 1, 6, 3, func(in *autoscaling.CreateAutoScalingGroupInput) {
		in.MaxInstanceLifetime, in.CapacityRebalance = aws.Int32(86400), aws.Bool(true)
	})
	update := func(in *autoscaling.UpdateAutoScalingGroupInput) error {
		in.AutoScalingGroupName = aws.String("g")
		_, err := s.as.UpdateAutoScalingGroup(ctx, in)
		return err
	}
	wantCode(t, update(&autoscaling.UpdateAutoScalingGroupInput{DesiredCapacity: aws.Int32(9)}), "ValidationError", "desired above max")
	ok(t, update(&autoscaling.UpdateAutoScalingGroupInput{MaxSize: aws.Int32(2)}))
	if g := s.describe(t); aws.ToInt32(g.DesiredCapacity) != 2 {
		t.Errorf("desired is %d after max 2, want it taken along", aws.ToInt32(g.DesiredCapacity))
	}
	ok(t, update(&autoscaling.UpdateAutoScalingGroupInput{MinSize: aws.Int32(0), MaxSize: aws.Int32(0), DesiredCapacity: aws.Int32(0),
		MaxInstanceLifetime: aws.Int32(0), CapacityRebalance: aws.Bool(false), LaunchTemplate: &types.LaunchTemplateSpecification{LaunchTemplateId: aws.String("lt-1"), Version: aws.String("2")}}))
	s.settle()
	g := s.describe(t)
	if len(g.Instances) != 0 || g.MaxInstanceLifetime != nil || aws.ToBool(g.CapacityRebalance) || aws.ToString(g.LaunchTemplate.Version) != "2" {
		t.Errorf("after parking it: %+v", g)
	}
}

func TestDeleteAutoScalingGroup(t *testing.T) {
	s := newScaled(t)
	s.create(t, 0, 3, 2, func(in *autoscaling.CreateAutoScalingGroupInput) {
		in.DeletionProtection = types.DeletionProtectionPreventForceDeletion
		in.LifecycleHookSpecificationList = []types.LifecycleHookSpecification{{LifecycleHookName: aws.String("drain"), LifecycleTransition: aws.String(transitionEnd)}}
	})
	del := func(force bool) error {
		_, err := s.as.DeleteAutoScalingGroup(ctx, &autoscaling.DeleteAutoScalingGroupInput{AutoScalingGroupName: aws.String("g"), ForceDelete: aws.Bool(force)})
		return err
	}
	wantCode(t, del(false), "ResourceInUse", "with instances and without force")
	wantCode(t, del(true), "ValidationError", "force against its protection")
	_, err := s.as.UpdateAutoScalingGroup(ctx, &autoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: aws.String("g"), DeletionProtection: types.DeletionProtectionNone})
	ok(t, err)
	ok(t, del(true))
	if g := s.describe(t); aws.ToString(g.Status) != "Delete in progress" {
		t.Errorf("status is %q, want it to show the deletion", aws.ToString(g.Status))
	}
	s.settle()
	out, err := s.as.DescribeAutoScalingGroups(ctx, &autoscaling.DescribeAutoScalingGroupsInput{})
	ok(t, err)
	if len(out.AutoScalingGroups) != 0 {
		t.Errorf("%d groups left, want force deletion not to wait for hooks", len(out.AutoScalingGroups))
	}
	do(s.Server, func() {
		for _, i := range s.ec2.sideInstances() {
			if i.State != "terminated" || !strings.Contains(i.EndedBy, "user/tester autoscaling.DeleteAutoScalingGroup") {
				t.Errorf("instance is %s, ended by %q; want terminated by the caller's DeleteAutoScalingGroup", i.State, i.EndedBy)
			}
		}
	})
	wantCode(t, del(true), "ValidationError", "it is gone")
}

func TestDescribeAutoScalingGroupsPagesAndFilters(t *testing.T) {
	s := newScaled(t)
	for _, name := range []string{"one", "two", "three"} {
		s.create(t, 0, 1, 0, func(in *autoscaling.CreateAutoScalingGroupInput) {
			in.AutoScalingGroupName = aws.String(name)
			in.Tags = []types.Tag{{Key: aws.String("n"), Value: aws.String(name)}, {Key: aws.String("all"), Value: aws.String("")}}
		})
	}
	var seen []string
	pages := autoscaling.NewDescribeAutoScalingGroupsPaginator(s.as, &autoscaling.DescribeAutoScalingGroupsInput{MaxRecords: aws.Int32(2)})
	for pages.HasMorePages() {
		out, err := pages.NextPage(ctx)
		ok(t, err)
		seen = append(seen, names(out.AutoScalingGroups)...)
	}
	if diff := cmp.Diff([]string{"one", "two", "three"}, seen); diff != "" {
		t.Errorf("paged: -want +got\n%s", diff)
	}
	filter := func(name string, values ...string) types.Filter {
		return types.Filter{Name: aws.String(name), Values: values}
	}
	cases := map[string]struct {
		reason  string
		names   []string
		filters []types.Filter
		want    []string
	}{
		"Names":     {reason: "by name, unknown ones left out", names: []string{"two", "none"}, want: []string{"two"}},
		"TagKey":    {reason: "by key, whatever the value", filters: []types.Filter{filter("tag-key", "all")}, want: []string{"one", "two", "three"}},
		"TagValue":  {reason: "by value", filters: []types.Filter{filter("tag-value", "one", "three")}, want: []string{"one", "three"}},
		"Tag":       {reason: "by both", filters: []types.Filter{filter("tag:n", "two")}, want: []string{"two"}},
		"Both":      {reason: "filters all hold", filters: []types.Filter{filter("tag:n", "two"), filter("tag-key", "none")}},
		"NameAndNo": {reason: "and so does the name", names: []string{"one"}, filters: []types.Filter{filter("tag:n", "two")}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			out, err := s.as.DescribeAutoScalingGroups(ctx, &autoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: tc.names, Filters: tc.filters})
			ok(t, err)
			if diff := cmp.Diff(tc.want, names(out.AutoScalingGroups)); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
	_, err := s.as.DescribeAutoScalingGroups(ctx, &autoscaling.DescribeAutoScalingGroupsInput{NextToken: aws.String("x")})
	wantCode(t, err, "InvalidNextToken", "a token nobody gave out")
	_, err = s.as.DescribeAutoScalingGroups(ctx, &autoscaling.DescribeAutoScalingGroupsInput{Filters: []types.Filter{filter("color", "red")}})
	wantCode(t, err, "ValidationError", "a filter that does not exist")
}

func names(groups []types.AutoScalingGroup) (list []string) {
	for _, g := range groups {
		list = append(list, aws.ToString(g.AutoScalingGroupName))
	}
	return list
}

func TestDescribeLags(t *testing.T) {
	s := newScaled(t)
	s.create(t, 0, 5, 1, nil)
	do(s.Server, func() { s.settings.Lag = 3 * time.Second })
	s.resize(t, 2)
	if got := aws.ToInt32(s.describe(t).DesiredCapacity); got != 1 {
		t.Errorf("right after the write desired shows %d, want the old 1", got)
	}
	_, err := s.as.TerminateInstanceInAutoScalingGroup(ctx, &autoscaling.TerminateInstanceInAutoScalingGroupInput{InstanceId: aws.String("i-none"), ShouldDecrementDesiredCapacity: aws.Bool(true)})
	wantCode(t, err, "ValidationError", "writes decide on the truth")
	s.Advance(3 * time.Second)
	if got := aws.ToInt32(s.describe(t).DesiredCapacity); got != 2 {
		t.Errorf("after the lag desired shows %d, want 2", got)
	}
}

func TestTerminateInstanceInAutoScalingGroup(t *testing.T) {
	s := newScaled(t)
	s.create(t, 2, 6, 4, nil)
	before := s.wantInService(t, 4, "at first")
	end := func(decrement bool, ids ...string) (*autoscaling.TerminateInstanceInAutoScalingGroupOutput, error) {
		in := &autoscaling.TerminateInstanceInAutoScalingGroupInput{ShouldDecrementDesiredCapacity: aws.Bool(decrement)}
		if len(ids) == 1 {
			in.InstanceId = &ids[0]
		} else {
			in.AutoScalingGroupName, in.InstanceIds = aws.String("g"), ids
		}
		return s.as.TerminateInstanceInAutoScalingGroup(ctx, in)
	}
	out, err := end(false, before[0])
	ok(t, err)
	if out.Activity == nil || !strings.Contains(aws.ToString(out.Activity.Cause), "user request") {
		t.Errorf("activity %+v, want one that names the user's request", out.Activity)
	}
	s.settle()
	if after := s.wantInService(t, 4, "it is replaced without decrement"); slices.Contains(after, before[0]) {
		t.Errorf("%s is still there", before[0])
	}
	_, err = end(true, before[1], before[2], before[3])
	wantCode(t, err, "ValidationError", "three of four would go below min 2")
	s.wantInService(t, 4, "a refused batch ends none")
	_, err = end(true, before[1], "i-none")
	wantCode(t, err, "ValidationError", "a stranger in the batch")
	out, err = end(true, before[1], before[2])
	ok(t, err)
	if len(out.Activities) != 2 || out.Activity != nil {
		t.Errorf("a batch answers %d activities, want 2 and no single one", len(out.Activities))
	}
	s.settle()
	s.wantInService(t, 2, "with decrement they are not replaced")
	if g := s.describe(t); aws.ToInt32(g.DesiredCapacity) != 2 {
		t.Errorf("desired is %d, want 2", aws.ToInt32(g.DesiredCapacity))
	}
	_, err = end(true, before[3])
	wantCode(t, err, "ValidationError", "desired equals min")
}

// Known of AWS: a repeated call on an instance that is ending lowers the desired capacity again.
func TestTerminateTwiceDecrementsTwice(t *testing.T) {
	s := newScaled(t)
	s.create(t, 0, 6, 3, nil)
	id := s.ids(t, "")[0]
	for range 2 {
		_, err := s.as.TerminateInstanceInAutoScalingGroup(ctx, &autoscaling.TerminateInstanceInAutoScalingGroupInput{InstanceId: &id, ShouldDecrementDesiredCapacity: aws.Bool(true)})
		ok(t, err)
	}
	s.settle()
	s.wantInService(t, 1, "the second call cost an instance that nobody named")
}

func TestInstanceEndedInEC2IsReplaced(t *testing.T) {
	cases := map[string]struct {
		reason        string
		suspend       string
		whileSuspeded int
		dead          bool // the dead one is still listed
	}{
		"Nothing":          {reason: "it is replaced", whileSuspeded: 2},
		"ReplaceUnhealthy": {reason: "it stays, unhealthy", suspend: processReplaceUnhealthy, whileSuspeded: 2, dead: true},
		"HealthCheck":      {reason: "nobody notices", suspend: processHealthCheck, whileSuspeded: 2, dead: true},
		"Launch":           {reason: "it goes, and is replaced when Launch is resumed", suspend: processLaunch, whileSuspeded: 1},
		"Terminate":        {reason: "replacing needs Terminate", suspend: processTerminate, whileSuspeded: 2, dead: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newScaled(t)
			s.create(t, 0, 4, 2, nil)
			id := s.ids(t, "")[0]
			if tc.suspend != "" {
				s.suspend(t, tc.suspend)
			}
			do(s.Server, func() {
				if _, err := s.ec2.terminate(id, "test"); err != nil {
					t.Error(err)
				}
			})
			s.settle()
			now := s.wantInService(t, tc.whileSuspeded, tc.reason)
			if slices.Contains(now, id) != tc.dead {
				t.Errorf("%s: %s listed: %v, want %v", tc.reason, id, !tc.dead, tc.dead)
			}
			if tc.suspend != "" {
				s.resume(t)
				s.settle()
				if now := s.wantInService(t, 2, "once resumed"); slices.Contains(now, id) {
					t.Errorf("once resumed %s is still listed", id)
				}
			}
		})
	}
}

func TestSuspendedProcesses(t *testing.T) {
	s := newScaled(t)
	s.create(t, 0, 6, 2, nil)
	s.suspend(t, processLaunch)
	s.resize(t, 4)
	s.settle()
	s.wantInService(t, 2, "Launch is suspended")
	s.resume(t, processLaunch)
	s.settle()
	ids := s.wantInService(t, 4, "Launch is resumed")

	s.suspend(t, processTerminate)
	s.resize(t, 3)
	s.settle()
	s.wantInService(t, 4, "Terminate is suspended")
	_, err := s.as.TerminateInstanceInAutoScalingGroup(ctx, &autoscaling.TerminateInstanceInAutoScalingGroupInput{InstanceId: &ids[0], ShouldDecrementDesiredCapacity: aws.Bool(true)})
	ok(t, err)
	s.settle()
	s.wantInService(t, 3, "a named instance ends all the same")

	s.suspend(t)
	if n := len(s.describe(t).SuspendedProcesses); n != len(processes) {
		t.Errorf("%d processes suspended, want all %d when none is named", n, len(processes))
	}
	s.resume(t, processTerminate)
	s.settle()
	s.wantInService(t, 2, "Terminate is resumed: desired had been lowered twice")
	_, err = s.as.SuspendProcesses(ctx, &autoscaling.SuspendProcessesInput{AutoScalingGroupName: aws.String("g"), ScalingProcesses: []string{"Sleep"}})
	wantCode(t, err, "ValidationError", "a process that does not exist")
}

func TestLaunchFailures(t *testing.T) {
	s := newScaled(t)
	do(s.Server, func() {
		s.faults.add(simapi.Fault{Code: "InsufficientInstanceCapacity", InstanceType: "m5.large", Zone: "us-east-1a"})
	})
	s.create(t, 0, 9, 3, nil)
	for _, i := range s.describe(t).Instances {
		if aws.ToString(i.AvailabilityZone) == "us-east-1a" {
			t.Errorf("an instance was launched in a zone without capacity")
		}
	}
	s.wantInService(t, 3, "the other zones serve")

	do(s.Server, func() {
		s.faults.remove("")
		s.faults.add(simapi.Fault{ID: "x", Code: "InsufficientInstanceCapacity", InstanceType: "m5.large"})
	})
	s.resize(t, 4)
	s.settle()
	last := s.activities(t)[0]
	if last.StatusCode != types.ScalingActivityStatusCodeFailed || !strings.Contains(aws.ToString(last.StatusMessage), "InsufficientInstanceCapacity") {
		t.Errorf("last activity is %s %q, want Failed with the reason", last.StatusCode, aws.ToString(last.StatusMessage))
	}
	do(s.Server, func() { s.faults.remove("") })
	s.Advance(time.Minute)
	s.settle()
	s.wantInService(t, 4, "it tries again")
}

func TestScaleInProtection(t *testing.T) {
	s := newScaled(t)
	s.create(t, 0, 4, 3, nil)
	ids := s.ids(t, "")
	protect := func(on bool, ids ...string) error {
		_, err := s.as.SetInstanceProtection(ctx, &autoscaling.SetInstanceProtectionInput{AutoScalingGroupName: aws.String("g"), InstanceIds: ids, ProtectedFromScaleIn: aws.Bool(on)})
		return err
	}
	ok(t, protect(true, ids[0], ids[1]))
	s.resize(t, 0)
	s.settle()
	left := s.wantInService(t, 2, "protected instances stay")
	if !slices.Contains(left, ids[0]) || !slices.Contains(left, ids[1]) {
		t.Errorf("left are %v, want the protected %v", left, ids[:2])
	}
	if last := s.activities(t)[0]; last.StatusCode != types.ScalingActivityStatusCodeFailed || !strings.Contains(aws.ToString(last.StatusMessage), "protected from scale in") {
		t.Errorf("last activity is %s %q, want it to say why", last.StatusCode, aws.ToString(last.StatusMessage))
	}
	ok(t, protect(false, ids[0]))
	s.settle()
	s.wantInService(t, 1, "once unprotected it goes")
	wantCode(t, protect(true, "i-none"), "ValidationError", "a stranger")
}

func TestLifecycleHooks(t *testing.T) {
	s := newScaled(t)
	hook := func(name, transition, result string) {
		t.Helper()
		_, err := s.as.PutLifecycleHook(ctx, &autoscaling.PutLifecycleHookInput{AutoScalingGroupName: aws.String("g"), LifecycleHookName: &name, LifecycleTransition: &transition, DefaultResult: &result, HeartbeatTimeout: aws.Int32(60)})
		ok(t, err)
	}
	complete := func(hook, id, result string) error {
		_, err := s.as.CompleteLifecycleAction(ctx, &autoscaling.CompleteLifecycleActionInput{AutoScalingGroupName: aws.String("g"), LifecycleHookName: &hook, InstanceId: &id, LifecycleActionResult: &result})
		return err
	}
	s.create(t, 0, 4, 0, nil)
	hook("join", transitionLaunch, resultAbandon)
	hook("drain", transitionEnd, resultContinue)
	s.resize(t, 1)
	s.settle()
	waiting := s.ids(t, types.LifecycleStatePendingWait)
	if len(waiting) != 1 {
		t.Fatalf("states %v, want one Pending:Wait", s.states(t))
	}
	ok(t, complete("join", waiting[0], resultContinue))
	id := s.wantInService(t, 1, "once continued")[0]
	wantCode(t, complete("join", id, resultContinue), "ValidationError", "nothing waits any more")

	s.resize(t, 0)
	s.settle()
	if diff := cmp.Diff(map[string]int{"Terminating:Wait": 1}, s.states(t)); diff != "" {
		t.Fatalf("held before its end: -want +got\n%s", diff)
	}
	s.Advance(40 * time.Second)
	_, err := s.as.RecordLifecycleActionHeartbeat(ctx, &autoscaling.RecordLifecycleActionHeartbeatInput{AutoScalingGroupName: aws.String("g"), LifecycleHookName: aws.String("drain"), InstanceId: &id})
	ok(t, err)
	s.Advance(40 * time.Second)
	if diff := cmp.Diff(map[string]int{"Terminating:Wait": 1}, s.states(t)); diff != "" {
		t.Fatalf("a heartbeat prolongs it: -want +got\n%s", diff)
	}
	s.Advance(21 * time.Second)
	if diff := cmp.Diff(map[string]int{"Terminating:Proceed": 1}, s.states(t)); diff != "" {
		t.Fatalf("without a heartbeat it goes on: -want +got\n%s", diff)
	}
	s.settle()
	s.wantInService(t, 0, "ended")

	s.resize(t, 1)
	s.settle()
	abandoned := s.ids(t, types.LifecycleStatePendingWait)[0]
	ok(t, complete("join", abandoned, resultAbandon))
	s.settle()
	ok(t, complete("drain", abandoned, resultContinue))
	s.settle()
	if next := s.ids(t, types.LifecycleStatePendingWait); len(next) != 1 || next[0] == abandoned {
		t.Errorf("waiting are %v, want a replacement of the abandoned %s", next, abandoned)
	}
	out, err := s.as.DescribeLifecycleHooks(ctx, &autoscaling.DescribeLifecycleHooksInput{AutoScalingGroupName: aws.String("g")})
	ok(t, err)
	if len(out.LifecycleHooks) != 2 || aws.ToInt32(out.LifecycleHooks[0].GlobalTimeout) != 6000 {
		t.Errorf("hooks are %+v, want two with a global timeout of 100 heartbeats", out.LifecycleHooks)
	}
	_, err = s.as.DeleteLifecycleHook(ctx, &autoscaling.DeleteLifecycleHookInput{AutoScalingGroupName: aws.String("g"), LifecycleHookName: aws.String("join")})
	ok(t, err)
	s.settle()
	s.wantInService(t, 1, "a deleted hook holds nothing")
}

func TestRetainedOnAbandon(t *testing.T) {
	s := newScaled(t)
	s.create(t, 0, 2, 1, func(in *autoscaling.CreateAutoScalingGroupInput) {
		in.InstanceLifecyclePolicy = &types.InstanceLifecyclePolicy{RetentionTriggers: &types.RetentionTriggers{TerminateHookAbandon: types.RetentionActionRetain}}
		in.LifecycleHookSpecificationList = []types.LifecycleHookSpecification{{LifecycleHookName: aws.String("drain"), LifecycleTransition: aws.String(transitionEnd), HeartbeatTimeout: aws.Int32(30), DefaultResult: aws.String(resultAbandon)}}
	})
	id := s.ids(t, "")[0]
	s.resize(t, 0)
	s.settle()
	s.Advance(time.Minute)
	if diff := cmp.Diff(map[string]int{"Terminating:Retained": 1}, s.states(t)); diff != "" {
		t.Fatalf("abandoned: -want +got\n%s", diff)
	}
	_, err := s.as.TerminateInstanceInAutoScalingGroup(ctx, &autoscaling.TerminateInstanceInAutoScalingGroupInput{InstanceId: &id, ShouldDecrementDesiredCapacity: aws.Bool(false)})
	ok(t, err)
	s.settle()
	if n := len(s.ids(t, "")); n != 0 {
		t.Errorf("%d instances left, want a retained one to go when it is ended by name", n)
	}
}

func TestDetachInstances(t *testing.T) {
	s := newScaled(t)
	s.create(t, 1, 4, 2, nil)
	ids := s.ids(t, "")
	detach := func(decrement bool, id string) error {
		_, err := s.as.DetachInstances(ctx, &autoscaling.DetachInstancesInput{AutoScalingGroupName: aws.String("g"), InstanceIds: []string{id}, ShouldDecrementDesiredCapacity: aws.Bool(decrement)})
		return err
	}
	ok(t, detach(true, ids[0]))
	s.settle()
	s.wantInService(t, 1, "detached with decrement")
	wantCode(t, detach(true, ids[1]), "ValidationError", "min would be violated")
	ok(t, detach(false, ids[1]))
	s.settle()
	s.wantInService(t, 1, "replaced without decrement")
	do(s.Server, func() {
		for _, id := range ids {
			i, _ := s.ec2.instances.get(id)
			if side := s.ec2.sideInstance(i); side.State != "running" || side.AutoScalingGroup != "" {
				t.Errorf("detached %s is %s in group %q, want it to run in none", id, side.State, side.AutoScalingGroup)
			}
		}
	})
}

func TestSetInstanceHealth(t *testing.T) {
	s := newScaled(t)
	s.create(t, 0, 4, 1, func(in *autoscaling.CreateAutoScalingGroupInput) { in.HealthCheckGracePeriod = aws.Int32(300) })
	id := s.ids(t, "")[0]
	set := func(status string, respect bool) error {
		_, err := s.as.SetInstanceHealth(ctx, &autoscaling.SetInstanceHealthInput{InstanceId: &id, HealthStatus: &status, ShouldRespectGracePeriod: &respect})
		return err
	}
	wantCode(t, set("Sick", true), "ValidationError", "two states only")
	ok(t, set("Unhealthy", true))
	s.settle()
	if now := s.wantInService(t, 1, "within the grace period"); now[0] != id {
		t.Errorf("it was replaced within its grace period")
	}
	ok(t, set("Unhealthy", false))
	s.settle()
	if now := s.wantInService(t, 1, "without it"); now[0] == id {
		t.Errorf("it was not replaced")
	}
}

func TestAZRebalanceEndsInstances(t *testing.T) {
	s := newScaled(t)
	s.create(t, 0, 9, 3, func(in *autoscaling.CreateAutoScalingGroupInput) { in.VPCZoneIdentifier = aws.String("subnet-a") })
	s.suspend(t, processAZRebalance)
	_, err := s.as.UpdateAutoScalingGroup(ctx, &autoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: aws.String("g"), VPCZoneIdentifier: aws.String("subnet-a,subnet-b,subnet-c")})
	ok(t, err)
	s.Advance(time.Hour)
	zones := func() map[string]int {
		n := map[string]int{}
		for _, i := range s.describe(t).Instances {
			n[aws.ToString(i.AvailabilityZone)]++
		}
		return n
	}
	if diff := cmp.Diff(map[string]int{"us-east-1a": 3}, zones()); diff != "" {
		t.Fatalf("suspended: -want +got\n%s", diff)
	}
	s.resume(t, processAZRebalance)
	for range 10 {
		s.Advance(30 * time.Second)
	}
	if diff := cmp.Diff(map[string]int{"us-east-1a": 1, "us-east-1b": 1, "us-east-1c": 1}, zones()); diff != "" {
		t.Errorf("resumed: -want +got\n%s", diff)
	}
	s.wantInService(t, 3, "in the end there are as many as before")
}

func TestCapacityRebalance(t *testing.T) {
	for _, on := range []bool{true, false} {
		s := newScaled(t)
		s.create(t, 0, 4, 2, func(in *autoscaling.CreateAutoScalingGroupInput) { in.CapacityRebalance = aws.Bool(on) })
		id := s.ids(t, "")[0]
		ok(t, simapi.NewClient(aws.ToString(s.cfg.BaseEndpoint)).Interrupt(ctx, simapi.Interrupt{InstanceID: id, Kind: "rebalance"}))
		s.Advance(time.Second)
		if n := len(s.ids(t, types.LifecycleStatePending)); (n == 1) != on {
			t.Errorf("CapacityRebalance %v: %d replacements launched", on, n)
		}
		s.settle()
		if now := s.wantInService(t, 2, "after the recommendation"); slices.Contains(now, id) == on {
			t.Errorf("CapacityRebalance %v: %s listed: %v", on, id, on)
		}
	}
}

func TestMaxInstanceLifetime(t *testing.T) {
	s := newScaled(t)
	s.create(t, 0, 4, 2, func(in *autoscaling.CreateAutoScalingGroupInput) { in.MaxInstanceLifetime = aws.Int32(86400) })
	before := s.ids(t, "")
	s.Advance(23 * time.Hour)
	if diff := cmp.Diff(before, s.ids(t, "")); diff != "" {
		t.Fatalf("before their time: -want +got\n%s", diff)
	}
	for range 20 {
		s.Advance(5 * time.Minute)
	}
	for _, id := range s.wantInService(t, 2, "after a day") {
		if slices.Contains(before, id) {
			t.Errorf("%s outlived its lifetime", id)
		}
	}
}
