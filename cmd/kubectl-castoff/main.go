// Command kubectl-castoff is the kubectl plugin: what would happen, what is happening, and the
// user's word for what comes next: on, stop, or back.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/go-logr/logr"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/controllers"
)

// version is set by the linker.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctrllog.SetLogger(logr.Discard())
	if err := newApp().root().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

// app is what every command needs: how to reach the cluster, and how to look at it.
type app struct {
	flags *genericclioptions.ConfigFlags
	// connect, observer and prices are put in their place by tests.
	connect  func() (client.Client, error)
	observer func(ctx context.Context, c client.Client, namespace string) (*controllers.Observer, error)
	prices   priceList
}

func newApp() *app {
	a := &app{flags: genericclioptions.NewConfigFlags(true)}
	a.flags.ClusterName = nil // kubectl's --cluster names an entry of the kubeconfig; here it names the EKS cluster
	a.connect, a.observer, a.prices = a.client, a.newObserver, listPrices
	return a
}

func (a *app) root() *cobra.Command {
	cmd := &cobra.Command{
		Use: "kubectl-castoff", Short: "Move an EKS cluster from Cluster Autoscaler to Karpenter", Version: version,
		Example: `  kubectl castoff plan --cluster prod     # what would happen
  kubectl apply -f migration.yaml         # begin
  kubectl castoff status prod             # what is happening, and what it waits for
  kubectl castoff approve prod            # with spec.approval: Manual, the next step
  kubectl castoff pause prod              # stop; nodes that are not drained go back in service
  kubectl castoff resume prod             # go on
  kubectl castoff rollback prod           # back to Cluster Autoscaler`,
		SilenceUsage: true, SilenceErrors: true, Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl castoff"},
	}
	a.flags.AddFlags(cmd.PersistentFlags())
	cmd.AddCommand(a.plan(), a.report(), a.status())
	for _, v := range verbs {
		cmd.AddCommand(a.steer(v))
	}
	return cmd
}

// client for the cluster that kubectl would talk to.
func (a *app) client() (client.Client, error) {
	config, err := a.flags.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("finding the cluster: %w", err)
	}
	scheme, err := controllers.Scheme()
	if err != nil {
		return nil, err
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("reaching the cluster: %w", err)
	}
	return c, nil
}

// migration reads a Migration. Its errors say what to do about the two that everybody meets.
func migration(ctx context.Context, c client.Client, name string) (*v1alpha1.Migration, error) {
	m := &v1alpha1.Migration{}
	err := c.Get(ctx, types.NamespacedName{Name: name}, m)
	switch {
	case meta.IsNoMatchError(err):
		return nil, fmt.Errorf("%w: %w", errNotInstalled, err)
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("there is no Migration %s: kubectl get migrations lists them: %w", name, err)
	case err != nil:
		return nil, fmt.Errorf("reading Migration %s: %w", name, err)
	}
	return m, nil
}

var errNotInstalled = errors.New("this cluster does not know Migrations: install castoff first, with helm install castoff charts/castoff -n castoff-system --create-namespace")
