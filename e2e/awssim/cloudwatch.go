package awssim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
)

// evaluateEvery is how often alarms are looked at. An alarm in state ALARM runs its scaling policies each time.
const evaluateEvery = time.Minute

// cloudwatchService simulates Amazon CloudWatch's metrics, as far as alarms need them, and alarms.
// A metric keeps the value that was last put, as if it were reported every minute.
type cloudwatchService struct {
	s       *Server
	alarms  *table[types.MetricAlarm]
	metrics map[string]float64
	// breaching is since when each alarm's metric has been beyond its threshold.
	breaching map[string]time.Time
	ticking   bool
}

func newCloudWatch(s *Server) *cloudwatchService {
	w := &cloudwatchService{s: s, alarms: newTable[types.MetricAlarm](s), metrics: map[string]float64{}, breaching: map[string]time.Time{}}
	on(s, "monitoring.PutMetricAlarm", w.putMetricAlarm)
	on(s, "monitoring.PutMetricData", w.putMetricData)
	on(s, "monitoring.GetMetricData", w.getMetricData)
	on(s, "monitoring.DescribeAlarms", w.describeAlarms)
	on(s, "monitoring.DeleteAlarms", w.deleteAlarms)
	on(s, "monitoring.SetAlarmState", w.setAlarmState)
	return w
}

func (w *cloudwatchService) putMetricAlarm(_ *call, in *cloudwatch.PutMetricAlarmInput) (*cloudwatch.PutMetricAlarmOutput, error) {
	if in.Threshold == nil || in.ComparisonOperator == "" || or(in.EvaluationPeriods, 0) < 1 {
		return nil, errorf("ValidationError", "An alarm needs a Threshold, a ComparisonOperator and EvaluationPeriods.")
	}
	w.put(types.MetricAlarm{
		AlarmName: in.AlarmName, AlarmDescription: in.AlarmDescription, ActionsEnabled: aws.Bool(or(in.ActionsEnabled, true)),
		AlarmActions: in.AlarmActions, OKActions: in.OKActions, InsufficientDataActions: in.InsufficientDataActions,
		Namespace: in.Namespace, MetricName: in.MetricName, Dimensions: in.Dimensions, Statistic: in.Statistic, ExtendedStatistic: in.ExtendedStatistic,
		Period: in.Period, EvaluationPeriods: in.EvaluationPeriods, DatapointsToAlarm: in.DatapointsToAlarm, Threshold: in.Threshold,
		ComparisonOperator: in.ComparisonOperator, TreatMissingData: in.TreatMissingData, Unit: in.Unit, Metrics: in.Metrics,
	})
	return &cloudwatch.PutMetricAlarmOutput{}, nil
}

// put stores an alarm; one of that name keeps its state, as PutMetricAlarm documents.
func (w *cloudwatchService) put(al types.MetricAlarm) {
	name := aws.ToString(al.AlarmName)
	al.AlarmArn = aws.String(w.s.arn("cloudwatch", "alarm:"+name))
	al.AlarmConfigurationUpdatedTimestamp = aws.Time(w.s.now())
	al.StateValue, al.StateReason = types.StateValueInsufficientData, aws.String("Unchecked: Initial alarm creation")
	al.StateUpdatedTimestamp = aws.Time(w.s.now())
	if old, ok := w.alarms.get(name); ok {
		al.StateValue, al.StateReason, al.StateUpdatedTimestamp = old.StateValue, old.StateReason, old.StateUpdatedTimestamp
	}
	w.alarms.put(name, al)
	w.tick()
}

func (w *cloudwatchService) drop(name string) {
	w.alarms.delete(name)
	delete(w.breaching, name)
}

// withAction lists the alarms that point at an ARN.
func (w *cloudwatchService) withAction(arn string) []types.MetricAlarm {
	return w.alarms.truth().where(func(al *types.MetricAlarm) bool { return slices.Contains(al.AlarmActions, arn) })
}

// removeAction takes an ARN out of all alarms.
func (w *cloudwatchService) removeAction(arn string) {
	for _, al := range w.withAction(arn) {
		al.AlarmActions = slices.DeleteFunc(al.AlarmActions, func(x string) bool { return x == arn })
		w.alarms.put(aws.ToString(al.AlarmName), al)
	}
}

func (w *cloudwatchService) putMetricData(_ *call, in *cloudwatch.PutMetricDataInput) (*cloudwatch.PutMetricDataOutput, error) {
	for _, d := range in.MetricData {
		if d.Value == nil {
			return nil, errorf("InvalidParameterValue", "The simulator takes metric data with a Value only.")
		}
		w.metrics[metricKey(in.Namespace, d.MetricName, d.Dimensions)] = *d.Value
	}
	w.evaluate()
	w.tick()
	return &cloudwatch.PutMetricDataOutput{}, nil
}

func metricKey(namespace, name *string, dimensions []types.Dimension) string {
	parts := []string{}
	for _, d := range dimensions {
		parts = append(parts, aws.ToString(d.Name)+"="+aws.ToString(d.Value))
	}
	slices.Sort(parts)
	return aws.ToString(namespace) + "/" + aws.ToString(name) + "{" + strings.Join(parts, ",") + "}"
}

