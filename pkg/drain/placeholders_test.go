package drain

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

var (
	room  = Room{Namespace: "castoff-system", Image: "example.com/castoff", Args: []string{"pause"}}
	owner = metav1.OwnerReference{APIVersion: "castoff.sh/v1alpha1", Kind: "Migration", Name: "prod", UID: "migration-uid"}
)

func onKarpenter(more ...corev1.NodeSelectorRequirement) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: append(more, corev1.NodeSelectorRequirement{Key: karpv1.NodePoolLabelKey, Operator: corev1.NodeSelectorOpExists})}
}

func requesting(cpu string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	}
}

func TestPlaceholderHasThePodsShape(t *testing.T) {
	self := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	other := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}
	own := &metav1.LabelSelector{MatchLabels: map[string]string{v1alpha1.LabelPlaceholderGroup: "rs"}}
	ssd := corev1.NodeSelectorRequirement{Key: "disk", Operator: corev1.NodeSelectorOpIn, Values: []string{"ssd"}}
	cases := map[string]struct {
		reason string
		pod    *corev1.Pod
		want   func(*corev1.PodSpec)
	}{
		"Plain": {
			reason: "one of Karpenter's nodes, whatever the pod says of nodes: legacy nodes have room that is of no use",
			pod:    pod("a"), want: func(*corev1.PodSpec) {},
		},
		"Requests": {
			reason: "requests as the scheduler counts them, an init container's that are larger among them",
			pod: pod("a", requesting("500m"), func(p *corev1.Pod) {
				p.Spec.InitContainers = []corev1.Container{{Name: "init", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}}}}
			}),
			want: func(s *corev1.PodSpec) {
				s.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}
			},
		},
		"SelectorAndTolerations": {
			reason: "it may run where the pod may",
			pod: pod("a", func(p *corev1.Pod) {
				p.Spec.NodeSelector = map[string]string{"tier": "memory"}
				p.Spec.Tolerations = []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists}}
			}),
			want: func(s *corev1.PodSpec) {
				s.NodeSelector, s.Tolerations = map[string]string{"tier": "memory"}, []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists}}
			},
		},
		"Terms": {
			reason: "alternatives stay alternatives, each of them on Karpenter's nodes",
			pod: pod("a", func(p *corev1.Pod) {
				p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
					{MatchExpressions: []corev1.NodeSelectorRequirement{ssd}}, {},
				}}}}
			}),
			want: func(s *corev1.PodSpec) {
				s.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms = []corev1.NodeSelectorTerm{onKarpenter(ssd), onKarpenter()}
			},
		},
		"Volume": {
			reason: "a pod with a volume will be in its node's zone again",
			pod: pod("a", func(p *corev1.Pod) {
				p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
			}),
			want: func(s *corev1.PodSpec) {
				term := onKarpenter()
				term.MatchExpressions = append(term.MatchExpressions, corev1.NodeSelectorRequirement{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{"us-east-1a"}})
				s.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms = []corev1.NodeSelectorTerm{term}
			},
		},
		"Apart": {
			reason: "pods that keep apart from each other have placeholders that do, by a label of their own; from whom else is theirs to say",
			pod: pod("a", func(p *corev1.Pod) {
				p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
					{TopologyKey: corev1.LabelHostname, LabelSelector: self, Namespaces: []string{"shop"}}, {TopologyKey: corev1.LabelTopologyZone, LabelSelector: other},
				}}}
			}),
			want: func(s *corev1.PodSpec) {
				s.Affinity.PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: corev1.LabelHostname, LabelSelector: own}}}
			},
		},
		"HostPort": {
			reason: "two pods of one host port never share a node",
			pod:    pod("a", func(p *corev1.Pod) { p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 443}} }),
			want: func(s *corev1.PodSpec) {
				s.Affinity.PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: corev1.LabelHostname, LabelSelector: own}}}
			},
		},
		"Spread": {
			reason: "spread is kept among placeholders, and a constraint about other pods is left to the pod",
			pod: pod("a", func(p *corev1.Pod) {
				p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{
					{MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: self, MatchLabelKeys: []string{"pod-template-hash"}},
					{MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: other},
				}
			}),
			want: func(s *corev1.PodSpec) {
				s.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: own}}
			},
		},
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "old", Labels: map[string]string{corev1.LabelTopologyZone: "us-east-1a"}}}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			want := corev1.PodSpec{
				PriorityClassName: v1alpha1.PlaceholderPriorityClass, TerminationGracePeriodSeconds: ptr.To[int64](0), ActiveDeadlineSeconds: ptr.To[int64](3600),
				Affinity:   &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{onKarpenter()}}}},
				Containers: []corev1.Container{{Name: "placeholder", Image: room.Image, Args: room.Args}},
			}
			tc.want(&want)
			got := room.placeholder([]*corev1.Pod{tc.pod}, node, "general", owner)
			hardening := cmpopts.IgnoreFields(corev1.PodSpec{}, "AutomountServiceAccountToken", "EnableServiceLinks", "SecurityContext")
			if diff := cmp.Diff(want, got.Spec, hardening, cmpopts.IgnoreFields(corev1.Container{}, "SecurityContext"), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s (-want +got)\n%s", tc.reason, diff)
			}
			if tc.pod.Spec.Affinity != nil && tc.pod.Spec.Affinity.NodeAffinity != nil && len(tc.pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[1].MatchExpressions) != 0 {
				t.Error("the pod itself was changed")
			}
		})
	}
}

