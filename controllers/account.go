package controllers

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/servicequotas"
)

// quotaCalls and usageCalls are the one call each of Service Quotas and of CloudWatch that castoff makes, held as functions for the
// same reason as ec2Calls.
type (
	quotaCalls struct {
		serviceQuota func(context.Context, *servicequotas.GetServiceQuotaInput, ...func(*servicequotas.Options)) (*servicequotas.GetServiceQuotaOutput, error)
	}
	usageCalls struct {
		metricData func(context.Context, *cloudwatch.GetMetricDataInput, ...func(*cloudwatch.Options)) (*cloudwatch.GetMetricDataOutput, error)
	}
)

// GetServiceQuota is the SDK's.
func (c quotaCalls) GetServiceQuota(ctx context.Context, in *servicequotas.GetServiceQuotaInput, o ...func(*servicequotas.Options)) (*servicequotas.GetServiceQuotaOutput, error) {
	return c.serviceQuota(ctx, in, o...)
}

// GetMetricData is the SDK's.
func (c usageCalls) GetMetricData(ctx context.Context, in *cloudwatch.GetMetricDataInput, o ...func(*cloudwatch.Options)) (*cloudwatch.GetMetricDataOutput, error) {
	return c.metricData(ctx, in, o...)
}
