package plan

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// conditions derives all of them from this look; none is read back.
func conditions(l look, d Decision) []metav1.Condition {
	return []metav1.Condition{
		ready(d), reconciling(d), stalled(d), preflightPassed(l), snapshotTaken(l), provisionerReady(l),
		singleScaler(l), nodesMigrated(l), rollbackAvailable(l, d.Phase == v1alpha1.PhaseRolledBack),
	}
}

func condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}

// finished says that the migration is at one of its ends, with nothing left to do.
func finished(d Decision) bool {
	return d.Rested && (d.Phase == v1alpha1.PhaseCompleted || d.Phase == v1alpha1.PhaseRolledBack)
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
	b := firstStop(d.Blockers)
	switch {
	case b == nil && finished(d):
		return atTheEnd(d.Phase)
	case b == nil && d.Phase == v1alpha1.PhasePaused && d.Rested:
		return v1alpha1.ReasonPaused, "At rest: undrained nodes are in service, and every pool has one scaler. It goes on when spec.paused is false."
	case b == nil:
		return v1alpha1.ReasonProgressing, atWork(d.Phase)
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

func atTheEnd(phase v1alpha1.Phase) (reason, message string) {
	if phase == v1alpha1.PhaseRolledBack {
		return v1alpha1.ReasonRolledBack, "Cluster Autoscaler serves every pool as before the migration. It begins again when spec.paused is false."
	}
	return v1alpha1.ReasonCompleted, "Karpenter serves every pool and no legacy node is left."
}

func atWork(phase v1alpha1.Phase) string {
	switch phase {
	case v1alpha1.PhasePaused:
		return "castoff is coming to rest: it evicts nothing, and puts undrained nodes back in service."
	case v1alpha1.PhaseRollingBack:
		return "castoff is bringing the pools back to Cluster Autoscaler."
	}
	return "castoff is at work."
}

func ready(d Decision) metav1.Condition {
	status := metav1.ConditionFalse
	if finished(d) {
		status = metav1.ConditionTrue
	}
	reason, message := why(d)
	return condition(v1alpha1.ConditionReady, status, reason, message)
}

func reconciling(d Decision) metav1.Condition {
	reason, message := why(d)
	if d.Rested || (Blocks(d.Blockers) && upkeep(d.Actions)) {
		return condition(v1alpha1.ConditionReconciling, metav1.ConditionFalse, reason, message)
	}
	return condition(v1alpha1.ConditionReconciling, metav1.ConditionTrue, reason, message)
}

func stalled(d Decision) metav1.Condition {
	reason, message := why(d)
	if Blocks(d.Blockers) {
		return condition(v1alpha1.ConditionStalled, metav1.ConditionTrue, reason, message)
	}
	return condition(v1alpha1.ConditionStalled, metav1.ConditionFalse, reason, "Nothing needs a human.")
}

func preflightPassed(l look) metav1.Condition {
	if tasks := inventory.Tasks(l.Findings); len(tasks) > 0 {
		return condition(v1alpha1.ConditionPreflightPassed, metav1.ConditionFalse, tasks[0].First.Check, preflightSummary(l.Findings, tasks))
	}
	return condition(v1alpha1.ConditionPreflightPassed, metav1.ConditionTrue, v1alpha1.ReasonPassed, "No check blocks."+acceptedSummary(l.Findings))
}

// preflightSummary says what to do first, names what comes then, and counts. The report has it all.
func preflightSummary(findings []inventory.Finding, tasks []inventory.Task) string {
	const most = 3
	out := tasks[0].First.What() + ": " + tasks[0].First.Message
	if len(tasks) > 1 {
		out += " Then"
		for i, t := range tasks[1:min(len(tasks), 1+most)] {
			if i > 0 {
				out += ","
			}
			out += " " + t.First.Check + " (" + t.First.What() + ")"
		}
		if more := len(tasks) - 1 - most; more > 0 {
			out += " and " + inventory.Count(more, "more check")
		}
		out += "."
	}
	return out + " In all: " + inventory.TallyOf(findings).String() + "."
}

// acceptedSummary names what was accepted, and counts what else is worth knowing.
func acceptedSummary(findings []inventory.Finding) string {
	var names []string
	for _, g := range inventory.GroupFindings(findings) {
		if g.Accepted {
			names = append(names, g.Check+" ("+g.What()+")")
		}
	}
	out := ""
	if len(names) > 0 {
		out = " Accepted: " + some(names) + "."
	}
	if t := inventory.TallyOf(findings); t.Warns > 0 {
		out += fmt.Sprintf(" Worth knowing: %d, in the report.", t.Warns)
	}
	return out
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
	if sick := sickNodes(l); len(sick) > 0 {
		return condition(v1alpha1.ConditionProvisionerReady, metav1.ConditionFalse, v1alpha1.ReasonNodesNotReady, "Not Ready: "+some(sick)+".")
	}
	if e.ReleaseCurrent && e.Replicas > 0 && e.ReadyReplicas > 0 && l.Interruption.Ready && l.Identity.Ready {
		return condition(v1alpha1.ConditionProvisionerReady, metav1.ConditionTrue, v1alpha1.ReasonInstalled, "Karpenter, its queue and its identities work.")
	}
	return condition(v1alpha1.ConditionProvisionerReady, metav1.ConditionFalse, v1alpha1.ReasonNotYet, "Karpenter is not installed yet, or not Ready.")
}

func singleScaler(l look) metav1.Condition {
	karpenter, both := scalers(l)
	straddlers := straddlers(l)
	switch {
	case len(both) > 0:
		return condition(v1alpha1.ConditionSingleScaler, metav1.ConditionFalse, v1alpha1.ReasonTwoScalers, "Served by two: "+list(both)+".")
	case len(ownScaling(l)) > 0:
		return condition(v1alpha1.ConditionSingleScaler, metav1.ConditionFalse, v1alpha1.ReasonTwoScalers, "Beside Karpenter Auto Scaling itself scales: "+some(ownScaling(l))+".")
	case len(rivals(l)) > 0:
		return condition(v1alpha1.ConditionSingleScaler, metav1.ConditionFalse, v1alpha1.ReasonTwoScalers, "Beside castoff's Karpenter there is "+some(rivals(l))+".")
	case len(forsaken(l)) > 0 && nobodyIsAsked(l):
		return condition(v1alpha1.ConditionSingleScaler, metav1.ConditionFalse, v1alpha1.ReasonNoScaler, "Somebody deleted the NodePool of: "+list(forsaken(l))+". Nobody serves that meanwhile.")
	case len(karpenter) == 0 && nobodyIsAsked(l):
		return condition(v1alpha1.ConditionSingleScaler, metav1.ConditionFalse, v1alpha1.ReasonNoScaler, "Karpenter serves no pool, and no Cluster Autoscaler is asked to run.")
	case len(karpenter) == 0:
		return condition(v1alpha1.ConditionSingleScaler, metav1.ConditionTrue, v1alpha1.ReasonClusterAutoscalerServes, "Karpenter serves no pool.")
	case len(straddlers) > 0 && len(karpenter) < len(l.pools) && Blocks(straddlers):
		return condition(v1alpha1.ConditionSingleScaler, metav1.ConditionFalse, CheckTwoWaves, straddlers[0].Object+": "+straddlers[0].Message)
	case len(karpenter) < len(l.pools):
		return condition(v1alpha1.ConditionSingleScaler, metav1.ConditionTrue, v1alpha1.ReasonHandingOver, "Served by Karpenter: "+list(karpenter)+".")
	}
	return condition(v1alpha1.ConditionSingleScaler, metav1.ConditionTrue, v1alpha1.ReasonKarpenterServes, "Karpenter serves every pool.")
}

// nobodyIsAsked says that no Cluster Autoscaler that could scale the pools is asked to run.
func nobodyIsAsked(l look) bool {
	return l.Snapshot != nil && !slices.ContainsFunc(l.Autoscalers, func(a inventory.Autoscaler) bool { return a.Replicas > 0 && manages(a, l) })
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

// rollbackAvailable is True until an approved deletion begins, or until something that is needed to go back is gone.
func rollbackAvailable(l look, rolledBack bool) metav1.Condition {
	const kind = v1alpha1.ConditionRollbackAvailable
	missing := goneForGood(l)
	switch {
	case l.SnapshotProblem != "":
		return condition(kind, metav1.ConditionFalse, v1alpha1.ReasonSnapshotUnusable, l.SnapshotProblem)
	case l.Snapshot == nil:
		return condition(kind, metav1.ConditionTrue, v1alpha1.ReasonNotYet, "Nothing has been changed.")
	case deletes(l):
		return condition(kind, metav1.ConditionFalse, v1alpha1.ReasonDeleted, "The step Delete was approved and its retention is over: what spec.decommission says is being deleted, or is.")
	case len(missing) > 0:
		return condition(kind, metav1.ConditionFalse, v1alpha1.ReasonDeleted, "Gone since the snapshot was taken: "+list(missing)+".")
	}
	if rolledBack {
		return condition(kind, metav1.ConditionTrue, v1alpha1.ReasonRolledBack, "It went back: everything is as the snapshot says, but for what somebody changed since.")
	}
	return condition(kind, metav1.ConditionTrue, v1alpha1.ReasonTaken,
		"The snapshot, the node groups and Cluster Autoscaler are kept. Go back with: kubectl castoff rollback "+l.m.Name)
}
