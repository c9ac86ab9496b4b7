package autoscaler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

const image = "registry.k8s.io/autoscaling/cluster-autoscaler:v1.33.0"

// find gives the one Cluster Autoscaler of a namespace.
func findIn(t *testing.T, namespace string) inventory.Autoscaler {
	t.Helper()
	all, err := ours().Find(t.Context())
	if err != nil {
		t.Fatalf("Find: %v", err)
	}
	i := slices.IndexFunc(all, func(a inventory.Autoscaler) bool { return a.Deployment.Namespace == namespace })
	if i < 0 {
		t.Fatalf("none found in %s", namespace)
	}
	return all[i]
}

func podOf(namespace, app, name, node string, phase corev1.PodPhase) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": app}},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "main", Image: image}}},
		Status:     corev1.PodStatus{Phase: phase},
	}
}

func TestFind(t *testing.T) {
	ns := namespace(t)
	create(t, deployment(ns, "scaler", image, command("./cluster-autoscaler"), args("--namespace="+ns, "--nodes=1:9:static",
		"--node-group-auto-discovery=asg:tag=k8s.io/cluster-autoscaler/enabled"), func(d *appsv1.Deployment) {
		d.Annotations = map[string]string{"meta.helm.sh/release-name": "ca", "meta.helm.sh/release-namespace": ns}
	}))
	create(t, deployment(ns, "web", "example.com/web"))
	create(t, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "cluster-autoscaler"},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("scaler-1"), LeaseDurationSeconds: ptr.To[int32](15),
			RenewTime: ptr.To(metav1.NewMicroTime(now))},
	})
	create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "cluster-autoscaler-status"}, Data: map[string]string{"status": yamlStatus}})
	for name, phase := range map[string]corev1.PodPhase{"one": corev1.PodRunning, "leaving": corev1.PodRunning, "evicted": corev1.PodFailed} {
		p := podOf(ns, "scaler", name, "node-"+name, phase)
		create(t, p)
		p.Status.Phase = phase
		if err := cluster.Client.Status().Update(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	if err := cluster.Client.Delete(t.Context(), podOf(ns, "scaler", "leaving", "", "")); err != nil { // no kubelet lets it go
		t.Fatal(err)
	}

	got := findIn(t, ns)
	want := inventory.Autoscaler{
		Deployment: types.NamespacedName{Namespace: ns, Name: "scaler"}, UID: got.UID, Image: image, Replicas: 2, Pods: 2,
		Args: []string{"./cluster-autoscaler", "--namespace=" + ns, "--nodes=1:9:static",
			"--node-group-auto-discovery=asg:tag=k8s.io/cluster-autoscaler/enabled"},
		Nodes:     []string{"node-leaving", "node-one"},
		Discovery: []string{"k8s.io/cluster-autoscaler/enabled"}, Static: []string{"static"}, LeaderElect: true,
		Lease:       types.NamespacedName{Namespace: ns, Name: "cluster-autoscaler"},
		LeaseHolder: "scaler-1", LeaseRenewed: now, LeaseDuration: 15 * time.Second,
		Groups: []string{"general", "memory"}, StatusTime: time.Date(2026, 5, 4, 3, 1, 55, 123456789, time.UTC),
		Owner: "Helm release " + ns + "/ca", ChangedBy: "autoscaler.test", LeaseBy: "autoscaler.test",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got.UID == "" || got.Stopped() {
		t.Errorf("want a UID and a Cluster Autoscaler that runs, got %+v", got)
	}
}

func TestFindWhatIsStopped(t *testing.T) {
	ns := namespace(t)
	create(t, deployment(ns, "scaler", image, args("--namespace="+ns), func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](0) }))
	got := findIn(t, ns)
	if !got.Stopped() || got.LeaseHolder != "" || !got.LeaseRenewed.IsZero() || got.Groups != nil || !got.StatusTime.IsZero() {
		t.Errorf("no Lease and no status are no error, got %+v", got)
	}
}

