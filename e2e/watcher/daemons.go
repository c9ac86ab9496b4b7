package watcher

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"github.com/castoff-sh/castoff/api/v1alpha1"
)

// place is a node that a DaemonSet's pod belongs on.
type place struct {
	node string
	set  types.NamespacedName
}

// daemons knows since when which place is empty.
type daemons struct {
	settle time.Duration
	sets   map[types.NamespacedName]*appsv1.DaemonSet
	pods   map[place]map[types.UID]bool // running
	empty  map[place]time.Time
	told   map[place]bool // this episode is in missed
	missed []string
}

func newDaemons(settle time.Duration) daemons {
	return daemons{
		settle: settle, sets: map[types.NamespacedName]*appsv1.DaemonSet{}, pods: map[place]map[types.UID]bool{},
		empty: map[place]time.Time{}, told: map[place]bool{},
	}
}

func (d *daemons) observePod(pod *corev1.Pod, deleted bool) {
	at := place{node: pod.Spec.NodeName, set: types.NamespacedName{Namespace: pod.Namespace, Name: daemonOf(pod)}}
	if d.pods[at] == nil {
		d.pods[at] = map[types.UID]bool{}
	}
	running := pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil
	setOrDelete(d.pods[at], pod.UID, true, deleted || !running)
}

// advance counts the places that have been empty for too long, each episode once.
func (d *daemons) advance(to time.Time) {
	for at, since := range d.empty {
		if to.Sub(since) > d.settle && !d.told[at] {
			d.told[at] = true
			d.missed = append(d.missed, fmt.Sprintf("%s node %s is without a pod of DaemonSet %s for more than %s", clockTime(since), at.node, at.set, d.settle))
		}
	}
}

// mark says whether the place lacks its pod.
func (d *daemons) mark(at place, lacking bool, now time.Time) {
	if !lacking {
		delete(d.empty, at)
		delete(d.told, at)
	} else if d.empty[at].IsZero() {
		d.empty[at] = now
	}
}

func (j *Judge) observeDaemonSet(at time.Time, set *appsv1.DaemonSet, deleted bool) {
	key := types.NamespacedName{Namespace: set.Namespace, Name: set.Name}
	if before := j.daemons.sets[key]; before != nil && !deleted && before.Generation != set.Generation {
		j.note(at, "DaemonSet %s is rolled", key)
	}
	setOrDelete(j.daemons.sets, key, set, deleted)
	for where := range j.daemons.empty {
		if deleted && where.set == key {
			j.daemons.mark(where, false, at)
		}
	}
	for node := range j.nodes {
		j.checkDaemons(at, node)
	}
}

// checkDaemons looks for every DaemonSet's pod on the node.
func (j *Judge) checkDaemons(at time.Time, name string) {
	node := j.nodes[name]
	for key, set := range j.daemons.sets {
		where := place{node: name, set: key}
		works := node != nil && node.DeletionTimestamp == nil && isReady(node.Status.Conditions) && j.drains.endings[j.instanceOf(name)] == nil
		j.daemons.mark(where, works && belongs(set, node) && len(j.daemons.pods[where]) == 0, at)
	}
}

// belongs says whether the DaemonSet's pod should be on the node. castoff's own fence is no excuse.
func belongs(set *appsv1.DaemonSet, node *corev1.Node) bool {
	pod := &corev1.Pod{Spec: *set.Spec.Template.Spec.DeepCopy()}
	matches, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node)
	if err != nil || !matches {
		return false
	}
	hard := func(t *corev1.Taint) bool {
		return t.Effect != corev1.TaintEffectPreferNoSchedule && t.Key != v1alpha1.TaintLegacy
	}
	_, untolerated := corev1helper.FindMatchingUntoleratedTaint(klog.Background(), node.Spec.Taints, slices.Concat(pod.Spec.Tolerations, daemonTolerations), hard, false)
	return !untolerated
}

// daemonTolerations are what the DaemonSet controller adds to every pod it makes.
var daemonTolerations = []corev1.Toleration{
	{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
	{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
	{Key: corev1.TaintNodeDiskPressure, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
	{Key: corev1.TaintNodeMemoryPressure, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
	{Key: corev1.TaintNodePIDPressure, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
	{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
}
