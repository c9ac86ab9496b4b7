package inventory

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func TestManages(t *testing.T) {
	tagged := NodeGroup{AutoScalingGroup: "asg-1", Tags: []Tag{{Key: "enabled", Value: "true"}, {Key: "prod", Value: "owned"}}}
	cases := map[string]struct {
		reason string
		a      Autoscaler
		want   bool
	}{
		"Named":       {"--nodes names the Auto Scaling group, whatever its tags", Autoscaler{Static: []string{"asg-1"}}, true},
		"OtherName":   {"--nodes names another", Autoscaler{Static: []string{"asg-2"}}, false},
		"ByPresence":  {"a key without a value counts whatever the tag's value", Autoscaler{Discovery: []string{"enabled"}}, true},
		"AllOfOne":    {"every key of one flag has to be there", Autoscaler{Discovery: []string{"enabled,prod"}}, true},
		"OneMissing":  {"removing one of the keys ends discovery", Autoscaler{Discovery: []string{"enabled,stage"}}, false},
		"AnyOfTwo":    {"several flags add up", Autoscaler{Discovery: []string{"stage", "prod=owned"}}, true},
		"WrongValue":  {"key=value needs the value", Autoscaler{Discovery: []string{"prod=shared"}}, false},
		"Nothing":     {"without discovery and names it scales nothing", Autoscaler{}, false},
		"EmptyFilter": {"an empty flag finds nothing", Autoscaler{Discovery: []string{""}}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := tc.a.Manages(tagged); got != tc.want {
				t.Errorf("%s: got %v", tc.reason, got)
			}
		})
	}
}

// TestAutoscalerObject: a snapshot of an older castoff has no kind, and is of Deployments.
func TestAutoscalerObject(t *testing.T) {
	cases := map[string]struct {
		reason, kind, want string
		scalable           bool
		byHand             string
	}{
		"Unsaid":      {"what was always meant", "", "deployment/kube-system/ca", true, "kubectl scale deployment/ca -n kube-system --replicas=0"},
		"Deployment":  {"the usual", "Deployment", "deployment/kube-system/ca", true, "kubectl scale deployment/ca -n kube-system --replicas=0"},
		"StatefulSet": {"castoff has no right to its replicas", "StatefulSet", "statefulset/kube-system/ca", false, "kubectl scale statefulset/ca -n kube-system --replicas=0"},
		"DaemonSet":   {"it has no replicas", "DaemonSet", "daemonset/kube-system/ca", false, "kubectl delete daemonset/ca -n kube-system"},
		"Pod":         {"nothing could be scaled", "Pod", "pod/kube-system/ca", false, "kubectl delete pod/ca -n kube-system"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			a := Autoscaler{Deployment: types.NamespacedName{Namespace: "kube-system", Name: "ca"}, Kind: tc.kind}
			if got := a.Object(); got != tc.want || a.Scalable() != tc.scalable || a.StopByHand() != tc.byHand {
				t.Errorf("%s: want %s, scalable %t, %q; got %s, %t, %q", tc.reason, tc.want, tc.scalable, tc.byHand, got, a.Scalable(), a.StopByHand())
			}
		})
	}
}

func TestGroupsUnknown(t *testing.T) {
	cases := map[string]struct {
		reason string
		a      Autoscaler
		want   bool
	}{
		"Named":    {"it names them", Autoscaler{Static: []string{"a"}}, false},
		"Tags":     {"or finds them", Autoscaler{Discovery: []string{"k8s.io/cluster-autoscaler/enabled"}}, false},
		"Nothing":  {"where are they?", Autoscaler{}, true},
		"Variable": {"one is enough", Autoscaler{Static: []string{"a", "$(GROUP)"}}, true},
		"InATag":   {"of tags too", Autoscaler{Discovery: []string{"k8s.io/cluster-autoscaler/$(CLUSTER)"}}, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := tc.a.GroupsUnknown(); (got != "") != tc.want {
				t.Errorf("%s: got %q", tc.reason, got)
			}
		})
	}
}

func TestKeepsToRecord(t *testing.T) {
	cases := map[string]struct {
		reason, image string
		want          bool
	}{
		"New":          {"client-go 0.27", "registry.k8s.io/autoscaling/cluster-autoscaler:v1.27.0", true},
		"Newer":        {"and later", "registry.k8s.io/autoscaling/cluster-autoscaler:v1.33.1", true},
		"Old":          {"its own 15 s count", "registry.k8s.io/autoscaling/cluster-autoscaler:v1.26.9", false},
		"WithoutV":     {"mirrors drop it", "mirror.example.com:5000/cluster-autoscaler:1.30.2-eks", true},
		"TagAndDigest": {"pinned", "x/cluster-autoscaler:v1.30.2@sha256:0a", true},
		"Digest":       {"nobody knows", "x/cluster-autoscaler@sha256:1.30", false},
		"NoTag":        {"nobody knows", "mirror.example.com:5000/cluster-autoscaler", false},
		"Latest":       {"nobody knows", "x/cluster-autoscaler:latest", false},
		"Two":          {"whatever comes", "x/cluster-autoscaler:v2.0.0", true},
		"TooLong":      {"no version", "x/cluster-autoscaler:v1.99999999999999999999", false},
		"Empty":        {"nothing", "", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := (Autoscaler{Image: tc.image}).KeepsToRecord(); got != tc.want {
				t.Errorf("%s: got %t", tc.reason, got)
			}
		})
	}
}
