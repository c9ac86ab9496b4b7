// Package bench measures shifts: castoff against what people do by hand, on the same cluster, with the figures of the lab's
// watcher. What the bounds are and where budgets come from is in docs/design/0009-bench.md.
package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/castoff-sh/castoff/e2e/watcher"
)

// Report is bin/bench.json. A way that was not measured is null.
type Report struct {
	// LowerBoundSeconds is how long a shift lasts at least where pods are evicted.
	LowerBoundSeconds float64 `json:"lowerBoundSeconds"`
	// UnavailableFloorSeconds is how many pod-seconds lack at least where pods are evicted.
	UnavailableFloorSeconds float64 `json:"unavailableFloorSeconds"`
	// Castoff with warm capacity and its default surge, CastoffSurge with surge All.
	Castoff      *Figures `json:"castoff"`
	CastoffSurge *Figures `json:"castoffSurge"`
	// KubectlDrain is node after node, DrainAll all at once, Karpenter serving.
	KubectlDrain *Figures `json:"kubectlDrain"`
	DrainAll     *Figures `json:"drainAll"`
}

// Figures of one way. Null where one has no meaning.
type Figures struct {
	// MakespanSeconds is from when all legacy nodes were cordoned until the last is gone and all pods are Ready.
	MakespanSeconds *float64 `json:"makespanSeconds"`
	// PodUnavailableSeconds is wanted minus Ready pods over time, PodPendingSeconds pods without a node over time.
	PodUnavailableSeconds *float64 `json:"podUnavailableSeconds"`
	PodPendingSeconds     *float64 `json:"podPendingSeconds"`
	// PDBFloorBreaches counts moments in which a disruption took a budget below its floor.
	PDBFloorBreaches *int `json:"pdbFloorBreaches"`
	// EvictionsRefused counts answers 429; MovedPods the pods that left legacy nodes.
	EvictionsRefused *int `json:"evictionsRefused"`
	MovedPods        *int `json:"movedPods"`
	// DoublePaidNodeSeconds is running instances beyond those there were before, over time.
	DoublePaidNodeSeconds *float64 `json:"doublePaidNodeSeconds"`
	// KubernetesWritesPerNode are without evictions; both per legacy node, of castoff or of who drains by hand.
	KubernetesWritesPerNode *float64 `json:"kubernetesWritesPerNode"`
	AWSCallsPerNode         *float64 `json:"awsCallsPerNode"`
	// OperatorRSSMiBP95 is the larger of castoff's two replicas' resident memory, 95th percentile of one sample a second.
	OperatorRSSMiBP95 *float64 `json:"operatorRssMiBP95"`
}

// figuresOf takes a watcher's measures; nodes is how many legacy nodes there were.
func figuresOf(m watcher.Measures, nodes int) *Figures {
	per := func(count int) *float64 { return rounded(float64(count) / float64(max(1, nodes))) }
	f := &Figures{
		PodUnavailableSeconds: rounded(m.PodUnavailable.Seconds()), PodPendingSeconds: rounded(m.PodPending.Seconds()),
		PDBFloorBreaches: &m.FloorBreaches, EvictionsRefused: &m.Refused, MovedPods: &m.MovedPods,
		DoublePaidNodeSeconds: rounded(m.DoublePaid.Seconds()), KubernetesWritesPerNode: per(m.KubernetesWrites), AWSCallsPerNode: per(m.AWSCalls),
	}
	if m.Done {
		f.MakespanSeconds = rounded(m.Makespan.Seconds())
	}
	return f
}

// rounded to a tenth: the watcher sees no finer.
func rounded(v float64) *float64 {
	v = float64(int64(v*10+0.5)) / 10
	return &v
}

// Read takes what an earlier run wrote, so that one way can be measured anew. Without a file there is nothing yet.
func Read(path string) (Report, error) {
	var r Report
	body, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return r, fmt.Errorf("reading the report: %w", err)
	}
	if err := json.Unmarshal(body, &r); err != nil {
		return r, fmt.Errorf("reading the report %s: %w", path, err)
	}
	return r, nil
}

// write replaces the file by any report as JSON.
func write(path string, report any) error {
	body, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the report: %w", err)
	}
	if err := os.WriteFile(path, append(body, '\n'), 0o644); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// Print shows the ways side by side, and what of the goals is reached.
func (r Report) Print(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "\tbound\tcastoff\tcastoff, surge\tkubectl drain\tdrain all\t\n")
	fmt.Fprintf(table, "makespan, s\t%.0f\t%s\t\n", r.LowerBoundSeconds, r.row(func(f *Figures) any { return f.MakespanSeconds }))
	fmt.Fprintf(table, "pods unavailable, pod-s\t%.0f\t%s\t\n", r.UnavailableFloorSeconds, r.row(func(f *Figures) any { return f.PodUnavailableSeconds }))
	for _, line := range []struct {
		name string
		get  func(*Figures) any
	}{
		{"pods pending, pod-s", func(f *Figures) any { return f.PodPendingSeconds }},
		{"dips under a PDB's floor", func(f *Figures) any { return f.PDBFloorBreaches }},
		{"evictions refused", func(f *Figures) any { return f.EvictionsRefused }},
		{"pods moved", func(f *Figures) any { return f.MovedPods }},
		{"paid twice, node-s", func(f *Figures) any { return f.DoublePaidNodeSeconds }},
		{"Kubernetes writes a node", func(f *Figures) any { return f.KubernetesWritesPerNode }},
		{"AWS calls a node", func(f *Figures) any { return f.AWSCallsPerNode }},
		{"castoff's memory, MiB", func(f *Figures) any { return f.OperatorRSSMiBP95 }},
	} {
		fmt.Fprintf(table, "%s\t\t%s\t\n", line.name, r.row(line.get))
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("printing the report: %w", err)
	}
	for _, v := range r.Verdicts() {
		if _, err := fmt.Fprintln(out, v); err != nil {
			return fmt.Errorf("printing the report: %w", err)
		}
	}
	return nil
}

// row is one figure of all four ways.
func (r Report) row(get func(*Figures) any) string {
	text := ""
	for i, f := range []*Figures{r.Castoff, r.CastoffSurge, r.KubectlDrain, r.DrainAll} {
		if i > 0 {
			text += "\t"
		}
		if f == nil {
			text += "-"
			continue
		}
		text += show(get(f))
	}
	return text
}

func show(value any) string {
	switch v := value.(type) {
	case *float64:
		if v != nil {
			return fmt.Sprintf("%.1f", *v)
		}
	case *int:
		if v != nil {
			return fmt.Sprint(*v)
		}
	}
	return "-"
}