func replicas(t *testing.T, a inventory.Autoscaler) int32 {
	t.Helper()
	d := new(appsv1.Deployment)
	if err := cluster.Client.Get(t.Context(), a.Deployment, d); err != nil {
		t.Fatal(err)
	}
	return ptr.Deref(d.Spec.Replicas, 1)
}

func TestStop(t *testing.T) {
	ns := namespace(t)
	create(t, deployment(ns, "scaler", image))
	a := findIn(t, ns)
	for range 2 { // the second time there is nothing to do
		if err := ours().Stop(t.Context(), a); err != nil {
			t.Fatalf("Stop: %v", err)
		}
	}
	if got := replicas(t, a); got != 0 {
		t.Errorf("want no replicas, got %d", got)
	}
	d := new(appsv1.Deployment)
	if err := cluster.Client.Get(t.Context(), a.Deployment, d); err != nil || d.Generation != 2 {
		t.Errorf("want one write, got generation %d, %v", d.Generation, err)
	}
}

func TestStopRefuses(t *testing.T) {
	ns := namespace(t)
	create(t, deployment(ns, "scaler", image))
	a := findIn(t, ns)

	t.Run("AReplacedDeployment", func(t *testing.T) {
		old := a
		old.UID = "another"
		err := ours().Stop(t.Context(), old)
		if _, ok := errors.AsType[*ReplacedError](err); !ok || inventory.ClassOf(err) != inventory.ClassRetry {
			t.Errorf("want a *ReplacedError that is tried again, got %v", err)
		}
	})
	t.Run("AConcurrentWriter", func(t *testing.T) {
		withWatch, err := client.NewWithWatch(cluster.Config, client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		racing := interceptor.NewClient(withWatch, interceptor.Funcs{
			SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
				d := new(appsv1.Deployment)
				if err := c.Get(ctx, client.ObjectKeyFromObject(o), d); err != nil {
					return err
				}
				d.Spec.Replicas = ptr.To[int32](3)
				if err := c.Update(ctx, d); err != nil {
					return err
				}
				return c.SubResource(sub).Update(ctx, o, opts...)
			},
		})
		err = New(racing, racing, clock).Stop(t.Context(), a)
		if !apierrors.IsConflict(err) || replicas(t, a) != 3 {
			t.Errorf("want a conflict and the other's 3 replicas, got %v and %d", err, replicas(t, a))
		}
	})
	t.Run("NothingThatIsGone", func(t *testing.T) {
		gone := a
		gone.Deployment.Name = "gone"
		if err := ours().Stop(t.Context(), gone); err != nil {
			t.Errorf("nothing is left to stop, got %v", err)
		}
	})
}

func lease(t *testing.T, name types.NamespacedName) coordinationv1.LeaseSpec {
	t.Helper()
	l := new(coordinationv1.Lease)
	if err := cluster.Client.Get(t.Context(), name, l); err != nil {
		t.Fatal(err)
	}
	return l.Spec
}

func held(by string, acquired, renewed time.Time, transitions int32) coordinationv1.LeaseSpec {
	return coordinationv1.LeaseSpec{
		HolderIdentity: &by, LeaseDurationSeconds: ptr.To[int32](3600), LeaseTransitions: &transitions,
		AcquireTime: ptr.To(metav1.NewMicroTime(acquired)), RenewTime: ptr.To(metav1.NewMicroTime(renewed)),
	}
}

func TestHoldLease(t *testing.T) {
	ns := namespace(t)
	name := types.NamespacedName{Namespace: ns, Name: "cluster-autoscaler"}
	at := now
	c := New(cluster.Client, cluster.Client, func() time.Time { return at })
	steps := []struct {
		reason, identity string
		want             coordinationv1.LeaseSpec
	}{
		{"there is none: create it", "castoff-1", held("castoff-1", now, now, 0)},
		{"renew it: nothing else moves", "castoff-1", held("castoff-1", now, now.Add(time.Minute), 0)},
		{"take it over: whether one may is the caller's to know", "castoff-2", held("castoff-2", now.Add(2*time.Minute), now.Add(2*time.Minute), 1)},
	}
	for _, step := range steps {
		if err := c.HoldLease(t.Context(), name, step.identity); err != nil {
			t.Fatalf("%s: %v", step.reason, err)
		}
		if diff := cmp.Diff(step.want, lease(t, name), cmpopts.EquateApproxTime(0)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", step.reason, diff)
		}
		at = at.Add(time.Minute)
	}
}

