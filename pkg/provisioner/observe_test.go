package provisioner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	awsapis "github.com/aws/karpenter-provider-aws/pkg/apis"
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/awslabs/operatorpkg/status"
	"github.com/go-logr/logr"
	"github.com/go-logr/logr/testr"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/e2e/envtest"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

func logger(t *testing.T) logr.Logger { return testr.New(t) }

func condition(kind string, is metav1.ConditionStatus, reason, message string) status.Condition {
	if reason == "" {
		reason = kind
	}
	return status.Condition{Type: kind, Status: is, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(now)}
}

func updateStatus(t *testing.T, object client.Object) {
	t.Helper()
	if err := cluster.Client.Status().Update(t.Context(), object); err != nil {
		t.Fatalf("updating the status of %T %s: %v", object, object.GetName(), err)
	}
}

// bind is the scheduler's part.
func bind(t *testing.T, pod *corev1.Pod, node string) {
	t.Helper()
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: pod.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: node}}
	if err := cluster.Client.SubResource("binding").Create(t.Context(), pod, binding); err != nil {
		t.Fatalf("binding pod %s: %v", pod.Name, err)
	}
	*pod = *read(t, new(corev1.Pod), pod.Namespace, pod.Name)
}

func nodeClaim(name, pool string) *karpv1.NodeClaim {
	return &karpv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"karpenter.sh/nodepool": pool}},
		Spec: karpv1.NodeClaimSpec{
			NodeClassRef: &karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "general"},
			Requirements: []karpv1.NodeSelectorRequirementWithMinValues{{Key: "kubernetes.io/os", Operator: "In", Values: []string{"linux"}}},
		},
	}
}

// startBare gives a test an API server of its own, that knows nothing of Karpenter.
func startBare(t *testing.T) *envtest.Cluster {
	t.Helper()
	bare, err := envtest.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := bare.Stop(); err != nil {
			t.Error(err)
		}
	})
	return bare
}

func TestKarpenterComes(t *testing.T) {
	bare := startBare(t)
	c := with(bare.Client, "kube-system")
	got, err := c.Observe(t.Context())
	if diff := cmp.Diff(inventory.Engine{}, got, cmpopts.EquateEmpty()); diff != "" || err != nil {
		t.Fatalf("no definitions, no objects: %v, -want +got:\n%s", err, diff)
	}
	for _, end := range []func(context.Context, *Client) error{deletePool, deleteClass, deleteClaim,
		func(ctx context.Context, c *Client) error { return c.EndCanary(ctx, "general") }} {
		if err := end(t.Context(), c); err != nil {
			t.Errorf("nothing is left to end, got %v", err)
		}
	}
	if err := c.EnsureNodePool(t.Context(), nodePool("general")); err == nil || inventory.ClassOf(err) != inventory.ClassRetry {
		t.Errorf("want an error that is tried again, got %v", err)
	}

	if err := bare.Install(awsapis.CRDs...); err != nil {
		t.Fatal(err)
	}
	if err := c.EnsureNodePool(t.Context(), nodePool("general")); err != nil {
		t.Fatalf("the same client, once the definitions are there: %v", err)
	}
	if got, err = c.Observe(t.Context()); err != nil || len(got.NodePools) != 1 || got.NodePools[0].Name != "general" {
		t.Errorf("want the NodePool, got %+v, %v", got.NodePools, err)
	}
}

