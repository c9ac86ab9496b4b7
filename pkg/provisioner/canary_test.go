package provisioner

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/awslabs/operatorpkg/status"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

func startCanary(t *testing.T, ns string) {
	t.Helper()
	if err := in(ns).StartCanary(t.Context(), "general", nodeClass("general"), nodePool("general"), owner()); err != nil {
		t.Fatalf("StartCanary: %v", err)
	}
	t.Cleanup(func() {
		remove(t, &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "castoff-canary-general"}})
		remove(t, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "castoff-canary-general"}})
	})
}

func TestCanaryNodePool(t *testing.T) {
	from := nodePool("general")
	from.Spec.Weight = ptr.To[int32](10)
	from.Spec.Limits = karpv1.Limits{"cpu": resource.MustParse("0")}
	from.Spec.Template.Spec.StartupTaints = []corev1.Taint{{Key: "node.cilium.io/agent-not-ready", Effect: "NoExecute"}}
	from.Spec.Template.Spec.NodeClassRef.Name = "elsewhere"
	original := from.DeepCopy()

	got := canaryNodePool("general", "general", from, owner())
	want := &karpv1.NodePool{
		ObjectMeta: metav1.ObjectMeta{
			Name:            "castoff-canary-general",
			Labels:          map[string]string{"castoff.sh/canary": "general", "castoff.sh/migration": "a-uid"},
			OwnerReferences: []metav1.OwnerReference{owner()},
		},
		Spec: karpv1.NodePoolSpec{
			Limits:     karpv1.Limits{"nodes": resource.MustParse("1")},
			Disruption: karpv1.Disruption{ConsolidationPolicy: "WhenEmpty", Budgets: []karpv1.Budget{{Nodes: "0"}}},
			Template: karpv1.NodeClaimTemplate{
				ObjectMeta: karpv1.ObjectMeta{Labels: map[string]string{"team": "a", "castoff.sh/canary": "general"}},
				Spec: karpv1.NodeClaimTemplateSpec{
					NodeClassRef:  &karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "general"},
					Taints:        []corev1.Taint{{Key: "castoff.sh/canary", Value: "true", Effect: "NoSchedule"}},
					StartupTaints: from.Spec.Template.Spec.StartupTaints,
					Requirements:  from.Spec.Template.Spec.Requirements,
				},
			},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff(original, from); diff != "" {
		t.Errorf("the pool's own NodePool was changed:\n%s", diff)
	}
}

func TestCanaryPod(t *testing.T) {
	spec := in("castoff-system").canaryPod("general", owner()).Spec
	container := spec.Containers[0]
	if diff := cmp.Diff(map[string]string{"karpenter.sh/nodepool": "castoff-canary-general"}, spec.NodeSelector); diff != "" {
		t.Errorf("it may run on the canary's node only: %s", diff)
	}
	if !spec.Tolerations[0].ToleratesTaint(logger(t), &corev1.Taint{Key: "castoff.sh/canary", Value: "true", Effect: "NoSchedule"}, false) {
		t.Errorf("it does not tolerate the canary's taint: %v", spec.Tolerations)
	}
	if container.Image != "example.com/castoff:1" || container.Args[0] != "wait" {
		t.Errorf("want castoff's own image, waiting, got %s %v", container.Image, container.Args)
	}
	if !*spec.SecurityContext.RunAsNonRoot || spec.SecurityContext.SeccompProfile.Type != "RuntimeDefault" || *spec.AutomountServiceAccountToken ||
		!*container.SecurityContext.ReadOnlyRootFilesystem || *container.SecurityContext.AllowPrivilegeEscalation {
		t.Errorf("it is allowed more than it needs: %+v, %+v", spec.SecurityContext, container.SecurityContext)
	}
	if cpu := container.Resources.Requests.Cpu().MilliValue(); cpu > 10 {
		t.Errorf("it asks for %d mCPU; the smallest node should do", cpu)
	}
}

func TestCanaryName(t *testing.T) {
	long := strings.Repeat("a", 63)
	for pool, want := range map[string]string{
		"general": "castoff-canary-general",
		long[:48]: "castoff-canary-" + long[:48],
		long:      "castoff-canary-" + long[:39] + "-7d3e74a0",
	} {
		if got := canaryName(pool); got != want || len(got) > 63 {
			t.Errorf("pool %s: want %s, got %s (%d characters)", pool, want, got, len(got))
		}
	}
	if canaryName(long) == canaryName(long[:62]+"b") {
		t.Error("two pools must not share a canary")
	}
}

func TestStartCanaryIsIdempotent(t *testing.T) {
	ns := namespace(t)
	startCanary(t, ns)
	pool := read(t, new(karpv1.NodePool), "", "castoff-canary-general")
	pod := read(t, new(corev1.Pod), ns, "castoff-canary-general")
	startCanary(t, ns)
	if got := read(t, new(karpv1.NodePool), "", "castoff-canary-general"); got.ResourceVersion != pool.ResourceVersion {
		t.Error("the NodePool was written again")
	}
	if got := read(t, new(corev1.Pod), ns, "castoff-canary-general"); got.ResourceVersion != pod.ResourceVersion {
		t.Error("the pod was written again")
	}
}

func TestStartCanaryFollowsTheNodePool(t *testing.T) {
	ns := namespace(t)
	startCanary(t, ns)
	mended := nodePool("general")
	mended.Spec.Template.Spec.Requirements[0].Values = []string{"m7i.large"}
	if err := in(ns).StartCanary(t.Context(), "general", nodeClass("general"), mended, owner()); err != nil {
		t.Fatal(err)
	}
	got := read(t, new(karpv1.NodePool), "", "castoff-canary-general").Spec.Template.Spec.Requirements[0].Values
	if diff := cmp.Diff([]string{"m7i.large"}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestStartCanaryReplacesAPodThatEnded(t *testing.T) {
	ns := namespace(t)
	startCanary(t, ns)
	first := read(t, new(corev1.Pod), ns, "castoff-canary-general")
	first.Status.Phase = corev1.PodFailed
	if err := cluster.Client.Status().Update(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	startCanary(t, ns)
	err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(first), new(corev1.Pod))
	if !apierrors.IsNotFound(err) {
		t.Fatalf("the pod that failed is to go first, got %v", err)
	}
	startCanary(t, ns)
	if second := read(t, new(corev1.Pod), ns, "castoff-canary-general"); second.UID == first.UID {
		t.Error("want another pod")
	}
}

func TestEndCanary(t *testing.T) {
	ns := namespace(t)
	startCanary(t, ns)
	for range 2 { // the second time there is nothing left
		if err := in(ns).EndCanary(t.Context(), "general"); err != nil {
			t.Fatalf("EndCanary: %v", err)
		}
	}
	for _, object := range []client.Object{new(karpv1.NodePool), new(corev1.Pod)} {
		key := client.ObjectKey{Name: "castoff-canary-general"}
		if _, isPod := object.(*corev1.Pod); isPod {
			key.Namespace = ns
		}
		if err := cluster.Client.Get(t.Context(), key, object); !apierrors.IsNotFound(err) {
			t.Errorf("%T is left: %v", object, err)
		}
	}
}

func TestCanaryLeavesStrangersAlone(t *testing.T) {
	ns := namespace(t)
	t.Run("NodePool", func(t *testing.T) {
		stranger := nodePool("castoff-canary-general")
		create(t, stranger)
		for name, err := range map[string]error{
			"start": in(ns).StartCanary(t.Context(), "general", nodeClass("general"), nodePool("general"), owner()),
			"end":   in(ns).EndCanary(t.Context(), "general"),
		} {
			if _, ok := errors.AsType[*ForeignError](err); !ok || inventory.ClassOf(err) != inventory.ClassTerminal {
				t.Errorf("%s: want a terminal *ForeignError, got %v", name, err)
			}
		}
		if got := read(t, new(karpv1.NodePool), "", stranger.Name); got.ResourceVersion != stranger.ResourceVersion {
			t.Error("it was touched")
		}
	})
	t.Run("Pod", func(t *testing.T) {
		stranger := in(ns).canaryPod("general", owner())
		stranger.Labels = nil
		create(t, stranger)
		for name, err := range map[string]error{
			"start": in(ns).StartCanary(t.Context(), "general", nodeClass("general"), nodePool("general"), owner()),
			"end":   in(ns).EndCanary(t.Context(), "general"),
		} {
			if _, ok := errors.AsType[*ForeignError](err); !ok {
				t.Errorf("%s: want a *ForeignError, got %v", name, err)
			}
		}
		remove(t, read(t, new(karpv1.NodePool), "", "castoff-canary-general"))
	})
}

func TestMarkCanaryPassed(t *testing.T) {
	class, other := nodeClass("general"), nodeClass("memory")
	create(t, class)
	create(t, other)
	hash := NodeClassHash(class)
	var versions []string
	for range 2 {
		if err := in("default").MarkCanaryPassed(t.Context(), "general", hash); err != nil {
			t.Fatal(err)
		}
		got := read(t, new(awsv1.EC2NodeClass), "", "general")
		if got.Annotations["castoff.sh/canary-passed"] != hash || NodeClassHash(got) != hash {
			t.Errorf("got %v", got.Annotations)
		}
		versions = append(versions, got.ResourceVersion)
	}
	if versions[0] != versions[1] {
		t.Error("the second mark wrote")
	}
	if got := read(t, new(awsv1.EC2NodeClass), "", "memory"); len(got.Annotations) != 0 {
		t.Errorf("another pool's was marked: %v", got.Annotations)
	}
	if err := in("default").MarkCanaryPassed(t.Context(), "general", "0123"); err == nil || inventory.ClassOf(err) != inventory.ClassRetry {
		t.Errorf("what passed is not what is there: want an error that is tried again, got %v", err)
	}
}

func TestMarkCanaryFailed(t *testing.T) {
	class := nodeClass("general")
	create(t, class)
	hash := NodeClassHash(class)
	long := "node not registered: " + strings.Repeat("ü", 2000)
	if err := in("default").MarkCanaryFailed(t.Context(), "general", hash, long); err != nil {
		t.Fatal(err)
	}
	got := read(t, new(awsv1.EC2NodeClass), "", "general")
	mark := got.Annotations["castoff.sh/canary-failed"]
	if want := hash + " " + now.UTC().Format(time.RFC3339) + " node not registered: ü"; !strings.HasPrefix(mark, want) || len(mark) > 1200 || !utf8.ValidString(mark) {
		t.Errorf("got %d bytes, valid %t, %.80q; want at most 1,200 that begin with %q", len(mark), utf8.ValidString(mark), mark, want)
	}
	if NodeClassHash(got) != hash {
		t.Error("the mark changed what the hash is of, so it is of another spec")
	}
	if err := in("default").MarkCanaryFailed(t.Context(), "general", "0123", "x"); err == nil || inventory.ClassOf(err) != inventory.ClassRetry {
		t.Errorf("what failed is not what is there: want an error that is tried again, got %v", err)
	}
}

func TestCanaryIsObserved(t *testing.T) {
	ns := namespace(t)
	one := func() inventory.Canary {
		t.Helper()
		engine, err := in(ns).Observe(t.Context())
		if err != nil {
			t.Fatalf("Observe: %v", err)
		}
		if len(engine.Canaries) != 1 {
			t.Fatalf("want one canary, got %+v", engine.Canaries)
		}
		return engine.Canaries[0]
	}
	check := func(reason string, got, want inventory.Canary) {
		t.Helper()
		want.Pool, want.Since = "general", got.Since
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", reason, diff)
		}
	}
	class := nodeClass("general")
	create(t, class)
	startCanary(t, ns)
	check("just begun", one(), inventory.Canary{NodePool: true, Pod: true})
	if one().Since.IsZero() {
		t.Error("since when is not said")
	}

	class.Status.Conditions = []status.Condition{
		condition("SubnetsReady", "True", "", ""), condition("ValidationSucceeded", "False", "RunInstancesAuthCheckFailed", "not authorized: ec2:RunInstances"),
	}
	updateStatus(t, class)
	check("a misconfigured class is reported in its own words", one(), inventory.Canary{NodePool: true, Pod: true,
		Message: "EC2NodeClass general: ValidationSucceeded: not authorized: ec2:RunInstances"})
	class.Status.Conditions[1] = condition("ValidationSucceeded", "True", "", "")
	updateStatus(t, class)

	claim := nodeClaim("castoff-canary-general-1", "castoff-canary-general")
	claim.Labels["castoff.sh/canary"] = "general"
	create(t, claim)
	claim.Status.Conditions = []status.Condition{condition("Launched", "Unknown", "LaunchFailed", "no capacity")}
	updateStatus(t, claim)
	check("a node that does not come", one(), inventory.Canary{NodePool: true, Pod: true, Node: true,
		Message: "NodeClaim castoff-canary-general-1: Launched: no capacity"})

	claim.Status.Conditions = []status.Condition{condition("Launched", "True", "", ""), condition("Registered", "Unknown", "NodeNotFound", "Node not registered with cluster")}
	updateStatus(t, claim)
	check("a node that does not join", one(), inventory.Canary{NodePool: true, Pod: true, Node: true,
		Message: "NodeClaim castoff-canary-general-1: instance running, node not registered: Registered: Node not registered with cluster"})
	claim.Status.Conditions[1] = condition("Registered", "Unknown", "AwaitingReconciliation", "object is awaiting reconciliation")
	updateStatus(t, claim)
	check("one that nobody has looked at", one(), inventory.Canary{NodePool: true, Pod: true, Node: true,
		Message: "NodeClaim castoff-canary-general-1: instance running, node not registered"})

	claim.Status.NodeName = "node-1"
	claim.Status.Conditions = []status.Condition{condition("Launched", "True", "", ""), condition("Registered", "True", "", ""), condition("Initialized", "True", "", "")}
	updateStatus(t, claim)
	pod := read(t, new(corev1.Pod), ns, "castoff-canary-general")
	bind(t, pod, "node-1")
	check("bound, not running yet", one(), inventory.Canary{NodePool: true, Pod: true, Node: true})
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	updateStatus(t, pod)
	check("it ran", one(), inventory.Canary{NodePool: true, Pod: true, Node: true, PodRan: true})

	if err := in(ns).EndCanary(t.Context(), "general"); err != nil {
		t.Fatal(err)
	}
	remove(t, pod) // no kubelet does
	check("its node is on its way", one(), inventory.Canary{Node: true})
}
