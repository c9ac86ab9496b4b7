package plan

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

const (
	// patience is for how long an effect may stay invisible before it is asked for again. Reads of Auto Scaling and EC2 lag
	// by seconds (EC2 API reference, "Eventual consistency").
	patience = 15 * time.Second
	// endPatience is the same for ending instances, the one effect that a repetition could double.
	endPatience = 60 * time.Second
	// ledgerSize bounds status.operations.
	ledgerSize = 20
	// detailSize bounds an entry's detail (MaxLength of Operation.detail), and so how many names one call takes; the rest is
	// asked for when that is done.
	detailSize = 1024
)

// ledger is the list of effects that were asked for. It is copied from the status, never shared with it.
type ledger []v1alpha1.Operation

// openLedger copies the entries and closes those whose effect is in the world.
func openLedger(entries []v1alpha1.Operation, w World, now time.Time) ledger {
	out := make(ledger, 0, len(entries))
	for _, op := range entries {
		op = *op.DeepCopy()
		if op.DoneTime == nil && visible(op, w) {
			done := metav1.NewTime(now)
			op.DoneTime = &done
			op.Error = ""
		}
		out = append(out, op)
	}
	return out
}

// admit says whether an effect may be asked for now, and records it if so.
func (l *ledger) admit(a Ledgered, now time.Time) bool {
	kind, target, detail := a.Entry()
	for _, op := range *l {
		if waits(op, now) && targetOf(op) == target {
			return false
		}
	}
	l.record(kind+"/"+target, detail, now)
	return true
}

// record opens an entry; an entry of the same kind and target is reopened, and counted if its effect had been seen: a call
// that failed or was lost must not make the next look take Cluster Autoscaler for one that came back. An opposite that
// castoff asked for itself ends the count.
func (l *ledger) record(id, detail string, now time.Time) {
	start := metav1.NewTime(now)
	entry := v1alpha1.Operation{ID: id, Detail: detail, Attempts: 1, StartTime: &start}
	for i, op := range *l {
		switch op.ID {
		case id:
			entry.Attempts = countAgain(op, detail, now)
		case undoes(id):
			(*l)[i].Attempts = 0 // castoff undid it itself; what it was about is still needed
		}
	}
	*l = slices.DeleteFunc(*l, func(op v1alpha1.Operation) bool { return op.ID == id || op.ID == opposite(id) })
	l.prune(now)
	*l = append(*l, entry)
}

// opposite is the entry that this one undoes.
func opposite(id string) string {
	kind, target, _ := strings.Cut(id, "/")
	switch kind {
	case kindStartAutoscaler:
		return kindStopAutoscaler + "/" + target
	case kindStopAutoscaler:
		return kindStartAutoscaler + "/" + target
	}
	return ""
}

// prune makes room for one entry: the oldest one that is not waited for goes, and is not remembered. What somebody set back is kept
// for as long as there is another to forget.
func (l *ledger) prune(now time.Time) {
	for len(*l) >= ledgerSize {
		i := slices.IndexFunc(*l, func(op v1alpha1.Operation) bool { return !waits(op, now) && !remembered(op) && op.Attempts <= 1 })
		if i < 0 {
			i = slices.IndexFunc(*l, func(op v1alpha1.Operation) bool { return !waits(op, now) && !remembered(op) })
		}
		i = max(i, 0)
		*l = slices.Delete(*l, i, i+1)
	}
}

// remembered entries stay: how often a Cluster Autoscaler was stopped or started decides whether it is done again.
func remembered(op v1alpha1.Operation) bool {
	return kindOf(op) == kindStopAutoscaler || kindOf(op) == kindStartAutoscaler
}

// full says that no entry can be opened without forgetting one that is waited for. Entries whose patience is over do not
// count: a crash that lost twenty effects at once would stop the migration for ever.
func (l ledger) full(now time.Time) bool {
	n := 0
	for _, op := range l {
		if waits(op, now) || remembered(op) {
			n++
		}
	}
	return n >= ledgerSize
}

// entry of an effect, and whether it was asked for.
func (l ledger) entry(kind, target string) (v1alpha1.Operation, bool) {
	for _, op := range l {
		if op.ID == kind+"/"+target {
			return op, true
		}
	}
	return v1alpha1.Operation{}, false
}

// attempts of an effect so far.
func (l ledger) attempts(kind, target string) int32 {
	op, _ := l.entry(kind, target)
	return op.Attempts
}

// unseenOn returns an effect on that target that may still show: reads may be further behind than the ledger is patient, and
// the way back must not take a group for restored that is about to change.
func (l ledger) unseenOn(target string, now time.Time) (v1alpha1.Operation, bool) {
	i := slices.IndexFunc(l, func(op v1alpha1.Operation) bool {
		return targetOf(op) == target && op.DoneTime == nil && op.StartTime != nil && now.Sub(op.StartTime.Time) < endPatience
	})
	if i < 0 {
		return v1alpha1.Operation{}, false
	}
	return l[i], true
}

// names that the last call of that kind was about.
func (l ledger) names(kind, target string) []string {
	op, _ := l.entry(kind, target)
	return strings.Split(op.Detail, separator)
}

// oldestPending returns the entry that has been waited for longest. One whose patience is over and that was not asked for
// again is not waited for: somebody else's change overtook it.
func (l ledger) oldestPending(now time.Time) (v1alpha1.Operation, bool) {
	var waiting []v1alpha1.Operation
	for _, op := range l {
		if waits(op, now) {
			waiting = append(waiting, op)
		}
	}
	if len(waiting) == 0 {
		return v1alpha1.Operation{}, false
	}
	return slices.MinFunc(waiting, func(a, b v1alpha1.Operation) int {
		return cmp.Compare(a.StartTime.Unix(), b.StartTime.Unix())
	}), true
}

