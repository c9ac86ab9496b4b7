package harbor

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

//go:embed cluster-autoscaler.yaml
var autoscalerManifest string

//go:embed coredns.yaml
var dnsManifest string

// seedSystem makes what runs on the home: DNS and Cluster Autoscaler.
func seedSystem(ctx context.Context, c client.Client) error {
	return errors.Join(create(ctx, c, dnsManifest), create(ctx, c, autoscalerManifest))
}

// seedWorkloads makes what the scene's users run.
func seedWorkloads(ctx context.Context, c client.Client, workloads []client.Object) error {
	for _, object := range workloads {
		if err := c.Create(ctx, object); err != nil {
			return fmt.Errorf("making %T %s: %w", object, object.GetName(), err)
		}
	}
	return nil
}

// create makes every object of a manifest.
func create(ctx context.Context, c client.Client, manifest string) error {
	objects, err := decode(manifest)
	if err != nil {
		return err
	}
	for _, object := range objects {
		if err := c.Create(ctx, object); err != nil {
			return fmt.Errorf("making %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}

func decode(manifest string) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewBufferString(manifest), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading a manifest: %w", err)
		}
		objects = append(objects, object)
	}
}

// awaitNodes waits for that many Ready nodes.
func awaitNodes(ctx context.Context, c client.Client, want int) error {
	seen := 0
	err := until(ctx, func(ctx context.Context) (bool, error) {
		var nodes corev1.NodeList
		if err := c.List(ctx, &nodes); err != nil {
			return false, err
		}
		seen = 0
		for _, node := range nodes.Items {
			if slices.ContainsFunc(node.Status.Conditions, func(k corev1.NodeCondition) bool {
				return k.Type == corev1.NodeReady && k.Status == corev1.ConditionTrue
			}) {
				seen++
			}
		}
		return seen >= want, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for %d Ready nodes, there are %d: %w", want, seen, err)
	}
	return nil
}

// awaitPods waits until there is a pod and all of them, finished ones aside, are Ready.
func awaitPods(ctx context.Context, c client.Client) error {
	var waiting []string
	err := until(ctx, func(ctx context.Context) (bool, error) {
		var pods corev1.PodList
		if err := c.List(ctx, &pods); err != nil {
			return false, err
		}
		waiting = nil
		for _, pod := range pods.Items {
			finished := pod.Status.Phase == corev1.PodSucceeded
			if !finished && !slices.ContainsFunc(pod.Status.Conditions, func(k corev1.PodCondition) bool {
				return k.Type == corev1.PodReady && k.Status == corev1.ConditionTrue
			}) {
				waiting = append(waiting, pod.Namespace+"/"+pod.Name)
			}
		}
		return len(pods.Items) > 0 && len(waiting) == 0, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the pods to be Ready, %d are not (%s): %w", len(waiting), strings.Join(waiting[:min(3, len(waiting))], ", "), err)
	}
	return nil
}

// awaitDeployment waits until every replica is available.
func awaitDeployment(ctx context.Context, c client.Client, namespace, name string) error {
	err := until(ctx, func(ctx context.Context) (bool, error) {
		var d appsv1.Deployment
		if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &d); err != nil {
			return false, client.IgnoreNotFound(err)
		}
		wanted := int32(1)
		if d.Spec.Replicas != nil {
			wanted = *d.Spec.Replicas
		}
		return d.Status.ObservedGeneration >= d.Generation && d.Status.AvailableReplicas >= wanted, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for Deployment %s/%s: %w", namespace, name, err)
	}
	return nil
}

// awaitAutoscaler waits until Cluster Autoscaler leads and says that it manages that many groups.
func awaitAutoscaler(ctx context.Context, c client.Client, groups int) error {
	err := until(ctx, func(ctx context.Context) (bool, error) {
		var status corev1.ConfigMap
		err := c.Get(ctx, client.ObjectKey{Namespace: "kube-system", Name: "cluster-autoscaler-status"}, &status)
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return strings.Count(status.Data["status"], "cloudProviderTarget") == groups, err
	})
	if err != nil {
		return fmt.Errorf("waiting for Cluster Autoscaler to manage %d groups: %w", groups, err)
	}
	return nil
}

// rollAgent changes the DaemonSet's template, as a new version would.
func rollAgent(ctx context.Context, c client.Client) error {
	set := &appsv1.DaemonSet{}
	set.Namespace, set.Name = ops, agent
	patch := fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{"harbor.example/rolled-at":%q}}}}}`, time.Now().UTC().Format(time.RFC3339))
	if err := c.Patch(ctx, set, client.RawPatch("application/strategic-merge-patch+json", []byte(patch))); err != nil {
		return fmt.Errorf("rolling DaemonSet %s/%s: %w", ops, agent, err)
	}
	return nil
}
