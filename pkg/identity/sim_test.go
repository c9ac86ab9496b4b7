package identity

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/google/go-cmp/cmp"

	"github.com/castoff-sh/castoff/e2e/awssim/simapi"
	"github.com/castoff-sh/castoff/e2e/awssim/simtest"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// lab is a simulated AWS with cluster "harbor", and the port to it.
type lab struct {
	simtest.World
	iam  *iam.Client
	eks  *eks.Client
	port *Client
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{World: simtest.Start(t)}
	cfg := l.Config
	l.iam, l.eks, l.port = iam.NewFromConfig(cfg), eks.NewFromConfig(cfg), portAs(cfg)
	vpc, err := ec2.NewFromConfig(cfg).CreateVpc(t.Context(), &ec2.CreateVpcInput{CidrBlock: aws.String("10.0.0.0/16")})
	simtest.Check(t, err)
	subnet, err := ec2.NewFromConfig(cfg).CreateSubnet(t.Context(), &ec2.CreateSubnetInput{VpcId: vpc.Vpc.VpcId, AvailabilityZone: aws.String("us-east-1a"), CidrBlock: aws.String("10.0.0.0/24")})
	simtest.Check(t, err)
	_, err = l.eks.CreateCluster(t.Context(), &eks.CreateClusterInput{
		Name: aws.String("harbor"), Version: aws.String("1.34"), RoleArn: aws.String("arn:aws:iam::123456789012:role/cluster"),
		ResourcesVpcConfig: &ekstypes.VpcConfigRequest{SubnetIds: []string{aws.ToString(subnet.Subnet.SubnetId)}},
		AccessConfig:       &ekstypes.CreateAccessConfigRequest{AuthenticationMode: ekstypes.AuthenticationModeApiAndConfigMap},
	})
	simtest.Check(t, err)
	return l
}

func portAs(cfg aws.Config, configMaps ...ConfigMapAPI) *Client {
	return New(iam.NewFromConfig(cfg), eks.NewFromConfig(cfg), ec2.NewFromConfig(cfg), sts.NewFromConfig(cfg), configMaps...)
}

// portOver is the port over a network of its own.
func (l *lab) portOver(network *http.Client) *Client {
	cfg := l.Config
	cfg.HTTPClient = network
	return portAs(cfg)
}

func (l *lab) observe(t *testing.T) inventory.Identity {
	t.Helper()
	got, err := l.port.Observe(t.Context(), harbor, nil)
	simtest.Check(t, err)
	return got
}

func (l *lab) role(t *testing.T, name, trust string, tags ...iamtypes.Tag) {
	t.Helper()
	_, err := l.iam.CreateRole(t.Context(), &iam.CreateRoleInput{RoleName: aws.String(name), AssumeRolePolicyDocument: aws.String(trust), Tags: tags})
	simtest.Check(t, err)
}

func (l *lab) attach(t *testing.T, role string, policies ...string) {
	t.Helper()
	for _, p := range policies {
		_, err := l.iam.AttachRolePolicy(t.Context(), &iam.AttachRolePolicyInput{RoleName: aws.String(role), PolicyArn: aws.String("arn:aws:iam::aws:policy/" + p)})
		simtest.Check(t, err)
	}
}

func (l *lab) fault(t *testing.T, f simapi.Fault) {
	t.Helper()
	_, err := l.Door.AddFault(t.Context(), f)
	simtest.Check(t, err)
}

func TestEnsureMakesEverythingOnce(t *testing.T) {
	l := newLab(t)
	missing := l.observe(t)
	if missing.Ready || missing.Conflict != "" || len(missing.Missing) != 14 || missing.NodeRoleARN != "" {
		t.Errorf("before: %+v", missing)
	}
	simtest.Check(t, l.port.Ensure(t.Context(), harbor, nil))
	want := inventory.Identity{
		NodeRole: "KarpenterNodeRole-harbor", NodeRoleARN: "arn:aws:iam::123456789012:role/KarpenterNodeRole-harbor",
		ControllerRole: "KarpenterControllerRole-harbor", ControllerRoleARN: "arn:aws:iam::123456789012:role/KarpenterControllerRole-harbor", Ready: true,
		Made: []string{
			"IAM role KarpenterNodeRole-harbor", "IAM role KarpenterControllerRole-harbor", "Pod Identity association of ServiceAccount kube-system/karpenter",
			"access entry of arn:aws:iam::123456789012:role/KarpenterNodeRole-harbor",
		},
	}
	if diff := cmp.Diff(want, l.observe(t)); diff != "" {
		t.Errorf("after: -want +got\n%s", diff)
	}
	_, seq := l.Writes(t, 0)
	simtest.Check(t, l.port.Ensure(t.Context(), harbor, nil))
	if got, _ := l.Writes(t, seq); len(got) != 0 {
		t.Errorf("a second Ensure wrote %v", got)
	}
	tags, err := l.iam.GetRole(t.Context(), &iam.GetRoleInput{RoleName: aws.String("KarpenterNodeRole-harbor")})
	simtest.Check(t, err)
	if !ours(tagMap(tags.Role.Tags), harbor) {
		t.Errorf("the role's tags are %v", tags.Role.Tags)
	}
}