// TestNothingOfTheUsersSelectsAPlaceholder: only labels of castoff's own are on it, and it is in castoff's namespace.
func TestNothingOfTheUsersSelectsAPlaceholder(t *testing.T) {
	theirs := pod("a", func(p *corev1.Pod) {
		p.Labels = map[string]string{"app": "web", "pod-template-hash": "1", "castoff.sh/mine": "x"}
		p.Annotations = map[string]string{"prometheus.io/scrape": "true"}
	})
	got := room.placeholder([]*corev1.Pod{theirs}, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "old"}}, "general", owner)
	for key := range got.Labels {
		if !slices.Contains([]string{v1alpha1.LabelPlaceholder, v1alpha1.LabelPlaceholderPod, v1alpha1.LabelPlaceholderGroup, v1alpha1.LabelMigration}, key) {
			t.Errorf("label %s is not castoff's", key)
		}
	}
	if labels.SelectorFromSet(theirs.Labels).Matches(labels.Set(got.Labels)) || got.Namespace == theirs.Namespace || got.Annotations["prometheus.io/scrape"] != "" {
		t.Errorf("%s/%s with %v and %v could be taken for a pod of the user's", got.Namespace, got.Name, got.Labels, got.Annotations)
	}
	if controller := metav1.GetControllerOf(got); controller != nil {
		t.Errorf("no controller adopts or replaces it: %v", controller)
	}
}

func seedRoom(t *testing.T) {
	t.Helper()
	for _, o := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: room.Namespace}},
		&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.PlaceholderPriorityClass}, Value: -1000, PreemptionPolicy: ptr.To(corev1.PreemptNever)},
	} {
		if err := client.IgnoreAlreadyExists(cluster.Client.Create(t.Context(), o)); err != nil {
			t.Fatal(err)
		}
	}
}

