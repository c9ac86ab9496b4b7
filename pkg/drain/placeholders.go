package drain

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/resource"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/inventory/kubeapi"
)

// Room is where placeholders live and what they run.
type Room struct {
	// Namespace is castoff's own: nothing of the user's selects pods there.
	Namespace string
	// Image and Args wait until they are told to end.
	Image string
	Args  []string
	// Cached has the placeholders from a watch, by IndexPlaceholderNode; nil: they are read past every cache.
	Cached client.Reader
}

// IndexPlaceholderNode is the index of Room.Cached by the legacy node that a placeholder is for.
const IndexPlaceholderNode = "castoff.sh/placeholder-node"

// IndexOf gives the value of IndexPlaceholderNode.
func IndexOf(o client.Object) []string {
	return []string{o.GetAnnotations()[v1alpha1.AnnotationPlaceholderNode]}
}

// longest is for how many seconds a placeholder keeps its room. A batch that takes longer does without.
const longest int64 = 3600

// WithRoom says where placeholders live. Without it none is made.
func (d *Drainer) WithRoom(r Room) *Drainer {
	d.room = r
	return d
}

// Placeholders lists castoff's placeholders, of all nodes.
func (d *Drainer) Placeholders(ctx context.Context) ([]inventory.Placeholder, error) {
	return d.placeholders(ctx)
}

// roomsOf lists the placeholders of one node's pods.
func (d *Drainer) roomsOf(ctx context.Context, node string) ([]inventory.Placeholder, error) {
	if d.room.Cached != nil {
		return d.placeholders(ctx, client.MatchingFields{IndexPlaceholderNode: node})
	}
	all, err := d.placeholders(ctx)
	return slices.DeleteFunc(all, func(p inventory.Placeholder) bool { return p.Node != node }), err
}

func (d *Drainer) placeholders(ctx context.Context, which ...client.ListOption) ([]inventory.Placeholder, error) {
	var out []inventory.Placeholder
	if d.room.Namespace == "" {
		return nil, nil // none is made
	}
	keep := func(p *corev1.Pod) {
		if p.DeletionTimestamp == nil {
			out = append(out, placeholderOf(p))
		}
	}
	which = append(which, client.InNamespace(d.room.Namespace), client.HasLabels{v1alpha1.LabelPlaceholder})
	if d.room.Cached == nil {
		err := d.eachPod(ctx, keep, which...)
		return out, kubeapi.Wrap(err, "list", "pods", "in "+d.room.Namespace)
	}
	list := new(corev1.PodList) // a cache knows no pages
	err := d.room.Cached.List(ctx, list, append(which, client.UnsafeDisableDeepCopy)...)
	for i := range list.Items {
		keep(&list.Items[i])
	}
	return out, kubeapi.Wrap(err, "list", "pods", "in "+d.room.Namespace)
}

func placeholderOf(p *corev1.Pod) inventory.Placeholder {
	out := inventory.Placeholder{
		Name: p.Name, Pool: p.Labels[v1alpha1.LabelPlaceholder], Node: p.Annotations[v1alpha1.AnnotationPlaceholderNode],
		Pod: types.UID(p.Labels[v1alpha1.LabelPlaceholderPod]), On: p.Spec.NodeName, Ready: kubeapi.Ready(p), Ended: kubeapi.Finished(p), Created: p.CreationTimestamp.Time,
	}
	for uid := range strings.SplitSeq(cmp.Or(p.Annotations[v1alpha1.AnnotationPlaceholderPods], string(out.Pod)), ",") {
		out.Pods = append(out.Pods, types.UID(uid))
	}
	out.Batch, _ = strconv.Atoi(p.Annotations[v1alpha1.AnnotationPlaceholderBatch]) // what is no number is not known
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status != corev1.ConditionTrue {
			out.Message = c.Message
		}
	}
	return out
}

// placeholderName is the same for the same pod, so that it is made once.
func placeholderName(pod types.UID) string { return "placeholder-" + string(pod) }

// windows pods get none: castoff's image does not run there.
func windows(pod *corev1.Pod) bool {
	return pod.Spec.NodeSelector[corev1.LabelOSStable] == string(corev1.Windows) || (pod.Spec.OS != nil && pod.Spec.OS.Name == corev1.Windows)
}

