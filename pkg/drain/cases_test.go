package drain

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// The cases are what people hit, against the real API server.

// calls counts what is asked of the API server to take a pod away, and passes it on.
type calls struct{ evictions, deletions int }

func (c *calls) client(t *testing.T) client.Client {
	t.Helper()
	return interceptor.NewClient(withWatch(t), interceptor.Funcs{
		SubResourceCreate: func(ctx context.Context, client client.Client, name string, o, body client.Object, opts ...client.SubResourceCreateOption) error {
			c.evictions++
			return client.SubResource(name).Create(ctx, o, body, opts...)
		},
		Delete: func(ctx context.Context, client client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			c.deletions++
			return client.Delete(ctx, o, opts...)
		},
	})
}

// passes makes passes over the shop's node.
func (s *shop) passes(c client.Client, allow inventory.DrainAllowance) inventory.DrainState {
	s.t.Helper()
	state, err := New(c, cluster.Client, clock).Pass(s.t.Context(), s.node, allow)
	if err != nil {
		s.t.Fatalf("Pass: %v", err)
	}
	return state
}

// lookAt is the node's state at a moment.
func (s *shop) lookAt(at time.Time) inventory.DrainState {
	s.t.Helper()
	state, err := New(cluster.Client, cluster.Client, func() time.Time { return at }).State(s.t.Context(), s.node)
	if err != nil {
		s.t.Fatalf("State: %v", err)
	}
	return state
}

// neverAllowing is a budget over three healthy pods, by whatever word, and its status as the disruption controller has it.
func neverAllowing(word func(*policyv1.PodDisruptionBudgetSpec)) func(*policyv1.PodDisruptionBudget) {
	return func(b *policyv1.PodDisruptionBudget) {
		b.Spec.MaxUnavailable = nil
		word(&b.Spec)
		b.Status = policyv1.PodDisruptionBudgetStatus{CurrentHealthy: 3, DesiredHealthy: 3, ExpectedPods: 3}
	}
}

func TestCase_C026_ABudgetThatAllowsNothingIsNotAskedAndNeverBypassed(t *testing.T) {
	zero := func(v intstr.IntOrString) func(*policyv1.PodDisruptionBudgetSpec) {
		return func(s *policyv1.PodDisruptionBudgetSpec) { s.MaxUnavailable = &v }
	}
	words := map[string]struct {
		reason string
		word   func(*policyv1.PodDisruptionBudgetSpec)
	}{
		"MaxUnavailable0":        {"a number", zero(intstr.FromInt32(0))},
		"MaxUnavailable0Percent": {"a percentage", zero(intstr.FromString("0%"))},
		"MinAvailable100Percent": {"the other way round", func(s *policyv1.PodDisruptionBudgetSpec) { s.MinAvailable = ptr.To(intstr.FromString("100%")) }},
	}
	for name, tc := range words {
		t.Run(name, func(t *testing.T) {
			s, asked := newShop(t), &calls{}
			for _, pod := range []string{"a", "b", "c"} {
				s.run(pod)
			}
			s.protect("web", 0, neverAllowing(tc.word))
			// The preflight's finding is accepted, and so is everything else but an override of this budget.
			allow := inventory.DrainAllowance{BarePods: inventory.Objects{"*"}, DoNotDisrupt: inventory.Objects{"*"}, Jobs: true,
				Budgets: inventory.Objects{"poddisruptionbudget/elsewhere/web"}}
			for pass := range 3 {
				got := s.passes(asked.client(t), allow)
				if got.Evictable != 3 || len(got.Blocked) != 3 || got.Blocked[0].Reason != inventory.BlockedByPDB {
					t.Fatalf("%s: pass %d: want all three held by the budget, got %+v", tc.reason, pass, got)
				}
				if says := got.Blocked[0].Message; !strings.Contains(says, "currentHealthy 3, desiredHealthy 3, disruptionsAllowed 0") || !strings.Contains(says, "raise maxUnavailable") {
					t.Errorf("%s: want the budget's own words and what to do, got %q", tc.reason, says)
				}
			}
			if asked.evictions != 0 || asked.deletions != 0 || len(s.terminating()) != 0 {
				t.Errorf("%s: want it told by the budget's status, without a question, and no deletion, got %+v; terminating %v", tc.reason, *asked, s.terminating())
			}
		})
	}
}

