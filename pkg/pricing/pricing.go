// Package pricing is the port to what EC2 instance types are and what they cost: the AWS Price List, the history of spot prices and
// EC2's own description of the types. It only reads.
package pricing

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	"github.com/aws/aws-sdk-go-v2/service/pricing/types"
	"golang.org/x/sync/errgroup"

	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/inventory/awsapi"
)

// call is a method of an SDK client.
type call[I, O, F any] func(context.Context, *I, ...func(*F)) (*O, error)

// Client makes the three calls, each held as a function: an SDK client put into an interface keeps all of its operations in the
// binary (docs/design/0005-memory.md).
type Client struct {
	Products      call[pricing.GetProductsInput, pricing.GetProductsOutput, pricing.Options]
	SpotPrices    call[ec2.DescribeSpotPriceHistoryInput, ec2.DescribeSpotPriceHistoryOutput, ec2.Options]
	InstanceTypes call[ec2.DescribeInstanceTypesInput, ec2.DescribeInstanceTypesOutput, ec2.Options]
	Clock         func() time.Time
}

// Endpoint is the region in which the price list of a region's partition is asked; it is served in few. Empty: the partition has
// none. https://docs.aws.amazon.com/general/latest/gr/billing.html
func Endpoint(partition string) string {
	switch partition {
	case "aws", "":
		return "us-east-1"
	case "aws-cn":
		return "cn-northwest-1"
	}
	return ""
}

const (
	// together is how many prices are asked for at a time.
	together = 8
	// batch is how many types DescribeInstanceTypes takes at once.
	batch = 100
)

// Fetch describes the instance types and their Linux prices in a region. A type that EC2 does not know, or a price that is not on
// the list, is left out; it is no error. The error names the call that failed.
func (c *Client) Fetch(ctx context.Context, region string, names []string) (map[string]inventory.InstanceType, error) {
	if len(names) == 0 {
		return nil, nil
	}
	out, err := c.describe(ctx, names)
	if err != nil {
		return nil, err
	}
	known := slices.Sorted(maps.Keys(out))
	var spot map[string]map[string]float64
	onDemand := map[string]float64{}
	var lock sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(together)
	g.Go(func() (err error) { spot, err = c.spot(ctx, known); return err })
	for _, name := range known {
		g.Go(func() error {
			usd, err := c.onDemand(ctx, region, name)
			lock.Lock()
			defer lock.Unlock()
			onDemand[name] = usd
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	for name, t := range out {
		t.OnDemand, t.Spot = onDemand[name], spot[name]
		out[name] = t
	}
	return out, nil
}

// describe asks by filter: a name that does not exist is then no error, but a type less.
func (c *Client) describe(ctx context.Context, names []string) (map[string]inventory.InstanceType, error) {
	out := map[string]inventory.InstanceType{}
	for some := range slices.Chunk(names, batch) {
		in := &ec2.DescribeInstanceTypesInput{Filters: []ec2types.Filter{{Name: aws.String("instance-type"), Values: some}}}
		for {
			page, err := c.InstanceTypes(ctx, in)
			if err != nil {
				return nil, fmt.Errorf("describing instance types: %w", err)
			}
			for _, t := range page.InstanceTypes {
				out[string(t.InstanceType)] = awsapi.InstanceType(t)
			}
			if aws.ToString(page.NextToken) == "" {
				break
			}
			in.NextToken = page.NextToken
		}
	}
	return out, nil
}

// spot is the latest price by type and zone: with a start of now, the history begins with what is in force.
func (c *Client) spot(ctx context.Context, names []string) (map[string]map[string]float64, error) {
	out, seen := map[string]map[string]float64{}, map[[2]string]time.Time{}
	now := c.Clock()
	for some := range slices.Chunk(names, batch) {
		in := &ec2.DescribeSpotPriceHistoryInput{StartTime: &now, EndTime: &now, ProductDescriptions: []string{"Linux/UNIX", "Linux/UNIX (Amazon VPC)"}}
		for _, name := range some {
			in.InstanceTypes = append(in.InstanceTypes, ec2types.InstanceType(name))
		}
		for {
			page, err := c.SpotPrices(ctx, in)
			if err != nil {
				return nil, fmt.Errorf("reading spot prices: %w", err)
			}
			for _, p := range page.SpotPriceHistory {
				keep(out, seen, p)
			}
			if aws.ToString(page.NextToken) == "" {
				break
			}
			in.NextToken = page.NextToken
		}
	}
	return out, nil
}

func keep(out map[string]map[string]float64, seen map[[2]string]time.Time, p ec2types.SpotPrice) {
	name, zone := string(p.InstanceType), aws.ToString(p.AvailabilityZone)
	usd, err := strconv.ParseFloat(aws.ToString(p.SpotPrice), 64)
	if err != nil || usd <= 0 || aws.ToTime(p.Timestamp).Before(seen[[2]string{name, zone}]) {
		return
	}
	if out[name] == nil {
		out[name] = map[string]float64{}
	}
	out[name][zone], seen[[2]string{name, zone}] = usd, aws.ToTime(p.Timestamp)
}

// onDemand is a type's price an hour on Linux without licences, on shared tenancy; 0 when the list has none.
func (c *Client) onDemand(ctx context.Context, region, name string) (float64, error) {
	in := &pricing.GetProductsInput{ServiceCode: aws.String("AmazonEC2"), FormatVersion: aws.String("aws_v1")}
	for field, value := range map[string]string{
		"instanceType": name, "regionCode": region, "operatingSystem": "Linux", "preInstalledSw": "NA", "capacitystatus": "Used",
		"marketoption": "OnDemand",
	} {
		in.Filters = append(in.Filters, types.Filter{Type: types.FilterTypeTermMatch, Field: aws.String(field), Value: aws.String(value)})
	}
	best := 0.0
	for {
		page, err := c.Products(ctx, in)
		if err != nil {
			return 0, fmt.Errorf("reading the price of %s: %w", name, err)
		}
		for _, document := range page.PriceList {
			usd, err := parse(document)
			if err != nil {
				return 0, fmt.Errorf("reading the price of %s: %w", name, err)
			}
			if usd > 0 && (best == 0 || usd < best) {
				best = usd
			}
		}
		if aws.ToString(page.NextToken) == "" {
			return best, nil
		}
		in.NextToken = page.NextToken
	}
}

// parse reads an entry of the price list. Metal types have dedicated tenancy by nature; of all others shared tenancy is what counts.
// https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/reading-service-price-list-file.html
func parse(document string) (float64, error) {
	var entry struct {
		Product struct {
			ProductFamily string `json:"productFamily"`
			Attributes    struct {
				Tenancy string `json:"tenancy"`
			} `json:"attributes"`
		} `json:"product"`
		Terms struct {
			OnDemand map[string]struct {
				PriceDimensions map[string]struct {
					PricePerUnit map[string]string `json:"pricePerUnit"`
				} `json:"priceDimensions"`
			}
		} `json:"terms"`
	}
	if err := json.Unmarshal([]byte(document), &entry); err != nil {
		return 0, err
	}
	if entry.Product.Attributes.Tenancy != "Shared" && entry.Product.ProductFamily != "Compute Instance (bare metal)" {
		return 0, nil
	}
	for _, term := range entry.Terms.OnDemand {
		for _, dimension := range term.PriceDimensions {
			if usd, err := strconv.ParseFloat(dimension.PricePerUnit["USD"], 64); err == nil && usd > 0 {
				return usd, nil
			}
		}
	}
	return 0, nil
}