func warmedFor(t *testing.T, d *Drainer) map[string]bool {
	t.Helper()
	all, err := d.Placeholders(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for _, p := range all {
		if p.Pool != "general" || p.Node != "old" || p.Ready || p.Created.IsZero() {
			t.Errorf("%+v is not what was made", p)
		}
		out[string(p.Pod)] = true
	}
	return out
}

func TestWarm(t *testing.T) {
	end := metav1.NewTime(now)
	c := faked(interceptor.Funcs{}, idleNode("old"), pod("a"), pod("b"), pod("bare", bare),
		pod("agent", ownedBy("apps/v1", "DaemonSet")), pod("done", inPhase(corev1.PodSucceeded)),
		pod("leaving", func(p *corev1.Pod) { p.DeletionTimestamp, p.Finalizers = &end, []string{"x.example/y"} }),
		pod("win", func(p *corev1.Pod) { p.Spec.OS = &corev1.PodOS{Name: corev1.Windows} }),
		pod("elsewhere", func(p *corev1.Pod) { p.Spec.NodeName = "other" }))
	counted := interceptor.NewClient(c, interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
		if created, ok := o.(*corev1.Pod); ok {
			created.CreationTimestamp = end // the fake API server sets none
		}
		return c.Create(ctx, o, opts...)
	}})
	d := New(counted, counted, clock).WithRoom(room)
	for range 2 {
		if err := d.Warm(t.Context(), "old", "general", owner); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(map[string]bool{"a-uid": true, "b-uid": true}, warmedFor(t, d)); diff != "" {
		t.Errorf("room for what castoff will evict, once, however often it is asked (-want +got)\n%s", diff)
	}
	node := new(corev1.Node)
	if err := c.Get(t.Context(), client.ObjectKey{Name: "old"}, node); err != nil || node.Annotations[v1alpha1.AnnotationWarmed] != "" {
		t.Errorf("the node is written, though its placeholders say how many they are: %v, %v", node.Annotations, err)
	}
	if all, err := d.Placeholders(t.Context()); err != nil || all[0].Batch != 2 || all[1].Batch != 2 {
		t.Errorf("the placeholders do not say how many there are to be: %v, %v", all, err)
	}
	if err := c.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace("shop")); err != nil {
		t.Fatal(err)
	}
	if err := d.Warm(t.Context(), "old", "general", owner); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), client.ObjectKey{Name: "old"}, node); err != nil || node.Annotations[v1alpha1.AnnotationWarmed] == "" {
		t.Errorf("a node whose pods need no room does not say so: %v, %v", node.Annotations, err)
	}
	if err := d.Warm(t.Context(), "gone", "general", owner); err != nil {
		t.Errorf("a node that is gone needs no room: %v", err)
	}
	if err := d.Release(t.Context(), "old"); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), client.ObjectKey{Name: "old"}, node); err != nil || node.Annotations[v1alpha1.AnnotationWarmed] != "" {
		t.Errorf("a node back in service still says that its pods have room: %v, %v", node.Annotations, err)
	}
}

// TestWarmIsNotedLast: the note on the node says that every placeholder is there, so it must not be there before them.
func TestWarmIsNotedLast(t *testing.T) {
	c := faked(interceptor.Funcs{Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
		return context.DeadlineExceeded
	}}, idleNode("old"), pod("a"))
	if err := New(c, c, clock).WithRoom(room).Warm(t.Context(), "old", "general", owner); err == nil {
		t.Error("a placeholder that could not be made is not told")
	}
	node := new(corev1.Node)
	if err := c.Get(t.Context(), client.ObjectKey{Name: "old"}, node); err != nil || node.Annotations[v1alpha1.AnnotationWarmed] != "" {
		t.Errorf("the node says that its pods have room, and they have not: %v, %v", node.Annotations, err)
	}
}

// idleNode is a node whose drain has not begun.
func idleNode(name string) *corev1.Node {
	n := begunNode(name)
	n.Annotations = nil
	return n
}

// warmAndBegin makes room for the node's pods and begins its drain.
func warmAndBegin(t *testing.T, d *Drainer) {
	t.Helper()
	if err := d.Warm(t.Context(), "old", "general", owner); err != nil {
		t.Fatal(err)
	}
	if err := d.Begin(t.Context(), "old"); err != nil {
		t.Fatal(err)
	}
}