// TestBudgetOverride is the policy's other side: the user names the budget, and then its pods are deleted as an eviction would.
func TestBudgetOverride(t *testing.T) {
	s, asked := newShop(t), &calls{}
	s.run("a", func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](77) })
	s.run("abrupt", func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](0) })
	s.run("db", func(p *corev1.Pod) { p.Labels = map[string]string{"app": "db"} })
	s.protect("web", 0)
	s.protect("db", 0, func(b *policyv1.PodDisruptionBudget) { b.Spec.Selector.MatchLabels["app"] = "db" })
	allow := inventory.DrainAllowance{Budgets: inventory.Objects{"poddisruptionbudget/" + s.namespace + "/web"}}

	got := s.passes(asked.client(t), allow)
	web, db := []types.NamespacedName{s.name("web")}, []types.NamespacedName{s.name("db")}
	s.check("what was named goes, what was not stays", got, 3, []string{"a", "abrupt"},
		inventory.BlockedPod{Pod: s.name("a"), Reason: inventory.BlockedOverridden, PDBs: web},
		inventory.BlockedPod{Pod: s.name("abrupt"), Reason: inventory.BlockedOverridden, PDBs: web},
		inventory.BlockedPod{Pod: s.name("db"), Reason: inventory.BlockedByPDB, PDBs: db})
	if asked.deletions != 2 || asked.evictions != 2 {
		t.Errorf("want the Eviction API asked first, once a budget, and two deletions; got %+v", *asked)
	}
	for name, want := range map[string]int64{"a": 77, "abrupt": 1} {
		pod := new(corev1.Pod)
		if err := cluster.Client.Get(t.Context(), s.name(name), pod); err != nil || ptr.Deref(pod.DeletionGracePeriodSeconds, -1) != want {
			t.Errorf("pod %s: want %d s of grace, got %v, %v", name, want, pod.DeletionGracePeriodSeconds, err)
		}
	}
	if says := got.Blocked[0].Message; !strings.Contains(says, "spec.acceptedRisks") || !strings.Contains(says, s.namespace+"/web") {
		t.Errorf("want who said so and which budget it was, got %q", says)
	}
}

func TestBudgetOverrideIsOfThatVeryPod(t *testing.T) {
	s := newShop(t)
	old := s.run("db-0")
	if err := cluster.Client.Delete(t.Context(), old.DeepCopy(), client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	s.run("db-0")
	refused := &inventory.BlockedPod{Pod: s.name("db-0"), Reason: inventory.BlockedByPDB, PDBs: []types.NamespacedName{s.name("web")}}
	p := New(cluster.Client, cluster.Client, clock).newPass(getNode(t, s.node), inventory.DrainAllowance{Budgets: inventory.Objects{"*"}})
	gone, reason, err := p.override(t.Context(), old, refused)
	if gone || reason != nil || err != nil || len(s.terminating()) != 0 {
		t.Errorf("the new pod is another one: got %t, %+v, %v; terminating %v", gone, reason, err, s.terminating())
	}
	missing := old.DeepCopy()
	missing.Name = "db-1"
	if gone, _, err := p.override(t.Context(), missing, refused); !gone || err != nil {
		t.Errorf("want a pod that is gone, got %t, %v", gone, err)
	}
}

func TestBudgetOverrideNeedsTheRight(t *testing.T) {
	denied := interceptor.Funcs{Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
		return forbidden("pods")
	}}
	denied.SubResourceCreate = evictions(new([]policyv1.Eviction), func(string) error { return noRoomAnswer() }).SubResourceCreate
	c := faked(denied, begunNode("old"), budget("web", 0), pod("a"))
	got, err := New(c, c, clock).Pass(t.Context(), "old", inventory.DrainAllowance{Budgets: inventory.Objects{"*"}})
	if inventory.ClassOf(err) != inventory.ClassTerminal || !strings.Contains(err.Error(), "chart value drain.overrideBudgets") {
		t.Errorf("want the right and the chart's value named, got %v", err)
	}
	if got.Evictable != 1 || len(got.Blocked) != 1 || got.Blocked[0].Reason != inventory.BlockedByPDB {
		t.Errorf("the pod is held as before, got %+v", got)
	}
}

func TestCase_C028_TwoBudgetsOnOnePodNeedAHuman(t *testing.T) {
	selecting := func(selector *metav1.LabelSelector) func(*policyv1.PodDisruptionBudget) {
		return func(b *policyv1.PodDisruptionBudget) { b.Spec.Selector = selector }
	}
	second := map[string]struct {
		reason   string
		selector *metav1.LabelSelector
	}{
		"MatchLabels":      {"another label of the same pod", &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "fe"}}},
		"MatchExpressions": {"whatever selects it counts", &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "tier", Operator: "Exists"}}}},
		"Empty":            {"in policy/v1 that is every pod of the namespace", &metav1.LabelSelector{}},
	}
	for name, tc := range second {
		t.Run(name, func(t *testing.T) {
			s, asked := newShop(t), &calls{}
			s.run("web-0", func(p *corev1.Pod) { p.Labels["tier"] = "fe" })
			s.protect("pdb-a", 1)
			s.protect("pdb-b", 1, selecting(tc.selector))
			for range 2 {
				got := s.passes(asked.client(t), inventory.DrainAllowance{})
				s.check(tc.reason, got, 1, []string{}, inventory.BlockedPod{Pod: s.name("web-0"), Reason: inventory.BlockedByTwoPDBs,
					PDBs: []types.NamespacedName{s.name("pdb-a"), s.name("pdb-b")}})
				for _, want := range []string{s.namespace + "/pdb-a", s.namespace + "/pdb-b", "change one selector"} {
					if !strings.Contains(got.Blocked[0].Message, want) {
						t.Errorf("%s: want %q to be said, got %q", tc.reason, want, got.Blocked[0].Message)
					}
				}
			}
			if asked.deletions != 0 {
				t.Errorf("%s: %d deletions", tc.reason, asked.deletions)
			}
		})
	}
	for name, answer := range map[string]error{"500": twoBudgetsAnswer(), "503": apierrors.NewServiceUnavailable("busy"), "504": apierrors.NewTimeoutError("late", 1)} {
		c := faked(evictions(new([]policyv1.Eviction), func(string) error { return answer }), begunNode("old"), budget("web", 1), pod("a"))
		got, err := New(c, c, clock).Pass(t.Context(), "old", inventory.DrainAllowance{})
		if err != nil || len(got.Blocked) != 1 || got.Blocked[0].Reason != inventory.BlockedError {
			t.Errorf("%s of a pod with one budget is something else, and tried again: got %+v, %v", name, got, err)
		}
	}
}

