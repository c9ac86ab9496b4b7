package drain

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

var ignoreMessages = cmpopts.IgnoreFields(inventory.BlockedPod{}, "Message", "Workload")

func named(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "shop", Name: name}
}

// terminatingPod cannot be stored by the fake without a finalizer.
func terminatingPod(until time.Time) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.DeletionTimestamp, p.Finalizers = ptr.To(metav1.NewTime(until)), []string{"example.com/backup"}
	}
}

func TestState(t *testing.T) {
	tests := map[string]struct {
		reason string
		pods   []client.Object
		want   inventory.DrainState
		says   string
	}{
		"Empty": {reason: "nothing is left", want: inventory.DrainState{Node: "old"}},
		"StaysToTheEnd": {
			reason: "DaemonSets run until the instance ends, static pods are no API's to evict, finished pods are no more",
			pods: []client.Object{
				pod("daemon", ownedBy("apps/v1", "DaemonSet")), pod("static", annotated(corev1.MirrorPodAnnotationKey, "x"), bare),
				pod("done", inPhase(corev1.PodSucceeded)), pod("failed", inPhase(corev1.PodFailed)),
			},
			want: inventory.DrainState{Node: "old"},
		},
		"AnotherDaemonSet": {
			reason: "a kind of that name in another group is a controller like any other",
			pods:   []client.Object{pod("agent", ownedBy("example.com/v1", "DaemonSet"))},
			want:   inventory.DrainState{Node: "old", Evictable: 1},
		},
		"ElsewhereAndHere": {
			reason: "only the node's own pods count",
			pods:   []client.Object{pod("here"), pod("there", func(p *corev1.Pod) { p.Spec.NodeName = "new" })},
			want:   inventory.DrainState{Node: "old", Evictable: 1},
		},
		"Unknown": {
			reason: "a pod whose node does not report may still run",
			pods:   []client.Object{pod("lost", inPhase(corev1.PodUnknown))},
			want:   inventory.DrainState{Node: "old", Evictable: 1},
		},
		"Terminating": {
			reason: "an instance may not end before the pod has",
			pods:   []client.Object{pod("going", terminatingPod(now.Add(time.Minute)))},
			want: inventory.DrainState{Node: "old", Evictable: 1, Blocked: []inventory.BlockedPod{
				{Pod: named("going"), Reason: inventory.BlockedTerminating}}},
			says: "until 2026-05-04T03:03:01Z",
		},
		"TerminatingTooLong": {
			reason: "whoever is on call wants to know what keeps it",
			pods:   []client.Object{pod("stuck", terminatingPod(now.Add(-time.Minute)))},
			want: inventory.DrainState{Node: "old", Evictable: 1, Blocked: []inventory.BlockedPod{
				{Pod: named("stuck"), Reason: inventory.BlockedTerminating}}},
			says: "example.com/backup",
		},
		"Bare": {
			reason: "nothing would bring it back",
			pods:   []client.Object{pod("debug", bare)},
			want: inventory.DrainState{Node: "old", Evictable: 1, Blocked: []inventory.BlockedPod{
				{Pod: named("debug"), Reason: inventory.BlockedBare}}},
			says: "delete it",
		},
		"OwnedButNotControlled": {
			reason: "an owner that is no controller replaces nothing",
			pods:   []client.Object{pod("kept", func(p *corev1.Pod) { p.OwnerReferences[0].Controller = nil })},
			want: inventory.DrainState{Node: "old", Evictable: 1, Blocked: []inventory.BlockedPod{
				{Pod: named("kept"), Reason: inventory.BlockedBare}}},
		},
		"DoNotDisrupt": {
			reason: "both scalers' words for it are honoured",
			pods: []client.Object{
				pod("a", annotated("karpenter.sh/do-not-disrupt", "true")),
				pod("b", annotated("cluster-autoscaler.kubernetes.io/safe-to-evict", "false")),
			},
			want: inventory.DrainState{Node: "old", Evictable: 2, Blocked: []inventory.BlockedPod{
				{Pod: named("a"), Reason: inventory.BlockedDoNotDisrupt}, {Pod: named("b"), Reason: inventory.BlockedDoNotDisrupt}}},
			says: "karpenter.sh/do-not-disrupt=true",
		},
		"MayBeDisrupted": {
			reason: "other values mean nothing, and a pod that does not run yet loses nothing",
			pods: []client.Object{
				pod("a", annotated("karpenter.sh/do-not-disrupt", "false")),
				pod("b", annotated("cluster-autoscaler.kubernetes.io/safe-to-evict", "true")),
				pod("c", annotated("karpenter.sh/do-not-disrupt", "true"), inPhase(corev1.PodPending)),
			},
			want: inventory.DrainState{Node: "old", Evictable: 3},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := faked(interceptor.Funcs{}, append(tc.pods, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "old"}})...)
			got, err := New(c, c, clock).State(t.Context(), "old")
			if err != nil {
				t.Fatalf("%s: %v", tc.reason, err)
			}
			if diff := cmp.Diff(tc.want, got, ignoreMessages); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
			if len(got.Blocked) > 0 && !strings.Contains(got.Blocked[0].Message, tc.says) {
				t.Errorf("%s: want a message with %q, got %q", tc.reason, tc.says, got.Blocked[0].Message)
			}
		})
	}
}

