package controllers

import (
	"bufio"
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/preflight"
)

// The budgets of an inventory and a preflight of 1,000 nodes and 30,000 pods, the largest cluster that castoff is measured on.
const (
	largeNodes, largePods = 1000, 30000
	// preflightTime: a look has 30 s (lookDeadline), and a third of that is for what AWS answers and a third to spare. It is held
	// against the CPU time of the process, on all cores: on a machine that has nothing else to do that is more than what passes,
	// and on a busy one it is the same.
	preflightTime = 10 * time.Second
	// preflightHeap: the operator's memory is limited to 256 MiB (charts/castoff/values.yaml), and it needs less than 96 MiB for
	// everything else (docs/design/0005-memory.md); 32 MiB are to spare. It is the most that is in use by the Go heap during the
	// read and the checks, garbage that is not swept yet included, above what was in use before.
	preflightHeap = 128 << 20
)

// BenchmarkPreflight reads a large cluster over HTTP and judges it, and fails when it is over budget. The server is a process of its
// own, so that its memory is not counted, and has encoded every page before the clock starts: what it costs an API server to
// answer is not castoff's. Garbage is collected as the operator does it (cmd/manager).
func BenchmarkPreflight(b *testing.B) {
	defer debug.SetGCPercent(debug.SetGCPercent(50))
	live := clientOf(b, serveElsewhere(b))
	if _, _, err := lookOnce(b.Context(), live); err != nil { // encodes the pages
		b.Fatal(err)
	}
	for b.Loop() {
		before := heapInUse()
		began := cpuTime(b)
		peak := peakHeap(func() {
			findings, pods, err := lookOnce(b.Context(), live)
			if err != nil || pods != largePods || len(findings) == 0 {
				b.Fatalf("%d pods, %d findings, %v", pods, len(findings), err)
			}
		})
		took, above := cpuTime(b)-began, int64(peak)-int64(before)
		b.ReportMetric(took.Seconds(), "CPU-s/op")
		b.ReportMetric(float64(above)/(1<<20), "MiB-peak")
		if took > preflightTime || above > preflightHeap {
			b.Fatalf("%s of CPU and %d MiB: the budget is %s and %d MiB", took, above>>20, preflightTime, preflightHeap>>20)
		}
	}
}

// lookOnce is the part of a look whose cost grows with the cluster: nodes, workloads, and every check.
func lookOnce(ctx context.Context, live client.Reader) ([]inventory.Finding, int, error) {
	var nodes []inventory.Node
	err := each(ctx, live, &corev1.NodeList{}, func(n *corev1.Node) { nodes = append(nodes, nodeOf(n)) })
	if err != nil {
		return nil, 0, err
	}
	workloads, err := readWorkloads(ctx, live)
	if err != nil {
		return nil, 0, err
	}
	return preflight.Run(preflightOf(nodes, workloads), nil), len(workloads.Pods), nil
}

// cpuTime that this process has used so far.
func cpuTime(tb testing.TB) time.Duration {
	tb.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func heapInUse() uint64 {
	runtime.GC()
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse
}

// peakHeap is the most of the heap that was in use while f ran, sampled every 2 ms.
func peakHeap(f func()) uint64 {
	stop, done := make(chan struct{}), make(chan struct{})
	var peak atomic.Uint64
	go func() {
		defer close(done)
		ticks := time.NewTicker(2 * time.Millisecond)
		defer ticks.Stop()
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			peak.Store(max(peak.Load(), m.HeapInuse))
			select {
			case <-stop:
				return
			case <-ticks.C:
			}
		}
	}()
	f()
	close(stop)
	<-done
	return peak.Load()
}

// largeServer, in the environment, makes the test binary the large cluster's API server.
const largeServer = "CASTOFF_TEST_LARGE_CLUSTER"

// serveElsewhere starts the API server of the large cluster as a process of its own and returns its address.
func serveElsewhere(tb testing.TB) string {
	tb.Helper()
	self, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	c := exec.CommandContext(tb.Context(), self)
	c.Env = append(os.Environ(), largeServer+"=1")
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := c.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() }) // it never ends by itself
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		tb.Fatal(err)
	}
	return strings.TrimSpace(address)
}

// serveLarge is that process.
func serveLarge() {
	s := httptest.NewServer(newPagingServer(largeCluster(largeNodes, largePods)))
	_, _ = fmt.Fprintln(os.Stdout, s.URL) // the parent reads it
	select {}
}
