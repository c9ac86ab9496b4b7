package drain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

var (
	singletons = inventory.DrainAllowance{Surge: inventory.Surge{Strategy: v1alpha1.SurgeSingletons, For: "migration-uid"}}
	all        = inventory.DrainAllowance{Surge: inventory.Surge{Strategy: v1alpha1.SurgeAll, For: "migration-uid"}}
)

// begunAt is the value of a begun node's note, and so of the restart.
const begunAt = "2026-05-04T03:00:00Z"

// deployed are Deployment web and its ReplicaSet web-1, whose pods main_test.go makes.
func deployed(change ...func(*appsv1.Deployment)) []client.Object {
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.com/web"}}},
	}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "web-uid", Generation: 1},
		Spec:       appsv1.DeploymentSpec{Replicas: ptr.To[int32](1), Selector: selector, Template: template},
		Status:     appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1, AvailableReplicas: 1},
	}
	for _, c := range change {
		c(d)
	}
	return []client.Object{d, &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "web-1", UID: "rs",
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: d.UID, Controller: ptr.To(true)}},
		},
		Spec: appsv1.ReplicaSetSpec{Replicas: d.Spec.Replicas, Selector: selector, Template: template},
	}}
}

func ofReplicas(n int32) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) { d.Spec.Replicas, d.Status.Replicas, d.Status.UpdatedReplicas = &n, n, n }
}

func noted(whom string) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) { d.Annotations = map[string]string{v1alpha1.AnnotationSurged: whom} }
}

// rollingOut has a new pod beside the old ones.
func rollingOut(d *appsv1.Deployment) { d.Status.Replicas++ }

func givenUp(d *appsv1.Deployment) {
	d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "ProgressDeadlineExceeded"}}
}

func claiming(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}})
	}
}

// bound is a claim with its volume.
func bound(name string, mode corev1.PersistentVolumeAccessMode) []client.Object {
	return []client.Object{
		&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "pv-" + name}},
		&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-" + name}, Spec: corev1.PersistentVolumeSpec{AccessModes: []corev1.PersistentVolumeAccessMode{mode}}},
	}
}

func plus(objects []client.Object, more ...client.Object) []client.Object {
	return append(objects, more...)
}

// read gives Deployment web as it is stored.
func read(t *testing.T, c client.Reader, namespace string) *appsv1.Deployment {
	t.Helper()
	d := new(appsv1.Deployment)
	if err := c.Get(t.Context(), types.NamespacedName{Namespace: namespace, Name: "web"}, d); err != nil {
		t.Fatal(err)
	}
	return d
}

func restarted(d *appsv1.Deployment) string {
	return d.Spec.Template.Annotations[v1alpha1.AnnotationRestartedAt]
}

