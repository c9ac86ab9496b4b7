package awssim

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/servicequotas"
)

func TestVCPUQuotaBoundsGroups(t *testing.T) {
	s := newScaled(t)
	q := servicequotas.NewFromConfig(s.cfg)
	_, err := q.RequestServiceQuotaIncrease(ctx, &servicequotas.RequestServiceQuotaIncreaseInput{ServiceCode: aws.String("ec2"), QuotaCode: aws.String(quotaOnDemand), DesiredValue: aws.Float64(4)})
	ok(t, err)
	out, err := q.GetServiceQuota(ctx, &servicequotas.GetServiceQuotaInput{ServiceCode: aws.String("ec2"), QuotaCode: aws.String(quotaOnDemand)})
	ok(t, err)
	if v := aws.ToFloat64(out.Quota.Value); v != 4 {
		t.Errorf("quota is %g, want what was requested", v)
	}
	s.create(t, 0, 9, 3, nil) // m5.large has two vCPUs
	s.wantInService(t, 2, "four vCPUs make two instances")
	last := s.activities(t)[0]
	if last.StatusCode != types.ScalingActivityStatusCodeFailed || !strings.Contains(aws.ToString(last.StatusMessage), "VcpuLimitExceeded") {
		t.Errorf("last activity is %s %q, want it to name the quota", last.StatusCode, aws.ToString(last.StatusMessage))
	}
	spot, err := q.GetServiceQuota(ctx, &servicequotas.GetServiceQuotaInput{ServiceCode: aws.String("ec2"), QuotaCode: aws.String(quotaSpot)})
	ok(t, err)
	if aws.ToFloat64(spot.Quota.Value) <= 4 {
		t.Errorf("the spot quota is %g, want it to be one of its own", aws.ToFloat64(spot.Quota.Value))
	}
	list, err := q.ListServiceQuotas(ctx, &servicequotas.ListServiceQuotasInput{ServiceCode: aws.String("ec2")})
	ok(t, err)
	if len(list.Quotas) != 2 {
		t.Errorf("%d quotas, want the two of vCPUs", len(list.Quotas))
	}
	_, err = q.GetServiceQuota(ctx, &servicequotas.GetServiceQuotaInput{ServiceCode: aws.String("ec2"), QuotaCode: aws.String("L-0")})
	wantCode(t, err, "NoSuchResourceException", "a quota that does not exist")
}
