package identity

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/google/go-cmp/cmp"

	"github.com/castoff-sh/castoff/e2e/awssim/simtest"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// given is cluster "harbor" with roles that its user made.
func given() inventory.Cluster {
	c := harbor
	c.Provided.NodeRole, c.Provided.ControllerRole = "nodes", "karpenter"
	return c
}

const (
	webTrust = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Federated":"arn:aws:iam::123456789012:oidc-provider/oidc.eks.us-east-1.amazonaws.com/id/A"},
		"Action":"sts:AssumeRoleWithWebIdentity","Condition":{"StringEquals":{"oidc.eks.us-east-1.amazonaws.com/id/A:sub":"system:serviceaccount:kube-system:karpenter"}}}]}`
	theirControllerARN = "arn:aws:iam::123456789012:role/karpenter"
	theirNodeARN       = "arn:aws:iam::123456789012:role/nodes"
)

func (l *lab) associate(t *testing.T, namespace, serviceAccount, role string) {
	t.Helper()
	_, err := l.eks.CreatePodIdentityAssociation(t.Context(), &eks.CreatePodIdentityAssociationInput{
		ClusterName: aws.String("harbor"), Namespace: aws.String(namespace), ServiceAccount: aws.String(serviceAccount), RoleArn: aws.String(role),
	})
	simtest.Check(t, err)
}

func (l *lab) letIn(t *testing.T, role string) {
	t.Helper()
	_, err := l.eks.CreateAccessEntry(t.Context(), &eks.CreateAccessEntryInput{ClusterName: aws.String("harbor"), PrincipalArn: aws.String(role), Type: aws.String(entryTypeNodes)})
	simtest.Check(t, err)
}

// theirs are roles as they should be.
func (l *lab) theirs(t *testing.T) {
	t.Helper()
	l.role(t, "nodes", NodeTrust(harbor))
	l.attach(t, "nodes", nodePolicies...)
	l.role(t, "karpenter", ControllerTrust(harbor))
	l.associate(t, "kube-system", "karpenter", theirControllerARN)
	l.letIn(t, theirNodeARN)
}

func TestProvidedRoles(t *testing.T) {
	elsewhere := given()
	elsewhere.Provided.Namespace, elsewhere.Provided.ServiceAccount = "karpenter", "engine"
	cases := map[string]struct {
		reason  string
		set     func(*testing.T, *lab)
		cluster inventory.Cluster
		want    []string // in the conflict
		web     bool
		lacks   []string
	}{
		"Fit":     {reason: "Pod Identity and an access entry", set: func(t *testing.T, l *lab) { l.theirs(t) }, cluster: given()},
		"Missing": {reason: "both are named", set: func(*testing.T, *lab) {}, cluster: given(), want: []string{"IAM role nodes, which spec.provisioner names, does not exist", "IAM role karpenter, which spec.provisioner names, does not exist"}},
		"WebIdentity": {
			reason: "IAM roles for service accounts need no association", cluster: given(), web: true,
			set: func(t *testing.T, l *lab) {
				l.role(t, "nodes", NodeTrust(harbor))
				l.attach(t, "nodes", nodePolicies...)
				l.role(t, "karpenter", webTrust)
				l.letIn(t, theirNodeARN)
			},
		},
		"WebIdentityOfAnother": {
			reason: "the trust policy names another ServiceAccount", cluster: given(), want: []string{"nor the web identity of ServiceAccount kube-system/karpenter"},
			set: func(t *testing.T, l *lab) {
				l.role(t, "nodes", NodeTrust(harbor))
				l.attach(t, "nodes", nodePolicies...)
				l.role(t, "karpenter", strings.ReplaceAll(webTrust, "kube-system:karpenter", "default:karpenter"))
				l.letIn(t, theirNodeARN)
			},
		},
		"NotAssociated": {
			reason: "Karpenter would start without credentials, and end", cluster: given(),
			set: func(t *testing.T, l *lab) {
				l.role(t, "nodes", NodeTrust(harbor))
				l.attach(t, "nodes", nodePolicies...)
				l.role(t, "karpenter", ControllerTrust(harbor))
				l.letIn(t, theirNodeARN)
			},
			want: []string{"Pod Identity association of ServiceAccount kube-system/karpenter is missing, and with spec.provisioner.identity: Existing castoff does not make it"},
		},
		"AssociatedElsewhere": {reason: "an adopted Karpenter has a ServiceAccount of its own", set: func(t *testing.T, l *lab) { l.theirs(t) }, cluster: elsewhere, want: []string{"ServiceAccount karpenter/engine is missing"}},
		"NotLetIn": {
			reason: "nodes would not join", cluster: given(), want: []string{"access entry of " + theirNodeARN + " is missing"},
			set: func(t *testing.T, l *lab) {
				l.role(t, "nodes", NodeTrust(harbor))
				l.attach(t, "nodes", nodePolicies...)
				l.role(t, "karpenter", ControllerTrust(harbor))
				l.associate(t, "kube-system", "karpenter", theirControllerARN)
			},
		},
		"NotForInstances": {
			reason: "EC2 may not hand it to instances", cluster: given(), want: []string{"IAM role nodes does not trust ec2.amazonaws.com"}, lacks: nodePolicies,
			set: func(t *testing.T, l *lab) {
				l.role(t, "nodes", ControllerTrust(harbor))
				l.role(t, "karpenter", ControllerTrust(harbor))
				l.associate(t, "kube-system", "karpenter", theirControllerARN)
				l.letIn(t, theirNodeARN)
			},
		},
		"PoliciesOfTheirOwn": {
			reason: "one of the user's own may grant the same, so it is told and does not stop", cluster: given(), lacks: nodePolicies,
			set: func(t *testing.T, l *lab) {
				l.role(t, "nodes", NodeTrust(harbor))
				l.role(t, "karpenter", ControllerTrust(harbor))
				l.associate(t, "kube-system", "karpenter", theirControllerARN)
				l.letIn(t, theirNodeARN)
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			tc.set(t, l)
			_, seq := l.Writes(t, 0)
			got, err := l.port.Observe(t.Context(), tc.cluster, nil)
			simtest.Check(t, err)
			if got.NodeRole != "nodes" || got.ControllerRole != "karpenter" || got.Ready != (len(tc.want) == 0) || len(got.Missing)+len(got.Made) != 0 || got.WebIdentity != tc.web {
				t.Errorf("%s: %+v", tc.reason, got)
			}
			if len(got.Lacks) != len(tc.lacks) {
				t.Errorf("%s: lacks %v, want %v", tc.reason, got.Lacks, tc.lacks)
			}
			for _, want := range tc.want {
				if !strings.Contains(got.Conflict, want) {
					t.Errorf("%s: %q does not say %q", tc.reason, got.Conflict, want)
				}
			}
			err = l.port.Ensure(t.Context(), tc.cluster, nil)
			if (err != nil) != (len(tc.want) > 0) || (err != nil && inventory.ClassOf(err) != inventory.ClassTerminal) {
				t.Errorf("%s: Ensure gives %v", tc.reason, err)
			}
			simtest.Check(t, l.port.Remove(t.Context(), tc.cluster))
			if wrote, _ := l.Writes(t, seq); len(wrote) != 0 {
				t.Errorf("somebody else's identities were written to: %v", wrote)
			}
		})
	}
}

// TestPolicyWithoutWhatIsProvided: a security team that makes roles and queue itself need not let castoff make any.
func TestPolicyWithoutWhatIsProvided(t *testing.T) {
	queue, none := harbor, harbor
	queue.Provided.Queue, none.Provided.NoQueue = "interruptions", true
	cases := map[string]struct {
		reason  string
		cluster inventory.Cluster
		never   []string // beginnings of actions
		still   []string
	}{
		"Roles": {
			"no right over any role", given(),
			[]string{"iam:Create", "iam:Put", "iam:Attach", "iam:Update", "iam:Delete", "iam:Detach", "iam:Pass", "iam:Tag", "iam:Remove", "eks:Create", "eks:DeleteAccess", "eks:DeletePod", "eks:Tag"},
			[]string{"iam:GetRole", "iam:ListAttachedRolePolicies", "eks:DescribeAccessEntry", "eks:ListPodIdentityAssociations", "eks:DeleteNodegroup"},
		},
		"Queue": {
			"looks only", queue, []string{"sqs:Create", "sqs:Set", "sqs:Delete", "sqs:Tag", "events:Put", "events:Delete", "events:Remove", "events:Tag"},
			[]string{"sqs:GetQueueUrl", "sqs:GetQueueAttributes", "events:ListRuleNamesByTarget", "events:DescribeRule"},
		},
		"NoQueue": {"not even that", none, []string{"sqs:"}, []string{"iam:CreateRole"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := parsed(t, Policy(tc.cluster))
			actions := actionsOf(d)
			for _, a := range actions {
				for _, never := range tc.never {
					if strings.HasPrefix(a, never) {
						t.Errorf("%s: the policy has %s", tc.reason, a)
					}
				}
			}
			for _, a := range tc.still {
				if !strings.Contains(strings.Join(actions, " "), a) {
					t.Errorf("%s: the policy lacks %s", tc.reason, a)
				}
			}
			for _, s := range d.Statement {
				if len(s.Action) == 0 {
					t.Errorf("statement %s has no action, which IAM refuses", s.Sid)
				}
				if s.Sid == "Queue" && tc.cluster.Provided.Queue != "" {
					if diff := cmp.Diff([]string{"arn:aws:sqs:us-east-1:123456789012:interruptions"}, []string(s.Resource)); diff != "" {
						t.Errorf("-want +got\n%s", diff)
					}
				}
			}
		})
	}
}
