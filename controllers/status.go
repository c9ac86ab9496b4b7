package controllers

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/plan"
)

// The bounds of the API's lists and strings (api/v1alpha1/status_types.go).
const (
	maxBlockers = 20
	maxMessage  = 1024
	maxObject   = 512
	maxSummary  = 256
	maxError    = 512
	// maxCondition is apimachinery's bound of a condition's message, cut shorter.
	maxCondition = 2048
	// maxStatus is what the whole status takes at most, in bytes of JSON: each of the bounds above may be reached, not all of
	// them at once.
	maxStatus = 64 << 10
)

// project writes a decision into the status. It is the only writer of conditions and counters.
func (r *Reconciler) project(m *v1alpha1.Migration, w plan.World, d plan.Decision) {
	s := &m.Status
	s.ObservedGeneration = m.Generation
	s.Phase, s.Home = d.Phase, cut(w.Home, maxSummary)
	s.Pools, s.Waves, s.Operations = d.Pools, d.Waves, d.Operations
	s.Blockers = bounded(d.Blockers)
	s.BlockedBy = summary(d.Blockers)
	s.PoolsDone, s.NodesDone = counters(d.Pools)
	for _, c := range d.Conditions {
		c.ObservedGeneration = m.Generation
		c.Message = cut(c.Message, maxCondition)
		r.setCondition(m, c)
	}
	r.setTimes(m, w, d)
}

func (r *Reconciler) setCondition(m *v1alpha1.Migration, c metav1.Condition) {
	c.LastTransitionTime = metav1.NewTime(r.Observer.Clock().Truncate(time.Second))
	meta.SetStatusCondition(&m.Status.Conditions, c)
}

func (r *Reconciler) setTimes(m *v1alpha1.Migration, w plan.World, d plan.Decision) {
	s := &m.Status
	if w.Snapshot != nil {
		s.Snapshot = &v1alpha1.SnapshotReference{
			ObjectReference: v1alpha1.ObjectReference{Namespace: r.Options.Namespace, Name: snapshotName(m)}, SHA256: w.SnapshotSHA256,
		}
		if s.StartTime == nil {
			t := metav1.NewTime(w.Snapshot.Taken.Truncate(time.Second))
			s.StartTime = &t
		}
	}
	switch {
	case d.Phase != v1alpha1.PhaseCompleted && d.Phase != v1alpha1.PhaseRolledBack:
		s.CompletionTime = nil
	case s.CompletionTime == nil && meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionReady):
		t := metav1.NewTime(r.Observer.Clock().Truncate(time.Second))
		s.CompletionTime = &t
	}
	s.EstimatedCompletionTime = nil
	if !d.ETA.IsZero() {
		t := metav1.NewTime(d.ETA)
		s.EstimatedCompletionTime = &t
	}
}

// report adds what became of the actions: the words of what failed, and what the passes found on the nodes.
func (r *Reconciler) report(m *v1alpha1.Migration, results []result) {
	r.failed = map[string]error{}
	for _, res := range results {
		if res.drain != nil {
			m.Status.Blockers = bounded(append(plan.DrainBlockers(poolOf(res.action), *res.drain), m.Status.Blockers...))
		}
		if res.err == nil {
			continue
		}
		recordError(m, res)
		r.failed[actionObject(res.action)] = res.err
		r.complain(m, res.action, res.err)
	}
	r.datePassBlockers(m)
	m.Status.BlockedBy = summary(m.Status.Blockers)
}

// expect says of actions that failed at the last look, and are to be tried again, what was said then: whoever reads the status
// meanwhile must not take the trial for a success.
func (r *Reconciler) expect(m *v1alpha1.Migration, actions []plan.Action) {
	for _, a := range actions {
		if err := r.failed[actionObject(a)]; err != nil {
			r.complain(m, a, err)
		}
	}
	m.Status.BlockedBy = summary(m.Status.Blockers)
}

