package controllers

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/plan"
	"github.com/castoff-sh/castoff/pkg/preflight"
)

const reportKey = "report.txt"

// writeReport keeps the preflight's full text in a ConfigMap that goes with the Migration. It is written only when the text
// changes, and left alone while no preflight is due.
func (r *Reconciler) writeReport(ctx context.Context, m *v1alpha1.Migration, w plan.World) error {
	if w.Snapshot != nil && len(w.Findings) == 0 && m.Status.Report != nil {
		return nil
	}
	name := types.NamespacedName{Namespace: r.Options.Namespace, Name: "castoff-report-" + m.Name}
	text := preflight.Text(w.Findings)
	m.Status.Report = &v1alpha1.ObjectReference{Namespace: name.Namespace, Name: name.Name}
	have := &corev1.ConfigMap{}
	err := r.Observer.Live.Get(ctx, name, have)
	switch {
	case apierrors.IsNotFound(err):
		want := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: name.Namespace, Name: name.Name, Labels: map[string]string{v1alpha1.LabelMigration: string(m.UID)},
			OwnerReferences: []metav1.OwnerReference{ownerOf(m)},
		}, Data: map[string]string{reportKey: text}}
		if err := r.Observer.Client.Create(ctx, want); err != nil {
			return fmt.Errorf("writing the report ConfigMap %s: %w", name, err)
		}
		return nil
	case err != nil:
		return fmt.Errorf("reading the report ConfigMap %s: %w", name, err)
	case have.Data[reportKey] == text:
		return nil
	}
	have.Data = map[string]string{reportKey: text}
	have.OwnerReferences = []metav1.OwnerReference{ownerOf(m)}
	if err := r.Observer.Client.Update(ctx, have); err != nil {
		return fmt.Errorf("writing the report ConfigMap %s: %w", name, err)
	}
	return nil
}
