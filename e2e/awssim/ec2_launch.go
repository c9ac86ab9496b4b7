package awssim

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// launchSpec says what one instance is launched from. Fields here win over the template's.
type launchSpec struct {
	Template     types.ResponseLaunchTemplateData // what templateData returns
	InstanceType string
	ImageID      string
	SubnetID     string
	Zone         string // picks a subnet when there is none: of the VPC of the template's security groups, or any
	Spot         bool
	Tags         []types.Tag
	Identity     string // who launches: matched by capacity faults
	By           string // for the onState hooks: "<identity> <service>.<operation>"
}

// launchTemplate is a launch template with all its versions, oldest first.
type launchTemplate struct {
	types.LaunchTemplate
	Versions []types.LaunchTemplateVersion
}

// launch starts one instance, or fails with what EC2 would answer: InsufficientInstanceCapacity, VcpuLimitExceeded,
// InsufficientFreeAddressesInSubnet, InvalidAMIID.NotFound and so on.
func (e *ec2Service) launch(spec launchSpec) (instance, error) {
	spec.InstanceType = firstOf(spec.InstanceType, string(spec.Template.InstanceType))
	spec.ImageID = firstOf(spec.ImageID, aws.ToString(spec.Template.ImageId))
	t, ok := findInstanceType(spec.InstanceType)
	if !ok {
		return instance{}, errorf("InvalidParameterValue", "Invalid value '%s' for InstanceType.", spec.InstanceType)
	}
	subnet, err := e.subnetFor(spec)
	if err != nil {
		return instance{}, err
	}
	if err := e.checkLaunch(spec, t, subnet); err != nil {
		return instance{}, err
	}
	i, err := e.newInstance(spec, t, subnet)
	if err != nil {
		return instance{}, err
	}
	id := i.id()
	e.instances.put(id, i)
	e.stateChanged(i, "", spec.By)
	e.s.after(e.s.settings.PendingDelay, func() {
		if i, ok := e.instances.get(id); ok && i.state() == types.InstanceStateNamePending {
			e.setState(id, types.InstanceStateNameRunning, spec.By)
		}
	})
	return i, nil
}

// checkLaunch refuses what EC2 would refuse for lack of something.
func (e *ec2Service) checkLaunch(spec launchSpec, t instanceType, subnet types.Subnet) error {
	zone := aws.ToString(subnet.AvailabilityZone)
	if f := e.s.faults.forLaunch(spec.Identity, spec.InstanceType, zone); f != nil {
		return faultError(f, "launching "+spec.InstanceType+" in "+zone)
	}
	if spec.ImageID == "" {
		return errorf("MissingParameter", "The request must contain the parameter ImageId")
	}
	if _, ok := e.images.get(spec.ImageID); !ok {
		return errorf("InvalidAMIID.NotFound", "The image id '[%s]' does not exist", spec.ImageID)
	}
	for _, g := range securityGroupsOf(spec.Template) {
		if _, ok := e.securityGroups.get(g); !ok {
			return errorf("InvalidGroup.NotFound", "The security group '%s' does not exist", g)
		}
	}
	return e.checkQuota(spec, t)
}

func (e *ec2Service) checkQuota(spec launchSpec, t instanceType) error {
	if e.s.vCPULimit == nil {
		return nil
	}
	limit, ok := e.s.vCPULimit(spec.InstanceType, spec.Spot)
	if !ok {
		return nil
	}
	used := t.vCPUs()
	for _, i := range e.instances.truth().where(func(i *instance) bool { return i.live() && i.spot() == spec.Spot }) {
		if other, ok := findInstanceType(string(i.InstanceType)); ok {
			used += other.vCPUs()
		}
	}
	if float64(used) <= limit {
		return nil
	}
	code := "VcpuLimitExceeded"
	if spec.Spot {
		code = "MaxSpotInstanceCountExceeded"
	}
	return errorf(code, "You have requested more vCPU capacity than your current vCPU limit of %g allows for the instance bucket that the specified instance type belongs to.", limit)
}