func TestCase_C030_AFinalizerIsNamedAndLeft(t *testing.T) {
	const finalizer = "prow.x-k8s.io/gcsk8sreporter"
	s := newShop(t)
	p := s.run("job-1", func(p *corev1.Pod) { p.Finalizers = []string{finalizer} })
	if err := cluster.Client.Delete(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Client.Patch(context.WithoutCancel(t.Context()), p, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))); err != nil {
			t.Errorf("letting the pod go: %v", err)
		}
	})
	until := getPod(t, s.name("job-1")).DeletionTimestamp.Time
	moments := map[string]struct {
		reason string
		at     time.Time
		want   inventory.BlockReason
		says   string
	}{
		"InGrace":     {"it has its time", until.Add(-time.Second), inventory.BlockedTerminating, "has until"},
		"JustLate":    {"what keeps it is named at once", until.Add(time.Second), inventory.BlockedTerminating, finalizer},
		"HalfAnHour":  {"and then it is somebody's to mend", until.Add(30 * time.Minute), inventory.BlockedStuck, finalizer},
		"NeverForced": {"however long it takes", until.Add(24 * time.Hour), inventory.BlockedStuck, "see to whoever set them"},
	}
	for name, tc := range moments {
		got := s.lookAt(tc.at)
		if got.Evictable != 1 || len(got.Blocked) != 1 || got.Blocked[0].Reason != tc.want || !strings.Contains(got.Blocked[0].Message, tc.says) {
			t.Errorf("%s: %s: want one pod left, %s, saying %q; got %+v", name, tc.reason, tc.want, tc.says, got)
		}
	}
	everything := inventory.DrainAllowance{BarePods: inventory.Objects{"*"}, DoNotDisrupt: inventory.Objects{"*"}, Budgets: inventory.Objects{"*"}, LocalVolumes: inventory.Objects{"*"}, Jobs: true}
	asked := &calls{}
	s.passes(asked.client(t), everything)
	after := getPod(t, s.name("job-1"))
	if asked.deletions+asked.evictions != 0 || !slices.Equal(after.Finalizers, []string{finalizer}) || ptr.Deref(after.DeletionGracePeriodSeconds, 0) != 30 {
		t.Errorf("nothing may be forced: %+v, finalizers %v, grace %v", *asked, after.Finalizers, after.DeletionGracePeriodSeconds)
	}
}

func getPod(t *testing.T, name types.NamespacedName) *corev1.Pod {
	t.Helper()
	p := new(corev1.Pod)
	if err := cluster.Client.Get(t.Context(), name, p); err != nil {
		t.Fatalf("reading pod %s: %v", name, err)
	}
	return p
}

// TestStuckOnASilentNode: nobody ends a pod on a node whose kubelet is gone, and castoff does not pretend that it ended.
func TestStuckOnASilentNode(t *testing.T) {
	silent := begunNode("old")
	silent.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, LastTransitionTime: metav1.NewTime(now.Add(-time.Hour))}}
	late := func(p *corev1.Pod) { terminatingPod(now.Add(-2 * time.Minute))(p) }
	c := faked(interceptor.Funcs{}, silent, pod("lost", late))
	got, err := New(c, c, clock).State(t.Context(), "old")
	if err != nil || got.Evictable != 1 || len(got.Blocked) != 1 || got.Blocked[0].Reason != inventory.BlockedStuck {
		t.Fatalf("want one stuck pod, got %+v, %v", got, err)
	}
	v := view{now: now, silent: silentSince(silent)}
	lost := pod("lost", late)
	lost.Finalizers = nil
	if says := v.terminating(lost).Message; !strings.Contains(says, "not been Ready since 2026-05-04T02:02:01Z") || !strings.Contains(says, "end its instance in EC2") {
		t.Errorf("want since when, and what to do, got %q", says)
	}
	silent.Status.Conditions[0].Status = corev1.ConditionTrue
	if !silentSince(silent).IsZero() || !silentSince(begunNode("new")).IsZero() {
		t.Error("a node that is Ready, or has said nothing yet, is not silent")
	}
}

