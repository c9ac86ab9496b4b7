package harbor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/castoff-sh/castoff/e2e/watcher"
)

// ErrBroken says that the demo ended with a broken promise. The report names it.
var ErrBroken = errors.New("a promise was broken")

// Demo plays a whole migration, prints it and the report, and writes the report as JSON to reportPath. It returns
// ErrBroken if the watcher found a promise broken. With keep the lab stays up until ctx ends.
func Demo(ctx context.Context, options Options, timeout time.Duration, reportPath string, keep bool) error {
	limited, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("the demo's time of %s is over", timeout))
	defer cancel()
	scene, err := Start(limited, options)
	if err != nil {
		return err
	}
	defer scene.Stop()
	err = scene.play(limited, reportPath)
	if keep && ctx.Err() == nil {
		scene.invite(err)
		<-ctx.Done()
	}
	return err
}

func (s *Scene) play(ctx context.Context, reportPath string) error {
	if err := s.InstallCastoff(ctx); err != nil {
		return err
	}
	report, err := s.Migrate(ctx)
	if writeErr := writeReport(reportPath, report); writeErr != nil {
		return errors.Join(err, writeErr)
	}
	s.show(report, reportPath, errors.Is(context.Cause(ctx), context.Canceled))
	if err != nil {
		return err
	}
	if len(report.Violations()) > 0 {
		return ErrBroken
	}
	return nil
}

func (s *Scene) show(report watcher.Report, path string, stopped bool) {
	out := s.options.Out
	_, _ = fmt.Fprintf(out, "\nThe report, from the audit log, the simulator's call log and an independent watcher (%s):\n\n%s\n", path, report.Summary())
	for _, usage := range s.Lab.Runner.Usage() {
		_, _ = fmt.Fprintf(out, "  memory at most %5.0f MiB  %s/%s\n", usage.PeakMiB, usage.Namespace, usage.Name)
	}
	_, _ = fmt.Fprintln(out)
	violations := report.Violations()
	switch {
	case stopped:
		_, _ = fmt.Fprintln(out, "Stopped before the end: these are the figures so far, and no verdict.")
		return
	case len(violations) == 0:
		_, _ = fmt.Fprintln(out, "Every promise was kept.")
		return
	}
	_, _ = fmt.Fprintln(out, "Broken:")
	for _, violation := range violations {
		_, _ = fmt.Fprintln(out, "  -", violation)
	}
	for _, detail := range report.Details() {
		_, _ = fmt.Fprintln(out, "     ", detail)
	}
}

func writeReport(path string, report watcher.Report) error {
	body, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the report: %w", err)
	}
	if err := os.WriteFile(path, append(body, '\n'), 0o644); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// invite says how to use a lab that stays up.
func (s *Scene) invite(err error) {
	if err != nil {
		_, _ = fmt.Fprintln(s.options.Out, "\nThe demo failed:", err)
	}
	_, _ = fmt.Fprintf(s.options.Out, `
The lab stays up until Ctrl-C.

  export KUBECONFIG=%s
  export AWS_ENDPOINT_URL=%s AWS_REGION=us-east-1 AWS_DEFAULT_REGION=us-east-1 AWS_ACCESS_KEY_ID=you AWS_SECRET_ACCESS_KEY=any

Try:
  kubectl get migrations; kubectl describe migration harbor
  kubectl get nodepools,nodeclaims,nodes -L karpenter.sh/nodepool
  kubectl -n shop scale deployment web --replicas=40     # Karpenter launches
  aws autoscaling describe-auto-scaling-groups --query 'AutoScalingGroups[].[AutoScalingGroupName,MinSize,MaxSize,DesiredCapacity]'
  curl $AWS_ENDPOINT_URL/_sim/calls | jq '.[-3:]'

Logs: %s/logs (castoff, the engine and Cluster Autoscaler in logs/pods)
`, s.Lab.Kubeconfig, s.Lab.Simulator, s.Lab.Dir)
}
