//go:build lab && long

package tests

import (
	"context"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/castoff-sh/castoff/e2e/awssim/simapi"
	"github.com/castoff-sh/castoff/e2e/harbor"
	"github.com/castoff-sh/castoff/e2e/lab"
	"github.com/castoff-sh/castoff/e2e/runner"
	"github.com/castoff-sh/castoff/pkg/helm"
	"github.com/castoff-sh/castoff/pkg/identity"
	"github.com/castoff-sh/castoff/pkg/interruption"
	"github.com/castoff-sh/castoff/pkg/nodegroup"
)

// spotNodeClass and spotNodePool are what a user would write. A drifted node is shown and not replaced, so that the test
// can make a drift and take it back.
const (
	spotNodeClass = `
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: spot}
spec:
  role: KarpenterNodeRole-harbor
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {kubernetes.io/cluster/harbor: shared}}]
  securityGroupSelectorTerms: [{tags: {kubernetes.io/cluster/harbor: owned}}]
`
	spotNodePool = `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: spot}
spec:
  template:
    metadata: {labels: {harbor.example/version: "1"}}
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: spot}
      requirements:
      - {key: karpenter.sh/capacity-type, operator: In, values: [spot]}
      - {key: node.kubernetes.io/instance-type, operator: In, values: [m5.large, m5a.large, m6i.large]}
  disruption:
    consolidationPolicy: WhenEmptyOrUnderutilized
    consolidateAfter: 2s
    budgets:
    - {nodes: "100%"}
    - {nodes: "0", reasons: [Drifted]}
`
	// spreadApp is of two pods that are never on one node.
	spreadApp = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: APP, namespace: default}
spec:
  replicas: 2
  selector: {matchLabels: {app: APP}}
  template:
    metadata: {labels: {app: APP}}
    spec:
      nodeSelector: {karpenter.sh/nodepool: spot}
      affinity:
        podAntiAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
          - {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: APP}}}
      containers:
      - {name: app, image: example.com/shop, resources: {requests: {cpu: 500m, memory: 512Mi}}}
