package autoscaler

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// TestScaleIsAbsolute: whatever is asked for now, the same call ends in the same place and is written once at most.
func TestScaleIsAbsolute(t *testing.T) {
	stop := func(c *Client, ctx context.Context, a inventory.Autoscaler) error { return c.Stop(ctx, a) }
	start := func(replicas int32) func(*Client, context.Context, inventory.Autoscaler) error {
		return func(c *Client, ctx context.Context, a inventory.Autoscaler) error { return c.Start(ctx, a, replicas) }
	}
	tests := map[string]struct {
		reason string
		act    func(*Client, context.Context, inventory.Autoscaler) error
		have   int32
		want   int32
	}{
		"Stop":         {"none", stop, 2, 0},
		"StopStopped":  {"nothing to do", stop, 0, 0},
		"Start":        {"as many as it had", start(2), 0, 2},
		"StartStarted": {"nothing to do", start(2), 2, 2},
		"StartFewer":   {"absolute, not at least", start(1), 3, 1},
		"StartWithout": {"it had none before either", start(0), 0, 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			ns := namespace(t)
			create(t, deployment(ns, "scaler", image, func(d *appsv1.Deployment) { d.Spec.Replicas = &tc.have }))
			a := findIn(t, ns)
			for range 2 {
				if err := tc.act(ours(), t.Context(), a); err != nil {
					t.Fatalf("%s: %v", tc.reason, err)
				}
			}
			d := new(appsv1.Deployment)
			if err := cluster.Client.Get(t.Context(), a.Deployment, d); err != nil {
				t.Fatal(err)
			}
			writes := d.Generation - 1
			if changes := tc.have != tc.want; *d.Spec.Replicas != tc.want || (writes == 1) != changes || writes > 1 {
				t.Errorf("%s: want %d replicas in one write at most, got %d in %d", tc.reason, tc.want, *d.Spec.Replicas, writes)
			}
		})
	}
}

func TestStartRefuses(t *testing.T) {
	ns := namespace(t)
	create(t, deployment(ns, "scaler", image, func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](0) }))
	replaced, gone := findIn(t, ns), findIn(t, ns)
	replaced.UID = "another"
	gone.Deployment.Name = "gone"
	err := ours().Start(t.Context(), replaced, 2)
	if _, ok := errors.AsType[*ReplacedError](err); !ok || inventory.ClassOf(err) != inventory.ClassRetry {
		t.Errorf("want a *ReplacedError that is tried again, got %v", err)
	}
	if err := ours().Start(t.Context(), gone, 2); !apierrors.IsNotFound(err) || inventory.ClassOf(err) != inventory.ClassRetry {
		t.Errorf("one that is gone does not scale anything: want an error that is tried again, got %v", err)
	}
	if got := replicas(t, findIn(t, ns)); got != 0 {
		t.Errorf("it was started all the same: %d replicas", got)
	}
}

func hpa(namespace, name, target string, change ...func(*autoscalingv2.HorizontalPodAutoscaler)) *autoscalingv2.HorizontalPodAutoscaler {
	h := &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: target}, MaxReplicas: 3,
		},
	}
	for _, c := range change {
		c(h)
	}
	return h
}

