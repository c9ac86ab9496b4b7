package provisioner

import (
	"context"
	"errors"
	"strings"
	"testing"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// waitingTrial is one of which everything is there and nothing has anything to say.
func waitingTrial() (*trial, []awsv1.EC2NodeClass) {
	pool := nodePool("castoff-canary-general")
	pool.Spec.Template.Spec.NodeClassRef.Name = "general"
	class, other := nodeClass("general"), nodeClass("memory")
	other.Status.Conditions = []status.Condition{condition("AMIsReady", "False", "", "not this canary's")}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "castoff-canary-general"}}
	return &trial{pool: "general", nodePool: pool, pod: pod, claims: []inventory.NodeClaim{{Name: "one"}}}, []awsv1.EC2NodeClass{*other, *class}
}

func TestTrialMessage(t *testing.T) {
	tests := map[string]struct {
		reason string
		change func(*trial, []awsv1.EC2NodeClass)
		want   string
	}{
		"Nothing": {"it takes its time", func(*trial, []awsv1.EC2NodeClass) {}, ""},
		"Class": {"the cause comes first", func(tr *trial, classes []awsv1.EC2NodeClass) {
			classes[1].Status.Conditions = []status.Condition{condition("AMIsReady", "False", "", "no AMI matches")}
			tr.claims[0].Message = "an effect"
		}, "EC2NodeClass general: AMIsReady: no AMI matches"},
		"Claim": {"a node that does not come", func(tr *trial, _ []awsv1.EC2NodeClass) {
			tr.claims[0].Message = "Launched: no capacity"
			tr.nodePool.Status.Conditions = []status.Condition{condition("NodeRegistrationHealthy", "False", "", "an effect")}
		}, "NodeClaim one: Launched: no capacity"},
		"Pool": {"a pool that cannot be used", func(tr *trial, _ []awsv1.EC2NodeClass) {
			tr.nodePool.Status.Conditions = []status.Condition{condition("ValidationSucceeded", "False", "", "a requirement is restricted")}
			tr.pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "an effect"}}
		}, "NodePool castoff-canary-general: ValidationSucceeded: a requirement is restricted"},
		"Pod": {"a pod that does not start", func(tr *trial, _ []awsv1.EC2NodeClass) {
			tr.pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
				Reason: "ImagePullBackOff", Message: "no route to the registry"}}}}
		}, "pod castoff-canary-general: ImagePullBackOff: no route to the registry"},
		"NoClassRef":   {"a NodePool that somebody broke", func(tr *trial, _ []awsv1.EC2NodeClass) { tr.nodePool.Spec.Template.Spec.NodeClassRef = nil }, ""},
		"LittleIsLeft": {"on its way out", func(tr *trial, _ []awsv1.EC2NodeClass) { tr.nodePool, tr.pod = nil, nil }, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			tr, classes := waitingTrial()
			tc.change(tr, classes)
			if got := tr.message(classes); got != tc.want {
				t.Errorf("%s: want %q, got %q", tc.reason, tc.want, got)
			}
		})
	}
}

func TestTrialRan(t *testing.T) {
	tests := map[string]struct {
		reason string
		change func(*trial)
		want   bool
	}{
		"Ran":          {"Ready on the node that was launched for it", func(*trial) {}, true},
		"NoPod":        {"nothing ran", func(tr *trial) { tr.pod = nil }, false},
		"NotBound":     {"nothing ran", func(tr *trial) { tr.pod.Spec.NodeName = "" }, false},
		"NotReady":     {"bound is not run", func(tr *trial) { tr.pod.Status.Conditions = nil }, false},
		"Elsewhere":    {"a node that is not the canary's proves nothing", func(tr *trial) { tr.pod.Spec.NodeName = "legacy" }, false},
		"NoClaim":      {"nor one that is gone", func(tr *trial) { tr.claims = nil }, false},
		"NodeUnknown":  {"nor a claim without a node", func(tr *trial) { tr.claims[0].Node = "" }, false},
		"SeveralNodes": {"the first one failed, the second did it", func(tr *trial) { tr.claims = append([]inventory.NodeClaim{{Name: "first"}}, tr.claims...) }, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			tr, _ := waitingTrial()
			tr.pod.Spec.NodeName, tr.claims[0].Node = "new", "new"
			tr.pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
			tc.change(tr)
			if got := tr.ran(); got != tc.want {
				t.Errorf("%s: got %t", tc.reason, got)
			}
		})
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	tests := map[string]struct {
		reason string
		err    error
		want   []string
	}{
		"Foreign": {"whose it is not, and the two ways out", &ForeignError{Object: "nodepools.karpenter.sh general", Mark: "castoff.sh/pool"},
			[]string{"nodepools.karpenter.sh general", "castoff.sh/pool", "left alone", "rename the pool"}},
		"InUse": {"who uses it, and what comes", &InUseError{Object: "nodepools.karpenter.sh general", Users: []string{"NodeClaim a", "NodeClaim b"}},
			[]string{"nodepools.karpenter.sh general is in use by NodeClaim a, NodeClaim b and was not deleted", "once they are gone"}},
		"InUseByMany": {"at most three are named", &InUseError{Object: "x", Users: []string{"a", "b", "c", "d", "e"}}, []string{"a, b, c and 2 more"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			for _, want := range tc.want {
				if !strings.Contains(tc.err.Error(), want) {
					t.Errorf("%s: %q is missing in %q", tc.reason, want, tc.err)
				}
			}
		})
	}
}

