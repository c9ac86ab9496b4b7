package controllers

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/inventory/awsapi"
)

// networkFresh is for how long what was read of the pods' network serves: it changes once in the life of a cluster.
const networkFresh = settledFresh

// podNetwork reads how pods get their addresses: from the environment of the VPC CNI plugin's container. A cluster without the
// plugin has the zero value.
func (o *Observer) podNetwork(ctx context.Context) (inventory.PodNetwork, error) {
	return o.network.get(ctx, o.Clock(), always[inventory.PodNetwork](networkFresh), func(ctx context.Context) (inventory.PodNetwork, error) {
		var ds appsv1.DaemonSet
		err := o.Live.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: "aws-node"}, &ds)
		switch {
		case apierrors.IsNotFound(err):
			return inventory.PodNetwork{}, nil
		case err != nil:
			return inventory.PodNetwork{}, fmt.Errorf("reading the DaemonSet kube-system/aws-node: %w", err)
		}
		n := podNetworkOf(&ds)
		if n.CustomNetworking {
			n.ENIConfigs, err = o.eniConfigs(ctx)
		}
		return n, err
	})
}

// podNetworkOf goes by values that are written out: one that comes from elsewhere is not followed.
func podNetworkOf(ds *appsv1.DaemonSet) inventory.PodNetwork {
	n := inventory.PodNetwork{ENIConfigLabel: inventory.DefaultENIConfigLabel}
	for _, c := range ds.Spec.Template.Spec.Containers {
		if c.Name == "aws-node" {
			n.CustomNetworking = value(c.Env, "AWS_VPC_K8S_CNI_CUSTOM_NETWORK_CFG") == "true"
			n.PrefixDelegation = value(c.Env, "ENABLE_PREFIX_DELEGATION") == "true"
			if label := value(c.Env, "ENI_CONFIG_LABEL_DEF"); label != "" {
				n.ENIConfigLabel = label
			}
		}
	}
	return n
}

// value of a variable; the last of a name counts.
func value(env []corev1.EnvVar, name string) string {
	v := ""
	for _, e := range env {
		if e.Name == name {
			v = e.Value
		}
	}
	return v
}

// eniConfigs are the names of the ENIConfigs; none where there is no such kind.
func (o *Observer) eniConfigs(ctx context.Context) ([]string, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: "crd.k8s.amazonaws.com", Version: "v1alpha1", Kind: "ENIConfigList"})
	err := o.Live.List(ctx, list)
	switch {
	case meta.IsNoMatchError(err) || apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("listing the ENIConfigs that custom networking asks for: %w", err)
	}
	names := make([]string, len(list.Items))
	for i := range list.Items {
		names[i] = list.Items[i].GetName()
	}
	return names, nil
}

// securityGroups are those with the cluster's tag. A castoff that may not read them says so in the check of its permissions, and
// can do without.
func (o *Observer) securityGroups(ctx context.Context) ([]inventory.SecurityGroup, error) {
	return o.tagged.get(ctx, o.Clock(), always[[]inventory.SecurityGroup](networkFresh), func(ctx context.Context) ([]inventory.SecurityGroup, error) {
		groups, err := o.Ports.NodeGroups.SecurityGroups(ctx)
		if awsapi.Denied(err) {
			return nil, nil
		}
		return groups, err
	})
}