func TestDoNotDisruptForAWhile(t *testing.T) {
	tests := map[string]struct {
		reason, value string
		started       *metav1.Time
		want          bool
	}{
		"Young":      {"within the duration from its start", "1h", ptr.To(metav1.NewTime(now.Add(-time.Minute))), true},
		"Old":        {"past the duration", "1h", ptr.To(metav1.NewTime(now.Add(-2 * time.Hour))), false},
		"NotStarted": {"the safe side, as Karpenter", "1h", nil, true},
		"Negative":   {"means nothing, as in Karpenter", "-1h", nil, false},
		"Nonsense":   {"means nothing, as in Karpenter", "yes please", nil, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p := pod("a", annotated("karpenter.sh/do-not-disrupt", tc.value), func(p *corev1.Pod) { p.Status.StartTime = tc.started })
			if got := (view{now: now}).waits(p, inventory.DrainAllowance{}) != nil; got != tc.want {
				t.Errorf("%s: %q: got %t", tc.reason, tc.value, got)
			}
		})
	}
}

func forbidden(resource string, causes ...metav1.StatusCause) error {
	err := apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "a", errors.New("no"))
	err.ErrStatus.Details.Causes = causes
	return err
}

// twoBudgetsAnswer is what the Eviction API says of a pod with two budgets: a code, and no reason.
func twoBudgetsAnswer() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError}}
}

func noRoomAnswer() error {
	err := apierrors.NewTooManyRequests("no room", 0)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause}}
	return err
}

