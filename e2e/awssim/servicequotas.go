package awssim

import (
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/servicequotas"
	"github.com/aws/aws-sdk-go-v2/service/servicequotas/types"
)

const (
	quotaOnDemand = "L-1216C47A"
	quotaSpot     = "L-34B43A08"
)

// quotasService simulates the Service Quotas of EC2 that bound instances by vCPUs.
type quotasService struct {
	s      *Server
	quotas map[string]types.ServiceQuota
}

func newServiceQuotas(s *Server) *quotasService {
	q := &quotasService{s: s, quotas: map[string]types.ServiceQuota{}}
	q.add(quotaOnDemand, "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances", usageOnDemand)
	q.add(quotaSpot, "All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests", usageSpot)
	on(s, "servicequotas.GetServiceQuota", q.getServiceQuota)
	on(s, "servicequotas.ListServiceQuotas", q.listServiceQuotas)
	on(s, "servicequotas.RequestServiceQuotaIncrease", q.requestIncrease)
	s.vCPULimit = q.vCPULimit
	return q
}

// The classes of CloudWatch's usage metric that the quotas count by.
const (
	usageOnDemand = "Standard/OnDemand"
	usageSpot     = "Standard/Spot"
)

func (q *quotasService) add(code, name, class string) {
	q.quotas[code] = types.ServiceQuota{
		ServiceCode: aws.String("ec2"), ServiceName: aws.String("Amazon Elastic Compute Cloud (Amazon EC2)"), QuotaCode: aws.String(code), QuotaName: aws.String(name),
		QuotaArn: aws.String(q.s.arn("servicequotas", "ec2/"+code)), Value: aws.Float64(20000), Adjustable: true, Unit: aws.String("None"),
		UsageMetric: &types.MetricInfo{
			MetricNamespace: aws.String(usageNamespace), MetricName: aws.String(usageMetric), MetricStatisticRecommendation: aws.String("Maximum"),
			MetricDimensions: map[string]string{"Service": "EC2", "Type": "Resource", "Resource": "vCPU", "Class": class},
		},
	}
}

// vCPULimit is the quota for standard instance families; there is none here for the others.
func (q *quotasService) vCPULimit(instanceType string, spot bool) (float64, bool) {
	if instanceType == "" || !strings.ContainsRune("acdhimrtz", rune(instanceType[0])) {
		return 0, false
	}
	code := quotaOnDemand
	if spot {
		code = quotaSpot
	}
	return aws.ToFloat64(q.quotas[code].Value), true
}

func (q *quotasService) quota(service, code *string) (types.ServiceQuota, error) {
	x, ok := q.quotas[aws.ToString(code)]
	if !ok || aws.ToString(service) != "ec2" {
		return x, errorf("NoSuchResourceException", "The request failed because the specified service quota %s/%s does not exist.", aws.ToString(service), aws.ToString(code))
	}
	return x, nil
}

func (q *quotasService) getServiceQuota(_ *call, in *servicequotas.GetServiceQuotaInput) (*servicequotas.GetServiceQuotaOutput, error) {
	x, err := q.quota(in.ServiceCode, in.QuotaCode)
	if err != nil {
		return nil, err
	}
	return &servicequotas.GetServiceQuotaOutput{Quota: &x}, nil
}

func (q *quotasService) listServiceQuotas(_ *call, in *servicequotas.ListServiceQuotasInput) (*servicequotas.ListServiceQuotasOutput, error) {
	out := &servicequotas.ListServiceQuotasOutput{Quotas: []types.ServiceQuota{}}
	if aws.ToString(in.ServiceCode) != "ec2" {
		return out, nil
	}
	for _, code := range slices.Sorted(maps.Keys(q.quotas)) {
		out.Quotas = append(out.Quotas, q.quotas[code])
	}
	return out, nil
}

// requestIncrease grants any value at once, a lower one too: this is how a test sets a quota.
func (q *quotasService) requestIncrease(_ *call, in *servicequotas.RequestServiceQuotaIncreaseInput) (*servicequotas.RequestServiceQuotaIncreaseOutput, error) {
	x, err := q.quota(in.ServiceCode, in.QuotaCode)
	if err != nil {
		return nil, err
	}
	x.Value = in.DesiredValue
	q.quotas[aws.ToString(in.QuotaCode)] = x
	return &servicequotas.RequestServiceQuotaIncreaseOutput{RequestedQuota: &types.RequestedServiceQuotaChange{
		ServiceCode: in.ServiceCode, QuotaCode: in.QuotaCode, DesiredValue: in.DesiredValue, Status: types.RequestStatusApproved}}, nil
}