// TestKarpenterComesToACachedClient is the operator's case: its cache was started before the definitions were there.
func TestKarpenterComesToACachedClient(t *testing.T) {
	bare := startBare(t)
	store, err := cache.New(bare.Config, cache.Options{})
	if err != nil {
		t.Fatal(err)
	}
	stopped := make(chan error)
	ctx, stop := context.WithCancel(t.Context())
	go func() { stopped <- store.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
	if !store.WaitForCacheSync(t.Context()) {
		t.Fatal("the cache did not start")
	}
	cached, err := client.New(bare.Config, client.Options{Cache: &client.CacheOptions{Reader: store}})
	if err != nil {
		t.Fatal(err)
	}
	c := New(cached, bare.Client, clock, Options{CastoffNamespace: "default"})
	got, err := c.Observe(t.Context())
	if diff := cmp.Diff(inventory.Engine{}, got, cmpopts.EquateEmpty()); diff != "" || err != nil {
		t.Fatalf("no definitions, no objects: %v, -want +got:\n%s", err, diff)
	}
	if err := bare.Install(awsapis.CRDs...); err != nil {
		t.Fatal(err)
	}
	if err := bare.Client.Create(t.Context(), nodePool("general")); err != nil {
		t.Fatal(err)
	}
	g := gomega.NewWithT(t)
	g.Eventually(func() ([]karpv1.NodePool, error) {
		engine, err := c.Observe(t.Context())
		return engine.NodePools, err
	}, 20*time.Second).Should(gomega.HaveLen(1))
}

func TestObserveKarpentersObjects(t *testing.T) {
	ns := namespace(t)
	create(t, nodePool("general"))
	create(t, nodeClass("general"))
	ready, failing := nodeClaim("general-1", "general"), nodeClaim("general-2", "general")
	create(t, ready)
	create(t, failing)
	ready.Status.NodeName = "node-1"
	ready.Status.Conditions = []status.Condition{condition("Launched", "True", "", ""), condition("Registered", "True", "", ""),
		condition("Initialized", "True", "", ""), condition("Consolidatable", "False", "x", "not yet"), condition("Ready", "True", "", "")}
	updateStatus(t, ready)
	failing.Status.Conditions = []status.Condition{condition("Launched", "True", "", ""), condition("Registered", "False", "NotFound", "the node did not join"),
		condition("Initialized", "Unknown", "AwaitingReconciliation", "object is awaiting reconciliation"), condition("Ready", "False", "x", "Registered=False")}
	updateStatus(t, failing)

	got, err := in(ns).Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []inventory.NodeClaim{
		{Name: "general-1", NodePool: "general", Node: "node-1", Ready: true},
		{Name: "general-2", NodePool: "general", Unregistered: true, Message: "Registered: the node did not join"},
	}
	if diff := cmp.Diff(want, got.NodeClaims, cmpopts.IgnoreFields(inventory.NodeClaim{}, "Created")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got.NodeClaims[0].Created.IsZero() || len(got.NodePools) != 1 || len(got.NodeClasses) != 1 || got.Canaries != nil {
		t.Errorf("got %+v", got)
	}
}

// TestReadClaim: the way back waits for launches that are in flight, neither Ready nor on their way out.
func TestReadClaim(t *testing.T) {
	tests := map[string]struct {
		reason          string
		change          func(*karpv1.NodeClaim)
		ready, deleting bool
	}{
		"New": {"nobody has looked at it yet", func(*karpv1.NodeClaim) {}, false, false},
		"Launched": {"an instance is no node", func(c *karpv1.NodeClaim) {
			c.Status.Conditions = []status.Condition{condition("Launched", "True", "", "")}
		}, false, false},
		"Registered": {"a node without its resources serves nobody", func(c *karpv1.NodeClaim) {
			c.Status.NodeName = "node-1"
			c.Status.Conditions = []status.Condition{condition("Launched", "True", "", ""), condition("Registered", "True", "", ""),
				condition("Initialized", "Unknown", "x", "waiting"), condition("Ready", "Unknown", "x", "waiting")}
		}, false, false},
		"Failed": {"it is launched again", func(c *karpv1.NodeClaim) {
			c.Status.Conditions = []status.Condition{condition("Ready", "False", "x", "no capacity")}
		}, false, false},
		"Ready": {"it serves", func(c *karpv1.NodeClaim) {
			c.Status.Conditions = []status.Condition{condition("Ready", "True", "", "")}
		}, true, false},
		"ReadyDrifted": {"what Karpenter means to do with it does not matter", func(c *karpv1.NodeClaim) {
			c.Status.Conditions = []status.Condition{condition("Ready", "True", "", ""), condition("Drifted", "True", "x", "AMI"), condition("Consolidatable", "False", "x", "")}
		}, true, false},
		"ReadyGoing": {"both are said", func(c *karpv1.NodeClaim) {
			c.Status.Conditions = []status.Condition{condition("Ready", "True", "", "")}
			c.DeletionTimestamp = ptr.To(metav1.NewTime(now))
		}, true, true},
		"LaunchGoing": {"a launch that was given up is none", func(c *karpv1.NodeClaim) { c.DeletionTimestamp = ptr.To(metav1.NewTime(now)) }, false, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			claim := nodeClaim("general-1", "general")
			tc.change(claim)
			before := claim.DeepCopy()
			got := readClaim(claim)
			if got.Name != "general-1" || got.NodePool != "general" || got.Ready != tc.ready || got.Deleting != tc.deleting {
				t.Errorf("%s: got %+v", tc.reason, got)
			}
			if diff := cmp.Diff(before, claim); diff != "" {
				t.Errorf("a cache's object was changed:\n%s", diff)
			}
		})
	}
}

// TestObserveInOrder has a cache's habit: it lists in any order.
func TestObserveInOrder(t *testing.T) {
	c := fake.NewClientBuilder().WithObjects(nodePool("a"), nodePool("b"), nodeClass("a"), nodeClass("b"), nodeClaim("a", "a"), nodeClaim("b", "a")).
		WithInterceptorFuncs(interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
				err := c.List(ctx, l, opts...)
				switch l := l.(type) {
				case *karpv1.NodePoolList:
					slices.Reverse(l.Items)
				case *awsv1.EC2NodeClassList:
					slices.Reverse(l.Items)
				case *karpv1.NodeClaimList:
					slices.Reverse(l.Items)
				}
				return err
			},
		}).Build()
	got, err := with(c, "kube-system").Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	order := []string{got.NodePools[0].Name, got.NodePools[1].Name, got.NodeClasses[0].Name, got.NodeClasses[1].Name, got.NodeClaims[0].Name, got.NodeClaims[1].Name}
	if diff := cmp.Diff([]string{"a", "b", "a", "b", "a", "b"}, order); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	hashes := map[string]string{"a": NodeClassHash(nodeClass("a")), "b": NodeClassHash(nodeClass("b"))}
	if diff := cmp.Diff(hashes, got.NodeClassHashes); diff != "" {
		t.Errorf("hashes: -want +got:\n%s", diff)
	}
}

