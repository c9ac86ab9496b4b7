package preflight

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// sound is a cluster that no check has anything to say about: one legacy node, with one pod that one budget lets go.
func sound(change ...func(*Input)) Input {
	in := Input{
		ClusterName: "prod", ClusterFound: true,
		Cluster:     inventory.Cluster{Name: "prod", Same: true},
		Groups:      []inventory.NodeGroup{{Name: "general-a"}, {Name: "system"}},
		Nodes:       []inventory.Node{{Name: "old", Group: "general-a"}, {Name: "home-a", Group: "system", Ready: true}, {Name: "home-b", Group: "system", Ready: true}, {Name: "alien"}},
		Autoscalers: []inventory.Autoscaler{{}},
		Permissions: []inventory.Permission{{Action: "ec2:DescribeInstances", State: inventory.PermissionAllowed}},
		Home:        "system",
		Pools:       []inventory.Pool{{Name: "general", NodeGroups: []string{"general-a", "general-b"}}},
		Workloads: inventory.Workloads{
			Pods:    []inventory.Pod{pod("web-1")},
			Budgets: []policyv1.PodDisruptionBudget{budget("web", matching("app", "web"))},
		},
	}
	for _, c := range change {
		c(&in)
	}
	return in
}

// pod of a ReplicaSet on the legacy node.
func pod(name string, change ...func(*inventory.Pod)) inventory.Pod {
	p := inventory.Pod{
		Namespace: "shop", Name: name, Node: "old", Labels: map[string]string{"app": "web"}, Phase: corev1.PodRunning,
		Owner: &metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web"},
	}
	for _, c := range change {
		c(&p)
	}
	return p
}

func on(node string) func(*inventory.Pod) { return func(p *inventory.Pod) { p.Node = node } }

func in(namespace string) func(*inventory.Pod) {
	return func(p *inventory.Pod) { p.Namespace = namespace }
}

func bare(p *inventory.Pod) { p.Owner = nil }

func daemon(p *inventory.Pod) { p.Owner.Kind = "DaemonSet" }

func mirror(p *inventory.Pod) { p.Mirror, p.Owner = true, nil }

// budget of three pods of which one may go.
func budget(name string, selector *metav1.LabelSelector, change ...func(*policyv1.PodDisruptionBudget)) policyv1.PodDisruptionBudget {
	b := policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: selector, MaxUnavailable: number(1)},
		Status:     policyv1.PodDisruptionBudgetStatus{ExpectedPods: 3},
	}
	for _, c := range change {
		c(&b)
	}
	return b
}

func matching(key, value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
}

func expression(key string, operator metav1.LabelSelectorOperator, values ...string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: operator, Values: values}}}
}

func number(n int32) *intstr.IntOrString {
	v := intstr.FromInt32(n)
	return &v
}

func words(s string) *intstr.IntOrString {
	v := intstr.FromString(s)
	return &v
}

func maxUnavailable(v *intstr.IntOrString) func(*policyv1.PodDisruptionBudget) {
	return func(b *policyv1.PodDisruptionBudget) { b.Spec.MaxUnavailable = v }
}

func minAvailable(v *intstr.IntOrString) func(*policyv1.PodDisruptionBudget) {
	return func(b *policyv1.PodDisruptionBudget) { b.Spec.MaxUnavailable, b.Spec.MinAvailable = nil, v }
}

func expecting(n int32) func(*policyv1.PodDisruptionBudget) {
	return func(b *policyv1.PodDisruptionBudget) { b.Status.ExpectedPods = n }
}

func pods(p ...inventory.Pod) func(*Input) { return func(in *Input) { in.Workloads.Pods = p } }

func budgets(b ...policyv1.PodDisruptionBudget) func(*Input) {
	return func(in *Input) { in.Workloads.Budgets = b }
}

func permission(state inventory.PermissionState, message string, actions ...string) func(*Input) {
	return func(in *Input) {
		for _, a := range actions {
			in.Permissions = append(in.Permissions, inventory.Permission{Action: a, State: state, Message: message})
		}
	}
}

func group(change func(*inventory.NodeGroup)) func(*Input) {
	return func(in *Input) { change(&in.Groups[0]) }
}