// subnetFor is the subnet that the launch names, or one in its zone.
func (e *ec2Service) subnetFor(spec launchSpec) (types.Subnet, error) {
	id := spec.SubnetID
	for _, n := range spec.Template.NetworkInterfaces {
		id = firstOf(id, aws.ToString(n.SubnetId))
	}
	if id != "" {
		if s, ok := e.subnets.get(id); ok {
			return s, nil
		}
		return types.Subnet{}, errorf("InvalidSubnetID.NotFound", "The subnet ID '%s' does not exist", id)
	}
	vpc := ""
	for _, g := range securityGroupsOf(spec.Template) {
		if sg, ok := e.securityGroups.get(g); ok {
			vpc = aws.ToString(sg.VpcId)
		}
	}
	for _, s := range e.subnets.list() {
		inZone := spec.Zone == "" || spec.Zone == aws.ToString(s.AvailabilityZone)
		if inZone && (vpc == "" || vpc == aws.ToString(s.VpcId)) {
			return s, nil
		}
	}
	return types.Subnet{}, errorf("MissingInput", "No subnets found for the default VPC in zone %q. Please specify a subnet.", spec.Zone)
}

func securityGroupsOf(t types.ResponseLaunchTemplateData) []string {
	if len(t.NetworkInterfaces) > 0 {
		return t.NetworkInterfaces[0].Groups
	}
	return t.SecurityGroupIds
}

func (e *ec2Service) newInstance(spec launchSpec, t instanceType, subnet types.Subnet) (instance, error) {
	id := e.s.newID("i")
	address, err := e.takeAddress(subnet, id)
	if err != nil {
		return instance{}, err
	}
	i := instance{Instance: types.Instance{
		InstanceId: aws.String(id), InstanceType: t.Info.InstanceType, ImageId: aws.String(spec.ImageID),
		SubnetId: subnet.SubnetId, VpcId: subnet.VpcId, LaunchTime: aws.Time(e.s.now().UTC()),
		State:            instanceState(types.InstanceStateNamePending),
		Placement:        &types.Placement{AvailabilityZone: subnet.AvailabilityZone, AvailabilityZoneId: subnet.AvailabilityZoneId, Tenancy: types.TenancyDefault},
		Architecture:     types.ArchitectureValues(t.architecture()),
		PrivateIpAddress: aws.String(address.String()), PrivateDnsName: aws.String(e.dnsName(address)),
		RootDeviceName: aws.String("/dev/xvda"), RootDeviceType: types.DeviceTypeEbs, VirtualizationType: types.VirtualizationTypeHvm,
		EbsOptimized: spec.Template.EbsOptimized, MetadataOptions: convert[*types.InstanceMetadataOptionsResponse](spec.Template.MetadataOptions),
		KeyName: spec.Template.KeyName, Tags: mergeTags(templateTags(spec.Template, types.ResourceTypeInstance), spec.Tags),
	}}
	if spec.Spot {
		i.InstanceLifecycle = types.InstanceLifecycleTypeSpot
		i.SpotInstanceRequestId = aws.String(e.s.newID("sir"))
	}
	for _, g := range securityGroupsOf(spec.Template) {
		sg, _ := e.securityGroups.get(g) // checked before
		i.SecurityGroups = append(i.SecurityGroups, types.GroupIdentifier{GroupId: aws.String(g), GroupName: sg.GroupName})
	}
	if i.IamInstanceProfile, err = e.instanceProfile(spec.Template.IamInstanceProfile); err != nil {
		return instance{}, err
	}
	i.UserData = decodeUserData(aws.ToString(spec.Template.UserData))
	return i, nil
}

// takeAddress reserves a private address of the subnet; AWS keeps the first four and the last for itself.
func (e *ec2Service) takeAddress(subnet types.Subnet, id string) (netip.Addr, error) {
	prefix, err := netip.ParsePrefix(aws.ToString(subnet.CidrBlock))
	if err != nil {
		return netip.Addr{}, errorf("InvalidSubnet", "The subnet %s has no usable CIDR block: %v", aws.ToString(subnet.SubnetId), err)
	}
	a := prefix.Masked().Addr()
	for range 4 {
		a = a.Next()
	}
	for ; prefix.Contains(a) && prefix.Contains(a.Next()); a = a.Next() {
		if _, used := e.addresses[a]; !used {
			e.addresses[a] = id
			return a, nil
		}
	}
	return netip.Addr{}, errorf("InsufficientFreeAddressesInSubnet", "The specified subnet does not have enough free addresses to satisfy the request.")
}

