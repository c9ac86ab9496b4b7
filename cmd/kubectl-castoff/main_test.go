package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/controllers"
	"github.com/castoff-sh/castoff/pkg/helm"
	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/nodegroup"
)

var now = time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)

// fakeClient knows the objects, and finds pods by node as the API server does.
func fakeClient(t *testing.T, funcs interceptor.Funcs, objects ...client.Object) client.WithWatch {
	t.Helper()
	scheme, err := controllers.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&v1alpha1.Migration{}).
		WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string {
			if p, ok := o.(*corev1.Pod); ok {
				return []string{p.Spec.NodeName}
			}
			return nil
		}).WithInterceptorFuncs(funcs).Build()
}

// run is the plugin, as a shell would run it.
func run(t *testing.T, c client.Client, o *controllers.Observer, stdin string, arguments ...string) (string, error) {
	t.Helper()
	a := newApp()
	a.connect = func() (client.Client, error) { return c, nil }
	a.observer = func(context.Context, client.Client, string) (*controllers.Observer, error) { return o, nil }
	a.prices = listed
	cmd := a.root()
	var out bytes.Buffer
	cmd.SetArgs(arguments)
	cmd.SetIn(strings.NewReader(stdin))
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

// message of an error, empty without one.
func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func migrationNamed(name string, change ...func(*v1alpha1.Migration)) *v1alpha1.Migration {
	m := &v1alpha1.Migration{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.MigrationSpec{ClusterName: "prod", Approval: v1alpha1.ApprovalManual}}
	for _, c := range change {
		c(m)
	}
	return m
}

// refuseWrites fails the test at every write, whichever it is.
func refuseWrites(t *testing.T) interceptor.Funcs {
	t.Helper()
	refuse := func(verb string, o any) error {
		t.Errorf("%s of %T: plan writes nothing", verb, o)
		return fmt.Errorf("%s refused", verb)
	}
	return interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
			return refuse("create", o)
		},
		Update: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.UpdateOption) error {
			return refuse("update", o)
		},
		Patch: func(_ context.Context, _ client.WithWatch, o client.Object, _ client.Patch, _ ...client.PatchOption) error {
			return refuse("patch", o)
		},
		Delete: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.DeleteOption) error {
			return refuse("delete", o)
		},
		DeleteAllOf: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.DeleteAllOfOption) error {
			return refuse("deletecollection", o)
		},
		Apply: func(_ context.Context, _ client.WithWatch, o runtime.ApplyConfiguration, _ ...client.ApplyOption) error {
			return refuse("apply", o)
		},
		SubResourceCreate: func(_ context.Context, _ client.Client, _ string, o client.Object, _ client.Object, _ ...client.SubResourceCreateOption) error {
			return refuse("create subresource", o)
		},
		SubResourceUpdate: func(_ context.Context, _ client.Client, _ string, o client.Object, _ ...client.SubResourceUpdateOption) error {
			return refuse("update subresource", o)
		},
		SubResourcePatch: func(_ context.Context, _ client.Client, _ string, o client.Object, _ client.Patch, _ ...client.SubResourcePatchOption) error {
			return refuse("patch subresource", o)
		},
	}
}

// notInstalled answers as a cluster without castoff's definition does.
func notInstalled() interceptor.Funcs {
	no := &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "castoff.sh", Kind: "Migration"}, SearchedVersions: []string{"v1alpha1"}}
	return interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return no
		},
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return no },
	}
}

// The doubles answer what is read. Every other method is that of a nil interface: a write would end the test.
type (
	nodeGroups   struct{ controllers.NodeGroups }
	interruption struct{ controllers.Interruption }
	identities   struct{ controllers.Identity }
	autoscalers  struct{ controllers.Autoscalers }
	provisioner  struct{ controllers.Provisioner }
	releases     struct{ controllers.Releases }
	drainer      struct{ controllers.Drainer }
	snapshots    struct{ controllers.Snapshots }

	noCluster struct{ controllers.NodeGroups }
)

func (nodeGroups) Cluster(context.Context) (inventory.Cluster, error) {
	return inventory.Cluster{
		Name: "prod", ARN: "arn:aws:eks:us-east-1:123456789012:cluster/prod", Account: "123456789012", Region: "us-east-1", Partition: "aws",
		Version: "1.33", SecurityGroup: "sg-cluster", CABundle: "Q0E=",
	}, nil
}

func (nodeGroups) List(context.Context, ...string) ([]inventory.NodeGroup, error) {
	return []inventory.NodeGroup{home(), group("general")}, nil
}

