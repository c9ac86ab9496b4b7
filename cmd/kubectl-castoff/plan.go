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
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/controllers"
	"github.com/castoff-sh/castoff/pkg/cost"
	"github.com/castoff-sh/castoff/pkg/identity"
	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/plan"
)

type planOptions struct {
	cluster, file, output, namespace, rolesBoundary string
}

func (a *app) plan() *cobra.Command {
	o := planOptions{}
	cmd := &cobra.Command{
		Use:   "plan (--cluster NAME | -f migration.yaml)",
		Short: "Print what a migration would do and cost, and whether it is worth it; writes nothing anywhere",
		Long: `Print what a migration would do and cost, and whether it is worth it: pools in their order, the NodePool and
EC2NodeClass of each ready to commit, what cannot be carried over, what blocks, and what the owners of node groups
have to edit. With --cluster it is of the cluster's own Migration where there is one, with home and pools as that one's
snapshot has them, and else of one that has nothing but defaults.

It reads the cluster with your kubeconfig and AWS with your credentials and region (AWS_PROFILE, AWS_REGION), and
writes nothing. It needs read access only, and names what it lacks. Colours are off when the output is no terminal
or NO_COLOR is set.`,
		Example: "  kubectl castoff plan --cluster prod\n  kubectl castoff plan -f migration.yaml -o yaml\n  kubectl castoff plan --cluster prod -o iam > policy.json\n  kubectl castoff plan --cluster prod -o iam-boundary > boundary.json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !slices.Contains(formats, o.output) {
				return fmt.Errorf("unknown output %q: %s", o.output, strings.Join(formats, ", "))
			}
			var m *v1alpha1.Migration
			if o.file != "" {
				var err error
				if m, err = o.migration(cmd.Context(), cmd.InOrStdin()); err != nil {
					return err
				}
				o.cluster = m.Spec.ClusterName
			}
			return a.draw(cmd.Context(), cmd.OutOrStdout(), o, m)
		},
	}
	cmd.Flags().StringVar(&o.cluster, "cluster", "", "name of the EKS cluster")
	cmd.Flags().StringVarP(&o.file, "filename", "f", "", "a file with the Migration to plan for; - reads standard input")
	cmd.Flags().StringVarP(&o.output, "output", "o", "text", "text, yaml, json, iam (the IAM policy that castoff needs) or iam-boundary (a permissions boundary for its role)")
	cmd.Flags().StringVar(&o.namespace, "castoff-namespace", "castoff-system", "namespace that castoff is or will be in")
	cmd.Flags().StringVar(&o.rolesBoundary, "roles-boundary", "", "ARN of the permissions boundary that IAM roles have to have in your account, as in the chart's value aws.rolesPermissionsBoundary")
	cmd.MarkFlagsOneRequired("cluster", "filename")
	cmd.MarkFlagsMutuallyExclusive("cluster", "filename")
	return cmd
}

var formats = []string{"text", "yaml", "json", "iam", "iam-boundary"}

// migration is the one that would be applied, from its file.
func (o planOptions) migration(ctx context.Context, stdin io.Reader) (*v1alpha1.Migration, error) {
	m := &v1alpha1.Migration{}
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
	if m.Name == "" && m.GenerateName == "" {
		return nil, fmt.Errorf("the Migration %s has no name: set metadata.name", o.file)
	}
	if m.Spec.ClusterName == "" {
		return nil, fmt.Errorf("%s names no cluster: set spec.clusterName", o.file)
	}
	if m, err = admit(ctx, b); err != nil {
		return nil, fmt.Errorf("the API server would refuse the Migration %s: %w", o.file, err)
	}
	// What would happen is what happens when it goes on: a paused Migration does nothing, not even its preflight. And a status in
	// the file is of another day.
	m.Spec.Paused, m.Status = false, v1alpha1.MigrationStatus{}
	return m, nil
}

func (o planOptions) read(stdin io.Reader) ([]byte, error) {
	if o.file == "-" {
		return io.ReadAll(stdin)
	}
	return os.ReadFile(o.file)
}