// complain shows that an action failed.
func (r *Reconciler) complain(m *v1alpha1.Migration, a plan.Action, err error) {
	class := inventory.ClassOf(err)
	if class == inventory.ClassThrottled {
		return
	}
	severity := v1alpha1.SeverityWait
	if class == inventory.ClassTerminal {
		severity = v1alpha1.SeverityBlock
		r.stall(m, err)
	}
	b := v1alpha1.Blocker{Severity: severity, Reason: v1alpha1.ReasonActionFailed, Object: actionObject(a), Message: err.Error()}
	b.Since = r.since[b.Reason+"|"+b.Object+"|"+b.Pool]
	m.Status.Blockers = bounded(append([]v1alpha1.Blocker{b}, m.Status.Blockers...))
}

// stall says that a human has to act: in all three conditions, so that none tells of work that goes on.
func (r *Reconciler) stall(m *v1alpha1.Migration, err error) {
	for _, c := range []metav1.Condition{
		{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse},
		{Type: v1alpha1.ConditionReconciling, Status: metav1.ConditionFalse},
		{Type: v1alpha1.ConditionStalled, Status: metav1.ConditionTrue},
	} {
		c.Reason, c.ObservedGeneration, c.Message = v1alpha1.ReasonActionFailed, m.Generation, cut(err.Error(), maxCondition)
		r.setCondition(m, c)
	}
}

// datePassBlockers gives a first-seen time to what the planner has not dated.
func (r *Reconciler) datePassBlockers(m *v1alpha1.Migration) {
	seen := map[string]bool{}
	out := m.Status.Blockers[:0]
	for _, b := range m.Status.Blockers {
		key := b.Reason + "|" + b.Object + "|" + b.Pool
		if seen[key] {
			continue
		}
		seen[key] = true
		if b.Since == nil {
			b.Since = r.since[key]
		}
		if b.Since == nil {
			t := metav1.NewTime(r.Observer.Clock().Truncate(time.Second))
			b.Since = &t
		}
		out = append(out, b)
	}
	m.Status.Blockers = out
	r.since = map[string]*metav1.Time{}
	for _, b := range out {
		r.since[b.Reason+"|"+b.Object+"|"+b.Pool] = b.Since
	}
}

func recordError(m *v1alpha1.Migration, res result) {
	l, ok := res.action.(plan.Ledgered)
	if !ok {
		return
	}
	kind, target, _ := l.Entry()
	for i := range m.Status.Operations {
		if m.Status.Operations[i].ID == kind+"/"+target {
			m.Status.Operations[i].Error = cut(res.err.Error(), maxError)
		}
	}
}

// fail writes that the world could not be looked at. What was known before stays: it is the best there is.
func (r *Reconciler) fail(m *v1alpha1.Migration, err error) {
	m.Status.ObservedGeneration = m.Generation
	reason, stalled := v1alpha1.ReasonObservationFailed, metav1.ConditionFalse
	if inventory.ClassOf(err) == inventory.ClassTerminal {
		stalled = metav1.ConditionTrue
	}
	if inventory.ClassOf(err) == inventory.ClassThrottled {
		reason = v1alpha1.ReasonThrottled
	}
	message := cut("castoff could not look at the cluster and changes nothing until it can: "+err.Error(), maxCondition)
	certain := map[string]metav1.ConditionStatus{
		v1alpha1.ConditionReady: metav1.ConditionFalse, v1alpha1.ConditionReconciling: metav1.ConditionTrue, v1alpha1.ConditionStalled: stalled,
	}
	for _, kind := range v1alpha1.ConditionTypes {
		status, known := certain[kind]
		if !known {
			status = metav1.ConditionUnknown
		}
		if known || meta.FindStatusCondition(m.Status.Conditions, kind) == nil {
			r.setCondition(m, metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: m.Generation})
		}
	}
	m.Status.BlockedBy = cut(reason, maxSummary)
}

