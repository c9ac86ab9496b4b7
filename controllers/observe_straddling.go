package controllers

import (
	"context"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/plan"
)

// observeStraddling looks for workloads that two waves can take, while some pools have changed hands and others have not. A new workload
// wakes the reconciler (setup.go); between two of them what was read serves as that for the preflight does.
func (o *Observer) observeStraddling(ctx context.Context, m *v1alpha1.Migration, needs plan.Needs, w *plan.World) error {
	if !needs.Straddling {
		o.templates.forget()
		return nil
	}
	templates, err := o.readSeldom(ctx, &o.templates, readTemplates)
	if err != nil {
		return err
	}
	w.Straddling = plan.StraddlingOf(m, *w, templates)
	return nil
}