func TestPassSurges(t *testing.T) {
	cases := map[string]struct {
		reason    string
		allow     inventory.DrainAllowance
		objects   []client.Object
		pods      []*corev1.Pod
		restarted bool
		evicted   []string
		blocked   []inventory.BlockReason
	}{
		"Restarts": {
			reason: "a singleton's Deployment is restarted, and its pod is left to it", allow: singletons,
			objects: deployed(), pods: []*corev1.Pod{pod("a")}, restarted: true, blocked: []inventory.BlockReason{inventory.BlockedSurging},
		},
		"NotAsked": {
			reason: "without the user's word its pod is evicted", objects: deployed(), pods: []*corev1.Pod{pod("a")}, evicted: []string{"a"},
		},
		"All": {
			reason: "one restart for all the pods of a Deployment", allow: all,
			objects: deployed(ofReplicas(3)), pods: []*corev1.Pod{pod("a"), pod("b")}, restarted: true, blocked: []inventory.BlockReason{inventory.BlockedSurging, inventory.BlockedSurging},
		},
		"Three": {
			reason: "three pods are no singleton", allow: singletons, objects: deployed(ofReplicas(3)), pods: []*corev1.Pod{pod("a")}, evicted: []string{"a"},
		},
		"UnderWay": {
			reason: "the old pod is not evicted before the new one is Ready", allow: singletons,
			objects: deployed(noted("migration-uid"), rollingOut), pods: []*corev1.Pod{pod("a", notReady)}, blocked: []inventory.BlockReason{inventory.BlockedSurging},
		},
		"GivenUp": {
			reason: "a rollout that failed is not waited for", allow: singletons,
			objects: deployed(noted("migration-uid"), rollingOut, givenUp), pods: []*corev1.Pod{pod("a")}, evicted: []string{"a"},
		},
		"Once": {
			reason: "a pod that came back to the node is evicted: whoever undid the restart is not fought", allow: singletons,
			objects: deployed(noted("migration-uid")), pods: []*corev1.Pod{pod("a")}, evicted: []string{"a"},
		},
		"TimeIsOver": {
			reason: "when the node's time is over nothing allows to wait any more", objects: deployed(noted("migration-uid"), rollingOut), pods: []*corev1.Pod{pod("a")}, evicted: []string{"a"},
		},
		"SomebodysRollout": {
			reason: "a rollout that somebody else began is not disturbed, nor waited for", allow: singletons,
			objects: deployed(rollingOut), pods: []*corev1.Pod{pod("a")}, evicted: []string{"a"},
		},
		"NotReady": {
			reason: "a pod that serves nobody need not be replaced first", allow: singletons, objects: deployed(), pods: []*corev1.Pod{pod("a", notReady)}, evicted: []string{"a"},
		},
		"HostPort": {
			reason: "a second pod with the port may find no node", allow: singletons, objects: deployed(),
			pods: []*corev1.Pod{pod("a", func(p *corev1.Pod) { p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80}} })}, evicted: []string{"a"},
		},
		"HostNetwork": {
			reason: "so may one whose ports are all the node's", allow: singletons, objects: deployed(),
			pods: []*corev1.Pod{pod("a", func(p *corev1.Pod) { p.Spec.HostNetwork = true })}, evicted: []string{"a"},
		},
		"Disk": {
			reason: "a disk of one node is let go only when the old pod is gone", allow: singletons,
			objects: plus(deployed(), bound("data", corev1.ReadWriteOnce)...), pods: []*corev1.Pod{pod("a", claiming("data"))}, evicted: []string{"a"},
		},
		"DiskOfOnePod": {
			reason: "and one of one pod, too", allow: singletons,
			objects: plus(deployed(), bound("data", corev1.ReadWriteOncePod)...), pods: []*corev1.Pod{pod("a", claiming("data"))}, evicted: []string{"a"},
		},
		"SharedVolume": {
			reason: "what many nodes may have is in nobody's way", allow: singletons,
			objects: plus(deployed(), bound("data", corev1.ReadWriteMany)...), pods: []*corev1.Pod{pod("a", claiming("data"))}, restarted: true, blocked: []inventory.BlockReason{inventory.BlockedSurging},
		},
		"NoVolume": {
			reason: "of a claim without a volume nothing is known", allow: singletons, objects: deployed(), pods: []*corev1.Pod{pod("a", claiming("lost"))}, evicted: []string{"a"},
		},
		"Ephemeral": {
			reason: "a volume that each pod has for itself is in nobody's way", allow: singletons, objects: deployed(),
			pods: []*corev1.Pod{pod("a", func(p *corev1.Pod) {
				p.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}}}
			})}, restarted: true, blocked: []inventory.BlockReason{inventory.BlockedSurging},
		},
		"StatefulSet": {
			reason: "its next pod has the name of the first", allow: all, objects: deployed(), pods: []*corev1.Pod{pod("a", ownedBy("apps/v1", "StatefulSet"))}, evicted: []string{"a"},
		},
		"LeftAlone": {
			reason: "what asks to be left alone is not moved by a restart either", allow: singletons, objects: deployed(),
			pods: []*corev1.Pod{pod("a", annotated("karpenter.sh/do-not-disrupt", "true"))}, blocked: []inventory.BlockReason{inventory.BlockedDoNotDisrupt},
		},
		"NoDeployment": {
			reason: "a ReplicaSet by itself replaces what is evicted", allow: all, objects: deployed()[1:], pods: []*corev1.Pod{pod("a")}, evicted: []string{"a"},
		},
		"NoReplicaSet": {
			reason: "nothing is known of one that is gone", allow: all, pods: []*corev1.Pod{pod("a")}, evicted: []string{"a"},
		},
		"Namesake": {
			reason: "a Deployment of that name which is another one", allow: all, objects: deployed(func(d *appsv1.Deployment) { d.UID = "new-uid" })[:1], pods: []*corev1.Pod{pod("a")}, evicted: []string{"a"},
		},
		"Rollout": {
			reason: "somebody else's kind has rules of its own", allow: all, objects: func() []client.Object {
				o := deployed()
				o[1].GetOwnerReferences()[0].Kind = "Rollout"
				return o
			}(), pods: []*corev1.Pod{pod("a")}, evicted: []string{"a"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var asked []policyv1.Eviction
			objects := append(tc.objects, begunNode("old"))
			for _, p := range tc.pods {
				objects = append(objects, p)
			}
			c := faked(evictions(&asked, func(string) error { return nil }), objects...)
			got, err := New(c, c, clock).Pass(t.Context(), "old", tc.allow)
			if err != nil {
				t.Fatalf("%s: %v", tc.reason, err)
			}
			var evicted []string
			for _, e := range asked {
				evicted = append(evicted, e.Name)
			}
			var blocked []inventory.BlockReason
			for _, b := range got.Blocked {
				blocked = append(blocked, b.Reason)
			}
			if diff := cmp.Diff(tc.evicted, evicted) + cmp.Diff(tc.blocked, blocked); diff != "" || got.Evictable != len(tc.pods) {
				t.Errorf("%s: evicted and blocked: -want +got:\n%s%+v", tc.reason, diff, got)
			}
			d := new(appsv1.Deployment)
			if err := c.Get(t.Context(), types.NamespacedName{Namespace: "shop", Name: "web"}, d); client.IgnoreNotFound(err) != nil {
				t.Fatal(err)
			}
			if at := restarted(d); (at != "") != tc.restarted || tc.restarted && (at != begunAt || d.Annotations[v1alpha1.AnnotationSurged] != "migration-uid") {
				t.Errorf("%s: restarted at %q for %q", tc.reason, at, d.Annotations[v1alpha1.AnnotationSurged])
			}
		})
	}
}

