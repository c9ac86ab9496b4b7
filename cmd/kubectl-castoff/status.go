package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/castoff-sh/castoff/api/v1alpha1"
)

func (a *app) status() *cobra.Command {
	return &cobra.Command{
		Use: "status NAME", Short: "Show pools, conditions and what is waited for", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.connect()
			if err != nil {
				return err
			}
			m, err := migration(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			return printStatus(cmd.OutOrStdout(), m)
		},
	}
}

func printStatus(out io.Writer, m *v1alpha1.Migration) error {
	s := m.Status
	if s.Phase == "" {
		fmt.Fprintf(out, "Migration %s of cluster %s: castoff has not looked at it yet. Is it running? kubectl get pods -n castoff-system\n", m.Name, m.Spec.ClusterName)
		return nil
	}
	nodes := "LEFT"
	if returns(s.Phase) {
		nodes = "BACK"
	}
	fmt.Fprintf(out, "Migration %s of cluster %s: %s\n", m.Name, m.Spec.ClusterName, progress(m))
	if h := hint(m); h != "" {
		fmt.Fprintln(out, h)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "\nPOOL\tPHASE\tNODES %s\tDRAINING\tPODS LEFT\tNODEPOOL\n", nodes)
	for _, p := range s.Pools {
		fmt.Fprintf(w, "%s\t%s\t%d/%d\t%d\t%d\t%s\n", p.Name, p.Phase, p.NodesLeft, p.Nodes, p.NodesDraining, p.PodsLeft, p.NodePool)
	}
	fmt.Fprintln(w, "\nCONDITION\tSTATUS\tREASON\tMESSAGE")
	for _, c := range s.Conditions {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", c.Type, c.Status, c.Reason, c.Message)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, b := range s.Blockers {
		fmt.Fprintf(out, "\n%s %s %s\n  %s\n", b.Severity, b.Reason, b.Object, b.Message)
	}
	return nil
}

// returns says that a node of an old group that is there is progress, and not one that is left to do.
func returns(p v1alpha1.Phase) bool {
	return p == v1alpha1.PhaseRollingBack || p == v1alpha1.PhaseRolledBack
}

// progress is the phase, and how far it is in its own direction.
func progress(m *v1alpha1.Migration) string {
	s := m.Status
	if !returns(s.Phase) {
		return fmt.Sprintf("%s, pools %s, nodes %s", s.Phase, s.PoolsDone, s.NodesDone)
	}
	there, of := int32(0), int32(0)
	for _, p := range s.Pools {
		there, of = there+min(p.NodesLeft, p.Nodes), of+p.Nodes
	}
	return fmt.Sprintf("%s, old nodes back %d/%d", s.Phase, there, of)
}

// hint says how to leave the phases that castoff does not leave by itself, or goes through because somebody said so.
func hint(m *v1alpha1.Migration) string {
	switch m.Status.Phase {
	case v1alpha1.PhasePaused:
		return fmt.Sprintf("Go on: kubectl castoff resume %s. Back to Cluster Autoscaler: kubectl castoff rollback %[1]s.", m.Name)
	case v1alpha1.PhaseRollingBack:
		return fmt.Sprintf("On its way back to Cluster Autoscaler. Stop there: kubectl castoff pause %s. Forward again: kubectl castoff resume %[1]s.", m.Name)
	case v1alpha1.PhaseRolledBack:
		return fmt.Sprintf("Everything is back with Cluster Autoscaler. Begin again: kubectl castoff resume %s.", m.Name)
	case v1alpha1.PhaseCompleted:
		if meta.IsStatusConditionTrue(m.Status.Conditions, v1alpha1.ConditionRollbackAvailable) {
			return open(m)
		}
	}
	return ""
}

func (a *app) report() *cobra.Command {
	return &cobra.Command{
		Use: "report NAME", Short: "Print the last preflight report: what blocks, what is accepted, what is worth knowing", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.connect()
			if err != nil {
				return err
			}
			m, err := migration(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			if m.Status.Report == nil {
				return fmt.Errorf("there is no report of Migration %s yet: is castoff running? kubectl get pods -n castoff-system", m.Name)
			}
			cm := &corev1.ConfigMap{}
			key := types.NamespacedName{Namespace: m.Status.Report.Namespace, Name: m.Status.Report.Name}
			if err := c.Get(cmd.Context(), key, cm); err != nil {
				return fmt.Errorf("reading the report %s: %w", key, err)
			}
			fmt.Fprint(cmd.OutOrStdout(), cm.Data["report.txt"])
			return nil
		},
	}
}
