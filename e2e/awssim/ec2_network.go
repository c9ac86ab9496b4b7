package awssim

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// zoneLetters of the region's availability zones; their IDs are like those of an account that sees them in order.
var zoneLetters = []string{"a", "b", "c"}

func (e *ec2Service) registerNetwork() {
	on(e.s, "ec2.CreateVpc", e.createVpc)
	on(e.s, "ec2.DescribeVpcs", e.describeVpcs)
	on(e.s, "ec2.CreateDhcpOptions", e.createDHCPOptions)
	on(e.s, "ec2.AssociateDhcpOptions", e.associateDHCPOptions)
	on(e.s, "ec2.DescribeDhcpOptions", e.describeDHCPOptions)
	on(e.s, "ec2.CreateSubnet", e.createSubnet)
	on(e.s, "ec2.DescribeSubnets", e.describeSubnets)
	on(e.s, "ec2.CreateSecurityGroup", e.createSecurityGroup)
	on(e.s, "ec2.DescribeSecurityGroups", e.describeSecurityGroups)
	on(e.s, "ec2.DescribeAvailabilityZones", e.describeAvailabilityZones)
	on(e.s, "ec2.DescribePlacementGroups", e.describePlacementGroups)
	on(e.s, "ec2.CreatePlacementGroup", e.createPlacementGroup)
	on(e.s, "ec2.DescribeCapacityReservations", e.describeCapacityReservations)
	on(e.s, "ec2.CreateCapacityReservation", e.createCapacityReservation)
}

func (e *ec2Service) zones() []string {
	zones := make([]string, len(zoneLetters))
	for i, l := range zoneLetters {
		zones[i] = e.s.options.Region + l
	}
	return zones
}

// zoneID is the account-independent name of a zone: use1-az1 for us-east-1a.
func (e *ec2Service) zoneID(zone string) string {
	parts := splitRegion(e.s.options.Region)
	return fmt.Sprintf("%s%s%s-az%d", parts[0], parts[1][:1], parts[2], slices.Index(e.zones(), zone)+1)
}

func (e *ec2Service) createVpc(_ *call, in *ec2.CreateVpcInput) (*ec2.CreateVpcOutput, error) {
	if _, err := netip.ParsePrefix(aws.ToString(in.CidrBlock)); err != nil {
		return nil, errorf("InvalidVpc.Range", "The CIDR '%s' is invalid.", aws.ToString(in.CidrBlock))
	}
	v := types.Vpc{
		VpcId: aws.String(e.s.newID("vpc")), CidrBlock: in.CidrBlock, State: types.VpcStateAvailable, OwnerId: aws.String(accountID),
		Tags: specTags(in.TagSpecifications, types.ResourceTypeVpc), DhcpOptionsId: aws.String(e.defaultDHCPOptions()),
	}
	e.vpcs.put(*v.VpcId, v)
	return &ec2.CreateVpcOutput{Vpc: &v}, nil
}

var vpcFilters = filterable[types.Vpc]{
	tags: func(v *types.Vpc) []types.Tag { return v.Tags },
	values: map[string]func(*types.Vpc) []string{
		"vpc-id": func(v *types.Vpc) []string { return one(v.VpcId) },
		"state":  func(v *types.Vpc) []string { return []string{string(v.State)} },
		"cidr":   func(v *types.Vpc) []string { return one(v.CidrBlock) },
	},
}

func (e *ec2Service) describeVpcs(c *call, in *ec2.DescribeVpcsInput) (*ec2.DescribeVpcsOutput, error) {
	rows, next, err := paged(e.s, in.NextToken, aws.ToInt32(in.MaxResults), func() ([]types.Vpc, error) {
		return selectRows(e.vpcs.asOf(c.readTime()), in.VpcIds, "InvalidVpcID.NotFound", vpcFilters, in.Filters)
	})
	return &ec2.DescribeVpcsOutput{Vpcs: rows, NextToken: next}, err
}

