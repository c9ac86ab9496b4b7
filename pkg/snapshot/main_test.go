package snapshot

import (
	"context"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/castoff-sh/castoff/e2e/envtest"
)

var cluster *envtest.Cluster

func TestMain(m *testing.M) {
	os.Exit(envtest.Main(m.Run, func(c *envtest.Cluster) { cluster = c }))
}

// namespace makes one of its own for a test.
func namespace(t *testing.T) string {
	t.Helper()
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "snapshot-"}}
	if err := cluster.Client.Create(t.Context(), object); err != nil {
		t.Fatalf("creating a namespace: %v", err)
	}
	return object.Name
}

// countingReader counts what is read.
type countingReader struct {
	client.Reader
	gets int
}

func (r *countingReader) Get(ctx context.Context, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
	r.gets++
	return r.Reader.Get(ctx, key, object, opts...)
}

func (r *countingReader) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	r.gets++
	return r.Reader.List(ctx, list, opts...)
}
