package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/castoff-sh/castoff/e2e/awssim/simapi"
)

// join registers the instance's Node, once in its life.
func (b *Bridge) join(ctx context.Context, instance simapi.Instance) error {
	authorised, err := b.authorised(ctx, instance)
	if err != nil {
		return err
	}
	if !authorised {
		b.refuse(instance, fmt.Sprintf("neither an access entry nor aws-auth lets role %q in", instance.RoleARN))
		return nil // looked at again with the next resync
	}
	r, err := register(instance)
	if err != nil {
		b.refuse(instance, err.Error())
		return nil
	}
	node := newNode(instance, r, b.kubeletVersion)
	_, err = b.config.Client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		err = b.adopt(ctx, instance)
	}
	if apierrors.IsInvalid(err) {
		b.refuse(instance, err.Error()) // the kubelet would fail the same way, again and again
		return nil
	}
	if err != nil {
		return fmt.Errorf("create node %s: %w", node.Name, err)
	}
	b.config.Log.Info("node joined", "node", node.Name, "instance", instance.ID, "type", instance.Type, "zone", instance.Zone, "group", instance.AutoScalingGroup)
	return b.recordJoined(instance.ID)
}

// errOtherInstance says that a Node of that name belongs to another instance, which must go first.
var errOtherInstance = errors.New("the node belongs to another instance")

// adopt accepts a Node that an earlier run of the bridge made for this instance.
func (b *Bridge) adopt(ctx context.Context, instance simapi.Instance) error {
	node, err := b.config.Client.CoreV1().Nodes().Get(ctx, instance.PrivateDNSName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if node.Spec.ProviderID != providerID(instance) {
		return fmt.Errorf("%w: %s", errOtherInstance, node.Spec.ProviderID)
	}
	return nil
}

// authorised is the authenticator's word on the instance's role: an access entry, which the simulator knows, or a row
// of the ConfigMap aws-auth, which it cannot see.
func (b *Bridge) authorised(ctx context.Context, instance simapi.Instance) (bool, error) {
	if instance.RoleAuthorised {
		return true, nil
	}
	configMap, err := b.config.Client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, "aws-auth", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read aws-auth: %w", err)
	}
	return mapsRole(configMap.Data["mapRoles"], instance.RoleARN), nil
}

// mapsRole tells whether aws-auth's mapRoles lets a role's nodes in. What cannot be parsed lets nobody in, as in EKS.
func mapsRole(mapRoles, roleARN string) bool {
	var rows []roleRow
	if err := yaml.Unmarshal([]byte(mapRoles), &rows); err != nil {
		return false
	}
	for _, row := range rows {
		if roleARN != "" && row.RoleARN == roleARN && slices.Contains(row.Groups, "system:nodes") {
			return true
		}
	}
	return false
}

// node is the instance's Node, nil when there is none (any more).
func (b *Bridge) node(ctx context.Context, instance simapi.Instance) (*corev1.Node, error) {
	node, err := b.config.Client.CoreV1().Nodes().Get(ctx, instance.PrivateDNSName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read node %s: %w", instance.PrivateDNSName, err)
	}
	if node.Spec.ProviderID != providerID(instance) {
		return nil, nil
	}
	return node, nil
}

// markEnded makes the Node and its pods not Ready: the machine is going down.
func (b *Bridge) markEnded(ctx context.Context, instance simapi.Instance) error {
	node, err := b.node(ctx, instance)
	if err != nil || node == nil || node.Annotations[AnnotationEnded] != "" {
		return err
	}
	nodes := b.config.Client.CoreV1().Nodes()
	now := time.Now().UTC().Format(time.RFC3339)
	// The annotation first: without it kwok would set the condition back.
	patch := map[string]any{"metadata": map[string]any{"uid": node.UID, "annotations": map[string]string{AnnotationEnded: now}}}
	if _, err := nodes.Patch(ctx, node.Name, types.StrategicMergePatchType, mustJSON(patch), metav1.PatchOptions{}); err != nil {
		return ignoreGone(fmt.Errorf("mark node %s as ended: %w", node.Name, err))
	}
	patch = notReady(node.UID, corev1.ConditionUnknown, "instance "+instance.ID+" is "+instance.State)
	if _, err := nodes.Patch(ctx, node.Name, types.StrategicMergePatchType, mustJSON(patch), metav1.PatchOptions{}, "status"); err != nil {
		return ignoreGone(fmt.Errorf("make node %s not Ready: %w", node.Name, err))
	}
	b.config.Log.Info("node is going down", "node", node.Name, "instance", instance.ID, "endedBy", instance.EndedBy)
	return b.eachPod(ctx, node.Name, func(pod *corev1.Pod) error {
		if pod.Status.Phase != corev1.PodRunning {
			return nil
		}
		patch := notReady(pod.UID, corev1.ConditionFalse, "its node's instance ended")
		_, err := b.config.Client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, mustJSON(patch), metav1.PatchOptions{}, "status")
		return err
	})
}

