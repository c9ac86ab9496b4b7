package awssim

import (
	"encoding/json"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	"github.com/aws/aws-sdk-go-v2/service/pricing/types"
)

// registerPricing adds the AWS Price List: on-demand prices of EC2 instances on Linux.
func (s *Server) registerPricing() {
	on(s, "pricing.GetProducts", s.getProducts)
}

func (s *Server) getProducts(_ *call, in *pricing.GetProductsInput) (*pricing.GetProductsOutput, error) {
	if aws.ToString(in.ServiceCode) != "AmazonEC2" {
		return nil, errorf("InvalidParameterException", "the simulator has prices of AmazonEC2 only, not of %q", aws.ToString(in.ServiceCode))
	}
	rows, next, err := paged(s, in.NextToken, pageSize(in.MaxResults, 100), func() ([]string, error) {
		all, err := instanceTypes()
		rows := []string{}
		for _, t := range all {
			attributes := s.productAttributes(t)
			if matchesProduct(attributes, in.Filters) {
				rows = append(rows, product(attributes, t.USDPerHour))
			}
		}
		return rows, err
	})
	return &pricing.GetProductsOutput{FormatVersion: aws.String("aws_v1"), PriceList: rows, NextToken: next}, err
}

// productAttributes are what a product can be filtered by.
func (s *Server) productAttributes(t instanceType) map[string]string {
	a := map[string]string{
		"instanceType": string(t.Info.InstanceType), "regionCode": s.options.Region, "serviceCode": "AmazonEC2", "servicecode": "AmazonEC2",
		"preInstalledSw": "NA", "operatingSystem": "Linux", "capacitystatus": "Used", "marketoption": "OnDemand",
		"tenancy": "Shared", "productFamily": "Compute Instance",
	}
	if aws.ToBool(t.Info.BareMetal) {
		a["tenancy"], a["productFamily"] = "Dedicated", "Compute Instance (bare metal)"
	}
	return a
}

func matchesProduct(attributes map[string]string, filters []types.Filter) bool {
	for _, f := range filters {
		if attributes[aws.ToString(f.Field)] != aws.ToString(f.Value) {
			return false
		}
	}
	return true
}

// product writes an entry of the price list, https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/reading-service-price-list-file.html.
func product(attributes map[string]string, usdPerHour float64) string {
	sku := stableHex(attributes["instanceType"], 16)
	b, _ := json.Marshal(map[string]any{ // maps of strings always marshal
		"serviceCode": "AmazonEC2",
		"product":     map[string]any{"sku": sku, "productFamily": attributes["productFamily"], "attributes": attributes},
		"terms": map[string]any{"OnDemand": map[string]any{sku + ".term": map[string]any{"priceDimensions": map[string]any{sku + ".term.rate": map[string]any{
			"unit": "Hrs", "pricePerUnit": map[string]string{"USD": fmt.Sprintf("%.10f", usdPerHour)},
		}}}}},
	})
	return string(b)
}
