package lab

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func environment(values map[string]string) func(string) string {
	return func(name string) string { return values[name] }
}

// builtLab is a BinDir that holds empty files of those names.
func builtLab(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

var allBinaries = []string{nameEtcd, nameAPIServer, nameControllerManager, nameScheduler, nameKwok, nameSimulator}

func TestComplete(t *testing.T) {
	bin := builtLab(t, allBinaries...)
	config, err := Config{BinDir: bin, Dir: t.TempDir(), PodStartup: 7 * time.Second}.complete(environment(map[string]string{
		ImagesVariable: "ghcr.io/castoff-sh/manager=/old/manager, example.com/karpenter=/other/karpenter",
	}))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"ghcr.io/castoff-sh/manager":                     "/old/manager",
		"ghcr.io/castoff-sh/provisioner":                 filepath.Join(bin, "provisioner"),
		"registry.k8s.io/autoscaling/cluster-autoscaler": filepath.Join(bin, "ca-standin"),
		"example.com/karpenter":                          "/other/karpenter",
	}
	if diff := cmp.Diff(want, config.Images); diff != "" {
		t.Errorf("images (-want +got):\n%s", diff)
	}
	if config.PodStartup != 7*time.Second || config.PodShutdown != time.Second || config.Region != "us-east-1" || config.Log == nil {
		t.Errorf("defaults: %+v", config)
	}
}

func TestCompleteRefuses(t *testing.T) {
	bin := builtLab(t, allBinaries...)
	cases := map[string]struct {
		reason string
		config Config
		env    string
		want   string
	}{
		"NoDir":       {"nothing to guess", Config{BinDir: bin}, "", "Config.Dir"},
		"NotBuilt":    {"says what, where and how", Config{BinDir: builtLab(t, nameEtcd), Dir: t.TempDir()}, "", "kube-apiserver"},
		"NoSimulator": {"one is needed unless one is given", Config{BinDir: builtLab(t, allBinaries[:5]...), Dir: t.TempDir()}, "", "awssim not found"},
		"BadImages":   {"says what the form is", Config{BinDir: bin, Dir: t.TempDir()}, "manager", "image=/path"},
		"NoPath":      {"says what the form is", Config{BinDir: bin, Dir: t.TempDir()}, "manager=", "image=/path"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := tc.config.complete(environment(map[string]string{ImagesVariable: tc.env}))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: want an error that mentions %q, got %v", tc.reason, tc.want, err)
			}
		})
	}
	if _, err := (Config{BinDir: builtLab(t, allBinaries[:5]...), Dir: t.TempDir(), SimulatorURL: "http://127.0.0.1:1"}).complete(environment(nil)); err != nil {
		t.Errorf("a simulator that runs already needs no binary: %v", err)
	}
}

func TestALabsFolderIsItsOwn(t *testing.T) {
	dir := t.TempDir()
	first, err := lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lock(dir); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("want an error that names the folder, got %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := lock(dir)
	if err != nil {
		t.Fatalf("after the first lab's end: %v", err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}
