package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/castoff-sh/castoff/e2e/lab"
)

// upTimeout is ample: a lab takes about five seconds, more on a busy machine.
const upTimeout = 2 * time.Minute

func newUpCommand() *cobra.Command {
	var config lab.Config
	command := &cobra.Command{
		Use:   "up",
		Short: "Bring the lab up, say how to use it, and take it down on Ctrl-C",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			config.Log = slog.New(slog.NewTextHandler(command.ErrOrStderr(), nil))
			return up(command.Context(), command.OutOrStdout(), config)
		},
	}
	flags := command.Flags()
	flags.StringVar(&config.BinDir, "bin", "bin", "folder of the binaries that make build-lab makes")
	flags.StringVar(&config.Dir, "dir", ".lab", "folder for state and logs; an earlier lab's state in it is removed")
	flags.StringVar(&config.SimulatorURL, "simulator", "", "address of an AWS simulator that runs already; default: start bin/awssim")
	flags.DurationVar(&config.SimulatorLag, "lag", 2*time.Second, "for how long AWS reads stay behind writes")
	flags.DurationVar(&config.BootDelay, "boot-delay", 5*time.Second, "from an instance's running to its node joining")
	flags.DurationVar(&config.PodStartup, "pod-startup", time.Second, "from a pod's scheduling to its being Ready, where annotation "+lab.AnnotationStartup+" does not say")
	flags.DurationVar(&config.NodeGrace, "node-grace", 50*time.Second, "how long a node may be silent; 10m for 1,000 nodes on a busy machine")
	flags.DurationVar(&config.NodeLease, "node-lease", 40*time.Second, "how long a node's lease lasts; 200s for 1,000 nodes")
	return command
}

func up(ctx context.Context, out io.Writer, config lab.Config) error {
	upContext, cancel := context.WithTimeout(ctx, upTimeout)
	defer cancel()
	l, err := lab.Up(upContext, config)
	if err != nil {
		return err
	}
	defer l.Stop()
	explain(out, l)
	select {
	case <-ctx.Done():
		_, _ = fmt.Fprintln(out, "\nStopping the lab.")
		return nil
	case err := <-l.Failed():
		return err
	}
}

// explain prints how to use the lab.
func explain(out io.Writer, l *lab.Lab) {
	_, _ = fmt.Fprintf(out, `
The lab is up.

  export KUBECONFIG=%s
  export AWS_ENDPOINT_URL=%s AWS_DEFAULT_REGION=us-east-1 AWS_ACCESS_KEY_ID=you AWS_SECRET_ACCESS_KEY=any

Try:
  kubectl get nodes,pods -A -w
  aws autoscaling describe-auto-scaling-groups
  curl $AWS_ENDPOINT_URL/_sim/instances

Logs: %s/logs (the pods' processes in logs/pods); audit log: %s
Ctrl-C stops everything.
`, l.Kubeconfig, l.Simulator, l.Dir, l.AuditLog)
}
