package awssim

import (
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// noDHCPOptions is the ID that stands for no option set at all.
const noDHCPOptions = "default"

// defaultDHCPOptions is the ID of the region's own option set, which every new VPC has; it is made for the first.
func (e *ec2Service) defaultDHCPOptions() string {
	for _, o := range e.dhcpOptions.list() {
		return aws.ToString(o.DhcpOptionsId)
	}
	domain := e.s.options.Region + ".compute.internal"
	if e.s.options.Region == "us-east-1" {
		domain = "ec2.internal"
	}
	return e.putDHCPOptions(map[string][]string{"domain-name": {domain}, "domain-name-servers": {"AmazonProvidedDNS"}}, nil)
}

func (e *ec2Service) putDHCPOptions(configurations map[string][]string, tags []types.Tag) string {
	o := types.DhcpOptions{DhcpOptionsId: aws.String(e.s.newID("dopt")), OwnerId: aws.String(accountID), Tags: tags}
	for _, key := range []string{"domain-name", "domain-name-servers", "ntp-servers"} {
		var values []types.AttributeValue
		for _, v := range configurations[key] {
			values = append(values, types.AttributeValue{Value: aws.String(v)})
		}
		if values != nil {
			o.DhcpConfigurations = append(o.DhcpConfigurations, types.DhcpConfiguration{Key: aws.String(key), Values: values})
		}
	}
	e.dhcpOptions.put(*o.DhcpOptionsId, o)
	return *o.DhcpOptionsId
}

func (e *ec2Service) createDHCPOptions(_ *call, in *ec2.CreateDhcpOptionsInput) (*ec2.CreateDhcpOptionsOutput, error) {
	e.defaultDHCPOptions() // which stays the first
	configurations := map[string][]string{}
	for _, c := range in.DhcpConfigurations {
		configurations[aws.ToString(c.Key)] = c.Values
	}
	o, _ := e.dhcpOptions.get(e.putDHCPOptions(configurations, specTags(in.TagSpecifications, types.ResourceTypeDhcpOptions)))
	return &ec2.CreateDhcpOptionsOutput{DhcpOptions: &o}, nil
}

func (e *ec2Service) associateDHCPOptions(_ *call, in *ec2.AssociateDhcpOptionsInput) (*ec2.AssociateDhcpOptionsOutput, error) {
	v, ok := e.vpcs.get(aws.ToString(in.VpcId))
	if !ok {
		return nil, errorf("InvalidVpcID.NotFound", "The vpc ID '%s' does not exist", aws.ToString(in.VpcId))
	}
	id := aws.ToString(in.DhcpOptionsId)
	if _, ok := e.dhcpOptions.get(id); !ok && id != noDHCPOptions {
		return nil, missingDHCPOptions(id)
	}
	v.DhcpOptionsId = in.DhcpOptionsId
	e.vpcs.put(*v.VpcId, v)
	return &ec2.AssociateDhcpOptionsOutput{}, nil
}

func (e *ec2Service) describeDHCPOptions(c *call, in *ec2.DescribeDhcpOptionsInput) (*ec2.DescribeDhcpOptionsOutput, error) {
	rows, next, err := paged(e.s, in.NextToken, aws.ToInt32(in.MaxResults), func() ([]types.DhcpOptions, error) {
		if slices.Contains(in.DhcpOptionsIds, noDHCPOptions) {
			return nil, missingDHCPOptions(strings.Join(in.DhcpOptionsIds, ", "))
		}
		return selectRows(e.dhcpOptions.asOf(c.readTime()), in.DhcpOptionsIds, "InvalidDhcpOptionID.NotFound", dhcpFilters, in.Filters)
	})
	return &ec2.DescribeDhcpOptionsOutput{DhcpOptions: rows, NextToken: next}, err
}

func missingDHCPOptions(id string) error {
	return errorf("InvalidDhcpOptionID.NotFound", "The dhcpOption ID '%s' does not exist", id)
}

var dhcpFilters = filterable[types.DhcpOptions]{
	tags:   func(o *types.DhcpOptions) []types.Tag { return o.Tags },
	values: map[string]func(*types.DhcpOptions) []string{"dhcp-options-id": func(o *types.DhcpOptions) []string { return one(o.DhcpOptionsId) }},
}
