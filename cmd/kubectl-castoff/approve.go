package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/castoff-sh/castoff/api/v1alpha1"
)

// consequences say what each step's approval lets castoff do.
var consequences = map[v1alpha1.ApprovalStep]func(*v1alpha1.Migration) []string{
	v1alpha1.ApproveStart: func(*v1alpha1.Migration) []string {
		return []string{"castoff records a snapshot, disables the scaling policies and removes the scheduled actions of the migrating groups, and installs Karpenter. No pod moves, and Cluster Autoscaler stays in charge."}
	},
	v1alpha1.ApproveHandOver: func(*v1alpha1.Migration) []string {
		return []string{"castoff scales Cluster Autoscaler to 0, lets Karpenter serve the pools, cordons the legacy nodes, and begins to evict their pods under your PodDisruptionBudgets."}
	},
	v1alpha1.ApproveDelete: deletion,
}

var steps = []v1alpha1.ApprovalStep{v1alpha1.ApproveStart, v1alpha1.ApproveHandOver, v1alpha1.ApproveDelete}

// approval approves the step that is named, else the next one.
func approval(m *v1alpha1.Migration, args []string) (change, error) {
	step, err := stepOf(m, args)
	if err != nil {
		return change{}, err
	}
	return change{
		name: "approve " + string(step),
		idle: fmt.Sprintf("Step %s of Migration %s is approved already", step, m.Name),
		says: slices.Concat(consequences[step](m), resting(m), blocked(m)),
		apply: func(s *v1alpha1.MigrationSpec) {
			if !slices.Contains(s.ApprovedSteps, step) {
				s.ApprovedSteps = append(s.ApprovedSteps, step)
			}
		},
	}, nil
}

// stepOf is the one that was named, else the first that is not approved yet. Delete is never the next one: it cannot be taken
// back, so nobody approves it by asking for what comes next once too often.
func stepOf(m *v1alpha1.Migration, named []string) (v1alpha1.ApprovalStep, error) {
	step, err := known(named)
	switch {
	case err != nil:
		return "", err
	case step == v1alpha1.ApproveDelete && !deletes(m):
		return "", fmt.Errorf("the Migration %s deletes nothing: spec.decommission.mode and spec.decommission.clusterAutoscaler are both ScaleToZero. Set one of them to Delete first", m.Name)
	case step == v1alpha1.ApproveDelete:
		return step, nil
	case m.Spec.Approval != v1alpha1.ApprovalManual:
		return "", fmt.Errorf("approval of Migration %s is %s: it asks for nothing but Delete. Set spec.approval: Manual to be asked", m.Name, cmp.Or(m.Spec.Approval, v1alpha1.ApprovalAutomatic))
	case step != "":
		return step, nil
	}
	missing := missingSteps(m)
	if len(missing) == 0 {
		return "", fmt.Errorf("every step of Migration %s is approved, but for Delete, which has to be named: kubectl castoff approve %[1]s Delete", m.Name)
	}
	return missing[0], nil
}

// known finds the step that is meant; shells have no capitals. None is named: empty.
func known(named []string) (v1alpha1.ApprovalStep, error) {
	if len(named) == 0 {
		return "", nil
	}
	for _, s := range steps {
		if strings.EqualFold(named[0], string(s)) {
			return s, nil
		}
	}
	return "", fmt.Errorf("unknown step %q: known are %v", named[0], steps)
}

// missingSteps are those on the way forward that are not approved, in order.
func missingSteps(m *v1alpha1.Migration) []v1alpha1.ApprovalStep {
	return slices.DeleteFunc([]v1alpha1.ApprovalStep{v1alpha1.ApproveStart, v1alpha1.ApproveHandOver}, func(s v1alpha1.ApprovalStep) bool {
		return slices.Contains(m.Spec.ApprovedSteps, s)
	})
}

// resting reminds that an approval ends no pause.
func resting(m *v1alpha1.Migration) []string {
	if !m.Spec.Paused {
		return nil
	}
	return []string{"spec.paused is true: not before it is resumed, with kubectl castoff resume " + m.Name + "."}
}

// blocked names what a human has to mend before castoff goes on.
func blocked(m *v1alpha1.Migration) []string {
	var out []string
	for _, b := range m.Status.Blockers {
		if b.Severity == v1alpha1.SeverityBlock && b.Reason != v1alpha1.ReasonAwaitingApproval {
			out = append(out, fmt.Sprintf("Blocked now, and goes on as soon as that is mended: %s %s: %s", b.Reason, b.Object, b.Message))
		}
	}
	return out
}