// draw looks at the cluster, and prints the plan or the policy; without a Migration m, of the one that is there. A cluster on another cloud is told from its nodes alone: AWS
// would only answer that it does not know it.
func (a *app) draw(ctx context.Context, out io.Writer, o planOptions, m *v1alpha1.Migration) error {
	c, err := a.connect()
	if err != nil {
		return err
	}
	iam, isIAM := iamDocuments[o.output]
	if v, elsewhere := cost.NotOnAWS(providerIDs(ctx, c)); elsewhere {
		if isIAM {
			return fmt.Errorf("no %s for a cluster that is not on AWS: %s", iam.what, v.Reasons[0])
		}
		return print(out, o.output, document{Cluster: o.cluster, Verdict: &v})
	}
	var live *of
	if m == nil {
		if m, live, err = planned(ctx, c, o.cluster); err != nil {
			return err
		}
	}
	w, now, err := a.look(ctx, c, o, m)
	if err != nil {
		return err
	}
	if isIAM {
		return iam.print(out, w)
	}
	live.seen(m, w)
	d, err := a.document(ctx, c, document{Migration: live}, m, w, now)
	if err != nil {
		return err
	}
	return print(out, o.output, d)
}

// look looks at the world as castoff does, once, and says when.
func (a *app) look(ctx context.Context, c client.Client, o planOptions, m *v1alpha1.Migration) (plan.World, time.Time, error) {
	observer, err := a.observer(ctx, c, o.namespace)
	if err != nil {
		return plan.World{}, time.Time{}, err
	}
	observer.RolesBoundary = o.rolesBoundary
	access := &reader{Identity: observer.Ports.Identity}
	observer.Client, observer.Ports.Identity = uninstalled{observer.Client}, access
	groupsOf := observer.NodeGroupsOf
	observer.NodeGroupsOf = func(cluster string) controllers.NodeGroups { return surroundings{groupsOf(cluster), access} }
	w, err := observer.Observe(ctx, m)
	switch {
	case refused(err):
		return w, time.Time{}, lacking(ctx, access, m.Spec.ClusterName, err)
	case err != nil:
		return w, time.Time{}, fmt.Errorf("looking at the cluster: %w", err)
	case w.Cluster.Name == "":
		return w, time.Time{}, fmt.Errorf("EKS knows no cluster %q in the account and region of your AWS credentials: correct the name, or AWS_PROFILE or AWS_REGION", m.Spec.ClusterName)
	}
	w.Findings = access.ofCaller(w.Cluster.Name, w.Findings)
	return w, observer.Clock(), nil
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

func print(out io.Writer, format string, d document) error {
	var b []byte
	var err error
	switch format {
	case "json":
		b, err = json.MarshalIndent(d, "", "  ")
		b = append(b, '\n')
	case "yaml":
		b, err = yaml.Marshal(d)
	default:
		b, err = text(d, coloured(out))
	}
	if err != nil {
		return fmt.Errorf("writing the plan: %w", err)
	}
	_, err = out.Write(b)
	return err
}

// iamDocument is a policy document that the plan can be printed as. limit is what IAM allows it to have, in characters without white
// space (https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html).
type iamDocument struct {
	what, home string
	limit      int
	remedy     string
	write      func(c inventory.Cluster, extraNodePolicies ...string) string
}

// iamDocuments are by output format. The policy has more than a managed policy holds; a boundary has to be a managed policy.
var iamDocuments = map[string]iamDocument{
	"iam":          {"IAM policy", "a role holds %d in inline policies", 10240, ", or put its statements into two managed policies of 6144 each", identity.Policy},
	"iam-boundary": {"permissions boundary", "a managed policy holds %d", 6144, "", identity.PermissionsBoundary},
}

// print prints the document for castoff's role. It names the cluster's ARN.
func (d iamDocument) print(out io.Writer, w plan.World) error {
	p := d.write(w.Cluster, w.NodePolicies...)
	if len(p) > d.limit {
		return fmt.Errorf("the %s has %d characters, and "+d.home+": detach some of the %d extra policies of the old node roles, which castoff gives to Karpenter's nodes too%s",
			d.what, len(p), d.limit, len(w.NodePolicies), d.remedy)
	}
	var b bytes.Buffer
	if err := json.Indent(&b, []byte(p), "", "  "); err != nil {
		return fmt.Errorf("writing the %s: %w", d.what, err)
	}
	_, err := fmt.Fprintln(out, b.String())
	return err
}
