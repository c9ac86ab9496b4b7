package main

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/castoff-sh/castoff/e2e/awssim"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// The price list is asked over HTTP with the SDK's own chain of credentials, as from a shell.
func TestListPrices(t *testing.T) {
	server := httptest.NewServer(awssim.New(awssim.Options{Now: func() time.Time { return now }}))
	t.Cleanup(server.Close)
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL": server.URL, "AWS_ACCESS_KEY_ID": "jo", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "eu-west-1",
		"AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null", "AWS_EC2_METADATA_DISABLED": "true",
	} {
		t.Setenv(name, value)
	}
	got, err := listPrices(t.Context(), inventory.Cluster{Region: "us-east-1", Partition: "aws"}, []string{"m5.large", "u-9.none"})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]inventory.InstanceType{"m5.large": {
		Name: "m5.large", Architecture: "amd64", VCPUs: 2, MemoryMiB: 8192, MaxPods: 29, NetworkCards: 1, BandwidthMbps: 750, Interfaces: 3, AddressesPerInterface: 10, OnDemand: 0.096,
		Spot: map[string]float64{"us-east-1a": 0.0288, "us-east-1b": 0.03072, "us-east-1c": 0.03264},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the cluster's region counts, not the shell's: -want +got\n%s", diff)
	}
	_, err = listPrices(t.Context(), inventory.Cluster{Region: "us-gov-west-1", Partition: "aws-us-gov"}, nil)
	if message(err) != "AWS serves no price list in the partition aws-us-gov" {
		t.Errorf("got %v", err)
	}
}

func TestUnknown(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"Denied": {denied("Pricing", "GetProducts"), "Your AWS credentials may not call pricing:GetProducts. For prices they need ec2:DescribeInstanceTypes, ec2:DescribeSpotPriceHistory and pricing:GetProducts, which only read."},
		"Down":   {errDown, "The prices could not be read: connection refused."},
	} {
		if diff := cmp.Diff(tc.want, unknown(tc.err)); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
	}
}
