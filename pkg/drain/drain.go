package drain

import (
	"context"
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// PassLimit is for how long one pass evicts at most.
const PassLimit = 10 * time.Second

// Drainer works on one node at a time; several goroutines may share it.
type Drainer struct {
	client client.Client
	live   client.Reader
	clock  func() time.Time
	room   Room
	taken  takings

	mu sync.Mutex
	// notBefore is until when the API server asked to be left alone.
	notBefore time.Time
}

// New gives a Drainer. The client writes, and reads PodDisruptionBudgets, from a cache if it has one; live reads nodes and pods
// past every cache, pods by node only.
func New(c client.Client, live client.Reader, clock func() time.Time) *Drainer {
	return &Drainer{client: c, live: live, clock: clock}
}

// State says what has to leave the node before its instance may end, and which of those pods wait for something that is plain
// without asking the Eviction API, and which budgets the others have to ask; and, once none is left, which of their volumes are still
// attached. It writes nothing. A node that is gone has nothing left on it.
func (d *Drainer) State(ctx context.Context, node string) (inventory.DrainState, error) {
	state := inventory.DrainState{Node: node}
	object, err := d.node(ctx, node)
	if err != nil || object == nil {
		return state, err
	}
	pods, err := d.pods(ctx, node)
	if err != nil {
		return state, err
	}
	state.Evictable, state.Begun = len(pods.leaving), object.Annotations[v1alpha1.AnnotationDraining] != ""
	if state.Evictable == 0 {
		state.Volumes, err = d.attached(ctx, node, pods.staying)
		return state, err
	}
	at := d.view(object)
	var free []*corev1.Pod
	for i := range pods.leaving {
		if reason := at.waits(&pods.leaving[i], inventory.DrainAllowance{}); reason != nil {
			state.Blocked = append(state.Blocked, *reason)
		} else {
			free = append(free, &pods.leaving[i])
		}
	}
	needs, full, err := d.newBudgets().needs(ctx, free)
	state.Budgets, state.Blocked = needs, append(state.Blocked, full...)
	return state, err
}

// Pass evicts what may leave the node now, for at most PassLimit, and says what may not; allow says what may beyond that. Pods
// that the cluster or the node itself needs go when no other is left. A pod that was evicted counts as left on the node until it
// is gone. The state is good beside an error, too: what is counted there is still on the node. It refuses with *NotBegunError
// where Begin has not been called.
func (d *Drainer) Pass(ctx context.Context, node string, allow inventory.DrainAllowance) (inventory.DrainState, error) {
	state := inventory.DrainState{Node: node}
	object, err := d.node(ctx, node)
	if err != nil || object == nil {
		return state, err
	}
	if object.Annotations[v1alpha1.AnnotationDraining] == "" {
		return state, &NotBegunError{Node: node}
	}
	pods, err := d.pods(ctx, node)
	if err != nil {
		return state, err
	}
	state.Evictable = len(pods.leaving)
	p := d.newPass(object, allow)
	p.leaving = pods.leaving
	if p.rooms, err = d.roomsOf(ctx, node); err != nil {
		return state, err
	}
	err = p.walk(ctx, &state)
	return state, errors.Join(err, d.Drop(ctx, p.movedOut()))
}

// walk goes over the pods whose turn it is.
func (p *pass) walk(ctx context.Context, state *inventory.DrainState) error {
	for _, pod := range first(p.leaving) {
		gone, reason, err := p.step(ctx, pod)
		if gone {
			state.Evictable--
		}
		if reason != nil {
			state.Blocked = append(state.Blocked, *reason)
		}
		if err != nil {
			return err
		}
	}
	state.Blocked = append(state.Blocked, p.noted...)
	return nil
}