// TestSurgeTakesTheRoom: the room of the Deployment's pods of this node is its new pods'; that of others is kept.
func TestSurgeTakesTheRoom(t *testing.T) {
	other := pod("z", func(p *corev1.Pod) { p.OwnerReferences[0].Name, p.OwnerReferences[0].UID = "db-1", "db-rs" })
	var order []string
	funcs := interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			order = append(order, "drop "+o.GetName())
			return c.Delete(ctx, o, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			if _, ok := o.(*appsv1.Deployment); ok {
				order = append(order, "restart "+o.GetName())
			}
			return c.Patch(ctx, o, p, opts...)
		},
		SubResourceCreate: evictions(new([]policyv1.Eviction), func(string) error { return noRoomAnswer() }).SubResourceCreate,
	}
	c := faked(funcs, plus(deployed(ofReplicas(2)), idleNode("old"), pod("a"), pod("b"), other)...)
	d := New(c, c, clock).WithRoom(room)
	warmAndBegin(t, d)
	makeRoom(t, c)
	for range 2 {
		if _, err := d.Pass(t.Context(), "old", all); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"drop placeholder-a-uid", "drop placeholder-b-uid", "restart web"}, order); diff != "" {
		t.Errorf("a process that ends in between restarts it all the same (-want +got):\n%s", diff)
	}
	if left, err := d.Placeholders(t.Context()); err != nil || len(left) != 1 || left[0].Pod != "z-uid" {
		t.Errorf("room that is left: %+v, %v", left, err)
	}
}

// patches answers every patch of a Deployment.
func patches(asked *int, answer error) interceptor.Funcs {
	return interceptor.Funcs{
		SubResourceCreate: evictions(new([]policyv1.Eviction), func(string) error { return nil }).SubResourceCreate,
		Patch: func(_ context.Context, _ client.WithWatch, _ client.Object, _ client.Patch, _ ...client.PatchOption) error {
			*asked++
			return answer
		},
	}
}

