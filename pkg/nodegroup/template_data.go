package nodegroup

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/inventory/awsapi"
)

// The members that castoff carries into its own type, whole; those of a struct that it knows in part are listed below
// it. Whatever else is set is named in LaunchTemplate.Other.
var (
	knownTemplate = []string{
		"BlockDeviceMappings", "CapacityReservationSpecification", "EbsOptimized", "IamInstanceProfile", "ImageId", "InstanceMarketOptions",
		"InstanceRequirements", "InstanceType", "KeyName", "MetadataOptions", "Monitoring", "NetworkInterfaces", "Placement",
		"SecurityGroupIds", "SecurityGroups", "TagSpecifications", "UserData",
	}
	knownInterface     = []string{"AssociatePublicIpAddress", "DeleteOnTermination", "Description", "DeviceIndex", "Groups", "InterfaceType", "NetworkCardIndex"}
	knownPlacement     = []string{"GroupName", "GroupId", "Tenancy"}
	knownEBS           = []string{"DeleteOnTermination", "Encrypted", "Iops", "KmsKeyId", "SnapshotId", "Throughput", "VolumeSize", "VolumeType"}
	knownConfiguration = []string{
		"CreatedTime", "ImageId", "InstanceType", "LaunchConfigurationName", "LaunchConfigurationARN", "AssociatePublicIpAddress", "BlockDeviceMappings",
		"EbsOptimized", "IamInstanceProfile", "InstanceMonitoring", "KeyName", "MetadataOptions", "PlacementTenancy", "SecurityGroups", "SpotPrice", "UserData",
	}
)

// launchTemplate is a version's contents in castoff's words.
func launchTemplate(in ec2types.ResponseLaunchTemplateData) inventory.LaunchTemplate {
	out := inventory.LaunchTemplate{
		InstanceType: string(in.InstanceType), ImageID: aws.ToString(in.ImageId), EBSOptimized: in.EbsOptimized, KeyName: aws.ToString(in.KeyName),
		SecurityGroups: slices.Concat(in.SecurityGroupIds, in.SecurityGroups), Other: unknown("", in, knownTemplate),
	}
	out.UserData, out.UserDataSHA256 = userData(in.UserData)
	if p := in.IamInstanceProfile; p != nil {
		out.InstanceProfile = aws.ToString(p.Name)
		if out.InstanceProfile == "" {
			out.InstanceProfile = awsapi.LastSegment(aws.ToString(p.Arn))
		}
	}
	if in.Monitoring != nil {
		out.DetailedMonitoring = in.Monitoring.Enabled
		out.Other = append(out.Other, unknown("monitoring.", *in.Monitoring, []string{"Enabled"})...)
	}
	fillMarket(&out, in.InstanceMarketOptions)
	if p := in.Placement; p != nil {
		out.Tenancy, out.PlacementGroup = string(p.Tenancy), aws.ToString(p.GroupName)
		if out.PlacementGroup == "" {
			out.PlacementGroup = aws.ToString(p.GroupId)
		}
		out.Other = append(out.Other, unknown("placement.", *p, knownPlacement)...)
	}
	out.CapacityReservation = capacityReservation(in.CapacityReservationSpecification)
	out.Metadata = metadata(in.MetadataOptions)
	fillInterfaces(&out, in.NetworkInterfaces)
	fillBlockDevices(&out, in.BlockDeviceMappings)
	fillTags(&out, in.TagSpecifications)
	return out
}

// fillMarket takes whether the template asks for spot, and names everything else of its market options.
func fillMarket(out *inventory.LaunchTemplate, in *ec2types.LaunchTemplateInstanceMarketOptions) {
	if in == nil {
		return
	}
	out.Spot = in.MarketType == ec2types.MarketTypeSpot
	if !out.Spot && in.MarketType != "" {
		out.Other = append(out.Other, "instanceMarketOptions.marketType="+string(in.MarketType))
	}
	if in.SpotOptions != nil {
		out.Other = append(out.Other, unknown("instanceMarketOptions.spotOptions.", *in.SpotOptions, nil)...)
	}
}

// fillTags takes the tags of instances. Karpenter gives the volumes and interfaces of its nodes the same, so that others are named.
func fillTags(out *inventory.LaunchTemplate, in []ec2types.LaunchTemplateTagSpecification) {
	for _, s := range in {
		if s.ResourceType == ec2types.ResourceTypeInstance {
			out.Tags = map[string]string{}
			for _, t := range s.Tags {
				out.Tags[aws.ToString(t.Key)] = aws.ToString(t.Value)
			}
		}
	}
	for _, s := range in {
		for _, t := range s.Tags {
			if value, ok := out.Tags[aws.ToString(t.Key)]; !ok || value != aws.ToString(t.Value) {
				out.Other = append(out.Other, fmt.Sprintf("tagSpecifications[%s].%s", s.ResourceType, aws.ToString(t.Key)))
			}
		}
	}
}

