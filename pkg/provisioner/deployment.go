package provisioner

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/inventory/kubeapi"
)

const (
	release        = "karpenter" // the Helm release's name and that of its Deployment, upstream's too
	labelName      = "app.kubernetes.io/name"
	labelManagedBy = "app.kubernetes.io/managed-by"
	engineImage    = "provisioner" // the last part of the built-in engine's image name
)

// readDeployments tells the built-in engine's Deployment from every other Karpenter.
func (c *Client) readDeployments(ctx context.Context, engine *inventory.Engine) error {
	list := new(appsv1.DeploymentList)
	if err := c.client.List(ctx, list); err != nil {
		return kubeapi.Wrap(err, "list", "deployments", "of all namespaces")
	}
	for i := range list.Items {
		deployment := &list.Items[i]
		if c.ours(deployment) {
			if err := c.readEngine(ctx, deployment, engine); err != nil {
				return err
			}
		} else if IsKarpenter(deployment) {
			engine.Foreign = append(engine.Foreign, deployment.Namespace+"/"+deployment.Name)
			engine.Others = append(engine.Others, readOther(deployment))
		}
	}
	slices.Sort(engine.Foreign)
	slices.SortFunc(engine.Others, func(a, b inventory.Karpenter) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return nil
}

// ours goes by place, by Helm's mark and by castoff's: upstream's chart makes a Deployment of the same name. An engine without
// castoff's mark is known by its image, which upstream calls "controller".
func (c *Client) ours(deployment *appsv1.Deployment) bool {
	if deployment.Namespace != c.options.Namespace || deployment.Name != release || deployment.Labels[labelManagedBy] != "Helm" {
		return false
	}
	return deployment.Labels[v1alpha1.TagManagedBy] == v1alpha1.TagManagedByValue ||
		deployment.Annotations[v1alpha1.TagManagedBy] == v1alpha1.TagManagedByValue ||
		slices.ContainsFunc(imagePaths(deployment), func(path []string) bool { return path[len(path)-1] == engineImage })
}

// IsKarpenter says whether a Deployment runs a Karpenter of any origin. It goes by upstream's label, and by the image's name in whatever registry: …/karpenter/controller, …/karpenter.
func IsKarpenter(deployment *appsv1.Deployment) bool {
	if deployment.Labels[labelName] == release || deployment.Spec.Template.Labels[labelName] == release {
		return true
	}
	return slices.ContainsFunc(imagePaths(deployment), func(path []string) bool {
		last := path[len(path)-1]
		return last == release || (last == "controller" && len(path) > 1 && path[len(path)-2] == release)
	})
}

// imagePaths gives the parts of each image's name, without tag and digest. A port in the registry's name is no tag.
func imagePaths(deployment *appsv1.Deployment) (paths [][]string) {
	for _, container := range deployment.Spec.Template.Spec.Containers {
		name, _, _ := strings.Cut(container.Image, "@")
		path := strings.Split(name, "/")
		last := len(path) - 1
		path[last], _, _ = strings.Cut(path[last], ":")
		paths = append(paths, path)
	}
	return paths
}

func (c *Client) readEngine(ctx context.Context, deployment *appsv1.Deployment, engine *inventory.Engine) error {
	engine.Replicas = ptr.Deref(deployment.Spec.Replicas, 1) // the API's default
	engine.ReadyReplicas = deployment.Status.ReadyReplicas
	if engine.ReadyReplicas >= engine.Replicas && deployment.Status.UnavailableReplicas == 0 {
		return nil
	}
	selector, err := metav1.LabelSelectorAsSelector(deployment.Spec.Selector)
	if err != nil {
		return kubeapi.Wrap(err, "read", "the selector of Deployment", deployment.Name)
	}
	pods := new(corev1.PodList)
	err = c.live.List(ctx, pods, client.InNamespace(deployment.Namespace), client.MatchingLabelsSelector{Selector: selector})
	if err != nil {
		return kubeapi.Wrap(err, "list", "pods", "of Deployment "+deployment.Name)
	}
	engine.DeploymentMessage = deploymentMessage(deployment, pods.Items)
	return nil
}

// deploymentMessage says why an engine is not Ready: what keeps at most three of its pods, else what keeps it from having any.
func deploymentMessage(deployment *appsv1.Deployment, pods []corev1.Pod) string {
	const shown = 3
	var reasons []string
	for i := range pods {
		if reason := podMessage(&pods[i]); reason != "" && len(reasons) < shown {
			reasons = append(reasons, fmt.Sprintf("pod %s: %s", pods[i].Name, reason))
		}
	}
	for _, condition := range deployment.Status.Conditions {
		if condition.Type == appsv1.DeploymentReplicaFailure && condition.Status == corev1.ConditionTrue {
			reasons = append(reasons, condition.Message)
		}
	}
	if len(reasons) == 0 {
		return fmt.Sprintf("%d of %d replicas are ready", deployment.Status.ReadyReplicas, ptr.Deref(deployment.Spec.Replicas, 1))
	}
	return strings.Join(reasons, "; ")
}

// podMessage says what keeps a pod from being Ready; empty if nothing does, or nothing is known.
func podMessage(pod *corev1.Pod) string {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			return "not scheduled: " + condition.Message
		}
	}
	for _, container := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		waiting, last := container.State.Waiting, container.LastTerminationState.Terminated
		switch {
		case waiting != nil && waiting.Message != "":
			return waiting.Reason + ": " + waiting.Message
		case waiting != nil && last != nil:
			return fmt.Sprintf("%s: it ended with exit code %d; see kubectl logs -n %s %s --previous", waiting.Reason, last.ExitCode,
				pod.Namespace, pod.Name)
		case waiting != nil:
			return waiting.Reason
		case container.State.Running != nil && !container.Ready:
			return "it runs and is not ready"
		}
	}
	return ""
}
