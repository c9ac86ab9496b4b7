package awssim

import (
	"encoding/json"
	"fmt"
	"strconv"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	pricingtypes "github.com/aws/aws-sdk-go-v2/service/pricing/types"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
)

func TestImageParameters(t *testing.T) {
	l := newLab(t, Options{})
	for minor := 30; minor <= 36; minor++ {
		for _, arch := range []types.ArchitectureValues{"x86_64", "arm64"} {
			for _, path := range []string{
				fmt.Sprintf("/aws/service/eks/optimized-ami/1.%d/amazon-linux-2023/%s/standard/recommended/image_id", minor, arch),
				fmt.Sprintf("/aws/service/eks/optimized-ami/1.%[1]d/amazon-linux-2023/%[2]s/standard/amazon-eks-node-al2023-%[2]s-standard-1.%[1]d-v20260107/image_id", minor, arch),
				fmt.Sprintf("/aws/service/bottlerocket/aws-k8s-1.%d/%s/latest/image_id", minor, arch),
				fmt.Sprintf("/aws/service/bottlerocket/aws-k8s-1.%d/%s/1.51.0/image_id", minor, arch),
			} {
				out, err := l.ssm.GetParameter(ctx, &ssm.GetParameterInput{Name: &path})
				ok(t, err)
				images, err := l.ec2.DescribeImages(ctx, &ec2.DescribeImagesInput{ImageIds: []string{*out.Parameter.Value}})
				ok(t, err)
				if got := images.Images[0].Architecture; got != arch {
					t.Errorf("%s is an image for %s", path, got)
				}
			}
		}
	}
	_, err := l.ssm.GetParameter(ctx, &ssm.GetParameterInput{Name: aws.String("/aws/service/eks/optimized-ami/1.29/amazon-linux-2023/x86_64/standard/recommended/image_id")})
	wantCode(t, err, "ParameterNotFound", "a version that has no images any more")
}

func TestRecommendedIsTheNewest(t *testing.T) {
	l := newLab(t, Options{})
	dir := "/aws/service/eks/optimized-ami/1.33/amazon-linux-2023/x86_64/standard/"
	out, err := l.ssm.GetParameters(ctx, &ssm.GetParametersInput{Names: []string{
		dir + "recommended/image_id", dir + "amazon-eks-node-al2023-x86_64-standard-1.33-v20260204/image_id", dir + "amazon-eks-node-al2023-x86_64-standard-1.33-v20260107/image_id", "none",
	}})
	ok(t, err)
	if len(out.Parameters) != 3 || len(out.InvalidParameters) != 1 {
		t.Fatalf("parameters %v, invalid %v", out.Parameters, out.InvalidParameters)
	}
	recommended, newest, older := *out.Parameters[0].Value, *out.Parameters[1].Value, *out.Parameters[2].Value
	if recommended != newest || recommended == older {
		t.Errorf("recommended %s, newest %s, older %s", recommended, newest, older)
	}
}

func TestParameters(t *testing.T) {
	l := newLab(t, Options{})
	put := func(name, value string, overwrite bool) error {
		_, err := l.ssm.PutParameter(ctx, &ssm.PutParameterInput{Name: &name, Value: &value, Type: "String", Overwrite: &overwrite})
		return err
	}
	ok(t, put("/mine/a", "1", false))
	ok(t, put("/mine/deep/b", "2", false))
	wantCode(t, put("/mine/a", "3", false), "ParameterAlreadyExists", "it is there already")
	ok(t, put("/mine/a", "3", true))
	wantCode(t, put("/aws/a", "1", false), "ValidationException", "AWS keeps that name to itself")
	for _, recursive := range []bool{false, true} {
		out, err := l.ssm.GetParametersByPath(ctx, &ssm.GetParametersByPathInput{Path: aws.String("/mine"), Recursive: &recursive})
		ok(t, err)
		if want := map[bool]int{false: 1, true: 2}[recursive]; len(out.Parameters) != want || *out.Parameters[0].Value != "3" || out.Parameters[0].Version != 2 {
			t.Errorf("recursive %t: %d parameters, want %d", recursive, len(out.Parameters), want)
		}
	}
}

// TestPrices asks as Karpenter does.
func TestPrices(t *testing.T) {
	l := newLab(t, Options{})
	match := func(field, value string) pricingtypes.Filter {
		return pricingtypes.Filter{Field: &field, Value: &value, Type: pricingtypes.FilterTypeTermMatch}
	}
	cases := map[string]struct {
		tenancy, family string
		want            map[string]float64
		not             string
	}{
		"Shared":    {"Shared", "Compute Instance", map[string]float64{"m5.large": 0.096, "t3.medium": 0.0416}, "m5.metal"},
		"BareMetal": {"Dedicated", "Compute Instance (bare metal)", map[string]float64{"m5.metal": 4.608}, "m5.large"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := map[string]float64{}
			pages := pricing.NewGetProductsPaginator(l.pricing, &pricing.GetProductsInput{ServiceCode: aws.String("AmazonEC2"), MaxResults: aws.Int32(40), Filters: []pricingtypes.Filter{
				match("regionCode", "us-east-1"), match("serviceCode", "AmazonEC2"), match("preInstalledSw", "NA"), match("operatingSystem", "Linux"),
				match("capacitystatus", "Used"), match("marketoption", "OnDemand"), match("tenancy", tc.tenancy), match("productFamily", tc.family),
			}})
			for pages.HasMorePages() {
				page, err := pages.NextPage(ctx)
				ok(t, err)
				for _, text := range page.PriceList {
					name, usd := readPrice(t, text)
					got[name] = usd
				}
			}
			for name, usd := range tc.want {
				if got[name] != usd {
					t.Errorf("%s costs %g, want %g", name, got[name], usd)
				}
			}
			if _, found := got[tc.not]; found {
				t.Errorf("%s is none of these", tc.not)
			}
		})
	}
	_, err := l.pricing.GetProducts(ctx, &pricing.GetProductsInput{ServiceCode: aws.String("AmazonRDS")})
	wantCode(t, err, "InvalidParameterException", "a service without prices here")
}

func readPrice(t *testing.T, text string) (string, float64) {
	t.Helper()
	var item struct {
		Product struct{ Attributes struct{ InstanceType string } }
		Terms   struct {
			OnDemand map[string]struct {
				PriceDimensions map[string]struct{ PricePerUnit map[string]string }
			}
		}
	}
	ok(t, json.Unmarshal([]byte(text), &item))
	for _, term := range item.Terms.OnDemand {
		for _, dimension := range term.PriceDimensions {
			usd, err := strconv.ParseFloat(dimension.PricePerUnit["USD"], 64)
			ok(t, err)
			return item.Product.Attributes.InstanceType, usd
		}
	}
	t.Fatalf("no price in %s", text)
	return "", 0
}