// notReady is a patch of the Ready condition of a node or a pod, for the object of that UID only.
func notReady(uid types.UID, status corev1.ConditionStatus, message string) map[string]any {
	return map[string]any{
		"metadata": map[string]any{"uid": uid},
		"status": map[string]any{"conditions": []map[string]any{{
			"type": "Ready", "status": status, "reason": ReasonEnded, "message": message,
			"lastTransitionTime": time.Now().UTC().Format(time.RFC3339),
		}}},
	}
}

// finalizerInterval is how often a Node is looked at that somebody's finalizer holds.
const finalizerInterval = 500 * time.Millisecond

// remove deletes the Node of an instance that is no more, then its pods, as the cloud's node controller and the pod
// garbage collector do within a minute; here at once. It is done when nothing is left.
func (b *Bridge) remove(ctx context.Context, instance simapi.Instance) (time.Duration, error) {
	node, err := b.node(ctx, instance)
	if err != nil {
		return 0, err
	}
	if node == nil {
		return 0, b.finish(ctx, instance)
	}
	if node.DeletionTimestamp == nil {
		err := b.config.Client.CoreV1().Nodes().Delete(ctx, node.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &node.UID}})
		if err := ignoreGone(err); err != nil {
			return 0, fmt.Errorf("delete node %s: %w", node.Name, err)
		}
		b.config.Log.Info("node removed", "node", node.Name, "instance", instance.ID, "endedBy", instance.EndedBy)
	}
	if err := b.removePods(ctx, node.Name); err != nil {
		return 0, err
	}
	return finalizerInterval, nil
}

// finish removes what came to the Node while it went.
func (b *Bridge) finish(ctx context.Context, instance simapi.Instance) error {
	_, err := b.config.Client.CoreV1().Nodes().Get(ctx, instance.PrivateDNSName, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("read node %s: %w", instance.PrivateDNSName, err)
	}
	if err != nil { // else the name belongs to another instance by now
		if err := b.removePods(ctx, instance.PrivateDNSName); err != nil {
			return err
		}
	}
	b.mu.Lock()
	b.gone[instance.ID] = true
	b.mu.Unlock()
	return nil
}

func (b *Bridge) removePods(ctx context.Context, nodeName string) error {
	return b.eachPod(ctx, nodeName, func(pod *corev1.Pod) error {
		now := int64(0)
		return b.config.Client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
			GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &pod.UID},
		})
	})
}

// eachPod calls act for every pod bound to the node; pods that go meanwhile are no error.
func (b *Bridge) eachPod(ctx context.Context, nodeName string, act func(*corev1.Pod) error) error {
	pods, err := b.config.Client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("spec.nodeName", nodeName).String(),
	})
	if err != nil {
		return fmt.Errorf("list the pods of node %s: %w", nodeName, err)
	}
	var failed []error
	for i := range pods.Items {
		pod := &pods.Items[i]
		if err := ignoreGone(act(pod)); err != nil {
			failed = append(failed, fmt.Errorf("pod %s/%s of node %s: %w", pod.Namespace, pod.Name, nodeName, err))
		}
	}
	return errors.Join(failed...)
}

// endUnlisted has the Nodes removed of instances that the simulator no longer knows, as after its reset.
func (b *Bridge) endUnlisted(nodes []corev1.Node, listed map[string]bool) {
	for i := range nodes {
		id := nodes[i].Annotations[AnnotationInstance]
		if id == "" || listed[id] {
			continue
		}
		if ended, ok := instanceOf(&nodes[i]); ok {
			b.see(ended, time.Time{})
		}
	}
}

// instanceOf is what is left to know of an instance that the simulator forgot.
func instanceOf(node *corev1.Node) (simapi.Instance, bool) {
	instance := simapi.Instance{
		ID: node.Annotations[AnnotationInstance], PrivateDNSName: node.Name, Zone: node.Labels[corev1.LabelTopologyZone],
		State: "terminated", Cluster: "forgotten", EndedBy: "the simulator knows it no more",
	}
	return instance, node.Spec.ProviderID == providerID(instance)
}

// ignoreGone makes it no error that an object is gone or was replaced by another of its name.
func ignoreGone(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// mustJSON encodes what this package built itself: maps of strings.
func mustJSON(v any) []byte {
	encoded, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return encoded
}
