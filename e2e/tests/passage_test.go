//go:build lab && long

package tests

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/e2e/awssim/simapi"
	"github.com/castoff-sh/castoff/e2e/harbor"
	"github.com/castoff-sh/castoff/e2e/lab"
	"github.com/castoff-sh/castoff/e2e/watcher"
	"github.com/castoff-sh/castoff/e2e/watcher/state"
)

// autoscalerKey is Cluster Autoscaler's Deployment.
var autoscalerKey = client.ObjectKey{Namespace: "kube-system", Name: "cluster-autoscaler"}

// passage is one lab in which a Migration goes there and back, several times, and what was before the first time.
type passage struct {
	scene  *harbor.Scene
	from   state.Sources
	before state.State
	report rollbackReport
}

// rollbackReport is bin/rollback-report.json. The times are the worst of all runs, the counts their sums.
type rollbackReport struct {
	// Compared is how many values there were before, each of which was looked at again.
	Compared                int                `json:"compared"`
	Differences             []state.Difference `json:"differences"`
	UnservedSeconds         float64            `json:"unservedSeconds"`
	DoubleServedSeconds     float64            `json:"doubleServedSeconds"`
	PDBViolations           int                `json:"pdbViolations"`
	PodsDeletedByCastoff    int                `json:"podsDeletedByCastoff"`
	InstancesEndedUndrained int                `json:"instancesEndedUndrained"`
	DaemonPodsMissing       int                `json:"daemonPodsMissing"`
	Runs                    []rollbackRun      `json:"runs"`
}

// rollbackRun is one way back.
type rollbackRun struct {
	From                string  `json:"from"`
	Crashes             bool    `json:"crashes"`
	Seconds             float64 `json:"seconds"`
	Differences         int     `json:"differences"`
	UnservedSeconds     float64 `json:"unservedSeconds"`
	DoubleServedSeconds float64 `json:"doubleServedSeconds"`
	PDBViolations       int     `json:"pdbViolations"`
}

// embark brings up the scene, lived in, with castoff installed, and remembers what there is.
func embark(ctx context.Context, t *testing.T) *passage {
	t.Helper()
	g := NewWithT(t)
	scene, err := harbor.Start(ctx, harbor.Options{
		Lab: lab.Config{
			BinDir: filepath.Join(repository, "bin"), Dir: t.TempDir(), SimulatorLag: time.Second, BootDelay: 3 * time.Second,
			Log: slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelWarn})),
		},
		Chart: filepath.Join(repository, "charts", "castoff"), Out: testWriter{t},
		SurgeAfter: 3 * time.Hour, // still to come at the end
	})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(scene.Stop)
	g.Expect(scene.Furnish(ctx)).To(Succeed())
	g.Expect(scene.InstallCastoff(ctx)).To(Succeed())
	p := &passage{scene: scene, report: rollbackReport{Differences: []state.Difference{}}, from: state.Sources{
		Client: scene.Client, Simulator: scene.Lab.Simulator, Cluster: harbor.Cluster, Except: []string{harbor.CastoffNamespace}, Autoscaler: autoscalerKey,
		AWS: aws.Config{Region: "us-east-1", BaseEndpoint: &scene.Lab.Simulator, Credentials: credentials.NewStaticCredentialsProvider("judge", "secret", "")},
	}}
	g.Eventually(ctx, func() []state.Difference { // AWS reads lag
		last := p.before
		p.before, err = state.Read(ctx, p.from)
		g.Expect(err).NotTo(HaveOccurred())
		return state.Compare(last, p.before)
	}, "30s", "2s").Should(BeEmpty())
	return p
}

// migration is an empty object of the scene's Migration.
func migration() *unstructured.Unstructured {
	m := &unstructured.Unstructured{}
	m.SetAPIVersion(v1alpha1.GroupVersion.String())
	m.SetKind("Migration")
	m.SetName("harbor")
	return m
}

// specify merges into the Migration's spec and returns when the API server has it.
func (p *passage) specify(ctx context.Context, t *testing.T, spec string) time.Time {
	t.Helper()
	if err := p.scene.Client.Patch(ctx, migration(), client.RawPatch("application/merge-patch+json", []byte(`{"spec":`+spec+`}`))); err != nil {
		t.Fatalf("changing the spec to %s: %v", spec, err)
	}
	return time.Now()
}