func TestHoldLeaseFromAStoppedLeader(t *testing.T) {
	ns := namespace(t)
	name := types.NamespacedName{Namespace: ns, Name: "mine"}
	create(t, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "mine"}}) // as bare as the API allows
	if err := ours().HoldLease(t.Context(), name, "castoff"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(held("castoff", now, now, 1), lease(t, name), cmpopts.EquateApproxTime(0)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestHoldLeaseLosesToAConcurrentWriter(t *testing.T) {
	ns := namespace(t)
	name := types.NamespacedName{Namespace: ns, Name: "cluster-autoscaler"}
	withWatch, err := client.NewWithWatch(cluster.Config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := ours().HoldLease(t.Context(), name, "leader"); err != nil {
		t.Fatal(err)
	}
	racing := interceptor.NewClient(withWatch, interceptor.Funcs{
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			if err := New(c, c, clock).HoldLease(ctx, name, "faster"); err != nil {
				return err
			}
			return c.Update(ctx, o, opts...)
		},
	})
	err = New(racing, racing, clock).HoldLease(t.Context(), name, "castoff")
	if got := lease(t, name); !apierrors.IsConflict(err) || *got.HolderIdentity != "faster" {
		t.Errorf("want a conflict and the faster one as holder, got %v and %s", err, *got.HolderIdentity)
	}
}

func taint(key string, effect corev1.TaintEffect) corev1.Taint {
	return corev1.Taint{Key: key, Value: "1777863721", Effect: effect}
}

func TestStripLeftovers(t *testing.T) {
	toBeDeleted := taint(taintToBeDeleted, corev1.TaintEffectNoSchedule)
	candidate := taint(taintCandidate, corev1.TaintEffectPreferNoSchedule)
	dedicated := taint("dedicated", corev1.TaintEffectNoSchedule)
	ourCordon := map[string]string{v1alpha1.AnnotationCordonedBy: v1alpha1.ByCastoff}
	tests := map[string]struct {
		reason        string
		taints        []corev1.Taint
		cordoned      bool
		annotations   map[string]string
		wantTaints    []corev1.Taint
		wantCordoned  bool
		wantLeftovers bool
	}{
		"None":          {reason: "nothing to do"},
		"OthersTaints":  {reason: "not Cluster Autoscaler's", taints: []corev1.Taint{dedicated}, wantTaints: []corev1.Taint{dedicated}},
		"OthersCordon":  {reason: "not Cluster Autoscaler's", cordoned: true, wantCordoned: true},
		"Candidate":     {reason: "the soft taint comes without a cordon", taints: []corev1.Taint{dedicated, candidate}, wantTaints: []corev1.Taint{dedicated}, wantLeftovers: true},
		"CandidateHeld": {reason: "so a cordon beside it is somebody else's", taints: []corev1.Taint{candidate}, cordoned: true, wantCordoned: true, wantLeftovers: true},
		"ToBeDeleted":   {reason: "the cordon came with it", taints: []corev1.Taint{toBeDeleted, candidate, dedicated}, cordoned: true, wantTaints: []corev1.Taint{dedicated}, wantLeftovers: true},
		"CastoffsCordon": {reason: "the fence stays", taints: []corev1.Taint{toBeDeleted}, cordoned: true, annotations: ourCordon,
			wantCordoned: true, wantLeftovers: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			node := &corev1.Node{
				ObjectMeta: metav1.ObjectMeta{GenerateName: "node-", Annotations: tc.annotations},
				Spec:       corev1.NodeSpec{Taints: tc.taints, Unschedulable: tc.cordoned},
			}
			if got := HasLeftovers(inventory.Node{Taints: tc.taints}); got != tc.wantLeftovers {
				t.Errorf("HasLeftovers: %s: got %t", tc.reason, got)
			}
			create(t, node)
			before := node.ResourceVersion
			if err := ours().StripLeftovers(t.Context(), node.Name); err != nil {
				t.Fatalf("%s: %v", tc.reason, err)
			}
			got := new(corev1.Node)
			if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(node), got); err != nil {
				t.Fatal(err)
			}
			byAdmission := func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeNotReady }
			if diff := cmp.Diff(tc.wantTaints, slices.DeleteFunc(got.Spec.Taints, byAdmission), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
			if got.Spec.Unschedulable != tc.wantCordoned {
				t.Errorf("%s: cordoned: %t", tc.reason, got.Spec.Unschedulable)
			}
			if wrote := got.ResourceVersion != before; wrote != tc.wantLeftovers {
				t.Errorf("%s: wrote: %t", tc.reason, wrote)
			}
		})
	}
	if err := ours().StripLeftovers(t.Context(), "gone"); err != nil {
		t.Errorf("a node that is gone has no leftovers, got %v", err)
	}
}

