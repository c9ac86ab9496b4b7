package autoscaler

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

const (
	kindDaemonSet  = "DaemonSet"  // reads the instance metadata of each node
	kindDeployment = "Deployment" // reads a queue
)

// images are built for one system or architecture too.
var handlerImageName = regexp.MustCompile(`^aws-node-termination-handler(-(windows|amd64|arm64|arm))?$`)

// TerminationHandlers lists every workload that runs aws-node-termination-handler, by its image's name in whatever registry, in
// whatever namespace and under whatever name, by kind, namespace and name.
func (c *Client) TerminationHandlers(ctx context.Context) ([]inventory.TerminationHandler, error) {
	sets, deployments := new(appsv1.DaemonSetList), new(appsv1.DeploymentList)
	if err := c.client.List(ctx, sets); err != nil {
		return nil, wrap(err, "list", "daemonsets", "of all namespaces")
	}
	if err := c.client.List(ctx, deployments); err != nil {
		return nil, wrap(err, "list", "deployments", "of all namespaces")
	}
	var found []inventory.TerminationHandler
	add := func(kind string, object client.Object, spec *corev1.PodSpec) {
		if runsHandler(spec) {
			found = append(found, inventory.TerminationHandler{
				Kind: kind, Workload: client.ObjectKeyFromObject(object), UID: object.GetUID(), Owner: inventory.OwnerOf(object),
			})
		}
	}
	for i := range sets.Items {
		add(kindDaemonSet, &sets.Items[i], &sets.Items[i].Spec.Template.Spec)
	}
	for i := range deployments.Items {
		add(kindDeployment, &deployments.Items[i], &deployments.Items[i].Spec.Template.Spec)
	}
	// A cache lists in any order, and what is shown must not change by itself.
	slices.SortFunc(found, func(a, b inventory.TerminationHandler) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Workload.String(), b.Workload.String()))
	})
	return found, nil
}

func runsHandler(spec *corev1.PodSpec) bool {
	return slices.ContainsFunc(spec.Containers, func(c corev1.Container) bool { return handlerImageName.MatchString(imageBase(c.Image)) })
}

// DeleteTerminationHandler deletes the workload that was seen, and its pods after it. One that is gone is fine; *ReplacedError
// means that it is not the one that was seen.
func (c *Client) DeleteTerminationHandler(ctx context.Context, h inventory.TerminationHandler) error {
	meta := metav1.ObjectMeta{Namespace: h.Workload.Namespace, Name: h.Workload.Name}
	var object client.Object
	var resource string
	switch h.Kind {
	case kindDaemonSet:
		object, resource = &appsv1.DaemonSet{ObjectMeta: meta}, "daemonsets"
	case kindDeployment:
		object, resource = &appsv1.Deployment{ObjectMeta: meta}, "deployments"
	default:
		return inventory.Terminal(fmt.Errorf("%s %s: castoff knows termination handlers as DaemonSet and Deployment only; delete it by hand", h.Kind, h.Workload))
	}
	err := c.client.Delete(ctx, object, client.PropagationPolicy(metav1.DeletePropagationBackground), client.Preconditions{UID: ptr.To(h.UID)})
	if apierrors.IsConflict(err) {
		return &ReplacedError{Object: h.Kind + " " + h.Workload.String()}
	}
	return wrap(client.IgnoreNotFound(err), "delete", resource, h.Workload.String())
}
