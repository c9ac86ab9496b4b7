package autoscaler

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// exists reads past every cache.
func exists(t *testing.T, object client.Object, name types.NamespacedName) bool {
	t.Helper()
	err := cluster.Client.Get(t.Context(), name, object)
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	return err == nil
}

func stopped(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](0) }

// leaseOf is one that identity holds.
func leaseOf(namespace, identity string) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "cluster-autoscaler"}, Spec: held(identity, now, now, 0)}
}

func TestDelete(t *testing.T) {
	tests := map[string]struct {
		reason                    string
		deployment                func(*appsv1.Deployment)
		holder                    string // of the Lease; none if empty
		seen                      func(*inventory.Autoscaler)
		wantDeployment, wantLease bool
		wantErr                   func(error) bool
	}{
		"Stopped":       {reason: "nothing of it is left", deployment: stopped, holder: "castoff"},
		"WithoutALease": {reason: "there was no leader election", deployment: stopped},
		"AnothersLease": {reason: "somebody's leader election goes by it", deployment: stopped, holder: "another-1", wantLease: true},
		"Gone": {
			reason: "the Lease goes all the same", deployment: stopped, holder: "castoff", wantDeployment: true,
			seen: func(a *inventory.Autoscaler) { a.Deployment.Name = "gone" },
		},
		"Running": {
			reason: "it would take the Lease", deployment: func(*appsv1.Deployment) {}, holder: "castoff",
			wantDeployment: true, wantLease: true, wantErr: is[*RunningError],
		},
		"Defaulted": {
			reason: "no number is one replica", deployment: func(d *appsv1.Deployment) { d.Spec.Replicas = nil }, holder: "castoff",
			wantDeployment: true, wantLease: true, wantErr: is[*RunningError],
		},
		"Replaced": {
			reason: "it is not the one that was approved", deployment: stopped, holder: "castoff", wantDeployment: true, wantLease: true,
			seen: func(a *inventory.Autoscaler) { a.UID = "another" }, wantErr: is[*ReplacedError],
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			ns := namespace(t)
			create(t, deployment(ns, "scaler", image, args("--namespace="+ns), tc.deployment))
			if tc.holder != "" {
				create(t, leaseOf(ns, tc.holder))
			}
			a := findIn(t, ns)
			if tc.seen != nil {
				tc.seen(&a)
			}
			if tc.wantErr == nil {
				tc.wantErr = isNil
			}
			for range 2 { // the second time there is nothing to do
				if err := ours().Delete(t.Context(), a); !tc.wantErr(err) {
					t.Fatalf("%s: got %v", tc.reason, err)
				}
			}
			if got := exists(t, new(appsv1.Deployment), types.NamespacedName{Namespace: ns, Name: "scaler"}); got != tc.wantDeployment {
				t.Errorf("%s: the Deployment is there: %t", tc.reason, got)
			}
			if got := exists(t, new(coordinationv1.Lease), a.Lease); got != tc.wantLease {
				t.Errorf("%s: the Lease is there: %t", tc.reason, got)
			}
		})
	}
}

// is says whether an error is of that type, and tried again.
func is[T error](err error) bool {
	_, ok := errors.AsType[T](err)
	return ok && inventory.ClassOf(err) == inventory.ClassRetry
}

func isNil(err error) bool { return err == nil }

// TestDeleteOfWhatChanges: a Cluster Autoscaler that is brought back in between stays, and a Lease that it takes stays its own.
func TestDeleteOfWhatChanges(t *testing.T) {
	ns := namespace(t)
	create(t, deployment(ns, "scaler", image, args("--namespace="+ns), stopped))
	create(t, leaseOf(ns, "castoff"))
	a := findIn(t, ns)
	withWatch, err := client.NewWithWatch(cluster.Config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		reason  string
		changes func(context.Context, client.Client) error
	}{
		{"the Lease is taken", func(ctx context.Context, c client.Client) error {
			return New(c, c, clock).HoldLease(ctx, a.Lease, "scaler-1")
		}},
		{"the Deployment is scaled up", func(ctx context.Context, c client.Client) error { return New(c, c, clock).Start(ctx, a, 2) }},
	}
	for _, tc := range tests {
		racing := interceptor.NewClient(withWatch, interceptor.Funcs{
			Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
				if len((&client.DeleteOptions{}).ApplyOptions(opts).DryRun) > 0 {
					return c.Delete(ctx, o, opts...)
				}
				if err := tc.changes(ctx, c); err != nil {
					return err
				}
				return c.Delete(ctx, o, opts...)
			},
		})
		if err := New(racing, racing, clock).Delete(t.Context(), a); !apierrors.IsConflict(err) || inventory.ClassOf(err) != inventory.ClassRetry {
			t.Errorf("%s: want a conflict that is tried again, got %v", tc.reason, err)
		}
	}
	if !exists(t, new(appsv1.Deployment), a.Deployment) || !exists(t, new(coordinationv1.Lease), a.Lease) {
		t.Error("what had changed was deleted")
	}
}

