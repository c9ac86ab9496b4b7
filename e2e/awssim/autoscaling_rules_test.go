package awssim

import (
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/google/go-cmp/cmp"
)

func TestSizesWith(t *testing.T) {
	i := aws.Int32
	cases := map[string]struct {
		reason            string
		min, max, desired *int32
		want              sizes
		wantErr           bool
	}{
		"Nothing":         {reason: "an update without sizes keeps them", want: sizes{2, 6, 4}},
		"MinAboveDesired": {reason: "MinSize above the current size raises desired", min: i(5), want: sizes{5, 6, 5}},
		"MaxBelowDesired": {reason: "MaxSize below the current size lowers desired", max: i(3), want: sizes{2, 3, 3}},
		"DesiredAboveMax": {reason: "a desired capacity that is given is refused outside the bounds", desired: i(7), want: sizes{2, 6, 7}, wantErr: true},
		"DesiredBelowMin": {reason: "the same below min", desired: i(1), want: sizes{2, 6, 1}, wantErr: true},
		"AllZero":         {reason: "a group may be parked", min: i(0), max: i(0), desired: i(0), want: sizes{}},
		"MinAboveMax":     {reason: "bounds must not cross", min: i(7), want: sizes{7, 6, 7}, wantErr: true},
		"Negative":        {reason: "sizes are not negative", min: i(-1), want: sizes{-1, 6, 4}, wantErr: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := sizes{2, 6, 4}.with(tc.min, tc.max, tc.desired)
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(sizes{})); diff != "" && !(tc.wantErr && got.min > got.max) {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
			if err := got.check(); (err != nil) != tc.wantErr {
				t.Errorf("%s: check() = %v, want an error: %v", tc.reason, err, tc.wantErr)
			}
		})
	}
}

// twoMarkets is a group with a mixed instances policy over three zones.
func twoMarkets(base, percent int32, spotStrategy string) *scalingGroup {
	return &scalingGroup{spec: types.AutoScalingGroup{
		AvailabilityZones: []string{"a", "b", "c"},
		MixedInstancesPolicy: &types.MixedInstancesPolicy{
			InstancesDistribution: &types.InstancesDistribution{
				OnDemandBaseCapacity: aws.Int32(base), OnDemandPercentageAboveBaseCapacity: aws.Int32(percent),
				SpotAllocationStrategy: aws.String(spotStrategy),
			},
			LaunchTemplate: &types.LaunchTemplate{
				LaunchTemplateSpecification: &types.LaunchTemplateSpecification{LaunchTemplateId: aws.String("lt-1")},
				Overrides:                   []types.LaunchTemplateOverrides{{InstanceType: aws.String("dear")}, {InstanceType: aws.String("cheap"), ImageId: aws.String("ami-2")}},
			},
		},
	}}
}

var testMenu = launchMenu{
	price: func(instanceType, _ string, _ bool) float64 {
		return map[string]float64{"dear": 9, "cheap": 1, "big": 6}[instanceType]
	},
	matching: func(*types.InstanceRequirements) []string { return []string{"dear", "cheap"} },
}

func serving(zone string, spot bool) *member {
	return &member{id: zone + fmt.Sprint(spot), zone: zone, spot: spot, weight: 1, state: types.LifecycleStateInService}
}