func (e *ec2Service) dnsName(a netip.Addr) string {
	host := "ip-" + strings.ReplaceAll(a.String(), ".", "-")
	if e.s.options.Region == "us-east-1" {
		return host + ".ec2.internal"
	}
	return host + "." + e.s.options.Region + ".compute.internal"
}

// decodeUserData turns base64 into text; what is no base64 is taken as it is.
func decodeUserData(s string) string {
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		return s
	}
	return string(b)
}

func templateTags(t types.ResponseLaunchTemplateData, of types.ResourceType) []types.Tag {
	var tags []types.Tag
	for _, x := range t.TagSpecifications {
		if x.ResourceType == of {
			tags = append(tags, x.Tags...)
		}
	}
	return tags
}

// convert carries a value over into a type of the same field names, as the SDK has for requests and responses.
func convert[To any](from any) To {
	var to To
	if b, err := json.Marshal(from); err == nil {
		_ = json.Unmarshal(b, &to) // what does not fit is left out
	}
	return to
}

func firstOf(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

// templateData resolves a launch template by ID or name and version: a number, $Latest, $Default, or empty for the default.
func (e *ec2Service) templateData(id, name, version string) (types.ResponseLaunchTemplateData, error) {
	t, err := e.findTemplate(id, name)
	if err != nil {
		return types.ResponseLaunchTemplateData{}, err
	}
	v, err := t.version(version)
	if err != nil {
		return types.ResponseLaunchTemplateData{}, err
	}
	return *v.LaunchTemplateData, nil
}

func (e *ec2Service) findTemplate(id, name string) (launchTemplate, error) {
	if t, ok := e.templates.get(id); ok && id != "" {
		return t, nil
	}
	if id != "" {
		return launchTemplate{}, errorf("InvalidLaunchTemplateId.NotFound", "The specified launch template, with template ID %s, does not exist.", id)
	}
	for _, t := range e.templates.truth().where(func(t *launchTemplate) bool { return aws.ToString(t.LaunchTemplateName) == name }) {
		return t, nil
	}
	return launchTemplate{}, errorf("InvalidLaunchTemplateName.NotFoundException", "The specified launch template, with template name %s, does not exist.", name)
}

func (t *launchTemplate) version(version string) (types.LaunchTemplateVersion, error) {
	number := version
	switch version {
	case "$Latest":
		number = fmt.Sprint(aws.ToInt64(t.LatestVersionNumber))
	case "$Default", "":
		number = fmt.Sprint(aws.ToInt64(t.DefaultVersionNumber))
	}
	for _, v := range t.Versions {
		if fmt.Sprint(aws.ToInt64(v.VersionNumber)) == number && v.LaunchTemplateData != nil {
			return v, nil
		}
	}
	return types.LaunchTemplateVersion{}, errorf("InvalidLaunchTemplateId.VersionNotFound", "Could not find the specified version %s for the launch template with ID %s.", version, aws.ToString(t.LaunchTemplateId))
}

// mergeTags lays the second tags over the first.
func mergeTags(under, over []types.Tag) []types.Tag {
	var out []types.Tag
	for _, t := range append(append([]types.Tag{}, under...), over...) {
		out = setTag(out, t)
	}
	return out
}

func setTag(tags []types.Tag, t types.Tag) []types.Tag {
	for i := range tags {
		if aws.ToString(tags[i].Key) == aws.ToString(t.Key) {
			tags[i].Value = t.Value
			return tags
		}
	}
	return append(tags, types.Tag{Key: t.Key, Value: t.Value})
}

// roleOf is the role that the instance's profile carries; empty without one.
func (e *ec2Service) roleOf(instance) string { return "" }

func (e *ec2Service) instanceProfile(p *types.LaunchTemplateIamInstanceProfileSpecification) (*types.IamInstanceProfile, error) {
	return nil, nil
}
