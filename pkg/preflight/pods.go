package preflight

import (
	"strings"

	policyv1 "k8s.io/api/policy/v1"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// CheckBarePod is the check for pods without a controller.
const CheckBarePod = "BarePod"

// moving is a pod that has to leave its node, with its pool and the budgets that select it.
type moving struct {
	*inventory.Pod
	pool    string
	budgets []*policyv1.PodDisruptionBudget
}

// movingPods are the pods on legacy nodes that castoff will have to evict: DaemonSets stay to the end, and no API can evict a
// static pod.
func movingPods(in Input) []moving {
	pools := poolOfNode(in)
	budgets := indexBudgets(in.Workloads.Budgets)
	var out []moving
	for i := range in.Workloads.Pods {
		p := &in.Workloads.Pods[i]
		if pool, legacy := pools[p.Node]; legacy && !stays(p) {
			out = append(out, moving{Pod: p, pool: pool, budgets: budgets.of(p)})
		}
	}
	return out
}

func stays(p *inventory.Pod) bool {
	return p.Mirror || p.Owner != nil && p.Owner.Kind == "DaemonSet" && strings.HasPrefix(p.Owner.APIVersion, "apps/")
}

// poolOfNode says which pool each legacy node belongs to.
func poolOfNode(in Input) map[string]string {
	poolOfGroup := map[string]string{}
	for _, p := range in.Pools {
		for _, g := range p.NodeGroups {
			poolOfGroup[g] = p.Name
		}
	}
	out := map[string]string{}
	for _, n := range in.Nodes {
		if pool, ok := poolOfGroup[n.Group]; ok && n.Group != "" {
			out[n.Name] = pool
		}
	}
	return out
}

// barePods: a pod that no controller owns is gone for good once it is evicted, so castoff does not evict it and its node
// would never be empty.
func barePods(in Input) []inventory.Finding {
	var out []inventory.Finding
	for _, p := range in.moving {
		if p.Owner != nil {
			continue
		}
		f := block(CheckBarePod, p.Object(), "No controller would bring this pod back, so castoff does not evict it and node "+p.Node+
			" would never be empty. Delete the pod, or give it a controller.")
		f.Pool = p.pool
		out = append(out, f)
	}
	return out
}
