package awssim

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/castoff-sh/castoff/e2e/awssim/simapi"
)

// TestAWSCommandLine drives the simulator with the aws command line: a client with another implementation of every
// protocol than the SDK for Go, which the other tests share with the simulator itself.
func TestAWSCommandLine(t *testing.T) {
	if testing.Short() {
		t.Skip("NOT RUN: the aws command line takes seconds a command, and -short was asked for")
	}
	aws, err := exec.LookPath("aws")
	if err != nil {
		t.Skip("NOT RUN: the aws command line is not installed on this machine")
	}
	l := newLab(t, Options{Settings: simapi.Settings{ShutdownDelay: time.Minute}})
	run := func(args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), aws, append([]string{"--endpoint-url", *l.cfg.BaseEndpoint, "--output", "text"}, args...)...)
		cmd.Env = append(os.Environ(), "AWS_ACCESS_KEY_ID=cli", "AWS_SECRET_ACCESS_KEY=secret", "AWS_SESSION_TOKEN=", "AWS_DEFAULT_REGION=us-east-1", "AWS_REGION=us-east-1",
			"AWS_PAGER=", "AWS_CONFIG_FILE=/dev/null", "AWS_SHARED_CREDENTIALS_FILE=/dev/null", "AWS_MAX_ATTEMPTS=1")
		var out, complaint bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &complaint
		err := cmd.Run()
		return strings.TrimSpace(out.String() + complaint.String()), err
	}
	i := *l.run(t, nil).InstanceId
	queue := "https://sqs.us-east-1.amazonaws.com/123456789012/prod"
	steps := []struct {
		args    string
		want    string
		failing bool
	}{
		{args: "sts get-caller-identity --query Arn", want: "arn:aws:iam::123456789012:user/cli"},
		{args: "ec2 describe-instances --filters Name=instance-id,Values=" + i + " --query Reservations[].Instances[].[InstanceType,State.Name,Placement.AvailabilityZone]", want: "m5.large\trunning\tus-east-1a"},
		{args: "ec2 terminate-instances --instance-ids i-none", want: "InvalidInstanceID.NotFound", failing: true},
		{args: "sqs create-queue --queue-name prod --attributes MessageRetentionPeriod=300 --query QueueUrl", want: queue},
		{args: "sqs list-queues --query QueueUrls", want: queue},
		{args: "sqs get-queue-url --queue-name none", want: "AWS.SimpleQueueService.NonExistentQueue", failing: true},
		{args: `iam create-role --role-name node --assume-role-policy-document {"Statement":[]} --query Role.Arn`, want: "arn:aws:iam::123456789012:role/node"},
		{args: "iam get-role --role-name none", want: "NoSuchEntity", failing: true},
		{args: "autoscaling describe-auto-scaling-groups --query length(AutoScalingGroups)", want: "0"},
		{args: "eks describe-cluster --name none", want: "ResourceNotFoundException", failing: true},
		{args: "cloudwatch describe-alarms --query length(MetricAlarms)", want: "0"},
	}
	for _, s := range steps {
		out, err := run(strings.Fields(s.args)...)
		if (err != nil) != s.failing {
			t.Errorf("aws %s: %v: %s", s.args, err, out)
			continue
		}
		if s.failing && !strings.Contains(out, "("+s.want+")") || !s.failing && out != s.want {
			t.Errorf("aws %s: want %q, got %q", s.args, s.want, out)
		}
	}
	t.Logf("ran %d commands of %s", len(steps), aws)
}
