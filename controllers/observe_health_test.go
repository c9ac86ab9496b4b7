package controllers

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/plan"
)

// sick is a pod on a node that has not been Ready since the time.
func sick(since time.Time, change ...func(*corev1.Pod)) *corev1.Pod {
	return pod("cart-5d4-x", append([]func(*corev1.Pod){func(p *corev1.Pod) {
		p.Spec.NodeName = "n"
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(since)}}
	}}, change...)...)
}

func isWell(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionTrue }

func ofOwner(kind, name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: name, Controller: ptr.To(true)}}
		p.Labels[appsv1.DefaultDeploymentUniqueLabelKey] = "5d4"
	}
}

func container(restarts int32, state corev1.ContainerState) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{RestartCount: restarts, State: state})
	}
}

func waitingFor(reason string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}
}

func runningSince(t time.Time) corev1.ContainerState {
	return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(t)}}
}

func TestUnwellPods(t *testing.T) {
	now := newWorld(t).now
	since := now.Add(-time.Hour)
	of := func(workload string, deadline time.Duration, crashing bool) []inventory.UnwellPod {
		return []inventory.UnwellPod{{Pod: types.NamespacedName{Namespace: "default", Name: "cart-5d4-x"}, Workload: workload, Node: "n", Since: since, Deadline: deadline, Crashing: crashing}}
	}
	const bare = "pod/default/cart-5d4-x"
	deployment := func(deadline *int32) *appsv1.Deployment {
		return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "cart"}, Spec: appsv1.DeploymentSpec{ProgressDeadlineSeconds: deadline}}
	}
	cases := map[string]struct {
		reason     string
		pod        *corev1.Pod
		deployment *appsv1.Deployment
		want       []inventory.UnwellPod
	}{
		"Ready":      {reason: "all is well", pod: sick(since, isWell)},
		"NotReady":   {reason: "since its condition says so", pod: sick(since), want: of(bare, 10*time.Minute, false)},
		"Pending":    {reason: "without a node it is counted elsewhere", pod: sick(since, func(p *corev1.Pod) { p.Spec.NodeName = "" })},
		"Leaving":    {reason: "on its way out", pod: sick(since, func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} })},
		"Finished":   {reason: "what is over will not be Ready", pod: sick(since, func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })},
		"OfAJob":     {reason: "a Job counts its failures itself", pod: sick(since, ofOwner("Job", "backup"))},
		"Castoffs":   {reason: "castoff's own room is no workload", pod: sick(since, func(p *corev1.Pod) { p.Labels[v1alpha1.LabelPlaceholder] = "general" })},
		"Daemon":     {reason: "an agent that is unwell on new nodes matters", pod: sick(since, ofOwner("DaemonSet", "agent")), want: of("daemonset/default/agent", 10*time.Minute, false)},
		"Deployment": {reason: "by the Deployment's name and deadline", pod: sick(since, ofOwner("ReplicaSet", "cart-5d4")), deployment: deployment(ptr.To[int32](60)), want: of("deployment/default/cart", time.Minute, false)},
		"NoDeadline": {reason: "which may say nothing", pod: sick(since, ofOwner("ReplicaSet", "cart-5d4")), deployment: deployment(nil), want: of("deployment/default/cart", 10*time.Minute, false)},
		"Rollout":    {reason: "a ReplicaSet may be somebody else's", pod: sick(since, ofOwner("ReplicaSet", "cart-5d4")), want: of("replicaset/default/cart-5d4", 10*time.Minute, false)},
		"CrashLoop":  {reason: "the kubelet waits to start it again", pod: sick(since, container(5, waitingFor(crashLoop))), want: of(bare, 10*time.Minute, true)},
		"InitLoop": {reason: "in an init container too", want: of(bare, 10*time.Minute, true), pod: sick(since, func(p *corev1.Pod) {
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{State: waitingFor(crashLoop)}}
		})},
		"Pulling":        {reason: "a wait is no crash", pod: sick(since, container(0, waitingFor("ContainerCreating"))), want: of(bare, 10*time.Minute, false)},
		"BetweenCrashes": {reason: "between two crashes it runs", pod: sick(since, container(3, runningSince(now.Add(-time.Minute)))), want: of(bare, 10*time.Minute, true)},
		"Recovered":      {reason: "after two minutes it is steady", pod: sick(since, isWell, container(3, runningSince(now.Add(-2*time.Minute))))},
		"OneRestart":     {reason: "one restart is no loop", pod: sick(since, isWell, container(1, runningSince(now)))},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.must(w.c.Create(t.Context(), tc.pod))
			if tc.deployment != nil {
				w.must(w.c.Create(t.Context(), tc.deployment))
			}
			got, err := w.reconciler().Observer.unwellPods(t.Context())
			if diff := cmp.Diff(tc.want, got, cmpopts.EquateEmpty()); diff != "" || err != nil {
				t.Errorf("%s: %v, -want +got:\n%s", tc.reason, err, diff)
			}
		})
	}
}

