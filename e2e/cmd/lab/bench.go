package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/castoff-sh/castoff/e2e/bench"
)

func newBenchCommand() *cobra.Command {
	var (
		b      bench.Bench
		report string
		ways   []string
		scale  bool
	)
	command := &cobra.Command{
		Use:   "bench",
		Short: "castoff against kubectl drain on the same cluster, measured by an independent watcher; with --scale castoff alone, against its budgets",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := os.MkdirAll(filepath.Dir(report), 0o755); err != nil {
				return err
			}
			b.Out = command.OutOrStdout()
			log.SetLogger(logr.Discard()) // clients that nobody reads along
			if scale {
				return runScale(command.Context(), &b, report, b.Out)
			}
			got, err := b.Run(command.Context(), report, ways)
			if printErr := got.Print(b.Out); err == nil {
				err = printErr
			}
			return err
		},
	}
	flags := command.Flags()
	flags.StringVar(&b.BinDir, "bin", "bin", "folder of the binaries that make build-lab makes")
	flags.StringVar(&b.Dir, "dir", ".lab", "folder for state and logs; an earlier lab's state in it is removed")
	flags.StringVar(&b.Chart, "chart", "charts/castoff", "folder of castoff's chart")
	flags.StringVar(&report, "report", "bin/bench.json", "file for the report; ways that are not measured now stay as they are in it")
	flags.IntVar(&b.Nodes, "nodes", 24, "legacy nodes")
	flags.IntVar(&b.Pods, "pods", 100, "pods on them, a multiple of 25")
	flags.DurationVar(&b.Timeout, "timeout", 20*time.Minute, "for each way")
	flags.StringSliceVar(&ways, "ways", bench.Ways, "what to measure")
	flags.BoolVar(&scale, "scale", false, "castoff alone, against the budgets of a large cluster")
	return command
}

// runScale judges a migration that ended; one that did not has no figures.
func runScale(ctx context.Context, b *bench.Bench, report string, out io.Writer) error {
	got, err := b.RunScale(ctx, report)
	if err == nil {
		for _, v := range got.Verdicts() {
			_, _ = fmt.Fprintln(out, v)
		}
	}
	return err
}
