//go:build lab && long

package tests

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/e2e/awssim/simapi"
	"github.com/castoff-sh/castoff/e2e/harbor"
	"github.com/castoff-sh/castoff/e2e/lab"
	"github.com/castoff-sh/castoff/e2e/watcher"
)

const (
	// atOnce is within what an interference is to be seen: one reconcile, and what the watches before it take.
	atOnce = 5 * time.Second
	// beside is for how long nothing may be evicted beside an interference that hurts. Without one a pod goes every five seconds or so.
	beside = 15 * time.Second
	// nextPod is within what a pod is evicted when nothing is in the way.
	nextPod = 75 * time.Second
	// selfHeal is how often GitOps puts back what it has written down.
	selfHeal = 5 * time.Second
)

// held is a lab in which a migration stands in the middle of Shifting: one node is being drained, and its pods' budgets let none of
// them go. While somebody interferes they let one go at a time, so that castoff's silence means something.
type held struct {
	*passage
	door *simapi.Client
	asg  *autoscaling.Client
}

// interference is what somebody does in the middle of a migration, and what is to come of it.
type interference struct {
	name string
	// act interferes, and undo takes that back. again, if there is one, is called every selfHeal until undo: GitOps.
	act, again, undo func(context.Context, *testing.T)
	// seen are parts of one line of status.blockers: severity, reason, object and message.
	seen []string
	// within is how long that may take; 0: atOnce. AWS is asked every few seconds only.
	within time.Duration
	// single are parts of the condition SingleScaler, as "False TwoScalers message"; empty: it stays True.
	single []string
	// brief: castoff sees to it so fast that the condition may be over before it is read. Its event stays.
	brief bool
	// event are parts of one event's line, as "Warning TwoScalers note"; empty: those of seen but for the severity.
	event []string
	// ends are parts of a line of status.blockers at the end of the last round, where castoff does something about it first.
	ends []string
	// harmless: castoff goes on evicting beside it. over, if there is one, says from when on: until then it evicts nothing.
	harmless bool
	over     func(context.Context, *testing.T) bool
	// writes bounds what castoff may write to an object while it lasts, by "resource namespace/name".
	writes map[string]int
	// forgives are parts of broken promises that are somebody else's doing.
	forgives []string
	// twoByForce: somebody else makes two scalers, and no migration can keep them from it. The watcher counts the seconds, and they
	// are held against the time that it lasted.
	twoByForce bool
}

// hold brings up the lab and the migration to where it is held.
func hold(ctx context.Context, t *testing.T) *held {
	t.Helper()
	g := NewWithT(t)
	scene, err := harbor.Start(ctx, harbor.Options{
		Lab: lab.Config{
			BinDir: filepath.Join(repository, "bin"), Dir: t.TempDir(), SimulatorLag: time.Second, BootDelay: 3 * time.Second,
			Log: slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelWarn})),
		},
		Chart: filepath.Join(repository, "charts", "castoff"), Out: testWriter{t},
		Stage: &harbor.Stage{Nodes: harbor.Nodes, Groups: 4, Workloads: patientWorkloads(), Judgement: harbor.Judgement(), Quiet: true},
	})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(scene.Stop)
	g.Expect(scene.InstallCastoff(ctx)).To(Succeed())
	h := &held{
		passage: &passage{scene: scene}, door: simapi.NewClient(scene.Lab.Simulator),
		asg: autoscaling.NewFromConfig(aws.Config{Region: "us-east-1", BaseEndpoint: &scene.Lab.Simulator, Credentials: credentials.NewStaticCredentialsProvider("somebody", "secret", "")}),
	}
	m := migration()
	m.Object["spec"] = map[string]any{
		"clusterName": harbor.Cluster, "home": map[string]any{"nodeGroup": harbor.Home},
		"strategy": map[string]any{"maxUnavailableNodes": int64(1), "soakSeconds": int64(5), "waves": "Single"},
	}
	g.Expect(scene.Watcher.Begin(ctx)).To(Succeed())
	g.Expect(scene.Client.Create(ctx, m)).To(Succeed())
	h.awaitPhase(ctx, t, 4*time.Minute, v1alpha1.PhaseShifting)
	began := time.Now()
	g.Eventually(ctx, func() ([]string, error) { return scene.Watcher.Evictions(ctx, began) }, "2m", "200ms").ShouldNot(BeEmpty(), "the first eviction")
	h.letGo(ctx, t, 0)
	scene.Say("the migration is held")
	return h
}

