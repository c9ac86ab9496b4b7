package watcher

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/e2e/awssim/simapi"
)

// slack is how far a watch may be behind the audit log or the simulator when both tell of the same thing.
const slack = 5 * time.Second

// drains remembers what was disrupted. Who did it is settled in the report, once the audit log is complete.
type drains struct {
	instances map[string]simapi.Instance
	endings   map[string]*ending // by instance
	claims    map[string]*ending // by the name of a NodeClaim that is being deleted
	drops     []drop
}

// ending is the end of an instance of a node group, and the pods a drain should have waited for.
type ending struct {
	instance simapi.Instance
	at       time.Time
	pods     []*corev1.Pod
}

// drop is a moment in which a budget was below its floor because a pod went.
type drop struct {
	at             time.Time
	budget         types.NamespacedName
	pod            *corev1.Pod
	healthy, floor int32
}

func newDrains() drains {
	return drains{instances: map[string]simapi.Instance{}, endings: map[string]*ending{}, claims: map[string]*ending{}}
}

// observeClaim remembers who was on the node when its NodeClaim's deletion began.
func (j *Judge) observeClaim(at time.Time, claim *karpv1.NodeClaim, deleted bool) {
	setOrDelete(j.claims, claim.Name, claim, deleted)
	if j.drains.claims[claim.Name] != nil || !deleted && claim.DeletionTimestamp == nil {
		return
	}
	end := &ending{at: at}
	j.drains.claims[claim.Name] = end
	for _, pod := range j.podsOn(lastPart(claim.Status.ProviderID)) {
		if evictable(pod) && pod.Labels[v1alpha1.LabelCanary] == "" {
			end.pods = append(end.pods, pod)
		}
	}
}

// instanceOf is the ID at the end of the node's provider ID.
func (j *Judge) instanceOf(node string) string {
	if n := j.nodes[node]; n != nil {
		return lastPart(n.Spec.ProviderID)
	}
	return ""
}

func lastPart(providerID string) string { return providerID[strings.LastIndex(providerID, "/")+1:] }

func (j *Judge) observeInstance(at time.Time, instance simapi.Instance) {
	j.drains.instances[instance.ID] = instance
	j.measureInstance(instance)
	if !over(instance) || j.drains.endings[instance.ID] != nil {
		return
	}
	end := &ending{instance: instance, at: at}
	j.drains.endings[instance.ID] = end
	for _, pod := range j.podsOn(instance.ID) {
		if evictable(pod) {
			end.pods = append(end.pods, pod)
		}
	}
	if group := groupOf(instance.NodeGroup, instance.AutoScalingGroup); group != "" {
		j.note(at, "instance %s of %s is ended by %s", instance.ID, group, brief(instance.EndedBy))
	}
	// Its pods are dead now, whatever the API server still says of them.
	for _, pod := range j.podsOn(instance.ID) {
		if ready(pod) {
			j.dropped(at, pod)
			j.measurePod(pod, false)
		}
	}
	j.meter.settle()
	j.checkDaemons(at, j.nodeOf(instance.ID))
}

// brief is who ended an instance, as much of it as fits a line: the role or user of an ARN, and the operation.
func brief(who string) string {
	if arn, operation, ok := strings.Cut(who, " "); ok && strings.HasPrefix(arn, "arn:") {
		if parts := strings.Split(arn, "/"); len(parts) > 1 {
			return parts[1] + ", " + operation
		}
	}
	const line = 60
	if len(who) > line {
		who = who[:line] + "…"
	}
	return word(who, "nobody known")
}

func over(instance simapi.Instance) bool {
	return instance.State == "shutting-down" || instance.State == "terminated"
}

// legacyEnded counts the ended instances of the groups that migrate.
func (j *Judge) legacyEnded() int {
	count := 0
	for _, end := range j.drains.endings {
		if group := groupOf(end.instance.NodeGroup, end.instance.AutoScalingGroup); group != "" && group != j.config.Home && !end.at.Before(j.since) {
			count++
		}
	}
	return count
}

func (j *Judge) nodeOf(instanceID string) string {
	for name := range j.nodes {
		if j.instanceOf(name) == instanceID {
			return name
		}
	}
	return ""
}

// podsOn are the instance's pods in the order of their names.
func (j *Judge) podsOn(instanceID string) []*corev1.Pod {
	var pods []*corev1.Pod
	node := j.nodeOf(instanceID)
	if node == "" {
		return nil
	}
	for _, pod := range j.pods {
		if pod.Spec.NodeName == node {
			pods = append(pods, pod)
		}
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name) })
	return pods
}

// ready says what a budget counts: Ready, and not on its way out.
func ready(pod *corev1.Pod) bool {
	return isPodReady(pod) && pod.DeletionTimestamp == nil
}

// healthy is ready, on a node whose instance lives.
func (j *Judge) healthy(pod *corev1.Pod) bool {
	return ready(pod) && j.drains.endings[j.instanceOf(pod.Spec.NodeName)] == nil
}