// makeRoom makes all placeholders run.
func makeRoom(t *testing.T, c client.Client) {
	t.Helper()
	var all corev1.PodList
	if err := c.List(t.Context(), &all, client.HasLabels{v1alpha1.LabelPlaceholder}); err != nil {
		t.Fatal(err)
	}
	for i := range all.Items {
		all.Items[i].Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		if err := c.Status().Update(t.Context(), &all.Items[i]); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAPodGoesWhenItsOwnRoomIsThere: one waits for its own room, not for that of the others.
func TestAPodGoesWhenItsOwnRoomIsThere(t *testing.T) {
	var asked []policyv1.Eviction
	c := faked(evictions(&asked, func(string) error { return nil }), idleNode("old"), pod("a"), pod("b"))
	d := New(c, c, clock).WithRoom(room)
	warmAndBegin(t, d)
	if err := d.Drop(t.Context(), []string{"placeholder-b-uid"}); err != nil { // its time was over
		t.Fatal(err)
	}
	for range 2 {
		if got, err := d.Pass(t.Context(), "old", inventory.DrainAllowance{}); err != nil || got.Evictable != 2 {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	if len(asked) != 2 || asked[0].Name != "b" {
		t.Fatalf("want the pod that waits for no room, at each pass, got %v", asked)
	}
	makeRoom(t, c)
	if _, err := d.Pass(t.Context(), "old", inventory.DrainAllowance{}); err != nil || len(asked) != 4 || asked[2].Name != "a" {
		t.Errorf("want the other when its room is there, got %v, %v", asked, err)
	}
}

// sized is a node that takes so many pods.
func sized(cpu string, pods int64) *corev1.Node {
	n := idleNode("old")
	n.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourcePods: *resource.NewQuantity(pods, resource.DecimalSI)}
	return n
}

func TestSharing(t *testing.T) {
	named := func(n int, change ...func(*corev1.Pod)) (out []*corev1.Pod) {
		for i := range n {
			out = append(out, pod(string(rune('a'+i)), append([]func(*corev1.Pod){requesting("250m")}, change...)...))
		}
		return out
	}
	hard := func(p *corev1.Pod) {
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule}}
	}
	apart := func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: corev1.LabelHostname}}}}
	}
	odd := named(10)
	odd[3].Spec.NodeSelector = map[string]string{"disk": "ssd"}
	cases := map[string]struct {
		reason string
		pods   []*corev1.Pod
		want   []int
	}{
		"None":  {"nothing moves", nil, nil},
		"Few":   {"each its own while they are few", named(4), []int{1, 1, 1, 1}},
		"Five":  {"one more, and two share", named(5), []int{2, 2, 1}},
		"Ten":   {"four placeholders for ten pods", named(10), []int{3, 3, 3, 1}},
		"Many":  {"never more than four to one", named(26), []int{4, 4, 4, 4, 4, 4, 2}},
		"Odd":   {"who runs elsewhere has its own", odd, []int{3, 3, 3, 1}},
		"Hard":  {"who has to be spread keeps apart", named(6, hard), []int{1, 1, 1, 1, 1, 1}},
		"Apart": {"so does who says so", named(6, apart), []int{1, 1, 1, 1, 1, 1}},
		"Port":  {"and who has a port of the node", named(6, func(p *corev1.Pod) { p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80}} }), []int{1, 1, 1, 1, 1, 1}},
		"Disk":  {"and who has a volume of one zone", named(6, claiming("data")), []int{1, 1, 1, 1, 1, 1}},
		"Small": {"of small ones it is their number that fills a node", named(6, requesting("10m")), []int{1, 1, 1, 1, 1, 1}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got []int
			seen := 0
			for _, share := range sharing(tc.pods, sized("4", 58)) {
				got = append(got, len(share))
				seen += len(share)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || seen != len(tc.pods) {
				t.Errorf("%s: %d of %d pods (-want +got)\n%s", tc.reason, seen, len(tc.pods), diff)
			}
		})
	}
}

