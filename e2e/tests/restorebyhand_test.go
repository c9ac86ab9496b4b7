//go:build lab && long

package tests

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/castoff-sh/castoff/e2e/harbor"
	"github.com/castoff-sh/castoff/e2e/lab"
	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/nodegroup"
)

const (
	// midway is how many of the fourteen legacy nodes are gone when the way back begins: one pool is done, the next being drained.
	midway = 5
	// tier is the label by which the scene's workloads choose their group; the home has none.
	tier = "harbor.example/tier"
	// rack and oldDisk are what somebody put on the nodes by hand: no launch template gives them to a new one.
	rack    = "harbor.example/rack"
	oldDisk = "harbor.example/old-disk"
)

// TestRestoreByHand follows docs/runbooks/restore-by-hand.md to the letter, from the middle of a migration.
func TestRestoreByHand(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute) // five on two idle cores
	defer cancel()
	script := page(t)
	scene := startMarked(ctx, t)
	groupsBefore, nodesBefore := nodeGroups(ctx, t, scene.Lab.Simulator), byUID(ctx, t, scene.Client)
	migrateHalf(ctx, t, scene)
	follow(ctx, t, scene.Lab, script)
	t.Run("Groups", func(t *testing.T) { groupsAreAsBefore(ctx, t, scene, groupsBefore) })
	t.Run("ClusterAutoscaler", func(t *testing.T) { autoscalerLeads(ctx, t, scene.Client) })
	t.Run("Nodes", func(t *testing.T) { nodesAreAsBefore(ctx, t, scene.Client, nodesBefore) })
	t.Run("KarpenterIsGone", func(t *testing.T) { nothingOfKarpenter(ctx, t, scene.Client) })
	t.Run("NothingWasLost", func(t *testing.T) { nothingWasLost(ctx, t, scene) })
}

// page is the runbook as one script that stops at the first failure, for this scene's cluster.
func page(t *testing.T) string {
	t.Helper()
	for _, tool := range []string{"bash", "aws", "jq", "base64", "gunzip", "sha256sum"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatalf("the runbook needs %s on this machine: %v", tool, err)
		}
	}
	text, err := os.ReadFile(filepath.Join(repository, "docs", "runbooks", "restore-by-hand.md"))
	if err != nil {
		t.Fatal(err)
	}
	script := []string{`set -Eeuo pipefail; trap 'echo "FAILED: $BASH_COMMAND"' ERR`}
	for _, part := range regexp.MustCompile("(?ms)^## ([^\n]*)$|^```sh\n(.*?)^```$").FindAllStringSubmatch(string(text), -1) {
		if part[1] != "" {
			script = append(script, fmt.Sprintf("echo '==== %s'", strings.ReplaceAll(part[1], "'", "")))
			continue
		}
		script = append(script, part[2])
	}
	names := regexp.MustCompile(`(?m)^(CLUSTER|MIGRATION)=\S+`)
	whole := strings.Join(script, "\n")
	if set := len(names.FindAllString(whole, -1)); set != 2 || len(script) < 20 {
		t.Fatalf("the runbook sets %d of its 2 names and has %d blocks and titles: is it read right?", set, len(script))
	}
	return names.ReplaceAllString(whole, "$1="+harbor.Cluster)
}

// startMarked is the scene with castoff installed, and with something on every node that somebody put there by hand.
func startMarked(ctx context.Context, t *testing.T) *harbor.Scene {
	t.Helper()
	g := NewWithT(t)
	scene, err := harbor.Start(ctx, harbor.Options{
		Lab: lab.Config{
			BinDir: filepath.Join(repository, "bin"), Dir: t.TempDir(), SimulatorLag: time.Second,
			Log: slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelWarn})),
		},
		Chart: filepath.Join(repository, "charts", "castoff"), Out: testWriter{t},
		SurgeAfter: 3 * time.Hour, // still to come at the end
	})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(scene.Stop)
	var list corev1.NodeList
	g.Expect(scene.Client.List(ctx, &list, client.HasLabels{tier})).To(Succeed())
	g.Expect(list.Items).To(HaveLen(harbor.Nodes - 2))
	for _, node := range list.Items {
		before := node.DeepCopy()
		node.Labels[rack] = "r1"
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: oldDisk, Value: "true", Effect: corev1.TaintEffectPreferNoSchedule})
		g.Expect(scene.Client.Patch(ctx, &node, client.MergeFrom(before))).To(Succeed())
	}
	g.Expect(scene.InstallCastoff(ctx)).To(Succeed())
	return scene
}

