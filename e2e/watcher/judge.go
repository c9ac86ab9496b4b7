// Package watcher judges a migration from outside. It never reads what castoff says of itself, its phase aside: it goes
// by its own watches, the API server's audit log and the AWS simulator's side door.
//
// Judge is the core, a state machine that is fed observations; Watcher feeds it from a running lab.
package watcher

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/e2e/awssim/simapi"
)

// Config tells the judge what is being migrated. Groups go by their own name, managed node groups by EKS' name.
type Config struct {
	// Pools says which pool each migrating group belongs to.
	Pools map[string]string
	// Home is the group that stays.
	Home string
	// CastoffUser is castoff's name in the audit log. Default: its ServiceAccount's.
	CastoffUser string
	// CastoffNamespace holds castoff's own pods, which it may delete. Default castoff-system.
	CastoffNamespace string
	// CastoffRole is the name of the IAM role castoff's AWS calls are made with, or of an IAM user.
	CastoffRole string
	// EngineUser is Karpenter's name in the audit log: it may delete NodeClaims that pods run on, for it drains them.
	// Default: the ServiceAccount of its chart.
	EngineUser string
	// AutoscalerNamespace and AutoscalerLease say where Cluster Autoscaler's Lease and status are.
	AutoscalerNamespace string
	AutoscalerLease     string
	Limits              Limits
}

func (c Config) withDefaults() Config {
	c.CastoffNamespace = word(c.CastoffNamespace, "castoff-system")
	c.CastoffUser = word(c.CastoffUser, "system:serviceaccount:"+c.CastoffNamespace+":castoff")
	c.EngineUser = word(c.EngineUser, "system:serviceaccount:kube-system:karpenter")
	c.AutoscalerNamespace = word(c.AutoscalerNamespace, "kube-system")
	c.AutoscalerLease = word(c.AutoscalerLease, "cluster-autoscaler")
	c.Limits = c.Limits.withDefaults()
	return c
}

// Gone wraps an object that was deleted.
type Gone struct{ Object any }

// Note is an event worth reading.
type Note struct {
	Time time.Time
	Text string
}

// Judge holds what was observed. It is not safe for concurrent use, and reads no clock: time comes with observations.
type Judge struct {
	config Config
	last   time.Time
	notes  []Note

	since          time.Time // of the account, see Begin
	started, ended time.Time // of the Migration
	phase          string
	conditions     map[string]string

	pods     map[types.UID]*corev1.Pod
	vanished map[types.UID]time.Time
	nodes    map[string]*corev1.Node
	budgets  map[types.NamespacedName]*policyv1.PodDisruptionBudget
	claims   map[string]*karpv1.NodeClaim

	scalers scalers
	drains  drains
	daemons daemons
	calls   calls
	meter   meter
}

// NewJudge returns a judge that has seen nothing.
func NewJudge(config Config) *Judge {
	config = config.withDefaults()
	return &Judge{
		config: config, conditions: map[string]string{},
		pods: map[types.UID]*corev1.Pod{}, vanished: map[types.UID]time.Time{}, nodes: map[string]*corev1.Node{},
		budgets: map[types.NamespacedName]*policyv1.PodDisruptionBudget{}, claims: map[string]*karpv1.NodeClaim{},
		scalers: newScalers(config), drains: newDrains(), daemons: newDaemons(config.Limits.DaemonSettle), calls: newCalls(config),
		meter: newMeter(),
	}
}