func TestCase_C032_APodThatNothingReplacesGoesOnlyByTheUsersWord(t *testing.T) {
	custom := func(controller *bool) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "datadoghq.com/v1alpha1", Kind: "DatadogAgent", Name: "agent", UID: "agent", Controller: controller}}
		}
	}
	variants := map[string]struct {
		reason  string
		change  func(*corev1.Pod)
		allow   inventory.Objects
		evicted bool
		want    inventory.BlockReason
	}{
		"Bare":              {"nothing would make it again", bare, nil, false, inventory.BlockedBare},
		"NotControlled":     {"an owner that is no controller replaces nothing", custom(ptr.To(false)), nil, false, inventory.BlockedBare},
		"ControllerUnsaid":  {"nor does one that does not say so", custom(nil), nil, false, inventory.BlockedBare},
		"CustomController":  {"whatever kind controls it makes it again", custom(ptr.To(true)), nil, true, ""},
		"BareAccepted":      {"the user knows it", bare, inventory.Objects{"pod/NAMESPACE/a"}, true, ""},
		"AllAccepted":       {"or knows all of them", custom(nil), inventory.Objects{"*"}, true, ""},
		"AnotherIsAccepted": {"a word about one pod is about that pod", bare, inventory.Objects{"pod/NAMESPACE/b", "pod/other/a"}, false, inventory.BlockedBare},
	}
	for name, tc := range variants {
		t.Run(name, func(t *testing.T) {
			s := newShop(t)
			s.run("a", tc.change)
			allow := inventory.DrainAllowance{}
			for _, object := range tc.allow {
				allow.BarePods = append(allow.BarePods, strings.ReplaceAll(object, "NAMESPACE", s.namespace))
			}
			evicted, blocked := []string{}, []inventory.BlockedPod{{Pod: s.name("a"), Reason: tc.want}}
			if tc.evicted {
				evicted, blocked = []string{"a"}, nil
			}
			s.check(tc.reason, s.passes(cluster.Client, allow), 1, evicted, blocked...)
		})
	}
	t.Run("Mirror", func(t *testing.T) {
		s := newShop(t)
		s.run("static", bare, annotated(corev1.MirrorPodAnnotationKey, "x"), func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: s.node, UID: getNode(t, s.node).UID, Controller: ptr.To(true)}}
		})
		s.check("no API can evict it, so it is none of the drain's", s.pass(), 0, []string{})
	})
	t.Run("AnotherHold", func(t *testing.T) {
		s := newShop(t)
		s.run("a", bare, annotated("karpenter.sh/do-not-disrupt", "true"))
		got := s.passes(cluster.Client, inventory.DrainAllowance{BarePods: inventory.Objects{"*"}})
		s.check("what else holds it still does", got, 1, []string{}, inventory.BlockedPod{Pod: s.name("a"), Reason: inventory.BlockedDoNotDisrupt})
	})
}

// TestHoldsUntilTheTimeIsOver: a Job's pod and one that asks to be left alone, without the allowance that comes with the time, and with it.
func TestHoldsUntilTheTimeIsOver(t *testing.T) {
	s := newShop(t)
	s.run("annotated", annotated("cluster-autoscaler.kubernetes.io/safe-to-evict", "false"))
	s.run("other-jobs", ownedBy("example.com/v1", "Job"))
	s.run("working", ownedBy("batch/v1", "Job"))
	s.run("waiting", ownedBy("batch/v1", "Job"), inPhase(corev1.PodPending))
	held := []inventory.BlockedPod{{Pod: s.name("annotated"), Reason: inventory.BlockedDoNotDisrupt}, {Pod: s.name("working"), Reason: inventory.BlockedJob}}
	got := s.passes(cluster.Client, inventory.DrainAllowance{})
	s.check("a Job's pod that does not run yet loses nothing", got, 4, []string{"other-jobs", "waiting"}, held...)
	going := func(names ...string) (out []inventory.BlockedPod) {
		for _, n := range names {
			out = append(out, inventory.BlockedPod{Pod: s.name(n), Reason: inventory.BlockedTerminating})
		}
		return out
	}
	got = s.passes(cluster.Client, inventory.DrainAllowance{Jobs: true})
	s.check("the time is over, and nothing is said of the annotation", got, 4, []string{"other-jobs", "waiting", "working"}, append(held[:1:1], going("other-jobs", "waiting")...)...)
	got = s.passes(cluster.Client, inventory.DrainAllowance{Jobs: true, DoNotDisrupt: inventory.Objects{"pod/" + s.namespace + "/annotated"}})
	s.check("the user said so", got, 4, []string{"annotated", "other-jobs", "waiting", "working"}, going("other-jobs", "waiting", "working")...)
}

