package translate

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"

	karpapis "github.com/aws/karpenter-provider-aws/pkg/apis"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/castoff-sh/castoff/e2e/envtest"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// api is a real API server with Karpenter's own definitions.
var api client.Client

func TestMain(m *testing.M) {
	flag.Parse()
	if worker := flag.Lookup("test.fuzzworker"); worker != nil && worker.Value.String() == "true" {
		os.Exit(m.Run()) // one API server is enough, and a worker that ends would leave its own behind
	}
	var definitions []*apiextensionsv1.CustomResourceDefinition
	for _, b := range [][]byte{karpapis.NodePoolCRD, karpapis.EC2NodeClassCRD} {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.Unmarshal(b, crd); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		definitions = append(definitions, crd)
	}
	os.Exit(envtest.Main(m.Run, func(c *envtest.Cluster) { api = c.Client }, definitions...))
}

// validates asks the API server, and Karpenter's own code, whether they take what was made.
func validates(t *testing.T, target inventory.Target) {
	t.Helper()
	for _, o := range []any{&target.NodePool, &target.NodeClass} {
		b, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		u := &unstructured.Unstructured{}
		if err := json.Unmarshal(b, &u.Object); err != nil {
			t.Fatal(err)
		}
		delete(u.Object, "status")
		if err := api.Create(t.Context(), u, client.DryRunAll, client.FieldValidation("Strict")); err != nil {
			t.Errorf("the API server refuses what was made: %v\n%s", err, asYAML(t, o))
		}
	}
	if err := target.NodePool.RuntimeValidate(t.Context()); err != nil {
		t.Errorf("Karpenter refuses the NodePool: %v", err)
	}
}

// asYAML is an object or spec as people read it.
func asYAML(t *testing.T, o any) string {
	t.Helper()
	b, err := yaml.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(b), "capacityReservationSelectorTerms: null\n", "") // the type has no omitempty
}

var cluster = inventory.Cluster{Name: "prod", SecurityGroup: "sg-cluster"}

// instanceTypes are those that the tests use, as EC2 describes them.
var instanceTypes = []inventory.InstanceType{
	{Name: "c5.large", Architecture: "amd64", VCPUs: 2, MemoryMiB: 4096}, {Name: "m5.large", Architecture: "amd64", VCPUs: 2, MemoryMiB: 8192},
	{Name: "m5.xlarge", Architecture: "amd64", VCPUs: 4, MemoryMiB: 16384}, {Name: "m6i.large", Architecture: "amd64", VCPUs: 2, MemoryMiB: 8192},
	{Name: "r6g.xlarge", Architecture: "arm64", VCPUs: 4, MemoryMiB: 32768},
}

// plain is a launch-template Auto Scaling group with nothing to list but its sizes.
func plain(change ...func(*inventory.NodeGroup)) inventory.NodeGroup {
	g := inventory.NodeGroup{
		Name: "asg", AutoScalingGroup: "asg", Max: 5, Subnets: []string{"subnet-b", "subnet-a"}, Types: instanceTypes,
		LaunchTemplate: inventory.LaunchTemplate{
			InstanceType: "m5.large", ImageID: "ami-1", Version: "3", Asked: "3", SecurityGroups: []string{"sg-1"},
			Image:    &inventory.Image{ID: "ami-1", Name: "amazon-eks-node-al2023-x86_64-standard-1.33-v20260114", Architecture: "x86_64"},
			Metadata: &inventory.Metadata{Endpoint: "enabled", HopLimit: 2, Tokens: "required"},
		},
	}
	for _, c := range change {
		c(&g)
	}
	return g
}

// managed is an EKS managed node group without a launch template of the user's.
func managed(amiType, release string, change ...func(*inventory.NodeGroup)) inventory.NodeGroup {
	g := plain(func(g *inventory.NodeGroup) {
		g.Name = "mng"
		g.Managed = &inventory.ManagedNodeGroup{
			Status: "ACTIVE", AMIType: amiType, ReleaseVersion: release, CapacityType: "ON_DEMAND", InstanceTypes: []string{"m6i.large", "m5.large"},
		}
	})
	for _, c := range change {
		c(&g)
	}
	return g
}

func template(change func(*inventory.LaunchTemplate)) func(*inventory.NodeGroup) {
	return func(g *inventory.NodeGroup) { change(&g.LaunchTemplate) }
}

func withUserData(s string) func(*inventory.NodeGroup) {
	return template(func(lt *inventory.LaunchTemplate) { lt.UserData = s })
}

func tagged(tags ...inventory.Tag) func(*inventory.NodeGroup) {
	return func(g *inventory.NodeGroup) { g.Tags = append(g.Tags, tags...) }
}

func named(name string) func(*inventory.NodeGroup) {
	return func(g *inventory.NodeGroup) { g.Name = name }
}

// translated is the target of the groups as one pool; it has to be valid.
func translated(t *testing.T, groups ...inventory.NodeGroup) inventory.Target {
	t.Helper()
	target, err := Pool(cluster, inventory.Pool{Name: "general"}, groups, "KarpenterNodeRole-prod")
	if err != nil {
		t.Fatal(err)
	}
	validates(t, target)
	return target
}

// fields are what was listed, by field.
func fields(target inventory.Target) []string {
	var out []string
	for _, n := range target.NotCarried {
		out = append(out, n.Field)
	}
	return out
}

// labelsOf are the labels of the pool's nodes without those that EKS adds to a managed node group's.
func labelsOf(target inventory.Target) map[string]string {
	out := maps.Clone(target.NodePool.Spec.Template.Labels)
	delete(out, labelNodeGroup)
	delete(out, labelCapacityType)
	return out
}

// requirement is the values of a key, nil without one.
func requirement(target inventory.Target, key string) []string {
	for _, r := range target.NodePool.Spec.Template.Spec.Requirements {
		if r.Key == key {
			return r.Values
		}
	}
	return nil
}