func TestPassAnswers(t *testing.T) {
	webhook := apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("denied by policy"))
	webhook.ErrStatus.Details = nil
	tests := map[string]struct {
		reason        string
		answer        error
		budgets       []client.Object
		wantEvictable int
		wantBlocked   []inventory.BlockedPod
		wantClass     inventory.Class // of the error, if there is one
		says          string
	}{
		"Evicted": {
			reason: "it is on the node until it is gone", wantEvictable: 1,
		},
		"Gone": {
			reason: "404 is done", answer: apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "a"), wantEvictable: 0,
		},
		"Namesake": {
			reason: "409 is another pod, which the next pass looks at", wantEvictable: 1,
			answer: apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "a", errors.New("uid")),
		},
		"NoRoom": {
			reason: "429 by a budget names it", answer: noRoomAnswer(), budgets: []client.Object{budget("web", 1)}, wantEvictable: 1,
			wantBlocked: []inventory.BlockedPod{{Pod: named("a"), Reason: inventory.BlockedByPDB, PDBs: []types.NamespacedName{named("web")}}},
			says:        "PodDisruptionBudget shop/web (currentHealthy 3, desiredHealthy 2",
		},
		"NoRoomInWhatIsNotSeenYet": {
			reason: "the cache may be behind the Eviction API", answer: noRoomAnswer(), wantEvictable: 1,
			wantBlocked: []inventory.BlockedPod{{Pod: named("a"), Reason: inventory.BlockedByPDB}},
			says:        "has not seen yet",
		},
		"DisruptionControllerBehind": {
			reason: "403 about the budget's own state is no question of rights", answer: forbidden("poddisruptionbudget"),
			budgets: []client.Object{budget("web", 1)}, wantEvictable: 1,
			wantBlocked: []inventory.BlockedPod{{Pod: named("a"), Reason: inventory.BlockedByPDB, PDBs: []types.NamespacedName{named("web")}}},
		},
		"TwoBudgets": {
			reason: "500 and two of them by our own list", answer: twoBudgetsAnswer(), wantEvictable: 1,
			budgets: []client.Object{budget("web", 1), budget("web-too", 1)},
			wantBlocked: []inventory.BlockedPod{{Pod: named("a"), Reason: inventory.BlockedByTwoPDBs,
				PDBs: []types.NamespacedName{named("web"), named("web-too")}}},
			says: "change one selector",
		},
		"AnotherServerError": {
			reason: "500 with one budget is something else", answer: twoBudgetsAnswer(), budgets: []client.Object{budget("web", 1)}, wantEvictable: 1,
			wantBlocked: []inventory.BlockedPod{{Pod: named("a"), Reason: inventory.BlockedError}},
		},
		"Throttled": {
			reason: "429 without a cause is the API server's own", answer: apierrors.NewTooManyRequests("busy", 7), wantEvictable: 1,
			wantBlocked: []inventory.BlockedPod{{Pod: named("a"), Reason: inventory.BlockedByThrottling}},
			says:        "after 2026-05-04T03:02:08Z",
		},
		"NamespaceGoes": {
			reason: "403 in a namespace that is being deleted", wantEvictable: 1,
			answer:      forbidden("pods", metav1.StatusCause{Type: corev1.NamespaceTerminatingCause}),
			wantBlocked: []inventory.BlockedPod{{Pod: named("a"), Reason: inventory.BlockedTerminating}},
		},
		"Webhook": {
			reason: "a policy's denial is that pod's alone", answer: webhook, wantEvictable: 1,
			wantBlocked: []inventory.BlockedPod{{Pod: named("a"), Reason: inventory.BlockedError}},
			says:        "denied by policy",
		},
		"NoAnswer": {
			reason: "the next pod would fare no better", answer: errors.New("connection refused"), wantEvictable: 1,
			wantClass: inventory.ClassRetry, says: "pods/eviction shop/a: connection refused",
		},
		"NoRight": {
			reason: "only a human can give rights", answer: forbidden("pods"), wantEvictable: 1,
			wantClass: inventory.ClassTerminal, says: "must allow the verb create on pods/eviction",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var asked []policyv1.Eviction
			c := faked(evictions(&asked, func(string) error { return tc.answer }), append(tc.budgets, begunNode("old"), pod("a"))...)
			got, err := New(c, c, clock).Pass(t.Context(), "old", inventory.DrainAllowance{})
			if (err != nil) != (tc.wantClass != "") || (err != nil && inventory.ClassOf(err) != tc.wantClass) {
				t.Fatalf("%s: want class %q, got %v", tc.reason, tc.wantClass, err)
			}
			want := inventory.DrainState{Node: "old", Evictable: tc.wantEvictable, Blocked: tc.wantBlocked}
			if diff := cmp.Diff(want, got, ignoreMessages); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
			said := fmt.Sprint(err)
			if len(got.Blocked) > 0 {
				said = got.Blocked[0].Message
			}
			if !strings.Contains(said, tc.says) {
				t.Errorf("%s: want %q to be said, got %q", tc.reason, tc.says, said)
			}
			if len(asked) != 1 || ptr.Deref(asked[0].DeleteOptions.Preconditions.UID, "") != "a-uid" {
				t.Errorf("%s: want one eviction of that very pod, got %+v", tc.reason, asked)
			}
		})
	}
}

func TestGracePeriod(t *testing.T) {
	tests := map[string]struct {
		reason    string
		own, want *int64
	}{
		"None": {"the API's default", nil, nil},
		"Own":  {"the pod's own counts, however long", ptr.To[int64](3600), nil},
		"Zero": {"grace 0 would take it out of the API while it may still run", ptr.To[int64](0), ptr.To[int64](1)},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := eviction(pod("a", func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = tc.own })).DeleteOptions.GracePeriodSeconds
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestPassLeavesAlone(t *testing.T) {
	behind := budget("web", 5)
	behind.Generation = 2
	tests := map[string]struct {
		reason  string
		objects []client.Object
		want    inventory.BlockReason
	}{
		"Bare":         {"nobody would replace it", []client.Object{pod("a", bare)}, inventory.BlockedBare},
		"DoNotDisrupt": {"its owner asked", []client.Object{pod("a", annotated(safeToEvict, "false"))}, inventory.BlockedDoNotDisrupt},
		"Terminating":  {"it goes already", []client.Object{pod("a", terminatingPod(now))}, inventory.BlockedTerminating},
		"BudgetBehind": {"the answer would be 'later', and client-go would sleep on it", []client.Object{pod("a"), behind}, inventory.BlockedByPDB},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var asked []policyv1.Eviction
			c := faked(evictions(&asked, func(string) error { return nil }), append(tc.objects, begunNode("old"))...)
			got, err := New(c, c, clock).Pass(t.Context(), "old", inventory.DrainAllowance{})
			if err != nil || len(asked) != 0 {
				t.Fatalf("%s: error %v, evictions %v", tc.reason, err, asked)
			}
			if got.Evictable != 1 || len(got.Blocked) != 1 || got.Blocked[0].Reason != tc.want {
				t.Errorf("%s: want %s, got %+v", tc.reason, tc.want, got)
			}
		})
	}
}