func (e *ec2Service) createSubnet(_ *call, in *ec2.CreateSubnetInput) (*ec2.CreateSubnetOutput, error) {
	if _, ok := e.vpcs.get(aws.ToString(in.VpcId)); !ok {
		return nil, errorf("InvalidVpcID.NotFound", "The vpc ID '%s' does not exist", aws.ToString(in.VpcId))
	}
	if _, err := netip.ParsePrefix(aws.ToString(in.CidrBlock)); err != nil {
		return nil, errorf("InvalidSubnet.Range", "The CIDR '%s' is invalid.", aws.ToString(in.CidrBlock))
	}
	zone := firstOf(aws.ToString(in.AvailabilityZone), e.zones()[0])
	if !slices.Contains(e.zones(), zone) {
		return nil, errorf("InvalidParameterValue", "Value (%s) for parameter availabilityZone is invalid.", zone)
	}
	id := e.s.newID("subnet")
	v := types.Subnet{
		SubnetId: aws.String(id), VpcId: in.VpcId, CidrBlock: in.CidrBlock, State: types.SubnetStateAvailable,
		AvailabilityZone: aws.String(zone), AvailabilityZoneId: aws.String(e.zoneID(zone)), OwnerId: aws.String(accountID),
		SubnetArn: aws.String(e.s.arn("ec2", "subnet/"+id)), MapPublicIpOnLaunch: aws.Bool(false),
		Tags: specTags(in.TagSpecifications, types.ResourceTypeSubnet),
	}
	e.subnets.put(id, v)
	e.countFree(&v)
	return &ec2.CreateSubnetOutput{Subnet: &v}, nil
}

// countFree sets how many addresses a subnet has left: AWS keeps five to itself.
func (e *ec2Service) countFree(v *types.Subnet) {
	prefix, err := netip.ParsePrefix(aws.ToString(v.CidrBlock))
	if err != nil {
		return
	}
	free := int32(1)<<(prefix.Addr().BitLen()-prefix.Bits()) - 5
	for a := range e.addresses {
		if prefix.Contains(a) {
			free--
		}
	}
	v.AvailableIpAddressCount = aws.Int32(max(free, 0))
}

var subnetFilters = filterable[types.Subnet]{
	tags: func(v *types.Subnet) []types.Tag { return v.Tags },
	values: map[string]func(*types.Subnet) []string{
		"subnet-id":            func(v *types.Subnet) []string { return one(v.SubnetId) },
		"vpc-id":               func(v *types.Subnet) []string { return one(v.VpcId) },
		"availability-zone":    func(v *types.Subnet) []string { return one(v.AvailabilityZone) },
		"availability-zone-id": func(v *types.Subnet) []string { return one(v.AvailabilityZoneId) },
		"state":                func(v *types.Subnet) []string { return []string{string(v.State)} },
		"cidr-block":           func(v *types.Subnet) []string { return one(v.CidrBlock) },
	},
}

func (e *ec2Service) describeSubnets(c *call, in *ec2.DescribeSubnetsInput) (*ec2.DescribeSubnetsOutput, error) {
	rows, next, err := paged(e.s, in.NextToken, aws.ToInt32(in.MaxResults), func() ([]types.Subnet, error) {
		rows, err := selectRows(e.subnets.asOf(c.readTime()), in.SubnetIds, "InvalidSubnetID.NotFound", subnetFilters, in.Filters)
		for i := range rows {
			e.countFree(&rows[i])
		}
		return rows, err
	})
	return &ec2.DescribeSubnetsOutput{Subnets: rows, NextToken: next}, err
}