`
)

// The engine's calls carry the role that its pod identity association names.
const engineIdentity = "arn:aws:sts::123456789012:assumed-role/KarpenterControllerRole-harbor/eks-"

// karpenter is the engine at work in a cluster of the scene's node groups, without the scene's workloads.
type karpenter struct {
	lab    *lab.Lab
	client client.WithWatch
	door   *simapi.Client
}

// TestKarpenter proves the ground that migrations stand on: the real engine, installed by castoff's ports, launches nodes,
// heeds a spot warning, sees no drift where there is none, and takes away what is not needed.
func TestKarpenter(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	k := startCluster(ctx, t)
	for _, step := range []struct {
		name string
		run  func(context.Context, *testing.T)
	}{
		{"Install", k.install},
		{"PodsGetNodes", k.podsGetNodes},
		{"SpotWarningReplacesTheNode", k.spotWarningReplacesTheNode},
		{"NothingDrifts", k.nothingDrifts},
		{"UnderusedNodeGoes", k.underusedNodeGoes},
		{"OnlyTheEngineCalled", k.onlyTheEngineCalled},
		{"PoliciesAllowEveryCall", func(_ context.Context, t *testing.T) { callsAreAllowed(t, k.lab) }},
	} {
		if !t.Run(step.name, func(t *testing.T) { step.run(ctx, t) }) {
			return // each step begins where the one before ended
		}
	}
}

// startCluster brings up a lab with the scene's network and node groups.
func startCluster(ctx context.Context, t *testing.T) *karpenter {
	t.Helper()
	g := NewWithT(t)
	l, err := lab.Up(ctx, lab.Config{
		BinDir: filepath.Join(repository, "bin"), Dir: t.TempDir(), SimulatorLag: time.Second,
		Log: slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(l.Stop)
	t.Cleanup(func() { showEngine(t, l.Dir) })
	k := &karpenter{lab: l, door: simapi.NewClient(l.Simulator)}
	k.client, err = client.NewWithWatch(l.REST, client.Options{Scheme: scheme.Scheme})
	g.Expect(err).NotTo(HaveOccurred())
	cloud, err := harbor.NewCloud(ctx, l.Simulator)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(cloud.Seed(ctx, l.REST)).To(Succeed())
	return k
}

// showEngine logs why the engine may have failed a test, before its logs are gone.
func showEngine(t *testing.T, dir string) {
	if !t.Failed() {
		return
	}
	logs, err := filepath.Glob(runner.LogFile(dir, helm.EngineNamespace, helm.EngineRelease+"-*", "controller"))
	if err != nil {
		t.Error(err)
	}
	for _, log := range logs {
		content, err := os.ReadFile(log)
		if err != nil {
			t.Error(err)
		}
		t.Logf("the end of %s:\n%s", filepath.Base(log), content[max(0, len(content)-4<<10):])
	}
}

// install does what a Migration does before its first node: identities, queue and rules, CRDs, release.
func (k *karpenter) install(ctx context.Context, t *testing.T) {
	g := NewWithT(t)
	prepareAWS(ctx, g, k.lab.Simulator)
	k.createEngineRoles(ctx, g)
	releases, err := helm.New(k.lab.REST, time.Now)
	g.Expect(err).NotTo(HaveOccurred())
	engine := helm.Engine{
		Image: "ghcr.io/castoff-sh/provisioner:lab", ClusterName: harbor.Cluster, InterruptionQueue: harbor.Cluster, Region: "us-east-1",
		NodeSelector: map[string]string{"eks.amazonaws.com/nodegroup": harbor.Home},
	}
	g.Expect(releases.ApplyCRDs(ctx, engine.Release())).To(Succeed())
	_, err = releases.Apply(ctx, engine.Release())
	g.Expect(err).NotTo(HaveOccurred())
	awaitList(ctx, t, k.client, "the engine's two replicas", &appsv1.DeploymentList{}, func(list *appsv1.DeploymentList) bool {
		return len(list.Items) == 1 && list.Items[0].Status.ReadyReplicas == 2
	}, client.InNamespace(helm.EngineNamespace))
	state, err := releases.Observe(ctx, engine.Release())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(state.Status).To(Equal(helm.Deployed))
	g.Expect(state.Current).To(BeTrue(), "installing it once more would write nothing")
}

// createEngineRoles makes the cluster roles that the engine's chart binds: castoff's own chart brings them.
func (k *karpenter) createEngineRoles(ctx context.Context, g Gomega) {
	manifest, err := helm.Render(helm.Release{Name: "castoff", Namespace: harbor.CastoffNamespace, Chart: os.DirFS(filepath.Join(repository, "charts", "castoff"))})
	g.Expect(err).NotTo(HaveOccurred())
	for document := range strings.SplitSeq(manifest, "\n---\n") {
		object := &unstructured.Unstructured{}
		g.Expect(yaml.Unmarshal([]byte(document), &object.Object)).To(Succeed())
		if object.GetKind() == "ClusterRole" && strings.HasPrefix(object.GetName(), "castoff-engine") {
			g.Expect(k.client.Create(ctx, object)).To(Succeed())
		}
	}
}

// prepareAWS makes the roles, the pod identity association, the queue and its five rules.
func prepareAWS(ctx context.Context, g Gomega, endpoint string) {
	cfg, err := config.LoadDefaultConfig(ctx, config.WithRegion("us-east-1"), config.WithBaseEndpoint(endpoint),
		config.WithCredentialsProvider(credentials.NewStaticCredentialsProvider("castoff", "secret", "")))
	g.Expect(err).NotTo(HaveOccurred())
	ec2Client, eksClient, iamClient := ec2.NewFromConfig(cfg), eks.NewFromConfig(cfg), iam.NewFromConfig(cfg)
	cluster, err := nodegroup.New(autoscaling.NewFromConfig(cfg), eksClient, ec2Client, iamClient, harbor.Cluster).Cluster(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	identities := identity.New(iamClient, eksClient, ec2Client, sts.NewFromConfig(cfg), nil)
	g.Expect(identities.Ensure(ctx, cluster, nil)).To(Succeed())
	warnings := interruption.New(sqs.NewFromConfig(cfg), eventbridge.NewFromConfig(cfg))
	g.Expect(warnings.Ensure(ctx, cluster)).To(Succeed())
}

// podsGetNodes starts two apps of two pods, an app's pods on different nodes: two nodes with a pod of each.
func (k *karpenter) podsGetNodes(ctx context.Context, t *testing.T) {
	g := NewWithT(t)
	for _, manifest := range []string{spotNodeClass, spotNodePool, strings.ReplaceAll(spreadApp, "APP", "web"), strings.ReplaceAll(spreadApp, "APP", "api")} {
		object := &unstructured.Unstructured{}
		g.Expect(yaml.Unmarshal([]byte(manifest), &object.Object)).To(Succeed())
		g.Expect(k.client.Create(ctx, object)).To(Succeed())
	}
	pods := k.awaitApps(ctx, t, 4)
	claims := k.awaitClaims(ctx, t, "two initialized NodeClaims", func(claims []karpv1.NodeClaim) bool {
		return len(claims) == 2 && all(claims, is(karpv1.ConditionTypeInitialized))
	})
	for _, claim := range claims {
		node := &corev1.Node{}
		g.Expect(k.client.Get(ctx, client.ObjectKey{Name: claim.Status.NodeName}, node)).To(Succeed())
		g.Expect(node.Spec.ProviderID).To(Equal(claim.Status.ProviderID))
		g.Expect(node.Labels).To(HaveKeyWithValue("harbor.example/version", "1"), "the template's labels came through the user data")
		g.Expect(node.Spec.Taints).To(BeEmpty(), "an initialized node has lost Karpenter's own taint")
		instance := k.instance(ctx, t, claim)
		g.Expect(instance.Spot).To(BeTrue())
		g.Expect(instance.RoleARN).To(HaveSuffix("role/KarpenterNodeRole-harbor"))
		g.Expect(instance.Tags).To(HaveKeyWithValue("karpenter.sh/nodepool", "spot"))
	}
	g.Expect(nodesUnder(pods)).To(HaveLen(2))
	g.Expect(k.calls(ctx, t, "CreateFleet", 0)).NotTo(BeEmpty())
}

// spotWarningReplacesTheNode has AWS announce the end of an instance. The engine must learn it from the queue, move the
// pods and end the instance itself, well before AWS would.
func (k *karpenter) spotWarningReplacesTheNode(ctx context.Context, t *testing.T) {
	g := NewWithT(t)
	before := k.claims(ctx, t)
	doomed := before[0]
	instance := k.instance(ctx, t, doomed)
	seq := k.lastCall(ctx, t)
	const notice = 2 * time.Minute
	warned := time.Now()
	g.Expect(k.door.Interrupt(ctx, simapi.Interrupt{InstanceID: instance.ID, Kind: "spot-warning", EndAfter: notice})).To(Succeed())

	claims := k.awaitClaims(ctx, t, "another NodeClaim in the doomed one's place", func(claims []karpv1.NodeClaim) bool {
		return len(claims) == 2 && !slices.Contains(uids(claims), doomed.UID) && all(claims, is(karpv1.ConditionTypeInitialized))
	})
	g.Expect(uids(claims)).To(ContainElement(before[1].UID), "the other node was not warned about")
	pods := k.awaitApps(ctx, t, 4)
	g.Expect(nodesUnder(pods)).To(ConsistOf(claims[0].Status.NodeName, claims[1].Status.NodeName))
	g.Expect(nodesUnder(pods)).NotTo(ContainElement(doomed.Status.NodeName))

	ended := k.instance(ctx, t, doomed)
	g.Expect(ended.State).To(BeElementOf("shutting-down", "terminated"))
	g.Expect(ended.EndedBy).To(And(HavePrefix(engineIdentity), HaveSuffix("ec2.TerminateInstances")))
	g.Expect(time.Since(warned)).To(BeNumerically("<", notice), "done before the two minutes' notice was over")
	successor := claims[slices.IndexFunc(claims, func(c karpv1.NodeClaim) bool { return c.UID != before[1].UID })]
	replacement := k.instance(ctx, t, successor)
	g.Expect([]string{replacement.Type, replacement.Zone}).NotTo(Equal([]string{instance.Type, instance.Zone}), "that spot pool has just run dry")

	g.Expect(k.calls(ctx, t, "CreateFleet", seq)).To(HaveLen(1))
	g.Expect(k.calls(ctx, t, "ReceiveMessage", seq)).NotTo(BeEmpty())
	deletions := k.calls(ctx, t, "DeleteMessage", seq)
	g.Expect(deletions).NotTo(BeEmpty(), "a warning that was heeded leaves the queue")
	for _, call := range deletions {
		g.Expect(string(call.Input)).To(ContainSubstring("/123456789012/" + harbor.Cluster + `"`))
	}
}