func TestSurgeAnswers(t *testing.T) {
	web := schema.GroupResource{Group: "apps", Resource: "deployments"}
	cases := map[string]struct {
		reason string
		answer error
		want   []inventory.BlockReason
		fails  bool
	}{
		"Conflict":  {"somebody changed it: the next pass decides by what is there then", apierrors.NewConflict(web, "web", errors.New("changed")), []inventory.BlockReason{inventory.BlockedSurging, inventory.BlockedSurging}, false},
		"Forbidden": {"without the right both go as usual, which is asked and said once", apierrors.NewForbidden(web, "web", errors.New("no")), []inventory.BlockReason{inventory.BlockedNotSurged}, false},
		"Invalid":   {"what admission refuses it refuses again", apierrors.NewInvalid(schema.GroupKind{Kind: "Deployment"}, "web", nil), []inventory.BlockReason{inventory.BlockedNotSurged}, false},
		"Webhook":   {"so does a webhook", apierrors.NewBadRequest("denied"), []inventory.BlockReason{inventory.BlockedNotSurged}, false},
		"Gone":      {"a Deployment that was deleted keeps nobody", apierrors.NewNotFound(web, "web"), nil, false},
		"Down":      {"an API server that does not answer is asked again, and nothing is evicted meanwhile", apierrors.NewInternalError(errors.New("down")), nil, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			asked := 0
			c := faked(patches(&asked, tc.answer), plus(deployed(ofReplicas(2)), begunNode("old"), pod("a"), pod("b"))...)
			got, err := New(c, c, clock).Pass(t.Context(), "old", all)
			var reasons []inventory.BlockReason
			for _, b := range got.Blocked {
				reasons = append(reasons, b.Reason)
			}
			if (err != nil) != tc.fails || !slices.Equal(reasons, tc.want) {
				t.Errorf("%s: %v, %v", tc.reason, reasons, err)
			}
			if name == "Forbidden" && (asked != 1 || !strings.Contains(got.Blocked[0].Message, "drain.surge")) {
				t.Errorf("asked %d times, says %q", asked, got.Blocked[0].Message)
			}
		})
	}
}

func TestSurgeErrorsOfReads(t *testing.T) {
	for kind, object := range map[string]client.Object{"replicasets": &appsv1.ReplicaSet{}, "deployments": &appsv1.Deployment{}, "persistentvolumeclaims": &corev1.PersistentVolumeClaim{}} {
		t.Run(kind, func(t *testing.T) {
			var asked []policyv1.Eviction
			funcs := evictions(&asked, func(string) error { return nil })
			funcs.Get = func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				if fmt.Sprintf("%T", o) == fmt.Sprintf("%T", object) {
					return forbidden(kind)
				}
				return c.Get(ctx, key, o, opts...)
			}
			c := faked(funcs, plus(plus(deployed(), bound("data", corev1.ReadWriteMany)...), begunNode("old"), pod("a", claiming("data")))...)
			_, err := New(c, c, clock).Pass(t.Context(), "old", singletons)
			if err == nil || !strings.Contains(err.Error(), kind) || len(asked) != 0 {
				t.Errorf("a pod of which it is not known whether it is surged was evicted, or the read's error is lost: %v, %v", err, asked)
			}
		})
	}
}

// deploy creates Deployment web, its ReplicaSet and its pod on the shop's node; no controller runs there.
func (s *shop) deploy() {
	s.t.Helper()
	objects := deployed()
	d, ok := objects[0].(*appsv1.Deployment)
	set, ok2 := objects[1].(*appsv1.ReplicaSet)
	if !ok || !ok2 {
		s.t.Fatal("not what deployed makes")
	}
	d.Namespace, d.UID, d.Generation = s.namespace, "", 0
	if err := cluster.Client.Create(s.t.Context(), d); err != nil {
		s.t.Fatal(err)
	}
	s.report(1, 1)
	set.Namespace, set.UID, set.OwnerReferences[0].UID = s.namespace, "", d.UID
	if err := cluster.Client.Create(s.t.Context(), set); err != nil {
		s.t.Fatal(err)
	}
	s.run("a", func(p *corev1.Pod) { p.OwnerReferences[0].UID = set.UID })
}

