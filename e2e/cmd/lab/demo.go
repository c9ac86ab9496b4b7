package main

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/castoff-sh/castoff/e2e/harbor"
)

func newDemoCommand() *cobra.Command {
	var (
		options harbor.Options
		timeout time.Duration
		report  string
		keep    bool
	)
	command := &cobra.Command{
		Use:   "demo",
		Short: "A whole migration from Cluster Autoscaler to Karpenter, judged by an independent watcher",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := os.MkdirAll(filepath.Dir(report), 0o755); err != nil {
				return err
			}
			options.Out = command.OutOrStdout()
			options.Lab.Log = slog.New(slog.NewTextHandler(command.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelWarn}))
			err := harbor.Demo(command.Context(), options, timeout, report, keep)
			if err != nil && command.Context().Err() != nil && !errors.Is(err, harbor.ErrBroken) {
				return errors.New("stopped before the end")
			}
			return err
		},
	}
	flags := command.Flags()
	flags.StringVar(&options.Lab.BinDir, "bin", "bin", "folder of the binaries that make build-lab makes")
	flags.StringVar(&options.Lab.Dir, "dir", ".lab", "folder for state and logs; an earlier lab's state in it is removed")
	flags.DurationVar(&options.Lab.SimulatorLag, "lag", time.Second, "for how long AWS reads stay behind writes")
	flags.DurationVar(&options.Lab.BootDelay, "boot-delay", 3*time.Second, "from an instance's running to its node joining")
	flags.StringVar(&options.Chart, "chart", "charts/castoff", "folder of castoff's chart")
	flags.StringVar(&report, "report", "bin/demo-report.json", "file for the report")
	flags.DurationVar(&timeout, "timeout", 15*time.Minute, "for everything")
	flags.BoolVar(&keep, "keep", false, "leave the lab up afterwards, until Ctrl-C")
	return command
}
