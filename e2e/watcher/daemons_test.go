package watcher

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
)

func TestDaemonPodsMissing(t *testing.T) {
	base := []seen{{0, twoGroups}, {0, instance("a", "general")}, {0, node("a")}, {0, daemonSet()}, {1, daemonPod("agent-1", "a")}}
	gone := seen{10, Gone{daemonPod("agent-1", "a")}}
	cases := map[string]struct {
		reason string
		story  []seen
		end    float64
		want   int
	}{
		"There":       {reason: "A running pod is enough.", end: 1000},
		"Rolled":      {reason: "A roll within the settle time is none.", story: []seen{gone, {35, daemonPod("agent-2", "a")}}, end: 1000},
		"Missing":     {reason: "Longer than that it is missed, once.", story: []seen{gone}, end: 1000, want: 1},
		"CameBack":    {reason: "What was missed stays missed.", story: []seen{gone, {45, daemonPod("agent-2", "a")}}, end: 1000, want: 1},
		"TwoEpisodes": {reason: "A second time counts again.", story: []seen{gone, {45, daemonPod("agent-2", "a")}, {50, Gone{daemonPod("agent-2", "a")}}}, end: 1000, want: 2},
		"Leaving":     {reason: "A pod being deleted does not run.", story: []seen{{10, daemonPod("agent-1", "a", leaving(10))}}, end: 50, want: 1},
		"Cordoned":    {reason: "A cordon is no excuse: DaemonSets tolerate it.", story: []seen{{5, node("a", cordoned, tainted(corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule))}, gone}, end: 50, want: 1},
		"OurFence":    {reason: "Nor is castoff's own taint.", story: []seen{{5, node("a", tainted(v1alpha1.TaintLegacy, corev1.TaintEffectNoSchedule))}, gone}, end: 50, want: 1},
		"ForeignTaint": {
			reason: "A taint the DaemonSet does not tolerate is.", story: []seen{{5, node("a", tainted("gpu", corev1.TaintEffectNoSchedule))}, gone}, end: 50},
		"SoftTaint":    {reason: "A soft taint is not.", story: []seen{{5, node("a", tainted("soft", corev1.TaintEffectPreferNoSchedule))}, gone}, end: 50, want: 1},
		"NodeNotReady": {reason: "A node that is down is not judged.", story: []seen{{5, node("a", down)}, gone}, end: 50},
		"InstanceOver": {reason: "Nor one whose instance ended.", story: []seen{{9, endedBy("castoff", instance("a", "general"))}, gone}, end: 50},
		"NodeLeft":     {reason: "Nor one that left.", story: []seen{{9, Gone{node("a")}}, gone}, end: 50},
		"NodeDeleting": {reason: "Nor one Karpenter is ending.", story: []seen{{9, node("a", deleting)}, gone}, end: 50},
		"SetDeleted":   {reason: "Without the DaemonSet nothing is missing.", story: []seen{{9, Gone{daemonSet()}}, gone}, end: 50},
		"Selector": {
			reason: "A node the DaemonSet does not select needs no pod.",
			story: []seen{{9, daemonSet(func(d *appsv1.DaemonSet) {
				d.Spec.Template.Spec.NodeSelector = map[string]string{"disk": "ssd"}
			})}, gone}, end: 50,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			report := tell(t, tc.end, append(base[:len(base):len(base)], tc.story...)...)
			if report.DaemonPodsMissing != tc.want {
				t.Errorf("%s\nDaemonPodsMissing = %d, want %d: %v", tc.reason, report.DaemonPodsMissing, tc.want, report.Details())
			}
		})
	}
}
