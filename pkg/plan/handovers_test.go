package plan

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

func TestHandoversOf(t *testing.T) {
	both := []Wave{{Pools: []string{"general"}}, {Pools: []string{"batch"}}}
	cases := map[string]struct {
		reason    string
		migration migrationOf
		world     *scene
		waves     []Wave
		want      int
		single    string // in the reason for one wave
	}{
		"Two":      {"each on its own", aMigration(), aWorld().snapshotTaken().inWaves(), both, 2, ""},
		"Joined":   {"what a workload joins needs no other reason", aMigration(), aWorld().snapshotTaken().inWaves(), []Wave{{Pools: []string{"general", "batch"}}}, 1, ""},
		"Said":     {"the user wants one", aMigration().single(), aWorld().snapshotTaken().inWaves(), both, 1, "spec.strategy.waves"},
		"NoStatus": {"nobody could tell that it has let go", aMigration(), aWorld().snapshotTaken().inWaves().withAutoscaler(func(a *inventory.Autoscaler) { a.StatusTime = time.Time{} }), both, 1, "status"},
		"OldStatus": {"nor by a status of yesterday", aMigration(),
			aWorld().snapshotTaken().inWaves().withAutoscaler(func(a *inventory.Autoscaler) { a.StatusTime = noon.Add(-time.Hour) }), both, 1, "status"},
		"Static": {"arguments are not taken off a group", aMigration(),
			aWorld().snapshotTaken().inWaves().withAutoscaler(func(a *inventory.Autoscaler) { a.Static = []string{"general", "eks-batch"} }), both, 1, "--nodes"},
		"OtherTags": {"a tag that others go by stays", aMigration(),
			aWorld().snapshotTaken().inWaves().withAutoscaler(func(a *inventory.Autoscaler) { a.Discovery = []string{"kubernetes.io/cluster/test"} }), both, 1, "tags"},
		"Unknown": {"a group must stay known as one of its cluster's", aMigration(),
			aWorld().snapshotTaken().inWaves().withGroup("general", func(g *inventory.NodeGroup) { g.Tags = g.Tags[:1] }), both, 1, "tags"},
		"Stopped": {"nobody would keep the others", aMigration(),
			aWorld().snapshotTaken().inWaves().withAutoscaler(func(a *inventory.Autoscaler) { a.Replicas, a.StatusReplicas, a.Pods = 0, 0, 0 }), both, 1, "no Cluster Autoscaler runs"},
		"OneEach": {"one Cluster Autoscaler for each wave lets go by being stopped, whatever it writes", aMigration(), aWorld().snapshotTaken().inWaves().with(func(w *World) {
			a, b := anAutoscaler("a"), anAutoscaler("b")
			a.Discovery, a.Static, b.Discovery, b.Static = nil, []string{"general"}, nil, []string{"eks-batch"}
			w.Autoscalers = []inventory.Autoscaler{a, b}
		}), both, 2, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := tc.world.build()
			got := HandoversOf(tc.migration.build().Spec, w.Pools, w.Groups, w.Autoscalers, tc.waves, noon)
			if len(got.Waves) != tc.want || (tc.single == "") != (got.Single == "") || !strings.Contains(got.Single, tc.single) {
				t.Errorf("%s: %d waves because of %q, want %d because of %q", tc.reason, len(got.Waves), got.Single, tc.want, tc.single)
			}
			pools := 0
			for _, names := range got.Names() {
				pools += len(names)
			}
			if pools != 2 {
				t.Errorf("%s: %d pools are in a wave, want both once", tc.reason, pools)
			}
		})
	}
}

