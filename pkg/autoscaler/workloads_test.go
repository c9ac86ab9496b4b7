package autoscaler

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// stray is a pod of kube-system that runs Cluster Autoscaler and has one of the usual labels.
func stray(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := podOf("kube-system", "cluster-autoscaler", name, "node-"+name, corev1.PodRunning)
	p.UID = types.UID(name)
	for _, c := range change {
		c(p)
	}
	return p
}

// of makes the pod that of a controller.
func of(kind, name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: name, UID: types.UID(kind + name), Controller: ptr.To(true)}}
	}
}

func labelled(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Labels[key] = value }
}

func statefulSet(name string, replicas *int32) *appsv1.StatefulSet {
	d := deployment("kube-system", name, image)
	return &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name, UID: types.UID("StatefulSet" + name)},
		Spec: appsv1.StatefulSetSpec{Replicas: replicas, Selector: d.Spec.Selector, Template: d.Spec.Template}}
}

func daemons(name string) *appsv1.DaemonSet {
	d := daemonSet("kube-system", name, image)
	d.Status.DesiredNumberScheduled = 2
	return d
}

// seen is one Cluster Autoscaler in the few words that a table compares.
type seen struct {
	object                   string
	replicas, status         int32
	pods                     int
	scalable, stopped, hasID bool
}

