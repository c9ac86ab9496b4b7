package plan

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
)

// conditions derives all of them from this look; none is read back.
func conditions(l look, d Decision) []metav1.Condition {
	return []metav1.Condition{
		ready(d), reconciling(d), stalled(d), preflightPassed(l), snapshotTaken(l), provisionerReady(l),
		singleScaler(l), nodesMigrated(l), rollbackAvailable(l),
	}
}

func condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}

// rests says that the migration is where the user asked it to be, with nothing left to do.
func rests(d Decision) bool {
	return d.Phase == v1alpha1.PhaseCompleted && len(d.Actions) == 0 && firstStop(d.Blockers) == nil
}

// firstStop is the first blocker that is more than worth knowing; a human's comes before what ends by itself.
func firstStop(blockers []v1alpha1.Blocker) *v1alpha1.Blocker {
	for _, want := range []v1alpha1.Severity{v1alpha1.SeverityBlock, v1alpha1.SeverityWait} {
		for i := range blockers {
			if blockers[i].Severity == want {
				return &blockers[i]
			}
		}
	}
	return nil
}

// why says in one condition's words what holds the migration.
func why(d Decision) (reason, message string) {
	if d.Phase == v1alpha1.PhasePaused {
		return v1alpha1.ReasonPaused, "spec.paused is true: castoff changes nothing until it is false again."
	}
	b := firstStop(d.Blockers)
	switch {
	case b == nil && rests(d):
		return v1alpha1.ReasonCompleted, "Karpenter serves every pool and no legacy node is left."
	case b == nil:
		return v1alpha1.ReasonProgressing, "castoff is at work."
	case b.Severity == v1alpha1.SeverityBlock && d.Phase == v1alpha1.PhaseAwaitingApproval:
		return v1alpha1.ReasonAwaitingApproval, b.Message
	case b.Reason == v1alpha1.ReasonAnotherMigrationActive:
		return b.Reason, b.Message
	case b.Severity == v1alpha1.SeverityBlock:
		return v1alpha1.ReasonBlocked, b.Reason + " (" + b.Object + "): " + b.Message
	default:
		return v1alpha1.ReasonProgressing, b.Reason + " (" + b.Object + "): " + b.Message
	}
}

func ready(d Decision) metav1.Condition {
	status := metav1.ConditionFalse
	if rests(d) {
		status = metav1.ConditionTrue
	}
	reason, message := why(d)
	return condition(v1alpha1.ConditionReady, status, reason, message)
}

func reconciling(d Decision) metav1.Condition {
	reason, message := why(d)
	if rests(d) || d.Phase == v1alpha1.PhasePaused || (Blocks(d.Blockers) && len(d.Actions) == 0) {
		return condition(v1alpha1.ConditionReconciling, metav1.ConditionFalse, reason, message)
	}
	return condition(v1alpha1.ConditionReconciling, metav1.ConditionTrue, reason, message)
}

func stalled(d Decision) metav1.Condition {
	reason, message := why(d)
	if d.Phase != v1alpha1.PhasePaused && Blocks(d.Blockers) {
		return condition(v1alpha1.ConditionStalled, metav1.ConditionTrue, reason, message)
	}
	return condition(v1alpha1.ConditionStalled, metav1.ConditionFalse, reason, "Nothing needs a human.")
}

func preflightPassed(l look) metav1.Condition {
	for _, f := range l.Findings {
		if f.Blocks() {
			return condition(v1alpha1.ConditionPreflightPassed, metav1.ConditionFalse, f.Check, f.Object+": "+f.Message)
		}
	}
	return condition(v1alpha1.ConditionPreflightPassed, metav1.ConditionTrue, v1alpha1.ReasonPassed, "No check blocks.")
}

func snapshotTaken(l look) metav1.Condition {
	switch {
	case l.SnapshotProblem != "":
		return condition(v1alpha1.ConditionSnapshotTaken, metav1.ConditionFalse, v1alpha1.ReasonSnapshotUnusable, l.SnapshotProblem)
	case l.Snapshot == nil:
		return condition(v1alpha1.ConditionSnapshotTaken, metav1.ConditionFalse, v1alpha1.ReasonNotYet, "Nothing has been changed and nothing recorded.")
	}
	return condition(v1alpha1.ConditionSnapshotTaken, metav1.ConditionTrue, v1alpha1.ReasonTaken, "What is needed to go back is recorded.")
}

func provisionerReady(l look) metav1.Condition {
	e := l.Engine
	if e.ReleaseCurrent && e.Replicas > 0 && e.ReadyReplicas > 0 && l.Interruption.Ready && l.Identity.Ready {
		return condition(v1alpha1.ConditionProvisionerReady, metav1.ConditionTrue, v1alpha1.ReasonInstalled, "Karpenter, its queue and its identities work.")
	}
	return condition(v1alpha1.ConditionProvisionerReady, metav1.ConditionFalse, v1alpha1.ReasonNotYet, "Karpenter is not installed yet, or not Ready.")
}

func singleScaler(l look) metav1.Condition {
	karpenter, both := scalers(l)
	switch {
	case len(both) > 0:
		return condition(v1alpha1.ConditionSingleScaler, metav1.ConditionFalse, v1alpha1.ReasonTwoScalers, "Served by two: "+list(both)+".")
	case len(karpenter) == 0:
		return condition(v1alpha1.ConditionSingleScaler, metav1.ConditionTrue, v1alpha1.ReasonClusterAutoscalerServes, "Karpenter serves no pool.")
	case len(karpenter) < len(l.pools):
		return condition(v1alpha1.ConditionSingleScaler, metav1.ConditionTrue, v1alpha1.ReasonHandingOver, "Served by Karpenter: "+list(karpenter)+".")
	}
	return condition(v1alpha1.ConditionSingleScaler, metav1.ConditionTrue, v1alpha1.ReasonKarpenterServes, "Karpenter serves every pool.")
}

// nodesMigrated is about nodes alone: end sizes and soaks may still be to come.
func nodesMigrated(l look) metav1.Condition {
	switch {
	case l.Snapshot == nil:
		return condition(v1alpha1.ConditionNodesMigrated, metav1.ConditionFalse, v1alpha1.ReasonNotYet, "Nothing has been changed.")
	case len(l.pools) == 0 || slices.ContainsFunc(l.pools, func(p pool) bool { return !p.gone() }):
		return condition(v1alpha1.ConditionNodesMigrated, metav1.ConditionFalse, v1alpha1.ReasonNotYet, "Legacy nodes are left.")
	}
	return condition(v1alpha1.ConditionNodesMigrated, metav1.ConditionTrue, v1alpha1.ReasonCompleted, "No legacy node is left.")
}

func rollbackAvailable(l look) metav1.Condition {
	switch {
	case l.SnapshotProblem != "":
		return condition(v1alpha1.ConditionRollbackAvailable, metav1.ConditionFalse, v1alpha1.ReasonSnapshotUnusable, l.SnapshotProblem)
	case l.Snapshot == nil:
		return condition(v1alpha1.ConditionRollbackAvailable, metav1.ConditionTrue, v1alpha1.ReasonNotYet, "Nothing has been changed.")
	}
	return condition(v1alpha1.ConditionRollbackAvailable, metav1.ConditionTrue, v1alpha1.ReasonTaken,
		"The snapshot, the node groups and Cluster Autoscaler are kept: docs/runbooks/restore-by-hand.md.")
}
