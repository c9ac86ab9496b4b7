package preflight

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

func phase(p corev1.PodPhase) func(*inventory.Pod) {
	return func(pod *inventory.Pod) { pod.Phase = p }
}

func TestCase_C032_PodsThatNobodyBringsBackBlock(t *testing.T) {
	bareOf := func(object string) inventory.Finding {
		return of(object, blocks(CheckBarePod, object, "general", "No controller would bring this pod back, so castoff does not evict it and node old would never be empty. Delete the pod, or give it a controller."))
	}
	testCheck(t, CheckBarePod, map[string]checkCase{
		"NoOwner": {
			reason: "nothing would bring it back. An owner that is no controller is none: the inventory has controllers only",
			in:     sound(pods(pod("debug", bare))),
			want:   []inventory.Finding{bareOf("pod/shop/debug")},
		},
		"Node": {
			reason: "a kubelet brings back static pods only, whoever is said to own the pod",
			in:     sound(pods(pod("odd", func(p *inventory.Pod) { p.Owner = &metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: "old"} }))),
			want:   []inventory.Finding{bareOf("pod/shop/odd")},
		},
		"Each": {
			reason: "each has to be looked at by somebody",
			in:     sound(pods(pod("b", bare), pod("a", bare))),
			want:   []inventory.Finding{bareOf("pod/shop/a"), bareOf("pod/shop/b")},
		},
		"CustomResource": {reason: "its operator makes it again", in: sound(pods(pod("pg-1", madeBy("Cluster", "pg"))))},
		"Static":         {reason: "it ends with its node, and no API can evict it", in: sound(pods(pod("proxy", mirror)))},
		"Succeeded":      {reason: "what is over holds no node", in: sound(pods(pod("done", bare, phase(corev1.PodSucceeded))))},
		"Failed":         {reason: "nor does what failed", in: sound(pods(pod("done", bare, phase(corev1.PodFailed))))},
		"AtHome":         {reason: "the home stays", in: sound(pods(pod("debug", bare, on("home"))))},
	})
}

func TestNoRequests(t *testing.T) {
	unrequested := shaped(func(s *inventory.Shape) { s.Unrequested = []string{"app"} })
	say := func(list string) string {
		return "Containers of these have no request for CPU or memory: " + list + ". Karpenter packs nodes by requests, so they may find themselves on fuller nodes than today. Set requests near what they use."
	}
	testCheck(t, CheckNoRequests, map[string]checkCase{
		"One": {
			reason: "the workload is named, not its pods",
			in:     sound(pods(pod("web-1", unrequested), pod("web-2", unrequested))),
			want:   []inventory.Finding{warns(CheckNoRequests, "pool/general", "general", say("replicaset/shop/web"))},
		},
		"Many": {
			reason: "three are named, the rest is counted",
			in:     sound(pods(pod("a", madeBy("StatefulSet", "a"), unrequested), pod("b", madeBy("StatefulSet", "b"), unrequested), pod("c", madeBy("StatefulSet", "c"), unrequested), pod("d", madeBy("StatefulSet", "d"), unrequested))),
			want:   []inventory.Finding{warns(CheckNoRequests, "pool/general", "general", say("statefulset/shop/a, statefulset/shop/b, statefulset/shop/c and 1 more"))},
		},
		"Requested": {reason: "all containers have them", in: sound(pods(pod("web-1", shaped())))},
		"AtHome":    {reason: "who does not move is not packed", in: sound(pods(pod("web-1", unrequested, on("home"))))},
	})
}

func TestHostPort(t *testing.T) {
	ports := func(p ...int32) func(*inventory.Pod) {
		return shaped(func(s *inventory.Shape) { s.HostPorts = p })
	}
	testCheck(t, CheckHostPort, map[string]checkCase{
		"Two": {
			reason: "two pods of one port are two nodes, of whatever workload they are",
			in:     sound(pods(pod("a", madeBy("StatefulSet", "a"), ports(8080, 9100)), pod("b", madeBy("StatefulSet", "b"), ports(8080)), pod("c", madeBy("StatefulSet", "b"), ports(8080, 443)), pod("d", madeBy("StatefulSet", "d"), ports(443)))),
			want: []inventory.Finding{warns(CheckHostPort, "pool/general", "general",
				"Pods with the same host port never share a node: port 443 (2 pods), port 8080 (3 pods). Karpenter needs at least 3 nodes here, whatever their size. Use a Service instead of host ports where you can.")},
		},
		"Twice":     {reason: "a port of TCP and of UDP is one pod's", in: sound(pods(pod("a", ports(53, 53))))},
		"One":       {reason: "one pod of a port goes onto any node", in: sound(pods(pod("a", ports(8080))))},
		"TwoPools":  {reason: "in pools of their own they never met", in: sound(pods(pod("a", ports(8080)), pod("b", ports(8080), on("batch"))), nodes(inventory.Node{Name: "batch", Group: "batch"}), pools("batch", "batch"))},
		"DaemonSet": {reason: "a DaemonSet has one pod a node in any case", in: sound(pods(pod("a", daemon, ports(8080)), pod("b", daemon, ports(8080))))},
		"NotRead":   {reason: "a pod of which nothing is known has none", in: sound(pods(pod("a"), pod("b")))},
	})
}