func TestWorkload(t *testing.T) {
	cases := map[string]struct {
		reason string
		change func(*corev1.Pod)
		want   string
	}{
		"Deployment":  {"through its ReplicaSet", func(p *corev1.Pod) { p.Labels["pod-template-hash"] = "1" }, "deployment/shop/web"},
		"ReplicaSet":  {"one that nobody owns has no hash", func(*corev1.Pod) {}, "replicaset/shop/web-1"},
		"OtherHash":   {"a label that somebody copied", func(p *corev1.Pod) { p.Labels["pod-template-hash"] = "2" }, "replicaset/shop/web-1"},
		"StatefulSet": {"directly", ownedBy("apps/v1", "StatefulSet"), "statefulset/shop/web-1"},
		"Bare":        {"nobody", bare, ""},
	}
	for name, tc := range cases {
		if got := workload(pod("a", tc.change)); got != tc.want {
			t.Errorf("%s: %s: got %q, want %q", name, tc.reason, got, tc.want)
		}
	}
	annotated := view{now: now}.waits(pod("a", annotated(safeToEvict, "false"), cases["Deployment"].change), inventory.DrainAllowance{})
	if annotated == nil || !(inventory.DrainAllowance{DoNotDisrupt: inventory.Objects{"deployment/shop/web"}}).Allows(*annotated) {
		t.Errorf("who accepts the finding about the workload means its pods: %+v", annotated)
	}
}

// TestCase_C098_ADrainAsksLittle: what a look and a pass cost does not grow with the pods, and a throttled API server is left alone.
func TestCase_C098_ADrainAsksLittle(t *testing.T) {
	objects := []client.Object{begunNode("old"), budget("web", 2)}
	for i := range 60 {
		objects = append(objects, pod(fmt.Sprintf("web-%02d", i)))
	}
	asked := map[string]int{}
	answer := noRoomAnswer()
	funcs := evictions(new([]policyv1.Eviction), func(string) error { asked["evict"]++; return answer })
	funcs.Get = func(ctx context.Context, c client.WithWatch, k client.ObjectKey, o client.Object, opts ...client.GetOption) error {
		asked[fmt.Sprintf("get %T", o)]++
		return c.Get(ctx, k, o, opts...)
	}
	funcs.List = func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
		asked[fmt.Sprintf("list %T", l)]++
		return c.List(ctx, l, opts...)
	}
	at := now
	c := faked(funcs, objects...)
	d := New(c, c, func() time.Time { return at })
	steps := []struct {
		reason string
		act    func() error
		want   map[string]int
	}{
		{"a look lists the node's pods once", func() error { _, err := d.State(t.Context(), "old"); return err },
			map[string]int{"get *v1.Node": 1, "list *v1.PodList": 1, "list *v1.PodDisruptionBudgetList": 1}},
		{"a budget that refuses is asked no more in its state", func() error { _, err := d.Pass(t.Context(), "old", inventory.DrainAllowance{}); return err },
			map[string]int{"get *v1.Node": 1, "list *v1.PodList": 1, "list *v1.PodDisruptionBudgetList": 1, "evict": 1}},
		{"nor by another pass", func() error { _, err := d.Pass(t.Context(), "old", inventory.DrainAllowance{}); return err },
			map[string]int{"get *v1.Node": 1, "list *v1.PodList": 1, "list *v1.PodDisruptionBudgetList": 1}},
		{"throttling is no failure, and ends the pass", func() error {
			change(t, c)
			clear(asked)
			answer = apierrors.NewTooManyRequests("busy", 30)
			_, err := d.Pass(t.Context(), "old", inventory.DrainAllowance{})
			return err
		}, map[string]int{"get *v1.Node": 1, "list *v1.PodList": 1, "list *v1.PodDisruptionBudgetList": 1, "evict": 1}},
		{"until it is over nothing is asked", func() error {
			at = at.Add(29 * time.Second)
			_, err := d.Pass(t.Context(), "old", inventory.DrainAllowance{})
			return err
		}, map[string]int{"get *v1.Node": 1, "list *v1.PodList": 1}},
	}
	for _, step := range steps {
		clear(asked)
		if err := step.act(); err != nil {
			t.Fatalf("%s: %v", step.reason, err)
		}
		if diff := cmp.Diff(step.want, asked); diff != "" {
			t.Errorf("%s: -want +got:\n%s", step.reason, diff)
		}
	}
}