func (e *ec2Service) createSecurityGroup(_ *call, in *ec2.CreateSecurityGroupInput) (*ec2.CreateSecurityGroupOutput, error) {
	for _, g := range e.securityGroups.list() {
		if aws.ToString(g.GroupName) == aws.ToString(in.GroupName) && aws.ToString(g.VpcId) == aws.ToString(in.VpcId) {
			return nil, errorf("InvalidGroup.Duplicate", "The security group '%s' already exists for VPC '%s'", aws.ToString(in.GroupName), aws.ToString(in.VpcId))
		}
	}
	id := e.s.newID("sg")
	v := types.SecurityGroup{
		GroupId: aws.String(id), GroupName: in.GroupName, Description: in.Description, VpcId: in.VpcId, OwnerId: aws.String(accountID),
		SecurityGroupArn: aws.String(e.s.arn("ec2", "security-group/"+id)),
		Tags:             specTags(in.TagSpecifications, types.ResourceTypeSecurityGroup),
	}
	e.securityGroups.put(id, v)
	return &ec2.CreateSecurityGroupOutput{GroupId: v.GroupId, SecurityGroupArn: v.SecurityGroupArn, Tags: v.Tags}, nil
}

var securityGroupFilters = filterable[types.SecurityGroup]{
	tags: func(v *types.SecurityGroup) []types.Tag { return v.Tags },
	values: map[string]func(*types.SecurityGroup) []string{
		"group-id":    func(v *types.SecurityGroup) []string { return one(v.GroupId) },
		"group-name":  func(v *types.SecurityGroup) []string { return one(v.GroupName) },
		"vpc-id":      func(v *types.SecurityGroup) []string { return one(v.VpcId) },
		"description": func(v *types.SecurityGroup) []string { return one(v.Description) },
	},
}

func (e *ec2Service) describeSecurityGroups(c *call, in *ec2.DescribeSecurityGroupsInput) (*ec2.DescribeSecurityGroupsOutput, error) {
	rows, next, err := paged(e.s, in.NextToken, aws.ToInt32(in.MaxResults), func() ([]types.SecurityGroup, error) {
		return selectRows(e.securityGroups.asOf(c.readTime()), in.GroupIds, "InvalidGroup.NotFound", securityGroupFilters, in.Filters)
	})
	return &ec2.DescribeSecurityGroupsOutput{SecurityGroups: rows, NextToken: next}, err
}

func (e *ec2Service) describeAvailabilityZones(_ *call, in *ec2.DescribeAvailabilityZonesInput) (*ec2.DescribeAvailabilityZonesOutput, error) {
	out := &ec2.DescribeAvailabilityZonesOutput{}
	for _, z := range e.zones() {
		if len(in.ZoneNames) > 0 && !slices.Contains(in.ZoneNames, z) {
			continue
		}
		out.AvailabilityZones = append(out.AvailabilityZones, types.AvailabilityZone{
			ZoneName: aws.String(z), ZoneId: aws.String(e.zoneID(z)), RegionName: aws.String(e.s.options.Region),
			State: types.AvailabilityZoneStateAvailable, ZoneType: aws.String("availability-zone"), OptInStatus: types.AvailabilityZoneOptInStatusOptInNotRequired,
			GroupName: aws.String(e.s.options.Region), NetworkBorderGroup: aws.String(e.s.options.Region),
		})
	}
	return out, nil
}

var placementGroupFilters = filterable[types.PlacementGroup]{
	tags: func(v *types.PlacementGroup) []types.Tag { return v.Tags },
	values: map[string]func(*types.PlacementGroup) []string{
		"state":      func(v *types.PlacementGroup) []string { return []string{string(v.State)} },
		"group-name": func(v *types.PlacementGroup) []string { return one(v.GroupName) },
		"strategy":   func(v *types.PlacementGroup) []string { return []string{string(v.Strategy)} },
	},
}

func (e *ec2Service) describePlacementGroups(c *call, in *ec2.DescribePlacementGroupsInput) (*ec2.DescribePlacementGroupsOutput, error) {
	rows, err := selectRows(e.placementGroups.asOf(c.readTime()), in.GroupIds, "InvalidPlacementGroup.Unknown", placementGroupFilters, in.Filters)
	if len(in.GroupNames) > 0 {
		rows = slices.DeleteFunc(rows, func(p types.PlacementGroup) bool { return !slices.Contains(in.GroupNames, aws.ToString(p.GroupName)) })
	}
	return &ec2.DescribePlacementGroupsOutput{PlacementGroups: rows}, err
}