func TestPassAsksAFullBudgetOnce(t *testing.T) {
	var asked []policyv1.Eviction
	answer := func(name string) error {
		if name == "d-unready" {
			return nil // the budget does not protect what does not run
		}
		return noRoomAnswer()
	}
	c := faked(evictions(&asked, answer), begunNode("old"), budget("web", 2), pod("a"), pod("b"), pod("c"), pod("d-unready", func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }))
	got, err := New(c, c, clock).Pass(t.Context(), "old", inventory.DrainAllowance{})
	if err != nil {
		t.Fatalf("Pass: %v", err)
	}
	if got.Evictable != 4 || len(got.Blocked) != 3 {
		t.Errorf("want three blocked of four, got %+v", got)
	}
	if len(asked) != 2 || asked[0].Name != "a" || asked[1].Name != "d-unready" {
		t.Errorf("want the first and the unready pod asked for, got %v", asked)
	}
}

func TestPassRefusesANodeThatIsNotDrained(t *testing.T) {
	var asked []policyv1.Eviction
	c := faked(evictions(&asked, func(string) error { return nil }), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "old"}}, pod("a"))
	_, err := New(c, c, clock).Pass(t.Context(), "old", inventory.DrainAllowance{})
	refusal, ok := errors.AsType[*NotBegunError](err)
	if !ok || refusal.Node != "old" || !strings.Contains(err.Error(), "castoff.sh/draining-since") {
		t.Errorf("want a *NotBegunError that names node and annotation, got %v", err)
	}
	if len(asked) != 0 {
		t.Errorf("nothing may be evicted: %v", asked)
	}
}

