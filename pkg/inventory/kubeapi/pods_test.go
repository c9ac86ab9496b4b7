package kubeapi

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestReadyAndFinished(t *testing.T) {
	cases := map[string]struct {
		reason          string
		status          corev1.PodStatus
		ready, finished bool
	}{
		"Nothing":   {"a pod that says nothing is not Ready, and not over", corev1.PodStatus{}, false, false},
		"Ready":     {"its condition says so", corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}, true, false},
		"NotReady":  {"it runs, and is not Ready", corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}}, false, false},
		"Other":     {"another condition says nothing of it", corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}}}, false, false},
		"Succeeded": {"it ended well", corev1.PodStatus{Phase: corev1.PodSucceeded}, false, true},
		"Failed":    {"it ended", corev1.PodStatus{Phase: corev1.PodFailed}, false, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := &corev1.Pod{Status: tc.status}
			if got := Ready(p); got != tc.ready {
				t.Errorf("%s: Ready %t", tc.reason, got)
			}
			if got := Finished(p); got != tc.finished {
				t.Errorf("%s: Finished %t", tc.reason, got)
			}
		})
	}
}

// TestRestrict: every container is held to it; that admission agrees is tested where such pods are made, against a real API server.
func TestRestrict(t *testing.T) {
	s := &corev1.PodSpec{Containers: []corev1.Container{{Name: "a"}, {Name: "b"}}}
	Restrict(s)
	if *s.AutomountServiceAccountToken || *s.EnableServiceLinks || !*s.SecurityContext.RunAsNonRoot || *s.SecurityContext.RunAsUser == 0 ||
		s.SecurityContext.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("the pod is not held back: %+v", s)
	}
	for _, c := range s.Containers {
		if x := c.SecurityContext; *x.AllowPrivilegeEscalation || !*x.ReadOnlyRootFilesystem || len(x.Capabilities.Drop) != 1 || x.Capabilities.Drop[0] != "ALL" {
			t.Errorf("container %s is not held back: %+v", c.Name, x)
		}
	}
}
