package preflight

import (
	"testing"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// surgeSingletons is any other value than None.
const surgeSingletons v1alpha1.SurgeStrategy = "Singletons"

func annotated(key, value string) func(*inventory.Pod) {
	return func(p *inventory.Pod) { p.Annotations = map[string]string{key: value} }
}

func autoscalers(a ...inventory.PodAutoscaler) func(*Input) {
	return func(in *Input) { in.Workloads.Autoscalers = a }
}

func surging(s v1alpha1.SurgeStrategy) func(*Input) {
	return func(in *Input) { in.Strategy.Surge = s }
}

// mayNotRestart: castoff's role lacks the right.
func mayNotRestart(in *Input) { in.NoRestarts = true }

func TestDoNotDisrupt(t *testing.T) {
	say := func(workload, note, nodes string) inventory.Finding {
		return of(workload, warns(CheckDoNotDisrupt, workload, "general", "Its pods ask to be left alone ("+note+"), so castoff waits with "+nodes+" until they end. Take the annotation off the pods when they may move; or accept DoNotDisrupt for it, and they go once a drain has lasted strategy.timeoutSeconds."))
	}
	testCheck(t, CheckDoNotDisrupt, map[string]checkCase{
		"Karpenters": {
			reason: "Karpenter's own word",
			in:     sound(pods(pod("load-1", madeBy("Job", "load"), annotated(karpv1.DoNotDisruptAnnotationKey, "true")))),
			want:   []inventory.Finding{say("job/shop/load", "karpenter.sh/do-not-disrupt=true", "1 node")},
		},
		"Duration": {
			reason: "for a time, from the start of the pod",
			in:     sound(pods(pod("load-1", madeBy("Job", "load"), annotated(karpv1.DoNotDisruptAnnotationKey, "4h")))),
			want:   []inventory.Finding{say("job/shop/load", "karpenter.sh/do-not-disrupt=4h", "1 node")},
		},
		"ClusterAutoscalers": {
			reason: "the word that the pods were given for Cluster Autoscaler",
			in:     sound(pods(pod("load-1", madeBy("Job", "load"), annotated(safeToEvict, "false")))),
			want:   []inventory.Finding{say("job/shop/load", "cluster-autoscaler.kubernetes.io/safe-to-evict=false", "1 node")},
		},
		"TwoNodes": {
			reason: "one finding for a workload, and what it costs",
			in: sound(nodes(inventory.Node{Name: "old-2", Group: "general-b"}), pods(pod("load-1", madeBy("Job", "load"), annotated(safeToEvict, "false")), pod("load-2", madeBy("Job", "load"), annotated(safeToEvict, "false"), on("old-2")),
				pod("load-3", madeBy("Job", "load"), annotated(safeToEvict, "false"), on("old-2")))),
			want: []inventory.Finding{say("job/shop/load", "cluster-autoscaler.kubernetes.io/safe-to-evict=false", "2 nodes")},
		},
		"SafeToEvict": {reason: "true is what it says", in: sound(pods(pod("a", annotated(safeToEvict, "true"))))},
		"NotTrue":     {reason: "anything but true or a duration is no wish", in: sound(pods(pod("a", annotated(karpv1.DoNotDisruptAnnotationKey, "false"))))},
		"Negative":    {reason: "nor is a time that is over before it began", in: sound(pods(pod("a", annotated(karpv1.DoNotDisruptAnnotationKey, "-1h"))))},
		"AtHome":      {reason: "who stays is left alone", in: sound(pods(pod("a", annotated(safeToEvict, "false"), on("home"))))},
	})
}

func TestSafeToEvict(t *testing.T) {
	say := func(object, pool, list string) inventory.Finding {
		return warns(CheckSafeToEvict, object, pool, "Karpenter does not read cluster-autoscaler.kubernetes.io/safe-to-evict: \"false\", so it would move these when it consolidates: "+list+
			". Add karpenter.sh/do-not-disrupt: \"true\" to their pod templates, where they are defined.")
	}
	no := map[string]string{safeToEvict: "false"}
	testCheck(t, CheckSafeToEvict, map[string]checkCase{
		"Template": {
			reason: "whoever keeps it in Git is named",
			in:     sound(pods(pod("db-0", madeBy("StatefulSet", "db"), annotated(safeToEvict, "false"))), controllers(inventory.Controller{Kind: "StatefulSet", Name: "db", Replicas: 3, Owner: "Argo CD application shop", PodAnnotations: no})),
			want:   []inventory.Finding{say("pool/general", "general", "statefulset/shop/db (Argo CD application shop)")},
		},
		"PodAlone": {
			reason: "the pods of a custom resource have no template that anybody reads",
			in:     sound(pods(pod("pg-1", madeBy("Cluster", "pg"), annotated(safeToEvict, "false")))),
			want:   []inventory.Finding{say("pool/general", "general", "cluster/shop/pg")},
		},
		"AtNight": {
			reason: "a CronJob that has no pods now has its annotation in the template of its template; it is in no pool",
			in:     sound(pods(), controllers(inventory.Controller{Kind: "CronJob", Name: "night", PodAnnotations: no}, inventory.Controller{Kind: "Job", Name: "load", PodAnnotations: no})),
			want:   []inventory.Finding{say("cluster/prod", "", "cronjob/shop/night, job/shop/load")},
		},
		"Both": {
			reason: "Karpenter's word is beside it",
			in:     sound(pods(), controllers(inventory.Controller{Kind: "CronJob", Name: "night", PodAnnotations: map[string]string{safeToEvict: "false", karpv1.DoNotDisruptAnnotationKey: "true"}})),
		},
		"True": {reason: "true has no counterpart, and needs none", in: sound(pods(), controllers(inventory.Controller{Kind: "CronJob", Name: "night", PodAnnotations: map[string]string{safeToEvict: "true"}}))},
	})
}

func TestSingleton(t *testing.T) {
	say := func(object string) []inventory.Finding {
		return []inventory.Finding{warns(CheckSingleton, "pool/general", "general", "These have one pod, which is away from its eviction until the next one is Ready: "+object+". Run two of what must not be away.")}
	}
	one := func(kind string, change ...func(*inventory.Controller)) func(*Input) {
		c := inventory.Controller{Kind: kind, Name: "web", Replicas: 1, KeepsAll: kind == kindDeployment}
		for _, f := range change {
			f(&c)
		}
		return controllers(c)
	}
	its := func(kind string, change ...func(*inventory.Shape)) func(*Input) {
		return pods(pod("web-1", madeBy(kind, "web"), shaped(change...)))
	}
	testCheck(t, CheckSingleton, map[string]checkCase{
		"StatefulSet": {"its next pod has the name of the first: it cannot run beside it", sound(its("StatefulSet"), one("StatefulSet"), surging(surgeSingletons)), say("statefulset/shop/web")},
		"Deployment":  {"castoff starts the new pod first", sound(its(kindDeployment), one(kindDeployment), surging(surgeSingletons)), nil},
		"NoSurge":     {"unless nobody asked for that", sound(its(kindDeployment), one(kindDeployment), surging(v1alpha1.SurgeNone)), say("deployment/shop/web")},
		"NotAllowed":  {"nor where castoff may not", sound(its(kindDeployment), one(kindDeployment), surging(surgeSingletons), mayNotRestart), say("deployment/shop/web")},
		"Recreate":    {"its strategy takes the old pod away first", sound(its(kindDeployment), one(kindDeployment, func(c *inventory.Controller) { c.KeepsAll = false }), surging(surgeSingletons)), say("deployment/shop/web")},
		"Volume": {"a volume of one node has to leave the old pod first",
			sound(its(kindDeployment, using("data")), claims(claim("data")), one(kindDeployment), surging(surgeSingletons)), say("deployment/shop/web")},
		"SharedVolume": {"one that several nodes can have does not", sound(its(kindDeployment, using("data")), claims(claim("data", func(c *inventory.Claim) { c.Shared = true })), one(kindDeployment), surging(surgeSingletons)), nil},
		"HostPort":     {"two pods of one host port may find no node", sound(its(kindDeployment, func(s *inventory.Shape) { s.HostPorts = []int32{80} }), one(kindDeployment), surging(surgeSingletons)), say("deployment/shop/web")},
		"Two":          {"the other one serves", sound(its("StatefulSet"), one("StatefulSet", func(c *inventory.Controller) { c.Replicas = 2 })), nil},
		"Job":          {"nobody waits on the line for a Job", sound(its("Job"), one("Job")), nil},
		"Elsewhere":    {"who does not move is not away", sound(pods(pod("web-1", madeBy("StatefulSet", "web"), on("home"))), one("StatefulSet")), nil},
		"Custom":       {"how many a custom resource wants is not known", sound(pods(pod("pg-1", madeBy("Cluster", "pg")))), nil},
	})
}

func TestSurgeNotAllowed(t *testing.T) {
	say := func(surge, names string) []inventory.Finding {
		return []inventory.Finding{warns(CheckSurgeNotAllowed, "clusterrole/castoff", "", "strategy.surge is "+surge+", and castoff may not patch Deployments, so it evicts the pods of these as usual, without a new one first: "+names+
			". Install its chart with drain.surge: true; or set strategy.surge: None, if that is what you want.")}
	}
	of := func(replicas int32, change ...func(*inventory.Controller)) func(*Input) {
		c := inventory.Controller{Kind: kindDeployment, Name: "web", Replicas: replicas, KeepsAll: true}
		for _, f := range change {
			f(&c)
		}
		return controllers(c)
	}
	its := pods(pod("web-1", madeBy(kindDeployment, "web")))
	testCheck(t, CheckSurgeNotAllowed, map[string]checkCase{
		"Singleton": {"the one that counts on it is named, and what happens to it", sound(its, of(1), surging(surgeSingletons), mayNotRestart), say("Singletons", "deployment/shop/web")},
		"All":       {"whoever asked for more hears of more", sound(its, of(3), surging("All"), mayNotRestart), say("All", "deployment/shop/web")},
		"Three":     {"with Singletons its pods are evicted anyway", sound(its, of(3), surging(surgeSingletons), mayNotRestart), nil},
		"None":      {"nobody asked for it", sound(its, of(1), surging(v1alpha1.SurgeNone), mayNotRestart), nil},
		"Allowed":   {"nothing is missing", sound(its, of(1), surging(surgeSingletons)), nil},
		"Recreate":  {"it could not be surged anyway", sound(its, of(1, func(c *inventory.Controller) { c.KeepsAll = false }), surging(surgeSingletons), mayNotRestart), nil},
		"AtHome":    {"nor does what stays need it", sound(pods(pod("web-1", madeBy(kindDeployment, "web"), on("home"))), of(1), surging(surgeSingletons), mayNotRestart), nil},
		"NotListed": {"a pod whose Deployment is gone is nobody's to restart", sound(its, surging(surgeSingletons), mayNotRestart), nil},
		"ManyOfThem": {"three are named, and the rest counted", sound(func(in *Input) {
			for _, name := range []string{"a", "b", "c", "d"} {
				in.Workloads.Controllers = append(in.Workloads.Controllers, inventory.Controller{Kind: kindDeployment, Namespace: "shop", Name: name, Replicas: 1, KeepsAll: true})
				in.Workloads.Pods = append(in.Workloads.Pods, pod(name+"-1", madeBy(kindDeployment, name)))
			}
		}, surging(surgeSingletons), mayNotRestart), say("Singletons", "deployment/shop/a, deployment/shop/b, deployment/shop/c and 1 more")},
	})
}

func TestAutoscaledToOne(t *testing.T) {
	hpa := func(kind string, least int32) func(*Input) {
		return autoscalers(inventory.PodAutoscaler{Namespace: "shop", Name: "web-hpa", Kind: kind, Target: "web", Min: least, Max: 10})
	}
	three := func(replicas int32) func(*Input) {
		return controllers(inventory.Controller{Kind: kindDeployment, Name: "web", Replicas: replicas})
	}
	its := pods(pod("web-1", madeBy(kindDeployment, "web")))
	testCheck(t, CheckAutoscaledToOne, map[string]checkCase{
		"One": {"three at noon, one at night", sound(its, three(3), hpa(kindDeployment, 1)), []inventory.Finding{warns(CheckAutoscaledToOne, "pool/general", "general",
			"These may scale down to one pod while its node is drained: horizontalpodautoscaler/shop/web-hpa. Set minReplicas to 2 for the time of the migration where that matters.")}},
		"Two":       {"two are enough", sound(its, three(3), hpa(kindDeployment, 2)), nil},
		"OneNow":    {"what has one now is a singleton, and said to be", sound(its, three(1), hpa(kindDeployment, 1)), nil},
		"OtherKind": {"it scales something else of the name", sound(its, three(3), hpa("StatefulSet", 1)), nil},
		"Elsewhere": {"its pods do not move", sound(pods(pod("web-1", madeBy(kindDeployment, "web"), on("home"))), three(3), hpa(kindDeployment, 1)), nil},
	})
}
