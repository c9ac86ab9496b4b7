//go:build lab && long

package tests

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	"github.com/castoff-sh/castoff/api/v1alpha1"
)

// TestWayBack goes there and back in one lab, undisturbed at first and then with everything that can go wrong. Each leg begins
// where the one before it ended, and works from the beginning too (-run TestWayBack/Crashes).
func TestWayBack(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Minute)
	defer cancel()
	p := embark(ctx, t)
	for _, leg := range []struct {
		name string
		run  func(context.Context, *testing.T)
	}{
		{"KilledWhileAssessing", p.killedWhileAssessing},
		{"FromTheMiddleOfTheSecondPool", p.fromTheMiddle},
		{"SettleInEveryPhase", p.settleInEveryPhase},
		{"AutoscalerComesBack", p.autoscalerComesBack},
		{"FromCompleted", p.fromCompleted},
		{"CrashesOnTheWayThere", p.crashesThere},
		{"CrashesOnTheWayBack", p.crashesBack},
	} {
		began := time.Now()
		passed := t.Run(leg.name, func(t *testing.T) { leg.run(ctx, t) })
		t.Logf("%s took %.0f s", leg.name, time.Since(began).Seconds())
		if !passed {
			t.Logf("blockers: %v", p.blockers(ctx, t))
			t.FailNow() // the next leg would begin nowhere
		}
	}
	t.Run("PoliciesAllowEveryCall", func(t *testing.T) { callsAreAllowed(t, p.scene.Lab) })
}

func (p *passage) fromTheMiddle(ctx context.Context, t *testing.T) {
	p.forward(ctx, t)
	p.awaitMiddle(ctx, t)
	p.back(ctx, t, "the middle of the second pool", nil)
}

func (p *passage) fromCompleted(ctx context.Context, t *testing.T) {
	p.completed(ctx, t)
	p.back(ctx, t, "Completed", nil)
}

// completed goes forward unless that is done.
func (p *passage) completed(ctx context.Context, t *testing.T) {
	t.Helper()
	if p.scene.Watcher.Phase() != string(v1alpha1.PhaseCompleted) {
		p.forward(ctx, t)
		p.awaitCompleted(ctx, t)
	}
}

// settleInEveryPhase pauses in each phase, looks, and resumes; the last pause is left to the next leg.
func (p *passage) settleInEveryPhase(ctx context.Context, t *testing.T) {
	for _, stop := range []struct {
		name   string
		phase  v1alpha1.Phase
		await  func(*testing.T)
		undone bool // before the hand-over everything done is
	}{
		{name: "Preparing", phase: v1alpha1.PhasePreparing, undone: true},
		{name: "Installing", phase: v1alpha1.PhaseInstalling, undone: true},
		{name: "HandingOver", phase: v1alpha1.PhaseHandingOver},
		{name: "AutoscalerStopped", phase: v1alpha1.PhaseHandingOver, await: func(t *testing.T) {
			NewWithT(t).Eventually(ctx, func() int32 { return p.autoscalerReplicas(ctx, t) }, "60s", "50ms").Should(BeZero())
		}},
		{name: "Shifting", phase: v1alpha1.PhaseShifting, await: func(t *testing.T) { p.awaitEviction(ctx, t, 2*time.Minute) }},
	} {
		t.Run(stop.name, func(t *testing.T) { p.settle(ctx, t, stop.phase, stop.await, stop.undone) })
		if t.Failed() {
			return
		}
	}
}

func (p *passage) settle(ctx context.Context, t *testing.T, phase v1alpha1.Phase, await func(*testing.T), undone bool) {
	g := NewWithT(t)
	p.forward(ctx, t)
	p.awaitPhase(ctx, t, 3*time.Minute, phase)
	if await != nil {
		await(t)
	}
	paused := p.specify(ctx, t, `{"paused":true,"onPause":"Settle"}`)
	p.awaitRest(ctx, t)
	late, err := p.scene.Watcher.Evictions(ctx, paused.Add(2*time.Second))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(late).To(BeEmpty(), "evictions later than 2 s after the pause")
	p.undrainedInService(ctx, t)
	report := reportOf(ctx, t, p.scene)
	g.Expect(report.Broken()).To(BeEmpty())
	g.Expect(report.AtRest()).To(BeEmpty(), "pools without a scaler at rest")
	if undone {
		for _, difference := range p.differences(ctx, t) {
			t.Errorf("paused before the hand-over, everything is undone: %s", difference)
		}
	}
}

// awaitRest waits until the pause has come to rest: the status says that nothing is under way.
func (p *passage) awaitRest(ctx context.Context, t *testing.T) {
	t.Helper()
	p.awaitPhase(ctx, t, time.Minute, v1alpha1.PhasePaused)
	NewWithT(t).Eventually(ctx, func() string {
		status := p.status(ctx, t)
		for _, c := range status.Conditions {
			if c.Type == v1alpha1.ConditionReconciling {
				return string(status.Phase) + ", reconciling " + string(c.Status)
			}
		}
		return "no condition"
	}, "3m", "500ms").Should(Equal("Paused, reconciling False"))
}

