package preflight

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// dice throws clusters: small ones, in which everything that can be missing or odd often is.
type dice struct{ *rand.Rand }

func (d dice) pick(of ...string) string { return of[d.IntN(len(of))] }

func (d dice) sometimes() bool { return d.IntN(3) == 0 }

func (d dice) shape() *inventory.Shape {
	if d.sometimes() {
		return nil
	}
	s := &inventory.Shape{Priority: int32(d.IntN(40) - 20), EmptyDir: d.sometimes(), HostPath: d.sometimes(), PriorityClass: d.pick("", "", "system-node-critical"), Scheduler: d.pick("", "default-scheduler", "volcano")}
	if d.sometimes() {
		wants(d.pick("team", labelNodeGroup, labelCapacityType, corev1.LabelHostname, corev1.LabelInstanceTypeStable), d.pick("a", "b", "m5.large"))(s)
	}
	if d.sometimes() {
		requiring(d.pick("team", "disk"), corev1.NodeSelectorOperator(d.pick("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Odd")), "1")(s)
	}
	if d.sometimes() {
		s.Tolerations = []corev1.Toleration{everything}
	}
	if d.sometimes() {
		s.Spread = []corev1.TopologySpreadConstraint{{TopologyKey: d.pick("rack", corev1.LabelTopologyZone), WhenUnsatisfiable: corev1.UnsatisfiableConstraintAction(d.pick("", "DoNotSchedule", "ScheduleAnyway"))}}
	}
	if d.sometimes() {
		s.Claims, s.HostPorts, s.Unrequested = []string{d.pick("x", "y")}, []int32{80, 80}, []string{"app"}
	}
	if d.sometimes() {
		s.Requests = amount(d.pick("1", "3"), d.pick("1Gi", "64Gi"))
	}
	s.Images = []string{d.pick("nginx", "kured", "a/descheduler:1", "aws-node-termination-handler")}
	return s
}

func (d dice) pod(i int) inventory.Pod {
	p := inventory.Pod{Namespace: d.pick("shop", "other"), Name: fmt.Sprintf("p%d", i), Node: d.pick("", "old", "home", "alien", "batch", "gone"), Shape: d.shape()}
	p.Labels = map[string]string{"app": d.pick("web", "api"), "pod-template-hash": "h"}
	if !d.sometimes() {
		p.Owner = &metav1.OwnerReference{APIVersion: d.pick("apps/v1", "batch/v1"), Kind: d.pick("ReplicaSet", "StatefulSet", "DaemonSet", "Job", "Cluster", "Node"), Name: d.pick("web-h", "web-1", "web", "-")}
	}
	if d.sometimes() {
		p.Annotations = map[string]string{d.pick(safeToEvict, "karpenter.sh/do-not-disrupt"): d.pick("false", "true", "1h", "")}
	}
	return p
}

func (d dice) cluster() Input {
	in := sound(pods(), budgets(), pools("batch", "batch"), nodes(inventory.Node{Name: "batch", Group: "batch", Labels: map[string]string{"team": "a"}}))
	in.Targets = map[string]inventory.Target{}
	for _, pool := range []string{"general", "batch"} {
		if !d.sometimes() {
			in.Targets[pool] = target(pool, labelled("team", d.pick("a", "b")))
		}
	}
	if d.sometimes() {
		sized(&in)
		in.Groups[0].Zones = []string{"a"}
	}
	for i := range d.IntN(12) {
		in.Workloads.Pods = append(in.Workloads.Pods, d.pod(i))
	}
	for range d.IntN(6) {
		in.Workloads.Controllers = append(in.Workloads.Controllers, inventory.Controller{
			Kind: d.pick("Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob"), Namespace: d.pick("shop", "other"), Name: d.pick("web", "api"), Replicas: int32(d.IntN(3)), Suspended: d.sometimes(), Shape: d.shape(),
		})
	}
	for _, name := range []string{"x", "y"} {
		in.Workloads.Claims = append(in.Workloads.Claims, claim(name, inZone(d.pick("a", "b")), func(c *inventory.Claim) { c.Local, c.Shared = d.sometimes(), d.sometimes() }))
	}
	first := &metav1.LabelSelector{}
	if d.sometimes() {
		first = matching("app", "api")
	}
	in.Workloads.Budgets = append(in.Workloads.Budgets, budget("all", first, maxUnavailable(number(int32(d.IntN(2))))), budget("web", matching("app", "web"), healthy(int32(d.IntN(3)), 2, 0)))
	in.Workloads.Autoscalers = []inventory.PodAutoscaler{{Namespace: "shop", Name: "web", Kind: "Deployment", Target: "web", Min: int32(d.IntN(3))}}
	hook(func(h *inventory.Webhook) { h.Pods, h.Own = d.sometimes(), d.sometimes() })(&in)
	in.Workloads.LimitRanges = []corev1.LimitRange{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{Type: corev1.LimitTypeContainer, DefaultRequest: amount("100m", "")}}}}}
	return in
}

