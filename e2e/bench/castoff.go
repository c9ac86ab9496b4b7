package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/castoff-sh/castoff/e2e/harbor"
	"github.com/castoff-sh/castoff/e2e/watcher"
)

// migration has no limit on nodes in flight but the budgets, and keeps no instance for a load balancer that is not there.
func migration(surge string) *unstructured.Unstructured {
	strategy := map[string]any{"maxUnavailableNodes": "100%", "capacity": "WarmFirst", "soakSeconds": int64(5), "loadBalancerSeconds": int64(0)}
	if surge != "" {
		strategy["surge"] = surge
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "castoff.sh/v1alpha1", "kind": "Migration", "metadata": map[string]any{"name": "bench"},
		"spec": map[string]any{"clusterName": harbor.Cluster, "home": map[string]any{"nodeGroup": harbor.Home}, "strategy": strategy},
	}}
}

// shifted is what a migration by castoff came to.
type shifted struct {
	measures         watcher.Measures
	memory           *float64 // MiB, 95th percentile
	longestReconcile float64  // seconds, the bound of its histogram's bucket
	report           watcher.Report
}

// castoff migrates the scene. errNoSurge says that its API has no such surge.
func (b *Bench) castoff(ctx context.Context, s size, surge string) (shifted, error) {
	var out shifted
	scene, err := harbor.Start(ctx, b.options(s.stage("")))
	if err != nil {
		return out, err
	}
	defer scene.Stop()
	if err := scene.InstallCastoff(ctx); err != nil {
		return out, err
	}
	if err := scene.Watcher.Begin(ctx); err != nil {
		return out, err
	}
	g := &gauge{usage: scene.Lab.Runner.Usage, namespace: harbor.CastoffNamespace}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go g.run(ctx)
	scene.Say("kubectl apply -f migration.yaml")
	if err := scene.Client.Create(ctx, migration(surge)); err != nil {
		return out, refusedSurge(surge, err)
	}
	out.measures, err = b.follow(ctx, scene, func() bool { return scene.Watcher.Phase() == "Completed" })
	out.memory, out.longestReconcile = g.p95(), g.longestReconcile()
	if err != nil {
		return out, err
	}
	if out.report, err = scene.Watcher.Report(ctx); err != nil {
		return out, err
	}
	if broken := out.report.Broken(); len(broken) > 0 {
		return out, fmt.Errorf("a promise was broken: %v, %v", broken, out.report.Details())
	}
	return out, b.keep(scene.Lab)
}

// errNoSurge says that castoff does not know that surge.
var errNoSurge = errors.New("castoff's API refuses the surge")

// refusedSurge tells an API that does not know the surge from everything else that may be wrong.
func refusedSurge(surge string, err error) error {
	if surge != "" && apierrors.IsInvalid(err) {
		return fmt.Errorf("%w: %w", errNoSurge, err)
	}
	return fmt.Errorf("making the Migration: %w", err)
}

// follow looks every second until the shift is done and `over` says so, or ctx ends; then the measures are those so far.
func (b *Bench) follow(ctx context.Context, scene *harbor.Scene, over func() bool) (watcher.Measures, error) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	told := false
	for {
		m, err := scene.Watcher.Measures(ctx)
		if err != nil {
			return m, err
		}
		if m.Done && !told {
			told = true
			scene.Say("the shift is done: %.1f s, %.0f pod-seconds unavailable", m.Makespan.Seconds(), m.PodUnavailable.Seconds())
		}
		if m.Done && over() {
			return m, nil
		}
		select {
		case <-ctx.Done():
			return m, fmt.Errorf("the shift is not done, after %s: %w", m.Makespan.Round(time.Second), context.Cause(ctx))
		case err := <-scene.Lab.Failed():
			return m, fmt.Errorf("the lab broke: %w", err)
		case <-ticker.C:
		}
	}
}