func TestTiers(t *testing.T) {
	critical := func(class string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.PriorityClassName = class } }
	ordinary, dns, driver := *pod("web"), *pod("dns", critical("system-cluster-critical")), *pod("driver", critical("system-node-critical"))
	high := *pod("high", critical("business-critical"))
	cases := map[string]struct {
		reason string
		pods   []corev1.Pod
		want   []string
	}{
		"Ordinary":      {"names of the user's own are ordinary", []corev1.Pod{driver, dns, high, ordinary}, []string{"high", "web"}},
		"Cluster":       {"the cluster's own when no other is left", []corev1.Pod{driver, dns}, []string{"dns"}},
		"Node":          {"the node's own at last", []corev1.Pod{driver}, []string{"driver"}},
		"None":          {"nothing is left", nil, nil},
		"OneIsGoing":    {"a pod that is terminating is still there", []corev1.Pod{dns, *pod("going", terminatingPod(now))}, []string{"going"}},
		"OrderIsSteady": {"the order of the list", []corev1.Pod{ordinary, high}, []string{"web", "high"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, p := range first(tc.pods) {
				got = append(got, p.Name)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestWhatTheClusterNeedsGoesLast(t *testing.T) {
	s := newShop(t)
	for name, class := range map[string]string{"dns": "system-cluster-critical", "driver": "system-node-critical", "web": ""} {
		s.run(name, func(p *corev1.Pod) { p.Spec.PriorityClassName = class })
	}
	end := func(name string) {
		t.Helper()
		if err := cluster.Client.Delete(t.Context(), getPod(t, s.name(name)), client.GracePeriodSeconds(0)); err != nil {
			t.Fatal(err)
		}
	}
	s.check("the ordinary one", s.pass(), 3, []string{"web"})
	s.check("the others wait until it is gone", s.pass(), 3, []string{"web"}, inventory.BlockedPod{Pod: s.name("web"), Reason: inventory.BlockedTerminating})
	end("web")
	s.check("then what the cluster needs", s.pass(), 2, []string{"dns"})
	end("dns")
	s.check("and what the node needs", s.pass(), 1, []string{"driver"})
}

func TestCase_C036_LoadBalancersLetGoBeforeTheFirstEviction(t *testing.T) {
	s := newShop(t)
	s.run("web-0")
	d := New(cluster.Client, cluster.Client, clock)
	node, other := createNode(t, fenced), createNode(t, fenced)
	if _, err := d.Pass(t.Context(), node, inventory.DrainAllowance{}); err == nil {
		t.Error("an eviction before the label: want a refusal")
	}
	if err := d.Begin(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	excluded := func(name string) bool {
		_, is := getNode(t, name).Labels[corev1.LabelNodeExcludeBalancers]
		return is
	}
	if !excluded(node) || excluded(other) {
		t.Errorf("only the node that is drained is out of load balancers: got %t, and the other %t", excluded(node), excluded(other))
	}
	if _, err := time.Parse(time.RFC3339, getNode(t, node).Annotations[v1alpha1.AnnotationDraining]); err != nil {
		t.Errorf("the end of the instance counts from the label: %v", err)
	}
	if err := d.Release(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	if excluded(node) {
		t.Error("the way back puts the node into load balancers again")
	}
	theirs := createNode(t, shape{Labels: map[string]string{corev1.LabelNodeExcludeBalancers: ""}})
	for _, act := range []func(context.Context, string) error{d.Begin, d.Release} {
		if err := act(t.Context(), theirs); err != nil {
			t.Fatal(err)
		}
	}
	if !excluded(theirs) {
		t.Error("what the user set stays")
	}
}

func TestCase_C038_WhatHasEndedHoldsNoNode(t *testing.T) {
	s := newShop(t)
	s.run("done", bare, inPhase(corev1.PodSucceeded))
	s.run("failed", bare, inPhase(corev1.PodFailed))
	s.run("job-done", ownedBy("batch/v1", "Job"), inPhase(corev1.PodSucceeded))
	s.run("daemon", ownedBy("apps/v1", "DaemonSet"))
	s.run("daemon-starting", ownedBy("apps/v1", "DaemonSet"), inPhase(corev1.PodPending))
	asked := &calls{}
	s.check("the node is drained, and its DaemonSets run", s.passes(asked.client(t), inventory.DrainAllowance{}), 0, []string{})
	if asked.evictions+asked.deletions != 0 {
		t.Errorf("nobody is taken away: %+v", *asked)
	}
}

// claimed binds a claim of the shop to a volume, and gives what mounts it.
func (s *shop) claimed(name string, change ...func(*corev1.PersistentVolume)) func(*corev1.Pod) {
	s.t.Helper()
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	volume := s.namespace + "-" + name
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: volume},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: size, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			ClaimRef:               &corev1.ObjectReference{Namespace: s.namespace, Name: name},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "ebs.csi.aws.com", VolumeHandle: "vol-" + name}},
		},
	}
	for _, c := range change {
		c(pv)
	}
	pvc := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
		Spec:       corev1.PersistentVolumeClaimSpec{AccessModes: pv.Spec.AccessModes, Resources: corev1.VolumeResourceRequirements{Requests: size}, VolumeName: volume},
	}
	for _, o := range []client.Object{pv, pvc} {
		if err := cluster.Client.Create(s.t.Context(), o); err != nil {
			s.t.Fatalf("creating volume %s: %v", name, err)
		}
	}
	return func(p *corev1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}})
	}
}

// onNode ties a volume to nodes by a key.
func onNode(key string, nodes ...string) func(*corev1.PersistentVolume) {
	return func(pv *corev1.PersistentVolume) {
		pv.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
			{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpIn, Values: nodes}}}}}}
	}
}

