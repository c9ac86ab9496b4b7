package plan

import (
	"cmp"
	"slices"
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

// record opens an entry; an entry of the same kind and target is reopened, so that its attempts are counted. A call that
// failed is not counted: two refused stops must not make the next look take Cluster Autoscaler for one that came back.
func (l *ledger) record(id, detail string, now time.Time) {
	start := metav1.NewTime(now)
	entry := v1alpha1.Operation{ID: id, Detail: detail, Attempts: 1, StartTime: &start}
	for i, op := range *l {
		if op.ID == id {
			entry.Attempts = op.Attempts
			if op.Error == "" {
				entry.Attempts++
			}
			*l = slices.Delete(*l, i, i+1)
			break
		}
	}
	l.prune(now)
	*l = append(*l, entry)
}

// prune makes room for one entry: the oldest one that is not waited for goes. That of a stopped Cluster Autoscaler stays,
// because how often it was stopped decides whether it is stopped again.
func (l *ledger) prune(now time.Time) {
	for len(*l) >= ledgerSize {
		i := slices.IndexFunc(*l, func(op v1alpha1.Operation) bool { return !waits(op, now) && kindOf(op) != kindStopAutoscaler })
		if i < 0 {
			i = 0
		}
		*l = slices.Delete(*l, i, i+1)
	}
}

// full says that no entry can be opened without forgetting one that is waited for. Entries whose patience is over do not
// count: a crash that lost twenty effects at once would stop the migration for ever.
func (l ledger) full(now time.Time) bool {
	n := 0
	for _, op := range l {
		if waits(op, now) || kindOf(op) == kindStopAutoscaler {
			n++
		}
	}
	return n >= ledgerSize
}

// attempts of an effect so far.
func (l ledger) attempts(kind, target string) int32 {
	for _, op := range l {
		if op.ID == kind+"/"+target {
			return op.Attempts
		}
	}
	return 0
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
	if kindOf(op) == kindEndInstances {
		return age >= endPatience
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
	case kindStopAutoscaler:
		return !slices.ContainsFunc(w.Autoscalers, func(a inventory.Autoscaler) bool {
			return a.Deployment.String() == targetOf(op) && a.Replicas > 0
		})
	}
	i := slices.IndexFunc(w.Groups, func(g inventory.NodeGroup) bool { return g.AutoScalingGroup == targetOf(op) })
	if i < 0 {
		return true // a group that is gone has every effect
	}
	return visibleOn(w.Groups[i], op)
}

func visibleOn(g inventory.NodeGroup, op v1alpha1.Operation) bool {
	names := strings.Split(op.Detail, separator)
	switch kindOf(op) {
	case kindDisablePolicies:
		return !slices.ContainsFunc(g.ScalingPolicies, func(p inventory.ScalingPolicy) bool {
			return p.Active && slices.Contains(names, p.Name)
		})
	case kindDeleteScheduledActions:
		return !slices.ContainsFunc(g.ScheduledActions, func(s inventory.ScheduledAction) bool {
			return slices.Contains(names, s.Name)
		})
	case kindSuspendProcesses:
		return g.Suspends(names...)
	case kindStopRebalance:
		return !g.CapacityRebalance
	case kindKeepInstances:
		return g.MaxInstanceLifetime == 0
	case kindSetGroupSize:
		return op.Detail == sizes(g.Min, g.Max, g.Desired)
	case kindEndInstances:
		return !slices.ContainsFunc(g.Instances, func(i inventory.Instance) bool {
			return i.InService() && slices.Contains(names, i.ID)
		})
	}
	return false
}
