package awssim

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/castoff-sh/castoff/e2e/awssim/simapi"
)

// ctx of the requests that tests make.
var ctx = context.Background()

// epoch is when simulated worlds begin in tests.
var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// newTestServer serves a simulator whose clock only moves by Advance, and returns SDK configuration for the user "tester".
func newTestServer(t *testing.T, o Options) (*Server, aws.Config) {
	t.Helper()
	if o.Now == nil {
		o.Now = func() time.Time { return epoch }
	}
	s := New(o)
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	return s, configFor(h.URL, "tester")
}

// configFor is what an SDK client needs to reach the simulator as that user, without retries.
func configFor(url, user string) aws.Config {
	return aws.Config{
		Region: "us-east-1", BaseEndpoint: aws.String(url),
		Credentials: credentials.NewStaticCredentialsProvider(user, "secret", ""),
		Retryer:     func() aws.Retryer { return aws.NopRetryer{} },
		HTTPClient:  bufferedClient{},
	}
}

// bufferedClient keeps the request's body out of the SDK's reach while it is sent, see largeReply: on a busy machine no
// delay is long enough for a test that must never fail.
type bufferedClient struct{}

func (bufferedClient) Do(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		r.Body = io.NopCloser(bytes.NewReader(b))
	}
	return http.DefaultClient.Do(r)
}

// do runs f under the simulator's lock.
func do(s *Server, f func()) {
	s.lock()
	defer s.unlock()
	f()
}

// lab is a simulator with real SDK clients, a VPC with a subnet in each zone, and a security group.
type lab struct {
	*Server
	cfg     aws.Config
	side    *simapi.Client
	ec2     *ec2.Client
	iam     *iam.Client
	sts     *sts.Client
	sqs     *sqs.Client
	events  *eventbridge.Client
	ssm     *ssm.Client
	pricing *pricing.Client

	vpc, group string
	subnets    []string // in zones a, b, c
	image      string   // Amazon Linux 2023 for x86_64
}

func newLab(t *testing.T, o Options) *lab {
	t.Helper()
	s, cfg := newTestServer(t, o)
	l := &lab{
		Server: s, cfg: cfg, side: simapi.NewClient(*cfg.BaseEndpoint), ec2: ec2.NewFromConfig(cfg), iam: iam.NewFromConfig(cfg), sts: sts.NewFromConfig(cfg),
		sqs: sqs.NewFromConfig(cfg), events: eventbridge.NewFromConfig(cfg), ssm: ssm.NewFromConfig(cfg), pricing: pricing.NewFromConfig(cfg),
	}
	vpc, err := l.ec2.CreateVpc(ctx, &ec2.CreateVpcInput{CidrBlock: aws.String("10.0.0.0/16")})
	ok(t, err)
	l.vpc = *vpc.Vpc.VpcId
	for i, zone := range []string{"a", "b", "c"} {
		subnet, err := l.ec2.CreateSubnet(ctx, &ec2.CreateSubnetInput{
			VpcId: vpc.Vpc.VpcId, CidrBlock: aws.String("10.0." + string(rune('0'+i)) + ".0/24"), AvailabilityZone: aws.String("us-east-1" + zone),
			TagSpecifications: tagged(types.ResourceTypeSubnet, "zone", zone),
		})
		ok(t, err)
		l.subnets = append(l.subnets, *subnet.Subnet.SubnetId)
	}
	group, err := l.ec2.CreateSecurityGroup(ctx, &ec2.CreateSecurityGroupInput{GroupName: aws.String("nodes"), Description: aws.String("nodes"), VpcId: vpc.Vpc.VpcId})
	ok(t, err)
	l.group = *group.GroupId
	image, err := l.ssm.GetParameter(ctx, &ssm.GetParameterInput{Name: aws.String("/aws/service/eks/optimized-ami/1.33/amazon-linux-2023/x86_64/standard/recommended/image_id")})
	ok(t, err)
	l.image = *image.Parameter.Value
	return l
}

// tagged is one tag for a new resource.
func tagged(of types.ResourceType, key, value string) []types.TagSpecification {
	return []types.TagSpecification{{ResourceType: of, Tags: []types.Tag{{Key: aws.String(key), Value: aws.String(value)}}}}
}

// run starts one instance in zone a; change may alter the request.
func (l *lab) run(t *testing.T, change func(*ec2.RunInstancesInput)) types.Instance {
	t.Helper()
	in := &ec2.RunInstancesInput{ImageId: aws.String(l.image), InstanceType: "m5.large", SubnetId: aws.String(l.subnets[0]), MinCount: aws.Int32(1), MaxCount: aws.Int32(1)}
	if change != nil {
		change(in)
	}
	out, err := l.ec2.RunInstances(ctx, in)
	ok(t, err)
	return out.Instances[0]
}

// seen is the state of an instance as DescribeInstances shows it; empty when it is not shown.
func (l *lab) seen(id string) types.InstanceStateName {
	out, err := l.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{id}})
	if err != nil || len(out.Reservations) == 0 {
		return ""
	}
	return out.Reservations[0].Instances[0].State.Name
}

// template makes a launch template of the lab's image.
func (l *lab) template(t *testing.T, name string, change func(*types.RequestLaunchTemplateData)) {
	t.Helper()
	data := &types.RequestLaunchTemplateData{ImageId: aws.String(l.image), InstanceType: "m5.large", SecurityGroupIds: []string{l.group}}
	if change != nil {
		change(data)
	}
	_, err := l.ec2.CreateLaunchTemplate(ctx, &ec2.CreateLaunchTemplateInput{LaunchTemplateName: aws.String(name), LaunchTemplateData: data})
	ok(t, err)
}