func TestFindHPA(t *testing.T) {
	least := func(n int32) func(*autoscalingv2.HorizontalPodAutoscaler) {
		return func(h *autoscalingv2.HorizontalPodAutoscaler) { h.Spec.MinReplicas = &n }
	}
	ref := func(apiVersion, kind string) func(*autoscalingv2.HorizontalPodAutoscaler) {
		return func(h *autoscalingv2.HorizontalPodAutoscaler) {
			h.Spec.ScaleTargetRef.APIVersion, h.Spec.ScaleTargetRef.Kind = apiVersion, kind
		}
	}
	keda := func(h *autoscalingv2.HorizontalPodAutoscaler) {
		h.OwnerReferences = []metav1.OwnerReference{{APIVersion: "keda.sh/v1alpha1", Kind: "ScaledObject", Name: "ca", Controller: ptr.To(true)}}
	}
	owned := func(h *autoscalingv2.HorizontalPodAutoscaler) {
		h.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "x"}}
	}
	tests := map[string]struct {
		reason string
		have   []client.Object
		want   *inventory.HorizontalAutoscaler
	}{
		"None":         {"nothing sets its replicas", nil, nil},
		"Scaled":       {"by name, with its range", []client.Object{hpa("kube-system", "keeper", "scaler", least(2))}, &inventory.HorizontalAutoscaler{Name: "keeper", Min: 2, Max: 3}},
		"Defaulted":    {"the API's default of 1", []client.Object{hpa("kube-system", "keeper", "scaler")}, &inventory.HorizontalAutoscaler{Name: "keeper", Min: 1, Max: 3}},
		"ToZero":       {"one that goes to 0 by itself may not rest at 0", []client.Object{hpa("kube-system", "keeper", "scaler", least(0))}, &inventory.HorizontalAutoscaler{Name: "keeper", Min: 0, Max: 3}},
		"KEDA":         {"who made it is who does not rest", []client.Object{hpa("kube-system", "keda-hpa-ca", "scaler", keda)}, &inventory.HorizontalAutoscaler{Name: "keda-hpa-ca (of ScaledObject ca)", Min: 1, Max: 3, ScaledObject: "ca"}},
		"OwnedOnly":    {"an owner that is no controller made nothing", []client.Object{hpa("kube-system", "keeper", "scaler", owned)}, &inventory.HorizontalAutoscaler{Name: "keeper", Min: 1, Max: 3}},
		"Another":      {"it scales something else", []client.Object{hpa("kube-system", "keeper", "web")}, nil},
		"AnotherKind":  {"a name is not a Deployment", []client.Object{hpa("kube-system", "keeper", "scaler", ref("apps/v1", "StatefulSet"))}, nil},
		"AnotherGroup": {"nor is that kind of another group", []client.Object{hpa("kube-system", "keeper", "scaler", ref("example.com/v1", "Deployment"))}, nil},
		"OlderVersion": {"the version does not matter", []client.Object{hpa("kube-system", "keeper", "scaler", ref("apps/v1beta2", "Deployment"))}, &inventory.HorizontalAutoscaler{Name: "keeper", Min: 1, Max: 3}},
		"AnotherNS":    {"nor does a namesake elsewhere", []client.Object{hpa("team-a", "keeper", "scaler")}, nil},
		"Two":          {"the same one every time", []client.Object{hpa("kube-system", "b", "scaler"), hpa("kube-system", "a", "scaler")}, &inventory.HorizontalAutoscaler{Name: "a", Min: 1, Max: 3}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := fake.NewClientBuilder().WithObjects(append(tc.have, deployment("kube-system", "scaler", image))...).Build()
			found, err := New(c, c, clock).Find(t.Context())
			if err != nil || len(found) != 1 {
				t.Fatalf("%s: want one Cluster Autoscaler, got %v, %v", tc.reason, found, err)
			}
			if diff := cmp.Diff(tc.want, found[0].HPA); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// TestStopWithHPA: at 0 a HorizontalPodAutoscaler rests; one that wrote once more is there to see.
func TestStopWithHPA(t *testing.T) {
	ns := namespace(t)
	create(t, deployment(ns, "scaler", image))
	create(t, hpa(ns, "keeper", "scaler"))
	if err := ours().Stop(t.Context(), findIn(t, ns)); err != nil {
		t.Fatalf("Stop: %v", err)
	}
	a := findIn(t, ns)
	if !a.Stopped() || a.HPA == nil || a.HPA.Name != "keeper" {
		t.Errorf("want it stopped, and who could write named, got %+v", a)
	}
	if err := ours().Start(t.Context(), a, 2); err != nil { // as the HorizontalPodAutoscaler would
		t.Fatal(err)
	}
	if a := findIn(t, ns); a.Stopped() || a.Replicas != 2 {
		t.Errorf("the next look does not see it: %+v", a)
	}
}

func TestLetGoLease(t *testing.T) {
	ns := namespace(t)
	let := held("", now, now, 3)
	let.LeaseDurationSeconds = ptr.To[int32](1)
	tests := map[string]struct {
		reason string
		have   *coordinationv1.LeaseSpec
		want   coordinationv1.LeaseSpec
		writes bool
	}{
		"castoff": {"whoever waits takes it", ptr.To(held("castoff", now, now, 3)), let, true},
		"another": {"it is not castoff's to give", ptr.To(held("scaler-1", now, now, 3)), held("scaler-1", now, now, 3), false},
		"let-go":  {"nothing to do", ptr.To(held("", now, now, 3)), held("", now, now, 3), false},
		"nobody":  {"nobody holds it", &coordinationv1.LeaseSpec{}, coordinationv1.LeaseSpec{}, false},
		"gone":    {"nothing is there to give", nil, coordinationv1.LeaseSpec{}, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			key := types.NamespacedName{Namespace: ns, Name: name}
			object := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
			if tc.have != nil {
				object.Spec = *tc.have
				create(t, object)
			}
			for range 2 {
				if err := ours().LetGoLease(t.Context(), key, "castoff"); err != nil {
					t.Fatalf("%s: %v", tc.reason, err)
				}
			}
			got := new(coordinationv1.Lease)
			if err := cluster.Client.Get(t.Context(), key, got); err != nil {
				if tc.have != nil || !apierrors.IsNotFound(err) {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(tc.want, got.Spec, cmpopts.EquateApproxTime(0)); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
			if wrote := got.ResourceVersion != object.ResourceVersion; wrote != tc.writes {
				t.Errorf("%s: wrote: %t", tc.reason, wrote)
			}
		})
	}
}

// TestLetGoLeaseLosesToAConcurrentWriter: a second leader of castoff's that renews it keeps it.
func TestLetGoLeaseLosesToAConcurrentWriter(t *testing.T) {
	ns := namespace(t)
	name := types.NamespacedName{Namespace: ns, Name: "cluster-autoscaler"}
	if err := ours().HoldLease(t.Context(), name, "castoff"); err != nil {
		t.Fatal(err)
	}
	withWatch, err := client.NewWithWatch(cluster.Config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	later := func() time.Time { return now.Add(time.Minute) }
	racing := interceptor.NewClient(withWatch, interceptor.Funcs{
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			if err := New(c, c, later).HoldLease(ctx, name, "castoff"); err != nil {
				return err
			}
			return c.Update(ctx, o, opts...)
		},
	})
	err = New(racing, racing, clock).LetGoLease(t.Context(), name, "castoff")
	if got := lease(t, name); !apierrors.IsConflict(err) || *got.HolderIdentity != "castoff" {
		t.Errorf("want a conflict and the Lease held, got %v and %q", err, *got.HolderIdentity)
	}
}