func TestErrorsAreClassed(t *testing.T) {
	lease := types.NamespacedName{Namespace: "kube-system", Name: "cluster-autoscaler"}
	seen := inventory.Autoscaler{Deployment: types.NamespacedName{Namespace: "kube-system", Name: "scaler"}}
	answers := map[string]struct {
		err  error
		want inventory.Class
	}{
		"Throttled": {apierrors.NewTooManyRequests("slow down", 1), inventory.ClassThrottled},
		"Forbidden": {apierrors.NewForbidden(schema.GroupResource{}, "x", errors.New("no")), inventory.ClassTerminal},
		"Other":     {apierrors.NewInternalError(errors.New("etcd")), inventory.ClassRetry},
	}
	calls := map[string]func(context.Context, *Client) error{
		"list deployments":               func(ctx context.Context, c *Client) error { _, err := c.Find(ctx); return err },
		"get leases kube-system":         func(ctx context.Context, c *Client) error { return c.HoldLease(ctx, lease, "castoff") },
		"get deployments/scale":          func(ctx context.Context, c *Client) error { return c.Stop(ctx, seen) },
		"get nodes old":                  func(ctx context.Context, c *Client) error { return c.StripLeftovers(ctx, "old") },
		"list horizontalpodautoscalers":  func(ctx context.Context, c *Client) error { return c.readHPA(ctx, &seen) },
		"list daemonsets":                func(ctx context.Context, c *Client) error { _, err := c.TerminationHandlers(ctx); return err },
		"get leases kube-system/cluster": func(ctx context.Context, c *Client) error { return c.LetGoLease(ctx, lease, "castoff") },
		"get deployments kube-system/sc": func(ctx context.Context, c *Client) error { return c.Delete(ctx, seen) },
		"deployments/scale kube-system/": func(ctx context.Context, c *Client) error { return c.Start(ctx, seen, 2) },
		"list pods of Deployment": func(ctx context.Context, c *Client) error {
			d := deployment("kube-system", "scaler", image)
			return c.readPods(ctx, workload{object: d, selector: d.Spec.Selector}, &seen)
		},
		"get configmaps kube-system/the": func(ctx context.Context, c *Client) error {
			return c.readGroups(ctx, types.NamespacedName{Namespace: "kube-system", Name: "the-status"}, &seen)
		},
	}
	for name, tc := range answers {
		for call, do := range calls {
			t.Run(name+"/"+call, func(t *testing.T) {
				c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
					Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
						return tc.err
					},
					List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return tc.err },
					SubResourceGet: func(context.Context, client.Client, string, client.Object, client.Object, ...client.SubResourceGetOption) error {
						return tc.err
					},
				}).Build()
				err := do(t.Context(), New(c, c, clock))
				if inventory.ClassOf(err) != tc.want || !errors.Is(err, tc.err) || !strings.Contains(fmt.Sprint(err), call) {
					t.Errorf("want %s naming %q, got %s: %v", tc.want, call, inventory.ClassOf(err), err)
				}
			})
		}
	}
}
