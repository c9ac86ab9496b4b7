package drain

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/inventory/kubeapi"
)

const (
	// fewRooms is how many placeholders a node has at most while its pods can share: each costs two writes and a turn of the scheduler.
	fewRooms = 4
	// fewSharers is how many pods share one at most: when the first of them moves, the room of the others is open to anybody.
	fewSharers = 4
	// sharedGroup is the group of placeholders that several pods share: they are spread among themselves.
	sharedGroup = "shared"
	// madeAtOnce is how many placeholders of a node are made at once.
	madeAtOnce = 4
)

// Warm makes placeholders for the pods of the node that may be evicted, so that Karpenter launches what they will need before the first
// of them goes. Each says how many there are to be; what is there already stays. A node of which no pod needs room says so by
// AnnotationWarmed; one that is gone, or that is being drained, needs none.
func (d *Drainer) Warm(ctx context.Context, node, pool string, owner metav1.OwnerReference) error {
	object, err := d.node(ctx, node)
	if err != nil || object == nil || object.Annotations[v1alpha1.AnnotationDraining] != "" { // its pods are on their way already
		return err
	}
	pods, err := d.pods(ctx, node)
	if err != nil {
		return err
	}
	at := d.view(object)
	var moving []*corev1.Pod
	for i := range pods.leaving {
		pod := &pods.leaving[i]
		if at.waits(pod, inventory.DrainAllowance{}) != nil || windows(pod) {
			continue
		}
		switch replaced, err := d.replaced(ctx, pod, string(owner.UID)); {
		case err != nil:
			return err
		case !replaced:
			moving = append(moving, pod)
		}
	}
	rooms := sharing(moving, object)
	if len(rooms) == 0 {
		return d.noteWarm(ctx, node)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(madeAtOnce)
	for _, sharers := range rooms {
		want := d.room.placeholder(sharers, object, pool, owner)
		want.Annotations[v1alpha1.AnnotationPlaceholderBatch] = strconv.Itoa(len(rooms))
		g.Go(func() error {
			err := client.IgnoreAlreadyExists(d.client.Create(ctx, want))
			return kubeapi.Wrap(err, "create", "pods", want.Namespace+"/"+want.Name)
		})
	}
	return g.Wait()
}

// replaced says that the pod's Deployment was restarted for that migration and is not done: the pod that comes in its place has room, or
// has asked for it. The Deployment is read from the cache: one that was restarted a moment ago costs a placeholder at most, which goes
// with the others.
func (d *Drainer) replaced(ctx context.Context, pod *corev1.Pod, migration string) (bool, error) {
	hash := pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey]
	if hash == "" || !controlledBy(pod, "ReplicaSet", "apps/") {
		return false, nil
	}
	name, ok := strings.CutSuffix(metav1.GetControllerOf(pod).Name, "-"+hash)
	if !ok {
		return false, nil
	}
	deployment := new(appsv1.Deployment)
	if err := d.client.Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: name}, deployment); err != nil {
		return false, kubeapi.Wrap(client.IgnoreNotFound(err), "get", "deployments", pod.Namespace+"/"+name)
	}
	return inventory.Surge{Strategy: v1alpha1.SurgeAll, For: migration}.StepOf(deployment) == inventory.SurgeAwait, nil
}

func (d *Drainer) noteWarm(ctx context.Context, node string) error {
	return d.patch(ctx, node, func(n *corev1.Node) {
		if n.Annotations[v1alpha1.AnnotationWarmed] == "" {
			n.Annotations = with(n.Annotations, v1alpha1.AnnotationWarmed, d.clock().UTC().Format(time.RFC3339))
		}
	})
}

// sharing says which pods share a placeholder. Each has one of its own while they are few, or where it matters to the pod which node
// it has; the others share with those that may run in the same places.
func sharing(pods []*corev1.Pod, node *corev1.Node) [][]*corev1.Pod {
	var out [][]*corev1.Pod
	alike := map[string][]*corev1.Pod{}
	var places []string
	for _, pod := range pods {
		place, ok := placeOf(pod, node)
		if len(pods) <= fewRooms || !ok {
			out = append(out, []*corev1.Pod{pod})
			continue
		}
		if alike[place] == nil {
			places = append(places, place)
		}
		alike[place] = append(alike[place], pod)
	}
	share := min(fewSharers, (len(pods)+fewRooms-1)/fewRooms)
	for _, place := range places {
		out = slices.AppendSeq(out, slices.Chunk(alike[place], share))
	}
	return out
}

// placeOf is where the pod may run, the same for pods that may run in the same places; false where it may not share: it keeps apart
// from others, has to be spread, has a volume's zone, or is so small that the number of pods of a node is what limits it.
func placeOf(pod *corev1.Pod, node *corev1.Node) (string, bool) {
	hard := func(c corev1.TopologySpreadConstraint) bool { return c.WhenUnsatisfiable == corev1.DoNotSchedule }
	if hasHostPort(pod) || zonal(pod) || slices.ContainsFunc(pod.Spec.TopologySpreadConstraints, hard) || !large(pod, node) {
		return "", false
	}
	place := struct {
		Selector    map[string]string
		Affinity    *corev1.NodeSelector
		Tolerations []corev1.Toleration
		Spread      []string
	}{Selector: pod.Spec.NodeSelector, Tolerations: pod.Spec.Tolerations}
	if a := pod.Spec.Affinity; a != nil {
		if a.PodAntiAffinity != nil && len(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0 {
			return "", false
		}
		if a.NodeAffinity != nil {
			place.Affinity = a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
		}
	}
	for _, c := range pod.Spec.TopologySpreadConstraints {
		place.Spread = append(place.Spread, fmt.Sprint(c.TopologyKey, c.MaxSkew))
	}
	slices.Sort(place.Spread)
	key, err := json.Marshal(place)
	return string(key), err == nil
}

// large pods request so much that a node is full of them before it has as many pods as it takes.
func large(pod *corev1.Pod, node *corev1.Node) bool {
	most := max(node.Status.Allocatable.Pods().Value(), 1)
	requests := resource.PodRequests(pod, resource.PodResourcesOptions{})
	ofAll := func(request, all int64) bool { return cmp.Compare(request*most, all) >= 0 && all > 0 }
	return ofAll(requests.Cpu().MilliValue(), node.Status.Allocatable.Cpu().MilliValue()) || ofAll(requests.Memory().Value(), node.Status.Allocatable.Memory().Value())
}
