package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/e2e/harbor"
	"github.com/castoff-sh/castoff/pkg/helm"
	"github.com/castoff-sh/castoff/pkg/identity"
	"github.com/castoff-sh/castoff/pkg/interruption"
	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/nodegroup"
	"github.com/castoff-sh/castoff/pkg/translate"
)

// serve lets Karpenter serve in Cluster Autoscaler's place, as somebody who follows the guide by hand would have it: the same
// engine and the same NodePool that castoff would make. Then every legacy node is cordoned by c, and drains can begin.
func serve(ctx context.Context, scene *harbor.Scene, c client.Client) error {
	target, err := prepareAWS(ctx, scene.Lab.Simulator)
	if err != nil {
		return err
	}
	if err := installEngine(ctx, scene); err != nil {
		return err
	}
	for _, object := range []client.Object{&target.NodeClass, &target.NodePool} {
		if err := scene.Client.Create(ctx, object); err != nil {
			return fmt.Errorf("making %T %s: %w", object, object.GetName(), err)
		}
	}
	if err := awaitNodePool(ctx, scene.Client, target.NodePool.Name); err != nil {
		return err
	}
	if err := stopAutoscaler(ctx, scene.Client); err != nil {
		return err
	}
	scene.Say("Karpenter serves, Cluster Autoscaler does not")
	nodes, err := legacyNodes(ctx, c)
	if err != nil {
		return err
	}
	for _, node := range nodes {
		before := node.DeepCopy()
		node.Spec.Unschedulable = true
		if err := c.Patch(ctx, &node, client.MergeFrom(before)); err != nil {
			return fmt.Errorf("cordoning %s: %w", node.Name, err)
		}
	}
	return nil
}

// prepareAWS makes roles, access, queue and rules, and translates the group.
func prepareAWS(ctx context.Context, endpoint string) (inventory.Target, error) {
	cfg, err := awsConfig(ctx, endpoint, "harbor-admin")
	if err != nil {
		return inventory.Target{}, err
	}
	ec2Client, eksClient, iamClient := ec2.NewFromConfig(cfg), eks.NewFromConfig(cfg), iam.NewFromConfig(cfg)
	groups := nodegroup.New(autoscaling.NewFromConfig(cfg), eksClient, ec2Client, iamClient, harbor.Cluster)
	cluster, err := groups.Cluster(ctx)
	if err != nil {
		return inventory.Target{}, err
	}
	if err := identity.New(iamClient, eksClient, ec2Client, sts.NewFromConfig(cfg), nil).Ensure(ctx, cluster, nil); err != nil {
		return inventory.Target{}, err
	}
	if err := interruption.New(sqs.NewFromConfig(cfg), eventbridge.NewFromConfig(cfg)).Ensure(ctx, cluster); err != nil {
		return inventory.Target{}, err
	}
	all, err := groups.List(ctx, harbor.General)
	if err != nil {
		return inventory.Target{}, err
	}
	all = slices.DeleteFunc(all, func(g inventory.NodeGroup) bool { return g.Name != harbor.General })
	return translate.Pool(cluster, inventory.Pool{Name: harbor.General, NodeGroups: []string{harbor.General}}, all, identity.NodeRoleName(harbor.Cluster))
}

// installEngine installs the engine as castoff does; castoff's chart has brought its ClusterRoles.
func installEngine(ctx context.Context, scene *harbor.Scene) error {
	releases, err := helm.New(scene.Lab.REST, time.Now)
	if err != nil {
		return err
	}
	engine := helm.Engine{
		Image: "ghcr.io/castoff-sh/provisioner:lab", ClusterName: harbor.Cluster, InterruptionQueue: harbor.Cluster, Region: "us-east-1",
		NodeSelector: map[string]string{"eks.amazonaws.com/nodegroup": harbor.Home},
	}
	if err := releases.ApplyCRDs(ctx, engine.Release()); err != nil {
		return err
	}
	if _, err := releases.Apply(ctx, engine.Release()); err != nil {
		return err
	}
	return poll(ctx, "the engine's replicas", func(ctx context.Context) (bool, error) {
		var list appsv1.DeploymentList
		if err := scene.Client.List(ctx, &list, client.InNamespace(helm.EngineNamespace)); err != nil {
			return false, err
		}
		return slices.ContainsFunc(list.Items, func(d appsv1.Deployment) bool { return d.Name == helm.EngineRelease && d.Status.ReadyReplicas == 2 }), nil
	})
}

func awaitNodePool(ctx context.Context, c client.Client, name string) error {
	return poll(ctx, "NodePool "+name+" to be Ready", func(ctx context.Context) (bool, error) {
		var np karpv1.NodePool
		if err := c.Get(ctx, client.ObjectKey{Name: name}, &np); err != nil {
			return false, err
		}
		return np.StatusConditions().Root().IsTrue(), nil
	})
}

// stopAutoscaler scales it to none and waits until it is gone.
func stopAutoscaler(ctx context.Context, c client.Client) error {
	d := &appsv1.Deployment{}
	d.Namespace, d.Name = "kube-system", "cluster-autoscaler"
	if err := c.Patch(ctx, d, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"replicas":0}}`))); err != nil {
		return fmt.Errorf("stopping Cluster Autoscaler: %w", err)
	}
	return poll(ctx, "Cluster Autoscaler to end", func(ctx context.Context) (bool, error) {
		var pods corev1.PodList
		err := c.List(ctx, &pods, client.InNamespace("kube-system"), client.MatchingLabels{"app": "cluster-autoscaler"})
		return err == nil && len(pods.Items) == 0, err
	})
}

// legacyNodes are all but the home's; there are none of Karpenter's yet.
func legacyNodes(ctx context.Context, c client.Client) ([]corev1.Node, error) {
	var nodes corev1.NodeList
	if err := c.List(ctx, &nodes); err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	return slices.DeleteFunc(nodes.Items, func(n corev1.Node) bool {
		return n.Labels["eks.amazonaws.com/nodegroup"] != "" || n.Labels[karpv1.NodePoolLabelKey] != ""
	}), nil
}

// poll asks twice a second.
func poll(ctx context.Context, what string, condition wait.ConditionWithContextFunc) error {
	if err := wait.PollUntilContextCancel(ctx, 500*time.Millisecond, true, condition); err != nil {
		return fmt.Errorf("waiting for %s: %w", what, err)
	}
	return nil
}
