//go:build lab && long

package tests

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/e2e/harbor"
	"github.com/castoff-sh/castoff/e2e/lab"
)

const (
	// legacyNodes are those of the scene: all but the home's two.
	legacyNodes = harbor.Nodes - 2
	// handOvers are measured on them, handOversLarge on largeLegacy nodes.
	handOvers      = 20
	handOversLarge = 4
	largeLegacy    = 200
	// unservedLimit is the promise: a pool is without a scaler for at most that long, in 95 of 100 hand-overs.
	unservedLimit = 5 * time.Second
	// growth is by how much the median may be larger with largeLegacy nodes: the time between two looks of castoff's, which is what
	// hand-overs of one cluster differ by.
	growth = time.Second
)

// handoverReport is bin/handover-report.json. All figures are the watcher's.
type handoverReport struct {
	// Seconds without a scaler, of the pool that was longest without one.
	UnservedP95         float64 `json:"unservedSecondsP95"`
	DoubleServedSeconds float64 `json:"doubleServedSeconds"`
	// GrowthRatio is the median with the most nodes by that with the fewest.
	GrowthRatio float64        `json:"growthRatio,omitempty"`
	Clusters    []*handoverRun `json:"clusters"`
}

// handoverRun is what was measured in one lab.
type handoverRun struct {
	LegacyNodes    int     `json:"legacyNodes"`
	UnservedP95    float64 `json:"unservedSecondsP95"`
	UnservedMax    float64 `json:"unservedSecondsMax"`
	UnservedMedian float64 `json:"unservedSecondsMedian"`
	// There are the hand-overs to Karpenter, Back those to Cluster Autoscaler.
	There []handover `json:"there"`
	Back  []handover `json:"back"`
}

// handover is one change of hands of all pools. Seconds are from the word to go to where it was done.
type handover struct {
	Seconds             float64 `json:"seconds"`
	UnservedSeconds     float64 `json:"unservedSeconds"`
	DoubleServedSeconds float64 `json:"doubleServedSeconds"`
}

// TestHandOver changes hands to and fro, in one lab of the scene's size and in one with many more nodes. The time without a scaler
// keeps its promise in both, and does not grow with the cluster; nobody is ever served twice.
func TestHandOver(t *testing.T) {
	report := &handoverReport{}
	for _, cluster := range []struct {
		name         string
		legacy, runs int
	}{{"Small", legacyNodes, handOvers}, {"Large", largeLegacy, handOversLarge}} {
		run := &handoverRun{LegacyNodes: cluster.legacy}
		report.Clusters = append(report.Clusters, run)
		t.Run(cluster.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
			defer cancel()
			p := embarkLegacy(ctx, t, cluster.legacy)
			for range cluster.runs {
				run.There = append(run.There, p.there(ctx, t))
				run.Back = append(run.Back, p.andBack(ctx, t))
				report.write(t)
			}
			p.home(ctx, t)
			run.judge(t)
		})
	}
	report.judge(t)
}

// embarkLegacy brings up the scene with that many legacy nodes, and castoff. What is added is added to the general group, and empty.
func embarkLegacy(ctx context.Context, t *testing.T, legacy int) *passage {
	t.Helper()
	g := NewWithT(t)
	more := int32(legacy - legacyNodes)
	shape := func(ctx context.Context, l *lab.Lab) error {
		api := autoscaling.NewFromConfig(aws.Config{Region: "us-east-1", BaseEndpoint: &l.Simulator, Credentials: credentials.NewStaticCredentialsProvider("harbor-admin", "secret", "")})
		_, err := api.UpdateAutoScalingGroup(ctx, &autoscaling.UpdateAutoScalingGroupInput{ // its minimum keeps Cluster Autoscaler from taking the empty ones
			AutoScalingGroupName: aws.String(harbor.General), MinSize: aws.Int32(more + 6), DesiredCapacity: aws.Int32(more + 6), MaxSize: aws.Int32(more + 12),
		})
		return err
	}
	scene, err := harbor.Start(ctx, harbor.Options{
		Lab: lab.Config{
			BinDir: filepath.Join(repository, "bin"), Dir: t.TempDir(), SimulatorLag: time.Second, BootDelay: time.Millisecond,
			NodeGrace: 10 * time.Minute, NodeLease: 200 * time.Second,
			Log: slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelWarn})),
		},
		Chart: filepath.Join(repository, "charts", "castoff"), Out: testWriter{t},
		Stage: &harbor.Stage{Shape: shape, Nodes: harbor.Nodes + int(more), Groups: 4, Workloads: harbor.Workloads(), Judgement: harbor.Judgement(), Quiet: true},
	})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(scene.Stop)
	g.Expect(scene.InstallCastoff(ctx)).To(Succeed())
	return &passage{scene: scene}
}

// unplaced is a pod that no node will ever take. While there is one more than before the migration no drain begins, so that every
// hand-over is of the same nodes and pods.
func unplaced() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "unplaced"},
		Spec: corev1.PodSpec{
			NodeSelector: map[string]string{"harbor.example/berth": "none"},
			Containers:   []corev1.Container{{Name: "app", Image: "registry.example.com/shop/app:v1"}},
		},
	}
}