// autoscalerComesBack lets somebody start Cluster Autoscaler again while nodes are drained.
func (p *passage) autoscalerComesBack(ctx context.Context, t *testing.T) {
	g := NewWithT(t)
	p.forward(ctx, t)
	p.awaitPhase(ctx, t, 4*time.Minute, v1alpha1.PhaseShifting)
	p.awaitEviction(ctx, t, 2*time.Minute)
	t.Run("Standby", func(t *testing.T) { p.comesBackAsStandby(ctx, t) })
	if t.Failed() {
		return
	}
	g.Expect(p.scene.Watcher.Begin(ctx)).To(Succeed())
	t.Run("WithoutElection", func(t *testing.T) { p.comesBackWithoutElection(ctx, t) })
	if t.Failed() {
		return
	}
	// What ran beside Karpenter is judged above, not here.
	g.Expect(p.scene.Watcher.Begin(ctx)).To(Succeed())
	p.awaitCompleted(ctx, t)
}

// comesBackAsStandby: castoff holds the Lease, so it warns and goes on.
func (p *passage) comesBackAsStandby(ctx context.Context, t *testing.T) {
	g := NewWithT(t)
	p.patchAutoscaler(ctx, t, types.MergePatchType, `{"spec":{"replicas":1}}`)
	g.Eventually(ctx, func() bool { return containing(p.blockers(ctx, t), "AutoscalerStandby", autoscalerKey.String()) }, "60s", "500ms").Should(BeTrue(), "a warning that names it")
	p.awaitEviction(ctx, t, 90*time.Second)
	g.Expect(p.autoscalerReplicas(ctx, t)).To(BeEquivalentTo(1), "castoff does not fight over a standby")
	g.Expect(reportOf(ctx, t, p.scene).DoubleServedSeconds).To(BeZero())
	p.patchAutoscaler(ctx, t, types.MergePatchType, `{"spec":{"replicas":0}}`)
	g.Eventually(ctx, func() bool { return containing(p.blockers(ctx, t), "AutoscalerStandby") }, "60s", "500ms").Should(BeFalse(), "the warning goes with it")
}

// comesBackWithoutElection: the Lease stops nothing, so castoff evicts nothing, stops it once, and then asks its owner.
func (p *passage) comesBackWithoutElection(ctx context.Context, t *testing.T) {
	g := NewWithT(t)
	p.patchAutoscaler(ctx, t, types.JSONPatchType, `[{"op":"add","path":"/spec/template/spec/containers/0/args/-","value":"--leader-elect=false"},{"op":"replace","path":"/spec/replicas","value":1}]`)
	back := time.Now()
	g.Eventually(ctx, func() int32 { return p.autoscalerReplicas(ctx, t) }, "60s", "200ms").Should(BeZero(), "castoff scales it to 0")
	stopped := time.Now()
	t.Logf("stopped after %.1f s", stopped.Sub(back).Seconds())
	p.awaitEviction(ctx, t, 2*time.Minute)

	p.patchAutoscaler(ctx, t, types.MergePatchType, `{"spec":{"replicas":1}}`)
	g.Eventually(ctx, func() bool {
		return containing(p.blockers(ctx, t), "Block", v1alpha1.ReasonTwoScalers, autoscalerKey.String(), "harbor-platform")
	}, "60s", "500ms").Should(BeTrue(), "castoff names it and its owner")
	blocked := time.Now()
	pause(ctx, t, 20*time.Second)
	g.Expect(p.autoscalerReplicas(ctx, t)).To(BeEquivalentTo(1), "castoff does not fight")
	evicted, err := p.scene.Watcher.Evictions(ctx, blocked.Add(2*time.Second))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(evicted).To(BeEmpty(), "evictions beside a second scaler")

	p.patchAutoscaler(ctx, t, types.MergePatchType, `{"spec":{"replicas":0}}`)
	g.Eventually(ctx, func() bool { return containing(p.blockers(ctx, t), v1alpha1.ReasonTwoScalers) }, "60s", "500ms").Should(BeFalse(), "it goes on by itself")
	p.awaitEviction(ctx, t, 2*time.Minute)
	p.withElectionAgain(ctx, t)
}

// withElectionAgain takes off the flag, which is the last argument.
func (p *passage) withElectionAgain(ctx context.Context, t *testing.T) {
	t.Helper()
	p.patchAutoscaler(ctx, t, types.JSONPatchType, `[{"op":"remove","path":"/spec/template/spec/containers/0/args/5"}]`)
}
