package controllers

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// theirNodePool has labels and perhaps a taint.
func theirNodePool(taint string, labels map[string]string) *karpv1.NodePool {
	np := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}}
	np.Spec.Template.Labels = labels
	if taint != "" {
		np.Spec.Template.Spec.Taints = []corev1.Taint{{Key: taint, Effect: corev1.TaintEffectNoSchedule}}
	}
	return np
}

func TestTakenPods(t *testing.T) {
	shop := &inventory.Shape{NodeSelector: map[string]string{"tier": "shop"}}
	web := func(change ...func(*inventory.Pod)) inventory.Pod {
		p := inventory.Pod{Namespace: "shop", Name: "web-1", Node: "general-0", Shape: shop, Owner: &metav1.OwnerReference{Kind: "ReplicaSet"}}
		for _, f := range change {
			f(&p)
		}
		return p
	}
	fits := map[string]string{"tier": "shop"}
	cases := map[string]struct {
		reason string
		np     *karpv1.NodePool
		pod    inventory.Pod
		want   string
	}{
		"Fits":       {"its labels are what the pod selects", theirNodePool("", fits), web(), "pod/shop/web-1"},
		"OtherLabel": {"they are not", theirNodePool("", map[string]string{"tier": "lab"}), web(), ""},
		"NoLabel":    {"it has none", theirNodePool("", nil), web(), ""},
		"Tainted":    {"a taint that the pod does not tolerate", theirNodePool("theirs", fits), web(), ""},
		"Tolerates": {"one that it does", theirNodePool("theirs", fits), web(func(p *inventory.Pod) {
			p.Shape = &inventory.Shape{NodeSelector: fits, Tolerations: []corev1.Toleration{{Key: "theirs", Operator: corev1.TolerationOpExists}}}
		}), "pod/shop/web-1"},
		"Elsewhere":   {"the pod is on no node of the pool", theirNodePool("", fits), web(func(p *inventory.Pod) { p.Node = "system-0" }), ""},
		"DaemonSet":   {"it stays on its node", theirNodePool("", fits), web(func(p *inventory.Pod) { p.Owner.Kind = "DaemonSet" }), ""},
		"Static":      {"so does a static pod", theirNodePool("", fits), web(func(p *inventory.Pod) { p.Mirror = true }), ""},
		"Bare":        {"one without a controller would be as lost there", theirNodePool("", fits), web(func(p *inventory.Pod) { p.Owner = nil }), "pod/shop/web-1"},
		"NotMeasured": {"what was not read is not guessed", theirNodePool("", fits), web(func(p *inventory.Pod) { p.Shape = nil }), ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := taken(tc.np, []inventory.Pod{tc.pod}, map[string]bool{"general-0": true}); got != tc.want {
				t.Errorf("%s: %q, want %q", tc.reason, got, tc.want)
			}
		})
	}
}

func TestAWatchThatBeginsLate(t *testing.T) {
	begun, failing := 0, errors.New("no such kind")
	w := &watched{}
	if err := w.begin(func() error { return failing }); !errors.Is(err, failing) || w.on {
		t.Errorf("a watch that does not begin: %v, on %t", err, w.on)
	}
	for range 3 {
		if err := w.begin(func() error { begun++; return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if begun != 1 {
		t.Errorf("it began %d times, want once", begun)
	}
	if err := (*watched)(nil).begin(func() error { return failing }); err != nil {
		t.Errorf("where nobody is to be woken: %v", err)
	}
	if err := w.begin(nil); err != nil {
		t.Errorf("where nobody watches: %v", err)
	}
}

// TestOtherScalersPredicate: not only Deployments of Cluster Autoscaler.
func TestOtherScalersPredicate(t *testing.T) {
	template := func(image string) corev1.PodTemplateSpec {
		return corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: image}}}}
	}
	const ca, karpenter, web = "registry.k8s.io/autoscaling/cluster-autoscaler:v1.33.0", "public.ecr.aws/karpenter/controller:1.9.0", "example.com/web"
	cases := map[string]struct {
		reason string
		object client.Object
		want   bool
	}{
		"Karpenter":     {"a second one", &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Template: template(karpenter)}}, true},
		"StatefulSet":   {"as people run it too", &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Template: template(ca)}}, true},
		"DaemonSet":     {"and so", &appsv1.DaemonSet{Spec: appsv1.DaemonSetSpec{Template: template(ca)}}, true},
		"OtherStateful": {"a database", &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Template: template(web)}}, false},
		"OtherDaemon":   {"an agent", &appsv1.DaemonSet{Spec: appsv1.DaemonSetSpec{Template: template(web)}}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := scalers().Create(event.CreateEvent{Object: tc.object}); got != tc.want {
				t.Errorf("%s comes: %t, want %t", tc.reason, got, tc.want)
			}
			changed, ok := tc.object.DeepCopyObject().(client.Object)
			if !ok {
				t.Fatal("no object")
			}
			changed.SetGeneration(2)
			if got := scalers().Update(event.UpdateEvent{ObjectOld: tc.object, ObjectNew: changed}); got != tc.want {
				t.Errorf("%s changes: %t, want %t", tc.reason, got, tc.want)
			}
			if scalers().Update(event.UpdateEvent{ObjectOld: tc.object, ObjectNew: tc.object}) {
				t.Errorf("%s: a change of nothing", tc.reason)
			}
		})
	}
}