// patientWorkloads are one Deployment a group, whose budgets say when the migration goes on.
func patientWorkloads() []client.Object {
	const namespace = "shop"
	objects := []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}}
	for _, a := range []struct {
		tier     string
		replicas int32
		cpu      string
	}{{harbor.General, 60, "300m"}, {harbor.Memory, 56, "100m"}, {harbor.Batch, 56, "100m"}} {
		labels := map[string]string{"app": a.tier}
		named := metav1.ObjectMeta{Namespace: namespace, Name: a.tier, Labels: labels}
		template := corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{lab.AnnotationStartup: "3s"}},
			Spec: corev1.PodSpec{
				NodeSelector: map[string]string{"harbor.example/tier": a.tier},
				Containers: []corev1.Container{{Name: "app", Image: "registry.example.com/shop/app:v1", Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(a.cpu), corev1.ResourceMemory: resource.MustParse("128Mi")},
				}}},
			},
		}
		if a.tier == harbor.Memory {
			template.Spec.Tolerations = []corev1.Toleration{{Key: "harbor.example/dedicated", Operator: corev1.TolerationOpExists}}
		}
		selector := &metav1.LabelSelector{MatchLabels: labels}
		objects = append(objects,
			&appsv1.Deployment{ObjectMeta: named, Spec: appsv1.DeploymentSpec{Replicas: &a.replicas, Selector: selector, Template: template}},
			&policyv1.PodDisruptionBudget{ObjectMeta: named, Spec: policyv1.PodDisruptionBudgetSpec{Selector: selector, MaxUnavailable: ptr.To(intstr.FromInt32(1))}})
	}
	return objects
}

