package watcher

import (
	"encoding/json"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/e2e/awssim/simapi"
)

// Measures say how long a shift took and what it cost, since Begin. They stand still once it is done.
type Measures struct {
	// Began is when every legacy node was cordoned: from then on pods can only move. Zero until then.
	Began time.Time
	// Done says that no legacy instance is left and that every workload has the Ready pods it wants.
	Done bool
	// Makespan is from Began until done, or until now.
	Makespan time.Duration
	// PodUnavailable is what workloads wanted minus what was Ready, over time: a pod that lacks for a second is a second.
	PodUnavailable time.Duration
	// PodPending is the time that the workloads' pods were on no node, all pods together.
	PodPending time.Duration
	// DoublePaid is the time of running instances beyond those there were at Begin, all together.
	DoublePaid time.Duration
	// FloorBreaches counts moments in which a voluntary disruption took a budget below its floor.
	FloorBreaches int
	// MovedPods counts the workloads' pods that left legacy nodes.
	MovedPods int
	// Evicted and Refused count the answers to the evictions that castoff, or who is in its place, asked for.
	Evicted, Refused int
	// KubernetesWrites that succeeded, and AWSCalls: castoff's, evictions and a held Lease aside.
	KubernetesWrites, AWSCalls int
	// StatusBytes is the largest Migration status seen, as JSON.
	StatusBytes int
}

// workload is something that wants a number of Ready pods.
type workload struct {
	namespace     string
	selector      labels.Selector
	wanted, ready int32
}

func (w *workload) lacks() int { return int(max(0, w.wanted-w.ready)) }

// workloadKey tells a Deployment from a StatefulSet of the same name.
type workloadKey struct {
	kind string
	name types.NamespacedName
}

// share is what a pod counts for.
type share struct {
	of                     *workload
	ready, pending, legacy bool
}

// meter integrates. It keeps sums, so that an observation costs the same in a large cluster.
type meter struct {
	sum       Measures
	workloads map[workloadKey]*workload
	shares    map[types.UID]share
	paid      map[string]bool // running instances
	legacy    map[string]bool // those of them that belong to a migrating group
	baseline  int             // running instances at Begin

	lacking, pending int
}

func newMeter() meter {
	return meter{workloads: map[workloadKey]*workload{}, shares: map[types.UID]share{}, paid: map[string]bool{}, legacy: map[string]bool{}}
}

// begin opens a new account on what is known.
func (m *meter) begin() { m.sum, m.baseline = Measures{}, len(m.paid) }

// advance lets time pass.
func (m *meter) advance(from, to time.Time) {
	if m.sum.Done {
		return
	}
	passed := to.Sub(from)
	m.sum.PodUnavailable += time.Duration(m.lacking) * passed
	m.sum.PodPending += time.Duration(m.pending) * passed
	m.sum.DoublePaid += time.Duration(max(0, len(m.paid)-m.baseline)) * passed
	if !m.sum.Began.IsZero() {
		m.sum.Makespan = to.Sub(m.sum.Began)
	}
}

// settle notes the end: it is asked after every observation that may have brought it.
func (m *meter) settle() {
	if !m.sum.Began.IsZero() && len(m.legacy) == 0 && m.lacking == 0 {
		m.sum.Done = true
	}
}

// setWorkload takes in a Deployment or StatefulSet; those of the system are nobody's workload.
func (j *Judge) setWorkload(kind string, object metav1.Object, replicas *int32, selector *metav1.LabelSelector, deleted bool) {
	namespace := object.GetNamespace()
	if namespace == j.config.CastoffNamespace || namespace == j.config.AutoscalerNamespace {
		return
	}
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return
	}
	m, key := &j.meter, workloadKey{kind: kind, name: types.NamespacedName{Namespace: namespace, Name: object.GetName()}}
	known, before := m.workloads[key]
	if !before {
		known = &workload{namespace: namespace, selector: parsed}
		m.workloads[key] = known
	}
	m.lacking -= known.lacks()
	known.wanted = 1
	if replicas != nil {
		known.wanted = *replicas
	}
	if deleted {
		known.wanted = 0
		delete(m.workloads, key)
	}
	m.lacking += known.lacks()
	if before != deleted { // its selector never changes
		return
	}
	for _, pod := range j.pods {
		if pod.Namespace == namespace {
			j.measurePod(pod, false)
		}
	}
}

