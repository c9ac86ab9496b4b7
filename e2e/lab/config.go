package lab

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// ImagesVariable overrides or adds to the image-to-binary map: name=/path,name=/path.
const ImagesVariable = "LAB_IMAGES"

// Config says what lab to bring up. Dir and BinDir are required; everything else has a default.
type Config struct {
	// BinDir holds etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kwok and awssim.
	BinDir string
	// Dir takes all state and logs. Up empties it of an earlier lab's state.
	Dir string
	// Log tells what the lab does; nil: nothing is told.
	Log *slog.Logger
	// Images maps an image's repository, without tag or digest, to the binary that is run for it; nil: DefaultImages.
	// The variable LAB_IMAGES is applied on top.
	Images map[string]string
	// Region is where the simulated AWS is. Default us-east-1.
	Region string

	// SimulatorURL uses a simulator that runs already, instead of starting bin/awssim.
	SimulatorURL string
	// SimulatorLag is for how long AWS reads stay behind writes. Default 0.
	SimulatorLag time.Duration
	// BootDelay is from an instance's running to its Node joining. Default 5 s. Pending and shutting-down take the simulator's defaults.
	BootDelay time.Duration

	// PodStartup is from a pod's scheduling to its being Ready, where the pod does not say (AnnotationStartup). Default 1 s.
	PodStartup time.Duration
	// PodShutdown is from a pod's deletion to its end, where the pod does not say (AnnotationShutdown). Default 1 s; never longer than its grace period.
	PodShutdown time.Duration
	// JobDuration is how long a Job's pod runs, where it does not say (AnnotationDuration). Default 5 s.
	JobDuration time.Duration
	// CrashBackOff is the wait before a failed container's first restart; it doubles up to 30 s. Default 2 s.
	CrashBackOff time.Duration

	// NodeGrace is how long a node may be silent before it counts as unknown. Default 50 s, Kubernetes' own;
	// use 10 m with 1,000 nodes on a busy machine, where leases come late.
	NodeGrace time.Duration
	// NodeLease is how long a node's lease lasts; renewed every quarter of it. Default 40 s; 200 s with 1,000 nodes.
	NodeLease time.Duration
	// ExtraArgs are further flags by process name, after the lab's own.
	ExtraArgs map[string][]string
	// PodEnv is set for every process that runs for a pod, e.g. GOCOVERDIR=…
	PodEnv []string
}

// DefaultImages is what the lab runs as processes: castoff, the built-in engine, the stand-in for Cluster Autoscaler.
func DefaultImages(binDir string) map[string]string {
	return map[string]string{
		"ghcr.io/castoff-sh/manager":                     filepath.Join(binDir, "manager"),
		"ghcr.io/castoff-sh/provisioner":                 filepath.Join(binDir, "provisioner"),
		"registry.k8s.io/autoscaling/cluster-autoscaler": filepath.Join(binDir, "ca-standin"),
	}
}

// Validate completes the defaults and says what is wrong.
func (c Config) complete(environ func(string) string) (Config, error) {
	if c.BinDir == "" || c.Dir == "" {
		return c, errors.New("lab: Config.BinDir and Config.Dir are required")
	}
	var err error
	if c.BinDir, err = filepath.Abs(c.BinDir); err != nil {
		return c, fmt.Errorf("lab: BinDir: %w", err)
	}
	if c.Dir, err = filepath.Abs(c.Dir); err != nil {
		return c, fmt.Errorf("lab: Dir: %w", err)
	}
	overrides, err := parseImages(environ(ImagesVariable))
	if err != nil {
		return c, err
	}
	if c.Images == nil {
		c.Images = DefaultImages(c.BinDir)
	}
	c.Images = maps.Clone(c.Images)
	maps.Copy(c.Images, overrides)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Region == "" {
		c.Region = "us-east-1"
	}
	for value, fallback := range map[*time.Duration]time.Duration{
		&c.BootDelay:    5 * time.Second,
		&c.PodStartup:   time.Second,
		&c.PodShutdown:  time.Second,
		&c.JobDuration:  5 * time.Second,
		&c.CrashBackOff: 2 * time.Second,
		&c.NodeGrace:    50 * time.Second,
		&c.NodeLease:    40 * time.Second,
	} {
		if *value == 0 {
			*value = fallback
		}
	}
	return c, c.checkBinaries()
}

// parseImages reads name=/path,name=/path.
func parseImages(value string) (map[string]string, error) {
	images := map[string]string{}
	for entry := range strings.SplitSeq(value, ",") {
		if entry = strings.TrimSpace(entry); entry == "" {
			continue
		}
		name, path, found := strings.Cut(entry, "=")
		if !found || name == "" || path == "" {
			return nil, fmt.Errorf("%s: %q is not of the form image=/path/of/binary", ImagesVariable, entry)
		}
		absolute, err := filepath.Abs(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %q: %w", ImagesVariable, entry, err)
		}
		images[name] = absolute
	}
	return images, nil
}

func (c Config) checkBinaries() error {
	needed := []string{nameEtcd, nameAPIServer, nameControllerManager, nameScheduler, nameKwok}
	if c.SimulatorURL == "" {
		needed = append(needed, nameSimulator)
	}
	var missing []string
	for _, name := range needed {
		if _, err := os.Stat(filepath.Join(c.BinDir, name)); err != nil {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("lab: %s not found in %s: build them with make build-lab", strings.Join(missing, ", "), c.BinDir)
	}
	return nil
}
