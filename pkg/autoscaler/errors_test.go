package autoscaler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

func TestErrorsSayWhatToDo(t *testing.T) {
	tests := map[string]struct {
		reason string
		err    error
		want   []string
	}{
		"Replaced": {"that nothing was done, and what comes", &ReplacedError{Object: "Deployment a/b"}, []string{"Deployment a/b", "left alone", "looks again"}},
		"Running":  {"that nothing was done, and what is needed first", &RunningError{Deployment: "a/b", Replicas: 2}, []string{"a/b has 2 replicas", "not deleted", "is stopped"}},
		"Owned":    {"who brings it back", &RunningError{Deployment: "a/b", Replicas: 2, Owner: "Helm release a/ca"}, []string{"remove it from Helm release a/ca"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			for _, want := range tc.want {
				if !strings.Contains(tc.err.Error(), want) {
					t.Errorf("%s: %q is missing in %q", tc.reason, want, tc.err)
				}
			}
		})
	}
}

// TestFindFailsAsAWhole: a Cluster Autoscaler of which half is known could look stopped.
func TestFindFailsAsAWhole(t *testing.T) {
	broken := errors.New("etcd")
	tests := map[string]struct {
		fails any
		call  string
	}{
		"Pods":      {&corev1.PodList{}, "list pods of Deployment kube-system/scaler"},
		"Workloads": {&appsv1.StatefulSetList{}, "list statefulsets of all namespaces"},
		"Daemons":   {&appsv1.DaemonSetList{}, "list daemonsets of all namespaces"},
		"Lease":     {&coordinationv1.Lease{}, "get leases kube-system/cluster-autoscaler"},
		"HPA":       {&autoscalingv2.HorizontalPodAutoscalerList{}, "list horizontalpodautoscalers of namespace kube-system"},
		"ConfigMap": {&corev1.ConfigMap{}, "get configmaps kube-system/cluster-autoscaler-status"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			fails := func(object any) bool { return fmt.Sprintf("%T", object) == fmt.Sprintf("%T", tc.fails) }
			c := fake.NewClientBuilder().WithObjects(deployment("kube-system", "scaler", image)).WithInterceptorFuncs(interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, k client.ObjectKey, o client.Object, opts ...client.GetOption) error {
					if fails(o) {
						return broken
					}
					return c.Get(ctx, k, o, opts...)
				},
				List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
					if fails(l) {
						return broken
					}
					return c.List(ctx, l, opts...)
				},
			}).Build()
			found, err := New(c, c, clock).Find(t.Context())
			if found != nil || !errors.Is(err, broken) || !strings.Contains(err.Error(), tc.call) {
				t.Errorf("want no Cluster Autoscaler and an error naming %q, got %v, %v", tc.call, found, err)
			}
		})
	}
}

// TestRightsThatTheChartLimits is against the real API server, as a user that may do nothing.
func TestRightsThatTheChartLimits(t *testing.T) {
	config := rest.CopyConfig(cluster.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "castoff-without-rights"}
	powerless, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ns := namespace(t)
	create(t, deployment(ns, "scaler", image, args("--namespace="+ns, "--leader-elect-resource-name=mine")))
	a := findIn(t, ns)
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "node-"},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{taint(taintCandidate, corev1.TaintEffectPreferNoSchedule)}},
	}
	create(t, node)
	c := New(powerless, cluster.Client, clock) // reads what it likes, past the cache
	blind := New(cluster.Client, powerless, clock)
	tests := map[string]struct {
		err  error
		says string
	}{
		"Find":            {second(c.Find(t.Context())), "must allow the verb list on deployments"},
		"Read":            {blind.readLease(t.Context(), &a), "get on leases of that name (chart value clusterAutoscaler.leaseNames)"},
		"Status":          {blind.readGroups(t.Context(), a.Lease, &a), "chart value clusterAutoscaler.statusConfigMapNames"},
		"HPA":             {blind.readHPA(t.Context(), &a), "must allow the verb list on horizontalpodautoscalers"},
		"Stop":            {c.Stop(t.Context(), a), "must allow the verb get on deployments/scale"},
		"Start":           {c.Start(t.Context(), a, 3), "must allow the verb get on deployments/scale"},
		"Find handlers":   {second(c.TerminationHandlers(t.Context())), "must allow the verb list on daemonsets"},
		"Delete handlers": {c.DeleteTerminationHandler(t.Context(), inventory.TerminationHandler{Kind: "DaemonSet", Workload: a.Deployment}), "must allow the verb delete on daemonsets"},
		"Delete":          {c.remove(t.Context(), deployment(ns, "scaler", image), "deployments"), "must allow the verb delete on deployments"},
		"Hold":            {c.HoldLease(t.Context(), a.Lease, "castoff"), "must allow the verb create on leases"},
		"Strip":           {c.StripLeftovers(t.Context(), node.Name), "must allow the verb patch on nodes"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if inventory.ClassOf(tc.err) != inventory.ClassTerminal || !strings.Contains(fmt.Sprint(tc.err), tc.says) {
				t.Errorf("want a terminal error with %q, got %s: %v", tc.says, inventory.ClassOf(tc.err), tc.err)
			}
		})
	}
	if got := replicas(t, a); got != 2 {
		t.Errorf("something was written: %d replicas", got)
	}
}

func second[T any](_ T, err error) error { return err }

// TestFindAll has a cache's habit: it lists in any order.
func TestFindAll(t *testing.T) {
	objects := []client.Object{
		deployment("team-a", "scaler", "mirror.example.com/cluster-autoscaler:1", args("--leader-elect=false", "--namespace=team-a")),
		deployment("kube-system", "cluster-autoscaler", image, args("--nodes=1:9:general")),
		deployment("kube-system", "metrics-server", "registry.k8s.io/metrics-server/metrics-server:v1"),
		deployment("kube-system", "ca-memory", "example.com/ca:1", command("./cluster-autoscaler"), args("--nodes=1:9:memory", "--leader-elect-resource-name=memory")),
	}
	c := fake.NewClientBuilder().WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
			err := c.List(ctx, l, opts...)
			if d, ok := l.(*appsv1.DeploymentList); ok {
				slices.Reverse(d.Items)
			}
			return err
		},
	}).Build()
	found, err := New(c, c, clock).Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []inventory.Autoscaler{
		{Deployment: types.NamespacedName{Namespace: "kube-system", Name: "ca-memory"}, Image: "example.com/ca:1", Replicas: 2, LeaderElect: true,
			Args: []string{"./cluster-autoscaler", "--nodes=1:9:memory", "--leader-elect-resource-name=memory"}, Static: []string{"memory"},
			Lease: types.NamespacedName{Namespace: "kube-system", Name: "memory"}},
		{Deployment: types.NamespacedName{Namespace: "kube-system", Name: "cluster-autoscaler"}, Image: image, Replicas: 2, LeaderElect: true,
			Args: []string{"--nodes=1:9:general"}, Static: []string{"general"},
			Lease: types.NamespacedName{Namespace: "kube-system", Name: "cluster-autoscaler"}},
		{Deployment: types.NamespacedName{Namespace: "team-a", Name: "scaler"}, Image: "mirror.example.com/cluster-autoscaler:1", Replicas: 2,
			Args:  []string{"--leader-elect=false", "--namespace=team-a"},
			Lease: types.NamespacedName{Namespace: "team-a", Name: "cluster-autoscaler"}},
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
