package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/castoff-sh/castoff/api/v1alpha1"
)

// defaultRetention is that of the API (api/v1alpha1, Decommission.RetentionSeconds), in seconds.
const defaultRetention = 86400

func deletesGroups(m *v1alpha1.Migration) bool {
	return m.Spec.Decommission.Mode == v1alpha1.DecommissionDelete
}

func deletesAutoscaler(m *v1alpha1.Migration) bool {
	return m.Spec.Decommission.ClusterAutoscaler == v1alpha1.DecommissionDelete
}

func deletes(m *v1alpha1.Migration) bool { return deletesGroups(m) || deletesAutoscaler(m) }

// deletion says what the approval of Delete lets castoff delete, when, and what that ends.
func deletion(m *v1alpha1.Migration) []string {
	says := []string{"It ends the way back for good: from the first deletion on RollbackAvailable is False, and kubectl castoff rollback refuses."}
	if deletesGroups(m) {
		says = append(says, fmt.Sprintf("Deleted, with their scaling policies: the node groups of %s. Never one that still has an instance, and never one that Terraform, CloudFormation or eksctl owns.", pools(names(m.Status.Pools))))
	}
	if deletesAutoscaler(m) {
		says = append(says, "Deleted: Cluster Autoscaler's Deployment with its Lease, and node-termination-handler.")
	}
	if due, known := retentionEnd(m); known {
		return append(says, "Not before "+clock(due)+", the end of the retention.")
	}
	return append(says, fmt.Sprintf("Not before the migration is Completed and its retention of %s is over.", retention(m)))
}

// open says for how long the way back stays open.
func open(m *v1alpha1.Migration) string {
	if !deletes(m) {
		return "The way back stays open: castoff deletes nothing (spec.decommission). It closes when somebody deletes the node groups."
	}
	until := "for " + retention(m).String() + " after completion"
	if due, known := retentionEnd(m); known {
		until = "until " + clock(due)
	}
	if slices.Contains(m.Spec.ApprovedSteps, v1alpha1.ApproveDelete) {
		return "The way back is open " + until + ": the step Delete is approved, so castoff then deletes what spec.decommission says."
	}
	return "The way back is open " + until + " at least, and from then on until you approve the step Delete."
}

func retention(m *v1alpha1.Migration) time.Duration {
	seconds := int32(defaultRetention)
	if s := m.Spec.Decommission.RetentionSeconds; s != nil {
		seconds = *s
	}
	return time.Duration(seconds) * time.Second
}

// retentionEnd is when castoff may delete at the earliest; unknown while the migration is not Completed. A pause and a way back
// begin it anew.
func retentionEnd(m *v1alpha1.Migration) (time.Time, bool) {
	t := m.Status.CompletionTime
	if t == nil || m.Status.Phase != v1alpha1.PhaseCompleted {
		return time.Time{}, false
	}
	return t.Add(retention(m)), true
}

func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }

func names(pools []v1alpha1.PoolStatus) []string {
	var out []string
	for _, p := range pools {
		out = append(out, p.Name)
	}
	return out
}

// pools names them in a sentence.
func pools(names []string) string {
	switch len(names) {
	case 0:
		return "no pool"
	case 1:
		return "pool " + names[0]
	}
	return fmt.Sprintf("%d pools (%s)", len(names), strings.Join(names, ", "))
}
