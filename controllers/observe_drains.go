package controllers

import (
	"context"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpevents "sigs.k8s.io/karpenter/pkg/events"

	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/plan"
)

// mostAtOnce bounds how many nodes are looked at at once: a page of pods is kept of each.
const mostAtOnce = 8

// states reads what is left on the nodes, by name.
func (o *Observer) states(ctx context.Context, nodes []string) (map[string]inventory.DrainState, error) {
	states := make([]inventory.DrainState, len(nodes))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(mostAtOnce)
	for i, n := range nodes {
		g.Go(func() (err error) { states[i], err = o.Ports.Drainer.State(gctx, n); return err })
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	out := map[string]inventory.DrainState{}
	for i, n := range nodes {
		out[n] = states[i]
	}
	return out, nil
}

// observeDrains reads what is left on the nodes that are being drained, and what Karpenter could not launch for their pods.
func (o *Observer) observeDrains(ctx context.Context, needs plan.Needs, w *plan.World) error {
	var err error
	if w.Drains, err = o.states(ctx, needs.Drains); err != nil {
		return err
	}
	if !needs.LaunchFailures {
		return nil
	}
	w.LaunchFailures, err = o.launchFailures(ctx)
	return err
}

// launchFailures reads Karpenter's events: it deletes a NodeClaim at once for which AWS has no capacity or quota left, and says why
// nowhere else. The event's reason is Karpenter's own for all of AWS's codes of that kind.
func (o *Observer) launchFailures(ctx context.Context) ([]inventory.LaunchFailure, error) {
	var out []inventory.LaunchFailure
	var page corev1.EventList
	for {
		page.Items = nil
		err := o.Live.List(ctx, &page, client.Limit(pageSize), client.Continue(page.Continue), client.MatchingFieldsSelector{
			Selector: fields.OneTermEqualSelector("reason", karpevents.InsufficientCapacityError),
		})
		if err != nil {
			return nil, fmt.Errorf("listing Karpenter's events: %w", err)
		}
		for _, e := range page.Items {
			if e.InvolvedObject.Kind == "NodeClaim" {
				out = append(out, launchFailure(e))
			}
		}
		if page.Continue == "" {
			return out, nil
		}
	}
}

// launchFailure reads one event. The NodeClaim it is about is gone; Karpenter names those after their NodePool, with a dash and
// a suffix of its own.
func launchFailure(e corev1.Event) inventory.LaunchFailure {
	pool := e.InvolvedObject.Name
	if i := strings.LastIndexByte(pool, '-'); i > 0 {
		pool = pool[:i]
	}
	return inventory.LaunchFailure{NodePool: pool, Message: e.Message, Time: lastSeen(e)}
}

// lastSeen reads both generations of the events API.
func lastSeen(e corev1.Event) time.Time {
	switch {
	case e.Series != nil:
		return e.Series.LastObservedTime.Time
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp.Time
	}
	return e.EventTime.Time
}