// waits says that an effect was asked for, is not visible, and may not be asked for again yet.
func waits(op v1alpha1.Operation, now time.Time) bool { return op.DoneTime == nil && !expired(op, now) }

func kindOf(op v1alpha1.Operation) string {
	kind, _, _ := strings.Cut(op.ID, "/")
	return kind
}

func targetOf(op v1alpha1.Operation) string {
	_, target, _ := strings.Cut(op.ID, "/")
	return target
}

// expired says that a pending effect may be asked for again. A call that failed may have had its effect all the same; an
// absolute target may be repeated at once, the ending of instances may not.
func expired(op v1alpha1.Operation, now time.Time) bool {
	if op.StartTime == nil {
		return true
	}
	age := now.Sub(op.StartTime.Time)
	switch {
	case kindOf(op) == kindEndInstances:
		return age >= endPatience
	case remembered(op):
		return op.Error != "" || age >= soon // Kubernetes' own reads do not lag, and meanwhile nobody may be serving
	}
	return op.Error != "" || age >= patience
}

// fitting returns as many of the names as an entry's detail holds. AWS's names are at most 256 characters long.
func fitting(names []string) []string {
	size := 0
	for i, n := range names {
		if size += len(n) + len(separator); size > detailSize {
			return names[:i]
		}
	}
	return names
}

func hasSchedule(g inventory.NodeGroup, name string) bool {
	return slices.ContainsFunc(g.ScheduledActions, func(s inventory.ScheduledAction) bool { return s.Name == name })
}

func hasTag(g inventory.NodeGroup, key string) bool {
	_, ok := g.Tag(key)
	return ok
}

// visible says whether the effect of an entry is in the world.
func visible(op v1alpha1.Operation, w World) bool {
	switch kindOf(op) {
	case kindEnsureInterruption:
		return w.Interruption.Ready
	case kindEnsureIdentity:
		return w.Identity.Ready
	case kindInstallCRDs:
		return w.Engine.CRDsCurrent
	case kindInstallEngine:
		return w.Engine.ReleaseCurrent
	case kindUninstallEngine:
		return w.Engine.Release == inventory.ReleaseMissing
	case kindRemoveCRDs:
		return !w.Engine.CRDs
	case kindRemoveInterruption:
		return len(w.Interruption.Made) == 0
	case kindRemoveIdentity:
		return len(w.Identity.Made) == 0
	case kindStopAutoscaler, kindStartAutoscaler, kindDeleteAutoscaler:
		i := slices.IndexFunc(w.Autoscalers, func(a inventory.Autoscaler) bool { return a.Scalable() && a.Deployment.String() == targetOf(op) })
		return i < 0 || visibleOnAutoscaler(w.Autoscalers[i], op)
	}
	if kind := kindOf(op); kind == kindRetakeLease || kind == kindRemakeNodePool {
		return visibleRival(op, w)
	}
	i := slices.IndexFunc(w.Groups, func(g inventory.NodeGroup) bool { return g.AutoScalingGroup == targetOf(op) })
	if i < 0 {
		return true // a group that is gone has every effect
	}
	return visibleOn(w.Groups[i], op)
}

func visibleOnAutoscaler(a inventory.Autoscaler, op v1alpha1.Operation) bool {
	switch kindOf(op) {
	case kindStopAutoscaler:
		return a.Replicas == 0
	case kindStartAutoscaler:
		return a.Replicas > 0
	}
	return false
}

func visibleOn(g inventory.NodeGroup, op v1alpha1.Operation) bool {
	names := strings.Split(op.Detail, separator)
	switch kindOf(op) {
	case kindDisablePolicies:
		return !slices.ContainsFunc(g.ScalingPolicies, func(p inventory.ScalingPolicy) bool {
			return p.Active && slices.Contains(names, p.Name)
		})
	case kindDeleteScheduledActions:
		return !slices.ContainsFunc(names, func(name string) bool { return hasSchedule(g, name) })
	case kindHideGroup, kindShowGroup:
		hide := kindOf(op) == kindHideGroup
		return hidden(g) == hide && !slices.ContainsFunc(names, func(key string) bool { return hasTag(g, key) == hide })
	case kindSuspendProcesses, kindSuspendLaunch:
		return g.Suspends(names...)
	case kindSetRebalance:
		return op.Detail == strconv.FormatBool(g.CapacityRebalance)
	case kindSetLifetime:
		return op.Detail == strconv.Itoa(int(g.MaxInstanceLifetime))
	case kindEnablePolicies:
		return !slices.ContainsFunc(g.ScalingPolicies, func(p inventory.ScalingPolicy) bool {
			return !p.Active && slices.Contains(names, p.Name)
		})
	case kindDeletePolicies:
		return !slices.ContainsFunc(g.ScalingPolicies, func(p inventory.ScalingPolicy) bool { return slices.Contains(names, p.Name) })
	case kindPutScheduledActions:
		return !slices.ContainsFunc(names, func(name string) bool { return !hasSchedule(g, name) })
	case kindResumeProcesses, kindResumeLaunch:
		return !slices.ContainsFunc(g.SuspendedProcesses, func(p string) bool { return slices.Contains(names, p) })
	}
	return visibleSizes(g, op, names)
}

func visibleSizes(g inventory.NodeGroup, op v1alpha1.Operation, names []string) bool {
	switch kindOf(op) {
	case kindSetGroupSize:
		return op.Detail == sizes(g.Min, g.Max, g.Desired)
	case kindEndInstances:
		return !slices.ContainsFunc(g.Instances, func(i inventory.Instance) bool {
			return i.InService() && slices.Contains(names, i.ID)
		})
	}
	return false
}