// tick keeps alarms evaluated while there are any and a metric to evaluate.
func (w *cloudwatchService) tick() {
	if w.ticking || len(w.metrics) == 0 || len(w.alarms.list()) == 0 {
		return
	}
	w.ticking = true
	w.s.after(evaluateEvery, func() {
		w.ticking = false
		w.evaluate()
		w.tick()
	})
}

// evaluate moves every alarm with a metric to the state that it is in, and runs the actions of those in ALARM.
func (w *cloudwatchService) evaluate() {
	for _, al := range w.alarms.list() {
		value, known := w.metrics[metricKey(al.Namespace, al.MetricName, al.Dimensions)]
		if !known {
			continue
		}
		name := aws.ToString(al.AlarmName)
		state := types.StateValueOk
		if breaches(al, value) {
			if w.breaching[name].IsZero() {
				w.breaching[name] = w.s.now()
			}
			needed := time.Duration(or(al.Period, 60)) * time.Duration(or(al.EvaluationPeriods, 1)) * time.Second
			if w.s.now().Sub(w.breaching[name]) < needed {
				continue
			}
			state = types.StateValueAlarm
		} else {
			delete(w.breaching, name)
		}
		w.transition(al, state, fmt.Sprintf("Threshold %g, value %g", aws.ToFloat64(al.Threshold), value))
		if state == types.StateValueAlarm {
			w.act(al, value)
		}
	}
}

func breaches(al types.MetricAlarm, value float64) bool {
	threshold := aws.ToFloat64(al.Threshold)
	switch al.ComparisonOperator {
	case types.ComparisonOperatorGreaterThanThreshold:
		return value > threshold
	case types.ComparisonOperatorGreaterThanOrEqualToThreshold:
		return value >= threshold
	case types.ComparisonOperatorLessThanThreshold:
		return value < threshold
	case types.ComparisonOperatorLessThanOrEqualToThreshold:
		return value <= threshold
	}
	return false
}

func (w *cloudwatchService) transition(al types.MetricAlarm, to types.StateValue, reason string) {
	if al.StateValue == to {
		return
	}
	al.StateValue, al.StateReason = to, aws.String(reason)
	al.StateUpdatedTimestamp, al.StateTransitionedTimestamp = aws.Time(w.s.now()), aws.Time(w.s.now())
	w.alarms.put(aws.ToString(al.AlarmName), al)
}

// act runs the scaling policies that an alarm points at.
func (w *cloudwatchService) act(al types.MetricAlarm, value float64) {
	if !or(al.ActionsEnabled, true) {
		return
	}
	for _, arn := range al.AlarmActions {
		w.s.autoscaling.alarmed(al, arn, value)
	}
}

// setAlarmState forces a state, which runs the actions once; the next evaluation sets it right again.
func (w *cloudwatchService) setAlarmState(_ *call, in *cloudwatch.SetAlarmStateInput) (*cloudwatch.SetAlarmStateOutput, error) {
	al, ok := w.alarms.get(aws.ToString(in.AlarmName))
	if !ok {
		return nil, errorStatus(404, "ResourceNotFound", "Unknown alarm: %s", aws.ToString(in.AlarmName))
	}
	w.transition(al, in.StateValue, aws.ToString(in.StateReason))
	if in.StateValue == types.StateValueAlarm {
		value, known := w.metrics[metricKey(al.Namespace, al.MetricName, al.Dimensions)]
		if !known {
			value = aws.ToFloat64(al.Threshold)
		}
		w.act(al, value)
	}
	return &cloudwatch.SetAlarmStateOutput{}, nil
}

func (w *cloudwatchService) describeAlarms(_ *call, in *cloudwatch.DescribeAlarmsInput) (*cloudwatch.DescribeAlarmsOutput, error) {
	list := w.alarms.truth().where(func(al *types.MetricAlarm) bool {
		byAction := in.ActionPrefix == nil || slices.ContainsFunc(al.AlarmActions, func(x string) bool { return strings.HasPrefix(x, *in.ActionPrefix) })
		return named(in.AlarmNames, al.AlarmName) && strings.HasPrefix(aws.ToString(al.AlarmName), aws.ToString(in.AlarmNamePrefix)) &&
			byAction && (in.StateValue == "" || in.StateValue == al.StateValue)
	})
	list, next, err := pageOf(w.s, list, in.MaxRecords, 50, in.NextToken)
	if err != nil {
		return nil, err
	}
	return &cloudwatch.DescribeAlarmsOutput{MetricAlarms: append([]types.MetricAlarm{}, list...), NextToken: next}, nil
}

// deleteAlarms deletes all of the alarms named, or none when one is missing.
func (w *cloudwatchService) deleteAlarms(_ *call, in *cloudwatch.DeleteAlarmsInput) (*cloudwatch.DeleteAlarmsOutput, error) {
	for _, name := range in.AlarmNames {
		if _, ok := w.alarms.get(name); !ok {
			return nil, errorStatus(404, "ResourceNotFound", "Unknown alarm: %s", name)
		}
	}
	for _, name := range in.AlarmNames {
		w.drop(name)
	}
	return &cloudwatch.DeleteAlarmsOutput{}, nil
}