// Pod Identity really gives Karpenter's ServiceAccount the role, and a node of the node role may join.
func TestIdentitiesAreInForce(t *testing.T) {
	l := newLab(t)
	simtest.Check(t, l.port.Ensure(t.Context(), harbor, nil))
	entry, err := l.eks.DescribeAccessEntry(t.Context(), &eks.DescribeAccessEntryInput{ClusterName: aws.String("harbor"), PrincipalArn: aws.String("arn:aws:iam::123456789012:role/KarpenterNodeRole-harbor")})
	simtest.Check(t, err)
	if aws.ToString(entry.AccessEntry.Type) != "EC2_LINUX" || entry.AccessEntry.Tags["castoff.sh/managed-by"] != "castoff" {
		t.Errorf("access entry is %s with tags %v", aws.ToString(entry.AccessEntry.Type), entry.AccessEntry.Tags)
	}
	list, err := l.eks.ListPodIdentityAssociations(t.Context(), &eks.ListPodIdentityAssociationsInput{ClusterName: aws.String("harbor")})
	simtest.Check(t, err)
	if len(list.Associations) != 1 || aws.ToString(list.Associations[0].Namespace) != "kube-system" || aws.ToString(list.Associations[0].ServiceAccount) != "karpenter" {
		t.Errorf("associations are %+v", list.Associations)
	}
	attached, err := l.port.AttachedPolicies(t.Context(), "KarpenterNodeRole-harbor")
	simtest.Check(t, err)
	want := []string{"arn:aws:iam::aws:policy/AmazonEC2ContainerRegistryPullOnly", "arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicy", "arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy", "arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore"}
	if diff := cmp.Diff(want, attached); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if none, err := l.port.AttachedPolicies(t.Context(), "no-such-role"); err != nil || none != nil {
		t.Errorf("a role that is not there has policies %v, error %v", none, err)
	}
}

func TestExtraNodePolicies(t *testing.T) {
	l := newLab(t)
	extra := []string{"CloudWatchAgentServerPolicy", "arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy"}
	simtest.Check(t, l.port.Ensure(t.Context(), harbor, extra))
	attached, err := l.port.AttachedPolicies(t.Context(), "KarpenterNodeRole-harbor")
	simtest.Check(t, err)
	if len(attached) != 5 || !slices.Contains(attached, "arn:aws:iam::aws:policy/CloudWatchAgentServerPolicy") {
		t.Errorf("attached are %v, want the four and CloudWatchAgentServerPolicy", attached)
	}
}

// Whichever request is the last before a crash, made or not, the next call completes what it left.
func TestEnsureGoesOnFromEveryCrash(t *testing.T) {
	n := simtest.EveryCrash(t, func(t *testing.T, network *http.Client) (func(*testing.T), error) {
		l := newLab(t)
		err := l.portOver(network).Ensure(t.Context(), harbor, nil)
		return func(t *testing.T) {
			wantRetry(t, err)
			simtest.Check(t, l.port.Ensure(t.Context(), harbor, nil))
			if got := l.observe(t); !got.Ready || len(got.Made) != 4 {
				t.Errorf("the next call leaves %+v", got)
			}
		}, err
	})
	if n < 15 {
		t.Errorf("Ensure made %d requests; too few to prove anything", n)
	}
}

// wantRetry takes no error, or one that asks to try again.
func wantRetry(t *testing.T, err error) {
	t.Helper()
	if inventory.ClassOf(err) != inventory.ClassRetry {
		t.Fatalf("error is %v, want one to retry", err)
	}
}