// TestASharedPlaceholder asks for what its pods ask for together, and is given up with the first of them.
func TestASharedPlaceholder(t *testing.T) {
	var asked []policyv1.Eviction
	refuse := map[string]error{"b": noRoomAnswer()}
	pods := []client.Object{sized("4", 58)}
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		pods = append(pods, pod(name, requesting("250m")))
	}
	c := faked(evictions(&asked, func(pod string) error { return refuse[pod] }), pods...)
	d := New(c, c, clock).WithRoom(room)
	warmAndBegin(t, d)
	first := new(corev1.Pod)
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: room.Namespace, Name: "placeholder-a-uid"}, first); err != nil {
		t.Fatal(err)
	}
	if got := first.Spec.Containers[0].Resources.Requests.Cpu().String(); got != "500m" {
		t.Errorf("room for two is %s", got)
	}
	makeRoom(t, c)
	if _, err := d.Pass(t.Context(), "old", inventory.DrainAllowance{}); err != nil {
		t.Fatal(err)
	}
	if all, err := d.Placeholders(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("the room of a pod that moves is open, for those that share it, too: %v, %v", all, err)
	}
}

// TestPlaceholdersFromACache: they come from a watch, by node, and no page of pods is asked for.
func TestPlaceholdersFromACache(t *testing.T) {
	var asked []policyv1.Eviction
	c := faked(evictions(&asked, func(string) error { return nil }), idleNode("old"), pod("a"), pod("b"))
	cache := fake.NewClientBuilder().WithIndex(&corev1.Pod{}, IndexPlaceholderNode, IndexOf).Build()
	cached := room
	cached.Cached = cache
	d := New(c, c, clock).WithRoom(cached)
	warmAndBegin(t, d)
	for _, seen := range []struct{ name, node string }{{"placeholder-a-uid", "old"}, {"placeholder-z-uid", "other"}} { // the other one is not seen yet
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: room.Namespace, Name: seen.name, Labels: map[string]string{v1alpha1.LabelPlaceholder: "general", v1alpha1.LabelPlaceholderPod: "a-uid"},
			Annotations: map[string]string{v1alpha1.AnnotationPlaceholderNode: seen.node, v1alpha1.AnnotationPlaceholderBatch: "2"},
		}}
		if err := cache.Create(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	if all, err := d.Placeholders(t.Context()); err != nil || len(all) != 2 {
		t.Errorf("of all nodes: %v, %v", all, err)
	}
	if own, err := d.roomsOf(t.Context(), "old"); err != nil || len(own) != 1 || own[0].Batch != 2 || own[0].Pods[0] != "a-uid" {
		t.Errorf("of one node: %v, %v", own, err)
	}
	if _, err := d.Pass(t.Context(), "old", inventory.DrainAllowance{}); err != nil || len(asked) != 1 || asked[0].Name != "b" {
		t.Errorf("the one whose room is seen to be missing waits for it: %v, %v", asked, err)
	}
}

// TestBeginNotesSinceWhenRoomIsMade: the placeholders are gone when it is asked for.
func TestBeginNotesSinceWhenRoomIsMade(t *testing.T) {
	first := metav1.NewTime(now.Add(-time.Minute))
	c := interceptor.NewClient(faked(interceptor.Funcs{}, idleNode("old"), pod("a")), interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
		o.SetCreationTimestamp(first) // the fake API server sets none
		return c.Create(ctx, o, opts...)
	}})
	d := New(c, c, clock).WithRoom(room)
	warmAndBegin(t, d)
	if err := d.Begin(t.Context(), "old"); err != nil {
		t.Fatal(err)
	}
	n := new(corev1.Node)
	if err := c.Get(t.Context(), client.ObjectKey{Name: "old"}, n); err != nil || n.Annotations[v1alpha1.AnnotationWarmed] != first.UTC().Format(time.RFC3339) {
		t.Errorf("%v, %v", n.Annotations, err)
	}
	before := len(mustList(t, d))
	if err := d.Warm(t.Context(), "old", "general", owner); err != nil || len(mustList(t, d)) != before {
		t.Errorf("room is made for pods that are on their way already: %v", err)
	}
}

