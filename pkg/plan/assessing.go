package plan

import (
	"slices"

	"github.com/castoff-sh/castoff/api/v1alpha1"
)

// assessing reads only. It is over when nothing blocks and, if the user wants to be asked, the start is approved; a
// snapshot says that both were so.
func assessing(_ *ledger, l look) outcome {
	if l.SnapshotProblem != "" {
		return unusableSnapshot(l)
	}
	if l.Snapshot != nil {
		return outcome{done: true}
	}
	o := outcome{until: l.now.Add(atRest)}
	if blocked(&o, l, "") {
		return o
	}
	if awaits(&o, l, v1alpha1.ApproveStart, "castoff has read everything and changed nothing") {
		return o
	}
	o.done = true
	return o
}

// unusableSnapshot stops everything: without a way back there is no way forward.
func unusableSnapshot(l look) outcome {
	o := outcome{until: l.now.Add(atRest)}
	for _, a := range l.Autoscalers {
		if l.m.Status.Snapshot != nil && renewalDue(a, l.now) {
			o.act(HoldLease{Lease: a.Lease}) // a pool that Karpenter serves must not get a second scaler meanwhile
		}
	}
	o.block(v1alpha1.ReasonSnapshotUnusable, "migration/"+l.m.Name, l.SnapshotProblem)
	return o
}

// blocked adds the findings to the outcome and says whether one of them stops it. With a pool, only what concerns that
// pool or the whole cluster counts.
func blocked(o *outcome, l look, pool string) bool {
	stop := false
	for _, f := range l.Findings {
		if pool != "" && f.Pool != "" && f.Pool != pool {
			continue
		}
		b := v1alpha1.Blocker{Severity: f.Severity, Reason: f.Check, Object: f.Object, Pool: f.Pool, Message: f.Message}
		if f.Accepted {
			b.Severity = v1alpha1.SeverityWarn
			b.Message = "Accepted (" + f.AcceptedReason + "): " + f.Message
		}
		o.blockers = append(o.blockers, b)
		stop = stop || f.Blocks()
	}
	return stop
}

// awaits says whether the step has to be approved first, and by what words.
func awaits(o *outcome, l look, step v1alpha1.ApprovalStep, state string) bool {
	if l.m.Spec.Approval != v1alpha1.ApprovalManual || slices.Contains(l.m.Spec.ApprovedSteps, step) {
		return false
	}
	o.phase = v1alpha1.PhaseAwaitingApproval
	o.until = l.now.Add(atRest)
	o.block(v1alpha1.ReasonAwaitingApproval, "migration/"+l.m.Name,
		state+"; approve the next step with: kubectl castoff approve "+l.m.Name+" "+string(step))
	return true
}