func TestHoldersPredicate(t *testing.T) {
	lease := func(holder string) *coordinationv1.Lease {
		return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: ptr.To(metav1.NowMicro())}}
	}
	cases := map[string]struct {
		reason        string
		before, after client.Object
		want          bool
	}{
		"Taken":   {"somebody has it now", lease("castoff"), lease("thief"), true},
		"LetGo":   {"nobody has", lease("castoff"), lease(""), true},
		"Renewed": {"a leader does so every two seconds", lease("ca-0"), lease("ca-0"), false},
		"NoLease": {"what is none is not read as one", &corev1.Pod{}, lease("x"), false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := holders().Update(event.UpdateEvent{ObjectOld: tc.before, ObjectNew: tc.after}); got != tc.want {
				t.Errorf("%s: %t, want %t", tc.reason, got, tc.want)
			}
		})
	}
	if holders().Create(event.CreateEvent{Object: lease("ca-0")}) || !holders().Delete(event.DeleteEvent{Object: lease("castoff")}) {
		t.Error("a Lease that comes is its maker's; one that goes is castoff's no more")
	}
}

func TestNodePoolsPredicate(t *testing.T) {
	np := func(generation int64) *karpv1.NodePool {
		return &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Generation: generation}}
	}
	p := nodePools()
	if !p.Create(event.TypedCreateEvent[*karpv1.NodePool]{Object: np(1)}) || !p.Delete(event.TypedDeleteEvent[*karpv1.NodePool]{Object: np(1)}) {
		t.Error("one that comes or goes wakes nobody")
	}
	for after, want := range map[int64]bool{1: false, 2: true} {
		if got := p.Update(event.TypedUpdateEvent[*karpv1.NodePool]{ObjectOld: np(1), ObjectNew: np(after)}); got != want {
			t.Errorf("generation 1 to %d: %t, want %t: its status changes with every node", after, got, want)
		}
	}
}

// TestSlimKeepsTheWritersOfScalers: who changed a scaler is named, so it has to be in the cache; of the rest it is not.
func TestSlimKeepsTheWritersOfScalers(t *testing.T) {
	written := metav1.ObjectMeta{Name: "x", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}}
	deployment := func(image string) *appsv1.Deployment {
		d := &appsv1.Deployment{ObjectMeta: *written.DeepCopy()}
		d.Spec.Template.Spec.Containers = []corev1.Container{{Image: image}}
		return d
	}
	cases := map[string]struct {
		object client.Object
		want   string
	}{
		"ClusterAutoscaler": {deployment("registry.k8s.io/autoscaling/cluster-autoscaler:v1.33.0"), "kubectl"},
		"Karpenter":         {deployment("public.ecr.aws/karpenter/controller:1.9.0"), "kubectl"},
		"Web":               {deployment("example.com/web"), ""},
		"NodePool":          {&karpv1.NodePool{ObjectMeta: *written.DeepCopy()}, "kubectl"},
		"Migration":         {&corev1.Service{ObjectMeta: *written.DeepCopy()}, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			out, err := slim(tc.object)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if o, ok := out.(client.Object); ok && len(o.GetManagedFields()) > 0 {
				got = o.GetManagedFields()[0].Manager
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("manager, -want +got:\n%s", diff)
			}
		})
	}
}