func TestComplaint(t *testing.T) {
	tests := map[string]struct {
		reason     string
		conditions []status.Condition
		types      []string
		want       string
	}{
		"Fine":      {"nothing to say", []status.Condition{condition("Launched", "True", "", "")}, nil, ""},
		"NotLooked": {"nobody has looked yet", []status.Condition{condition("Launched", "Unknown", "AwaitingReconciliation", "object is awaiting reconciliation")}, nil, ""},
		"Unknown":   {"it cannot tell, and says why", []status.Condition{condition("Launched", "Unknown", "LaunchFailed", "no capacity")}, nil, "Launched: no capacity"},
		"Summary":   {"the cause says more than the sum", []status.Condition{condition("Ready", "False", "", "AMIsReady=False"), condition("AMIsReady", "False", "AMINotFound", "no AMI")}, nil, "AMIsReady: no AMI"},
		"NoMessage": {"the reason is better than nothing", []status.Condition{condition("AMIsReady", "False", "AMINotFound", "")}, nil, "AMIsReady: AMINotFound"},
		"OtherType": {"not of interest", []status.Condition{condition("Drifted", "False", "x", "y")}, []string{"Launched"}, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := complaint(tc.conditions, tc.types...); got != tc.want {
				t.Errorf("%s: want %q, got %q", tc.reason, tc.want, got)
			}
		})
	}
}

func imaged(image string) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = image }
}

func stripped(d *appsv1.Deployment) {
	d.Labels = map[string]string{}
	d.Spec.Selector.MatchLabels = map[string]string{"app": "x"}
	d.Spec.Template.Labels = map[string]string{"app": "x"}
}

func TestWhoseKarpenter(t *testing.T) {
	const here = "kube-system"
	tests := map[string]struct {
		reason        string
		deployment    *appsv1.Deployment
		ours, foreign bool
	}{
		"Ours": {"by castoff's chart", karpenter(here), true, false},
		"OursByAnnotation": {"the mark may be an annotation", karpenter(here, imaged("example.com/mirror"), func(d *appsv1.Deployment) {
			delete(d.Labels, "castoff.sh/managed-by")
			d.Annotations = map[string]string{"castoff.sh/managed-by": "castoff"}
		}), true, false},
		"OursByImage": {"or the image, that upstream calls otherwise", karpenter(here, func(d *appsv1.Deployment) {
			delete(d.Labels, "castoff.sh/managed-by")
		}), true, false},
		"Upstreams": {"same name, same place, upstream's chart", karpenter(here, imaged("public.ecr.aws/karpenter/controller:1.14.1@sha256:0a"), func(d *appsv1.Deployment) {
			delete(d.Labels, "castoff.sh/managed-by")
		}), false, true},
		"Elsewhere":     {"a second one in another namespace double-launches", karpenter("karpenter"), false, true},
		"Renamed":       {"another release name", karpenter(here, func(d *appsv1.Deployment) { d.Name = "scaler" }), false, true},
		"ByHand":        {"no Helm release", karpenter(here, func(d *appsv1.Deployment) { d.Labels["app.kubernetes.io/managed-by"] = "kustomize" }), false, true},
		"ByImage":       {"known by its image, in a mirror with a port", karpenter("x", stripped, imaged("mirror.example.com:5000/karpenter/controller")), false, true},
		"ByShortImage":  {"known by its image", karpenter("x", stripped, imaged("karpenter")), false, true},
		"SomethingElse": {"a controller of something else", karpenter("x", stripped, imaged("example.com/other/controller:1")), false, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := with(fake.NewClientBuilder().WithObjects(tc.deployment).Build(), here)
			got := inventory.Engine{}
			if err := c.readDeployments(t.Context(), &got); err != nil {
				t.Fatal(err)
			}
			if (got.Replicas == 2) != tc.ours || (len(got.Foreign) == 1) != tc.foreign {
				t.Errorf("%s: got %+v", tc.reason, got)
			}
			if tc.foreign && got.Foreign[0] != tc.deployment.Namespace+"/"+tc.deployment.Name {
				t.Errorf("%s: got %v", tc.reason, got.Foreign)
			}
		})
	}
}

