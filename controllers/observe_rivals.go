package controllers

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/utils/ptr"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/plan"
)

// watched says whether a watch that begins late has begun.
type watched struct{ on bool }

// begin begins it, once.
func (w *watched) begin(watch func() error) error {
	if w == nil || w.on || watch == nil {
		return nil
	}
	if err := watch(); err != nil {
		return err
	}
	w.on = true
	return nil
}

// observeRivals says of somebody's NodePools that Karpenter asks before a pool's which of them take pods of the pool.
func (o *Observer) observeRivals(ctx context.Context, w *plan.World) error {
	workloads, err := o.workloads(ctx)
	if err != nil {
		return fmt.Errorf("looking for pods that another NodePool takes: %w", err)
	}
	w.Rivals = nil
	heavier := plan.HeavierNodePools(*w)
	for _, pool := range slices.Sorted(maps.Keys(heavier)) {
		nodes := legacyNodesOf(w, pool)
		for i := range heavier[pool] {
			np := &heavier[pool][i]
			if takes := taken(np, workloads.Pods, nodes); takes != "" {
				w.Rivals = append(w.Rivals, inventory.Rival{
					NodePool: np.Name, Weight: ptr.Deref(np.Spec.Weight, 0), Pool: pool, Takes: takes, Owner: inventory.OwnerOf(np), ChangedBy: inventory.ManagerOf(np),
				})
			}
		}
	}
	return nil
}

// legacyNodesOf are the names of the pool's old nodes.
func legacyNodesOf(w *plan.World, pool string) map[string]bool {
	names := map[string]bool{}
	for _, p := range w.Pools {
		for _, n := range w.Nodes {
			if p.Name == pool && slices.Contains(p.NodeGroups, n.Group) {
				names[n.Name] = true
			}
		}
	}
	return names
}

// taken is the first pod on those nodes that the NodePool takes; empty if it takes none. DaemonSets' pods stay where they are.
func taken(np *karpv1.NodePool, pods []inventory.Pod, nodes map[string]bool) string {
	place := inventory.Target{NodePool: *np}.Place()
	for i := range pods {
		p := &pods[i]
		if !nodes[p.Node] || p.Mirror || p.Shape == nil || p.Owner != nil && p.Owner.Kind == "DaemonSet" {
			continue
		}
		if place.Refuses(p.Shape) == nil {
			return p.Object()
		}
	}
	return ""
}
