package provisioner

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	awsapis "github.com/aws/karpenter-provider-aws/pkg/apis"
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/inventory/kubeapi"
)

// canaryName names the canary's NodePool and pod. It is a label's value too, so at most 63 characters.
func canaryName(pool string) string {
	const prefix, limit, digest = "castoff-canary-", 63, 8
	if len(prefix)+len(pool) <= limit {
		return prefix + pool
	}
	sum := sha256.Sum256([]byte(pool))
	return prefix + pool[:limit-len(prefix)-digest-1] + "-" + hex.EncodeToString(sum[:])[:digest]
}

// StartCanary asks Karpenter for one node of the pool's EC2NodeClass, behind a taint that only the canary's pod tolerates. What
// is there already stays; a canary pod that has ended is removed, so that the next call makes another.
func (c *Client) StartCanary(ctx context.Context, pool string, class *awsv1.EC2NodeClass, nodePool *karpv1.NodePool, owner metav1.OwnerReference) error {
	if err := c.ensureNodePool(ctx, canaryNodePool(pool, class.Name, nodePool, owner), v1alpha1.LabelCanary); err != nil {
		return err
	}
	want := c.canaryPod(pool, owner)
	name := want.Namespace + "/" + want.Name
	have := new(corev1.Pod)
	err := c.live.Get(ctx, client.ObjectKeyFromObject(want), have)
	switch {
	case apierrors.IsNotFound(err):
		return kubeapi.Wrap(c.client.Create(ctx, want), "create", "pods", name)
	case err != nil:
		return kubeapi.Wrap(err, "get", "pods", name)
	case have.Labels[v1alpha1.LabelCanary] == "":
		return inventory.Terminal(&ForeignError{Object: "pod " + name, Mark: v1alpha1.LabelCanary})
	case have.Status.Phase == corev1.PodFailed || have.Status.Phase == corev1.PodSucceeded:
		return c.remove(ctx, have, "pods")
	}
	return nil
}

// canaryNodePool is the pool's NodePool, but for the canary's taint, room for one node, and no reason to end it.
func canaryNodePool(pool, class string, from *karpv1.NodePool, owner metav1.OwnerReference) *karpv1.NodePool {
	canary := &karpv1.NodePool{
		ObjectMeta: metav1.ObjectMeta{
			Name:            canaryName(pool),
			Labels:          canaryLabels(pool, owner),
			OwnerReferences: []metav1.OwnerReference{owner},
		},
		Spec: *from.Spec.DeepCopy(),
	}
	template := &canary.Spec.Template
	delete(template.Labels, v1alpha1.LabelPool) // the canary's node is not one of the pool's
	template.Labels = merge(template.Labels, map[string]string{v1alpha1.LabelCanary: pool})
	template.Spec.Taints = []corev1.Taint{{Key: v1alpha1.TaintCanary, Value: "true", Effect: corev1.TaintEffectNoSchedule}}
	template.Spec.ExpireAfter = karpv1.NillableDuration{}
	template.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: awsapis.Group, Kind: "EC2NodeClass", Name: class}
	canary.Spec.Weight, canary.Spec.Replicas = nil, nil
	canary.Spec.Limits = karpv1.Limits{"nodes": resource.MustParse("1")}
	canary.Spec.Disruption = karpv1.Disruption{
		ConsolidationPolicy: karpv1.ConsolidationPolicyWhenEmpty,
		Budgets:             []karpv1.Budget{{Nodes: "0"}},
	}
	return canary
}

