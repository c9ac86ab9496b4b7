package autoscaler

import (
	"context"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
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
}

// New gives a Client. The client writes, and lists Deployments and DaemonSets, from a cache if it has one; live reads what
// proves that a Cluster Autoscaler has let go (pods, Lease, status), and HorizontalPodAutoscalers, past every cache.
func New(c client.Client, live client.Reader, clock func() time.Time) *Client {
	return &Client{client: c, live: live, clock: clock}
}

// Find lists every Deployment that runs Cluster Autoscaler, in whatever namespace and under whatever name, stopped ones too,
// by namespace and name.
func (c *Client) Find(ctx context.Context) ([]inventory.Autoscaler, error) {
	list := new(appsv1.DeploymentList)
	if err := c.client.List(ctx, list); err != nil {
		return nil, wrap(err, "list", "deployments", "of all namespaces")
	}
	var found []inventory.Autoscaler
	for i := range list.Items {
		container := find(&list.Items[i].Spec.Template.Spec)
		if container == nil {
			continue
		}
		one, err := c.read(ctx, &list.Items[i], container)
		if err != nil {
			return nil, err
		}
		found = append(found, one)
	}
	// A cache lists in any order, and what is shown must not change by itself.
	slices.SortFunc(found, func(a, b inventory.Autoscaler) int {
		return strings.Compare(a.Deployment.String(), b.Deployment.String())
	})
	return found, nil
}

func (c *Client) read(ctx context.Context, deployment *appsv1.Deployment, container *corev1.Container) (inventory.Autoscaler, error) {
	f := parse(words(container, deployment.Namespace))
	a := inventory.Autoscaler{
		Deployment:     client.ObjectKeyFromObject(deployment),
		UID:            deployment.UID,
		Image:          container.Image,
		Args:           slices.Concat(container.Command, container.Args),
		Replicas:       ptr.Deref(deployment.Spec.Replicas, 1), // the API's default
		StatusReplicas: deployment.Status.Replicas,
		Discovery:      f.discovery,
		Static:         f.static,
		LeaderElect:    f.leaderElect,
		Lease:          types.NamespacedName{Namespace: f.namespace, Name: f.lease},
		Owner:          owner(deployment),
	}
	if err := c.readPods(ctx, deployment, &a); err != nil {
		return a, err
	}
	if err := c.readLease(ctx, &a); err != nil {
		return a, err
	}
	if err := c.readHPA(ctx, &a); err != nil {
		return a, err
	}
	return a, c.readGroups(ctx, types.NamespacedName{Namespace: f.namespace, Name: f.status}, &a)
}

// readPods counts what may still act: a pod that is terminating does, one that has ended does not.
func (c *Client) readPods(ctx context.Context, deployment *appsv1.Deployment, a *inventory.Autoscaler) error {
	selector, err := metav1.LabelSelectorAsSelector(deployment.Spec.Selector)
	if err != nil {
		return wrap(err, "read", "the selector of Deployment", a.Deployment.String())
	}
	pods := new(corev1.PodList)
	err = c.live.List(ctx, pods, client.InNamespace(deployment.Namespace), client.MatchingLabelsSelector{Selector: selector})
	if err != nil {
		return wrap(err, "list", "pods", "of Deployment "+a.Deployment.String())
	}
	for _, pod := range pods.Items {
		if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		a.Pods++
		if node := pod.Spec.NodeName; node != "" && !slices.Contains(a.Nodes, node) {
			a.Nodes = append(a.Nodes, node)
		}
	}
	slices.Sort(a.Nodes)
	return nil
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
	a.LeaseHolder = ptr.Deref(lease.Spec.HolderIdentity, "")
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
