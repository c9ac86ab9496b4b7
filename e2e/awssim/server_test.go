package awssim

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	. "github.com/onsi/gomega"

	"github.com/castoff-sh/castoff/e2e/awssim/simapi"
)

// checkLag says why the simulator does not lag by two seconds: after a write, reads must show the old world and
// decisions the new one, and after two seconds both the new one.
func checkLag(t *testing.T, l *lab) error {
	i := l.run(t, nil)
	if state := l.seen(*i.InstanceId); state != "" {
		return fmt.Errorf("a new instance is seen at once, %s", state)
	}
	l.Advance(2 * time.Second)
	if state := l.seen(*i.InstanceId); state != "pending" {
		return fmt.Errorf("two seconds later the instance is %q, not pending", state)
	}
	if _, err := l.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{*i.InstanceId}}); err != nil {
		return fmt.Errorf("terminating: %w", err)
	}
	if state := l.seen(*i.InstanceId); state != "pending" {
		return fmt.Errorf("a terminated instance is seen %q at once", state)
	}
	again, err := l.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{*i.InstanceId}})
	if err != nil || again.TerminatingInstances[0].PreviousState.Name != "shutting-down" {
		return fmt.Errorf("a write does not see the truth: %+v, %w", again, err)
	}
	l.Advance(2 * time.Second)
	if state := l.seen(*i.InstanceId); state != "shutting-down" {
		return fmt.Errorf("two seconds after its end the instance is %q", state)
	}
	return nil
}

func TestLag(t *testing.T) {
	settings := simapi.Settings{PendingDelay: time.Minute, ShutdownDelay: time.Minute}
	t.Run("KnownBad", func(t *testing.T) {
		if err := checkLag(t, newLab(t, Options{Settings: settings})); err == nil {
			t.Error("the check passes a world without lag: it proves nothing")
		}
	})
	settings.Lag = 2 * time.Second
	t.Run("Lagging", func(t *testing.T) {
		if err := checkLag(t, newLab(t, Options{Settings: settings})); err != nil {
			t.Error(err)
		}
	})
}

// checkLostReply says why the fault does not make the effect and lose the reply, once.
func checkLostReply(l *lab, f simapi.Fault) error {
	if _, err := l.side.AddFault(ctx, f); err != nil {
		return err
	}
	in := &ec2.RunInstancesInput{ImageId: &l.image, InstanceType: "m5.large", SubnetId: &l.subnets[0], MinCount: aws.Int32(1), MaxCount: aws.Int32(1), ClientToken: aws.String("t")}
	if _, err := l.ec2.RunInstances(ctx, in); codeOf(err) != f.Code {
		return fmt.Errorf("the call answers %q, not %s", codeOf(err), f.Code)
	}
	made, err := l.side.Instances(ctx)
	if err != nil || len(made) != 1 {
		return fmt.Errorf("after the lost reply there are %d instances: %w", len(made), err)
	}
	out, err := l.ec2.RunInstances(ctx, in)
	if err != nil || *out.Instances[0].InstanceId != made[0].ID {
		return fmt.Errorf("repeating the call with its token does not answer the first instance: %w", err)
	}
	if made, _ = l.side.Instances(ctx); len(made) != 1 {
		return fmt.Errorf("the repeated call made another instance")
	}
	return nil
}

func TestFaultAfterTheEffect(t *testing.T) {
	fault := simapi.Fault{Service: "ec2", Operation: "RunInstances", Code: "InternalError", Status: 500, Times: 1}
	t.Run("KnownBad", func(t *testing.T) {
		if err := checkLostReply(newLab(t, Options{}), fault); err == nil {
			t.Error("the check passes a fault before the effect: it proves nothing")
		}
	})
	fault.After = true
	t.Run("After", func(t *testing.T) {
		if err := checkLostReply(newLab(t, Options{}), fault); err != nil {
			t.Error(err)
		}
	})
}

