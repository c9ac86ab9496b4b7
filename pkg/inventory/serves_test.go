package inventory

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

func servingTarget() Target {
	in := func(key string, values ...string) karpv1.NodeSelectorRequirementWithMinValues {
		return karpv1.NodeSelectorRequirementWithMinValues{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}
	}
	t := Target{Pool: "general", NodePool: karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "general"}}}
	t.NodePool.Spec.Template.Labels = map[string]string{"team": "a"}
	t.NodePool.Spec.Template.Spec.Taints = []corev1.Taint{{Key: "dedicated", Value: "a", Effect: corev1.TaintEffectNoSchedule}, {Key: "soft", Effect: corev1.TaintEffectPreferNoSchedule}}
	t.NodePool.Spec.Template.Spec.StartupTaints = []corev1.Taint{{Key: "agent-not-ready", Effect: corev1.TaintEffectNoExecute}}
	t.NodePool.Spec.Template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{
		in(corev1.LabelInstanceTypeStable, "m5.large", "m5.xlarge"), in(corev1.LabelArchStable, "amd64"),
	}
	return t
}

func affinity(terms ...corev1.NodeSelectorTerm) *corev1.Affinity {
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms}}}
}

func term(key string, operator corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: operator, Values: values}}}
}

func TestTargetRefuses(t *testing.T) {
	tolerates := []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists}}
	cases := map[string]struct {
		reason string
		shape  Shape
		want   string // part of the refusal; empty: none
	}{
		"Plain":          {"what tolerates the pool's taint and asks for nothing is served", Shape{Tolerations: tolerates}, ""},
		"Taint":          {"a taint that is not tolerated refuses", Shape{}, "dedicated"},
		"SoftTaint":      {"a preference keeps nobody away", Shape{Tolerations: []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists}}, NodeSelector: map[string]string{"team": "a"}}, ""},
		"StartupTaint":   {"a startup taint goes away by itself: it refuses nobody", Shape{Tolerations: tolerates}, ""},
		"Label":          {"a label of the template can be selected", Shape{Tolerations: tolerates, NodeSelector: map[string]string{"team": "a"}}, ""},
		"OtherValue":     {"another value of it cannot", Shape{Tolerations: tolerates, NodeSelector: map[string]string{"team": "b"}}, "team"},
		"UnknownLabel":   {"a label that the template does not set is no node's", Shape{Tolerations: tolerates, NodeSelector: map[string]string{"disk": "ssd"}}, "disk"},
		"InstanceType":   {"one of the types is enough", Shape{Tolerations: tolerates, NodeSelector: map[string]string{corev1.LabelInstanceTypeStable: "m5.large"}}, ""},
		"WrongType":      {"a type that is not among them is never launched", Shape{Tolerations: tolerates, NodeSelector: map[string]string{corev1.LabelInstanceTypeStable: "c5.large"}}, "c5.large"},
		"Zone":           {"a well-known label that the template leaves open is Karpenter's to choose", Shape{Tolerations: tolerates, NodeSelector: map[string]string{corev1.LabelTopologyZone: "us-east-1a"}}, ""},
		"NodePoolByName": {"the NodePool's own label is on its nodes", Shape{Tolerations: tolerates, NodeSelector: map[string]string{karpv1.NodePoolLabelKey: "general"}}, ""},
		"OtherNodePool":  {"and another's is not", Shape{Tolerations: tolerates, NodeSelector: map[string]string{karpv1.NodePoolLabelKey: "other"}}, "other"},
		"NotOnKarpenter": {"what must not run on Karpenter's nodes is refused", Shape{Tolerations: tolerates, Affinity: affinity(term(karpv1.NodePoolLabelKey, corev1.NodeSelectorOpDoesNotExist))}, karpv1.NodePoolLabelKey},
		"SecondTerm":     {"terms are alternatives: the second fits", Shape{Tolerations: tolerates, Affinity: affinity(term("disk", corev1.NodeSelectorOpExists), term("team", corev1.NodeSelectorOpIn, "a", "b"))}, ""},
		"NoTerm":         {"none of the terms fits", Shape{Tolerations: tolerates, Affinity: affinity(term("disk", corev1.NodeSelectorOpExists), term("team", corev1.NodeSelectorOpIn, "b"))}, "disk"},
		"SelectorAndTerm": {
			"the selector counts beside every term",
			Shape{Tolerations: tolerates, NodeSelector: map[string]string{"disk": "ssd"}, Affinity: affinity(term("team", corev1.NodeSelectorOpIn, "a"))}, "disk",
		},
		"Preferred": {
			"a preference is none to refuse for",
			Shape{Tolerations: tolerates, Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 1, Preference: term("disk", corev1.NodeSelectorOpExists)}}}}}, "",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := servingTarget().Refuses(&tc.shape)
			if (err == nil) != (tc.want == "") || (err != nil && !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("%s: got %v, want one with %q", tc.reason, err, tc.want)
			}
		})
	}
}