// migrateHalf starts the migration and returns in its middle; castoff still runs.
func migrateHalf(ctx context.Context, t *testing.T, scene *harbor.Scene) {
	t.Helper()
	migration := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(harbor.Migration), &migration.Object); err != nil {
		t.Fatal(err)
	}
	if err := scene.Client.Create(ctx, migration); err != nil {
		t.Fatal(err)
	}
	NewWithT(t).Eventually(ctx, func() string {
		return fmt.Sprintf("%s, midway %t", scene.Watcher.Phase(), scene.Watcher.LegacyEnded() >= midway)
	}, "4m", "500ms").Should(Equal("Shifting, midway true"))
}

// follow runs the page with kubectl, aws and jq, and nothing else that could go to the lab.
func follow(ctx context.Context, t *testing.T, l *lab.Lab, script string) {
	t.Helper()
	bin, err := filepath.Abs(filepath.Join(repository, "bin"))
	if err != nil {
		t.Fatal(err)
	}
	shell := exec.CommandContext(ctx, "bash", "-c", script)
	shell.Dir, shell.Stdout, shell.Stderr = t.TempDir(), testWriter{t}, testWriter{t}
	mine := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "AWS_") })
	shell.Env = append(mine, "PATH="+bin+":"+os.Getenv("PATH"), "KUBECONFIG="+l.Kubeconfig, "AWS_ENDPOINT_URL="+l.Simulator,
		"AWS_ACCESS_KEY_ID=on-call", "AWS_SECRET_ACCESS_KEY=any", "AWS_CONFIG_FILE=/dev/null", "NO_PROXY=127.0.0.1")
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	shell.Cancel = func() error { return syscall.Kill(-shell.Process.Pid, syscall.SIGTERM) } // what the shell waits for as well
	shell.WaitDelay = 5 * time.Second
	began := time.Now()
	if err := shell.Run(); err != nil {
		t.Fatalf("following the runbook: %v", err)
	}
	t.Logf("the runbook took %s", time.Since(began).Round(time.Second))
}

// nodeGroups reads all groups, policies, scheduled actions, processes, tags and all.
func nodeGroups(ctx context.Context, t *testing.T, endpoint string) []inventory.NodeGroup {
	t.Helper()
	cfg, err := config.LoadDefaultConfig(ctx, config.WithRegion("us-east-1"), config.WithBaseEndpoint(endpoint),
		config.WithCredentialsProvider(credentials.NewStaticCredentialsProvider("judge", "secret", "")))
	if err != nil {
		t.Fatal(err)
	}
	groups, err := nodegroup.New(autoscaling.NewFromConfig(cfg), eks.NewFromConfig(cfg), ec2.NewFromConfig(cfg), iam.NewFromConfig(cfg), harbor.Cluster).List(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return groups
}

func groupsAreAsBefore(ctx context.Context, t *testing.T, scene *harbor.Scene, before []inventory.NodeGroup) {
	quiet := func(g inventory.NodeGroup) bool { return len(g.ScalingPolicies) == 0 && len(g.ScheduledActions) == 0 }
	if len(before) != 4 || !slices.ContainsFunc(before, func(g inventory.NodeGroup) bool { return !quiet(g) }) {
		t.Fatalf("the scene has %d groups, none with a policy or schedule to lose: nothing would be shown", len(before))
	}
	NewWithT(t).Eventually(ctx, func() string {
		return cmp.Diff(before, nodeGroups(ctx, t, scene.Lab.Simulator), cmpopts.IgnoreFields(inventory.NodeGroup{}, "Instances"))
	}, "20s", "2s").Should(BeEmpty(), "-before +after")
}

// autoscalerLeads looks at the Deployment, the Lease and the status that only a leader writes.
func autoscalerLeads(ctx context.Context, t *testing.T, c client.Client) {
	g, key := NewWithT(t), client.ObjectKey{Namespace: "kube-system", Name: "cluster-autoscaler"}
	var deployment appsv1.Deployment
	g.Expect(c.Get(ctx, key, &deployment)).To(Succeed())
	g.Expect(deployment.Status.ReadyReplicas).To(BeEquivalentTo(1))
	var lease coordinationv1.Lease
	g.Expect(c.Get(ctx, key, &lease)).To(Succeed())
	g.Expect(lease.Spec.HolderIdentity).To(HaveValue(HavePrefix("cluster-autoscaler-")))
	g.Expect(lease.Spec.RenewTime.Time).To(BeTemporally("~", time.Now(), 20*time.Second))
	var status corev1.ConfigMap
	g.Expect(c.Get(ctx, client.ObjectKey{Namespace: "kube-system", Name: "cluster-autoscaler-status"}, &status)).To(Succeed())
	g.Expect(status.Data["status"]).To(And(ContainSubstring("name: "+harbor.General), ContainSubstring("name: "+harbor.Memory), ContainSubstring(harbor.Batch)))
}

// byUID looks at every node: names come again. What a Cluster Autoscaler at work taints is its own business.
func byUID(ctx context.Context, t *testing.T, c client.Client) map[types.UID]nodeState {
	t.Helper()
	var list corev1.NodeList
	if err := c.List(ctx, &list); err != nil {
		t.Fatal(err)
	}
	states := map[types.UID]nodeState{}
	for _, node := range list.Items {
		taints := slices.DeleteFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == "DeletionCandidateOfClusterAutoscaler" })
		states[node.UID] = nodeState{Labels: node.Labels, Taints: taints, Unschedulable: node.Spec.Unschedulable, Deleting: node.DeletionTimestamp != nil}
	}
	return states
}