func TestPlacements(t *testing.T) {
	weighted := twoMarkets(0, 0, "lowest-price")
	weighted.spec.MixedInstancesPolicy.LaunchTemplate.Overrides = []types.LaunchTemplateOverrides{
		{InstanceType: aws.String("cheap")}, {InstanceType: aws.String("big"), WeightedCapacity: aws.String("8")}}
	byAttributes := twoMarkets(0, 0, "price-capacity-optimized")
	byAttributes.spec.MixedInstancesPolicy.LaunchTemplate.Overrides = []types.LaunchTemplateOverrides{{InstanceRequirements: &types.InstanceRequirements{}}}
	plain := &scalingGroup{spec: types.AutoScalingGroup{AvailabilityZones: []string{"a", "b"}, LaunchTemplate: &types.LaunchTemplateSpecification{}}, members: []*member{serving("a", false)}}

	type brief struct {
		Zone, Type, Image string
		Spot              bool
		Weight            int32
	}
	cases := map[string]struct {
		reason  string
		group   *scalingGroup
		members []*member
		want    []brief // the first ones
	}{
		"OnDemandBase":  {reason: "the base is on-demand, in the given order", group: twoMarkets(1, 0, "lowest-price"), want: []brief{{"a", "dear", "", false, 1}, {"a", "cheap", "ami-2", false, 1}, {"b", "dear", "", false, 1}}},
		"SpotByPrice":   {reason: "above the base spot, by price", group: twoMarkets(1, 0, "price-capacity-optimized"), members: []*member{serving("a", false)}, want: []brief{{"b", "cheap", "ami-2", true, 1}, {"b", "dear", "", true, 1}}},
		"SpotByOrder":   {reason: "prioritized strategies keep the order", group: twoMarkets(0, 0, "capacity-optimized-prioritized"), want: []brief{{"a", "dear", "", true, 1}}},
		"HalfOnDemand":  {reason: "half above the base, rounded up", group: twoMarkets(0, 50, "lowest-price"), members: []*member{serving("a", true)}, want: []brief{{"b", "dear", "", false, 1}}},
		"HalfSpot":      {reason: "the other half", group: twoMarkets(0, 50, "lowest-price"), members: []*member{serving("a", false)}, want: []brief{{"b", "cheap", "ami-2", true, 1}}},
		"WeightDivides": {reason: "price is per unit of capacity", group: weighted, want: []brief{{"a", "big", "", true, 8}, {"a", "cheap", "", true, 1}}},
		"Attributes":    {reason: "requirements stand for the types that match", group: byAttributes, want: []brief{{"a", "cheap", "", true, 1}, {"a", "dear", "", true, 1}}},
		"Template":      {reason: "without a policy the launch template decides the type", group: plain, members: plain.members, want: []brief{{"b", "", "", false, 1}, {"a", "", "", false, 1}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.group.members = tc.members
			var got []brief
			for _, p := range tc.group.placements(testMenu) {
				got = append(got, brief{p.zone, p.instanceType, p.imageID, p.spot, p.weight})
			}
			if len(got) > len(tc.want) {
				got = got[:len(tc.want)]
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

func TestVictim(t *testing.T) {
	old, young := time.Unix(100, 0), time.Unix(200, 0)
	m := func(id, zone string, launched time.Time, version string, change func(*member)) *member {
		x := &member{id: id, zone: zone, weight: 1, launched: launched, state: types.LifecycleStateInService,
			template: &types.LaunchTemplateSpecification{Version: aws.String(version)}}
		if change != nil {
			change(x)
		}
		return x
	}
	protect := func(x *member) { x.protected = true }
	cases := map[string]struct {
		reason        string
		policies      []string
		desired       int32
		members       []*member
		want          string
		wantProtected bool
	}{
		"CrowdedZone":    {reason: "the fuller zone first, whatever the age", desired: 2, members: []*member{m("1", "a", old, "1", nil), m("2", "b", young, "1", nil), m("3", "b", young, "1", nil)}, want: "2"},
		"OldTemplate":    {reason: "the default policy ends the oldest template version first", desired: 1, members: []*member{m("1", "a", old, "2", nil), m("2", "b", young, "1", nil)}, want: "2"},
		"OldestInstance": {reason: "policies go before the default", policies: []string{"OldestInstance"}, desired: 1, members: []*member{m("1", "a", old, "2", nil), m("2", "b", young, "1", nil)}, want: "1"},
		"NewestInstance": {reason: "and may turn it round", policies: []string{"NewestInstance"}, desired: 1, members: []*member{m("1", "a", old, "1", nil), m("2", "b", young, "1", nil)}, want: "2"},
		"Unhealthy":      {reason: "unhealthy before all", desired: 1, members: []*member{m("1", "a", old, "1", nil), m("2", "b", young, "2", func(x *member) { x.unhealthy = true })}, want: "2"},
		"Protected":      {reason: "scale-in passes over protected ones", desired: 1, members: []*member{m("1", "a", old, "1", protect), m("2", "b", young, "1", nil)}, want: "2"},
		"AllProtected":   {reason: "and stops when only they are left", desired: 1, members: []*member{m("1", "a", old, "1", protect), m("2", "b", young, "1", protect)}, wantProtected: true},
		"TooHeavy":       {reason: "never below desired", desired: 4, members: []*member{m("1", "a", old, "1", func(x *member) { x.weight = 5 })}},
		"LeftZone":       {reason: "a zone the group no longer uses goes first", desired: 2, members: []*member{m("1", "a", old, "1", nil), m("2", "a", old, "1", nil), m("3", "z", young, "2", nil)}, want: "3"},
		"EndingNotTwice": {reason: "what is ending does not count", desired: 1, members: []*member{m("1", "a", old, "1", nil), m("2", "a", old, "1", func(x *member) { x.state = types.LifecycleStateTerminatingWait })}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			g := &scalingGroup{spec: types.AutoScalingGroup{AvailabilityZones: []string{"a", "b"}, TerminationPolicies: tc.policies}, sizes: sizes{0, 9, tc.desired}, members: tc.members}
			got, protected := g.victim()
			if tc.want == "" && got != nil || tc.want != "" && (got == nil || got.id != tc.want) {
				t.Errorf("%s: victim = %+v, want %q", tc.reason, got, tc.want)
			}
			if protected != tc.wantProtected {
				t.Errorf("%s: protected = %v, want %v", tc.reason, protected, tc.wantProtected)
			}
		})
	}
}

func TestUneven(t *testing.T) {
	in := func(zones ...string) (ms []*member) {
		for i, z := range zones {
			ms = append(ms, &member{id: fmt.Sprint(i), zone: z, weight: 1, state: types.LifecycleStateInService})
		}
		return ms
	}
	cases := map[string]struct {
		reason   string
		members  []*member
		wantInto string
		want     bool
	}{
		"Even":      {reason: "a difference of one is even", members: in("a", "a", "b", "c"), wantInto: "b"},
		"TwoApart":  {reason: "two is not", members: in("a", "a", "b"), wantInto: "c", want: true},
		"LeftZone":  {reason: "nor is a zone that was taken out", members: in("a", "b", "c", "z"), wantInto: "a", want: true},
		"NoneAtAll": {reason: "an empty group is even", wantInto: "a"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			g := &scalingGroup{spec: types.AutoScalingGroup{AvailabilityZones: []string{"a", "b", "c"}}, members: tc.members}
			into, got := g.uneven()
			if into != tc.wantInto || got != tc.want {
				t.Errorf("%s: uneven() = %q, %v; want %q, %v", tc.reason, into, got, tc.wantInto, tc.want)
			}
		})
	}
}

func TestAdjust(t *testing.T) {
	p := func(kind string, least int32) types.ScalingPolicy {
		return types.ScalingPolicy{AdjustmentType: aws.String(kind), MinAdjustmentMagnitude: aws.Int32(least)}
	}
	cases := map[string]struct {
		reason string
		by     int32
		policy types.ScalingPolicy
		want   int32
	}{
		"Change":       {reason: "instances are added", by: 3, policy: p("ChangeInCapacity", 0), want: 13},
		"Exact":        {reason: "or set", by: 3, policy: p("ExactCapacity", 0), want: 3},
		"Percent":      {reason: "per cent round toward zero above one", by: 25, policy: p("PercentChangeInCapacity", 0), want: 12},
		"PercentSmall": {reason: "and away from it below one", by: 5, policy: p("PercentChangeInCapacity", 0), want: 11},
		"PercentDown":  {reason: "downward too", by: -5, policy: p("PercentChangeInCapacity", 0), want: 9},
		"Magnitude":    {reason: "by no less than the magnitude", by: -10, policy: p("PercentChangeInCapacity", 4), want: 6},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := adjust(10, tc.by, tc.policy); got != tc.want {
				t.Errorf("%s: adjust(10, %d) = %d, want %d", tc.reason, tc.by, got, tc.want)
			}
		})
	}
}

func TestTrackTarget(t *testing.T) {
	cases := map[string]struct {
		reason         string
		metric, target float64
		want           int32
	}{
		"High":     {reason: "twice the target needs twice the capacity", metric: 80, target: 40, want: 8},
		"RoundsUp": {reason: "never too little", metric: 41, target: 40, want: 5},
		"Low":      {reason: "half needs half", metric: 20, target: 40, want: 2},
		"NoTarget": {reason: "a target of nothing changes nothing", metric: 20, want: 4},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := trackTarget(4, tc.metric, tc.target); got != tc.want {
				t.Errorf("%s: trackTarget = %d, want %d", tc.reason, got, tc.want)
			}
		})
	}
}