// forward makes the Migration, or resumes it, and opens a new account.
func (p *passage) forward(ctx context.Context, t *testing.T) {
	t.Helper()
	g := NewWithT(t)
	g.Expect(p.scene.Watcher.Begin(ctx)).To(Succeed())
	m := migration()
	g.Expect(yaml.Unmarshal([]byte(harbor.Migration), &m.Object)).To(Succeed())
	err := p.scene.Client.Create(ctx, m)
	if apierrors.IsAlreadyExists(err) {
		p.specify(ctx, t, `{"paused":false}`)
		return
	}
	g.Expect(err).NotTo(HaveOccurred())
}

// awaitPhase waits for one of the phases and says where it stands if none comes.
func (p *passage) awaitPhase(ctx context.Context, t *testing.T, within time.Duration, phases ...v1alpha1.Phase) {
	t.Helper()
	limited, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var names []string
	for _, phase := range phases {
		names = append(names, string(phase))
	}
	if err := p.scene.Watcher.AwaitPhase(limited, names...); err != nil {
		t.Fatalf("%v\nblockers: %v", err, p.blockers(ctx, t))
	}
}

func (p *passage) status(ctx context.Context, t *testing.T) v1alpha1.MigrationStatus {
	t.Helper()
	m := migration()
	if err := p.scene.Client.Get(ctx, client.ObjectKeyFromObject(m), m); err != nil {
		t.Fatal(err)
	}
	body, err := m.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	var typed v1alpha1.Migration
	if err := json.Unmarshal(body, &typed); err != nil {
		t.Fatal(err)
	}
	return typed.Status
}

// blockers are what the status names, a line each.
func (p *passage) blockers(ctx context.Context, t *testing.T) []string {
	t.Helper()
	var lines []string
	for _, b := range p.status(ctx, t).Blockers {
		lines = append(lines, fmt.Sprintf("%s %s %s: %s", b.Severity, b.Reason, b.Object, b.Message))
	}
	return lines
}

// awaitCompleted goes on to the end and wants every promise kept on the way.
func (p *passage) awaitCompleted(ctx context.Context, t *testing.T) {
	t.Helper()
	p.awaitPhase(ctx, t, 6*time.Minute, v1alpha1.PhaseCompleted)
	g := NewWithT(t)
	g.Eventually(ctx, func() []string { return reportOf(ctx, t, p.scene).Violations() }, "40s", "3s").Should(BeEmpty())
}

// back rolls back and compares with what was before. With crashes pools may be without a scaler for as long as castoff takes
// to come back itself.
func (p *passage) back(ctx context.Context, t *testing.T, from string, crash func()) {
	t.Helper()
	g := NewWithT(t)
	g.Expect(p.scene.Watcher.Begin(ctx)).To(Succeed())
	p.specify(ctx, t, `{"paused":true,"onPause":"RollBack"}`)
	unserved := 5 * time.Second
	if crash != nil {
		crash()
		unserved = 30 * time.Second
	}
	p.awaitPhase(ctx, t, 8*time.Minute, v1alpha1.PhaseRolledBack)
	var report watcher.Report
	g.Eventually(ctx, func() int { report = reportOf(ctx, t, p.scene); return report.PodsNotReady }, "30s", "3s").Should(BeZero())
	differences := p.differences(ctx, t)
	p.write(t, from, crash != nil, report, differences)
	for _, detail := range report.Details() {
		t.Log(detail)
	}
	for _, violation := range report.BackViolations(unserved) {
		t.Error(violation)
	}
	for _, difference := range differences {
		t.Error(difference)
	}
}

// differences compares with what was before, again and again for a while: AWS reads lag, and ends take their time.
func (p *passage) differences(ctx context.Context, t *testing.T) []state.Difference {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; pause(ctx, t, 2*time.Second) {
		after, err := state.Read(ctx, p.from)
		if err != nil {
			t.Fatal(err)
		}
		differences := state.Compare(p.before, after)
		if len(differences) == 0 || time.Now().After(deadline) {
			return differences
		}
	}
}