// letGo says how many pods of each workload may be away at once; 0 holds the migration.
func (h *held) letGo(ctx context.Context, t *testing.T, pods int) {
	t.Helper()
	for _, name := range []string{harbor.General, harbor.Memory, harbor.Batch} {
		b := &policyv1.PodDisruptionBudget{}
		b.Namespace, b.Name = "shop", name
		if err := h.scene.Client.Patch(ctx, b, client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"maxUnavailable":%d}}`, pods))); err != nil {
			t.Fatal(err)
		}
	}
}

// goesOn wants castoff to ask for an eviction from now on.
func (h *held) goesOn(ctx context.Context, t *testing.T, within time.Duration) {
	t.Helper()
	since := time.Now()
	NewWithT(t).Eventually(ctx, func() ([]string, error) { return h.scene.Watcher.Evictions(ctx, since) }, within, "300ms").
		ShouldNot(BeEmpty(), "castoff goes on evicting; blockers: %v", h.blockers(ctx, t))
}

// play has somebody interfere, and judges what castoff makes of it.
func (h *held) play(ctx context.Context, t *testing.T, i interference) {
	t.Helper()
	g := NewWithT(t)
	h.letGo(ctx, t, 1)
	defer h.letGo(ctx, t, 0)
	h.goesOn(ctx, t, nextPod) // or the silence below would mean nothing
	g.Expect(h.scene.Watcher.Begin(ctx)).To(Succeed())
	log := h.auditFrom(t)
	began := time.Now()
	h.scene.Say("interference: %s", i.name)
	i.act(ctx, t)
	undone := false
	defer func() {
		if !undone {
			i.undo(ctx, t) // the next one begins where this one did
		}
	}()
	h.awaitSeen(ctx, t, i, began)
	named := time.Now()
	if i.over != nil {
		g.Eventually(ctx, func() bool { return i.over(ctx, t) }, "3m", "200ms").Should(BeTrue(), "castoff sees to it by itself")
		h.silentSince(ctx, t, named)
	}
	rounds := h.last(ctx, t, i, named)
	if !i.harmless {
		h.silentSince(ctx, t, named)
	}
	if len(i.ends) > 0 {
		g.Expect(h.blockers(ctx, t)).To(haveLine(i.ends...), "after %d rounds", rounds)
	}
	lasted := time.Since(began)
	i.undo(ctx, t)
	undone = true
	back := time.Now()
	h.awaitOver(ctx, t, i)
	h.goesOn(ctx, t, nextPod)
	goes := time.Since(back)
	for object, most := range i.writes {
		g.Expect(len(log.castoffsWrites(t, object))).To(BeNumerically("<=", most), "castoff does not fight: its writes to %s in %d rounds", object, rounds)
	}
	h.judge(ctx, t, i, lasted)
	t.Logf("%s: named after %.1f s, lasted %.0f s in %d rounds, goes on %.1f s after it is over", i.name, named.Sub(began).Seconds(), lasted.Seconds(), rounds, goes.Seconds())
}

// silentSince wants no eviction since then, but for a pass that was under way.
func (h *held) silentSince(ctx context.Context, t *testing.T, named time.Time) {
	t.Helper()
	g := NewWithT(t)
	evicted, err := h.scene.Watcher.Evictions(ctx, named.Add(time.Second))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(evicted).To(BeEmpty(), "evictions beside it")
}

// awaitSeen wants the blocker, the condition and the event, each with who and what.
func (h *held) awaitSeen(ctx context.Context, t *testing.T, i interference, since time.Time) {
	t.Helper()
	g := NewWithT(t)
	within := i.within
	if within == 0 {
		within = atOnce
	}
	g.Eventually(ctx, func() []string { return h.blockers(ctx, t) }, within, "100ms").Should(haveLine(i.seen...), "it is seen, and named")
	switch {
	case i.brief:
	case len(i.single) > 0:
		g.Eventually(ctx, func() []string { return []string{h.singleScaler(ctx, t)} }, within, "100ms").Should(haveLine(i.single...), "the condition SingleScaler names it")
	default:
		g.Expect(h.singleScaler(ctx, t)).To(HavePrefix("True"), "the condition SingleScaler")
	}
	event := i.event
	if len(event) == 0 {
		event = i.seen[1:]
	}
	g.Eventually(ctx, func() []string { return h.events(ctx, t, since) }, within, "300ms").Should(haveLine(event...), "an event names it")
}

// last lets the interference go on for a while, and counts how often it is repeated.
func (h *held) last(ctx context.Context, t *testing.T, i interference, since time.Time) (rounds int) {
	t.Helper()
	if i.harmless {
		h.goesOn(ctx, t, nextPod)
	}
	if i.again == nil {
		pause(ctx, t, time.Until(since.Add(beside)))
		return 1
	}
	const most = 4
	for rounds = 1; rounds < most; rounds++ {
		pause(ctx, t, selfHeal)
		i.again(ctx, t)
	}
	pause(ctx, t, selfHeal)
	return rounds
}

// awaitOver wants nothing of it to be left in the status.
func (h *held) awaitOver(ctx context.Context, t *testing.T, i interference) {
	t.Helper()
	g := NewWithT(t)
	g.Eventually(ctx, func() []string { return h.blockers(ctx, t) }, "90s", "300ms").ShouldNot(haveLine(i.seen...), "the blocker goes with it")
	g.Eventually(ctx, func() string { return h.singleScaler(ctx, t) }, "30s", "300ms").Should(HavePrefix("True"), "the condition SingleScaler")
}

// judge wants the promises kept. Where two scalers were made by force it wants no more of them than that.
func (h *held) judge(ctx context.Context, t *testing.T, i interference, lasted time.Duration) {
	t.Helper()
	report := reportOf(ctx, t, h.scene)
	broken := report.Broken()
	if i.twoByForce {
		broken = slices.DeleteFunc(broken, func(s string) bool { return strings.Contains(s, "had two scalers") })
		// What is left of a leader that lost its Lease counts for ten seconds more.
		NewWithT(t).Expect(report.DoubleServedSeconds).To(BeNumerically("<=", (lasted+watcherLate).Seconds()), "two scalers no longer than they were made")
	}
	broken = slices.DeleteFunc(broken, func(s string) bool {
		return slices.ContainsFunc(i.forgives, func(part string) bool { return strings.Contains(s, part) })
	})
	for _, b := range broken {
		t.Errorf("%s: %s", i.name, b)
	}
	for _, detail := range report.Details() {
		t.Log(detail)
	}
}

// watcherLate is for how long the watcher counts a scaler on that was told to end.
const watcherLate = 12 * time.Second

// pool is the one that is being drained.
func (h *held) pool(ctx context.Context, t *testing.T) string {
	t.Helper()
	var nodes corev1.NodeList
	if err := h.scene.Client.List(ctx, &nodes); err != nil {
		t.Fatal(err)
	}
	for _, node := range nodes.Items {
		if node.Annotations[v1alpha1.AnnotationDraining] != "" && node.Labels[v1alpha1.LabelPool] != "" {
			return node.Labels[v1alpha1.LabelPool]
		}
	}
	t.Fatal("no node is being drained")
	return ""
}

// singleScaler is the condition in a line.
func (h *held) singleScaler(ctx context.Context, t *testing.T) string {
	t.Helper()
	status := h.status(ctx, t)
	c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionSingleScaler)
	if c == nil {
		return ""
	}
	return string(c.Status) + " " + c.Reason + " " + c.Message
}

// events about the Migration since then, a line each.
func (h *held) events(ctx context.Context, t *testing.T, since time.Time) []string {
	t.Helper()
	var list eventsv1.EventList
	if err := h.scene.Client.List(ctx, &list); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, e := range list.Items {
		at := e.EventTime.Time
		if e.Series != nil {
			at = e.Series.LastObservedTime.Time
		}
		if e.Regarding.Kind == "Migration" && at.After(since) {
			lines = append(lines, e.Type+" "+e.Reason+" "+e.Note)
		}
	}
	return lines
}

// auditLog is what is written to the API server's audit log from some moment on.
type auditLog struct {
	path string
	from int64
}

func (h *held) auditFrom(t *testing.T) auditLog {
	t.Helper()
	info, err := os.Stat(h.scene.Lab.AuditLog)
	if err != nil {
		t.Fatal(err)
	}
	return auditLog{path: h.scene.Lab.AuditLog, from: info.Size()}
}

// castoffsWrites to "resource namespace/name" that the API server took, Leases too.
func (a auditLog) castoffsWrites(t *testing.T, object string) []watcher.AuditEvent {
	t.Helper()
	file, err := os.Open(a.path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.Seek(a.from, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	user := "system:serviceaccount:" + harbor.CastoffNamespace + ":castoff"
	var out []watcher.AuditEvent
	lines := bufio.NewReaderSize(file, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil { // the last line may be half written
			return out
		}
		var e watcher.AuditEvent
		if json.Unmarshal(line, &e) != nil || e.Stage != "ResponseComplete" || e.User.Username != user || e.ObjectRef == nil || e.ResponseStatus == nil || e.ResponseStatus.Code >= 300 {
			continue
		}
		name := strings.TrimPrefix(e.ObjectRef.Namespace+"/"+e.ObjectRef.Name, "/")
		if !slices.Contains([]string{"get", "list", "watch"}, e.Verb) && e.ObjectRef.Resource+" "+name == object {
			out = append(out, e)
		}
	}
}

// haveLine matches lines of which one has all the parts.
func haveLine(parts ...string) gomegatypes.GomegaMatcher {
	return WithTransform(func(lines []string) string {
		if containing(lines, parts...) {
			return "found"
		}
		return "no line with " + strings.Join(parts, " | ") + " in:\n" + strings.Join(lines, "\n")
	}, Equal("found"))
}