// codeOf is the AWS error code of an error; empty for none.
func codeOf(err error) string {
	var api interface{ ErrorCode() string }
	if errors.As(err, &api) {
		return api.ErrorCode()
	}
	if err != nil {
		return "no API error: " + err.Error()
	}
	return ""
}

func TestFaultsHitWhatTheyName(t *testing.T) {
	cases := map[string]struct {
		reason string
		fault  simapi.Fault
		want   []string // codes of four calls: DescribeVpcs, DescribeVpcs of another user, GetRole, DescribeVpcs again
	}{
		"Operation": {"only that operation fails, until the fault is removed", simapi.Fault{Service: "ec2", Operation: "DescribeVpcs", Code: "RequestLimitExceeded", Status: 503},
			[]string{"RequestLimitExceeded", "RequestLimitExceeded", "NoSuchEntity", "RequestLimitExceeded"}},
		"Prefix": {"a star matches what begins so", simapi.Fault{Operation: "Describe*", Code: "Throttling"},
			[]string{"Throttling", "Throttling", "NoSuchEntity", "Throttling"}},
		"Service":  {"a whole service", simapi.Fault{Service: "iam", Code: "AccessDenied", Status: 403}, []string{"", "", "AccessDenied", ""}},
		"Identity": {"one caller among others", simapi.Fault{Identity: "user/other", Code: "AccessDenied", Status: 403}, []string{"", "AccessDenied", "NoSuchEntity", ""}},
		"Contains": {"by what the request says", simapi.Fault{Contains: "vpc-none", Code: "Throttling"}, []string{"", "", "NoSuchEntity", ""}},
		"Times":    {"so many calls and no more", simapi.Fault{Service: "ec2", Code: "Throttling", Times: 2}, []string{"Throttling", "Throttling", "NoSuchEntity", ""}},
		"Capacity": {"a capacity fault hits launches only", simapi.Fault{InstanceType: "m5.large", Code: "InsufficientInstanceCapacity"}, []string{"", "", "NoSuchEntity", ""}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, Options{})
			other := ec2.NewFromConfig(configFor(*l.cfg.BaseEndpoint, "other"))
			added, err := l.side.AddFault(ctx, tc.fault)
			ok(t, err)
			describe := func(c *ec2.Client) string {
				_, err := c.DescribeVpcs(ctx, &ec2.DescribeVpcsInput{})
				return codeOf(err)
			}
			_, roleErr := l.iam.GetRole(ctx, &iam.GetRoleInput{RoleName: aws.String("none")})
			got := []string{describe(l.ec2), describe(other), codeOf(roleErr), describe(l.ec2)}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
			ok(t, l.side.RemoveFault(ctx, added.ID))
			left, err := l.side.Faults(ctx)
			ok(t, err)
			if len(left) != 0 || describe(l.ec2) != "" {
				t.Errorf("a removed fault must hit nothing: %v are left", left)
			}
		})
	}
}

