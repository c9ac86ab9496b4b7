package controllers

import (
	"context"
	"time"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/plan"
)

// observeStraddling looks for workloads that two waves can take, while some pools have changed hands and others have not. A new workload
// wakes the reconciler (setup.go); between two of them what was read serves as that for the preflight does.
func (o *Observer) observeStraddling(ctx context.Context, m *v1alpha1.Migration, needs plan.Needs, w *plan.World) error {
	if !needs.Straddling {
		o.templates.forget()
		return nil
	}
	var took time.Duration
	templates, err := o.templates.get(ctx, o.Clock(), func(inventory.Workloads) time.Duration { return min(workloadsShare*took, workloadsOldest) },
		func(ctx context.Context) (inventory.Workloads, error) {
			began := o.Clock()
			templates, err := readTemplates(ctx, o.Live)
			took = o.Clock().Sub(began)
			return templates, err
		})
	if err != nil {
		return err
	}
	w.Straddling = plan.StraddlingOf(m, *w, templates)
	return nil
}