// write stores the status if it differs from what was read. The resourceVersion is checked: a Migration that somebody else
// wrote since is looked at again, and a leader that lost its lead cannot act on an old one.
func (r *Reconciler) write(ctx context.Context, before, m *v1alpha1.Migration) error {
	if equality.Semantic.DeepEqual(before.Status, m.Status) {
		return nil
	}
	if now := r.Observer.Clock(); now.Before(r.written.Add(statusPace)) && equality.Semantic.DeepEqual(weighty(before.Status), weighty(m.Status)) {
		r.unwritten = true
		return nil
	}
	if err := fit(&m.Status); err != nil {
		return err
	}
	if err := r.Observer.Client.Status().Update(ctx, m); err != nil {
		return fmt.Errorf("writing the status of Migration %s: %w", m.Name, err)
	}
	r.written, r.unwritten = r.Observer.Clock(), false
	r.Observer.groups.wrote(m.DeepCopy().Status.Operations)
	r.announce(before, m)
	return nil
}

// statusPace is how often a status is written that differs in what changes with every pod only: watchers see each write.
const statusPace = 2 * time.Second

// weighty leaves of a status what is to be written at once: the phase, the ledger, the state of conditions and pools, and what needs a
// human. Counters, times to come and what is waited for can wait a moment themselves.
func weighty(s v1alpha1.MigrationStatus) v1alpha1.MigrationStatus {
	out := *s.DeepCopy()
	out.EstimatedCompletionTime, out.BlockedBy, out.NodesDone = nil, "", ""
	for i := range out.Pools {
		p := &out.Pools[i]
		p.NodesLeft, p.NodesDraining, p.PodsLeft = 0, 0, 0
	}
	for i := range out.Conditions {
		out.Conditions[i].Message = ""
	}
	out.Blockers = slices.DeleteFunc(out.Blockers, func(b v1alpha1.Blocker) bool { return b.Severity == v1alpha1.SeverityWait })
	for i := range out.Blockers {
		out.Blockers[i].Message, out.Blockers[i].Since = "", nil
	}
	return out
}

// announce tells changes of phase, and blockers that are new, as events.
func (r *Reconciler) announce(before, m *v1alpha1.Migration) {
	if before.Status.Phase != m.Status.Phase {
		r.Recorder.Eventf(m, nil, corev1.EventTypeNormal, string(m.Status.Phase), "Phase", "%s -> %s", orNone(string(before.Status.Phase)), m.Status.Phase)
	}
	r.announceScalers(before, m)
	if r.announced == nil {
		r.announced = map[string]bool{}
	}
	for _, b := range m.Status.Blockers {
		key := string(m.UID) + "|" + b.Reason + "|" + b.Object
		if r.accepted[b.Reason+"|"+b.Object] {
			continue
		}
		if b.Severity == v1alpha1.SeverityWait || r.announced[key] && !returned(before, b) {
			continue
		}
		r.announced[key] = true
		r.Recorder.Eventf(m, nil, corev1.EventTypeWarning, b.Reason, "Check", "%s: %s", b.Object, b.Message)
	}
}

// announceAccepted tells each accepted risk that lets something pass as one event, however much that is: whoever looks at what
// happened finds who was not asked, and why.
func (r *Reconciler) announceAccepted(m *v1alpha1.Migration, findings []inventory.Finding, passed []plan.Passed) {
	if r.announced == nil {
		r.announced = map[string]bool{}
	}
	for _, a := range m.Spec.AcceptedRisks {
		covered := coveredBy(a, findings, passed)
		key := string(m.UID) + "|accepted|" + a.Check + "|" + a.Object + "|" + a.Reason
		if covered == 0 || r.announced[key] {
			continue
		}
		r.announced[key] = true
		r.Recorder.Eventf(m, nil, corev1.EventTypeNormal, "RiskAccepted", "Check", "%s of %s is accepted, which lets pass %d: %s", a.Check, a.Object, covered, a.Reason)
	}
}

// coveredBy counts the objects that a risk lets pass.
func coveredBy(a v1alpha1.AcceptedRisk, findings []inventory.Finding, passed []plan.Passed) int {
	objects := map[string]bool{}
	for _, f := range findings {
		if f.Accepted && a.Covers(f.Check, f.Object) && a.Reason == f.AcceptedReason {
			objects[f.Object] = true
		}
	}
	for _, p := range passed {
		if a.Covers(p.Check, p.Object) {
			objects[p.Object] = true
		}
	}
	return len(objects)
}