// nothingDrifts first shows that a drift would be seen. Taken back, the engine clears the condition only after it has
// compared image, security groups and subnets as well, and then leaves the NodeClaims alone.
func (k *karpenter) nothingDrifts(ctx context.Context, t *testing.T) {
	g := NewWithT(t)
	before := k.awaitClaims(ctx, t, "NodeClaims at rest", func(claims []karpv1.NodeClaim) bool {
		return all(claims, is(karpv1.ConditionTypeConsolidatable)) && !slices.ContainsFunc(claims, is(karpv1.ConditionTypeDrifted))
	})
	k.setTemplateVersion(ctx, t, "2")
	k.awaitClaims(ctx, t, "NodeClaims that have drifted", func(claims []karpv1.NodeClaim) bool {
		return all(claims, is(karpv1.ConditionTypeDrifted))
	})
	k.setTemplateVersion(ctx, t, "1")
	k.awaitClaims(ctx, t, "NodeClaims that drift no more", func(claims []karpv1.NodeClaim) bool {
		return !slices.ContainsFunc(claims, is(karpv1.ConditionTypeDrifted))
	})
	seq := k.lastCall(ctx, t)
	k.expectClaimsUntouched(ctx, t, 15*time.Second)
	g.Expect(uids(k.claims(ctx, t))).To(Equal(uids(before)))
	g.Expect(k.calls(ctx, t, "CreateFleet", seq)).To(BeEmpty())
	g.Expect(k.calls(ctx, t, "TerminateInstances", seq)).To(BeEmpty())
}