func TestNodeThatIsGone(t *testing.T) {
	c := faked(interceptor.Funcs{}, pod("a")) // the pod is left for the garbage collector
	d := New(c, c, clock)
	for name, look := range map[string]func(context.Context, string) (inventory.DrainState, error){"State": d.State, "Pass": passesAllowing(d, inventory.DrainAllowance{})} {
		got, err := look(t.Context(), "old")
		if diff := cmp.Diff(inventory.DrainState{Node: "old"}, got); diff != "" || err != nil {
			t.Errorf("%s: error %v, -want +got:\n%s", name, err, diff)
		}
	}
	for name, err := range map[string]error{
		"Mark": d.Mark(t.Context(), "old", "general"), "Fence": d.Fence(t.Context(), "old", "general"), "Begin": d.Begin(t.Context(), "old"),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPassEndsInTime(t *testing.T) {
	at := now
	var asked []policyv1.Eviction
	slow := func(string) error { at = at.Add(4 * time.Second); return nil }
	c := faked(evictions(&asked, slow), begunNode("old"), pod("a"), pod("b"), pod("c"), pod("d"), pod("e"))
	d := New(c, c, func() time.Time { return at })

	got, err := d.Pass(t.Context(), "old", inventory.DrainAllowance{})
	if err != nil || len(asked) != 3 {
		t.Fatalf("want three evictions of 4 s each within 10 s, got %d, %v", len(asked), err)
	}
	if diff := cmp.Diff(inventory.DrainState{Node: "old", Evictable: 5}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestThrottlingEndsThePassOnEveryNode(t *testing.T) {
	at := now
	answer := error(apierrors.NewTooManyRequests("busy", 7))
	var asked []policyv1.Eviction
	c := faked(evictions(&asked, func(string) error { return answer }), begunNode("old"), begunNode("older"), pod("a"), pod("b"),
		pod("c", func(p *corev1.Pod) { p.Spec.NodeName = "older" }))
	d := New(c, c, func() time.Time { return at })

	pass := func(node string) inventory.DrainState {
		t.Helper()
		state, err := d.Pass(t.Context(), node, inventory.DrainAllowance{})
		if err != nil {
			t.Fatalf("Pass: %v", err)
		}
		return state
	}
	if state := pass("old"); len(asked) != 1 || len(state.Blocked) != 2 || state.Blocked[1].Reason != inventory.BlockedByThrottling {
		t.Errorf("want one call, and both pods waiting, got %d and %+v", len(asked), state)
	}
	if state := pass("older"); len(asked) != 1 || len(state.Blocked) != 1 {
		t.Errorf("the other node's pass must not ask either, got %d and %+v", len(asked), state)
	}
	at, answer = at.Add(7*time.Second), nil
	if state := pass("old"); len(asked) != 3 || len(state.Blocked) != 0 {
		t.Errorf("seven seconds later both may be asked for, got %d and %+v", len(asked), state)
	}
}

// hanging waits for the call's own deadline, as client-go does that repeats a throttled call.
func TestCallThatHangs(t *testing.T) {
	funcs := interceptor.Funcs{SubResourceCreate: func(ctx context.Context, _ client.Client, _ string, _, _ client.Object, _ ...client.SubResourceCreateOption) error {
		<-ctx.Done()
		return fmt.Errorf("client rate limiter: %w", ctx.Err())
	}}
	c := faked(funcs, begunNode("old"), pod("a"))

	late := 0
	d := New(c, c, func() time.Time { // the pass has a millisecond left when it comes to the pod
		late++
		return now.Add(time.Duration(min(late-1, 1)) * (PassLimit - time.Millisecond))
	})
	got, err := d.Pass(t.Context(), "old", inventory.DrainAllowance{})
	if err != nil || len(got.Blocked) != 1 || got.Blocked[0].Reason != inventory.BlockedByThrottling {
		t.Errorf("the call's end is throttling, got %+v, %v", got, err)
	}

	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	got, _ = New(c, c, clock).Pass(cancelled, "old", inventory.DrainAllowance{})
	if len(got.Blocked) == 1 && got.Blocked[0].Reason == inventory.BlockedByThrottling {
		t.Errorf("a manager that stops is no busy API server: %+v", got)
	}
}

func TestPodsComeInPages(t *testing.T) {
	pages := map[string][]corev1.Pod{"": {*pod("c"), *pod("b")}, "next": {*pod("a")}}
	var asked []string
	funcs := interceptor.Funcs{List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		o := (&client.ListOptions{}).ApplyOptions(opts)
		asked = append(asked, fmt.Sprintf("%s limit=%d continue=%s", o.FieldSelector, o.Limit, o.Continue))
		pods, ok := list.(*corev1.PodList)
		if !ok {
			return fmt.Errorf("only pods come in pages: %T", list)
		}
		pods.Items, pods.Continue = pages[o.Continue], ""
		if o.Continue == "" {
			pods.Continue = "next"
		}
		return nil
	}}
	c := faked(funcs, begunNode("old"))
	got, err := New(c, c, clock).pods(t.Context(), "old")
	if err != nil {
		t.Fatalf("pods: %v", err)
	}
	names := []string{}
	for _, p := range got.leaving {
		names = append(names, p.Name)
	}
	if diff := cmp.Diff([]string{"a", "b", "c"}, names); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	want := []string{"spec.nodeName=old limit=250 continue=", "spec.nodeName=old limit=250 continue=next"}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Errorf("never the whole cluster: -want +got:\n%s", diff)
	}
}

func TestErrorsOfReads(t *testing.T) {
	resource := schema.GroupResource{Resource: "x"}
	classes := map[string]struct {
		err  error
		want inventory.Class
	}{
		"Throttled": {apierrors.NewTooManyRequests("slow down", 1), inventory.ClassThrottled},
		"Forbidden": {apierrors.NewForbidden(resource, "x", errors.New("no")), inventory.ClassTerminal},
		"Other":     {apierrors.NewInternalError(errors.New("etcd")), inventory.ClassRetry},
	}
	for name, tc := range classes {
		fails := map[string]interceptor.Funcs{
			"get nodes": {Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
				return tc.err
			}},
			"list pods": {List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return tc.err }},
			"list poddisruptionbudgets": {List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, o ...client.ListOption) error {
				if _, pods := l.(*corev1.PodList); pods {
					return c.List(ctx, l, o...)
				}
				return tc.err
			}},
		}
		for call, funcs := range fails {
			t.Run(name+"/"+call, func(t *testing.T) {
				c := faked(funcs, begunNode("old"), pod("a"))
				_, err := New(c, c, clock).Pass(t.Context(), "old", inventory.DrainAllowance{})
				if inventory.ClassOf(err) != tc.want || !errors.Is(err, tc.err) || !strings.Contains(fmt.Sprint(err), call) {
					t.Errorf("want %s naming %q, got %s: %v", tc.want, call, inventory.ClassOf(err), err)
				}
			})
		}
	}
}

