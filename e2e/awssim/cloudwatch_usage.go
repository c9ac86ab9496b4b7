package awssim

import (
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
)

// AWS reports the use of a quota in this namespace and metric, every five minutes at most (CloudWatch user guide, "AWS usage metrics").
const (
	usageNamespace = "AWS/Usage"
	usageMetric    = "ResourceCount"
)

// getMetricData answers each query that names a metric with its last value, and expressions with nothing.
func (w *cloudwatchService) getMetricData(_ *call, in *cloudwatch.GetMetricDataInput) (*cloudwatch.GetMetricDataOutput, error) {
	if in.StartTime == nil || in.EndTime == nil || len(in.MetricDataQueries) == 0 {
		return nil, errorf("MissingParameter", "GetMetricData needs StartTime, EndTime and MetricDataQueries.")
	}
	out := &cloudwatch.GetMetricDataOutput{MetricDataResults: []types.MetricDataResult{}}
	for _, q := range in.MetricDataQueries {
		r := types.MetricDataResult{Id: q.Id, StatusCode: types.StatusCodeComplete, Values: []float64{}, Timestamps: []time.Time{}}
		if q.MetricStat != nil && q.MetricStat.Metric != nil {
			if v, ok := w.value(*q.MetricStat.Metric); ok {
				r.Values, r.Timestamps = append(r.Values, v), append(r.Timestamps, aws.ToTime(in.StartTime))
			}
		}
		out.MetricDataResults = append(out.MetricDataResults, r)
	}
	return out, nil
}

func (w *cloudwatchService) value(m types.Metric) (float64, bool) {
	if v, ok := w.metrics[metricKey(m.Namespace, m.MetricName, m.Dimensions)]; ok {
		return v, true
	}
	if aws.ToString(m.Namespace) != usageNamespace || aws.ToString(m.MetricName) != usageMetric {
		return 0, false
	}
	for _, d := range m.Dimensions {
		if class := aws.ToString(d.Value); aws.ToString(d.Name) == "Class" && (class == usageOnDemand || class == usageSpot) {
			return float64(w.s.ec2.vCPUsInUse(class == usageSpot)), true
		}
	}
	return 0, false
}