// dropped looks at the budgets of a pod that is no longer healthy. The floor is the disruption controller's own number.
func (j *Judge) dropped(at time.Time, pod *corev1.Pod) {
	for key, budget := range j.budgets {
		if key.Namespace != pod.Namespace || !selects(budget.Spec.Selector, pod) {
			continue
		}
		healthy := int32(0)
		for _, other := range j.pods {
			if other.UID != pod.UID && other.Namespace == key.Namespace && j.healthy(other) && selects(budget.Spec.Selector, other) {
				healthy++
			}
		}
		if floor := budget.Status.DesiredHealthy; healthy < floor {
			j.drains.drops = append(j.drains.drops, drop{at: at, budget: key, pod: pod, healthy: healthy, floor: floor})
		}
	}
}

func selects(selector *metav1.LabelSelector, pod *corev1.Pod) bool {
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && parsed.Matches(labels.Set(pod.Labels))
}

// brokenBudgets are the drops that somebody caused: an eviction, a delete, or the end of the node.
func (j *Judge) brokenBudgets() []string {
	var broken []string
	for _, d := range j.drains.drops {
		if cause := j.cause(d); cause != "" {
			broken = append(broken, fmt.Sprintf("%s PodDisruptionBudget %s: %d healthy, floor %d, when pod %s went by %s",
				clockTime(d.at), d.budget, d.healthy, d.floor, d.pod.Name, cause))
		}
	}
	return broken
}

// cause is empty for what no budget is meant to stop: a container that fails, a controller that rolls or scales its own pods.
func (j *Judge) cause(d drop) string {
	if end := j.drains.endings[j.drains.nodeInstance(j, d.pod)]; end != nil && end.at.Before(d.at.Add(slack)) {
		return "the end of its instance, " + brief(end.instance.EndedBy)
	}
	record := j.calls.removalOf(d.pod, d.at)
	if record != nil {
		if byWorkload(record.User) {
			return ""
		}
		return record.User + " (" + record.Verb + ")"
	}
	if gone, vanished := j.vanished[d.pod.UID]; vanished && gone.Before(d.at.Add(slack)) || d.pod.DeletionTimestamp != nil {
		return "nobody in the audit log"
	}
	return ""
}

// nodeInstance finds the instance of a pod's node, of a node that has left too.
func (d *drains) nodeInstance(j *Judge, pod *corev1.Pod) string {
	if id := j.instanceOf(pod.Spec.NodeName); id != "" {
		return id
	}
	for id, end := range d.endings {
		if end.instance.PrivateDNSName == pod.Spec.NodeName {
			return id
		}
	}
	return ""
}

// endedUndrained are the instances of node groups that ended while an evictable pod was bound to them.
func (j *Judge) endedUndrained() []string {
	var undrained []string
	for id, end := range j.drains.endings {
		group := groupOf(end.instance.NodeGroup, end.instance.AutoScalingGroup)
		left := j.left(end, end.at)
		if group != "" && len(left) > 0 && !end.at.Before(j.since) {
			undrained = append(undrained, fmt.Sprintf("%s instance %s of %s was ended by %s with %d pods on it: %s",
				clockTime(end.at), id, group, brief(end.instance.EndedBy), len(left), strings.Join(left, ", ")))
		}
	}
	return undrained
}

// claimsDeletedUndrained are the NodeClaims whose node had an evictable pod when somebody deleted them. Karpenter itself
// deletes first and drains then, and is left to it.
func (j *Judge) claimsDeletedUndrained() []string {
	var undrained []string
	for name, end := range j.drains.claims {
		who, at := word(j.calls.claims[name].User, "nobody in the audit log"), end.at
		if stamp := j.calls.claims[name].StageTimestamp; !stamp.IsZero() && stamp.Before(at) {
			at = stamp
		}
		left := j.left(end, at)
		if who == j.config.EngineUser || len(left) == 0 || end.at.Before(j.since) {
			continue
		}
		undrained = append(undrained, fmt.Sprintf("%s NodeClaim %s was deleted by %s with %d pods on its node: %s", clockTime(at), name, who, len(left), strings.Join(left, ", ")))
	}
	return undrained
}

// left are the pods that were still on the node at that time.
func (j *Judge) left(end *ending, at time.Time) []string {
	var left []string
	for _, pod := range end.pods {
		if !j.goneBy(pod, at) {
			left = append(left, pod.Namespace+"/"+pod.Name)
		}
	}
	return left
}

// goneBy says whether the pod had left by then. The audit log's time decides, for a watch may tell it late.
func (j *Judge) goneBy(pod *corev1.Pod, at time.Time) bool {
	seen, vanished := j.vanished[pod.UID]
	if !vanished {
		return false
	}
	if record := j.calls.lastRemovalOf(pod, seen); record != nil {
		return !record.StageTimestamp.After(at)
	}
	return !seen.After(at)
}