func TestFindWhatCastoffCannotStop(t *testing.T) {
	leaving := func(p *corev1.Pod) {
		p.DeletionTimestamp, p.Finalizers = &metav1.Time{Time: now}, []string{"example.com/held"}
	}
	tests := map[string]struct {
		reason string
		have   []client.Object
		want   []seen
	}{
		"StatefulSet": {"its template has it", []client.Object{statefulSet("ca", ptr.To[int32](2)), stray("ca-0", of("StatefulSet", "ca"), labelled("app", "ca"))},
			[]seen{{"statefulset/kube-system/ca", 2, 0, 1, false, false, true}}},
		"StatefulSetDefaulted": {"no number is one", []client.Object{statefulSet("ca", nil)}, []seen{{"statefulset/kube-system/ca", 1, 0, 0, false, false, true}}},
		"StatefulSetStopped":   {"at 0 it scales nothing", []client.Object{statefulSet("ca", ptr.To[int32](0))}, []seen{{"statefulset/kube-system/ca", 0, 0, 0, false, true, true}}},
		"DaemonSet":            {"as many as nodes want one", []client.Object{daemons("ca")}, []seen{{"daemonset/kube-system/ca", 2, 2, 0, false, false, false}}},
		"Pod":                  {"by itself", []client.Object{stray("ca")}, []seen{{"pod/kube-system/ca", 1, 1, 1, false, false, true}}},
		"StaticPod":            {"a node is no workload", []client.Object{stray("ca-node", of("Node", "node"))}, []seen{{"pod/kube-system/ca-node", 1, 1, 1, false, false, true}}},
		"ByTheChartsLabel":     {"upstream's Helm chart", []client.Object{stray("ca", labelled("app", "x"), labelled("app.kubernetes.io/name", "aws-cluster-autoscaler"))}, []seen{{"pod/kube-system/ca", 1, 1, 1, false, false, true}}},
		"ByTwoLabels":          {"one pod is one", []client.Object{stray("ca", labelled("k8s-app", "cluster-autoscaler"))}, []seen{{"pod/kube-system/ca", 1, 1, 1, false, false, true}}},
		"Orphans": {"a ReplicaSet whose Deployment is gone, as one", []client.Object{stray("ca-1-a", of("ReplicaSet", "ca-1")), stray("ca-1-b", of("ReplicaSet", "ca-1"))},
			[]seen{{"replicaset/kube-system/ca-1", 2, 2, 2, false, false, true}}},
		"Rollout":     {"kinds that castoff does not know", []client.Object{stray("ca-0", of("CloneSet", "ca"))}, []seen{{"cloneset/kube-system/ca", 1, 1, 1, false, false, true}}},
		"Leaving":     {"it may act until it is gone, and is not asked for", []client.Object{stray("ca", leaving)}, []seen{{"pod/kube-system/ca", 0, 1, 1, false, false, true}}},
		"Ended":       {"it acts no more", []client.Object{stray("ca", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })}, nil},
		"AnotherName": {"a label is not a program", []client.Object{stray("ca", func(p *corev1.Pod) { p.Spec.Containers[0].Image = "example.com/exporter" })}, nil},
		"OfADeployment": {"it is the Deployment's, by the name of its ReplicaSet", []client.Object{
			deployment("kube-system", "cluster-autoscaler", image), stray("a", of("ReplicaSet", "cluster-autoscaler-5d8f"), labelled("pod-template-hash", "5d8f"))},
			[]seen{{"deployment/kube-system/cluster-autoscaler", 2, 0, 1, true, false, false}}},
		"OfAnotherDeployment": {"a namesake elsewhere has nothing to do with it", []client.Object{
			deployment("other", "cluster-autoscaler", image), stray("a", of("ReplicaSet", "cluster-autoscaler-5d8f"), labelled("pod-template-hash", "5d8f"))},
			[]seen{{"deployment/other/cluster-autoscaler", 2, 0, 0, true, false, false}, {"replicaset/kube-system/cluster-autoscaler-5d8f", 1, 1, 1, false, false, true}}},
		"BesideOne": {"all of them, Deployments first", []client.Object{deployment("kube-system", "z", image), daemons("a"), stray("b")},
			[]seen{{"deployment/kube-system/z", 2, 0, 0, true, false, false}, {"daemonset/kube-system/a", 2, 2, 0, false, false, false}, {"pod/kube-system/b", 1, 1, 1, false, false, true}}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := fake.NewClientBuilder().WithObjects(tc.have...).Build()
			found, err := New(c, c, clock).Find(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var got []seen
			for _, a := range found {
				got = append(got, seen{a.Object(), a.Replicas, a.StatusReplicas, a.Pods, a.Scalable(), a.Stopped(), a.UID != ""})
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(seen{})); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// TestStraysAreReadLikeTheRest: flags, Lease and owner tell what to do about one.
func TestStraysAreReadLikeTheRest(t *testing.T) {
	c := fake.NewClientBuilder().WithObjects(stray("ca", func(p *corev1.Pod) {
		p.Spec.Containers[0].Args = []string{"--nodes=1:9:general", "--leader-elect=false"}
		p.Annotations = map[string]string{"argocd.argoproj.io/tracking-id": "infra:/Pod:kube-system/ca"}
	}), leaseOf("kube-system", "ca")).Build()
	found, err := New(c, c, clock).Find(t.Context())
	if err != nil || len(found) != 1 {
		t.Fatalf("want one, got %v, %v", found, err)
	}
	want := inventory.Autoscaler{
		Deployment: types.NamespacedName{Namespace: "kube-system", Name: "ca"}, Kind: "Pod", UID: "ca", Image: image, Replicas: 1, StatusReplicas: 1, Pods: 1,
		Args: []string{"--nodes=1:9:general", "--leader-elect=false"}, Static: []string{"general"}, Nodes: []string{"node-ca"}, Owner: "Argo CD application infra",
		Lease: types.NamespacedName{Namespace: "kube-system", Name: "cluster-autoscaler"}, LeaseHolder: "ca", LeaseRenewed: now, LeaseDuration: time.Hour,
	}
	if diff := cmp.Diff(want, found[0]); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestStraysAreLookedForOnceAMinute: lists of pods are dear, and a look comes every second or two. One that was found is looked at
// every time, so that its end is seen at once.
func TestStraysAreLookedForOnceAMinute(t *testing.T) {
	at, lists := now, 0
	c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
			if _, pods := l.(*corev1.PodList); pods {
				lists++
			}
			return c.List(ctx, l, opts...)
		},
	}).Build()
	ours := New(c, c, func() time.Time { return at })
	look := func(reason string, wantFound, wantLists int) {
		t.Helper()
		lists = 0
		found, err := ours.Find(t.Context())
		if err != nil || len(found) != wantFound || lists != wantLists {
			t.Errorf("%s: want %d found with %d lists, got %d with %d, %v", reason, wantFound, wantLists, len(found), lists, err)
		}
	}
	all := len(usualLabels)
	look("the first time", 0, all)
	at = at.Add(straysFresh - time.Second)
	look("it is fresh", 0, 0)
	if err := c.Create(t.Context(), stray("ca")); err != nil {
		t.Fatal(err)
	}
	at = at.Add(time.Second)
	look("one came within the minute", 1, all)
	look("one that is there is looked at", 1, all)
	if err := c.Delete(t.Context(), stray("ca")); err != nil {
		t.Fatal(err)
	}
	look("and its end is seen", 0, all)
	look("now nothing is there again", 0, 0)
}
