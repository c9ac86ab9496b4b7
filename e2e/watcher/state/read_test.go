package state_test

import (
	"context"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/castoff-sh/castoff/e2e/awssim"
	"github.com/castoff-sh/castoff/e2e/awssim/simapi"
	"github.com/castoff-sh/castoff/e2e/harbor"
	"github.com/castoff-sh/castoff/e2e/watcher/state"
)

// sources are a seeded account and a cluster with a node and Cluster Autoscaler, made by a fake client.
func sources(ctx context.Context, t *testing.T) state.Sources {
	t.Helper()
	server := httptest.NewServer(awssim.New(awssim.Options{Region: "us-east-1", Settings: simapi.Settings{}}))
	t.Cleanup(server.Close)
	cloud, err := harbor.NewCloud(ctx, server.URL)
	if err != nil {
		t.Fatal(err)
	}
	if err := cloud.Seed(ctx, &rest.Config{Host: "https://127.0.0.1:6443", TLSClientConfig: rest.TLSClientConfig{CAData: []byte("CA")}}); err != nil {
		t.Fatal(err)
	}
	if err := cloud.ScheduleSurge(ctx, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	instances := awaitInstances(ctx, t, server.URL)
	autoscaler := client.ObjectKey{Namespace: "kube-system", Name: "cluster-autoscaler"}
	meta := metav1.ObjectMeta{Namespace: autoscaler.Namespace, Name: autoscaler.Name}
	return state.Sources{
		AWS:       aws.Config{Region: "us-east-1", BaseEndpoint: &server.URL, Credentials: credentials.NewStaticCredentialsProvider("judge", "secret", "")},
		Simulator: server.URL, Cluster: harbor.Cluster, Except: []string{harbor.CastoffNamespace}, Autoscaler: autoscaler,
		Client: fake.NewClientBuilder().WithObjects(
			&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"rack": "r1"}}, Spec: corev1.NodeSpec{ProviderID: "aws:///z/" + instances[0].ID}},
			&appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Replicas: aws.Int32(1)}},
			&coordinationv1.Lease{ObjectMeta: meta, Spec: coordinationv1.LeaseSpec{HolderIdentity: aws.String("cluster-autoscaler-1")}},
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: harbor.CastoffNamespace, Name: "snapshot"}},
		).Build(),
	}
}

// awaitInstances returns once every group has its size, so that only the test changes the account.
func awaitInstances(ctx context.Context, t *testing.T, address string) (running []simapi.Instance) {
	t.Helper()
	NewWithT(t).Eventually(func() int {
		instances, err := simapi.NewClient(address).Instances(ctx)
		if err != nil {
			t.Error(err)
		}
		running = slices.DeleteFunc(instances, func(i simapi.Instance) bool { return i.State != "running" })
		return len(running)
	}, "20s", "100ms").Should(Equal(harbor.Nodes))
	return running
}