func mustList(t *testing.T, d *Drainer) []inventory.Placeholder {
	t.Helper()
	all, err := d.Placeholders(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestSwap(t *testing.T) {
	var asked []policyv1.Eviction
	refuse := map[string]error{}
	c := faked(evictions(&asked, func(pod string) error { return refuse[pod] }), idleNode("old"), pod("a"), pod("b"), pod("c"))
	d := New(c, c, clock).WithRoom(room)
	warmAndBegin(t, d)
	makeRoom(t, c)
	refuse["b"] = noRoomAnswer()
	if err := c.Delete(t.Context(), pod("c")); err != nil { // by itself, since
		t.Fatal(err)
	}
	if _, err := d.Pass(t.Context(), "old", inventory.DrainAllowance{}); err != nil {
		t.Fatal(err)
	}
	all, err := d.Placeholders(t.Context())
	if err != nil || len(all) != 1 || all[0].Pod != "b-uid" {
		t.Errorf("the room of a pod that was evicted is its successor's, that of one that went by itself is nobody's, and that of one that stays is kept: %v, %v", all, err)
	}
	if err := d.Drop(t.Context(), []string{all[0].Name, "gone"}); err != nil {
		t.Error(err)
	}
	if all, err := d.Placeholders(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("left after all were dropped: %v, %v", all, err)
	}
}

// TestASwapWhoseAnswerWasLost: the pod was evicted and the process ended before it dropped the placeholder. The pod is terminating
// still, and its room is its successor's.
func TestASwapWhoseAnswerWasLost(t *testing.T) {
	end := metav1.NewTime(now)
	var asked []policyv1.Eviction
	c := faked(evictions(&asked, func(string) error { return nil }), idleNode("old"), pod("a", func(p *corev1.Pod) { p.Finalizers = []string{"x.example/y"} }))
	d := New(c, c, clock).WithRoom(room)
	warmAndBegin(t, d)
	if err := c.Delete(t.Context(), pod("a")); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Pass(t.Context(), "old", inventory.DrainAllowance{}); err != nil || len(asked) != 0 {
		t.Fatalf("%v, %v of %v", err, asked, end)
	}
	if all, err := d.Placeholders(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("room is kept for a pod that is on its way: %v, %v", all, err)
	}
}

// TestPlaceholdersAtARealAPIServer: admission takes them as they are, restricted as namespaces may ask for, and the priority is the
// class's.
func TestPlaceholdersAtARealAPIServer(t *testing.T) {
	seedRoom(t)
	strict := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: room.Namespace}}
	enforce := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`))
	if err := cluster.Client.Patch(t.Context(), strict, enforce); err != nil {
		t.Fatal(err)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "old", Labels: map[string]string{corev1.LabelTopologyZone: "us-east-1a"}}}
	want := room.placeholder([]*corev1.Pod{pod("real", requesting("250m"))}, node, "general", metav1.OwnerReference{APIVersion: "v1", Kind: "Namespace", Name: room.Namespace, UID: strict.UID})
	if err := cluster.Client.Create(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	d := New(cluster.Client, cluster.Client, clock).WithRoom(room)
	if want.Spec.Priority == nil || *want.Spec.Priority != -1000 || *want.Spec.PreemptionPolicy != corev1.PreemptNever {
		t.Errorf("priority %v, preemption %v", want.Spec.Priority, want.Spec.PreemptionPolicy)
	}
	all, err := d.Placeholders(t.Context())
	if err != nil || len(all) != 1 || all[0].Name != want.Name || all[0].Ready {
		t.Errorf("%v, %v", all, err)
	}
	if err := d.Drop(t.Context(), []string{want.Name}); err != nil {
		t.Error(err)
	}
	if all, err := d.Placeholders(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("it is gone at once: %v, %v", all, err)
	}
}
