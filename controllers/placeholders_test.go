package controllers

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/castoff-sh/castoff/api/v1alpha1"
)

func TestWhichPodsArePlaceholders(t *testing.T) {
	own, theirs := labels.Set{v1alpha1.LabelPlaceholder: "general"}, labels.Set{"app": "web"}
	if !placeholders.Matches(own) || placeholders.Matches(theirs) || notPlaceholders.Matches(own) || !notPlaceholders.Matches(theirs) {
		t.Errorf("%s and %s are not what they are named", placeholders, notPlaceholders)
	}
}

func TestAPlaceholderIsKeptSlim(t *testing.T) {
	meta := metav1.ObjectMeta{Name: "p", Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"c": "d"}}
	full := &corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{NodeName: "new", Containers: []corev1.Container{{Name: "x"}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.1", Conditions: []corev1.PodCondition{{Type: corev1.PodReady}}}}
	full.ManagedFields, full.OwnerReferences = []metav1.ManagedFieldsEntry{{}}, []metav1.OwnerReference{{}}
	got, err := slimPlaceholder(full)
	want := &corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{NodeName: "new"}, Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: full.Status.Conditions}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
	if other, err := slimPlaceholder("a tombstone"); other != "a tombstone" || err != nil {
		t.Errorf("%v, %v", other, err)
	}
}

func TestRoomMadeWakes(t *testing.T) {
	pod := func(ready corev1.ConditionStatus) *corev1.Pod {
		return &corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}}}
	}
	yes, no := pod(corev1.ConditionTrue), pod(corev1.ConditionFalse)
	cases := map[string]struct {
		reason        string
		before, after *corev1.Pod
		want          bool
	}{
		"Ready":  {"its node takes pods from now on", no, yes, true},
		"Still":  {"as it did", yes, yes, false},
		"Not":    {"it waits", no, no, false},
		"NoMore": {"its node is gone", yes, no, false},
	}
	for name, tc := range cases {
		if got := roomMade().Update(event.UpdateEvent{ObjectOld: tc.before, ObjectNew: tc.after}); got != tc.want {
			t.Errorf("%s: %s: wakes %v", name, tc.reason, got)
		}
	}
	if roomMade().Create(event.CreateEvent{Object: no}) || roomMade().Delete(event.DeleteEvent{Object: yes}) {
		t.Error("castoff made it, or took it away, itself")
	}
}
