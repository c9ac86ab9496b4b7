//go:build lab && long

package tests

import (
	"context"
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/e2e/awssim/simapi"
	"github.com/castoff-sh/castoff/e2e/harbor"
)

// killOperator ends every process of castoff's at once, the leader's and the standby's.
func (p *passage) killOperator(t *testing.T, when string) {
	t.Helper()
	if killed := p.scene.Lab.Runner.Kill(harbor.CastoffNamespace, "castoff-"); killed == 0 {
		t.Fatalf("no process of castoff's runs, %s", when)
	}
	p.scene.Say("SIGKILL for castoff, %s", when)
}

func (p *passage) killEngine(t *testing.T, when string) {
	t.Helper()
	if killed := p.scene.Lab.Runner.Kill("kube-system", "karpenter-"); killed == 0 {
		t.Fatalf("no process of Karpenter's runs, %s", when)
	}
	p.scene.Say("SIGKILL for Karpenter, %s", when)
}

func (p *passage) restartAPIServer(ctx context.Context, t *testing.T) {
	t.Helper()
	p.scene.Say("the API server is killed and started again")
	if err := p.scene.Lab.Restart(ctx, "kube-apiserver"); err != nil {
		t.Fatal(err)
	}
}

// cutAWS lets every call to AWS fail for that long.
func (p *passage) cutAWS(ctx context.Context, t *testing.T, span time.Duration) {
	t.Helper()
	door := simapi.NewClient(p.scene.Lab.Simulator)
	fault, err := door.AddFault(ctx, simapi.Fault{Code: "ServiceUnavailable", Status: http.StatusServiceUnavailable})
	if err != nil {
		t.Fatal(err)
	}
	p.scene.Say("AWS does not answer for %s", span)
	pause(ctx, t, span)
	if err := door.RemoveFault(ctx, fault.ID); err != nil {
		t.Fatal(err)
	}
	p.scene.Say("AWS answers again")
}

// killedWhileAssessing waits for an approval then, and has changed nothing. The phase is over before a status tells it, so the
// kill follows the creation at once.
func (p *passage) killedWhileAssessing(ctx context.Context, t *testing.T) {
	g := NewWithT(t)
	m := migration()
	g.Expect(yaml.Unmarshal([]byte(harbor.Migration), &m.Object)).To(Succeed())
	g.Expect(unstructured.SetNestedField(m.Object, string(v1alpha1.ApprovalManual), "spec", "approval")).To(Succeed())
	g.Expect(p.scene.Client.Create(ctx, m)).To(Succeed())
	p.killOperator(t, "as the Migration is made")
	p.awaitPhase(ctx, t, 2*time.Minute, v1alpha1.PhaseAwaitingApproval)
	for _, difference := range p.differences(ctx, t) {
		t.Errorf("assessing only reads: %s", difference)
	}
	p.specify(ctx, t, `{"approval":"Automatic"}`)
}

// crashesThere goes forward through everything that can end at once, and ends as if nothing had.
func (p *passage) crashesThere(ctx context.Context, t *testing.T) {
	p.forward(ctx, t)
	for _, phase := range []v1alpha1.Phase{v1alpha1.PhasePreparing, v1alpha1.PhaseInstalling, v1alpha1.PhaseHandingOver, v1alpha1.PhaseShifting} {
		p.awaitPhase(ctx, t, 4*time.Minute, phase)
		p.killOperator(t, "in "+string(phase))
	}
	p.awaitEviction(ctx, t, 2*time.Minute)
	p.killOperator(t, "in the middle of a drain")
	p.awaitEviction(ctx, t, 2*time.Minute)
	p.killEngine(t, "in the middle of a drain")
	p.restartAPIServer(ctx, t)
	p.awaitEviction(ctx, t, 3*time.Minute)
	p.cutAWS(ctx, t, time.Minute)
	p.awaitCompleted(ctx, t)
	p.killOperator(t, "in Completed")
	NewWithT(t).Consistently(ctx, func() string { return p.scene.Watcher.Phase() }, "30s", "1s").Should(Equal(string(v1alpha1.PhaseCompleted)))
}

// crashesBack goes back through the same.
func (p *passage) crashesBack(ctx context.Context, t *testing.T) {
	p.completed(ctx, t)
	p.back(ctx, t, "Completed, with crashes", func() {
		p.awaitPhase(ctx, t, time.Minute, v1alpha1.PhaseRollingBack)
		p.killOperator(t, "as the way back begins")
		p.awaitStopped(ctx, t)
		p.killOperator(t, "as the pools change hands")
		p.awaitEviction(ctx, t, 3*time.Minute)
		p.killOperator(t, "in the middle of a drain")
		p.awaitEviction(ctx, t, 2*time.Minute)
		p.killEngine(t, "in the middle of a drain")
		p.restartAPIServer(ctx, t)
		p.awaitEviction(ctx, t, 3*time.Minute)
		p.cutAWS(ctx, t, time.Minute)
		NewWithT(t).Eventually(ctx, func() ([]unstructured.Unstructured, error) { return p.nodePools(ctx) }, "6m", "300ms").Should(BeEmpty())
		p.killOperator(t, "when the last NodePool is gone")
	})
}

// awaitStopped waits until a NodePool is told to launch nothing.
func (p *passage) awaitStopped(ctx context.Context, t *testing.T) {
	t.Helper()
	NewWithT(t).Eventually(ctx, func() bool {
		pools, err := p.nodePools(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, pool := range pools {
			if cpu, found, _ := unstructured.NestedFieldNoCopy(pool.Object, "spec", "limits", "cpu"); found && (cpu == "0" || cpu == int64(0)) {
				return true
			}
		}
		return false
	}, "4m", "200ms").Should(BeTrue())
}

// nodePools are none once their definition is gone.
func (p *passage) nodePools(ctx context.Context) ([]unstructured.Unstructured, error) {
	pools := &unstructured.UnstructuredList{}
	pools.SetGroupVersionKind(schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: "NodePool"})
	err := p.scene.Client.List(ctx, pools)
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil, nil
	}
	return pools.Items, err
}