// canaryPod asks for next to nothing, so that the smallest node will do, and is allowed next to nothing.
func (c *Client) canaryPod(pool string, owner metav1.OwnerReference) *corev1.Pod {
	small := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("32Mi")}
	out := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       c.options.CastoffNamespace,
			Name:            canaryName(pool),
			Labels:          canaryLabels(pool, owner),
			OwnerReferences: []metav1.OwnerReference{owner},
		},
		Spec: corev1.PodSpec{
			NodeSelector:                  map[string]string{karpv1.NodePoolLabelKey: canaryName(pool)},
			Tolerations:                   []corev1.Toleration{{Key: v1alpha1.TaintCanary, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}},
			TerminationGracePeriodSeconds: ptr.To[int64](1),
			Containers: []corev1.Container{{
				Name:  "canary",
				Image: c.options.CanaryImage,
				Args:  c.options.CanaryArgs,
				Resources: corev1.ResourceRequirements{
					Requests: small,
					Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("128Mi")},
				},
			}},
		},
	}
	kubeapi.Restrict(&out.Spec)
	return out
}

func canaryLabels(pool string, owner metav1.OwnerReference) map[string]string {
	return map[string]string{v1alpha1.LabelCanary: pool, v1alpha1.LabelMigration: string(owner.UID)}
}

// EndCanary deletes the canary's pod, then its NodePool, whose node drains and goes. What is gone already is fine.
func (c *Client) EndCanary(ctx context.Context, pool string) error {
	name := canaryName(pool)
	for _, one := range []struct {
		object   client.Object
		key      client.ObjectKey
		resource string
	}{
		{new(corev1.Pod), client.ObjectKey{Namespace: c.options.CastoffNamespace, Name: name}, "pods"},
		{new(karpv1.NodePool), client.ObjectKey{Name: name}, nodePools},
	} {
		err := c.live.Get(ctx, one.key, one.object)
		if err != nil {
			if !notServed(err) {
				return kubeapi.Wrap(err, "get", one.resource, name)
			}
			continue
		}
		if one.object.GetLabels()[v1alpha1.LabelCanary] == "" {
			return inventory.Terminal(&ForeignError{Object: one.resource + " " + name, Mark: v1alpha1.LabelCanary})
		}
		if err := c.remove(ctx, one.object, one.resource); err != nil {
			return err
		}
	}
	return nil
}

// remove deletes that very object, never its namesake.
func (c *Client) remove(ctx context.Context, object client.Object, resource string) error {
	if object.GetDeletionTimestamp() != nil {
		return nil
	}
	err := c.client.Delete(ctx, object, client.Preconditions{UID: ptr.To(object.GetUID())})
	return kubeapi.Wrap(client.IgnoreNotFound(err), "delete", resource, object.GetName())
}

// MarkCanaryPassed notes on the pool's EC2NodeClass that the spec with that hash has launched a node. It fails where no
// EC2NodeClass of the pool has that hash any more: what passed is not what is there.
func (c *Client) MarkCanaryPassed(ctx context.Context, pool, hash string) error {
	return c.markCanary(ctx, pool, hash, v1alpha1.AnnotationCanaryPassed, hash)
}

// MarkCanaryFailed notes on the pool's EC2NodeClass that a canary of the spec with that hash was given up, when, and why. It fails as
// MarkCanaryPassed does.
func (c *Client) MarkCanaryFailed(ctx context.Context, pool, hash, why string) error {
	const longest = 1024 // of what is kept: AWS's authorization failures are long
	return c.markCanary(ctx, pool, hash, v1alpha1.AnnotationCanaryFailed, hash+" "+c.clock().UTC().Format(time.RFC3339)+" "+strings.ToValidUTF8(why[:min(len(why), longest)], ""))
}