// TestReadSeesEveryChange is what proves that no difference means that nothing differs.
func TestReadSeesEveryChange(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	from := sources(ctx, t)
	asg, k8s := autoscaling.NewFromConfig(from.AWS), from.Client
	general, memory := aws.String(harbor.General), aws.String(harbor.Memory)
	changes := map[string]struct {
		change func() error
		object string
		field  string
	}{
		"Size": {object: "group memory", field: "MinSize", change: func() error {
			_, err := asg.UpdateAutoScalingGroup(ctx, &autoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: memory, MinSize: aws.Int32(1)})
			return err
		}},
		"Rebalance": {object: "group general", field: "CapacityRebalance", change: func() error {
			_, err := asg.UpdateAutoScalingGroup(ctx, &autoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: general, CapacityRebalance: aws.Bool(true)})
			return err
		}},
		"Lifetime": {object: "group general", field: "MaxInstanceLifetime", change: func() error {
			_, err := asg.UpdateAutoScalingGroup(ctx, &autoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: general, MaxInstanceLifetime: aws.Int32(864000)})
			return err
		}},
		"Process": {object: "group general", field: "SuspendedProcesses[AZRebalance].ProcessName", change: func() error {
			_, err := asg.SuspendProcesses(ctx, &autoscaling.SuspendProcessesInput{AutoScalingGroupName: general, ScalingProcesses: []string{"AZRebalance"}})
			return err
		}},
		"Policy": {object: "group general", field: "policies[cpu-60].Enabled", change: func() error {
			out, err := asg.DescribePolicies(ctx, &autoscaling.DescribePoliciesInput{AutoScalingGroupName: general})
			if err != nil {
				return err
			}
			policy := out.ScalingPolicies[0]
			_, err = asg.PutScalingPolicy(ctx, &autoscaling.PutScalingPolicyInput{AutoScalingGroupName: general, PolicyName: policy.PolicyName, PolicyType: policy.PolicyType,
				TargetTrackingConfiguration: policy.TargetTrackingConfiguration, Enabled: aws.Bool(false)})
			return err
		}},
		"Schedule": {object: "group memory", field: "schedules[evening-peak].DesiredCapacity", change: func() error {
			_, err := asg.DeleteScheduledAction(ctx, &autoscaling.DeleteScheduledActionInput{AutoScalingGroupName: memory, ScheduledActionName: aws.String("evening-peak")})
			return err
		}},
		"ManagedGroup": {object: "managed node group batch", field: "Labels.team", change: func() error {
			_, err := eks.NewFromConfig(from.AWS).UpdateNodegroupConfig(ctx, &eks.UpdateNodegroupConfigInput{ClusterName: &from.Cluster, NodegroupName: aws.String(harbor.Batch),
				Labels: &ekstypes.UpdateLabelsPayload{AddOrUpdateLabels: map[string]string{"team": "x"}}})
			return err
		}},
		"Queue": {object: "queue ", field: "exists", change: func() error {
			_, err := sqs.NewFromConfig(from.AWS).CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: aws.String("left-over")})
			return err
		}},
		"Rule": {object: "rule left-over", field: "exists", change: func() error {
			_, err := eventbridge.NewFromConfig(from.AWS).PutRule(ctx, &eventbridge.PutRuleInput{Name: aws.String("left-over"), EventPattern: aws.String(`{"source":["aws.ec2"]}`)})
			return err
		}},
		"Role": {object: "role left-over", field: "exists", change: func() error {
			_, err := iam.NewFromConfig(from.AWS).CreateRole(ctx, &iam.CreateRoleInput{RoleName: aws.String("left-over"), AssumeRolePolicyDocument: aws.String("{}")})
			return err
		}},
		"Association": {object: "pod identity kube-system/karpenter", field: "exists", change: func() error {
			_, err := eks.NewFromConfig(from.AWS).CreatePodIdentityAssociation(ctx, &eks.CreatePodIdentityAssociationInput{ClusterName: &from.Cluster, Namespace: aws.String("kube-system"),
				ServiceAccount: aws.String("karpenter"), RoleArn: aws.String("arn:aws:iam::123456789012:role/castoff")})
			return err
		}},
		"Node": {object: "node n1", field: "taints[castoff.sh/legacy:NoSchedule]", change: func() error {
			return k8s.Patch(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"taints":[{"key":"castoff.sh/legacy","value":"true","effect":"NoSchedule"}]}}`)))
		}},
		"Autoscaler": {object: "Deployment kube-system/cluster-autoscaler", field: "replicas", change: func() error {
			return k8s.Patch(ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "cluster-autoscaler"}}, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"replicas":0}}`)))
		}},
		"Lease": {object: "Deployment kube-system/cluster-autoscaler", field: "leads", change: func() error {
			return k8s.Patch(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "cluster-autoscaler"}}, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"holderIdentity":"castoff"}}`)))
		}},
		"LeftOver": {object: "Secret kube-system/sh.helm.release.v1.karpenter.v1", field: "exists", change: func() error {
			return k8s.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "sh.helm.release.v1.karpenter.v1"}})
		}},
	}
	for name, tc := range changes {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			before, err := state.Read(ctx, from)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(before.Count()).To(BeNumerically(">", 400), "values that are compared")
			g.Expect(before.Objects).NotTo(HaveKey("Secret castoff-system/snapshot"), "castoff's own")
			g.Expect(tc.change()).To(Succeed())
			g.Eventually(func() []state.Difference {
				after, err := state.Read(ctx, from)
				g.Expect(err).NotTo(HaveOccurred())
				return state.Compare(before, after)
			}, "10s", "100ms").Should(ContainElement(Satisfy(func(d state.Difference) bool {
				return strings.HasPrefix(d.Object, tc.object) && d.Field == tc.field && !strings.Contains(d.String(), "castoff-system/snapshot")
			})))
		})
	}
}
