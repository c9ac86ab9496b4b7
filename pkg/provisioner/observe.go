package provisioner

import (
	"cmp"
	"context"
	"slices"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/awslabs/operatorpkg/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/inventory/kubeapi"
)

const nodeClaims = "nodeclaims.karpenter.sh"

// Options say where things run.
type Options struct {
	// Namespace is the engine's, kube-system by default.
	Namespace string
	// CastoffNamespace is where the canary's pods run.
	CastoffNamespace string
	// CanaryImage is what a canary's pod runs: castoff's own image, which is pulled already.
	CanaryImage string
	// CanaryArgs make the image wait until it is told to end.
	CanaryArgs []string
	// Forget ends the watches of these kinds, where lists come from a cache: their definitions are gone, and a watch would ask
	// for them for ever. Nil where there is no cache.
	Forget func(ctx context.Context, kinds ...client.Object) error
}

// Client observes Karpenter and writes its objects.
type Client struct {
	client  client.Client
	live    client.Reader
	clock   func() time.Time
	options Options
}

// New gives a Client. The client writes, and lists Deployments and Karpenter's objects, from a cache if it has one; live reads
// what is about to be changed, and pods, past every cache.
func New(c client.Client, live client.Reader, clock func() time.Time, options Options) *Client {
	options.Namespace = cmp.Or(options.Namespace, "kube-system")
	return &Client{client: c, live: live, clock: clock, options: options}
}

// Observe says what there is of Karpenter, but for the Helm release and the CRDs. Where the CRDs do not exist there are no
// objects of theirs either.
func (c *Client) Observe(ctx context.Context) (inventory.Engine, error) {
	engine := inventory.Engine{}
	if err := c.readDeployments(ctx, &engine); err != nil {
		return engine, err
	}
	if served, err := c.served(ctx); err != nil || !served {
		return engine, err
	}
	pools, classes, claims := new(karpv1.NodePoolList), new(awsv1.EC2NodeClassList), new(karpv1.NodeClaimList)
	for _, one := range []struct {
		list     client.ObjectList
		resource string
	}{{pools, nodePools}, {classes, nodeClasses}, {claims, nodeClaims}} {
		if err := c.client.List(ctx, one.list); err != nil && !notServed(err) {
			return engine, kubeapi.Wrap(err, "list", one.resource, "of the cluster")
		}
	}
	// A cache lists in any order, and what is shown must not change by itself.
	slices.SortFunc(pools.Items, func(a, b karpv1.NodePool) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(classes.Items, func(a, b awsv1.EC2NodeClass) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(claims.Items, func(a, b karpv1.NodeClaim) int { return cmp.Compare(a.Name, b.Name) })
	engine.NodePools, engine.NodeClasses, engine.NodeClassHashes = pools.Items, classes.Items, map[string]string{}
	for i := range classes.Items {
		engine.NodeClassHashes[classes.Items[i].Name] = NodeClassHash(&classes.Items[i])
	}
	for i := range claims.Items {
		engine.NodeClaims = append(engine.NodeClaims, readClaim(&claims.Items[i]))
	}
	canaries, err := c.readCanaries(ctx, engine, claims.Items)
	engine.Canaries = canaries
	return engine, err
}

// served asks the API server, past the cache, whether Karpenter's definitions are there: a list from a cache whose watch can
// not begin waits until the look is over.
func (c *Client) served(ctx context.Context) (bool, error) {
	err := c.live.List(ctx, new(karpv1.NodePoolList), client.Limit(1))
	switch {
	case err == nil:
		return true, nil
	case !notServed(err):
		return false, kubeapi.Wrap(err, "list", nodePools, "of the cluster")
	case c.options.Forget == nil:
		return false, nil
	}
	return false, c.options.Forget(ctx, new(karpv1.NodePool), new(karpv1.NodeClaim), new(awsv1.EC2NodeClass))
}

// notServed says that the kind does not exist: the client never knew it, or the API server no longer does.
func notServed(err error) bool { return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) }

func readClaim(claim *karpv1.NodeClaim) inventory.NodeClaim {
	return inventory.NodeClaim{
		Name:         claim.Name,
		NodePool:     claim.Labels[karpv1.NodePoolLabelKey],
		Node:         claim.Status.NodeName,
		Ready:        ready(claim.Status.Conditions),
		Deleting:     claim.DeletionTimestamp != nil,
		Unregistered: holds(claim.Status.Conditions, karpv1.ConditionTypeLaunched) && !holds(claim.Status.Conditions, karpv1.ConditionTypeRegistered),
		Message: complaint(claim.Status.Conditions,
			karpv1.ConditionTypeLaunched, karpv1.ConditionTypeRegistered, karpv1.ConditionTypeInitialized),
		Created: claim.CreationTimestamp.Time,
	}
}

// ready goes by the summary as Karpenter wrote it; StatusConditions would fill in what is missing, in the object that was read.
func ready(conditions []status.Condition) bool { return holds(conditions, status.ConditionReady) }

func holds(conditions []status.Condition, conditionType string) bool {
	return slices.ContainsFunc(conditions, func(c status.Condition) bool {
		return c.Type == conditionType && c.Status == metav1.ConditionTrue
	})
}

// complaint is what the first of Karpenter's conditions says that is not as it should be, of the types given or else of all but
// the summary. One that is merely not looked at yet is none.
func complaint(conditions []status.Condition, types ...string) string {
	const notLookedAt = "AwaitingReconciliation" // operatorpkg's reason for a condition that nobody has set yet
	for _, condition := range conditions {
		if condition.Type == status.ConditionReady || (len(types) > 0 && !slices.Contains(types, condition.Type)) {
			continue
		}
		if condition.Status != "True" && condition.Reason != notLookedAt {
			return condition.Type + ": " + cmp.Or(condition.Message, condition.Reason)
		}
	}
	return ""
}