func sameSet(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// userData is the decoded text and its digest. A text that is no base64 is kept as it is; one that is compressed, as
// cloud-init takes it, is unpacked, and kept as it is where that fails or it is larger than anybody's script.
func userData(encoded *string) (text, digest string) {
	if aws.ToString(encoded) == "" {
		return "", ""
	}
	text = *encoded
	if decoded, err := base64.StdEncoding.DecodeString(text); err == nil {
		text = string(unpacked(decoded))
	}
	sum := sha256.Sum256([]byte(text))
	return text, hex.EncodeToString(sum[:])
}

// unpackedLimit is sixty-four times what EC2 takes, in bytes: against a bomb, not against a script.
const unpackedLimit = 1 << 20

func unpacked(b []byte) []byte {
	r, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return b
	}
	text, err := io.ReadAll(io.LimitReader(r, unpackedLimit+1))
	if err != nil || len(text) > unpackedLimit {
		return b
	}
	return text
}

func metadata(in *ec2types.LaunchTemplateInstanceMetadataOptions) *inventory.Metadata {
	if in == nil {
		return nil
	}
	return &inventory.Metadata{
		Endpoint: string(in.HttpEndpoint), IPv6: string(in.HttpProtocolIpv6), HopLimit: aws.ToInt32(in.HttpPutResponseHopLimit),
		Tokens: string(in.HttpTokens), Tags: string(in.InstanceMetadataTags),
	}
}

// capacityReservation is the reservation, or group of them, that is aimed at; a mere preference is written as it is.
func capacityReservation(in *ec2types.LaunchTemplateCapacityReservationSpecificationResponse) string {
	if in == nil {
		return ""
	}
	if t := in.CapacityReservationTarget; t != nil {
		if id := aws.ToString(t.CapacityReservationId); id != "" {
			return id
		}
		return aws.ToString(t.CapacityReservationResourceGroupArn)
	}
	return string(in.CapacityReservationPreference)
}

// fillInterfaces takes the security groups and the public address of the first interface; a template has its security
// groups either there or at its top. Of all others it takes the place and the kind.
func fillInterfaces(out *inventory.LaunchTemplate, in []ec2types.LaunchTemplateInstanceNetworkInterfaceSpecification) {
	for i, n := range in {
		out.NetworkInterfaces = append(out.NetworkInterfaces, inventory.NetworkInterface{
			Card: aws.ToInt32(n.NetworkCardIndex), Device: aws.ToInt32(n.DeviceIndex), Type: aws.ToString(n.InterfaceType),
		})
		if i == 0 {
			out.SecurityGroups = append(out.SecurityGroups, n.Groups...)
			out.AssociatePublicIP = n.AssociatePublicIpAddress
		} else if !sameSet(n.Groups, in[0].Groups) {
			out.Other = append(out.Other, fmt.Sprintf("networkInterfaces[%d].groups", i))
		}
		out.Other = append(out.Other, unknown(fmt.Sprintf("networkInterfaces[%d].", i), n, knownInterface)...)
	}
}

func fillBlockDevices(out *inventory.LaunchTemplate, in []ec2types.LaunchTemplateBlockDeviceMapping) {
	for _, m := range in {
		device := inventory.BlockDevice{DeviceName: aws.ToString(m.DeviceName), Virtual: aws.ToString(m.VirtualName)}
		if m.NoDevice != nil {
			out.Other = append(out.Other, fmt.Sprintf("blockDeviceMappings[%s].noDevice", device.DeviceName))
			continue
		}
		if e := m.Ebs; e != nil {
			device.SizeGiB, device.Type, device.IOPS, device.ThroughputMiBs = aws.ToInt32(e.VolumeSize), string(e.VolumeType), aws.ToInt32(e.Iops), aws.ToInt32(e.Throughput)
			device.KMSKey, device.SnapshotID = aws.ToString(e.KmsKeyId), aws.ToString(e.SnapshotId)
			device.Encrypted, device.DeleteOnTermination = e.Encrypted, e.DeleteOnTermination
			out.Other = append(out.Other, unknown(fmt.Sprintf("blockDeviceMappings[%s].ebs.", device.DeviceName), *e, knownEBS)...)
		}
		out.BlockDevices = append(out.BlockDevices, device)
	}
}