func TestCallLog(t *testing.T) {
	var lines bytes.Buffer
	l := newLab(t, Options{CallLog: &lines})
	before, err := l.side.Calls(ctx, 0)
	ok(t, err)
	seen := before[len(before)-1].Seq
	_, err = l.side.AddFault(ctx, simapi.Fault{ID: "denied", Operation: "DeleteTags", Code: "UnauthorizedOperation", Status: 403})
	ok(t, err)
	dry := &ec2.TerminateInstancesInput{InstanceIds: []string{"i-1"}, DryRun: aws.Bool(true)}
	_, dryErr := l.ec2.TerminateInstances(ctx, dry)
	wantCode(t, dryErr, "DryRunOperation", "a dry run that would be allowed")
	_, err = l.ec2.DeleteTags(ctx, &ec2.DeleteTagsInput{Resources: []string{"i-1"}})
	wantCode(t, err, "UnauthorizedOperation", "ordered so")
	_, err = l.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{"i-1"}})
	wantCode(t, err, "InvalidInstanceID.NotFound", "there is none")
	_, err = l.ec2.DescribeVpcs(ctx, &ec2.DescribeVpcsInput{Filters: []types.Filter{{Name: aws.String("vpc-id"), Values: []string{l.vpc}}}})
	ok(t, err)

	got, err := l.side.Calls(ctx, seen)
	ok(t, err)
	me := "arn:aws:iam::123456789012:user/tester"
	want := []simapi.Call{
		{Seq: seen + 1, Time: epoch, Service: "ec2", Operation: "TerminateInstances", Identity: me, Status: 412, ErrorCode: "DryRunOperation", DryRun: true, Input: json.RawMessage(`{"DryRun":true,"InstanceIds":["i-1"]}`)},
		{Seq: seen + 2, Time: epoch, Service: "ec2", Operation: "DeleteTags", Identity: me, Status: 403, ErrorCode: "UnauthorizedOperation", Fault: "denied", Write: true, Input: json.RawMessage(`{"Resources":["i-1"]}`)},
		{Seq: seen + 3, Time: epoch, Service: "ec2", Operation: "TerminateInstances", Identity: me, Status: 400, ErrorCode: "InvalidInstanceID.NotFound", Write: true, Input: json.RawMessage(`{"InstanceIds":["i-1"]}`)},
		{Seq: seen + 4, Time: epoch, Service: "ec2", Operation: "DescribeVpcs", Identity: me, Status: 200, Input: json.RawMessage(`{"Filters":[{"Name":"vpc-id","Values":["` + l.vpc + `"]}]}`)},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the log must say who called what with what result (-want +got):\n%s", diff)
	}
	if n := strings.Count(lines.String(), "\n"); int64(n) != seen+4 {
		t.Errorf("the log file has %d lines for %d calls", n, seen+4)
	}
}

func TestWhatTheSimulatorDoesNotKnow(t *testing.T) {
	l := newLab(t, Options{})
	_, err := l.ec2.CreateNatGateway(ctx, &ec2.CreateNatGatewayInput{SubnetId: &l.subnets[0]})
	wantCode(t, err, "InvalidAction", "an operation that is not simulated")
	resp, err := http.Post(*l.cfg.BaseEndpoint, "application/x-www-form-urlencoded", strings.NewReader("Action=DescribeVpcs"))
	ok(t, err)
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusForbidden {
		t.Errorf("an unsigned request is answered %s", resp.Status)
	}
}

func TestMalformedRequestsAreRefused(t *testing.T) {
	l := newLab(t, Options{})
	cases := map[string]struct {
		reason, service, contentType, target, body string
		want                                       int
	}{
		"NotANumber":    {"a number that is none", "ec2", "application/x-www-form-urlencoded", "", "Action=DescribeVpcs&MaxResults=many", 400},
		"NotAList":      {"text where a list belongs", "ec2", "application/x-www-form-urlencoded", "", "Action=DescribeVpcs&VpcId=vpc-1", 400},
		"BrokenJSON":    {"a body that is no JSON", "sqs", "application/x-amz-json-1.0", "AmazonSQS.ListQueues", "{", 400},
		"WrongJSON":     {"a body that is no object", "sqs", "application/x-amz-json-1.0", "AmazonSQS.ListQueues", "[1]", 400},
		"UnknownMember": {"a member of a newer API", "sqs", "application/x-amz-json-1.0", "AmazonSQS.ListQueues", `{"New":{"a":1}}`, 200},
		"NoAction":      {"a form without an action", "iam", "application/x-www-form-urlencoded", "", "", 400},
		"NoRoute":       {"a path that no operation has", "eks", "", "", "", 400},
		"NoService":     {"a service that does not exist", "moon", "application/x-www-form-urlencoded", "", "Action=Land", 400},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, *l.cfg.BaseEndpoint+"/", strings.NewReader(tc.body))
			ok(t, err)
			req.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=tester/20260301/us-east-1/"+tc.service+"/aws4_request, SignedHeaders=host, Signature=0")
			req.Header.Set("Content-Type", tc.contentType)
			if tc.target != "" {
				req.Header.Set("X-Amz-Target", tc.target)
			}
			resp, err := http.DefaultClient.Do(req)
			ok(t, err)
			_ = resp.Body.Close()
			if resp.StatusCode != tc.want {
				t.Errorf("%s: want %d, got %s", tc.reason, tc.want, resp.Status)
			}
		})
	}
}