func notCarriedFields(fields ...string) func(*Input) {
	return func(in *Input) {
		var n []inventory.NotCarried
		for _, f := range fields {
			n = append(n, inventory.NotCarried{NodeGroup: "general-a", Field: f})
		}
		in.Targets = map[string]inventory.Target{"general": {NotCarried: n}}
	}
}

func blocks(check, object, pool, message string) inventory.Finding {
	return inventory.Finding{Check: check, Severity: v1alpha1.SeverityBlock, Object: object, Pool: pool, Message: message}
}

func warns(check, object, pool, message string) inventory.Finding {
	return inventory.Finding{Check: check, Severity: v1alpha1.SeverityWarn, Object: object, Pool: pool, Message: message}
}

// of says whose pods the finding is about.
func of(workload string, f inventory.Finding) inventory.Finding {
	f.Workload = workload
	return f
}

func TestRun(t *testing.T) {
	const (
		neverZero = "The budget can never allow an eviction (maxUnavailable 0), so pod/shop/web-1 could never leave its node. Raise maxUnavailable to at least 1."
		twoOfOne  = "poddisruptionbudget/shop/web, poddisruptionbudget/shop/all select the same pods, and the Eviction API refuses such a pod for ever. Narrow the selectors until each pod has one budget. They share: "
	)
	cases := map[string]struct {
		reason string
		in     Input
		want   []inventory.Finding
	}{
		"Sound": {
			reason: "nothing to say about a sound cluster",
			in:     sound(),
		},
		"ClusterNotFound": {
			reason: "nothing else was read, so nothing else is judged",
			in:     Input{ClusterName: "prdo", Engine: inventory.Engine{Foreign: []string{"a/b"}}},
			want:   []inventory.Finding{blocks(CheckClusterNotFound, "cluster/prdo", "", "EKS does not know a cluster of this name in castoff's account and region. Correct spec.clusterName, or AWS_REGION of the castoff Deployment.")},
		},
		"WrongCluster": {
			reason: "a Migration applied in another cluster would shrink the groups of this one",
			in:     sound(func(in *Input) { in.Cluster.Same = false }),
			want:   []inventory.Finding{blocks(CheckWrongCluster, "cluster/prod", "", "EKS knows this cluster, but castoff does not run in it: its certificate authority is another. Apply the Migration in the cluster that it names.")},
		},
		"AutoMode": {
			reason: "EKS brings a Karpenter of its own",
			in:     sound(func(in *Input) { in.Cluster.AutoMode = true }),
			want:   []inventory.Finding{blocks(CheckAutoMode, "cluster/prod", "", "EKS Auto Mode is on: it already runs a Karpenter that castoff must not compete with. Turn it off, or move workloads to its node pools without castoff.")},
		},
		"ForeignKarpenters": {
			reason: "each is named, because each has to go",
			in:     sound(func(in *Input) { in.Engine.Foreign = []string{"karpenter/karpenter", "kube-system/k2"} }),
			want: []inventory.Finding{
				blocks(CheckForeignKarpenter, "deployment/karpenter/karpenter", "", "A Karpenter runs here that castoff did not install, and two launch twice for every pod. Remove it first, or let castoff adopt it (spec.provisioner.source: Existing)."),
				blocks(CheckForeignKarpenter, "deployment/kube-system/k2", "", "A Karpenter runs here that castoff did not install, and two launch twice for every pod. Remove it first, or let castoff adopt it (spec.provisioner.source: Existing)."),
			},
		},
		"NoAutoscaler": {
			reason: "pools can be named by hand, so it only warns",
			in:     sound(func(in *Input) { in.Autoscalers = nil }),
			want:   []inventory.Finding{warns(CheckNoAutoscaler, "cluster/prod", "", "No Cluster Autoscaler was found by image or arguments in any namespace. If one runs outside the cluster, stop it before the hand-over.")},
		},
		"NodeRole": {
			reason: "the port says what does not fit",
			in: sound(func(in *Input) {
				in.Identity = inventory.Identity{NodeRole: "KarpenterNodeRole-prod", Conflict: "Its trust policy does not name ec2."}
			}),
			want: []inventory.Finding{blocks(CheckNodeRole, "role/KarpenterNodeRole-prod", "", "Its trust policy does not name ec2.")},
		},
		"PermissionDenied": {
			reason: "the action is named, with who said no",
			in:     sound(permission(inventory.PermissionDenied, "An explicit deny.", "sqs:CreateQueue")),
			want:   []inventory.Finding{blocks(CheckPermissionDenied, "action/sqs:CreateQueue", "", "castoff may not call sqs:CreateQueue. An explicit deny. Grant it: kubectl castoff plan -o iam prints the whole policy.")},
		},
		"PermissionDeniedWithoutWords": {
			reason: "no message leaves no gap of two blanks",
			in:     sound(permission(inventory.PermissionDenied, "", "sqs:CreateQueue")),
			want:   []inventory.Finding{blocks(CheckPermissionDenied, "action/sqs:CreateQueue", "", "castoff may not call sqs:CreateQueue. Grant it: kubectl castoff plan -o iam prints the whole policy.")},
		},
		"PermissionsNotChecked": {
			reason: "one warning for all, of three names",
			in:     sound(permission(inventory.PermissionNotChecked, "", "a:A", "b:B", "c:C", "d:D", "e:E")),
			want:   []inventory.Finding{warns(CheckPermissionUnknown, "cluster/prod", "", "Whether castoff may call these was not checked: a:A, b:B, c:C and 2 more. Compare its role with: kubectl castoff plan -o iam.")},
		},

		"InstanceRefresh": {
			reason: "it replaces instances in its own order",
			in:     sound(group(func(g *inventory.NodeGroup) { g.InstanceRefresh = "InProgress" })),
			want:   []inventory.Finding{blocks(CheckGroupBusy, "nodegroup/general-a", "general", "An instance refresh is InProgress. Wait for its end, or cancel it.")},
		},
		"Updating": {
			reason: "so does EKS",
			in:     sound(group(func(g *inventory.NodeGroup) { g.Managed = &inventory.ManagedNodeGroup{Status: "UPDATING"} })),
			want:   []inventory.Finding{blocks(CheckGroupBusy, "nodegroup/general-a", "general", "EKS is updating the node group. castoff goes on when that is done.")},
		},
		"Active": {
			reason: "a managed group at rest is nothing to report",
			in:     sound(group(func(g *inventory.NodeGroup) { g.Managed = &inventory.ManagedNodeGroup{Status: "ACTIVE"} })),
		},
		"HomeUpdating": {
			reason: "a group that stays may be busy",
			in:     sound(func(in *Input) { in.Groups[1].InstanceRefresh = "Pending" }),
		},
		"NotCarried": {
			reason: "the first three are named; the plan has the rest",
			in:     sound(notCarriedFields("keyName k", "warmPool", "maxSize 3", "userData")),
			want:   []inventory.Finding{warns(CheckNotCarried, "pool/general", "general", "Not carried over to Karpenter: general-a: keyName k, general-a: warmPool, general-a: maxSize 3 and 1 more. The plan (kubectl castoff plan) says why, and what to do about each.")},
		},
		"NothingToDo": {
			reason: "what nobody misses stands in the plan alone",
			in: sound(notCarriedFields("tag aws:x", "warmPool"), func(in *Input) {
				in.Targets["general"].NotCarried[0].Do = "Nothing."
			}),
			want: []inventory.Finding{warns(CheckNotCarried, "pool/general", "general", "Not carried over to Karpenter: general-a: warmPool. The plan (kubectl castoff plan) says why, and what to do about each.")},
		},
		"EverythingCarried": {
			reason: "a translation without remainder is no finding",
			in:     sound(notCarriedFields()),
		},
		"Resolved": {
			reason: "what was found on the way comes first",
			in: sound(func(in *Input) {
				in.Resolved = []inventory.Finding{NotTranslated("general", errors.New("no image"))}
				in.Cluster.AutoMode = true
			}),
			want: []inventory.Finding{
				blocks(CheckNotTranslated, "pool/general", "general", "no image"),
				blocks(CheckAutoMode, "cluster/prod", "", "EKS Auto Mode is on: it already runs a Karpenter that castoff must not compete with. Turn it off, or move workloads to its node pools without castoff."),
			},
		},

		"NeverZero": {
			reason: "maxUnavailable 0 never allows one",
			in:     sound(budgets(budget("web", matching("app", "web"), maxUnavailable(number(0))))),
			want:   []inventory.Finding{blocks(CheckBudgetNeverAllows, "poddisruptionbudget/shop/web", "general", neverZero)},
		},
		"NeverZeroPercent": {
			reason: "nor does 0%",
			in:     sound(budgets(budget("web", matching("app", "web"), maxUnavailable(words("0%"))))),
			want:   []inventory.Finding{blocks(CheckBudgetNeverAllows, "poddisruptionbudget/shop/web", "general", "The budget can never allow an eviction (maxUnavailable 0%), so pod/shop/web-1 could never leave its node. Raise maxUnavailable to at least 1.")},
		},
		"OnePercentRoundsUp": {
			reason: "the disruption controller rounds maxUnavailable up, so 1% of 3 is one pod",
			in:     sound(budgets(budget("web", matching("app", "web"), maxUnavailable(words("1%"))))),
		},
		"NeverAll": {
			reason: "as many available as there are pods",
			in:     sound(budgets(budget("web", matching("app", "web"), minAvailable(number(3))))),
			want:   []inventory.Finding{blocks(CheckBudgetNeverAllows, "poddisruptionbudget/shop/web", "general", "The budget can never allow an eviction (minAvailable 3 of 3), so pod/shop/web-1 could never leave its node. Lower minAvailable, or add a replica.")},
		},
		"NeverRoundedUp": {
			reason: "67% of 3 rounds up to all three",
			in:     sound(budgets(budget("web", matching("app", "web"), minAvailable(words("67%"))))),
			want:   []inventory.Finding{blocks(CheckBudgetNeverAllows, "poddisruptionbudget/shop/web", "general", "The budget can never allow an eviction (minAvailable 67% of 3), so pod/shop/web-1 could never leave its node. Lower minAvailable, or add a replica.")},
		},
		"SingleReplica": {
			reason: "the most common one of all: minAvailable 1 on one replica",
			in:     sound(budgets(budget("web", matching("app", "web"), minAvailable(number(1)), expecting(1)))),
			want:   []inventory.Finding{blocks(CheckBudgetNeverAllows, "poddisruptionbudget/shop/web", "general", "The budget can never allow an eviction (minAvailable 1 of 1), so pod/shop/web-1 could never leave its node. Lower minAvailable, or add a replica.")},
		},
		"MinAvailableLeavesRoom": {
			reason: "two of three lets one go",
			in:     sound(budgets(budget("web", matching("app", "web"), minAvailable(number(2))))),
		},
		"NotCountedYet": {
			reason: "a budget that the disruption controller has not looked at says nothing yet",
			in:     sound(budgets(budget("web", matching("app", "web"), minAvailable(number(1)), expecting(0)))),
		},
		"NeitherBound": {
			reason: "a budget without bounds allows everything",
			in:     sound(budgets(budget("web", matching("app", "web"), maxUnavailable(nil)))),
		},
		"NotANumber": {
			reason: "what the API server would not have taken is not judged",
			in:     sound(budgets(budget("web", matching("app", "web"), maxUnavailable(words("many"))))),
		},
		"NeverElsewhere": {
			reason: "a budget of pods that do not move blocks nothing",
			in:     sound(pods(pod("web-1", on("home-a"))), budgets(budget("web", matching("app", "web"), maxUnavailable(number(0))))),
		},
		"NeverOtherNamespace": {
			reason: "a budget reaches no other namespace",
			in:     sound(pods(pod("web-1", in("other"))), budgets(budget("web", matching("app", "web"), maxUnavailable(number(0))))),
		},
		"NeverDaemon": {
			reason: "castoff does not evict DaemonSets, so no budget holds their node",
			in:     sound(pods(pod("web-1", daemon)), budgets(budget("web", matching("app", "web"), maxUnavailable(number(0))))),
		},

		"SelectorEmpty": {
			reason: "policy/v1: an empty selector selects every pod of the namespace",
			in:     sound(budgets(budget("web", &metav1.LabelSelector{}, maxUnavailable(number(0))))),
			want:   []inventory.Finding{blocks(CheckBudgetNeverAllows, "poddisruptionbudget/shop/web", "general", neverZero)},
		},
		"SelectorNil": {
			reason: "and a missing one none",
			in:     sound(budgets(budget("web", nil, maxUnavailable(number(0))))),
		},
		"SelectorIn": {
			reason: "an expression that matches",
			in:     sound(budgets(budget("web", expression("app", metav1.LabelSelectorOpIn, "api", "web"), maxUnavailable(number(0))))),
			want:   []inventory.Finding{blocks(CheckBudgetNeverAllows, "poddisruptionbudget/shop/web", "general", neverZero)},
		},
		"SelectorNotIn": {
			reason: "an expression that leaves the pod out",
			in:     sound(budgets(budget("web", expression("app", metav1.LabelSelectorOpNotIn, "web"), maxUnavailable(number(0))))),
		},
		"SelectorDoesNotExist": {
			reason: "a label that the pod does not have",
			in:     sound(budgets(budget("web", expression("tier", metav1.LabelSelectorOpDoesNotExist), maxUnavailable(number(0))))),
			want:   []inventory.Finding{blocks(CheckBudgetNeverAllows, "poddisruptionbudget/shop/web", "general", neverZero)},
		},
		"SelectorInvalid": {
			reason: "what the API server would not have taken selects nothing",
			in:     sound(budgets(budget("web", expression("app", "Like", "w"), maxUnavailable(number(0))))),
		},

		"TwoBudgets": {
			reason: "the Eviction API answers 500 for such a pod",
			in:     sound(budgets(budget("web", matching("app", "web")), budget("all", &metav1.LabelSelector{}))),
			want:   []inventory.Finding{blocks(CheckTwoBudgets, "poddisruptionbudget/shop/web", "general", twoOfOne+"pod/shop/web-1.")},
		},
		"TwoBudgetsOnce": {
			reason: "the same two budgets are one thing to mend, however many pods they select",
			in:     sound(pods(pod("web-1"), pod("web-2"), pod("web-3")), budgets(budget("web", matching("app", "web")), budget("all", &metav1.LabelSelector{}))),
			want:   []inventory.Finding{blocks(CheckTwoBudgets, "poddisruptionbudget/shop/web", "general", twoOfOne+"pod/shop/web-1, pod/shop/web-2, pod/shop/web-3.")},
		},
		"FourBudgets": {
			reason: "three are named, the fourth is counted",
			in:     sound(budgets(budget("a", &metav1.LabelSelector{}), budget("b", &metav1.LabelSelector{}), budget("c", &metav1.LabelSelector{}), budget("d", &metav1.LabelSelector{}))),
			want:   []inventory.Finding{blocks(CheckTwoBudgets, "poddisruptionbudget/shop/a", "general", "poddisruptionbudget/shop/a, poddisruptionbudget/shop/b, poddisruptionbudget/shop/c and 1 more select the same pods, and the Eviction API refuses such a pod for ever. Narrow the selectors until each pod has one budget. They share: pod/shop/web-1.")},
		},
		"TwoBudgetsTwoNamespaces": {
			reason: "a budget reaches no other namespace",
			in:     sound(budgets(budget("web", matching("app", "web")), budget("all", &metav1.LabelSelector{}, func(b *policyv1.PodDisruptionBudget) { b.Namespace = "other" }))),
		},
		"TwoBudgetsDaemon": {
			reason: "castoff does not evict DaemonSets",
			in:     sound(pods(pod("web-1", daemon)), budgets(budget("web", matching("app", "web")), budget("all", &metav1.LabelSelector{}))),
		},

		"BarePod": {
			reason: "nothing would bring it back",
			in:     sound(pods(pod("debug", bare))),
			want:   []inventory.Finding{of("pod/shop/debug", blocks(CheckBarePod, "pod/shop/debug", "general", "No controller would bring this pod back, so castoff does not evict it and node old would never be empty. Delete the pod, or give it a controller."))},
		},
		"BarePodAtHome": {
			reason: "the home stays",
			in:     sound(pods(pod("debug", bare, on("home-a")))),
		},
		"BarePodAlien": {
			reason: "a node of no group stays, too",
			in:     sound(pods(pod("debug", bare, on("alien")))),
		},
		"BarePodPending": {
			reason: "a pod on no node holds none",
			in:     sound(pods(pod("debug", bare, on("")))),
		},
		"StaticPod": {
			reason: "a static pod ends with its node, and no API can evict it",
			in:     sound(pods(pod("proxy", mirror))),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Run(tc.in, nil), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

func TestNodeOfAGroupWithoutName(t *testing.T) {
	in := sound(pods(pod("debug", bare, on("alien"))))
	in.Pools[0].NodeGroups = append(in.Pools[0].NodeGroups, "")
	if got := Run(in, nil); len(got) != 0 {
		t.Errorf("a node of no group is in no pool, whatever the pool lists: %v", got)
	}
}

func TestNothingKnown(t *testing.T) {
	want := []string{CheckWrongCluster, CheckNoAutoscaler}
	if diff := cmp.Diff(want, names(Run(Input{ClusterFound: true}, nil))); diff != "" {
		t.Errorf("an empty inventory: -want +got\n%s", diff)
	}
}

func names(findings []inventory.Finding) []string {
	var out []string
	for _, f := range findings {
		out = append(out, f.Check)
	}
	return out
}

func TestAcceptedRisks(t *testing.T) {
	twoBare := sound(pods(pod("debug", bare), pod("shell", bare)))
	risk := func(check, object string) []v1alpha1.AcceptedRisk {
		return []v1alpha1.AcceptedRisk{{Check: check, Object: object, Reason: "mine"}}
	}
	cases := map[string]struct {
		reason   string
		in       Input
		accepted []v1alpha1.AcceptedRisk
		want     map[string]string // reason of what is accepted, by object
	}{
		"None": {
			reason: "nothing is accepted by itself",
			in:     twoBare,
			want:   map[string]string{},
		},
		"Object": {
			reason:   "exactly the object that is named",
			in:       twoBare,
			accepted: risk(CheckBarePod, "pod/shop/debug"),
			want:     map[string]string{"pod/shop/debug": "mine"},
		},
		"All": {
			reason:   "every object of the check",
			in:       twoBare,
			accepted: risk(CheckBarePod, "*"),
			want:     map[string]string{"pod/shop/debug": "mine", "pod/shop/shell": "mine"},
		},
		"OtherCheck": {
			reason:   "another check's risk covers nothing here",
			in:       twoBare,
			accepted: risk(CheckTwoBudgets, "*"),
			want:     map[string]string{},
		},
		"OtherObject": {
			reason:   "nor does another object's",
			in:       twoBare,
			accepted: risk(CheckBarePod, "pod/other/debug"),
			want:     map[string]string{},
		},
		"Prefix": {
			reason:   "a star is all or nothing, not a pattern",
			in:       twoBare,
			accepted: risk(CheckBarePod, "pod/shop/*"),
			want:     map[string]string{},
		},
		"Case": {
			reason:   "names are exact",
			in:       twoBare,
			accepted: risk("barepod", "*"),
			want:     map[string]string{},
		},
		"AnyCheck": {
			reason:   "no star for checks: whoever accepts has to know what",
			in:       twoBare,
			accepted: risk("*", "*"),
			want:     map[string]string{},
		},
		"FirstWins": {
			reason:   "the first that fits says why",
			in:       twoBare,
			accepted: append(risk(CheckBarePod, "pod/shop/debug"), v1alpha1.AcceptedRisk{Check: CheckBarePod, Object: "*", Reason: "all"}),
			want:     map[string]string{"pod/shop/debug": "mine", "pod/shop/shell": "all"},
		},
		"Warning": {
			reason:   "a warning can be accepted, to have it out of the way",
			in:       sound(func(in *Input) { in.Autoscalers = nil }),
			accepted: risk(CheckNoAutoscaler, "*"),
			want:     map[string]string{"cluster/prod": "mine"},
		},
		"NotTranslated": {
			reason:   "findings made on the way, too",
			in:       sound(func(in *Input) { in.Resolved = []inventory.Finding{NotTranslated("general", errors.New("x"))} }),
			accepted: risk(CheckNotTranslated, "pool/general"),
			want:     map[string]string{"pool/general": "mine"},
		},
		"ClusterNotFound": {
			reason:   "a cluster that is not there cannot be migrated, whoever accepts it",
			in:       Input{ClusterName: "prod"},
			accepted: risk(CheckClusterNotFound, "*"),
			want:     map[string]string{},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := map[string]string{}
			for _, f := range Run(tc.in, tc.accepted) {
				if f.Accepted {
					got[f.Object] = f.AcceptedReason
				}
				if f.Accepted && f.Blocks() {
					t.Errorf("%s is accepted and blocks", f.Object)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

func TestRunLeavesItsInputAlone(t *testing.T) {
	resolved := make([]inventory.Finding, 1, 8)
	resolved[0] = NotTranslated("general", errors.New("x"))
	in := sound(func(in *Input) { in.Resolved, in.Cluster.AutoMode = resolved, true })
	Run(in, []v1alpha1.AcceptedRisk{{Check: CheckNotTranslated, Object: "*", Reason: "mine"}})
	if in.Resolved[0].Accepted || resolved[:2][1].Check != "" {
		t.Errorf("the caller's findings were written to: %v", resolved[:2])
	}
}

// large is a cluster of 1,000 nodes in 60 groups with 30,000 pods, one in ten of a DaemonSet, and 300 budgets in as many
// namespaces as given.
func large(namespaces int) Input {
	in := sound(pods(), budgets())
	in.Pools, in.Nodes, in.Home = nil, nil, ""
	for i := range 60 {
		in.Pools = append(in.Pools, inventory.Pool{Name: fmt.Sprintf("p%d", i), NodeGroups: []string{fmt.Sprintf("g%d", i)}})
	}
	for i := range 1000 {
		in.Nodes = append(in.Nodes, inventory.Node{Name: fmt.Sprintf("n%d", i), Group: fmt.Sprintf("g%d", i%60)})
	}
	for i := range 300 {
		b := budget(fmt.Sprintf("b%d", i), matching("app", fmt.Sprintf("a%d", i)), maxUnavailable(number(int32(i%2))))
		b.Namespace = fmt.Sprintf("ns%d", i%namespaces)
		in.Workloads.Budgets = append(in.Workloads.Budgets, b)
	}
	for i := range 30000 {
		p := pod(fmt.Sprintf("pod-%d", i), on(fmt.Sprintf("n%d", i%1000)), func(p *inventory.Pod) {
			p.Namespace = fmt.Sprintf("ns%d", i%300%namespaces)
			p.Labels = map[string]string{"app": fmt.Sprintf("a%d", i%300), "pod-template-hash": "7c9f8d6b54", "app.kubernetes.io/part-of": "shop"}
		})
		if i%10 == 9 {
			daemon(&p)
		}
		in.Workloads.Pods = append(in.Workloads.Pods, p)
	}
	return in
}

func TestLargeClusterIsJudgedWhole(t *testing.T) {
	for _, namespaces := range []int{1, 30} {
		got := map[string]int{}
		for _, f := range Run(large(namespaces), nil) {
			got[f.Check]++
		}
		// every even budget allows nothing; the pods of ten in every hundred belong to DaemonSets, all of them with an odd number
		if diff := cmp.Diff(map[string]int{CheckBudgetNeverAllows: 150}, got); diff != "" {
			t.Errorf("%d namespaces: -want +got\n%s", namespaces, diff)
		}
	}
}

// Budget: 200 ms for 1,000 nodes, 30,000 pods and 300 budgets, the largest cluster castoff is measured on; a look may take 30 s
// and the preflight runs before every pool. Measured on two busy cores of an AMD EPYC: 130 to 155 ms, 8 MiB; trying every budget
// of the namespace on every pod took 2.5 s with all of them in one namespace.
func BenchmarkRun(b *testing.B) {
	for _, namespaces := range []int{1, 30} {
		in := large(namespaces)
		b.Run(fmt.Sprintf("namespaces=%d", namespaces), func(b *testing.B) {
			for b.Loop() {
				Run(in, nil)
			}
		})
	}
}

// The index must find what trying every budget would find, in the same order.
func TestIndexFindsWhatTryingEveryBudgetFinds(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	pick := func(s ...string) string { return s[r.IntN(len(s))] }
	some := func() map[string]string {
		out := map[string]string{}
		for range r.IntN(3) {
			out[pick("app", "tier", "team")] = pick("a", "b")
		}
		return out
	}
	for round := range 200 {
		var all []policyv1.PodDisruptionBudget
		for i := range 1 + r.IntN(8) {
			s := &metav1.LabelSelector{MatchLabels: some()}
			if r.IntN(3) == 0 {
				s.MatchExpressions = expression(pick("app", "tier"), metav1.LabelSelectorOpExists).MatchExpressions
			}
			all = append(all, budget(fmt.Sprintf("b%d", i), s, func(b *policyv1.PodDisruptionBudget) { b.Namespace = pick("shop", "other") }))
		}
		p := pod("web", in(pick("shop", "other")), func(p *inventory.Pod) { p.Labels = some() })
		var want, got []string
		for i := range all {
			s, err := metav1.LabelSelectorAsSelector(all[i].Spec.Selector)
			if err != nil {
				t.Fatal(err)
			}
			if all[i].Namespace == p.Namespace && s.Matches(labels.Set(p.Labels)) {
				want = append(want, all[i].Name)
			}
		}
		for _, b := range indexBudgets(all).of(&p) {
			got = append(got, b.Name)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("round %d, pod %v: -want +got\n%s", round, p.Labels, diff)
		}
	}
}

// Everything at once: the order of the report is that of the checks, whatever the inventory's order.
func TestEverythingAtOnce(t *testing.T) {
	in := sound(
		func(in *Input) {
			in.Cluster.Same, in.Cluster.AutoMode, in.Autoscalers = false, true, nil
			in.Engine.Foreign = []string{"karpenter/karpenter"}
			in.Identity.Conflict = "No trust."
		},
		permission(inventory.PermissionNotChecked, "", "iam:PassRole"),
		permission(inventory.PermissionDenied, "No.", "sqs:CreateQueue"),
		group(func(g *inventory.NodeGroup) { g.InstanceRefresh = "InProgress" }),
		notCarriedFields("keyName k"),
		pods(pod("debug", bare), pod("web-1")),
		budgets(budget("web", matching("app", "web"), maxUnavailable(number(0))), budget("all", &metav1.LabelSelector{})),
	)
	want := []string{
		CheckWrongCluster, CheckAutoMode, CheckForeignKarpenter, CheckPermissionDenied, CheckPermissionUnknown, CheckNodeRole,
		CheckNoAutoscaler, CheckGroupBusy, CheckNotCarried, CheckBudgetNeverAllows, CheckTwoBudgets, CheckBarePod,
	}
	if diff := cmp.Diff(want, names(Run(in, nil))); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// A finding says which pool it holds back.
func TestFindingsNameTheirPool(t *testing.T) {
	in := sound(pods(pod("debug", bare), pod("shell", bare, on("batch"))), func(in *Input) {
		in.Pools = append(in.Pools, inventory.Pool{Name: "batch", NodeGroups: []string{"batch"}})
		in.Nodes = append(in.Nodes, inventory.Node{Name: "batch", Group: "batch"})
		in.Groups = append(in.Groups, inventory.NodeGroup{Name: "batch", InstanceRefresh: "Pending"})
	})
	want := map[string]string{"nodegroup/batch": "batch", "pod/shop/debug": "general", "pod/shop/shell": "batch"}
	got := map[string]string{}
	for _, f := range Run(in, nil) {
		got[f.Object] = f.Pool
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestThree(t *testing.T) {
	cases := map[string]struct {
		reason string
		names  []string
		want   string
	}{
		"None": {
			reason: "no names, no words",
		},
		"One": {
			reason: "one needs no comma",
			names:  []string{"a"},
			want:   "a",
		},
		"Three": {
			reason: "as many as a message names",
			names:  []string{"a", "b", "c"},
			want:   "a, b, c",
		},
		"Four": {
			reason: "the rest is counted",
			names:  []string{"a", "b", "c", "d"},
			want:   "a, b, c and 1 more",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, three(tc.names)); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}