// launchConfiguration is a launch configuration in the words of a template.
func launchConfiguration(in astypes.LaunchConfiguration) inventory.LaunchTemplate {
	out := inventory.LaunchTemplate{
		Configuration: aws.ToString(in.LaunchConfigurationName),
		InstanceType:  aws.ToString(in.InstanceType), ImageID: aws.ToString(in.ImageId), KeyName: aws.ToString(in.KeyName),
		SecurityGroups: in.SecurityGroups, InstanceProfile: awsapi.LastSegment(aws.ToString(in.IamInstanceProfile)),
		AssociatePublicIP: in.AssociatePublicIpAddress, EBSOptimized: in.EbsOptimized, Tenancy: aws.ToString(in.PlacementTenancy),
		Spot: aws.ToString(in.SpotPrice) != "", Other: unknown("", in, knownConfiguration),
	}
	out.UserData, out.UserDataSHA256 = userData(in.UserData)
	if in.InstanceMonitoring != nil {
		out.DetailedMonitoring = in.InstanceMonitoring.Enabled
	}
	if m := in.MetadataOptions; m != nil {
		out.Metadata = &inventory.Metadata{Endpoint: string(m.HttpEndpoint), HopLimit: aws.ToInt32(m.HttpPutResponseHopLimit), Tokens: string(m.HttpTokens)}
	}
	for _, m := range in.BlockDeviceMappings {
		device := inventory.BlockDevice{DeviceName: aws.ToString(m.DeviceName), Virtual: aws.ToString(m.VirtualName)}
		if e := m.Ebs; e != nil {
			device.SizeGiB, device.Type, device.IOPS, device.ThroughputMiBs = aws.ToInt32(e.VolumeSize), aws.ToString(e.VolumeType), aws.ToInt32(e.Iops), aws.ToInt32(e.Throughput)
			device.SnapshotID, device.Encrypted, device.DeleteOnTermination = aws.ToString(e.SnapshotId), e.Encrypted, e.DeleteOnTermination
		}
		out.BlockDevices = append(out.BlockDevices, device)
	}
	return out
}

// addGroupSettings adds what the group itself says of its instances: its placement group, and the names of what castoff
// does not carry over.
func addGroupSettings(out *inventory.LaunchTemplate, g astypes.AutoScalingGroup) {
	if out.PlacementGroup == "" {
		out.PlacementGroup = aws.ToString(g.PlacementGroup)
	}
	out.Other = append(out.Other, unknownOverrides(g.MixedInstancesPolicy)...)
	for name, set := range map[string]bool{
		"loadBalancerNames": len(g.LoadBalancerNames) > 0, "targetGroupARNs": len(g.TargetGroupARNs) > 0, "trafficSources": len(g.TrafficSources) > 0,
		"capacityReservationSpecification": reserves(g.CapacityReservationSpecification),
		"availabilityZoneDistribution":     g.AvailabilityZoneDistribution != nil && g.AvailabilityZoneDistribution.CapacityDistributionStrategy == astypes.CapacityDistributionStrategyBalancedOnly,
		"availabilityZoneImpairmentPolicy": g.AvailabilityZoneImpairmentPolicy != nil && aws.ToBool(g.AvailabilityZoneImpairmentPolicy.ZonalShiftEnabled),
		"healthCheckType":                  strings.Contains(aws.ToString(g.HealthCheckType), "ELB"),
	} {
		if set {
			out.Other = append(out.Other, "autoScalingGroup."+name)
		}
	}
	slices.Sort(out.Other)
}

// reserves says whether the group aims at reservations in a way that is not the default.
func reserves(in *astypes.CapacityReservationSpecification) bool {
	return in != nil && (in.CapacityReservationTarget != nil || (in.CapacityReservationPreference != "" && in.CapacityReservationPreference != astypes.CapacityReservationPreferenceDefault))
}

// unknownOverrides names what a mixed instances policy sets per type beyond type, weight and requirements.
func unknownOverrides(p *astypes.MixedInstancesPolicy) []string {
	if p == nil || p.LaunchTemplate == nil {
		return nil
	}
	var out []string
	for i, o := range p.LaunchTemplate.Overrides {
		prefix := fmt.Sprintf("mixedInstancesPolicy.overrides[%d].", i)
		out = append(out, unknown(prefix, o, []string{"InstanceType", "WeightedCapacity", "InstanceRequirements"})...)
	}
	return out
}

// unknown names the members of an SDK struct that are set and that are not among the known ones, as AWS' documents
// write them (lower camel case). Looking by reflection also finds what a later SDK adds.
func unknown(prefix string, v any, known []string) []string {
	var out []string
	value := reflect.ValueOf(v)
	for i := range value.NumField() {
		field := value.Type().Field(i)
		if !field.IsExported() || slices.Contains(known, field.Name) || empty(value.Field(i)) {
			continue
		}
		out = append(out, prefix+strings.ToLower(field.Name[:1])+field.Name[1:])
	}
	return out
}

// empty says whether AWS left the member out: nil, no elements, or a false that is the default.
func empty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Map:
		return v.Len() == 0
	case reflect.Pointer:
		return v.IsNil() || (v.Elem().Kind() == reflect.Bool && !v.Elem().Bool()) || (v.Elem().Kind() == reflect.String && v.Elem().Len() == 0)
	default:
		return v.IsZero()
	}
}