// What EKS made does not show at once: a repeated create finds it, and is no failure.
func TestEnsureWhileReadsLag(t *testing.T) {
	l := newLab(t)
	simtest.Check(t, l.Door.SetSettings(t.Context(), simapi.Settings{Lag: 5 * time.Second}))
	l.Sim.Advance(10 * time.Second)
	for range 3 {
		simtest.Check(t, l.port.Ensure(t.Context(), harbor, nil))
	}
	if l.observe(t).Ready {
		t.Fatal("everything shows at once; the test proves nothing without lag")
	}
	l.Sim.Advance(10 * time.Second)
	if got := l.observe(t); !got.Ready {
		t.Errorf("after the lag: %+v", got)
	}
}

func TestOwnRolesAreMended(t *testing.T) {
	l := newLab(t)
	simtest.Check(t, l.port.Ensure(t.Context(), harbor, nil))
	ctx := t.Context()
	_, err := l.iam.UpdateAssumeRolePolicy(ctx, &iam.UpdateAssumeRolePolicyInput{RoleName: aws.String("KarpenterNodeRole-harbor"), PolicyDocument: aws.String(ControllerTrust(harbor))})
	simtest.Check(t, err)
	_, err = l.iam.DetachRolePolicy(ctx, &iam.DetachRolePolicyInput{RoleName: aws.String("KarpenterNodeRole-harbor"), PolicyArn: aws.String("arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy")})
	simtest.Check(t, err)
	_, err = l.iam.PutRolePolicy(ctx, &iam.PutRolePolicyInput{RoleName: aws.String("KarpenterControllerRole-harbor"), PolicyName: aws.String("KarpenterInterruption"), PolicyDocument: aws.String(`{"Version":"2012-10-17","Statement":[]}`)})
	simtest.Check(t, err)
	want := []string{"trust policy of IAM role KarpenterNodeRole-harbor", "policy AmazonEKS_CNI_Policy on IAM role KarpenterNodeRole-harbor", "inline policy KarpenterInterruption of IAM role KarpenterControllerRole-harbor"}
	if got := l.observe(t); !cmp.Equal(want, got.Missing) || got.Conflict != "" {
		t.Fatalf("missing %v, conflict %q", got.Missing, got.Conflict)
	}
	simtest.Check(t, l.port.Ensure(ctx, harbor, nil))
	if got := l.observe(t); !got.Ready {
		t.Errorf("after Ensure: %+v", got)
	}
}

func TestForeignNodeRoleThatFitsIsAdopted(t *testing.T) {
	l := newLab(t)
	l.role(t, "KarpenterNodeRole-harbor", NodeTrust(harbor))
	l.attach(t, "KarpenterNodeRole-harbor", "AmazonEKSWorkerNodePolicy", "AmazonEKS_CNI_Policy", "AmazonEC2ContainerRegistryReadOnly", "AmazonSSMManagedInstanceCore")
	simtest.Check(t, l.port.Ensure(t.Context(), harbor, nil))
	calls, err := l.Door.Calls(t.Context(), 0)
	simtest.Check(t, err)
	for _, c := range calls {
		if c.Operation == "AttachRolePolicy" && strings.Contains(string(c.Input), "PullOnly") {
			t.Error("a role that may read the registry already was changed")
		}
	}
	if got := l.observe(t); !got.Ready {
		t.Errorf("after Ensure: %+v", got)
	}
}

