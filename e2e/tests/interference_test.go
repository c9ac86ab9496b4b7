//go:build lab && long

package tests

import (
	"context"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	"github.com/castoff-sh/castoff/api/v1alpha1"
)

// TestInterference holds a migration in the middle of its drains, and has somebody interfere with it again and again. Then it goes
// on to its end.
func TestInterference(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Minute)
	defer cancel()
	h := hold(ctx, t)
	for _, i := range slices.Concat(scalerInterferences(h), nodeInterferences(h)) {
		t.Run(i.name, func(t *testing.T) { h.play(ctx, t, i) })
	}
	t.Run("ToTheEnd", func(t *testing.T) {
		NewWithT(t).Expect(h.scene.Watcher.Begin(ctx)).To(Succeed())
		h.letGo(ctx, t, 4)
		h.awaitCompleted(ctx, t)
	})
}

// theAutoscaler is Cluster Autoscaler as blockers name it.
const theAutoscaler = "deployment/kube-system/cluster-autoscaler"

// scalerInterferences are those by other scalers.
func scalerInterferences(h *held) []interference {
	scaled := func(replicas string) func(context.Context, *testing.T) {
		return func(ctx context.Context, t *testing.T) {
			t.Helper()
			h.patchAutoscaler(ctx, t, types.MergePatchType, `{"spec":{"replicas":`+replicas+`}}`)
		}
	}
	return []interference{
		{
			name: "AutoscalerScaledUpByHand", act: scaled("1"), undo: scaled("0"), harmless: true,
			seen: []string{"Warn", "AutoscalerStandby", theAutoscaler}, writes: map[string]int{"deployments kube-system/cluster-autoscaler": 0},
		},
		{
			name: "AutoscalerScaledUpByGitOps", act: scaled("1"), again: scaled("1"), undo: scaled("0"), harmless: true,
			seen: []string{"Warn", "AutoscalerStandby", theAutoscaler}, writes: map[string]int{"deployments kube-system/cluster-autoscaler": 0},
		},
		{
			name: "AutoscalerWithoutElectionByGitOps", again: scaled("1"), twoByForce: true,
			act: func(ctx context.Context, t *testing.T) {
				h.patchAutoscaler(ctx, t, types.JSONPatchType, `[{"op":"add","path":"/spec/template/spec/containers/0/args/-","value":"--leader-elect=false"},{"op":"replace","path":"/spec/replicas","value":1}]`)
			},
			undo: func(ctx context.Context, t *testing.T) {
				h.patchAutoscaler(ctx, t, types.JSONPatchType, `[{"op":"remove","path":"/spec/template/spec/containers/0/args/5"},{"op":"replace","path":"/spec/replicas","value":0}]`)
			},
			seen: []string{theAutoscaler}, single: []string{"False", v1alpha1.ReasonTwoScalers, autoscalerKey.String()}, event: []string{"Warning", v1alpha1.ReasonTwoScalers, autoscalerKey.String()},
			ends: []string{"Block", v1alpha1.ReasonTwoScalers, theAutoscaler}, writes: map[string]int{"deployments kube-system/cluster-autoscaler": 1},
		},
	}
}