func TestStep(t *testing.T) {
	f := aws.Float64
	steps := []types.StepAdjustment{
		{MetricIntervalLowerBound: f(0), MetricIntervalUpperBound: f(10), ScalingAdjustment: aws.Int32(1)},
		{MetricIntervalLowerBound: f(10), ScalingAdjustment: aws.Int32(3)},
	}
	cases := map[string]struct {
		reason string
		over   float64
		want   int32
		found  bool
	}{
		"First":    {reason: "the lower bound is included", over: 0, want: 1, found: true},
		"Boundary": {reason: "the upper is not", over: 10, want: 3, found: true},
		"Open":     {reason: "a missing bound is infinite", over: 1e6, want: 3, found: true},
		"Under":    {reason: "no step holds a metric below the threshold", over: -1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got, found := step(steps, tc.over); got != tc.want || found != tc.found {
				t.Errorf("%s: step(%v) = %d, %v; want %d, %v", tc.reason, tc.over, got, found, tc.want, tc.found)
			}
		})
	}
}

func TestNextRun(t *testing.T) {
	at := func(s string) *time.Time {
		v, err := time.Parse(time.RFC3339, s)
		if err != nil {
			t.Fatal(err)
		}
		return &v
	}
	now := *at("2026-03-02T12:00:00Z") // a Monday
	cases := map[string]struct {
		reason string
		action types.ScheduledUpdateGroupAction
		want   time.Time
	}{
		"Once":          {reason: "at its start", action: types.ScheduledUpdateGroupAction{StartTime: at("2026-03-02T13:00:00Z")}, want: *at("2026-03-02T13:00:00Z")},
		"OnceOver":      {reason: "and never again", action: types.ScheduledUpdateGroupAction{StartTime: at("2026-03-02T12:00:00Z")}},
		"Daily":         {reason: "cron, UTC by default", action: types.ScheduledUpdateGroupAction{Recurrence: aws.String("30 11 * * *")}, want: *at("2026-03-03T11:30:00Z")},
		"FromItsStart":  {reason: "not before its start, but at it", action: types.ScheduledUpdateGroupAction{Recurrence: aws.String("0 0 * * *"), StartTime: at("2026-03-05T00:00:00Z")}, want: *at("2026-03-05T00:00:00Z")},
		"UntilItsEnd":   {reason: "not after its end", action: types.ScheduledUpdateGroupAction{Recurrence: aws.String("0 0 * * *"), EndTime: at("2026-03-02T23:00:00Z")}},
		"InItsTimeZone": {reason: "in its own zone", action: types.ScheduledUpdateGroupAction{Recurrence: aws.String("0 9 * * 2"), TimeZone: aws.String("UTC")}, want: *at("2026-03-03T09:00:00Z")},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := nextRun(tc.action, now)
			if err != nil || !got.Equal(tc.want) {
				t.Errorf("%s: nextRun = %v, %v; want %v", tc.reason, got, err, tc.want)
			}
		})
	}
}