func TestConflicts(t *testing.T) {
	ctx := func(t *testing.T, f func() error) { t.Helper(); simtest.Check(t, f()) }
	cases := map[string]struct {
		reason  string
		set     func(*testing.T, *lab)
		cluster inventory.Cluster
		says    string
	}{
		"node role of somebody else": {"it lacks policies, and is not castoff's to change", func(t *testing.T, l *lab) {
			l.role(t, "KarpenterNodeRole-harbor", NodeTrust(harbor))
		}, harbor, "AmazonEKSWorkerNodePolicy"},
		"node role with another trust": {"EC2 could not use it", func(t *testing.T, l *lab) {
			l.role(t, "KarpenterNodeRole-harbor", ControllerTrust(harbor))
			l.attach(t, "KarpenterNodeRole-harbor", nodePolicies...)
		}, harbor, "trust policy"},
		"controller role of the same cluster elsewhere": {"IAM is global: its policies are those of another region", func(t *testing.T, l *lab) {
			other := harbor
			other.Region, other.ARN = "eu-west-1", "arn:aws:eks:eu-west-1:123456789012:cluster/harbor"
			f := l.port.newRole(other, controllerRole(other))
			for _, s := range f.missing {
				ctx(t, func() error { return s.do(t.Context()) })
			}
		}, harbor, "KarpenterControllerRole-harbor was not made by castoff for this cluster"},
		"association with another role": {"it is somebody's Karpenter", func(t *testing.T, l *lab) {
			l.role(t, "theirs", ControllerTrust(harbor))
			_, err := l.eks.CreatePodIdentityAssociation(t.Context(), &eks.CreatePodIdentityAssociationInput{ClusterName: aws.String("harbor"), Namespace: aws.String("kube-system"), ServiceAccount: aws.String("karpenter"), RoleArn: aws.String("arn:aws:iam::123456789012:role/theirs")})
			simtest.Check(t, err)
		}, harbor, "role/theirs"},
		"access entry of another type": {"nodes could not join", func(t *testing.T, l *lab) {
			l.role(t, "KarpenterNodeRole-harbor", NodeTrust(harbor))
			l.attach(t, "KarpenterNodeRole-harbor", nodePolicies...)
			_, err := l.eks.CreateAccessEntry(t.Context(), &eks.CreateAccessEntryInput{ClusterName: aws.String("harbor"), PrincipalArn: aws.String("arn:aws:iam::123456789012:role/KarpenterNodeRole-harbor"), Type: aws.String("STANDARD")})
			simtest.Check(t, err)
		}, harbor, "EC2_LINUX"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			tc.set(t, l)
			_, seq := l.Writes(t, 0)
			got, err := l.port.Observe(t.Context(), tc.cluster, nil)
			simtest.Check(t, err)
			if got.Ready || !strings.Contains(got.Conflict, tc.says) {
				t.Errorf("%s: ready %v, conflict %q; want false, and %q in it", tc.reason, got.Ready, got.Conflict, tc.says)
			}
			err = l.port.Ensure(t.Context(), tc.cluster, nil)
			if err == nil || inventory.ClassOf(err) != inventory.ClassTerminal || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%s: Ensure gives %v, want a terminal error with %q", tc.reason, err, tc.says)
			}
			if made, _ := l.Writes(t, seq); len(made) != 0 {
				t.Errorf("%s: Ensure wrote %v", tc.reason, made)
			}
		})
	}
}

func TestErrorClasses(t *testing.T) {
	cases := map[string]struct {
		service, operation, code string
		status                   int
		want                     inventory.Class
	}{
		"role denied":            {"iam", "CreateRole", "AccessDenied", 403, inventory.ClassTerminal},
		"role throttled":         {"iam", "GetRole", "Throttling", 400, inventory.ClassThrottled},
		"too many roles":         {"iam", "CreateRole", "LimitExceeded", 409, inventory.ClassTerminal},
		"policy malformed":       {"iam", "PutRolePolicy", "MalformedPolicyDocument", 400, inventory.ClassTerminal},
		"association denied":     {"eks", "CreatePodIdentityAssociation", "AccessDeniedException", 403, inventory.ClassTerminal},
		"role not shown to EKS":  {"eks", "CreatePodIdentityAssociation", "InvalidParameterException", 400, inventory.ClassRetry},
		"role not shown, entry":  {"eks", "CreateAccessEntry", "InvalidParameterException", 400, inventory.ClassRetry},
		"access entry throttled": {"eks", "DescribeAccessEntry", "ThrottlingException", 429, inventory.ClassThrottled},
		"EKS broken":             {"eks", "ListPodIdentityAssociations", "ServerException", 500, inventory.ClassRetry},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			l.fault(t, simapi.Fault{Service: tc.service, Operation: tc.operation, Code: tc.code, Status: tc.status})
			err := l.port.Ensure(t.Context(), harbor, nil)
			if err == nil || inventory.ClassOf(err) != tc.want || !strings.Contains(err.Error(), tc.service+":"+tc.operation) {
				t.Errorf("error is %v (%s), want %s naming %s:%s", err, inventory.ClassOf(err), tc.want, tc.service, tc.operation)
			}
		})
	}
}

// states are the permissions by state.
func states(list []inventory.Permission) map[inventory.PermissionState][]string {
	out := map[inventory.PermissionState][]string{}
	for _, p := range list {
		out[p.State] = append(out[p.State], p.Action)
	}
	return out
}

