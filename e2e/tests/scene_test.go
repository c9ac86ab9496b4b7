//go:build lab

package tests

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/castoff-sh/castoff/e2e/harbor"
	"github.com/castoff-sh/castoff/e2e/lab"
	"github.com/castoff-sh/castoff/e2e/watcher"
)

const repository = "../.."

// testWriter shows a scene's lines with the test's.
type testWriter struct{ t *testing.T }

func (w testWriter) Write(text []byte) (int, error) {
	w.t.Log(strings.TrimRight(string(text), "\n"))
	return len(text), nil
}

// play starts the scene for one test.
func play(t *testing.T, timeout time.Duration) (context.Context, *harbor.Scene) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	t.Cleanup(cancel)
	scene, err := harbor.Start(ctx, harbor.Options{
		Lab: lab.Config{
			BinDir: filepath.Join(repository, "bin"), Dir: t.TempDir(), SimulatorLag: time.Second,
			Log: slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelWarn})),
		},
		Chart: filepath.Join(repository, "charts", "castoff"), Out: testWriter{t},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(scene.Stop)
	return ctx, scene
}

func reportOf(ctx context.Context, t *testing.T, scene *harbor.Scene) watcher.Report {
	t.Helper()
	report, err := scene.Watcher.Report(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + report.Summary())
	return report
}