// underusedNodeGoes leaves a pod of one app on each node. Both fit on one.
func (k *karpenter) underusedNodeGoes(ctx context.Context, t *testing.T) {
	g := NewWithT(t)
	before, seq := k.claims(ctx, t), k.lastCall(ctx, t)
	k.leaveOn(ctx, t, "web", before[0].Status.NodeName)
	k.leaveOn(ctx, t, "api", before[1].Status.NodeName)
	reasons := map[string]string{} // by NodeClaim, from just before its end
	claims := k.awaitClaims(ctx, t, "one NodeClaim", func(claims []karpv1.NodeClaim) bool {
		for _, claim := range claims {
			if reason := claim.StatusConditions().Get(karpv1.ConditionTypeDisruptionReason); reason.IsTrue() {
				reasons[claim.Name] = reason.Reason
			}
		}
		return len(claims) == 1
	})
	surplus := before[slices.IndexFunc(before, func(c karpv1.NodeClaim) bool { return c.UID != claims[0].UID })]
	g.Expect(uids(before)).To(ContainElement(claims[0].UID), "the pods fit on a node that is there")
	g.Expect(reasons).To(Equal(map[string]string{surplus.Name: string(karpv1.DisruptionReasonUnderutilized)}))
	g.Expect(nodesUnder(k.awaitApps(ctx, t, 2))).To(Equal([]string{claims[0].Status.NodeName}))
	g.Expect(k.instance(ctx, t, surplus).EndedBy).To(And(HavePrefix(engineIdentity), HaveSuffix("ec2.TerminateInstances")))
	g.Expect(apierrors.IsNotFound(k.client.Get(ctx, client.ObjectKey{Name: surplus.Status.NodeName}, &corev1.Node{}))).To(BeTrue())
	g.Expect(k.calls(ctx, t, "CreateFleet", seq)).To(BeEmpty())
}

