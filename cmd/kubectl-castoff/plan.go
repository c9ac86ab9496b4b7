package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/controllers"
	"github.com/castoff-sh/castoff/pkg/identity"
	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/plan"
	"github.com/castoff-sh/castoff/pkg/preflight"
)

type planOptions struct {
	cluster, file, output, namespace string
}

func (a *app) plan() *cobra.Command {
	o := planOptions{}
	cmd := &cobra.Command{
		Use:   "plan (--cluster NAME | -f migration.yaml)",
		Short: "Print what a migration would do; writes nothing anywhere",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			m, err := o.migration()
			if err != nil {
				return err
			}
			observer, err := a.observer(cmd.Context(), o.namespace)
			if err != nil {
				return err
			}
			w, err := observer.Observe(cmd.Context(), m)
			if err != nil {
				return fmt.Errorf("looking at the cluster: %w", err)
			}
			return print(cmd.OutOrStdout(), o.output, w)
		},
	}
	cmd.Flags().StringVar(&o.cluster, "cluster", "", "name of the EKS cluster")
	cmd.Flags().StringVarP(&o.file, "filename", "f", "", "a Migration to plan for")
	cmd.Flags().StringVarP(&o.output, "output", "o", "text", "text, yaml, json or iam (the IAM policy that castoff needs)")
	cmd.Flags().StringVar(&o.namespace, "castoff-namespace", "castoff-system", "namespace that castoff is or will be in")
	cmd.MarkFlagsOneRequired("cluster", "filename")
	cmd.MarkFlagsMutuallyExclusive("cluster", "filename")
	return cmd
}

// migration is the one that would be applied.
func (o planOptions) migration() (*v1alpha1.Migration, error) {
	m := &v1alpha1.Migration{}
	if o.file == "" {
		m.Spec.ClusterName, m.Name = o.cluster, "plan"
		return m, nil
	}
	b, err := os.ReadFile(o.file)
	if err != nil {
		return nil, fmt.Errorf("reading the Migration: %w", err)
	}
	if err := yaml.UnmarshalStrict(b, m); err != nil {
		return nil, fmt.Errorf("reading the Migration %s: %w", o.file, err)
	}
	if m.Spec.ClusterName == "" {
		return nil, fmt.Errorf("%s names no cluster: set spec.clusterName", o.file)
	}
	return m, nil
}

func (a *app) observer(ctx context.Context, namespace string) (*controllers.Observer, error) {
	config, err := a.flags.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("finding the cluster: %w", err)
	}
	c, err := a.client()
	if err != nil {
		return nil, err
	}
	return controllers.NewObserver(ctx, controllers.Wiring{
		Config: config, Client: c, Live: c, Clock: time.Now, Namespace: namespace, EngineNamespace: "kube-system",
		EngineImage: "ghcr.io/castoff-sh/provisioner:" + version, ManagerImage: "ghcr.io/castoff-sh/manager:" + version,
	})
}

// document is the plan for machines.
type document struct {
	Cluster  string              `json:"cluster"`
	Home     string              `json:"home"`
	Pools    []poolPlan          `json:"pools"`
	Findings []inventory.Finding `json:"findings,omitempty"`
}

type poolPlan struct {
	Name       string           `json:"name"`
	NodeGroups []string         `json:"nodeGroups"`
	Nodes      int              `json:"nodes"`
	Target     inventory.Target `json:"target"`
}

func documentOf(w plan.World) document {
	d := document{Cluster: w.Cluster.Name, Home: w.Home, Findings: w.Findings}
	for _, p := range w.Pools {
		nodes := 0
		for _, n := range w.Nodes {
			for _, g := range p.NodeGroups {
				if n.Group == g {
					nodes++
				}
			}
		}
		d.Pools = append(d.Pools, poolPlan{Name: p.Name, NodeGroups: p.NodeGroups, Nodes: nodes, Target: w.Targets[p.Name]})
	}
	return d
}

func print(out io.Writer, format string, w plan.World) error {
	var b []byte
	var err error
	switch format {
	case "iam":
		b = []byte(identity.Policy(w.Cluster) + "\n")
	case "json":
		b, err = json.MarshalIndent(documentOf(w), "", "  ")
	case "yaml":
		b, err = yaml.Marshal(documentOf(w))
	case "text":
		return text(out, documentOf(w))
	default:
		return fmt.Errorf("unknown output %q: text, yaml, json or iam", format)
	}
	if err != nil {
		return fmt.Errorf("writing the plan: %w", err)
	}
	_, err = out.Write(b)
	return err
}

func text(out io.Writer, d document) error {
	fmt.Fprintf(out, "Cluster %s. Home (kept for Karpenter, CoreDNS and castoff): %s.\n", d.Cluster, orNone(d.Home))
	fmt.Fprintf(out, "One wave: all %d pools change hands together, then are drained in this order.\n", len(d.Pools))
	for i, p := range d.Pools {
		fmt.Fprintf(out, "\n%d. Pool %s: node groups %v, %d nodes\n", i+1, p.Name, p.NodeGroups, p.Nodes)
		if err := targets(out, p.Target); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "\nPreflight\n%s", preflight.Text(d.Findings))
	return nil
}

// targets prints what could be committed to Git, and what could not be carried over.
func targets(out io.Writer, t inventory.Target) error {
	if t.Pool == "" {
		fmt.Fprintln(out, "   Not translated: see the preflight below.")
		return nil
	}
	for _, o := range []any{t.NodePool, t.NodeClass} {
		b, err := manifest(o)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "---\n%s", b)
	}
	if len(t.NotCarried) > 0 {
		fmt.Fprintln(out, "---\n   Not carried over:")
	}
	for _, n := range t.NotCarried {
		fmt.Fprintf(out, "   - %s, %s: %s %s\n", n.NodeGroup, n.Field, n.Reason, n.Do)
	}
	return nil
}

// manifest is the object without its status and empty fields.
func manifest(o any) ([]byte, error) {
	b, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil {
		return nil, err
	}
	delete(m, "status")
	if meta, ok := m["metadata"].(map[string]any); ok {
		delete(meta, "creationTimestamp")
	}
	return yaml.Marshal(m)
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}
