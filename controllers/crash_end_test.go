package controllers

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// portrait is the whole world in lines that can be compared: everything but ids and times. Karpenter packs pods as it finds
// them, so of its nodes only what they hold together counts.
func (w *world) portrait() []string {
	var out []string
	add := func(format string, a ...any) { out = append(out, fmt.Sprintf(format, a...)) }
	for _, name := range slices.Sorted(maps.Keys(w.groups)) {
		out = append(out, portraitOfGroup(w.groups[name])...)
	}
	held := map[string]int{}
	for _, n := range w.nodes() {
		if n.Labels["group"] != "" {
			out = append(out, portraitOfNode(n))
		} else if line := portraitOfNode(n); !slices.Contains(out, line) {
			out = append(out, line)
		}
		held[fmt.Sprintf("of %s, Karpenter's %t", w.poolOf(n), n.Labels["group"] == "")] += w.pods[n.Name]
	}
	for _, pool := range slices.Sorted(maps.Keys(held)) {
		add("pods on nodes %s: %d", pool, held[pool])
	}
	add("pods without a node %d", w.homeless["general"]+w.homeless["batch"])
	add("placeholders %d", len(w.placeholders()))
	place := w.node(w.only.node)
	add("the only pod: ready %t, on Karpenter's %t, restarts on their way %t", place != nil, place != nil && place.Labels["group"] == "", w.only.next != "" || w.only.waits)
	holder, _, _ := strings.Cut(w.ca.LeaseHolder, "-")
	add("autoscaler: replicas %d, pods %d, leads %t with %v, lease held by %s, deleted %t", w.ca.Replicas, w.ca.Pods, w.scaler.leads, w.ca.Groups, holder, w.scaler.deleted)
	for _, p := range w.engine.NodePools {
		add("nodepool %s: limits %v, budgets %v, target %s", p.Name, p.Spec.Limits, p.Spec.Disruption.Budgets, p.Annotations[v1alpha1.AnnotationTargetHash])
	}
	for _, c := range w.engine.NodeClasses {
		add("nodeclass %s: passed %q", c.Name, c.Annotations[v1alpha1.AnnotationCanaryPassed])
	}
	add("engine %t, CRDs %t, queue %t, identities %t, canaries %d, termination handlers %d",
		w.rel, w.crds, w.settled.Ready, w.identity.Ready, len(w.started)+len(w.leaving), len(w.handlers))
	slices.Sort(out)
	return out
}

func portraitOfGroup(g *inventory.NodeGroup) []string {
	suspended, schedules := slices.Clone(g.SuspendedProcesses), []string{}
	slices.Sort(suspended)
	for _, s := range g.ScheduledActions {
		schedules = append(schedules, s.Name+" "+s.Recurrence)
	}
	slices.Sort(schedules)
	out := []string{fmt.Sprintf("group %s: %d/%d/%d with %d, suspended %v, schedules %v, rebalance %t, lifetime %d", g.Name,
		g.Min, g.Max, g.Desired, len(g.Instances), suspended, schedules, g.CapacityRebalance, g.MaxInstanceLifetime)}
	for _, p := range g.ScalingPolicies {
		out = append(out, fmt.Sprintf("policy %s of %s: active %t", p.Name, g.Name, p.Active))
	}
	return out
}

func portraitOfNode(n *corev1.Node) string {
	labels, annotations := maps.Clone(n.Labels), maps.Clone(n.Annotations)
	delete(labels, corev1.LabelHostname)
	for _, timed := range []string{v1alpha1.AnnotationDraining, v1alpha1.AnnotationWarmed, v1alpha1.AnnotationRestoredFrom} {
		if _, ok := annotations[timed]; ok {
			annotations[timed] = "*"
		}
	}
	if len(annotations) == 0 {
		annotations = nil
	}
	var taints []string
	for _, t := range n.Spec.Taints {
		taints = append(taints, t.ToString())
	}
	slices.Sort(taints)
	return fmt.Sprintf("node of %s%s: labels %v, annotations %v, taints %v, cordoned %t, ready %t", n.Labels["group"], n.Labels[karpv1.NodePoolLabelKey],
		labels, annotations, taints, n.Spec.Unschedulable, nodeReady(n))
}

// differences lists the lines that one has and the other has not.
func differences(got, want []string) []string {
	var out []string
	count := map[string]int{}
	for _, l := range want {
		count[l]++
	}
	for _, l := range got {
		count[l]--
	}
	for _, l := range slices.Sorted(maps.Keys(count)) {
		for range count[l] {
			out = append(out, "missing: "+l)
		}
		for range -count[l] {
			out = append(out, "instead: "+l)
		}
	}
	return out
}

// rest is what is wrong with a world that should be at rest: a pool without exactly one scaler, pods without a node, a
// snapshot that changed, or a controller that still writes.
func (w *world) rest() []string {
	w.hook, w.fault = nil, nil
	var wrong []string
	writes, before := w.effects()-w.calls["HoldLease"], w.migration()
	r := w.reconciler()
	for range 3 {
		if _, err, _ := reconcileOnce(r); err != nil {
			wrong = append(wrong, "a look at rest fails: "+err.Error())
		}
		w.advance(20 * time.Second)
	}
	if n := w.effects() - w.calls["HoldLease"] - writes; n > 0 {
		wrong = append(wrong, fmt.Sprintf("%d effects at rest", n))
	}
	if after := w.migration(); before != nil && before != after {
		wrong = append(wrong, "status written at rest: "+cmp.Diff(before.Status, after.Status))
	}
	for _, pool := range testPools {
		if w.scales(pool) == w.serves(pool) {
			wrong = append(wrong, fmt.Sprintf("pool %s at rest: Cluster Autoscaler %t, Karpenter %t", pool, w.scales(pool), w.serves(pool)))
		}
		if w.homeless[pool] > 0 {
			wrong = append(wrong, fmt.Sprintf("%d pods of %s have no node", w.homeless[pool], pool))
		}
	}
	if w.halts() || w.migration() == nil {
		wrong = append(wrong, w.fenced()...)
	}
	if w.snapshot != nil && digest(w.snapshot) != w.saved {
		wrong = append(wrong, "the snapshot is not the one that was saved")
	}
	return append(wrong, w.broken...)
}

// fenced are the nodes that a pause should have put back in service, as they were before castoff fenced or cordoned them.
func (w *world) fenced() []string {
	var out []string
	for _, n := range w.nodes() {
		if tainted(n, v1alpha1.TaintLegacy) || n.Annotations[v1alpha1.AnnotationCordonedBy] != "" || n.Annotations[v1alpha1.AnnotationDraining] != "" || n.Annotations[v1alpha1.AnnotationWarmed] != "" ||
			n.Labels[corev1.LabelNodeExcludeBalancers] != "" || n.Labels[v1alpha1.LabelScaler] != "" {
			out = append(out, "not in service after a pause: "+portraitOfNode(n))
		}
	}
	return out
}

func digest(s *inventory.Snapshot) string {
	b, err := json.Marshal(struct {
		Index  *inventory.Snapshot
		Groups []inventory.GroupSnapshot
	}{s, s.Groups})
	if err != nil {
		return err.Error()
	}
	return string(b)
}
