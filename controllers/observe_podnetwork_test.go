package controllers

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/plan"
)

// awsNode is the VPC CNI plugin with these variables, by name and value.
func awsNode(variables ...string) *appsv1.DaemonSet {
	ds := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "aws-node"}}
	c := corev1.Container{Name: "aws-node"}
	for i := 0; i < len(variables); i += 2 {
		c.Env = append(c.Env, corev1.EnvVar{Name: variables[i], Value: variables[i+1]})
	}
	other := corev1.Container{Name: "aws-eks-nodeagent", Env: []corev1.EnvVar{{Name: "ENABLE_PREFIX_DELEGATION", Value: "true"}}}
	ds.Spec.Template.Spec.Containers = []corev1.Container{c, other}
	return ds
}

// networkReader has the plugin, and ENIConfigs; err is what a list of these answers.
type networkReader struct {
	client.Reader
	plugin *appsv1.DaemonSet
	names  []string
	err    error
	reads  *int
}

func (r networkReader) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	*r.reads++
	ds, ok := into.(*appsv1.DaemonSet)
	switch {
	case !ok || key != client.ObjectKey{Namespace: "kube-system", Name: "aws-node"}:
		return errors.New("not asked for: " + key.String())
	case r.plugin == nil:
		return apierrors.NewNotFound(schema.GroupResource{Group: "apps", Resource: "daemonsets"}, key.Name)
	}
	r.plugin.DeepCopyInto(ds)
	return nil
}

func (r networkReader) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	list, ok := into.(*unstructured.UnstructuredList)
	if !ok || list.GroupVersionKind() != (schema.GroupVersionKind{Group: "crd.k8s.amazonaws.com", Version: "v1alpha1", Kind: "ENIConfigList"}) {
		return errors.New("not asked for")
	}
	for _, name := range r.names {
		u := unstructured.Unstructured{Object: map[string]any{}}
		u.SetName(name)
		list.Items = append(list.Items, u)
	}
	return r.err
}

func TestPodNetwork(t *testing.T) {
	const custom, label, prefixes = "AWS_VPC_K8S_CNI_CUSTOM_NETWORK_CFG", "ENI_CONFIG_LABEL_DEF", "ENABLE_PREFIX_DELEGATION"
	kind := schema.GroupKind{Group: "crd.k8s.amazonaws.com", Kind: "ENIConfig"}
	cases := map[string]struct {
		reason string
		reader networkReader
		want   inventory.PodNetwork
		fails  bool
	}{
		"None": {
			reason: "another plugin gives the pods their addresses",
		},
		"Default": {
			reason: "as EKS installs it; another container's variables are not the plugin's",
			reader: networkReader{plugin: awsNode(custom, "false", prefixes, "false"), names: []string{"unread"}},
			want:   inventory.PodNetwork{ENIConfigLabel: inventory.DefaultENIConfigLabel},
		},
		"Prefixes": {
			reason: "the last value of a name counts, as it does for the kubelet",
			reader: networkReader{plugin: awsNode(prefixes, "false", prefixes, "true")},
			want:   inventory.PodNetwork{PrefixDelegation: true, ENIConfigLabel: inventory.DefaultENIConfigLabel},
		},
		"Custom": {
			reason: "with the ENIConfigs, found by zone",
			reader: networkReader{plugin: awsNode(custom, "true", label, "topology.kubernetes.io/zone"), names: []string{"us-east-1a", "us-east-1b"}},
			want:   inventory.PodNetwork{CustomNetworking: true, ENIConfigLabel: "topology.kubernetes.io/zone", ENIConfigs: []string{"us-east-1a", "us-east-1b"}},
		},
		"CustomWithoutKind": {
			reason: "the definition was never installed: there is none",
			reader: networkReader{plugin: awsNode(custom, "true"), err: &meta.NoKindMatchError{GroupKind: kind}},
			want:   inventory.PodNetwork{CustomNetworking: true, ENIConfigLabel: inventory.DefaultENIConfigLabel},
		},
		"CustomKindGone": {
			reason: "or was removed a moment ago",
			reader: networkReader{plugin: awsNode(custom, "true"), err: apierrors.NewNotFound(schema.GroupResource{}, "eniconfigs")},
			want:   inventory.PodNetwork{CustomNetworking: true, ENIConfigLabel: inventory.DefaultENIConfigLabel},
		},
		"Refused": {
			reason: "what cannot be read is not taken for nothing",
			reader: networkReader{plugin: awsNode(custom, "true"), err: apierrors.NewForbidden(schema.GroupResource{}, "eniconfigs", errors.New("no"))},
			fails:  true,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o, reads := newWorld(t).reconciler().Observer, 0
			tc.reader.reads = &reads
			o.Live = tc.reader
			for range 2 {
				got, err := o.podNetwork(t.Context())
				if (err != nil) != tc.fails {
					t.Fatalf("%s: %v", tc.reason, err)
				}
				if diff := cmp.Diff(tc.want, got); err == nil && diff != "" {
					t.Errorf("%s: -want +got\n%s", tc.reason, diff)
				}
			}
			if want := map[bool]int{false: 1, true: 2}[tc.fails]; reads != want {
				t.Errorf("%s: the plugin was read %d times in two looks, want %d", tc.reason, reads, want)
			}
		})
	}
}