func TestToleratesFence(t *testing.T) {
	saysOf := func(object, name string) []inventory.Finding {
		return []inventory.Finding{of(object, blocks(CheckToleratesFence, object, "general", "Pods of "+name+" tolerate the cordon and the taint castoff.sh/legacy, so each would come back onto the node that it was evicted from, which would never be empty. "+
			"Tolerate only what is needed; or require karpenter.sh/nodepool to exist by node affinity, if its pods may wait until Karpenter serves."))}
	}
	say := saysOf("replicaset/shop/web", "replicaset/shop/web")
	with := func(t ...corev1.Toleration) Input { return sound(pods(pod("web-1", shaped(tolerating(t...))))) }
	made := func(template *inventory.Shape, change ...func(*inventory.Shape)) Input {
		return sound(pods(pod("web-1", madeBy(kindDeployment, "web"), shaped(append(change, tolerating(everything))...))),
			controllers(inventory.Controller{Kind: kindDeployment, Name: "web", Replicas: 2, Owner: "Helm release web", Shape: template}))
	}
	unschedulable := corev1.Toleration{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists}
	onKarpenter := requiring("karpenter.sh/nodepool", corev1.NodeSelectorOpExists)
	autoscaler := func(in *Input) {
		in.Autoscalers[0].Deployment.Namespace, in.Autoscalers[0].Deployment.Name = "shop", "web"
	}
	testCheck(t, CheckToleratesFence, map[string]checkCase{
		"Everything":    {"neither cordon nor taint keeps it away", with(everything), say},
		"AllSchedule":   {"nor where only that effect is tolerated", with(corev1.Toleration{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}), say},
		"Both":          {"nor where both are named", with(unschedulable, corev1.Toleration{Key: v1alpha1.TaintLegacy, Operator: corev1.TolerationOpExists}), say},
		"OnlyTheCordon": {"the taint of a drain keeps it away", with(unschedulable), nil},
		"Execute":       {"of another effect, as EKS's add-ons have it", with(corev1.Toleration{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}), nil},
		"None":          {"the usual", with(), nil},
		"Owned":         {"whoever would put it back is said", made(shape(tolerating(everything))), saysOf("deployment/shop/web", "deployment/shop/web (Helm release web)")},
		"ByWebhook":     {"its pods have what their template does not say", made(shape()), saysOf("deployment/shop/web", "deployment/shop/web (Helm release web)")},
		"Mended":        {"the next pod asks for nodes of Karpenter's, though those of today do not", made(shape(onKarpenter)), nil},
		"Elsewhere":     {"no node that goes takes it", made(shape(), onKarpenter), nil},
		"AtHome":        {"who stays is not evicted", sound(pods(pod("web-1", on("home-a"), shaped(tolerating(everything))))), nil},
		"DaemonSet":     {"DaemonSets are so and stay", sound(pods(pod("web-1", daemon, shaped(tolerating(everything))))), nil},
		"Bare":          {"nobody brings it back, which is another finding", sound(pods(pod("web-1", bare, shaped(tolerating(everything))))), nil},
		"Autoscaler":    {"it rests before the first node is drained", sound(autoscaler, pods(pod("web-1", madeBy(kindDeployment, "web"), shaped(tolerating(everything))))), nil},
	})
}

func TestExpendablePod(t *testing.T) {
	priority := func(p int32) func(*inventory.Pod) {
		return shaped(func(s *inventory.Shape) { s.Priority = p })
	}
	flags := func(args ...string) func(*Input) {
		return func(in *Input) { in.Autoscalers[0].Args = args }
	}
	say := func(cutoff string) []inventory.Finding {
		return []inventory.Finding{warns(CheckExpendablePod, "pool/general", "general", "Cluster Autoscaler launches no node for pods of a priority below "+cutoff+", and Karpenter does: replicaset/shop/web. Scale them to what you want to pay for, or to 0.")}
	}
	castoffs := func(p *inventory.Pod) { p.Labels = map[string]string{v1alpha1.LabelPlaceholder: "general"} }
	testCheck(t, CheckExpendablePod, map[string]checkCase{
		"Below":       {"below the default cutoff", sound(pods(pod("pause", priority(-11)))), say("-10")},
		"At":          {"at the cutoff Cluster Autoscaler launches, too", sound(pods(pod("pause", priority(-10)))), nil},
		"Flag":        {"the flag moves it", sound(pods(pod("pause", priority(-60))), flags("--v=4", "--expendable-pods-priority-cutoff=-50")), say("-50")},
		"FlagAbove":   {"what is above it is served by both", sound(pods(pod("pause", priority(-40))), flags("--expendable-pods-priority-cutoff=-50")), nil},
		"NotANumber":  {"a flag that does not parse leaves the default", sound(pods(pod("pause", priority(-11))), flags("--expendable-pods-priority-cutoff=low")), say("-10")},
		"Placeholder": {"castoff's own placeholders are paid for on purpose", sound(pods(pod("pause", priority(-1000), castoffs))), nil},
		"AtHome":      {"who stays buys nothing", sound(pods(pod("pause", priority(-11), on("home")))), nil},
	})
}

