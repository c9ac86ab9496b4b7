package v1alpha1_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/e2e/envtest"
)

const definitionFile = "../../charts/castoff/crds/castoff.sh_migrations.yaml"

var (
	// api talks to a real API server that knows the definition users install.
	api        client.Client
	definition = &apiextensionsv1.CustomResourceDefinition{}
)

func TestMain(m *testing.M) {
	if err := readDefinition(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(envtest.Main(m.Run, connect, definition))
}

func readDefinition() error {
	b, err := os.ReadFile(filepath.FromSlash(definitionFile))
	if err != nil {
		return err
	}
	return yaml.UnmarshalStrict(b, definition)
}

func connect(c *envtest.Cluster) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		panic(err)
	}
	connected, err := client.New(c.Config, client.Options{Scheme: scheme})
	if err != nil {
		panic(err)
	}
	api = connected
}

// migration is the shortest that is valid, after the changes.
func migration(change ...func(*v1alpha1.Migration)) *v1alpha1.Migration {
	m := &v1alpha1.Migration{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "case-"},
		Spec:       v1alpha1.MigrationSpec{ClusterName: "prod"},
	}
	for _, c := range change {
		c(m)
	}
	return m
}

// created stores the Migration, and takes it away at the end of the test.
func created(t *testing.T, m *v1alpha1.Migration) *v1alpha1.Migration {
	t.Helper()
	if err := api.Create(t.Context(), m); err != nil {
		t.Fatalf("creating a valid Migration: %v", err)
	}
	remove(t, m)
	return m
}

// remove deletes the object when the test is over.
func remove(t *testing.T, o client.Object) {
	t.Helper()
	t.Cleanup(func() {
		if err := api.Delete(context.Background(), o); client.IgnoreNotFound(err) != nil {
			t.Errorf("deleting %s: %v", o.GetName(), err)
		}
	})
}

// raw is a Migration as a user writes it: what is not in spec is absent, not zero.
func raw(spec map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	u.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("Migration"))
	u.SetGenerateName("raw-")
	return u
}
