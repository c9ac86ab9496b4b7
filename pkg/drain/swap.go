package drain

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/inventory/kubeapi"
)

// pendingRoom says that the pod's room is not there yet.
func (p *pass) pendingRoom(pod *corev1.Pod) bool {
	return slices.ContainsFunc(p.rooms, func(r inventory.Placeholder) bool { return !r.Ready && !r.Ended && slices.Contains(r.Pods, pod.UID) })
}

// movedOut are the placeholders of the node of which a pod has left it: evicted in this pass, or in an earlier one whose answer was lost,
// or gone by itself. Their room is for the pod's successor, which is Pending already.
func (p *pass) movedOut() []string {
	here := map[types.UID]bool{}
	for i := range p.leaving {
		here[p.leaving[i].UID] = p.leaving[i].DeletionTimestamp == nil && !p.gone[p.leaving[i].UID]
	}
	var names []string
	for _, r := range p.rooms {
		if slices.ContainsFunc(r.Pods, func(uid types.UID) bool { return !here[uid] }) {
			names = append(names, r.Name)
		}
	}
	return names
}

// Drop deletes placeholders by their names, one by one: nobody is to take a deletion of many pods for anything else. What is gone already is
// fine.
func (d *Drainer) Drop(ctx context.Context, names []string) error {
	for _, name := range names {
		if err := d.drop(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// drop gives the room free at once.
func (d *Drainer) drop(ctx context.Context, name string) error {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: d.room.Namespace, Name: name}}
	err := client.IgnoreNotFound(d.client.Delete(ctx, p, client.GracePeriodSeconds(0)))
	return kubeapi.Wrap(err, "delete", "pods", d.room.Namespace+"/"+name)
}
