package awssim

import (
	"encoding/base64"
	"encoding/json"
	"net/netip"
	"reflect"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
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
	VolumeTags   []types.Tag
	Identity     string // who launches: matched by capacity faults
	By           string // for the onState hooks: "<identity> <service>.<operation>"
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
	if spec.Spot {
		e.s.iam.haveSpotRole()
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
	if float64(t.vCPUs()+e.vCPUsInUse(spec.Spot)) <= limit {
		return nil
	}
	code := "VcpuLimitExceeded"
	if spec.Spot {
		code = "MaxSpotInstanceCountExceeded"
	}
	return errorf(code, "You have requested more vCPU capacity than your current vCPU limit of %g allows for the instance bucket that the specified instance type belongs to.", limit)
}

// vCPUsInUse counts those of all instances that live.
func (e *ec2Service) vCPUsInUse(spot bool) int32 {
	used := int32(0)
	e.instances.truth().each(func(i *instance) {
		if t, ok := findInstanceType(string(i.InstanceType)); ok && i.live() && i.spot() == spot {
			used += t.vCPUs()
		}
	})
	return used
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
	i.NetworkInterfaces = []types.InstanceNetworkInterface{{
		NetworkInterfaceId: aws.String(e.s.newID("eni")), SubnetId: i.SubnetId, VpcId: i.VpcId, Groups: i.SecurityGroups, OwnerId: aws.String(accountID),
		PrivateIpAddress: i.PrivateIpAddress, PrivateDnsName: i.PrivateDnsName, Status: types.NetworkInterfaceStatusInUse, InterfaceType: aws.String("interface"),
		Attachment: &types.InstanceNetworkInterfaceAttachment{DeviceIndex: aws.Int32(0), NetworkCardIndex: aws.Int32(0), DeleteOnTermination: aws.Bool(true), Status: types.AttachmentStatusAttached},
	}}
	i.BlockDeviceMappings = e.newVolumes(spec, &i)
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

// overlay lays the fields that are set in over onto base.
func overlay(base, over types.ResponseLaunchTemplateData) types.ResponseLaunchTemplateData {
	b, o := reflect.ValueOf(&base).Elem(), reflect.ValueOf(over)
	for i := range o.NumField() {
		if o.Type().Field(i).IsExported() && !o.Field(i).IsZero() {
			b.Field(i).Set(o.Field(i))
		}
	}
	return base
}

// once answers a repeated client token with what it was answered first, as EC2 does: the SDK repeats it in retries.
func once[O any](e *ec2Service, c *call, token *string, do func() (*O, error)) (*O, error) {
	key := c.operation + "/" + aws.ToString(token)
	if first, ok := e.tokens[key].(*O); ok && token != nil {
		return first, nil
	}
	out, err := do()
	if err == nil && token != nil {
		e.tokens[key] = out
	}
	return out, err
}

func (e *ec2Service) runInstances(c *call, in *ec2.RunInstancesInput) (*ec2.RunInstancesOutput, error) {
	return once(e, c, in.ClientToken, func() (*ec2.RunInstancesOutput, error) {
		spec, err := e.runSpec(c, in)
		if err != nil {
			return nil, err
		}
		out := &ec2.RunInstancesOutput{ReservationId: aws.String(e.s.newID("r")), OwnerId: aws.String(accountID)}
		for range max(aws.ToInt32(in.MaxCount), 1) {
			i, err := e.launch(spec)
			if err != nil && len(out.Instances) < int(max(aws.ToInt32(in.MinCount), 1)) {
				for _, started := range out.Instances { // all or nothing below the minimum
					_, _ = e.terminate(aws.ToString(started.InstanceId), spec.By)
				}
				return nil, err
			}
			if err != nil {
				break
			}
			out.Instances = append(out.Instances, i.Instance)
		}
		return out, nil
	})
}

// runSpec lays the request over its launch template.
func (e *ec2Service) runSpec(c *call, in *ec2.RunInstancesInput) (launchSpec, error) {
	var data types.ResponseLaunchTemplateData
	if t := in.LaunchTemplate; t != nil {
		d, err := e.templateData(aws.ToString(t.LaunchTemplateId), aws.ToString(t.LaunchTemplateName), aws.ToString(t.Version))
		if err != nil {
			return launchSpec{}, err
		}
		data = d
	}
	own := convert[types.ResponseLaunchTemplateData](in)
	own.TagSpecifications = append(data.TagSpecifications, own.TagSpecifications...)
	data = overlay(data, own)
	market := data.InstanceMarketOptions
	spec := launchSpec{
		Template: data, SubnetID: aws.ToString(in.SubnetId), Identity: c.identity, By: c.by(),
		Spot: market != nil && market.MarketType == types.MarketTypeSpot,
	}
	if in.Placement != nil {
		spec.Zone = aws.ToString(in.Placement.AvailabilityZone)
	}
	return spec, nil
}

// instanceProfile resolves the profile that a launch names by name or ARN; nil when it names none.
func (e *ec2Service) instanceProfile(p *types.LaunchTemplateIamInstanceProfileSpecification) (*types.IamInstanceProfile, error) {
	if p == nil {
		return nil, nil
	}
	name := firstOf(aws.ToString(p.Name), lastSegment(aws.ToString(p.Arn)))
	profile, ok := e.s.iam.profiles.get(name)
	if !ok {
		return nil, errorf("InvalidParameterValue", "Value (%s) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name", name)
	}
	return &types.IamInstanceProfile{Arn: profile.Arn, Id: profile.InstanceProfileId}, nil
}

// roleOf is the ARN of the role that the instance's profile carries now; empty without one.
func (e *ec2Service) roleOf(i instance) string {
	if i.IamInstanceProfile == nil {
		return ""
	}
	profile, ok := e.s.iam.profiles.get(lastSegment(aws.ToString(i.IamInstanceProfile.Arn)))
	if !ok || len(profile.Roles) == 0 {
		return ""
	}
	return aws.ToString(profile.Roles[0].Arn)
}

// lastSegment is what follows the last slash of a path or ARN.
func lastSegment(s string) string { return s[strings.LastIndexByte(s, '/')+1:] }
