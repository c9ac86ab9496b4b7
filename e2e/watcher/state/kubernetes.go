package state

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/castoff-sh/castoff/e2e/awssim/simapi"
)

// Sources are where a State is read.
type Sources struct {
	Client client.Client // may read everything
	AWS    aws.Config
	// Simulator says which group an instance belongs to.
	Simulator string
	Cluster   string
	// Except are namespaces that are castoff's own: its snapshot stays after the way back.
	Except []string
	// Autoscaler is Cluster Autoscaler's Deployment, and the name of its Lease.
	Autoscaler client.ObjectKey
}

// Read takes a State. AWS reads lag, so a comparison that finds something is worth repeating.
func Read(ctx context.Context, from Sources) (State, error) {
	s := State{Objects: map[string]Fields{}}
	if err := newAccount(from.AWS, from.Cluster).read(ctx, &s); err != nil {
		return State{}, fmt.Errorf("state of AWS: %w", err)
	}
	for _, read := range []func(context.Context, *State) error{from.nodes, from.objects, from.autoscaler} {
		if err := read(ctx, &s); err != nil {
			return State{}, fmt.Errorf("state of the cluster: %w", err)
		}
	}
	return s, nil
}

func (from Sources) nodes(ctx context.Context, s *State) error {
	instances, err := simapi.NewClient(from.Simulator).Instances(ctx)
	if err != nil {
		return err
	}
	groups := map[string]string{}
	for _, instance := range instances {
		groups[instance.ID] = instance.AutoScalingGroup
		if instance.NodeGroup != "" {
			groups[instance.ID] = instance.NodeGroup
		}
	}
	var list corev1.NodeList
	if err := from.Client.List(ctx, &list); err != nil {
		return fmt.Errorf("listing nodes: %w", err)
	}
	for _, node := range list.Items {
		id := InstanceID(node)
		group := groups[id]
		if group == "" {
			group = "no group"
		}
		s.Nodes = append(s.Nodes, Node{ID: id, Name: node.Name, Group: group, Fields: nodeFields(node)})
	}
	return nil
}

// InstanceID is the last part of the node's provider ID.
func InstanceID(node corev1.Node) string {
	return node.Spec.ProviderID[strings.LastIndex(node.Spec.ProviderID, "/")+1:]
}

// ids are annotations that name the node's instance, or that the node controller writes.
var ids = []string{"lab.castoff.sh/instance", "lab.castoff.sh/ended", "node.alpha.kubernetes.io/ttl", "volumes.kubernetes.io/controller-managed-attach-detach"}

func nodeFields(node corev1.Node) Fields {
	fields := Fields{"cordoned": fmt.Sprint(node.Spec.Unschedulable)}
	for key, value := range node.Labels {
		fields[labelField(key)] = value
	}
	for key, value := range node.Annotations {
		if !slices.Contains(ids, key) {
			fields["annotations["+key+"]"] = value
		}
	}
	for _, taint := range node.Spec.Taints {
		if taint.Key == "DeletionCandidateOfClusterAutoscaler" {
			continue // Cluster Autoscaler's thought of the moment
		}
		fields["taints["+taint.Key+":"+string(taint.Effect)+"]"] = taint.Value
	}
	return fields
}

// kinds are told apart by being there: what castoff makes in a cluster, and what it could leave behind or take away.
var kinds = []schema.GroupVersionKind{
	{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"},
	{Group: "karpenter.sh", Version: "v1", Kind: "NodePool"},
	{Group: "karpenter.sh", Version: "v1", Kind: "NodeClaim"},
	{Group: "karpenter.k8s.aws", Version: "v1", Kind: "EC2NodeClass"},
	{Group: "apps", Version: "v1", Kind: "Deployment"},
	{Group: "apps", Version: "v1", Kind: "DaemonSet"},
	{Group: "apps", Version: "v1", Kind: "StatefulSet"},
	{Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRoleBinding"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "Role"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "RoleBinding"},
	{Group: "scheduling.k8s.io", Version: "v1", Kind: "PriorityClass"},
	{Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"},
	{Version: "v1", Kind: "Namespace"},
	{Version: "v1", Kind: "Service"},
	{Version: "v1", Kind: "ServiceAccount"},
	{Version: "v1", Kind: "ConfigMap"},
	{Version: "v1", Kind: "Secret"},
}

func (from Sources) objects(ctx context.Context, s *State) error {
	for _, kind := range kinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		err := from.Client.List(ctx, list)
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			continue // the definition is not there, or no more
		}
		if err != nil {
			return fmt.Errorf("listing %s: %w", kind.Kind, err)
		}
		for _, object := range list.Items {
			if from.skips(object) {
				continue
			}
			name := strings.TrimPrefix(object.GetNamespace()+"/"+object.GetName(), "/")
			if err := s.add(kind.Kind+" "+name, "", fieldsOf(object)); err != nil {
				return err
			}
		}
	}
	return nil
}

// skips castoff's own, heartbeats of nodes, the status that Cluster Autoscaler takes away when it stops, and the Lease by which
// Karpenter's pods elected a leader: they made it, no chart, and it has run out.
func (from Sources) skips(object unstructured.Unstructured) bool {
	switch object.GetKind() + " " + object.GetName() {
	case "ConfigMap cluster-autoscaler-status", "Lease karpenter-leader-election":
		return true
	}
	return slices.Contains(from.Except, object.GetNamespace()) || object.GetNamespace() == corev1.NamespaceNodeLease
}

// fieldsOf is what of an object castoff could change: replicas and arguments of a Deployment, who may join by a ConfigMap.
// The annotation by which it restarts a Deployment is a time.
func fieldsOf(object unstructured.Unstructured) map[string]any {
	fields := map[string]any{}
	switch object.GetKind() {
	case "Deployment":
		replicas, _, _ := unstructured.NestedInt64(object.Object, "spec", "replicas")
		containers, _, _ := unstructured.NestedSlice(object.Object, "spec", "template", "spec", "containers")
		fields["replicas"], fields["containers"] = replicas, containers
	case "ConfigMap":
		if object.GetName() == "aws-auth" {
			data, _, _ := unstructured.NestedStringMap(object.Object, "data")
			fields["data"] = data
		}
	}
	return fields
}

// autoscaler says whether Cluster Autoscaler runs and leads.
func (from Sources) autoscaler(ctx context.Context, s *State) error {
	var deployment appsv1.Deployment
	if err := from.Client.Get(ctx, from.Autoscaler, &deployment); err != nil {
		return fmt.Errorf("reading Deployment %s: %w", from.Autoscaler, err)
	}
	var lease coordinationv1.Lease
	if err := from.Client.Get(ctx, from.Autoscaler, &lease); err != nil {
		return fmt.Errorf("reading Lease %s: %w", from.Autoscaler, err)
	}
	// The revision counts changes of the template, which is compared itself.
	delete(deployment.Annotations, "deployment.kubernetes.io/revision")
	return s.add("Deployment "+from.Autoscaler.String(), "", map[string]any{
		"annotations": deployment.Annotations,
		"running":     deployment.Status.ReadyReplicas,
		"leads":       strings.HasPrefix(aws.ToString(lease.Spec.HolderIdentity), from.Autoscaler.Name+"-"),
	})
}
