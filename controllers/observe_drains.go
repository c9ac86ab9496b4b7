package controllers

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpevents "sigs.k8s.io/karpenter/pkg/events"

	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/plan"
)

// mostAtOnce bounds how many nodes are looked at at once: a page of pods is kept of each.
const mostAtOnce = 8

const (
	// mostRead bounds how many nodes' pods are read in one look; those whose turn it is not are as they were.
	mostRead = 100
	// stateFresh is for how long a look at a node serves while nothing is known to have changed: about as long as pods need to go.
	stateFresh = time.Second
	// stateForgotten is when a node that nobody asks about any more is forgotten.
	stateForgotten = time.Minute
)

// drainLooks are the last looks at nodes, so that the many nodes that wait for the same budgets are not all read again whenever one pod of
// theirs is Ready.
type drainLooks struct {
	mu   sync.Mutex
	seen map[string]drainLook
}

type drainLook struct {
	inventory.DrainState
	at time.Time
	// old says that castoff itself did something to the node since.
	old bool
}

// touched makes the next look read the node.
func (l *drainLooks) touched(node string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if look, ok := l.seen[node]; ok {
		look.old = true
		l.seen[node] = look
	}
}

// states says what is left on the nodes, by name. Of many nodes those are read first that were touched, whose budgets have room that
// they had not, and that were not looked at for longest. A node that was never looked at and has to wait for its turn is left out.
func (o *Observer) states(ctx context.Context, nodes []string) (map[string]inventory.DrainState, error) {
	if len(nodes) == 0 {
		return map[string]inventory.DrainState{}, nil
	}
	room, err := o.roomyBudgets(ctx)
	if err != nil {
		return nil, err
	}
	l, now := &o.drains, o.Clock()
	l.mu.Lock()
	due := l.due(nodes, room, now)
	l.mu.Unlock()
	states := make([]inventory.DrainState, len(due))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(mostAtOnce)
	for i, n := range due {
		g.Go(func() (err error) { states[i], err = o.Ports.Drainer.State(gctx, n); return err })
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	out := map[string]inventory.DrainState{}
	for i, n := range due {
		l.seen[n] = drainLook{DrainState: states[i], at: now}
	}
	for _, n := range nodes {
		if look, ok := l.seen[n]; ok {
			out[n] = look.DrainState
		}
	}
	return out, nil
}

// due are the nodes to read now, and those that nobody asks about any more are forgotten.
func (l *drainLooks) due(nodes []string, room map[string]bool, now time.Time) []string {
	if l.seen == nil {
		l.seen = map[string]drainLook{}
	}
	maps.DeleteFunc(l.seen, func(_ string, look drainLook) bool { return now.Sub(look.at) >= stateForgotten })
	gained := func(b inventory.BudgetNeed) bool { return b.Room == 0 && room[b.Budget] }
	urgent, aged := []string{}, []string{}
	for _, n := range nodes {
		look, seen := l.seen[n]
		switch {
		case !seen, look.old, slices.ContainsFunc(look.Budgets, gained):
			urgent = append(urgent, n)
		case now.Sub(look.at) >= stateFresh:
			aged = append(aged, n)
		}
	}
	slices.SortStableFunc(urgent, func(a, b string) int { return l.seen[a].at.Compare(l.seen[b].at) })
	slices.SortStableFunc(aged, func(a, b string) int { return l.seen[a].at.Compare(l.seen[b].at) })
	due := append(urgent, aged...)
	return due[:min(len(due), mostRead)]
}

// roomyBudgets are the PodDisruptionBudgets that let a pod go now, by namespace/name, from the cache.
func (o *Observer) roomyBudgets(ctx context.Context) (map[string]bool, error) {
	var list policyv1.PodDisruptionBudgetList
	if err := o.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing PodDisruptionBudgets: %w", err)
	}
	out := map[string]bool{}
	for _, b := range list.Items {
		out[b.Namespace+"/"+b.Name] = b.Status.DisruptionsAllowed > 0
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
// nowhere else. The event's reason is Karpenter's own for all of AWS's codes of that kind. Events about objects without a namespace are in
// this one (client-go, tools/events): those of all namespaces take an API server of 300 nodes seconds to go through.
func (o *Observer) launchFailures(ctx context.Context) ([]inventory.LaunchFailure, error) {
	var out []inventory.LaunchFailure
	var page corev1.EventList
	for {
		page.Items = nil
		err := o.Live.List(ctx, &page, client.InNamespace(metav1.NamespaceDefault), client.Limit(pageSize), client.Continue(page.Continue), client.MatchingFieldsSelector{
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