// Whatever a cluster looks like: nothing panics, every finding can be acted on and accepted, and a second look says the same.
func TestAnyClusterIsJudgedInWordsThatPeopleCanActOn(t *testing.T) {
	found := map[string]int{}
	for seed := range uint64(1000) {
		in := dice{rand.New(rand.NewPCG(seed, 7))}.cluster()
		first := Run(in, nil)
		told := map[[3]string]bool{}
		for _, f := range first {
			key := [3]string{f.Check, f.Object, f.Pool}
			if told[key] && f.Check != CheckTwoBudgets {
				t.Fatalf("seed %d: said twice: %+v", seed, f)
			}
			told[key] = true
			found[f.Check]++
			if problem := unsound(in, f); problem != "" {
				t.Fatalf("seed %d: %s: %+v", seed, problem, f)
			}
		}
		if diff := cmp.Diff(first, Run(in, nil), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("seed %d: a second look says something else: -want +got\n%s", seed, diff)
		}
	}
	for _, check := range []string{
		CheckBudgetNeverAllows, CheckBudgetUnhealthy, CheckTwoBudgets, CheckBarePod, CheckNoRequests, CheckHostPort, CheckToleratesFence, CheckExpendablePod, CheckOtherScheduler,
		CheckLocalVolume, CheckZonalVolume, CheckSingleNodeVolume, CheckEmptyDir, CheckHostPath, CheckUnserved, CheckTopologyKey, CheckDaemonSetMissing, CheckDaemonSetPriority, CheckDaemonSetRoom,
		CheckDoNotDisrupt, CheckSafeToEvict, CheckSingleton, CheckAutoscaledToOne, CheckWebhook, CheckOtherEvictor, CheckTerminationHandler,
	} {
		if found[check] == 0 {
			t.Errorf("no cluster of all these made %s say anything: the dice do not reach it", check)
		}
	}
}

// unsound says what is wrong with a finding.
func unsound(in Input, f inventory.Finding) string {
	known := func(pool string) bool {
		return slices.ContainsFunc(in.Pools, func(p inventory.Pool) bool { return p.Name == pool })
	}
	kind, name, _ := strings.Cut(f.Object, "/")
	switch {
	case f.Severity != "Warn" && f.Severity != "Block":
		return "it neither warns nor blocks"
	case kind == "" || name == "" || strings.ToLower(kind) != kind:
		return "its object cannot be accepted"
	case f.Pool != "" && !known(f.Pool):
		return "its pool is none of the Migration's"
	case !strings.HasSuffix(f.Message, ".") || strings.Contains(f.Message, "  ") || strings.Contains(f.Message, ": ."):
		return "its message is no sentence"
	case strings.Count(f.Message, "shop/")+strings.Count(f.Message, "other/") > 6:
		return "it names more than anybody reads"
	}
	return ""
}
