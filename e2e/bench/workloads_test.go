package bench

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	policyv1 "k8s.io/api/policy/v1"
)

func TestWorkloads(t *testing.T) {
	type count struct{ Pods, Deployments, StatefulSets, Budgets, Singles int32 }
	cases := map[string]struct {
		reason string
		size   size
		want   count
		cpu    int64
	}{
		"Bench": {reason: "A hundred pods, five on a node at most.", size: size{24, 100}, cpu: 750, want: count{Pods: 100, Deployments: 20, StatefulSets: 4, Budgets: 12, Singles: 8}},
		"Scale": {reason: "Ten on a node.", size: size{300, 3000}, cpu: 375, want: count{Pods: 3000, Deployments: 600, StatefulSets: 120, Budgets: 360, Singles: 240}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got count
			for _, object := range tc.size.workloads() {
				switch o := object.(type) {
				case *appsv1.Deployment:
					got.Deployments++
					got.Pods += *o.Spec.Replicas
					if *o.Spec.Replicas == 1 {
						got.Singles++
					}
				case *appsv1.StatefulSet:
					got.StatefulSets++
					got.Pods += *o.Spec.Replicas
				case *policyv1.PodDisruptionBudget:
					got.Budgets++
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\n-want +got:\n%s", tc.reason, diff)
			}
			if cpu := tc.size.milliCPU(); cpu != tc.cpu {
				t.Errorf("%s\na pod asks for %dm, want %dm", tc.reason, cpu, tc.cpu)
			}
			moved := 0
			for _, l := range tc.size.loads() {
				moved += l.Pods
			}
			if moved != tc.size.pods {
				t.Errorf("the bounds count %d pods of %d", moved, tc.size.pods)
			}
		})
	}
	bench := size{24, 100}
	if got := lowerBound(launch, startup, bench.loads()); got != 91*time.Second {
		t.Errorf("six pods one by one after a launch: %s, want 91 s", got)
	}
	if got := unavailableFloor(startup, bench.loads()); got != 1000*time.Second {
		t.Errorf("a hundred pods of ten seconds: %s", got)
	}
}

func TestStage(t *testing.T) {
	by := size{24, 100}.stage("bench-drainer")
	if by.Judgement.CastoffUser != "bench-drainer" || by.Judgement.CastoffRole != "bench-drainer" || by.Nodes != 26 || !by.Quiet {
		t.Errorf("who drains by hand is whose requests count: %+v", by)
	}
	if castoff := (size{24, 100}).stage(""); castoff.Judgement.CastoffUser != "" || castoff.Judgement.CastoffRole == "" {
		t.Errorf("castoff's own otherwise: %+v", castoff.Judgement)
	}
}