func TestOtherScheduler(t *testing.T) {
	by := func(name string) Input {
		return sound(pods(pod("web-1", shaped(func(s *inventory.Shape) { s.Scheduler = name }))))
	}
	testCheck(t, CheckOtherScheduler, map[string]checkCase{
		"Other": {"its rules are not Karpenter's", by("volcano"), []inventory.Finding{warns(CheckOtherScheduler, "pool/general", "general",
			"Another scheduler than the default one places these: replicaset/shop/web. Karpenter works out nodes by the default scheduler's rules, so it may launch none that fit. Try one before its pool is shifted.")}},
		"Default": {"the usual", by("default-scheduler"), nil},
		"NotSaid": {"a template may leave it to the API server", by(""), nil},
	})
}

// TestPendingPodsThatAreLost: a pod whose disk is lost, as the user accepts, has nowhere to go, and nobody waits for it.
func TestPendingPodsThatAreLost(t *testing.T) {
	in := sound(pods(pod("a", on("")), pod("b", on(""), shaped(using("data")))), claims(claim("data", func(c *inventory.Claim) { c.Local = true })))
	in.Workloads.Pending, in.Snapshot = 2, &inventory.Snapshot{PendingPods: 1}
	for name, tc := range map[string]struct {
		reason, object string
		waits          bool
	}{
		"Accepted":  {"its volume is the one that was written down", "persistentvolume/pv-data", false},
		"Elsewhere": {"of another volume nobody said so", "persistentvolume/pv-other", true},
	} {
		t.Run(name, func(t *testing.T) {
			for _, f := range Run(in, []v1alpha1.AcceptedRisk{{Check: CheckLocalVolume, Object: tc.object, Reason: "a cache"}}) {
				if f.Check == CheckPendingPods && strings.Contains(f.Message, "no other drain begins") != tc.waits {
					t.Errorf("%s: %s", tc.reason, f.Message)
				}
			}
		})
	}
}

func TestPendingPods(t *testing.T) {
	pending := func(n int) func(*Input) {
		return func(in *Input) { in.Workloads.Pending = n }
	}
	say := func(list string) []inventory.Finding {
		return []inventory.Finding{warns(CheckPendingPods, "cluster/prod", "", list+". castoff waits for none of them, only for what is Pending besides. See why: kubectl describe pod.")}
	}
	before := func(n int) func(*Input) {
		return func(in *Input) { in.Snapshot = &inventory.Snapshot{PendingPods: n} }
	}
	more := []inventory.Finding{warns(CheckPendingPods, "cluster/prod", "", "2 pods without a node: pod/shop/a, pod/shop/b. That is 1 more than before the migration, and no other drain begins until as many have one. See why: kubectl describe pod.")}
	ending := func(p *inventory.Pod) { p.Terminating = true }
	testCheck(t, CheckPendingPods, map[string]checkCase{
		"One":  {"it is named, so that nobody takes it for the migration's", sound(pods(pod("a", on("")), pod("b")), pending(1)), say("1 pod without a node already: pod/shop/a")},
		"Four": {"three are named", sound(pods(pod("a", on("")), pod("b", on("")), pod("c", on("")), pod("d", on(""))), pending(4)), say("4 pods without a node already: pod/shop/a, pod/shop/b, pod/shop/c and 1 more")},
		"None": {"what is on its way out, or a DaemonSet's, or over, waits for no node", sound(pods(pod("a", on(""), ending), pod("b", on(""), daemon), pod("c", on(""), phase(corev1.PodFailed))), pending(0)), nil},
		"Same": {"no more than before", sound(pods(pod("a", on(""))), pending(1), before(1)), say("1 pod without a node already: pod/shop/a")},
		"More": {"what came since is waited for", sound(pods(pod("a", on("")), pod("b", on(""))), pending(2), before(1)), more},
		"Some": {"and is not named beside those that do", sound(pods(pod("a", on(""), ending), pod("b", on("")), pod("c", on(""), daemon)), pending(1)), say("1 pod without a node already: pod/shop/b")},
	})
}
