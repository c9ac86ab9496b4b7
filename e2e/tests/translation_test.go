//go:build lab && long

package tests

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	asgtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/e2e/harbor"
	"github.com/castoff-sh/castoff/pkg/identity"
	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/translate"
)

// oldGroup is a node group as users have them, and what its successor's nodes must be.
type oldGroup struct {
	reason   string
	template *ec2types.RequestLaunchTemplateData // nil: the managed group has none of its own
	mixed    []asgtypes.LaunchTemplateOverrides
	spot     *asgtypes.InstancesDistribution
	managed  *eks.CreateNodegroupInput
	// joins says that the lab's bridge reads the image's user data, so that the instance becomes a node.
	joins  bool
	labels map[string]string // the node's, where it joins
	taints []corev1.Taint    // the node's, where it joins
	// userData has these lines of the old one, where the image does not join.
	userData []string
	maxPods  int64
}

// TestTranslatedPools proves on the real engine what translation promises: it accepts what was translated, launches from it what
// Auto Scaling would have launched, and sees no drift.
func TestTranslatedPools(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	k := startCluster(ctx, t)
	if !t.Run("Install", func(t *testing.T) { k.install(ctx, t) }) {
		return
	}
	fleet := newFleet(ctx, t, k)
	groups := fleet.oldGroups()
	targets := map[string]inventory.Target{}
	for _, name := range sortedNames(groups) {
		fleet.create(ctx, t, name, groups[name])
	}
	for _, g := range fleet.list(ctx, t, sortedNames(groups)) {
		target, err := translate.Pool(fleet.cluster, inventory.Pool{Name: g.Name, NodeGroups: []string{g.Name}}, []inventory.NodeGroup{g}, identity.NodeRoleName(harbor.Cluster))
		if err != nil {
			t.Fatalf("%s: %v", g.Name, err)
		}
		targets[g.Name] = target
		k.order(ctx, t, target)
	}
	for _, name := range sortedNames(groups) {
		t.Run(name, func(t *testing.T) { fleet.judge(ctx, t, k, name, groups[name], targets[name]) })
	}
	if t.Failed() {
		return
	}
	k.expectNoDrift(ctx, t, len(groups), 15*time.Second)
}

// expectNoDrift watches for that long, which is after the engine's first comparison of each NodeClaim with its NodeClass: none may
// have drifted, and there may be one for each pool.
func (k *karpenter) expectNoDrift(ctx context.Context, t *testing.T, pools int, span time.Duration) {
	t.Helper()
	NewWithT(t).Consistently(func() (drifted []string) {
		claims := k.claims(ctx, t)
		if len(claims) != pools {
			return []string{fmt.Sprintf("%d NodeClaims for %d pods that each needs one", len(claims), pools)}
		}
		for _, claim := range claims {
			if c := claim.StatusConditions().Get(karpv1.ConditionTypeDrifted); c.IsTrue() {
				drifted = append(drifted, claim.Name+": "+c.Reason)
			}
		}
		return drifted
	}).WithContext(ctx).WithTimeout(span).WithPolling(time.Second).Should(BeEmpty())
}

// order creates the pool's objects and one pod for it.
func (k *karpenter) order(ctx context.Context, t *testing.T, target inventory.Target) {
	t.Helper()
	g := NewWithT(t)
	g.Expect(k.client.Create(ctx, target.NodeClass.DeepCopy())).To(Succeed())
	g.Expect(k.client.Create(ctx, target.NodePool.DeepCopy())).To(Succeed())
	g.Expect(k.client.Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: target.Pool},
		Spec: corev1.PodSpec{
			NodeSelector: map[string]string{karpv1.NodePoolLabelKey: target.NodePool.Name},
			Tolerations:  []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers:   []corev1.Container{{Name: "app", Image: "example.com/app"}},
		},
	})).To(Succeed())
}

