package watcher

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/e2e/awssim/simapi"
)

func deployment(app string, replicas int32) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: app},
		Spec:       appsv1.DeploymentSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}},
	}
}

func homeless(p *corev1.Pod) { p.Spec.NodeName = ""; unready(p) }

// begin is the moment of an account's opening, in a story.
type begin struct{}

// measure feeds a story and asks at its end.
func measure(t *testing.T, end float64, story ...seen) Measures {
	t.Helper()
	j := NewJudge(Config{Pools: map[string]string{"general": "general"}, Home: "system", CastoffRole: "castoff"})
	for _, s := range story {
		if _, opens := s.what.(begin); opens {
			j.Begin(second(s.at))
			continue
		}
		j.Observe(second(s.at), s.what)
	}
	return j.Measures(second(end))
}

// oneNode is a pod of a Deployment of one on a legacy node that is cordoned when the account begins.
func oneNode(story ...seen) []seen {
	return append([]seen{
		{0, instance("a", "general")}, {0, node("a", cordoned)}, {0, deployment("web", 1)}, {0, pod("web", "web-a", "a")}, {1, begin{}},
	}, story...)
}

func TestMeasures(t *testing.T) {
	running := instance("b", "")
	cases := map[string]struct {
		reason string
		end    float64
		story  []seen
		want   Measures
	}{
		"AtRest": {
			reason: "Where nothing moves only time passes.", end: 11, story: oneNode(),
			want: Measures{Began: second(1), Makespan: 10 * time.Second},
		},
		"Moved": {
			reason: "A pod that is on its way out is missed until another is Ready, and is pending until that is on a node.", end: 100,
			story: oneNode(seen{2, audit(2, castoffUser, "evict", "web-a")}, seen{2, pod("web", "web-a", "a", leaving(2))}, seen{2, pod("web", "web-b", "", homeless)},
				seen{3, Gone{pod("web", "web-a", "a", leaving(2))}}, seen{4, endedBy("castoff", instance("a", "general"))}, seen{5, running}, seen{5, node("b")},
				seen{7, pod("web", "web-b", "b", unready)}, seen{17, pod("web", "web-b", "b")}),
			want: Measures{Began: second(1), Done: true, Makespan: 16 * time.Second, PodUnavailable: 15 * time.Second, PodPending: 5 * time.Second, MovedPods: 1, Evicted: 1},
		},
		"Surged": {
			reason: "Where the new pod is Ready first nothing is missed, and the second instance is paid twice while both run.", end: 60,
			story: oneNode(seen{2, running}, seen{2, node("b")}, seen{12, pod("web", "web-b", "b")}, seen{13, Gone{pod("web", "web-a", "a")}}, seen{22, endedBy("castoff", instance("a", "general"))}),
			want:  Measures{Began: second(1), Done: true, Makespan: 21 * time.Second, DoublePaid: 20 * time.Second, MovedPods: 1},
		},
		"Cordons": {
			reason: "The shift begins with the last cordon, and a Deployment that wants more than it has lacks.", end: 10,
			story: []seen{{0, instance("a", "general")}, {0, instance("c", "general")}, {0, node("a")}, {0, node("c")}, {0, begin{}}, {2, node("a", cordoned)},
				{3, node("c", cordoned)}, {4, deployment("web", 2)}, {5, pod("web", "web-a", "a")}, {8, deployment("web", 1)}},
			want: Measures{Began: second(3), Makespan: 7 * time.Second, PodUnavailable: 5 * time.Second},
		},
		"Requests": {
			reason: "Evictions are told apart from other writes, and what others ask for does not count.", end: 1,
			story: oneNode(seen{1, audit(1, castoffUser, "evict", "web-a", code(429))}, seen{1, audit(1, castoffUser, "evict", "web-a", code(404))}, seen{1, audit(1, castoffUser, "evict", "web-a")},
				seen{1, audit(1, castoffUser, "patch", "web-a", of("nodes", ""))}, seen{1, audit(1, castoffUser, "patch", "web-a", of("leases", ""))}, seen{1, audit(1, "admin", "evict", "web-a", code(429))},
				seen{1, simapi.Call{Identity: castoffARN}}, seen{1, simapi.Call{Identity: "arn:aws:iam::123456789012:user/castoff"}}, seen{1, simapi.Call{Identity: "arn:aws:iam::123456789012:user/other"}}),
			want: Measures{Began: second(1), Evicted: 1, Refused: 1, KubernetesWrites: 1, AWSCalls: 2},
		},
		"System": {
			reason: "castoff's own Deployment and Cluster Autoscaler's are no workloads.", end: 10,
			story: oneNode(seen{1, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "castoff-system", Name: "castoff"}}}, seen{1, caDeployment(1)}),
			want:  Measures{Began: second(1), Makespan: 9 * time.Second},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, measure(t, tc.end, tc.story...)); diff != "" {
				t.Errorf("%s\n-want +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestInstanceThatEndsTakesItsPods(t *testing.T) {
	got := measure(t, 14, oneNode(seen{4, endedBy("somebody", instance("a", "general"))})...)
	if got.PodUnavailable != 10*time.Second || got.Done {
		t.Errorf("a pod of an instance that has ended is not Ready, whatever the API server says: %+v", got)
	}
}

func TestStatefulSetsAndDeletedWorkloads(t *testing.T) {
	two := int32(2)
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "orders"},
		Spec: appsv1.StatefulSetSpec{Replicas: &two, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "orders"}}}}
	got := measure(t, 20, oneNode(seen{1, set}, seen{4, pod("orders", "orders-0", "a", ownedBy("StatefulSet", "orders"))}, seen{9, Gone{set}})...)
	if want := 3*2*time.Second + 5*time.Second; got.PodUnavailable != want {
		t.Errorf("unavailable for %s, want %s", got.PodUnavailable, want)
	}
}

func TestStatusBytes(t *testing.T) {
	large := migration("Shifting")
	large.Status.Pools = []v1alpha1.PoolStatus{{Name: "general"}}
	small := measure(t, 1, seen{0, migration("Shifting")}).StatusBytes
	if got := measure(t, 1, seen{0, large}, seen{0, migration("Completed")}).StatusBytes; got <= small || small == 0 {
		t.Errorf("the largest status counts: %d, and %d without a pool", got, small)
	}
}