// Observe takes in what was seen at that moment and returns what is worth reading about it. Moments must not go back.
// It knows Kubernetes objects (Gone when deleted), AuditEvent, and the simulator's Call, Instance and []Group.
func (j *Judge) Observe(at time.Time, what any) []Note {
	j.advance(at)
	j.notes = nil
	gone, deleted := what.(Gone)
	if deleted {
		what = gone.Object
	}
	switch object := what.(type) {
	case *corev1.Pod:
		j.observePod(at, object, deleted)
	case *corev1.Node:
		j.observeNode(at, object, deleted)
	case *policyv1.PodDisruptionBudget:
		setOrDelete(j.budgets, types.NamespacedName{Namespace: object.Namespace, Name: object.Name}, object, deleted)
	case *appsv1.DaemonSet:
		j.observeDaemonSet(at, object, deleted)
	case *appsv1.Deployment:
		j.observeDeployment(at, object, deleted)
	case *appsv1.StatefulSet:
		j.observeStatefulSet(object, deleted)
	case *coordinationv1.Lease:
		j.observeLease(at, object, deleted)
	case *corev1.ConfigMap:
		j.observeStatus(at, object, deleted)
	case *karpv1.NodePool:
		j.observeNodePool(at, object, deleted)
	case *karpv1.NodeClaim:
		j.observeClaim(at, object, deleted)
	case *v1alpha1.Migration:
		j.observeMigration(at, object, deleted)
	default:
		j.observeOutside(at, what)
	}
	return j.notes
}

// observeOutside takes in what does not come from a Kubernetes watch.
func (j *Judge) observeOutside(at time.Time, what any) {
	switch event := what.(type) {
	case AuditEvent:
		j.observeAudit(at, event)
	case simapi.Call:
		j.calls.aws(event)
	case simapi.Instance:
		j.observeInstance(at, event)
	case []simapi.Group:
		j.scalers.setGroups(event)
	}
}

// advance lets time pass on what is known.
func (j *Judge) advance(to time.Time) {
	if !j.last.IsZero() {
		j.scalers.advance(j.last, to)
		j.meter.advance(j.last, to)
		j.daemons.advance(to)
	}
	j.last = to
}

func (j *Judge) note(at time.Time, format string, args ...any) {
	j.notes = append(j.notes, Note{Time: at, Text: fmt.Sprintf(format, args...)})
}

// Begin opens a new account at that moment: what was broken, who was without a scaler and what was called before it is
// not in later reports. What is known of the world stays.
func (j *Judge) Begin(at time.Time) {
	j.advance(at)
	j.since, j.started, j.ended = at, at, time.Time{}
	j.drains.drops, j.daemons.missed, j.calls.deleted, j.calls.counts = nil, nil, nil, APICalls{}
	for _, tally := range j.scalers.tallies {
		tally.unserved, tally.double = 0, 0
	}
	j.meter.begin()
	j.measureCordons(at)
}

func (j *Judge) observeMigration(at time.Time, m *v1alpha1.Migration, deleted bool) {
	j.meter.measureStatus(m)
	if j.started.IsZero() {
		j.started = m.CreationTimestamp.Time
	}
	phase := string(m.Status.Phase)
	if deleted {
		phase = ""
	}
	if phase != j.phase {
		j.phase = phase
		j.note(at, "phase %s", word(phase, "none, the Migration is gone"))
		if (phase == completed || phase == rolledBack) && j.ended.IsZero() {
			j.ended = at
		}
	}
	for _, c := range m.Status.Conditions {
		j.observeCondition(at, c)
	}
}

// observeCondition tells changes, for whoever reads along; nothing is judged by them. Ready and Reconciling say what the
// phase says already, and a condition that begins without being True is no news.
func (j *Judge) observeCondition(at time.Time, c metav1.Condition) {
	state := fmt.Sprintf("%s=%s (%s)", c.Type, c.Status, c.Reason)
	before, known := j.conditions[c.Type]
	j.conditions[c.Type] = state
	if state == before || !known && c.Status != metav1.ConditionTrue || c.Type == v1alpha1.ConditionReady || c.Type == v1alpha1.ConditionReconciling {
		return
	}
	j.note(at, "%s %s", state, c.Message)
}

func (j *Judge) observePod(at time.Time, pod *corev1.Pod, deleted bool) {
	before := j.pods[pod.UID]
	if deleted {
		j.vanished[pod.UID] = at
	}
	setOrDelete(j.pods, pod.UID, pod, deleted)
	if isAutoscaler(pod.Spec.Containers) {
		j.scalers.observePod(pod, deleted)
	}
	if before != nil && j.healthy(before) && (deleted || !j.healthy(pod)) {
		j.dropped(at, pod)
	}
	j.measurePod(pod, deleted)
	if owner := daemonOf(pod); owner != "" {
		j.daemons.observePod(pod, deleted)
		j.checkDaemons(at, pod.Spec.NodeName)
	}
}

