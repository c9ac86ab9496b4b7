package provisioner

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

var harborWithQueue = inventory.Cluster{Name: "harbor", Provided: inventory.Provided{Engine: true, Queue: "interruptions"}}

// fitting is a Karpenter that can be adopted.
func fitting(change ...func(*inventory.Karpenter)) inventory.Karpenter {
	k := inventory.Karpenter{
		Namespace: "karpenter", Name: "karpenter", ServiceAccount: "karpenter", Version: "1.12.1", ClusterName: "harbor", InterruptionQueue: "interruptions",
		Replicas: 2, ReadyReplicas: 2,
	}
	for _, f := range change {
		f(&k)
	}
	return k
}

func TestAdopt(t *testing.T) {
	cases := map[string]struct {
		reason  string
		others  []inventory.Karpenter
		ours    int32
		want    []string // in the misfits
		replica int32
	}{
		"Fits":         {reason: "its pods are the engine's", others: []inventory.Karpenter{fitting()}, replica: 2},
		"OldestFits":   {reason: "from 1.9 on", others: []inventory.Karpenter{fitting(func(k *inventory.Karpenter) { k.Version = "1.9.0" })}, replica: 2},
		"None":         {reason: "nothing to adopt", want: []string{"no Deployment of Karpenter's"}},
		"Two":          {reason: "they launch twice", others: []inventory.Karpenter{fitting(), fitting(func(k *inventory.Karpenter) { k.Namespace = "kube-system" })}, want: []string{"2 Deployments of Karpenter's are here (karpenter/karpenter, kube-system/karpenter)"}},
		"Ours":         {reason: "castoff's own is BuiltIn", ours: 2, want: []string{"castoff's own"}},
		"TooOld":       {reason: "its API refuses labels", others: []inventory.Karpenter{fitting(func(k *inventory.Karpenter) { k.Version = "1.8.6" })}, want: []string{"version 1.8.6, castoff needs 1.9.0"}, replica: 2},
		"Beta":         {reason: "its API is another", others: []inventory.Karpenter{fitting(func(k *inventory.Karpenter) { k.Version = "0.37.0" })}, want: []string{"version 0.37.0"}, replica: 2},
		"NoVersion":    {reason: "an image by digest", others: []inventory.Karpenter{fitting(func(k *inventory.Karpenter) { k.Version = "" })}, want: []string{"tells the version"}, replica: 2},
		"OtherCluster": {reason: "it would end this cluster's nodes as leaked", others: []inventory.Karpenter{fitting(func(k *inventory.Karpenter) { k.ClusterName = "pier" })}, want: []string{`cluster "pier", not for "harbor"`}, replica: 2},
		"OtherQueue":   {reason: "what castoff checked is not what it reads", others: []inventory.Karpenter{fitting(func(k *inventory.Karpenter) { k.InterruptionQueue = "" })}, want: []string{`reads queue "", and spec.provisioner says "interruptions"`}, replica: 2},
		"Everything":   {reason: "all at once", others: []inventory.Karpenter{fitting(func(k *inventory.Karpenter) { k.Version, k.ClusterName, k.InterruptionQueue = "1.0.0", "", "x" })}, want: []string{"1.0.0", `cluster ""`, `queue "x"`}, replica: 2},
		"Hidden":       {reason: "what comes from a ConfigMap is not judged", others: []inventory.Karpenter{fitting(func(k *inventory.Karpenter) { k.ClusterName, k.SettingsHidden = "", true })}, replica: 2},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := Adopt(inventory.Engine{Others: tc.others, Foreign: []string{"x/y"}, Replicas: tc.ours}, harborWithQueue)
			if !got.Adopted || len(got.Foreign) != 0 || got.Release != inventory.ReleaseDeployed || !got.ReleaseCurrent || !got.CRDsCurrent || got.CRDs || got.Replicas != tc.replica {
				t.Errorf("%s: %+v; want it adopted, and nothing to install", tc.reason, got)
			}
			if len(got.Misfits) != len(tc.want) {
				t.Errorf("%s: misfits %q, want %d", tc.reason, got.Misfits, len(tc.want))
			}
			for i, want := range tc.want {
				if i < len(got.Misfits) && !strings.Contains(got.Misfits[i], want) {
					t.Errorf("%s: %q does not say %q", tc.reason, got.Misfits[i], want)
				}
			}
			namespace, account := ServiceAccount(got)
			if one := len(tc.others) == 1; (namespace == "karpenter" && account == "karpenter") != one {
				t.Errorf("%s: ServiceAccount %s/%s", tc.reason, namespace, account)
			}
		})
	}
	if namespace, account := ServiceAccount(inventory.Engine{Others: []inventory.Karpenter{fitting()}}); namespace+account != "" {
		t.Errorf("a Karpenter that is not adopted has ServiceAccount %s/%s", namespace, account)
	}
}