func TestCheckOfAnIdentityThatMayEverything(t *testing.T) {
	l := newLab(t)
	got, err := l.port.Check(t.Context(), harbor)
	simtest.Check(t, err)
	want := map[inventory.PermissionState][]string{inventory.PermissionAllowed: actionsOf(parsed(t, Policy(harbor)))}
	if diff := cmp.Diff(want, states(got)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if made, _ := l.Writes(t, 0); slices.ContainsFunc(made, func(op string) bool { return !strings.HasPrefix(op, "Create") }) || len(made) != 3 {
		t.Errorf("checking wrote: %v (the lab itself made three)", made)
	}
}

func TestCheckFindsWhatIsDenied(t *testing.T) {
	cases := map[string]simapi.Fault{
		"eks:DescribeNodegroup":              {Service: "eks", Operation: "DescribeNodegroup", Code: "AccessDeniedException", Status: 403},
		"ec2:DescribeImages":                 {Service: "ec2", Operation: "DescribeImages", Code: "UnauthorizedOperation", Status: 403},
		"iam:GetInstanceProfile":             {Service: "iam", Operation: "GetInstanceProfile", Code: "AccessDenied", Status: 403},
		"autoscaling:SuspendProcesses":       {Service: "autoscaling", Operation: "SuspendProcesses", Code: "AccessDenied", Status: 403},
		"autoscaling:DescribePolicies":       {Service: "autoscaling", Operation: "DescribePolicies", Code: "AccessDenied", Status: 403},
		"sqs:CreateQueue":                    {Service: "sqs", Operation: "CreateQueue", Code: "AccessDenied", Status: 403},
		"eks:UpdateNodegroupConfig":          {Service: "eks", Operation: "UpdateNodegroupConfig", Code: "AccessDeniedException", Status: 403},
		"eks:DescribePodIdentityAssociation": {Service: "eks", Operation: "DescribePodIdentityAssociation", Code: "AccessDeniedException", Status: 403},
	}
	for action, fault := range cases {
		t.Run(action, func(t *testing.T) {
			l := newLab(t)
			l.fault(t, fault)
			got, err := l.port.Check(t.Context(), harbor)
			simtest.Check(t, err)
			if diff := cmp.Diff([]string{action}, states(got)[inventory.PermissionDenied]); diff != "" {
				t.Errorf("denied: -want +got\n%s", diff)
			}
			for _, p := range got {
				if p.State != inventory.PermissionAllowed && !strings.Contains(p.Message, action) {
					t.Errorf("message %q does not name the action", p.Message)
				}
			}
		})
	}
}

// Without the permission to simulate, what cannot be called is not checked, and says why.
func TestCheckWithoutSimulation(t *testing.T) {
	l := newLab(t)
	l.fault(t, simapi.Fault{Service: "iam", Operation: "SimulatePrincipalPolicy", Code: "AccessDenied", Status: 403})
	got, err := l.port.Check(t.Context(), harbor)
	simtest.Check(t, err)
	by := states(got)
	if !slices.Contains(by[inventory.PermissionNotChecked], "autoscaling:UpdateAutoScalingGroup") || !slices.Contains(by[inventory.PermissionAllowed], "eks:DescribeCluster") {
		t.Errorf("states are %v", by)
	}
	for _, p := range got {
		if p.State == inventory.PermissionNotChecked && !strings.Contains(p.Message, "iam:SimulatePrincipalPolicy") {
			t.Errorf("%s: message %q does not say why", p.Action, p.Message)
		}
	}
}

func TestCallerARN(t *testing.T) {
	l := newLab(t)
	user, err := l.port.CallerARN(t.Context())
	simtest.Check(t, err)
	if user != "arn:aws:iam::123456789012:user/castoff" {
		t.Errorf("caller is %s", user)
	}
	_, err = l.iam.CreateRole(t.Context(), &iam.CreateRoleInput{RoleName: aws.String("operator"), Path: aws.String("/platform/"), AssumeRolePolicyDocument: aws.String(ControllerTrust(harbor))})
	simtest.Check(t, err)
	session, err := sts.NewFromConfig(l.Config).AssumeRole(t.Context(), &sts.AssumeRoleInput{RoleArn: aws.String("arn:aws:iam::123456789012:role/platform/operator"), RoleSessionName: aws.String("s")})
	simtest.Check(t, err)
	as := l.Config
	as.Credentials = credentials.NewStaticCredentialsProvider(aws.ToString(session.Credentials.AccessKeyId), "secret", "token")
	got, err := portAs(as).CallerARN(t.Context())
	simtest.Check(t, err)
	if got != "arn:aws:iam::123456789012:role/platform/operator" {
		t.Errorf("caller is %s, want the role with its path", got)
	}
	l.fault(t, simapi.Fault{Service: "iam", Operation: "GetRole", Code: "AccessDenied", Status: 403})
	got, err = portAs(as).CallerARN(t.Context())
	simtest.Check(t, err)
	if got != "arn:aws:iam::123456789012:role/operator" {
		t.Errorf("caller is %s, want the role without a path when it may not be looked up", got)
	}
}
