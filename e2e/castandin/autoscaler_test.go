package castandin

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

const discover = "--node-group-auto-discovery=asg:tag=enabled --scale-down-enabled=false"

func oneGroup(desired int, instances ...string) *fakeCloud {
	return &fakeCloud{
		groups: []Group{{Name: "general", Min: 0, Max: 5, Desired: desired, Instances: instances, Tags: map[string]string{"enabled": ""}}},
		node:   node("template", aged(0)),
	}
}

func TestScaleUp(t *testing.T) {
	full := pod("full", "4", on("a"))
	cases := map[string]struct {
		reason  string
		cloud   *fakeCloud
		objects []runtime.Object
		want    []string
	}{
		"NothingPending": {
			reason: "Without pending pods nothing is asked for.",
			cloud:  oneGroup(1, "i-a"), objects: []runtime.Object{node("a"), full},
		},
		"Pending": {
			reason: "A pod that fits nowhere raises the desired size at the first scan.",
			cloud:  oneGroup(1, "i-a"), objects: []runtime.Object{node("a"), full, pod("p", "1", pending)},
			want: []string{"SetDesired general 2"},
		},
		"SeveralNodes": {
			reason: "As many nodes as the pods need, packed first fit decreasing.",
			cloud:  oneGroup(1, "i-a"),
			objects: []runtime.Object{node("a"), full, pod("p1", "3", pending), pod("p2", "1", pending), pod("p3", "3", pending),
				pod("p4", "1", pending), pod("p5", "2", pending)},
			want: []string{"SetDesired general 4"},
		},
		"UpToMax": {
			reason: "Never above the group's maximum.",
			cloud:  oneGroup(4, "i-a"),
			objects: []runtime.Object{node("a"), node("b", notReady, aged(time.Hour)), full,
				pod("p1", "4", pending), pod("p2", "4", pending), pod("p3", "4", pending), pod("p4", "4", pending), pod("p5", "4", pending)},
			want: []string{"SetDesired general 5"},
		},
		"FitsElsewhere": {
			reason: "Free room counts, on nodes of nobody's group too (Karpenter's).",
			cloud:  oneGroup(1, "i-a"), objects: []runtime.Object{node("a"), full, node("karpenter"), pod("p", "1", pending)},
		},
		"Upcoming": {
			reason: "A node asked for already counts before it is there.",
			cloud:  oneGroup(2, "i-a"), objects: []runtime.Object{node("a"), full, pod("p", "1", pending)},
		},
		"NotYetUnschedulable": {
			reason: "A pod the scheduler has not looked at is no reason.",
			cloud:  oneGroup(1, "i-a"), objects: []runtime.Object{node("a"), full, pod("p", "1")},
		},
		"BelowCutoff": {
			reason: "Pods below -10 are ignored.",
			cloud:  oneGroup(1, "i-a"), objects: []runtime.Object{node("a"), full, pod("p", "1", pending, priority(-11))},
		},
		"AtCutoff": {
			reason: "A pod of priority -10 counts.",
			cloud:  oneGroup(1, "i-a"), objects: []runtime.Object{node("a"), full, pod("p", "1", pending, priority(-10))},
			want: []string{"SetDesired general 2"},
		},
		"PreferNoSchedule": {
			reason: "A soft taint does not stop it.",
			cloud:  oneGroup(1, "i-a"), objects: []runtime.Object{node("a", tainted("x", corev1.TaintEffectPreferNoSchedule)), full, pod("p", "1", pending)},
			want: []string{"SetDesired general 2"},
		},
		"NoScheduleSettled": {
			reason: "A hard taint on a settled node does: new nodes are expected to carry it.",
			cloud:  oneGroup(1, "i-a"), objects: []runtime.Object{node("a", tainted("x", corev1.TaintEffectNoSchedule)), pod("p", "1", pending)},
		},
		"NoScheduleFresh": {
			reason: "A node younger than a minute is no example, so a hard taint on it stops nothing.",
			cloud:  oneGroup(1, "i-a"), objects: []runtime.Object{node("a", tainted("x", corev1.TaintEffectNoSchedule), aged(30*time.Second)), pod("p", "1", pending)},
			want: []string{"SetDesired general 2"},
		},
		"Cordoned": {
			reason: "A cordon stops nothing.",
			cloud:  oneGroup(1, "i-a"), objects: []runtime.Object{node("a", cordoned), pod("p", "1", pending)},
			want: []string{"SetDesired general 2"},
		},
		"CordonedAndNoSchedule": {
			reason: "Nor do both together.",
			cloud:  oneGroup(1, "i-a"), objects: []runtime.Object{node("a", cordoned, tainted("x", corev1.TaintEffectNoSchedule)), pod("p", "1", pending)},
			want: []string{"SetDesired general 2"},
		},
		"Unready": {
			reason: "With most nodes unready nothing is scaled.",
			cloud:  oneGroup(5, "i-a"),
			objects: []runtime.Object{node("a"), node("b", notReady), node("c", notReady), node("d", notReady), node("e", notReady), full,
				pod("p", "1", pending)},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, discover, tc.cloud, tc.objects...)
			s.scan(t)
			if diff := cmp.Diff(tc.want, tc.cloud.writes()); diff != "" {
				t.Errorf("%s\n-want +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestCordonedGroupGrowsToItsMax(t *testing.T) {
	cloud := oneGroup(1, "i-a")
	s := newStage(t, discover, cloud, node("a", cordoned), pod("p", "1", pending))
	for _, name := range []string{"b", "c", "d", "e", "f"} {
		s.scan(t)
		// The new node joins and is cordoned as well; Auto Scaling is asked again a minute later.
		cloud.groups[0].Instances = append(cloud.groups[0].Instances, "i-"+name)
		if _, err := s.kube.CoreV1().Nodes().Create(t.Context(), node(name, cordoned), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		s.clock.at = s.clock.at.Add(time.Minute)
	}
	want := []string{"SetDesired general 2", "SetDesired general 3", "SetDesired general 4", "SetDesired general 5"}
	if diff := cmp.Diff(want, cloud.writes()); diff != "" {
		t.Errorf("a cordoned group is raised again and again up to its max, -want +got:\n%s", diff)
	}
}

func TestTemplateIsRemembered(t *testing.T) {
	hard := tainted("x", corev1.TaintEffectNoSchedule)
	cloud := oneGroup(1, "i-a")
	s := newStage(t, discover, cloud, node("a", hard))
	s.scan(t)
	if err := s.kube.CoreV1().Nodes().Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	cloud.groups[0].Desired, cloud.groups[0].Instances = 0, nil
	if _, err := s.kube.CoreV1().Pods("shop").Create(t.Context(), pod("p", "1", pending), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.clock.at = start.Add(time.Minute)
	s.scan(t)
	if got := cloud.writes(); got != nil {
		t.Fatalf("a group at 0 that ran tainted is expected to be tainted: got %v", got)
	}
	fresh := newStage(t, discover, cloud, pod("p", "1", pending))
	fresh.scan(t)
	if diff := cmp.Diff([]string{"SetDesired general 1"}, cloud.writes()); diff != "" {
		t.Errorf("after a restart the taint is forgotten, -want +got:\n%s", diff)
	}
}

func TestDiscoveryIsRefreshedOnceAMinute(t *testing.T) {
	cloud := oneGroup(1, "i-a")
	s := newStage(t, discover, cloud, node("a"))
	s.scan(t)
	cloud.groups[0].Tags = nil
	for _, step := range []struct {
		after time.Duration
		want  []string
	}{{50 * time.Second, []string{"general"}}, {time.Minute, nil}} {
		s.clock.at = start.Add(step.after)
		s.scan(t)
		if diff := cmp.Diff(step.want, s.listed(t)); diff != "" {
			t.Errorf("%s after the tag went, groups in the status, -want +got:\n%s", step.after, diff)
		}
	}
}

// listed are the group names in the status ConfigMap.
func (s *stage) listed(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, group := range s.status(t).NodeGroups {
		names = append(names, group.Name)
	}
	return names
}

func (s *stage) status(t *testing.T) statusDocument {
	t.Helper()
	config, err := s.kube.CoreV1().ConfigMaps("kube-system").Get(t.Context(), "cluster-autoscaler-status", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var doc statusDocument
	if err := yaml.UnmarshalStrict([]byte(config.Data["status"]), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Time != config.Annotations[annotationLastUpdated] {
		t.Errorf("time %q and annotation %q differ", doc.Time, config.Annotations[annotationLastUpdated])
	}
	return doc
}

func TestStatus(t *testing.T) {
	s := newStage(t, discover, oneGroup(2, "i-a"), node("a"), pod("full", "4", on("a")), pod("p", "1", pending))
	s.scan(t)
	doc := s.status(t)
	if _, err := time.Parse(timeFormat, doc.Time); err != nil {
		t.Error(err)
	}
	if doc.AutoscalerStatus != "Running" || len(doc.NodeGroups) != 1 {
		t.Fatalf("status = %+v, want Running with one group", doc)
	}
	group := doc.NodeGroups[0]
	got := []any{group.Name, *group.Health.CloudProviderTarget, *group.Health.MinSize, *group.Health.MaxSize,
		group.Health.NodeCounts.Registered.Ready, group.Health.NodeCounts.Unregistered, group.ScaleUp.Status, group.ScaleDown.Status}
	want := []any{"general", 2, 0, 5, 1, 1, "InProgress", "NoCandidates"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the group's entry, -want +got:\n%s", diff)
	}
}
