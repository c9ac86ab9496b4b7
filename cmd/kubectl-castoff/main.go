// Command kubectl-castoff is the kubectl plugin: what would happen, what is happening, and the user's word for the next step.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/go-logr/logr"

	"github.com/castoff-sh/castoff/controllers"
)

// version is set by the linker.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctrllog.SetLogger(logr.Discard())
	if err := root().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

// app is what every command needs: how to reach the cluster.
type app struct {
	flags *genericclioptions.ConfigFlags
}

func root() *cobra.Command {
	a := &app{flags: genericclioptions.NewConfigFlags(true)}
	a.flags.ClusterName = nil // kubectl's --cluster names an entry of the kubeconfig; here it names the EKS cluster
	cmd := &cobra.Command{
		Use: "kubectl-castoff", Short: "Move an EKS cluster from Cluster Autoscaler to Karpenter", Version: version,
		SilenceUsage: true, SilenceErrors: true, Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl castoff"},
	}
	a.flags.AddFlags(cmd.PersistentFlags())
	cmd.AddCommand(a.plan(), a.approve(), a.report(), a.status())
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