// report is the Deployment's controller: it has seen the last change, and so many of the pods are new.
func (s *shop) report(replicas, updated int32) {
	s.t.Helper()
	d := read(s.t, cluster.Client, s.namespace)
	d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: replicas, UpdatedReplicas: updated}
	if err := cluster.Client.Status().Update(s.t.Context(), d); err != nil {
		s.t.Fatal(err)
	}
}

// TestSurgeAtARealAPIServer walks through a restart, and asks again at every moment at which a process may have ended.
func TestSurgeAtARealAPIServer(t *testing.T) {
	s := newShop(t)
	s.deploy()
	before := read(t, cluster.Client, s.namespace)
	waits := inventory.BlockedPod{Pod: s.name("a"), Reason: inventory.BlockedSurging, Workload: "deployment/" + s.namespace + "/web"}
	at := getNode(t, s.node).Annotations[v1alpha1.AnnotationDraining]

	for range 3 { // the second is a process that does not know of the first
		s.check("restarted, and left to its controller", s.passes(cluster.Client, singletons), 1, []string{}, waits)
	}
	d := read(t, cluster.Client, s.namespace)
	if d.Generation != before.Generation+1 || restarted(d) != at || d.Annotations[v1alpha1.AnnotationSurged] != "migration-uid" {
		t.Errorf("want one change of the template, of the node's own time %q; got %d after %d, %v", at, d.Generation, before.Generation, d.Spec.Template.Annotations)
	}
	d.Spec.Template.Annotations = before.Spec.Template.Annotations
	if diff := cmp.Diff(before.Spec, d.Spec); diff != "" {
		t.Errorf("more than the annotation was changed:\n%s", diff)
	}
	s.report(2, 1)
	s.check("a new pod is there and not Ready", s.passes(cluster.Client, singletons), 1, []string{}, waits)
	s.report(1, 1)
	s.check("the rollout is over; a pod that is left is evicted", s.passes(cluster.Client, singletons), 1, []string{"a"})
	if again := read(t, cluster.Client, s.namespace); again.Generation != d.Generation {
		t.Errorf("restarted twice: generation %d after %d", again.Generation, d.Generation)
	}
}

// TestSurgeOfAnObjectThatChanges: who changed the Deployment after it was read is not overwritten.
func TestSurgeOfAnObjectThatChanges(t *testing.T) {
	s := newShop(t)
	s.deploy()
	c := interceptor.NewClient(withWatch(t), interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			d := read(t, cluster.Client, s.namespace)
			d.Spec.Replicas = ptr.To[int32](2)
			if err := cluster.Client.Update(ctx, d); err != nil {
				return err
			}
			return c.Patch(ctx, o, p, opts...)
		},
	})
	got := s.passes(c, singletons)
	if len(got.Blocked) != 1 || got.Blocked[0].Reason != inventory.BlockedSurging || len(s.terminating()) != 0 {
		t.Errorf("want it decided anew by the next pass, got %+v", got)
	}
	if d := read(t, cluster.Client, s.namespace); restarted(d) != "" || *d.Spec.Replicas != 2 {
		t.Errorf("restarted at %q with %d replicas, by what was read before", restarted(d), *d.Spec.Replicas)
	}
}

// TestSurgeWithoutTheRight is as a user that may read all and evict, as the chart without drain.surge gives it.
func TestSurgeWithoutTheRight(t *testing.T) {
	s := newShop(t)
	s.deploy()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "evictor"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods/eviction"}, Verbs: []string{"create"}}}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: role.ObjectMeta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "evictor"}},
	}
	for _, o := range []client.Object{role, binding} {
		if err := cluster.Client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	config := rest.CopyConfig(cluster.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "evictor"}
	c, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := New(readsAs{c, cluster.Client}, cluster.Client, clock).Pass(t.Context(), s.node, singletons)
	if err != nil {
		t.Fatal(err)
	}
	s.check("evicted as usual", got, 1, []string{"a"}, inventory.BlockedPod{Pod: s.name("a"), Reason: inventory.BlockedNotSurged})
	if d := read(t, cluster.Client, s.namespace); restarted(d) != "" {
		t.Errorf("restarted at %q without the right", restarted(d))
	}
}