func (j *Judge) observeNode(at time.Time, node *corev1.Node, deleted bool) {
	before := j.nodes[node.Name]
	if deleted {
		j.note(at, "node %s left (%s)", node.Name, j.origin(node))
	}
	setOrDelete(j.nodes, node.Name, node, deleted)
	if !deleted && isReady(node.Status.Conditions) && (before == nil || !isReady(before.Status.Conditions)) {
		j.note(at, "node %s is Ready (%s, %s)", node.Name, j.origin(node), word(node.Labels[corev1.LabelInstanceTypeStable], "type unknown"))
	}
	if !deleted && before != nil && !before.Spec.Unschedulable && node.Spec.Unschedulable {
		j.noteCordons(at, j.legacyGroup(node.Name))
	}
	j.measureCordons(at)
	j.checkDaemons(at, node.Name)
}

// noteCordons tells when the last node of a group was cordoned.
func (j *Judge) noteCordons(at time.Time, group string) {
	members := 0
	for name, node := range j.nodes {
		if j.legacyGroup(name) != group {
			continue
		}
		if !node.Spec.Unschedulable {
			return
		}
		members++
	}
	if group != "" {
		j.note(at, "all %d nodes of %s are cordoned", members, group)
	}
}

// origin names who made the node.
func (j *Judge) origin(node *corev1.Node) string {
	if pool := node.Labels[karpv1.NodePoolLabelKey]; pool != "" {
		return "NodePool " + pool
	}
	instance := j.drains.instances[j.instanceOf(node.Name)]
	return "group " + word(groupOf(instance.NodeGroup, instance.AutoScalingGroup), "unknown")
}

// Report tells what is known at that moment. Audit log and call log must have been read to their ends before.
func (j *Judge) Report(at time.Time) Report {
	j.advance(at)
	report := Report{
		Phase: j.phase, NodeClaims: len(j.claims), limits: j.config.Limits,
		PodsDeletedByCastoff: len(j.calls.deleted), DaemonPodsMissing: len(j.daemons.missed),
		CAReplicas: j.scalers.replicas(), CastoffAPICalls: j.calls.counts,
	}
	if !j.started.IsZero() {
		end := j.ended
		if end.IsZero() {
			end = at
		}
		report.Seconds = end.Sub(j.started).Seconds()
	}
	report.UnservedSeconds, report.DoubleServedSeconds, report.atRest = j.scalers.judge(at)
	report.Groups, report.managed = j.scalers.sizes()
	j.countPods(&report)
	budgets, undrained := j.brokenBudgets(), slices.Concat(j.endedUndrained(), j.claimsDeletedUndrained())
	report.PDBViolations, report.InstancesEndedUndrained = len(budgets), len(undrained)
	report.details = slices.Concat(budgets, undrained, j.calls.deleted, j.daemons.missed)
	slices.Sort(report.details) // they begin with the time
	return report
}

func (j *Judge) countPods(report *Report) {
	for _, pod := range j.pods {
		if finished(pod) || pod.Labels[v1alpha1.LabelPlaceholder] != "" {
			continue
		}
		if !isPodReady(pod) {
			report.PodsNotReady++
		}
		if pool := j.legacyGroup(pod.Spec.NodeName); pool != "" && evictable(pod) {
			report.PodsOnLegacyNodes++
		}
	}
}

// legacyGroup is the migrating group that the node belongs to, empty if none.
func (j *Judge) legacyGroup(node string) string {
	instance, known := j.drains.instances[j.instanceOf(node)]
	if group := groupOf(instance.NodeGroup, instance.AutoScalingGroup); known && group != j.config.Home {
		return group
	}
	return ""
}

func setOrDelete[K comparable, V any](m map[K]V, key K, value V, deleted bool) {
	if deleted {
		delete(m, key)
		return
	}
	m[key] = value
}

// clockTime is how details begin, so that they sort by time.
func clockTime(at time.Time) string { return at.UTC().Format("15:04:05.000") }