// deniedGroups may not read security groups.
type deniedGroups struct{ NodeGroups }

type accessDenied struct{}

func (accessDenied) Error() string     { return "UnauthorizedOperation" }
func (accessDenied) ErrorCode() string { return "UnauthorizedOperation" }

func (deniedGroups) SecurityGroups(context.Context) ([]inventory.SecurityGroup, error) {
	return nil, accessDenied{}
}

type brokenGroups struct{ NodeGroups }

func (brokenGroups) SecurityGroups(context.Context) ([]inventory.SecurityGroup, error) {
	return nil, errors.New("connection reset")
}

func TestSecurityGroupsAreNoReasonToStop(t *testing.T) {
	o := newWorld(t).reconciler().Observer
	o.Ports.NodeGroups = deniedGroups{}
	if got, err := o.securityGroups(t.Context()); err != nil || got != nil {
		t.Errorf("a castoff that may not read them does without a warning about them: %v, %v", got, err)
	}
	o.tagged.forget()
	o.Ports.NodeGroups = brokenGroups{}
	if _, err := o.securityGroups(t.Context()); err == nil {
		t.Error("a look that failed is one that is tried again")
	}
}

// Whoever is on call may add a family at any time: the target follows the spec, not the snapshot.
func TestFamiliesReachTheTarget(t *testing.T) {
	types := func(w plan.World) []string {
		return w.Targets["general"].NodePool.Spec.Template.Spec.Requirements[0].Values
	}
	m := testMigration()
	m.Spec.Pools = []v1alpha1.Pool{{Name: "general", NodeGroups: []string{"general"}}, {Name: "other", NodeGroups: []string{"none"}, InstanceFamilies: []string{"c7i"}}}
	m.Spec.Home = &v1alpha1.Home{NodeGroup: "system"}
	families := []inventory.InstanceFamily{
		{Name: "c7i", Types: []inventory.InstanceType{{Name: "c7i.large", Architecture: "amd64", VCPUs: 2, MemoryMiB: 8192}}},
		{Name: "m6i", Types: []inventory.InstanceType{{Name: "m6i.large", Architecture: "amd64", VCPUs: 2, MemoryMiB: 8192}}},
	}
	before := targetWorld()
	before.Families = families
	(&Observer{}).resolve(m, &before)
	if diff := cmp.Diff([]string{"m5.large"}, types(before)); diff != "" {
		t.Errorf("another pool's families are not this one's: -want +got\n%s", diff)
	}
	if before.Pools[0].Families != nil {
		t.Error("the families went into what the snapshot is made of")
	}
	after := targetWorld()
	after.Families = families
	after.Snapshot = roundTrip(t, &inventory.Snapshot{Home: "system", Pools: before.Pools, Groups: []inventory.GroupSnapshot{{Group: before.Groups[0]}}})
	m.Spec.Pools[0].InstanceFamilies = []string{"m6i"}
	(&Observer{}).resolve(m, &after)
	if diff := cmp.Diff([]string{"m5.large", "m6i.large"}, types(after)); diff != "" {
		t.Errorf("a family that is added after the snapshot: -want +got\n%s", diff)
	}
	if before.Targets["general"].NodeClass.Annotations[v1alpha1.AnnotationTargetHash] != after.Targets["general"].NodeClass.Annotations[v1alpha1.AnnotationTargetHash] {
		t.Error("the class that a canary proved is another one")
	}
}

func TestFamiliesAreAskedForOnlyWhereNamed(t *testing.T) {
	w := newWorld(t)
	o := w.reconciler().Observer
	o.Ports.NodeGroups = ports{w}
	m := testMigration()
	got, err := o.families(t.Context(), m)
	if err != nil || got != nil || w.calls["Families"] != 0 {
		t.Errorf("nobody named one: %v, %v", got, err)
	}
	m.Spec.Pools = []v1alpha1.Pool{{Name: "a", InstanceFamilies: []string{"m6i", "c7i"}}, {Name: "b", InstanceFamilies: []string{"m6i"}}}
	if got, err = o.families(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range got {
		names = append(names, f.Name)
	}
	if diff := cmp.Diff([]string{"c7i", "m6i"}, names); diff != "" {
		t.Errorf("each once for all pools: -want +got\n%s", diff)
	}
}

func TestCase_C068_CustomNetworkingReservesAnInterface(t *testing.T) {
	cases := map[string]struct {
		reason  string
		network inventory.PodNetwork
		want    any
	}{
		"Default":  {"the chart's default is 0", inventory.PodNetwork{}, nil},
		"Prefixes": {"prefix delegation reserves none", inventory.PodNetwork{PrefixDelegation: true}, nil},
		"Custom":   {"the first interface of a node has no addresses for pods: Karpenter must not count them", inventory.PodNetwork{CustomNetworking: true}, "1"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r, err := newWorld(t).reconciler().Observer.engineRelease(testMigration(), plan.World{PodNetwork: tc.network})
			if err != nil {
				t.Fatal(err)
			}
			settings, _ := r.Values["settings"].(map[string]any)
			if diff := cmp.Diff(tc.want, settings["reservedENIs"]); diff != "" {
				t.Errorf("%s: settings.reservedENIs -want +got\n%s", tc.reason, diff)
			}
		})
	}
}
