package preflight

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/karpenter/pkg/scheduling"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// The checks of pods as such.
const (
	CheckBarePod        = "BarePod"
	CheckNoRequests     = "NoRequests"
	CheckHostPort       = "HostPort"
	CheckToleratesFence = "ToleratesFence"
	CheckExpendablePod  = "ExpendablePod"
	CheckOtherScheduler = "OtherScheduler"
	CheckPendingPods    = "PendingPods"
)

// moving is a pod that has to leave its node, with its pool and the budgets that select it.
type moving struct {
	*inventory.Pod
	pool    string
	budgets []*policyv1.PodDisruptionBudget
}

// movingPods are the pods on legacy nodes that castoff will have to evict: DaemonSets stay to the end, what is over holds nothing,
// and no API can evict a static pod.
func movingPods(ws []*workload) []moving {
	var out []moving
	for _, w := range ws {
		out = append(out, w.pods...)
	}
	return out
}

func ofDaemonSet(p *inventory.Pod) bool {
	return p.Owner != nil && p.Owner.Kind == kindDaemonSet && strings.HasPrefix(p.Owner.APIVersion, "apps/")
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
// would never be empty. The kubelet brings back static pods only: any other pod that a node is said to own is as bare.
func barePods(in Input) []inventory.Finding {
	var out []inventory.Finding
	for _, p := range in.moving {
		if p.Owner != nil && p.Owner.Kind != "Node" {
			continue
		}
		f := block(CheckBarePod, p.Object(), "No controller would bring this pod back, so castoff does not evict it and node "+p.Node+
			" would never be empty. Delete the pod, or give it a controller.")
		f.Pool, f.Workload = p.pool, p.Object()
		out = append(out, f)
	}
	return out
}

// noRequests: Karpenter fills nodes by what pods request. Pods that request nothing all go onto one small node and starve there,
// where an Auto Scaling group's nodes had room by chance.
func noRequests(in Input) []inventory.Finding {
	var out []inventory.Finding
	for _, n := range byPool(in.workloads, moves(func(w *workload) bool { return len(w.shape.Unrequested) > 0 })) {
		out = append(out, n.about(warn(CheckNoRequests, n.object(in),
			"Containers of these have no request for CPU or memory: "+n.list()+". Karpenter packs nodes by requests, so they may find themselves on fuller nodes than today. Set requests near what they use.")))
	}
	return out
}

// hostPorts: two pods with one host port never share a node, so that many nodes are needed whatever their size; a drain of several
// nodes at once needs as many new ones first, and no pod of them can start beside the one that it replaces.
func hostPorts(in Input) []inventory.Finding {
	type poolPort struct {
		pool string
		port int32
	}
	pods := map[poolPort]int{}
	for _, p := range in.moving {
		if p.Shape == nil {
			continue
		}
		for _, port := range slices.Compact(slices.Sorted(slices.Values(p.Shape.HostPorts))) {
			pods[poolPort{p.pool, port}]++
		}
	}
	found, most := map[string][]string{}, map[string]int{}
	ports := slices.SortedFunc(maps.Keys(pods), func(a, b poolPort) int { return int(a.port) - int(b.port) })
	for _, at := range ports {
		if n := pods[at]; n > 1 {
			found[at.pool] = append(found[at.pool], "port "+strconv.Itoa(int(at.port))+" ("+inventory.Count(n, "pod")+")")
			most[at.pool] = max(most[at.pool], n)
		}
	}
	var out []inventory.Finding
	for _, pool := range slices.Sorted(maps.Keys(found)) {
		n := named{pool, found[pool]}
		out = append(out, n.about(warn(CheckHostPort, n.object(in), fmt.Sprintf(
			"Pods with the same host port never share a node: %s. Karpenter needs at least %s here, whatever their size. Use a Service instead of host ports where you can.", n.list(), inventory.Count(most[pool], "node")))))
	}
	return out
}

// fence is what keeps pods off a node that is being drained.
var fence = scheduling.Taints{
	{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule},
	{Key: v1alpha1.TaintLegacy, Effect: corev1.TaintEffectNoSchedule},
}

// toleratesFence: a pod that tolerates every taint comes back onto the very node that it was evicted from: that one is the emptiest
// then, so the scheduler likes it best. It is evicted and comes back for ever, and its node never ends.
func toleratesFence(in Input) []inventory.Finding {
	var out []inventory.Finding
	for _, w := range in.workloads {
		if len(w.pods) > 0 && w.kind != "Pod" && !scales(in, w) && comesBack(in, w) {
			out = append(out, w.about(block(CheckToleratesFence, w.object(), "Pods of "+w.owned()+" tolerate the cordon and the taint "+v1alpha1.TaintLegacy+
				", so each would come back onto the node that it was evicted from, which would never be empty. Tolerate only what is needed; or require "+
				"karpenter.sh/nodepool to exist by node affinity, if its pods may wait until Karpenter serves.")))
		}
	}
	return out
}

// comesBack says whether a node that is drained takes the workload's next pod. That one has the template's affinity, which somebody
// may have mended since its present pods began, and the tolerations that webhooks gave to those.
func comesBack(in Input, w *workload) bool {
	if fence.Tolerates(w.shape.Tolerations) != nil {
		return false
	}
	next := *w.shape
	if w.controller != nil && w.controller.Shape != nil {
		next.NodeSelector, next.Affinity = w.controller.Shape.NodeSelector, w.controller.Shape.Affinity
	}
	pools := poolOfNode(in)
	return slices.ContainsFunc(in.Nodes, func(n inventory.Node) bool {
		return pools[n.Name] != "" && takes(n, w.shape) && takes(n, &next)
	})
}

// scales says that the workload is a Cluster Autoscaler: it rests before the first node is drained, so nobody evicts it.
func scales(in Input, w *workload) bool {
	return slices.ContainsFunc(in.Autoscalers, func(a inventory.Autoscaler) bool {
		return w.kind == kindDeployment && (a.Kind == "" || a.Kind == kindDeployment) && a.Deployment.Namespace == w.namespace && a.Deployment.Name == w.name
	})
}

// expendablePods: Cluster Autoscaler neither launches nor keeps nodes for pods below its cutoff, and placeholders are made so in
// order to use up what is left over. Karpenter knows no cutoff and buys nodes for them.
func expendablePods(in Input) []inventory.Finding {
	cutoff := priorityCutoff(in.Autoscalers)
	var out []inventory.Finding
	for _, n := range byPool(in.workloads, moves(func(w *workload) bool { return w.shape.Priority < cutoff })) {
		out = append(out, n.about(warn(CheckExpendablePod, n.object(in), fmt.Sprintf(
			"Cluster Autoscaler launches no node for pods of a priority below %d, and Karpenter does: %s. Scale them to what you want to pay for, or to 0.", cutoff, n.list()))))
	}
	return out
}

// priorityCutoff is the lowest --expendable-pods-priority-cutoff; -10 is its default (Cluster Autoscaler's FAQ).
func priorityCutoff(autoscalers []inventory.Autoscaler) int32 {
	cutoff, set := int32(-10), false
	for _, a := range autoscalers {
		for _, arg := range a.Args {
			value, ok := strings.CutPrefix(strings.TrimLeft(arg, "-"), "expendable-pods-priority-cutoff=")
			if n, err := strconv.ParseInt(value, 10, 32); ok && err == nil && (!set || int32(n) < cutoff) {
				cutoff, set = int32(n), true
			}
		}
	}
	return cutoff
}

// otherSchedulers: Karpenter launches for pods that the default scheduler's rules leave over, and only once their scheduler says
// that they are Unschedulable. With another's rules it launches too little, or nothing.
func otherSchedulers(in Input) []inventory.Finding {
	var out []inventory.Finding
	other := func(w *workload) bool {
		return w.shape.Scheduler != "" && w.shape.Scheduler != corev1.DefaultSchedulerName
	}
	for _, n := range byPool(in.workloads, moves(other)) {
		out = append(out, n.about(warn(CheckOtherScheduler, n.object(in),
			"Another scheduler than the default one places these: "+n.list()+". Karpenter works out nodes by the default scheduler's rules, so it may launch none that fit. Try one before its pool is shifted.")))
	}
	return out
}

// pendingPods: pods that no node takes today are read as the migration's fault tomorrow. They are the baseline: only more of them hold
// up a drain, a pod that waits for its accepted local volume too.
func pendingPods(in Input) []inventory.Finding {
	if in.Workloads.Pending == 0 {
		return nil
	}
	var names []string
	claims, lost := indexClaims(in.Workloads.Claims), 0 // with a disk, as the user accepted: nobody waits for those
	for i := range in.Workloads.Pods {
		if p := &in.Workloads.Pods[i]; p.Node == "" && !p.Terminating && counts(p) && !ofDaemonSet(p) {
			names = append(names, p.Object())
			if slices.ContainsFunc(claims.of(p), func(c *inventory.Claim) bool {
				return c.Local && in.accepts(CheckLocalVolume, "persistentvolume/"+c.Volume)
			}) {
				lost++
			}
		}
	}
	said := " without a node already: " + three(names) + ". castoff waits for none of them, only for what is Pending besides."
	if s := in.Snapshot; s != nil && in.Workloads.Pending-lost > s.PendingPods {
		said = fmt.Sprintf(" without a node: %s. That is %d more than before the migration, and no other drain begins until as many have one.", three(names), in.Workloads.Pending-lost-s.PendingPods)
	}
	return []inventory.Finding{warn(CheckPendingPods, "cluster/"+in.Cluster.Name, inventory.Count(in.Workloads.Pending, "pod")+said+" See why: kubectl describe pod.")}
}
