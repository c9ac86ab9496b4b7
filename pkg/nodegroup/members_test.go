package nodegroup

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// reach makes what is on the way to a member, and returns the member.
func reach(at reflect.Value, path []string) reflect.Value {
	for _, name := range path {
		at = at.FieldByName(name)
		for at.Kind() == reflect.Pointer || at.Kind() == reflect.Slice {
			if at.Kind() == reflect.Slice {
				at.Set(reflect.MakeSlice(at.Type(), 1, 1))
				at = at.Index(0)
				continue
			}
			at.Set(reflect.New(at.Type().Elem()))
			at = at.Elem()
		}
	}
	return at
}

// withOnly is a struct of the SDK's in which the member at the path is all that is set; lists on the way have one element.
func withOnly(t *testing.T, of reflect.Type, path []string) reflect.Value {
	t.Helper()
	v := reflect.New(of).Elem()
	at := reach(v, path)
	switch at.Kind() {
	case reflect.String:
		at.SetString("x")
	case reflect.Bool:
		at.SetBool(true)
	case reflect.Int32, reflect.Int64:
		at.SetInt(7)
	case reflect.Float64:
		at.SetFloat(7)
	case reflect.Struct: // a time
	default:
		t.Fatalf("%s: no value for a %s", strings.Join(path, "."), at.Kind())
	}
	return v
}

// members are the paths of everything that can be set. Smithy's own fields are not exported.
func members(of reflect.Type, prefix []string) [][]string {
	var out [][]string
	for i := range of.NumField() {
		f := of.Field(i)
		if !f.IsExported() {
			continue
		}
		inner := f.Type
		for inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice {
			inner = inner.Elem()
		}
		path := append(append([]string{}, prefix...), f.Name)
		if inner.Kind() == reflect.Struct && inner.PkgPath() != "time" {
			out = append(out, members(inner, path)...)
			continue
		}
		out = append(out, path)
	}
	return out
}

// silent members of a launch template say nothing about its nodes, or are read elsewhere.
var silent = map[string]string{
	"MetadataOptions.State":                 "whether a change of the options is done",
	"NetworkInterfaces.DeleteOnTermination": "Karpenter's interfaces go with their instance",
	"NetworkInterfaces.Description":         "for people",
	"TagSpecifications.ResourceType":        "without tags it says nothing",
	"TagSpecifications.Tags.Value":          "a tag needs a key",
	"BlockDeviceMappings.NoDevice":          "told by the device's name",
}

// Every member of a launch template that is set, alone, changes what castoff knows of it: it is carried or named. A member that a
// later SDK adds fails here, or is named by itself.
func TestEveryMemberOfATemplateIsCarriedOrNamed(t *testing.T) {
	nothing := launchTemplate(ec2types.ResponseLaunchTemplateData{})
	seen := 0
	for _, path := range members(reflect.TypeFor[ec2types.ResponseLaunchTemplateData](), nil) {
		name := strings.Join(path, ".")
		if _, ok := silent[name]; ok || path[0] == "InstanceRequirements" { // those are resolved to types
			continue
		}
		seen++
		in, ok := withOnly(t, reflect.TypeFor[ec2types.ResponseLaunchTemplateData](), path).Interface().(ec2types.ResponseLaunchTemplateData)
		if !ok {
			t.Fatal("not a template")
		}
		got := launchTemplate(in)
		without := path[:len(path)-1]
		before := nothing
		if len(without) > 0 { // an empty element may already be something; the member has to be more
			before = launchTemplate(emptyAt(t, without))
		}
		if cmp.Equal(before, got) && !named(got.Other, name) {
			t.Errorf("%s can be set and nobody hears of it", name)
		}
	}
	if seen < 60 {
		t.Errorf("only %d members were tried", seen)
	}
}

var element = regexp.MustCompile(`\[[^]]*\]`)

// named says whether the member, or what it is part of, is among those that are listed.
func named(other []string, member string) bool {
	return slices.ContainsFunc(other, func(o string) bool {
		return strings.HasPrefix(strings.ToLower(member), strings.ToLower(element.ReplaceAllString(o, "")))
	})
}

// emptyAt has the struct at the path, with nothing set in it.
func emptyAt(t *testing.T, path []string) ec2types.ResponseLaunchTemplateData {
	t.Helper()
	v := reflect.New(reflect.TypeFor[ec2types.ResponseLaunchTemplateData]()).Elem()
	reach(v, path)
	out, ok := v.Interface().(ec2types.ResponseLaunchTemplateData)
	if !ok {
		t.Fatal("not a template")
	}
	return out
}

func TestMarketOptions(t *testing.T) {
	cases := map[string]struct {
		reason string
		in     *ec2types.LaunchTemplateInstanceMarketOptions
		want   inventory.LaunchTemplate
	}{
		"None":  {"silence", nil, inventory.LaunchTemplate{}},
		"Spot":  {"carried, and its own bounds named", &ec2types.LaunchTemplateInstanceMarketOptions{MarketType: ec2types.MarketTypeSpot, SpotOptions: &ec2types.LaunchTemplateSpotMarketOptions{MaxPrice: aws.String("0.1")}}, inventory.LaunchTemplate{Spot: true, Other: []string{"instanceMarketOptions.spotOptions.maxPrice"}}},
		"Block": {"another market is named", &ec2types.LaunchTemplateInstanceMarketOptions{MarketType: ec2types.MarketTypeCapacityBlock}, inventory.LaunchTemplate{Other: []string{"instanceMarketOptions.marketType=capacity-block"}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got inventory.LaunchTemplate
			fillMarket(&got, tc.in)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

func TestEveryMemberOfAConfigurationIsCarriedOrNamed(t *testing.T) {
	quiet := map[string]bool{"LaunchConfigurationARN": true, "CreatedTime": true, "BlockDeviceMappings.NoDevice": true}
	for _, path := range members(reflect.TypeFor[astypes.LaunchConfiguration](), nil) {
		if name := strings.Join(path, "."); !quiet[name] {
			in, ok := withOnly(t, reflect.TypeFor[astypes.LaunchConfiguration](), path).Interface().(astypes.LaunchConfiguration)
			if !ok || cmp.Equal(launchConfiguration(astypes.LaunchConfiguration{}), launchConfiguration(in)) {
				t.Errorf("%s can be set and nobody hears of it", name)
			}
		}
	}
}