func TestEngineReadiness(t *testing.T) {
	waiting := func(reason, message string, exit *int32) *corev1.Pod {
		container := corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}
		if exit != nil {
			container.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: *exit}
		}
		return &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{container}}}
	}
	code := int32(2)
	unscheduled := &corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/2 nodes are available"}}}}
	unready := &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{
		{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}}}
	tests := map[string]struct {
		reason    string
		ready     int32
		failure   string
		pods      []*corev1.Pod
		wantReady int32
		want      string
	}{
		"Ready":    {reason: "nothing to say", ready: 2, wantReady: 2},
		"Starting": {reason: "nothing is known yet", want: "0 of 2 replicas are ready"},
		"Image":    {reason: "the kubelet's word", pods: []*corev1.Pod{waiting("ImagePullBackOff", "no such image", nil)}, want: "pod p0: ImagePullBackOff: no such image"},
		"Crashes":  {reason: "where to look", pods: []*corev1.Pod{waiting("CrashLoopBackOff", "", &code)}, want: "pod p0: CrashLoopBackOff: it ended with exit code 2; see kubectl logs -n kube-system p0 --previous"},
		"Creating": {reason: "a reason alone", pods: []*corev1.Pod{waiting("ContainerCreating", "", nil)}, want: "pod p0: ContainerCreating"},
		"NoRoom":   {reason: "the scheduler's word, beside a pod that is ready", ready: 1, wantReady: 1, pods: []*corev1.Pod{{}, unscheduled}, want: "pod p1: not scheduled: 0/2 nodes are available"},
		"NotReady": {reason: "its probe fails", pods: []*corev1.Pod{unready}, want: "pod p0: it runs and is not ready"},
		"NotMade":  {reason: "no pod is there at all", failure: "exceeded quota", want: "exceeded quota"},
		"AtMost3":  {reason: "a status is read by people", pods: []*corev1.Pod{unready, unready, unready, unready}, want: "pod p0: it runs and is not ready; pod p1: it runs and is not ready; pod p2: it runs and is not ready"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			deployment := karpenter("kube-system")
			deployment.Status.ReadyReplicas, deployment.Status.UnavailableReplicas = tc.ready, 2-tc.ready
			if tc.failure != "" {
				deployment.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Message: tc.failure}}
			}
			objects := []client.Object{deployment}
			for i, p := range tc.pods {
				p = p.DeepCopy()
				p.Namespace, p.Name, p.Labels = "kube-system", fmt.Sprintf("p%d", i), deployment.Spec.Selector.MatchLabels
				objects = append(objects, p)
			}
			got := inventory.Engine{}
			if err := with(fake.NewClientBuilder().WithObjects(objects...).Build(), "kube-system").readDeployments(t.Context(), &got); err != nil {
				t.Fatal(err)
			}
			if got.ReadyReplicas != tc.wantReady || got.Replicas != 2 || got.DeploymentMessage != tc.want {
				t.Errorf("%s: want %d ready and %q, got %+v", tc.reason, tc.wantReady, tc.want, got)
			}
		})
	}
}

