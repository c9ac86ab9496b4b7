package awssim

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	cwtypes "github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/servicequotas"
)

func TestDHCPOptionsOfAVPC(t *testing.T) {
	l := newLab(t, Options{})
	c := l.ec2
	of := func() string {
		t.Helper()
		v, err := c.DescribeVpcs(ctx, &ec2.DescribeVpcsInput{})
		ok(t, err)
		return aws.ToString(v.Vpcs[0].DhcpOptionsId)
	}
	first, err := c.DescribeDhcpOptions(ctx, &ec2.DescribeDhcpOptionsInput{DhcpOptionsIds: []string{of()}})
	ok(t, err)
	if d := first.DhcpOptions[0].DhcpConfigurations; aws.ToString(d[0].Key) != "domain-name" || aws.ToString(d[0].Values[0].Value) != "ec2.internal" {
		t.Errorf("a new VPC's options begin with %v, want the region's domain", d[0])
	}
	made, err := c.CreateDhcpOptions(ctx, &ec2.CreateDhcpOptionsInput{DhcpConfigurations: []types.NewDhcpConfiguration{{Key: aws.String("domain-name"), Values: []string{"foo"}}}})
	ok(t, err)
	vpc := aws.String(l.vpc)
	_, err = c.AssociateDhcpOptions(ctx, &ec2.AssociateDhcpOptionsInput{VpcId: vpc, DhcpOptionsId: made.DhcpOptions.DhcpOptionsId})
	ok(t, err)
	if got := of(); got != aws.ToString(made.DhcpOptions.DhcpOptionsId) {
		t.Errorf("the VPC has %s, want the set that was associated", got)
	}
	_, err = c.AssociateDhcpOptions(ctx, &ec2.AssociateDhcpOptionsInput{VpcId: vpc, DhcpOptionsId: aws.String("dopt-0")})
	wantCode(t, err, "InvalidDhcpOptionID.NotFound", "a set that does not exist")
	_, err = c.AssociateDhcpOptions(ctx, &ec2.AssociateDhcpOptionsInput{VpcId: vpc, DhcpOptionsId: aws.String("default")})
	ok(t, err)
	_, err = c.DescribeDhcpOptions(ctx, &ec2.DescribeDhcpOptionsInput{DhcpOptionsIds: []string{"default"}})
	wantCode(t, err, "InvalidDhcpOptionID.NotFound", "no set at all is not a set")
}

func TestUsageOfAQuota(t *testing.T) {
	s := newScaled(t)
	s.create(t, 0, 9, 3, nil) // m5.large has two vCPUs
	s.wantInService(t, 3, "as asked")
	quota, err := servicequotas.NewFromConfig(s.cfg).GetServiceQuota(ctx, &servicequotas.GetServiceQuotaInput{ServiceCode: aws.String("ec2"), QuotaCode: aws.String(quotaOnDemand)})
	ok(t, err)
	m := quota.Quota.UsageMetric
	var dimensions []cwtypes.Dimension
	for k, v := range m.MetricDimensions {
		dimensions = append(dimensions, cwtypes.Dimension{Name: aws.String(k), Value: aws.String(v)})
	}
	query := func(id string, metric cwtypes.Metric) cwtypes.MetricDataQuery {
		return cwtypes.MetricDataQuery{Id: aws.String(id), MetricStat: &cwtypes.MetricStat{Metric: &metric, Period: aws.Int32(300), Stat: m.MetricStatisticRecommendation}}
	}
	w, end := cloudwatch.NewFromConfig(s.cfg), time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	out, err := w.GetMetricData(ctx, &cloudwatch.GetMetricDataInput{StartTime: aws.Time(end.Add(-time.Hour)), EndTime: aws.Time(end), MetricDataQueries: []cwtypes.MetricDataQuery{
		query("used", cwtypes.Metric{Namespace: m.MetricNamespace, MetricName: m.MetricName, Dimensions: dimensions}),
		query("other", cwtypes.Metric{Namespace: aws.String("Nobody"), MetricName: m.MetricName}),
	}})
	ok(t, err)
	if v := out.MetricDataResults[0].Values; len(v) != 1 || v[0] != 6 {
		t.Errorf("in use %v, want six vCPUs of three instances", v)
	}
	if v := out.MetricDataResults[1].Values; len(v) != 0 {
		t.Errorf("a metric that nobody reports has %v", v)
	}
	_, err = w.GetMetricData(ctx, &cloudwatch.GetMetricDataInput{StartTime: aws.Time(end), EndTime: aws.Time(end)})
	if err == nil {
		t.Error("no query was answered")
	}
}