func TestCase_C040_APodWhoseDiskIsTheNodesOwnIsNotEvictedAndAPendingNamesakeNotWaitedFor(t *testing.T) {
	variants := map[string]struct {
		reason string
		volume func(node string) func(*corev1.PersistentVolume)
		stays  bool
	}{
		"HostName":  {"the provisioners of local disks name it so", func(n string) func(*corev1.PersistentVolume) { return onNode(corev1.LabelHostname, n) }, true},
		"OwnKey":    {"others have a key of their own", func(n string) func(*corev1.PersistentVolume) { return onNode("topology.topolvm.io/node", n) }, true},
		"Zone":      {"a zone has other nodes", func(string) func(*corev1.PersistentVolume) { return onNode(corev1.LabelTopologyZone, "us-east-1a") }, false},
		"TwoNodes":  {"so has a list", func(n string) func(*corev1.PersistentVolume) { return onNode(corev1.LabelHostname, n, "another") }, false},
		"NotBound":  {"nothing is said", func(string) func(*corev1.PersistentVolume) { return func(*corev1.PersistentVolume) {} }, false},
		"HostPath":  {"the node's disk without a word on it", func(string) func(*corev1.PersistentVolume) { return hostPath }, true},
		"LocalDisk": {"the kind says it", func(n string) func(*corev1.PersistentVolume) { return local(n) }, true},
	}
	for name, tc := range variants {
		t.Run(name, func(t *testing.T) {
			s := newShop(t)
			s.run("data-0", ownedBy("apps/v1", "StatefulSet"), s.claimed("disk", tc.volume(s.node)))
			got := s.pass()
			if !tc.stays {
				s.check(tc.reason, got, 1, []string{"data-0"})
				return
			}
			s.check(tc.reason, got, 1, []string{}, inventory.BlockedPod{Pod: s.name("data-0"), Reason: inventory.BlockedLocalVolume, Volume: s.namespace + "-disk"})
			if says := got.Blocked[0].Message; !strings.Contains(says, "claim "+s.namespace+"/disk") || !strings.Contains(says, "accept the risk LocalVolume for persistentvolume/"+s.namespace+"-disk") {
				t.Errorf("%s: want claim and what to do, got %q", tc.reason, says)
			}
			allowed := s.passes(cluster.Client, inventory.DrainAllowance{LocalVolumes: inventory.Objects{"persistentvolume/" + s.namespace + "-disk"}})
			s.check("the user lets the data go", allowed, 1, []string{"data-0"})
		})
	}
	t.Run("Namesake", func(t *testing.T) {
		s := newShop(t)
		pending := pod("data-0", ownedBy("apps/v1", "StatefulSet"), s.claimed("disk", onNode(corev1.LabelHostname, s.node)))
		pending.Namespace, pending.UID, pending.Spec.NodeName = s.namespace, "", ""
		if err := cluster.Client.Create(t.Context(), pending); err != nil {
			t.Fatal(err)
		}
		look := s.lookAt(now)
		look.Begun = false
		s.check("it waits for the node and is not on it", look, 0, []string{})
	})
}

func hostPath(pv *corev1.PersistentVolume) {
	pv.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data"}}
}

func local(node string) func(*corev1.PersistentVolume) {
	return func(pv *corev1.PersistentVolume) {
		pv.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/data"}}
		onNode(corev1.LabelHostname, node)(pv)
	}
}

func TestPinned(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "ip-1.ec2.internal", Labels: map[string]string{corev1.LabelHostname: "ip-1"}}}
	in := func(values ...string) corev1.NodeSelectorRequirement {
		return corev1.NodeSelectorRequirement{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: values}
	}
	cases := map[string]struct {
		reason string
		terms  []corev1.NodeSelectorTerm
		want   bool
	}{
		"HostName":   {"the label's value is not always the node's name", []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{in("ip-1")}}}, true},
		"Field":      {"a field names it, too", []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{in("ip-1.ec2.internal")}}}, true},
		"OneOfTerms": {"terms are alternatives", []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{in("ip-1")}}, {MatchExpressions: []corev1.NodeSelectorRequirement{in("ip-2")}}}, false},
		"Elsewhere":  {"another node's disk does not hold this one", []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{in("ip-2")}}}, false},
		"NotIn":      {"anywhere else is not here", []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpNotIn, Values: []string{"ip-1"}}}}}, false},
		"NoTerms":    {"no term, no say", nil, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pv := &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: tc.terms}}}}
			if got := pinned(pv, node); got != tc.want {
				t.Errorf("%s: got %t", tc.reason, got)
			}
		})
	}
	if pinned(&corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{NodeAffinity: &corev1.VolumeNodeAffinity{}}}, node) {
		t.Error("an affinity that requires nothing pins nothing")
	}
}

