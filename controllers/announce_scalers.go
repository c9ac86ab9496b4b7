package controllers

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/plan"
)

// announceScalers tells as an event that pools have two scalers, or none, and who is the other one; and that it is over. Unlike what a
// check finds it is told each time: whoever comes back a third time is to be found in the events a third time.
func (r *Reconciler) announceScalers(before, m *v1alpha1.Migration) {
	was, is := singleScaler(before), singleScaler(m)
	switch {
	case is.Status == metav1.ConditionFalse && (was.Status != is.Status || was.Message != is.Message):
		r.Recorder.Eventf(m, nil, corev1.EventTypeWarning, is.Reason, "Check", "%s", cut(is.Message, maxMessage))
	case was.Status == metav1.ConditionFalse && is.Status == metav1.ConditionTrue:
		r.Recorder.Eventf(m, nil, corev1.EventTypeNormal, v1alpha1.ConditionSingleScaler, "Check", "Every pool has one scaler again. %s", cut(is.Message, maxMessage/2))
	}
}

// returned says that a blocker is about what somebody did, and that it was not there, or not as grave, at the look before.
func returned(before *v1alpha1.Migration, b v1alpha1.Blocker) bool {
	return plan.Interference(b.Reason) && !slices.ContainsFunc(before.Status.Blockers, func(was v1alpha1.Blocker) bool {
		return was.Reason == b.Reason && was.Object == b.Object && was.Severity == b.Severity
	})
}

func singleScaler(m *v1alpha1.Migration) metav1.Condition {
	if c := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionSingleScaler); c != nil {
		return *c
	}
	return metav1.Condition{}
}