func (nodeGroups) Surroundings(context.Context, inventory.Cluster, []inventory.NodeGroup) (inventory.Surroundings, error) {
	return inventory.Surroundings{}, nil
}

func (nodeGroups) SecurityGroups(context.Context) ([]inventory.SecurityGroup, error) {
	return []inventory.SecurityGroup{{ID: "sg-cluster"}}, nil
}

// Families: EC2 has a c5a.xlarge, and nothing of any other family.
func (nodeGroups) Families(_ context.Context, names []string) ([]inventory.InstanceFamily, error) {
	out := make([]inventory.InstanceFamily, len(names))
	for i, name := range names {
		out[i].Name = name
		if name == "c5a" {
			out[i].Types = []inventory.InstanceType{{Name: "c5a.xlarge", Architecture: "amd64", VCPUs: 4, MemoryMiB: 8192}}
		}
	}
	return out, nil
}

// home has room for both of Karpenter's replicas.
func home() inventory.NodeGroup {
	g := group("system")
	g.Instances = append(g.Instances, inventory.Instance{ID: "i-system-2", Type: "m5.large", Lifecycle: "InService", Healthy: true})
	return g
}

func group(name string) inventory.NodeGroup {
	return inventory.NodeGroup{
		Name: name, AutoScalingGroup: name, Min: 0, Max: 4, Desired: 2, Subnets: []string{"subnet-1"}, Zones: []string{"us-east-1a"},
		Instances: []inventory.Instance{{ID: "i-" + name, Type: "m5.large", Lifecycle: "InService", Healthy: true}},
		LaunchTemplate: inventory.LaunchTemplate{
			InstanceType: "m5.large", ImageID: "ami-1", SecurityGroups: []string{"sg-1"}, Version: "1", Asked: "1",
			Image:    &inventory.Image{Name: "amazon-eks-node-al2023-x86_64-standard-1.33-v20260114", Architecture: "x86_64"},
			Metadata: &inventory.Metadata{HopLimit: 2, Tokens: "required"},
		},
	}
}

func (noCluster) Cluster(context.Context) (inventory.Cluster, error) {
	return inventory.Cluster{}, inventory.Terminal(nodegroup.ErrClusterNotFound)
}

func (interruption) Observe(context.Context, inventory.Cluster) (inventory.Interruption, error) {
	return inventory.Interruption{Ready: true}, nil
}

func (identities) Observe(context.Context, inventory.Cluster, []string) (inventory.Identity, error) {
	return inventory.Identity{Ready: true}, nil
}

func (identities) Check(context.Context, inventory.Cluster) ([]inventory.Permission, error) {
	return nil, nil
}

func (autoscalers) Find(context.Context) ([]inventory.Autoscaler, error) {
	return []inventory.Autoscaler{{
		Deployment: types.NamespacedName{Namespace: "kube-system", Name: "cluster-autoscaler"}, Replicas: 1, Static: []string{"general"}, LeaderElect: true,
	}}, nil
}

func (drainer) Placeholders(context.Context) ([]inventory.Placeholder, error) { return nil, nil }

func (provisioner) Observe(context.Context) (inventory.Engine, error) { return inventory.Engine{}, nil }

func (releases) Observe(context.Context, helm.Release) (helm.State, error) { return helm.State{}, nil }

func (releases) ObserveCRDs(context.Context, helm.Release) ([]helm.CRD, error) { return nil, nil }

func (snapshots) Load(context.Context, string) (*inventory.Snapshot, string, error) {
	return nil, "", nil
}

// observer looks at the fake cluster and at the doubles.
func observer(c client.Client, groups controllers.NodeGroups) *controllers.Observer {
	return &controllers.Observer{
		Client: c, Live: c, Clock: func() time.Time { return now }, CABundle: []byte("CA"),
		Engine:       helm.Engine{Namespace: "kube-system", Image: "ghcr.io/castoff-sh/provisioner:dev"},
		NodeGroupsOf: func(string) controllers.NodeGroups { return groups },
		Ports: controllers.Ports{
			Interruption: interruption{}, Identity: identities{}, Autoscalers: autoscalers{}, Provisioner: provisioner{}, Releases: releases{},
			Drainer: drainer{}, Snapshots: snapshots{},
		},
	}
}

func node(name string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"group": name}},
		Spec:       corev1.NodeSpec{ProviderID: "aws:///us-east-1a/i-" + name},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
}

var errDown = errors.New("connection refused")
