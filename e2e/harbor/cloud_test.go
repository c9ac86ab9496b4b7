package harbor

import (
	"context"
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	clientfake "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/castoff-sh/castoff/e2e/awssim"
	"github.com/castoff-sh/castoff/e2e/awssim/simapi"
	"github.com/castoff-sh/castoff/e2e/castandin"
)

// seeded is the scene's AWS side in a simulator of the test's own.
func seeded(ctx context.Context, t *testing.T) (*Cloud, string) {
	t.Helper()
	server := httptest.NewServer(awssim.New(awssim.Options{Region: "us-east-1", Settings: simapi.Settings{Lag: 100 * time.Millisecond}}))
	t.Cleanup(server.Close)
	cloud, err := NewCloud(ctx, server.URL)
	if err != nil {
		t.Fatal(err)
	}
	if err := cloud.Seed(ctx, &rest.Config{Host: "https://127.0.0.1:6443", TLSClientConfig: rest.TLSClientConfig{CAData: []byte("CA")}}); err != nil {
		t.Fatal(err)
	}
	return cloud, server.URL
}

func TestSeed(t *testing.T) {
	g := NewWithT(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cloud, address := seeded(ctx, t)
	door := simapi.NewClient(address)
	running := func() map[string]int {
		instances, err := door.Instances(ctx)
		g.Expect(err).NotTo(HaveOccurred())
		count := map[string]int{}
		for _, instance := range instances {
			if instance.State == "running" && instance.Cluster == Cluster && instance.RoleAuthorised {
				name := instance.NodeGroup
				if name == "" {
					name = instance.AutoScalingGroup
				}
				count[name]++
			}
		}
		return count
	}
	g.Eventually(running, "20s", "100ms").Should(Equal(map[string]int{Home: 2, General: 6, Memory: 4, Batch: 4}))
	g.Expect(cloud.ScheduleSurge(ctx, time.Now().Add(time.Hour))).To(Succeed())
	groups, err := door.Groups(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(groups).To(HaveLen(4))
	for _, group := range groups {
		switch group.Name {
		case General:
			g.Expect(group.Policies).To(ConsistOf("cpu-60"))
		case Memory:
			g.Expect(group.ScheduledActions).To(ConsistOf("evening-peak"))
		default:
			g.Expect(group.NodeGroup).To(BeElementOf(Home, Batch))
		}
	}
}

func TestFurnish(t *testing.T) {
	g := NewWithT(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cloud, address := seeded(ctx, t)
	g.Expect(cloud.furnish(ctx)).To(Succeed())
	groups, err := simapi.NewClient(address).Groups(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(groups).To(ContainElements(
		And(HaveField("Name", Memory), HaveField("Desired", BeEquivalentTo(5)), HaveField("SuspendedProcesses", ConsistOf("ReplaceUnhealthy")), HaveField("Policies", ConsistOf("cpu-80 (disabled)"))),
		And(HaveField("Name", General), HaveField("Desired", BeEquivalentTo(6)), HaveField("ScheduledActions", ConsistOf("new-year")), HaveField("Policies", ConsistOf("cpu-60"))),
	), "what a way back has to restore")
	g.Eventually(func() (sizes []int32) {
		groups, err := simapi.NewClient(address).Groups(ctx)
		g.Expect(err).NotTo(HaveOccurred())
		for _, group := range groups {
			if group.NodeGroup == Batch {
				sizes = []int32{group.Min, group.Max, group.Desired}
			}
		}
		return sizes
	}, "10s", "100ms").Should(Equal([]int32{1, 8, 5}), "EKS takes its time")
}

// TestMarkNodes cordons what came with the furniture, and marks two nodes of each group but the home.
func TestMarkNodes(t *testing.T) {
	node := func(name, tier string) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"any": "x"}}}
		if tier != "" {
			n.Labels[labelTier] = tier
		}
		return n
	}
	nodes := []*corev1.Node{node("g3", General), node("g2", General), node("g1", General), node("m1", Memory), node("home", ""), node("new", Batch)}
	builder := clientfake.NewClientBuilder()
	var list []corev1.Node
	for _, n := range nodes {
		builder = builder.WithObjects(n)
		list = append(list, *n.DeepCopy())
	}
	s := &Scene{Client: builder.Build()}
	known := map[string]bool{"g1": true, "g2": true, "g3": true, "m1": true, "home": true}
	if err := s.markNodes(t.Context(), list, known); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, n := range nodes {
		var after corev1.Node
		if err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(n), &after); err != nil {
			t.Fatal(err)
		}
		got[n.Name] = fmt.Sprintf("%s %d %t", after.Labels["harbor.example/rack"], len(after.Spec.Taints), after.Spec.Unschedulable)
	}
	want := map[string]string{"g1": "r1 1 false", "g2": "r2 1 false", "g3": " 0 false", "m1": "r1 1 false", "home": " 0 false", "new": " 0 true"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rack, taints and cordon, -want +got:\n%s", diff)
	}
}

// TestStandInSeesTheScene shows Cluster Autoscaler's stand-in every group and the node it would launch for it.
func TestStandInSeesTheScene(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, address := seeded(ctx, t)
	standIn := castandin.NewAWS(aws.Config{Region: "us-east-1", BaseEndpoint: &address, Credentials: credentials.NewStaticCredentialsProvider("ca", "secret", "")})
	type seen struct {
		Max     int
		Type    string
		CPU     int64
		Tier    string
		Enabled bool
	}
	want := map[string]seen{
		Home:    {Max: 3, Type: "m5.large", CPU: 2, Enabled: true},
		General: {Max: 12, Type: "m5.xlarge", CPU: 4, Enabled: true},
		Memory:  {Max: 8, Type: "r5.large", CPU: 2, Enabled: true},
		Batch:   {Max: 8, Type: "m5.large", CPU: 2, Tier: Batch, Enabled: true},
	}
	NewWithT(t).Eventually(func() int {
		groups, err := standIn.Groups(ctx)
		if err != nil {
			t.Error(err)
		}
		return len(groups)
	}, "10s", "100ms").Should(Equal(4), "reads are late")
	groups, err := standIn.Groups(ctx)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]seen{}
	for _, group := range groups {
		node, err := standIn.Template(ctx, group)
		if err != nil {
			t.Fatal(err)
		}
		name := group.Name
		if managed := group.Tags["eks:nodegroup-name"]; managed != "" {
			name = managed
		}
		_, enabled := group.Tags["k8s.io/cluster-autoscaler/enabled"]
		got[name] = seen{Max: group.Max, Type: node.Labels[corev1.LabelInstanceTypeStable], CPU: node.Status.Allocatable.Cpu().Value(), Tier: node.Labels[labelTier], Enabled: enabled}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("self-managed groups tell labels and taints by their nodes only, managed ones through EKS, -want +got:\n%s", diff)
	}
}