// nodesAreAsBefore compares the nodes that stayed one by one, and asks of each stand-in what its group's nodes had.
func nodesAreAsBefore(ctx context.Context, t *testing.T, c client.Client, before map[types.UID]nodeState) {
	g := NewWithT(t)
	after, stayed := byUID(ctx, t, c), 0
	g.Expect(after).To(HaveLen(harbor.Nodes))
	for uid, node := range after {
		name := node.Labels[corev1.LabelHostname]
		if was, there := before[uid]; there {
			stayed++
			g.Expect(cmp.Diff(was, node)).To(BeEmpty(), "node %s, -before +after", name)
		}
		g.Expect(node.Unschedulable).To(BeFalse(), "node %s is cordoned", name)
		if node.Labels[tier] == "" {
			continue
		}
		g.Expect(node.Labels).To(HaveKeyWithValue(rack, "r1"), "node %s", name)
		g.Expect(node.Taints).To(ContainElement(HaveField("Key", oldDisk)), "node %s", name)
	}
	g.Expect(stayed).To(And(BeNumerically("<=", harbor.Nodes-midway), BeNumerically(">", 2)), "nodes that stayed: the migration was in its middle")
	var list corev1.NodeList
	g.Expect(c.List(ctx, &list)).To(Succeed())
	for _, node := range list.Items {
		for key := range node.Annotations {
			g.Expect(key).NotTo(Or(HavePrefix("castoff.sh/"), HaveSuffix("/scale-down-disabled")), "node %s", node.Name)
		}
		for key := range node.Labels {
			g.Expect(key).NotTo(Or(HavePrefix("castoff.sh/"), HavePrefix("karpenter.sh/"), Equal(corev1.LabelNodeExcludeBalancers)), "node %s", node.Name)
		}
		g.Expect(node.Spec.Taints).NotTo(ContainElement(HaveField("Key", HavePrefix("castoff.sh/"))), "node %s", node.Name)
	}
}

func nothingOfKarpenter(ctx context.Context, t *testing.T, c client.Client) {
	for _, kind := range []schema.GroupVersionKind{
		{Group: "karpenter.sh", Version: "v1", Kind: "NodePool"}, {Group: "karpenter.sh", Version: "v1", Kind: "NodeClaim"},
		{Group: "karpenter.k8s.aws", Version: "v1", Kind: "EC2NodeClass"}, {Group: "castoff.sh", Version: "v1alpha1", Kind: "Migration"},
	} {
		for _, left := range list(ctx, t, c, kind) {
			t.Errorf("%s %s is left", kind.Kind, left.GetName())
		}
	}
}

// nothingWasLost asks the watcher, which saw all of it.
func nothingWasLost(ctx context.Context, t *testing.T, scene *harbor.Scene) {
	g := NewWithT(t)
	g.Eventually(ctx, func() int { return reportOf(ctx, t, scene).PodsNotReady }, "40s", "5s").Should(BeZero())
	report := reportOf(ctx, t, scene)
	for _, detail := range report.Details() {
		t.Log(detail)
	}
	g.Expect(report.PDBViolations).To(BeZero(), "moments in which a budget was broken")
	g.Expect(report.InstancesEndedUndrained).To(BeZero(), "instances that ended with pods on them")
	g.Expect(report.DoubleServedSeconds).To(BeZero())
	g.Expect(report.UnservedSeconds).To(BeNumerically("<", 30), "both hand-overs together")
}
