package pricing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/castoff-sh/castoff/e2e/awssim/simtest"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func overSimulator(t *testing.T) (*Client, simtest.World) {
	t.Helper()
	w := simtest.Start(t)
	list, compute := pricing.NewFromConfig(w.Config), ec2.NewFromConfig(w.Config)
	return &Client{
		Products: list.GetProducts, SpotPrices: compute.DescribeSpotPriceHistory, InstanceTypes: compute.DescribeInstanceTypes,
		Clock: func() time.Time { return now },
	}, w
}

func TestFetchOverHTTP(t *testing.T) {
	c, w := overSimulator(t)
	got, err := c.Fetch(t.Context(), "us-east-1", []string{"m5.large", "m6g.large", "m5.metal", "nosuch.large"})
	simtest.Check(t, err)
	want := map[string]inventory.InstanceType{
		"m5.large": {
			Name: "m5.large", Architecture: "amd64", VCPUs: 2, MemoryMiB: 8192, MaxPods: 29, OnDemand: 0.096,
			Spot: map[string]float64{"us-east-1a": 0.0288, "us-east-1b": 0.03072, "us-east-1c": 0.03264},
		},
		"m6g.large": {
			Name: "m6g.large", Architecture: "arm64", VCPUs: 2, MemoryMiB: 8192, MaxPods: 29, OnDemand: 0.077,
			Spot: map[string]float64{"us-east-1a": 0.0231, "us-east-1b": 0.02464, "us-east-1c": 0.02618},
		},
		"m5.metal": {
			Name: "m5.metal", Architecture: "amd64", VCPUs: 96, MemoryMiB: 393216, MaxPods: 737, OnDemand: 4.608,
			Spot: map[string]float64{"us-east-1a": 1.3824, "us-east-1b": 1.47456, "us-east-1c": 1.56672},
		},
	}
	if diff := cmp.Diff(want, got, unpriced); diff != "" {
		t.Errorf("a type that does not exist is left out: -want +got\n%s", diff)
	}
	if writes, _ := w.Writes(t, 0); len(writes) > 0 {
		t.Errorf("it only reads: %v", writes)
	}
	if got, err := c.Fetch(t.Context(), "us-east-1", nil); err != nil || len(got) != 0 {
		t.Errorf("nothing asked, nothing told: %v %v", got, err)
	}
	got, err = c.Fetch(t.Context(), "eu-west-1", []string{"m5.large"})
	if err != nil || got["m5.large"].OnDemand != 0 {
		t.Errorf("the list has no price of another region here: %v %v", got, err)
	}
}

// unpriced is what this package passes on as EC2 says it.
var unpriced = cmpopts.IgnoreFields(inventory.InstanceType{}, "NetworkCards", "BandwidthMbps", "Interfaces", "AddressesPerInterface")

// What is not for sale by the hour for everybody is not on the list: it is left without a price, never given another one's.
func TestPricesThatAreNotTheseOnes(t *testing.T) {
	document := func(change func(product, attributes map[string]any)) string {
		attributes := map[string]any{"tenancy": "Shared"}
		product := map[string]any{"productFamily": "Compute Instance", "attributes": attributes}
		change(product, attributes)
		b, err := json.Marshal(map[string]any{"product": product, "terms": map[string]any{"OnDemand": map[string]any{"t": map[string]any{"priceDimensions": map[string]any{
			"d": map[string]any{"pricePerUnit": map[string]string{"USD": "0.5"}},
		}}}}})
		simtest.Check(t, err)
		return string(b)
	}
	cases := map[string]struct {
		reason string
		change func(product, attributes map[string]any)
		want   float64
	}{
		"Shared":       {"the price that everybody pays", func(_, _ map[string]any) {}, 0.5},
		"Host":         {"a dedicated host is paid as a whole", func(_, a map[string]any) { a["tenancy"] = "Host" }, 0},
		"NoTenancy":    {"an entry that does not say", func(_, a map[string]any) { delete(a, "tenancy") }, 0},
		"Lower":        {"AWS writes it with a capital", func(_, a map[string]any) { a["tenancy"] = "shared" }, 0},
		"MetalShared":  {"metal on a list that calls it shared", func(p, _ map[string]any) { p["productFamily"] = "Compute Instance (bare metal)" }, 0.5},
		"OtherProduct": {"dedicated of any other kind", func(p, a map[string]any) { p["productFamily"], a["tenancy"] = "Dedicated Host", "Dedicated" }, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := doubles()
			c.Products = func(context.Context, *pricing.GetProductsInput, ...func(*pricing.Options)) (*pricing.GetProductsOutput, error) {
				return &pricing.GetProductsOutput{PriceList: []string{document(tc.change)}}, nil
			}
			got, err := c.onDemand(t.Context(), "us-east-1", "m5.large")
			simtest.Check(t, err)
			if got != tc.want {
				t.Errorf("%s: %v, want %v", tc.reason, got, tc.want)
			}
		})
	}
}

