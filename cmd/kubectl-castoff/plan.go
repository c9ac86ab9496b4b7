package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
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
		Long: `Print what a migration would do: pools, the NodePool and EC2NodeClass of each, what cannot be carried over, and what blocks.

It reads the cluster with your kubeconfig and AWS with your credentials and region (AWS_PROFILE, AWS_REGION), and writes nothing.`,
		Example: "  kubectl castoff plan --cluster prod\n  kubectl castoff plan -f migration.yaml -o yaml\n  kubectl castoff plan --cluster prod -o iam > policy.json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !slices.Contains(formats, o.output) {
				return fmt.Errorf("unknown output %q: %s", o.output, strings.Join(formats, ", "))
			}
			m, err := o.migration(cmd.InOrStdin())
			if err != nil {
				return err
			}
			w, err := a.look(cmd.Context(), o.namespace, m)
			if err != nil {
				return err
			}
			return print(cmd.OutOrStdout(), o.output, m.Spec.ClusterName, w)
		},
	}
	cmd.Flags().StringVar(&o.cluster, "cluster", "", "name of the EKS cluster")
	cmd.Flags().StringVarP(&o.file, "filename", "f", "", "a file with the Migration to plan for; - reads standard input")
	cmd.Flags().StringVarP(&o.output, "output", "o", "text", "text, yaml, json or iam (the IAM policy that castoff needs)")
	cmd.Flags().StringVar(&o.namespace, "castoff-namespace", "castoff-system", "namespace that castoff is or will be in")
	cmd.MarkFlagsOneRequired("cluster", "filename")
	cmd.MarkFlagsMutuallyExclusive("cluster", "filename")
	return cmd
}

var formats = []string{"text", "yaml", "json", "iam"}

// migration is the one that would be applied.
func (o planOptions) migration(stdin io.Reader) (*v1alpha1.Migration, error) {
	m := &v1alpha1.Migration{}
	if o.file == "" {
		m.Spec.ClusterName, m.Name = o.cluster, "plan"
		return m, nil
	}
	b, err := o.read(stdin)
	if err != nil {
		return nil, fmt.Errorf("reading the Migration: %w", err)
	}
	if err := yaml.UnmarshalStrict(b, m); err != nil {
		return nil, fmt.Errorf("reading the Migration %s: %w", o.file, err)
	}
	if kind := m.GroupVersionKind(); kind != v1alpha1.GroupVersion.WithKind("Migration") {
		return nil, fmt.Errorf("%s is no Migration but a %q of %q: apiVersion has to be %s, kind Migration", o.file, m.Kind, m.APIVersion, v1alpha1.GroupVersion)
	}
	if m.Spec.ClusterName == "" {
		return nil, fmt.Errorf("%s names no cluster: set spec.clusterName", o.file)
	}
	return m, nil
}

func (o planOptions) read(stdin io.Reader) ([]byte, error) {
	if o.file == "-" {
		return io.ReadAll(stdin)
	}
	return os.ReadFile(o.file)
}

// look looks at the world as castoff does, once.
func (a *app) look(ctx context.Context, namespace string, m *v1alpha1.Migration) (plan.World, error) {
	c, err := a.connect()
	if err != nil {
		return plan.World{}, err
	}
	observer, err := a.observer(ctx, c, namespace)
	if err != nil {
		return plan.World{}, err
	}
	w, err := observer.Observe(ctx, m)
	if meta.IsNoMatchError(err) {
		return w, fmt.Errorf("%w: %w", errNotInstalled, err)
	}
	if err != nil {
		return w, fmt.Errorf("looking at the cluster: %w", err)
	}
	return w, nil
}

func (a *app) newObserver(ctx context.Context, c client.Client, namespace string) (*controllers.Observer, error) {
	config, err := a.flags.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("finding the cluster: %w", err)
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

func documentOf(cluster string, w plan.World) document {
	d := document{Cluster: cluster, Home: w.Home, Findings: w.Findings}
	for _, p := range w.Pools {
		nodes := 0
		for _, n := range w.Nodes {
			if slices.Contains(p.NodeGroups, n.Group) {
				nodes++
			}
		}
		d.Pools = append(d.Pools, poolPlan{Name: p.Name, NodeGroups: p.NodeGroups, Nodes: nodes, Target: w.Targets[p.Name]})
	}
	return d
}

func print(out io.Writer, format, cluster string, w plan.World) error {
	var b []byte
	var err error
	switch format {
	case "iam":
		if w.Cluster.Name == "" { // the policy names the cluster's ARN
			return fmt.Errorf("no IAM policy without the cluster: %s", strings.TrimSpace(preflight.Text(w.Findings)))
		}
		b, err = indented(identity.Policy(w.Cluster, w.NodePolicies...))
	case "json":
		b, err = json.MarshalIndent(documentOf(cluster, w), "", "  ")
	case "yaml":
		b, err = yaml.Marshal(documentOf(cluster, w))
	default:
		return text(out, documentOf(cluster, w))
	}
	if err != nil {
		return fmt.Errorf("writing the plan: %w", err)
	}
	_, err = out.Write(b)
	return err
}

func text(out io.Writer, d document) error {
	fmt.Fprintf(out, "Cluster %s. Home (kept for Karpenter, CoreDNS and castoff): %s.\n", d.Cluster, orNone(d.Home))
	switch len(d.Pools) {
	case 0:
		fmt.Fprintln(out, "No pools: nothing would be migrated.")
	case 1:
		fmt.Fprintln(out, "One wave: the pool changes hands, then is drained.")
	default:
		fmt.Fprintf(out, "One wave: all %d pools change hands together, then are drained in this order.\n", len(d.Pools))
	}
	for i, p := range d.Pools {
		fmt.Fprintf(out, "\n%d. Pool %s: node groups %s, nodes %d\n", i+1, p.Name, strings.Join(p.NodeGroups, ", "), p.Nodes)
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

// manifest is the object without its status and what is null: Karpenter's types write some fields that nobody set.
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
	dropNulls(m)
	return yaml.Marshal(m)
}

func dropNulls(m map[string]any) {
	for k, v := range m {
		switch v := v.(type) {
		case nil:
			delete(m, k)
		case map[string]any:
			if dropNulls(v); len(v) == 0 {
				delete(m, k)
			}
		}
	}
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// indented is a JSON document as people read it; AWS does not count the white space.
func indented(document string) ([]byte, error) {
	var b bytes.Buffer
	if err := json.Indent(&b, []byte(document), "", "  "); err != nil {
		return nil, err
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}