// TestWritesThatFail: what fails is said with the call, and what comes after it is not done.
func TestWritesThatFail(t *testing.T) {
	denied := apierrors.NewForbidden(schema.GroupResource{}, "x", errors.New("no"))
	canaryPool := canaryNodePool("general", "general", nodePool("general"), owner())
	tests := map[string]struct {
		reason  string
		objects []client.Object
		do      func(context.Context, *Client) error
		says    string
	}{
		"CreateNodePool": {"without a pool no canary pod would find a node", nil, func(ctx context.Context, c *Client) error {
			return c.StartCanary(ctx, "general", nodeClass("general"), nodePool("general"), owner())
		}, "create nodepools.karpenter.sh castoff-canary-general"},
		"CreateNodeClass": {"it is not there", nil, func(ctx context.Context, c *Client) error { return c.EnsureNodeClass(ctx, nodeClass("general")) },
			"create ec2nodeclasses.karpenter.k8s.aws general"},
		"UpdateNodeClass": {"it is another", []client.Object{nodeClass("general")}, func(ctx context.Context, c *Client) error {
			changed := nodeClass("general")
			changed.Spec.Role = "another"
			return c.EnsureNodeClass(ctx, changed)
		}, "update ec2nodeclasses.karpenter.k8s.aws general"},
		"Mark": {"it is not marked", []client.Object{nodeClass("general")}, func(ctx context.Context, c *Client) error {
			return c.MarkCanaryPassed(ctx, "general", NodeClassHash(nodeClass("general")))
		}, "patch ec2nodeclasses.karpenter.k8s.aws general"},
		"DeletePool": {"it is there to see", []client.Object{nodePool("general")}, func(ctx context.Context, c *Client) error { return c.DeleteNodePool(ctx, "general") },
			"delete nodepools.karpenter.sh general"},
		"DeleteClass": {"it is there to see", []client.Object{nodeClass("general")}, func(ctx context.Context, c *Client) error { return c.DeleteNodeClass(ctx, "general") },
			"delete ec2nodeclasses.karpenter.k8s.aws general"},
		"DeleteNodePool": {"its node stays", []client.Object{canaryPool}, func(ctx context.Context, c *Client) error { return c.EndCanary(ctx, "general") },
			"delete nodepools.karpenter.sh castoff-canary-general"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			writes := 0
			fail := func() error { writes++; return denied }
			c := fake.NewClientBuilder().WithObjects(tc.objects...).WithInterceptorFuncs(interceptor.Funcs{
				Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return fail() },
				Update: func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error { return fail() },
				Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
					return fail()
				},
				Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error { return fail() },
			}).Build()
			err := tc.do(t.Context(), with(c, "castoff-system"))
			if inventory.ClassOf(err) != inventory.ClassTerminal || err == nil || !strings.Contains(err.Error(), tc.says) || writes != 1 {
				t.Errorf("%s: want one write and a terminal error naming %q, got %d and %v", tc.reason, tc.says, writes, err)
			}
		})
	}
}

func TestEndCanaryWaitsForWhatGoesAlready(t *testing.T) {
	pool := canaryNodePool("general", "general", nodePool("general"), owner())
	pool.Finalizers = []string{"karpenter.sh/termination"}
	c := fake.NewClientBuilder().WithObjects(pool).Build()
	for range 2 {
		if err := with(c, "castoff-system").EndCanary(t.Context(), "general"); err != nil {
			t.Fatalf("EndCanary: %v", err)
		}
	}
	left := new(karpv1.NodePool)
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(pool), left); err != nil || left.DeletionTimestamp == nil {
		t.Errorf("want it on its way, got %v, %v", left.DeletionTimestamp, err)
	}
}