// TestDeleteWithoutTheRight: as long as the Deployment may not be deleted its Lease is kept, for it is the second lock.
func TestDeleteWithoutTheRight(t *testing.T) {
	ns := namespace(t)
	create(t, deployment(ns, "scaler", image, args("--namespace="+ns), stopped))
	create(t, leaseOf(ns, "castoff"))
	a := findIn(t, ns)
	withWatch, err := client.NewWithWatch(cluster.Config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	refusing := interceptor.NewClient(withWatch, interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			if _, is := o.(*appsv1.Deployment); is {
				return apierrors.NewForbidden(appsv1.Resource("deployments"), o.GetName(), errors.New("no rule"))
			}
			return c.Delete(ctx, o, opts...)
		},
	})
	if err := New(refusing, refusing, clock).Delete(t.Context(), a); inventory.ClassOf(err) != inventory.ClassTerminal || !strings.Contains(err.Error(), "clusterAutoscaler.delete") {
		t.Errorf("want a terminal error that names the chart value, got %v", err)
	}
	if !exists(t, new(coordinationv1.Lease), a.Lease) {
		t.Error("the Lease is gone, and Cluster Autoscaler may come back and lead")
	}
}

func daemonSet(namespace, name, image string) *appsv1.DaemonSet {
	labels := map[string]string{"app": name}
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "agent", Image: "example.com/agent"}, {Name: "main", Image: image}}},
			},
		},
	}
}

// TestTerminationHandlers has a cache's habit: it lists in any order.
func TestTerminationHandlers(t *testing.T) {
	const image = "public.ecr.aws/aws-ec2/aws-node-termination-handler"
	released := daemonSet("kube-system", "nth", image+":v1.25.0")
	released.Annotations = map[string]string{"meta.helm.sh/release-name": "nth", "meta.helm.sh/release-namespace": "kube-system"}
	objects := []client.Object{
		released, daemonSet("kube-system", "nth-win", "mirror.example.com:5000/x/aws-node-termination-handler-windows@sha256:abc"),
		daemonSet("kube-system", "aws-node-termination-handler", "example.com/aws-node-termination-handler-exporter"),
		daemonSet("kube-system", "cni", "example.com/aws-node-termination-handler/cni:v1"),
		deployment("ops", "queue-reader", image), deployment("ops", "web", "example.com/web"),
	}
	c := fake.NewClientBuilder().WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
			err := c.List(ctx, l, opts...)
			if d, ok := l.(*appsv1.DaemonSetList); ok {
				slices.Reverse(d.Items)
			}
			return err
		},
	}).Build()
	got, err := New(c, c, clock).TerminationHandlers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []inventory.TerminationHandler{
		{Kind: "DaemonSet", Workload: types.NamespacedName{Namespace: "kube-system", Name: "nth"}, Owner: "Helm release kube-system/nth"},
		{Kind: "DaemonSet", Workload: types.NamespacedName{Namespace: "kube-system", Name: "nth-win"}},
		{Kind: "Deployment", Workload: types.NamespacedName{Namespace: "ops", Name: "queue-reader"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("by the image's own name, in any registry: -want +got:\n%s", diff)
	}
}

func TestTerminationHandlersFailAsAWhole(t *testing.T) {
	broken := errors.New("etcd")
	c := fake.NewClientBuilder().WithObjects(daemonSet("kube-system", "nth", "aws-node-termination-handler")).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
			if _, ok := l.(*appsv1.DeploymentList); ok {
				return broken
			}
			return c.List(ctx, l, opts...)
		},
	}).Build()
	if got, err := New(c, c, clock).TerminationHandlers(t.Context()); got != nil || !errors.Is(err, broken) {
		t.Errorf("half of them could pass for all: want none and an error, got %v, %v", got, err)
	}
}

func TestDeleteTerminationHandler(t *testing.T) {
	ns := namespace(t)
	const image = "aws-node-termination-handler:v1"
	create(t, daemonSet(ns, "nth", image))
	create(t, deployment(ns, "nth", image))
	all, err := ours().TerminationHandlers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all = slices.DeleteFunc(all, func(h inventory.TerminationHandler) bool { return h.Workload.Namespace != ns })
	if len(all) != 2 || all[0].UID == "" || all[0].UID == all[1].UID {
		t.Fatalf("want both with their own UIDs, got %+v", all)
	}
	objects := map[string]func() client.Object{
		"DaemonSet":  func() client.Object { return new(appsv1.DaemonSet) },
		"Deployment": func() client.Object { return new(appsv1.Deployment) },
	}
	for _, h := range all {
		replaced, unseen := h, h
		replaced.UID, unseen.UID = "another", ""
		for _, other := range []inventory.TerminationHandler{replaced, unseen} {
			err := ours().DeleteTerminationHandler(t.Context(), other)
			if _, ok := errors.AsType[*ReplacedError](err); !ok || !exists(t, objects[h.Kind](), h.Workload) {
				t.Errorf("%s with UID %q is not the one that was seen: want a *ReplacedError and it left alone, got %v", h.Kind, other.UID, err)
			}
		}
		for range 2 { // the second time there is nothing to do
			if err := ours().DeleteTerminationHandler(t.Context(), h); err != nil {
				t.Fatalf("%s: %v", h.Kind, err)
			}
		}
		if exists(t, objects[h.Kind](), h.Workload) {
			t.Errorf("%s is still there", h.Kind)
		}
	}
	unknown := inventory.TerminationHandler{Kind: "CronJob", Workload: types.NamespacedName{Namespace: ns, Name: "nth"}}
	if err := ours().DeleteTerminationHandler(t.Context(), unknown); inventory.ClassOf(err) != inventory.ClassTerminal {
		t.Errorf("a kind that nobody lists: want a terminal error, got %v", err)
	}
}
