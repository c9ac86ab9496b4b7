package main

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/castoff-sh/castoff/api/v1alpha1"
)

// consequences say what each step's approval lets castoff do.
var consequences = map[v1alpha1.ApprovalStep]string{
	v1alpha1.ApproveStart:    "castoff records a snapshot, disables the scaling policies and removes the scheduled actions of the migrating groups, and installs Karpenter. No pod moves, and Cluster Autoscaler stays in charge.",
	v1alpha1.ApproveHandOver: "castoff scales Cluster Autoscaler to 0, lets Karpenter serve the pools, cordons the legacy nodes, and begins to evict their pods under your PodDisruptionBudgets.",
}

var steps = []v1alpha1.ApprovalStep{v1alpha1.ApproveStart, v1alpha1.ApproveHandOver}

func (a *app) approve() *cobra.Command {
	yes := false
	cmd := &cobra.Command{
		Use:   "approve NAME [Start|HandOver]",
		Short: "Approve the next step of a Migration with approval: Manual",
		Long: `Approve the next step of a Migration whose spec.approval is Manual, or the step that is named.

Start lets castoff write for the first time; HandOver lets it stop Cluster Autoscaler. What a step does is printed before it asks.`,
		Example: "  kubectl castoff approve prod\n  kubectl castoff approve prod HandOver --yes",
		Args:    cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.connect()
			if err != nil {
				return err
			}
			m, err := migration(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			step, err := nextStep(m, args[1:])
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "Migration %s (%s), step %s:\n  %s\n", m.Name, m.Spec.ClusterName, step, consequences[step])
			for _, b := range m.Status.Blockers {
				if b.Severity == v1alpha1.SeverityBlock && b.Reason != v1alpha1.ReasonAwaitingApproval {
					fmt.Fprintf(cmd.OutOrStdout(), "Blocked now, and starts as soon as that is mended: %s %s: %s\n", b.Reason, b.Object, b.Message)
				}
			}
			if !yes && !confirmed(cmd.InOrStdin(), cmd.OutOrStdout()) {
				return fmt.Errorf("not approved: nothing was changed")
			}
			before := m.DeepCopy()
			m.Spec.ApprovedSteps = append(m.Spec.ApprovedSteps, step)
			if err := c.Patch(cmd.Context(), m, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
				return fmt.Errorf("approving step %s of Migration %s: %w", step, m.Name, err)
			}
			fmt.Fprintln(cmd.OutOrStdout(), "Approved.")
			return nil
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "approve without asking")
	return cmd
}

// nextStep is the one that was asked for, else the first that is not approved yet.
func nextStep(m *v1alpha1.Migration, asked []string) (v1alpha1.ApprovalStep, error) {
	if m.Spec.Approval != v1alpha1.ApprovalManual {
		return "", fmt.Errorf("approval of Migration %s is %s: it asks nobody. Set spec.approval: Manual to be asked", m.Name, cmp.Or(m.Spec.Approval, v1alpha1.ApprovalAutomatic))
	}
	for _, s := range steps {
		approved := slices.Contains(m.Spec.ApprovedSteps, s)
		switch {
		case len(asked) > 0 && strings.EqualFold(asked[0], string(s)):
			if approved {
				return "", fmt.Errorf("step %s of Migration %s is approved already", s, m.Name)
			}
			return s, nil
		case len(asked) == 0 && !approved:
			return s, nil
		}
	}
	if len(asked) > 0 {
		return "", fmt.Errorf("unknown step %q: known are %v", asked[0], steps)
	}
	return "", fmt.Errorf("every step of Migration %s is approved", m.Name)
}

func confirmed(in io.Reader, out io.Writer) bool {
	fmt.Fprint(out, "Go on? [y/N] ")
	line, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && err != io.EOF {
		return false
	}
	answer := strings.ToLower(strings.TrimSpace(line))
	return answer == "y" || answer == "yes"
}