func TestAPanicIsAnInternalFailure(t *testing.T) {
	l := newLab(t, Options{})
	do(l.Server, func() {
		l.operations["ec2.DescribeVpcs"].run = func(*call, any) (any, error) { panic("a bug") }
	})
	_, err := l.ec2.DescribeVpcs(ctx, &ec2.DescribeVpcsInput{})
	wantCode(t, err, "InternalFailure", "a handler that panics")
	_, err = l.ec2.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{})
	ok(t, err)
}

func TestIdentities(t *testing.T) {
	l := newLab(t, Options{})
	who := func(cfg aws.Config) string {
		out, err := sts.NewFromConfig(cfg).GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
		ok(t, err)
		return *out.Arn
	}
	if got := who(l.cfg); got != "arn:aws:iam::123456789012:user/tester" {
		t.Errorf("an unknown key is the user of its name, not %s", got)
	}
	role, err := l.iam.CreateRole(ctx, &iam.CreateRoleInput{RoleName: aws.String("ops"), AssumeRolePolicyDocument: aws.String("{}")})
	ok(t, err)
	session, err := l.sts.AssumeRole(ctx, &sts.AssumeRoleInput{RoleArn: role.Role.Arn, RoleSessionName: aws.String("me")})
	ok(t, err)
	if got := who(configFor(*l.cfg.BaseEndpoint, *session.Credentials.AccessKeyId)); got != "arn:aws:sts::123456789012:assumed-role/ops/me" {
		t.Errorf("a session acts as its role, not as %s", got)
	}
	_, err = l.sts.AssumeRole(ctx, &sts.AssumeRoleInput{RoleArn: aws.String("arn:aws:iam::123456789012:role/none"), RoleSessionName: aws.String("me")})
	wantCode(t, err, "AccessDenied", "a role that does not exist")

	web, err := l.sts.AssumeRoleWithWebIdentity(ctx, &sts.AssumeRoleWithWebIdentityInput{
		RoleArn: role.Role.Arn, RoleSessionName: aws.String("pod"), WebIdentityToken: aws.String(serviceAccountToken("kube-system", "karpenter")),
	})
	ok(t, err)
	if *web.SubjectFromWebIdentityToken != "system:serviceaccount:kube-system:karpenter" || *web.AssumedRoleUser.Arn != "arn:aws:sts::123456789012:assumed-role/ops/pod" {
		t.Errorf("web identity: %s is %s", *web.SubjectFromWebIdentityToken, *web.AssumedRoleUser.Arn)
	}
	_, err = l.sts.AssumeRoleWithWebIdentity(ctx, &sts.AssumeRoleWithWebIdentityInput{RoleArn: role.Role.Arn, RoleSessionName: aws.String("pod"), WebIdentityToken: aws.String("x")})
	wantCode(t, err, "InvalidIdentityToken", "a token that is no JWT")
}