// judge holds the pool's one instance against what the old group would have launched.
func (f *fleet) judge(ctx context.Context, t *testing.T, k *karpenter, name string, old oldGroup, target inventory.Target) {
	condition := karpv1.ConditionTypeLaunched
	if old.joins {
		condition = karpv1.ConditionTypeInitialized
	}
	var claim karpv1.NodeClaim
	k.awaitClaims(ctx, t, "the NodeClaim of "+name+" to be "+condition, func(claims []karpv1.NodeClaim) bool {
		i := slices.IndexFunc(claims, func(c karpv1.NodeClaim) bool { return c.Labels[karpv1.NodePoolLabelKey] == name && is(condition)(c) })
		if i >= 0 {
			claim = claims[i]
		}
		return i >= 0
	})
	launched := f.launchedWith(ctx, t, name)
	if old.template != nil {
		if diff := gocmp.Diff(essence(answered(t, old.template)), essence(launched), cmpopts.EquateEmpty(), unexported); diff != "" {
			t.Errorf("%s: the engine launches from another template (-old +new)\n%s", old.reason, diff)
		}
	}
	data := plain(t, launched.UserData)
	for _, line := range old.userData {
		if !strings.Contains(data, line) {
			t.Errorf("%s: %q is lost from the user data:\n%s", old.reason, line, data)
		}
	}
	instance := k.instance(ctx, t, claim)
	if wanted := old.spot != nil; instance.Spot != wanted {
		t.Errorf("%s: spot is %t", old.reason, instance.Spot)
	}
	if old.joins {
		k.judgeNode(ctx, t, claim, old)
	}
	if target.NodePool.Spec.Limits[corev1.ResourceCPU] == (resource.Quantity{}) {
		t.Errorf("%s: the group's max size limits nothing", old.reason)
	}
}

func (k *karpenter) judgeNode(ctx context.Context, t *testing.T, claim karpv1.NodeClaim, old oldGroup) {
	t.Helper()
	node := &corev1.Node{}
	NewWithT(t).Expect(k.client.Get(ctx, client.ObjectKey{Name: claim.Status.NodeName}, node)).To(Succeed())
	for key, value := range old.labels {
		if node.Labels[key] != value {
			t.Errorf("%s: label %s is %q on the node, want %q", old.reason, key, node.Labels[key], value)
		}
	}
	if diff := gocmp.Diff(old.taints, node.Spec.Taints, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s: taints of the node (-want +got)\n%s", old.reason, diff)
	}
	if pods := node.Status.Allocatable.Pods().Value(); old.maxPods != 0 && pods != old.maxPods {
		t.Errorf("%s: the node takes %d pods, want %d", old.reason, pods, old.maxPods)
	}
}

// launch is what of a launch template an instance is made from; names, tags of the engine's own and user data apart.
type launch struct {
	Image, PublicIP string
	Groups          []string
	Devices         []ec2types.LaunchTemplateBlockDeviceMapping
	Metadata        ec2types.LaunchTemplateInstanceMetadataOptions
	Monitoring      bool
}

// unexported fields of the SDK's types are the SDK's own business.
var unexported = cmpopts.IgnoreUnexported(ec2types.LaunchTemplateBlockDeviceMapping{}, ec2types.LaunchTemplateEbsBlockDevice{}, ec2types.LaunchTemplateInstanceMetadataOptions{})

func essence(d *ec2types.ResponseLaunchTemplateData) launch {
	l := launch{Image: aws.ToString(d.ImageId), Groups: slices.Clone(d.SecurityGroupIds), Devices: slices.Clone(d.BlockDeviceMappings), PublicIP: "subnet"}
	for _, n := range d.NetworkInterfaces {
		l.Groups = append(l.Groups, n.Groups...)
		if n.AssociatePublicIpAddress != nil {
			l.PublicIP = fmt.Sprint(*n.AssociatePublicIpAddress)
		}
	}
	slices.Sort(l.Groups)
	slices.SortFunc(l.Devices, func(a, b ec2types.LaunchTemplateBlockDeviceMapping) int {
		return cmp.Compare(aws.ToString(a.DeviceName), aws.ToString(b.DeviceName))
	})
	if d.MetadataOptions != nil {
		l.Metadata = *d.MetadataOptions
		l.Metadata.State = ""
	}
	l.Monitoring = d.Monitoring != nil && aws.ToBool(d.Monitoring.Enabled)
	return l
}
