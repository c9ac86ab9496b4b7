package drain

import (
	"sync"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// settle is how long the disruption controller may need until a budget's status is right again after an eviction. Until then an
	// eviction that the status does not name may or may not be counted in it.
	settle = time.Second
	// forgotten is when an eviction counts no more though the budget never changed: it was not the budget's to allow.
	forgotten = time.Minute
)

// takings are the evictions that the budgets' statuses may not show yet, of the passes over all nodes: what several nodes want of one
// budget at one moment is more than it has, and to ask for it would only be refused. They are a guess, which spares calls; the
// Eviction API has the last word.
type takings struct {
	mu sync.Mutex
	of map[types.NamespacedName]*taking
}

// taking is what was taken of one budget.
type taking struct {
	// version of the budget when it was last looked at, refused whether the Eviction API refused a pod at that version.
	version string
	refused bool
	// pods that were evicted, and when.
	pods map[string]time.Time
}

// take notes that the pod is about to be evicted, if the budget has room for it.
func (t *takings) take(b *policyv1.PodDisruptionBudget, pod string, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.room(b, now) <= 0 {
		return false
	}
	t.of[client.ObjectKeyFromObject(b)].pods[pod] = now
	return true
}

// left is how many more pods the budget lets go now.
func (t *takings) left(b *policyv1.PodDisruptionBudget, now time.Time) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return max(0, t.room(b, now))
}

// giveBack undoes take for a pod that was not evicted; refused says that it was for want of room.
func (t *takings) giveBack(b *policyv1.PodDisruptionBudget, pod string, refused bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known := t.of[client.ObjectKeyFromObject(b)]; known != nil {
		delete(known.pods, pod)
		known.refused = known.refused || refused && known.version == b.ResourceVersion
	}
}

// room is what the status has, less what it does not show yet.
func (t *takings) room(b *policyv1.PodDisruptionBudget, now time.Time) int {
	known := t.of[client.ObjectKeyFromObject(b)]
	if known == nil {
		known = &taking{version: b.ResourceVersion, pods: map[string]time.Time{}}
		if t.of == nil {
			t.of = map[types.NamespacedName]*taking{}
		}
		t.of[client.ObjectKeyFromObject(b)] = known
	}
	changed := known.version != b.ResourceVersion
	for pod, at := range known.pods {
		_, shown := b.Status.DisruptedPods[pod]
		if changed && (shown || now.Sub(at) >= settle) || now.Sub(at) >= forgotten {
			delete(known.pods, pod)
		}
	}
	if changed {
		known.version, known.refused = b.ResourceVersion, false
	}
	if known.refused {
		return 0
	}
	return int(b.Status.DisruptionsAllowed) - len(known.pods)
}