// write adds a run to the report and writes it, so that a test that fails later leaves it too.
func (p *passage) write(t *testing.T, from string, crashes bool, run watcher.Report, differences []state.Difference) {
	t.Helper()
	r := &p.report
	r.Compared = p.before.Count()
	r.Differences = append(r.Differences, differences...)
	r.UnservedSeconds = max(r.UnservedSeconds, run.UnservedSeconds)
	r.DoubleServedSeconds = max(r.DoubleServedSeconds, run.DoubleServedSeconds)
	r.PDBViolations += run.PDBViolations
	r.PodsDeletedByCastoff += run.PodsDeletedByCastoff
	r.InstancesEndedUndrained += run.InstancesEndedUndrained
	r.DaemonPodsMissing += run.DaemonPodsMissing
	r.Runs = append(r.Runs, rollbackRun{
		From: from, Crashes: crashes, Seconds: run.Seconds, Differences: len(differences), UnservedSeconds: run.UnservedSeconds,
		DoubleServedSeconds: run.DoubleServedSeconds, PDBViolations: run.PDBViolations,
	})
	body, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(repository, "bin", "rollback-report.json"), append(body, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Logf("back from %s after %.0f s: unserved %.1f s, double %.1f s, %d differences", from, run.Seconds, run.UnservedSeconds, run.DoubleServedSeconds, len(differences))
}

// awaitMiddle waits until one group is empty and another has begun to be: the second pool is being drained.
func (p *passage) awaitMiddle(ctx context.Context, t *testing.T) {
	t.Helper()
	door := simapi.NewClient(p.scene.Lab.Simulator)
	full := map[string]int{harbor.General: 6, harbor.Memory: 5, harbor.Batch: 5}
	NewWithT(t).Eventually(ctx, func() (string, error) {
		groups, err := door.Groups(ctx)
		empty, begun := 0, 0
		for _, group := range groups {
			name := group.NodeGroup
			if name == "" {
				name = group.Name
			}
			switch size, migrates := full[name]; {
			case !migrates:
			case len(group.InService) == 0:
				empty++
			case len(group.InService) < size:
				begun++
			}
		}
		return fmt.Sprintf("%d groups empty, %d begun", empty, begun), err
	}, "5m", "300ms").Should(Equal("1 groups empty, 1 begun"))
}

// awaitEviction waits until castoff asks for one.
func (p *passage) awaitEviction(ctx context.Context, t *testing.T, within time.Duration) {
	t.Helper()
	since := time.Now()
	NewWithT(t).Eventually(ctx, func() ([]string, error) { return p.scene.Watcher.Evictions(ctx, since) }, within, "500ms").ShouldNot(BeEmpty(), "castoff evicts")
}

// undrainedInService wants nothing of castoff's on the old nodes that are left, its mark aside, and no cordon that was not there.
func (p *passage) undrainedInService(ctx context.Context, t *testing.T) {
	t.Helper()
	g := NewWithT(t)
	was := map[string]state.Fields{}
	for _, node := range p.before.Nodes {
		was[node.ID] = node.Fields
	}
	var nodes corev1.NodeList
	g.Expect(p.scene.Client.List(ctx, &nodes)).To(Succeed())
	left := 0
	for _, node := range nodes.Items {
		if node.Labels["karpenter.sh/nodepool"] != "" || node.Annotations["lab.castoff.sh/ended"] != "" {
			continue
		}
		left++
		fields, stayed := was[state.InstanceID(node)]
		cordoned := fields["cordoned"] == "true" || !stayed && node.Spec.Unschedulable // a replaced one may have inherited it
		g.Expect(node.Spec.Unschedulable).To(Equal(cordoned), "the cordon of node %s", node.Name)
		for _, taint := range node.Spec.Taints {
			g.Expect(taint.Key).NotTo(HavePrefix("castoff.sh/"), "node %s", node.Name)
		}
		for key := range node.Labels {
			g.Expect(key).NotTo(HavePrefix("castoff.sh/"), "node %s", node.Name)
		}
	}
	t.Logf("%d undrained nodes are in service", left)
}

// autoscalerReplicas of Cluster Autoscaler's Deployment.
func (p *passage) autoscalerReplicas(ctx context.Context, t *testing.T) int32 {
	t.Helper()
	var d appsv1.Deployment
	if err := p.scene.Client.Get(ctx, autoscalerKey, &d); err != nil {
		t.Fatal(err)
	}
	return *d.Spec.Replicas
}

// patchAutoscaler is somebody's change of Cluster Autoscaler's Deployment.
func (p *passage) patchAutoscaler(ctx context.Context, t *testing.T, kind types.PatchType, patch string) {
	t.Helper()
	d := &appsv1.Deployment{}
	d.Namespace, d.Name = autoscalerKey.Namespace, autoscalerKey.Name
	if err := p.scene.Client.Patch(ctx, d, client.RawPatch(kind, []byte(patch))); err != nil {
		t.Fatal(err)
	}
}

// containing is for lists of lines.
func containing(lines []string, parts ...string) bool {
	return slices.ContainsFunc(lines, func(line string) bool {
		return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) })
	})
}