func (c *Client) markCanary(ctx context.Context, pool, hash, annotation, value string) error {
	list := new(awsv1.EC2NodeClassList)
	if err := c.live.List(ctx, list, client.MatchingLabels{v1alpha1.LabelPool: pool}); err != nil {
		return kubeapi.Wrap(err, "list", nodeClasses, "of pool "+pool)
	}
	for i := range list.Items {
		class := &list.Items[i]
		if NodeClassHash(class) != hash {
			continue
		}
		if class.Annotations[annotation] == value {
			return nil
		}
		before := class.DeepCopy()
		class.Annotations = merge(class.Annotations, map[string]string{annotation: value})
		err := c.client.Patch(ctx, class, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
		return kubeapi.Wrap(err, "patch", nodeClasses, class.Name)
	}
	return fmt.Errorf("no EC2NodeClass of pool %s has the spec that the canary tried (hash %s); it changed since, and is tried again", pool, hash)
}

// readCanaries puts together what is left of each canary: any of its objects is enough.
func (c *Client) readCanaries(ctx context.Context, engine inventory.Engine, claims []karpv1.NodeClaim) ([]inventory.Canary, error) {
	pods := new(corev1.PodList)
	err := c.live.List(ctx, pods, client.InNamespace(c.options.CastoffNamespace), client.HasLabels{v1alpha1.LabelCanary})
	if err != nil {
		return nil, kubeapi.Wrap(err, "list", "pods", "of namespace "+c.options.CastoffNamespace)
	}
	found := map[string]*trial{}
	of := func(object client.Object) *trial {
		pool := object.GetLabels()[v1alpha1.LabelCanary]
		if pool == "" {
			return new(trial) // not a canary's: goes nowhere
		}
		if found[pool] == nil {
			found[pool] = &trial{pool: pool}
		}
		return found[pool]
	}
	for i := range engine.NodePools {
		of(&engine.NodePools[i]).nodePool = &engine.NodePools[i]
	}
	for i := range claims {
		t := of(&claims[i])
		t.claims = append(t.claims, readClaim(&claims[i]))
	}
	for i := range pods.Items {
		of(&pods.Items[i]).pod = &pods.Items[i]
	}
	var canaries []inventory.Canary
	for _, t := range found {
		canaries = append(canaries, t.canary(engine.NodeClasses))
	}
	slices.SortFunc(canaries, func(a, b inventory.Canary) int { return cmp.Compare(a.Pool, b.Pool) })
	return canaries, nil
}

// trial is what there is of one canary.
type trial struct {
	pool     string
	nodePool *karpv1.NodePool
	pod      *corev1.Pod
	claims   []inventory.NodeClaim
}

func (t *trial) canary(classes []awsv1.EC2NodeClass) inventory.Canary {
	canary := inventory.Canary{Pool: t.pool, NodePool: t.nodePool != nil, Pod: t.pod != nil, Node: len(t.claims) > 0, PodRan: t.ran()}
	if t.nodePool != nil {
		canary.Since = t.nodePool.CreationTimestamp.UTC()
	}
	if !canary.PodRan {
		canary.Message = t.message(classes)
	}
	return canary
}

// ran says whether the pod is Ready on a node that Karpenter launched for it.
func (t *trial) ran() bool {
	if t.pod == nil || t.pod.Spec.NodeName == "" {
		return false
	}
	ready := slices.ContainsFunc(t.pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
	return ready && slices.ContainsFunc(t.claims, func(n inventory.NodeClaim) bool { return n.Node == t.pod.Spec.NodeName })
}

// message is what Karpenter says, from the cause to the effect: a class that does not work, a node that does not come, a pool
// that is not ready, a pod that does not start.
func (t *trial) message(classes []awsv1.EC2NodeClass) string {
	if t.nodePool != nil && t.nodePool.Spec.Template.Spec.NodeClassRef != nil {
		for i := range classes {
			if said := complaint(classes[i].Status.Conditions); said != "" && classes[i].Name == t.nodePool.Spec.Template.Spec.NodeClassRef.Name {
				return "EC2NodeClass " + classes[i].Name + ": " + said
			}
		}
	}
	for _, claim := range t.claims {
		if claim.Unregistered {
			return strings.TrimSuffix("NodeClaim "+claim.Name+": instance running, node not registered: "+claim.Message, ": ")
		}
		if claim.Message != "" {
			return "NodeClaim " + claim.Name + ": " + claim.Message
		}
	}
	if t.nodePool != nil {
		if said := complaint(t.nodePool.Status.Conditions); said != "" {
			return "NodePool " + t.nodePool.Name + ": " + said
		}
	}
	if t.pod != nil {
		if said := podMessage(t.pod); said != "" {
			return "pod " + t.pod.Name + ": " + said
		}
	}
	return ""
}
