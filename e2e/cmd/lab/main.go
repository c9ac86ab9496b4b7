// Command lab brings up castoff's lab: a real Kubernetes control plane on loopback, an AWS simulator, and castoff's own
// pods as processes.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends at once, and the kernel ends the children
	root := &cobra.Command{
		Use:           "lab",
		Short:         "castoff's lab: a real cluster without a cloud",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(newUpCommand(), newDemoCommand(), newBenchCommand())
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		os.Exit(1)
	}
}
