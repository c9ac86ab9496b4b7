package preflight

import (
	"fmt"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// The checks of workloads that are disturbed by any move.
const (
	CheckDoNotDisrupt    = "DoNotDisrupt"
	CheckSafeToEvict     = "SafeToEvict"
	CheckSurgeNotAllowed = "SurgeNotAllowed"
	CheckSingleton       = "Singleton"
	CheckAutoscaledToOne = "AutoscaledToOne"
)

// safeToEvict is Cluster Autoscaler's word for what it must not move (its FAQ).
const safeToEvict = "cluster-autoscaler.kubernetes.io/safe-to-evict"

// doNotDisrupt: castoff waits with a node until such a pod has ended, and one that never ends holds its node for ever. Whoever put
// the annotation there knows when it may go; nobody else does.
func doNotDisrupt(in Input) []inventory.Finding {
	var out []inventory.Finding
	for _, w := range in.workloads {
		nodes := map[string]bool{}
		note := ""
		for _, p := range w.pods {
			if n := leftAlone(p.Annotations); n != "" {
				nodes[p.Node], note = true, n
			}
		}
		if note != "" {
			out = append(out, w.about(warn(CheckDoNotDisrupt, w.object(), fmt.Sprintf(
				"Its pods ask to be left alone (%s), so castoff waits with %s until they end. Take the annotation off the pods when they may move; or accept DoNotDisrupt for it, and they go once a drain has lasted strategy.timeoutSeconds.", note, inventory.Count(len(nodes), "node")))))
		}
	}
	return out
}

// leftAlone is the annotation that asks to leave a pod where it is, as castoff's drains and Karpenter read it.
func leftAlone(annotations map[string]string) string {
	if annotations[safeToEvict] == "false" {
		return safeToEvict + "=false"
	}
	value := annotations[karpv1.DoNotDisruptAnnotationKey]
	if grace, err := time.ParseDuration(value); value == "true" || err == nil && grace > 0 {
		return karpv1.DoNotDisruptAnnotationKey + "=" + value
	}
	return ""
}

// notSafeToEvict: Karpenter does not read Cluster Autoscaler's annotation. A job of six hours that was safe with it is ended by
// consolidation after it, and the one that runs at night is found in the morning.
func notSafeToEvict(in Input) []inventory.Finding {
	var out []inventory.Finding
	for _, n := range byPool(in.workloads, func(w *workload) string {
		a := w.annotations()
		if a[safeToEvict] != "false" || leftAlone(map[string]string{karpv1.DoNotDisruptAnnotationKey: a[karpv1.DoNotDisruptAnnotationKey]}) != "" {
			return ""
		}
		return w.owned()
	}) {
		out = append(out, n.about(warn(CheckSafeToEvict, n.object(in),
			"Karpenter does not read "+safeToEvict+": \"false\", so it would move these when it consolidates: "+n.list()+
				". Add "+karpv1.DoNotDisruptAnnotationKey+": \"true\" to their pod templates, where they are defined.")))
	}
	return out
}

// surges says that the strategy asks for restarts in place of evictions.
func (in Input) surges() bool {
	return in.Strategy.Surge != "" && in.Strategy.Surge != v1alpha1.SurgeNone
}

// surgeNotAllowed: who counts on a surge that castoff may not make learns of it when the pod is away. So it is said before, once, with
// the workloads that it is about.
func surgeNotAllowed(in Input) []inventory.Finding {
	if !in.surges() || !in.NoRestarts {
		return nil
	}
	claims := indexClaims(in.Workloads.Claims)
	var names []string
	for _, w := range in.workloads {
		if len(w.pods) > 0 && w.canSurge(claims) && (in.Strategy.Surge == v1alpha1.SurgeAll || w.controller.Replicas == 1) {
			names = append(names, w.object())
		}
	}
	if len(names) == 0 {
		return nil
	}
	return []inventory.Finding{warn(CheckSurgeNotAllowed, castoffsRole, fmt.Sprintf(
		"strategy.surge is %s, and castoff may not patch Deployments, so it evicts the pods of these as usual, without a new one first: %s. Install its chart with drain.surge: true; or set strategy.surge: None, if that is what you want.",
		in.Strategy.Surge, three(names)))}
}

// castoffsRole is what castoff's rights in the cluster are in.
const castoffsRole = "clusterrole/castoff"

// singletons: the one pod of a workload is away from its eviction until the new one is Ready. That is found out by whoever uses it.
func singletons(in Input) []inventory.Finding {
	claims := indexClaims(in.Workloads.Claims)
	surging := in.surges() && !in.NoRestarts
	var out []inventory.Finding
	for _, n := range byPool(in.workloads, moves(func(w *workload) bool {
		return w.controller != nil && w.controller.Replicas == 1 && w.serves() && !(surging && w.canSurge(claims))
	})) {
		out = append(out, n.about(warn(CheckSingleton, n.object(in),
			"These have one pod, which is away from its eviction until the next one is Ready: "+n.list()+". Run two of what must not be away.")))
	}
	return out
}

// serves leaves out what has an end: nobody waits on the line for the pod of a Job.
func (w *workload) serves() bool {
	return w.kind != "Job" && w.kind != "CronJob" && w.kind != kindDaemonSet
}

// canSurge says whether a second pod of the workload can run beside the first: castoff asks its Deployment for it then.
func (w *workload) canSurge(claims claimIndex) bool {
	if w.kind != kindDeployment || w.controller == nil || !w.controller.KeepsAll || len(w.shape.HostPorts) > 0 {
		return false
	}
	for _, p := range w.pods {
		for _, c := range claims.of(p.Pod) {
			if !c.Shared {
				return false
			}
		}
	}
	return true
}

// autoscaledToOne: a workload that has three pods at noon has one at night, when the migration may have come to it; what is
// true of singletons is true of it then.
func autoscaledToOne(in Input) []inventory.Finding {
	least := map[owner]string{}
	for _, a := range in.Workloads.Autoscalers {
		if a.Min <= 1 {
			least[owner{a.Kind, a.Namespace, a.Target}] = "horizontalpodautoscaler/" + a.Namespace + "/" + a.Name
		}
	}
	var out []inventory.Finding
	for _, n := range byPool(in.workloads, func(w *workload) string {
		if w.controller == nil || w.controller.Replicas <= 1 || len(w.pods) == 0 {
			return ""
		}
		return least[owner{w.kind, w.namespace, w.name}]
	}) {
		out = append(out, n.about(warn(CheckAutoscaledToOne, n.object(in),
			"These may scale down to one pod while its node is drained: "+n.list()+". Set minReplicas to 2 for the time of the migration where that matters.")))
	}
	return out
}