// The question names all that tells one price from another: without one of these the list answers with ten.
func TestThePriceThatIsAskedFor(t *testing.T) {
	c, asked := doubles(), map[string]string{}
	c.Products = func(_ context.Context, in *pricing.GetProductsInput, _ ...func(*pricing.Options)) (*pricing.GetProductsOutput, error) {
		for _, f := range in.Filters {
			asked[aws.ToString(f.Field)] = aws.ToString(f.Value)
		}
		return &pricing.GetProductsOutput{}, nil
	}
	got, err := c.onDemand(t.Context(), "eu-central-1", "m7i.large")
	if err != nil || got != 0 {
		t.Errorf("an empty list has no price, and that is no error: %v, %v", got, err)
	}
	want := map[string]string{
		"instanceType": "m7i.large", "regionCode": "eu-central-1", "operatingSystem": "Linux", "preInstalledSw": "NA", "capacitystatus": "Used", "marketoption": "OnDemand",
	}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// Spot prices come newest first in one zone and in any order over several pages; the latest of each zone counts.
func TestTheLatestSpotPriceOfEachZone(t *testing.T) {
	row := func(zone, usd string, ago time.Duration) ec2types.SpotPrice {
		return ec2types.SpotPrice{InstanceType: "m5.large", AvailabilityZone: aws.String(zone), SpotPrice: aws.String(usd), Timestamp: aws.Time(now.Add(-ago))}
	}
	cases := map[string]struct {
		reason string
		rows   []ec2types.SpotPrice
		want   map[string]float64
	}{
		"None":     {"a type that is not sold as spot", nil, nil},
		"Newest":   {"in the order that EC2 answers in", []ec2types.SpotPrice{row("a", "0.03", 0), row("a", "0.09", time.Hour)}, map[string]float64{"a": 0.03}},
		"Oldest":   {"and in the other", []ec2types.SpotPrice{row("a", "0.09", time.Hour), row("a", "0.03", 0)}, map[string]float64{"a": 0.03}},
		"Zones":    {"each has its own", []ec2types.SpotPrice{row("a", "0.03", 0), row("b", "0.02", time.Minute)}, map[string]float64{"a": 0.03, "b": 0.02}},
		"Nonsense": {"what is no price is not one, and does not hide the one before", []ec2types.SpotPrice{row("a", "x", 0), row("a", "0.04", time.Hour), row("b", "0", 0), row("c", "", 0)}, map[string]float64{"a": 0.04}},
		"NoTime":   {"a row without a time is older than all others", []ec2types.SpotPrice{row("a", "0.03", 0), {InstanceType: "m5.large", AvailabilityZone: aws.String("a"), SpotPrice: aws.String("0.5")}}, map[string]float64{"a": 0.03}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := doubles()
			c.SpotPrices = func(_ context.Context, in *ec2.DescribeSpotPriceHistoryInput, _ ...func(*ec2.Options)) (*ec2.DescribeSpotPriceHistoryOutput, error) {
				if !in.StartTime.Equal(now) || len(in.InstanceTypes) != 1 {
					t.Errorf("asked from %v on for %v: the history is long", in.StartTime, in.InstanceTypes)
				}
				return &ec2.DescribeSpotPriceHistoryOutput{SpotPriceHistory: tc.rows}, nil
			}
			got, err := c.spot(t.Context(), []string{"m5.large"})
			simtest.Check(t, err)
			if diff := cmp.Diff(tc.want, got["m5.large"]); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

// entry is one of the price list, as AWS writes it.
func entry(tenancy, family, usd string) string {
	b, _ := json.Marshal(map[string]any{
		"product": map[string]any{"productFamily": family, "attributes": map[string]string{"tenancy": tenancy}},
		"terms":   map[string]any{"OnDemand": map[string]any{"t": map[string]any{"priceDimensions": map[string]any{"d": map[string]any{"pricePerUnit": map[string]string{"USD": usd}}}}}},
	})
	return string(b)
}

func TestParse(t *testing.T) {
	const family = "Compute Instance"
	cases := map[string]struct {
		reason, document string
		want             float64
		err              bool
	}{
		"Shared":     {reason: "the price that counts", document: entry("Shared", family, "0.0960000000"), want: 0.096},
		"Dedicated":  {reason: "another tenancy has another price", document: entry("Dedicated", family, "0.1")},
		"Metal":      {reason: "metal is dedicated by nature", document: entry("Dedicated", family+" (bare metal)", "4.608"), want: 4.608},
		"Free":       {reason: "0 is no price: a capacity reservation's own entry", document: entry("Shared", family, "0.0000000000")},
		"Yuan":       {reason: "China's list has no US dollars", document: strings.ReplaceAll(entry("Shared", family, "1"), "USD", "CNY")},
		"NoNumber":   {reason: "no guess", document: entry("Shared", family, "free")},
		"Empty":      {reason: "nothing in it", document: "{}"},
		"NoTerms":    {reason: "a product without terms", document: `{"product":{"attributes":{"tenancy":"Shared"}}}`},
		"NoJSON":     {reason: "cut off", document: `{"product":`, err: true},
		"OtherShape": {reason: "a list where an object should be", document: `{"terms":[]}`, err: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := parse(tc.document)
			if got != tc.want || (err != nil) != tc.err {
				t.Errorf("%s: got %v, %v", tc.reason, got, err)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add(entry("Shared", "Compute Instance", "0.1"))
	f.Add(`{"terms":{"OnDemand":{"a":{"priceDimensions":{"b":{"pricePerUnit":null}}}}}}`)
	f.Fuzz(func(t *testing.T, document string) {
		if usd, err := parse(document); usd < 0 || (err != nil && usd != 0) {
			t.Errorf("%v, %v", usd, err)
		}
	})
}

// doubles answer in pages, each of one row, and with what AWS may leave out.
func doubles() *Client {
	row := func(kind, zone, usd string, at time.Time) ec2types.SpotPrice {
		return ec2types.SpotPrice{InstanceType: ec2types.InstanceType(kind), AvailabilityZone: aws.String(zone), SpotPrice: aws.String(usd), Timestamp: aws.Time(at)}
	}
	history := []ec2types.SpotPrice{
		row("m5.large", "a", "0.02", now), row("m5.large", "a", "0.05", now.Add(-time.Hour)), row("m5.large", "b", "much", now), {}, row("m5.large", "c", "-1", now),
	}
	described := []ec2types.InstanceTypeInfo{{InstanceType: "m5.large"}, {InstanceType: "odd.large", VCpuInfo: &ec2types.VCpuInfo{}, NetworkInfo: &ec2types.NetworkInfo{}}}
	page := func(token *string, n int) (int, *string) {
		at := len(aws.ToString(token))
		if at+1 < n {
			return at, aws.String(strings.Repeat("x", at+1))
		}
		return at, aws.String("")
	}
	return &Client{
		Clock: func() time.Time { return now },
		Products: func(_ context.Context, in *pricing.GetProductsInput, _ ...func(*pricing.Options)) (*pricing.GetProductsOutput, error) {
			list := []string{entry("Shared", "Compute Instance", "0.2"), entry("Shared", "Compute Instance", "0.1"), entry("Host", "Compute Instance", "0.01")}
			at, next := page(in.NextToken, len(list))
			return &pricing.GetProductsOutput{PriceList: list[at : at+1], NextToken: next}, nil
		},
		SpotPrices: func(_ context.Context, in *ec2.DescribeSpotPriceHistoryInput, _ ...func(*ec2.Options)) (*ec2.DescribeSpotPriceHistoryOutput, error) {
			at, next := page(in.NextToken, len(history))
			return &ec2.DescribeSpotPriceHistoryOutput{SpotPriceHistory: history[at : at+1], NextToken: next}, nil
		},
		InstanceTypes: func(_ context.Context, in *ec2.DescribeInstanceTypesInput, _ ...func(*ec2.Options)) (*ec2.DescribeInstanceTypesOutput, error) {
			at, next := page(in.NextToken, len(described))
			return &ec2.DescribeInstanceTypesOutput{InstanceTypes: described[at : at+1], NextToken: next}, nil
		},
	}
}

func TestFetchReadsEveryPage(t *testing.T) {
	got, err := doubles().Fetch(t.Context(), "us-east-1", []string{"m5.large", "odd.large"})
	simtest.Check(t, err)
	want := map[string]inventory.InstanceType{
		"m5.large":  {Name: "m5.large", Architecture: "amd64", OnDemand: 0.1, Spot: map[string]float64{"a": 0.02}},
		"odd.large": {Name: "odd.large", Architecture: "amd64", OnDemand: 0.1},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the latest spot price, the lowest of the list, and nothing for what AWS does not say: -want +got\n%s", diff)
	}
}

func TestManyTypesAreAskedForInBatches(t *testing.T) {
	c := doubles()
	var names []string
	for i := range 250 {
		names = append(names, fmt.Sprintf("t%d.large", i))
	}
	var sizes []int
	c.InstanceTypes = func(_ context.Context, in *ec2.DescribeInstanceTypesInput, _ ...func(*ec2.Options)) (*ec2.DescribeInstanceTypesOutput, error) {
		out := &ec2.DescribeInstanceTypesOutput{}
		for _, n := range in.Filters[0].Values {
			out.InstanceTypes = append(out.InstanceTypes, ec2types.InstanceTypeInfo{InstanceType: ec2types.InstanceType(n)})
		}
		sizes = append(sizes, len(out.InstanceTypes))
		return out, nil
	}
	var busy, most atomic.Int32
	products := c.Products
	c.Products = func(ctx context.Context, in *pricing.GetProductsInput, o ...func(*pricing.Options)) (*pricing.GetProductsOutput, error) {
		defer busy.Add(-1)
		if n := busy.Add(1); n > most.Load() {
			most.Store(n)
		}
		return products(ctx, in, o...)
	}
	got, err := c.Fetch(t.Context(), "us-east-1", names)
	simtest.Check(t, err)
	if len(got) != 250 || !slices.Equal(sizes, []int{100, 100, 50}) || most.Load() > together {
		t.Errorf("%d types in batches of %v, at most %d prices at a time", len(got), sizes, most.Load())
	}
}

func TestFetchFails(t *testing.T) {
	refused := errors.New("refused")
	cases := map[string]struct {
		spoil func(*Client)
		want  string
	}{
		"Types": {func(c *Client) {
			c.InstanceTypes = func(context.Context, *ec2.DescribeInstanceTypesInput, ...func(*ec2.Options)) (*ec2.DescribeInstanceTypesOutput, error) {
				return nil, refused
			}
		}, "describing instance types: refused"},
		"Spot": {func(c *Client) {
			c.SpotPrices = func(context.Context, *ec2.DescribeSpotPriceHistoryInput, ...func(*ec2.Options)) (*ec2.DescribeSpotPriceHistoryOutput, error) {
				return nil, refused
			}
		}, "reading spot prices: refused"},
		"List": {func(c *Client) {
			c.Products = func(context.Context, *pricing.GetProductsInput, ...func(*pricing.Options)) (*pricing.GetProductsOutput, error) {
				return nil, refused
			}
		}, "reading the price of m5.large: refused"},
		"Garbage": {func(c *Client) {
			c.Products = func(context.Context, *pricing.GetProductsInput, ...func(*pricing.Options)) (*pricing.GetProductsOutput, error) {
				return &pricing.GetProductsOutput{PriceList: []string{"{"}}, nil
			}
		}, "reading the price of m5.large: unexpected end of JSON input"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := doubles()
			kinds := c.InstanceTypes
			c.InstanceTypes = func(ctx context.Context, in *ec2.DescribeInstanceTypesInput, o ...func(*ec2.Options)) (*ec2.DescribeInstanceTypesOutput, error) {
				out, err := kinds(ctx, in, o...)
				out.NextToken = nil
				return out, err
			}
			tc.spoil(c)
			_, err := c.Fetch(t.Context(), "us-east-1", []string{"m5.large"})
			if err == nil || err.Error() != tc.want {
				t.Errorf("want %q, got %v", tc.want, err)
			}
		})
	}
}

func TestEndpoint(t *testing.T) {
	for partition, want := range map[string]string{"aws": "us-east-1", "": "us-east-1", "aws-cn": "cn-northwest-1", "aws-us-gov": "", "aws-iso": ""} {
		if got := Endpoint(partition); got != want {
			t.Errorf("%s: want %q, got %q", partition, want, got)
		}
	}
}