func TestErrorsAreClassed(t *testing.T) {
	answers := map[string]struct {
		err  error
		want inventory.Class
	}{
		"Throttled": {apierrors.NewTooManyRequests("slow down", 1), inventory.ClassThrottled},
		"Forbidden": {apierrors.NewForbidden(schema.GroupResource{}, "x", errors.New("no")), inventory.ClassTerminal},
		"Other":     {apierrors.NewInternalError(errors.New("etcd")), inventory.ClassRetry},
	}
	observe := func(ctx context.Context, c *Client) error { _, err := c.Observe(ctx); return err }
	calls := map[string]struct {
		fails any
		do    func(context.Context, *Client) error
	}{
		"list deployments":                                 {&appsv1.DeploymentList{}, observe},
		"list nodepools.karpenter.sh":                      {&karpv1.NodePoolList{}, observe},
		"list nodeclaims.karpenter.sh":                     {&karpv1.NodeClaimList{}, observe},
		"list pods of namespace kube-system":               {&corev1.PodList{}, observe},
		"list nodeclaims.karpenter.sh of NodePool general": {&karpv1.NodeClaimList{}, func(ctx context.Context, c *Client) error { return c.DeleteNodePool(ctx, "general") }},
		"list nodepools.karpenter.sh of the cluster":       {&karpv1.NodePoolList{}, func(ctx context.Context, c *Client) error { return c.DeleteNodeClass(ctx, "general") }},
		"get nodeclaims.karpenter.sh general-1":            {&karpv1.NodeClaim{}, func(ctx context.Context, c *Client) error { return c.DeleteNodeClaim(ctx, "general-1") }},
		"get nodepools.karpenter.sh general":               {&karpv1.NodePool{}, func(ctx context.Context, c *Client) error { return c.EnsureNodePool(ctx, nodePool("general")) }},
		"get pods castoff-canary-general":                  {&corev1.Pod{}, func(ctx context.Context, c *Client) error { return c.EndCanary(ctx, "general") }},
		"get pods kube-system/castoff-canary": {&corev1.Pod{}, func(ctx context.Context, c *Client) error {
			return c.StartCanary(ctx, "general", nodeClass("general"), nodePool("general"), owner())
		}},
		"list ec2nodeclasses.karpenter.k8s.aws of pool general": {&awsv1.EC2NodeClassList{}, func(ctx context.Context, c *Client) error {
			return c.MarkCanaryPassed(ctx, "general", "x")
		}},
	}
	for name, tc := range answers {
		for call, on := range calls {
			t.Run(name+"/"+call, func(t *testing.T) {
				fails := func(object any) bool { return fmt.Sprintf("%T", object) == fmt.Sprintf("%T", on.fails) }
				c := fake.NewClientBuilder().WithObjects(nodePool("general"), nodeClass("general")).WithInterceptorFuncs(interceptor.Funcs{
					Get: func(ctx context.Context, c client.WithWatch, k client.ObjectKey, o client.Object, opts ...client.GetOption) error {
						if fails(o) {
							return tc.err
						}
						return c.Get(ctx, k, o, opts...)
					},
					List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
						if fails(l) {
							return tc.err
						}
						return c.List(ctx, l, opts...)
					},
				}).Build()
				err := on.do(t.Context(), with(c, "kube-system"))
				if inventory.ClassOf(err) != tc.want || !errors.Is(err, tc.err) || !strings.Contains(fmt.Sprint(err), call) {
					t.Errorf("want %s naming %q, got %s: %v", tc.want, call, inventory.ClassOf(err), err)
				}
			})
		}
	}
}

// TestWatchesEndWithTheDefinitions: what is not served is not watched, and what is served is not forgotten.
func TestWatchesEndWithTheDefinitions(t *testing.T) {
	gone := apierrors.NewNotFound(schema.GroupResource{Group: "karpenter.sh", Resource: "nodepools"}, "")
	tests := map[string]struct {
		reason string
		lists  error
		forget error
		forgot int
		fails  bool
	}{
		"Served":      {reason: "its watches serve the next look"},
		"Gone":        {reason: "a watch would ask for ever", lists: gone, forgot: 3},
		"Refused":     {reason: "who may not look knows nothing", lists: apierrors.NewForbidden(schema.GroupResource{}, "", nil), fails: true},
		"ForgetFails": {reason: "it is tried again at the next look", lists: gone, forget: errors.New("closed"), forgot: 3, fails: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			live := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
				List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
					if _, pools := list.(*karpv1.NodePoolList); pools && tc.lists != nil {
						return tc.lists
					}
					return c.List(ctx, list, opts...)
				},
			}).Build()
			forgot := 0
			c := New(live, live, func() time.Time { return now }, Options{Forget: func(_ context.Context, kinds ...client.Object) error {
				forgot += len(kinds)
				return tc.forget
			}})
			if _, err := c.Observe(t.Context()); (err != nil) != tc.fails || forgot != tc.forgot {
				t.Errorf("%s: error %v, forgot %d kinds, want %d", tc.reason, err, forgot, tc.forgot)
			}
		})
	}
}
