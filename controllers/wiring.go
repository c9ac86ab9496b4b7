package controllers

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/servicequotas"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/autoscaler"
	"github.com/castoff-sh/castoff/pkg/drain"
	"github.com/castoff-sh/castoff/pkg/gate"
	"github.com/castoff-sh/castoff/pkg/helm"
	"github.com/castoff-sh/castoff/pkg/identity"
	"github.com/castoff-sh/castoff/pkg/interruption"
	"github.com/castoff-sh/castoff/pkg/nodegroup"
	"github.com/castoff-sh/castoff/pkg/provisioner"
	"github.com/castoff-sh/castoff/pkg/snapshot"
)

// Wiring is what an Observer is made of.
type Wiring struct {
	Config *rest.Config
	Client client.Client
	Live   client.Reader
	// Cache that Client reads from, if it does.
	Cache cache.Cache
	Clock func() time.Time
	// Namespace that castoff runs in, and that of the engine.
	Namespace, EngineNamespace string
	// EngineImage and ManagerImage are full references.
	EngineImage, ManagerImage string
}

// Scheme knows every type that castoff reads or writes.
func Scheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	karpenter := schema.GroupVersion{Group: "karpenter.sh", Version: "v1"}
	aws := schema.GroupVersion{Group: "karpenter.k8s.aws", Version: "v1"}
	s.AddKnownTypes(karpenter, &karpv1.NodePool{}, &karpv1.NodePoolList{}, &karpv1.NodeClaim{}, &karpv1.NodeClaimList{})
	s.AddKnownTypes(aws, &awsv1.EC2NodeClass{}, &awsv1.EC2NodeClassList{})
	metav1.AddToGroupVersion(s, karpenter)
	metav1.AddToGroupVersion(s, aws)
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(s); err != nil {
			return nil, fmt.Errorf("registering types: %w", err)
		}
	}
	return s, nil
}

// CacheOptions keep the cache small: of nodes and budgets what castoff reads, and of Leases that which Cluster Autoscaler has by default.
func CacheOptions() cache.Options {
	return cache.Options{DefaultTransform: slim, ByObject: map[client.Object]cache.ByObject{
		&corev1.Node{}:          {Transform: slimNode},
		&corev1.Pod{}:           {Label: placeholders, Transform: slimPlaceholder},
		&coordinationv1.Lease{}: {Field: fields.OneTermEqualSelector("metadata.name", autoscaler.DefaultLease)},
	}}
}

// slim drops who wrote an object, unless it is a scaler: who changed that is named.
func slim(obj any) (any, error) {
	switch o := obj.(type) {
	case *karpv1.NodePool:
		return obj, nil
	case *appsv1.Deployment:
		if autoscaler.Runs(&o.Spec.Template.Spec) || provisioner.IsKarpenter(o) {
			return obj, nil
		}
	}
	return cache.TransformStripManagedFields()(obj)
}

// slimNode drops a node's images, its longest list by far, and what nobody reads.
func slimNode(obj any) (any, error) {
	if n, ok := obj.(*corev1.Node); ok {
		n.ManagedFields, n.Status.Images, n.Status.VolumesInUse, n.Status.VolumesAttached = nil, nil, nil, nil
	}
	if t, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		return t, nil
	}
	return obj, nil
}

// ClientCacheOptions keep everything but nodes, budgets and Migrations out of the cache: the rest is read live, when it is
// needed, and little of it.
func ClientCacheOptions() *client.CacheOptions {
	return &client.CacheOptions{DisableFor: []client.Object{
		&corev1.Pod{}, &corev1.Secret{}, &corev1.ConfigMap{}, &apiextensionsv1.CustomResourceDefinition{},
	}}
}

// NewObserver wires the ports to the cluster and to AWS: region and credentials from the SDK's own chain.
func NewObserver(ctx context.Context, w Wiring) (*Observer, error) {
	cfg, err := config.LoadDefaultConfig(ctx, config.WithRetryer(nodegroup.Retryer))
	if err != nil {
		return nil, fmt.Errorf("finding AWS region and credentials: %w", err)
	}
	releases, err := helm.New(w.Config, w.Clock)
	if err != nil {
		return nil, fmt.Errorf("setting up Helm: %w", err)
	}
	core, err := typedcorev1.NewForConfig(w.Config)
	if err != nil {
		return nil, fmt.Errorf("setting up the reads of aws-auth: %w", err)
	}
	bundle := w.Config.CAData
	if len(bundle) == 0 && w.Config.CAFile != "" {
		if bundle, err = os.ReadFile(w.Config.CAFile); err != nil {
			return nil, fmt.Errorf("reading the cluster's certificate authority: %w", err)
		}
	}
	room, err := roomOf(ctx, w)
	if err != nil {
		return nil, err
	}
	asg, eksAPI, ec2API, iamAPI := autoscaling.NewFromConfig(cfg), eks.NewFromConfig(cfg), newEC2Calls(ec2.NewFromConfig(cfg)), iam.NewFromConfig(cfg)
	account := nodegroup.Account{Quotas: quotaCalls{servicequotas.NewFromConfig(cfg).GetServiceQuota}, Usage: usageCalls{cloudwatch.NewFromConfig(cfg).GetMetricData}, Clock: w.Clock}
	watched := new(watched)
	return &Observer{
		Client: w.Client, Live: w.Live, Clock: w.Clock, CABundle: bundle, pools: watched,
		Engine: helm.Engine{Namespace: w.EngineNamespace, Image: w.EngineImage},
		NodeGroupsOf: func(cluster string) NodeGroups {
			return nodegroup.New(asg, eksAPI, ec2API, iamAPI, cluster).InAccount(account)
		},
		Ports: Ports{
			Interruption: interruption.New(sqs.NewFromConfig(cfg), eventbridge.NewFromConfig(cfg)),
			Identity:     identity.New(iamAPI, eksAPI, ec2API, sts.NewFromConfig(cfg), core.ConfigMaps(metav1.NamespaceSystem)),
			Autoscalers:  autoscaler.New(w.Client, w.Live, w.Clock),
			Provisioner: provisioner.New(w.Client, w.Live, w.Clock, provisioner.Options{
				Namespace: w.EngineNamespace, CastoffNamespace: w.Namespace, CanaryImage: w.ManagerImage, CanaryArgs: []string{"pause"},
				Forget: forgetting(w.Cache, watched),
			}),
			Releases:  releases,
			Drainer:   drain.New(w.Client, w.Live, w.Clock).WithRoom(room),
			Snapshots: snapshot.New(w.Client, w.Live, w.Namespace),
			Gates:     gate.New(http.DefaultTransport, w.Clock),
		},
	}, nil
}

// forgetting removes informers from the cache; the next read of such a kind starts one again.
func forgetting(c cache.Cache, pools *watched) func(context.Context, ...client.Object) error {
	if c == nil {
		return nil
	}
	return func(ctx context.Context, kinds ...client.Object) error {
		pools.on = false
		for _, kind := range kinds {
			if err := c.RemoveInformer(ctx, kind); err != nil {
				return fmt.Errorf("ending the watch of %T: %w", kind, err)
			}
		}
		return nil
	}
}
