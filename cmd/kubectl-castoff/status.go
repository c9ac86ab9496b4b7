package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
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
	fmt.Fprintf(out, "Migration %s of cluster %s: %s, pools %s, nodes %s\n\n", m.Name, m.Spec.ClusterName, s.Phase, s.PoolsDone, s.NodesDone)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "POOL\tPHASE\tNODES LEFT\tDRAINING\tPODS LEFT\tNODEPOOL")
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