func TestUnreadySince(t *testing.T) {
	now := newWorld(t).now
	at := func(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(d)) }
	made := func(p *corev1.Pod) { p.CreationTimestamp = at(-time.Hour) }
	cases := map[string]struct {
		reason string
		pod    *corev1.Pod
		want   time.Time
	}{
		"Condition": {"when it stopped being Ready", sick(now.Add(-time.Minute), made), now.Add(-time.Minute)},
		"Started":   {"a kubelet that said nothing yet has taken it", pod("a", made, func(p *corev1.Pod) { p.Status.StartTime = ptr.To(at(-time.Second)) }), now.Add(-time.Second)},
		"Made":      {"a kubelet that says nothing at all has not", pod("a", made), now.Add(-time.Hour)},
		"NoTime":    {"a condition without a time says nothing", sick(time.Time{}, made), now.Add(-time.Hour)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := unreadySince(tc.pod); !got.Equal(tc.want) {
				t.Errorf("%s: %s, want %s", tc.reason, got, tc.want)
			}
		})
	}
}

// prometheusDouble counts what it is asked, and answers by the query.
type prometheusDouble struct{ asked atomic.Int32 }

func (p *prometheusDouble) Query(_ context.Context, _, query string) ([]inventory.Sample, error) {
	p.asked.Add(1)
	switch query {
	case "bad":
		return nil, inventory.Terminal(errors.New("parse error"))
	case "down":
		return nil, errors.New("connection refused")
	}
	return []inventory.Sample{{Value: 1}}, nil
}

func TestGatesAreAsked(t *testing.T) {
	w := newWorld(t)
	p := &prometheusDouble{}
	o := w.reconciler().Observer
	o.Ports.Gates = p
	m := testMigration()
	m.Spec.Strategy.Gates = []v1alpha1.Gate{{Name: "good", Query: "up"}, {Name: "bad", Query: "bad"}, {Name: "down", Query: "down"}}
	look := func() map[string]inventory.GateAnswer {
		var seen plan.World
		if err := o.observeHealth(t.Context(), m, plan.Needs{Gates: true}, &seen); err != nil {
			t.Fatal(err)
		}
		return seen.Gates
	}
	want := map[string]inventory.GateAnswer{
		"good": {Samples: []inventory.Sample{{Value: 1}}},
		"bad":  {Problem: "parse error", Refused: true},
		"down": {Problem: "connection refused"},
	}
	if diff := cmp.Diff(want, look()); diff != "" {
		t.Errorf("an error is an answer, and fails no look: -want +got:\n%s", diff)
	}
	if look(); p.asked.Load() != 3 {
		t.Errorf("asked %d times in one moment, want once a gate", p.asked.Load())
	}
	w.now = w.now.Add(gatesFresh)
	if look(); p.asked.Load() != 6 {
		t.Errorf("after %s asked %d times in all, want all three again", gatesFresh, p.asked.Load())
	}
	m.Spec.Strategy.Gates = m.Spec.Strategy.Gates[:1]
	if got := look(); p.asked.Load() != 7 || len(got) != 1 {
		t.Errorf("a gate that was changed is asked at once: %d times in all, %v", p.asked.Load(), got)
	}
}

func TestHealthIsReadOnlyWhenAskedFor(t *testing.T) {
	w := newWorld(t)
	w.must(w.c.Create(t.Context(), sick(w.now.Add(-time.Hour))))
	for name, tc := range map[string]struct {
		reason string
		needs  plan.Needs
		want   int
	}{
		"Asked":    {"the planner wants to know", plan.Needs{Health: true}, 1},
		"NotAsked": {"all pods are a long list", plan.Needs{}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var seen plan.World
			if err := w.reconciler().Observer.observeHealth(t.Context(), testMigration(), tc.needs, &seen); err != nil || len(seen.Unwell) != tc.want {
				t.Errorf("%s: %v, %v", tc.reason, seen.Unwell, err)
			}
		})
	}
}