func rawBase64(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

// serviceAccountToken is an unsigned token of a ServiceAccount.
func serviceAccountToken(namespace, name string) string {
	return "e30." + rawBase64(`{"sub":"system:serviceaccount:`+namespace+`:`+name+`"}`) + ".sig"
}

func TestPodIdentityCredentials(t *testing.T) {
	l := newLab(t, Options{})
	do(l.Server, func() {
		l.podIdentity = func(namespace, name string) (string, bool) {
			return "arn:aws:iam::123456789012:role/path/castoff", namespace == "castoff-system" && name == "castoff"
		}
	})
	cases := map[string]struct {
		reason, token string
		want          int
	}{
		"Associated":   {"a ServiceAccount with an association gets its role", serviceAccountToken("castoff-system", "castoff"), 200},
		"Unassociated": {"one without gets nothing", serviceAccountToken("default", "castoff"), 404},
		"User":         {"a token that is no ServiceAccount's", "e30." + rawBase64(`{"sub":"alice"}`) + ".sig", 400},
		"NoToken":      {"no token", "", 400},
		"NotBase64":    {"a token that cannot be decoded", "a.?.c", 400},
		"NotJSON":      {"a token without claims", "a." + rawBase64("x") + ".c", 400},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, *l.cfg.BaseEndpoint+simapi.PathIdentity, nil)
			ok(t, err)
			req.Header.Set("Authorization", tc.token)
			resp, err := http.DefaultClient.Do(req)
			ok(t, err)
			defer func() { _ = resp.Body.Close() }()
			if resp.StatusCode != tc.want {
				t.Fatalf("%s: want %d, got %s", tc.reason, tc.want, resp.Status)
			}
			if tc.want != 200 {
				return
			}
			var got podCredentials
			ok(t, json.NewDecoder(resp.Body).Decode(&got))
			who, err := sts.NewFromConfig(configFor(*l.cfg.BaseEndpoint, got.AccessKeyID)).GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
			ok(t, err)
			if *who.Arn != "arn:aws:sts::123456789012:assumed-role/castoff/eks-castoff-system-castoff" || got.AccountID != "123456789012" || got.Token == "" || got.Expiration.IsZero() {
				t.Errorf("%s: the credentials act as %s: %+v", tc.reason, *who.Arn, got)
			}
		})
	}
}

func TestEventStream(t *testing.T) {
	g := NewWithT(t)
	l := newLab(t, Options{Settings: simapi.Settings{PendingDelay: time.Second, ShutdownDelay: time.Second}})
	old := l.run(t, nil)
	streaming, stop := context.WithCancel(ctx)
	defer stop()
	lines := make(chan string, 100)
	ended := make(chan error, 1)
	go func() {
		ended <- l.side.Events(streaming, func(e simapi.Event) error {
			if e.Synced {
				lines <- "synced"
				return nil
			}
			lines <- e.Instance.ID + " " + e.Instance.State
			return nil
		})
	}()
	want := func(line string) { g.Eventually(lines).WithTimeout(10 * time.Second).Should(Receive(Equal(line))) }
	want(*old.InstanceId + " pending")
	want("synced")
	i := l.run(t, nil)
	want(*i.InstanceId + " pending")
	l.Advance(time.Second)
	want(*old.InstanceId + " running")
	want(*i.InstanceId + " running")
	ok(t, l.side.Interrupt(ctx, simapi.Interrupt{InstanceID: *i.InstanceId, Kind: "terminate"}))
	want(*i.InstanceId + " shutting-down")
	ok(t, l.side.Advance(ctx, simapi.ClockStep{By: time.Second}))
	want(*i.InstanceId + " terminated")
	stop()
	g.Eventually(ended).WithTimeout(10 * time.Second).Should(Receive(MatchError(ContainSubstring("context canceled"))))
}