func TestCheckScheduledAction(t *testing.T) {
	now := time.Unix(1000, 0)
	past, future, later := now, now.Add(time.Hour), now.Add(2*time.Hour)
	i := aws.Int32
	cases := map[string]struct {
		reason string
		action types.ScheduledUpdateGroupAction
		ok     bool
	}{
		"Good":         {reason: "one size and a start are enough", action: types.ScheduledUpdateGroupAction{MinSize: i(1), StartTime: &future}, ok: true},
		"Recurring":    {reason: "or a recurrence", action: types.ScheduledUpdateGroupAction{DesiredCapacity: i(1), Recurrence: aws.String("*/5 * * * *"), StartTime: &future, EndTime: &later}, ok: true},
		"NoSize":       {reason: "it must change something", action: types.ScheduledUpdateGroupAction{StartTime: &future}},
		"NoTime":       {reason: "at some time", action: types.ScheduledUpdateGroupAction{MinSize: i(1)}},
		"Past":         {reason: "to come", action: types.ScheduledUpdateGroupAction{MinSize: i(1), StartTime: &past}},
		"EndsEarly":    {reason: "before its end", action: types.ScheduledUpdateGroupAction{MinSize: i(1), Recurrence: aws.String("* * * * *"), StartTime: &later, EndTime: &future}},
		"BadCron":      {reason: "that can be read", action: types.ScheduledUpdateGroupAction{MinSize: i(1), Recurrence: aws.String("every day")}},
		"BadZone":      {reason: "in a zone that exists", action: types.ScheduledUpdateGroupAction{MinSize: i(1), Recurrence: aws.String("* * * * *"), TimeZone: aws.String("Mars/Base")}},
		"MinAboveMax":  {reason: "to bounds that fit", action: types.ScheduledUpdateGroupAction{MinSize: i(2), MaxSize: i(1), StartTime: &future}},
		"DesiredBelow": {reason: "desired not below min", action: types.ScheduledUpdateGroupAction{MinSize: i(2), DesiredCapacity: i(1), StartTime: &future}},
		"DesiredAbove": {reason: "nor above max", action: types.ScheduledUpdateGroupAction{MaxSize: i(2), DesiredCapacity: i(3), StartTime: &future}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if err := checkScheduledAction(tc.action, now); (err == nil) != tc.ok {
				t.Errorf("%s: %v", tc.reason, err)
			}
		})
	}
}
