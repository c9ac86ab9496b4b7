package bench

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/castoff-sh/castoff/e2e/runner"
)

// percentile is the smallest sample that at least that share of all samples do not exceed; 0 without samples.
func percentile(samples []float64, share float64) float64 {
	if len(samples) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(samples))
	rank := int(math.Ceil(share * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// series are a Prometheus exposition's samples, by name with labels.
func series(body io.Reader) (map[string]float64, error) {
	out := map[string]float64{}
	scanner := bufio.NewScanner(body)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		line := scanner.Text()
		end := strings.LastIndexByte(line, ' ')
		if end < 0 || strings.HasPrefix(line, "#") {
			continue
		}
		if v, err := strconv.ParseFloat(line[end+1:], 64); err == nil {
			out[line[:end]] = v
		}
	}
	return out, scanner.Err()
}

// longestBucket is the bound, in seconds, of the histogram's last bucket that took anything: nothing lasted longer. The last of
// all has no bound, and is +Inf.
func longestBucket(all map[string]float64, histogram string) float64 {
	type bucket struct{ bound, count float64 }
	perLabels := map[string][]bucket{}
	for name, count := range all {
		labels, ok := strings.CutPrefix(name, histogram+"_bucket{")
		if !ok {
			continue
		}
		before, rest, ok := strings.Cut(labels, `le="`)
		if !ok {
			continue
		}
		bound, after, _ := strings.Cut(rest, `"`)
		if v, err := strconv.ParseFloat(bound, 64); err == nil {
			perLabels[before+after] = append(perLabels[before+after], bucket{v, count})
		}
	}
	longest := 0.0
	for _, buckets := range perLabels {
		slices.SortFunc(buckets, func(a, b bucket) int { return cmp.Compare(a.bound, b.bound) })
		total := buckets[len(buckets)-1].count
		if i := slices.IndexFunc(buckets, func(b bucket) bool { return b.count == total }); total > 0 {
			longest = max(longest, buckets[i].bound)
		}
	}
	return longest
}

const (
	residentMemory = "process_resident_memory_bytes"
	reconcileTime  = "controller_runtime_reconcile_time_seconds"
)

// gauge reads castoff's metrics once a second.
type gauge struct {
	usage     func() []runner.Usage
	namespace string
	http      http.Client

	mu      sync.Mutex
	memory  []float64 // MiB
	longest float64   // seconds
}

// run samples until ctx ends.
func (g *gauge) run(ctx context.Context) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		g.sample(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// sample takes the larger of the replicas; one that does not answer counts for nothing.
func (g *gauge) sample(ctx context.Context) {
	memory, longest := 0.0, 0.0
	for _, u := range g.usage() {
		if u.Namespace != g.namespace || u.MetricsURL == "" {
			continue
		}
		all, err := g.scrape(ctx, u.MetricsURL)
		if err != nil {
			continue
		}
		memory = max(memory, all[residentMemory]/(1<<20))
		longest = max(longest, longestBucket(all, reconcileTime))
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if memory > 0 {
		g.memory = append(g.memory, memory)
	}
	g.longest = max(g.longest, longest)
}

func (g *gauge) scrape(ctx context.Context, url string) (map[string]float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fmt.Errorf("asking %s: %w", url, err)
	}
	response, err := g.http.Do(request)
	if err != nil {
		return nil, fmt.Errorf("asking %s: %w", url, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("asking %s: %s", url, response.Status)
	}
	return series(response.Body)
}

// p95 is nil where no replica ever answered.
func (g *gauge) p95() *float64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.memory) == 0 {
		return nil
	}
	return rounded(percentile(g.memory, 0.95))
}

func (g *gauge) longestReconcile() float64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.longest
}