func TestReadOther(t *testing.T) {
	deployment := func(change ...func(*appsv1.Deployment)) *appsv1.Deployment {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "karpenter", Name: "karpenter"}}
		d.Spec.Replicas = ptr.To[int32](2)
		d.Status.ReadyReplicas = 2
		d.Spec.Template.Spec = corev1.PodSpec{ServiceAccountName: "karpenter", Containers: []corev1.Container{{
			Image: "public.ecr.aws/karpenter/controller:1.12.1@sha256:00",
			Env:   []corev1.EnvVar{{Name: "CLUSTER_NAME", Value: "harbor"}, {Name: "INTERRUPTION_QUEUE", Value: "interruptions"}},
		}}}
		for _, f := range change {
			f(d)
		}
		return d
	}
	container := func(change func(*corev1.Container)) func(*appsv1.Deployment) {
		return func(d *appsv1.Deployment) { change(&d.Spec.Template.Spec.Containers[0]) }
	}
	cases := map[string]struct {
		reason     string
		deployment *appsv1.Deployment
		want       inventory.Karpenter
	}{
		"Upstreams": {"as its chart writes it", deployment(), fitting()},
		"Label":     {"the label counts more than a mirror's tag", deployment(func(d *appsv1.Deployment) { d.Labels = map[string]string{"app.kubernetes.io/version": "v1.13.0"} }), fitting(func(k *inventory.Karpenter) { k.Version = "1.13.0" })},
		"ByDigest":  {"a port is no tag", deployment(container(func(c *corev1.Container) { c.Image = "mirror:5000/karpenter/controller@sha256:00" })), fitting(func(k *inventory.Karpenter) { k.Version = "" })},
		"NotReady": {"one of two", deployment(func(d *appsv1.Deployment) { d.Status.ReadyReplicas = 1 }), fitting(func(k *inventory.Karpenter) {
			k.ReadyReplicas, k.Message = 1, "1 of 2 replicas of karpenter/karpenter are ready"
		})},
		"Flags":     {"a flag may say otherwise", deployment(container(func(c *corev1.Container) { c.Args = []string{"--cluster-name=pier"} })), fitting(func(k *inventory.Karpenter) { k.SettingsHidden = true })},
		"ConfigMap": {"so may a ConfigMap", deployment(container(func(c *corev1.Container) { c.EnvFrom = []corev1.EnvFromSource{{}} })), fitting(func(k *inventory.Karpenter) { k.SettingsHidden = true })},
		"ValueFrom": {"or a key of one", deployment(container(func(c *corev1.Container) {
			c.Env[0] = corev1.EnvVar{Name: "CLUSTER_NAME", ValueFrom: &corev1.EnvVarSource{}}
		})), fitting(func(k *inventory.Karpenter) {
			k.ClusterName, k.SettingsHidden = "", true
		})},
		"Empty": {"what somebody else wrote may be anything", &appsv1.Deployment{}, inventory.Karpenter{Replicas: 1, Message: "0 of 1 replicas of / are ready"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, readOther(tc.deployment)); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}