// attach says that a volume is attached to a node.
func (s *shop) attach(volume, node string) {
	s.t.Helper()
	a := &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: "csi-" + volume + "-" + node},
		Spec:       storagev1.VolumeAttachmentSpec{Attacher: "ebs.csi.aws.com", NodeName: node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: ptr.To(volume)}},
	}
	if err := cluster.Client.Create(s.t.Context(), a); err != nil {
		s.t.Fatalf("attaching %s: %v", volume, err)
	}
	s.t.Cleanup(func() {
		if err := client.IgnoreNotFound(cluster.Client.Delete(context.WithoutCancel(s.t.Context()), a)); err != nil {
			s.t.Errorf("detaching %s: %v", volume, err)
		}
	})
}

func TestCase_C042_AnInstanceEndsWhenItsPodsVolumesAreDetached(t *testing.T) {
	s := newShop(t)
	volume := func(name string) string { return s.namespace + "-" + name }
	many := func(pv *corev1.PersistentVolume) {
		pv.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
	}
	s.claimed("evicted") // its pod has left already
	s.claimed("shared", many)
	s.run("ebs-csi-node", ownedBy("apps/v1", "DaemonSet"), s.claimed("daemons"))
	s.run("finished", ownedBy("batch/v1", "Job"), inPhase(corev1.PodSucceeded), s.claimed("finished"))
	for _, name := range []string{"evicted", "shared", "daemons", "finished"} {
		s.attach(volume(name), s.node)
	}
	s.attach(volume("gone"), s.node) // a volume that was deleted before it was detached
	s.claimed("elsewhere")
	s.attach(volume("elsewhere"), "another-node")

	got := s.lookAt(now)
	want := inventory.DrainState{Node: s.node, Begun: true, Volumes: []string{
		volume("evicted") + " (claim " + s.namespace + "/evicted)", volume("finished") + " (claim " + s.namespace + "/finished)", volume("gone")}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what stays keeps its volumes, many nodes may have one, another node has its own: -want +got:\n%s", diff)
	}

	s.run("web-0")
	if got := s.lookAt(now); got.Evictable != 1 || got.Volumes != nil {
		t.Errorf("while pods are left nobody asks for volumes: got %+v", got)
	}
	if got := s.terminating(); len(got) != 0 {
		t.Errorf("a look evicts nothing, least of all the volumes' driver: %v", got)
	}
}

func TestClaimsOfAPod(t *testing.T) {
	p := pod("db-0", func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{
			{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}},
			{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-db-0"}}},
			{Name: "scratch", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}},
		}
	})
	if diff := cmp.Diff([]types.NamespacedName{named("data-db-0"), named("db-0-scratch")}, claims(p)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestVolumesThatCannotBeRead: an instance does not end on what was not seen.
func TestVolumesThatCannotBeRead(t *testing.T) {
	attached := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "csi-1"}, Spec: storagev1.VolumeAttachmentSpec{NodeName: "old", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: ptr.To("pv")}}}
	fails := map[string]interceptor.Funcs{
		"list volumeattachments": {List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, o ...client.ListOption) error {
			if _, is := l.(*storagev1.VolumeAttachmentList); is {
				return apierrors.NewInternalError(context.Canceled)
			}
			return c.List(ctx, l, o...)
		}},
		"get persistentvolumes": {Get: func(ctx context.Context, c client.WithWatch, k client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if _, is := o.(*corev1.PersistentVolume); is {
				return apierrors.NewInternalError(context.Canceled)
			}
			return c.Get(ctx, k, o, opts...)
		}},
	}
	for call, funcs := range fails {
		c := faked(funcs, begunNode("old"), attached.DeepCopy())
		if _, err := New(c, c, clock).State(t.Context(), "old"); err == nil || !strings.Contains(err.Error(), call) {
			t.Errorf("want an error naming %q, got %v", call, err)
		}
	}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "pv"}}
	using := pod("db-0", func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
	})
	var asked []policyv1.Eviction
	funcs := evictions(&asked, func(string) error { return nil })
	funcs.Get = fails["get persistentvolumes"].Get
	c := faked(funcs, begunNode("old"), claim, using)
	if _, err := New(c, c, clock).Pass(t.Context(), "old", inventory.DrainAllowance{}); err == nil || len(asked) != 0 {
		t.Errorf("a pod whose volume was not seen is not evicted: %v, %v", err, asked)
	}
	c = faked(evictions(&asked, func(string) error { return nil }), begunNode("old"), using)
	if _, err := New(c, c, clock).Pass(t.Context(), "old", inventory.DrainAllowance{}); err != nil || len(asked) != 1 {
		t.Errorf("a claim that is gone holds nobody: %v, %v", err, asked)
	}
}

// change makes the budget another one than before, with as much room.
func change(t *testing.T, c client.Client) {
	t.Helper()
	b := new(policyv1.PodDisruptionBudget)
	if err := c.Get(t.Context(), types.NamespacedName{Namespace: "shop", Name: "web"}, b); err != nil {
		t.Fatal(err)
	}
	b.Status.CurrentHealthy++
	if err := c.Update(t.Context(), b); err != nil {
		t.Fatal(err)
	}
}