// placeholder has the shape of the pods that share it: what they request together, and where the first of them may run, which is where
// the others may. No label of the user's is on it, so that no ReplicaSet, Service or PodDisruptionBudget takes it for one of its own.
func (r Room) placeholder(pods []*corev1.Pod, node *corev1.Node, pool string, owner metav1.OwnerReference) *corev1.Pod {
	pod, group, uids := pods[0], groupOf(pods[0]), []string{}
	if len(pods) > 1 {
		group = sharedGroup
	}
	requests := corev1.ResourceList{}
	for _, p := range pods {
		uids = append(uids, string(p.UID))
		addTo(requests, resource.PodRequests(p, resource.PodResourcesOptions{}))
	}
	own := map[string]string{
		v1alpha1.LabelPlaceholder: pool, v1alpha1.LabelPlaceholderPod: string(pod.UID), v1alpha1.LabelPlaceholderGroup: group,
		v1alpha1.LabelMigration: string(owner.UID),
	}
	out := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: r.Namespace, Name: placeholderName(pod.UID), Labels: own,
			// A node's name and many UIDs may be too long for a label.
			Annotations:     map[string]string{v1alpha1.AnnotationPlaceholderNode: node.Name, v1alpha1.AnnotationPlaceholderPods: strings.Join(uids, ",")},
			OwnerReferences: []metav1.OwnerReference{owner},
		},
		Spec: corev1.PodSpec{
			NodeSelector:                  pod.Spec.NodeSelector,
			Affinity:                      affinityOf(pod, node, group),
			Tolerations:                   pod.Spec.Tolerations,
			TopologySpreadConstraints:     spreadOf(pod, group),
			PriorityClassName:             v1alpha1.PlaceholderPriorityClass,
			ActiveDeadlineSeconds:         ptr.To(longest),  // it ends by itself where castoff is no more
			TerminationGracePeriodSeconds: ptr.To[int64](0), // 15 seconds of grace delayed the moved pod by 16
			Containers: []corev1.Container{{
				Name: "placeholder", Image: r.Image, Args: r.Args, Resources: corev1.ResourceRequirements{Requests: requests},
			}},
		},
	}
	kubeapi.Restrict(&out.Spec)
	return out
}

func addTo(sum, more corev1.ResourceList) {
	for name, quantity := range more {
		total := sum[name]
		total.Add(quantity)
		sum[name] = total
	}
}

// groupOf names the pods that are alike: those of one controller, as far as spread and anti-affinity among themselves go.
func groupOf(pod *corev1.Pod) string {
	if c := metav1.GetControllerOf(pod); c != nil {
		return string(c.UID)
	}
	return string(pod.UID)
}

// affinityOf asks for one of Karpenter's nodes, where the pod itself may run: legacy nodes have room that is of no use. A pod with a
// volume of one zone will be in that zone again.
func affinityOf(pod *corev1.Pod, node *corev1.Node, group string) *corev1.Affinity {
	terms := []corev1.NodeSelectorTerm{{}}
	out := &corev1.Affinity{}
	if a := pod.Spec.Affinity; a != nil {
		if a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
			terms = a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.DeepCopy().NodeSelectorTerms
		}
		if a.PodAntiAffinity != nil {
			out.PodAntiAffinity = apart(pod, a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, group)
		}
	}
	if out.PodAntiAffinity == nil && hasHostPort(pod) {
		out.PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: corev1.LabelHostname, LabelSelector: alike(group)}}}
	}
	for i := range terms {
		terms[i].MatchExpressions = append(terms[i].MatchExpressions, corev1.NodeSelectorRequirement{Key: karpv1.NodePoolLabelKey, Operator: corev1.NodeSelectorOpExists})
		if zone := node.Labels[corev1.LabelTopologyZone]; zone != "" && zonal(pod) {
			terms[i].MatchExpressions = append(terms[i].MatchExpressions, corev1.NodeSelectorRequirement{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{zone}})
		}
	}
	out.NodeAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms}}
	return out
}

// apart keeps the placeholders of pods that keep apart from each other apart. What they keep away from besides is not known to be
// where Karpenter launches, and is left to the pods themselves.
func apart(pod *corev1.Pod, terms []corev1.PodAffinityTerm, group string) *corev1.PodAntiAffinity {
	var out []corev1.PodAffinityTerm
	for _, t := range terms {
		if selects(t.LabelSelector, pod) {
			out = append(out, corev1.PodAffinityTerm{TopologyKey: t.TopologyKey, LabelSelector: alike(group)})
		}
	}
	if len(out) == 0 {
		return nil
	}
	return &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: out}
}

// spreadOf spreads placeholders as their pods are spread.
func spreadOf(pod *corev1.Pod, group string) []corev1.TopologySpreadConstraint {
	var out []corev1.TopologySpreadConstraint
	for _, c := range pod.Spec.TopologySpreadConstraints {
		if selects(c.LabelSelector, pod) {
			c := *c.DeepCopy()
			c.LabelSelector, c.MatchLabelKeys = alike(group), nil
			out = append(out, c)
		}
	}
	return out
}

func alike(group string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{v1alpha1.LabelPlaceholderGroup: group}}
}

// zonal says that the pod has a volume of its own, which most volumes keep in one zone.
func zonal(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.PersistentVolumeClaim != nil })
}

func hasHostPort(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool {
		return slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.HostPort != 0 })
	})
}

func selects(selector *metav1.LabelSelector, pod *corev1.Pod) bool {
	s, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && s.Matches(labels.Set(pod.Labels))
}
