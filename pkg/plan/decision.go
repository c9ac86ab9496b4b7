package plan

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
)

// Decision is what Next answers: one pass may act on one node and report another one blocked.
type Decision struct {
	Phase v1alpha1.Phase
	// Actions in the order in which they have to be made.
	Actions []Action
	// Blockers are what is waited for, what needs a human, and what is worth knowing.
	Blockers []v1alpha1.Blocker
	Pools    []v1alpha1.PoolStatus
	Waves    []v1alpha1.WaveStatus
	// Serving is who scales each pool at this look, for the record of who did when.
	Serving []PoolServing
	// Passed is what accepted risks let pass at this look, the preflight's findings aside.
	Passed []Passed
	// Operations is the ledger with the Actions' entries opened; it is written before the first of them is made.
	Operations []v1alpha1.Operation
	// Conditions are all of them, without times.
	Conditions []metav1.Condition
	// Rested says that the migration is where it was asked to come to rest, with nothing left to do.
	Rested bool
	// Until is when to look again even if no watch wakes the reconciler; zero: never.
	Until time.Time
	// ETA is a guess; zero when there is nothing to guess from.
	ETA time.Time
}

// act adds the actions. Two waves may hold one Lease.
func (d *Decision) act(actions []Action) {
	for _, a := range actions {
		if _, hold := a.(HoldLease); !hold || !slices.Contains(d.Actions, a) {
			d.Actions = append(d.Actions, a)
		}
	}
}

// outcome is what one phase has to say.
type outcome struct {
	// done: nothing is left to do in this phase. Blockers may still be worth showing.
	done     bool
	actions  []Action
	blockers []v1alpha1.Blocker
	// until is when to look again; zero: now is soon enough when something changes.
	until time.Time
	// phase, when set, is shown instead of the phase's own name.
	phase v1alpha1.Phase
}

func (o *outcome) act(a ...Action) { o.actions = append(o.actions, a...) }

func (o *outcome) wait(reason, object, message string) {
	o.blockers = append(o.blockers, v1alpha1.Blocker{Severity: v1alpha1.SeverityWait, Reason: reason, Object: object, Message: message})
}

func (o *outcome) block(reason, object, message string) {
	o.blockers = append(o.blockers, v1alpha1.Blocker{Severity: v1alpha1.SeverityBlock, Reason: reason, Object: object, Message: message})
}

func (o *outcome) warn(reason, object, message string) {
	o.blockers = append(o.blockers, v1alpha1.Blocker{Severity: v1alpha1.SeverityWarn, Reason: reason, Object: object, Message: message})
}

// upkeep says that the actions only keep what is as it is: a Lease that is held has to be renewed for ever.
func upkeep(actions []Action) bool {
	return !slices.ContainsFunc(actions, func(a Action) bool { _, holds := a.(HoldLease); return !holds })
}

// idle says that the phase has nothing to do and nothing to wait for.
func (o outcome) idle() bool {
	if !upkeep(o.actions) {
		return false
	}
	for _, b := range o.blockers {
		if b.Severity != v1alpha1.SeverityWarn {
			return false
		}
	}
	return true
}

// soonest returns the earlier of two times, where zero means never.
func soonest(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}
