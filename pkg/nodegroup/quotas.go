package nodegroup

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	cwtypes "github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
	"github.com/aws/aws-sdk-go-v2/service/servicequotas"
	sqtypes "github.com/aws/aws-sdk-go-v2/service/servicequotas/types"

	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/inventory/awsapi"
)

// usageAge is how far back the use of a quota is looked for: AWS reports it every five minutes at most, and late at times.
const usageAge = 15 * time.Minute

// quotas reads the limits that count the groups' families, and of each how much is in use, by the metric that the quota itself names
// (AWS/Usage): AWS's own count, by one call. Counting instances instead would take the right to see every instance of the account.
func (s *survey) quotas(ctx context.Context) error {
	if s.account.Quotas == nil || s.account.Usage == nil {
		return nil
	}
	var quotas []sqtypes.ServiceQuota
	for _, code := range quotaCodes(s.groups) {
		out, err := s.account.Quotas.GetServiceQuota(ctx, &servicequotas.GetServiceQuotaInput{ServiceCode: aws.String("ec2"), QuotaCode: aws.String(code)})
		if awsapi.Is(err, "NoSuchResourceException") {
			continue // a region that has no such families
		}
		if err != nil {
			return s.missed(err, "servicequotas:GetServiceQuota", "vCPU quotas")
		}
		if out.Quota != nil && out.Quota.Value != nil && out.Quota.UsageMetric != nil {
			quotas = append(quotas, *out.Quota)
		}
	}
	if len(quotas) == 0 {
		return nil
	}
	used, err := s.usage(ctx, quotas)
	if err != nil {
		return s.missed(err, "cloudwatch:GetMetricData", "vCPUs in use")
	}
	for i, q := range quotas {
		if inUse, known := used[i]; known {
			s.out.Quotas = append(s.out.Quotas, inventory.VCPUQuota{Code: aws.ToString(q.QuotaCode), Name: aws.ToString(q.QuotaName), Limit: *q.Value, InUse: inUse})
		}
	}
	return nil
}

// quotaCodes are those of the types that the groups may launch, on-demand and spot: Karpenter may launch either.
func quotaCodes(groups []inventory.NodeGroup) []string {
	var codes []string
	for _, g := range groups {
		for _, t := range g.Types {
			codes = append(codes, inventory.QuotaCode(t.Name, false), inventory.QuotaCode(t.Name, true))
		}
	}
	slices.Sort(codes)
	return slices.DeleteFunc(slices.Compact(codes), func(code string) bool { return code == "" })
}

// usage is the last value of each quota's metric, by the quota's place. An account that uses nothing of a quota has no such metric, which
// is 0.
func (s *survey) usage(ctx context.Context, quotas []sqtypes.ServiceQuota) (map[int]float64, error) {
	in := &cloudwatch.GetMetricDataInput{EndTime: aws.Time(s.account.Clock()), ScanBy: cwtypes.ScanByTimestampDescending}
	in.StartTime = aws.Time(in.EndTime.Add(-usageAge))
	place := map[string]int{}
	for i, q := range quotas {
		id := fmt.Sprintf("q%d", i)
		place[id] = i
		in.MetricDataQueries = append(in.MetricDataQueries, cwtypes.MetricDataQuery{Id: aws.String(id), MetricStat: &cwtypes.MetricStat{
			Period: aws.Int32(int32((5 * time.Minute).Seconds())), Stat: aws.String("Maximum"), Metric: usageMetric(*q.UsageMetric),
		}})
	}
	out, err := s.account.Usage.GetMetricData(ctx, in)
	if err != nil {
		return nil, err
	}
	used := map[int]float64{}
	for _, r := range out.MetricDataResults {
		i, asked := place[aws.ToString(r.Id)]
		if !asked || r.StatusCode != cwtypes.StatusCodeComplete {
			continue
		}
		used[i] = 0
		if len(r.Values) > 0 {
			used[i] = r.Values[0]
		}
	}
	return used, nil
}

func usageMetric(m sqtypes.MetricInfo) *cwtypes.Metric {
	out := &cwtypes.Metric{Namespace: m.MetricNamespace, MetricName: m.MetricName}
	for name, value := range m.MetricDimensions {
		out.Dimensions = append(out.Dimensions, cwtypes.Dimension{Name: aws.String(name), Value: aws.String(value)})
	}
	slices.SortFunc(out.Dimensions, func(a, b cwtypes.Dimension) int { return cmp.Compare(*a.Name, *b.Name) })
	return out
}