func TestStraddlingOf(t *testing.T) {
	template := deployment("web", onTiers("a", "b"))
	owner := metav1.OwnerReference{Kind: "ReplicaSet", Name: "web-5c9"}
	stranger := metav1.OwnerReference{Kind: "StrimziPodSet", Name: "kafka"}
	shape := onTiers("b", "c")
	cases := map[string]struct {
		reason    string
		waves     [][]string
		served    []string
		workloads inventory.Workloads
		want      []Join
	}{
		"None":    {"who names its pool straddles none", [][]string{{"a"}, {"b"}, {"c"}}, nil, inventory.Workloads{Controllers: []inventory.Controller{deployment("x", selecting("a"))}}, nil},
		"One":     {"two waves could take it", [][]string{{"a"}, {"b"}, {"c"}}, nil, inventory.Workloads{Controllers: []inventory.Controller{template}}, []Join{{Pools: [2]string{"a", "b"}, Workload: "deployment/shop/web"}}},
		"Inside":  {"two pools of one wave are no matter", [][]string{{"a", "b"}, {"c"}}, nil, inventory.Workloads{Controllers: []inventory.Controller{template}}, nil},
		"Moved":   {"nor are two waves that have both changed hands", [][]string{{"a"}, {"b"}, {"c"}}, []string{"a", "b"}, inventory.Workloads{Controllers: []inventory.Controller{template}}, nil},
		"HalfWay": {"it has a pool on each side now", [][]string{{"a"}, {"b"}, {"c"}}, []string{"a"}, inventory.Workloads{Controllers: []inventory.Controller{template}}, []Join{{Pools: [2]string{"a", "b"}, Workload: "deployment/shop/web"}}},
		"PodOfIt": {"a Deployment's pods are not named once more", [][]string{{"a"}, {"b"}, {"c"}}, nil, inventory.Workloads{Controllers: []inventory.Controller{template},
			Pods: []inventory.Pod{{Namespace: "shop", Name: "web-5c9-x", Owner: &owner, Shape: template.Shape}}}, []Join{{Pools: [2]string{"a", "b"}, Workload: "deployment/shop/web"}}},
		"Operators": {"pods of a controller that castoff cannot read are named by it, once", [][]string{{"a"}, {"b"}, {"c"}}, nil, inventory.Workloads{
			Pods: []inventory.Pod{{Namespace: "shop", Name: "kafka-0", Owner: &stranger, Shape: &shape}, {Namespace: "shop", Name: "kafka-1", Owner: &stranger, Shape: &shape}}},
			[]Join{{Pools: [2]string{"b", "c"}, Workload: "strimzipodset/shop/kafka"}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := World{Waves: tc.waves, Snapshot: &inventory.Snapshot{Waves: tc.waves}}
			w.Pools, w.Targets, w.Nodes = waveWorld("a", "b", "c")
			for _, pool := range tc.served {
				np := aTarget(pool).NodePool
				w.Engine.NodePools = append(w.Engine.NodePools, np)
			}
			if diff := cmp.Diff(tc.want, StraddlingOf(aMigration().build(), w, tc.workloads)); diff != "" {
				t.Errorf("%s: StraddlingOf() -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestManyStraddle(t *testing.T) {
	w := aWorld().firstServed()
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		w.w.Straddling = append(w.w.Straddling, Join{Pools: [2]string{"general", "batch"}, Workload: "deployment/shop/" + name})
	}
	d := Next(aMigration().build(), w.build(), noon)
	var got []string
	for _, b := range d.Blockers {
		if b.Reason == CheckTwoWaves {
			got = append(got, b.Object)
		}
	}
	if diff := cmp.Diff([]string{"deployment/shop/a", "deployment/shop/b", "deployment/shop/c", "migration/prod"}, got); diff != "" {
		t.Errorf("want three named and the others counted, -want, +got:\n%s", diff)
	}
	for _, c := range d.Conditions {
		if c.Type == v1alpha1.ConditionSingleScaler && (c.Status != metav1.ConditionFalse || c.Reason != CheckTwoWaves || !strings.Contains(c.Message, "deployment/shop/a")) {
			t.Errorf("want SingleScaler to say who: %+v", c)
		}
	}
}