// there goes forward until all pools are Karpenter's.
func (p *passage) there(ctx context.Context, t *testing.T) handover {
	t.Helper()
	g := NewWithT(t)
	began, first := time.Now(), p.scene.Watcher.Phase() == ""
	p.forward(ctx, t)
	if first {
		p.awaitPhase(ctx, t, 3*time.Minute, v1alpha1.PhaseInstalling) // its snapshot counted the pods without a node
		g.Expect(p.scene.Client.Create(ctx, unplaced())).To(Succeed())
	}
	p.awaitPhase(ctx, t, 3*time.Minute, v1alpha1.PhaseShifting)
	g.Eventually(ctx, func() bool { return containing(p.blockers(ctx, t), "PodsPending") }, "30s", "100ms").Should(BeTrue(), "no drain begins")
	return p.measured(ctx, t, "to Karpenter", began)
}

// andBack rolls back until all pools are Cluster Autoscaler's. What would come then, the end of Karpenter, changes no hands and takes
// longer than all before it; so the next way forward begins here.
func (p *passage) andBack(ctx context.Context, t *testing.T) handover {
	t.Helper()
	g := NewWithT(t)
	began := time.Now()
	g.Expect(p.scene.Watcher.Begin(ctx)).To(Succeed())
	p.specify(ctx, t, `{"paused":true,"onPause":"RollBack"}`)
	g.Eventually(ctx, func() bool { // its NodePools stop before Cluster Autoscaler is started
		report, err := p.scene.Watcher.Report(ctx)
		g.Expect(err).NotTo(HaveOccurred())
		return report.CAReplicas > 0 && len(report.AtRest()) == 0
	}, "2m", "200ms").Should(BeTrue(), "Cluster Autoscaler serves every pool")
	return p.measured(ctx, t, "to Cluster Autoscaler", began)
}

// home ends what was begun, as whoever measures leaves a cluster.
func (p *passage) home(ctx context.Context, t *testing.T) {
	t.Helper()
	NewWithT(t).Expect(client.IgnoreNotFound(p.scene.Client.Delete(ctx, unplaced()))).To(Succeed())
	p.awaitPhase(ctx, t, 3*time.Minute, v1alpha1.PhaseRolledBack)
}

// measured is the account since it was opened. It ends with every pool served.
func (p *passage) measured(ctx context.Context, t *testing.T, to string, began time.Time) handover {
	t.Helper()
	g := NewWithT(t)
	seconds := time.Since(began).Seconds()
	report, err := p.scene.Watcher.Report(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(report.AtRest()).To(BeEmpty(), "pools without a scaler afterwards")
	evicted, err := p.scene.Watcher.Evictions(ctx, began)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(evicted).To(BeEmpty(), "a hand-over moves no pod")
	p.scene.Say("hand-over %s: unserved %.2f s, double %.2f s, %.0f s from its beginning", to, report.UnservedSeconds, report.DoubleServedSeconds, seconds)
	return handover{Seconds: seconds, UnservedSeconds: report.UnservedSeconds, DoubleServedSeconds: report.DoubleServedSeconds}
}

// unserved are the figures of those hand-overs, the smallest first.
func unserved(handovers ...handover) []float64 {
	var figures []float64
	for _, h := range handovers {
		figures = append(figures, h.UnservedSeconds)
	}
	slices.Sort(figures)
	return figures
}

// share is the smallest figure that so many of a hundred do not exceed (nearest rank).
func share(figures []float64, of100 int) float64 {
	if len(figures) == 0 {
		return 0
	}
	return figures[max((len(figures)*of100+99)/100, 1)-1]
}

func (r *handoverRun) judge(t *testing.T) {
	t.Helper()
	for to, handovers := range map[string][]handover{"Karpenter": r.There, "Cluster Autoscaler": r.Back} {
		if p95 := share(unserved(handovers...), 95); p95 > unservedLimit.Seconds() {
			t.Errorf("%d legacy nodes: 95 of 100 hand-overs to %s leave a pool without a scaler for up to %.1f s, more than %s", r.LegacyNodes, to, p95, unservedLimit)
		}
		for i, h := range handovers {
			if h.DoubleServedSeconds > 0 {
				t.Errorf("%d legacy nodes: in hand-over %d to %s a pool had two scalers for %.1f s", r.LegacyNodes, i+1, to, h.DoubleServedSeconds)
			}
		}
	}
}

func (r *handoverReport) judge(t *testing.T) {
	t.Helper()
	small, large := r.Clusters[0], r.Clusters[len(r.Clusters)-1]
	if len(small.Back) < handOvers || len(large.Back) < handOversLarge {
		t.Fatal("not all hand-overs were made")
	}
	if large.UnservedMedian > small.UnservedMedian+growth.Seconds() {
		t.Errorf("the time without a scaler grows with the cluster: %.1f s with %d nodes, %.1f s with %d", small.UnservedMedian, small.LegacyNodes, large.UnservedMedian, large.LegacyNodes)
	}
}

// write works the figures out anew, so that a test that fails later leaves them too.
func (r *handoverReport) write(t *testing.T) {
	t.Helper()
	var all []handover
	for _, run := range r.Clusters {
		of := slices.Concat(run.There, run.Back)
		all = append(all, of...)
		figures := unserved(of...)
		run.UnservedP95, run.UnservedMax, run.UnservedMedian = share(figures, 95), share(figures, 100), share(figures, 50)
	}
	r.UnservedP95, r.DoubleServedSeconds = share(unserved(all...), 95), 0
	for _, h := range all {
		r.DoubleServedSeconds = max(r.DoubleServedSeconds, h.DoubleServedSeconds)
	}
	if small, large := r.Clusters[0], r.Clusters[len(r.Clusters)-1]; small != large && small.UnservedMedian > 0 {
		r.GrowthRatio = large.UnservedMedian / small.UnservedMedian
	}
	body, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(repository, "bin", "handover-report.json"), append(body, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}