func TestNodePlaceRefuses(t *testing.T) {
	node := Node{
		Labels: map[string]string{"team": "a", corev1.LabelTopologyZone: "us-east-1a"},
		Taints: []corev1.Taint{
			{Key: "dedicated", Value: "a", Effect: corev1.TaintEffectNoSchedule}, {Key: "soft", Effect: corev1.TaintEffectPreferNoSchedule},
			{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}, {Key: "castoff.sh/legacy", Value: "true", Effect: corev1.TaintEffectNoSchedule},
			{Key: "ToBeDeletedByClusterAutoscaler", Effect: corev1.TaintEffectNoSchedule},
		},
	}
	tolerates := []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists}}
	cases := map[string]struct {
		reason string
		shape  Shape
		want   string
	}{
		"Plain":       {"cordon, castoff's fence, a preference and what Cluster Autoscaler left keep nobody out", Shape{Tolerations: tolerates}, ""},
		"Taint":       {"the user's own taint does", Shape{}, "dedicated"},
		"Label":       {"its labels can be selected", Shape{Tolerations: tolerates, NodeSelector: map[string]string{"team": "a"}}, ""},
		"Zone":        {"a node that is there has one zone, and no other", Shape{Tolerations: tolerates, NodeSelector: map[string]string{corev1.LabelTopologyZone: "us-east-1b"}}, "us-east-1b"},
		"NoWellKnown": {"a well-known label that it lacks is not to come", Shape{Tolerations: tolerates, NodeSelector: map[string]string{corev1.LabelInstanceTypeStable: "m5.large"}}, corev1.LabelInstanceTypeStable},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := node.Place().Refuses(&tc.shape)
			if (err == nil) != (tc.want == "") || (err != nil && !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("%s: got %v, want one with %q", tc.reason, err, tc.want)
			}
		})
	}
}

func TestShapeAsks(t *testing.T) {
	s := Shape{NodeSelector: map[string]string{"zone": "a"}, Affinity: affinity(term("disk", corev1.NodeSelectorOpExists), term("team", corev1.NodeSelectorOpNotIn, "b"))}
	if got := strings.Join(s.Asks(), " "); got != "disk team zone" {
		t.Errorf("every key of the selector and of each term: %s", got)
	}
}

func TestTainted(t *testing.T) {
	lasts := corev1.Taint{Key: "dedicated", Effect: corev1.TaintEffectNoSchedule}
	passes := corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}
	cases := map[string]struct {
		reason string
		nodes  []Node
		want   bool
	}{
		"NoNodes": {"nothing is known of a group without nodes", nil, false},
		"Others":  {"other groups' nodes say nothing", []Node{{Group: "b", Taints: []corev1.Taint{lasts}}, {Taints: []corev1.Taint{lasts}}}, false},
		"All":     {"every one of them keeps pods away", []Node{{Group: "a", Taints: []corev1.Taint{lasts}}, {Group: "a", Taints: []corev1.Taint{passes, lasts}}}, true},
		"One":     {"one that takes pods is enough", []Node{{Group: "a", Taints: []corev1.Taint{lasts}}, {Group: "a"}}, false},
		"Cordon":  {"a cordon goes away", []Node{{Group: "a", Taints: []corev1.Taint{passes}}}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := Tainted(tc.nodes, "a"); got != tc.want {
				t.Errorf("%s: got %t", tc.reason, got)
			}
		})
	}
}