func (e *ec2Service) createPlacementGroup(_ *call, in *ec2.CreatePlacementGroupInput) (*ec2.CreatePlacementGroupOutput, error) {
	id := e.s.newID("pg")
	v := types.PlacementGroup{
		GroupId: aws.String(id), GroupName: in.GroupName, Strategy: in.Strategy, State: types.PlacementGroupStateAvailable,
		PartitionCount: in.PartitionCount, SpreadLevel: in.SpreadLevel, GroupArn: aws.String(e.s.arn("ec2", "placement-group/"+aws.ToString(in.GroupName))),
		Tags: specTags(in.TagSpecifications, types.ResourceTypePlacementGroup),
	}
	e.placementGroups.put(id, v)
	return &ec2.CreatePlacementGroupOutput{PlacementGroup: &v}, nil
}

var reservationFilters = filterable[types.CapacityReservation]{
	tags: func(v *types.CapacityReservation) []types.Tag { return v.Tags },
	values: map[string]func(*types.CapacityReservation) []string{
		"state":                   func(v *types.CapacityReservation) []string { return []string{string(v.State)} },
		"owner-id":                func(v *types.CapacityReservation) []string { return one(v.OwnerId) },
		"instance-type":           func(v *types.CapacityReservation) []string { return one(v.InstanceType) },
		"availability-zone":       func(v *types.CapacityReservation) []string { return one(v.AvailabilityZone) },
		"instance-match-criteria": func(v *types.CapacityReservation) []string { return []string{string(v.InstanceMatchCriteria)} },
	},
}

func (e *ec2Service) describeCapacityReservations(c *call, in *ec2.DescribeCapacityReservationsInput) (*ec2.DescribeCapacityReservationsOutput, error) {
	rows, next, err := paged(e.s, in.NextToken, aws.ToInt32(in.MaxResults), func() ([]types.CapacityReservation, error) {
		return selectRows(e.reservations.asOf(c.readTime()), in.CapacityReservationIds, "InvalidCapacityReservationId.NotFound", reservationFilters, in.Filters)
	})
	return &ec2.DescribeCapacityReservationsOutput{CapacityReservations: rows, NextToken: next}, err
}

// createCapacityReservation records a reservation; launches do not use it up.
func (e *ec2Service) createCapacityReservation(_ *call, in *ec2.CreateCapacityReservationInput) (*ec2.CreateCapacityReservationOutput, error) {
	id := e.s.newID("cr")
	v := types.CapacityReservation{
		CapacityReservationId: aws.String(id), CapacityReservationArn: aws.String(e.s.arn("ec2", "capacity-reservation/"+id)),
		OwnerId: aws.String(accountID), InstanceType: in.InstanceType, AvailabilityZone: in.AvailabilityZone,
		InstancePlatform: in.InstancePlatform, InstanceMatchCriteria: in.InstanceMatchCriteria, State: types.CapacityReservationStateActive,
		TotalInstanceCount: in.InstanceCount, AvailableInstanceCount: in.InstanceCount, CreateDate: aws.Time(e.s.now()), StartDate: aws.Time(e.s.now()),
		EndDateType: in.EndDateType, EndDate: in.EndDate, ReservationType: types.CapacityReservationTypeDefault,
		Tags: specTags(in.TagSpecifications, types.ResourceTypeCapacityReservation),
	}
	e.reservations.put(id, v)
	return &ec2.CreateCapacityReservationOutput{CapacityReservation: &v}, nil
}

// specTags are the tags that a request gives to one kind of resource it creates.
func specTags(specs []types.TagSpecification, of types.ResourceType) []types.Tag {
	var tags []types.Tag
	for _, s := range specs {
		if s.ResourceType == of {
			tags = mergeTags(tags, s.Tags)
		}
	}
	return tags
}
