package castandin

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

const quick = "--node-group-auto-discovery=asg:tag=enabled --scale-down-unneeded-time=20s"

func TestScaleDownChoosesIdleNodes(t *testing.T) {
	busy := pod("busy", "3", on("a"))
	keep := func(n *corev1.Node) { n.Annotations[annotationKeep] = "true" }
	cases := map[string]struct {
		reason  string
		min     int
		objects []runtime.Object
		want    []string // nodes with the soft taint
	}{
		"Empty":      {reason: "An empty node is idle.", objects: []runtime.Object{node("b")}, want: []string{"b"}},
		"DaemonOnly": {reason: "A DaemonSet's pod does not keep it.", objects: []runtime.Object{node("b"), pod("d", "100m", on("b"), ownedByKind("DaemonSet"))}, want: []string{"b"}},
		"FitsElsewhere": {
			reason: "Pods that fit elsewhere do not keep it.", objects: []runtime.Object{node("b"), pod("p", "1", on("b"))}, want: []string{"b"}},
		"FitsNowhere": {reason: "Pods that fit nowhere else keep it.", objects: []runtime.Object{node("b"), pod("p", "1500m", on("b"))}},
		"Half":        {reason: "A node half used stays.", objects: []runtime.Object{node("b"), pod("p", "2", on("b"))}},
		"Annotated":   {reason: "scale-down-disabled keeps it.", objects: []runtime.Object{node("b", keep)}},
		"AtMin":       {reason: "The group's minimum is kept.", min: 2, objects: []runtime.Object{node("b")}},
		"UnsafePod":   {reason: "safe-to-evict false keeps the node.", objects: []runtime.Object{node("b"), pod("p", "100m", on("b"), safe("false"))}},
		"BarePod":     {reason: "A pod nobody brings back keeps the node.", objects: []runtime.Object{node("b"), pod("p", "100m", on("b"), bare)}},
		"SafeBarePod": {reason: "Unless it says it may go.", objects: []runtime.Object{node("b"), pod("p", "100m", on("b"), bare, safe("true"))}, want: []string{"b"}},
		"SystemPod":   {reason: "A pod of kube-system keeps the node.", objects: []runtime.Object{node("b"), pod("p", "100m", on("b"), namespace("kube-system"))}},
		"NotReady":    {reason: "An unready node is not judged.", objects: []runtime.Object{node("b", notReady)}},
		"Foreign":     {reason: "A node of no group is not touched.", objects: []runtime.Object{node("b"), node("karpenter")}, want: []string{"b"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			cloud := oneGroup(2, "i-a", "i-b")
			cloud.groups[0].Min = tc.min
			s := newStage(t, quick, cloud, append(tc.objects, node("a"), busy)...)
			s.scan(t)
			nodes, err := s.kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, n := range nodes.Items {
				if hasTaint(&n, taintCandidate) {
					got = append(got, n.Name)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\n-want +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestScaleDownEndsTheInstance(t *testing.T) {
	cloud := oneGroup(2, "i-a", "i-b")
	s := newStage(t, quick, cloud, node("a"), pod("busy", "3", on("a")), node("b"), pod("p", "500m", on("b")))
	s.scan(t)
	if b := s.node(t, "b"); !hasTaint(b, taintCandidate) || b.Spec.Unschedulable {
		t.Fatalf("an idle node carries the soft taint only: %+v", b.Spec)
	}
	s.clock.at = start.Add(20 * time.Second)
	s.scan(t)
	b := s.node(t, "b")
	if !hasTaint(b, taintCandidate) || !hasTaint(b, taintToBeDeleted) || !b.Spec.Unschedulable {
		t.Fatalf("a node being removed carries both taints and the cordon: %+v", b.Spec)
	}
	evicted := false
	for _, action := range s.kube.Actions() {
		evicted = evicted || action.GetSubresource() == "eviction"
	}
	if !evicted || len(cloud.writes()) != 0 {
		t.Fatalf("its pods are evicted (%t) before its instance ends (%v)", evicted, cloud.writes())
	}
	if err := s.kube.CoreV1().Pods("shop").Delete(t.Context(), "p", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.clock.at = start.Add(30 * time.Second)
	s.scan(t)
	if diff := cmp.Diff([]string{"Terminate i-b"}, cloud.writes()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestScaleDownWaits(t *testing.T) {
	cases := map[string]struct {
		reason string
		flags  string
		after  time.Duration
	}{
		"UnneededTime":  {reason: "Not before the node was idle for long enough.", flags: quick, after: 19 * time.Second},
		"DelayAfterAdd": {reason: "Not within the delay after a scale-up.", flags: quick + " --scale-down-delay-after-add=1m", after: 40 * time.Second},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, tc.flags, oneGroup(1, "i-b"), node("b"))
			s.scan(t)
			s.lastScaleUp = start
			s.clock.at = start.Add(tc.after)
			s.scan(t)
			if hasTaint(s.node(t, "b"), taintToBeDeleted) {
				t.Error(tc.reason)
			}
		})
	}
}

func TestNodeInUseLosesTheSoftTaint(t *testing.T) {
	s := newStage(t, quick, oneGroup(1, "i-b"), node("b", tainted(taintCandidate, corev1.TaintEffectPreferNoSchedule)), pod("p", "3", on("b")))
	s.scan(t)
	if hasTaint(s.node(t, "b"), taintCandidate) {
		t.Error("a node in use keeps the soft taint")
	}
}

func TestFirstScanTakesBackARemoval(t *testing.T) {
	left := []nodeOption{tainted(taintToBeDeleted, corev1.TaintEffectNoSchedule), tainted(taintCandidate, corev1.TaintEffectPreferNoSchedule), cordoned}
	s := newStage(t, discover, oneGroup(2, "i-a", "i-b"), node("a", left...), node("b", cordoned), node("foreign", left...))
	s.scan(t)
	a := s.node(t, "a")
	if hasTaint(a, taintToBeDeleted) || a.Spec.Unschedulable || !hasTaint(a, taintCandidate) {
		t.Errorf("the leftover goes with its cordon, the soft taint stays: %+v", a.Spec)
	}
	if !s.node(t, "b").Spec.Unschedulable {
		t.Error("somebody else's cordon stays")
	}
	if !hasTaint(s.node(t, "foreign"), taintToBeDeleted) {
		t.Error("a node of no group is not touched")
	}
}
