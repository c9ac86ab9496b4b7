package plan

import (
	"fmt"
	"slices"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
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
	if object := "cluster/" + l.m.Spec.ClusterName; Marked(l.Nodes, l.Autoscalers) && !l.accepts(CheckChangedBefore, object) {
		o.block(CheckChangedBefore, object, "An earlier Migration changed this cluster, and a snapshot taken now would record castoff's own changes as yours. "+
			"Create the Migration under the name that one had: it goes on from its snapshot (Secrets castoff-snapshot-NAME in castoff's namespace). If that one is completed and this is for other groups, accept the risk "+CheckChangedBefore+" in spec.acceptedRisks.")
		return o
	}
	if blocked(&o, l, "") {
		return o
	}
	if awaits(&o, l, v1alpha1.ApproveStart, "castoff has read everything and changed nothing; nodegroup/"+l.Home+" stays for Karpenter, CoreDNS and castoff") {
		return o
	}
	o.done = true
	return o
}

// CheckChangedBefore is a cluster that an earlier Migration changed.
const CheckChangedBefore = "ChangedBefore"

// Marked says that a Migration changed this cluster and that it was not undone: castoff's marks are on nodes, or its name is in a
// Cluster Autoscaler's Lease.
func Marked(nodes []inventory.Node, autoscalers []inventory.Autoscaler) bool {
	return slices.ContainsFunc(nodes, func(n inventory.Node) bool {
		return n.Annotations[v1alpha1.AnnotationLegacy] != "" || n.Labels[v1alpha1.LabelPool] != ""
	}) || slices.ContainsFunc(autoscalers, func(a inventory.Autoscaler) bool { return a.LeaseHolder == v1alpha1.LeaseIdentity })
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

// blocked adds the findings to the outcome, those of one workload as one, and says whether one of them stops it. With a pool, only what concerns that
// pool or the whole cluster counts.
func blocked(o *outcome, l look, pool string) bool {
	stop := false
	for _, f := range inventory.GroupFindings(l.Findings) {
		if pool != "" && f.Pool != "" && f.Pool != pool {
			continue
		}
		b := v1alpha1.Blocker{Severity: f.Severity, Reason: f.Check, Object: f.Object, Pool: f.Pool, Message: f.Message}
		if f.More > 0 {
			b.Message = fmt.Sprintf("%s (The same is so of %d more of %s.)", f.Message, f.More, f.Subject())
		}
		if f.Accepted {
			b.Severity = v1alpha1.SeverityWarn
			b.Message = "Accepted (" + f.AcceptedReason + "): " + b.Message
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