// acceptedOf are the reasons and objects of the blockers that are accepted: an event of another kind tells of them.
func acceptedOf(findings []inventory.Finding) map[string]bool {
	out := map[string]bool{}
	for _, f := range findings {
		if f.Accepted {
			out[f.Check+"|"+f.Object] = true
		}
	}
	return out
}

func orNone(s string) string {
	if s == "" {
		return "new"
	}
	return s
}

// bounded keeps what needs a human first, then what is waited for.
func bounded(blockers []v1alpha1.Blocker) []v1alpha1.Blocker {
	var out []v1alpha1.Blocker
	for _, want := range []v1alpha1.Severity{v1alpha1.SeverityBlock, v1alpha1.SeverityWait, v1alpha1.SeverityWarn} {
		for _, b := range blockers {
			if b.Severity != want || len(out) == maxBlockers {
				continue
			}
			b.Message, b.Object = cut(b.Message, maxMessage), cut(b.Object, maxObject)
			out = append(out, b)
		}
	}
	return out
}

// fit shortens what people read until the status fits. The ledger's targets and the pools' counters are never shortened: the
// next look relies on them.
func fit(s *v1alpha1.MigrationStatus) error {
	for _, step := range []struct{ blockers, text int }{{maxBlockers, 512}, {maxBlockers, 256}, {10, 128}, {5, 64}} {
		b, err := json.Marshal(s)
		if err != nil {
			return fmt.Errorf("measuring the status: %w", err)
		}
		if len(b) < maxStatus {
			return nil
		}
		s.Blockers = s.Blockers[:min(len(s.Blockers), step.blockers)]
		for i := range s.Blockers {
			s.Blockers[i].Message, s.Blockers[i].Object = cut(s.Blockers[i].Message, step.text), cut(s.Blockers[i].Object, step.text)
		}
		for i := range s.Conditions {
			s.Conditions[i].Message = cut(s.Conditions[i].Message, step.text)
		}
		for i := range s.Operations {
			s.Operations[i].Error = cut(s.Operations[i].Error, step.text)
		}
	}
	return nil
}

// summary names the first thing that blocks or is waited for, and counts the others.
func summary(blockers []v1alpha1.Blocker) string {
	first, more := "", 0
	for _, b := range bounded(blockers) {
		if b.Severity == v1alpha1.SeverityWarn {
			continue
		}
		if first == "" {
			first = b.Reason
			if b.Object != "" {
				first += " " + b.Object
			}
			continue
		}
		more++
	}
	if more > 0 {
		return cut(first, maxSummary-16) + fmt.Sprintf(" (+%d)", more)
	}
	return cut(first, maxSummary)
}

func counters(pools []v1alpha1.PoolStatus) (poolsDone, nodesDone string) {
	done, nodes, left := 0, int32(0), int32(0)
	for _, p := range pools {
		if p.CompletionTime != nil {
			done++
		}
		nodes += p.Nodes
		left += min(p.NodesLeft, p.Nodes)
	}
	return fmt.Sprintf("%d/%d", done, len(pools)), fmt.Sprintf("%d/%d", nodes-left, nodes)
}

// cut shortens to n bytes without splitting a rune.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n-3], "") + "..."
}

func actionName(a plan.Action) string { return reflect.TypeOf(a).Name() }

// actionObject is what failed, for people: the change, and what it was to change where the ledger knows it.
func actionObject(a plan.Action) string {
	if l, ok := a.(plan.Ledgered); ok {
		kind, target, _ := l.Entry()
		return kind + "/" + target
	}
	return actionName(a)
}

func poolOf(a plan.Action) string {
	if e, ok := a.(plan.EvictPods); ok {
		return e.Pool
	}
	return ""
}

func snapshotName(m *v1alpha1.Migration) string { return "castoff-snapshot-" + m.Name }