func TestBudgetsOfAPod(t *testing.T) {
	selecting := func(name string, selector *metav1.LabelSelector) *policyv1.PodDisruptionBudget {
		b := budget(name, 1)
		b.Spec.Selector = selector
		return b
	}
	elsewhere := budget("elsewhere", 1)
	elsewhere.Namespace = "other"
	anyOrder := interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
		err := c.List(ctx, l, opts...)
		if list, ok := l.(*policyv1.PodDisruptionBudgetList); ok {
			slices.Reverse(list.Items)
		}
		return err
	}}
	c := faked(anyOrder,
		elsewhere,
		selecting("everything", &metav1.LabelSelector{}),
		selecting("nothing", nil),
		selecting("others", &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}),
		selecting("unreadable", &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Like"}}}),
		selecting("web", &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "In", Values: []string{"web"}}}}),
	)
	b := budgets{reader: c, listed: map[string][]policyv1.PodDisruptionBudget{}}
	got, err := b.of(t.Context(), pod("a"))
	if err != nil {
		t.Fatalf("of: %v", err)
	}
	if diff := cmp.Diff([]types.NamespacedName{named("everything"), named("web")}, names(got)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestAPodThatCameAfterTheDrainHadBegunIsNotEvicted(t *testing.T) {
	began := time.Date(2026, 5, 4, 3, 0, 0, 0, time.UTC) // of begunNode
	came := func(at time.Time) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(at) }
	}
	cases := map[string]struct {
		reason string
		pod    *corev1.Pod
		node   *corev1.Node
		want   bool
	}{
		"Before":     {"what was there before leaves", pod("web", came(began.Add(-time.Hour))), begunNode("old"), false},
		"AtThatTime": {"the API server's clock may be ahead by a little", pod("web", came(began.Add(9*time.Second))), begunNode("old"), false},
		"After":      {"one that cordon and taint did not keep out would come back for ever", pod("web", came(began.Add(11*time.Second))), begunNode("old"), true},
		"NotBegun":   {"a node that is not drained takes pods", pod("web", came(began.Add(time.Hour))), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "old"}}, false},
		"NoTime":     {"a mark that is no time says nothing of when", pod("web", came(began.Add(time.Hour))), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "old", Annotations: map[string]string{v1alpha1.AnnotationDraining: "yes"}}}, false},
		"Terminating": {"one that is on its way is waited for", pod("web", came(began.Add(time.Hour)), func(p *corev1.Pod) {
			p.DeletionTimestamp, p.Finalizers = ptr.To(metav1.NewTime(now)), []string{"x.example/y"}
		}), begunNode("old"), false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var asked []policyv1.Eviction
			c := faked(evictions(&asked, func(string) error { return nil }), tc.node, tc.pod)
			state, err := New(c, c, clock).State(t.Context(), "old")
			if err != nil {
				t.Fatal(err)
			}
			got := slices.ContainsFunc(state.Blocked, func(b inventory.BlockedPod) bool { return b.Reason == inventory.BlockedReturning })
			if got != tc.want || state.Evictable != 1 {
				t.Errorf("%s: returning %t of %+v", tc.reason, got, state)
			}
			if _, begun := tc.node.Annotations[v1alpha1.AnnotationDraining]; !begun {
				return
			}
			if _, err := New(c, c, clock).Pass(t.Context(), "old", inventory.DrainAllowance{}); err != nil {
				t.Fatal(err)
			}
			if evicted := len(asked) > 0; tc.want && evicted {
				t.Errorf("%s: it was evicted once more", tc.reason)
			}
		})
	}
}