// measurePod counts a pod anew.
func (j *Judge) measurePod(pod *corev1.Pod, deleted bool) {
	m := &j.meter
	old, known := m.shares[pod.UID]
	now := share{of: m.workloadOf(pod), legacy: old.legacy || j.legacyGroup(pod.Spec.NodeName) != ""}
	if !deleted {
		now.ready = j.healthy(pod)
		now.pending = now.of != nil && pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil && !finished(pod)
	}
	m.move(old, now)
	switch {
	case !deleted:
		m.shares[pod.UID] = now
	case known:
		delete(m.shares, pod.UID)
		if now.of != nil && now.legacy && !m.sum.Done {
			m.sum.MovedPods++
		}
	}
	m.settle()
}

// move puts a pod's new share in the old one's place.
func (m *meter) move(old, now share) {
	add := func(s share, sign int) {
		if s.of != nil && s.ready {
			m.lacking -= s.of.lacks()
			s.of.ready += int32(sign)
			m.lacking += s.of.lacks()
		}
		if s.pending {
			m.pending += sign
		}
	}
	add(old, -1)
	add(now, 1)
}

// workloadOf is nil for a pod that none selects.
func (m *meter) workloadOf(pod *corev1.Pod) *workload {
	if share, known := m.shares[pod.UID]; known && share.of != nil {
		return share.of
	}
	for _, w := range m.workloads {
		if w.namespace == pod.Namespace && w.selector.Matches(labels.Set(pod.Labels)) {
			return w
		}
	}
	return nil
}

// measureInstance counts what is paid for, and what of it is to go.
func (j *Judge) measureInstance(instance simapi.Instance) {
	m := &j.meter
	group := groupOf(instance.NodeGroup, instance.AutoScalingGroup)
	setOrDelete(m.paid, instance.ID, true, instance.State != "running")
	setOrDelete(m.legacy, instance.ID, true, group == "" || group == j.config.Home || over(instance))
}

// measureCordons begins the shift once no legacy node takes pods any more.
func (j *Judge) measureCordons(at time.Time) {
	if !j.meter.sum.Began.IsZero() || len(j.meter.legacy) == 0 {
		return
	}
	cordoned := 0
	for name, node := range j.nodes {
		if !j.meter.legacy[j.instanceOf(name)] {
			continue
		}
		if !node.Spec.Unschedulable {
			return
		}
		cordoned++
	}
	if cordoned > 0 {
		j.meter.sum.Began = at
	}
}

// measureStatus notes how large the status is.
func (m *meter) measureStatus(migration *v1alpha1.Migration) {
	if body, err := json.Marshal(migration.Status); err == nil {
		m.sum.StatusBytes = max(m.sum.StatusBytes, len(body))
	}
}

// measureEviction counts the answer to an eviction.
func (m *meter) measureEviction(event AuditEvent) {
	switch {
	case succeeded(event):
		m.sum.Evicted++
	case event.ResponseStatus.Code == 429:
		m.sum.Refused++
	}
}

func (j *Judge) observeStatefulSet(set *appsv1.StatefulSet, deleted bool) {
	j.setWorkload("StatefulSet", set, set.Spec.Replicas, set.Spec.Selector, deleted)
}

// Measures tells what was measured until that moment. Audit log and call log must have been read to their ends before.
func (j *Judge) Measures(at time.Time) Measures {
	j.advance(at)
	sum := j.meter.sum
	sum.FloorBreaches, sum.AWSCalls = len(j.brokenBudgets()), j.calls.counts.AWS
	return sum
}