func TestSideDoor(t *testing.T) {
	l := newLab(t, Options{Settings: simapi.Settings{Lag: time.Second}})
	ok(t, l.side.Health(ctx))
	settings := simapi.Settings{Lag: time.Minute, PendingDelay: 2, BootDelay: 3, ShutdownDelay: 4}
	ok(t, l.side.SetSettings(ctx, settings))
	got, err := l.side.Settings(ctx)
	ok(t, err)
	if diff := cmp.Diff(settings, got); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
	if groups, err := l.side.Groups(ctx); err != nil || len(groups) != 0 {
		t.Errorf("groups of an empty world: %v, %v", groups, err)
	}
	for name, err := range map[string]error{
		"a clock that goes back":        l.side.Advance(ctx, simapi.ClockStep{By: -time.Second}),
		"a fault without a code":        addFault(l, simapi.Fault{Service: "ec2"}),
		"an interruption of nothing":    l.side.Interrupt(ctx, simapi.Interrupt{InstanceID: "i-none", Kind: "terminate"}),
		"an interruption without sense": l.side.Interrupt(ctx, simapi.Interrupt{InstanceID: *l.run(t, nil).InstanceId, Kind: "tickle"}),
	} {
		if err == nil {
			t.Errorf("%s must be refused", name)
		}
	}
	l.run(t, nil)
	ok(t, l.side.Reset(ctx))
	instances, err := l.side.Instances(ctx)
	ok(t, err)
	calls, err := l.side.Calls(ctx, 0)
	ok(t, err)
	got, err = l.side.Settings(ctx)
	ok(t, err)
	if len(instances) != 0 || len(calls) != 0 || got.Lag != time.Second {
		t.Errorf("a reset must forget everything: %d instances, %d calls, settings %+v", len(instances), len(calls), got)
	}
	_, err = l.ec2.DescribeVpcs(ctx, &ec2.DescribeVpcsInput{VpcIds: []string{l.vpc}})
	wantCode(t, err, "InvalidVpcID.NotFound", "the VPC was forgotten")
}

func addFault(l *lab, f simapi.Fault) error {
	_, err := l.side.AddFault(ctx, f)
	return err
}

func TestSideInstance(t *testing.T) {
	l := newLab(t, Options{})
	_, err := l.iam.CreateRole(ctx, &iam.CreateRoleInput{RoleName: aws.String("node"), AssumeRolePolicyDocument: aws.String("{}")})
	ok(t, err)
	_, err = l.iam.CreateInstanceProfile(ctx, &iam.CreateInstanceProfileInput{InstanceProfileName: aws.String("profile")})
	ok(t, err)
	_, err = l.iam.AddRoleToInstanceProfile(ctx, &iam.AddRoleToInstanceProfileInput{InstanceProfileName: aws.String("profile"), RoleName: aws.String("node")})
	ok(t, err)
	i := l.run(t, func(in *ec2.RunInstancesInput) {
		in.InstanceType, in.UserData, in.SecurityGroupIds = "m7g.large", aws.String("aGVsbG8="), []string{l.group}
		in.IamInstanceProfile = &types.IamInstanceProfileSpecification{Name: aws.String("profile")}
		in.InstanceMarketOptions = &types.InstanceMarketOptionsRequest{MarketType: types.MarketTypeSpot}
		in.TagSpecifications = tagged(types.ResourceTypeInstance, "kubernetes.io/cluster/prod", "owned")
	})
	do(l.Server, func() { l.annotate = []func(*simapi.Instance){func(i *simapi.Instance) { i.RoleAuthorised = false }} })
	got, err := l.side.Instances(ctx)
	ok(t, err)
	want := []simapi.Instance{{
		ID: *i.InstanceId, Type: "m7g.large", Zone: "us-east-1a", Region: "us-east-1", State: "running", PrivateIP: "10.0.0.4", PrivateDNSName: "ip-10-0-0-4.ec2.internal",
		ImageID: l.image, Architecture: "arm64", SubnetID: l.subnets[0], SecurityGroupIDs: []string{l.group}, UserData: "hello",
		RoleARN: "arn:aws:iam::123456789012:role/node", RoleAuthorised: false, Spot: true, Cluster: "prod", Tags: map[string]string{"kubernetes.io/cluster/prod": "owned"},
		MilliCPU: 2000, MemoryMiB: 8192, MaxPods: 29, LaunchTime: epoch,
	}}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("what the node bridge needs to know (-want +got):\n%s", diff)
	}
}
