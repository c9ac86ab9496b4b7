package autoscaler

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// Client reads, stops and starts Cluster Autoscalers, and deletes them and what goes with them.
type Client struct {
	client client.Client
	live   client.Reader
	clock  func() time.Time
	quiet  quiet
}

// New gives a Client. The client writes, and lists Deployments, StatefulSets and DaemonSets, from a cache if it has one; live reads
// what proves that a Cluster Autoscaler has let go (pods, Lease, status), and HorizontalPodAutoscalers, past every cache.
func New(c client.Client, live client.Reader, clock func() time.Time) *Client {
	return &Client{client: c, live: live, clock: clock}
}

// Find lists everything that runs Cluster Autoscaler, in whatever namespace and under whatever name: Deployments, StatefulSets and
// DaemonSets, stopped ones too; and pods that nothing of these has, by themselves or by what else has them. They come by kind,
// namespace and name, Deployments first.
func (c *Client) Find(ctx context.Context) ([]inventory.Autoscaler, error) {
	workloads, err := c.workloads(ctx)
	if err != nil {
		return nil, err
	}
	found, err := c.readAll(ctx, workloads)
	if err != nil {
		return nil, err
	}
	strays, err := c.strays(ctx, workloads)
	if err != nil {
		return nil, err
	}
	more, err := c.readAll(ctx, strays)
	if err != nil {
		return nil, err
	}
	found = append(found, more...)
	// A cache lists in any order, and what is shown must not change by itself.
	slices.SortFunc(found, func(a, b inventory.Autoscaler) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), strings.Compare(a.Deployment.String(), b.Deployment.String()))
	})
	return found, nil
}

func (c *Client) readAll(ctx context.Context, workloads []workload) ([]inventory.Autoscaler, error) {
	var found []inventory.Autoscaler
	for _, w := range workloads {
		one, err := c.read(ctx, w)
		if err != nil {
			return nil, err
		}
		found = append(found, one)
	}
	return found, nil
}

func (c *Client) read(ctx context.Context, w workload) (inventory.Autoscaler, error) {
	f := parse(words(w.container, w.object.GetNamespace()))
	a := inventory.Autoscaler{
		Deployment:     types.NamespacedName{Namespace: w.object.GetNamespace(), Name: w.object.GetName()},
		Kind:           w.kind,
		UID:            w.object.GetUID(),
		Image:          w.container.Image,
		Args:           slices.Concat(w.container.Command, w.container.Args),
		Replicas:       w.replicas,
		StatusReplicas: w.status,
		Discovery:      f.discovery,
		Static:         f.static,
		LeaderElect:    f.leaderElect,
		Lease:          types.NamespacedName{Namespace: f.namespace, Name: f.lease},
		Owner:          inventory.OwnerOf(w.object),
		ChangedBy:      inventory.ManagerOf(w.object),
		Notes:          f.notes,
	}
	if err := c.readPods(ctx, w, &a); err != nil {
		return a, err
	}
	if err := c.readLease(ctx, &a); err != nil {
		return a, err
	}
	if err := c.readHPA(ctx, &a); err != nil {
		return a, err
	}
	if err := c.readPriorities(ctx, f, &a); err != nil {
		return a, err
	}
	return a, c.readGroups(ctx, types.NamespacedName{Namespace: f.namespace, Name: f.status}, &a)
}

// readPods counts what may still act: a pod that is terminating does, one that has ended does not.
func (c *Client) readPods(ctx context.Context, w workload, a *inventory.Autoscaler) error {
	pods := w.pods
	if w.selector != nil {
		selector, err := metav1.LabelSelectorAsSelector(w.selector)
		if err != nil {
			return wrap(err, "read", "the selector of", w.String())
		}
		list := new(corev1.PodList)
		err = c.live.List(ctx, list, client.InNamespace(w.object.GetNamespace()), client.MatchingLabelsSelector{Selector: selector})
		if err != nil {
			return wrap(err, "list", "pods", "of "+w.String())
		}
		pods = list.Items
	}
	for i := range pods {
		if ended(&pods[i]) {
			continue
		}
		a.Pods++
		if node := pods[i].Spec.NodeName; node != "" && !slices.Contains(a.Nodes, node) {
			a.Nodes = append(a.Nodes, node)
		}
	}
	slices.Sort(a.Nodes)
	return nil
}

func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

func (c *Client) readLease(ctx context.Context, a *inventory.Autoscaler) error {
	lease := new(coordinationv1.Lease)
	err := c.live.Get(ctx, a.Lease, lease)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return wrap(err, "get", "leases", a.Lease.String())
	}
	a.LeaseHolder, a.LeaseBy = ptr.Deref(lease.Spec.HolderIdentity, ""), inventory.ManagerOf(lease)
	a.LeaseDuration = time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0)) * time.Second
	if renewed := lease.Spec.RenewTime; renewed != nil {
		a.LeaseRenewed = renewed.UTC()
	}
	return nil
}

// readGroups reads the status ConfigMap. There is none while Cluster Autoscaler is stopped, or a standby that never led.
func (c *Client) readGroups(ctx context.Context, name types.NamespacedName, a *inventory.Autoscaler) error {
	configMap := new(corev1.ConfigMap)
	err := c.live.Get(ctx, name, configMap)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return wrap(err, "get", "configmaps", name.String())
	}
	a.Groups, a.StatusTime = readStatus(configMap)
	return nil
}
