package snapshot

import (
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