// onlyTheEngineCalled looks back on who did what in AWS. Auto Scaling launches and ends instances without a call.
func (k *karpenter) onlyTheEngineCalled(ctx context.Context, t *testing.T) {
	g := NewWithT(t)
	for _, operation := range []string{"CreateFleet", "TerminateInstances", "ReceiveMessage", "DeleteMessage"} {
		calls := k.calls(ctx, t, operation, 0)
		g.Expect(calls).NotTo(BeEmpty(), operation)
		for _, call := range calls {
			g.Expect(call.Identity).To(HavePrefix(engineIdentity), operation)
		}
	}
}

// setTemplateVersion changes a label of the NodePool's nodes.
func (k *karpenter) setTemplateVersion(ctx context.Context, t *testing.T, version string) {
	t.Helper()
	pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "spot"}}
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"template":{"metadata":{"labels":{"harbor.example/version":"`+version+`"}}}}}`))
	if err := k.client.Patch(ctx, pool, patch); err != nil {
		t.Fatal(err)
	}
}

// leaveOn scales an app down to its pod on that node.
func (k *karpenter) leaveOn(ctx context.Context, t *testing.T, app, node string) {
	t.Helper()
	for _, pod := range k.pods(ctx, t) {
		if pod.Labels["app"] != app || pod.Spec.NodeName == node {
			continue
		}
		// The ReplicaSet ends the cheapest first.
		cheap := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"controller.kubernetes.io/pod-deletion-cost":"-1"}}}`))
		if err := k.client.Patch(ctx, &pod, cheap); err != nil {
			t.Fatal(err)
		}
	}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: app}}
	if err := k.client.Patch(ctx, deployment, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"replicas":1}}`))); err != nil {
		t.Fatal(err)
	}
}

func is(condition string) func(karpv1.NodeClaim) bool {
	return func(claim karpv1.NodeClaim) bool { return claim.StatusConditions().Get(condition).IsTrue() }
}

func all(claims []karpv1.NodeClaim, is func(karpv1.NodeClaim) bool) bool {
	return !slices.ContainsFunc(claims, func(c karpv1.NodeClaim) bool { return !is(c) })
}

func uids(claims []karpv1.NodeClaim) (uids []types.UID) {
	for _, claim := range claims {
		uids = append(uids, claim.UID)
	}
	return uids
}

// nodesUnder are the names of the pods' nodes, sorted, each once.
func nodesUnder(pods []corev1.Pod) (names []string) {
	for _, pod := range pods {
		names = append(names, pod.Spec.NodeName)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// awaitApps waits until the apps have that many pods, all of them Ready and none on its way out.
func (k *karpenter) awaitApps(ctx context.Context, t *testing.T, count int) []corev1.Pod {
	t.Helper()
	list := &corev1.PodList{}
	awaitList(ctx, t, k.client, "pods that are all Ready", list, func(list *corev1.PodList) bool {
		return len(list.Items) == count && !slices.ContainsFunc(list.Items, func(pod corev1.Pod) bool {
			return pod.DeletionTimestamp != nil || !slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
				return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
			})
		})
	}, client.InNamespace("default"))
	return list.Items
}

func (k *karpenter) pods(ctx context.Context, t *testing.T) []corev1.Pod {
	t.Helper()
	list := &corev1.PodList{}
	if err := k.client.List(ctx, list, client.InNamespace("default")); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

func (k *karpenter) awaitClaims(ctx context.Context, t *testing.T, what string, met func([]karpv1.NodeClaim) bool) []karpv1.NodeClaim {
	t.Helper()
	list := &karpv1.NodeClaimList{}
	awaitList(ctx, t, k.client, what, list, func(list *karpv1.NodeClaimList) bool { return met(list.Items) })
	return list.Items
}

func (k *karpenter) claims(ctx context.Context, t *testing.T) []karpv1.NodeClaim {
	t.Helper()
	return k.awaitClaims(ctx, t, "NodeClaims", func([]karpv1.NodeClaim) bool { return true })
}

// expectClaimsUntouched watches for that long: nobody may make, change or end a NodeClaim.
func (k *karpenter) expectClaimsUntouched(ctx context.Context, t *testing.T, span time.Duration) {
	t.Helper()
	list := &karpv1.NodeClaimList{}
	if err := k.client.List(ctx, list); err != nil {
		t.Fatal(err)
	}
	watched, err := k.client.Watch(ctx, list, from(list))
	if err != nil {
		t.Fatal(err)
	}
	defer watched.Stop()
	over := time.After(span)
	for {
		select {
		case <-over:
			return
		case event, open := <-watched.ResultChan():
			if !open {
				t.Fatal("the watch of NodeClaims broke")
			}
			t.Errorf("a NodeClaim at rest was touched: %s %+v", event.Type, event.Object)
		}
	}
}

// awaitList lists anew at every change until the condition is met, three minutes at most.
func awaitList[L client.ObjectList](ctx context.Context, t *testing.T, c client.WithWatch, what string, list L, met func(L) bool, options ...client.ListOption) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	for {
		if err := c.List(ctx, list, options...); err != nil {
			t.Fatalf("waiting for %s: %v", what, err)
		}
		if met(list) {
			return
		}
		watched, err := c.Watch(ctx, list, append(slices.Clone(options), from(list))...)
		if err != nil {
			t.Fatalf("waiting for %s: %v", what, err)
		}
		select {
		case <-ctx.Done():
			t.Fatalf("waiting for %s: %v; the last seen:\n%s", what, ctx.Err(), readable(list))
		case <-watched.ResultChan():
		}
		watched.Stop()
	}
}

// readable is a list as YAML, without the bookkeeping.
func readable(list client.ObjectList) string {
	_ = meta.EachListItem(list, func(item runtime.Object) error {
		if object, err := meta.Accessor(item); err == nil {
			object.SetManagedFields(nil)
		}
		return nil
	})
	text, err := yaml.Marshal(list)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// from has a watch begin where a list ended.
func from(list client.ObjectList) client.ListOption {
	return &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.GetResourceVersion()}}
}

// instance is the NodeClaim's, as the simulator knows it.
func (k *karpenter) instance(ctx context.Context, t *testing.T, claim karpv1.NodeClaim) simapi.Instance {
	t.Helper()
	instances, err := k.door.Instances(ctx)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(instances, func(i simapi.Instance) bool { return i.ID == path.Base(claim.Status.ProviderID) })
	if i < 0 {
		t.Fatalf("NodeClaim %s: there is no instance %q", claim.Name, claim.Status.ProviderID)
	}
	return instances[i]
}

// calls are those of an operation that had an effect, after a call's number.
func (k *karpenter) calls(ctx context.Context, t *testing.T, operation string, after int64) []simapi.Call {
	t.Helper()
	calls, err := k.door.Calls(ctx, after)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(calls, func(c simapi.Call) bool { return c.Operation != operation || c.DryRun || c.Status != 200 })
}

// lastCall is the number of the latest call.
func (k *karpenter) lastCall(ctx context.Context, t *testing.T) int64 {
	t.Helper()
	calls, err := k.door.Calls(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	return calls[len(calls)-1].Seq
}
