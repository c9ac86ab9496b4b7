package provisioner

import (
	"context"
	"os"
	"testing"
	"time"

	awsapis "github.com/aws/karpenter-provider-aws/pkg/apis"
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/e2e/envtest"
)

var cluster *envtest.Cluster

func TestMain(m *testing.M) {
	os.Exit(envtest.Main(m.Run, func(c *envtest.Cluster) { cluster = c }, awsapis.CRDs...))
}

var now = time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)

func clock() time.Time { return now }

// in gives a client whose engine and canaries live in one namespace.
func in(namespace string) *Client { return with(cluster.Client, namespace) }

func with(c client.Client, namespace string) *Client {
	return New(c, c, clock, Options{Namespace: namespace, CastoffNamespace: namespace, CanaryImage: "example.com/castoff:1", CanaryArgs: []string{"wait"}})
}

// namespace makes one of its own for a test.
func namespace(t *testing.T) string {
	t.Helper()
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "provisioner-"}}
	create(t, object)
	return object.Name
}

// create makes an object that goes with the test.
func create(t *testing.T, object client.Object) {
	t.Helper()
	if err := cluster.Client.Create(t.Context(), object); err != nil {
		t.Fatalf("creating %T %s: %v", object, object.GetName(), err)
	}
	t.Cleanup(func() { remove(t, object) })
}

// remove deletes an object that may be gone, at the end of a test.
func remove(t *testing.T, object client.Object) {
	t.Helper()
	err := cluster.Client.Delete(context.WithoutCancel(t.Context()), object, client.GracePeriodSeconds(0))
	if client.IgnoreNotFound(err) != nil {
		t.Errorf("deleting %T %s: %v", object, object.GetName(), err)
	}
}

func read[T client.Object](t *testing.T, object T, namespace, name string) T {
	t.Helper()
	if err := cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, object); err != nil {
		t.Fatalf("reading %T %s: %v", object, name, err)
	}
	return object
}

// ours are the labels of what castoff makes for a pool.
func ours(pool string) map[string]string { return map[string]string{"castoff.sh/pool": pool} }

// nodeClass is a minimal one, that leaves to the API server what has a default.
func nodeClass(name string) *awsv1.EC2NodeClass {
	return &awsv1.EC2NodeClass{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: ours(name)},
		Spec: awsv1.EC2NodeClassSpec{
			Role:                       "KarpenterNodeRole-harbor",
			AMISelectorTerms:           []awsv1.AMISelectorTerm{{Alias: "al2023@v20260101"}},
			SubnetSelectorTerms:        []awsv1.SubnetSelectorTerm{{ID: "subnet-0123456789abcdef0"}},
			SecurityGroupSelectorTerms: []awsv1.SecurityGroupSelectorTerm{{ID: "sg-0123456789abcdef0"}},
		},
	}
}

// nodePool is a minimal one, that leaves to the API server what has a default.
func nodePool(name string) *karpv1.NodePool {
	return &karpv1.NodePool{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: ours(name)},
		Spec: karpv1.NodePoolSpec{
			Template: karpv1.NodeClaimTemplate{
				ObjectMeta: karpv1.ObjectMeta{Labels: map[string]string{"team": "a", "castoff.sh/pool": name}},
				Spec: karpv1.NodeClaimTemplateSpec{
					NodeClassRef: &karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: name},
					Taints:       []corev1.Taint{{Key: "dedicated", Value: name, Effect: corev1.TaintEffectNoSchedule}},
					Requirements: []karpv1.NodeSelectorRequirementWithMinValues{
						{Key: "node.kubernetes.io/instance-type", Operator: "In", Values: []string{"m5.large", "m6i.large"}},
					},
				},
			},
		},
	}
}

// owner is the Migration that a canary belongs to.
func owner() metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "castoff.sh/v1alpha1", Kind: "Migration", Name: "prod", UID: types.UID("a-uid")}
}

// karpenter is the Deployment that castoff's chart makes.
func karpenter(namespace string, change ...func(*appsv1.Deployment)) *appsv1.Deployment {
	selector := map[string]string{"app.kubernetes.io/name": "karpenter", "app.kubernetes.io/instance": "karpenter"}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "karpenter", Labels: map[string]string{
			"app.kubernetes.io/name": "karpenter", "app.kubernetes.io/managed-by": "Helm", "castoff.sh/managed-by": "castoff",
		}},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](2),
			Selector: &metav1.LabelSelector{MatchLabels: selector},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: selector},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "controller", Image: "example.com/castoff/provisioner:1"}}},
			},
		},
	}
	for _, c := range change {
		c(d)
	}
	return d
}
