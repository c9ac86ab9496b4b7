package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/castoff-sh/castoff/e2e/harbor"
	"github.com/castoff-sh/castoff/e2e/lab"
)

// Ways to shift, by the name in the report.
const (
	Castoff      = "castoff"
	CastoffSurge = "castoffSurge"
	KubectlDrain = "kubectlDrain"
	DrainAll     = "drainAll"
)

// Ways in the order in which they are measured.
var Ways = []string{Castoff, CastoffSurge, KubectlDrain, DrainAll}

// Bench says where and with what to measure.
type Bench struct {
	// BinDir and Chart are what make build-lab makes, and castoff's chart.
	BinDir, Chart string
	// Dir takes the lab's state; one lab after the other is in it. Audit log and call log of each way are kept beside the report.
	Dir string
	// Nodes and Pods of the cluster. Default 24 and 100.
	Nodes, Pods int
	// Timeout of one way.
	Timeout time.Duration
	// Out gets the timeline.
	Out io.Writer

	way    string // that is being measured
	report string // its file
}

// options of a scene: pods and instances take as long as the bounds say. Leases of many nodes come late on a small machine.
func (b *Bench) options(stage *harbor.Stage) harbor.Options {
	config := lab.Config{BinDir: b.BinDir, Dir: b.Dir, SimulatorLag: time.Second, BootDelay: bootDelay}
	if stage.Nodes > 100 {
		config.NodeGrace, config.NodeLease = 10*time.Minute, 200*time.Second
	}
	return harbor.Options{Lab: config, Chart: b.Chart, Out: b.Out, Stage: stage}
}

// keep moves the logs that figures come from out of the way of the next lab.
func (b *Bench) keep(l *lab.Lab) error {
	for _, log := range []string{l.AuditLog, l.CallLog} {
		kept := filepath.Join(filepath.Dir(b.report), "bench-"+b.way+"-"+filepath.Base(log))
		body, err := os.ReadFile(log)
		if err != nil {
			return fmt.Errorf("keeping a log: %w", err)
		}
		if err := os.WriteFile(kept, body, 0o600); err != nil {
			return fmt.Errorf("keeping a log: %w", err)
		}
	}
	return nil
}

// Run measures those ways and writes the report after each; what an earlier run measured of the others stays.
func (b *Bench) Run(ctx context.Context, path string, ways []string) (Report, error) {
	b.report = path
	report, err := Read(path)
	if err != nil {
		return report, err
	}
	s := size{nodes: b.Nodes, pods: b.Pods}
	report.LowerBoundSeconds = lowerBound(launch, startup, s.loads()).Seconds()
	report.UnavailableFloorSeconds = unavailableFloor(startup, s.loads()).Seconds()
	for _, way := range Ways {
		if !slices.Contains(ways, way) {
			continue
		}
		if err := b.measure(ctx, s, way, &report); err != nil {
			return report, fmt.Errorf("%s: %w", way, err)
		}
		if err := write(path, report); err != nil {
			return report, err
		}
	}
	return report, nil
}

// measure puts one way's figures into the report.
func (b *Bench) measure(ctx context.Context, s size, way string, report *Report) error {
	ctx, cancel := context.WithTimeoutCause(ctx, b.Timeout, fmt.Errorf("the time of %s is over", b.Timeout))
	defer cancel()
	b.way = way
	_, _ = fmt.Fprintf(b.Out, "\n%s: %d nodes, %d pods\n", way, s.nodes, s.pods)
	switch way {
	case Castoff, CastoffSurge:
		return b.measureCastoff(ctx, s, way, report)
	default:
		m, err := b.kubectlDrain(ctx, s, way == DrainAll)
		if err != nil {
			return err
		}
		*report.of(way) = figuresOf(m, s.nodes)
		return nil
	}
}

// of is where a way's figures are.
func (r *Report) of(way string) **Figures {
	return map[string]**Figures{Castoff: &r.Castoff, CastoffSurge: &r.CastoffSurge, KubectlDrain: &r.KubectlDrain, DrainAll: &r.DrainAll}[way]
}

func (b *Bench) measureCastoff(ctx context.Context, s size, way string, report *Report) error {
	surge := ""
	if way == CastoffSurge {
		surge = "All"
	}
	got, err := b.castoff(ctx, s, surge)
	if errors.Is(err, errNoSurge) {
		_, _ = fmt.Fprintf(b.Out, "%s is null: %v\n", way, err)
		*report.of(way) = nil
		return nil
	}
	if err != nil {
		return err
	}
	figures := figuresOf(got.measures, s.nodes)
	figures.OperatorRSSMiBP95 = got.memory
	*report.of(way) = figures
	return nil
}

// Scale is what a large migration cost.
type Scale struct {
	Nodes             int      `json:"nodes"`
	Pods              int      `json:"pods"`
	LowerBoundSeconds float64  `json:"lowerBoundSeconds"`
	Figures           *Figures `json:"castoff"`
	StatusBytes       int      `json:"statusBytes"`
	// LongestReconcileSeconds is the bound of its histogram's bucket; null where it fits none.
	LongestReconcileSeconds *float64 `json:"longestReconcileSeconds"`
}

// Verdicts judges a large migration.
func (s Scale) Verdicts() []Verdict {
	longest := math.Inf(1)
	if s.LongestReconcileSeconds != nil {
		longest = *s.LongestReconcileSeconds
	}
	return []Verdict{
		{"castoff's memory, MiB", value(s.Figures.OperatorRSSMiBP95), memoryBudgetMiB},
		{"Kubernetes writes a node", value(s.Figures.KubernetesWritesPerNode), writesBudget},
		{"AWS calls a node", value(s.Figures.AWSCallsPerNode), callsBudget},
		{"bytes of status", float64(s.StatusBytes), statusBudget},
		{"the longest reconcile, s", longest, reconcileBudgetSeconds},
	}
}

// RunScale measures castoff on a large cluster and writes what it cost.
func (b *Bench) RunScale(ctx context.Context, path string) (Scale, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, b.Timeout, fmt.Errorf("the time of %s is over", b.Timeout))
	defer cancel()
	s := size{nodes: b.Nodes, pods: b.Pods}
	b.way, b.report = fmt.Sprintf("scale-%d", s.nodes), path
	got, err := b.castoff(ctx, s, "")
	figures := figuresOf(got.measures, s.nodes)
	figures.OperatorRSSMiBP95 = got.memory
	out := Scale{
		Nodes: s.nodes, Pods: s.pods, LowerBoundSeconds: lowerBound(launch, startup, s.loads()).Seconds(), Figures: figures, StatusBytes: got.measures.StatusBytes,
	}
	if !math.IsInf(got.longestReconcile, 1) {
		out.LongestReconcileSeconds = &got.longestReconcile
	}
	if err != nil {
		return out, err
	}
	return out, write(path, out)
}
